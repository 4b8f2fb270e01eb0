"""Hidden boards: Minesweeper, Battleship and BlackBox. Reward 1 for the whole board, found in time.

A cell is a column letter and a row number, ``b3``. Sets of cells are kept as the bits of a number, which makes
reasoning about them fast.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations, product
from math import comb
from typing import ClassVar, NamedTuple

from rlvr.envs.games.common import (
    COLUMNS,
    PLAYED,
    Cell,
    Game,
    IllegalMove,
    Step,
    bits,
    boxed,
    drawn_board,
    go_on,
    lost,
    won,
)
from rlvr.envs.games.common import read_cell as read_one
from rlvr.envs.games.mine_fields import deduce, grid, open_by_reasoning
from rlvr.envs.tasks.wording import in_a_row


def read_cells(words: list[str], height: int, width: int, stride: int = 0) -> int:
    """The cells that the words name, as bits; numbered in rows of ``stride``, or of the width.

    Raises:
        IllegalMove: a word names none, or there are no words.
    """
    if not words:
        raise IllegalMove("name at least one cell")
    cells = 0
    for word in words:
        row, column = read_one(word, height, width)
        cells |= 1 << row * (stride or width) + column
    return cells


def listed(cells: Iterable[int], width: int) -> str:
    return " ".join(str(Cell(*divmod(cell, width))) for cell in cells)


# Minesweeper


class MineField(NamedTuple):
    """``mines`` and ``open`` are sets of cells as bits, numbered in rows one longer than the board's (``Grid``)."""

    mines: int
    open: int
    level: int
    turn: int = 0
    message: str = ""


class Minesweeper(Game[MineField]):
    """Open all cells without a mine.

    Levels 1 to 5: 4 mines on 5 x 5 cells to 16 on 9 x 9; from the opening on, no guess is ever needed.

    Where the expert's reasoning, into which no luck enters, would come to an end, one more cell is open from the start,
    twice at most on level 1, up to six times on level 5.

    Observation: the board: ``.`` is covered, a number counts the mines next to an open cell.
    Actions: ``open`` and covered cells, such as ``open a1 b3``.
    Reward: 1 when every cell without a mine is open, else 0.
    Episode end: all such cells are open, a mine is opened, or the turns are used up.
    """

    verbs = ("open",)
    nouns = ("cell", "cells", "square", "at", "and")
    # For each level: rows, columns, mines and turns.
    sizes: ClassVar = ((5, 5, 4, 10), (6, 6, 6, 12), (7, 7, 9, 15), (8, 8, 12, 20), (9, 9, 16, 25))
    turn_limits = tuple(turns for *_, turns in sizes)

    def start(self, rng: random.Random, level: int) -> MineField:
        height, width, count, turns = self.sizes[level - 1]
        board = grid(height, width)
        while True:
            first = rng.choice(board.cells)
            mines = sum(rng.sample(board.far_from[first], count))
            opened = open_by_reasoning(board, mines, first, help_at_most=level + 1, turns=turns)
            if opened is not None:
                return MineField(mines, opened, level)

    def content(self, state: MineField) -> str:
        return f"{state.mines:x}"

    def reminder(self, state: MineField) -> str:
        height, width, _, _ = self.sizes[state.level - 1]
        return (
            "Write open and one or more covered cells, such as open a1 b3; columns are a to "
            f"{COLUMNS[width - 1]}, rows 1 to {height}."
        )

    def rules(self, state: MineField) -> str:
        height, width, mines, turns = self.sizes[state.level - 1]
        return (
            f"Minesweeper on {height} rows and {width} columns with {mines} mines. A covered cell is shown as a dot; "
            f"the number on an open one is how many of its up to eight neighbours are mines. Open all cells without a "
            f"mine to win; opening a mine loses. Opening a 0 opens its neighbours as well. The board can be opened by "
            f"reasoning alone. {self.reminder(state)} You have {turns} turns, and may open any number of cells in each."
            f"\n{grid(height, width).drawn(state.mines, state.open)}"
        )

    def play(self, state: MineField, move: str) -> Step[MineField]:
        height, width, _, _ = self.sizes[state.level - 1]
        verb, *words = move.replace(",", " ").split() or [""]
        if verb != "open" and verb[1:].isdecimal():
            words = [verb, *words]  # to open is all that can be done with cells
        elif verb != "open":
            raise IllegalMove(self.reminder(state).rstrip("."))
        board = grid(height, width)
        cells = read_cells(words, height, width, board.stride)
        if cells & state.open:
            open_cells = listed(bits(cells & state.open), board.stride)
            raise IllegalMove(f"{open_cells} is open already; name covered cells only")
        if cells & state.mines:
            hit = listed(bits(cells & state.mines), board.stride)
            return lost(state, f"a mine was at {hit}", move)
        mines, opened = state.mines, board.flood(state.mines, state.open, cells)
        if opened | mines == board.all:
            return won(state, open=opened, reason="every safe cell is open")
        message = board.drawn(mines, opened)
        return MineField(mines, opened, state.level, state.turn + 1, message), PLAYED, False, "user"

    def solve(self, state: MineField) -> str:
        """Opens all cells that ``deduce`` proves safe; it never guesses on a board that was dealt."""
        board = grid(*self.sizes[state.level - 1][:2])
        safe = deduce(board, state.mines, state.open)
        if not safe:  # only where somebody stands whom the opening did not lead there
            safe = ~state.open & board.all
            safe &= -safe
        return boxed(
            f"open {listed(bits(safe), board.stride)}", "These are safe." if safe & (safe - 1) else "This is safe."
        )

    def sample_action(self, state: MineField, rng: random.Random) -> str:
        board = grid(*self.sizes[state.level - 1][:2])
        covered = list(bits(~state.open & board.all))
        return boxed(f"open {listed([rng.choice(covered)], board.stride)}")


