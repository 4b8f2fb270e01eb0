"""Counts of a server's sessions, and ``/metrics``, which reports them to Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

# Upper bounds of the seconds that an item took, from its request to its answer.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FAULTS = frozenset({"env_error", "timeout", "internal"})


class SessionMetrics:
    """Counts of one `SessionTable`, which only grow.

    Attributes:
        items: how many, by operation and the code of their error; "" for those without.
        buckets: steps by how long they took, between the `BOUNDS`.
        seconds: that all steps took together.
        opened: sessions.
        episodes: that ended.
        cut: episodes that were under way when a drain's time was up.
    """

    def __init__(self) -> None:
        self.items: Counter[tuple[str, str]] = Counter()
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.opened = self.episodes = self.cut = 0

    def add(self, op: str, result: Mapping[str, Any], seconds: float) -> None:
        """Count an item that was answered."""
        error = result.get("error")
        self.items[op, error["code"] if error else ""] += 1
        if op == "step":
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds
            if error is None and (result["terminated"] or result["truncated"]):
                self.episodes += 1

    @property
    def faults(self) -> int:
        """Items that failed through no fault of the policy's or the client's."""
        return sum(count for (_, code), count in self.items.items() if code in FAULTS)


class _Collector:
    """The tables' counts as families of Prometheus."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._tables = tables

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        gauges: dict[str, tuple[str, Callable[[Any], int]]] = {
            "rlvr_sessions": ("sessions that are open", len),
            "rlvr_sessions_limit": ("sessions that there may be at once", lambda table: table.limit),
            "rlvr_episodes_under_way": ("episodes that began and have not ended", lambda table: table.playing),
            "rlvr_draining": ("1 while no new sessions are taken", lambda table: int(table.draining)),
        }
        counters: dict[str, tuple[str, Callable[[Any], int]]] = {
            "rlvr_sessions_opened": ("sessions that were opened", lambda table: table.metrics.opened),
            "rlvr_episodes": ("episodes that ended", lambda table: table.metrics.episodes),
            "rlvr_faults": ("items that failed by the environment or the server", lambda table: table.metrics.faults),
        }
        for kind, families in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, (text, read) in families.items():
                family = kind(name, text, labels=["env"])
                for env_id, table in self._tables.items():
                    family.add_metric([env_id], read(table))
                yield family
        items = CounterMetricFamily("rlvr_items", "items that were answered", labels=["env", "op", "code"])
        steps = HistogramMetricFamily("rlvr_step_seconds", "from a step's request to its answer", labels=["env"])
        for env_id, table in self._tables.items():
            for (op, code), count in sorted(table.metrics.items.items()):
                items.add_metric([env_id, op, code], count)
            totals = zip([*map(str, BOUNDS), "+Inf"], accumulate(table.metrics.buckets), strict=True)
            steps.add_metric([env_id], list(totals), table.metrics.seconds)
        yield items
        yield steps


def exposition(tables: Mapping[str, Any]) -> bytes:
    """The counts of some tables, by the ids of their environments, in Prometheus' text format.

    Raises:
        ImportError: prometheus_client is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError as error:
        raise ImportError('/metrics needs prometheus_client: pip install "rlvr[serve]"') from error
    registry: Any = CollectorRegistry()
    registry.register(_Collector(tables))
    return bytes(generate_latest(registry))
