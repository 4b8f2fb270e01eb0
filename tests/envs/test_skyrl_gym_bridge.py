"""skyrl-gym's environments here: rows as of every table, rewards for answers alone, and everything that must hold."""

from __future__ import annotations

import importlib.util
import json
import pickle
import random
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import rlvr
from rlvr.envs import Verdict
from rlvr.envs.audit import audit
from rlvr.envs.bridges import suite_games
from rlvr.envs.bridges.skyrl_gym import SUITES, SkyRLGym
from rlvr.envs.core.tables import DataError

IDS = [f"rlvr/skyrl.{name}-v0" for name in suite_games.SKYRL_GYM]
needs_package = pytest.mark.skipif(importlib.util.find_spec("skyrl_gym") is None, reason="skyrl-gym is not installed")
every_id = pytest.mark.parametrize("env_id", IDS)


# without the package


def judged(name: str, gold: str, said: str, theirs: float = 1.0) -> Verdict:
    return SkyRLGym(name=name).judge(gold, said, theirs)


def test_ids_are_registered_where_the_package_is_and_only_there():
    there = importlib.util.find_spec("skyrl_gym") is not None
    assert rlvr.list_envs("rlvr/skyrl.") == (sorted(IDS) if there else [])
    assert suite_games.SKYRL_GYM.keys() == SUITES.keys()
    assert not suite_games.SKYRL_GYM.keys() & suite_games.REFUSED_SKYRL_GYM.keys()


@pytest.mark.parametrize(
    ("name", "gold", "said", "status"),
    [
        ("gsm8k", "18", "so\n#### 18", "correct"),
        ("gsm8k", "1200", "#### 1,200", "correct"),
        ("gsm8k", "18", "#### 18 #### 19", "wrong"),  # theirs takes the first
        ("gsm8k", "18", "#### 18\n#### 19", "wrong"),
        ("gsm8k", "18", "18", "unparsable"),
        ("aime", "33", "Answer: $33$", "correct"),
        ("aime", "33", "Answer: 1 $33$ 2", "wrong"),  # theirs takes what is between dollars
        ("aime", "33", "Answer: 7 = 33", "wrong"),  # and what is behind the last sign of equality
        ("aime", "33", "Answer: 34\nAnswer: 33", "wrong"),  # and the last
        ("aime", "33", "33", "unparsable"),
    ],
)
def test_an_answer_is_read_as_a_whole_whatever_theirs_says(name, gold, said, status):
    verdict = judged(name, gold, said)
    assert (verdict.status, verdict.reward) == (status, float(status == "correct"))
    assert not judged(name, gold, said, theirs=0.04).success
    assert not judged(name, gold, said, theirs=-1.0).success


@given(st.text(max_size=200))
def test_any_text_gets_a_verdict(text):
    for name in suite_games.SKYRL_GYM:
        assert not judged(name, "314159", text).success


def test_bad_input_is_one_clear_error(tmp_path):
    with pytest.raises(ValueError, match="no environment 'lcb' of skyrl-gym"):
        SkyRLGym(name="lcb")
    with pytest.raises(ValueError, match="aime has no split 'train'; it has test"):
        SkyRLGym(name="aime", split="train")
    rows = tmp_path / "train.jsonl"
    rows.write_text(json.dumps({"question": "How many?", "answer": "no number"}) + "\n")
    with pytest.raises(DataError, match="row 0: the answer has no line"):
        SkyRLGym(name="gsm8k", data_files=rows)
    rows.write_text(json.dumps({"question": " ", "answer": "#### 7"}) + "\n")
    with pytest.raises(DataError, match="row 0: the question is blank"):
        SkyRLGym(name="gsm8k", data_files=rows)


# with it


@pytest.mark.foreign
@needs_package
class TestEveryId:
    @every_id
    def test_checker(self, env_id):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gym.make(env_id).unwrapped)

    @every_id
    def test_the_expert_scores_one_on_every_row(self, env_id):
        env = gym.make(env_id).unwrapped
        for index in range(env.task.size):
            env.reset(seed=0, options={"index": index})
            _, reward, terminated, _, info = env.step(env.solve())
            assert (reward, terminated, info["success"]) == (1.0, True, True), info["verdict"]

    @every_id
    def test_audit(self, env_id):
        report = audit(gym.make(env_id).unwrapped, tasks=2)
        assert not [f.text for f in report.at_least("low") if "grading took" not in f.text]

    @every_id
    def test_silence_and_hostile_text_earn_nothing(self, env_id):
        env = gym.make(env_id).unwrapped
        for text in ("", "####", "Answer:", "#### " + "9" * 100_000, "Answer: " + "$" * 100_000, "\x00\ud800"):
            env.reset(seed=1)
            over, total = False, 0.0
            while not over:
                _, reward, terminated, truncated, info = env.step(text)
                total, over = total + reward, terminated or truncated
            assert (total, info["verdict"].valid) == (0.0, True), text[:20]

    @every_id
    def test_an_episode_goes_on_in_a_copy_as_in_itself(self, env_id):
        env = gym.make(env_id).unwrapped
        env.reset(seed=3)
        if env.task.turns(1) > 1:
            env.step("#### 0")
        copy = pickle.loads(pickle.dumps(env))
        answer = env.solve()
        assert repr(copy.step(answer)) == repr(env.step(answer))

    @every_id
    def test_no_chance_is_used(self, env_id):
        random.seed(1)
        before = random.getstate()
        env = gym.make(env_id).unwrapped
        first = [env.reset(seed=5)[0], *map(str, env.step("#### 1"))]
        assert first == [env.reset(seed=5)[0], *map(str, env.step("#### 1"))]
        assert random.getstate() == before


@pytest.mark.foreign
@needs_package
def test_turns_are_theirs_and_a_format_earns_nothing():
    env = gym.make("rlvr/skyrl.gsm8k_multi_turn-v0").unwrapped
    env.reset(seed=0)
    rewards = []
    for turn in range(5):
        observation, reward, terminated, _, info = env.step("#### -123456")
        rewards.append(reward)
        assert terminated == (turn == 4)
        assert terminated or "answer" in observation
    assert rewards == [0.0] * 5
    assert info["verdict"].parts["its own score"] == pytest.approx(0.2)  # what theirs pays for five wrong numbers
    env.reset(seed=0)
    env.step("#### -123456")
    assert env.step(env.solve())[1:3] == (1.0, True)


@pytest.mark.foreign
@needs_package
def test_a_wrong_answer_to_aime_costs_nothing():
    env = gym.make("rlvr/skyrl.aime-v0").unwrapped
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("Answer: 1000")
    assert (reward, terminated) == (0.0, True)
    assert info["verdict"].parts["its own score"] == -1.0
