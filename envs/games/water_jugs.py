"""WaterJugs: measure an amount by filling, emptying and pouring. Many turns; reward 1 for reaching the goal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from rlvr.envs.games.board_game import SearchedGame, distances, shortest
from rlvr.envs.games.common import COLUMNS
from rlvr.envs.tasks.wording import counted

# For each level: jugs, the largest, whether there is a tap and a drain, and the fewest and most moves of a solution.
JUG_LEVELS = (
    (2, 9, True, 4, 6),
    (3, 11, True, 5, 8),
    (3, 16, False, 6, 9),
    (2, 13, True, 7, 10),
    (3, 24, False, 9, 14),
)


class Jugs(NamedTuple):
    """How much each jug holds and how much is in it; ``tap`` says whether there is more water."""

    sizes: tuple[int, ...]
    amounts: tuple[int, ...]
    target: int
    tap: bool


class WaterJugs(SearchedGame[Jugs]):
    """Measure out water with jugs without marks.

    Levels 1 to 5: 2 or 3 jugs of up to 24 litres, 4 to 14 moves; without a tap on levels 3 and 5.

    Observation: the amount to measure, and what each jug holds.
    Actions: ``fill a``, ``empty a`` or ``pour a b``.
    Reward: 1 for the amount in any jug, else 0.
    Episode end: the amount is measured, or the turns are used up.
    """

    move_form = "A move is fill a, empty a or pour a b (from a into b)."
    verbs = ("fill", "empty", "pour")
    nouns = ("jug", "jar")
    turn_limits = tuple(3 * longest for *_, longest in JUG_LEVELS)

    def deal(self, rng: random.Random, level: int) -> Jugs:
        """Draws jugs until some amount takes as many moves as the level asks for."""
        count, largest, tap, fewest, longest = JUG_LEVELS[level - 1]
        while True:
            sizes = tuple(sorted(rng.sample(range(2, largest + 1), count), reverse=True))
            targets = [target for target, moves in measures(sizes, tap).items() if fewest <= moves <= longest]
            if targets:
                return Jugs(sizes, first_amounts(sizes, tap), rng.choice(targets), tap)

    def enumerate_contents(self, level: int) -> list[str] | None:
        """All tasks of the levels with two jugs."""
        count, largest, tap, fewest, longest = JUG_LEVELS[level - 1]
        if count > 2:
            return None
        return [
            self.identity(Jugs(sizes, first_amounts(sizes, tap), target, tap))
            for sizes in combinations(range(largest, 1, -1), count)
            for target, moves in measures(sizes, tap).items()
            if fewest <= moves <= longest
        ]

    def guide(self, board: Jugs) -> str:
        if board.tap:
            ways = "You may fill a jug to the brim from the tap, empty a jug into the drain, and pour one into another"
        else:
            ways = "There is no tap and no drain: you may only pour one jug into another"
        return (
            f"Water jugs without marks. {ways}, until the first is empty or the second full. Have exactly "
            f"{counted(board.target, 'litre')} in any one jug."
        )

    def form(self, board: Jugs) -> str:
        """Without a tap only pouring is a move."""
        return self.move_form if board.tap else "A move is pour a b (from a into b)."

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
        """Breadth first over amounts, so with the fewest moves."""
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
    far = distances([first_amounts(sizes, tap)], lambda now: (after for _, after in pourings(sizes, tap, now)))
    fewest_moves: dict[int, int] = {}
    for amounts, count in far.items():
        for amount in amounts:
            fewest_moves.setdefault(amount, count)
    return fewest_moves
