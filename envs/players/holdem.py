"""A small no-limit hold'em for two: 24 cards, a hidden pair, three shared cards, and bets of any size."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly

RANKS: Final = "9tjqka"
SUITS: Final = "cdhs"
DECK: Final = tuple(rank + suit for rank in RANKS for suit in SUITS)
HIDDEN: Final = "??"
BLINDS: Final = (1, 2)


class HoldemState(NamedTuple):
    """``hands`` of both seats and the ``board``, cards such as ``kh``; ``moves`` of each round, ``folded`` or -1.

    ``spent`` counts chips since the deal, ``step`` is the least that a raise must add to the higher of them.
    """

    hands: tuple[tuple[str, ...], ...] = ((), ())
    board: tuple[str, ...] = ()
    moves: tuple[tuple[str, ...], ...] = ((),)
    spent: tuple[int, int] = BLINDS
    step: int = 2
    folded: int = -1


class NoLimitHoldem(SeatGame[HoldemState]):
    """No-limit hold'em with 24 cards: two hidden cards, three shared ones, two rounds of bets up to all chips.

    Args:
        stack: chips of each seat.
    """

    title = "Small no-limit hold'em"
    first_state = HoldemState()
    perfect_information = False
    nouns = ("chips", "chip")
    default_rounds = 10
    reward = "payoff"
    swing = 3.0
    level_bots = ("mixed:0.5", "mixed:0.4", "mixed:0.35")

    def __init__(self, *, stack: int = 20) -> None:
        check_range("stack", stack, 4, 50)
        self.stack = stack
        self.lowest, self.highest = -float(stack), float(stack)
        # each raise adds two chips at least, and each round has a call or a check besides
        self.decisions = self.stack // 2 + 2

    def rules(self) -> str:
        return (
            "Small no-limit hold'em for two. The deck has 24 cards: the ranks 9, t (ten), j, q, k and a (the highest), "
            "each in the suits c, d, h and s. Each seat has two hidden cards and "
            f"{self.stack} chips. Seat 0 puts 1 chip into the pot and seat 1 puts 2. There are two rounds of bets; "
            "before the second, three shared cards are shown. Seat 0 begins the first round and seat 1 the second. A "
            "move is call (put in as much as the other; with nothing to pay this is a check), fold (when there is "
            "something to pay), or raise N, where N is all that you have put in since the deal; a raise must add at "
            "least as much as the last raise, at least 2, or be all your chips. When all chips are in, the cards are "
            "shown. The better hand of five cards, two of its own and the three shared, wins the pot: straight flush, "
            "four of a kind, full house, flush, straight, three of a kind, two pairs, pair, high card. Equal hands "
            "share it."
        )

    def actors(self, state: HoldemState) -> tuple[int, ...]:
        if len(state.hands[1]) < 2:
            return (CHANCE,)
        if state.folded >= 0:
            return ()
        if self._closed(state):
            return (CHANCE,) if len(state.board) < 3 else ()
        if len(state.moves) == 2 and len(state.board) < 3:
            return (CHANCE,)
        return ((len(state.moves[-1]) + len(state.moves) - 1) % 2,)

    def _closed(self, state: HoldemState) -> bool:
        """Whether nobody bets any more: all chips are in, or the second round is over."""
        return (min(state.spent) == self.stack) or (len(state.moves) == 2 and round_over(state.moves[-1]))

    def chance(self, state: HoldemState) -> list[tuple[str, float]]:
        dealt = {*state.hands[0], *state.hands[1], *state.board}
        return evenly([card for card in DECK if card not in dealt])

    def witnesses(self, state: HoldemState, actor: int) -> Sequence[int]:
        if actor == CHANCE and len(state.hands[1]) < 2:
            return (0 if len(state.hands[0]) < 2 else 1,)
        return (0, 1)

    def legal(self, state: HoldemState, seat: int) -> list[str]:
        highest, spent = max(state.spent), state.spent[seat]
        moves = ["fold", "call"] if spent < highest else ["call"]
        if highest < self.stack:
            moves += [f"raise {size}" for size in range(min(highest + state.step, self.stack), self.stack + 1)]
        return moves

    def parse(self, view: HoldemState, seat: int, words: str) -> str:
        """Also reads ``check``, ``raise to 6`` and ``all in``; not ``bet 6``, which may mean 6 chips more."""
        words = super().parse(view, seat, words)
        if words in ("all in", "all-in", "raise all in"):
            return f"raise {self.stack}"
        if words == "check":
            return "call" if view.spent[0] == view.spent[1] else words
        return words.replace("raise to ", "raise ")

    def apply(self, state: HoldemState, seat: int, move: str) -> HoldemState:
        if seat == CHANCE:
            first, second = state.hands
            if len(first) < 2:
                return state._replace(hands=((*first, move), second))
            if len(second) < 2:
                return state._replace(hands=(first, (*second, move)))
            return state._replace(board=(*state.board, move))
        spent, highest = list(state.spent), max(state.spent)
        moves = (*state.moves[:-1], (*state.moves[-1], move))
        if move == "fold":
            return state._replace(moves=moves, folded=seat)
        if move == "call":
            spent[seat] = highest
            if len(moves) == 1 and round_over(moves[-1]):
                return state._replace(moves=(*moves, ()), spent=(highest, highest), step=BLINDS[1])
            return state._replace(moves=moves, spent=(spent[0], spent[1]))
        spent[seat] = int(move.split()[1])
        step = max(state.step, spent[seat] - highest)
        return state._replace(moves=moves, spent=(spent[0], spent[1]), step=step)

    def returns(self, state: HoldemState) -> tuple[float, ...]:
        if state.folded >= 0:
            loser = state.folded
        else:
            first, second = (strength((*hand, *state.board)) for hand in state.hands)
            if first == second:
                return (0.0, 0.0)
            loser = 0 if first < second else 1
        lost = float(state.spent[loser])
        return (-lost, lost) if loser == 0 else (lost, -lost)

    def view(self, state: HoldemState, seat: int) -> HoldemState:
        """Hides the other hand until a showdown; a fold shows nothing. The order of one's own two cards is lost."""
        over = state.folded < 0 and len(state.board) == 3 and self._closed(state)
        hands = tuple(
            tuple(sorted(hand, key=DECK.index)) if over or at == seat else (HIDDEN,) * len(hand)
            for at, hand in enumerate(state.hands)
        )
        return state._replace(hands=hands)

    def show(self, view: HoldemState, seat: int) -> str:
        parts = []
        for number, (name, moves) in enumerate(zip(("First", "Second"), view.moves, strict=False)):
            text = ", ".join(f"seat {(at + number) % 2} {spoken(move)}" for at, move in enumerate(moves))
            parts.append(f"{name} round: {text or 'no move yet'}.")
        other = view.hands[1 - seat]
        shown = "" if HIDDEN in other or not other else f" Seat {1 - seat} shows {' '.join(other)}."
        return (
            f"Your cards: {' '.join(view.hands[seat])}. Shared cards: {' '.join(view.board) or 'not yet'}. "
            f"{' '.join(parts)} You have put in {view.spent[seat]} of {self.stack} chips, the other seat "
            f"{view.spent[1 - seat]}.{shown}"
        )

    def expert(self, view: HoldemState, seat: int, rng: random.Random) -> str:
        """Raises by the least there is with a good hand; calls where the odds are right."""
        legal, spent, highest = self.legal(view, seat), view.spent[seat], max(view.spent)
        chance = equity(view.hands[seat], view.board)
        raises = [move for move in legal if move.startswith("raise")]
        if raises and chance > 0.45:
            return raises[0]
        price = (highest - spent) / (2 * highest)
        if "fold" not in legal or chance > price:
            return "call"
        return "fold"


