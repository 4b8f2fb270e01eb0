"""What is true of the first environments beyond what is true of every one: their content."""

from __future__ import annotations

import random
import re
from fractions import Fraction

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlvr.envs import TextEnv
from rlvr.envs.core.terminal import printable
from rlvr.envs.games.guess_number import LEVELS, GuessNumber, read_guess
from rlvr.envs.mathematics.calculator import Calculator, read_call, use_calculator
from rlvr.envs.mathematics.common import NUMBER
from rlvr.envs.mathematics.gsm8k import GSM8K
from rlvr.envs.mathematics.word_problems import WordProblems
from rlvr.envs.puzzles.countdown import LEVELS as COUNTDOWN_LEVELS
from rlvr.envs.puzzles.countdown import Countdown
from rlvr.envs.tasks.prompts import STYLES, system_prompt, worked

SEEDS = st.integers(0, 2**64)
EVERY = st.integers(1, 5)


def python_value(expression: str) -> Fraction:
    """Python's own arithmetic on fractions, as a second opinion; the texts are ours, not a model's."""
    return eval(re.sub(r"\d+", r"Fraction(\g<0>)", expression), {"Fraction": Fraction})


# Countdown


@given(SEEDS, EVERY)
@settings(max_examples=300)
def test_every_countdown_has_a_solution_that_python_and_the_grader_accept(seed, level):
    task = Countdown()
    state = task.start(random.Random(seed), level)
    count, largest, highest = COUNTDOWN_LEVELS[level - 1]
    assert len(state.numbers) == count
    assert all(1 <= n <= largest for n in state.numbers)
    assert 1 <= state.target <= highest
    assert state.target not in state.numbers
    assert sorted(map(int, re.findall(r"\d+", state.solution))) == sorted(state.numbers)
    assert python_value(state.solution) == state.target
    _, verdict, terminated, _ = task.apply(state, task.solve(state))
    assert (verdict.status, terminated) == ("correct", True)


@given(SEEDS, EVERY)
def test_a_random_countdown_action_is_graded_by_its_value_alone(seed, level):
    task, rng = Countdown(), random.Random(seed)
    state = task.start(rng, level)
    action = task.sample_action(state, rng)
    _, verdict, _, _ = task.apply(state, action)
    right = python_value(action.removeprefix("\\boxed{").removesuffix("}")) == state.target
    assert verdict.status == ("correct" if right else "wrong")


def test_countdown_content_does_not_depend_on_the_order_of_the_numbers():
    task = Countdown()
    state = task.start(random.Random(1), 3)
    assert task.content(state) == task.content(state._replace(numbers=state.numbers[::-1]))


# Calculator


@given(SEEDS, EVERY)
@settings(max_examples=300)
def test_the_calculator_agrees_with_pythons_fractions(seed, level):
    task = Calculator()
    state = task.start(random.Random(seed), level)
    assert Fraction(state.answer) == python_value(state.expression)
    state, verdict, terminated, role = task.apply(state, task.solve(state))
    assert (verdict.reward, terminated, role) == (0.0, False, "tool")
    assert task.observe(state) == state.answer
    _, verdict, terminated, _ = task.apply(state, task.solve(state))
    assert (verdict.status, terminated) == ("correct", True)


@given(SEEDS, EVERY, st.fractions(max_denominator=1000))
def test_only_the_exact_value_earns_anything(seed, level, value):
    task = Calculator()
    state = task.start(random.Random(seed), level)
    _, verdict, _, _ = task.apply(state, f"\\boxed{{{value}}}")
    assert (verdict.reward == 1.0) == (value == Fraction(state.answer))


@given(st.text(max_size=200))
def test_the_tool_answers_anything_with_one_short_text(expression):
    output = use_calculator(expression)
    assert isinstance(output, str)
    assert len(output) <= 3_000


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        ("2+3*4", "14"),
        ("(1/3)*3", "1"),
        ("1/3+1/6", "1/2"),
        ("0.1+0.2", "3/10"),
        ("-7+7", "0"),
        ("1/0", "error: division by zero"),
        ("", "error: the expression is empty"),
        ("9**9**9**9", "error: "),
        ("__import__('os')", "error: "),
        ("2+", "error: it ends without a number"),
    ],
)
def test_the_tool_is_exact_and_says_what_is_wrong(expression, output):
    assert use_calculator(expression).startswith(output)
    if not output.startswith("error"):
        assert use_calculator(expression) == output


