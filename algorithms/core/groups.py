"""Rewards and their statistics within groups, the ground on which advantages stand."""

from __future__ import annotations

import warnings
from typing import Any

from rlvr.algorithms.core.lazy_torch import Tensor, torch

EPS = 1e-6  # added to a standard deviation


def as_rewards(rewards: Any) -> Tensor:
    """[B] floats; ValueError for another shape or for NaN and infinity."""
    out = as_floats(rewards)
    if out.dim() != 1:
        raise ValueError(f"rewards have shape {tuple(out.shape)}, expected one per sequence: [B]")
    if not out.isfinite().all():
        index = int((~out.isfinite()).nonzero()[0])
        raise ValueError(f"rewards[{index}] is not finite: leave the sequence out, do not score it")
    return out


def as_floats(x: Any) -> Tensor:
    """Detached; fp32 and fp64 stay, half precision becomes fp32, everything else fp64."""
    if not isinstance(x, torch.Tensor):
        return torch.as_tensor(x, dtype=torch.float64)
    out: Tensor = x.detach()
    if out.dtype in (torch.float16, torch.bfloat16):
        # sums of bfloat16 rewards would lose the difference between two of them
        return out.float()
    # integers and lists: a mean of whole numbers is not whole
    return out if out.is_floating_point() else out.double()


class Groups:
    """Statistics of rewards within groups. group [B] of ints."""

    def __init__(self, rewards: Tensor, group: Any, *, what: str = "group") -> None:
        group = torch.as_tensor(group, device=rewards.device)
        if group.shape != rewards.shape:
            raise ValueError(
                f"{what} has shape {tuple(group.shape)}, rewards {tuple(rewards.shape)}: one id per sequence"
            )
        if group.is_floating_point():
            raise ValueError(f"{what} must be integer ids, not {group.dtype}")
        self.rewards = rewards
        ids, self.index = torch.unique(group, return_inverse=True)  # ids [Q], index [B] into them
        self.n = len(ids)
        self.size = self.sum(torch.ones_like(rewards))  # [Q]
        self.mean = self.sum(rewards) / self.size  # [Q]
        # max > min, never std > 0: the mean of equal rewards of 0.1 is not exactly 0.1
        self.live = self._extreme("amax") > self._extreme("amin")  # [Q] bool

    def sum(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.n).index_add(0, self.index, x)

    def _extreme(self, how: str) -> Tensor:
        start = self.rewards.new_zeros(self.n)  # [Q]
        return start.scatter_reduce(0, self.index, self.rewards, reduce=how, include_self=False)

    def broadcast(self, per_group: Tensor) -> Tensor:
        """[n groups] -> [B]."""
        return per_group[self.index]

    def centred(self) -> Tensor:
        """[B] reward minus the group's mean; exactly 0 in a group without spread."""
        # c_i = R_i - mean_g                                           [B]
        return torch.where(self.broadcast(self.live), self.rewards - self.broadcast(self.mean), 0)

    def leave_one_out(self) -> Tensor:
        """[B] reward minus the mean of the others of the group; 0 in a group of one, of which it warns."""
        self.warn_of_ones()
        # A_i = R_i - mean_(j != i) R_j = N/(N-1) (R_i - mean_g)      [B]  RLOO, 2402.14740
        return self.centred() * self.broadcast(self.size / (self.size - 1).clamp(min=1))

    def std(self, *, sample: bool = True) -> Tensor:
        """[n groups] standard deviation, with Bessel's correction if sample; 0 without spread."""
        # s_g^2 = sum_(i in g) (R_i - mean_g)^2 / (|g| - 1), or / |g| for the population   [Q]
        square = self.sum(self.centred().square())  # [Q]
        # a group of one has no spread: the divisor is held at 1, the sum of squares is 0
        return (square / (self.size - int(sample)).clamp(min=1)).sqrt()

    def warn_of_ones(self) -> None:
        """One warning if some group has a single sequence."""
        ones = int((self.size == 1).sum())
        if ones:
            warnings.warn(
                f"{ones} of {self.n} groups have one sequence: nothing to compare it with, its advantage is 0",
                stacklevel=3,
            )
