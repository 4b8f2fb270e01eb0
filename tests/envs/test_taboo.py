"""Taboo: what is true of a word, what is a foul, what a found word counts, and that codes bring nothing."""

from __future__ import annotations

import base64
import json
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.players.bots import make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.fouls import CODE, FORBIDDEN, FORM, KINDS, NUMBER, SOUND, SPELLING, foul_in, is_form
from rlvr.envs.players.game import IllegalText, Referee
from rlvr.envs.players.nouns import NOUNS, PROPERTIES
from rlvr.envs.players.taboo import (
    WORDS,
    TabooState,
    can_be_singled_out,
    fitting,
    shortest_plan,
    true_of,
    true_sentences,
)

GAME = make_game("Taboo")
BOARD = (
    "fork", "knife", "spoon", "bear", "lion", "apple", "cake", "drum", "boat", "rain", "lamp", "wolf",
)  # fmt: skip
STATE = TabooState(BOARD, "fork", ("sharp", "metal"))


def at(state):
    """A match in a given state, to move."""
    referee = Referee(GAME)
    return referee, referee.begin("0")._replace(state=state)


def played(key, bots, game=GAME):
    referee, rng = Referee(game), random.Random(key)
    match = referee.begin(str(key))
    while movers := referee.to_move(match):
        seat = movers[0]
        view = game.view(match.state, seat)
        match = referee.play(match, seat, make_bot(bots[seat]).choose(game, view, seat, rng))
    return match


def mean(bots, matches=40, game=GAME):
    return sum(Referee(game).returns(played(key, bots, game))[0] for key in range(matches)) / matches


# sentences


def test_a_sentence_is_a_property_one_that_is_lacked_or_a_word_that_it_is_like():
    legal = GAME.legal(STATE, 0)
    assert legal[:3] == ["tool", "home", "food"]
    assert {"not animal", "not small", "like knife", "like spoon"} <= {*legal}
    assert not {"sharp", "metal", "not tool", "not sharp", "animal", "like cake", "like fork", "fork"} & {*legal}
    assert fitting(BOARD, ["tool"]) == ["fork", "knife", "spoon"]
    assert fitting(BOARD, ["tool", "food"]) == ["fork"]
    assert fitting(BOARD, ["like spoon"]) == ["fork", "knife"]


@given(key=st.integers(0, 10**9), pairs=st.sampled_from([1, 2]))
@settings(max_examples=40, deadline=None)
def test_every_legal_sentence_is_true_without_forbidden_words_and_every_secret_can_be_singled_out(key, pairs):
    game = make_game("Taboo", pairs=pairs)
    referee, rng = Referee(game), random.Random(key)
    match = referee.begin(str(key))
    while movers := referee.to_move(match):
        state, seat = match.state, movers[0]
        if seat % 2 == 0:
            left = game.left(state)
            assert can_be_singled_out(left, state.secret, state.forbidden)
            assert {*state.forbidden} < {*PROPERTIES[state.secret]}
            for sentence in game.legal(state, seat):
                assert true_of(sentence, state.secret)
                assert not {*sentence.split()} & {state.secret, *state.forbidden}
        match = referee.play(match, seat, rng.choice(referee.legal(match, seat)))
    assert all(count <= game.sentences for count in match.state.used)
    assert all((each.fit > 0) == (each.end == "found") for each in match.state.finished)
    assert len({each.word for each in match.state.finished}) == len(match.state.finished) <= 3 * pairs


@pytest.mark.parametrize(("text", "move"), [
    ("it is a tool", "tool"), ("It's a tool.", "tool"), ("\\boxed{Not an animal}", "not animal"),
    ("It is not an animal.", "not animal"), ("it isn't made of stone", "not stone"),
    ("It is like a knife", "like knife"), ("\\boxed{it is like the spoon!}", "like spoon"),
    ("I think of forks.\n\\boxed{food}", "food"),
    ("The word is fork, which has tines.\n<action>it is food</action>", "food"), ("My move is: at home", "home"),
])  # fmt: skip
def test_sentences_are_read_as_people_write_them_and_thoughts_are_not_read(text, move):
    referee, match = at(STATE)
    assert referee.read(match, 0, text) == move


