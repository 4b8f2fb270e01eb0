"""The choices that make an algorithm, as plain values; `Preset` adds what they mean together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvr.algorithms.recipe.correction import Correction


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
    tau             weight of Kimi's square; of Prime's log-ratio inside the bounds
    gate            SAPO temperatures for A > 0 and A <= 0
    aggregation     one of AGGREGATIONS
    count_empty_sequences  whether a sequence without trained tokens still counts in the denominators (B and Q)
    kl, kl_in, kl_coef   estimator, "loss" or "reward", coefficient
    behaviour_penalty  coefficient of (new - behaviour)^2
    entropy_coef    coefficient of an entropy bonus (needs `entropy` in the batch)
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
    aggregation: str = "token_mean"
    count_empty_sequences: bool = True
    kl: str = "none"
    kl_in: str = "loss"
    kl_coef: float = 0.0
    behaviour_penalty: float = 0.0
    entropy_coef: float = 0.0
    corrections: tuple[Correction, ...] = ()
    filters: tuple[str, ...] = ()
    value_clip: float | None = 0.2  # PPO's reference code
    arxiv: str = ""
    note: str = ""

    @property
    def reward_kl_coef(self) -> float:
        """The coefficient of a KL in the reward; 0 where there is none."""
        return self.kl_coef if self.kl_in == "reward" else 0.0
