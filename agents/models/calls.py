"""Many calls at once in threads, and how many a server bears: for agents that wait for one."""

from __future__ import annotations

import math
import re
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
NO_COMPLETION = "no_completion"  # the code of an answer that is no chat completion


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


FIRST_CALLS = 3  # that fail alike, before any was answered, are enough to give up
MOST_IN_A_ROW = 16  # that fail alike are enough after an answer, or twice as many as may be under way

_FILTERED = re.compile(r"content[ _-]?filter|content management|filtered|moderation|flagged", re.IGNORECASE)
_OF_KEY = re.compile(r"api[ _-]?key|credential|authenticat", re.IGNORECASE)
_OF_MODEL = re.compile(
    r"\b(unknown|invalid|no such|unsupported) model\b"
    r"|\bmodel\b.{0,80}\b(not (found|exist|known|available|supported)|unknown|invalid|no longer)",
    re.IGNORECASE,
)


class FailuresInARow:
    """The calls since the last answer, where all have failed alike; says when no further one is worth making.

    Causes that hold for the whole server count alone: nobody listens there, or the key, the path or the model's name is
    wrong, or a page of HTML comes. What may lie in one conversation, such as a 400 or a content filter, does not count.
    A server that has never answered is given up after three calls; there any 404 counts, and a 400 that names the model
    or the key. Any other is given up when so many have failed alike that each which may be under way has done so twice,
    and sixteen at least.

    Args:
        concurrency: how many calls may be under way at once.
        model: the model's name at the server.
    """

    def __init__(self, concurrency: int, model: str = "") -> None:
        self._most = max(2 * concurrency, MOST_IN_A_ROW)
        self._model = model
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
        cause = (error.status, error.code, error.detail if error.status == 400 else "")
        with self._changed:
            if not self._holds_for_all(error):
                self._cause, self._count = (), 0
                return
            self._count = self._count + 1 if cause == self._cause else 1
            self._cause = cause
            enough = self._most if self._answered else FIRST_CALLS
            if self._count >= enough and not self._given_up:
                since = "no call was answered before or since" if not self._answered else "no call was answered since"
                self._given_up = f"{self._count} calls in a row failed alike and {since}; the last: {error}"

    def _holds_for_all(self, error: EndpointError) -> bool:
        """Whether each other call fails by the same cause, whatever its conversation is."""
        if not error.lasting:
            return False
        if error.status in (401, 402):
            return True
        if _FILTERED.search(f"{error.code} {error.detail}"):
            return False
        if error.status == 400:
            return not self._answered and (self._names_model(error) or bool(_OF_KEY.search(error.detail)))
        if error.status in (404, 405, 410):
            return not self._answered or self._names_model(error)
        if error.code == NO_COMPLETION:
            return not self._answered
        return error.status in (0, 200, 403) or 300 <= error.status < 400

    def _names_model(self, error: EndpointError) -> bool:
        named = self._model and re.search(rf"(?<!\w){re.escape(self._model)}(?!\w)", error.detail)
        return bool(named or "model" in error.code.lower() or _OF_MODEL.search(error.detail))


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
