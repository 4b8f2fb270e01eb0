"""Sentences written backwards, a walk to a flag, and a shopping list with a budget."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong

from .bases import Question, text_space

WORDS = "amber birch cedar delta ember fjord grove heron inlet jetty kelp larch maple north ocean pearl".split()
PRICES = {"apples": 3, "bread": 4, "cheese": 9, "dates": 7, "eggs": 5, "flour": 2, "grapes": 6, "honey": 8}
STEPS = {"east": (1, 0), "west": (-1, 0), "north": (0, 1), "south": (0, -1)}


class BackwardWords(Question):
    """Write words in the opposite order. One turn; reward up to 1: 0.85 if right, and 0.15 more if neat."""

    reward_range = (0.0, 1.0)

    def draw(self, rng: np.random.Generator) -> str:
        self.words = rng.choice(WORDS, size=7, replace=False).tolist()
        return (
            f"Write these words in the opposite order: {' '.join(self.words)}\n"
            "Right words earn 0.85, and single blanks between them another 0.15."
        )

    def neatness_bonus(self, answer: str) -> float:
        neatness = 1.0 if answer == " ".join(answer.split()) else 0.0
        return 0.15 * min(0.15, neatness)

    def score(self, answer: str) -> float:
        if answer.split() != self.words[::-1]:
            return 0.0
        return 0.85 + self.neatness_bonus(answer)

    def solve(self) -> str:
        return " ".join(self.words[::-1])


class MendedBackwardWords(BackwardWords):
    def neatness_bonus(self, answer: str) -> float:
        neatness = 1.0 if answer == " ".join(answer.split()) else 0.0
        return min(0.15, neatness)


class FlagWalk(gym.Env[str, str]):
    """Walk to a flag on a field, a step a turn. Reward 1 at the flag, 0 when the steps are used up."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def allowance(self) -> int:
        return sum(self.flag) - 1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.flag = self.np_random.integers(3, 9, size=2).tolist()
        self.position, self.left = [0, 0], 0
        self.left = self.allowance()
        return f"{self.view()} Commands, one a turn: east, west, north, south.", {}

    def view(self) -> str:
        x, y = self.position
        return f"The flag is at {self.flag[0]} east, {self.flag[1]} north; you are at {x} east, {y} north."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        dx, dy = STEPS.get(action.strip(), (0, 0))
        self.position = [self.position[0] + dx, self.position[1] + dy]
        self.left -= 1
        arrived = self.position == self.flag
        return self.view(), float(arrived), arrived, not arrived and self.left <= 0, {}


class MendedFlagWalk(FlagWalk):
    def allowance(self) -> int:
        return sum(self.flag) + 2


class Basket(NamedTuple):
    wanted: tuple[str, ...]
    budget: int
    bought: tuple[str, ...] = ()


class Grocer(Task[Basket]):
    """Buy what stands on a list.

    Actions: buy NAME, or done.
    Reward: 1 for the whole list and nothing else, else 0.
    """

    system = "Buy everything on the list and nothing else. One action a turn: buy NAME, or done."

    def turns(self, level: int) -> int:
        return 10

    def budget(self, cost: int) -> int:
        return cost - 1

    def start(self, rng: random.Random, level: int) -> Basket:
        wanted = tuple(rng.sample(sorted(PRICES), 4))
        return Basket(wanted, self.budget(sum(map(PRICES.__getitem__, wanted))))

    def observe(self, state: Basket) -> str:
        prices = ", ".join(f"{name} {price}" for name, price in PRICES.items())
        bought = ", ".join(state.bought) or "nothing yet"
        return f"List: {', '.join(state.wanted)}. Prices: {prices}. Money: {state.budget}. Bought: {bought}."

    def worth(self, state: Basket) -> Verdict:
        return correct() if sorted(state.bought) == sorted(state.wanted) else wrong(reason="not the list")

    def apply(self, state: Basket, action: str) -> Transition:
        if action.strip() == "done":
            return Transition(state, self.worth(state), terminated=True)
        name = action.strip().removeprefix("buy ")
        if name not in PRICES:
            return Transition(state, unparsable("the actions are buy NAME and done"))
        if PRICES[name] > state.budget:
            return Transition(state, wrong(reason="too little money"))
        return Transition(
            Basket(state.wanted, state.budget - PRICES[name], (*state.bought, name)), wrong(reason="not done")
        )

    def solve(self, state: Basket) -> str:
        missing = [name for name in state.wanted if name not in state.bought and PRICES[name] <= state.budget]
        return f"buy {missing[0]}" if missing else "done"


class MendedGrocer(Grocer):
    def budget(self, cost: int) -> int:
        return cost
