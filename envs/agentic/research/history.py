"""A made-up history: people, towns, firms, books and prizes, of which nothing contradicts anything else.

Nobody writes before they are grown up or after they have died, no firm is older than its founder, and so on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeVar

from rlvr.envs.agentic import made_up_names as names
from rlvr.envs.core.seeding import stream

NOW: Final = 2020
CENSUSES: Final = range(1900, 2011, 10)
MAYORS_SINCE: Final = 1946
GROWN, RETIRED, OLDEST = 20, 68, 96  # years of age
_TRIES: Final = 60
T = TypeVar("T")


class WorldKey(NamedTuple):
    """What names a world: everything else is drawn from it.

    Attributes:
        split: worlds of two splits share nothing but words.
        number: which world of its split.
        size: how many towns there are; for each about 20 documents.
        disputed: whether sources differ, people write under other names, and some things are not known.
    """

    split: str
    number: int
    size: int
    disputed: bool


class Person(NamedTuple):
    """``died`` is 0 for the living; ``jobs`` are firms with their first and last year; ``pen``, a name on books."""

    name: str
    born: int
    died: int
    birthplace: str
    profession: str
    teacher: str
    jobs: tuple[tuple[str, int, int], ...]
    pen: str

    @property
    def last(self) -> int:
        """The last year in which they lived."""
        return self.died or NOW


class Town(NamedTuple):
    """``census`` holds inhabitants by year, ``mayors`` a name with the first and last year of each term."""

    name: str
    river: str
    settled: int
    census: dict[int, int]
    mayors: tuple[tuple[str, int, int], ...]


class Firm(NamedTuple):
    """``bases`` are towns with the first and last year there."""

    name: str
    founded: int
    founder: str
    product: str
    bases: tuple[tuple[str, int, int], ...]


class Book(NamedTuple):
    """A book, whose author it names by pen name where there is one."""

    name: str
    author: str
    year: int
    publisher: str
    pages: int


class Prize(NamedTuple):
    """``winners`` are years with the title of a book."""

    name: str
    winners: tuple[tuple[int, str], ...]


class MadeUpHistory(NamedTuple):
    """All that happened, by name."""

    people: dict[str, Person]
    towns: dict[str, Town]
    firms: dict[str, Firm]
    books: dict[str, Book]
    prizes: dict[str, Prize]


@lru_cache(maxsize=16)
def history(key: WorldKey) -> MadeUpHistory:
    """The history of a world; it depends on nothing but its key."""
    rng = random.Random(stream("rlvr/Research-v0", "history", *key).getrandbits(64))
    taken: set[str] = set()
    towns = names.distinct(_town if key.size > 300 else names.town, rng, key.size, taken)
    people = _people(rng, names.distinct(names.person, rng, 4 * key.size, taken), towns)
    firms = _firms(rng, names.distinct(_firm, rng, 2 * key.size, taken), people, towns)
    publishers = list(firms.values())[: max(3, key.size // 2)]
    titles = names.distinct(lambda draw: _title(draw, towns), rng, 5 * key.size, taken)
    books = _books(rng, titles, list(people.values()), publishers)
    pens = iter(names.distinct(names.person, rng, key.size, taken) if key.disputed else ())
    authors = list(dict.fromkeys(book.author for book in books.values()))
    people |= {name: person._replace(jobs=_jobs(rng, person, list(firms.values()))) for name, person in people.items()}
    people |= {name: people[name]._replace(pen=pen) for name, pen in zip(authors[::3], pens, strict=False)}
    prizes = {name: _prize(rng, name, books) for name in names.distinct(_prize_name, rng, _prizes(key.size), taken)}
    return MadeUpHistory(people, _towns(rng, towns, people), firms, books, prizes)


def _prizes(size: int) -> int:
    return min(100, 1 + size // 4)


def _town(rng: random.Random) -> str:
    which = rng.choice(
        ("", "Upper ", "Lower ", "Old ", "New ", "Great ", "Little ", "North ", "South ", "East ", "West ")
    )
    return which + names.town(rng)


def _firm(rng: random.Random) -> str:
    return f"{names.surname(rng)} {rng.choice(names.HOUSES)}" if rng.random() < 0.6 else _two_owners(rng)


def _two_owners(rng: random.Random) -> str:
    return f"{names.surname(rng)} & {names.surname(rng)}"


def _title(rng: random.Random, towns: list[str]) -> str:
    thing, being = rng.choice(names.THINGS), rng.choice(names.BEINGS)
    return rng.choice(
        (
            f"The {thing} of {rng.choice(towns)}",
            f"The {rng.choice(names.COLOURS)} {being} and the {thing}",
            f"{'An' if being[0] in 'AEIOU' else 'A'} {being} for {rng.choice(names.FIRST)}",
            f"{rng.choice(names.FIRST)} and the {thing}",
        )
    )


def _prize_name(rng: random.Random) -> str:
    return f"{rng.choice(names.COLOURS)} {rng.choice(names.THINGS)} Prize"


def _people(rng: random.Random, called: list[str], towns: list[str]) -> dict[str, Person]:
    people: dict[str, Person] = {}
    for name in called:
        born = rng.randint(1890, 1990)
        died = born + rng.randint(56, OLDEST)
        teacher = _found(rng, list(people.values()), partial(_is_teacher, born=born))
        people[name] = Person(
            name,
            born,
            died if died < NOW else 0,
            rng.choice(towns),
            rng.choice(names.PROFESSIONS),
            teacher.name if teacher else "",
            (),
            "",
        )
    return people


def _found(rng: random.Random, among: list[T], fits: Callable[[T], bool]) -> T | None:
    """One that fits, of those that are looked at."""
    for _ in range(_TRIES if among else 0):
        if fits(one := rng.choice(among)):
            return one
    return None


def _is_teacher(person: Person, born: int) -> bool:
    return 15 <= born - person.born <= 60 and person.last >= born + 12


def _is_open(firm: Firm, year: int, but: str = "") -> bool:
    return firm.founded <= year and firm.name != but


def _governs(person: Person, first: int, last: int) -> bool:
    return person.born + 30 <= first and last <= min(person.born + 80, person.last)


def _firms(rng: random.Random, called: list[str], people: dict[str, Person], towns: list[str]) -> dict[str, Firm]:
    firms, grown = {}, [person for person in people.values() if person.born < 1975]
    for name in called:
        founder = rng.choice(grown or list(people.values()))
        founded = rng.randint(founder.born + GROWN + 4, min(founder.born + 55, founder.last, NOW - 6))
        moves = sorted(rng.sample(range(founded + 2, NOW - 1), rng.choice((0, 1, 1, 2)))) if NOW - founded > 8 else []
        at = rng.sample(towns, len(moves) + 1)
        bases = zip(at, [founded, *moves], [*(year - 1 for year in moves), NOW], strict=True)
        firms[name] = Firm(name, founded, founder.name, rng.choice(names.PRODUCTS), tuple(bases))
    return firms


def _jobs(rng: random.Random, person: Person, firms: list[Firm]) -> tuple[tuple[str, int, int], ...]:
    jobs: list[tuple[str, int, int]] = []
    year, last = person.born + rng.randint(GROWN, 30), min(person.born + RETIRED, person.last)
    while year + 3 <= last and len(jobs) < 3:
        until = min(last, year + rng.randint(3, 18))
        firm = _found(rng, firms, partial(_is_open, year=year, but=jobs[-1][0] if jobs else ""))
        if firm:
            jobs.append((firm.name, year, until))
        year = until + 1
    return tuple(jobs)


def _books(rng: random.Random, titles: list[str], people: list[Person], publishers: list[Firm]) -> dict[str, Book]:
    books = {}
    for title in titles:
        while True:
            author = rng.choice(people)
            year = rng.randint(author.born + GROWN + 2, min(author.born + 80, author.last))
            publisher = _found(rng, publishers, partial(_is_open, year=year))
            if publisher:
                break
        books[title] = Book(title, author.name, year, publisher.name, rng.randint(61, 980))
    return books


def _prize(rng: random.Random, name: str, books: dict[str, Book]) -> Prize:
    winners, won, year = [], set(), rng.randint(1950, 1955)
    by_year: dict[int, list[str]] = {}
    for book in books.values():
        by_year.setdefault(book.year, []).append(book.name)
    while year <= NOW:
        new = [title for back in (1, 2, 3) for title in by_year.get(year - back, ()) if title not in won]
        if new:
            winners.append((year, rng.choice(new)))
            won.add(winners[-1][1])
        year += rng.randint(2, 4)
    return Prize(name, tuple(winners))


def _towns(rng: random.Random, called: list[str], people: dict[str, Person]) -> dict[str, Town]:
    towns, everybody = {}, list(people.values())
    for name in called:
        census, count = {}, rng.randint(900, 60_000)
        for year in CENSUSES:
            census[year] = count
            count = max(200, round(count * rng.uniform(0.88, 1.25)))
        mayors: list[tuple[str, int, int]] = []
        year = MAYORS_SINCE
        while year < NOW - 3:
            first, last = year, min(NOW, year + rng.randint(2, 13))
            mayor = _found(rng, everybody, partial(_governs, first=first, last=last))
            if mayor and mayor.name not in [each for each, _, _ in mayors]:
                mayors.append((mayor.name, first, last))
                year = last + 1
            else:  # nobody held the office
                year += 1
        towns[name] = Town(name, rng.choice(names.RIVERS), rng.randint(1000, 1850), census, tuple(mayors))
    return towns
