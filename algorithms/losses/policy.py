"""`policy_loss`: one composition of a ratio, a clip rule, corrections, a KL and an aggregation, read from a preset.

A kernel (one clip rule) is a pure function of at most a few lines from the log-ratio and the advantage to a loss per
token or per row. Log-ratios are at least fp32, are set to 0 at masked tokens *before* any exp, and are never clamped:
tokens whose gradient is zero take a constant instead, so an overflow cannot turn into 0 * inf.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.losses.aggregation import (
    Denominators,
    MissingInput,
    Rows,
    aggregate,
    as_mask,
    companion,
    constant_length,
    count_denominators,
    groups_of,
    rows_of,
)
from rlvr.algorithms.losses.corrections import Gap, correction_weights, effective_sample_size, row_correction_weights
from rlvr.algorithms.losses.kl import kl_loss
from rlvr.algorithms.presets import Preset

Tensor = torch.Tensor
Batch = Mapping[str, Any]
LOG_PROBS = ("old", "sampler", "ref")


@dataclass(frozen=True)
class Terms:
    """What a kernel sees. All [B, T], 0 at masked tokens; only `new` and `log_ratio` carry gradient."""

    new: Tensor
    log_ratio: Tensor
    anchor: Tensor
    advantages: Tensor
    rows: Rows


@dataclass(frozen=True)
class Clipped:
    """A loss per token or per row, and where the clip rule held it from below or above."""

    loss: Tensor
    low: Tensor
    high: Tensor


def _unclipped(t: Terms, p: Preset) -> Clipped:
    """-A log pi (level none) or -A r."""
    never = torch.zeros_like(t.rows.mask)
    if p.level == "none":
        return Clipped(-t.advantages * t.new, never, never)
    return Clipped(-t.advantages * _exp_where(t.advantages != 0, t.log_ratio), never, never)


def _exp_where(live: Tensor, log_ratio: Tensor) -> Tensor:
    """exp where it matters, 1 elsewhere, so that a dead entry can neither overflow nor leak 0 * inf."""
    return torch.exp(torch.where(live, log_ratio, 0))


def _like(x: Tensor, value: float) -> Tensor:
    """A constant in x's precision: `where` of two Python numbers would round to fp32."""
    return torch.full_like(x, value)


def _ppo_clip(log_ratio: Tensor, advantages: Tensor, p: Preset) -> Clipped:
    """-min(r A, clip(r, 1 - low, 1 + high) A); with dual_clip c, at most -c A where A < 0."""
    ratio = log_ratio.detach().exp()
    high = (advantages > 0) & (ratio > 1 + p.clip_high)
    low = (advantages < 0) & (ratio < 1 - p.clip_low)
    bound = torch.where(high, _like(ratio, 1 + p.clip_high), 1 - p.clip_low)
    if p.dual_clip is not None:
        dual = (advantages < 0) & (ratio > p.dual_clip)
        bound = torch.where(dual, p.dual_clip, bound)
        high = high | dual
    held = high | low
    surrogate = torch.where(held, bound, _exp_where(~held & (advantages != 0), log_ratio))
    return Clipped(-advantages * surrogate, low, high)


def _ppo(t: Terms, p: Preset) -> Clipped:
    if p.level == "token":
        return _ppo_clip(t.log_ratio, t.advantages, p)
    rows = t.rows
    if p.level == "sequence_token":  # the row's ratio in value, the token's in gradient
        value = rows.expand(rows.mean(t.log_ratio).detach())
        return _ppo_clip(value + (t.new - t.new.detach()), t.advantages, p)
    log_ratio = rows.mean(t.log_ratio) if p.level == "sequence" else rows.sum(t.log_ratio)
    return _ppo_clip(log_ratio, rows.mean(t.advantages), p)


def _cap(t: Terms, p: Preset) -> Clipped:
    """-sg(min(r, cap)) A log pi: every token keeps a gradient (CISPO, ScaleRL, truncated sequence IS)."""
    log_ratio = t.log_ratio.detach()
    if p.level == "product":
        log_ratio = t.rows.expand(t.rows.sum(log_ratio))
    ratio = log_ratio.exp()
    high = t.rows.mask & (ratio > p.ratio_max)
    low = t.rows.mask & (ratio < p.ratio_min)
    return Clipped(-ratio.clamp(p.ratio_min, p.ratio_max) * t.advantages * t.new, low, high)


