"""PegJump: peg solitaire, down to a single peg. Many turns; reward 1 for reaching the goal."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.games.board_game import SearchedGame
from rlvr.envs.games.common import COLUMNS, Cell

# For each level: the board and how many pegs stand on it.
PEG_LEVELS = (("triangle 5", 7), ("triangle 5", 8), ("triangle 5", 9), ("cross", 9), ("cross", 11))
LINES = {"triangle": ((0, 1), (1, 0), (1, 1)), "cross": ((0, 1), (1, 0))}


class Pegs(NamedTuple):
    """``standing`` is a mask of holes with a peg, by their number on the board."""

    shape: str
    standing: int


class PegJump(SearchedGame[Pegs]):
    """Jump pegs until one is left.

    Levels 1 to 5: 7, 8 and 9 pegs on a triangle of side 5, 9 and 11 on the English cross.

    Boards are made backwards, by unjumping from a single peg. A game ends when no jump is left.

    Observation: the board: ``o`` is a peg, ``.`` an empty hole.
    Actions: a peg and the hole it lands in, such as ``a1 a3``.
    Reward: 1 for a single peg, else 0.
    Episode end: one peg is left, no jump is left, or the turns are used up.
    """

    move_form = "A move names the peg that jumps and the hole it lands in, such as a1 a3."
    nouns = ("peg", "from", "to", "hole", "into")
    turn_limits = tuple(2 * pegs for _, pegs in PEG_LEVELS)

    def deal(self, rng: random.Random, level: int) -> Pegs:
        """Takes jumps back from a single peg until the level's number stands, so a solution exists."""
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

    def enumerate_contents(self, level: int) -> list[str] | None:
        """All boards of levels 1 and 2, by taking every jump back."""
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
            else f"no jump is left, with {board.standing.bit_count()} pegs on the board"
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
    triples = []
    for cell in cells:
        for dy, dx in LINES[shape.split()[0]]:
            line = [Cell(cell.row + k * dy, cell.column + k * dx) for k in range(3)]
            if all(position in cells for position in line):
                first, middle, last = (1 << cells.index(position) for position in line)
                triples += [(first, middle, last), (last, middle, first)]
    return tuple(triples)


def open_jumps(board: Pegs) -> dict[str, int]:
    """The legal jumps, and the holes that each flips."""
    cells, standing = holes(board.shape), board.standing
    return {
        f"{cells[first.bit_length() - 1]} {cells[last.bit_length() - 1]}": first | middle | last
        for first, middle, last in jumps(board.shape)
        if standing & first and standing & middle and not standing & last
    }
