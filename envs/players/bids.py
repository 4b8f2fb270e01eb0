"""Goofspiel and Colonel Blotto: both seats move at once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from operator import mul
from typing import NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly

MOST_MIXED = 300  # divisions; beyond them the mixture takes seconds
MIXING_STEPS = 1_000


class GoofspielState(NamedTuple):
    """``prizes`` in the order shown; ``bids`` one tuple a seat."""

    prizes: tuple[int, ...] = ()
    bids: tuple[tuple[int, ...], ...] = ((), ())


class Goofspiel(SeatGame[GoofspielState]):
    """Goofspiel: both bid a card at once for each prize, and equal bids win nothing.

    Args:
        cards: in each hand and among the prizes.
    """

    title = "Goofspiel"
    first_state = GoofspielState()
    nouns = ("card", "bid")
    perfect_information = False

    def __init__(self, *, cards: int = 5) -> None:
        check_range("cards", cards, 2, 13)
        self.cards = cards
        self.decisions = self.cards  # one bid for each card

    def rules(self) -> str:
        return (
            f"Goofspiel. Each seat has the cards 1 to {self.cards}, and the prizes 1 to {self.cards} are shown one by "
            "one in random order. For each prize both seats bid one card of their hand at the same time; the higher "
            "bid takes the prize; if the bids are equal, nobody gets it. Bids are shown afterwards and are used up. "
            "The higher sum of prizes wins. A move is the number of a card."
        )

    def actors(self, state: GoofspielState) -> tuple[int, ...]:
        if len(state.bids[0]) == self.cards:
            return ()
        return (CHANCE,) if len(state.prizes) == len(state.bids[0]) else (0, 1)

    def chance(self, state: GoofspielState) -> list[tuple[str, float]]:
        return evenly([prize for prize in range(1, self.cards + 1) if prize not in state.prizes])

    def legal(self, state: GoofspielState, seat: int) -> list[str]:
        return [str(card) for card in range(1, self.cards + 1) if card not in state.bids[seat]]

    def apply(self, state: GoofspielState, seat: int, move: str) -> GoofspielState:
        return state._replace(prizes=(*state.prizes, int(move)))

    def apply_all(self, state: GoofspielState, moves: Mapping[int, str]) -> GoofspielState:
        return state._replace(bids=tuple((*bids, int(moves[seat])) for seat, bids in enumerate(state.bids)))

    @staticmethod
    def points(state: GoofspielState) -> list[int]:
        """What each seat has won so far."""
        sums = [0, 0]
        for prize, first, second in zip(state.prizes, *state.bids, strict=False):
            if first != second:
                sums[0 if first > second else 1] += prize
        return sums

    def returns(self, state: GoofspielState) -> tuple[float, ...]:
        first, second = self.points(state)
        value = float((first > second) - (first < second))
        return (value, -value)

    def show(self, view: GoofspielState, seat: int) -> str:
        points = self.points(view)
        bids = ", ".join(
            f"prize {prize} (you {mine}, other {other})"
            for prize, mine, other in zip(view.prizes, view.bids[seat], view.bids[1 - seat], strict=False)
        )
        now = f" Prize now: {view.prizes[-1]}." if len(view.prizes) > len(view.bids[0]) else ""
        hand = " ".join(self.legal(view, seat)) or "nothing"
        return (
            f"Bids so far: {bids or 'none'}.{now} Your hand: {hand}. Points: you {points[seat]}, other "
            f"{points[1 - seat]}."
        )

    def expert(self, view: GoofspielState, seat: int, rng: random.Random) -> str:
        """Bids the card of the prize's rank among those left, or one more."""
        hand = [int(card) for card in self.legal(view, seat)]
        left = [prize for prize in range(1, self.cards + 1) if prize not in view.prizes[:-1]]
        at = min(left.index(view.prizes[-1]) + rng.randint(0, 1), len(hand) - 1)
        return str(hand[at])


class BlottoState(NamedTuple):
    """The divisions of both seats; none before they have moved."""

    plans: tuple[tuple[int, ...], ...] = ()


