"""Poker with few cards: Kuhn's game of one card each, and Leduc hold'em."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rlvr.envs.players.bots import bot_odds
from rlvr.envs.players.exploitability import BestResponse, best_response
from rlvr.envs.players.game import CHANCE, SeatGame, evenly

HIDDEN = "?"


class SmallPoker(SeatGame[Any]):
    """A poker for two whose tree is small enough to be walked: the value of every move against a bot is exact."""

    perfect_information = False
    default_rounds = 8
    reward = "expected"

    def __init__(self) -> None:
        self._responses: dict[tuple[int, str], BestResponse] = {}

    def move_values(self, view: Any, seat: int, opponents: tuple[str, ...]) -> Mapping[str, float] | None:
        """By a walk of the whole tree, once for each bot and seat."""
        name = opponents[1 - seat]
        response = self._responses.get((seat, name))
        if response is None:
            response = best_response(self, lambda at, mover, _: bot_odds(name, self, at, mover), seat)
            self._responses[seat, name] = response
        return response.move_values(view)

    def expert(self, view: Any, seat: int, rng: random.Random) -> str:
        """A move drawn with its ``expert_odds``."""
        odds = self.expert_odds(view, seat)
        return rng.choices([*odds], [*odds.values()])[0]


class KuhnState(NamedTuple):
    """``cards`` has one letter a seat, ``?`` where hidden; ``moves`` the first letters of the moves so far."""

    cards: str = ""
    moves: str = ""


class KuhnPoker(SmallPoker):
    """Kuhn poker: one card each, one bet, and bluffing that pays.

    Kuhn, "A simplified two-person poker" (1950): each puts in one chip, and may bet one more.
    """

    title = "Kuhn poker"
    decisions = 2  # two: seat 0 may have to answer a bet after its check
    first_state = KuhnState()
    lowest, highest = -2.0, 2.0
    stake = 0.4
    ranks = "jqk"

    def rules(self) -> str:
        return (
            "Kuhn poker. The deck is j, q and k; k is the highest. Both seats put one chip into the pot, and each has "
            "one hidden card. Seat 0 may check or bet one chip. After a check, seat 1 may check or bet. After a bet, "
            "the other seat may call with one chip or fold. Whoever folds loses the pot, otherwise the higher card "
            "wins it."
        )

    def actors(self, state: KuhnState) -> tuple[int, ...]:
        if len(state.cards) < 2:
            return (CHANCE,)
        if state.moves in ("", "cb"):
            return (0,)
        return (1,) if state.moves in ("c", "b") else ()

    def chance(self, state: KuhnState) -> list[tuple[str, float]]:
        return evenly([rank for rank in self.ranks if rank not in state.cards])

    def witnesses(self, state: KuhnState, actor: int) -> Sequence[int]:
        return (len(state.cards),) if actor == CHANCE else (0, 1)

    def legal(self, state: KuhnState, seat: int) -> tuple[str, ...]:
        return ("fold", "call") if state.moves.endswith("b") else ("check", "bet")

    def apply(self, state: KuhnState, seat: int, move: str) -> KuhnState:
        if seat == CHANCE:
            return KuhnState(state.cards + move, "")
        return KuhnState(state.cards, state.moves + {"check": "c", "bet": "b", "fold": "f", "call": "k"}[move])

    def returns(self, state: KuhnState) -> tuple[float, ...]:
        if state.moves.endswith("f"):
            winner, size = (0 if state.moves == "bf" else 1), 1.0
        else:
            winner = 0 if self.ranks.index(state.cards[0]) > self.ranks.index(state.cards[1]) else 1
            size = 2.0 if state.moves.endswith("k") else 1.0
        return (size, -size) if winner == 0 else (-size, size)

    def view(self, state: KuhnState, seat: int) -> KuhnState:
        """Hides the other card, but at a showdown; a fold shows nothing."""
        over = state.moves.endswith("k") or state.moves == "cc"
        cards = "".join(card if over or at == seat else HIDDEN for at, card in enumerate(state.cards))
        return KuhnState(cards, state.moves)

    def show(self, view: KuhnState, seat: int) -> str:
        words = {"c": "check", "b": "bet", "f": "fold", "k": "call"}
        moves = ", ".join(f"seat {at % 2} {words[move]}s" for at, move in enumerate(view.moves)) or "none"
        shown = "" if HIDDEN in view.cards else f" Seat {1 - seat} shows {view.cards[1 - seat]}."
        return f"Your card: {view.cards[seat]}. Moves so far: {moves}.{shown}"

    def expert_odds(self, view: KuhnState, seat: int) -> dict[str, float]:
        """An equilibrium (the one in which seat 0 bluffs with a third of its jacks)."""
        card, facing = view.cards[seat], view.moves.endswith("b")
        if facing:
            call = {"j": 0.0, "q": 1 / 3 + (1 / 3 if seat == 0 else 0), "k": 1.0}[card]
            return {"call": call, "fold": 1 - call}
        bet = {"j": 1 / 3, "q": 0.0, "k": 1.0}[card]
        return {"bet": bet, "check": 1 - bet}


class LeducState(NamedTuple):
    """``cards`` of both seats, ``board`` the public card or nothing, ``rounds`` the letters of each round's moves."""

    cards: str = ""
    board: str = ""
    rounds: tuple[str, ...] = ("",)


