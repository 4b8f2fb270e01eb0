"""A database: clean rows, from which answers are computed, the tables that store them, and their documentation."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic import made_up_names
from rlvr.envs.agentic.databases.domains import DataAttribute, DataEntity
from rlvr.envs.agentic.databases.schema import SIZES, DatabaseKey, Schema, abbreviated, schema
from rlvr.envs.agentic.databases.storage import ChangedOverTime, Column, Lookup, Unknown, drawn_column
from rlvr.envs.core.seeding import stream
from rlvr.envs.tasks.wording import with_article
from rlvr.envs.tools.sql import guard

Row = dict[str, Any]  # an attribute's noun to its value, an entity's singular to the index of its row, "" to the name
_NAMES: Final[dict[str, Callable[[random.Random], str]]] = {
    "place": made_up_names.town,
    "person": made_up_names.person,
    "firm": made_up_names.firm,
    "title": lambda rng: made_up_names.byname(rng).removeprefix("the "),
}
LONG_AGO: Final = ("birth", "opening", "founding", "building", "start-up")


class StoredTable(NamedTuple):
    """How an entity is stored.

    Attributes:
        label: the column of names, if it has one.
        refs: for each entity that it refers to the column, and what stands before the id there.
        columns: by noun, for each attribute.
        mark: which rows do not count: none, those that are ``deleted``, or all but the last of those ``repeated``.
        mark_column: the column that tells.
    """

    name: str
    entity: DataEntity
    label: str
    refs: dict[str, tuple[str, str]]
    columns: dict[str, Column]
    mark: str
    mark_column: str

    def ref_sql(self, alias: str, parent: str) -> str:
        """An expression for the id of the row that is referred to."""
        column, prefix = self.refs[parent]
        return f"CAST(substr({alias}.{column}, {len(prefix) + 1}) AS INTEGER)" if prefix else f"{alias}.{column}"

    def live_sql(self, alias: str) -> str:
        """A condition that a row counts; empty if all do."""
        if self.mark == "deleted":
            return f"{alias}.{self.mark_column} IS NULL"
        if self.mark == "repeated":
            return f"{alias}.id IN (SELECT max(id) FROM {self.name} GROUP BY {self.mark_column})"
        return ""


class Database(NamedTuple):
    """Tables, and the clean rows of each entity.

    Attributes:
        tables: how each entity is stored; codes and histories have tables beside these.
        documentation: of each table, by its name.
        summaries: what is in each table, in a few words, by its name.
        stored: the columns and rows of each table, by its name.
    """

    schema: Schema
    rows: dict[str, list[Row]]
    tables: dict[str, StoredTable]
    documentation: dict[str, str]
    summaries: dict[str, str]
    stored: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]


@lru_cache(maxsize=128)
def database(key: DatabaseKey) -> Database:
    """The database of a key, the same every time."""
    plan = schema(key)
    rng = random.Random(stream("rlvr/SQL-v0", "database", *key).getrandbits(64))
    rows = _clean_rows(rng, plan)
    tables = _tables(rng, plan)
    _forget(rng, rows, tables)
    stored = _stored(rng, rows, tables)
    return Database(plan, rows, tables, *_documented(plan, tables), stored)


@lru_cache(maxsize=64)
def _bytes(key: DatabaseKey) -> bytes:
    connection = sqlite3.connect(":memory:")
    for name, (columns, rows) in database(key).stored.items():
        first, *rest = columns
        connection.execute(f"CREATE TABLE {name} ({first} INTEGER PRIMARY KEY, {', '.join(rest)})")
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    connection.commit()
    return connection.serialize()


def open_database(key: DatabaseKey) -> sqlite3.Connection:
    """A connection of its own to the database, for reading alone."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(_bytes(key))
    return guard(connection)


# clean rows


def _clean_rows(rng: random.Random, plan: Schema) -> dict[str, list[Row]]:
    counts = {name: _count(rng, plan, each) for name, each in plan.entities.items()}
    towns = [made_up_names.town(rng) for _ in range(5)]
    rows: dict[str, list[Row]] = {}
    for name, each in plan.entities.items():
        count = counts[name]
        columns: dict[str, list[Any]] = {a.noun: _values(rng, a, count, towns) for a in each.attributes}
        columns |= {ref: rng.choices(range(counts[ref]), k=count) for ref in each.refs}
        if each.names:
            columns[""] = made_up_names.distinct(_NAMES[each.names], rng, count, set())
        rows[name] = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows


def _count(rng: random.Random, plan: Schema, entity: DataEntity) -> int:
    if entity.singular not in plan.own:
        return rng.randint(6, 12)
    if not entity.refs:
        return rng.randint(9, 16)
    return rng.randint(18, 30) if entity.names else rng.randint(70, 110)


