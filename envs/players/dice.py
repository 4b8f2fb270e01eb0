"""Games of dice: liar's dice and pig."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import comb
from typing import NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly


class LiarsState(NamedTuple):
    """``dice`` of each seat, sorted, empty where hidden; ``bids`` as (count, face); ``called`` ends the game."""

    dice: tuple[tuple[int, ...], ...]
    bids: tuple[tuple[int, int], ...] = ()
    called: bool = False


class LiarsDice(SeatGame[LiarsState]):
    """Liar's dice: bid on all dice while you see your own, and call the bid that is too high.

    Args:
        seats: 2 to 6.
        dice: of each seat.
    """

    title = "Liar's dice"
    perfect_information = False
    nouns = ("bid", "dice", "die", "times")

    def __init__(self, *, seats: int = 2, dice: int = 2) -> None:
        check_range("seats", seats, 2, 6)
        check_range("dice", dice, 1, 5)
        self.seats, self.dice = seats, dice
        self.lowest = -1.0
        self.highest = 1.0 / (seats - 1) if seats > 2 else 1.0
        if seats > 2:  # one of many loses a round, so that any play seldom does
            self.default_rounds, self.reward, self.swing = 5, "payoff", self.highest
            self.level_bots = ("mixed:0.8", "mixed:0.5", "mixed:0.3")  # type: ignore[misc]
        self.decisions = self.dice * self.seats * 6 + 1  # as many bids as there can be, and the call

    def rules(self) -> str:
        return (
            f"Liar's dice with {self.seats} seats. Each has {self.dice} dice of six faces that it alone sees. In turn "
            "a seat bids on all dice together, such as 2-5 (at least two dice show a 5; sixes count as every face), or "
            "says liar. A bid must be higher than the last: more dice, or as many with a higher face. After liar all "
            "dice are shown: if the last bid is true, whoever said liar loses, otherwise whoever made it. The others "
            "win. Seat 0 begins."
        )

    def start(self) -> LiarsState:
        return LiarsState(((),) * self.seats)

    def actors(self, state: LiarsState) -> tuple[int, ...]:
        if state.called:
            return ()
        if len(state.dice[-1]) < self.dice:
            return (CHANCE,)
        return (len(state.bids) % self.seats,)

    def chance(self, state: LiarsState) -> list[tuple[str, float]]:
        return evenly(range(1, 7))

    def owner(self, state: LiarsState) -> int:
        """The seat whose die is drawn next."""
        return next(seat for seat, dice in enumerate(state.dice) if len(dice) < self.dice)

    def witnesses(self, state: LiarsState, actor: int) -> Sequence[int]:
        return (self.owner(state),) if actor == CHANCE else range(self.seats)

    def legal(self, state: LiarsState, seat: int) -> list[str]:
        last = state.bids[-1] if state.bids else (0, 6)
        bids = [
            f"{count}-{face}"
            for count in range(1, self.dice * self.seats + 1)
            for face in range(1, 7)
            if (count, face) > last
        ]
        return [*bids, "liar"] if state.bids else bids

    def parse(self, view: LiarsState, seat: int, words: str) -> str:
        """``2 5`` is the bid ``2-5``."""
        return super().parse(view, seat, words).replace(" ", "-")

    def apply(self, state: LiarsState, seat: int, move: str) -> LiarsState:
        if seat == CHANCE:
            owner = self.owner(state)
            dice = tuple(sorted((*state.dice[owner], int(move))))
            return state._replace(dice=(*state.dice[:owner], dice, *state.dice[owner + 1 :]))
        if move == "liar":
            return state._replace(called=True)
        count, face = move.split("-")
        return state._replace(bids=(*state.bids, (int(count), int(face))))

    def returns(self, state: LiarsState) -> tuple[float, ...]:
        count, face = state.bids[-1]
        shown = sum(die in (face, 6) for dice in state.dice for die in dice)
        caller = len(state.bids) % self.seats
        bidder = (len(state.bids) - 1) % self.seats
        loser = caller if shown >= count else bidder
        return tuple(-1.0 if seat == loser else 1.0 / (self.seats - 1) for seat in range(self.seats))

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return 1.0 if returns[seat] > 0 else 0.0

    def view(self, state: LiarsState, seat: int) -> LiarsState:
        """Hides the others' dice until somebody has called."""
        if state.called:
            return state
        return state._replace(dice=tuple(dice if at == seat else () for at, dice in enumerate(state.dice)))

    def show(self, view: LiarsState, seat: int) -> str:
        bids = ", ".join(f"seat {at % self.seats} bids {count}-{face}" for at, (count, face) in enumerate(view.bids))
        text = ""
        if view.called:
            text = " All dice: " + "; ".join(f"seat {at}: {' '.join(map(str, d))}" for at, d in enumerate(view.dice))
            text += "."
        return f"Your dice: {' '.join(map(str, view.dice[seat]))}. Bids so far: {bids or 'none'}.{text}"

    def likely(self, hand: Sequence[int], count: int, face: int) -> float:
        """The probability that a bid is true, for dice of one's own and dice that are not known."""
        mine = sum(die in (face, 6) for die in hand)
        others = self.dice * (self.seats - 1)
        share = 1 / 6 if face == 6 else 1 / 3
        need = max(0, count - mine)
        return sum(comb(others, k) * share**k * (1 - share) ** (others - k) for k in range(need, others + 1))

    def expert(self, view: LiarsState, seat: int, rng: random.Random) -> str:
        """Calls a bid less likely than not, else makes the lowest bid of those that are likely."""
        hand = view.dice[seat]
        if view.bids and self.likely(hand, *view.bids[-1]) < 0.45:
            return "liar"
        bids = [tuple(map(int, bid.split("-"))) for bid in self.legal(view, seat) if bid != "liar"]
        ranked = [(self.likely(hand, count, face), count, face) for count, face in bids]
        good = [(count, face) for chance, count, face in ranked if chance >= 0.6]
        if good:
            count, face = good[min(rng.randint(0, 2), len(good) - 1)]
            return f"{count}-{face}"
        if not ranked or (view.bids and max(ranked)[0] < 0.35):
            return "liar"
        _, count, face = max(ranked)
        return f"{count}-{face}"


