"""Build plans: which targets have to be made anew, and in which order."""

from rlvr.envs.agentic.repository_numbers.caches import Cache
from rlvr.envs.agentic.repository_numbers.graphs import RoadGraph
from rlvr.envs.agentic.repository_texts.matching import nearest, select


class BuildPlan:
    """Targets that depend on others or on files; times say when something was last changed."""

    def __init__(self) -> None:
        self._needs: dict[str, list[str]] = {}
        self._times: dict[str, int] = {}
        self._seconds: dict[str, int] = {}

    def target(self, name: str, needs: list[str], seconds: int) -> None:
        """Add a target that takes so many seconds to make; ValueError if it is there already."""
        if name in self._needs:
            raise ValueError(f"{name} is there already")
        self._needs[name] = list(needs)
        self._seconds[name] = seconds

    def touch(self, name: str, time: int) -> None:
        """Say that a file, or a target, was changed at a time."""
        self._times[name] = time

    def _graph(self) -> RoadGraph:
        graph = RoadGraph()
        for name, needs in self._needs.items():
            graph.add_point(name)
            for other in needs:
                graph.add_edge(other, name, self._seconds[name])
        return graph

    def stale(self) -> list[str]:
        """The targets to be made, in order: those never made, older than what they need, or that need a stale one."""
        result: list[str] = []
        for name in self._graph().in_order():
            if name not in self._needs:
                continue
            made = self._times.get(name)
            if made is None or any(other in result or self._times.get(other, 0) > made for other in self._needs[name]):
                result.append(name)
        return result

    def seconds(self) -> int:
        """How long it takes to make all that is stale, one after another."""
        return sum(self._seconds[name] for name in self.stale())

    def finished_at(self) -> dict[str, int]:
        """When each target is made if all are made, each as soon as what it needs is there."""
        finished: dict[str, int] = {}
        for name in self._graph().in_order():
            if name in self._needs:
                start = max([finished.get(other, 0) for other in self._needs[name]], default=0)
                finished[name] = start + self._seconds[name]
        return finished

    def find(self, name: str) -> str:
        """The target of a name; KeyError with the nearest name, if one is at most two signs away, if there is none."""
        if name in self._needs:
            return name
        raise KeyError(nearest(name, sorted(self._needs), 2))

    def chosen(self, patterns: list[str]) -> list[str]:
        """The targets that patterns choose, in the order in which they are made."""
        order = [name for name in self._graph().in_order() if name in self._needs]
        return select(patterns, order)


def cached_runs(names: list[str], size: int, lifetime: int) -> list[bool]:
    """For each of these targets, one a second, whether its result was still in a cache; if not, it is put in."""
    cache, results = Cache(size, lifetime), []
    for time, name in enumerate(names):
        hit = cache.get(name, time) is not None
        if not hit:
            cache.put(name, name, time)
        results.append(hit)
    return results


MODULE = ("builds", "build_plans", "making")
ALIASES = {"BuildPlan": ("MakePlan",), "cached_runs": ("cache_hits",)}
SCENARIOS = (
    "plan = BuildPlan()\nplan.target('b', ['a'], <1..9>)\nplan.target('c', ['<a|b>'], <1..9>)\n"
    "plan.touch('a', <3..6>)\n"
    "plan.touch('b', <3..6>)\nplan.touch('c', <3..6>)\n(plan.stale(), plan.seconds())",
    "plan = BuildPlan()\nplan.target('c', ['b', 'x'], 2)\nplan.target('b', ['y'], 3)\nplan.touch('<x|y>', 9)\n"
    "plan.touch('b', 5)\n"
    "plan.touch('c', <6..9>)\nplan.stale()",
    "plan = BuildPlan()\nplan.target('a', [], <1..9>)\nplan.target('b', [], <1..9>)\n"
    "plan.target('c', ['a', '<a|b>'], <1..9>)\n"
    "plan.target('d', ['c', 'b'], 1)\nplan.finished_at()",
    "plan = BuildPlan()\nplan.target('a', ['<b|x>'], 1)\nplan.target('b', ['a'], 1)\nplan.stale()",
    "plan = BuildPlan()\nplan.target('a', [], 1)\nplan.target('<a|b>', [], <2..5>)\nplan.seconds()",
    "plan = BuildPlan()\nfor name in <5*w>:\n    plan.target(name, [], 1)\nplan.chosen(['*<e|a>*', '!<a|b|c|d>*'])",
    "plan = BuildPlan()\nplan.target('tests', [], 1)\nplan.target('docs', ['tests'], 1)\nplan.find('<tests|docs|doc>')",
    "cached_runs([name for name in '<abcabc|aabbcc|abacab><aa|ab|bc>'], <1..3>, <2..9>)",
    "needs = ['a']\nplan = BuildPlan()\nplan.target('b', needs, <1..9>)\nneeds.append('b')\n"
    "(plan.stale(), plan.seconds())",
)
