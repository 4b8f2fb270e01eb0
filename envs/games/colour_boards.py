"""Boards of coloured cells. Many turns; reward 1 for reaching the goal.

LightsOutGame: lamps that switch their neighbours, all to be put out. FloodIt: one colour to be spread over the board.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rlvr.envs.games.board_game import BoardGame
from rlvr.envs.games.common import Cell, drawn_board, grown

# For each level: rows and columns, which lamps a press switches, and the fewest presses of a solution.
LAMP_LEVELS = ((3, "plus", 3), (4, "plus", 4), (4, "cross", 5), (5, "torus", 5), (5, "plus", 8))
PATTERNS = {
    "plus": ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)),
    "torus": ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)),
    "cross": ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)),
}
SWITCHED = {
    "plus": "it and those directly above, below, left and right of it",
    "torus": "it and those directly above, below, left and right of it, where the board goes on at the opposite edge",
    "cross": "it and those diagonally next to it",
}


class Lamps(NamedTuple):
    """``lit`` is a mask of cells that are on, row by row."""

    size: int
    pattern: str
    lit: int


class LightsOutGame(BoardGame[Lamps]):
    """Put out all lamps, one press a turn.

    Levels 1 to 5: 3 x 3 to 5 x 5 lamps; diagonal neighbours on level 3, a board without edges on level 4.

    The expert solves the linear equations over the field of two elements, and presses the fewest lamps.

    Observation: the rule of a press and the board: ``*`` is on, ``.`` is off.
    Actions: a cell, such as ``b3``.
    Reward: 1 when all lamps are off, else 0.
    Episode end: all lamps are off, or the turns are used up.
    """

    move_form = "A move is a cell, such as b3: its lamp is pressed."
    nouns = ("cell", "lamp", "at")
    turn_limits = tuple(2 * size**2 for size, _, _ in LAMP_LEVELS)

    def deal(self, rng: random.Random, level: int) -> Lamps:
        """Presses random lamps of a dark board until enough presses are needed."""
        size, pattern, least = LAMP_LEVELS[level - 1]
        flips = presses(size, pattern)
        while True:
            lit = 0
            for cell in rng.sample(range(size * size), rng.randint(size, size * size // 2 + 1)):
                lit ^= flips[cell]
            if fewest(size, pattern, lit).bit_count() >= least:
                return Lamps(size, pattern, lit)

    def enumerate_contents(self, level: int) -> list[str] | None:
        """Level 1 alone: of the 512 boards those that take three to five presses."""
        if level > 1:
            return None
        size, pattern, least = LAMP_LEVELS[0]
        boards = (Lamps(size, pattern, lit) for lit in range(2 ** (size * size)))
        return [self.identity(board) for board in boards if least <= fewest(*board).bit_count() <= size * size // 2 + 1]

    def guide(self, board: Lamps) -> str:
        return (
            f"Lights out. Put out all lamps. Pressing a lamp switches {SWITCHED[board.pattern]}: those that are on go "
            "off, and those that are off go on.\n* on, . off; columns have letters and rows have numbers."
        )

    def show(self, board: Lamps) -> str:
        signs = "".join("*" if board.lit >> cell & 1 else "." for cell in range(board.size**2))
        return drawn_board(signs[at : at + board.size] for at in range(0, len(signs), board.size))

    def legal(self, board: Lamps) -> list[str]:
        return list(cell_names(board.size))

    def after(self, board: Lamps, move: str) -> Lamps:
        flip = presses(board.size, board.pattern)[cell_names(board.size)[move]]
        return board._replace(lit=board.lit ^ flip)

    def reached(self, board: Lamps) -> bool:
        return board.lit == 0

    def best(self, board: Lamps) -> str:
        """Any lamp of the smallest set of presses; their order does not matter."""
        pressed = fewest(*board)
        return next(name for name, cell in cell_names(board.size).items() if pressed >> cell & 1)


@lru_cache(maxsize=32)
def cell_names(size: int) -> dict[str, int]:
    return {str(Cell(*divmod(cell, size))): cell for cell in range(size * size)}


@lru_cache(maxsize=32)
def presses(size: int, pattern: str) -> tuple[int, ...]:
    """What each lamp switches, as a mask."""
    masks = []
    for row, column in product(range(size), repeat=2):
        mask = 0
        for dy, dx in PATTERNS[pattern]:
            y, x = row + dy, column + dx
            if pattern == "torus":
                y, x = y % size, x % size
            if 0 <= y < size and 0 <= x < size:
                mask |= 1 << y * size + x
        masks.append(mask)
    return tuple(masks)


@lru_cache(maxsize=32)
def eliminated(size: int, pattern: str) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Gauss: for each leading lamp, a mask of lamps and the presses for just those; and presses that do nothing.

    The second are all sums of such presses, up to 256 of them on the boards used here.
    """
    rows: dict[int, tuple[int, int]] = {}
    silent = [0]
    for cell, mask in enumerate(presses(size, pattern)):
        used = 1 << cell
        while mask and (lead := mask.bit_length()) in rows:
            mask, used = mask ^ rows[lead][0], used ^ rows[lead][1]
        if mask:
            rows[mask.bit_length()] = (mask, used)
        else:
            silent += [used ^ other for other in silent]
    return rows, silent


