"""Floating-point values of expression trees at fixed points: enough to tell most different expressions apart."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Final
from zlib import crc32

from rlvr.envs.rewards.expressions.expression import Node


class NoValue(ArithmeticError):
    """The tree has no floating-point value here."""


_CONSTANTS: Final = {"e": complex(math.e), "i": 1j}
_FUNCTIONS: Final[dict[str, Callable[[complex], complex]]] = {
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "cot": lambda x: 1 / cmath.tan(x),
    "sec": lambda x: 1 / cmath.cos(x),
    "csc": lambda x: 1 / cmath.sin(x),
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "ln": cmath.log,
    "log": cmath.log10,
    "exp": cmath.exp,
    "abs": lambda x: complex(abs(x)),
}


def evaluate(node: Node, salt: int = 0) -> complex:
    """The value of a scalar tree, its symbols set to numbers that depend on their names and the salt alone.

    The numbers are positive, and negative for a negative salt.

    Raises:
        NoValue: no scalar, undefined there, or out of range.
    """
    try:
        value = _value(node, salt)
    except (OverflowError, ValueError, ZeroDivisionError) as error:
        raise NoValue(str(error)) from error
    if not cmath.isfinite(value):
        raise NoValue("not finite")
    return value


def real(node: Node) -> float:
    """The real value of a tree without symbols, infinities included; raises NoValue."""
    if node.op == "const" and node.name == "inf":
        return math.inf
    if node.op == "neg":
        return -real(node.args[0])
    if _has_symbols(node):
        raise NoValue("it has symbols")
    value = evaluate(node)
    if abs(value.imag) > 1e-9 * max(1.0, abs(value)):
        raise NoValue("not real")
    return value.real


def _has_symbols(node: Node) -> bool:
    return (node.op == "sym" and node.name != "e") or any(_has_symbols(arg) for arg in node.args)


def _value(node: Node, salt: int) -> complex:
    op, args = node.op, node.args
    if op == "num":
        return complex(node.value.numerator / node.value.denominator)
    if op == "sym":
        return _CONSTANTS.get(node.name) or _point(node.name, salt)
    if op == "const":
        if node.name != "pi":
            raise NoValue("infinity")
        return complex(math.pi)
    if op == "call":
        return _call(node, salt)
    values = [_value(arg, salt) for arg in args]
    if op == "add":
        return sum(values)
    if op == "neg":
        return -values[0]
    if op == "mul":
        return values[0] * values[1]
    if op == "div":
        return values[0] / values[1]
    if op == "percent":
        return values[0] / 100
    if op == "degree":
        return values[0] * math.pi / 180
    if op in ("pow", "root"):
        return _power(values[0], values[1] if op == "pow" else 1 / values[1])
    raise NoValue(f"a {op} is not one value")


def _point(name: str, salt: int) -> complex:
    size = 0.35 + (crc32(f"{name}:{salt}".encode("utf-8", "surrogatepass")) % 9973) / 5309
    return complex(-size if salt < 0 else size)


def _power(base: complex, exponent: complex) -> complex:
    if base.imag == 0 and base.real < 0 and exponent.imag == 0:
        index = 1 / exponent.real if exponent.real else 0.0
        if index and abs(index - round(index)) < 1e-12 and round(index) % 2:
            return complex(-((-base.real) ** exponent.real))
    if base == 0:
        if exponent.real <= 0:
            raise NoValue("zero to a power that is not positive")
        return 0j
    if abs(exponent.real * math.log(abs(base))) > 600:
        raise NoValue("out of range")
    return base**exponent


def _call(node: Node, salt: int) -> complex:
    values = [_value(arg, salt) for arg in node.args]
    name = node.name
    if name in _FUNCTIONS and len(values) == 1:
        return _FUNCTIONS[name](values[0])
    if name == "log_" and len(values) == 2:
        return cmath.log(values[0]) / cmath.log(values[1])
    if name in ("max", "min") and values:
        return complex((max if name == "max" else min)(value.real for value in values))
    if name in ("floor", "ceil"):
        return complex(math.floor(values[0].real) if name == "floor" else math.ceil(values[0].real))
    if name == "factorial" and 0 <= values[0].real <= 150:
        return complex(math.gamma(values[0].real + 1))
    if name == "binom" and 0 <= values[0].real <= 150 and values[1].real >= 0:
        top, bottom = values[0].real, values[1].real
        if bottom > top:
            return 0j
        return complex(math.gamma(top + 1) / math.gamma(bottom + 1) / math.gamma(top - bottom + 1))
    raise NoValue(f"no value for {name}")
