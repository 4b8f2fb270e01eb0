"""Programs from published tables: HumanEval, MBPP and CodeContests.

A program runs in the sandbox, and its tests' expected values never enter the process that it runs in, see the
``code`` grader. Where no sandbox tier holds on this machine, these environments refuse to be made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rlvr.envs.core.tables import Source
from rlvr.envs.sandbox import probes
from rlvr.envs.tasks.prompts import PROGRAM
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts

PYTHON3 = (3, "PYTHON3")  # how CodeContests names the language


class CodeTable(TableTask):
    """Base of programming tables: an answer is the tests as JSON text, so that a state cannot be changed.

    Actions: a reply; its last ```python block is the program.
    Reward: 1 where every test passes, else 0.

    Attributes:
        patience: seconds that a grade may take, for the audit: it starts processes, on a machine that may be busy.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine; the message says what would change that.
    """

    graders = ("code",)
    patience: ClassVar[float] = 5.0
    styles: ClassVar[tuple[str, ...]] = ("block", "none")
    prompts: ClassVar[Mapping[str, str | None]] = {"block": PROGRAM, "none": None}

    def system_for(self, style: str) -> str | None:
        """Refuses to be made where no sandbox tier holds, before any row is read."""
        self._one_of("prompt_style", style, self.styles)
        probes.require()
        return self.prompts.get(style)

    def reference(self, problem: Problem) -> Any:
        """The tests, read from the JSON text that the state holds."""
        return json.loads(problem.answer)

    def solve(self, state: Problem) -> str:
        """The table's program in a fence; NotImplementedError for a row without one."""
        return self.answered(state)

    def direct_answer(self, state: Problem) -> str:
        """As ``solve``: a program has no work before it that could be skipped."""
        return self.answered(state)

    def answered(self, problem: Problem) -> str:
        """The program in a fence, as worked examples show it."""
        if not problem.solution:
            raise NotImplementedError("this row has no solution in Python: no expert is known for it")
        return f"```python\n{problem.solution.rstrip()}\n```"


class HumanEval(CodeTable):
    """HumanEval (Chen et al. 2021, arXiv 2107.03374): write the body of a function from its docstring.

    In the style ``none`` the observation is the bare start of the program, and a reply may go on with the body.
    """

    source = Source(
        folder="humaneval",
        hub="openai/openai_humaneval",
        revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
        columns=("prompt", "test", "entry_point", "canonical_solution"),
        files=("{split}", "HumanEval"),
    )
    splits = ("test",)

    def problem(self, row: Row) -> Problem:
        """The solution is prompt and body together; the tests carry the prompt, so a reply may be a body alone."""
        prompt, test, entry, solution = texts(row, "prompt", "test", "entry_point", "canonical_solution")
        tests = json.dumps({"prompt": prompt, "entry_point": entry, "test": test})
        return Problem(prompt, prompt + solution, tests)

    def asked(self, problem: Problem) -> str:
        """The start of the program in a fence, in the style ``none`` bare."""
        if self.prompt_style == "none":
            return problem.question
        return f"Complete this function.\n\n```python\n{problem.question.rstrip()}\n```"


class MBPP(CodeTable):
    """MBPP (Austin et al. 2021, arXiv 2108.07732): short programs from a sentence and tests.

    The prompt shows one test, which gives the function's name and arguments; the others stay hidden, so that a table
    of the shown values earns nothing. The style ``paper`` shows all of them in the paper's words.
    """

    source = Source(
        folder="mbpp",
        hub="google-research-datasets/mbpp",
        revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
        columns=("code", "test_list"),
        optional=("text", "prompt", "test_imports", "test_setup_code", "challenge_test_list"),
        files=("{split}", "{config}/{split}"),
    )
    configs = {"full": "full", "sanitized": "sanitized"}  # noqa: RUF012
    splits = ("train", "validation", "test")
    styles = ("block", "paper", "none")

    def problem(self, row: Row) -> Problem:
        """Reads both the full table's ``text`` and the sanitized one's ``prompt``; challenge tests count too."""
        question = str(row.get("text") or row.get("prompt") or "").strip()
        asserts = row["test_list"]
        if not question or not isinstance(asserts, list) or not asserts:
            raise ValueError("text (or prompt) must be text, and test_list a list with at least one test")
        kinds = ("test_imports", "test_setup_code", "challenge_test_list")
        tests = {"test_list": asserts} | {kind: row[kind] for kind in kinds if row.get(kind)}
        return Problem(question, texts(row, "code")[0], json.dumps(tests))

    def asked(self, problem: Problem) -> str:
        """The first test alone, in the style ``paper`` all of ``test_list``."""
        asserts = self.reference(problem)["test_list"]
        if self.prompt_style == "paper":
            tests = "\n".join(asserts)
            task = f"You are an expert Python programmer, and here is your task: {problem.question}"
            return f"{task} Your code should pass these tests:\n\n{tests}"
        return f"{problem.question}\n\nThe tests are like this one:\n\n```python\n{asserts[0]}\n```"


class CodeContests(CodeTable):
    """CodeContests (Li et al. 2022, arXiv 2203.07814): competitive programming on standard input and output.

    All tests of a row count: public, private and generated. White space in the output does not matter. Problems with
    several right outputs are graded by the one that is given, as there is no checker in the table.
    """

    source = Source(
        folder="code_contests",
        hub="deepmind/code_contests",
        revision="802411c3010cb00d1b05bad57ca77365a3c699d6",
        columns=("description", "public_tests"),
        optional=("private_tests", "generated_tests", "solutions"),
        splits={"validation": "valid"},
    )
    splits = ("train", "validation", "test")
    kinds = ("public_tests", "private_tests", "generated_tests")

    def problem(self, row: Row) -> Problem:
        """All tests of all three columns become one list; the first Python 3 solution is the expert's."""
        pairs = [pair for kind in self.kinds for pair in _pairs(row.get(kind))]
        if not pairs:
            raise ValueError(f"there is not one test in {', '.join(self.kinds)}")
        tests = json.dumps({"inputs": [pair[0] for pair in pairs], "outputs": [pair[1] for pair in pairs]})
        return Problem(texts(row, "description")[0].strip(), _python(row.get("solutions")), tests)

    def grading(self, problem: Problem) -> dict[str, Any]:
        """Output is compared token by token, so white space does not matter."""
        return {"compare": "tokens"}


def _pairs(tests: Any) -> Iterator[tuple[str, str]]:
    """Inputs and outputs, from ``{"input": [...], "output": [...]}`` or a list of such pairs."""
    if isinstance(tests, Mapping):
        yield from zip(tests.get("input") or (), tests.get("output") or (), strict=True)
    else:
        yield from ((test["input"], test["output"]) for test in tests or ())


def _python(solutions: Any) -> str:
    """The first solution in Python 3; empty when there is none."""
    if not isinstance(solutions, Mapping):
        return ""
    both = zip(solutions.get("language") or (), solutions.get("solution") or (), strict=True)
    return next((code for language, code in both if language in PYTHON3), "")
