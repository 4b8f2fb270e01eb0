"""`rlvr eval` of a run's folder plays the policy as the run's own evaluations do, unless flags say otherwise."""

from __future__ import annotations

import argparse
import json

import pytest

from rlvr.cli import main
from rlvr.cli.eval_agents import DEFAULTS, config_of, env_settings, run_folder, take_sampling

SEVEN = """
env:
  id: rlvr/Dataset-v0
  system: false
  settings: {{data_files: {rows}, columns: {{question: q, answer: a}}, grader: number}}
model: {{name: rlvr/tiny, hidden: 32, layers: 1}}
sampling: {{max_new_tokens: 24, max_length: 96}}
warm_start: {{steps: 60, lr: 0.003}}
steps: 0
evaluation: {{episodes: 4}}
"""


def options(**given):
    return argparse.Namespace(
        **{"agent": None, "model": None, "vllm": None, "endpoint": None, **dict.fromkeys(DEFAULTS), **given}
    )


@pytest.fixture
def run(tmp_path):
    """A folder like that of a run, with any fields in its config."""

    def make(name="run", **fields):
        folder = tmp_path / name
        (folder / "policy").mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps(fields), encoding="utf-8")
        return folder

    return make


def test_the_folder_of_a_run_and_of_its_policy_are_the_run(run, monkeypatch):
    folder = run()
    assert run_folder(str(folder)) == folder
    assert run_folder(str(folder / "policy")) == folder
    monkeypatch.chdir(folder / "policy")
    assert run_folder(".") == folder
    assert run_folder("rlvr/tiny") is None
    assert config_of(options(model=str(folder), endpoint="http://localhost:1")) is None  # there it is only a name


def test_what_decides_a_reply_is_taken_from_the_run(run):
    folder = run(
        env={"system": False},
        sampling={"max_new_tokens": 24, "max_length": 96, "thinking_budget": 10, "thinking_phrase": "qwen3"},
        model={"dtype": "bfloat16", "template_options": {"enable_thinking": False}, "float32_head": True},
    )
    one = options(model=str(folder))
    taken = take_sampling(one, config_of(one))
    assert (one.no_system, one.max_new_tokens, one.max_length, one.dtype) == (True, 24, 96, "bfloat16")
    assert (one.template_options, one.float32_head) == ({"enable_thinking": False}, True)
    assert (one.thinking_budget.low, one.thinking_budget.high, one.thinking_budget.phrase) == (10, 10, "qwen3")
    for part in ("without the system prompt", "max_new_tokens 24", "max_length 96", "enable_thinking", "bfloat16"):
        assert part in ", ".join(taken)


def test_flags_win_over_the_run(run):
    config = {"env": {"system": False}, "sampling": {"max_new_tokens": 24, "max_length": 96, "thinking_budget": 10}}
    one = options(model=str(run(**config)), no_system=False, max_new_tokens=200, dtype="float16")
    taken = take_sampling(one, config_of(one))
    assert (one.no_system, one.max_new_tokens, one.dtype) == (False, 200, "float16")
    assert one.max_length is None  # 96 was chosen for replies of 24
    short = options(model=one.model, max_new_tokens=8)
    take_sampling(short, config_of(short))
    assert (short.max_new_tokens, short.thinking_budget) == (8, None)
    assert not [text for text in taken if "system" in text or "max_" in text or "dtype" in text]


def test_a_model_that_is_no_runs_has_the_defaults():
    one = options(model="rlvr/tiny")
    assert take_sampling(one, config_of(one)) == []
    assert {name: getattr(one, name) for name in DEFAULTS} == DEFAULTS


def test_the_environment_is_that_of_the_run(run, capsys):
    config = config_of(
        options(model=str(run(env={"id": "rlvr/Countdown-v0", "level": 3, "settings": {"tools": ["calculator"]}})))
    )
    trained = {"level": 3, "tools": ["calculator"]}
    assert env_settings([config, None], "rlvr/Countdown-v0", {}) == trained
    assert env_settings([config], "rlvr:rlvr/Countdown-v0", {}) == trained
    assert env_settings([config], "rlvr/Countdown-v0", {"level": 1}) == {"tools": ["calculator"]}
    assert env_settings([config], "rlvr/Zebra-v0", {}) == {}
    other = config_of(options(model=str(run("other", env={"id": "rlvr/Countdown-v0", "level": 2}))))
    assert env_settings([config, other], "rlvr/Countdown-v0", {}) == {}
    assert "different settings" in capsys.readouterr().err


def test_opponents_that_are_models_stay_in_training(run):
    opponents = {"opponents": ["self", "random"]}
    config = config_of(options(model=str(run(env={"id": "rlvr/TicTacToeDuel-v0", "settings": opponents}))))
    assert env_settings([config], "rlvr/TicTacToeDuel-v0", {}) == {"opponents": ["random"]}


def test_a_config_that_cannot_be_read_is_one_sentence(run):
    folder = run(nonsense=1)
    with pytest.raises(ValueError, match=r"does not say how .* was trained"):
        config_of(options(model=str(folder)))


@pytest.mark.slow
def test_a_run_solves_what_it_was_trained_on(tmp_path, capsys):
    for split in ("train", "test"):
        lines = [json.dumps({"q": f"{number} {split}", "a": 7}) + "\n" for number in range(10)]
        (tmp_path / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "seven.yaml").write_text(SEVEN.format(rows=tmp_path), encoding="utf-8")
    folder = tmp_path / "run"
    assert main(["train", "--config", str(tmp_path / "seven.yaml"), "--out", str(folder)]) == 0
    for name in (folder, folder / "policy"):
        capsys.readouterr()
        assert main(["eval", "--env", "Dataset", "--model", str(name)]) == 0
        printed = capsys.readouterr()
        assert "success 10/10" in printed.out
        assert "split test" in printed.out
        assert "as it was trained: without the system prompt, max_new_tokens 24, max_length 96" in printed.err
    assert main(["eval", "--env", "Dataset", "--model", str(folder), "--system", "--max-new-tokens", "30"]) == 0
    err = capsys.readouterr().err
    assert "as it was trained" in err
    assert "without the system prompt" not in err
    assert "max_new_tokens" not in err
