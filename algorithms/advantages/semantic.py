"""SEED-GRPO: advantages scaled down where the answers of a group disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlvr.agents.episode import Episode
from rlvr.algorithms.advantages.group_baselines import group_z
from rlvr.algorithms.advantages.token_rewards import why
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import Groups
from rlvr.algorithms.recipe.advantage import Advantage, Played, Sources
from rlvr.algorithms.recipe.loss_parts import Choices


def semantic_entropy(clusters: Any, group: Any) -> Tensor:
    """[B] entropy of the answers of each sequence's group, over log G: 0 when all agree, 1 when all differ.

    clusters [B] ints: sequences with the same id gave the same answer. Discrete form, H = -sum_c p_c log p_c.
    """
    clusters = torch.as_tensor(clusters)
    groups = Groups(torch.zeros(len(clusters), dtype=torch.float64), group, what="group")
    out = torch.zeros(groups.n, dtype=torch.float64)  # [Q]
    for g in range(groups.n):
        # [C], sequences of each answer
        counts = torch.unique(clusters[groups.index == g], return_counts=True)[1].double()
        p = counts / counts.sum()  # [C]
        if counts.sum() > 1:
            # H_g = -sum_c p_c log p_c / log |g|                          [Q]  discrete form of 2505.12346
            out[g] = -(p * p.log()).sum() / math.log(counts.sum())
    return groups.broadcast(out)


def seed_grpo(rewards: Any, group: Any, clusters: Any, *, alpha: float = 1.0, shape: str = "linear") -> Tensor:
    """A = z-score times f(alpha SE), SE the semantic entropy of the group (SEED-GRPO, 2505.12346). [B] -> [B].

    f: "linear" 1 - x, "exp" exp(-x), "focal" (1 - x)^2. The paper estimates SE from sequence
    probabilities; the authors' code, and this, from answer clusters.
    """
    advantages = group_z(rewards, group)  # [B]
    x = alpha * semantic_entropy(clusters, group).to(advantages)  # [B] in [0, alpha]
    # f(x) = 1 - x, exp(-x) or (1 - x)^2                          [B]  SEED-GRPO, 2505.12346
    scales = {"linear": 1 - x, "exp": (-x).exp(), "focal": (1 - x).square()}
    if shape not in scales:
        raise ValueError(f"unknown shape {shape!r}; allowed: {', '.join(scales)}")
    # A_i = (R_i - mean_g) / std_g * f(alpha H_g)                 [B]  SEED-GRPO, 2505.12346
    return advantages * scales[shape]


def answer_clusters(episodes: Sequence[Episode]) -> list[int]:
    """One number for each answer; replies without one are alike when their text is."""
    # the flag keeps an extracted answer apart from a reply that is the same text
    cluster_of: dict[tuple[int, bool, str], int] = {}
    clusters = []
    for episode in episodes:
        answer = episode.verdict.answer if episode.verdict else None
        text = answer if answer is not None else episode.turns[-1].action
        clusters.append(cluster_of.setdefault((episode.group, answer is not None, text), len(cluster_of)))
    return clusters


def clusters(played: Played, sources: Sources) -> dict[str, Any]:
    """clusters [B]: equal extracted answers of a group have one number."""
    return {"clusters": torch.tensor(answer_clusters(played.episodes))}


def _seed(x: AdvantageInputs, p: Choices) -> Tensor:
    return seed_grpo(x.rewards, x.group, x.need("clusters", why(p)), alpha=p.alpha)


SEED = Advantage(
    "seed",
    "(R - mean) / std * (1 - semantic entropy)",
    _seed,
    "2505.12346",
    needs=("clusters",),
    gather=(clusters,),
)
