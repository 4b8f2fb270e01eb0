"""HanoiGame: move discs on pegs from one arrangement to another. Many turns; reward 1 for reaching the goal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from rlvr.envs.games.board_game import BoardGame, BoardState, distances
from rlvr.envs.games.common import COLUMNS

# For each level: discs, pegs, and whether a disc may only go to the next peg.
TOWERS = ((3, 3, False), (4, 3, False), (5, 3, False), (4, 3, True), (6, 3, False))


class Tower(NamedTuple):
    """``at`` and ``goal`` hold the peg of each disc, smallest first; pegs count from 0."""

    pegs: int
    stepwise: bool
    at: tuple[int, ...]
    goal: tuple[int, ...]


class HanoiGame(BoardGame[Tower]):
    """Move the discs of a Tower of Hanoi, one a turn.

    Levels 1 to 5: 3 to 6 discs on 3 or 4 pegs, from any arrangement to one that is far from it.

    Level 4 allows only moves to the next peg. Level 1 has 540 tasks.

    Observation: the goal and the discs on each peg, from bottom to top.
    Actions: two pegs, such as ``ab``.
    Reward: 1 for the goal, else 0.
    Episode end: the goal, or the turns are used up.
    """

    move_form = "A move is two letters, such as ab: the top disc of peg a goes to peg b."
    nouns = ("peg", "rod", "top", "disc", "disk", "of", "from", "to")
    turn_limits = (8, 18, 36, 90, 75)

    def deal(self, rng: random.Random, level: int) -> Tower:
        """Draws both arrangements until nearly all discs have to move."""
        discs, pegs, stepwise = TOWERS[level - 1]
        while True:
            at, goal = (tuple(rng.choices(range(pegs), k=discs)) for _ in range(2))
            if apart(at, goal):
                return Tower(pegs, stepwise, at, goal)

    def difficulty(self, state: BoardState) -> float:
        """Moves of the shortest solution."""
        board = state.board
        return float(tower_distances(board.pegs, board.stepwise, board.goal)[board.at])

    def enumerate_contents(self, level: int) -> list[str] | None:
        """The 540 pairs of level 1; from level 2 on there are too many."""
        if level > 1:
            return None
        discs, pegs, stepwise = TOWERS[0]
        arrangements = list(product(range(pegs), repeat=discs))
        return [
            self.identity(Tower(pegs, stepwise, at, goal))
            for at in arrangements
            for goal in arrangements
            if apart(at, goal)
        ]

    def guide(self, board: Tower) -> str:
        last = COLUMNS[board.pegs - 1]
        text = (
            f"Tower of Hanoi with discs 1 (smallest) to {len(board.at)} on pegs a to {last}. Move one disc at a time, "
            "the top one of a peg, and never onto a smaller one"
        )
        if board.stepwise:
            text += f"; a disc may only go to a neighbouring peg (the pegs stand in a row, a and {last} at its ends)"
        return f"{text}. Reach the goal:\n{show_pegs(board.pegs, board.goal)}"

    def show(self, board: Tower) -> str:
        return f"Now (each peg from bottom to top):\n{show_pegs(board.pegs, board.at)}"

    def identity(self, board: Tower) -> str:
        return f"{board.pegs} pegs{', stepwise' * board.stepwise}: {board.at} to {board.goal}"

    def named(self, move: str) -> str:
        if len(move) == 2 and move.isalpha():
            return move
        return "".join(super().named(move).replace("->", " ").replace(" to ", " ").split())

    def legal(self, board: Tower) -> list[str]:
        return list(moves_from(board.pegs, board.stepwise, board.at))

    def after(self, board: Tower, move: str) -> Tower:
        pegs, stepwise, at, goal = board
        return Tower(pegs, stepwise, moves_from(pegs, stepwise, at)[move], goal)

    def reached(self, board: Tower) -> bool:
        return board.at == board.goal

    def best(self, board: Tower) -> str:
        """A move that comes nearer by the exact distances of all arrangements from the goal: optimal."""
        far = tower_distances(board.pegs, board.stepwise, board.goal)
        return min(self.legal(board), key=lambda move: far[self.after(board, move).at])


def apart(at: tuple[int, ...], goal: tuple[int, ...]) -> bool:
    """Whether nearly all discs have to move, and two at least."""
    return sum(map(int.__ne__, at, goal)) >= max(2, len(at) - 2)


@lru_cache(maxsize=8192)
def show_pegs(pegs: int, at: tuple[int, ...]) -> str:
    discs = [""] * pegs
    for disc in range(len(at), 0, -1):
        discs[at[disc - 1]] += f" {disc}"
    return "\n".join([f"{COLUMNS[peg]}:{discs[peg] or ' -'}" for peg in range(pegs)])


def lifts(pegs: int, stepwise: bool, at: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """From which peg to which a disc may go."""
    tops = [at.index(peg) if peg in at else len(at) for peg in range(pegs)]
    for source, disc in enumerate(tops):
        for target, other in enumerate(tops):
            if disc < other and (not stepwise or abs(source - target) == 1):
                yield source, target


def moved(at: tuple[int, ...], source: int, target: int) -> tuple[int, ...]:
    disc = at.index(source)
    return (*at[:disc], target, *at[disc + 1 :])


@lru_cache(maxsize=8192)
def moves_from(pegs: int, stepwise: bool, at: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The legal moves, and the arrangement that each leads to."""
    return {
        COLUMNS[source] + COLUMNS[target]: moved(at, source, target) for source, target in lifts(pegs, stepwise, at)
    }


@lru_cache(maxsize=64)
def tower_distances(pegs: int, stepwise: bool, goal: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """The moves from every arrangement to the goal."""
    return distances([goal], lambda at: (moved(at, *lift) for lift in lifts(pegs, stepwise, at)))
