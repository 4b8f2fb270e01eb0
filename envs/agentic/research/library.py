"""The documents of a history: entries, registers, catalogues, lists, newspapers and letters, each with what it states.

A document is written when it is read: its words depend on nothing but its title and the world.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.agentic.made_up_names import PRODUCTS, PROFESSIONS
from rlvr.envs.agentic.research.history import GROWN, NOW, Book, MadeUpHistory, WorldKey, history
from rlvr.envs.core.seeding import stream

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
PROSE: Final = ("person", "town", "firm", "book", "account")  # what else there is are tables
# What sources may differ on or be silent about.
DOUBTED: Final = {"born": "people", "profession": "people", "founded": "firms", "product": "firms"}
Fact = tuple[str | int, ...]  # what is stated: an attribute, of whom or what, and which of several, such as a year


class StatedFact(NamedTuple):
    """A sentence or a row of a table, and the value that it gives to a fact."""

    sentence: str
    value: str


class ResearchDocument(NamedTuple):
    """A document's paragraphs, and what it states."""

    paragraphs: tuple[str, ...]
    states: dict[Fact, StatedFact]

    @property
    def text(self) -> str:
        """The whole document."""
        return "\n\n".join(self.paragraphs)


class Account(NamedTuple):
    """What a newspaper or a letter says of a fact on which sources differ."""

    title: str
    date: tuple[int, int, int]
    fact: Fact
    value: str
    kind: str


class Catalogue(NamedTuple):
    """All titles of a world, with what each is about, and on what its sources differ.

    Attributes:
        titles: the kind of each document and the name of what it is about.
        accounts: newspapers and letters by title.
        disputes: for each fact on which sources differ its accounts; the last one is right, unless a table settles it.
        unknown: facts that no document states.
    """

    titles: dict[str, tuple[str, str]]
    accounts: dict[str, Account]
    disputes: dict[Fact, tuple[Account, ...]]
    unknown: frozenset[Fact]


@lru_cache(maxsize=16)
def catalogue(key: WorldKey) -> Catalogue:
    """What documents a world has."""
    world = history(key)
    titles: dict[str, tuple[str, str]] = {}
    for kind, members in (
        ("person", world.people),
        ("town", world.towns),
        ("firm", world.firms),
        ("book", world.books),
    ):
        titles |= {name: (kind, name) for name in members}
    titles |= {f"Register of {town}": ("register", town) for town in world.towns}
    publishers = {book.publisher for book in world.books.values()}
    titles |= {f"Catalogue of {firm}": ("catalogue", firm) for firm in world.firms if firm in publishers}
    titles |= {f"List of winners of the {prize}": ("winners", prize) for prize in world.prizes}
    rng = random.Random(stream("rlvr/Research-v0", "disputes", *key).getrandbits(64))
    accounts: dict[str, Account] = {}
    disputes: dict[Fact, tuple[Account, ...]] = {}
    unknown: set[Fact] = set()
    if key.disputed:
        people, towns = list(world.people), list(world.towns)
        for number, name in enumerate((*world.people, *world.firms, *world.books)):
            facts = _facts_in_doubt(world, name)
            if number % 4 == 0:
                fact = rng.choice(facts)
                disputes[fact] = _accounts(rng, world, fact, accounts, people, towns)
                facts.remove(fact)
            if number % 5 == 0 and name not in world.books:
                unknown.add(rng.choice(facts))
    return Catalogue(titles | {title: ("account", title) for title in accounts}, accounts, disputes, frozenset(unknown))


def _facts_in_doubt(world: MadeUpHistory, name: str) -> list[Fact]:
    if name in world.books:
        return [("pages", name)]
    kind = "people" if name in world.people else "firms"
    return [(attribute, name) for attribute, of in DOUBTED.items() if of == kind]


def truth(world: MadeUpHistory, fact: Fact) -> str:
    """The value of a fact that is a field of somebody or something."""
    attribute, name = str(fact[0]), str(fact[1])
    for members in (world.people, world.towns, world.firms, world.books):
        if name in members:
            return str(getattr(members[name], attribute))
    raise KeyError(name)


