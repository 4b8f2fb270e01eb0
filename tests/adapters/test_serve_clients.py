"""What a client may do to a server: bombs, copies of requests, names of others, going away."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

from websockets.sync.client import connect as open_socket

from rlvr.adapters import connect, connect_vector
from rlvr.adapters.serving import serve, sessions, wire
from rlvr.adapters.serving.bounded_json import TooManyValues, read_object
from rlvr.adapters.serving.connect import RemoteError
from rlvr.adapters.serving.guard import without_paths, wrong_host
from rlvr.adapters.serving.loopback import LoopbackServer
from rlvr.adapters.serving.policy_endpoint import PolicyEndpoint
from rlvr.adapters.serving.serve import EnvServer
from rlvr.envs.core.spaces import Text

from ..children import start

GUESS = "rlvr/GuessNumber-v0"


class Counting(gym.Env[str, str]):
    """Says how often it was stepped; fails as its action says."""

    observation_space = action_space = Text()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        if options and "missing" in options:
            Path("/no/such/folder/of the server/file.json").read_text()
        return "go", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.count += 1
        if action == "file":
            Path(__file__).with_name("no-such-file.json").read_text()
        info: dict[str, Any] = {"many": list(range(300_000))} if action == "many" else {}
        if action == "huge":
            info = {"number": 10**100_000}
        return f"{self.count}", 0.0, False, False, info


@pytest.fixture(scope="module", autouse=True)
def _registered():
    gym.register("ours/Counting-v0", entry_point=Counting, disable_env_checker=True)
    yield
    gym.registry.pop("ours/Counting-v0")


@pytest.fixture
def server():
    with EnvServer("ours/Counting-v0", limit=4, token=None) as running:
        yield running


def opened(server: EnvServer, **headers: str) -> Any:
    address = server.url.replace("http", "ws") + wire.SOCKET_PATH
    link = open_socket(address, additional_headers=headers, proxy=None, compression=None, max_size=None).__enter__()
    assert "hello" in json.loads(link.recv(10))
    return link


def ask(link: Any, message: Any) -> Any:
    link.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(link.recv(60))


def post(url: str, message: Any, **headers: str) -> Any:
    data = message if isinstance(message, bytes | None) else json.dumps(message).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, headers), timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def test_an_action_of_100_mb_is_refused_on_both_sides_and_the_episode_goes_on(server: EnvServer):
    with connect(server.url) as env:
        env.reset(seed=0)
        with pytest.raises(ValueError, match="over the server's"):
            env.step("x" * 100_000_000)
        assert env.step("a")[0] == "1"
        address = urllib.parse.urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=30) as link:
            link.sendall(b"POST /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n\r\n")
            link.sendall(b"x" * (wire.MAX_FRAME + 1))  # the rest is not waited for
            assert b" 413 " in link.recv(1000)
        assert env.step("a")[0] == "2"


def test_a_clock_that_jumps_ends_no_session(server: EnvServer, monkeypatch):
    """The machine's clock is set back and forth by days; what has a time to live counts by another."""
    clock = time.time
    with connect(server.url) as env:
        env.reset(seed=0)
        for number, days in enumerate((3, -3, 400, 0), 1):
            monkeypatch.setattr(time, "time", lambda days=days: clock() + days * 86_400)
            text, _, terminated, truncated, info = env.step("a")
            assert (text, terminated, truncated) == (str(number), False, False)
            assert "verdict" not in info or info["verdict"].valid
        assert len(server.sessions) == 1


# copies of requests


@pytest.mark.parametrize("numbered", [True, False])
def test_a_late_copy_of_a_request_is_never_stepped_again(server: EnvServer, numbered: bool):
    def request(n: int) -> dict[str, Any]:
        numbers = {"number": n} if numbered else {}
        return {"id": f"r{n}", "op": "step", "items": [{"session": session, "action": "a"}], **numbers}

    with opened(server) as link, opened(server) as late:
        (session,) = ask(link, {"id": "o", "op": "open"})["sessions"]
        first = {"number": 0} if numbered else {}
        ask(link, {"id": "reset", "op": "reset", "items": [{"session": session}], **first})
        for n in range(1, 6):
            answer = ask(link, request(n))
            assert answer["results"][0]["observation"] == str(n)
            assert ask(late, request(n)) == answer, "the answer is kept until the next request"
            if n > 1:
                again = ask(late, request(n - 1))
                assert again["results"][0]["error"]["code"] == "stale"
                _, again = post(server.url + wire.PATH, request(n - 1))
                assert again["results"][0]["error"]["code"] == "stale"
        assert ask(link, request(6))["results"][0]["observation"] == "6", "the control: the copies counted for nothing"


