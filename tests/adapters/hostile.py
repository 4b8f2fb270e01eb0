"""Servers that say what a test tells them to, and a proxy that breaks connections at a chosen point."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from rlvr.adapters.serving import wire

Say = Callable[[str, dict[str, Any]], Any]
IMAGE = [2, 2, 3]
PNG = wire.pack(np.zeros(IMAGE, np.uint8))["$image"]


def greeting(image: list[int] | None = None) -> dict[str, Any]:
    """A well-formed greeting."""
    env = {"id": "ours/Fake-v0", "size": 5, "split": "train", "level": 1, "max_turns": 3, "render_mode": "ansi"}
    env |= {"observation_length": 1000, "action_length": 1000, "image": image}
    limits = {"frame": 1 << 20, "items": 64, "under_way": 4, "sessions": 4, "ttl": 60.0, "timeout": 5.0}
    return {"hello": {"version": wire.VERSION, "instance": "a", "expert": True, "limits": limits, "env": env}}


def good_result(op: str, name: str = "", image: bool = False) -> dict[str, Any]:
    """A well-formed result of an item."""
    observation: Any = {"text": "go", "image": {"$image": PNG}} if image else "go"
    verdict = {"reward": 0.5, "status": "partial", "answer": None, "reason": "so far", "parts": {"format": 1.0}}
    match op:
        case "reset":
            return {"observation": observation, "info": {"turn": 0, "verdict": None}}
        case "step":
            info = {"turn": 1, "verdict": {"$verdict": verdict}, "success": False}
            return {"observation": observation, "reward": 0.5, "terminated": False, "truncated": False, "info": info}
        case "call":
            return {"value": {"solve": "\\boxed{1}", "get_state": "s1", "set_state": None}.get(name, "drawn")}
    return {}


@contextlib.contextmanager
def saying(say: Say, image: bool = False, process: Callable[[Any], None] | None = None) -> Iterator[str]:
    """The address of a server whose every message went through ``say(kind, message)``; kinds are ``hello`` and the
    operations. It may return an object, a text, bytes, or a list of those to send one after the other."""

    def send(link: Any, what: Any) -> None:
        for one in what if isinstance(what, list) else [what]:
            link.send(one if isinstance(one, str | bytes) else json.dumps(one))

    def answer(link: Any) -> None:
        with contextlib.suppress(ConnectionClosed):
            send(link, say("hello", greeting(IMAGE if image else None)))
            for data in link:
                request = json.loads(data)
                op = request["op"]
                if op == "open":
                    told: dict[str, Any] = {"sessions": [f"s{i}" for i in range(request["count"])]}
                else:
                    told = {"results": [good_result(op, item.get("name", ""), image) for item in request["items"]]}
                send(link, say(op, {"id": request["id"], **told}))

    with serve(answer, "127.0.0.1", 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join(20)


@contextlib.contextmanager
def raw(serve_one: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does with each connection what it is told, and then closes it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            link.settimeout(20)
            with link, contextlib.suppress(OSError):
                serve_one(link)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(20)


class Breaking:
    """A proxy that breaks the first connection before, in the middle of, or after its n-th message of a direction.

    Message 0 is the HTTP handshake; each frame after it is one more.

    Args:
        port: of the server behind it.
        direction: ``up`` to the server, or ``down`` to the client.
        number: of the message.
        where: ``before``, ``middle``, ``after``.
        reset: whether both ends get a TCP reset in place of an end.
        gone: whether nobody listens from then on.
    """

    def __init__(self, port: int, direction: str, number: int, where: str, reset: bool, gone: bool) -> None:
        self._port, self._at, self._reset, self._gone = port, (direction, number, where), reset, gone
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.broken = threading.Event()
        self._links: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Breaking:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        for link in self._links:
            _end(link, False)
        for thread in list(self._threads):
            thread.join(20)

    def _stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                return
            self._links += [client, server]
            for direction, source, target in (("up", client, server), ("down", server, client)):
                thread = threading.Thread(target=self._pass, args=(direction, source, target), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass(self, direction: str, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for number, message in enumerate(_messages(source)):
                here = (direction, number) == self._at[:2] and not self.broken.is_set()
                if here:
                    part = {"before": 0, "middle": max(1, len(message) // 2), "after": len(message)}[self._at[2]]
                    if part:
                        target.sendall(message[:part])
                    self.broken.set()
                    if self._gone:
                        self._stop()
                    _end(source, self._reset)
                    _end(target, self._reset)
                    return
                target.sendall(message)
        _end(target, False)


def _end(link: socket.socket, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            link.shutdown(socket.SHUT_RD)  # wakes the thread that reads it, which would keep it open
            link.close()
        else:
            link.shutdown(socket.SHUT_RDWR)


def _messages(link: socket.socket) -> Iterator[bytes]:
    """The HTTP handshake, then each frame, to the end of the connection."""
    data = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in data:
            if not (more := link.recv(1 << 16)):
                return
            data += more
        head, _, data = data.partition(b"\r\n\r\n")
        yield head + b"\r\n\r\n"
        while True:
            while (size := _frame(data)) is None or len(data) < size:
                if not (more := link.recv(1 << 16)):
                    return
                data += more
            yield data[:size]
            data = data[size:]


def _frame(data: bytes) -> int | None:
    """How long the frame is that begins here; None where that is not known yet."""
    if len(data) < 2:
        return None
    short, masked = data[1] & 127, 4 if data[1] & 128 else 0
    extra = {126: 2, 127: 8}.get(short, 0)
    if len(data) < 2 + extra:
        return None
    return 2 + extra + masked + (int.from_bytes(data[2 : 2 + extra], "big") if extra else short)
