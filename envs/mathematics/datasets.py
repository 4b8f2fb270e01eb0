"""Mathematics from published tables: MATH, AIME, AMC, Minerva, OlympiadBench, SVAMP, and two sets made for training.

Where an answer is a number it must be written as one; else it is compared by value, see the ``math`` grader.
"""

from __future__ import annotations

from typing import Any

from rlvr.envs.core.tables import Source
from rlvr.envs.mathematics.common import NUMBER
from rlvr.envs.rewards.extraction import closing_brace
from rlvr.envs.rewards.graders.number import read_reference
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts


def boxed_answer(solution: str) -> str:
    r"""What stands in the last box of a solution; ``\boxed 5$`` is a box too.

    Raises:
        ValueError: there is no box, or it is not closed.
    """
    start, name = max((solution.rfind(name), name) for name in ("\\boxed", "\\fbox"))
    if start < 0:
        raise ValueError(f"the solution has no \\boxed: {solution[-60:]!r}")
    inside = solution[start + len(name) :].lstrip()
    if not inside.startswith("{"):
        return inside.partition("$")[0].strip()
    end = closing_brace(inside, 1, len(inside))
    if end < 0:
        raise ValueError(f"the last \\boxed is not closed: {solution[-60:]!r}")
    return inside[1:end].strip()


def plain(answer: Any) -> str:
    """An answer as text, without math delimiters around it; whole numbers without a point.

    Raises:
        ValueError: it is no text and no number, or it is blank.
    """
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, bool) or not isinstance(answer, str | int | float):
        raise ValueError(f"an answer must be text or a number, got {answer!r}")
    text = str(answer).strip()
    if len(text) > 2 and text[0] + text[-1] == "$$" and "$" not in text[1:-1]:
        text = text[1:-1].strip()
    if not text:
        raise ValueError("the answer is blank")
    return text


PROBLEM = {"question": "problem"}
AS_TRAIN = {"test": "train"}  # the hub has the test split under the name of train


def questions(folder: str, hub: str | None, revision: str = "main", **more: Any) -> Source:
    """Where rows of a question and its answer are, and a solution where there is one."""
    return Source(folder, hub, revision, ("question", "answer"), optional=("solution",), **more)


class MathTable(TableTask):
    """Rows of a question and its answer, and a solution where there is one."""

    source = questions("questions", None)

    def problem(self, row: Row) -> Problem:
        """Reads question and answer; math delimiters are dropped, and a missing solution is none."""
        solution = _text(row.get("solution")) if "solution" in self.source.optional else ""
        return Problem(texts(row, "question")[0], solution, plain(row["answer"]))


class NumberAnswerTable(MathTable):
    """The same, where every answer is a number."""

    graders = ("number", "math")
    wanted = NUMBER

    def problem(self, row: Row) -> Problem:
        """As ``MathTable``, and refuses a row whose answer is no number."""
        problem = super().problem(row)
        read_reference(problem.answer)
        return problem


class MATH(TableTask):
    """MATH (Hendrycks et al. 2021, arXiv 2103.03874): competition problems; the answer is the solution's last box."""

    source = Source(
        folder="math",
        hub="DigitalLearningGmbH/MATH-lighteval",
        revision="0530c78699ea5e8eb5530600900e1f328b48acad",
        columns=("question", "solution"),
        names={"question": "problem"},
    )

    def problem(self, row: Row) -> Problem:
        """The answer is what stands in the solution's last box; a row without one is refused."""
        question, solution = texts(row, "question", "solution")
        return Problem(question, solution, plain(boxed_answer(solution)))


