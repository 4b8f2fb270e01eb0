"""Filters: which groups and sequences a step learns from, and what is added to their rewards."""

from rlvr.algorithms.filters import order  # it registers the filters

__all__ = ["order"]
