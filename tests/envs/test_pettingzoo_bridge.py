"""One seat of a game of several players: who moves when, wins, seats, masks; PettingZoo's own games where they are."""

from __future__ import annotations

import importlib.util
import pickle
import random

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs import TextEnv

NIM = {"to_text": f"{__name__}:sticks", "actions": ["one", "two", "three"]}


class Nim:
    """Who takes the last stick wins; with the part of PettingZoo's AEC interface that the bridge speaks."""

    def __init__(self, sticks: int = 7, mask_in: str = "observation") -> None:
        self.sticks, self.mask_in = sticks, mask_in
        self.possible_agents = ["first", "second"]

    def reset(self, seed=None, options=None):
        self.left, self.agents, self.agent_selection = self.sticks, list(self.possible_agents), "first"
        self.rewards, self.over = dict.fromkeys(self.agents, 0.0), False
        self.closed = False

    def action_space(self, agent):
        return gym.spaces.Discrete(3)

    def last(self):
        agent, mask = self.agent_selection, [number < self.left for number in range(3)]
        observation = {"sticks": self.left, **({"action_mask": mask} if self.mask_in == "observation" else {})}
        info = {"action_mask": mask} if self.mask_in == "info" else {}
        return observation, self.rewards[agent], self.over, False, info

    def step(self, action):
        agent = self.agent_selection
        other = self.possible_agents[agent == "first"]
        if self.over:
            self.agents.remove(agent)
        else:
            assert 0 <= action < 3
            assert action < self.left
            self.left -= action + 1
            if self.left == 0:
                self.over, self.rewards = True, {agent: 1.0, other: -1.0}
        self.agent_selection = other

    def close(self):
        self.closed = True


def sticks(observation, info):
    return f"{observation['sticks']} sticks"


def perfect(observation, info, agent, chance):
    return (observation["sticks"] % 4 or 1) - 1


def make(**settings) -> TextEnv:
    settings = {**NIM, "to_text": sticks, "env": Nim, "split": None, **settings}
    env = gym.make("rlvr/PettingZoo-v0", **settings).unwrapped
    assert isinstance(env, TextEnv)
    return env


def test_the_policy_moves_when_it_is_its_turn_and_wins():
    env = make(seat="first", opponents=perfect)
    observation, _ = env.reset(seed=0)
    assert observation == "7 sticks\n\nMoves: one, two, three"
    observation, reward, terminated, _, _ = env.step("\\boxed{three}")  # leaves four: lost for the other
    assert (observation, reward, terminated) == ("3 sticks", 0.0, False)
    _, reward, terminated, _, info = env.step("\\boxed{three}")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_a_game_that_the_other_wins_is_lost():
    env = make(seat=1, opponents=perfect, settings={"sticks": 6})
    assert env.reset(seed=0)[0].startswith("4 sticks"), "the other begins, and takes two"
    _, reward, terminated, _, info = env.step("\\boxed{two}")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert info["verdict"].parts["its own return"] == -1.0


@pytest.mark.parametrize("where", ["observation", "info"])
def test_what_the_mask_forbids_costs_a_turn_and_changes_nothing(where):
    env = make(seat=0, settings={"sticks": 2, "mask_in": where})
    env.reset(seed=0)
    observation, _, terminated, _, _ = env.step("\\boxed{three}")
    assert not terminated
    assert "'three' is not allowed now" in observation
    assert env.step("\\boxed{two}")[1] == 1.0


def test_seats_and_opponents_come_from_the_seed_and_repeat():
    env, other = make(settings={"sticks": 21}), make(settings={"sticks": 21})
    begun = set()
    for seed in range(12):
        observation, _ = env.reset(seed=seed)
        begun.add(observation.startswith("21"))
        actions = [f"\\boxed{{{random.Random(seed * 10 + turn).choice(NIM['actions'])}}}" for turn in range(8)]
        steps = rlvr.replay(env, seed, actions)
        assert repr(rlvr.replay(other, seed, actions)) == repr(steps)
        env.reset(seed=seed)
        for place, action in enumerate(actions[: len(steps) - 1]):
            twin = pickle.loads(pickle.dumps(env))
            assert repr(twin.step(action)) == repr(steps[place + 1]) == repr(env.step(action))
    assert begun == {True, False}, "both seats"


