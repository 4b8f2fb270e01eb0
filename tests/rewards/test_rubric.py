"""Reward algebra, spurious rewards, shaping by length and language, rewards of groups and turns."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards import BadOption
from rlvr.envs.rewards.groups import (
    diversity,
    pass_at_k,
    pass_at_k_rewards,
    rare_answers,
    turn_rewards,
)
from rlvr.envs.rewards.rubric import Grade, Rubric, Sample, Score, weighted
from rlvr.envs.rewards.shaping import (
    kimi_length,
    l1_exact,
    l1_max,
    language_consistency,
    longest_run,
    repetition,
    soft_overlong,
    stop_properly,
)
from rlvr.envs.rewards.spurious import IncorrectReward, MarkerReward, RandomReward

ANSWER = Grade("number")
SHAPE = Grade("format", tags=("think", "answer"))
RIGHT = "<think>8 * 9</think><answer>72</answer>"
WRONG = "<think>8 * 9</think><answer>73</answer>"
BARE = "\\boxed{72}"


class Broken(Rubric):
    def evaluate(self, sample: Sample) -> Verdict:
        return Verdict(0.0, "verifier_error", reason="down", parts={"broken": 0.0})


# -- algebra


def test_a_weighted_sum_names_its_parts_and_keeps_the_first_status() -> None:
    reward = 0.9 * ANSWER + 0.1 * SHAPE
    assert reward(RIGHT, "72") == Verdict(1.0, "correct", "72", "correct", {"number": 1.0, "format": 1.0})
    assert reward(BARE, "72").reward == pytest.approx(0.9)
    verdict = reward(WRONG, "72")
    assert (verdict.reward, verdict.status, dict(verdict.parts)) == (0.1, "wrong", {"number": 0.0, "format": 1.0})


def test_gate_product_and_clip() -> None:
    gated = ANSWER.gate(SHAPE)
    assert gated(RIGHT, "72").reward == 1
    closed = gated(BARE, "72")
    assert (closed.reward, closed.status) == (0, "wrong")
    assert "gate is closed" in closed.reason
    assert "number" not in closed.parts
    assert ANSWER.gate(SHAPE, otherwise=-1.0)(BARE, "72").reward == -1
    assert (ANSWER * SHAPE)(RIGHT, "72").reward == 1
    assert (ANSWER * SHAPE)(BARE, "72").reward == 0
    assert (2.0 * ANSWER).clip(-1.0, 1.0)(RIGHT, "72").reward == 1
    assert (ANSWER * 3.0 + SHAPE).clip(0.0, 3.5)(RIGHT, "72").reward == 3.5


def test_what_is_not_valid_is_never_counted_as_zero() -> None:
    for reward in (ANSWER + Broken(), ANSWER * Broken(), ANSWER.gate(Broken()), Broken().clip(0, 1), 0.5 * Broken()):
        verdict = reward(RIGHT, "72")
        assert verdict.status == "verifier_error"
        assert not verdict.valid
    assert not (ANSWER + Score("length", lambda sample: 1 / 0))(RIGHT, "72").valid
    assert not Score("length", lambda sample: math.nan)(RIGHT).valid


def test_a_score_sees_the_sample() -> None:
    reward = ANSWER + Score("overlong", lambda sample: soft_overlong(sample.tokens or 0, max_length=100, buffer=50))
    verdict = reward(RIGHT, "72", tokens=75)
    assert (verdict.reward, verdict.parts["overlong"], verdict.status) == (0.5, -0.5, "correct")


def test_weighted_by_name() -> None:
    reward = weighted({"right": ANSWER, "neat": SHAPE}, {"neat": 0.25})
    assert dict(reward(RIGHT, "72").parts) == {"right": 1.0, "neat": 1.0}
    assert reward(RIGHT, "72").reward == 1.25
    nested = weighted({"both": ANSWER + SHAPE})(RIGHT, "72")
    assert dict(nested.parts) == {"both": 2.0, "both.number": 1.0, "both.format": 1.0}
    with pytest.raises(BadOption, match="naet"):
        weighted({"neat": SHAPE}, {"naet": 1.0})


def test_names_that_repeat_are_numbered_and_mistakes_told_early() -> None:
    assert dict((ANSWER + ANSWER)(RIGHT, "72").parts) == {"number": 1.0, "number#2": 1.0}
    with pytest.raises(BadOption):
        Grade("nombre")
    with pytest.raises(BadOption):
        ANSWER.clip(1.0, 0.0)
    with pytest.raises(BadOption):
        math.inf * ANSWER


def test_spurious_rewards_keep_the_true_status() -> None:
    texts = [f"{index} \\boxed{{{72 + index % 2}}}" for index in range(2000)]
    random_reward = RandomReward(ANSWER, probability=0.3, seed=1)
    verdicts = [random_reward(text, "72") for text in texts]
    assert sum(verdict.reward for verdict in verdicts) == pytest.approx(600, abs=80)
    assert sum(verdict.success for verdict in verdicts) == 1000
    assert verdicts == [random_reward(text, "72") for text in texts]
    assert verdicts != [RandomReward(ANSWER, probability=0.3, seed=2)(text, "72") for text in texts]
    assert [IncorrectReward(ANSWER)(text, "72").reward for text in (RIGHT, WRONG, "none")] == [0, 1, 0]
    assert [MarkerReward(ANSWER)(text, "72").reward for text in (RIGHT, WRONG, "none")] == [1, 1, 0]
    assert not RandomReward(Broken())(RIGHT).valid
    assert RandomReward(ANSWER)("\ud800", "72").reward in (0, 1)


# -- length


def test_soft_overlong_is_the_papers_ramp() -> None:
    points = {0: 0.0, 16_384: 0.0, 18_432: -0.5, 20_480: -1.0, 99_999: -1.0}
    assert {length: soft_overlong(length) for length in points} == points
    with pytest.raises(BadOption):
        soft_overlong(1, max_length=10, buffer=20)


def test_kimi_length_reward() -> None:
    assert kimi_length([100, 200, 300], [True, True, True]) == [0.5, 0.0, -0.5]
    assert kimi_length([100, 200, 300], [False, False, False]) == [0.0, 0.0, -0.5]
    assert kimi_length([100, 100], [True, False]) == [0.0, 0.0]
    with pytest.raises(BadOption):
        kimi_length([], [])


def test_l1() -> None:
    assert l1_exact(True, 1000, 2000) == pytest.approx(0.7)
    assert l1_exact(False, 3000, 2000) == pytest.approx(-0.3)
    assert l1_max(True, 2000, 2000) == 0.5
    assert l1_max(True, 0, 10_000) == 1.0
    assert l1_max(True, 10_000, 0) == 0.0
    assert l1_max(False, 0, 10_000) == 0.0
    assert (stop_properly(1.0, False, scale=0.0), stop_properly(1.0, True, scale=0.5, add=-1.0)) == (1.0, -0.5)


# -- language and repetition


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("the answer is seven", "en", 1.0),
        ("答案是七", "zh", 1.0),
        ("the answer 是七", "en", 0.5),
        ("the answer 是七", "zh", 0.5),
        ("ответ семь", "ru", 1.0),
        ("ответ семь", "en", 0.0),
        ("$x^2$ \\alpha 12 ```код```", "en", 1.0),
        ("こんにちは世界", "ja", 1.0),
        ("", "en", 1.0),
    ],
)
def test_language_consistency(text: str, language: str, share: float) -> None:
    assert language_consistency(text, language) == share


def test_an_unknown_language_is_told() -> None:
    with pytest.raises(BadOption, match="xx"):
        language_consistency("", "xx")


def test_repetition() -> None:
    assert repetition("a b c d e f", n=2) == 0.0
    assert repetition("a a a a a", n=2) == -0.75
    assert repetition([1, 2, 1, 2, 1, 2], n=2, weight=2.0) == pytest.approx(-1.2)
    assert repetition("a", n=2) == 0.0
    assert longest_run("aabbbc") == 3
    assert longest_run("") == 0


# -- groups and turns


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_pass_at_k_is_the_average_over_all_subsets(right: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(right)))
    subsets = list(combinations(range(len(right)), k))
    wins = [any(right[index] for index in subset) for subset in subsets]
    assert pass_at_k(len(right), sum(right), k) == pytest.approx(sum(wins) / len(wins))
    for index, reward in enumerate(pass_at_k_rewards(right, k)):
        mine = [win for subset, win in zip(subsets, wins, strict=True) if index in subset]
        assert reward == pytest.approx(sum(mine) / len(mine))


def test_groups_refuse_nonsense() -> None:
    for call in (lambda: pass_at_k(2, 3, 1), lambda: pass_at_k_rewards([True], 2), lambda: diversity(["a"], n=0)):
        with pytest.raises(BadOption):
            call()


def test_diversity_and_rare_answers() -> None:
    assert diversity(["a b c d", "a b c d", "w x y z"]) == [0.5, 0.5, 1.0]
    assert diversity(["a"]) == [0.0]
    assert diversity(["", ""]) == [0.0, 0.0]
    assert rare_answers([correct("1"), wrong("2"), correct("1"), wrong()]) == [0.5, 1.0, 0.5, 0.0]


def test_turn_level_rewards() -> None:
    turns = [Verdict(0.2, "partial"), Verdict(0.0, "env_error"), wrong()]
    assert turn_rewards(turns, correct(), turn_weight=0.5) == [0.1, 0.0, 1.0]
    assert turn_rewards(turns, Verdict(0.0, "timeout")) == [0.2, 0.0, 0.0]
    with pytest.raises(BadOption):
        turn_rewards([], correct())
