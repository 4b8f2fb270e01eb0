"""Lets programs stand still that nobody has asked anything for a moment.

Not at once: to stop and wake a program costs as much as a short call, and most calls of a burst follow at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Protocol

MOMENT = 0.02  # seconds


class Pausable(Protocol):
    def pause(self, asked: int) -> None:
        """Stand still, unless more than ``asked`` questions have come by now."""


class _Idlers:
    """One thread for all; it ends when there is nothing to wait for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Pausable, int]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, program: Pausable, asked: int) -> None:
        with self._lock:
            self._waiting.append((time.monotonic() + MOMENT, program, asked))
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="rlvr-sandbox-idle", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        due = 0.0
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            with self._lock:
                now, ready = time.monotonic(), []
                while self._waiting and self._waiting[0][0] <= now:
                    ready.append(self._waiting.popleft())
                due = self._waiting[0][0] if self._waiting else now + MOMENT
                if not ready and not self._waiting:
                    self._thread = None
                    return
            for _, program, asked in ready:
                program.pause(asked)


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
