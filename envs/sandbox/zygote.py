"""The warm interpreter inside the sandbox: one fork per run, nothing left of a run before the next one starts.

T3 (inside bubblewrap): each run gets process, mount and IPC namespaces of its own and fresh tmpfs folders; when its
first process ends, the kernel ends all others and drops the files. T2 (Landlock, no namespaces): the
run is one process group that it cannot leave; it is killed, reaped, and its folder removed.
Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr.envs.sandbox import kernel, program, scratch
from rlvr.envs.sandbox.channel import receive, send

_STATUS = 5
_FDS = ("stdin", "stdout", "stderr", "requests", "replies")
# What programs import most. Every library more makes every fork slower, so not: decimal, hashlib (OpenSSL); and
# `random` would seed itself anew in each fork, used or not.
_PRELOADED = (
    "re typing functools itertools collections math heapq bisect string copy operator dataclasses datetime queue"
).split()


def serve(control: int, config: dict[str, Any]) -> NoReturn:
    """Answer run requests on a socket until it closes. Never returns."""
    zygote = _Zygote(socket.socket(fileno=control), config)
    try:
        zygote.serve()
    finally:
        os._exit(0)


class _Zygote:
    def __init__(self, channel: socket.socket, config: dict[str, Any]) -> None:
        self._channel, self._config = channel, config
        self._namespaces = config["tier"] == "T3"
        self._filter = kernel.seccomp_filter(without_namespaces=not self._namespaces, own_uid=config["own_uid"])
        self._runs = 0
        self._to_remove: str | None = None
        self._to_import = list(reversed(_PRELOADED))

    def serve(self) -> None:
        _on_pipes(program.make_ready)
        gc.freeze()
        if self._namespaces:
            self._enter_process_namespace()
        else:
            kernel.become_subreaper()
        send(self._channel, {"ready": True, "python": sys.version.split()[0]})
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        while (got := self._next_message()) is not None:
            message, fds = got
            if "run" in message:  # a kill that crossed the end of its run is for nobody
                self._run(message["run"], dict(zip(message["fds"], fds, strict=True)))

    def _next_message(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next message; while there is none, import what programs often do, so that their forks need not."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while self._to_import and not poll.poll(0):
            with contextlib.suppress(ImportError):
                __import__(self._to_import.pop())
            if not self._to_import:
                gc.collect()
                gc.freeze()
        return receive(self._channel)

    def _enter_process_namespace(self) -> None:
        """Become process 1 of a namespace of our own: only its owner may come back to it after ``unshare``."""
        kernel.unshare(kernel.CLONE_NEWPID)
        child = os.fork()
        if child:
            os.closerange(3, 1024)
            os.waitpid(child, 0)
            os._exit(0)
        self._home = os.pidfd_open(os.getpid())

    def _run(self, request: dict[str, Any], fds: dict[str, int]) -> None:
        self._runs += 1
        status_read, status_write = os.pipe()
        fds["status"] = status_write
        start = self._start_in_namespaces if self._namespaces else self._start_in_group
        try:
            ended = start(request, fds, status_read)
        except OSError as error:
            ended = {"error": f"the run could not start: {error}"}
        _close(fds)
        os.close(status_read)
        room, self._to_remove = self._to_remove, None
        send(self._channel, {"ended": ended, "clean": room is None})
        if room is not None:
            scratch.remove_tree(room)
            send(self._channel, {"clean": True})

    def _wait(self, child: int, kill: Callable[[], None], full: Callable[[], bool] | None = None) -> tuple[bool, bool]:
        """Until the child ends; a kill message, the end of the channel or a full folder kills it.

        Returns:
            Whether the folder was full, and whether the channel has closed.
        """
        poll, handle = select.poll(), os.pidfd_open(child)
        poll.register(self._channel, select.POLLIN)
        poll.register(handle, select.POLLIN)
        over = closed = False
        pause = 20 if full else None
        try:
            while True:
                ready = [fd for fd, _ in poll.poll(pause)]
                if handle in ready:
                    return over, closed
                if ready:
                    closed = receive(self._channel) is None
                    kill()
                    if closed:
                        poll.unregister(self._channel)
                elif full and full():
                    over, full, pause = True, None, None
                    kill()
                if pause:
                    pause = 50
        finally:
            os.close(handle)

    # --- T3 ---

    def _start_in_namespaces(self, request: dict[str, Any], fds: dict[str, int], status: int) -> dict[str, Any]:
        kernel.unshare(kernel.CLONE_NEWPID)
        try:
            first = os.fork()
        except OSError:
            kernel.set_namespace(self._home, kernel.CLONE_NEWPID)
            raise
        if first == 0:
            self._become_program(request, fds, "/tmp/work")
        kernel.set_namespace(self._home, kernel.CLONE_NEWPID)
        _close(fds)
        self._wait(first, lambda: os.kill(first, signal.SIGKILL))
        _, code, usage = os.wait4(first, 0)  # process 1 of its namespace: all others have ended before this returns
        return _read_status(status) or _ended(code, usage)

    def _make_room(self, home: str, disk_mb: int) -> None:
        """Mount and IPC namespaces of the run's own, with fresh folders; then no capability any more."""
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        size = f"size={disk_mb}m,nr_inodes=16384,mode=1777"
        for folder in ("/tmp", "/dev/shm"):
            kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID_NODEV, size)
        os.mkdir(home, 0o700)
        if self._config["terminals"]:
            self._make_devices()

    def _make_devices(self) -> None:
        """Pseudo-terminals and a list of processes of the run's own; nobody else's are in them."""
        flags = kernel.MS_NOSUID_NODEV
        kernel.mount("devpts", "/dev/pts", "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
        if self._config["processes"]:
            try:
                kernel.mount("proc", "/proc", "proc", flags)
            except OSError:  # the one underneath shows the sandbox's own processes: better none
                kernel.mount("tmpfs", "/proc", "tmpfs", flags, "size=4k,mode=555")

    # --- T2 ---

    def _start_in_group(self, request: dict[str, Any], fds: dict[str, int], status: int) -> dict[str, Any]:
        home = f"{self._config['scratch']}/run{self._runs}"
        os.mkdir(home, 0o700)
        child = os.fork()
        at_terminal = request["mode"] == "terminal"
        if child == 0:
            if at_terminal:  # who has a terminal leads a session
                os.setsid()
                request["leads"] = True
            else:
                os.setpgid(0, 0)
            self._become_program(request, fds, home)
        if not at_terminal:
            with contextlib.suppress(OSError):
                os.setpgid(child, child)
        _close(fds)

        def kill() -> None:
            for end in (os.kill, os.killpg):
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)

        over, closed = self._wait(child, kill, lambda: scratch.weigh(home, request["disk_mb"] << 20))
        kill()  # the leader is not reaped yet, so the group's number is still ours
        _, code, usage = os.wait4(child, 0)
        with contextlib.suppress(ChildProcessError):
            while True:  # orphans come to us: the run has ended when the last of them has
                os.waitpid(-1, 0)
        if closed:
            scratch.remove_tree(home)
            os._exit(0)
        # To empty a folder that was filled on purpose takes a while: the result need not wait, the next run does.
        self._to_remove = home
        return _read_status(status) or {**_ended(code, usage), "disk": over}

    # --- both ---

    def _become_program(self, request: dict[str, Any], fds: dict[str, int], home: str) -> NoReturn:
        limits = self._limits(request)
        try:
            _place({slot: fds[name] for slot, name in enumerate(_FDS) if name in fds}, fds["status"])
            if self._namespaces:
                self._make_room(home, request["disk_mb"])
            if request["mode"] == "terminal":
                request["pty"] = os.openpty()  # the sandbox's own on T3; elsewhere before it is out of reach
            if not self._namespaces:
                kernel.landlock(self._config["readable"], [home], self._config["devices"])
            kernel.drop_capabilities()
            os.umask(0o077)
            kernel.set_limits(limits)
            kernel.no_new_privileges()
            kernel.install_seccomp(self._filter)
        except BaseException as error:
            _write_status({"error": f"the program could not be locked in: {error}"}, _STATUS)
            os._exit(1)
        os.close(_STATUS)
        program.run({**request, "home": home, "packages": self._config["packages"]})

    def _limits(self, request: dict[str, Any]) -> list[tuple[str, int]]:
        # T3 counts in its own user namespace: bubblewrap, the zygote and the zygote's parent.
        others = 3 if self._namespaces else 1 if self._config["own_uid"] else tasks_of(os.getuid())
        megabyte = 1 << 20
        return [
            ("CORE", 0), ("NPROC", request["processes"] + others), ("NOFILE", request["open_files"]),
            ("FSIZE", request["disk_mb"] * megabyte), ("CPU", int(request["seconds"]) + 2), ("MEMLOCK", 65536),
            ("MSGQUEUE", 0), ("RTPRIO", 0), ("NICE", 0), ("AS", request["memory_mb"] * megabyte),
        ]  # fmt: skip


