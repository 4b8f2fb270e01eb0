"""Foreign code runs elsewhere: each bridge has a pool of killable workers, and nothing foreign enters this process.

So a foreign package's global random state, its module-level caches, what it prints, what it downloads and what it
hangs on stay in a worker, which may write no file and is killed when it takes too long.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from rlvr.envs.core.verdict import Status, Verdict, provoked_verdict, wrong
from rlvr.envs.rewards.workers import WorkerError, WorkerFailed, WorkerPool, WorkerSpent, WorkerTimeout

MEMORY = 4 << 30  # address space of a worker, in bytes; numpy and matplotlib reserve much of it

_pools: dict[str, WorkerPool] = {}
_lock = threading.Lock()


def pool(module: str) -> WorkerPool:
    """The pool of this process whose workers have loaded ``rlvr.envs.bridges.workers.<module>``."""
    with _lock:
        if module not in _pools:
            _pools[module] = WorkerPool(
                memory=MEMORY, preload=(f"rlvr.envs.bridges.workers.{module}:warm",), slice_seconds=None
            )
        return _pools[module]


def call(module: str, function: str, arguments: list[Any], seconds: float) -> Any:
    """Run a function of ``rlvr.envs.bridges.workers.<module>`` in a worker, on JSON-like arguments.

    Raises:
        WorkerSpent: it took more processor time or memory; the worker was killed.
        WorkerTimeout: it waited, or the machine is overloaded.
        WorkerError: it raised, or the foreign package cannot be loaded.
    """
    return pool(module).call(f"rlvr.envs.bridges.workers.{module}:{function}", arguments, seconds)


def verdict_on_fault(
    error: WorkerError, control: Callable[[], object], answer: str | None = None, status: Status = "env_error"
) -> Verdict:
    """The verdict where foreign code gave none: ``wrong`` if the action alone made it fail or run out of its limits.

    Args:
        error: what the call raised.
        control: the same call without the action, or with the reference for it.
        status: of a fault that is neither time nor memory.
    """
    if not isinstance(error, WorkerSpent | WorkerFailed):  # the machine's, whatever the action
        return Verdict(0.0, "timeout" if isinstance(error, WorkerTimeout) else status, answer, str(error)[:300])
    try:
        control()
    except WorkerError as alone:
        fault: Status = "timeout" if isinstance(error, WorkerSpent) else status
        return Verdict(0.0, fault, answer, f"also without the action: {alone}"[:300])
    if isinstance(error, WorkerSpent):
        return wrong(answer, f"the action cannot be scored: {error}"[:300])
    return provoked_verdict("the foreign environment", error, answer)


def _after_fork() -> None:
    """A forked child makes its own pools: the sockets belong to its parent."""
    global _lock
    for each in _pools.values():
        each._forget()
    _pools.clear()
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
