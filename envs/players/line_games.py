"""Games of stones in a line: tic-tac-toe with its wild, ultimate and cubic kin, and connect four."""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rlvr.envs.players.boards import BoardPosition, StoneGame, won_by_seat
from rlvr.envs.players.game import COLUMNS, SeatGame, cell_names, drawn


class StonesOf(NamedTuple):
    """``first`` and ``second`` are masks of cells, of seat 0 and seat 1; ``turn`` is the seat that moves."""

    first: int = 0
    second: int = 0
    turn: int = 0


@lru_cache(maxsize=32)
def lines_on(height: int, width: int, inline: int) -> tuple[int, ...]:
    """Every straight line of ``inline`` cells as a mask; cell (row, column) is bit row * width + column."""
    masks = []
    for row, column, (down, right) in product(range(height), range(width), ((0, 1), (1, 0), (1, 1), (1, -1))):
        cells = [(row + k * down, column + k * right) for k in range(inline)]
        if all(0 <= y < height and 0 <= x < width for y, x in cells):
            masks.append(sum(1 << y * width + x for y, x in cells))
    return tuple(masks)


@lru_cache(maxsize=256)
def bits_of(mask: int) -> tuple[int, ...]:
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


class LineGame(SeatGame[StonesOf]):
    """Marks on a board, a line of which wins. A subclass gives ``names``, ``lines`` and ``show``."""

    first_state = StonesOf()
    names: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()

    def __init__(self) -> None:
        self.cell_of = {name: at for at, name in enumerate(self.names)}
        self.full = (1 << len(self.names)) - 1
        self.lines_at = [tuple(line for line in self.lines if line >> at & 1) for at in range(len(self.names))]
        self.decisions = (len(self.names) + 1) // 2

    def won_by(self, state: StonesOf) -> int:
        """The seat that has a line, or -1; only the seat that moved last can have made one."""
        stones = state[1 - state.turn]
        return 1 - state.turn if any(stones & line == line for line in self.lines) else -1

    def actors(self, state: StonesOf) -> tuple[int, ...]:
        if (state.first | state.second) == self.full or self.won_by(state) >= 0:
            return ()
        return (state.turn,)

    def legal(self, state: StonesOf, seat: int) -> list[str]:
        taken = state.first | state.second
        return [name for name, cell in self.cell_of.items() if not taken >> cell & 1]

    def is_legal(self, state: StonesOf, seat: int, move: str) -> bool:
        """Looks the cell up, where ``legal`` would name all of them."""
        return move in self.cell_of and not (state.first | state.second) >> self.cell_of[move] & 1

    def apply(self, state: StonesOf, seat: int, move: str) -> StonesOf:
        return with_stone(state, seat, self.cell_of[move])

    def returns(self, state: StonesOf) -> tuple[float, ...]:
        return won_by_seat(self.won_by(state))

    def signs(self, view: StonesOf) -> str:
        """One sign a cell: X for seat 0, O for seat 1."""
        return "".join(
            "X" if view.first >> at & 1 else "O" if view.second >> at & 1 else "." for at in range(len(self.names))
        )

    def expert(self, view: StonesOf, seat: int, rng: random.Random) -> str:
        """Completes a line, else stops one of the other's; one move deep, and at random otherwise."""
        legal = self.legal(view, seat)
        for stones in (view[seat], view[1 - seat]):
            for move in legal:
                cell = self.cell_of[move]
                if any((stones | 1 << cell) & line == line for line in self.lines_at[cell]):
                    return move
        return rng.choice(legal)


def with_stone(state: StonesOf, seat: int, cell: int) -> StonesOf:
    """The state after a seat has set a stone on a cell."""
    first, second, _ = state
    return StonesOf(first | 1 << cell, second, 1) if seat == 0 else StonesOf(first, second | 1 << cell, 0)


