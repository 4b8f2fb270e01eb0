"""Views: some rows of a table, by conditions; in words, of the clean rows, and as a SELECT of what is stored."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from rlvr.envs.agentic.databases.domains import DataAttribute
from rlvr.envs.agentic.databases.rows import Database, Row
from rlvr.envs.agentic.databases.storage import Column, Lookup, quoted

_RELATIVE = ("that ", "who ", "whose ")


class RowCondition(NamedTuple):
    """What must hold of a row, or of the row that it leads to.

    Attributes:
        path: the entities that are gone to, one after the other.
        noun: the attribute; empty for the name.
        op: ``is``, ``above``, ``below``, ``within`` (two days) or ``named`` (some names).
        words: what follows the plural of the path's last entity.
    """

    path: tuple[str, ...]
    noun: str
    op: str
    value: Any
    words: str

    @property
    def is_relative(self) -> bool:
        """Whether the words are a clause, behind which nothing else may stand."""
        return self.words.startswith(_RELATIVE)


class View(NamedTuple):
    """The rows of an entity for which all conditions hold."""

    entity: str
    conditions: tuple[RowCondition, ...] = ()

    def words(self, database: Database) -> str:
        """The plural, and what restricts it: "loans made in 2023 of books of the genre crime"."""
        entity = database.schema.entities[self.entity]
        near = sorted((each for each in self.conditions if not each.path), key=lambda each: each.is_relative)
        text = entity.plural
        for index, each in enumerate(near):
            joint = " and " if each.is_relative and index and near[index - 1].is_relative else " "
            text += f"{joint}{each.words}"
        for each in self.conditions:
            step = entity
            for name in each.path:
                text += f" {step.refs[name]} "
                step = database.schema.entities[name]
                text += step.plural
            text += f" {each.words}" if each.path else ""
        return text

    def indices(self, database: Database) -> list[int]:
        """Which of the clean rows it has."""
        rows = database.rows[self.entity]
        return [index for index, row in enumerate(rows) if all(_holds(database, row, c) for c in self.conditions)]

    def rows(self, database: Database) -> list[Row]:
        """The clean rows."""
        rows = database.rows[self.entity]
        return [rows[index] for index in self.indices(database)]


def _holds(database: Database, row: Row, condition: RowCondition) -> bool:
    value = followed(database, row, condition.path)[condition.noun]
    if value is None:
        return False
    if condition.op == "within":
        return bool(condition.value[0] <= value <= condition.value[1])
    if condition.op == "named":
        return value in condition.value
    if condition.op == "is":
        return bool(value == condition.value)
    return bool(value > condition.value if condition.op == "above" else value < condition.value)


def followed(database: Database, row: Row, path: tuple[str, ...]) -> Row:
    """The row that a path leads to."""
    for name in path:
        row = database.rows[name][row[name]]
    return row


def shown_number(attribute: DataAttribute | None, value: int | Fraction) -> Fraction:
    """A clean number in the attribute's unit: cents become euros."""
    return Fraction(value, 100 if attribute is not None and attribute.kind == "money" else 1)


class Select:
    """A SELECT over the rows of a view, which grows joins as values are asked for.

    Attributes:
        tables: whose documentation one has to have read.
        looks: queries that show what one has to have seen before: the meaning of codes.
    """

    def __init__(self, database: Database, view: View, letters: str = "abcdefghijkl") -> None:
        self.database = database
        self._letters = iter(letters)
        self._aliases: dict[tuple[str, str], str] = {}
        self.base = next(self._letters)
        table = database.tables[view.entity]
        self.tables, self.looks = [table.name], list[str]()
        self._from = f"{table.name} {self.base}"
        self._entity = view.entity
        self._where = [live] if (live := table.live_sql(self.base)) else []
        for each in view.conditions:
            self.require(each)

    def join(self, table: str, condition: str) -> str:
        """The alias of a table that is joined, "#" in the condition being the alias."""
        if (table, condition) not in self._aliases:
            alias = self._aliases[table, condition] = next(self._letters)
            self._from += f" JOIN {table} {alias} ON {condition.replace('#', alias)}"
            self.tables.append(table)
        return self._aliases[table, condition]

    def at(self, path: tuple[str, ...]) -> tuple[str, str]:
        """The entity that a path leads to, and the alias of its table."""
        entity, alias = self._entity, self.base
        for name in path:
            reference = self.database.tables[entity].ref_sql(alias, name)
            entity, alias = name, self.join(self.database.tables[name].name, f"#.id = {reference}")
        return entity, alias

    def column(self, path: tuple[str, ...], noun: str) -> tuple[Column, str]:
        """How an attribute is stored, and the alias of its table."""
        entity, alias = self.at(path)
        return self.database.tables[entity].columns[noun], alias

    def value(self, path: tuple[str, ...], noun: str) -> str:
        """An expression for an attribute, or for the name."""
        if not noun:
            entity, alias = self.at(path)
            return f"{alias}.{self.database.tables[entity].label}"
        column, alias = self.column(path, noun)
        return column.sql(alias, self.join)

    def parent(self, name: str) -> str:
        """An expression for the id of what a row refers to."""
        return self.database.tables[self._entity].ref_sql(self.base, name)

    def condition(self, each: RowCondition) -> str:
        """A condition as SQL."""
        if each.op == "is":
            column, alias = self.column(each.path, each.noun)
            if isinstance(column, Lookup):
                self.looks.append(f"SELECT * FROM {column.extra['table']}")
            return column.test(alias, self.join, each.value)
        value = self.value(each.path, each.noun)
        if each.op == "named":
            return f"{value} IN ({', '.join(map(quoted, each.value))})"
        if each.op == "within":
            return f"{value} BETWEEN '{each.value[0]}' AND '{each.value[1]}'"
        entity, _ = self.at(each.path)
        attribute = self.database.schema.entities[entity].attribute(each.noun)
        number = shown_number(attribute, each.value)
        return f"{value} {'>' if each.op == 'above' else '<'} {number}"

    def require(self, each: RowCondition | str) -> None:
        """Adds a condition."""
        self._where.append(each if isinstance(each, str) else self.condition(each))

    def text(self, what: str, tail: str = "") -> str:
        """The statement."""
        where = f" WHERE {' AND '.join(self._where)}" if self._where else ""
        return f"SELECT {what} FROM {self._from}{where}{' ' + tail if tail else ''}"
