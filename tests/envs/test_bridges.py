"""The bridges: everything that holds for our own environments holds for those of the packages that are installed here.

Neither package is installed for the default tests; ``benchmarks/bridges.py`` runs this file where they are, and writes
what passes into docs/bridges.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import random
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.audit import audit
from rlvr.envs.bridges import pools, suite_games
from rlvr.envs.bridges.duels import DUELS, MOVES
from rlvr.envs.bridges.matches import read_move
from rlvr.envs.bridges.reasoning_gym import THEIRS, same
from rlvr.envs.bridges.textarena import TextArenaDuel

# RLVR_BRIDGES names one of them, where another package brings a third along in a version of its own.
PREFIXES = tuple(f"rlvr/{suite}." for suite in os.environ.get("RLVR_BRIDGES", "rg textarena gem pettingzoo").split())
BRIDGED = [env_id for env_id in rlvr.list_envs() if env_id.startswith(PREFIXES)]
WORDS = (
    *("rlvr/textarena.Hangman-v0", "rlvr/textarena.WordSearch-v0"),
    *("rlvr/gem.Hangman-v0", "rlvr/gem.WordSearch-v0", "rlvr/gem.Wordle-v0"),
)
SLOW = ("rlvr/rg.arc_agi-v0", "rlvr/rg.rearc-v0")
SILENT = ("", "I do not know", "\\boxed{}", "\\boxed{" + "(" * 1_000 + "}", "\\boxed{nan}", "\\boxed{__import__('os')}")

every_bridge = pytest.mark.parametrize("env_id", BRIDGED or [pytest.param(None, marks=pytest.mark.skip("no package"))])
foreign = [pytest.mark.foreign, pytest.mark.timeout(600)]


@cache
def bare(env_id: str) -> TextEnv:
    if env_id in WORDS:
        corpora = Path.home() / "nltk_data" / "corpora"
        if not (corpora / "words").exists() and not (corpora / "words.zip").exists():
            pytest.skip("nltk's words are not here: python -m nltk.downloader words")
    env = gym.make(env_id, split=None).unwrapped
    assert isinstance(env, TextEnv)
    return env


def has_expert(env: TextEnv) -> bool:
    env.reset(seed=0)
    try:
        env.solve()
    except NotImplementedError:
        return False
    return True


def some_actions(env: TextEnv, seed: int) -> list[str]:
    """Actions that get somewhere: the expert's where there is one, else words in brackets that the game has said."""
    observation, _ = env.reset(seed=seed)
    if has_expert(env):
        env.reset(seed=seed)
        return expert_actions(env, 6)
    rng = random.Random(seed)
    said = re.findall(r"\[[^\[\]\n]{1,12}\]", observation) or ["[1]", "[0 0]", "[up]"]
    return [rng.choice(said) for _ in range(6)]


def expert_actions(env: TextEnv, most: int = 1_000) -> list[str]:
    actions, over = [], False
    while not over and len(actions) < most:
        actions.append(env.solve())
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return actions


def experts(env: TextEnv, seed: int, level: int) -> list[str]:
    env.reset(seed=seed, options={"level": level})
    try:
        return expert_actions(env)
    except NotImplementedError:
        pytest.skip(f"no expert is known at level {level}")


def played(env: TextEnv, actions: list[str]) -> list[str]:
    steps = []
    for action in actions:
        _, _, terminated, truncated, _ = step = env.step(action)
        steps.append(repr(step))
        if terminated or truncated:
            break
    return steps


