"""What hostile clients do to a server: how much of it they get is counted, and what the others get beside them."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect as open_socket

from rlvr.adapters import connect
from rlvr.adapters.serving import web_server, wire
from rlvr.adapters.serving.guard import LOGGED_AT_ONCE, MAX_LOGGED, Allowance, LimitedLog
from rlvr.adapters.serving.loopback import LARGE_BODY, LoopbackServer
from rlvr.adapters.serving.serve import EnvServer
from rlvr.envs.core.spaces import Text

GUESS = "rlvr/GuessNumber-v0"
PATIENCE = 120.0  # seconds for an answer; a busy machine must not fail a test
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Large(gym.Env[str, str]):
    """Observations of a megabyte, and faults that its action asks for."""

    observation_space = action_space = Text(1 << 20)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "go", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action.startswith("raise"):
            raise LookupError(action)
        return "x" * (1 << 20), 0.0, False, False, {}


@pytest.fixture(scope="module")
def server():
    gym.register("floods/Large-v0", entry_point=Large, disable_env_checker=True)
    with EnvServer([GUESS, "floods/Large-v0"], limit=16, token=None) as server:
        yield server
    gym.registry.pop("floods/Large-v0")


def opened(server: EnvServer, env: str = GUESS) -> Any:
    """A bare WebSocket, after its greeting."""
    address = f"{server.url.replace('http', 'ws')}{wire.SOCKET_PATH}?env={env}"
    link = open_socket(
        address, proxy=None, compression=None, max_size=None, max_queue=None, ping_interval=None
    ).__enter__()
    assert "hello" in json.loads(link.recv(PATIENCE))
    return link


def ask(link: Any, message: Any) -> Any:
    link.send(json.dumps(message))
    return json.loads(link.recv(PATIENCE))


def frames(opcode: Opcode, data: bytes, count: int, *, end: bool = True) -> bytes:
    """So many frames of a client."""
    return Frame(opcode, data, end).serialize(mask=True) * count


def drain(link: socket.socket) -> bytes:
    """What comes until the other side closes."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while data := link.recv(1 << 16):
            got += data
    return got


def until_closed(link: Any) -> None:
    while True:
        link.recv(PATIENCE)


def send_forever(link: socket.socket, data: bytes) -> None:
    while True:
        link.sendall(data)


# with a token


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [frames(Opcode.TEXT, b"{", 1), frames(Opcode.TEXT, b"", 1), frames(Opcode.BINARY, b"\xff\xfe", 1),
     frames(Opcode.TEXT, b'{"id": "a", "op": "none"}', 1)],
    ids=["no JSON", "empty", "binary", "no request"],
)  # fmt: skip
def test_who_sends_what_is_no_request_is_listened_to_more_and_more_slowly(server: EnvServer, data: bytes):
    ended, asked = threading.Event(), 2 * web_server.REFUSALS
    with opened(server) as bad, connect(server.url, env=GUESS) as env:
        env.reset(seed=0)

        def pour() -> None:
            with contextlib.suppress(OSError):
                while not ended.is_set():
                    bad.socket.sendall(data * 1000)

        thread = threading.Thread(target=pour)
        thread.start()
        began = time.monotonic()
        for _ in range(asked):
            assert "error" in json.loads(bad.recv(PATIENCE))
            if any(env.step("\\boxed{7}")[2:4]):
                env.reset(seed=0)
        # What is above the allowance takes its time, however fast the machine is; 32 are under way at once.
        least = (asked - web_server.REFUSALS - wire.MAX_UNDER_WAY - 10) / web_server.REFUSALS_A_SECOND
        assert time.monotonic() - began > least > 1.0
        ended.set()
        bad.socket.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


def test_a_client_whose_messages_are_refused_goes_on(server: EnvServer):
    """The control: few of them cost nothing, and more of them some time, not the connection."""
    with opened(server) as link:
        for number in range(2 * web_server.REFUSALS):
            link.send("{")
            assert json.loads(link.recv(PATIENCE))["error"]["code"] == "bad_request", number
        assert ask(link, {"id": "a", "op": "ping"}) == {"id": "a", "results": []}


