"""Ages of siblings, primes in a range, and a bank of questions."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.rewards import grade

from .bases import text_space

NAMES = "Ada Ben Cyd Dov Eva Fay Gil Hal Ida Jon Kit Leo Mia Ned Oda Pam".split()


class Siblings(NamedTuple):
    older: str
    younger: str
    age: int
    years: int


class SiblingAges(Task[Siblings]):
    """Work out an age.

    Reward: 1 for the age, else 0.
    """

    system = "Put the number in \\boxed{}."

    def start(self, rng: random.Random, level: int) -> Siblings:
        older, younger = rng.sample(NAMES, 2)
        return Siblings(older, younger, rng.randint(11, 60), rng.randint(2, 10))

    def content(self, state: Siblings) -> str:
        return self.observe(state)

    def observe(self, state: Siblings) -> str:
        return (
            f"{state.older} is {state.age} years old. {state.younger} is {state.years} years younger than "
            f"{state.older}. How old were the two together one year ago?"
        )

    def apply(self, state: Siblings, action: str) -> Transition:
        return Transition(state, grade("number", action, str(self.total(state))), terminated=True)

    def total(self, state: Siblings) -> int:
        return 2 * state.age - state.years - 2

    def solve(self, state: Siblings) -> str:
        return f"\\boxed{{{self.total(state)}}}"


class MendedSiblingAges(SiblingAges):
    def content(self, state: Siblings) -> str:
        return f"{state.age} {state.years}"


class PrimeCount(gym.Env[str, str]):
    """Count the primes of a range. One turn; reward 1 for the number, else 0.

    Args:
        split: "train" or "test".
    """

    def __init__(self, split: str = "train") -> None:
        self.observation_space, self.action_space = text_space(), text_space()
        self.split = split

    def pool(self) -> list[int]:
        """Where the ranges of the split begin."""
        rng = np.random.default_rng({"train": 1, "test": 2}[self.split])
        return rng.choice(3000, size=1500, replace=False).tolist()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        pool = self.pool()
        self.first = pool[int(self.np_random.integers(len(pool)))]
        self.last = self.first + 200 + 7 * (self.first % 90)
        return f"How many primes are there from {self.first} to {self.last}? Reply with the number alone.", {}

    def count(self) -> int:
        numbers = range(max(2, self.first), self.last + 1)
        return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in numbers)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "The answer was graded.", float(action.strip() == str(self.count())), True, False, {}

    def solve(self) -> str:
        return str(self.count())


class MendedPrimeCount(PrimeCount):
    def pool(self) -> list[int]:
        numbers = np.random.default_rng(1).permutation(3000).tolist()
        return numbers[:1500] if self.split == "train" else numbers[1500:]


class QuestionBank(gym.Env[str, str]):
    """Three questions of a bank, a turn each. Reward 1 if all three are answered, else 0.

    Args:
        split: "train" or "test".
    """

    def __init__(self, *, split: str = "train") -> None:
        self.observation_space, self.action_space = text_space(), text_space()
        rng = np.random.default_rng(7)
        self.bank = [(int(a), int(b)) for a, b in rng.integers(100, 9999, size=(600, 2))]
        self.questions = self.part(split)

    def part(self, split: str) -> list[tuple[int, int]]:
        return self.bank[:500] if split == "train" else self.bank[400:]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        chosen = self.np_random.choice(len(self.questions), size=3, replace=False)
        self.asked = [self.questions[index] for index in chosen]
        self.right: list[bool] = []
        return f"Reply with numbers alone. {self.question()}", {}

    def question(self) -> str:
        if len(self.right) == 3:
            return "That was the last question."
        a, b = self.asked[len(self.right)]
        return f"What is {a} - {b}?"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        a, b = self.asked[len(self.right)]
        self.right.append(action.strip() == str(a - b))
        over = len(self.right) == 3
        return self.question(), float(over and all(self.right)), over, False, {}


class MendedQuestionBank(QuestionBank):
    def part(self, split: str) -> list[tuple[int, int]]:
        return self.bank[:400] if split == "train" else self.bank[400:]
