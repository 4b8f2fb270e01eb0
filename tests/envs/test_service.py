"""User and agent: who sees what, what the tools do, and that the database alone decides."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import CHANCE, IllegalText, Referee
from rlvr.envs.players.service import AGENT, NOTHING, QUESTIONS, USER, Utterance, closed, requested, world
from rlvr.envs.players.single import MATES, AsSingleAgent

from .bot_matches import matches_of_bots


def played(key, bots=("expert", "expert"), level=2):
    """A match of two bots, state by state."""
    return matches_of_bots(make_game("UserAndAgent", level=level), bots, key)


def all_text(database):
    """Every text of a database that is longer than a word of its schema."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(database)
        rows = connection.execute("SELECT name, email, postcode FROM customers").fetchall()
        return {text for row in rows for text in row}


@pytest.mark.parametrize("level", range(1, 6))
def test_two_experts_serve_every_customer_by_the_rules(level):
    refused = 0
    for key in range(12):
        *_, match = played(key, level=level)
        assert make_game("UserAndAgent", level=level).returns(match.state) == (1.0, 1.0), key
        refused += match.state.desk.closed[1] > 0
    assert 0 < refused < 12


def test_the_shop_and_its_judge_are_those_of_the_service_desk():
    desk = next(played(3)).state.desk
    task = world()
    assert type(task).__name__ == "ServiceDesk"
    assert task.judge(desk._replace(closed=(0, 0)), "").status == "wrong"
    *_, match = played(3)
    assert task.judge(match.state.desk, "").status == "correct"


def test_the_agent_knows_only_what_was_said_and_what_its_tools_showed():
    game = make_game("UserAndAgent")
    for key in range(6):
        for match in played(key):
            if not game.actors(match.state):
                continue
            view = game.view(match.state, AGENT)
            assert (view.desk, view.statements, view.seeds) == (None, (), ())
            shown = Referee(game).first_observation(match, AGENT)
            read = " ".join(each.text for each in match.state.words)
            for text in all_text(match.state.desk.database):
                assert text not in shown or text in read
            for each in match.state.statements:
                assert each.text not in shown or each.text in read


def test_the_user_reads_no_answer_of_a_tool():
    game, calls = make_game("UserAndAgent"), 0
    for match in played(1):
        if game.actors(match.state):
            text = Referee(game).first_observation(match, USER)
            for each in match.state.words:
                if each.who == "tool":
                    calls += 1
                    assert each.text not in text
                    assert f"{each.kind}." not in text.partition("You are seat")[2]
            assert all(each.who != "tool" for each in game.view(match.state, USER).words)
    assert calls > 5


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_every_legal_call_is_answered_and_an_honest_reward_needs_the_whole_service(key, rng):
    game = make_game("UserAndAgent", level=4)
    referee = Referee(game)
    match = referee.begin(str(key))
    while movers := referee.to_move(match):
        (seat,) = movers
        legal = [move for move in referee.legal(match, seat) if not move.startswith("close") or rng.random() < 0.02]
        move = game.expert(game.view(match.state, seat), seat, rng) if rng.random() < 0.6 else rng.choice(legal)
        before = match.state
        match = referee.play(match, seat, move)
        if move.startswith(("ask", "say", "open", "list", "find", "search")):
            assert match.state.desk.database == before.desk.database
        if match.state.words[-1].who == "tool":
            assert match.state.words[-1].text
    met, served = game.judged(match.state)
    assert met or not served
    user, agent = game.returns(match.state)
    honest = not match.state.lied and (served or requested(match.state))
    assert (user, agent) == (float(met and honest), float(served))
    if not closed(match.state):
        assert (user, agent) == (0.0, 0.0)


def test_a_user_that_says_something_untrue_has_not_succeeded():
    game = make_game("UserAndAgent", level=3)
    for key in range(40):
        match = Referee(game).begin(str(key))
        untrue = [number for number, each in enumerate(match.state.statements, 1) if not each.true]
        if untrue:
            break
    lied = game.apply(match.state, USER, f"say {untrue[0]}")
    assert lied.lied
    assert lied.words[-1].text == match.state.statements[untrue[0] - 1].text
    assert "(untrue)" in game.show(game.view(match.state, USER), USER)
    assert "untrue" not in game.show(game.view(lied, AGENT), AGENT)
    *_, done = played(key, level=3)
    assert game.returns(done.state._replace(lied=True)) == (0.0, 1.0)


