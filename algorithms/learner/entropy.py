"""What reads the entropy of a policy: a mask of the tokens where it is high, and a bonus that is on below a target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvr.algorithms.core.lazy_torch import Tensor, torch


def uncertain_tokens(entropies: Tensor, mask: Tensor, share: float) -> Tensor:
    """[B, T] bool, the share of the trained tokens of a batch at which the policy's entropy is highest (2506.01939).

    entropies: [B, T] in nats. Tokens that tie with the last are in, too. All of them are where there are none.
    """
    values = entropies[mask]  # [N]
    if not len(values):
        return mask
    # tau = the (share N)-th highest H_t; m_t = 1[H_t >= tau]           [N] -> [B, T]  2506.01939
    lowest = values.topk(math.ceil(share * len(values))).values[-1]
    return mask & (entropies >= lowest)


@dataclass
class EntropyTarget:
    """The coefficient of an entropy bonus that is on while the entropy is not above a target (2505.22312).

    Args:
        target: in nats a token.
        step: by which the coefficient rises in each step below the target, and falls above it; never below 0.
        coefficient: in the first step.

    Attributes:
        last: the entropy that a step began with, and the coefficient in it.
    """

    target: float
    step: float
    coefficient: float = 0.0
    last: tuple[float, float] = (math.nan, 0.0)

    def __call__(self, entropy: float) -> float:
        """The coefficient of a step that begins with this entropy; the next step's is changed."""
        # alpha_k = c_k 1[H_k <= target]; c_k+1 = max(0, c_k + step sign(target - H_k))   []  Skywork-OR1, 2505.22312
        bonus = self.coefficient if entropy <= self.target else 0.0
        change = self.step * ((entropy < self.target) - (entropy > self.target))
        self.coefficient = max(0.0, self.coefficient + change)
        self.last = entropy, bonus
        return bonus

    def state_dict(self) -> dict[str, float]:
        """The coefficient of the next step."""
        return {"coefficient": self.coefficient}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.coefficient = state["coefficient"]


def mean_entropy(entropies: Tensor, mask: Tensor) -> float:
    """Nats a trained token, in the mean over the batch; both [B, T]."""
    return float(torch.where(mask, entropies, 0).double().sum() / mask.sum().clamp(min=1))
