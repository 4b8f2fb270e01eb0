"""Games with something hidden: any play at all, held against a second and naive account of each game's rules."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from itertools import combinations, product
from typing import ClassVar

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from rlvr.envs.games import (
    card_games,
    chance,
    deduction,
    hidden_boards,
    lexicon,
    mine_fields,
    twenty_questions,
    word_games,
)
from rlvr.envs.games.common import Cell, IllegalMove, drawn_board, read_cell, read_move, read_numbers

from .referees import REFEREES, crossed_out, squares, walks

EVERY = range(1, 6)
TAKEN = ("Not a legal move", "No move was found. ")


# reading a move


@pytest.mark.parametrize("name", ["Battleship", "BlackBox", "Minesweeper"])
def test_a_move_of_marks_alone_is_no_move(name):
    env = gym.make(f"rlvr/{name}-v0")
    env.reset(seed=0)
    assert env.step(",")[4]["verdict"].status == "unparsable"


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("\\boxed{Open B3}", "open b3"),
        ("open  b3\n", "open b3"),
        ("first \\boxed{a1}, no: \\boxed{ b2 }", "b2"),
        ("\\boxed{\\text{hit}}", "hit"),
        ("\\boxed{\\boxed{hit}}", "hit"),
        ("<think>\\boxed{a1}</think>b2", "b2"),
        ("<think>\\boxed{a1}", None),
        ("<tool_response>\\boxed{a1}</tool_response>", None),
        ("a1<|im_end|>b2", "a1"),
        ("\\boxed{a1", None),
        ("\\boxed{}", None),
        ("", None),
        (" " * 1000, None),
        (" " * 1000 + "a1", "a1"),
        ("\\boxed{" + "a" * 201 + "}", None),
        ("\\boxed{１}", None),
        ("\\boxed{\u212a}", None),  # the Kelvin sign, whose small letter is k
        ("\\boxed{" * 20_000 + "a" + "}" * 20_000, None),
    ],
)
def test_a_move_is_read_in_one_way(reply, move):
    assert read_move(reply) == move


def test_capitals_stay_where_they_matter():
    assert read_move("\\boxed{Nf3}", keep_case=True) == "Nf3"


def test_numbers_and_cells_are_read_or_refused_with_what_is_legal():
    assert read_numbers("(3, 5)", 2) == read_numbers("3 5") == [3, 5]
    for move in ("3, x", "", "-1", "3 5 7", "99999999999999", "²", "7919, 3"):
        with pytest.raises(IllegalMove):
            read_numbers(move, 2, 100)
    assert read_cell("b3", 3, 2) == Cell(2, 1)
    assert str(Cell(2, 1)) == "b3"
    for word in ("c3", "b4", "b0", "3b", "b", "", "b²", "bb3"):
        with pytest.raises(IllegalMove, match="from a to b and a row number from 1 to 3"):
            read_cell(word, 3, 2)
    assert drawn_board(["..", "x."]) == "   a b\n 1 . .\n 2 x ."


# any play at all


class AnyPlay(RuleBasedStateMachine):
    """Random, expert, spoilt and repeated moves and plain talk, each held against the referee."""

    name: ClassVar[str]

    @initialize(seed=st.integers(0, 2**32 - 1), level=st.integers(1, 5), split=st.sampled_from(["train", "test", None]))
    def begin(self, seed, level, split):
        self.env = gym.make(f"rlvr/{self.name}-v0", level=level, split=split).unwrapped
        self.rng, self.level = random.Random(seed), level
        self.sit_down(self.env.reset(seed=seed)[0])

    def sit_down(self, observation):
        self.over, self.said = False, ["\\boxed{}"]
        self.referee = REFEREES[self.name](self.state, self.level)
        self.nothing_leaks(observation)

    @precondition(lambda self: self.over)
    @rule()
    def next_task(self):
        self.sit_down(self.env.reset()[0])

    @property
    def state(self):
        return self.env.get_state().state

    @precondition(lambda self: not self.over)
    @rule(seed=st.integers(0, 2**16))
    def random_move(self, seed):
        self.say(self.env.sample_action(random.Random(seed)))

    @precondition(lambda self: not self.over)
    @rule()
    def experts_move(self):
        twin = self.referee.twin(self.state, self.rng)
        assert self.env.task.solve(twin) == self.env.solve(), "the expert looks at what is hidden"
        self.say(self.env.solve())

    @precondition(lambda self: not self.over)
    @rule(seed=st.integers(0, 2**16), junk=st.text("abcxyz 0139,()", max_size=3), place=st.floats(0, 1))
    def spoilt_move(self, seed, junk, place):
        move = read_move(self.env.sample_action(random.Random(seed)))
        cut = round(place * len(move))
        self.say(f"\\boxed{{{move[:cut]}{junk}{move[cut + 1 :]}}}")

    @precondition(lambda self: not self.over)
    @rule(text=st.text(max_size=12))
    def talk(self, text):
        self.say(text)

    @precondition(lambda self: not self.over)
    @rule(place=st.integers(0, 40))
    def say_it_again(self, place):
        self.say(self.said[place % len(self.said)])

    def say(self, action):
        before, task, turns = self.state, self.env.task, self.env.task.turns(self.level)
        fork = self.env.fork()
        observation, reward, terminated, truncated, info = outcome = self.env.step(action)
        assert repr(fork.step(action)) == repr(outcome)
        self.said.append(action)
        self.over = terminated or truncated
        after, status, turn = self.state, info["verdict"].status, len(self.said) - 1
        assert after.turn == turn == info["turn"]
        assert truncated == (not terminated and turn == turns)
        assert 0.0 <= reward <= 1.0 if self.name == "Blackjack" else reward in (0.0, 1.0)  # it pays shares
        assert (status == "correct") == (reward == 1.0)
        assert "success" not in info or info["success"] == (status == "correct")
        message = re.sub(r"\nTurns left: \d+\.$", "", observation if not truncated else task.observe(after))
        if not terminated and message.startswith(TAKEN):
            assert after._replace(turn=before.turn, message=before.message) == before, (
                "an illegal move changed something"
            )
            assert len(message) > len(TAKEN[0])
        else:
            self.hold_against_the_referee(read_move(action), message, terminated, reward)
        if not self.over:
            self.nothing_leaks(observation)

    def hold_against_the_referee(self, move, message, terminated, reward):
        wanted = self.referee.judge(move)
        if self.referee.pattern and wanted not in ("won", "lost"):
            assert re.fullmatch(wanted, message) or not wanted, (move, message)
        elif wanted in ("won", "lost"):
            assert (terminated, reward) == (True, float(wanted == "won")), (move, message)
        else:
            assert (message, terminated) == (wanted, False)
        if hasattr(self.referee, "follow"):
            self.referee.follow(move, message, terminated)

    def nothing_leaks(self, observation):
        told, example, drawn = observation.partition("One of the right form, drawn at random:\n")
        if example:  # it may be the secret by chance, as it is drawn without a look at it
            twin = self.referee.twin(self.state, self.rng)
            assert drawn == self.env.task.form_example(twin), "the example looks at what is hidden"
        for secret in self.referee.secrets():
            assert not re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", told), "the secret was told"


@pytest.mark.slow
@pytest.mark.parametrize("name", REFEREES)
def test_any_play_agrees_with_the_referee(name):
    machine = type(name, (AnyPlay,), {"name": name})
    thorough = settings.default.max_examples // 10
    run_state_machine_as_test(machine, settings=settings(max_examples=thorough, stateful_step_count=25))


# the answers of single games, over all that a game can meet


@given(st.text("abc", min_size=5, max_size=5), st.text("abc", min_size=5, max_size=5))
@settings(max_examples=300)
def test_marks_count_repeated_letters_as_often_as_the_secret_has_them(guess, secret):
    assert deduction.marks(guess, secret) == crossed_out(guess, secret)
    assert word_games.marks(guess, secret) == squares(guess, secret)
    assert word_games.marks(guess, secret).count("G") == deduction.marks(guess, secret)[0]
    assert word_games.marks(guess, secret).count("Y") == deduction.marks(guess, secret)[1]


@pytest.mark.parametrize(
    ("guess", "secret", "marks"),
    [("geese", "eerie", ".GY.G"), ("allow", "llama", "YGY.."), ("speed", "abide", "..Y.Y")],
)
def test_marks_of_known_cases(guess, secret, marks):
    assert word_games.marks(guess, secret) == marks


def test_the_word_list_is_what_it_says():
    assert [len(lexicon.words(length)) >= least for length, least in ((5, 1_000), (4, 500), (9, 200))] == [True] * 3
    for length in range(4, 10):
        listed = lexicon.words(length)
        assert len(set(listed)) == len(listed)
        assert all(re.fullmatch("[a-z]+", word) for word in listed)


def test_things_differ_and_every_attribute_is_short():
    world = twenty_questions.world()
    assert len(world) > 100
    assert len(set(world.values())) == len(world)
    assert all(re.fullmatch("[a-z]+", attribute) for attribute in twenty_questions.attributes())


@given(st.integers(0, 2**32), st.integers(1, 3))
@settings(max_examples=40)
def test_every_listed_word_that_a_board_holds_is_found_by_walking_it(seed, level):
    state = word_games.WordHunt().start(random.Random(seed), level)
    asked = [*random.Random(seed).sample(lexicon.words(4), 20), word_games.WordHunt().solve(state)[7:-1]]
    assert [word_games.on_board(state.rows, word) for word in asked] == [walks(state.rows, word) for word in asked]


@given(st.integers(0, 2**32))
@settings(max_examples=25)
def test_minesweepers_expert_opens_only_what_is_safe_in_every_board_that_fits(seed):
    task = hidden_boards.Minesweeper()
    state = task.start(random.Random(seed), 1)
    board = mine_fields.grid(5, 5)
    over = False
    while not over:
        numbers = {cell: around(board, state.mines, cell) for cell in mine_fields.bits(state.open)}
        covered = [cell for cell in board.cells if not state.open >> cell & 1]
        boards = [sum(1 << cell for cell in mines) for mines in combinations(covered, 4)]
        fitting = [b for b in boards if all(around(board, b, cell) == n for cell, n in numbers.items())]
        safe = mine_fields.deduce(board, state.mines, state.open)
        assert safe
        for other in fitting[:10]:  # what cannot be seen has no say
            assert mine_fields.deduce(board, other, state.open) == safe
        assert not any(mines & safe for mines in fitting)
        state, _, over, _ = task.apply(state, task.solve(state))


def around(board, cells: int, cell: int) -> int:
    """How many of the cells are next to this one."""
    row, column = divmod(cell, board.stride)
    near = ((row + r, column + c) for r, c in product((-1, 0, 1), repeat=2) if r or c)
    return sum(cells >> r * board.stride + c & 1 for r, c in near if 0 <= r < board.height and 0 <= c < board.width)


@pytest.mark.parametrize("level", EVERY)
def test_a_mine_field_needs_no_guess_wherever_the_player_opens_first(level):
    """The player opens any of the cells that are known to be safe, one a turn; some other is always known."""
    task = hidden_boards.Minesweeper()
    board = mine_fields.grid(*task.sizes[level - 1][:2])
    for seed in range(15):
        rng = random.Random(seed)
        state = task.start(rng, level)
        assert finish(task, state) <= task.turns(level)
        opened = state.open
        while opened | state.mines != board.all:
            safe = mine_fields.deduce(board, state.mines, opened)
            assert safe
            assert not safe & (state.mines | opened)
            opened = board.flood(state.mines, opened, 1 << rng.choice([*mine_fields.bits(safe)]))


@pytest.mark.parametrize("level", EVERY)
def test_every_quarter_of_a_mine_field_has_as_many_mines(level):
    task, rng = hidden_boards.Minesweeper(), random.Random(level)
    board, counts = mine_fields.grid(*task.sizes[level - 1][:2]), Counter()
    for _ in range(400):
        for cell in mine_fields.bits(task.start(rng, level).mines):
            row, column = divmod(cell, board.stride)
            if 2 * row + 1 != board.height and 2 * column + 1 != board.width:  # the middle is of no quarter
                counts[2 * row < board.height, 2 * column < board.width] += 1
    assert chi_square(counts) < 25  # of three degrees of freedom


def chi_square(counts: Counter) -> float:
    expected = counts.total() / 4
    return sum((found - expected) ** 2 / expected for found in counts.values())


@pytest.mark.parametrize(("height", "width"), [(2, 5), (5, 5), (9, 9)])
def test_cells_are_counted_all_at_once_as_one_by_one(height, width):
    board, rng = mine_fields.grid(height, width), random.Random(0)
    for _ in range(20):
        cells = sum(1 << cell for cell in board.cells if rng.random() < 0.5)
        digits = board.counts(cells)
        for cell in board.cells:
            count = sum((digit >> cell & 1) << power for power, digit in enumerate(digits))
            assert count == around(board, cells, cell) + (cells >> cell & 1)
            assert board.with_neighbours(cells) >> cell & 1 == int(count > 0)
        assert not any(digit & ~board.all for digit in digits)


# the experts


def finish(task, state, most=100):
    """How many turns the expert needs."""
    for turn in range(1, most):
        state, verdict, over, _ = task.apply(state, task.solve(state))
        if over:
            assert verdict.status == "correct", verdict
            return turn
    raise AssertionError("the expert does not come to an end")


@pytest.mark.parametrize("task", [deduction.Mastermind(), deduction.BullsAndCows()], ids=["Mastermind", "BullsAndCows"])
def test_every_short_code_is_broken_in_the_turns_there_are(task):
    state = task.start(random.Random(0), 1)
    for secret in map("".join, product(state.symbols, repeat=3)):
        if task.repeats or len(set(secret)) == 3:
            assert finish(task, state._replace(secret=secret)) <= task.turns(1)


@pytest.mark.slow
@pytest.mark.parametrize("task", [deduction.Mastermind(), deduction.BullsAndCows()], ids=["Mastermind", "BullsAndCows"])
def test_longer_codes_are_broken_in_the_turns_there_are(task):
    for level, seed in product((2, 3, 4, 5), range(5)):
        assert finish(task, task.start(random.Random(seed), level)) <= task.turns(level)


@pytest.mark.parametrize("level", EVERY)
def test_every_odd_coin_is_found_in_the_weighings_there_are(level):
    task = deduction.OddCoin()
    state = task.start(random.Random(1), level)
    for odd, heavier in product(state.labels, (True,) if task.sizes[level - 1][1] else (True, False)):
        assert finish(task, state._replace(odd=odd, heavier=heavier)) <= task.turns(level)


@pytest.mark.parametrize("level", [1, 2])
def test_no_liar_escapes_the_turns_there_are(level):
    """Every number with its lie in every place, or without one."""
    task = deduction.OneLie()
    turns = task.turns(level)
    state = task.start(random.Random(2), level)._replace(level=level)
    secrets = range(state.first, state.last + 1)
    used = [finish(task, state._replace(secret=s, lie=lie)) for s in secrets for lie in range(-1, turns)]
    assert max(used) == turns


@pytest.mark.parametrize("level", EVERY)
def test_everything_that_may_be_meant_is_found_in_the_turns_there_are(level):
    task = twenty_questions.TwentyQuestions()
    for seed in range(5):
        state = task.start(random.Random(seed), level)
        assert max(finish(task, state._replace(secret=thing)) for thing in state.things) <= task.turns(level)


@pytest.mark.slow
@pytest.mark.parametrize("level", EVERY)
def test_the_expert_at_wordle_finds_every_secret_in_the_turns_there_are(level):
    task = word_games.Wordle()
    for seed in range(16 if level < 4 else 4):
        assert finish(task, task.start(random.Random(seed), level)) <= task.turns(level)


@pytest.mark.slow
@pytest.mark.parametrize("level", EVERY)
def test_the_expert_at_hangman_survives_some_words_and_the_hardest(level):
    task = word_games.Hangman()
    listed = lexicon.words(task.sizes[level - 1][0])
    hardest = ["bunny", "funny", "fuzzy", "foggy"] if level == 5 else []
    for word in [*listed[:: len(listed) // 10], *hardest]:
        assert finish(task, word_games.HangmanState(word, level)) <= task.turns(level)


def test_every_small_black_box_is_solved_in_the_turns_there_are():
    task = hidden_boards.BlackBox()
    for level in (1, 2):
        for content in task.enumerate_contents(level):
            assert finish(task, hidden_boards.Box(int(content, 16), level)) <= task.turns(level)


def test_memory_without_forgetting_needs_no_more_flips_than_promised():
    task = card_games.MemoryPairs()
    worst = Counter()
    for level in EVERY:
        for seed in range(60):
            worst[level] = max(worst[level], finish(task, task.start(random.Random(seed), level)))
        assert worst[level] <= task.turns(level)
    assert worst[1] == task.turns(1)  # the bound is met


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "least"),
    [
        (hidden_boards.Battleship(), 0.75),
        (card_games.HigherLower(), 0.55),
        (chance.MultiArmedBandit(), 0.9),
        (chance.Secretary(), 0.5),
        (chance.PushYourLuck(), 0.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_where_luck_has_a_say_the_expert_wins_more_often_than_random_play(task, least):
    games = 60 if isinstance(task, hidden_boards.Battleship) else 250
    for level in EVERY:
        rng = random.Random(level)
        states = [task.start(rng, level) for _ in range(games)]
        rates = [sum(wins(task, state, level, player) for state in states) / games for player in (expert, at_random)]
        assert rates[0] >= least
        assert rates[0] > rates[1] + 0.15


def expert(task, state):
    return task.solve(state)


def at_random(task, state):
    return task.sample_action(state, random.Random(state.turn))


def wins(task, state, level, player) -> bool:
    for _ in range(task.turns(level)):
        state, verdict, over, _ = task.apply(state, player(task, state))
        if over:
            return verdict.status == "correct"
    return False


# what is known of the games of luck from elsewhere


@pytest.mark.parametrize(
    ("card", "bust"), [(2, 0.3536), (3, 0.3739), (4, 0.3945), (5, 0.4164), (6, 0.4232), (7, 0.2623)]
)
def test_the_dealer_goes_bust_as_often_as_the_books_say(card, bust):
    """With endless decks, standing on every 17."""
    ends = card_games.dealer_ends(card_games.total((card,)), (1,) * 9 + (4,), False)
    assert math.isclose(sum(ends.values()), 1)
    assert ends[22] == pytest.approx(bust, abs=2e-4)


@given(st.lists(st.integers(1, 13), min_size=1, max_size=9))
def test_a_hand_counts_each_ace_as_well_as_it_can(hand):
    values = [(1, 11) if card == 1 else (min(card, 10),) for card in hand]
    sums = {sum(choice) for choice in product(*values)}
    best = max((s for s in sums if s <= 21), default=min(sums))
    assert card_games.total(tuple(hand))[0] == best


@pytest.mark.parametrize(("left", "threshold"), [(1, 0.5), (2, 0.6899), (3, 0.7758), (4, 0.8246), (5, 0.8559)])
def test_the_secretary_stops_at_the_decision_numbers_of_gilbert_and_mosteller(left, threshold):
    task = chance.Secretary()
    for score, move in ((threshold - 0.002, "next"), (threshold + 0.002, "take")):
        seen = 6 - left
        state = chance.Queue((1,) * (seen - 1) + (round(1000 * score),) + (0,) * left, 2, seen)
        assert read_move(task.solve(state).rpartition(" ")[2]) == move


def test_pushing_ones_luck_is_worth_what_playing_every_plan_shows():
    """The best of all plans of a short game, by trying every choice after every course of the die."""

    def best(left, short, pot):
        if left == 0:
            return 0.0
        bank = 1.0 if pot >= short else best(left - 1, short - pot, 0)
        roll = sum(best(left - 1, short, 0 if face == 1 else pot + face) for face in range(1, 5)) / 4
        return max(bank, roll)

    for short in range(1, 9):
        assert chance.chance_of_goal(4, 1, 5, short, 0) == pytest.approx(best(5, short, 0))


def test_an_arm_pays_the_same_for_the_same_moves_and_every_payout_is_possible():
    task = chance.MultiArmedBandit()
    state = task.start(random.Random(3), 1)
    spread = task.sizes[0][1]
    paid = Counter()
    for seed in range(600):
        after = task.apply(state._replace(seed=seed), "pull a")[0]
        assert after == task.apply(state._replace(seed=seed), "pull a")[0]
        paid[after.pulls[0][1] - state.values[0]] += 1
    assert set(paid) == set(range(-spread, spread + 1))
