"""Games of stones in a line: tic-tac-toe with its wild, ultimate and cubic kin, and connect four."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import COLUMNS, SeatGame, cell_names, drawn


class StonesOf(NamedTuple):
    """``first`` and ``second`` are masks of cells, of seat 0 and seat 1; ``turn`` is the seat that moves."""

    first: int = 0
    second: int = 0
    turn: int = 0


@lru_cache(maxsize=32)
def lines_on(height: int, width: int, inline: int) -> tuple[int, ...]:
    """Every straight line of ``inline`` cells as a mask; cell (row, column) is bit row * width + column."""
    found = []
    for row in range(height):
        for column in range(width):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                end = (row + (inline - 1) * down, column + (inline - 1) * right)
                if 0 <= end[0] < height and 0 <= end[1] < width:
                    cells = ((row + k * down) * width + column + k * right for k in range(inline))
                    found.append(sum(1 << cell for cell in cells))
    return tuple(found)


@lru_cache(maxsize=256)
def bits_of(mask: int) -> tuple[int, ...]:
    return tuple(at for at in range(mask.bit_length()) if mask >> at & 1)


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
        for line in self.lines:
            if stones & line == line:
                return 1 - state.turn
        return -1

    def actors(self, state: StonesOf) -> tuple[int, ...]:
        if (state.first | state.second) == self.full or self.won_by(state) >= 0:
            return ()
        return (state.turn,)

    def legal(self, state: StonesOf, seat: int) -> list[str]:
        taken = state.first | state.second
        return [name for at, name in enumerate(self.names) if not taken >> at & 1]

    def is_legal(self, state: StonesOf, seat: int, move: str) -> bool:
        """Looks the cell up, where ``legal`` would name all of them."""
        at = self.cell_of.get(move)
        return at is not None and not (state.first | state.second) >> at & 1

    def apply(self, state: StonesOf, seat: int, move: str) -> StonesOf:
        bit = 1 << self.cell_of[move]
        if seat == 0:
            return StonesOf(state.first | bit, state.second, 1)
        return StonesOf(state.first, state.second | bit, 0)

    def returns(self, state: StonesOf) -> tuple[float, ...]:
        winner = self.won_by(state)
        return (0.0, 0.0) if winner < 0 else (1.0, -1.0) if winner == 0 else (-1.0, 1.0)

    def signs(self, view: StonesOf) -> str:
        """One sign a cell: X for seat 0, O for seat 1."""
        return "".join(
            "X" if view.first >> at & 1 else "O" if view.second >> at & 1 else "." for at in range(len(self.names))
        )

    def tactical(self, view: StonesOf, seat: int, rng: random.Random) -> str:
        """A move that completes a line, else one that stops the other's, else any."""
        mine, theirs = view[seat], view[1 - seat]
        legal = self.legal(view, seat)
        for stones in (mine, theirs):
            for move in legal:
                at = self.cell_of[move]
                with_it = stones | 1 << at
                if any(with_it & line == line for line in self.lines_at[at]):
                    return move
        return rng.choice(legal)

    def expert(self, view: StonesOf, seat: int, rng: random.Random) -> str:
        """One move deep: it wins and blocks, and plays at random otherwise."""
        return self.tactical(view, seat, rng)


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
    lines = TicTacToeDuel.lines
    mine, theirs = (state.first, state.second) if state.turn == 0 else (state.second, state.first)
    if any(theirs & line == line for line in lines):
        return -1
    free = 0b111111111 & ~(mine | theirs)
    if not free:
        return 0
    best = -1
    for at in bits_of(free):
        bit = 1 << at
        after = StonesOf(mine | bit, theirs, 1) if state.turn == 0 else StonesOf(theirs, mine | bit, 0)
        best = max(best, -solved(after))
        if best == 1:
            break
    return best


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
        layers = []
        for layer in range(4):
            rows = [signs[16 * layer + at : 16 * layer + at + 4] for at in range(0, 16, 4)]
            layers.append(f"Layer {layer + 1}:\n{drawn(rows)}")
        return "\n".join(layers)


