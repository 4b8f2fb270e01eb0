"""Advantages per token from returns: REINFORCE, REINFORCE++, GAE. All [B, T], padded, 0 where masked.

Masked tokens (tools, observations, padding) are not steps of the policy: every recursion skips them, without a decay,
and a reward that stands on one belongs to the last trained token before it. Other trainers differ here whenever a tool
speaks in the middle: some reset the return there, so that nothing before a tool call is credited; some let lambda decay
through the tool's tokens; some drop the rewards that stand on them.
"""

from __future__ import annotations

from typing import Any

from rlvr.algorithms.advantages.gather import earned_per_token, state_values
from rlvr.algorithms.advantages.group_baselines import group_mean
from rlvr.algorithms.advantages.token_rewards import at_last_token, floats, mask_of, token_rewards
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Groups, as_floats, as_mask, as_rewards
from rlvr.algorithms.recipe.advantage import Advantage
from rlvr.algorithms.recipe.loss_parts import Choices


def whiten(advantages: Tensor, mask: Tensor, *, sample: bool = True, eps: float = 1e-8) -> Tensor:
    """(A - mean) / (std + eps) over the trained tokens of the whole batch; zeros if they are all equal.

    Over tokens, so long sequences weigh more. Give it the whole batch, not a micro-batch. verl: sample std, 1e-8 too.
    """
    # [n], the trained tokens as one group
    mean_free = Groups(advantages[mask], torch.zeros_like(advantages[mask], dtype=torch.long))
    out = torch.zeros_like(advantages)  # [B, T]
    if mean_free.n:
        # A_t <- (A_t - mean) / (std + eps) over trained tokens        [B, T]  as in REINFORCE++, 2501.03262
        out[mask] = mean_free.centred() / (mean_free.broadcast(mean_free.std(sample=sample)) + eps)
    return out


def gae(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    bootstrap: Tensor | None = None,
) -> Tensor:
    """Generalised advantage estimation over trained tokens (1506.02438; PPO, 1707.06347).

    delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lam A_{t+1}

    rewards, values [B, T] (V of the state before token t is sampled), bootstrap [B]: V after the last token, 0 on
    termination (default), the critic's value on truncation. Returns [B, T]; value targets are A + V.
    With an outcome reward lam < 1 weighs early tokens less the longer the sequence is: keep 1 there.
    """
    values = torch.where(mask, values, 0)  # [B, T]
    advantages = torch.zeros_like(values)  # [B, T]
    # [B], V_(t+1) of the next trained token
    next_value = values.new_zeros(len(values)) if bootstrap is None else bootstrap.to(values)
    next_advantage = torch.zeros_like(next_value)  # [B]
    owed = torch.zeros_like(next_value)  # rewards met on masked tokens, for the trained token before them
    for t in reversed(range(values.shape[1])):
        live = mask[:, t]  # [B]
        owed = owed + rewards[:, t]
        # delta_t = r_t + gamma V_(t+1) - V_t                         [B]  one column of [B, T]; GAE, 1506.02438 sec. 3
        delta = owed + gamma * next_value - values[:, t]
        # A_t = delta_t + gamma lam A_(t+1) = sum_l (gamma lam)^l delta_(t+l)   [B]  1506.02438 eq. 16
        advantage = delta + gamma * lam * next_advantage
        advantages[:, t] = torch.where(live, advantage, 0)
        # a masked token is no step: both wait for the trained token before it, without a decay
        next_advantage = torch.where(live, advantage, next_advantage)
        next_value = torch.where(live, values[:, t], next_value)
        owed = torch.where(live, 0, owed)  # paid out at a trained token
    return advantages


