"""Arena: round robins and Swiss tournaments of bots and policies, with ratings, intervals and a payoff matrix.

Both entrants of a pair play every key in every seat, so that neither has the better seats or cards. Where seats form
teams, or chance gives them roles that win together, an entrant has all seats of one. Where more than two teams play,
one entrant has a team and the other all the rest, and each key is played with either of them alone. Matches are written
one line each as they end; an arena that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from rlvr.agents.chat_function import as_chat_function
from rlvr.agents.conversation import Agent
from rlvr.envs.core.files import open_plain
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.seeding import stream
from rlvr.envs.players.bots import make_bot
from rlvr.envs.players.game import SYSTEM, Match, Referee

PER_ELO: Final = math.log(10) / 400  # of a difference of ratings, the logit of the expected score
PRIOR: Final = 400.0  # standard deviation of the ratings' prior, in points: a clean sweep has a finite rating
FORMAT: Final = 2  # of the files of matches
# Who plays: of a referee, a match, its seat and the messages so far, the text of a move.
Entrant = Callable[[Referee, Match, int, list[dict[str, str]]], str]


@dataclass(frozen=True, slots=True)
class PlayedMatch:
    """One match: ``first`` had the team of ``seat``, and ``second`` all others. ``score`` is ``first``'s, 0 to 1.

    ``payoff`` and ``second_payoff`` are the mean returns of their seats. ``error`` says why a match has no score: an
    entrant failed, which is nobody's loss. ``round`` counts from 1 in a Swiss tournament.
    """

    first: str
    second: str
    key: str
    seat: int
    score: float | None
    payoff: float = 0.0
    second_payoff: float = 0.0
    forfeited: bool = False
    error: str = ""
    round: int = 0


def bot_entrant(name: str) -> Entrant:
    """A bot as an entrant.

    Raises:
        ValueError: there is no such bot.
    """
    bot = make_bot(name)

    def choose(referee: Referee, match: Match, seat: int, messages: list[dict[str, str]]) -> str:
        rng = stream("arena", name, match.key, seat, len(match.log))
        return bot.choose(referee.game, referee.game.view(match.state, seat), seat, rng)

    return choose


def agent_entrant(agent: Agent, *, system: bool | None = None, brief: bool | None = None) -> Entrant:
    """An agent that reads and writes text, a policy say, as an entrant.

    Args:
        system: whether its conversation begins with the system prompt; None: unless the arena is ``brief``.
        brief: whether its first message lacks the rules; None: as the arena is.
    """
    chat = as_chat_function(agent)

    def choose(referee: Referee, match: Match, seat: int, messages: list[dict[str, str]]) -> str:
        return chat(messages)

    choose.reads = True  # type: ignore[attr-defined]  # its conversation must be written
    choose.system, choose.brief = system, brief  # type: ignore[attr-defined]
    return choose


def play_match(referee: Referee, entrants: Sequence[Entrant], key: str, brief: bool = False) -> Match:
    """Play a match to its end; entrant i has seat i.

    Args:
        brief: leave the system prompt and the rules out, for policies that were trained without them; of entrants
            that do not say it themselves, see `agent_entrant`.
    """
    match = referee.begin(key)
    briefs = [_own(entrant, "brief", brief) for entrant in entrants]
    opening = [{"role": "system", "content": SYSTEM}]
    messages = [[*opening] if _own(entrant, "system", not brief) else [] for entrant in entrants]
    read = [-1] * len(entrants)
    while movers := referee.to_move(match):
        seat = movers[0]
        entrant = entrants[seat]
        if getattr(entrant, "reads", False):
            since = read[seat]
            text = (
                referee.first_observation(match, seat, briefs[seat])
                if since < 0
                else referee.observe(match, seat, since)
            )
            messages[seat].append({"role": "user", "content": text})
            read[seat] = len(match.log)
        action = entrant(referee, match, seat, messages[seat])
        messages[seat].append({"role": "assistant", "content": action})
        match = referee.act(match, seat, action)
    return match


def _own(entrant: Entrant, name: str, default: bool) -> bool:
    value = getattr(entrant, name, None)
    return default if value is None else bool(value)


class Arena:
    """A round robin.

    Args:
        referee: the game.
        entrants: who plays, by name.
        matches: of each pair; rounded up so that both have every seat, or every team, equally often.
        seed: decides the keys of the matches.
        brief: leave the system prompt and the rules out, for policies that were trained without them.

    Raises:
        ValueError: fewer than two entrants or one match, all seats of the game are one team, or a seat relies on one
            of another team.
    """

    def __init__(
        self,
        referee: Referee,
        entrants: Mapping[str, Entrant],
        *,
        matches: int = 100,
        seed: int = 0,
        brief: bool = False,
    ) -> None:
        if len(entrants) < 2:
            raise ValueError(f"an arena needs two entrants, not {len(entrants)}")
        if matches < 1:
            raise ValueError(f"a pair plays at least one match, not {matches}")
        _check_rated(referee)
        self.referee, self.entrants, self.matches, self.seed = referee, dict(entrants), matches, seed
        self.brief = brief

    def plan(self) -> Iterator[tuple[str, str, str, int]]:
        """Every match that is to be played: both names, the key, and the seat of the first."""
        for first, second in combinations(self.entrants, 2):
            yield from self.meetings(first, second, str(self.seed))

    def meetings(self, first: str, second: str, prefix: str) -> Iterator[tuple[str, str, str, int]]:
        """The matches of a pair: of each key one with every team, and in games of more than two teams with both alone.

        The seat is the lowest of the team that the first named has.
        """
        number = played = 0
        while played < self.matches:
            key = f"{prefix} {number}"
            teams = _teams(self.referee, self.referee.begin(key))
            lowest = [teams.index(team) for team in dict.fromkeys(teams)]
            pairs = [(first, second)] if len(lowest) == 2 else [(first, second), (second, first)]
            for alone, others in pairs:
                for seat in lowest:
                    yield alone, others, key, seat
                    played += 1
            number += 1

    def play(self, done: Sequence[PlayedMatch] = ()) -> Iterator[PlayedMatch]:
        """Play what is not done yet. An entrant that raises ends its match without a score."""
        played_keys = {(each.first, each.second, each.key, each.seat) for each in done}
        for planned in self.plan():
            if planned not in played_keys:
                yield self.played(*planned)

    def played(self, first: str, second: str, key: str, seat: int, round: int = 0) -> PlayedMatch:
        """One match, in which ``first`` has the team of a seat and ``second`` all others."""
        game = self.referee.game
        try:
            teams = _teams(self.referee, self.referee.begin(key))
            mine = [team == teams[seat] for team in teams]
            entrants = [self.entrants[first if is_first else second] for is_first in mine]
            match = play_match(self.referee, entrants, key, self.brief)
            if _teams(self.referee, match) != teams:
                raise ValueError(f"the teams of {game.name} are others at the end of the match than at its beginning")
        except Exception as error:  # an entrant is somebody's program or a model behind a network
            fault = f"{type(error).__name__}: {error}"[:300]
            return PlayedMatch(first, second, key, seat, None, error=fault, round=round)
        returns = self.referee.returns(match)
        share = game.outcome(returns, seat)
        if len({*teams}) == 2:
            share = 0.5 + (share - game.outcome(returns, mine.index(False))) / 2
        if match.loser >= 0:  # a forfeit need not pay the others more: in a game that is not zero-sum, or among many
            share = 0.0 if mine[match.loser] else 1.0
        payoff, second_payoff = (
            fmean(value for value, is_first in zip(returns, mine, strict=True) if is_first is side)
            for side in (True, False)
        )
        forfeited = match.loser >= 0
        return PlayedMatch(first, second, key, seat, share, payoff, second_payoff, forfeited, round=round)


def _teams(referee: Referee, match: Match) -> tuple[int, ...]:
    """The team of each seat; where chance draws who wins together, the seats of one role are a team."""
    return referee.game.teams_in(match.state)


def _check_rated(referee: Referee) -> None:
    """Raise ValueError for a game in which a player's score would not say how well it plays against another."""
    game = referee.game
    if len({*_teams(referee, referee.begin("arena"))}) < 2:
        raise ValueError(f"all seats of {game.name} are one team: an arena rates players against each other")
    for seat in range(game.seats):
        if needed := [other for other in game.relies_on(seat) if game.teams[other] != game.teams[seat]]:
            raise ValueError(
                f"in {game.name} seat {seat} wins by the good play of seat {needed[0]}, which would be its opponent's: "
                "an arena rates players against each other"
            )


