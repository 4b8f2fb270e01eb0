"""The complaints about a run while it goes on: what `health` says after each step, and what of it is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rlvr.algorithms.runs.health import begins, health

KEPT: Final = 500  # steps that complaints look back to


class Complaints:
    """Keeps what `health` needs of the records of a run.

    Attributes:
        records: of the last training steps.
        current: the complaints that hold now, worst first.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.current: list[str] = []
        self._first: list[dict[str, Any]] = []  # steps with the first entropies, which leave `records`
        self._panels: list[dict[str, Any]] = []  # evaluations of games: all, as the best of them may be long ago
        self._before: list[dict[str, Any]] = []  # what the run that goes on has logged

    def look_back(self, records: Sequence[dict[str, Any]]) -> None:
        """Take what a run that goes on has logged; what it logs again after its checkpoint is forgotten."""
        self._before = list(records)

    def add(self, record: dict[str, Any]) -> list[str]:
        """Take a record; the complaints that hold now and did not before, none of a record that cannot bring any."""
        before, self._before = self._before, []
        for earlier in before:
            if _when(earlier) < _when(record):
                self._keep(earlier)
        if not self._keep(record):
            return []
        kinds = {_kind(text) for text in self.current}
        self.current = health([*self._panels, *self.records], self._first)
        return [text for text in self.current if _kind(text) not in kinds]

    def _keep(self, record: dict[str, Any]) -> bool:
        if record["phase"] == "train":
            self.records = [*self.records[1 - KEPT :], record]
            if begins(record, self._first):
                self._first.append(record)
            return True
        if record["phase"] == "evaluation" and record.get("panel"):
            self._panels.append(record)
            return True
        return False


def _when(record: dict[str, Any]) -> tuple[int, bool]:
    """The position of a record in its run: an evaluation follows the step of its number."""
    return record["step"], record["phase"] == "evaluation"


def _kind(text: str) -> str:
    """A complaint without its numbers: the same one of the next step is not new."""
    return "".join(letter for letter in text if not (letter.isdigit() or letter in ".e-%"))
