"""`rlvr serve` and its client, over real sockets on the loopback: equality, order, limits, and who may come in."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import pickle
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as open_socket

from rlvr.adapters import connect, connect_vector
from rlvr.adapters.serving import wire
from rlvr.adapters.serving.connect import RemoteEnv, RemoteError, error_of
from rlvr.adapters.serving.guard import is_loopback
from rlvr.adapters.serving.serve import EnvServer
from rlvr.adapters.serving.sessions import MAX_STATES, SessionTable
from rlvr.agents import ConstantAgent, Rollout, task_requests
from rlvr.agents.evaluation import evaluate
from rlvr.cli import main
from rlvr.envs import Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector import VectorEnv

GUESS, CALCULATOR = "rlvr/GuessNumber-v0", "rlvr/Calculator-v0"
TOKEN = "sixteen-or-more-letters"
PATIENCE = 120.0  # seconds for an answer; a busy machine must not fail a test
SEVEN = "\\boxed{7}"


class Stage(gym.Env[str, str]):
    """Does what its action says: hangs until the test lets it go, raises, says strange things."""

    observation_space = action_space = Text(wire.MAX_FRAME)
    released = threading.Event()
    closed: list[int] = []  # noqa: RUF012  (the test's)

    def __init__(self, stuck=False):
        self.stuck = stuck

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.said = []
        return "go", {"options": options}

    def step(self, action):
        self.said.append(action)
        if self.stuck:
            self.released.wait(30)
        match action.partition(" ")[0]:
            case "hang":
                self.released.wait(30)
            case "raise":
                raise LookupError("as the action said")
            case "exit":
                sys.exit(3)
            case "object":
                return "x", 0.0, False, False, {"thing": object()}
            case "nan":
                return "x", float("nan"), False, False, {}
            case "billion":
                return "x", 1e9, False, False, {}
            case "inf":
                return "x", 0.5, False, False, {"inf": float("-inf"), "nan": float("nan")}
            case "huge":
                return "x" * (wire.MAX_FRAME // 4), 0.0, False, False, {}
            case "large":
                return "x" * 1_000_000, 0.0, False, False, {}
        return f"{len(self.said)}:{action}", 0.0, False, False, {"said": tuple(self.said)}

    def close(self):
        self.closed.append(1)


@pytest.fixture(scope="module", autouse=True)
def _stage():
    gym.register("ours/Stage-v0", entry_point=Stage, disable_env_checker=True)
    yield
    Stage.released.set()
    gym.registry.pop("ours/Stage-v0")


@pytest.fixture
def stage():
    Stage.released.clear()
    Stage.closed.clear()
    with EnvServer("ours/Stage-v0", limit=8, timeout=None, token=None) as server:
        yield server
        Stage.released.set()


@pytest.fixture(scope="module")
def guess():
    with EnvServer(GUESS, {"level": 3}, expert=True, limit=80, token=None) as server:
        yield server


def opened(server: EnvServer, **headers: str) -> Any:
    """A bare WebSocket, after its greeting."""
    address = server.url.replace("http", "ws") + wire.SOCKET_PATH
    link = open_socket(address, additional_headers=headers, proxy=None, compression=None, max_size=None).__enter__()
    assert "hello" in json.loads(link.recv(PATIENCE))
    return link


def ask(link: Any, message: Any) -> Any:
    link.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(link.recv(PATIENCE))


def post(server: EnvServer, message: Any, token: str | None = None, path: str = wire.PATH, **headers: str) -> Any:
    """Status and body of an HTTP request."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(server.origin + path, data, headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def code(answer: Any) -> str:
    return answer["error"]["code"]


def sessions_of(link: Any, count: int) -> list[str]:
    return ask(link, {"id": "open", "op": "open", "count": count})["sessions"]