class TicTacToeDuel(LineGame):
    """Tic-tac-toe between two seats: three marks in a line win.

    The expert plays perfectly, by a search of the whole game.
    """

    title = "Tic-tac-toe"
    names = cell_names(3, 3)
    lines = lines_on(3, 3, 3)
    opening = (0, 3)

    def rules(self) -> str:
        return (
            "Tic-tac-toe on 3 x 3 cells. Seat 0 is X and moves first, seat 1 is O. A move is an empty cell, such as "
            "b2. Whoever first has three marks in a row, column or diagonal wins; a full board without them is a draw."
        )

    def show(self, view: StonesOf, seat: int) -> str:
        signs = self.signs(view)
        return drawn([signs[at : at + 3] for at in (0, 3, 6)])

    def expert(self, view: StonesOf, seat: int, rng: random.Random) -> str:
        """Any of the best moves by a search of the whole game, so it never loses."""
        values = {move: -solved(self.apply(view, seat, move)) for move in self.legal(view, seat)}
        best = max(values.values())
        return rng.choice([move for move, value in values.items() if value == best])


@lru_cache(maxsize=8192)
def solved(state: StonesOf) -> int:
    """What perfect play makes of a position of tic-tac-toe for the seat that moves: 1 won, 0 drawn, -1 lost."""
    if any(state[1 - state.turn] & line == line for line in TicTacToeDuel.lines):
        return -1
    free = [cell for cell in range(9) if not (state.first | state.second) >> cell & 1]
    return max((-solved(with_stone(state, state.turn, cell)) for cell in free), default=0)


class CubicTicTacToe(LineGame):
    """Tic-tac-toe in a cube of 4 x 4 x 4 cells: four marks in a line win."""

    title = "3-D tic-tac-toe"
    names = tuple(f"{letter}{row}{level}" for level in "1234" for row in "1234" for letter in "abcd")
    opening = (2, 6)
    level_bots = ("mixed:0.3", "mixed:0.15", "expert")

    def __init__(self) -> None:
        self.lines = _cube_lines()
        super().__init__()

    def rules(self) -> str:
        return (
            "Tic-tac-toe in a cube of 4 x 4 x 4 cells. Seat 0 is X and moves first, seat 1 is O. A move is an empty "
            "cell as column, row and layer: b31 is column b, row 3, layer 1. Whoever first has four marks in a "
            "straight line, along any axis or diagonal of the cube, wins; a full cube without them is a draw."
        )

    def show(self, view: StonesOf, seat: int) -> str:
        signs = self.signs(view)
        rows = [signs[start : start + 4] for start in range(0, 64, 4)]
        return "\n".join(f"Layer {layer + 1}:\n{drawn(rows[4 * layer : 4 * layer + 4])}" for layer in range(4))


@lru_cache(maxsize=1)
def _cube_lines() -> tuple[int, ...]:
    masks = set()
    for step in [step for step in product((-1, 0, 1), repeat=3) if step > (0, 0, 0)]:
        for start in product(range(4), repeat=3):
            cells = [tuple(part + k * by for part, by in zip(start, step, strict=True)) for k in range(4)]
            if all(0 <= part < 4 for cell in cells for part in cell):
                masks.add(sum(1 << 16 * z + 4 * y + x for z, y, x in cells))
    return tuple(sorted(masks))


