"""What the families of this folder share: how terms are written, and the task whose answer is a list of numbers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction

from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.answers import listed as listed
from rlvr.envs.tasks.questions import Question, whole_numbers

NUMBER = "the final number"  # what a prompt asks for
SIMPLEST = (
    "Answer exactly and in simplest form: worked out, fractions in lowest terms, and any number under a root whole and "
    "as small as possible."
)


class NumberList(ListAnswerTask):
    """Questions whose answer is a tuple of whole numbers in an order that the question states.

    Only numbers are read, so a copy of what was asked, such as an expression that was to be worked out, is no answer.
    """

    def check(self, question: Question, answer: str) -> str | None:
        """Compares whole numbers in order; an answer with other text or another count is unparsable."""
        numbers = whole_numbers(self.split_times(answer), len(question.answer))
        return None if tuple(numbers) == tuple(question.answer) else "wrong numbers"


def lines(steps: Iterable[str]) -> str:
    return "\n".join(steps)


def bracketed(number: int | Fraction) -> str:
    """A number as a factor or subtrahend: negative ones, and fractions, in brackets."""
    if type(number) is int:  # Fraction's own checks take longer than the text
        return f"({number})" if number < 0 else str(number)
    return f"({number})" if number < 0 or Fraction(number).denominator > 1 else str(number)


def signed(numbers: Sequence[int | Fraction]) -> str:
    """``3 - 4 + 5``; fractions in brackets."""
    first, *rest = numbers
    text = str(first) if type(first) is int or not isinstance(first, Fraction) else bracketed(first)
    for number in rest:
        if type(number) is int:
            text += f" - {-number}" if number < 0 else f" + {number}"
            continue
        size = abs(number)
        text += f" {'-' if number < 0 else '+'} {bracketed(size) if isinstance(size, Fraction) else size}"
    return text


def polynomial(coefficients: Sequence[int | Fraction], name: str = "x") -> str:
    """``3x^2 - x + 5``; coefficients from the highest power down."""
    text = ""
    for power, coefficient in zip(range(len(coefficients) - 1, -1, -1), coefficients, strict=True):
        if not coefficient:
            continue
        size: int | Fraction = coefficient if coefficient > 0 else -coefficient
        written = str(size) if size.denominator == 1 else f"({size})"
        factor = "" if size == 1 and power else written
        term = factor + (f"{name}^{power}" if power > 1 else name if power else "")
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} {term}" if text else (f"-{term}" if coefficient < 0 else term)
    return text or "0"


def linear(coefficients: Sequence[int], names: str) -> str:
    """``3x - y + 2z``: a sum of multiples of one-letter names; zero coefficients are left out."""
    text = ""
    for coefficient, name in zip(coefficients, names, strict=True):
        if coefficient:
            term = f"{'' if abs(coefficient) == 1 else abs(coefficient)}{name}"
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {term}" if text else (f"-{term}" if coefficient < 0 else term)
    return text or "0"


def value_at(coefficients: Sequence[int | Fraction], x: int | Fraction) -> int | Fraction:
    """The polynomial's value, by Horner's rule; coefficients from the highest power down."""
    total: int | Fraction = 0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def times(left: Sequence[int], right: Sequence[int]) -> list[int]:
    """The coefficients of a product of polynomials."""
    product = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] += a * b
    return product


def nonzero(rng: random.Random, largest: int) -> int:
    """A whole number from ``-largest`` to ``largest`` that is not 0."""
    return rng.choice((-1, 1)) * rng.randint(1, largest)
