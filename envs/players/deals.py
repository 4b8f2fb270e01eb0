"""Negotiation with private values: over one price, and over how to divide things of several kinds.

A return is the own gain as a share of the gain in the Nash bargaining solution (Nash, "The Bargaining Problem", 1950):
the deal whose product of both gains is the greatest. After a deal both seats read all values, that deal, and whether
another one would have been better for one of them without being worse for the other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range

HIDDEN: Final = -1
WORTH: Final = 10  # what all things together are worth to each seat
NO_DEAL: Final = "quit"
LEAST_ROOM: Final = 4  # coins that a value lies above a cost, at least
LEAST_VALUE: Final = 1 + LEAST_ROOM


class _Negotiation(SeatGame[Any]):
    """Offers in turn, until one is accepted, a seat quits, or the turns are over. Moves at the end gain nothing."""

    perfect_information = False
    zero_sum = False
    highest = 2.0
    spared = 1.0  # whose partner breaks off has negotiated well
    full_success = "as much as in the Nash bargaining solution, the deal with the greatest product of both gains"

    def __init__(self, *, turns: int = 8) -> None:
        check_range("turns", turns, 2, 20)
        self.turns, self.decisions = turns, (turns + 1) // 2

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return max(0.0, min(1.0, returns[seat]))

    def payoff(self, returns: Sequence[float], seat: int) -> float:
        return max(0.0, min(1.0, returns[seat] / self.highest))

    def witnesses(self, state: Any, actor: int) -> Sequence[int]:
        return (0, 1)

    def _course(self) -> str:
        return (
            f"The seats take turns, seat 0 first, {self.turns} turns in all. A move is an offer, accept (the other's "
            "last offer), or quit, which ends without a deal. In the last turn no new offer is allowed. Without a deal "
            f"both gain 0. A deal counts as a full success for you if you gain at least {self.full_success}."
        )

    def _answers(self, offers: Sequence[str]) -> list[str]:
        """What may be played beside new offers after these."""
        return ["accept", NO_DEAL] if offers else [NO_DEAL]

    def apply(self, state: Any, seat: int, move: str) -> Any:
        if move in ("accept", NO_DEAL):
            return state._replace(end=move)
        return state._replace(offers=(*state.offers, move))

    def _over(self, offers: Sequence[str], end: str) -> bool:
        return bool(end) or len(offers) == self.turns


class PriceState(NamedTuple):
    """``limits``: the seller's cost and the buyer's value, -1 where hidden; ``offers`` in turn; ``end`` a last word."""

    limits: tuple[int, ...] = ()
    offers: tuple[str, ...] = ()
    end: str = ""


class PriceNegotiation(_Negotiation):
    """A negotiation over one price: the seller's cost and the buyer's value are known to each alone.

    Args:
        turns: of both seats together, the last of which can only accept or quit.
    """

    title = "Negotiation over a price"
    first_state = PriceState()
    nouns = ("coins", "price", "i")
    highest_price = 30
    full_success = (  # which may lie between two whole prices, so that no offer has exactly this product
        "half of what the thing is worth above its cost: that is the Nash bargaining solution, the price with the "
        "greatest product of both gains"
    )

    def __init__(self, *, turns: int = 8) -> None:
        super().__init__(turns=turns)
        self.lowest = (LEAST_VALUE - self.highest_price) / (
            LEAST_ROOM / 2
        )  # the buyer pays the most for what is worth least

    def rules(self) -> str:
        return (
            "A negotiation over a price. Seat 0 sells a thing that costs it a whole number of coins from 1 to 15; seat "
            "1 buys, and the thing is worth from 4 to 12 coins more to it than it costs the seller. Each seat knows "
            "its own number alone. If they agree on a price, the seller gains the price less the cost and the buyer "
            f"gains the value less the price. An offer is a price from 0 to {self.highest_price}, such as offer 12. "
            f"{self._course()}"
        )

    def actors(self, state: PriceState) -> tuple[int, ...]:
        if len(state.limits) < 2:
            return (CHANCE,)
        return () if self._over(state.offers, state.end) else (len(state.offers) % 2,)

    def chance(self, state: PriceState) -> list[tuple[str, float]]:
        low, high = (1, 15) if not state.limits else (state.limits[0] + LEAST_ROOM, state.limits[0] + 12)
        return [(str(number), 1 / (high - low + 1)) for number in range(low, high + 1)]

    def witnesses(self, state: PriceState, actor: int) -> Sequence[int]:
        return (len(state.limits),) if actor == CHANCE else (0, 1)

    def legal(self, state: PriceState, seat: int) -> list[str]:
        offers = (
            [f"offer {price}" for price in range(self.highest_price + 1)] if len(state.offers) < self.turns - 1 else []
        )
        return [*self._answers(state.offers), *offers]

    def parse(self, view: PriceState, seat: int, words: str) -> str:
        """Also reads ``12``, a price alone."""
        words = super().parse(view, seat, words)
        return f"offer {words}" if words.isdigit() else words

    def apply(self, state: PriceState, seat: int, move: str) -> Any:
        if seat == CHANCE:
            return state._replace(limits=(*state.limits, int(move)))
        return super().apply(state, seat, move)

    def gains(self, state: PriceState) -> tuple[int, int]:
        """Coins that the seller and the buyer gain."""
        if state.end != "accept":
            return (0, 0)
        price = price_of(state.offers[-1])
        return (price - state.limits[0], state.limits[1] - price)

    def returns(self, state: PriceState) -> tuple[float, ...]:
        half = (state.limits[1] - state.limits[0]) / 2
        return tuple(max(self.lowest, min(self.highest, gain / half)) for gain in self.gains(state))

    def view(self, state: PriceState, seat: int) -> PriceState:
        """Hides the other's limit until the end."""
        if not self.actors(state):
            return state
        return state._replace(limits=tuple(v if at == seat else HIDDEN for at, v in enumerate(state.limits)))

    def show(self, view: PriceState, seat: int) -> str:
        limit = view.limits[seat]
        head = f"You {'sell; the thing costs you' if seat == 0 else 'buy; the thing is worth'} {limit} coins"
        head += " to you." if seat else "."
        offers = ", ".join(f"seat {at % 2} {price_of(offer)}" for at, offer in enumerate(view.offers))
        text = f"{head} Offers so far: {offers or 'none'}."
        if self._over(view.offers, view.end):
            low, high = view.limits
            gains, middle = self.gains(view), (low + high) / 2
            text += (
                f" {'A deal' if view.end == 'accept' else 'No deal'}: the seller gains {gains[0]}, the buyer "
                f"{gains[1]}; the product is {gains[0] * gains[1]}. The cost was {low} and the value {high}: every "
                f"price from {low} to {high} is on the Pareto frontier, and the Nash solution is {middle:g} with "
                f"the product {((high - low) / 2) ** 2:g}."
            )
        elif HIDDEN in view.limits:
            text += f" Turns left: {self.turns - len(view.offers)}."
        return text

    def expert(self, view: PriceState, seat: int, rng: random.Random) -> str:
        """Asks for a gain of ten coins at first and of three at last, and accepts what is as good as its next offer."""
        limit, turn_now = view.limits[seat], len(view.offers)
        sign = 1 if seat == 0 else -1

        def wish(turn: int) -> int:
            return max(3, round(10 - 7 * turn / max(1, self.turns - 2)))

        if view.offers:
            gain = sign * (price_of(view.offers[-1]) - limit)
            if gain >= wish(turn_now) or (turn_now >= self.turns - 2 and gain >= 1):
                return "accept"
        if turn_now == self.turns - 1:
            return NO_DEAL
        return f"offer {max(0, min(self.highest_price, limit + sign * wish(turn_now)))}"


