"""What the families of this folder share: a quantity computed exactly, and three mistakes to tell it from.

A task writes ``draw``: the question, its right value, and the values that typical mistakes lead to. The options are
shuffled by the generator, so that every letter is right equally often, and so is every rank by size; no two options
are equal after rounding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from rlvr.envs.rewards.tasks import ExactAnswerTask, Question

LETTERS = "ABCD"
DIGITS = 3


class DrawnChoice(NamedTuple):
    """``text`` asks for ``value``, which is given in ``unit``; ``mistakes`` are the values that wrong ways lead to."""

    text: str
    value: Fraction
    unit: str
    mistakes: tuple[Fraction, ...]
    working: tuple[str, ...]


class Choices(ExactAnswerTask):
    """Four options, of three significant digits each; a subclass writes ``draw``."""

    system = "Think step by step. Put the letter of the right option, and nothing else, in \\boxed{}."
    kind = "choice"
    options = {"letters": LETTERS}  # noqa: RUF012

    def draw(self, rng: random.Random, level: int) -> DrawnChoice:
        raise NotImplementedError

    def ask(self, rng: random.Random, level: int) -> Question:
        drawn = self.draw(rng, level)
        shown = [significant(drawn.value)]
        # as many options below the right one as a die says: its rank among them tells nothing
        below = rng.randrange(len(LETTERS))
        room = {True: below, False: len(LETTERS) - 1 - below}
        for value in self._wrong(rng, drawn):
            text, side = significant(value), value < drawn.value
            if text not in shown and room[side]:
                shown.append(text)
                room[side] -= 1
            if len(shown) == len(LETTERS):
                break
        order = rng.sample(shown, len(shown))
        options = [f"{letter}) {text}{drawn.unit}" for letter, text in zip(LETTERS, order, strict=True)]
        answer = LETTERS[order.index(shown[0])]
        text = "\n".join([f"{drawn.text} Values are rounded to {DIGITS} significant digits.", *options])
        working = "\n".join([*drawn.working, f"That is {shown[0]}{drawn.unit}, option {answer}."])
        return Question(text, answer, working, content=drawn.text)

    def sample_action(self, state: Question, rng: random.Random) -> str:
        return f"\\boxed{{{rng.choice(LETTERS)}}}"

    @staticmethod
    def _wrong(rng: random.Random, drawn: DrawnChoice) -> Iterator[Fraction]:
        """The mistakes in a random order, then other multiples, for the sides where there are too few."""
        yield from rng.sample(drawn.mistakes, len(drawn.mistakes))
        while True:
            yield drawn.value + (drawn.value or 1) * Fraction(rng.choice((-5, -4, -3, -2, 2, 3, 5, 8, 12)), 7)


def significant(value: Fraction) -> str:
    """Rounded to ``DIGITS`` significant digits, a half up; powers of ten where the number is long."""
    if not value:
        return "0"
    size, power = abs(value), 0
    while size >= 10**DIGITS:
        size, power = size / 10, power + 1
    while size < 10 ** (DIGITS - 1):
        size, power = size * 10, power - 1
    digits = (2 * size.numerator + size.denominator) // (2 * size.denominator)
    if digits == 10**DIGITS:
        digits, power = digits // 10, power + 1
    sign = "-" if value < 0 else ""
    if -6 <= power <= 2:
        whole, part = divmod(digits * 10 ** max(power, 0), 10 ** max(-power, 0))
        return f"{sign}{whole}" + (f".{part:0{-power}}" if power < 0 else "")
    return f"{sign}{digits // 100}.{digits % 100:02}*10^{power + 2}"
