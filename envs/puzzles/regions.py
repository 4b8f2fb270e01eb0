"""Grids that are parted: into rectangles, into islands and water, into regions of two marked cells.

Each puzzle is made from a parting that solves it; another that keeps the rules is as right.

Observation: the rules, the grid with what is given, and how to write the parts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from rlvr.envs.puzzles import grid_workings
from rlvr.envs.puzzles.shading import Cell, beside, connected, grown
from rlvr.envs.tasks.answers import board
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def pieces(cells: set[Cell]) -> Iterator[set[Cell]]:
    """The parts of the cells that hang together by common sides."""
    left = set(cells)
    while left:
        piece, stack = set(), [left.pop()]
        while stack:
            cell = stack.pop()
            piece.add(cell)
            near = left.intersection(beside(*cell))
            left -= near
            stack.extend(near)
        yield piece


def pooled(water: set[Cell]) -> Cell | None:
    """The upper left cell of four that are water, or none."""
    pools = (cell for cell in sorted(water) if {(cell[0] + y, cell[1] + x) for y in (0, 1) for x in (0, 1)} <= water)
    return next(pools, None)


class Shikaku(CheckedAnswerTask):
    """Cut a grid into rectangles by their areas.

    Levels 1 to 5: 5, 6, 7, 8 and 10 rows.
    """

    explain = explained(grid_workings.shikaku)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Lays rectangles of two to nine cells, row by row, where they fit; each has its number in one of its cells."""
        size = (5, 6, 7, 8, 10)[level - 1]
        while True:
            rectangles = self.laid(rng, size)
            if sum(len(cells) == 1 for cells in rectangles) <= 1 and len(rectangles) <= len(LETTERS):
                break
        number = {rng.choice(cells): cells for cells in rectangles}
        name = {cell: letter for letter, at in zip(LETTERS, sorted(number), strict=False) for cell in number[at]}
        every = [[(r, c) for c in range(size)] for r in range(size)]
        shown = tuple("".join(str(len(number[cell])) if cell in number else "." for cell in row) for row in every)
        text = "Cut this grid along its lines into rectangles, each of which holds one number: how many cells it has.\n"
        text += "\n".join(shown) + f"\nAnswer with {size} rows of {size} letters, one row per line: A in the cells of "
        text += "the rectangle of the first number, reading row by row, B in those of the second, and so on."
        return Question(text, shown, answer_text="\n".join("".join(name[cell] for cell in row) for row in every))

    @staticmethod
    def laid(rng: random.Random, size: int) -> list[list[Cell]]:
        """Rectangles that cover the grid, the next one always from the first cell that is free."""
        free = {(r, c) for r in range(size) for c in range(size)}
        rectangles = []
        while free:
            r, c = min(free)
            shapes = [
                [(r + y, c + x) for y in range(height) for x in range(width)]
                for height in range(1, size - r + 1)
                for width in range(1, size - c + 1)
                if 2 <= height * width <= 9
            ]
            fitting = [cells for cells in shapes if free.issuperset(cells)] or [[(r, c)]]
            rectangles.append(rng.choice(fitting))
            free.difference_update(rectangles[-1])
        return rectangles

    def check(self, question: Question, answer: str) -> str | None:
        """The cells of each letter fill a rectangle that holds its number, and are as many."""
        shown = question.answer
        size = len(shown)
        numbers = [(r, c) for r in range(size) for c in range(size) if shown[r][c] != "."]
        letters = LETTERS[: len(numbers)]
        rows = board(answer.upper(), size, size, letters)
        for letter, (r, c) in zip(letters, numbers, strict=True):
            cells = [(y, x) for y in range(size) for x in range(size) if rows[y][x] == letter]
            if (r, c) not in cells:
                return f"{letter} does not hold its number at row {r + 1}, column {c + 1}"
            if len(cells) != int(shown[r][c]):
                return f"{letter} has {len(cells)} cells, not {shown[r][c]}"
            high, wide = (max(line) - min(line) + 1 for line in zip(*cells, strict=True))
            if high * wide != len(cells):
                return f"{letter} is no rectangle"
        return None


