"""SQL: a person's questions about a documented database, answered by looking at it.

A task is named by its database's key. Answers are computed from the generator's clean rows; what is stored differs from
these by codes, units, forms of dates and rows that do not count, as the documentation says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.agentic.databases import questions as q
from rlvr.envs.agentic.databases.asker import Asker, Cells, DataQuestion, Unsuitable
from rlvr.envs.agentic.databases.domains import DOMAINS, subject
from rlvr.envs.agentic.databases.rows import database, open_database
from rlvr.envs.agentic.databases.schema import SIZES, DatabaseKey, schema
from rlvr.envs.core.seeding import stream
from rlvr.envs.core.task import Transition
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import undressed
from rlvr.envs.rewards.extraction import extract
from rlvr.envs.rewards.graders.number import NotANumber, read_dressed, read_number
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool
from rlvr.envs.tools.sql import query, written

TOLERANCE: Final = Fraction(1, 100)
Template = Callable[[Asker], DataQuestion]
HELD_OUT_TEMPLATES: Final[dict[Template, str]] = {
    q.second: "validation", q.at_least: "validation", q.median: "validation", q.average_of_these: "validation",
    q.span: "test", q.highest_group: "test", q.busiest_month: "test", q.lost: "test", q.split_these: "test",
}  # fmt: skip
_DEEP: Final = (
    q.without,
    q.share,
    q.above_average,
    q.best_of_each,
    q.latest,
    q.difference,
    q.median,
    q.lost,
    q.busiest_month,
)
TEMPLATES: Final[tuple[tuple[Template, ...], ...]] = (
    (q.count, q.total, q.names, q.extreme, q.second, q.span),
    (q.count, q.average, q.by_category, q.top, q.at_least, q.highest_group),
    (q.by_category, q.top, q.without, q.share, q.at_least, q.highest_group, q.busiest_month),
    _DEEP,
    (*_DEEP, q.top, q.by_category),
)
FOLLOW_UPS: Final[tuple[Template, ...]] = (
    q.narrower, q.total_of_these, q.children_of_these, q.split_these, q.average_of_these,
)  # fmt: skip
_REACH: Final = ((1, 0), (1, 1), (2, 2), (2, 2), (2, 3))  # conditions of a view, and steps of a path, by level


@lru_cache(maxsize=256)
def questions(key: DatabaseKey) -> tuple[DataQuestion, ...]:
    """The questions of a task, in their order: each but the first is about the rows of the one before."""
    rng = random.Random(stream("rlvr/SQL-v0", "questions", *key).getrandbits(64))
    count = rng.randint(*SIZES[key.level - 1].questions)
    split = schema(key).split
    while True:
        try:
            asked: list[DataQuestion] = []
            for number in range(count):
                asked.append(_drawn(rng, key, split, FOLLOW_UPS if number else TEMPLATES[key.level - 1], asked))
            return tuple(asked)
        except Unsuitable:
            pass


def _drawn(
    rng: random.Random, key: DatabaseKey, split: str, pool: Sequence[Template], asked: list[DataQuestion]
) -> DataQuestion:
    """A question of a template that the split may have; in held-out splits every other one is of one held out."""
    held_out = [each for each in pool if HELD_OUT_TEMPLATES.get(each) == split]
    common = [each for each in pool if each not in HELD_OUT_TEMPLATES]
    plans = {each.plan.partition(":")[0] for each in asked}
    for _ in range(60):
        template = rng.choice(held_out if held_out and rng.random() < 0.5 else common)
        if template.__name__ in plans:
            continue
        try:
            drawn = template(Asker(rng, database(key), *_REACH[key.level - 1], asked[-1] if asked else None))
        except Unsuitable:
            continue
        drawn = drawn._replace(plan=f"{template.__name__}: {drawn.plan}")
        if drawn.focus is not None or len(asked) + 1 >= SIZES[key.level - 1].questions[1]:
            return drawn
    raise Unsuitable


class SqlWorld(NamedTuple):
    """The task, how many of its questions have been answered, and how many calls had been made by then."""

    key: DatabaseKey
    answered: int = 0
    calls: int = 0


def list_tables(world: SqlWorld) -> str:
    """The tables of the database, each with what it is about."""
    return "\n".join(f"{name}: {text}" for name, text in database(world.key).summaries.items())


def describe_table(world: SqlWorld, table: str) -> str:
    """The documentation of a table: its columns, what their values mean, and which rows count.

    Args:
        table: the name of a table.
    """
    documentation = database(world.key).documentation
    if table not in documentation:
        raise ToolError(f"there is no table {table[:64]!r}; list_tables shows those there are")
    return documentation[table]


def run_query(world: SqlWorld, sql: str) -> str:
    """Run a SELECT on the database; shows at most 20 rows.

    Args:
        sql: one SELECT of SQLite.
    """
    return written(query(open_database(world.key), sql))


class SQL(ToolTask[SqlWorld]):
    """Answer a person's questions about a documented database of 5 to 30 tables.

    Levels 1 to 5: 5 or 6 tables and one question on one of them; joins, units, deleted rows; dirty values and perhaps a
    second question; about 20 tables and two questions; up to 30 tables and three questions.

    Observation: whose database it is and a question; then what each call gave, or the next question.
    Actions: a call of ``list_tables``, ``describe_table`` or ``run_query``; any other reply is an answer.
    Reward: 1 if every question was answered rightly, else 0.
    Episode end: a wrong answer, one that cannot be read, the last answer, or the turns are used up.

    Args:
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.
    """

    levels = len(SIZES)
    task = (
        "You answer a person's questions about a database. What its values mean, and which rows count, stands in the "
        "documentation of each table: read it, then query. Give the answer in \\boxed{}. A number may be off by 0.01. "
        "Values of a category are given by their meaning, not their code. A list has a semicolon between its items. A "
        "table has a semicolon between its rows and a | between the cells of a row: \\boxed{north | 3; south | 12}. "
        "Rows may stand in any order unless one is asked for."
    )
    toolset: ClassVar[Sequence[Tool]] = tuple(tool(each, given=1) for each in (list_tables, describe_table, run_query))

    def begin(self, rng: random.Random, level: int) -> SqlWorld:
        """Draws a domain and a seed; everything else follows from these when it is needed."""
        return SqlWorld(DatabaseKey(level, rng.choice(DOMAINS), rng.getrandbits(48)))

    def budget(self, level: int) -> int:
        """Calls enough to read every table that matters and to look twice."""
        return SIZES[level - 1].calls

    def turns(self, level: int) -> int:
        """The calls, two that cannot be read, and the answers."""
        return super().turns(level) + SIZES[level - 1].questions[1] - 1

    def content(self, state: Session[SqlWorld]) -> str:
        """The schema graph: a split has graphs that no other has."""
        return schema(state.world.key).signature

    def difficulty(self, state: Session[SqlWorld]) -> float:
        """The tables that there are, times the queries and documents that the answers need."""
        key = state.world.key
        return float(
            len(database(key).documentation) * sum(len(each.queries) + len(each.tables) for each in questions(key))
        )

    def opened(self, world: SqlWorld, level: int) -> Session[SqlWorld]:
        """The question is drawn when it is shown: most draws are of another split."""
        return Session(world, "", 0, self._allowed(level))

    def observe(self, state: Session[SqlWorld]) -> str:
        """The question, a tool's output, or the next question."""
        return state.observation or self.ask(state.world)

    def ask(self, world: SqlWorld) -> str:
        """Whose database it is, and the first question."""
        first, *more = questions(world.key)
        count = ("", " One more question follows.", " Two more questions follow.")[len(more)]
        return f"This is the database of {subject(world.key.domain)}.\nQuestion: {first.words}{form_of(first)}{count}"

    def reply(self, state: Session[SqlWorld], action: str) -> Transition:
        """Judges an answer; after a right one the person asks on, if there is more to ask."""
        verdict = self.judge(state.world, action)
        answered = state.world.answered + (verdict.status == "correct")
        asked = questions(state.world.key)
        if verdict.status != "correct" or answered == len(asked):
            return Transition(state, verdict, terminated=True)
        text = f"Question: {asked[answered].words}{form_of(asked[answered])}"
        world = state.world._replace(answered=answered, calls=state.calls)
        verdict = Verdict(0.0, "partial", reason=f"{answered} of {len(asked)} questions answered rightly")
        return Transition(state._replace(world=world, observation=text), verdict)

    def judge(self, world: SqlWorld, reply: str) -> Verdict:
        """Compares the boxed answer with the one that the clean rows give."""
        extraction = extract(reply)
        if extraction.answer is None:
            return unparsable(extraction.reason)
        return graded(questions(world.key)[world.answered], extraction.answer)

    def plan(self, session: Session[SqlWorld]) -> Call | str:
        """Lists the tables, reads what it has not read of those that it needs, queries, and answers."""
        world = session.world
        asked = questions(world.key)[world.answered]
        before = {table for each in questions(world.key)[: world.answered] for table in each.tables}
        calls = [] if world.answered else [Call("list_tables", {})]
        calls += [Call("describe_table", {"table": table}) for table in asked.tables if table not in before]
        calls += [Call("run_query", {"sql": sql}) for sql in asked.queries]
        step = session.calls - world.calls
        if step < len(calls) and session.calls < session.budget:
            return calls[step]
        return boxed(asked.answer)

    def direct_answer(self, state: Session[SqlWorld]) -> str:
        """The answer to the question that is open, without a look at the database."""
        return boxed(questions(state.world.key)[state.world.answered].answer)


