"""Questions that are rows of a table: a row in, a prompt out, and a grader by name. One turn.

A data set is a subclass that names its ``Source`` and writes ``problem``, which reads one row. Settings, prompt
styles, worked examples, the grader and decontamination are the same for all.
"""

from __future__ import annotations

import copy
import importlib
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import gymnasium as gym

from rlvr.envs.core.hints import did_you_mean
from rlvr.envs.core.json_text import load_json_or_literal
from rlvr.envs.core.seeding import digest_of_texts, stream
from rlvr.envs.core.tables import DataError, Source, has_rows, load_rows, locate
from rlvr.envs.core.task import MultipleChoice, Task, Transition
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.custom import package_of_grader
from rlvr.envs.rewards.grading import BUILT_IN, GRADERS, GraderChoice, grade, grader_name
from rlvr.envs.rewards.grading import grader as grader_of
from rlvr.envs.tasks import prompts
from rlvr.envs.tasks.decontamination import Overlap, find_overlaps

Row = Mapping[str, Any]
MOST_EXAMPLES = 64
EXAMPLE_POOL = 1_000  # rows of another split that examples are drawn from: no more is read for them
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Problem(NamedTuple):
    """What a row asks.

    Attributes:
        question: the question itself.
        solution: a worked solution, where the table has one.
        answer: the reference that the grader is given.
        answer_text: the answer in an expert's words, where these are not ``str(answer)``.
        options: the texts of the options of a multiple choice, in the order shown.
    """

    question: str
    solution: str = ""
    answer: Any = ""
    answer_text: str = ""
    options: tuple[str, ...] = ()


def texts(row: Row, *columns: str) -> list[str]:
    """The texts of some columns of a row.

    Raises:
        ValueError: one is no text, or the first is blank.
    """
    values = [row[column] for column in columns]
    if not all(isinstance(value, str) for value in values) or not values[0].strip():
        raise ValueError(f"{' and '.join(columns)} must be text, the first not blank")
    return values


class Shared(list[Problem]):
    """Problems that several environments hold, and nobody changes; forgotten with the last of them.

    ``digest`` is that of all of them, once it has been asked for.
    """

    __slots__ = ("__weakref__", "digest")
    digest: str


def _digest(problems: list[Problem]) -> str:
    """The digest of problems in their order, all that they hold."""
    if not isinstance(problems, Shared):
        return digest_of_texts(map(repr, problems))
    if not hasattr(problems, "digest"):
        problems.digest = digest_of_texts(map(repr, problems))
    return problems.digest


_SHARED: WeakValueDictionary[str, Shared] = WeakValueDictionary()