def price_of(offer: str) -> int:
    """The number of an offer."""
    return int(offer.split()[1])


class SharesState(NamedTuple):
    """``counts`` of each kind; ``worths`` of one thing of each kind to each seat; ``offers`` keep what they name."""

    counts: tuple[int, ...] = ()
    worths: tuple[tuple[int, ...], ...] = ()
    offers: tuple[str, ...] = ()
    end: str = ""


class ShareNegotiation(_Negotiation):
    """A negotiation over things of three kinds, which are worth different amounts to each seat.

    Lewis and others, "Deal or No Deal?" (1706.05125): all things together are worth 10 to each seat.

    Args:
        turns: of both seats together, the last of which can only accept or quit.
    """

    title = "Negotiation over things of three kinds"
    first_state = SharesState()
    nouns = ("and", "i")  # and no kind: without its noun a number would count another kind
    lowest = -1.0  # of a forfeit; no deal is worse than 0
    kinds = ("books", "hats", "balls")

    def rules(self) -> str:
        return (
            "A negotiation: two seats divide books, hats and balls. One thing of each kind is worth a whole number of "
            "points to you, and you alone know these numbers; to the other seat other numbers. All things together are "
            f"worth {WORTH} to each seat, and at least two kinds are worth something to it. An offer names how many "
            "books, hats and balls you would keep, such as keep 1 0 2; the other seat would have the rest. "
            f"{self._course()}"
        )

    def actors(self, state: SharesState) -> tuple[int, ...]:
        if len(state.worths) < 2:
            return (CHANCE,)
        return () if self._over(state.offers, state.end) else (len(state.offers) % 2,)

    def chance(self, state: SharesState) -> Sequence[tuple[str, float]]:
        if not state.counts:
            return all_counts()
        return all_worths(state.counts)

    def witnesses(self, state: SharesState, actor: int) -> Sequence[int]:
        return (len(state.worths),) if actor == CHANCE and state.counts else (0, 1)

    def legal(self, state: SharesState, seat: int) -> list[str]:
        offers = all_shares(state.counts) if len(state.offers) < self.turns - 1 else ()
        return [*self._answers(state.offers), *offers]

    def parse(self, view: SharesState, seat: int, words: str) -> str:
        """Also reads ``1 0 2``, ``offer keep 1 0 2`` and ``keep 2 balls, 1 book and 0 hats``, in any order."""
        words = super().parse(view, seat, words).removeprefix("offer ")
        bare = words.removeprefix("keep ").replace(" and ", " ").split()
        counts = bare if all(word.isdigit() for word in bare) else self._counts_by_noun(bare)
        return f"keep {' '.join(counts)}" if counts else words

    def _counts_by_noun(self, words: Sequence[str]) -> list[str]:
        """The counts in the order of ``kinds``; none unless each kind is named once, all before or all after them."""
        if len(words) != 2 * len(self.kinds):
            return []
        nouns, numbers = (words[1::2], words[::2]) if words[0].isdigit() else (words[::2], words[1::2])
        named = {f"{noun.rstrip(':').removesuffix('s')}s": number for noun, number in zip(nouns, numbers, strict=True)}
        if {*named} != {*self.kinds} or not all(number.isdigit() for number in numbers):
            return []
        return [named[kind] for kind in self.kinds]

    def apply(self, state: SharesState, seat: int, move: str) -> Any:
        if seat == CHANCE:
            numbers = tuple(map(int, move.split()))
            if not state.counts:
                return state._replace(counts=numbers)
            return state._replace(worths=(*state.worths, numbers))
        return super().apply(state, seat, move)

    def points(self, state: SharesState) -> tuple[int, int]:
        """What each seat's things are worth to it after a deal; nothing without one."""
        if state.end != "accept":
            return (0, 0)
        last = len(state.offers) - 1
        gains = points_of(state.counts, state.worths, kept_by(state.offers[last]))
        return gains if last % 2 == 0 else points_of(state.counts, state.worths, self._rest(state, last))

    @staticmethod
    def _rest(state: SharesState, at: int) -> tuple[int, ...]:
        """What the other seat would have by an offer."""
        return tuple(whole - kept for whole, kept in zip(state.counts, kept_by(state.offers[at]), strict=True))

    def returns(self, state: SharesState) -> tuple[float, ...]:
        best = nash_points(state.counts, state.worths)
        return tuple(min(self.highest, mine / nash) for mine, nash in zip(self.points(state), best, strict=True))

    def view(self, state: SharesState, seat: int) -> SharesState:
        """Hides the other's worths until the end."""
        if not self.actors(state):
            return state
        hidden = (HIDDEN,) * len(self.kinds)
        return state._replace(worths=tuple(v if at == seat else hidden for at, v in enumerate(state.worths)))

    def show(self, view: SharesState, seat: int) -> str:
        things = ", ".join(f"{kind} {count}" for kind, count in zip(self.kinds, view.counts, strict=True))
        offers = ", ".join(f"seat {at % 2} would {offer}" for at, offer in enumerate(view.offers))
        worths = ", ".join(f"{kind} {value}" for kind, value in zip(self.kinds, view.worths[seat], strict=True))
        text = f"To divide: {things}. Worth of one to you: {worths}. Offers so far: {offers or 'none'}."
        if not self._over(view.offers, view.end):
            return f"{text} Turns left: {self.turns - len(view.offers)}."
        theirs = ", ".join(f"{kind} {value}" for kind, value in zip(self.kinds, view.worths[1 - seat], strict=True))
        points = self.points(view)
        frontier = pareto_points(view.counts, view.worths)
        best = nash_points(view.counts, view.worths)
        return (
            f"{text} Worth of one to the other seat: {theirs}. "
            f"{'A deal' if view.end == 'accept' else 'No deal'}: seat 0 has {points[0]} points, seat 1 {points[1]}; "
            f"this is {'' if points in frontier else 'not '}on the Pareto frontier, which is "
            f"{', '.join(f'{a}-{b}' for a, b in frontier)}. The Nash solution is {best[0]}-{best[1]} with the product "
            f"{best[0] * best[1]}; yours is {points[0] * points[1]}."
        )

    def expert(self, view: SharesState, seat: int, rng: random.Random) -> str:
        """Asks for ten points at first and for five at last, and leaves the other what its offers kept most of."""
        turn_now, worths = len(view.offers), view.worths[seat]

        def wish(turn: int) -> float:
            return WORTH - 5 * turn / max(1, self.turns - 2)

        def mine(share: Sequence[int]) -> int:
            return sum(count * value for count, value in zip(share, worths, strict=True))

        if view.offers:
            offered = mine(self._rest(view, turn_now - 1))
            if offered >= wish(turn_now) or (turn_now >= self.turns - 2 and offered >= 3):
                return "accept"
        if turn_now == self.turns - 1:
            return NO_DEAL
        kept = [kept_by(view.offers[at]) for at in range(1 - seat, turn_now, 2)]
        wanted = [1 + sum(share[kind] / view.counts[kind] for share in kept) for kind in range(len(self.kinds))]

        def worth(offer: str) -> tuple[float, float]:
            share = kept_by(offer)
            shares = zip(view.counts, share, wanted, strict=True)
            return (sum((whole - keep) * want for whole, keep, want in shares), rng.random())

        good = [offer for offer in all_shares(view.counts) if mine(kept_by(offer)) >= wish(turn_now)]
        return max(good, key=worth)


