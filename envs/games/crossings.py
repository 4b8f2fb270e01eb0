"""Puzzles of state and transition. Many turns; reward 1 for reaching the goal.

WaterJugs: measure an amount by filling, emptying and pouring. RiverCrossing: bring all across a river in a small boat,
leaving none together that must not be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from rlvr.envs.games.boards import SearchedGame, shortest
from rlvr.envs.games.common import COLUMNS

# For each level: jugs, the largest, whether there is a tap and a drain, and the fewest and most moves of a solution.
JUG_LEVELS = (
    (2, 9, True, 4, 6),
    (2, 13, True, 6, 10),
    (3, 11, True, 4, 8),
    (3, 16, False, 5, 9),
    (3, 24, False, 8, 14),
)


class Jugs(NamedTuple):
    """How much each jug holds and how much is in it; ``tap`` says whether there is more water."""

    sizes: tuple[int, ...]
    amounts: tuple[int, ...]
    target: int
    tap: bool


class WaterJugs(SearchedGame[Jugs]):
    """Measure out water with jugs without marks.

    Levels 1 to 5: 2 or 3 jugs of up to 24 litres, 4 to 14 moves; without a tap on levels 4 and 5.
    """

    move_form = "A move is fill a, empty a or pour a b (from a into b)."

    def turns(self, level: int) -> int:
        return 3 * JUG_LEVELS[level - 1][4]

    def deal(self, rng: random.Random, level: int) -> Jugs:
        count, largest, tap, fewest, most = JUG_LEVELS[level - 1]
        while True:
            sizes = tuple(sorted(rng.sample(range(2, largest + 1), count), reverse=True))
            targets = [target for target, moves in measures(sizes, tap).items() if fewest <= moves <= most]
            if targets:
                return Jugs(sizes, first_amounts(sizes, tap), rng.choice(targets), tap)

    def space(self, level: int) -> list[str] | None:
        count, largest, tap, fewest, most = JUG_LEVELS[level - 1]
        if count > 2:
            return None
        return [
            self.identity(Jugs(sizes, first_amounts(sizes, tap), target, tap))
            for sizes in combinations(range(largest, 1, -1), count)
            for target, moves in measures(sizes, tap).items()
            if fewest <= moves <= most
        ]

    def guide(self, board: Jugs) -> str:
        if board.tap:
            ways = "You may fill a jug to the brim from the tap, empty a jug into the drain, and pour one into another"
        else:
            ways = "There is no tap and no drain: you may only pour one jug into another"
        move = "" if board.tap else " (Here only pour a b is possible.)"
        return (
            f"Water jugs without marks. {ways}, until the first is empty or the second full.{move} Have exactly "
            f"{board.target} litres in any one jug."
        )

    def show(self, board: Jugs) -> str:
        jugs = zip(COLUMNS, board.amounts, board.sizes, strict=False)
        return "\n".join(f"{name}: {amount} of {size} litres" for name, amount, size in jugs)

    def identity(self, board: Jugs) -> str:
        return f"{board.amounts} of {board.sizes} for {board.target}{', tap' * board.tap}"

    def named(self, move: str) -> str:
        return " ".join(part for part in super().named(move).split() if part not in ("from", "to", "into", "jug"))

    def legal(self, board: Jugs) -> list[str]:
        return [move for move, _ in pourings(board.sizes, board.tap, board.amounts)]

    def after(self, board: Jugs, move: str) -> Jugs:
        return board._replace(amounts=dict(pourings(board.sizes, board.tap, board.amounts))[move])

    def reached(self, board: Jugs) -> bool:
        return board.target in board.amounts

    def search(self, board: Jugs) -> list[str] | None:
        sizes, amounts, target, tap = board
        return shortest(amounts, lambda now: pourings(sizes, tap, now), lambda now: target in now)


def first_amounts(sizes: tuple[int, ...], tap: bool) -> tuple[int, ...]:
    """All empty where there is a tap, else the largest full."""
    return (0,) * len(sizes) if tap else (sizes[0], *[0] * (len(sizes) - 1))


def pourings(sizes: tuple[int, ...], tap: bool, amounts: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every move that changes something, and the amounts after it."""
    for jug, (amount, size) in enumerate(zip(amounts, sizes, strict=True)):
        name = COLUMNS[jug]
        if tap and amount < size:
            yield f"fill {name}", (*amounts[:jug], size, *amounts[jug + 1 :])
        if tap and amount:
            yield f"empty {name}", (*amounts[:jug], 0, *amounts[jug + 1 :])
        for other in range(len(sizes)):
            poured = min(amount, sizes[other] - amounts[other])
            if other != jug and poured:
                after = list(amounts)
                after[jug] -= poured
                after[other] += poured
                yield f"pour {name} {COLUMNS[other]}", tuple(after)


@lru_cache(maxsize=4096)
def measures(sizes: tuple[int, ...], tap: bool) -> dict[int, int]:
    """The fewest moves to each amount that can be measured."""
    start = first_amounts(sizes, tap)
    far = {start: 0}
    found: dict[int, int] = {}
    queue = [start]
    for amounts in queue:
        for amount in amounts:
            found.setdefault(amount, far[amounts])
        for _, after in pourings(sizes, tap, amounts):
            if after not in far:
                far[after] = far[amounts] + 1
                queue.append(after)
    return found