class Blotto(SeatGame[BlottoState]):
    """Colonel Blotto: both divide their soldiers over the fields at once, and most fields win.

    Args:
        soldiers, fields: how many each seat has, and how many there are.
    """

    title = "Colonel Blotto"
    decisions = 1  # one: both divisions are named at once
    first_state = BlottoState()
    perfect_information = False
    nouns = ("soldiers", "fields")
    default_rounds = 6
    reward = "payoff"

    def __init__(self, *, soldiers: int = 10, fields: int = 3) -> None:
        if not (1 <= soldiers <= 50 and 2 <= fields <= 5):
            raise ValueError(f"1 to 50 soldiers and 2 to 5 fields, not {soldiers} and {fields}")
        self.soldiers, self.fields = soldiers, fields

    def rules(self) -> str:
        return (
            f"Colonel Blotto. Both seats divide {self.soldiers} soldiers over {self.fields} fields at the same time. "
            "Whoever sends more soldiers to a field wins it; equal numbers win it for nobody. Whoever wins more "
            "fields wins the game. "
            f"A move is {self.fields} whole numbers with blanks between them, which add up to {self.soldiers}."
        )

    def actors(self, state: BlottoState) -> tuple[int, ...]:
        return () if state.plans else (0, 1)

    def legal(self, state: BlottoState, seat: int) -> Sequence[str]:
        return divisions(self.soldiers, self.fields)

    def is_legal(self, state: BlottoState, seat: int, move: str) -> bool:
        """By a set, where listing all divisions would take long."""
        return move in division_set(self.soldiers, self.fields)

    def apply_all(self, state: BlottoState, moves: Mapping[int, str]) -> BlottoState:
        return BlottoState(tuple(tuple(map(int, moves[seat].split())) for seat in (0, 1)))

    def returns(self, state: BlottoState) -> tuple[float, ...]:
        value = float(won(*state.plans))
        return (value, -value)

    def show(self, view: BlottoState, seat: int) -> str:
        if not view.plans:
            return f"Divide your {self.soldiers} soldiers over the {self.fields} fields."
        mine, other = (" ".join(map(str, view.plans[who])) for who in (seat, 1 - seat))
        return f"Your division: {mine}. The other seat's: {other}."

    def expert(self, view: BlottoState, seat: int, rng: random.Random) -> str:
        """A division of the mixture that no division beats on average, the fields shuffled; of large games one of
        the divisions that beat most others.
        """
        plans, weights = unbeaten_mixture(self.soldiers, self.fields)
        if not plans:
            return rng.choice(best_divisions(self.soldiers, self.fields))
        plan = list(rng.choices(plans, weights)[0])
        rng.shuffle(plan)
        return " ".join(map(str, plan))

    def habits(self, level: int) -> Sequence[str]:
        """``same`` division in every round; ``two`` by turns; ``beats``, after a first one, the other seat's last."""
        plans = habitual_divisions(self.soldiers, self.fields)
        pairs = [f"two {a}, {b}" for a, b in zip(plans, plans[1:] + plans[:1], strict=True)]
        same = [f"same {plan}" for plan in plans]
        return (same, [*same, *pairs], [*pairs, *(f"beats {plan}" for plan in plans)])[level - 1]

    def habitual(self, habit: str, view: BlottoState, seat: int, past: Sequence[BlottoState] = ()) -> str:
        kind, _, text = habit.partition(" ")
        plans = text.split(", ")
        if kind == "beats" and past:
            return best_reply(past[-1].plans[1 - seat])
        return plans[len(past) % len(plans)]

    def answer_to_habits(
        self, view: BlottoState, seat: int, rng: random.Random, past: Sequence[BlottoState] = ()
    ) -> str:
        """The best reply to what the habits that fit all rounds so far make now; the mixture while many do."""
        other = 1 - seat
        played = [each.plans[other] for each in past]
        expected: set[tuple[int, ...]] = set()
        for level in (1, 2, 3):
            for habit in self.habits(level):
                moves = [self.habitual(habit, view, other, past[:number]) for number in range(len(past) + 1)]
                if [tuple(map(int, move.split())) for move in moves[:-1]] == played:
                    expected.add(tuple(map(int, moves[-1].split())))
        if not past or not expected:
            return self.expert(view, seat, rng)
        plans = [tuple(map(int, plan.split())) for plan in divisions(self.soldiers, self.fields)]
        best = max(plans, key=lambda candidate: sum(won(candidate, each) for each in expected))
        return " ".join(map(str, best))