class TableTask(Task[Problem]):
    """Base of the data set environments; a subclass writes ``problem``.

    Observation: the question of a row, with its options, if any, and worked examples before it, if any.
    Actions: a reply in the form that the prompt style asks for.
    Reward: the grader's score of the reply's answer, from 0 to 1.
    Episode end: after one reply, whatever it says.

    Args:
        split: one of ``splits``.
        data_files: a file of rows, or a folder that holds ``<split>.jsonl``; else RLVR_DATA or the hub is asked.
        columns: the table's own names of the columns, see ``load_rows``.
        where: only rows whose column has this value, or one of these.
        limit: only the first rows; what is behind them is not read.
        config: the part of the data set, one of ``configs``.
        revision: of the data set on the hub, instead of the one it is pinned to.
        grader: one of ``graders``, the first by default; or one of your own, as a function or an object, by the name
            that it was registered under, or as "module:name".
        prompt_style: one of ``styles``, the first by default; see ``prompts``.
        few_shot: how many ``worked_examples`` stand before the question; never the question itself.
        few_shot_split: the split they are taken from; the first of ``splits`` by default.
        decontaminate: tables that must not be trained on, by the id of their environment or by a file of the same
            columns; rows that overlap with one are left out and listed in ``overlaps``.

    Attributes:
        source: where the rows are, and the columns they have.
        configs: our name of each part to the hub's; the first is the default.
        graders: kinds of grader that fit, see ``rlvr.envs.rewards.grade``.
        styles: prompt styles that fit.
        wanted: what the prompt asks for.
        cloze: whether likelihood scoring compares the texts of options that the prompt does not show, and not their
            letters.
        grader_options: given to a grader that is none of ``graders``.
        problems: the rows, read.
        overlaps: what decontamination found, by the rows' places before it.
    """

    source: ClassVar[Source]
    configs: ClassVar[Mapping[str, str]] = {}
    graders: ClassVar[tuple[str, ...]] = ("math",)
    styles: ClassVar[tuple[str, ...]] = tuple(prompts.STYLES)
    wanted: ClassVar[str] = "the final answer"
    cloze: ClassVar[bool] = False
    grader_options: Mapping[str, Any] = {}
    splits: tuple[str, ...] = ("train", "test")
    reads_split = True
    row_settings = frozenset(
        ("data_files", "columns", "where", "limit", "config", "revision", "hub", "decontaminate", "few_shot_split")
    )

    def __init__(
        self,
        *,
        split: str | None = "train",
        data_files: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        config: str | None = None,
        revision: str | None = None,
        grader: GraderChoice | None = None,
        prompt_style: str | None = None,
        few_shot: int = 0,
        few_shot_split: str | None = None,
        decontaminate: str | Sequence[str] = (),
    ) -> None:
        self.split = self._one_of("split", split, self.splits)
        self._choose_grader(grader if grader is not None else self.graders[0])
        self.prompt_style = prompt_style or self.styles[0]
        self.system = self.system_for(self.prompt_style)
        self._select_source(config, revision)
        self._reading: dict[str, Any] = {"data_files": data_files, "columns": columns, "where": where}
        self.problems = self._read(self.split, limit)
        self.overlaps: list[Overlap] = []
        if decontaminate:
            self._decontaminate([decontaminate] if isinstance(decontaminate, str) else decontaminate)
        self.size = len(self.problems)
        self._choose_examples(few_shot, few_shot_split)

    @classmethod
    def has_split(cls, split: str, settings: Mapping[str, Any]) -> bool:
        """Whether it is one of ``splits``, and a folder named by ``data_files`` holds a file of it; a single file is of
        the split that it is named after.
        """
        config = cls.configs.get(settings.get("config") or next(iter(cls.configs), ""))
        source = replace(cls.source, config=config) if config else cls.source
        return super().has_split(split, settings) and has_rows(source, split, settings.get("data_files"))

    # what a data set says of itself

    def rows(self, split: str, limit: int | None, reading: Mapping[str, Any]) -> Iterable[Row]:
        """The rows of a split, ``limit`` of the table's; ``reading`` has the other arguments of ``load_rows``."""
        return load_rows(self.source, split, limit=limit, **reading)

    def problem(self, row: Row) -> Problem:
        """One row, read.

        Raises:
            ValueError: the row is not what it should be; its message says why, without the row's number.
        """
        raise NotImplementedError

    def system_for(self, style: str) -> str | None:
        """The system prompt of a style.

        Raises:
            ValueError: there is no such style.
        """
        return prompts.system_prompt(style, self.wanted)

    def shown(self, problem: Problem, rng: random.Random) -> Problem:
        """The problem as it is asked this time; options may be shuffled."""
        return problem

    def asked(self, problem: Problem) -> str:
        """The question, with its options, if any."""
        return problem.question

    def grading(self, problem: Problem) -> dict[str, Any]:
        """Options for the grader, where it is one of ``graders``."""
        return {}

    def reference(self, problem: Problem) -> Any:
        """What the grader compares with."""
        return problem.answer

    def rows_digest(self) -> str | None:
        """Of all that the rows hold as they were read, under whatever names of columns, and of the worked examples."""
        return digest_of_texts([_digest(self.problems), *map(repr, self._examples)])

    # the task

    def row(self, index: int, rng: random.Random) -> Problem:
        """Row ``index`` as ``shown`` this time."""
        return self.shown(self.problems[index], rng)

    def content(self, state: Problem) -> str:
        """The question and its options in sorted order: shuffled options are the same task."""
        return "\n".join([state.question, *sorted(state.options)])

    def observe(self, state: Problem) -> str:
        """The question as ``asked`` words it; the style is in ``system``."""
        return self.asked(state)

    def worked_examples(self, state: Problem) -> list[tuple[str, str]]:
        """Other questions as ``asked`` words them, with good replies; one of equal content is passed over."""
        return [(self.asked(example), self.answered(example)) for example in self._examples_for(state)]

    def choices(self, state: Problem) -> MultipleChoice | None:
        """The options where there are any, behind the question and the worked examples as one plain text.

        Options are their letters, listed in the prompt; with ``cloze`` their texts, which the prompt does not show.
        """
        if not state.options:
            return None
        letters = tuple(LETTERS[: len(state.options)])
        texts = [*(f"{self._plain(each)} {self._plain_answer(each)}" for each in self._examples_for(state))]
        prompt = "\n\n".join([*texts, self._plain(state)])
        actions = tuple(f"\\boxed{{{letter}}}" for letter in letters)
        return MultipleChoice(prompt, state.options if self.cloze else letters, actions)

    def _plain(self, problem: Problem) -> str:
        if self.cloze:
            return f"Question: {problem.question}\nAnswer:"
        options = zip(LETTERS, problem.options, strict=False)
        return "\n".join([problem.question, *(f"{letter}. {text}" for letter, text in options), "Answer:"])

    def _plain_answer(self, problem: Problem) -> str:
        return problem.options[LETTERS.index(problem.answer)] if self.cloze else str(problem.answer)

    def apply(self, state: Problem, action: str) -> Transition:
        return Transition(state, self.judge(state, action), terminated=True)

    def judge(self, problem: Problem, reply: str) -> Verdict:
        """The verdict on an action."""
        if self.is_custom:
            return grade(self.grader, reply, copy.deepcopy(self.reference(problem)), **self.grader_options)
        return grade(self.kind, reply, self.reference(problem), **self.grading(problem))

    def solve(self, state: Problem) -> str:
        """The official solution, if there is one, and the answer."""
        answer = self.direct_answer(state)
        return f"{state.solution}\n{answer}" if state.solution else answer

    def direct_answer(self, state: Problem) -> str:
        """The answer in a box, without the table's solution."""
        return f"\\boxed{{{state.answer_text or state.answer}}}"

    # reading

    def _one_of(self, what: str, value: str | None, allowed: Sequence[str]) -> str:
        if value not in allowed or value is None:
            raise ValueError(f"{type(self).__name__} has no {what} {value!r}{did_you_mean(value, allowed, 'it has')}")
        return value

    def _choose_grader(self, choice: GraderChoice) -> None:
        """Sets ``kind``, the grader's name, and ``grader``, what `grade` is given."""
        ours = (*BUILT_IN, *self.graders)
        self.is_custom = not isinstance(choice, str) or choice not in ours
        if isinstance(choice, str) and (not self.is_custom or (":" not in choice and choice not in GRADERS)):
            registered = (name for name in GRADERS if name not in ours)
            self.kind = self._one_of("grader", choice, (*self.graders, *registered))
            self.grader: GraderChoice = self.kind
        else:
            self.kind, self.grader = grader_name(choice), grader_of(choice)
        if self.is_custom:
            self.packages = (package_of_grader(grader_of(self.grader)),)

    def _select_source(self, config: str | None, revision: str | None) -> None:
        self.config = config
        changes: dict[str, Any] = {"revision": revision} if revision else {}
        if self.configs:
            self.config = self._one_of("config", config or next(iter(self.configs)), tuple(self.configs))
            changes["config"] = self.configs[self.config]
        elif config is not None:
            raise ValueError(f"{type(self).__name__} has no parts to choose from, got config={config!r}")
        if changes:
            self.source = replace(self.source, **changes)  # type: ignore[misc]  # this one's own, from here on

    def _read(self, split: str, limit: int | None = None, **reading: Any) -> list[Problem]:
        """The problems of a split; environments of one process that read one file alike share them."""
        reading = self._reading | reading
        path = locate(self.source, split, reading["data_files"])
        if path is None:
            return self._read_anew(split, limit, reading)
        stat = path.stat()
        settings = {name: value for name, value in vars(self).items() if not isinstance(value, list)}
        version = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)  # the last of which nobody can set
        key = repr((type(self), settings, path.resolve(), version, reading, limit))
        shared = _SHARED.get(key)
        if shared is None:
            shared = _SHARED[key] = Shared(self._read_anew(split, limit, reading))
        return shared

    def _read_anew(self, split: str, limit: int | None, reading: dict[str, Any]) -> list[Problem]:
        problems = []
        for number, row in enumerate(self.rows(split, limit, reading)):
            try:
                problems.append(self.problem(row))
            except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
                raise DataError(f"row {number}: {error}") from error
        return problems

    # worked examples

    def _examples_for(self, state: Problem) -> list[Problem]:
        content = self.content(state)
        return [example for example in self._examples if self.content(example) != content][: self.few_shot]

    def _choose_examples(self, count: int, split: str | None) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_EXAMPLES:
            raise ValueError(f"few_shot must be a whole number from 0 to {MOST_EXAMPLES}, got {count!r}")
        self.few_shot, self._examples = count, []
        if not count:
            return
        split = self._one_of("split", split or self.splits[0], self.splits)
        pool = self.problems if split == self.split else self._read(split, EXAMPLE_POOL)
        rng = stream(type(self).__name__, "few-shot", split)
        by_question: dict[str, Problem] = {}
        for problem in rng.sample(pool, len(pool)):
            if self._is_answered(problem):
                by_question.setdefault(self.content(problem), self.shown(problem, rng))
            if len(by_question) > count:  # one more than is said, to stand in for the question that is asked
                break
        self._examples = list(by_question.values())
        spare = len(by_question) > count or by_question.keys().isdisjoint(map(self.content, self.problems))
        if len(by_question) < count or not spare:
            raise ValueError(
                f"few_shot={count} needs more than the {len(by_question)} different rows of split {split!r} that have "
                "an answer to show"
            )

    def _is_answered(self, problem: Problem) -> bool:
        try:
            return bool(self.answered(problem))
        except NotImplementedError:
            return False

    def answered(self, problem: Problem) -> str:
        """A good reply in the prompt's style."""
        return prompts.worked(self.prompt_style, problem.solution, problem.answer_text or str(problem.answer))

    # decontamination

    def _decontaminate(self, tables: Iterable[str]) -> None:
        held_out = [text for table in tables for text in self._texts_of(table)]
        self.overlaps = find_overlaps([problem.question for problem in self.problems], held_out)
        dropped = {overlap.train for overlap in self.overlaps}
        self.problems = [problem for i, problem in enumerate(self.problems) if i not in dropped]
        if not self.problems:
            raise DataError("decontamination leaves no row: every one overlaps with a held-out table")

    def _texts_of(self, table: str) -> list[str]:
        """The questions of an environment's test split (its last split, if it has no test), or of a file."""
        if table not in gym.registry:
            if not os.path.exists(os.path.expanduser(table)):
                raise ValueError(f"decontaminate={table!r} is neither the id of an environment nor a file")
            return [problem.question for problem in self._read(self.splits[-1], data_files=table, where=None)]
        module, _, name = str(gym.spec(table).kwargs.get("task", "")).partition(":")
        kind: Any = getattr(importlib.import_module(module), name) if name else object
        if not issubclass(kind, TableTask):
            raise ValueError(f"decontaminate={table!r}: that is no table of questions to compare with")
        other = kind(split="test" if "test" in kind.splits else kind.splits[-1])
        return [problem.question for problem in other.problems]


