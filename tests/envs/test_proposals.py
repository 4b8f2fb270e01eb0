"""Proposer and solver: which texts are tasks, what a task pays, who can cheat, and what the bots make of it."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.players.bots import known_bots, make_bot
from rlvr.envs.players.catalogue import make_game
from rlvr.envs.players.exploitability import information_states
from rlvr.envs.players.game import CHANCE, IllegalText, Referee, verdict_of
from rlvr.envs.players.proposals import (
    DEALT,
    FULL,
    LEAST,
    MOST,
    checked,
    difficulty_of,
    digit_operations,
    examples,
    grown,
)
from rlvr.envs.players.single import MATES, AsSingleAgent

HAND = (12, 7, 40, 95, 33, 8)


def dealt(game, *hands):
    state = game.start()
    for number in (number for hand in hands for number in hand):
        state = game.apply(state, CHANCE, str(number))
    return state


def posed(game, proposal, added=None):
    """The state in which the solvers answer."""
    state = game.apply(dealt(game, HAND), 0, proposal)
    for number in added or [0] * len(checked(proposal).numbers):
        assert game.actors(state) == (CHANCE,)
        state = game.apply(state, CHANCE, str(number))
    return state


def means(bots, matches=40, **settings):
    """The mean return of each seat."""
    game = make_game("ProposerSolver", **settings)
    referee, total = Referee(game), [0.0] * game.seats
    for key in range(matches):
        match, rng = referee.begin(str(key)), random.Random(key)
        while movers := referee.to_move(match):
            view, seat = game.view(match.state, movers[0]), movers[0]
            match = referee.play(match, seat, make_bot(bots[seat]).choose(game, view, seat, rng))
        total = [so_far + won / matches for so_far, won in zip(total, referee.returns(match), strict=True)]
    return total


# the language


@pytest.mark.parametrize(("text", "value", "work"), [
    ("12 + 7", 19, 1), ("(12 + 7) * 40", 760, 3), ("12 * 95", 1140, 4), ("95 - 33 - 8", 54, 3), ("40 * 7", 280, 1),
    ("12*(95-(33+8))", 648, 7), ("18 - 7", 11, 1), ("98 * 97 * 51", 484_806, 4 + 6),
])  # fmt: skip
def test_a_task_has_an_exact_value_and_a_counted_difficulty(text, value, work):
    task = checked(text)
    assert (task.value, task.work) == (value, work)
    assert eval(task.text) == value  # the test's own text
    assert checked(task.text) == task


@pytest.mark.parametrize("text", [
    "", "12", "12 + 12", "12 - 12", "7 - 12", "12 * (7 - 6)", "12 - 11", "17 - 7", "99 * 98 * 97", "99 * 98 * 97 * 96",
    "12 + 100", "12 + 1",
    "12 + 0", "12 ** 7", "12 // 7", "12 / 7", "-12 + 40", "12 +", "(12 + 7", "012 + 7", "1_2 + 7", "12 + 7; 3", "12 7",
    "12(7)", "((((", "2+3+4+5+6+7+8", "__import__('os')", "9" * 79, "(" * 80, "12\n+ 7", "１２ + 7", "12 + x",
])  # fmt: skip
def test_what_is_no_task_is_refused(text):
    assert checked(text) is None


def test_a_hand_offers_no_number_twice_and_none_that_was_not_dealt():
    game = make_game("ProposerSolver")
    state = dealt(game, HAND)
    assert game.is_legal(state, 0, "12 + 7")
    for move in ("12 + 6", "12 + 12", "12+7", "12 + 7 "):
        assert not game.is_legal(state, 0, move)
    assert not {str(number) for number in HAND} & {move for move, _ in game.chance(state)}


@given(st.text(alphabet="0123456789+-*() ", max_size=60))
def test_every_text_is_a_task_or_is_none_and_its_spelling_is_stable(text):
    task = checked(text)
    if task is not None:
        assert LEAST <= task.value <= MOST
        assert task.work >= len(task.numbers) - 1
        assert len({*task.numbers}) == len(task.numbers) <= DEALT
        assert checked(task.text) == task
        assert eval(task.text) == task.value  # digits, signs and brackets alone


@given(st.lists(st.integers(2, 99), min_size=6, max_size=6, unique=True))
def test_every_hand_has_sixty_examples_that_are_legal_tasks(hand):
    game = make_game("ProposerSolver")
    state = dealt(game, hand)
    found = examples(tuple(hand))
    assert len({*found}) == 60
    assert all(game.is_legal(state, 0, text) for text in found)
    assert all(game.parse(state, 0, text) == text for text in found)


@given(st.text(max_size=200))
def test_no_text_of_the_proposer_reaches_the_solver(text):
    referee = Referee(make_game("ProposerSolver"))
    match = referee.begin("0")
    before = referee.observe(match, 1)
    after = referee.act(match, 0, text)
    if after.faults[0]:
        assert referee.observe(after, 1) == before
    else:
        shown = referee.observe(after, 1).partition("The task")[2].partition("\n")[0]
        assert re.fullmatch(r", of \d+ digit operations?: [0-9+*() -]+", shown)


def test_zeros_take_no_digit_operations():
    assert digit_operations("*", 100, 90) == 1
    assert digit_operations("+", 5000, 70) == 1
    assert digit_operations("-", 4321, 123) == 3


def test_tasks_and_answers_are_read_as_people_write_them():
    referee = Referee(make_game("ProposerSolver"))
    match = referee.begin("0")
    a, b, c, *_ = sorted(referee.game.hand(match.state), reverse=True)
    for text in (
        f"{a}*{b}",
        f"\\boxed{{{a} \\times {b}}}",
        f"{a} × {b} = ?",
        f"I propose the task {a} * {b}",
        f"Products are hard.\n\\boxed{{{a} \\cdot {b}}}",
    ):
        assert referee.read(match, 0, text) == f"{a} * {b}", text
    assert referee.read(match, 0, f"\\boxed{{{a}*({b}-{c})}}") == f"{a} * ({b} - {c})"
    for text in (f"{a} * {b} = {a * b}", f"{a} * {b} or {a} + {b}", "100 * 2", f"{a} / {b}"):
        with pytest.raises(IllegalText, match="Moves of the right form"):
            referee.read(match, 0, text)
    match = referee.play(match, 0, f"{a} * {b}")
    for text in ("8633", "8,633", "\\boxed{8{,}633}", "97 times 89.\nThe answer is 8633."):
        assert referee.read(match, 1, text) == "8633", text
    for text in ("8633 or 8634", "not 8633", "-3", "0", "08633", f"{a} * {b}", "8633.5", "eight"):
        with pytest.raises(IllegalText):
            referee.read(match, 1, text)


# what is paid


def finished(game, proposal, *answers):
    """What each seat wins where chance adds nothing."""
    state = posed(game, proposal)
    return game.returns(game.apply_all(state, {seat: str(answer) for seat, answer in enumerate(answers, 1)}))


def test_a_hard_task_pays_its_proposer_only_where_it_is_solved():
    game = make_game("ProposerSolver", rounds=1)
    assert finished(game, "12 * 95", 1140) == (4 / FULL, 1.0)
    assert finished(game, "12 * 95", 1141) == (0.0, 0.0)
    assert finished(game, "12 + 7", 19) == (1 / FULL, 1.0)
    hard = "12 * 95 * 33 + 8 * 7"
    assert checked(hard).work == 4 + 6 + 1 + 2
    assert finished(game, hard, checked(hard).value) == (13 / FULL, 1.0)
    state = posed(game, "(12 + 7) * 40", [1, 0, 9])
    assert game.task(state, 0)[:3] == ("(13 + 7) * 49", 980, (13, 7, 49))
    assert game.returns(game.apply_all(state, {1: "760"})) == (0.0, 0.0)
    assert game.returns(game.apply_all(state, {1: "980"})) == (3 / FULL, 1.0)


@pytest.mark.parametrize(("pays", "by_right"), [
    ("learnability", [0, 0.75, 1, 0.75, 0]), ("absolute_zero", [0, 0.75, 0.5, 0.25, 0]),
    ("difficulty", [0, 1 / 16, 2 / 16, 3 / 16, 4 / 16]),
])  # fmt: skip
def test_several_solvers_measure_how_hard_a_task_is(pays, by_right):
    game = make_game("ProposerSolver", rounds=1, solvers=4, pays=pays)
    for right, paid in enumerate(by_right):
        answers = [1140] * right + [1] * (4 - right)
        assert finished(game, "12 * 95", *answers) == (paid, *(float(answer == 1140) for answer in answers))


def test_solvers_answer_at_once_and_none_reads_another():
    referee = Referee(make_game("ProposerSolver", solvers=3, rounds=1))
    match = referee.begin("0")
    match = referee.play(match, 0, referee.legal(match, 0)[0])
    texts = set()
    for answer in ("5", "77"):
        after = referee.act(match, 1, answer)
        assert referee.to_move(after) == (2, 3)
        texts.add(tuple(referee.observe(after, seat) for seat in range(4)))
    assert len(texts) == 1


def test_a_forfeit_of_the_proposer_costs_no_solver_anything():
    game = make_game("ProposerSolver", solvers=2)
    assert game.forfeited(0, game.start()) == (-1.0, 1.0, 1.0)
    assert game.forfeited(2, game.start()) == (0.0, 0.0, -1.0)
    assert game.outcome((-1.0, 1.0, 1.0), 0) == 0.0


def test_a_forfeit_of_a_solver_is_no_success_of_the_others():
    referee = Referee(make_game("ProposerSolver", solvers=2), tries=1)
    match = referee.begin("0")
    match = referee.act(referee.play(match, 0, referee.legal(match, 0)[0]), 1, "no number")
    assert [verdict_of(referee, match, seat).status for seat in range(3)] == ["wrong", "wrong", "wrong"]


@given(st.lists(st.integers(2, 99), min_size=6, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_whatever_chance_adds_a_proposal_becomes_a_task(hand, rng):
    for text in examples(tuple(hand))[::6]:
        task = grown(text, tuple(rng.choice((0, 9, rng.randint(0, 9))) for _ in checked(text).numbers))
        assert LEAST <= task.value <= MOST
        assert eval(task.text) == task.value


@pytest.mark.slow
def test_a_pair_that_agrees_on_a_value_earns_next_to_nothing():
    """The likeliest value of each example, answered without work; all values are counted where two numbers make it."""
    for text in examples(HAND):
        length, rng = len(checked(text).numbers), random.Random(text)
        drawn = (
            itertools.product(range(10), repeat=2)
            if length == 2
            else [[rng.randint(0, 9) for _ in range(length)] for _ in range(1000)]
        )
        tasks = [grown(text, tuple(added)) for added in drawn]
        (_, most), *_ = Counter(task.value for task in tasks).most_common(1)
        assert most / len(tasks) * max(difficulty_of(task) for task in tasks) <= 0.06, text


def test_no_fixed_task_can_be_learned_by_heart():
    referee = Referee(make_game("ProposerSolver"))
    hands = {frozenset(referee.game.hand(referee.begin(str(key)).state)) for key in range(200)}
    assert len(hands) == 200
    match = referee.begin("0")
    while movers := referee.to_move(match):
        match = referee.play(match, movers[0], referee.legal(match, movers[0])[0])
    assert len({*match.state.dealt}) == len(match.state.dealt) == DEALT * 3


# who plays


@pytest.mark.slow
def test_the_expert_solver_is_always_right_and_the_expert_proposer_is_paid_more():
    proposer, solver = means(["expert", "expert"])
    assert solver == pytest.approx(1)
    assert proposer > 0.85
    assert means(["random", "expert"])[0] < proposer - 0.3
    assert means(["expert", "random"])[1] < 0.05


def test_a_solver_that_errs_errs_more_in_harder_tasks():
    easy, hard = means(["random", "mixed:0.1"])[1], means(["expert", "mixed:0.1"])[1]
    assert 0.3 < hard < easy < 0.9
    game = make_game("ProposerSolver")
    state = posed(game, "12 * 95")
    assert (game.effort(state, 1), game.effort(state, 0)) == (4, 1)


def test_the_proposer_relies_on_its_solvers_as_on_mates():
    for level in (1, 2, 3):
        assert (
            AsSingleAgent(game="ProposerSolver", seat=0).start(random.Random(0), level).opponents[1]
            == MATES[level - 1][0]
        )
    assert AsSingleAgent(game="ProposerSolver", seat=1).start(random.Random(0), 3).opponents[0] == "expert"


def test_players_that_follow_every_move_refuse_a_language():
    game = make_game("ProposerSolver")
    assert known_bots(game) == ["random", "first", "expert", "mixed"]
    for bot in ("minimax", "mcts"):
        with pytest.raises(ValueError, match="too many to list"):
            make_bot(bot).choose(game, game.start(), 0, random.Random(0))
    with pytest.raises(ValueError, match="too many moves to list"):
        information_states(game)


@pytest.mark.parametrize(("settings", "reason"), [
    ({"rounds": 0}, "rounds must be 1 to 8"), ({"solvers": 9}, "solvers must be 1 to 8"),
    ({"pays": "much"}, "one of difficulty, learnability"), ({"pays": "learnability"}, "solvers to 2 or more"),
])  # fmt: skip
def test_bad_settings_are_one_clear_error(settings, reason):
    with pytest.raises(ValueError, match=reason):
        make_game("ProposerSolver", **settings)