def _accounts(
    rng: random.Random, world: MadeUpHistory, fact: Fact, taken: dict[str, Account], people: list[str], towns: list[str]
) -> tuple[Account, ...]:
    """Two to four accounts of a fact: letters, then newspapers, each by date, so that the last one is right.

    Of a book's pages all are wrong: the catalogue of its publisher settles them.
    """
    right, since = truth(world, fact), _known_since(world, fact)
    newspapers = rng.choice((0, 1, 1, 2))
    letters = max(rng.randint(0, 2), 2 - newspapers)
    dates: set[tuple[int, int, int]] = set()
    while len(dates) < newspapers + letters:
        dates.add((rng.randint(since, NOW), rng.randint(1, 12), rng.randint(1, 28)))
    kinds = ["letter"] * letters + ["newspaper"] * newspapers
    drawn = sorted(zip(kinds, rng.sample(sorted(dates), len(dates)), strict=True))
    values = _others(rng, fact, right, len(drawn))
    if fact[0] != "pages":
        values[-1] = right
    accounts = []
    for (kind, date), value in zip(drawn, values, strict=True):
        title = _headed(rng, world, kind, date, people, towns)
        while title in taken:
            title = _headed(rng, world, kind, date, people, towns)
        taken[title] = Account(title, date, fact, value, kind)
        accounts.append(taken[title])
    return tuple(accounts)


def _headed(
    rng: random.Random, world: MadeUpHistory, kind: str, date: tuple[int, int, int], people: list[str], towns: list[str]
) -> str:
    """A title: of letters between two who lived, if some can be found."""
    day = f"{date[2]} {MONTHS[date[1] - 1]} {date[0]}"
    if kind == "newspaper":
        return f"{rng.choice(towns)} Courier, {day}"
    seen = rng.sample(people, min(40, len(people)))
    living = [name for name in seen if world.people[name].born + GROWN <= date[0] < world.people[name].last]
    return f"Letter of {' to '.join((living + seen)[:2])}, {day}"


def _known_since(world: MadeUpHistory, fact: Fact) -> int:
    name = str(fact[1])
    if name in world.people:
        return min(NOW - 1, world.people[name].born + 30)
    return min(NOW - 1, (world.firms[name].founded if name in world.firms else world.books[name].year) + 1)


def _others(rng: random.Random, fact: Fact, right: str, count: int) -> list[str]:
    """Values that are not right, no two of them equal."""
    if right.isdigit():
        shifts = rng.sample([shift for shift in range(-9, 10) if shift], count)
        return [str(int(right) + shift) for shift in shifts]
    words = PROFESSIONS if fact[0] == "profession" else PRODUCTS
    return rng.sample([word for word in words if word != right], count)


def sources(key: WorldKey, fact: Fact) -> tuple[str, ...]:
    """The titles of the documents that settle a fact: where sources differ, the one that is right."""
    world, known = history(key), catalogue(key)
    attribute, name = str(fact[0]), str(fact[1])
    if fact in known.unknown:
        return ()
    if attribute in ("census", "mayor"):
        return (f"Register of {name}",)
    if attribute == "winner":
        return (f"List of winners of the {name}",)
    if attribute == "pages":
        return (f"Catalogue of {world.books[name].publisher}",)
    if fact in known.disputes:
        return (known.disputes[fact][-1].title,)
    if attribute in ("author", "year"):
        return (name, f"Catalogue of {world.books[name].publisher}")
    return (name,)


@lru_cache(maxsize=32)
def books_by(key: WorldKey, field: str) -> dict[str, list[Book]]:
    """The books of each author or publisher, by year."""
    found: dict[str, list[Book]] = {}
    for book in sorted(history(key).books.values(), key=lambda book: (book.year, book.name)):
        found.setdefault(getattr(book, field), []).append(book)
    return found


@lru_cache(maxsize=16)
def firms_in(key: WorldKey) -> dict[str, list[str]]:
    """The firms that ever had their seat in a town."""
    found: dict[str, list[str]] = {}
    for firm in history(key).firms.values():
        for town, _, _ in firm.bases:
            found.setdefault(town, []).append(firm.name)
    return found


@lru_cache(maxsize=4096)
def written(key: WorldKey, title: str) -> ResearchDocument:
    """A document.

    Raises:
        KeyError: there is none of this title.
    """
    known = catalogue(key)
    kind, name = known.titles[title]
    writer = _Writer(key, title)
    if kind == "account":
        writer.account(known.accounts[title])
    else:
        getattr(writer, kind)(name)
    return writer.done()


