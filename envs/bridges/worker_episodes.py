"""Foreign episodes that live in a worker process, each of one episode instance.

The instance names its episode by the number of its `Handle`; a fork, a snapshot and another process have none, and get
an episode of their own by playing it again. A digest of all that was said tells whether it became the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from rlvr.envs.core.seeding import digest
from rlvr.envs.tools.sessions import Handle

T = TypeVar("T")
MOST = 256


class KeptKey(NamedTuple):
    """How an episode is asked for: its number so far, the number that it is to have then, and its digest so far."""

    before: int | None
    after: int | None
    record: str


class KeptEpisodes(Generic[T]):
    """What a worker keeps: at most ``max_kept`` episodes, and the one unused for longest goes first.

    Args:
        drop: how an episode is let go.
        max_kept: how many are kept.
    """

    def __init__(self, drop: Callable[[T], Any] | None = None, max_kept: int = MOST) -> None:
        self._drop, self._max_kept = drop, max_kept
        self._episodes: OrderedDict[int, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._episodes)

    def take(self, number: int | None, again: Callable[[], tuple[T, str]], record: str) -> T:
        """The episode of a number, which nobody else can take then; else ``again`` plays it and digests what was said.

        Raises:
            RuntimeError: it was played again, and something else was said.
        """
        episode = None if number is None else self._episodes.pop(number, None)
        if episode is not None:
            return episode
        replayed, again_record = again()
        if again_record != record:
            if self._drop is not None:
                self._drop(replayed)
            raise RuntimeError("it does not repeat itself from a seed, so the episode cannot be brought back")
        return replayed

    def keep(self, number: int | None, episode: T) -> None:
        """Keep an episode under the number that it is to have."""
        if number is None:
            return
        self._episodes[number] = episode
        if len(self._episodes) > self._max_kept:
            _, oldest = self._episodes.popitem(last=False)
            if self._drop is not None:
                self._drop(oldest)


def recorded(before: str, *texts: object) -> str:
    """The digest after something more was said."""
    return f"{digest('record', before, *map(repr, texts)):032x}"


def named(live: Handle | None, after: Handle | None, record: str) -> list[Any]:
    """What a worker is given to find the episode of a state by."""
    return list(KeptKey(live.number if live else None, after.number if after else None, record))