# Battleship


class Sea(NamedTuple):
    """``ships`` are sets of cells as bits, ``shots`` the cells fired at."""

    ships: tuple[int, ...]
    shots: int
    level: int
    turn: int = 0
    message: str = ""


@lru_cache(64)
def berths(size: int, length: int) -> tuple[int, ...]:
    """Every place that a ship of this length may have on a square sea."""
    across = (1 << length) - 1
    down = sum(1 << i * size for i in range(length))
    rows = [across << row * size + column for row in range(size) for column in range(size - length + 1)]
    return (*rows, *(down << row * size + column for row in range(size - length + 1) for column in range(size)))


@lru_cache(4_096)
def margin(ship: int, size: int) -> int:
    """A ship with all the cells next to it, where no other ship may be."""
    covered = [divmod(cell, size) for cell in bits(ship)]
    near = [
        any(abs(row - y) < 2 and abs(column - x) < 2 for y, x in covered)
        for row, column in product(range(size), repeat=2)
    ]
    return sum(1 << cell for cell, is_near in enumerate(near) if is_near)


class Battleship(Game[Sea]):
    """Find and sink hidden ships.

    Levels 1 to 5: 2 ships on 5 x 5 cells to 5 ships on 10 x 10, three shots a turn.

    Luck has a say. The expert fires where the most places of the ships left cross, and around hits.

    Observation: the lengths of the ships and the board: ``o`` miss, ``x`` hit, ``#`` sunk.
    Actions: ``fire`` and one to three cells, such as ``fire a1 b3``.
    Reward: 1 when every ship is sunk, else 0.
    Episode end: every ship is sunk, or the turns are used up.
    """

    verbs = ("fire",)
    nouns = ("cell", "cells", "at", "and")
    always_solvable = False
    salvo = 3
    # For each level: rows and columns, the lengths of the ships, and the turns.
    sizes: ClassVar = (
        (5, (3, 2), 6),
        (6, (3, 2, 2), 8),
        (7, (4, 3, 2), 10),
        (8, (4, 3, 3, 2), 12),
        (10, (5, 4, 3, 3, 2), 18),
    )
    turn_limits = tuple(turns for _, _, turns in sizes)

    def start(self, rng: random.Random, level: int) -> Sea:
        size, lengths, _ = self.sizes[level - 1]
        while True:
            ships: list[int] = []
            taken = 0
            for length in lengths:
                free = [berth for berth in berths(size, length) if not berth & taken]
                if not free:
                    break
                ships.append(rng.choice(free))
                taken |= margin(ships[-1], size)
            if len(ships) == len(lengths):
                return Sea(tuple(ships), 0, level)

    def content(self, state: Sea) -> str:
        return " ".join(f"{ship:x}" for ship in state.ships)

    def reminder(self, state: Sea) -> str:
        size = self.sizes[state.level - 1][0]
        return (
            f"Write fire and one to {self.salvo} cells that were not fired at, such as fire a1 b3; columns are a to "
            f"{COLUMNS[size - 1]}, rows 1 to {size}."
        )

    def rules(self, state: Sea) -> str:
        size, lengths, turns = self.sizes[state.level - 1]
        return (
            f"Battleship on {size} rows and {size} columns. Ships of {in_a_row(lengths)} cells lie hidden, "
            f"each in a straight line across or down; no two touch, not even at a corner. Hit every cell of all ships "
            f"to win. {self.reminder(state)} You have {turns} turns. On the board a dot is unknown, o is a miss, x a "
            f"hit, and # a ship all of whose cells were hit.\n{self.shown(state)}"
        )

    def shown(self, state: Sea) -> str:
        size = self.sizes[state.level - 1][0]
        hits, sunk = seen_ships(state)
        cells = "".join(
            "#" if sunk >> cell & 1 else "x" if hits >> cell & 1 else "o" if state.shots >> cell & 1 else "."
            for cell in range(size * size)
        )
        return drawn_board(cells[i : i + size] for i in range(0, len(cells), size))

    def play(self, state: Sea, move: str) -> Step[Sea]:
        size = self.sizes[state.level - 1][0]
        verb, *words = move.replace(",", " ").split() or [""]
        if verb[1:].isdecimal():
            verb, words = "fire", [verb, *words]
        if verb != "fire" or not 1 <= len(words) <= self.salvo:
            raise IllegalMove(self.reminder(state).rstrip("."))
        cells = read_cells(words, size, size)
        if cells & state.shots or cells.bit_count() < len(words):
            raise IllegalMove("fire at a cell once only")
        after = state._replace(shots=state.shots | cells)
        if not any(ship & ~after.shots for ship in state.ships):
            return won(after, reason="every ship is sunk")
        hits = cells & sum(state.ships)
        message = [f"Hit: {listed(bits(hits), size) or '-'}. Missed: {listed(bits(cells & ~hits), size) or '-'}."]
        for ship in state.ships:
            if ship & ~state.shots and not ship & ~after.shots:
                message.append(f"You sank the ship of {ship.bit_count()} cells at {listed(bits(ship), size)}.")
        return go_on(after, " ".join(message) + "\n" + self.shown(after))

    def solve(self, state: Sea) -> str:
        """The cells in which the most places of the ships left cross; a place counts the more, the more hits it has."""
        size = self.sizes[state.level - 1][0]
        hits, sunk = seen_ships(state)
        barred = state.shots & ~hits
        for ship in state.ships:
            if not ship & ~sunk:
                barred |= margin(ship, size)
        worth = [0] * (size * size)
        for length in (ship.bit_count() for ship in state.ships if ship & ~sunk):
            for berth in berths(size, length):
                if not berth & barred:
                    weight: int = 50 ** (berth & hits).bit_count()
                    for cell in bits(berth & ~hits):
                        worth[cell] += weight
        ranked = sorted(bits(((1 << size * size) - 1) & ~state.shots), key=lambda cell: -worth[cell])
        return boxed(f"fire {listed(ranked[: self.salvo], size)}", f"Hits on ships not sunk: {hits.bit_count()}.")

    def sample_action(self, state: Sea, rng: random.Random) -> str:
        size = self.sizes[state.level - 1][0]
        free = list(bits(((1 << size * size) - 1) & ~state.shots))
        return boxed(f"fire {listed(rng.sample(free, min(self.salvo, len(free))), size)}")


