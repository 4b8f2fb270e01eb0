"""Callbacks: who receives the log of a training run while it goes on."""

from __future__ import annotations

import logging
from typing import Any, Protocol, runtime_checkable

from rlvr.algorithms.runs.complaints import Complaints

log = logging.getLogger("rlvr.train")


class Callback(Protocol):
    """Receives the log of each step; the live display is one."""

    def phase(self, name: str, steps: int) -> None:
        """A phase of so many steps begins."""

    def step(self, record: dict[str, Any]) -> None:
        """One step is done; what was logged of it."""

    def say(self, text: str) -> None:
        """Something a person should know."""


@runtime_checkable
class TimedCallback(Protocol):
    """A callback that also receives the seconds of each step, before its log."""

    def timed(self, timing: dict[str, Any]) -> None:
        """The seconds of a step and of its parts, as `timing.jsonl` holds them."""


class LoggedSteps:
    """A callback that writes to the logger ``rlvr.train``: steps as information, notes and complaints as warnings."""

    def __init__(self) -> None:
        self._complaints = Complaints()

    def phase(self, name: str, steps: int) -> None:
        """A line."""
        log.info("%s, %d steps", name, steps)

    def step(self, record: dict[str, Any]) -> None:
        """The figures of the step, in a line."""
        log.info("%s", ", ".join(f"{name} {value}" for name, value in record.items()))
        for complaint in self._complaints.add(record):
            self.say(f"step {record['step']}: {complaint}")

    def say(self, text: str) -> None:
        """A warning, which Python shows where nothing else was set up."""
        log.warning("%s", text)
