"""The critic reads the state before each token, learns returns, and comes back from a checkpoint as it was."""

from __future__ import annotations

import torch

from rlvr.agents.conversation import TokenSequence
from rlvr.agents.models.tiny import tiny_policy
from rlvr.algorithms.advantages import compute_advantages
from rlvr.algorithms.config import CriticSection
from rlvr.algorithms.learner.critic import Critic
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.recipe.presets import PRESETS

MODEL, TOKENIZER = tiny_policy(hidden=32, layers=1)
ROWS = [
    TokenSequence(list(b"1+1? 2"), [0, 0, 0, 0, 1, 1], [0.0] * 4 + [-1.0] * 2),
    TokenSequence(list(b"2+3? 345"), [0, 0, 0, 0, 1, 1, 1, 1], [0.0] * 4 + [-1.0] * 4),
]


def made(**settings) -> tuple[Critic, Learner]:
    learner = Learner(MODEL, PRESETS["ppo"], pad_id=0, max_length=32)
    return Critic(MODEL.config.hidden_size, CriticSection(**settings), seed=1), learner


def test_the_state_before_a_token_does_not_see_it():
    critic, learner = made()
    before, last = critic.features(learner, ROWS)
    changed = TokenSequence([*ROWS[1].ids[:6], 65, *ROWS[1].ids[7:]], ROWS[1].mask, ROWS[1].logprobs)
    other, _ = critic.features(learner, [ROWS[0], changed])
    torch.testing.assert_close(other[1, :7], before[1, :7])
    assert not torch.allclose(other[1, 7], before[1, 7])
    alone, alone_last = critic.features(learner, [ROWS[0]])
    torch.testing.assert_close(alone[0], before[0, :6])  # padding changes nothing
    torch.testing.assert_close(alone_last[0], last[0])
    assert (before[:, 0] == 0).all()


def test_the_features_are_the_policys_hidden_states():
    critic, learner = made()
    before, last = critic.features(learner, ROWS[1:])
    with torch.no_grad():
        hidden = MODEL.model(input_ids=torch.tensor([ROWS[1].ids])).last_hidden_state[0]
    torch.testing.assert_close(before[0, 1:], hidden[:-1])
    torch.testing.assert_close(last[0], hidden[-1])


def batch_of(critic: Critic, learner: Learner) -> dict:
    features, _ = critic.features(learner, ROWS)
    mask = torch.zeros(2, 8, dtype=torch.bool)
    mask[0, 4:6] = mask[1, 4:8] = True
    with torch.no_grad():
        return {"features": features, "values": critic(features), "mask": mask}


def test_the_first_advantages_are_the_returns_and_values_learn_them():
    critic, learner = made(lr=1e-2, epochs=1)
    preset = PRESETS["ppo"].replace(whiten=False, value_clip=None)
    rewards = torch.tensor([1.0, -1.0])
    batch = batch_of(critic, learner)
    advantages = compute_advantages(rewards, [0, 1], preset, batch)
    torch.testing.assert_close(advantages, rewards[:, None] * batch["mask"])
    first = critic.learn(rewards, preset, batch)
    for _ in range(150):
        stats = critic.learn(rewards, preset, batch_of(critic, learner))
    assert stats["value_loss"] < 0.01 < first["value_loss"]
    values = batch_of(critic, learner)["values"]
    torch.testing.assert_close(
        values[batch["mask"]], (rewards[:, None] * batch["mask"])[batch["mask"]], atol=0.2, rtol=0
    )
    assert stats["explained_variance"] > 0.95


def test_the_policy_gets_no_gradient_from_the_critic():
    critic, learner = made()
    critic.learn(torch.tensor([1.0, 0.0]), PRESETS["ppo"], batch_of(critic, learner))
    assert all(parameter.grad is None for parameter in MODEL.parameters())


def test_a_critic_comes_back_as_it_was():
    critic, learner = made()
    rewards, preset = torch.tensor([1.0, -1.0]), PRESETS["ppo"]
    critic.learn(rewards, preset, batch_of(critic, learner))
    other, _ = made()
    other.load_tensors(
        {name: tensor.clone() for name, tensor in critic.tensors().items()}, critic.optimiser.state_dict()
    )
    for one in (critic, other):
        one.learn(rewards, preset, batch_of(one, learner))
    ours, theirs = critic.tensors(), other.tensors()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
