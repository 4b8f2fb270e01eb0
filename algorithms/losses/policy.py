"""`policy_loss`: one composition of a ratio, a clip rule, corrections, a KL and an aggregation, read from a preset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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
from rlvr.algorithms.losses.kl import kl_loss
from rlvr.algorithms.losses.stats import policy_stats
from rlvr.algorithms.recipe.loss_parts import AGGREGATIONS, Clipped, CorrectionInputs, Terms
from rlvr.algorithms.recipe.presets import Preset

LOGPROBS = ("old_logprobs", "behaviour_logprobs", "ref_logprobs")
Columns = dict[str, Any]  # name to [B, T], or None where it was not given


@dataclass(frozen=True)
class PolicyTerms:
    """The parts of a policy loss, before they are summed: what `rlvr explain` shows of each token.

    columns     `new` and every log-prob that was given, [B, T], 0 at masked tokens
    terms       what the clip rule read
    clipped     what it returned, before corrections
    weight      product of the corrections, [B, T] or [R]; None without any
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
    _check_counts(denominators, preset)
    count = preset.count_empty_sequences
    loss = aggregate(parts.loss, sequences, preset.aggregation, denominators, group, count)  # []
    stats = {"policy_loss": loss.detach()}
    extra = _regularisers(parts.columns, parts.terms, preset)
    if extra is not None:
        how = regulariser_aggregation(preset.aggregation, preset.ratio_level)
        term = aggregate(extra, sequences, how, denominators, group, count)  # []
        stats["regulariser_loss"] = term.detach()
        loss = loss + term
    stats["loss"] = loss.detach()
    with torch.no_grad():
        stats |= policy_stats(parts.columns, parts.terms, parts.clipped, parts.weight)
    if validate and not loss.isfinite():
        raise FloatingPointError(_overflow(parts.columns, preset))
    return loss, stats


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
    terms = Terms(columns["new"], columns["new"] - denominator, denominator, advantages, sequences)
    clipped = preset.clip_rule.loss(terms, preset)
    weight = None
    if preset.corrections:
        gap = CorrectionInputs(
            columns["old_logprobs"], columns["behaviour_logprobs"], columns["new"].detach(), advantages
        )
        weights = sequence_correction_weights if preset.per_sequence else correction_weights
        weight = weights(preset.corrections, gap, sequences)  # [R] where the loss is, else [B, T]
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


def _check_counts(denominators: Denominators, preset: Preset) -> None:
    if denominators.n_tokens <= 0 or denominators.n_live_sequences <= 0:
        raise ValueError("all sequences are masked: the batch has no trained token, skip the update")
    AGGREGATIONS[preset.aggregation].check(denominators)


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
