"""`policy_loss`: one composition of a ratio, a clip rule, corrections, a KL and an aggregation, read from a preset."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr.algorithms.core.inputs import LossInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import (
    Denominators,
    SequenceIndex,
    as_mask,
    count_denominators,
    groups_of,
    sequences_of,
)
from rlvr.algorithms.losses.aggregation import aggregate, regulariser_aggregation
from rlvr.algorithms.losses.corrections import correction_weights, sequence_correction_weights
from rlvr.algorithms.losses.kl import divergence, kl_loss
from rlvr.algorithms.recipe.loss_parts import Clipped, CorrectionInputs, Terms
from rlvr.algorithms.recipe.presets import Preset

LOGPROBS = ("old_logprobs", "behaviour_logprobs", "ref_logprobs")
Columns = dict[str, Any]  # name to [B, T], or None where it was not given


@dataclass(frozen=True)
class PolicyTerms:
    """The parts of a policy loss, before they are summed: what `rlvr explain` shows of each token.

    columns     `new` and every log-prob that was given, [B, T], 0 at masked tokens
    terms       what the clip rule read
    clipped     what it returned, before corrections
    weight      product of the corrections and of the mask by entropy, [B, T] or [R]; None without any
    """

    columns: Columns
    terms: Terms
    clipped: Clipped
    weight: Tensor | None

    @property
    def loss(self) -> Tensor:
        """[B, T] or [R]: corrected, not yet aggregated."""
        # w_t l_t                                                       [B, T] or [R]
        return self.clipped.loss if self.weight is None else self.weight * self.clipped.loss


def policy_loss(
    new: Tensor,
    batch: LossInputs | Mapping[str, object],
    preset: Preset,
    denominators: Denominators | None = None,
    *,
    validate: bool = True,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of one (micro-)batch under a preset, to be minimised.

    new           [B, T] log pi(token) of the policy that learns, with gradient
    batch         `LossInputs`, or a mapping of its entries; which are needed says `preset.needs`
    denominators  of the whole optimizer batch (`count_denominators`); default: this batch is the whole
    validate      check shapes and numbers (a few device synchronisations)

    Returns the loss (0-dim) and stats (0-dim, detached, finite; see `merge_stats`). What stands at masked positions,
    NaN included, changes nothing. Raises MissingInput (a KeyError) for a missing entry, ValueError for shapes, NaN or
    infinite values, a batch without a trained token, FloatingPointError when a ratio overflows.
    """
    batch = LossInputs.of(batch)
    parts = policy_terms(new, batch, preset, validate=validate)
    sequences = parts.terms.sequences
    group = groups_of(batch, sequences)  # [R] or None
    if denominators is None:
        denominators = count_denominators(dataclasses.replace(batch, mask=sequences.mask))
    elif "max_length" in preset.needs and denominators.max_length is None:
        denominators = dataclasses.replace(denominators, max_length=batch.max_length)
    if denominators.n_tokens <= 0 or denominators.n_live_sequences <= 0:
        raise ValueError("all sequences are masked: the batch has no trained token, skip the update")
    count = preset.count_empty_sequences
    per_token = parts.loss if preset.divergence == "sampled" else _divergence(batch, preset, sequences.mask)
    loss = aggregate(per_token, sequences, preset.reduction, denominators, group, count)  # []
    stats = {"policy_loss": loss.detach()}
    extra = _regularisers(parts.columns, parts.terms, preset)
    if extra is not None:
        how = regulariser_aggregation(preset.reduction, preset.ratio_level)
        term = aggregate(extra, sequences, how, denominators, group, count)  # []
        stats["regulariser_loss"] = term.detach()
        loss = loss + term
    if preset.observation_coef:
        term = preset.observation_coef * observation_loss(new, batch, denominators)  # []
        stats["observation_loss"] = term.detach()
        loss = loss + term
    stats["loss"] = loss.detach()
    with torch.no_grad():
        stats |= policy_stats(parts.columns, parts.terms, parts.clipped, parts.weight)
    if validate and not loss.isfinite():
        raise FloatingPointError(_overflow(parts.columns, preset))
    return loss, stats


def observation_loss(new: Tensor, batch: LossInputs, denominators: Denominators) -> Tensor:
    """The cross-entropy of what the environment said after the policy's actions (ECHO, 2605.24517), 0-dim.

    The mean is over the observations' own tokens of the whole batch. new: [B, T] log pi, also at these tokens.
    """
    observed = as_mask(batch.shaped("observations", tuple(new.shape), "observation_coef"), new.device)  # [B, T]
    # L = -(1 / N_o) sum_t log pi(o_t), o_t given all tokens before it    [B, T] -> []  ECHO, 2605.24517
    chosen = torch.where(observed, new, 0).to(torch.promote_types(new.dtype, torch.float32))
    return -chosen.sum() / max(1, denominators.n_observations)