def until(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


# the same as without a wire


def play(env: gym.Env[str, str], actions: list[str], **reset: Any) -> list[Any]:
    steps: list[Any] = [env.reset(**reset)]
    for action in actions:
        steps.append(env.step(action))
        if steps[-1][2] or steps[-1][3]:
            break
    return steps


@pytest.mark.parametrize("env_id", [GUESS, CALCULATOR, "rlvr/Countdown-v0", "rlvr/GSM8K-v0"])
def test_a_served_environment_says_what_it_says_directly(env_id: str):
    actions = ["nonsense", "\ud800 🙂 \x00", SEVEN, "x" * 10_000]
    direct = gym.make(env_id).unwrapped
    with EnvServer(env_id, expert=True, limit=2) as server, connect(server.url) as env:
        for reset in ({"seed": 5}, {}, {"seed": 2**40}, {"seed": 1, "options": {"index": 3}}):
            assert repr(play(env, actions, **reset)) == repr(play(direct, actions, **reset))
        env.reset(seed=9)
        direct.reset(seed=9)
        while True:
            assert env.solve() == direct.solve()
            step = env.step(env.solve())
            assert repr(step) == repr(direct.step(direct.solve()))
            if step[2]:
                break
        assert isinstance(step[4]["verdict"], Verdict)
        assert step[4]["verdict"].success
        assert (env.size, env.split, env.level) == (direct.size, direct.split, direct.level)


def test_gymnasiums_checker_passes(guess: EnvServer):
    from gymnasium.utils.env_checker import check_env

    with connect(guess.url) as env:
        check_env(env, skip_render_check=True)


def test_what_the_environment_refuses_is_refused_with_the_same_exception(guess: EnvServer):
    direct = gym.make(GUESS, level=3).unwrapped
    with connect(guess.url) as env:
        with pytest.raises(gym.error.ResetNeeded):
            env.step(SEVEN)
        with pytest.raises(TypeError, match="an action is the assistant's text"):
            env.step(7)
        for wrong in ({"index": -1}, {"indx": 1}, {"level": 99}, {"split": "none"}):
            with pytest.raises(ValueError, match=r"\w") as ours:
                env.reset(seed=0, options=wrong)
            with pytest.raises(ValueError, match=r"\w") as theirs:
                direct.reset(seed=0, options=wrong)
            assert str(ours.value) == str(theirs.value)
        with pytest.raises(gym.error.ResetNeeded):  # nothing was reset
            env.step(SEVEN)
        env.reset(seed=np.int64(3))
        env.step(SEVEN)


def test_a_session_begins_afresh_where_another_one_was(guess: EnvServer):
    with connect(guess.url) as env:
        env.reset(seed=1, options={"level": 1})
    places = set()
    for _ in range(3):
        with connect(guess.url) as env:
            with pytest.raises(gym.error.ResetNeeded):
                env.step(SEVEN)
            places.add(env.reset()[1]["seed"])
    assert len(places) == 3, "without a seed, each session draws its own"


def test_snapshots_stay_on_the_server(guess: EnvServer):
    with connect(guess.url) as env, connect(guess.url) as other:
        env.reset(seed=4)
        before = env.get_state()
        first = env.step(SEVEN)
        env.set_state(before)
        assert repr(env.step(SEVEN)) == repr(first)
        assert "target" not in before
        with pytest.raises(ValueError, match="no get_state of this session"):
            env.set_state("another")
        other.reset(seed=4)
        with pytest.raises(ValueError, match="no get_state of this session"):
            other.set_state(before)
        for _ in range(MAX_STATES - 1):
            env.get_state()
        with pytest.raises(ValueError, match="states at most"):
            env.get_state()


def test_the_expert_is_served_only_when_told():
    with EnvServer(GUESS, limit=2) as server, connect(server.url) as env:
        env.reset(seed=0)
        for call in (env.solve, env.get_state, lambda: env.set_state("x")):
            with pytest.raises(PermissionError, match="--expert"):
                call()
        env.step(SEVEN)  # and the episode goes on


def test_render_is_served():
    with EnvServer(GUESS, {"render_mode": "ansi"}, limit=1) as server, connect(server.url) as env:
        direct = gym.make(GUESS, render_mode="ansi").unwrapped
        play(env, [SEVEN], seed=0)
        play(direct, [SEVEN], seed=0)
        assert env.render() == direct.render()


def test_the_process_back_end_says_the_same():
    with EnvServer(GUESS, {"level": 3}, backend="process", workers=1, limit=2) as server, connect(server.url) as env:
        direct = gym.make(GUESS, level=3).unwrapped
        assert repr(play(env, [SEVEN] * 3, seed=2)) == repr(play(direct, [SEVEN] * 3, seed=2))


def test_an_environment_that_cannot_be_made_is_told():
    server = EnvServer("ours/Stage-v0", backend="process", limit=1)
    with server, connect(server.url) as env, pytest.raises(RemoteError, match="ours"):
        env.reset(seed=0)  # it is registered in this process alone


STUCK = """
import re
import gymnasium as gym
from rlvr.envs.core.spaces import Text

class Stuck(gym.Env):
    observation_space = action_space = Text()
    def reset(self, *, seed=None, options=None):
        return "go", {}
    def step(self, action):
        if action == "stick":
            re.match("(a+)+$", "a" * 64 + "b")  # for ever, and Python's lock is held
        return action, 0.0, False, False, {}

gym.register("stuck/Stuck-v0", entry_point=Stuck, disable_env_checker=True)
"""


@pytest.mark.slow
def test_a_process_that_is_stuck_in_c_is_killed(tmp_path, monkeypatch):
    (tmp_path / "stuck_in_c.py").write_text(STUCK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = EnvServer("stuck_in_c:stuck/Stuck-v0", backend="process", workers=2, limit=2, timeout=1.0)
    with server, connect(server.url) as env, connect(server.url) as other, ThreadPoolExecutor(1) as threads:
        env.reset(seed=0)
        other.reset(seed=0)
        stuck = threads.submit(env.step, "stick")
        for turn in range(5):
            assert other.step(f"{turn}")[0] == f"{turn}"
        _, reward, terminated, _, info = stuck.result(60)
        assert (reward, terminated, info["verdict"].valid) == (0.0, True, True), "the action made it hang"
        env.reset(seed=0)
        assert env.step("a")[0] == "a"
        assert other.step("b")[0] == "b"


# many at once


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_64_sessions_over_one_connection_are_a_vector_environment(guess: EnvServer, mode: str):
    ours = connect_vector(guess.url, 64, autoreset_mode=mode)
    theirs = VectorEnv(GUESS, 64, env_settings={"level": 3}, autoreset_mode=mode)
    observations, infos = ours.reset(seed=10)
    others, their_infos = theirs.reset(seed=10)
    assert observations == others
    assert infos.rows == their_infos.rows
    for turn in range(14):  # over the end of the episodes, and on
        actions = [f"\\boxed{{{(turn * 37 + place * 11) % 1000}}}" for place in range(64)]
        step, other = ours.step(actions), theirs.step(actions)
        assert step[0] == tuple(other[0])
        for column, their_column in zip(step[1:4], other[1:4], strict=True):
            assert column.dtype == their_column.dtype
            assert (column == their_column).all()
        assert repr(list(step[4].rows)) == repr(list(other[4].rows))
    ours.close()
    theirs.close()
    until(lambda: len(guess.sessions) == 0)


def test_disabled_autoreset_waits_for_a_mask(guess: EnvServer):
    vector = connect_vector(guess.url, 3, autoreset_mode="Disabled")
    vector.reset(seed=[5, 6, 7])
    while not (step := vector.step([SEVEN] * 3))[3].any():
        pass
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        vector.step([SEVEN] * 3)
    mask = step[2] | step[3]
    _, infos = vector.reset(seed=1, options={"reset_mask": mask})
    assert infos["turn"][mask].tolist() == [0] * mask.sum()
    vector.step([SEVEN] * 3)
    vector.close()


def test_64_clients_in_threads_get_their_own_answers(guess: EnvServer):
    def episode(seed: int) -> str:
        with connect(guess.url) as env:
            return repr(play(env, [f"\\boxed{{{seed + turn}}}" for turn in range(6)], seed=seed))

    with ThreadPoolExecutor(16) as threads:
        told = list(threads.map(episode, range(64)))
    direct = gym.make(GUESS, level=3).unwrapped
    assert told == [repr(play(direct, [f"\\boxed{{{s + t}}}" for t in range(6)], seed=s)) for s in range(64)]
    until(lambda: len(guess.sessions) == 0)


def test_wrong_arguments_of_a_vector_environment(guess: EnvServer):
    vector = connect_vector(guess.url, 2)
    with pytest.raises(gym.error.ResetNeeded):
        vector.step([SEVEN] * 2)
    with pytest.raises(ValueError, match="2 seeds"):
        vector.reset(seed=[1])
    with pytest.raises(ValueError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.ones(3, np.bool_)})
    with pytest.raises(ValueError, match="no option 'indx'"):
        vector.reset(seed=0, options={"indx": 2})
    vector.reset(seed=0)
    with pytest.raises(ValueError, match="2 actions"):
        vector.step([SEVEN])
    with pytest.raises(TypeError):
        vector.step([1, 2])
    with pytest.raises(TypeError):
        vector.step("ab")
    vector.close()
    with pytest.raises(ValueError, match="num_envs"):
        connect_vector(guess.url, 0)


# ids and order


def test_answers_bear_the_ids_of_their_requests_whatever_the_order(stage: EnvServer):
    with opened(stage) as link:
        slow, fast = sessions_of(link, 2)
        for session in (slow, fast):
            ask(link, {"id": f"r{session}", "op": "reset", "items": [{"session": session}]})
        link.send(json.dumps({"id": "slow", "op": "step", "items": [{"session": slow, "action": "hang"}]}))
        assert ask(link, {"id": "fast", "op": "step", "items": [{"session": fast, "action": "a"}]})["id"] == "fast"
        busy = ask(link, {"id": "next", "op": "step", "items": [{"session": slow, "action": "b"}]})
        assert (busy["id"], code(busy["results"][0])) == ("next", "busy")
        assert "slow" in busy["results"][0]["error"]["message"]
        Stage.released.set()
        late = json.loads(link.recv(PATIENCE))
        assert (late["id"], late["results"][0]["observation"]) == ("slow", "1:hang")
        after = ask(link, {"id": "next", "op": "step", "items": [{"session": slow, "action": "b"}]})
        assert after["results"][0]["info"] == {"said": {"$tuple": ["hang", "b"]}}


def test_a_hanging_step_holds_up_nobody_else(stage: EnvServer):
    with opened(stage) as link, connect(stage.url) as other:
        stuck = sessions_of(link, 7)
        items = [{"session": session} for session in stuck]
        ask(link, {"id": "r", "op": "reset", "items": items})
        link.send(json.dumps({"id": "h", "op": "step", "items": [{**item, "action": "hang"} for item in items]}))
        other.reset(seed=0)
        for turn in range(20):
            assert other.step("a")[0] == f"{turn + 1}:a"
        assert post(stage, {"id": "p", "op": "ping"})[1] == {"id": "p", "results": []}


def test_a_step_over_its_time_by_the_actions_doing_is_a_zero_and_the_session_goes_on():
    Stage.released.clear()
    with EnvServer("ours/Stage-v0", limit=3, timeout=0.5) as server, connect(server.url) as env:
        env.reset(seed=0)
        env.step("a")
        _, reward, terminated, truncated, info = env.step("hang")
        assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
        assert (info["verdict"].status, info["verdict"].valid) == ("wrong", True)
        assert "failed on what the policy wrote" in info["verdict"].reason
        with pytest.raises(gym.error.ResetNeeded):
            env.step("a")
        env.reset(seed=0)
        assert env.step("a")[0] == "1:a"
        vector = connect_vector(server.url, 2)
        vector.reset(seed=0)
        observations, rewards, terminations, truncations, infos = vector.step(["hang", "b"])
        assert observations[1] == "1:b"
        assert (rewards.tolist(), terminations.tolist(), truncations.tolist()) == (
            [0.0] * 2,
            [True, False],
            [False] * 2,
        )
        assert infos["verdict"][0].valid
        assert vector.step(["a", "c"])[0] == ("go", "2:c")
        vector.close()
        Stage.released.set()


MORTAL = """
import os, time
import gymnasium as gym
from rlvr.envs.core.spaces import Text

class Mortal(gym.Env):
    observation_space = action_space = Text(100)

    def reset(self, *, seed=None, options=None):
        return "go", {}

    def step(self, action):
        if action == "hang":
            time.sleep(60)
        if action == "die":
            os._exit(3)
        return action, 0.0, False, False, {}

gym.register("ours/Mortal-v0", entry_point=Mortal, disable_env_checker=True)
"""


@pytest.mark.slow
def test_a_step_that_ends_its_process_or_hangs_in_it_is_a_zero(tmp_path, monkeypatch):
    (tmp_path / "mortal.py").write_text(MORTAL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with (
        EnvServer("mortal:ours/Mortal-v0", limit=1, timeout=0.5, backend="process") as server,
        connect(server.url) as env,
    ):
        for action in ("hang", "die"):
            env.reset(seed=0)
            env.step("a")
            _, reward, terminated, _, info = env.step(action)
            assert (reward, terminated, info["verdict"].status) == (0.0, True, "wrong")
        env.reset(seed=0)
        assert env.step("b")[0] == "b"
    gym.registry.pop("ours/Mortal-v0")


def test_a_step_over_its_time_whatever_is_written_is_told_and_the_session_goes_on():
    Stage.released.clear()
    settings = {"stuck": True}
    with EnvServer("ours/Stage-v0", settings, limit=3, timeout=0.3) as server, connect(server.url) as env:
        env.reset(seed=0)
        with pytest.raises(TimeoutError, match=r"no answer within 0.3 s.*reset\(\)"):
            env.step("a")
        with pytest.raises(gym.error.ResetNeeded):
            env.step("a")
        env.reset(seed=0)
        vector = connect_vector(server.url, 2)
        vector.reset(seed=0)
        _, rewards, terminations, truncations, infos = vector.step(["a", "b"])
        assert (rewards.tolist(), terminations.tolist(), truncations.tolist()) == ([0.0] * 2, [False] * 2, [True] * 2)
        assert {verdict.status for verdict in infos["verdict"]} == {"timeout"}
        vector.close()
        Stage.released.set()


def test_a_request_sent_again_is_carried_out_once(stage: EnvServer):
    step = {"id": "once", "op": "step"}
    with opened(stage) as link:
        (session,) = sessions_of(link, 1)
        ask(link, {"id": "r", "op": "reset", "items": [{"session": session}]})
        step["items"] = [{"session": session, "action": "a"}]
        first = ask(link, step)
        assert ask(link, step) == first
    with opened(stage) as link:  # and over another connection
        assert ask(link, step) == first
        step["id"] = "twice"
        assert ask(link, step)["results"][0]["info"]["said"] == {"$tuple": ["a", "a"]}


def test_a_connection_lost_in_the_middle_of_a_step_is_made_again(stage: EnvServer):
    with connect(stage.url) as env:
        env.reset(seed=0)
        link = env._connection._link
        thread = ThreadPoolExecutor(1).submit(env.step, "hang")
        until(lambda: stage.sessions._under_way)
        link.socket.shutdown(socket.SHUT_RDWR)
        time.sleep(0.1)
        Stage.released.set()
        assert thread.result(30)[4] == {"said": ("hang",)}
        assert env.step("b")[4] == {"said": ("hang", "b")}


def test_answers_find_their_steps_while_connections_break(stage: EnvServer):
    def episode(seed: int) -> int:
        rng, broken = random.Random(seed), 0
        with connect(stage.url) as env:
            env.reset(seed=seed)
            for turn in range(40):
                timers = []
                if rng.random() < 0.3:  # at any moment of the step: before it is sent, under way, answered
                    link = env._connection._link.socket
                    timers.append(threading.Timer(rng.random() / 200, _break, [link]))
                    timers[0].start()
                action = f"{seed} {turn}"
                observation, _, _, _, info = env.step(action)
                assert observation == f"{turn + 1}:{action}"
                assert info["said"] == tuple(f"{seed} {before}" for before in range(turn + 1))
                for timer in timers:
                    timer.join()
                broken += len(timers)
        return broken

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(episode, range(8))) > 50


def _break(link: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        link.shutdown(socket.SHUT_RDWR)


def test_a_late_answer_is_nobody_elses(stage: EnvServer):
    env = connect(stage.url, timeout=0.3)
    env.reset(seed=0)
    with pytest.raises(TimeoutError, match="did not answer within"):
        env.step("hang")
    env._connection._timeout = 30.0
    Stage.released.set()
    env.reset(seed=0)
    assert env.step("b")[0] == "1:b"
    env.close()


# who goes away


def test_sessions_of_a_client_that_goes_away_end_after_their_time():
    now = [0.0]
    with EnvServer(GUESS, limit=2, ttl=100.0, token=None, clock=lambda: now[0]) as server:

        def sweep() -> int:
            return asyncio.run_coroutine_threadsafe(_call(server.sessions.sweep), server.sessions._loop).result(10)

        with opened(server) as link:
            (kept,) = sessions_of(link, 1)
            now[0] += 1_000.0
            assert sweep() == 0, "its client is there"
        until(lambda: all(not session.owners for session in server.sessions._sessions.values()))
        now[0] += 99.0
        assert sweep() == 0
        reset = {"id": "r", "op": "reset", "items": [{"session": kept, "seed": 1}]}
        assert "info" in post(server, reset)[1]["results"][0], "time enough to come back"
        now[0] += 99.0
        assert post(server, {"id": "p", "op": "ping", "items": [{"session": kept}]})[1]["results"] == [{}]
        now[0] += 99.0
        assert sweep() == 0, "a heartbeat counts"
        now[0] += 2.0
        assert sweep() == 1
        assert code(post(server, {**reset, "id": "s"})[1]["results"][0]) == "unknown_session"
        until(lambda: len(server.sessions._free) == 2)


async def _call(function: Any) -> Any:
    return function()


def test_the_environment_of_a_session_that_ends_is_closed(stage: EnvServer):
    env = connect(stage.url)
    env.reset(seed=0)
    env.close()
    until(lambda: Stage.closed == [1])
    link = opened(stage)
    (session,) = sessions_of(link, 1)
    ask(link, {"id": "r", "op": "reset", "items": [{"session": session}]})
    link.send(json.dumps({"id": "h", "op": "step", "items": [{"session": session, "action": "hang"}]}))
    assert ask(link, {"id": "c", "op": "close", "items": [{"session": session}]})["results"] == [{}]
    assert len(stage.sessions._free) == 7, "not free before it is done with what it is at"
    Stage.released.set()
    until(lambda: len(stage.sessions._free) == 8 and Stage.closed == [1, 1])
    link.close()


def test_a_client_that_forgets_its_environment_goes_away(stage: EnvServer):
    env = connect(stage.url)
    env.reset(seed=0)
    del env
    gc.collect()
    until(lambda: [session.owners for session in stage.sessions._sessions.values()] == [set()])


def test_no_more_sessions_than_there_are(stage: EnvServer):
    vector = connect_vector(stage.url, 8)
    vector.reset(seed=0)
    with connect(stage.url) as env:
        with pytest.raises(RemoteError, match="0 of 8 are free") as refused:
            env.reset(seed=0)
        assert refused.value.code == "full"
        assert pickle.loads(pickle.dumps(refused.value)).code == "full"
        vector.close()
        until(lambda: len(stage.sessions._free) == 8)
        env.reset(seed=0)


def test_a_client_with_too_many_requests_under_way_is_told(stage: EnvServer):
    with opened(stage) as link:
        (session,) = sessions_of(link, 1)
        ask(link, {"id": "r", "op": "reset", "items": [{"session": session}]})
        hang = json.dumps({"id": "h", "op": "step", "items": [{"session": session, "action": "hang"}]})
        for _ in range(wire.MAX_UNDER_WAY):  # one, and the same one sent again
            link.send(hang)
        over = ask(link, {"id": "over", "op": "ping"})
        assert (over["id"], code(over)) == ("over", "overloaded")
        Stage.released.set()
        assert {json.loads(link.recv(PATIENCE))["id"] for _ in range(wire.MAX_UNDER_WAY)} == {"h"}
        assert ask(link, {"id": "over", "op": "ping"}) == {"id": "over", "results": []}


@pytest.mark.slow
def test_a_client_that_reads_nothing_is_dropped_and_others_do_not_notice(stage: EnvServer, monkeypatch):
    monkeypatch.setattr("rlvr.adapters.serving.serve.PATIENCE", 0.3)
    lazy = opened(stage)
    sessions = sessions_of(lazy, 7)
    items = [{"session": session} for session in sessions]
    ask(lazy, {"id": "r", "op": "reset", "items": items})
    lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with connect(stage.url) as env:
        env.reset(seed=0)
        for turn in range(40):  # the client's own buffers are full after some of these
            lazy.send(json.dumps({"id": f"{turn}", "op": "step", "items": [{**i, "action": "large"} for i in items]}))
            assert env.step("a")[0] == f"{turn + 1}:a"
            if all(not session.owners for key, session in stage.sessions._sessions.items() if key in sessions):
                break
            time.sleep(0.05)
        until(lambda: all(not stage.sessions._sessions[key].owners for key in sessions))
        env.step("a")


def test_a_restart_of_the_server_is_one_clear_error():
    with EnvServer(GUESS, limit=1, token=TOKEN) as server:
        port = server.port
        env = connect(server.url, token=TOKEN)
        env.reset(seed=0)
    with pytest.raises(ConnectionError, match="there is no server at"):
        env.step(SEVEN)
    with EnvServer(GUESS, limit=1, port=port, token=TOKEN):
        assert repr(env.reset(seed=0)) == repr(gym.make(GUESS).unwrapped.reset(seed=0))
        env.step(SEVEN)
    with EnvServer(GUESS, limit=1, port=port, token=TOKEN):
        with pytest.raises(ConnectionError, match="was restarted, and the episodes there are lost: call reset"):
            env.step(SEVEN)
        env.close()


def test_shutting_down_answers_those_who_wait():
    Stage.released.clear()
    server = EnvServer("ours/Stage-v0", limit=1, timeout=None)
    with server:
        env = connect(server.url)
        env.reset(seed=0)
        waiting = ThreadPoolExecutor(1).submit(env.step, "hang")
        until(lambda: server.sessions._under_way)
        Stage.released.set()
    error = waiting.exception(30)  # it may just have got its answer
    assert error is None or isinstance(error, ConnectionError)
    assert not server._thread.is_alive()


# who may come in


def test_a_token_is_asked_for():
    with EnvServer(GUESS, token=TOKEN, limit=2) as server:
        for wrong in (None, "", "x", TOKEN[:-1], TOKEN + "x"):
            with pytest.raises(PermissionError, match="Authorization"):
                connect(server.url, token=wrong)
            status, body = post(server, {"id": "a", "op": "open"}, wrong)
            assert (status, code(body)) == (401, "unauthorised")
        status, body = post(server, {}, path="/health")
        assert status == 404 or "error" in body
        with connect(server.url, token=TOKEN) as env:
            env.reset(seed=0)
        assert post(server, {"id": "a", "op": "open"}, TOKEN)[0] == 200
        status, body = post(server, {"id": "a", "op": "open"}, Authorization=f"Basic {TOKEN}")
        assert status == 401


def test_a_server_makes_a_token_of_its_own_unless_told_otherwise():
    with EnvServer(GUESS, limit=2) as server, EnvServer(GUESS, limit=1) as other:
        assert len({server.token, other.token, ""}) == 3
        assert server.url == f"{server.origin}/?token={server.token}"
        for address in (server.origin, f"{server.origin}/?token={other.token}", f"{server.origin}/?token="):
            with pytest.raises(PermissionError, match="Authorization") as refused:
                connect(address)
            assert other.token not in str(refused.value)
        assert post(server, {"id": "a", "op": "open"})[0] == 401
        with connect(server.url) as env, connect(server.origin, token=server.token) as same:
            assert repr(env.reset(seed=0)) == repr(same.reset(seed=0))
        with pytest.raises(ValueError, match="give one of them"):
            connect(server.url, token=other.token)
        with pytest.raises(ValueError, match=r"\?token=… and env=…, and nothing else"):
            connect(f"{server.origin}/?tokn=x")
    with EnvServer(GUESS, limit=1, token=None) as server, connect(server.url) as env:  # the control
        assert (server.url, server.token) == (server.origin, "")
        env.reset(seed=0)


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append(one) or one == other)
    with EnvServer(GUESS, token=TOKEN, limit=1) as server:
        connect(server.url, token=TOKEN).close()
        with pytest.raises(PermissionError):
            connect(server.url, token="wrong")
    assert compared == [TOKEN.encode(), b"wrong"]


def test_a_web_page_may_not_come_in(guess: EnvServer):
    status, body = post(guess, {"id": "a", "op": "open"}, Origin="http://evil.example")
    assert (status, code(body)) == (403, "forbidden")
    with pytest.raises(InvalidStatus, match="403"):
        opened(guess, Origin="http://evil.example")


@pytest.mark.parametrize(
    ("host", "token"),
    [("0.0.0.0", None), ("::", None), ("example.org", None), ("127.0.0.1", "short"), ("::1", "ü" * 20)],
)
def test_no_server_without_the_token_it_needs(host: str, token: str | None):
    with pytest.raises(ValueError, match="token"):
        EnvServer(GUESS, host=host, token=token)


def test_which_addresses_are_this_machines():
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org", ""))


# what an environment may do wrong


@pytest.mark.parametrize(
    ("action", "found"),
    [("raise", "LookupError: as the action said"), ("exit", "SystemExit"), ("object", "TypeError: object cannot cross"),
     ("huge", "too long for the wire")],
)  # fmt: skip
def test_a_failing_environment_is_told_and_the_server_lives(stage: EnvServer, action: str, found: str):
    with connect(stage.url) as env:
        env.reset(seed=0)
        with pytest.raises(RemoteError, match=found) as failed:
            env.step(action)
        assert failed.value.code == "env_error"
        env.reset(seed=0)
        assert env.step("a")[0] == "1:a"
    vector = connect_vector(stage.url, 2)
    vector.reset(seed=0)
    step = vector.step([action, "b"])
    assert step[0][1] == "1:b"
    assert step[4]["verdict"][0].status == "env_error"
    vector.close()


def test_an_answer_over_the_limit_is_an_error_not_a_frame(stage: EnvServer, monkeypatch):
    vector = connect_vector(stage.url, 8)
    vector.reset(seed=0)
    monkeypatch.setattr("rlvr.adapters.serving.wire.MAX_FRAME", 1 << 10)  # less than one answer has
    with pytest.raises(ValueError, match="bytes, over 1024: ask for fewer"):
        vector.step(["large"] * 8)
    vector.close()


def test_numbers_that_are_not_finite_arrive_in_infos(stage: EnvServer):
    with connect(stage.url) as env:
        env.reset(seed=0)
        _, reward, _, _, info = env.step("inf")
        assert reward == 0.5
        assert info["inf"] == float("-inf")
        assert np.isnan(info["nan"])


@pytest.mark.parametrize("action", ["nan", "billion"])
def test_a_reward_that_is_none_is_a_fault_of_the_environment(stage: EnvServer, action: str):
    with connect(stage.url) as env:
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="a reward must be a number from") as failed:
            env.step(action)
        assert failed.value.code == "env_error"


