"""Planner: make the best plan for a person, from files, notes and rules, through tools."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from rlvr.envs.agentic.planning.delivery import Delivery
from rlvr.envs.agentic.planning.loading import Loading
from rlvr.envs.agentic.planning.problem import Plan, PlanProblem, PlanRule, best, entries_of, greedy, written
from rlvr.envs.agentic.planning.rota import Rota
from rlvr.envs.agentic.planning.stock import Stock
from rlvr.envs.core.seeding import split_of, stream
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool

FAMILIES: Final[dict[str, type[PlanProblem[Any]]]] = {each.__name__: each for each in (Delivery, Loading, Rota, Stock)}
NOTES: Final = "notes.txt"


class PlannerLevel(NamedTuple):
    """How many rules stand in the request and in the notes, how many notes are corrected, and the calls allowed."""

    asked: int
    noted: int
    corrected: int
    calls: int


LEVELS: Final = (
    PlannerLevel(1, 0, 0, 7),
    PlannerLevel(2, 0, 0, 7),
    PlannerLevel(1, 2, 0, 8),
    PlannerLevel(1, 3, 1, 8),
    PlannerLevel(1, 4, 2, 8),
)


class PlanKey(NamedTuple):
    """What names a task: everything else is drawn from it."""

    level: int
    family: str
    seed: int

    @property
    def content(self) -> str:
        """What decides the split, of values alone."""
        return f"PlanKey(level={self.level}, family={self.family!r}, seed={self.seed})"

    @property
    def split(self) -> str:
        """The split whose kinds of rules it may have."""
        return split_of(self.content)


class PlanRequest(NamedTuple):
    """A problem, the rules that ``check_plan`` knows, the notes, and the least cost and a plan of that cost."""

    problem: PlanProblem[Any]
    asked: tuple[PlanRule, ...]
    notes: tuple[str, ...]
    cost: int
    plan: Plan


class UnsuitablePlan(Exception):
    """What was drawn is no task of its level."""


@lru_cache(maxsize=512)
def request_of(key: PlanKey) -> PlanRequest:
    """The task of a key: drawn again until its rules matter and taking the cheapest at each step is not enough."""
    rng = random.Random(stream("rlvr/Planner-v0", *key).getrandbits(64))
    while True:
        try:
            return _drawn(rng, key)
        except UnsuitablePlan:
            pass


def _drawn(rng: random.Random, key: PlanKey) -> PlanRequest:
    family, level = FAMILIES[key.family], LEVELS[key.level - 1]
    held_out = [kind for kind, split in family.held_out.items() if split == key.split]
    count = level.asked + level.noted
    kinds = rng.sample((*family.kinds, *family.kinds), count - bool(held_out))
    kinds += [rng.choice(held_out)] if held_out else []
    rng.shuffle(kinds)
    problem = family(rng, family.sizes[key.level - 1], kinds)
    if len(problem.rules) < count:
        raise UnsuitablePlan
    asked = problem.rules[: level.asked]
    found, overlooked = best(problem), best(problem.under(asked if level.noted else ()))
    # Who overlooks the notes, or the rules where there are no notes, has a plan that only seems to be better.
    if not found or not overlooked or overlooked[0] >= found[0] or _is_best(problem, overlooked[1], found[0]):
        raise UnsuitablePlan
    if key.level > 1 and greedy(problem) == found[0]:
        raise UnsuitablePlan
    return PlanRequest(problem, asked, _notes(rng, problem, found[0], level), *found)


def _is_best(problem: PlanProblem[Any], plan: Plan, cost: int) -> bool:
    return problem.cost(plan) == cost and not problem.fault(plan, problem.rules)


def _notes(rng: random.Random, problem: PlanProblem[Any], cost: int, level: PlannerLevel) -> tuple[str, ...]:
    """A note for each rule; of those that are corrected, another one of the same kind comes first.

    Raises:
        UnsuitablePlan: who overlooks the corrections may still find a best plan.
    """
    rules, corrected = problem.rules[level.asked :], level.corrected
    stale: list[tuple[PlanRule, PlanRule]] = []
    for rule in rng.sample(rules, len(rules)):
        other = problem.rule(rule.kind, rng, fits=False) if len(stale) < corrected else None
        if other and other.text != rule.text:
            stale.append((other, rule))
    if len(stale) < corrected:
        raise UnsuitablePlan
    late = [rule for _, rule in stale]
    if stale:
        kept = [rule for rule in problem.rules if rule not in late]
        overlooked = best(problem.under([*kept, *(other for other, _ in stale)]))
        if overlooked and _is_best(problem, overlooked[1], cost):
            raise UnsuitablePlan
    first = [other.text for other, _ in stale] + [rule.text for rule in rules if rule not in late]
    rng.shuffle(first)
    last = [f"Note {first.index(o.text) + 1} no longer holds. Instead: {rule.text}" for o, rule in stale]
    return (*first, *last)


class PlannerWorld(NamedTuple):
    """The task; what was looked at changes nothing."""

    key: PlanKey


def _files(request: PlanRequest) -> dict[str, str]:
    notes = "\n".join(f"Note {number}: {text}" for number, text in enumerate(request.notes, 1))
    return {**request.problem.tables, **({NOTES: notes} if notes else {})}


def list_files(world: PlannerWorld) -> str:
    """The files that belong to the request."""
    return "\n".join(_files(request_of(world.key)))


def read_file(world: PlannerWorld, name: str) -> str:
    """Read a file.

    Args:
        name: a name that list_files gives.
    """
    files = _files(request_of(world.key))
    if name not in files:
        raise ToolError(f"there is no file {name[:64]!r}; there are {', '.join(files)}")
    return files[name]


def check_plan(world: PlannerWorld, plan: str) -> str:
    """What a plan costs, and whether it keeps the rules of the request. It knows the tables, but not the notes.

    Args:
        plan: the plan, written as in the answer.
    """
    request = request_of(world.key)
    entries = request.problem.read(entries_of(plan))
    if fault := request.problem.fault(entries, request.asked):
        return f"The plan breaks this: {fault}"
    return f"The plan is possible by what I know, and costs {request.problem.cost(entries)} {request.problem.unit}."


class Planner(ToolTask[PlannerWorld]):
    """Make the plan that costs least and keeps every rule: rounds of a van, boxes, rotas, orders of goods.

    Levels 1 to 5: 3 things or so and one rule; more things and two rules; rules in notes that the checking tool does
    not know; a note that is corrected later; 7 or 8 things and five rules, two of them corrected.

    Observation: what a person wants planned; then what each call gave.
    Actions: a call of ``list_files``, ``read_file`` or ``check_plan``; any other reply is the answer.
    Reward: 1 if the plan keeps every rule and none that does costs less, else 0. ``gap`` of the verdict's parts is by
    how much a possible plan costs more than the best, as a share.
    Episode end: an answer, or the turns are used up.

    Args:
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(LEVELS)
    task = (
        "You make plans for people. A plan has to keep every rule of the request and of the notes, where there are "
        "any, and to cost as little as a plan can that keeps them. Read the files first. Give the plan in \\boxed{}."
    )
    toolset: ClassVar[Sequence[Tool]] = tuple(tool(each, given=1) for each in (list_files, read_file, check_plan))

    def begin(self, rng: random.Random, level: int) -> PlannerWorld:
        """Draws a family and a seed; everything else follows from these when it is needed."""
        return PlannerWorld(PlanKey(level, rng.choice(tuple(FAMILIES)), rng.getrandbits(48)))

    def budget(self, level: int) -> int:
        """Calls enough to read all files and to check some plans."""
        return LEVELS[level - 1].calls

    def content(self, state: Session[PlannerWorld]) -> str:
        """The key, whose split decides which kinds of rules there may be."""
        return state.world.key.content

    def difficulty(self, state: Session[PlannerWorld]) -> float:
        """What is to be planned, times the rules and the notes."""
        request = request_of(state.world.key)
        planned = sum(len(items) for _, items in request.plan)
        return float(planned * (len(request.problem.rules) + len(request.notes)))

    def opened(self, world: PlannerWorld, level: int) -> Session[PlannerWorld]:
        """The request is drawn when it is shown: most draws are of another split."""
        return Session(world, "", 0, self._allowed(level))

    def observe(self, state: Session[PlannerWorld]) -> str:
        """The request, or a tool's output."""
        return state.observation or self.ask(state.world)

    def ask(self, world: PlannerWorld) -> str:
        """What a person wants planned, with the rules that they think of at once."""
        request = request_of(world.key)
        rules = " ".join(rule.text for rule in request.asked)
        notes = (
            f" What else has to be kept stands in {NOTES}; a later note may change an earlier one."
            if request.notes
            else ""
        )
        return f"{request.problem.story}\n{rules}{notes}\nAnswer with {request.problem.answer}."

    def judge(self, world: PlannerWorld, reply: str) -> Verdict:
        """Whether the boxed plan keeps all rules and costs as little as the best one."""
        request = request_of(world.key)
        extraction = extract(reply)
        if extraction.answer is None:
            return unparsable(extraction.reason)
        try:
            plan = request.problem.read(entries_of(extraction.answer))
        except ToolError as error:
            return unparsable(str(error), extraction.answer[:200])
        answer = written(plan)
        if fault := request.problem.fault(plan, request.problem.rules):
            return wrong(answer, f"the plan breaks this: {fault}")
        cost = request.problem.cost(plan)
        if cost > request.cost:
            reason = f"it costs {cost} {request.problem.unit}, and {request.cost} are possible"
            return Verdict(0.0, "wrong", answer, reason, {"gap": cost / max(request.cost, 1) - 1})
        return correct(answer, f"no plan costs less than {cost} {request.problem.unit}").replace(parts={"gap": 0.0})

    def plan(self, session: Session[PlannerWorld]) -> Call | str:
        """Lists the files, reads each, checks the best plan, and answers with it."""
        request = request_of(session.world.key)
        calls = [Call("list_files", {}), *(Call("read_file", {"name": name}) for name in _files(request))]
        calls.append(Call("check_plan", {"plan": written(request.plan)}))
        if session.calls < min(len(calls), session.budget):
            return calls[session.calls]
        return f"\\boxed{{{written(request.plan)}}}"

    def direct_answer(self, state: Session[PlannerWorld]) -> str:
        """The best plan, without a look at the files."""
        return f"\\boxed{{{written(request_of(state.world.key).plan)}}}"
