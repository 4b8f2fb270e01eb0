"""Faults: whose exception it is, and which process we are in, after an environment has run.

Whatever an environment raises is its own fault, ``SystemExit``, ``GeneratorExit``, ``CancelledError`` and
``KeyboardInterrupt`` included. Ctrl-C is the user's. Python raises it in the main thread only, as the same exception;
inside ``ctrl_c`` the two can be told apart.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Raised:
    """What an environment raised, in place of what it should have returned."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Watch:
    """A SIGINT handler that remembers whether the signal came."""

    came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)


_watch = _Watch()


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Remember a SIGINT that comes in here; nothing changes where the user has a handler of their own."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _watch.came = False
    signal.signal(signal.SIGINT, _watch)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _watch:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore_interrupts() -> None:
    """Ctrl-C is for another process; unlike SIG_IGN, this is not inherited by programs that this one starts."""
    signal.signal(signal.SIGINT, _ignored)


def _ignored(number: int, frame: FrameType | None) -> None:
    """No environment hears of it."""


def is_fault(error: BaseException) -> bool:
    """Whether an environment raised it; False for the user's Ctrl-C, and where the two cannot be told apart."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return True
    handler: Any = signal.getsignal(signal.SIGINT)
    return handler is _ignored or (handler is _watch and not _watch.came)


def end_if_forked(pid: int) -> None:
    """End this process if it is a fork, made by an environment, of the process ``pid``: it must not go on as that."""
    if os.getpid() != pid:
        os._exit(0)
