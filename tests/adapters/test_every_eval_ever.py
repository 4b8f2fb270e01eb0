"""`rlvr export --format every-eval-ever`: its package takes the record, whose figures are those of the evaluation."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from rlvr.adapters.export.every_eval_ever import evaluation_record
from rlvr.agents import Episode, summarise
from rlvr.agents.episode import Turn
from rlvr.agents.evaluation import read_episodes, write_episodes
from rlvr.cli import main
from rlvr.envs import Verdict

AGENT = {"model": "org/name", "revision": "abc", "sampling": {"temperature": 0.0, "max_new_tokens": 64}}


def episode(seed: int, verdict: Verdict, **fields) -> Episode:
    turn = Turn("What?", "user", "that", "stop", verdict.reward, verdict)
    made = Episode("rlvr/A-v0", f"key{seed}", seed, turns=[turn], agent=AGENT, **fields)
    made.verdict = verdict
    return made


def test_a_record_counts_valid_episodes_and_names_the_others():
    verdicts = [Verdict(1.0, "correct"), Verdict(0.0, "wrong"), Verdict(0.0, "env_error", reason="on purpose")]
    episodes = [episode(seed, verdict, split="test") for seed, verdict in enumerate(verdicts)]
    record = evaluation_record([*episodes, episode(9, Verdict(1.0, "correct"), split="train")])
    first, second = record["evaluation_results"]
    assert [each["evaluation_name"] for each in (first, second)] == ["rlvr/A-v0/test", "rlvr/A-v0/train"]
    score = first["score_details"]
    assert (score["score"], score["uncertainty"]["num_samples"], score["details"]["episodes"]) == (0.5, 2, "3")
    assert "on purpose" in score["details"]["invalid_causes"]
    assert first["generation_config"]["generation_args"] == {"temperature": 0.0, "max_tokens": 64}
    assert record["model_info"]["additional_details"]["revision"] == "abc"


def test_what_is_no_evaluation_of_one_model_is_refused(capsys, tmp_path):
    other = episode(1, Verdict(1.0, "correct"))
    other.agent = {"model": "another"}
    with pytest.raises(ValueError, match="of one model with one sampling, not of org/name and another"):
        evaluation_record([episode(0, Verdict(1.0, "correct")), other])
    with pytest.raises(ValueError, match="not of no graded episode"):
        evaluation_record([])
    with pytest.raises(ValueError, match="rlvr/A-v0 has no valid episode"):
        evaluation_record([episode(0, Verdict(0.0, "timeout"))])
    for words, reason in (
        (["x.jsonl", "--out", "x.json", "--success"], "leave the filters out"),
        (["x.jsonl", "--out", "y.jsonl"], "is written to X.json"),
    ):
        assert main(["export", *words, "--format", "every-eval-ever"]) == 2
        assert reason in capsys.readouterr().err


@pytest.mark.foreign
@pytest.mark.skipif(importlib.util.find_spec("every_eval_ever") is None, reason="every-eval-ever is not installed")
def test_its_own_validator_takes_the_record(tmp_path):
    played = tmp_path / "played.jsonl"
    envs = ["--env", "rlvr/Countdown-v0", "--env", "rlvr/Calculator-v0"]
    assert main(["eval", *envs, "--agent", "random", "--episodes", "8", "--out", str(played)]) == 0
    write_episodes(played, [replace(each, agent=AGENT) for each in read_episodes(played)])  # a model with a developer
    out = tmp_path / "data" / "countdown" / "org" / "name" / f"{uuid4()}.json"
    out.parent.mkdir(parents=True)
    assert main(["export", str(played), "--format", "every-eval-ever", "--out", str(out)]) == 0
    command = [str(Path(sys.executable).with_name("every_eval_ever")), "validate", str(out), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    from every_eval_ever.eval_types import EvaluationLog

    record = EvaluationLog.model_validate_json(out.read_text())
    episodes = read_episodes(played)
    for result in record.evaluation_results:
        figures = summarise([each for each in episodes if each.env_id == result.source_data.dataset_name])
        assert result.score_details.score == figures.success
        bounds = result.score_details.uncertainty.confidence_interval
        assert (bounds.lower, bounds.upper) == (figures.low, figures.high)
    assert len(json.loads(out.read_text())["evaluation_results"]) == 2
