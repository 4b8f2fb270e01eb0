"""Evaluation: what counts, how sure it is, and going on after a break at any byte."""

from __future__ import annotations

import json
import random

import pytest

from rlvr.agents import (
    ConstantAgent,
    Episode,
    ExpertAgent,
    RandomAgent,
    Rollout,
    RolloutRequest,
    Turn,
    evaluate,
    summarise,
    task_requests,
)
from rlvr.agents.evaluation import read_episodes, wilson, write_episodes
from rlvr.envs import Verdict
from rlvr.envs.core.verdict import STATUSES

GUESS = "rlvr/GuessNumber-v0"


def episode(status: str, reward: float = 0.0, turns: int = 1) -> Episode:
    made = Episode("e", status, 0)
    made.turns = [Turn("o", "user", "a", "stop") for _ in range(turns)]
    made.turns[-1].reward = reward
    made.verdict = Verdict(reward, status)
    return made


class Counting:
    """Plays as another agent does, and counts the episodes that it was asked to begin."""

    def __init__(self, agent) -> None:
        self.agent, self.begun = agent, []

    def act(self, conversations):
        for conversation in conversations:
            if all(message["role"] != "assistant" for message in conversation.messages):
                self.begun.append(conversation.key)
        return self.agent.act(conversations)


# the interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_that_of_the_literature(successes, trials, low, high):
    assert wilson(successes, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_the_interval_is_honest_at_the_ends():
    assert wilson(0, 0) == (0.0, 1.0)
    for trials in (1, 10, 1319):
        low, high = wilson(trials, trials)
        assert 0 < low < 1
        assert high == pytest.approx(1.0)
        assert wilson(0, trials) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1 - low))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = random.Random(0)
    held = 0
    for _ in range(2000):
        low, high = wilson(sum(rng.random() < 0.9 for _ in range(40)), 40)
        held += low <= 0.9 <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.025)


# what counts


def test_every_status_is_counted_and_invalid_ones_enter_no_mean():
    played = [episode("correct", 1.0, turns=3), episode("wrong", turns=1), episode("partial", 0.5, turns=2)]
    faults = [episode("timeout", turns=9), episode("verifier_error", turns=9), episode("env_error", turns=9)]
    result = summarise([*played, *faults, episode("unparsable", turns=2)])
    assert (result.episodes, result.valid, result.successes) == (7, 4, 1)
    assert result.statuses == dict.fromkeys(STATUSES, 1)
    assert result.success == 0.25
    assert result.reward == pytest.approx(1.5 / 4)
    assert result.turns == 2.0
    assert (result.low, result.high) == wilson(1, 4)
    for status in STATUSES:
        assert f"{status} 1" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["success"] == 0.25


def test_faults_alone_say_nothing_rather_than_zero():
    result = summarise([episode("env_error")] * 3)
    assert (result.episodes, result.valid, result.low, result.high) == (3, 0, 0.0, 1.0)
    assert summarise([]).episodes == 0


def test_the_expert_and_the_empty_answer_are_ceiling_and_floor():
    rollout = Rollout("rlvr/GSM8K-v0", ExpertAgent(), env_settings={"split": "test"})
    requests = task_requests(rollout.env.size, None)
    assert evaluate(rollout, requests).successes == 4
    floor = evaluate(Rollout("rlvr/GSM8K-v0", ConstantAgent(), env_settings={"split": "test"}), requests)
    assert (floor.successes, floor.reward, floor.statuses) == (0, 0.0, {"unparsable": 4})


# which tasks


def test_a_table_is_played_whole_and_a_stream_in_part():
    assert [request.index for request in task_requests(4, None)] == [0, 1, 2, 3]
    assert [request.index for request in task_requests(4, 2, seed=5)] == [0, 1]
    assert len(task_requests(None, None)) == 100
    pairs = [(request.group, request.sample) for request in task_requests(None, 2, samples=3)]
    assert pairs == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    with pytest.raises(ValueError, match="5 episodes were asked for, and there are 4 tasks"):
        task_requests(4, 5)


# going on


