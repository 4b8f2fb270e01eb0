"""RushHour: cars in a jam, each of which moves along its own row or column. Many turns; reward 1 for getting yours out.

Jams are made backwards: yours stands at the exit and all cars are moved about at random. A move can be taken back, so
that every jam made has a solution.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rlvr.envs.games.board_game import SHORT, SearchedGame, cheapest
from rlvr.envs.games.common import COLUMNS, drawn_board

SIZE = 6
EXIT_ROW = 2
FULL = (1 << SIZE * SIZE) - 1
# For each level: other cars, those in the way, and how many of these cannot get out of the way at once.
LEVELS = ((5, 1, 1), (7, 2, 0), (8, 2, 1), (9, 2, 2), (10, 3, 1))
STEPS = 120  # of the random drive that makes a jam, at least
LONGEST_DRIVE, LOOKS = 360, 20  # at most, and how many steps lie between two looks at whether the jam is tight enough
TURNS = (20, 20, 25, 30, 30)


class Car(NamedTuple):
    """A car's row (or column, where it is not ``across``), and its length."""

    across: bool
    lane: int
    length: int


class Jam(NamedTuple):
    """``at`` is where each car begins: the column of its left end, or the row of its upper end. Car 0 is yours."""

    cars: tuple[Car, ...]
    at: tuple[int, ...]


class RushHour(SearchedGame[Jam]):
    """Free a car from a traffic jam.

    Levels 1 to 5: 6 x 6 cells, 6 to 11 cars, 1 to 3 of them in the way.

    Levels 1 and 2 are made at a thousand a CPU-second and more, 3 to 5 at some hundred: most random drives do not end
    in a jam as tight as these ask for.
    """

    move_form = "A move is a car, a direction and a number of cells, such as b down 2."
    nouns = ("car", "by", "cell", "cells")

    def turns(self, level: int) -> int:
        """From 20 to 30 moves, each of any length."""
        return TURNS[level - 1]

    def deal(self, rng: random.Random, level: int) -> Jam:
        """Drives cars about from a solved jam until enough of them block the exit and cannot leave at once."""
        count, blocking, stuck = LEVELS[level - 1]
        while True:
            for jam in random_drive(rng, arrange_cars(rng, count)):
                if jam.at[0] < 3 and len(found := blockers(jam)) >= blocking:
                    full = filled(jam)
                    if sum(not leaves(jam, full, car) for car in found) >= stuck:
                        return jam

    def guide(self, board: Jam) -> str:
        """The rules and the exit of the player's own car, a."""
        return (
            "Rush hour. Cars stand on a board of 6 x 6 cells; a letter is a car, . an empty cell. A car that lies "
            "across moves left and right, one that stands upright moves up and down, through empty cells only, any "
            f"number of them in a move. Bring your car, a, to the right edge: its right end in column "
            f"{COLUMNS[SIZE - 1]} of row {EXIT_ROW + 1}."
        )

    def show(self, board: Jam) -> str:
        signs = ["."] * (SIZE * SIZE)
        for car, (shape, at) in enumerate(zip(board.cars, board.at, strict=True)):
            for cell in range(SIZE * SIZE):
                if spot(shape, at) >> cell & 1:
                    signs[cell] = COLUMNS[car]
        return drawn_board("".join(signs[at : at + SIZE]) for at in range(0, SIZE * SIZE, SIZE))

    def named(self, move: str) -> str:
        """A move without a number is by one cell; ``l``, ``r``, ``u`` and ``d`` stand for directions."""
        parts = super().named(move).split()
        if len(parts) == 2:
            parts.append("1")
        return " ".join(SHORT.get(part, part) if position == 1 else part for position, part in enumerate(parts))

    def legal(self, board: Jam) -> list[str]:
        """Every car, direction and number of free cells."""
        return [move for move, _ in drives(board.cars, board.at)]

    def after(self, board: Jam, move: str) -> Jam:
        return Jam(board.cars, dict(drives(board.cars, board.at))[move])

    def reached(self, board: Jam) -> bool:
        """The player's car has its right end at the edge; driving out is not needed."""
        return board.at[0] == SIZE - 2

    def search(self, board: Jam) -> list[str] | None:
        """A* with one move for each blocker and one for the own car: fewest moves."""
        cars = board.cars
        return cheapest(
            board.at,
            lambda at: drives(cars, at),
            lambda at: 0 if at[0] == SIZE - 2 else 1 + len(blockers(Jam(cars, at))),
        )