class LeducPoker(SmallPoker):
    """Leduc hold'em: two rounds of bets around one hidden card and one public card.

    Southey and others, "Bayes' Bluff" (2005): two jacks, queens and kings; two raises a round, of 2 and of 4 chips.
    """

    title = "Leduc hold'em"
    decisions = 4  # four: two in each round at most
    first_state = LeducState()
    lowest, highest = -13.0, 13.0
    stake = 2.5
    ranks = "jqk"

    def rules(self) -> str:
        return (
            "Leduc hold'em. The deck is two each of j, q and k; k is the highest. Both seats put one chip into the pot "
            "and have one hidden card. There are two rounds of bets; before the second, one public card is shown. Seat "
            "0 begins each round. A seat may call (put in as much as the other; with nothing to pay this is a check), "
            "raise (by 2 chips in the first round, by 4 in the second; at most two raises a round) or, when it has to "
            "pay, fold. A pair with the public card wins the pot, else the higher card; equal cards share it."
        )

    def actors(self, state: LeducState) -> tuple[int, ...]:
        if len(state.cards) < 2:
            return (CHANCE,)
        last = state.rounds[-1]
        if last.endswith("f"):
            return ()
        if last.endswith("c") and len(last) > 1:  # a call after any move ends a round
            return ()
        if len(state.rounds) == 2 and not state.board:
            return (CHANCE,)
        return (len(last) % 2,)

    def chance(self, state: LeducState) -> list[tuple[str, float]]:
        left = {rank: 2 - state.cards.count(rank) for rank in self.ranks}
        whole = sum(left.values())
        return [(rank, count / whole) for rank, count in left.items() if count]

    def witnesses(self, state: LeducState, actor: int) -> Sequence[int]:
        if actor == CHANCE and len(state.cards) < 2:
            return (len(state.cards),)
        return (0, 1)

    def legal(self, state: LeducState, seat: int) -> tuple[str, ...]:
        last = state.rounds[-1]
        moves = ("fold", "call") if last.endswith("r") else ("call",)
        return moves if last.count("r") == 2 else (*moves, "raise")

    def apply(self, state: LeducState, seat: int, move: str) -> LeducState:
        if seat == CHANCE:
            if len(state.cards) < 2:
                return state._replace(cards=state.cards + move)
            return state._replace(board=move)
        last = state.rounds[-1] + move[0]
        rounds = (*state.rounds[:-1], last)
        if move == "call" and len(last) > 1 and len(rounds) == 1:
            rounds = (*rounds, "")
        return state._replace(rounds=rounds)

    @staticmethod
    def paid(state: LeducState) -> list[int]:
        """The chips that each seat has put in."""
        chips = [1, 1]
        for number, moves in enumerate(state.rounds):
            for at, move in enumerate(moves):
                seat = at % 2
                if move in "cr":
                    chips[seat] = chips[1 - seat] + (2 + 2 * number if move == "r" else 0)
        return chips

    def returns(self, state: LeducState) -> tuple[float, ...]:
        chips, last = self.paid(state), state.rounds[-1]
        if last.endswith("f"):
            loser = (len(last) - 1) % 2
        else:
            strength = [10 * (card == state.board) + self.ranks.index(card) for card in state.cards]
            if strength[0] == strength[1]:
                return (0.0, 0.0)
            loser = 0 if strength[0] < strength[1] else 1
        return tuple(float(-chips[loser] if seat == loser else chips[loser]) for seat in (0, 1))

    def view(self, state: LeducState, seat: int) -> LeducState:
        """Hides the other hand card until a showdown."""
        last = state.rounds[-1]
        over = len(state.rounds) == 2 and len(last) > 1 and last.endswith("c")
        return state._replace(
            cards="".join(card if over or at == seat else HIDDEN for at, card in enumerate(state.cards))
        )

    def show(self, view: LeducState, seat: int) -> str:
        words = {"c": "calls", "r": "raises", "f": "folds"}
        parts = []
        for name, moves in zip(("First", "Second"), view.rounds, strict=False):
            text = ", ".join(f"seat {at % 2} {words[move]}" for at, move in enumerate(moves)) or "no move yet"
            parts.append(f"{name} round: {text}.")
        chips = self.paid(view)
        shown = "" if HIDDEN in view.cards else f" Seat {1 - seat} shows {view.cards[1 - seat]}."
        return (
            f"Your card: {view.cards[seat]}. Public card: {view.board or 'not yet'}. {' '.join(parts)} "
            f"You have put in {chips[seat]}, the other seat {chips[1 - seat]}.{shown}"
        )

    def expert_odds(self, view: LeducState, seat: int) -> dict[str, float]:
        """Raises with a pair or a king, folds a jack that has to pay, calls with the rest."""
        card, legal = view.cards[seat], self.legal(view, seat)
        strong = card == view.board or (card == "k" and not view.board)
        if strong and "raise" in legal:
            return {"raise": 1.0}
        weak = card == "j" if not view.board else card != view.board and card != "k"
        return {"fold" if weak and "fold" in legal else "call": 1.0}
