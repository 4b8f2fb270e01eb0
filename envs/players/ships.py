"""Battleship between two seats: ships set in secret, shots in turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, cell_names, check_range, drawn, evenly


class FleetState(NamedTuple):
    """``ships`` are masks of cells for each seat, none where hidden; ``shots`` are (cell, result) for each seat."""

    ships: tuple[tuple[int, ...], ...] = ((), ())
    shots: tuple[tuple[tuple[int, str], ...], ...] = ((), ())
    turn: int = 0


class BattleshipDuel(SeatGame[FleetState]):
    """Battleship between two seats: find and sink the other's ships first.

    Ships are set by chance, so that only the shots decide.

    Args:
        size: rows and columns of each sea.
        ships: their lengths.
    """

    title = "Battleship"
    first_state = FleetState()
    perfect_information = False
    nouns = ("cell", "shot", "fire", "at")

    def __init__(self, *, size: int = 5, ships: tuple[int, ...] = (3, 2)) -> None:
        check_range("size", size, 4, 8)
        if not 1 <= len(ships) <= 4 or not all(1 <= length <= 4 for length in ships):
            raise ValueError(f"ships are 1 to 4 lengths from 1 to 4, not {ships!r}")
        self.size, self.lengths = size, tuple(ships)
        self.names = cell_names(size, size)
        self.cell_of = {name: at for at, name in enumerate(self.names)}
        self.decisions = self.size**2  # one shot for each cell

    def rules(self) -> str:
        lengths = " and ".join(map(str, self.lengths))
        return (
            f"Battleship. Each seat has ships of {lengths} cells, upright or across, in a sea of its own of "
            f"{self.size} x {self.size} cells; they may touch. Chance has set them, and each seat sees its own. The "
            "seats shoot in turn at a cell of the other's sea, such as b2, and learn whether it was water, a hit, or "
            "sank a ship. Whoever first sinks all ships wins. Seat 0 begins."
        )

    def owner(self, state: FleetState) -> int:
        """The seat whose ship is set next: seat 0 first."""
        return 0 if len(state.ships[0]) < len(self.lengths) else 1

    def actors(self, state: FleetState) -> tuple[int, ...]:
        if len(state.ships[1]) < len(self.lengths):
            return (CHANCE,)
        return () if self.sunk(state, 1 - state.turn) else (state.turn,)

    def sunk(self, state: FleetState, shooter: int) -> bool:
        """Whether a seat has sunk all ships of the other; a seat can tell it from its own shots."""
        return sum(result != "water" for _, result in state.shots[shooter]) == sum(self.lengths)

    def chance(self, state: FleetState) -> list[tuple[str, float]]:
        ships = state.ships[self.owner(state)]
        taken = sum(ships)
        return evenly([mask for mask in spots_of(self.size, self.lengths[len(ships)]) if not mask & taken])

    def witnesses(self, state: FleetState, actor: int) -> Sequence[int]:
        return (self.owner(state),) if actor == CHANCE else (0, 1)

    def legal(self, state: FleetState, seat: int) -> list[str]:
        shot = {cell for cell, _ in state.shots[seat]}
        return [name for at, name in enumerate(self.names) if at not in shot]

    def apply(self, state: FleetState, seat: int, move: str) -> FleetState:
        if seat == CHANCE:
            owner = self.owner(state)
            ships = tuple((*mine, int(move)) if at == owner else mine for at, mine in enumerate(state.ships))
            return state._replace(ships=ships)
        cell = self.cell_of[move]
        hit = next((ship for ship in state.ships[1 - seat] if ship >> cell & 1), 0)
        before = sum(1 << at for at, _ in state.shots[seat])
        result = "water" if not hit else "sunk" if hit & ~(before | 1 << cell) == 0 else "hit"
        shots = tuple((*mine, (cell, result)) if at == seat else mine for at, mine in enumerate(state.shots))
        return FleetState(state.ships, shots, 1 - seat)

    def returns(self, state: FleetState) -> tuple[float, ...]:
        return (1.0, -1.0) if state.turn == 1 else (-1.0, 1.0)

    def view(self, state: FleetState, seat: int) -> FleetState:
        """Hides the other seat's ships, also after the game."""
        return state._replace(ships=tuple(ships if at == seat else () for at, ships in enumerate(state.ships)))

    def show(self, view: FleetState, seat: int) -> str:
        signs = {"water": "~", "hit": "x", "sunk": "#"}
        theirs = {cell: signs[result] for cell, result in view.shots[seat]}
        mine = {cell: signs[result] for cell, result in view.shots[1 - seat]}
        fleet = sum(view.ships[seat])
        there = [theirs.get(at, ".") for at in range(self.size**2)]
        here = [mine.get(at, "S" if fleet >> at & 1 else ".") for at in range(self.size**2)]
        rows = range(0, self.size**2, self.size)
        return (
            "Your shots (~ water, x hit, # the shot that sank a ship):\n"
            + drawn([there[at : at + self.size] for at in rows])
            + "\nYour sea and the shots at it (S ship):\n"
            + drawn([here[at : at + self.size] for at in rows])
        )

    def expert(self, view: FleetState, seat: int, rng: random.Random) -> str:
        """The cell that most ways to set the ships left would cover; ways through open hits count more."""
        shots = dict(view.shots[seat])
        water = sum(1 << at for at, result in shots.items() if result == "water")
        hits = sum(1 << at for at, result in shots.items() if result != "water")
        weights = [0.0] * self.size**2
        for length in self.lengths:
            for mask in spots_of(self.size, length):
                if mask & water:
                    continue
                weight = 1 + 20 * (mask & hits).bit_count()
                for at in range(self.size**2):
                    if mask >> at & 1:
                        weights[at] += weight
        free = [at for at in range(self.size**2) if at not in shots]
        best = max(weights[at] for at in free)
        return self.names[rng.choice([at for at in free if weights[at] == best])]


@lru_cache(maxsize=32)
def spots_of(size: int, length: int) -> tuple[int, ...]:
    """Every way to set a ship, as a mask of cells."""
    masks = set()
    for row in range(size):
        for column in range(size):
            if column + length <= size:
                masks.add(sum(1 << row * size + column + k for k in range(length)))
            if row + length <= size:
                masks.add(sum(1 << (row + k) * size + column for k in range(length)))
    return tuple(sorted(masks))
