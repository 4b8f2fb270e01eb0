"""Games of stones on a board: othello, breakthrough and hex."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import SeatGame, cell_names, check_range, drawn


class BoardPosition(NamedTuple):
    """``cells`` row by row: X of seat 0, O of seat 1, or a dot."""

    cells: str
    turn: int = 0


def won_by_seat(seat: int) -> tuple[float, float]:
    """The returns where a seat has won, or nobody: -1."""
    return (0.0, 0.0) if seat < 0 else (1.0, -1.0) if seat == 0 else (-1.0, 1.0)


class StoneGame(SeatGame[BoardPosition]):
    """Stones on a square board. A move is an empty cell, on which a stone of the seat is set."""

    first_state: BoardPosition

    def __init__(self, size: int) -> None:
        self.size, self.names = size, cell_names(size, size)
        self.cell_of = {name: cell for cell, name in enumerate(self.names)}
        self.first_state = BoardPosition("." * size**2)

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        return [name for name, sign in zip(self.names, state.cells, strict=True) if sign == "."]

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        cell = self.cell_of[move]
        return BoardPosition(state.cells[:cell] + "XO"[seat] + state.cells[cell + 1 :], 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        """The seat that moved last has won: there is no draw."""
        return won_by_seat(1 - state.turn)

    def show(self, view: BoardPosition, seat: int) -> str:
        return drawn([view.cells[start : start + self.size] for start in range(0, self.size**2, self.size)])


class Othello(StoneGame):
    """Othello: stones between two of the other colour are turned over."""

    title = "Othello"
    decisions = 60  # all empty cells, as a seat may move several times in a row
    opening = (0, 8)

    def __init__(self) -> None:
        super().__init__(8)
        self.first_state = BoardPosition("." * 27 + "OX" + "." * 6 + "XO" + "." * 27)

    def rules(self) -> str:
        return (
            "Othello on 8 x 8 cells. Seat 0 is X and moves first, seat 1 is O. A move is an empty cell, such as d3, "
            "from which at least one straight line (row, column or diagonal) of the other's stones leads to a stone of "
            "yours; all stones on such lines become yours. A seat that has no such cell must pass. When neither can "
            "move, more stones win."
        )

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        can_move = othello_moves(state.cells, "X") or othello_moves(state.cells, "O")
        return (state.turn,) if can_move else ()

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        return [self.names[cell] for cell in othello_moves(state.cells, "XO"[seat])] or ["pass"]

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        if move == "pass":
            return BoardPosition(state.cells, 1 - seat)
        cell, sign = self.cell_of[move], "XO"[seat]
        cells = list(state.cells)
        for turned in (cell, *flips(state.cells, cell, sign)):
            cells[turned] = sign
        return BoardPosition("".join(cells), 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        lead = state.cells.count("X") - state.cells.count("O")
        return won_by_seat(-1 if lead == 0 else int(lead < 0))

    def show(self, view: BoardPosition, seat: int) -> str:
        counts = [view.cells.count("XO"[each]) for each in (seat, 1 - seat)]
        return f"{super().show(view, seat)}\nStones: you {counts[0]}, the other seat {counts[1]}."

    def expert(self, view: BoardPosition, seat: int, rng: random.Random) -> str:
        """Corners first, no cell beside an empty corner if it can be helped, and few replies for the other."""
        ranked = []
        for move in self.legal(view, seat):
            if move == "pass":
                return move
            cell = self.cell_of[move]
            corner = cell in (0, 7, 56, 63)
            row, column = divmod(cell, 8)
            near = (0 if row < 4 else 7) * 8 + (0 if column < 4 else 7)
            beside = not corner and view.cells[near] == "." and row in (0, 1, 6, 7) and column in (0, 1, 6, 7)
            replies = len(othello_moves(self.apply(view, seat, move).cells, "XO"[1 - seat]))
            ranked.append((20 * corner - 10 * beside - replies, rng.random(), move))
        return max(ranked)[2]


@lru_cache(maxsize=64)
def rays(cell: int) -> list[list[int]]:
    """The cells in each direction from one of 8 x 8, nearest first; only directions of two cells or more."""
    row, column = divmod(cell, 8)
    ways = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
    lines = [[(row + k * down, column + k * right) for k in range(1, 8)] for down, right in ways]
    on_board = [[8 * y + x for y, x in line if 0 <= y < 8 and 0 <= x < 8] for line in lines]
    return [line for line in on_board if len(line) > 1]


def flips(cells: str, cell: int, sign: str) -> list[int]:
    """The stones that a stone at a cell turns over."""
    other = "O" if sign == "X" else "X"
    turned: list[int] = []
    for ray in rays(cell):
        count = 0
        while count < len(ray) and cells[ray[count]] == other:
            count += 1
        if 0 < count < len(ray) and cells[ray[count]] == sign:
            turned += ray[:count]
    return turned


@lru_cache(maxsize=4096)
def othello_moves(cells: str, sign: str) -> tuple[int, ...]:
    return tuple(cell for cell in range(64) if cells[cell] == "." and flips(cells, cell, sign))


class Breakthrough(StoneGame):
    """Breakthrough: reach the far row, taking diagonally.

    Args:
        size: rows and columns of the board.
    """

    title = "Breakthrough"
    opening = (0, 6)

    def __init__(self, *, size: int = 6) -> None:
        check_range("size", size, 5, 9)
        super().__init__(size)
        self.decisions = size * size * 2  # more than any game takes
        self.first_state = BoardPosition("X" * 2 * size + "." * (size - 4) * size + "O" * 2 * size)

    def rules(self) -> str:
        return (
            f"Breakthrough on {self.size} x {self.size} cells. Seat 0 is X, moves first and moves down, towards higher "
            "row numbers; seat 1 is O and moves up. A stone moves one cell forward, straight onto an empty cell or "
            "diagonally onto an empty cell or a stone of the other, which it takes. A move is two cells, such as a2 "
            "b3. Whoever reaches the far row, or takes all of the other's stones, wins."
        )

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        last = state.cells[-self.size :] if state.turn == 1 else state.cells[: self.size]
        moved, other = "XO"[1 - state.turn], "XO"[state.turn]
        return () if moved in last or other not in state.cells else (state.turn,)

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        size, mine, forward = self.size, "XO"[seat], 1 if seat == 0 else -1
        moves = []
        for cell, sign in enumerate(state.cells):
            row = cell // size + forward
            if sign != mine or not 0 <= row < size:
                continue
            for column in (cell % size - 1, cell % size, cell % size + 1):
                if 0 <= column < size:
                    there = state.cells[row * size + column]
                    if there == "." or (there != mine and column != cell % size):
                        moves.append(f"{self.names[cell]} {self.names[row * size + column]}")
        return moves

    def parse(self, view: BoardPosition, seat: int, words: str) -> str:
        return two_cells(super().parse(view, seat, words.replace("-", " ").replace("x", " ")))

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        start, end = (self.cell_of[name] for name in move.split())
        cells = list(state.cells)
        cells[start], cells[end] = ".", "XO"[seat]
        return BoardPosition("".join(cells), 1 - seat)

    def expert(self, view: BoardPosition, seat: int, rng: random.Random) -> str:
        """Wins in one, stops what would win next, takes what is not covered, and else advances covered stones."""
        ranked = []
        for move in self.legal(view, seat):
            after = self.apply(view, seat, move)
            if not self.actors(after):
                return move
            replies = self.legal(after, 1 - seat)
            target = move.split()[1]
            loses = any(not self.actors(self.apply(after, 1 - seat, reply)) for reply in replies)
            taken = view.cells[self.cell_of[target]] != "."
            covered = not any(reply.split()[1] == target for reply in replies)
            row = self.cell_of[target] // self.size
            far = row if seat == 0 else self.size - 1 - row
            ranked.append((-100 * loses + 6 * taken + 5 * covered + far * covered, rng.random(), move))
        return max(ranked)[2]


def two_cells(words: str) -> str:
    """The move ``a2 b3`` for ``a2 to b3`` and ``a2b3``."""
    words = words.replace(" to ", " ")
    return f"{words[:2]} {words[2:]}" if len(words) == 4 and " " not in words else words


class Hex(StoneGame):
    """Hex: connect two sides of a board of six-sided cells.

    Args:
        size: rows and columns of the board.
    """

    title = "Hex"
    opening = (0, 4)

    def __init__(self, *, size: int = 5) -> None:
        check_range("size", size, 3, 11)
        super().__init__(size)
        self.neighbours = [self._around(*divmod(cell, size)) for cell in range(size * size)]
        self.decisions = (size**2 + 1) // 2  # half of the cells: the board never stays without a winner

    def _around(self, row: int, column: int) -> tuple[int, ...]:
        size = self.size
        cells = ((row + y, column + x) for y, x in ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0)))
        return tuple(y * size + x for y, x in cells if 0 <= y < size and 0 <= x < size)

    def rules(self) -> str:
        last = self.names[-1]
        return (
            f"Hex on {self.size} x {self.size} cells with six neighbours each: those left and right, above and below, "
            "above to the right, and below to the left. Seat 0 is X, moves first and connects the top row with the "
            "bottom row; seat 1 is O and connects the first column with the last. A move is an empty cell, from a1 to "
            f"{last}. Whoever first has a chain of stones between its two sides wins; there is no draw."
        )

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        stones = state.cells.replace(".", " ")  # no chain leads over an empty cell
        return () if self.missing(stones, 1 - state.turn) == 0 else (state.turn,)

    def missing(self, cells: str, seat: int) -> int:
        """How many stones a seat still needs to join its sides, at least; 0 where its chain joins them."""
        size, sign = self.size, "XO"[seat]
        cost = {".": 1, sign: 0}
        edge = range(size) if seat == 0 else range(0, size * size, size)
        best = {cell: cost[cells[cell]] for cell in edge if cells[cell] in cost}
        layers: list[list[int]] = [[] for _ in range(size * size + 2)]
        for cell, value in best.items():
            layers[value].append(cell)
        for value, layer in enumerate(layers):
            for cell in layer:
                if best[cell] < value:
                    continue
                if (cell // size if seat == 0 else cell % size) == size - 1:
                    return value
                for other in self.neighbours[cell]:
                    if cells[other] in cost and best.get(other, 999) > value + cost[cells[other]]:
                        best[other] = value + cost[cells[other]]
                        layers[best[other]].append(other)
        return size * size

    def expert(self, view: BoardPosition, seat: int, rng: random.Random) -> str:
        """Makes the difference between its own missing stones and the other's as small as one move can."""
        ranked = []
        centre = (self.size - 1) / 2
        for move in self.legal(view, seat):
            cells = self.apply(view, seat, move).cells
            row, column = divmod(self.cell_of[move], self.size)
            middle = abs(row - centre) + abs(column - centre)
            missing = self.missing(cells, seat)
            gain = self.missing(cells, 1 - seat) - missing if missing else 99
            ranked.append((gain, -middle, rng.random(), move))
        return max(ranked)[3]
