"""Grids in which cells are marked.

Each puzzle is made from a marking that solves it. Takuzu, Hitori and StarBattle have no other, as the puzzles of these
names promise; in the rest, one that solves it in another way is as right.

Observation: the rules, the grid with what is given, and how to write the marks.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from rlvr.envs.puzzles import grid_workings
from rlvr.envs.puzzles.crossed_out import grid_of_one_solution
from rlvr.envs.puzzles.search_budget import SearchBudget, TooLong
from rlvr.envs.tasks.answers import board, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained, whole_numbers

Cell = tuple[int, int]


def beside(r: int, c: int) -> tuple[Cell, Cell, Cell, Cell]:
    return (r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)


def connected(cells: set[Cell]) -> bool:
    """Whether one can walk from any of the cells to any other by common sides."""
    if not cells:
        return True
    left = set(cells)
    stack = [left.pop()]
    while stack:
        for near in beside(*stack.pop()):
            if near in left:
                left.discard(near)
                stack.append(near)
    return not left


def grown(rng: random.Random, region: dict[Cell, int], size: int, greed: Sequence[float]) -> dict[Cell, int]:
    """Regions grown from cells, by how greedy each is, until the grid is full: each cell's number."""
    region = {**region}
    edge = list(region)
    while edge:
        index = int(rng.random() * len(edge))
        r, c = edge[index]
        near = [(y, x) for y, x in beside(r, c) if 0 <= y < size and 0 <= x < size and (y, x) not in region]
        if not near:
            edge[index] = edge[-1]
            edge.pop()
            continue
        if rng.random() > greed[region[r, c]]:
            continue
        cell = near[int(rng.random() * len(near))]
        region[cell] = region[r, c]
        edge.append(cell)
    return region


def runs(line: Iterable[str]) -> tuple[int, ...]:
    """The lengths of the groups of 1 in a line; (0,) when there are none."""
    return tuple(len(group) for group in "".join(line).split("0") if group) or (0,)


class Nonograms(CheckedAnswerTask):
    """Fill cells by the lengths of the groups of rows and columns.

    Levels 1 to 5: 5, 6, 7, 8 and 10 rows and columns.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A random grid, 58 % filled; other grids of the same groups are right too."""
        size = (5, 6, 7, 8, 10)[level - 1]
        rows = ["".join("1" if rng.random() < 0.58 else "0" for _ in range(size)) for _ in range(size)]
        across, down = tuple(map(runs, rows)), tuple(map(runs, zip(*rows, strict=True)))
        facts = [", ".join(" ".join(map(str, clue)) for clue in clues) for clues in (across, down)]
        text = f"Some cells of a grid of {size} x {size} are filled. For each row, and for each column, the lengths of "
        text += "its groups of filled cells without a gap are given, in order (0: none is filled).\nRows from the top: "
        text += f"{facts[0]}\nColumns from the left: {facts[1]}\nAnswer with {size} rows of {size} digits, one row per "
        text += "line: 1 for a filled cell, 0 for another. Any grid that fits is right."
        return Question(text, (across, down), answer_text="\n".join(rows))

    def explain(self, state: Question) -> str:
        """What the groups force, line after line."""
        return grid_workings.nonogram(state)[0]

    def direct_answer(self, state: Question) -> str:
        """The rows that the working comes to; where several grids fit it need not be the one drawn."""
        rows = "\n".join(grid_workings.nonogram(state)[1])
        return f"\\boxed{{{rows}}}"

    def check(self, question: Question, answer: str) -> str | None:
        """Compares the group lengths of every row and column, not the cells."""
        across, down = question.answer
        rows = board(answer, len(across), len(across), "01")
        for kind, lines, clues in (("row", rows, across), ("column", zip(*rows, strict=True), down)):
            for number, (line, clue) in enumerate(zip(lines, clues, strict=True), 1):
                if runs(line) != clue:
                    return f"{kind} {number} has groups of {listed(runs(line))}, not of {listed(clue)}"
        return None


@cache
def balanced_rows(size: int) -> tuple[int, ...]:
    """Every row of so many bits with half of them set and no three equal neighbours."""
    balanced = []
    for row in range(1 << size):
        other = ~row & (1 << size) - 1
        if row.bit_count() * 2 == size and not (row & row << 1 & row << 2 or other & other << 1 & other << 2):
            balanced.append(row)
    return tuple(balanced)