# For each level: passengers, and pairs that must not be left together.
RIVER_LEVELS = ((3, 2), (4, 3), (5, 4), (6, 6), (7, 8))
RIVER_TURNS = (14, 14, 16, 18, 20)
NAMES = (
    "bear", "cabbage", "cat", "cheese", "corn", "dog", "donkey", "duck", "fox", "frog", "goat", "goose", "hare", "hawk",
    "hen", "lamb", "lion", "lynx", "mouse", "owl", "pig", "pike", "snake", "spider", "wolf", "worm",
)  # fmt: skip


class River(NamedTuple):
    """``here`` is a mask of the passengers on the near bank, ``near`` whether the boat is there.

    ``quarrels`` are the pairs that must not be left together, by number, and ``room`` what the boat takes beside you.
    """

    names: tuple[str, ...]
    quarrels: tuple[tuple[int, int], ...]
    room: int
    here: int
    near: bool = True


class RiverCrossing(SearchedGame[River]):
    """Row passengers who quarrel across a river.

    Levels 1 to 5: 3 to 7 passengers and 2 to 8 pairs that quarrel; the boat is as small as can be.

    A boat with room for the smallest set of passengers that has a part in every quarrel, or for one more, is enough
    (Csorba, Hurkens and Woeginger, "The Alcuin number of a graph", 2008). Which of the two is found by search, so that
    level 5 is made at some hundred a CPU-second.
    """

    move_form = "A move names all that you take across, such as fox hen, or is alone."

    def turns(self, level: int) -> int:
        return RIVER_TURNS[level - 1]

    def deal(self, rng: random.Random, level: int) -> River:
        count, pairs = RIVER_LEVELS[level - 1]
        names = tuple(sorted(rng.sample(NAMES, count)))
        quarrels = tuple(sorted(rng.sample(list(combinations(range(count), 2)), pairs)))
        return River(names, quarrels, smallest_boat(count, quarrels), (1 << count) - 1)

    def guide(self, board: River) -> str:
        pairs = "; ".join(f"{board.names[one]} and {board.names[other]}" for one, other in board.quarrels)
        return (
            f"River crossing. Bring all from the near to the far bank: {', '.join(board.names)}. You row the boat, "
            f"which takes you and up to {board.room} of them. These must never be on a bank together without "
            f"you: {pairs}. A move is one crossing, to the other bank."
        )

    def show(self, board: River) -> str:
        banks = [
            [name for number, name in enumerate(board.names) if (board.here >> number & 1) == side] for side in (1, 0)
        ]
        near, far = (", ".join(bank) or "nobody" for bank in banks)
        return (
            f"Near bank: {near}\nFar bank: {far}\nYou and the boat are at the {'near' if board.near else 'far'} bank."
        )

    def identity(self, board: River) -> str:
        pairs = "; ".join(f"{board.names[one]} {board.names[other]}" for one, other in board.quarrels)
        return f"{', '.join(board.names)}: {pairs}"

    def named(self, move: str) -> str:
        return " ".join(sorted(word for word in super().named(move).split() if word not in ("and", "the")))

    def legal(self, board: River) -> list[str]:
        return [self.said(board, cargo) for cargo in cargoes(board)]

    def said(self, board: River, cargo: int) -> str:
        return " ".join(name for number, name in enumerate(board.names) if cargo >> number & 1) or "alone"

    def after(self, board: River, move: str) -> River:
        cargo = sum(1 << board.names.index(name) for name in move.split() if name != "alone")
        return board._replace(here=board.here ^ cargo, near=not board.near)

    def reached(self, board: River) -> bool:
        return board.here == 0

    def search(self, board: River) -> list[str] | None:
        return crossing(board)


def quiet(quarrels: tuple[tuple[int, int], ...], bank: int) -> bool:
    return not any(bank >> one & bank >> other & 1 for one, other in quarrels)


def cargoes(board: River) -> Iterator[int]:
    """What the boat may take, so that those left behind do not quarrel; fewest first."""
    everyone = (1 << len(board.names)) - 1
    bank = board.here if board.near else everyone & ~board.here
    there = [1 << number for number in range(len(board.names)) if bank >> number & 1]
    for count in range(min(board.room, len(there)) + 1):
        for some in combinations(there, count):
            if quiet(board.quarrels, bank & ~sum(some)):
                yield sum(some)


def crossing(board: River) -> list[str] | None:
    """The fewest crossings; None where the boat is too small."""

    def neighbours(node: tuple[int, bool]) -> Iterator[tuple[str, tuple[int, bool]]]:
        for cargo in cargoes(board._replace(here=node[0], near=node[1])):
            names = " ".join(name for number, name in enumerate(board.names) if cargo >> number & 1)
            yield names or "alone", (node[0] ^ cargo, not node[1])

    return shortest((board.here, board.near), neighbours, lambda node: node[0] == 0)


@lru_cache(maxsize=65_536)
def smallest_boat(count: int, quarrels: tuple[tuple[int, int], ...]) -> int:
    everyone = (1 << count) - 1
    cover = min(mask.bit_count() for mask in range(everyone + 1) if quiet(quarrels, everyone & ~mask))
    names = tuple(map(str, range(count)))
    return cover if crossing(River(names, quarrels, cover, everyone)) is not None else cover + 1
