"""Word games: Wordle (one, two or four secrets), Hangman, and WordHunt on a board of letters. Reward 1 for the words.

The words come from the list in ``words.txt``; the experts know it, as a player knows common English words.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from functools import lru_cache
from math import log2
from typing import ClassVar, Final, NamedTuple

from rlvr.envs.games.common import Game, IllegalMove, Step, boxed, go_on, lost, won
from rlvr.envs.games.lexicon import words
from rlvr.envs.tasks.wording import counted

HIT, NEAR, MISS = "G", "Y", "."
FOUND: Final = HIT * 5
OPENING: Final = "raise"  # a good first guess for a secret that may be any word of the list
POOL: Final = 60  # guesses that the expert compares, and words of each secret that it compares them on
CLOSE: Final = 30  # with fewer words left it looks among all words for the guess that tells them apart


class WordleState(NamedTuple):
    """``listed`` are the words that may be the secret where they are told, else nothing."""

    secrets: tuple[str, ...]
    listed: tuple[str, ...]
    level: int
    guesses: tuple[str, ...] = ()
    turn: int = 0
    message: str = ""


def marks(guess: str, secret: str) -> str:
    """G for a letter at its place, Y for one that stands elsewhere, a dot for the rest.

    A letter is marked as often as the secret has it: those at their place first, then from the left.
    """
    answer = [MISS] * len(guess)
    spare = list(secret)
    for i, letter in enumerate(guess):
        if secret[i] == letter:
            answer[i] = HIT
            spare.remove(letter)
    for i, letter in enumerate(guess):
        if answer[i] is MISS and letter in spare:
            answer[i] = NEAR
            spare.remove(letter)
    return "".join(answer)


@lru_cache(256)
def _left(allowed: tuple[str, ...], tries: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The words that would have given all these answers."""
    if not tries:
        return allowed
    guess, answer = tries[-1]
    return tuple(word for word in _left(allowed, tries[:-1]) if marks(guess, word) == answer)


