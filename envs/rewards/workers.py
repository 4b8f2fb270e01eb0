"""A pool of worker processes that can be killed: for grading work that might never return.

One zygote per process of the user, started by exec (so it inherits no threads, no CUDA context and no secrets), has
computer algebra loaded and forks a worker in milliseconds. A worker that runs over is killed and replaced at once.

Two limits are told apart. Processor time and memory are what a job itself uses: ``WorkerSpent``. Wall time is several
times as long and passes only where a job waits or the machine is overloaded: ``WorkerTimeout``.

Two lanes keep costly jobs out of the way of cheap ones. A job first gets a slice of processor time in the fast lane;
one that needs more is begun again in the slow lane, which has fewer workers at a lower priority.

Safe to call from any thread, from asyncio (``acall``) and after a fork of the user's process. No worker outlives the
process, however it ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from rlvr.envs.rewards.errors import WorkerError, WorkerFailed, WorkerSpent, WorkerTimeout

__all__ = ["WorkerError", "WorkerFailed", "WorkerPool", "WorkerSpent", "WorkerTimeout", "named_pool", "shared_pool"]

DEFAULT_MEMORY: Final = 1 << 30
START_SECONDS: Final = 180.0  # what some bridges load takes half a minute where others work, too
JOBS_PER_WORKER: Final = 1_000
SLICE: Final = 0.05  # CPU seconds in the fast lane; nine in ten jobs of computer algebra need less
# A job that only computes gets a thirtieth of a processor at the least before its wall limit passes.
WALL_FACTOR: Final = 30.0
WALL_SECONDS: Final = 30.0
SLICE_WALL: Final = 5.0
# Signals that a worker gets for what its job does; any other comes from outside.
_OWN_DOING: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL})
_PRELOAD: Final = ("rlvr.envs.rewards.expressions.symbolic:warm",)
_KEPT_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "HOME", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH")


class _Died(Exception):
    """The worker's end of the channel is closed."""


class _NeedsMore(Exception):
    """A job is not over at the end of its slice."""


# What ``attempt`` calls each, the narrow ones first.
_ERRORS: Final[dict[str, type[WorkerError]]] = {
    "timeout": WorkerTimeout,
    "spent": WorkerSpent,
    "failed": WorkerFailed,
    "error": WorkerError,
}