class ConnectFourDuel(LineGame):
    """Connect four between two seats: stones fall into columns, four in a line win.

    Args:
        width, height: of the board.
    """

    title = "Connect four"
    opening = (0, 6)
    level_bots = ("mixed:0.7", "mixed:0.35", "expert")

    def __init__(self, *, width: int = 7, height: int = 6) -> None:
        if not (4 <= width <= 9 and 4 <= height <= 9):
            raise ValueError(f"a board of connect four has 4 to 9 columns and rows, not {width} x {height}")
        self.width, self.height = width, height
        self.names, self.lines = cell_names(height, width), lines_on(height, width, 4)
        super().__init__()

    def rules(self) -> str:
        return (
            f"Connect four on {self.width} columns of {self.height} cells. Seat 0 is X and moves first, seat 1 is O. A "
            "move is a column's letter; the stone falls onto the topmost stone there. Whoever first has four stones in "
            "a row, column or diagonal wins; a full board without them is a draw."
        )

    def legal(self, state: StonesOf, seat: int) -> list[str]:
        taken = state.first | state.second
        return [COLUMNS[column] for column in range(self.width) if not taken >> column & 1]

    def is_legal(self, state: StonesOf, seat: int, move: str) -> bool:
        return move in self.legal(state, seat)

    def apply(self, state: StonesOf, seat: int, move: str) -> StonesOf:
        """The stone falls to the lowest empty cell of its column; the first row is the top one."""
        column, taken = COLUMNS.index(move), state.first | state.second
        cells = range(column, self.width * self.height, self.width)
        return with_stone(state, seat, max(cell for cell in cells if not taken >> cell & 1))

    def show(self, view: StonesOf, seat: int) -> str:
        signs = self.signs(view)
        rows = [" ".join(signs[start : start + self.width]) for start in range(0, len(signs), self.width)]
        return "\n".join([*rows, " ".join(COLUMNS[: self.width])])

    def expert(self, view: StonesOf, seat: int, rng: random.Random) -> str:
        """Wins or stops a win where one move does, gives none away, and likes the centre."""
        legal = self.legal(view, seat)
        for who in (seat, 1 - seat):
            for move in legal:
                if self.won_by(self.apply(view._replace(turn=who), who, move)) == who:
                    return move
        safe = []
        for move in legal:
            after = self.apply(view, seat, move)
            replies = self.legal(after, 1 - seat)
            if not any(self.won_by(self.apply(after, 1 - seat, reply)) == 1 - seat for reply in replies):
                safe.append(move)
        centre = (self.width - 1) / 2
        return min(safe or legal, key=lambda move: (abs(COLUMNS.index(move) - centre), move))


def has_line(signs: str, sign: str) -> bool:
    """Whether three equal signs stand in a line of nine, cells or boards."""
    return any(all(signs[cell] == sign for cell in bits_of(line)) for line in lines_on(3, 3, 3))


class WildTicTacToe(StoneGame):
    """Wild tic-tac-toe: each move sets an X or an O, and whoever completes three of a kind wins."""

    title = "Wild tic-tac-toe"
    decisions = 5  # nine cells, and seat 0 moves first
    opening = (1, 3)

    def __init__(self) -> None:
        super().__init__(3)

    def rules(self) -> str:
        return (
            "Wild tic-tac-toe on 3 x 3 cells. Seats move in turn and set either mark: a move is x or o and an empty "
            "cell, such as x b2. Whoever completes three equal marks in a row, column or diagonal wins; a full board "
            "without them is a draw."
        )

    def over(self, state: BoardPosition) -> bool:
        return has_line(state.cells, "X") or has_line(state.cells, "O")

    def actors(self, state: BoardPosition) -> tuple[int, ...]:
        return () if "." not in state.cells or self.over(state) else (state.turn,)

    def legal(self, state: BoardPosition, seat: int) -> list[str]:
        return [f"{sign} {name}" for name in super().legal(state, seat) for sign in "xo"]

    def apply(self, state: BoardPosition, seat: int, move: str) -> BoardPosition:
        sign, name = move.split()
        return BoardPosition(super().apply(state, "xo".index(sign), name).cells, 1 - seat)

    def returns(self, state: BoardPosition) -> tuple[float, ...]:
        """The seat that completed the line wins, whichever mark it is of."""
        return won_by_seat(1 - state.turn if self.over(state) else -1)

    def expert(self, view: BoardPosition, seat: int, rng: random.Random) -> str:
        """Plays perfectly, by a search of the whole game."""
        values = {move: -wild_value(self.apply(view, seat, move).cells) for move in self.legal(view, seat)}
        best = max(values.values())
        return rng.choice([move for move, value in values.items() if value == best])


@lru_cache(maxsize=32_768)
def wild_value(cells: str) -> int:
    """What perfect play makes of a position of wild tic-tac-toe for the seat that moves: 1 won, 0 drawn, -1 lost."""
    if has_line(cells, "X") or has_line(cells, "O"):
        return -1
    best = -1 if "." in cells else 0
    for cell, sign in product([cell for cell in range(9) if cells[cell] == "."], "XO"):
        best = max(best, -wild_value(cells[:cell] + sign + cells[cell + 1 :]))
        if best == 1:
            break
    return best


