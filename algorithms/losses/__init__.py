"""Losses: the policy loss and its parts, the losses of likelihood and preference, the critic's loss.

Names are loaded when they are first used: presets read the parts, and the policy loss reads presets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlvr.algorithms.inputs import LossInputs
    from rlvr.algorithms.losses.policy import policy_loss
    from rlvr.algorithms.losses.stats import merge_stats

_HOME = {"LossInputs": "inputs", "merge_stats": "stats", "policy_loss": "policy"}

__all__ = ["LossInputs", "merge_stats", "policy_loss"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