def test_a_record_broken_at_any_byte_of_its_last_line_is_gone_on_with(tmp_path):
    requests = task_requests(None, 2)
    whole = tmp_path / "whole.jsonl"
    reference = evaluate(Rollout("rlvr/Countdown-v0", RandomAgent(2)), requests, record=whole)
    content = whole.read_bytes()
    lines = content.splitlines(keepends=True)
    kept = len(content) - len(lines[-1])
    last = json.loads(lines[-1])["key"]
    rollout = Rollout("rlvr/Countdown-v0", None)
    torn = tmp_path / "torn.jsonl"
    for cut in range(kept, len(content) + 1):
        torn.write_bytes(content[:cut])
        rollout.agent = Counting(RandomAgent(2))
        assert evaluate(rollout, requests, record=torn) == reference
        assert rollout.agent.begun == ([] if cut == len(content) else [last])
        assert torn.read_bytes() == content


def test_an_interrupted_evaluation_goes_on_where_it_stopped(tmp_path):
    requests = task_requests(None, 12)
    record = tmp_path / "episodes.jsonl"
    seen = []

    def stop(played):
        seen.append(played.key)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Rollout(GUESS, ExpertAgent(), batch_size=2), requests, record=record, on_episode=stop)
    assert [played.key for played in read_episodes(record)] == seen
    agent = Counting(ExpertAgent())
    result = evaluate(Rollout(GUESS, agent), requests, record=record, on_episode=lambda played: seen.append(played.key))
    assert (result.episodes, result.successes, len(agent.begun)) == (12, 12, 7)
    assert sorted(seen) == sorted(request.key(GUESS) for request in requests)


def test_an_episode_that_could_not_be_played_is_played_again(tmp_path):
    record = tmp_path / "episodes.jsonl"
    requests = task_requests(None, 2)
    failed = Episode(GUESS, requests[0].key(GUESS), 0, verdict=Verdict(0.0, "env_error"))
    write_episodes(record, [failed])
    result = evaluate(Rollout(GUESS, ExpertAgent()), requests, record=record)
    assert (result.episodes, result.valid, result.successes) == (2, 2, 2)


def test_more_tasks_can_be_added_to_a_record(tmp_path):
    record = tmp_path / "episodes.jsonl"
    evaluate(Rollout(GUESS, ExpertAgent()), task_requests(None, 3), record=record)
    agent = Counting(ExpertAgent())
    assert evaluate(Rollout(GUESS, agent), task_requests(None, 8), record=record).episodes == 8
    assert len(agent.begun) == 5
    assert len(read_episodes(record)) == 8


def test_a_record_of_another_level_or_split_is_refused(tmp_path):
    record = tmp_path / "episodes.jsonl"
    evaluate(Rollout(GUESS, ExpertAgent()), task_requests(None, 3), record=record)
    for settings, message in (({"level": 2}, "level 1, not 2"), ({"split": "test"}, "split train, not test")):
        with pytest.raises(ValueError, match=f"{message}: give another file"):
            evaluate(Rollout(GUESS, ExpertAgent(), env_settings=settings), task_requests(None, 3), record=record)


@pytest.mark.parametrize("line", ["not json", "[]", "3", "null", '{"env_id": "e"}', '{"turns": 5}', '{"what": 1}'])
def test_a_line_that_is_no_episode_is_named(tmp_path, line):
    record = tmp_path / "episodes.jsonl"
    good = json.dumps(episode("correct", 1.0).to_dict())
    record.write_text(f"{good}\n{line}\n{good}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2 of .* is not an episode"):
        read_episodes(record)


def test_episodes_are_written_and_read_again(tmp_path):
    path = tmp_path / "episodes.jsonl"
    assert read_episodes(path) == []
    episodes = Rollout("rlvr/Calculator-v0", ExpertAgent())([RolloutRequest(seed=0, index=i) for i in range(4)])
    episodes[0].turns[0].action = "\ud800 \u2028 \x00 日"
    write_episodes(path, episodes)
    assert read_episodes(path) == episodes


def test_samples_of_a_group_are_different_episodes_of_one_task(tmp_path):
    record = tmp_path / "episodes.jsonl"
    result = evaluate(Rollout(GUESS, RandomAgent()), task_requests(None, 4, samples=3), record=record)
    assert result.episodes == 12
    assert len({played.key for played in read_episodes(record)}) == 12
