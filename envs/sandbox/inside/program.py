"""What the locked-down process does: run a script, a shell command, an interpreter session, or calls of functions.

By the time this code runs the process has lost every right it does not need, and nothing it holds is worth
reading: no expected value, no secret, no host path. It is honest towards honest programs; a hostile one may do what it
likes to it and gains nothing. Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import _sitebuiltins
import ast
import atexit
import binascii
import builtins
import importlib.machinery
import json
import linecache
import os
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from rlvr.envs.sandbox.inside import referee, terminal, wire

REQUESTS, REPLIES = 3, 4  # the descriptors of a session or of a program that is called
_STATUS_OF_ERROR = 1


def run(request: dict[str, Any]) -> NoReturn:
    """Run a request in this process and end it. Standard streams are 0, 1 and 2; the channel is 3 and 4."""
    code = _STATUS_OF_ERROR
    try:
        _prepare(request)
        code = _MODES[request["mode"]](request)
    except BaseException:
        _report(sys.exc_info()[1])
    finally:
        _end(code)


def make_ready() -> None:
    """Do once, before the forks, what every program needs: standard streams, a clean environment, ``exit``."""
    for name in [n for n in sys.modules if n == "rlvr" or n.startswith("rlvr.")]:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update({"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"})
    sys.meta_path.insert(0, _Seeding())
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.set_int_max_str_digits(0)
    builtins.quit = builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D")


class _Seeding:
    """Gives the modules that draw at random the same seed in each program, so that it can be run again exactly."""

    def __init__(self) -> None:
        self._seeded = {"random", "numpy.random"}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._seeded:
            return None
        self._seeded.discard(name)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module: types.ModuleType) -> None:
                execute(module)
                module.seed(0)

            spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


def _prepare(request: dict[str, Any]) -> None:
    home = request["home"]
    os.chdir(home)
    os.environ.update(HOME=home, TMPDIR=home)
    os.environ.update(request.get("env", {}))
    sys.argv = ["main.py", *request.get("argv", [])]
    sys.path[:] = [home, *sys.path, *request.get("packages", [])]
    for path, content in request.get("files", {}).items():
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(binascii.a2b_base64(content))


def _module(name: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    return module.__dict__


def _exit_status(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF
    print(stop.code, file=sys.stderr)
    return 1


def _report(error: BaseException | None) -> None:
    """Print a traceback as the interpreter would, without our own frames."""
    try:
        if error is None:
            return
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
    except BaseException:
        os.write(2, b"an exception that cannot be printed\n")


def _end(code: int) -> NoReturn:
    """What the interpreter does at its end: wait for threads, run exit handlers, flush. Then leave for good."""
    for last in (threading._shutdown, atexit._run_exitfuncs, lambda: sys.stdout.flush(), lambda: sys.stderr.flush()):  # type: ignore[attr-defined]
        try:
            last()
        except BaseException:
            code = code or _STATUS_OF_ERROR
    os._exit(code)


# --- one script, one command -----------------------------------------------------------------------------


def _script(request: dict[str, Any]) -> int:
    code = request["code"]
    with open("main.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(code)
    scope = _module("__main__")
    scope["__file__"] = "main.py"
    try:
        exec(compile(code, "main.py", "exec", dont_inherit=True), scope)
    except SystemExit as stop:
        return _exit_status(stop)
    except BaseException as error:
        _report(error)
        return _STATUS_OF_ERROR
    return 0


def _shell(request: dict[str, Any]) -> int:
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    os.execve(shell, [shell, "-c", request["code"]], dict(os.environ))


# --- a channel of requests and replies -------------------------------------------------------------------


def _requests() -> Iterator[dict[str, Any]]:
    """Requests in the order they come; the end of the channel is the end of the program."""
    read, parse, pending = os.read, json.loads, b""
    while True:
        while b"\n" not in pending:
            chunk = read(REQUESTS, 1 << 16)
            if not chunk:
                return
            pending += chunk
        line, _, pending = pending.partition(b"\n")
        yield parse(line)


def _replier(limit: int) -> Callable[[dict[str, Any]], None]:
    write, dump = os.write, wire.dump

    def reply(message: dict[str, Any]) -> None:
        line = dump(message)
        if len(line) > limit:
            line = dump({"nonce": message["nonce"], "error": "NotPlain", "message": f"a reply over {limit} bytes"})
        while line:
            line = line[write(REPLIES, line) :]

    return reply


def _session(request: dict[str, Any]) -> int:
    """An interpreter that keeps its names; a final expression is printed, as at the prompt."""
    scope = _module("__main__")
    reply = _replier(1 << 16)
    for number, message in enumerate(_requests()):
        error = None
        try:
            _cell(message["code"], f"<cell {number}>", scope)
        except SystemExit as stop:
            return _exit_status(stop)
        except BaseException as raised:
            error = type(raised).__name__
            _report(raised)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        reply({"nonce": message["nonce"], "error": error})
    return 0


def _cell(code: str, name: str, scope: dict[str, Any]) -> None:
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec", dont_inherit=True), scope)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), scope)
        if value is not None:
            print(repr(value))


# --- functions called from outside -----------------------------------------------------------------------


def _calls(request: dict[str, Any]) -> int:
    """Load the program, then answer calls: values come in and go out as trees of plain data (``wire``)."""
    reply, encode = _replier(request["reply_bytes"]), wire.encode
    worker = _Callee(request["code"], request.get("imports", ""))
    for message in _requests():
        try:
            answer = {"nonce": message["nonce"], "value": encode(worker.answer(message))}
        except BaseException as error:
            answer = {"nonce": message["nonce"], "error": type(error).__name__, "message": _text(error)}
        reply(answer)
    os._exit(0)  # threads and exit handlers of a program that was only called have nothing left to do


def _text(error: BaseException) -> str:
    try:
        return str(error)[:300].encode("utf-8", "replace").decode()
    except BaseException:
        return ""


class _Callee:
    """The program's functions and the last object made of one of its classes."""

    def __init__(self, code: str, imports: str) -> None:
        self._code, self._imports = code, imports
        self._scope: dict[str, Any] = {}
        self._object: Any = None

    def answer(self, message: dict[str, Any]) -> Any:
        operation = message["op"]
        if operation == "load":
            self._scope = _module("solution")
            exec(self._imports, self._scope)
            linecache.cache["solution.py"] = (len(self._code), None, self._code.splitlines(True), "solution.py")
            exec(compile(self._code, "solution.py", "exec", dont_inherit=True), self._scope)
            return None
        args = [wire.decode(tree) for tree in message["args"]]
        kwargs = {key: wire.decode(tree) for key, tree in message.get("kwargs", {}).items()}
        if operation == "new":
            self._object = self._scope[message["name"]](*args, **kwargs)
            return None
        if operation == "method":
            return getattr(self._object, message["name"])(*args, **kwargs)
        owner, _, method = message["name"].rpartition(".")
        target = getattr(self._scope[owner](), method) if owner in self._scope else self._scope[method]
        return target(*args, **kwargs)


def _referee(request: dict[str, Any]) -> int:
    return referee.judge(request, _requests(), _replier(request["reply_bytes"]))


def _terminal(request: dict[str, Any]) -> int:
    return terminal.serve(request, _requests(), _replier(request["reply_bytes"]))


_MODES: dict[str, Callable[[dict[str, Any]], int]] = {
    "script": _script, "shell": _shell, "session": _session, "calls": _calls, "referee": _referee,
    "terminal": _terminal,
}  # fmt: skip
