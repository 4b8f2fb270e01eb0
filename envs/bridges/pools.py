"""Foreign code runs elsewhere: each bridge has a pool of killable workers, and nothing foreign enters this process.

So a foreign package's global random state, its module-level caches, what it prints, what it downloads and what it
hangs on stay in a worker, which may write no file and is killed when it takes too long.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from rlvr.envs.rewards.workers import WorkerPool

MEMORY = 4 << 30  # address space of a worker, in bytes; numpy and matplotlib reserve much of it

_pools: dict[str, WorkerPool] = {}
_lock = threading.Lock()


def pool(module: str) -> WorkerPool:
    """The pool of this process whose workers have loaded ``rlvr.envs.bridges.<module>``."""
    with _lock:
        if module not in _pools:
            _pools[module] = WorkerPool(
                memory=MEMORY, preload=(f"rlvr.envs.bridges.{module}:warm",), slice_seconds=None
            )
        return _pools[module]


def call(module: str, function: str, arguments: list[Any], seconds: float) -> Any:
    """Run a function of ``rlvr.envs.bridges.<module>`` in a worker, on JSON-like arguments.

    Raises:
        WorkerTimeout: it took longer; the worker was killed.
        WorkerError: it raised, or the foreign package cannot be loaded.
    """
    return pool(module).call(f"rlvr.envs.bridges.{module}:{function}", arguments, seconds)


def _after_fork() -> None:
    """A forked child makes its own pools: the sockets belong to its parent."""
    global _lock
    for each in _pools.values():
        each._forget()
    _pools.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
