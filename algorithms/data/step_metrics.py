"""What the log says of the episodes of a step."""

from __future__ import annotations

from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import summarise


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


def tool_calls(episodes: list[Episode]) -> float:
    """How many replies of an episode a tool answered, in the mean."""
    answered = sum(turn.role == "tool" for episode in episodes for turn in episode.turns)
    return answered / max(1, len(episodes))
