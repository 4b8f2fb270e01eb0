"""Swiss tournaments: in each round players of like score meet, so that many players are rated by few matches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from rlvr.agents.players.arena import Arena, Entrant, PlayedMatch
from rlvr.envs.players.game import Referee

Pair = frozenset[str]


class Swiss(Arena):
    """An arena in rounds. The first order is drawn from the seed; later ones go by the points of all rounds before.

    A round pays its mean score, between 0 and 1, and 1 to the player that sits out where their number is odd. Nobody
    meets a player twice, nor sits out twice, as long as there is a pairing without.

    Args:
        referee: the game.
        entrants: who plays, by name.
        rounds: to play; for N players at most N - 1, and N where N is odd.
        settings: of `Arena`; ``matches`` is of each pair that meets.

    Raises:
        ValueError: fewer than two entrants, one match or one round, or more rounds than a round robin has, or all seats
            of the game are one team.
    """

    def __init__(self, referee: Referee, entrants: Mapping[str, Entrant], *, rounds: int, **settings: Any) -> None:
        super().__init__(referee, entrants, **settings)
        max_rounds = len(entrants) - 1 + len(entrants) % 2
        if not 1 <= rounds <= max_rounds:
            raise ValueError(f"{len(entrants)} players meet in 1 to {max_rounds} rounds, not {rounds}")
        self.rounds = rounds
        self.order = list(entrants)
        random.Random(f"swiss {self.seed}").shuffle(self.order)

    def play(self, done: Sequence[PlayedMatch] = ()) -> Iterator[PlayedMatch]:
        """Play what is not done yet, round by round. Pairs that have begun a round play it to its end."""
        played = list(done)
        for number in range(1, self.rounds + 1):
            for first, second in self.pairs(number, played):
                played_keys = {(each.first, each.second, each.key, each.seat) for each in played}
                for planned in self.meetings(first, second, f"{self.seed} round {number}"):
                    if planned not in played_keys:
                        played.append(self.played(*planned, round=number))
                        yield played[-1]

    def pairs(self, number: int, played: Sequence[PlayedMatch]) -> list[tuple[str, str]]:
        """Who meets in a round, from 1, given the matches of those before and what has begun of it."""
        rounds = [self._pairs_played(before, played) for before in range(1, number)]
        started = self._pairs_played(number, played)
        points = self.points(number, played)
        standing = sorted(self.order, key=lambda name: -points[name])
        free = [name for name in standing if all(name not in pair for pair in started)]
        sat_out = [name for pairs in rounds for name in self.order if pairs and not any(name in pair for pair in pairs)]
        at_names = {name: at for at, name in enumerate(self.entrants)}
        pairs = [*started, *paired(free, {pair for pairs in rounds for pair in pairs}, sat_out)]
        return [(first, second) for first, second in (sorted(pair, key=at_names.__getitem__) for pair in pairs)]

    def points(self, number: int, played: Sequence[PlayedMatch]) -> dict[str, float]:
        """The points of each player before a round. Where all matches of a pair have failed, each has half a point."""
        points = dict.fromkeys(self.order, 0.0)
        for before in range(1, number):
            pairs = self._pairs_played(before, played)
            for name in self.order:
                if not any(name in pair for pair in pairs):
                    points[name] += 1.0
            for pair in pairs:
                first, second = sorted(pair)
                scores = [
                    each.score if each.first == first else 1 - each.score
                    for each in played
                    if each.round == before and {each.first, each.second} == pair and each.score is not None
                ]
                mean = fmean(scores) if scores else 0.5
                points[first] += mean
                points[second] += 1 - mean
        return points

    def _pairs_played(self, number: int, played: Sequence[PlayedMatch]) -> list[Pair]:
        pairs = dict.fromkeys(frozenset((each.first, each.second)) for each in played if each.round == number)
        return [pair for pair in pairs if pair <= {*self.order}]  # the file may hold others


def paired(standing: Sequence[str], met: set[Pair], sat_out: Sequence[str] = ()) -> list[Pair]:
    """Neighbours in the standing, without a pair that has met while that can be; of an odd number one sits out.

    Args:
        standing: who is to be paired, the best first.
        met: pairs that have met.
        sat_out: who has sat out before; the lowest who has not does so, if the others can be paired without a repeat.
    """
    if len(standing) % 2 == 0:
        return _matching(standing, met) or _matching(standing, set()) or []
    lowest_first = standing[::-1]
    waiting = sorted(lowest_first, key=lambda name: name in sat_out)  # stable: the lowest first
    for name in waiting:
        rest = [other for other in standing if other != name]
        pairs = _matching(rest, met)
        if pairs is not None:
            return pairs
    return _matching([other for other in standing if other != waiting[0]], set()) or []


def _matching(standing: Sequence[str], met: set[Pair]) -> list[Pair] | None:
    """Pairs of all names, none of which has met; the best is paired as high as can be, then the next. None: no such."""
    hopeless: set[tuple[str, ...]] = set()  # remainders that cannot be paired: each is searched once

    def search(names: tuple[str, ...]) -> list[Pair] | None:
        if not names:
            return []
        if names in hopeless:
            return None
        best, *others = names
        for at, other in enumerate(others):
            if frozenset((best, other)) in met:
                continue
            rest = search((*others[:at], *others[at + 1 :]))
            if rest is not None:
                return [frozenset((best, other)), *rest]
        hopeless.add(names)
        return None

    return search(tuple(standing))