@lru_cache(maxsize=1)
def _cube_lines() -> tuple[int, ...]:
    found = set()
    steps = [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) > (0, 0, 0)]
    for start in range(64):
        z, y, x = start // 16, start // 4 % 4, start % 4
        for dx, dy, dz in steps:
            cells = [(x + k * dx, y + k * dy, z + k * dz) for k in range(4)]
            if all(0 <= part < 4 for cell in cells for part in cell):
                found.add(sum(1 << cz * 16 + cy * 4 + cx for cx, cy, cz in cells))
    return tuple(sorted(found))


class DropState(NamedTuple):
    """Bit column * (height + 1) + row is a stone's; rows count from below."""

    first: int = 0
    second: int = 0
    turn: int = 0


class ConnectFourDuel(SeatGame[DropState]):
    """Connect four between two seats: stones fall into columns, four in a line win.

    Args:
        width, height: of the board.
    """

    title = "Connect four"
    first_state = DropState()
    opening = (0, 6)
    level_bots = ("mixed:0.7", "mixed:0.35", "expert")

    def __init__(self, *, width: int = 7, height: int = 6) -> None:
        if not (4 <= width <= 9 and 4 <= height <= 9):
            raise ValueError(f"a board of connect four has 4 to 9 columns and rows, not {width} x {height}")
        self.width, self.height = width, height
        self.decisions = (self.width * self.height + 1) // 2

    def rules(self) -> str:
        return (
            f"Connect four on {self.width} columns of {self.height} cells. Seat 0 is X and moves first, seat 1 is O. A "
            "move is a column's letter; the stone falls onto the topmost stone there. Whoever first has four stones in "
            "a row, column or diagonal wins; a full board without them is a draw."
        )

    def won_by(self, state: DropState) -> int:
        """The seat whose last stone made four in a line, by shifted masks; -1 for none."""
        stones = state[1 - state.turn]
        for step in (1, self.height, self.height + 1, self.height + 2):
            pairs = stones & stones >> step
            if pairs & pairs >> 2 * step:
                return 1 - state.turn
        return -1

    def top(self, state: DropState, column: int) -> int:
        """The row in which a stone comes to lie; ``height`` for a full column."""
        taken = (state.first | state.second) >> column * (self.height + 1)
        row = 0
        while taken >> row & 1:
            row += 1
        return row

    def actors(self, state: DropState) -> tuple[int, ...]:
        if self.won_by(state) >= 0 or not self.legal(state, state.turn):
            return ()
        return (state.turn,)

    def legal(self, state: DropState, seat: int) -> list[str]:
        taken, tall = state.first | state.second, self.height + 1
        return [COLUMNS[at] for at in range(self.width) if not taken >> at * tall + self.height - 1 & 1]

    def apply(self, state: DropState, seat: int, move: str) -> DropState:
        column = COLUMNS.index(move)
        bit = 1 << column * (self.height + 1) + self.top(state, column)
        if seat == 0:
            return DropState(state.first | bit, state.second, 1)
        return DropState(state.first, state.second | bit, 0)

    def returns(self, state: DropState) -> tuple[float, ...]:
        winner = self.won_by(state)
        return (0.0, 0.0) if winner < 0 else (1.0, -1.0) if winner == 0 else (-1.0, 1.0)

    def show(self, view: DropState, seat: int) -> str:
        rows = []
        for row in range(self.height - 1, -1, -1):
            bits = [1 << column * (self.height + 1) + row for column in range(self.width)]
            rows.append(" ".join("X" if view.first & bit else "O" if view.second & bit else "." for bit in bits))
        return "\n".join([*rows, " ".join(COLUMNS[: self.width])])

    def expert(self, view: DropState, seat: int, rng: random.Random) -> str:
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


class WildState(NamedTuple):
    """``cells`` has X, O or . for each; ``turn`` is the seat that moves, ``last`` the one that moved before or -1."""

    cells: str = "........."
    turn: int = 0


