"""RushHour: cars in a jam, each of which moves along its own row or column. Many turns; reward 1 for getting yours out.

Up to four moves, a jam is made with the plan that solves it, which shows that no solution is shorter. For more, cars
are drawn, and all their arrangements are searched at once, breadth first from those with yours at the exit. A move can
be taken back, so that this gives the fewest moves that solve each; a task is one of as many as its level asks for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

from rlvr.envs.games.board_game import SHORT, SearchedGame, cheapest
from rlvr.envs.games.common import COLUMNS, drawn_board
from rlvr.envs.games.rush_hour_plans import EXIT_ROW, LANES, SIZE, Car, cells_of, every_car, planned, spot

# For each level the fewest and the most moves of a shortest solution, the most arrangements to search (0: it is not
# searched but planned), and the turns.
LEVELS = ((2, 3, 0, 8), (4, 4, 0, 12), (5, 5, 40_000, 15), (6, 7, 50_000, 20), (8, 50, 50_000, 40))
# The lengths of the cars of one row or column, from its beginning, and how many of 256 have them.
PATTERNS = (((), 70), ((2,), 56), ((3,), 112), ((2, 2), 6), ((2, 3), 6), ((3, 2), 6))


class Jam(NamedTuple):
    """``at`` is where each car begins: the column of its left end, or the row of its upper end. Car 0 is yours."""

    cars: tuple[Car, ...]
    at: tuple[int, ...]


class RushHour(SearchedGame[Jam]):
    """Free a car from a traffic jam.

    Levels 1 to 5: 6 x 6 cells; a shortest solution has 2 or 3, 4, 5, 6 or 7, and 8 or more moves.

    Levels 1 and 2 are made at some ten thousand a CPU-second, level 5 at some hundred: few cars drawn have a jam of so
    many moves.

    Observation: the board, a letter for each car; yours is ``a``.
    Actions: a car, a direction and a number of cells, such as ``b down 2``.
    Reward: 1 when your car is at the exit, else 0.
    Episode end: your car is at the exit, or the turns are used up.
    """

    move_form = "A move is a car, a direction and a number of cells, such as b down 2."
    nouns = ("car", "by", "cell", "cells")
    turn_limits = tuple(turns for *_, turns in LEVELS)

    def deal(self, rng: random.Random, level: int) -> Jam:
        """Draws cars until they have an arrangement of as many moves as the level asks for, and draws one of these."""
        fewest, longest, limit, _ = LEVELS[level - 1]
        while not limit:
            if plan := planned(rng, fewest + rng.getrandbits(1) if longest > fewest else fewest):
                cars, at = zip(
                    (Car(True, EXIT_ROW, 2), plan[0]), *[every_car()[number] for number in plan[1]], strict=True
                )
                return Jam(cars, at)
        while True:
            crowd = draw_crowd(rng, limit)
            layers = crowd.layers(longest)
            if len(layers) > fewest:
                return crowd.jam(random_bit(rng, layers[rng.randrange(fewest, len(layers))]))

    def identity(self, board: Jam) -> str:
        """Which cars stand where; their letters make no other jam."""
        numbers = numbers_of_cars()
        others = sorted(numbers[placed] for placed in zip(board.cars[1:], board.at[1:], strict=True))
        return f"{board.at[0]} {bytes(others).hex()}"

    def guide(self, board: Jam) -> str:
        return (
            "Rush hour. Cars stand on a board of 6 x 6 cells; a letter is a car, . an empty cell. A car that lies "
            "across moves left and right, one that stands upright moves up and down, through empty cells only, any "
            f"number of them in a move. Bring your car, a, to the right edge: its right end in column "
            f"{COLUMNS[SIZE - 1]} of row {EXIT_ROW + 1}."
        )

    def show(self, board: Jam) -> str:
        signs = ["."] * (SIZE * SIZE)
        for sign, car, first in zip(COLUMNS, board.cars, board.at, strict=False):
            for cell in cells_of(car, first):
                signs[cell] = sign
        return drawn_board("".join(signs[start : start + SIZE]) for start in range(0, SIZE * SIZE, SIZE))

    def named(self, move: str) -> str:
        parts = super().named(move).split()
        if len(parts) == 2:
            parts.append("1")
        return " ".join(SHORT.get(part, part) if position == 1 else part for position, part in enumerate(parts))

    def legal(self, board: Jam) -> list[str]:
        return [move for move, _ in drives(board.cars, board.at)]

    def after(self, board: Jam, move: str) -> Jam:
        return Jam(board.cars, dict(drives(board.cars, board.at))[move])

    def reached(self, board: Jam) -> bool:
        return board.at[0] == SIZE - 2

    def search(self, board: Jam) -> list[str] | None:
        """A* with one move for each blocker and one for the own car: fewest moves."""
        cars = board.cars
        return cheapest(
            board.at,
            lambda at: drives(cars, at),
            lambda at: 0 if at[0] == SIZE - 2 else 1 + len(blockers(Jam(cars, at))),
        )


@cache
def numbers_of_cars() -> dict[tuple[Car, int], int]:
    """The number of each car where it stands."""
    return {placed: number for number, placed in enumerate(every_car())}


def filled(jam: Jam) -> int:
    full = 0
    for car, at in zip(jam.cars, jam.at, strict=True):
        full |= spot(car, at)
    return full


def blockers(jam: Jam) -> list[int]:
    """The cars between yours and the exit."""
    row = sum(1 << EXIT_ROW * SIZE + column for column in range(jam.at[0] + 2, SIZE))
    return [car for car, (shape, at) in enumerate(zip(jam.cars, jam.at, strict=True)) if car and spot(shape, at) & row]


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


class CarCrowd(NamedTuple):
    """Cars, and the arrangements in which no two of a row or column have changed their order.

    An arrangement is a number: for each car how far it is from the least of its positions, times its stride, which is
    the product of the counts of positions of the cars before it. A set of arrangements is a number with a bit for each.
    """

    cars: tuple[Car, ...]
    least: tuple[int, ...]
    counts: tuple[int, ...]

    def jam(self, arrangement: int) -> Jam:
        """The jam of an arrangement."""
        at = []
        for least, count in zip(self.least, self.counts, strict=True):
            arrangement, offset = divmod(arrangement, count)
            at.append(least + offset)
        return Jam(self.cars, tuple(at))

    def layers(self, longest: int) -> list[int]:
        """The sets of arrangements that are 0, 1, 2, ... moves from the exit, up to ``most``."""
        strides, firsts = self.firsts()
        legal = self.legal()
        reached = frontier = legal & firsts[0] << strides[0] * (self.counts[0] - 1)
        if not frontier:
            return []
        steps = []
        for stride, count, first in zip(strides, self.counts, firsts, strict=True):
            # A step onwards ends at no first position, one back at no last: so none leads over the edge.
            last = first << stride * (count - 1)
            steps.append((stride, legal ^ legal & first, legal ^ legal & last))
        layers = [frontier]
        while len(layers) <= longest:
            # What lies behind an arrangement that was met is met as well, or begins there: a drive may end before it.
            after, unmet = 0, legal ^ reached
            for stride, onwards, back in steps:
                moved = frontier << stride & onwards & unmet
                while moved:
                    after |= moved
                    moved = moved << stride & onwards & unmet
                moved = frontier >> stride & back & unmet
                while moved:
                    after |= moved
                    moved = moved >> stride & back & unmet
            if not after:
                break
            layers.append(after)
            frontier = after
            reached |= after
        return layers

    def firsts(self) -> tuple[list[int], list[int]]:
        """The stride of each car, and the set of all arrangements in which it is at its first position."""
        strides: list[int] = []
        firsts: list[int] = []
        size = 1
        for count in self.counts:
            strides.append(size)
            shifts = range(0, size * count, size)
            firsts = [copied(first, shifts) for first in firsts]
            firsts.append((1 << size) - 1)
            size *= count
        return strides, firsts

    def legal(self) -> int:
        arrangements, size = 1, 1
        covered: dict[int, int] = {}  # for each cell that a later car may cover, where the cars before cover it
        needed = later_cells(tuple([(across, lane) for across, lane, _ in self.cars]))
        for car, least, count, later in zip(self.cars, self.least, self.counts, needed, strict=True):
            every, shifts, before = (1 << size) - 1, range(0, size * count, size), arrangements
            new: dict[int, int] = {}
            arrangements = 0
            for at, shift in enumerate(shifts, least):
                taken = 0
                for cell in cells_of(car, at):
                    if cell in covered:
                        taken |= covered[cell]
                    if cell in later:
                        new[cell] = new.get(cell, 0) | every << shift
                arrangements |= (before ^ before & taken) << shift
            for cell, here in covered.items():
                if cell in later:
                    new[cell] = new.get(cell, 0) | copied(here, shifts)
            covered = new
            size *= count
        return arrangements


def copied(members: int, shifts: range) -> int:
    """A set, moved by each of the shifts; the first is 0."""
    union = members
    for shift in shifts[1:]:
        union |= members << shift
    return union


@lru_cache(maxsize=4096)
def later_cells(lanes: tuple[tuple[bool, int], ...]) -> list[frozenset[int]]:
    """For each car the cells of the rows and columns of the cars after it."""
    cells = [frozenset(SIZE * lane + k if across else SIZE * k + lane for k in range(SIZE)) for across, lane in lanes]
    return [frozenset().union(*cells[number:]) for number in range(1, len(cells) + 1)]


@cache
def lane_patterns() -> list[tuple[tuple[int, ...], int]]:
    """For each byte the lengths of the cars of a lane, and how many positions each of them has."""
    return [(lengths, SIZE - sum(lengths) + 1) for lengths, weight in PATTERNS for _ in range(weight)]


@cache
def lane_sizes() -> list[int]:
    """For each byte how many arrangements the cars of a lane have, in one order."""
    return [count ** len(lengths) for lengths, count in lane_patterns()]


def draw_crowd(rng: random.Random, limit: int) -> CarCrowd:
    """Your car, and others in the rows and columns but for yours, with at most ``limit`` arrangements."""
    patterns, ways, largest = lane_patterns(), lane_sizes(), limit // (SIZE - 1)
    while prod(map(ways.__getitem__, chosen := rng.randbytes(len(LANES)))) > largest:
        pass
    drawn = [patterns[byte] for byte in chosen]
    cars, least, counts = [Car(True, EXIT_ROW, 2)], [0], [SIZE - 1]
    for (across, lane), (lengths, count) in zip(LANES, drawn, strict=True):
        before = 0
        for length in lengths:
            cars.append(Car(across, lane, length))
            least.append(before)
            counts.append(count)
            before += length
    return CarCrowd(tuple(cars), tuple(least), tuple(counts))


def random_bit(rng: random.Random, members: int) -> int:
    """A member of a set, each as likely as another: the half that holds it is looked for again and again."""
    rank, start, width = rng.randrange(members.bit_count()), 0, members.bit_length()
    while width > 1:
        half = width // 2
        low = members & (1 << half) - 1
        count = low.bit_count()
        if rank < count:
            members, width = low, half
        else:
            members, rank, start, width = members >> half, rank - count, start + half, width - half
    return start
