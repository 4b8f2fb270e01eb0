"""Rules of our servers: who may send requests, how often, and what answers may tell of the machine. No server starts in
here.

A web page can have its reader's browser send requests to a server on the reader's machine. The browser names the page
in ``Origin``, and in ``Host`` the name that the page was loaded from: with DNS rebinding, a name of the attacker's that
now leads to 127.0.0.1. Programs send no ``Origin``, and name in ``Host`` the address that they were given.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import os
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any

# An absolute path, of POSIX or Windows, in quotes or bare; an address with a scheme is none.
_QUOTED = re.compile(r"""(?P<quote>['"])(?:file://)?(?:/|[A-Za-z]:[\\/]|\\\\)[^'"\n]{1,4096}(?P=quote)""")
_BARE = re.compile(r"""(?<![\w/:.\\])(?:file://)?(?:/|[A-Za-z]:[\\/]|\\\\)[\w.+@~%=-][^\s'"<>|:;,()\[\]{}]*""")
HIDDEN = "<path>"
POLICY_VIOLATION = 1008  # why a WebSocket was closed (RFC 6455)
AsgiMessage = MutableMapping[str, Any]
Send = Callable[[AsgiMessage], Awaitable[None]]
LOGGED_AT_ONCE, LOGGED_A_SECOND = 10, 0.1  # records of one line of code
MAX_LOGGED = 2_000  # characters of a record's message, and of its traceback


class Allowance:
    """How often something may happen.

    Args:
        at_once: times, after a while without any.
        a_second: times, on average.
        clock: what tells the seconds.
    """

    def __init__(self, at_once: float, a_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.a_second = a_second
        self._most, self._left, self._clock = at_once, at_once, clock
        self._then = clock()

    def take(self) -> bool:
        """Whether it may happen now; if so, it counts."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._then) * self.a_second)
        self._then = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class LimitedLog(logging.Filter):
    """What strangers provoke may be logged, but cannot fill a disk: each line of code logs so often, and so much."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[tuple[str, int], Allowance] = {}
        self._left_out: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged; one that is says how many before it were not, and is cut to its bounds."""
        line = record.pathname, record.lineno
        allowance = self._lines.setdefault(line, Allowance(LOGGED_AT_ONCE, LOGGED_A_SECOND))
        if not allowance.take():
            self._left_out[line] = self._left_out.get(line, 0) + 1
            return False
        left_out = self._left_out.pop(line, 0)
        message = _cut(record.getMessage()) + (f" ({left_out} more like this were not logged)" if left_out else "")
        record.msg, record.args = message, None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = _cut("".join(traceback.format_exception(record.exc_info[1])))
        return True


def _cut(text: str) -> str:
    """A text in its bounds: its beginning, and its end, where a traceback says what was raised."""
    half = MAX_LOGGED // 2
    return text if len(text) <= MAX_LOGGED else f"{text[:half]} … {text[-half:]}"


def limited_log(name: str) -> logging.Logger:
    """The logger of that name, with limits."""
    log = logging.getLogger(name)
    if not any(isinstance(each, LimitedLog) for each in log.filters):
        log.addFilter(LimitedLog())
    return log


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def wrong_origin(headers: Mapping[str, str]) -> str:
    """Why a request may come from a web page; "" if it cannot. The names of headers are in lower case."""
    if "origin" in headers:
        return "requests of web pages, which bear an Origin, are not served"
    return ""


def wrong_host(headers: Mapping[str, str], address: str, names: Collection[str] = ()) -> str:
    """Why the ``Host`` of a request is none of this server's; "" if it is one.

    Args:
        headers: of the request, names in lower case.
        address: where the connection arrived, an IP address. At one that only this machine can reach, ``Host`` must
            name such an address too.
        names: further names of the server. With any, every connection must use one of them.
    """
    local = is_loopback(address)
    if not local and not names:
        return ""
    host = headers.get("host", "").lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]  # without a port
    if name in {server_name.lower() for server_name in names} or (local and is_loopback(name)):
        return ""
    return f"the Host {name!r:.100} is no name of this server"


def bears_key(headers: Mapping[str, str], key: str) -> bool:
    """Whether a request has ``Authorization: Bearer <key>``; the time it takes does not depend on what is wrong."""
    scheme, _, key_given = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(key_given.strip().encode("utf-8", "surrogateescape"), key.encode())
    return same and scheme.lower() == "bearer"


class GuardedApp:
    """An ASGI application behind these rules: what may not come in is answered with 403, before its body is read.

    For applications that a foreign framework made: ``app.add_middleware(GuardedApp)`` where it is Starlette's or
    FastAPI's, ``GuardedApp(app)`` elsewhere.

    Args:
        app: the application.
        hosts: names that the server goes by in ``Host``, as ``names`` of `wrong_host`.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], hosts: Collection[str] = ()) -> None:
        self.app, self.hosts = app, frozenset(hosts)

    async def __call__(
        self,
        scope: AsgiMessage,
        receive: Callable[[], Awaitable[AsgiMessage]],
        send: Send,
    ) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = headers_of(scope)
        address = (scope.get("server") or ("", None))[0]
        wrong = wrong_origin(headers) or wrong_host(headers, address, self.hosts)
        if not wrong:
            await self.app(scope, receive, send)
            return
        is_socket = scope["type"] == "websocket"
        if is_socket and "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})
            return
        await send_json(send, 403, {"detail": wrong}, "websocket.http" if is_socket else "http")


async def send_json(send: Send, status: int, value: Any, protocol: str = "http") -> None:
    """Answer a request of ASGI with JSON."""
    body = json.dumps(value).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{protocol}.response.start", "status": status, "headers": fields})
    await send({"type": f"{protocol}.response.body", "body": body})


def headers_of(scope: AsgiMessage) -> dict[str, str]:
    """The headers of a request of ASGI, names in lower case; of a name that comes twice the first."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return headers


def without_paths(message: str) -> str:
    """An error's message for others: paths of this machine are left out, control characters are shown as escapes."""
    folders = {os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir(), sys.prefix, os.path.dirname(__file__)}
    # Their names may have spaces, which the patterns take for the end of a path.
    for root in sorted((folder for folder in folders if len(folder) > 2), key=len, reverse=True):
        message = re.sub("(?:file://)?" + re.escape(root) + r"""[^\s'"<>|:;,()\[\]{}]*""", HIDDEN, message)
    message = _QUOTED.sub(rf"\g<quote>{HIDDEN}\g<quote>", message)
    message = _BARE.sub(HIDDEN, message)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in message)