class UltimateState(NamedTuple):
    """``boards``: nine boards of nine signs; ``won``: X, O, = (full) or . a board; ``target``: the board, or -1."""

    boards: tuple[str, ...] = (".........",) * 9
    won: str = "........."
    target: int = -1
    turn: int = 0


class UltimateTicTacToe(SeatGame[UltimateState]):
    """Ultimate tic-tac-toe: nine boards, of which the last move's cell names the next one."""

    title = "Ultimate tic-tac-toe"
    decisions = 41  # half of the 81 cells, rounded up
    first_state = UltimateState()
    opening = (2, 8)
    names = cell_names(3, 3)

    def rules(self) -> str:
        return (
            "Ultimate tic-tac-toe: nine boards of 3 x 3 cells, which themselves stand in 3 x 3. Seat 0 is X and moves "
            "first, seat 1 is O. A move is a board and a cell of it, both from a1 to c3, such as b2 a1. The cell names "
            "the board in which the other seat must move; if that board is won or full, it may move in any that is "
            "not. Three marks in a line win a board, three won boards in a line win the game. When no cell is left, "
            "the game is a draw."
        )

    def actors(self, state: UltimateState) -> tuple[int, ...]:
        if "." not in state.won or has_line(state.won, "XO"[1 - state.turn]):
            return ()
        return (state.turn,)

    def legal(self, state: UltimateState, seat: int) -> list[str]:
        targets = [state.target] if state.target >= 0 else [at for at in range(9) if state.won[at] == "."]
        return [
            f"{self.names[board]} {self.names[cell]}"
            for board in targets
            for cell in range(9)
            if state.boards[board][cell] == "."
        ]

    def apply(self, state: UltimateState, seat: int, move: str) -> UltimateState:
        board, cell = (self.names.index(name) for name in move.split())
        signs = state.boards[board][:cell] + "XO"[seat] + state.boards[board][cell + 1 :]
        won = state.won
        if has_line(signs, "XO"[seat]):
            won = won[:board] + "XO"[seat] + won[board + 1 :]
        elif "." not in signs:
            won = won[:board] + "=" + won[board + 1 :]
        boards = (*state.boards[:board], signs, *state.boards[board + 1 :])
        return UltimateState(boards, won, cell if won[cell] == "." else -1, 1 - seat)

    def returns(self, state: UltimateState) -> tuple[float, ...]:
        return won_by_seat(0 if has_line(state.won, "X") else 1 if has_line(state.won, "O") else -1)

    def show(self, view: UltimateState, seat: int) -> str:
        parts = []
        for at, name in enumerate(self.names):
            note = {"X": " (won by X)", "O": " (won by O)", "=": " (full)", ".": ""}[view.won[at]]
            rows = "/".join(view.boards[at][start : start + 3] for start in (0, 3, 6))
            parts.append(f"Board {name}{note}: {rows}")
        return "\n".join(["Each board is written as its rows 1/2/3, columns a to c.", *parts])

    def expert(self, view: UltimateState, seat: int, rng: random.Random) -> str:
        """Wins the game or a board where one move does, and sends the other nowhere it can do so, if it can."""
        ranked = []
        for move in self.legal(view, seat):
            after = self.apply(view, seat, move)
            if not self.actors(after):
                return move
            gain = after.won.count("XO"[seat]) - view.won.count("XO"[seat])
            danger = 0
            if after.target >= 0:
                signs, other = after.boards[after.target], "XO"[1 - seat]
                danger = any(
                    sum(signs[at] == other for at in bits_of(line)) == 2
                    and any(signs[at] == "." for at in bits_of(line))
                    for line in lines_on(3, 3, 3)
                )
            ranked.append((2 * gain - (2 if after.target < 0 else danger), rng.random(), move))
        return max(ranked)[2]
