"""What a language needs so that a text can be asked for, written and checked in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FACTS = ("date", "time", "venue", "price", "contact", "seats", "phone")
VENUES = (
    "Villa Aurora", "Café Mondial", "Park Hotel", "Sala Verdi", "Atelier Nord", "Studio Luna", "Casa Rosa",
    "Bar Central", "Forum Alto", "Pavillon Mira", "Teatro Orion", "Club Delta",
)  # fmt: skip
CONTACTS = (
    "Marta", "Lucas", "Elena", "Bruno", "Clara", "Hugo", "Irene", "Oscar", "Paula", "Simon", "Vera", "Felix",
)  # fmt: skip
SEATS = (30, 40, 50, 60, 70, 80, 90)


@dataclass(frozen=True, kw_only=True)
class Language:
    """Sentences and words of one language. In ``fillers`` the keyword of each sentence stands between asterisks.

    Attributes:
        code: two letters.
        months: names of the twelve months.
        day: how a date is written, ``{day}`` and ``{month}``.
        currency: the word for euros.
        common: frequent words that tell the language; see ``WrittenText.share_of``.
        names: of the six languages, by code, in this language.
        events: what a text may be about, each with its article.
        forms: kinds of text, each with its article.
        labels: of the facts, and three sentences for each with ``{0}`` for the value.
        leads: sentences that begin a text, with ``{0}`` for the event.
        numbers: of seats, in words.
        mottos: sentences with ``{0}`` for a word in quotation marks.
        order: three words in their order, and a sentence that begins with each.
        ours: words of the first person plural; ``mine`` of the first person singular; ``yours`` of the second person.
        chat: what the user says around the instructions.
    """

    code: str
    months: tuple[str, ...]
    day: str
    currency: str
    common: frozenset[str]
    names: Mapping[str, str]
    events: tuple[str, ...]
    forms: tuple[str, ...]
    labels: Mapping[str, str]
    sentences: Mapping[str, tuple[str, ...]]
    leads: tuple[str, ...]
    fillers: tuple[str, ...]
    numbers: tuple[str, ...]
    mottos: tuple[str, ...]
    order: tuple[tuple[str, str], ...]
    ours: frozenset[str]
    mine: frozenset[str]
    yours: frozenset[str]
    greetings: tuple[str, ...]
    closings: tuple[str, ...]
    openers: tuple[str, ...]
    enders: tuple[str, ...]
    titles: tuple[str, ...]
    chat: Mapping[str, str]


def lines(text: str) -> tuple[str, ...]:
    """The lines of a block that are not blank."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def words(text: str) -> frozenset[str]:
    """The words of a block."""
    return frozenset(text.split())


def by_fact(text: str) -> dict[str, tuple[str, ...]]:
    """Three lines for each fact, in the order of ``FACTS``."""
    every = lines(text)
    return {fact: every[3 * index : 3 * index + 3] for index, fact in enumerate(FACTS)}
