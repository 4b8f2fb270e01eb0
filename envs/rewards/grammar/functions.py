"""What a function, or a name in front of brackets, is applied to; and names that stand for an expression.

A letter in front of brackets is a function, not a factor, where it is read so: ``\\Gamma(5)``, ``\\varphi(10)``,
``f(x)``. What has no rule stays a call under a name that begins with a backslash: no two of them are the same value
unless they are the same call.
"""

from __future__ import annotations

from typing import Final

from rlvr.envs.rewards.grammar.latex import MathLimitError, MathSyntaxError
from rlvr.envs.rewards.grammar.tree import Node, number, symbol

MAX_ROWS: Final = 4
_OF_SETS: Final = frozenset(["max", "min", "gcd", "lcm"])
_STRUCTURES: Final = frozenset(["tuple", "set", "matrix", "list", "cup", "cap", "setminus", "rel", "text", "such"])
_RECIPROCAL: Final = {"arcsec": "arccos", "arccsc": "arcsin", "arccot": "arctan"}
_SPECIAL: Final = {"Gamma": "gamma", "zeta": "zeta"}
# Greek letters that name functions more often than factors; the others are numbers and angles.
_GREEK_FUNCTIONS: Final = frozenset("phi varphi psi sigma tau mu eta omega Omega lambda Lambda Phi Psi chi".split())


def applied(name: str, args: tuple[Node, ...]) -> Node:
    """The tree of a function and its arguments.

    Raises:
        MathSyntaxError: an argument is a set, a tuple or another structure that the function has no value of.
        MathLimitError: a matrix with more rows than ``MAX_ROWS``.
    """
    if len(args) == 1:
        first = args[0]
        if first.op == "set" and name in _OF_SETS and first.args:
            args = first.args
        elif first.op == "matrix" and name in ("det", "abs"):
            return determinant([row.args for row in first.args])
        elif first.op == "matrix" and name == "tr":
            return _sum([row.args[index] for index, row in enumerate(_square(first))])
        elif name == "cis":
            turn = Node("mul", (symbol("i"), Node("call", args, name="sin")))
            return Node("add", (Node("call", args, name="cos"), turn))
        elif name in _RECIPROCAL and (name != "arccot" or (first.op in ("num", "div", "root") and first.value >= 0)):
            return Node("call", (Node("div", (number(1), first)),), name=_RECIPROCAL[name])
    for arg in args:
        if arg.op in _STRUCTURES:
            raise MathSyntaxError(f"a function of a {arg.op} is not read")
    return Node("call", args, name=name)


def _square(matrix: Node) -> tuple[Node, ...]:
    if any(len(row.args) != len(matrix.args) for row in matrix.args):
        raise MathSyntaxError("the matrix is not square")
    return matrix.args


def _sum(terms: list[Node]) -> Node:
    return terms[0] if len(terms) == 1 else Node("add", tuple(terms))


def determinant(rows: list[tuple[Node, ...]]) -> Node:
    """The determinant of a square matrix, along its first row."""
    if len(rows) > MAX_ROWS:
        raise MathLimitError(f"the determinant of a matrix may have {MAX_ROWS} rows")
    if any(len(row) != len(rows) for row in rows):
        raise MathSyntaxError("the matrix is not square")
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for column, entry in enumerate(rows[0]):
        minor = determinant([(*row[:column], *row[column + 1 :]) for row in rows[1:]])
        term = Node("mul", (entry, minor))
        terms.append(Node("neg", (term,)) if column % 2 else term)
    return _sum(terms)


def conjugate(inner: Node) -> Node:
    """``\\overline{3 + 4i}``; of digits and of names of points a bar means something else."""
    if not mentions(inner, symbol("i")):
        raise MathSyntaxError("an overline stands where none may")
    return Node("call", (inner,), name="conj")


def mentions(node: Node, other: Node) -> bool:
    return node == other or any(mentions(arg, other) for arg in node.args)


def is_function_letter(name: str) -> bool:
    """Whether a symbol in front of a bracket with one number or letter in it names a function."""
    letter = name.partition("_")[0].rstrip("'")
    return letter in _GREEK_FUNCTIONS or letter in ("f", "g", "h") or (len(letter) == 1 and letter.isupper())


def special_function(name: str) -> str:
    """The function that ``\\Gamma`` or ``\\zeta`` is in front of a bracket; empty for other symbols."""
    return _SPECIAL.get(name, "")


def quotient(top: Node, bottom: Node) -> Node:
    """A fraction; ``\\frac{dy}{dx}`` and ``\\frac{d}{dx}`` are names."""
    name = _differential(top), _differential(bottom)
    if all(name) and bottom.op == "mul":
        return symbol("/".join(name))
    return Node("div", (top, bottom))


def is_derivative(node: Node) -> bool:
    """Whether a tree is ``\\frac{d}{dx}``, which is a derivative of what follows."""
    return node.op == "sym" and node.name.partition("/")[0] in ("d", "d2", "d3") and "/" in node.name


def _differential(node: Node) -> str:
    """``dx``, ``dx2``, ``d2y`` or ``d`` as one word; empty for anything else."""
    if node.op == "sym":
        return "d" if node.name == "d" else ""
    if node.op == "pow" and node.args[0] == symbol("d") and node.args[1].op == "num":
        return f"d{node.args[1].value}"
    if node.op != "mul" or node.name != "implicit":
        return ""
    sign, variable = _differential(node.args[0]), node.args[1]
    if variable.op == "pow" and variable.args[0].op == "sym" and variable.args[1].op == "num":
        return f"{sign}{variable.args[0].name}{variable.args[1].value}" if sign else ""
    return f"{sign}{variable.name}" if sign and variable.op == "sym" else ""
