"""`Advantage`: one estimator in one object: name, formula, needs, how these are gathered, how it is computed."""

from __future__ import annotations

from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import as_floats, as_mask
from rlvr.algorithms.losses.kl import reward_kl
from rlvr.algorithms.recipe.loss_parts import Choices


def why(p: Choices) -> str:
    """Who needs an entry, for an error."""
    return f"the advantage {p.advantage!r} of preset {p.name!r}"


def mask_of(x: AdvantageInputs, p: Choices) -> Tensor:
    """[B, T] bool."""
    return as_mask(x.need("mask", why(p)))


def floats(x: AdvantageInputs, name: str, p: Choices) -> Tensor:
    """A needed entry as detached floats."""
    return as_floats(x.need(name, why(p)))


def token_kl(x: AdvantageInputs, p: Choices) -> Tensor | None:
    """[B, T] rewards -kl_coef * k1 per token, or None if the preset has no KL in the reward."""
    if not p.reward_kl_coef:
        return None
    old, ref = floats(x, "old_logprobs", p), floats(x, "ref_logprobs", p)  # [B, T] each
    return reward_kl(old, ref, mask_of(x, p), p.reward_kl_coef)


def token_rewards(x: AdvantageInputs, p: Choices) -> Tensor:
    """[B, T]: the given token rewards, or the outcome on the last trained token; with the KL, if it is a reward."""
    mask, rewards = mask_of(x, p), floats(x, "rewards", p)  # [B, T], [B]
    if x.token_rewards is None:
        per_token = at_last_token(rewards, mask)  # [B, T]
    else:
        per_token = as_floats(x.token_rewards).to(rewards)
        if per_token.shape != mask.shape:
            raise ValueError(f"token_rewards have shape {tuple(per_token.shape)}, the mask {tuple(mask.shape)}")
        # sum_t r_t = R: credit may be moved between tokens, never made
        if not torch.allclose(per_token.sum(1), rewards, rtol=1e-4, atol=1e-5):
            raise ValueError("token_rewards must add up to the reward of their sequence: they say where it was earned")
    kl = token_kl(x, p)  # [B, T] or None
    # r_t <- r_t - c k1_t                                          [B, T]  RLHF's PPO
    return per_token if kl is None else per_token + kl.to(per_token)


def at_last_token(rewards: Tensor, mask: Tensor) -> Tensor:
    """[B] -> [B, T]: each sequence's reward on its last trained token. One without any carries nothing."""
    positions = torch.arange(mask.shape[1], device=mask.device)  # [T]
    last = torch.where(mask, positions, -1).amax(1)  # [B], -1 where nothing is trained on
    # r_t = R at the last trained token, else 0                    [B, T]
    return torch.where(positions == last[:, None], rewards[:, None], 0)