def seen_ships(state: Sea) -> tuple[int, int]:
    """The cells hit on ships that float, and the cells of those that are sunk."""
    hits = sunk = 0
    for ship in state.ships:
        if ship & ~state.shots:
            hits |= ship & state.shots
        else:
            sunk |= ship
    return hits, sunk


# BlackBox

HIT, REFLECTED = -1, -2
SIDES = ("top", "right", "bottom", "left")


class Box(NamedTuple):
    """``atoms`` is a set of cells as bits; ``rays`` are the borders shot from with what came of it."""

    atoms: int
    level: int
    rays: tuple[tuple[int, int], ...] = ()
    wrong: tuple[int, ...] = ()
    turn: int = 0
    message: str = ""


def trace(size: int, atoms: int, border: int) -> int:
    """Where a ray from a border place comes out: a border place, ``HIT`` or ``REFLECTED``.

    Border places count from 0: along the top, the right, the bottom and the left side, by column or by row.
    """
    side, index = divmod(border, size)
    row, column = ((-1, index), (index, size), (size, index), (index, -1))[side]
    dr, dc = ((1, 0), (0, -1), (-1, 0), (0, 1))[side]
    outside = True
    while True:
        r, c = row + dr, column + dc
        if not (0 <= r < size and 0 <= c < size):
            return _border(size, r, c, border)
        if atoms >> r * size + c & 1:
            return HIT
        # The cells to both sides of the one ahead, seen along the ray.
        left, right = _atom(size, atoms, r - dc, c + dr), _atom(size, atoms, r + dc, c - dr)
        if not left and not right:
            row, column, outside = r, c, False
        elif outside or (left and right):
            return REFLECTED  # at the border, or turned back on its own way
        elif left:
            dr, dc = dc, -dr
        else:
            dr, dc = -dc, dr


