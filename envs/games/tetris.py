"""Tetris: drop pieces so that rows fill and go. Many turns; reward 1 for the rows asked for."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.games.board_game import SearchedGame
from rlvr.envs.games.common import COLUMNS
from rlvr.envs.tasks.wording import counted

# For each level: columns, rows, rows that are there and lack a cell or two, rows to clear, and pieces.
WELLS: Final = ((5, 8, 1, 2, 5), (6, 8, 2, 4, 9), (8, 10, 2, 6, 15), (9, 10, 3, 8, 20), (10, 10, 3, 12, 30))
DRAWN: Final = {
    "I": ("####",),
    "O": ("##", "##"),
    "T": (".#.", "###"),
    "S": (".##", "##."),
    "Z": ("##.", ".##"),
    "J": ("#..", "###"),
    "L": ("..#", "###"),
}
BEAM: Final = 5  # positions that the search keeps after each piece
ROW: Final = 0.76  # what a cleared row is worth to the search, beside `looks`
SLACK: Final = 4  # turns beyond the pieces, for replies that are no move
Rows = tuple[int, ...]  # from the bottom up; the lowest bit is column a


class Well(NamedTuple):
    """``rows`` without the empty ones on top, the pieces to come, and how many rows are still to be cleared."""

    width: int
    height: int
    rows: Rows
    pieces: str
    left: int


class Tetris(SearchedGame[Well]):
    """Clear rows of a well with pieces of four cells, all of which are known.

    Levels 1 to 5: 2, 4, 6, 8 and 12 rows in wells of 5 to 10 columns, with 5 to 30 pieces.

    Pieces come in bags of all seven; a task is kept when the expert's search has solved it.

    Observation: the well, the turns of the piece that falls, and the pieces after it.
    Actions: a turn and the column of the piece's leftmost cell, such as ``2 c``.
    Reward: 1 for the rows, else 0.
    Episode end: the rows are cleared, the pieces are used up, no piece fits, or the turns are used up.
    """

    move_form = "A move is the number of a turn and the column of the piece's leftmost cell, such as 2 c."
    verbs = ("drop", "place")
    nouns = ("turn", "column", "at", "in")
    turn_limits = tuple(pieces + SLACK for *_, pieces in WELLS)

    def deal(self, rng: random.Random, level: int) -> Well:
        """Draws until the search clears the rows with the pieces."""
        width, height, laid, goal, count = WELLS[level - 1]
        while True:
            gaps = [rng.sample(range(width), rng.randint(1, 2)) for _ in range(laid)]
            rows = tuple([(1 << width) - 1 - sum(1 << gap for gap in each) for each in gaps])
            bags = [rng.sample(list(DRAWN), len(DRAWN)) for _ in range(-(-count // len(DRAWN)))]
            board = Well(width, height, rows, "".join(map("".join, bags))[:count], goal)
            if self.search(board):
                return board

    def guide(self, board: Well) -> str:
        return (
            f"Tetris in a well of {board.width} columns and {board.height} rows. The pieces come in the order shown. "
            "Each is turned first and then falls straight down until it lies on the floor or on a cell. Rows that are "
            f"full go, and those above them come down. Clear {counted(board.left, 'row')} with {len(board.pieces)} "
            "pieces. A piece may not rise above the well; the game is lost when none of its turns fits.\n# filled, "
            ". empty."
        )

    def show(self, board: Well) -> str:
        lines = [signs(row, board.width) for row in (*[0] * (board.height - len(board.rows)), *reversed(board.rows))]
        text = "\n".join([COLUMNS[: board.width], *lines, f"Rows to clear: {max(board.left, 0)}."])
        if not board.pieces:
            return text
        drawn = [
            f"{number}:\n" + "\n".join(signs(row, wide) for row in reversed(shape))
            for number, (shape, wide) in enumerate(turns_of(board.pieces[0]), 1)
        ]
        then = " ".join(board.pieces[1:]) or "none"
        return f"{text}\nThe piece {board.pieces[0]} and its turns:\n" + "\n".join(drawn) + f"\nThen: {then}."

    def identity(self, board: Well) -> str:
        return f"{board.pieces} {board.rows} {board.width} {board.left}"

    def legal(self, board: Well) -> list[str]:
        return list(drops(board))

    def after(self, board: Well, move: str) -> Well:
        return drops(board)[move]

    def reached(self, board: Well) -> bool:
        return board.left <= 0

    def failed(self, board: Well) -> str:
        if self.reached(board):
            return ""
        return (
            "the pieces are used up" if not board.pieces else "" if self.legal(board) else "no turn of the piece fits"
        )

    def search(self, board: Well) -> list[str] | None:
        """Keeps the five best wells after each piece, by `looks`; not the fewest pieces."""
        kept: list[tuple[Rows, int, tuple[str, ...]]] = [(board.rows, 0, ())]
        for piece in board.pieces:
            following: dict[tuple[Rows, int], tuple[str, ...]] = {}
            for rows, cleared, moves in kept:
                for move, masks in placings(piece, board.width):
                    if (dropped := landed(rows, masks, board.width, board.height)) is None:
                        continue
                    after, full = dropped
                    if cleared + full >= board.left:
                        return [*moves, move]
                    following.setdefault((after, cleared + full), (*moves, move))
            best = sorted(following, key=lambda well: looks(well[0], board.width) + ROW * well[1], reverse=True)
            kept = [(*well, following[well]) for well in best[:BEAM]]
        return None


def signs(row: int, width: int) -> str:
    return "".join("#" if row >> column & 1 else "." for column in range(width))


@lru_cache(maxsize=8)
def turns_of(piece: str) -> tuple[tuple[Rows, int], ...]:
    """The shapes of a piece as it is turned clockwise, as rows from the bottom up, and their widths."""
    rows, shapes = DRAWN[piece], []
    for _ in range(4):
        masks = tuple(sum(1 << at for at, sign in enumerate(row) if sign == "#") for row in reversed(rows))
        if (masks, len(rows[0])) not in shapes:
            shapes.append((masks, len(rows[0])))
        rows = tuple("".join(column) for column in zip(*reversed(rows), strict=True))
    return tuple(shapes)


@lru_cache(maxsize=256)
def placings(piece: str, width: int) -> tuple[tuple[str, Rows], ...]:
    """Every turn and column of a piece: the move, and its rows from the bottom up."""
    return tuple(
        (f"{number} {COLUMNS[column]}", tuple(row << column for row in shape))
        for number, (shape, wide) in enumerate(turns_of(piece), 1)
        for column in range(width - wide + 1)
    )


def drops(board: Well) -> dict[str, Well]:
    """Every move that fits, and the well after it."""
    found = {}
    for move, masks in placings(board.pieces[0], board.width) if board.pieces else ():
        if (dropped := landed(board.rows, masks, board.width, board.height)) is not None:
            rows, full = dropped
            found[move] = board._replace(rows=rows, pieces=board.pieces[1:], left=board.left - full)
    return found


def landed(rows: Rows, masks: Rows, width: int, height: int) -> tuple[Rows, int] | None:
    """The rows after a piece has fallen as long as nothing is in its way, and how many went; None above the well."""
    at = len(rows)
    while at and not any(row & mask for row, mask in zip(rows[at - 1 :], masks, strict=False)):
        at -= 1
    met = rows[at : at + len(masks)]
    after = [mask | row for mask, row in zip(masks, (*met, 0, 0, 0, 0), strict=False)]
    if at + len(masks) > height:
        return None
    full = (1 << width) - 1
    stay = [row for row in after if row != full]
    return (*rows[:at], *stay, *rows[at + len(masks) :]), len(after) - len(stay)


@lru_cache(maxsize=65_536)
def looks(rows: Rows, width: int) -> float:
    """How good rows look: little height, few covered cells and even columns, weighted as by Lee (2013)."""
    seen = heights = holes = uneven = 0
    for row in reversed(rows):
        seen |= row
        heights += seen.bit_count()
        holes += (seen & ~row).bit_count()
        uneven += ((seen ^ seen >> 1) & ((1 << width - 1) - 1)).bit_count()
    return -0.51 * heights - 0.36 * holes - 0.18 * uneven