class TestEveryBridge:
    pytestmark = foreign

    @every_bridge
    def test_checker(self, env_id):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(gym.make(bare(env_id).spec.id, split=None).unwrapped)

    @every_bridge
    def test_expert(self, env_id):
        """Scores 1 at every level. Where none is known, the id says so, and this is skipped."""
        env = bare(env_id)
        if not has_expert(env):
            pytest.skip("no expert is known")
        for level in range(1, env.task.levels + 1):
            for seed in range(3):
                steps = rlvr.replay(env, seed, experts(env, seed, level), {"level": level})
                assert (steps[-1][1], steps[-1][4]["success"]) == (1.0, True), steps[-1][4]["verdict"]

    @every_bridge
    def test_audit(self, env_id):
        report = audit(bare(env_id), tasks=2)
        assert not [f.text for f in report.at_least("low") if "grading took" not in f.text]  # theirs take their time

    @every_bridge
    def test_silence(self, env_id):
        """Empty, senseless and hostile text earns nothing, and is the policy's fault."""
        env = bare(env_id)
        for text in SILENT:
            env.reset(seed=1)
            over, total = False, 0.0
            while not over:
                _, reward, terminated, truncated, info = env.step(text)
                total += reward
                over = terminated or truncated
                assert info["verdict"].valid, (text[:40], info["verdict"])
            assert (total, info["success"]) == (0.0, False), text[:40]

    @every_bridge
    def test_seeds(self, env_id):
        """The same seed is the same episode in other workers too; seeds do not overlap, and resets leave nothing."""
        env, other = bare(env_id), bare(env_id).spawn()
        episodes = {}
        for seed in range(3):
            actions = some_actions(env, seed)
            first, _ = env.reset(seed=seed)
            episodes[seed] = (actions, first, played(env, actions))
        for pool in list(pools._pools.values()):
            pool.close()
        pools._pools.clear()
        other.reset(seed=77)
        for seed, (actions, first, steps) in episodes.items():
            assert other.reset(seed=seed)[0] == first
            assert played(other, actions) == steps
        walks = [[content(env, seed, index) for index in range(4)] for seed in range(3)]
        assert len({tuple(walk) for walk in walks}) == 3, "two seeds walk through the same tasks"

    @every_bridge
    def test_restore(self, env_id):
        """Forks, snapshots and pickles go on exactly, also where no worker has the game any more."""
        env = bare(env_id)
        actions = some_actions(env, 5)
        for cut in range(len(actions)):
            env.reset(seed=5)
            if len(played(env, actions[:cut])) < cut or env.get_state().over:
                break
            twins = [env.fork(), pickle.loads(pickle.dumps(env)), env.spawn()]
            twins[2].reset(seed=9)
            twins[2].set_state(pickle.loads(pickle.dumps(env.get_state())))
            ahead = played(env, actions[cut:])
            assert [played(twin, actions[cut:]) for twin in twins] == [ahead] * 3

    @every_bridge
    def test_splits(self, env_id):
        env = bare(env_id)
        found: dict[str, set[str]] = {}
        for split in env.task.splits:
            count = 2 if env_id in SLOW else 4
            found[split] = {content(env, 0, index, split=split) for index in range(count)}
        assert not found["train"] & found["test"]


def content(env: TextEnv, seed: int, index: int, **options: Any) -> str:
    env.reset(seed=seed, options={"index": index, **options})
    return env.content


# what needs no package


def test_ids_are_registered_where_the_package_is_and_only_there():
    for package, prefix, table in (
        ("reasoning_gym", "rlvr/rg.", suite_games.REASONING_GYM),
        ("textarena", "rlvr/textarena.", (*suite_games.TEXTARENA, *suite_games.TEXTARENA_DUELS)),
        ("gem", "rlvr/gem.", suite_games.GEM),
    ):
        found = rlvr.list_envs(prefix)
        there = importlib.util.find_spec(package) is not None
        assert found == (sorted(f"{prefix}{name}-v0" for name in table) if there else [])


