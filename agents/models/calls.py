"""Many calls at once in threads, with a limit: for agents that wait for a server."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
