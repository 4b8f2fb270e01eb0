"""Arithmetic on whole numbers, without tools.

Observation: an expression, a division or a number to round, and how to write the result.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from rlvr.envs.mathematics.common import NumberList, bracketed, lines
from rlvr.envs.tasks.questions import ExactAnswerTask, Question

_NUMBERS = re.compile("-?[0-9]+")


class Sums(ExactAnswerTask):
    """Add and subtract whole numbers.

    Levels 1 to 5: from three numbers of three digits to eight of eight.

    Args:
        numbers, digits: how many numbers there are, 2 to 8, and their digits, 1 to 8, at every level.

    Raises:
        ValueError: one of them is out of range, or a task has fewer than 4 digits, of which there are too few.
    """

    SHAPES: tuple[tuple[int, int], ...] = ((3, 3), (4, 4), (5, 5), (6, 6), (8, 8))

    def __init__(self, *, numbers: int | None = None, digits: int | None = None) -> None:
        super().__init__()
        for name, value, least in (("numbers", numbers, 2), ("digits", digits, 1)):
            if value is not None and (type(value) is not int or not least <= value <= 8):
                raise ValueError(f"{name} must be a whole number from {least} to 8, got {value!r}")
        self.shapes = tuple((numbers or count, digits or length) for count, length in self.SHAPES)
        if any(count * length < 4 for count, length in self.shapes):
            raise ValueError(f"numbers={numbers}, digits={digits} leave too few tasks for three splits: raise one")

    def ask(self, rng: random.Random, level: int) -> Question:
        """The first number is positive, the others are added or subtracted at random, all from one draw."""
        count, digits = self.shapes[level - 1]
        low = 10 ** (digits - 1)
        span = 9 * low
        code, total = divmod(rng.randrange(span * (2 * span) ** (count - 1)), span)
        total += low
        text = f"What is {total}"
        for _ in range(count - 1):
            code, number = divmod(code, 2 * span)
            if number < span:
                number += low
                total += number
                text += f" + {number}"
            else:
                number += low - span
                total -= number
                text += f" - {number}"
        return Question(f"{text}?", total)

    def explain(self, state: Question) -> str:
        """Adds from left to right."""
        first, *others = _NUMBERS.findall(state.text.replace("- ", "-"))
        total, steps = int(first), []
        for number in map(int, others):
            before, total = total, total + number
            steps.append(f"{before} - {-number} = {total}" if number < 0 else f"{before} + {number} = {total}")
        return lines(steps)


class Products(ExactAnswerTask):
    """Multiply two whole numbers.

    Levels 1 to 5: from three digits times three to eight times eight.
    """

    DIGITS = (3, 4, 5, 6, 8)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Both factors have the same number of digits."""
        low = 10 ** (self.DIGITS[level - 1] - 1)
        left, right = divmod(rng.randrange(81 * low * low), 9 * low)
        left, right = left + low, right + low
        return Question(f"What is {left} * {right}?", left * right)

    def explain(self, state: Question) -> str:
        """Long multiplication, a digit at a time."""
        left, rest = map(int, _NUMBERS.findall(state.text))
        steps, total, power = [], 0, 1
        while rest:
            rest, digit = divmod(rest, 10)
            part = left * digit * power
            total += part
            steps.append(f"{left} * {digit * power} = {part}; together {total}")
            power *= 10
        return lines(steps)


# Quotient and remainder with commas between thousands: behind the comma between the two stands a blank.
_GROUPS = r"[1-9][0-9]{0,2}(?:,[0-9]{3}){1,6}"
_QUOTIENT_AND_REMAINDER = re.compile(
    rf"(?:(?:quotient|q)\s{{0,2}}(?:is|=|:)?\s{{0,2}})?(?P<quotient>{_GROUPS}|[0-9]{{1,20}})"
    r"(?:(?:,\s|;|\s|,? and(?: a)? )\s?(?:remainder|rem\.?|r)\s{0,2}(?:of|is|=|:)?\s{0,2}|,\s{1,2}|;\s{0,2})"
    rf"(?P<remainder>{_GROUPS}|[0-9]{{1,20}})",
    re.IGNORECASE,
)


