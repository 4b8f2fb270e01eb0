"""WordLadder: from one word to another, one letter at a time. Many turns; reward 1 for arriving.

The words are those of ``words_of_four.txt``, common English words of four letters. The player need not know the list:
a word that is not in it costs a turn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from rlvr.envs.games.board_game import SearchedGame, distances, shortest

# For each level: the fewest and the most steps of a shortest ladder.
LEVELS = ((2, 2), (3, 3), (4, 4), (5, 5), (6, 8))


class Ladder(NamedTuple):
    word: str
    goal: str
    used: tuple[str, ...] = ()


class WordLadder(SearchedGame[Ladder]):
    """Turn a word into another, one letter at a time.

    Levels 1 to 5: words that are 2, 3, 4, 5 and 6 to 8 steps apart, in three times as many turns and two.

    Observation: both words; then the ladder so far.
    Actions: a common word that differs from the last one in one letter.
    Reward: 1 for the goal word, else 0.
    Episode end: the goal word, or the turns are used up.
    """

    move_form = "A move is a common English word of four letters that differs from the last one in exactly one letter."
    nouns = ("word",)
    turn_limits = tuple(3 * longest + 2 for _, longest in LEVELS)

    def deal(self, rng: random.Random, level: int) -> Ladder:
        """Draws words until one has others at the level's distance."""
        fewest, longest = LEVELS[level - 1]
        while True:
            word = rng.choice(vocabulary())
            goals = apart(word, fewest, longest)
            if goals:
                return Ladder(word, rng.choice(goals))

    def guide(self, board: Ladder) -> str:
        return (
            f"Word ladder. Turn the word {board.word} into the word {board.goal}. Each step changes one letter of the "
            "word, keeps the others in their places, and makes a common English word; any ladder counts."
        )

    def show(self, board: Ladder) -> str:
        return f"Ladder: {' - '.join((*board.used, board.word))}\nGoal: {board.goal}"

    def identity(self, board: Ladder) -> str:
        return f"{board.word} to {board.goal}"

    def legal(self, board: Ladder) -> tuple[str, ...]:
        return steps()[board.word]

    def after(self, board: Ladder, move: str) -> Ladder:
        return Ladder(move, board.goal, (*board.used, board.word))

    def refusal(self, board: Ladder, move: str, legal: Sequence[str]) -> str:
        """Why a move is none, with one legal word as an example."""
        return (
            f"{move[:40]!r} is not a legal move: it is no word on the list, or not one letter away. {self.move_form} "
            f"Legal now: {len(legal)} words, {legal[0]} among them."
        )

    def reached(self, board: Ladder) -> bool:
        return board.word == board.goal

    def search(self, board: Ladder) -> list[str] | None:
        """Breadth first over the word list: a shortest ladder."""
        return shortest(
            board.word, lambda word: [(step, step) for step in steps()[word]], lambda word: word == board.goal
        )


@lru_cache(maxsize=1)
def steps() -> dict[str, tuple[str, ...]]:
    """The words one letter away from each word of the list, in alphabetical order; words without any are left out."""
    words = sorted(set(files(__package__).joinpath("words_of_four.txt").read_text(encoding="ascii").split()))
    alike: dict[str, list[str]] = {}
    for word in words:
        for index in range(4):
            alike.setdefault(f"{word[:index]}.{word[index + 1 :]}", []).append(word)
    near: dict[str, set[str]] = {word: set() for word in words}
    for group in alike.values():
        for word in group:
            near[word].update(group)
    return {word: tuple(sorted(near[word] - {word})) for word in words if len(near[word]) > 1}


@lru_cache(maxsize=1)
def vocabulary() -> tuple[str, ...]:
    return tuple(steps())


@lru_cache(maxsize=8192)
def apart(word: str, fewest: int, longest: int) -> tuple[str, ...]:
    """The words that many steps away."""
    far = distances([word], lambda here: steps()[here])
    return tuple(sorted(other for other, count in far.items() if fewest <= count <= longest))
