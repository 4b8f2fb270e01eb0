"""What every id writes, at every level, on many seeds: searched for English that nobody would write."""

from __future__ import annotations

import random
import re

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.bridges.suite_games import PREFIXES
from rlvr.envs.core.images import text_of
from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.tasks.wording import counted, times

# Only their first observation is read.
SANDBOXED = {f"rlvr/{name}-v0" for name in ("CodeTests", "CodeRepair", "RepoRepair", "RepoFeature", "Terminal", "Rocq")}
THINGS = (
    "times chairs steps days years minutes hours weeks months words letters cells moves points pieces people cards "
    "balls coins apples items turns guesses boxes tiles units numbers kilometres metres degrees others rounds tries "
    "pegs squares boats ships boards pairs mines marbles orders values candidates pulls losses wins parcels doors "
    "bulls cows codes hits"
)
_BEGINS = r"(?<![\w.,:/^*+=()\[\]-])(?<![*/+=:^-] )"  # not inside of a formula, a list or a clock
FAULTS = {
    "a before a vowel": (
        r"\ba (?!and\b|or\b|after\b)(?:[aei][a-z]{2,}|o(?!ne|nce)[a-z]{2,}|u(?!ni|se|su|ti)[a-z]{3,}|hour)\b"
    ),
    "an before a consonant": r"\ban (?:[bcdfgjklmnpqrstvwxyz]|h(?!our|onest|eir))[a-z]{2,}\b",
    "one of many": rf"{_BEGINS}1 (?:{'|'.join(THINGS.split())})\b",
    "a sign before a sign": r"(?<=\w) [+-] [-+](?=[\w(])(?! )",
    "nothing added": r"(?<=[xyzn]) [+-] 0(?![\d.,x])",
    "one times a name": r"(?<=[=+(]) ?-?1(?:[xyzn]\b|\(|[a-z]\()|(?<=[+-] )1 [a-z]\(",
    "nought times a name": r"(?<![\w.])0[xyz]\b",
    "to the power of one": r"\b[xyzn]\^1(?!\d)",
    "two blanks": r"(?<=[a-z,;:.!?]) {2,}(?=[A-Za-z(])",
    "a blank before a mark": r"(?<=[a-z]{2}) [,;!](?=\s|$)",
    "a word twice": r"\b(the|of|is|to|and|in|are|it|an|for|with) \1\b",
    "Python": r"\bNone\b(?! of your)|\bnan\b|\bTrue\b|\bFalse\b|<rlvr|object at 0x|Fraction\(",
    "a column for a noun": r"\ba [a-z]+ value\b|\b(?:highest|lowest) (?:founded|born)\b|\bno (?:cook|baker|smith)\b",
    "a value for itself": r"(?<![\w./^*+-])(?<![*/+^-] )(?<!\d )(-?\d+(?:/\d+)?) = \1(?![\d./^*)]| [-+*/^])",
    "an equation for itself": r"(?<![-\w])(?<![-+] )(\w+ = -?\d+), so \1(?![\d./])",
    "a sign at the start": r"[:=(] \+ \d",
    "a bracket around a number": r"\* \(\d+\)|\b1/\(\d+\)|\(-?\d+\) [nx]\b|\+ \(-\d+\) [a-z]",
    "the root of one": r"sqrt\(1\)|\^2 \* 1(?!\d)|\b1 sqrt",
    "one of them are": r"\bare 1 (?!place apart|and\b)[a-z]+\b|\b(?:only|Only) \d+ are\b",
    "the number of a verb": r"\bcounted 1 time\b|\bexactly 0 of\b|\b2 times as\b",
    "one time": r"\b[a-z]+ (?<!\+ )(?<!= )1 time\b(?! as)",
    "an amount of a thing": r"\b\d+ (?:energy|oxygen)\b|\b[2-9] (?:plank|torch|bone|brick|boat|vase)\b",
    "stiff": r"\b(?:apart by|asked for are|to a line)\b",
    "carried without an article": r"\bYou carry (?!nothing|none|it|the|an?\b|what|\d|\(|at most|too|out|things)[a-z]+ ",
    "old English": r"\bHow many (?:positive )?[a-z]+ has\b",
    "a sentence behind a colon": r"\blegal move: [A-Z][a-z]",
    "a signed nothing": r"\b[a-z]{3,} [+-]0(?!\.?\d)",
    "a range of two": r"\ba (?:1 to 2|2 to 3)\b",
    "a verb at the end": r"\b(?:and|but) \d+ [a-z]+ (?:are|is)(?:\.(?=\s)|\.?$)|\bYou are where you were\b",
    "two marks": r"(?<![.!?])[.!?;,][;,](?=\s)|(?<=[a-z]{2})\.\.(?!\.)(?=\s|$)",
}
FAULTS_OF = {name: re.compile(pattern) for name, pattern in FAULTS.items()}
# What looks like a fault there and is none: truth values of programs, names of one letter, remainders of a division.
NONE_THERE = {
    "Python": {
        "CodeOutput",
        "CodeInput",
        "CodeTests",
        "CodeRepair",
        "RepoRepair",
        "RepoFeature",
        "JsonPaths",
        "PalindromeCount",
    },
    # words of six languages
    "an before a consonant": {"Instructions"},
    "a blank before a mark": {"Instructions"},
    "two blanks": {"Stratego"},  # between the cells of a board, which have two signs
    "a word twice": {"RushHour", "Sokoban", "WordSearch"},
    "a value for itself": {"BitOperations"},
    "two marks": {
        *("BracketCompletion", "QueensCompletion", "Wordle", "MagicSquare", "Kakurasu", "Nonograms", "Takuzu")
    },
    "nothing added": {"CodeOutput", "CodeInput"},
    "a before a vowel": {
        *(
            "CodeRepair",
            "CodeTests",
            "ForwardChaining",
            "FunctionInduction",
            "HanoiGame",
            "Instructions",
            "LeastSquares",
            "RegexConstruction",
            "WaterJugs",
        )
    },
}


