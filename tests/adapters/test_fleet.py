"""A vector environment over several servers: what a death costs, that no step is doubled, and where sessions go."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")


from rlvr.adapters import connect_vector
from rlvr.adapters.fleet import cluster, members
from rlvr.adapters.serving import sessions as serving_sessions
from rlvr.adapters.serving.serve import EnvServer

from .hostile import Breaking, saying

GUESS = "rlvr/GuessNumber-v0"
SETTINGS = {"level": 3, "max_turns": 12}
NOTHING = "no number"


def server(port: int = 0, env_id: str = GUESS, limit: int = 64, **others: Any) -> EnvServer:
    settings = others.pop("settings", SETTINGS if env_id == GUESS else None)
    return EnvServer(env_id, settings, limit=limit, token=None, port=port, drain=others.pop("drain", 0), **others)


@contextlib.contextmanager
def servers(count: int, **others: Any) -> Iterator[list[EnvServer]]:
    running = [server(**others).__enter__() for _ in range(count)]
    try:
        yield running
    finally:
        for one in running:
            one.__exit__()


@contextlib.contextmanager
def vector_of(addresses: Any, count: int, **settings: Any) -> Iterator[Any]:
    vector = connect_vector(addresses, count, **settings)
    try:
        yield vector
    finally:
        vector.close()


def urls(running: list[EnvServer]) -> list[str]:
    return [one.url for one in running]


def sessions(vector: Any) -> list[int]:
    return [member.sessions for member in vector._members.all]


def kill(one: EnvServer) -> None:
    """End a server as a crash does: at once, with its port free for another."""
    one._uvicorn.force_exit = True
    one.__exit__()


class Tally:
    """What each session saw: turns one after the other, and one end for each beginning."""

    def __init__(self, count: int) -> None:
        self.turns = [0] * count
        self.over = [True] * count
        self.begun = self.ended = self.faults = 0

    def reset(self, infos: Any) -> None:
        for index in range(len(self.turns)):
            self._begin(index)

    def _begin(self, index: int) -> None:
        assert self.over[index], "an episode began before the last one ended"
        self.over[index], self.turns[index] = False, 0
        self.begun += 1

    def step(self, told: Any) -> list[int]:
        """Check a step of all (NextStep); which ended by a fault."""
        _, _, terminations, truncations, infos = told
        faulty = []
        for index, info in enumerate(infos.rows):
            if self.over[index]:
                self._begin(index)
                assert not terminations[index] | truncations[index]
                continue
            verdict = info["verdict"]
            if not verdict.valid:
                faulty.append(index)
                assert (verdict.reward, verdict.status, truncations[index]) == (0.0, "env_error", True)
            else:
                self.turns[index] += 1
                assert info["turn"] == self.turns[index], "a step was lost, or played twice"
            self.over[index] = bool(terminations[index] or truncations[index])
            self.ended += self.over[index]
        self.faults += len(faulty)
        assert self.begun - self.ended == self.over.count(False)
        return faulty


def test_sessions_are_spread_and_play_as_directly():
    with servers(3) as running, vector_of(urls(running), 12) as vector:
        direct = gym.make(GUESS, **SETTINGS)
        observations, _ = vector.reset(seed=5)
        assert sessions(vector) == [4, 4, 4]
        for index in (0, 5, 11):
            assert observations[index] == direct.reset(seed=5 + index)[0]
            told = direct.step("\\boxed{7}")
        assert vector.step(["\\boxed{7}"] * 12)[0][11] == told[0]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_death_costs_the_episodes_there_and_no_others(mode: str):
    with servers(3) as running, vector_of(urls(running), 12, autoreset_mode=mode) as vector:
        vector.reset(seed=0)
        vector.step([NOTHING] * 12)
        there = {i for i, remote in enumerate(vector._remotes) if remote.member.url == running[1].url}
        kill(running[1])
        _, rewards, _, truncated, infos = vector.step([NOTHING] * 12)
        assert set(np.flatnonzero(truncated)) == there
        assert not rewards[list(there)].any()
        for index, info in enumerate(infos.rows):
            assert info["verdict"].valid == (index not in there)
        for _ in range(3):  # the others went on with their second turn, those began anew elsewhere
            _, _, _, truncated, infos = vector.step([NOTHING] * 12)
            assert not truncated.any()
        assert {infos.rows[index]["turn"] for index in range(12) if index not in there} == {5}
        assert sessions(vector) == [6, 0, 6]


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("where", ["before", "middle", "after"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_connection_that_breaks_in_a_step_doubles_none(direction: str, where: str, gone: bool):
    with servers(2) as running, Breaking(running[0].port, direction, 5, where, True, gone) as broken:
        with vector_of([broken.url, running[1].url], 6) as vector:
            tally = Tally(6)
            tally.reset(vector.reset(seed=0)[1])
            for _ in range(30):
                tally.step(vector.step([NOTHING] * 6))
        assert broken.broken.is_set()
        assert tally.faults == (3 if gone else 0)  # else it is asked again, and plays the step once


def test_a_server_that_comes_back_gets_its_share():
    with servers(2) as running, vector_of(urls(running), 8) as vector:
        tally = Tally(8)
        tally.reset(vector.reset(seed=0)[1])
        kill(running[0])
        tally.step(vector.step([NOTHING] * 8))
        assert tally.faults == 4
        running[0] = server(running[0].port).__enter__()
        until = time.monotonic() + 60
        while sessions(vector) != [4, 4]:
            assert time.monotonic() < until
            tally.step(vector.step([NOTHING] * 8))
        assert tally.faults == 4, "coming back costs no episode"


def test_a_draining_server_is_left_without_a_fault():
    with servers(2, drain=60.0) as running, vector_of(urls(running), 6) as vector:
        tally = Tally(6)
        tally.reset(vector.reset(seed=0)[1])
        running[0].drain()
        for _ in range(40):
            tally.step(vector.step([NOTHING] * 6))
        assert (tally.faults, sessions(vector)[1]) == (0, 6)
        running[0]._thread.join(30)
        assert not running[0]._thread.is_alive()


def test_servers_of_different_things_are_none():
    different = pytest.raises(ValueError, match="serves something else: level is")
    with servers(1) as running, server(settings={"level": 1}) as other, different:
        connect_vector([running[0].url, other.url], 2)
    with pytest.raises(ConnectionError):
        connect_vector(["http://127.0.0.1:9", "http://127.0.0.1:10"], 2)
    with pytest.raises(ValueError, match="one address at least"):
        connect_vector([], 2)


def test_no_room_and_no_server_are_one_clear_error(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with servers(2, limit=3) as running, vector_of(urls(running), 6) as vector:
        vector.reset(seed=0)
        assert sessions(vector) == [3, 3]
        for one in running:
            kill(one)
        with pytest.raises(ConnectionError, match="no server has taken a session"):
            vector.reset(seed=0)
    full = pytest.raises(ConnectionError, match="takes no more sessions")
    with servers(2, limit=3) as running, vector_of(urls(running), 7) as vector, full:
        vector.reset(seed=0)


def test_every_address_of_a_name_is_a_server():
    with servers(1) as running, vector_of(f"dns+http://localhost:{running[0].port}", 3) as vector:
        assert vector.reset(seed=0)[0][2] == gym.make(GUESS, **SETTINGS).reset(seed=2)[0]
        assert sum(sessions(vector)) == 3


@pytest.mark.parametrize("wrong", ["twice", "another", "half", "version"])
def test_a_server_that_answers_wrongly_costs_its_own_episodes(wrong: str):
    """Twice, for another request, half a message, or by another version after it came back."""
    asked = []

    def say(kind: str, message: Any) -> Any:
        asked.append(kind)
        if kind == "hello":
            message["hello"]["version"] += wrong == "version" and "step" in asked
        if kind != "step":
            return message
        match wrong:
            case "twice":
                return [message, message]
            case "another":
                return message | {"id": "another"}
            case "half":
                return '{"id": "a", "resul'
        return b""

    with (
        saying(say) as first,
        saying(lambda kind, message: message) as second,
        vector_of([first, second], 4) as vector,
    ):
        vector.reset(seed=0)
        _, _, _, truncated, infos = vector.step(["x"] * 4)
        faulty = [not info["verdict"].valid for info in infos.rows]
        assert sum(faulty) == truncated.sum() == (0 if wrong == "twice" else 2)
        assert not vector.step(["x"] * 4)[3].any()


def test_a_client_that_vanishes_with_a_thousand_sessions(monkeypatch):
    monkeypatch.setattr(serving_sessions, "GONE_SECONDS", 0.05)
    with server(limit=1000) as one:
        first = connect_vector(one.url, 1000)
        first.reset(seed=0)
        assert len(one.sessions) == 1000
        first._connection._link.socket.shutdown(socket.SHUT_RDWR)  # no leave is taken
        with vector_of(one.url, 1000) as second:
            assert second.reset(seed=1)[0][0] == gym.make(GUESS, **SETTINGS).reset(seed=1)[0]
            assert len(one.sessions) == 1000


@pytest.mark.slow
def test_processes_are_killed_under_load_and_no_episode_is_lost_or_doubled(child):
    """The short form of benchmarks/failover.py."""
    with contextlib.ExitStack() as stack:

        def start(port: int) -> Any:
            command = [sys.executable, "-m", "rlvr", "serve", GUESS, "--port", str(port), "--no-token"]
            command += ["--set", "max_turns=12"]
            process = stack.enter_context(child(command, stdout=subprocess.PIPE, text=True))
            return process, process.stdout.readline().split()[2]

        running = [start(0) for _ in range(3)]
        with vector_of([url for _, url in running], 12) as vector:
            tally = Tally(12)
            tally.reset(vector.reset(seed=0)[1])
            for victim in (0, 1, 2, 0):
                for _ in range(15):
                    tally.step(vector.step([NOTHING] * 12))
                process, url = running[victim]
                there = {i for i, remote in enumerate(vector._remotes) if remote and remote.member.url == url}
                process.send_signal(signal.SIGKILL)
                process.wait()
                assert set(tally.step(vector.step([NOTHING] * 12))) <= there
                running[victim] = start(int(url.rpartition(":")[2]))
                until = time.monotonic() + 60
                while not all(sessions(vector)):
                    assert time.monotonic() < until
                    assert tally.step(vector.step([NOTHING] * 12)) == []
            assert 0 < tally.faults <= 4 * 12


def test_a_server_that_left_its_name_is_forgotten_and_a_new_one_is_found(monkeypatch):
    """A name of a cluster's: where a pod dies, another has a new address, and the old one is nobody's."""
    real, lookups = socket.getaddrinfo, [0]
    addresses = ["127.0.0.1", "127.0.0.2"]

    def lookup(host: Any, port: Any, *args: Any, **others: Any) -> Any:
        if host != "fleet.test":
            return real(host, port, *args, **others)
        lookups[0] += 1
        if not addresses:
            raise OSError("no name server answers")
        return [entry for address in addresses for entry in real(address, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr(members, "LOOKUP_SECONDS", 1e6)
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(server(host="127.0.0.1", hosts=["fleet.test"]))
        two = server(one.port, host="127.0.0.2", hosts=["fleet.test"]).__enter__()
        vector = stack.enter_context(vector_of(f"dns+http://fleet.test:{one.port}", 8))
        tally = Tally(8)
        tally.reset(vector.reset(seed=0)[1])
        assert sessions(vector) == [4, 4]
        kill(two)
        tally.step(vector.step([NOTHING] * 8))
        two, until = server(one.port, host="127.0.0.2", hosts=["fleet.test"]).__enter__(), time.monotonic() + 60
        while sessions(vector) != [4, 4]:
            assert time.monotonic() < until
            tally.step(vector.step([NOTHING] * 8))
        assert lookups == [1], "a name is not looked up at each try"
        found = addresses.copy()
        addresses.clear()  # a name that is not answered forgets nobody
        monkeypatch.setattr(members, "LOOKUP_SECONDS", 0.1)
        kill(two)
        while lookups[0] < 4:
            assert time.monotonic() < until
            tally.step(vector.step([NOTHING] * 8))
        assert [member.ip for member in vector._members.all] == found
        stack.enter_context(server(one.port, host="127.0.0.3", hosts=["fleet.test"]))
        addresses += ["127.0.0.1", "127.0.0.3"]
        while [member.ip for member in vector._members.all] != addresses or sessions(vector) != [4, 4]:
            assert time.monotonic() < until
            tally.step(vector.step([NOTHING] * 8))
        assert tally.faults == 8


def test_an_episode_that_begins_on_a_server_that_dies_before_all_have_begun_begins_elsewhere(monkeypatch):
    with servers(2) as running, vector_of(urls(running), 8) as vector:
        expected = vector.reset(seed=5)[0]
        asked, dead = vector._asked, []

        def then_it_dies(op, fields):
            results = asked(op, fields)
            if op == "reset" and not dead:
                dead.append(vector._members.all[0])
                vector._lose(dead[0], "it died")
            return results

        monkeypatch.setattr(vector, "_asked", then_it_dies)
        assert vector.reset(seed=5)[0] == expected
        infos = vector.step([NOTHING] * 8)[4]
        assert dead
        assert all(info["verdict"].valid for info in infos.rows)
