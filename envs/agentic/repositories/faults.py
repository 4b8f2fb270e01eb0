"""Faults: small changes to the text of a module, by kind. Which kinds a split has is part of what is held out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.agentic.python_syntax import parse_python

KINDS: Final = {
    "train": (
        "bound", "arithmetic", "constant", "negation", "wrong name", "wrong attribute", "lost statement", "loop exit",
        "shared value", "exception",
    ),
    "validation": ("connective", "lost guard", "branches"),
    "test": ("sense", "extreme", "slice", "exchanged arguments", "lost option", "accumulation"),
}  # fmt: skip
TOKEN_KINDS: Final = frozenset(  # of which one word or sign is wrong
    ("bound", "arithmetic", "constant", "negation", "wrong name", "connective", "sense", "extreme", "accumulation",
     "exception")
)  # fmt: skip
_BOUNDS: Final = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
_SENSES: Final = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
_OPERATORS: Final = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.FloorDiv: ("//", "%"), ast.Mod: ("%", "//")}
_EXCHANGED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_RAISED: Final = {"ValueError": "KeyError", "KeyError": "ValueError", "LookupError": "ValueError"}


class CodeChange(NamedTuple):
    """A change of a text: the characters from ``start`` to ``end`` become ``text``."""

    kind: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The source with the change."""
        return source[: self.start] + self.text + source[self.end :]


