"""A suite of Gymnasium environments as it is published, Minigrid, played in words through ``rlvr/Gymnasium-v0``."""

from __future__ import annotations

import importlib.util
import pickle
import random
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import rlvr
from rlvr.envs import TextEnv

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(importlib.util.find_spec("minigrid") is None, reason="Minigrid is not installed"),
]
ACTIONS = ["left", "right", "forward", "pickup", "drop", "toggle", "done"]
FACING = ("right", "down", "left", "up")


def in_words(observation, info):
    """The mission, and what the agent sees: a letter for each kind of thing, the agent at the bottom in the middle."""
    letters = " .#fdkbBgLA"  # unseen, empty, wall, floor, door, key, ball, box, goal, lava, agent
    image = observation["image"][:, :, 0]
    rows = ["".join(letters[image[x, y]] for x in range(image.shape[0])) for y in range(image.shape[1])]
    return f"Mission: {observation['mission']}. You face {FACING[observation['direction']]}.\n" + "\n".join(rows)


def make(name: str, **settings) -> TextEnv:
    env = gym.make(
        "rlvr/Gymnasium-v0",
        env=f"minigrid:MiniGrid-{name}-v0",
        to_text=in_words,
        actions=ACTIONS,
        success=0.05,  # it pays from 0.1 to 1 for the goal, by the steps taken, and 0 for all else
        **settings,
    ).unwrapped
    assert isinstance(env, TextEnv)
    return env


def test_the_goal_of_an_empty_room_is_reached_and_pays_one():
    env = make("Empty-5x5", split=None)
    for seed in range(3):
        observation, _ = env.reset(seed=seed)
        assert "Mission: get to the green goal square. You face right." in observation
        for action in ("forward", "forward", "right", "forward", "forward"):
            _, reward, terminated, truncated, info = env.step(f"\\boxed{{{action}}}")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        assert 0.9 < info["verdict"].parts["its own return"] < 1.0, (
            "its own, which shrinks with each step, is told beside"
        )


@pytest.mark.parametrize("name", ["DoorKey-6x6", "LavaCrossingS9N1", "Fetch-5x5-N2", "MultiRoom-N2-S4"])
def test_rooms_are_the_same_for_the_same_seed_and_go_on_after_a_pickle(name):
    env, other = make(name, split=None), make(name, split=None)
    rooms = set()
    for seed in range(6):
        rooms.add(env.reset(seed=seed)[0])
        rng = random.Random(seed)
        actions = [f"\\boxed{{{rng.choice(ACTIONS[:-1])}}}" for _ in range(25)]
        steps = rlvr.replay(env, seed, actions)
        assert repr(rlvr.replay(other, seed, actions)) == repr(steps)
        env.reset(seed=seed)
        for place, action in enumerate(actions[: len(steps) - 1]):
            if place % 8 == 0:
                assert repr(pickle.loads(pickle.dumps(env)).step(action)) == repr(steps[place + 1])
            assert env.step(action)[4]["verdict"].valid
    assert len(rooms) > 1


def test_the_contract_splits_and_limits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make("Empty-5x5"))
    env = make("DoorKey-5x5", settings={"max_steps": 6})
    env.reset(seed=0)
    for _ in range(6):
        _, reward, terminated, truncated, info = env.step("\\boxed{left}")
    assert (reward, terminated or truncated, info["success"]) == (0.0, True, False)
    contents: dict[str, set[str]] = {"train": set(), "test": set()}
    for split, found in contents.items():
        for seed in range(5):
            env.reset(seed=seed, options={"split": split})
            found.add(env.content)
    assert not contents["train"] & contents["test"]