class ChoiceTable(TableTask):
    """Base of multiple choice: ``problem`` gives ``options``, and the letter of the right one as the answer.

    Reward: 1 for the letter of the right option, else 0.

    Attributes:
        shuffled: whether the options stand in a new order each time, drawn from the seed and the row.
    """

    graders = ("choice",)
    wanted = "the letter of the right option"
    shuffled: ClassVar[bool] = False

    def shown(self, problem: Problem, rng: random.Random) -> Problem:
        """With ``shuffled`` a new order of the options, and the letter of the right one in that order."""
        if not self.shuffled:
            return problem
        order = rng.sample(range(len(problem.options)), len(problem.options))
        answer = LETTERS[order.index(LETTERS.index(problem.answer))]
        return problem._replace(options=tuple(problem.options[i] for i in order), answer=answer)

    def asked(self, problem: Problem) -> str:
        """The question, then one line ``A) text`` for each option."""
        return with_options(problem)

    def grading(self, problem: Problem) -> dict[str, Any]:
        """The letters in use and the options' texts, so that an action may name the text of an option."""
        return {"letters": LETTERS[: len(problem.options)], "options": problem.options}

    def sample_action(self, state: Problem, rng: random.Random) -> str:
        """One of the letters shown, each with the same chance."""
        return f"\\boxed{{{rng.choice(LETTERS[: len(state.options)])}}}"


