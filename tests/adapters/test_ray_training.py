"""A run whose environments are in real actors of Ray is the same run; a killed actor costs its episodes alone."""

from __future__ import annotations

import os
import signal
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("ray")
pytest.importorskip("torch")

from rlvr.adapters.fleet.ray_env import RayEnv
from rlvr.agents.evaluation import read_episodes
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.sampling.env_source import env_source
from rlvr.algorithms.train.run import Trainer

from ..algorithms.runs import GUESS, Callback, differences, small

pytestmark = [pytest.mark.foreign, pytest.mark.slow, pytest.mark.timeout(300)]
IN_RAY = {"env": {"id": GUESS, "system": False, "backend": "ray"}}
IN_TWO_ACTORS = {"env": {**IN_RAY["env"], "workers": 2}}


@pytest.fixture(scope="module", autouse=True)
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


def test_a_run_in_actors_is_the_run_in_one_process(tmp_path):
    """Demonstrations, training and evaluation."""
    Trainer(small(tmp_path / "here"), Callback()).run()
    Trainer(small(tmp_path / "there", **IN_RAY), Callback()).run()
    assert differences(tmp_path / "here", tmp_path / "there") == []


def test_two_actors_play_the_same_episodes(tmp_path):
    """Which step ends first decides who is sampled together, and so the last bits of log-probabilities."""
    Trainer(small(tmp_path / "here", steps=1), Callback()).run()
    Trainer(small(tmp_path / "there", steps=1, **IN_TWO_ACTORS), Callback()).run()
    played = [list(read_episodes(tmp_path / run / "episodes" / "train-000001.jsonl")) for run in ("here", "there")]
    assert [[turn.action for turn in each.turns] for each in played[0]] == [
        [turn.action for turn in each.turns] for each in played[1]
    ]
    assert [each.verdict for each in played[0]] == [each.verdict for each in played[1]]


def test_a_killed_actor_costs_the_episodes_that_were_there(ray, tmp_path):
    class Kills(Callback):
        def step(self, record: dict[str, Any]) -> None:
            super().step(record)
            if record["phase"] == "train" and record["step"] == 2:
                os.kill(ray.get(trainer.rollout.env.unwrapped._pool.actor(0).pid.remote()), signal.SIGKILL)

    callback = Kills()
    trainer = Trainer(small(tmp_path / "run", **IN_TWO_ACTORS), callback)
    trainer.run()
    assert [record["step"] for record in callback.of("train")] == [1, 2, 3, 4]
    folder = tmp_path / "run" / "episodes"
    valid = [[e.valid for e in read_episodes(folder / f"train-00000{step}.jsonl")] for step in range(1, 5)]
    assert all(valid[0] + valid[1] + valid[3])
    assert 0 < sum(valid[2]) <= len(valid[2]) == 16


def test_states_go_from_actor_to_actor():
    env = RayEnv(GUESS, settings={"level": 2}, workers=2)
    direct = gym.make(GUESS, level=2)
    assert env.reset(seed=4) == direct.reset(seed=4)
    action = env.solve()
    state = env.get_state()
    after = env.step(action)
    assert after == direct.step(action)
    other = env.spawn()
    other.reset(seed=5)
    other.set_state(state)
    assert other.step(action) == after
    with pytest.raises(TypeError, match="text"):
        env.step(3)
    with pytest.raises(gym.error.ResetNeeded):
        env.spawn().step(action)


def test_what_cannot_be_in_actors_is_refused(tmp_path):
    with pytest.raises(ValueError, match="two places"):
        small(tmp_path, env={"id": GUESS, "backend": "ray", "workers": 1, "servers": ["http://127.0.0.1:9"]})
    config = small(tmp_path, **IN_RAY)
    with pytest.raises(ConfigError, match="opponents that are models"):
        env_source(config.env, {"opponents": ["self"]}, "train")
