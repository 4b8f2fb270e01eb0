"""What a policy loss is made of: the choices, and one kind of object each for clip rule, aggregation, correction.

A researcher adds one by `register_clip_rule`, `register_aggregation` or `register_correction`; ours are in
`rlvr.algorithms.losses` and register themselves in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rlvr.algorithms.core.inputs import MissingInput
from rlvr.algorithms.core.lazy_torch import Tensor
from rlvr.algorithms.core.sequences import Denominators, SequenceIndex
from rlvr.envs.core.hints import one_of
from rlvr.envs.open_registry import OpenRegistry, require_methods, require_parts


@dataclass(frozen=True)
class BatchLoss:
    """What an aggregation reads: the losses of a micro-batch, and the counts of the whole batch."""

    loss: Tensor  # [B, T] per token, or [R] per sequence
    sequences: SequenceIndex  # which token belongs to which
    denominators: Denominators  # of the whole batch
    group: Tensor | None  # [R] ids of prompts
    n_sequences: int  # B, without those that have no trained token where these do not count
    n_prompts: int  # Q, likewise

    @property
    def sums(self) -> Tensor:
        """[R] sum_t l_it."""
        return self.sequences.sum(self.loss)


class Aggregation:
    """Base of the aggregations. A new one is a subclass; `register_aggregation` gives its name to presets."""

    name: str  # what `Preset.aggregation` says
    formula: str  # L = ..., in one line
    needs: tuple[str, ...] = ()  # entries of `LossInputs` that it reads
    per_sequence: bool = False  # whether it takes a loss per sequence, and no loss per token

    def reduce(self, x: BatchLoss) -> Tensor:
        """The loss of the batch, []; MissingInput or ValueError for counts that it cannot divide by."""
        raise NotImplementedError


def _as_aggregation(value: Any) -> Aggregation:
    aggregation: Aggregation = require_methods(value, Aggregation, ("reduce",), "aggregation")
    if not isinstance(getattr(value, "formula", None), str):
        raise TypeError(f"the aggregation {value.name!r} has no formula: set its attribute formula")
    return aggregation


AGGREGATIONS: OpenRegistry[Aggregation] = OpenRegistry("aggregation", "rlvr.algorithms", {}, _as_aggregation)


def register_aggregation(aggregation: Aggregation) -> Aggregation:
    """Add an aggregation; its name may then stand in ``aggregation`` and ``loss_reduction``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return AGGREGATIONS.register(aggregation)


@dataclass(frozen=True)
class Terms:
    """What a kernel reads. All [B, T], 0 at masked tokens; only `new` and `log_ratio` carry gradient."""

    new: Tensor  # log pi(y_t)
    log_ratio: Tensor  # log r_t = new - denominator
    denominator: Tensor  # log-probs of the old or the behaviour policy
    advantages: Tensor  # A_t
    sequences: SequenceIndex
    covariant: Tensor | None = None  # bool, what the rule itself has chosen by `ClipRule.choose`


@dataclass(frozen=True)
class Clipped:
    """A loss per token [B, T] or per sequence [R], and where the rule held it from below or above (same shape)."""

    loss: Tensor
    low: Tensor
    high: Tensor


class ClipRule:
    """Base of the rules. A new rule is a subclass; `register_clip_rule` gives its name to presets.

    name            what `Preset.clip` says
    ratio_levels    levels of the ratio that it takes
    reads           choices of the preset that it reads; any other override of a bound is refused
    chooses         whether it treats some tokens of the whole batch in another way, which `choose` says
    one_advantage   whether a loss per sequence needs one advantage for all tokens of a sequence
    """

    name: str
    ratio_levels: tuple[str, ...] = ("token",)
    reads: tuple[str, ...] = ()
    chooses: bool = False
    one_advantage: bool = True

    def loss(self, t: Terms, p: Choices) -> Clipped:
        """The kernel."""
        raise NotImplementedError

    def choose(self, logprobs: Tensor, advantages: Tensor, mask: Tensor, p: Choices, seed: int = 0) -> Tensor:
        """[B, T] bool, the chosen tokens of a whole batch; all arguments are [B, T], ``seed`` is of a random draw."""
        raise NotImplementedError

    def formula(self, p: Choices) -> str:
        """The loss in one line, with the preset's numbers."""
        raise NotImplementedError

    def summary(self, p: Choices) -> str:
        """The rule and its numbers, for a column of the table."""
        return self.name

    def ratio_formula(self, p: Choices, gap: str) -> str:
        """What r stands for; "" where the formula names no r. ``gap`` is the log-ratio of a token."""
        return {
            "none": "",
            "token": f"r = exp({gap})",
            "sequence": f"r = exp(mean_t({gap}))",
            "sequence_token": f"r = sg(exp(mean_t({gap}))) pi/sg(pi)",
            "product": f"r = exp(sum_t({gap}))",
        }[p.ratio_level]

    def per_sequence(self, p: Choices) -> bool:
        """Whether the loss is one number per sequence (it does not factor into tokens)."""
        return False

    def acts_without_advantage(self, p: Choices) -> bool:
        """Whether a token of advantage zero still has a gradient."""
        return False

    def check(self, p: Choices) -> None:
        """Refuse choices that do not go with the rule.

        Raises:
            ValueError: which, and what to change.
        """


