"""How far a search for a second solution goes before a puzzle is made easier instead."""

from __future__ import annotations


class TooLong(Exception):
    """A search took more steps than are worth it."""


class SearchBudget:
    """Counts the steps of a search.

    Args:
        steps: how many there may be.
    """

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self) -> None:
        """Take one step.

        Raises:
            TooLong: all have been taken.
        """
        self._left -= 1
        if self._left < 0:
            raise TooLong