def test_an_environment_without_text_is_not_served():
    with pytest.raises(ValueError, match="does not speak text"):
        EnvServer("CartPole-v1")
    with pytest.raises(gym.error.Error):
        EnvServer("rlvr/Nothing-v0")
    for wrong in ({"limit": 0}, {"ttl": 0}, {"backend": "sync"}, {"timeout": -1}, {"workers": 0}):
        with pytest.raises(ValueError, match="must be"):
            EnvServer(GUESS, **wrong)


# frames


GOOD = {"id": "a", "op": "ping", "items": []}
BAD = [
    b"", b"\xff\xfe", "{", "[]", "null", "7", '"x"', "[" * 30_000, '{"a":' * 30_000, "1" * 5_000,
    {}, {"id": "a"}, {"op": "ping"}, {**GOOD, "id": 7}, {**GOOD, "id": ""}, {**GOOD, "id": "x" * 65},
    {**GOOD, "op": "exec"}, {**GOOD, "op": ["ping"]}, {**GOOD, "extra": 1}, {"id": "a", "op": "step"},
    {"id": "a", "op": "step", "items": []}, {"id": "a", "op": "step", "items": {}},
    {"id": "a", "op": "step", "items": [7]}, {"id": "a", "op": "step", "items": [{"session": 1, "action": "x"}]},
    {"id": "a", "op": "step", "items": [{"session": "s"}]},
    {"id": "a", "op": "step", "items": [{"session": "s", "action": "x"}] * 2},
    {"id": "a", "op": "step", "items": [{"session": "s", "action": "x", "more": 1}]},
    {"id": "a", "op": "step", "items": [{"session": "s", "action": 5}]},
    {"id": "a", "op": "reset", "items": [{"session": "s", "seed": "5"}]},
    {"id": "a", "op": "reset", "items": [{"session": "s", "seed": True}]},
    {"id": "a", "op": "reset", "items": [{"session": "s", "options": []}]},
    {"id": "a", "op": "call", "items": [{"session": "s", "name": "__class__"}]},
    {"id": "a", "op": "call", "items": [{"session": "s", "name": "set_state", "state": 5}]},
    {"id": "a", "op": "open", "count": 0}, {"id": "a", "op": "open", "count": 10**9},
    {"id": "a", "op": "open", "count": True}, {"id": "a", "op": "open", "items": []},
]  # fmt: skip


