"""Pegs of two kinds. Many turns; reward 1 for reaching the goal.

HanoiGame: discs on pegs, from one arrangement to another. PegJump: peg solitaire, down to a single peg.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rlvr.envs.games.boards import BoardGame, SearchedGame, distances
from rlvr.envs.games.common import COLUMNS, Cell

# For each level: discs, pegs, and whether a disc may only go to the next peg.
TOWERS = ((3, 3, False), (4, 3, False), (4, 3, True), (6, 4, False), (5, 4, True))
DISC_TURNS = (20, 40, 150, 60, 110)


class Tower(NamedTuple):
    """``at`` and ``goal`` hold the peg of each disc, smallest first; pegs count from 0."""

    pegs: int
    stepwise: bool
    at: tuple[int, ...]
    goal: tuple[int, ...]


class HanoiGame(BoardGame[Tower]):
    """Move the discs of a Tower of Hanoi, one a turn.

    Levels 1 to 5: 3 to 6 discs on 3 or 4 pegs, from any arrangement to one that is far from it.

    Levels 3 and 5 allow only moves to the next peg. Level 1 has 540 tasks.
    """

    move_form = "A move is two letters, such as ab: the top disc of peg a goes to peg b."

    def turns(self, level: int) -> int:
        return DISC_TURNS[level - 1]

    def deal(self, rng: random.Random, level: int) -> Tower:
        discs, pegs, stepwise = TOWERS[level - 1]
        while True:
            at, goal = (tuple(rng.choices(range(pegs), k=discs)) for _ in range(2))
            if apart(at, goal):
                return Tower(pegs, stepwise, at, goal)

    def space(self, level: int) -> list[str] | None:
        if level > 1:
            return None
        discs, pegs, stepwise = TOWERS[0]
        places = list(product(range(pegs), repeat=discs))
        return [self.identity(Tower(pegs, stepwise, at, goal)) for at in places for goal in places if apart(at, goal)]

    def guide(self, board: Tower) -> str:
        last = COLUMNS[board.pegs - 1]
        text = (
            f"Tower of Hanoi with discs 1 (smallest) to {len(board.at)} on pegs a to {last}. Move one disc at a time, "
            "the top one of a peg, and never onto a smaller one"
        )
        if board.stepwise:
            text += f"; a disc may only go to a neighbouring peg (the pegs stand in a row, a and {last} at its ends)"
        return f"{text}. Reach the goal:\n{said(board.pegs, board.goal)}"

    def show(self, board: Tower) -> str:
        return f"Now (each peg from bottom to top):\n{said(board.pegs, board.at)}"

    def identity(self, board: Tower) -> str:
        return f"{board.pegs} pegs{', stepwise' * board.stepwise}: {board.at} to {board.goal}"

    def named(self, move: str) -> str:
        return "".join(super().named(move).replace("->", " ").replace(" to ", " ").split())

    def legal(self, board: Tower) -> list[str]:
        return [COLUMNS[source] + COLUMNS[target] for source, target in lifts(board.pegs, board.stepwise, board.at)]

    def after(self, board: Tower, move: str) -> Tower:
        return board._replace(at=moved(board.at, COLUMNS.index(move[0]), COLUMNS.index(move[1])))

    def reached(self, board: Tower) -> bool:
        return board.at == board.goal

    def best(self, board: Tower) -> str:
        far = tower_distances(board.pegs, board.stepwise, board.goal)
        return min(self.legal(board), key=lambda move: far[self.after(board, move).at])


def apart(at: tuple[int, ...], goal: tuple[int, ...]) -> bool:
    """Whether nearly all discs have to move, and two at least."""
    return sum(map(int.__ne__, at, goal)) >= max(2, len(at) - 2)


def said(pegs: int, at: tuple[int, ...]) -> str:
    lines = []
    for peg in range(pegs):
        discs = [str(disc) for disc in range(len(at), 0, -1) if at[disc - 1] == peg]
        lines.append(f"{COLUMNS[peg]}: {' '.join(discs) or '-'}")
    return "\n".join(lines)


def lifts(pegs: int, stepwise: bool, at: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """From which peg to which a disc may go."""
    for source in range(pegs):
        for target in range(pegs):
            top = at.index(source) if source in at else len(at)
            free = target not in at[:top] and top < len(at)
            if free and source != target and (not stepwise or abs(source - target) == 1):
                yield source, target


def moved(at: tuple[int, ...], source: int, target: int) -> tuple[int, ...]:
    disc = at.index(source)
    return (*at[:disc], target, *at[disc + 1 :])


@lru_cache(maxsize=64)
def tower_distances(pegs: int, stepwise: bool, goal: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """The moves from every arrangement to the goal."""
    return distances([goal], lambda at: (moved(at, *lift) for lift in lifts(pegs, stepwise, at)))


# For each level: the board and how many pegs stand on it.
PEG_LEVELS = (("triangle 4", 4), ("triangle 5", 6), ("triangle 5", 9), ("cross", 8), ("cross", 11))
LINES = {"triangle": ((0, 1), (1, 0), (1, 1)), "cross": ((0, 1), (1, 0))}


class Pegs(NamedTuple):
    """``standing`` is a mask of holes with a peg, by their number on the board."""

    shape: str
    standing: int


class PegJump(SearchedGame[Pegs]):
    """Jump pegs until one is left.

    Levels 1 to 5: 4 pegs on a triangle of side 4, 6 and 9 on one of side 5, 8 and 11 on the English cross.

    Boards are made backwards, by unjumping from a single peg. A game ends when no jump is left.
    """

    move_form = "A move names the peg that jumps and the hole it lands in, such as a1 a3."

    def turns(self, level: int) -> int:
        return 2 * PEG_LEVELS[level - 1][1]

    def deal(self, rng: random.Random, level: int) -> Pegs:
        shape, count = PEG_LEVELS[level - 1]
        while True:
            standing = 1 << rng.randrange(len(holes(shape)))
            for _ in range(count - 1):
                back = [jump for jump in jumps(shape) if standing & sum(jump) == jump[2]]
                if not back:
                    break
                standing ^= sum(rng.choice(back))
            if standing.bit_count() == count:
                return Pegs(shape, standing)

    def space(self, level: int) -> list[str] | None:
        if level > 2:
            return None
        shape, count = PEG_LEVELS[level - 1]
        boards = {1 << hole for hole in range(len(holes(shape)))}
        for _ in range(count - 1):
            boards = {board ^ sum(jump) for board in boards for jump in jumps(shape) if board & sum(jump) == jump[2]}
        return [self.identity(Pegs(shape, board)) for board in sorted(boards)]

    def guide(self, board: Pegs) -> str:
        ways = "left, right, up or down" if board.shape == "cross" else "along a row or either diagonal side"
        lattice = (
            ""
            if board.shape == "cross"
            else " In the triangle the neighbours of a hole are those beside it, directly above and below it in the "
            "drawing, and those up left and down right of it."
        )
        return (
            f"Peg solitaire. A peg jumps over a neighbouring peg, in a straight line ({ways}), into the empty hole "
            f"just behind it; the peg jumped over is removed.{lattice} Leave a single peg. The game is lost when no "
            "jump is left before that.\no peg, . empty hole; columns have letters and rows have numbers."
        )

    def show(self, board: Pegs) -> str:
        signs = {cell: "o" if board.standing >> hole & 1 else "." for hole, cell in enumerate(holes(board.shape))}
        height = max(cell.row for cell in signs) + 1
        lines = ["   " + " ".join(COLUMNS[:height])]
        for row in range(height):
            line = " ".join(signs.get(Cell(row, column), " ") for column in range(height))
            lines.append(f"{row + 1:>2} {line}".rstrip())
        return "\n".join(lines)

    def legal(self, board: Pegs) -> list[str]:
        return list(open_jumps(board))

    def after(self, board: Pegs, move: str) -> Pegs:
        return board._replace(standing=board.standing ^ open_jumps(board)[move])

    def reached(self, board: Pegs) -> bool:
        return board.standing.bit_count() == 1

    def failed(self, board: Pegs) -> str:
        return (
            ""
            if self.reached(board) or open_jumps(board)
            else f"no jump is left, and {board.standing.bit_count()} pegs are"
        )

    def search(self, board: Pegs) -> list[str] | None:
        """Every solution has the same length: one peg goes with each jump."""
        dead: set[int] = set()

        def down(standing: int) -> list[str] | None:
            if standing & standing - 1 == 0:
                return []
            for move, flip in open_jumps(Pegs(board.shape, standing)).items():
                if standing ^ flip not in dead:
                    rest = down(standing ^ flip)
                    if rest is not None:
                        return [move, *rest]
            dead.add(standing)
            return None

        return down(board.standing)


@lru_cache(maxsize=8)
def holes(shape: str) -> tuple[Cell, ...]:
    if shape == "cross":
        return tuple(Cell(y, x) for y in range(7) for x in range(7) if 2 <= y <= 4 or 2 <= x <= 4)
    side = int(shape.split()[1])
    return tuple(Cell(y, x) for y in range(side) for x in range(y + 1))


@lru_cache(maxsize=8)
def jumps(shape: str) -> tuple[tuple[int, int, int], ...]:
    """Every jump as three one-bit masks: the peg, the one it jumps over, and where it lands."""
    cells = holes(shape)
    found = []
    for cell in cells:
        for dy, dx in LINES[shape.split()[0]]:
            line = [Cell(cell.row + k * dy, cell.column + k * dx) for k in range(3)]
            if all(place in cells for place in line):
                first, middle, last = (1 << cells.index(place) for place in line)
                found += [(first, middle, last), (last, middle, first)]
    return tuple(found)


def open_jumps(board: Pegs) -> dict[str, int]:
    """The legal jumps, and the holes that each flips."""
    cells, standing = holes(board.shape), board.standing
    return {
        f"{cells[first.bit_length() - 1]} {cells[last.bit_length() - 1]}": first | middle | last
        for first, middle, last in jumps(board.shape)
        if standing & first and standing & middle and not standing & last
    }
