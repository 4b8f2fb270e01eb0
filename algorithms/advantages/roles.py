"""RAE: one running mean of returns per role, as self-play needs it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rlvr.algorithms._torch import Tensor, torch
from rlvr.algorithms.advantages.base import Advantage, Played, Sources, why
from rlvr.algorithms.advantages.groups import as_rewards
from rlvr.algorithms.advantages.inputs import AdvantageInputs
from rlvr.algorithms.choices import Choices


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

    def advantages(self, rewards: Any, roles: Sequence[Hashable]) -> Tensor:
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
        """Go on with these baselines."""
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
    return baselines.advantages(x.rewards, x.need("roles", why(p)))


RAE = Advantage(
    "rae",
    "R - running mean of the role",
    _rae,
    "2506.24119",
    needs=("roles", "role_baselines"),
    gather=(one_role,),
)