@pytest.mark.parametrize(
    ("action", "call"),
    [
        ("<tool>1+1</tool>", "1+1"),
        ("so <tool>1\n+1</tool> and <tool>2</tool>", "1\n+1"),
        ("<tool></tool>", ""),
        ("<tool>1<tool>2</tool>", "1<tool>2"),
        ("</tool><tool>1</tool>", "1"),
        ("</tool>1<tool>", None),
        ("<tool>1", None),
        ("1</tool>", None),
        ("\\boxed{2}", None),
    ],
)
def test_the_first_whole_call_is_read(action, call):
    assert read_call(action) == call


def test_calling_again_and_again_is_the_end_without_reward():
    env = gym.make("rlvr/Calculator-v0").unwrapped
    env.reset(seed=0)
    steps = [env.step("<tool>1+1</tool> \\boxed{2}") for _ in range(4)]
    assert [step[0] for step in steps[:3]] == ["2"] * 3
    assert [step[1] for step in steps] == [0.0] * 4
    assert steps[-1][2:4] == (False, True)
    assert "never answered" in steps[-1][0]


# WordProblems


@given(SEEDS, EVERY)
@settings(max_examples=300)
def test_every_story_is_a_chain_of_true_equations(seed, level):
    task = WordProblems()
    state = task.start(random.Random(seed), level)
    assert len(state.equations) == level + 1
    before = None
    for equation in state.equations:
        left, right = equation.split("=")
        assert python_value(left) == int(right) > 0
        first = int(re.match(r"\d+", left)[0])
        assert before is None or first == before, "each equation goes on from the last one's result"
        before = int(right)
    assert before == state.answer
    assert task.apply(state, task.solve(state))[1].status == "correct"


@given(SEEDS, EVERY)
def test_the_story_tells_every_number_that_its_equations_use(seed, level):
    state = WordProblems().start(random.Random(seed), level)
    told = re.findall(r"\d+", state.text) + ["2"] * len(re.findall(r"doubles|twice", state.text))
    a, b = re.findall(r"\d+", state.equations[0].split("=")[0])
    needed = [a, b] + [re.findall(r"\d+", equation)[1] for equation in state.equations[1:]]
    for number in needed:
        told.remove(number)
    assert len(told) == (1 if level >= 4 else 0), "from level 4 on, one number does not matter"
    assert state.text.endswith("now?")
    assert "{" not in state.text


def test_names_and_things_do_not_make_another_problem():
    task = WordProblems()
    states = [task.start(random.Random(seed), 1) for seed in range(3000)]
    texts: dict[str, set[str]] = {}
    for state in states:
        texts.setdefault(task.content(state), set()).add(state.text)
    assert any(len(told) > 1 for told in texts.values())


# GuessNumber


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", " {}\n", "I say \\boxed{{{}}}.", "\\boxed{{ {} }}"]))
def test_a_guess_is_read_from_the_box_or_from_a_reply_that_is_a_number(number, form):
    assert read_guess(form.format(number)) == (number if 0 <= number < 10**10 else None)


@pytest.mark.parametrize(
    "text", ["", "five", "5 or 6", "5.0", "-5", "+5", "٥", "²", "\\boxed{5", "\\boxed{}", "5\\boxed{x}"]
)
def test_what_is_not_one_whole_number_is_no_guess(text):
    assert read_guess(text) is None


def test_the_last_box_counts():
    assert read_guess("\\boxed{3} no, \\boxed{4}") == 4


@pytest.mark.parametrize("level", [1, 2, 3])
def test_binary_search_finds_every_secret_in_the_turns_there_are(level):
    task = GuessNumber()
    begun = task.start(random.Random(0), level)
    assert begun.last - begun.first + 1 == LEVELS[level - 1][0]
    for secret in range(begun.first, begun.last + 1):
        state = begun._replace(secret=secret)
        for _ in range(task.turns(level)):
            state, verdict, terminated, _ = task.apply(state, task.solve(state))
            if terminated:
                break
        assert verdict.status == "correct", secret


