"""GSM8K (Cobbe et al. 2021, arXiv 2110.14168): grade-school word problems.

Rows have ``question`` and ``answer``, whose last line is ``#### n``. They are read from ``data_files``, from
``$RLVR_DATA/gsm8k/<split>.jsonl`` or from the hub.
"""

from __future__ import annotations

import re

from rlvr.envs.core.tables import Source
from rlvr.envs.mathematics.common import NUMBER
from rlvr.envs.rewards.graders.number import read_reference
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts

ANNOTATION = re.compile(r"<<[^<>]*>>")  # the calculator's notes in the official solutions


class GSM8K(TableTask):
    """Word problems whose answer is one number. Settings are those of every table, see ``TableTask``.

    Reward: 1 for the exact number, else 0.
    """

    source = Source(
        folder="gsm8k",
        hub="openai/gsm8k",
        config="main",
        revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
        columns=("question", "answer"),
    )
    graders = ("number",)
    wanted = NUMBER

    def problem(self, row: Row) -> Problem:
        """The answer stands behind ``####``; the solution loses its calculator notes ``<<...>>``."""
        question, answer = texts(row, "question", "answer")
        solution, mark, final = answer.rpartition("####")
        if not mark or not final.strip():
            raise ValueError(f"the answer has no line '#### n' at its end: {answer[-60:]!r}")
        final = final.strip().replace(",", "")
        read_reference(final)
        return Problem(question, ANNOTATION.sub("", solution).strip(), final)
