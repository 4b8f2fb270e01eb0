"""Games of stones on a board: othello, breakthrough and hex."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import SeatGame, cell_names, drawn


class BoardPosition(NamedTuple):
    """``cells`` row by row: X of seat 0, O of seat 1, or a dot."""

    cells: str
    turn: int = 0


def won_by_seat(seat: int) -> tuple[float, float]:
    return (1.0, -1.0) if seat == 0 else (-1.0, 1.0)


class Othello(SeatGame[BoardPosition]):
    """Othello: stones between two of the other colour are turned over."""

    title = "Othello"
    decisions = 60  # sixty, all empty cells, as a seat may move several times in a row
    opening = (0, 8)
    names = cell_names(8, 8)
    cell_of = {name: at for at, name in enumerate(names)}  # noqa: RUF012  (never changed)

    def rules(self) -> str:
        return (
            "Othello on 8 x 8 cells. Seat 0 is X and moves first, seat 1 is O. A move is an empty cell, such as d3, "
            "from which at least one straight line (row, column or diagonal) of the other's stones leads to a stone of "
            "yours; all stones on such lines become yours. A seat that has no such cell must pass. When neither can "
            "move, more stones win."
        )

    def start(self) -> BoardPosition:
        cells = ["."] * 64
        for at, sign in ((27, "O"), (28, "X"), (35, "X"), (36, "O")):
            cells[at] = sign
        return BoardPosition("".join(cells))

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        if self.free_cells(state.cells, state.turn) or self.free_cells(state.cells, 1 - state.turn):
            return (state.turn,)
        return ()

    @staticmethod
    def free_cells(cells: str, seat: int) -> tuple[int, ...]:
        """The cells where a seat may set a stone."""
        return othello_moves(cells, "XO"[seat])

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        return [self.names[at] for at in self.free_cells(state.cells, seat)] or ["pass"]

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        """Sets a stone and turns over all lines that it closes; a pass changes only the turn."""
        if move == "pass":
            return BoardPosition(state.cells, 1 - seat)
        at, own = self.cell_of[move], "XO"[seat]
        cells = list(state.cells)
        for turned in flips(state.cells, at, own):
            cells[turned] = own
        cells[at] = own
        return BoardPosition("".join(cells), 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        lead = state.cells.count("X") - state.cells.count("O")
        return (0.0, 0.0) if lead == 0 else won_by_seat(0 if lead > 0 else 1)

    def show(self, view: BoardPosition, seat: int) -> str:
        own, other = "XO"[seat], "XO"[1 - seat]
        count = f"Stones: you {view.cells.count(own)}, the other seat {view.cells.count(other)}."
        return drawn([view.cells[at : at + 8] for at in range(0, 64, 8)]) + "\n" + count

    def expert(self, view: BoardPosition, seat: int, rng: random.Random) -> str:
        """Corners first, no cell beside an empty corner if it can be helped, and few replies for the other."""
        ranked = []
        for move in self.legal(view, seat):
            if move == "pass":
                return move
            at = self.cell_of[move]
            corner = at in (0, 7, 56, 63)
            row, column = divmod(at, 8)
            near = (0 if row < 4 else 7) * 8 + (0 if column < 4 else 7)
            beside = not corner and view.cells[near] == "." and row in (0, 1, 6, 7) and column in (0, 1, 6, 7)
            replies = len(self.free_cells(self.apply(view, seat, move).cells, 1 - seat))
            ranked.append((20 * corner - 10 * beside - replies, rng.random(), move))
        return max(ranked)[2]


@lru_cache(maxsize=1)
def rays() -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each of 64 cells the cells in each direction, nearest first; only directions of two cells or more."""
    found = []
    for at in range(64):
        row, column = divmod(at, 8)
        lines = []
        for down, right in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)):
            cells, y, x = [], row + down, column + right
            while 0 <= y < 8 and 0 <= x < 8:
                cells.append(8 * y + x)
                y, x = y + down, x + right
            if len(cells) > 1:
                lines.append(tuple(cells))
        found.append(tuple(lines))
    return tuple(found)


def flips(cells: str, at: int, own: str) -> list[int]:
    """The stones that a stone at a cell turns over."""
    other = "O" if own == "X" else "X"
    found: list[int] = []
    for ray in rays()[at]:
        count = 0
        while count < len(ray) and cells[ray[count]] == other:
            count += 1
        if 0 < count < len(ray) and cells[ray[count]] == own:
            found += ray[:count]
    return found


@lru_cache(maxsize=4096)
def othello_moves(cells: str, own: str) -> tuple[int, ...]:
    return tuple(at for at in range(64) if cells[at] == "." and flips(cells, at, own))


