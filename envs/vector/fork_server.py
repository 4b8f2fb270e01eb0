"""Fork server: a process that has imported what environments need, and forks workers in milliseconds.

It is a fresh interpreter, so a worker inherits no thread, no CUDA context and no ``__main__`` of the user: a script
needs no ``if __name__ == "__main__"``.

Nothing outlives the user's process, however that ends. A supervisor, in a session of its own, watches it and is the
parent of the fork server, which is the parent of the workers. Each of them is a subreaper: what an environment starts
stays below its worker, even if it forks twice and begins a new session. A worker dies with the fork server; each of
supervisor and fork server ends everything below it when the other, or the user's process, is gone. That much takes
Linux; elsewhere only the workers are ended.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from rlvr.envs.vector.process_tree import become_subreaper, die_with_parent, end_descendants, pidfd

PID = struct.Struct("<cq")
REPLY = b"."
STARTS = 5  # of one fork server after another, where each is killed before it has forked
ANSWER_SECONDS = 60.0  # far more than a fork or a kill takes
SEND_SECONDS = 10  # how long a worker may keep who writes to it waiting: it reads in a thread of its own
POLL_SECONDS = 1.0  # between two looks at the parent where the kernel has no pidfd


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
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_SECONDS, 0))
            with theirs:
                pid = self._fork(theirs.fileno())
            return pid, Connection(ours.detach())

    def _fork(self, descriptor: int) -> int:
        for _ in range(STARTS):
            try:
                return self._ask(b"f", 0, descriptor)
            except OSError:  # somebody killed it; another one can do the same
                self._end()
                self._start()
        return self._ask(b"f", 0, descriptor)

    def kill(self, pid: int) -> None:
        """End a worker with all that it has started, and wait for that."""
        with self._lock, suppress(OSError):
            self._ask(b"k", pid)

    def close(self) -> None:
        """End it with all that is below it, and wait for that."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(ANSWER_SECONDS)
        with theirs:
            code = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from rlvr.envs.vector.fork_server import main; main({theirs.fileno()}, {os.getpid()})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a signal to the user's process group must not end who cleans up
            )

    def _ask(self, what: bytes, pid: int, *descriptors: int) -> int:
        socket.send_fds(self._socket, [PID.pack(what, pid)], list(descriptors))
        _, answer = PID.unpack(_exactly(self._socket, PID.size))
        return int(answer)

    def _end(self) -> None:
        with suppress(OSError):  # closing is not enough where a fork of the user's process has the socket, too
            self._socket.sendall(PID.pack(b"q", 0))
        self._socket.close()
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _exactly(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = source.recv(count - len(data))
        if not more:
            raise OSError("the other end is closed")
        data += more
    return data


def main(descriptor: int, user: int) -> None:
    """Supervisor and fork server, until the socket closes or the process ``user`` ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what they are meant for is the user's process, which then closes us
    become_subreaper()
    users = pidfd(user)
    supervisor = os.getpid()
    server = os.fork()
    if server == 0:
        with socket.socket(fileno=descriptor) as parent:
            _serve(parent, pidfd(supervisor), supervisor)
        os._exit(0)
    servers = pidfd(server)
    os.close(descriptor)
    while os.getppid() == user and os.waitpid(server, os.WNOHANG) == (0, 0):
        select.select([fd for fd in (users, servers) if fd is not None], [], [], POLL_SECONDS)
    end_descendants(children=[server])
    os._exit(0)


def _serve(parent: socket.socket, supervisors: int | None, supervisor: int) -> None:
    """Fork and kill as asked."""
    become_subreaper()
    import rlvr.envs  # noqa: F401  (workers find it imported)
    from rlvr.envs.vector.worker import work

    workers: set[int] = set()
    immortal: set[int] = set()
    watched: list[Any] = [parent, *([] if supervisors is None else [supervisors])]
    server = os.getpid()
    while os.getppid() == supervisor:
        if parent not in select.select(watched, [], [], POLL_SECONDS)[0]:
            continue
        data, descriptors, _, _ = socket.recv_fds(parent, PID.size, 1)
        what, pid = PID.unpack(data) if len(data) == PID.size else (b"q", 0)
        if what == b"q":
            break
        if what == b"f":
            pid = os.fork()
            if pid == 0:
                die_with_parent(server)
                become_subreaper()
                os.setpgid(0, 0)
                for number in (signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                parent.close()
                work(Connection(descriptors[0]))
                os._exit(0)
            os.close(descriptors[0])
            workers.add(pid)
        elif pid in workers:
            workers.remove(pid)
            immortal |= end_descendants(workers | immortal, [pid])
        with suppress(OSError):
            parent.sendall(PID.pack(REPLY, pid))
    end_descendants(immortal, workers)
