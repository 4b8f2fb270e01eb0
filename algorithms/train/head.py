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
    rows = max(1, logits_at_once // weight.shape[0])
    pieces: Any = _ScorePieces
    logprobs, spread = pieces.apply(hidden, weight, bias, targets, temperature, rows)
    return SequenceScores(logprobs, spread if entropy else None)


class _ScorePieces(torch.autograd.Function):
    """Scores a few rows at a time; the backward pass makes the logits of each piece again."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        rows: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)  # [N]
        entropy, normaliser = torch.empty_like(logprobs), torch.empty_like(logprobs)  # [N] each
        for piece in _pieces(len(hidden), rows):
            logits = F.linear(hidden[piece], weight, bias).float().div_(temperature)  # [n, V]
            normaliser[piece] = logits.logsumexp(-1)  # [n] log sum_j exp z_j
            logprobs[piece] = logits.gather(-1, targets[piece, None])[:, 0] - normaliser[piece]
            likely = (logits - normaliser[piece, None]).exp_()  # [n, V] p_j
            # H = log Z - sum_j p_j z_j                                      [n]
            entropy[piece] = normaliser[piece] - likely.mul_(logits).sum(-1)
        ctx.save_for_backward(hidden, weight, bias, targets, normaliser, entropy)
        ctx.temperature, ctx.rows = temperature, rows
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_logprobs, to_entropy = gradients
        hidden, weight, bias, targets, normaliser, entropy = ctx.saved_tensors
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        d_hidden = torch.empty_like(hidden) if need_hidden else None  # [N, H]
        # sums over pieces in float32, also when the weights are in half precision              [V, H]
        d_weight = torch.zeros_like(weight, dtype=torch.float32) if need_weight else None
        d_bias = torch.zeros_like(bias, dtype=torch.float32) if need_bias else None
        for piece in _pieces(len(hidden), ctx.rows):
            logits = F.linear(hidden[piece], weight, bias).float().div_(ctx.temperature)
            logprobs = logits.sub_(normaliser[piece, None])  # [n, V] log p_j
            # d logprob(y) / d logit(j) = [j = y] - p(j);  d entropy / d logit(j) = -p(j) (log p(j) + entropy)
            slope = (logprobs + entropy[piece, None]).mul_(to_entropy[piece, None])
            slope.add_(to_logprobs[piece, None]).mul_(logprobs.exp_()).neg_()
            slope.scatter_add_(-1, targets[piece, None], to_logprobs[piece, None].contiguous())
            slope = slope.div_(ctx.temperature).to(hidden.dtype)  # [n, V] dL/dz before the temperature
            if d_hidden is not None:
                d_hidden[piece] = slope @ weight  # [n, H]
            if d_weight is not None:
                _add_product(d_weight, slope.T, hidden[piece])  # [V, H]
            if d_bias is not None:
                d_bias += slope.sum(0)  # [V]
        d_weight = None if d_weight is None else d_weight.to(weight.dtype)
        d_bias = None if d_bias is None else d_bias.to(bias.dtype)
        return d_hidden, d_weight, d_bias, None, None, None


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _pieces(count: int, rows: int) -> list[slice]:
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
