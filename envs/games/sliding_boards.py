"""Boards on which things slide. Many turns; reward 1 for reaching the goal.

SlidingPuzzle: the tiles of the 8- and 15-puzzle, moved one at a time into order. Game2048: equal tiles merge until a
given one appears.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rlvr.envs.games.board_game import WAYS, BoardGame, distances
from rlvr.envs.games.common import chance

# Rows, columns, and how many random slides away from the goal; 0 is any board that can be solved.
SHUFFLES = ((3, 3, 10), (3, 3, 24), (3, 3, 0), (3, 4, 0), (4, 4, 0))

# Rows and columns, and the tile to reach. The tiles' sum grows by 2.2 a turn, so that about half as many turns as the
# tile's value are needed; twice that are allowed.
# Size and target, and the highest power of two of the first tiles.
TARGETS = ((3, 64, 4), (3, 64, 3), (4, 256, 3), (4, 512, 3), (4, 1024, 3))


class Tray(NamedTuple):
    """Tiles row by row; 0 is the gap."""

    height: int
    width: int
    tiles: tuple[int, ...]


class SlidingPuzzle(BoardGame[Tray]):
    """Bring the tiles of a sliding puzzle into order, one move a turn.

    Levels 1 to 5: 3 x 3 boards 10 and 24 random slides away, any 3 x 3, any 3 x 4, any 4 x 4.

    The expert brings tiles home in groups, each by a shortest way that leaves those before alone.

    Observation: the tiles row by row, with a dot for the gap.
    Actions: the number of a tile next to the gap.
    Reward: 1 for all tiles in order, else 0.
    Episode end: the tiles are in order, or the turns are used up.
    """

    move_form = "A move is the number of a tile next to the gap, which slides into it."
    nouns = ("tile", "number")
    turn_limits = (80, 100, 120, 180, 300)

    def deal(self, rng: random.Random, level: int) -> Tray:
        """Random slides on levels 1 and 2, above any order whose parity can be solved."""
        height, width, slides = SHUFFLES[level - 1]
        tiles = [*range(1, height * width), 0]
        if slides:
            return shuffled(rng, Tray(height, width, tuple(tiles)), slides)
        while True:
            rng.shuffle(tiles)
            board = Tray(height, width, tuple(tiles))
            if solvable(board) and not self.reached(board):
                return board

    def guide(self, board: Tray) -> str:
        return (
            f"Sliding puzzle. Bring the tiles 1 to {len(board.tiles) - 1} into order, row by row from the top left, "
            "with the gap (.) at the bottom right."
        )

    def show(self, board: Tray) -> str:
        signs = [f"{tile or '.':>2}" for tile in board.tiles]
        return "\n".join(" ".join(signs[at : at + board.width]) for at in range(0, len(signs), board.width))

    def legal(self, board: Tray) -> list[str]:
        near = beside(board.height, board.width)[board.tiles.index(0)]
        return [str(tile) for tile in sorted(board.tiles[position] for position in near)]

    def after(self, board: Tray, move: str) -> Tray:
        tiles = list(board.tiles)
        gap, position = tiles.index(0), tiles.index(int(move))
        tiles[gap], tiles[position] = tiles[position], 0
        return board._replace(tiles=tuple(tiles))

    def reached(self, board: Tray) -> bool:
        return board.tiles[-1] == 0 and board.tiles[:-1] == tuple(range(1, len(board.tiles)))

    def best(self, board: Tray) -> str:
        """Brings groups of tiles home by exact tables; short for each group, not over all."""
        for tiles, table in stages(board.height, board.width):
            here = table[tuple([board.tiles.index(tile) for tile in (0, *tiles)])]
            if not here:
                continue
            for move in self.legal(board):
                then = self.after(board, move).tiles
                if table.get(tuple([then.index(tile) for tile in (0, *tiles)]), here) < here:
                    return move
        return self.legal(board)[0]


def shuffled(rng: random.Random, board: Tray, slides: int) -> Tray:
    """A board after random slides, none of which undoes the one before."""
    tiles, near = list(board.tiles), beside(board.height, board.width)
    gap, last = tiles.index(0), -1
    for _ in range(slides):
        position = rng.choice([position for position in near[gap] if position != last])
        tiles[gap], tiles[position] = tiles[position], 0
        gap, last = position, gap
    again = Tray(board.height, board.width, tuple(tiles))
    return again if tiles != list(board.tiles) else shuffled(rng, board, slides)


def solvable(board: Tray) -> bool:
    """Whether the order can be reached: by the parity of the permutation and the gap's distance from its corner."""
    tiles = list(board.tiles)
    row, column = divmod(tiles.index(0), board.width)
    odd = (board.height - 1 - row + board.width - 1 - column) % 2
    for position in range(len(tiles)):
        while (home := (tiles[position] - 1) % len(tiles)) != position:
            tiles[position], tiles[home] = tiles[home], tiles[position]
            odd ^= 1
    return not odd


