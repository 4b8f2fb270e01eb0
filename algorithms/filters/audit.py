"""The reward of hacks is withheld where they are caught: a strict verifier reads a sample of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms.recipe.episode_filter import EpisodeFilter
from rlvr.envs.core.seeding import stream


class Audit(EpisodeFilter):
    """Of a share of the episodes, those that were paid and not right get their true reward in place of what was paid.

    What an episode was worth is the part ``true_reward`` of its verdict. Which are read depends on their keys alone.
    """

    name = "audit"
    reads = ("selection.audit_share",)

    def added_rewards(self, episodes: Sequence[Episode], config: Any, step: int) -> Sequence[float]:
        share = config.selection.audit_share
        # by the key, so that a run that goes on reads the same episodes
        # R_i <- true R_i   of hacks among a share of all episodes       [G]
        return [
            (episode.true_reward or 0.0) - episode.reward
            if episode.hacked and stream("audit", episode.key).random() < share
            else 0.0
            for episode in episodes
        ]
