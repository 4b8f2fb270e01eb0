"""`rlvr explain`: what a run noted of each token is what the loss makes of the file's own numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import load_config
from rlvr.algorithms.runs.explain import ExplainError, explain, recomputed_weights
from rlvr.algorithms.train.run import Trainer
from rlvr.cli import main

from .runs import CALCULATOR, Callback, small

NAMES = ("grpo", "dapo_prompt_mean", "gspo", "kimi", "tis")


@pytest.fixture(scope="module")
def runs(answerer: tuple[dict, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two steps of two minibatches of each algorithm."""
    folder = tmp_path_factory.mktemp("explained")
    for name in NAMES:
        env, policy = answerer
        changes = {"model": {"name": str(policy)}, "env": env}
        changes |= {"warm_start": {"steps": 0, "mixed_steps": 0}, "overrides": {"entropy_coef": 0.0}}
        changes |= {"selection": {"filters": []}, "learner": {"lr": 3e-3, "minibatches": 2}, "prompts": 6}
        Trainer(small(folder / name, algorithm=name, steps=2, **changes), Callback()).run()
    return {name: folder / name for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_noted_weights_are_those_of_the_formula(runs: dict[str, Path], name: str):
    preset = load_config(runs[name] / "config.yaml").preset()
    compared = 0
    for file in sorted((runs[name] / "episodes").glob("train-*.jsonl")):
        for episode in read_episodes(file):
            noted = episode.training
            assert noted["shaped_reward"] == episode.reward
            assert len(noted["weights"]) == len(episode.tokens)
            assert all(weight == 0 for weight, on in zip(noted["weights"], episode.tokens.mask, strict=True) if not on)
            if "logprobs" in noted:
                assert recomputed_weights(preset, episode) == pytest.approx(noted["weights"], rel=1e-3, abs=1e-6)
                compared += any(noted["weights"])
            else:
                assert not any(noted["weights"])
    assert compared > 0


def test_the_way_from_verdict_to_gradient_is_printed(runs: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    run = runs["tis"]
    episodes = read_episodes(run / "episodes" / "train-000002.jsonl")
    number = next(n for n, episode in enumerate(episodes) if any(episode.training["weights"]))
    assert main(["explain", str(run), f"train-000002:{number}"]) == 0
    text = capsys.readouterr().out
    for word in ("verdict", "shaping", "group", "advantage    A = (R - mean) / std", "mask", "ratio", "correction"):
        assert word in text
    heaviest = max(episodes[number].training["weights"], key=abs)
    assert f"{heaviest:.6g}" in text
    assert explain(run, episodes[number].key) == text.rstrip("\n")
    assert explain(run, str(number)) == text.rstrip("\n")


@pytest.mark.parametrize("weighed", [True, False])
def test_each_sampled_token_has_its_text_and_its_turn(runs: dict[str, Path], weighed: bool):
    run, name, episode = next(
        (run, f"{file.stem}:{number}", episode)
        for run in runs.values()
        for file in sorted((run / "episodes").glob("train-*.jsonl"))
        for number, episode in enumerate(read_episodes(file))
        if any(episode.training["weights"]) == weighed
    )
    texts, turns = "", []
    _, _, table = explain(run, name).partition("position  turn")
    for line in table.splitlines()[1:]:
        position, turn = map(int, line.split()[:2])
        assert episode.tokens.mask[position]
        turns.append(turn)
        texts += json.loads(line[line.index('"') :])
    assert len(turns) == episode.tokens.sampled
    assert turns == sorted(turns)
    assert {*turns} == {*range(len(episode.turns))}
    assert texts.startswith(episode.turns[0].action)


def test_without_a_tokenizer_a_token_has_its_id(runs: dict[str, Path], tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(runs["grpo"], run, ignore=shutil.ignore_patterns("policy", "checkpoints"))
    text = (run / "config.yaml").read_text()
    config = load_config(run / "config.yaml")
    (run / "config.yaml").write_text(text.replace(config.model.name, "somebody/elsewhere"))
    ids = read_episodes(run / "episodes" / "train-000002.jsonl")[0].tokens.ids
    assert f"id {ids[-1]}" in explain(run, "train-000002:0")


def test_a_dropped_episode_says_why(caller: Path, tmp_path: Path):
    changes = {"model": {"name": str(caller)}, "env": {"id": CALCULATOR}, "sampling": {"max_new_tokens": 2}}
    changes |= {"warm_start": {"steps": 0, "mixed_steps": 0}, "selection": {"filters": ["zero_gradient"]}}
    Trainer(small(tmp_path / "run", steps=1, **changes), Callback()).run()
    assert "zero_gradient: all rewards of its group are equal" in explain(tmp_path / "run", "0")


@pytest.mark.parametrize(
    ("which", "message"),
    [("train-000009:0", "there are train-000001"), ("train-000001:999", "24 episodes"), ("no/such/key", "FILE:NUMBER")],
)
def test_what_is_not_there_is_said(runs: dict[str, Path], which: str, message: str):
    with pytest.raises(ExplainError, match=message):
        explain(runs["grpo"], which)


def test_a_folder_without_a_run_is_said(tmp_path: Path):
    with pytest.raises(ExplainError, match="holds no run"):
        explain(tmp_path, "0")
