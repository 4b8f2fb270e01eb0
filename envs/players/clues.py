"""Clues: two teams of two, in which one seat gives clues for words and the other guesses them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from rlvr.envs.players.game import CHANCE, SeatGame, evenly
from rlvr.envs.players.nouns import NOUNS, PROPERTIES

ROLES: Final = {"red": 4, "blue": 3, "neutral": 1, "trap": 1}
WORDS: Final = sum(ROLES.values())
TEAMS: Final = ("red", "blue")  # of seats 0 and 1, and of seats 2 and 3
MOST: Final = 3  # words that one clue may be for
STOP: Final = "stop"


class CluesState(NamedTuple):
    """The ``words`` and their ``roles`` (empty where hidden); what was ``found`` of them; the clue that is guessed by.

    ``side`` is the team that moves, ``clue`` its clue or empty, and ``guesses`` how many it has left.
    """

    words: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    found: tuple[tuple[str, str], ...] = ()
    clues: tuple[tuple[int, str], ...] = ()
    side: int = 0
    clue: str = ""
    guesses: int = 0
    stopped: bool = False


class Clues(SeatGame[CluesState]):
    """Clues: two teams of two; a seat that knows which words are its team's gives clues to one that does not.

    What is true of each word is stated, and a clue must be true of as many words of the own team as it names.
    """

    title = "Clues"
    teams = (0, 0, 1, 1)
    decisions = 2 * WORDS  # a guess for each word, and a stop in each turn after a guess
    first_state = CluesState()
    seats = 4
    perfect_information = False
    version = 2  # in arenas of version 1 a player had one seat, and the other player its mate's
    nouns = ("word", "clue")

    def rules(self) -> str:
        return (
            f"Clues. Seats 0 and 1 are the red team, seats 2 and 3 the blue team. Of {WORDS} words, {ROLES['red']} are "
            f"red, {ROLES['blue']} blue, one is neutral, and one is the trap. Seats 0 and 2 know which, seats 1 and 3 "
            "do not. What is true of each word is stated in brackets. The teams take turns, red first. Seat 0 or 2 "
            "gives a clue: one of the stated properties and a number, such as animal 2. It must be true of at least "
            f"that many words of its team that were not found yet; the number is at most {MOST}. Then its partner "
            "guesses words one by one, at least one and at most as many as the number; after a guess it may say "
            f"{STOP}. A word that is not the own team's ends the turn, and the trap loses the game at once. The team "
            "whose words are all found first wins, whoever found them."
        )

    def winner(self, state: CluesState) -> int:
        """The team that has won, or -1."""
        roles = Counter(role for _, role in state.found)
        if roles["trap"]:
            return state.side  # the turn has passed from the team that found it
        return next((side for side, name in enumerate(TEAMS) if roles[name] == ROLES[name]), -1)

    def actors(self, state: CluesState) -> tuple[int, ...]:
        if len(state.words) < WORDS or len(state.roles) < WORDS:
            return (CHANCE,)
        if self.winner(state) >= 0:
            return ()
        return (2 * state.side + bool(state.clue),)

    def chance(self, state: CluesState) -> list[tuple[str, float]]:
        if len(state.words) < WORDS:
            left = [noun for noun in NOUNS if noun not in state.words]
            return evenly(left)
        drawn = Counter(state.roles)
        whole = WORDS - len(state.roles)
        return [(role, (count - drawn[role]) / whole) for role, count in ROLES.items() if count > drawn[role]]

    def witnesses(self, state: CluesState, actor: int) -> Sequence[int]:
        return (0, 2) if actor == CHANCE and len(state.words) == WORDS else range(4)

    @staticmethod
    def left(state: CluesState) -> list[str]:
        """The words that were not found yet."""
        taken = {word for word, _ in state.found}
        return [word for word in state.words if word not in taken]

    def legal(self, state: CluesState, seat: int) -> list[str]:
        if seat % 2:
            return [*self.left(state), STOP] if state.stopped else self.left(state)
        counts = self._own(state, seat // 2)
        return [f"{name} {n}" for name, count in sorted(counts.items()) for n in range(1, min(count, MOST) + 1)]

    def _own(self, state: CluesState, side: int) -> Counter[str]:
        """Of each property, of how many words of a team that are left it is true."""
        left = self.left(state)
        words = [word for word, role in zip(state.words, state.roles, strict=False) if role == TEAMS[side]]
        return Counter(name for word in words if word in left for name in PROPERTIES[word])

    def apply(self, state: CluesState, seat: int, move: str) -> CluesState:
        if seat == CHANCE:
            if len(state.words) < WORDS:
                return state._replace(words=(*state.words, move))
            return state._replace(roles=(*state.roles, move))
        side = seat // 2
        if not seat % 2:
            name, number = move.split()
            return state._replace(clue=name, guesses=int(number), clues=(*state.clues, (seat, move)), stopped=False)
        after = state._replace(side=1 - side, clue="", guesses=0, stopped=False)
        if move == STOP:
            return after
        role = state.roles[state.words.index(move)]
        guessed = (*state.found, (move, role))
        if role == TEAMS[side] and state.guesses > 1:
            return state._replace(found=guessed, guesses=state.guesses - 1, stopped=True)
        return after._replace(found=guessed)

    def returns(self, state: CluesState) -> tuple[float, ...]:
        won = self.winner(state)
        return tuple(1.0 if team == won else -1.0 for team in self.teams)

    def view(self, state: CluesState, seat: int) -> CluesState:
        """Hides the roles from the guessers until the end."""
        return state if seat % 2 == 0 or not self.actors(state) else state._replace(roles=())

    def show(self, view: CluesState, seat: int) -> str:
        roles = dict(zip(view.words, view.roles, strict=False))
        left = [
            f"{word}{', ' + roles[word] if roles else ''} ({', '.join(PROPERTIES[word])})" for word in self.left(view)
        ]
        guessed = ", ".join(f"{word} ({role})" for word, role in view.found)
        clues = ", ".join(f"seat {giver} {clue}" for giver, clue in view.clues)
        lines = [f"Words left: {'; '.join(left)}.", f"Found: {guessed or 'none'}. Clues so far: {clues or 'none'}."]
        if view.clue:
            lines.append(f"Guesses left of the {TEAMS[view.side]} team for {view.clue}: {view.guesses}.")
        return "\n".join(lines)

    def expert(self, view: CluesState, seat: int, rng: random.Random) -> str:
        """Gives the clue with the most words of its own team and none of others; guesses words the clue is true of."""
        if seat % 2:
            fitting = [word for word in self.left(view) if view.clue in PROPERTIES[word]]
            if fitting:
                return rng.choice(fitting)
            return STOP if view.stopped else rng.choice(self.left(view))
        counts, left = self._own(view, seat // 2), self.left(view)
        roles = dict(zip(view.words, view.roles, strict=True))

        def worth(clue: str) -> tuple[float, float]:
            name, number = clue.split()
            fitting = [word for word in left if name in PROPERTIES[word]]
            trapped = any(roles[word] == "trap" for word in fitting)
            good = counts[name] / len(fitting)
            if good == 1:
                return (float(number), rng.random())
            return ((good - trapped) * (number == "1"), rng.random())

        return max(self.legal(view, seat), key=worth)