def with_options(problem: Problem) -> str:
    """The question, and under it one line for each option."""
    options = zip(LETTERS, problem.options, strict=False)
    return "\n".join([problem.question, *(f"{letter}) {text}" for letter, text in options)])


def choice(question: str, options: Any, right: Any) -> Problem:
    """A multiple choice from a row: ``right`` is the place of an option, its letter, or its text; a table of text alone
    has the options as one text of JSON.

    Raises:
        ValueError: there are less than two options or more than there are letters, or none of them is right.
    """
    if isinstance(options, str):
        with suppress(ValueError):
            options = load_json_or_literal(options)
    if not isinstance(options, list | tuple) or not 2 <= len(options) <= len(LETTERS):
        raise ValueError(f"options must be a list of 2 to {len(LETTERS)} texts, got {options!r}"[:200])
    shown = tuple(str(option).strip() for option in options)
    if isinstance(right, int) and not isinstance(right, bool) and 0 <= right < len(shown):
        return Problem(question, answer=LETTERS[right], options=shown)
    if isinstance(right, str) and right.strip() in LETTERS[: len(shown)] and len(right.strip()) == 1:
        return Problem(question, answer=right.strip(), options=shown)
    if isinstance(right, str) and shown.count(right.strip()) == 1:
        return Problem(question, answer=LETTERS[shown.index(right.strip())], options=shown)
    raise ValueError(f"{right!r} is neither the place, nor the letter, nor the text of one of {len(shown)} options")