@lru_cache(maxsize=1024)
def spot(car: Car, at: int) -> int:
    """The cells that a car covers, as a mask."""
    across, lane, length = car
    cells = [(lane, at + k) if across else (at + k, lane) for k in range(length)]
    return sum(1 << row * SIZE + column for row, column in cells)


def filled(jam: Jam) -> int:
    full = 0
    for car, at in zip(jam.cars, jam.at, strict=True):
        full |= spot(car, at)
    return full


def blockers(jam: Jam) -> list[int]:
    """The cars between yours and the exit."""
    row = sum(1 << EXIT_ROW * SIZE + column for column in range(jam.at[0] + 2, SIZE))
    return [car for car, (shape, at) in enumerate(zip(jam.cars, jam.at, strict=True)) if car and spot(shape, at) & row]


def leaves(jam: Jam, full: int, car: int) -> bool:
    """Whether a car can get out of the exit's row in one move."""
    shape, at = jam.cars[car], jam.at[car]
    others = full & ~spot(shape, at)
    return any(
        all(not spot(shape, position) & others for position in cells)
        for cells in (range(at - 1, EXIT_ROW - shape.length - 1, -1), range(at + 1, EXIT_ROW + 2))
        if 0 <= cells[-1] <= SIZE - shape.length
    )


def drives(cars: tuple[Car, ...], at: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every move, and where the cars stand after it."""
    full = filled(Jam(cars, at))
    for car, shape in enumerate(cars):
        here = at[car]
        others = full & ~spot(shape, here)
        for way, by in (("left", -1), ("right", 1)) if shape.across else (("up", -1), ("down", 1)):
            position = here + by
            while 0 <= position <= SIZE - shape.length and not spot(shape, position) & others:
                yield f"{COLUMNS[car]} {way} {abs(position - here)}", (*at[:car], position, *at[car + 1 :])
                position += by


@lru_cache(maxsize=1)
def stands() -> list[tuple[Car, int]]:
    """Where a car can stand, as often as it is to be drawn: upright ones and short ones more often than others."""
    found = []
    for across, lane, length in product((True, False), range(SIZE), (2, 3)):
        weight = (2 if across else 3) * (28 if length == 2 else 15)  # 0.4 across, 0.7 short, positions all alike
        if not (across and lane == EXIT_ROW):
            found += [(Car(across, lane, length), at) for at in range(SIZE - length + 1)] * weight
    return found


def arrange_cars(rng: random.Random, count: int) -> Jam:
    """Your car at the exit, and others wherever there is room, none of them across in its row."""
    cars, at = [Car(True, EXIT_ROW, 2)], [SIZE - 2]
    full = spot(cars[0], at[0])
    while True:
        for car, position in rng.choices(stands(), k=3 * count):
            cells = spot(car, position)
            if not cells & full:
                full |= cells
                cars.append(car)
                at.append(position)
                if len(cars) > count:
                    return Jam(tuple(cars), tuple(at))


def random_drive(rng: random.Random, jam: Jam) -> Iterator[Jam]:
    """Jams on a random drive of single steps, in which your car only backs away from the exit."""
    cars, at = jam.cars, list(jam.at)
    full = filled(jam)
    spots = [[spot(car, position) for position in range(SIZE - car.length + 1)] for car in cars]
    ways = [-1, *rng.choices((-1, 1), k=len(cars) - 1)]
    for step, car in enumerate(rng.choices(range(len(cars)), k=LONGEST_DRIVE), 1):
        cells, by = spots[car], ways[car]
        here, position = at[car], at[car] + by
        if 0 <= position < len(cells) and not cells[position] & full & ~cells[here]:
            full ^= cells[here] ^ cells[position]
            at[car] = position
        elif car:
            ways[car] = -by
        if step >= STEPS and step % LOOKS == 0:
            yield Jam(cars, tuple(at))