def generated() -> list[str]:
    return [i for i in rlvr.list_envs() if not i.startswith(PREFIXES)]


def faults(env_id: str, text: str) -> list[str]:
    name = env_id.removeprefix("rlvr/").partition("-")[0]
    return [
        f"{fault}: {text[max(0, hit.start() - 40) : hit.end() + 30]!r}"
        for fault, pattern in FAULTS_OF.items()
        if name not in NONE_THERE.get(fault, ()) and (hit := pattern.search(text))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", generated())
def test_every_id_writes_english(env_id):
    try:
        env = gym.make(env_id).unwrapped
    except (FileNotFoundError, ImportError, OSError, ValueError, SandboxUnavailable):
        pytest.skip("a data set or a sandbox that is not here")
    if env.size is not None:
        pytest.skip("the rows are others' texts")
    found: list[str] = []
    for level in range(1, env.task.levels + 1):
        single = env.task.turns(level) == 1
        for seed in range(25 if single else 3):
            observation, info = env.reset(seed=seed, options={"level": level})
            found += faults(env_id, text_of(observation)) + faults(env_id, info.get("system") or "")
            for turn in range(0 if env_id in SANDBOXED else 12):
                action = "I do not know." if turn == 1 else env.solve()  # what cannot be read is answered, too
                observation, _, terminated, truncated, info = env.step(action)
                found += faults(env_id, action) + faults(env_id, info["verdict"].reason)
                if terminated or truncated:
                    break
                found += faults(env_id, text_of(observation))
    env.close()
    assert not found, f"{len(found)} times, for example {found[:3]}"


WRONG = {
    "a before a vowel": "Which fields have a area value above 12?",
    "an before a consonant": "Take an ball.",
    "one of many": "all move 1 chairs clockwise",
    "a sign before a sign": "x + -3",
    "nothing added": "mirrored in the line y = x + 0",
    "one times a name": "Solve 3x + 1(2x - 13) = 4.",
    "nought times a name": "3y + 0x",
    "to the power of one": "the term x^1",
    "two blanks": "the  end",
    "a blank before a mark": "what is it , then",
    "a word twice": "the the end",
    "Python": "The answer is None.",
    "a column for a noun": "a area value of 3",
    "a value for itself": "7267/58140 = 7267/58140",
    "an equation for itself": "y = -5, so y = -5",
    "a sign at the start": "None: + 1 * 50",
    "a bracket around a number": "3 * (64)",
    "the root of one": "56 sqrt(1)",
    "one of them are": "there are 1 ways",
    "the number of a verb": "exactly 0 of the 2 journals",
    "one time": "the top is removed 1 time",
    "an amount of a thing": "needs the wrench and 3 energy",
    "stiff": "the numbers apart by blanks",
    "carried without an article": "You carry blue key (at most 4 things).",
    "old English": "How many positive divisors has 552?",
    "a sentence behind a colon": "Not a legal move: Write hit or stand.",
    "a signed nothing": "Hand 1 of 3, points +0.",
    "a range of two": "a 1 to 2 empties the pot",
    "a verb at the end": "no jump is left, and 4 pegs are",
    "two marks": "the end.,  ",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_seen(fault):
    assert FAULTS_OF[fault].search(WRONG[fault])
    assert not faults(
        "rlvr/None-v0", "Take an apple and a ball: 1 turn is left, 21 turns were played. x + 3y - 10 = 0."
    )


def test_numbers_in_sentences():
    assert [counted(n, "turn") for n in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
    assert counted(2, "box", "boxes") == "2 boxes"
    assert [times(1, "x"), times(3, "x"), times(2, "a(n)", " ")] == ["x", "3x", "2 a(n)"]


def games() -> list[str]:
    return [i for i in rlvr.list_envs() if ".games." in str(gym.spec(i).kwargs.get("task"))]


@pytest.mark.parametrize("env_id", [i for i in games() if i != "rlvr/GuessNumber-v0"])  # it has one word for an answer
def test_every_game_says_how_many_turns_are_left(env_id):
    env = gym.make(env_id, level=1).unwrapped
    env.reset(seed=1)
    state = env.get_state().state
    turns = getattr(state, "limit", env.task.turns(1))
    for turn in (1, 2):
        text = text_of(env.step("I do not know.")[0])
        left = turns - turn
        assert f"Turns left: {left}." in text or f"{counted(left, 'turn')} left" in text, text
    env.close()


def test_reasons_and_rules_say_what_holds():
    env = gym.make("rlvr/WaterJugs-v0", level=5).unwrapped
    rules = next(text for text in (env.reset(seed=seed)[0] for seed in range(50)) if "There is no tap" in text)
    assert "A move is pour a b (from a into b)." in rules
    assert "fill" not in rules
    assert "fill" not in env.step("fill a")[0].partition("Legal now")[0].partition("not a legal move")[2]
    env = gym.make("rlvr/PegJump-v0", level=5).unwrapped
    env.reset(seed=8)
    reason, over = "", False
    while not over:
        action = env.sample_action(random.Random(len(reason)))
        _, _, terminated, truncated, info = env.step(action)
        reason, over = info["verdict"].reason, terminated or truncated
    assert re.fullmatch(r"no jump is left, with \d+ pegs on the board", reason), reason


def test_hangman_and_the_bandit_show_what_was_tried_and_how_many_turns_are_left():
    env = gym.make("rlvr/Hangman-v0", level=1).unwrapped
    first, _ = env.reset(seed=1)
    assert "Tried: nothing yet" in first
    assert "You have 15 turns left." in first
    env.step("\\boxed{q}")
    text = env.step("\\boxed{e}")[0]
    assert "Tried: q, e." in text
    assert "You have 13 turns left." in text
    env = gym.make("rlvr/MultiArmedBandit-v0", level=1).unwrapped
    env.reset(seed=1)
    paid = [re.match(r"a paid (\d+)", env.step("\\boxed{pull a}")[0])[1] for _ in range(2)]
    text = env.step("\\boxed{pull c}")[0]
    assert f"Paid so far: a {', '.join(paid)}; c " in text
    assert "You have 8 turns left." in text
