"""Normal forms of expression trees: quotients of exact polynomials, so that equal values compare equal.

What has no closed rule here (a logarithm of a sum, say) becomes an opaque atom; ``Normal.decisive`` tells whether a
difference of normal forms proves a difference of values.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final, NamedTuple

from rlvr.envs.rewards.expressions import exact_values
from rlvr.envs.rewards.expressions.polynomial import (
    ONE,
    Atom,
    Monomial,
    Polynomial,
    Work,
    add,
    as_constant,
    atom,
    check_power,
    check_size,
    constant,
    factorise,
    multiply,
    rational_power,
    reduced,
)
from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node

MAX_EXPONENT: Final = 40
MAX_MONOMIAL_EXPONENT: Final = 10_000
PI: Final[Atom] = ("pi",)
E: Final[Atom] = ("e",)
I: Final[Atom] = ("i",)  # noqa: E741
_HALF_TURN: Final[Monomial] = frozenset([(I, Fraction(1)), (PI, Fraction(1))])
_CIRCULAR: Final = frozenset(["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech", "csch"])
_QUOTIENTS: Final = {"tan": ("sin", "cos"), "cot": ("cos", "sin"), "sec": ("", "cos"), "csc": ("", "sin")}


class Normal(NamedTuple):
    """A quotient of two polynomials; the denominator is 1 unless it is a sum."""

    top: Polynomial
    bottom: Polynomial


UNIT: Final = {ONE: Fraction(1)}


class Algebra:
    """Normal forms under one work budget.

    With ``exponentials``, circular and hyperbolic functions are powers of e, so that their identities are identities of
    polynomials.
    """

    def __init__(self, work: Work | None = None, *, exponentials: bool = False) -> None:
        self.work = work or Work()
        self.exponentials = exponentials

    # -- quotients

    def quotient(self, top: Polynomial, bottom: Polynomial) -> Normal:
        """``top / bottom`` in canonical form."""
        if not bottom:
            raise MathSyntaxError("division by zero")
        if len(bottom) == 1:
            ((monomial, coefficient),) = bottom.items()
            exponents = {key: -exponent for key, exponent in monomial}
            inverse, factor = reduced(exponents)
            return Normal(multiply(top, {inverse: check_size(factor / coefficient)}, self.work), UNIT)
        if top == bottom:
            return Normal(UNIT, UNIT)
        return Normal(top, bottom)

    def plus(self, left: Normal, right: Normal, factor: int = 1) -> Normal:
        """``left + factor * right``."""
        if left.bottom == right.bottom:
            return self.quotient(add(left.top, right.top, self.work, factor), left.bottom)
        first = multiply(left.top, right.bottom, self.work)
        second = multiply(right.top, left.bottom, self.work)
        return self.quotient(add(first, second, self.work, factor), multiply(left.bottom, right.bottom, self.work))

    def times(self, left: Normal, right: Normal) -> Normal:
        """``left * right``."""
        if left.bottom is UNIT and right.bottom is UNIT:
            return Normal(multiply(left.top, right.top, self.work), UNIT)
        return self.quotient(multiply(left.top, right.top, self.work), multiply(left.bottom, right.bottom, self.work))

    def over(self, left: Normal, right: Normal) -> Normal:
        """``left / right``."""
        top = multiply(left.top, right.bottom, self.work)
        return self.quotient(top, multiply(left.bottom, right.top, self.work))

    def difference(self, left: Normal, right: Normal) -> Polynomial:
        """Their difference times both denominators: empty where the two forms are equal."""
        rest = add(
            multiply(left.top, right.bottom, self.work), multiply(right.top, left.bottom, self.work), self.work, -1
        )
        if any(key[0] == "f" for monomial in rest for key, _ in monomial):
            rest = self._rewritten(rest)
        return rest

    def _rewritten(self, poly: Polynomial) -> Polynomial:
        """With ``cos² = 1 - sin²``, and whole powers of opaque radicals multiplied out, as long as there are any."""
        for _ in range(4):
            before, poly = poly, {}
            for monomial, coefficient in before.items():
                poly = add(poly, self._rewritten_term(monomial, coefficient), self.work)
            if poly == before:
                break
        return poly

    def _rewritten_term(self, monomial: Monomial, coefficient: Fraction) -> Polynomial:
        kept: dict[Atom, Fraction] = {}
        product = constant(coefficient)
        for key, exponent in monomial:
            whole, base = exponent.numerator // exponent.denominator, None
            if key[:2] == ("f", "power") and whole > 0 and dict(key[2][1]) == UNIT:
                base, kept[key] = dict(key[2][0]), exponent - whole
            elif key[:2] == ("f", "cos") and exponent.denominator == 1 and whole >= 2:
                base = add(UNIT, atom(("f", "sin", *key[2:]), 2), self.work, -1)
                kept[key], whole = Fraction(whole % 2), whole // 2
            else:
                kept[key] = exponent
            for _ in range(min(whole, MAX_EXPONENT) if base is not None else 0):
                product = multiply(product, base or {}, self.work)
        inner, factor = reduced(kept)
        return multiply(product, {inner: factor}, self.work)

    # -- trees

    def normal(self, node: Node) -> Normal:
        """The normal form of a tree that is one scalar.

        Raises:
            MathSyntaxError: it is no scalar, or undefined.
            MathLimitError: it costs more than the budget.
        """
        method = getattr(self, f"_{node.op}", None)
        if method is None:
            raise MathSyntaxError(f"a {node.op} is not one value")
        result: Normal = method(node)
        return result

    def _num(self, node: Node) -> Normal:
        return Normal(constant(check_size(node.value)), UNIT)

    def _const(self, node: Node) -> Normal:
        if node.name != "pi":
            raise MathSyntaxError("infinity inside an expression")
        return Normal(atom(PI), UNIT)

    def _sym(self, node: Node) -> Normal:
        key = E if node.name == "e" else I if node.name == "i" else ("s", node.name)
        return Normal(atom(key), UNIT)

    def _based(self, node: Node) -> Normal:
        digits, _, base = node.name.partition("_")
        if len(digits) > 200:
            raise MathLimitError("a number in another base may have 200 digits")
        try:
            return Normal(constant(int(digits, int(base))), UNIT)
        except ValueError:
            raise MathSyntaxError(f"{digits[:20]} is not a number in base {base}") from None

    def _neg(self, node: Node) -> Normal:
        return self._negative(self.normal(node.args[0]))

    def _negative(self, form: Normal) -> Normal:
        return Normal({monomial: -value for monomial, value in form.top.items()}, form.bottom)

    def _add(self, node: Node) -> Normal:
        total = self.normal(node.args[0])
        for arg in node.args[1:]:
            total = self.plus(total, self.normal(arg))
        return total

    def _mul(self, node: Node) -> Normal:
        return self.times(self.normal(node.args[0]), self.normal(node.args[1]))

    def _div(self, node: Node) -> Normal:
        return self.over(self.normal(node.args[0]), self.normal(node.args[1]))

    def _percent(self, node: Node) -> Normal:
        return self.times(self.normal(node.args[0]), Normal(constant(Fraction(1, 100)), UNIT))

    def _degree(self, node: Node) -> Normal:
        return self.times(self.normal(node.args[0]), Normal({frozenset([(PI, Fraction(1))]): Fraction(1, 180)}, UNIT))

    def _root(self, node: Node) -> Normal:
        index = _rational(self.normal(node.args[1]))
        if index is None or index.denominator != 1 or index < 2:
            raise MathSyntaxError("the index of a root must be a whole number of at least 2")
        if index > 100:
            raise MathLimitError("the index of a root may be 100")
        return self.power(self.normal(node.args[0]), Fraction(1, index))

    def _pow(self, node: Node) -> Normal:
        base, exponent = self.normal(node.args[0]), self.normal(node.args[1])
        size = _rational(exponent)
        if size is not None:
            return self.power(base, size)
        return self._exponential(base, exponent)

    # -- powers

    def power(self, base: Normal, exponent: Fraction) -> Normal:
        """``base ** exponent``."""
        if exponent.denominator == 1:
            return self._whole_power(base, exponent.numerator)
        if exponent.denominator > 100:
            raise MathLimitError("the index of a root may be 100")
        rational = _rational(base)
        if rational is not None:
            return Normal(self._radical(rational, exponent), UNIT)
        if base.bottom is UNIT and len(base.top) == 1:
            ((monomial, coefficient),) = base.top.items()
            is_odd = exponent.denominator % 2 == 1  # the real root, of what is negative, too
            if (coefficient > 0 or is_odd) and all(_may_distribute(key, power, is_odd) for key, power in monomial):
                inner, factor = reduced({key: power * exponent for key, power in monomial})
                root = self._radical(coefficient, exponent)
                return Normal(multiply(root, {inner: factor}, self.work), UNIT)
        return self._opaque_power(base, exponent)

    def _whole_power(self, base: Normal, exponent: int) -> Normal:
        if not base.top:
            if exponent <= 0:
                raise MathSyntaxError("zero to a power that is not positive")
            return base
        if base.bottom is UNIT and len(base.top) == 1:
            ((monomial, coefficient),) = base.top.items()
            if abs(exponent) > MAX_MONOMIAL_EXPONENT:
                raise MathLimitError(f"an exponent may be {MAX_MONOMIAL_EXPONENT:,}")
            check_power(coefficient, exponent)
            inner, factor = reduced({key: power * exponent for key, power in monomial})
            return Normal({inner: check_size(Fraction(coefficient**exponent) * factor)}, UNIT)
        if abs(exponent) > MAX_EXPONENT:
            raise MathLimitError(f"the exponent of a sum may be {MAX_EXPONENT}")
        result = Normal(UNIT, UNIT)
        for _ in range(abs(exponent)):
            result = self.times(result, base)
        return self.over(Normal(UNIT, UNIT), result) if exponent < 0 else result

    def _radical(self, base: Fraction, exponent: Fraction) -> Polynomial:
        if base > 0:
            return rational_power(base, exponent, self.work)
        if base == 0:
            if exponent < 0:
                raise MathSyntaxError("zero to a negative power")
            return {}
        positive = rational_power(-base, exponent, self.work)
        if exponent.denominator % 2:
            return positive if exponent.numerator % 2 == 0 else {key: -value for key, value in positive.items()}
        if exponent.denominator == 2:
            return multiply(positive, self._whole_power(Normal(atom(I), UNIT), exponent.numerator % 4).top, self.work)
        raise MathSyntaxError("a root of a negative number with an even index above 2")

    def _opaque_power(self, base: Normal, exponent: Fraction) -> Normal:
        scale = _content(base)
        if scale <= 0:
            return Normal(atom(("f", "power", key_of(base)), exponent), UNIT)
        rest = Normal({monomial: value / scale for monomial, value in base.top.items()}, base.bottom)
        outside = rational_power(scale, exponent, self.work)
        return Normal(multiply(outside, atom(("f", "power", key_of(rest)), exponent), self.work), UNIT)

    def _exponential(self, base: Normal, exponent: Normal) -> Normal:
        """A power with a symbolic exponent: one atom for each prime or symbol of the base and term of the exponent."""
        ((monomial, coefficient),) = base.top.items() if len(base.top) == 1 else ((ONE, Fraction(-1)),)
        is_positive = base.bottom is UNIT and coefficient > 0 and all(_is_positive(key) for key, _ in monomial)
        if exponent.bottom is not UNIT or not is_positive:
            flipped = self._negative(exponent)
            if _spelling(flipped.top) < _spelling(exponent.top):
                return Normal(atom(("f", "exponential", key_of(base), key_of(flipped)), -1), UNIT)
            return Normal(atom(("f", "exponential", key_of(base), key_of(exponent))), UNIT)
        self.work.spend(20 + coefficient.numerator.bit_length() + coefficient.denominator.bit_length())
        bases = {key: Fraction(power) for key, power in factorise(coefficient.numerator).items()}
        for key, power in factorise(coefficient.denominator).items():
            bases[key] = bases.get(key, Fraction(0)) - power
        for key, part in monomial:
            bases[key] = bases.get(key, Fraction(0)) + part
        result = Normal(UNIT, UNIT)
        for term, size in exponent.top.items():
            if not term:
                result = self.times(result, self.power(base, size))
                continue
            turn = self._turn(size) if bases == {E: 1} and term == _HALF_TURN else None
            if turn is not None:
                result = self.times(result, turn)
                continue
            exponents: dict[Atom, Fraction] = {("x", key, term): part * size for key, part in bases.items()}
            result = self.times(result, Normal({reduced(exponents)[0]: Fraction(1)}, UNIT))
        return result

    def _turn(self, half_turns: Fraction) -> Normal | None:
        """``e ** (i * pi * half_turns)`` at multiples of 15 degrees."""
        cosine, sine = self._circular(half_turns + Fraction(1, 2)), self._circular(half_turns)
        if cosine is None or sine is None:
            return None
        return self.plus(cosine, self.times(sine, Normal(atom(I), UNIT)))

    # -- functions

    def _call(self, node: Node) -> Normal:
        name = node.name
        args = [self.normal(arg) for arg in node.args]
        if name in exact_values.NAMES:
            numbers = [number for arg in args if (number := _rational(arg)) is not None]
            value = exact_values.of(name, numbers) if len(numbers) == len(args) else None
            if value is not None:
                factor = atom(PI, value[1]) if value[1] else UNIT
                return Normal(multiply(factor, constant(value[0]), self.work), UNIT)
        if name in ("conj", "Re", "Im") and len(args) == 1:
            return self._part(name, args[0])
        if name in ("ln", "log", "log_", "exp") and len(args) == (2 if name == "log_" else 1):
            return self._logarithm(name, args)
        if self.exponentials and name in _CIRCULAR and len(args) == 1:
            return self._as_exponentials(name, args[0])
        if name in _QUOTIENTS and len(args) == 1:
            top, bottom = _QUOTIENTS[name]
            above = self._circle(top, args[0]) if top else Normal(UNIT, UNIT)
            return self.over(above, self._circle(bottom, args[0]))
        if name in ("sin", "cos") and len(args) == 1:
            return self._circle(name, args[0])
        return self.opaque(name, args)

    def _part(self, name: str, whole: Normal) -> Normal:
        """The conjugate, the real or the imaginary part of a polynomial in i and positive numbers."""
        atoms = {key for monomial in whole.top for key, _ in monomial}
        if whole.bottom is not UNIT or any(key != I and (key[0] == "s" or not _is_positive(key)) for key in atoms):
            return self.opaque(name, [whole])
        conjugate = {
            monomial: -value if (I, Fraction(1)) in monomial else value for monomial, value in whole.top.items()
        }
        if name == "conj":
            return Normal(conjugate, UNIT)
        twice = self.plus(whole, Normal(conjugate, UNIT), 1 if name == "Re" else -1)
        divisor = {ONE: Fraction(2)} if name == "Re" else multiply(atom(I), {ONE: Fraction(2)}, self.work)
        return self.over(twice, Normal(divisor, UNIT))

    def opaque(self, name: str, args: list[Normal]) -> Normal:
        """A function that is kept as a symbol, keyed by its arguments."""
        return Normal(atom(("f", name, *(key_of(arg) for arg in args))), UNIT)

    def _logarithm(self, name: str, args: list[Normal]) -> Normal:
        if name == "exp":
            return self._pow_of_e(args[0])
        value = self._ln(args[0])
        if name == "ln":
            return value
        return self.over(value, self._ln(args[1] if name == "log_" else Normal(constant(10), UNIT)))

    def _as_exponentials(self, name: str, argument: Normal) -> Normal:
        turned = argument if name.endswith("h") else self.times(argument, Normal(atom(I), UNIT))
        up, down = self._pow_of_e(turned), self._pow_of_e(self._negative(turned))
        cosine, sine = self.plus(up, down), self.plus(up, down, -1)  # twice the cosine, and 2 or 2i times the sine
        if not name.endswith("h"):
            sine = self.over(sine, Normal(atom(I), UNIT))
        two = Normal(constant(2), UNIT)
        above, below = {
            "sin": (sine, two), "cos": (cosine, two), "tan": (sine, cosine), "cot": (cosine, sine),
            "sec": (two, cosine), "csc": (two, sine),
        }[name.removesuffix("h")]  # fmt: skip
        return self.over(above, below)

    def _pow_of_e(self, exponent: Normal) -> Normal:
        size = _rational(exponent)
        base = Normal(atom(E), UNIT)
        return self.power(base, size) if size is not None else self._exponential(base, exponent)

    def _ln(self, argument: Normal) -> Normal:
        """The natural logarithm; of a positive constant as a sum over its primes."""
        if not argument.top:
            raise MathSyntaxError("the logarithm of zero")
        if argument.bottom is not UNIT or len(argument.top) != 1:
            return self.opaque("ln", [argument])
        ((monomial, coefficient),) = argument.top.items()
        if coefficient < 0 or any(key[0] not in ("p", "P", "pi", "e") for key, _ in monomial):
            return self.opaque("ln", [argument])
        self.work.spend(20 + coefficient.numerator.bit_length() + coefficient.denominator.bit_length())
        powers: dict[Atom, Fraction] = {key: Fraction(power) for key, power in factorise(coefficient.numerator).items()}
        for key, power in factorise(coefficient.denominator).items():
            powers[key] = powers.get(key, Fraction(0)) - power
        for key, exponent in monomial:
            powers[key] = powers.get(key, Fraction(0)) + exponent
        total: Polynomial = {}
        for key, exponent in powers.items():
            log = constant(1) if key == E else atom(("f", "ln", key))
            total = add(total, multiply(constant(exponent), log, self.work), self.work)
        return Normal(total, UNIT)

    def _circle(self, name: str, argument: Normal) -> Normal:
        """Sine or cosine: exact at multiples of 15 degrees, opaque elsewhere with the sign taken out."""
        half_turns = Fraction(0) if not argument.top else None
        if argument.bottom is UNIT and len(argument.top) == 1:
            half_turns = argument.top.get(frozenset([(PI, Fraction(1))]))
        if half_turns is not None:
            exact = self._circular(half_turns + (Fraction(1, 2) if name == "cos" else 0))
            if exact is not None:
                return exact
        flipped = self._negative(argument)
        if _spelling(flipped.top) < _spelling(argument.top):
            inner = self.opaque(name, [flipped])
            return inner if name == "cos" else Normal({m: -v for m, v in inner.top.items()}, UNIT)
        return self.opaque(name, [argument])

    def _circular(self, half_turns: Fraction) -> Normal | None:
        """``sin(pi * half_turns)`` when it is a multiple of 15 degrees."""
        steps = half_turns * 12 % 24
        if steps.denominator != 1:
            return None
        step = steps.numerator
        sign = -1 if step >= 12 else 1
        step %= 12
        step = min(step, 12 - step)
        root = {0: Fraction(0), 2: Fraction(1, 2), 6: Fraction(1)}
        if step in root:
            return Normal(constant(sign * root[step]), UNIT)
        if step in (3, 4):
            value = rational_power(Fraction(2 if step == 3 else 3), Fraction(1, 2), self.work)
            return Normal(multiply(value, constant(Fraction(sign, 2)), self.work), UNIT)
        second = multiply(
            rational_power(Fraction(2), Fraction(1, 2), self.work), constant(1 if step == 5 else -1), self.work
        )
        value = add(rational_power(Fraction(6), Fraction(1, 2), self.work), second, self.work)
        return Normal(multiply(value, constant(Fraction(sign, 4)), self.work), UNIT)


def key_of(form: Normal) -> tuple[Any, Any]:
    return frozenset(form.top.items()), frozenset(form.bottom.items())


def _rational(form: Normal) -> Fraction | None:
    return as_constant(form.top) if form.bottom is UNIT else None


def _content(form: Normal) -> Fraction:
    """The positive rational that all coefficients share; 0 when the form is a quotient."""
    if form.bottom is not UNIT:
        return Fraction(0)
    tops = [value.numerator for value in form.top.values()]
    bottoms = [value.denominator for value in form.top.values()]
    return Fraction(gcd(*tops), lcm(*bottoms))


def _spelling(poly: Polynomial) -> list[str]:
    """What orders a polynomial and its negative."""
    return sorted(map(repr, poly.items()))


def _may_distribute(key: Atom, power: Fraction, is_odd: bool) -> bool:
    """Whether a root may be drawn through a factor: it is positive, a symbol under an odd root, or its first power."""
    return power == 1 or (is_odd and power.denominator == 1) if key[0] == "s" else _is_positive(key)


def _is_positive(key: Atom) -> bool:
    """Whether an atom stands for a positive number, symbols taken as such."""
    if key[0] == "x":
        return _is_positive(key[1]) and all(_is_real(inner) for inner, _ in key[2])
    return key[0] in ("p", "P", "pi", "e", "s")


def _is_real(key: Atom) -> bool:
    return _is_positive(key) or (key[:2] == ("f", "ln") and key[2][0] in ("p", "P"))


def is_decisive(rest: Polynomial) -> bool:
    """Whether a difference that is not empty proves that the values differ."""
    return all(_independent(monomial) for monomial in rest) and _one_transcendental(rest)


def _independent(monomial: Monomial) -> bool:
    return all(
        key[0] in ("p", "s", "i", "pi", "e")
        or (key[0] == "x" and key[1][0] in ("p", "s", "e") and all(inner[0] == "s" for inner, _ in key[2]))
        for key, _ in monomial
    )


def _one_transcendental(poly: Polynomial) -> bool:
    """Whether not both pi and e occur: nobody knows whether they are independent."""
    kinds = {key[0] for monomial in poly for key, _ in monomial}
    return not {"pi", "e"} <= kinds
