"""The warm interpreter inside the sandbox: one fork per run, nothing left of a run before the next one starts.

A program can look at every byte of the memory it was forked from. So no run may leave a byte here: what a run is about
(program, arguments, input, files, limits) is in a file that only its own fork reads, what a run says goes straight
to the user's process, and the names of its files are seen by a process that forks no programs (the cleaner, T2).

T3 (inside bubblewrap): each run gets process, mount and IPC namespaces of its own and fresh tmpfs folders; when its
first process ends, the kernel ends all others and drops the files. T2 (Landlock, no namespace for each run): the
run is one process group that it cannot leave; it is killed, reaped, and its folder removed.
Loaded inside the sandbox: standard library only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr.envs.sandbox.inside import kernel, program
from rlvr.envs.sandbox.inside.channel import DESCRIPTORS, KILL, PAUSE, RUN, RUN_LEADER, next_order, read_request, send
from rlvr.envs.sandbox.inside.cleaner import Cleaner

_STATUS = 5
_FIRST_CHECK, _LAST_CHECK = 20, 1000  # milliseconds between looks whether what was halted stands still
_STOPPED_CHECK = 200  # milliseconds between looks whether the program has stopped itself
_SLOTS = {"stdin": 0, "stdout": 1, "stderr": 2, "requests": 3, "replies": 4, "status": _STATUS}
_STARTED_NOT = {"error": "the program could not be locked in"}  # it says why on its standard error
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
        self._filter = kernel.seccomp_filter(
            without_namespaces=not self._namespaces, read_only=self._namespaces or config["tmpfs"],
            own_uid=config["own_uid"],
        )  # fmt: skip
        self._cleaner: Cleaner | None = None
        self._to_import = list(reversed(_PRELOADED))

    def serve(self) -> None:
        if not self._namespaces:
            self._cleaner = Cleaner(self._channel, self._config["scratch"])
            kernel.become_subreaper()
        _on_pipes(program.make_ready)
        gc.freeze()
        if self._namespaces:
            self._enter_process_namespace()
        send(self._channel, {"ready": True, "python": sys.version.split()[0]})
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        while (got := self._next_order()) is not None:
            what, fds = got
            if what in (RUN, RUN_LEADER):  # a kill that crossed the end of its run is for nobody
                self._run(dict(zip(DESCRIPTORS, fds, strict=False)), what == RUN_LEADER)

    def _next_order(self) -> tuple[int, list[int]] | None:
        """The next order; while there is none, import what programs often do, so that their forks need not."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while self._to_import and not poll.poll(0):
            with contextlib.suppress(ImportError):
                __import__(self._to_import.pop())
            if not self._to_import:
                gc.collect()
                gc.freeze()
        return next_order(self._channel)

    def _enter_process_namespace(self) -> None:
        """Become process 1 of a namespace of our own: only its owner may come back to it after ``unshare``."""
        kernel.unshare(kernel.CLONE_NEWPID)
        child = os.fork()
        if child:
            os.closerange(3, 1024)
            os.waitpid(child, 0)
            os._exit(0)
        self._home = os.pidfd_open(os.getpid())

    def _run(self, fds: dict[str, int], leads: bool) -> None:
        status_read, fds["status"] = os.pipe()
        try:
            ended = self._start_in_namespaces(fds) if self._namespaces else self._start_in_group(fds, leads)
        except OSError as error:
            ended = {"error": f"the run could not start: {error}"}
        _close(fds)
        if os.read(status_read, 1):
            ended = _STARTED_NOT
        os.close(status_read)
        send(self._channel, {"ended": ended, "clean": self._cleaner is None})
        if self._cleaner is not None:
            # To empty a folder that was filled on purpose takes a while: the result need not wait, the next run does.
            self._cleaner.clean()
            send(self._channel, {"clean": True})

    def _wait(self, child: int, kill: Callable[[], None], stops: bool = False) -> tuple[dict[str, bool], bool]:
        """Until the child ends; a kill order, the end of the channel or a full folder kills it, and where it can stop
        itself (``stops``), that too. A run that is paused stands still with all that it has started.

        Returns:
            Whether the folder was full and whether the child had stopped; and whether the channel has closed or the
            cleaner has ended.
        """
        poll, handle = select.poll(), os.pidfd_open(child)
        watched = [self._channel.fileno(), handle, *([self._cleaner.fileno()] if self._cleaner else [])]
        for fd in watched:
            poll.register(fd, select.POLLIN)
        why, closed = {"disk": False, "stopped": False}, False
        halted: int | None = None
        idle = _STOPPED_CHECK if stops else None
        try:
            while True:
                ready = [fd for fd, _ in poll.poll(halted or idle)]
                if handle in ready:
                    return why, closed
                if halted and not ready:  # the end of a stopped job's parent makes the kernel wake it, for one
                    self._signal(child, PAUSE)
                    halted = min(2 * halted, _LAST_CHECK)
                    continue
                if not ready:
                    if os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
                        continue
                    why["stopped"], idle = True, None
                elif watched[0] in ready:
                    got = next_order(self._channel)
                    if got is not None and got[0] != KILL:
                        halted = self._signal(child, got[0])
                        continue
                    closed = got is None
                    if closed:
                        poll.unregister(self._channel)
                else:
                    why["disk"] = self._cleaner is not None and self._cleaner.is_full()
                    closed = not why["disk"]  # the cleaner was killed: there is no going on without it
                    poll.unregister(watched[2])
                halted = None
                kill()
        finally:
            os.close(handle)

    def _signal(self, child: int, what: int) -> int | None:
        """Halt a run or let it go on; returns after how long to look whether it is halted."""
        if self._cleaner:
            self._cleaner.halt(what == PAUSE)
        with contextlib.suppress(ProcessLookupError):
            number = signal.SIGSTOP if what == PAUSE else signal.SIGCONT
            if self._namespaces:
                os.kill(-1, number)  # all at once, but ourselves
            else:
                os.killpg(child, number)
        return _FIRST_CHECK if what == PAUSE else None

    # --- T3 ---

    def _start_in_namespaces(self, fds: dict[str, int]) -> dict[str, Any]:
        kernel.unshare(kernel.CLONE_NEWPID)
        try:
            first = os.fork()
        except OSError:
            kernel.set_namespace(self._home, kernel.CLONE_NEWPID)
            raise
        if first == 0:
            os.setpgid(0, 0)  # a signal to all of its group is not for us
            self._become_program(fds, "/tmp/work", leads=False)
        kernel.set_namespace(self._home, kernel.CLONE_NEWPID)
        _close(fds)
        self._wait(first, lambda: os.kill(first, signal.SIGKILL))
        _, code, usage = os.wait4(first, 0)  # process 1 of its namespace: all others have ended before this returns
        return _ended(code, usage)

    def _make_folders(self, home: str, disk_mb: int) -> None:
        """Mount and IPC namespaces of the run's own, with fresh folders; then no capability any more."""
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        for folder in ("/tmp", "/dev/shm"):
            kernel.mount_tmpfs(folder, disk_mb)
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

    def _start_in_group(self, fds: dict[str, int], leads: bool) -> dict[str, Any]:
        home = f"{self._config['scratch']}/work"
        os.mkdir(home, 0o700)
        child = os.fork()
        if child == 0:
            os.setsid() if leads else os.setpgid(0, 0)  # who has a terminal leads a session
            self._become_program(fds, home, leads)
        if not leads:
            with contextlib.suppress(OSError):
                os.setpgid(child, child)
        _close(fds)

        def kill() -> None:
            for end in (os.kill, os.killpg):
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)

        why, closed = self._wait(child, kill, stops=not leads)
        kill()  # the leader is not reaped yet, so the group's number is still ours
        _, code, usage = os.wait4(child, 0)
        with contextlib.suppress(ChildProcessError):
            while True:  # orphans come to us: the run has ended when the last of them has
                os.waitpid(-1, 0)
        if closed:
            os._exit(0)  # the cleaner sees it, and empties the folder
        return {**_ended(code, usage), **why}

    # --- both ---

    def _become_program(self, fds: dict[str, int], home: str, leads: bool) -> NoReturn:
        printed, status = fds["stderr"], fds["status"]
        try:
            request = read_request(fds.pop("request"))
            if self._cleaner is not None and not self._config["tmpfs"]:
                # What holds a terminal hides its files, from the programs of the terminal.
                hides = os.getpid() if request["mode"] == "terminal" else 0
                self._cleaner.watch(int(request["disk_mb"] * (1 << 20)), hides)
            _move_descriptors({_SLOTS[name]: fd for name, fd in fds.items()})
            printed, status = 2, _STATUS
            limits = self._limits(request)
            if self._namespaces:
                self._make_folders(home, request["disk_mb"])
            if request["mode"] == "terminal":
                request["pty"] = kernel.open_terminal()  # the sandbox's own on T3; elsewhere before it is out of reach
            if not self._namespaces:
                writable = self._config["scratch"] if self._config["tmpfs"] else home
                kernel.landlock(self._config["readable"], [writable], self._config["devices"])
            kernel.drop_capabilities()
            os.umask(0o077)
            kernel.set_limits(limits)
            kernel.no_new_privileges()
            kernel.install_seccomp(self._filter)
        except BaseException as error:
            os.write(printed, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
            os.write(status, b"x")
            os._exit(1)
        os.close(_STATUS)
        program.run({**request, "home": home, "leads": leads, "packages": self._config["packages"]})

    def _limits(self, request: dict[str, Any]) -> list[tuple[str, int]]:
        # T3 counts in its own user namespace: bubblewrap, the zygote and the zygote's parent.
        # T2: the zygote and its cleaner.
        counts_alone = self._config["own_uid"] or self._config["tmpfs"]  # or counts in a user namespace of its own
        others = 3 if self._namespaces else 2 if counts_alone else tasks_of(os.getuid())
        megabyte = 1 << 20
        return [
            ("CORE", 0), ("NPROC", request["processes"] + others), ("NOFILE", request["open_files"]),
            ("FSIZE", int(request["disk_mb"] * megabyte)), ("CPU", int(request["seconds"]) + 2), ("MEMLOCK", 65536),
            ("MSGQUEUE", 0), ("RTPRIO", 0), ("NICE", 0), ("AS", int(request["memory_mb"] * megabyte)),
        ]  # fmt: skip


def _move_descriptors(slots: dict[int, int]) -> None:
    """Put descriptors where the program expects them, and close everything else."""
    moved = {slot: os.dup2(fd, 100 + slot, inheritable=False) for slot, fd in slots.items()}
    for slot in range(3, _STATUS):
        with contextlib.suppress(OSError):
            os.close(slot)
    for slot, fd in moved.items():
        os.dup2(fd, slot, inheritable=slot < 3)  # what the program starts has no business on the channel
    os.closerange(_STATUS + 1, 1 << 20)


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
