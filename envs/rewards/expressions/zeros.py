"""Proofs that two constants are equal, where normal forms do not settle it.

An algebraic number that is not zero has a least size, which follows from the degree of its field and the size of its
conjugates (Burnikel, Fleischer, Mehlhorn and Schirra 2000, "A strong and easily computable separation bound for
arithmetic expressions involving radicals"). A ball around the difference that is smaller proves equality. Sums of
logarithms and of inverse circular functions with rational factors become products of algebraic numbers.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from math import ceil, gcd, lcm, log2
from typing import Any, Final, NamedTuple

from rlvr.envs.rewards.expressions.algebra import PI, UNIT, Algebra
from rlvr.envs.rewards.expressions.numeric import NoValue, arb_library, difference, enclose, rational
from rlvr.envs.rewards.expressions.polynomial import Atom, Monomial, Polynomial
from rlvr.envs.rewards.grammar.latex import MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node, number

_MAX_ORDER: Final = 5_000
_MAX_EXPONENT: Final = 20_000
_CIRCULAR: Final = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])
_ANGLES: Final = frozenset(["arctan", "arcsin", "arccos"])
_LOGARITHMS: Final = frozenset(["ln", "arcsinh", "arccosh", "arctanh"])
_I: Final = Node("sym", name="i")
_ONE: Final = number(1)


class NotAlgebraic(ValueError):
    """The tree is not known to be an algebraic number."""


class _Size(NamedTuple):
    """A quotient of two algebraic integers: log2 of what bounds the conjugates of each, at least 0."""

    top: float
    bottom: float


class _Field:
    """The field that the trees whose ``size`` was asked for lie in."""

    def __init__(self) -> None:
        self.roots: set[tuple[Node, int]] = set()
        self.order = 1  # of the root of unity in it

    def degree(self) -> int:
        """An upper bound of the degree over the rationals."""
        degree = sum(gcd(k, self.order) == 1 for k in range(1, self.order + 1))
        for _, index in self.roots:
            degree *= index
        return degree

    def size(self, node: Node) -> _Size:
        """Raises NotAlgebraic."""
        if (value := rational(node)) is not None:
            return _Size(_log2(value.numerator), _log2(value.denominator))
        sizes = getattr(self, f"_{node.op}", None)
        if sizes is None:
            raise NotAlgebraic(node.op)
        result: _Size = sizes(node)
        return result

    def _sym(self, node: Node) -> _Size:
        if node.name != "i":
            raise NotAlgebraic(node.name)
        return self._unity(4)

    def _neg(self, node: Node) -> _Size:
        return self.size(node.args[0])

    def _add(self, node: Node) -> _Size:
        total = self.size(node.args[0])
        for arg in node.args[1:]:
            total = _sum(total, self.size(arg))
        return total

    def _mul(self, node: Node) -> _Size:
        left, right = (self.size(arg) for arg in node.args)
        return _Size(left.top + right.top, left.bottom + right.bottom)

    def _div(self, node: Node) -> _Size:
        left, right = (self.size(arg) for arg in node.args)
        return _Size(left.top + right.bottom, left.bottom + right.top)

    def _percent(self, node: Node) -> _Size:
        inner = self.size(node.args[0])
        return _Size(inner.top, inner.bottom + _log2(100))

    def _root(self, node: Node) -> _Size:
        index = rational(node.args[1])
        if index is None or index.denominator != 1 or not 2 <= index <= 100:
            raise NotAlgebraic("root")
        return self._radical(node.args[0], index.numerator)

    def _radical(self, radicand: Node, index: int) -> _Size:
        top, bottom = self.size(radicand)
        self.roots.add((radicand, index))
        if top >= bottom:
            return _Size((top + (index - 1) * bottom) / index, bottom)
        return _Size(top, ((index - 1) * top + bottom) / index)

    def _pow(self, node: Node) -> _Size:
        base, exponent = node.args
        if base == Node("sym", name="e"):
            return self._turn(exponent)
        size = rational(exponent)
        if size is None or size.denominator > 100 or abs(size.numerator) > _MAX_EXPONENT:
            raise NotAlgebraic("pow")
        top, bottom = self.size(base) if size.denominator == 1 else self._radical(base, size.denominator)
        times = abs(size.numerator)
        return _Size(times * top, times * bottom) if size > 0 else _Size(times * bottom, times * top)

    def _turn(self, exponent: Node) -> _Size:
        """A power of e: a root of unity, or not algebraic."""
        half_turns = _multiple(Node("div", (exponent, _I)))
        return self._unity(2 * half_turns.denominator)

    def _unity(self, order: int) -> _Size:
        self.order = lcm(self.order, order)
        if self.order > _MAX_ORDER:
            raise NotAlgebraic("a root of unity of a large order")
        return _Size(0.0, 0.0)

    def _call(self, node: Node) -> _Size:
        if node.name == "exp":
            return self._turn(node.args[0])
        if node.name in _CIRCULAR and len(node.args) == 1:
            self._unity(lcm(4, 2 * _multiple(node.args[0]).denominator))
            return _Size(1.0, 1.0)
        if node.name == "abs" and enclose(node.args[0]).imag.is_zero():
            return self.size(node.args[0])
        if node.name in ("factorial", "binom"):
            sizes = [rational(arg) for arg in node.args]
            if all(size is not None and size.denominator == 1 and 0 <= size <= _MAX_EXPONENT for size in sizes):
                return _Size(_bits(enclose(node)), 0.0)
        if node.name in ("floor", "ceil"):
            value = enclose(node, 256).real.unique_fmpz()
            if value is not None:
                return _Size(_log2(int(value)), 0.0)
        raise NotAlgebraic(node.name)


def _sum(left: _Size, right: _Size) -> _Size:
    return _Size(max(left.top + right.bottom, right.top + left.bottom) + 1, left.bottom + right.bottom)


def _log2(value: int) -> float:
    return log2(abs(value)) + 1e-9 if value else 0.0


def _bits(value: Any) -> float:
    """log2 of the size of a ball, rounded up, at least 0."""
    upper = value.abs_upper()
    return 0.0 if upper < 1 else float((upper.log() / arb_library().arb.const_log2()).upper()) + 1e-9


def _multiple(node: Node) -> Fraction:
    """The rational by which a tree is a multiple of pi; raises NotAlgebraic."""
    try:
        form = Algebra().normal(node)
    except MathSyntaxError:
        raise NotAlgebraic("an angle") from None
    if not form.top:
        return Fraction(0)
    ratio = form.top.get(frozenset([(PI, Fraction(1))])) if form.bottom is UNIT and len(form.top) == 1 else None
    if ratio is None:
        raise NotAlgebraic("an angle that is no rational multiple of pi")
    return ratio


def are_equal_algebraic(left: Node, right: Node, max_bits: int) -> bool | None:
    """Whether two algebraic numbers are equal; None for others, or where the proof needs more bits of precision."""
    field = _Field()
    try:
        top, bottom = _sum(field.size(left), field.size(right))
        least = ceil((field.degree() - 1) * top + bottom) + 1  # the difference is 0 or at least 2 ** -least
        if least > max_bits:
            return None
        bits = 128
        while True:
            rest = difference(left, right, bits)
            if not rest.contains(0):
                return False
            if rest.abs_upper() < arb_library().arb(2) ** -least:
                return True
            if bits > 4 * least + 1_024:
                return None
            bits *= 2
    except (NotAlgebraic, NoValue):
        return None


# -- logarithms and angles


def is_zero(poly: Polynomial, max_bits: int) -> bool:
    """Whether a polynomial of constants is proven to be zero."""
    try:
        left: dict[Monomial, Polynomial] = defaultdict(dict)
        for monomial, coefficient in poly.items():
            algebraic = frozenset(pair for pair in monomial if _is_algebraic(pair))
            left[monomial - algebraic][algebraic] = coefficient
        groups: dict[Any, list[tuple[Fraction, Atom]]] = defaultdict(list)
        for transcendental, factor in left.items():
            if are_equal_algebraic(tree_of(factor), number(0), max_bits):
                continue
            for algebraic, coefficient in factor.items():
                part = _logarithm_in(transcendental)
                if part is None:
                    return False
                groups[_is_angle(part), algebraic | transcendental - {(part, Fraction(1))}].append((coefficient, part))
        return all(_logarithms_vanish(terms, max_bits) for terms in groups.values())
    except (NotAlgebraic, NoValue):
        return False


def _is_algebraic(pair: tuple[Atom, Fraction]) -> bool:
    try:
        _Field().size(tree_of({frozenset([pair]): Fraction(1)}))
    except (NotAlgebraic, NoValue):
        return False
    return True


def _is_angle(part: Atom) -> bool:
    return part == PI or part[1] in _ANGLES


def _logarithm_in(monomial: Monomial) -> Atom | None:
    """The logarithm or angle among the factors; pi, or the logarithm of a prime, only where there is no other."""
    parts = [
        key
        for key, power in monomial
        if power == 1 and (key == PI or (key[0] == "f" and key[1] in _ANGLES | _LOGARITHMS))
    ]
    return min(parts, key=lambda key: (key == PI, isinstance(key[-1][0], str), repr(key)), default=None)


def _logarithms_vanish(terms: list[tuple[Fraction, Atom]], max_bits: int) -> bool:
    """Whether a sum of logarithms, or of angles, with rational factors is 0: its exponential is 1, and it is small."""
    times = 2 * lcm(*(factor.denominator for factor, _ in terms))
    product = _ONE
    total: list[Node] = []
    for factor, part in terms:
        exponent, tree = int(factor * times), _tree_of_atom(part)
        total.append(Node("mul", (number(factor * times), tree)))
        product = Node("mul", (product, _exponential(tree, exponent)))
    value = enclose(Node("add", (*total, number(0))), 128)
    return bool(value.abs_upper() < 1) and are_equal_algebraic(product, _ONE, max_bits) is True


def _exponential(tree: Node, times: int) -> Node:
    """``exp(times * tree)`` of a logarithm, ``exp(i * times * tree)`` of an angle; ``times`` is even."""
    if tree.op == "const":
        return _ONE  # exp(2 pi i)
    argument = tree.args[0]
    if tree.name == "ln":
        return _power(argument, times)
    if tree.name in ("arctan", "arctanh"):
        turned = Node("mul", (_I, argument)) if tree.name == "arctan" else argument
        quotient = Node("div", (Node("add", (_ONE, turned)), Node("add", (_ONE, Node("neg", (turned,))))))
        return _power(quotient, times // 2)
    if tree.name == "arcsinh":
        return _power(Node("add", (argument, _root(Node("add", (_power(argument, 2), _ONE))))), times)
    if tree.name == "arccosh":
        below, above = (Node("add", (argument, number(step))) for step in (-1, 1))
        return _power(Node("add", (argument, Node("mul", (_root(below), _root(above))))), times)
    other = _root(Node("add", (_ONE, Node("neg", (_power(argument, 2),)))))
    real, imaginary = (other, argument) if tree.name == "arcsin" else (argument, other)
    return _power(Node("add", (real, Node("mul", (_I, imaginary)))), times)


def _root(radicand: Node) -> Node:
    return Node("root", (radicand, number(2)))


def _power(base: Node, exponent: int) -> Node:
    return Node("pow", (base, number(exponent)))


# -- from normal forms back to trees


def tree_of(poly: Polynomial) -> Node:
    """A tree of the value of a polynomial."""
    terms = []
    for monomial, coefficient in poly.items():
        term = number(coefficient)
        for key, exponent in monomial:
            factor = _tree_of_atom(key)
            term = Node("mul", (term, factor if exponent == 1 else Node("pow", (factor, number(exponent)))))
        terms.append(term)
    return Node("add", tuple(terms)) if len(terms) > 1 else terms[0] if terms else number(0)


def _tree_of_atom(key: Atom) -> Node:
    kind = key[0]
    if kind in ("p", "P"):
        return number(key[1])
    if kind == "pi":
        return Node("const", name="pi")
    if kind in ("e", "i"):
        return Node("sym", name=kind)
    if kind == "s":
        return Node("sym", name=key[1])
    if kind == "x":
        return Node("pow", (_tree_of_atom(key[1]), tree_of({key[2]: Fraction(1)})))
    args = tuple(_tree_of_key(arg) for arg in key[2:])
    if key[1] == "power":
        return args[0]
    return Node("pow", args) if key[1] == "exponential" else Node("call", args, name=key[1])


def _tree_of_key(key: Any) -> Node:
    if isinstance(key[0], str):
        return _tree_of_atom(key)
    top, bottom = (tree_of(dict(part)) for part in key)
    return top if bottom == _ONE else Node("div", (top, bottom))