@pytest.mark.parametrize("text", [
    "animal", "it is loud", "not not animal", "tool and food", "like cake", "it is not like a knife", "like a shovel",
    "you eat with it", "it is a tool, and you eat with it", "Gabel", "tool 1", "",
])  # fmt: skip
def test_what_is_untrue_or_no_sentence_is_an_illegal_move_and_reaches_nobody(text):
    referee, match = at(STATE)
    with pytest.raises(IllegalText):
        referee.read(match, 0, text)
    after = referee.act(match, 0, text)
    assert after.faults == (1, 0)
    assert referee.observe(after, 1) == referee.observe(match, 1)


@pytest.mark.parametrize(
    "text", ["fork", "Is it a fork?", "I guess fork.", "\\boxed{Fork}", "The word is fork", "a fork"]
)
def test_words_are_read_as_people_write_them(text):
    referee, match = at(GAME.apply(STATE, 0, "tool"))
    assert referee.read(match, 1, text) == "fork"
    for other in ("shovel", "fork or knife", "not fork", "f o r k"):
        with pytest.raises(IllegalText):
            referee.read(match, 1, other)


# fouls


FOULS = [
    ("It is a fork.", FORBIDDEN), ("it is SHARP", FORBIDDEN), ("it is not metal", FORBIDDEN), ("two forks", FORM),
    ("it is metallic", FORM), ("a pitchfork", FORM), ("its sharpness", FORM), ("f-o-r-k", SPELLING),
    ("f o r k", SPELLING), ("F. O. R. K.", SPELLING), ("it begins with an f", SPELLING), ("four letters", SPELLING),
    ("fo rk", SPELLING), ("food of rich kings", SPELLING), ("it rhymes with pork", SOUND), ("sounds like pork", SOUND),
    ("word 1", NUMBER), ("the first word", NUMBER), ("6 15 18 11", NUMBER), ("7", NUMBER), ("it is the 1st", NUMBER),
    ("number three", NUMBER), ("krof", CODE), ("rofk", CODE), ("gpsl", CODE), ("sbex", CODE), ("f0rk", CODE),
    ("Zm9yaw==", CODE), ("666f726b", CODE), ("..-. --- .-. -.-", CODE), ("\N{FORK AND KNIFE}", CODE),
    ("it is a \u0444\u043e\u0440\u043a", CODE), ("f\u200bood", CODE),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind"), FOULS)
def test_a_foul_loses_the_word_and_has_a_reason_and_the_guesser_never_reads_its_text(text, kind):
    referee, match = at(STATE)
    after = referee.act(match, 0, text)
    assert after.faults == (0, 0)
    assert (after.state.finished[0].end, after.state.finished[0].fit, after.state.used) == (f"foul: {kind}", 0, (1,))
    assert f"fork: foul: {kind}." in referee.observe(after, 1)
    assert text not in referee.observe(after, 1, since=len(match.log)) or text in ("7", "word 1")
    assert referee.legal(after, 0)


@pytest.mark.parametrize("text", [
    "you eat with it", "it is found in a kitchen drawer", "people use one of them at dinner", "resigns",
    "Seat 1: resigns",
    "it has a handle", "I would rather not say", "a thing for the table, held in the hand", "no answer",
])  # fmt: skip
def test_honest_words_are_no_foul(text):
    assert foul_in(text, {"fork", "metal", "sharp"}) == ""


@given(st.sampled_from(NOUNS), st.text(max_size=600), st.data())
@settings(max_examples=150, deadline=None)
def test_no_text_breaks_the_search_for_fouls_and_disguises_of_a_word_are_found(word, text, data):
    assert foul_in(text, {word}) in ("", *KINDS)
    disguise = data.draw(st.sampled_from([
        str.upper, str.title, lambda w: w[::-1], lambda w: " ".join(w), lambda w: ".".join(w), lambda w: f"({w})",
        lambda w: base64.b64encode(w.encode()).decode(), lambda w: w.encode().hex(), lambda w: f"{w}s",
        lambda w: f"{w}-like",
        lambda w: "".join(chr((ord(sign) - 97 + 13) % 26 + 97) for sign in w),
        lambda w: " ".join(str(ord(sign) - 96) for sign in w), lambda w: "".join(sorted(w)),
    ]))  # fmt: skip
    assert foul_in(f"it is {disguise(word)}", {word})


def test_forms_of_short_words_are_no_other_words():
    assert all(is_form(form, word) for form, word in [
        ("cats", "cat"), ("mice", "mouse"), ("wolves", "wolf"), ("hotter", "hot"), ("stony", "stone"),
        ("flies", "flying"),
        ("wooden", "wood"), ("firewood", "wood"), ("buses", "bus"), ("sweetness", "sweet"),
    ])  # fmt: skip
    assert not any(is_form(other, word) for other, word in [
        ("category", "cat"), ("cloud", "loud"), ("train", "rain"), ("been", "bee"), ("stool", "tool"), ("hour", "hot"),
    ])  # fmt: skip


def test_a_giver_cannot_write_the_name_of_a_foul_and_a_record_with_one_is_replayed():
    referee, match = at(STATE)
    with pytest.raises(IllegalText):
        referee.read(match, 0, "foul: a sound")
    assert not GAME.is_legal(GAME.apply(STATE, 0, "tool"), 1, "foul: a sound")
    match = referee.begin("7")
    secret = match.state.secret
    match = referee.act(match, 0, f"it is the {secret}")
    assert match.state.finished[0].end == f"foul: {FORBIDDEN}"
    assert referee.replay(json.loads(json.dumps(referee.record(match)))) == match


# what a found word counts


def test_a_found_word_counts_by_how_many_words_the_sentences_fit():
    for sentences, share in ((["tool"], 3), (["tool", "food"], 1), (["not stone"], WORDS)):
        state = STATE
        for sentence in sentences[:-1]:
            state = GAME.apply(GAME.apply(state, 0, sentence), 1, "more")
        state = GAME.apply(GAME.apply(state, 0, sentences[-1]), 1, "fork")
        assert state.finished[0].fit == share
        assert GAME.points(state, 0) == pytest.approx(1 / share)


def test_wrong_words_cost_sentences_and_do_not_make_a_lucky_word_count_more():
    state = GAME.apply(STATE, 0, "tool")
    state = GAME.apply(state, 1, "knife")
    assert (state.named, state.used, state.guess) == (("knife",), (2,), False)
    state = GAME.apply(state, 0, "not stone")
    assert "knife" not in GAME.legal(state, 1)
    assert "Wrong words: knife." in GAME.show(GAME.view(state, 1), 1)
    assert GAME.apply(state, 1, "fork").finished[0].fit == 3
    last = STATE._replace(used=(5,))
    last = GAME.apply(last, 0, "tool")
    assert "more" not in GAME.legal(last, 1)
    lost = GAME.apply(last, 1, "knife")
    assert (lost.finished[0].end, GAME.actors(lost), GAME.returns(lost)) == ("not found", (), (0.0, 0.0))


def test_a_pair_that_has_agreed_on_a_code_earns_less_than_one_that_describes():
    """The guesser here always knows the word, as from a perfect code, and the giver says any true sentence."""
    total, matches = 0.0, 60
    for key in range(matches):
        referee, rng = Referee(GAME), random.Random(key)
        match = referee.begin(str(key))
        while movers := referee.to_move(match):
            move = match.state.secret if movers[0] else rng.choice(referee.legal(match, 0))
            match = referee.play(match, movers[0], move)
        total += referee.returns(match)[0] / matches
    assert total < 0.35
    assert mean(["expert", "expert"]) > 0.9


# experts


@given(key=st.integers(0, 10**9))
@settings(max_examples=15, deadline=None)
def test_the_expert_needs_the_fewest_sentences(key):
    state = Referee(GAME).begin(str(key)).state
    plan = shortest_plan(state.words, (), state.secret, state.forbidden)
    legal = true_sentences(state.words, state.secret, state.forbidden)
    if fitting(state.words, plan) == [state.secret]:
        for fewer in combinations(legal, len(plan) - 1):
            assert fitting(state.words, fewer) != [state.secret]
    else:
        assert len(plan) == 3


def test_the_guesser_asks_until_one_word_is_left_and_names_it():
    state = GAME.apply(STATE, 0, "tool")
    assert GAME.expert(GAME.view(state, 1), 1, random.Random(0)) == "more"
    state = GAME.apply(GAME.apply(state, 1, "more"), 0, "food")
    assert GAME.expert(GAME.view(state, 1), 1, random.Random(0)) == "fork"
    poor = GAME.apply(STATE._replace(used=(5,)), 0, "tool")
    assert GAME.expert(GAME.view(poor, 1), 1, random.Random(0)) in ("fork", "knife", "spoon")


def test_two_experts_do_well_and_one_random_seat_spoils_it():
    assert mean(["random", "expert"]) < 0.2
    assert mean(["expert", "random"]) < 0.2


# two teams


def test_two_teams_take_turns_and_neither_reads_the_others_secret():
    game = make_game("TabooTeams")
    referee = Referee(game)
    match = referee.begin("3")
    assert [seat for seat in range(4) if game.view(match.state, seat).secret] == [0]
    sides = []
    while movers := referee.to_move(match):
        sides.append(movers[0] // 2)
        view = game.view(match.state, movers[0])
        match = referee.play(match, movers[0], game.expert(view, movers[0], random.Random(0)))
    assert [each.side for each in match.state.finished][:2] == [0, 1]
    assert {*sides} == {0, 1}
    won = Referee(game).returns(played(1, ["expert", "expert", "random", "random"], game))
    assert won == (1.0, 1.0, -1.0, -1.0)
    assert mean(["random", "random", "expert", "expert"], 10, game) < -0.8


def test_a_foul_brings_the_other_team_a_point_so_that_fouls_alone_are_no_draw():
    game = make_game("TabooTeams")
    referee = Referee(game)
    match = referee.begin("3")
    assert "bring the other team a point" in game.rules()
    assert "bring the other team" not in GAME.rules()
    while movers := referee.to_move(match):
        text = match.state.secret if movers[0] == 0 else referee.legal(match, movers[0])[0]
        match = referee.act(match, movers[0], text)
    assert (game.points(match.state, 0), game.points(match.state, 1) >= 3) == (0, True)
    assert referee.returns(match) == (-1.0, -1.0, 1.0, 1.0)


def test_both_games_are_told_in_plain_words():
    shown = GAME.show(GAME.view(GAME.apply(STATE, 0, "tool"), 0), 0)
    assert "Your secret word: fork. Also forbidden: sharp, metal." in shown
    assert "\nSentences on the secret word: tool. Wrong words: none.\nPoints: 0. Sentences left: 5." in shown
    game = make_game("TabooTeams")
    state = Referee(game).begin("3").state
    assert game.show(game.view(state, 3), 3).endswith(
        "\nRed's sentences on its secret word: none. Wrong words: none.\n"
        "Red: points 0, sentences left 5. Blue: points 0, sentences left 5."
    )


def test_bad_settings_are_one_clear_error():
    for wrong, reason in (({"pairs": 3}, "1 or 2 pairs"), ({"sentences": 2}, "sentences must be 3 to 20, not 2")):
        with pytest.raises(ValueError, match=reason):
            make_game("Taboo", **wrong)
