"""Trees of mathematical expressions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: an operation, its operands, a name (of a symbol, function, relation, unit) or a number."""

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)


def number(value: Fraction | int) -> Node:
    return Node("num", value=Fraction(value))


def symbol(name: str) -> Node:
    return Node("sym", name=name)