class Breakthrough(SeatGame[BoardPosition]):
    """Breakthrough: reach the far row, taking diagonally.

    Args:
        size: rows and columns of the board.
    """

    title = "Breakthrough"
    opening = (0, 6)

    def __init__(self, *, size: int = 6) -> None:
        if not 5 <= size <= 9:
            raise ValueError(f"size must be 5 to 9, not {size}")
        self.size = size
        self.names = cell_names(size, size)
        self.cell_of = {name: at for at, name in enumerate(self.names)}
        self.decisions = self.size * self.size * 2  # twice the cells, more than any game takes

    def rules(self) -> str:
        return (
            f"Breakthrough on {self.size} x {self.size} cells. Seat 0 is X, moves first and moves down, towards higher "
            "row numbers; seat 1 is O and moves up. A stone moves one cell forward, straight onto an empty cell or "
            "diagonally onto an empty cell or a stone of the other, which it takes. A move is two cells, such as a2 "
            "b3. Whoever reaches the far row, or takes all of the other's stones, wins."
        )

    def start(self) -> BoardPosition:
        size = self.size
        return BoardPosition("X" * 2 * size + "." * (size - 4) * size + "O" * 2 * size)

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        last = state.cells[-self.size :] if state.turn == 1 else state.cells[: self.size]
        moved, other = "XO"[1 - state.turn], "XO"[state.turn]
        return () if moved in last or other not in state.cells else (state.turn,)

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        size, own, forward = self.size, "XO"[seat], 1 if seat == 0 else -1
        found = []
        for at, sign in enumerate(state.cells):
            row = at // size + forward
            if sign != own or not 0 <= row < size:
                continue
            for column in (at % size - 1, at % size, at % size + 1):
                if 0 <= column < size:
                    there = state.cells[row * size + column]
                    if there == "." or (there != own and column != at % size):
                        found.append(f"{self.names[at]} {self.names[row * size + column]}")
        return found

    def parse(self, view: BoardPosition, seat: int, words: str) -> str:
        """Also reads ``a2-b3``, ``a2xb3``, ``a2 to b3`` and ``a2b3``."""
        words = super().parse(view, seat, words.replace("-", " ").replace("x", " "))
        words = words.replace(" to ", " ")
        return f"{words[:2]} {words[2:]}" if len(words) == 4 and " " not in words else words

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        start, end = (self.cell_of[name] for name in move.split())
        cells = list(state.cells)
        cells[start], cells[end] = ".", "XO"[seat]
        return BoardPosition("".join(cells), 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        return won_by_seat(1 - state.turn)

    def show(self, view: BoardPosition, seat: int) -> str:
        return drawn([view.cells[at : at + self.size] for at in range(0, self.size**2, self.size)])

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


class Hex(SeatGame[BoardPosition]):
    """Hex: connect two sides of a board of six-sided cells.

    Args:
        size: rows and columns of the board.
    """

    title = "Hex"
    opening = (0, 4)

    def __init__(self, *, size: int = 5) -> None:
        if not 3 <= size <= 11:
            raise ValueError(f"size must be 3 to 11, not {size}")
        self.size = size
        self.names = cell_names(size, size)
        self.cell_of = {name: at for at, name in enumerate(self.names)}
        self.neighbours = [self._around(*divmod(at, size)) for at in range(size * size)]
        self.decisions = (self.size**2 + 1) // 2  # half of the cells: the board never stays without a winner

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

    def start(self) -> BoardPosition:
        return BoardPosition("." * self.size**2)

    def connected(self, cells: str, seat: int) -> bool:
        """Whether a seat's chain joins its two sides."""
        size, own = self.size, "XO"[seat]
        edge = range(size) if seat == 0 else range(0, size * size, size)
        stack = [at for at in edge if cells[at] == own]
        seen = set(stack)
        while stack:
            at = stack.pop()
            if (at // size if seat == 0 else at % size) == size - 1:
                return True
            for other in self.neighbours[at]:
                if other not in seen and cells[other] == own:
                    seen.add(other)
                    stack.append(other)
        return False

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        return () if self.connected(state.cells, 1 - state.turn) else (state.turn,)

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        return [name for at, name in enumerate(self.names) if state.cells[at] == "."]

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        at = self.cell_of[move]
        return BoardPosition(state.cells[:at] + "XO"[seat] + state.cells[at + 1 :], 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        return won_by_seat(1 - state.turn)

    def show(self, view: BoardPosition, seat: int) -> str:
        return drawn([view.cells[at : at + self.size] for at in range(0, self.size**2, self.size)])

    def missing(self, cells: str, seat: int) -> int:
        """How many stones a seat still needs to join its sides, at least."""
        size, own = self.size, "XO"[seat]
        cost = {".": 1, own: 0}
        edge = range(size) if seat == 0 else range(0, size * size, size)
        best = {at: cost[cells[at]] for at in edge if cells[at] in cost}
        layers: list[list[int]] = [[] for _ in range(size * size + 2)]
        for at, value in best.items():
            layers[value].append(at)
        for value, layer in enumerate(layers):
            for at in layer:
                if best[at] < value:
                    continue
                if (at // size if seat == 0 else at % size) == size - 1:
                    return value
                for other in self.neighbours[at]:
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
            gain = self.missing(cells, 1 - seat) - self.missing(cells, seat)
            ranked.append((gain if not self.connected(cells, seat) else 99, -middle, rng.random(), move))
        return max(ranked)[3]
