"""A plain environment of Gymnasium, named by its module: trained, killed, and gone on with in the same bytes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .runs import RunServer, differences

SOURCE = """
import gymnasium as gym
from gymnasium.spaces import Text


class Echo(gym.Env):
    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.word = str(self.np_random.choice(["ab", "cd", "ef"]))
        return f"Say {self.word}.", {}

    def step(self, action):
        return "over", float(self.word[0] in action), True, False, {}


def make_echo():
    return Echo()


gym.register("own/Echo-v0", Echo)
"""
ACT = "rlvr.agents.models.transformers:TransformersAgent.act"


@pytest.mark.slow
def test_it_is_trained_and_a_killed_run_ends_in_the_same_bytes(tmp_path: Path, write_config):
    (tmp_path / "own_echo.py").write_text(SOURCE)
    server = RunServer(tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path), "RLVR_ALLOW_CODE": "1"})
    try:
        for name in ("Echo", "make_echo", "own/Echo-v0"):
            settings = {"id": f"own_echo:{name}", "system": False}
            warm = {"steps": 0, "mixed_steps": 0}  # nobody knows an expert of it
            config = write_config(env=settings, warm_start=warm, sampling={"max_new_tokens": 6}, steps=3)
            whole, broken = tmp_path / f"whole-{name[-4:]}", tmp_path / f"broken-{name[-4:]}"
            ended = server.run(["train", "--config", config, "--out", whole])
            assert ended.status == 0, ended.output
            assert "held-out seeds" in ended.output
            assert "held-out tasks" not in ended.output
            if name != "Echo":
                continue
            killed = server.run(["train", "--config", config, "--out", broken], (ACT, 6, "kill"))
            assert killed.status == -signal.SIGKILL, killed.output
            resumed = server.run(["train", "--resume", "--out", broken])
            assert resumed.status == 0, resumed.output
            assert differences(whole, broken) == []
    finally:
        server.close()