def test_the_tables_are_well_formed():
    assert suite_games.REASONING_GYM.keys() >= THEIRS
    assert not suite_games.REASONING_GYM.keys() & suite_games.REFUSED_DATA_SETS.keys()
    assert not suite_games.TEXTARENA.keys() & suite_games.REFUSED_GAMES.keys()
    assert not suite_games.GEM.keys() & suite_games.REFUSED_GEM.keys()
    assert (*DUELS,) == (*MOVES,) == suite_games.TEXTARENA_DUELS
    assert not {*suite_games.TEXTARENA, *suite_games.REFUSED_GAMES, *suite_games.REFUSED_DUELS} & {*DUELS}
    assert all(len({*texts}) == len(texts) for texts in MOVES.values())
    for each in suite_games.REASONING_GYM.values():
        assert list(each.levels) == sorted(set(each.levels))
    for game in (*suite_games.TEXTARENA.values(), *suite_games.GEM.values(), *DUELS.values()):
        assert len(game.settings) == len(game.turns)
        json.dumps(game.settings)


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("12", "12", True),
        ("12.0", "12", True),
        ("1,200", "1200", True),
        (" Friday ", "friday", True),
        ("1 2\n3 4", "1 2 \n3 4\n", True),
        ("['1', '2.50']", "[1, 2.5]", True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ("12 or 13", "12", False),
        ("the answer is 12", "12", False),
        ("1234", "12", False),
        ("nan", "12", False),
        ("1e1", "10", False),
        ("9" * 5_000, "12", False),
        ("[" * 3_000 + "]" * 3_000, "[1]", False),
        ("[NaN]", "[1]", False),
        ("True", "False", False),
        ("", "1", False),
    ],
)
def test_answers_are_compared_as_values_and_containing_one_is_not_enough(answer, gold, right):
    assert same(answer, gold) is right


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("I could go [left], but \\boxed{[up]}", "[up]"),
        ("<think>[left]</think> [up]", "[up]"),
        ("\ud800[up]\x00", "?[up]"),
        ("x" * 100_000 + "[up]", "x" * 496 + "[up]"),
        ("", ""),
    ],
)
def test_a_game_is_told_the_move_and_not_the_thoughts(action, told):
    assert read_move(action) == told


@pytest.mark.parametrize("bridge", ["reasoning_gym:ReasoningGym", "textarena:TextArena", "gem:GemGame"])
def test_an_unknown_name_is_one_clear_error(bridge):
    module, _, kind = bridge.partition(":")
    build = getattr(importlib.import_module(f"rlvr.envs.bridges.{module}"), kind)
    with pytest.raises(ValueError, match=r"docs/bridges\.md"):
        build(name="Nothing")


# games that are won by playing well: the reward is there to be had


@pytest.mark.parametrize(("text", "move"), [
    (r"\boxed{[4]}", "[4]"), (r"\boxed{4}", "[4]"), ("[0 3]", "[0 3]"), ("<think>[1]</think>\\boxed{[2, 1]}", "[2, 1]"),
    ("e.g. '[4]' is a move", ""), ("[rock] or [paper]", ""), (r"\boxed{[[4]]}", ""), (r"\boxed{[④]}", ""), ("", ""),
    (r"\boxed{[4]} \boxed{[5]}", "[5]"),
])  # fmt: skip
def test_an_action_in_a_game_for_two_is_a_move_alone(text, move):
    assert TextArenaDuel(name="TicTacToe").read_move(text) == move


def test_the_reward_of_a_game_for_two_is_half_for_a_draw_and_nothing_for_an_invalid_move():
    task = TextArenaDuel(name="TicTacToe")
    for score, legal, reward in ((1, True, 1.0), (0, True, 0.5), (-1, True, 0.0), (1, False, 0.0), (0, False, 0.0)):
        assert task.judge({"reason": "over", "score": score, "legal": legal}).reward == reward
    with pytest.raises(ValueError, match="no game 'Chess'"):
        TextArenaDuel(name="Chess")


