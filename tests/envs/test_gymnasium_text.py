"""Any Gymnasium environment in words: verdicts, seeds, restore, and what must be told of it."""

from __future__ import annotations

import pickle
import random
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.bridges.bridged_task import NoAction, choice, clean_action

TAXI = ["south", "north", "east", "west", "pick up", "drop off"]
LAKE = {"env": "FrozenLake-v1", "actions": ["left", "down", "right", "up"], "success": 1.0}


def make(**settings) -> TextEnv:
    env = gym.make("rlvr/Gymnasium-v0", **{"split": None, **settings}).unwrapped
    assert isinstance(env, TextEnv)
    return env


class Riddle(gym.Env):
    """Texts in and out: a number drawn from the environment's own generator, echoed words, and three turns."""

    observation_space = gym.spaces.Text(1_000, charset="".join(map(chr, range(32, 127))))
    action_space = gym.spaces.Text(20, charset="0123456789")

    def __init__(self, most: int = 9, reward: float = 1.0, drawn: str = "own") -> None:
        self.most, self.reward, self.drawn = most, reward, drawn

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        generator = {"own": self.np_random, "numpy": np.random, "python": random, "none": random.Random()}[self.drawn]
        draw = generator.integers if self.drawn == "own" else generator.randint
        self.number = int(draw(0, self.most + (self.drawn in ("own", "numpy"))))
        self.left = 3
        return f"a number to {self.most}", {}

    def step(self, action):
        self.left -= 1
        if action == "99":
            raise OSError("on purpose")
        right = int(action) == self.number
        return f"{action} it was not; hint {self.number % 3}", self.reward * right, right, self.left == 0, {}


def as_words(observation, info):
    return f"state {observation}"


def as_number(text):
    if not text.isdigit():
        raise ValueError(f"say a number, not {text!r}")
    return int(text)


def not_lost(total, terminated, info):
    return terminated and total >= 0


def live_of(env: TextEnv):
    """The foreign environment behind an episode."""
    return env.task._live._idle[env._state.live.number][1]


def shortest_taxi(env: TextEnv) -> list[str]:
    """The way that Taxi's own table of transitions shows."""
    live = live_of(env)
    inner = live.unwrapped
    start = int(inner.s)
    came, waiting = {start: None}, [start]
    for state in waiting:
        for action, ((_, after, reward, done),) in inner.P[state].items():
            if done and reward == 20:
                path = [action]
                while came[state] is not None:
                    action, state = came[state]
                    path.append(action)
                return [TAXI[action] for action in path[::-1]]
            if after not in came:
                came[after] = (action, state)
                waiting.append(after)
    raise AssertionError("no way")


def test_taxi_is_played_in_words_and_won():
    env = make(env="Taxi-v4", actions=TAXI, success=1.0)
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        assert observation.endswith("Actions: south, north, east, west, pick up, drop off")
        assert "\x1b" not in observation
        assert info["system"]
        actions = shortest_taxi(env)
        for action in actions:
            _, reward, terminated, truncated, info = env.step(f"I go \\boxed{{{action.upper()}}}")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        assert info["verdict"].parts["its own return"] == 21 - len(actions)


def test_words_that_name_no_action_cost_a_turn_and_change_nothing():
    env = make(**LAKE, settings={"is_slippery": False, "map_name": "4x4"})
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("\\boxed{jump}")
    assert (reward, terminated, truncated, info["turn"]) == (0.0, False, False, 1)
    assert "'jump' is no action; there are: left, down, right, up" in observation
    for action in ("down", "down", "right", "right", "down", "right"):
        _, reward, terminated, _, info = env.step(f"\\boxed{{{action}}}")
    assert (reward, terminated, info["turn"]) == (1.0, True, 7)


def test_a_limit_truncates_and_a_lost_game_terminates():
    env = make(**LAKE, settings={"is_slippery": False, "max_episode_steps": 3})
    env.reset(seed=0)
    for _ in range(3):
        _, reward, terminated, truncated, info = env.step("\\boxed{left}")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    env.reset(seed=0)
    for action in ("down", "right"):
        _, reward, terminated, truncated, info = env.step(f"\\boxed{{{action}}}")
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)


def test_own_rewards_are_passed_on_where_that_is_asked_for():
    env = make(env="CliffWalking-v1", actions=["up", "right", "down", "left"], success=-13.0, reward="return")
    env.reset(seed=0)
    path = ["up", *["right"] * 11, "down"]
    rewards = []
    for action in path:
        _, reward, terminated, _, info = env.step(f"\\boxed{{{action}}}")
        rewards.append(reward)
    assert (rewards, terminated, info["success"]) == ([-1.0] * 13, True, True)


def test_a_text_environment_needs_to_be_told_nothing_but_success():
    env = make(env=Riddle, success=1.0)
    for seed in range(5):
        env.reset(seed=seed)
        live = live_of(env)
        assert env.step("\\boxed{10}")[1] == 0.0
        assert env.step(f"\\boxed{{{live.number}}}")[1] == 1.0
    env.reset(seed=0)
    observation = env.step("words")[0]
    assert "no action" in observation


