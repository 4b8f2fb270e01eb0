"""Inputs for the programs of ``programs``: one generator for each kind of argument, small cases and edges included."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WORDS = "a the of ink tree lamp stone river winter market lantern bridge to go sun cloud harbour on it".split()
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _ints(rng: random.Random, min_length: int, max_length: int, low: int = -20, high: int = 20) -> list[int]:
    return [rng.randint(low, high) for _ in range(rng.randint(min_length, max_length))]


def _steps(rng: random.Random) -> list[int]:
    """Numbers that mostly rise, by small and by large steps."""
    numbers, number = [], rng.randint(-5, 5)
    for _ in range(rng.randint(0, 14)):
        numbers.append(number)
        number += rng.choice((-2, 0, 1, 2, 3, 4, 6, 9, 12, 19, 20))
    return numbers


def _word(rng: random.Random, min_length: int, max_length: int, letters: str = LETTERS) -> str:
    return "".join(rng.choices(letters, k=rng.randint(min_length, max_length)))


def _runs(rng: random.Random) -> str:
    return "".join(rng.choice("abcd") * rng.randint(1, 7) for _ in range(rng.randint(0, 6)))


def _spans(rng: random.Random, high: int) -> list[list[int]]:
    spans = []
    for _ in range(rng.randint(1, 7)):
        start = rng.randint(0, high)
        spans.append([start, start + rng.randint(1, 8)])
    return spans


def _brackets(rng: random.Random) -> str:
    """Nested brackets; two in five times with a mistake."""
    marks: list[str] = []
    opened: list[str] = []
    for _ in range(rng.randint(0, 8)):
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


def _grid(rng: random.Random, least: int = 1, numbers: Sequence[int] = range(10)) -> list[list[int]]:
    width = rng.randint(least, 5)
    return [rng.choices(numbers, k=width) for _ in range(rng.randint(least, 5))]


def _stack_code(rng: random.Random) -> list[str]:
    """Instructions that mostly find what they need."""
    lines, height = [], 0
    for _ in range(rng.randint(0, 12)):
        kinds = [f"push {rng.randint(0, 120)}"] * 2
        kinds += ["dup"] * (height > 0) + ["add", "mul", "swap"] * (height > 1 or rng.random() < 0.05)
        line = rng.choice(kinds)
        height += {"p": 1, "d": 1, "s": 0}.get(line[0], -1)
        lines.append(line)
    return lines


def _expression(rng: random.Random, depth: int = 2) -> str:
    parts = []
    for index in range(rng.randint(1 if depth < 2 else 2, 4)):
        if index:
            parts.append(rng.choice("+-*"))
        nested = depth > 0 and rng.random() < 0.3
        parts.append(f"({_expression(rng, depth - 1)})" if nested else str(rng.randint(0, 40)))
    return "".join(parts)


MAKERS: Mapping[str, Callable[[random.Random], Any]] = {
    "ints": lambda rng: _ints(rng, 0, 8),
    "long_ints": lambda rng: _ints(rng, 0, 14, -9, 14),
    "steps": _steps,
    "small": lambda rng: rng.randint(-9, 14),
    "count": lambda rng: rng.randint(0, 70),
    "count_from_one": lambda rng: rng.randint(1, 90),
    "large": lambda rng: rng.choice((rng.randint(0, 99), rng.randint(100, 9_999_999))),
    "word": lambda rng: _word(rng, 0, 12),
    "short_word": lambda rng: _word(rng, 0, 6, "abcd"),
    "runs": _runs,
    "text": lambda rng: " ".join(rng.choices(WORDS, k=rng.randint(0, 8))),
    "scores": lambda rng: [[rng.choice(NAMES), rng.randint(-4, 10)] for _ in range(rng.randint(0, 10))],
    "spans": lambda rng: _spans(rng, 40),
    "meetings": lambda rng: _spans(rng, 16),
    "brackets": _brackets,
    "grid": _grid,
    "open_grid": lambda rng: _grid(rng, 2, (0, 1, 2, 3, 4, 5, 5, 6, 7, 8)),
    "stack_code": _stack_code,
    "items": lambda rng: [[rng.randint(1, 9), rng.randint(1, 20)] for _ in range(rng.randint(0, 7))],
    "requests": lambda rng: list(_word(rng, 0, 18, "ABCDE")),
    "expression": _expression,
    "arrivals": lambda rng: _ints(rng, 0, 18, 0, 7),
}
