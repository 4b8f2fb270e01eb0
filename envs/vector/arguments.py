"""Arguments: what a user gives a vector environment, checked."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.registry import without_checkers
from rlvr.envs.vector.env_slot import Env, EnvSlot, Make
from rlvr.envs.vector.inline import Backend

# From the slots, the number of workers and the timeout to where the environments run.
BackendMaker = Callable[[list[EnvSlot], int, float | None], Backend]
BACKENDS = ("sync", "thread", "process", "asyncio")
MOST_THREADS = 256
MOST_PROCESSES = 32  # unless there are more processors: an environment with a process of its own harms no other
DEFAULT_SECONDS = 120.0
Timeout = float | Literal["default"] | None


def checked_mask(mask: Any, num_envs: int) -> npt.NDArray[np.bool_]:
    """``options["reset_mask"]``: which environments to reset, ``[num_envs]``, at least one.

    Raises:
        TypeError: it is no array of booleans.
        ValueError: its shape is another, or it names none.
    """
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must be a numpy array of dtype bool, got {mask!r}")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(f"options['reset_mask'] must have shape ({num_envs},) and a True in it, got {mask!r}")
    return mask


def checked_mode(mode: str | AutoresetMode) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(each.value for each in AutoresetMode)
        raise ValueError(f"autoreset_mode must be one of {allowed}; got {mode!r}") from None


def seconds_or_default(backend: str | BackendMaker, timeout: Timeout) -> float | None:
    """The seconds that a step may take; the ``sync`` back end cannot interrupt one."""
    if timeout == "default":
        return None if backend == "sync" else DEFAULT_SECONDS
    return timeout


def checked_workers(backend: str | BackendMaker, workers: int | None, timeout: float | None, num_envs: int) -> int:
    """How many threads or processes there are, of settings that make sense together."""
    if not callable(backend) and backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if workers is not None and operator.index(workers) < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if timeout is not None and (isinstance(timeout, str) or not 0 < timeout < math.inf):
        raise ValueError(f"timeout must be a positive number of seconds, or None; got {timeout!r}")
    if backend == "sync" and (workers is not None or timeout is not None):
        raise ValueError(
            "the sync back end has no workers, and cannot interrupt a step: take thread, process or asyncio"
        )
    if backend == "process" and not hasattr(os, "fork"):
        raise ValueError("the process back end needs a POSIX system: take thread or asyncio")
    limit = MOST_THREADS
    if backend == "process":
        limit = max(_processors(), MOST_PROCESSES)
    elif callable(backend):
        limit = _processors()
    return min(num_envs, limit if workers is None else workers)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def makers_of(env: str | Make | Sequence[Make], num_envs: int | None, settings: Mapping[str, Any] | None) -> list[Make]:
    if not isinstance(env, str) and settings:
        raise ValueError("env_settings are for an environment given by its id")
    if isinstance(env, str) or callable(env):
        if num_envs is None or operator.index(num_envs) < 1:
            raise ValueError(f"num_envs must be a whole number from 1, got {num_envs!r}")
        make = partial(make_env, env, **(settings or {})) if isinstance(env, str) else env
        return [partial(_bare, make)] * num_envs
    makers = list(env)
    if not makers or num_envs not in (None, len(makers)) or not all(callable(make) for make in makers):
        raise ValueError(f"{len(makers)} functions cannot make {num_envs} environments")
    return [partial(_bare, make) for make in makers]


def _bare(make: Callable[[], Env]) -> Env:
    """An environment without the wrappers that only check what is checked here as well."""
    env = make()
    inner = without_checkers(env)
    return inner if inner is inner.unwrapped else env


def sharing(first: Env, makers: list[Make]) -> list[Make]:
    """Makers that share what is costly to read, such as the rows of a table, where the environment can."""
    spawn = getattr(first, "spawn", None)
    return [spawn] * len(makers) if callable(spawn) and all(make is makers[0] for make in makers) else makers