def _divergence(batch: LossInputs, preset: Preset, mask: Tensor) -> Tensor:
    """[B, T] the policy's divergence from the teacher, in the place of the policy term."""
    shape = (*mask.shape, int(torch.as_tensor(batch.need("teacher_top_logprobs", "divergence")).shape[-1]))
    new, teacher = (batch.shaped(name, shape, "divergence") for name in ("top_logprobs", "teacher_top_logprobs"))
    return divergence(new, teacher.to(mask.device).detach(), mask, preset.divergence)


def policy_terms(
    new: Tensor, batch: LossInputs | Mapping[str, object], preset: Preset, *, validate: bool = True
) -> PolicyTerms:
    """Ratio, clip and corrections of every token, before any sum; arguments and errors as in `policy_loss`."""
    batch = LossInputs.of(batch)
    dtype = torch.promote_types(new.dtype, torch.float32)  # a ratio in half precision has 3 digits
    why = f"preset {preset.name!r}"
    mask = as_mask(batch.need("mask", why), new.device)  # [B, T]
    if mask.numel() == 0:
        raise ValueError(f"the batch is empty: the mask has shape {tuple(mask.shape)}")
    if new.shape != mask.shape:
        raise ValueError(f"new has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    sequences = sequences_of(batch, mask)  # R sequences
    # masked entries become 0 before any exp: garbage there, NaN included, must reach neither value nor gradient
    columns: Columns = {"new": torch.where(mask, new, 0).to(dtype)}
    for name in (*LOGPROBS, "entropy"):
        columns[name] = _column(batch, name, preset, mask, dtype)
    advantages = _advantages(batch, why, sequences, dtype)  # [B, T]
    if validate:
        _check_numbers(columns, advantages, sequences, preset)
    # log r_t = new_t - denominator_t, [B, T]; without a ratio its value is 0 and its gradient unused
    denominator = columns[f"{preset.ratio_denominator}_logprobs"]
    if denominator is None:
        denominator = columns["new"].detach()
    chosen = {name: _chosen(batch, name, preset, mask) for name in ("covariant", "uncertain")}
    log_ratio = columns["new"] - denominator
    terms = Terms(columns["new"], log_ratio, denominator, advantages, sequences, chosen["covariant"])
    clipped = preset.clip_rule.loss(terms, preset)
    weight = None
    if preset.corrections:
        gap = CorrectionInputs(
            columns["old_logprobs"], columns["behaviour_logprobs"], columns["new"].detach(), advantages
        )
        weights = sequence_correction_weights if preset.per_sequence else correction_weights
        weight = weights(preset.corrections, gap, sequences)  # [R] where the loss is, else [B, T]
    if chosen["uncertain"] is not None:
        # w_t <- w_t 1[H_t >= tau], H_t among the highest of the batch   [B, T]  2506.01939
        weight = chosen["uncertain"].to(dtype) * (1 if weight is None else weight)
    return PolicyTerms(columns, terms, clipped, weight)


def _regularisers(columns: Columns, terms: Terms, preset: Preset) -> Tensor | None:
    """[B, T] sum of what is added to the policy term: KL, square to the behaviour policy, entropy; None if nothing."""
    extra = None
    mask = terms.sequences.mask
    if preset.kl_in == "loss" and preset.kl_coef > 0:
        # c KL_t, by the estimator of `kl_loss`                         [B, T]
        extra = preset.kl_coef * kl_loss(terms.new, columns["ref_logprobs"], mask, preset.kl, terms.log_ratio)
    if preset.behaviour_penalty:
        # c (new_t - behaviour_t)^2                                    [B, T]  prime-rl
        square = preset.behaviour_penalty * (terms.new - columns["behaviour_logprobs"]).square()
        extra = square if extra is None else extra + square
    if preset.entropy_coef:
        # -c H_t                                                       [B, T]  A3C, 1602.01783
        bonus = -preset.entropy_coef * columns["entropy"]
        extra = bonus if extra is None else extra + bonus
    return extra


def _column(batch: LossInputs, name: str, preset: Preset, mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """[B, T], 0 at masked tokens; detached except the entropy. None when absent and not needed."""
    why = f"preset {preset.name!r}"
    if name not in preset.needs and getattr(batch, name) is None:
        return None
    value: Tensor = torch.where(mask, batch.shaped(name, tuple(mask.shape), why).to(mask.device), 0).to(dtype)
    return value if name == "entropy" else value.detach()


def _chosen(batch: LossInputs, name: str, preset: Preset, mask: Tensor) -> Tensor | None:
    """[B, T] bool, False at masked tokens; None where the preset reads none."""
    if name not in preset.needs:
        return None
    value = batch.shaped(name, tuple(mask.shape), f"preset {preset.name!r}").to(mask.device)
    return as_mask(torch.where(mask, value, 0))


def _advantages(batch: LossInputs, why: str, sequences: SequenceIndex, dtype: torch.dtype) -> Tensor:
    """[B, T], 0 at masked tokens."""
    mask = sequences.mask
    # [R] or [B, T]; no gradient flows through A
    value = torch.as_tensor(batch.need("advantages", why), device=mask.device).detach().to(dtype)
    if value.shape == (sequences.n,):
        return sequences.broadcast(value)
    if value.shape == mask.shape:
        return torch.where(mask, value, 0)
    raise ValueError(
        f"advantages have shape {tuple(value.shape)}; expected one per sequence ({sequences.n},) or per token "
        f"{tuple(mask.shape)}"
    )


def _check_numbers(columns: Columns, advantages: Tensor, sequences: SequenceIndex, preset: Preset) -> None:
    for name, value in {**columns, "advantages": advantages}.items():
        if value is not None and not value.isfinite().all():
            bad = (~value.isfinite()).nonzero()[0].tolist()
            raise ValueError(
                f"{name} is {value[tuple(bad)].item()} at trained position {bad}: NaN or infinite values are refused "
                "(mask the token, or find out why its log-probability is not finite)"
            )
    if preset.per_sequence and preset.clip_rule.one_advantage:
        gap = (advantages - sequences.broadcast(sequences.mean(advantages))).abs().max()  # []
        if gap > 1e-5 * advantages.abs().max().clamp(min=1):
            raise ValueError(
                f"preset {preset.name!r} has one ratio per sequence, so it takes one advantage per sequence; these "
                f"differ inside a sequence by {gap.item():.3g}. Per-token advantages: gspo_token, or a token-level "
                "preset"
            )


def _overflow(columns: Columns, preset: Preset) -> str:
    # largest |log-ratio| of each
    gaps = {name: (columns["new"] - columns[name]).abs().max().item() for name in LOGPROBS if columns[name] is not None}
    largest = ", ".join(f"|new - {name.removesuffix('_logprobs')}| <= {gap:.1f}" for name, gap in gaps.items())
    return (
        f"the loss of preset {preset.name!r} overflows {columns['new'].dtype}: {largest}. The policies are too far "
        "apart for an unbounded ratio; use a bounded rule (dual_clip, cispo), or find the mismatch"
    )


# the log's figures: ratios, clip fractions, the gap to the behaviour policy, KL, entropy


def policy_stats(
    columns: Mapping[str, Tensor | None], terms: Terms, clipped: Clipped, weight: Tensor | None
) -> dict[str, Tensor]:
    """0-dim, detached, finite; see `merge_stats`. columns: [B, T] log-probs and entropy, None where not given."""
    sequences, mask, new = terms.sequences, terms.sequences.mask, terms.new
    n = mask.sum()  # [] trained tokens
    stats = {
        "n_tokens": n,
        "n_sequences": torch.tensor(sequences.n),
        "n_empty_sequences": (sequences.lengths == 0).sum(),
    }
    stats |= _spread("ratio", terms.log_ratio, mask)
    # k3 of Schulman 2020: E[exp(x) - 1 - x] with x = log r, never negative
    stats["approx_kl"] = _mean(torch.expm1(_bounded(terms.log_ratio)) - terms.log_ratio, mask)
    for side, held in (("low", clipped.low), ("high", clipped.high)):
        if held.shape == mask.shape:
            stats[f"clip_frac_{side}"] = _mean(held.to(new.dtype), mask)
        else:
            stats[f"clip_frac_{side}"] = held.sum() / (sequences.lengths > 0).sum().clamp(min=1)
    behaviour, old, ref = (columns[f"{name}_logprobs"] for name in ("behaviour", "old", "ref"))
    if behaviour is not None:
        log_rho = (new if old is None else old) - behaviour  # [B, T]
        stats |= _spread("behaviour_ratio", log_rho, mask)
        # k1_t = behaviour_t - old_t, k3_t = rho_t - 1 - log rho_t: KL(behaviour || trainer)   [B, T]  Schulman 2020
        stats["behaviour_kl_k1"] = _mean(-log_rho, mask)
        stats["behaviour_kl_k3"] = _mean(torch.expm1(_bounded(log_rho)) - log_rho, mask)
        stats["behaviour_ess"] = effective_sample_size(log_rho, mask)
    if ref is not None:
        # k1_t = new_t - ref_t, k3_t = exp(-k1_t) - 1 + k1_t: KL(policy || ref)        [B, T]  Schulman 2020
        stats["ref_kl_k1"] = _mean(new - ref, mask)
        stats["ref_kl_k3"] = _mean(torch.expm1(_bounded(ref - new)) - (ref - new), mask)
    if (entropy := columns["entropy"]) is not None:
        stats["entropy"] = _mean(entropy.detach(), mask)
    if weight is not None:
        live = mask if weight.shape == mask.shape else sequences.lengths > 0  # [B, T] or [R], as the weight
        stats["correction_mean"] = _mean(weight, live)
        stats["correction_zero_frac"] = _mean((weight == 0).to(new.dtype), live)
    return stats


def effective_sample_size(log_weight: Tensor, mask: Tensor) -> Tensor:
    """(sum w)^2 / (n sum w^2) of the trained tokens' weights: 1 when all are equal, 1/n when one rules.

    Shift-invariant in logs, so it never overflows; 1 when there is no token.
    """
    w = torch.where(mask, log_weight, -torch.inf)  # [B, T]
    # a common factor of the weights cancels: the largest is divided out before exp
    top = w.max() if w.numel() else w.sum()
    w = torch.where(mask, (w - torch.where(top.isfinite(), top, 0)).exp(), 0)
    n = mask.sum()
    # ESS/n = (sum_t w_t)^2 / (n sum_t w_t^2)                        []  Kish 1965
    return torch.where(n > 0, w.sum().square() / (n * w.square().sum()).clamp(min=1e-30), 1.0)


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, 0).sum() / mask.sum().clamp(min=1)


def _bounded(log_ratio: Tensor) -> Tensor:
    """For stats only: far outside what a policy does, but finite after exp and a sum."""
    bound = 60.0 if log_ratio.dtype == torch.float32 else 300.0  # exp(60)^2 is still finite in float32
    return log_ratio.clamp(-bound, bound)


def _spread(name: str, log_ratio: Tensor, mask: Tensor) -> dict[str, Tensor]:
    ratio = _bounded(log_ratio).exp()  # [B, T]
    some = mask.any()
    return {
        f"{name}_mean": torch.where(some, _mean(ratio, mask), 1),
        f"{name}_min": torch.where(some, torch.where(mask, ratio, math.inf).amin(), 1),
        f"{name}_max": torch.where(some, torch.where(mask, ratio, 0).amax(), 1),
    }


def merge_stats(parts: Sequence[Mapping[str, Tensor | float]]) -> dict[str, float]:
    """Stats of a batch from those of its micro-batches, as plain floats.

    Losses and counts (`n_...`) add up, `..._min` and `..._max` take the extreme, everything else is averaged with the
    number of trained tokens (or pairs) as weight (`behaviour_ess` exactly, from its moments).
    """
    floats = [{key: float(value) for key, value in part.items()} for part in parts]
    tokens = [part.get("n_tokens", part.get("n_pairs", 1.0)) for part in floats]
    merged: dict[str, float] = {}
    for key in dict.fromkeys(key for part in floats for key in part):
        pairs = [(part[key], n) for part, n in zip(floats, tokens, strict=True) if key in part]
        live = [(value, n) for value, n in pairs if n > 0] or pairs  # a micro-batch without tokens has no mean
        values = [value for value, _ in live]
        if key.startswith("n_") or key.endswith("loss"):
            merged[key] = sum(value for value, _ in pairs)
        elif key.endswith("_min"):
            merged[key] = min(values)
        elif key.endswith("_max"):
            merged[key] = max(values)
        else:
            merged[key] = sum(value * n for value, n in live) / max(sum(n for _, n in live), 1.0)
    if "behaviour_ess" in merged:
        merged["behaviour_ess"] = _merged_ess(floats, merged)
    return merged


def _merged_ess(parts: list[dict[str, float]], merged: Mapping[str, float]) -> float:
    live = [p for p in parts if p.get("n_tokens", 0) > 0 and "behaviour_ess" in p]
    if not live:
        return 1.0
    # sum w = mean n and sum w^2 = mean^2 n / ess, so the moments of the parts give the ESS of the whole
    first = sum(p["behaviour_ratio_mean"] * p["n_tokens"] for p in live)
    second = sum(p["behaviour_ratio_mean"] ** 2 * p["n_tokens"] / p["behaviour_ess"] for p in live)
    return first**2 / (merged["n_tokens"] * second) if second > 0 else 1.0
