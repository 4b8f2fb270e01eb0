"""Environments in real actors of Ray: as directly, over crashes and time limits; the error without Ray."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import pytest

from rlvr.adapters import testing as kit
from rlvr.adapters import versions
from rlvr.adapters.serving.ray import actors
from rlvr.envs import TextEnv
from rlvr.envs.vector import VectorEnv

GUESS = "rlvr/GuessNumber-v0"
HERE = importlib.util.find_spec("ray") is not None


def test_a_missing_or_old_ray_is_one_clear_error(monkeypatch):
    def missing(package):
        raise versions.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(versions.metadata, "version", missing)
    with pytest.raises(ImportError, match=r"pip install 'ray>=2\.60,<3'"):
        actors()
    monkeypatch.setattr(versions.metadata, "version", lambda package: "2.9.0")
    with pytest.raises(ImportError, match=r"ray 2\.9\.0 is too old"):
        actors()
    monkeypatch.setattr(versions.metadata, "version", lambda package: "2.60.0")
    with pytest.raises(ValueError, match="max_restarts"):
        actors(max_restarts=1)


def test_a_back_end_of_ones_own_is_given_the_seats():
    from rlvr.envs.vector.inline import Inline

    def inline(slots, workers, timeout):
        asked.append((len(slots), workers, timeout))
        return Inline(slots)

    asked = []
    with VectorEnv(GUESS, 3, backend=inline, workers=2, timeout=9.0) as vector:
        observations, _ = vector.reset(seed=0)
        assert observations[1] == gym.make(GUESS).reset(seed=1)[0]
    assert asked == [(3, 2, 9.0)]
    with pytest.raises(ValueError, match="backend must be one of"):
        VectorEnv(GUESS, 2, backend="ray")


class Moody(gym.Env):
    """Does what it is told to, to its own process."""

    observation_space = TextEnv(kit.SayTask(), split=None).observation_space
    action_space = observation_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return f"seed {seed}", {}

    def step(self, action):
        if action == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "hang":
            time.sleep(600)
        if action == "nap":
            time.sleep(2.0)
        if action == "raise":
            raise OSError("on purpose")
        if action == "unspeakable":
            return "x", 1.0, False, False, {"lock": threading.Lock()}
        return str(os.getpid()), 1.0, action == "end", False, {}


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.mark.foreign
@pytest.mark.skipif(not HERE, reason="Ray is not installed")
@pytest.mark.timeout(300)
class TestActors:
    @pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
    def test_they_play_as_directly(self, ray, mode):
        settings = {"level": 2}
        direct = VectorEnv(GUESS, 6, autoreset_mode=mode, env_settings=settings)
        with (
            direct,
            VectorEnv(
                GUESS, 6, backend=actors(num_cpus=0), workers=2, autoreset_mode=mode, env_settings=settings
            ) as vector,
        ):
            assert vector.reset(seed=5)[0] == direct.reset(seed=5)[0]
            for turn in range(12):
                said = [f"\\boxed{{{place + 3 * turn}}}" for place in range(6)]
                there, here = vector.step(said), direct.step(said)
                assert there[0] == here[0]
                assert all((a == b).all() for a, b in zip(there[1:4], here[1:4], strict=True))
                assert list(there[4].rows) == list(here[4].rows)

    def test_the_adapter_conforms(self, ray):
        def play(specs, engine):
            makers = [spec.make for spec in specs]
            episodes = [kit.PlayedEpisode(spec, 0.0) for spec in specs]
            with VectorEnv(makers, backend=actors(num_cpus=0), workers=2, autoreset_mode="Disabled") as vector:
                observations, infos = vector.reset(seed=[spec.seed for spec in specs])
                told = [(info.get("system", ""), info.get("tools", "")) for info in infos.rows]
                texts, live = {place: f"{told[place]} {text}" for place, text in enumerate(observations)}, []
                for place, info in enumerate(infos.rows):
                    if "verdict" in info:
                        episodes[place].verdict = info["verdict"]
                    else:
                        live.append(place)
                while live:
                    said = [engine.reply(texts[place]) for place in live]
                    observations, rewards, terminated, truncated, infos = vector.step(said, ids=live)
                    for at, place in enumerate(list(live)):
                        episodes[place].actions.append(said[at])
                        episodes[place].reward += rewards[at]
                        episodes[place].verdict = infos.rows[at]["verdict"]
                        texts[place] = observations[at]
                        if terminated[at] or truncated[at]:
                            live.remove(place)
            for played in episodes:
                played.weight = float(played.verdict.valid)
            return episodes

        print("\n".join(kit.conform(play, kit.RecordingEngine(), tokens=False)))

    def test_an_actor_that_dies_takes_its_own_along_and_is_replaced(self, ray):
        with VectorEnv(Moody, 4, backend=actors(num_cpus=0), workers=2) as vector:
            vector.reset(seed=0)
            first = vector.step(["go"] * 4)[0]
            assert len(set(first)) == 2
            assert first[0] == first[2] != first[1] == first[3]
            _, rewards, _, truncated, infos = vector.step(["die", "go", "go", "go"])
            assert truncated.tolist() == [True, False, True, False]
            assert rewards.tolist() == [0.0, 1.0, 0.0, 1.0]
            assert [infos.rows[place]["verdict"].status for place in (0, 2)] == ["env_error"] * 2
            assert "actor" in infos.rows[0]["verdict"].reason
            observations = vector.step(["go"] * 4)[0]  # the two begin again, the others go on
            assert observations[0].startswith("seed ")
            assert observations[1] == first[1]
            assert vector.step(["go"] * 4)[0][0] not in first

    def test_one_that_hangs_is_a_timeout_and_one_that_raises_an_error(self, ray):
        with VectorEnv(Moody, 3, backend=actors(num_cpus=0), workers=3, timeout=20.0) as vector:
            vector.reset(seed=0)
            _, _, _, truncated, infos = vector.step(["hang", "raise", "go"])
            assert truncated.tolist() == [True, True, False]
            assert [infos.rows[place]["verdict"].status for place in (0, 1)] == ["timeout", "env_error"]
            observations, _, _, truncated, _ = vector.step(["go"] * 3)
            assert not truncated.any()
            assert observations[0].startswith("seed ")

    def test_a_batch_is_judged_command_by_command(self, ray):
        """One that hangs, cannot be sent, or takes its time in the middle of a call: the others keep theirs."""
        with VectorEnv(Moody, 6, backend=actors(num_cpus=0), workers=1, timeout=5.0) as vector:
            vector.reset(seed=0)
            told = vector.step(["go", "go", "unspeakable", "go", "go", "go"])
            assert told[3].tolist() == [False, False, True, False, False, False]
            assert "cannot be sent" in told[4].rows[2]["verdict"].reason
            vector.step(["go"] * 6)
            assert not vector.step(["nap"] * 6)[3].any()  # 12 s together, and none over its time
            _, rewards, _, truncated, infos = vector.step(["go", "go", "hang", "go", "go", "go"])
            assert rewards.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]  # those before were answered
            assert truncated.tolist() == [False, False, True, True, True, True]
            statuses = [infos.rows[place]["verdict"].status for place in range(2, 6)]
            assert statuses == ["timeout", "env_error", "env_error", "env_error"]

    def test_whoever_is_ready_goes_on(self, ray):
        with VectorEnv(Moody, 3, backend=actors(num_cpus=0), workers=3) as vector:
            vector.reset(seed=0)
            vector.send(["go", "go", "go"])
            received = set()
            while vector.in_flight:
                received |= set(vector.recv(timeout=60.0).ids.tolist())
            assert received == {0, 1, 2}
            assert vector.call("unwrapped")[0] is not None

    def test_the_page_runs(self):
        page = (Path(__file__).parents[2] / "docs" / "adapters" / "ray.md").read_text(encoding="utf-8")
        block = re.search(r"```py\n(.*?)```", page, re.DOTALL)[1]
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr

    def test_nothing_is_left(self, ray):
        with kit.nothing_left(grace=60.0):
            vector = VectorEnv(Moody, 2, backend=actors(num_cpus=0), workers=2)
            vector.reset(seed=0)
            vector.close()
            vector.close()
