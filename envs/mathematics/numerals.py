"""Ways to write a number.

Observation: a numeral or a sum of numerals, and the system to answer in.
"""

from __future__ import annotations

import random
import re
from functools import cache

from rlvr.envs.core.verdict import Verdict, unparsable
from rlvr.envs.mathematics.common import lines
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ROMAN = tuple(
    zip("M CM D CD C XC L XL X IX V IV I".split(), (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), strict=True)
)
_CONVERSION = re.compile(r"number ([0-9A-Z]+) is written in base ([0-9]+)\. Write it in base ([0-9]+)")
_NUMERAL = re.compile(r"(\(?)(0[box])?([0-9A-Za-z]{1,80})(\)?)(?:_(?:([0-9]{1,2})|\{([0-9]{1,2})\}))?")
_PREFIXES = {"0b": 2, "0o": 8, "0x": 16}


class BaseConversion(CheckedAnswerTask):
    """Write a number in another base.

    Level 1: to base 10; 2: from base 10; 3: from and to bases up to 16; 4 and 5: longer, up to 20 and 36.
    """

    RANGES = ((100, 5_000), (10**4, 10**6), (10**5, 10**7), (10**7, 10**9), (10**10, 10**12))

    def ask(self, rng: random.Random, level: int) -> Question:
        """A number of three to twelve digits in base 10, rewritten by way of base 10."""
        bases, (low, high) = (8, 8, 15, 19, 35)[level - 1], self.RANGES[level - 1]
        code, old = divmod(rng.randrange(bases * (bases - 1) * (high - low)), bases)
        value, new = divmod(code, bases - 1)
        old, new, value = old + 2, new + 2 + (new >= old), value + low
        if level == 1:
            new = 10
        elif level == 2:
            old = 10
        highest = max(old, new)
        letters = f" Digits above 9 are A to {DIGITS[highest - 1]}." if highest > 10 else ""
        text = f"The number {in_base(value, old)} is written in base {old}. Write it in base {new}.{letters}"
        return Question(text, in_base(value, new))

    def explain(self, state: Question) -> str:
        """To base 10 by the powers of the old base, then by divisions by the new one."""
        numeral, *two = _CONVERSION.findall(state.text)[0]
        old, new = map(int, two)
        rest = value = int(numeral, old)
        steps = [] if old == 10 else [f"In base 10: {_expanded(numeral, old)} = {value}"]
        while new != 10 and rest:
            steps.append(f"{rest} = {rest // new} * {new} + {rest % new}, digit {DIGITS[rest % new]}")
            rest //= new
        return lines(steps)

    def check(self, question: Question, answer: str) -> str | None:
        """Small letters, leading zeros, ``0x`` and the base as a subscript are accepted; digits and base must agree."""
        base = int(_CONVERSION.findall(question.text)[0][2])
        match = _NUMERAL.fullmatch(answer.strip())
        if match is None or bool(match[1]) != bool(match[4]):
            raise ValueError("the answer is not one numeral of digits and letters")
        if int(match[5] or match[6] or base) != base:
            return f"a numeral of base {match[5] or match[6]}"
        prefix = match[2] if _PREFIXES.get(match[2]) != base else ""
        return None if f"{prefix or ''}{match[3]}".upper().lstrip("0") == question.answer else "another number"


class RomanNumerals(ExactAnswerTask):
    """Calculate with Roman numerals.

    Levels 1 to 5: two to five numerals below 1000, subtracted too from level 2 on.
    """

    kind = "exact"
    options = {"normalize": False}  # noqa: RUF012

    def judge(self, question: Question, reply: str) -> Verdict:
        """By spelling; what has another letter than those of Roman numerals is none."""
        verdict = super().judge(question, reply)
        if verdict.status == "wrong" and not set(verdict.answer or "") & set("IVXLCDM"):
            return unparsable("not a Roman numeral of capital letters", verdict.answer)
        return verdict

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


@cache
def _chunks(base: int) -> tuple[str, ...]:
    """All numerals of as many digits as there are up to 1,296 of, with leading zeros."""
    chunks: list[str] = [""]
    while len(chunks) * base <= 36 * 36:
        chunks = [chunk + digit for chunk in chunks for digit in DIGITS[:base]]
    return tuple(chunks)


def in_base(value: int, base: int) -> str:
    """A positive number as a numeral; digits above 9 are capital letters."""
    if base == 10:
        return str(value)
    chunks, digits = _chunks(base), ""
    size = len(chunks)
    while value:
        value, chunk = divmod(value, size)
        digits = chunks[chunk] + digits
    return digits.lstrip("0")


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