@dataclass(frozen=True, slots=True)
class Standing:
    """An entrant's place in the table: Elo with the half-width of its 95 % interval, mean score, matches, payoff.

    ``payoff`` is the mean return of the entrant's seats.
    """

    name: str
    elo: float
    interval: float
    score: float
    matches: int
    payoff: float
    forfeits: int


def ratings(played: Sequence[PlayedMatch], names: Sequence[str]) -> list[Standing]:
    """Elo ratings by maximum a posteriori of the Bradley-Terry model, a draw half a win; the mean is 1500.

    Intervals are 1.96 standard errors, from the inverse of the Hessian at the optimum. Matches without a score count
    for nothing.
    """
    index = {name: at for at, name in enumerate(names)}
    scored = [each for each in played if each.score is not None]
    wins, count = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
    payoff, forfeits = np.zeros(len(names)), np.zeros(len(names))
    for each in scored:
        a, b = index[each.first], index[each.second]
        wins[a, b] += float(each.score or 0.0)
        wins[b, a] += 1 - float(each.score or 0.0)
        count[a, b] += 1
        count[b, a] += 1
        payoff[a] += each.payoff
        payoff[b] += each.second_payoff
        forfeits[a if (each.score or 0) < 0.5 else b] += each.forfeited
    theta, prior = np.zeros(len(names)), 1 / (PRIOR * PER_ELO) ** 2
    for _ in range(100):
        expected = 1 / (1 + np.exp(theta[None, :] - theta[:, None]))
        # gradient of sum_ij w_ij log p_ij - prior theta^2 / 2, with p_ij = 1 / (1 + exp(theta_j - theta_i))
        gradient = (wins - count * expected).sum(1) - prior * theta
        curvature = count * expected * (1 - expected)
        hessian = np.diag(curvature.sum(1) + prior) - curvature
        step = np.linalg.solve(hessian, gradient)
        theta += step
        if np.abs(step).max() < 1e-10:
            break
    centred = np.eye(len(names)) - 1 / len(names)  # the mean is fixed, so its own uncertainty is none of a rating's
    errors = np.sqrt(np.diag(centred @ np.linalg.inv(hessian) @ centred)) / PER_ELO
    elo = 1500 + (theta - theta.mean()) / PER_ELO
    totals = count.sum(1)
    table = [
        Standing(
            name,
            float(elo[at]),
            float(1.96 * errors[at]),
            float(wins[at].sum() / max(totals[at], 1)),
            int(totals[at]),
            float(payoff[at] / max(totals[at], 1)),
            int(forfeits[at]),
        )
        for name, at in index.items()
    ]
    return sorted(table, key=lambda each: -each.elo)


