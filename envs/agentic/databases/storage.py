"""How values are stored: codes, units, forms of dates, marks of rows; what the documentation says; how SQL reads them.

Each way of storing is one class: it writes a value into cells, says in words what these mean, and gives the SQL that
turns them back. The value itself stays in the clean rows, from which answers are computed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rlvr.envs.agentic.databases.domains import DataAttribute, DataEntity

SMALLER: Final = {
    "kg": ("g", 1000), "m": ("cm", 100), "km": ("m", 1000), "hours": ("minutes", 60), "litres": ("ml", 1000),
    "days": ("hours", 24), "euros": ("cents", 100), "years": ("months", 12), "MW": ("kW", 1000),
    "minutes": ("seconds", 60), "kWh": ("Wh", 1000),
}  # fmt: skip
Join = Callable[[str, str], str]  # adds "TABLE ON CONDITION" once, "#" being the new alias, and gives the alias


@dataclass(frozen=True)
class Column:
    """A value stored as it is; the base of the other ways.

    Attributes:
        name: the column's name.
        attribute: what it holds.
        entity: whose it is.
        extra: what else the way of storing needs: another column, a table, codes.
    """

    name: str
    attribute: DataAttribute
    entity: DataEntity
    extra: dict[str, Any] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """The columns that it takes."""
        return (self.name,)

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        """What is stored for a value, in these columns."""
        return (value / 100 if self.attribute.kind == "money" else value,)

    def note(self) -> str:
        """What the documentation says of the values."""
        if self.attribute.kind == "date":
            return "written YYYY-MM-DD"
        if self.attribute.kind == "cat":
            return f"one of {', '.join(self.attribute.values)}"
        return f"in {self.attribute.unit}" if self.attribute.unit else ""

    def sql(self, alias: str, join: Join) -> str:
        """An expression for the value."""
        return f"{alias}.{self.name}"

    def test(self, alias: str, join: Join, value: Any) -> str:
        """A condition that the value is this one."""
        return f"{self.sql(alias, join)} = {quoted(value)}"


def quoted(value: Any) -> str:
    """A literal of SQL."""
    return f"'{value}'" if isinstance(value, str) else str(value)


class Codes(Column):
    """A letter or a number for each value, by the dictionary in the documentation."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (self.extra[value],)

    def note(self) -> str:
        return ", ".join(f"{code} = {value}" for value, code in self.extra.items())

    def sql(self, alias: str, join: Join) -> str:
        whens = " ".join(f"WHEN {quoted(code)} THEN {quoted(value)}" for value, code in self.extra.items())
        return f"CASE {alias}.{self.name} {whens} END"

    def test(self, alias: str, join: Join, value: Any) -> str:
        return f"{alias}.{self.name} = {quoted(self.extra[value])}"


class Default(Column):
    """Nothing is stored for one of the values, at least at times."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (None if value == self.extra["default"] and rng.random() < 0.7 else value,)

    def note(self) -> str:
        return f"{super().note()}; empty means {self.extra['default']}"

    def sql(self, alias: str, join: Join) -> str:
        return f"coalesce({alias}.{self.name}, {quoted(self.extra['default'])})"


class TypedByHand(Column):
    """Typed by hand: capitals and blanks vary."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        shape = rng.choice((str, str, str.lower, str.upper, str.title))
        return (rng.choice(("", "", "", " ")) + shape(value) + rng.choice(("", "", " ", "  ")),)

    def note(self) -> str:
        some = f"one of {', '.join(self.attribute.values)}; " if self.attribute.kind == "cat" else ""
        return f"{some}typed by hand: capitals, and blanks before and after, do not count"

    def sql(self, alias: str, join: Join) -> str:
        return f"lower(trim({alias}.{self.name}))"

    def test(self, alias: str, join: Join, value: Any) -> str:
        return f"{self.sql(alias, join)} = {quoted(str(value).lower())}"


