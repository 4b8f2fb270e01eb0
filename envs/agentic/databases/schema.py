"""A schema: the part of a domain that one database has, drawn for a level, with names of tables and columns."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from rlvr.envs.agentic.databases.domains import HELD_OUT_DOMAINS, DataEntity, entities
from rlvr.envs.core.seeding import split_of, stream


class DatabaseSize(NamedTuple):
    """What the databases of a level are like.

    Attributes:
        tables: bounds of their number.
        own: how many tables of the domain itself there are, at the most.
        dirt: the share of columns and tables whose values are not what they seem.
        tricks: which ways of storing values there are; see ``storage``.
        questions: bounds of the number of questions.
        calls: how many calls an episode may make.
    """

    tables: tuple[int, int]
    own: int
    dirt: float
    tricks: frozenset[str]
    questions: tuple[int, int]
    calls: int


_TRICKS: Final = (
    "codes yes-no",
    "small compact deleted default filled",
    "lookup mixed-dates hand unknown comma",
    "repeated units history",
    "prefix source",
)
_UP_TO: Final = [frozenset(" ".join(_TRICKS[: level + 1]).split()) for level in range(5)]
SIZES: Final = (
    DatabaseSize((5, 6), 4, 0.4, _UP_TO[0], (1, 1), 8),
    DatabaseSize((8, 10), 6, 0.6, _UP_TO[1], (1, 1), 12),
    DatabaseSize((12, 15), 7, 0.75, _UP_TO[2], (1, 2), 24),
    DatabaseSize((18, 22), 8, 0.85, _UP_TO[3], (2, 2), 32),
    DatabaseSize((26, 30), 9, 1.0, _UP_TO[4], (3, 3), 48),
)


class DatabaseKey(NamedTuple):
    """What names a database: everything else is made from it."""

    level: int
    domain: str
    seed: int


class Schema(NamedTuple):
    """The entities of a database, those of the domain first.

    Attributes:
        own: the entities that questions are about.
        style: how columns are named: ``plain``, ``initial`` (of the table) or ``numbered``.
        signature: the graph: entities with their attributes and references.
    """

    key: DatabaseKey
    entities: dict[str, DataEntity]
    own: tuple[str, ...]
    style: str
    signature: str

    @property
    def split(self) -> str:
        """The split whose tasks it belongs to."""
        return split_of(self.signature)


@lru_cache(maxsize=512)
def schema(key: DatabaseKey) -> Schema:
    """The schema of a database; one of a held-out domain has a graph of that domain's split."""
    wanted = HELD_OUT_DOMAINS.get(key.domain)
    for attempt in count():
        drawn = _drawn(key, stream("rlvr/SQL-v0", "schema", *key, attempt))
        if wanted in (None, drawn.split):
            return drawn
    raise AssertionError("unreachable")


def _drawn(key: DatabaseKey, rng: random.Random) -> Schema:
    size, everything = SIZES[key.level - 1], entities(key.domain)
    own = _connected(rng, everything, min(size.own, len(everything)))
    tables = rng.randint(*size.tables)
    house = _closed(rng, entities("house"), max(tables - len(own) - _spare(key.level), 1))
    chosen = {name: _reduced(rng, everything[name], own, key.level) for name in everything if name in own}
    chosen |= {name: _reduced(rng, entities("house")[name], house, key.level) for name in house if name not in chosen}
    style = rng.choice(("plain", "plain", "initial") if key.level < 4 else ("plain", "initial", "numbered"))
    signature = "; ".join(
        f"{each.singular}({','.join(a.noun for a in each.attributes)})>{','.join(each.refs)}"
        for each in chosen.values()
    )
    return Schema(key, chosen, tuple(own), style, f"{key.domain}: {signature}")


def _spare(level: int) -> int:
    """How many tables are kept for codes and histories, which are added when the values are stored."""
    return (0, 0, 1, 1, 2)[level - 1]


def _connected(rng: random.Random, pool: dict[str, DataEntity], size: int) -> list[str]:
    """So many entities, each of which refers to one of the others or is referred to by one."""
    chosen = [rng.choice([name for name, each in pool.items() if each.refs])]
    while len(chosen) < size:
        near = [
            name
            for name, each in pool.items()
            if name not in chosen
            and (set(each.refs) & set(chosen) or any(name in pool[other].refs for other in chosen))
        ]
        if not near:
            break
        chosen.append(rng.choice(near))
    return [name for name in pool if name in chosen]


def _closed(rng: random.Random, pool: dict[str, DataEntity], size: int) -> list[str]:
    chosen = rng.sample(list(pool), min(size, len(pool)))
    return [name for name in pool if name in chosen]


def _reduced(rng: random.Random, entity: DataEntity, present: list[str], level: int) -> DataEntity:
    """The entity with a part of its attributes, and references to what there is."""
    least = min(2, len(entity.attributes))
    kept = rng.sample(entity.attributes, rng.randint(least, max(least, len(entity.attributes) - (level < 3))))
    refs = {name: words for name, words in entity.refs.items() if name in present}
    return entity._replace(attributes=tuple(each for each in entity.attributes if each in kept), refs=refs)


# names


def abbreviated(noun: str, taken: set[str], length: int = 5) -> str:
    """A short name for a column or a table that is no word: without vowels, and unlike those that are taken."""
    words = re.findall(r"[a-z]+", noun.lower())
    words = [word for word in words if word not in ("of", "the", "in")] or words
    parts = [word[0] + re.sub(r"[aeiouy]", "", word[1:]) for word in words]
    stem = "_".join(part[:length] for part in parts[:2])
    name = next(name for name in _numbered(stem) if name not in taken and name != noun and name not in _KEYWORDS)
    taken.add(name)
    return name


_KEYWORDS: Final = frozenset("as by do if in is no of on or to end set key row all and asc not for fl st".split())


def _numbered(stem: str) -> Iterator[str]:
    yield stem if len(stem) > 1 else f"{stem}_x"
    for number in count(2):
        yield f"{stem}{number}"
