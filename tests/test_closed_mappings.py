"""Mappings of settings are closed: a key that nobody reads is an error that names the nearest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gymnasium as gym
import pytest

import rlvr
from rlvr.adapters import EpisodeSession, TaskSpec, grade, rows
from rlvr.agents import ExpertAgent, Rollout
from rlvr.envs import Verdict
from rlvr.envs.rewards import grade as grade_text
from rlvr.envs.rewards.rubric import Grade, weighted
from rlvr.envs.wrappers import SpuriousReward

SPEC = {"env_id": "rlvr/Sums-v0", "seed": 1}


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "q", "answer": "4", "level": "easy"}) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": {"qestion": "question"}}, "maps no 'qestion'; did you mean 'question'"),
        ({"columns": {"question": "qestion"}}, "lacks qestion; did you mean 'question'"),
        ({"where": {"levl": "easy"}}, "no column 'levl' to choose by; did you mean 'level'"),
        ({"prompt": "Say: {qestion}"}, "{qestion}, which there is not; did you mean {question}"),
        ({"grader": "number", "grader_options": {"rel_tl": 1}}, "no option 'rel_tl'; did you mean 'rel_tol'"),
        ({"graderr": "number"}, "no setting 'graderr'; did you mean 'grader'"),
    ],
)
def test_a_table(settings: dict, message: str, table: str):
    with pytest.raises((TypeError, ValueError), match=message):
        gym.make("rlvr/Dataset-v0", data_files=table, **settings)


def test_braces_of_a_prompt_that_are_no_columns_stay(table: str):
    prompt = "{question} \\boxed{answers} {x} x_{answr} {{levels}"
    env = gym.make("rlvr/Dataset-v0", data_files=table, prompt=prompt)
    assert env.reset(seed=0)[0] == "q \\boxed{answers} {x} x_{answr} {{levels}"


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "gym.make": (lambda: gym.make("rlvr/Sums-v0", levl=1), "'levl'; did you mean 'level'"),
    "gym.make_vec": (lambda: gym.make_vec("rlvr/Sums-v0", num_envs=2, levl=1), "'levl'; did you mean 'level'"),
    "reset": (lambda: gym.make("rlvr/Sums-v0").reset(options={"indx": 1}), "'indx'; did you mean 'index'"),
    "tools": (
        lambda: gym.make("rlvr/Sums-v0", tools={"tools": ["python"], "max_cals": 1}),
        "'max_cals'; did you mean 'max_calls'",
    ),
    "mixture": (
        lambda: gym.make("rlvr/Mixture-v0", envs=[{"id": "rlvr/Sums-v0", "levl": 1}]),
        "'levl'; did you mean 'level'",
    ),
    "customer": (
        lambda: gym.make("rlvr/ServiceDesk-v0", customer={"base_url": "http://x", "modl": "m"}),
        "'modl'; did you mean 'model'",
    ),
    "MCP server": (
        lambda: gym.make("rlvr/MCP-v0", server={"comand": ["x"]}, tasks=[], checker=lambda outcome: True),
        "'comand'; did you mean 'command'",
    ),
    "MCP options": (
        lambda: gym.make("rlvr/MCP-v0", server={"url": "x"}, options={"styel": 1}, tasks=[], checker=len),
        "'styel'; did you mean 'style'",
    ),
    "game": (
        lambda: gym.make("rlvr/NimDuel-v0", game_settings={"heap": 1}),
        "the game NimDuel has no setting 'heap'",
    ),
    "Rollout": (
        lambda: Rollout("rlvr/Sums-v0", ExpertAgent(), env_settings={"levl": 2}),
        "'levl'; did you mean 'level'",
    ),
    "evaluate": (
        lambda: rlvr.evaluate("Sums", ExpertAgent(), episodes=1, settings={"levl": 2}),
        "'levl'; did you mean 'level'",
    ),
    "rows": (lambda: rows("rlvr/Sums-v0", 1, kwargs={"levl": 2}), "'levl'; did you mean 'level'"),
    "TaskSpec.parse": (lambda: TaskSpec.parse(SPEC | {"kwrgs": {}}), "no field 'kwrgs'; did you mean 'kwargs'"),
    "TaskSpec.parse of JSON": (
        lambda: TaskSpec.parse(json.dumps(SPEC | {"optins": {}})),
        "no field 'optins'; did you mean 'options'",
    ),
    "EpisodeSession": (lambda: EpisodeSession(SPEC | {"kwrgs": {}}), "did you mean 'kwargs'"),
    "adapters.grade": (lambda: grade(SPEC | {"kwrgs": {}}, "x"), "did you mean 'kwargs'"),
    "Verdict.from_dict": (
        lambda: Verdict.from_dict({"reward": 1.0, "status": "correct", "reson": ""}),
        "no field 'reson'; did you mean 'reason'",
    ),
    "grade": (lambda: grade_text("number", "1", "1", rel_tl=1), "no option 'rel_tl'; did you mean 'rel_tol'"),
    "grade, math": (lambda: grade_text("math", "1", "1", simplst=1), "'simplst'; did you mean 'simplest'"),
    "Grade": (lambda: Grade("number", rel_tl=1), "no option 'rel_tl'; did you mean 'rel_tol'"),
    "weighted": (lambda: weighted({"number": Grade("number")}, {"numbr": 1.0}), "'numbr'; did you mean 'number'"),
    "SpuriousReward": (
        lambda: SpuriousReward(gym.make("rlvr/Sums-v0"), "random", probabilty=1),
        "'probabilty'; did you mean 'probability'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name: str):
    call, message = CALLS[name]
    with pytest.raises((TypeError, ValueError), match=message) as error:
        call()
    assert "\n" not in str(error.value)
