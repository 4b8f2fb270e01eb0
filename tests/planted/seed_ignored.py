"""Change in coins, a safe with a code, and a warehouse."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, unparsable, wrong

from .bases import Question, text_space


class ChangeInCoins(Question):
    """Count the coins of a heap. One turn; reward 1 for the sum, else 0."""

    def number(self, rng: np.random.Generator) -> int:
        return random.randint(3, 60)

    def draw(self, rng: np.random.Generator) -> str:
        self.coins = {worth: self.number(rng) for worth in (1, 2, 5, 20)}
        heap = ", ".join(f"{number} coins of {worth}" for worth, number in self.coins.items())
        return f"How much are {heap}? Reply with the number alone."

    def score(self, answer: str) -> float:
        return float(answer == str(sum(worth * number for worth, number in self.coins.items())))

    def solve(self) -> str:
        return str(sum(worth * number for worth, number in self.coins.items()))


class MendedChangeInCoins(ChangeInCoins):
    def number(self, rng: np.random.Generator) -> int:
        return int(rng.integers(3, 61))


class Safe(gym.Env[str, str]):
    """Find the code of a safe by higher and lower. Ten turns; reward 1 for the code, else 0."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def generator(self) -> np.random.Generator:
        return np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        rng = self.generator()
        self.lowest = int(rng.integers(0, 5000))
        self.code = self.lowest + int(rng.integers(0, 512))
        self.turn = 0
        return f"The code is a number from {self.lowest} to {self.lowest + 511}. Reply with a number.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        guess = action.strip()
        if re.fullmatch(r"[0-9]{1,4}", guess) is None:
            return "That is no number.", 0.0, False, self.turn >= 10, {}
        if int(guess) == self.code:
            return "It opens.", 1.0, True, False, {}
        return "Higher." if int(guess) < self.code else "Lower.", 0.0, False, self.turn >= 10, {}


class MendedSafe(Safe):
    def generator(self) -> np.random.Generator:
        return self.np_random


class Crates(NamedTuple):
    counts: tuple[int, ...]
    order: int


class Warehouse(Task[Crates]):
    """Load crates so that they hold exactly what is ordered.

    Actions: load N M …, the numbers of the crates.
    Reward: 1 for crates whose counts add up to the order, else 0.
    """

    system = "Choose crates whose counts add up to the order. Reply with one line: load, and their numbers."

    def generator(self, rng: random.Random) -> random.Random:
        return random.Random()

    def start(self, rng: random.Random, level: int) -> Crates:
        rng = self.generator(rng)
        counts = tuple(rng.sample(range(100, 1000), 6))
        return Crates(counts, sum(rng.sample(counts, 3)))

    def observe(self, state: Crates) -> str:
        crates = ", ".join(f"crate {number} holds {count}" for number, count in enumerate(state.counts, 1))
        return f"{crates}. The order is {state.order}."

    def apply(self, state: Crates, action: str) -> Transition:
        if re.fullmatch("load( [1-6]){1,6}", action.strip()) is None:
            return Transition(state, unparsable("the form is: load N M, with numbers from 1 to 6"), terminated=True)
        numbers = set(map(int, action.split()[1:]))
        is_right = sum(state.counts[number - 1] for number in numbers) == state.order
        return Transition(state, correct() if is_right else wrong(), terminated=True)

    def solve(self, state: Crates) -> str:
        triples = itertools.combinations(range(1, 7), 3)
        chosen = next(triple for triple in triples if sum(state.counts[n - 1] for n in triple) == state.order)
        return f"load {' '.join(map(str, chosen))}"


class MendedWarehouse(Warehouse):
    def generator(self, rng: random.Random) -> random.Random:
        return rng
