"""What questions are made of: entities, conditions, views and their words, drawn from one database."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeVar

from rlvr.envs.agentic.databases.domains import DataAttribute, DataEntity
from rlvr.envs.agentic.databases.rows import Database, Row
from rlvr.envs.agentic.databases.views import RowCondition, Select, View, shown_number

T = TypeVar("T")
Cells = tuple[tuple[Any, ...], ...]  # rows of texts and Fractions
MAX_ROWS: Final = 12  # of an answer
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


class DataQuestion(NamedTuple):
    """A question with its answer.

    Attributes:
        form: ``number``, ``text``, ``list`` or ``table``.
        columns: of a table, in words.
        ordered: whether the order of rows counts.
        queries: what a careful person runs, one after the other; the last shows the answer.
        tables: whose documentation they read before.
        focus: the rows that a further question may be about.
        called: how it calls them, if not "these", or "that" for a single one.
        plan: what distinguishes the question from others, without values.
    """

    words: str
    form: str
    answer: Cells
    queries: tuple[str, ...]
    tables: tuple[str, ...]
    plan: str
    columns: tuple[str, ...] = ()
    ordered: bool = False
    focus: View | None = None
    called: str = ""


class Unsuitable(Exception):
    """The drawn question has no answer, several, or too long a one; another is drawn."""


class Asker:
    """Draws what questions are made of, from one database.

    Args:
        conditions: how many conditions of its own a view has, at the most.
        depth: how long the paths of conditions are, at the most.
        asked: the question before, if this is to be one about its rows.
    """

    def __init__(
        self, rng: random.Random, database: Database, conditions: int, depth: int, asked: DataQuestion | None = None
    ) -> None:
        self.rng, self.database = rng, database
        self.conditions, self.depth, self.asked = conditions, depth, asked
        self.plan: list[str] = []
        self.selects: list[Select] = []

    # entities and attributes

    def entity(self, suits: Callable[[DataEntity], object] = lambda entity: True) -> DataEntity:
        """One of those that questions are about.

        Raises:
            Unsuitable: none suits.
        """
        own = [self.database.schema.entities[name] for name in self.database.schema.own]
        return self.pick([each for each in own if suits(each)])

    def pick(self, options: Iterable[T]) -> T:
        """One of the options.

        Raises:
            Unsuitable: there are none.
        """
        if not (listed := list(options)):
            raise Unsuitable
        return self.rng.choice(listed)

    def measured(self, entity: DataEntity) -> DataAttribute:
        """A number that can be added up."""
        return self.pick(entity.of_kind("num", "money"))

    def family(
        self, suits: Callable[[DataEntity, DataEntity], object] = lambda child, parent: True
    ) -> tuple[DataEntity, DataEntity]:
        """An entity that refers to another, which has names; the child first."""
        entities = self.database.schema.entities
        pairs = [
            (entities[name], entities[ref])
            for name in self.database.schema.own
            for ref in entities[name].refs
            if entities[ref].names and suits(entities[name], entities[ref])
        ]
        return self.pick(pairs)

    # conditions

    def condition(
        self, entity: DataEntity, but: Sequence[str] = (), plain: bool = False, path: tuple[str, ...] = ()
    ) -> RowCondition:
        """A condition on an attribute that is none of ``but``; in a phrase, not a clause, if ``plain``."""
        kinds = ("cat", "town", "date", "flag", "num", "money")
        attribute = self.pick(each for each in entity.of_kind(*kinds) if each.noun not in but)
        row = self.rng.choice(self.database.rows[entity.singular])
        drawn = self._about(attribute, row[attribute.noun])._replace(path=path)
        if plain and drawn.is_relative:
            raise Unsuitable
        return drawn

    def _about(self, attribute: DataAttribute, value: Any) -> RowCondition:
        noun, kind = attribute.noun, attribute.kind
        if value is None:
            raise Unsuitable
        if kind in ("cat", "town"):
            return RowCondition((), noun, "is", value, attribute.words[0].format(value))
        if kind == "flag":
            return RowCondition((), noun, "is", value, attribute.words[not value])
        if kind == "date":
            return self.period(attribute, int(value[:4]), int(value[5:7]))
        return self._threshold(attribute, value)

    def period(self, attribute: DataAttribute, year: int, month: int) -> RowCondition:
        """That a day is in a year, a quarter or a month; before a year where days are decades apart."""
        if year < 2021:
            days, words = ("1900-01-01", f"{year - 1}-12-31"), f"before {year}"
        elif (span := self.rng.choice(("year", "year", "quarter", "month"))) == "year":
            return self.year(attribute, year)
        elif span == "quarter":
            quarter = (month + 2) // 3
            days = (f"{year}-{3 * quarter - 2:02}-01", f"{year}-{3 * quarter:02}-31")
            words = f"in the {('first', 'second', 'third', 'fourth')[quarter - 1]} quarter of {year}"
        else:
            days, words = (f"{year}-{month:02}-01", f"{year}-{month:02}-31"), f"in {MONTHS[month - 1]} {year}"
        return RowCondition((), attribute.noun, "within", days, f"{attribute.words[0]} {words}")

    def year(self, attribute: DataAttribute, year: int) -> RowCondition:
        """That a day is in a year."""
        days = (f"{year}-01-01", f"{year}-12-31")
        return RowCondition((), attribute.noun, "within", days, f"{attribute.words[0]} in {year}")

    def _threshold(self, attribute: DataAttribute, value: int) -> RowCondition:
        step = max(10 ** (len(str(value)) - 2), 100 if attribute.kind == "money" else 1)
        value = value // step * step
        low, high = (bound * (100 if attribute.kind == "money" else 1) for bound in (attribute.low, attribute.high))
        if not low + (high - low) // 8 <= value <= high - (high - low) // 8:
            raise Unsuitable
        op, words = self.rng.choice((("above", "more"), ("below", "less")))
        bound = f"{shown_number(attribute, value)}{unit_after(attribute)}"
        return RowCondition((), attribute.noun, op, value, f"whose {attribute.noun} is {words} than {bound}")

    def view(
        self, entity: DataEntity, least: int = 2, most: int = 1_000, but: Sequence[str] = (), bare: float = 0.0,
        apart: str = "",
    ) -> View:  # fmt: skip
        """Some rows of an entity, neither all nor too few; all of them in a share ``bare`` of draws.

        Args:
            but: attributes of its own that no condition may be about.
            apart: an entity that no path may lead to.

        Raises:
            Unsuitable: the conditions that were drawn leave too few rows, too many, or all.
        """
        conditions: list[RowCondition] = []
        path = self.path(entity) if self.depth and self.rng.random() < 0.5 else ()
        if apart and apart in path:
            raise Unsuitable
        if self.rng.random() >= bare:
            for _ in range(self.rng.randint(0 if path else 1, self.conditions)):
                used = [*but, *(each.noun for each in conditions)]
                conditions.append(self.condition(entity, used, plain=bool(path)))
            if path:
                conditions.append(self.condition(self.database.schema.entities[path[-1]], path=path))
        view = View(entity.singular, tuple(conditions))
        count, everything = len(view.indices(self.database)), len(self.database.rows[entity.singular])
        if not least <= count <= most or (conditions and count == everything):
            raise Unsuitable
        self.note(view)
        return view

    def path(self, entity: DataEntity) -> tuple[str, ...]:
        """Entities to go to, one after the other."""
        path: list[str] = []
        while entity.refs and len(path) < self.depth and (not path or self.rng.random() < 0.5):
            path.append(self.rng.choice(list(entity.refs)))
            entity = self.database.schema.entities[path[-1]]
        return tuple(path)

    def note(self, view: View) -> None:
        """Keeps what kind of view was drawn."""
        kinds = [f"{'/'.join(each.path)}.{each.noun or 'name'} {each.op}" for each in view.conditions]
        self.plan.append(f"{view.entity}[{', '.join(sorted(kinds))}]")

    # answers

    def select(self, view: View, letters: str = "abcdefghijkl") -> Select:
        """A SELECT over a view, which a careful person runs."""
        self.selects.append(Select(self.database, view, letters))
        return self.selects[-1]

    def answer(
        self, words: str, answer: Fraction | str | Sequence[Any], *queries: str, focus: View | None = None,
        called: str = "", columns: tuple[str, ...] = (), ordered: bool = False,
    ) -> DataQuestion:  # fmt: skip
        """The question: an answer is a number, a text, a list of texts or, with ``columns``, rows of these.

        Raises:
            Unsuitable: it is empty or too long.
        """
        rows: Sequence[Any] = [answer] if isinstance(answer, Fraction | str) else answer
        form = "number" if isinstance(answer, Fraction) else "text" if isinstance(answer, str) else "list"
        cells = tuple(each if isinstance(each, tuple) else (each,) for each in rows)
        if not 1 <= len(cells) <= MAX_ROWS:
            raise Unsuitable
        looks = dict.fromkeys(look for select in self.selects for look in select.looks)
        tables = tuple(dict.fromkeys(table for select in self.selects for table in select.tables))
        form, plan = "table" if columns else form, "; ".join((*self.plan, *columns))
        return DataQuestion(words, form, cells, (*looks, *queries), tables, plan, columns, ordered, focus, called)

    def named(self, parent: str, names: Iterable[str]) -> View:
        """The rows of these names."""
        return View(parent, (RowCondition((), "", "named", tuple(names), ""),))

    def words(self, view: View) -> str:
        """A view in words: "loans made in 2023"."""
        return view.words(self.database)

    def rows(self, view: View) -> list[Row]:
        """The clean rows of a view."""
        return view.rows(self.database)


def unit_after(attribute: DataAttribute) -> str:
    """The unit behind a number, where the noun does not say it."""
    return f" {attribute.unit}" if attribute.unit and attribute.unit not in attribute.noun else ""


def in_unit(attribute: DataAttribute) -> str:
    """What a question for a number says of the unit."""
    return f", in {attribute.unit}" if unit_after(attribute) else ""


def numbers(rows: Iterable[Row], attribute: DataAttribute) -> list[int]:
    """The values that are known."""
    return [row[attribute.noun] for row in rows if row[attribute.noun] is not None]


def unique(ranked: Sequence[tuple[Any, Any]], count: int = 1) -> None:
    """Raise Unsuitable unless the first of (value, what) are told apart from each other and the next."""
    values = [value for value, _ in ranked[: count + 1]]
    if len(ranked) < count + 1 or len(set(values)) < len(values):
        raise Unsuitable