def spoken(move: str) -> str:
    """A move in the third person."""
    return {"fold": "folds", "call": "calls"}.get(move) or move.replace("raise ", "raises to ")


def round_over(moves: Sequence[str]) -> bool:
    """Whether both have moved and the last move was a call."""
    return len(moves) > 1 and moves[-1] == "call"


@lru_cache(maxsize=100_000)
def strength(cards: tuple[str, ...]) -> tuple[int, ...]:
    """How good five cards are: the greater tuple wins."""
    ranks = sorted((RANKS.index(card[0]) for card in cards), reverse=True)
    counts = sorted(Counter(ranks).items(), key=lambda item: (-item[1], -item[0]))
    shape = tuple(count for _, count in counts)
    flush = len({card[1] for card in cards}) == 1
    straight = shape == (1,) * 5 and ranks[0] - ranks[4] == 4
    kinds = {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}
    kind = 8 if straight and flush else 5 if flush else 4 if straight else kinds.get(shape, 0)
    return (kind, *(rank for rank, _ in counts))


def equity(hand: Sequence[str], board: Sequence[str]) -> float:
    """The share of the pot that a hand wins against a random one; before the board by a rule of thumb."""
    if len(board) < 3:
        low, high = sorted(RANKS.index(card[0]) for card in hand)
        if low == high:
            return 0.6 + 0.05 * high
        return 0.3 + 0.035 * (low + high) + 0.04 * (hand[0][1] == hand[1][1])
    return _equity_on_board(tuple(sorted(hand)), tuple(sorted(board)))


@lru_cache(maxsize=4096)
def _equity_on_board(hand: tuple[str, ...], board: tuple[str, ...]) -> float:
    mine = strength((*hand, *board))
    left = [card for card in DECK if card not in hand and card not in board]
    total = 0.0
    pairs = list(combinations(left, 2))
    for pair in pairs:
        theirs = strength((*pair, *board))
        total += (mine > theirs) + 0.5 * (mine == theirs)
    return total / len(pairs)
