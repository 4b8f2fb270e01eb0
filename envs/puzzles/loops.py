"""Loops and paths on a grid.

Each puzzle is made from a solution; another that keeps the rules is as right.

Observation: the rules, the grid with what is given, and how to write the loop, the paths or the numbers.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from typing import ClassVar

from rlvr.envs.puzzles import grid_workings
from rlvr.envs.puzzles.shading import Cell, beside, connected
from rlvr.envs.tasks.answers import board, items, listed
from rlvr.envs.tasks.questions import CheckedAnswerTask, Question, explained, whole_numbers

_COUNTED_PAIR = re.compile(
    r"\b([A-Za-z]) ?[-–]? ?([A-Za-z])(?: ?[:=] ?| ?\((?=[12]\)))([12])\b\)?"
)  # A-B: 2, AB = 2, AB (2)
RING = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))


def one_arc(inside: set[Cell], r: int, c: int) -> bool:
    """Whether the eight cells around hold one unbroken arc of inner ones, a neighbour by a side among them."""
    ring = [(r + y, c + x) in inside for y, x in RING]
    changes = sum(ring[k] != ring[k - 1] for k in range(8))
    return changes == 2 and (ring[0] or ring[2] or ring[4] or ring[6])


def blob(rng: random.Random, size: int, wanted: int) -> set[Cell]:
    """Connected cells without holes that touch themselves at no corner: their edge is one loop."""
    inside = {(rng.randrange(size), rng.randrange(size))}
    edge = list(inside)
    misses = 0
    while len(inside) < wanted and misses < 8 * size:
        near = beside(*edge[int(rng.random() * len(edge))])
        r, c = near[int(rng.random() * 4)]
        if 0 <= r < size and 0 <= c < size and (r, c) not in inside and one_arc(inside, r, c):
            inside.add((r, c))
            edge.append((r, c))
            misses = 0
        else:
            misses += 1
    return inside


def borders(inside: set[Cell], r: int, c: int) -> int:
    """How many sides of a cell lie on the edge of ``inside``."""
    is_inside = (r, c) in inside
    return sum((near in inside) != is_inside for near in beside(r, c))


class Slitherlink(CheckedAnswerTask):
    """Draw a single loop around the numbers of a grid.

    Levels 1 to 5: 6, 6, 7, 8 and 9 rows, with fewer and fewer of the numbers shown.
    """

    explain = explained(grid_workings.slitherlink)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Grows an area without holes whose border is one loop; the answer marks its cells, not the loop's sides."""
        size, share = (6, 6, 7, 8, 9)[level - 1], (0.95, 0.8, 0.75, 0.75, 0.7)[level - 1]
        while True:
            inside = blob(rng, size, size * size * rng.randint(45, 60) // 100)
            if len(inside) >= size * size // 3:
                break
        shown = tuple(
            "".join(str(borders(inside, r, c)) if rng.random() < share else "." for c in range(size))
            for r in range(size)
        )
        text = "A single closed loop runs along sides of the cells of this grid; it never crosses or touches itself. "
        text += "The "
        text += "number in a cell is how many of its four sides belong to the loop (.: not given).\n" + "\n".join(shown)
        text += f"\nAnswer with {size} rows of {size} digits, one row per line: 1 for a cell inside the loop, 0 for "
        text += "one "
        rows_text = "\n".join("".join("01"[(r, c) in inside] for c in range(size)) for r in range(size))
        return Question(text + "outside.", shown, answer_text=rows_text)

    def check(self, question: Question, answer: str) -> str | None:
        """Numbers first, then one loop: inside and outside are each connected, and no two inner cells only touch."""
        shown = question.answer
        size = len(shown)
        marks = board(answer, size, size, "01")
        inside = {(r, c) for r in range(size) for c in range(size) if marks[r][c] == "1"}
        around = {(r, c) for r in range(-1, size + 1) for c in range(-1, size + 1)}
        for r in range(size):
            for c in range(size):
                if shown[r][c] != "." and borders(inside, r, c) != int(shown[r][c]):
                    return f"row {r + 1}, column {c + 1} has {borders(inside, r, c)} sides on the loop"
        if not inside or not connected(inside) or not connected(around - inside):
            return "that is not one loop"
        for r in range(size - 1):
            for c in range(size - 1):
                if marks[r][c] == marks[r + 1][c + 1] != marks[r][c + 1] == marks[r + 1][c]:
                    return f"the loop touches itself below row {r + 1}, right of column {c + 1}"
        return None


def turns_at(loop: Sequence[Cell]) -> list[bool]:
    """Of each cell of a closed loop, whether the loop turns in it."""
    return [(loop[k - 1][0] != loop[(k + 1) % len(loop)][0]) and (loop[k - 1][1] != loop[(k + 1) % len(loop)][1])
            for k in range(len(loop))]  # fmt: skip


def circles(loop: Sequence[Cell]) -> dict[Cell, str]:
    """The circle that each cell of a loop could hold: B, W, or none."""
    turns, count = turns_at(loop), len(loop)
    kinds = {}
    for k, cell in enumerate(loop):
        beside_it = (turns[k - 1], turns[(k + 1) % count])
        if turns[k] and not any(beside_it):
            kinds[cell] = "B"
        elif not turns[k] and any(beside_it):
            kinds[cell] = "W"
    return kinds


class Masyu(CheckedAnswerTask):
    """Draw a single loop through black and white circles.

    Levels 1 to 5: 7, 7, 8, 9 and 10 rows, with all to three fifths of the circles that the loop could have.
    """

    explain = explained(grid_workings.masyu)

    def ask(self, rng: random.Random, level: int) -> Question:
        """The loop is the border of an area without holes, whose corners are the cells here."""
        size, share = max(7, 5 + level), (1, 0.9, 0.8, 0.7, 0.6)[level - 1]
        shown: dict[Cell, str] = {}
        while len(shown) < size:
            loop = around(blob(rng, size - 1, (size - 1) ** 2 * rng.randint(45, 65) // 100))
            shown = {cell: kind for cell, kind in sorted(circles(loop).items()) if rng.random() < share}
        rows = tuple("".join(shown.get((r, c), ".") for c in range(size)) for r in range(size))
        start = loop.index(min(shown))
        loop = [*loop[start:], *loop[: start + 1]]
        names = {step: name for name, step in STEPS.items()}
        steps = "".join(names[d - b, e - f] for (b, f), (d, e) in itertools.pairwise(loop)).upper()
        text = "Draw a single closed loop from cell to cell by common sides, through every circle and no cell twice; "
        text += "other cells may be left out. In a black circle (B) the loop turns, and goes straight through the cell "
        text += (
            "before and the cell after it. In a white circle (W) it goes straight, and turns in the cell before it, in "
        )
        text += "the cell after it, or in both.\n" + "\n".join(rows)
        text += (
            "\nBegin at the first circle, reading row by row from the top, and give the steps of the whole loop (U, "
        )
        text += "D, L, R for up, down, left, right), such as RRDDLLUU."
        return Question(text, rows, answer_text=steps)

    def check(self, question: Question, answer: str) -> str | None:
        """Walks the loop once around; then each circle says what the loop must do there."""
        rows = question.answer
        size = len(rows)
        given = {(r, c): rows[r][c] for r in range(size) for c in range(size) if rows[r][c] != "."}
        steps = re.sub(r"[\s,;]+", "", answer).lower()
        if not steps or not set(steps) <= set(STEPS):
            raise ValueError("a loop is letters U, D, L and R")
        loop = [min(given)]
        for step in steps:
            r, c = loop[-1][0] + STEPS[step][0], loop[-1][1] + STEPS[step][1]
            if not (0 <= r < size and 0 <= c < size) or (r, c) in loop[1:]:
                return f"the loop leaves the grid, or comes to row {r + 1}, column {c + 1} again"
            loop.append((r, c))
        if loop.pop() != loop[0] or len(loop) < 4:
            return "the loop does not end where it begins"
        could = circles(loop)
        for (r, c), kind in given.items():
            if could.get((r, c)) != kind:
                why = "goes another way through" if (r, c) in loop else "misses"
                return f"the loop {why} the circle at row {r + 1}, column {c + 1}"
        return None


def around(inside: set[Cell]) -> list[Cell]:
    """The corners on the border of an area without holes, in the order of a walk around it."""
    ahead = {}
    for r, c in inside:  # each side as a step with the area on the right
        for near, side in zip(
            beside(r, c),
            (((r, c), (r, c + 1)), ((r + 1, c + 1), (r + 1, c)), ((r + 1, c), (r, c)), ((r, c + 1), (r + 1, c + 1))),
            strict=True,
        ):
            if near not in inside:
                ahead[side[0]] = side[1]
    loop = [min(ahead)]
    while (step := ahead[loop[-1]]) != loop[0]:
        loop.append(step)
    return loop


def winding(rng: random.Random, size: int) -> list[Cell]:
    """A random path through every cell: a snake, changed by moves that bite its own ends off and on."""
    path = [(r, c if r % 2 == 0 else size - 1 - c) for r in range(size) for c in range(size)]
    index = {cell: number for number, cell in enumerate(path)}
    for _ in range(5 * size * size):
        if rng.random() < 0.1:
            path.reverse()
            index = {cell: number for number, cell in enumerate(path)}
        near = beside(*path[-1])[int(rng.random() * 4)]
        number = index.get(near)
        if number is None or number == len(path) - 2:
            continue
        path[number + 1 :] = path[:number:-1]
        for k in range(number + 1, len(path)):
            index[path[k]] = k
    return path


STEPS = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}


class NumberLink(CheckedAnswerTask):
    """Join pairs of letters by paths that fill the grid.

    Levels 1 to 5: 5, 5, 6, 7 and 8 rows, with 3 to 7 pairs.
    """

    explain = explained(grid_workings.numberlink)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Cuts one path through all the cells into pieces of three or more; their ends are the letters."""
        size, pairs = max(5, 3 + level), 2 + level
        path = winding(rng, size)
        while True:
            cuts = [0, *sorted(rng.sample(range(3, size * size - 2), pairs - 1)), size * size]
            if all(b - a >= 3 for a, b in itertools.pairwise(cuts)):
                break
        order = rng.sample(range(pairs), pairs)
        parts = [path[cuts[k] : cuts[k + 1]] for k in order]
        parts = [part if part[0] < part[-1] else part[::-1] for part in parts]
        picture = [["."] * size for _ in range(size)]
        for name, part in zip("ABCDEFG", parts, strict=False):
            for r, c in (part[0], part[-1]):
                picture[r][c] = name
        rows = tuple("".join(row) for row in picture)
        names = {step: name for name, step in STEPS.items()}
        solution = ["".join(names[d - b, e - f] for (b, f), (d, e) in itertools.pairwise(p)).upper() for p in parts]
        text = "Join the two cells of each letter by a path from cell to cell by common sides. Every cell of the grid "
        text += "must lie on exactly one path, once.\n" + "\n".join(rows)
        text += f"\nFor {listed('ABCDEFG'[:pairs])}, in this order, give the steps (U, D, L, R for up, down, left, "
        text += "right) from the end that is higher up (the left one of two in a row) to the other, such as: RRD, "
        text += "DLL, ..."
        return Question(text, rows, answer_text=listed(solution))

    def check(self, question: Question, answer: str) -> str | None:
        """Walks each path from its upper end; together they must enter every cell once."""
        rows = question.answer
        ends: dict[str, list[Cell]] = {}
        for r, row in enumerate(rows):
            for c, name in enumerate(row):
                if name != ".":
                    ends.setdefault(name, []).append((r, c))
        visited: set[Cell] = set()
        for (name, (first, last)), steps in zip(sorted(ends.items()), items(answer, len(ends)), strict=True):
            if not set(steps) <= set(STEPS):
                raise ValueError("a path is letters U, D, L and R")
            r, c = first
            for step in ["", *steps]:
                dy, dx = STEPS.get(step, (0, 0))
                r, c = r + dy, c + dx
                if not (0 <= r < len(rows) and 0 <= c < len(rows)) or (r, c) in visited:
                    return f"path {name} leaves the grid, or comes to a cell again"
                visited.add((r, c))
            if (r, c) != last:
                return f"path {name} does not end at its other {name}"
        return None if len(visited) == len(rows) ** 2 else f"{len(rows) ** 2 - len(visited)} cells lie on no path"


class Trail(CheckedAnswerTask):
    """What Numbrix and KnightsTour share: a grid numbered along one path; a subclass says what a step is."""

    rules: ClassVar[str]
    explain = explained(grid_workings.trail)

    @staticmethod
    def step(cell: Cell, other: Cell) -> bool:
        """Whether one cell may follow the other."""
        raise NotImplementedError

    def numbered(self, rng: random.Random, path: Sequence[Cell], size: int, givens: int) -> Question:
        """The question that shows ``givens`` numbers of a path, besides its two ends."""
        number = {cell: index for index, cell in enumerate(path, 1)}
        shown = {path[0], path[-1], *rng.sample(path, givens)}
        cells = [[(r, c) for c in range(size)] for r in range(size)]
        rows = tuple(tuple(number[cell] if cell in shown else 0 for cell in row) for row in cells)
        text = f"Fill the empty cells (.) with numbers so that each of 1 to {size * size} appears once, and "
        text += f"{self.rules}:\n"
        text += "\n".join(" ".join(str(n or ".") for n in row) for row in rows)
        text += f"\nAnswer with all {size} rows, one per line, the numbers separated by blanks."
        return Question(text, rows, answer_text="\n".join(" ".join(str(number[cell]) for cell in row) for row in cells))

    def check(self, question: Question, answer: str) -> str | None:
        """Each number once, the given ones unchanged, and every next number one ``step`` away."""
        rows = question.answer
        size = len(rows)
        numbers = whole_numbers(answer.replace("\\\\", " ").replace(";", " "), size * size)
        if sorted(numbers) != list(range(1, size * size + 1)):
            return f"the numbers are not each of 1 to {size * size} once"
        givens = [n for row in rows for n in row]
        if any(clue not in (0, number) for number, clue in zip(numbers, givens, strict=True)):
            return "a number that is given was changed"
        position = {number: divmod(index, size) for index, number in enumerate(numbers)}
        for number in range(1, size * size):
            if not self.step(position[number], position[number + 1]):
                return f"{number + 1} is no step away from {number}"
        return None


class Numbrix(Trail):
    """Complete a path of neighbouring numbers.

    Levels 1 to 5: 4, 5, 6, 7 and 8 rows, with fewer and fewer numbers given.
    """

    rules = "each number shares a side with the next"

    def ask(self, rng: random.Random, level: int) -> Question:
        """A random path through every cell; besides its ends 30 to 45 % of the numbers are given."""
        size = 3 + level
        return self.numbered(rng, winding(rng, size), size, size * size * (45, 40, 36, 33, 30)[level - 1] // 100)

    @staticmethod
    def step(cell: Cell, other: Cell) -> bool:
        """Cells that share a side, never diagonal ones."""
        return abs(cell[0] - other[0]) + abs(cell[1] - other[1]) == 1


KNIGHT = ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1))


def tour(rng: random.Random, size: int) -> list[Cell]:
    """A knight's tour by Warnsdorff's rule, ties broken at random; [] where it fails."""
    near = {
        (r, c): [(r + y, c + x) for y, x in KNIGHT if 0 <= r + y < size and 0 <= c + x < size]
        for r in range(size)
        for c in range(size)
    }
    degree = {cell: len(cells) for cell, cells in near.items()}
    start = int(rng.random() * (size * size + 1) / 2) * 2 if size % 2 else rng.randrange(size * size)
    path, cell = [], divmod(min(start, size * size - 1), size)
    while True:
        path.append(cell)
        open_ = near.pop(cell)
        for other in open_:
            degree[other] -= 1
        ways = [other for other in open_ if other in near]
        if not ways:
            return path if len(path) == size * size else []
        cell = min(ways, key=lambda other: degree[other] + 0.9 * rng.random())


class KnightsTour(Trail):
    """Complete a knight's tour.

    Levels 1 and 2: 5 rows; 3 and 4: 6; 5: 8; with fewer and fewer numbers given.
    """

    rules = "each number is a knight's move away from the next (two cells one way and one across)"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws tours by Warnsdorff's rule until one is complete; its first and last number are always shown."""
        size, givens = (5, 5, 6, 6, 8)[level - 1], (12, 7, 14, 9, 20)[level - 1]
        path: list[Cell] = []
        while not path:
            path = tour(rng, size)
        return self.numbered(rng, path, size, givens)

    @staticmethod
    def step(cell: Cell, other: Cell) -> bool:
        """Two cells along one axis and one along the other."""
        return {abs(cell[0] - other[0]), abs(cell[1] - other[1])} == {1, 2}


class Bridges(CheckedAnswerTask):
    """Join islands by bridges (Hashiwokakero).

    Levels 1 to 5: 6, 8, 10, 12 and 16 islands on a map of 7 to 11 rows.
    """

    explain = explained(grid_workings.bridges)

    def ask(self, rng: random.Random, level: int) -> Question:
        """Grows islands at the ends of bridges, none beside another; the answer lists pairs with 1 or 2."""
        size, wanted = 6 + level, (6, 8, 10, 12, 16)[level - 1]
        while True:
            built = self.grown(rng, size, wanted)
            if built:
                break
        spans, islands = built
        order = sorted(islands)
        names = dict(zip(order, "ABCDEFGHIJKLMNOP", strict=False))
        need = dict.fromkeys(order, 0)
        for (start, end), count in spans.items():
            need[start] += count
            need[end] += count
        picture = "\n".join(" ".join(names.get((r, c), ".") for c in range(size)) for r in range(size))
        facts = ", ".join(f"{names[cell]} {need[cell]}" for cell in order)
        text = "The letters on this map are islands. Bridges run straight, across or down, between two islands with no "
        text += f"island between; there are at most two between the same two, and none cross.\n{picture}\n"
        text += f"Every island can be reached from every other. The bridges that end at each island: {facts}.\n"
        text += "Answer with a part for each pair of islands with bridges between them: their letters and the number "
        text += "of bridges, such as AB1, BD2, ..."
        solution = [names[start] + names[end] + str(count) for (start, end), count in sorted(spans.items())]
        return Question(text, tuple((cell, names[cell], need[cell]) for cell in order), answer_text=listed(solution))

    @staticmethod
    def grown(rng: random.Random, size: int, wanted: int) -> tuple[dict[tuple[Cell, Cell], int], set[Cell]] | None:
        """Bridges (between pairs in order) and islands: each new one at the end of a bridge from an old one."""
        islands = {(rng.randrange(size), rng.randrange(size))}
        water = {(r, c) for r in range(size) for c in range(size)} - islands
        spans: dict[tuple[Cell, Cell], int] = {}
        ends = list(islands)
        for _ in range(30 * wanted):
            r, c = ends[int(rng.random() * len(ends))]
            dy, dx = RING[2 * int(rng.random() * 4)]
            length = 2 + int(rng.random() * (size - 2))
            way = [(r + k * dy, c + k * dx) for k in range(1, length + 1)]
            if not water.issuperset(way) or any(near in islands for near in beside(*way[-1])):
                continue
            water.difference_update(way)
            islands.add(way[-1])
            ends.append(way[-1])
            spans[min((r, c), way[-1]), max((r, c), way[-1])] = 1 + int(rng.random() * 2)
            if len(islands) == wanted:
                return spans, islands
        return None

    def check(self, question: Question, answer: str) -> str | None:
        """No crossing, at most two a pair, each island's count met, and all islands connected."""
        index = {name.lower(): cell for cell, name, _ in question.answer}
        left = {cell: need for cell, _, need in question.answer}
        covered: dict[Cell, int] = {}
        tied: set[tuple[Cell, Cell]] = set()
        for part in items(_COUNTED_PAIR.sub(r"\1\2\3", answer)):
            if len(part) != 3 or part[0] not in index or part[1] not in index or part[2] not in "12":
                raise ValueError("a part is two islands and 1 or 2, such as AB1")
            start, end = sorted((index[part[0]], index[part[1]]))
            if start == end or (start, end) in tied or (start[0] != end[0] and start[1] != end[1]):
                return f"{part.upper()} is no bridge, or stands twice"
            tied.add((start, end))
            for cell in between(start, end):
                if cell in left or cell in covered:
                    return f"{part.upper()} crosses an island or a bridge"
                covered[cell] = 1
            for cell in (start, end):
                left[cell] -= int(part[2])
        for cell, name, need in question.answer:
            if left[cell]:
                return f"{need - left[cell]} bridges end at {name}, not {need}"
        return None if joined(set(left), tied) else "not every island can be reached"


def between(start: Cell, end: Cell) -> list[Cell]:
    """The cells from one to another in the same row or column, without the two."""
    (a, b), (c, d) = start, end
    return [(a, k) for k in range(b + 1, d)] if a == c else [(k, b) for k in range(a + 1, c)]


def joined(cells: set[Cell], pairs: set[tuple[Cell, Cell]]) -> bool:
    """Whether the pairs tie all the cells together."""
    reached, new = set(), {min(cells)}
    while new:
        reached |= new
        new = {y for pair in pairs for x, y in (pair, pair[::-1]) if x in new} - reached
    return reached == cells