def test_what_is_no_request_is_refused_and_the_connection_lives(guess: EnvServer):
    with opened(guess) as link:
        for bad in BAD:
            answer = ask(link, bad)
            assert code(answer) == "bad_request", bad
            assert len(answer["error"]["message"]) <= 500
            data = bad if isinstance(bad, bytes) else (bad if isinstance(bad, str) else json.dumps(bad)).encode()
            assert post(guess, data)[0] == 400
        assert ask(link, {"id": "a", "op": "ping", "items": [{"session": f"{i}"} for i in range(1025)]})["error"][
            "code"
        ] == ("too_large")
        assert ask(link, GOOD) == {"id": "a", "results": []}
        unknown = ask(link, {"id": "b", "op": "step", "items": [{"session": "x" * 32, "action": ""}]})
        assert code(unknown["results"][0]) == "unknown_session"
    assert len(guess.sessions) == 0


def test_a_tag_that_is_none_is_refused(guess: EnvServer):
    with opened(guess) as link:
        (session,) = sessions_of(link, 1)
        for number, options in enumerate(
            ({"$what": 1}, {"index": {"$float": "x"}}, {"a": {"$array": ["O", [1], [1]]}})
        ):
            message = {"id": f"{number}", "op": "reset", "items": [{"session": session, "options": options}]}
            assert code(ask(link, message)["results"][0]) == "invalid"


