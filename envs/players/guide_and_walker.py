"""GuideAndWalker: a team of two, of which one sees the map and the other walks on it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, cell_names, check_range, drawn, evenly

WAYS: Final = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
SIGNS: Final = ("tree", "shop", "lake", "mill")
BLOCKED: Final = "#"
FAR: Final = 4  # steps from the start to the goal, at least
GUIDE, WALKER = 0, 1


class WalkState(NamedTuple):
    """``blocked`` cells, the first letter of each cell's sign, ``goal`` and ``at``; what was ``seen`` and spoken.

    ``seen`` has for each step of the walker its sign and the ways that are open there. ``steps`` has what it did.
    """

    blocked: tuple[int, ...] = ()
    signs: str = ""
    goal: int = -1
    at: int = -1
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    reports: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class GuideAndWalker(SeatGame[WalkState]):
    """Guide and walker: the guide sees the map but not the walker, the walker sees its cell but not the map.

    Args:
        size: rows and columns of the map.
        rounds: steps that the walker has.
    """

    title = "Guide and walker"
    teams = (0, 0)
    first_state = WalkState()
    perfect_information = False
    zero_sum = False
    nouns = ("go", "see", "a", "walk", "way", "to", "i")
    lowest, highest = 0.0, 1.0

    def __init__(self, *, size: int = 5, rounds: int = 12) -> None:
        check_range("size", size, 4, 7)
        check_range("rounds", rounds, FAR, 40)
        self.size, self.rounds, self.holes = size, rounds, size
        self.names = cell_names(size, size)
        self.decisions = 2 * self.rounds  # the walker speaks and walks in each round

    def rules(self) -> str:
        return (
            f"Guide and walker are one team. Seat 0, the guide, has a map of {self.size} x {self.size} cells: each has "
            "a sign, which is t (tree), s (shop), l (lake) or m (mill), and those with # are blocked. The guide knows "
            "the goal, but not where the walker is. Seat 1, the walker, has no map: it sees the sign of its own cell "
            "and which ways (north, east, south, west) are open there. North is up on the map, to row 1. In each round "
            "the walker names a sign, the guide names a way or says wait, and the walker goes an open way or stays. "
            "Both read every move. A move is one word, such as tree, north or stay. The walker begins at least "
            f"{FAR} and at most {self.rounds} steps from the goal. The team has won when the walker reaches the goal "
            f"within {self.rounds} rounds; otherwise it has lost."
        )

    def actors(self, state: WalkState) -> tuple[int, ...]:
        if not state.seen:
            return (CHANCE,)
        if state.at == state.goal >= 0 or len(state.steps) == self.rounds:
            return ()
        return (GUIDE,) if len(state.words) < len(state.reports) else (WALKER,)

    def chance(self, state: WalkState) -> Sequence[tuple[str, float]]:
        """Blocked cells that leave the rest in one piece, a sign for each cell, the goal, and a start far from it.

        Every walk can be won: no start is farther from the goal than there are rounds.
        """
        cells = range(self.size**2)
        options: Sequence[str]
        if len(state.blocked) < self.holes:
            options = fits(self.size, state.blocked)
        elif len(state.signs) < self.size**2:
            options = [BLOCKED] if len(state.signs) in state.blocked else SIGNS
        elif state.goal < 0:
            options = [self.names[at] for at in cells if max(distances(self.size, state.blocked, at)) >= FAR]
        else:
            far = distances(self.size, state.blocked, state.goal)
            options = [self.names[at] for at in cells if FAR <= far[at] <= self.rounds]
        return evenly(options)

    def witnesses(self, state: WalkState, actor: int) -> Sequence[int]:
        if actor != CHANCE:
            return (0, 1)
        return () if state.goal >= 0 else (GUIDE,)

    def legal(self, state: WalkState, seat: int) -> list[str]:
        if seat == GUIDE:
            return [*WAYS, "wait"]
        if len(state.reports) == len(state.steps):
            return list(SIGNS)
        return [*state.seen[-1][1], "stay"]

    def apply(self, state: WalkState, seat: int, move: str) -> WalkState:
        if seat == CHANCE:
            return self._made(state, move)
        if seat == GUIDE:
            return state._replace(words=(*state.words, move))
        if len(state.reports) == len(state.steps):
            return state._replace(reports=(*state.reports, move))
        at = state.at if move == "stay" else around(self.size, state.at)[move]
        return self._arrived(state._replace(steps=(*state.steps, move)), at)

    def _made(self, state: WalkState, move: str) -> WalkState:
        if len(state.blocked) < self.holes:
            return state._replace(blocked=tuple(sorted((*state.blocked, self.names.index(move)))))
        if len(state.signs) < self.size**2:
            return state._replace(signs=state.signs + move[0])
        cell = self.names.index(move)
        return state._replace(goal=cell) if state.goal < 0 else self._arrived(state, cell)

    def _arrived(self, state: WalkState, at: int) -> WalkState:
        sign = next(sign for sign in SIGNS if sign[0] == state.signs[at])
        return state._replace(at=at, seen=(*state.seen, (sign, open_ways(self.size, state.blocked, at))))

    def returns(self, state: WalkState) -> tuple[float, ...]:
        return (float(state.at == state.goal),) * 2

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return returns[seat]

    def view(self, state: WalkState, seat: int) -> WalkState:
        """Hides the walker and what it sees from the guide, and the map from the walker, until the end."""
        if not self.actors(state):
            return state
        if seat == GUIDE:
            return state._replace(at=-1, seen=((("", ()),) if state.seen else ()))
        return state._replace(blocked=(), signs="", goal=-1, at=-1)

    def show(self, view: WalkState, seat: int) -> str:
        steps = tuple("stays" if step == "stay" else f"goes {step}" for step in view.steps)
        rows = (("walker says", view.reports), ("guide says", view.words), ("walker", steps))
        talk = [
            f"round {number}: " + ", ".join(f"{who} {row[number - 1]}" for who, row in rows if len(row) >= number)
            for number in range(1, len(view.reports) + 1)
        ]
        lines = [
            f"Spoken and walked: {'; '.join(talk) or 'nothing yet'}. Rounds left: {self.rounds - len(view.steps)}."
        ]
        if view.signs:
            cells = [view.signs[at : at + self.size] for at in range(0, self.size**2, self.size)]
            lines.append(f"The map; the goal is {self.names[view.goal]}:\n{drawn(cells)}")
        if seat == WALKER and view.seen:
            sign, ways = view.seen[-1]
            lines.append(f"You see a {sign}. Open ways: {', '.join(ways)}.")
        if view.at >= 0:
            reached = "which is the goal" if view.at == view.goal else "and the rounds are over"
            lines.append(f"The walker is on {self.names[view.at]}, {reached}.")
        return "\n".join(lines)

    def expert(self, view: WalkState, seat: int, rng: random.Random) -> str:
        """The walker reports what it sees and goes where it is sent; the guide finds out where it may be."""
        if seat == GUIDE:
            return self._best_word(view, rng)
        if len(view.reports) == len(view.steps):
            return view.seen[-1][0]
        word, legal = view.words[-1], self.legal(view, WALKER)
        if word == "wait":
            return "stay"
        return word if word in legal else rng.choice(legal[:-1])

    def candidates(self, view: WalkState) -> set[int]:
        """The cells where an honest walker may be; all that its steps allow if its reports fit none."""
        far = distances(self.size, view.blocked, view.goal)
        cells = {at for at, steps in enumerate(far) if FAR <= steps <= self.rounds}
        for number, report in enumerate(view.reports):
            cells = {at for at in cells if view.signs[at] == report[0]} or cells
            if number < len(view.steps) and view.steps[number] != "stay":
                step = view.steps[number]
                able = (at for at in cells if step in open_ways(self.size, view.blocked, at))
                cells = {around(self.size, at)[step] for at in able}
                cells = cells - {view.goal} or {at for at, sign in enumerate(view.signs) if sign != BLOCKED}
        return cells

    def _best_word(self, view: WalkState, rng: random.Random) -> str:
        far, cells = distances(self.size, view.blocked, view.goal), self.candidates(view)

        def mean(way: str) -> tuple[float, float]:
            total = 0.0
            for at in cells:
                there = around(self.size, at)[way] if way in open_ways(self.size, view.blocked, at) else -1
                total += far[there] if there >= 0 else far[at] + 0.5
            return (total, rng.random())

        return min(WAYS, key=mean)


@lru_cache(maxsize=1024)
def around(size: int, at: int) -> dict[str, int]:
    """The cells next to one, by the way there."""
    row, column = divmod(at, size)
    steps = {way: (row + down, column + right) for way, (down, right) in WAYS.items()}
    return {way: y * size + x for way, (y, x) in steps.items() if 0 <= y < size and 0 <= x < size}


@lru_cache(maxsize=65536)
def open_ways(size: int, blocked: tuple[int, ...], at: int) -> tuple[str, ...]:
    """The ways from a cell that lead to a cell that is not blocked."""
    return tuple(way for way, there in around(size, at).items() if there not in blocked)


@lru_cache(maxsize=65536)
def distances(size: int, blocked: tuple[int, ...], goal: int) -> tuple[int, ...]:
    """Steps from each cell to a goal; -1 from blocked cells and where no way leads."""
    steps = [-1] * size**2
    if goal in blocked:
        return tuple(steps)
    steps[goal], edge = 0, [goal]
    for at in edge:
        for there in around(size, at).values():
            if there not in blocked and steps[there] < 0:
                steps[there] = steps[at] + 1
                edge.append(there)
    return tuple(steps)


@lru_cache(maxsize=65536)
def fits(size: int, blocked: tuple[int, ...]) -> tuple[str, ...]:
    """The cells that can be blocked besides, so that all others still lead to each other."""
    names = []
    for at, name in enumerate(cell_names(size, size)):
        if at not in blocked:
            after = (*blocked, at)
            start = next(cell for cell in range(size**2) if cell not in after)
            if sum(far >= 0 for far in distances(size, after, start)) == size**2 - len(after):
                names.append(name)
    return tuple(names)