def _atom(size: int, atoms: int, row: int, column: int) -> int:
    return atoms >> row * size + column & 1 if 0 <= row < size and 0 <= column < size else 0


def _border(size: int, row: int, column: int, start: int) -> int:
    end = column if row < 0 else 2 * size + column if row >= size else (3 * size if column < 0 else size) + row
    return REFLECTED if end == start else end


@lru_cache(8)
def _boxes(size: int, count: int) -> tuple[int, ...]:
    return tuple(sum(1 << cell for cell in cells) for cells in combinations(range(size * size), count))


@lru_cache(256)
def _outcomes(size: int, count: int, border: int) -> tuple[int, ...]:
    return tuple(trace(size, atoms, border) for atoms in _boxes(size, count))


@lru_cache(256)
def _left(size: int, count: int, rays: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """The boxes that answer these rays so."""
    if not rays:
        return _boxes(size, count)
    border, end = rays[-1]
    if len(rays) == 1:
        pairs = zip(_boxes(size, count), _outcomes(size, count, border), strict=True)
        return tuple(atoms for atoms, outcome in pairs if outcome == end)
    return tuple(atoms for atoms in _left(size, count, rays[:-1]) if trace(size, atoms, border) == end)


class BlackBox(Game[Box]):
    """Find hidden atoms by where rays come out.

    Levels 1 to 5: 2 atoms in 4 x 4 and 5 x 5 cells, 3 in 5 x 5, 6 x 6 and 7 x 7 (Eric Solomon's game).

    Observation: the size of the box; then where each ray comes out.
    Actions: ``ray left 2``, or ``atoms`` and their cells.
    Reward: 1 for cells that answer every ray as the atoms do, else 0.
    Episode end: the atoms are found, or the turns are used up.
    """

    verbs = ("ray", "atoms")
    nouns = ("from", "column", "row", "at", "cells", "and")
    sample: ClassVar = 120  # boxes on which the expert compares rays
    sizes: ClassVar = ((4, 2, 7), (5, 2, 7), (5, 3, 10), (6, 3, 10), (7, 3, 12))  # rows, atoms, turns
    turn_limits = tuple(turns for _, _, turns in sizes)

    def start(self, rng: random.Random, level: int) -> Box:
        size, count, _ = self.sizes[level - 1]
        return Box(sum(1 << cell for cell in rng.sample(range(size * size), count)), level)

    def difficulty(self, state: Box) -> float:
        """Sets of atoms that have to be told apart."""
        size, count, _ = self.sizes[state.level - 1]
        return float(comb(size * size, count))

    def content(self, state: Box) -> str:
        return f"{state.atoms:x}"

    def enumerate_contents(self, level: int) -> list[str] | None:
        """All sets of atoms up to level 3 (120, 300 and 2,300), none above."""
        size, count, _ = self.sizes[level - 1]
        return [f"{atoms:x}" for atoms in _boxes(size, count)] if level <= 3 else None

    def reminder(self, state: Box) -> str:
        size, count, _ = self.sizes[state.level - 1]
        last = COLUMNS[size - 1]
        return (
            f"Write ray, then top or bottom with a column from a to {last}, or left or right with a row from 1 to "
            f"{size}, such as ray left 2; or atoms and their {count} cells, such as atoms "
            f"{listed(range(0, count * (size + 1), size + 1), size)}."
        )

    def rules(self, state: Box) -> str:
        size, count, turns = self.sizes[state.level - 1]
        return (
            f"{count} atoms are hidden in a box of {size} rows (1 is at the top) and {size} columns (a is at the "
            f"left). A ray goes straight into the box from a place at its border. An atom in the cell ahead of it "
            f"swallows it: hit. An atom diagonally ahead turns it by 90 degrees, away from the atom, before it goes "
            f"on; two of them, one on each side, send it back: reflected. Rays that meet an atom diagonally ahead "
            f"before they have entered, and those that come out where they went in, are reflected as well. For all "
            f"other rays I say where they come out. Find the atoms; cells that answer every ray as the true ones do "
            f"are right as well. {self.reminder(state)} Wrong cells "
            f"cost a turn, as a ray does. You have {turns} turns."
        )

    @staticmethod
    def named(border: int, size: int) -> str:
        side, index = divmod(border, size)
        return f"{SIDES[side]} {index + 1 if side % 2 else COLUMNS[index]}"

    def play(self, state: Box, move: str) -> Step[Box]:
        size, count, _ = self.sizes[state.level - 1]
        verb, *words = move.replace(",", " ").split() or [""]
        if verb == "ray":
            name = " ".join(words)
            borders = [border for border in range(4 * size) if self.named(border, size) == name]
            if borders:
                end = trace(size, state.atoms, borders[0])
                outcome = {HIT: "hit", REFLECTED: "reflected"}.get(end) or f"comes out at {self.named(end, size)}"
                return go_on(state, f"{name}: {outcome}", rays=(*state.rays, (borders[0], end)))
        elif verb == "atoms" and len(words) == count:
            atoms = read_cells(words, size, size)
            if atoms.bit_count() == count:
                if all(trace(size, atoms, b) == trace(size, state.atoms, b) for b in range(4 * size)):
                    return won(state, listed(bits(atoms), size))
                return go_on(state, "The atoms are not there.", wrong=(*state.wrong, atoms))
        raise IllegalMove(self.reminder(state).rstrip("."))

    def solve(self, state: Box) -> str:
        """The ray with the most different outcomes among the boxes left; the atoms when no ray tells them apart."""
        size, count, _ = self.sizes[state.level - 1]
        left = [atoms for atoms in _left(size, count, state.rays) if atoms not in state.wrong]
        best = best_ray(size, tuple(left[:: 1 + len(left) // self.sample]))
        thought = f"Boxes left: {len(left)}."
        if best < 0:
            return boxed(f"atoms {listed(bits(left[0]), size)}", thought)
        return boxed(f"ray {self.named(best, size)}", thought)

    def direct_answer(self, state: Box) -> str:
        return boxed(f"atoms {listed(bits(state.atoms), self.sizes[state.level - 1][0])}")

    def sample_action(self, state: Box, rng: random.Random) -> str:
        size, count, _ = self.sizes[state.level - 1]
        if rng.random() < 0.2:
            return boxed(f"atoms {listed(sorted(rng.sample(range(size * size), count)), size)}")
        return boxed(f"ray {self.named(rng.randrange(4 * size), size)}")


@lru_cache(512)
def best_ray(size: int, boxes: tuple[int, ...]) -> int:
    """The border place whose ray leaves, at worst, the fewest of these boxes; -1 when none tells any two apart."""
    best, least = -1, len(boxes)
    for border in range(4 * size):
        ends = [trace(size, atoms, border) for atoms in boxes]
        worst = max(map(ends.count, set(ends)))
        if worst < least:
            best, least = border, worst
    return best