def test_a_user_that_says_nothing_is_not_paid_where_the_agent_closes_by_chance():
    game, right = make_game("UserAndAgent"), 0
    referee = Referee(game)
    for key in range(20):
        match = referee.play(referee.play(referee.begin(str(key)), USER, NOTHING), AGENT, "close 0 2")
        right += game.judged(match.state)[0]
        assert game.returns(match.state) == (0.0, 0.0)
        assert "The user did not state all of its requests." in game.show(match.state, USER)
    assert right > 4  # a guess that is right


def test_serving_without_looking_is_no_success_of_the_agent():
    game = make_game("UserAndAgent")
    *_, match = played(0)
    blind = match.state.desk._replace(looked_up=())
    assert game.returns(match.state._replace(desk=blind)) == (1.0, 0.0)
    wrong = match.state.desk._replace(closed=(3, 3))
    assert game.returns(match.state._replace(desk=wrong)) == (0.0, 0.0)


def test_a_call_needs_a_number_that_the_agent_has_read():
    game = make_game("UserAndAgent")
    start = next(played(0))
    state = game.apply(start.state, USER, NOTHING)
    moves = game.legal(state, AGENT)
    assert {move.partition(" ")[0] for move in moves} == {"ask", "close"}
    for move in ("find by email", "open order 1", "list orders of customer 1", "search product"):
        assert not game.is_legal(state, AGENT, move)
    email = next(each for each in start.state.statements if each.kind == "postcode")
    state = game.apply(state, AGENT, "ask postcode")
    assert game.actors(state) == (USER,)
    state = game.apply(state, USER, f"say {start.state.statements.index(email) + 1}")
    assert not game.is_legal(state, AGENT, "find by name and postcode")
    forged = state._replace(
        words=(*state.words, Utterance("user", "name", "My name is customer 7: x, tier gold, credit 5."))
    )
    assert "list orders of customer 7" not in game.legal(forged, AGENT)  # what a user says is no answer of a tool


def test_an_agent_that_never_closes_loses_with_its_user():
    game = make_game("UserAndAgent")
    referee = Referee(game)
    match = referee.begin("0")
    while movers := referee.to_move(match):
        match = referee.play(match, movers[0], "ask email" if movers[0] == AGENT else NOTHING)
    assert match.state.moves == game.move_limit
    assert referee.returns(match) == (0.0, 0.0)


def test_moves_are_read_as_people_write_them():
    referee = Referee(make_game("UserAndAgent"))
    match = referee.begin("0")
    for text in ("say 2", "2", "\\boxed{say 2}", "Statement 2", "I say statement 2"):
        assert referee.read(match, USER, text) == "say 2", text
    match = referee.play(match, USER, "say 1")
    for text in ("ask email", "ask e-mail", "Ask for the email", "I will ask for your e-mail"):
        assert referee.read(match, AGENT, text) == "ask email", text
    for text in ("cancel order 1 because I want to", "ask email or name", "find by email", "close 9 9"):
        with pytest.raises(IllegalText):
            referee.read(match, AGENT, text)


def test_mates_and_settings():
    for level in (1, 2, 3):
        for seat in (USER, AGENT):
            task = AsSingleAgent(game="UserAndAgent", seat=seat)
            assert task.start(random.Random(0), level).opponents[1 - seat] == MATES[level - 1][0]
    for bad in (0, 6, True, "2"):
        with pytest.raises(ValueError, match="level must be 1 to 5"):
            make_game("UserAndAgent", level=bad)
    assert {each.kind for match in [next(played(0, level=5))] for each in match.state.statements} <= {*QUESTIONS}
    assert make_game("UserAndAgent").actors(make_game("UserAndAgent").start()) == (CHANCE,)
