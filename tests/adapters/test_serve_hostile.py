"""What a server may do to a client: die at any point, answer anything. Only the promised exceptions leave `connect`."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")
pytest.importorskip("PIL")

from rlvr.adapters import connect, connect_vector
from rlvr.adapters.serving import wire
from rlvr.adapters.serving.connect import RemoteError
from rlvr.adapters.serving.connection import WireConnection
from rlvr.adapters.serving.serve import EnvServer

from ..children import start
from .hostile import Breaking, greeting, raw, saying

GUESS = "rlvr/GuessNumber-v0"
PROMISED = (ConnectionError, PermissionError, TimeoutError, ValueError, TypeError, gym.error.ResetNeeded, RemoteError)
KINDS = ("hello", "open", "reset", "step", "call", "close")


def play(url: str, **settings: Any) -> list[Any]:
    """Each operation of the wire once, and what it gave."""
    with connect(url, **settings) as env:
        seen: list[Any] = [env.reset(seed=1), env.step("a"), env.solve(), env.get_state(), env.render()]
        env.set_state(seen[3])
        return seen


# killed at any point


MESSAGES = [("up", number) for number in range(9)] + [("down", number) for number in range(10)]


@pytest.fixture(scope="module")
def guess():
    with EnvServer(GUESS, {"render_mode": "ansi"}, expert=True, limit=16, token=None) as server:
        yield server


@pytest.mark.parametrize("where", ["before", "middle", "after"])
@pytest.mark.parametrize(("direction", "number"), MESSAGES)
def test_a_connection_that_breaks_anywhere_is_made_again(guess: EnvServer, direction: str, number: int, where: str):
    whole = play(guess.url)
    with Breaking(guess.port, direction, number, where, reset=number % 2 == 0, gone=False) as proxy:
        try:
            told = play(proxy.url)
        except ConnectionError:  # there was no greeting yet, so there is nothing to go on with
            assert proxy.broken.is_set()
            assert (direction, number) in (("up", 0), ("down", 0), ("down", 1))
            assert play(proxy.url)[:3] == whole[:3]
        else:
            assert proxy.broken.is_set()
            assert (told[:3], told[4]) == (whole[:3], whole[4])


@pytest.mark.slow
@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("where", ["before", "middle", "after"])
@pytest.mark.parametrize(("direction", "number"), MESSAGES)
def test_a_server_that_dies_anywhere_is_a_connection_error(
    guess: EnvServer, direction: str, number: int, where: str, reset: bool
):
    with Breaking(guess.port, direction, number, where, reset, gone=True) as proxy:
        raised: Exception | None = None
        try:
            play(proxy.url)
        except Exception as error:
            raised = error
        assert isinstance(raised, ConnectionError) or (raised is None and number >= 7), repr(raised)
        assert proxy.broken.is_set()


def test_a_vector_survives_each_break_too(guess: EnvServer):
    for number in range(2, 5):
        with Breaking(guess.port, "down", number, "middle", reset=True, gone=False) as proxy:
            vector = connect_vector(proxy.url, 3)
            first = vector.reset(seed=4)[0]
            vector.step(["a"] * 3)
            vector.close()
            assert proxy.broken.is_set()
            assert first[0] == gym.make(GUESS).reset(seed=4)[0]


KILLED = """
import sys
from rlvr.adapters.serving.serve import EnvServer
with EnvServer("rlvr/GuessNumber-v0", {"render_mode": "ansi"}, expert=True, limit=4, token=None) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", range(5))
def test_a_killed_process_is_a_connection_error(after: int):
    process = start([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        env = connect(process.stdout.readline().strip())
        calls: list[Callable[[], Any]] = [
            lambda: env.reset(seed=1), lambda: env.step("a"), env.solve, env.get_state, env.render
        ]  # fmt: skip
        for call in calls[:after]:
            call()
        process.kill()
        process.wait()
        with pytest.raises(ConnectionError):
            calls[after]()
        with pytest.raises((ConnectionError, gym.error.ResetNeeded)):
            env.step("b")
        env.close()
    finally:
        process.kill()
        process.communicate()


# answers of every kind


def test_the_fake_server_itself_is_taken():
    """The control of all that follows: unchanged, its messages are those of a server."""
    with saying(lambda kind, message: message) as url:
        seen = play(url)
        assert seen[1][1] == 0.5
        assert seen[1][4]["verdict"].status == "partial"
        vector = connect_vector(url, 3)
        vector.reset(seed=0)
        assert vector.step(["a"] * 3)[1].tolist() == [0.5] * 3
        vector.close()
    with saying(lambda kind, message: message, image=True) as url:
        assert play(url)[0][0]["image"].shape == (2, 2, 3)


def put(*path: Any) -> Callable[[Any], Any]:
    """A change of a message: the last of the path is put at the place that the others name; `GONE` takes it away."""

    def change(message: Any) -> Any:
        message = copy.deepcopy(message)
        where = message
        for name in path[:-2]:
            where = where[name]
        if path[-1] is GONE:
            del where[path[-2]]
        else:
            where[path[-2]] = path[-1]
        return message

    return change


GONE = object()


def text(data: str | bytes) -> Callable[[Any], Any]:
    return lambda message: data


def result(*path: Any) -> Callable[[Any], Any]:
    return put("results", 0, *path)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def png(width: int, height: int) -> str:
    """A PNG of that size by its header, in few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 100)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


VERDICT = {"reward": 0.5, "status": "partial", "answer": None, "reason": "", "parts": {}}
NUMBERS = [None, True, "1", [], {}, {"$float": "nan"}, {"$float": "inf"}, 1e9, -1e9, 10**400]
WRONG: list[tuple[str, str, Callable[[Any], Any]]] = [
    # what is no message
    *[(f"{kind} is {data[:12]!r}", kind, text(data)) for kind in ("hello", "reset")
      for data in ("", "{", "[]", "null", "7", "[" * 5000, '{"a":1,"a":2}', b"\xff\xfe", b"\x00" * 50)],
    ("NaN in bare JSON", "step", lambda m: json.dumps(m).replace("0.5", "NaN", 1)),
    ("1e999", "step", lambda m: json.dumps(m).replace("0.5", "1e999", 1)),
    ("a number of 5,000 digits", "step", lambda m: json.dumps(m).replace("0.5", "1" * 5000, 1)),
    ("a million lists", "step", lambda m: json.dumps(m)[:-1] + ',"x":[' + "[]," * 1_000_000 + "1]}"),
    ("a million keys", "step", lambda m: json.dumps(m)[:-1] + "".join(f',"{i}":1' for i in range(1_000_000)) + "}"),
    # greetings
    *[(f"greeting without {name}", "hello", put("hello", name, GONE)) for name in greeting()["hello"]],
    *[(f"greeting's limit {name} {value}", "hello", put("hello", "limits", name, value))
      for name in ("frame", "items", "timeout", "sessions", "ttl") for value in (-1, "1", True, 0)],
    *[(f"greeting's env without {name}", "hello", put("hello", "env", name, GONE))
      for name in greeting()["hello"]["env"]],
    *[(f"greeting's image {value}", "hello", put("hello", "env", "image", value)) for value in
      ([100_000, 100_000, 3], [1 << 40, 1, 3], [2, 2, 4], [2, 2], [0, 2, 3], [-2, -2, 3], [2.0, 2, 3], "2x2", {},
       [True, 2, 3])],
    ("another version", "hello", put("hello", "version", 99)),
    ("version true", "hello", put("hello", "version", True)),
    ("a field more", "hello", put("hello", "more", 1)),
    ("a limit of 1e300 s", "hello", put("hello", "limits", "timeout", 1e300)),
    ("an endless limit", "hello", lambda m: json.dumps(m).replace('"timeout": 5.0', '"timeout": 1e999')),
    ("observations of -5 characters", "hello", put("hello", "env", "observation_length", -5)),
    ("observations of 1.5 characters", "hello", put("hello", "env", "action_length", 1.5)),
    ("rewards to a billion", "hello", put("hello", "env", "rewards", [0, 1e9])),
    ("rewards the wrong way", "hello", put("hello", "env", "rewards", [1, 0])),
    # whose answer
    *[(f"{kind}: id {value!r:.20}", kind, put("id", value)) for kind in ("open", "step")
      for value in ("another", 7, "", [], "x" * 10_000)],
    ("no id", "step", put("id", GONE)),
    ("neither results nor error", "step", put("results", GONE)),
    ("a field more in an answer", "step", put("more", 1)),
    # how many
    *[(f"sessions {value!r:.30}", "open", put("sessions", value))
      for value in ([], ["a", "b"], [7], [""], "s0", {}, None, ["x" * 65], [["s0"]])],
    *[(f"results {value!r:.30}", kind, put("results", value)) for kind in ("reset", "step")
      for value in ([], [{}, {}], [7], [None], {}, None, "x", [[]])],
    # errors
    *[(f"error {value!r:.40}", "step", lambda m, value=value: {"id": m["id"], "error": value})
      for value in (None, "x", {}, {"code": "no_such"}, {"code": "busy"}, {"code": ["busy"], "message": ""},
                    {"code": "busy", "message": 7}, {"code": "nonsense", "message": "x"},
                    {"code": "busy", "message": "x" * 100_000}, {"code": "busy", "message": "x", "more": 1})],
    ("an item's error is a text", "step", put("results", 0, {"error": "x"})),
    ("an item's error and more", "step", put("results", 0, {"error": {"code": "busy", "message": ""}, "reward": 1})),
    # what a step says
    *[(f"step without {name}", "step", result(name, GONE))
      for name in ("observation", "reward", "terminated", "truncated", "info")],
    *[(f"reset without {name}", "reset", result(name, GONE)) for name in ("observation", "info")],
    *[(f"reward {value!r:.20}", "step", result("reward", value)) for value in NUMBERS],
    *[(f"{name} {value!r}", "step", result(name, value))
      for name in ("terminated", "truncated") for value in (None, 0, 1, "false", [])],
    *[(f"observation {value!r:.20}", kind, result("observation", value)) for kind in ("reset", "step")
      for value in (None, 7, [], {}, "x" * 1001, {"text": "go"}, {"$tuple": ["go"]}, {"$image": png(2, 2)})],
    *[(f"info {value!r:.20}", "step", result("info", value))
      for value in (None, 7, "x", [], {"$tuple": []}, {"$what": 1}, {"$float": "x"}, {"$float": 1})],
    ("a field more in a step", "step", result("more", 1)),
    ("a reset with a reward", "reset", result("reward", 1.0)),
    # infos
    ("deep", "step", result("info", "x", nested(100))),
    ("deeper", "step", result("info", "x", nested(400))),
    *[(f"verdict {value!r:.40}", "step", result("info", "verdict", value)) for value in
      (7, "correct", {}, VERDICT, {"$verdict": {}}, {"$verdict": []}, {"$verdict": {**VERDICT, "more": 1}},
       {"$verdict": {**VERDICT, "status": "excellent"}}, {"$verdict": {**VERDICT, "status": []}},
       {"$verdict": {**VERDICT, "answer": 7}}, {"$verdict": {**VERDICT, "reason": None}},
       {"$verdict": {**VERDICT, "parts": {"a": "x"}}}, {"$verdict": {**VERDICT, "parts": [1]}},
       {"$verdict": {**VERDICT, "parts": {"a": {"$float": "nan"}}}})],
    *[(f"verdict's reward {value!r:.20}", "step", result("info", "verdict", {"$verdict": {**VERDICT, "reward": value}}))
      for value in NUMBERS],
    *[(f"array {value!r:.40}", "step", result("info", "x", {"$array": value})) for value in
      (None, [], ["<f8", [2], [1.0]], ["<f8", [-1], [1.0]], ["O", [1], [1]], ["<U5", [1], ["x"]], ["<i4", [1], ["7"]],
       ["(9999999999,)i4", [0], []], ["<f8", [1 << 60, 0], []], ["<u1", [1], [300]], ["i4,i4", [1], [1]],
       ["<f8", "2", [1, 2]], ["<f8", [1] * 70, [1]], ["<f8", [1], [{"$tuple": []}]], ["M8[s]", [1], [1]])],
    *[(f"image {value!r:.40}", "step", result("info", "x", {"$image": value})) for value in
      (7, "", "data:text/html,x", "data:image/png;base64,!!!", "data:image/png;base64,AAAA", png(30_000, 30_000),
       png(0, 5))],
    ("images of many pixels", "step", result("info", "x", [{"$image": png(2048, 2048)}] * 40)),
    *[(f"dict {value!r:.40}", "step", result("info", "x", {"$dict": value})) for value in
      (7, [7], [[1]], [[[], 1]], [[{}, 1]], [[1, 2], [1, 3]], [[i * ((1 << 61) - 1), 0] for i in range(5000)])],
    # calls
    *[(f"call {value!r:.20}", "call", result("value", value)) for value in (None, 7, [], {"$what": 1})],
]  # fmt: skip


def test_the_corpus_is_one():
    assert len(WRONG) > 150
    assert {kind for _, kind, _ in WRONG} == {"hello", "open", "reset", "step", "call"}


@pytest.mark.parametrize(("kind", "change"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_an_answer_that_is_none_is_a_connection_error(kind: str, change: Callable[[Any], Any]):
    with (
        saying(lambda which, message: change(message) if which == kind else message) as url,
        pytest.raises(ConnectionError, match=r"the wire|no server of this wire|lost"),
    ):
        play(url)


@pytest.mark.parametrize(
    "observation",
    ["go", {"text": "go"}, {"text": "go", "image": 7}, {"text": "go", "image": {"$image": png(3, 2)}},
     {"text": "go", "image": {"$array": ["<f8", [2, 2, 3], [0.0] * 12]}},
     {"text": 7, "image": {"$array": ["|u1", [2, 2, 3], [0] * 12]}},
     {"text": "go", "image": {"$image": png(4000, 4000)}}],
)  # fmt: skip
def test_an_image_that_was_not_promised_is_a_connection_error(observation: Any):
    change = result("observation", observation)
    with (
        saying(lambda kind, message: change(message) if kind == "step" else message, image=True) as url,
        pytest.raises(ConnectionError, match="the wire"),
    ):
        play(url)


@pytest.mark.parametrize("name", ["a", "b"])
def test_one_wrong_result_of_many_gives_up_all(name: str):
    change = put("results", 2, "reward", {"a": None, "b": 1e9}[name])
    with saying(lambda kind, message: change(message) if kind == "step" else message) as url:
        vector = connect_vector(url, 3)
        vector.reset(seed=0)
        with pytest.raises(ConnectionError, match="reward is"):
            vector.step(["a"] * 3)
        with pytest.raises(gym.error.ResetNeeded):
            vector.step(["a"] * 3)
        vector.close()


def test_a_batch_of_promised_images_has_a_bound():
    large = put("hello", "env", "image", [2000, 2000, 3])
    with (
        saying(lambda kind, message: large(message) if kind == "hello" else message) as url,
        pytest.raises(ValueError, match="num_envs must be at most 64"),
    ):
        connect_vector(url, 65)


def test_a_range_of_rewards_is_the_callers_too():
    with saying(lambda kind, message: message) as url:
        assert play(url, reward_range=(0, 1))[1][1] == 0.5
        with pytest.raises(ConnectionError, match=r"reward is 0\.5, and must be a number from 0\.6 to 1"):
            play(url, reward_range=(0.6, 1))
        vector = connect_vector(url, 2, reward_range=(-1, 0.25))
        vector.reset(seed=0)
        with pytest.raises(ConnectionError, match="reward is"):
            vector.step(["a"] * 2)
        vector.close()
        for wrong in ((1, 0), (0, float("nan")), (0, "1")):
            with pytest.raises(ValueError, match="reward_range"):
                connect(url, reward_range=wrong)


def test_errors_of_the_wire_stay_what_they_are():
    for code in wire.CODES:
        error = {"code": code, "message": "a\x1b[31m reason"}
        refusing = saying(lambda kind, m, error=error: {"id": m["id"], "error": error} if kind == "reset" else m)
        with refusing as url, connect(url) as env, pytest.raises(PROMISED) as raised:
            env.reset(seed=0)
        assert "\x1b" not in str(raised.value)
        assert not isinstance(raised.value, ConnectionError) or code in ("closing", "draining")


def test_answers_to_earlier_requests_are_passed_over_and_not_for_ever():
    def late(kind: str, message: Any) -> Any:
        if kind != "step":
            return message
        client, _, number = message["id"].partition("-")
        return [{"id": f"{client}-{int(number) - 1}", "results": [{}]}] * count + [message]

    count = 3
    with saying(late) as url:
        assert play(url)[1][1] == 0.5
    count = 5000
    with saying(late) as url, pytest.raises(ConnectionError, match="earlier requests"):
        play(url)


# bytes of every kind


def upgraded(link: socket.socket, then: bytes, extra: str = "") -> None:
    """Accept a WebSocket, and send these bytes."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += link.recv(4096)
    key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    link.sendall(
        ("\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept}", *filter(None, [extra])]) + "\r\n\r\n").encode()
    )
    link.sendall(then)
    link.recv(4096)