class _Writer:
    """Writes one document."""

    def __init__(self, key: WorldKey, title: str) -> None:
        self.key, self.world, self.known = key, history(key), catalogue(key)
        self.rng = random.Random(stream("rlvr/Research-v0", "document", *key, title).getrandbits(64))
        self.paragraphs: list[list[str]] = [[]]
        self.states: dict[Fact, StatedFact] = {}
        longest = 18 if key.size > 20 else 2
        self.padding = self.rng.choice((0, 0, 1, 1, 2, 3, longest)) if self.known.titles[title][0] in PROSE else 0

    def done(self) -> ResearchDocument:
        paragraphs = [" ".join(sentences) for sentences in self.paragraphs if sentences]
        for _ in range(self.padding):
            paragraphs.insert(self.rng.randint(1, len(paragraphs)), filler(self.rng))
        return ResearchDocument(tuple(paragraphs), self.states)

    def say(self, ways: str | Sequence[str], fact: Fact | None = None, value: object = "", **words: object) -> None:
        """One of several ways to put a sentence; a fact in doubt is left out, as other documents state it."""
        if fact is not None and (fact in self.known.unknown or fact in self.known.disputes):
            return
        sentence = (ways if isinstance(ways, str) else self.rng.choice(ways)).format(v=value, **words)
        self.paragraphs[-1].append(sentence)
        if fact is not None:
            self.states[fact] = StatedFact(sentence, str(value))

    def paragraph(self) -> None:
        self.paragraphs.append([])

    def table(self, *heads: str) -> None:
        self.paragraphs.append([f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"])

    def row(self, cells: Sequence[object], *facts: tuple[Fact, object]) -> None:
        row = f"| {' | '.join(map(str, cells))} |"
        self.paragraphs[-1][-1] += f"\n{row}"
        self.states |= {fact: StatedFact(row, str(value)) for fact, value in facts}

    def person(self, name: str) -> None:
        person = self.world.people[name]
        last = name.split()[-1]
        self.say(("{x} is one of the people of this land.", "This is the entry of {x}."), x=name)
        self.say(("{x} was born in {v}.", "The birth of {x} is dated to {v}."), ("born", name), person.born, x=last)
        self.say(("{x} came into the world in the town of {v}.", "{x} is a native of {v}."), ("birthplace", name),
                 person.birthplace, x=last)  # fmt: skip
        self.say("{x} was trained in the profession of {v}.", ("profession", name), person.profession, x=last)
        if person.teacher:
            self.say(("{x} was a pupil of {v}.", "{v} taught {x} for some years."), ("teacher", name), person.teacher,
                     x=last)  # fmt: skip
        self.paragraph()
        for firm, first, until in person.jobs:
            self.say(("From {a} to {b} {x} worked for {v}.", "{x} was on the staff of {v} from {a} to {b}."),
                     ("employer", name, first), firm, x=last, a=first, b=until)  # fmt: skip
        written = [book.name for book in books_by(self.key, "author").get(name, ())]
        if person.pen:
            self.say("As a writer {x} took a pen name: {v}.", ("pen", name), person.pen, x=last)
            self.say("The name {v} stands on every book by {x}.", None, person.pen, x=last)
        if written:
            self.say("{x} has written {v}.", ("books", name), ", ".join(f"“{book}”" for book in written), x=last)
        if person.died:
            self.say(("{x} died in {v}.", "The life of {x} ended in {v}."), ("died", name), person.died, x=last)

    def town(self, name: str) -> None:
        town = self.world.towns[name]
        self.say("{x} is a town on the river {v}.", ("river", name), town.river, x=name)
        self.say(
            ("People first settled here in {v}.", "The first houses stood in {v}."), ("settled", name), town.settled
        )
        firms = firms_in(self.key).get(name, ())
        if firms:
            self.paragraph()
            self.say("Firms that have, or once had, their seat in {x}: {v}.", ("firms", name), "; ".join(firms), x=name)
        self.say("Inhabitants and mayors stand in the Register of {x}.", x=name)

    def firm(self, name: str) -> None:
        firm = self.world.firms[name]
        self.say("{x} is a firm.", x=name)
        self.say(("It was founded in {v}.", "It has been in business since {v}."), ("founded", name), firm.founded)
        self.say(("{v} founded it.", "Its founder is {v}."), ("founder", name), firm.founder)
        self.say(("It makes {v}.", "It lives by the sale of {v}."), ("product", name), firm.product)
        self.paragraph()
        for town, first, until in firm.bases:
            ways = "Since {a} its seat has been in {v}." if until == NOW else "From {a} to {b} its seat was in {v}."
            self.say(ways, ("seat", name, first), town, a=first, b=until)

    def book(self, name: str) -> None:
        book = self.world.books[name]
        author = self.world.people[book.author].pen or book.author
        self.say("“{x}” is a book by {v}.", ("author", name), author, x=name)
        self.say(("It appeared in {v}.", "It was first printed in {v}."), ("year", name), book.year)
        self.say(("It was published by {v}.", "{v} published it."), ("publisher", name), book.publisher)

    def register(self, name: str) -> None:
        town = self.world.towns[name]
        self.say("The Register of {x} is kept by its clerks.", x=name)
        self.table("census", "inhabitants")
        for year, count in town.census.items():
            self.row((year, count), (("census", name, year), count))
        self.table("mayor", "from", "to")
        for mayor, first, last in town.mayors:
            self.row((mayor, first, last), (("mayor", name, first), mayor))

    def catalogue(self, name: str) -> None:
        self.say("The Catalogue of {x} lists the books that it has published.", x=name)
        self.table("book", "author", "year", "pages")
        for book in books_by(self.key, "publisher")[name]:
            author = self.world.people[book.author].pen or book.author
            facts = (
                (("author", book.name), author),
                (("year", book.name), book.year),
                (("pages", book.name), book.pages),
            )
            self.row((book.name, author, book.year, book.pages), *facts)

    def winners(self, name: str) -> None:
        self.say("The {x} is given to a book that is at most three years old.", x=name)
        self.table("year", "book")
        for year, title in self.world.prizes[name].winners:
            self.row((year, title), (("winner", name, year), title))

    def account(self, account: Account) -> None:
        attribute, name = account.fact[0], str(account.fact[1])
        if account.kind == "letter":
            self.say("Dear {x},", x=account.title.partition(" to ")[2].split()[0])
            self.paragraph()
            self.say(("You ask about {x}.", "A word about {x}, since you wish it."), x=name)
        else:
            self.say(("From our own reporter: {x}.", "More about {x}.", "Readers have asked us about {x}."), x=name)
        if self.rng.random() < 0.6:
            self.say(filler(self.rng))
        says = {
            "born": ("{x} was born in {v}.", "The year of birth of {x} is {v}."),
            "profession": ("{x} was trained in the profession of {v}.", "The profession of {x} was that of {v}."),
            "founded": ("{x} was founded in {v}.", "{x} opened for business in {v}."),
            "product": ("{x} makes {v}.", "What {x} makes is {v}."),
            "pages": ("The book “{x}” has {v} pages.", "“{x}” runs to {v} pages."),
        }[str(attribute)]
        lead = ("I am told this: ", "If I remember well, ") if account.kind == "letter" else ("", "We have learned: ")
        self.say([start + way for start in lead for way in says], None, account.value, x=name)
        self.states[account.fact] = StatedFact(self.paragraphs[-1][-1], account.value)
        if self.rng.random() < 0.6:
            self.say(filler(self.rng))
        if account.kind == "letter":
            self.paragraph()
            self.say("Write to me if you learn more of {x}.", x=name)
            self.say("Yours, {x}", x=account.title.removeprefix("Letter of ").split()[0])


_WHEN: Final = (
    "In spring", "In summer", "In autumn", "In winter", "On market days", "On the longest day", "After the harvest",
    "When the roads are dry", "Before the first snow", "At the end of the week", "In a wet year", "In the evening",
)  # fmt: skip
_WHO: Final = (
    "the neighbours", "the older people", "the children of the street", "travellers", "the carters", "most guests",
    "the fishermen", "some of the clerks", "the bakers' boys", "two cousins", "the choir", "the postmen",
)  # fmt: skip
_DID: Final = (
    "talk of the price of hay", "carry lanterns to the bridge", "argue about the right way to salt a ham",
    "paint the shutters green", "mend nets and tell stories", "gather plums behind the church",
    "wait for the ferry with a basket of eggs", "sing out of tune and do not mind", "complain about the ditch",
    "count the storks on the roofs", "play skittles for a jug of cider", "hang up the washing in the lane",
    "leave the windows open to hear the band", "keep a place by the stove for the cat",
)  # fmt: skip
_REMARKS: Final = (
    "Nobody remembers how this began.", "It has been so for as long as anyone can say.", "Opinions on this differ.",
    "A visitor may find it odd.", "There is no rule about it.", "Those who were there speak of it gladly.",
    "Little of it has been written down.", "The weather decides the rest.",
)  # fmt: skip


def filler(rng: random.Random) -> str:
    """A few sentences that state nothing of anybody."""
    sentences = [f"{rng.choice(_WHEN)} {rng.choice(_WHO)} {rng.choice(_DID)}." for _ in range(rng.randint(1, 4))]
    return " ".join([*sentences, rng.choice(_REMARKS)])
