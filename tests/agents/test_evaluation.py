"""Evaluation: what counts, how sure it is, and going on after a break at any byte."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import random
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlvr
from rlvr.agents import (
    ConstantAgent,
    Episode,
    Evaluation,
    ExpertAgent,
    RandomAgent,
    Rollout,
    RolloutRequest,
    Turn,
    evaluate,
    summarise,
    task_requests,
)
from rlvr.agents.conversation import Reply
from rlvr.agents.evaluation import read_episodes, records, votes, wilson, write_episodes
from rlvr.agents.evaluation.compare import compare
from rlvr.agents.evaluation.records import figures_only
from rlvr.agents.evaluation.regrade import lenient_successes, regrade
from rlvr.agents.evaluation.statistics import (
    pass_all_k,
    pass_at_k,
    share_interval,
    student,
    success_difference_interval,
)
from rlvr.agents.evaluation.table import result_table
from rlvr.agents.evaluation.votes import grader_of, majority
from rlvr.cli import main
from rlvr.envs import Verdict
from rlvr.envs.core.verdict import STATUSES

GUESS = "rlvr/GuessNumber-v0"
SEEDS = itertools.count(1000)


def episode(status: str, reward: float = 0.0, turns: int = 1, task: int | None = None, action: str = "a") -> Episode:
    """An episode of a task of its own, unless the task is given."""
    made = Episode("e", status, next(SEEDS) if task is None else task)
    made.turns = [Turn("o", "user", action, "stop") for _ in range(turns)]
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


class Scripted(Counting):
    """Its records hold no seconds, as those of scripted agents, so that two runs write the same bytes."""

    in_any_thread = True


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


@pytest.mark.slow
def test_a_record_broken_at_any_byte_of_its_last_line_is_gone_on_with(tmp_path):
    requests = task_requests(None, 2)
    whole = tmp_path / "whole.jsonl"
    reference = evaluate(Rollout("rlvr/Countdown-v0", Scripted(RandomAgent(2))), requests, record=whole)
    content = whole.read_bytes()
    lines = content.splitlines(keepends=True)
    kept = len(content) - len(lines[-1])
    last = json.loads(lines[-1])["key"]
    rollout = Rollout("rlvr/Countdown-v0", None)
    torn = tmp_path / "torn.jsonl"
    for cut in range(kept, len(content) + 1):
        torn.write_bytes(content[:cut])
        rollout.agent = Scripted(RandomAgent(2))
        assert evaluate(rollout, requests, record=torn) == reference
        assert rollout.agent.begun == ([] if cut == len(content) else [last])
        assert torn.read_bytes() == content


@pytest.mark.parametrize("size", [1, 7, 64, records.BLOCK])
@pytest.mark.parametrize("torn", [b"", b'{"env_id": "e', b'{"env_id": "' + b"x" * 200])
@pytest.mark.parametrize("lines", [b"", b"{}\n", b'{"env_id": "e"}\n' * 20])
def test_a_torn_line_is_found_from_the_end_of_a_file_of_any_size(tmp_path, monkeypatch, size, torn, lines):
    monkeypatch.setattr(records, "BLOCK", size)
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines + torn)
    records.cut_torn_line(path)
    assert path.read_bytes() == lines


class Talker(ConstantAgent):
    """Says 20 kB, each time in a text of its own."""

    def act(self, conversations):
        return [Reply(f"{conversation.key} " * 600) for conversation in conversations]


@pytest.mark.slow
def test_an_evaluation_and_regrading_hold_figures_and_no_texts(tmp_path):
    record, out = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    rollout = Rollout("rlvr/Countdown-v0", Talker(), batch_size=20)
    evaluate(rollout, task_requests(None, 20))  # what is made once
    peaks = []
    tracemalloc.start()
    try:
        for play in (
            lambda: evaluate(rollout, task_requests(None, 1_000), record=record),
            lambda: main(["regrade", str(record), "--out", str(out)]),
        ):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            play()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert out.read_bytes().count(b"\n") == 1_000
    assert max(peaks) < record.stat().st_size / 3


def test_a_record_has_one_writer(tmp_path):
    record = tmp_path / "record.jsonl"
    rollout, requests = Rollout("rlvr/Countdown-v0", ExpertAgent()), task_requests(None, 2)
    evaluate(rollout, requests[:1], record=record)
    with record.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write('{"env_id": "half of a line')
        other.flush()
        before = record.read_bytes()
        with pytest.raises(ValueError, match=r"another process writes .*record\.jsonl: wait for it"):
            evaluate(rollout, requests, record=record)
        assert record.read_bytes() == before
    assert evaluate(rollout, requests, record=record).episodes == 2


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


# samples of a task


def samples(*successes: list[bool], answers: list[list[str]] | None = None) -> list[Episode]:
    """Episodes of so many tasks, each with as many samples as there are outcomes."""
    made = []
    for task, outcomes in enumerate(successes):
        for sample, right in enumerate(outcomes):
            said = answers[task][sample] if answers else None
            status = "correct" if right else "wrong"
            made.append(episode(status, float(right), task=task, action=f"{said} {sample}"))
            made[-1].verdict = Verdict(float(right), status, answer=said)
    return made


def test_copies_of_one_episode_make_nothing_surer():
    once = [[True]] * 54 + [[False]] * 6
    copied = summarise(samples(*([right] * 4 for (right,) in once)))
    single = summarise(samples(*once))
    assert (single.low, single.high) == wilson(54, 60)
    assert copied.success == single.success
    assert copied.high - copied.low == pytest.approx(single.high - single.low, rel=0.06)
    assert copied.high - copied.low > 1.8 * (wilson(216, 240)[1] - wilson(216, 240)[0])


def test_independent_samples_make_it_surer():
    rng = random.Random(3)
    result = summarise(samples(*([rng.random() < 0.7 for _ in range(4)] for _ in range(200))))
    assert result.high - result.low == pytest.approx(wilson(560, 800)[1] - wilson(560, 800)[0], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0.5, 0.5), (2.0, 2.0), (8.0, 2.0), (1.0, 9.0), (0.2, 0.05), (20.0, 20.0)])
@pytest.mark.parametrize("tasks", [20, 60, 150])
def test_the_interval_of_four_samples_a_task_holds_the_truth_as_often_as_it_says(shape, tasks):
    rng = random.Random(tasks)
    truth, held, rounds = shape[0] / sum(shape), 0, 1000
    for _ in range(rounds):
        chances = [rng.betavariate(*shape) for _ in range(tasks)]
        low, high = share_interval([sum(rng.random() < p for _ in range(4)) for p in chances], [4] * tasks)
        held += low <= truth <= high
    assert 0.93 <= held / rounds <= 0.97


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_and_pass_all_k_are_the_shares_of_the_subsets(drawn):
    n, right, k = drawn
    subsets = list(itertools.combinations([True] * right + [False] * (n - right), k))
    assert pass_at_k(right, n, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
    assert pass_all_k(right, n, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))
    with pytest.raises(ValueError, match="k must be from 1"):
        pass_at_k(right, n, n + 1)


def test_what_k_samples_are_worth():
    result = summarise(samples([True, False, False, False], [True] * 4, [False] * 4))
    assert result.tasks == 3
    assert result.pass_at == {1: pytest.approx(5 / 12), 2: pytest.approx(0.5), 4: pytest.approx(2 / 3)}
    assert result.pass_all == {1: pytest.approx(5 / 12), 2: pytest.approx(1 / 3), 4: pytest.approx(1 / 3)}
    assert "pass@4 0.667" in str(result)
    assert "pass^4 0.333" in str(result)
    assert Evaluation.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_the_commonest_answer_is_voted_for():
    answers = [["7", "7", "8", "9"], ["1", "1", "2", "2"], ["4", "5", "5", "5"]]
    right = [[a == "7" for a in answers[0]], [a == "2" for a in answers[1]], [a == "4" for a in answers[2]]]
    assert summarise(samples(*right, answers=answers)).majority == pytest.approx((1 + 0.5 + 0) / 3)
    assert summarise(samples(*right)).majority is None


@pytest.mark.parametrize(
    ("answers", "kind", "expected"),
    [
        (["0.5", "\\frac12", "1/2", "8", "8"], "math", 1.0),  # three votes for one value, which is right
        (["7", "7", "0.25", "1/4", "\\frac{1}{4}"], "math", 0.0),  # and for one that is wrong
        (["7", "7", "0.25", "1/4", "\\frac{1}{4}"], None, 0.0),
        (["7", "7", "1,000", "1000", "1000.0"], "number", 0.0),
        (["7", "7", "abc", "acb", "bca"], "exact", 1.0),  # texts, not products
        (["7", "7", "abc", "acb", "bca"], None, 1.0),
        (["7", "7", "012", "12", "0012"], None, 1.0),
        (["7", "7", "(1, 2)", "(2, 1)", "(1,2)"], "math", 0.5),
        (["7", None, "8", "9", "10"], "math", 0.25),
        (["7", "7", "25\\%", "0.25", "25"], "math", 0.0),  # equal to the first, so one with each other
    ],
)
def test_equal_values_are_one_vote(answers, kind, expected):
    right = [answer in ("7", "0.5", "\\frac12", "1/2") for answer in answers]
    assert majority(answers, right, kind) == expected
    assert majority(answers[::-1], right[::-1], kind) == expected


def test_right_answers_are_one_vote_whatever_exact_rules_can_tell():
    answers = ["\\sin^2 x + \\cos^2 x", "1", "2", "2"]
    assert majority(answers, [True, True, False, False], "math") == 0.5
    assert majority(answers, [True, True, False, False], "countdown") == 0.0  # of many right answers each is its own


def test_the_grader_of_an_environment_is_known():
    assert grader_of("rlvr/GSM8K-v0") == "number"
    assert grader_of("rlvr/MATH-v0") == "math"
    assert grader_of("rlvr/Countdown-v0") == "checked"
    assert grader_of("nobody/Knows-v0") is None


def test_a_vote_of_many_different_answers_has_a_bound(monkeypatch):
    asked = []
    monkeypatch.setattr(votes, "equal_by_value", lambda a, b: bool(asked.append(a)))
    votes._equal.cache_clear()
    answers = [f"{number}.{number}" for number in range(100)]
    assert majority(answers, [False] * 100, "math") == 0.0
    assert len(asked) == votes.MOST_COMPARED
    votes._equal.cache_clear()


def test_tasks_whose_samples_are_copies_are_counted():
    copies = [episode("wrong", task=1) for _ in range(3)]
    assert summarise([*copies, episode("wrong", task=2), episode("wrong", task=2, action="b")]).identical == 1


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980)]
)
def test_students_quantile_is_that_of_the_tables(degrees, quantile):
    assert student(degrees) == pytest.approx(quantile, abs=0.005)


# side by side


def test_a_comparison_is_paired_by_task():
    rng = random.Random(0)
    hard = [rng.random() for _ in range(150)]
    before = [[rng.random() < chance for _ in range(4)] for chance in hard]
    after = [[rng.random() < min(1.0, chance + 0.1) for _ in range(4)] for chance in hard]
    a, b = samples(*before), samples(*after)
    result = compare(a, b)
    assert (result.tasks, result.only_a, result.only_b) == (150, 0, 0)
    assert result.success == pytest.approx(summarise(b).success - summarise(a).success)
    low, high = result.success_interval
    assert low < result.success < high
    apart = sum((summarise(e).high - summarise(e).low) ** 2 for e in (a, b)) ** 0.5
    assert high - low < 0.8 * apart, "what the tasks have in common does not widen it"
    mirrored = compare(b, a)
    assert mirrored.success == pytest.approx(-result.success)
    assert (mirrored.gained, mirrored.lost) == (result.lost, result.gained)
    assert len(result.gained) == sum(sum(y) > sum(x) for x, y in zip(before, after, strict=True))
    json.dumps(result.to_dict())


@pytest.mark.parametrize(("tasks", "value"), [(1, 1.0), (2, 1.0), (5, 0.0), (100, -1.0), (100, 0.5)])
def test_equal_differences_are_not_taken_for_certainty(tasks, value):
    low, high = success_difference_interval([value] * tasks)
    if tasks == 1:
        assert (low, high) == (-math.inf, math.inf)
        return
    # A share p of all tasks may differ by all that a difference can, and still not be among so many: (1 - p)^n = 5 %.
    down, up = (value - low) / (value + 1) if value > -1 else 0, (high - value) / (1 - value) if value < 1 else 0
    for share in {down, up} - {0}:
        assert (1 - share) ** tasks == pytest.approx(0.05)
    assert -1 <= low <= value <= high <= 1
    assert low < high


def test_a_comparison_of_equal_results_says_so():
    a = samples(*[[True]] * 5)
    result = compare(a, a)
    assert result.success_interval == pytest.approx((-0.4507, 0.4507), abs=1e-4)
    assert "no interval: the difference is the same on every task" in str(result)
    assert result.to_dict()["reward_interval"] == [None, None]


def test_a_comparison_leaves_out_faults_and_tasks_of_one_side():
    a = [*samples([True], [False]), episode("env_error", task=7)]
    b = [*samples([True], [True], [True]), episode("correct", 1.0, task=7)]
    result = compare(a, b)
    assert (result.tasks, result.only_a, result.only_b) == (2, 0, 2)
    assert [task.seed for task in result.gained] == [1]
    with pytest.raises(ValueError, match="no task in common"):
        compare(a, [episode("correct", task=99)])


def test_the_interval_of_a_comparison_holds_the_truth_as_often_as_it_says():
    rng = random.Random(5)
    held = 0
    for _ in range(300):
        chances = [rng.uniform(0, 0.9) for _ in range(40)]
        a = samples(*([rng.random() < p for _ in range(2)] for p in chances))
        b = samples(*([rng.random() < p + 0.1 for _ in range(2)] for p in chances))
        low, high = compare(a, b).success_interval
        held += low <= 0.1 <= high
    assert 0.91 <= held / 300 <= 0.98


# graded anew


@pytest.mark.parametrize("env_id", [GUESS, "rlvr/Calculator-v0", "rlvr/VisualCharts-v0"])
def test_a_sound_grader_gives_its_verdicts_again(env_id):
    episodes = Rollout(env_id, RandomAgent(1))(task_requests(None, 6, samples=2))
    regraded = list(regrade(Rollout(env_id, ConstantAgent()), episodes))
    assert sorted(each.before.key for each in regraded) == sorted(episode.key for episode in episodes)
    for each in regraded:
        assert not each.changed
        assert each.same_task
        assert each.after == each.before


def test_changed_verdicts_and_changed_tasks_are_told_apart():
    episodes = Rollout("rlvr/Countdown-v0", ExpertAgent())(task_requests(None, 4))
    stained = [Episode.from_dict(episode.to_dict()) for episode in episodes]
    stained[0].verdict = Verdict(0.0, "wrong")
    stained[1].turns[0].observation = "What is 1 + 1?"
    found = {each.before.index: each for each in regrade(Rollout("rlvr/Countdown-v0", ConstantAgent()), stained)}
    assert [(found[i].changed, found[i].same_task) for i in range(4)] == [
        (True, True), (False, False), (False, True), (False, True)
    ]  # fmt: skip
    assert found[0].after.verdict.status == "correct"
    with pytest.raises(ValueError, match="is an episode of rlvr/Countdown-v0"):
        list(regrade(Rollout(GUESS, ConstantAgent()), stained))


def test_an_episode_that_would_go_on_now_is_invalid_and_one_that_the_agent_ended_stays_so():
    (whole,) = Rollout(GUESS, ExpertAgent())([RolloutRequest(seed=3)])
    assert len(whole.turns) > 1
    short = Episode.from_dict(whole.to_dict())
    del short.turns[-1]
    (found,) = regrade(Rollout(GUESS, ConstantAgent()), [short])
    assert found.after.verdict.status == "env_error"
    assert "no further action" in found.after.verdict.reason
    full = Episode.from_dict(whole.to_dict())
    full.turns[-1].stop, full.turns[-1].action = "context", ""
    full.turns[-1].verdict = full.verdict = Verdict(0.0, "wrong", reason="the context was full before the reply")
    (found,) = regrade(Rollout(GUESS, ConstantAgent()), [full])
    assert (found.after.verdict.status, found.after.truncated) == ("wrong", True)


def test_reading_leaves_a_file_that_is_being_written_as_it_is(tmp_path):
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, [episode("correct", 1.0), episode("wrong")])
    torn = path.read_bytes() + b'{"env_id": "e", "ke'
    path.write_bytes(torn)
    assert len(read_episodes(path)) == 2
    assert path.read_bytes() == torn


def test_figures_are_those_of_the_whole_episodes(tmp_path):
    requests = task_requests(None, 6, samples=2)
    played = Rollout("rlvr/Calculator-v0", RandomAgent(0))(requests) + Rollout("rlvr/SQL-v0", ExpertAgent())(requests)
    for episode in played:
        episode.tokens.append_sampled([1, 2], [-0.5, -0.5])
        episode.training = {"advantages": [1.0, 1.0]}
    write_episodes(tmp_path / "a.jsonl", played)
    held = read_episodes(tmp_path / "a.jsonl", figures_only)
    assert summarise(held) == summarise(played)
    assert summarise(held).usage == summarise(played).usage
    assert compare(held, played) == compare(played, played)
    assert result_table([("a", held)]).to_dict() == result_table([("a", played)]).to_dict()
    assert not any(turn.observation for episode in held for turn in episode.turns)


def test_python_measures_what_the_command_measures(tmp_path, capsys):
    """The test split, a short name, samples and a seed: the episodes are the same."""
    there, here = tmp_path / "there.jsonl", tmp_path / "here.jsonl"
    words = ["eval", "--env", "Countdown", "--agent", "random", "--episodes", "3", "--samples", "2", "--seed", "5"]
    assert main([*words, "--out", str(there)]) == 0
    result = rlvr.evaluate("Countdown", RandomAgent(5), episodes=3, samples=2, seed=5, record=here)
    a, b = ({e.key: e.to_dict() for e in read_episodes(path)} for path in (there, here))
    assert a == b
    assert {episode["split"] for episode in b.values()} == {"test"}
    assert str(result) in capsys.readouterr().out
    assert {e.split for e in read_episodes(here)} == {"test"}
    train = rlvr.evaluate("Countdown", ExpertAgent(), episodes=2, settings={"split": "train"}, record=tmp_path / "t")
    assert (train.success, {e.split for e in read_episodes(tmp_path / "t")}) == (1.0, {"train"})
    with pytest.raises(ValueError, match="did you mean rlvr/Countdown-v0"):
        rlvr.evaluate("Countdwn", ExpertAgent())
    for name in ("samples", "episodes"):
        with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
            rlvr.evaluate("Countdown", ExpertAgent(), **{name: 0})


def test_tokens_and_time_are_said_of_agents_that_have_them(capsys):
    words = ["eval", "--env", "Countdown", "--episodes", "2", "--max-new-tokens", "4"]
    assert main([*words, "--agent", "expert"]) == 0
    out = capsys.readouterr().out
    assert "sampled tokens" not in out  # it deals in text
    assert "time:" not in out  # two runs print the same
    assert main([*words, "--model", "rlvr/tiny"]) == 0
    out = capsys.readouterr().out
    assert "sampled tokens 4.0" in out
    assert re.search(r"^time: [\d.]+ s for 2 new episodes, [\d.]+ s each$", out, re.MULTILINE)
    assert main([*words, "--model", "rlvr/tiny", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["seconds"] > 0
    assert result["new_episodes"] == 2


def test_a_lenient_figure_counts_the_last_number_or_letter_and_is_no_reward():
    class Saying:
        def act(self, conversations):
            return [Reply(next(replies)) for _ in conversations]

    right = Rollout("rlvr/GSM8K-v0", ConstantAgent(), env_settings={"split": "test"}).env.unwrapped
    answers = []
    for index in range(4):
        right.reset(seed=0, options={"index": index})
        answers.append(right.direct_answer().removeprefix("\\boxed{").removesuffix("}"))
    replies = iter(
        [f"It makes {answers[0]} of them.", f"\\boxed{{{answers[1]}}}", "No idea: 1234567.", "<think>" + answers[3]]
    )
    rollout = Rollout("rlvr/GSM8K-v0", Saying(), batch_size=1, env_settings={"split": "test"})
    episodes = []
    strict = evaluate(rollout, task_requests(4, None), on_episode=episodes.append)
    assert (strict.successes, lenient_successes(rollout, episodes)) == (1, 2)
    assert [episode.reward for episode in sorted(episodes, key=lambda e: e.index)] == [0.0, 1.0, 0.0, 0.0]