class Wordle(Game[WordleState]):
    """Find a five-letter word from marks for its letters.

    Levels 1 to 5: one of 40 words that are told, in 5 turns; any word, in 8 and in 6; two at once; four at once.

    Observation: what the marks mean; then the marks of each guess: ``G``, ``Y`` and ``.``.
    Actions: five letters.
    Reward: 1 when every secret word was guessed, else 0.
    Episode end: every word is guessed, or the turns are used up.
    """

    nouns = ("word",)
    # For each level: how many secrets, the turns, and how many words are told.
    sizes: ClassVar = ((1, 5, 40), (1, 8, 0), (1, 6, 0), (2, 8, 0), (4, 10, 0))
    turn_limits = tuple(turns for _, turns, _ in sizes)

    def start(self, rng: random.Random, level: int) -> WordleState:
        count, _, shown = self.sizes[level - 1]
        listed = tuple(sorted(rng.sample(words(5), shown)))
        return WordleState(tuple(rng.sample(listed or words(5), count)), listed, level)

    def difficulty(self, state: WordleState) -> float:
        """Bits to be found out for each turn."""
        return len(state.secrets) * log2(len(state.listed or words(5))) / self.turns(state.level)

    def content(self, state: WordleState) -> str:
        return " ".join((*state.secrets, *(("of", *state.listed) if state.listed else ())))

    def enumerate_contents(self, level: int) -> tuple[str, ...] | None:
        """The words of five letters on levels 2 and 3, where one secret is the whole task."""
        return words(5) if level in (2, 3) else None

    def reminder(self, state: WordleState) -> str:
        return "A guess is five letters from a to z."

    def rules(self, state: WordleState) -> str:
        count = len(state.secrets)
        choices = f" It is one of: {' '.join(state.listed)}." if state.listed else ""
        several = f"my {count} secret words, all common English words"
        what = "my secret word, a common English word" if count == 1 else several
        many = "" if count == 1 else f" Each guess is compared with all {count}; guess every one of them to win."
        return (
            f"Find {what} of five letters.{choices} {self.reminder(state)} It need not be a word. Each letter of a "
            f"guess is marked G when it stands at its place, Y when the secret has it elsewhere, and . when it does "
            f"not; a letter is marked as often as the secret has it.{many} You have {self.turns(state.level)} turns."
        )

    def play(self, state: WordleState, move: str) -> Step[WordleState]:
        guess = move.replace(" ", "") if len(move) == 9 else move
        if len(guess) != 5 or not guess.isalpha():
            raise IllegalMove(self.reminder(state).rstrip("."))
        guesses = (*state.guesses, guess)
        if set(state.secrets) <= set(guesses):
            return won(state, " ".join(state.secrets), guesses=guesses)
        if len(state.secrets) == 1:
            return go_on(state, f"{guess}: {marks(guess, state.secrets[0])}", guesses=guesses)
        parts = (
            f"word {number} {secret + ' found' if secret in guesses else marks(guess, secret)}"
            for number, secret in enumerate(state.secrets, 1)
        )
        return go_on(state, f"{guess}: {', '.join(parts)}", guesses=guesses)

    def solve(self, state: WordleState) -> str:
        """The word if only one is left of a secret, else the guess that tells the most of the words left apart."""
        if not state.guesses and not state.listed:
            return boxed(OPENING)
        lefts = []
        for secret in state.secrets:
            if secret not in state.guesses:  # which ones are found is told
                tries = tuple((guess, marks(guess, secret)) for guess in state.guesses)
                lefts.append(_left(state.listed or words(5), tries))
        lefts.sort(key=len)
        thought = f"Words left: {', '.join(str(len(left)) for left in lefts)}."
        if len(lefts[0]) <= 2:
            return boxed(lefts[0][0], thought)
        samples = [left[:: 1 + len(left) // POOL] for left in lefts]
        likely = set(lefts[0])

        def distinguished(guess: str) -> tuple[int, bool]:
            classes = sum(len({marks(guess, word) for word in sample}) for sample in samples)
            return classes, guess in likely

        best = max((guess for sample in samples for guess in sample), key=distinguished)
        if len(lefts[0]) <= CLOSE and distinguished(best)[0] < sum(map(len, samples)):
            best = max((best, *words(5)[::2]), key=distinguished)
        return boxed(best, thought)

    def direct_answer(self, state: WordleState) -> str | None:
        return boxed(state.secrets[0]) if len(state.secrets) == 1 else None

    def sample_action(self, state: WordleState, rng: random.Random) -> str:
        return boxed(rng.choice(state.listed or words(5)))


class HangmanState(NamedTuple):
    word: str
    level: int
    letters: str = ""
    misses: int = 0
    wrong_words: tuple[str, ...] = ()
    turn: int = 0
    message: str = ""


class Hangman(Game[HangmanState]):
    """Find a word letter by letter.

    Levels 1 to 5: words of 9 letters down to 5, lost with 6, 6, 6, 7 and 11 misses. Short words are harder.

    Observation: the word with a blank for each hidden letter, what was tried, and the misses.
    Actions: a letter, or the word.
    Reward: 1 for the word, else 0.
    Episode end: the word is shown, too many misses, or the turns are used up.
    """

    nouns = ("letter", "word")
    # For each level: the letters of the word, and the misses that end the game.
    sizes: ClassVar = ((9, 6), (8, 6), (7, 6), (6, 7), (5, 11))
    turn_limits = tuple(sum(size) for size in sizes)  # a turn is a miss or shows a letter

    def start(self, rng: random.Random, level: int) -> HangmanState:
        return HangmanState(rng.choice(words(self.sizes[level - 1][0])), level)

    def difficulty(self, state: HangmanState) -> float:
        """Words of that length, for each letter that a guess may show."""
        return len(words(len(state.word))) / len(state.word)

    def content(self, state: HangmanState) -> str:
        return state.word

    def enumerate_contents(self, level: int) -> tuple[str, ...]:
        """Every word of the level's length."""
        return words(self.sizes[level - 1][0])

    def reminder(self, state: HangmanState) -> str:
        return f"Guess one letter from a to z that you have not guessed yet, or the word of {len(state.word)} letters."

    def rules(self, state: HangmanState) -> str:
        return (
            f"Find my secret word, a common English word of {len(state.word)} letters. {self.reminder(state)} "
            f"All places of a letter are shown. A letter that is not in the word is a miss, and so is a wrong word; "
            f"with {self.sizes[state.level - 1][1]} misses you lose. Showing every letter wins as well.\n"
            f"{self.shown(state, 0)}"
        )

    @staticmethod
    def pattern(state: HangmanState) -> str:
        """The word with a blank for each letter that was not guessed."""
        return " ".join(letter if letter in state.letters else "_" for letter in state.word)

    def shown(self, state: HangmanState, turn: int) -> str:
        tried = ", ".join((*state.letters, *state.wrong_words)) or "nothing yet"
        misses = f"Misses: {state.misses}; with {self.sizes[state.level - 1][1]} you lose"
        left = counted(self.turns(state.level) - turn, "turn")
        return f"{self.pattern(state)}\nTried: {tried}. {misses}. You have {left} left."

    def play(self, state: HangmanState, move: str) -> Step[HangmanState]:
        was_tried = move in state.letters or move in state.wrong_words
        if was_tried or not move.isalpha() or len(move) not in (1, len(state.word)):
            raise IllegalMove(self.reminder(state).rstrip("."))
        if move == state.word:
            return won(state, move)
        after = state._replace(letters=state.letters + move) if len(move) == 1 else state
        if set(state.word) <= set(after.letters):
            return won(after, state.word)
        if len(move) > 1 or move not in state.word:
            after = after._replace(misses=state.misses + 1)
        if len(move) > 1:
            after = after._replace(wrong_words=(*state.wrong_words, move))
        if after.misses == self.sizes[state.level - 1][1]:
            return lost(after, f"too many misses: it was {state.word}", move)
        return go_on(after, self.shown(after, state.turn + 1))

    def solve(self, state: HangmanState) -> str:
        """The letter that most of the words left have; among equals the one that tells the most of them apart."""
        left = _fitting(self.pattern(state), state.letters, len(state.word))
        left = tuple(word for word in left if word not in state.wrong_words)
        thought = f"Words left: {len(left)}."
        if len(left) == 1:
            return boxed(left[0], thought)

        def worth(letter: str) -> tuple[int, int]:
            patterns = Counter(tuple(c == letter for c in word) for word in left)
            return len(left) - patterns[(False,) * len(state.word)], len(patterns)

        return boxed(max((c for c in string.ascii_lowercase if c not in state.letters), key=worth), thought)

    def direct_answer(self, state: HangmanState) -> str:
        return boxed(state.word)

    def sample_action(self, state: HangmanState, rng: random.Random) -> str:
        return boxed(rng.choice([c for c in string.ascii_lowercase if c not in state.letters]))


@lru_cache(256)
def _fitting(shown: str, letters: str, length: int) -> tuple[str, ...]:
    """The words that show this after these letters."""
    shown_letters = shown.split(" ")
    return tuple(
        word
        for word in words(length)
        if all(c == p if p != "_" else c not in letters for c, p in zip(word, shown_letters, strict=True))
    )


class WordHuntState(NamedTuple):
    """``rows`` are the board; ``goal`` is how many words to find."""

    rows: tuple[str, ...]
    goal: int
    level: int
    found: tuple[str, ...] = ()
    turn: int = 0
    message: str = ""


class WordHunt(Game[WordHuntState]):
    """Find words on a board of letters.

    Levels 1 to 5: 2, 3, 4, 5 and 7 words on boards of 3 to 6 rows; at least as many are hidden there.

    Observation: the board of letters; then the words found.
    Actions: a word of four or more letters along neighbouring cells.
    Reward: 1 for as many words as the level asks for, else 0.
    Episode end: enough words are found, or the turns are used up.
    """

    nouns = ("word",)
    # For each level: the rows of the board, how many words to find, and the turns.
    sizes: ClassVar = ((3, 2, 6), (4, 3, 9), (4, 4, 12), (5, 5, 15), (6, 7, 21))
    turn_limits = tuple(turns for _, _, turns in sizes)

    def start(self, rng: random.Random, level: int) -> WordHuntState:
        size, goal, _ = self.sizes[level - 1]
        near = _neighbours(size)
        while True:
            cells, hidden = [""] * (size * size), set()
            for _ in range(6 * goal):
                word = rng.choice(words(rng.choice((4, 4, 5)) if size > 3 else 4))
                if _hide(rng, cells, word, near):
                    hidden.add(word)
                if len(hidden) == goal:
                    filled = [cell or rng.choice("aaabcdeeeefghiiklmnnooprrsstttuwy") for cell in cells]
                    rows = tuple("".join(filled[i : i + size]) for i in range(0, size * size, size))
                    return WordHuntState(rows, goal, level)

    def content(self, state: WordHuntState) -> str:
        return "/".join(state.rows)

    def reminder(self, state: WordHuntState) -> str:
        return "Write one word of four or more letters that you have not found yet."

    def rules(self, state: WordHuntState) -> str:
        board = "\n".join(" ".join(row) for row in state.rows)
        return (
            f"Find {state.goal} common English words of four or more letters on this board:\n{board}\nThe letters of "
            f"a word follow one another from a cell to one of its up to eight neighbours, and no cell is used twice "
            f"in a word. {self.reminder(state)} Only words of my list of common words count; others cost a turn. You "
            f"have {self.turns(state.level)} turns."
        )

    def play(self, state: WordHuntState, move: str) -> Step[WordHuntState]:
        if not move.isalpha() or len(move) < 4 or move in state.found:
            raise IllegalMove(self.reminder(state).rstrip("."))
        left = f"found: {len(state.found)} of {state.goal}"
        if move not in words(len(move)):
            return go_on(state, f"That is not in my list of common words ({left}).")
        if not on_board(state.rows, move):
            return go_on(state, f"That is in my list, but not on the board ({left}).")
        words_found = (*state.found, move)
        if len(words_found) == state.goal:
            return won(state, " ".join(words_found), found=words_found)
        return go_on(state, f"Found: {', '.join(words_found)} ({len(words_found)} of {state.goal})", found=words_found)

    def solve(self, state: WordHuntState) -> str:
        """The next word of the list that stands on the board, the shortest first."""
        return boxed(next(word for word in _words_on(state.rows) if word not in state.found))

    def sample_action(self, state: WordHuntState, rng: random.Random) -> str:
        size = len(state.rows)
        near, letters = _neighbours(size), "".join(state.rows)
        path = [rng.randrange(size * size)]
        while len(path) < 4:
            onward = [cell for cell in near[path[-1]] if cell not in path]
            path.append(rng.choice(onward or near[path[-1]]))
        return boxed("".join(letters[cell] for cell in path))


@lru_cache(8)
def _neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    letters = [(row, column) for row in range(size) for column in range(size)]
    return tuple(
        tuple(i for i, (r, c) in enumerate(letters) if max(abs(r - row), abs(c - column)) == 1)
        for row, column in letters
    )


def _hide(rng: random.Random, cells: list[str], word: str, near: tuple[tuple[int, ...], ...]) -> bool:
    """Write the word along a random path of cells that are free or have its letters already; whether it fits."""
    path: list[int] = []
    for letter in word:
        onward = near[path[-1]] if path else range(len(cells))
        free = [cell for cell in onward if cells[cell] in ("", letter) and cell not in path]
        if not free:
            return False
        path.append(rng.choice(free))
    for cell, letter in zip(path, word, strict=True):
        cells[cell] = letter
    return True


def on_board(rows: tuple[str, ...], word: str) -> bool:
    """Whether a path of neighbouring cells, none of them twice, spells the word."""
    letters, near = "".join(rows), _neighbours(len(rows))
    paths: list[tuple[int, ...]] = [(cell,) for cell in range(len(letters)) if letters[cell] == word[0]]
    for letter in word[1:]:
        paths = [(*p, c) for p in paths for c in near[p[-1]] if letters[c] == letter and c not in p]
    return bool(paths)


@lru_cache(256)
def _words_on(rows: tuple[str, ...]) -> tuple[str, ...]:
    letters = set("".join(rows))
    fitting = (word for length in range(4, 10) for word in words(length) if letters.issuperset(word))
    return tuple(word for word in fitting if on_board(rows, word))
