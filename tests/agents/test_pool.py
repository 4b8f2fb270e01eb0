"""The pool of earlier policies: whom each rule draws, how win rates are kept, and what a checkpoint remembers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rlvr.agents.players.pool import OpponentPool


def pool_with(rule, shares, keep=8, matches=200):
    """A pool whose members have lost these shares of many matches."""
    pool = OpponentPool(rule, keep)
    for step, share in shares.items():
        pool.add(step)
        for _ in range(matches):
            pool.add_result(step, share)
    return pool


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("latest", {10: 0, 20: 0, 30: 1}),
        ("uniform", {10: 1 / 3, 20: 1 / 3, 30: 1 / 3}),
        # (1 - x)^2 = .01, .16, .64 of .81
        ("pfsp", {10: 0.01 / 0.81, 20: 0.16 / 0.81, 30: 0.64 / 0.81}),
        # x (1 - x) = .09, .24, .16 of .49
        ("pfsp_variance", {10: 0.09 / 0.49, 20: 0.24 / 0.49, 30: 0.16 / 0.49}),
    ],
)
def test_each_rule_draws_with_the_probabilities_of_its_formula(rule, expected):
    pool = pool_with(rule, {10: 0.9, 20: 0.6, 30: 0.2})
    assert pool.probabilities() == pytest.approx(expected)
    draws = Counter(pool.draw("match", number) for number in range(6000))
    for step, chance in expected.items():
        assert draws[step] / 6000 == pytest.approx(chance, abs=0.025)  # four standard errors


def test_equal_keys_meet_the_same_member_and_seeds_draw_for_themselves():
    pool = pool_with("uniform", dict.fromkeys(range(8), 0.5))
    keys = range(50)
    draws = [pool.draw("match", key) for key in keys]
    assert draws == [pool.draw("match", key) for key in keys]
    other = OpponentPool("uniform", 8, seed=1)
    other.load_state_dict(pool.state_dict())
    assert draws != [other.draw("match", key) for key in keys]


def test_without_members_or_with_weights_of_zero():
    assert OpponentPool("pfsp", 2).draw("match") is None
    assert OpponentPool("pfsp", 2).probabilities() == {}
    assert pool_with("pfsp", {1: 1.0, 2: 1.0}).probabilities() == {1: 0.5, 2: 0.5}
    pool = pool_with("pfsp", {1: 1.0})
    pool.add(2)  # not met yet, so taken for even
    assert pool.probabilities() == {1: 0.0, 2: 1.0}


def test_later_matches_weigh_more_and_the_oldest_leaves():
    pool = OpponentPool("pfsp", 2)
    assert pool.add(1) == []
    pool.add_result(1, 1.0)
    pool.add_result(1, 0.0)
    # (0.99 x 1 + 0) / (0.99 + 1)
    assert pool.records[1].won == pytest.approx(0.99 / 1.99)
    assert pool.records[1].matches == 2
    assert pool.add(2) == []
    assert pool.add(3) == [1]
    pool.add_result(1, 1.0)
    assert list(pool.records) == [2, 3]


def test_a_checkpoint_brings_back_the_same_draws():
    pool = pool_with("pfsp", {1: 0.3, 2: 0.7, 3: 0.5})
    other = OpponentPool("pfsp", 8)
    other.load_state_dict(json.loads(json.dumps(pool.state_dict())))
    assert other.figures() == pool.figures()
    assert [other.draw(key) for key in range(50)] == [pool.draw(key) for key in range(50)]


def test_what_is_no_rule_or_keeps_nobody_is_refused():
    with pytest.raises(ValueError, match="there are latest, uniform, pfsp, pfsp_variance"):
        OpponentPool("elo", 2)
    with pytest.raises(ValueError, match="at least one policy, not 0"):
        OpponentPool("pfsp", 0)
