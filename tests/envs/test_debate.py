"""Debate: what the judge may see, how the dispute narrows, who wins, and that truth wins where nobody errs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.debate import JUDGE, LARGEST, SMALLEST, VERDICTS, WIDTH, Dispute, narrowed, next_numbers
from rlvr.envs.players.game import CHANCE, IllegalText, Referee, verdict_of
from rlvr.envs.players.single import MATES, AsSingleAgent

from .bot_matches import matches_of_bots


def played(bots, key, **settings):
    """A match of bots, state by state."""
    return matches_of_bots(make_game("Debate", **settings), bots, key)


def small(honest, *claims):
    """A debate of two rows, 160 and 220: seat ``honest`` has 380, the other 390."""
    game = make_game("Debate", rows=2)
    answers = ("380", "390") if honest == 0 else ("390", "380")
    state = game.start()
    for draw in (*answers, f"{honest}", "10", "30", "50", "70", "25", "45", "65", "85"):
        assert draw in {move for move, _ in game.chance(state)}
        state = game.apply(state, CHANCE, draw)
    for claim in claims:
        (seat,) = game.actors(state)
        assert str(claim) in game.legal(state, seat)
        state = game.apply(state, seat, str(claim))
    return game, state


@pytest.mark.parametrize("rows", [2, 4, 8, 16])
def test_exactly_one_answer_is_the_sum_of_the_rows(rows):
    referee = Referee(make_game("Debate", rows=rows))
    honest = set()
    for key in range(40):
        state = referee.begin(str(key)).state
        assert len(state.numbers) == rows * WIDTH
        assert all(SMALLEST <= number <= LARGEST for number in state.numbers)
        assert state.answers[state.honest] == sum(state.numbers) != state.answers[1 - state.honest]
        honest.add(state.honest)
    assert honest == {0, 1}


@given(st.lists(st.integers(SMALLEST, LARGEST), min_size=1, max_size=64), st.randoms(use_true_random=False))
def test_numbers_can_always_be_drawn_that_add_up(numbers, rng):
    rest, count = sum(numbers), len(numbers)
    while count:
        may_be = next_numbers(rest, count)
        assert len(may_be) > 0
        assert SMALLEST <= may_be[0] <= may_be[-1] <= LARGEST
        rest, count = rest - rng.choice(may_be), count - 1
    assert rest == 0


def test_the_dispute_goes_where_the_debaters_differ():
    assert narrowed(Dispute(1, 8, (900, 930)), (400, 410)) == Dispute(1, 4, (400, 410))
    assert narrowed(Dispute(1, 8, (900, 930)), (400, 400)) == Dispute(5, 8, (500, 530))
    assert narrowed(Dispute(5, 6, (200, 230)), (90, 90)) == Dispute(6, 6, (110, 140))


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_whatever_is_claimed_one_row_is_left_about_which_they_differ(key, rng):
    referee = Referee(make_game("Debate"))
    match = referee.begin(str(key))
    game = referee.game
    while referee.to_move(match) != (JUDGE,):
        (seat,) = referee.to_move(match)
        legal = referee.legal(match, seat)
        claim = game.expert(match.state, seat, rng) if rng.random() < 0.5 else rng.choice(legal)
        if seat == match.state.honest:
            claim = game.expert(match.state, seat, rng)
        match = referee.play(match, seat, claim)
    dispute = game.dispute(match.state)
    assert dispute.first == dispute.last
    assert dispute.claims[0] != dispute.claims[1]
    row = match.state.numbers[(dispute.first - 1) * WIDTH : dispute.first * WIDTH]
    assert match.state.row == row
    assert dispute.claims[match.state.honest] == sum(row)  # whoever never errs is right about the row


def test_the_judge_sees_the_transcript_and_one_row_alone():
    rows = 0
    for key in range(6):
        for match in played(("expert", "random", "expert"), key):
            game, referee = make_game("Debate"), Referee(make_game("Debate"))
            if not game.actors(match.state):
                continue
            view = game.view(match.state, JUDGE)
            assert (view.numbers, view.honest) == ((), -1)
            text = referee.first_observation(match, JUDGE)
            assert "right and" not in text.partition("Debate.")[0]
            assert text.count("Row ") == bool(match.state.row)
            rows += bool(match.state.row)
            other = match.state._replace(honest=1 - match.state.honest, numbers=tuple(reversed(match.state.numbers)))
            assert referee.first_observation(match._replace(state=other), JUDGE) == text
    assert rows == 6


def test_debaters_win_by_the_verdict_and_the_judge_by_the_truth():
    for honest in (0, 1):
        for verdict in (0, 1):
            game, state = small(honest, 160, 160)
            state = game.apply(state, JUDGE, VERDICTS[verdict])
            returns = game.returns(state)
            assert returns[:2] == ((1.0, -1.0) if verdict == 0 else (-1.0, 1.0))
            assert returns[JUDGE] == (1.0 if verdict == honest else -1.0)
            assert [game.outcome(returns, seat) for seat in (0, 1)] == [verdict == 0, verdict == 1]


def test_the_row_that_is_shown_is_the_one_in_dispute():
    _, state = small(0, 160, 170)
    assert state.row == (10, 30, 50, 70)
    game, state = small(0, 160, 160)
    assert state.row == (25, 45, 65, 85)
    assert game.expert(game.view(state, JUDGE), JUDGE, random.Random(0)) == "0"
    game, state = small(1, 160, 170)
    assert game.expert(game.view(state, JUDGE), JUDGE, random.Random(0)) == "0"  # the honest seat erred
    text = game.show(game.view(state, JUDGE), JUDGE)
    assert "Row 1 is 10, 30, 50, 70." in text
    marked = make_game("Debate", rows=2, marks=True)
    assert "Checked: seat 0's claim is true, seat 1's claim is false." in marked.show(state, JUDGE)
    assert "Checked" not in text


def test_the_truth_wins_where_nobody_errs_and_a_judge_at_random_is_right_half_of_the_time():
    for key in range(12):
        *_, match = played(("expert", "expert", "expert"), key)
        assert match.state.verdict == match.state.honest
    right = [list(played(("expert", "expert", "random"), key))[-1].state for key in range(60)]
    assert 15 < sum(state.verdict == state.honest for state in right) < 45


def test_a_liar_wins_against_a_debater_that_errs():
    won = 0
    for key in range(12):
        honest = next(played(("first", "first", "first"), key)).state.honest
        bots = ["expert", "expert", "expert"]
        bots[honest] = "random"
        *_, match = played(bots, key)
        won += match.state.verdict != honest
    assert won >= 10


def test_claims_and_verdicts_are_read_as_people_write_them():
    referee = Referee(make_game("Debate"))
    match = referee.begin("0")
    for text in (
        "812",
        "\\boxed{812}",
        "I claim that the sum is 812",
        "rows 1 to 4 = 812",
        "Rows 1-4: 812",
        "8,12 or 812",
    ):
        if "or" in text:
            with pytest.raises(IllegalText):
                referee.read(match, 0, text)
        else:
            assert referee.read(match, 0, text) == "812", text
    with pytest.raises(IllegalText, match="not a legal move"):
        referee.read(match, 0, "rows 1 to 3 = 812")
    while referee.to_move(match) != (JUDGE,):
        seat = referee.to_move(match)[0]
        match = referee.play(match, seat, referee.game.expert(match.state, seat, random.Random(0)))
    for text in (
        "seat 1",
        "1",
        "The row adds up to 200.\n\\boxed{seat 1}",
        "debater 1",
        "I choose seat 1",
        "seat 1 is right",
    ):
        assert referee.read(match, JUDGE, text) == "1", text
    for text in ("seat 2", "seat 0 or seat 1", "not seat 1", "both", "neither"):
        with pytest.raises(IllegalText):
            referee.read(match, JUDGE, text)


def test_a_forfeit_is_the_other_debaters_win_and_nobodys_where_the_judge_forfeits():
    game = make_game("Debate")
    assert [game.forfeited(seat, game.start()) for seat in range(3)] == [
        (-1.0, 1.0, 0.0),
        (1.0, -1.0, 0.0),
        (0.0, 0.0, -1.0),
    ]


def test_two_rows_are_named_and_read_as_people_write_them():
    referee = Referee(make_game("Debate", rows=4))
    match = referee.begin("0")
    assert "Next claim: the sum of rows 1 and 2." in referee.observe(match, 0)
    assert referee.read(match, 0, "rows 1 and 2 = 400") == referee.read(match, 0, "rows 1 to 2 = 400") == "400"


def test_a_forfeit_of_the_judge_is_no_success_of_a_debater():
    referee = Referee(make_game("Debate", rows=2), tries=1)
    match = referee.begin("0")
    for seat in (0, 1):
        match = referee.play(match, seat, referee.legal(match, seat)[0])
    match = referee.act(match, JUDGE, "neither")
    assert [verdict_of(referee, match, seat).status for seat in range(3)] == ["partial", "partial", "wrong"]


def test_the_judge_plays_well_for_a_debater_and_the_debaters_for_a_judge():
    for level in (1, 2, 3):
        task = AsSingleAgent(game="Debate", seat=0)
        assert task.start(random.Random(0), level).opponents[JUDGE] == MATES[level - 1][0]
        task = AsSingleAgent(game="Debate", seat=JUDGE)
        assert task.start(random.Random(0), level).opponents[:2] == MATES[level - 1] * 2


@pytest.mark.parametrize(("settings", "reason"), [
    ({"rows": 3}, "2, 4, 8 or 16"), ({"rows": 32}, "2, 4, 8 or 16"), ({"marks": "yes"}, "true or false"),
])  # fmt: skip
def test_bad_settings_are_one_clear_error(settings, reason):
    with pytest.raises(ValueError, match=reason):
        make_game("Debate", **settings)