class _Worker:
    """One forked process and the socket to it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.jobs = 0

    def is_idle(self) -> bool:
        """Whether the worker waits for a job; a channel with something to read was closed by its death."""
        return not _readable(self.channel, 0.0)

    def run(self, target: str, args: Sequence[Any], cpu: float, wall: float, slow: bool) -> dict[str, Any]:
        request = {"target": target, "args": list(args), "cpu": cpu, "slow": slow}
        deadline = time.monotonic() + wall
        self.channel.settimeout(wall)
        try:
            self.channel.sendall(json.dumps(request).encode() + b"\n")
            reply = bytearray()
            while not reply.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self.channel.settimeout(left)
                chunk = self.channel.recv(65_536)
                if not chunk:
                    raise _Died
                reply += chunk
        except TimeoutError:
            raise WorkerTimeout(f"over the limit of {wall:g} s of wall time") from None
        except (BrokenPipeError, ConnectionResetError):
            raise _Died from None
        except OSError as error:
            raise WorkerError(f"the worker is gone: {error}") from error
        self.jobs += 1
        answer: dict[str, Any] = json.loads(reply)
        return answer


class WorkerPool:
    """A fixed number of killable workers behind one zygote.

    Args:
        size: how many jobs may run at once; default the number of CPUs, at least 4, so that stuck jobs leave room.
            The slow lane has half as many workers beside these.
        memory: address space of one worker in bytes.
        preload: functions ("module:name") that the zygote calls before it forks, to import what jobs need.
        slice_seconds: processor time of a job in the fast lane; None for one lane, in which no job is begun twice.
    """

    def __init__(
        self,
        size: int | None = None,
        memory: int = DEFAULT_MEMORY,
        preload: Sequence[str] = _PRELOAD,
        slice_seconds: float | None = SLICE,
    ) -> None:
        self.size = size or max(4, os.cpu_count() or 1)
        if self.size < 1 or memory < 1 << 26:
            raise ValueError(f"a pool needs size >= 1 and memory >= 64 MiB, got {size} and {memory}")
        self.memory = memory
        self.preload = tuple(preload)
        self.slice_seconds = slice_seconds
        self._slots = threading.Semaphore(self.size)
        self._slow_slots = threading.Semaphore(max(1, self.size // 2))
        self._lock = threading.Lock()
        self._control_lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._executors: dict[str, ThreadPoolExecutor] = {}
        self._closed = False

    # -- jobs

    def call(self, target: str, args: Sequence[Any], timeout: float, wall: float | None = None) -> Any:
        """Run ``target`` ("module:function") on JSON-like arguments in a worker and return its JSON-like result.

        Args:
            target: a module-level function that the worker can import.
            args: arguments that survive JSON.
            timeout: seconds of processor time.
            wall: seconds of wall time from when a worker takes the job; by default thirty times ``timeout`` and 30
                more. Waiting for a free worker does not count.

        Raises:
            WorkerSpent: the job used up its processor time or memory, or crashed its worker.
            WorkerTimeout: it ran over its wall time.
            WorkerFailed: it raised.
            WorkerError: its worker was killed from outside, or the pool is closed or cannot start.
        """
        if self._fits_the_fast_lane(timeout):
            return self._run(target, args, timeout, wall)
        try:
            return self._run_slice(target, args, wall)
        except _NeedsMore:
            return self._run(target, args, timeout, wall, slow=True)

    def attempt(self, target: str, args: Sequence[Any], timeout: float, wall: float | None = None) -> tuple[str, Any]:
        """``call`` without exceptions: ("done", result), else ("spent", "timeout", "failed" or "error", why)."""
        return _outcome(lambda: self.call(target, args, timeout, wall))

    def map(self, jobs: Sequence[tuple[str, Sequence[Any]]], timeout: float) -> list[tuple[str, Any]]:
        """``attempt`` on every job, side by side, results in order; ``timeout`` is per job; equal jobs run once."""
        if len(jobs) == 1:
            return [self.attempt(*jobs[0], timeout)]
        waiting: dict[str, Future[tuple[str, Any]]] = {}
        names = [json.dumps(job) for job in jobs]
        for name, (target, args) in zip(names, jobs, strict=True):
            if name not in waiting:
                waiting[name] = self._submit(target, args, timeout)
        return [waiting[name].result() for name in names]

    async def acall(self, target: str, args: Sequence[Any], timeout: float, wall: float | None = None) -> Any:
        """``call`` from asyncio; the event loop stays free."""
        status, value = await asyncio.wrap_future(self._submit(target, args, timeout, wall))
        if status != "done":
            raise _ERRORS[status](value)
        return value

    async def aattempt(self, target: str, args: Sequence[Any], timeout: float) -> tuple[str, Any]:
        """``attempt`` from asyncio; the event loop stays free."""
        return await asyncio.wrap_future(self._submit(target, args, timeout))

    def _submit(
        self, target: str, args: Sequence[Any], timeout: float, wall: float | None = None
    ) -> Future[tuple[str, Any]]:
        """An ``attempt`` that will be made; a job that waits for the slow lane holds no thread of the fast one."""
        outcome: Future[tuple[str, Any]] = Future()

        def settle(work: Callable[[], Any]) -> None:
            try:
                settled = _outcome(work)
            except _NeedsMore:
                again = lambda: self._run(target, args, timeout, wall, slow=True)  # noqa: E731
                submit("slow", again)
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(settled)

        def submit(lane: str, work: Callable[[], Any]) -> None:
            try:
                self._threads(lane).submit(settle, work)
            except RuntimeError:
                outcome.set_result(("error", "the worker pool is closed"))

        outcome.set_running_or_notify_cancel()
        if self._fits_the_fast_lane(timeout):
            submit("fast", lambda: self._run(target, args, timeout, wall))
        else:
            submit("fast", lambda: self._run_slice(target, args, wall))
        return outcome

    def _fits_the_fast_lane(self, timeout: float) -> bool:
        return self.slice_seconds is None or timeout <= self.slice_seconds

    def _run_slice(self, target: str, args: Sequence[Any], wall: float | None) -> Any:
        """The job in the fast lane.

        Raises:
            _NeedsMore: it needs more than its slice, or waits.
        """
        slice_seconds = self.slice_seconds or SLICE
        try:
            return self._run(target, args, slice_seconds, min(wall or SLICE_WALL, SLICE_WALL))
        except WorkerTimeout:
            raise _NeedsMore from None
        except WorkerSpent as error:
            if error.slow:
                raise _NeedsMore from None
            raise

    def _run(self, target: str, args: Sequence[Any], cpu: float, wall: float | None = None, slow: bool = False) -> Any:
        wall = WALL_FACTOR * cpu + WALL_SECONDS if wall is None else wall
        with self._slow_slots if slow else self._slots:
            worker = self._fork_busy() if slow else self._take()
            try:
                reply = worker.run(target, args, cpu, wall, slow)
            except _Died:
                raise _death(self._discard(worker), cpu) from None
            except BaseException:
                self._discard(worker)
                raise
            if slow:  # its priority stays low
                self._discard(worker)
            else:
                self._give_back(worker)
        if "spent" in reply:
            raise WorkerSpent(str(reply["spent"]))
        if "error" in reply:
            raise WorkerFailed(str(reply["error"]))
        return reply["result"]

    def warm(self) -> None:
        """Start the zygote and one worker now rather than at the first job; returns when they are ready."""
        with self._slots:
            self._give_back(self._take())

    def close(self) -> None:
        """End every worker and the zygote, and wait until they are gone. The pool cannot be used again."""
        self._closed = True
        with self._control_lock:
            self._stop()
        for executor in self._executors.values():
            executor.shutdown(wait=False)  # what waits there is answered at once: the pool is closed

    def pids(self) -> list[int]:
        """Process ids of the zygote and the workers that exist now."""
        with self._lock:
            workers = [worker.pid for worker in (*self._idle, *self._busy)]
        return ([self._zygote.pid] if self._zygote is not None else []) + workers

    # -- workers

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise WorkerError("the worker pool is closed")
            while self._idle:
                worker = self._idle.pop()
                if worker.is_idle():
                    self._busy.add(worker)
                    return worker
                worker.channel.close()
        return self._fork_busy()

    def _fork_busy(self) -> _Worker:
        worker = self._fork()
        with self._lock:
            self._busy.add(worker)
        return worker

    def _give_back(self, worker: _Worker) -> None:
        if worker.jobs >= JOBS_PER_WORKER or self._closed:
            self._discard(worker)
            return
        with self._lock:
            self._busy.discard(worker)
            self._idle.append(worker)

    def _discard(self, worker: _Worker) -> int:
        """End a worker; the signal that it died of, 0 where that is not known."""
        with self._lock:
            self._busy.discard(worker)
        worker.channel.close()
        with self._control_lock, contextlib.suppress(OSError, WorkerError, ValueError):
            return int(self._command(f"kill {worker.pid}"))
        return 0

    def _fork(self) -> _Worker:
        ours, theirs = socket.socketpair()
        try:
            with self._control_lock:
                try:
                    reply = self._command("fork", theirs.fileno())
                except OSError:
                    self._stop()  # the zygote was killed from outside: start another, once
                    reply = self._command("fork", theirs.fileno())
        except OSError as error:
            ours.close()
            raise WorkerError(f"the worker pool cannot start: {error}") from error
        except WorkerError:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Worker(int(reply), ours)

    # -- the zygote; the control lock is held

    def _command(self, text: str, descriptor: int | None = None) -> str:
        if self._control is None:
            if text.startswith("kill"):
                return ""
            self._start()
        control = self._control
        if control is None:
            raise WorkerError("the worker pool is closed")
        if descriptor is None:
            control.sendall(text.encode())
        else:
            socket.send_fds(control, [text.encode()], [descriptor])
        return _line(control, START_SECONDS)

    def _start(self) -> None:
        if self._closed:
            raise WorkerError("the worker pool is closed")
        ours, theirs = socket.socketpair()
        script = str(Path(__file__).with_name("worker_process.py"))
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        # Not -I: it would ignore the hash seed, and sets of texts must have one order in every process.
        environment.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONHASHSEED="0")
        try:
            self._zygote = subprocess.Popen(
                [sys.executable, "-s", "-P", "-X", "int_max_str_digits=20000", script, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self._control = ours
        path = [str(Path(entry).resolve()) if entry else os.getcwd() for entry in sys.path]
        settings = {"path": path, "preload": self.preload, "memory": self.memory}
        ours.sendall(json.dumps(settings).encode() + b"\n")
        greeting = _line(ours, START_SECONDS)
        if greeting != "ready":
            self._stop()
            raise WorkerError(f"the worker pool cannot start: {greeting}")

    def _stop(self) -> None:
        with self._lock:
            for worker in self._idle:
                worker.channel.close()
            self._idle.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._zygote is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._zygote.wait(2.0)
            if self._zygote.poll() is None:
                self._zygote.kill()
                self._zygote.wait()
            self._zygote = None

    def _threads(self, lane: str) -> ThreadPoolExecutor:
        """As many threads as a lane has workers: more would only wait for these."""
        with self._lock:
            if lane not in self._executors:
                count = self.size if lane == "fast" else max(1, self.size // 2)
                self._executors[lane] = ThreadPoolExecutor(count, thread_name_prefix=f"rlvr-grade-{lane}")
            return self._executors[lane]

    def _forget(self) -> None:
        """In a forked child: the parent's sockets are not ours; closing the copies leaves the parent's open."""
        for worker in (*self._idle, *self._busy):
            worker.channel.close()
        if self._control is not None:
            self._control.close()
        self._zygote = None


def _outcome(work: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "done", work()
    except WorkerError as error:
        return next(status for status, kind in _ERRORS.items() if isinstance(error, kind)), str(error)


def _death(status: int, cpu: float) -> WorkerError:
    """What is raised for a worker that died of a signal."""
    if status == signal.SIGPROF:
        return WorkerSpent(f"over the limit of {cpu:g} s of processor time", slow=True)
    if status in _OWN_DOING:
        return WorkerSpent(f"the job crashed its worker ({signal.Signals(status).name})")
    return WorkerError("the worker died: killed from outside, or ended by what it ran")


def _readable(channel: socket.socket, seconds: float) -> bool:
    """Whether something can be read within a time; ``poll`` because ``select`` stops at descriptor 1,024."""
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _line(control: socket.socket, seconds: float) -> str:
    """One line from the zygote."""
    deadline = time.monotonic() + seconds
    line = bytearray()
    while not line.endswith(b"\n"):
        if not _readable(control, max(0.0, deadline - time.monotonic())):
            raise ConnectionError(f"the zygote did not answer within {seconds:g} s")
        chunk = control.recv(1)
        if not chunk:
            raise ConnectionError("the zygote ended")
        line += chunk
    return line.decode().strip()


_shared: dict[str, WorkerPool] = {}
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool of this process for computer algebra, made when first asked for and ended with the process."""
    return named_pool(_PRELOAD[0])


def resident_pids() -> set[int]:
    """Process ids of the pools that stay for as long as this process."""
    with _shared_lock:
        return {pid for pool in _shared.values() for pid in pool.pids()}


def named_pool(preload: str) -> WorkerPool:
    """The pool of this process whose workers have called ``preload`` ("module:name"), as ``shared_pool``."""
    with _shared_lock:
        pool = _shared.get(preload)
        if pool is None or pool._closed:
            pool = _shared[preload] = WorkerPool(preload=(preload,))
        return pool


def _end() -> None:
    for pool in _shared.values():
        pool.close()


def _after_fork() -> None:
    """A forked child makes its own pools: locks may have been held, sockets belong to the parent."""
    global _shared_lock
    for pool in _shared.values():
        pool._forget()
    _shared.clear()
    _shared_lock = threading.Lock()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
