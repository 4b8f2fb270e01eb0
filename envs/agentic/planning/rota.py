"""A rota: who works which shift. The wages are to be low."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from rlvr.envs.agentic.planning.problem import Plan, PlanProblem, PlanRule, broken, csv, each_once, known
from rlvr.envs.tools import ToolError

PEOPLE = "Ada Ben Cleo Dan Eve Finn Gus Hana Ivo Jill".split()
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
Worked = tuple[tuple[int, ...], int]  # the shifts that each person has, and who has the last one; -1 at first


class Rota(PlanProblem[Worked]):
    """One person for each shift, two shifts a day."""

    kinds = ("most", "rest", "away", "skilled", "least")
    held_out: ClassVar[Mapping[str, str]] = {"never_both": "validation", "guided": "test", "fair": "test"}
    sizes = (1, 2, 3, 3, 4)
    answer = "the shifts with their people, as in \\boxed{Monday early: Ada; Monday late: Ben}"
    unit = "euros"
    texts: ClassVar[Mapping[str, str]] = {
        "most": "{} does not want to work more than {} of these shifts.",
        "rest": "Nobody may work two shifts directly one after the other, overnight included.",
        "away": "{} cannot work on {}.",
        "skilled": "Whoever works on {} has to have a licence.",
        "least": "{} was promised at least {} of these shifts.",
        "never_both": "{} and {} must not work on the same day; they quarrel.",
        "guided": "{} is new, and works only on days on which {} works too.",
        "fair": "Nobody may have more than {} shifts more than anybody else.",
    }

    def draw(self, rng: random.Random, size: int) -> None:
        first = rng.randrange(len(DAYS))
        self.days = [DAYS[(first + day) % 7] for day in range(size)]
        self.shifts = [f"{day} {half}" for day in self.days for half in ("early", "late")]
        self.names = rng.sample(PEOPLE, 3 if size <= 2 else 4)
        self.wages = [[rng.randint(40, 90) for _ in self.names] for _ in self.shifts]
        self.skilled = sorted(rng.sample(self.names, 2))
        self.hidden: list[int] = []
        for _ in self.shifts:
            self.hidden.append(rng.choice([at for at in range(len(self.names)) if at not in self.hidden[-1:]]))
        self.start = ((0,) * len(self.names), -1)
        self.story = (
            f"I need one person for each of {len(self.shifts)} shifts. What each of my {len(self.names)} people asks "
            "for each shift, in euros, is in wages.csv; who has a licence is in people.csv. Who should work when, so "
            "that I pay as little as possible?"
        )
        licences = [(name, "yes" if name in self.skilled else "no") for name in self.names]
        self.tables = {
            "wages.csv": csv(
                ("shift", *self.names), [(shift, *row) for shift, row in zip(self.shifts, self.wages, strict=True)]
            ),
            "people.csv": csv(("person", "licence"), licences),
        }

    def rule(self, kind: str, rng: random.Random, fits: bool) -> PlanRule | None:
        hidden = self.hidden if fits else rng.choices(range(len(self.names)), k=len(self.hidden))
        at, other = rng.sample(range(len(self.names)), 2)
        a, b, day = self.names[at], self.names[other], rng.randrange(len(self.days))
        count = [hidden.count(each) for each in range(len(self.names))]
        pairs = [set(hidden[i : i + 2]) for i in range(0, len(hidden), 2)]
        licensed = {self.names[each] for each in pairs[day]} <= {*self.skilled}
        values = {
            "most": (a, max(count[at], 1)),
            "rest": (),
            "away": (a, self.days[day]) if at not in pairs[day] else None,
            "skilled": (self.days[day],) if licensed or not fits else None,
            "least": (a, count[at]) if count[at] else None,
            "never_both": (a, b) if not any({at, other} <= pair for pair in pairs) else None,
            "guided": (a, b) if all(other in pair for pair in pairs if at in pair) else None,
            "fair": (max(max(count) - min(count), 1),),
        }[kind]
        if values is None or any(rule.kind == kind and rule.values[:1] == values[:1] for rule in self.rules):
            return None
        text = self.texts[kind].format(*values).replace("1 of these", "one of these").replace(" 1 shifts", " one shift")
        return PlanRule(kind, values, text)

    def _allowed(self, counts: Sequence[int], last: int, person: int) -> bool:
        """Whether a person may have the next shift."""
        shift = sum(counts)
        name, before = self.names[person], self.names[last] if last >= 0 else ""
        day, late = self.days[shift // 2], shift % 2 == 1
        for kind, values, _ in self.rules:
            a, b = (*values, "", "")[:2]
            match kind:
                case "most" if a == name and counts[person] >= b:
                    return False
                case "rest" if name == before:
                    return False
                case "away" if (a, b) == (name, day):
                    return False
                case "skilled" if a == day and name not in self.skilled:
                    return False
                case "never_both" if late and {a, b} == {name, before}:
                    return False
                case "guided" if late and a in (name, before) and b not in (name, before):
                    return False
        return True

    def _may_end(self, counts: Sequence[int]) -> bool:
        lowest = all(counts[self.names.index(name)] >= least for name, least in self.of_kind("least"))
        return lowest and all(max(counts) - min(counts) <= gap for (gap,) in self.of_kind("fair"))

    def moves(self, state: Worked, cost: int) -> Iterator[tuple[int, int, Worked | None]]:
        counts, last = state
        shift = sum(counts)
        for person in range(len(self.names)):
            if self._allowed(counts, last, person):
                after = tuple(count + (each == person) for each, count in enumerate(counts))
                is_over = shift + 1 == len(self.shifts)
                if not is_over or self._may_end(after):
                    yield person, self.wages[shift][person], None if is_over else (after, person)

    def as_plan(self, decisions: Sequence[int]) -> Plan:
        return tuple((shift, (self.names[each],)) for shift, each in zip(self.shifts, decisions, strict=True))

    def read(self, entries: Plan) -> Plan:
        people = {}
        for label, names in entries:
            if len(names) != 1:
                raise ToolError("each shift of the plan has one person")
            people[known(label, self.shifts, "shift")] = known(names[0], self.names, "person")
        each_once([known(label, self.shifts, "shift") for label, _ in entries], self.shifts, "shift")
        return tuple((shift, (people[shift],)) for shift in self.shifts)

    def fault(self, plan: Plan, rules: Sequence[PlanRule]) -> str:
        people = [names[0] for _, names in plan]
        on = {day: {*people[2 * at : 2 * at + 2]} for at, day in enumerate(self.days)}
        counts = [people.count(name) for name in self.names]
        kept: dict[str, Callable[..., bool]] = {
            "most": lambda a, most: people.count(a) <= most,
            "rest": lambda: all(one != other for one, other in itertools.pairwise(people)),
            "away": lambda a, day: a not in on[day],
            "skilled": lambda day: on[day] <= {*self.skilled},
            "least": lambda a, least: people.count(a) >= least,
            "never_both": lambda a, b: not any({a, b} <= each for each in on.values()),
            "guided": lambda a, b: not any(a in each and b not in each for each in on.values()),
            "fair": lambda gap: max(counts) - min(counts) <= gap,
        }
        return broken(rules, kept)

    def cost(self, plan: Plan) -> int:
        return sum(row[self.names.index(names[0])] for row, (_, names) in zip(self.wages, plan, strict=True))
