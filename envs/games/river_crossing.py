"""RiverCrossing: bring all across a river in a small boat, leaving none together that must not be.

Many turns; reward 1 for reaching the goal.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from rlvr.envs.games.board_game import BoardState, SearchedGame, shortest

# For each level: passengers, pairs that must not be left together, and the fewest crossings of a solution.
RIVER_LEVELS = ((3, 2, 7), (5, 5, 7), (5, 4, 7), (6, 5, 7), (7, 4, 7))
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

    Levels 1 to 5: 3 to 7 passengers and 2 to 5 pairs that quarrel, 7 crossings or more; the boat is as small as can be.

    A boat with room for the smallest set of passengers that has a part in every quarrel, or for one more, is enough
    (Csorba, Hurkens and Woeginger, "The Alcuin number of a graph", 2008). Which of the two is found by search, so that
    level 5 is made at some hundred a CPU-second.

    Observation: who quarrels with whom, both banks, and where the boat is.
    Actions: all that cross, such as ``fox hen``, or ``alone``.
    Reward: 1 when all are across, else 0.
    Episode end: all are across, or the turns are used up.
    """

    move_form = "A move names all that you take across, such as fox hen, or is alone."
    nouns = ("cross", "across", "take", "bring", "over")
    turn_limits = (14, 14, 14, 16, 16)

    def deal(self, rng: random.Random, level: int) -> River:
        """Draws quarrels until the smallest boat that suffices needs enough crossings."""
        count, pairs, fewest = RIVER_LEVELS[level - 1]
        names = tuple(sorted(rng.sample(NAMES, count)))
        while True:
            quarrels = tuple(sorted(rng.sample(list(combinations(range(count), 2)), pairs)))
            board, moves = with_smallest_boat(names, quarrels)
            if len(moves) >= fewest:
                return board

    def difficulty(self, state: BoardState) -> float:
        """Arrangements that a search may come to."""
        boards, left = {state.board}, [state.board]
        while left:
            board = left.pop()
            new = {board._replace(here=board.here ^ cargo, near=not board.near) for cargo in cargoes(board)} - boards
            boards |= new
            left += new
        return float(len(boards))

    def guide(self, board: River) -> str:
        room = "one" if board.room == 1 else f"up to {board.room}"
        pairs = "; ".join(f"{board.names[first]} and {board.names[second]}" for first, second in board.quarrels)
        return (
            f"River crossing. Bring all from the near to the far bank: {', '.join(board.names)}. You row the boat, "
            f"which takes you and {room} of them. These must never be on a bank together without "
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
        pairs = "; ".join(f"{board.names[first]} {board.names[second]}" for first, second in board.quarrels)
        return f"{', '.join(board.names)}: {pairs}"

    def named(self, move: str) -> str:
        return " ".join(sorted(word for word in super().named(move).split() if word not in ("and", "the")))

    def legal(self, board: River) -> list[str]:
        return [crossing_text(board, cargo) for cargo in cargoes(board)]

    def after(self, board: River, move: str) -> River:
        cargo = sum(1 << board.names.index(name) for name in move.split() if name != "alone")
        return board._replace(here=board.here ^ cargo, near=not board.near)

    def reached(self, board: River) -> bool:
        return board.here == 0

    def search(self, board: River) -> list[str] | None:
        """Breadth first over banks, so with the fewest crossings."""
        return crossing(board)


def crossing_text(board: River, cargo: int) -> str:
    """A crossing in words: who sits in the boat, or "alone"."""
    return " ".join(name for number, name in enumerate(board.names) if cargo >> number & 1) or "alone"


@lru_cache(maxsize=1_024)
def quiet(count: int, quarrels: tuple[tuple[int, int], ...]) -> list[bool]:
    """For each set of passengers whether it may be left alone."""
    pairs = [1 << first | 1 << second for first, second in quarrels]
    return [all(bank & pair != pair for pair in pairs) for bank in range(1 << count)]


def cargoes(board: River) -> Iterator[int]:
    """What the boat may take, so that those left behind do not quarrel; fewest first."""
    everyone = (1 << len(board.names)) - 1
    bank = board.here if board.near else everyone & ~board.here
    there = [1 << number for number in range(len(board.names)) if bank >> number & 1]
    alone = quiet(len(board.names), board.quarrels)
    for count in range(min(board.room, len(there)) + 1):
        for some in combinations(there, count):
            if alone[bank ^ (cargo := sum(some))]:
                yield cargo


def crossing(board: River) -> list[str] | None:
    """The fewest crossings; None where the boat is too small."""

    def neighbours(node: tuple[int, bool]) -> Iterator[tuple[str, tuple[int, bool]]]:
        for cargo in cargoes(board._replace(here=node[0], near=node[1])):
            yield str(cargo), (node[0] ^ cargo, not node[1])

    moves = shortest((board.here, board.near), neighbours, lambda node: node[0] == 0)
    return None if moves is None else [crossing_text(board, int(cargo)) for cargo in moves]


@lru_cache(maxsize=65_536)
def with_smallest_boat(names: tuple[str, ...], quarrels: tuple[tuple[int, int], ...]) -> tuple[River, list[str]]:
    """The start with the smallest boat that suffices, and the fewest crossings of it."""
    count = len(names)
    cover = count - max(bank.bit_count() for bank, alone in enumerate(quiet(count, quarrels)) if alone)
    board = River(names, quarrels, cover, (1 << count) - 1)
    moves = crossing(board)
    if moves is None:
        board = board._replace(room=cover + 1)
        moves = crossing(board)
    return board, moves or []
