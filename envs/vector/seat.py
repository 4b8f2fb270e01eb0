"""Deprecated: the names that ``env_slot`` had before; each warns where it is used."""

from __future__ import annotations

import warnings
from typing import Any

from rlvr.envs.vector import env_slot

RENAMED = {"Seat": "EnvSlot", "Order": "Command", "Answer": "CallResult"}


def __getattr__(name: str) -> Any:
    new = RENAMED.get(name, name)
    if name.startswith("__") or not hasattr(env_slot, new):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"rlvr.envs.vector.seat.{name} is now rlvr.envs.vector.env_slot.{new}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(env_slot, new)
