"""All filters by name, and the order in which they act."""

from __future__ import annotations

from collections.abc import Iterable

from rlvr.algorithms.filters.audit import Audit
from rlvr.algorithms.filters.groups import ActiveSampling, DynamicSampling, KeepCorrect, KeepShort, ZeroGradient
from rlvr.algorithms.filters.lengths import (
    BudgetedThinking,
    LengthReward,
    OverlongFilter,
    PartialRollouts,
    SoftOverlong,
)
from rlvr.algorithms.filters.tasks import ByRate, NoPositiveResampling
from rlvr.algorithms.recipe.episode_filter import FILTERS, EpisodeFilter, register_filter

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
    Audit(),
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

for _filter in _ORDER:
    register_filter(_filter)


def acting(names: Iterable[str]) -> tuple[EpisodeFilter, ...]:
    """The filters of some names in the order in which they act: ours in that of the table above, then the others."""
    # one that is named twice acts once
    objects = {name: FILTERS[name] for name in names}
    ours = [each for each in _ORDER if each in objects.values()]
    return (*ours, *(each for each in objects.values() if each not in ours))
