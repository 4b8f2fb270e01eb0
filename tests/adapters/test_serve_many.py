"""One server for several environments: who is asked for what, its limits, what it counts, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from rlvr.adapters import connect, connect_vector
from rlvr.adapters.serving import wire
from rlvr.adapters.serving.connect import RemoteError
from rlvr.adapters.serving.serve import EnvServer
from rlvr.adapters.serving.sessions import SessionTable
from rlvr.cli import main

from ..children import start

GUESS, COUNTDOWN = "rlvr/GuessNumber-v0", "rlvr/Countdown-v0"
SEVEN = "\\boxed{7}"


@pytest.fixture(scope="module")
def several():
    with EnvServer([GUESS, COUNTDOWN], limit=8, token=None, name="a1", processes=[COUNTDOWN], workers=1) as server:
        yield server


def fetched(server: EnvServer, path: str, data: Any = None, **headers: str) -> tuple[int, bytes]:
    body = None if data is None else json.dumps(data).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(server.origin + path, body, headers), timeout=20) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


@pytest.mark.parametrize("env_id", [GUESS, COUNTDOWN])
def test_each_of_several_environments_says_what_it_says_directly(several: EnvServer, env_id: str):
    direct = gym.make(env_id).unwrapped
    with connect(several.url, env=env_id) as env, connect(f"{several.origin}/?env={env_id}") as same:
        assert env.served_id == env_id
        assert env.reset(seed=3) == same.reset(seed=3) == direct.reset(seed=3)
        assert env.step(SEVEN) == same.step(SEVEN) == direct.step(SEVEN)
    with closing(connect_vector(several.url, 2, env=env_id)) as vector:
        assert vector.reset(seed=3)[0][0] == direct.reset(seed=3)[0]


def test_the_same_over_http(several: EnvServer):
    status, body = fetched(several, f"/v1?env={COUNTDOWN}", {"id": "1", "op": "open"})
    (session,) = json.loads(body)["sessions"]
    assert status == 200
    assert session.startswith("a1-")
    reset = {"id": "2", "op": "reset", "items": [{"session": session, "seed": 4}]}
    told = json.loads(fetched(several, f"/v1?env={COUNTDOWN}", reset)[1])["results"][0]
    assert told["observation"] == gym.make(COUNTDOWN).reset(seed=4)[0]
    elsewhere = json.loads(fetched(several, f"/v1?env={GUESS}", reset)[1])["results"][0]  # another table
    assert elsewhere["error"]["code"] == "unknown_session"
    assert json.loads(fetched(several, f"/v1?env={GUESS}")[1])["hello"]["env"]["id"] == GUESS


def test_an_environment_that_is_not_served_is_refused_with_those_that_are(several: EnvServer):
    for address, said in (
        (several.url, "several environments are served here"),
        (f"{several.origin}/?env=os:system", "'os:system' is not served here"),
        (f"{several.origin}/?env=rlvr/Sudoku-v0", "'rlvr/Sudoku-v0' is not served here"),
    ):
        with pytest.raises(RemoteError, match=said) as refused:
            connect(address)
        assert refused.value.code == "not_found"
        assert GUESS in str(refused.value)
    assert fetched(several, "/v1", {"id": "1", "op": "open"})[0] == 404
    with pytest.raises(ValueError, match="give one of them"):
        connect(f"{several.origin}/?env={GUESS}", env=COUNTDOWN)
    with pytest.raises(ValueError, match="different"):
        EnvServer([GUESS, GUESS])
    with pytest.raises(ValueError, match="is not served"):
        EnvServer([GUESS], processes=[COUNTDOWN])


def test_a_module_that_was_not_allowed_is_not_served(capsys):
    assert main(["serve", GUESS, "antigravity:Env-v0"]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert "antigravity" not in sys.modules


def test_a_session_of_another_server_is_told_apart(several: EnvServer):
    step = {"id": "1", "op": "step", "items": [{"session": f"b2-{'0' * 32}", "action": SEVEN}]}
    error = json.loads(fetched(several, f"/v1?env={GUESS}", step)[1])["results"][0]["error"]
    assert (error["code"], "server b2" in error["message"]) == ("unknown_session", True)
    with pytest.raises(ValueError, match="a server's name"):
        EnvServer(GUESS, name="no spaces")


def test_a_session_has_its_steps_and_its_time():
    with (
        EnvServer(GUESS, {"max_turns": 100}, limit=2, session_steps=2, token=None) as server,
        connect(server.url) as env,
    ):
        env.reset(seed=0)
        for _ in range(2):
            env.step("no number")
        with pytest.raises(RemoteError, match="2 steps") as refused:
            env.step("no number")
        assert refused.value.code == "quota"
        env.reset(seed=0)  # in another session
        env.step("no number")
    now = [0.0]
    table = SessionTable(GUESS, limit=1, session_seconds=10.0, clock=lambda: now[0])
    table._sessions["s"] = session = type("S", (), {"owners": {1}, "used": 0.0, "born": 0.0, "index": 0})()
    now[0] = session.used = 10.5  # in use all the time
    table._leave = lambda index: None
    assert (table.sweep(), len(table)) == (1, 0)
    table.shutdown()
    with pytest.raises(ValueError, match="above 0"):
        SessionTable(GUESS, session_steps=0)


def test_metrics_count_what_was_played(several: EnvServer):
    prometheus = pytest.importorskip("prometheus_client.parser")

    def read() -> dict[tuple[str, ...], float]:
        status, body = fetched(several, "/metrics")
        assert status == 200
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in prometheus.text_string_to_metric_families(body.decode())
            for sample in family.samples
        }

    until(lambda: read()["rlvr_sessions", GUESS] == 0)
    before = read()
    with closing(connect_vector(several.url, 3, env=GUESS)) as vector:
        vector.reset(seed=0)
        vector.step([SEVEN] * 3)
        during = read()
    assert during["rlvr_sessions", GUESS] == 3
    assert during["rlvr_sessions_limit", GUESS] == 8
    grown = {key: value - before.get(key, 0.0) for key, value in during.items()}
    assert grown["rlvr_items_total", "", GUESS, "step"] == grown["rlvr_step_seconds_count", GUESS] == 3
    assert grown["rlvr_sessions_opened_total", GUESS] == 3
    assert grown["rlvr_sessions_opened_total", COUNTDOWN] == 0
    with EnvServer(GUESS, limit=1, token="sixteen-or-more-letters") as server:
        assert fetched(server, "/metrics")[0] == 401
        assert fetched(server, "/metrics", Authorization="Bearer sixteen-or-more-letters")[0] == 200


def test_a_drain_lets_episodes_end_and_begins_none():
    with EnvServer(GUESS, {"level": 1, "max_turns": 3}, limit=4, token=None) as server:
        playing, idle = connect(server.url), connect(server.url)
        playing.reset(seed=0)
        idle.reset(seed=0)
        idle.close()
        assert fetched(server, "/ready")[0] == fetched(server, "/health")[0] == 200
        server.drain()
        until(lambda: fetched(server, "/ready")[0] == 503)
        assert json.loads(fetched(server, "/health")[1]) == {"status": "draining", "ready": False, "draining": True}
        with connect(server.url) as late, pytest.raises(ConnectionError, match="begins nothing new"):
            late.reset(seed=0)
        ends = [playing.step("no number")[3] for _ in range(3)]  # the episode goes on
        assert ends == [False, False, True]
        assert server._thread is not None
        server._thread.join(30)
        assert not server._thread.is_alive()
        with pytest.raises(ConnectionError):
            playing.reset(seed=1)


def test_an_episode_over_the_limit_of_a_drain_is_a_fault():
    with EnvServer(GUESS, limit=1, token=None, drain=0.2) as server, connect(server.url) as env:
        env.reset(seed=0)
        server.drain()
        assert server._thread is not None
        server._thread.join(30)
        assert server.sessions.metrics.cut == 1
        with pytest.raises(ConnectionError):
            env.step(SEVEN)


def test_sigterm_drains_the_command_and_another_ends_it(child):
    command = [sys.executable, "-m", "rlvr", "serve", GUESS, COUNTDOWN, "--port", "0", "--no-token"]
    for signals, status in ((1, 0), (2, -signal.SIGTERM)):
        with child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            line = process.stdout.readline()
            assert line.startswith(f"{GUESS}, {COUNTDOWN} at http://127.0.0.1:")
            env = connect(line.split()[3], env=GUESS)
            env.reset(seed=0)
            process.send_signal(signal.SIGTERM)
            until_refused(line.split()[3])
            env.step(SEVEN)  # the episode goes on
            if signals == 2:
                process.send_signal(signal.SIGTERM)
            else:
                env.close()
            assert process.wait(60) == status


def until_refused(url: str) -> None:
    """Wait until a new episode is refused."""

    def refused() -> bool:
        try:
            with connect(url, env=GUESS) as env:
                env.reset(seed=0)
        except ConnectionError:
            return True
        return False

    until(refused)


def test_two_clients_with_one_session_are_played_in_turn(several: EnvServer):
    """What one has under way is not disturbed, and no step is played twice."""
    (session,) = json.loads(fetched(several, f"/v1?env={GUESS}", {"id": "o", "op": "open"})[1])["sessions"]
    item = {"session": session, "seed": 0}
    fetched(several, f"/v1?env={GUESS}", {"id": "r", "op": "reset", "items": [item]})
    answers: list[Any] = []

    def play(client: str) -> None:
        for number in range(5):
            step = {"id": f"{client}{number}", "op": "step", "items": [{"session": session, "action": "no number"}]}
            answers.extend(json.loads(fetched(several, f"/v1?env={GUESS}", step)[1])["results"])

    clients = [threading.Thread(target=play, args=(name,)) for name in "ab"]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    played = [answer for answer in answers if "error" not in answer]
    assert {answer["error"]["code"] for answer in answers if "error" in answer} <= {"busy", "reset_needed"}
    turns = [wire.unpack(answer["info"]).get("turn") for answer in played]
    assert len(set(turns)) == len(turns) == max(turns)


WHOLE, HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"POST /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"


@pytest.mark.parametrize(("before", "sent"), [(b"", b""), (b"", HALF), (WHOLE, HALF)], ids=["none", "half", "second"])
def test_who_never_says_what_it_asks_for_is_cut_off_and_others_are_not(monkeypatch, before: bytes, sent: bytes):
    """Without a token too: a few hundred of them would hold every file descriptor of the server."""
    monkeypatch.setattr("rlvr.adapters.serving.web_server.HEAD_SECONDS", 0.3)
    with EnvServer(GUESS, token=None) as server, connect(server.url) as env:
        env.reset(seed=0)
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.settimeout(30)
            slow.sendall(before)
            while before and b'"ready"' not in slow.recv(4096):
                pass
            slow.sendall(sent)
            assert slow.recv(4096) == b""
        assert env.step(SEVEN)[4]["verdict"].valid  # whose connection is older, and long past that time


SKEWED = """
import sys, threading, time
shift, true = [float(sys.argv[1])], time.time
time.time = lambda: true() + shift[0]
time.time_ns = lambda: int(time.time() * 1e9)
from rlvr.adapters.serving.serve import EnvServer
with EnvServer("rlvr/GuessNumber-v0", limit=1, ttl=600.0, session_seconds=600.0, token=None) as server:
    print(server.url, flush=True)
    for line in sys.stdin:
        shift[0] = float(line)
        for table in server.tables.values():
            assert table.sweep() == 0
        print(time.time(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [315_360_000.0, -315_360_000.0])
def test_a_server_whose_clock_is_wrong_and_jumps_keeps_its_sessions(ahead: float):
    command = [sys.executable, "-c", SKEWED, str(ahead)]
    process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        with connect(process.stdout.readline().strip()) as env, gym.make(GUESS) as direct:
            assert env.reset(seed=5) == direct.reset(seed=5)
            for shift in (-ahead, 2 * ahead, 0.0):
                process.stdin.write(f"{shift}\n")
                process.stdin.flush()
                assert abs(float(process.stdout.readline()) - time.time() - shift) < 600.0
                assert env.step("no number") == direct.step("no number")
    finally:
        process.kill()
        process.communicate()