class _Text:
    """A source and where its nodes stand in it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def of(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)]

    def replaced(self, kind: str, node: ast.expr | ast.stmt, text: str) -> CodeChange:
        return CodeChange(kind, self.start(node), self.end(node), text)

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> CodeChange:
        start, end = self.end(left), self.start(right)
        return CodeChange(kind, start, end, self.source[start:end].replace(old, new, 1))

    def without_lines(self, kind: str, node: ast.stmt) -> CodeChange:
        return CodeChange(kind, self._starts[node.lineno - 1], self._starts[node.end_lineno or node.lineno], "")


@lru_cache(maxsize=4096)
def changes(source: str) -> tuple[CodeChange, ...]:
    """All changes of the functions of a module, in the order of its text. The source is ASCII."""
    text, listed = _Text(source), list[CodeChange]()
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.FunctionDef):
            listed += _of_names(text, node)
            listed += _of_statements(text, node)
            for inner in ast.walk(ast.Module(node.body, [])):
                listed += _of_expressions(text, inner)
        elif isinstance(node, ast.ClassDef):
            listed += _of_attributes(text, node)
    return tuple(sorted(set(listed)))


def _of_expressions(text: _Text, node: ast.AST) -> Iterator[CodeChange]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for kind, table in (("bound", _BOUNDS), ("sense", _SENSES)):
                if type(op) in table:
                    yield text.between(kind, left, right, *table[type(op)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            if not any(isinstance(side, ast.JoinedStr | ast.List) or _is_text(side) for side in (left, right)):
                yield text.between("arithmetic", left, right, *_OPERATORS[type(op)])
        case ast.BoolOp(op=op, values=[left, right]):
            pair = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield text.between("connective", left, right, *pair)
        case ast.UnaryOp(op=ast.Not()):
            yield CodeChange("negation", text.start(node), text.start(node) + len("not "), "")
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield text.replaced("constant", node, str(value + 1))
            if value > 0:
                yield text.replaced("constant", node, str(value - 1))
        case ast.IfExp(body=body, orelse=other):
            start, end = text.start(node), text.end(node)
            middle = text.source[text.end(body) : text.start(other)]
            yield CodeChange("branches", start, end, f"{text.of(other)}{middle}{text.of(body)}")
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper)):
            if lower is not None:
                yield text.replaced("slice", lower, f"{text.of(lower)} + 1")
            if upper is not None:
                yield text.replaced("slice", upper, f"{text.of(upper)} - 1")
        case ast.Subscript(slice=ast.Constant(value=0) as index, ctx=ast.Load()):
            yield text.replaced("slice", index, "-1")
        case ast.Subscript(slice=ast.UnaryOp(op=ast.USub()) as index, ctx=ast.Load()):
            yield text.replaced("slice", index, "0")
        case ast.Call():
            yield from _of_call(text, node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _of_call(text: _Text, node: ast.Call) -> Iterator[CodeChange]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in _EXCHANGED:
        yield text.replaced("extreme", node.func, _EXCHANGED[name])
    if len(node.args) >= 2 and not any(isinstance(each, ast.Starred) for each in node.args):
        first, second = node.args[:2]
        if text.of(first) != text.of(second) and name not in ("isinstance", "min", "max"):
            middle = text.source[text.end(first) : text.start(second)]
            exchanged = f"{text.of(second)}{middle}{text.of(first)}"
            yield CodeChange("exchanged arguments", text.start(first), text.end(second), exchanged)
    if name in ("list", "dict", "set") and len(node.args) == 1 and isinstance(node.args[0], ast.Name | ast.Attribute):
        yield text.replaced("shared value", node, text.of(node.args[0]))
    for keyword in node.keywords:
        if keyword.arg in ("key", "reverse", "default", "strict") and node.args:
            before = max((each for each in node.args), key=text.end)
            if node.keywords[0] is keyword and keyword.arg in ("key", "reverse"):
                yield CodeChange("lost option", text.end(before), text.end(keyword), "")


def _of_statements(text: _Text, function: ast.FunctionDef) -> Iterator[CodeChange]:
    for parent in ast.walk(function):
        for body in (getattr(parent, "body", None), getattr(parent, "orelse", None)):
            if not isinstance(body, list):
                continue
            for node in body:
                yield from _of_statement(text, node, alone=len(body) == 1)


def _of_statement(text: _Text, node: ast.stmt, alone: bool) -> Iterator[CodeChange]:
    match node:
        case ast.AugAssign(target=target, op=op, value=value) if isinstance(op, ast.Add | ast.Sub):
            sign, other = ("+=", "-=") if isinstance(op, ast.Add) else ("-=", "+=")
            if not isinstance(value, ast.List | ast.JoinedStr) and not _is_text(value):
                yield text.between("arithmetic", target, value, sign, other)
            yield text.between("accumulation", target, value, sign, "=")
        case ast.Break():
            yield text.replaced("loop exit", node, "continue")
        case ast.Continue():
            yield text.replaced("loop exit", node, "break")
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name) as raised)) if name in _RAISED:
            yield text.replaced("exception", raised, _RAISED[name])
        case ast.If(body=[ast.Raise() | ast.Return() | ast.Continue()], orelse=[]) if not alone:
            yield text.without_lines("lost guard", node)
    if not alone and _is_effect(node):
        yield text.without_lines("lost statement", node)


def _is_effect(node: ast.stmt) -> bool:
    """Whether a statement changes a value that stands already: without it, nothing is undefined."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute)
    return isinstance(node, ast.AugAssign | ast.Delete)


def _of_names(text: _Text, function: ast.FunctionDef) -> Iterator[CodeChange]:
    """A parameter in the place of another."""
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and len(names) > 1:
            yield text.replaced("wrong name", node, names[(names.index(node.id) + 1) % len(names)])


def _of_attributes(text: _Text, definition: ast.ClassDef) -> Iterator[CodeChange]:
    """An attribute of an object in the place of another of the same object."""
    nodes = [node for node in ast.walk(definition) if isinstance(node, ast.Attribute)]
    mine = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"]
    names = sorted({node.attr for node in mine if isinstance(node.ctx, ast.Store)})
    for node in mine:
        if isinstance(node.ctx, ast.Load) and node.attr in names and len(names) > 1:
            other = names[(names.index(node.attr) + 1) % len(names)]
            yield text.replaced("wrong attribute", node, f"self.{other}")