def balanced(rng: random.Random, size: int, rows: list[int]) -> list[int]:
    """Rows (bit masks) on top of ``rows``, so that the columns are balanced too, by backtracking; [] if none fit."""
    if len(rows) == size:
        return rows
    set_, clear = 0, (1 << size) - 1  # bits that must be set, and that may be
    if len(rows) > 1:
        set_, clear = ~(rows[-1] | rows[-2]) & clear, ~(rows[-1] & rows[-2]) & clear
    for column in range(size):
        ones = sum(row >> column & 1 for row in rows)
        if ones * 2 >= size:
            clear &= ~(1 << column)
        elif (len(rows) - ones) * 2 >= size:
            set_ |= 1 << column
    fitting = [row for row in balanced_rows(size) if row & set_ == set_ and not row & ~clear]
    for row in rng.sample(fitting, min(3, len(fitting))):
        if done := balanced(rng, size, [*rows, row]):
            return done
    return []


def other_filling(givens: Sequence[str], rows: Sequence[str]) -> list[str] | None:
    """The rows of a Takuzu that fit what is given and are not these; None where there are no others.

    Raises:
        TooLong: it is not known after a thousand partial fillings.
    """
    size = len(givens)
    masks = [(int(row.replace(".", "0"), 2), int(row.replace("0", "1").replace(".", "0"), 2)) for row in givens]
    fitting = [[row for row in balanced_rows(size) if row & shown == ones] for ones, shown in masks]
    first, full = [int(row, 2) for row in rows], (1 << size) - 1
    budget = SearchBudget(1000)

    def fill(above: list[int], ones: list[int]) -> list[int] | None:
        budget.spend()
        number = len(above)
        if number == size:
            return above if above != first else None
        set_, may = 0, full
        if number > 1:
            set_, may = ~(above[-1] | above[-2]) & full, ~(above[-1] & above[-2]) & full
        for column, count in enumerate(ones):
            if count * 2 >= size:
                may &= ~(1 << column)
            elif (number - count) * 2 >= size:
                set_ |= 1 << column
        for row in fitting[number]:
            if row & set_ == set_ and not row & ~may:
                done = fill([*above, row], [count + (row >> column & 1) for column, count in enumerate(ones)])
                if done is not None:
                    return done
        return None

    filled = fill([], [0] * size)
    return None if filled is None else [f"{row:0{size}b}" for row in filled]


