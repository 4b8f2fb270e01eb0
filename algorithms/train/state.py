"""What a checkpoint keeps of the parts of a run: `state_dict` and `load_state_dict`, by name, as in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Stateful(Protocol):
    """A part of a run that remembers something."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, plain, for a checkpoint."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember this instead."""


class Stateless:
    """Base of the parts that remember nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing to restore."""


def state_dicts(parts: Mapping[str, Stateful | None]) -> dict[str, Any]:
    """The state of each part by its name; None of a part that this run does not have."""
    return {name: None if part is None else part.state_dict() for name, part in parts.items()}


def load_state_dicts(parts: Mapping[str, Stateful | None], states: Mapping[str, Any]) -> None:
    """Give each part the state of its name.

    Raises:
        KeyError: a part has no state: the checkpoint is of another run.
    """
    for name, part in parts.items():
        if part is not None:
            part.load_state_dict(states[name])
