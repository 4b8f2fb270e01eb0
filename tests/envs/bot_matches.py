"""Matches of bots, state by state."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from rlvr.envs.players.bots import make_bot
from rlvr.envs.players.game import Match, Referee


def matches_of_bots(game: Any, bots: Sequence[str], key: int) -> Iterator[Match]:
    """The match before the first move, and after each move of the bots, one for each seat."""
    referee, rng = Referee(game), random.Random(key)
    match = referee.begin(str(key))
    yield match
    while movers := referee.to_move(match):
        view, seat = game.view(match.state, movers[0]), movers[0]
        match = referee.play(match, seat, make_bot(bots[seat]).choose(game, view, seat, rng))
        yield match
