"""A verdict that is not valid, in the middle of an episode, ends it as invalid on every surface alike."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest

from rlvr.adapters.spec import EpisodeSession
from rlvr.agents import ConstantAgent, Rollout, RolloutRequest
from rlvr.envs import TextEnv, Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct
from rlvr.envs.rewards.rubric import Score
from rlvr.envs.vector import VectorEnv
from rlvr.envs.wrappers.rewards import RubricReward

NUMBERS = itertools.count()
FAULTS = ("timeout", "verifier_error", "env_error")
PARTIAL = Verdict(0.25, "partial", reason="on")


class Stumbles(Task[int]):
    """Three turns; the second has a verdict of this status and does not end the episode, the third is right."""

    def __init__(self, status: str = "partial") -> None:
        self.middle = Verdict(0.25, status, reason="the middle")

    def start(self, rng, level):
        return 0

    def content(self, state):
        return "one"

    def observe(self, state):
        return f"turn {state}"

    def turns(self, level):
        return 5

    def apply(self, state, action):
        verdict = (PARTIAL, self.middle, correct())[state]
        return Transition(state + 1, verdict, terminated=state == 2)


class Foreign(gym.Env):
    """The same as an environment that is none of ours, and goes on after whatever it says."""

    def __init__(self, status: str = "partial", **kwargs) -> None:
        self.observation_space = self.action_space = Text()
        self.task, self.state = Stumbles(status), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return "turn 0", {"role": "user"}

    def step(self, action):
        self.state, verdict, terminated, _ = self.task.apply(self.state, action)
        return f"turn {self.state}", verdict.reward, terminated, False, {"verdict": verdict, "role": "user"}


def ours(status):
    return TextEnv(Stumbles(status), split=None)


def by_session(make):
    name = f"rlvr-test/Stumbles{next(NUMBERS)}-v0"
    gym.register(name, make)
    try:
        session = EpisodeSession({"env_id": name, "seed": 0})
        for _ in range(3):
            if not session.done:
                session.step("x")
        return session.turns, session.valid, session.reward
    finally:
        del gym.registry[name]


def by_rollout(make):
    (episode,) = Rollout(make, ConstantAgent("x"))([RolloutRequest(seed=0)])
    return len(episode.turns), episode.valid, episode.reward


def by_vector(make):
    vector = VectorEnv(make, 1, backend="sync")
    vector.reset(seed=0)
    total = 0.0
    for turn in (1, 2, 3):  # noqa: B007
        _, rewards, terminated, truncated, infos = vector.step(("x",))
        total += float(rewards[0])
        if np.logical_or(terminated, truncated)[0]:
            break
    vector.close()
    verdict = infos["verdict"][0]
    return turn, verdict.valid, total if verdict.valid else 0.0


@pytest.mark.parametrize("env", [ours, Foreign])
@pytest.mark.parametrize("surface", [by_session, by_rollout, by_vector])
def test_a_fault_in_the_middle_is_the_end(surface, env):
    assert surface(lambda **_: env("partial")) == (3, True, 1.5)  # the control: without the fault it is played on
    for status in FAULTS:
        turns, valid, reward = surface(lambda status=status, **_: env(status))
        assert (turns, valid) == (2, False), status
        assert surface is by_rollout or reward == 0.0


@pytest.mark.parametrize("status", FAULTS)
def test_the_environment_itself_ends_with_it(status):
    env = ours(status)
    env.reset(seed=0)
    env.step("x")
    _, _, terminated, truncated, info = env.step("x")
    assert (terminated, truncated, info["success"]) == (False, True, False)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")


def test_so_does_a_reward_that_cannot_be_given():
    def judged(sample):
        raise RuntimeError("the judge is gone")

    env = RubricReward(ours("partial"), Score("judge", judged), every_turn=True)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("x")
    assert (reward, terminated, truncated, info["verdict"].valid) == (0.0, False, True, False)
