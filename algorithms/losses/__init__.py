"""Losses: the policy loss and its parts, the losses of likelihood and preference, the critic's loss."""

from rlvr.algorithms.losses import aggregation, clip_rules, corrections  # they register their objects

__all__ = ["aggregation", "clip_rules", "corrections"]