def _values(rng: random.Random, attribute: DataAttribute, count: int, towns: list[str]) -> list[Any]:
    kind = attribute.kind
    if kind in ("cat", "town"):
        return rng.choices(attribute.values or towns, k=count)
    if kind == "num":
        return rng.choices(range(attribute.low, attribute.high + 1), k=count)
    if kind == "money":
        return rng.choices(range(100 * attribute.low, 100 * attribute.high + 1), k=count)
    if kind == "flag":
        return rng.choices((True, False), k=count)
    years = range(1950, 2005) if attribute.noun.startswith("birth") else range(1990, 2021)
    years = years if attribute.noun.startswith(LONG_AGO) else range(2022, 2025)
    days = zip(*(rng.choices(each, k=count) for each in (years, range(1, 13), range(1, 29))), strict=True)
    return [f"{year}-{month:02}-{day:02}" for year, month, day in days]


# tables


def _tables(rng: random.Random, plan: Schema) -> dict[str, StoredTable]:
    level = plan.key.level
    size, taken = SIZES[level - 1], set[str]()
    limit = size.tables[1] - len(plan.entities)
    names = {name: _table_name(each.plural, level, taken) for name, each in plan.entities.items()}
    tables = {}
    further: list[str] = []

    def further_table(noun: str) -> str:
        further.append(_table_name(noun, max(level, 3), taken))
        return further[-1]

    for name, each in plan.entities.items():
        columns_taken = {"id"}

        def named(noun: str, entity: DataEntity = each, taken: set[str] = columns_taken) -> str:
            return _column_name(noun, entity, plan.style, taken)

        label = named("name") if each.names else ""
        marked = rng.random() < size.dirt / 2
        mark = rng.choice([m for m in ("deleted", "repeated") if m in size.tricks] or [""]) if marked else ""
        mark = "" if each.names and mark == "repeated" else mark
        refs = {ref: (named(ref), _prefix(rng, ref, size.tricks, size.dirt)) for ref in each.refs}
        columns = {}
        for attribute in each.attributes:
            tricks = size.tricks if len(further) < limit else size.tricks - {"lookup", "history"}
            column = drawn_column(rng, attribute, each, size.dirt, tricks, named, further_table)
            columns[attribute.noun] = column
        mark_column = named({"deleted": "deletion", "repeated": "entry number"}[mark]) if mark else ""
        tables[name] = StoredTable(names[name], each, label, refs, columns, mark, mark_column)
    return tables


def _table_name(plural: str, level: int, taken: set[str]) -> str:
    if level < 3:
        name = plural.replace(" ", "_").replace("-", "_")
        taken.add(name)
        return {"returns": "returns_"}.get(name, name)
    return abbreviated(plural, taken, 6)


def _column_name(noun: str, entity: DataEntity, style: str, taken: set[str]) -> str:
    if style == "numbered":
        name = f"f{len(taken):02}"
        taken.add(name)
        return name
    return abbreviated(f"{entity.singular[0]} {noun}" if style == "initial" else noun, taken)


def _prefix(rng: random.Random, parent: str, tricks: frozenset[str], dirt: float) -> str:
    return f"{parent[0].upper()}-" if "prefix" in tricks and rng.random() < dirt / 3 else ""


def _forget(rng: random.Random, rows: dict[str, list[Row]], tables: dict[str, StoredTable]) -> None:
    """Some numbers are not known, where the documentation says so."""
    for name, table in tables.items():
        for noun, column in table.columns.items():
            for row in rows[name] if isinstance(column, Unknown) else ():
                if rng.random() < 0.1:
                    row[noun] = None


# what is stored


def _stored(
    rng: random.Random, rows: dict[str, list[Row]], tables: dict[str, StoredTable]
) -> dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """The columns and rows of each table, those that do not count among them."""
    ids = {name: _ids(rng, len(rows[name]), table.mark) for name, table in tables.items()}
    living = {name: {index: number for number, index, counts in each if counts} for name, each in ids.items()}
    stored: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {}
    for name, table in tables.items():
        columns = ["id", *([table.label] if table.label else ()), *(column for column, _ in table.refs.values())]
        columns += [each for column in table.columns.values() for each in column.names()]
        columns += [table.mark_column] if table.mark else ()
        cells = []
        for number, index, counts in ids[name]:
            row = rows[name][index]
            if not counts:  # other values, under the number of the row that counts or with the mark of those deleted
                row = {**rng.choice(rows[name]), **({"": row[""]} if table.label else {})}
            cells.append((number, *_cells(rng, table, row, living), *_mark(table, index, counts)))
        stored[table.name] = tuple(columns), cells
        for column in table.columns.values():
            if isinstance(column, Lookup | ChangedOverTime):
                stored[column.extra["table"]] = _side_table(rng, column, rows[name], living[name])
    return stored


