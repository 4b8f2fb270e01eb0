"""SQL: a question about a made-up database, to be answered with a query. Look around with a tool, then hand it in.

The query is run on five hidden databases of the same schema and must give the right rows on each, so rows that were
read off the one that can be looked at are worth nothing. Reward 1, or 0.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, NamedTuple

from rlvr.envs.agentic import made_up_names
from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import extract, visible_text
from rlvr.envs.tasks.wording import with_article
from rlvr.envs.tools import Call, Session, Tool, ToolError, ToolTask, tool
from rlvr.envs.tools.sql import Table, guard, query, written
from rlvr.envs.tools.tool import MAX_OUTPUT

HIDDEN = 5
HOLDOUTS = ("families", "tasks")  # what is not in two splits: a question whatever its numbers, or with them
YEARS = (2015, 2024)
_NO_SQL = re.compile(r"syntax error|unrecognized token|incomplete input")  # what SQLite says of text that is no SQL


class QueryPart(NamedTuple):
    """A table: its name, what one row is, a column of kinds with their values, and one of numbers with its range."""

    table: str
    row: str
    kind: str
    kinds: tuple[str, ...]
    number: str
    low: int
    high: int


# Each domain: owners, what they have, and what happens to that; each row of a table belongs to one of the table before.
DOMAINS = (
    (
        QueryPart("authors", "author", "country", ("Chile", "Ghana", "Japan", "Peru"), "birth_year", 1900, 1990),
        QueryPart("books", "book", "genre", ("crime", "drama", "essay", "poetry", "travel"), "pages", 80, 900),
        QueryPart("loans", "loan", "branch", ("east", "north", "south", "west"), "days", 1, 60),
    ),
    (
        QueryPart("farms", "farm", "region", ("coast", "hills", "lakes", "plain"), "hectares", 5, 400),
        QueryPart("fields", "field", "crop", ("barley", "beans", "maize", "oats", "wheat"), "area", 1, 60),
        QueryPart("harvests", "harvest", "quality", ("fair", "good", "poor"), "tonnes", 1, 90),
    ),
    (
        QueryPart("airlines", "airline", "country", ("Brazil", "India", "Italy", "Spain"), "founding_year", 1920, 2010),
        QueryPart("planes", "plane", "model", ("A10", "B20", "C30", "D40"), "seats", 20, 400),
        QueryPart("flights", "flight", "airport", ("Arlo", "Besk", "Corum", "Delta"), "delay", 0, 180),
    ),
    (
        QueryPart("studios", "studio", "city", ("Accra", "Lima", "Oslo", "Porto", "Turin"), "staff", 5, 600),
        QueryPart("films", "film", "genre", ("comedy", "crime", "drama", "horror"), "minutes", 60, 210),
        QueryPart("showings", "showing", "cinema", ("Astor", "Capitol", "Lux", "Rex"), "tickets", 0, 500),
    ),
    (
        QueryPart("clinics", "clinic", "district", ("centre", "harbour", "hill", "park"), "beds", 10, 300),
        QueryPart("doctors", "doctor", "specialty", ("eyes", "heart", "lungs", "skin"), "age", 27, 70),
        QueryPart("visits", "visit", "reason", ("check", "illness", "injury"), "minutes", 5, 90),
    ),
    (
        QueryPart("shops", "shop", "town", ("Bern", "Cork", "Gdansk", "Nice", "Tartu"), "floor", 30, 900),
        QueryPart("products", "product", "kind", ("books", "food", "garden", "tools", "toys"), "price", 1, 300),
        QueryPart("orders", "order", "channel", ("phone", "shop", "web"), "quantity", 1, 40),
    ),
)


class SqlState(NamedTuple):
    """The databases are made from ``seed`` and ``domain``; ``gold`` is a query that answers the question."""

    seed: int
    domain: int
    question: str
    gold: str
    ordered: bool = False


Draft = tuple[str, str]  # the question and the query
Maker = Callable[[random.Random, tuple[QueryPart, ...]], Draft]


def run_query(task: SqlState, sql: str) -> str:
    """Run a SELECT on the database that you can see; shows at most 20 rows.

    Args:
        sql: one SELECT of SQLite.
    """
    return written(query(open_database(task.seed, task.domain, 0), sql))


class SQL(ToolTask[SqlState]):
    """Answer a question about a database with one SELECT, which is also run on hidden databases.

    Levels 1 to 5: filters; order and groups; joins; subqueries and what is missing; best of each group, all of a kind.

    About 400 tasks per CPU-second: two databases are made for each, to see that the right rows differ.

    Observation: the tables with their columns and the question; then what each call gave.
    Actions: a call of ``run_query``, or the query alone in a fence marked sql, which is final.
    Reward: 1 if the query gives the right rows on each of five hidden databases, else 0.
    Episode end: any reply without a call, or the turns are used up; six calls are allowed.

    Args:
        holdout: what is in one split alone. With ``"families"`` a question whatever its numbers: no question of the
            test split is one of the train split with other numbers. With ``"tasks"`` a question with its numbers.
        tool_style, tools_in, max_calls, max_output: see ``ToolTask``.

    Raises:
        ValueError: another ``holdout``.
    """

    levels = 5
    holdout = "families"
    task = (
        "Answer the question with one SELECT of SQLite. You can look at a database with the tool; your query must give "
        "the right rows on other databases of the same schema too, so do not copy values from it. Give exactly the "
        "columns asked for, in that order. When you are done, put the query alone in a fence marked sql."
    )
    toolset: ClassVar[Sequence[Tool]] = (tool(run_query, given=1),)

    def __init__(
        self,
        *,
        holdout: str = "families",
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        if holdout not in HOLDOUTS:
            raise ValueError(f"holdout is one of {', '.join(HOLDOUTS)}, got {holdout!r}")
        self.holdout = holdout

    def begin(self, rng: random.Random, level: int) -> SqlState:
        """Draws questions until the right rows are not empty and differ between two databases."""
        while True:
            if _tells_apart(task := _draft(rng, level)):
                return task

    def budget(self, level: int) -> int:
        """Six queries on the visible database."""
        return 6

    def difficulty(self, state: Session[SqlState]) -> float:
        """How many keywords the reference query has."""
        return float(len(re.findall(r"\b[A-Z]{2,}\b", state.world.gold)))

    def content(self, state: Session[SqlState]) -> str:
        """The question, with ``holdout="families"`` whatever its numbers; the databases behind it do not count."""
        return _family(state.world.question) if self.holdout == "families" else state.world.question

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        """Every question of the level without its numbers; None where single questions are divided."""
        return _families(level) if self.holdout == "families" else None

    def ask(self, world: SqlState) -> str:
        """The tables with their columns, then the question; no row is shown."""
        lines = []
        before = ""
        for part in DOMAINS[world.domain]:
            lines.append(f"  {part.table}({', '.join(_columns(part, before))})")
            before = part.row
        return "Tables:\n" + "\n".join(lines) + f"\nQuestion: {world.question}"

    def judge(self, world: SqlState, reply: str) -> Verdict:
        """Runs the query on five hidden databases; rows must agree on each, in order where the question says so."""
        sql = handed_in(reply)
        if sql is None:
            return unparsable("no query: put it in a fence marked sql")
        for index in range(1, HIDDEN + 1):
            database = open_database(world.seed, world.domain, index)
            try:
                table = query(database, sql)
            except ToolError as error:
                reason = str(error)[:300]
                return unparsable(reason, sql[:200]) if _NO_SQL.search(reason) else wrong(sql[:200], reason)
            if not _same(table, query(database, world.gold, trusted=True), world.ordered):
                return wrong(sql[:200], f"other rows than asked for on hidden database {index} of {HIDDEN}")
        return correct(sql[:200])

    def plan(self, session: Session[SqlState]) -> Call | str:
        """A look at each table, then the query."""
        tables = [part.table for part in DOMAINS[session.world.domain]]
        if session.calls < min(len(tables), session.budget):
            return Call("run_query", {"sql": f"SELECT * FROM {tables[session.calls]} LIMIT 3"})
        return f"```sql\n{session.world.gold}\n```"

    def direct_answer(self, state: Session[SqlState]) -> str:
        """The reference query in its fence, without a look at the tables."""
        return f"```sql\n{state.world.gold}\n```"


def handed_in(reply: str) -> str | None:
    """The query in the last fence marked sql, else the final answer of the reply."""
    text = visible_text(reply)
    start = text.rfind("```sql")
    if start >= 0:
        inside = text[start + len("```sql") :]
        end = inside.find("```")
        return inside[:end].strip() or None if end >= 0 else None
    return extract(text, max_chars=10_000).answer


# databases


def _columns(part: QueryPart, before: str) -> list[str]:
    links = [f"{before}_id"] if before else []
    label = ["name"] if part.row not in ("loan", "harvest", "flight", "showing", "visit", "order") else ["year"]
    return ["id", *links, *label, part.kind, part.number]


@lru_cache(maxsize=256)
def _bytes(seed: int, domain: int, index: int) -> bytes:
    rng = random.Random(seed * 64 + index)
    connection = sqlite3.connect(":memory:")
    taken: set[str] = set()
    count, before = 0, ""
    for depth, part in enumerate(DOMAINS[domain]):
        columns = _columns(part, before)
        connection.execute(f"CREATE TABLE {part.table} ({', '.join(columns)})")
        rows: list[tuple[Any, ...]] = []
        size = (rng.randint(6, 10), rng.randint(18, 30), rng.randint(60, 110))[depth]
        titles = made_up_names.distinct(_title, rng, size, taken)
        for number in range(1, size + 1):
            row: list[Any] = [number]
            if before:
                row.append(rng.randint(1, count))
            row.append(titles[number - 1] if "name" in columns else rng.randint(*YEARS))
            row += [rng.choice(part.kinds), rng.randint(part.low, part.high)]
            rows.append(tuple(row))
        connection.executemany(f"INSERT INTO {part.table} VALUES ({', '.join('?' * len(columns))})", rows)
        count, before = size, part.row
    connection.commit()
    return connection.serialize()


def _title(rng: random.Random) -> str:
    return f"{made_up_names.surname(rng)} {made_up_names.town(rng)}"


def open_database(seed: int, domain: int, index: int) -> sqlite3.Connection:
    """One database of a task: 0 is the one that can be looked at, 1 to 5 are hidden."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(_bytes(seed, domain, index))
    return guard(connection)


