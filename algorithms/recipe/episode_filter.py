"""`EpisodeFilter`: one rule in one object: what it does to a group, what it reads, and what it refuses beside it.

A filter is a function of (episodes, rewards, config, step) and remembers nothing, so a run that goes on does what it
would have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.envs.open_registry import OpenRegistry, require_parts


class EpisodeFilter:
    """Base of the filters. A new one is a subclass; `register_filter` gives its name to presets and configs.

    Each method says what the filter does at one point of a step; one that is not defined does nothing. All get valid
    episodes that have sampled tokens.
    """

    name: str  # what ``filters`` says
    reason: str = "left out"  # why, for `rlvr explain`
    drops_groups: bool = False  # whether `keeps` decides on whole groups, which the log then counts
    retires: bool = False  # whether rows of a table that are solved are not drawn again
    draws_by_rate: bool = False  # whether tasks are drawn the less the more often they are solved
    reads: tuple[str, ...] = ()  # settings of the config that filters alone read, such as "selection.max_rounds"
    pauses: bool = False  # whether completions over ``sampling.segment`` tokens go on in the next step

    def keeps_group(self, episodes: Sequence[Episode]) -> bool:
        """Whether a group is trained on; another is drawn in place of one that is not.

        Args:
            episodes: the members of one group, G of them or fewer, at least one.
        """
        return True

    def added_rewards(self, episodes: Sequence[Episode], config: Any, step: int) -> Sequence[float]:
        """What is added to the reward of each episode of one group, before its mean: [G].

        Args:
            episodes: the members of one group, perhaps none.
            config: the `TrainConfig`, which imports this module.
            step: from 1.
        """
        return [0.0] * len(episodes)

    def masked(self, episodes: Sequence[Episode]) -> Sequence[bool]:
        """Which episodes of one group lose their tokens: [G]; their rewards stay in the group's mean."""
        return [False] * len(episodes)

    def keeps(self, episodes: Sequence[Episode], rewards: Sequence[float], config: Any) -> Sequence[bool]:
        """Which episodes of the step are trained on: [B]; the others leave the group's mean and the denominators.

        Args:
            episodes: of all groups that were kept, at least one; `Episode.group` is the group's number.
            rewards: of each, with what was added.
            config: the `TrainConfig`.
        """
        return [True] * len(episodes)

    def check(self, config: Any, beside: Sequence[EpisodeFilter]) -> None:
        """Refuse a config that does not go with the filter.

        Args:
            config: the `TrainConfig`.
            beside: all filters of the run.

        Raises:
            ValueError: which field, and what to change.
        """

    def idle(self, config: Any, endless: bool) -> str:
        """Why the filter has no effect in a run; "" where it has one.

        Args:
            config: the `TrainConfig`.
            endless: whether tasks are made without end, and so never return.
        """
        return ""

    @property
    def refills(self) -> bool:
        """Whether a group is drawn in place of each that it drops."""
        return type(self).keeps_group is not EpisodeFilter.keeps_group

    @property
    def shapes(self) -> bool:
        """Whether it adds to rewards."""
        return type(self).added_rewards is not EpisodeFilter.added_rewards

    @property
    def drops(self) -> bool:
        """Whether it leaves episodes out when all groups are there."""
        return type(self).keeps is not EpisodeFilter.keeps


def _as_filter(value: Any) -> EpisodeFilter:
    each: EpisodeFilter = require_parts(value, EpisodeFilter, "filter")
    return each


FILTERS: OpenRegistry[EpisodeFilter] = OpenRegistry("filter", "rlvr.algorithms", {}, _as_filter)


def register_filter(rule: EpisodeFilter) -> EpisodeFilter:
    """Add a filter, an object of a subclass of `EpisodeFilter`; its name may then stand in ``filters``.

    Raises:
        TypeError: it lacks a part.
        ValueError: its name is taken.
    """
    return FILTERS.register(rule)
