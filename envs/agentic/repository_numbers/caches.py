"""A cache with a size and an age, on a clock that is handed in."""


class Cache:
    """Values by key: of at most size keys, each for less than lifetime seconds after it was put in.

    Where there is no room, the key goes whose last use, by get or put, is longest ago.
    """

    def __init__(self, size: int, lifetime: int) -> None:
        if size < 1:
            raise ValueError("a cache must hold at least one value")
        self.size = size
        self.lifetime = lifetime
        self.hits = 0
        self.misses = 0
        self._values: dict[str, tuple[int, str]] = {}

    def put(self, key: str, value: str, now: int) -> None:
        """Store a value; a key that is there is renewed."""
        self._values.pop(key, None)
        self.expire(now)
        while len(self._values) >= self.size:
            oldest = next(iter(self._values))
            del self._values[oldest]
        self._values[key] = (now, value)

    def get(self, key: str, now: int) -> str | None:
        """The value of a key, or None; a hit makes the key the last used one, and does not make it younger."""
        entry = self._values.pop(key, None)
        if entry is None or now - entry[0] >= self.lifetime:
            self.misses += 1
            return None
        self._values[key] = entry
        self.hits += 1
        return entry[1]

    def expire(self, now: int) -> int:
        """Drop all that is too old; how many there were."""
        old = [key for key, (since, _) in self._values.items() if now - since >= self.lifetime]
        for key in old:
            del self._values[key]
        return len(old)

    def keys(self) -> list[str]:
        """The keys, the one whose last use is longest ago first."""
        return list(self._values)

    def hit_rate(self) -> int:
        """The hits in percent of all gets, rounded down; 0 before the first."""
        asked = self.hits + self.misses
        return 100 * self.hits // asked if asked > 0 else 0


MODULE = ("caches", "store", "memory")
ALIASES = {"Cache": ("AgingCache", "ValueCache")}
SCENARIOS = (
    "cache = Cache(<2..4>, 50)\nfor time, key in enumerate('abcde'):\n    cache.put(key, key.upper(), time)\n"
    "cache.keys()",
    "cache = Cache(3, 50)\nfor time, key in enumerate('abc'):\n    cache.put(key, key.upper(), time)\n"
    "cache.get('<a|b|c>', 5)\ncache.put('d', 'D', 6)\ncache.keys()",
    "cache = Cache(3, <5..9>)\ncache.put('a', 'A', 0)\n[cache.get('a', time) for time in range(3, 12)]",
    "cache = Cache(3, 10)\ncache.put('a', '<w>', <0..3>)\ncache.put('b', '<w>', 4)\n"
    "(cache.expire(<9..16>), cache.keys())",
    "cache = Cache(2, 10)\ncache.put('a', '<w>', 0)\ncache.put('b', '<w>', <1..5>)\ncache.put('a', '<w>', 6)\n"
    "cache.put('c', '<w>', <7..9>)\n(cache.keys(), cache.get('a', <11..17>), cache.get('b', 8))",
    "cache = Cache(2, 10)\ncache.put('a', 'x', 0)\nfor key in <5*w> + ['a'] * <1..4>:\n    cache.get(key, 3)\n"
    "(cache.hits, cache.misses, cache.hit_rate())",
    "Cache(<-1..2>, <5..9>).hit_rate()",
    "cache = Cache(2, 8)\ncache.put('a', 'x', 0)\ncache.get('a', <3..7>)\ncache.get('a', <8..11>)",
)