class MATH500(MathTable):
    """MATH-500 (Lightman et al. 2023, arXiv 2305.20050): 500 test problems of MATH."""

    source = questions("math500", "HuggingFaceH4/MATH-500", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", names=PROBLEM)
    splits = ("test",)


class AIME24(NumberAnswerTable):
    """AIME 2024, both papers: 30 problems with whole numbers from 0 to 999 for answers."""

    source = questions(
        "aime24", "HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a", names=PROBLEM, splits=AS_TRAIN
    )
    splits = ("test",)


class AIME25(NumberAnswerTable):
    """AIME 2025, both papers: 30 problems with whole numbers from 0 to 999 for answers."""

    source = questions("aime25", "math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b", names=PROBLEM)
    splits = ("test",)


class AMC(NumberAnswerTable):
    """AMC 12 of 2022 and 2023: 83 problems, rewritten to have a number for an answer (AI-MO validation set)."""

    source = questions("amc", "AI-MO/aimo-validation-amc", names=PROBLEM, splits=AS_TRAIN)
    splits = ("test",)


class Minerva(MathTable):
    """Minerva (Lewkowycz et al. 2022, arXiv 2206.14858): 272 problems of undergraduate science courses at MIT."""

    source = questions("minerva", "math-ai/minervamath")
    splits = ("test",)


class OlympiadBench(TableTask):
    """OlympiadBench (He et al. 2024, arXiv 2402.14008): its 674 mathematical questions in English without pictures.

    ``final_answer`` is a list of texts; several answers are one list without an order.
    """

    source = questions(
        "olympiadbench",
        "Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        names={"answer": "final_answer"},
        splits=AS_TRAIN,
    )
    splits = ("test",)

    def problem(self, row: Row) -> Problem:
        """Several final answers become one list, apart by commas."""
        answers, solution = row["answer"], row.get("solution")
        finals = answers if isinstance(answers, list) else [answers]
        return Problem(texts(row, "question")[0], _text(solution), ", ".join(map(plain, finals)) or plain(""))


class SVAMP(TableTask):
    """SVAMP (Patel et al. 2021, arXiv 2103.07191): short stories, changed so that a pattern does not solve them."""

    source = Source(
        folder="svamp",
        hub="ChilleD/SVAMP",
        revision="main",
        columns=("body", "question", "answer"),
        names={"body": "Body", "question": "Question", "answer": "Answer"},
    )
    graders = ("number",)
    wanted = NUMBER

    def problem(self, row: Row) -> Problem:
        """Joins body and question to one text and adds a full stop between them where it is missing."""
        body, question = (text.strip() for text in texts(row, "body", "question"))
        stop = "" if body.endswith((".", ",", "?", "!", ";", ":")) or question[:1].islower() else "."
        answer = plain(row["answer"])
        read_reference(answer)
        return Problem(f"{body}{stop} {question}", "", answer)


class DeepScaleR(MathTable):
    """DeepScaleR-Preview (Luo et al. 2025): some 40,000 competition problems for training, MATH, AIME and AMC in it.

    Leave out what is tested on: ``decontaminate=["rlvr/MATH500-v0", "rlvr/AIME24-v0"]``.
    """

    source = questions(
        "deepscaler",
        "agentica-org/DeepScaleR-Preview-Dataset",
        "b6ae8c60f5c1f2b594e2140b91c49c9ad0949e29",
        names=PROBLEM,
    )
    splits = ("train",)


class DAPOMath(MathTable):
    """DAPO-Math-17k (Yu et al. 2025, arXiv 2503.14476): some 17,000 problems for training, whole numbers for answers.

    These are the rows without repeats and without the prompt around them. The first release is read with
    ``columns={"question": "prompt.0.content", "answer": "reward_model.ground_truth"}``.
    """

    source = Source(
        folder="dapo_math",
        hub="open-r1/DAPO-Math-17k-Processed",
        revision="31dd309567e3da778038cc87d868b6097a3ccf68",
        columns=("question", "answer"),
        names={"question": "prompt", "answer": "solution"},
        files=("{split}", "{config}/{split}"),
    )
    configs = {"all": "all", "en": "en", "cn": "cn"}  # noqa: RUF012
    splits = ("train",)


def _text(value: Any) -> str:
    """A solution, which may be one text, a list of them, or missing."""
    parts = value if isinstance(value, list) else [value]
    return "\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
