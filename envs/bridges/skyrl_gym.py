"""skyrl-gym's environments here: their turns and scorers; rows, seeds, splits, ends and restore are ours.

skyrl-gym holds no tasks: rows come from its trainer. Here they are read as every table of ours is. A state is the row
and the actions so far; a worker plays them again in a new environment of theirs, so nothing is shared. The reward is 1
where their scorer gives all that it has, and the answer, read as a whole by us, is the row's. It is 0 for all else: no
part of it for a format, none below zero. What theirs came to stands in the verdict's ``parts``.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from rlvr.envs.bridges.pools import call, verdict_on_fault
from rlvr.envs.bridges.suite_games import SKYRL_GYM
from rlvr.envs.core.seeding import digest_of_texts
from rlvr.envs.core.tables import DataError, Source, has_rows, load_rows
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.rewards.workers import WorkerError

WORKER: Final = "skyrl_gym"
SECONDS: Final = 20.0
LONGEST: Final = 20_000  # characters of an action that a scorer is given: its end
NUMBER: Final = re.compile(r"[-+]?\d{1,40}(?:\.\d{0,40})?")


class Suite(NamedTuple):
    """What the environments of one kind of row share.

    Attributes:
        source, splits: where the rows are.
        gold: the reference, from the row's answer.
        form: how an answer is written; ``{}`` is the answer.
        written: the answers in a text that is written so.
    """

    source: Source
    splits: tuple[str, ...]
    gold: Callable[[str], str]
    form: str
    written: re.Pattern[str]


def _last_line(answer: str) -> str:
    """The number behind the last ``####`` of an official solution."""
    final = answer.rpartition("####")[2].strip().replace(",", "")
    if not NUMBER.fullmatch(final):
        raise ValueError(f"the answer has no line '#### n' at its end: {answer[-60:]!r}")
    return final


def _plain(answer: str) -> str:
    """A whole number without leading zeros."""
    if not answer.strip().isascii() or not answer.strip().isdigit():
        raise ValueError(f"an answer of AIME is a whole number, not {answer[:60]!r}")
    return str(int(answer))


GSM8K = Suite(
    Source(
        folder="gsm8k",
        hub="openai/gsm8k",
        config="main",
        revision="e53f048856ff4f594e959d75785d2c2d37b678ee",
        columns=("question", "answer"),
    ),
    ("train", "test"),
    _last_line,
    "#### {}",
    re.compile(r"#### ([^\n]*)"),
)
AIME = Suite(
    Source(
        folder="aime24",
        hub="HuggingFaceH4/aime_2024",
        revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        columns=("question", "answer"),
        names={"question": "problem"},
        splits={"test": "train"},
    ),
    ("test",),
    _plain,
    "Answer: {}",
    re.compile(r"(?i)answer[ \t]*:([^\n]*)"),
)
SUITES: Final[Mapping[str, Suite]] = {"gsm8k": GSM8K, "gsm8k_multi_turn": GSM8K, "aime": AIME}


class SkyRLState(NamedTuple):
    """A question so far.

    Attributes:
        question: the row's.
        gold: its answer.
        actions: the replies, as the scorer was given them.
        observation: what the policy reads next; empty for the question itself.
    """

    question: str
    gold: str
    actions: tuple[str, ...] = ()
    observation: str = ""


