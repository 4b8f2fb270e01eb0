"""Latin squares with clues.

Each puzzle is made from a grid that solves it; a grid that solves it in another way is as right.

Observation: the rules, the cells that are given, and the clues.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from rlvr.envs.puzzles import grid_workings
from rlvr.envs.tasks.answers import board
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained

Cell = tuple[int, int]
Grid = list[list[int]]


def latin_square(rng: random.Random, size: int) -> Grid:
    """Each of 1 to ``size`` once in every row and every column: a cyclic square, its lines and symbols exchanged."""
    rows, columns, symbols = (rng.sample(range(size), size) for _ in range(3))
    return [[1 + symbols[(row + column) % size] for column in columns] for row in rows]


def boxed_square(rng: random.Random, height: int, width: int) -> Grid:
    """A Latin square whose boxes of ``height`` rows and ``width`` columns hold each number once too."""
    size = height * width
    rows = [
        band * height + line for band in rng.sample(range(width), width) for line in rng.sample(range(height), height)
    ]
    columns = [b * width + line for b in rng.sample(range(height), height) for line in rng.sample(range(width), width)]
    symbols = rng.sample(range(size), size)
    return [[1 + symbols[(row % height * width + row // height + column) % size] for column in columns] for row in rows]


def cages(rng: random.Random, size: int, largest: int) -> list[list[Cell]]:
    """A division of the grid into connected cages of at most ``largest`` cells."""
    free = [(r, c) for r in range(size) for c in range(size)]
    rng.shuffle(free)
    left, cages_made = set(free), []
    for cell in free:
        if cell not in left:
            continue
        least = 1 if largest < 3 else 2
        cage, wanted = [cell], least + int(rng.random() * (largest + 1 - least))
        left.discard(cell)
        while len(cage) < wanted:
            r, c = cage[int(rng.random() * len(cage))]
            near = [other for other in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)) if other in left]
            if not near:
                break
            cage.append(near[int(rng.random() * len(near))])
            left.discard(cage[-1])
        cages_made.append(sorted(cage))
    return cages_made


def cage_picture(shapes: Sequence[Sequence[Cell]], size: int) -> tuple[str, list[str]]:
    """A picture of the grid with a letter for each cage, and the letters."""
    names = [chr(index + (65 if index < 26 else 71)) for index in range(len(shapes))]
    rows = [[""] * size for _ in range(size)]
    for name, cage in zip(names, shapes, strict=True):
        for r, c in cage:
            rows[r][c] = name
    return "\n".join("".join(row) for row in rows), names


class LatinGrid(CheckedAnswerTask):
    """What these puzzles share: the answer is a Latin square, read as rows of digits; ``clue_fault`` checks clues."""

    def clue_fault(self, clues: tuple[Any, ...], grid: Grid) -> str | None:
        """The first clue that a filled grid breaks, in words; None when it keeps all."""
        raise NotImplementedError

    def asked(self, text: str, clues: tuple[Any, ...], grid: Grid) -> Question:
        """The question for these clues, whose one solution is ``grid``."""
        size = len(grid)
        text += f"\nAnswer with the {size} rows of digits, one row per line."
        return Question(text, (size, clues), answer_text="\n".join("".join(map(str, row)) for row in grid))

    def check(self, question: Question, answer: str) -> str | None:
        """Rows and columns must hold each number once; then the clues decide, so any solution is right."""
        size, clues = question.answer
        rows = board(answer, size, size, "123456789"[:size])
        grid = [[int(symbol) for symbol in row] for row in rows]
        for number in range(size):
            if len(set(grid[number])) < size:
                return f"row {number + 1} holds a number twice"
            if len({row[number] for row in grid}) < size:
                return f"column {number + 1} holds a number twice"
        return self.clue_fault(clues, grid)


def some_given(rng: random.Random, grid: Grid, count: int) -> list[str]:
    """The rows with ``count`` cells shown and dots for the others."""
    size = len(grid)
    shown = {(index // size, index % size) for index in rng.sample(range(size * size), count)}
    return ["".join(str(n) if (r, c) in shown else "." for c, n in enumerate(row)) for r, row in enumerate(grid)]


def givens_violation(givens: Sequence[str], grid: Grid) -> str | None:
    for r, row in enumerate(givens):
        for c, symbol in enumerate(row):
            if symbol != "." and int(symbol) != grid[r][c]:
                return f"row {r + 1}, column {c + 1} is given as {symbol}"
    return None


class Futoshiki(LatinGrid):
    """Fill a Latin square that keeps inequalities.

    Levels 1 to 5: 4, 5, 5, 6 and 7 rows, with 4, 4, 2, 4 and 6 cells given.
    """

    explain = explained(grid_workings.futoshiki)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Shows the signs of 55 % of the neighbouring pairs, and some numbers, of a random Latin square."""
        size, count = (4, 5, 5, 6, 7)[level - 1], (4, 4, 2, 4, 6)[level - 1]
        grid = latin_square(rng, size)
        pairs = [((r, c), (r, c + 1)) for r in range(size) for c in range(size - 1)]
        pairs += [((c, r), (c + 1, r)) for r in range(size) for c in range(size - 1)]
        signs = []
        for (a, b), (c, d) in sorted(rng.sample(pairs, len(pairs) * 55 // 100)):
            signs.append(((a, b), (c, d)) if grid[a][b] < grid[c][d] else ((c, d), (a, b)))
        givens = some_given(rng, grid, count)
        less = "; ".join(f"({a + 1},{b + 1}) < ({c + 1},{d + 1})" for (a, b), (c, d) in signs)
        text = f"Fill the empty cells (.) so that each row and each column holds each of 1 to {size} once:\n"
        text += "\n".join(givens) + f"\nFurther, with (row,column) for a cell: {less}."
        return self.asked(text, (tuple(givens), tuple(signs)), grid)

    def clue_fault(self, clues: tuple[Any, ...], grid: Grid) -> str | None:
        """The first inequality that does not hold, then the first changed number."""
        givens, signs = clues
        for (a, b), (c, d) in signs:
            if grid[a][b] >= grid[c][d]:
                return f"({a + 1},{b + 1}) is not less than ({c + 1},{d + 1})"
        return givens_violation(givens, grid)


def visible(heights: Sequence[int]) -> int:
    """How many buildings can be seen from before the first."""
    highest = count = 0
    for height in heights:
        if height > highest:
            highest, count = height, count + 1
    return count


def views(grid: Grid) -> tuple[tuple[int, ...], ...]:
    """What is seen from the left, the right, above and below."""
    columns = list(zip(*grid, strict=True))
    return (
        tuple(visible(row) for row in grid),
        tuple(visible(row[::-1]) for row in grid),
        tuple(visible(column) for column in columns),
        tuple(visible(column[::-1]) for column in columns),
    )


class Skyscrapers(LatinGrid):
    """Fill a Latin square of buildings by how many can be seen.

    Levels 1 to 5: 4, 5, 5, 6 and 7 rows, with 3, 5, 2, 6 and 10 cells given.
    """

    explain = explained(grid_workings.skyscrapers)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Tells all four views of a random Latin square, and some of its numbers."""
        size, count = (4, 5, 5, 6, 7)[level - 1], (3, 5, 2, 6, 10)[level - 1]
        grid = latin_square(rng, size)
        clues, givens = views(grid), some_given(rng, grid, count)
        text = f"On each cell of this grid stands a building of 1 to {size} floors, each height once in every row and "
        text += "every column; the dots are to be found:\n" + "\n".join(givens)
        text += "\nA building hides those behind it that are lower. The number that can be seen is, "
        for name, numbers in zip(("from the left", "from the right", "from above", "from below"), clues, strict=True):
            lines = "rows from the top" if "the" in name else "columns from the left"
            text += f"{name} ({lines}): {' '.join(map(str, numbers))}; "
        return self.asked(text[:-2] + ".", (tuple(givens), clues), grid)

    def clue_fault(self, clues: tuple[Any, ...], grid: Grid) -> str | None:
        """The first of the four edges whose counts differ, then the first changed number."""
        givens, wanted = clues
        for name, view, right in zip(("left", "right", "top", "bottom"), views(grid), wanted, strict=True):
            if view != right:
                return f"from the {name} {view} can be seen, not {right}"
        return givens_violation(givens, grid)


OPERATIONS = ("+", "-", "*", "/")


def cage_value(operation: str, numbers: Sequence[int]) -> int | None:
    """The value of a cage; differences and quotients of its two numbers, the larger first; None if none is whole."""
    if operation == "+":
        return sum(numbers)
    if operation == "*":
        return prod(numbers)
    small, large = sorted(numbers)
    if operation == "-":
        return large - small
    return large // small if large % small == 0 else None


class Calcudoku(LatinGrid):
    """Fill a Latin square whose cages give sums, differences, products or quotients.

    Levels 1 to 5: 4, 4, 5, 6 and 7 rows, in cages of up to 2, 3, 3, 3 and 4 cells.
    """

    explain = explained(grid_workings.calcudoku)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Every cage is told with its operation, differences and quotients only for two cells; no number is given."""
        size, largest = (4, 4, 5, 6, 7)[level - 1], (2, 3, 3, 3, 4)[level - 1]
        grid = latin_square(rng, size)
        shapes = cages(rng, size, largest)
        picture, names = cage_picture(shapes, size)
        clues, facts = [], []
        for name, cage in zip(names, shapes, strict=True):
            numbers = [grid[r][c] for r, c in cage]
            operation = "+"
            if len(cage) > 1:
                fitting = "+*" if len(cage) > 2 else "-*+" if cage_value("/", numbers) is None else "/-*"
                operation = fitting[int(rng.random() * len(fitting))]
            clues.append((tuple(cage), operation, cage_value(operation, numbers)))
            facts.append(f"{name}: {cage_value(operation, numbers)}" + (f" by {operation}" if len(cage) > 1 else ""))
        text = f"Fill a grid of {size} x {size} cells so that each row and each column holds each of 1 to {size} once. "
        text += f"Cells of one letter are a cage:\n{picture}\nThe numbers of a cage, joined by its operation (for - "
        text += f"and / the larger first), give its value: {'; '.join(facts)}."
        return self.asked(text, tuple(clues), grid)

    def clue_fault(self, clues: tuple[Any, ...], grid: Grid) -> str | None:
        """The first cage whose numbers do not give its value; "-" and "/" take the larger first."""
        for cage, operation, value in clues:
            r, c = cage[0]
            if cage_value(operation, [grid[y][x] for y, x in cage]) != value:
                return f"the cage at row {r + 1}, column {c + 1} does not give {value}"
        return None


class KillerSudoku(LatinGrid):
    """Fill a sudoku whose cages give sums.

    Levels 1 and 2: 4 x 4; 3 and 4: 6 x 6; 5: 9 x 9; with cages of 2 and 3 cells, and few numbers given.
    """

    BOXES: ClassVar[tuple[tuple[int, int], ...]] = ((2, 2), (2, 2), (2, 3), (2, 3), (3, 3))
    explain = explained(grid_workings.killer_sudoku)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws again until no cage holds a number twice, as the rules promise."""
        height, width = self.BOXES[level - 1]
        size = height * width
        grid = boxed_square(rng, height, width)
        shapes = cages(rng, size, (2, 3, 2, 3, 3)[level - 1])
        picture, names = cage_picture(shapes, size)
        sums = [sum(grid[r][c] for r, c in cage) for cage in shapes]
        givens = some_given(rng, grid, (2, 1, 4, 4, 14)[level - 1])
        text = f"Fill the empty cells (.) so that each row, each column and each box of {height} rows and {width} "
        text += f"columns holds each of 1 to {size} once:\n" + "\n".join(givens) + "\nCells of one letter are a cage:\n"
        facts = "; ".join(f"{name}: {total}" for name, total in zip(names, sums, strict=True))
        text += f"{picture}\nThe sums of the cages are {facts}. No cage holds a number twice."
        clues = ((height, width), tuple(givens), tuple(zip(map(tuple, shapes), sums, strict=True)))
        if any(len({grid[r][c] for r, c in cage}) < len(cage) for cage in shapes):
            return self.ask(rng, level)
        return self.asked(text, clues, grid)

    def clue_fault(self, clues: tuple[Any, ...], grid: Grid) -> str | None:
        """Checks boxes, then sums and repeats in the cages, then what is given."""
        (height, width), givens, sums = clues
        size = len(grid)
        for top in range(0, size, height):
            for left in range(0, size, width):
                if len({grid[top + i][left + j] for i in range(height) for j in range(width)}) < size:
                    return f"the box at row {top + 1}, column {left + 1} holds a number twice"
        for cage, total in sums:
            numbers = [grid[r][c] for r, c in cage]
            if sum(numbers) != total or len(set(numbers)) < len(numbers):
                return f"the cage at row {cage[0][0] + 1}, column {cage[0][1] + 1} has another sum, or a number twice"
        return givens_violation(givens, grid)
