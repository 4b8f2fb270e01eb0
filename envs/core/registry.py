"""The ids: how an environment gets one, which there are, and what is inside of an environment that was made."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym

NAMESPACE = "rlvr"
ENTRY_POINT = "rlvr.envs.core.text_env:TextEnv"
VECTOR_ENTRY_POINT = "rlvr.envs.core.registry:make_vector"
TEMPLATES: set[str] = set()  # ids that cannot be made without arguments, such as a mixture's parts: not listed
# What other rooms add, as "module:name", so that this one names none of them; see ``hook``.
_hooks: dict[str, str] = {}


def hook(name: str, address: str) -> None:
    """Let the core use what another room has, by its "module:name"; it is imported when it is first needed.

    ``vector`` is called by ``gym.make_vec``; ``tools`` is called with a task and the arguments of ``TextEnv(tools=…)``
    and returns a task.
    """
    _hooks[name] = address


def hooked(name: str) -> Callable[..., Any]:
    """What was hooked in under a name.

    Raises:
        LookupError: nothing was.
    """
    if name not in _hooks:
        raise LookupError(f"nothing is hooked in as {name!r}: import rlvr.envs, or call registry.hook")
    module, _, attribute = _hooks[name].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found


def make_vector(*args: Any, **settings: Any) -> Any:
    """The vector entry point of every id."""
    return hooked("vector")(*args, **settings)


def register(env_id: str, task: str, **settings: Any) -> None:
    """Register a task, given as "module:Class", under an id such as ``rlvr/MyTask-v0``.

    ``settings`` are defaults that ``gym.make(env_id, …)`` may override: ``split``, ``level``, ``max_turns`` and
    what the task's own constructor takes. ``gym.make_vec(env_id, num_envs, backend=…)`` makes a ``VectorEnv``.
    """
    gym.register(env_id, ENTRY_POINT, vector_entry_point=VECTOR_ENTRY_POINT, kwargs={"task": task, **settings})


def register_template(env_id: str, entry_point: str, **settings: Any) -> None:
    """Register an id that needs arguments: it can be made, and is not one of those that are listed and tested.

    ``settings`` are defaults of the entry point's arguments.
    """
    gym.register(env_id, entry_point, kwargs=settings)
    TEMPLATES.add(env_id)


def list_envs(contains: str = "") -> list[str]:
    """The ids registered here or by a plug-in whose name contains a text, whatever the case; sorted."""
    ids = (spec.id for spec in gym.registry.values() if spec.namespace == NAMESPACE or spec.entry_point == ENTRY_POINT)
    return sorted(env_id for env_id in ids if contains.lower() in env_id.lower() and env_id not in TEMPLATES)


def without_checkers(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The environment without the wrappers that ``gym.make`` puts around it, which only check how it is used."""
    while isinstance(env, gym.wrappers.PassiveEnvChecker | gym.wrappers.OrderEnforcing):
        env = env.env
    return env


def size_of(env: gym.Env[Any, Any]) -> int | None:
    """How many tasks an environment's table has; None where tasks are generated without end."""
    size: int | None = getattr(env.unwrapped, "size", None)
    return size


def splits_of(env: gym.Env[Any, Any]) -> tuple[str, ...]:
    """The splits that an environment's ``reset`` takes: a table is read for one; ``("train",)`` where it knows none."""
    inner = env.unwrapped
    task, split = getattr(inner, "task", None), getattr(inner, "split", None)
    if getattr(task, "size", None) is not None and split is not None:
        return (split,)
    return tuple(getattr(task, "splits", None) or ("train",))
