"""TextArena's games for two players: their classes, what they are built with, and the moves that there may be.

``turns`` are twice the moves of one player, as TextArena forgives each invalid move once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from rlvr.envs.bridges.suite_games import BridgedGame


def _texts(*parts: Sequence[str], between: str = " ") -> tuple[str, ...]:
    """Every way to take one word of each part, in brackets."""
    return tuple(f"[{between.join(words)}]" for words in product(*parts))


def _duel(kind: str, moves: int, /, **settings: Any) -> BridgedGame:
    """The game whose class is ``kind``, in which no player has more than so many moves."""
    note = "a game for two players, against random moves"
    return BridgedGame(f"{kind}.env:{kind}Env", (settings,), (2 * moves,), note, later=True)


# board games are as small as TextArena's own ids make them, and have limits that end them
DUELS: Final[dict[str, BridgedGame]] = {
    "Battleship": _duel("Battleship", 25, grid_size=5),
    "Chopsticks": _duel("Chopsticks", 40, max_turns=40),
    "ConnectFour": _duel("ConnectFour", 21),
    "IteratedMatchingPennies": _duel("IteratedMatchingPennies", 5, num_rounds=5),
    "IteratedRockPaperScissors": _duel("IteratedRockPaperScissors", 5, num_rounds=5),
    "Nim": _duel("Nim", 12, piles=[3, 4, 5]),
    "Othello": _duel("Othello", 36, board_size=6),
    "PigDice": _duel("PigDice", 100, winning_score=30, max_turns=100),
    "SimpleTak": _duel("SimpleTak", 8, board_size=4),
    "TicTacToe": _duel("TicTacToe", 5),
    "WildTicTacToe": _duel("WildTicTacToe", 5),
}

_DIGITS = "012345678"

# The texts that the other player tries, one after the other in a random order.
MOVES: Final[dict[str, tuple[str, ...]]] = {
    "Battleship": _texts("ABCDE", "01234", between=""),
    "Chopsticks": (*_texts(["attack"], "01", "01"), *_texts(["split"], "01234", "01234")),
    "ConnectFour": _texts("0123456"),
    "IteratedMatchingPennies": ("[heads]", "[tails]"),
    "IteratedRockPaperScissors": ("[rock]", "[paper]", "[scissors]"),
    "Nim": _texts("012", "12345"),
    "Othello": _texts("012345", "012345"),
    "PigDice": ("[roll]", "[hold]"),
    "SimpleTak": _texts([str(cell) for cell in range(16)]),
    "TicTacToe": _texts(_DIGITS),
    "WildTicTacToe": _texts("XO", _DIGITS),
}
