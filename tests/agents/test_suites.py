"""Suites: what is pinned is pinned, a file is read or refused in one sentence, and the mean's interval holds."""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.agents.evaluation.statistics import wilson
from rlvr.agents.evaluation.suites import SUITES, EvaluationSuite, SuiteEntry, score_suite
from rlvr.agents.evaluation.summary import Evaluation
from rlvr.cli import main

FILE = {
    "envs": [{"env": "Countdown", "tasks": 3, "settings": {"level": 2}}, {"env": "rlvr/GuessNumber-v0", "tasks": 2}]
}


def result_of(successes: int, valid: int) -> Evaluation:
    return Evaluation(valid, valid, successes, successes / valid, interval=wilson(successes, valid))


@pytest.mark.parametrize("name", SUITES)
def test_a_named_suite_can_be_played_and_pins_split_level_and_tasks(name):
    for entry in SUITES[name].entries:
        env = gym.make(entry.env, **entry.settings).unwrapped
        assert (env.split, env.level) == ("test", entry.settings["level"])
        assert entry.tasks is not None


def test_the_digests_of_the_named_suites_are_committed():
    """Who changes what a suite pins gives it another name: results under the old one stand in tables already."""
    digests = {"core": "0821e2c2c30a", "agents": "5a52722a3263", "quick": "a544774a523d"}
    assert {name: suite.digest for name, suite in SUITES.items()} == digests


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"samples": 2},
        {"temperature": 1.0},
        {"max_new_tokens": 64},
        {"entries": (SuiteEntry("Countdown", 4),)},
    ],
)
def test_the_digest_changes_with_whatever_is_pinned(change):
    suite = EvaluationSuite.from_dict(FILE, "mine")
    assert replace(suite, **change).digest != suite.digest
    assert replace(suite, name="another").digest == suite.digest


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "a mapping with envs is expected, not list"),
        ({"envs": []}, "names no environment"),
        ({"envs": ["Countdown"]}, "environment 1: a mapping with env, an id, is expected"),
        ({"envs": [{"env": "Countdown", "task": 3}]}, "unknown field 'task', did you mean 'tasks'?"),
        ({"envs": [{"env": "Countdown", "tasks": 0}]}, "tasks is a whole number from 1 on, not 0"),
        ({"envs": [{"env": "Countdown", "tasks": True}]}, "tasks is of type int, not True"),
        ({"envs": [{"env": "Countdown"}, {"env": "Countdown"}]}, "Countdown is named twice"),
        ({"envs": [{"env": "Countdown"}], "temprature": 1.0}, "did you mean 'temperature'?"),
        ({"envs": [{"env": "Countdown"}], "seed": "7"}, "seed is of type int, not '7'"),
    ],
)
def test_what_is_no_suite_is_refused_in_one_sentence(record, message, tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(record))
    assert main(["eval", "--suite", str(path), "--agent", "expert"]) != 0
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_suite_of_ones_own_is_played_and_summed_up(kind, tmp_path, capsys):
    path = tmp_path / f"mine.{kind}"
    if kind == "json":
        path.write_text(json.dumps(FILE))
    else:
        path.write_text(pytest.importorskip("yaml").safe_dump(FILE))
    assert main(["eval", "--suite", str(path), "--agent", "expert", "--json"]) == 0
    *each, whole = json.loads(capsys.readouterr().out)
    assert [(result["env"], result["episodes"]) for result in each] == [
        ("rlvr/Countdown-v0", 3),
        ("rlvr/GuessNumber-v0", 2),
    ]
    assert (whole["suite"], whole["success"], whole["environments"]) == ("mine", 1.0, 2)
    assert whole["digest"] == EvaluationSuite.from_dict(FILE, "mine").digest


@pytest.mark.parametrize("option", [["--seed", "1"], ["--episodes", "5"], ["--level", "3"], ["--samples", "2"]])
def test_what_a_suite_pins_cannot_be_asked_for(option, capsys):
    assert main(["eval", "--suite", "quick", "--agent", "random", *option]) != 0
    assert f"suite quick pins {option[0]}" in capsys.readouterr().err


def test_a_suite_may_be_given_more_tokens_and_is_another_suite_then(tmp_path, capsys):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(FILE))
    assert main(["eval", "--suite", str(file), "--agent", "expert", "--max-new-tokens", "8192"]) == 0
    longer = replace(EvaluationSuite.from_dict(FILE, "mine"), max_new_tokens=8192)
    assert f"suite mine {longer.digest}" in capsys.readouterr().out


def test_an_unknown_suite_names_the_nearest(capsys):
    assert main(["eval", "--suite", "qick", "--agent", "random"]) != 0
    assert "did you mean quick?" in capsys.readouterr().err


def test_a_record_of_another_suite_is_refused(tmp_path: Path, capsys):
    record, path = tmp_path / "episodes.jsonl", tmp_path / "mine.json"
    path.write_text(json.dumps(FILE))
    command = ["eval", "--suite", str(path), "--agent", "expert", "--out", str(record)]
    assert main(command) == 0
    path.write_text(json.dumps({**FILE, "seed": 1}))
    assert main(command) != 0
    assert "was made with another seed, suite" in capsys.readouterr().err


def test_environments_count_the_same_and_those_without_a_valid_episode_not_at_all():
    score = score_suite([result_of(10, 10), result_of(0, 1000), Evaluation(5)])
    assert (score.success, score.environments, score.without) == (0.5, 2, 1)
    with pytest.raises(ValueError, match="nothing to sum up"):
        score_suite([Evaluation(5)])


