"""Sudoku, 9 x 9 and smaller; every puzzle has exactly one solution.

Observation: the rules, and the grid with dots for the empty cells.

A puzzle is one of the committed ones, none of whose givens can be spared, seen through one of the symmetries of
Sudoku (digits renamed, rows, columns, bands and stacks exchanged, the grid mirrored), with some more cells of its
solution given. None of these adds or takes away a solution, so no search is needed while drawing.
"""

from __future__ import annotations

import random
import re
from importlib.resources import files
from typing import ClassVar

from rlvr.envs.puzzles import grid_workings
from rlvr.envs.tasks.answers import Board
from rlvr.envs.tasks.questions import Question

_VALUES = str.maketrans("abcdefghi", "123456789")
_EMPTY = str.maketrans("abcdefghi", "." * 9)


def _committed(name: str) -> tuple[tuple[str, str], ...]:
    """Puzzle, with dots for empty cells, and solution, for each word of a file, made by a search of our own.

    A word is a puzzle row by row: a digit is given, a letter stands for an empty cell that holds the digit of its place
    in the alphabet (a is 1).
    """
    words = files(__package__).joinpath(name).read_text(encoding="ascii").split()
    return tuple((word.translate(_EMPTY), word.translate(_VALUES)) for word in words)


NINE, MINI = _committed("sudoku_9.txt"), _committed("sudoku_6.txt")


def shuffled_lines(rng: random.Random, bands: int, size: int) -> list[int]:
    """An order of the rows (or columns) that keeps those of one band together."""
    order: list[int] = []
    for band in rng.sample(range(bands), bands):
        order += [band * size + line for line in rng.sample(range(size), size)]
    return order


class Sudoku(Board):
    """Fill a 9 x 9 sudoku.

    Levels 1 to 5: about 50, 42, 34, 29 and 25 of 81 cells are given.
    """

    symbols: ClassVar[str] = "123456789"
    box: ClassVar[tuple[int, int]] = (3, 3)
    grids: ClassVar[tuple[tuple[str, str], ...]] = NINE
    more: ClassVar[tuple[int, ...]] = (26, 18, 10, 5, 1)

    def ask(self, rng: random.Random, level: int) -> Question:
        """A committed puzzle through random symmetries, with more of its solution given the lower the level."""
        puzzle, solution = rng.choice(self.grids)
        size, (height, width) = len(self.symbols), self.box
        rows, columns = shuffled_lines(rng, size // height, height), shuffled_lines(rng, size // width, width)
        positions = [row * size + column for row in rows for column in columns]
        if height == width and rng.random() < 0.5:
            positions = [positions[column * size + row] for row in range(size) for column in range(size)]
        names = str.maketrans(self.symbols, "".join(rng.sample(self.symbols, size)))
        full = "".join([solution[position] for position in positions]).translate(names)
        empty = [index for index, position in enumerate(positions) if puzzle[position] == "."]
        hidden = set(rng.sample(empty, len(empty) - self.more[level - 1]))
        shown = "".join(["." if index in hidden else symbol for index, symbol in enumerate(full)])
        cut = range(0, size * size, size)
        text = f"Fill the empty cells (.) so that each row, each column and each {height} x {width} box (of {height} "
        text += f"rows and {width} columns) holds each of 1 to {size} once.\n"
        text += (
            "\n".join([shown[position : position + size] for position in cut])
            + f"\nAnswer with the {size} rows, one per line."
        )
        return Question(text, tuple(full[position : position + size] for position in cut))

    def explain(self, state: Question) -> str:
        """Cells that can hold one number only, one after another."""
        return grid_workings.sudoku(re.findall(r"^[1-9.]+$", state.text, re.M), state.answer, self.box)


class MiniSudoku(Sudoku):
    """Fill a 6 x 6 sudoku.

    Levels 1 to 5: a 6 x 6 grid with boxes of 2 x 3, and about 24, 20, 16, 13 and 10 of 36 cells given.
    """

    symbols: ClassVar[str] = "123456"
    box: ClassVar[tuple[int, int]] = (2, 3)
    grids: ClassVar[tuple[tuple[str, str], ...]] = MINI
    more: ClassVar[tuple[int, ...]] = (14, 10, 6, 3, 0)
