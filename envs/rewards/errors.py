"""Mistakes of the caller, told apart: a bad option is raised, a bad reference in a data row becomes a verdict."""

from __future__ import annotations


class BadOption(ValueError):
    """A grader was called with an option it does not understand; ``grade`` lets it out."""


class BadReference(ValueError):
    """A reference cannot be graded against; ``grade`` turns it into a ``verifier_error``."""


class WorkerError(RuntimeError):
    """A job of the worker pool has no result; the subclasses say whose doing that is."""


class WorkerTimeout(WorkerError):
    """A job ran over its wall time, and not over its processor time: it waited, or the machine is overloaded."""


class WorkerSpent(WorkerError):
    """A job used up its processor time or its memory, or crashed its worker.

    Attributes:
        slow: whether it was the processor time, so that more of it may help.
    """

    def __init__(self, message: str, slow: bool = False) -> None:
        super().__init__(message)
        self.slow = slow


class WorkerFailed(WorkerError):
    """A job raised an exception."""
