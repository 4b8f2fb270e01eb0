"""Many calls at once in threads, and how many a server bears: for agents that wait for one."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import TypeVar

from rlvr.envs.endpoint import EndpointError

T = TypeVar("T")
R = TypeVar("R")


OVERLOADED = (429, 503)  # the statuses of a server that wants fewer calls
NO_COMPLETION = "no_completion"  # the code of an answer that is no chat completion
# The limit rises by 0.1 for an answer and falls by 0.4 for a refusal: it stays at its most where fewer than one try in
# five is refused, and sinks as long as more are.
RISE, FALL = 0.1, 0.4
RECENT = 16  # tries over which the share of refusals is averaged
CLOSED_SHARE = 0.5  # of refusals: above it a Retry-After is meant for everybody


class AdaptiveLimit:
    """How many tries may be under way at once: fewer while the server refuses more than one in five of them.

    A ``Retry-After`` is obeyed by the call that got it. Only where more than half of the recent tries were refused does
    no try at all begin before it says so. A try that is made again goes before one that is the first of its call.

    Args:
        max_calls: the limit at the beginning, and never more than that.
        yield_slot: called in the thread of a try that was refused while most others are not: the call will wait, and
            another may have its place meanwhile.

    Attributes:
        tries: that have ended.
    """

    def __init__(self, max_calls: int, yield_slot: Callable[[], None] | None = None) -> None:
        self.max_calls = max_calls
        self.tries = 0
        self._limit = float(max_calls)
        self._running: set[int] = set()  # the threads of the tries under way
        self._again = 0  # tries that wait, and are not the first of their call
        self._refused = 0.0  # share of the recent tries
        self._closed_until = -math.inf
        self._yield_slot = yield_slot
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many calls may be under way at once now."""
        return int(self._limit)

    def enter(self, end: float) -> bool:
        """Wait until a try may begin; whether that is before ``end``, in ``time.monotonic``'s seconds."""
        again = end < math.inf
        with self._changed:
            self._again += again
            try:
                while True:
                    now = time.monotonic()
                    if now >= end:
                        return False
                    closed = self._closed_until - now
                    if closed <= 0 and len(self._running) < self.limit and (again or not self._again):
                        self._running.add(threading.get_ident())
                        return True
                    wait = min(end - now, closed if closed > 0 else math.inf)
                    self._changed.wait(None if wait == math.inf else wait)
            finally:
                self._again -= again
                if again:
                    self._changed.notify_all()

    def leave(self, status: int, retry_after: float | None) -> None:
        """A try of this thread has ended: with this HTTP status, and so many seconds of ``Retry-After``."""
        refused = status in OVERLOADED
        with self._changed:
            self._running.remove(threading.get_ident())
            self.tries += 1
            self._refused += (refused - self._refused) / RECENT
            overloaded = self._refused > CLOSED_SHARE
            if refused:
                self._limit = max(1.0, self._limit - FALL)
                if overloaded:
                    self._closed_until = max(self._closed_until, time.monotonic() + (retry_after or 0.0))
            elif status == 200:
                self._limit = min(float(self.max_calls), self._limit + RISE)
            self._changed.notify_all()
        if refused and not overloaded and self._yield_slot is not None:
            self._yield_slot()


FIRST_CALLS = 3  # that fail alike, before any was answered, are enough to give up
UNNAMED_CALLS = 8  # the same, of a 400 or 422 that does not say what is wrong with it: a conversation might be
MOST_IN_A_ROW = 16  # that fail alike are enough after an answer, or twice as many as may be under way

_FILTERED = re.compile(r"content[ _-]?filter|content management|filtered|moderation|flagged", re.IGNORECASE)
_OF_KEY = re.compile(r"api[ _-]?key|credential|authenticat", re.IGNORECASE)
_OF_TOOLS = re.compile(r"\btools?\b|\btool_choice\b|function[ _-]?call", re.IGNORECASE)
_OF_MODEL = re.compile(
    r"\b(unknown|invalid|no such|unsupported) model\b"
    r"|\bmodel\b.{0,80}\b(not (found|exist|known|available|supported)|unknown|invalid|no longer)",
    re.IGNORECASE,
)