@pytest.mark.parametrize("to_action", [as_number, "builtins:int"])
def test_functions_are_given_as_such_or_by_name(to_action):
    env = make(env="Blackjack-v1", to_text=as_words, to_action=to_action, success=not_lost)
    observation, _ = env.reset(seed=1)
    assert observation.startswith("state (")
    _, reward, terminated, _, info = env.step("\\boxed{0}")
    assert terminated
    assert reward == float(info["verdict"].parts["its own return"] >= 0)
    env.reset(seed=1)
    assert env.step("\\boxed{stick}")[4]["verdict"].status == "unparsable"


@pytest.mark.parametrize("drawn", ["own", "numpy", "python"])
def test_seeds_forks_snapshots_and_pickles_are_exact_and_nothing_global_is_touched(drawn):
    settings = {"env": Riddle, "settings": {"most": 10**6, "drawn": drawn}, "success": 1.0}
    before = random.getstate(), np.random.get_state()[1].tolist()
    env, other = make(**settings), make(**settings)
    for seed in range(3):
        env.reset(seed=seed)
        env.step("\\boxed{1}")
        state = pickle.loads(pickle.dumps(env.get_state()))
        twins = [env.fork(), pickle.loads(pickle.dumps(env)), other]
        other.reset(seed=77)
        other.set_state(state)
        ahead = repr([env.step(f"\\boxed{{{number}}}") for number in (5, 7)])
        for twin in twins:
            assert repr([twin.step(f"\\boxed{{{number}}}") for number in (5, 7)]) == ahead
        steps = [rlvr.replay(each, seed, ["\\boxed{3}", "?", "\\boxed{4}"]) for each in (env, other)]
        assert repr(steps[0]) == repr(steps[1])
    env.close()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_an_environment_that_does_not_repeat_itself_is_told_apart():
    env = make(env=Riddle, settings={"most": 10**6, "drawn": "none"}, success=1.0)
    env.reset(seed=0)
    env.step("\\boxed{1}")
    seen = set()
    for _ in range(40):  # the hint is one of three: what differs is never held against the policy
        verdict = pickle.loads(pickle.dumps(env)).step("\\boxed{2}")[4]["verdict"]
        seen.add(verdict.status)
        assert verdict.status != "env_error" or "does not repeat itself" in verdict.reason
    assert seen == {"partial", "env_error"}


@pytest.mark.parametrize(
    ("settings", "action", "status", "reason"),
    [
        ({}, "99", "wrong", "OSError: on purpose"),  # no other number does
        ({"reward": float("nan")}, "1", "env_error", "the reward was nan"),
    ],
)
def test_what_fails_there_is_an_invalid_verdict_unless_the_action_alone_makes_it_fail(settings, action, status, reason):
    env = make(env=Riddle, settings=settings, success=1.0)
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(f"\\boxed{{{action}}}")
    assert (reward, terminated, info["verdict"].status) == (0.0, True, status)
    assert reason in info["verdict"].reason
    env.reset(seed=1)  # and the next episode is another


def test_it_keeps_to_gymnasiums_contract_splits_and_levels():
    levels = [{"is_slippery": False, "map_name": size} for size in ("4x4", "8x8")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(**LAKE, settings=levels))
    env = make(**LAKE, settings=levels, split="train", level=2)
    assert env.task.levels == 2
    assert len(re.findall(r"[SFHG]{8}", env.reset(seed=0)[0])) == 8
    contents = {split: set() for split in env.task.splits}
    for split, found in contents.items():
        for seed in range(20):
            env.reset(seed=seed, options={"split": split})
            found.add(env.content)
    assert not contents["train"] & contents["test"]


@pytest.mark.parametrize("text", ["", "a" * 100_000, "\ud800", "\\boxed{" * 10_000, "\x00", "٣", "-1", "9" * 5_000])
def test_hostile_words_are_no_action(text):
    env = make(**LAKE, settings={"max_episode_steps": 2})
    env.reset(seed=0)
    observation, reward, _, _, info = env.step(text)
    assert reward == 0.0
    assert info["verdict"].valid
    assert len(observation) < 2_000
    assert len(clean_action(text)) <= 10_000


