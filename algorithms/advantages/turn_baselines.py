"""Turns compared with other turns of their group: of the same turn index, or of the same state. All [B, T]."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from rlvr.agents.driver.episode_loop import options_of, replay
from rlvr.agents.episode import Episode, Turn
from rlvr.algorithms.advantages.gather import ragged_ints, turns
from rlvr.algorithms.advantages.group_baselines import group_z
from rlvr.algorithms.advantages.token_rewards import mask_of, why
from rlvr.algorithms.advantages.turn_returns import returns_of_turns
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import EPS, Groups
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices
from rlvr.envs import TextEnv
from rlvr.envs.core.images import text_of


def turn_rloo(turn_rewards: Any, turn: Any, group: Numbers, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """A_k = G_k - mean of G_k over the others of the group that played turn k (verl#7244). Returns [B, T].

    A turn that no other member played is compared with their whole returns. So no baseline depends on the turn's own
    action, and the gradient is unbiased. Where rewards of turns are normalised per turn index and then summed to go
    (MT-GRPO, 2505.11821), as many means are subtracted as turns follow, and each further turn earns -E[r].

    turn_rewards [B, K]; turn [B, T] ints; group [B] ints. A group of one gives 0 and a warning.
    """
    index, returns, live = returns_of_turns(turn_rewards, turn, mask, gamma)
    episodes = Groups(returns[:, 0], group)  # [B] in Q groups
    episodes.warn_of_ones()
    others = (episodes.size - 1).clamp(min=1)  # [Q]
    # mean_(j != i) G_j0, of whole episodes                            [B]
    whole = (episodes.broadcast(episodes.sum(returns[:, 0])) - returns[:, 0]) / episodes.broadcast(others)
    peers = Groups(returns[live], _turn_ids(episodes.index, live)[live])  # [n] turns by group and index
    size = peers.broadcast(peers.size)  # [n]
    alone = returns[live] - whole[:, None].expand_as(returns)[live]  # [n]
    advantages = torch.zeros_like(returns)  # [B, K]
    # A_k = G_k - mean_(j != i) G_jk = N/(N-1) (G_k - mean_k)      [n] in [B, K]  verl#7244
    advantages[live] = torch.where(size > 1, peers.centred() * size / (size - 1).clamp(min=1), alone)
    grouped = episodes.broadcast(episodes.size) > 1  # [B]
    return index.broadcast(torch.where(grouped[:, None], advantages, 0))


def gigpo(
    rewards: Tensor,
    turn_rewards: Any,
    turn: Any,
    state: Any,
    group: Numbers,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    omega: float = 1.0,
    eps: float = EPS,
) -> Tensor:
    """Group in group (GiGPO, 2505.10978): A_k = A^E + omega A^S_k. Returns [B, T].

    A^E = (R - mean) / (std + eps) over the group's episodes, A^S_k = (G_k - mean) / (std + eps) over the turns of the
    group that begin in the same state, with G_k = sum_{j >= k} gamma^(j - k) r_j. A state met once adds 0.

    rewards [B], turn_rewards [B, K], turn [B, T] ints, group [B] ints; state [B, K] ints, equal for turns that begin
    in the same state.

    Raises:
        ValueError: an entry is misshapen or not finite.
    """
    index, returns, live = returns_of_turns(turn_rewards, turn, mask, gamma)
    state = torch.as_tensor(state, device=mask.device)
    if state.shape != returns.shape or state.is_floating_point():
        raise ValueError(f"state must hold integers of shape {tuple(returns.shape)}, not {tuple(state.shape)}")
    episode = group_z(rewards, group, eps=eps).to(returns)  # [B]
    of_group = torch.as_tensor(group, device=mask.device)[:, None].expand_as(state)  # [B, K]
    _, same_state = torch.unique(torch.stack([of_group[live], state[live]]), dim=1, return_inverse=True)  # [n]
    anchored = Groups(returns[live], same_state)  # [n] turns by group and state
    advantages = episode[:, None].expand_as(returns).clone()  # [B, K]
    # A_k = A^E + omega (G_k - mean_s) / (std_s + eps)             [n] in [B, K]  GiGPO, 2505.10978
    advantages[live] += omega * anchored.centred() / (anchored.broadcast(anchored.std()) + eps)
    return index.broadcast(advantages)


def _turn_ids(group_index: Tensor, live: Tensor) -> Tensor:
    """[B, K]: one number for each pair of a group and a turn index."""
    count = live.shape[1]
    return group_index[:, None] * count + torch.arange(count, device=live.device)


def observed_states(played: Played, sources: Sources) -> dict[str, Any]:
    """state [B, K]: equal where the policy was shown the same observation, its image included."""
    return {"state": _numbered([[(turn.observation, turn.image) for turn in e.turns] for e in played.episodes])}


def true_states(played: Played, sources: Sources) -> dict[str, Any]:
    """state [B, K]: equal where the environment's snapshots are, which are had by playing the actions again.

    A snapshot counts its turns, as the turns that are left are part of the state. A state that cannot be had or
    compared is equal to no other, with a warning.
    """
    resets: dict[str, tuple[TextEnv, Any]] = {}  # one a task: a world may cost more than an episode in it
    states = [list(_snapshots(sources.env, episode, resets)) for episode in played.episodes]  # [B] of at most [K]
    missing = [len(e.turns) - len(keys) for e, keys in zip(played.episodes, states, strict=True)]
    if any(missing):
        warnings.warn(
            f"the state before {sum(missing)} of {sum(len(e.turns) for e in played.episodes)} turns cannot be had by "
            "playing the episode again: each counts as a state met once; gigpo compares observations instead",
            stacklevel=2,
        )
    for keys, count in zip(states, missing, strict=True):
        keys += [object() for _ in range(count)]
    return {"state": _numbered(states)}


def _snapshots(env: Any, episode: Episode, resets: dict[str, tuple[TextEnv, Any]]) -> Iterator[Hashable]:
    """What can be compared of the state before each turn, until the environment fails or plays differently."""
    if not isinstance(env, TextEnv):
        return
    turns = _played_again(env, episode, resets)
    while True:
        try:
            turn, observation, snapshot = next(turns)
        except StopIteration:
            return
        except Exception:  # a task raises anything in its calls; the run goes on, and says how many states are missing
            return
        key = (snapshot.turn, snapshot.state)
        if text_of(observation) != turn.observation or not _hashable(key):
            return
        yield key


def _played_again(
    env: TextEnv, episode: Episode, resets: dict[str, tuple[TextEnv, Any]]
) -> Iterator[tuple[Turn, Any, Any]]:
    task = f"{episode.seed} {options_of(episode)}"
    if task not in resets:
        fresh = env.spawn()
        resets[task] = fresh, fresh.reset(seed=episode.seed, options=options_of(episode))[0]
    source, first = resets[task]
    twin = source.fork()
    for turn, observation in replay(twin, episode, first):
        yield turn, observation, twin.get_state()


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _numbered(states: Sequence[Sequence[Hashable]]) -> Tensor:
    """[B, K] ints, equal where the states are; by equality, so that no two different states share a number."""
    number: dict[Hashable, int] = {}
    return ragged_ints([[number.setdefault(state, len(number)) for state in states_of] for states_of in states])


def _turn_rloo(x: AdvantageInputs, p: Choices) -> Tensor:
    turn_rewards, turn = (x.need(name, why(p)) for name in ("turn_rewards", "turn"))
    return turn_rloo(turn_rewards, turn, x.need("group", why(p)), mask_of(x, p), gamma=p.gamma)


def _gigpo(x: AdvantageInputs, p: Choices) -> Tensor:
    turn_rewards, turn, state = (x.need(name, why(p)) for name in ("turn_rewards", "turn", "state"))
    rewards, group = (x.need(name, why(p)) for name in ("rewards", "group"))
    return gigpo(rewards, turn_rewards, turn, state, group, mask_of(x, p), gamma=p.gamma)


TURN_RLOO = Advantage(
    "turn_rloo",
    "return of the turn - mean of the others' at that turn",
    _turn_rloo,
    "verl#7244",
    needs=("mask", "turn", "turn_rewards"),
    gather=(turns,),
    per_token=True,
)
GIGPO = Advantage(
    "gigpo",
    "z of R in the group + z of the turn's return among equal observations",
    _gigpo,
    "2505.10978",
    needs=("mask", "turn", "turn_rewards", "state"),
    gather=(turns, observed_states),
    per_token=True,
)
GIGPO_STATE = Advantage(
    "gigpo_state",
    "z of R in the group + z of the turn's return among equal true states",
    _gigpo,
    "2505.10978",
    needs=("mask", "turn", "turn_rewards", "state"),
    gather=(turns, true_states),
    per_token=True,
)
