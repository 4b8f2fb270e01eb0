"""``Sandbox``: the one way to run what a model wrote.

    with Sandbox() as sandbox:
        sandbox.run_python("print(6 * 7)").stdout      # '42\\n'

The strongest tier that really holds on this machine is taken (``probe``); where none does, making a sandbox
raises ``SandboxUnavailable``. All methods may be called from any thread, and the ``a…`` ones from asyncio.
"""

from __future__ import annotations

import asyncio
import atexit
import binascii
import contextlib
import itertools
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from rlvr.envs.sandbox import plans, probes
from rlvr.envs.sandbox.direct import DEFAULT_IMAGE, ContainerBackend, LocalBackend
from rlvr.envs.sandbox.inside import wire
from rlvr.envs.sandbox.limits import (
    Limits,
    Result,
    RunStatus,
    SandboxDied,
    SandboxError,
    SandboxStarved,
    SandboxUnavailable,
    Tier,
)
from rlvr.envs.sandbox.native import NativeBackend
from rlvr.envs.sandbox.running import OutOfTurn, ProgramEnded, Running

T = TypeVar("T")
DEFAULT_LIMITS = Limits()
_REPLY_BYTES = 1 << 20
_OPENING_SECONDS = 60.0  # of a terminal with its setup, beside many others on a busy machine


class SandboxBackend(Protocol):
    """What a tier has to offer."""

    tier: Tier
    unsafe: bool

    @property
    def supervisor_pid(self) -> int | None: ...

    def start(self, request: dict[str, Any], stdin: bytes, limits: Limits, cancel: int | None) -> Running:
        """Start a program; a byte on the descriptor ``cancel`` ends it."""

    def close(self) -> None: ...


