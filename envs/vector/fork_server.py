"""ForkServer: a process that has imported what environments need, and forks workers in milliseconds.

It is a fresh interpreter, so a worker inherits no thread, no CUDA context and no ``__main__`` of the user: a script
needs no ``if __name__ == "__main__"``. Nothing outlives the user's process, however that ends: when a socket to it
closes, the fork server ends with all its children, and so does each worker.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

PID = struct.Struct("<cq")
REPLY = b"."


class ForkServer:
    """The user's end of a fork server. Safe to use from any thread.

    Raises:
        OSError: the process could not be started.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start()

    def fork(self) -> tuple[int, Connection]:
        """A new worker: its process id, and the connection to it."""
        with self._lock:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    pid = self._ask(b"f", 0, theirs.fileno())
                except OSError:  # somebody killed it; another one can do the same
                    self._end()
                    self._start()
                    pid = self._ask(b"f", 0, theirs.fileno())
            return pid, Connection(ours.detach())

    def kill(self, pid: int) -> None:
        """End a worker, whatever it is in, and wait for that."""
        with self._lock, suppress(OSError):
            self._ask(b"k", pid)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            code = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from rlvr.envs.vector.fork_server import main; main({theirs.fileno()})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )

    def _ask(self, what: bytes, pid: int, *descriptors: int) -> int:
        socket.send_fds(self._socket, [PID.pack(what, pid)], list(descriptors))
        _, answer = PID.unpack(_exactly(self._socket, PID.size))
        return int(answer)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise OSError("the other end is closed")
        data += more
    return data


def main(descriptor: int) -> None:
    """The fork server itself: forks and kills as asked, until the socket closes."""
    import rlvr.envs  # noqa: F401  (workers find it imported)
    from rlvr.envs.vector.worker import work

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the user's process, which then closes us
    children: set[int] = set()
    with socket.socket(fileno=descriptor) as parent:
        while True:
            data, descriptors, _, _ = socket.recv_fds(parent, PID.size, 1)
            if len(data) < PID.size:
                break
            what, pid = PID.unpack(data)
            if what == b"f":
                pid = os.fork()
                if pid == 0:
                    parent.close()
                    work(Connection(descriptors[0]))
                    os._exit(0)
                os.close(descriptors[0])
                children.add(pid)
            elif pid in children:
                children.remove(pid)
                _kill(pid)
            with suppress(OSError):
                parent.sendall(PID.pack(REPLY, pid))
    for pid in children:
        _kill(pid)


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
