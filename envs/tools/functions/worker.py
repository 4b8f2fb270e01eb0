"""The child side of a user's functions: a process that has loaded them, and the workers that it forks.

Run as a script by ``processes.py``, never imported. It has one thread and never calls a function, so forking it is
safe. It ends when its control socket closes, and its workers end with it.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

ERRORS = "rlvr.envs.tools.tool"
HEADER = 8  # bytes of a message's length


def main() -> None:
    """Serve the control socket given as the first argument until it closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    sys.path[:] = marshal.loads(_read(control) or b"")
    functions = pickle.loads(_read(control) or b"")
    control.sendall(b"\n")
    workers: set[int] = set()
    try:
        while True:
            ready = select.select([control], [], [], 1.0)[0]
            while workers and (ended := os.waitpid(-1, os.WNOHANG)[0]):
                workers.discard(ended)
            if not ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if message == b"f" and descriptors:
                workers.add(_forked(control, descriptors[0], functions))
            elif message == b"k":
                _kill(int.from_bytes(_exactly(control, HEADER) or b"", "big"), workers)
                control.sendall(b"\n")
            else:
                return
    finally:
        for pid in list(workers):
            _kill(pid, workers)


def _forked(control: socket.socket, descriptor: int, functions: dict[str, Any]) -> int:
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        control.close()
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.setpgid(0, 0)
        if os.getppid() == parent:
            _work(socket.socket(fileno=descriptor), functions)
        os._exit(0)
    os.close(descriptor)
    control.sendall(pid.to_bytes(HEADER, "big"))
    return pid


def _kill(pid: int, workers: set[int]) -> None:
    """End a worker and what it has started; not a process that has come by its number since."""
    if pid in workers:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)  # before it has a group of its own
        os.waitpid(pid, 0)
        workers.discard(pid)


def _work(channel: socket.socket, functions: dict[str, Any]) -> None:
    """Call functions, one after the other, until the channel closes."""
    while (request := _read(channel)) is not None:
        name, arguments = marshal.loads(request)
        try:
            reply = ("returned", str(functions[name](**arguments)), "")
        except BaseException as error:
            reply = _raised(error)
        data = marshal.dumps(reply)
        channel.sendall(len(data).to_bytes(HEADER, "big") + data)


def _raised(error: BaseException) -> tuple[str, str, str]:
    kinds = [each.__name__ for each in type(error).__mro__ if each.__module__ == ERRORS]
    try:
        text = str(error)
    except BaseException:
        text = "which cannot be shown"
    if "ToolFault" in kinds:
        return "ToolFault", text, str(getattr(error, "status", "env_error"))
    return ("ToolError", text, "") if "ToolError" in kinds else ("raised", f"{type(error).__name__}: {text}", "")


def _read(channel: socket.socket) -> bytes | None:
    """A message: its length, and so many bytes; None where the other end has closed."""
    header = _exactly(channel, HEADER)
    return None if header is None else _exactly(channel, int.from_bytes(header, "big"))


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        chunk = channel.recv(min(count - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


if __name__ == "__main__":
    main()
