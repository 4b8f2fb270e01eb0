"""What an evaluation, an episode and an environment print, and show in a notebook: what they are, and no markup."""

from __future__ import annotations

import gymnasium as gym
import pytest

from rlvr.agents import ExpertAgent, Rollout, summarise, task_requests
from rlvr.envs.core.verdict import Verdict

HOSTILE = "<script>alert(1)</script>\x1b[31m"


@pytest.fixture
def episode():
    (played,) = Rollout("rlvr/Countdown-v0", ExpertAgent(), env_settings={"split": "test"})(task_requests(None, 1))
    return played


def test_an_episode_says_its_task_and_its_outcome(episode):
    assert str(episode).startswith(
        "rlvr/Countdown-v0 split test level 1 seed 0 index 0 sample 0: correct, reward 1 after"
    )
    shown = episode._repr_html_()
    assert episode.turns[0].observation.split()[0] in shown
    episode.turns[0].action, episode.verdict = HOSTILE, None
    assert "unfinished" in str(episode)
    assert "<script>" not in episode._repr_html_()
    assert "\x1b" not in episode._repr_html_()


def test_an_evaluation_shows_what_it_prints(episode):
    episode.verdict = Verdict(0.0, "env_error", reason=HOSTILE)
    result = summarise([episode])
    assert "nothing is known of the success" in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()
    assert "<script>" not in result._repr_html_()


def test_an_environment_says_what_it_is_and_how_far():
    env = gym.make("rlvr/GuessNumber-v0", split="test", level=2)
    assert str(env) == "<TextEnv<rlvr/GuessNumber-v0> split test, level 2>"
    assert "reset() begins an episode" in env._repr_html_()
    observation, _ = env.reset(seed=0)
    assert "level 2, turn 0 of " in str(env)
    assert observation.split()[0] in env._repr_html_()


def test_without_gymnasiums_wrappers_the_order_of_calls_is_checked():
    env = gym.make("rlvr/GuessNumber-v0", render_mode="ansi")
    for call in (env.render, lambda: env.step("7")):
        with pytest.raises(gym.error.ResetNeeded):
            call()
    env.reset(seed=0)
    assert env.render()
    assert "PassiveEnvChecker" in str(gym.make("rlvr/GuessNumber-v0", disable_env_checker=False))