def fewest(size: int, pattern: str, lit: int) -> int:
    """The smallest set of presses that puts out what is lit, as a mask.

    Raises:
        ValueError: no presses do.
    """
    rows, silent = eliminated(size, pattern)
    used = 0
    while lit:
        if (lead := lit.bit_length()) not in rows:
            raise ValueError("these lamps cannot all be put out")
        lit, used = lit ^ rows[lead][0], used ^ rows[lead][1]
    return min([used ^ other for other in silent], key=lambda mask: (mask.bit_count(), mask))


# For each level: rows and columns, colours, and the moves allowed. A board on which the expert needs more is not dealt.
FLOODS = ((5, 4, 7), (6, 4, 9), (8, 4, 13), (9, 5, 17), (10, 6, 21))
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange")


class Flood(NamedTuple):
    """A mask of the cells of each colour, row by row; ``size`` columns and one unused bit behind each row."""

    size: int
    masks: tuple[int, ...]


class FloodIt(BoardGame[Flood]):
    """Paint the whole board in one colour, from one corner.

    Levels 1 to 5: from 5 x 5 cells of 4 colours in 7 moves to 10 x 10 of 6 in 21.

    The expert takes the colour after which the area touches the most. It has played every board that is dealt, so that
    the turns are known to be enough.

    Observation: the colours and the board, a letter a cell.
    Actions: the name of a colour, or its first letter.
    Reward: 1 for a board of one colour, else 0.
    Episode end: the board has one colour, or the turns are used up.
    """

    move_form = "A move is the name of a colour."
    nouns = ("colour", "color", "flood", "paint", "fill")
    turn_limits = tuple(moves for _, _, moves in FLOODS)

    def deal(self, rng: random.Random, level: int) -> Flood:
        """Draws boards of all colours until the expert needs no more than the turns."""
        size, colours, limit = FLOODS[level - 1]
        while True:
            masks = [0] * colours
            for row in range(size):
                for column, colour in enumerate(rng.choices(range(colours), k=size)):
                    masks[colour] |= 1 << row * (size + 1) + column
            board = Flood(size, tuple(masks))
            if all(masks) and self.needed(board, limit) <= limit:
                return board

    def needed(self, board: Flood, limit: int) -> int:
        """The expert's moves; ``most`` + 1 where there are more."""
        count = 0
        while not self.reached(board) and count <= limit:
            board = self.after(board, self.best(board))
            count += 1
        return count

    def guide(self, board: Flood) -> str:
        names = ", ".join(f"{name[0]} {name}" for name in COLOURS[: len(board.masks)])
        return (
            "Flood-It. The area is the top left cell (a1) and all cells of its colour that are joined to it by edges. "
            "A move paints the whole area in another colour, and so joins to it the cells of that colour at its edge. "
            f"Paint the whole board in one colour before the turns are used up.\nColours: {names}."
        )

    def show(self, board: Flood) -> str:
        return drawn_board(
            "".join(COLOURS[colour_at(board, row * (board.size + 1) + column)][0] for column in range(board.size))
            for row in range(board.size)
        )

    def named(self, move: str) -> str:
        return next((colour for colour in COLOURS if move == colour[0]), move)

    def legal(self, board: Flood) -> list[str]:
        now = colour_at(board, 0)
        return [name for colour, name in enumerate(COLOURS[: len(board.masks)]) if colour != now]

    def after(self, board: Flood, move: str) -> Flood:
        now, then = colour_at(board, 0), COLOURS.index(move)
        area = grown(1, board.masks[now], board.size + 1)
        masks = list(board.masks)
        masks[now] ^= area
        masks[then] |= area
        return board._replace(masks=tuple(masks))

    def reached(self, board: Flood) -> bool:
        return sum(map(bool, board.masks)) == 1

    def best(self, board: Flood) -> str:
        """Greedy: prefers to use a colour up, then the largest area with its border; not always optimal."""
        size, masks = board.size, board.masks
        now = colour_at(board, 0)
        area = grown(1, masks[now], size + 1)
        left = [colour for colour in range(len(masks)) if colour != now and masks[colour]]

        def gain(colour: int) -> tuple[bool, int]:
            """Whether this uses a colour up; and the cells that the area has and touches afterwards."""
            reach = grown(area, area | masks[colour], size + 1)
            touched = reach | reach << 1 | reach >> 1 | reach << size + 1 | reach >> size + 1
            return masks[colour] & ~reach == 0, touched.bit_count()

        return COLOURS[max(left, key=gain)]


def colour_at(board: Flood, bit: int) -> int:
    return next(colour for colour, mask in enumerate(board.masks) if mask >> bit & 1)
