"""Clocks of a run: what a step took, and what of it was sampling."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Seconds since it was made or last read."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def read(self) -> dict[str, float]:
        """Wall and CPU seconds, and the peak of the resident memory in MiB."""
        wall, cpu = time.perf_counter(), time.process_time()
        reading = {
            "seconds": wall - self._wall,
            "cpu_seconds": cpu - self._cpu,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        self._wall, self._cpu = wall, cpu
        return reading


class Stopwatch:
    """Wall seconds spent in a function."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def restart(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time is added up."""

        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += time.perf_counter() - start

        return call
