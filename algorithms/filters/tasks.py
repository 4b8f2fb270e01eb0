"""Filters of tasks: which are drawn again; `rlvr.algorithms.sampling.collect` draws."""

from __future__ import annotations

from typing import Any

from rlvr.algorithms.recipe.episode_filter import EpisodeFilter


class NoPositiveResampling(EpisodeFilter):
    """A row of a table that was solved in ``selection.retire_at`` of its episodes is not drawn again."""

    name = "no_positive_resampling"
    retires = True
    reads = ("selection.retire_at", "selection.retire_after")

    def idle(self, config: Any, endless: bool) -> str:
        return "tasks made without end never return" if endless else ""


class ByRate(EpisodeFilter):
    """Tasks are drawn in proportion to 1 - pass rate, unless the section ``curriculum`` says otherwise."""

    name = "curriculum"
    draws_by_rate = True
