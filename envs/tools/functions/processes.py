"""The parent side of a user's functions: calls in workers that are killed at the deadline, whatever they are in."""

from __future__ import annotations

import marshal
import os
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

START_SECONDS: Final = 60.0
IDLE: Final = 8  # workers that wait for the next call
HEADER: Final = 8  # bytes of a message's length


class WorkerEnded(Exception):
    """A call has ended the process that it was made in."""


@dataclass(slots=True, eq=False)
class _Worker:
    pid: int
    channel: socket.socket

    def fileno(self) -> int:
        return self.channel.fileno()


class FunctionProcesses:
    """A process that has loaded functions, and its workers: one for each call under way. Safe to use from any thread.

    Args:
        pickled: the functions by name, as cloudpickle writes them.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self, pickled: bytes) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        script = Path(__file__).with_name("worker.py")
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which then lets go of it
            )
        self._finalizer = weakref.finalize(self, _end, self._control, process, self._idle, os.getpid())
        for message in (marshal.dumps(sys.path), pickled):
            _send(self._control, message)
        _exactly(self._control, 1)

    def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> tuple[str, str, str]:
        """What a function returns or raises: ("returned", text, ""), ("raised" or "ToolError", message, "") or
        ("ToolFault", message, status).

        Raises:
            ValueError: an argument cannot be sent: it is no number, text, list, mapping or constant.
            TimeoutError: it did not end in time, and was killed.
            WorkerEnded: it ended its process.
            OSError: no worker can be had.
        """
        data = marshal.dumps((name, dict(arguments)))
        worker = self._worker()
        try:
            worker.channel.settimeout(seconds)
            reply: tuple[str, str, str] = marshal.loads(_answer(worker.channel, data, time.monotonic() + seconds))
        except TimeoutError:
            self._kill(worker)
            raise
        except OSError as error:
            self._kill(worker)
            raise WorkerEnded(f"{name} has ended the process that it ran in") from error
        with self._lock:
            if len(self._idle) < IDLE:
                self._idle.append(worker)
                return reply
        self._kill(worker)
        return reply

    def close(self) -> None:
        """End the workers and the process that has forked them."""
        self._finalizer()

    def _worker(self) -> _Worker:
        with self._lock:
            while self._idle:
                if not select.select([worker := self._idle.pop()], [], [], 0.0)[0]:
                    return worker
                worker.channel.close()  # there is nothing to read but that somebody has killed it
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(self._control, [b"f"], [theirs.fileno()])
                return _Worker(int.from_bytes(_exactly(self._control, HEADER), "big"), ours)
            except TimeoutError as error:  # no doing of the call's
                raise OSError("the process that forks the workers does not answer") from error

    def _kill(self, worker: _Worker) -> None:
        worker.channel.close()
        with self._lock, suppress(OSError):
            self._control.sendall(b"k" + worker.pid.to_bytes(HEADER, "big"))
            _exactly(self._control, 1)


def _end(control: socket.socket, process: subprocess.Popen[bytes], idle: list[_Worker], owner: int) -> None:
    while idle:
        idle.pop().channel.close()
    control.close()
    if os.getpid() == owner:  # a fork of this process has no child to wait for
        with suppress(subprocess.TimeoutExpired):
            process.wait(START_SECONDS)


def _send(channel: socket.socket, data: bytes) -> None:
    channel.sendall(len(data).to_bytes(HEADER, "big") + data)


def _answer(channel: socket.socket, request: bytes, until: float) -> bytes:
    _send(channel, request)
    count = int.from_bytes(_exactly(channel, HEADER, until), "big")
    return _exactly(channel, count, until)


def _exactly(channel: socket.socket, count: int, until: float | None = None) -> bytes:
    """So many bytes.

    Raises:
        TimeoutError: they did not come in time.
        OSError: the other end is closed.
    """
    data = bytearray()
    while len(data) < count:
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError
            channel.settimeout(left)
        chunk = channel.recv(min(count - len(data), 1 << 20))
        if not chunk:
            raise OSError("the other end is closed")
        data += chunk
    return bytes(data)