def form_of(question: DataQuestion) -> str:
    """What the person says of the form of the answer."""
    if question.form == "table":
        return f" Answer with a table of {len(question.columns)} columns: {', '.join(question.columns)}."
    return {"number": " Answer with a number.", "list": " Answer with a list.", "text": ""}[question.form]


def boxed(answer: Cells) -> str:
    """An answer as it is to be given."""
    return f"\\boxed{{{'; '.join(' | '.join(map(_cell, row)) for row in answer)}}}"


def _cell(value: str | Fraction) -> str:
    if isinstance(value, str):
        return value
    return str(value) if value.denominator == 1 else f"{float(value):.2f}"


def graded(question: DataQuestion, text: str) -> Verdict:
    """The verdict on an answer: exact but for the order of rows and columns, capitals and 0.01 of numbers."""
    width = len(question.answer[0])
    rows = [tuple(cell.strip() for cell in row.split("|")) for row in text.replace("\n", ";").split(";") if row.strip()]
    if not rows or any(len(row) != width for row in rows):
        return unparsable(f"the answer is no {question.form} of {width} in a row", text[:200])
    if question.form == "number" and len(rows) == 1 and _number(rows[0][0]) is None:
        return unparsable("the answer is no number", text[:200])
    if len(rows) == len(question.answer):
        for order in permutations(range(width)):
            if _agree([tuple(row[index] for index in order) for row in rows], question):
                return correct(text[:200])
    return wrong(text[:200], "not the answer that the data give")


def _agree(rows: list[tuple[str, ...]], question: DataQuestion) -> bool:
    """Whether each row is equal to one of the answer, in its order where that counts."""
    if question.ordered:
        return all(map(_same, rows, question.answer))
    left = list(question.answer)
    for row in rows:
        match = next((each for each in left if _same(row, each)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same(row: tuple[str, ...], answer: tuple[str | Fraction, ...]) -> bool:
    for cell, value in zip(row, answer, strict=True):
        if isinstance(value, str):
            if " ".join(undressed(cell).casefold().split()) != value.casefold():
                return False
        elif (number := _number(cell)) is None or abs(number - value) > TOLERANCE:
            return False
    return True


@lru_cache(maxsize=1024)
def _number(text: str) -> Fraction | None:
    try:
        return read_dressed(text, read_number).value
    except NotANumber:
        return None
