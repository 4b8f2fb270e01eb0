"""A task's content, which decides its split, depends on values alone: a class can be renamed."""

from __future__ import annotations

import sys
from dataclasses import is_dataclass

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.core.task import Task
from rlvr.envs.sandbox import SandboxUnavailable

ENVS = [i for i in rlvr.list_envs() if not i.startswith(PREFIXES)]


def contents(env_id: str) -> list[str]:
    env = gym.make(env_id).unwrapped
    found = []
    for level in range(1, env.task.levels + 1):
        env.reset(seed=3, options={"level": level, "index": 0})
        found.append(env.content)
    return found


def records() -> list[type]:
    """Every class of ours whose repr names it."""
    modules = [module for name, module in sys.modules.items() if name.startswith("rlvr.envs")]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    plain = [kind for kind in found if is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))]
    return [kind for kind in plain if kind.__module__.startswith("rlvr.envs") and not issubclass(kind, Task)]


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted({gym.spec(i).kwargs["task"].split(".")[2] for i in ENVS}))
def test_no_content_depends_on_the_name_of_a_class(family):
    ids = [i for i in ENVS if gym.spec(i).kwargs["task"].split(".")[2] == family]
    ready = {}
    for env_id in ids:
        try:
            ready[env_id] = contents(env_id)
        except SandboxUnavailable:  # on a machine where no sandbox holds
            continue
    renamed = records()
    assert len(renamed) > 5
    names = [(kind, kind.__name__, kind.__qualname__) for kind in renamed]
    try:
        for kind, _, _ in names:
            kind.__name__ = kind.__qualname__ = "Renamed"
        for env_id, before in ready.items():
            assert contents(env_id) == before, env_id
    finally:
        for kind, name, qualified in names:
            kind.__name__, kind.__qualname__ = name, qualified
