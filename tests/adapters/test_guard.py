"""The guard before applications that foreign frameworks made: pages of a browser do not come in, programs do."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from rlvr.adapters.serving.guard import GuardedApp

from .loopback_app import serving

pytest.importorskip("uvicorn")

ATTACKS = {
    "a page": {"Origin": "http://evil.example"},
    "a page without an origin": {"Origin": "null"},
    "a page of this machine": {"Origin": "http://127.0.0.1:8000"},
    "a rebound name": {"Host": "evil.example"},
    "a rebound name with a port": {"Host": "evil.example:80"},
    "a name that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "no name": {"Host": ""},
}
PROGRAMS = {"by address": {}, "by name": {"Host": "localhost:80"}, "of IPv6": {"Host": "[::1]:80"}}


class Recorder:
    """An application that answers everybody, and notes what reached it."""

    def __init__(self):
        self.reached = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        self.reached.append((scope["type"], scope["path"]))
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close"})
            return
        body = b"".join([(await receive())["body"]])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


def ask(url, headers, body=b"{}"):
    """Status and body of a POST."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        connection.putrequest("POST", "/reset", skip_host=True)
        for name, value in ({"Host": parts.netloc, "Content-Length": str(len(body))} | headers).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def upgrade(url, headers, path="/ws"):
    """The first line that is answered to one who asks for a WebSocket."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, "Upgrade": "websocket", "Connection": "Upgrade"} | headers
    fields |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    with socket.create_connection((parts.hostname, parts.port), 30) as link:
        link.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return link.recv(4096).split(b"\r\n")[0]


@contextmanager
def running(**settings):
    app = Recorder()
    with serving(GuardedApp(app, **settings)) as url:
        yield app, url


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_browser_could_send_does_not_reach_the_application(attack):
    bare = Recorder()
    with serving(bare) as url:  # it is the guard that refuses
        assert ask(url, ATTACKS[attack])[0] == 200
        assert b" 101 " in upgrade(url, ATTACKS[attack])
    with running() as (app, url):
        status, body = ask(url, ATTACKS[attack])
        assert status == 403
        assert len(json.loads(body)["detail"].splitlines()) == 1
        assert b" 403 " in upgrade(url, ATTACKS[attack])
        assert app.reached == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_come_in_and_their_bodies_arrive_as_they_were(program):
    with running() as (app, url):
        assert ask(url, PROGRAMS[program], b'{"a": 1}') == (200, b'{"a": 1}')
        assert b" 101 " in upgrade(url, PROGRAMS[program])
        assert [kind for kind, _ in app.reached] == ["http", "websocket"]


def test_a_name_that_was_given_is_let_in():
    with running(hosts=["envs.example"]) as (_, url):
        assert ask(url, {"Host": "Envs.Example:443"})[0] == 200
        assert ask(url, {"Host": "evil.example"})[0] == 403
        assert ask(url, {"Host": "envs.example", "Origin": "http://envs.example"})[0] == 403
