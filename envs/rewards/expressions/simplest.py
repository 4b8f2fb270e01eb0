"""Whether an answer is worked out: a whole number, a decimal, a fraction in lowest terms, or the same with one root.

The simplest forms are ``7``, ``2.5``, ``-3/4``, ``2 sqrt(3)``, ``1 + 2 sqrt(3)``, ``(1 + 2 sqrt(3))/5`` and
``1/5 + 2 sqrt(3)/5``, plain or in LaTeX, with or without a name and an equals sign before them. The number under the
root is whole and has no square factor. Nothing is computed but divisors of the numbers that stand there, so a formula
with the numbers put in, such as ``sqrt(3^2 + 4^2)``, is found to be none without its value.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import gcd
from typing import Final, NamedTuple

from rlvr.envs.rewards.grammar.expression import parse
from rlvr.envs.rewards.grammar.latex import MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node

LARGEST_ROOT: Final = 10**9  # numbers up to this are searched for square factors
UNFINISHED: Final = "not worked out to its simplest form"

_MIXED = re.compile(r"[-+]?\s*\d+\s*(?:\\[dt]?frac|\s\d+\s*/)")


class _Term(NamedTuple):
    """``times * sqrt(root) / below``: a root of 1 for a term without one."""

    times: int
    root: int
    below: int


def why_not_simplest(answer: str) -> str | None:
    """Why a mathematical answer is not in simplest form; None if it is."""
    try:
        tree = parse(answer)
    except (MathSyntaxError, RecursionError):
        return UNFINISHED
    if tree.op == "rel" and tree.name == "=" and len(tree.args) == 2 and tree.args[0].op == "sym":
        tree = tree.args[1]
    if tree.op == "quantity" and len(tree.args) == 1:
        tree = tree.args[0]
    tree = _unsigned(tree)
    if tree.op == "num":
        return None
    if tree.op == "add" and _MIXED.match(answer.strip()) and "+" not in answer[1:]:
        whole, part = tree.args[0], _monomial(tree.args[-1])
        return None if len(tree.args) == 2 and whole.op == "num" and part and part.root == 1 else UNFINISHED
    below = 1
    if tree.op == "div" and _unsigned(tree.args[0]).op == "add":
        divisor = _whole(tree.args[1])
        if divisor is None or divisor < 2:
            return UNFINISHED
        tree, below = _unsigned(tree.args[0]), divisor
    terms = _terms(tree)
    if terms is None or (below > 1 and any(term.below > 1 for term in terms)):
        return UNFINISHED
    if below > 1 and gcd(below, *(term.times for term in terms)) > 1:
        return "a fraction is not in lowest terms"
    return None


def _terms(tree: Node) -> list[_Term] | None:
    """The terms of a sum of one rational number and one multiple of a root, or of one of the two alone."""
    parts = tree.args if tree.op == "add" else (tree,)
    terms = [_monomial(part) for part in parts]
    if len(terms) > 2 or any(term is None for term in terms):
        return None
    simple_terms = [term for term in terms if term is not None]
    if len(simple_terms) == 2 and sum(term.root > 1 for term in simple_terms) != 1:
        return None
    return simple_terms


def _monomial(tree: Node) -> _Term | None:
    """A whole number, a fraction in lowest terms, a root, or a root times one of these."""
    tree = _unsigned(tree)
    if (whole := _whole(tree)) is not None:
        return _Term(whole, 1, 1)
    if tree.op == "num":  # a decimal
        return _Term(1, 1, 1)
    if tree.op == "root":
        return _Term(1, root, 1) if (root := _squarefree(tree)) else None
    if tree.op == "mul" and len(tree.args) == 2:
        factors = sorted(tree.args, key=lambda part: part.op == "root")
        factor = _monomial(factors[0])
        root = _squarefree(factors[1])
        return factor._replace(root=root) if root and factor is not None and factor.root == 1 else None
    if tree.op == "div":
        above, below = _monomial(tree.args[0]), _whole(tree.args[1])
        if above is None or below is None or above.below > 1 or below < 2 or gcd(above.times, below) > 1:
            return None
        return above._replace(below=below)
    return None


def _unsigned(tree: Node) -> Node:
    return tree.args[0] if tree.op == "neg" else tree


def _whole(tree: Node) -> int | None:
    if tree.op != "num" or tree.value.denominator > 1:
        return None
    return tree.value.numerator


def _squarefree(tree: Node) -> int:
    """The number under a square root, if it is whole, over 1 and free of squares; else 0."""
    if tree.op != "root" or len(tree.args) != 2 or tree.args[1].value != Fraction(2):
        return 0
    inside = _whole(tree.args[0])
    if inside is None or not 1 < inside <= LARGEST_ROOT:
        return 0
    rest, factor = inside, 2
    while factor * factor * factor <= rest:  # what is left has at most two prime factors: a square, or free of them
        if rest % factor == 0:
            rest //= factor
            if rest % factor == 0:
                return 0
        factor += 1
    root = round(rest**0.5)
    return 0 if rest > 1 and root * root == rest else inside