SHORT = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
REQUESTS = st.fixed_dictionaries(
    {"id": st.text(min_size=1, max_size=8), "op": st.sampled_from(sorted(wire.FIELDS))},
    optional={
        "items": st.lists(JSON, max_size=3) | JSON,
        "count": st.just(-1) | JSON.filter(lambda x: type(x) is not int),
    },
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=60), st.text(max_size=60), JSON, REQUESTS))
def test_no_frame_whatever_ends_the_server(guess: EnvServer, frame: Any):
    if not hasattr(guess, "fuzzed"):
        guess.fuzzed = opened(guess)
    if not isinstance(frame, bytes | str):
        frame = json.dumps(frame)
    elif isinstance(frame, str):
        frame = frame.encode("utf-8", "replace").decode()
    answer = ask(guess.fuzzed, frame)
    assert "error" in answer or "results" in answer or "sessions" in answer
    if "sessions" in answer:
        items = [{"session": session} for session in answer["sessions"]]
        ask(guess.fuzzed, {"id": "c", "op": "close", "items": items})
    assert ask(guess.fuzzed, GOOD) == {"id": "a", "results": []}


ITEMS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.none() | st.integers(),
        "options": st.none() | st.dictionaries(st.sampled_from(["index", "level", "split", "$tuple"]) | SHORT, JSON),
        "action": st.text(),
        "name": st.sampled_from(wire.CALLS),
        "state": SHORT,
    },
)


