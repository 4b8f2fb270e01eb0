"""Branches of an episode are trained on: sequences of their own, with the advantage of their episode."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.adapters.serving.policy_endpoint import HarnessConnection, HarnessEnv
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, small

ID = "test/Branching-v0"


def ask(connection: HarnessConnection, text: str) -> str:
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": f"Bearer {connection.api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{connection.base_url}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.loads(response.read())["choices"][0]["message"]["content"])


def harness(connection: HarnessConnection) -> float:
    """A main conversation and a helper or two, which are rewarded together."""
    replies = [ask(connection, text) for text in ("Lead.", "Help.", "Help more.")]
    return len({reply[:1] for reply in replies}) / 3


def make(split: str | None = None, level: int = 1, **_: Any) -> HarnessEnv:
    return HarnessEnv(harness)


@pytest.fixture(scope="module", autouse=True)
def registered():
    gym.register(ID, make, disable_env_checker=True, order_enforce=False)
    yield
    del gym.registry[ID]


def trainer(out: Path, **changes: Any) -> Trainer:
    options = {"env": {"id": ID}, "warm_start": {"steps": 0, "mixed_steps": 0}, "evaluation": {"episodes": 1}}
    return Trainer(small(out, **options, prompts=2, group_size=3, **changes), Callback())


def test_each_branch_is_a_sequence_with_the_advantage_of_its_episode(tmp_path: Path):
    run = trainer(tmp_path / "run", steps=1)
    try:
        run.prepare()
        run.begin()
        sample = run.collect()
        episodes = sample.collected.episodes
        batch, metrics = run.method.credit(sample.collected)
        assert (len(episodes), len(batch), metrics["branches"]) == (6, 18, 12)
        advantages, group = batch.inputs.advantages, batch.inputs.group.tolist()
        # of a group's three episodes, branches aside: they weigh nothing in its mean
        for number in {episode.group for episode in episodes}:
            members = [index for index, episode in enumerate(episodes) if episode.group == number]
            assert float(advantages[members].sum()) == pytest.approx(0, abs=1e-5)
        branches = [(index, b.tokens) for index, e in enumerate(episodes) for b in e.branches]
        for row, (index, tokens) in enumerate(branches, len(episodes)):
            assert (float(advantages[row]), group[row]) == (float(advantages[index]), episodes[index].group)
            assert batch.padded.ids[row, : len(tokens)].tolist() == tokens.ids
            assert batch.padded.mask[row].sum() == tokens.sampled > 0
            logprobs = batch.inputs.behaviour_logprobs[row, : len(tokens)].tolist()
            assert logprobs == pytest.approx(tokens.logprobs, abs=1e-6)
        run.learn(sample)
        (record,) = run.callback.of("train")
        assert record["grad_norm"] > 0
        assert record["denominators"]["sequences"] == 18
    finally:
        run.close()


def test_advantages_of_single_tokens_leave_branches_out_and_say_so(tmp_path: Path):
    run = trainer(tmp_path / "run", steps=1, algorithm="ppo")
    try:
        run.prepare()
        run.begin()
        batch, metrics = run.method.credit(run.collect().collected)
        assert (len(batch), metrics["branches_left_out"]) == (6, 12)
        assert "branches" not in metrics
    finally:
        run.close()