def return_to_go(rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """G_t = sum_{k >= t} gamma^(k - t) r_k over trained tokens. [B, T] -> [B, T]."""
    # G_t = sum_(k >= t) gamma^(k-t) r_k: GAE with V = 0, lam = 1  [B, T]
    return gae(rewards, torch.zeros_like(rewards), mask, gamma=gamma)


def raw(rewards: Any) -> Tensor:
    """A = R (REINFORCE, Williams 1992). [B] -> [B]. Unbiased only when tokens are summed, not averaged per sequence."""
    # A_i = R_i                                                   [B]  REINFORCE, Williams 1992
    return as_rewards(rewards)


def _raw(x: AdvantageInputs, p: Choices) -> Tensor:
    # one number for a sequence where no token differs from another
    if x.token_rewards is None and p.gamma == 1 and not p.reward_kl_coef:
        return raw(x.rewards)
    return return_to_go(token_rewards(x, p), mask_of(x, p), gamma=p.gamma)


RAW = Advantage(
    "raw",
    "R, or the return to go",
    _raw,
    "Williams 1992",
    gather=(earned_per_token,),
    per_token=True,
    kl_per_token=True,
)


def reinforce_pp(
    rewards: Any, mask: Tensor, *, token_rewards: Tensor | None = None, gamma: float = 1.0, eps: float = 1e-8
) -> Tensor:
    """REINFORCE++ (2501.03262): the return to go of every token, whitened over the tokens of the batch. [B, T].

    token_rewards [B, T]: -beta k1 against the reference (`reward_kl`), added to the outcome, so that
    A_t = R - beta sum_{i >= t} k1_i before whitening. Masked tokens are skipped; verl and SkyRL reset the return there.
    """
    mask = as_mask(mask)  # [B, T]
    per_token = at_last_token(as_rewards(rewards), mask)  # [B, T]
    if token_rewards is not None:
        per_token = per_token + token_rewards
    # A_t = whiten(R - beta sum_(i >= t) k1_i)                    [B, T]  REINFORCE++, 2501.03262
    return whiten(return_to_go(per_token, mask, gamma=gamma), mask, eps=eps)


def _reinforce_pp(x: AdvantageInputs, p: Choices) -> Tensor:
    mask = mask_of(x, p)
    return whiten(return_to_go(token_rewards(x, p), mask, gamma=p.gamma), mask)


REINFORCE_PP = Advantage(
    "reinforce_pp",
    "R - KL to go, whitened over tokens",
    _reinforce_pp,
    "2501.03262",
    needs=("mask",),
    gather=(earned_per_token,),
    per_token=True,
    kl_per_token=True,
)


def reinforce_pp_baseline(rewards: Any, group: Any, mask: Tensor, *, eps: float = 1e-8) -> Tensor:
    """REINFORCE++ with a group baseline (2501.03262): R - group mean, whitened over the tokens of the batch. [B, T].

    There is no division by the group's std. The KL belongs to the loss (k2). verl and OpenRLHF whiten over tokens as
    well.
    """
    mask = as_mask(mask)  # [B, T]
    centred = group_mean(rewards, group)  # [B]
    # A_t = whiten(R - mean_g)                                    [B, T]  REINFORCE++-baseline, 2501.03262
    return whiten(centred[:, None] * mask, mask, eps=eps)


REINFORCE_PP_BASELINE = Advantage(
    "reinforce_pp_baseline",
    "R - mean(group), whitened over tokens",
    lambda x, p: reinforce_pp_baseline(x.rewards, x.group, mask_of(x, p)),
    "2501.03262",
    needs=("mask",),
    per_token=True,
)


def bootstrap(x: AdvantageInputs) -> Tensor | None:
    """[B] the value after the last token, or None where every episode ended by itself."""
    return None if x.bootstrap is None else as_floats(x.bootstrap)


def _gae(x: AdvantageInputs, p: Choices) -> Tensor:
    values = floats(x, "values", p)  # [B, T]
    per_token = token_rewards(x, p).to(values)  # [B, T]
    return gae(per_token, values, mask_of(x, p), gamma=p.gamma, lam=p.lam, bootstrap=bootstrap(x))


GAE = Advantage(
    "gae",
    "GAE over tokens",
    _gae,
    "1506.02438",
    needs=("mask", "values"),
    gather=(earned_per_token, state_values),
    per_token=True,
    kl_per_token=True,
    critic=True,
)
