"""Hidden roles: what a loyal seat may know, how votes and missions go, what the expert believes, who forfeits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.players.bots import make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.game import CHANCE, IllegalText, Referee
from rlvr.envs.players.roles import GO, OVER, PROPOSE, TALK, VOTE, Mission, clean
from rlvr.envs.players.single import AsSingleAgent

GAME = make_game("HiddenRoles")


def begun(spies="1 3", game=GAME):
    return game.apply(game.start(), CHANCE, spies)


def all_at_once(state, moves, game=GAME):
    """The state after the moves of all who move, given as one for all or one for each."""
    actors = game.actors(state)
    given = dict.fromkeys(actors, moves) if isinstance(moves, str) else dict(zip(actors, moves, strict=True))
    assert all(move in game.legal(state, seat) for seat, move in given.items())
    return game.apply_all(state, given)


def proposed(state, team, votes="approve", game=GAME):
    return all_at_once(game.apply(state, game.leader(state), team), votes, game)


def round_of(state, team, cards):
    """A whole round: silence, a team that all approve, and the cards of those who go."""
    return all_at_once(proposed(all_at_once(state, "silent"), team), cards)


def played(key, bots, game=GAME):
    """A match in which ``bots(seat, spies)`` names who plays, and its returns."""
    referee, rng = Referee(game), random.Random(key)
    match = referee.begin(str(key))
    spies = match.state.spies
    while movers := referee.to_move(match):
        seat, bot = movers[0], make_bot(bots(movers[0], spies))
        match = referee.play(match, seat, bot.choose(game, game.view(match.state, seat), seat, rng))
    return match, referee.returns(match)


# what a seat may know


def test_spies_know_each_other_and_loyal_seats_know_their_own_role():
    state = begun()
    for seat in range(5):
        text = GAME.show(GAME.view(state, seat), seat)
        if seat in (1, 3):
            assert f"You are a spy, and so is seat {4 - seat}." in text
        else:
            assert GAME.view(state, seat).spies == ()
            assert "You are loyal." in text
            assert "spy" not in text
    referee = Referee(GAME)
    match = referee.begin("0")
    assert all(referee.view_of_record(match, seat) == [[CHANCE, None]] for seat in range(5))


def test_a_card_is_secret_and_the_number_of_sabotages_is_not():
    referee = Referee(GAME)
    match = referee.begin("0")
    first, second = match.state.spies
    match = match._replace(state=match.state._replace(phase=PROPOSE, talk=(("silent",) * 5,)))
    match = referee.act(match, 0, f"team {first} {second}")
    for seat in range(5):
        match = referee.act(match, seat, "approve")
    match = referee.act(referee.act(match, first, "support"), second, "sabotage")
    loyal = next(seat for seat in range(5) if seat not in (first, second))
    cards = [move for actor, move in referee.view_of_record(match, loyal)[-2:] if actor in (first, second)]
    assert cards == [None, None]
    assert GAME.view(match.state, loyal).sabotaged == ()
    assert GAME.view(match.state, first).sabotaged == ((second,),)
    assert f"seats {first} and {second} go, 1 sabotage: the mission fails" in referee.observe(match, loyal)
    assert "sabotage." not in referee.observe(match, loyal)


def test_only_spies_can_sabotage():
    state = proposed(all_at_once(begun(), "silent"), "team 0 1")
    assert [GAME.legal(state, seat) for seat in (0, 1)] == [["support"], ["support", "sabotage"]]
    referee = Referee(GAME)
    match = referee.begin("0")._replace(state=state)
    assert referee.act(match, 0, "sabotage").faults[0] == 1


# how votes and missions go


def test_more_than_half_must_approve_and_the_third_proposal_goes_without_a_vote():
    state = all_at_once(begun(), "silent")
    for number in range(2):
        assert GAME.actors(state) == (number,)
        state = proposed(state, "team 2 4", ["approve", "approve", "reject", "reject", "reject"])
        assert (state.phase, state.rejected) == (PROPOSE, number + 1)
    state = GAME.apply(state, 2, "team 2 4")
    assert (state.phase, GAME.actors(state), state.proposals[-1].votes) == (GO, (2, 4), ())
    state = all_at_once(state, "support")
    assert (state.phase, state.missions) == (TALK, (Mission((2, 4), 0),))
    state = all_at_once(state, "silent")
    assert GAME.leader(state) == 3
    assert len(GAME.legal(state, 3)) == 10
    table = make_game("HiddenRoles", seats=6)
    half = proposed(
        all_at_once(begun(game=table), "silent", table), "team 0 2", ["approve"] * 3 + ["reject"] * 3, table
    )
    assert half.phase == PROPOSE


def test_three_failed_missions_win_for_the_spies_and_three_others_for_the_loyal():
    state = begun()
    for team in ("team 0 1", "team 0 1 2", "team 1 2"):
        assert GAME.actors(state) == (0, 1, 2, 3, 4)
        state = round_of(state, team, ["sabotage" if seat == 1 else "support" for seat in map(int, team.split()[1:])])
    assert (state.phase, GAME.actors(state)) == (OVER, ())
    assert GAME.returns(state) == (-1.0, 1.0, -1.0, 1.0, -1.0)
    assert [GAME.outcome(GAME.returns(state), seat) for seat in range(5)] == [0, 1, 0, 1, 0]
    assert "The spies were seats 1 and 3." in GAME.show(GAME.view(state, 0), 0)
    state = begun()
    for team in ("team 0 1", "team 0 1 2", "team 1 2"):
        state = round_of(state, team, "support")
    assert GAME.returns(state) == (1.0, -1.0, 1.0, -1.0, 1.0)


@pytest.mark.parametrize("seat", range(5))
def test_a_forfeit_loses_for_the_whole_role_so_that_no_spy_can_give_itself_up_for_its_mate(seat):
    referee = Referee(GAME, tries=1)
    match = referee.begin("4")
    spies = match.state.spies
    for other in range(seat):
        match = referee.act(match, other, "silent")
    returns = referee.returns(referee.act(match, seat, "I resign"))
    assert returns == tuple(-1.0 if (other in spies) == (seat in spies) else 1.0 for other in range(5))


@given(key=st.integers(0, 10**9), seats=st.sampled_from([5, 6]), talk=st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_match_keeps_the_rules(key, seats, talk):
    game = make_game("HiddenRoles", seats=seats, talk=talk)
    match, returns = played(key, lambda seat, spies: "random", game)
    state = match.state
    assert len(state.spies) == 2
    assert sorted([state.failed, len(state.missions) - state.failed])[1] == 3
    assert len(state.talk) == talk * len(state.missions)
    assert (returns[state.spies[0]] == 1) == (state.failed == 3)
    for at, (mission, saboteurs) in enumerate(zip(state.missions, state.sabotaged, strict=True)):
        tried = [each for each in state.proposals if each.round == at]
        assert len(mission.team) == game.sizes[at]
        assert {*saboteurs} <= {*state.spies} & {*mission.team}
        assert len(saboteurs) == mission.sabotages
        assert tried[-1].team == mission.team
        passed = [each.votes.count("approve") * 2 > seats for each in tried]
        assert passed == [False] * (len(tried) - 1) + [len(tried) < 3]


# statements


@pytest.mark.parametrize(("text", "move"), [
    ("I suspect seat 3.", "suspect 3"), ("\\boxed{Seat 3 is a spy}", "suspect 3"), ("accuse 3", "suspect 3"),
    ("I trust seat 2", "trust 2"), ("Seat 2 is loyal", "trust 2"), ("vouch for seat 2", "trust 2"),
    ("silent", "silent"), ("My move is: trust seat 4", "trust 4"),
])  # fmt: skip
def test_statements_are_read_as_people_write_them(text, move):
    referee = Referee(GAME)
    assert referee.read(referee.begin("0"), 0, text) == move


@pytest.mark.parametrize("text", [
    "suspect 0", "suspect 3 and 4", "seat 3 is not a spy", "suspect 9", "I am loyal, believe me", "suspect 3 or 4",
    "Seat 1: silent", "silent. Seat 1: suspect 2", "trust", "suspect 3 because of its vote", "I do not trust 3",
])  # fmt: skip
def test_free_talk_and_forged_words_are_no_statement_and_reach_nobody(text):
    referee = Referee(GAME)
    match = referee.begin("0")
    with pytest.raises(IllegalText):
        referee.read(match, 0, text)
    after = referee.act(match, 0, text)
    assert after.faults[0] == 1
    assert [referee.observe(after, seat) for seat in range(1, 5)] == [
        referee.observe(match, seat) for seat in range(1, 5)
    ]


def test_teams_and_votes_are_read_as_people_write_them():
    referee = Referee(GAME)
    state = all_at_once(begun(), "silent")
    match = referee.begin("0")._replace(state=state)
    for text in (
        "team 0 2",
        "seats 2 and 0",
        "I propose seats 0, 2",
        "\\boxed{Team 2, 0}",
        "0 2",
        "I propose team 0 2",
    ):
        assert referee.read(match, 0, text) == "team 0 2", text
    for text in ("team 0", "team 0 0", "team 0 1 2", "team 0 7"):
        with pytest.raises(IllegalText):
            referee.read(match, 0, text)
    match = referee.act(match, 0, "team 0 2")
    assert [referee.read(match, 0, text) for text in ("Yes", "approve", "no", "I reject.")] == [
        "approve", "approve", "reject", "reject",
    ]  # fmt: skip


# the expert


def test_a_sabotaged_mission_of_two_tells_the_other_who_it_was():
    state = round_of(begun(), "team 0 1", ["support", "sabotage"])
    beliefs = GAME.beliefs(GAME.view(state, 0), 0)
    assert clean(beliefs, (1,)) == 0
    assert sum(beliefs.values()) == pytest.approx(1)
    assert all(1 in pair for pair, share in beliefs.items() if share)
    outside = GAME.beliefs(GAME.view(state, 2), 2)
    assert clean(outside, (0,)) == pytest.approx(clean(outside, (1,)))
    assert clean(outside, (0,)) < clean(outside, (3,))
    assert GAME.expert(GAME.view(state, 0), 0, random.Random(0)) == "suspect 1"
    both = round_of(begun("0 1"), "team 0 1", "sabotage")
    assert GAME.beliefs(GAME.view(both, 2), 2)[0, 1] == pytest.approx(1)
    assert GAME.expert(GAME.view(both, 2), 2, random.Random(0)) in ("suspect 0", "suspect 1")


@given(key=st.integers(0, 10**9), bots=st.sampled_from(["random", "expert", "mixed"]))
@settings(max_examples=25, deadline=None)
def test_beliefs_are_a_distribution_that_never_rules_out_the_truth(key, bots):
    match, _ = played(key, lambda seat, spies: bots)
    final = match.state._replace(phase=TALK)
    for seat in range(5):
        beliefs = GAME.beliefs(GAME.view(final, seat), seat)
        assert sum(beliefs.values()) == pytest.approx(1)
        assert all(seat not in pair for pair in beliefs)
        if seat not in final.spies:
            assert beliefs[final.spies] > 0


def test_a_spy_looks_loyal_until_a_mission_can_decide():
    state = all_at_once(begun("0 3"), "silent")
    assert GAME.expert(GAME.view(state, 0), 0, random.Random(0)) != "team 0 3"
    state = GAME.apply(state, 0, "team 1 2")
    votes = {seat: GAME.expert(GAME.view(state, seat), seat, random.Random(0)) for seat in (3, 4)}
    assert votes[3] == votes[4] == "reject"  # a spy and a loyal seat that do not go
    state = begun("0 3")
    for team, cards in (("team 0 1", ["sabotage", "support"]), ("team 0 1 2", ["sabotage", "support", "support"])):
        state = round_of(state, team, cards)
    state = GAME.apply(all_at_once(state, "silent"), GAME.leader(state), "team 0 4")
    assert state.phase == VOTE
    assert GAME.expert(GAME.view(state, 3), 3, random.Random(0)) == "approve"
    assert GAME.expert(GAME.view(state, 4), 4, random.Random(0)) == "approve"
    assert GAME.expert(GAME.view(state, 1), 1, random.Random(0)) == "reject"
    going = state._replace(phase=GO)
    assert GAME.expert(GAME.view(going, 0), 0, random.Random(0)) == "sabotage"


def share_of_spies(loyal, spy, matches=30):
    wins = 0
    for key in range(matches):
        match, returns = played(key, lambda seat, spies: spy if seat in spies else loyal)
        wins += returns[match.state.spies[0]] > 0
    return wins / matches


@pytest.mark.slow
def test_experts_beat_random_seats_in_both_roles_and_are_a_match_for_each_other():
    assert share_of_spies("random", "expert") > 0.85
    assert share_of_spies("expert", "random") < 0.3
    assert 0.15 < share_of_spies("expert", "expert", 60) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("others", ["random", "mixed"])
def test_an_expert_in_one_seat_wins_more_than_a_random_seat(others):
    won = {
        own: sum(
            played(key, lambda seat, spies, own=own, key=key: own if seat == key % 5 else others)[1][key % 5] > 0
            for key in range(100)
        )
        for own in ("expert", "random")
    }
    assert won["expert"] > won["random"] + 10


def test_the_score_is_told_in_plain_words():
    state = begun("0 3")
    assert "\n0 missions succeeded, 0 failed. Round 1 of at most 5:" in GAME.show(GAME.view(state, 1), 1)
    won = state._replace(missions=(Mission((1, 2), 0),))
    assert "\n1 mission succeeded, 0 failed. Round 2 of at most 5:" in GAME.show(GAME.view(won, 1), 1)


def test_who_the_others_are_tells_nothing_of_their_roles():
    for level in (1, 2, 3):
        episode = AsSingleAgent(game="HiddenRoles", seat=2).start(random.Random(level), level)
        assert len({*episode.opponents} - {""}) == 1


def test_bad_settings_are_one_clear_error():
    for seats in (4, 7):
        with pytest.raises(ValueError, match="5 or 6 seats"):
            make_game("HiddenRoles", seats=seats)
    quiet = make_game("HiddenRoles", talk=False)
    assert quiet.start().phase == PROPOSE
    assert "suspect" not in quiet.rules()