def kept_by(offer: str) -> tuple[int, ...]:
    """The counts that an offer keeps."""
    return tuple(map(int, offer.split()[1:]))


@lru_cache(maxsize=1)
def all_counts() -> tuple[tuple[str, float], ...]:
    """One to three things of each kind, five to seven in all."""
    options = [counts for counts in product(range(1, 4), repeat=3) if 5 <= sum(counts) <= 7]
    return tuple((" ".join(map(str, counts)), 1 / len(options)) for counts in options)


@lru_cache(maxsize=64)
def all_worths(counts: tuple[int, ...]) -> tuple[tuple[str, float], ...]:
    """Worths of each kind that make all things worth ten, at least two of them more than 0."""
    options = [
        worths
        for worths in product(range(WORTH + 1), repeat=len(counts))
        if sum(map(int.__mul__, counts, worths)) == WORTH and sum(value > 0 for value in worths) >= 2
    ]
    return tuple((" ".join(map(str, worths)), 1 / len(options)) for worths in options)


@lru_cache(maxsize=64)
def all_shares(counts: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"keep {' '.join(map(str, share))}" for share in product(*(range(count + 1) for count in counts)))


def points_of(counts: Sequence[int], worths: Sequence[Sequence[int]], share: Sequence[int]) -> tuple[int, int]:
    """The points of both seats where seat 0 has a share and seat 1 the rest."""
    first = sum(have * value for have, value in zip(share, worths[0], strict=True))
    second = sum((whole - have) * value for whole, have, value in zip(counts, share, worths[1], strict=True))
    return (first, second)


@lru_cache(maxsize=4096)
def pareto_points(counts: tuple[int, ...], worths: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int], ...]:
    """The points of deals that none beats for one seat without being worse for the other; seat 0's rise."""
    deals = {points_of(counts, worths, share) for share in product(*(range(count + 1) for count in counts))}
    return tuple(
        sorted(deal for deal in deals if not any(o != deal and o[0] >= deal[0] and o[1] >= deal[1] for o in deals))
    )


def nash_points(counts: tuple[int, ...], worths: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """The points of the deal with the greatest product; of several the one that is most equal, then seat 0's lower."""
    return max(pareto_points(counts, worths), key=lambda deal: (deal[0] * deal[1], -abs(deal[0] - deal[1]), -deal[0]))
