"""The supervisor: a small process that starts sandboxes, outlives none of them, and leaves nothing behind.

One for each user process. It is started with an empty environment in a session of its own, is the subreaper of
all it starts (so that "ended" means reaped), and kills everything when its socket closes, which the kernel
sees to even when the user's process is killed with SIGKILL. It is two processes, a guardian and its child, the worker
that does all this: when one of them is killed, the other ends all that the two had started. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr.envs.sandbox import cgroups
from rlvr.envs.sandbox.inside import kernel, scratch
from rlvr.envs.sandbox.inside.channel import readable, receive, send

# Of the interpreter, which therefore is not isolated from it: with a fixed seed, sets have the same order each time.
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1",
}  # fmt: skip
CONFIG = "<config>"  # stands in a command line where the sandbox's own configuration will


def main(fd: int) -> NoReturn:
    """Serve ``spawn``, ``end`` and ``blame`` requests until the socket closes. Never returns."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    kernel.become_subreaper()
    alive, held = os.pipe()  # its other end closes when the guardian ends
    notes, noted = os.pipe()
    worker = os.fork()
    if worker:
        os.closerange(3, alive + 1)
        os.close(noted)
        _guard(worker, notes)
    os.close(held)
    os.close(notes)
    kernel.become_subreaper()
    supervisor = _Supervisor(socket.socket(fileno=fd), alive, noted)
    try:
        supervisor.serve()
    finally:
        supervisor.end_all()
        os._exit(0)


def _guard(worker: int, notes: int) -> NoReturn:
    """Wait for the end of the worker, then end and remove what it has left: it notes down what it makes."""
    text = b""
    while chunk := os.read(notes, 1 << 16):
        text += chunk
    os.waitpid(worker, 0)
    _sweep(set())
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        kind, _, path = line.partition(" ")
        if kind == "group":
            cgroups.Group([path]).remove()
        else:
            scratch.remove_tree(path)
    os._exit(0)


class _Sandbox:
    """One running zygote and what must go with it."""

    def __init__(self, pid: int, info: int, workdir: str | None, group: cgroups.Group | None) -> None:
        self.pid, self.info, self.workdir, self.group = pid, info, workdir, group
        self._killed_for_memory = 0

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed something in it for its memory since this was last asked."""
        before = self._killed_for_memory
        self._killed_for_memory = self.group.killed_for_memory() if self.group is not None else 0
        return self._killed_for_memory > before

    def end(self, others: set[int]) -> None:
        """Kill it and all that it started; ``others`` are the supervisor's children that are not to be touched."""
        _end([self], others)


def _end(sandboxes: list[_Sandbox], others: set[int]) -> None:
    """Kill sandboxes and all that they started. First every process, then what they leave: to sweep up is the same
    work for many as for one."""
    first_processes = [(sandbox, _first_process(sandbox.info, sandbox.pid)) for sandbox in sandboxes]
    firsts = [first for _, first in first_processes if first is not None]
    for first in firsts:  # process 1 of the namespace: when it has ended, all in it have
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
    until = time.monotonic() + 2.0
    for first in firsts:
        readable(first, until - time.monotonic())
        os.close(first)
    for sandbox in sandboxes:
        os.close(sandbox.info)
        with contextlib.suppress(ProcessLookupError):
            os.kill(sandbox.pid, signal.SIGKILL)
    _sweep(others)
    for sandbox in sandboxes:
        if sandbox.group is not None:
            sandbox.group.remove()
        if sandbox.workdir is not None:
            scratch.remove_tree(sandbox.workdir)