class Sandbox:
    """Runs untrusted programs.

    Args:
        tier: ``auto`` for the strongest that holds here, or ``T3``, ``T2``, ``T1`` to demand one.
        parallel: programs at one time; more wait for their turn (their clock does not run yet).
        packages: folders that programs may import from, read-only (a ``site-packages``, for example).
        total_memory_mb: of one sandbox with all its processes (T1: ``Limits.memory_mb`` alone).
        terminals: whether programs find the devices of a terminal, and on T3 a ``/proc`` with their own processes; see
            ``terminal``.
        image: the container image of tier T1; it needs ``python3`` and is never pulled.
        unsafe_local: run programs without any protection: they can do all that you can. Every ``Result`` says so.

    Raises:
        SandboxUnavailable: no tier holds, or not the one demanded; the message says what is missing.
        ValueError: an argument is not allowed.
    """

    def __init__(
        self,
        *,
        tier: str = "auto",
        parallel: int | None = None,
        packages: Sequence[str] = (),
        total_memory_mb: int = 2048,
        terminals: bool = False,
        image: str = DEFAULT_IMAGE,
        unsafe_local: bool = False,
    ) -> None:
        if tier not in ("auto", "T3", "T2", "T1"):
            raise ValueError(f"tier must be 'auto', 'T3', 'T2' or 'T1', got {tier!r}")
        self._parallel = parallel or max(2, min(32, 2 * (os.cpu_count() or 1)))
        folders = tuple(os.path.realpath(folder) for folder in packages)
        for folder in folders:
            if not os.path.isdir(folder):
                raise ValueError(f"packages must name folders, {folder!r} is not one")
        self._backend = _backend(tier, folders, total_memory_mb, terminals, image, self._parallel, unsafe_local)
        self._terminals = terminals
        self._turns = threading.BoundedSemaphore(self._parallel)
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    @property
    def tier(self) -> Tier:
        """What programs run in; ``T0`` means nothing, by ``unsafe_local``."""
        return self._backend.tier

    @property
    def supervisor_pid(self) -> int | None:
        """The process above all processes of this sandbox, for those who watch it; None before the first program."""
        return self._backend.supervisor_pid

    # --- one program ---

    def run_python(
        self,
        code: str,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        argv: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run a Python program, as ``python main.py`` would, in a folder that holds nothing but ``files``.

        Args:
            code: the program.
            stdin: its standard input.
            files: relative path to content, written before it starts.
            limits: what it may use; it is ended within ``limits.seconds`` plus half a second.
            argv: its arguments.
            env: variables besides PATH, HOME, TMPDIR, LANG and PYTHONHASHSEED; none of ours is passed on.

        Raises:
            SandboxError: the sandbox failed, or its supervisor was killed while the program ran; never because of what
                the program did. The next run gets a new supervisor.
            ValueError: a file's path leaves the folder.
        """
        return self._run("script", code, stdin, files, limits, None, argv, env)

    def run_shell(
        self,
        command: str,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run a shell command (bash, or sh where there is no bash), with the arguments and errors of ``run_python``."""
        return self._run("shell", command, stdin, files, limits, None, (), env)

    async def arun_python(
        self,
        code: str,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Result:
        """``run_python`` for asyncio; cancelling it ends the program."""
        return await self._in_thread(lambda cancel: self._run("script", code, stdin, files, limits, cancel, (), None))

    async def arun_shell(
        self,
        command: str,
        stdin: str | bytes = "",
        files: Mapping[str, str | bytes] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Result:
        """``run_shell`` for asyncio; cancelling it ends the command."""
        return await self._in_thread(lambda cancel: self._run("shell", command, stdin, files, limits, cancel, (), None))

    def _run(
        self, mode: str, code: str, stdin: str | bytes, files: Mapping[str, str | bytes] | None, limits: Limits,
        cancel: int | None, argv: Sequence[str], env: Mapping[str, str] | None,
    ) -> Result:  # fmt: skip
        request = _request(mode, code, limits, files=files, argv=argv, env=env)
        data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else bytes(stdin)
        with self._turns:
            started = time.monotonic()
            for number in itertools.count():
                try:
                    with self._backend.start(request, data, limits, cancel) as running:
                        return running.wait()
                except SandboxDied as died:
                    if not died.try_again(number, late=time.monotonic() - started > limits.seconds):
                        break
            tier, unsafe = self._backend.tier, self._backend.unsafe
            return Result("killed", None, "", "", round(time.monotonic() - started, 6), 0.0, tier, unsafe)

    async def _in_thread(self, call: Callable[[int | None], T]) -> T:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._parallel, thread_name_prefix="rlvr-sandbox")
        cancellation = _Cancellation()
        future = self._threads.submit(call, cancellation.fd)
        future.add_done_callback(lambda _: cancellation.close())
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            cancellation.request()
            raise

    # --- programs with a channel ---

    def session(
        self, limits: Limits = DEFAULT_LIMITS, files: Mapping[str, str | bytes] | None = None
    ) -> SandboxSession:
        """A Python interpreter that keeps its names between calls. ``limits.seconds`` is the deadline of each call.

        A session holds a sandbox of its own, beyond ``parallel``, until it is closed.
        """
        # The processor limit is of the whole process: the session's, not the call's. Each call has its wall clock.
        request = _request("session", "", limits, files=files)
        request["seconds"] = 86_400
        return SandboxSession(self._backend.start(request, b"", limits, None), limits)

    def terminal(
        self,
        limits: Limits = DEFAULT_LIMITS,
        files: Mapping[str, str | bytes] | None = None,
        *,
        rows: int = 24,
        columns: int = 80,
        setup: str = "",
        daemons: Sequence[Daemon] = (),
        env: Mapping[str, str] | None = None,
    ) -> PseudoTerminal:
        """bash on a pseudo-terminal of the sandbox's own. ``limits.seconds`` is the deadline of each call.

        A terminal holds a sandbox of its own, beyond ``parallel``, until it is closed.

        Args:
            limits: what it may use.
            files: its folder at the start, which is also HOME.
            rows, columns: how large the terminal says it is.
            setup: a bash script, run before anything else.
            daemons: programs that run in the background from the start, each with a name.
            env: variables besides PATH, HOME, LANG, TERM and PYTHONHASHSEED.

        Raises:
            SandboxError: the sandbox failed, or the setup or a daemon did.
            ValueError: a file's path leaves the folder, or this sandbox was made without ``terminals``.
        """
        if not self._terminals:
            raise ValueError("this sandbox has no terminals: make it with Sandbox(terminals=True)")
        request = _request("terminal", "", limits, files=files)
        request.update(
            rows=rows, columns=columns, setup=setup, variables=dict(env or {}), reply_bytes=4 * _REPLY_BYTES,
            daemons=[list(each) for each in daemons], seconds=86_400,
        )  # fmt: skip
        terminal = PseudoTerminal(self._backend.start(request, b"", limits, None), limits)
        terminal.wait_until_open()
        return terminal

    @contextlib.contextmanager
    def channel(self, mode: str, code: str, limits: Limits, *, wait: bool = True, **fields: Any) -> Iterator[Channel]:
        """A program to be called from outside (``calls``), or a referee (``referee``): for graders.

        Args:
            mode: ``calls`` or ``referee``.
            code: the program.
            limits: ``seconds`` bounds the whole life of the program.
            wait: wait for a turn; False for a second program of a caller who has one.
            fields: further fields of the request.

        Raises:
            SandboxError: the sandbox failed. SandboxDied: it ended under the program.
        """
        request = {**_request(mode, code, limits), "reply_bytes": _REPLY_BYTES, **fields}
        with self._turns if wait else contextlib.nullcontext():
            running = self._backend.start(request, b"", limits, None)
            try:
                yield Channel(running, limits.seconds)
            finally:
                running.close()

    def close(self) -> None:
        """End everything; returns when no process and no file is left."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._backend.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Cancellation:
    """A pipe that becomes readable when the caller has lost interest; closed by the program's end."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        self._lock, self._open = threading.Lock(), True

    def request(self) -> None:
        with self._lock:
            if self._open:
                os.write(self._write, b"x")

    def close(self) -> None:
        with self._lock:
            if self._open:
                self._open = False
                os.close(self.fd)
                os.close(self._write)


class Channel:
    """Questions to a running program, one answer each. A wrong nonce, an extra or an oversized line ends it.

    Args:
        running: the program.
        seconds: of the program's own time, for all answers together; the time between them is not counted.
    """

    def __init__(self, running: Running, seconds: float) -> None:
        self._running, self._left = running, seconds

    def ask(self, message: Mapping[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """Send a message under a fresh nonce and return the answer to it.

        Raises:
            ProgramEnded: there was none; OutOfTurn: it was not an answer to this question.
            SandboxStarved: the machine did not let the program answer.
        """
        nonce = secrets.token_hex(8)
        line = json.dumps({**message, "nonce": nonce}, separators=(",", ":")).encode() + b"\n"
        budget = self._running.budget(max(0.0, self._left if seconds is None else min(self._left, seconds)))
        line = self._running.exchange(line, budget)
        self._left -= self._running.spent(budget)
        try:
            answer = wire.load(line)
        except wire.NotPlain:
            raise OutOfTurn("killed") from None
        if not isinstance(answer, dict) or answer.pop("nonce", None) != nonce:
            raise OutOfTurn("killed")
        if "error" in answer:
            self._running.check_disk()
        return answer

    def hang_up(self) -> bool:
        """Ask for nothing more; True if the program says nothing more either."""
        return self._running.hang_up(1.0)


class LiveProgram:
    """A program that answers until it is closed: a context manager, not for several threads at once."""

    def __init__(self, running: Running, limits: Limits) -> None:
        self._running, self._limits = running, limits

    @property
    def alive(self) -> bool:
        """False once the program has ended, by itself or by a limit: what it held is gone."""
        return self._running.alive

    def close(self) -> None:
        """End the program and all that it started."""
        self._running.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SandboxSession(LiveProgram):
    """A persistent interpreter."""

    def run(self, code: str, seconds: float | None = None) -> Result:
        """Run code in the session. A last line that is an expression is printed, as at the prompt.

        ``status`` is ``error`` if an exception came out of it (its traceback is in ``stderr``); the names it
        had bound stay. A limit ends the whole session.

        Raises:
            SandboxError: the session has ended before, or the sandbox was killed under it.
        """
        if not self.alive:
            raise SandboxError("this session has ended; open a new one")
        started = time.monotonic()
        limit = self._limits.seconds if seconds is None else seconds
        channel = Channel(self._running, limit)
        status: RunStatus
        try:
            answer = channel.ask({"code": code})
            self._running.rest()
        except ProgramEnded:
            self._running.kill()
            return self._running.result(time.monotonic() - started)
        except SandboxError as error:
            self._running.kill()
            if not isinstance(error, SandboxDied) or not error.may_be_program:
                raise
            return self._running.result(time.monotonic() - started)
        status = "ok" if answer.get("error") is None else "error"
        out, err = self._running.output()
        tier, unsafe = self._running.where()
        if tier in ("T1", "T0"):  # there standard output is the channel, and what is printed goes the other way
            out, err = err, ""
        return Result(status, int(status != "ok"), out, err, round(time.monotonic() - started, 6), 0.0, tier, unsafe)


class Daemon(NamedTuple):
    """A program in the background of a terminal: ``argv``, and ``stdin`` on its standard input. It prints a line when
    it is ready."""

    name: str
    argv: Sequence[str]
    stdin: str = ""


class Typed(NamedTuple):
    """What came of typing.

    Attributes:
        printed: what the terminal was sent; the middle of much is left out.
        rests: whether nothing runs any more that does not wait for keys.
        untyped: how many keys were left out because time was up.
        spent: seconds, without those in which the machine kept the terminal from running.
    """

    printed: bytes
    rests: bool
    untyped: int
    spent: float = 0.0


class TerminalWorkspace(NamedTuple):
    """What a terminal left: ``files`` by path as (kind, content or target, permissions), content None where it is too
    much; ``daemons`` by name as exit code, or None if it still ran."""

    files: dict[str, tuple[str, bytes | str | None, int]]
    daemons: dict[str, int | None]


class PseudoTerminal(LiveProgram):
    """A shell that is typed into."""

    def wait_until_open(self) -> None:
        """Wait until keys can be typed.

        Raises:
            SandboxError: something went wrong before. SandboxStarved: the machine was too busy.
        """
        try:
            self._rest(Channel(self._running, _OPENING_SECONDS).ask({"keys": [], "seconds": 0.0}))
        except (ProgramEnded, SandboxError) as error:
            self._running.kill()
            if isinstance(error, SandboxStarved):
                self.close()
                raise
            printed = " ".join(self._running.result().stderr.split())
            self.close()
            raise SandboxError(f"the terminal did not open: {printed[-300:] or 'nothing was printed'}") from None

    def type(self, keys: Sequence[tuple[bytes, float]], seconds: float) -> Typed:
        """Type keys, each once the one before it has had its effect; returns when the terminal rests, or time is up.

        Args:
            keys: bytes, and seconds to wait after them at least; for a negative number, at most for anything new.
            seconds: after so many the rest is left out, and what runs goes on running.

        Raises:
            ProgramEnded: what holds the terminal was brought down.
            SandboxError: the sandbox failed.
        """
        packed = [[binascii.b2a_base64(data, newline=False).decode(), pause] for data, pause in keys]
        answer = self._ask({"keys": packed, "seconds": seconds}, seconds + self._limits.seconds)
        printed = binascii.a2b_base64(answer["printed"])
        return Typed(printed, bool(answer["rests"]), int(answer["untyped"]), answer["spent"])

    def mark(self) -> int:
        """A checksum of the workspace as it is now.

        Raises:
            ProgramEnded: what holds the terminal was brought down.
        """
        return int(self._ask({"mark": True}, self._limits.seconds)["mark"])

    def copy(self) -> TerminalWorkspace:
        """End all that runs, and read the workspace.

        Raises:
            ProgramEnded: what holds the terminal was brought down.
        """
        answer = self._ask({"copy": True}, self._limits.seconds)
        files = {
            path: (kind, binascii.a2b_base64(content) if kind == "file" and content is not None else content, mode)
            for path, (kind, content, mode) in answer["files"].items()
        }
        return TerminalWorkspace(files, answer["daemons"])

    def _ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            return self._rest(Channel(self._running, seconds).ask(message))
        except ProgramEnded:
            self._running.kill()
            raise
        except SandboxError as error:
            self._running.kill()
            if not isinstance(error, SandboxDied) or not error.may_be_program:
                raise
            raise ProgramEnded("killed") from None

    def _rest(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Between requests nothing runs, where that can be done without the shell's noticing."""
        self._running.rest()
        if "error" in answer:  # over the limit of a message
            raise ProgramEnded("output_limit")
        return answer


def _request(
    mode: str,
    code: str,
    limits: Limits,
    *,
    files: Mapping[str, str | bytes] | None = None,
    argv: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    packed = {}
    for path, content in (files or {}).items():
        parts = path.split("/")
        if not path or path.startswith("/") or "\0" in path or ".." in parts or "" in parts:
            raise ValueError(f"a file's path must be relative and stay in its folder, got {path!r}")
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        packed[path] = binascii.b2a_base64(data, newline=False).decode()
    return {"mode": mode, "code": code, "files": packed, "argv": list(argv), "env": dict(env or {}), **asdict(limits)}


def _backend(
    tier: str, packages: tuple[str, ...], memory_mb: int, terminals: bool, image: str, parallel: int, unsafe_local: bool
) -> SandboxBackend:
    if unsafe_local:
        if tier != "auto":
            raise ValueError(f"unsafe_local runs without a sandbox; it cannot be asked for with tier={tier!r}")
        return LocalBackend()
    chosen = probes.require(tier, image)
    if chosen == "T1":
        if packages:
            raise ValueError("tier T1 takes its packages from the image: build one that has them")
        return ContainerBackend(probes.probe_tier("T1", image).engine, image)
    try:
        return NativeBackend(plans.make(chosen, packages, memory_mb, terminals), parallel)
    except plans.Missing as missing:
        raise SandboxUnavailable(f"{missing.what}\n  to change it: {missing.command}") from None


_shared: dict[tuple[int, bool, tuple[str, ...]], Sandbox] = {}
_shared_lock = threading.Lock()


def shared(terminals: bool = False, packages: tuple[str, ...] = ()) -> Sandbox:
    """The sandbox that graders and tools share in this process, the one for terminals, or that with these folders of
    packages; made when first needed.

    Raises:
        SandboxUnavailable: no tier holds on this machine.
        ValueError: packages are no folders, or the tier takes none.
    """
    key = (os.getpid(), terminals, packages)  # after a fork the sandbox belongs to the other process
    with _shared_lock:
        if key not in _shared:
            _shared[key] = Sandbox(terminals=terminals, packages=packages)
            atexit.register(_close_shared, key)
        return _shared[key]


def _close_shared(key: tuple[int, bool, tuple[str, ...]]) -> None:
    if key[0] == os.getpid():
        _shared[key].close()
