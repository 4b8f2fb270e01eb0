"""All filters by name, and the order in which they act."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rlvr.algorithms.filters.base import EpisodeFilter
from rlvr.algorithms.filters.groups import ActiveSampling, DynamicSampling, KeepCorrect, KeepShort, ZeroGradient
from rlvr.algorithms.filters.lengths import (
    BudgetedThinking,
    LengthReward,
    OverlongFilter,
    PartialRollouts,
    SoftOverlong,
)
from rlvr.algorithms.filters.tasks import ByRate, NoPositiveResampling
from rlvr.envs.open_registry import OpenRegistry, require_parts

# Sums of rewards depend on the order in their last bits, and GFPO compares the rewards of those that it keeps.
_ORDER = (
    # of whole groups, which are replaced
    DynamicSampling(),
    ActiveSampling(),
    # of how, and of what, is sampled
    BudgetedThinking(),
    NoPositiveResampling(),
    ByRate(),
    # of rewards and tokens, group by group
    SoftOverlong(),
    LengthReward(),
    OverlongFilter(),
    # of all sequences of the step
    KeepShort(),
    ZeroGradient(),
    # done elsewhere
    KeepCorrect(),
    PartialRollouts(),
)


def _as_filter(value: Any) -> EpisodeFilter:
    each: EpisodeFilter = require_parts(value, EpisodeFilter, "filter")
    return each


FILTERS: OpenRegistry[EpisodeFilter] = OpenRegistry(
    "filter", "rlvr.algorithms", {each.name: each for each in _ORDER}, _as_filter
)


def register_filter(rule: EpisodeFilter) -> EpisodeFilter:
    """Add a filter, an object of a subclass of `EpisodeFilter`; its name may then stand in ``filters``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return FILTERS.register(rule)


def acting(names: Iterable[str]) -> tuple[EpisodeFilter, ...]:
    """The filters of some names in the order in which they act: ours in that of the table above, then the others."""
    # one that is named twice acts once
    objects = {name: FILTERS[name] for name in names}
    ours = [each for each in _ORDER if each in objects.values()]
    return (*ours, *(each for each in objects.values() if each not in ours))
