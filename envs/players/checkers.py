"""Checkers: English draughts, a jump being a move of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.players.boards import two_cells
from rlvr.envs.players.game import SeatGame, cell_names, drawn

QUIET: Final = 40  # moves without a capture that end the game as a draw
NAMES: Final = cell_names(8, 8)
CELL_OF: Final = {name: at for at, name in enumerate(NAMES)}
START: Final = "x.x.x.x..x.x.x.xx.x.x.x." + "." * 16 + ".o.o.o.oo.o.o.o..o.o.o.o"


class CheckersState(NamedTuple):
    """``cells`` row by row: x and its king X of seat 0, o and O of seat 1. ``jumper`` must go on jumping, or is -1."""

    cells: str = START
    turn: int = 0
    jumper: int = -1
    quiet: int = 0


class Checkers(SeatGame[CheckersState]):
    """Checkers: jump over the other's pieces, as you must, until the other cannot move."""

    title = "Checkers"
    # at most 40 moves before each of 24 captures, and 40 to a draw, shared by both seats; jumps besides
    decisions = 24 * QUIET // 2 + QUIET // 2 + 24
    first_state = CheckersState()
    opening = (0, 14)

    def rules(self) -> str:
        return (
            "Checkers on 8 x 8 cells. Seat 0 has x and moves first, down to row 8; seat 1 has o and moves up to row 1. "
            "A piece moves one cell diagonally forward to an empty cell, or jumps over a piece of the other on such a "
            "cell to the empty cell behind it, which captures that piece. Who can jump must jump. Each jump is a move "
            "of its own: if the same piece can jump on, the same seat must go on with it. A piece that reaches the "
            "last row becomes a king (X or O), which ends the turn; kings also move and jump backward. A move is two "
            f"cells, from and to, such as a3 b4. Who cannot move has lost. After {QUIET} moves without a capture the "
            "game is a draw."
        )

    def actors(self, state: CheckersState) -> tuple[int, ...]:
        return (state.turn,) if state.quiet < QUIET and moves_of(state.cells, state.turn, state.jumper) else ()

    def legal(self, state: CheckersState, seat: int) -> tuple[str, ...]:
        return moves_of(state.cells, seat, state.jumper if seat == state.turn else -1)

    def parse(self, view: CheckersState, seat: int, words: str) -> str:
        """Also reads ``a3-b4``, ``a3xc5``, ``a3 to b4`` and ``a3b4``."""
        return two_cells(super().parse(view, seat, words.replace("-", " ").replace("x", " ")))

    def apply(self, state: CheckersState, seat: int, move: str) -> CheckersState:
        start, end = (CELL_OF[name] for name in move.split())
        cells = list(state.cells)
        piece, cells[start] = cells[start], "."
        crowned = piece.islower() and end // 8 == (0 if seat else 7)
        cells[end] = piece.upper() if crowned else piece
        if abs(start - end) < 10:
            return CheckersState("".join(cells), 1 - seat, -1, state.quiet + 1)
        cells[(start + end) // 2] = "."
        after = "".join(cells)
        if not crowned and list(jumps_from(after, end)):
            return CheckersState(after, seat, end, 0)
        return CheckersState(after, 1 - seat, -1, 0)

    def returns(self, state: CheckersState) -> tuple[float, ...]:
        if state.quiet >= QUIET:
            return (0.0, 0.0)
        return (-1.0, 1.0) if state.turn == 0 else (1.0, -1.0)

    def show(self, view: CheckersState, seat: int) -> str:
        mine, theirs = "xo"[seat], "xo"[1 - seat]
        counts = [sum(cell.lower() == sign for cell in view.cells) for sign in (mine, theirs)]
        board = drawn([view.cells[at : at + 8] for at in range(0, 64, 8)])
        quiet = f" Moves without a capture: {view.quiet}." if view.quiet >= QUIET // 2 else ""
        return f"{board}\nPieces: you ({mine}) {counts[0]}, the other seat ({theirs}) {counts[1]}.{quiet}"

    def expert(self, view: CheckersState, seat: int, rng: random.Random) -> str:
        """The move after which it has the most, once both have made all captures that follow and one move more."""
        ranked = []
        for move in self.legal(view, seat):
            after = self.apply(view, seat, move)
            worth = self._worth(after, seat, 1, 4) if self.actors(after) else 1000 * self.returns(after)[seat]
            ranked.append((worth, rng.random(), move))
        return max(ranked)[2]

    def _worth(self, state: CheckersState, seat: int, steps: int, jumps: int) -> float:
        """Pieces, kings and rows of a seat less the other's, after forced jumps and a number of quiet moves."""
        mover = state.turn
        legal = moves_of(state.cells, mover, state.jumper)
        if not legal:
            return -1000.0 if mover == seat else 1000.0
        forced = abs(int(legal[0][1]) - int(legal[0][4])) == 2  # a jump, over a piece
        if (steps == 0 and not forced) or jumps == 0:
            return standing(state.cells, seat)
        left = (steps, jumps - 1) if forced else (steps - 1, jumps)
        values = [self._worth(self.apply(state, mover, move), seat, *left) for move in legal]
        return max(values) if mover == seat else min(values)


def standing(cells: str, seat: int) -> float:
    """What the pieces of a seat are worth less those of the other: a man 1, a king 1.6, a row forward 0.04.

    Whoever has more gains by exchanges and by kings that are near the other's pieces.
    """
    worths = [0.0, 0.0]
    kings: tuple[list[int], list[int]] = ([], [])
    spots: tuple[list[int], list[int]] = ([], [])
    for at, piece in enumerate(cells):
        if piece != ".":
            owner = 0 if piece in "xX" else 1
            row = at // 8 if owner == 0 else 7 - at // 8
            worths[owner] += 1.6 if piece.isupper() else 1 + 0.04 * row
            spots[owner].append(at)
            if piece.isupper():
                kings[owner].append(at)
    lead = worths[seat] - worths[1 - seat]
    total = lead + 2 * lead / max(1.0, sum(worths))
    for owner in (0, 1):
        ahead = worths[owner] > worths[1 - owner]
        if ahead and spots[1 - owner]:
            far = sum(min(distance(king, other) for other in spots[1 - owner]) for king in kings[owner])
            total -= 0.02 * far if owner == seat else -0.02 * far
    return total


def distance(first: int, second: int) -> int:
    """Steps of a king between two cells of an empty board."""
    return max(abs(first // 8 - second // 8), abs(first % 8 - second % 8))


def directions(piece: str) -> tuple[int, ...]:
    """The rows that a piece may go: down is 1."""
    return (1, -1) if piece.isupper() else (1,) if piece == "x" else (-1,)


def jumps_from(cells: str, start: int) -> Iterator[int]:
    """Where the piece of a cell can land by one jump."""
    piece = cells[start]
    row, column = divmod(start, 8)
    others = "oO" if piece in "xX" else "xX"
    for down in directions(piece):
        for across in (-1, 1):
            if 0 <= row + 2 * down < 8 and 0 <= column + 2 * across < 8:
                over, end = (row + down) * 8 + column + across, (row + 2 * down) * 8 + column + 2 * across
                if cells[over] in others and cells[end] == ".":
                    yield end


@lru_cache(maxsize=4096)
def moves_of(cells: str, seat: int, jumper: int) -> tuple[str, ...]:
    """The legal moves of a seat; those of ``jumper`` alone where a jump must be followed by another."""
    pieces = [at for at, piece in enumerate(cells) if piece in "xX" * (seat == 0) + "oO" * (seat == 1)]
    jumps = [(at, end) for at in ([jumper] if jumper >= 0 else pieces) for end in jumps_from(cells, at)]
    if not jumps:
        for at in pieces:
            row, column = divmod(at, 8)
            for down in directions(cells[at]):
                for across in (-1, 1):
                    if 0 <= row + down < 8 and 0 <= column + across < 8:
                        end = (row + down) * 8 + column + across
                        if cells[end] == ".":
                            jumps.append((at, end))
    return tuple(f"{NAMES[start]} {NAMES[end]}" for start, end in jumps)
