"""A foreign scorer that runs out because of an action gives a wrong verdict; one that runs out anyway gives none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.envs.bridges import pools, skyrl_gym
from rlvr.envs.bridges.skyrl_gym import SkyRLGym, SkyRLState
from rlvr.envs.rewards.workers import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the pool needs POSIX processes")

# A package made up in the form of theirs, in the real workers.
PACKAGE = """
class Env:
    def init(self, prompt):
        self.burns = prompt[0]["content"] == "burn"
    def step(self, action):
        while self.burns or "burn" in action:
            pass
        return {"reward": 1.0, "done": True, "observations": []}
def make(name, env_config, extras):
    return Env()
"""


@pytest.fixture
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkyRLGym]:
    (tmp_path / "skyrl_gym.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(skyrl_gym, "SECONDS", 0.5)
    pool = WorkerPool(size=1, preload=("rlvr.envs.bridges.workers.skyrl_gym:warm",), slice_seconds=None)
    monkeypatch.setitem(pools._pools, skyrl_gym.WORKER, pool)
    yield SkyRLGym(name="gsm8k")
    pool.close()


def test_an_action_on_which_the_scorer_runs_out_is_wrong(bridge: SkyRLGym) -> None:
    state = SkyRLState("2 + 2?", "4")
    assert bridge.apply(state, bridge.solve(state)).verdict.success  # the control
    verdict = bridge.apply(state, "burn #### 4").verdict
    assert (verdict.status, verdict.reward, verdict.valid) == ("wrong", 0.0, True)
    assert "processor time" in verdict.reason


def test_a_scorer_that_runs_out_on_its_reference_is_our_fault(bridge: SkyRLGym) -> None:
    verdict = bridge.apply(SkyRLState("burn", "4"), "#### 4").verdict
    assert (verdict.status, verdict.valid) == ("timeout", False)
    assert "also without the action" in verdict.reason