class SkyRLGym(Task[SkyRLState]):
    """Args:
        name: the environment's id in skyrl-gym.
        split: one of its splits.
        data_files: a file of rows, or a folder that holds ``<split>.jsonl``; else RLVR_DATA or the hub is asked.
        columns: the table's own names of ``question`` and ``answer``.
        limit: only the first rows.

    Raises:
        ValueError: there is no such environment, or it is refused; or it has no such split.
        DataError: the rows cannot be had, or one is not what it should be.
    """

    reads_split = True
    row_settings = frozenset(("data_files", "columns", "limit"))
    licence = "Apache-2.0; the rows' own"
    packages = ("skyrl_gym",)

    @classmethod
    def has_split(cls, split: str, settings: Mapping[str, Any]) -> bool:
        """Whether it is one of the suite's, and ``data_files`` holds it."""
        suite = SUITES.get(settings.get("name", ""))
        if suite is None:
            return False  # making it says that there is none
        return split in suite.splits and has_rows(suite.source, split, settings.get("data_files"))

    def __init__(
        self,
        *,
        name: str,
        split: str | None = None,
        data_files: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> None:
        if name not in SKYRL_GYM:
            raise ValueError(f"the bridge has no environment {name!r} of skyrl-gym; docs/bridges.md lists them")
        self.env_class, self.suite = name, SUITES[name]
        self.splits = self.suite.splits
        self.split = split or self.splits[0]
        if self.split not in self.splits:
            raise ValueError(f"{name} has no split {split!r}; it has {', '.join(self.splits)}")
        self.source = self.suite.source
        self.asks = f"skyrl-gym's {name}: a question with a number for an answer"
        form = self.suite.form.format("42")
        self.system = f"Think step by step. Write the answer on the last line, as in: {form}"
        rows = load_rows(self.source, self.split, data_files, columns=columns, limit=limit)
        self.rows = [self._read(number, row) for number, row in enumerate(rows)]
        self.size = len(self.rows)

    def rows_digest(self) -> str | None:
        """Of the questions and their answers."""
        return digest_of_texts(map(repr, self.rows))

    def _read(self, number: int, row: Mapping[str, Any]) -> SkyRLState:
        try:
            question, answer = str(row["question"]), str(row["answer"])
            if not question.strip():
                raise ValueError("the question is blank")
            return SkyRLState(question, self.suite.gold(answer))
        except ValueError as error:
            raise DataError(f"row {number}: {error}") from error

    def turns(self, level: int) -> int:
        """As many as skyrl-gym allows, from the table of names."""
        return SKYRL_GYM[self.env_class][0]

    def row(self, index: int, rng: random.Random) -> SkyRLState:
        """The row, read once when the task was made; nothing is drawn."""
        return self.rows[index]

    def content(self, state: SkyRLState) -> str:
        """The question: the environments of one suite share rows."""
        return state.question

    def observe(self, state: SkyRLState) -> str:
        """What the scorer said of the last action, at first the question."""
        return state.observation or state.question

    def apply(self, state: SkyRLState, action: str) -> Transition:
        """Replays all actions in a new environment of theirs; 1 only where their score and our reading agree."""
        action_text = visible_text(action)[-LONGEST:].encode("utf-8", "replace").decode().replace("\x00", "")
        actions = (*state.actions, action_text)
        try:
            played = self._play(state, actions)
        except WorkerError as error:
            control = (*state.actions, self.solve(state))
            return Transition(state, verdict_on_fault(error, lambda: self._play(state, control)), True)
        after = state._replace(actions=actions, observation=played["text"])
        verdict = self.judge(state.gold, action_text, played["last"]).replace(parts={"its own score": played["score"]})
        if verdict.success or played["done"]:
            return Transition(after, verdict, True)
        return Transition(after, Verdict(0.0, "partial", verdict.answer, "wrong so far", verdict.parts))

    def _play(self, state: SkyRLState, actions: tuple[str, ...]) -> dict[str, Any]:
        played: dict[str, Any] = call(
            WORKER, "play", [self.env_class, state.question, state.gold, list(actions)], SECONDS
        )
        return played

    def judge(self, gold: str, action_text: str, theirs: float) -> Verdict:
        """Their word for it, and ours: every answer that is written must be the one number."""
        answers = [answer.strip().strip("$").strip() for answer in self.suite.written.findall(action_text)]
        if not answers:
            return unparsable(f"no answer is written as {self.suite.form.format('42')}")
        if theirs >= 1.0 and {_value(answer) for answer in answers} == {_value(gold)}:
            return correct(answers[-1])
        return wrong(answers[-1][:200])

    def solve(self, state: SkyRLState) -> str:
        """The row's answer in the suite's form, such as ``#### 42``."""
        return self.suite.form.format(state.gold)


def _value(answer: str) -> Fraction | str:
    """The number that an answer is, else its text, which no reference is."""
    bare = answer.removesuffix(".").replace(",", "")
    return Fraction(bare) if NUMBER.fullmatch(bare) else answer
