"""The one-turn tasks that most families are made of: a question, and a grader that reads the answer.

``ExactAnswerTask`` compares with one answer. ``CheckedAnswerTask`` is for questions with many right answers: the answer
is checked, not compared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import extract, first_sentence
from rlvr.envs.rewards.grading import WORKED_OUT, grader
from rlvr.envs.tasks import guesses
from rlvr.envs.tasks.readings import readings
from rlvr.envs.tasks.wording import counted

BOXED = "Think step by step. Put the final answer, and nothing else, in \\boxed{}."


# How an answer of each kind is drawn at random; the other kinds have no such notion.
GUESSES: Mapping[str, Callable[[str, random.Random], str]] = {
    "number": guesses.number,
    "math": guesses.number,
    "choice": guesses.letter,
    "exact": guesses.word,
    "f1": guesses.word,
}


# One answer in two forms: May 7, 2022 (2022-05-07).
_TWICE = re.compile(r"([^()\n]{2,200}) \(([^()\n]{2,200})\)\.?")


class Question(NamedTuple):
    """A question, what its grader compares with, and how an expert answers it.

    Attributes:
        text: what is asked.
        answer: the reference that the grader is given, or what a construction is checked against.
        working: the expert's reasoning, line by line; said before its answer.
        answer_text: the answer in the expert's words, where these are not ``str(answer)``.
        content: what makes the question this question, where its text has dressing; decides the split.
        operations: how many operations, or cases, lead to the answer, where this is counted: its measure of difficulty.
    """

    text: str
    answer: Any
    working: str = ""
    answer_text: str = ""
    content: str = ""
    operations: int = 0


# A question of all six parts in order, in a third of the time that Question(...) takes.
question_of: Callable[[tuple[str, Any, str, str, str, int]], Question] = partial(tuple.__new__, Question)


def explained(working: Callable[..., str], *fields: str) -> Callable[[Any, Question], str]:
    """An ``explain`` that gives these fields of the question to ``working``, or the whole question without any."""

    def explain(self: Any, state: Question) -> str:
        return working(*(getattr(state, name) for name in fields)) if fields else working(state)

    explain.__doc__ = working.__doc__
    return explain


class Asked(Protocol):
    """What is asked, and how an expert reasons about it."""

    @property
    def text(self) -> str:
        """What the policy reads."""

    @property
    def working(self) -> str:
        """Line by line."""


Q = TypeVar("Q", bound=Asked)


class OneReplyTask(Task[Q], Generic[Q]):
    """A question and one reply, whatever the question is about; a subclass writes what raises NotImplementedError."""

    levels = 5

    def ask(self, rng: random.Random, level: int) -> Q:
        """A new question of this level, drawn from ``rng`` alone."""
        raise NotImplementedError

    def judge(self, question: Q, reply: str) -> Verdict:
        """The verdict on an action."""
        raise NotImplementedError

    def direct_answer(self, state: Q) -> str:
        """The answer in a box."""
        raise NotImplementedError

    def guess(self, state: Q, rng: random.Random) -> str | None:
        """An answer of the right form, for the random agent; None for random text."""
        raise NotImplementedError

    def start(self, rng: random.Random, level: int) -> Q:
        return self.ask(rng, level)

    def observe(self, state: Q) -> str:
        return state.text

    def apply(self, state: Q, action: str) -> Transition:
        """Judges the one action; every episode ends here, also on an action that cannot be read."""
        return Transition(state, self.judge(state, action), terminated=True)

    def explain(self, state: Q, /) -> str:
        """The working, line by line. A subclass that works it out here, from the question, keeps ``reset`` fast."""
        return state.working

    def solve(self, state: Q) -> str:
        """The working, line by line, then the answer in a box."""
        answer, working = self.direct_answer(state), self.explain(state)
        return f"{working}\n{answer}" if working else answer

    def sample_action(self, state: Q, rng: random.Random) -> str | None:
        """A boxed ``guess``; None where the question shows nothing to guess from."""
        guess = self.guess(state, rng)
        return None if guess is None else f"\\boxed{{{guess}}}"


class QuestionTask(OneReplyTask[Question]):
    """What both kinds share; a subclass writes ``ask``.

    Actions: a reply, whose answer stands in its last \\boxed{}, else in <answer> tags, else behind "####" or "Answer:".
    Episode end: after one reply, whatever it says.
    """

    system = BOXED

    def content(self, state: Question) -> str:
        """``Question.content`` where the text has dressing (names, order of facts), else the whole text."""
        return state.content or state.text

    def difficulty(self, state: Question) -> float | None:
        """Operations, or cases, that lead to the answer."""
        return state.operations or None

    def direct_answer(self, state: Question) -> str:
        """``answer_text`` in a box, or ``str(answer)`` where the expert has no other spelling."""
        return f"\\boxed{{{state.answer_text or state.answer}}}"

    def guess(self, state: Question, rng: random.Random) -> str | None:
        """An answer drawn at random from what the question shows, for the random agent; None for random text."""
        return guesses.several(state.text, rng)


class ExactAnswerTask(QuestionTask):
    """Questions with one answer.

    Reward: 1 for the right answer, else 0.

    Attributes:
        kind: the grader's name, see ``rlvr.envs.rewards.grade``.
        options: given to the grader. ``number`` and ``math`` are given ``simplest=True`` unless they say otherwise: an
            answer is to be worked out, and a formula with the numbers put in is none.
    """

    kind: ClassVar[str] = "number"
    options: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        options = {**WORKED_OUT.get(self.kind, {}), **self.options}
        self._grade: Callable[..., Verdict] = partial(grader(self.kind), **options)

    def judge(self, question: Question, reply: str) -> Verdict:
        """The grader ``kind`` on the whole action; the reference is passed as text, as it is for ``json``."""
        return self._grade(reply, question.answer if self.kind == "json" else str(question.answer))

    def guess(self, state: Question, rng: random.Random) -> str | None:
        """By the grader's kind: a number, a letter or a word of the question; None for the other kinds."""
        draw = GUESSES.get(self.kind)
        return None if draw is None else draw(state.text, rng)


