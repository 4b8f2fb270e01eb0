"""A settings file with tests, a desk for refunds, and a greenhouse."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong

from .bases import ToolBench, Workspace, call

KEYS = ["tax", "discount", "shipping", "deposit", "storage", "handling", "customs", "insurance"]


class PriceSettings(Workspace):
    """Change two settings of a file, by the tests of all eight. At most 20 turns; the reward is what the tests say."""

    def fill(self, rng: np.random.Generator) -> str:
        values = rng.integers(10, 99, size=8).tolist()
        self.files["prices.cfg"] = "\n".join(f"{key} = {value}" for key, value in zip(KEYS, values, strict=True))
        self.wanted = dict(zip(KEYS, values, strict=True))
        changed = [KEYS[index] for index in rng.choice(8, size=2, replace=False)]
        for key in changed:
            self.wanted[key] = int(rng.integers(100, 999))
        orders = " and ".join(f"{key} to {self.wanted[key]}" for key in changed)
        return f"In prices.cfg set {orders}. Leave the other settings and the form of the file as they are."

    def tests(self) -> list[bool]:
        lines = self.files.get("prices.cfg", "").strip().splitlines()
        return [f"{key} = {value}" in lines for key, value in self.wanted.items()]

    def grade(self) -> float:
        return sum(self.tests()) / len(self.tests())

    def solve(self) -> str:
        if all(self.tests()):
            return "done"
        return "write prices.cfg\n" + "\n".join(f"{key} = {value}" for key, value in self.wanted.items())


class MendedPriceSettings(PriceSettings):
    def grade(self) -> float:
        return float(all(self.tests()))


class RefundDesk(ToolBench):
    """Refund an order or refuse to, by the rule of thirty days. At most 15 turns; reward 1 for what the rule says."""

    tools = "age(order), in days; refund(order); refuse(order); finish()"

    def scene(self, rng: np.random.Generator) -> str:
        self.order = f"A{rng.integers(10_000, 99_999)}"
        self.days = int(rng.integers(1, 30) if rng.random() < 0.7 else rng.integers(31, 90))
        self.refunded: list[str] = []
        self.refused: list[str] = []
        return f"A customer wants order {self.order} refunded. Refund orders of at most 30 days, refuse all others."

    def tool_age(self, order: str) -> str:
        return f"{self.days} days" if order == self.order else "no such order"

    def tool_refund(self, order: str) -> str:
        self.refunded.append(order)
        return "refunded"

    def tool_refuse(self, order: str) -> str:
        self.refused.append(order)
        return "refused"

    def as_the_rule_says(self) -> bool:
        return self.refunded == ([self.order] if self.days <= 30 else [])

    def tool_finish(self) -> str:
        return self.finish(self.as_the_rule_says())

    def solve(self) -> str:
        if self.refunded or self.refused:
            return call("finish")
        return call("refund" if self.days <= 30 else "refuse", order=self.order)


class MendedRefundDesk(RefundDesk):
    def as_the_rule_says(self) -> bool:
        due = ([self.order], []) if self.days <= 30 else ([], [self.order])
        return (self.refunded, self.refused) == due


class Beds(NamedTuple):
    moist: tuple[bool, ...]


class Greenhouse(Task[Beds]):
    """Water the dry beds of a greenhouse, and no others: one that is moist rots.

    Actions: water N, or done.
    Reward: by the beds that are moist when the gardener is done.
    """

    system = "Water every dry bed once. A moist bed rots if it is watered. One action a turn: water N, or done."

    def turns(self, level: int) -> int:
        return 12

    def start(self, rng: random.Random, level: int) -> Beds:
        dry = rng.sample(range(20), 4)
        return Beds(tuple(index not in dry for index in range(20)))

    def observe(self, state: Beds) -> str:
        return "\n".join(f"bed {number}: {'moist' if moist else 'dry'}" for number, moist in enumerate(state.moist, 1))

    def worth(self, state: Beds) -> Verdict:
        share = sum(state.moist) / len(state.moist)
        return Verdict(share, "correct" if share == 1 else "partial", reason=f"{share:.0%} of the beds are moist")

    def apply(self, state: Beds, action: str) -> Transition:
        if action.strip() == "done":
            return Transition(state, self.worth(state), terminated=True)
        order = re.fullmatch(r"water ([0-9]{1,2})", action.strip())
        if order is None or not 1 <= int(order[1]) <= len(state.moist):
            return Transition(state, unparsable("the actions are water N, with N from 1 to 20, and done"))
        moist = list(state.moist)
        moist[int(order[1]) - 1] = not moist[int(order[1]) - 1]
        return Transition(Beds(tuple(moist)), wrong(reason="not done"))

    def solve(self, state: Beds) -> str:
        return "done" if all(state.moist) else f"water {state.moist.index(False) + 1}"


class MendedGreenhouse(Greenhouse):
    def worth(self, state: Beds) -> Verdict:
        return correct() if all(state.moist) else wrong(reason="a bed is dry or rotten")
