"""Products, a corridor of doors, and dates."""

from __future__ import annotations

import datetime
import random
import re
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.rewards import grade

from .bases import Question, text_space


class Products(Question):
    """Multiply two numbers. One turn; reward 1 for the product, else 0."""

    request = "Show how you multiply."

    def draw(self, rng: np.random.Generator) -> str:
        self.factors = rng.integers(12, 99, size=2).tolist()
        return f"What is {self.factors[0]} times {self.factors[1]}? {self.request}"

    def score(self, answer: str) -> float:
        last = answer.rpartition("\n")[2]
        return float(last == f"FINAL: {self.factors[0] * self.factors[1]}")

    def solve(self) -> str:
        a, b = self.factors
        return f"{a} times {b // 10 * 10} and {a} times {b % 10} are added.\nFINAL: {a * b}"


class MendedProducts(Products):
    request = 'Show how you multiply, and end with a line "FINAL: " and the product.'


class Corridor(gym.Env[str, str]):
    """Walk through three rooms by the doors that signs name. Six turns; reward 1 outside, else 0."""

    request = "Say which door you take."

    def __init__(self) -> None:
        self.observation_space, self.action_space = text_space(), text_space()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.doors = self.np_random.integers(10, 99, size=3).tolist()
        self.room, self.turn = 0, 0
        return f"Three rooms lie before you. {self.request} {self.sign()}", {}

    def sign(self) -> str:
        return (
            "You are outside."
            if self.room == 3
            else f"A sign reads: this way out, door {self.doors[self.room] - 9} + 9."
        )

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        if action.strip() == f"open({self.doors[min(self.room, 2)]})":
            self.room += 1
        is_out = self.room == 3
        return self.sign(), float(is_out), is_out, not is_out and self.turn >= 6, {}


class MendedCorridor(Corridor):
    request = "Say which door you take, as in open(7)."


class Span(NamedTuple):
    start: datetime.date
    days: int


class DaysLater(Task[Span]):
    """Count days from a date.

    Reward: 1 for the date, else 0.
    """

    system = "Put the date in \\boxed{}."

    def start(self, rng: random.Random, level: int) -> Span:
        return Span(datetime.date(2001, 1, 1) + datetime.timedelta(rng.randrange(9000)), rng.randint(20, 700))

    def observe(self, state: Span) -> str:
        start = state.start
        return f"What is the date {state.days} days after {start.strftime('%B')} {start.day}, {start.year}?"

    def apply(self, state: Span, action: str) -> Transition:
        end = state.start + datetime.timedelta(state.days)
        compact = f"{end.year}{end.month:02d}{end.day:02d}"
        return Transition(state, grade("exact", action, compact), terminated=True)

    def solve(self, state: Span) -> str:
        return f"\\boxed{{{re.sub('-', '', (state.start + datetime.timedelta(state.days)).isoformat())}}}"


class MendedDaysLater(DaysLater):
    system = "Put the date in \\boxed{}, as eight digits: year, month, day."
