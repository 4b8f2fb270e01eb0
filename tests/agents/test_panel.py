"""The panel: a policy against fixed bots, in each seat, from the start of the game."""

from __future__ import annotations

import re

import pytest

from rlvr.agents.conversation import Reply
from rlvr.agents.players.panel import play_panel
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import SYSTEM, Referee


class Writes:
    """Writes what a function makes of the observation; keeps the conversations it was asked."""

    def __init__(self, text):
        self.text, self.asked = text, {}

    def act(self, conversations):
        for each in conversations:
            self.asked[each.key] = [dict(message) for message in each.messages]
        return [self.text(each.messages[-1]["content"]) for each in conversations]


def first_listed(observation: str) -> Reply:
    return Reply(re.search(r"Your legal moves: (.*)\.", observation)[1].split(", ")[0])


def test_each_seat_is_played_equally_often_against_each_bot():
    agent = Writes(first_listed)
    scores = play_panel(Referee(make_game("TicTacToeDuel")), agent, ["random", "expert"], matches=20, seed=1)
    assert {name: score.matches for name, score in scores.items()} == {"random": 20, "expert": 20}
    seats = [re.search(r"You are seat (\d)", messages[1]["content"])[1] for messages in agent.asked.values()]
    assert seats.count("0") == seats.count("1") == 20
    assert all(messages[0] == {"role": "system", "content": SYSTEM} for messages in agent.asked.values())
    assert scores["expert"].score < scores["random"].score, (
        "the first free cell beats chance more often than perfection"
    )
    assert all(score.forfeits == 0 for score in scores.values())
    for score in scores.values():  # a loss pays -1, a draw 0, a win 1
        assert score.payoff == pytest.approx(2 * score.score - 1)
        assert score.not_lost >= score.score


def test_the_same_seed_plays_the_same_matches_and_the_opponents_of_a_pair_share_their_cards():
    referee = Referee(make_game("KuhnPoker"))
    agents = [Writes(first_listed) for _ in range(3)]
    first, again, other = (
        play_panel(referee, agent, ["random"], matches=40, seed=seed, brief=True, system=False)
        for agent, seed in zip(agents, (3, 3, 4), strict=True)
    )
    assert first == again
    assert agents[0].asked == agents[1].asked
    assert agents[0].asked != agents[2].asked
    assert other.keys() == {"random"}
    assert all(messages[0]["content"].startswith("Seat ") for messages in agents[0].asked.values()), "brief"


def test_nonsense_forfeits_every_match():
    score = play_panel(Referee(make_game("TicTacToeDuel")), Writes(lambda _: Reply("no")), ["first"], matches=6)[
        "first"
    ]
    assert score == (6, 0.0, 0.0, -1.0, 1.0)


def test_a_match_that_the_engine_could_not_play_counts_for_nothing():
    referee, count = Referee(make_game("TicTacToeDuel")), iter(range(1000))
    agent = Writes(lambda text: Reply("", "error", error="gone") if next(count) < 4 else first_listed(text))
    assert play_panel(referee, agent, ["random"], matches=10)["random"].matches == 6
    with pytest.raises(RuntimeError, match="could not reply in any match against random"):
        play_panel(referee, Writes(lambda _: Reply("", "context")), ["random"], matches=4)
    with pytest.raises(ValueError, match="at least one match"):
        play_panel(referee, agent, ["random"], matches=0)


def test_the_policy_has_all_seats_of_its_team_and_the_bot_none_of_them():
    """Clues: two teams of two. Seats of a team read apart: the guesser's texts never name a role that was not found."""
    agent = Writes(first_listed)
    scores = play_panel(Referee(make_game("Clues")), agent, ["expert"], matches=8, seed=2)
    by_match = {}
    for key, messages in agent.asked.items():
        seat = int(re.search(r"You are seat (\d)", messages[1]["content"])[1])
        by_match.setdefault(key.partition("/")[0], set()).add(seat)
        assert ("trap (" in messages[1]["content"]) == (seat in (0, 2))
    assert len(by_match) == scores["expert"].matches == 8
    assert all(seats in ({0, 1}, {2, 3}) or len(seats) == 1 for seats in by_match.values())
    assert {0, 1} in by_match.values()
    assert {2, 3} in by_match.values()


def test_a_forfeit_of_a_mate_is_the_policys_and_a_bot_is_the_mate_where_all_are_one_team():
    def breaks_as_guesser(text):
        return Reply("no") if "Guesses left" in text else first_listed(text)

    score = play_panel(Referee(make_game("Clues")), Writes(breaks_as_guesser), ["random"], matches=8)["random"]
    assert score.forfeits > 0.5
    assert score.score < 0.5
    agent = Writes(first_listed)
    play_panel(Referee(make_game("HanabiSmall")), agent, ["expert"], matches=2)
    assert len(agent.asked) == 2


def test_the_policy_may_have_some_seats_alone_and_its_mates_play_theirs():
    agent, mate = Writes(first_listed), Writes(first_listed)
    referee = Referee(make_game("Clues"))
    play_panel(referee, agent, ["random"], matches=6, players=(0, 2), mates={1: mate, 3: mate})
    seats = {
        who: {re.search(r"You are seat (\d)", messages[1]["content"])[1] for messages in each.asked.values()}
        for who, each in (("agent", agent), ("mate", mate))
    }
    assert seats == {"agent": {"0", "2"}, "mate": {"1", "3"}}
