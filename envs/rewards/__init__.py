"""Rewards: graders that turn a reply and a reference into a ``Verdict``. ``grade(kind, completion, reference)``.

`graders` holds one file for each kind of answer, `expressions` what reads and compares mathematical text. Here is what
they share, and what is made of verdicts: rubrics, judges, shaping. The bases of tasks are in `rlvr.envs.tasks`.
"""

from __future__ import annotations

from rlvr.envs.core.deprecation import moved_modules
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.grading import GRADERS, agrade, grade, grade_batch

__all__ = ["GRADERS", "BadOption", "BadReference", "agrade", "grade", "grade_batch", "warm"]

moved_modules(
    __name__,
    {
        "graders": (
            *("action", "choice", "code", "countdown", "format", "json_schema", "mathematical", "number"),
            *("pydantic_schema", "question"),
        ),
        "expressions": (
            *("algebra", "arithmetic", "compare", "expression", "latex", "numeric", "polynomial", "symbolic"),
            *("units", "vocabulary", "words"),
        ),
    },
    elsewhere={
        "tasks": "rlvr.envs.tasks.questions",
        "table_tasks": "rlvr.envs.tasks.tables",
        "answers": "rlvr.envs.tasks.answers",
        "guesses": "rlvr.envs.tasks.guesses",
        "prompts": "rlvr.envs.tasks.prompts",
        "readings": "rlvr.envs.tasks.readings",
        "endpoint": "rlvr.envs.endpoint",
    },
)


def warm() -> None:
    """Start the worker pool now rather than at the first grade that needs it; returns when it is ready."""
    from rlvr.envs.rewards.workers import shared_pool

    shared_pool().warm()
