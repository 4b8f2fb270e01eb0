"""What the families of planning problems share: rules, how a plan is written, and the exact search for the best one.

A problem is a row of decisions. ``moves`` says which are possible after a state and what each adds to the cost. Ways
to one state are compared by their cost alone: the search is dynamic programming, and its optimum is proven.
``fault`` and ``cost`` judge a whole plan by code of their own; only when a van may unload is computed once for both.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from rlvr.envs.tools import ToolError

S = TypeVar("S", bound=Hashable)
Plan = tuple[tuple[str, tuple[str, ...]], ...]  # entries: a label, which may be empty, and what stands behind it
MAX_ENTRIES = 64


class PlanRule(NamedTuple):
    """A rule: its kind, what it speaks of, and the sentence that says so."""

    kind: str
    values: tuple[Any, ...]
    text: str


class PlanProblem(Generic[S]):
    """A problem of one family.

    Args:
        rng: draws everything.
        size: how many things are to be planned.
        kinds: the kinds of its rules, in the order in which they are drawn; one that fits no rule is left out.

    Attributes:
        kinds: the kinds of rules of the train split.
        held_out: other kinds, with the split in which alone they occur.
        sizes: ``size`` by level.
        answer: how a plan is written.
        story: who asks for what, and what is to be as low as possible.
        tables: the files, by name.
        rules: all hold for some plan, which the rules were drawn around.
        start: the first state.
    """

    kinds: ClassVar[Sequence[str]]
    held_out: ClassVar[Mapping[str, str]]
    sizes: ClassVar[Sequence[int]]
    answer: ClassVar[str]
    unit: ClassVar[str]
    story: str
    tables: Mapping[str, str]
    start: S

    def __init__(self, rng: random.Random, size: int, kinds: Sequence[str]) -> None:
        self.rules: tuple[PlanRule, ...] = ()
        self.draw(rng, size)
        for kind in kinds:
            rule = self.rule(kind, rng, fits=True)
            self.rules = (*self.rules, rule) if rule else self.rules

    def draw(self, rng: random.Random, size: int) -> None:
        """Data, and the plan that all rules are to allow."""
        raise NotImplementedError

    def rule(self, kind: str, rng: random.Random, fits: bool) -> PlanRule | None:
        """A rule of a kind; one that the plan behind the problem keeps, if ``fits``. None where there is none."""
        raise NotImplementedError

    def moves(self, state: S, cost: int) -> Iterator[tuple[Any, int, S | None]]:
        """The decisions that are possible: each with what it costs and the state after it, None at the end."""
        raise NotImplementedError

    def as_plan(self, decisions: Sequence[Any]) -> Plan:
        """The plan that a row of decisions is."""
        raise NotImplementedError

    def read(self, entries: Plan) -> Plan:
        """A plan as it was written, with the names as they stand in the tables.

        Raises:
            ToolError: it is no plan of this problem.
        """
        raise NotImplementedError

    def fault(self, plan: Plan, rules: Sequence[PlanRule]) -> str:
        """The first of the rules, or of what goes without saying, that a plan breaks; "" if it keeps all."""
        raise NotImplementedError

    def cost(self, plan: Plan) -> int:
        """What a plan costs, whatever it breaks."""
        raise NotImplementedError

    def under(self, rules: Sequence[PlanRule]) -> Self:
        """The same problem with other rules."""
        other = copy(self)
        other.rules = tuple(rules)
        return other

    def of_kind(self, kind: str) -> Iterator[tuple[Any, ...]]:
        """The values of the rules of a kind."""
        return (rule.values for rule in self.rules if rule.kind == kind)


def best(problem: PlanProblem[Any]) -> tuple[int, Plan] | None:
    """The least cost of any plan and a plan of that cost; None if no plan keeps the rules."""
    layer: dict[Any, tuple[int, tuple[Any, ...]]] = {problem.start: (0, ())}
    ends: list[tuple[int, tuple[Any, ...]]] = []
    while layer:
        after: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        for state, (cost, decisions) in layer.items():
            for decision, added, following in problem.moves(state, cost):
                reached = (cost + added, (*decisions, decision))
                if following is None:
                    ends.append(reached)
                elif following not in after or reached[0] < after[following][0]:
                    after[following] = reached
        layer = after
    if not ends:
        return None
    cost, decisions = min(ends, key=lambda end: end[0])
    return cost, problem.as_plan(decisions)


def greedy(problem: PlanProblem[Any]) -> int | None:
    """The cost of taking the cheapest decision each time; None where that ends in a rule."""
    state, cost = problem.start, 0
    while state is not None:
        possible = list(problem.moves(state, cost))
        if not possible:
            return None
        _, added, state = min(possible, key=lambda move: move[1])
        cost += added
    return cost


def broken(rules: Sequence[PlanRule], kept: Mapping[str, Callable[..., bool]]) -> str:
    """The first rule that is not kept by what is said of its kind; "" if all are. A kind may be kept by the costs."""
    return next((each.text for each in rules if each.kind in kept and not kept[each.kind](*each.values)), "")


def entries_of(text: str) -> Plan:
    """The entries of a written plan: ``a, b`` or ``label: a, b; label: c``.

    Raises:
        ToolError: there are too many.
    """
    parts = [part for part in text.replace("\n", ";").split(";") if part.strip()]
    if not parts or len(parts) > MAX_ENTRIES or text.count(",") > MAX_ENTRIES:
        raise ToolError(f"a plan has 1 to {MAX_ENTRIES} entries")
    entries = []
    for part in parts:
        label, colon, names = part.rpartition(":")
        items = tuple(" ".join(name.split()) for name in names.split(",") if name.strip())
        entries.append((" ".join(label.split()) if colon else "", items))
    return tuple(entries)


def written(plan: Plan) -> str:
    """A plan as it is to be written."""
    return "; ".join(f"{label}: {', '.join(items)}" if label else ", ".join(items) for label, items in plan)


def known(name: str, names: Sequence[str], noun: str) -> str:
    """The name among the names that is equal to it but for capitals.

    Raises:
        ToolError: there is none.
    """
    for each in names:
        if each.casefold() == name.casefold():
            return each
    raise ToolError(f"there is no {noun} {name[:40]!r}; there are {', '.join(names)}")


def each_once(named: Sequence[str], names: Sequence[str], noun: str) -> None:
    """Raise ToolError unless each of the names is named once."""
    for name in names:
        if named.count(name) != 1:
            raise ToolError(
                f"the {noun} {name} stands {named.count(name)} times in the plan, and must stand there once"
            )


def csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with commas."""
    return "\n".join(",".join(map(str, row)) for row in (header, *rows))


def clock(minute: int) -> str:
    """A minute of the day, as 09:05."""
    return f"{minute // 60:02}:{minute % 60:02}"