class Lookup(Column):
    """A number whose meaning stands in a table of its own; some meanings have two."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (rng.choice(self.extra["codes"][value]),)

    def note(self) -> str:
        return f"a code; what each means stands in the table {self.extra['table']}, several may mean the same"

    def sql(self, alias: str, join: Join) -> str:
        table, code, label = self.extra["table"], self.extra["code"], self.extra["label"]
        return f"{join(table, f'#.{code} = {alias}.{self.name}')}.{label}"

    def test(self, alias: str, join: Join, value: Any) -> str:
        return f"{alias}.{self.name} IN ({', '.join(map(str, self.extra['codes'][value]))})"


class ChangedOverTime(Column):
    """The value has changed: a table of its own has each, the last entry of a row counts."""

    def names(self) -> tuple[str, ...]:
        return ()

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return ()

    def sql(self, alias: str, join: Join) -> str:
        table, owner = self.extra["table"], self.extra["owner"]
        last = f"#.id IN (SELECT max(id) FROM {table} GROUP BY {owner})"
        return f"{join(table, f'#.{owner} = {alias}.id AND {last}')}.{self.name}"


class Smaller(Column):
    """In a smaller unit."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (value if self.attribute.kind == "money" else value * self.factor[1],)

    @property
    def factor(self) -> tuple[str, int]:
        """The smaller unit, and how many of it are one."""
        return SMALLER[self.attribute.unit]

    def note(self) -> str:
        unit, factor = self.factor
        return f"in {unit}; {factor} {unit} are 1 {singular(self.attribute.unit)}"

    def sql(self, alias: str, join: Join) -> str:
        return f"{alias}.{self.name} / {self.factor[1]}{'.0' * (self.attribute.kind == 'money')}"


class Units(Smaller):
    """In one of two units, which another column tells."""

    def names(self) -> tuple[str, ...]:
        return self.name, self.extra["unit"]

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        if rng.random() < 0.5:
            return (*super().cells(value, rng), self.factor[0])
        return (value / 100 if self.attribute.kind == "money" else value, self.attribute.unit)

    def note(self) -> str:
        unit, factor = self.factor
        big = self.attribute.unit
        return f"in the unit that {self.extra['unit']} tells: {big} or {unit}; {factor} {unit} are 1 {singular(big)}"

    def sql(self, alias: str, join: Join) -> str:
        unit = f"{alias}.{self.extra['unit']}"
        return f"CASE {unit} WHEN {quoted(self.factor[0])} THEN {super().sql(alias, join)} ELSE {alias}.{self.name} END"