@pytest.mark.parametrize(
    "data",
    [frames(Opcode.PING, b"", 20_000), frames(Opcode.PONG, b"", 20_000), frames(Opcode.PING, b"x" * 125, 5_000),
     frames(Opcode.TEXT, b"{", 1, end=False) + frames(Opcode.CONT, b"", 20_000, end=False)],
    ids=["pings", "pongs", "large pings", "fragments"],
)  # fmt: skip
def test_a_flood_of_frames_that_ask_for_nothing_ends_its_connection(server: EnvServer, data: bytes):
    with opened(server) as other:
        link = opened(server)
        with contextlib.suppress(OSError):
            link.socket.sendall(data)
        with pytest.raises(ConnectionClosed) as closed:
            until_closed(link)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1008  # the reset may overtake the reason
        assert ask(other, {"id": "a", "op": "ping"}) == {"id": "a", "results": []}


def test_pings_and_large_fragments_of_an_honest_client_are_taken(server: EnvServer):
    with opened(server) as link:
        for _ in range(web_server.IDLE_FRAMES - 50):
            assert link.ping().wait(PATIENCE)
        link.send([" " * web_server.SMALL_FRAGMENT] * 2 * web_server.IDLE_FRAMES + ['{"id": "a", "op": "ping"}'])
        assert json.loads(link.recv(PATIENCE)) == {"id": "a", "results": []}


@pytest.mark.slow
def test_large_answers_again_and_again_let_others_have_their_turn(server: EnvServer, monkeypatch):
    """Their texts are made beside the event loop, one at a time: before, all 32 were made before anybody's turn."""
    texts: list[int] = []
    fitting = wire.fitting

    def counted(message: dict[str, Any]) -> str:
        text = fitting(message)
        if len(text) > 1 << 20:
            time.sleep(0.05)
            texts.append(len(text))
        return text

    monkeypatch.setattr("rlvr.adapters.serving.serve.fitting", counted)
    with opened(server, "floods/Large-v0") as link, connect(server.url, env=GUESS) as env:
        env.reset(seed=0)
        items = [{"session": name} for name in ask(link, {"id": "o", "op": "open", "count": 4})["sessions"]]
        ask(link, {"id": "r", "op": "reset", "items": items})
        step = {"id": "s", "op": "step", "items": [{**item, "action": ""} for item in items]}
        assert len(ask(link, step)["results"][0]["observation"]) == 1 << 20
        texts.clear()
        for _ in range(wire.MAX_UNDER_WAY):
            link.send(json.dumps(step))
        while not texts:
            time.sleep(0.001)
        env.step("\\boxed{7}")
        assert len(texts) < wire.MAX_UNDER_WAY // 2
        for _ in range(wire.MAX_UNDER_WAY):
            link.recv(PATIENCE)


# without a token


def test_connections_that_say_nothing_give_way_to_those_that_do(monkeypatch):
    monkeypatch.setattr("rlvr.adapters.serving.serve.WAITING", 20)
    with EnvServer(GUESS, limit=1) as server, contextlib.ExitStack() as stack:
        env = stack.enter_context(connect(server.url))
        env.reset(seed=0)
        silent = []
        for number in range(60):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            link.settimeout(PATIENCE)
            link.sendall([b"", b"GET /v1 HTT", HEALTH[:-2] + b"X-A: b", b"\x16\x03\x01"][number % 4 if number else 0])
            silent.append(link)
        for link in silent[:36]:
            assert b"200" not in drain(link)
        with contextlib.closing(socket.create_connection(("127.0.0.1", server.port))) as late:
            late.settimeout(PATIENCE)
            late.sendall(HEALTH.replace(b"Host", b"Connection: close\r\nHost"))
            assert b'"ready":true' in drain(late)
        assert env.step("\\boxed{7}")[4]["verdict"].valid


@pytest.mark.slow
def test_who_takes_no_answers_is_cut_off_without_a_token_too(monkeypatch):
    monkeypatch.setattr("rlvr.adapters.serving.web_server.PATIENCE", 0.3)
    with EnvServer(GUESS, limit=1) as server, connect(server.url) as env:
        env.reset(seed=0)
        with socket.socket() as link:
            # Before it connects: Linux loses segments of a connection whose buffer shrinks under what it announced.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.settimeout(PATIENCE)
            link.connect(("127.0.0.1", server.port))
            with pytest.raises(ConnectionError):
                send_forever(link, HEALTH * 100)
        assert env.step("\\boxed{7}")[4]["verdict"].valid


# servers of the loopback: the policy endpoint, the generation server, the viewer


