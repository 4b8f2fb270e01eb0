"""Runs a data set's own ``check(candidate)`` or asserts in a process that never holds the candidate's code.

The candidate lives in another sandbox. Here its name stands for a function that sends the arguments out and
waits for a value: plain data, of exact built-in types. So the expected values, which are written in the
asserts, never meet the code they judge, and ``==`` compares real data. Loaded inside the sandbox.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

from rlvr.envs.sandbox.inside import wire

_RECORD = "__assertion_held__"
# Errors a test may expect from the candidate. StopIteration and its kind are not among them: raised inside
# ``map`` or ``all`` they would end the test's own loop early, and silently.
_ERRORS: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, AssertionError, UnicodeError, Warning))
}


class CandidateFailed(RuntimeError):
    """The candidate raised something that is not an ordinary built-in error."""


class _Over(BaseException):
    """The judging cannot go on; says whose fault it was. Not an Exception, so that no test swallows it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Counted(ast.NodeTransformer):
    """Gives every assertion its own number, so that one that fails is recorded and the next one still runs.

    Assertions under a ``try`` with handlers are left alone: there a failure may be part of the test.
    """

    def __init__(self) -> None:
        self.count = 0

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return node if node.handlers else self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        number, self.count = self.count, self.count + 1

        def record(held: bool) -> list[ast.stmt]:
            call = ast.Call(ast.Name(_RECORD, ast.Load()), [ast.Constant(number), ast.Constant(held)], [])
            return [ast.Expr(call)]

        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, record(False))
        return ast.copy_location(ast.Try([node], [handler], record(True), []), node)


def free_names(tree: ast.AST, defined: set[str]) -> set[str]:
    """Names that a test reads and neither it, its set-up nor Python defines: the candidate's functions."""
    nodes = list(ast.walk(tree))
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    stored |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    stored |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            stored |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    loaded = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return loaded - stored - defined - set(dir(builtins))


class _Bench:
    """The channel to the parent, who passes calls on to the candidate and brings its values back."""

    def __init__(self, requests: Iterator[dict[str, Any]], reply: Callable[[dict[str, Any]], None]) -> None:
        self._requests, self._reply = requests, reply
        self._nonce = next(requests)["nonce"]
        self.held: dict[int, bool] = {}

    def record(self, number: int, held: bool) -> None:
        self.held[number] = self.held.get(number, True) and held

    def candidate(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                trees = [wire.encode(a) for a in args]
                named = {key: wire.encode(value) for key, value in kwargs.items()}
            except wire.NotPlain as error:
                raise _Over(f"the test passes something that cannot be sent: {error}") from None
            self._reply({"nonce": self._nonce, "call": name, "args": trees, "kwargs": named})
            message = next(self._requests, None)
            if message is None:
                raise SystemExit(0)  # the parent has seen enough
            self._nonce = message["nonce"]
            if "error" not in message:
                return wire.decode(message["value"])
            raise _ERRORS.get(message["error"], CandidateFailed)(message["error"])

        call.__name__ = name
        return call

    def finish(self, **fields: Any) -> None:
        self._reply({"nonce": self._nonce, "done": sorted(self.held.items()), **fields})


def judge(request: dict[str, Any], requests: Iterator[dict[str, Any]], reply: Callable[[dict[str, Any]], None]) -> int:
    """Run the tests; reply with ``done`` (assertion number, whether it held), ``error`` or ``fault``.

    Args:
        request: ``code`` (what the tests need: imports and helpers), ``test`` (source with assertions),
            ``entry_point`` (the candidate's name, or None to take every name nothing else defines).
    """
    bench = _Bench(requests, reply)
    scope: dict[str, Any] = {"__name__": "referee"}
    counted = _Counted()
    try:
        exec(compile(request["code"], "setup.py", "exec", dont_inherit=True), scope)
        tree = ast.parse(request["test"])
        entry = request["entry_point"]
        names = {entry} if entry else free_names(tree, set(scope))
        scope.update({name: bench.candidate(name) for name in names})
        scope[_RECORD] = bench.record
        counted.visit(tree)
        code = compile(ast.fix_missing_locations(tree), "test.py", "exec", dont_inherit=True)
    except Exception as error:
        bench.finish(fault=f"the row's own code fails: {type(error).__name__}: {error}"[:300], total=0)
        return 0
    error_text, fault = None, None
    try:
        exec(code, scope)
        if entry and "check" in scope:
            scope["check"](scope[entry])
    except _Over as over:
        fault = over.reason[:300]
    except Exception as error:
        error_text = f"{type(error).__name__}: {error}"[:300]
    bench.finish(error=error_text, fault=fault, total=counted.count)
    return 0
