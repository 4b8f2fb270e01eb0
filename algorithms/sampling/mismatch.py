"""How far the policy that sampled is from the policy that learns, and what to do when it is far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.agents.episode import Episode

MOST_KL = 1e-2  # k3, nats a token; sound engines in half precision stay below 1e-3
LEAST_ESS = 0.9


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
