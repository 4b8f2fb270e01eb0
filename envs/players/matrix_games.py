"""Matrix games in rounds, and the habits of the seats that a policy meets in them.

A habit is a rule without chance, such as ``copy stag``: it plays stag first, and then the other seat's last move. A
seat that keeps to one can be found out and answered, so that no move is a good one in every task.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from rlvr.envs.players.game import SeatGame, check_range

MOST_TRIED = 1 << 12  # sequences of moves, to find what can be had against a habit
# Payoffs of seat 0 and seat 1 for each pair of moves, and the habits of each level.
MATRICES: dict[str, dict[str, Any]] = {
    "prisoners_dilemma": {
        "title": "The iterated prisoner's dilemma",
        "moves": ("cooperate", "defect"),
        "payoffs": (((3, 3), (0, 5)), ((5, 0), (1, 1))),
        "par": 2.5,
        "habits": (
            "always defect, copy cooperate, grudge cooperate",
            "always defect, copy cooperate, grudge cooperate, yield defect",
            "copy cooperate, copy defect, opposite cooperate, opposite defect, grudge cooperate",
        ),
    },
    "stag_hunt": {
        "title": "The iterated stag hunt",
        "moves": ("stag", "hare"),
        "payoffs": (((4, 4), (0, 3)), ((3, 0), (2, 2))),
        "par": 2.5,
        "habits": (
            "always stag, always hare, copy stag, yield hare",
            "always stag, always hare, copy stag, yield hare, turns stag hare",
            "always hare, copy stag, copy hare, yield hare, turns stag hare",
        ),
    },
    "chicken": {
        "title": "The iterated game of chicken",
        "moves": ("swerve", "straight"),
        "payoffs": (((3, 3), (2, 4)), ((4, 2), (0, 0))),
        "par": 2.5,
        "habits": (
            "always swerve, always straight, copy swerve, opposite swerve",
            "grudge swerve, agree swerve, opposite straight, yield straight",
            "always swerve, always straight, copy swerve, copy straight, opposite swerve, grudge swerve, agree "
            "swerve, yield straight, turns swerve straight",
        ),
    },
    "rock_paper_scissors": {
        "title": "Rock, paper, scissors in rounds",
        "moves": ("rock", "paper", "scissors"),
        "payoffs": (((0, 0), (-1, 1), (1, -1)), ((1, -1), (0, 0), (-1, 1)), ((-1, 1), (1, -1), (0, 0))),
        "par": None,
        "habits": (
            "always rock, always paper, always scissors",
            "copy rock, copy paper, copy scissors, beats rock, beats paper, beats scissors, loses rock, loses "
            "paper, loses scissors",
            "turns rock paper, turns paper rock, turns rock scissors, turns scissors rock, turns paper scissors, "
            "turns scissors paper, turns rock paper scissors, turns paper scissors rock, turns scissors rock "
            "paper, turns rock scissors paper, turns paper rock scissors, turns scissors paper rock",
        ),
    },
    "matching_pennies": {
        "title": "Matching pennies in rounds",
        "moves": ("heads", "tails"),
        "payoffs": (((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
        "par": None,
        "habits": (
            "always heads, always tails",
            "turns heads tails, turns tails heads, turns heads heads tails, turns tails tails heads, turns heads "
            "tails tails, turns tails heads heads",
            "copy heads, copy tails, opposite heads, opposite tails, agree heads, agree tails, turns heads heads "
            "tails tails, turns tails tails heads heads",
        ),
    },
}


def habitual_move(moves: Sequence[str], habit: str, mine: Sequence[str], theirs: Sequence[str]) -> str:
    """The next move of a habit, which is a kind and its first move or moves.

    Args:
        moves: of the game.
        habit: ``always`` its move; ``turns`` through its moves; after its first move, ``copy`` the other seat's last
            one, ``opposite`` or ``beats`` the one after that in ``moves``, ``loses`` the one before it; ``grudge``: its
            move until the other seat has played another one; ``yield``: its move until the other seat has played it,
            too; ``agree``: the first of ``moves`` after equal moves, else the second.
        mine, theirs: the moves so far of the seat that has the habit, and of the other.
    """
    kind, *moves_named = habit.split()
    if kind in ("always", "turns"):
        return moves_named[len(mine) % len(moves_named)]
    first = moves_named[0]
    if not mine:
        return first
    last = moves.index(theirs[-1])
    step = {"copy": 0, "opposite": 1, "beats": 1, "loses": -1}.get(kind)
    if step is not None:
        return moves[(last + step) % len(moves)]
    other = moves[1 - moves.index(first)]
    if kind == "agree":
        return moves[0] if mine[-1] == theirs[-1] else moves[1]
    if kind == "yield":
        return other if first in theirs else first
    return other if other in theirs else first  # grudge


class MatrixState(NamedTuple):
    """The pairs of moves so far."""

    played: tuple[tuple[str, str], ...] = ()


class MatrixGame(SeatGame[MatrixState]):
    """A matrix game played for several rounds, with stated payoffs.

    In a game of pure conflict the greater sum wins. Else the reward is one's sum as a share of ``par`` a round.

    Args:
        matrix: a name of ``MATRICES``.
        rounds: how many.
    """

    first_state = MatrixState()
    perfect_information = False
    zero_sum = False
    reward = "payoff"

    def __init__(self, *, matrix: str = "prisoners_dilemma", rounds: int = 8) -> None:
        if matrix not in MATRICES:
            raise ValueError(f"there is no matrix {matrix!r}; there are {', '.join(MATRICES)}")
        check_range("rounds", rounds, 1, 100)
        self.matrix, self.decisions = matrix, rounds
        self._known_bounds: dict[tuple[str, int], tuple[float, float]] = {}
        levels = [habits.split(", ") for habits in MATRICES[matrix]["habits"]]
        self._weights = {each: 0.0 for habits in levels for each in habits}  # how probable, if all levels are
        for habits in levels:
            for each in habits:
                self._weights[each] += 1 / len(habits)
        self._plans: dict[tuple[tuple[str, ...], tuple[str, ...], int], tuple[float, str]] = {}
        entry = MATRICES[matrix]
        self.title = entry["title"]
        self.moves, self.payoffs, self.par = entry["moves"], entry["payoffs"], entry["par"]
        values = [value for row in self.payoffs for pair in row for value in pair]
        self.zero_sum = self.par is None
        self.lowest, self.highest = float(rounds * min(values)), float(rounds * max(values))
        if self.par is not None:
            self.lowest -= 1.0  # a forfeit is worse than any way to play
            self.spared = float(self.par * rounds)  # a full success for the other

    @property
    def name(self) -> str:
        """``MatrixGame`` and the matrix: each has tasks of its own."""
        return f"MatrixGame {self.matrix}"

    def rules(self) -> str:
        """Payoffs of both seats for each pair of moves, and what counts as success."""
        rows = [
            f"{mine} against {theirs}: {self.payoffs[a][b][0]} for seat 0, {self.payoffs[a][b][1]} for seat 1."
            for a, mine in enumerate(self.moves)
            for b, theirs in enumerate(self.moves)
        ]
        goal = "The greater sum wins."
        if self.par is not None:
            goal = "Each seat wants a large sum for itself; that the other has less is worth nothing."
        return (
            f"{self.title}. For {self.decisions} rounds both seats move at the same time; a move is "
            f"{', '.join(self.moves[:-1])} or {self.moves[-1]}. The points of a round, seat 0's move first:\n"
            + "\n".join(rows)
            + f"\n{goal}"
        )

    def actors(self, state: MatrixState) -> tuple[int, ...]:
        """Both seats in every round, until the rounds are played."""
        return (0, 1) if len(state.played) < self.decisions else ()

    def legal(self, state: MatrixState, seat: int) -> tuple[str, ...]:
        moves: tuple[str, ...] = self.moves
        return moves

    def apply_all(self, state: MatrixState, moves: Mapping[int, str]) -> MatrixState:
        return MatrixState((*state.played, (moves[0], moves[1])))

    def returns(self, state: MatrixState) -> tuple[float, ...]:
        """The sums of points over all rounds."""
        pairs = [self.payoffs[self.moves.index(a)][self.moves.index(b)] for a, b in state.played]
        return float(sum(a for a, _ in pairs)), float(sum(b for _, b in pairs))

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        """The greater sum wins in pure conflict; else the own sum over ``par`` a round, cut to [0, 1]."""
        if self.par is None:
            return super().outcome(returns, seat)
        return max(0.0, min(1.0, returns[seat] / float(self.par * self.decisions)))

    def show(self, view: MatrixState, seat: int) -> str:
        """The pairs of moves so far, the own move first, and both sums."""
        text = "; ".join(f"you {pair[seat]}, other {pair[1 - seat]}" for pair in view.played)
        sums = self.returns(view)
        return f"Rounds so far: {text or 'none'}. Points: you {sums[seat]:g}, other {sums[1 - seat]:g}."

    def expert(self, view: MatrixState, seat: int, rng: random.Random) -> str:
        """Cooperates with whoever answers as it was treated, and plays safe or selfish against the others.

        In a game of pure conflict, the equilibrium: every move is as likely as the others.
        """
        if self.par is not None:
            first = str(self.moves[0])
            mine, theirs = ([pair[who] for pair in view.played] for who in (seat, 1 - seat))
            answers = theirs == [first, *mine][: len(theirs)]
            return first if answers or self.matrix == "chicken" else str(self.moves[1])
        return str(rng.choice(self.moves))

    # seats that keep to a habit

    def habits(self, level: int) -> Sequence[str]:
        """In games of pure conflict, those of level 1 play one move alone."""
        habits: list[str] = MATRICES[self.matrix]["habits"][level - 1].split(", ")
        return habits

    def habitual(self, habit: str, view: MatrixState, seat: int, past: Sequence[Any] = ()) -> str:
        mine, theirs = ([pair[who] for pair in view.played] for who in (seat, 1 - seat))
        return habitual_move(self.moves, habit, mine, theirs)

    def answer_to_habits(self, view: MatrixState, seat: int, rng: random.Random, past: Sequence[Any] = ()) -> str:
        """The move that leads to the highest mean payoff against the habits that fit what was played.

        In a game of pure conflict it is the best reply to what these habits do now; the first move is drawn.
        """
        mine, theirs = (tuple(pair[who] for pair in view.played) for who in (seat, 1 - seat))
        fitting = tuple(habit for habit in self._weights if self._moves_of(habit, mine)[: len(theirs)] == theirs)
        if not fitting or (not mine and self.par is None):
            return self.expert(view, seat, rng)
        if self.par is not None and len(self.moves) ** self.decisions <= MOST_TRIED:
            return self._plan(mine, fitting, seat)[1]
        expected = [(self._weights[habit], self._moves_of(habit, mine)[-1]) for habit in fitting]
        moves: tuple[str, ...] = self.moves
        return max(moves, key=lambda move: sum(share * self._points(move, at, seat) for share, at in expected))

    def payoff_against(self, habit: str, returns: Sequence[float], seat: int) -> float:
        """Between the least and the most of all sequences of moves, where these are few enough to be tried."""
        if len(self.moves) ** self.decisions > MOST_TRIED:
            return self.payoff(returns, seat)
        least, greatest = self._bounds(habit, seat)
        return max(0.0, min(1.0, (returns[seat] - least) / (greatest - least)))

    def _points(self, move: str, other: str, seat: int) -> float:
        """The points of a seat in one round."""
        pair = (move, other) if seat == 0 else (other, move)
        return float(self.payoffs[self.moves.index(pair[0])][self.moves.index(pair[1])][seat])

    def _moves_of(self, habit: str, theirs: Sequence[str]) -> tuple[str, ...]:
        """What a habit plays against some moves, and the move after them."""
        mine: list[str] = []
        for number in range(len(theirs) + 1):
            mine.append(habitual_move(self.moves, habit, mine, theirs[:number]))
        return tuple(mine)

    def _sum(self, habit: str, moves: Sequence[str], seat: int) -> float:
        """The points that moves bring a seat against a habit."""
        return sum(self._points(*pair, seat) for pair in zip(moves, self._moves_of(habit, moves), strict=False))

    def _bounds(self, habit: str, seat: int) -> tuple[float, float]:
        """The least and the most points that a seat can have against a habit."""
        if (habit, seat) not in self._known_bounds:
            sums = [self._sum(habit, moves, seat) for moves in product(self.moves, repeat=self.decisions)]
            self._known_bounds[habit, seat] = (min(sums), max(sums))
        return self._known_bounds[habit, seat]

    def _plan(self, mine: tuple[str, ...], fitting: tuple[str, ...], seat: int) -> tuple[float, str]:
        """The highest sum of payoffs over the habits that fit, and the next move that leads to it."""
        if len(mine) == self.decisions:
            shares = 0.0
            for habit in fitting:
                least, greatest = self._bounds(habit, seat)
                shares += self._weights[habit] * (self._sum(habit, mine, seat) - least) / (greatest - least)
            return shares, ""
        key = (mine, fitting, seat)
        if key not in self._plans:
            plans = []
            for move in self.moves:
                groups: dict[tuple[str, ...], list[str]] = {}
                for habit in fitting:
                    groups.setdefault(self._moves_of(habit, mine), []).append(habit)
                plans.append((sum(self._plan((*mine, move), tuple(each), seat)[0] for each in groups.values()), move))
            self._plans[key] = max(plans, key=lambda plan: plan[0])
        return self._plans[key]
