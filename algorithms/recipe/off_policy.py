"""Whether an algorithm weighs by the policy that sampled, and how one that does not is corrected."""

from __future__ import annotations

from collections.abc import Callable

from rlvr.algorithms.recipe.loss_parts import Correction, icepop, seq_mis, seq_tis, tis
from rlvr.algorithms.recipe.presets import Preset

MADE: dict[str, Callable[[], Correction]] = {"tis": tis, "seq_tis": seq_tis, "icepop": icepop, "seq_mis": seq_mis}


def samples_off_policy(preset: Preset) -> bool:
    """Whether the gradient accounts for tokens of an older policy: by its ratio, or by a correction that reweights."""
    by_ratio = preset.ratio_denominator == "behaviour" and preset.ratio_level != "none"
    return by_ratio or any(correction.rule.reweights for correction in preset.corrections)


def corrected(preset: Preset, correction: str) -> Preset:
    """The preset with a schedule's correction (one of `MADE`, or "none"), if it needs one.

    Raises:
        ValueError: the correction does not go with the preset.
    """
    if correction == "none" or samples_off_policy(preset):
        return preset
    return preset.replace(corrections=(*preset.corrections, MADE[correction]()))
