"""A fixed panel of bots: what a policy of several seats is measured by while it plays against itself.

In self-play a score says nothing: a policy that plays worse and worse still wins half of its matches against itself. A
bot does not move, so the score against it does say something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.envs.core.seeding import stream
from rlvr.envs.players.bots import Bot, bot_for
from rlvr.envs.players.game import SYSTEM, Match, Referee


class PanelScore(NamedTuple):
    """How a policy did against one bot, which had the seats of the other teams; in a game of one team, all others.

    Attributes:
        matches: that were played to an end.
        score: mean outcome of the policy's seat, a draw one half.
        not_lost: share of the matches that it won or drew.
        payoff: mean return of its seat.
        forfeits: share of the matches that it forfeited by illegal moves, with any seat of its team.
    """

    matches: int
    score: float
    not_lost: float
    payoff: float
    forfeits: float


@dataclass(slots=True)
class _PanelMatch:
    match: Match
    seat: int
    own: frozenset[int]  # the seats that the policy plays
    bot: Bot
    name: str
    key: str
    conversations: dict[int, Conversation]
    read: dict[int, int] = field(default_factory=dict)  # events that each seat of the policy has read
    mover: int = 0
    failed: bool = False

    @property
    def conversation(self) -> Conversation:
        """That of the seat that moves."""
        return self.conversations[self.mover]


def play_panel(
    referee: Referee,
    agent: Agent,
    bots: Sequence[str],
    *,
    matches: int = 64,
    seed: int = 0,
    brief: bool = False,
    system: bool = True,
    players: Sequence[int] | None = None,
    mates: Mapping[int, Agent] | None = None,
) -> dict[str, PanelScore]:
    """Play ``matches`` against each bot, all at once, from the start of the game; the policy has each seat in turn.

    It has the seats of its mates, too, each with a conversation of its own. In a game of one team the bot has them.

    Args:
        brief: leave the rules out of the first observation.
        system: begin conversations with the games' system prompt.
        players: the seats that the policy has in turn, all by default.
        mates: who plays the seats of mates, by seat; the agent itself where none is named.

    Raises:
        ValueError: there is no such bot, or fewer than one match.
        RuntimeError: the agent has failed in all matches against a bot.
    """
    if matches < 1:
        raise ValueError(f"a panel plays at least one match, not {matches}")
    live = list(_matches(referee, bots, matches, seed, system, players or range(referee.game.seats)))
    every = list(live)
    while live := [each for each in live if _bots_moved(referee, each)]:
        for each in live:
            _observed(referee, each, brief)
        for each, reply in _replies(agent, mates or {}, live):
            if reply.stop in ("error", "context"):  # a fault of the engine or of a limit, and no move
                each.failed = True
                continue
            each.conversation.append_reply(reply)
            each.match = referee.act(each.match, each.mover, reply.text)
    return {name: _score(referee, name, [each for each in every if each.name == name]) for name in bots}


def _replies(agent: Agent, mates: Mapping[int, Agent], live: list[_PanelMatch]) -> Iterator[tuple[_PanelMatch, Reply]]:
    """The reply to each match, one batch for each agent."""
    players = [agent, *{id(mate): mate for mate in mates.values() if mate is not agent}.values()]
    for player in players:
        asked = [each for each in live if mates.get(each.mover, agent) is player]
        if asked:
            yield from zip(asked, player.act([each.conversation for each in asked]), strict=True)


def _matches(
    referee: Referee, bots: Sequence[str], matches: int, seed: int, system: bool, seats: Sequence[int]
) -> Iterator[_PanelMatch]:
    for name in bots:
        bot = bot_for(referee.game, name)
        for number in range(matches):
            seat = seats[number % len(seats)]
            # both seats of a number play the same chance, so that no seat has the better cards
            match = referee.begin(f"panel {seed} {number // len(seats)}")
            key, own_seats = f"panel {seed} {name} {number}", _own_seats(referee, match, seat)
            conversations = {
                mine: Conversation(key if mine == seat else f"{key}/seat {mine}", []) for mine in own_seats
            }
            for conversation in conversations.values() if system else ():
                conversation.messages.append({"role": "system", "content": SYSTEM})
            yield _PanelMatch(match, seat, own_seats, bot, name, key, conversations)


def _own_seats(referee: Referee, match: Match, seat: int) -> frozenset[int]:
    """The seats of the team of ``seat``, or of its role; that seat alone where all are one team."""
    teams = referee.game.teams_in(match.state)
    mine = frozenset(other for other, team in enumerate(teams) if team == teams[seat])
    return mine if len(mine) < len(teams) else frozenset((seat,))


def _bots_moved(referee: Referee, each: _PanelMatch) -> bool:
    """Let the bots move until the policy must; whether it must."""
    game = referee.game
    while not each.failed and (movers := referee.to_move(each.match)):
        if own_seats := [seat for seat in movers if seat in each.own]:
            each.mover = own_seats[0]
            return True
        match, mover = each.match, movers[0]
        rng = stream("panel", each.key, mover, len(match.log), len(match.pending))
        each.match = referee.play(match, mover, each.bot.choose(game, game.view(match.state, mover), mover, rng))
    return False


def _observed(referee: Referee, each: _PanelMatch, brief: bool) -> None:
    seat = each.mover
    if seat not in each.read:
        text = referee.first_observation(each.match, seat, brief)
    else:
        text = referee.observe(each.match, seat, each.read[seat])
    each.conversation.messages.append({"role": "user", "content": text})
    each.read[seat] = len(each.match.log)


def _score(referee: Referee, name: str, played: list[_PanelMatch]) -> PanelScore:
    ended = [each for each in played if not each.failed]
    if not ended:
        raise RuntimeError(f"the policy could not reply in any match against {name}")
    returns = [referee.returns(each.match) for each in ended]
    outcomes = [referee.game.outcome(won, each.seat) for won, each in zip(returns, ended, strict=True)]
    count = len(ended)
    return PanelScore(
        count,
        sum(outcomes) / count,
        sum(share > 0 for share in outcomes) / count,
        sum(won[each.seat] for won, each in zip(returns, ended, strict=True)) / count,
        sum(each.match.loser in each.own for each in ended) / count,
    )
