"""Live sessions, each of one episode instance: the state that a step led to holds the only handle on its session.

A task with live tools still has a plain state: what was called, and what came of it. A fork, a snapshot, a copy, a
pickle and another process get that state without the handle, and make the calls again in a session of their own. So
two episodes never share a session or swap theirs, however much alike they are.
"""

from __future__ import annotations

import _thread
import gc
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_numbers = itertools.count()
_collecting = threading.local()
_inherited: list[Any] = []  # sessions of the process that this one was forked from: kept, so that nothing ends them


class Handle:
    """Names the live session behind one state, in this process, by its identity alone.

    Handles are all equal and look alike, so states compare as if they held none; a copied or pickled one is None.
    """

    __slots__ = ("__weakref__", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Handle()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()


class Sessions(Generic[T]):
    """Sessions that nobody uses at the moment: as many as there are episodes under way.

    Whoever takes a session has it alone, and gives it back under a new handle. Once nothing holds a handle any more,
    its session is closed. Safe for threads; after a fork the child has none of its parent's.
    """

    def __init__(self, close: Callable[[T], Any]) -> None:
        self._close = close
        self._idle: dict[int, tuple[weakref.ref[Handle], T]] = {}
        self._dropped: deque[int] = deque()
        self._lock = threading.Lock()
        _EVERY.add(self)

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, handle: Handle | None) -> T | None:
        """The session of a handle, which names none from then on; None if it names none."""
        if handle is None:
            return None
        with self._lock:
            idle = self._idle.pop(handle.number, None)
        return None if idle is None else idle[1]

    def give(self, session: T) -> Handle:
        """Keep a session; the handle is for the one state that goes on from here."""
        handle = Handle()
        watched = weakref.ref(handle, partial(_drop, weakref.ref(self), handle.number))
        with self._lock:
            self._idle[handle.number] = watched, session
        return handle

    def clear(self) -> None:
        """Close all that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for _, session in idle.values():
            self._close(session)

    def _close_dropped(self) -> None:
        with self._lock:
            dropped = []
            while self._dropped:
                dropped.append(self._idle.pop(self._dropped.popleft(), None))
        for each in dropped:
            if each is not None:
                self._close(each[1])

    def _forget(self) -> None:
        """After a fork: what runs belongs to the parent, and so may whoever held the lock."""
        _inherited.append(self._idle)
        self._idle, self._dropped, self._lock = {}, deque(), threading.Lock()


_EVERY: weakref.WeakSet[Sessions[Any]] = weakref.WeakSet()


def when_safe(work: Callable[[], Any]) -> None:
    """Do it now; in a thread of its own if the garbage collector asks, for it may do so inside of anybody's lock."""
    if not getattr(_collecting, "now", False):
        work()
        return
    with suppress(RuntimeError):  # at the interpreter's end no thread can be begun, and everything ends anyway
        _thread.start_new_thread(work, ())


def _drop(sessions: weakref.ref[Sessions[Any]], number: int, _: object) -> None:
    owner = sessions()
    if owner is not None:
        owner._dropped.append(number)
        when_safe(owner._close_dropped)


def _collects(phase: str, _: object) -> None:
    _collecting.now = phase == "start"


def _after_fork() -> None:
    for each in list(_EVERY):
        each._forget()


gc.callbacks.append(_collects)
os.register_at_fork(after_in_child=_after_fork)
