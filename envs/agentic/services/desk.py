"""The tools of a world, from its entities, actions and rules: each takes a visit, and returns the next and a text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, create_model

from rlvr.envs.agentic.services.schema import Action, Attribute, Entity
from rlvr.envs.agentic.services.tables import Deed, Tables
from rlvr.envs.agentic.services.visit import DECLINED, HANDED_OVER, ServiceVisit, shown_value
from rlvr.envs.agentic.services.world import ServiceWorld, path_words, plural, world
from rlvr.envs.core.seeding import stream
from rlvr.envs.tasks.wording import with_article
from rlvr.envs.tools import Tool, ToolError

Number = Annotated[int, Field(ge=0, le=10**9)]
Line = Annotated[str, Field(min_length=1, max_length=200)]
SHOWN_ROWS: Final = 20
_LOOKS: Final = ("get_{}", "show_{}", "look_up_{}")
_LISTS: Final = ("list_{}_of_{}", "get_{}_of_{}", "show_{}_of_{}")
_SEARCHES: Final = ("search_{}", "find_{}", "query_{}")


class ServiceTools:
    """The tools of a world by name; ``names`` says what each kind of look-up is called there."""

    def __init__(self, world: ServiceWorld) -> None:
        self.world = world
        self.names: dict[tuple[str, str], str] = {}
        self.tools: dict[str, Tool] = {}
        if world.size.identify:
            self._add(("identify", ""), f"find_{world.person}", *self._identify())
        rng = stream("names of tools", *world.key)
        styles = rng.choice(_LOOKS), rng.choice(_LISTS), rng.choice(_SEARCHES)
        for entity in world.ledger.entities.values():
            self._add_lookups(entity, *styles)
        for action in world.actions.values():
            function = partial(_act, world, action)
            self._add(("act", action.name), action.name, self._described(action), self._arguments(action), function)
        self._add_case_tools(world)

    def _add_lookups(self, entity: Entity, look: str, listing: str, search: str) -> None:
        """What shows a row, the rows of a parent, or the rows of a catalogue."""
        world, noun, parent = self.world, entity.name.replace("_", " "), entity.parent.replace("_", " ")
        number = _number(f"the number of the {noun}")
        shown = ", ".join(attribute.label for attribute in entity.attributes)
        text = f"Show {with_article(noun)}: {shown}."
        self._add(("look", entity.name), look.format(entity.name), text, (number,), partial(_look, world, entity))
        if entity.parent:
            name, text = (
                listing.format(plural(entity.name), entity.parent),
                f"List the {plural(noun)} of {with_article(parent)}.",
            )
            number = _number(f"the number of the {parent}")
            self._add(("list", entity.name), name, text, (number,), partial(_list, world, entity))
        elif entity.name != world.person:
            name, text = search.format(plural(entity.name)), f"Find {plural(noun)} by words of their {shown}."
            words = ("text", Line, "the words", True)
            self._add(("search", entity.name), name, text, (words,), partial(_search, world, entity))

    def _add_case_tools(self, world: ServiceWorld) -> None:
        """What records a refusal or a hand-over, works out a percentage, and closes the case."""
        record = _number("the number of the record, 0 if there is none", "record")
        rule = _number("the number of the rule that forbids it", "rule")
        text = "Record that a request is refused."
        self._add(("", "decline"), "decline", text, (record, rule), partial(_decline, world))
        if teams := world.teams():
            fields = (_number("the number of the record", "record"), ("team", Literal[teams], "the team", True))
            self._add(("", "hand over"), "hand_over", "Hand a record over to a team.", fields, _hand_over)
        if world.has_percentages():
            fields = (_number("the percentage", "percent"), _number("the whole amount", "amount"))
            self._add(("", "percentage"), "percentage_of", "Work out a percentage of an amount.", fields, _percentage)
        self._add(("", "close"), "close_case", "Close the case: the conversation is over.", (), _close)

    def _add(
        self, kind: tuple[str, str], name: str, description: str, fields: tuple[Any, ...], function: Callable[..., Any]
    ) -> None:
        self.names[kind] = name
        self.tools[name] = Tool(name, description, _model(name, fields), function, 1)

    def _identify(self) -> tuple[str, tuple[Any, ...], Callable[..., Any]]:
        person = self.world.ledger.entities[self.world.person]
        labels = {each.name: each.label for each in person.attributes}
        (first,), (second, third) = self.world.ways
        caller = with_article(self.world.person)
        text = f"Find {caller} by the {labels[first]}, or by {labels[second]} and {labels[third]} together."
        fields = tuple((name, str, labels[name], False) for name in (first, second, third))
        return text, fields, partial(_identify, self.world)

    def _described(self, action: Action) -> str:
        """What the action's tool does, in words."""
        noun = action.on.replace("_", " ")
        rules = [str(rule.number) for rule in self.world.rules if rule.guarded and action.name in rule.actions]
        checks = f" It checks rule{'s' * (len(rules) > 1)} {' and '.join(rules)}." if rules else ""
        changes = []
        for effect in action.effects:
            if effect.op == "new":
                changes.append(f"a new {effect.path.replace('_', ' ')}")
            else:
                changes.append(path_words(self.world.ledger, action, effect.path))
        return f"Have {with_article(noun)} {action.passive}: changes {', '.join(dict.fromkeys(changes))}.{checks}"

    def _arguments(self, action: Action) -> tuple[Any, ...]:
        noun = action.on.replace("_", " ")
        fields: list[tuple[str, Any, str, bool]] = [("number", Number, f"the number of the {noun}", True)]
        for param in action.params:
            kind: Any = {"choice": Literal[param.kind.values], "text": Line}.get(param.kind.form, Number)
            fields.append((param.name, kind, _param_words(param), True))
        return tuple(fields)


