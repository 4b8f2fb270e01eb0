"""Games of counting: nim, dots and boxes, and mancala."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import COLUMNS, SeatGame, check_range


class NimState(NamedTuple):
    """The sizes of the heaps, and the seat that moves."""

    heaps: tuple[int, ...]
    turn: int = 0


class NimDuel(SeatGame[NimState]):
    """Nim between two seats: whoever takes the last object loses, or wins where ``misere`` is off.

    The expert plays perfectly, by Bouton's rule of 1901.

    Args:
        heaps: the sizes at the start.
        misere: whether the last object loses.
    """

    title = "Nim"
    nouns = ("heap", "pile", "objects", "object", "from")
    opening = (0, 3)

    def __init__(self, *, heaps: tuple[int, ...] = (1, 3, 5, 7), misere: bool = True) -> None:
        self.heaps, self.misere = tuple(heaps), misere
        if not 1 <= len(self.heaps) <= 9 or not all(isinstance(n, int) and 1 <= n <= 30 for n in self.heaps):
            raise ValueError(f"heaps are 1 to 9 numbers from 1 to 30, not {heaps!r}")
        self.decisions = (sum(self.heaps) + 1) // 2  # half of the objects, rounded up: a move takes one at least

    def rules(self) -> str:
        end = "loses" if self.misere else "wins"
        return (
            "Nim. The seats take turns; a move takes one or more objects from one heap. Whoever takes the last object "
            f"of all {end}. A move is a heap's letter and how many to take, such as a 1."
        )

    def start(self) -> NimState:
        return NimState(self.heaps)

    def actors(self, state: NimState) -> tuple[int, ...]:
        return (state.turn,) if any(state.heaps) else ()

    def legal(self, state: NimState, seat: int) -> list[str]:
        return [f"{COLUMNS[at]} {count}" for at, size in enumerate(state.heaps) for count in range(1, size + 1)]

    def apply(self, state: NimState, seat: int, move: str) -> NimState:
        letter, count = move.split()
        at = COLUMNS.index(letter)
        return NimState((*state.heaps[:at], state.heaps[at] - int(count), *state.heaps[at + 1 :]), 1 - seat)

    def returns(self, state: NimState) -> tuple[float, ...]:
        winner = state.turn if self.misere else 1 - state.turn
        return (1.0, -1.0) if winner == 0 else (-1.0, 1.0)

    def show(self, view: NimState, seat: int) -> str:
        return "Heaps: " + ", ".join(f"{COLUMNS[at]} {size}" for at, size in enumerate(view.heaps)) + "."

    def lost(self, heaps: tuple[int, ...]) -> bool:
        """Whether the seat that has to move loses against perfect play."""
        if self.misere and max(heaps) <= 1:
            return sum(heaps) % 2 == 1
        total = 0
        for size in heaps:
            total ^= size
        return total == 0

    def expert(self, view: NimState, seat: int, rng: random.Random) -> str:
        """Any winning move by Bouton's rule; a random one where every move loses."""
        legal = self.legal(view, seat)
        winning = [move for move in legal if self.lost(self.apply(view, seat, move).heaps)]
        return rng.choice(winning or legal)


class DotsState(NamedTuple):
    """``drawn`` is a mask of lines, ``owners`` the seat that closed each box or ``.``."""

    drawn: int
    owners: str
    turn: int = 0


class DotsAndBoxes(SeatGame[DotsState]):
    """Dots and boxes: who closes a box has it and moves again.

    Args:
        size: boxes in a row and rows of boxes.
    """

    title = "Dots and boxes"
    opening = (1, 4)

    def __init__(self, *, size: int = 2) -> None:
        check_range("size", size, 1, 5)
        self.size = size
        across = [f"h{row + 1}{column + 1}" for row in range(size + 1) for column in range(size)]
        upright = [f"v{row + 1}{column + 1}" for row in range(size) for column in range(size + 1)]
        self.names = (*across, *upright)
        self.boxes = [
            sum(
                1 << self.names.index(name)
                for name in (
                    f"h{row + 1}{column + 1}",
                    f"h{row + 2}{column + 1}",
                    f"v{row + 1}{column + 1}",
                    f"v{row + 1}{column + 2}",
                )
            )
            for row in range(size)
            for column in range(size)
        ]
        self.decisions = len(self.names)  # all lines: one seat may draw every one that closes a box

    def rules(self) -> str:
        return (
            f"Dots and boxes on {self.size + 1} x {self.size + 1} dots. A move draws a line between two neighbouring "
            "dots: h, row and column for a line across (h12 begins at the second dot of the first row), v, row and "
            "column for an upright one (v12 goes down from the second dot of the first row). Whoever draws the fourth "
            "side of a box owns it and moves again; a box shows the number of its owner's seat. Seat 0 moves first; "
            "whoever owns more boxes wins."
        )

    def start(self) -> DotsState:
        return DotsState(0, "." * self.size**2)

    def actors(self, state: DotsState) -> tuple[int, ...]:
        return (state.turn,) if "." in state.owners else ()

    def legal(self, state: DotsState, seat: int) -> list[str]:
        return [name for at, name in enumerate(self.names) if not state.drawn >> at & 1]

    def apply(self, state: DotsState, seat: int, move: str) -> DotsState:
        drawn = state.drawn | 1 << self.names.index(move)
        owners = "".join(
            str(seat) if owner == "." and drawn & box == box else owner
            for owner, box in zip(state.owners, self.boxes, strict=True)
        )
        return DotsState(drawn, owners, seat if owners != state.owners else 1 - seat)

    def returns(self, state: DotsState) -> tuple[float, ...]:
        lead = state.owners.count("0") - state.owners.count("1")
        value = float((lead > 0) - (lead < 0))
        return (value, -value)

    def show(self, view: DotsState, seat: int) -> str:
        size, lines = self.size, []
        for row in range(size + 1):
            at = row * size
            lines.append("+" + "+".join("--" if view.drawn >> at + k & 1 else "  " for k in range(size)) + "+")
            if row < size:
                base = (size + 1) * size + row * (size + 1)
                cells = []
                for column in range(size + 1):
                    cells.append("|" if view.drawn >> base + column & 1 else " ")
                    if column < size:
                        cells.append(f"{view.owners[row * size + column]} ".replace(".", " "))
                lines.append("".join(cells).rstrip())
        mine, theirs = view.owners.count(str(seat)), view.owners.count(str(1 - seat))
        return "\n".join([*lines, f"Boxes: you {mine}, the other seat {theirs}."])

    def expert(self, view: DotsState, seat: int, rng: random.Random) -> str:
        """Closes a box where it can, and draws no third side while another line is left."""
        legal = self.legal(view, seat)
        quiet = []
        for move in legal:
            drawn = view.drawn | 1 << self.names.index(move)
            sides = [(drawn & box).bit_count() for box in self.boxes]
            before = [(view.drawn & box).bit_count() for box in self.boxes]
            if any(now == 4 and then == 3 for now, then in zip(sides, before, strict=True)):
                return move
            if not any(now == 3 and then == 2 for now, then in zip(sides, before, strict=True)):
                quiet.append(move)
        return rng.choice(quiet or legal)


