"""What the log says of the episodes of a step, and when they end a run or are worth a warning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import gymnasium as gym

from rlvr.agents.episode import Episode
from rlvr.agents.evaluation import Evaluation, summarise

MOST_KL = 1e-2  # k3, nats a token; sound engines in half precision stay below 1e-3
LEAST_ESS = 0.9
STEPS_WITHOUT_VALID = 3  # without a valid episode, after which a run ends


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


def role_metrics(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Of each role of a step of self-play: episodes, mean reward, sampled tokens, and entropy in nats a token.

    The entropy is -log pi of the sampled tokens, in the mean: an estimate of it without another pass.
    """
    by_role: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        # A match that ended before the seat moved has no tokens.
        if episode.valid and episode.tokens.sampled and "role" in episode.training:
            by_role[str(episode.training["role"])].append(episode)
    return (
        {
            "roles": {
                role: {
                    "episodes": len(played),
                    "reward": fmean(episode.reward for episode in played),
                    "tokens": fmean(episode.tokens.sampled for episode in played),
                    # H ~ -1/N sum_t log pi(y_t)     N sampled tokens of the role
                    "entropy": -sum(_sampled_logprobs(played)) / sum(episode.tokens.sampled for episode in played),
                }
                for role, played in sorted(by_role.items())
            }
        }
        if by_role
        else {}
    )


def _sampled_logprobs(episodes: Sequence[Episode]) -> list[float]:
    return [
        logprob
        for episode in episodes
        for logprob, sampled in zip(episode.tokens.logprobs, episode.tokens.mask, strict=True)
        if sampled
    ]


def staleness(episodes: Sequence[Episode], version: int) -> dict[str, Any]:
    """How many updates the policy has had since each token was sampled: mean, largest, and the share of each number."""
    ages: dict[int, int] = {}
    for episode in episodes:
        tokens = episode.tokens
        for mask, sampled_by in zip(tokens.mask, tokens.versions, strict=False):
            if mask and sampled_by >= 0:
                ages[version - sampled_by] = ages.get(version - sampled_by, 0) + 1
    total = sum(ages.values())
    if not total:
        return {}
    return {
        "staleness_mean": sum(age * count for age, count in ages.items()) / total,
        "staleness_max": max(ages),
        "staleness": {str(age): count / total for age, count in sorted(ages.items())},
    }


def mismatch_warning(metrics: Mapping[str, Any], *, corrected: bool, dtype: str) -> str:
    """What a person should know of a step whose behaviour policy was far from the learner's; "" if it was near."""
    kl, ess = metrics.get("behaviour_kl_k3", 0.0), metrics.get("behaviour_ess", 1.0)
    if kl <= MOST_KL and ess >= LEAST_ESS:
        return ""
    cures = [] if corrected else ["set schedule.correction to tis or icepop"]
    if metrics.get("staleness_max", 0) > 1:  # a depth of 1 is the least
        cures.append("lower schedule.depth")
    if dtype != "float32":
        cures.append("compute the head in float32 on both sides, or use float16 in place of bfloat16")
    cures.append("lower learner.lr")
    return (
        f"the policy that sampled is far from the one that learns (k3 {kl:.2g}, largest ratio "
        f"{metrics.get('behaviour_ratio_max', 1.0):.3g}, effective sample size {ess:.2f}): {'; '.join(cures)}"
    )


class NoValidEpisodeError(gym.error.Error):
    """The environment fails in every episode."""


class ValidSteps:
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
        if self.count >= STEPS_WITHOUT_VALID:
            verdict = episodes[-1].verdict if episodes else None
            reason = verdict.reason if verdict is not None else "there was no episode"
            raise NoValidEpisodeError(
                f"no episode of {self.count} steps in a row was valid, so nothing was learned; the last failed: "
                f"{reason}. Mend that, and go on with --resume"
            )
