"""Rewards: graders that turn a reply and a reference into a ``Verdict``. ``grade(kind, completion, reference)``.

`graders` holds one file for each kind of answer, `expressions` what reads and compares mathematical text. Here is what
they share, and what is made of verdicts: rubrics, judges, shaping. The bases of tasks are in `rlvr.envs.tasks`.
"""

from __future__ import annotations

from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.grading import GRADERS, agrade, grade, grade_batch, register_grader

__all__ = ["GRADERS", "BadOption", "BadReference", "agrade", "grade", "grade_batch", "register_grader", "warm"]


def warm() -> None:
    """Start the worker pool now rather than at the first grade that needs it; returns when it is ready."""
    from rlvr.envs.rewards.workers import shared_pool

    shared_pool().warm()