def _number(words: str, name: str = "number") -> tuple[str, Any, str, bool]:
    return name, Number, words, True


def _param_words(param: Attribute) -> str:
    if param.kind.form == "ref":
        noun = param.kind.values[0].replace("_", " ")
        return (
            f"the number of the {noun}" if noun == param.label else f"{param.label}: the number of {with_article(noun)}"
        )
    return f"{param.label}: the number of the day" if param.kind.form == "day" else param.label


@lru_cache(maxsize=8192)
def _model(name: str, fields: tuple[Any, ...]) -> Any:
    """The arguments' model; worlds share those that are alike."""
    arguments: dict[str, Any] = {
        each: (kind, Field(... if required else "", description=words)) for each, kind, words, required in fields
    }
    return create_model(name, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **arguments)


@lru_cache(maxsize=512)
def desk_of(key: tuple[str, int, int]) -> ServiceTools:
    """The tools of a world by its key."""
    return ServiceTools(world(*key))


# what the tools do


def _identify(world: ServiceWorld, visit: ServiceVisit, /, **credentials: str) -> tuple[ServiceVisit, str] | str:
    ledger = world.ledger
    (first,), second = world.ways
    way = (first,) if credentials[first].strip() else second
    if not all(credentials[name].strip() for name in way):
        raise ToolError(f"give {first}, or both {second[0]} and {second[1]}")
    for number in visit.tables[world.person]:
        if all(
            _plain(ledger.value(visit.tables, world.person, number, name)) == _plain(credentials[name]) for name in way
        ):
            visit = visit._replace(identified=visit.identified or number == visit.case.owner)
            return visit, _row_text(world, visit.tables, ledger.entities[world.person], number)
    return f"no {world.person} matches"


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _look(world: ServiceWorld, entity: Entity, visit: ServiceVisit, number: int) -> tuple[ServiceVisit, str]:
    if number not in visit.tables[entity.name]:
        raise ToolError(f"there is no {entity.name.replace('_', ' ')} {number}")
    if number not in visit.looked:
        visit = visit._replace(looked=(*visit.looked, number))
    return visit, _row_text(world, visit.tables, entity, number)


