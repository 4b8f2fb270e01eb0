"""Taboo: one seat describes a secret word without its forbidden words, and another names it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple

from rlvr.envs.players.fouls import foul_in
from rlvr.envs.players.game import CHANCE, SeatGame, check_range, evenly
from rlvr.envs.players.nouns import NOUNS, PROPERTIES
from rlvr.envs.rewards.dressing import move_text

WORDS: Final = 12  # of a game
ROUNDS: Final = 3  # secret words of each team
FORBIDDEN: Final = 2  # properties of the secret word, at most
SHARED: Final = 2  # properties that a word has in common with one that it is like
DEEPEST: Final = 3  # sentences that the expert plans
MORE: Final = "more"
FOUL: Final = "foul: "
TEAM_NAMES: Final = ("red", "blue")
ALL: Final = tuple(dict.fromkeys(name for names in PROPERTIES.values() for name in names))
_NOT: Final = frozenset({"not", "isn't", "isnt"})
_SMALL: Final = frozenset(
    "it it's its is this that the a an thing something word one made of in at with to i would say guess".split()
)
_SIGNS: Final = re.compile(r"[.,!?:;\"()\[\]]")


class Finished(NamedTuple):
    """A secret word that is over: whose it was, the sentences on it, and ``fit`` words if it was found, else 0.

    ``end`` is ``found``, ``not found`` or the foul.
    """

    side: int
    word: str
    sentences: tuple[str, ...]
    end: str
    fit: int = 0


class TabooState(NamedTuple):
    """The ``words``, the ``secret`` one with its ``forbidden`` properties (empty where hidden), and what was spoken.

    ``forbidden`` is None before it is drawn. ``named`` has the wrong words, ``used`` counts each team's sentences.
    """

    words: tuple[str, ...] = ()
    secret: str = ""
    forbidden: tuple[str, ...] | None = None
    sentences: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    finished: tuple[Finished, ...] = ()
    used: tuple[int, ...] = (0,)
    side: int = 0
    guess: bool = False  # whether the guesser moves


class Taboo(SeatGame[TabooState]):
    """Taboo: a giver describes secret words by true sentences without forbidden words, a guesser names them.

    What is true of each word is stated, so that each sentence can be checked. A found word counts in full only if the
    sentences fit no other word: a pair that has agreed on a code gains nothing by it.

    Args:
        pairs: 1 for a team of two, 2 for two such teams against each other.
        sentences: that a team has for its three words together.
    """

    title = "Taboo"
    perfect_information = False
    nouns = ("word",)

    def __init__(self, *, pairs: int = 1, sentences: int = 6) -> None:
        if pairs not in (1, 2):
            raise ValueError(f"taboo has 1 or 2 pairs, not {pairs}")
        check_range("sentences", sentences, ROUNDS, 20)
        self.pairs, self.sentences, self.seats = pairs, sentences, 2 * pairs
        self.zero_sum = pairs == 2
        self.lowest, self.highest = (-1.0, 1.0) if pairs == 2 else (0.0, 1.0)
        self.teams = tuple(seat // 2 for seat in range(self.seats))
        self.decisions = self.sentences  # a sentence of the giver, and a move of the guesser after each

    def rules(self) -> str:
        teams = (
            "Seats 0 and 1 are the red team, seats 2 and 3 the blue team; they take turns, red first. Seats 0 and 2 "
            "are the givers, seats 1 and 3 the guessers."
            if self.pairs == 2
            else "Seat 0 is the giver and seat 1 the guesser; they are one team."
        )
        foul = " and bring the other team a point" if self.pairs == 2 else ""
        each = "each team" if self.pairs == 2 else "the team"
        end = "The team with more points wins." if self.pairs == 2 else f"The result is the share of {ROUNDS} points."
        return (
            f"Taboo. {teams} There are {WORDS} words. What is true of each is stated in brackets, and nothing else is "
            f"true of it. For {each}, {ROUNDS} words are secret, one after the other, and up to {FORBIDDEN} of a "
            "secret word's properties are forbidden words; only the giver reads them. The giver says one true "
            "sentence at a time: a property (animal, or: it is an animal), a property that it lacks (not large), or "
            f"that it is like another of the words that are left (like fork), which shares at least {SHARED} "
            "properties with it. The secret word, its forbidden words, forms of these, letters, sounds, numbers and "
            f"other codes are a foul: they lose the word{foul}. After each sentence the guesser names a word or says "
            f"{MORE}. A wrong word costs a sentence. A secret word that is over is left out from then on. There are "
            f"{self.sentences} sentences for {each} in all; secret words for which none is left are lost. A found word "
            "brings 1 point if the sentences fit no other word that is left, and 1/k of a point if they fit k words, "
            f"so that signals and luck bring little. {end}"
        )

    def start(self) -> TabooState:
        return TabooState(used=(0,) * self.pairs)

    def over(self, state: TabooState) -> bool:
        return not any(self._can_go_on(state, side) for side in range(self.pairs))

    def _can_go_on(self, state: TabooState, side: int) -> bool:
        words = sum(each.side == side for each in state.finished)
        return words < ROUNDS and (state.used[side] < self.sentences or (state.side == side and state.guess))

    def actors(self, state: TabooState) -> tuple[int, ...]:
        if len(state.words) == WORDS and self.over(state):
            return ()
        return (CHANCE,) if state.forbidden is None else (2 * state.side + state.guess,)

    def chance(self, state: TabooState) -> list[tuple[str, float]]:
        """Words, then a secret one, then its forbidden words, each as likely as the others.

        Only what sentences can tell from all other words becomes secret, as long as there is such a word.
        """
        if len(state.words) < WORDS:
            options = [noun for noun in NOUNS if noun not in state.words]
        elif not state.secret:
            left = self.left(state)
            options = [word for word in left if forbidden_sets(left, word)] or list(left)
        else:
            options = list(forbidden_sets(self.left(state), state.secret)) or [""]
        return evenly(options)

    def witnesses(self, state: TabooState, actor: int) -> Sequence[int]:
        return (2 * state.side,) if actor == CHANCE and len(state.words) == WORDS else range(self.seats)

    @staticmethod
    def left(state: TabooState) -> tuple[str, ...]:
        """The words that were no secret word yet."""
        over = {each.word for each in state.finished}
        return tuple(word for word in state.words if word not in over)

    def legal(self, state: TabooState, seat: int) -> list[str]:
        if not seat % 2:
            if not state.secret:
                return []
            return list(true_sentences(self.left(state), state.secret, state.forbidden or ()))
        words = [word for word in self.left(state) if word not in state.named]
        return [*words, MORE] if state.used[seat // 2] < self.sentences else words

    def is_legal(self, state: TabooState, seat: int, move: str) -> bool:
        """A foul can be played, too; it is not listed."""
        return move in self.legal(state, seat) or (not seat % 2 and move.startswith(FOUL))

    def parse(self, view: TabooState, seat: int, words: str) -> str:
        """Also reads ``it is not an animal``, ``it's like a fork`` and ``is it a fork?``; never a foul."""
        kept = [word for word in _SIGNS.sub(" ", words).split() if word not in _SMALL]
        if seat % 2:
            return " ".join(kept)
        denied = [word for word in kept if word in _NOT]
        rest = [word for word in kept if word not in _NOT]
        return " ".join([*("not" for _ in denied), *rest]) if len(rest) <= 2 else ""

    def foul(self, view: TabooState, seat: int, text: str) -> str:
        """The foul of a giver's text that is no sentence, by `foul_in` of what it gives as its move."""
        if seat % 2:
            return ""
        kind = foul_in(move_text(text), {view.secret, *(view.forbidden or ())})
        return f"{FOUL}{kind}" if kind else ""

    def apply(self, state: TabooState, seat: int, move: str) -> TabooState:
        if seat == CHANCE:
            if len(state.words) < WORDS:
                return state._replace(words=(*state.words, move))
            if not state.secret:
                return state._replace(secret=move)
            return state._replace(forbidden=tuple(move.split(", ") if move else ()))
        if not seat % 2:
            state = self._spent(state)
            if move.startswith(FOUL):
                return self._finished(state, move)
            return state._replace(sentences=(*state.sentences, move), guess=True)
        if move == MORE:
            return state._replace(guess=False)
        if move == state.secret:
            return self._finished(state, "found", len(fitting(self.left(state), state.sentences)))
        state = self._spent(state)._replace(named=(*state.named, move), guess=False)
        return state if state.used[state.side] < self.sentences else self._finished(state, "not found")

    def _spent(self, state: TabooState) -> TabooState:
        """The state with a sentence less for the team that moves, if it has one."""
        least = (min(self.sentences, count + (side == state.side)) for side, count in enumerate(state.used))
        return state._replace(used=tuple(least))

    def _finished(self, state: TabooState, end: str, fit: int = 0) -> TabooState:
        """The next word of the next team that has a sentence for one."""
        record = Finished(state.side, state.secret, state.sentences, end, fit)
        after = TabooState(state.words, finished=(*state.finished, record), used=state.used, side=state.side)
        sides = [(state.side + step) % self.pairs for step in range(1, self.pairs + 1)]
        able = [side for side in sides if self._can_go_on(after, side)]
        return after._replace(side=able[0] if able else 0)

    def points(self, state: TabooState, side: int) -> float:
        """What the words that a team has found bring it, and the fouls of the other team."""
        points = sum(1 / each.fit for each in state.finished if each.side == side and each.fit)
        return points + sum(each.side != side and each.end.startswith(FOUL) for each in state.finished)

    def returns(self, state: TabooState) -> tuple[float, ...]:
        if self.pairs == 1:
            return (self.points(state, 0) / ROUNDS,) * 2
        red, blue = (round(self.points(state, side), 9) for side in range(2))
        won = float(red > blue) - float(red < blue)
        return (won, won, -won, -won)

    def outcome(self, returns: Sequence[float], seat: int) -> float:
        return super().outcome(returns, seat) if self.pairs == 2 else returns[seat]

    def view(self, state: TabooState, seat: int) -> TabooState:
        """Hides the secret and its forbidden words from all but its giver."""
        return state if seat == 2 * state.side else state._replace(secret="", forbidden=())

    def show(self, view: TabooState, seat: int) -> str:
        words = (f"{word} ({', '.join(PROPERTIES[word])})" for word in self.left(view))
        lines = [f"Words: {'; '.join(words)}."]
        for each in view.finished:
            sentences = f" ({'; '.join(each.sentences)})" if each.sentences else ""
            end = f"found, {'1 point' if each.fit == 1 else f'1/{each.fit} of a point'}" if each.fit else each.end
            lines.append(f"{self._whose(each.side)}{each.word}{sentences}: {end}.")
        if not self.over(view):
            if view.secret:
                besides = ", ".join(view.forbidden or ()) or "nothing"
                lines.append(f"Your secret word: {view.secret}. Also forbidden: {besides}.")
            spoken, wrong = "; ".join(view.sentences) or "none", ", ".join(view.named) or "none"
            team = TEAM_NAMES[view.side].capitalize()
            about = f"{team}'s sentences on its" if self.pairs == 2 else "Sentences on the"
            lines.append(f"{about} secret word: {spoken}. Wrong words: {wrong}.")
        lines.append(" ".join(self._score(view, side) for side in range(self.pairs)))
        return "\n".join(lines)

    def _whose(self, side: int) -> str:
        return f"{TEAM_NAMES[side].capitalize()}: " if self.pairs == 2 else ""

    def _score(self, view: TabooState, side: int) -> str:
        points, left = self.points(view, side), self.sentences - view.used[side]
        if self.pairs == 2:
            return f"{self._whose(side)}points {points:.4g}, sentences left {left}."
        return f"Points: {points:.4g}. Sentences left: {left}."

    # the expert

    def expert(self, view: TabooState, seat: int, rng: random.Random) -> str:
        """The giver says the first of the fewest sentences that leave one word; the guesser asks until one is left.

        When no sentence is left, the guesser names one of those that fit.
        """
        left = self.left(view)
        if not seat % 2:
            return shortest_plan(left, view.sentences, view.secret, view.forbidden or ())[0]
        left = tuple(word for word in left if word not in view.named)
        fit = fitting(left, view.sentences) or left
        if len(fit) > 1 and view.used[seat // 2] < self.sentences:
            return MORE
        return rng.choice(fit)


def true_of(sentence: str, word: str) -> bool:
    """Whether a sentence is true of a word; no word is like itself.

    >>> true_of("not animal", "fork"), true_of("like fork", "knife"), true_of("like fork", "fork")
    (True, True, False)
    """
    head, _, rest = sentence.partition(" ")
    if not rest:
        return head in PROPERTIES[word]
    if head == "not":
        return rest not in PROPERTIES[word]
    return word != rest and len({*PROPERTIES[word]} & {*PROPERTIES[rest]}) >= SHARED


def fitting(words: Sequence[str], sentences: Sequence[str]) -> list[str]:
    """The words that all sentences are true of."""
    return [word for word in words if all(true_of(sentence, word) for sentence in sentences)]


@lru_cache(maxsize=4096)
def true_sentences(words: tuple[str, ...], secret: str, forbidden: tuple[str, ...]) -> tuple[str, ...]:
    """Every sentence on a secret word: own properties that are not forbidden, lacked ones, words that it is like."""
    stated = [name for name in PROPERTIES[secret] if name not in forbidden]
    lacked = [f"not {name}" for name in ALL if name not in PROPERTIES[secret]]
    alike = [f"like {word}" for word in words if word != secret]
    return (*stated, *lacked, *(sentence for sentence in alike if true_of(sentence, secret)))


@lru_cache(maxsize=16384)
def can_be_singled_out(words: tuple[str, ...], secret: str, forbidden: tuple[str, ...]) -> bool:
    """Whether all true sentences together fit the secret word alone."""
    return fitting(words, true_sentences(words, secret, forbidden)) == [secret]


@lru_cache(maxsize=4096)
def forbidden_sets(words: tuple[str, ...], secret: str) -> tuple[str, ...]:
    """What may be forbidden with a secret word: as many of its properties as can be, all but one of them at most.

    Without them the word can still be told from all others; there is nothing where it cannot be told at all.
    """
    names = PROPERTIES[secret]
    for size in range(min(FORBIDDEN, len(names) - 1), -1, -1):
        sets = [", ".join(each) for each in combinations(names, size) if can_be_singled_out(words, secret, each)]
        if sets:
            return tuple(sets)
    return ()


@lru_cache(maxsize=4096)
def shortest_plan(
    words: tuple[str, ...], sentences: tuple[str, ...], secret: str, forbidden: tuple[str, ...]
) -> tuple[str, ...]:
    """The fewest true sentences after which only the secret word fits, the most telling first; at most `DEEPEST`.

    Where no so few are enough, those that leave the fewest words.
    """
    before = fitting(words, sentences)
    leaves = {
        sentence: frozenset(fitting(before, (sentence,))) for sentence in true_sentences(words, secret, forbidden)
    }
    unique = {rest: sentence for sentence, rest in reversed(leaves.items()) if len(rest) < len(before)}
    if not unique:
        return (next(iter(leaves)),)
    best: tuple[frozenset[str], ...] = ()
    fewest = len(before)
    for size in range(1, DEEPEST + 1):
        for rests in combinations(sorted(unique, key=len), size):
            count = len(frozenset.intersection(*rests))
            if count < fewest:
                best, fewest = rests, count
        if fewest == 1:
            break
    return tuple(unique[rest] for rest in best)
