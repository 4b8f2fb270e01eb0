"""Inputs for the programs: a generator for each type, small cases and edges included."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

WORDS = "a the of ink tree lamp stone river winter market lantern bridge to go sun cloud harbour on it apple".split()
NAMES = ("ada", "ben", "cleo", "dan", "eve")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _numbers(rng: random.Random, max_length: int = 13) -> list[int]:
    return [rng.randint(-9, 14) for _ in range(rng.randint(0, max_length))]


def _letters(rng: random.Random) -> str:
    """Words of all letters, and of few, with stretches of equal ones."""
    if rng.random() < 0.4:
        return "".join(rng.choices(LETTERS, k=rng.randint(1, 12)))
    return "".join(rng.choice("abcd") * rng.randint(1, 4) for _ in range(rng.randint(0, 6)))


def _groups(rng: random.Random) -> list[list[int]]:
    return [[rng.randint(-9, 14) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(0, 6))]


def _spans(rng: random.Random) -> list[list[int]]:
    starts = [rng.randint(0, 36) for _ in range(rng.randint(1, 9))]
    return [[start, start + rng.randint(1, 7)] for start in starts]


def _grid(rng: random.Random) -> list[list[int]]:
    width = rng.randint(1, 5)
    return [[rng.randint(0, 9) for _ in range(width)] for _ in range(rng.randint(1, 5))]


def _links(rng: random.Random) -> list[list[int]]:
    links = [[rng.randrange(8), rng.randrange(8)] for _ in range(rng.randint(0, 11))]
    return [link for at, link in enumerate(links) if link not in links[:at]]


def _jobs(rng: random.Random) -> list[list[int]]:
    arrivals = sorted(rng.randint(0, 20) for _ in range(rng.randint(0, 7)))
    return [[arrival, rng.randint(1, 9)] for arrival in arrivals]


def _marks(rng: random.Random) -> str:
    """Nested brackets; two in five times with a mistake."""
    marks: list[str] = []
    opened: list[str] = []
    for _ in range(rng.randint(0, 9)):
        if opened and rng.random() < 0.45:
            marks.append(opened.pop())
        else:
            pair = rng.choice(("()", "[]"))
            marks.append(pair[0])
            opened.append(pair[1])
    marks += reversed(opened)
    if marks and rng.random() < 0.4:
        marks[rng.randrange(len(marks))] = rng.choice("()[]")
    return "".join(marks)


def _formula(rng: random.Random, depth: int = 2) -> str:
    parts = []
    for index in range(rng.randint(1 if depth < 2 else 2, 4)):
        if index:
            parts.append(rng.choice("+-*"))
        nested = depth > 0 and rng.random() < 0.3
        parts.append(f"({_formula(rng, depth - 1)})" if nested else str(rng.randint(0, 40)))
    return "".join(parts)


def _fields(rng: random.Random) -> str:
    """Entries; one in six is not of the form."""
    entries = []
    for _ in range(rng.randint(0, 8)):
        entry = f"{rng.choice(NAMES)}={rng.randint(-4, 10)}"
        if rng.random() < 0.17:
            entry = rng.choice((entry.replace("=", ""), f"{entry}?", f"={entry[-1]}", f"{rng.choice(NAMES)}="))
        entries.append(entry)
    return ";".join(entries)


def _lines(rng: random.Random) -> list[str]:
    kinds = ("add", "mul", "dup", "swap")
    return [
        f"push {rng.randint(0, 120)}" if rng.random() < 0.55 else rng.choice(kinds) for _ in range(rng.randint(0, 13))
    ]


def _arguments(rng: random.Random, kind: str) -> list[Any]:
    """Arguments of a method: a name, a word, a short text, a span, a group, or an integer of a range."""
    if kind in ("name", "word"):
        return [rng.choice(NAMES[:4] if kind == "name" else WORDS)]
    if kind == "group":
        return [[rng.randint(-9, 14) for _ in range(rng.randint(1, 4))]]
    if kind == "text":
        return ["".join(rng.choices("abc", k=rng.randint(1, 4)))]
    if kind == "span":
        start = rng.randint(0, 16)
        return [start, start + rng.randint(1, 5)]
    low, high = map(int, kind.split(".."))
    return [rng.randint(low, high)]


def _calls(*methods: str) -> Callable[[random.Random], list[Any]]:
    """A maker of calls [name, arguments] of methods such as "put name 1..9", and of those of every class.

    The last method, a report, ends the calls.
    """

    def maker(rng: random.Random) -> list[Any]:
        chosen = [rng.choice((*methods, "mark", "back")).split() for _ in range(rng.randint(5, 16))]
        return [
            [name, [argument for kind in kinds for argument in _arguments(rng, kind)]]
            for name, *kinds in (*chosen, methods[-1].split())
        ]

    return maker


MAKERS: Mapping[str, Callable[[random.Random], Any]] = {
    "numbers": _numbers,
    "words": lambda rng: rng.choices(WORDS, k=rng.randint(0, 9)),
    "groups": _groups,
    "pairs": lambda rng: [[rng.choice(NAMES), rng.randint(-4, 10)] for _ in range(rng.randint(0, 10))],
    "spans": _spans,
    "grid": _grid,
    "links": _links,
    "jobs": _jobs,
    "text": lambda rng: " ".join(rng.choices(WORDS, k=rng.randint(1, 9))),
    "value": lambda rng: rng.choice((rng.randint(0, 30), rng.randint(31, 999))),
    "letters": _letters,
    "marks": _marks,
    "formula": _formula,
    "fields": _fields,
    "lines": _lines,
    "times": lambda rng: [f"{rng.randrange(24):02}:{rng.randrange(60):02}" for _ in range(rng.randint(0, 8))],
    "Accounts": _calls("deposit name 1..12", "withdraw name 1..12", "transfer name name 1..9", "close"),
    "TaskQueue": _calls("add name 0..9", "add name 0..9", "next", "cancel name", "waiting"),
    "Cache": _calls("put name 1..9", "put name 1..9", "get name", "get name", "drop 0..6", "keys"),
    "Calendar": _calls("book span", "book span", "cancel 1..4", "extend 1..4 1..3", "busy"),
    "Editor": _calls("write text", "write text", "erase 1..3", "move -4..3", "undo", "show"),
    "Numbers": _calls(*["add -9..14"] * 5, "take", "change", "view"),
    "Words": _calls(*["add word"] * 5, "take", "change", "view"),
    "Pairs": _calls(*["add name -4..10"] * 5, "take", "change", "view"),
    "Spans": _calls(*["add span"] * 5, "take", "change", "view"),
    "Groups": _calls(*["add group"] * 5, "take", "change", "view"),
    "Stock": _calls("supply name 1..9", "reserve name 1..7", "ship 1..4", "tick"),
}
