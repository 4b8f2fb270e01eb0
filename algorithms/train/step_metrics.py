"""What the log says of the episodes of a step."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import Evaluation, summarise


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
        "low": result.low,  # of the 95 % interval
        "high": result.high,
        "success_all": result.success_all,
        "groups_with_signal": sum(len(rewards) > 1 for rewards in groups.values()) / max(1, len(groups)),
        "turns": result.turns,
        "tool_calls": tool_calls(episodes),
        "sampled_tokens": result.tokens,
        "hit_token_limit": sum(episode.hit_token_limit for episode in episodes) / max(1, len(episodes)),
        **_invalid(result),
        "unread": result.unread,
        "statuses": dict(sorted(result.statuses.items())),
    }


def evaluation_metrics(way: str, episodes: list[Episode], result: Evaluation) -> dict[str, Any]:
    """What held-out episodes amount to, under names that begin with the way that tokens were chosen."""
    figures = {
        "success": result.success,
        "low": result.low,  # of the 95 % interval
        "high": result.high,
        "success_all": result.success_all,
        "reward": result.reward,
        "tool_calls": tool_calls(episodes),
        "cut": result.cut_share,
        **_invalid(result),
    }
    return {f"{way}_{name}": value for name, value in figures.items()}


def _invalid(result: Evaluation) -> dict[str, Any]:
    """How many episodes are invalid, by cause, and where they gather."""
    return {
        "invalid": result.episodes - result.valid,
        "invalid_causes": [asdict(cause) for cause in result.invalid_causes],
        "provoked": [asdict(cause) for cause in result.provoked],
        "gathered": list(result.gathered),
    }


def tool_calls(episodes: list[Episode]) -> float:
    """How many replies of an episode a tool answered, in the mean."""
    answered = sum(turn.role == "tool" for episode in episodes for turn in episode.turns)
    return answered / max(1, len(episodes))