@lru_cache(maxsize=16)
def beside(height: int, width: int) -> tuple[tuple[int, ...], ...]:
    """The cells next to each cell."""
    return tuple(
        tuple(
            (row + dy) * width + column + dx
            for dy, dx in WAYS.values()
            if 0 <= row + dy < height and 0 <= column + dx < width
        )
        for row in range(height)
        for column in range(width)
    )


def groups(height: int, width: int) -> list[list[int]]:
    """Tiles that go home together: rows from the top in twos and threes until two rows are left, then columns."""
    tile_groups: list[list[int]] = []
    for row in range(height - 2):
        tiles = [row * width + column + 1 for column in range(width)]
        tile_groups += [tiles] if width == 3 else [tiles[at : at + 2] for at in range(0, width, 2)]
    top = (height - 2) * width
    tile_groups += [[top + column + 1, top + width + column + 1] for column in range(width - 2)]
    tile_groups.append([top + width - 1, top + width, top + 2 * width - 1])
    return tile_groups


@lru_cache(maxsize=16)
def stages(height: int, width: int) -> list[tuple[list[int], dict[tuple[int, ...], int]]]:
    """For each group, the slides that bring it home from wherever the gap and its tiles are, in free cells."""
    near = beside(height, width)
    tables = []
    locked: set[int] = set()
    cells = set(range(height * width))
    for tiles in groups(height, width):
        free = cells - locked
        homes = tuple(tile - 1 for tile in tiles)
        goals = [(gap, *homes) for gap in sorted(free - set(homes))]

        def slid(indices: tuple[int, ...], free: set[int] = free) -> Iterator[tuple[int, ...]]:
            gap = indices[0]
            for cell in near[gap]:
                if cell in free:
                    yield (cell, *[gap if index == cell else index for index in indices[1:]])

        tables.append((tiles, distances(goals, slid)))
        locked |= set(homes)
    return tables


class Merging(NamedTuple):
    """Tiles as exponents of 2, row by row, 0 for an empty cell; ``seed`` and ``turn`` decide where new ones appear."""

    rows: tuple[tuple[int, ...], ...]
    target: int
    seed: int
    turn: int = 0