class PigState(NamedTuple):
    """Scores, what this turn has brought so far, whose turn it is, and whether a die is in the air."""

    scores: tuple[int, ...]
    turn_total: int = 0
    turn: int = 0
    rolling: bool = False
    moves: int = 0


class Pig(SeatGame[PigState]):
    """Pig: roll as long as you dare, and a 1 loses what the turn has brought.

    Args:
        seats: 2 to 6.
        goal: the score that wins.
    """

    title = "Pig"
    opening = (0, 0)

    def __init__(self, *, seats: int = 2, goal: int = 75) -> None:
        check_range("seats", seats, 2, 6)
        check_range("goal", goal, 2, 100)
        self.seats, self.goal = seats, goal
        self.highest = 1.0
        self.lowest = -1.0 / (seats - 1) if seats > 2 else -1.0
        if seats > 2:
            self.level_bots = ("random", "mixed:0.6", "mixed:0.4")  # type: ignore[misc]
        self.decisions = 20 * self.goal  # twenty moves for each point of the goal: the limit of the whole game

    def rules(self) -> str:
        return (
            f"Pig with {self.seats} seats. In its turn a seat rolls a die as often as it likes. A 1 ends the turn and "
            "brings nothing; every other number is added to the turn's total. A seat that stops adds the total to its "
            f"score, must do so once that is enough, and whoever first has {self.goal} wins. A move is roll or stop. "
            f"Seat 0 begins. A game of {self.limit} moves without a winner is a draw."
        )

    @property
    def limit(self) -> int:
        """Moves of all seats together after which nobody has won."""
        return 20 * self.goal

    def start(self) -> PigState:
        return PigState((0,) * self.seats)

    def actors(self, state: PigState) -> tuple[int, ...]:
        if state.rolling:
            return (CHANCE,)
        return () if max(state.scores) >= self.goal or state.moves >= self.limit else (state.turn,)

    def chance(self, state: PigState) -> list[tuple[str, float]]:
        return evenly(range(1, 7))

    def legal(self, state: PigState, seat: int) -> tuple[str, ...]:
        return ("stop",) if state.scores[seat] + state.turn_total >= self.goal else ("roll", "stop")

    def apply(self, state: PigState, seat: int, move: str) -> PigState:
        following = (state.turn + 1) % self.seats
        if seat == CHANCE:
            if move == "1":
                return state._replace(turn_total=0, turn=following, rolling=False)
            return state._replace(turn_total=state.turn_total + int(move), rolling=False)
        if move == "roll":
            return state._replace(rolling=True, moves=state.moves + 1)
        scores = tuple(n + state.turn_total if at == seat else n for at, n in enumerate(state.scores))
        return PigState(scores, 0, following, False, state.moves + 1)

    def returns(self, state: PigState) -> tuple[float, ...]:
        best = max(state.scores)
        if best < self.goal:
            return (0.0,) * self.seats
        winner = state.scores.index(best)
        return tuple(1.0 if seat == winner else -1.0 / (self.seats - 1) for seat in range(self.seats))

    def show(self, view: PigState, seat: int) -> str:
        scores = ", ".join(f"seat {at} {n}" for at, n in enumerate(view.scores))
        return f"Scores: {scores}. This turn: {view.turn_total}."

    def expert(self, view: PigState, seat: int, rng: random.Random) -> str:
        """Holds at 20, at the goal, or rolls on where another seat is about to win."""
        total = view.turn_total
        if view.scores[seat] + total >= self.goal:
            return "stop"
        others = max(n for at, n in enumerate(view.scores) if at != seat)
        wanted = 20 if self.goal - others > 8 else self.goal
        return "stop" if total >= wanted else "roll"
