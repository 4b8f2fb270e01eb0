"""A rollout in a thread of its own: requests come while others are played, and each episode goes on alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout


class RequestQueue:
    """An iterator of requests for `Rollout.stream`, oldest first; a future where there is none at the moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._waiting: deque[RolloutRequest] = deque()
        self._more: Future[None] | None = None  # whoever asked too early waits for it
        self._closed = False

    def put(self, requests: Sequence[RolloutRequest]) -> None:
        """Add requests behind the others."""
        with self._lock:
            self._waiting.extend(requests)
            more, self._more = self._more, None
        # Outside of the lock: whoever wakes asks at once.
        if more is not None:
            more.set_result(None)

    def close(self) -> None:
        """No more will come, and what waits is not played."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            more, self._more = self._more, None
        if more is not None:
            more.set_result(None)

    def __iter__(self) -> Iterator[RolloutRequest | Future[None]]:
        return self

    def __next__(self) -> RolloutRequest | Future[None]:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                raise StopIteration
            # One future for all who ask too early.
            if self._more is None:
                self._more = Future()
            return self._more


class BackgroundRollout:
    """Plays requests in the order in which they were submitted, as many at once as the rollout takes.

    Called with requests it returns their episodes, as a `Rollout` does; those that were submitted before are not
    played twice.
    """

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._queue = RequestQueue()
        self._order: list[RolloutRequest] = []  # as they were queued
        self._episodes: dict[RolloutRequest, Future[Episode]] = {}
        self._failure: BaseException | None = None
        self._lock = threading.Lock()  # guards the three above
        self._thread: threading.Thread | None = None

    def submit(self, requests: Sequence[RolloutRequest]) -> None:
        # Not in the constructor: a run that fails before its first step leaves no thread.
        if self._thread is None:
            self._thread = threading.Thread(target=self._play, daemon=True, name="rlvr-rollout")
            self._thread.start()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            # A step is submitted ahead, and once more by whoever waits for it.
            new = [request for request in requests if request not in self._episodes]
            for request in new:
                self._episodes[request] = Future()
            self._order += new
            self._queue.put(new)

    def __call__(self, requests: Sequence[RolloutRequest | Episode]) -> list[Episode]:
        """Wait for the episodes of these requests, in their order; what ends the rollout is raised here.

        Raises:
            TypeError: a paused episode, which only a rollout that waits can continue.
        """
        asked: list[RolloutRequest] = []
        for request in requests:
            if isinstance(request, Episode):
                raise TypeError("a paused episode cannot be continued in the background")
            asked.append(request)
        self.submit(asked)
        episodes = [self._episodes[request].result() for request in asked]
        # Handed over: the same request may be played again in a later epoch.
        with self._lock:
            for request in asked:
                del self._episodes[request]
        return episodes

    def close(self) -> None:
        """Begin nothing more; episodes under way come to their end unheard."""
        self._queue.close()

    def _play(self) -> None:
        try:
            for index, episode in self._rollout.stream(self._queue):
                with self._lock:
                    future = self._episodes.get(self._order[index])
                if future is not None:
                    future.set_result(episode)
        except BaseException as error:  # it belongs to whoever waits for an episode
            with self._lock:
                self._failure = error
                waiting = [future for future in self._episodes.values() if not future.done()]
            for future in waiting:
                future.set_exception(error)
