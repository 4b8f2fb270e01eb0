"""Weights for the gap between the behaviour policy and the trainer: rho = old / behaviour, always detached.

An inference engine does not compute the log-probabilities that the trainer computes, even with the same weights; an
asynchronous one has older weights as well. These weights multiply the policy term of a token (or of a sequence); the KL
term is not touched. Tokens and sequences that get weight zero *stay in the denominators* (Prime, OlmoRL, TRL); verl
edits the mask, so there the denominator shrinks. A ratio that is already new / behaviour needs none of this (`Preset`
refuses it).

Sources: truncated importance sampling, Yao et al. 2025 ("Your efficient RL framework secretly brings you off-policy RL
training"); its forms per sequence, Liu, Li et al. 2025 ("When speed kills stability"); IcePop, 2510.18855; the sequence
mask of DeepSeek-V3.2, 2512.02556. Beware: verl's `token_k1` thresholds bound the inverse ratio, behaviour / old.
"""

from __future__ import annotations

from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import SequenceIndex
from rlvr.algorithms.recipe.loss_parts import Bounds, Correction, CorrectionInputs, CorrectionRule, register_correction


def _tis(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_t = min(rho_t, high)                                        [B, T]  TIS, Yao et al. 2025
    return x.log_rho.exp().clamp(max=bounds[1])


def _icepop(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_t = rho_t 1[low <= rho_t <= high]                           [B, T]  IcePop, 2510.18855
    rho = x.log_rho.exp()  # [B, T]
    return torch.where((rho >= bounds[0]) & (rho <= bounds[1]), rho, 0)


def _seq_tis(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_i = min(prod_t rho_t, high)                                 [R]  sequence-level TIS, Liu, Li et al. 2025
    return sequences.broadcast(sequences.sum(x.log_rho).exp().clamp(max=bounds[1]))


def _seq_mis(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_i = p_i 1[low <= p_i <= high], p_i = prod_t rho_t           [R]  masked importance sampling, Liu, Li et al. 2025
    product = sequences.sum(x.log_rho).exp()  # [R]
    return sequences.broadcast(torch.where((product >= bounds[0]) & (product <= bounds[1]), product, 0))


def _geo_mask(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_i = 1[low <= exp(mean_t log rho_t) <= high]                 [R]  geometric mask, Liu, Li et al. 2025
    mean = sequences.mean(x.log_rho).exp()  # [R]
    return sequences.broadcast(((mean >= bounds[0]) & (mean <= bounds[1])).to(x.new.dtype))


def _off_policy_mask(x: CorrectionInputs, sequences: SequenceIndex, bounds: Bounds) -> Tensor:
    # w_t = 0 where A_t < 0 and mean_t(behaviour - new) > high, else 1   [B, T]  DeepSeek-V3.2, 2512.02556
    stale = sequences.mean(x.behaviour - x.new) > bounds[1]  # [R]
    return (~((x.advantages < 0) & sequences.broadcast(stale))).to(x.new.dtype)


for _rule in (
    CorrectionRule("tis", "min(rho_t, high)", _tis, per_token=True),
    CorrectionRule("seq_tis", "min(prod rho, high)", _seq_tis),
    CorrectionRule("icepop", "rho_t where low <= rho_t <= high, else 0", _icepop, per_token=True),
    CorrectionRule("seq_mis", "prod rho where it lies in [low, high], else 0", _seq_mis),
    CorrectionRule("geo_mask", "1 where exp(mean log rho) lies in [low, high]", _geo_mask, reweights=False),
    CorrectionRule(
        "off_policy_mask",
        "0 where A < 0 and mean(behaviour - new) > high",
        _off_policy_mask,
        needs=("behaviour_logprobs",),
        reweights=False,
    ),
):
    register_correction(_rule)


def correction_weights(
    corrections: tuple[Correction, ...], inputs: CorrectionInputs, sequences: SequenceIndex
) -> Tensor:
    """[B, T] product of the corrections' weights; `CORRECTIONS` has each formula."""
    weight = torch.ones_like(inputs.new)  # [B, T]
    for correction in corrections:
        # w = prod over corrections of w_c                              [B, T]
        weight = weight * correction.rule.weight(inputs, sequences, (correction.low, correction.high))
    return weight


def sequence_correction_weights(
    corrections: tuple[Correction, ...], inputs: CorrectionInputs, sequences: SequenceIndex
) -> Tensor:
    """[R] product of the corrections' weights for a loss per sequence (whose corrections are all per sequence)."""
    # A sequence's weight is the same on all of its tokens, so the mean reads it off.
    return sequences.mean(correction_weights(corrections, inputs, sequences))
