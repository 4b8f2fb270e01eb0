"""VectorEnv: what an environment does is the same behind every back end, and nobody suffers for another."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import importlib
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from hypothesis import assume, given
from hypothesis import strategies as st

import rlvr
from rlvr.envs import TextEnv
from rlvr.envs.games.guess_number import GuessNumber
from rlvr.envs.vector import Infos, VectorEnv

from ..children import start
from ..needs import needs_linux

sys.path.insert(0, str(Path(__file__).parent))  # worker processes look where this process looks
vector_envs = importlib.import_module("vector_envs")
Puppet, Awaited, AllAwaited, Walk = vector_envs.Puppet, vector_envs.Awaited, vector_envs.AllAwaited, vector_envs.Walk

BACKENDS = ("sync", "thread", "process", "asyncio")
WAITING = ("thread", "process", "asyncio")  # those that can give up
MODES = tuple(AutoresetMode)
PATIENCE = 2.0  # seconds; far more than an innocent step takes on a busy machine


@pytest.fixture
def build():
    """Makes vector environments, and closes them."""
    made = []

    def construct(env=Puppet, num_envs=4, **settings):
        if settings.get("backend") == "process":
            settings.setdefault("workers", 2)
        made.append(VectorEnv(env, num_envs, **settings))
        return made[-1]

    yield construct
    for vector in made:
        vector.close()


@pytest.fixture
def hang(tmp_path):
    """An action that does not return before the test is over."""
    gate = tmp_path / "the end"
    yield f"wait {gate}"
    gate.touch()


def rows(infos: dict, count: int) -> list[dict]:
    """The info of each environment, from Gymnasium's layout."""
    single = [{} for _ in range(count)]
    for key, column in infos.items():
        if key.startswith("_"):
            continue
        parts = rows(column, count) if isinstance(column, dict) else column
        for index in range(count):
            if infos[f"_{key}"][index]:
                single[index][key] = parts[index]
    return single


def step_info(turn: int, action: str) -> dict:
    """The info of a puppet's step."""
    return {"turn": turn, "action": action, "value": turn, "error": None}


class ByHand:
    """Single environments, stepped one at a time as Gymnasium says that a vector environment steps them."""

    def __init__(self, make, count, mode):
        self.envs, self.mode, self.over = [make() for _ in range(count)], mode, [False] * count

    def reset(self, seeds, options=None):
        self.over = [False] * len(self.envs)
        return [env.reset(seed=seed, options=options) for env, seed in zip(self.envs, seeds, strict=True)]

    def step(self, actions):
        return [self.one(index, action) for index, action in enumerate(actions)]

    def one(self, index, action):
        env = self.envs[index]
        if self.over[index] and self.mode is AutoresetMode.NEXT_STEP:
            self.over[index] = False
            observation, info = env.reset()
            return observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = env.step(action)
        self.over[index] = terminated or truncated
        if self.over[index] and self.mode is AutoresetMode.SAME_STEP:
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
            info = (
                final
                | info
                | {key: final["final_info"][key] for key in ("verdict", "success") if key in final["final_info"]}
            )
        return observation, reward, terminated, truncated, info


def same(steps, outcomes) -> None:
    """A vector step is these single outcomes."""
    observations, rewards, terminations, truncations, infos = steps
    assert list(observations) == [outcome[0] for outcome in outcomes]
    assert rewards.tolist() == [outcome[1] for outcome in outcomes]
    assert terminations.tolist() == [outcome[2] for outcome in outcomes]
    assert truncations.tolist() == [outcome[3] for outcome in outcomes]
    assert rows(infos, len(outcomes)) == [outcome[4] for outcome in outcomes]