def _band(t: Terms, p: Preset) -> Clipped:
    """-sg(1[min <= r <= max] r (A - tau log r)) log pi (Prime)."""
    log_ratio = t.log_ratio.detach()
    ratio = log_ratio.exp()
    low, high = ratio < p.ratio_min, ratio > p.ratio_max
    weight = torch.where(low | high, 0, ratio * (t.advantages - p.tau * log_ratio))
    return Clipped(-weight * t.new, low & t.rows.mask, high & t.rows.mask)


def _total_variation(t: Terms, p: Preset) -> Clipped:
    """-A r, without the tokens whose probability already moved by more than the bound in A's direction (DPPO)."""
    moved = t.new.detach().exp() - t.anchor.exp()
    high = (t.advantages > 0) & (moved > p.clip_high)
    low = (t.advantages < 0) & (moved < -p.clip_low)
    live = ~(high | low) & (t.advantages != 0)
    return Clipped(torch.where(live, -t.advantages * _exp_where(live, t.log_ratio), 0), low, high)


def _sigmoid(t: Terms, p: Preset) -> Clipped:
    """-A (4 / tau) sigmoid(tau (r - 1)), tau by the sign of A (SAPO)."""
    tau = torch.where(t.advantages > 0, _like(t.advantages, p.gate[0]), p.gate[1])
    saturated = t.log_ratio.detach() > 30  # the sigmoid is exactly 1 there in every float type
    gate = torch.sigmoid(tau * (_exp_where(~saturated, t.log_ratio) - 1))
    never = torch.zeros_like(saturated)
    return Clipped(-t.advantages * 4 / tau * torch.where(saturated, 1, gate), never, never)


def _log_one_sided(t: Terms, p: Preset) -> Clipped:
    """-A exp(mean_t c_t), c_t = min(log r_t, high) for A > 0, max(log r_t, -low) for A < 0 (GMPO)."""
    up, mask = t.advantages > 0, t.rows.mask
    high = up & (t.log_ratio.detach() > p.clip_high)
    low = (t.advantages < 0) & (t.log_ratio.detach() < -p.clip_low)
    clipped = torch.where(high, p.clip_high, torch.where(low, -p.clip_low, t.log_ratio))
    advantages = t.rows.mean(t.advantages)
    surrogate = _exp_where(advantages != 0, t.rows.mean(clipped))
    return Clipped(-advantages * surrogate, low & mask, high & mask)


def _square(t: Terms, p: Preset) -> Clipped:
    """-A log pi(y) + tau/2 (log pi(y) / pi_old(y))^2 per row (Kimi k1.5)."""
    loss = t.rows.sum(-t.advantages * t.new) + p.tau / 2 * t.rows.sum(t.log_ratio).square()
    never = torch.zeros_like(t.rows.mask)
    return Clipped(loss, never, never)


def _negative_cap(t: Terms, p: Preset) -> Clipped:
    """-w A log pi(y) per row: w = 1 for A >= 0, sg(min(ratio of the row, cap)) for A < 0 (TOPR)."""
    ratio = t.rows.expand(t.rows.sum(t.log_ratio.detach()).exp())
    negative = t.advantages < 0
    high = negative & (ratio > p.ratio_max)
    weight = torch.where(negative, ratio.clamp(p.ratio_min, p.ratio_max), 1)
    return Clipped(t.rows.sum(-weight * t.advantages * t.new), torch.zeros_like(high), high)


KERNELS: dict[str, Callable[[Terms, Preset], Clipped]] = {
    "none": _unclipped,
    "ppo": _ppo,
    "cap": _cap,
    "band": _band,
    "tv": _total_variation,
    "sigmoid": _sigmoid,
    "log_one_sided": _log_one_sided,
    "square": _square,
    "negative_cap": _negative_cap,
}


