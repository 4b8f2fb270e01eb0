"""Auctions with sealed bids, of the first and of the second price."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import NamedTuple

from rlvr.envs.players.bots import bot_odds
from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly

HIDDEN = -1


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
    decisions = 1
    first_state = AuctionState()
    perfect_information = False
    zero_sum = False
    nouns = ("bid", "coins")
    default_rounds = 6
    reward = "expected"
    stake = 1.5

    def __init__(self, *, seats: int = 3, most: int = 20, second_price: bool = False) -> None:
        check_range("seats", seats, 2, 6)
        check_range("most", most, 2, 100)
        self.seats, self.most, self.second_price = seats, most, second_price
        self.lowest, self.highest = -float(most), float(most)
        self._below: dict[tuple[str, int], tuple[float, ...]] = {}

    def rules(self) -> str:
        pays = "the second highest bid" if self.second_price else "its own bid"
        return (
            f"An auction with sealed bids among {self.seats} seats. The thing is worth a number from 1 to {self.most} "
            "to each seat, drawn for each alone and known to it alone. All bid at the same time, a whole number from 0 "
            f"to {self.most}. The highest bid wins (of equal bids, that of the seat with the lowest number), and its "
            f"seat pays {pays}. The winner's gain is the value less the price; everybody else's is 0."
        )

    def actors(self, state: AuctionState) -> tuple[int, ...]:
        if len(state.values) < self.seats:
            return (CHANCE,)
        return () if state.bids else tuple(range(self.seats))

    def chance(self, state: AuctionState) -> list[tuple[str, float]]:
        return evenly(range(1, self.most + 1))

    def witnesses(self, state: AuctionState, actor: int) -> Sequence[int]:
        return (len(state.values),) if actor == CHANCE else range(self.seats)

    def legal(self, state: AuctionState, seat: int) -> list[str]:
        return [str(bid) for bid in range(self.most + 1)]

    def apply(self, state: AuctionState, seat: int, move: str) -> AuctionState:
        return AuctionState((*state.values, int(move)))

    def apply_all(self, state: AuctionState, moves: Mapping[int, str]) -> AuctionState:
        return state._replace(bids=tuple(int(moves[seat]) for seat in range(self.seats)))

    def returns(self, state: AuctionState) -> tuple[float, ...]:
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

    def expert_odds(self, view: AuctionState, seat: int) -> dict[str, float]:
        return {self.expert(view, seat, random.Random(0)): 1.0}

    def move_values(self, view: AuctionState, seat: int, opponents: tuple[str, ...]) -> dict[str, float]:
        """The expected gain of each bid, from how probable each highest bid of the others is."""
        value, bids = view.values[seat], range(self.most + 1)
        below = [self._bids_below(name, other) for other, name in enumerate(opponents) if other != seat]
        values = {}
        for bid in bids:
            # the others' highest bid is lower, or as high and of a seat with a higher number
            ahead, after = below[:seat], below[seat:]
            wins = prod(row[bid] for row in ahead) * prod(row[bid + 1] for row in after)
            gain = wins * (value - bid)
            if self.second_price:  # for each coin that the highest of the others' bids is lower, one is saved
                gain += sum(prod(row[price] for row in below) for price in range(1, bid + 1))
            values[str(bid)] = gain
        return values

    def _bids_below(self, name: str, seat: int) -> tuple[float, ...]:
        """The probability that a bot bids less than 0, 1, …, ``most`` + 1 coins."""
        if (name, seat) not in self._below:
            shares = [0.0] * (self.most + 1)
            for value in range(1, self.most + 1):
                values = tuple(value if at == seat else HIDDEN for at in range(self.seats))
                for bid, share in bot_odds(name, self, AuctionState(values), seat).items():
                    shares[int(bid)] += share / self.most
            self._below[name, seat] = tuple(accumulate(shares, initial=0.0))
        return self._below[name, seat]
