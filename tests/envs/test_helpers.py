"""What all rooms share: the verdict of a fault, hints for a wrong name, options of ``reset``, what is inside an env."""

from __future__ import annotations

import gymnasium as gym
import pytest

import rlvr  # noqa: F401  (registers the environments)
from rlvr.envs.core.hints import check_reset_options, did_you_mean
from rlvr.envs.core.registry import size_of, without_checkers
from rlvr.envs.core.verdict import MAX_REASON, env_error
from rlvr.envs.wrappers import LengthLimit


def test_a_fault_is_an_invalid_verdict_that_names_what_failed():
    verdict = env_error(KeyError("row 7"), "the grader")
    assert (verdict.status, verdict.reward, verdict.valid) == ("env_error", 0.0, False)
    assert verdict.reason == "the grader: KeyError: 'row 7'"
    late = env_error("no answer within 5 seconds", timeout=True)
    assert (late.status, late.reason, late.valid) == ("timeout", "no answer within 5 seconds", False)
    assert len(env_error("x" * 10_000).reason) == MAX_REASON


def test_a_wrong_name_gets_the_nearest_or_all():
    assert did_you_mean("indx", ("index", "split")) == "; did you mean 'index'?"
    assert did_you_mean("zzz", ("index", "split")) == "; there are index, split"


def test_options_of_reset_are_copied_and_an_unknown_one_is_refused():
    given = {"index": 3}
    taken = check_reset_options(given, ("index", "split"))
    assert taken == given
    assert taken is not given
    assert check_reset_options(None, ("index",)) == {}
    with pytest.raises(ValueError, match=r"reset has no option 'indx'; did you mean 'index'\?"):
        check_reset_options({"indx": 3}, ("index", "split"))


def test_what_is_inside_of_an_environment():
    made = gym.make("rlvr/Countdown-v0", disable_env_checker=False)
    assert made is not made.unwrapped
    assert without_checkers(made) is made.unwrapped
    limited = LengthLimit(made, reply=100)
    assert without_checkers(limited) is limited
    assert size_of(limited) is None