def _row_text(world: ServiceWorld, tables: Tables, entity: Entity, number: int) -> str:
    row = tables[entity.name][number]
    parts = [f"of {entity.parent.replace('_', ' ')} {row[0]}"] if entity.parent else []
    for attribute, value in zip(entity.attributes, row[1:], strict=True):
        if value is None or value == "":
            continue
        text = shown_value(value, attribute.kind.form)
        if attribute.kind.form == "ref":
            other = attribute.kind.values[0]
            text = f"{value} ({world.ledger.title(tables, other, value)})"
        parts.append(f"{attribute.label}: {text}")
    return f"{entity.name.replace('_', ' ')} {number}: " + "; ".join(parts)


def _list(world: ServiceWorld, entity: Entity, visit: ServiceVisit, number: int) -> str:
    if number not in visit.tables[entity.parent]:
        raise ToolError(f"there is no {entity.parent.replace('_', ' ')} {number}")
    noun = entity.name.replace("_", " ")
    lines = [f"{noun} {each}" for each, row in visit.tables[entity.name].items() if row[0] == number]
    return "\n".join(lines) or f"no {plural(noun)}"


def _search(world: ServiceWorld, entity: Entity, visit: ServiceVisit, text: str) -> str:
    words = _plain(text).split()
    lines = []
    for number in visit.tables[entity.name]:
        line = _row_text(world, visit.tables, entity, number)
        if all(word in line.lower() for word in words):
            lines.append(line)
    return "\n".join(lines[:SHOWN_ROWS]) or "nothing matches"


def _act(
    world: ServiceWorld, action: Action, visit: ServiceVisit, /, number: int, **arguments: Any
) -> tuple[ServiceVisit, str]:
    noun = action.on.replace("_", " ")
    if number not in visit.tables[action.on]:
        raise ToolError(f"there is no {noun} {number}")
    for param in action.params:
        if param.kind.form == "ref" and arguments[param.name] not in visit.tables[param.kind.values[0]]:
            raise ToolError(f"there is no {param.kind.values[0].replace('_', ' ')} {arguments[param.name]}")
        if param.kind.form == "text":
            arguments[param.name] = " ".join(arguments[param.name].split())
    owner = world.ledger.owner(visit.tables, action.on, number)
    deed = Deed(action, number, arguments, owner)
    index = visit.matching(number, action.name)
    if index is None:  # also if a rule forbids it: nobody may try all records
        visit = visit.offend(f"{action.words} {number} was tried, which nobody asked for")
    guards = [rule for rule in world.rules if rule.guarded and rule.bound and action.name in rule.actions]
    for rule in guards:
        if rule.bound and not world.ledger.holds(visit.tables, deed, rule.bound):
            return visit, f"error: rule {rule.number} forbids it: {rule.prose}"
    if world.size.identify and not visit.identified:
        visit = visit.offend(f"{action.words} {number} was done for somebody who was not identified")
    elif world.size.confirm and index not in visit.agreed:
        visit = visit.offend(f"{action.words} {number} was done without the {world.person}'s yes")
    visit = visit._replace(tables=world.ledger.changed(visit.tables, deed))
    return visit if index is None else visit.settle(index), f"{noun} {number} is {action.passive}"


def _decline(world: ServiceWorld, visit: ServiceVisit, record: int, rule: int) -> tuple[ServiceVisit, str]:
    if not 1 <= rule <= len(world.rules):
        raise ToolError(f"there is no rule {rule}")
    return _logged(visit, (DECLINED, record, rule)), f"recorded: refused by rule {rule}"


def _hand_over(visit: ServiceVisit, record: int, team: str) -> tuple[ServiceVisit, str]:
    return _logged(visit, (HANDED_OVER, record, team)), f"record {record} is handed over to {team}"


def _logged(visit: ServiceVisit, entry: tuple[str, int, Any]) -> ServiceVisit:
    index = visit.matching(entry[1])
    visit = visit._replace(log=(*visit.log, entry), finished=False)
    return visit if index is None else visit.settle(index)


def _percentage(visit: ServiceVisit, percent: int, amount: int) -> str:
    return f"{percent} % of {amount} is {amount * percent // 100}"


def _close(visit: ServiceVisit) -> tuple[ServiceVisit, str]:
    return visit._replace(closed=True), "closed"
