"""Grids changed by an unknown rule, in the manner of ARC (arXiv 1911.01547). One turn; reward 1 for the exact grid.

GridTransformation: find the rule from examples and apply it. All the rules that fit the examples give one answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import ClassVar

from rlvr.envs.tasks.answers import Board
from rlvr.envs.tasks.questions import Question

Grid = tuple[str, ...]


def turned(grid: Grid) -> Grid:
    return tuple("".join(column) for column in zip(*grid[::-1], strict=True))


def mirrored(grid: Grid) -> Grid:
    return tuple(row[::-1] for row in grid)


def fallen(grid: Grid) -> Grid:
    """Cells that are not 0 slide to the right."""
    return tuple("0" * row.count("0") + row.replace("0", "") for row in grid)


def shifted(grid: Grid) -> Grid:
    return tuple(row[-1] + row[:-1] for row in grid)


def extended(grid: Grid) -> Grid:
    """Each 0 takes the symbol to its left, if that is not 0."""
    rows = []
    for row in grid:
        new = row[0]
        for symbol in row[1:]:
            new += new[-1] if symbol == "0" else symbol
        rows.append(new)
    return tuple(rows)


def exchanged(first: str, second: str) -> Callable[[Grid], Grid]:
    table = str.maketrans(first + second, second + first)
    return lambda grid: tuple(row.translate(table) for row in grid)


def doubled(grid: Grid) -> Grid:
    return tuple(row + row[::-1] for row in grid)


SYMMETRIES: tuple[tuple[Callable[[Grid], Grid], ...], ...] = tuple(
    (turned,) * turns + (mirrored,) * mirror for turns, mirror in product(range(4), range(2))
)
CONTENTS: tuple[Callable[[Grid], Grid], ...] = (fallen, shifted, extended, doubled)


@cache
def rules(level: int) -> tuple[tuple[Callable[[Grid], Grid], ...], ...]:
    """Every rule of a level: a sequence of changes, made one after the other."""
    if level == 1:
        return SYMMETRIES[1:]
    sideways = [
        (*before, change, *after) for change in CONTENTS for before, after in zip(SYMMETRIES, _backwards(), strict=True)
    ]
    if level == 2:
        return tuple(sideways)
    if level == 3:
        return tuple((*symmetry, change) for symmetry in SYMMETRIES[1:] for change in CONTENTS)
    swaps = [exchanged(a, b) for a, b in ("12", "13", "23")]
    if level == 4:
        return tuple((*symmetry, swap) for symmetry in SYMMETRIES for swap in swaps)
    return tuple((*symmetry, change, swap) for symmetry in SYMMETRIES for change in CONTENTS[:3] for swap in swaps)


def _backwards() -> list[tuple[Callable[[Grid], Grid], ...]]:
    """What undoes each of ``SYMMETRIES``."""
    undone: list[tuple[Callable[[Grid], Grid], ...]] = []
    for symmetry in SYMMETRIES:
        turns, mirrors = symmetry.count(turned), symmetry.count(mirrored)
        undone.append((mirrored,) * mirrors + (turned,) * (-turns % 4))
    return undone


def applied(rule: tuple[Callable[[Grid], Grid], ...], grid: Grid) -> Grid:
    for change in rule:
        grid = change(grid)
    return grid


_TURNS = "the grid is turned by a quarter, a half or three quarters, mirrored, or both"
_CHANGES = (
    "all symbols but 0 slide as far as they can; or each row is shifted by one cell, and what leaves it comes back at "
    "the other end; or all symbols but 0 spread over the 0s before them, up to the next symbol; or the grid is "
    "continued by its mirror image"
)
# What ``rules`` holds, in words, for each level.
RULES = (
    f"The rule: {_TURNS}.",
    "The rule is one of these, to the right, to the left, upwards or downwards (there, columns stand for rows): "
    f"{_CHANGES}.",
    f"The rule has two steps. First {_TURNS}. Then one of these, always to the right: {_CHANGES}.",
    f"The rule has two steps. First {_TURNS}, or nothing is done. Then two of the symbols 1, 2 and 3 are exchanged.",
    f"The rule has three steps. First {_TURNS}, or nothing is done. Then one of these, always to the right: "
    f"{_CHANGES.rpartition('; or')[0]}. Then two of the symbols 1, 2 and 3 are exchanged.",
)


class GridTransformation(Board):
    """Find the rule that changes whole grids, and apply it.

    Level 1: a turn or mirroring; 2: a change in some direction; 3: both; 4: exchanged symbols; 5: all of it.
    """

    symbols: ClassVar[str] = "0123"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Three examples and a test; draws again until all rules of the level that fit give one output."""
        size = (4, 4, 4, 5, 5)[level - 1]
        known = rules(level)
        while True:
            rule = rng.choice(known)
            grids = [tuple("".join(rng.choices("00123", k=size)) for _ in range(size)) for _ in range(4)]
            results = [applied(rule, grid) for grid in grids]
            fitting = [other for other in known if applied(other, grids[0]) == results[0]]
            fitting = [
                r for r in fitting if all(applied(r, g) == x for g, x in zip(grids[1:3], results[1:3], strict=True))
            ]
            changed = all(grid != result for grid, result in zip(grids, results, strict=True))
            if changed and all(applied(other, grids[3]) == results[3] for other in fitting):
                break
        shown = [
            f"Input {n}:\n" + "\n".join(grid) + f"\nOutput {n}:\n" + "\n".join(result)
            for n, (grid, result) in enumerate(zip(grids[:3], results[:3], strict=True), 1)
        ]
        text = f"One rule turns each input into its output. {RULES[level - 1]}\n"
        text += "\n".join(shown) + "\nInput 4:\n" + "\n".join(grids[3])
        return Question(f"{text}\nWhat is output 4? Answer with its rows, one to a line.", results[3])
