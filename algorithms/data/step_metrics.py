"""What the log says of the episodes of a step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import summarise

FRUITLESS_STEPS = 3  # without a valid episode, after which a run ends


class NoValidEpisodeError(gym.error.Error):
    """The environment fails in every episode."""


def collection_metrics(episodes: list[Episode]) -> dict[str, Any]:
    """What a batch of training episodes was like, before anything is learned from it."""
    result = summarise(episodes)
    groups: dict[int, set[float]] = {}
    for episode in episodes:
        if episode.valid:
            groups.setdefault(episode.group, set()).add(episode.reward)  # a fault of ours is no outcome
    return {
        "reward": result.reward,
        "success": result.success,
        "groups_with_signal": sum(len(rewards) > 1 for rewards in groups.values()) / max(1, len(groups)),
        "turns": result.turns,
        "tool_calls": tool_calls(episodes),
        "sampled_tokens": result.tokens,
        "hit_token_limit": sum(episode.hit_token_limit for episode in episodes) / max(1, len(episodes)),
        "invalid": result.episodes - result.valid,
        "statuses": dict(sorted(result.statuses.items())),
    }


class FruitlessSteps:
    """Ends a run whose steps have no valid episode: nothing is learned from them, and they would be over in no time.

    Attributes:
        count: of such steps, one after another.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, episodes: list[Episode]) -> None:
        """Count a step.

        Raises:
            NoValidEpisodeError: it is the last of so many.
        """
        self.count = 0 if any(episode.valid for episode in episodes) else self.count + 1
        if self.count >= FRUITLESS_STEPS:
            verdict = episodes[-1].verdict if episodes else None
            reason = verdict.reason if verdict is not None else "there was no episode"
            raise NoValidEpisodeError(
                f"no episode of {self.count} steps in a row was valid, so nothing was learned; the last failed: "
                f"{reason}. Mend that, and go on with --resume"
            )


def tool_calls(episodes: list[Episode]) -> float:
    """How many replies of an episode a tool answered, in the mean."""
    answered = sum(turn.role == "tool" for episode in episodes for turn in episode.turns)
    return answered / max(1, len(episodes))