def _place(slots: dict[int, int], status: int) -> None:
    """Put descriptors where the program expects them, the status pipe on 5, and close everything else."""
    moved = {slot: os.dup2(fd, 100 + slot, inheritable=False) for slot, fd in {**slots, _STATUS: status}.items()}
    for slot in range(3, _STATUS):
        with contextlib.suppress(OSError):
            os.close(slot)
    for slot, fd in moved.items():
        os.dup2(fd, slot, inheritable=slot < 3)  # what the program starts has no business on the channel
    os.closerange(_STATUS + 1, 1 << 20)


def _write_status(ended: dict[str, Any], fd: int) -> None:
    os.write(fd, json.dumps(ended).encode() + b"\n")


def _read_status(fd: int) -> dict[str, Any] | None:
    """That the lock-in failed, if it did. The program itself cannot write here."""
    line = os.read(fd, 4096).partition(b"\n")[0]
    return json.loads(line) if line else None


def _on_pipes(work: Callable[[], None]) -> None:
    """Do something while the standard streams are pipes, so that streams made meanwhile take themselves for such."""
    kept = [os.dup(fd) for fd in (0, 1, 2)]
    read, write = os.pipe()
    for fd, end in enumerate((read, write, write)):
        os.dup2(end, fd)
    work()
    for fd, old in enumerate(kept):
        os.dup2(old, fd)
    for fd in (*kept, read, write):
        os.close(fd)


def _close(fds: dict[str, int]) -> None:
    for fd in fds.values():
        os.close(fd)
    fds.clear()


def _ended(code: int, usage: Any) -> dict[str, Any]:
    return {
        "code": os.waitstatus_to_exitcode(code),
        "cpu": round(usage.ru_utime + usage.ru_stime, 6),
        "peak_kb": usage.ru_maxrss,
    }


def tasks_of(uid: int) -> int:
    """How many tasks (threads too) a uid runs now: what RLIMIT_NPROC counts from, outside a user namespace."""
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{entry}/task"))
    return count
