"""Functions of rational numbers whose values are rational, or rational times a power of pi."""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, gcd, lcm, prod
from typing import Final

from rlvr.envs.rewards.expressions.polynomial import check_size
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError

MAX_FACTORIAL: Final = 300
MAX_ZETA: Final = 60
NAMES: Final = frozenset("factorial multifactorial binom gcd lcm max min floor ceil abs sgn mod gamma zeta".split())


def of(name: str, numbers: list[Fraction]) -> tuple[Fraction | int, Fraction] | None:
    """The value as a rational number and the power of pi that it is multiplied by; None where there is no rule.

    Raises:
        MathSyntaxError: the function has no value there.
        MathLimitError: a number over a cap.
    """
    if name == "gamma" and len(numbers) == 1:
        return _gamma(numbers[0])
    if name == "zeta" and len(numbers) == 1 and numbers[0].denominator == 1:
        return _zeta(numbers[0].numerator)
    value = _rational(name, numbers)
    return None if value is None else (value, Fraction(0))


def _gamma(x: Fraction) -> tuple[Fraction | int, Fraction] | None:
    """Gamma of a whole number, and of a half: sqrt(pi) times a rational number."""
    if abs(x) > MAX_FACTORIAL:
        raise MathLimitError(f"a gamma function may be of {MAX_FACTORIAL}")
    if x.denominator == 1:
        if x < 1:
            raise MathSyntaxError("the gamma function has no value there")
        return factorial(x.numerator - 1), Fraction(0)
    if x.denominator != 2:
        return None
    value, half = Fraction(1), Fraction(1, 2)
    while x > half:
        x -= 1
        value *= x
    while x < half:
        value /= x
        x += 1
    return value, half


def _zeta(n: int) -> tuple[Fraction, Fraction] | None:
    """The zeta function at whole numbers up to 0 and at even ones, by the numbers of Bernoulli."""
    if n == 1:
        raise MathSyntaxError("the zeta function has no value at 1")
    if abs(n) > MAX_ZETA:
        raise MathLimitError(f"a zeta function may be of {MAX_ZETA}")
    if n <= 0:
        sign = -1 if n else 1
        return (sign * _bernoulli(1 - n) / (1 - n) if n else Fraction(-1, 2)), Fraction(0)
    if n % 2:
        return None
    return abs(_bernoulli(n)) * 2 ** (n - 1) / factorial(n), Fraction(n)


def _bernoulli(n: int) -> Fraction:
    numbers: list[Fraction] = []
    for m in range(n + 1):
        numbers.append(Fraction(m == 0) - sum((comb(m, k) * numbers[k] / (m - k + 1) for k in range(m)), Fraction(0)))
    return numbers[n]


def _rational(name: str, numbers: list[Fraction]) -> Fraction | int | None:
    first = numbers[0]
    if name == "abs":
        return abs(first)
    if name == "sgn":
        return (first > 0) - (first < 0)
    if name in ("max", "min"):
        return max(numbers) if name == "max" else min(numbers)
    if name in ("floor", "ceil"):
        return first.numerator // first.denominator if name == "floor" else -(-first.numerator // first.denominator)
    if name == "mod":
        return first % numbers[1] if len(numbers) == 2 and numbers[1] > 0 else None
    if any(number.denominator != 1 for number in numbers):
        return None
    return _of_integers(name, [number.numerator for number in numbers])


def _of_integers(name: str, integers: list[int]) -> Fraction | int:
    if name in ("gcd", "lcm"):
        return check_size(Fraction(gcd(*integers) if name == "gcd" else lcm(*integers)))
    if any(integer < 0 for integer in integers):
        raise MathSyntaxError(f"a {name} of a negative number")
    if any(integer > MAX_FACTORIAL for integer in integers):
        raise MathLimitError(f"a {name} may be of {MAX_FACTORIAL}")
    if name == "factorial":
        return factorial(integers[0])
    if name == "multifactorial":
        return prod(range(integers[0], 0, -integers[1]))
    return comb(integers[0], integers[1])
