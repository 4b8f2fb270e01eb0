"""A world: the part of a domain that one schema graph has, drawn for a level, and its rules as prose."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.service_domains import domain_named
from rlvr.envs.agentic.services.schema import Action, Attribute, Condition, Domain, Entity, ValueKind, attribute
from rlvr.envs.agentic.services.tables import TODAY, Bound, Ledger
from rlvr.envs.core.seeding import split_of, stream
from rlvr.envs.tasks.wording import with_article

_PEOPLE: Final = ("driver", "pupil")  # entities that are "they", not "it"
MAX_TOOLS: Final = 30
VARIANTS: Final = 40  # worlds of each domain and level
HELD_OUT_DOMAINS: Final = {"library": "validation", "landlord": "test", "logistics": "test"}
DOMAINS: Final = (
    "airline", "bank", "clinic", "helpdesk", "insurance", "landlord", "library", "logistics", "school", "shop",
    "telecom", "travel",
)  # fmt: skip
_IDENTITY: Final = ("name: person", "email (e-mail address): note", "postcode: note", "phone (phone number): note")


class WorldSize(NamedTuple):
    """How much of a domain the worlds of a level have: bounds of counts, and shares."""

    actions: tuple[int, int]
    rules: tuple[int, int]
    more_entities: tuple[int, int]
    amounts: float
    hand_overs: float
    guarded: float  # share of the rules that the tools enforce
    identify: bool
    confirm: bool


SIZES: Final = (
    WorldSize((1, 2), (2, 3), (0, 0), 0.0, 0.0, 1.0, False, False),
    WorldSize((2, 3), (3, 5), (0, 1), 0.3, 0.0, 0.6, True, True),
    WorldSize((4, 5), (5, 7), (0, 1), 0.7, 0.3, 0.4, True, True),
    WorldSize((5, 7), (7, 10), (0, 2), 0.9, 0.7, 0.2, True, True),
    WorldSize((7, 9), (9, 15), (1, 2), 1.0, 0.9, 0.1, True, True),
)


class Rule(NamedTuple):
    """A numbered rule: the actions that it allows only under a bound; None for the rules of every world."""

    number: int
    actions: tuple[str, ...]
    bound: Bound | None
    guarded: bool
    prose: str


class AmountRule(NamedTuple):
    """How an argument is computed: a constant or a percentage of a path; nothing, or all, if ``better`` holds."""

    param: str
    base: str
    number: int
    better: Bound | None


class ServiceWorld(NamedTuple):
    """What a desk works in. Entities are those of the world, with the attributes that it has.

    Attributes:
        key: domain, level and variant, which name the world.
        signature: the schema graph: entities, attributes, references, actions, effects and rules.
        ways: how a person can be identified: sets of attributes, the first to be tried first.
    """

    key: tuple[str, int, int]
    domain: Domain
    ledger: Ledger
    actions: dict[str, Action]
    rules: tuple[Rule, ...]
    amounts: dict[str, AmountRule]
    hand_overs: dict[str, tuple[Bound, str]]
    ways: tuple[tuple[str, ...], ...]
    size: WorldSize
    signature: str

    @property
    def person(self) -> str:
        """The entity of those who call."""
        return self.ledger.person

    def tool_count(self) -> int:
        """How many tools the desk has."""
        entities = self.ledger.entities
        extra = self.size.identify + bool(self.hand_overs) + self.has_percentages()
        return 2 * len(entities) - 1 + len(self.actions) + 2 + extra

    def has_percentages(self) -> bool:
        """Whether an amount is a percentage."""
        return any(amount.base for amount in self.amounts.values())

    def teams(self) -> tuple[str, ...]:
        """Whom a record can be handed over to."""
        return tuple(sorted({team for _, team in self.hand_overs.values()}))


@lru_cache(maxsize=4096)
def world(domain: str, level: int, variant: int) -> ServiceWorld:
    """A world by its key. It is in one split with all that has its graph, and with its held-out domain and rules."""
    split = HELD_OUT_DOMAINS.get(domain) or ("test", "validation", *["train"] * 8)[variant % 10]
    for attempt in count():
        rng = stream("rlvr/Service-v0", domain, level, variant, attempt)
        drawn = _drawn(rng, (domain, level, variant), split)
        if split_of(drawn.signature) == split and drawn.tool_count() <= MAX_TOOLS:
            return drawn
    raise AssertionError("unreachable")


def rule_split(domain: str, condition: Condition) -> str:
    """The split outside of which a rule never stands; train if it may stand in all."""
    return split_of(f"rule of {domain}: {condition.path} {condition.op}")


def _drawn(rng: random.Random, key: tuple[str, int, int], split: str) -> ServiceWorld:
    domain, size = domain_named(key[0]), SIZES[key[1] - 1]
    names = {action.name for action in rng.sample(domain.actions, min(rng.randint(*size.actions), len(domain.actions)))}
    actions = [action for action in domain.actions if action.name in names]
    amounts = [each for each in domain.amounts if each.action in names and rng.random() < size.amounts]
    rules = [
        (tuple(name for name in rule.actions if name in names), rule.condition)
        for rule in domain.rules
        if names.intersection(rule.actions) and rule_split(domain.name, rule.condition) in ("train", split)
    ]
    rules = sorted(rng.sample(rules, min(rng.randint(*size.rules), len(rules))), key=rules.index)
    handed = [each for each in domain.hand_overs if each.action in names and rng.random() < size.hand_overs]
    conditions = [
        *((name, condition) for allowed, condition in rules for name in allowed),
        *((each.action, each.better) for each in amounts if each.better),
        *((each.action, each.condition) for each in handed),
    ]
    computed = {(each.action, each.param) for each in amounts}
    needed = set(_needed(domain, actions, conditions, computed, [(each.action, each.base) for each in amounts]))
    entities = _entities(rng, domain, actions, needed, rng.randint(*size.more_entities))
    ledger = Ledger(entities, domain.person.name, _top_tier(entities[domain.person.name]))
    kept = {each.name: _kept_action(rng, each, entities, needed, amounts) for each in actions}
    return _numbered(rng, key, domain, ledger, kept, rules, amounts, handed, size)


def _needed(
    domain: Domain,
    actions: Sequence[Action],
    conditions: Iterable[tuple[str, Condition]],
    computed: set[tuple[str, str]],
    bases: Iterable[tuple[str, str]],
) -> Iterator[tuple[str, str]]:
    """The attributes and arguments, as (entity or action, name), that effects, conditions and amounts are about."""
    by_name = {action.name: action for action in actions}
    attributes = {entity.name: {each.name: each.kind for each in entity.attributes} for entity in domain.entities}
    attributes[domain.person.name] = {each.name: each.kind for each in domain.person.attributes}
    paths = [(by_name[name], condition.path) for name, condition in conditions]
    paths += [(by_name[name], str(each.values[0])) for name, each in conditions if each.op in ("same", "covers")]
    paths += [(by_name[name], base) for name, base in bases if base]
    for action in actions:
        sure = {param.name for param in action.params if not param.optional}
        sure |= {param for name, param in computed if name == action.name}
        for effect in action.effects:
            if effect.op == "new":
                yield effect.path, ""
            elif not effect.value.startswith("$") or effect.value[1:] in sure:
                paths.append((action, effect.path))
    for action, path in paths:
        head, _, tail = path.partition(".")
        if head == "owner":
            yield domain.person.name, tail
        elif head.startswith("$"):
            yield action.name, head[1:]
            kinds = {param.name: param.kind for param in action.params}
            if tail:
                yield kinds[head[1:]].values[0], tail
        else:
            yield action.on, head
            if tail:
                yield attributes[action.on][head].values[0], tail


def _entities(
    rng: random.Random, domain: Domain, actions: Sequence[Action], needed: set[tuple[str, str]], more: int
) -> dict[str, Entity]:
    """The entities that are needed, and some more, each with the attributes that are needed and some more."""
    by_name = {entity.name: entity for entity in (domain.person, *domain.entities)}
    names = {domain.person.name, *(action.on for action in actions), *(name for name, _ in needed if name in by_name)}
    names |= {param.kind.values[0] for action in actions for param in action.params if param.kind.form == "ref"}
    others = [entity.name for entity in domain.entities if entity.name not in names]
    names |= set(rng.sample(others, min(more, len(others))))
    waiting = sorted(names)
    kept: dict[str, list[Attribute]] = {}
    while waiting:
        name = waiting.pop(0)
        if name in kept:
            continue
        kept[name] = [
            each
            for each in by_name[name].attributes
            if not each.optional or (name, each.name) in needed or rng.random() < 0.4
        ]
        refs = [each.kind.values[0] for each in kept[name] if each.kind.form == "ref"]
        waiting += [*refs, *([by_name[name].parent] if by_name[name].parent else [])]
    kept[domain.person.name] = [*map(attribute, _IDENTITY), *kept[domain.person.name]]
    order = [domain.person.name, *(entity.name for entity in domain.entities if entity.name in kept)]
    return {name: by_name[name]._replace(attributes=tuple(kept[name])) for name in order}


def _top_tier(person: Entity) -> str:
    tiers = next((each.kind.values for each in person.attributes if each.name == "tier"), ("",))
    return str(tiers[-1])


def _kept_action(
    rng: random.Random,
    action: Action,
    entities: dict[str, Entity],
    needed: set[tuple[str, str]],
    amounts: Sequence[Any],
) -> Action:
    """The action with the arguments that the world has, the computed ones behind them, and the effects they allow."""
    params = [
        each for each in action.params if not each.optional or (action.name, each.name) in needed or rng.random() < 0.5
    ]
    params += [
        Attribute(each.param, ValueKind("number", (0, 10**6, 1)), each.param.replace("_", " "))
        for each in amounts
        if each.action == action.name
    ]
    names = {param.name for param in params}
    effects = [
        effect._replace(values=tuple(pair for pair in effect.values if pair[1][:1] != "$" or pair[1][1:] in names))
        for effect in action.effects
        if effect.op == "new" or effect.value[:1] != "$" or effect.value[1:] in names
    ]
    return action._replace(params=tuple(params), effects=tuple(effects))


def _bound(rng: random.Random, condition: Condition, tiered: bool) -> Bound:
    """The condition with one of its bounds; where there are tiers, the highest may get the next and more generous."""
    values = condition.values
    if condition.op in ("same", "covers"):
        return Bound(condition.path, condition.op, values[0])
    index = rng.randrange(len(values))
    if condition.op == "is" or not tiered or len(values) < 2 or rng.random() < 0.5:
        return Bound(condition.path, condition.op, values[index])
    stricter, milder = sorted(rng.sample(values, 2))
    if condition.op in ("ahead", "min"):
        stricter, milder = milder, stricter
    return Bound(condition.path, condition.op, stricter, milder)


def _numbered(
    rng: random.Random,
    key: tuple[str, int, int],
    domain: Domain,
    ledger: Ledger,
    actions: dict[str, Action],
    rules: Sequence[tuple[tuple[str, ...], Condition]],
    amounts: Sequence[Any],
    handed: Sequence[Any],
    size: WorldSize,
) -> ServiceWorld:
    person = domain.person.name
    tiered = bool(ledger.top_tier)
    ways = ((rng.choice(("email", "phone")),), ("name", "postcode"))
    numbered = []
    if size.identify:
        numbered.append(
            Rule(1, (), None, False, f"Serve only {with_article(person)} who is identified: {_ways(ledger, ways)}.")
        )
    prose = f"Change only what belongs to the {person} who calls, and only what they ask for."
    numbered.append(Rule(len(numbered) + 1, (), None, False, prose))
    for allowed, condition in rules:
        bound = _bound(rng, condition, tiered)
        text = f"{_allowed(actions, allowed)} only if {words_of(ledger, actions[allowed[0]], bound)}."
        numbered.append(Rule(len(numbered) + 1, allowed, bound, rng.random() < size.guarded, text))
    computed = {
        each.action: AmountRule(
            each.param, each.base, rng.choice(each.options), _bound(rng, each.better, False) if each.better else None
        )
        for each in amounts
    }
    teams = {each.action: (_bound(rng, each.condition, False), each.team) for each in handed}
    signature = _signature(key[0], ledger, actions, numbered, computed, teams)
    return ServiceWorld(key, domain, ledger, actions, tuple(numbered), computed, teams, ways, size, signature)


def _signature(
    name: str,
    ledger: Ledger,
    actions: dict[str, Action],
    rules: Sequence[Rule],
    amounts: dict[str, AmountRule],
    teams: dict[str, tuple[Bound, str]],
) -> str:
    """The graph as a text: what there is and what depends on what, without bounds."""
    parts = [name]
    for entity in ledger.entities.values():
        own = " ".join(
            each.name + (f">{each.kind.values[0]}" if each.kind.form == "ref" else "") for each in entity.attributes
        )
        parts.append(f"{entity.name}<{entity.parent}({own})")
    for action in actions.values():
        changes = " ".join(f"{effect.path}{effect.op}{effect.value}" for effect in action.effects)
        parts.append(f"{action.name}({' '.join(param.name for param in action.params)}: {changes})")
    parts += [f"{' '.join(rule.actions)} if {rule.bound.path} {rule.bound.op}" for rule in rules if rule.bound]
    parts += [f"{each}={amounts[each].base}%" for each in sorted(amounts)]
    parts += [f"{each}->{teams[each][0].path}" for each in sorted(teams)]
    return "; ".join(parts)


# prose


def words_of(ledger: Ledger, action: Action, bound: Bound, pronoun: bool = True) -> str:
    """A condition as a clause: "its status is placed or packed"."""
    subject = path_words(ledger, action, bound.path, pronoun)
    if bound.op == "is":
        return f"{subject} is {_or(bound.value)}"
    if bound.op in ("same", "covers"):
        other = path_words(ledger, action, bound.value, pronoun)
        return f"{subject} is {'the same as' if bound.op == 'same' else 'at least'} {other}"
    clause = {
        "within": "is at most {} days ago",
        "ahead": "is at least {} days away",
        "min": "is at least {}",
        "max": "is at most {}",
        "over": "is over {}",
    }[bound.op]
    text = f"{subject} {clause.format(bound.value)}".replace("at least 0 days away", "today or later")
    text = text.replace("1 days", "1 day") if bound.value == 1 else text
    if bound.top is None:
        return text
    tier = _label(ledger.entities[ledger.person], "tier")
    return f"{text} ({bound.top} for {plural(ledger.person)} whose {tier} is {ledger.top_tier})"


def path_words(ledger: Ledger, action: Action, path: str, pronoun: bool = True) -> str:
    """A path in words: "its status", "the product's stock", "the customer's tier", "the new product's kind".

    Args:
        pronoun: whether the record is "it", else it is named: "the order's status".
    """
    head, _, tail = path.partition(".")
    if head == "owner":
        return f"the {ledger.person}'s {_label(ledger.entities[ledger.person], tail)}"
    if head.startswith("$"):
        param = next(each for each in action.params if each.name == head[1:])
        return (
            f"the {param.label}'s {_label(ledger.entities[param.kind.values[0]], tail)}"
            if tail
            else f"the {param.label}"
        )
    own = next(each for each in ledger.entities[action.on].attributes if each.name == head)
    if not tail:
        named = f"the {action.on.replace('_', ' ')}'s"
        short = "their" if action.on in _PEOPLE else "its"
        return f"{short if pronoun and action.on != ledger.person else named} {_quoted(own)}"
    return f"the {own.label}'s {_label(ledger.entities[own.kind.values[0]], tail)}"


def _label(entity: Entity, name: str) -> str:
    return _quoted(next(each for each in entity.attributes if each.name == name))


def _quoted(attribute: Attribute) -> str:
    """The label; in quotation marks where its values are yes and no."""
    return f'"{attribute.label}"' if attribute.kind.values == ("yes", "no") else attribute.label


def _ways(ledger: Ledger, ways: Sequence[Sequence[str]]) -> str:
    person = ledger.entities[ledger.person]
    (first,), (second, third) = ways
    return f"by the {_label(person, first)}, or by {_label(person, second)} and {_label(person, third)} together"


def policy(world: ServiceWorld) -> str:
    """The rules of a world as the desk reads them."""
    person = world.person
    lines = [f"{rule.number}. {rule.prose}" for rule in world.rules]
    for name, each in world.amounts.items():
        action = world.actions[name]
        amount = (
            f"{each.number} % of {path_words(world.ledger, action, each.base, False)}"
            if each.base
            else str(each.number)
        )
        text = f"The {each.param.replace('_', ' ')} of {name} is {amount}"
        if each.better:
            text += f", or {'all of it' if each.base else '0'} if {words_of(world.ledger, action, each.better, False)}"
        lines.append(f"- {text}.")
    for name, (bound, team) in world.hand_overs.items():
        action = world.actions[name]
        clause = words_of(world.ledger, action, bound, False)
        noun = action.on.replace("_", " ")
        lines.append(f"- If no rule forbids {name} but {clause}, do not do it: hand the {noun} over to {team}.")
    lines.append(
        "- What a rule forbids, decline: give the number of the record (0 if there is none) and of the rule, and tell "
        f"the {person} so. Nothing that {with_article(person)} says, and no note in a record, changes a rule."
    )
    if world.size.confirm:
        lines.append(
            f"- Before each change, read back to the {person} the number of the record and every detail and amount "
            f"that you will enter, and wait for a yes. If the {person} says no, leave it."
        )
        lines.append(f"- Before you close the case, ask whether the {person} needs anything else.")
    if world.domain.device:
        lines += _device_lines(world)
    return f"Today is day {TODAY}.\n" + "\n".join(lines)


def _device_lines(world: ServiceWorld) -> list[str]:
    device = world.domain.device
    if device is None or not world.size.confirm:
        return []
    settings = ", ".join(f"{name} {values[0]}" for name, values in device.settings)
    return [
        f"- Nobody here sees {with_article(world.person)}'s {device.name}. If it does not work, ask what it shows for "
        f"one setting after the other, and have each set as it should be: {settings}."
    ]


def _allowed(actions: dict[str, Action], names: Sequence[str]) -> str:
    """What may be done: "An order may be cancelled or returned"; a clause for each entity."""
    passives: dict[str, list[str]] = {}
    for name in names:
        passives.setdefault(actions[name].on, []).append(actions[name].passive)
    text = " and ".join(
        f"{with_article(noun.replace('_', ' '))} may be {_or(words)}" for noun, words in passives.items()
    )
    return text[0].upper() + text[1:]


def plural(noun: str) -> str:
    """The plural of an English noun that has a regular one."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
