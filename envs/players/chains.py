"""WordChain: each word begins with the last letter of the one before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly
from rlvr.envs.players.nouns import NOUNS


class ChainState(NamedTuple):
    """The ``words`` of the list, and those that were played in turn."""

    words: tuple[str, ...] = ()
    played: tuple[str, ...] = ()


class WordChain(SeatGame[ChainState]):
    """Word chain: words of a list in turn, each begins as the last one ended; who has none left loses.

    Args:
        words: in the list.
    """

    title = "Word chain"
    first_state = ChainState()
    opening = (1, 3)  # whoever begins has mostly won
    nouns = ("word",)

    def __init__(self, *, words: int = 18) -> None:
        check_range("words", words, 4, 20)
        self.words = words
        self.decisions = (self.words + 1) // 2  # half of the words

    def rules(self) -> str:
        return (
            f"Word chain. There is a list of {self.words} words. Seat 0 begins with any of them. Then the seats take "
            "turns: a move is a word of the list that was not played yet and begins with the last letter of the word "
            "before. Who has no such word loses."
        )

    def actors(self, state: ChainState) -> tuple[int, ...]:
        if len(state.words) < self.words:
            return (CHANCE,)
        return (len(state.played) % 2,) if following(state.words, state.played) else ()

    def chance(self, state: ChainState) -> list[tuple[str, float]]:
        """Words that fit between those that were drawn, else before or after one of them, each as likely as the others.

        A list without regard to letters would be played in two moves.
        """
        left = [word for word in NOUNS if word not in state.words]
        first, last = {word[0] for word in state.words}, {word[-1] for word in state.words}
        after, before = ({word for word in left if word[at] in letters} for at, letters in ((0, last), (-1, first)))
        fitting = sorted(after & before or after | before or left)
        return evenly(fitting)

    def legal(self, state: ChainState, seat: int) -> tuple[str, ...]:
        return following(state.words, state.played)

    def apply(self, state: ChainState, seat: int, move: str) -> ChainState:
        if seat == CHANCE:
            return state._replace(words=(*state.words, move))
        return state._replace(played=(*state.played, move))

    def returns(self, state: ChainState) -> tuple[float, ...]:
        return (1.0, -1.0) if len(state.played) % 2 else (-1.0, 1.0)

    def show(self, view: ChainState, seat: int) -> str:
        left = [word for word in view.words if word not in view.played]
        return f"Played: {', '.join(view.played) or 'nothing yet'}. Words left: {', '.join(left) or 'none'}."

    def expert(self, view: ChainState, seat: int, rng: random.Random) -> str:
        """Perfect: a word after which the other loses, if there is one; else the one with the fewest replies."""
        moves = list(self.legal(view, seat))
        rng.shuffle(moves)
        for move in moves:
            if not mover_wins(view.words, frozenset((*view.played, move)), move[-1]):
                return move
        return min(moves, key=lambda move: len(following(view.words, (*view.played, move))))


def following(words: Sequence[str], played: Sequence[str]) -> tuple[str, ...]:
    """The words that may be played next."""
    return tuple(word for word in words if word not in played and (not played or word[0] == played[-1][-1]))


@lru_cache(maxsize=200_000)
def mover_wins(words: tuple[str, ...], used: frozenset[str], letter: str) -> bool:
    """Whether who must go on with a letter wins by perfect play."""
    moves = [word for word in words if word[0] == letter and word not in used]
    return any(not mover_wins(words, used | {move}, move[-1]) for move in moves)
