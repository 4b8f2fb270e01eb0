"""Ways to write a number. One turn each; reward 1 for the exact numeral.

BaseConversion: from one base to another, through base 10.
RomanNumerals: sums and differences, read and answered in Roman numerals.
"""

from __future__ import annotations

import random
import re

from rlvr.envs.mathematics.common import lines
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ROMAN = tuple(
    zip("M CM D CD C XC L XL X IX V IV I".split(), (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), strict=True)
)
_NUMERAL = re.compile(r"([0-9A-Za-z]{1,80})(?:_\{?[0-9]{1,2}\}?)?")


class BaseConversion(CheckedAnswerTask):
    """Write a number in another base.

    Level 1: from base 10; 2: to base 10; 3: from and to bases up to 16; 4 and 5: longer, up to 36.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A number of five to ten digits in base 10, rewritten by way of base 10."""
        most = (9, 9, 16, 20, 36)[level - 1]
        old, new = rng.sample(range(2, most + 1), 2)
        old, new = (10, new) if level == 1 else (old, 10) if level == 2 else (old, new)
        value = rng.randrange(10 ** (level + 3), 10 ** (level + 5))
        numeral, answer = in_base(value, old), in_base(value, new)
        steps = [] if old == 10 else [f"In base 10: {_expanded(numeral, old)} = {value}"]
        rest = value
        while new != 10 and rest:
            steps.append(f"{rest} = {rest // new} * {new} + {rest % new}, digit {DIGITS[rest % new]}")
            rest //= new
        letters = f" Digits above 9 are A to {DIGITS[max(old, new) - 1]}." if max(old, new) > 10 else ""
        text = f"The number {numeral} is written in base {old}. Write it in base {new}.{letters}"
        return Question(text, answer, lines(steps))

    def check(self, question: Question, answer: str) -> str | None:
        """Small letters, leading zeros and a subscript base are accepted; the digits must agree."""
        match = _NUMERAL.fullmatch(answer.strip())
        if match is None:
            raise ValueError("the answer is not one numeral of digits and letters")
        return None if match[1].upper().lstrip("0") == question.answer else "another number"


class RomanNumerals(ExactAnswerTask):
    """Calculate with Roman numerals.

    Levels 1 to 5: two to five numerals below 1000, subtracted too from level 2 on.
    """

    kind = "exact"
    options = {"normalize": False}  # noqa: RUF012

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws signs until the total is from 1 to 3999; the content is the sum in Roman numerals."""
        count = max(2, level)
        while True:
            numbers = [rng.randint(2, 999) for _ in range(count)]
            signs = [1] + [1 if level == 1 else rng.choice((1, -1)) for _ in range(count - 1)]
            total = sum(sign * number for sign, number in zip(signs, numbers, strict=True))
            if 1 <= total <= 3999:
                break
        pairs = list(zip(signs, numbers, strict=True))
        text = " ".join(f"{'+' if sign > 0 else '-'} {roman(number)}" for sign, number in pairs).removeprefix("+ ")
        values = " ".join(f"{'+' if sign > 0 else '-'} {number}" for sign, number in pairs).removeprefix("+ ")
        steps = [f"{roman(number)} is {number}" for number in numbers]
        steps.append(f"{values} = {total}, which is {roman(total)}")
        question = f"Work out {text}. Answer with a Roman numeral of capital letters in the usual form (IV, not IIII)."
        return Question(question, roman(total), lines(steps), content=text)


def in_base(value: int, base: int) -> str:
    """A positive number as a numeral; digits above 9 are capital letters."""
    digits = ""
    while value:
        value, digit = divmod(value, base)
        digits = DIGITS[digit] + digits
    return digits


def _expanded(numeral: str, base: int) -> str:
    exponents = range(len(numeral) - 1, -1, -1)
    return " + ".join(f"{DIGITS.index(d)} * {base}^{p}" for d, p in zip(numeral, exponents, strict=True) if d != "0")


def roman(number: int) -> str:
    """1 to 3999 as a Roman numeral."""
    text = ""
    for letters, value in ROMAN:
        text += letters * (number // value)
        number %= value
    return text