def test_a_copy_of_an_open_opens_nothing_more(server: EnvServer):
    message = {"id": "o", "op": "open", "count": 2, "client": "a secret of sixteen"}
    with opened(server) as link, opened(server) as other:
        first = ask(link, message)["sessions"]
        assert ask(other, message)["sessions"] == first
        assert len(server.sessions) == 2
        assert not set(ask(other, {**message, "client": "another secret of it"})["sessions"]) & set(first)
        ask(link, {"id": "c", "op": "close", "items": [{"session": first[0]}]})
        assert ask(link, message)["error"]["code"] == "stale"


def test_a_copy_that_comes_over_a_dying_connection_takes_no_session_along(server: EnvServer):
    with opened(server) as link:
        (session,) = ask(link, {"id": "o", "op": "open"})["sessions"]
        step = {"id": "r", "op": "reset", "items": [{"session": session}]}
        ask(link, step)
        with opened(server) as dying:
            ask(dying, step)
        with opened(server):  # served after the other one was seen to go
            pass
        assert not server.sessions._sessions[session].vanished


# going away


def test_sessions_of_a_vanished_client_yield_to_one_who_asks(server: EnvServer, monkeypatch):
    monkeypatch.setattr(sessions, "GONE_SECONDS", 0.2)
    gone = opened(server)
    ask(gone, {"id": "o", "op": "open", "count": 3})
    kept = connect(server.url)
    kept.reset(seed=0)
    with connect(server.url) as env:
        with pytest.raises(RemoteError, match="0 of 4 are free"):
            env.reset(seed=0)  # the control: nobody has vanished
        gone.socket.shutdown(socket.SHUT_RDWR)
        gone.socket.close()
        vector = connect_vector(server.url, 3)
        until(lambda: any(session.vanished for session in server.sessions._sessions.values()))
        vector.reset(seed=0)
    assert vector.step(["a"] * 3)[0] == ("1",) * 3
    assert kept.step("a")[0] == "1", "who is there keeps what is his"
    vector.close()
    kept.close()


def test_a_vanished_client_may_come_back_with_the_names_of_its_sessions(server: EnvServer):
    link = opened(server)
    (session,) = ask(link, {"id": "o", "op": "open"})["sessions"]
    ask(link, {"id": "1", "op": "reset", "items": [{"session": session}]})
    ask(link, {"id": "2", "op": "step", "items": [{"session": session, "action": "a"}]})
    link.socket.shutdown(socket.SHUT_RDWR)
    with opened(server) as again:
        told = ask(again, {"id": "3", "op": "step", "items": [{"session": session, "action": "a"}]})
    assert told["results"][0]["observation"] == "2"


# who may come in


OTHERS = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "10.1.2.3"]


@pytest.mark.parametrize("host", OTHERS)
def test_a_name_that_leads_here_but_is_none_of_ours_is_refused(server: EnvServer, host: str):
    for path in ("/v1", "/health"):
        status, body = post(server.url + path, None, Host=host)
        assert (status, body["error"]["code"]) == (403, "forbidden")
    assert post(server.url + "/v1", {"id": "a", "op": "open"}, Host=host)[0] == 403
    assert b" 403 " in upgrade(server, host)
    assert b" 101 " in upgrade(server, "localhost")
    assert len(server.sessions) == 0