def _same(first: Table, second: Table, ordered: bool) -> bool:
    """Equal rows; numbers to nine digits, since a sum depends on its order."""
    if len(first.columns) != len(second.columns) or len(first.rows) != len(second.rows):
        return False
    left, right = ([tuple(map(_plain, row)) for row in table.rows] for table in (first, second))
    return left == right if ordered else sorted(left, key=repr) == sorted(right, key=repr)


def _plain(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, int | float) else value


def _tells_apart(task: SqlState) -> bool:
    """Whether the right rows are there, and differ from one database to the next: no fixed rows are right on all."""
    first, second = (
        query(open_database(task.seed, task.domain, index), task.gold, trusted=True).rows for index in (0, 1)
    )
    return bool(first) and bool(second) and sorted(first, key=repr) != sorted(second, key=repr)


# questions: each maker writes one in words and in SQL


def _draft(rng: random.Random, level: int) -> SqlState:
    """A question, on databases whose right rows may be empty or always the same."""
    domain = rng.randrange(len(DOMAINS))
    question, gold = rng.choice(MAKERS[level - 1])(rng, DOMAINS[domain])
    return SqlState(rng.getrandbits(48), domain, question, gold, " ORDER BY " in gold)


def _some(rng: random.Random, part: QueryPart) -> tuple[str, int]:
    """A kind, and a number that leaves some above and some below."""
    quarter = (part.high - part.low) // 4
    return rng.choice(part.kinds), rng.randint(part.low + quarter, part.high - quarter)