class WildTicTacToe(SeatGame[WildState]):
    """Wild tic-tac-toe: each move sets an X or an O, and whoever completes three of a kind wins."""

    title = "Wild tic-tac-toe"
    decisions = 5  # five: nine cells, and seat 0 moves first
    first_state = WildState()
    opening = (1, 3)
    names = cell_names(3, 3)

    def rules(self) -> str:
        return (
            "Wild tic-tac-toe on 3 x 3 cells. Seats move in turn and set either mark: a move is x or o and an empty "
            "cell, such as x b2. Whoever completes three equal marks in a row, column or diagonal wins; a full board "
            "without them is a draw."
        )

    def over(self, state: WildState) -> bool:
        return any(all(state.cells[at] == sign for at in bits_of(line)) for line in lines_on(3, 3, 3) for sign in "XO")

    def actors(self, state: WildState) -> tuple[int, ...]:
        return () if "." not in state.cells or self.over(state) else (state.turn,)

    def legal(self, state: WildState, seat: int) -> list[str]:
        return [f"{sign} {name}" for at, name in enumerate(self.names) if state.cells[at] == "." for sign in "xo"]

    def apply(self, state: WildState, seat: int, move: str) -> WildState:
        sign, name = move.split()
        at = self.names.index(name)
        return WildState(state.cells[:at] + sign.upper() + state.cells[at + 1 :], 1 - seat)

    def returns(self, state: WildState) -> tuple[float, ...]:
        if not self.over(state):
            return (0.0, 0.0)
        return (1.0, -1.0) if state.turn == 1 else (-1.0, 1.0)

    def show(self, view: WildState, seat: int) -> str:
        return drawn([view.cells[at : at + 3] for at in (0, 3, 6)])

    def expert(self, view: WildState, seat: int, rng: random.Random) -> str:
        """Plays perfectly, by a search of the whole game."""
        values = {move: -wild_value(self.apply(view, seat, move).cells) for move in self.legal(view, seat)}
        best = max(values.values())
        return rng.choice([move for move, value in values.items() if value == best])


@lru_cache(maxsize=32_768)
def wild_value(cells: str) -> int:
    """What perfect play makes of a position of wild tic-tac-toe for the seat that moves: 1 won, 0 drawn, -1 lost."""
    if any(cells[a] != "." and cells[a] == cells[b] == cells[c] for a, b, c in map(bits_of, lines_on(3, 3, 3))):
        return -1
    best = -1 if "." in cells else 0
    for at, sign in enumerate(cells):
        if sign == ".":
            for new in "XO":
                best = max(best, -wild_value(cells[:at] + new + cells[at + 1 :]))
                if best == 1:
                    return best
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

    @staticmethod
    def line(signs: str, sign: str) -> bool:
        """Whether three equal signs stand in a line of nine, cells or boards."""
        return any(all(signs[at] == sign for at in bits_of(line)) for line in lines_on(3, 3, 3))

    def actors(self, state: UltimateState) -> tuple[int, ...]:
        if "." not in state.won or self.line(state.won, "XO"[1 - state.turn]):
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
        """Sets the mark, closes a board that is won or full, and names the next one."""
        board, cell = (self.names.index(name) for name in move.split())
        signs = state.boards[board][:cell] + "XO"[seat] + state.boards[board][cell + 1 :]
        won = state.won
        if self.line(signs, "XO"[seat]):
            won = won[:board] + "XO"[seat] + won[board + 1 :]
        elif "." not in signs:
            won = won[:board] + "=" + won[board + 1 :]
        boards = (*state.boards[:board], signs, *state.boards[board + 1 :])
        return UltimateState(boards, won, cell if won[cell] == "." else -1, 1 - seat)

    def returns(self, state: UltimateState) -> tuple[float, ...]:
        if self.line(state.won, "X"):
            return (1.0, -1.0)
        return (-1.0, 1.0) if self.line(state.won, "O") else (0.0, 0.0)

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
