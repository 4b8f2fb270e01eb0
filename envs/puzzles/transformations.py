"""Grids changed by an unknown rule, in the manner of ARC (arXiv 1911.01547).

All the rules of the level that fit the examples give one answer.

Observation: the kinds of rule, grids before and after one of them, and one more grid to change.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from operator import eq
from typing import ClassVar

from rlvr.envs.tasks.answers import Board
from rlvr.envs.tasks.questions import Question

Grid = tuple[str, ...]


def unchanged(grid: Grid) -> Grid:
    return grid


def turned(grid: Grid) -> Grid:
    return tuple(map("".join, zip(*grid[::-1], strict=True)))


def mirrored(grid: Grid) -> Grid:
    return tuple([row[::-1] for row in grid])


def transposed(grid: Grid) -> Grid:
    return tuple(map("".join, zip(*grid, strict=True)))


def turned_back(grid: Grid) -> Grid:
    return transposed(grid)[::-1]


def upturned(grid: Grid) -> Grid:
    return grid[::-1]


def turned_twice(grid: Grid) -> Grid:
    return mirrored(grid[::-1])


def transposed_back(grid: Grid) -> Grid:
    return transposed(mirrored(grid[::-1]))


@cache  # of rows there are few
def fallen_row(row: str) -> str:
    """Symbols that are not 0 slide to the right."""
    return "0" * row.count("0") + row.replace("0", "")


@cache
def shifted_row(row: str) -> str:
    return row[-1] + row[:-1]


@cache
def extended_row(row: str) -> str:
    """Each 0 takes the symbol to its left, if that is not 0."""
    new = row[0]
    for symbol in row[1:]:
        new += new[-1] if symbol == "0" else symbol
    return new


@cache
def doubled_row(row: str) -> str:
    return row + row[::-1]


def by_rows(change: Callable[[str], str]) -> Callable[[Grid], Grid]:
    return lambda grid: tuple(map(change, grid))


def exchanged(first: str, second: str) -> Callable[[Grid], Grid]:
    table = str.maketrans(first + second, second + first)
    return lambda grid: tuple(row.translate(table) for row in grid)


# Turned by 0 to 3 quarters, and for each then not mirrored, and mirrored; and what undoes each of them.
SYMMETRIES = (
    (unchanged, mirrored, turned, transposed, turned_twice, upturned, turned_back, transposed_back),
    (unchanged, mirrored, turned_back, transposed, turned_twice, upturned, turned, transposed_back),
)
CONTENTS = (fallen_row, shifted_row, extended_row, doubled_row)
SWAPS = tuple(exchanged(a, b) for a, b in ("12", "13", "23"))


@cache
def rules(level: int) -> tuple[tuple[Callable[[Grid], Grid], ...], ...]:
    """Every rule of a level: a sequence of changes, made one after the other."""
    turns, back = SYMMETRIES
    changes = tuple(map(by_rows, CONTENTS))
    if level == 1:
        return tuple((turn,) for turn in turns[1:])
    if level == 4:
        return tuple((turn, change, undo) for turn, undo in zip(turns, back, strict=True) for change in changes)
    if level == 3:
        return tuple((turn, change) for turn in turns[1:] for change in changes)
    if level == 2:
        return tuple((turn, swap) for turn in turns for swap in SWAPS)
    return tuple((turn, change, swap) for turn in turns for change in changes[:3] for swap in SWAPS)


def fitting(level: int, grid: Grid, result: Grid) -> Iterator[int]:
    """The numbers of the rules of a level that make the result of the grid.

    It finds what trying every rule finds, in fewer steps: each turn is made once, the last step is undone on the
    result, and first rows are compared before grids.
    """
    turns = [turn(grid) for turn in SYMMETRIES[0]]
    if level == 1:
        yield from (number for number, turn in enumerate(turns[1:]) if turn == result)
    elif level == 2:
        before = [swap(result) for swap in SWAPS]  # a swap undoes itself
        yield from (3 * k + n for k, turn in enumerate(turns) for n, swapped in enumerate(before) if swapped == turn)
    elif level == 5:
        before = [swap(result) for swap in SWAPS]
        for k, turn in enumerate(turns):
            for c, change in enumerate(CONTENTS[:3]):
                first = change(turn[0])
                for n, swapped in enumerate(before):
                    if swapped[0] == first and swapped == tuple(map(change, turn)):
                        yield 9 * k + 3 * c + n
    else:
        for k, turn in enumerate(turns):
            if k or level == 4:
                wanted = SYMMETRIES[0][k](result) if level == 4 else result  # turned too, for it will be turned back
                for c, change in enumerate(CONTENTS):
                    if change(turn[0]) == wanted[0] and tuple(map(change, turn)) == wanted:
                        yield 4 * (k if level == 4 else k - 1) + c


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
    f"The rule has two steps. First {_TURNS}, or nothing is done. Then two of the symbols 1, 2 and 3 are exchanged.",
    f"The rule has two steps. First {_TURNS}. Then one of these, always to the right: {_CHANGES}.",
    "The rule is one of these, to the right, to the left, upwards or downwards (there, columns stand for rows): "
    f"{_CHANGES}.",
    f"The rule has three steps. First {_TURNS}, or nothing is done. Then one of these, always to the right: "
    f"{_CHANGES.rpartition('; or')[0]}. Then two of the symbols 1, 2 and 3 are exchanged.",
)


_TURN_NAMES = (
    "",
    "mirrored left to right",
    "turned a quarter clockwise",
    "mirrored in the falling diagonal",
    "turned a half",
    "mirrored top to bottom",
    "turned a quarter counterclockwise",
    "mirrored in the rising diagonal",
)
_CHANGE_NAMES = (
    "symbols but 0 slid to the right",
    "rows shifted by one cell to the right",
    "symbols but 0 spread to the right",
    "rows continued by their mirror image",
)
_SWAP_NAMES = ("1 and 2 exchanged", "1 and 3 exchanged", "2 and 3 exchanged")


def step_names(level: int, number: int) -> tuple[str, ...]:
    """What each step of one of the ``rules`` of a level does; "" for nothing."""
    if level == 1:
        return (_TURN_NAMES[number + 1],)
    if level == 2:
        return _TURN_NAMES[number // 3], _SWAP_NAMES[number % 3]
    if level == 5:
        return _TURN_NAMES[number // 9], _CHANGE_NAMES[number // 3 % 3], _SWAP_NAMES[number % 3]
    turn, change = divmod(number, len(CONTENTS))
    if level == 3:
        return _TURN_NAMES[turn + 1], _CHANGE_NAMES[change]
    return _TURN_NAMES[turn], _CHANGE_NAMES[change], "and that undone" if turn else ""


_SYMBOL_OF = bytes(ord("00123"[byte % 5]) for byte in range(256))  # 0 twice as often as the others


class GridTransformation(Board):
    """Find the rule that changes whole grids, and apply it.

    Level 1: a turn or mirroring; 2: and exchanged symbols; 3: and a change; 4: a change in any direction; 5: all three.
    """

    symbols: ClassVar[str] = "0123"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Three examples and a test; draws again until all rules of the level that fit give one output."""
        size = 5 if level == 5 else 4
        candidates = rules(level)
        while True:
            number = rng.randrange(len(candidates))
            rule = candidates[number]
            symbols = rng.randbytes(4 * size * size).translate(_SYMBOL_OF).decode()
            rows = [symbols[start : start + size] for start in range(0, 4 * size * size, size)]
            grids = [tuple(rows[start : start + size]) for start in range(0, 4 * size, size)]
            results = [applied(rule, grid) for grid in grids]
            if any(map(eq, grids, results)):
                continue
            others = [candidates[other] for other in fitting(level, grids[0], results[0]) if other != number]
            others = [rule for rule in others if all(applied(rule, grids[k]) == results[k] for k in (1, 2))]
            if all(applied(rule, grids[3]) == results[3] for rule in others):
                break
        shown = [
            f"Input {n}:\n" + "\n".join(grid) + f"\nOutput {n}:\n" + "\n".join(result)
            for n, (grid, result) in enumerate(zip(grids[:3], results[:3], strict=True), 1)
        ]
        text = f"One rule turns each input into its output. {RULES[level - 1]}\n"
        text += "\n".join(shown) + "\nInput 4:\n" + "\n".join(grids[3])
        return Question(f"{text}\nWhat is output 4? Answer with its rows, one per line.", results[3])

    def explain(self, state: Question) -> str:
        """A rule that fits the examples, and what its steps make of the first input and of the last."""
        level = next(level for level, rule in enumerate(RULES, 1) if f" {rule}\n" in state.text)
        parts = re.findall(r"^(?:Input|Output) \d:\n((?:\d+\n)+)", state.text, re.M)
        grids = [tuple(part.split()) for part in parts]
        number = next(
            number
            for number in fitting(level, grids[0], grids[1])
            if all(applied(rules(level)[number], grids[k]) == grids[k + 1] for k in (2, 4))
        )
        names = step_names(level, number)
        lines = [f"The rule: {', then '.join(filter(None, names))}."]
        for name, grid in (("Input 1", grids[0]), ("Input 4", grids[6])):
            for step, change in zip(names, rules(level)[number], strict=True):
                grid = change(grid)
                lines += [f"{name}, {step}: {' '.join(grid)}"] * bool(step)
        return "\n".join(lines)
