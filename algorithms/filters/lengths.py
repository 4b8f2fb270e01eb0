"""Filters of completions by their length: rewards that are added, tokens that are masked, replies that are paused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms.recipe.episode_filter import EpisodeFilter
from rlvr.envs.rewards.shaping import kimi_length, soft_overlong


class SoftOverlong(EpisodeFilter):
    """A punishment is added to the reward of replies that come near their limit."""

    name = "soft_overlong"
    reads = ("selection.overlong_buffer",)

    def added_rewards(self, episodes: Sequence[Episode], config: Any, step: int) -> Sequence[float]:
        limit = config.sampling.max_new_tokens
        buffer = config.selection.overlong_buffer or max(1, limit // 5)  # DAPO: 4,096 of 20,480
        # R_i <- R_i + punish(|y_i|)                                  [G]  DAPO, 2503.14476 eq. 13
        return [soft_overlong(longest_completion(episode), max_length=limit, buffer=buffer) for episode in episodes]


class LengthReward(EpisodeFilter):
    """Kimi's reward of length is added to the reward, in the second half of training."""

    name = "length_reward"
    reads = ("selection.length_weight",)

    def added_rewards(self, episodes: Sequence[Episode], config: Any, step: int) -> Sequence[float]:
        if not episodes or 2 * step < config.steps:
            return [0.0] * len(episodes)
        lengths = [episode.tokens.sampled for episode in episodes]
        # R_i <- R_i + w (1/2 - (|y_i| - min) / (max - min)), at most 0 for failures   [G]  Kimi k1.5, 2501.12599
        values = kimi_length(lengths, [episode.success for episode in episodes])
        return [config.selection.length_weight * value for value in values]


class OverlongFilter(EpisodeFilter):
    """Episodes with a reply cut at its limit lose their tokens: a cut says nothing of the quality of a reply."""

    name = "overlong_filter"

    def masked(self, episodes: Sequence[Episode]) -> Sequence[bool]:
        return [episode.hit_token_limit for episode in episodes]


class BudgetedThinking(EpisodeFilter):
    """A thought is ended at ``sampling.thinking_budget``: done by the agent, where that is set."""

    name = "thinking_budget"

    def idle(self, config: Any, endless: bool) -> str:
        return "" if config.sampling.thinking_budget else "set sampling.thinking_budget"


class PartialRollouts(EpisodeFilter):
    """Replies over ``sampling.segment`` tokens go on in the next step, with the policy of then.

    A group is learned from when all of it is over.
    """

    name = "partial_rollouts"
    pauses = True
    reads = ("sampling.segment",)

    def check(self, config: Any, beside: Sequence[EpisodeFilter]) -> None:
        """Nothing may wait for whole replies."""
        if not config.sampling.segment:
            return
        if any(each.refills for each in beside):
            raise ValueError("partial_rollouts cannot wait for refills: leave out dynamic and active sampling")
        if config.sampling.thinking_budget:
            raise ValueError("sampling.segment and sampling.thinking_budget do not go together: choose one")
        if config.schedule.kind == "async":
            raise ValueError("sampling.segment is for schedule: sync; schedule: async waits for no reply anyway")

    def idle(self, config: Any, endless: bool) -> str:
        return "" if config.sampling.segment else "set sampling.segment"


def longest_completion(episode: Episode) -> int:
    """Sampled tokens of the longest completion: the limit is one of completions, not of episodes."""
    start, longest = 0, 0
    for turn in episode.turns:
        longest = max(longest, sum(episode.tokens.mask[start : turn.end]))
        start = turn.end
    return longest
