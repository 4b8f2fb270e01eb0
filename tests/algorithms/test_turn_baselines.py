"""Turns beside turns of their group: against plain loops, against an enumerated chain, and on episodes as played."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.agents.conversation import Reply
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.algorithms.advantages import gigpo, turn_rloo
from rlvr.algorithms.advantages.turn_baselines import observed_states, true_states
from rlvr.algorithms.recipe.advantage import Played, Sources
from rlvr.algorithms.train.run import Trainer

from .runs import Callback, differences, small, stop_and_resume

EPISODE = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, -0.5, 0.25]), st.integers(0, 2), st.integers(1, 2)), min_size=1, max_size=4
)


def padded(episodes: list[list[tuple[float, int, int]]]) -> dict[str, torch.Tensor]:
    """Turns of (reward, state, tokens), with a masked token after each turn, as entries of a batch."""
    width, turns = 13, max(map(len, episodes))
    entries = {
        "turn_rewards": torch.zeros(len(episodes), turns, dtype=torch.float64),
        "state": torch.zeros(len(episodes), turns, dtype=torch.long),
        "turn": torch.zeros(len(episodes), width, dtype=torch.long),
        "mask": torch.zeros(len(episodes), width, dtype=torch.bool),
    }
    for i, episode in enumerate(episodes):
        at = 0
        for k, (reward, state, tokens) in enumerate(episode):
            entries["turn_rewards"][i, k], entries["state"][i, k] = reward, state
            entries["turn"][i, at : at + tokens + 1], entries["mask"][i, at : at + tokens] = k, True
            at += tokens + 1
    return entries


def returns_of(episode: list[tuple[float, int, int]], gamma: float) -> list[float]:
    out = [0.0]
    for reward, _, _ in reversed(episode):
        out.insert(0, reward + gamma * out[0])
    return out[:-1]


def z(value: float, values: list[float]) -> float:
    if max(values) == min(values):
        return 0.0
    return (value - statistics.fmean(values)) / (statistics.stdev(values) + 1e-6)


def per_token(advantages: list[list[float]], entries: dict[str, torch.Tensor]) -> torch.Tensor:
    rows = [
        [row[turn] if trained else 0.0 for turn, trained in zip(turns, mask, strict=True)]
        for row, turns, mask in zip(advantages, entries["turn"].tolist(), entries["mask"].tolist(), strict=True)
    ]
    return torch.tensor(rows, dtype=torch.float64)


@settings(max_examples=60)
@given(st.lists(st.tuples(EPISODE, st.integers(0, 1)), min_size=2, max_size=6), st.sampled_from([1.0, 0.9]))
@pytest.mark.filterwarnings("ignore:.*groups have one sequence")
def test_both_are_their_definitions(batch: list[tuple[list, int]], gamma: float):
    episodes, group = [episode for episode, _ in batch], [g for _, g in batch]
    entries = padded(episodes)
    returns = [returns_of(episode, gamma) for episode in episodes]
    totals = [sum(reward for reward, _, _ in episode) for episode in episodes]
    by_state, by_index = [], []
    for i, episode in enumerate(episodes):
        members = [j for j in range(len(episodes)) if group[j] == group[i]]
        others = [j for j in members if j != i]
        outcome = z(totals[i], [totals[j] for j in members])
        by_state.append([])
        by_index.append([])
        for k, (_, state, _) in enumerate(episode):
            same = [returns[j][n] for j in members for n, turn in enumerate(episodes[j]) if turn[1] == state]
            by_state[-1].append(outcome + z(returns[i][k], same))
            peers = [returns[j][k] for j in others if k < len(returns[j])] or [returns[j][0] for j in others]
            by_index[-1].append(returns[i][k] - statistics.fmean(peers) if peers else 0.0)
    arguments = (entries["turn_rewards"], entries["turn"])
    rewards = torch.tensor(totals, dtype=torch.float64)
    given_state = gigpo(rewards, *arguments, entries["state"], group, entries["mask"], gamma=gamma)
    torch.testing.assert_close(given_state, per_token(by_state, entries), atol=1e-6, rtol=0)
    given_index = turn_rloo(*arguments, group, entries["mask"], gamma=gamma)
    torch.testing.assert_close(given_index, per_token(by_index, entries), atol=1e-6, rtol=0)


def normalised_per_index(turn_rewards: torch.Tensor, played: torch.Tensor) -> torch.Tensor:
    """The biased form: rewards less the mean of their turn index among those that played it, summed to go. [B, K]."""
    mean = (turn_rewards * played).sum(0) / played.sum(0).clamp(min=1)
    return ((turn_rewards - mean) * played).flip(1).cumsum(1).flip(1)


def test_the_gradient_is_unbiased_where_the_policy_chooses_to_end():
    """All groups of two on a chain: ending pays 0, each further turn costs .3, at most three turns, p = .5 to go on.

    The advantage of going on at turn 0 is -.3 - .15 = -.45 below ending, so the gradient of the logit is p (1 - p)
    times that. Where rewards are normalised per index, what the further turns cost is taken away again.
    """
    p, cost = 0.5, -0.3
    # chance, actions (1 goes on), rewards
    paths = [(1 - p, [0], [0.0]), (p * (1 - p), [1, 0], [cost, 0.0]), (p * p, [1, 1], [cost, cost])]
    unbiased = biased = 0.0
    for first, second in itertools.product(paths, paths):
        width = 2
        rewards = torch.tensor([r + [0.0] * (width - len(r)) for _, _, r in (first, second)], dtype=torch.float64)
        played = torch.tensor([[k < len(r) for k in range(width)] for _, _, r in (first, second)])
        turn = torch.arange(width).expand(2, width)
        score = first[1][0] - p  # d log p(action of turn 0) / d logit
        chance = first[0] * second[0]
        unbiased += chance * score * turn_rloo(rewards, turn, [0, 0], played)[0, 0].item()
        biased += chance * score * normalised_per_index(rewards, played)[0, 0].item()
    true = p * (1 - p) * (cost + p * cost)
    assert unbiased == pytest.approx(true)
    assert biased > 0.6 * true  # 0.6 of the slope of a cost is less of it: the rest is the hidden bonus


class Scripted:
    """Plays the actions that each member of a group is given."""

    def __init__(self, actions: list[list[str]]) -> None:
        self.actions = actions

    def act(self, conversations):
        return [
            Reply(self.actions[int(c.key.split("/")[-2])][sum(m["role"] == "assistant" for m in c.messages)])
            for c in conversations
        ]


def walks(env_id: str, actions: list[list[str]]) -> tuple[gym.Env, list[Episode]]:
    rollout = Rollout(env_id, Scripted(actions), env_settings={"max_turns": len(actions[0])})
    requests = [RolloutRequest(seed=0, index=0, sample=sample) for sample in range(len(actions))]
    return rollout.env.unwrapped, rollout(requests)


def test_states_are_equal_however_they_were_reached():
    left, right, down, up = (rf"\boxed{{{move}}}" for move in ("left", "right", "down", "up"))
    # the first two walk into an edge once, so after three turns they stand in the same cell
    routes = [[left, right, right, up], [right, down, right, up], [right, left, right, up]]
    env, episodes = walks("rlvr/FrozenLake-v0", routes)
    played, sources = Played(episodes, [0.0] * 3), Sources(None, None, env, None, None)
    for gather in (observed_states, true_states):
        state = gather(played, sources)["state"]  # [3, 4]
        assert len(set(state[:, 0].tolist())) == 1
        assert state[1, 1] == state[2, 1] != state[0, 1]
        assert state[0, 3] == state[1, 3] != state[2, 3]


def test_an_observation_may_hide_the_state():
    guesses = [[rf"\boxed{{{n}}}" for n in row] for row in ((84, 80), (83, 80))]  # both too high
    env, episodes = walks("rlvr/GuessNumber-v0", guesses)
    played, sources = Played(episodes, [0.0] * 2), Sources(None, None, env, None, None)
    shown, true = observed_states(played, sources)["state"], true_states(played, sources)["state"]
    assert episodes[0].turns[1].observation == episodes[1].turns[1].observation
    assert shown[0, 1] == shown[1, 1]
    assert true[0, 0] == true[1, 0]
    assert true[0, 1] != true[1, 1]


def test_states_that_cannot_be_had_are_met_once():
    env, episodes = walks("rlvr/FrozenLake-v0", [[r"\boxed{right}"] * 3] * 2)
    episodes[1].turns[1].observation = "another the second time"
    sources = Sources(None, None, env, None, None)
    with pytest.warns(UserWarning, match="before 2 of 6 turns cannot be had by playing the episode again"):
        state = true_states(Played(episodes, [0.0] * 2), sources)["state"]
    assert state[0, 0] == state[1, 0]
    assert state[0, 1] != state[1, 1]
    assert len(set(state.flatten().tolist())) == 5
    other = gym.make("rlvr/GuessNumber-v0").unwrapped
    episodes[0].level = 99  # no reset takes it
    for env, count in ((gym.Env(), 6), (other, 6)):
        with pytest.warns(UserWarning, match=f"before {count} of 6 turns"):
            true_states(Played(episodes, [0.0] * 2), Sources(None, None, env, None, None))


def test_misshapen_states_are_refused():
    entries = padded([[(1.0, 0, 1), (0.0, 1, 1)]] * 2)
    with pytest.raises(ValueError, match="state must hold integers"):
        gigpo(
            torch.ones(2), entries["turn_rewards"], entries["turn"], torch.zeros(2, 3).long(), [0, 0], entries["mask"]
        )


@pytest.mark.slow
def test_a_run_with_true_states_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    changes = {"algorithm": "gigpo_state", "overrides": {"kl_coef": 0.05}}
    Trainer(small(tmp_path / "whole", **changes), Callback()).run()
    stop_and_resume(tmp_path / "broken", 3, monkeypatch, **changes)
    assert differences(tmp_path / "broken", tmp_path / "whole") == []