def _ids(rng: random.Random, count: int, mark: str) -> list[tuple[int, int, bool]]:
    """For each row its id, the index of the clean row, and whether it counts; what does not count comes before it."""
    order = []
    for index in range(count):
        order += [(index, False)] if mark and rng.random() < 0.12 else []
        order.append((index, True))
    return [(number, index, counts) for number, (index, counts) in enumerate(order, 1)]


def _cells(rng: random.Random, table: StoredTable, row: Row, living: dict[str, dict[int, int]]) -> list[Any]:
    cells = [row[""]] if table.label else []
    for parent, (_, prefix) in table.refs.items():
        number = living[parent][row[parent]]
        cells.append(f"{prefix}{number:04}" if prefix else number)
    for noun, column in table.columns.items():
        cells += column.cells(row[noun], rng)
    return cells


def _mark(table: StoredTable, index: int, counts: bool) -> tuple[Any, ...]:
    if table.mark == "deleted":
        return (None if counts else "X",)
    return (5001 + index,) if table.mark else ()


def _side_table(
    rng: random.Random, column: Column, rows: list[Row], ids: dict[int, int]
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    extra, noun = column.extra, column.attribute.noun
    if isinstance(column, Lookup):
        codes = sorted((code, value) for value, some in extra["codes"].items() for code in some)
        return ("id", extra["code"], extra["label"]), [(number, *each) for number, each in enumerate(codes, 1)]
    entries = [(2021 + rng.random(), index, rng.choice(column.attribute.values)) for index in ids if rng.random() < 0.7]
    entries += [(2022 + 2 * rng.random(), index, rows[index][noun]) for index in ids]
    cells = [(number, ids[index], int(year), value) for number, (year, index, value) in enumerate(sorted(entries), 1)]
    return ("id", extra["owner"], "yr", column.name), cells


# documentation


def _documented(plan: Schema, tables: dict[str, StoredTable]) -> tuple[dict[str, str], dict[str, str]]:
    documentation, summaries = {}, {}
    for table in tables.values():
        lines = [f"Table {table.name}: one row is {with_article(table.entity.singular)}.", "- id: the row's number"]
        lines += [f"- {table.label}: the name"] if table.label else []
        for parent, (column, prefix) in table.refs.items():
            form = f", {prefix} and the id with four digits" if prefix else ", the id"
            lines.append(f"- {column}: the {parent} ({tables[parent].name}){form}")
        for noun, each in table.columns.items():
            lines += _column_lines(noun, each)
            if isinstance(each, Lookup | ChangedOverTime):
                name, text = each.extra["table"], _side_text(table, each)
                documentation[name], summaries[name] = text, text.partition("\n")[0].partition(": ")[2]
        lines += _mark_lines(table)
        documentation[table.name] = "\n".join(lines)
        summaries[table.name] = table.entity.plural
    order = sorted(documentation)
    return {name: documentation[name] for name in order}, {name: summaries[name] for name in order}


def _column_lines(noun: str, column: Column) -> list[str]:
    if isinstance(column, ChangedOverTime):
        return [f"The {noun} has changed over time: it stands in the table {column.extra['table']}."]
    first, *more = column.names()
    note = column.note()
    return [f"- {first}: {noun}{'; ' + note if note else ''}", *(f"- {name}: see {first}" for name in more)]


def _side_text(table: StoredTable, column: Column) -> str:
    name, noun, extra = column.extra["table"], column.attribute.noun, column.extra
    if isinstance(column, Lookup):
        return (
            f"Table {name}: what the codes of {table.name}.{column.name} ({noun}) mean.\n- {extra['code']}: the code\n"
            f"- {extra['label']}: its meaning"
        )
    values = ", ".join(column.attribute.values)
    return (
        f"Table {name}: the {noun} of the {table.entity.plural} over time.\n- id: the entry's number\n"
        f"- {extra['owner']}: the {table.entity.singular} ({table.name}), the id\n- yr: the year of the entry\n"
        f"- {column.name}: the {noun}, one of {values}\n"
        f"Of each {table.entity.singular} the entry with the highest id holds."
    )


def _mark_lines(table: StoredTable) -> list[str]:
    if table.mark == "deleted":
        return [f"- {table.mark_column}: X for rows that were deleted and count nowhere, else empty"]
    if table.mark == "repeated":
        return [
            f"- {table.mark_column}: number of the entry; an entry that was corrected has several rows with the same "
            "number, of which only that with the highest id counts"
        ]
    return []
