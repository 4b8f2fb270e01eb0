"""Lets programs stand still that nobody has asked anything for a moment.

Not at once: to stop and wake a program costs as much as a short call, and most calls of a burst follow at once.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from typing import Protocol

MOMENT = 0.02  # seconds


class Pausable(Protocol):
    def pause(self, asked: int) -> float | None:
        """Stand still, unless more than ``asked`` questions have come by now; returns after how many seconds to do so
        again, None for never."""


class _Idlers:
    """One thread for all; it ends when there is nothing to wait for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Pausable, int]] = []  # a heap: when, in which order, whom
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def add(self, program: Pausable, asked: int, seconds: float = MOMENT) -> None:
        entry = (time.monotonic() + seconds, next(self._numbers), program, asked)
        with self._changed:
            heapq.heappush(self._waiting, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="rlvr-sandbox-idle", daemon=True)
                self._thread.start()
            elif self._waiting[0] is entry:
                self._changed.notify()

    def _serve(self) -> None:
        while True:
            ready = []
            with self._changed:
                while self._waiting and self._waiting[0][0] <= time.monotonic():
                    ready.append(heapq.heappop(self._waiting))
                if not ready:
                    # Lingers for a moment: in a burst of calls the next one is near.
                    due = self._waiting[0][0] - time.monotonic() if self._waiting else MOMENT
                    self._changed.wait(max(0.0, due))
                    if not self._waiting:
                        self._thread = None
                        return
            for _, _, program, asked in ready:
                again = program.pause(asked)
                if again is not None:
                    self.add(program, asked, again)


_idlers = _Idlers()


def pause_soon(program: Pausable, asked: int) -> None:
    """Let a program stand still in a moment, unless more than ``asked`` questions have come by then."""
    _idlers.add(program, asked)


def _after_fork() -> None:
    """The thread has not come along, and the lock may have been held: the programs belong to the other process."""
    global _idlers
    _idlers = _Idlers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