def _limited(rng: random.Random, part: QueryPart, event: QueryPart) -> tuple[str, str]:
    """Some of a table's rows, as what stands behind FROM, and the sentence that says which."""
    if part is event:
        first = rng.randint(YEARS[0], YEARS[1] - 4)
        last = rng.randint(first + 3, YEARS[1])
        least = rng.randint(part.low, part.low + (part.high - part.low) // 4)
        sentence = (
            f" Consider only {part.table} of the years {first} to {last} with a value of {part.number} of at "
            f"least {least}."
        )
        condition = f"year BETWEEN {first} AND {last} AND {part.number} >= {least}"
        return f"(SELECT * FROM {part.table} WHERE {condition})", sentence
    fifth = (part.high - part.low) // 5
    low, high = rng.randint(part.low, part.low + fifth), rng.randint(part.high - fifth, part.high)
    sentence = f" Consider only {part.table} with a value of {part.number} from {low} to {high}."
    return f"(SELECT * FROM {part.table} WHERE {part.number} BETWEEN {low} AND {high})", sentence


def _filter(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = rng.choice(parts[:2])
    kind, number = _some(rng, part)
    word, sign = rng.choice((("above", ">"), ("below", "<")))
    return (
        f"Which {part.table} have the {part.kind} '{kind}' and a value of {part.number} {word} {number}? Give their "
        "names.",
        f"SELECT name FROM {part.table} WHERE {part.kind} = '{kind}' AND {part.number} {sign} {number}",
    )


def _count(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = parts[2]
    kind, number = _some(rng, part)
    rows, only = _limited(rng, part, part)
    return (
        f"How many {part.table} have {with_article(part.kind)} other than '{kind}' and a value of {part.number} of at "
        f"least {number}?{only}",
        f"SELECT count(*) FROM {rows} WHERE {part.kind} <> '{kind}' AND {part.number} >= {number}",
    )


def _top(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = rng.choice(parts[:2])
    rows, only = _limited(rng, part, parts[2])
    count = rng.randint(2, 4)
    return (
        f"Which {count} {part.table} have the highest values of {part.number}? Give name and {part.number}, the "
        f"highest first; among equal values the smaller id comes first.{only}",
        f"SELECT name, {part.number} FROM {rows} ORDER BY {part.number} DESC, id LIMIT {count}",
    )


def _groups(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = rng.choice(parts[1:])
    rows, only = _limited(rng, part, parts[2])
    least = rng.randint(2, 5) if part is parts[1] else rng.randint(8, 16)
    return (
        f"For each {part.kind} that at least {least} {part.table} have, give the {part.kind}, the number of these "
        f"{part.table}, and the average of their {part.number}.{only}",
        f"SELECT {part.kind}, count(*), avg({part.number}) FROM {rows} GROUP BY {part.kind} HAVING count(*) >= {least}",
    )


def _years(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = parts[2]
    kind, number = _some(rng, part)
    rows, only = _limited(rng, part, part)
    return (
        f"Take the {part.table} with the {part.kind} '{kind}' or a value of {part.number} above {number}. For each "
        f"year that has any, give the year and the sum and the maximum of their {part.number}, the latest year "
        f"first.{only}",
        f"SELECT year, sum({part.number}), max({part.number}) FROM {rows} WHERE {part.kind} = '{kind}' "
        f"OR {part.number} > {number} GROUP BY year ORDER BY year DESC",
    )


def _owners(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    owner, item, _ = parts
    kind, number = _some(rng, item)
    return (
        f"Which {owner.table} have a {item.row} with the {item.kind} '{kind}' and a value of {item.number} above "
        f"{number}? Give each name once.",
        f"SELECT DISTINCT o.name FROM {owner.table} o JOIN {item.table} i ON i.{owner.row}_id = o.id "
        f"WHERE i.{item.kind} = '{kind}' AND i.{item.number} > {number}",
    )


def _totals(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    owner, item, event = parts
    rows, only = _limited(rng, event, event)
    kind, _ = _some(rng, event)
    return (
        f"For each {owner.row} whose {item.table} have {event.table} with {with_article(event.kind)} other than "
        f"'{kind}', give the name of the {owner.row} and the sum of {event.number} over these {event.table}.{only}",
        f"SELECT o.name, sum(e.{event.number}) FROM {owner.table} o JOIN {item.table} i ON i.{owner.row}_id = o.id "
        f"JOIN {rows} e ON e.{item.row}_id = i.id WHERE e.{event.kind} <> '{kind}' GROUP BY o.id",
    )


def _counted_with_none(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    owner, item, event = parts
    kind, _ = _some(rng, item)
    rows, only = _limited(rng, item, event)
    return (
        f"For each {owner.row}, give the name and how many of its {item.table} have the {item.kind} '{kind}', or 0 if "
        f"none has it.{only}",
        f"SELECT o.name, count(i.id) FROM {owner.table} o LEFT JOIN {rows} i ON i.{owner.row}_id = o.id "
        f"AND i.{item.kind} = '{kind}' GROUP BY o.id",
    )


def _above_own_average(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = rng.choice(parts[:2])
    rows, only = _limited(rng, part, parts[2])
    return (
        f"Which {part.table} have a value of {part.number} above the average of all {part.table} with the same "
        f"{part.kind}? Give name and {part.kind}.{only}",
        f"SELECT name, {part.kind} FROM {rows} a WHERE {part.number} > "
        f"(SELECT avg({part.number}) FROM {rows} b WHERE b.{part.kind} = a.{part.kind})",
    )


def _without(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    _, item, event = parts
    kind, number = _some(rng, event)
    return (
        f"Which {item.table} have no {event.row} with the {event.kind} '{kind}' and a value of {event.number} above "
        f"{number}? Give their names.",
        f"SELECT name FROM {item.table} i WHERE NOT EXISTS (SELECT 1 FROM {event.table} e WHERE e.{item.row}_id = i.id "
        f"AND e.{event.kind} = '{kind}' AND e.{event.number} > {number})",
    )


def _second(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    part = rng.choice(parts[:2])
    rows, only = _limited(rng, part, parts[2])
    return (
        f"For each {part.kind} whose {part.table} have at least two different values of {part.number}, give the "
        f"{part.kind} and the second highest of these values.{only}",
        f"SELECT {part.kind}, max({part.number}) FROM {rows} a WHERE {part.number} < (SELECT max({part.number}) "
        f"FROM {rows} b WHERE b.{part.kind} = a.{part.kind}) GROUP BY {part.kind}",
    )


def _best_of_each(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    owner, item, event = parts
    rows, only = _limited(rng, event, event)
    return (
        f"For each {owner.row} that has {item.table} with {event.table}: which of its {item.table} has the "
        f"largest sum of {event.number}? Give the names of both and the sum; if several have it, give them all.{only}",
        f"WITH s AS (SELECT i.name, i.{owner.row}_id AS owner, sum(e.{event.number}) AS total FROM {item.table} i "
        f"JOIN {rows} e ON e.{item.row}_id = i.id GROUP BY i.id) SELECT o.name, s.name, s.total FROM s "
        f"JOIN {owner.table} o ON o.id = s.owner WHERE s.total = (SELECT max(total) FROM s t WHERE t.owner = s.owner)",
    )


def _every_kind(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    _, item, event = parts
    rows, only = _limited(rng, event, event)
    return (
        f"Which {item.table} have {event.table} with every {event.kind} that occurs? Give their names.{only}",
        f"SELECT i.name FROM {item.table} i JOIN {rows} e ON e.{item.row}_id = i.id GROUP BY i.id "
        f"HAVING count(DISTINCT e.{event.kind}) = (SELECT count(DISTINCT {event.kind}) FROM {rows})",
    )


def _share(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    owner, item, event = parts
    rows, only = _limited(rng, event, event)
    return (
        f"For each {owner.kind} whose {owner.table} have {item.table} with {event.table}, give the {owner.kind} and "
        f"its share, in percent, of the sum of {event.number} over all {event.table}, rounded to one decimal.{only}",
        f"SELECT o.{owner.kind}, round(100.0 * sum(e.{event.number}) / (SELECT sum({event.number}) FROM {rows}), 1) "
        f"FROM {owner.table} o JOIN {item.table} i ON i.{owner.row}_id = o.id JOIN {rows} e ON e.{item.row}_id = i.id "
        f"GROUP BY o.{owner.kind}",
    )


def _latest(rng: random.Random, parts: tuple[QueryPart, ...]) -> Draft:
    _, item, event = parts
    rows, only = _limited(rng, event, event)
    return (
        f"For each {item.row} that has {event.table}, give its name, the latest year of its {event.table}, and "
        f"how many {event.table} it has in that year.{only}",
        f"SELECT i.name, e.year, count(*) FROM {item.table} i JOIN {rows} e ON e.{item.row}_id = i.id WHERE e.year = "
        f"(SELECT max(year) FROM {rows} x WHERE x.{item.row}_id = i.id) GROUP BY i.id, e.year",
    )


MAKERS: Sequence[Sequence[Maker]] = (
    (_filter, _count),
    (_top, _groups),
    (_years, _owners, _totals, _counted_with_none),
    (_above_own_average, _without, _second),
    (_best_of_each, _every_kind, _share, _latest),
)


# families of questions: those that differ in their numbers alone


def _family(question: str) -> str:
    return re.sub(r"\b\d+\b", "N", question)


class _EveryChoice:
    """Stands in for a ``random.Random``: its runs make every choice there is, one after another; numbers are low."""

    def __init__(self) -> None:
        self._path: list[tuple[int, int]] = []  # which option was chosen, of how many
        self._depth = 0

    def runs(self) -> Iterator[_EveryChoice]:
        while True:
            self._depth = 0
            yield self
            while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return
            chosen, count = self._path[-1]
            self._path[-1] = (chosen + 1, count)

    def choice(self, options: Sequence[Any]) -> Any:
        if self._depth == len(self._path):
            self._path.append((0, len(options)))
        self._depth += 1
        return options[self._path[self._depth - 1][0]]

    def randint(self, low: int, high: int) -> int:
        return low


@cache
def _families(level: int) -> tuple[str, ...]:
    """Every family of questions of a level, once."""
    drafts = (
        maker(run, parts)[0]  # type: ignore[arg-type]
        for maker in MAKERS[level - 1]
        for parts in DOMAINS
        for run in _EveryChoice().runs()
    )
    return tuple(dict.fromkeys(map(_family, drafts)))