class Guessing(RuleBasedStateMachine):
    """Any play at all: the feedback is true, the bounds hold the secret, forks and snapshots change nothing."""

    @initialize(
        seed=st.integers(0, 2**32 - 1), level=EVERY, split=st.sampled_from(["train", "validation", "test", None])
    )
    def begin(self, seed, level, split):
        self.env: TextEnv = gym.make("rlvr/GuessNumber-v0", level=level, split=split, render_mode="ansi").unwrapped
        self.seed, self.level = seed, level
        self.actions: list[str] = []
        self.seen = [self.env.reset(seed=seed)[0]]
        self.over = False
        self.saved = None

    @property
    def hunt(self):
        return self.env.get_state().state

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def guess(self, data):
        self._say(f"\\boxed{{{data.draw(st.integers(self.hunt.first - 1, self.hunt.last + 1))}}}")

    @precondition(lambda self: not self.over)
    @rule(text=st.text(max_size=10))
    def talk(self, text):
        self._say(text)

    @precondition(lambda self: not self.over)
    @rule()
    def search(self):
        self._say(self.env.solve())

    def _say(self, action):
        secret, turn = self.hunt.secret, len(self.actions) + 1
        guess = read_guess(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.actions.append(action)
        self.seen.append(observation)
        self.over = terminated or truncated
        assert terminated == (guess == secret) == (reward == 1.0)
        assert truncated == (not terminated and turn == LEVELS[self.level - 1][0].bit_length())
        assert info["turn"] == turn
        if not self.over:
            told = "Write a whole number." if guess is None else "higher" if guess < secret else "lower"
            assert observation.partition("\nNone of your last")[0] == told

    @precondition(lambda self: self.over)
    @rule()
    def go_on_to_the_next_task(self):
        self.actions, self.over = [], False
        self.seen = [self.env.reset()[0]]

    @precondition(lambda self: not self.over)
    @rule()
    def save(self):
        self.saved = (self.env.get_state(), list(self.actions), list(self.seen))

    @precondition(lambda self: self.saved is not None)
    @rule()
    def restore(self):
        state, actions, seen = self.saved
        self.env.set_state(state)
        self.actions, self.seen, self.over = list(actions), list(seen), False

    @precondition(lambda self: not self.over)
    @rule()
    def go_on_in_a_fork(self):
        other, self.env = self.env, self.env.fork()
        other.step("1")

    @invariant()
    def the_secret_can_still_be_found_where_the_expert_looks(self):
        if hasattr(self, "env"):
            assert self.hunt.low <= self.hunt.secret <= self.hunt.high

    @invariant()
    def the_transcript_is_what_was_said(self):
        if hasattr(self, "env"):
            said = [text for pair in zip(self.seen, [*self.actions, None], strict=True) for text in pair][:-1]
            whole = "\n".join(f"{'> ' if i % 2 else ''}{text}" for i, text in enumerate(said))
            assert self.env.render() == printable(whole)


Guessing.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
test_any_play_of_guess_number = Guessing.TestCase


# GSM8K and the prompts


def test_gsm8k_reads_the_official_forms(data_folder):
    task = GSM8K(split="train")
    assert task.size == 8
    answers = [problem.answer for problem in task.problems]
    assert answers == ["18", "6000", "-5", "2.5", "40", "14", "92", "8"]
    assert "<<" not in "".join(problem.solution for problem in task.problems)
    for problem in task.problems:
        for reply in (f"#### {problem.answer}", f"so \\boxed{{{problem.answer}}}", task.solve(problem)):
            assert task.apply(problem, reply)[1].status == "correct"
    assert task.apply(task.problems[1], "\\boxed{6,000}")[1].status == "correct"
    assert task.apply(task.problems[1], "\\boxed{6001}")[1].status == "wrong"
    assert GSM8K(split="test", data_files=data_folder / "gsm8k").size == 4


@pytest.mark.parametrize("env_id", ["rlvr/GSM8K-v0", "rlvr/WordProblems-v0"])
@pytest.mark.parametrize("style", STYLES)
def test_every_prompt_style_is_said_and_its_answer_read(env_id, style):
    env = gym.make(env_id, prompt_style=style).unwrapped
    _, info = env.reset(seed=0)
    assert info.get("system") == system_prompt(style, NUMBER)
    number = env.solve().rpartition("\\boxed{")[2].rstrip("}")
    _, reward, _, _, info = env.step(worked(style, "a thought", number))
    assert reward == 1.0, info["verdict"]


@pytest.mark.parametrize("env_id", ["rlvr/GSM8K-v0", "rlvr/WordProblems-v0"])
def test_an_unknown_prompt_style_is_refused_with_those_there_are(env_id):
    with pytest.raises(ValueError, match="prompt_style 'latex' is not one of boxed, hash, tags, none"):
        gym.make(env_id, prompt_style="latex")