@given(st.lists(st.tuples(st.sampled_from(["reset", "step", "call", "ping"]), ITEMS), max_size=4))
def test_no_request_whatever_ends_its_session(guess: EnvServer, requests: list[Any]):
    if not hasattr(guess, "session"):
        guess.link = opened(guess)
        (guess.session,) = sessions_of(guess.link, 1)
    for op, item in requests:
        item = {key: value for key, value in item.items() if key in wire.FIELDS[op]} | {"session": guess.session}
        answer = ask(guess.link, {"id": secrets.token_hex(8), "op": op, "items": [item]})
        result = answer if "error" in answer else answer["results"][0]
        assert "error" not in result or code(result) in ("bad_request", "invalid", "reset_needed"), answer
    again = {"id": secrets.token_hex(8), "op": "reset", "items": [{"session": guess.session, "seed": 1}]}
    told = ask(guess.link, again)["results"][0]
    assert (told["observation"], wire.unpack(told["info"])) == gym.make(GUESS, level=3).reset(seed=1)


def test_a_frame_over_the_limit_ends_its_connection_alone(guess: EnvServer, monkeypatch):
    huge = b"x" * (wire.MAX_FRAME + 1)
    with opened(guess) as other:
        with opened(guess) as link:
            with contextlib.suppress(ConnectionClosed):  # it may be shut before all of it is sent
                link.send(huge.decode())
            with pytest.raises(ConnectionClosed):
                link.recv(PATIENCE)
        status, body = post(guess, huge)
        assert (status, code(body)) == (413, "too_large")
        assert ask(other, GOOD) == {"id": "a", "results": []}
    with connect(guess.url) as env:
        env.reset(seed=0)
        with pytest.raises(ValueError, match="over the server's"):
            env.step("x" * wire.MAX_FRAME)
        env.step(SEVEN)