@pytest.mark.foreign
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("textarena") is None, reason="textarena is not installed")
class TestGamesForTwo:
    @pytest.mark.parametrize("name", suite_games.TEXTARENA_DUELS)
    def test_both_players_win_and_lose_and_no_game_fails(self, name):
        """The policy tries moves at random, as the other player does; TextArena forgives one invalid move each time."""
        env, rewards, players = bare(f"rlvr/textarena.{name}-v0"), [], set()
        for seed in range(30):
            text, _ = env.reset(seed=seed)
            players.update(re.findall(r"Player ([01])", text)[:1])
            rng, over = random.Random(seed), False
            while not over:
                rest = rng.sample(MOVES[name], len(MOVES[name]))
                move = next((each for each in rest if each.strip("[]") in text.replace(",", "")), rest[0])
                text, reward, terminated, truncated, info = env.step(f"\\boxed{{{move}}}")
                over = terminated or truncated
                assert info["verdict"].valid, info["verdict"]
            rewards.append(reward)
        assert players == {"0", "1"}
        assert 0.0 in rewards
        assert {*rewards} <= {0.0, 0.5, 1.0}

    def test_a_choice_made_at_once_is_not_read_before_the_own(self):
        env, seen = bare("rlvr/textarena.IteratedRockPaperScissors-v0"), 0
        for seed in range(12):
            text, _ = env.reset(seed=seed)
            seen += "You are Player 1" in text
            assert "selects" not in text
            assert f"{text[8:16]} selects move rock." in env.step("[rock]")[0]
        assert 0 < seen < 12, "the policy has either seat"

    def test_the_others_moves_are_legal_and_come_from_the_seed(self):
        env = bare("rlvr/textarena.Nim-v0")
        texts = set()
        for seed in range(8):
            games = []
            for _ in range(2):
                env.reset(seed=seed)
                games.append(env.step("[0 1]")[0])
            assert games[0] == games[1]
            texts.add(games[0])
        assert len(texts) > 4
        assert not any("invalid" in text for text in texts)

    def test_a_game_of_tic_tac_toe_is_won_by_whoever_makes_a_line(self):
        env, won = bare("rlvr/textarena.TicTacToe-v0"), 0
        for seed in range(20):
            text, _ = env.reset(seed=seed)
            over, reward = False, 0.0
            while not over:
                board = text.rpartition("Current Board:")[2]
                free = re.findall(r"\d", board.partition("Available")[0])
                move = next((cell for cell in "402681357" if cell in free), free[0])
                text, reward, terminated, truncated, info = env.step(f"[{move}]")
                over = terminated or truncated
            winner = re.search(r"Player ([01]) has won", info["verdict"].reason)
            won += reward == 1.0
            assert (reward == 0.5) == (winner is None), info["verdict"].reason
        assert won > 8


@pytest.mark.foreign
@pytest.mark.skipif(importlib.util.find_spec("textarena") is None, reason="textarena is not installed")
class TestWonGames:
    def test_the_ball_is_found_by_following_the_cups(self):
        env = bare("rlvr/textarena.ThreeCardMonte-v0")
        for seed in range(5):
            text, _ = env.reset(seed=seed, options={"level": 2})
            ball = re.search(r"Ball starts: (.*)", text)[1].split().index("[X]")
            for one, other in re.findall(r"swapped cups (\d+) and (\d+)", text):
                ball = int(other) if ball == int(one) else int(one) if ball == int(other) else ball
            assert env.step(f"\\boxed{{[{ball}]}}")[1] == 1.0

    def test_the_number_is_found_by_halving(self):
        env = bare("rlvr/textarena.GuessTheNumber-v0")
        for seed in range(5):
            env.reset(seed=seed, options={"level": 3})
            low, high, over = 1, 1000, False
            while not over:
                guess = (low + high) // 2
                text, reward, terminated, truncated, _ = env.step(f"\\boxed{{[{guess}]}}")
                over = terminated or truncated
                low, high = (guess + 1, high) if "higher" in text else (low, guess - 1)
            assert reward == 1.0

    def test_a_turn_shows_what_is_new_and_nothing_from_before(self):
        env = bare("rlvr/textarena.GuessTheNumber-v0")
        first, _ = env.reset(seed=0)
        second = env.step("[7]")[0]
        assert first not in second
        assert "[7]" not in second
        assert len(env.reset(seed=1)[0]) == len(first)
