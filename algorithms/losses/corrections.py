"""Weights for the gap between the sampler and the trainer: rho = old / sampler, always detached.

An inference engine does not compute the log-probabilities that the trainer computes, even with the same weights; an
asynchronous one has older weights as well. These weights multiply the policy term of a token (or of a row); the KL term
is not touched. Tokens and rows that get weight zero *stay in the denominators* (Prime, OlmoRL, TRL); verl edits the
mask, so there the denominator shrinks. A ratio that is already new / sampler needs none of this (`Preset` refuses it).

Sources: truncated importance sampling, Yao et al. 2025; IcePop, 2510.18855; the row mask of DeepSeek-V3.2, 2512.02556.
Beware: verl's `token_k1` thresholds bound the inverse ratio, sampler / old.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlvr.algorithms._torch import torch
from rlvr.algorithms.losses.aggregation import MissingInput, Rows
from rlvr.algorithms.presets import Correction

Tensor = torch.Tensor


@dataclass(frozen=True)
class Gap:
    """Log-probabilities of one batch, [B, T], detached and 0 at masked tokens, and the advantages."""

    old: Tensor | None
    sampler: Tensor
    new: Tensor
    advantages: Tensor


def correction_weights(corrections: tuple[Correction, ...], gap: Gap, rows: Rows) -> Tensor:
    """[B, T] product of the corrections' weights; see `Correction` for each formula."""
    weight = torch.ones_like(gap.new)
    for correction in corrections:
        if correction.kind in ("tis", "icepop"):
            weight = weight * _token_weight(correction, _log_rho(gap))
        elif correction.kind == "off_policy_mask":
            stale = rows.mean(gap.sampler - gap.new) > correction.high
            weight = weight * (~((gap.advantages < 0) & rows.expand(stale))).to(weight.dtype)
        else:
            weight = weight * rows.expand(_row_weight(correction, _log_rho(gap), rows))
    return weight


def row_correction_weights(corrections: tuple[Correction, ...], gap: Gap, rows: Rows) -> Tensor:
    """[R] product of the corrections' weights for a loss per row (whose corrections are all per row)."""
    # A row's weight is the same on all of its tokens, so the mean reads it off.
    return rows.mean(correction_weights(corrections, gap, rows))


def _log_rho(gap: Gap) -> Tensor:
    if gap.old is None:
        raise MissingInput("corrections by old / sampler need 'old' in the batch")
    return gap.old - gap.sampler


def _token_weight(correction: Correction, log_rho: Tensor) -> Tensor:
    rho = log_rho.exp()
    if correction.kind == "tis":
        return rho.clamp(max=correction.high)
    return torch.where((rho >= correction.low) & (rho <= correction.high), rho, 0)


def _row_weight(correction: Correction, log_rho: Tensor, rows: Rows) -> Tensor:
    if correction.kind == "geo_mask":
        mean = rows.mean(log_rho).exp()
        return ((mean >= correction.low) & (mean <= correction.high)).to(log_rho.dtype)
    product = rows.sum(log_rho).exp()
    if correction.kind == "seq_tis":
        return product.clamp(max=correction.high)
    return torch.where((product >= correction.low) & (product <= correction.high), product, 0)


def effective_sample_size(log_weight: Tensor, mask: Tensor) -> Tensor:
    """(sum w)^2 / (n sum w^2) of the trained tokens' weights: 1 when all are equal, 1/n when one rules.

    Shift-invariant in logs, so it never overflows; 1 when there is no token.
    """
    w = torch.where(mask, log_weight, -torch.inf)
    top = w.max() if w.numel() else w.sum()
    w = torch.where(mask, (w - torch.where(top.isfinite(), top, 0)).exp(), 0)
    n = mask.sum()
    return torch.where(n > 0, w.sum().square() / (n * w.square().sum()).clamp(min=1e-30), 1.0)


def staleness_keep(version: Tensor, current: int, max_staleness: int) -> Tensor:
    """[B] bool: rows sampled by a policy at most `max_staleness` versions old.

    version [B] (or [B, T] for rows sampled across weight updates: the oldest token decides). Trainers use 4 (TRL,
    SkyRL, Tinker) to 8 (prime-rl, open-instruct). ValueError for a version from the future.
    """
    version = torch.as_tensor(version)
    oldest = version if version.dim() == 1 else version.amin(1)
    if (version > current).any():
        raise ValueError(f"a row claims version {int(version.max())}, but the trainer is at {current}")
    return current - oldest <= max_staleness
