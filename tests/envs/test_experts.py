"""Experts use what the policy has seen: what they ask tools for stands in the transcript before."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_expert_of_world_search_searches_for_what_it_has_read(level: int) -> None:
    env = gym.make("rlvr/WorldSearch-v0", disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    for index in range(12):
        transcript, _ = env.reset(seed=11, options={"level": level, "index": index})
        over = False
        while not over:
            action = env.solve()
            for words in re.findall(r'"(?:query|title)": ?"([^"]+)"', action):
                assert words.lower() in transcript.lower(), (words, transcript)
            answer = re.search(r"\\boxed\{(.*)\}", action)
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            assert answer is None or reward == 1.0
            transcript += f"\n{observation}"