def _as_clip_rule(value: Any) -> ClipRule:
    rule: ClipRule = require_methods(value, ClipRule, ("loss", "formula"), "clip rule")
    return rule


CLIP_RULES: OpenRegistry[ClipRule] = OpenRegistry("clip rule", "rlvr.algorithms", {}, _as_clip_rule)


def register_clip_rule(rule: ClipRule) -> ClipRule:
    """Add a clip rule, an object of a subclass of `ClipRule`; its name may then stand in ``clip``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return CLIP_RULES.register(rule)


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


@dataclass(frozen=True)
class Choices:
    """One value for each choice.

    advantage       one of ADVANTAGES; `gamma`, `lam`, `whiten`, `alpha`, `group_keep`, `pass_k`, `continuations` are
                    its settings
    ratio_level     the ratio: of tokens, of whole sequences as geometric mean ("sequence"), the same spread over tokens
                    ("sequence_token"), as plain product, or "none" (the log-probability itself is differentiated)
    ratio_denominator  "old" (trainer, when the batch was taken) or "behaviour" (the policy that sampled, in its engine)
    clip            one of CLIP_RULES
    clip_low/high   distances: the ratio is held in [1 - clip_low, 1 + clip_high] (logs for gmpo)
    dual_clip       bound c on the ratio where A < 0 (PPO rule only)
    ratio_min/max   absolute bounds, not distances, for cispo, prime and topr
    tau             weight of Kimi's square; of Prime's log-ratio inside the bounds; of kl_cov's KL
    gate            SAPO temperatures for A > 0 and A <= 0
    cov_share       clip_cov, kl_cov: share of the trained tokens that is chosen by the covariance of log pi and A
    cov_bounds      clip_cov: the covariances between which tokens are drawn
    entropy_share   share of the trained tokens, those of the highest entropy, that the policy term acts on
    aggregation     one of AGGREGATIONS
    count_empty_sequences  whether a sequence without trained tokens still counts in the denominators (B and Q)
    kl, kl_in, kl_coef   estimator, "loss" or "reward", coefficient
    divergence      distillation: "sampled" (the policy gradient of the reverse KL on the sampled tokens), or in its
                    place "forward_kl", "reverse_kl" or "jsd" over the teacher's likeliest tokens and all others as one
    divergence_top  how many of its likeliest; from the size of the vocabulary on, all
    behaviour_penalty  coefficient of (new - behaviour)^2
    entropy_coef    coefficient of an entropy bonus (needs `entropy` in the batch)
    observation_coef  coefficient of the mean -log pi of the observations of later turns (ECHO; needs `observations`)
    corrections     tuple of Correction, multiplied together
    filters         what the trainer does to the data, see rlvr.algorithms.filters
    value_clip      bound on the critic's step (presets with a critic)
    group_keep      GFPO: sequences of a group that are trained on
    pass_k          pass@k: the k
    continuations   VinePPO: continuations from each state
    """

    name: str
    advantage: str = "group_mean"
    gamma: float = 1.0  # episodes end: no discount is needed for a finite return
    lam: float = 1.0  # below 1 the weight of early tokens falls with the length of the sequence
    whiten: bool = False
    alpha: float = 1.0
    group_keep: int | None = None
    pass_k: int | None = None
    continuations: int | None = None
    ratio_level: str = "token"
    ratio_denominator: str = "old"
    clip: str = "ppo"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    ratio_min: float = 0.0
    ratio_max: float = math.inf  # inf: no bound
    tau: float = 0.0
    gate: tuple[float, float] = (1.0, 1.05)
    cov_share: float = 0.0
    cov_bounds: tuple[float, float] = (1.0, 5.0)
    entropy_share: float = 1.0
    aggregation: str = "token_mean"
    count_empty_sequences: bool = True
    kl: str = "none"
    kl_in: str = "loss"
    kl_coef: float = 0.0
    divergence: str = "sampled"
    divergence_top: int = 20
    behaviour_penalty: float = 0.0
    entropy_coef: float = 0.0
    observation_coef: float = 0.0
    corrections: tuple[Correction, ...] = ()
    filters: tuple[str, ...] = ()
    value_clip: float | None = 0.2  # PPO's reference code
    arxiv: str = ""
    note: str = ""

    @cached_property
    def reward_kl_coef(self) -> float:
        """The coefficient of a KL in the reward; 0 where there is none."""
        return self.kl_coef if self.kl_in == "reward" else 0.0
