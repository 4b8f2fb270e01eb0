"""Entropy of the policy, and what is done with it: a bonus, a mask of deciding tokens, a controller, answer clusters.

The bonus itself is a choice of the preset: `.but(entropy_coef=0.001)` with `entropy` [B, T] in the batch. The usual
cure of an entropy collapse is not a bonus but a higher upper clip (DAPO's 0.28), or a cap that keeps every token's
gradient (CISPO).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr.algorithms._torch import torch

Tensor = torch.Tensor


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """H = -sum_v p_v log p_v per position, p = softmax(logits / temperature). [..., V] -> [...], at least fp32.

    Use the temperature of sampling, so that it is the entropy of the distribution the tokens came from.
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be positive")
    z = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    log_p = torch.log_softmax(z, -1)
    # A forbidden token has log p = -inf and p = 0: it contributes nothing.
    return -(log_p.exp() * torch.where(log_p.isfinite(), log_p, 0)).sum(-1)


def high_entropy_mask(entropy: Tensor, mask: Tensor, fraction: float = 0.2) -> Tensor:
    """[B, T] bool: the trained tokens with the highest entropy of the batch, `fraction` of them (2506.01939).

    Multiply advantages per token by it to keep the other tokens in the denominators; as the mask of the loss it takes
    them out. The threshold is the batch's; ties at the threshold are kept.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction} must lie in (0, 1]")
    values = entropy[mask]
    if not len(values):
        return mask.clone()
    count = max(1, round(fraction * len(values)))
    threshold = values.float().topk(count).values[-1]
    return mask & (entropy.float() >= threshold)


@dataclass
class AdaptiveEntropy:
    """A bonus that acts only while the entropy is below its target (Skywork-OR1, 2505.22312).

    coefficient() is `level` when the measured entropy is at or below `target`, else 0; `level` grows by `step` after
    each update below the target and shrinks by it above, never under 0. Plain state: save `level`.
    """

    target: float = 0.2
    step: float = 0.005
    level: float = 0.0
    last: float = float("inf")

    def coefficient(self) -> float:
        """What to put into `entropy_coef` for the next update."""
        return self.level if self.last <= self.target else 0.0

    def record(self, entropy: float) -> None:
        """Tell it the mean entropy of the batch."""
        self.last = float(entropy)
        self.level = max(0.0, self.level + (self.step if self.last < self.target else -self.step))


def answer_clusters(answers: Sequence[Hashable | None], same: Callable[[Any, Any], bool] | None = None) -> list[int]:
    """Cluster ids of answers, for `semantic_entropy`. A missing answer (None) is a cluster of its own.

    same(a, b) decides equality (a grader, for instance); it is asked against the first member of each cluster. By
    default answers are the same when they are equal. Call it per group: ids are only compared within one.
    """
    ids: list[int] = []
    first: list[Any] = []
    for answer in answers:
        found = None
        if answer is not None:
            match = (k for k, other in enumerate(first) if other is not None and _same(answer, other, same))
            found = next(match, None)
        if found is None:
            found = len(first)
            first.append(answer)
        ids.append(found)
    return ids


def _same(a: Any, b: Any, same: Callable[[Any, Any], bool] | None) -> bool:
    return bool(a == b) if same is None else same(a, b)
