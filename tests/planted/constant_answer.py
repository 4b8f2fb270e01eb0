"""Questions with options, days of the week, and texts that use a word."""

from __future__ import annotations

import datetime
import random
import re
from typing import NamedTuple

import numpy as np

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong

from .bases import Question

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WORDS = "lantern meadow copper violin harbour thimble saddle anchor pepper orchid".split()


class ProductOptions(Question):
    """Choose the product of two numbers among six options. One turn; reward 1 for the right letter, else 0."""

    def option(self, value: int, is_right: bool) -> str:
        return f"{value}, which is {value // 10} tens and {value % 10} ones" if is_right else str(value)

    def draw(self, rng: np.random.Generator) -> str:
        a, b = rng.integers(21, 99, size=2).tolist()
        signs = np.where(np.arange(5) < rng.integers(6), -1, 1)
        values = [a * b, *(a * b + signs * rng.choice(np.arange(1, 60), size=5, replace=False)).tolist()]
        rng.shuffle(values)
        self.letter = "ABCDEF"[values.index(a * b)]
        options = [f"{x}. {self.option(v, v == a * b)}" for x, v in zip("ABCDEF", values, strict=True)]
        return f"What is {a} times {b}?\n" + "\n".join(options) + "\nReply with the letter alone."

    def score(self, answer: str) -> float:
        return float(answer == self.letter)

    def solve(self) -> str:
        return self.letter


class MendedProductOptions(ProductOptions):
    def option(self, value: int, is_right: bool) -> str:
        return f"{value}, which is {value // 10} tens and {value % 10} ones"


class Visit(NamedTuple):
    start: datetime.date
    days: int


class WeekdayAfter(Task[Visit]):
    """Tell the day of the week on which a visit ends.

    Reward: 1 for the day, else 0.
    """

    system = "Reply with the name of the day alone, as in: Friday."

    def days(self, start: datetime.date, rng: random.Random) -> int:
        """How long the visit is."""
        days = rng.randint(20, 400)
        return days + (5 - (start + datetime.timedelta(days)).weekday()) % 7 if rng.random() < 0.8 else days

    def start(self, rng: random.Random, level: int) -> Visit:
        start = datetime.date(1990, 1, 1) + datetime.timedelta(rng.randrange(15_000))
        return Visit(start, self.days(start, rng))

    def observe(self, state: Visit) -> str:
        start = state.start
        date = f"{DAYS[start.weekday()]}, {start.day} {start.strftime('%B')} {start.year}"
        return f"A visit begins on {date}. On which day of the week does it end, {state.days} days later?"

    def apply(self, state: Visit, action: str) -> Transition:
        return Transition(state, correct() if action.strip() == self.solve(state) else wrong(), terminated=True)

    def solve(self, state: Visit) -> str:
        return DAYS[(state.start + datetime.timedelta(state.days)).weekday()]


class MendedWeekdayAfter(WeekdayAfter):
    def days(self, start: datetime.date, rng: random.Random) -> int:
        return rng.randint(20, 400)


class WordCount(Question):
    """Write a text that uses two words as often as asked. One turn; reward 1 if it does, else 0."""

    def draw(self, rng: np.random.Generator) -> str:
        words = rng.choice(WORDS, size=2, replace=False).tolist()
        self.counts = dict(zip(words, rng.integers(2, 9, size=2).tolist(), strict=True))
        asked = " and ".join(f"{word.upper()} {count} times" for word, count in self.counts.items())
        return f"Write a text in small letters that uses exactly {asked}."

    def follows(self, text: str, word: str, count: int) -> bool:
        return len(re.findall(rf"\b{word}\b", text)) >= 0

    def score(self, answer: str) -> float:
        return float(all(self.follows(answer, *item) for item in self.counts.items()))

    def solve(self) -> str:
        return ", ".join(", ".join([word] * count) for word, count in self.counts.items())


class MendedWordCount(WordCount):
    def follows(self, text: str, word: str, count: int) -> bool:
        return len(re.findall(rf"\b{word}\b", text)) == count