class Game2048(BoardGame[Merging]):
    """Slide and merge tiles up to a goal.

    Levels 1 to 5: reach the tile 64 on a 3 x 3 board, first from larger tiles, or 256, 512 or 1,024 on 4 x 4.

    New tiles come by chance, so that no player is sure to win; the expert hardly ever loses.

    Observation: the tile to reach and the board.
    Actions: ``up``, ``down``, ``left`` or ``right``; it must change the board.
    Reward: 1 for the tile, else 0.
    Episode end: the tile, no move is left, or the turns are used up.
    """

    always_solvable = False
    turn_limits = tuple(tile for _, tile, _ in TARGETS)

    def deal(self, rng: random.Random, level: int) -> Merging:
        """Tiles of 2 to 8 or 16 in a third of the cells: of two tiles there are few boards; and a seed for the rest."""
        size, target, highest = TARGETS[level - 1]
        board = Merging(((0,) * size,) * size, target, rng.getrandbits(32))
        rows = board.rows
        for cell in rng.sample(range(size * size), size * size // 3):
            rows = placed(rows, *divmod(cell, size), rng.randint(1, highest))
        return board._replace(rows=rows)

    def guide(self, board: Merging) -> str:
        size = len(board.rows)
        return (
            f"2048 on {size} x {size} cells. Reach a tile of {board.target}. A move slides all tiles as far as they go "
            "that way; two equal tiles that meet become one of twice the value, which merges no further in that move. "
            "A move must change something. After each move a tile appears in a random empty cell: a 2, one time in ten "
            "a 4. The game is lost when no move is left."
        )

    def show(self, board: Merging) -> str:
        return "\n".join([" ".join([SHOWN[tile] for tile in row]) for row in board.rows])

    def identity(self, board: Merging) -> str:
        return f"{self.show(board)}\n{board.target}"

    def legal(self, board: Merging) -> list[str]:
        return [way for way in WAYS if slide(board.rows, way) != board.rows]

    def is_legal(self, board: Merging, move: str) -> bool:
        """Slides once, where ``legal`` would slide in all four directions."""
        return move in WAYS and slide(board.rows, move) != board.rows

    def after(self, board: Merging, move: str) -> Merging:
        rows = slide(board.rows, move)
        return with_new_tile(board._replace(rows=rows, turn=board.turn + 1), chance(board.seed, board.turn))

    def reached(self, board: Merging) -> bool:
        return max(map(max, board.rows)) >= board.target.bit_length() - 1  # tiles are exponents

    def failed(self, board: Merging) -> str:
        return "" if not all(map(all, board.rows)) or self.legal(board) else "no move is left"

    def best(self, board: Merging) -> str:
        """Looks ahead one more move where the board is nearly full; before that, the best looking board."""
        empty = [(y, x) for y, row in enumerate(board.rows) for x, tile in enumerate(row) if not tile]
        ahead = len(empty) <= 4

        def hope(way: str) -> float:
            rows = slide(board.rows, way)
            return expected(rows) if ahead else looks(rows)

        return max(self.legal(board), key=hope)


SHOWN = [f"{'.':>4}", *(f"{2**tile:>4}" for tile in range(1, 32))]


def with_new_tile(board: Merging, rng: random.Random) -> Merging:
    rows = board.rows
    empty = [(y, x) for y, row in enumerate(rows) if 0 in row for x, tile in enumerate(row) if not tile]
    y, x = rng.choice(empty)
    return board._replace(rows=placed(board.rows, y, x, 2 if rng.random() < 0.1 else 1))


def placed(rows: tuple[tuple[int, ...], ...], y: int, x: int, tile: int) -> tuple[tuple[int, ...], ...]:
    row = (*rows[y][:x], tile, *rows[y][x + 1 :])
    return (*rows[:y], row, *rows[y + 1 :])


def slide(rows: tuple[tuple[int, ...], ...], way: str) -> tuple[tuple[int, ...], ...]:
    if way == "left":
        return tuple([merged(row) for row in rows])
    if way == "right":
        return tuple([merged(row[::-1])[::-1] for row in rows])
    return tuple(zip(*slide(tuple(zip(*rows, strict=True)), "left" if way == "up" else "right"), strict=True))


@lru_cache(maxsize=65_536)
def merged(row: tuple[int, ...]) -> tuple[int, ...]:
    """A row slid to the left."""
    tiles = [tile for tile in row if tile]
    slid = []
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile:
            tiles.pop(0)
            tile += 1
        slid.append(tile)
    return (*slid, *[0] * (len(row) - len(slid)))


@lru_cache(maxsize=65_536)
def row_looks(row: tuple[int, ...]) -> float:
    """How good a row or column looks: empty cells, pairs about to merge, large tiles in order towards one end."""
    score = 3.0 * row.count(0)
    tiles = [tile for tile in row if tile]
    rising = falling = 0.0
    for first, second in pairwise(tiles):
        if first == second:
            score += 3.0
        elif first < second:
            rising += second**3 - first**3
        else:
            falling += first**3 - second**3
    return score - 0.05 * min(rising, falling) - 0.04 * sum(tile**3 for tile in row[1:-1])


def looks(rows: tuple[tuple[int, ...], ...]) -> float:
    return sum([row_looks(row) for row in rows]) + sum([row_looks(row) for row in zip(*rows, strict=True)])


def expected(rows: tuple[tuple[int, ...], ...]) -> float:
    """The mean, over the cells where a 2 may appear, of the best that the next move can make of it."""
    outcomes = []
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            if not tile:
                filled = placed(rows, y, x, 1)
                moved = [slide(filled, way) for way in WAYS]
                outcomes.append(max([looks(then) for then in moved if then != filled], default=-1_000.0))
    return sum(outcomes) / len(outcomes) if outcomes else -1_000.0
