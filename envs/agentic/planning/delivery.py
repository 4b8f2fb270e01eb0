"""The rounds of a van: the hour of return is to be early."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import hypot
from typing import ClassVar

from rlvr.envs.agentic.planning.problem import Plan, PlanProblem, PlanRule, broken, clock, csv, each_once, known
from rlvr.envs.tools import ToolError

STOPS = "bakery school mill harbour clinic library market museum station theatre farm hotel".split()
BREAK = 45  # minutes
Driven = tuple[int, int]  # the stops that are done (a bit for each), and the last one; the cost is the time that passed


class Delivery(PlanProblem[Driven]):
    """In which order a van goes to its stops."""

    kinds = ("opens", "closes", "before", "not_next", "early")
    held_out: ClassVar[Mapping[str, str]] = {"straight": "validation", "last": "test", "pause": "test"}
    sizes = (3, 5, 6, 7, 8)
    answer = "the stops in their order with commas between them, as in \\boxed{school, mill, harbour}"
    unit = "minutes"
    texts: ClassVar[Mapping[str, str]] = {
        "opens": "The {} opens at {}; whoever comes earlier has to wait.",
        "closes": "At the {} unloading has to begin by {} at the latest.",
        "before": "I have to have been at the {} before I go to the {}.",
        "not_next": "Please do not send me from the {} straight to the {} or back: the crates would mix.",
        "early": "The {} has to be one of the first {} stops.",
        "straight": "What I pick up at the {} is frozen: from there I drive straight to the {}.",
        "last": "The {} has to be the last stop.",
        "pause": "No unloading is begun between {} and {}; whoever arrives in that time waits until it is over.",
    }

    def draw(self, rng: random.Random, size: int) -> None:
        self.names = rng.sample(STOPS, size)
        points = [(rng.randint(0, 40), rng.randint(0, 40)) for _ in range(size + 1)]  # the last one is the depot
        self.between = [[round(hypot(a - c, b - d)) + 3 * ((a, b) != (c, d)) for c, d in points] for a, b in points]
        self.minutes = [rng.choice((5, 10, 15, 20)) for _ in range(size)]
        self.first = 60 * rng.randint(7, 10)
        self.order = rng.sample(range(size), size)
        self.start = (0, size)
        columns = [*self.names, "depot"]
        self.story = (
            f"I leave the depot with the van at {clock(self.first)}, go to every stop of stops.csv once, and come back "
            "to the depot. How long unloading takes at each stop is in that file; the minutes of driving from one "
            "point to another are in driving.csv. In which order should I go, so that I am back as early as possible?"
        )
        driving = [(name, *row) for name, row in zip(columns, self.between, strict=True)]
        self.tables = {
            "stops.csv": csv(("stop", "unloading_minutes"), list(zip(self.names, self.minutes, strict=True))),
            "driving.csv": csv(("from/to", *columns), driving),
        }

    def _begin(self, item: int, minute: int) -> int:
        """When unloading begins after an arrival: rules may let the van wait."""
        for name, opens in self.of_kind("opens"):
            minute = max(minute, opens) if name == self.names[item] else minute
        for start, end in self.of_kind("pause"):
            minute = end if start <= minute < end else minute
        return minute

    def begins(self, order: Sequence[int]) -> list[int]:
        """When unloading begins at each stop of an order."""
        minute, last, begins = self.first, len(self.names), []
        for item in order:
            minute = self._begin(item, minute + self.between[last][item])
            begins.append(minute)
            minute, last = minute + self.minutes[item], item
        return begins

    def rule(self, kind: str, rng: random.Random, fits: bool) -> PlanRule | None:
        order = list(self.order) if fits else rng.sample(self.order, len(self.order))
        at, begins = rng.randrange(len(order) - 1), self.begins(order)
        a, b, later = (self.names[order[i]] for i in (at, at + 1, rng.randrange(at + 1, len(order))))
        far = [self.names[item] for i, item in enumerate(order) if abs(i - at) > 1]
        minute, noon = begins[at] // 5 * 5, begins[at] // 60 * 60
        is_free = not any(noon <= begin < noon + BREAK for begin in begins)
        values: tuple[str | int, ...] | None = {
            "opens": (a, minute),
            "closes": (a, minute + 5),
            "before": (a, later),
            "not_next": (a, rng.choice(far)) if far else None,
            "early": (a, max(at + 1, 2)) if at + 2 < len(order) else None,
            "straight": (a, b),
            "last": (self.names[order[-1]],),
            "pause": (noon, noon + BREAK) if is_free or not fits else None,
        }[kind]
        if values is None or any(rule.kind == kind and {*values} & {*rule.values} for rule in self.rules):
            return None
        is_clock = kind in ("opens", "closes", "pause")
        shown = [clock(each) if is_clock and isinstance(each, int) else each for each in values]
        return PlanRule(kind, values, self.texts[kind].format(*shown))

    def _allowed(self, done: int, last: int, item: int, begin: int) -> bool:
        """Whether a stop may come then, after others of which one was the last."""
        name, count = self.names[item], done.bit_count()
        before = self.names[last] if last < len(self.names) else ""
        for kind, values, _ in self.rules:
            a, b = (*values, None)[:2]
            match kind:
                case "closes" if a == name and begin > b:
                    return False
                case "before" if b == name and not done >> self.names.index(a) & 1:
                    return False
                case "not_next" if {a, b} == {name, before}:
                    return False
                case "early" if a == name and count >= b:
                    return False
                case "straight" if (b == name) != (a == before):
                    return False
                case "last" if (a == name) != (count == len(self.names) - 1):
                    return False
        return True

    def moves(self, state: Driven, cost: int) -> Iterator[tuple[int, int, Driven | None]]:
        done, last = state
        now, depot = self.first + cost, len(self.names)
        if done.bit_count() == depot:
            yield -1, self.between[last][depot], None
        for item in range(depot):
            if not done >> item & 1:
                begin = self._begin(item, now + self.between[last][item])
                if self._allowed(done, last, item, begin):
                    yield item, begin + self.minutes[item] - now, (done | 1 << item, item)

    def as_plan(self, decisions: Sequence[int]) -> Plan:
        return (("", tuple(self.names[item] for item in decisions if item >= 0)),)

    def read(self, entries: Plan) -> Plan:
        if len(entries) != 1 or entries[0][0]:
            raise ToolError("the plan is one list of stops with commas between them")
        names = tuple(known(name, self.names, "stop") for name in entries[0][1])
        each_once(names, self.names, "stop")
        return (("", names),)

    def fault(self, plan: Plan, rules: Sequence[PlanRule]) -> str:
        names = list(plan[0][1])
        begins = dict(zip(names, self.begins([self.names.index(name) for name in names]), strict=True))
        at = {name: number for number, name in enumerate(names, 1)}
        kept: dict[str, Callable[..., bool]] = {
            "closes": lambda a, latest: begins[a] <= latest,
            "before": lambda a, b: at[a] < at[b],
            "not_next": lambda a, b: abs(at[a] - at[b]) != 1,
            "early": lambda a, most: at[a] <= most,
            "straight": lambda a, b: at[b] - at[a] == 1,
            "last": lambda a: names[-1] == a,
        }
        return broken(rules, kept)

    def cost(self, plan: Plan) -> int:
        order = [self.names.index(name) for name in plan[0][1]]
        return self.begins(order)[-1] + self.minutes[order[-1]] + self.between[order[-1]][-1] - self.first