class LongDivision(NumberList):
    """Divide with quotient and remainder.

    Levels 1 to 5: from a dividend of five digits by one of two to twelve by five.
    """

    DIGITS = ((5, 2), (6, 2), (8, 3), (10, 4), (12, 5))

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for "q, r"; the divisor is never a power of ten, and the working brings down digit by digit."""
        long, short = self.DIGITS[level - 1]
        dividend = rng.randint(10 ** (long - 1), 10**long - 1)
        divisor = rng.randint(10 ** (short - 1) + 1, 10**short - 1)
        steps, rest = [], 0
        for digit in str(dividend):
            rest = 10 * rest + int(digit)
            if rest >= divisor:
                part = rest // divisor
                steps.append(f"bring down {digit}: {rest} - {part} * {divisor} = {rest - part * divisor}")
                rest -= part * divisor
            else:
                steps.append(f"bring down {digit}: {rest} is less than {divisor}, digit 0")
        quotient, remainder = divmod(dividend, divisor)
        steps.append(f"{dividend} = {quotient} * {divisor} + {remainder}")
        text = f"Divide {dividend} by {divisor}. Answer with the quotient and the remainder, in this order: q, r."
        return Question(text, (quotient, remainder), lines(steps))

    def check(self, question: Question, answer: str) -> str | None:
        """As two whole numbers, which may have commas between thousands and be called quotient and remainder."""
        if match := _QUOTIENT_AND_REMAINDER.fullmatch(answer.strip()):
            answer = ", ".join(number.replace(",", "") for number in match.group("quotient", "remainder"))
        return super().check(question, answer)


class Term(NamedTuple):
    """An expression as text, its value, and how tightly its outermost operator binds."""

    text: str
    value: int
    binds: int

    def within(self, binding: int) -> str:
        """The term's text, in brackets where the operator around it binds more tightly."""
        return self.text if self.binds >= binding else f"({self.text})"


ATOM = 4
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}