def equal(ours, theirs) -> None:
    """Equal in value, type and layout, through dicts and arrays."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict)
        assert list(ours) == list(theirs) or set(ours) == set(theirs)
        for key in theirs:
            equal(ours[key], theirs[key])
    elif isinstance(theirs, np.ndarray) and theirs.dtype != object:
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    elif isinstance(theirs, np.ndarray | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            equal(one, other)
    else:
        assert type(ours) is type(theirs)
        assert ours == theirs


# the Gymnasium contract


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_plays_as_single_environments_do(build, backend, mode):
    vector = build("rlvr/GuessNumber-v0", 5, backend=backend, autoreset_mode=mode, env_settings={"level": 2})
    single = ByHand(functools.partial(gym.make, "rlvr/GuessNumber-v0", level=2), 5, mode)
    assert vector.metadata["autoreset_mode"] is mode
    observations, infos = vector.reset(seed=11)
    expected = single.reset(range(11, 16))
    assert [(o, i) for o, i in zip(observations, rows(infos, 5), strict=True)] == expected
    rng = random.Random(0)
    for _ in range(14):
        actions = [
            env.unwrapped.solve() if not over and rng.random() < 0.6 else "\\boxed{5}"
            for env, over in zip(single.envs, single.over, strict=True)
        ]
        same(vector.step(actions), single.step(actions))
        if mode is AutoresetMode.DISABLED and any(single.over):
            mask = np.array(single.over)
            observations, infos = vector.reset(options={"reset_mask": mask})
            for index in np.flatnonzero(mask):
                assert (observations[index], rows(infos, 5)[index]) == single.envs[index].reset()
            single.over = [False] * 5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_says_what_gymnasiums_own_vector_environment_says(build, backend, mode):
    vector, reference = (
        build(Walk, 4, backend=backend, autoreset_mode=mode),
        SyncVectorEnv([Walk] * 4, autoreset_mode=mode),
    )
    assert vector.observation_space == reference.observation_space
    assert vector.action_space == reference.action_space
    assert vector.single_observation_space == reference.single_observation_space
    assert vector.single_action_space == reference.single_action_space
    equal(vector.reset(seed=3, options={"bias": 2}), reference.reset(seed=3, options={"bias": 2}))
    rng = np.random.default_rng(0)
    for _ in range(12):
        actions = rng.integers(3, size=4)
        ours, theirs = vector.step(actions), reference.step(actions)
        equal(ours, theirs)
        over = theirs[2] | theirs[3]
        if mode is AutoresetMode.DISABLED and over.any():
            seeds = [None, 7, None, 8]
            equal(
                vector.reset(seed=seeds, options={"reset_mask": over}),
                reference.reset(seed=seeds, options={"reset_mask": over.copy()}),
            )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("env_id", ["rlvr/GuessNumber-v0", "rlvr/Countdown-v0", "rlvr/Calculator-v0"])
def test_make_vec_makes_it(env_id, backend):
    vector = gym.make_vec(env_id, num_envs=3, vectorization_mode="vector_entry_point", backend=backend)
    assert isinstance(vector, VectorEnv)
    try:
        observations, infos = vector.reset(seed=5)
        single = gym.make(env_id)
        assert [single.reset(seed=seed)[0] for seed in (5, 6, 7)] == list(observations)
        assert list(infos["env_id"]) == [env_id] * 3
        assert observations in vector.observation_space
        solved = vector.call("solve")
        assert solved in vector.action_space
        vector.step(solved)
        assert repr(gym.make_vec(vector.spec)) == repr(vector)
        assert vector.spec.to_json()
    finally:
        vector.close()


def test_is_what_make_vec_makes_when_nothing_else_is_said():
    with gym.make_vec("rlvr/Countdown-v0", num_envs=2, level=3, autoreset_mode="SameStep") as vector:
        assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
        assert vector.reset(seed=0)[1]["level"].tolist() == [3, 3]


@pytest.mark.parametrize("mode", MODES[:2])
def test_gymnasiums_vector_wrappers_work(build, mode):
    vector = DictInfoToList(RecordEpisodeStatistics(build("rlvr/Countdown-v0", 3, autoreset_mode=mode)))
    _, infos = vector.reset(seed=1)
    assert [info["seed"] for info in infos] == [1, 2, 3]
    infos = vector.step(vector.unwrapped.call("solve"))[4]
    assert [info["episode"]["r"] for info in infos] == [1.0] * 3


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "final_obs"]),
            st.one_of(
                st.just(True),
                st.just("text"),
                st.just(None),
                st.just((1, 2)),
                st.dictionaries(st.sampled_from(["c", "d"]), st.just("deep"), max_size=2),
            ),
            max_size=3,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_infos_are_laid_out_as_gymnasium_lays_them_out(given_rows):
    for key in ("a", "b"):  # Gymnasium takes one type for a key
        assume(len({type(row[key]) for row in given_rows if key in row}) < 2)
    base = gym.vector.VectorEnv()
    base.num_envs = len(given_rows)
    reference: dict = {}
    for index, row in enumerate(given_rows):
        reference = base._add_info(reference, row, index)
    equal(Infos(given_rows), reference)


def test_infos_gather_what_is_read_and_behave_as_a_dict():
    infos = Infos([{"a": 1, "b": {"c": "x"}}, None, {"a": 2, "d": 2**70, "e": 1.5}, {"e": 1}])
    assert infos["a"].tolist() == [1, 0, 2, 0]
    assert infos["_a"].tolist() == [True, False, True, False]
    assert dict.__len__(infos) == 2, "only what was read is gathered"
    assert "b" in infos
    assert "z" not in infos
    assert infos.get("z") is None
    with pytest.raises(KeyError, match="z"):
        infos["z"]
    assert infos["d"].tolist() == [None, None, 2**70, None], "more than 64 bits"
    assert infos["e"].tolist() == [None, None, 1.5, 1], "of two types: neither is cut"
    assert len(infos) == 8
    assert list(infos) == list({**infos}) == list(dict(infos)) == list(infos.keys())
    assert type(copy.deepcopy(infos)) is dict
    assert type(pickle.loads(pickle.dumps(infos))["b"]) is dict
    del infos["a"]
    assert "a" not in infos
    infos["mine"] = 1
    assert infos.pop("mine") == 1
    assert not Infos([{}, None])


@pytest.mark.parametrize("backend", BACKENDS)
def test_methods_and_attributes_of_the_environments(build, backend):
    vector = build(functools.partial(Puppet, render_mode="ansi"), 3, backend=backend)
    vector.reset(seed=4)
    assert vector.render_mode == "ansi"
    assert vector.render() == tuple(f"seed {seed} episode 1 turn 0" for seed in (4, 5, 6))
    assert vector.call("who", "I am") == ("I am 4", "I am 5", "I am 6")
    assert vector.get_attr("turn") == (0, 0, 0)
    vector.set_attr("turn", [1, 2, 3])
    assert vector.get_attr("turn") == (1, 2, 3)
    vector.set_attr("turn", 9)
    assert vector.get_attr("turn") == (9, 9, 9)
    with pytest.raises(LookupError, match="nobody"):
        vector.call("who", "raise")
    with pytest.raises(AttributeError):
        vector.get_attr("nothing")
    with pytest.raises(ValueError, match="3 environments need one value each, got 2"):
        vector.set_attr("turn", [1, 2])
    same(
        vector.step(["go"] * 3),
        [(f"seed {s} episode 1 turn 10", 10.0, False, False, step_info(10, "go")) for s in (4, 5, 6)],
    )
    assert (os.getpid() in vector.call("pid")) == (backend != "process")


# seeds, groups, options


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_group_has_one_task_and_its_next_episodes_are_equal_too(build, backend):
    vector = build("rlvr/GuessNumber-v0", 6, backend=backend, autoreset_mode="SameStep")
    for how in ({"group_size": 3}, {"options": {"group_size": 3}}):
        vector.reset(seed=20, **how)
        for _ in range(3):
            contents = vector.call("content")
            assert contents[:3] == contents[:1] * 3
            assert contents[3:] == contents[3:4] * 3
            assert contents[0] != contents[3]
            vector.step(vector.call("solve"))
            while not np.all(vector.get_attr("_turn")[0] == 0):
                vector.step(vector.call("solve"))
        assert vector.reset(seed=20, group_size=3)[1]["seed"].tolist() == [20] * 3 + [21] * 3
    assert vector.reset(seed=[8, 9], group_size=3)[1]["seed"].tolist() == [8] * 3 + [9] * 3
    drawn = vector.reset(group_size=2)[1]["seed"].tolist()
    assert drawn[::2] == drawn[1::2]
    assert len(set(drawn)) == 3


def test_seeds_and_options_reach_whom_they_are_for(build):
    vector = build(Puppet, 4)
    assert vector.reset(seed=5)[1]["seed"].tolist() == [5, 6, 7, 8]
    assert vector.reset(seed=[1, None, np.int64(3), 4])[1]["seed"].tolist() == [1, 6, 3, 4]
    told = vector.reset(options=[{"told": "a"}, None, {"told": "c"}, {}])[1]["told"]
    assert told.tolist() == ["a", None, "c", None]
    observations, infos = vector.reset(seed=50, ids=[2, 0])
    assert observations == ("seed 52 episode 1 turn 0", "seed 50 episode 1 turn 0")
    assert infos["seed"].tolist() == [52, 50]
    mask = np.array([False, True, False, True])
    observations, infos = vector.reset(seed=70, options={"reset_mask": mask, "told": "again"})
    assert [said.split()[1] for said in observations] == ["50", "71", "52", "73"]
    assert infos["_seed"].tolist() == mask.tolist()
    assert infos["told"].tolist() == [None, "again", None, "again"]


# what goes wrong in one environment


def story(vector: VectorEnv, bad: str) -> list:
    """All that is to be seen when environment 1 goes wrong in the middle of its episode, and after."""
    seen = [vector.reset(seed=30)[0]]
    for actions in (["a"] * 4, ["b", bad, "b", "end"], ["c"] * 4, ["d"] * 4):
        observations, rewards, terminations, truncations, infos = vector.step(actions)
        seen.append((observations, rewards.tolist(), terminations.tolist(), truncations.tolist(), rows(infos, 4)))
    return seen


@functools.cache
def seen_by_sync(bad: str, mode: AutoresetMode) -> str:
    with VectorEnv(Puppet, 4, autoreset_mode=mode) as vector:
        return repr(story(vector, bad))


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", ["raise", "exit", "stop", "three", "no info", "no text", "nan", "word"])
def test_one_that_goes_wrong_ends_alone(build, bad, backend, mode):
    vector = build(backend=backend, autoreset_mode=mode)
    seen = story(vector, bad)
    assert repr(seen) == seen_by_sync(bad, mode), "the back end makes no difference"
    observations, rewards, terminations, truncations, infos = seen[2]
    final = infos[1].get("final_info", infos[1])
    assert final["verdict"].status == "env_error"
    assert not final["verdict"].valid
    assert not final["success"]
    assert (rewards[1], terminations[1], truncations[1]) == (0.0, False, True)
    assert infos[1].get("final_obs", observations[1]) == final["verdict"].reason
    assert final["verdict"].reason.startswith("step: ")
    for index in (0, 2):
        assert [part[0][index] for part in seen[1:]] == [f"seed {30 + index} episode 1 turn {n}" for n in (1, 2, 3, 4)]
    after = seen[3][0][1] if mode is AutoresetMode.NEXT_STEP else observations[1]
    assert after.endswith("episode 1 turn 0"), "another one took its place"
    assert "seed 31 " not in after


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reset_that_fails_is_the_failure_of_one(build, backend):
    vector = build(backend=backend)
    options = [None, {"act": "raise"}, None, {"act": "exit"}]
    observations, infos = vector.reset(seed=1, options=options)
    assert [said.startswith("reset: ") for said in observations] == [False, True, False, True]
    assert [verdict and verdict.status for verdict in infos["verdict"]] == [None, "env_error", None, "env_error"]
    observations = vector.step(["go"] * 4)[0]
    assert [said.split()[-1] for said in observations] == ["1", "0", "1", "0"]
    with pytest.raises(
        gym.error.Error, match="none of 4 environments could be reset: reset: RuntimeError: as I was told"
    ):
        vector.reset(options={"act": "raise"})
    assert vector.reset(seed=2, ids=[1], options={"act": "raise"})[0] == ("reset: RuntimeError: as I was told",)
    assert len(vector.reset(seed=2)[0]) == 4


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_next_episode_that_cannot_begin_keeps_how_the_last_ended(build, mode):
    class Once(Puppet):
        def reset(self, *, seed=None, options=None):
            if self.episode == 1:
                raise OSError("gone")
            return super().reset(seed=seed, options=options)

    vector = build(Once, 2, autoreset_mode=mode)
    vector.reset(seed=1)
    observations, rewards, terminations, _, infos = vector.step(["end", "go"])
    assert terminations.tolist() == [True, False]
    assert rewards[0] == 1.0
    if mode is AutoresetMode.NEXT_STEP:
        observations, _, _, truncations, infos = vector.step(["go", "go"])
        assert truncations.tolist() == [True, False]
    else:
        assert infos["final_obs"][0] == "seed 1 episode 1 turn 1"
        assert infos["final_info"]["turn"][0] == 1
    assert infos["verdict"][0].status == "env_error"
    assert observations[0] == "reset: OSError: gone"
    observations, rewards, _, truncations, _ = vector.step(["go", "go"])
    assert (observations[0][-16:], rewards[0], truncations[0]) == ("episode 1 turn 0", 0.0, False)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_observation_of_the_wrong_shape_is_the_failure_of_one(build, backend):
    vector = build(vector_envs.Crooked, 3, backend=backend)
    vector.reset(seed=0)
    observations, _, _, truncations, infos = vector.step([0, 2, 1])
    assert truncations[1]
    assert observations[1].tolist() == [0.0, 0.0]
    assert [verdict and verdict.status for verdict in infos["verdict"]] == [None, "env_error", None]


def test_what_cannot_be_sent_to_another_process_is_the_failure_of_one(build):
    vector = build(backend="process")
    vector.reset(seed=0)
    observations, _, _, truncations, _ = vector.step(["a", "unpicklable", "a", "a"])
    assert truncations.tolist() == [False, True, False, False]
    assert "cannot be sent to another process" in observations[1]
    assert vector.step(["a"] * 4)[0][1] == "seed 1 episode 2 turn 0"
    vector.step(["a"] * 4)


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_killed_worker_is_replaced(build, mode):
    vector = build(Puppet, 6, backend="process", workers=3, autoreset_mode=mode)  # 0 and 3, 1 and 4, 2 and 5
    vector.reset(seed=0)
    vector.step(["a"] * 6)
    before = vector.call("pid")
    seen = [vector.step(["b", "die", "b", "b", "b", "b"])]
    infos = rows(seen[0][4], 6)
    assert [(info.get("final_info") or info).get("verdict") is not None for info in infos] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    ended = [(infos[index].get("final_info") or infos[index])["verdict"].status for index in (1, 4)]
    assert ended == ["wrong", "env_error"]  # whose action it was, and who shared its process
    assert (seen[0][2] | seen[0][3]).tolist() == [False, True, False, False, True, False]
    observations = vector.step(["c"] * 6)[0]
    for index in (0, 2, 3, 5):
        assert observations[index] == f"seed {index} episode 1 turn 3"
    after = vector.call("pid")
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True, True, False, True]
    assert vector.reset(seed=0)[0] == tuple(f"seed {index} episode 1 turn 0" for index in range(6))


def test_a_worker_killed_from_outside_while_nobody_looked_is_noticed(build):
    vector = build(Puppet, 2, backend="process")
    vector.reset(seed=0)
    vector.step(["a", "a"])
    os.kill(vector.call("pid")[0], 9)
    observations, _, _, truncations, infos = vector.step(["b", "b"])
    assert truncations.tolist() == [True, False]
    assert infos["verdict"][0].status == "env_error"
    assert observations[1] == "seed 1 episode 1 turn 2"
    os.kill(vector.call("pid")[1], 9)
    while not vector._backend._workers[1].has_ended():
        time.sleep(0.001)
    assert vector.reset(seed=3)[0][1] == "seed 4 episode 1 turn 0", "a reset has nothing to lose"


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("which", ["supervisor", "fork server"])
def test_a_killed_fork_server_is_replaced(build, which):
    vector = build(Puppet, 2, backend="process", autoreset_mode="Disabled")
    vector.reset(seed=0)
    pids = vector.call("pid")
    supervisor = vector._backend._fork_server._process
    os.kill(supervisor.pid if which == "supervisor" else vector.call("parent")[0], signal.SIGKILL)
    supervisor.wait(60)
    while any(alive(pid) for pid in pids):
        time.sleep(0.001)
    _, rewards, _, truncations, infos = vector.step(["a", "a"])
    assert (rewards.tolist(), truncations.tolist()) == ([0.0, 0.0], [True, True])
    assert {verdict.status for verdict in infos["verdict"]} == {"env_error"}
    assert vector.reset(seed=0)[0][0] == "seed 0 episode 1 turn 0"
    assert vector.step(["b", "b"])[0][1] == "seed 1 episode 1 turn 1"


@needs_linux
def test_fork_servers_that_are_killed_one_after_the_other_are_replaced(build, monkeypatch):
    vector = build(Puppet, 2, backend="process", autoreset_mode="Disabled")
    vector.reset(seed=0)
    server, killed = vector._backend._fork_server, []
    start = server._start

    def start_and_be_killed():
        start()
        if len(killed) < 3:
            killed.append(server._process)
            server._process.kill()
            server._process.wait(60)

    monkeypatch.setattr(server, "_start", start_and_be_killed)
    pids = vector.call("pid")
    server._process.kill()
    server._process.wait(60)
    while any(alive(pid) for pid in pids):
        time.sleep(0.001)
    assert {verdict.status for verdict in vector.step(["a", "a"])[4]["verdict"]} == {"env_error"}
    assert vector.reset(seed=0)[0][0] == "seed 0 episode 1 turn 0"
    assert len(killed) == 3


def test_what_ctrl_c_interrupted_can_still_be_received(build):
    vector = build(Puppet, 3)
    vector.reset(seed=0)
    vector.set_attr("act", [Puppet().act, interrupted, Puppet().act])
    with pytest.raises(KeyboardInterrupt):
        vector.step(["a", "b", "c"], ids=[0, 1, 2])
    assert vector.in_flight == 3
    vector._backend._slots[1].env.act = Puppet().act
    steps = vector.recv(min_ready=3)
    assert steps.ids.tolist() == [0, 1, 2]
    for index in (0, 2):  # neither was played twice; the other one was interrupted in its turn
        assert steps.observations[index] == f"seed {index} episode 1 turn 1"


def interrupted(action):
    signal.raise_signal(signal.SIGINT)


def test_a_worker_that_dies_in_every_reset_does_not_keep_us_for_ever(build):
    vector = build(Puppet, 2, backend="process")
    vector.reset(seed=0)
    for _ in range(2):
        observations, infos = vector.reset(options=[{"act": "die"}, None])
        assert infos["verdict"][0].status == "env_error"
        assert "its process died" in observations[0]


def test_what_a_worker_cannot_import_is_said(build, monkeypatch):
    module = types.ModuleType("only_here")
    double = "def double(x: int) -> int:\n    'Double a number.'\n    return 2 * x"
    exec(f"from vector_envs import Puppet\nclass Hidden(Puppet): pass\n{double}", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    for env, settings in ((module.Hidden, {}), ("rlvr/Countdown-v0", {"env_settings": {"tools": [module.double]}})):
        vector = build(env, 2, backend="process", **settings)
        for _ in range(2):
            with pytest.raises(gym.error.Error, match=r"cannot import only_here, .* PYTHONPATH, or use the thread"):
                vector.reset(seed=0)


# time limits


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize(
    ("backend", "env"), [("thread", Puppet), ("asyncio", Puppet), ("asyncio", Awaited), ("process", Puppet)]
)
def test_one_over_its_time_ends_alone(build, hang, backend, env, mode):
    vector = build(env, 4, backend=backend, timeout=PATIENCE, autoreset_mode=mode)
    vector.reset(seed=30)
    vector.step(["a"] * 4)
    observations, rewards, terminations, truncations, infos = vector.step(["b", hang, "b", "b"])
    final = rows(infos, 4)[1]
    final = final.get("final_info", final)
    provoked = env is not Awaited  # a coroutine is not played again, so nobody knows
    assert (final["verdict"].status, final["verdict"].valid) == ("wrong" if provoked else "timeout", provoked)
    assert final["verdict"].reason.endswith("step: no answer within 2 s")
    assert (rewards[1], terminations[1], truncations[1]) == (0.0, provoked, not provoked)
    assert [observations[index] for index in (0, 2, 3)] == [
        f"seed {30 + index} episode 1 turn 2" for index in (0, 2, 3)
    ]
    seen = observations[1] if mode is AutoresetMode.SAME_STEP else vector.step(["c"] * 4)[0][1]
    assert seen.endswith("episode 1 turn 0")
    turn = 3 if mode is AutoresetMode.SAME_STEP else 4
    assert [said.split()[-1] for said in vector.step(["c"] * 4)[0]] == [str(turn), "1", str(turn), str(turn)], (
        "the environment that shared its process goes on in the middle of its episode"
    )


def test_one_that_computes_without_end_is_killed_and_its_neighbours_are_brought_over(build):
    vector = build(Puppet, 3, backend="process", workers=1, timeout=PATIENCE)
    vector.reset(seed=0)
    pids = vector.call("pid")
    vector.send(["a", "spin", "b"])
    ready = vector.recv(min_ready=3)
    assert dict(zip(ready.ids.tolist(), ready.terminations.tolist(), strict=True)) == {0: False, 1: True, 2: False}
    assert vector.step(["c"] * 3)[0][::2] == ("seed 0 episode 1 turn 2", "seed 2 episode 1 turn 2")
    assert not set(pids) & set(vector.call("pid"))
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", WAITING)
def test_a_reset_has_a_time_limit_too(build, hang, backend):
    vector = build(Puppet, 2, backend=backend, timeout=PATIENCE)
    _, infos = vector.reset(seed=0, options=[{"act": hang}, None])
    assert [verdict and verdict.status for verdict in infos["verdict"]] == ["timeout", None]
    assert vector.step(["a", "a"])[0][0].endswith("turn 0")


def test_a_stuck_thread_is_left_alone_and_ends_by_itself(build, tmp_path):
    gate, closed = tmp_path / "gate", tmp_path / "closed"
    others = set(threading.enumerate())
    vector = build(Puppet, 2, backend="thread", workers=1, timeout=PATIENCE)
    vector.reset(seed=0)
    stuck = list(set(threading.enumerate()) - others)
    vector.call("note_close", closed)
    vector.send(["wait " + str(gate)], ids=[0])
    ready = vector.recv()
    assert rows(ready.infos, 1)[0]["verdict"].status == "wrong"
    assert all(thread.is_alive() for thread in stuck)
    assert len(stuck) == 1
    vector.call("who", "you")  # by another thread
    gate.touch()
    stuck[0].join(10)
    assert not stuck[0].is_alive()
    assert closed.exists(), "the environment was closed by the thread that was in it"
    assert vector.in_flight == 0, "what it returned at last went nowhere"


# without a barrier


def gates(folder: Path, count: int) -> list[Path]:
    return [folder / f"gate{index}" for index in range(count)]


@pytest.mark.parametrize(
    ("backend", "env"), [("thread", Puppet), ("process", Puppet), ("asyncio", Puppet), ("asyncio", Awaited)]
)
def test_whoever_is_ready_goes_on(build, tmp_path, backend, env):
    vector = build(env, 3, backend=backend, workers=3)
    gate = gates(tmp_path, 3)
    vector.reset(seed=0)
    vector.send([f"wait {path}" for path in gate])
    assert vector.in_flight == 3
    assert vector.recv(timeout=0.01).ids.tolist() == []
    gate[2].touch()
    ready = vector.recv()
    assert ready.ids.tolist() == [2]
    assert ready.observations == ("seed 2 episode 1 turn 1",)
    for turn in (2, 3):  # goes on while the others wait
        vector.send(["go"], ids=[2])
        ready = vector.recv()
        assert (ready.ids.tolist(), ready.rewards.tolist()) == ([2], [turn])
    gate[0].touch()
    assert vector.recv().ids.tolist() == [0]
    with pytest.raises(ValueError, match=r"environments \[1\] are under way: receive them first"):
        vector.send(["go", "go"], ids=[0, 1])
    with pytest.raises(ValueError, match="under way"):
        vector.step(["go"] * 3)
    same(
        vector.step(["go", "end"], ids=[2, 0]),
        [
            ("seed 2 episode 1 turn 4", 4.0, False, False, step_info(4, "go")),
            ("seed 0 episode 1 turn 2", 2.0, True, False, step_info(2, "end")),
        ],
    )
    vector.send_reset([0], seed=9)
    assert vector.recv().infos["seed"].tolist() == [9]
    gate[1].touch()
    assert vector.recv().ids.tolist() == [1]


def test_in_turn_is_ready_in_the_order_in_which_it_was_sent(build):
    vector = build(Puppet, 3)
    vector.send_reset(seed=0)
    assert vector.recv(min_ready=3).observations == tuple(f"seed {index} episode 1 turn 0" for index in range(3))
    vector.send(["a", "b"], ids=[2, 0])
    assert vector.recv().ids.tolist() == [2]
    vector.send(["c"], ids=[1])
    ready = vector.recv(min_ready=2)
    assert ready.ids.tolist() == [0, 1]
    assert ready.infos["action"].tolist() == ["b", "c"]
    assert pickle.loads(pickle.dumps(ready)).observations == ready.observations


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_order_of_work_does_not_change_what_is_done(build, backend):
    vector = build(
        "rlvr/GuessNumber-v0", 4, backend=backend, workers=None if backend == "sync" else 2, autoreset_mode="SameStep"
    )
    vector.reset(seed=3)
    seen: dict[int, list] = {index: [] for index in range(4)}
    rng = random.Random(1)
    vector.send(["\\boxed{40}"] * 4)
    while any(len(steps) < 12 for steps in seen.values()):
        ready = vector.recv(min_ready=rng.randint(1, vector.in_flight))
        for index, observation, reward in zip(
            ready.ids.tolist(), ready.observations, ready.rewards.tolist(), strict=True
        ):
            seen[index].append((observation, reward))
        again = [index for index in ready.ids.tolist() if len(seen[index]) < 12]
        rng.shuffle(again)
        if again:
            vector.send(["\\boxed{40}"] * len(again), ids=again)
    single = ByHand(lambda: TextEnv(GuessNumber()), 4, AutoresetMode.SAME_STEP)
    single.reset(range(3, 7))
    steps = [single.step(["\\boxed{40}"] * 4) for _ in range(12)]
    assert seen == {index: [outcomes[index][:2] for outcomes in steps] for index in range(4)}


def test_coroutines_need_no_threads_and_may_be_all_there_is(build, tmp_path):
    vector = build(Awaited, 300, backend="asyncio")
    vector.reset(seed=0)
    before = threading.active_count()
    gate = tmp_path / "gate"
    vector.send([f"wait {gate}"] * 300)
    assert threading.active_count() == before
    gate.touch()
    assert len(vector.recv(min_ready=300).ids) == 300
    assert vector.step(["cancelled"] + ["go"] * 299)[4]["verdict"][0].status == "env_error"
    vector = build(AllAwaited, 3, backend="asyncio")
    assert vector.reset(seed=5)[0][2] == "seed 7 episode 1 turn 0"
    assert vector.step(["raise", "go", "end"])[3].tolist() == [True, False, False]
    assert vector.step(["go"] * 3)[0][1:] == ("seed 6 episode 1 turn 2", "seed 7 episode 2 turn 0")


def test_one_thread_sends_while_another_receives(build):
    vector = build(Puppet, 8, backend="thread", workers=3)
    vector.reset(seed=0)
    received: list[int] = []
    begun: list[int] = []
    sent = threading.Semaphore(0)

    def receive():
        while len(received) < 40:
            sent.acquire()
            if vector.in_flight:
                received.extend(vector.recv().ids.tolist())

    thread = threading.Thread(target=receive)
    thread.start()
    for index in list(range(8)) * 5:
        while received.count(index) < sum(one == index for one in begun):
            time.sleep(0.001)
        vector.send(["go"], ids=[index])
        begun.append(index)
        sent.release()
    thread.join()
    assert sorted(received) == sorted(begun)


def test_two_threads_that_receive_share_what_is_ready(build, tmp_path):
    vector = build(Puppet, 2, backend="thread")
    vector.reset(seed=0)
    vector.send([f"wait {tmp_path / 'gate'}"] * 2)
    received: list[int] = []

    def receive():
        with contextlib.suppress(ValueError):  # there was nothing left when it came
            received.extend(vector.recv(2).ids.tolist())

    threads = [threading.Thread(target=receive) for _ in range(2)]
    for thread in threads:
        thread.start()
    (tmp_path / "gate").touch()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(received) == [0, 1]


@pytest.mark.parametrize("backend", WAITING)
def test_who_steps_gets_its_own_while_another_receives(build, tmp_path, backend):
    vector = build(Puppet, 3, backend=backend, workers=3)
    vector.reset(seed=0)
    vector.send([f"wait {tmp_path / 'gate'}"], ids=[0])
    received: list[list[int]] = []
    thread = threading.Thread(target=lambda: received.append(vector.recv().ids.tolist()))
    thread.start()
    for turn in (1, 2, 3):  # although that thread is the one that listens
        assert vector.step(["go", "go"], ids=[2, 1])[0] == tuple(
            f"seed {index} episode 1 turn {turn}" for index in (2, 1)
        )
    assert received == []
    (tmp_path / "gate").touch()
    thread.join()
    assert received == [[0]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_order_has_one_answer_whatever_happens(build, backend, seed):
    rng = random.Random(seed)
    env = Awaited if backend == "asyncio" and seed % 2 else Puppet
    vector = build(env, 5, backend=backend, autoreset_mode=rng.choice(["NextStep", "SameStep"]))
    words = ["go"] * 12 + ["raise", "exit", "three", "nan", "cut", "end", "x" * 100_000]
    words += ["die", "unpicklable"] if backend == "process" else []
    vector.reset(seed=seed)
    idle = set(range(5))
    for _ in range(60):
        if idle and rng.random() < 0.6:
            ids = rng.sample(sorted(idle), rng.randint(1, len(idle)))
            if rng.random() < 0.1:
                vector.send_reset(ids, seed=seed)
            else:
                vector.send([rng.choice(words) for _ in ids], ids)
            idle -= set(ids)
        elif vector.in_flight:
            ids = vector.recv(rng.randint(1, vector.in_flight)).ids.tolist()
            assert len(set(ids)) == len(ids)
            assert not idle.intersection(ids)
            idle.update(ids)
        assert vector.in_flight == 5 - len(idle)
    if vector.in_flight:
        idle.update(vector.recv(vector.in_flight).ids.tolist())
    assert idle == set(range(5))


# ending


@pytest.mark.parametrize("backend", BACKENDS)
def test_closing_closes_the_environments_and_leaves_nothing(tmp_path, backend):
    threads = set(threading.enumerate())
    vector = VectorEnv(Puppet, 3, backend=backend)
    vector.reset(seed=0)
    vector.call("note_close", tmp_path / "closed")
    pids = set(vector.call("pid")) - {os.getpid()}
    server = vector._backend._fork_server._process if backend == "process" else None
    worker = threading.Thread(target=vector.close)  # in any thread
    worker.start()
    worker.join()
    vector.close()
    assert (tmp_path / "closed").exists()
    assert set(threading.enumerate()) <= threads
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert server is None or server.returncode is not None
    assert not multiprocessing.active_children()
    for use in (
        vector.reset,
        lambda: vector.step(["a"] * 3),
        lambda: vector.send(["a"] * 3),
        vector.recv,
        vector.render,
    ):
        with pytest.raises(gym.error.ClosedEnvironmentError, match="the vector environment is closed"):
            use()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_one_that_was_forgotten_is_closed_too(backend):
    threads = set(threading.enumerate())
    vector = VectorEnv(Puppet, 2, backend=backend)
    vector.reset(seed=0)
    pids = set(vector.call("pid")) - {os.getpid()}
    del vector
    gc.collect()
    assert set(threading.enumerate()) <= threads
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_closing_while_environments_are_under_way(build, tmp_path):
    for backend in WAITING:
        vector = build(Awaited if backend == "asyncio" else Puppet, 2, backend=backend)
        vector.reset(seed=0)
        vector.send([f"wait {tmp_path / backend}"] * 2)
        seen: list[str] = []

        def receive(vector=vector, seen=seen):
            try:
                vector.recv()
            except gym.error.ClosedEnvironmentError:
                seen.append("closed")

        thread = threading.Thread(target=receive)
        thread.start()
        if backend == "thread":
            threading.Timer(0.2, (tmp_path / backend).touch).start()
        vector.close()
        thread.join(10)
        assert not thread.is_alive()


SCRIPT = """
import os, sys
import gymnasium as gym
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector import VectorEnv