def payoff_matrix(played: Sequence[PlayedMatch], names: Sequence[str]) -> list[list[float | None]]:
    """The mean score of each row against each column; None where they have not met."""
    sums: dict[tuple[str, str], list[float]] = {}
    for each in played:
        if each.score is not None:
            sums.setdefault((each.first, each.second), []).append(each.score)
            sums.setdefault((each.second, each.first), []).append(1 - each.score)
    return [[float(np.mean(sums[row, column])) if (row, column) in sums else None for column in names] for row in names]


def _header(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The first line of a file of matches."""
    return {"arena": dict(setting), "format": FORMAT}


def read_matches(path: Path, setting: Mapping[str, Any]) -> list[PlayedMatch]:
    """The matches of a file that is there, else none; a last line that was cut off is left out.

    Raises:
        ValueError: the file is of another arena.
    """
    if not path.exists():
        return []
    head, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    first_record = load_json(head) if head.startswith("{") else None
    header = first_record.get("arena") if isinstance(first_record, dict) else None
    if isinstance(header, dict) and isinstance(first_record, dict) and first_record.get("format") != FORMAT:
        raise ValueError(
            f"{path} holds matches of another version of the arena, which paired otherwise: give a new file"
        )
    if isinstance(header, dict) and header != setting and {**header, "version": 0} == {**setting, "version": 0}:
        raise ValueError(
            f"{path} holds matches of version {header.get('version', 1)} of the game, and this is version "
            f"{setting.get('version', 1)}: give a new file"
        )
    if not isinstance(first_record, dict) or first_record != _header(setting):
        raise ValueError(f"{path} is not of this arena: give the game, seed and settings it began with, or a new file")
    played = []
    for number, line in enumerate(lines):
        try:
            played.append(PlayedMatch(**load_json(line)))
        except (ValueError, TypeError):
            if number < len(lines) - 1:
                raise ValueError(f"{path} line {number + 2} is no match") from None
    return played


def run_arena(arena: Arena, path: Path | None, setting: Mapping[str, Any]) -> list[PlayedMatch]:
    """Play an arena, writing each match to ``path`` as it ends; what stands there already is not played again.

    Raises:
        ValueError: the file is of another arena.
    """
    if path is None:
        return list(arena.play())
    played = [each for each in read_matches(path, setting) if not each.error]  # faults are tried again
    with open_plain(path, "w") as file:
        file.write(json.dumps(_header(setting)) + "\n")
        file.writelines(json.dumps(asdict(each)) + "\n" for each in played)
        for each in arena.play(played):
            file.write(json.dumps(asdict(each)) + "\n")
            file.flush()
            played.append(each)
    names = set(arena.entrants)
    return [each for each in played if {each.first, each.second} <= names]
