"""Filters of groups and of their sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.group_baselines import gfpo_keep
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.filters.selection import has_reward_variance, mixed_outcome
from rlvr.algorithms.recipe.episode_filter import EpisodeFilter


class DynamicSampling(EpisodeFilter):
    """Groups with 0 < successes < G are kept, the others replaced, in at most ``selection.max_rounds`` rounds."""

    name = "dynamic_sampling"
    reads = ("selection.max_rounds", "selection.over_sampling")
    reason = "all of its group succeeded, or none"

    def keeps_group(self, episodes: Sequence[Episode]) -> bool:
        """By successes, not by rewards."""
        # 0 < sum_i success_i < G                                       [G] -> []  DAPO, 2503.14476 eq. 11
        return bool(mixed_outcome([float(episode.success) for episode in episodes], [0] * len(episodes))[0])


class ActiveSampling(EpisodeFilter):
    """Groups whose rewards differ are kept, the others replaced: OlmoRL's queue, in rounds."""

    name = "active_sampling"
    reads = ("selection.max_rounds", "selection.over_sampling")
    reason = "all rewards of its group are equal"

    def keeps_group(self, episodes: Sequence[Episode]) -> bool:
        """By rewards before shaping."""
        # max_i R_i > min_i R_i                                         [G] -> []  OlmoRL, 2512.13961
        return bool(has_reward_variance([episode.reward for episode in episodes], [0] * len(episodes))[0])


class ZeroGradient(EpisodeFilter):
    """Groups whose (shaped) rewards do not differ are dropped, not replaced."""

    name = "zero_gradient"
    reason = "all rewards of its group are equal"
    drops_groups = True

    def keeps(self, episodes: Sequence[Episode], rewards: Sequence[float], config: Any) -> Sequence[bool]:
        # max_i R_i > min_i R_i in the group of each                    [B]  ScaleRL, 2510.13786
        varied: list[bool] = has_reward_variance(rewards, [episode.group for episode in episodes]).tolist()
        return varied


class KeepShort(EpisodeFilter):
    """Only the ``group_keep`` shortest sequences of a group are kept, before its mean."""

    name = "keep_short"
    reason = "too long"

    def keeps(self, episodes: Sequence[Episode], rewards: Sequence[float], config: Any) -> Sequence[bool]:
        groups = [episode.group for episode in episodes]
        lengths = torch.tensor([float(episode.tokens.sampled) for episode in episodes])  # [B]
        # the k smallest |y_i| of each group                            [B]  GFPO, 2508.09726
        short: list[bool] = gfpo_keep(rewards, groups, lengths, config.preset().group_keep or 1).tolist()
        return short

    def check(self, config: Any, beside: Sequence[EpisodeFilter]) -> None:
        if config.preset().group_keep is None:
            raise ValueError("keep_short keeps the shortest sequences of a group: set overrides.group_keep")


class KeepCorrect(EpisodeFilter):
    """Only successes are learned from: done by the method of `rft`, which makes its batch of them."""

    name = "keep_correct"