def upgrade(server: EnvServer, host: str) -> bytes:
    """What is answered to one who asks for a WebSocket, and calls the server by this name."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as link:
        lines = [f"GET {wire.SOCKET_PATH} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
        link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return link.recv(1000)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9", "[::1]:80", "127.5.5.5:1"])
def test_names_of_the_loopback_are_let_in(server: EnvServer, host: str):
    assert post(server.url + "/v1", None, Host=host)[0] == 200


def test_a_name_that_was_allowed_is_let_in():
    with EnvServer(GUESS, limit=1, hosts=["envs.example"], token=None) as running:
        assert post(running.url + "/v1", None, Host="Envs.Example:443")[0] == 200
        assert post(running.url + "/v1", None, Host="evil.example")[0] == 403
    assert wrong_host({"host": "any"}, "10.0.0.1") == ""
    assert wrong_host({"host": "any"}, "10.0.0.1", ["envs.example"])
    assert wrong_host({}, "127.0.0.1")


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/ready", 200), ("/metrics", 401), ("/v1", 403)])
def test_who_watches_a_server_calls_it_by_its_address(path: str, status: int):
    """A kubelet's probe and Prometheus name the pod's address, whatever names clients must use."""
    told: list[Any] = []
    settings = {"limit": 1, "token": "sixteen-or-more-letters", "hosts": ["envs.example"]}
    with EnvServer(GUESS, **settings) as running:

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            told.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        for arrived, host in (("10.1.2.3", b"10.1.2.3:8765"), ("127.0.0.1", b"10.1.2.3:8765")):
            asked = {**scope, "headers": [(b"host", host)], "server": (arrived, 80)}
            asyncio.run(running._uvicorn.config.app(asked, receive, send))
        found = [message["status"] for message in told if message["type"] == "http.response.start"]
        assert found == [status, 403]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Basic KEY"}, 401),
     ({"Authorization": "KEY"}, 401),
     ({"Authorization": "Bearer KEY", "Origin": "http://evil.example"}, 403),
     ({"Authorization": "Bearer KEY", "Host": "evil.example"}, 403), ({"Authorization": "Bearer KEY"}, 200)],
)  # fmt: skip
def test_a_loopback_server_has_a_key_and_looks_at_origin_and_host(headers: dict[str, str], status: int):
    asked = []
    server = LoopbackServer(lambda request: asked.append(request.path) or {})
    try:
        given = {name: value.replace("KEY", server.key) for name, value in headers.items()}
        assert post(server.url, {"a": 1}, **given)[0] == status
        assert post(server.url, None, **given)[0] == status
        assert len(asked) == (2 if status == 200 else 0)
    finally:
        server.close()


def test_keys_of_loopback_servers_are_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append(one) or one == other)
    server = LoopbackServer(lambda request: {})
    post(server.url, None, Authorization=f"Bearer {server.key}")
    post(server.url, None, Authorization="Bearer x")
    server.close()
    assert compared == [server.key.encode(), b"x"]
    assert len(server.key) >= 32


def test_an_endpoint_looks_at_origin_and_host_too():
    with PolicyEndpoint() as endpoint:
        session = endpoint.session()
        key = {"Authorization": f"Bearer {session.api_key}"}
        assert post(session.base_url + "/models", None, **key)[0] == 200
        assert post(session.base_url + "/models", None, **key, Origin="http://evil.example")[0] == 403
        assert post(session.base_url + "/models", None, **key, Host="evil.example")[0] == 403


def test_a_body_without_a_key_is_not_read():
    server = LoopbackServer(lambda request: {})
    try:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 10) as link:
            link.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000000\r\n\r\n")
            assert b" 401 " in link.recv(1000)
    finally:
        server.close()


@pytest.mark.parametrize("length", ["", "x", "-1", "9" * 5000, "٣", "99999999999"])
def test_a_length_that_is_none_is_one_sentence(length: str):
    server = LoopbackServer(lambda request: {})
    try:
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 10) as link:
            head = (
                f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.key}\r\nContent-Length: {length}"
            )
            link.sendall(head.encode() + b"\r\n\r\n")
            assert link.recv(1000).startswith((b"HTTP/1.1 411", b"HTTP/1.1 413"))
    finally:
        server.close()


# paths


def test_paths_of_the_server_are_not_shown(server: EnvServer):
    with connect(server.url) as env:
        for play in (lambda: env.reset(options={"missing": True}), lambda: env.reset() and env.step("file")):
            with pytest.raises(RemoteError, match="No such file or directory: '<path>'") as raised:
                play()
            assert "/" not in str(raised.value)


@pytest.mark.parametrize(
    ("message", "shown"),
    [("[Errno 2] No such file: '/home/a user/x.json'", "[Errno 2] No such file: '<path>'"),
     ("cannot read /etc/passwd: denied", "cannot read <path>: denied"),
     (r"at C:\Users\me\x.py, line 3", "at <path>, line 3"),
     ("file:///home/someone/.ssh/id", "<path>"), (f"in {sys.prefix}/lib/x.py", "in <path>"),
     ("1/2 and/or http://a.example/b", "1/2 and/or http://a.example/b"), ("a\x1b[31mb", r"a\x1b[31mb"),
     ("index must be from 0 to 9, got 12", "index must be from 0 to 9, got 12")],
)  # fmt: skip
def test_what_is_left_of_a_message(message: str, shown: str):
    assert without_paths(message) == shown


def test_a_loopback_server_shows_no_words_of_a_failure():
    def answer(request: Any) -> Any:
        raise FileNotFoundError("/home/somebody/secret.txt")

    server = LoopbackServer(answer)
    try:
        status, body = post(server.url, None, Authorization=f"Bearer {server.key}")
        assert status == 500
        assert "secret" not in json.dumps(body)
    finally:
        server.close()


# bombs

SIZE = wire.MAX_FRAME - 200
BOMBS: dict[str, Any] = {
    "lists": lambda: b'{"id":"a","op":"ping","x":[' + b"[]," * (SIZE // 3) + b"0]}",
    "objects": lambda: b'{"id":"a","op":"ping","x":[' + b"{}," * (SIZE // 3) + b"0]}",
    "keys": lambda: b'{"id":"a","op":"ping"' + b"".join(b',"%x":0' % i for i in range(SIZE // 11)) + b"}",
    "one key": lambda: b'{"id":"a","op":"ping"' + b',"k":[]' * (SIZE // 7) + b"}",
    "depth": lambda: b"[" * SIZE,
    "depth of objects": lambda: b'{"a":' * (SIZE // 5),
    "texts": lambda: b'{"id":"a","op":"ping","x":[' + '"é",'.encode() * (SIZE // 5) + b"0]}",
    "numbers": lambda: b'{"id":"a","op":"ping","x":[' + b"1.5," * (SIZE // 4) + b"0]}",
    "a number": lambda: b'{"id":"a","op":"ping","x":' + b"7" * SIZE + b"}",
    "numbers of 4,000 digits": lambda: b'{"id":"a","op":"ping","x":[' + (b"7" * 4000 + b",") * (SIZE // 4001) + b"0]}",
    "a text of escapes": lambda: b'{"id":"a","op":"ping","x":"' + b"\\u00e9" * (SIZE // 6) + b'"}',
    "a text of quotes": lambda: b'{"id":"a","op":"ping","x":"' + b'\\"' * (SIZE // 2) + b'"}',
    "a wide text": lambda: '{"id":"a","op":"ping","x":"🙂'.encode() + b"a" * (SIZE - 10) + b'"}',
    "quotes": lambda: b'"' * SIZE,
    "zeros": lambda: b"\x00" * SIZE,
}  # fmt: skip

PEAK = """
import sys
from rlvr.adapters.serving.serve import EnvServer
with EnvServer("rlvr/GuessNumber-v0", limit=4, token=None) as server:
    print(server.url, flush=True)
    for _ in sys.stdin:
        print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1], flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read in /proc")