class Nurikabe(CheckedAnswerTask):
    """Part a grid into islands of given sizes and one stretch of water.

    Levels 1 to 5: 5, 6, 7, 8 and 9 rows, with islands of up to 4, 5, 6, 7 and 8 cells.
    """

    explain = explained(grid_workings.nurikabe)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Water spreads from a cell without filling a square of four, until what it leaves is small enough."""
        size, most = 4 + level, 3 + level
        islands: list[set[Cell]] = []
        while not islands or max(map(len, islands)) > most:
            water = self.spread(rng, size, rng.uniform(0.5, 0.65))
            islands = list(pieces({(r, c) for r in range(size) for c in range(size)} - water))
        number = {rng.choice(sorted(island)): len(island) for island in sorted(islands, key=min)}
        every = [[(r, c) for c in range(size)] for r in range(size)]
        shown = tuple("".join(str(number.get(cell, ".")) for cell in row) for row in every)
        text = (
            "Part this grid into islands and water. Each number lies on an island of its own that has so many cells, "
        )
        text += "connected by common sides; islands share no side. All water is connected by common sides, and no "
        text += "square of 2 x 2 cells is water.\n" + "\n".join(shown)
        text += f"\nAnswer with {size} rows of {size} digits, one row per line: 1 for water, 0 for an island."
        rows = ["".join("01"[cell in water] for cell in row) for row in every]
        return Question(text, shown, answer_text="\n".join(rows))

    @staticmethod
    def spread(rng: random.Random, size: int, share: float) -> set[Cell]:
        """Connected cells without a square of four among them: that share of the grid, or what fits."""
        water = {(rng.randrange(size), rng.randrange(size))}
        shore = [cell for at in water for cell in beside(*at)]
        while shore and len(water) < share * size * size:
            r, c = shore.pop(int(rng.random() * len(shore)))
            squares = ([(r + y, c), (r, c + x), (r + y, c + x)] for y in (-1, 1) for x in (-1, 1))
            inside = 0 <= r < size and 0 <= c < size and (r, c) not in water
            if inside and not any(water.issuperset(square) for square in squares):
                water.add((r, c))
                shore += beside(r, c)
        return water

    def check(self, question: Question, answer: str) -> str | None:
        """Every island has one number and its size; the water is one piece without a square of four."""
        shown = question.answer
        size = len(shown)
        marks = board(answer, size, size, "01")
        water = {(r, c) for r in range(size) for c in range(size) if marks[r][c] == "1"}
        for island in pieces({(r, c) for r in range(size) for c in range(size)} - water):
            numbers = [shown[r][c] for r, c in sorted(island) if shown[r][c] != "."]
            r, c = min(island)
            if numbers != [str(len(island))]:
                held = f"the number {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} numbers"
                return f"the island with row {r + 1}, column {c + 1} has {len(island)} cells and {held}"
        if any(shown[r][c] != "." for r, c in water):
            return "a number lies in the water"
        if pool := pooled(water):
            return f"four cells of water make a square at row {pool[0] + 1}, column {pool[1] + 1}"
        return None if connected(water) else "the water is not connected"


class Norinori(CheckedAnswerTask):
    """Mark two cells in each region, in pairs that share a side.

    Levels 1 to 5: 6 to 10 rows.
    """

    explain = explained(grid_workings.norinori)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Pairs that do not touch; an area grows around each marked cell, and areas that touch are joined by twos."""
        size = 5 + level
        every = [(r, c) for r in range(size) for c in range(size)]
        marked: list[Cell] = []
        for cell in rng.sample(every, len(every)):
            for near in rng.sample(beside(*cell), 4):
                if near in every and not {*beside(*cell), *beside(*near)}.intersection(marked):
                    marked += [cell, near]
                    break
        area = grown(rng, {cell: number for number, cell in enumerate(marked)}, size, [0.5] * len(marked))
        twos = self.twos(rng, area, len(marked))
        letter = {
            number: name for name, two in zip(rng.sample(LETTERS, len(twos)), twos, strict=True) for number in two
        }
        rows = tuple("".join(letter[area[r, c]] for c in range(size)) for r in range(size))
        text = (
            "Mark two cells in each region of this grid (cells of one letter) so that each marked cell shares a side "
        )
        text += "with exactly one other, which may lie in another region.\n" + "\n".join(rows)
        text += f"\nAnswer with {size} rows of {size} digits, one row per line: 1 for a marked cell, 0 for another."
        answer = ["".join("01"[(r, c) in marked] for c in range(size)) for r in range(size)]
        return Question(text, rows, answer_text="\n".join(answer))

    @staticmethod
    def twos(rng: random.Random, area: dict[Cell, int], count: int) -> list[tuple[int, int]]:
        """Areas that touch, by twos: at random where that comes out, else those of each marked pair."""
        touching: dict[int, set[int]] = {number: set() for number in range(count)}
        for cell, number in area.items():
            touching[number].update({area[near] for near in beside(*cell) if near in area} - {number})
        for _ in range(20):
            left = {number: {*near} for number, near in touching.items()}
            twos: list[tuple[int, int]] = []
            while left:
                one = min(left, key=lambda number: (len(left[number]), rng.random()))
                if not left[one]:
                    break
                twos.append((one, rng.choice(sorted(left[one]))))
                left = {number: near - {*twos[-1]} for number, near in left.items() if number not in twos[-1]}
            else:
                return twos
        return [(number, number + 1) for number in range(0, count, 2)]

    def check(self, question: Question, answer: str) -> str | None:
        """Two marked cells in each region, and exactly one beside each marked cell."""
        rows = question.answer
        size = len(rows)
        marks = board(answer, size, size, "01")
        marked = {(r, c) for r in range(size) for c in range(size) if marks[r][c] == "1"}
        for name in sorted({*"".join(rows)}):
            count = sum(rows[r][c] == name for r, c in marked)
            if count != 2:
                return f"region {name} has {count} marked cells, not 2"
        for r, c in sorted(marked):
            count = len(marked.intersection(beside(r, c)))
            if count != 1:
                return f"the cell at row {r + 1}, column {c + 1} is beside {count} marked cells, not 1"
        return None
