"""Games in which all seats move at once: goofspiel, blotto, matrix games and auctions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from operator import mul
from typing import Any, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame

HIDDEN = -1
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
    nouns = ("card", "bid")
    perfect_information = False

    def __init__(self, *, cards: int = 5) -> None:
        if not 2 <= cards <= 13:
            raise ValueError(f"cards must be 2 to 13, not {cards}")
        self.cards = cards

    @property
    def decisions(self) -> int:
        """One bid for each card."""
        return self.cards

    def rules(self) -> str:
        return (
            f"Goofspiel. Each seat has the cards 1 to {self.cards}, and the prizes 1 to {self.cards} are shown one by "
            "one in random order. For each prize both seats bid one card of their hand at the same time; the higher "
            "bid takes the prize; if the bids are equal, nobody gets it. Bids are shown afterwards and are used up. "
            "The higher sum of prizes wins. A move is the number of a card."
        )

    def start(self) -> GoofspielState:
        return GoofspielState()

    def actors(self, state: GoofspielState) -> tuple[int, ...]:
        """Chance shows a prize, then both seats bid at once; over when the hands are empty."""
        if len(state.bids[0]) == self.cards:
            return ()
        return (CHANCE,) if len(state.prizes) == len(state.bids[0]) else (0, 1)

    def chance(self, state: GoofspielState) -> list[tuple[str, float]]:
        """Every prize not shown yet, each with the same probability."""
        left = [prize for prize in range(1, self.cards + 1) if prize not in state.prizes]
        return [(str(prize), 1 / len(left)) for prize in left]

    def legal(self, state: GoofspielState, seat: int) -> list[str]:
        return [str(card) for card in range(1, self.cards + 1) if card not in state.bids[seat]]

    def apply(self, state: GoofspielState, seat: int, move: str) -> GoofspielState:
        """Only chance moves alone: the prize it shows."""
        return state._replace(prizes=(*state.prizes, int(move)))

    def apply_all(self, state: GoofspielState, moves: Mapping[int, str]) -> GoofspielState:
        return state._replace(bids=tuple((*own, int(moves[seat])) for seat, own in enumerate(state.bids)))

    @staticmethod
    def points(state: GoofspielState) -> list[int]:
        """What each seat has won so far."""
        sums = [0, 0]
        for prize, first, second in zip(state.prizes, *state.bids, strict=False):
            if first != second:
                sums[0 if first > second else 1] += prize
        return sums

    def returns(self, state: GoofspielState) -> tuple[float, ...]:
        """1, 0 or -1 by the greater sum of prizes; how much greater does not count."""
        first, second = self.points(state)
        value = float((first > second) - (first < second))
        return (value, -value)

    def show(self, view: GoofspielState, seat: int) -> str:
        """All bids so far, the prize now, the own hand, and both sums."""
        points = self.points(view)
        bids = ", ".join(
            f"prize {prize} (you {own}, other {other})"
            for prize, own, other in zip(view.prizes, view.bids[seat], view.bids[1 - seat], strict=False)
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
    perfect_information = False
    nouns = ("soldiers", "fields")

    def __init__(self, *, soldiers: int = 10, fields: int = 3) -> None:
        if not (1 <= soldiers <= 50 and 2 <= fields <= 5):
            raise ValueError(f"1 to 50 soldiers and 2 to 5 fields, not {soldiers} and {fields}")
        self.soldiers, self.fields = soldiers, fields

    @property
    def decisions(self) -> int:
        """One: both divisions are named at once."""
        return 1

    def rules(self) -> str:
        return (
            f"Colonel Blotto. Both seats divide {self.soldiers} soldiers over {self.fields} fields at the same time. "
            "Whoever sends more soldiers to a field wins it; equal numbers win it for nobody. Whoever wins more "
            "fields wins the game. "
            f"A move is {self.fields} whole numbers with blanks between them, which add up to {self.soldiers}."
        )

    def start(self) -> BlottoState:
        return BlottoState()

    def actors(self, state: BlottoState) -> tuple[int, ...]:
        return () if state.plans else (0, 1)

    def legal(self, state: BlottoState, seat: int) -> Sequence[str]:
        """Every division of all soldiers, from (0, ..., all) on."""
        return divisions(self.soldiers, self.fields)

    def is_legal(self, state: BlottoState, seat: int, move: str) -> bool:
        """By a set, where listing all divisions would take long."""
        return move in division_set(self.soldiers, self.fields)

    def apply_all(self, state: BlottoState, moves: Mapping[int, str]) -> BlottoState:
        return BlottoState(tuple(tuple(map(int, moves[seat].split())) for seat in (0, 1)))

    def returns(self, state: BlottoState) -> tuple[float, ...]:
        """1, 0 or -1 by the number of fields won, not by their soldiers."""
        value = float(won(*state.plans))
        return (value, -value)

    def show(self, view: BlottoState, seat: int) -> str:
        """The task before the move; both divisions after it."""
        if not view.plans:
            return f"Divide your {self.soldiers} soldiers over the {self.fields} fields."
        own, other = (" ".join(map(str, view.plans[who])) for who in (seat, 1 - seat))
        return f"Your division: {own}. The other seat's: {other}."

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


# Payoffs of seat 0 and seat 1 for each pair of moves.
MATRICES: dict[str, dict[str, Any]] = {
    "prisoners_dilemma": {
        "title": "The iterated prisoner's dilemma",
        "moves": ("cooperate", "defect"),
        "payoffs": (((3, 3), (0, 5)), ((5, 0), (1, 1))),
        "par": 2.5,
    },
    "stag_hunt": {
        "title": "The iterated stag hunt",
        "moves": ("stag", "hare"),
        "payoffs": (((4, 4), (0, 3)), ((3, 0), (2, 2))),
        "par": 2.5,
    },
    "chicken": {
        "title": "The iterated game of chicken",
        "moves": ("swerve", "straight"),
        "payoffs": (((3, 3), (2, 4)), ((4, 2), (0, 0))),
        "par": 2.5,
    },
    "rock_paper_scissors": {
        "title": "Rock, paper, scissors in rounds",
        "moves": ("rock", "paper", "scissors"),
        "payoffs": (((0, 0), (-1, 1), (1, -1)), ((1, -1), (0, 0), (-1, 1)), ((-1, 1), (1, -1), (0, 0))),
        "par": None,
    },
    "matching_pennies": {
        "title": "Matching pennies in rounds",
        "moves": ("heads", "tails"),
        "payoffs": (((1, -1), (-1, 1)), ((-1, 1), (1, -1))),
        "par": None,
    },
}


class RoundsState(NamedTuple):
    """The pairs of moves so far."""

    played: tuple[tuple[str, str], ...] = ()


class MatrixGame(SeatGame[RoundsState]):
    """A matrix game played for several rounds, with stated payoffs.

    In a game of pure conflict the greater sum wins. Else the reward is one's sum as a share of ``par`` a round.

    Args:
        matrix: a name of ``MATRICES``.
        rounds: how many.
    """

    perfect_information = False
    zero_sum = False

    def __init__(self, *, matrix: str = "prisoners_dilemma", rounds: int = 6) -> None:
        if matrix not in MATRICES:
            raise ValueError(f"there is no matrix {matrix!r}; there are {', '.join(MATRICES)}")
        if not 1 <= rounds <= 100:
            raise ValueError(f"rounds must be 1 to 100, not {rounds}")
        self.matrix, self.rounds = matrix, rounds
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

    @property
    def decisions(self) -> int:
        return self.rounds

    def rules(self) -> str:
        """Payoffs of both seats for each pair of moves, and what counts as success."""
        rows = [
            f"{mine} against {theirs}: {self.payoffs[a][b][0]} for seat 0, {self.payoffs[a][b][1]} for seat 1."
            for a, mine in enumerate(self.moves)
            for b, theirs in enumerate(self.moves)
        ]
        goal = "The greater sum wins."
        if self.par is not None:
            goal = f"Each seat wants a large sum for itself; {self.par * self.rounds:g} or more is a full success."
        return (
            f"{self.title}. For {self.rounds} rounds both seats move at the same time; a move is "
            f"{', '.join(self.moves[:-1])} or {self.moves[-1]}. The points of a round, seat 0's move first:\n"
            + "\n".join(rows)
            + f"\n{goal}"
        )

    def start(self) -> RoundsState:
        return RoundsState()

    def actors(self, state: RoundsState) -> tuple[int, ...]:
        """Both seats in every round, until the rounds are played."""
        return (0, 1) if len(state.played) < self.rounds else ()

    def legal(self, state: RoundsState, seat: int) -> tuple[str, ...]:
        moves: tuple[str, ...] = self.moves
        return moves

    def apply_all(self, state: RoundsState, moves: Mapping[int, str]) -> RoundsState:
        return RoundsState((*state.played, (moves[0], moves[1])))

    def returns(self, state: RoundsState) -> tuple[float, ...]:
        """The sums of points over all rounds."""
        pairs = [self.payoffs[self.moves.index(a)][self.moves.index(b)] for a, b in state.played]
        return float(sum(a for a, _ in pairs)), float(sum(b for _, b in pairs))

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        """The greater sum wins in pure conflict; else the own sum over ``par`` a round, cut to [0, 1]."""
        if self.par is None:
            return super().outcome(returns, seat)
        return max(0.0, min(1.0, returns[seat] / float(self.par * self.rounds)))

    def show(self, view: RoundsState, seat: int) -> str:
        """The pairs of moves so far, the own move first, and both sums."""
        text = "; ".join(f"you {pair[seat]}, other {pair[1 - seat]}" for pair in view.played)
        sums = self.returns(view)
        return f"Rounds so far: {text or 'none'}. Points: you {sums[seat]:g}, other {sums[1 - seat]:g}."

    def expert(self, view: RoundsState, seat: int, rng: random.Random) -> str:
        """Cooperates with whoever answers as it was treated, and plays safe or selfish against the others.

        In a game of pure conflict, the equilibrium: every move is as likely as the others.
        """
        if self.par is not None:
            first = str(self.moves[0])
            own, other = ([pair[who] for pair in view.played] for who in (seat, 1 - seat))
            answers = other == [first, *own][: len(other)]
            return first if answers or self.matrix == "chicken" else str(self.moves[1])
        return str(rng.choice(self.moves))


class AuctionState(NamedTuple):
    """``values`` of the seats, -1 where hidden; ``bids`` when all have bid; ``dealt`` counts the values drawn."""

    values: tuple[int, ...] = ()
    bids: tuple[int, ...] = ()


class SealedAuction(SeatGame[AuctionState]):
    """An auction with sealed bids: the highest bid buys, and everybody knows only the own value.

    Args:
        seats: 2 to 6.
        most: the highest value.
        second_price: whether the winner pays the second bid; then bidding one's value is the best there is.
    """

    title = "Sealed-bid auction"
    perfect_information = False
    zero_sum = False
    nouns = ("bid", "coins")

    def __init__(self, *, seats: int = 3, most: int = 20, second_price: bool = False) -> None:
        if not 2 <= seats <= 6:
            raise ValueError(f"an auction has 2 to 6 seats, not {seats}")
        if not 2 <= most <= 100:
            raise ValueError(f"the highest value must be 2 to 100, not {most}")
        self.seats, self.most, self.second_price = seats, most, second_price
        self.lowest, self.highest = -float(most), float(most)

    @property
    def decisions(self) -> int:
        return 1

    def rules(self) -> str:
        """The range of values, the price, and that the first of equal bids wins."""
        pays = "the second highest bid" if self.second_price else "its own bid"
        return (
            f"An auction with sealed bids among {self.seats} seats. The thing is worth a number from 1 to {self.most} "
            "to each seat, drawn for each alone and known to it alone. All bid at the same time, a whole number from 0 "
            f"to {self.most}. The highest bid wins (of equal bids, that of the seat with the lowest number), and its "
            f"seat pays {pays}. The winner's gain is the value less the price; everybody else's is 0. The game is won "
            "by gaining more than every other seat."
        )

    def start(self) -> AuctionState:
        return AuctionState()

    def actors(self, state: AuctionState) -> tuple[int, ...]:
        """Chance draws a value for each seat, then all bid at once."""
        if len(state.values) < self.seats:
            return (CHANCE,)
        return () if state.bids else tuple(range(self.seats))

    def chance(self, state: AuctionState) -> list[tuple[str, float]]:
        return [(str(value), 1 / self.most) for value in range(1, self.most + 1)]

    def witnesses(self, state: AuctionState, actor: int) -> Sequence[int]:
        """A drawn value is seen by its seat alone, the bids by all."""
        return (len(state.values),) if actor == CHANCE else range(self.seats)

    def legal(self, state: AuctionState, seat: int) -> list[str]:
        """Whole numbers from 0 to the highest value, above the own value too."""
        return [str(bid) for bid in range(self.most + 1)]

    def apply(self, state: AuctionState, seat: int, move: str) -> AuctionState:
        return AuctionState((*state.values, int(move)))

    def apply_all(self, state: AuctionState, moves: Mapping[int, str]) -> AuctionState:
        return state._replace(bids=tuple(int(moves[seat]) for seat in range(self.seats)))

    def returns(self, state: AuctionState) -> tuple[float, ...]:
        """Value less price for the winner, which may be negative, 0 for all others."""
        winner = state.bids.index(max(state.bids))
        price = sorted(state.bids)[-2] if self.second_price else state.bids[winner]
        return tuple(float(state.values[winner] - price) if seat == winner else 0.0 for seat in range(self.seats))

    def view(self, state: AuctionState, seat: int) -> AuctionState:
        """Hides the values of the other seats, also after the auction."""
        return state._replace(values=tuple(v if at == seat else HIDDEN for at, v in enumerate(state.values)))

    def show(self, view: AuctionState, seat: int) -> str:
        bids = f" Bids: {', '.join(map(str, view.bids))}." if view.bids else ""
        return f"The thing is worth {view.values[seat]} to you.{bids}"

    def expert(self, view: AuctionState, seat: int, rng: random.Random) -> str:
        """The equilibrium for evenly spread values: the value itself, or (n - 1) / n of it in a first-price auction."""
        value = view.values[seat]
        return str(value if self.second_price else value * (self.seats - 1) // self.seats)
