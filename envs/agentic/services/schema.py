"""What a domain is, as data: entities with typed attributes, actions with effects, and rules.

A domain is written in short lines, which are read here once. ``arrived? (day of arrival) [status=sent]: day -20..-1``
is an attribute: its name, ``?`` if only some worlds have it, ``!`` if customers know their record by it, a label, the
attribute and the values with which it exists, and its kind. ``delivered within 14/30`` is a condition whose bound each
world draws. ``product.stock - 1`` is an effect. A path is an attribute, an attribute of what an attribute or an
argument (``$name``) refers to, or of the person who calls (``owner.tier``).
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_ATTRIBUTE: Final = re.compile(r"(\w+)([!?]*)(?: \(([^)]+)\))?(?: \[(\w+)=([^\]]+)\])?: (.+)")
_EFFECT: Final = re.compile(r"(\$?\w+(?:\.\w+)?) ([=+-]) (.+)")
_CONDITION: Final = re.compile(r"(\$?\w+(?:\.\w+)?) (is|within|ahead|min|max|over|same|covers) (.+)")
TEXTS: Final = ("address", "name", "note", "person", "phone", "product", "surname", "title", "town")


class ValueKind(NamedTuple):
    """Which values there are.

    Attributes:
        form: ``choice``, ``number``, ``day`` (counted from today), ``text`` or ``ref``.
        values: the choices; low, high and step; what is made up; or the entity that is referred to.
    """

    form: str
    values: tuple[Any, ...]


class Attribute(NamedTuple):
    """A typed attribute of an entity, or an argument of an action."""

    name: str
    kind: ValueKind
    label: str
    describes: bool = False
    optional: bool = False
    only_if: tuple[str, tuple[str, ...]] | None = None  # an attribute before it, and the values with which it exists


class Entity(NamedTuple):
    """A table: catalogue rows if it has no parent, else rows that belong to a person or to rows of the parent."""

    name: str
    parent: str
    attributes: tuple[Attribute, ...]
    described: str = "with the {}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)


class Condition(NamedTuple):
    """A comparison of a path with choices, a bound or another path."""

    path: str
    op: str
    values: tuple[Any, ...]  # of ``is`` the sets of choices, of a bound its alternatives, else the other path


class Effect(NamedTuple):
    """A change: of a path by ``=``, ``+`` or ``-``, or (``new``) a row, whose attributes are ``values``."""

    path: str
    op: str
    value: str
    values: tuple[tuple[str, str], ...] = ()


class Action(NamedTuple):
    """What the desk can do with a record of the entity ``on``; with the person, if that is the person's."""

    name: str
    on: str
    passive: str
    wishes: tuple[str, ...]
    params: tuple[Attribute, ...]
    effects: tuple[Effect, ...]

    @property
    def words(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ")


class Only(NamedTuple):
    """The actions are allowed only if the condition holds."""

    actions: tuple[str, ...]
    condition: Condition


class Amount(NamedTuple):
    """An argument that the desk works out: a constant or a percentage of a path; if ``better`` none or all of it."""

    action: str
    param: str
    base: str
    options: tuple[int, ...]
    better: Condition | None


class HandOver(NamedTuple):
    """If the condition holds, the desk does not act itself but hands the record over to a team."""

    action: str
    condition: Condition
    team: str


class Device(NamedTuple):
    """What only the customer can see and operate: settings, each with the value that it should have first."""

    name: str
    wish: str
    settings: tuple[tuple[str, tuple[str, ...]], ...]


class Domain(NamedTuple):
    """All that the worlds of a domain are made of; a world has a part of it."""

    name: str
    desk: str
    person: Entity
    entities: tuple[Entity, ...]
    actions: tuple[Action, ...]
    rules: tuple[Only, ...]
    amounts: tuple[Amount, ...]
    hand_overs: tuple[HandOver, ...]
    questions: tuple[tuple[str, str, str], ...]  # entity, attribute, what the customer asks with {it}
    device: Device | None = None


# how the lines are read


def attribute(line: str) -> Attribute:
    """Reads ``name!? (label) [other=value]: kind``.

    Raises:
        ValueError: the line has another form.
    """
    match = _ATTRIBUTE.fullmatch(line)
    if not match:
        raise ValueError(f"{line!r} is no attribute: write name: kind")
    name, marks, label, other, values, kind = match.groups()
    only_if = (other, tuple(values.split("|"))) if other else None
    return Attribute(name, _kind(kind), label or name.replace("_", " "), "!" in marks, "?" in marks, only_if)


def _kind(text: str) -> ValueKind:
    if text.startswith("-> "):
        return ValueKind("ref", (text[3:],))
    if match := re.fullmatch(r"day ([+-]\d+)\.\.([+-]\d+)", text):
        return ValueKind("day", (int(match[1]), int(match[2])))
    if match := re.fullmatch(r"(\d+)\.\.(\d+)(?:/(\d+))?", text):
        return ValueKind("number", (int(match[1]), int(match[2]), int(match[3] or 1)))
    if "|" in text:
        return ValueKind("choice", tuple(text.split("|")))
    if text not in TEXTS:
        raise ValueError(f"{text!r} is no kind of value: write a|b, 1..9, day +1..+9, -> entity, or one of {TEXTS}")
    return ValueKind("text", (text,))


def condition(line: str) -> Condition:
    """Reads ``path op values``: ``is a|b/a`` (two sets of choices), ``within 14/30``, ``same path``.

    Raises:
        ValueError: the line has another form.
    """
    match = _CONDITION.fullmatch(line)
    if not match:
        raise ValueError(f"{line!r} is no condition: write path is|within|ahead|min|max|over|same|covers values")
    path, op, text = match.groups()
    if op in ("same", "covers"):
        return Condition(path, op, (text,))
    options = text.split("/")
    return Condition(path, op, tuple(tuple(each.split("|")) if op == "is" else int(each) for each in options))


def _effect(line: str) -> Effect:
    if line.startswith("new "):
        entity, _, pairs = line[4:].partition(": ")
        values = [pair.partition("=") for pair in pairs.split(", ")]
        return Effect(entity, "new", "", tuple((name, value) for name, _, value in values))
    match = _EFFECT.fullmatch(line)
    if not match:
        raise ValueError(f"{line!r} is no effect: write path = value, path + value, path - value or new entity: a=b")
    return Effect(match[1], match[2], match[3])


def entity(name: str, parent: str, *lines: str, described: str = "with the {}") -> Entity:
    """An entity from the lines of its attributes; a parent of "" makes it a catalogue."""
    return Entity(name, parent, tuple(map(attribute, lines)), described)


def action(name: str, on: str, passive: str, wishes: str, effects: str, *params: str) -> Action:
    """An action; ``wishes`` are separated by ``|``, ``effects`` by ``;``."""
    read = tuple(_effect(line.strip()) for line in effects.split(";"))
    return Action(name, on, passive, tuple(wishes.split("|")), tuple(map(attribute, params)), read)


def only(actions: str, line: str) -> Only:
    """A rule for the actions that are named, separated by blanks."""
    return Only(tuple(actions.split()), condition(line))


def amount(action_name: str, param: str, options: str, base: str = "", better: str = "") -> Amount:
    """An argument that is computed: ``options`` are constants, or percentages of ``base``."""
    bounds = tuple(map(int, options.split("/")))
    return Amount(action_name, param, base, bounds, condition(better) if better else None)


def hand_over(action_name: str, line: str, team: str) -> HandOver:
    """A record of which the condition holds is for a team."""
    return HandOver(action_name, condition(line), team)


def device(name: str, wish: str, *settings: str) -> Device:
    """A device of the customer; a setting is ``name: right|wrong|…``."""
    pairs = [line.partition(": ") for line in settings]
    return Device(name, wish, tuple((setting, tuple(values.split("|"))) for setting, _, values in pairs))
