"""Limits on how often something may be done, on a clock that is handed in."""

from rlvr.envs.agentic.repository_numbers.rounding import clamp, round_up


class TokenBucket:
    """A bucket of tokens that is full at first and gets rate tokens a second, up to its capacity."""

    def __init__(self, capacity: int, rate: int) -> None:
        self.capacity = capacity
        self.rate = rate
        self._tokens = capacity
        self._since = 0

    def level(self, now: int) -> int:
        """How many tokens are in it."""
        self._tokens = clamp(self._tokens + (now - self._since) * self.rate, 0, self.capacity)
        self._since = now
        return self._tokens

    def take(self, count: int, now: int) -> bool:
        """Take tokens out if there are so many; whether there were. Else none is taken."""
        if self.level(now) < count:
            return False
        self._tokens -= count
        return True

    def wait(self, count: int, now: int) -> int:
        """The seconds until there are so many tokens; ValueError if there never will be."""
        if count > self.capacity:
            raise ValueError("more than the bucket holds")
        return max(0, round_up(count - self.level(now), self.rate))


class SlidingWindow:
    """At most limit calls of a name in any window of so many seconds."""

    def __init__(self, limit: int, seconds: int) -> None:
        self.limit = limit
        self.seconds = seconds
        self._calls: dict[str, list[int]] = {}

    def _recent(self, name: str, now: int) -> list[int]:
        recent = [time for time in self._calls.get(name, []) if time > now - self.seconds]
        self._calls[name] = recent
        return recent

    def allow(self, name: str, now: int) -> bool:
        """Whether a call may be made now; if so it is counted."""
        recent = self._recent(name, now)
        if len(recent) >= self.limit:
            return False
        recent.append(now)
        return True

    def left(self, name: str, now: int) -> int:
        """How many more calls may be made now."""
        return self.limit - len(self._recent(name, now))

    def retry_after(self, name: str, now: int) -> int:
        """The seconds until the next call may be made; 0 if it may be made now."""
        recent = self._recent(name, now)
        if len(recent) < self.limit:
            return 0
        return recent[0] + self.seconds - now


def backoff(attempt: int, base: int, longest: int) -> int:
    """The seconds to wait after a failed attempt, from 1: base, doubled each time, but no longer than longest."""
    if attempt < 1:
        raise ValueError("attempts count from 1")
    seconds = base
    for _ in range(attempt - 1):
        seconds = min(2 * seconds, longest)
    return min(seconds, longest)


MODULE = ("throttles", "rate_limits", "pacing")
ALIASES = {"TokenBucket": ("Bucket",), "SlidingWindow": ("CallWindow",), "backoff": ("retry_delay",)}
SCENARIOS = (
    "bucket = TokenBucket(<5..8>, <1..2>)\n[bucket.take(<2..3>, time) for time in (0, 0, 1, 1, 2, 5, 9)]",
    "bucket = TokenBucket(<5..8>, <1..3>)\nbucket.take(5, 0)\n[bucket.level(time) for time in (0, 1, 2, 9)]",
    "bucket = TokenBucket(6, <1..3>)\nbucket.take(<4..6>, 0)\n(bucket.wait(<3..6>, 0), bucket.wait(<3..6>, 1))",
    "TokenBucket(4, 2).wait(<3..6>, 0)",
    "window = SlidingWindow(<2..3>, <4..6>)\n[window.allow('a', time) for time in (0, 1, 2, 4, 5, 6, 7, 11)]",
    "window = SlidingWindow(2, 5)\n[window.allow(name, 1) for name in '<aab|aba|abb>' + 'ab']",
    "window = SlidingWindow(<2..4>, 5)\nwindow.allow('a', 0)\nwindow.allow('a', <1..3>)\n"
    "[window.left('a', time) for time in (3, 4, 5, 6, 9)]",
    "window = SlidingWindow(2, <5..8>)\nwindow.allow('a', 0)\nwindow.allow('a', <1..3>)\n"
    "[window.retry_after(name, time) for name in 'ab' for time in (3, 4, 9)]",
    "[backoff(attempt, <1..3>, <10..30>) for attempt in range(1, 7)]",
    "backoff(<-1..2>, <1..3>, 9)",
)
