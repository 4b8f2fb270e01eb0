"""Answers checked against a pydantic type, within bounds of processor time and memory that no answer can pass.

A check is linear in the answer for most types and is then made here. In three cases it is not. Alternatives that
contain one another, such as a tree whose nodes are ``A | B``, are each tried at each depth. A pattern of Python's
``re`` backtracks. A long answer that fits none of many alternatives has a fault for each. Such a check is made in a
forked child under limits. It is not made in the worker pool: the type may stand in a notebook, and its module may be
slow to import or do something when it is imported. Validators that are Python functions are their author's code and
run here.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rlvr.envs.rewards.errors import BadOption, WorkerError, WorkerSpent, WorkerTimeout

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CPU_SECONDS: Final = 2
WALL_SECONDS: Final = 60.0
MEMORY: Final = 1 << 30  # beyond what this process has when it forks
MAX_WORK: Final = 500_000  # parts of the type times parts of the answer that are checked in this process


class Checker(NamedTuple):
    """A type that is ready to check with: its adapter, how many parts it has, whether its cost may explode."""

    adapter: TypeAdapter[Any]
    size: int
    explodes: bool


def fault_of(text: str, schema: Any, strict: bool) -> str:
    """Why a JSON text is not of a pydantic type; empty when it is.

    Raises:
        BadOption: pydantic cannot use the type.
        WorkerSpent: the check used up its processor time or memory.
        WorkerTimeout, WorkerError: the machine is overloaded, or the child was killed from outside.
    """
    try:
        checker = _cached(schema)
    except TypeError:  # a type that cannot be hashed, such as one annotated with a list
        checker = _checker(schema)
    parts = 1 + sum(map(text.count, ",:[{"))
    if hasattr(os, "fork") and (checker.explodes or checker.size * parts > MAX_WORK):
        return in_child(lambda: _fault(checker, text, strict))
    return _fault(checker, text, strict)


def _fault(checker: Checker, text: str, strict: bool) -> str:
    from pydantic import ValidationError

    try:
        checker.adapter.validate_json(text, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part)[:60] for part in first["loc"]) or "the value"
        return f"{path}: {first['msg']}"[:300]
    return ""


def _checker(schema: Any) -> Checker:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
    except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, TypeError) as error:
        raise BadOption(f"pydantic cannot use the schema {schema!r}: {error}"[:300]) from error
    core = adapter.core_schema
    nodes = list(_nodes(core)) if isinstance(core, Mapping) else []
    return Checker(adapter, len(nodes), not nodes or _has_python_pattern(nodes) or _has_recursive_choice(nodes))


_cached = lru_cache(maxsize=256)(_checker)


def _nodes(core: Any) -> list[Mapping[str, Any]]:
    """The parts of a core schema, each once."""
    nodes: dict[int, Mapping[str, Any]] = {}
    waiting = [core]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if id(value) in nodes:
                continue
            nodes[id(value)] = value
            waiting += [inner for key, inner in value.items() if key != "metadata"]
        elif isinstance(value, list | tuple):
            waiting += value
    return [node for node in nodes.values() if "type" in node or "regex_engine" in node]


def _has_python_pattern(nodes: list[Mapping[str, Any]]) -> bool:
    patterns = [node["pattern"] for node in nodes if node.get("type") == "str" and node.get("pattern") is not None]
    python = any(node.get("regex_engine") == "python-re" for node in nodes)
    return any(python or not isinstance(pattern, str) for pattern in patterns)


def _has_recursive_choice(nodes: list[Mapping[str, Any]]) -> bool:
    """Whether two alternatives of a union both lead to a type that contains itself."""
    direct = {node["ref"]: _references(node) for node in nodes if "ref" in node}

    def reached(start: set[str]) -> set[str]:
        names: set[str] = set()
        waiting = list(start)
        while waiting:
            name = waiting.pop()
            if name not in names:
                names.add(name)
                waiting += direct.get(name, ())
        return names

    recursive = {name for name, references in direct.items() if name in reached(references)}
    unions = (node for node in nodes if node.get("type") == "union")
    return any(sum(bool(reached(_references(choice)) & recursive) for choice in node["choices"]) > 1 for node in unions)


def _references(core: Any) -> set[str]:
    return {node["schema_ref"] for node in _nodes(core) if node.get("type") == "definition-ref"}


def in_child(work: Callable[[], str]) -> str:
    """What some work gives, done in a forked child under limits; the work must not need another thread.

    Raises:
        WorkerSpent: it used up its processor time or memory.
        WorkerTimeout: it used up its wall time alone.
        WorkerError: it raised, or the child was killed from outside.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        _work(work, theirs)
    os.close(theirs)
    try:
        report = _all_of(ours, time.monotonic() + WALL_SECONDS)
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # nothing is lost: it has said all, or it is late
        _, status, usage = os.wait4(child, 0)
    if report is not None and report[:1] in (b"=", b"!"):
        if report[:1] == b"!":
            raise WorkerError(report[1:].decode("utf-8", "replace"))
        return report[1:].decode("utf-8", "replace")
    died_of = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if report == b"memory" or died_of == signal.SIGABRT:  # the second is how Rust ends without memory
        raise WorkerSpent("out of memory")
    if died_of == signal.SIGXCPU or usage.ru_utime + usage.ru_stime >= CPU_SECONDS:
        raise WorkerSpent(f"over the limit of {CPU_SECONDS} s of processor time", slow=True)
    if report is None:
        raise WorkerTimeout(f"over the limit of {WALL_SECONDS:g} s of wall time")
    raise WorkerError("the checking process was killed from outside")


def _work(work: Callable[[], str], pipe: int) -> None:
    """In the child: do the work, report what it gave, and end; nothing is printed of how it ends."""
    try:
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        with suppress(OSError, ValueError):  # macOS has no /proc; processor time holds there
            with open("/proc/self/statm") as pages:
                here = int(pages.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
        report = b"=" + work().encode("utf-8", "replace")
    except MemoryError:
        report = b"memory"
    except BaseException as error:
        report = f"!{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
    try:
        os.write(pipe, report)
    finally:
        os._exit(0)


def _all_of(pipe: int, until: float) -> bytes | None:
    """All that a pipe gives until its other end is closed; None when that is not so in time."""
    report = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        block = os.read(pipe, 65_536)
        if not block:
            return bytes(report)
        report += block
    return None
