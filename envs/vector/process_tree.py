"""Process tree: all that a process has started, found and ended, wherever it has gone.

A subreaper is the new parent of whatever below it loses its parent, so that nothing leaves its tree: not by forking
twice, nor in a session of its own. Subreapers and pidfds are Linux's; elsewhere these functions do what they can.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
END_SECONDS = 2.0  # how long a killed process may take to go; one in an uninterruptible call may stay for ever


def become_subreaper() -> None:
    """Be the parent of every process below this one that loses its own."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """End with the process ``parent``, which has just forked this one and has a single thread."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        os._exit(1)


def pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def end_descendants(keep: Collection[int] = (), children: Collection[int] = ()) -> set[int]:
    """Kill everything below this process, but for the children in ``keep`` and what is below those.

    Waits until they are gone, at most ``END_SECONDS``.

    Args:
        keep: process ids.
        children: these are killed even where the processes of the machine cannot be listed.

    Returns:
        The children that would not go.
    """
    here, watched = os.getpid(), set(children)
    until, pause = time.monotonic() + END_SECONDS, 0.0005
    for pid in watched:
        _kill(pid)
    while True:
        members = _members()
        strays = _below(here, members, keep) | watched
        ours = {pid for pid in strays if pid in watched or members[pid][0] == here}
        gone = {pid for pid in ours if _reaped(pid)}
        strays, ours, watched = strays - gone, ours - gone, watched - gone
        if (not strays and not gone) or time.monotonic() > until:
            return ours
        others = {group for pid, (_, group) in members.items() if pid not in strays | gone}
        for group in {members[pid][1] for pid in strays if pid in members} - others - {os.getpgrp()}:
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)  # at once: no member forks another between two kills
        for pid in strays:
            _kill(pid)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _reaped(pid: int) -> bool:
    """Whether a child has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def _members() -> dict[int, tuple[int, int]]:
    """Parent and process group of every process that has not ended, or has not been reaped."""
    members: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError):
            _, parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
            members[int(folder.name)] = int(parent), int(group)
    return members


def _below(root: int, members: dict[int, tuple[int, int]], keep: Collection[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in members.items():
        children.setdefault(parent, []).append(pid)
    below: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in keep and pid not in below:
                below.add(pid)
                waiting.append(pid)
    return below


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
