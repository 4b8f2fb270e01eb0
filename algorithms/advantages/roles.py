"""Advantages by role, as self-play needs them: a running mean of returns (RAE), and returns of turns (MARSHAL)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rlvr.algorithms.advantages.gather import turns
from rlvr.algorithms.advantages.token_rewards import mask_of, why
from rlvr.algorithms.advantages.turn_returns import returns_of_turns
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import Groups, as_rewards
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices


class RoleBaselines:
    """One running mean of returns per role (SPIRAL's role-conditioned advantage estimation, 2506.24119).

    A = R - b, with b read *before* it moves: b <- decay b + (1 - decay) R, from 0. A role is any hashable, for instance
    (game, player). Rows are taken in order. Save `state_dict()` with the run.
    """

    def __init__(self, decay: float = 0.95, values: Mapping[Hashable, float] | None = None) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay={decay} must lie in [0, 1)")
        self.decay = decay
        self.values: dict[Hashable, float] = dict(values or {})

    def advantages(self, rewards: Numbers, roles: Sequence[Hashable]) -> Tensor:
        """[B] -> [B]; moves the baselines."""
        rewards = as_rewards(rewards)
        if len(roles) != len(rewards):
            raise ValueError(f"{len(roles)} roles for {len(rewards)} rewards: one per sequence is needed")
        out = torch.zeros_like(rewards)  # [B]
        for i, (role, reward) in enumerate(zip(roles, rewards.tolist(), strict=True)):
            before = self.values.get(role, 0.0)  # read before it moves, or A would be shrunk by 1 - decay
            # A_i = R_i - b_role, then b <- decay b + (1 - decay) R_i     [B]  RAE, 2506.24119
            out[i] = reward - before
            self.values[role] = self.decay * before + (1 - self.decay) * reward
        return out

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: {"decay": d, "values": [[role, baseline], ...]}."""
        return {"decay": self.decay, "values": [[role, value] for role, value in self.values.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.decay = state["decay"]
        # JSON has no tuples
        self.values = {tuple(role) if isinstance(role, list) else role: value for role, value in state["values"]}


def one_role(played: Played, sources: Sources) -> dict[str, Any]:
    """roles [B], role_baselines: one role for each environment, level and, in self-play, seat."""
    roles = [
        ", ".join(
            [episode.env_id, f"level {episode.level}", *([role] if (role := episode.training.get("role")) else [])]
        )
        for episode in played.episodes
    ]  # [B]
    return {"roles": roles, "role_baselines": sources.role_baselines}


def _rae(x: AdvantageInputs, p: Choices) -> Tensor:
    baselines: RoleBaselines = x.need("role_baselines", why(p))
    return baselines.advantages(x.need("rewards", why(p)), x.need("roles", why(p)))


RAE = Advantage(
    "rae",
    "R - running mean of the role",
    _rae,
    "2506.24119",
    needs=("roles", "role_baselines"),
    gather=(one_role,),
)


def role_turn_returns(
    turn_rewards: Numbers, turn: Numbers, roles: Sequence[Hashable], mask: Tensor, *, gamma: float = 1.0
) -> Tensor:
    """Returns of turns, centred over the turns of their role (MARSHAL, 2510.15414). Returns [B, T].

    A_k = G_k - mean of G over all turns of the role in the batch, with G_k = sum_{j >= k} gamma^(j - k) r_j. A turn
    counts once, whatever its length. The authors' code takes the mean over distinct values of G, so that it does not
    depend on how often each occurs; here every turn counts.

    Args:
        turn_rewards: [B, K].
        turn: [B, T] ints, the turn of each trained token.
        roles: B of them, any hashables.

    Raises:
        ValueError: not one role per sequence, or an entry is misshapen or not finite.
    """
    if len(roles) != len(mask):
        raise ValueError(f"{len(roles)} roles for {len(mask)} sequences: one per sequence is needed")
    index, returns, live = returns_of_turns(turn_rewards, turn, mask, gamma)
    number = {role: i for i, role in enumerate(dict.fromkeys(roles))}
    of_role = torch.tensor([number[role] for role in roles], device=mask.device)[:, None].expand_as(live)  # [B, K]
    centred = torch.zeros_like(returns)  # [B, K]
    # A_k = G_k - mean of G over the turns of the role             [B, K] -> [B, T]  MARSHAL, 2510.15414
    centred[live] = Groups(returns[live], of_role[live]).centred()
    return index.broadcast(centred)


def _role_turns(x: AdvantageInputs, p: Choices) -> Tensor:
    turn_rewards, turn, roles = (x.need(name, why(p)) for name in ("turn_rewards", "turn", "roles"))
    return role_turn_returns(turn_rewards, turn, roles, mask_of(x, p), gamma=p.gamma)


ROLE_TURNS = Advantage(
    "role_turns",
    "returns of turns - their mean over the role",
    _role_turns,
    "2510.15414",
    needs=("mask", "turn", "turn_rewards", "roles"),
    gather=(turns, one_role),
    per_token=True,
    kl_per_token=True,
)
