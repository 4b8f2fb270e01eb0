# Made by `python benchmarks/stubs.py`.
from collections.abc import Callable, Sequence
from typing import TypedDict

from rlvr.algorithms import Advantage, Aggregation, ClipRule, Correction, EpisodeFilter
from rlvr.algorithms.core.lazy_torch import Tensor

class ChoiceChanges(TypedDict, total=False):
    """Choices to replace; an object or a function may stand in the place of its name."""

    name: str
    advantage: str | Advantage | Callable[..., Tensor]
    gamma: float
    lam: float
    whiten: bool
    alpha: float
    group_keep: int | None
    pass_k: int | None
    continuations: int | None
    ratio_level: str
    ratio_denominator: str
    clip: str | ClipRule
    clip_low: float
    clip_high: float
    dual_clip: float | None
    ratio_min: float
    ratio_max: float
    tau: float
    gate: tuple[float, float]
    cov_share: float
    cov_bounds: tuple[float, float]
    entropy_share: float
    aggregation: str | Aggregation
    count_empty_sequences: bool
    kl: str
    kl_in: str
    kl_coef: float
    divergence: str
    divergence_top: int
    behaviour_penalty: float
    entropy_coef: float
    observation_coef: float
    corrections: tuple[Correction, ...]
    filters: Sequence[str | EpisodeFilter]
    value_clip: float | None
    arxiv: str
    note: str
