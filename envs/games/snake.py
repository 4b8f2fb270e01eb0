"""Snake: eat apples without biting yourself or leaving the board. Many turns; reward 1 for the last apple."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.games.board_game import WAYS, BoardGame
from rlvr.envs.games.common import chance, drawn_board

# For each level: rows and columns (even), and apples.
LEVELS = ((4, 3), (4, 6), (6, 6), (6, 12), (8, 12))


class Nest(NamedTuple):
    """``body`` are cells from head to tail, row by row; the next apple comes from ``seed`` and ``left``."""

    size: int
    body: tuple[int, ...]
    apple: int
    left: int
    seed: int


class Snake(BoardGame[Nest]):
    """Eat apples without running into a wall or oneself.

    Levels 1 to 5: 3 to 12 apples on boards of 4 x 4 to 8 x 8.

    The expert goes round a cycle through all cells, and takes short cuts that keep the body in the cycle's order: then
    the way ahead of the head is always free, and an apple never further away than once round the board.

    Observation: the board: ``@`` head, ``o`` body, ``~`` tail, ``*`` apple; and the apples left.
    Actions: ``up``, ``down``, ``left`` or ``right``, but not back.
    Reward: 1 for the last apple, else 0.
    Episode end: the last apple, a wall, the own body, or the turns are used up.
    """

    turn_limits = tuple(apples * size**2 for size, apples in LEVELS)  # once round the cycle for each apple

    def deal(self, rng: random.Random, level: int) -> Nest:
        """Lays a snake of three cells along the cycle, and the first apple."""
        size, apples = LEVELS[level - 1]
        order = cycle(size)
        head = rng.randrange(len(order))
        body = tuple(order[head - k] for k in range(3))
        return fed(Nest(size, body, -1, apples, rng.getrandbits(32)))

    def guide(self, board: Nest) -> str:
        return (
            f"Snake on {board.size} x {board.size} cells. Eat {board.left} apples, one after another. Each move takes "
            "the head one cell on and the body follows; an apple that is eaten makes the snake one cell longer, and "
            "the next appears in a random free cell. The game is lost when the head leaves the board or runs into the "
            "body; the cell that the tail is just leaving is free.\n"
            "@ head, o body, ~ tail, * apple, . free."
        )

    def show(self, board: Nest) -> str:
        signs = ["."] * board.size**2
        for cell in board.body[1:-1]:
            signs[cell] = "o"
        signs[board.body[-1]], signs[board.body[0]] = "~", "@"
        if board.apple >= 0:
            signs[board.apple] = "*"
        rows = drawn_board("".join(signs[at : at + board.size]) for at in range(0, len(signs), board.size))
        return f"{rows}\nApples left: {board.left}."

    def identity(self, board: Nest) -> str:
        return f"{self.show(board)}\n{board.seed}"

    def legal(self, board: Nest) -> list[str]:
        return [way for way in WAYS if ahead(board, way) != board.body[1]]

    def after(self, board: Nest, move: str) -> Nest:
        head = ahead(board, move)
        if head is None:
            return board._replace(body=(-1, *board.body[:-1]))
        if head == board.apple:
            return fed(board._replace(body=(head, *board.body), left=board.left - 1))
        return board._replace(body=(head, *board.body[:-1]))

    def reached(self, board: Nest) -> bool:
        return board.left == 0

    def failed(self, board: Nest) -> str:
        if board.body[0] < 0:
            return "the snake left the board"
        return "the snake bit itself" if board.body[0] in board.body[1:] else ""

    def best(self, board: Nest) -> str:
        """Follows a Hamiltonian cycle with short cuts that stay in its order: never bites, not always the fewest
        moves.
        """
        order = cycle(board.size)
        index = {cell: number for number, cell in enumerate(order)}

        def on(cell: int) -> int:
            """How far round the cycle a cell lies ahead of the head."""
            return (index[cell] - index[board.body[0]]) % len(order)

        # One cell is kept between head and tail for each apple that may be eaten on the way.
        room = min(on(board.apple), on(board.body[-1]) - 2)
        safe = {}
        for way in self.legal(board):
            cell = ahead(board, way)
            if cell is not None and cell not in board.body[:-1]:
                safe[way] = on(cell)
        if not safe:
            return self.legal(board)[0]
        near = {way: far for way, far in safe.items() if far <= max(1, room)}
        return max(near, key=near.__getitem__) if near else min(safe, key=safe.__getitem__)


def ahead(board: Nest, way: str) -> int | None:
    """The cell that the head would enter; None outside the board."""
    row, column = divmod(board.body[0], board.size)
    row, column = row + WAYS[way][0], column + WAYS[way][1]
    return row * board.size + column if 0 <= row < board.size and 0 <= column < board.size else None


def fed(board: Nest) -> Nest:
    """With the next apple, if one is left to eat."""
    if not board.left:
        return board._replace(apple=-1)
    free = sorted(set(range(board.size**2)) - set(board.body))
    return board._replace(apple=chance(board.seed, board.left).choice(free))


@lru_cache(maxsize=8)
def cycle(size: int) -> tuple[int, ...]:
    """A cycle through all cells of an even board: along the top row, and back in strips through the columns."""
    cells = [(0, column) for column in range(size)]
    for column in range(size - 1, -1, -1):
        rows = range(1, size)
        cells += [(row, column) for row in (rows if (size - 1 - column) % 2 == 0 else reversed(rows))]
    return tuple(row * size + column for row, column in cells)
