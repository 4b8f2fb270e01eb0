"""The law of docs/verification.md: whatever the policy's own action provokes gets a valid verdict.

One property over every registered id, every tool kit and every native tier of the sandbox: after any action, hostile
as `benchmarks/law.py` makes them, the verdict is valid and nothing is raised.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import gymnasium as gym
import pytest

from rlvr.envs.tools import ToolFault

from .architecture import ROOT
from .test_every_env import ENVS

ACTIONS = 40


@pytest.fixture(scope="module")
def law() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("law")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ENVS)
def test_no_action_makes_an_episode_of_an_id_invalid(env_id: str, law: ModuleType) -> None:
    env = gym.make(env_id).unwrapped
    try:
        played, failures = law.play(env_id, env, 6 if env_id in law.PROGRAMS else ACTIONS, seed=1)
    finally:
        env.close()
    assert played
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize("kit", ["functions", "calculator", "search", "sqlite", "mcp", "mcp, shared"])
def test_no_action_makes_an_episode_with_a_kit_invalid(kit: str, law: ModuleType, tmp_path) -> None:
    if "mcp" in kit:
        pytest.importorskip("mcp")
    env = law.with_kit(law.kits(tmp_path)[kit]())
    try:
        played, failures = law.play(
            kit, env, ACTIONS // (4 if kit in ("functions", "mcp", "mcp, shared") else 1), seed=1
        )
    finally:
        env.close()
    assert played
    assert failures == []


@pytest.mark.slow
@pytest.mark.sandbox
@pytest.mark.parametrize("tier", ["T3", "T2"])
@pytest.mark.parametrize(
    "name", ["python", "shell", "workspace", "rlvr/MBPP-v0", "rlvr/CodeTests-v0", "rlvr/Terminal-v0"]
)
def test_no_program_makes_its_episode_invalid_on_a_tier(name: str, tier: str, law: ModuleType) -> None:
    if tier not in law.tiers():
        pytest.skip(f"{tier} does not hold here")
    with law.on_tier(tier):
        env = gym.make(name).unwrapped if "/" in name else law.with_kit(law.KITS[name]())
        try:
            played, failures = law.play(f"{name} on {tier}", env, 4 if "Terminal" in name else 20, seed=2)
        finally:
            env.close()
    assert played
    assert failures == []


def test_a_fault_is_seen(law: ModuleType) -> None:
    """What would have happened whatever was written is in the list, so that an empty list says something."""

    def gone(word: str) -> str:
        """Have no backend.

        Args:
            word: any.
        """
        raise ToolFault("its server is gone")

    _, failures = law.play("gone", law.with_kit(law.Functions(gone)), 60, seed=0)
    assert failures
    assert {verdict for _, _, verdict in failures} == {"env_error: the tool gone: its server is gone"}
