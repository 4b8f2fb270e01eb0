"""A gateway: which calls come through, to where, and from the cache."""

from rlvr.envs.agentic.repository_numbers.caches import Cache
from rlvr.envs.agentic.repository_numbers.throttles import SlidingWindow, TokenBucket, backoff
from rlvr.envs.agentic.repository_texts.matching import matches


class Gateway:
    """Routes by pattern, a limit of calls for each caller, a bucket for all, and a cache of answers.

    The bucket gets one token a second; the cache holds three answers, each for less than 10 seconds.
    """

    def __init__(self, limit: int, seconds: int, capacity: int) -> None:
        self._routes: list[tuple[str, str]] = []
        self._window = SlidingWindow(limit, seconds)
        self._bucket = TokenBucket(capacity, 1)
        self._cache = Cache(3, 10)
        self._failures: dict[str, int] = {}

    def route(self, pattern: str, service: str) -> None:
        """Send paths of a pattern to a service; the pattern with the most signs wins, of equal ones the first."""
        self._routes.append((pattern, service))

    def service_of(self, path: str) -> str | None:
        """The service of a path, or None."""
        fitting = [route for route in self._routes if matches(route[0], path)]
        return max(fitting, key=lambda route: len(route[0]))[1] if fitting else None

    def call(self, caller: str, path: str, now: int) -> str:
        """What becomes of a call: "cached", the service's name, "unknown", "slow down 3" or "busy".

        Answers from the cache use up nothing; an unknown path does not count, either.
        """
        if self._cache.get(path, now) is not None:
            return "cached"
        service = self.service_of(path)
        if service is None:
            return "unknown"
        if not self._window.allow(caller, now):
            return f"slow down {self._window.retry_after(caller, now)}"
        if not self._bucket.take(1, now):
            return "busy"
        self._cache.put(path, service, now)
        return service

    def failed(self, service: str) -> int:
        """Note that a service failed again; the seconds to leave it alone: 2, 4, 8, at most 30."""
        self._failures[service] = self._failures.get(service, 0) + 1
        return backoff(self._failures[service], 2, 30)

    def recovered(self, service: str) -> int:
        """Note that a service works; how often it had failed in a row."""
        return self._failures.pop(service, 0)

    def report(self) -> str:
        """The hits of the cache in percent, as "40 % of 5"."""
        return f"{self._cache.hit_rate()} % of {self._cache.hits + self._cache.misses}"


MODULE = ("gateways", "gateway", "proxy")
ALIASES = {"Gateway": ("FrontDoor", "Proxy")}
SCENARIOS = (
    "gate = Gateway(9, 5, 9)\ngate.route('/a/*', 'one')\ngate.route('/a/<b|c>*', 'two')\ngate.route('*', 'all')\n"
    "[gate.service_of(path) for path in ('/a/b', '/a/c', '/a/d', '/<w>')]",
    "gate = Gateway(<1..3>, 5, 9)\ngate.route('*', 'one')\n"
    "[gate.call('ann', '/' + word, time) for time, word in enumerate(<6*w>)]",
    "gate = Gateway(9, 5, <1..3>)\ngate.route('*', 'one')\n[gate.call('ann', '/' + word, 0) for word in <4*w>]",
    "gate = Gateway(9, 5, 9)\ngate.route('/x', 'one')\n"
    "[gate.call('ann', '/<x|y>', time) for time in (0, <1..9>, 10, <11..15>)] + [gate.report()]",
    "gate = Gateway(<1..2>, <4..8>, 9)\ngate.route('/*', 'one')\n"
    "[gate.call(name, path, 2) for name, path in (('a', '/1'), ('b', '/2'), ('a', '/3'), ('a', '/1'), "
    "('<a|b>', '/5'))]",
    "gate = Gateway(9, 5, 9)\n"
    "[gate.failed(name) for name in '<aab|aba|aaa>aaa'] + [gate.recovered('<a|b|c>'), gate.failed('a')]",
    "gate = Gateway(2, 5, 9)\ngate.route('/?<|a>', 'one')\n"
    "[gate.call('a', path, 0) for path in ('/b', '/ba', '/b', '/<c|ca>')]",
)
