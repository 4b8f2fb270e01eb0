"""A plain environment of Gymnasium with texts, by its "module:Class": evaluated and trained without split and level."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.agents.evaluation import read_episodes
from rlvr.cli import main

SOURCE = """
import gymnasium as gym
from gymnasium.spaces import Text


class Echo(gym.Env):
    observation_space = action_space = Text(100)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.word = "".join(self.np_random.choice(list("abcdef"), 4))
        return f"Say {self.word}.", {}

    def step(self, action):
        return "", float(action == self.word), True, False, {}


class NoEnv:
    pass
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "plain_echo.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield "plain_echo"
    gym.registry.pop("Echo", None)
    sys.modules.pop("plain_echo", None)


def test_it_is_evaluated_on_tasks_that_differ(module, tmp_path, capsys):
    words = ["eval", "--env", f"{module}:Echo", "--agent", "empty", "--episodes", "5", "--out", "a.jsonl"]
    assert main([*words, "--allow-code", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["valid"], result["success"]) == (5, 0.0)
    episodes = read_episodes(tmp_path / "a.jsonl")
    assert len({episode.turns[0].observation for episode in episodes}) > 1
    assert {episode.split for episode in episodes} == {"test"}


def test_it_is_code_and_needs_leave(module, capsys):
    assert main(["eval", "--env", f"{module}:Echo", "--agent", "empty", "--episodes", "1"]) == 2
    assert "--allow-code" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["NoEnv", "Missing"])
def test_what_is_no_environment_is_refused(module, name, capsys):
    assert main(["eval", "--env", f"{module}:{name}", "--agent", "empty", "--allow-code"]) == 2
    assert name in capsys.readouterr().err


@pytest.mark.slow
def test_it_is_trained(module, tmp_path, capsys):
    pytest.importorskip("torch", reason="training needs torch")
    words = ["train", "--env.id", f"{module}:Echo", "--steps", "1", "--prompts", "2", "--group-size", "2"]
    assert (
        main([*words, "--out", "run", "--sampling.max-new-tokens", "4", "--evaluation.episodes", "2", "--allow-code"])
        == 0
    )
    assert (tmp_path / "run" / "metrics.jsonl").read_text()
