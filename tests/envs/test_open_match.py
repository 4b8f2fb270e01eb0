"""All seats of a task's match, open to whoever plays them."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.players.game import NotThisSeat, SeatTexts
from rlvr.envs.players.single import OpenMatch, game_task

LISTED = re.compile(r"Your legal moves: (.*)\.")


def open_match(game, seed=0, bots=None, **settings):
    env = gym.make(f"rlvr/{game}-v0", opponents=["self"], **settings)
    task = game_task(env)
    task.self_play = True
    env.reset(seed=seed)
    return OpenMatch(task, env.unwrapped.get_state().state, bots)


def play(match, choose):
    while movers := match.to_move():
        for seat in movers:
            match.act(seat, choose(seat, match.text(seat)))


@given(st.sampled_from(["KuhnPoker", "Goofspiel", "Clues", "LiarsDiceTable"]), st.integers(0, 50), st.data())
def test_every_seat_is_told_what_the_referee_tells_it_and_gets_a_verdict(game, seed, data):
    match = open_match(game, seed)
    referee, read = match.task.referee, {}
    while movers := match.to_move():
        for seat in movers:
            first = referee.first_observation(match.match, seat)
            text = match.text(seat)
            assert text == (referee.observe(match.match, seat, read[seat]) if seat in read else first)
            assert match.text(seat) == text  # asking again tells it again
        for seat in movers:
            read[seat] = len(match.match.log)
            match.act(seat, data.draw(st.sampled_from(sorted(referee.legal(match.match, seat)))))
    returns = referee.returns(match.match)
    for seat in match.open:
        assert match.verdict(seat).parts["return"] == returns[seat]


def test_bots_play_the_seats_that_are_not_open():
    match = open_match("LiarsDiceTable", 3, bots={0: "expert", 2: "random"})
    assert match.open == (1, *range(3, match.task.game.seats))
    play(match, lambda seat, text: LISTED.search(text)[1].split(", ")[-1])
    assert {0, 2} & {event.actor for event in match.match.log}
    with pytest.raises(NotThisSeat, match="the match is over"):
        match.act(1, "anything")


def test_an_illegal_text_is_told_to_its_own_seat_alone():
    match = open_match("TicTacToeDuel")
    (mover,) = match.to_move()
    match.act(mover, "z9")
    assert match.to_move() == (mover,)
    assert match.text(mover).startswith("That is not a legal move.\n")
    assert "not a legal move" not in match.text(1 - mover)
    match.act(mover, LISTED.search(match.text(mover))[1].split(", ")[0])
    assert "not a legal move" not in match.text(mover)


def test_a_seat_that_breaks_off_loses_and_the_other_wins():
    match = open_match("KuhnPoker")
    with pytest.raises(ValueError, match="the match is not over"):
        match.verdict(0)
    match.break_off(1)
    assert match.to_move() == ()
    assert (match.verdict(0).status, match.verdict(1).status) == ("correct", "wrong")
    assert "answered no more" in match.verdict(1).reason


@pytest.mark.parametrize("reward", ["outcome", "payoff"])
@pytest.mark.parametrize("game", ["GuideAndWalker", "Taboo", "UserAndAgent", "HanabiSmall"])
def test_a_forfeit_is_worth_nothing_to_a_mate(game, reward):
    match = open_match(game, reward=reward)
    while match.match.loser < 0:
        match.act(match.to_move()[0], "nothing that is a move")
    for seat in match.open:
        assert (match.verdict(seat).reward, match.verdict(seat).status) == (
            0.0,
            "unparsable" if seat == match.match.loser else "wrong",
        )
    assert "forfeited after 3 illegal moves" in match.verdict(match.match.loser).reason


@pytest.mark.parametrize(
    ("bots", "reason"),
    [({7: "random"}, "there is no seat 7"), ({0: "oracle"}, "oracle"), ({0: "random", 1: "first"}, "leave one open")],
)
def test_seats_and_bots_that_there_are_not_are_one_clear_error(bots, reason):
    with pytest.raises(ValueError, match=reason):
        open_match("KuhnPoker", bots=bots)


def test_a_task_of_one_seat_is_none():
    assert game_task(gym.make("rlvr/GuessNumber-v0")) is None


def test_what_was_read_can_be_kept_and_put_back():
    match = open_match("TicTacToeDuel")
    (mover,) = match.to_move()
    match.act(mover, "z9")
    texts = SeatTexts(match.task.referee)
    texts.read, texts.notes = dict(match.texts.read), dict(match.texts.notes)
    assert texts.text(match.match, mover) == match.text(mover)


def test_the_policy_may_have_one_of_some_seats():
    env = gym.make("rlvr/LiarsDiceTable-v0", seat=[0, 2])
    drawn = set()
    for seed in range(12):
        env.reset(seed=seed)
        drawn.add(env.unwrapped.get_state().state.seat)
    assert drawn == {0, 2}
    for wrong in ([], [0, 9], ["0"], [True]):
        with pytest.raises(ValueError, match="there is no seat"):
            gym.make("rlvr/LiarsDiceTable-v0", seat=wrong)