class FailuresInARow:
    """The calls since the last answer, where all have failed alike; says when no further one is worth making.

    Causes that hold for the whole server count alone: nobody listens there, or the key, the path or the model's name is
    wrong, or a page of HTML comes. What may lie in one conversation, such as a 400 or a content filter, does not count.
    A server that has never answered is given up after three calls; there any 404 counts, and a 400 or 422 that names
    the model, the key, or a field that every request has, such as ``max_tokens``. A 400 or 422 that names none of these
    counts there, too, and is given up after eight calls that were refused in the same words; a content filter never
    counts. A server that has answered is given up when so many have failed alike that each which may be under way has
    done so twice, and sixteen at least.

    Args:
        concurrency: how many calls may be under way at once.
        model: the model's name at the server.
        fields: of each request, those left out that hold the conversation.
    """

    def __init__(self, concurrency: int, model: str = "", fields: Collection[str] = ()) -> None:
        self._most = max(2 * concurrency, MOST_IN_A_ROW)
        self._model = model
        self._fields = sorted(fields, key=len, reverse=True)
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
        """Count an answer: failures in a row begin anew."""
        with self._changed:
            self._cause, self._count, self._answered, self._given_up = (), 0, True, ""

    def failed(self, error: EndpointError) -> None:
        """A call failed, all its tries included."""
        field = self._field_in(error)
        cause = (error.status, error.code, field or (error.detail if error.status in (400, 422) else ""))
        with self._changed:
            if not self._holds_for_all(error):
                self._cause, self._count = (), 0
                return
            self._count = self._count + 1 if cause == self._cause else 1
            self._cause = cause
            enough = self._most if self._answered else FIRST_CALLS if self._is_named(error) else UNNAMED_CALLS
            if self._count >= enough and not self._given_up:
                since = "no call was answered before or since" if not self._answered else "no call was answered since"
                self._given_up = f"{self._count} calls in a row failed alike and {since}; the last: {error}"
                if field == "tools":
                    self._given_up += "; without native_tools (--native-tools) they stand in the system prompt"
                elif field:
                    self._given_up += (
                        f"; {field} is a field of each request, which request={{'{field}': None}} leaves out, on the "
                        f"command line --options '{{\"{field}\": null}}'"
                    )

    def _holds_for_all(self, error: EndpointError) -> bool:
        """Whether each other call fails by the same cause, whatever its conversation is."""
        if not error.lasting:
            return False
        if error.status in (401, 402):
            return True
        if _FILTERED.search(f"{error.code} {error.detail}"):
            return False
        if error.status in (400, 422):
            return not self._answered
        if error.status in (404, 405, 410):
            return not self._answered or self._names_model(error)
        if error.code == NO_COMPLETION:
            return not self._answered
        return error.status in (0, 200, 403) or 300 <= error.status < 400

    def _is_named(self, error: EndpointError) -> bool:
        """Whether a refused request says what is wrong with each of its kind; True of any other failure."""
        if error.status not in (400, 422):
            return True
        names = error.status == 400 and (self._names_model(error) or _OF_KEY.search(error.detail))
        return bool(names or self._field_in(error))

    def _field_in(self, error: EndpointError) -> str:
        """The field of the request that the server refuses by name; empty where it names none."""
        if "tools" in self._fields and error.status in (400, 404, 422) and _OF_TOOLS.search(error.detail):
            return "tools"
        if error.status not in (400, 422):
            return ""
        return next((name for name in self._fields if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", error.detail)), "")

    def _names_model(self, error: EndpointError) -> bool:
        named = self._model and re.search(rf"(?<!\w){re.escape(self._model)}(?!\w)", error.detail)
        return bool(named or "model" in error.code.lower() or _OF_MODEL.search(error.detail))


class Calls:
    """Calls a function for each item in daemon threads; the limit holds over all users of one instance.

    The threads end when nothing is left to call. A future that is cancelled before its call begins is never called.

    Args:
        limit: the most calls under way at once, those that have given their slot up left out.

    Raises:
        ValueError: a limit below 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"concurrency must be at least 1, got {limit}")
        self.limit = limit
        self._slots = threading.BoundedSemaphore(limit)
        self._replace: dict[int, Callable[[], None]] = {}  # by thread: starts one that takes over its items

    def start(self, function: Callable[[T], R], items: Sequence[T]) -> list[Future[R]]:
        """A future for each item, in order."""
        futures: list[Future[R]] = [Future() for _ in items]
        waiting = deque(zip(futures, items, strict=True))
        for _ in range(min(self.limit, len(items))):
            self._hire(function, waiting)
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

    def yield_slot(self) -> None:
        """Let another call begin in place of this thread's, which has nothing to do but to wait for a while."""
        replace = self._replace.pop(threading.get_ident(), None)
        if replace is not None:
            self._slots.release()
            replace()

    def _hire(self, function: Callable[[T], R], waiting: deque[tuple[Future[R], T]]) -> None:
        if waiting:
            threading.Thread(target=self._work, args=(function, waiting), daemon=True, name="rlvr-calls").start()

    def _work(self, function: Callable[[T], R], waiting: deque[tuple[Future[R], T]]) -> None:
        thread = threading.get_ident()
        while True:
            try:
                future, item = waiting.popleft()
            except IndexError:
                return
            self._slots.acquire()
            self._replace[thread] = lambda: self._hire(function, waiting)
            try:
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    result = function(item)
                except BaseException as error:  # it belongs to whoever waits for this future
                    future.set_exception(error)
                else:
                    future.set_result(result)
            finally:
                gave_slot_up = self._replace.pop(thread, None) is None
                if not gave_slot_up:
                    self._slots.release()
            if gave_slot_up:
                return