class MancalaState(NamedTuple):
    """Beans: [0] and [7] are the stores of seats 1 and 0, 1 to 6 seat 0's pits, 8 to 13 seat 1's."""

    beans: tuple[int, ...] = (0, 4, 4, 4, 4, 4, 4, 0, 4, 4, 4, 4, 4, 4)
    turn: int = 0


class Mancala(SeatGame[MancalaState]):
    """Mancala (kalah): sow beans, take the most into your store."""

    title = "Mancala"
    decisions = 150  # a bound for one seat: extra moves make games of any length
    first_state = MancalaState()
    opening = (0, 6)
    nouns = ("pit", "from")

    def rules(self) -> str:
        return (
            "Mancala (kalah). Each seat has six pits, 1 to 6 from its left to its right, and a store to the right of "
            "pit 6. A move is the number of one of your pits with beans in it: they are sown one by one into the pits "
            "to the right, your store, on through the other seat's pits, but not into its store, and back to your pit "
            "1. If the last bean falls into your store, you move again. Opposite your pit 1 lies the other seat's pit "
            "6, "
            "opposite 2 its 5, and so on. If the last bean falls into an empty pit of yours and the pit opposite has "
            "beans, you take both into your store. When a seat's pits are all empty the game ends, and the other "
            "seat's beans go into its own store. Whoever has more beans wins. Seat 0 moves first."
        )

    def actors(self, state: MancalaState) -> tuple[int, ...]:
        beans = state.beans
        return (state.turn,) if any(beans[1:7]) and any(beans[8:]) else ()

    def legal(self, state: MancalaState, seat: int) -> list[str]:
        first = 8 if seat else 1
        return [str(at + 1) for at in range(6) if state.beans[first + at]]

    def apply(self, state: MancalaState, seat: int, move: str) -> MancalaState:
        beans, store = list(state.beans), 0 if seat else 7
        at = int(move) + (7 if seat else 0)
        left, beans[at] = beans[at], 0
        while left:
            at = (at + 1) % 14
            if at == (7 if seat else 0):
                continue
            beans[at] += 1
            left -= 1
        is_own_pit = 8 <= at <= 13 if seat else 1 <= at <= 6
        if is_own_pit and beans[at] == 1 and beans[14 - at]:
            beans[store] += 1 + beans[14 - at]
            beans[at] = beans[14 - at] = 0
        return MancalaState(tuple(beans), seat if at == store else 1 - seat)

    def returns(self, state: MancalaState) -> tuple[float, ...]:
        lead = sum(state.beans[1:8]) - sum(state.beans[8:]) - state.beans[0]
        value = float((lead > 0) - (lead < 0))
        return (value, -value)

    def show(self, view: MancalaState, seat: int) -> str:
        sides = {0: (view.beans[1:7], view.beans[7]), 1: (view.beans[8:], view.beans[0])}
        names = {seat: "Your", 1 - seat: "The other seat's"}
        lines = [
            f"{names[who]} pits 1 to 6: {' '.join(map(str, sides[who][0]))}; store: {sides[who][1]}."
            for who in (seat, 1 - seat)
        ]
        return "\n".join(lines)

    def expert(self, view: MancalaState, seat: int, rng: random.Random) -> str:
        """Looks ahead: the best difference of the stores after two more moves."""
        ranked = [(mancala_worth(self.apply(view, seat, move), seat, 2), move) for move in self.legal(view, seat)]
        return max(ranked)[1]


_MANCALA = Mancala()


@lru_cache(maxsize=65_536)
def mancala_worth(state: MancalaState, seat: int, depth: int) -> int:
    """How far a seat's store leads when both look ``depth`` moves ahead."""
    game = _MANCALA
    if not game.actors(state):
        lead = sum(state.beans[1:8]) - sum(state.beans[8:]) - state.beans[0]
        return 100 * (lead if seat == 0 else -lead)
    if depth == 0:
        return (state.beans[7] - state.beans[0]) * (1 if seat == 0 else -1)
    values = [mancala_worth(game.apply(state, state.turn, m), seat, depth - 1) for m in game.legal(state, state.turn)]
    return max(values) if state.turn == seat else min(values)