class Takuzu(CheckedAnswerTask):
    """Fill a grid with as many 0 as 1 and no three alike in line.

    Levels 1 to 5: 6, 6, 8, 8 and 10 rows, with a half, 36 %, a half, 38 % and 42 % of the cells given.

    More cells are given where otherwise there were a second solution.
    """

    explain = explained(grid_workings.takuzu)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Backtracks to a balanced grid, then gives cells that tell it from other solutions until there are none."""
        size, share = (6, 6, 8, 8, 10)[level - 1], (0.5, 0.36, 0.5, 0.38, 0.42)[level - 1]
        masks: list[int] = []
        while not masks:
            masks = balanced(rng, size, [])
        rows = [f"{row:0{size}b}" for row in masks]
        givens = ["".join(s if rng.random() < share else "." for s in row) for row in rows]
        while cells := self.clues_for_uniqueness(givens, rows):
            for r, c in rng.sample(cells, 1 + len(cells) // 8):
                givens[r] = f"{givens[r][:c]}{rows[r][c]}{givens[r][c + 1 :]}"
        text = "Fill the empty cells (.) with 0 and 1 so that each row and each column holds as many 0 as 1, and three "
        text += "equal symbols never stand next to each other in a row or column:\n" + "\n".join(givens)
        text += f"\nThere is one solution. Answer with the {size} rows, one per line."
        return Question(text, tuple(givens), answer_text="\n".join(rows))

    @staticmethod
    def clues_for_uniqueness(givens: Sequence[str], rows: Sequence[str]) -> list[Cell]:
        """Empty cells that tell these rows from another solution: none if there is none, all if that is not known."""
        try:
            other: Sequence[str] | None = other_filling(givens, rows)
        except TooLong:
            other = givens
        if other is None:
            return []
        size = len(rows)
        return [(r, c) for r in range(size) for c in range(size) if other[r][c] != rows[r][c]]

    def check(self, question: Question, answer: str) -> str | None:
        """Given cells unchanged, each row and column in balance, and no three equal neighbours."""
        givens = question.answer
        size = len(givens)
        rows = board(answer, size, size, "01")
        for r, (row, clue) in enumerate(zip(rows, givens, strict=True), 1):
            if any(k not in (".", symbol) for symbol, k in zip(row, clue, strict=True)):
                return f"row {r} changes what is given"
        columns = ["".join(column) for column in zip(*rows, strict=True)]
        for kind, lines in (("row", rows), ("column", columns)):
            for number, line in enumerate(lines, 1):
                if line.count("1") * 2 != size or "000" in line or "111" in line:
                    return f"{kind} {number} is not in balance, or has three equal symbols in a row"
        return None


class Hitori(CheckedAnswerTask):
    """Cross out cells so that no number repeats in a row or column.

    Levels 1 to 5: 4, 5, 6, 7 and 8 rows.
    """

    explain = explained(grid_workings.hitori)

    def ask(self, rng: random.Random, level: int) -> Question:
        """A Latin square, with numbers under the crossed-out cells that leave no other way."""
        size = 3 + level
        numbers, out = grid_of_one_solution(rng, size)
        shown = tuple("".join(map(str, numbers[r * size : r * size + size])) for r in range(size))
        marked = ["".join(str(out >> r * size + c & 1) for c in range(size)) for r in range(size)]
        text = (
            "Cross out cells of this grid so that no number stands twice in a row or column among those left, no two "
        )
        text += "crossed-out cells share a side, and the cells left are connected by common sides:\n" + "\n".join(shown)
        text += (
            f"\nAnswer with {size} rows of {size} digits, one row per line: 1 for a crossed-out cell, 0 for another."
        )
        return Question(text, shown, answer_text="\n".join(marked))

    def check(self, question: Question, answer: str) -> str | None:
        """No repeats among the cells left, no crossed-out neighbours, and one connected rest."""
        shown = question.answer
        size = len(shown)
        marks = board(answer, size, size, "01")
        white = {(r, c) for r in range(size) for c in range(size) if marks[r][c] == "0"}
        for r, c in sorted(white):
            if any(shown[r][k] == shown[r][c] for k in range(c) if (r, k) in white):
                return f"row {r + 1} keeps a number twice"
            if any(shown[k][c] == shown[r][c] for k in range(r) if (k, c) in white):
                return f"column {c + 1} keeps a number twice"
        for kind, lines in (("row", marks), ("column", zip(*marks, strict=True))):
            for number, line in enumerate(lines, 1):
                if "11" in "".join(line):
                    return f"two crossed-out cells are neighbours in {kind} {number}"
        return None if connected(white) else "the cells left are not connected"


class Tents(CheckedAnswerTask):
    """Put a tent beside each tree.

    Levels 1 to 5: 5, 6, 7, 8 and 10 rows with 5, 7, 10, 13 and 20 trees.
    """

    explain = explained(grid_workings.tents)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Places a tent and then its tree, until the level's number of both fits."""
        size, count = (5, 6, 7, 8, 10)[level - 1], (5, 7, 10, 13, 20)[level - 1]
        while True:
            tents: list[Cell] = []
            trees: set[Cell] = set()
            closed: set[Cell] = set()  # where no further tent may stand
            for index in rng.sample(range(size * size), size * size):
                r, c = divmod(index, size)
                if (r, c) in closed or (r, c) in trees or len(tents) == count:
                    continue
                near = [(y, x) for y, x in beside(r, c) if 0 <= y < size and 0 <= x < size]
                near = [cell for cell in near if cell not in trees and cell not in tents]
                if near:
                    trees.add(near[int(rng.random() * len(near))])
                    tents.append((r, c))
                    closed.update((y, x) for y in (r - 1, r, r + 1) for x in (c - 1, c, c + 1))
            if len(tents) == count:
                break
        across = tuple(sum(r == row for r, _ in tents) for row in range(size))
        down = tuple(sum(c == column for _, c in tents) for column in range(size))
        picture = ["".join("T" if (r, c) in trees else "." for c in range(size)) for r in range(size)]
        text = "Put a tent beside each tree (T), in one of the free cells that share a side with it, so that each tree "
        text += "has a tent of its own; no two tents may touch, not even at a corner.\n" + "\n".join(picture)
        text += f"\nTents in the rows from the top: {listed(across)}; in the columns from the left: {listed(down)}.\n"
        text += f"Answer with {size} rows of {size} digits, one row per line: 1 for a tent, 0 for none."
        rows = ["".join("01"[(r, c) in tents] for c in range(size)) for r in range(size)]
        return Question(text, (tuple(sorted(trees)), across, down), answer_text="\n".join(rows))

    def check(self, question: Question, answer: str) -> str | None:
        """Counts, no touching tents, and a matching of tents to trees by augmenting paths."""
        trees, across, down = question.answer
        size = len(across)
        rows = board(answer, size, size, "01")
        tents = [(r, c) for r in range(size) for c in range(size) if rows[r][c] == "1"]
        if set(tents) & set(trees):
            return "a tent stands on a tree"
        for number in range(size):
            if rows[number].count("1") != across[number]:
                return f"row {number + 1} has {rows[number].count('1')} tents, not {across[number]}"
            if sum(row[number] == "1" for row in rows) != down[number]:
                return f"column {number + 1} has not {down[number]} tents"
        for index, (r, c) in enumerate(tents):
            if any(abs(r - y) <= 1 and abs(c - x) <= 1 for y, x in tents[:index]):
                return f"the tent at row {r + 1}, column {c + 1} touches another"
        return (
            None
            if len(grid_workings.paired(tents, trees)) == len(tents)
            else "not every tent has a tree of its own beside it"
        )


