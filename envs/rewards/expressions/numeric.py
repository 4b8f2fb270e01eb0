"""Enclosures of the values of expression trees: balls that are proven to hold them, by Arb (python-flint).

Balls that do not overlap prove that two values differ; equality is proven by ``zeros``. Symbols stand for exact
rational numbers that depend on their names and the salt.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from rlvr.envs.rewards.grammar.tree import Node, number

if TYPE_CHECKING:
    from flint import acb, arb

BITS: Final = 64
# Positive numbers near 1, others near 1, large ones and small ones; negative ones for a negative salt.
SALTS: Final = (1, 2, 3, 4)
_MAX_FACTORIAL: Final = 10**6


class NoValue(ArithmeticError):
    """The tree has no value here: it is no scalar, undefined, or of a function without a rule."""


_precision = threading.RLock()  # flint's precision is one of the process, not of the thread


def _after_fork() -> None:
    global _precision
    _precision = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def _working_with(bits: int) -> Iterator[None]:
    with _precision, arb_library().ctx.workprec(bits):
        yield


@cache
def arb_library() -> Any:
    """python-flint, imported when the first value is enclosed."""
    import flint

    return flint


@cache
def _functions() -> dict[str, Callable[[Any], Any]]:
    acb = arb_library().acb
    return {
        "sin": acb.sin,
        "cos": acb.cos,
        "tan": acb.tan,
        "cot": acb.cot,
        "sec": acb.sec,
        "csc": acb.csc,
        "arcsin": acb.asin,
        "arccos": acb.acos,
        "arctan": acb.atan,
        "sinh": acb.sinh,
        "cosh": acb.cosh,
        "tanh": acb.tanh,
        "coth": acb.coth,
        "sech": acb.sech,
        "csch": acb.csch,
        "arcsinh": acb.asinh,
        "arccosh": acb.acosh,
        "arctanh": acb.atanh,
        "erf": acb.erf,
        "gamma": acb.gamma,
        "zeta": acb.zeta,
        "Si": acb.si,
        "Ci": acb.ci,
        "Ei": acb.ei,
        "ln": acb.log,
        "log": lambda x: x.log() / acb(10).log(),
        "exp": acb.exp,
        "abs": lambda x: acb(abs(x)),
        "Re": lambda x: acb(x.real),
        "Im": lambda x: acb(x.imag),
        "conj": lambda x: acb(x.real, -x.imag),
        "arg": lambda x: acb(x.arg()),
    }


@cache
def _real_functions() -> dict[str, Callable[..., Any]]:
    arb = arb_library().arb
    return {
        "floor": lambda x: x.floor(),
        "ceil": lambda x: x.ceil(),
        "sgn": lambda x: x.sgn(),
        "max": lambda x, *others: _fold(arb.max, x, others),
        "min": lambda x, *others: _fold(arb.min, x, others),
    }


def enclose(node: Node, bits: int = BITS, salt: int = 1) -> acb:
    """A ball that holds the value of a scalar tree, computed with so many bits.

    Raises:
        NoValue: it has none, or none that is known to be finite with so many bits.
    """
    with _working_with(bits):
        try:
            value: acb = _value(node, salt)
        except (OverflowError, ValueError, ZeroDivisionError, MemoryError) as error:
            raise NoValue(str(error)) from error
    if not value.is_finite():
        raise NoValue("not finite")
    return value


def difference(left: Node, right: Node, bits: int, salt: int = 1) -> acb:
    """A ball that holds ``left - right``; raises NoValue."""
    first, second = enclose(left, bits, salt), enclose(right, bits, salt)
    with _working_with(bits):
        return first - second


def are_apart(left: Node, right: Node, bits: int, salts: tuple[int, ...]) -> bool:
    """Whether balls of so many bits prove that two scalars differ.

    A point where one of them is not real proves nothing if there is one where both are real: ``ln(x - 5)``.

    Raises:
        NoValue: the first tree has no value at any of the points.
    """
    values, apart, is_real_somewhere = 0, False, False
    for salt in salts:
        try:
            value = enclose(left, bits, salt)
            values += 1
            other = enclose(right, bits, salt)
        except NoValue:
            continue
        are_real = value.imag.contains(0) and other.imag.contains(0)
        if not value.overlaps(other):
            if are_real:
                return True
            apart = True
        is_real_somewhere = is_real_somewhere or are_real
    if not values:
        raise NoValue("no value at any point")
    return apart and not is_real_somewhere


def is_real(node: Node) -> bool:
    """Whether a tree without symbols is a real number, infinities included."""
    while node.op == "neg":
        node = node.args[0]
    if node.op == "const" and node.name == "inf":
        return True
    try:
        return not has_symbols(node) and bool(enclose(node).imag.contains(0))
    except NoValue:
        return False


def sign(node: Node, bits: int = BITS) -> int:
    """1 or -1 for a real number that is proven to have this sign, else 0."""
    value = enclose(node, bits)
    if not value.imag.contains(0):
        return 0
    return 1 if value.real > 0 else -1 if value.real < 0 else 0


def has_symbols(node: Node) -> bool:
    if node.op == "sym":
        return node.name not in ("e", "i")
    return any(has_symbols(arg) for arg in node.args)


def point(name: str, salt: int) -> Fraction:
    """The number that a symbol stands for."""
    size = Fraction(1, 3) + Fraction(crc32(f"{name}:{salt}".encode("utf-8", "surrogatepass")) % 9973, 5309)
    return -size if salt < 0 else size * 16 if salt == 3 else size / 16 if salt == 4 else size


def at_point(node: Node, salt: int) -> Node:
    """The tree with its symbols set to the numbers that they stand for."""
    if node.op == "sym" and node.name not in ("e", "i"):
        return number(point(node.name, salt))
    return Node(node.op, tuple(at_point(arg, salt) for arg in node.args), node.name, node.value)


def _value(node: Node, salt: int) -> Any:
    op = node.op
    if op == "num":
        return _exact(node.value)
    if op == "sym":
        if node.name == "e":
            return _functions()["exp"](arb_library().acb(1))
        return arb_library().acb(0, 1) if node.name == "i" else _exact(point(node.name, salt))
    if op == "const":
        if node.name != "pi":
            raise NoValue("infinity")
        return arb_library().acb.pi()
    if op == "pow":
        return _power(_value(node.args[0], salt), node.args[1], salt)
    values = [_value(arg, salt) for arg in node.args]
    if op == "call":
        return _call(node.name, values)
    if op == "add":
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total
    if op == "neg":
        return -values[0]
    if op == "mul":
        return values[0] * values[1]
    if op == "div":
        return values[0] / values[1]
    if op == "percent":
        return values[0] / 100
    if op == "degree":
        return values[0] * arb_library().acb.pi() / 180
    if op == "root" and node.args[1].value.denominator == 1 and 2 <= node.args[1].value <= 10_000:
        return _root(values[0], node.args[1].value.numerator)
    raise NoValue(f"a {op} is not one value")


def _exact(value: Fraction) -> acb:
    flint = arb_library()
    exact: acb = flint.acb(flint.arb(flint.fmpq(value.numerator, value.denominator)))
    return exact


def _power(base: acb, exponent: Node, salt: int) -> Any:
    size = rational(exponent)
    if size is None:
        if base.is_zero():
            raise NoValue("zero to a power that is not rational")
        return base ** _value(exponent, salt)
    if size.denominator > 1:
        base = _root(base, size.denominator) if size.denominator <= 10_000 else base
        size *= size.denominator if size.denominator <= 10_000 else 1
    if base.is_zero() and size <= 0:
        raise NoValue("zero to a power that is not positive")
    return base**size.numerator if size.denominator == 1 else base ** _exact(size)


def _root(base: acb, degree: int) -> Any:
    """The principal root; of a negative real number and an odd degree the real one."""
    if degree % 2 and base.imag.is_zero() and base.real < 0:
        return -(-base).root(degree)
    return base.root(degree)


def rational(node: Node) -> Fraction | None:
    """The value of numbers and of their sums, products, quotients and small powers; None for anything else."""
    if node.op == "num":
        return node.value
    if node.op not in ("neg", "add", "mul", "div", "pow"):
        return None
    values = []
    for arg in node.args:
        value = rational(arg)
        if value is None:
            return None
        values.append(value)
    if node.op == "neg":
        return -values[0]
    if node.op == "add":
        return sum(values, Fraction(0))
    if node.op == "mul":
        return values[0] * values[1]
    if node.op == "div":
        return values[0] / values[1] if values[1] else None
    base, exponent = values
    if exponent.denominator > 1 or abs(exponent) > 64 or (not base and exponent <= 0):
        return None
    return Fraction(base**exponent.numerator)


def _call(name: str, values: list[acb]) -> Any:
    if name in _functions() and len(values) == 1:
        return _functions()[name](values[0])
    if name == "log_" and len(values) == 2:
        return values[0].log() / values[1].log()
    if name == "factorial":
        return (values[0] + 1).gamma() if values[0].abs_upper() < _MAX_FACTORIAL else _far_factorial(values[0])
    if name == "binom" and len(values) == 2:
        top, bottom = values
        return (top + 1).gamma() * (bottom + 1).rgamma() * (top - bottom + 1).rgamma()
    if name in _real_functions() and values and all(value.imag.is_zero() for value in values):
        return arb_library().acb(_real_functions()[name](*(value.real for value in values)))
    raise NoValue(f"no value for {name}")


def _far_factorial(value: acb) -> Any:
    """Of a large number, where exact digits would fill the memory: with few bits only."""
    if arb_library().ctx.prec > 4 * BITS:
        raise NoValue("a factorial over the cap")
    return (value + 1).gamma()


def _fold(function: Callable[[Any, Any], Any], first: arb, others: tuple[arb, ...]) -> arb:
    for other in others:
        first = function(first, other)
    return first
