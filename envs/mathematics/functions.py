"""Polynomials, sequences and functions.

Observation: a polynomial, a sequence, a function or complex numbers, and what is asked of them.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import pairwise

from rlvr.envs.mathematics import function_workings
from rlvr.envs.mathematics.common import NumberList, bracketed, lines, listed, nonzero, polynomial, times, value_at
from rlvr.envs.tasks.draws import below
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained
from rlvr.envs.tasks.wording import times as times_of


def _coefficients(rng: random.Random, degree: int, largest: int) -> list[int]:
    """Of a random polynomial of exactly that degree, the highest power first."""
    return [nonzero(rng, largest)] + [rng.randint(-largest, largest) for _ in range(degree)]


class PolynomialProducts(NumberList):
    """Expand a product of polynomials.

    Levels 1 to 5: from two factors of degree 1 to two of degree 3 and three of degree 2.
    """

    DEGREES = ((1, 1), (1, 2), (2, 2), (3, 3), (2, 2, 2))
    explain = explained(function_workings.expanded, "content")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Multiplies the factors from left to right; the content is the product as written."""
        factors = [_coefficients(rng, degree, 30 if level == 1 else 12) for degree in self.DEGREES[level - 1]]
        product = factors[0]
        for factor in factors[1:]:
            product = times(product, factor)
        shown = "".join(f"({polynomial(factor)})" for factor in factors)
        text = f"Expand {shown}. Answer with the coefficients alone, from the highest power of x down to the constant, "
        return Question(text + "zeros included.", tuple(product), content=shown)


class PolynomialDivision(NumberList):
    """Divide polynomials with remainder.

    Levels 1 to 5: from degree 2 by 1 to degree 6 by 3.
    """

    DEGREES = ((2, 1), (3, 1), (4, 2), (5, 2), (6, 3))

    def ask(self, rng: random.Random, level: int) -> Question:
        """The divisor's lead is 1, so that quotient and remainder are whole; the answer lists both."""
        high, low = self.DEGREES[level - 1]
        divisor = [1, *(rng.randint(-9, 9) for _ in range(low))]
        divisor[-1] = divisor[-1] or 1
        dividend = _coefficients(rng, high, 60 if level == 1 else 30)
        rest, quotient, steps = list(dividend), [], []
        for index in range(high - low + 1):
            factor = rest[index]
            quotient.append(factor)
            for i, c in enumerate(divisor):
                rest[index + i] -= factor * c
            term = polynomial([factor, *[0] * (high - low - index)])
            steps.append(
                f"Take away {'' if term == '1' else f'{term} times '}the divisor: "
                f"{polynomial(rest[index + 1 :])} is left."
            )
        answer = (*quotient, *rest[high - low + 1 :])
        text = f"Divide {polynomial(dividend)} by {polynomial(divisor)}. Answer with the {high - low + 1} coefficients "
        text += f"of the quotient and then the {low} of the remainder, each from the highest power down, zeros "
        text += "included."
        return Question(text, answer, lines(steps))


