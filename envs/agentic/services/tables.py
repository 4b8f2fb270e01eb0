"""Rows of a world, immutable: how paths are read, conditions judged and effects carried out.

Tables are ``{entity: {number: row}}``; a row is a tuple whose first value is the number of its parent (0 without one).
A change makes new tables and leaves the old ones alone, so that a state can be forked and restored like any other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.services.schema import Action, Effect, Entity

TODAY: Final = 200
Row = tuple[Any, ...]
Tables = Mapping[str, Mapping[int, Row]]


class Bound(NamedTuple):
    """A condition with the bound that its world drew; ``top`` holds for persons of the highest tier instead."""

    path: str
    op: str
    value: Any
    top: int | None = None


class Deed(NamedTuple):
    """An action on a record with its arguments, and whose record it is."""

    action: Action
    record: int
    arguments: Mapping[str, Any]
    owner: int


class Ledger(NamedTuple):
    """The entities of a world, for whoever reads rows: by name, with the person's name and the highest tier."""

    entities: Mapping[str, Entity]
    person: str
    top_tier: str

    def value(self, tables: Tables, entity: str, number: Any, name: str) -> Any:
        """An attribute of a row; None if there is no such row or attribute."""
        row = tables[entity].get(number)
        names = self.entities[entity].names
        return row[names.index(name) + 1] if row is not None and name in names else None

    def owner(self, tables: Tables, entity: str, number: int) -> int:
        """The number of the person whom a row belongs to; 0 if it is nobody's, or there is no such row."""
        while entity != self.person:
            row, entity = tables[entity].get(number), self.entities[entity].parent
            if row is None or not entity:
                return 0
            number = int(row[0])
        return number if number in tables[entity] else 0

    def title(self, tables: Tables, entity: str, number: int) -> str:
        """The value by which a row is described: of a reference, the title of what it refers to."""
        for attribute in self.entities[entity].attributes:
            if attribute.describes:
                value = self.value(tables, entity, number, attribute.name)
                if attribute.kind.form == "ref" and value is not None:
                    return self.title(tables, attribute.kind.values[0], value)
                return str(value)
        return str(number)

    def read(self, tables: Tables, deed: Deed, path: str) -> Any:
        """The value of a path, seen from a deed."""
        head, _, tail = path.partition(".")
        if head == "owner":
            return self.value(tables, self.person, deed.owner, tail)
        if head.startswith("$"):
            value = deed.arguments.get(head[1:])
            kinds = {param.name: param.kind for param in deed.action.params}
            return self.value(tables, kinds[head[1:]].values[0], value, tail) if tail else value
        value = self.value(tables, deed.action.on, deed.record, head)
        if not tail:
            return value
        return self.value(tables, self._referred(deed.action.on, head), value, tail)

    def _referred(self, entity: str, name: str) -> str:
        kind = next(each.kind for each in self.entities[entity].attributes if each.name == name)
        return str(kind.values[0])

    def holds(self, tables: Tables, deed: Deed, bound: Bound) -> bool:
        """Whether a condition is true; one about a value that is missing is not."""
        value, limit = self.read(tables, deed, bound.path), bound.value
        if value is None:
            return False
        if bound.top is not None and self.value(tables, self.person, deed.owner, "tier") == self.top_tier:
            limit = bound.top
        if bound.op == "is":
            return value in limit
        if bound.op in ("same", "covers"):
            other = self.read(tables, deed, limit)
            return other is not None and (value == other if bound.op == "same" else value >= other)
        if bound.op == "within":
            return bool(0 <= TODAY - value <= limit)
        if bound.op == "ahead":
            return bool(value - TODAY >= limit)
        return bool(value >= limit if bound.op == "min" else value <= limit if bound.op == "max" else value > limit)

    def changed(self, tables: Tables, deed: Deed) -> Tables:
        """The tables after a deed: its effects in order."""
        for effect in deed.action.effects:
            tables = self._new_row(tables, deed, effect) if effect.op == "new" else self._set(tables, deed, effect)
        return tables

    def _operand(self, tables: Tables, deed: Deed, text: str) -> Any:
        if text == "@":
            return deed.record
        if text.startswith("@"):
            return self.read(tables, deed, text[1:])
        if text.startswith("$"):
            return deed.arguments.get(text[1:])
        if text[:1] == "+" and text[1:].isdigit():
            return TODAY + int(text[1:])
        return int(text) if text.isdigit() else text

    def _set(self, tables: Tables, deed: Deed, effect: Effect) -> Tables:
        head, _, tail = effect.path.partition(".")
        entity, number, name = deed.action.on, deed.record, head
        if head == "owner":
            entity, number, name = self.person, deed.owner, tail
        elif head.startswith("$"):
            kinds = {param.name: param.kind for param in deed.action.params}
            entity, number, name = kinds[head[1:]].values[0], deed.arguments[head[1:]], tail
        elif tail:
            entity, number, name = self._referred(entity, head), self.read(tables, deed, head), tail
        row = tables[entity].get(number)
        operand = self._operand(tables, deed, effect.value)
        if row is None or operand is None:
            return tables
        index = self.entities[entity].names.index(name) + 1
        if effect.op != "=":
            operand = (row[index] or 0) + (operand if effect.op == "+" else -operand)
        return replaced(tables, entity, number, (*row[:index], operand, *row[index + 1 :]))

    def _new_row(self, tables: Tables, deed: Deed, effect: Effect) -> Tables:
        entity = self.entities[effect.path]
        values = {name: self._operand(tables, deed, value) for name, value in effect.values}
        parent = deed.record
        if entity.parent == self.person:
            parent = deed.owner
        elif entity.parent != deed.action.on:  # a sibling
            parent = tables[deed.action.on][deed.record][0]
        number = max(max(rows, default=0) for rows in tables.values()) + 1
        return replaced(tables, effect.path, number, (parent, *(values.get(name) for name in entity.names)))

    def digest(self, tables: Tables, numbers: frozenset[int]) -> str:
        """Names the content of tables. Rows that are new count without their numbers, texts without case and blanks.

        Args:
            numbers: of the rows that there were at first.
        """
        content = []
        for entity in sorted(tables):
            rows = [(number if number in numbers else 0, *map(_plain, row)) for number, row in tables[entity].items()]
            content.append((entity, sorted(rows, key=repr)))
        return hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest()


def replaced(tables: Tables, entity: str, number: int, row: Row) -> Tables:
    """The tables with one row new or another."""
    return {**tables, entity: {**tables[entity], number: row}}


def _plain(value: Any) -> Any:
    return " ".join(value.lower().split()) if isinstance(value, str) else value