def test_choices():
    assert [choice(action_text, None, 3, 5) for action_text in ("5", "7")] == [5, 7]
    assert choice(" Pick   UP ", TAXI, 6) == 4
    for action_text in ("4", "8", "five", ""):
        with pytest.raises(NoAction, match="5 to 7"):
            choice(action_text, None, 3, 5)
    with pytest.raises(NoAction, match="pick up"):
        choice("4", TAXI, 6)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"env": "Taxi-v4", "success": 1, "actions": ["a", "b"]}, "2 names of actions"),
        ({"env": "CartPole-v1", "success": 1}, "become text: to_text"),
        ({"env": "Pendulum-v1", "success": 1, "to_text": as_words}, "words become actions"),
        ({"env": Riddle}, "what counts as done"),
        ({"env": Riddle, "success": 1, "reward": "both"}, "reward must be success or return"),
        ({"env": Riddle, "success": "no.such:thing"}, "names no function"),
        ({"env": "Taxi-v4", "success": 1, "to_text": "json:nothing"}, "names no function"),
    ],
)
def test_what_must_be_told_is_asked_for(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        make(**settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"env": Riddle, "mist": 3}, "Riddle cannot be made: got an unexpected keyword argument 'mist'"),
        ({"env": lambda words: Riddle()}, "cannot be made: missing a required argument: 'words'"),
    ],
)
def test_an_argument_that_is_none_or_lacks_is_named(settings, complaint):
    with pytest.raises(TypeError, match=complaint):
        make(**settings)


def test_what_is_kept_is_bounded_and_let_go():
    env = make(**LAKE, settings={"is_slippery": False})
    for seed in range(400):
        env.reset(seed=seed)
        env.step("\\boxed{left}")
    assert len(env.task._live) <= 256
    env.close()
    assert not env.task._live


def test_the_members_of_a_group_each_have_their_own():
    made = []

    def counted(**settings):
        made.append(Riddle(**settings))
        return made[-1]

    env = make(env=counted, settings={"most": 10**6}, success=1.0)
    group = [env, env.spawn(), env.spawn()]
    before = len(made)
    for member in group:
        member.reset(seed=3)
    for number in (1, 2):
        steps = [member.step(f"\\boxed{{{number}}}")[0] for member in group]
        assert len(set(steps)) == 1
    assert len(made) - before == 3, "none had to be played again"


def test_rows_and_processes_carry_it():
    from rlvr.adapters import read_spec, rows
    from rlvr.envs.vector import VectorEnv

    settings = {**LAKE, "settings": {"is_slippery": False}}
    (row,) = rows("rlvr/Gymnasium-v0", 1, kwargs=settings)
    _, observation, _ = read_spec(row).start()
    assert row["prompt"][-1]["content"] == observation
    with VectorEnv("rlvr/Gymnasium-v0", 2, backend="process", workers=1, env_settings=settings) as vector:
        vector.reset(seed=0)
        for action in ("down", "down", "right", "right", "down", "right"):
            _, rewards, terminations, _, _ = vector.step([f"\\boxed{{{action}}}"] * 2)
    assert rewards.tolist() == [1.0, 1.0]
    assert terminations.all()


class Urn(gym.Env):
    """An environment that does not repeat itself from a seed: what is drawn is nobody else's, and the text is the same
    until it is asked for."""

    observation_space = gym.spaces.Text(1_000, charset="".join(map(chr, range(32, 127))))
    action_space = gym.spaces.Text(20, charset="".join(map(chr, range(97, 123))))
    numbers = staticmethod(lambda: random.SystemRandom().getrandbits(60))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = 0
        return "an urn", {}

    def step(self, action):
        if action == "draw":
            self.number = self.numbers()
        return {"draw": "drawn", "silent": "nothing"}.get(action, str(self.number)), 0.0, False, False, {}


class SameUrn(Urn):
    numbers = staticmethod(lambda: 7)


def drawn(urn: type[gym.Env], count: int = 1) -> list[TextEnv]:
    first = make(env=urn, success=1.0)
    group = [first, *(first.spawn() for _ in range(count - 1))]
    for member in group:
        member.reset(seed=3)
        member.step("\\boxed{draw}")
    return group


def test_no_value_crosses_in_a_group_whose_steps_look_alike():
    group = drawn(Urn, 8)
    seen = [member.step("\\boxed{tell}")[0] for member in group]
    assert len(set(seen)) == 8
    for order in (group, group[::-1], group[::-1]):
        assert {id(member): member.step("\\boxed{tell}")[0] for member in order} == dict(
            zip(map(id, group), seen, strict=True)
        )


@pytest.mark.parametrize("way", ["fork", "restored", "pickled"])
def test_a_second_instance_of_what_does_not_repeat_itself_says_so(way):
    (env,) = drawn(Urn)
    number = env.step("\\boxed{tell}")[0]
    env.step("\\boxed{silent}")  # what the last text is does not tell that the numbers differ
    other = {"fork": env.fork, "restored": env.spawn, "pickled": lambda: pickle.loads(pickle.dumps(env))}[way]()
    if way == "restored":
        other.set_state(env.get_state())
    _, _, over, _, info = other.step("\\boxed{tell}")
    assert (over, info["verdict"].status, info["verdict"].valid) == (True, "env_error", False)
    assert "does not repeat itself" in info["verdict"].reason
    assert env.step("\\boxed{tell}")[0] == number


def test_a_second_instance_of_what_repeats_itself_goes_on():
    (env,) = drawn(SameUrn)
    assert env.fork().step("\\boxed{tell}")[0] == env.step("\\boxed{tell}")[0] == "7"
