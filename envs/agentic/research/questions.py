"""Questions about a history: a walk from one name to another, and what is asked of the last one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeVar

from rlvr.envs.agentic.research.history import WorldKey, history
from rlvr.envs.agentic.research.library import DOUBTED, Fact, books_by, catalogue, firms_in, truth

UNKNOWN: Final = "unknown"
KINDS: Final = ("people", "towns", "firms", "books", "prizes")
T = TypeVar("T")
K = TypeVar("K")
_TRIES: Final = 300


class ResearchLevel(NamedTuple):
    """Sizes of a level.

    Attributes:
        size: towns of the world; for each about 20 documents.
        worlds: how many worlds a split has.
        steps: the fewest and the most names from the one that is given to the one that is asked about.
        asks: what may be asked at the end, names of `ASKS`.
        disputed: whether sources differ and the answer has to be cited.
        unknown: the share of questions that no document answers.
        calls: how many calls an episode may make.
    """

    size: int
    worlds: int
    steps: tuple[int, int]
    asks: tuple[str, ...]
    disputed: bool
    unknown: float
    calls: int


_FIELDS: Final = ("born", "profession", "river", "product", "founded", "year", "died", "settled", "pages")
_TABLES: Final = ("inhabitants", "growth", "longest", "thickest")
_JOINS: Final = ("age", "mayor_then", "books_before", "first_firm")
LEVELS: Final = (
    ResearchLevel(6, 1000, (0, 1), _FIELDS, False, 0.0, 8),
    ResearchLevel(12, 1000, (1, 2), (*_FIELDS, *_TABLES), False, 0.0, 12),
    ResearchLevel(25, 300, (1, 2), (*_FIELDS, *_TABLES, "age", "mayor_then"), True, 0.0, 18),
    ResearchLevel(60, 100, (2, 3), (*_FIELDS, *_TABLES, *_JOINS), True, 0.15, 26),
    ResearchLevel(125, 40, (3, 4), (*_TABLES, *_JOINS), True, 0.15, 34),
)
# What is asked in one held-out split alone.
HELD_OUT: Final = {
    "settled": "validation", "growth": "validation", "books_before": "validation",
    "pages": "test", "longest": "test", "mayor_then": "test",
}  # fmt: skip


class ResearchQuestion(NamedTuple):
    """A question and all that decides its reward.

    Attributes:
        words: the question.
        answer: a number or a name, or ``unknown``.
        form: the grader of the answer, ``number`` or ``exact``.
        facts: what the answer rests on, in the order in which it is found.
        plan: the relations of the walk and what is asked, which make its kind.
        missing: the fact that no document states, where the answer is ``unknown``.
    """

    words: str
    answer: str
    form: str
    facts: tuple[Fact, ...]
    plan: str
    missing: Fact | None = None


class AskedAbout(NamedTuple):
    """What a walk has come to: its name, the words that lead to it, and the facts that these rest on."""

    kind: str
    name: str
    words: str
    facts: tuple[Fact, ...]


class UnsuitableQuestion(Exception):
    """What was drawn is no question."""


def question(key: WorldKey, level: ResearchLevel, rng: random.Random) -> ResearchQuestion:
    """A question of a level. In a held-out split every other one asks what no other split asks."""
    held_out = [ask for ask in level.asks if HELD_OUT.get(ask) == key.split]
    common = [ask for ask in level.asks if ask not in HELD_OUT]
    open_ended = rng.random() < level.unknown
    pool = held_out if held_out and rng.random() < 0.5 else common
    if open_ended:
        pool = list(DOUBTED)
    while True:
        ask = rng.choice(pool)
        for _ in range(_TRIES):  # what is asked is kept, or what is seldom possible would seldom be asked
            try:
                return _drawn(key, level, rng, ask, open_ended)
            except UnsuitableQuestion:
                pass


def _drawn(key: WorldKey, level: ResearchLevel, rng: random.Random, ask: str, open_ended: bool) -> ResearchQuestion:
    at, plan = _start(key, rng), []
    met = {at.name}
    for _ in range(rng.randint(*level.steps)):
        onward = [(relation, to) for relation, to in _onward(key, rng, at) if to.name not in met]
        if not onward:
            raise UnsuitableQuestion
        relation, at = rng.choice(onward)
        met.add(at.name)
        plan.append(relation)
    words, answer, facts = ASKS[ask](key, rng, at)
    unknown = catalogue(key).unknown
    needed = tuple(dict.fromkeys((*at.facts, *facts)))
    if (facts[-1] in unknown) != open_ended or any(fact in unknown for fact in needed if fact != facts[-1]):
        raise UnsuitableQuestion
    kind = "-".join((*plan, ask))
    if open_ended:
        return ResearchQuestion(words, UNKNOWN, "exact", needed[:-1], f"{kind}-{UNKNOWN}", needed[-1])
    return ResearchQuestion(words, answer, "number" if answer.isdigit() else "exact", needed, kind)


@lru_cache(maxsize=64)
def _names(key: WorldKey, kind: str) -> tuple[str, ...]:
    return tuple(getattr(history(key), kind))


def _start(key: WorldKey, rng: random.Random) -> AskedAbout:
    kind = rng.choice(KINDS)
    name = rng.choice(_names(key, kind))
    words = {"books": f"the book “{name}”", "prizes": f"the {name}"}.get(kind, name)
    return AskedAbout(kind, name, words, ())


def _author(key: WorldKey, title: str) -> tuple[str, tuple[Fact, ...]]:
    """Who wrote a book, and what says so: the book may bear another name."""
    author = history(key).books[title].author
    pen = history(key).people[author].pen
    return author, (("author", title), *((("pen", author),) if pen else ()))


def _onward(key: WorldKey, rng: random.Random, at: AskedAbout) -> Iterator[tuple[str, AskedAbout]]:
    """Each relation that leads on from a subject, and where to; a year is drawn where it takes one."""
    world = history(key)

    def to(relation: str, kind: str, name: str, words: str, *facts: Fact) -> tuple[str, AskedAbout]:
        return relation, AskedAbout(kind, name, words.format(x=at.words), (*at.facts, *facts))

    if at.kind == "people":
        person = world.people[at.name]
        yield to("birthplace", "towns", person.birthplace, "the birthplace of {x}", ("birthplace", at.name))
        if person.teacher:
            yield to("teacher", "people", person.teacher, "the teacher of {x}", ("teacher", at.name))
        for firm, first, last in rng.sample(person.jobs, min(1, len(person.jobs))):
            words = f"the firm that in {rng.randint(first, last)} employed {{x}}"
            yield to("employer", "firms", firm, words, ("employer", at.name, first))
    elif at.kind == "towns":
        for mayor, first, last in rng.sample(world.towns[at.name].mayors, min(1, len(world.towns[at.name].mayors))):
            words = f"the person who in {rng.randint(first, last)} was mayor of {{x}}"
            yield to("mayor", "people", mayor, words, ("mayor", at.name, first))
    elif at.kind == "firms":
        yield to("founder", "people", world.firms[at.name].founder, "the founder of {x}", ("founder", at.name))
        town, first, last = rng.choice(world.firms[at.name].bases)
        words = f"the seat, in {rng.randint(first, last)}, of {{x}}"
        yield to("seat", "towns", town, words, ("seat", at.name, first))
    elif at.kind == "books":
        author, facts = _author(key, at.name)
        yield to("author", "people", author, "the author of {x}", *facts)
        publisher = world.books[at.name].publisher
        yield to("publisher", "firms", publisher, "the firm that published {x}", ("publisher", at.name))
    elif world.prizes[at.name].winners:
        year, title = rng.choice(world.prizes[at.name].winners)
        yield to("winner", "books", title, f"the book that in {year} won {{x}}", ("winner", at.name, year))


# What is asked at the end of a walk: the question, its answer and the facts that it rests on beside those of the walk.
Asked = tuple[str, str, tuple[Fact, ...]]
FIELDS: Final = {
    "born": ("people", "In which year was {x} born?"),
    "died": ("people", "In which year did {x} die?"),
    "profession": ("people", "For which profession was {x} trained?"),
    "river": ("towns", "On which river does {x} lie?"),
    "settled": ("towns", "In which year did people first settle in {x}?"),
    "product": ("firms", "What does {x} make?"),
    "founded": ("firms", "In which year was {x} founded?"),
    "year": ("books", "In which year did {x} appear?"),
    "pages": ("books", "How many pages does {x} have?"),
}


def _field(key: WorldKey, rng: random.Random, at: AskedAbout, field: str) -> Asked:
    kind, words = FIELDS[field]
    if at.kind != kind or (field == "died" and not history(key).people[at.name].died):
        raise UnsuitableQuestion
    fact = (field, at.name)
    return words.format(x=at.words), truth(history(key), fact), (fact,)


def inhabitants(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """A number out of a table."""
    census = _of(at, "towns", history(key).towns).census
    year = rng.choice(list(census))
    return (
        f"At the census of {year}, how many people lived in {at.words}?",
        str(census[year]),
        (("census", at.name, year),),
    )


def growth(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """The largest difference of neighbouring rows."""
    census = _of(at, "towns", history(key).towns).census
    grown = {year: count - census[year - 10] for year, count in census.items() if year - 10 in census}
    year = _only(grown, max)
    words = f"From one census to the next, ten years later, when did {at.words} gain most inhabitants? Answer with the"
    words += " year of the later one."
    return words, str(year), (("census", at.name, year - 10), ("census", at.name, year))


def longest(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """The longest term of a table."""
    mayors = _of(at, "towns", history(key).towns).mayors
    terms = {(name, first): last - first for name, first, last in mayors}
    name, first = _only(terms, max)
    return f"Since 1946, who was mayor of {at.words} for the longest time?", name, (("mayor", at.name, first),)


def thickest(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """The largest number of a column, in the catalogue of a publisher."""
    published = books_by(key, "publisher").get(at.name, ()) if at.kind == "firms" else ()
    if len(published) < 3:
        raise UnsuitableQuestion
    title = _only({book.name: book.pages for book in published}, max)
    return f"Which of the books that {at.words} published has the most pages?", title, (("pages", title),)


def age(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """The difference of two years in two documents."""
    book = _of(at, "books", history(key).books)
    author, facts = _author(key, book.name)
    words = (
        f"How many years lie between the year of birth of the author of {at.words} and the year in which it appeared?"
    )
    return words, str(book.year - history(key).people[author].born), (("year", book.name), *facts, ("born", author))


def mayor_then(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """Two documents joined by a year."""
    town, title = _of(at, "towns", history(key).towns), rng.choice(_names(key, "books"))
    year = history(key).books[title].year
    for mayor, first, last in town.mayors:
        if first <= year <= last:
            words = f"Who was mayor of {at.words} in the year in which the book “{title}” appeared?"
            return words, mayor, (("year", title), ("mayor", at.name, first))
    raise UnsuitableQuestion


def books_before(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """A count over documents that one list names."""
    _of(at, "people", history(key).people)
    books = books_by(key, "author").get(at.name, [])
    if not 2 <= len(books) <= 6:
        raise UnsuitableQuestion
    year = rng.choice(books[1:]).year
    earlier = [book for book in books if book.year < year]
    if not earlier:
        raise UnsuitableQuestion
    words = f"How many of the books that {at.words} has written appeared before {year}?"
    return words, str(len(earlier)), (("books", at.name), *(("year", book.name) for book in books))


def first_firm(key: WorldKey, rng: random.Random, at: AskedAbout) -> Asked:
    """The least year over documents that one list names."""
    _of(at, "towns", history(key).towns)
    firms = firms_in(key).get(at.name, [])
    if not 2 <= len(firms) <= 5:
        raise UnsuitableQuestion
    name = _only({firm: history(key).firms[firm].founded for firm in firms}, min)
    words = f"Which firm was founded first, of those that have or once had their seat in {at.words}?"
    return words, name, (("firms", at.name), *(("founded", firm) for firm in firms))


def _of(at: AskedAbout, kind: str, members: dict[str, T]) -> T:
    if at.kind != kind:
        raise UnsuitableQuestion
    return members[at.name]


def _only(values: dict[K, int], extreme: Callable[..., int]) -> K:
    """The one of the extreme value.

    Raises:
        UnsuitableQuestion: there are several, or none.
    """
    found = [name for name, value in values.items() if value == extreme(values.values())]
    if len(found) != 1:
        raise UnsuitableQuestion
    return found[0]


ASKS: Final[dict[str, Callable[[WorldKey, random.Random, AskedAbout], Asked]]] = {
    **{
        each.__name__: each
        for each in (inhabitants, growth, longest, thickest, age, mayor_then, books_before, first_firm)
    },
    **{field: partial(_field, field=field) for field in FIELDS},
}
