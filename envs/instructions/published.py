"""IFEval and IFBench: prompts with instructions that a program checks.

Rows have ``prompt``, ``instruction_id_list`` and ``kwargs``, the arguments of each instruction. They are read from
``data_files``, from ``$RLVR_DATA/ifeval/test.jsonl`` (``ifbench``) or from the hub.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

from rlvr.envs.core.tables import Source
from rlvr.envs.core.verdict import Verdict, unparsable
from rlvr.envs.instructions import ifbench, ifeval
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS, visible_text
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts


class IFEval(TableTask):
    """IFEval: 541 prompts, each with one to three of 25 instructions. Settings are those of every table.

    Source: Zhou et al. 2023, arXiv 2311.07911.

    Reward: 1 if the reply follows every instruction (the paper's strict accuracy of prompts), else 0; the verdict's
        parts are 1 or 0 for each instruction.

    A row has no reply to show, so that there is no expert, unless a column ``solution`` holds one.

    Raises:
        ImportError: a row asks for a language, and langdetect is not installed.
    """

    source: ClassVar[Source] = Source(
        folder="ifeval",
        hub="google/IFEval",
        revision="main",
        columns=("prompt", "instruction_id_list", "kwargs"),
        optional=("solution",),
        splits={"test": "train"},
        files=("{split}", "input_data"),
    )
    splits = ("test",)
    graders = ("instructions",)
    styles = ("none",)
    wanted = "the reply"

    @staticmethod
    def follows(text: str, instruction: str, arguments: dict[str, Any]) -> bool:
        """Whether a reply follows one instruction of a row, by the source's semantics."""
        return ifeval.follows(text, instruction, arguments)

    def problem(self, row: Row) -> Problem:
        """The prompt, and its instructions with the arguments that are not null; each is tried on a text."""
        (prompt,) = texts(row, "prompt")
        names, arguments = (_listed(row[column]) for column in ("instruction_id_list", "kwargs"))
        if not names:
            raise ValueError("there is no instruction, and any text would follow none")
        if len(names) != len(arguments):
            raise ValueError(f"there are {len(names)} instructions and {len(arguments)} sets of arguments")
        given = [
            (name, {key: value for key, value in (values or {}).items() if value is not None})
            for name, values in zip(names, arguments, strict=True)
        ]
        for name, values in given:
            if name in ifeval.NEED_LANGDETECT:
                ifeval.detect_language("A text.")
            self.follows("A text.", name, values)
        solution = row.get("solution")
        return Problem(prompt, solution if isinstance(solution, str) else "", json.dumps(given))

    def judge(self, problem: Problem, reply: str) -> Verdict:
        """Every instruction of the row, in its order; one that a row has twice is two parts."""
        if self.is_custom:
            return super().judge(problem, reply)
        text = visible_text(reply[:MAX_COMPLETION_CHARS])
        if not text.strip():
            return unparsable("there is no text in the reply")
        parts: dict[str, float] = {}
        for name, arguments in json.loads(problem.answer):
            count = sum(part.partition(" ")[0] == name for part in parts)
            parts[f"{name} {count + 1}" if count else name] = float(self.follows(text, name, arguments))
        missed = [name for name, value in parts.items() if not value]
        if missed:
            return Verdict(0.0, "wrong", reason=f"not followed: {', '.join(missed)}", parts=parts)
        return Verdict(1.0, "correct", reason="every instruction is followed", parts=parts)

    def solve(self, state: Problem) -> str:
        """The reply of the column ``solution``.

        Raises:
            NotImplementedError: the row has none.
        """
        if not state.solution:
            raise NotImplementedError(f"a row of {type(self).__name__} has no reply to show")
        return state.solution

    def direct_answer(self, state: Problem) -> str:
        """As ``solve``: the reply is the answer."""
        return self.solve(state)

    def answered(self, problem: Problem) -> str:
        """As ``solve``: a worked example shows the reply."""
        return self.solve(problem)

    def sample_action(self, state: Problem, rng: Any) -> str:
        """Some words."""
        return " ".join(rng.choices(("Yes", "no", "maybe", "it", "is", "so"), k=rng.randint(1, 12)))


class IFBench(IFEval):
    """IFBench: prompts with one to three of 58 instructions that IFEval lacks. Settings are those of every table.

    Source: Pyatkin et al. 2025, arXiv 2507.02833.

    Reward: as ``IFEval``.

    A row has no reply to show, so that there is no expert, unless a column ``solution`` holds one.

    Raises:
        ImportError: a row asks for emoji, for syllables or for a verb, and what decides it is not installed.
    """

    source: ClassVar[Source] = replace(IFEval.source, folder="ifbench", hub="allenai/IFBench_test")

    @staticmethod
    def follows(text: str, instruction: str, arguments: dict[str, Any]) -> bool:
        """As ``IFEval.follows``, by IFBench's semantics."""
        return ifbench.follows(text, instruction, arguments)


def _listed(value: Any) -> list[Any]:
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, list):
        raise ValueError(f"instruction_id_list and kwargs are lists, got {type(value).__name__}")
    return value
