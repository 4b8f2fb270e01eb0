"""Tiers T3 and T2 from the user's side: one supervisor, and two pools of warm zygotes that run one program at a time.

A zygote that runs tests of a data set (a referee) never runs a program they judge, nor the other way round.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

from rlvr.envs.sandbox import bundle
from rlvr.envs.sandbox.halting import Halt
from rlvr.envs.sandbox.inside import kernel
from rlvr.envs.sandbox.inside.channel import (
    ASKED,
    DESCRIPTORS,
    KILL,
    PAUSE,
    RESUME,
    RUN,
    RUN_LEADER,
    order,
    readable,
    receive,
    send,
)
from rlvr.envs.sandbox.inside.scratch import below
from rlvr.envs.sandbox.limits import Limits, SandboxDied, SandboxError, Tier
from rlvr.envs.sandbox.plans import SandboxPlan
from rlvr.envs.sandbox.progress import Watched, group_of, has_bounded_memory
from rlvr.envs.sandbox.running import Ended, Running

_READY_SECONDS = 60.0  # of a sandbox that starts beside many others on a busy machine
_RECLAIM_SECONDS = 5.0
_CLEAN_SECONDS = 0.25  # for which a run waits for the folder of one before it: to start a sandbox takes about as long
_RENEWED_AFTER = 500  # runs: nothing that a fault of ours might leave in a zygote stays for longer
_SUPERVISORS = 5  # how many are started for one sandbox when each is killed before it has started it
_CHANNELS = ("requests", "replies")


def memory_file(content: bytes) -> int:
    """A descriptor on an unnamed file in memory that holds the content, to be read from its beginning."""
    fd = os.memfd_create("rlvr") if hasattr(os, "memfd_create") else _unnamed_file()
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _unnamed_file() -> int:
    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


def _is_open(channel: socket.socket) -> bool:
    """Whether the other end is there still, by a look that takes nothing."""
    try:
        return bool(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


class SupervisorGone(SandboxError):
    """The supervisor has been killed, and all programs with it."""


class Supervisor:
    """The user's end of the supervisor process. Thread-safe; one request at a time."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        code = memory_file(bundle.supervisor())
        argv = [sys.executable, "-I", "-S", "-B", "-c", _SUPERVISOR_BOOT, str(theirs.fileno()), str(code)]
        try:
            self._process = subprocess.Popen(
                argv, env={"PATH": "/usr/bin:/bin"}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), code), start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()
            os.close(code)
        self._channel, self._lock = mine, threading.Lock()

    @property
    def pid(self) -> int:
        """The supervisor's process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False as soon as one of its two processes has ended."""
        return _is_open(self._channel) and self._process.poll() is None

    def ask(self, message: dict[str, Any], fds: list[int] | None = None) -> int:
        """Send one request.

        Raises:
            SandboxError: the supervisor refuses. SupervisorGone: it has been killed.
        """
        with self._lock:
            try:
                send(self._channel, message, fds)
                answer = receive(self._channel)
            except OSError as error:
                raise SupervisorGone(f"the sandbox supervisor is gone: {error}") from error
        if answer is None:
            raise SupervisorGone("the sandbox supervisor is gone")
        if "error" in answer[0]:
            raise SandboxError(f"the sandbox could not be started: {answer[0]['error']}")
        return int(answer[0]["pid"])

    def close(self) -> None:
        """Returns when everything that the supervisor started has ended."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            while readable(self._channel.fileno(), 10.0) and self._channel.recv(4096):
                pass  # the worker has ended when this has
        self._channel.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# The supervisor expects its socket and its code at 3 and 4.
_SUPERVISOR_BOOT = (
    "import os,sys\n"
    "a,b=os.dup(int(sys.argv[1])),os.dup(int(sys.argv[2]))\n"
    "a,b=os.dup2(a,103),os.dup2(b,104)\n"
    "os.dup2(a,3,inheritable=False);os.dup2(b,4,inheritable=False)\n"
    "os.closerange(5,1024)\n"
    "sys.argv[1]='supervisor'\n" + bundle.BOOT_FROM_DESCRIPTOR
)


class Zygote:
    """One warm sandbox. Used by one run at a time.

    Args:
        supervisor: starts and ends it.
        plan: what it is.
        pool: what it may run: ``programs``, or the ``tests`` that judge them.
    """

    def __init__(self, supervisor: Supervisor, plan: SandboxPlan, pool: str) -> None:
        self.supervisor, self.tier, self.pool, self.disk_mb, self.runs = supervisor, plan.tier, pool, plan.disk_mb, 0
        self.pid, self.clean = -1, True
        mine, theirs = socket.socketpair()
        read, write = os.pipe()
        code = memory_file(bundle.inside())
        try:
            self.pid = supervisor.ask({"op": "spawn", **plan.message()}, [theirs.fileno(), write, code])
        except SandboxError:
            mine.close()
            os.close(read)
            raise
        finally:
            theirs.close()
            os.close(write)
            os.close(code)
        self.channel = mine
        try:
            self._wait_until_ready(read)
        except SandboxError:
            self.end()
            raise
        finally:
            os.close(read)
        # All that is there now is ours; what comes later below it is the program's.
        memory = None if has_bounded_memory(self.pid) else plan.total_memory_mb << 20
        self.watched = Watched(self.pid, frozenset(below(self.pid)[0]), group_of(self.pid), memory)

    def _wait_until_ready(self, errors: int) -> None:
        self.channel.settimeout(_READY_SECONDS)
        try:
            answer = receive(self.channel)
        except OSError:
            answer = None
        self.channel.settimeout(None)
        if answer is None:
            printed = os.read(errors, 4096) if readable(errors, 0.5) else b""
            text = printed.decode("utf-8", "replace").strip() or f"no answer for {_READY_SECONDS:.0f} s"
            raise SandboxError(f"a {self.tier} sandbox could not be started: {text[-500:]}")

    def wait_until_ended(self) -> bool:
        """Wait until a killed program has ended; False if the sandbox has no power over it."""
        self.channel.settimeout(_RECLAIM_SECONDS)
        try:
            got = receive(self.channel)
        except OSError:
            return False
        self.channel.settimeout(None)
        if got is not None:
            self.clean = got[0]["clean"]
        return got is not None

    def has_news(self) -> bool:
        """Whether the folder of the last run is gone, as far as can be told without waiting, or the sandbox is."""
        return self.clean or readable(self.channel.fileno(), 0)

    def wait_until_clean(self) -> bool:
        """Wait until the folder of the last run is gone; False if the sandbox does not get it done."""
        if not self.clean:
            self.channel.settimeout(_READY_SECONDS)
            with contextlib.suppress(OSError):
                self.clean = receive(self.channel) is not None
            self.channel.settimeout(None)
        return self.clean

    def end(self) -> None:
        """Returns when nothing of the sandbox is left."""
        self.channel.close()
        with contextlib.suppress(SandboxError):
            self.supervisor.ask({"op": "end", "pid": self.pid})


@dataclass(slots=True)
class _Use:
    """One use of a zygote: a ``ProgramHandle``."""

    zygote: Zygote
    pool: NativeBackend
    cpu_seconds: float  # the limit of each process
    disk_mb: float
    at_terminal: bool = False
    unsafe: bool = False
    _died: bool = False
    _killed: bool = False  # by us
    _halt: Halt | None = None
    _ended: Ended | None = None

    @property
    def tier(self) -> Tier:
        return self.zygote.tier

    def exit_fd(self) -> int | None:
        return None if self._ended else self.zygote.channel.fileno()

    def poll_exit(self) -> Ended | None:
        if self._ended or not readable(self.zygote.channel.fileno(), 0):
            return self._ended
        try:
            got = receive(self.zygote.channel)
        except OSError:
            got = None
        if got is None:
            self._died = True
            raise self._death()
        fields, self.zygote.clean = got[0]["ended"], got[0]["clean"]
        self._ended = Ended(-9, error=fields["error"]) if "error" in fields else Ended(**fields)
        if self._ended.code and not self._killed and not self._ended.disk and self.lacks_disk():
            raise SandboxDied("the disk of this machine is full", may_be_program=False)
        if self._ended.code == -9 and not self._explained(self._ended):
            if not self.zygote.supervisor.alive:  # it took the program with it, before the zygote
                raise self._death()
            raise SandboxDied("the program was killed from outside", may_be_program=self.tier == "T2")
        return self._ended

    def _explained(self, ended: Ended) -> bool:
        """Whether we killed the program, or the kernel did for a limit. On T3 it cannot do so itself."""
        if self._killed or ended.disk or ended.stopped or ended.error is not None or ended.cpu >= self.cpu_seconds:
            return True
        return self._out_of_memory()

    def _out_of_memory(self) -> bool:
        with contextlib.suppress(SupervisorGone):
            return bool(self.zygote.supervisor.ask({"op": "blame", "pid": self.zygote.pid}))
        return False

    def _death(self) -> SandboxError:
        """Why the zygote is gone."""
        if not self.zygote.supervisor.alive:
            return SupervisorGone("the sandbox supervisor was killed while the program ran")
        if self._out_of_memory():
            return SandboxDied("the program used up the memory of its sandbox", may_be_program=True)
        signals = self.tier == "T2" and kernel.landlock_version() < 6  # then it may signal its zygote
        return SandboxDied("the sandbox was killed under the program", may_be_program=signals)

    def lacks_disk(self) -> bool:
        """Whether the machine has less space left than the program may use: what others write is not its doing."""
        folder = self.pool.plan.workdirs_in
        return folder is not None and shutil.disk_usage(folder).free < self.disk_mb * (1 << 20)

    def watched(self) -> Watched | None:
        return self.zygote.watched

    def pause(self) -> float | None:
        if not self.at_terminal:
            self._tell(PAUSE)
        elif not self._freeze(True):
            self._halt = self._halt or Halt(self.zygote.watched)
            return self._halt.look()
        return None

    def resume(self) -> None:
        if not self.at_terminal:
            self._tell(RESUME)
        elif self._halt is not None:
            self._halt.wake()
        else:
            self._freeze(False)

    def _freeze(self, frozen: bool) -> bool:
        """Halt or wake what is at a terminal, without a signal that a shell or an editor would notice; False where the
        machine has no means to."""
        try:
            with open(f"{self.zygote.watched.group}/cgroup.freeze", "w") as file:
                file.write(str(int(frozen)))
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self._killed = True
        if self.at_terminal:
            self._freeze(False)  # the kernel kills what is frozen only then
        self._tell(KILL)

    def _tell(self, what: int) -> None:
        with contextlib.suppress(OSError):
            order(self.zygote.channel, what)

    def release(self, healthy: bool) -> None:
        if healthy or self._died or self._ended:
            self.pool.give_back(self.zygote, not self._died)
        else:
            self.pool.reclaim(self.zygote)


class NativeBackend:
    """Pools of zygotes of one plan. Starts them on demand, keeps at most ``idle`` of each pool warm."""

    unsafe = False

    def __init__(self, plan: SandboxPlan, idle: int) -> None:
        self.tier: Tier = plan.tier
        self.plan, self._idle_limit = plan, idle
        self._lock = threading.Lock()
        self._idle: dict[str, list[Zygote]] = {"programs": [], "tests": []}
        self._supervisor: Supervisor | None = None
        self._dead: list[threading.Thread] = []  # each waits for the end of a supervisor
        self._owner = os.getpid()
        self._closed = False

    def start(self, request: dict[str, Any], stdin: bytes, limits: Limits, cancel: int | None) -> Running:
        """Start a program in a warm zygote, or in a new one.

        Raises:
            SandboxError: a zygote could not be started.
        """
        pool = "tests" if request["mode"] == "referee" else "programs"
        disk_mb = limits.disk_mb if self.plan.tmpfs else None
        zygote = self._take(pool, disk_mb)
        while not zygote.wait_until_clean() or not _is_open(zygote.channel):
            self.give_back(zygote, healthy=False)
            zygote = self._take(pool, disk_mb)
        zygote.runs += 1
        channel = request["mode"] in ASKED
        theirs, mine = {}, {}
        try:
            theirs["request"] = memory_file(json.dumps(request).encode())
            theirs["stdin"] = memory_file(stdin) if stdin else os.open("/dev/null", os.O_RDONLY)
            for name in ("stdout", "stderr", *(_CHANNELS if channel else ())):
                read, write = os.pipe()
                mine[name], theirs[name] = (write, read) if name == "requests" else (read, write)
            sent = [theirs[name] for name in DESCRIPTORS if name in theirs]
            order(zygote.channel, RUN_LEADER if request["mode"] == "terminal" else RUN, sent)
        except OSError as error:
            for fd in mine.values():
                os.close(fd)
            self.give_back(zygote, healthy=False)
            raise SandboxDied(f"the sandbox did not take the program: {error}", may_be_program=False) from error
        finally:
            for fd in theirs.values():
                os.close(fd)
        use = _Use(zygote, self, request["seconds"], limits.disk_mb, at_terminal=request["mode"] == "terminal")
        return Running(use, mine, limits, cancel, request.get("reply_bytes", 1 << 20))

    def _take(self, pool: str, disk_mb: float | None) -> Zygote:
        """A warm zygote that has emptied the folder of its last run, or soon will have; else a new one."""
        until = time.monotonic() + _CLEAN_SECONDS
        while True:
            with self._lock:
                if self._closed:
                    raise SandboxError("this sandbox is closed")
                if self._owner != os.getpid():  # after a fork the sockets belong to the other process
                    self._idle, self._supervisor, self._owner = {name: [] for name in self._idle}, None, os.getpid()
                self._bury()
                fitting = [zygote for zygote in self._idle[pool] if zygote.disk_mb == disk_mb]
                ready = next((zygote for zygote in reversed(fitting) if zygote.has_news()), None)
                if ready is not None:
                    self._idle[pool].remove(ready)
                    return ready
                poll = select.poll()
                for zygote in fitting:
                    poll.register(zygote.channel, select.POLLIN)
            if not fitting or not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                return self._new(pool, disk_mb)

    def _new(self, pool: str, disk_mb: float | None) -> Zygote:
        for _ in range(_SUPERVISORS):
            with self._lock:
                if self._closed:
                    raise SandboxError("this sandbox is closed")
                self._bury()
                if self._supervisor is None:
                    self._supervisor = Supervisor()
                supervisor = self._supervisor
            try:
                return Zygote(supervisor, self.plan.one_more(disk_mb), pool)
            except SandboxError:
                if supervisor.alive:
                    raise
        raise SupervisorGone(f"{_SUPERVISORS} supervisors of the sandbox were killed, one after the other")

    def _bury(self) -> None:
        """Forget a supervisor that was killed, with its zygotes: the next run gets new ones. Holding the lock."""
        dead = self._supervisor
        if dead is None or dead.alive:
            return
        for zygotes in self._idle.values():
            for zygote in zygotes:
                zygote.channel.close()
            zygotes.clear()
        self._supervisor = None
        self._dead = [thread for thread in self._dead if thread.is_alive()]
        self._dead.append(threading.Thread(target=dead.close, name="rlvr-sandbox-bury", daemon=True))
        self._dead[-1].start()

    def give_back(self, zygote: Zygote, healthy: bool) -> None:
        """Keep a zygote for the next run; or end it, and start another in the background if its time was up."""
        renewed = False
        with self._lock:
            healthy = healthy and zygote.supervisor is self._supervisor
            idle = self._idle[zygote.pool]
            if healthy and not self._closed and (len(idle) < self._idle_limit or idle[0].disk_mb != zygote.disk_mb):
                if zygote.runs < _RENEWED_AFTER:
                    idle.append(zygote)
                    if len(idle) <= self._idle_limit:
                        return
                    zygote = idle.pop(0)  # what is asked for now is of another size
                else:
                    renewed = True
        if renewed or (healthy and not zygote.clean):
            arguments = (zygote, renewed)
            threading.Thread(target=self._replace, args=arguments, name="rlvr-sandbox-renew", daemon=True).start()
        else:
            zygote.end()

    def _replace(self, old: Zygote, renewed: bool) -> None:
        if renewed:
            with contextlib.suppress(SandboxError):  # then the next run starts one
                self.give_back(self._new(old.pool, old.disk_mb), healthy=True)
        old.wait_until_clean()  # the supervisor serves others
        old.end()

    def reclaim(self, zygote: Zygote) -> None:
        """Take back a zygote whose program did not end in time: in the background, for a deadline has just passed."""

        def wait() -> None:
            self.give_back(zygote, zygote.wait_until_ended())

        threading.Thread(target=wait, name="rlvr-sandbox-reclaim", daemon=True).start()

    @property
    def supervisor_pid(self) -> int | None:
        """The supervisor's process; None before the first run."""
        supervisor = self._supervisor
        return None if supervisor is None else supervisor.pid

    def close(self) -> None:
        """End every zygote; returns when nothing is left."""
        with self._lock:
            self._closed = True
            idle = [zygote for zygotes in self._idle.values() for zygote in zygotes]
            self._idle = {name: [] for name in self._idle}
            supervisor, self._supervisor = self._supervisor, None
        if self._owner != os.getpid():
            return
        for zygote in idle:
            zygote.channel.close()
        if supervisor is not None:
            supervisor.close()
        for thread in self._dead:
            thread.join(15)
