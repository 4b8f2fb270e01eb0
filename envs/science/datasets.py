"""Multiple choice from published tables: GPQA, MMLU, MMLU-Pro and ARC."""

from __future__ import annotations

from typing import Any

from rlvr.envs.core.tables import Source
from rlvr.envs.tasks.tables import ChoiceTable, Problem, Row, choice, texts


class GPQA(ChoiceTable):
    """GPQA (Rein et al. 2023, arXiv 2311.12022): graduate-level biology, physics and chemistry.

    The options are shuffled by the seed, so that every letter is right equally often. The authors ask that no
    question appear in plain text on the web: the hub asks for consent, and files of rows are not to be published.
    """

    source = Source(
        folder="gpqa",
        hub="Idavidrein/gpqa",
        revision="90b8e5be2b1d3d2dbfe016cdab47981150600c4a",
        columns=("question", "correct", "incorrect_1", "incorrect_2", "incorrect_3"),
        optional=("explanation",),
        names={
            "question": "Question",
            "correct": "Correct Answer",
            "incorrect_1": "Incorrect Answer 1",
            "incorrect_2": "Incorrect Answer 2",
            "incorrect_3": "Incorrect Answer 3",
            "explanation": "Explanation",
        },
        splits={"test": "train"},
        files=("{config}", "{config}/{split}"),
        access=(
            "GPQA is gated: accept its terms on https://huggingface.co/datasets/Idavidrein/gpqa with your account, "
            "then log in (`hf auth login`, or set HF_TOKEN)"
        ),
    )
    configs = {"main": "gpqa_main", "diamond": "gpqa_diamond", "extended": "gpqa_extended"}  # noqa: RUF012
    splits = ("test",)
    shuffled = True

    def problem(self, row: Row) -> Problem:
        """The right option stands first here; ``shown`` shuffles. The explanation is the solution."""
        question, *options = texts(row, "question", "correct", "incorrect_1", "incorrect_2", "incorrect_3")
        explanation = row.get("explanation")
        solution = explanation.strip() if isinstance(explanation, str) else ""
        return choice(question.strip(), options, 0)._replace(solution=solution)


class MMLU(ChoiceTable):
    """MMLU (Hendrycks et al. 2020, arXiv 2009.03300): 57 subjects; choose some with ``where={"subject": [...]}``."""

    source = Source(
        folder="mmlu",
        hub="cais/mmlu",
        config="all",
        revision="c30699e8356da336a370243923dbaf21066bb9fe",
        columns=("question", "choices", "answer"),
    )
    splits = ("test", "validation")

    def problem(self, row: Row) -> Problem:
        """The answer is the index of a choice, or its letter."""
        return choice(texts(row, "question")[0].strip(), row["choices"], row["answer"])


class MMLUPro(ChoiceTable):
    """MMLU-Pro (Wang et al. 2024, arXiv 2406.01574): up to ten options; ``where={"category": "physics"}`` chooses."""

    source = Source(
        folder="mmlu_pro",
        hub="TIGER-Lab/MMLU-Pro",
        revision="b189ec765aa7ed75c8acfea42df31fdae71f97be",
        columns=("question", "options", "answer"),
        optional=("cot_content",),
    )
    splits = ("test", "validation")

    def problem(self, row: Row) -> Problem:
        """Up to ten options; the worked thought of the validation split is the solution."""
        thought = row.get("cot_content")
        solution = thought.removeprefix("A:").strip() if isinstance(thought, str) else ""
        question = choice(texts(row, "question")[0].strip(), row["options"], row["answer"])
        return question._replace(solution=solution)


class ARC(ChoiceTable):
    """ARC (Clark et al. 2018, arXiv 1803.05457): science questions from schools, the challenge set or the easy one.

    The first release, with its nested questions, is read with
    ``columns={"question": "question.stem", "choices": "question.choices"}``.
    """

    source = Source(
        folder="arc",
        hub="allenai/ai2_arc",
        revision="210d026faf9955653af8916fad021475a3f00453",
        columns=("question", "choices", "answer"),
        names={"answer": "answerKey"},
        files=("{config}/{split}", "{config}-{split}"),
    )
    configs = {"challenge": "ARC-Challenge", "easy": "ARC-Easy"}  # noqa: RUF012
    splits = ("train", "validation", "test")
    cloze = True

    def problem(self, row: Row) -> Problem:
        """Labels may be letters or digits; the right one is found by its label."""
        labels, options = _labelled(row["choices"])
        if row["answer"] not in labels:
            raise ValueError(f"the answer {row['answer']!r} is none of the labels {', '.join(labels)}")
        return choice(texts(row, "question")[0].strip(), options, labels.index(row["answer"]))


def _labelled(choices: Any) -> tuple[list[str], list[str]]:
    """The labels, some of which are digits, and the texts; from two lists, or from a list of pairs."""
    if isinstance(choices, list):
        choices = {key: [pair[key] for pair in choices] for key in ("label", "text")}
    return [str(label) for label in choices["label"]], list(choices["text"])