class OrderOfOperations(ExactAnswerTask):
    """Work out an expression by the precedence of its operations.

    Levels 1 to 5: three to nine operations on numbers from 2 to 20; every quotient is whole.
    """

    OPERATIONS = (3, 4, 5, 7, 9)
    LARGEST = 1_000_000

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws an expression tree; the content is the expression, and brackets stand only where they must."""
        steps: list[str] = []
        term = self._draw(rng, self.OPERATIONS[level - 1], steps)
        text = f"What is {term.text}? Powers (^) come before products and quotients, these before sums and differences."
        return Question(text, term.value, lines(steps), content=term.text)

    def _draw(self, rng: random.Random, operations: int, steps: list[str]) -> Term:
        if not operations:
            number = rng.randint(2, 20)
            return Term(str(number), number, ATOM)
        inner = rng.randint(0, operations - 1)
        left = self._draw(rng, operations - 1 if inner == 0 else inner, steps)
        if inner == 0 and abs(left.value) <= 20 and rng.random() < 0.5:
            power = rng.choice((2, 3))
            return self._joined("^", left, Term(str(power), power, ATOM), left.value**power, steps)
        right = self._draw(rng, 0 if inner == 0 else operations - 1 - inner, steps)
        if right.value and left.value % right.value == 0 and rng.random() < 0.6:
            return self._joined("/", left, right, left.value // right.value, steps)
        if abs(left.value * right.value) <= self.LARGEST and rng.random() < 0.5:
            return self._joined("*", left, right, left.value * right.value, steps)
        if rng.random() < 0.5:
            return self._joined("+", left, right, left.value + right.value, steps)
        return self._joined("-", left, right, left.value - right.value, steps)

    def _joined(self, operator: str, left: Term, right: Term, value: int, steps: list[str]) -> Term:
        steps.append(f"{bracketed(left.value)} {operator} {bracketed(right.value)} = {value}")
        binds = BINDING[operator]
        before = left.within(ATOM if operator == "^" else binds)
        after = right.within(binds if operator == "+" else binds + 1)
        return Term(f"{before} {operator} {after}", value, binds)


class Rounding(ExactAnswerTask):
    """Round numbers.

    Levels 1 and 2: decimals to significant digits; 3 to 5: quotients to two to six decimal places.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """No number ends in 0, and no quotient is whole or finite, so rounding always changes something."""
        if level <= 2:
            return self._significant(rng, 4 + 3 * level)
        places = 2 * level - 4
        divisor = rng.choice([n for n in range(11, 40 * level) if n % 2 and n % 5])
        dividend = rng.randrange(1, 30_000)
        dividend += dividend % divisor == 0  # never whole, and the divisor is prime to 10: never a finite decimal
        scaled, rest = divmod(dividend * 10**places, divisor)
        answer = scaled + (2 * rest > divisor)
        steps, left = [f"{dividend} = {dividend // divisor} * {divisor} + {dividend % divisor}"], dividend % divisor
        for place in range(1, places + 1):
            digit, new = divmod(10 * left, divisor)
            steps.append(f"Decimal place {place}: {10 * left} = {digit} * {divisor} + {new}, digit {digit}")
            left = new
        half = "more" if 2 * rest > divisor else "less"
        steps.append(f"{rest}/{divisor} is {half} than a half: {_decimal(answer, places)}")
        text = f"Write {dividend} / {divisor} as a decimal, rounded to {places} decimal places."
        return Question(text, _decimal(answer, places), lines(steps))

    def _significant(self, rng: random.Random, length: int) -> Question:
        keep, places = rng.randint(2, length - 3), rng.randint(1, length + 2)
        digits = rng.randrange(10 ** (length - 1), 10**length)
        digits += digits % 10 == 0  # the last digit counts, so the rounded number is another
        unit = 10 ** (length - keep)
        kept, after = (digits + unit // 2) // unit, places - (length - keep)
        answer = _decimal(kept, after) if after > 0 else str(kept * 10**-after)
        steps = (
            f"The first {keep} significant digits are {digits // unit}; the next one is {digits % unit * 10 // unit}, "
            + (f"so the last of them grows by one: {answer}" if kept > digits // unit else f"so they stay: {answer}"),
        )
        text = f"Round {_decimal(digits, places)} to {keep} significant digits; a half is rounded up."
        return Question(text, answer, lines(steps))


def _decimal(digits: int, places: int) -> str:
    """``digits / 10**places`` as a decimal with that many places."""
    whole, part = divmod(digits, 10**places)
    return f"{whole}.{part:0{places}}"


class BitOperations(ExactAnswerTask):
    """Work out bitwise operations on whole numbers.

    Levels 1 to 5: one to five operations on numbers of ten to sixteen bits.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Logic operations and shifts in turn, from left to right, on unsigned numbers of fixed width."""
        bits = min(16, 8 + 2 * level)
        value = rng.randrange(1, 2**bits)
        text, steps = str(value), []
        for place in range(level):
            operator = rng.choice(("AND", "OR", "XOR") if place % 2 == 0 else ("SHIFT LEFT", "SHIFT RIGHT"))
            by = rng.randint(1, 5) if operator.startswith("SHIFT") else rng.randrange(1, 2**bits)
            new = {
                "AND": value & by,
                "OR": value | by,
                "XOR": value ^ by,
                "SHIFT LEFT": value << by & 2**bits - 1,
                "SHIFT RIGHT": value >> by,
            }[operator]
            shown = str(by) if operator.startswith("SHIFT") else f"{by:0{bits}b}"
            steps.append(f"{value:0{bits}b} {operator} {shown} = {new:0{bits}b}, which is {new}")
            text = f"({text}) {operator} {by}" if place else f"{text} {operator} {by}"
            value = new
        rules = f"Numbers are unsigned and have {bits} bits; a bit shifted out at either end is lost."
        return Question(f"{rules} Work out, bit by bit, {text}. Answer in decimal.", value, lines(steps))