@lru_cache(maxsize=16)
def habitual_divisions(soldiers: int, fields: int) -> list[str]:
    """Divisions of the unbeaten mixture, in any order of the fields; of large games those that beat most others."""
    plans, weights = unbeaten_mixture(soldiers, fields)
    if not plans:
        return list(best_divisions(soldiers, fields))
    usual = max(weights) / 4
    return sorted(
        " ".join(map(str, order))
        for plan, weight in zip(plans, weights, strict=True)
        if weight > usual
        for order in set(permutations(plan))
    )


@lru_cache(maxsize=4096)
def best_reply(plan: tuple[int, ...]) -> str:
    """A division that beats another where one does: as many soldiers as that has there, and one more, on few fields."""
    soldiers, fields = sum(plan), len(plan)
    replies = [tuple(map(int, reply.split())) for reply in divisions(soldiers, fields)]
    best = max(replies, key=lambda each: (won(each, plan), -max(each), each))
    return " ".join(map(str, best))


@lru_cache(maxsize=16)
def divisions(soldiers: int, fields: int) -> tuple[str, ...]:
    """Every way to divide soldiers over fields."""
    if fields == 1:
        return (str(soldiers),)
    return tuple(f"{n} {rest}" for n in range(soldiers + 1) for rest in divisions(soldiers - n, fields - 1))


@lru_cache(maxsize=16)
def division_set(soldiers: int, fields: int) -> frozenset[str]:
    return frozenset(divisions(soldiers, fields))


@lru_cache(maxsize=16)
def unbeaten_mixture(soldiers: int, fields: int) -> tuple[tuple[tuple[int, ...], ...], tuple[float, ...]]:
    """Divisions in any order of the fields, and how often each is played in equilibrium; nothing for large games.

    By regret matching with a linear average (Tammelin, 2014, arXiv:1407.5042): one fixed division, such as the best
    against chance, is beaten by another every time.
    """
    if len(divisions(soldiers, fields)) > MOST_MIXED:
        return (), ()
    plans = sorted({tuple(sorted(map(int, plan.split()))) for plan in divisions(soldiers, fields)})
    orders = [sorted(set(permutations(plan))) for plan in plans]
    payoffs = [[sum(won(plan, other) for other in order) / len(order) for order in orders] for plan in plans]
    regrets, average = [0.0] * len(plans), [0.0] * len(plans)
    for step in range(1, MIXING_STEPS + 1):
        total = sum(regrets)
        mixture = [regret / total for regret in regrets] if total else [1 / len(plans)] * len(plans)
        gains = [sum(map(mul, row, mixture)) for row in payoffs]
        regrets = [max(0.0, regret + gain) for regret, gain in zip(regrets, gains, strict=True)]  # the value is 0
        average = [weight + step * share for weight, share in zip(average, mixture, strict=True)]
    return tuple(plans), tuple(average)


def won(plan: Sequence[int], other: Sequence[int]) -> int:
    """1, 0 or -1: whether a division wins more fields than another."""
    lead = sum((a > b) - (a < b) for a, b in zip(plan, other, strict=True))
    return (lead > 0) - (lead < 0)


@lru_cache(maxsize=16)
def best_divisions(soldiers: int, fields: int) -> tuple[str, ...]:
    plans = [tuple(map(int, plan.split())) for plan in divisions(soldiers, fields)][
        :: max(1, soldiers**fields // 40_000)
    ]

    def worth(plan: tuple[int, ...]) -> int:
        return sum(won(plan, other) for other in plans)

    worths = {plan: worth(plan) for plan in plans}
    best = max(worths.values())
    return tuple(" ".join(map(str, plan)) for plan, value in worths.items() if value >= best - 2)
