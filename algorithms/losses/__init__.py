"""Losses: the policy loss and its parts, the losses of likelihood and preference, the critic's loss."""

from rlvr.algorithms.losses.policy import KERNELS, merge_stats, policy_loss

__all__ = ["KERNELS", "merge_stats", "policy_loss"]
