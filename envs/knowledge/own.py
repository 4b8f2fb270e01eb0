"""Dataset: anybody's own table of questions and answers, with a grader and a prompt by argument.

    gym.make("rlvr/Dataset-v0", data_files="mine.csv", columns={"question": "Aufgabe", "answer": "Ergebnis"},
             grader="number")

Without ``data_files`` the rows are ``$RLVR_DATA/dataset/<split>.jsonl``, or those of ``hub`` if that is given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlvr.envs.core.hints import nearest
from rlvr.envs.core.tables import Source, look_up
from rlvr.envs.rewards.graders.code_rows import normalized_row
from rlvr.envs.rewards.grading import GraderChoice
from rlvr.envs.tasks.prompts import JSON, PROGRAM
from rlvr.envs.tasks.tables import LETTERS, Problem, Row, TableTask, choice, texts, with_options

WANTED = {
    "number": "the final number",
    "choice": "the letter of the right option",
    "exact": "the answer in a few words",
    "f1": "the answer in a few words",
    "countdown": "the expression",
}
# {name} by itself, where LaTeX would have a command, a bracket or a sign in front of it
_NAMED_FIELD = re.compile(r"(?<![\w\\{}\])^])\{([^\W\d]\w{0,60})\}(?!\})")
_FIELD = re.compile(r"\{([^{}]{1,100})\}")


class Dataset(TableTask):
    """Args:
    split: train, validation or test; a single file is read whatever the split.
    data_files: a file of rows, or a folder that holds ``<split>.jsonl``.
    hub: the name of a data set on the hub, read when there are no files; ``config`` is its configuration.
    columns: your names for question, answer, options (of a multiple choice) and solution, see ``load_rows``.
    where: only rows whose column has this value, or one of these.
    limit: only the first rows; what is behind them is not read.
    revision: the commit of ``hub``; its branch main, which may change, by default.
    grader: exact, f1, number, math, choice, countdown, json or code, see ``rlvr.envs.rewards.grade``; or one of your
        own: a function of a reply and the column ``answer``, an object, a registered name, or "module:name".
    grader_options: given to the grader, such as ``{"rel_tol": 0.01}``.
    prompt: the observation, with columns in braces, such as ``"{context}\\n\\n{question}"``; without one, that of
        ``code`` is the question and what a column ``starter_code`` holds.
    system: the system prompt, instead of that of ``prompt_style``.
    prompt_style, few_shot, few_shot_split, decontaminate: as for every table.
    """

    source = Source(
        folder="dataset", hub=None, revision="main", columns=("question", "answer"), optional=("options", "solution")
    )
    graders = ("exact", "f1", "number", "math", "choice", "countdown", "json", "code")
    splits = ("train", "validation", "test")

    def __init__(
        self,
        *,
        split: str | None = "train",
        data_files: str | os.PathLike[str] | None = None,
        hub: str | None = None,
        config: str | None = None,
        revision: str | None = None,
        columns: Mapping[str, str] | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        grader: GraderChoice = "exact",
        grader_options: Mapping[str, Any] | None = None,
        prompt: str | None = None,
        system: str | None = None,
        prompt_style: str | None = None,
        few_shot: int = 0,
        few_shot_split: str | None = None,
        decontaminate: str | Sequence[str] = (),
    ) -> None:
        if config is not None and hub is None:
            raise ValueError(f"config={config!r} is a configuration of a data set on the hub: name it with hub=")
        kind = grader if isinstance(grader, str) else ""
        self.wanted = WANTED.get(kind, "the final answer")  # type: ignore[misc]  # of this table alone
        self.source = replace(self.source, hub=hub, config=config)  # type: ignore[misc]
        self.grader_options = dict(grader_options or {})
        self.prompt = prompt
        if grader == "code":
            from rlvr.envs.sandbox import probes

            probes.require()
        super().__init__(
            split=split,
            data_files=data_files,
            columns=columns,
            where=where,
            limit=limit,
            revision=revision,
            grader=grader,
            prompt_style=prompt_style,
            few_shot=few_shot,
            few_shot_split=few_shot_split,
            decontaminate=decontaminate,
        )
        if system is not None:
            self.system = system
        self._check_grading()

    def system_for(self, style: str) -> str | None:
        """The style's prompt, but for ``code`` and ``json`` the one that asks for a program or for JSON."""
        system = super().system_for(style)
        return system and {"code": PROGRAM, "json": JSON}.get(self.kind, system)

    def problem(self, row: Row) -> Problem:
        """Reads the row by the grader: options for ``choice``, an object for ``code``, spellings for ``exact``."""
        question = texts(row, "question")[0]
        if self.prompt is not None:
            question = filled(self.prompt, row)
        elif self.kind == "code" and isinstance(start := row.get("starter_code"), str) and start.strip():
            question = f"{question}\n\nBegin with this code:\n\n```python\n{start.rstrip()}\n```"
        solution = row.get("solution")
        worked_solution = solution.strip() if isinstance(solution, str) else ""
        answer = row["answer"]
        if self.kind == "choice":
            return choice(question, row.get("options"), answer)._replace(solution=worked_solution)
        if self.kind in ("code", "json", "countdown"):
            if self.kind == "code":
                answer = normalized_row(answer, row)
            tests = answer if isinstance(answer, str) else json.dumps(answer)
            if not isinstance(json.loads(tests), Mapping) and self.kind != "json":
                raise ValueError(f"for the grader {self.kind} an answer is an object, or one as JSON text")
            return Problem(question, worked_solution, tests)
        if self.kind in ("exact", "f1"):
            answer = tuple(map(str, answer)) if isinstance(answer, list) else (str(answer),)
        return Problem(
            question, worked_solution, answer, answer_text=str(answer[0] if isinstance(answer, tuple) else answer)
        )

    def reference(self, problem: Problem) -> Any:
        """The answer; for ``code``, ``json`` and ``countdown`` the object that its JSON text holds."""
        return json.loads(problem.answer) if self.kind in ("code", "json", "countdown") else problem.answer

    def asked(self, problem: Problem) -> str:
        """The question, with options below it for a multiple choice."""
        return with_options(problem)

    def grading(self, problem: Problem) -> dict[str, Any]:
        """``grader_options``, over the letters and texts of the options where there are any."""
        options = problem.options
        shown = {"letters": LETTERS[: len(options)], "options": options} if self.kind == "choice" else {}
        return {**shown, **self.grader_options}

    def solve(self, state: Problem) -> str:
        """The ``solution`` column as a program or an expression; NotImplementedError where it is needed and missing."""
        return self.answered(state) if self.kind in ("code", "json", "countdown") else super().solve(state)

    def direct_answer(self, state: Problem) -> str:
        """The whole solution for programs, JSON and expressions, else the answer in a box."""
        return self.solve(state) if self.kind in ("code", "json", "countdown") else super().direct_answer(state)

    def answered(self, problem: Problem) -> str:
        """A fence for programs and JSON, a box for expressions, else as the prompt's style has it."""
        if self.kind in ("code", "countdown") and not problem.solution:
            raise NotImplementedError(f"this table has no column 'solution': no expert is known for {self.kind}")
        if self.kind == "code":
            return f"```python\n{problem.solution.rstrip()}\n```"
        if self.kind == "json":
            return f"```json\n{problem.answer}\n```"
        if self.kind == "countdown":
            return f"\\boxed{{{problem.solution}}}"
        return super().answered(problem)

    def _check_grading(self) -> None:
        """A wrong option is told now, not at the first grade; and so is a first row that cannot be graded."""
        verdict = self.judge(self.problems[0], "")
        if not verdict.valid:
            raise ValueError(f"row 0 cannot be graded by {self.kind!r}: {verdict.reason}")


def filled(prompt: str, row: Row) -> str:
    """The prompt with columns in the place of their names in braces; other braces stay as they are.

    What a column holds is put in as it stands: braces in it are not looked at again.

    Raises:
        ValueError: what stands in braces is no column, and spelt like one.
    """
    for name in _NAMED_FIELD.findall(prompt):
        if look_up(row, name) is None and (near := nearest(name, map(str, row))):
            raise ValueError(f"the prompt names the column {{{name}}}, which there is not; did you mean {{{near}}}?")

    def column(match: re.Match[str]) -> str:
        value = look_up(row, match[1])
        return match[0] if value is None else str(value)

    return _FIELD.sub(column, prompt)