class Mine(gym.Env):
    observation_space = action_space = Text()
    def reset(self, *, seed=None, options=None):
        return str(os.getpid()), {}
    def step(self, action):
        return "", 0.0, False, False, {}

vector = VectorEnv(lambda: Mine(), 2, backend="process", workers=2)
print(*vector.reset(seed=0)[0], vector._backend._fork_server._process.pid, flush=True)
sys.stdin.read()
"""


@needs_linux
@pytest.mark.slow
def test_a_script_needs_no_guard_and_leaves_no_process_when_it_is_killed():
    script = start([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pids = [int(pid) for pid in script.stdout.readline().split()]
    assert len(set(pids)) == 3
    script.kill()
    script.wait()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)
    script.stdin.close()
    script.stdout.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pickle_is_a_new_one_of_the_same_settings(build, backend):
    vector = build(backend=backend, autoreset_mode="SameStep")
    vector.reset(seed=0)
    with pickle.loads(pickle.dumps(vector)) as twin:
        assert (twin.num_envs, twin.backend, twin.autoreset_mode) == (4, backend, AutoresetMode.SAME_STEP)
        with pytest.raises(gym.error.ResetNeeded):
            twin.step(["a"] * 4)
        assert twin.reset(seed=0)[0] == vector.reset(seed=0)[0]


# bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "ray"}, "backend must be one of sync, thread, process, asyncio; got 'ray'"),
        ({"autoreset_mode": "next"}, "autoreset_mode must be one of NextStep, SameStep, Disabled; got 'next'"),
        ({"num_envs": 0}, "num_envs must be a whole number from 1, got 0"),
        ({"num_envs": None}, "num_envs must be a whole number from 1, got None"),
        ({"workers": 2}, "the sync back end has no workers"),
        ({"timeout": 1.0}, "cannot interrupt a step: take thread, process or asyncio"),
        ({"backend": "thread", "workers": 0}, "workers must be at least 1, got 0"),
        ({"backend": "thread", "timeout": 0}, "timeout must be a positive number of seconds"),
        ({"backend": "thread", "timeout": float("inf")}, "timeout must be a positive number of seconds"),
        ({"env_settings": {"level": 2}}, "env_settings are for an environment given by its id"),
        ({"env": [Puppet], "num_envs": 2}, "1 functions cannot make 2 environments"),
        ({"env": []}, "0 functions cannot make"),
    ],
)
def test_settings_that_are_not_allowed(arguments, message):
    with pytest.raises(ValueError, match=message):
        VectorEnv(**({"env": Puppet, "num_envs": 2} | arguments))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda v: v.step("ab"), TypeError, "actions are a sequence of texts, got str"),
        (lambda v: v.step([1, 2]), TypeError, "each must be a str"),
        (lambda v: v.step(["a"]), ValueError, "2 environments need one action each, got 1"),
        (lambda v: v.step(["a"], ids=[2]), ValueError, "ids are different numbers from 0 to 1, at least one; got"),
        (lambda v: v.step(["a", "a"], ids=[1, 1]), ValueError, "ids are different numbers"),
        (lambda v: v.step([], ids=[]), ValueError, "at least one"),
        (lambda v: v.recv(), ValueError, "min_ready is 1, and 0 environments are under way"),
        (lambda v: v.reset(seed=[1, 2, 3]), ValueError, "2 environments need one seed each, got 3"),
        (lambda v: v.reset(seed="ab"), TypeError, "cannot be interpreted as an integer"),
        (lambda v: v.reset(group_size=3), ValueError, "2 environments cannot be divided into groups of 3"),
        (lambda v: v.reset(options=[{}]), ValueError, "2 environments need one dict of options each, got 1"),
        (lambda v: v.reset(options={"reset_mask": [True, False]}), TypeError, "must be a numpy array of dtype bool"),
        (lambda v: v.reset(options={"reset_mask": np.zeros(2, bool)}), ValueError, "a True in it"),
        (lambda v: v.reset(options={"reset_mask": np.ones(2, bool)}, ids=[0]), ValueError, "not both"),
    ],
)
def test_arguments_that_are_not_allowed_change_nothing(build, call, error, message):
    vector = build(Puppet, 2)
    vector.reset(seed=0)
    with pytest.raises(error, match=message):
        call(vector)
    assert vector.in_flight == 0
    assert vector.step(["a", "a"])[0] == ("seed 0 episode 1 turn 1", "seed 1 episode 1 turn 1")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_needs_an_episode(build, backend):
    vector = build(backend=backend, autoreset_mode="Disabled")
    with pytest.raises(gym.error.ResetNeeded, match=r"environments \[0, 1, 2, 3\] were never reset"):
        vector.step(["a"] * 4)
    vector.reset(seed=0, ids=[0, 1])
    with pytest.raises(gym.error.ResetNeeded, match=r"environments \[2, 3\] were never reset"):
        vector.step(["a"] * 4)
    vector.step(["end", "a"], ids=[0, 1])
    for step in (lambda: vector.step(["a", "a"], ids=[0, 1]), lambda: vector.send(["a"], ids=[0])):
        with pytest.raises(gym.error.ResetNeeded, match=r"the episodes of \[0\] are over"):
            step()
    vector.reset(ids=[0])
    assert vector.step(["a", "a"], ids=[0, 1])[0] == ("seed 0 episode 2 turn 1", "seed 1 episode 1 turn 2")


def test_environments_of_different_ids_and_of_different_spaces(build):
    vector = build([lambda: gym.make("rlvr/Countdown-v0"), lambda: gym.make("rlvr/GuessNumber-v0")], None)
    assert vector.reset(seed=0)[1]["env_id"].tolist() == ["rlvr/Countdown-v0", "rlvr/GuessNumber-v0"]
    assert vector.step(vector.call("solve"))[1][0] == 1.0
    vector = build([Puppet, Walk], None)
    _, infos = vector.reset(seed=0)
    assert "those of the first are" in infos["verdict"][1].reason


def test_importing_the_package_does_not_import_it():
    code = "import rlvr, sys; print('rlvr.envs.vector' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
    assert rlvr.list_envs()


class Collecting(gym.Env):
    """Says how many objects are made between two of Python's collections."""

    observation_space = gym.spaces.Text(8)
    action_space = gym.spaces.Text(8)

    def reset(self, *, seed=None, options=None):
        return "", {"objects": gc.get_threshold()[0]}

    def step(self, action):
        if action == "break":
            raise RuntimeError("on purpose")
        return "", 0.0, False, False, {"objects": gc.get_threshold()[0]}


@pytest.mark.parametrize(("count", "rarely"), [(10, False), (1_000, True)])
def test_collections_are_rarer_while_many_are_stepped_and_as_before_afterwards(count: int, rarely: bool):
    before = gc.get_threshold()
    with VectorEnv(Collecting, count, backend="sync") as vector:
        for infos in (vector.reset(seed=0)[1], vector.step(["a"] * count)[4]):
            assert set(infos["objects"]) == {50_000 if rarely else before[0]}
            assert gc.get_threshold() == before
        assert vector.step(["a"] * (count - 1) + ["break"])[4]["verdict"][-1].status == "env_error"
        assert gc.get_threshold() == before