def frame(first: int, data: bytes, length: int | None = None) -> bytes:
    length = len(data) if length is None else length
    return bytes([first, 127]) + struct.pack(">Q", length) + data


HELLO = json.dumps(greeting()).encode()
BYTES: dict[str, Callable[[socket.socket], Any]] = {
    "nothing": lambda link: None,
    "no HTTP": lambda link: link.sendall(b"\x00" * 5000),
    "half a status": lambda link: link.sendall(b"HTTP/1.1 10"),
    "another protocol": lambda link: link.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "200": lambda link: link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    "a redirect": lambda link: link.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"),
    "101 without a key": lambda link: link.sendall(
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
    "101 with a wrong key": lambda link: link.sendall(
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n"),
    "endless headers": lambda link: link.sendall(b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 100_000),
    "a header of a megabyte": lambda link: link.sendall(b"HTTP/1.1 101 X\r\nA: " + b"b" * (1 << 20) + b"\r\n\r\n"),
    "an error that is none": lambda link: link.sendall(
        b'HTTP/1.1 403 No\r\nContent-Length: 13\r\n\r\n{"error":"x"}'),
    "an error of lists": lambda link: link.sendall(
        b"HTTP/1.1 403 No\r\nContent-Length: 600000\r\n\r\n" + b"[" * 600_000),
    "a body without end": lambda link: link.sendall(
        b"HTTP/1.1 403 No\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 3_000_000),
    "a chunked lie": lambda link: link.sendall(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n"),
    "the end at once": lambda link: upgraded(link, b""),
    "a compressed frame": lambda link: upgraded(link, frame(0xC1, zlib.compress(HELLO))),
    "compression not asked for": lambda link: upgraded(link, b"", "Sec-WebSocket-Extensions: permessage-deflate"),
    "no UTF-8": lambda link: upgraded(link, frame(0x81, b"\xff\xfe\xfd")),
    "a frame of 4 EiB": lambda link: upgraded(link, frame(0x81, b"x", 1 << 62)),
    "a frame over the limit": lambda link: upgraded(link, frame(0x81, b"x" * 100, wire.MAX_FRAME + 1)),
    "an unknown opcode": lambda link: upgraded(link, frame(0x8B, b"x")),
    "a continuation of nothing": lambda link: upgraded(link, frame(0x80, b"x")),
    "a masked frame": lambda link: upgraded(link, b"\x81\x81\x00\x00\x00\x00x"),
    "half a frame": lambda link: upgraded(link, frame(0x81, b"{", 100)),
    "pieces without end": lambda link: upgraded(link, b"\x01\x00" + b"\x00\x00" * 2_000_000),
    "a close of an odd code": lambda link: upgraded(link, b"\x88\x02\x00\x00"),
    "a close with bad words": lambda link: upgraded(link, b"\x88\x04\x03\xe8\xff\xfe"),
    "a ping that is too long": lambda link: upgraded(link, frame(0x89, b"x" * 200)),
    "many closes": lambda link: upgraded(link, b"\x88\x00" * 1000),
    "a greeting, then the end": lambda link: upgraded(link, frame(0x81, HELLO) + b"\x88\x00"),
    "a greeting, then garbage": lambda link: upgraded(link, frame(0x81, HELLO) + b"\xff" * 1000),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_server_are_a_connection_error(name: str, monkeypatch):
    monkeypatch.setitem(WireConnection.__init__.__kwdefaults__, "open_seconds", 1.0)
    with raw(BYTES[name]) as url, pytest.raises(ConnectionError):
        play(url)


def test_a_server_that_says_nothing_is_a_connection_error(monkeypatch):
    monkeypatch.setitem(WireConnection.__init__.__kwdefaults__, "open_seconds", 0.3)
    with raw(lambda link: link.recv(1 << 16) and link.recv(1 << 16)) as url, pytest.raises(ConnectionError):
        play(url)
    with raw(lambda link: upgraded(link, b"")) as url, pytest.raises(ConnectionError):
        play(url)


def test_a_server_that_never_answers_is_a_timeout():
    silent = saying(lambda kind, message: [] if kind == "step" else message)
    with silent as url, pytest.raises(TimeoutError, match=r"did not answer within 0\.3 s"):
        play(url, timeout=0.3)
    late = [{"id": None, "hello": 1}] * 10
    chatty = saying(lambda kind, message: late if kind == "step" else message)
    with chatty as url, pytest.raises(ConnectionError, match="not asked"):
        play(url, timeout=20)


@pytest.mark.parametrize(
    ("url", "settings"),
    [("http://127.0.0.1:99999", {}), ("http://a b", {}), ("http://[::1", {}),
     ("http://127.0.0.1:80", {"token": "a\nb"}),
     ("http://127.0.0.1:80", {"token": "ü"}), ("http://127.0.0.1:80", {"timeout": float("inf")}),
     ("http://127.0.0.1:80", {"timeout": float("nan")}), ("http://127.0.0.1:80/\r\nX: y", {}), ("http://", {})],
)  # fmt: skip
def test_arguments_that_are_none_are_value_errors(url: str, settings: Any):
    with pytest.raises(ValueError, match=r"\w"):
        connect(url, **settings)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1", "xn--a.invalid", "." * 5, "a" * 300])
def test_addresses_where_nobody_is(host: str):
    with pytest.raises((ConnectionError, ValueError)):
        connect(f"http://{host}:9")


def test_the_reader_keeps_what_the_wire_takes():
    """The control of the bounds: what is just inside of them is taken."""
    assert wire.unpack(wire.pack({"a": nested(wire.MAX_DEPTH - 2)})) == {"a": nested(wire.MAX_DEPTH - 2)}
    with pytest.raises(TypeError, match="deep"):
        wire.pack(nested(wire.MAX_DEPTH + 1))
    with pytest.raises(TypeError, match="bits"):
        wire.pack(10**5000)
    keys = {i: i for i in range(5000)}
    assert wire.unpack(wire.pack(keys)) == keys
    assert wire.unpack(wire.pack(np.zeros((0, 5), np.int8))).shape == (0, 5)