def test_bytes_that_are_no_websocket_or_http(guess: EnvServer):
    for data in (
        b"\x00" * 100,
        b"GET\r\n\r\n",
        b"\x16\x03\x01hello",
        b"POST /v1 HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", guess.port), 10) as raw:
            raw.sendall(data)
            raw.settimeout(10)
            raw.recv(100)
    for path in ("/", "/v1/ws", "/v2"):
        assert post(guess, {}, path=path)[0] in (404, 405)
    assert post(guess, GOOD)[0] == 200


def test_the_same_messages_over_http(guess: EnvServer):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert json.load(opener.open(guess.url + "/health", timeout=10))["status"] == "ok"
    assert json.load(opener.open(guess.url + "/v1", timeout=10))["hello"]["version"] == wire.VERSION
    (session,) = post(guess, {"id": "1", "op": "open"})[1]["sessions"]
    told = post(guess, {"id": "2", "op": "reset", "items": [{"session": session, "seed": 4}]})[1]["results"][0]
    direct = gym.make(GUESS, level=3).unwrapped
    assert (told["observation"], wire.unpack(told["info"])) == direct.reset(seed=4)
    told = post(guess, {"id": "3", "op": "step", "items": [{"session": session, "action": SEVEN}]})[1]["results"][0]
    assert wire.unpack(told["info"]) == direct.step(SEVEN)[4]
    assert post(guess, {"id": "4", "op": "close", "items": [{"session": session}]})[1]["results"] == [{}]
    assert code(post(guess, {"id": "5", "op": "close", "items": [{"session": session}]})[1]["results"][0])


