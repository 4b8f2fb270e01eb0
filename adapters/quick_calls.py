"""Calls of environments from an event loop: quick kinds in the loop itself, all others in threads.

A change of threads costs about 0.06 ms of CPU, many times a step of an environment that only computes. An environment
that waits (a sandbox, a judge) must not hold up the loop, on which other episodes wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

BLOCKING: Final = 0.02  # seconds; a call that took longer is no quick one
OFTEN: Final = 8  # quick calls in a row, in threads, before the loop makes them


@dataclass(slots=True)
class _Kind:
    """How the calls of one kind went: quick ones in a row, and how many of them the loop asks for."""

    quick: int = 0
    needed: int = OFTEN

    def took(self, seconds: float, *, in_loop: bool) -> None:
        if seconds <= BLOCKING:
            self.quick += 1
            return
        self.quick = 0
        if in_loop:  # one that is seldom slow comes back later each time
            self.needed *= 2


_kinds: dict[str, _Kind] = {}


async def call(kind: str, function: Callable[[], T]) -> T:
    """What the function returns, or raises.

    Its kind begins in threads. After `OFTEN` calls in a row of at most `BLOCKING` seconds each, the loop makes them.
    One that holds it up for longer sends the kind back to threads, and doubles how many quick ones are asked for.

    Args:
        kind: what takes alike: the environment's id, and what is done with it.
        function: may start an event loop of its own, as ``asyncio.run`` does.
    """
    if (known := _kinds.get(kind)) is None:
        known = _kinds.setdefault(kind, _Kind())
    if known.quick < known.needed:
        result, seconds = await asyncio.to_thread(_timed, function)
        known.took(seconds, in_loop=False)
        return result
    loop, start = asyncio.get_running_loop(), time.perf_counter()
    asyncio._set_running_loop(None)  # as in a thread: an environment may run a loop of its own
    try:
        return function()
    finally:
        asyncio._set_running_loop(loop)
        known.took(time.perf_counter() - start, in_loop=True)


def _timed(function: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    return function(), time.perf_counter() - start
