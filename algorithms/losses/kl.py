"""KL(policy || reference) from the log-probabilities of sampled tokens: three estimators, and where each belongs.

With d = new - ref on tokens drawn from the policy:

k1 = d                      unbiased, large variance
k2 = d^2 / 2                biased value, correct gradient in the loss
k3 = exp(-d) - 1 + d        unbiased, positive, small variance

What matters is the gradient, not the value (all four lines are checked by enumeration in the tests):

k1 in the loss              expected gradient 0: refused
k2 in the loss              gradient of KL(policy || ref)
k3 in the loss              gradient of KL(ref || policy), the forward direction (GRPO as published)
ratio * k3 in the loss      gradient of KL(policy || ref) (DeepSeek-V3.2, 2512.02556)
k1 in the reward, detached  gradient of KL(policy || ref) (RLHF's PPO, RLOO, REINFORCE++)

Sources: Schulman 2020, "Approximating KL divergence"; 2402.03300 (k3). Some trainers clamp k3 at 10, which removes the
gradient where it matters; nothing is clamped here.
"""

from __future__ import annotations

import math

from rlvr.algorithms.core.lazy_torch import Tensor, torch


def kl_estimate(new: Tensor, ref: Tensor, mask: Tensor, estimator: str = "k3") -> Tensor:
    """[B, T] estimate of KL(new || ref) per token, 0 at masked tokens; differentiable in `new`.

    estimator: "k1", "k2" or "k3".
    """
    d = torch.where(mask, new - ref, 0)  # where before exp: what stands at a masked token may overflow
    if estimator == "k1":
        # k1_t = d_t = new_t - ref_t                                   [B, T]  Schulman 2020
        return d
    if estimator == "k2":
        # k2_t = d_t^2 / 2                                             [B, T]  Schulman 2020
        return d.square() / 2
    if estimator == "k3":
        # k3_t = exp(-d_t) - 1 + d_t                                   [B, T]  Schulman 2020; GRPO, 2402.03300 eq. 4
        return torch.expm1(-d) + d  # expm1: exp(-d) - 1 loses all digits where d is small
    raise ValueError(f"unknown KL estimator {estimator!r}; allowed: k1, k2, k3")


def kl_loss(new: Tensor, ref: Tensor, mask: Tensor, estimator: str = "k3", log_ratio: Tensor | None = None) -> Tensor:
    """[B, T] KL term for the loss; multiply by the coefficient and aggregate like the policy term.

    estimator: "k2", "k3", or "k3_unbiased", which needs `log_ratio` = new - old (its gradient flows). "k1" raises
    ValueError, since its expected gradient is zero.
    """
    if estimator == "k1":
        raise ValueError("k1 in the loss has an expected gradient of zero; use k2, k3 or k3_unbiased, or reward_kl")
    if estimator != "k3_unbiased":
        return kl_estimate(new, ref, mask, estimator)
    if log_ratio is None:
        raise ValueError("k3_unbiased needs log_ratio = new - old")
    # r_t k3_t, r_t = exp(new_t - old_t) with its gradient             [B, T]  DeepSeek-V3.2, 2512.02556
    return torch.exp(torch.where(mask, log_ratio, 0)) * kl_estimate(new, ref, mask, "k3")


def reward_kl(old: Tensor, ref: Tensor, mask: Tensor, coef: float, clamp_min: float | None = None) -> Tensor:
    """[B, T] per-token reward -coef * k1, detached. `clamp_min=0` is AlpacaFarm's max(k1, 0)."""
    k1 = kl_estimate(old.detach(), ref.detach(), mask, "k1")  # [B, T]
    if clamp_min is not None:
        k1 = k1.clamp(min=clamp_min)
    # R_t <- -c k1_t                                                   [B, T]  RLHF's PPO; REINFORCE++, 2501.03262
    return -coef * k1


def divergence(new: Tensor, teacher: Tensor, mask: Tensor, kind: str) -> Tensor:
    """[B, T] a policy's divergence from a teacher, 0 at masked tokens; differentiable in `new`.

    new, teacher: [B, T, K] log-probs of K events, one of which happens: some tokens, and any other.
    kind: "forward_kl", KL(teacher || policy); "reverse_kl", KL(policy || teacher); "jsd", Jensen and Shannon's.
    """
    p, q = (torch.where(mask[..., None], column, -math.log(new.shape[-1])) for column in (new, teacher))  # [B, T, K]
    if kind == "forward_kl":
        # D_t = sum_k q_k (log q_k - log p_k)                          [B, T]  2306.13649
        return (q.exp() * (q - p)).sum(-1)
    if kind == "reverse_kl":
        # D_t = sum_k p_k (log p_k - log q_k)                          [B, T]  2306.13649
        return (p.exp() * (p - q)).sum(-1)
    if kind == "jsd":
        # D_t = KL(q || m) / 2 + KL(p || m) / 2,   m = (p + q) / 2     [B, T]  SDPO, 2601.20802
        m = torch.logaddexp(p, q) - math.log(2)
        return ((q.exp() * (q - m)) + (p.exp() * (p - m))).sum(-1) / 2
    raise ValueError(f"unknown divergence {kind!r}; allowed: forward_kl, reverse_kl, jsd")