class Sequences(ExactAnswerTask):
    """Continue a sequence.

    Level 1: linear; 2: geometric; 3: quadratic; 4: a linear and a geometric one in turn; 5: cubic.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Tells the kind of rule (degree, geometric, interleaved), so that the first terms fix the sequence."""
        if level == 2:
            return self._geometric(rng)
        if level == 4:
            return self._interleaved(rng)
        degree = {1: 1, 3: 2, 5: 3}[level]
        coefficients = _coefficients(rng, degree, (300, 0, 30, 0, 9)[level - 1])
        terms = [int(value_at(coefficients, n)) for n in range(1, 8)]
        steps, row = [], terms
        for _ in range(degree):
            row = [b - a for a, b in pairwise(row)]
            steps.append(f"Differences: {listed(row)}")
        far = rng.randint(12, 60)
        answer = int(value_at(coefficients, far))
        steps.append(f"Term n is {polynomial(coefficients, 'n')}; at n = {far} that is {answer}.")
        return self._question(terms, far, f"a polynomial in n of degree {degree}", answer, steps)

    @staticmethod
    def _question(terms: list[int], far: int, rule: str, answer: int, steps: list[str]) -> Question:
        text = f"A sequence begins {listed(terms)}, ... Its term number n is {rule}. What is term number {far}?"
        return Question(text, answer, lines(steps))

    def _geometric(self, rng: random.Random) -> Question:
        first, ratio, extra = rng.randint(1, 60), nonzero(rng, 6), nonzero(rng, 400)
        ratio = ratio if abs(ratio) > 1 else 7
        terms = [first * ratio**n + extra for n in range(5)]
        far = rng.randint(7, 10)
        answer = first * ratio ** (far - 1) + extra
        differences = [b - a for a, b in pairwise(terms)]
        steps = [f"Differences {listed(differences)} grow by the factor {ratio}."]
        steps.append(f"Term n is {first} * {bracketed(ratio)}^(n - 1) + {bracketed(extra)}; term {far} is {answer}.")
        return self._question(terms, far, "a * r^n + c with whole numbers r and c", answer, steps)

    def _interleaved(self, rng: random.Random) -> Question:
        start, step, first, ratio = rng.randint(-99, 99), nonzero(rng, 40), nonzero(rng, 30), rng.choice((-3, -2, 2, 3))
        terms = [start + step * (n // 2) if n % 2 == 0 else first * ratio ** (n // 2) for n in range(8)]
        far = rng.randint(13, 24)
        k = (far - 1) // 2
        answer = start + step * k if far % 2 else first * ratio**k
        steps = [f"Odd places: {listed(terms[::2])}, growing by {step}.", f"Even places: {listed(terms[1::2])}, times"]
        steps[1] += f" {ratio} each."
        steps.append(f"Term {far} is number {k + 1} of its kind: {answer}.")
        return self._question(terms, far, "arithmetic for odd n and geometric for even n", answer, steps)


class Recurrences(ExactAnswerTask):
    """Find a term of a recurrence.

    Levels 1 to 5: from order 1 to order 3 with a term in n, five to nine steps.
    """

    explain = explained(function_workings.recurrence, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Levels 3 and 5 add a multiple of n to the rule."""
        order, steps_ahead = (1, 2, 2, 3, 3)[level - 1], 3 + level + (level > 1)
        values = [rng.randint(-9, 9) if order > 1 else rng.randint(-60, 60) for _ in range(order)]
        factors = [nonzero(rng, 5 if level < 4 else 4) for _ in range(order)]
        per_n, constant = (nonzero(rng, 9) if level in (3, 5) else 0), nonzero(rng, 60)
        first_terms = ", ".join(f"a({i}) = {value}" for i, value in enumerate(values, 1))
        terms = [f"{'+' if f > 0 else '-'} {times_of(abs(f), f'a(n - {i})', ' ')}" for i, f in enumerate(factors, 1)]
        terms += [f"{'+' if per_n > 0 else '-'} {times_of(abs(per_n), 'n', ' ')}"] if per_n else []
        terms += [f"{'+' if constant > 0 else '-'} {abs(constant)}"]
        for n in range(order + 1, order + 1 + steps_ahead):
            value = sum(f * values[-i] for i, f in enumerate(factors, 1)) + per_n * n + constant
            values.append(value)
        rule = " ".join(terms).removeprefix("+ ")
        rule = f"-{rule[2:]}" if rule.startswith("- ") else rule
        text = f"Let {first_terms} and a(n) = {rule} for n > {order}. What is a({order + steps_ahead})?"
        return Question(text, values[-1])


class FunctionComposition(ExactAnswerTask):
    """Find the value of nested functions.

    Levels 1, 2, 4 and 5: two to five functions nested; level 3: the argument that gives a value, through rational maps.
    """

    explain = explained(function_workings.composition, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Works from the inside out; a large value meets a linear function next, so that none explodes."""
        if level == 3:
            return self._backwards(rng)
        x, shown, facts = rng.randint(-9, 9), "x", []
        value = x
        for name in "fghkm"[: level + (level < 3)]:
            degree = 2 if name in "fh" else 1
            coefficients = _coefficients(rng, degree, 6 if degree == 2 else 12)
            if abs(value) > 3_000:
                coefficients = _coefficients(rng, 1, 12)
            new = int(value_at(coefficients, value))
            facts.append(f"{name}(x) = {polynomial(coefficients)}")
            shown, value = f"{name}({shown})", new
        text = f"Let {', '.join(facts)}. What is {shown.replace('(x)', f'({x})')}?"
        return Question(text, value)

    @staticmethod
    def _backwards(rng: random.Random) -> Question:
        """f(g(h(x))) = y with f, h linear and g(x) = (ax + b)/(cx + d); solved for x."""
        while True:
            (p, q), (r, s) = ((nonzero(rng, 9), nonzero(rng, 30)) for _ in range(2))
            a, b, c, d, y = (nonzero(rng, 9) for _ in range(5))
            inner = Fraction(y - q, p)  # what g must give
            if a * d != b * c and inner * c != a:
                break
        middle = (b - inner * d) / (inner * c - a)
        x = (middle - s) / r
        facts = f"f(x) = {polynomial([p, q])}, g(x) = ({polynomial([a, b])}) / ({polynomial([c, d])})"
        text = (
            f"Let {facts}, h(x) = {polynomial([r, s])}. For which x is f(g(h(x))) = {y}? Answer with a whole number or "
        )
        return Question(text + "a fraction.", x)


_PART = re.compile("([+-]?)([0-9]*)(i?)")
_COMPLEX = re.compile(r"(?:[+-]?[0-9]{1,15}(?=[+-]))?[+-]?[0-9]{0,15}i")


class ComplexNumbers(NumberList):
    """Calculate with complex numbers.

    Levels 1 and 2: two factors, three; 3: a whole quotient; 4 and 5: a third to sixth power times a number.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Gaussian integers without a part that is 0; the quotient is a product divided by two of its factors."""
        largest = (12, 12, 20, 12, 9)[level - 1]
        numbers = [n - largest + (n >= largest) for n in below(rng, 2 * largest, 4 if level in (1, 4, 5) else 6)]
        value, other, *rest = zip(numbers[::2], numbers[1::2], strict=True)
        shown = f"({_written(value)})({_written(other)})"
        if level >= 4:
            power = 2 * level - 5 + (rng.random() < 0.5)
            shown, base = f"({_written(value)})^{power}({_written(other)})", value
            for _ in range(power - 1):
                value = _complex_product(value, base)
        value = _complex_product(value, other)
        if level == 2:
            value, shown = _complex_product(value, rest[0]), f"{shown}({_written(rest[0])})"
        elif level == 3:
            above = _complex_product(value, rest[0])  # divided by two of its three factors
            shown, value = f"({_written(above)}) / [{shown}]", rest[0]
        text = (
            f"Work out {shown}, where i^2 = -1. Answer with the real part and the imaginary part, two whole numbers in "
        )
        return Question(text + "this order.", value, content=shown)

    def check(self, question: Question, answer: str) -> str | None:
        """The two parts, or the number as it is usually written: ``3 - 2i``."""
        whole = _COMPLEX.fullmatch(answer.replace(" ", ""))
        return super().check(question, listed(_read(whole[0])) if whole else answer)

    def explain(self, state: Question) -> str:
        """Multiplies from left to right; a quotient is widened by the conjugate of its denominator."""
        factors = [_read(text) for text in re.findall(r"\(([^()]+)\)", state.content)]
        if "/" in state.content:
            above, *two = factors
            below, answer = _complex_product(*two), (int(state.answer[0]), int(state.answer[1]))
            top, norm = _complex_product(above, (below[0], -below[1])), below[0] ** 2 + below[1] ** 2
            conjugate = (below[0], -below[1])
            size = f"{bracketed(below[0])}^2 + {bracketed(below[1])}^2 = {norm}"
            result = f"The quotient is ({_written(top)}) / {norm} = {_written(answer)}"
            return lines([_multiplied(*two), f"Times its conjugate: {_multiplied(above, conjugate)}", size, result])
        if power := re.search(r"\^([0-9])", state.content):
            factors[:1] *= int(power[1])
        value, steps = factors[0], []
        for factor in factors[1:]:
            new = _complex_product(value, factor)
            steps.append(_multiplied(value, factor))
            value = new
        return lines(steps)


def _multiplied(left: tuple[int, int], right: tuple[int, int]) -> str:
    """A product of two complex numbers, worked out."""
    (a, b), (c, d) = [tuple(map(bracketed, number)) for number in (left, right)]
    parts = f"({a}*{c} - {b}*{d}) + ({a}*{d} + {b}*{c})i"
    return f"({_written(left)})({_written(right)}) = {parts} = {_written(_complex_product(left, right))}"


def _complex_product(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    (a, b), (c, d) = left, right
    return a * c - b * d, a * d + b * c


def _written(number: tuple[int, int]) -> str:
    """``3 - 2i``, ``-i``, ``5``."""
    real, imaginary = number
    if not imaginary:
        return str(real)
    size = -imaginary if imaginary < 0 else imaginary
    unit = "i" if size == 1 else f"{size}i"
    if not real:
        return f"-{unit}" if imaginary < 0 else unit
    return f"{real} - {unit}" if imaginary < 0 else f"{real} + {unit}"


def _read(text: str) -> tuple[int, int]:
    """What ``_written`` has written."""
    parts = [0, 0]
    for sign, digits, unit in _PART.findall(text.replace(" ", "")):
        if digits or unit:
            parts[bool(unit)] = int(f"{sign}{digits or 1}")
    return parts[0], parts[1]