def test_a_client_of_something_else_says_so(guess: EnvServer):
    with pytest.raises(ConnectionError, match="answered 40"):
        connect(guess.url + "/elsewhere")
    with pytest.raises(ConnectionError, match="there is no server"):
        connect("http://127.0.0.1:9")
    for wrong in ("127.0.0.1:80", "ftp://x", "http://"):
        with pytest.raises(ValueError, match="url must be"):
            connect(wrong)
    with pytest.raises(ValueError, match="timeout"):
        connect(guess.url, timeout=0)


# values


VERDICTS = st.builds(
    Verdict,
    st.floats(-1, 1),
    st.sampled_from(["correct", "wrong", "timeout"]),
    st.none() | SHORT,
    SHORT,
    st.dictionaries(SHORT, st.floats(0, 1), max_size=2),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | VERDICTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(SHORT | st.integers() | st.just("$tuple"), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_values_come_back_as_they_left(value: Any):
    back = wire.unpack(json.loads(wire.write({"value": wire.pack(value)}))["value"])
    assert repr(back) == repr(value)


def test_arrays_and_numpys_numbers_cross():
    for array in (np.arange(6, dtype=np.int16).reshape(2, 3), np.array([1.5, np.nan]), np.zeros((0, 2), np.bool_)):
        back = wire.unpack(json.loads(wire.write({"value": wire.pack(array)}))["value"])
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
    assert repr(wire.pack([np.float64(0.5), np.int8(3), np.bool_(True), np.str_("x")])) == "[0.5, 3, True, 'x']"
    for wrong in (object(), {1}, b"x", np.array(["x"], dtype=object)):
        with pytest.raises(TypeError, match="cannot cross"):
            wire.pack(wrong)


def test_every_code_is_an_exception():
    for name in wire.CODES:
        assert str(error_of({"code": name, "message": "why"})) == "why"


# the command


def test_ctrl_c_shuts_the_command_down(child):
    command = [sys.executable, "-m", "rlvr", "serve", GUESS, "--port", "0", "--level", "3", "--sessions", "4"]
    with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line.startswith(f"{GUESS} at http://127.0.0.1:")
        address = line.split()[2]
        assert "/?token=" in address
        with pytest.raises(PermissionError, match="Authorization"):  # which is no fault of the server's, nor in its log
            connect(address.partition("?")[0])
        env = connect(address)
        assert env.reset(seed=1)[1]["level"] == 3
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "rlvr: interrupted\n")
        with pytest.raises(ConnectionError):
            env.step(SEVEN)


def test_the_command_says_what_is_wrong_in_one_line(capsys, tmp_path, monkeypatch):
    empty = tmp_path / "token"
    empty.write_text("\n")
    monkeypatch.setitem(os.environ, "SHORT", "short")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for arguments, said in (
            (["--host", "0.0.0.0", "--no-token"], "token"),
            (["--token-file", str(empty)], "no token in"),
            (["--token-file", str(tmp_path / "none")], "No such file"),
            (["--token-env", "NOT_SET_ANYWHERE"], "no token in"),
            (["--token-env", "SHORT"], "16 characters"),
            (["--port", str(taken.getsockname()[1])], "in use"),
            (["--sessions", "0"], "limit"),
            (["--set", "nothing=1"], "nothing"),
        ):
            assert main(["serve", GUESS, *arguments]) == 2
            err = capsys.readouterr().err
            assert err.startswith("rlvr: ")
            assert err.count("\n") == 1
            assert said in err


def test_nothing_of_the_web_is_imported_with_the_adapters():
    code = "import sys, rlvr.adapters; print([m for m in ('starlette', 'uvicorn', 'websockets') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_sessions_need_no_network():
    async def episode() -> Any:
        sessions = SessionTable(GUESS, limit=1)
        sessions.start()
        (key,) = await sessions.open(wire.WireRequest("o", "open", [], 1), None)
        told = await sessions.play(wire.WireRequest("a", "reset", [{"session": key, "seed": 3}]), None)
        sessions.shutdown()
        closing = await sessions.play(wire.WireRequest("b", "reset", [{"session": key, "seed": 3}]), None)
        return told, closing

    told, closing = asyncio.run(episode())
    assert told[0]["observation"] == gym.make(GUESS).reset(seed=3)[0]
    assert code(closing[0]) in ("unknown_session", "closing")


def test_agents_are_rolled_out_and_measured_in_it(guess: EnvServer):
    requests = task_requests(None, 12, seed=3)
    with connect(guess.url) as env:
        ours = evaluate(Rollout(env, ConstantAgent("\\boxed{500}"), batch_size=4), requests)
    theirs = evaluate(Rollout(GUESS, ConstantAgent("\\boxed{500}"), batch_size=4, env_settings={"level": 3}), requests)
    assert str(ours) == str(theirs)


def test_a_remote_environment_is_a_gymnasium_environment(guess: EnvServer):
    env = connect(guess.url)
    assert isinstance(env, RemoteEnv)
    assert isinstance(env, gym.Env)
    with VectorEnv(lambda: connect(guess.url), 4, backend="thread", timeout=30.0) as vector:
        observations, _ = vector.reset(seed=3)
        assert observations[0] == env.reset(seed=3)[0]
        vector.step([SEVEN] * 4)
    env.close()
    env.close()
