"""Learnable: groups of one task differ in reward somewhere between random play and the expert's."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from rlvr.envs.validation.context import Skip, Validation, check
from rlvr.envs.validation.report import CheckResult
from rlvr.envs.validation.subject import NotApplicable, ValidationEpisode

LEARNABLE: Final = "Learnable"
GROUP: Final = 8
GROUPS: Final = 6  # of each level
SHARES: Final = (0.0, 0.25, 0.5, 0.75)  # of episodes that the expert's actions are played in to the end


@check(
    "statistical.variance_bound",
    LEARNABLE,
    "At every level some policy between random play and the expert has groups whose rewards differ.",
    number=16,
    severity="medium",
    remedy="Take easier tasks for a dead level, harder ones for a saturated one; pay parts where a goal is far.",
)
def variance_bound(v: Validation, result: CheckResult) -> None:
    """Play groups, at each level, in which a share of the episodes is the expert's and the others stray from it."""
    if not v.experts:
        raise Skip("no expert is known to mix random play with")
    rng = np.random.default_rng(4)
    for level in range(1, v.subject.levels + 1):
        chosen = [episode for episode in v.experts if episode.ref.level == level][:GROUPS]
        if not chosen:
            continue
        best, random_mean = 0.0, 0.0
        for share in SHARES:
            varied, rewards = 0, []
            for episode in chosen:
                group = [_mixed(v, episode, share, rng) for _ in range(GROUP)]
                result.tries += GROUP
                rewards += group
                varied += max(group) - min(group) > 1e-9
            best = max(best, varied / len(chosen))
            random_mean = sum(rewards) / len(rewards) if share == 0.0 else random_mean
            if best >= 0.5 and share > 0:
                break
        result.measured |= {
            f"level {level}: groups that differ": round(best, 3),
            f"level {level}: random": round(random_mean, 4),
        }
        if best == 0.0:
            kind = "saturated" if random_mean >= v.range.high - 1e-6 else "dead"
            text = f"level {level} is {kind}: no group of {GROUP} differs in reward, whatever the share of the expert's"
            result.add(kind, text)


def _mixed(v: Validation, episode: ValidationEpisode, share: float, rng: np.random.Generator) -> float:
    """The return of an episode that follows the expert until its first random action, then is random."""
    follows = share ** (1 / max(1, len(episode.actions)))

    def policy(env: object, played: ValidationEpisode) -> str | None:
        turn = len(played.actions)
        on_path = played.actions == episode.actions[:turn]
        if on_path and turn < len(episode.actions) and rng.random() < follows:
            return episode.actions[turn]
        return v.subject.sampled(v.subject.env, played, rng)

    try:
        total = v.plays(episode.ref, policy, turns=max(20, 2 * len(episode.actions))).total
    except NotApplicable:
        return 0.0
    return total if math.isfinite(total) else 0.0
