"""`Correction`: a weight for the gap between the behaviour policy and the trainer, with its bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlvr.algorithms.core.allowed_names import one_of
from rlvr.algorithms.core.inputs import MissingInput
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.core.sequences import SequenceIndex
from rlvr.envs.open_registry import OpenRegistry, require_parts


@dataclass(frozen=True)
class CorrectionInputs:
    """Log-probabilities of one batch, [B, T], detached and 0 at masked tokens, and the advantages."""

    old: Tensor | None  # the trainer's, when the batch was taken
    behaviour: Tensor  # the engine's, when it sampled
    new: Tensor  # the trainer's, now
    advantages: Tensor  # A_t

    @property
    def log_rho(self) -> Tensor:
        """[B, T] log old / behaviour."""
        if self.old is None:
            raise MissingInput("corrections by old / behaviour need 'old_logprobs' in the batch")
        # log rho_t = old_t - behaviour_t                               [B, T]
        return self.old - self.behaviour


Bounds = tuple[float, float]


@dataclass(frozen=True)
class CorrectionRule:
    """One correction: what it is called, its formula, and the weight of every token.

    weight      (inputs, sequences, (low, high)) -> [B, T]
    needs       entries of `LossInputs` that it reads
    per_token   whether tokens of one sequence can weigh differently
    reweights   whether it multiplies by rho; two such corrections would apply it twice
    """

    name: str
    formula: str
    weight: Callable[[CorrectionInputs, SequenceIndex, Bounds], Tensor]
    needs: tuple[str, ...] = ("old_logprobs", "behaviour_logprobs")
    per_token: bool = False
    reweights: bool = True


def _as_correction(value: Any) -> CorrectionRule:
    rule: CorrectionRule = require_parts(value, CorrectionRule, "correction")
    if not callable(rule.weight):
        raise TypeError(f"the correction {rule.name!r} needs weight, a function (inputs, sequences, bounds) -> [B, T]")
    return rule


CORRECTIONS: OpenRegistry[CorrectionRule] = OpenRegistry("correction", "rlvr.algorithms", {}, _as_correction)


def register_correction(rule: CorrectionRule) -> CorrectionRule:
    """Add a correction; ``Correction(name, low, high)`` then puts it into a preset.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return CORRECTIONS.register(rule)


@dataclass(frozen=True)
class Correction:
    """A choice of a preset: one of `CORRECTIONS` with its bounds.

    kind             weight of a token                                   made by
    tis              min(rho_t, high)                                    tis(2.0)
    seq_tis          min(prod rho, high)                                 seq_tis(2.0)
    icepop           rho_t where low <= rho_t <= high, else 0            icepop(0.5, 5.0)
    seq_mis          prod rho where it lies in [low, high], else 0       seq_mis(0.5, 2.0)
    geo_mask         1 where exp(mean log rho) lies in [low, high]       geo_mask(0.95, 1.05)
    off_policy_mask  0 where A < 0 and mean(behaviour - new) > high      off_policy_mask(0.2)
    """

    kind: str
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", CORRECTIONS.name_of(self.kind))
        one_of("correction", self.kind, CORRECTIONS)
        if not self.low <= self.high:
            raise ValueError(f"correction {self.kind!r}: low={self.low} is above high={self.high}")

    @property
    def rule(self) -> CorrectionRule:
        """The object that says how the weight is computed."""
        return CORRECTIONS[self.kind]

    def __str__(self) -> str:
        bounds = f"[{self.low:g}, {self.high:g}]" if self.low else f"{self.high:g}"
        return f"{self.kind} {bounds}"


def tis(cap: float = 2.0) -> Correction:
    """Truncated importance sampling per token: min(rho_t, cap)."""
    return Correction("tis", high=cap)


def seq_tis(cap: float = 2.0) -> Correction:
    """Truncated importance sampling per sequence: min(prod_t rho_t, cap)."""
    return Correction("seq_tis", high=cap)


def icepop(low: float = 0.5, high: float = 5.0) -> Correction:
    """Masked importance sampling per token (IcePop, 2510.18855)."""
    return Correction("icepop", low, high)


def seq_mis(low: float = 0.5, high: float = 2.0) -> Correction:
    """Masked importance sampling per sequence."""
    return Correction("seq_mis", low, high)


def geo_mask(low: float = 0.95, high: float = 1.05) -> Correction:
    """Keep a sequence only if the geometric mean of its rho_t lies in [low, high]."""
    return Correction("geo_mask", low, high)


def off_policy_mask(delta: float = 0.2) -> Correction:
    """Drop a sequence that was a failure and has drifted too far (DeepSeek-V3.2)."""
    return Correction("off_policy_mask", high=delta)
