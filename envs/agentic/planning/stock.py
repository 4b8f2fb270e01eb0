"""Orders of goods over days: what they and the store cost is to be low."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from rlvr.envs.agentic.planning.problem import Plan, PlanProblem, PlanRule, broken, csv, each_once, known
from rlvr.envs.agentic.planning.rota import DAYS
from rlvr.envs.tools import ToolError

GOODS = "tyres pumps filters doors chairs panels stoves bikes".split()
# Days that are over, pieces in store, orders so far, whether the day before had one.
Stored = tuple[int, int, int, bool]


class Stock(PlanProblem[Stored]):
    """How many pieces are ordered each day."""

    kinds = ("store", "lots", "closed", "orders", "minimum")
    held_out: ClassVar[Mapping[str, str]] = {"reserve": "validation", "apart": "test", "maximum": "test"}
    sizes = (3, 4, 5, 6, 7)
    answer = "the days with what is ordered, 0 included, as in \\boxed{Monday: 5; Tuesday: 0; Wednesday: 3}"
    unit = "euros"
    texts: ClassVar[Mapping[str, str]] = {
        "store": "I have space for at most {} pieces overnight.",
        "lots": "The supplier sells only whole packs of {} pieces.",
        "closed": "The supplier delivers nothing on {}.",
        "orders": "I cannot take more than {} deliveries in these days.",
        "minimum": "The supplier does not come for fewer than {} pieces at a time.",
        "reserve": "After the last day there have to be at least {} pieces left in the store.",
        "apart": "The supplier never comes on two days that follow each other.",
        "maximum": "The van of the supplier holds at most {} pieces.",
    }

    def draw(self, rng: random.Random, size: int) -> None:
        first = rng.randrange(len(DAYS))
        self.days = [DAYS[(first + day) % 7] for day in range(size)]
        self.demand = [rng.randint(1, 5) for _ in range(size)]
        self.prices = [rng.randint(4, 12) for _ in range(size)]
        self.fee, self.keeping = rng.randint(5, 15), rng.randint(1, 2)
        days = sorted({0, *rng.sample(range(size), rng.randint(1, max(size // 2, 1)))})
        self.hidden = [0] * size
        for at, until in zip(days, [*days[1:], size], strict=True):
            self.hidden[at] = sum(self.demand[at:until])
        self.start = (0, 0, 0, False)
        self.story = (
            f"My store of {rng.choice(GOODS)} is empty. How many pieces are sold each day, and what a piece costs that "
            f"is delivered on that day, is in days.csv. Each delivery costs {self.fee} euros besides, and comes before "
            f"the shop opens. Each piece that is left in the evening costs {self.keeping} "
            f"{'euro' if self.keeping == 1 else 'euros'} for the night. How many should I order for each day, so that "
            "nothing is missing and I pay as little as possible in all?"
        )
        rows = list(zip(self.days, self.demand, self.prices, strict=True))
        self.tables = {"days.csv": csv(("day", "pieces_sold", "euros_a_piece"), rows)}

    def rule(self, kind: str, rng: random.Random, fits: bool) -> PlanRule | None:
        hidden = self.hidden
        used = [each for each in hidden if each]
        left = [sum(hidden[: at + 1]) - sum(self.demand[: at + 1]) for at in range(len(hidden))]
        free = [day for day, each in zip(self.days, hidden, strict=True) if not each or not fits]
        follow = any(a and b for a, b in itertools.pairwise(hidden))
        extra = 0 if fits else rng.randint(1, 3)
        packs = [pack for pack in (2, 3, 4, 5) if all(each % pack == 0 for each in used) or not fits]
        values = {
            "store": (max(*left, 1) + extra,),
            "lots": (rng.choice(packs),) if packs else None,
            "closed": (rng.choice(free),) if free else None,
            "orders": (max(len(used), 1) + extra,),
            "minimum": (min(used) + extra,) if min(used) + extra > 1 else None,
            "reserve": None,
            "apart": None if fits and follow else (),
            "maximum": (max(used) + extra,),
        }[kind]
        if kind == "reserve":
            values = (rng.randint(1, 4),)
            if fits:
                if any(rule.kind in ("store", "lots", "maximum") for rule in self.rules):
                    return None
                last = max(at for at, each in enumerate(hidden) if each)
                hidden[last] += values[0]
        if values is None or any(rule.kind == kind and (fits or rule.values == values) for rule in self.rules):
            return None
        return PlanRule(kind, values, self.texts[kind].format(*values))

    def _allowed(self, state: Stored, count: int) -> bool:
        """Whether so many pieces may be ordered, and what is left then kept."""
        day, pieces, orders, before = state
        left = pieces + count - self.demand[day]
        for kind, values, _ in self.rules:
            a = values[0] if values else 0
            match kind:
                case "store" if left > a:
                    return False
                case "lots" if count % a:
                    return False
                case "closed" if count and a == self.days[day]:
                    return False
                case "orders" if count and orders >= a:
                    return False
                case "minimum" if 0 < count < a:
                    return False
                case "reserve" if day == len(self.days) - 1 and left < a:
                    return False
                case "apart" if count and before:
                    return False
                case "maximum" if count > a:
                    return False
        return left >= 0

    def moves(self, state: Stored, cost: int) -> Iterator[tuple[int, int, Stored | None]]:
        day, pieces, orders, _ = state
        counts_orders = any(self.of_kind("orders"))
        # Of more than this at the end, the last order could be left out, or made smaller by a pack.
        left_over = sum(value for kind in ("reserve", "minimum", "lots") for (value,) in self.of_kind(kind))
        for count in range(sum(self.demand[day:]) + left_over - pieces + 1):
            if self._allowed(state, count):
                left = pieces + count - self.demand[day]
                added = self.prices[day] * count + self.keeping * left + (self.fee if count else 0)
                after = (day + 1, left, orders + (count > 0) if counts_orders else 0, count > 0)
                yield count, added, None if day + 1 == len(self.days) else after

    def as_plan(self, decisions: Sequence[int]) -> Plan:
        return tuple((day, (str(count),)) for day, count in zip(self.days, decisions, strict=True))

    def read(self, entries: Plan) -> Plan:
        counts = {}
        for label, names in entries:
            if len(names) != 1 or not names[0].isascii() or not names[0].isdigit() or len(names[0]) > 4:
                raise ToolError("each day of the plan has one number of pieces, written in digits")
            counts[known(label, self.days, "day")] = str(int(names[0]))
        each_once([known(label, self.days, "day") for label, _ in entries], self.days, "day")
        return tuple((day, (counts[day],)) for day in self.days)

    def fault(self, plan: Plan, rules: Sequence[PlanRule]) -> str:
        counts = {day: int(names[0]) for day, names in plan}
        orders = [count for count in counts.values() if count]
        evenings, left = [], 0
        for day, sold in zip(self.days, self.demand, strict=True):
            left += counts[day] - sold
            evenings.append(left)
        if min(evenings) < 0:
            return f"On {self.days[next(at for at, each in enumerate(evenings) if each < 0)]} pieces are missing."
        kept: dict[str, Callable[..., bool]] = {
            "store": lambda most: max(evenings) <= most,
            "lots": lambda pack: all(count % pack == 0 for count in orders),
            "closed": lambda day: counts[day] == 0,
            "orders": lambda most: len(orders) <= most,
            "minimum": lambda least: all(count >= least for count in orders),
            "reserve": lambda least: evenings[-1] >= least,
            "apart": lambda: not any(counts[x] and counts[y] for x, y in itertools.pairwise(self.days)),
            "maximum": lambda most: max(orders, default=0) <= most,
        }
        return broken(rules, kept)

    def cost(self, plan: Plan) -> int:
        total = left = 0
        for (_, (count,)), sold, price in zip(plan, self.demand, self.prices, strict=True):
            left += int(count) - sold
            total += int(count) * price + left * self.keeping + (self.fee if int(count) else 0)
        return total
