"""A move in any natural words is played; a hedge, a negation or two moves in none."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.games.common import Game
from rlvr.envs.games.guess_number import GuessNumber
from rlvr.envs.rewards.dressing import plainer_moves
from rlvr.envs.rewards.graders.action import match_action
from rlvr.envs.worlds.game import WorldGame

# What may stand around any move.
WAYS = [
    "{}", r"\boxed{{{}}}", r"\boxed{{ {} }}", r"$\boxed{{{}}}$", r"**\boxed{{{}}}**", r"\boxed{{\text{{{}}}}}",
    r"\boxed{{**{}**}}", r"\boxed{{`{}`}}", r"\boxed{{{}.}}", r"\boxed{{$\text{{{}}}$}}", r"\boxed{{\mathrm{{{}}}}}",
    r'\boxed{{"{}"}}', r"\boxed{{'{}'}}", "\\boxed{{\n{}\n}}", r"\fbox{{{}}}", r"I think so. \boxed{{{}}} is best.",
    "<think>left or right?</think>{}", "<answer>{}</answer>", "<action>{}</action>", "**{}**", "*{}*", "__{}__", "`{}`",
    "`{}`.", "**{}**.", "{}.", "{}!", "```\n{}\n```", "```text\n{}\n```", "My move is {}", "My move is {}.",
    "my next move is: {}", "Move: {}", "**Move:** {}", "Move: **{}**.", "Action: {}", "Action: `{}`", "Final move: {}",
    "My guess is {}.", "Guess: {}.", "The answer is {}.", "Answer: {}", "My choice: {}", "The best move is {}.",
    "I looked at it for long.\n\nMove: {}", "So my move is {}.", "I choose {}.", "I'll play {}.", "I will try {}",
    "Let me try {}.", "I'm going to choose {}", "Let's play {}.", "I go with {}.", "I'd like to select {}.",
    "I\u2019ll go with `{}`.", "Play {}", "Choose {}.", r"\boxed{{I choose {}}}", r"\boxed{{\text{{Move: {}}}}}",
]  # fmt: skip
HEDGES = ["{a} or {b}", "{a} / {b}", "not {a}", "never {a}", "I will not play {a}", "maybe {a}", "Don't choose {a}",
          "I could play {a}", "{a}?", "either {a} or {b}", "My move is not {a}", "{a} but not now", "anything but {a}",
          "Move: {a}\nMove: {b}", "I won't choose {a}.", "if I may, {a}", "{a}, I guess, or {b}"]  # fmt: skip
# Natural words of one game each: what is written, and what it means there.
OWN = [
    ("MultiArmedBandit", "pull arm a", "pull a"), ("MultiArmedBandit", "I pull the arm b.", "pull b"),
    ("MultiArmedBandit", "I name arm c", "name c"), ("Blackjack", "**hit**", "hit"), ("Blackjack", "Hit me!", "hit"),
    ("Blackjack", "I'll hit.", "hit"), ("Blackjack", "I stand", "stand"), ("FrozenLake", "I move right", "right"),
    ("FrozenLake", "go left", "left"), ("FrozenLake", "Go one step up.", "up"), ("FrozenLake", "`up`", "up"),
    ("KeyDoor", "move down one cell", "down"), ("Game2048", "swipe left", "left"), ("Sokoban", "push up", "up"),
    ("Wordle", "Guess: crane.", "crane"), ("Wordle", "I guess the word crane.", "crane"),
    ("Hangman", "I guess the letter e.", "e"), ("Hangman", "Letter e", "e"),
    ("SlidingPuzzle", "slide tile {legal}", "{legal}"), ("HanoiGame", "move from peg {0} to peg {1}", "{legal}"),
    ("HanoiGame", "Move the top disc of peg {0} to peg {1}.", "{legal}"), ("HanoiGame", "{0} -> {1}", "{legal}"),
    ("Nim", "take 1 from heap a", "a 1"), ("Nim", "I take 1 object from a.", "a 1"),
    ("ConnectFour", "Drop in column b.", "b"), ("TicTacToe", "I place at {legal}", "{legal}"),
    ("LightsOutGame", "press the lamp at b2", "b2"), ("FloodIt", "Flood {legal}", "{legal}"),
    ("Minesweeper", "Open cells {rest}.", "open {rest}"), ("Minesweeper", "I open {rest}", "open {rest}"),
    ("Minesweeper", "Reveal {rest}", "open {rest}"),
    ("Battleship", "Fire at a1 and b3", "fire a1 b3"), ("Battleship", "I fire at a1", "fire a1"),
    ("MemoryPairs", "flip card b1", "b1"), ("MemoryPairs", "I flip over b1", "b1"),
    ("PushYourLuck", "roll the die", "roll"), ("PushYourLuck", "I bank the pot.", "bank"),
    ("Secretary", "take this candidate", "take"), ("Secretary", "Next candidate.", "next"),
    ("HigherLower", "The next card is higher.", "higher"), ("HigherLower", "I say lower", "lower"),
    ("GuessNumber", "The number is {legal}.", "{legal}"), ("GuessNumber", "I guess the number {legal}", "{legal}"),
    ("WaterJugs", "fill jug a", "fill a"), ("WaterJugs", "I fill the jug a.", "fill a"),
    ("RushHour", "Move car {legal}", "{legal}"), ("Taxi", "I go {legal}", "{legal}"),
]  # fmt: skip


def games() -> list[str]:
    """Every id whose turns are moves or commands."""
    found = []
    for name, spec in sorted(gym.registry.items()):
        if name.startswith("rlvr/") and ("games" in str(spec.kwargs.get("task")) or "worlds" in str(spec.kwargs)):
            found.append(name)
    return found


def made(name: str) -> TextEnv:
    env = gym.make(name, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    return env


def outcome(env: TextEnv, action: str) -> Any:
    """What an action leads to, without what is only the spelling of the move in a verdict."""
    state, verdict, over, _ = env.task.apply(env.get_state().state, action)
    return state, verdict.status, verdict.reward, over


def content(boxed: str) -> str:
    return boxed[boxed.rindex("\\boxed{") + 7 :].partition("}")[0]


@pytest.mark.parametrize("name", games())
def test_a_move_in_any_natural_words_is_that_move(name: str) -> None:
    env = made(name)
    rng = random.Random(name)
    for seed in range(2):
        env.reset(seed=seed)
        moves = [
            content(env.solve()),
            *(content(str(env.task.sample_action(env.get_state().state, rng))) for _ in "ab"),
        ]
        for move in moves:
            plain = outcome(env, f"\\boxed{{{move}}}")
            if plain[1] == "unparsable" and plain[2] == 0:
                continue  # a random action that the rules forbid
            for way in WAYS:
                assert outcome(env, way.format(move)) == plain, way.format(move)


@pytest.mark.parametrize("name", games())
def test_a_hedge_or_a_negation_is_no_move(name: str) -> None:
    env = made(name)
    rng = random.Random(name)
    env.reset(seed=3)
    one = content(env.solve())
    drawn = (content(str(env.task.sample_action(env.get_state().state, rng))) for _ in range(20))
    other = next((move for move in drawn if move != one), "another move")
    before = env.get_state().state
    for hedge in HEDGES:
        for way in ("{}", r"\boxed{{{}}}", "**{}**", "My move is {}."):
            state, verdict, over, _ = env.task.apply(before, way.format(hedge.format(a=one, b=other)))
            assert (verdict.reward, over) == (0, False), (hedge, one, other)
            if isinstance(env.task, (Game, GuessNumber)):
                assert verdict.status == "unparsable", (hedge, one, other)
            elif isinstance(env.task, WorldGame):
                assert state.now == before.now or verdict.status == "partial", (hedge, one, other)


@pytest.mark.parametrize(("name", "written", "meant"), OWN)
def test_words_of_one_game(name: str, written: str, meant: str) -> None:
    env = made(f"rlvr/{name}-v0")
    played = 0
    for seed in range(6):
        env.reset(seed=seed, options={"level": 1})
        legal = content(env.solve())
        parts = (legal[0], legal[1:])
        words = {"legal": legal, "rest": legal.partition(" ")[2]}
        plain = outcome(env, f"\\boxed{{{meant.format(*parts, **words)}}}")
        found = outcome(env, written.format(*parts, **words))
        assert found[1:] == plain[1:]
        if plain[1] != "unparsable":  # the message of a refusal quotes the reply
            assert found == plain
            played += 1
    assert played


@pytest.mark.parametrize("number", ["1,234,567", "1{,}234{,}567", "1234567", "My guess is 1,234,567."])
def test_thousands_may_be_separated(number: str) -> None:
    assert "1234567" in [text.replace(",", "") for text in plainer_moves(f"\\boxed{{{number}}}")]


@given(st.sampled_from(["up", "down", "left", "right"]), st.sampled_from(WAYS), st.sampled_from(HEDGES))
def test_listed_actions_are_read_in_the_same_words(action: str, way: str, hedge: str) -> None:
    legal = ("up", "down", "left", "right")
    other = legal[legal.index(action) - 1]
    text = way.format(action)
    if "<" not in text and "boxed" not in text and "fbox" not in text and "\n\n" not in text:
        assert match_action(text, legal) == action
    assert match_action(hedge.format(a=action, b=other), legal) is None


@given(st.text(max_size=600))
def test_any_text_has_few_readings(text: str) -> None:
    assert len(list(plainer_moves(text, ("go",), ("arm",)))) <= 6


@pytest.mark.parametrize(
    "unit", ["my move is ", "I will go ", "so ", "the ", "Move: up\n", "\\boxed{", "```\n", "move:"]
)
def test_long_texts_are_no_moves(unit: str) -> None:
    assert list(plainer_moves(unit * 20_000)) in ([], ["up"])


def test_a_prompt_sign_before_a_number_is_a_comparison() -> None:
    assert "open door" in list(plainer_moves("> open door"))
    assert "9" not in list(plainer_moves("> 9"))
