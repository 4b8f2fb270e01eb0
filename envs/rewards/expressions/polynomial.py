"""Exact sums of monomials over the rationals, with radicals, i, pi, e, symbols and opaque functions as atoms.

A monomial is a set of (atom, exponent) pairs with rational exponents. Fractional powers of different primes are
linearly independent over the rationals (Besicovitch 1940), so for numbers made of radicals the zero test is exact.
Every operation draws on a work budget: a text that would expand without end raises ``MathLimitError`` instead.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import gcd, isqrt
from typing import Any, Final

from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError

Atom = tuple[Any, ...]
Monomial = frozenset[tuple[Atom, Fraction]]
Polynomial = dict[Monomial, Fraction]

ONE: Final[Monomial] = frozenset()
MAX_BITS: Final = 8_192
MAX_WORK: Final = 4_000
MAX_TERMS: Final = 250
_TRIAL: Final = 10_000


class Work:
    """What one grade may spend: term operations of polynomial arithmetic."""

    def __init__(self, budget: int = MAX_WORK) -> None:
        self.left = budget

    def spend(self, amount: int) -> None:
        """Use up so many term operations; raises ``MathLimitError`` when there are too few left."""
        self.left -= amount
        if self.left < 0:
            raise MathLimitError(f"an answer may cost {MAX_WORK:,} term operations")


def constant(value: Fraction | int) -> Polynomial:
    return {ONE: Fraction(value)} if value else {}


def atom(key: Atom, exponent: Fraction | int = 1) -> Polynomial:
    return {frozenset([(key, Fraction(exponent))]): Fraction(1)}


def as_constant(poly: Polynomial) -> Fraction | None:
    """The rational number that a polynomial is, or None."""
    if not poly:
        return Fraction(0)
    if len(poly) == 1 and ONE in poly:
        return poly[ONE]
    return None


def check_size(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise MathLimitError(f"a number may have {MAX_BITS:,} bits")
    return value


def add(left: Polynomial, right: Polynomial, work: Work, factor: int = 1) -> Polynomial:
    work.spend(len(right) + 1)
    total = dict(left)
    for monomial, coefficient in right.items():
        value = total.get(monomial, 0) + factor * coefficient
        work.spend(value.denominator.bit_length() + value.numerator.bit_length() >> 7)
        if value:
            total[monomial] = check_size(value)
        else:
            total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise MathLimitError(f"an answer may expand to {MAX_TERMS} terms")
    return total


def multiply(left: Polynomial, right: Polynomial, work: Work) -> Polynomial:
    work.spend(len(left) * len(right) + 1)
    total: Polynomial = {}
    for mono_left, coefficient_left in left.items():
        for mono_right, coefficient_right in right.items():
            monomial, factor = multiply_monomials(mono_left, mono_right)
            value = total.get(monomial, 0) + coefficient_left * coefficient_right * factor
            work.spend(value.denominator.bit_length() + value.numerator.bit_length() >> 7)
            if value:
                total[monomial] = check_size(value)
            else:
                total.pop(monomial, None)
    if len(total) > MAX_TERMS:
        raise MathLimitError(f"an answer may expand to {MAX_TERMS} terms")
    return total


def multiply_monomials(left: Monomial, right: Monomial) -> tuple[Monomial, Fraction]:
    """The product, and the rational factor that its radicals and powers of i leave behind."""
    if not left or not right:
        return left or right, Fraction(1)
    exponents = dict(left)
    for key, exponent in right:
        exponents[key] = exponents.get(key, Fraction(0)) + exponent
    return reduced(exponents)


def reduced(exponents: dict[Atom, Fraction]) -> tuple[Monomial, Fraction]:
    """A monomial with radicals in [0, 1) and i in {0, 1}, and the rational factor taken out."""
    factor = Fraction(1)
    pairs = []
    for key, exponent in exponents.items():
        if not exponent:
            continue
        if key[0] in ("p", "P"):
            whole = exponent.numerator // exponent.denominator
            if whole:
                check_power(Fraction(key[1]), whole)
                factor *= Fraction(key[1]) ** whole
                exponent -= whole
        elif key[0] == "i" and exponent.denominator == 1:
            turns = exponent.numerator % 4
            factor = -factor if turns >= 2 else factor
            exponent = Fraction(turns % 2)
        if exponent:
            pairs.append((key, exponent))
    return frozenset(pairs), factor


def check_power(base: Fraction, exponent: int) -> None:
    """Raise MathLimitError when ``base ** exponent`` would be over the cap on bits; nothing is computed."""
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base not in (0, 1, -1) and bits * abs(exponent) > MAX_BITS + bits:
        raise MathLimitError(f"a number may have {MAX_BITS:,} bits")


@cache
def _primes() -> tuple[int, ...]:
    sieve = bytearray([1]) * _TRIAL
    for candidate in range(2, isqrt(_TRIAL) + 1):
        if sieve[candidate]:
            sieve[candidate * candidate :: candidate] = bytes(len(range(candidate * candidate, _TRIAL, candidate)))
    return tuple(number for number in range(2, _TRIAL) if sieve[number])


def factorise(number: int) -> dict[Atom, int]:
    """A positive integer as atoms: ``("p", prime)``, and ``("P", n)`` for a part that trial division leaves whole."""
    factors: dict[Atom, int] = {}
    if number.bit_length() > 1_024:
        raise MathLimitError("a radicand may have 1,024 bits")
    for prime in _primes():
        if prime * prime > number:
            break
        while number % prime == 0:
            factors[("p", prime)] = factors.get(("p", prime), 0) + 1
            number //= prime
    if number > 1:
        root, power = _perfect_power(number)
        for part in _split(root):
            key = ("p" if part < _TRIAL * _TRIAL or is_prime(part) else "P", part)
            factors[key] = factors.get(key, 0) + power
    return factors


def _split(number: int) -> tuple[int, ...]:
    """The prime factors of a number without small ones, by Pollard's rho; numbers above 10^14 stay whole."""
    if number < _TRIAL * _TRIAL or number > 10**14 or is_prime(number):
        return (number,)
    for start in range(1, 20):
        slow = fast = start
        divisor = 1
        while divisor == 1:
            slow = (slow * slow + start) % number
            fast = (fast * fast + start) % number
            fast = (fast * fast + start) % number
            divisor = gcd(slow - fast, number)
        if divisor != number:
            return (*_split(divisor), *_split(number // divisor))
    return (number,)


def is_prime(number: int) -> bool:
    """Whether an odd number above 41 is prime, proven by the Miller-Rabin test; False above the proven range."""
    if number >= 3_317_044_064_679_887_385_961_981:  # Sorenson and Webster 2015: the first 13 primes suffice below
        return False
    shift = (number - 1 & 1 - number).bit_length() - 1
    for witness in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        power = pow(witness, number - 1 >> shift, number)
        if power in (1, number - 1):
            continue
        for _ in range(shift - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _perfect_power(number: int) -> tuple[int, int]:
    for power in (2, 3, 5, 7):
        root = integer_root(number, power)
        if root**power == number:
            base, inner = _perfect_power(root)
            return base, power * inner
    return number, 1


def integer_root(number: int, degree: int) -> int:
    """The floor of the real root, by bisection."""
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= number:
            low = middle
        else:
            high = middle - 1
    return low


def rational_power(base: Fraction, exponent: Fraction, work: Work) -> Polynomial:
    """A positive rational to a rational power, as a radical.

    Raises:
        MathSyntaxError: the base is not positive.
        MathLimitError: over the caps.
    """
    if base <= 0:
        raise MathSyntaxError("a radical of a number that is not positive")
    work.spend(20 + 4 * (base.numerator.bit_length() + base.denominator.bit_length()))
    exponents: dict[Atom, Fraction] = {}
    for part, sign in ((base.numerator, 1), (base.denominator, -1)):
        for key, power in factorise(part).items():
            exponents[key] = exponents.get(key, Fraction(0)) + sign * power * exponent
    monomial, factor = reduced(exponents)
    return {monomial: check_size(factor)}