def lit_by(walls: Iterable[Cell], size: int, lamp: Cell) -> set[Cell]:
    """The cells that a lamp lights: its own, and those of its row and column up to a wall."""
    lit = {lamp}
    for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c = lamp[0] + dy, lamp[1] + dx
        while 0 <= r < size and 0 <= c < size and (r, c) not in walls:
            lit.add((r, c))
            r, c = r + dy, c + dx
    return lit


class Akari(CheckedAnswerTask):
    """Place lamps that light a whole grid and not each other (Light Up).

    Levels 1 to 5: 5, 6, 7, 8 and 10 rows, of whose cells 24 % are walls.
    """

    explain = explained(grid_workings.akari)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Walls at random, four of five with a number; then a lamp in one dark cell after another."""
        size = (5, 6, 7, 8, 10)[level - 1]
        every = [(r, c) for r in range(size) for c in range(size)]
        walls = {*rng.sample(every, size * size * 24 // 100)}
        lamps: set[Cell] = set()
        lit = set(walls)
        for cell in rng.sample(every, len(every)):
            if cell not in lit:
                lamps.add(cell)
                lit |= lit_by(walls, size, cell)
        shown = [["."] * size for _ in range(size)]
        for r, c in sorted(walls):
            shown[r][c] = str(len(lamps.intersection(beside(r, c)))) if rng.random() < 0.8 else "#"
        rows = tuple("".join(row) for row in shown)
        text = (
            "Put lamps on empty cells (.) of this grid. # and numbers are walls. A lamp lights its own cell, and its "
        )
        text += (
            "row and column in both directions up to a wall. Every empty cell must be lit, no lamp may light another, "
        )
        text += "and a number is how many lamps share a side with that wall.\n" + "\n".join(rows)
        text += f"\nAnswer with {size} rows of {size} digits, one row per line: 1 for a lamp, 0 for none."
        return Question(
            text, rows, answer_text="\n".join("".join("01"[(r, c) in lamps] for c in range(size)) for r in range(size))
        )

    def check(self, question: Question, answer: str) -> str | None:
        """No lamp on a wall or in the light of another, every number met, no cell dark."""
        shown = question.answer
        size = len(shown)
        marks = board(answer, size, size, "01")
        every = [(r, c) for r in range(size) for c in range(size)]
        lamps = {(r, c) for r, c in every if marks[r][c] == "1"}
        walls = {(r, c) for r, c in every if shown[r][c] != "."}
        if lamps & walls:
            return "a lamp stands on a wall"
        for r, c in sorted(walls):
            count = len(lamps.intersection(beside(r, c)))
            if shown[r][c] not in ("#", str(count)):
                return f"the wall at row {r + 1}, column {c + 1} has {count} lamps beside it, not {shown[r][c]}"
        lit = set(walls)
        for lamp in sorted(lamps):
            lights = lit_by(walls, size, lamp)
            if lights & lamps != {lamp}:
                return f"the lamp at row {lamp[0] + 1}, column {lamp[1] + 1} lights another"
            lit |= lights
        dark = next((cell for cell in every if cell not in lit), None)
        return f"row {dark[0] + 1}, column {dark[1] + 1} is dark" if dark else None


@cache
def ruled_out(size: int) -> tuple[int, ...]:
    """By cell, as a bit of rows of ``size`` + 1, the cells where a star there leaves room for none."""
    marks = []
    width = size + 1
    for row, column in itertools.product(range(size), range(width)):
        near = {(y, x) for y in (row - 1, row + 1) for x in (column - 1, column + 1)}
        near |= {(row, x) for x in range(size)} | {(y, column) for y in range(size)}
        marks.append(sum(1 << y * width + x for y, x in near if 0 <= y < size and 0 <= x < size))
    return tuple(marks)


def other_stars(region: Mapping[Cell, int], stars: Sequence[int]) -> list[int] | None:
    """The columns of stars that keep the rules of StarBattle and are not these; None where there are no others."""
    size = len(stars)
    width, taken = size + 1, ruled_out(size)
    masks = [0] * size  # the cells of each region, as bits
    for (row, column), number in region.items():
        masks[number] |= 1 << row * width + column
    first = sum(1 << row * width + column for row, column in enumerate(stars))

    def put(free: int, left: list[int], placed: int) -> int:
        """A set of stars for the regions that are left, on cells that are free; 0 if there is none."""
        if not left:
            return placed if placed != first else 0
        tightest = min(left, key=lambda mask: (mask & free).bit_count())
        rest = [mask for mask in left if mask is not tightest]
        choices = tightest & free
        while choices:
            star = choices & -choices
            choices ^= star
            after = free & ~taken[star.bit_length() - 1]
            if done := put(after, rest, placed | star):
                return done
        return 0

    solution = put((1 << size * width) - 1, masks, 0)
    return [(solution >> row * width & (1 << size) - 1).bit_length() - 1 for row in range(size)] if solution else None


class StarBattle(CheckedAnswerTask):
    """Put stars in rows, columns and regions that do not touch.

    Levels 1 to 5: 6 to 10 rows.

    The borders of the regions are moved until one solution is left.
    """

    explain = explained(grid_workings.star_battle)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Grows regions from stars that do not touch, then moves borders until the solution is unique."""
        size = 5 + level
        while True:
            stars = rng.sample(range(size), size)
            if all(abs(a - b) > 1 for a, b in itertools.pairwise(stars)):
                greed = [rng.random() ** 2 + 0.02 for _ in stars]  # small regions leave fewer solutions
                region = grown(rng, {(row, column): row for row, column in enumerate(stars)}, size, greed)
                if self.made_unique(rng, region, stars):
                    break
        names = rng.sample("ABCDEFGHIJ"[:size], size)
        rows = tuple("".join(names[region[r, c]] for c in range(size)) for r in range(size))
        text = f"Put {size} stars on this grid: one in each row, one in each column and one in each region (cells of "
        text += "one letter); no two stars may touch, not even at a corner.\n" + "\n".join(rows)
        text += "\nThere is one solution. "
        text += "Answer with the column of the star in each row, from the top; the left column is 1."
        return Question(text, rows, answer_text=listed(star + 1 for star in stars))

    @staticmethod
    def made_unique(rng: random.Random, region: dict[Cell, int], stars: Sequence[int]) -> bool:
        """Give cells of other solutions to the regions beside them until there are none; False if that leads nowhere.

        A solution whose star changes its region has two stars in the new one.
        """
        for _ in range(8 * len(stars)):
            other = other_stars(region, stars)
            if other is None:
                return True
            moves = [
                (cell, region[near])
                for cell in enumerate(other)
                if other[cell[0]] != stars[cell[0]]
                for near in beside(*cell)
                if near in region and region[near] != region[cell]
                if connected({at for at, number in region.items() if number == region[cell]} - {cell})
            ]
            if not moves:
                return False
            cell, number = rng.choice(moves)
            region[cell] = number
        return False

    def check(self, question: Question, answer: str) -> str | None:
        """One star a row, column and region, none touching."""
        rows = question.answer
        stars = whole_numbers(answer, len(rows))
        if sorted(stars) != list(range(1, len(rows) + 1)):
            return f"the columns are not each of 1 to {len(rows)} once"
        if any(abs(a - b) == 1 for a, b in itertools.pairwise(stars)):
            return "two stars touch"
        regions = {row[star - 1] for row, star in zip(rows, stars, strict=True)}
        return None if len(regions) == len(rows) else "a region has two stars"
