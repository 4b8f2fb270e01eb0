"""Which split `rlvr eval` plays: the test split where there is one, however the environment is named."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import pytest

import rlvr
from rlvr.agents import ExpertAgent
from rlvr.agents.evaluation.play import with_test_split
from rlvr.cli import main
from rlvr.envs import TextEnv, list_envs
from rlvr.envs.puzzles.countdown import Countdown

OWN = """
import rlvr
from rlvr.envs.puzzles.countdown import Countdown

rlvr.register("splits_of_mine/Mine-v0", "splits_of_mine:Mine")


class Mine(Countdown):
    pass


class OneSplit(Countdown):
    splits = ("train",)


rlvr.register("splits_of_mine/OneSplit-v0", "splits_of_mine:OneSplit")
"""
TABLE = {"columns": {"question": "q", "answer": "a"}, "grader": "number"}


def rows(path, text="What is 1 plus 1?"):
    path.write_text(json.dumps({"q": text, "a": 2}) + "\n", encoding="utf-8")


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "splits_of_mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "splits_of_mine"
    sys.modules.pop("splits_of_mine", None)
    for env_id in [env_id for env_id in gym.registry if env_id.startswith("splits_of_mine/")]:
        del gym.registry[env_id]


def split_of(env_id, **settings):
    return with_test_split(env_id, settings).get("split")


def test_every_id_that_has_a_test_split_plays_it():
    for env_id in list_envs():
        task = gym.spec(env_id).kwargs["task"]
        kind = gym.envs.registration.load_env_creator(task)
        assert split_of(env_id) == ("test" if kind.has_split("test", gym.spec(env_id).kwargs) else None), env_id
        assert split_of(f"rlvr:{env_id}") == split_of(env_id)


def test_an_id_with_a_module_plays_the_test_split(module):
    assert split_of(f"{module}:splits_of_mine/Mine-v0") == "test"
    assert split_of(f"{module}:splits_of_mine/OneSplit-v0") is None
    assert split_of("no_such_module:x/Y-v0") is None  # making it says so
    assert split_of("CartPole-v1") is None


def test_the_command_says_that_it_plays_the_test_split(module, capsys):
    command = ["eval", "--allow-code", "--env", f"{module}:splits_of_mine/Mine-v0", "--agent", "expert"]
    assert main([*command, "--episodes", "2"]) == 0
    assert "split test" in capsys.readouterr().out
    assert main([*command, "--episodes", "2", "--split", "train"]) == 0
    assert "split train" in capsys.readouterr().out


@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_a_folder_of_rows_plays_its_test_file(tmp_path, ending, capsys):
    rows(tmp_path / "train.jsonl", "What is 2 plus 0?")
    assert split_of("rlvr/Dataset-v0", data_files=str(tmp_path)) is None  # there is none
    if ending == ".csv":
        (tmp_path / "test.csv").write_text("q,a\nWhat is 1 plus 1?,2\n", encoding="utf-8")
    else:
        rows(tmp_path / "test.jsonl")
    assert split_of("rlvr/Dataset-v0", data_files=str(tmp_path)) == "test"
    assert split_of("rlvr/Dataset-v0", data_files=str(tmp_path), split="train") == "train"
    settings = [word for name, value in TABLE.items() for word in ("--set", f"{name}={_text(value)}")]
    assert main(["eval", "--env", "Dataset", "--set", f"data_files={tmp_path}", *settings, "--agent", "expert"]) == 0
    assert "split test" in capsys.readouterr().out


def _text(value):
    return value if isinstance(value, str) else json.dumps(value)


def test_a_single_file_is_of_the_split_that_it_is_named_after(tmp_path):
    for name in ("train", "test", "mine"):
        rows(tmp_path / f"{name}.jsonl")
    named = {name: split_of("rlvr/Dataset-v0", data_files=str(tmp_path / f"{name}.jsonl")) for name in ("test", "mine")}
    assert named == {"test": "test", "mine": None}


def test_a_data_set_without_a_test_split_is_played_as_it_is_made(tmp_path):
    rows(tmp_path / "test.jsonl")
    assert split_of("rlvr/NQOpen-v0", data_files=str(tmp_path)) is None
    assert split_of("rlvr/HumanEval-v0") == "test"


def test_a_mixture_plays_the_test_split_where_all_its_parts_have_one(tmp_path):
    rows(tmp_path / "train.jsonl")
    part = {"id": "rlvr/Dataset-v0", "data_files": str(tmp_path), **TABLE}
    assert split_of("rlvr/Mixture-v0", envs=["rlvr/Countdown-v0", {"id": "rlvr/Zebra-v0", "level": 2}]) == "test"
    assert split_of("rlvr/Mixture-v0", envs=["rlvr/Countdown-v0", part]) is None
    rows(tmp_path / "test.jsonl")
    assert split_of("rlvr/Mixture-v0", envs=["rlvr/Countdown-v0", part]) == "test"


def test_python_plays_what_the_command_plays(tmp_path):
    rows(tmp_path / "train.jsonl", "What is 5 plus 5?")  # of which 2 is no answer
    rows(tmp_path / "test.jsonl")
    record = tmp_path / "record.jsonl"
    rlvr.evaluate("Dataset", ExpertAgent(), settings={"data_files": str(tmp_path), **TABLE}, record=record)
    episode = json.loads(record.read_text(encoding="utf-8"))
    assert (episode["split"], episode["turns"][0]["observation"]) == ("test", "What is 1 plus 1?")


def test_a_task_that_is_made_already_is_asked():
    gym.register("made_already/Mine-v0", TextEnv, kwargs={"task": Countdown()})
    try:
        assert split_of("made_already/Mine-v0") == "test"
    finally:
        del gym.registry["made_already/Mine-v0"]