def policy_loss(
    new: Tensor,
    batch: Batch,
    preset: Preset,
    denominators: Denominators | None = None,
    *,
    validate: bool = True,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of one (micro-)batch under a preset, to be minimised.

    new           [B, T] log pi(token) of the policy that learns, with gradient
    batch         mask [B, T] bool (True on sampled, trained tokens: not on prompts, tools, padding)
                  advantages [B] or [B, T]
                  old [B, T] trainer log-probs when the batch was taken; sampler [B, T] the generator's own; ref [B, T]
                  of the frozen reference; which of them are needed says `preset.needs`
                  group [B] ids of prompts, unique over the whole batch; max_length: Dr. GRPO's constant
                  row_id [B, T] int, for packed rows (then [B] above is [R], one entry per row)
                  entropy [B, T], with gradient, only if the preset has an entropy_coef
    denominators  of the whole optimizer batch (`count_denominators`); default: this batch is the whole
    validate      check shapes and numbers (a few device synchronisations)

    Returns the loss (0-dim) and stats (0-dim, detached, finite; see `merge_stats`). What stands at masked positions,
    NaN included, changes nothing. Raises MissingInput (a KeyError) for a missing key, ValueError for shapes, NaN or
    infinite values, a batch without a trained token, FloatingPointError when a ratio overflows.
    """
    dtype = torch.promote_types(new.dtype, torch.float32)
    mask = as_mask(_required(batch, "mask", preset), new.device)
    if mask.numel() == 0:
        raise ValueError(f"the batch is empty: the mask has shape {tuple(mask.shape)}")
    if new.shape != mask.shape:
        raise ValueError(f"new has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    rows = rows_of(batch, mask)
    columns: dict[str, Tensor | None] = {"new": torch.where(mask, new, 0).to(dtype)}
    for key in (*LOG_PROBS, "entropy"):
        columns[key] = _column(batch, key, preset, mask, dtype)
    advantages = _advantages(batch, preset, rows, dtype)
    group = groups_of(batch, rows)
    if denominators is None:
        denominators = count_denominators({**batch, "mask": mask})
    elif preset.aggregation == "seq_mean_token_sum_norm" and denominators.max_length is None:
        denominators = dataclasses.replace(denominators, max_length=batch.get("max_length"))
    _check_counts(denominators, preset)
    if validate:
        _check_numbers(columns, advantages, rows, preset)
    loss, stats = _compose(columns, advantages, rows, group, preset, denominators)
    if validate and not loss.isfinite():
        raise FloatingPointError(_overflow(columns, preset))
    return loss, stats


def _compose(
    columns: dict[str, Any],
    advantages: Tensor,
    rows: Rows,
    group: Tensor | None,
    preset: Preset,
    denominators: Denominators,
) -> tuple[Tensor, dict[str, Tensor]]:
    new, anchor = columns["new"], columns[preset.anchor]
    if anchor is None:  # no ratio is asked for
        anchor = new.detach()
    terms = Terms(new, new - anchor, anchor, advantages, rows)
    clipped = KERNELS[preset.clip](terms, preset)
    weight = None
    policy = clipped.loss
    if preset.corrections:
        gap = Gap(columns["old"], columns["sampler"], new.detach(), advantages)
        per_row = row_correction_weights if preset.per_row else correction_weights
        weight = per_row(preset.corrections, gap, rows)
        policy = weight * policy
    count = preset.count_empty_rows
    loss = aggregate(policy, rows, preset.aggregation, denominators, group, count)
    stats = {"policy_loss": loss.detach()}
    extra = _extras(columns, terms, preset)
    if extra is not None:
        term = aggregate(extra, rows, companion(preset), denominators, group, count)
        stats["regulariser_loss"] = term.detach()
        loss = loss + term
    stats["loss"] = loss.detach()
    with torch.no_grad():
        stats |= _stats(columns, terms, clipped, weight)
    return loss, stats


def _extras(columns: dict[str, Any], terms: Terms, preset: Preset) -> Tensor | None:
    """[B, T] sum of what is added to the policy term: KL, square to the sampler, entropy bonus; None if nothing."""
    extra = None
    mask = terms.rows.mask
    if preset.kl_place == "loss" and preset.kl_coef > 0:
        extra = preset.kl_coef * kl_loss(terms.new, columns["ref"], mask, preset.kl, terms.log_ratio)
    if preset.sampler_penalty:
        square = preset.sampler_penalty * (terms.new - columns["sampler"]).square()
        extra = square if extra is None else extra + square
    if preset.entropy_coef:
        bonus = -preset.entropy_coef * columns["entropy"]
        extra = bonus if extra is None else extra + bonus
    return extra


def _required(batch: Batch, key: str, preset: Preset) -> Any:
    value = batch.get(key)
    if value is None:
        raise MissingInput(f"preset {preset.name!r} needs {key!r} in the batch: {_WHY[key]}")
    return value


_WHY = {
    "mask": "[B, T] bool, True on the tokens that the policy sampled",
    "advantages": "[B] or [B, T], see compute_advantages",
    "old": "[B, T] log-probs of the trainer when the batch was taken, the denominator of its ratio or correction",
    "sampler": "[B, T] log-probs reported by the generator, the denominator of its ratio or correction",
    "ref": "[B, T] log-probs of the frozen reference for the KL term; without one use .but(kl_coef=0.0)",
    "entropy": "[B, T] entropy of the policy at each token, with gradient; or use .but(entropy_coef=0.0)",
}


def _column(batch: Batch, key: str, preset: Preset, mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """[B, T], 0 at masked tokens; detached except the entropy. None when absent and not needed."""
    value = _required(batch, key, preset) if key in preset.needs else batch.get(key)
    if value is None:
        return None
    value = torch.as_tensor(value, device=mask.device)
    if value.shape != mask.shape:
        raise ValueError(f"{key} has shape {tuple(value.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    value = torch.where(mask, value, 0).to(dtype)
    return value if key == "entropy" else value.detach()


def _advantages(batch: Batch, preset: Preset, rows: Rows, dtype: torch.dtype) -> Tensor:
    """[B, T], 0 at masked tokens."""
    mask = rows.mask
    value = torch.as_tensor(_required(batch, "advantages", preset), device=mask.device).detach().to(dtype)
    if value.shape == (rows.n,):
        return rows.expand(value)
    if value.shape == mask.shape:
        return torch.where(mask, value, 0)
    raise ValueError(
        f"advantages have shape {tuple(value.shape)}; expected one per row ({rows.n},) or per token {tuple(mask.shape)}"
    )


def _check_counts(denominators: Denominators, preset: Preset) -> None:
    if denominators.n_tokens <= 0 or denominators.n_live_rows <= 0:
        raise ValueError("all rows are masked: the batch has no trained token, skip the update")
    if preset.aggregation == "seq_mean_token_sum_norm":
        constant_length(denominators)


def _check_numbers(columns: dict[str, Any], advantages: Tensor, rows: Rows, preset: Preset) -> None:
    for key, value in {**columns, "advantages": advantages}.items():
        if value is not None and not value.isfinite().all():
            bad = (~value.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{key} is {value[tuple(bad)].item()} at trained position {bad}: NaN or infinite values are refused "
                "(mask the token, or find out why its log-probability is not finite)"
            )
    if preset.per_row and preset.clip not in ("square", "negative_cap"):
        spread = (advantages - rows.expand(rows.mean(advantages))).abs().max()
        if spread > 1e-5 * advantages.abs().max().clamp(min=1):
            raise ValueError(
                f"preset {preset.name!r} has one ratio per row, so it takes one advantage per row; these differ "
                f"inside a row by {spread.item():.3g}. Per-token advantages: gspo_token, or a token-level preset"
            )


def _overflow(columns: dict[str, Any], preset: Preset) -> str:
    gaps = {key: (columns["new"] - columns[key]).abs().max().item() for key in LOG_PROBS if columns[key] is not None}
    largest = ", ".join(f"|new - {key}| <= {gap:.1f}" for key, gap in gaps.items())
    return (
        f"the loss of preset {preset.name!r} overflows {columns['new'].dtype}: {largest}. The policies are too far "
        "apart for an unbounded ratio; use a bounded rule (dual_clip, cap), or find the mismatch"
    )


def _stats(columns: dict[str, Any], terms: Terms, clipped: Clipped, weight: Tensor | None) -> dict[str, Tensor]:
    rows, mask, new = terms.rows, terms.rows.mask, terms.new
    n = mask.sum()
    stats = {"n_tokens": n, "n_rows": torch.tensor(rows.n), "n_empty_rows": (rows.lengths == 0).sum()}
    stats |= _spread("ratio", terms.log_ratio, mask)
    stats["approx_kl"] = _mean(torch.expm1(_bounded(terms.log_ratio)) - terms.log_ratio, mask)
    for side, held in (("low", clipped.low), ("high", clipped.high)):
        if held.shape == mask.shape:
            stats[f"clip_frac_{side}"] = _mean(held.to(new.dtype), mask)
        else:
            stats[f"clip_frac_{side}"] = held.sum() / (rows.lengths > 0).sum().clamp(min=1)
    sampler = columns["sampler"]
    if sampler is not None:
        log_rho = (new if columns["old"] is None else columns["old"]) - sampler
        stats |= _spread("sampler_ratio", log_rho, mask)
        stats["sampler_kl_k1"] = _mean(-log_rho, mask)
        stats["sampler_kl_k3"] = _mean(torch.expm1(_bounded(log_rho)) - log_rho, mask)
        stats["sampler_ess"] = effective_sample_size(log_rho, mask)
    if columns["ref"] is not None:
        stats["ref_kl_k1"] = _mean(new - columns["ref"], mask)
        stats["ref_kl_k3"] = _mean(torch.expm1(_bounded(columns["ref"] - new)) - (columns["ref"] - new), mask)
    if columns["entropy"] is not None:
        stats["entropy"] = _mean(columns["entropy"].detach(), mask)
    if weight is not None:
        live = mask if weight.shape == mask.shape else rows.lengths > 0
        stats["correction_mean"] = _mean(weight, live)
        stats["correction_zero_frac"] = _mean((weight == 0).to(new.dtype), live)
    return stats


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, 0).sum() / mask.sum().clamp(min=1)


def _bounded(log_ratio: Tensor) -> Tensor:
    """For stats only: far outside what a policy does, but finite after exp and a sum."""
    bound = 60.0 if log_ratio.dtype == torch.float32 else 300.0
    return log_ratio.clamp(-bound, bound)


def _spread(name: str, log_ratio: Tensor, mask: Tensor) -> dict[str, Tensor]:
    ratio = _bounded(log_ratio).exp()
    some = mask.any()
    return {
        f"{name}_mean": torch.where(some, _mean(ratio, mask), 1),
        f"{name}_min": torch.where(some, torch.where(mask, ratio, math.inf).amin(), 1),
        f"{name}_max": torch.where(some, torch.where(mask, ratio, 0).amax(), 1),
    }


def merge_stats(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Stats of a batch from those of its micro-batches, as plain floats.

    Losses and counts (`n_...`) add up, `..._min` and `..._max` take the extreme, everything else is averaged with the
    number of trained tokens (or pairs) as weight (`sampler_ess` exactly, from its moments).
    """
    floats = [{key: float(value) for key, value in part.items()} for part in parts]
    tokens = [part.get("n_tokens", part.get("n_pairs", 1.0)) for part in floats]
    merged: dict[str, float] = {}
    for key in dict.fromkeys(key for part in floats for key in part):
        pairs = [(part[key], n) for part, n in zip(floats, tokens, strict=True) if key in part]
        live = [(value, n) for value, n in pairs if n > 0] or pairs
        values = [value for value, _ in live]
        if key.startswith("n_") or key.endswith("loss"):
            merged[key] = sum(value for value, _ in pairs)
        elif key.endswith("_min"):
            merged[key] = min(values)
        elif key.endswith("_max"):
            merged[key] = max(values)
        else:
            merged[key] = sum(value * n for value, n in live) / max(sum(n for _, n in live), 1.0)
    if "sampler_ess" in merged:
        merged["sampler_ess"] = _merged_ess(floats, merged)
    return merged


def _merged_ess(parts: list[dict[str, float]], merged: Mapping[str, float]) -> float:
    live = [p for p in parts if p.get("n_tokens", 0) > 0 and "sampler_ess" in p]
    if not live:
        return 1.0
    first = sum(p["sampler_ratio_mean"] * p["n_tokens"] for p in live)
    second = sum(p["sampler_ratio_mean"] ** 2 * p["n_tokens"] / p["sampler_ess"] for p in live)
    return first**2 / (merged["n_tokens"] * second) if second > 0 else 1.0
