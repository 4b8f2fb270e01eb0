"""Answers as chat models write them: whole replies in families, each with its right and its wrong values.

A ``Family`` has ways to spell a value, and draws pairs of values. ``texts`` crosses them with data/phrasings.jsonl: a
spelling of the right value in a phrasing is to be paid, the same spelling of another value in the same phrasing is
not, and neither is the right value where the reply hedges, denies it, asks, or names another one beside it. In a
phrasing ``{a}`` is the answer as it stands, ``{b}`` the other value, ``{m}`` the answer in math delimiters.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_ROWS: Final = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "phrasings.jsonl").open(encoding="utf-8")
]
PHRASINGS: Final[list[str]] = [row["text"] for row in _ROWS if row["right"]]
DOUBTS: Final[list[str]] = [row["text"] for row in _ROWS if not row["right"]]
Pays = Callable[[str], bool]
Spell = Callable[[Any], str | None]


class Text(NamedTuple):
    """A reply, whether it is to be paid, and which spelling in which phrasing it is."""

    reply: str
    right: bool
    spelling: int
    phrasing: str


class Family(NamedTuple):
    """Answers of one kind.

    Attributes:
        spellings: functions from a value to its text; None where that value cannot be spelled so.
        draw: a right value and another one, and what pays for a reply, given the right value.
        math: whether the text is a formula, and ``{m}`` in a phrasing puts the text between dollar signs.
        brackets: whether brackets around the answer are dressing; around a list of two or an interval they are not.
        no_doubts: phrasings of the other kind that are right here.
    """

    name: str
    draw: Callable[[random.Random], tuple[Any, Any, Pays]]
    spellings: Sequence[Spell]
    math: bool = False
    brackets: bool = True
    no_doubts: tuple[str, ...] = ()


def fits(family: Family, phrasing: str, text: str) -> bool:
    """Whether a phrasing makes sense around a spelling: markup does not stand in its own kind."""
    below = ("\\boxed{{", "<answer>\n", "Answer:\n", "### Answer\n")
    if "\n" in text and not phrasing.startswith(below):
        return False
    if not family.brackets and ("[{a}]" in phrasing or "({a})" in phrasing):
        return False
    mathematics = any(mark in phrasing for mark in ("\\[{a}", "\\[\n{a}", "${a}", "$$\n{a}", "\\({a}", "\\text{{The"))
    if mathematics and (not family.math or "$" in text):
        return False
    marks = {"**": "*", "`{a}`": "`$", '"{a}"': "\"'", "'{a}'": "'", "\u201c{a}": "\u201c'\"", "*The": "*", "__": "_"}
    if any(mark in phrasing and set(text) & set(signs) for mark, signs in marks.items()):
        return False
    if "{a}!" in phrasing and family.math:
        return False  # a factorial
    return not ("$" in text and ("boxed" in phrasing or "{m}" in phrasing))


def texts(family: Family, count: int, seed: int = 0) -> Iterator[tuple[Text, Pays]]:
    """``count`` right replies, with as many wrong ones and doubts, and what pays for each."""
    rng = random.Random(f"{family.name} {seed}")
    rights = 0
    while rights < count:
        value, other, pays = family.draw(rng)
        number = rng.randrange(len(family.spellings))
        text, wrong = family.spellings[number](value), family.spellings[number](other)
        phrasing = rng.choice(PHRASINGS)
        if text is None or wrong is None or text == wrong or not fits(family, phrasing, text):
            continue
        rights += 1
        yield Text(filled(family, phrasing, text), True, number, phrasing), pays
        yield Text(filled(family, phrasing, wrong), False, number, phrasing), pays
        doubt = rng.choice(DOUBTS)
        if doubt in family.no_doubts:
            continue
        if "\n" not in text:
            yield Text(doubt.format(a=text, b=wrong), False, number, doubt), pays


def filled(family: Family, phrasing: str, text: str) -> str:
    """A phrasing around a text."""
    return phrasing.format(a=text, m=f"${text}$" if family.math and "$" not in text else text)
