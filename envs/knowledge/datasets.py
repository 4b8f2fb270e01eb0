"""Questions answered in a few words, from published tables: NQ-open, TriviaQA, HotpotQA and PopQA.

Read without any text to look things up in, unless said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rlvr.envs.core.tables import Source
from rlvr.envs.rewards.graders.question import normalised
from rlvr.envs.tasks.tables import Problem, Row, TableTask, texts


class Answers(TableTask):
    """Rows of a question and the spellings of its answer, the first of which an expert says.

    Reward: 1 for one of the accepted spellings, letter case, articles and punctuation aside, else 0; with
        ``grader="f1"`` the share of words that agree, which pays for long lists too.
    """

    graders = ("exact", "f1")
    wanted = "the answer in a few words"

    def problem(self, row: Row) -> Problem:
        """One spelling, a list of them, or a list as JSON text; spellings that normalise alike are one."""
        return with_spellings(texts(row, "question")[0].strip(), _listed(row["answer"]))

    def direct_answer(self, state: Problem) -> str:
        """The first spelling in a box, in ``<answer>`` tags where its braces would break a box."""
        # A box must have its braces in pairs, which names need not.
        text = state.answer_text
        return f"<answer>{text}</answer>" if {"{", "}"} & set(text) else f"\\boxed{{{text}}}"


def with_spellings(question: str, spellings: Iterable[Any]) -> Problem:
    """A question with each different spelling of its answer once.

    Raises:
        ValueError: there is no spelling that is text.
    """
    different: dict[str, str] = {}
    for text in spellings:
        if isinstance(text, str) and text.strip():
            different.setdefault(normalised(text) or text, text.strip())
    if not different:
        raise ValueError("there is no answer")
    answers = tuple(different.values())
    return Problem(question, "", answers, answer_text=answers[0])


class NQOpen(Answers):
    """NQ-open (Lee et al. 2019, arXiv 1906.00300): questions of Google's users, from Natural Questions."""

    source = Source(
        folder="nq_open",
        hub="google-research-datasets/nq_open",
        revision="5dd9790a83002ad084ddeb7c420dc716852c6f28",
        columns=("question", "answer"),
    )
    splits = ("train", "validation")


class TriviaQA(Answers):
    """TriviaQA (Joshi et al. 2017, arXiv 1705.03551): questions of trivia fans, with many spellings of each answer."""

    source = Source(
        folder="trivia_qa",
        hub="mandarjoshi/trivia_qa",
        revision="0f7faf33a3908546c6fd5b73a660e0f8ff173c2f",
        columns=("question", "answer"),
        files=("{split}", "{config}/{split}"),
    )
    configs = {"rc": "rc.nocontext", "unfiltered": "unfiltered.nocontext"}  # noqa: RUF012
    splits = ("train", "validation")

    def problem(self, row: Row) -> Problem:
        """The answer's value and its aliases are the accepted spellings."""
        answer = row["answer"]
        return with_spellings(texts(row, "question")[0].strip(), [answer["value"], *(answer.get("aliases") or ())])


class HotpotQA(Answers):
    """HotpotQA (Yang et al. 2018, arXiv 1809.09600): questions that need two articles.

    The configuration ``closed`` asks without them, ``distractor`` shows the two among eight others.
    """

    source = Source(
        folder="hotpot_qa",
        hub="hotpotqa/hotpot_qa",
        revision="1908d6afbbead072334abe2965f91bd2709910ab",
        columns=("question", "answer"),
        optional=("context",),
        files=("{split}", "{config}/{split}"),
    )
    configs = {"closed": "distractor", "distractor": "distractor"}  # noqa: RUF012
    splits = ("train", "validation")

    def problem(self, row: Row) -> Problem:
        """With ``config="distractor"`` ten articles stand before the question."""
        question = texts(row, "question")[0].strip()
        if self.config == "distractor":
            question = f"{_articles(row.get('context'))}\n\n{question}"
        return with_spellings(question, [row["answer"]])


class PopQA(Answers):
    """PopQA (Mallen et al. 2022, arXiv 2212.10511): facts about things of every popularity."""

    source = Source(
        folder="pop_qa",
        hub="akariasai/PopQA",
        revision="main",
        columns=("question", "answer"),
        names={"answer": "possible_answers"},
    )
    splits = ("test",)


def _listed(answer: Any) -> list[Any]:
    """The spellings: a list, a list as JSON text, or one text."""
    if isinstance(answer, str) and answer.lstrip().startswith("["):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            return [answer]
    return answer if isinstance(answer, list) else [answer]


def _articles(context: Any) -> str:
    """Titles and sentences, from two lists or from a list of pairs."""
    if not context:
        raise ValueError("the row has no context to show: make the environment with config='closed'")
    if isinstance(context, list):
        context = {"title": [pair[0] for pair in context], "sentences": [pair[1] for pair in context]}
    pairs = zip(context["title"], context["sentences"], strict=True)
    return "\n\n".join(f"{title}\n{''.join(sentences).strip()}" for title, sentences in pairs)
