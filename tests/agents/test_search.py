"""Search by forks: the best reply of several is acted on, with the policy's own tokens, and nothing else is changed."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import gymnasium as gym
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.episode import RolloutRequest
from rlvr.agents.models.tiny import tiny_policy
from rlvr.agents.models.transformers import TransformersAgent
from rlvr.agents.rollout import Rollout
from rlvr.agents.scripted import ConstantAgent, ExpertAgent, RandomAgent
from rlvr.agents.search import SearchAgent
from rlvr.envs.core.seeding import stream

GUESS = "rlvr/GuessNumber-v0"
REQUESTS = [RolloutRequest(seed=2, index=index) for index in range(6)]


class Sometimes(ExpertAgent):
    """Plays the expert's action in a share of the turns, and nonsense else; counts the turns."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.turns = share, 0

    def act(self, conversations):
        self.turns += len(conversations)
        return [self._one(conversation) for conversation in conversations]

    def _one(self, conversation: Conversation) -> Reply:
        rng: random.Random = stream("sometimes", conversation.key, len(conversation.messages))
        return Reply(self._action(conversation) if rng.random() < self.share else "nonsense")


def successes(agent) -> int:
    return sum(episode.success for episode in Rollout(GUESS, agent)(REQUESTS))


def test_search_solves_what_its_policy_seldom_does():
    assert successes(Sometimes(0.7)) <= 3
    assert successes(SearchAgent(Sometimes(0.7))) == len(REQUESTS)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3))
def test_search_among_the_experts_actions_is_the_expert(simulations: int, replies: int):
    plain = Rollout(GUESS, ExpertAgent())(REQUESTS)
    searched = Rollout(GUESS, SearchAgent(ExpertAgent(), simulations, replies))(REQUESTS)
    assert searched == plain


def test_a_path_that_succeeds_is_played_to_its_end_without_another_playout():
    expert = Sometimes(1.0)
    (episode,) = Rollout(GUESS, SearchAgent(expert))(REQUESTS[:1])
    assert episode.success
    assert expert.turns == len(episode.turns) > 1


def test_without_success_each_turn_is_searched_and_the_environment_stays_where_it_was():
    policy = Sometimes(0.0)
    env = gym.make(GUESS).unwrapped
    observation, _ = env.reset(seed=0)
    conversation = Conversation("key", [{"role": "user", "content": observation}], env=env)
    (reply,) = SearchAgent(policy, simulations=5, replies=2).act([conversation])
    turns = env.task.turns(env.task.level if hasattr(env.task, "level") else 1)
    # two playouts have sampled twice in each state; the others repeat what is known
    assert (reply.text, policy.turns) == ("nonsense", 2 * turns)
    assert env.step("nonsense"), "the environment is where it was"
    assert [message["content"] for message in conversation.messages] == [observation]


def test_graded_returns_rise_too():
    bandit = "rlvr/MultiArmedBandit-v0"
    plain = Rollout(bandit, RandomAgent())(REQUESTS)
    searched = Rollout(bandit, SearchAgent(RandomAgent(), simulations=4))(REQUESTS)
    assert all(found.success or found.reward > alone.reward for found, alone in zip(searched, plain, strict=True))


def test_the_tokens_are_the_policys_own_and_do_not_depend_on_the_batch():
    model, tokenizer = tiny_policy(hidden=16, layers=1)
    agent = SearchAgent(TransformersAgent(model, tokenizer, max_new_tokens=6), simulations=6, replies=2)
    together = Rollout(GUESS, agent)(REQUESTS[:3])
    alone = [Rollout(GUESS, agent)([request])[0] for request in REQUESTS[:3]]
    for episode, other in zip(together, alone, strict=True):
        assert (episode.tokens.ids, episode.tokens.mask) == (other.tokens.ids, other.tokens.mask)
        assert episode.tokens.sampled > 0
        ends = [0, *(turn.end for turn in episode.turns)]
        assert all(sum(episode.tokens.mask[a:b]) > 0 for a, b in pairwise(ends))
        assert [message["role"] for message in episode.messages()][-1] == "assistant"
        # also replies of playouts, which were sampled under other conversations' keys, have the log-probabilities of
        # their place in the episode that came of them
        ids = torch.tensor([episode.tokens.ids])  # [1, T]
        with torch.no_grad():
            logprobs = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]  # [T - 1]
        mask = torch.tensor(episode.tokens.mask[1:], dtype=torch.bool)
        assert logprobs[mask].tolist() == pytest.approx(
            torch.tensor(episode.tokens.logprobs[1:])[mask].tolist(), abs=1e-5
        )


def test_a_full_context_ends_the_episode():
    model, tokenizer = tiny_policy(hidden=16, layers=1)
    agent = SearchAgent(TransformersAgent(model, tokenizer, max_new_tokens=6, max_length=90), replies=2)
    episodes = Rollout(GUESS, agent)(REQUESTS[:2])
    assert all(episode.done and episode.valid for episode in episodes)


@pytest.mark.parametrize(
    "setting", [{"simulations": 0}, {"replies": 0}, {"exploration": -0.1}, {"exploration": math.inf}]
)
def test_settings_out_of_range_are_refused(setting: dict[str, float]):
    with pytest.raises(ValueError, match=next(iter(setting))):
        SearchAgent(ConstantAgent("x"), **setting)


def test_an_environment_that_cannot_fork_is_refused():
    conversation = Conversation("key", [{"role": "user", "content": "?"}])
    with pytest.raises(TypeError, match="search plays on from forks, and None cannot fork"):
        SearchAgent(ConstantAgent("x")).act([conversation])
