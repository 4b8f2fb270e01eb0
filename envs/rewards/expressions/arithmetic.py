"""Arithmetic on hostile text: an own parser, exact rationals, caps checked before any work; never Python's ``eval``.

``parse_expression("(1 + 2) * 3")`` gives the value, the numbers in order of appearance and the operators used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MAX_CHARS: Final = 1_000
MAX_DEPTH: Final = 64
MAX_DIGITS: Final = 100
MAX_BITS: Final = 4_096
MAX_EXPONENT: Final = 512

OPERATORS: Final = "+-*/"
PRECEDENCE: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "~": 3, "^": 4}

_TOKEN = re.compile(r"\s*(?:([0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(\*\*)|(.))", re.DOTALL)
_SYNONYMS = {"×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "−": "-", "–": "-", "∕": "/", "[": "(", "]": ")"}
_LATEX = (
    ("\\left", ""), ("\\right", ""), ("\\times", "*"), ("\\cdot", "*"), ("\\ast", "*"), ("\\div", "/"),
    ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\,", " "), ("\\;", " "), ("\\!", ""), ("\\ ", " "),
)  # fmt: skip
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")


class ArithmeticSyntaxError(ValueError):
    """The text is not an arithmetic expression of the allowed kind."""


class ArithmeticLimitError(ArithmeticSyntaxError):
    """The text, a number or an intermediate value is over a cap; the message names it."""


class DivisionByZero(ArithmeticSyntaxError, ZeroDivisionError):
    """The expression divides by zero."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An evaluated expression: its exact value, its numbers in order of appearance, the operators it uses."""

    text: str
    value: Fraction
    numbers: tuple[Fraction, ...]
    operators: frozenset[str]

    @property
    def integers(self) -> tuple[int, ...]:
        """The numbers as integers.

        Raises:
            ArithmeticSyntaxError: one of them is not an integer.
        """
        if any(number.denominator != 1 for number in self.numbers):
            raise ArithmeticSyntaxError(f"{self.text[:80]!r} holds a number that is not an integer")
        return tuple(number.numerator for number in self.numbers)


def evaluate(text: str, operators: str = OPERATORS, *, decimals: bool = True) -> Fraction:
    """The exact value of an arithmetic expression; see ``parse_expression``."""
    return parse_expression(text, operators, decimals=decimals).value


def parse_expression(text: str, operators: str = OPERATORS, *, decimals: bool = True) -> Expression:
    """Parse and evaluate numbers, operators and brackets.

    ``(1 + 2) * 3``, ``-4/6``, ``3 × (2 − 1)``, ``\\frac{1+2}{3} \\cdot 4``. Brackets are ``()`` or ``[]``; a sign may
    stand where a number may, once; there is no implicit multiplication, and no name of any kind.

    Args:
        text: the expression, at most ``MAX_CHARS`` characters, nested at most ``MAX_DEPTH`` deep, numbers of at most
            ``MAX_DIGITS`` digits.
        operators: those allowed, out of ``+-*/^``; ``^`` (also written ``**``) takes integer exponents of at most
            ``MAX_EXPONENT`` in size, checked before the power is taken.
        decimals: whether ``2.5`` is a number.

    Raises:
        ArithmeticSyntaxError: not such an expression.
        ArithmeticLimitError: over a cap.
        DivisionByZero: it divides by zero.
    """
    if len(text) > MAX_CHARS:
        raise ArithmeticLimitError(f"an expression may have {MAX_CHARS:,} characters, this one has {len(text):,}")
    return _Parser(text, operators, decimals).parse()


def plain(text: str) -> str:
    """LaTeX and typographic operators as ASCII ones; the rest unchanged."""
    if "\\" in text:
        for command, replacement in _LATEX:
            text = text.replace(command, replacement)
        for _ in range(8):
            text, count = _FRACTION.subn(r"((\1)/(\2))", text)
            if not count:
                break
    return text


