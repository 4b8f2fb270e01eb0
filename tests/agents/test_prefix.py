"""A prefix: somebody else's actions are played before the agent is asked, and are a part of its first prompt."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.agents.continuation import branch_points
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.players.self_play import SelfPlayRollout
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ExpertAgent

GUESS = "rlvr/GuessNumber-v0"
IDS = (GUESS, "rlvr/Calculator-v0", "rlvr/Mastermind-v0")
MODEL, TOKENIZER = tiny_policy(hidden=32, layers=1)


def policy(**options: Any) -> TransformersAgent:
    return TransformersAgent(MODEL, TOKENIZER, **{"max_new_tokens": 12, **options})


@cache
def expert(env_id: str, **settings: Any) -> Rollout:
    return Rollout(env_id, ExpertAgent(), **settings)


def shown(env_id: str, seed: int) -> tuple[RolloutRequest, Episode, tuple[str, ...]]:
    """A task, the expert's episode of it, and the actions of that."""
    request = RolloutRequest(seed=seed, index=seed)
    (episode,) = expert(env_id)([request])
    return request, episode, tuple(turn.action for turn in episode.turns)


def played(episode: Episode) -> list[tuple[Any, ...]]:
    return [(turn.observation, turn.role, turn.action, turn.reward) for turn in episode.turns]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(IDS), st.integers(0, 99), st.integers(0, 12), st.sampled_from([0, 2]))
def test_the_expert_behind_its_own_prefix_plays_its_own_episode(env_id: str, seed: int, count: int, workers: int):
    request, whole, actions = shown(env_id, seed)
    (episode,) = expert(env_id, workers=workers)([replace(request, prefix=actions[:count])])
    assert played(episode) == played(whole)
    assert (episode.verdict, episode.key) == (whole.verdict, whole.key)
    assert episode.prefix == min(count, len(actions))
    assert Episode.from_dict(episode.to_dict()) == episode


def test_a_prefix_longer_than_the_episode_is_cut():
    request, whole, actions = shown(GUESS, 3)
    (episode,) = Rollout(GUESS, policy())([replace(request, prefix=(*actions, "more", "more"))])
    assert (episode.prefix, episode.success, episode.tokens.sampled) == (len(whole.turns), True, 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_of_a_prefix_is_sampled(workers: int):
    requests, counts = [], [0, 1, 2, 1]
    for seed, count in enumerate(counts):
        request, _, actions = shown(GUESS, seed + 5)
        requests.append(replace(request, prefix=actions[:count]))
    agent = policy()
    for episode, request in zip(Rollout(GUESS, agent, workers=workers)(requests), requests, strict=True):
        count = len(request.prefix)
        assert [turn.action for turn in episode.turns[:count]] == list(request.prefix)
        assert [turn.end for turn in episode.turns[:count]] == [0] * count
        own = episode.turns[count:]
        assert own, "the policy was asked"
        first = episode.tokens.mask.index(1)
        # the prompt is what a policy that had sampled the prefix itself would have before this turn
        messages = episode.messages()[: len(episode.opening()) + 2 * count + 1]
        reply = {"role": "assistant", "content": ""}
        ids, mask = agent.renderer.render_demonstration([*messages, reply], opening=len(episode.opening()))
        assert episode.tokens.ids[:first] == ids[:first]
        assert len(ids) == first + mask[first:].count(1)
        assert episode.sampled_tokens == episode.tokens.sampled


def test_a_request_without_a_prefix_is_what_it_was():
    request, _, actions = shown(GUESS, 8)
    (alone,) = Rollout(GUESS, policy())([request])
    beside, _ = Rollout(GUESS, policy())([request, replace(request, prefix=actions[:1])])
    # the last bits of log-probabilities depend on how many replies are sampled at once
    assert (alone.tokens.ids, alone.tokens.mask, alone.turns) == (beside.tokens.ids, beside.tokens.mask, beside.turns)
    assert "prefix" not in alone.to_dict()


def test_a_reply_behind_a_prefix_that_was_paused_goes_on():
    request, _, actions = shown(GUESS, 4)
    request = replace(request, prefix=actions[:2])
    (whole,) = Rollout(GUESS, policy())([request])
    rollout = Rollout(GUESS, policy(segment=5))
    (episode,) = rollout([request])
    pauses = 0
    while not episode.done:
        episode, pauses = Episode.from_dict(episode.to_dict()), pauses + 1
        (episode,) = rollout([episode])
    assert pauses > 1
    assert (episode.tokens.ids, episode.tokens.mask) == (whole.tokens.ids, whole.tokens.mask)
    assert (played(episode), episode.prefix) == (played(whole), 2)


def test_a_state_behind_a_prefix_is_played_on_from():
    request, _, actions = shown(GUESS, 6)
    (episode,) = Rollout(GUESS, policy())([replace(request, prefix=actions[:2])])
    rollout = Rollout(GUESS, policy())
    first = episode.tokens.mask.index(1)
    for position in (0, first, first + 2):
        (point,) = branch_points(rollout.env.unwrapped, episode, [position])
        start = point.start("again")
        assert start.conversation.messages == episode.messages()[: len(start.conversation.messages)]
        assert len(start.conversation.messages) == len(episode.opening()) + 5
        prompt = policy().renderer.render(start.conversation)
        assert start.conversation.tokens.ids + prompt == episode.tokens.ids[:first]


def test_self_play_has_no_prefix():
    rollout = SelfPlayRollout("rlvr/KuhnPoker-v0", policy(), env_settings={"opponents": ["self"]})
    with pytest.raises(ValueError, match="self-play begins with no prefix"):
        rollout([RolloutRequest(seed=0, prefix=("check",))])