def test_bombs_take_little_memory_of_the_server():
    process = start([sys.executable, "-c", PEAK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def peak() -> int:
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline()) // 1024

    try:
        url = process.stdout.readline().strip()
        before = peak()
        address = url.replace("http", "ws") + wire.SOCKET_PATH
        for name, bomb in BOMBS.items():
            data = bomb()
            assert len(data) <= wire.MAX_FRAME
            status, body = post(url + wire.PATH, data)
            assert status in (400, 413), name
            assert len(json.dumps(body)) < 1000
            with open_socket(address, proxy=None, compression=None, max_size=None) as link:
                link.recv(20)
                link.send(data if name == "zeros" else data.decode())
                assert json.loads(link.recv(60))["error"]["code"] in ("bad_request", "too_large"), name
        assert peak() - before < 400, f"{before} MiB before, {peak()} MiB after"
    finally:
        process.kill()
        process.communicate()


def test_compressed_bodies_and_frames_are_not_unpacked(server: EnvServer):
    import gzip

    bomb = gzip.compress(b"[" * 50_000_000)
    status, body = post(server.url + wire.PATH, bomb, **{"Content-Encoding": "gzip"})
    assert (status, body["error"]["code"]) == (400, "bad_request")
    link = open_socket(server.url.replace("http", "ws") + wire.SOCKET_PATH, proxy=None).__enter__()
    assert not link.protocol.extensions, "the client offers compression, and the server does not take it"
    link.close()


def test_large_messages_are_read_beside_the_event_loop(server: EnvServer, monkeypatch):
    threads: list[str] = []
    read = serve._read
    monkeypatch.setattr(serve, "_read", lambda *args: threads.append(threading.current_thread().name) or read(*args))
    with opened(server) as link:
        ask(link, {"id": "a", "op": "ping"})
        ask(link, '{"id": "a", "op": "ping"' + " " * serve.SMALL + "}")
    assert threads[0] == "rlvr-serve"
    assert threads[1].startswith("rlvr-serve-json")


def test_what_is_under_way_has_a_bound(server: EnvServer, monkeypatch):
    monkeypatch.setattr(serve, "MAX_HELD", 100_000)
    status, body = post(server.url + wire.PATH, b'{"id": "a", "op": "ping"' + b" " * 200_000 + b"}")
    assert (status, body["error"]["code"]) == (503, "overloaded")
    with opened(server) as link:
        assert ask(link, '{"id": "a", "op": "ping"' + " " * 200_000 + "}")["error"]["code"] == "overloaded"
        assert ask(link, {"id": "a", "op": "ping"}) == {"id": "a", "results": []}


def test_an_answer_of_too_many_values_or_digits_is_an_error(server: EnvServer):
    with connect(server.url) as env:
        env.reset()
        with pytest.raises(ValueError, match="more than 262144 values"):
            env.step("many")
        with pytest.raises(RemoteError, match="whole number of"):
            env.step("huge")


def test_values_are_counted_outside_of_texts_alone():
    commas = json.dumps({"a": '[,:{"\\' * 1000, "b": [1, 2, 3]})
    assert read_object(commas, 10) == json.loads(commas)
    with pytest.raises(TooManyValues):
        read_object(commas, 5)
    for wrong in (
        '{"a":1,"a":1}',
        '{"a":{"b":1,"b":2}}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        b'{"a":"\xff"}',
        "[]",
        "",
        '"',
    ):
        with pytest.raises(ValueError, match=r"\w"):
            read_object(wrong, 100)


@pytest.mark.parametrize(
    "field",
    [{"number": -1}, {"number": 1.5}, {"number": True}, {"number": "1"}, {"number": 1 << 60}, {"client": "x" * 20}],
)
def test_fields_that_are_none_are_refused(server: EnvServer, field: dict[str, Any]):
    with opened(server) as link:
        message = {"id": "a", "op": "step", "items": [{"session": "s", "action": ""}], **field}
        assert ask(link, message)["error"]["code"] == "bad_request"
        for client in ("short", "x" * 65, 7):
            assert ask(link, {"id": "a", "op": "open", "client": client})["error"]["code"] == "bad_request"
        deep: Any = 1
        for _ in range(500):
            deep = [deep]
        message = {"id": "a", "op": "reset", "items": [{"session": "s", "options": {"a": deep}}]}
        assert ask(link, message)["error"]["code"] == "bad_request"


def test_rewards_have_the_range_that_was_declared():
    class Ranged(Counting):
        reward_range = (0.0, 1.0)

        def step(self, action: str) -> Any:
            return "x", float(action), False, False, {"n": np.int64(1)}

    gym.register("ours/Ranged-v0", entry_point=Ranged, disable_env_checker=True)
    try:
        with EnvServer("ours/Ranged-v0", limit=1) as running, connect(running.url) as env:
            env.reset()
            assert env.step("1")[1] == 1.0
            with pytest.raises(RemoteError, match="a reward must be a number from 0 to 1"):
                env.step("1.5")
        with pytest.raises(ValueError, match="reward_range"):
            EnvServer("ours/Ranged-v0", reward_range=(0, 1e9))
    finally:
        gym.registry.pop("ours/Ranged-v0")
