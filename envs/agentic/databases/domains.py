"""The domains as data: what each database is about, in the words in which people ask.

In ``domains.txt`` a line is an entity: its singular and plural, ``*`` and the kind of its names if its rows have any;
after ``>`` the entities that it refers to, each with the words that link the two; after ``;`` its attributes:

    cat NOUN = WORDS WITH {} = VALUES      one of some values
    town NOUN = WORDS WITH {}              one of some made-up towns
    num NOUN = UNIT = LOW = HIGH           a whole number
    money NOUN = LOW = HIGH                euros and cents
    date NOUN = PARTICIPLE                 a day
    flag NOUN = WORDS IF SO = WORDS IF NOT

The words follow the plural: "loans" + "made in 2023", "members" + "with a student card".
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

HELD_OUT_DOMAINS: Final = {"museum": "validation", "hotel": "test", "energy": "test"}
DOMAINS: Final = (
    "library", "farm", "airline", "cinema", "clinic", "shop", "museum", "hotel", "university", "insurance", "energy",
    "parcel",
)  # fmt: skip


class DataAttribute(NamedTuple):
    """What is stored of a row besides its id, its name and what it refers to.

    Attributes:
        kind: ``cat``, ``town``, ``num``, ``money``, ``date`` or ``flag``.
        words: what follows the plural: with ``{}`` for the value, of a flag if it holds and if not.
        values: of a category; a town's are drawn for each database.
        low, high: bounds of a number, in its unit; of money in euros.
    """

    noun: str
    kind: str
    words: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    unit: str = ""
    low: int = 0
    high: int = 0


class DataEntity(NamedTuple):
    """What a table is about. ``refs`` are the entities it refers to, with the words that link them."""

    singular: str
    plural: str
    names: str
    refs: dict[str, str]
    attributes: tuple[DataAttribute, ...]

    def of_kind(self, *kinds: str) -> list[DataAttribute]:
        """Its attributes of these kinds."""
        return [each for each in self.attributes if each.kind in kinds]

    def attribute(self, noun: str) -> DataAttribute:
        """The attribute with this noun."""
        return next(each for each in self.attributes if each.noun == noun)


def _attribute(text: str) -> DataAttribute:
    kind, _, rest = text.strip().partition(" ")
    noun, *parts = (part.strip() for part in rest.split("="))
    if kind == "cat":
        return DataAttribute(noun, kind, (parts[0],), tuple(value.strip() for value in parts[1].split(",")))
    if kind == "num":
        return DataAttribute(noun, kind, unit=parts[0], low=int(parts[1]), high=int(parts[2]))
    if kind == "money":
        return DataAttribute(noun, kind, unit="euros", low=int(parts[0]), high=int(parts[1]))
    return DataAttribute(noun, kind, tuple(parts))


def _entity(line: str) -> DataEntity:
    head, *attributes = line.split(";")
    names, _, refs = head.partition(">")
    singular, _, plural = names.strip().partition("/")
    plural, _, kind = plural.partition("*")
    links = {name.strip(): words.strip() for name, words in (ref.split(":") for ref in refs.split(",") if ref.strip())}
    return DataEntity(singular, plural.strip(), kind.strip(), links, tuple(map(_attribute, attributes)))


@cache
def _texts() -> dict[str, tuple[str, list[str]]]:
    text = (files(__package__) / "domains.txt").read_text(encoding="utf-8")
    parts = re.split(r"^\[(\w+)\] (.*)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: (about, lines.split("\n")) for name, about, lines in zip(*(parts[n::3] for n in range(3)), strict=True)
    }


@cache
def entities(domain: str) -> dict[str, DataEntity]:
    """All that a domain, or ``house``, can have tables of, by singular; what is referred to need not come first."""
    return {each.singular: each for each in map(_entity, filter(None, _texts()[domain][1]))}


def subject(domain: str) -> str:
    """Whose databases these are, in words."""
    return _texts()[domain][0]