class _Parser:
    """Shunting-yard: one pass, no recursion, so depth costs nothing but the cap."""

    def __init__(self, text: str, operators: str, decimals: bool) -> None:
        self.text = text
        self.allowed = operators
        self.decimals = decimals
        self.values: list[Fraction] = []
        self.stack: list[str] = []
        self.numbers: list[Fraction] = []
        self.used: set[str] = set()
        self.depth = 0

    def parse(self) -> Expression:
        expect_value = True
        source = plain(self.text).strip()
        for match in _TOKEN.finditer(source):
            number, power, symbol = match.groups()
            if number is not None:
                if not expect_value:
                    raise ArithmeticSyntaxError(f"an operator is missing before {number[:20]!r}")
                self._number(number)
                expect_value = False
            else:
                operator = "^" if power else _SYNONYMS.get(symbol, symbol)
                expect_value = self._symbol(operator, expect_value)
        if expect_value:
            raise ArithmeticSyntaxError("the expression is empty" if not source else "it ends without a number")
        while self.stack:
            if self.stack[-1] == "(":
                raise ArithmeticSyntaxError("a bracket is not closed")
            self._apply()
        return Expression(self.text, self.values[0], tuple(self.numbers), frozenset(self.used))

    def _number(self, literal: str) -> None:
        if len(literal) > MAX_DIGITS:
            raise ArithmeticLimitError(f"a number may have {MAX_DIGITS} digits")
        if len(literal) > 1 and literal[0] == "0" and literal[1] != ".":
            raise ArithmeticSyntaxError(f"the number {literal[:20]!r} begins with a zero")
        if "." in literal and not self.decimals:
            raise ArithmeticSyntaxError(f"{literal[:20]!r} is not an integer")
        value = Fraction(literal)
        self.numbers.append(value)
        self.values.append(value)

    def _symbol(self, symbol: str, expect_value: bool) -> bool:
        """Take one operator or bracket; returns whether a value must follow."""
        if symbol == "(":
            if not expect_value:
                raise ArithmeticSyntaxError("an operator is missing before '('")
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise ArithmeticLimitError(f"brackets may nest {MAX_DEPTH} deep")
            self.stack.append("(")
            return True
        if symbol == ")":
            if expect_value or not self.depth:
                raise ArithmeticSyntaxError("a ')' stands where none may")
            while self.stack[-1] != "(":
                self._apply()
            self.stack.pop()
            self.depth -= 1
            return False
        if symbol not in PRECEDENCE or symbol not in self.allowed:
            raise ArithmeticSyntaxError(f"{symbol!r} is not allowed; numbers, brackets and {self.allowed} are")
        if expect_value:
            return self._sign(symbol)
        self._reduce(symbol)
        self.stack.append(symbol)
        self.used.add(symbol)
        return True

    def _sign(self, symbol: str) -> bool:
        if symbol not in "+-" or (self.stack and self.stack[-1] == "~"):
            raise ArithmeticSyntaxError(f"a number is missing before {symbol!r}")
        self.stack.append("~")
        self.values.append(Fraction(-1 if symbol == "-" else 1))
        return True

    def _reduce(self, symbol: str) -> None:
        precedence = PRECEDENCE[symbol]
        while self.stack and self.stack[-1] != "(":
            top = PRECEDENCE[self.stack[-1]]
            if top < precedence or (top == precedence and symbol == "^"):
                break
            self._apply()

    def _apply(self) -> None:
        operator = self.stack.pop()
        right = self.values.pop()
        left = self.values.pop()
        value = _OPERATIONS[operator](left, right)
        if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
            raise ArithmeticLimitError(f"a value may have {MAX_BITS:,} bits")
        self.values.append(value)


def _add(left: Fraction, right: Fraction) -> Fraction:
    return left + right


def _subtract(left: Fraction, right: Fraction) -> Fraction:
    return left - right


def _multiply(left: Fraction, right: Fraction) -> Fraction:
    return left * right


def _divide(left: Fraction, right: Fraction) -> Fraction:
    if not right:
        raise DivisionByZero("division by zero")
    return left / right


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """``base ** exponent`` for an integer exponent, with the size of the result checked before any work.

    Raises:
        ArithmeticSyntaxError: the exponent is not an integer.
        ArithmeticLimitError: the exponent or the result is over a cap.
        DivisionByZero: zero to a negative power.
    """
    if exponent.denominator != 1:
        raise ArithmeticSyntaxError("an exponent must be an integer")
    size = exponent.numerator
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(size) > MAX_EXPONENT or bits * abs(size) > MAX_BITS:
        raise ArithmeticLimitError(f"a power may have an exponent of {MAX_EXPONENT} and {MAX_BITS:,} bits")
    if not base and size < 0:
        raise DivisionByZero("division by zero")
    return Fraction(base**size)


_OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": _add, "-": _subtract, "*": _multiply, "/": _divide, "~": _multiply, "^": power,
}  # fmt: skip
