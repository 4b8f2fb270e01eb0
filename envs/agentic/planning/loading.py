"""Things that are packed into hired boxes of two kinds: the hire is to be low."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from rlvr.envs.agentic.planning.problem import Plan, PlanProblem, PlanRule, broken, csv, each_once, known
from rlvr.envs.tools import ToolError

THINGS = "lamp kettle radio clock drill vase paint books printer tent carpet globe".split()
SORTS = ("fragile", "heavy duty", "textile")
Packed = tuple[int, int]  # which things are packed (a bit for each), and how many large boxes are used


class Loading(PlanProblem[Packed]):
    """Which things go into which boxes."""

    kinds = ("apart", "together", "few", "count", "only")
    held_out: ClassVar[Mapping[str, str]] = {"alone": "validation", "unmixed": "test", "stock": "test"}
    sizes = (4, 5, 6, 7, 8)
    answer = "the boxes with semicolons between them, as in \\boxed{large: lamp, kettle; small: radio}"
    unit = "euros"
    texts: ClassVar[Mapping[str, str]] = {
        "apart": "The {} and the {} must not be in one box.",
        "together": "The {} and the {} belong together, so they go into the same box.",
        "few": "At most {1} of the {0} things may be in one box.",
        "count": "No box may hold more than {} things, or nobody can lift it.",
        "only": "The {} has to go into a {} box.",
        "alone": "The {} needs a box of its own, with nothing else in it.",
        "unmixed": "A box with {} things in it must not have {} things in it as well.",
        "stock": "The hire firm has only {} large boxes left.",
    }

    def draw(self, rng: random.Random, size: int) -> None:
        self.names = rng.sample(THINGS, size)
        self.limits = {"large": rng.randint(20, 24), "small": rng.randint(11, 13)}
        self.prices = {"large": rng.randint(15, 19), "small": rng.randint(9, 12)}
        self.weights = [rng.randint(2, 11) for _ in range(size)]
        self.sorts = [rng.choice(SORTS) for _ in range(size)]
        self.groups: list[tuple[str, list[int]]] = []
        for item in rng.sample(range(size), size):  # some packing, that the rules are drawn around
            box, group = self.groups[-1] if self.groups else ("", [])
            if box and self._weight([*group, item]) <= self.limits[box] and rng.random() < 0.8:
                group.append(item)
            else:
                self.groups.append((rng.choice(("large", "large", "small")), [item]))
        self.start = (0, 0)
        large, small = (f"{self.limits[box]} kg and costs {self.prices[box]} euros" for box in ("large", "small"))
        self.story = (
            f"I am moving, and everything in things.csv has to go into hired boxes. A large box holds {large}, a small "
            f"one holds {small}. How should I pack, so that the boxes cost as little as possible?"
        )
        self.tables = {
            "things.csv": csv(
                ("thing", "weight_kg", "sort"), list(zip(self.names, self.weights, self.sorts, strict=True))
            )
        }

    def _weight(self, items: Sequence[int]) -> int:
        return sum(self.weights[item] for item in items)

    def rule(self, kind: str, rng: random.Random, fits: bool) -> PlanRule | None:
        items = rng.sample(range(len(self.names)), 2)
        a, b = (self.names[item] for item in items)
        box, group = rng.choice(self.groups)
        sort, other = rng.sample(SORTS, 2)
        most = max(Counter(self.sorts[item] for item in each)[sort] for _, each in self.groups)
        shared = [each for _, each in self.groups if set(items) <= set(each)]
        mixed = [each for _, each in self.groups if {sort, other} <= {self.sorts[item] for item in each}]
        values = {
            "apart": None if fits and shared else (a, b),
            "together": (a, b) if shared or not fits else None,
            "few": (sort, max(most, 1)) if self.sorts.count(sort) > max(most, 1) else None,
            "count": (max(max(len(each) for _, each in self.groups), 2),),
            "only": (self.names[group[0]], box),
            "alone": (self.names[group[0]],) if len(group) == 1 or not fits else None,
            "unmixed": (sort, other) if {sort, other} <= {*self.sorts} and not (fits and mixed) else None,
            "stock": (max([each for each, _ in self.groups].count("large"), 1 if fits else 2),),
        }[kind]
        if values is None or any(
            rule.kind == kind and (rule.values[0] == values[0] or (fits and kind in ("count", "stock")))
            for rule in self.rules
        ):
            return None
        return PlanRule(kind, values, self.texts[kind].format(*values).replace("only 1 large boxes", "one large box"))

    def _fits_box(self, box: str, items: Sequence[int]) -> bool:
        names, sorts = {self.names[item] for item in items}, [self.sorts[item] for item in items]
        for kind, (a, *rest), _ in self.rules:
            match kind:
                case "apart" if {a, rest[0]} <= names:
                    return False
                case "together" if len({a, rest[0]} & names) == 1:
                    return False
                case "few" if sorts.count(a) > rest[0]:
                    return False
                case "count" if len(items) > a:
                    return False
                case "only" if a in names and box != rest[0]:
                    return False
                case "alone" if a in names and len(items) > 1:
                    return False
                case "unmixed" if {a, rest[0]} <= {*sorts}:
                    return False
        return True

    def moves(self, state: Packed, cost: int) -> Iterator[tuple[tuple[str, tuple[int, ...]], int, Packed | None]]:
        packed, used = state
        left = [item for item in range(len(self.names)) if not packed >> item & 1]
        counted = next((most for (most,) in self.of_kind("stock")), None)
        # The first thing that is left goes into the next box; each group with its weight.
        groups: list[tuple[int, tuple[int, ...]]] = [(self.weights[left[0]], (left[0],))]
        for item in left[1:]:
            more = [(weight + self.weights[item], (*group, item)) for weight, group in groups]
            groups += [heavier for heavier in more if heavier[0] <= self.limits["large"]]
        whole = (1 << len(self.names)) - 1
        for weight, group in groups:
            for box in ("small", "large"):
                large = used + (box == "large") if counted is not None else 0
                if weight > self.limits[box] or (counted is not None and large > counted):
                    continue
                if self._fits_box(box, group):
                    after = packed | sum(1 << item for item in group)
                    yield (box, group), self.prices[box], None if after == whole else (after, large)

    def as_plan(self, decisions: Sequence[tuple[str, tuple[int, ...]]]) -> Plan:
        return tuple((box, tuple(self.names[item] for item in group)) for box, group in decisions)

    def read(self, entries: Plan) -> Plan:
        plan = tuple(
            (known(box, ("large", "small"), "kind of box"), tuple(known(name, self.names, "thing") for name in names))
            for box, names in entries
        )
        if any(not names for _, names in plan):
            raise ToolError("a box of the plan is empty")
        each_once([name for _, names in plan for name in names], self.names, "thing")
        return plan

    def fault(self, plan: Plan, rules: Sequence[PlanRule]) -> str:
        box_of = {name: number for number, (_, names) in enumerate(plan) for name in names}
        sort = dict(zip(self.names, self.sorts, strict=True))
        for box, names in plan:
            if self._weight([self.names.index(name) for name in names]) > self.limits[box]:
                return f"A {box} box holds {self.limits[box]} kg."
        sorts = [Counter(sort[name] for name in names) for _, names in plan]
        kept: dict[str, Callable[..., bool]] = {
            "apart": lambda a, b: box_of[a] != box_of[b],
            "together": lambda a, b: box_of[a] == box_of[b],
            "few": lambda a, most: all(each[a] <= most for each in sorts),
            "count": lambda most: max(Counter(box_of.values()).values()) <= most,
            "only": lambda a, box: plan[box_of[a]][0] == box,
            "alone": lambda a: list(box_of.values()).count(box_of[a]) == 1,
            "unmixed": lambda a, b: not any(each[a] and each[b] for each in sorts),
            "stock": lambda most: sum(box == "large" for box, _ in plan) <= most,
        }
        return broken(rules, kept)

    def cost(self, plan: Plan) -> int:
        return sum(self.prices[box] for box, _ in plan)