@pytest.mark.parametrize("chances", [(0.5,) * 6, (0.02, 0.1, 0.3, 0.6, 0.9, 0.98), (0.05,) * 10, (0.97,) * 20])
def test_the_interval_of_the_mean_holds_the_truth_as_often_as_it_says(chances):
    rng = random.Random(5)
    truth, held = sum(chances) / len(chances), 0
    for _ in range(2000):
        score = score_suite([result_of(sum(rng.random() < chance for _ in range(30)), 30) for chance in chances])
        held += score.low <= truth <= score.high
    assert held / 2000 >= 0.93


# several agents in one command


TWO = [
    "eval",
    "--env",
    "Countdown",
    "--env",
    "GuessNumber",
    "--agent",
    "expert",
    "--agent",
    "random",
    "--episodes",
    "3",
]


def test_several_agents_are_one_command_with_a_record_each_and_a_table(tmp_path, capsys):
    out = tmp_path / "results"
    assert main([*TWO, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "| agent | rlvr/Countdown-v0 | rlvr/GuessNumber-v0 |" in said
    assert [line.split(" | ")[0] for line in said.splitlines() if line.startswith("| ")][1:] == ["| expert", "| random"]
    files = {path.name: path.read_bytes() for path in out.glob("*.jsonl")}
    assert sorted(files) == ["expert.jsonl", "random.jsonl"]
    lines = files["random.jsonl"].splitlines(keepends=True)
    (out / "random.jsonl").write_bytes(b"".join(lines[:2]))  # as if one of them had been stopped
    assert main([*TWO, "--out", str(out)]) == 0
    assert capsys.readouterr().out == said
    assert {path.name: path.read_bytes() for path in out.glob("*.jsonl")} == files


def test_without_a_record_the_table_and_the_json_hold_every_agent(capsys):
    assert main(TWO) == 0
    assert "\n| random | " in capsys.readouterr().out
    assert main([*TWO, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["agent"], each["env"][5:-3]) for each in found] == [
        (agent, env) for agent in ("expert", "random") for env in ("Countdown", "GuessNumber")
    ]


def test_an_agent_that_does_the_same_each_time_plays_once_beside_others_and_it_is_said(capsys):
    assert main([*TWO, "--samples", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert [each["episodes"] for each in json.loads(said.out)] == [3, 3, 6, 6]
    assert "--agent expert does the same each time: expert plays each task once, the others 2 times" in said.err


def test_who_cannot_play_does_not_keep_the_others_from_it(tmp_path, capsys):
    (tmp_path / "no_model").mkdir()
    played = ["eval", "--env", "Countdown", "--agent", "expert", "--model", str(tmp_path / "no_model")]
    assert main([*played, "--episodes", "2"]) == 1
    said = capsys.readouterr()
    assert "success 2/2" in said.out
    assert f"{tmp_path / 'no_model'} cannot play: " in said.err


def test_a_file_of_a_suite_may_name_its_agents_which_are_no_part_of_what_is_pinned(tmp_path, capsys):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({**FILE, "agents": ["expert", {"agent": "empty"}]}))
    assert main(["eval", "--suite", str(file)]) == 0
    out = capsys.readouterr().out
    digest = EvaluationSuite.from_dict(FILE, "mine").digest
    assert [line for line in out.splitlines() if line.startswith("suite")] == [
        f"suite mine {digest}  agent {agent}" for agent in ("expert", "empty")
    ]
    assert "| empty | 0.000" in out
    assert main(["eval", "--suite", str(file), "--agent", "empty"]) == 0
    assert "agent expert" not in capsys.readouterr().out


def test_a_key_goes_to_the_server_that_the_command_names_alone(tmp_path, monkeypatch):
    from rlvr.cli.eval_agents import each_agent

    there, other = "http://127.0.0.1:9/v1", "http://127.0.0.1:8/v1"
    agents = [{"model": "a"}, {"model": "b", "endpoint": other}, {"model": "c", "endpoint": there}, "expert"]
    suite = EvaluationSuite.from_dict({**FILE, "agents": agents}, "mine")
    nobody = dict.fromkeys(("agent", "model", "vllm", "out", "options", "tool_messages"))
    options = argparse.Namespace(**nobody, endpoint=there, api_key_env="KEY")
    with pytest.raises(ValueError, match="needs the model's name"):
        each_agent(options, None)
    found = each_agent(options, suite)
    assert [(one.endpoint, one.api_key_env) for one in found] == [
        (there, "KEY"), (other, None), (there, "KEY"), (None, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agent", "expert", "--agent", "expert"], "an agent is named twice: expert"),
        (["--agent", "expert", "--agent", "random", "--out", "x.jsonl"], "--out takes a folder for them"),
        ([], "say who plays"),
        (["--agent", "expert", "--agent", "empty", "--samples", "2"], "needs samples that can differ"),
    ],
)
def test_several_agents_that_cannot_be_are_refused(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", "--env", "Countdown", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "agent", [3, "", {"agent": "me"}, {"model": "a", "vllm": "b"}, {"agent": "expert", "endpoint": "http://x"}, {}]
)
def test_an_agent_of_a_file_that_is_none_is_refused(agent):
    with pytest.raises(ValueError, match="suite mine, agent 1: "):
        EvaluationSuite.from_dict({**FILE, "agents": [agent]}, "mine")