class CheckedAnswerTask(QuestionTask):
    """Questions with many right answers; a subclass writes ``check``.

    Reward: 1 for any answer that meets what the question asks, else 0.
    """

    def check(self, question: Question, answer: str) -> str | None:
        """Why an answer is wrong, or None for a right one.

        Raises:
            ValueError: the answer cannot be read; its message says why.
        """
        raise NotImplementedError

    def judge(self, question: Question, reply: str) -> Verdict:
        """Extracts the answer, then passes each of its readings to ``check``; one that fits is enough."""
        return checked_reply(reply, question.text, lambda text: self.check(question, text))


def checked_reply(reply: str, question: str, check: Callable[[str], str | None]) -> Verdict:
    """``checked`` on the answer of a reply. Behind "Answer:" it is one line or several. Beside the marker it is that
    line, or all lines where the line alone cannot be read, or its first sentence; below the marker it is all lines.
    """
    extraction = extract(reply)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    line, block = extraction.answer, extraction.block
    texts = [block if extraction.below and block else line]
    if block and not extraction.below:
        texts.append(block)
    if not (block and extraction.below):
        texts.append(first_sentence(extraction, exclaimed=True))
    verdicts = (checked(text, question, check) for text in dict.fromkeys(texts))
    best = next(verdicts)
    for verdict in verdicts:
        if best.status == "unparsable" or verdict.status == "correct":
            best = verdict if verdict.status != "unparsable" else best
    return best


def checked(answer: str, question: str, check: Callable[[str], str | None]) -> Verdict:
    """The verdict of a ``check`` on an answer in any of its ``readings``: right if one of these is.

    A check returns why an answer is wrong, None for a right one, and raises ValueError where it cannot read it.
    """
    faults: list[Verdict] = []
    for text in readings(answer, question):
        try:
            fault = check(text)
        except ValueError as error:
            faults.append(unparsable(str(error)[:200], answer))
            continue
        if fault is None:
            return correct(answer)
        faults.append(wrong(answer, fault))
    if (twice := _TWICE.fullmatch(answer)) and all(
        checked(part, question, check).status == "correct" for part in twice.groups()
    ):
        return correct(answer)
    return next((verdict for verdict in faults if verdict.status == "wrong"), faults[0])


def whole_numbers(answer: str, count: int | None = None, limit: int = 1_000) -> list[int]:
    """The whole numbers of an answer such as "3, 1, 2" or "[3 1 2]": nothing but numbers, commas and brackets.

    Raises:
        ValueError: something else stands there, a number has over 12 digits, or there are not ``count``.
    """
    text = answer.strip()
    if len(text) > 14 * limit:
        raise ValueError(f"the answer has {len(text):,} characters")
    if text[:1] + text[-1:] in ("[]", "()", "{}"):
        text = text[1:-1]
    words = text.replace(",", " ").replace(";", " ").split()
    if not words or not all(word.lstrip("-").isdecimal() and word.isascii() and len(word) <= 13 for word in words):
        raise ValueError("the answer is not a list of whole numbers")
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise ValueError("the answer is not a list of whole numbers") from None
    if count is not None and len(numbers) != count:
        raise ValueError(f"the answer has {counted(len(numbers), 'number')} instead of {count}")
    return numbers
