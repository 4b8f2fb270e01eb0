"""Traffic jams of few moves, made with the plan that solves them, so that the fewest moves are known without a search.

Each car that the plan moves is one that must move: upright cars between yours and the exit; and, where one of these is
three cells long and so fits nowhere but below the row of the exit, all cars that lie across its way down. The plan
moves each of them once, and yours, so that no solution is shorter. Other cars are put where the plan passes nowhere:
they add nothing to it, and take nothing from what must move.
"""

from __future__ import annotations

import random
from functools import cache, lru_cache
from typing import NamedTuple

SIZE, EXIT_ROW = 6, 2
LANES = [(True, row) for row in range(SIZE) if row != EXIT_ROW] + [(False, column) for column in range(SIZE)]
_SPARE = 12  # cars that are tried besides those of the plan


class Car(NamedTuple):
    """A car's row (or column, where it is not ``across``), and its length."""

    across: bool
    lane: int
    length: int


@lru_cache(maxsize=1024)
def cells_of(car: Car, first: int) -> tuple[int, ...]:
    """The cells that a car covers whose left or upper end is in this column or row."""
    across, lane, length = car
    return tuple(SIZE * lane + k if across else SIZE * k + lane for k in range(first, first + length))


@lru_cache(maxsize=1024)
def spot(car: Car, first: int) -> int:
    """The cells that a car covers, as a mask."""
    return sum(1 << cell for cell in cells_of(car, first))


@cache
def every_car() -> list[tuple[Car, int]]:
    """All cars but yours where they may stand: of two or three cells, in any lane but the row of the exit."""
    cars = [Car(across, lane, length) for across, lane in LANES for length in (2, 3)]
    return [(car, first) for car in cars for first in range(SIZE - car.length + 1)]


@cache
def ways_off(across: bool, lane: int, cell: int, least: int = 2) -> list[tuple[int, int]]:
    """Cars of a lane, of ``least`` cells or more, that cover a cell of it, with each way off that cell by one move.

    A car is its number in ``every_car``; beside it stand all cells that it passes or stands on.
    """
    return [
        (number, spot(Car(across, lane, max(first, end) + car.length - min(first, end)), min(first, end)))
        for number, (car, first) in enumerate(every_car())
        if (car.across, car.lane) == (across, lane) and first <= cell < first + car.length and car.length >= least
        for end in range(SIZE - car.length + 1)
        if not end <= cell < end + car.length
    ]


def planned(rng: random.Random, moves: int) -> tuple[int, list[int]] | None:
    """A jam that needs exactly so many moves, 2 to 4: where your car begins, and the numbers of the others.

    None where what was drawn does not fit together.
    """
    drawn = rng.randbytes(8 + _SPARE + 2 * moves)
    begin = drawn[0] & 3
    between = SIZE - 2 - begin
    largest = min(between, moves - 1)
    count = 1 + (drawn[1] * largest >> 8)
    across = moves - 1 - count
    columns = [*range(begin + 2, SIZE)]
    cars: list[int] = []
    passed = spot(Car(True, EXIT_ROW, SIZE - begin), begin)
    ways: list[tuple[int, int]] = []  # cells below the long cars that others may lie across
    for number, (byte, which) in enumerate(zip(drawn[2 : 2 + count], drawn[8:], strict=False)):
        column = columns.pop(byte * len(columns) >> 8)
        options = ways_off(False, column, EXIT_ROW, 3 if number < across else 2)
        car, swept = options[which * len(options) >> 8]
        if number < across:
            first = every_car()[car][1]
            ways += [(column, row) for row in range(EXIT_ROW + 1, SIZE) if row >= first + 3]
        cars.append(car)
        passed |= swept
    if len(ways) < across:
        return None
    for byte, which in zip(drawn[-2 * across :: 2], drawn[1 - 2 * across :: 2], strict=False) if across else ():
        column, row = ways.pop(byte * len(ways) >> 8)
        options = ways_off(True, row, column)
        car, swept = options[which * len(options) >> 8]
        swept &= ~spot(Car(True, row, 1), column)
        if swept & passed:
            return None
        cars.append(car)
        passed |= swept
    for byte in drawn[8 + moves : 8 + moves + _SPARE]:
        car = byte * len(every_car()) >> 8
        cells = spot(*every_car()[car])
        if not cells & passed:
            cars.append(car)
            passed |= cells
    return begin, sorted(cars)
