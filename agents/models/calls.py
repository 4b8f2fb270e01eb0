"""Many calls at once in threads, and how many a server bears: for agents that wait for one."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from rlvr.envs.endpoint import EndpointError

T = TypeVar("T")
R = TypeVar("R")


OVERLOADED = (429, 503)  # the statuses of a server that wants fewer calls


class AdaptiveLimit:
    """How many tries may be under way at once: half as many once a server is overloaded, one more after each round.

    That is additive increase and multiplicative decrease, as TCP has it (RFC 5681): the limit settles around what the
    server bears. Answers to tries that began before the limit was cut cut it no further. After a ``Retry-After`` no
    try begins before it says so, whichever call it was an answer to.

    Args:
        most: the limit at the beginning, and never more than that.

    Attributes:
        tries: that have ended.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.tries = 0
        self._limit = float(most)
        self._started: dict[int, float] = {}  # when the try of each thread began
        self._cut_at = self._closed_until = -math.inf
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """The limit now."""
        return int(self._limit)

    def enter(self, end: float) -> bool:
        """Wait until a try may begin; whether that is before ``end``, in ``time.monotonic``'s seconds."""
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= end:
                    return False
                closed = self._closed_until - now
                if closed <= 0 and len(self._started) < self.limit:
                    self._started[threading.get_ident()] = now
                    return True
                wait = min(end - now, closed if closed > 0 else math.inf)
                self._changed.wait(None if wait == math.inf else wait)

    def leave(self, status: int, retry_after: float | None) -> None:
        """A try of this thread has ended: with this HTTP status, and so many seconds of ``Retry-After``."""
        with self._changed:
            began = self._started.pop(threading.get_ident())
            self.tries += 1
            if status in OVERLOADED:
                if began > self._cut_at:
                    self._limit, self._cut_at = max(1.0, self._limit / 2), time.monotonic()
                self._closed_until = max(self._closed_until, time.monotonic() + (retry_after or 0.0))
            elif status == 200:
                self._limit = min(float(self.most), self._limit + 1 / self._limit)
            self._changed.notify_all()


FIRST_CALLS = 3  # that fail alike by a lasting cause, before any was answered, are enough to give up
MOST_IN_A_ROW = 16  # that fail alike are enough in any case, or twice as many as may be under way


class FailuresInARow:
    """The calls since the last answer, where all have failed alike; says when no further one is worth making.

    A server that has never answered is given up after three calls with one lasting cause, such as a refused connection,
    a 404 or a missing key. Any other is given up when so many have failed alike that each which may be under way has
    done so twice, and sixteen at least.

    Args:
        concurrency: how many calls may be under way at once.
    """

    def __init__(self, concurrency: int) -> None:
        self._most = max(2 * concurrency, MOST_IN_A_ROW)
        self._changed = threading.Lock()
        self._cause: tuple[object, ...] = ()
        self._count = 0
        self._answered = False
        self._given_up = ""

    @property
    def given_up(self) -> str:
        """Why no further call is worth making; empty as long as one is."""
        return self._given_up

    def answered(self) -> None:
        """A call was answered."""
        with self._changed:
            self._cause, self._count, self._answered, self._given_up = (), 0, True, ""

    def failed(self, error: EndpointError) -> None:
        """A call failed, all its tries included."""
        of_request = error.status in (400, 413, 422)  # which may lie in the conversation: the text tells
        cause = (error.status, error.code, error.lasting, str(error) if of_request else "")
        with self._changed:
            self._count = self._count + 1 if cause == self._cause else 1
            self._cause = cause
            enough = FIRST_CALLS if error.lasting and not self._answered else self._most
            if self._count >= enough and not self._given_up:
                since = "no call was answered before or since" if not self._answered else "no call was answered since"
                self._given_up = f"{self._count} calls in a row failed alike and {since}; the last: {error}"


class Calls:
    """Calls a function for each item in daemon threads; the limit holds over all users of one instance.

    The threads end when nothing is left to call. A future that is cancelled before its call begins is never called.

    Args:
        limit: the most calls under way at once.

    Raises:
        ValueError: a limit below 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, got {limit}")
        self.limit = limit
        self._slots = threading.BoundedSemaphore(limit)

    def start(self, function: Callable[[T], R], items: Sequence[T]) -> list[Future[R]]:
        """A future for each item, in order."""
        futures: list[Future[R]] = [Future() for _ in items]
        waiting = deque(zip(futures, items, strict=True))
        for _ in range(min(self.limit, len(items))):
            threading.Thread(target=self._work, args=(function, waiting), daemon=True, name="rlvr-calls").start()
        return futures

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The results, in order. When one raises, or the wait is interrupted, what has not begun is not called."""
        futures = self.start(function, items)
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def _work(self, function: Callable[[T], R], waiting: deque[tuple[Future[R], T]]) -> None:
        while True:
            try:
                future, item = waiting.popleft()
            except IndexError:
                return
            with self._slots:
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    result = function(item)
                except BaseException as error:  # it belongs to whoever waits for this future
                    future.set_exception(error)
                else:
                    future.set_result(result)
