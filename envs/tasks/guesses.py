"""Answers drawn at random for the random agent: of a form that the question asks for, without a look at its reference.

What luck alone earns is a figure on every card. A guess is made from the question's text and nothing else: from its
numbers, options, numbered lines, lists and alternatives.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

NUMBER = re.compile(r"(?<![\w.])-?\d{1,12}(?:\.\d{1,6})?")
OPTION = re.compile(r"^\(?([A-J])[).:]", re.MULTILINE)
NUMBERED = re.compile(r"^(\d{1,3})[.):] ", re.MULTILINE)
DIGITS = re.compile(r"\b(\d{1,3}) digits\b")
EITHER = re.compile(r"\b(\w{1,20}) or (\w{1,20})\b")
WORD = re.compile(r"\w{1,20}")
MOST = 12


def number(text: str, rng: random.Random) -> str:
    """A whole number, or sometimes a decimal or a fraction, of the size of those in the text."""
    values = [float(word) for word in NUMBER.findall(text)] or [10.0]
    reach = 2 * abs(rng.choice(values)) + 10
    guess = rng.uniform(-reach / 4 if min(values) < 0 else 0, reach)
    form = rng.random()
    if form < 0.8:
        return str(round(guess))
    return f"{guess:.2f}" if form < 0.9 else f"{round(guess)}/{rng.randint(2, 12)}"


def letter(text: str, rng: random.Random) -> str:
    """One of the letters that options are marked with."""
    letters: list[str] = sorted(set(OPTION.findall(text))) or list("ABCD")
    return rng.choice(letters)


def word(text: str, rng: random.Random) -> str:
    """A word of the text."""
    words: list[str] = WORD.findall(text) or ["yes", "no"]
    return rng.choice(words)


def several(text: str, rng: random.Random) -> str:
    """A list: a row of digits, some of the numbered lines, alternatives one after the other, or a shuffled list.

    The first of these that the text seems to ask for is drawn four times out of five, words of the text otherwise.
    """
    last = text.rstrip().splitlines()[-1] if text.strip() else ""
    lists = [parts for line in text.splitlines() if len(parts := [p.strip(" .?!:") for p in line.split(",")]) > 2]
    numbered, either, digits = NUMBERED.findall(text), EITHER.findall(last), DIGITS.findall(last)
    drawn: Sequence[str]
    if rng.random() < 0.2 or not (digits or numbered or either or lists):
        drawn = rng.choices(WORD.findall(text) or ["1"], k=rng.randint(1, 5))
    elif digits:
        drawn = ["".join(rng.choices("01", k=int(digits[-1])))]
    elif numbered:
        drawn = sorted(rng.sample(numbered, rng.randint(1, len(numbered))), key=int)
    elif either:
        count = rng.choice([len(parts) for parts in lists] or [1, 2, 3, 4])
        drawn = rng.choices(either[-1], k=min(count, MOST))
    else:
        drawn = _shuffled(rng.choice(lists), rng)
    return ", ".join(drawn)


def grid(height: int, width: int, symbols: str, rng: random.Random) -> str:
    """Rows of random symbols."""
    return "\n".join("".join(rng.choices(symbols, k=width)) for _ in range(height))


def _shuffled(parts: Sequence[str], rng: random.Random) -> list[str]:
    """The last words of the parts, since a sentence may lead to the first of them."""
    words = [part.split()[-1] for part in parts if part.split()]
    return rng.sample(words, len(words))