def test_a_game_that_is_over_before_the_first_turn_is_drawn_again():
    env = make(settings={"sticks": 1}, opponents=perfect)
    for seed in range(8):
        assert env.reset(seed=seed)[0].startswith("1 sticks")
    hopeless = make(settings={"sticks": 1}, opponents=perfect, seat="second")
    with pytest.raises(RuntimeError, match="lasted until the policy's first turn"):
        hopeless.reset(seed=0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"env": "no.such:env"}, "names no function"),
        ({"opponents": "nobody"}, "names no function"),
        ({"to_action": "json:nothing"}, "names no function"),
        ({"reward": "half"}, "reward must be"),
    ],
)
def test_bad_settings_are_one_clear_error(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        make(**settings)
    with pytest.raises(ValueError, match="no seat 'third'; it has first, second"):
        make(seat="third").reset(seed=0)


def test_an_unknown_game_is_one_clear_error():
    from rlvr.envs.bridges.pettingzoo import PettingZooGame

    with pytest.raises(ValueError, match=r"docs/bridges\.md"):
        PettingZooGame(name="Nothing")


# PettingZoo's own


@pytest.mark.foreign
@pytest.mark.skipif(importlib.util.find_spec("pettingzoo") is None, reason="PettingZoo is not installed")
class TestItsGames:
    def test_tic_tac_toe_is_won_by_looking_one_move_ahead(self):
        env = gym.make("rlvr/pettingzoo.TicTacToe-v0", split=None).unwrapped
        won = 0
        for seed in range(30):
            observation, _ = env.reset(seed=seed)
            over = False
            while not over:
                observation, reward, terminated, truncated, info = env.step(f"\\boxed{{{best(observation)}}}")
                over = terminated or truncated
                assert info["verdict"].valid
            won += reward
        assert won >= 20

    def test_an_unknown_id_is_one_clear_error(self):
        with pytest.raises(ValueError, match="has no environment 'classic/nothing-v1'"):
            make(env="classic/nothing-v1")

    def test_the_whole_suite_speaks_the_same_interface(self):
        """Rock, paper, scissors has no mask, and its players move at once."""
        env = gym.make("rlvr/PettingZoo-v0", env="classic/rps-v2", to_text="builtins:divmod",
                       actions=["rock", "paper", "scissors"], settings={"max_cycles": 3}, split=None, seat=0,
                       success=0.5)  # fmt: skip
        env.unwrapped.task.to_text = lambda observation, info: f"the other's last: {observation}"
        ends = set()
        for seed in range(12):
            env.reset(seed=seed)
            over = False
            while not over:
                _, _, terminated, truncated, info = env.step("\\boxed{rock}")
                over = terminated or truncated
            ends.add(info["success"])
        assert ends == {True, False}


def best(board: str) -> str:
    rows = [line[2:].split() for line in board.splitlines() if line[:2] in ("1 ", "2 ", "3 ")][-3:]
    cells = {(r, c): rows[r][c] for r in range(3) for c in range(3)}
    lines = [[(r, c) for c in range(3)] for r in range(3)] + [[(r, c) for r in range(3)] for c in range(3)]
    lines += [[(i, i) for i in range(3)], [(i, 2 - i) for i in range(3)]]
    free = [cell for cell, mark in cells.items() if mark == "."]
    for mark in "XO":
        for line in lines:
            marks = [cells[cell] for cell in line]
            if marks.count(mark) == 2 and "." in marks:
                r, c = line[marks.index(".")]
                return f"{r + 1} {c + 1}"
    r, c = (1, 1) if (1, 1) in free else free[0]
    return f"{r + 1} {c + 1}"
