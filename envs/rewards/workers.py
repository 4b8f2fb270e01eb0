"""A pool of worker processes that can be killed: for grading work that might never return.

One zygote per process of the user, started by exec (so it inherits no threads, no CUDA context and no secrets), has
computer algebra loaded and forks a worker in milliseconds. A worker that runs over its time is killed and replaced at
once; wall time, CPU time and memory are limited. Safe to call from any thread, from asyncio (``acall``) and after a
fork of the user's process. No worker outlives the process, however it ends.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

DEFAULT_MEMORY: Final = 1 << 30
START_SECONDS: Final = 180.0  # what some bridges load takes half a minute where others work, too
JOBS_PER_WORKER: Final = 1_000
_PRELOAD: Final = ("rlvr.envs.rewards.symbolic:warm",)
_KEPT_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "HOME", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH")


class WorkerError(RuntimeError):
    """A job failed: it raised, its worker died, or the pool could not start."""


class WorkerTimeout(WorkerError):
    """A job ran over its time; its worker was killed and replaced."""


class _Worker:
    """One forked process and the socket to it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.jobs = 0

    def is_idle(self) -> bool:
        """Whether the worker waits for a job; a channel with something to read was closed by its death."""
        return not _readable(self.channel, 0.0)

    def run(self, target: str, args: Sequence[Any], timeout: float) -> dict[str, Any]:
        request = {"target": target, "args": list(args), "cpu": int(timeout) + 1}
        deadline = time.monotonic() + timeout
        self.channel.settimeout(max(timeout, 0.01))
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
                    raise WorkerError("the worker died: over its memory or CPU limit, or killed from outside")
                reply += chunk
        except TimeoutError:
            raise WorkerTimeout(f"over the limit of {timeout:g} s") from None
        except OSError as error:
            raise WorkerError(f"the worker is gone: {error}") from error
        self.jobs += 1
        answer: dict[str, Any] = json.loads(reply)
        return answer


class WorkerPool:
    """A fixed number of killable workers behind one zygote.

    Args:
        size: how many jobs may run at once; default the number of CPUs, at least 4, so that stuck jobs leave room.
        memory: address space of one worker in bytes.
        preload: functions ("module:name") that the zygote calls before it forks, to import what jobs need.
    """

    def __init__(
        self, size: int | None = None, memory: int = DEFAULT_MEMORY, preload: Sequence[str] = _PRELOAD
    ) -> None:
        self.size = size or max(4, os.cpu_count() or 1)
        if self.size < 1 or memory < 1 << 26:
            raise ValueError(f"a pool needs size >= 1 and memory >= 64 MiB, got {size} and {memory}")
        self.memory = memory
        self.preload = tuple(preload)
        self._slots = threading.Semaphore(self.size)
        self._lock = threading.Lock()
        self._control_lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    # -- jobs

    def call(self, target: str, args: Sequence[Any], timeout: float) -> Any:
        """Run ``target`` ("module:function") on JSON-like arguments in a worker and return its JSON-like result.

        Args:
            target: a module-level function that the worker can import.
            args: arguments that survive JSON.
            timeout: seconds of wall time from the start of the job; waiting for a free worker does not count.

        Raises:
            WorkerTimeout: it ran over; the worker is gone and the next job gets a fresh one.
            WorkerError: it raised, its worker died, or the pool is closed or cannot start.
        """
        with self._slots:
            worker = self._take()
            try:
                reply = worker.run(target, args, timeout)
            except BaseException:
                self._discard(worker)
                raise
            self._give_back(worker)
        if "error" in reply:
            raise WorkerError(str(reply["error"]))
        return reply["result"]

    def attempt(self, target: str, args: Sequence[Any], timeout: float) -> tuple[str, Any]:
        """``call`` without exceptions: ("done", result), ("timeout", why) or ("error", why)."""
        try:
            return "done", self.call(target, args, timeout)
        except WorkerTimeout as error:
            return "timeout", str(error)
        except WorkerError as error:
            return "error", str(error)

    def map(self, jobs: Sequence[tuple[str, Sequence[Any]]], timeout: float) -> list[tuple[str, Any]]:
        """``attempt`` on every job, side by side, results in order; ``timeout`` is per job."""
        if len(jobs) == 1:
            return [self.attempt(*jobs[0], timeout)]
        return list(self._threads().map(lambda job: self.attempt(job[0], job[1], timeout), jobs))

    async def acall(self, target: str, args: Sequence[Any], timeout: float) -> Any:
        """``call`` from asyncio; the event loop stays free."""
        return await asyncio.get_running_loop().run_in_executor(self._threads(), self.call, target, args, timeout)

    def warm(self) -> None:
        """Start the zygote and one worker now rather than at the first job; returns when they are ready."""
        with self._slots:
            self._give_back(self._take())

    def close(self) -> None:
        """End every worker and the zygote, and wait until they are gone. The pool cannot be used again."""
        self._closed = True
        with self._control_lock:
            self._stop()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

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

    def _discard(self, worker: _Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
        worker.channel.close()
        with self._control_lock, contextlib.suppress(OSError, WorkerError):
            self._command(f"kill {worker.pid}")

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

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(4 * self.size, thread_name_prefix="rlvr-grade")
            return self._executor

    def _forget(self) -> None:
        """In a forked child: the parent's sockets are not ours; closing the copies leaves the parent's open."""
        for worker in (*self._idle, *self._busy):
            worker.channel.close()
        if self._control is not None:
            self._control.close()
        self._zygote = None


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


_shared: WorkerPool | None = None
_shared_lock = threading.Lock()


def shared_pool() -> WorkerPool:
    """The pool of this process, made when first asked for and ended with the process."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared._closed:
            _shared = WorkerPool()
        return _shared


def _end() -> None:
    if _shared is not None:
        _shared.close()


def _after_fork() -> None:
    """A forked child makes its own pool: locks may have been held, sockets belong to the parent."""
    global _shared, _shared_lock
    if _shared is not None:
        _shared._forget()
    _shared = None
    _shared_lock = threading.Lock()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