class Unknown(Column):
    """A number that may be unknown: then -1, or nothing."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (rng.choice((-1, -1, None)) if value is None else super().cells(value, rng)[0],)

    def note(self) -> str:
        return f"{super().note()}; -1 or empty means not known, such rows are left out wherever it matters"

    def sql(self, alias: str, join: Join) -> str:
        return f"nullif({alias}.{self.name}, -1)"


class Comma(Column):
    """Money as text with a decimal comma."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (f"{value // 100},{value % 100:02}",)

    def note(self) -> str:
        return "in euros, as text with a decimal comma"

    def sql(self, alias: str, join: Join) -> str:
        return f"CAST(replace({alias}.{self.name}, ',', '.') AS REAL)"


def _day(text: str, year: int, month: int, day: int) -> str:
    """SQL that puts a day together from where its parts begin in a text."""
    parts = (f"substr({text}, {start}, {length})" for start, length in ((year, 4), (month, 2), (day, 2)))
    return " || '-' || ".join(parts)


class Compact(Column):
    """A day as a number: 20240131."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (int(value.replace("-", "")),)

    def note(self) -> str:
        return "a number YYYYMMDD"

    def sql(self, alias: str, join: Join) -> str:
        return _day(f"{alias}.{self.name}", 1, 5, 7)


class MixedDates(Column):
    """Days in two forms that can be told apart."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        year, month, day = value.split("-")
        return (value if rng.random() < 0.5 else f"{day}.{month}.{year}",)

    def note(self) -> str:
        return "written YYYY-MM-DD, or DD.MM.YYYY if it was taken over from the old system"

    def sql(self, alias: str, join: Join) -> str:
        text = f"{alias}.{self.name}"
        return f"CASE WHEN instr({text}, '.') > 0 THEN {_day(text, 7, 4, 1)} ELSE {text} END"


class BySource(Column):
    """Days whose form another column tells."""

    def names(self) -> tuple[str, ...]:
        return self.name, self.extra["source"]

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        year, month, day = value.split("-")
        return (f"{month}/{day}/{year}", "US") if rng.random() < 0.5 else (f"{day}/{month}/{year}", "EU")

    def note(self) -> str:
        return f"written MM/DD/YYYY where {self.extra['source']} is US, DD/MM/YYYY where it is EU"

    def sql(self, alias: str, join: Join) -> str:
        text, us, eu = f"{alias}.{self.name}", (7, 1, 4), (7, 4, 1)
        source = f"{alias}.{self.extra['source']}"
        return f"CASE {source} WHEN 'US' THEN {_day(text, *us)} ELSE {_day(text, *eu)} END"


class Marked(Column):
    """A flag as Y and N, or as a number."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (self.extra["yes" if value else "no"],)

    def note(self) -> str:
        yes, no = self.attribute.words
        plural = self.entity.plural
        return f"{self.extra['yes']} for {plural} {yes}, {self.extra['no']} for {plural} {no}"

    def test(self, alias: str, join: Join, value: Any) -> str:
        return f"{alias}.{self.name} = {quoted(self.extra['yes' if value else 'no'])}"


class FilledDay(Column):
    """A flag as a day that is filled in, or is not."""

    def cells(self, value: Any, rng: random.Random) -> tuple[Any, ...]:
        return (_any_day(rng) if value else None,)

    def note(self) -> str:
        yes, no = self.attribute.words
        plural = self.entity.plural
        return f"a day, filled in for {plural} {yes}, empty for {plural} {no}"

    def test(self, alias: str, join: Join, value: Any) -> str:
        return f"{alias}.{self.name} IS {'NOT ' if value else ''}NULL"


def _any_day(rng: random.Random) -> str:
    return f"{rng.randint(2022, 2024)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def singular(unit: str) -> str:
    """A unit after the number 1."""
    return unit[:-1] if unit.endswith("s") else unit


def drawn_column(
    rng: random.Random,
    attribute: DataAttribute,
    entity: DataEntity,
    dirt: float,
    tricks: frozenset[str],
    named: Callable[[str], str],
    table: Callable[[str], str],
) -> Column:
    """A way of storing an attribute, of those that there are at the level.

    Args:
        named: names a column of the entity's table.
        table: names a further table.
    """
    name = named(attribute.noun)
    plain = rng.random() >= dirt
    ways = [] if plain else [way for way in _ways(attribute, entity) if way in tricks]
    way = rng.choice(ways) if ways else ""
    if attribute.kind == "flag" and way != "filled":
        letters = ("Y", "N") if way != "yes-no" else rng.choice(((1, 0), (0, 1)))
        return Marked(name, attribute, entity, dict(zip(("yes", "no"), letters, strict=True)))
    return _with_extra(rng, way, Column(name, attribute, entity), named, table)


def _ways(attribute: DataAttribute, entity: DataEntity) -> list[str]:
    if attribute.kind == "cat":
        return ["codes", "default", "hand", "lookup", *(["history"] if entity.names else ())]
    if attribute.kind in ("num", "money"):
        small = ["small", "units"] if attribute.unit in SMALLER else []
        return [*small, "unknown", *(["comma"] if attribute.kind == "money" else ())]
    return {"town": ["hand"], "date": ["compact", "mixed-dates", "source"], "flag": ["yes-no", "filled"]}[
        attribute.kind
    ]


_SIMPLE: Final[dict[str, type[Column]]] = {
    "": Column, "hand": TypedByHand, "small": Smaller, "unknown": Unknown, "comma": Comma, "compact": Compact,
    "mixed-dates": MixedDates, "filled": FilledDay,
}  # fmt: skip


def _with_extra(
    rng: random.Random, way: str, plain: Column, named: Callable[[str], str], table: Callable[[str], str]
) -> Column:
    name, attribute, entity = plain.name, plain.attribute, plain.entity
    if way in _SIMPLE:
        return _SIMPLE[way](name, attribute, entity)
    if way == "codes":
        return Codes(name, attribute, entity, _codes(rng, attribute.values))
    if way == "default":
        return Default(name, attribute, entity, {"default": rng.choice(attribute.values)})
    if way == "units":
        return Units(name, attribute, entity, {"unit": named("unit")})
    if way == "source":
        return BySource(name, attribute, entity, {"source": named("source")})
    if way == "history":
        extra = {"table": table(f"{entity.singular} history"), "owner": named(entity.singular)}
        return ChangedOverTime(name, attribute, entity, extra)
    numbers = iter(rng.sample(range(10, 99), 2 * len(attribute.values)))
    codes = {value: sorted(next(numbers) for _ in range(rng.randint(1, 2))) for value in attribute.values}
    of_codes = {"table": table(f"{attribute.noun} codes"), "codes": codes, "code": "cd", "label": "lbl"}
    return Lookup(name, attribute, entity, of_codes)


def _codes(rng: random.Random, values: Sequence[str]) -> dict[str, Any]:
    """Initials where they differ, else numbers; or numbers anyway."""
    initials = [value[0].upper() for value in values]
    if len(set(initials)) == len(values) and rng.random() < 0.6:
        return dict(zip(values, initials, strict=True))
    return dict(zip(values, rng.sample(range(1, 10), len(values)), strict=True))
