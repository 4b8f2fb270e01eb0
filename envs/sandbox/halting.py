"""Halts what runs at a terminal between keys where no control group can: by signals that its programs do not notice.

A shell that sees a job stop says so, and an editor that is continued draws its screen anew. So a terminal is halted
only once something in it burns; then a parent stands still before its children are stopped, and goes on after them.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple

from rlvr.envs.sandbox.inside.scratch import below, children_of
from rlvr.envs.sandbox.progress import Watched

_FIRST, _LAST = 0.05, 1.0  # seconds between two looks; each wait is twice the one before
_SOON = 0.002  # seconds until a parent that was sent a stop is looked at again
_BURNT = 2  # ticks of processor time between two looks: a program that waits for keys takes none


class _Process(NamedTuple):
    pid: int
    born: int  # in ticks since the machine started: with the number, an identity
    stopped: bool
    ran: int  # ticks, with those of children that ended


class Halt:
    """What a terminal runs, and what of it is halted. Not thread-safe.

    Args:
        watched: where to look for its processes.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._forget()

    def _forget(self) -> None:
        self._stopped: list[_Process] = []  # by us: parents before their children
        self._ran: int | None = None
        self._wait = _FIRST

    def look(self) -> float:
        """Halt the terminal if it burns; returns the seconds until it is to be looked at again."""
        if not self._stopped:
            processes = [
                running for pid in below(self._watched.root, self._watched.besides)[0] if (running := _look(pid))
            ]
            before, self._ran = self._ran, sum(process.ran for process in processes)
            if before is None or self._ran - before < _BURNT:
                wait, self._wait = self._wait, min(2 * self._wait, _LAST)
                return wait
        return _LAST if self._stop_all() else _SOON

    def _stop_all(self) -> bool:
        """Stop each process whose parents stand still; returns whether that was all."""
        waiting, still = [(self._watched.root, False)], True
        while waiting:
            pid, is_program = waiting.pop()
            process = _look(pid)
            if process is None:
                continue
            if is_program and not process.stopped:
                still = False
                if _send(process, signal.SIGSTOP):
                    self._stopped.append(process)
                continue
            try:
                waiting.extend((child, child not in self._watched.besides) for child in children_of(pid))
            except OSError:  # one has ended, and its children are elsewhere at the next look
                still = False
        return still

    def wake(self) -> None:
        """Let what was halted go on, children before their parents: no parent can ask for a child that stands still."""
        for process in reversed(self._stopped):
            _send(process, signal.SIGCONT)
        self._forget()


def _look(pid: int) -> _Process | None:
    """A process as it is now; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, *fields = file.read().rpartition(") ")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else _Process(pid, int(fields[18]), state == "T", sum(map(int, fields[10:14])))


def _send(process: _Process, number: signal.Signals) -> bool:
    """Send a signal to a process, and to none that got its number since."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            now = _look(process.pid)
            if now is not None and now.born == process.born:
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False