class _Supervisor:
    def __init__(self, channel: socket.socket, guardian: int, notes: int) -> None:
        self._channel, self._guardian, self._notes = channel, guardian, notes
        self._sandboxes: dict[int, _Sandbox] = {}
        self._workdirs: str | None = None
        self._made = 0

    def serve(self) -> None:
        waker_read, waker_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(waker_read, select.POLLIN)
        poll.register(self._guardian, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self._guardian in ready:
                return
            if waker_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(waker_read, 4096)
            if self._channel.fileno() in ready:
                got = receive(self._channel)
                if got is None:
                    return
                send(self._channel, self._answer(*got))
            self._reap()

    def _answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        try:
            if message["op"] == "spawn":
                return {"pid": self._spawn(message, fds)}
            if message["op"] == "blame":
                asked = self._sandboxes.get(message["pid"])
                return {"pid": int(asked is not None and asked.ran_out_of_memory())}
            sandbox = self._sandboxes.pop(message["pid"], None)
            if sandbox is not None:
                sandbox.end(set(self._sandboxes))
            return {"pid": message["pid"]}
        except OSError as error:
            return {"error": str(error)}
        finally:
            for fd in fds:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def _note(self, kind: str, path: str) -> None:
        """Tell the guardian what to remove if we are killed."""
        with contextlib.suppress(OSError):
            os.write(self._notes, f"{kind} {path}\n".encode("utf-8", "surrogateescape"))

    def end_all(self) -> None:
        """Kill everything, then remove everything."""
        sandboxes = list(self._sandboxes.values())
        self._sandboxes.clear()
        _end(sandboxes, set())
        if self._workdirs is not None:
            scratch.remove_tree(self._workdirs)

    def _new_workdir(self, parent: str, uid: int | None) -> str:
        """A new folder for one sandbox, passable for its uid, in a folder of this supervisor's own."""
        if self._workdirs is None:
            self._workdirs = f"{parent}/rlvr-sandbox-{os.urandom(8).hex()}"
            self._note("folder", self._workdirs)
            os.mkdir(self._workdirs, 0o711)
        self._made += 1
        workdir = f"{self._workdirs}/{self._made}"
        os.mkdir(workdir, 0o700)
        if uid is not None:
            os.chown(workdir, uid, uid)
        return workdir

    def _spawn(self, plan: dict[str, Any], fds: list[int]) -> int:
        control, errors, code = fds
        info_read, info_write = os.pipe()
        workdir = self._new_workdir(plan["workdirs_in"], plan["uid"]) if plan["workdirs_in"] else None
        config = json.dumps({**plan["config"], "scratch": plan["tmpfs"] or workdir, "tmpfs": bool(plan["tmpfs"])})
        plan["argv"] = [config if part == CONFIG else part for part in plan["argv"]]
        group = cgroups.create(plan["cgroup"], plan["total_memory_mb"], plan["total_processes"])
        for folder in group.folders if group is not None else ():
            self._note("group", folder)
        pid = os.fork()
        if pid == 0:
            _become_sandbox(plan, [control, code, info_write, errors], group)
        os.close(info_write)
        self._sandboxes[pid] = _Sandbox(pid, info_read, workdir, group)
        return pid


def _first_process(info: int, bubblewrap: int) -> int | None:
    """A pidfd of the namespace's process 1, from bubblewrap's report; None if there is none, or it has ended."""
    text = b""
    while b"}" not in text and readable(info, 0.0):
        chunk = os.read(info, 4096)
        if not chunk:
            return None
        text += chunk
    with contextlib.suppress(OSError, ValueError):
        pid = json.loads(text)["child-pid"]
        handle = os.pidfd_open(pid)
        if _stat(pid)[1] == bubblewrap:  # the number may have a new owner by now
            return handle
        os.close(handle)
    return None


def _become_sandbox(plan: dict[str, Any], fds: list[int], group: cgroups.Group | None) -> NoReturn:
    """In the new process: enter the cgroup, uncover needed folders, change to the unused uid, start."""
    try:
        signal.set_wakeup_fd(-1)
        for number in range(1, 32):
            with contextlib.suppress(OSError):
                signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)  # not a session each: the scheduler shares out the machine by sessions
        if group is not None:
            group.enter()
        kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in fds]
        if plan["uncover"] or plan["tmpfs"]:
            kernel.enter_mount_namespace()
            _uncover(plan["uncover"])
        if plan["tmpfs"]:
            for folder in plan["hidden"]:
                kernel.mount("tmpfs", folder, "tmpfs", kernel.MS_NOSUID_NODEV, "size=4k,mode=755")
            kernel.mount_read_only()
            kernel.mount_tmpfs(plan["tmpfs"], plan["disk_mb"])
        if plan["uid"] is not None:
            os.setgroups([])
            os.setresgid(plan["uid"], plan["uid"], plan["uid"])
            os.setresuid(plan["uid"], plan["uid"], plan["uid"])
            kernel.set_dumpable(1)  # bubblewrap writes its uid map through /proc/self
        kernel.die_with_parent()
        null = os.open("/dev/null", os.O_RDWR)
        for slot, fd in enumerate((null, null, kept[3], kept[0], kept[1], kept[2])):
            os.dup2(fd, slot)
        os.closerange(6, 1 << 20)
        os.execve(plan["argv"][0], plan["argv"], _ENVIRONMENT)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)


def _uncover(paths: list[str]) -> None:
    """In a mount namespace of our own: put needed folders where another uid can reach them.

    A home folder with mode 700 hides the interpreter in it from the unused uid. So the first closed folder above
    each path is covered with an empty one (which hides all the rest), and the path is put back under it.
    """
    opened = [(path, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path in paths]
    covered: set[str] = set()
    for path, handle in opened:
        closed = first_closed_folder(path)
        if closed is not None and closed not in covered:
            kernel.mount("tmpfs", closed, "tmpfs", kernel.MS_NOSUID_NODEV, "size=1m,mode=755")
            covered.add(closed)
        os.makedirs(path, 0o755, exist_ok=True)
        kernel.mount(f"/proc/self/fd/{handle}", path, "none", kernel.MS_BIND_REC)


def first_closed_folder(path: str) -> str | None:
    """The first folder above (or at) a path that an unrelated uid cannot pass through."""
    folder = ""
    for part in path.strip("/").split("/"):
        folder += f"/{part}"
        if not os.stat(folder).st_mode & 0o001:
            return folder
    return None


def _sweep(others: set[int]) -> None:
    """Kill and reap every descendant that is not of another sandbox: orphans of a dead one come to us."""
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = _descendants(os.getpid(), others)
        if not left:
            return
        for group in {group for group in left.values() if group != os.getpgrp()}:
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _descendants(root: int, others: set[int]) -> dict[int, int]:
    """Process -> its group, for all below one, leaving out some branches."""
    children = _children_of if os.path.exists(f"/proc/self/task/{os.getpid()}/children") else _lookup()
    descendants: dict[int, int] = {}
    waiting = children(root)
    while waiting:
        pid = waiting.pop()
        if pid not in descendants and pid not in others:
            with contextlib.suppress(OSError, ValueError, IndexError):
                descendants[pid] = _stat(pid)[2]
                waiting += children(pid)
    return descendants


def _children_of(pid: int) -> list[int]:
    """A process's children. None of our own is missing, for only we reap them; one whose own are missing is there."""
    children: list[int] = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            children += map(int, file.read().split())
    return children


def _lookup() -> Callable[[int], list[int]]:
    """Every process's children, where the kernel keeps no lists of them."""
    table: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                table.setdefault(_stat(int(entry))[1], []).append(int(entry))
    return lambda pid: list(table.get(pid, ()))


def _stat(pid: int) -> list[int]:
    """Parent and group of a process at 1 and 2."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return [0, *map(int, fields[1:3])]
