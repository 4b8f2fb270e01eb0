"""How much of a program's time the machine kept from it, seen from outside: it makes a deadline fair on a busy machine.

A program is *held* while it could run and none of its processes has a processor. Its own time is the time that passes
without that; what it sleeps, waits for or burns is its own, and so is every second in which its processes together got
a second of processor time. Two ways to know:

- The sandbox's control group of version 2 counts it exactly (``cpu.pressure``, line "full"), processes included that
  have ended since.
- Elsewhere the kernel's count of each thread that lives (``/proc/.../schedstat``). A second in which processes were
  seen to end counts as the program's own: what ended unseen may have burnt what the others waited for.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import NamedTuple

from rlvr.envs.sandbox.inside.scratch import below

_GROUPS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Watched(NamedTuple):
    """Which processes are the program's.

    Attributes:
        root: a process above all of them, as this process numbers it.
        besides: those below ``root`` (and itself) that are not the program's.
        group: the folder of a control group that holds ``root`` and what is below it, and nothing else; None without.
        memory: bytes that the program's processes may hold together; None where the kernel sees to it.
    """

    root: int
    besides: frozenset[int] = frozenset()
    group: str | None = None
    memory: int | None = None

    def is_over_memory(self) -> bool:
        """Whether the program's processes hold more memory than they may, what they share counted once."""
        if self.memory is None:
            return False
        pids, _ = below(self.root, self.besides)
        held = {pid: _resident(pid) for pid in pids}
        if sum(held.values()) <= self.memory:
            return False
        return sum(_own_share(pid, limit) for pid, limit in held.items()) > self.memory


class _Thread(NamedTuple):
    """Seconds it ran and waited to run, and whether it could run just now: a wait that lasts is not counted yet."""

    ran: float = 0.0
    waited: float = 0.0
    queued: bool = False


class _Seen(NamedTuple):
    """One look: seconds of processor time of the program so far, and what of its threads, or of its group as one."""

    ran: float
    threads: dict[int, _Thread]


@dataclass(slots=True)
class RunProgress:
    """What a program got of the machine; ``look`` brings it up to date. All figures are seconds since its start.

    Attributes:
        held: how long it could have run and did not.
        ran: processor time of all its processes together, as far as it was seen.
    """

    watched: Watched | None
    now: float
    held: float = 0.0
    ran: float = 0.0
    _last: _Seen | None = field(default=None)

    def __post_init__(self) -> None:
        if self.watched is not None and self.watched.group is None:
            self._last = _Seen(0.0, {})  # a new program: all its processes are new

    def skip(self, now: float) -> None:
        """Leave out what was until now: the next look only finds out where things stand."""
        self.now, self._last = now, None

    def look(self, now: float, due: float) -> None:
        """Take in what happened since the last look.

        Args:
            due: when the look should have been. A first look has nothing to compare with, so the time by which it is
                late counts as held.
        """
        if self.watched is None:
            return
        usage = _in_group(self.watched.group) if self.watched.group else _in_processes(self.watched)
        last, self._last = self._last, usage
        passed, self.now = now - self.now, now
        if last is None:
            self.held += max(0.0, now - due)
        if last is None or usage is None:
            return
        ran = max(0.0, usage.ran - last.ran)
        self.ran += ran
        if usage.threads.keys() >= last.threads.keys():
            waited = sum(_waited(last.threads.get(n, _NEW), thread, passed) for n, thread in usage.threads.items())
            # Where nothing of it is there yet, it has not been started yet.
            self.held += max(0.0, min(waited, passed - ran)) if usage.threads else passed


def _resident(pid: int) -> int:
    """Bytes of memory that a process has mapped and that are there, whoever shares them; 0 once it has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _own_share(pid: int, otherwise: int) -> int:
    """The same with each page divided by the number of those who share it; ``otherwise`` where a process hides it."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    except PermissionError:
        return otherwise
    except (OSError, StopIteration):  # it has ended, or maps nothing
        return 0


_NEW = _Thread(queued=True)  # what has come since the last look could run from its beginning


def _waited(before: _Thread, now: _Thread, passed: float) -> float:
    counted = max(0.0, now.waited - before.waited)
    return max(counted, passed - (now.ran - before.ran)) if before.queued and now.queued else counted


def group_of(pid: int) -> str | None:
    """The folder of the control group of version 2 that a sandbox got, if it did and the kernel tells its pressure."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            number, _, path = line.rstrip("\n").split(":", 2)
            if number == "0" and "/rlvr-" in path:
                return next((f"{g}{path}" for g in _GROUPS if os.path.exists(f"{g}{path}/cpu.pressure")), None)
    return None


def has_bounded_memory(pid: int) -> bool:
    """Whether a sandbox got a control group of ours that bounds its memory, of either version."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "/rlvr-" in path:
                folders = [f"{group}{path}" for group in (_GROUPS if not controllers else ())]
                if "memory" in controllers.split(",") or any(os.path.exists(f"{f}/memory.max") for f in folders):
                    return True
    return False


def _in_group(folder: str) -> _Seen | None:
    try:
        with open(f"{folder}/cpu.stat") as file:
            ran = next(int(line.split()[1]) for line in file if line.startswith("usage_usec"))
        with open(f"{folder}/cpu.pressure") as file:
            full = next(line for line in file if line.startswith("full"))
        return _Seen(ran / 1e6, {0: _Thread(waited=int(full.rpartition("=")[2]) / 1e6)})
    except (OSError, StopIteration, ValueError):
        return None


def _in_processes(watched: Watched) -> _Seen | None:
    pids, all_seen = below(watched.root, watched.besides)
    if not all_seen:
        return None
    ran, threads = 0.0, {}
    try:
        for pid in pids:
            with open(f"/proc/{pid}/stat") as file:
                ran += sum(map(int, file.read().rpartition(")")[2].split()[11:15])) / _TICK
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/stat") as file:
                    queued = file.read().rpartition(") ")[2].startswith("R")
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    spent, waited = (int(number) / 1e9 for number in file.read().split()[:2])
                threads[int(thread)] = _Thread(spent, waited, queued)
    except (OSError, ValueError, IndexError):  # one of them ended meanwhile
        return None
    return _Seen(ran, threads)
