"""Mutations: small changes to a program of our own that may make it wrong, and a bounded trial of what comes of them.

Only sources of ``programs`` are run here, in this process. A changed program might never end, so each round of a loop
and each call uses up fuel.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import Any

from rlvr.envs.agentic.python_syntax import parse_python

FUEL = 6_000  # rounds and calls; the right programs use less than half of it
RAISED = object()

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# None of them makes numbers grow faster than the program did.
_COMBINED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mod,
}  # fmt: skip
_EXCHANGED = {"min": "max", "max": "min", "row": "column", "column": "row"}


class OutOfFuel(Exception):
    """The program went round more often than any right one does."""


class _Mutator(ast.NodeTransformer):
    """Counts the changes that can be made, and changes the chosen ones."""

    def __init__(self, chosen: Container[int]) -> None:
        self._chosen = chosen
        self.count = 0

    def _turn(self) -> bool:
        self.count += 1
        return self.count - 1 in self._chosen

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = _COMPARED.get(type(node.ops[-1]))
        if other and self._turn():
            node.ops[-1] = other()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._combined(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        return self._combined(node)

    def _combined(self, node: ast.BinOp | ast.AugAssign) -> ast.AST:
        other = _COMBINED.get(type(node.op))
        if other and self._turn():
            node.op = other()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._turn():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        dropped = isinstance(node.op, ast.Not | ast.USub) and self._turn()
        is_zero = isinstance(node.operand, ast.Constant) and node.operand.value == 0  # nobody writes -0
        return node.operand if dropped or is_zero else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            return ast.copy_location(ast.Constant(not node.value), node) if self._turn() else node
        if isinstance(node.value, int):
            if self._turn():
                return ast.copy_location(ast.Constant(node.value + 1), node)
            if self._turn():
                return ast.copy_location(ast.Constant(node.value - 1), node)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._cut(node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = self._cut(node.iter)
        return node

    def _cut(self, items: ast.expr) -> ast.expr:
        """What a loop goes through without its first or its last element, where it has a name."""
        if not isinstance(items, ast.Name):
            return items
        for low, high in ((ast.Constant(1), None), (None, ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            if self._turn():
                return ast.fix_missing_locations(
                    ast.copy_location(ast.Subscript(items, ast.Slice(low, high), ast.Load()), items)
                )
        return items

    def visit_Name(self, node: ast.Name) -> ast.AST:
        other = _EXCHANGED.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return ast.copy_location(ast.Name(other, node.ctx), node) if other and self._turn() else node

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if self._turn() else node


class Fuel:
    """``_tick`` of a tree `with_fuel`: so many rounds and calls until `OutOfFuel` is raised."""

    def __init__(self, amount: int) -> None:
        self.amount = self.left = amount

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OutOfFuel

    def refill(self) -> None:
        self.left = self.amount


def with_fuel(tree: ast.Module) -> ast.Module:
    """The tree with a call of ``_tick`` in every round of a loop and every call."""
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.For | ast.While | ast.FunctionDef):
            call = ast.copy_location(ast.Call(ast.copy_location(ast.Name("_tick", ast.Load()), node), [], []), node)
            node.body.insert(0, ast.copy_location(ast.Expr(call), node))
    return tree


def count_changes(source: str) -> int:
    """How many changes a program has."""
    mutator = _Mutator(())
    mutator.visit(parse_python(source))
    return mutator.count


@lru_cache(maxsize=1024)
def mutated(source: str, chosen: tuple[int, ...] = ()) -> str:
    """The program with the chosen changes, laid out afresh as the one without changes is."""
    return ast.unparse(_Mutator(chosen).visit(parse_python(source)))


def results(
    source: str, name: str, cases: Sequence[Sequence[Any]], chosen: Sequence[int] = (), fuel: int = FUEL
) -> list[Any]:
    """What a function or class, with the chosen changes, gives for each list of arguments; ``RAISED`` where it raises.

    Raises:
        OutOfFuel: one of the calls does not come to an end.
    """
    tree = with_fuel(_Mutator(chosen).visit(parse_python(source)))
    tick = Fuel(fuel)
    scope: dict[str, Any] = {"_tick": tick}
    exec(compile(tree, name, "exec"), scope)
    values = []
    for arguments in cases:
        tick.refill()
        values.append(_result(scope[name], arguments))
    return values


def _result(entry: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What a function gives, or the list of what the calls [name, arguments] of a new object give."""
    try:
        if isinstance(entry, type):
            instance = entry()
            # Copies, since a later call may change what an earlier one gave.
            return [copy.deepcopy(getattr(instance, name)(*values)) for name, values in arguments[0]]
        return entry(*arguments)
    except OutOfFuel:
        raise
    except Exception:
        return RAISED
