"""Traffic jams of few moves, made with the plan that solves them, so that the fewest moves are known without a search.

Each car that the plan moves is one that must move: upright cars between yours and the exit; and, where one of these is
three cells long and so fits nowhere but below the row of the exit, all cars that lie across its way down. The plan
moves each of them once, and yours, so that no solution is shorter. Other cars are put where the plan passes nowhere:
they add nothing to it, and take nothing from what must move.
"""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

SIZE, EXIT_ROW = 6, 2
_SPARE = 12  # cars that are tried besides those of the plan


class Placed(NamedTuple):
    """A car where it stands: across or upright, its row or column, length and first cell, and its cells as a mask."""

    across: bool
    lane: int
    length: int
    at: int
    cells: int


class Aside(NamedTuple):
    """A car that moves once out of the way: its number in ``every_car``, and all cells that it passes or stands on."""

    car: int
    swept: int


def mask(across: bool, lane: int, start: int, end: int) -> int:
    """The cells ``start`` to ``end`` - 1 of a row or column."""
    return sum(1 << (SIZE * lane + k if across else SIZE * k + lane) for k in range(start, end))


@cache
def every_car() -> list[Placed]:
    """All cars but yours: of two or three cells, in any row but that of the exit, or in any column."""
    lanes = [(True, row) for row in range(SIZE) if row != EXIT_ROW] + [(False, column) for column in range(SIZE)]
    return [
        Placed(across, lane, length, at, mask(across, lane, at, at + length))
        for across, lane in lanes
        for length in (2, 3)
        for at in range(SIZE - length + 1)
    ]


@cache
def blockers(column: int, *, long: bool) -> list[Aside]:
    """Upright cars in a column that stand in the row of the exit, each way out of it by one move; or the long alone."""
    found = []
    for number, (across, lane, length, at, _) in enumerate(every_car()):
        if across or lane != column or not at <= EXIT_ROW < at + length or (long and length == 2):
            continue
        for end in range(SIZE - length + 1):
            if not end <= EXIT_ROW < end + length:
                found.append(Aside(number, mask(False, column, min(at, end), max(at, end) + length)))
    return found


@cache
def hurdles(column: int, row: int) -> list[Aside]:
    """Cars that lie across a cell, each way off its column by one move; the cell itself does not count as swept."""
    found, cell = [], mask(True, row, column, column + 1)
    for number, (across, lane, length, at, cells) in enumerate(every_car()):
        if not across or lane != row or not cells & cell:
            continue
        for end in range(SIZE - length + 1):
            if not end <= column < end + length:
                found.append(Aside(number, mask(True, row, min(at, end), max(at, end) + length) & ~cell))
    return found


def planned(rng: random.Random, moves: int) -> tuple[int, list[int]] | None:
    """A jam that needs exactly so many moves, 2 to 4: where your car begins, and the numbers of the others.

    None where what was drawn does not fit together.
    """
    drawn = rng.randbytes(8 + _SPARE + 2 * moves)
    begin = drawn[0] & 3
    between = SIZE - 2 - begin
    most = min(between, moves - 1)
    count = 1 + (drawn[1] * most >> 8)
    across = moves - 1 - count
    columns = [*range(begin + 2, SIZE)]
    cars: list[int] = []
    passed = mask(True, EXIT_ROW, begin, SIZE)
    long: list[tuple[int, Placed]] = []
    for byte, which in zip(drawn[2 : 2 + count], drawn[8:], strict=False):
        column = columns.pop(byte * len(columns) >> 8)
        options = blockers(column, long=len(long) < across)
        car, swept = options[which * len(options) >> 8]
        if len(long) < across:
            long.append((column, every_car()[car]))
        cars.append(car)
        passed |= swept
    if across:
        ways = [
            (column, row) for column, car in long for row in range(EXIT_ROW + 1, SIZE) if row >= car.at + car.length
        ]
        if len(ways) < across:
            return None
        for byte, which in zip(drawn[-2 * across :: 2], drawn[1 - 2 * across :: 2], strict=False):
            column, row = ways.pop(byte * len(ways) >> 8)
            options = hurdles(column, row)
            car, swept = options[which * len(options) >> 8]
            if swept & passed:
                return None
            cars.append(car)
            passed |= swept
    every = every_car()
    for byte in drawn[8 + moves : 8 + moves + _SPARE].translate(_car_of()):
        cells = every[byte].cells
        if not cells & passed:
            cars.append(byte)
            passed |= cells
    cars.sort()
    return begin, cars


@cache
def _car_of() -> bytes:
    return bytes(byte * len(every_car()) >> 8 for byte in range(256))