def asked(server: LoopbackServer, body: bytes = b"{}") -> int:
    """The status of a request with the server's key."""
    request = urllib.request.Request(server.url, body, {"Authorization": f"Bearer {server.key}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE) as reply:
        return int(reply.status)


def test_idle_connections_of_a_loopback_server_give_way(monkeypatch):
    monkeypatch.setattr("rlvr.adapters.serving.loopback.MAX_CONNECTIONS", 20)
    server = LoopbackServer(lambda request: {})
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        port = int(server.url.rpartition(":")[2])
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(60)]
        for link in idle[20:]:
            with contextlib.suppress(OSError):  # it may be cut off already
                link.sendall(HEALTH[:-2])
        assert [asked(server) for _ in range(5)] == [200] * 5
        for link in idle[:40]:
            link.settimeout(PATIENCE)
            assert drain(link) == b""


def test_who_is_served_by_a_loopback_server_gives_way_to_nobody(monkeypatch):
    monkeypatch.setattr("rlvr.adapters.serving.loopback.MAX_CONNECTIONS", 3)
    go, came = threading.Event(), threading.Semaphore(0)

    def answer(request: Any) -> dict[str, Any]:
        came.release()
        return {"went": go.wait(PATIENCE)}

    server = LoopbackServer(answer)
    with contextlib.closing(server), ThreadPoolExecutor(3) as pool, contextlib.ExitStack() as stack:
        served = [pool.submit(asked, server) for _ in range(3)]
        for _ in served:
            assert came.acquire(timeout=PATIENCE)
        port = int(server.url.rpartition(":")[2])
        for _ in range(10):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            link.settimeout(PATIENCE)
            assert drain(link) == b""
        go.set()
        assert [each.result(PATIENCE) for each in served] == [200] * 3


def test_a_large_body_that_arrives_slowly_keeps_no_other_waiting():
    server = LoopbackServer(lambda request: {})
    with contextlib.closing(server), contextlib.ExitStack() as stack:
        address = "127.0.0.1", int(server.url.rpartition(":")[2])
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
        head += "Content-Length: 9000000\r\n\r\n"
        for _ in range(4):
            stack.enter_context(socket.create_connection(address)).sendall(head.encode())
        assert asked(server, b'{"x": "' + b"y" * (LARGE_BODY + 1) + b'"}') == 200


# the log


def record(line: int = 1, message: str = "%s", *arguments: Any, **fields: Any) -> logging.LogRecord:
    return logging.LogRecord("rlvr.serve", logging.WARNING, "serve.py", line, message, arguments, None, **fields)


def test_a_line_of_code_logs_so_often_and_says_how_often_it_did_not():
    log = LimitedLog()
    passed = [each for each in (record(1, "%d", number) for number in range(100_000)) if log.filter(each)]
    assert LOGGED_AT_ONCE <= len(passed) <= LOGGED_AT_ONCE + 10
    assert sum(len(each.getMessage()) for each in passed) < 1000
    assert log.filter(record(2, "another line"))
    for allowance in log._lines.values():
        allowance._then -= 60
    again = record(1, "%d", 7)
    assert log.filter(again)
    left_out = 100_000 - len(passed)
    assert again.getMessage() == f"7 ({left_out} more like this were not logged)"


def test_a_record_is_cut():
    try:
        raise ValueError("y" * 100_000)
    except ValueError as error:
        large = record(1, "%s", "x" * 100_000)
        large.exc_info = type(error), error, error.__traceback__
    assert LimitedLog().filter(large)
    assert len(logging.Formatter().format(large)) < 3 * MAX_LOGGED
    assert "ValueError" in (large.exc_text or "")


def test_an_allowance_comes_back_with_time():
    now = [0.0]
    allowance = Allowance(2, 0.5, lambda: now[0])
    assert [allowance.take() for _ in range(3)] == [True, True, False]
    now[0] = 2.0
    assert [allowance.take(), allowance.take()] == [True, False]
    now[0] = 1000.0
    assert [allowance.take() for _ in range(3)] == [True, True, False]


def test_faults_that_a_client_asks_for_do_not_fill_the_log(server: EnvServer, caplog):
    for log in logging.Logger.manager.loggerDict.values():  # what other tests logged counts no more
        for limit in getattr(log, "filters", ()):
            if isinstance(limit, LimitedLog):
                limit._lines.clear()
    with opened(server, "floods/Large-v0") as link:
        (session,) = ask(link, {"id": "o", "op": "open"})["sessions"]
        ask(link, {"id": "r", "op": "reset", "items": [{"session": session}]})
        for number in range(200):
            item = {"session": session, "action": "raise " + "x" * 10_000}
            answer = ask(link, {"id": f"{number}", "op": "step", "items": [item]})
            assert answer["results"][0]["error"]["code"] == "env_error"
    assert 0 < len(caplog.records) < 100
    assert sum(len(each.getMessage()) for each in caplog.records) < 300_000
