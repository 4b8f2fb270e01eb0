"""The output layer: log-probabilities and entropies of tokens from hidden states, never all logits in memory at once.

The logits of N tokens over a vocabulary V are the largest tensor of an update: 8,192 x 151,936 in float32 are 5 GB.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from rlvr.agents.models.sampling import LOGITS_AT_ONCE


class SequenceScores(NamedTuple):
    """Of each token given all before it: (B, T), float32, 0 where not asked for."""

    logprobs: torch.Tensor  # log pi(y_t)
    entropy: torch.Tensor | None  # of the distribution the token was drawn from


def score_logits(
    logits: torch.Tensor, targets: torch.Tensor, temperature: float, *, entropy: bool = False
) -> SequenceScores:
    """Log-probabilities of ``targets`` (N,) and entropies (N,) under softmax(logits (N, V) / temperature)."""
    logits = logits.float()  # [N, V]
    if temperature != 1.0:
        logits = logits / temperature
    if not entropy:
        # log pi(y) = z_y - log sum_j exp z_j                             [N]
        return SequenceScores(-F.cross_entropy(logits, targets, reduction="none"), None)
    logprobs = logits.log_softmax(-1)  # [N, V]
    # H = -sum_j p_j log p_j                                          [N]
    spread = -(logprobs.exp() * logprobs).sum(-1)
    return SequenceScores(logprobs.gather(-1, targets[:, None])[:, 0], spread)


def score_hidden(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    targets: torch.Tensor,
    temperature: float,
    *,
    entropy: bool = False,
    logits_at_once: int = LOGITS_AT_ONCE,
) -> SequenceScores:
    """`score_logits` of the logits ``hidden (N, H) @ weight (V, H).T + bias (V,)``, never all of them at once."""
    if hidden.shape[0] * weight.shape[0] <= logits_at_once:
        return score_logits(F.linear(hidden, weight, bias), targets, temperature, entropy=entropy)
    width = max(1, logits_at_once // hidden.shape[0])
    blocks: Any = _ScoreBlocks
    logprobs, spread = blocks.apply(hidden, weight, bias, targets, temperature, width, entropy)
    return SequenceScores(logprobs, spread if entropy else None)


class _ScoreBlocks(torch.autograd.Function):
    """Scores all tokens over one block of the vocabulary after another; the backward pass makes the logits again.

    Blocks of the vocabulary, not of the tokens: each weight is read once a pass and its gradient written once, rounded
    once, so a model in half precision needs no float32 copy of it. Cut cross-entropy, 2411.09009, does so on GPUs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        width: int,
        with_entropy: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        normaliser = torch.full((len(hidden),), -torch.inf, device=hidden.device)  # [N] log Z of the blocks so far
        chosen = torch.zeros_like(normaliser)  # [N] z_y
        entropy = torch.zeros_like(normaliser)  # [N] of the blocks so far
        for block in _blocks(len(weight), width):
            logits = _logits(hidden, weight, bias, block, temperature)  # [N, v]
            index, inside = _targets_in(block, targets)
            chosen = torch.where(inside, logits.gather(1, index)[:, 0], chosen)
            part = logits.logsumexp(-1)  # [N]
            before, normaliser = normaliser, torch.logaddexp(normaliser, part)
            if with_entropy:
                logs = logits.sub_(part[:, None])  # [N, v] log p_j within the block
                own = -(torch.exp(logs).mul_(logs)).sum(-1)
                # H of two sets of words = sum_i w_i (H_i - log w_i), w_i = Z_i / Z     [N]
                old_share, share = torch.exp(before - normaliser), torch.exp(part - normaliser)
                entropy = old_share * entropy + share * own
                entropy -= torch.xlogy(old_share, old_share) + torch.xlogy(share, share)
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy if with_entropy else None)
        ctx.temperature, ctx.width = temperature, width
        # log pi(y) = z_y - log Z                                            [N]
        return chosen - normaliser, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_logprobs, to_entropy = gradients  # [N] each
        hidden, weight, bias, targets, normaliser, entropy = ctx.saved_tensors
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        wide = torch.promote_types(hidden.dtype, torch.float32)
        # sums over blocks in float32, also when the model is in half precision               [N, H]
        d_hidden = torch.zeros_like(hidden, dtype=wide) if need_hidden else None
        d_weight = torch.empty_like(weight) if need_weight else None  # [V, H]
        d_bias = torch.empty_like(bias) if need_bias else None  # [V]
        for block in _blocks(len(weight), ctx.width):
            slope = _logits(hidden, weight, bias, block, ctx.temperature).sub_(normaliser[:, None])  # [N, v] log p_j
            if entropy is None:
                # d log pi(y) / dz_j = [j = y] - p_j                         [N, v]
                slope.exp_().mul_(-to_logprobs[:, None])
            else:
                # d H / dz_j = -p_j (log p_j + H)                            [N, v]
                factor = (slope + entropy[:, None]).mul_(to_entropy[:, None]).add_(to_logprobs[:, None])
                slope.exp_().mul_(factor).neg_()
            index, inside = _targets_in(block, targets)
            slope.scatter_add_(1, index, torch.where(inside, to_logprobs, 0)[:, None])
            if ctx.temperature != 1.0:
                slope.div_(ctx.temperature)
            slope = slope.to(hidden.dtype)
            if d_hidden is not None:
                _add_product(d_hidden, slope, weight[block])
            if d_weight is not None:
                torch.mm(slope.T, hidden, out=d_weight[block])  # [v, H]
            if d_bias is not None:
                d_bias[block] = slope.sum(0)  # [v]
        return None if d_hidden is None else d_hidden.to(hidden.dtype), d_weight, d_bias, None, None, None, None


def _logits(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, block: slice, temperature: float
) -> torch.Tensor:
    """[N, v] float32, of one block of the vocabulary."""
    logits = F.linear(hidden, weight[block], None if bias is None else bias[block]).float()
    return logits if temperature == 1.0 else logits.div_(temperature)


def _targets_in(block: slice, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[N, 1] the column of each target in a block, 0 where it is in another; [N] bool whether it is in this one."""
    inside = (targets >= block.start) & (targets < block.stop)
    return torch.where(inside, targets - block.start, 0)[:, None], inside


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _blocks(count: int, width: int) -> list[slice]:
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]
