"""Taxi: fetch passengers and bring them where they want to go, on a limited tank. Many turns; reward 1 for all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.games.board_game import WAYS, BoardGame, SearchedGame, distances, shortest
from rlvr.envs.games.common import Cell, drawn_board

# For each level: rows and columns, walls, passengers, and whether the tank must be filled on the way.
LEVELS = ((4, 2, 1, False), (5, 4, 1, False), (5, 5, 1, True), (6, 7, 2, False), (6, 8, 2, True))
SLACK = 2  # litres beyond what the planned round needs
WAITING, RIDING, ARRIVED = range(3)


class TaxiTown(NamedTuple):
    """``walls`` is a mask of cells; ``trips`` are (from, to) of each passenger, ``stage`` how far each has come."""

    size: int
    walls: int
    station: int
    trips: tuple[tuple[int, int], ...]
    tank: int
    at: int
    fuel: int
    stage: tuple[int, ...]


class Taxi(SearchedGame[TaxiTown]):
    """Bring passengers to where they want to go.

    Levels 1 to 5: 1 or 2 passengers in towns of 4 x 4 to 6 x 6 cells; levels 3 and 5 need the filling station.

    The tank is measured by a round that serves one passenger after another, so that there is always a way.

    Observation: the trips, the town, and the litres left.
    Actions: ``up``, ``down``, ``left``, ``right``, ``pick``, ``drop`` or ``fill``.
    Reward: 1 when all have arrived, else 0.
    Episode end: all have arrived, the tank is empty, or the turns are used up.
    """

    move_form = "A move is up, down, left, right, pick, drop or fill."
    verbs = ("pick", "drop", "fill")
    nouns = (*BoardGame.nouns, "passenger", "tank")
    turn_limits = (30, 45, 60, 90, 100)

    def deal(self, rng: random.Random, level: int) -> TaxiTown:
        """Draws towns in which every stop can be reached, and fuel for serving one passenger after the other."""
        size, walls, passengers, thirsty = LEVELS[level - 1]
        while True:
            cells = rng.sample(range(size * size), walls + 2 + 2 * passengers)
            mask = sum([1 << cell for cell in cells[:walls]])
            at, station, *stops = cells[walls:]
            trips = tuple(zip(stops[::2], stops[1::2], strict=True))
            near = [[there for _, there in ways] for ways in streets(size, mask)]
            far = {cell: distances([cell], near.__getitem__) for cell in (station, *stops)}
            if not all(cell in far[station] for cell in (at, *stops)):
                continue
            legs = [far[start][end] for start, end in zip(stops, (at, *stops), strict=False)]
            # The last leg is driven on a tank filled after the leg before it, where filling is called for.
            before, last = sum(legs[:-1]), legs[-1]
            fuel = before + (far[station][stops[-2]] if thirsty else last) + SLACK
            tank = max(fuel, far[station][stops[-1]] + SLACK)
            if not thirsty or fuel < before + last:
                return TaxiTown(size, mask, station, trips, tank, at, fuel, (WAITING,) * passengers)

    def guide(self, board: TaxiTown) -> str:
        trips = "; ".join(
            f"passenger {number} waits at {named_cell(board, start)} and wants to go to {named_cell(board, goal)}"
            for number, (start, goal) in enumerate(board.trips, 1)
        )
        return (
            f"Taxi. Bring everyone to where they want to go: {trips}. Each step to a neighbouring cell uses one litre. "
            "Pick takes in a passenger who waits where you are, drop lets the passenger out at the right place; there "
            f"is one seat. At the filling station F, fill makes the tank full ({board.tank} litres). The game is lost "
            "when the tank is empty and no fill, pick or drop where you are can help.\n# wall, T taxi, F filling "
            "station, . street; numbers are passengers who wait, small letters p, q where passengers 1, 2 want to go."
        )

    def show(self, board: TaxiTown) -> str:
        signs = ["#" if board.walls >> cell & 1 else "." for cell in range(board.size**2)]
        signs[board.station] = "F"
        for number, ((start, goal), stage) in enumerate(zip(board.trips, board.stage, strict=True)):
            if stage != ARRIVED:
                signs[goal] = "pq"[number]
            if stage == WAITING:
                signs[start] = str(number + 1)
        signs[board.at] = "T"
        rows = drawn_board("".join(signs[at : at + board.size]) for at in range(0, len(signs), board.size))
        riding = [f"passenger {number}" for number, stage in enumerate(board.stage, 1) if stage == RIDING]
        return (
            f"{rows}\nTaxi at {named_cell(board, board.at)}, filling station at {named_cell(board, board.station)}. "
            f"Fuel: {board.fuel} of {board.tank} litres. In the taxi: {riding[0] if riding else 'nobody'}."
        )

    def named(self, move: str) -> str:
        return super().named(move).removesuffix(" up").removesuffix(" off")

    def legal(self, board: TaxiTown) -> list[str]:
        """Streets while there is fuel, ``pick``, ``drop`` and ``fill`` where they apply; ``drop`` only at the right
        place.
        """
        return [move for move, _ in drives(board)]

    def after(self, board: TaxiTown, move: str) -> TaxiTown:
        return dict(drives(board))[move]

    def reached(self, board: TaxiTown) -> bool:
        return all(stage == ARRIVED for stage in board.stage)

    def failed(self, board: TaxiTown) -> str:
        return "" if self.reached(board) or self.legal(board) else "the tank is empty"

    def search(self, board: TaxiTown) -> list[str] | None:
        """Breadth first over place, fuel and passengers, so with the fewest moves."""
        return shortest(board, drives, self.reached)


def named_cell(board: TaxiTown, cell: int) -> Cell:
    return Cell(*divmod(cell, board.size))


@lru_cache(maxsize=64)
def streets(size: int, walls: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    """The ways on from each cell, and where they lead."""
    ways_by_cell = []
    for cell in range(size * size):
        row, column = divmod(cell, size)
        ways = [(way, row + dy, column + dx) for way, (dy, dx) in WAYS.items()]
        ways_by_cell.append(
            tuple(
                (way, y * size + x)
                for way, y, x in ways
                if 0 <= y < size and 0 <= x < size and not walls >> y * size + x & 1
            )
        )
    return tuple(ways_by_cell)


def drives(board: TaxiTown) -> Iterator[tuple[str, TaxiTown]]:
    """Every move, and the town after it."""
    at, stage = board.at, board.stage
    if board.fuel:
        for way, then in streets(board.size, board.walls)[at]:
            yield way, board._replace(at=then, fuel=board.fuel - 1)
    for number, (start, goal) in enumerate(board.trips):
        if stage[number] == WAITING and start == at and RIDING not in stage:
            yield "pick", board._replace(stage=(*stage[:number], RIDING, *stage[number + 1 :]))
        elif stage[number] == RIDING and goal == at:
            yield "drop", board._replace(stage=(*stage[:number], ARRIVED, *stage[number + 1 :]))
    if at == board.station and board.fuel < board.tank:
        yield "fill", board._replace(fuel=board.tank)
