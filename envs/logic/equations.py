"""Terms of small algebras, their laws, and the kernel of equational proofs: whether one term follows in one step.

A term is a letter, or a tuple of an operation and its arguments. In a step one law is used once, from left to right or
backwards, at one position and with one substitution; both are found from the two terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

AlgebraTerm = Any  # str | tuple[str, AlgebraTerm, ...]

LETTERS: Final = "abcd"
VARIABLES: Final = "xyz"
MAX_CHARS: Final = 400
MAX_DEPTH: Final = 40
_TOKEN: Final = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")


class TermError(ValueError):
    """A text that is no term; the message says why, for whoever wrote it."""


class EquationalLaw(NamedTuple):
    """Two terms that are equal whatever the variables x, y and z stand for."""

    left: AlgebraTerm
    right: AlgebraTerm

    def __str__(self) -> str:
        return f"{term_text(self.left)} = {term_text(self.right)}"

    def sides(self, backwards: bool) -> tuple[AlgebraTerm, AlgebraTerm]:
        """What is replaced, and by what."""
        return (self.right, self.left) if backwards else (self.left, self.right)


class EquationalTheory(NamedTuple):
    """Operations with their number of arguments, constants, and laws."""

    name: str
    operations: Mapping[str, int]
    constants: str
    laws: tuple[EquationalLaw, ...]


def algebra(name: str, operations: Mapping[str, int], constants: str, *laws: str) -> EquationalTheory:
    """An algebra whose laws are written as texts."""

    def law(text: str) -> EquationalLaw:
        left, _, right = text.partition(" = ")
        return EquationalLaw(*(read_term(side, operations, VARIABLES + constants) for side in (left, right)))

    return EquationalTheory(name, operations, constants, tuple(map(law, laws)))


# written and read


def term_text(term: AlgebraTerm, inner: bool = False) -> str:
    """The text that ``read_term`` reads."""
    if isinstance(term, str):
        return term
    if len(term) == 2:
        return f"{term[0]}({term_text(term[1])})"
    text = f"{term_text(term[1], True)} {term[0]} {term_text(term[2], True)}"
    return f"({text})" if inner else text


def read_term(text: str, operations: Mapping[str, int], letters: str) -> AlgebraTerm:
    """The term of a text such as ``a * (inv(a) * b)``.

    Raises:
        TermError: it is none.
    """
    if len(text) > MAX_CHARS:
        raise TermError(f"a term has {MAX_CHARS} characters at most, not {len(text)}")
    tokens = _TOKEN.findall(text)[::-1]

    def take() -> str:
        return tokens.pop() if tokens else ""

    def close() -> None:
        if (token := take()) != ")":
            raise TermError(
                f"a closing bracket is missing before {token!r}" if token else "a closing bracket is missing"
            )

    def part(depth: int) -> AlgebraTerm:
        if depth > MAX_DEPTH:
            raise TermError(f"a term has at most {MAX_DEPTH} brackets inside of each other")
        token = take()
        if token == "(":
            inside = whole(depth + 1)
            close()
            return inside
        if operations.get(token) == 1:
            if take() != "(":
                raise TermError(f"behind {token!r} stands its argument in brackets")
            inside = whole(depth + 1)
            close()
            return (token, inside)
        if len(token) == 1 and token in letters:
            return token
        raise TermError(f"{token[:20]!r} is no letter of this theorem" if token else "a part of the term is missing")

    def whole(depth: int) -> AlgebraTerm:
        left = part(depth)
        if tokens and operations.get(tokens[-1]) == 2:
            return (take(), left, part(depth))
        return left

    term = whole(0)
    if tokens:
        hint = "put brackets around one of the two" if operations.get(tokens[-1]) == 2 else "nothing may follow there"
        raise TermError(f"{tokens[-1][:20]!r} stands behind a whole term: {hint}")
    return term


# the kernel


def matches(pattern: AlgebraTerm, term: AlgebraTerm, values: dict[str, AlgebraTerm]) -> bool:
    """Whether the variables of the pattern have values that make it the term; they are added to ``values``."""
    if isinstance(pattern, str):
        if pattern in VARIABLES:
            return bool(values.setdefault(pattern, term) == term)
        return bool(pattern == term)
    return (
        not isinstance(term, str)
        and pattern[0] == term[0]
        and len(pattern) == len(term)
        and all(matches(part, other, values) for part, other in zip(pattern[1:], term[1:], strict=True))
    )


def is_step(before: AlgebraTerm, after: AlgebraTerm, law: EquationalLaw, backwards: bool) -> bool:
    """Whether ``after`` is ``before`` with the law used once at one position."""
    left, right = law.sides(backwards)
    while before != after:
        values: dict[str, AlgebraTerm] = {}
        if matches(left, before, values) and matches(right, after, values):
            return True
        if isinstance(before, str) or isinstance(after, str) or (before[0], len(before)) != (after[0], len(after)):
            return False
        different = [pair for pair in zip(before[1:], after[1:], strict=True) if pair[0] != pair[1]]
        if len(different) != 1:
            return False
        before, after = different[0]
    return False


def filled(pattern: AlgebraTerm, values: Mapping[str, AlgebraTerm]) -> AlgebraTerm:
    """The pattern with the values of its variables."""
    if isinstance(pattern, str):
        return values.get(pattern, pattern)
    return (pattern[0], *[filled(part, values) for part in pattern[1:]])


def subterms(term: AlgebraTerm, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], AlgebraTerm]]:
    """Every subterm and where it stands, the term itself first."""
    yield path, term
    if not isinstance(term, str):
        for index, part in enumerate(term[1:], 1):
            yield from subterms(part, (*path, index))


def replaced(term: AlgebraTerm, path: tuple[int, ...], part: AlgebraTerm) -> AlgebraTerm:
    """The term with another subterm at a position."""
    if not path:
        return part
    index, *rest = path
    return (*term[:index], replaced(term[index], tuple(rest), part), *term[index + 1 :])


# the algebras


@cache
def algebras() -> Mapping[str, tuple[EquationalTheory, ...]]:
    """The algebras of each split: none is in two."""
    times, plus = {"*": 2}, {"+": 2, "*": 2, "neg": 1}
    associative, commutative = "(x * y) * z = x * (y * z)", "x * y = y * x"
    right_unit, left_unit, inverse = "x * e = x", "e * x = x", "x * inv(x) = e"
    idempotent = "x * x = x"
    meet = ("x & y = y & x", "x | y = y | x", "x & (x | y) = x", "x | (x & y) = x")
    return {
        "train": (
            algebra("group", {"*": 2, "inv": 1}, "e", associative, right_unit, left_unit, inverse, "inv(x) * x = e"),
            algebra("abelian group", {"*": 2, "inv": 1}, "e", associative, commutative, right_unit, inverse),
            algebra("commutative monoid", times, "e", associative, commutative, right_unit),
            algebra("semilattice", times, "", associative, commutative, idempotent),
            algebra("rectangular band", times, "", associative, idempotent, "(x * y) * x = x"),
            algebra(
                "ring", plus, "0", "(x + y) + z = x + (y + z)", "x + y = y + x", "x + 0 = x", "x + neg(x) = 0",
                associative, "x * (y + z) = (x * y) + (x * z)", "(x + y) * z = (x * z) + (y * z)",
            ),
            algebra("lattice", {"&": 2, "|": 2}, "", *meet, "(x & y) & z = x & (y & z)", "(x | y) | z = x | (y | z)"),
            algebra(
                "quasigroup", {"*": 2, "/": 2, "\\": 2}, "", "x * (x \\ y) = y", "x \\ (x * y) = y", "(x / y) * y = x",
                "(x * y) / y = x",
            ),
        ),
        "validation": (
            algebra(
                "monoid with an involution", {"*": 2, "star": 1}, "e", associative, right_unit, left_unit,
                "star(star(x)) = x", "star(x * y) = star(y) * star(x)",
            ),
            algebra(
                "implication algebra", {">": 2}, "", "(x > y) > x = x", "(x > y) > y = (y > x) > x",
                "x > (y > z) = y > (x > z)",
            ),
        ),
        "test": (
            algebra(
                "Boolean algebra", {"&": 2, "|": 2, "not": 1}, "01", *meet[:2], "x & (y | z) = (x & y) | (x & z)",
                "x | (y & z) = (x | y) & (x | z)", "x & 1 = x", "x | 0 = x", "x & not(x) = 0", "x | not(x) = 1",
            ),
            algebra("involutory quandle", times, "", idempotent, "x * (x * y) = y", "x * (y * z) = (x * y) * (x * z)"),
        ),
    }  # fmt: skip
