"""A client's connection to `rlvr serve`: requests and their answers, whatever happens to the network or the server."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import parse_qsl, quote, urlsplit

import gymnasium as gym

from rlvr.adapters.serving.bounded_json import read_object
from rlvr.adapters.serving.server_messages import (
    Greeting,
    Range,
    checked_range,
    checked_timeout,
    differs,
    error_in,
    read_answer,
    read_greeting,
)
from rlvr.adapters.serving.web_server import allowed_files
from rlvr.adapters.serving.wire import MAX_ANSWER_VALUES, MAX_FRAME, MAX_PIXELS, SOCKET_PATH, write

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
OPEN_SECONDS = 20.0  # for a connection to be made
HEARTBEAT = 20.0  # seconds between pings of a connection, and for its pong
CLOSE_SECONDS = 5.0  # for a server to take leave
TRIED = 6  # times its limit: what a late step takes with its trials, see rlvr.envs.vector.step_trials
SLACK_SECONDS = 30.0  # what an answer may take beyond that
FILES_EACH = 8  # that a connection may take: websockets has four, its socket, two to wake its thread, and a poller
FILES_AHEAD = 512  # for the connections that other threads make now
MAX_PASSED_OVER = 1024  # answers to earlier requests, before the one that is waited for


class Access(TypedDict, total=False):
    """How a client comes in, and what it takes; see `rlvr.adapters.connect`."""

    token: str | None
    timeout: float | None
    reward_range: Range | None
    env: str | None


class RemoteError(gym.error.Error):
    """The server refused, or what it serves failed.

    Attributes:
        code: one of `rlvr.adapters.serving.wire.CODES`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteError, (str(self), self.code)


def error_of(error: Mapping[str, str]) -> Exception:
    """The exception that stands for an error of the wire."""
    code, message = str(error.get("code")), str(error.get("message"))
    match code:
        case "invalid" | "too_large":
            return ValueError(message)
        case "reset_needed":
            return gym.error.ResetNeeded(message)
        case "timeout":
            return TimeoutError(message)
        case "unauthorised" | "forbidden":
            return PermissionError(message)
        case "closing" | "draining":
            return ConnectionError(message)
    return RemoteError(message, code)


def _parts_of(url: str) -> tuple[str, str | None, str | None]:
    """An address as `rlvr serve` prints it, ``http://127.0.0.1:8765/?token=…``, without what follows the question mark,
    the token, and the id after ``env=``."""
    address, _, query = url.partition("?")
    fields = dict(parse_qsl(query, keep_blank_values=True))
    if fields.keys() - {"token", "env"}:
        raise ValueError(f"an address may say ?token=… and env=…, and nothing else; got ?{'&'.join(sorted(fields))}")
    return (address.rstrip("/") if query else url), fields.get("token"), fields.get("env")


class WireConnection:
    """A connection that is made when it is needed, and made again, once, when it broke.

    A request that was under way when it broke is sent again under its id, and the server carries it out once. Answers
    to earlier requests, such as one that came after its time, are passed over. All that a server says is checked
    (`rlvr.adapters.serving.server_messages`).

    Args:
        url, token, timeout, reward_range, env: as in `rlvr.adapters.connect`.
        ip: the address to go to, where the name in ``url`` has several.
        open_seconds: for a connection to be made.
        heartbeat: seconds between pings, and for the pong.

    Attributes:
        url: without the token.
        address, headers: of the WebSocket.
        ip, port: where it goes; ip is None where the name in ``url`` says it.

    Raises:
        ValueError: one of them is none.
        ConnectionError, PermissionError, RemoteError: as `ask`.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float | None = None,
        reward_range: Range | None = None,
        env: str | None = None,
        ip: str | None = None,
        open_seconds: float = OPEN_SECONDS,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._link: ClientConnection | None = None
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise ValueError(f"url must be an http, https, ws or wss address, got {url!r}")
        if not 0 <= (parts.port or 0) < 1 << 16 or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(f"url must be an address of printable ASCII, got {url!r}")
        url, url_token, url_env = _parts_of(url)
        if env and url_env and env != url_env:
            raise ValueError(f"the address names {url_env!r:.100}, and env= another: give one of them")
        env = env or url_env
        if token and url_token and token != url_token:
            raise ValueError("the address has one token, and token= is another: give one of them")
        token = token or url_token
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise ValueError("a token has printable ASCII characters alone, without spaces")
        self.url = url
        self.address = f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}{SOCKET_PATH}"
        self.address += f"?env={quote(env, safe='/:')}" if env else ""
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout, self._range = checked_timeout(timeout), checked_range(reward_range)
        self.ip, self.port = ip, parts.port or (443 if SCHEMES[parts.scheme] == "wss" else 80)
        self._open_seconds, self._heartbeat = open_seconds, heartbeat
        self._lock = threading.Lock()
        self._client, self._numbers = secrets.token_hex(16), itertools.count()
        self._greeting: Greeting | None = None
        with self._lock:
            self._connected()

    @property
    def greeting(self) -> Greeting:
        """What the server greeted with when the connection was made last."""
        assert self._greeting is not None, "there was one, or __init__ raised"
        return self._greeting

    @property
    def timeout(self) -> float | None:
        """Seconds to wait for an answer: the caller's limit, else the server's and some slack; None for no limit."""
        limit = self.greeting.timeout
        return self._timeout or (None if limit is None else TRIED * limit + SLACK_SECONDS)

    def open(self, count: int) -> list[str]:
        """Open ``count`` sessions, and return their names; raises as `ask`, but not for a server that was restarted."""
        return self._ask("open", [], count, self.timeout)

    def ask(self, op: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The result of each item: its fields, with values unpacked, or an ``error``.

        Raises:
            ValueError, ResetNeeded, TimeoutError, PermissionError, RemoteError: the server refused all of it.
            ConnectionError: the server is gone, or was restarted, or says what the wire does not allow.
            ImportError: an answer has an image, and Pillow is missing.
        """
        return self._ask(op, items, len(items), self.timeout)

    def leave(self, sessions: list[str]) -> None:
        """End the sessions, and the connection; nothing is raised, for the server ends them by itself too."""
        if sessions:
            with suppress(Exception):
                self._ask("close", [{"session": session} for session in sessions], len(sessions), CLOSE_SECONDS)
        self.close()

    def close(self) -> None:
        """Close the connection; the server keeps its sessions for their time."""
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        # Whoever forgets an environment is gone for the server too. No closing handshake: nothing may wait in here.
        with suppress(Exception):
            if self._link is not None:
                self._link.socket.shutdown(socket.SHUT_RDWR)

    def _ask(self, op: str, items: list[dict[str, Any]], count: int, limit: float | None) -> list[Any]:
        with self._lock:
            name = f"{self._client}-{next(self._numbers)}"
            return self._ask_part(name, itertools.count(), op, items, count, limit)

    def _ask_part(
        self, name: str, parts: Iterator[int], op: str, items: list[dict[str, Any]], count: int, limit: float | None
    ) -> list[Any]:
        """Ask a request, or a part of one whose message or answer is too large.

        Args:
            name: of the request. A part has it, ``#`` and a number: a session that has carried out the request
                answers a part of it as it answered the whole, and an answer that comes twice is no other part's.
            parts: numbers that no part has had yet.
            op, items, count, limit: of the part.
        """
        part = next(parts)
        message: dict[str, Any] = {"id": f"{name}#{part}" if part else name, "op": op}
        message |= {"count": count} if op == "open" else {"items": items}
        if self.greeting.numbered:
            message |= {"client": self._client} if op == "open" else {"number": _number_of(name)}
        half, text = len(items) // 2, write(message)
        if not half and len(text) > self.greeting.frame:
            raise ValueError(f"a message of {len(text)} bytes is over the server's {self.greeting.frame}")
        if len(text) <= self.greeting.frame and self._holds_images(op, len(items)):
            answer = self._exchange(message["id"], text, limit, begins=op == "open")
            try:
                error = error_in(answer)
                if error is None:
                    return read_answer(answer, op, items, count, self.greeting)
            except ValueError as wrong:
                self._drop()
                raise ConnectionError(f"{self.url} sent what the wire does not allow: {wrong}") from None
            if error["code"] != "too_large" or not half:
                raise error_of(error)
        return [
            result
            for some in (items[:half], items[half:])
            for result in self._ask_part(name, parts, op, some, len(some), limit)
        ]

    def _holds_images(self, op: str, count: int) -> bool:
        """Whether one answer may hold the images of ``count`` observations."""
        image = self.greeting.image
        return image is None or op not in ("reset", "step") or count * image[0] * image[1] <= MAX_PIXELS or count == 1

    def _exchange(self, name: str, text: str, limit: float | None, begins: bool) -> dict[str, Any]:
        for last in (False, True):
            link = self._connected(begins)
            try:
                link.send(text)
                return self._received(link, name, limit)
            except TimeoutError:
                self._drop()  # else the server would keep what nobody waits for
                raise TimeoutError(f"{self.url} did not answer within {limit:g} s") from None
            except WrongMessage as error:
                self._drop()
                raise ConnectionError(f"{self.url} sent what the wire does not allow: {error}") from None
            except Exception as error:  # the library's own exceptions, and those of a socket
                self._drop()
                if last:
                    raise ConnectionError(f"the connection to {self.url} was lost twice: {error}") from error
        raise AssertionError("unreachable")

    def _received(self, link: ClientConnection, request_id: str, limit: float | None) -> dict[str, Any]:
        until = None if limit is None else time.monotonic() + limit
        for _ in range(MAX_PASSED_OVER):
            seconds_left = None if until is None else until - time.monotonic()
            if seconds_left is not None and seconds_left <= 0:
                raise TimeoutError
            message = _message(link.recv(seconds_left))
            name = message.get("id")
            if name == request_id or (name is None and "error" in message):
                return message
            if not self._was_asked(name, _number_of(request_id)):
                raise WrongMessage(f"an answer to {name!r:.60}, which was not asked")
        raise WrongMessage(f"{MAX_PASSED_OVER} answers to earlier requests")

    def _was_asked(self, name: Any, number: int) -> bool:
        if not isinstance(name, str):
            return False
        client, _, earlier = name.partition("#")[0].partition("-")
        return client == self._client and earlier.isdecimal() and len(earlier) < 20 and int(earlier) <= number

    def _connected(self, begins: bool = True) -> ClientConnection:
        if self._link is not None:
            return self._link
        link = self._open()
        before = self._greeting
        try:
            message = _message(link.recv(self._open_seconds))
            error = error_in(message)
            if error is None:
                greeting = read_greeting(message, self._range)
        except TimeoutError:
            _close(link)
            raise ConnectionError(f"{self.url} did not say who it is within {self._open_seconds:g} s") from None
        except (WrongMessage, ValueError) as wrong:
            _close(link)
            raise ConnectionError(f"{self.url} is no server of this wire: {wrong}") from None
        except Exception as lost:
            _close(link)
            raise ConnectionError(f"the connection to {self.url} was lost at its beginning: {lost}") from lost
        except BaseException:  # Ctrl-C
            _close(link)
            raise
        if error is not None:
            _close(link)
            raise error_of(error)
        if before is not None and (change := differs(before, greeting)):
            _close(link)
            raise ConnectionError(f"{self.url} serves something else since it was restarted: {change}")
        self._link, self._greeting = link, greeting
        if before is not None and before.instance != greeting.instance and not begins:
            raise ConnectionResetError(
                f"the server at {self.url} was restarted, and the episodes there are lost: call reset()"
            )
        return link

    def _open(self) -> ClientConnection:
        try:
            from websockets.exceptions import InvalidStatus
            from websockets.sync.client import connect as open_socket
        except ImportError as error:
            raise ImportError('a remote environment needs websockets: pip install "rlvr[serve]"') from error
        self._check_files()
        try:
            opened = open_socket(
                self.address,
                sock=None if self.ip is None else socket.create_connection((self.ip, self.port), self._open_seconds),
                ping_interval=self._heartbeat,
                ping_timeout=self._heartbeat,
                additional_headers=self.headers,
                compression=None,
                max_size=MAX_FRAME,
                open_timeout=self._open_seconds,
                close_timeout=2.0,
                proxy=None,
            )
            return opened.__enter__()  # the way that its versions share; `_drop` is its end
        except InvalidStatus as refused:
            status, body = refused.response.status_code, refused.response.body or b""
        except Exception as error:
            raise ConnectionError(f"there is no server at {self.url}: {error}") from error
        refusal = None
        with suppress(WrongMessage, ValueError):
            refusal = error_in(_message(bytes(body)))
        raise ConnectionError(f"{self.url} answered {status}: {body[:200]!r}") if refusal is None else error_of(refusal)

    def _check_files(self) -> None:
        """Raise ConnectionError where this process may open no more files: the library would fail in a thread."""
        try:
            lowest = os.open(os.devnull, os.O_RDONLY)  # the number that is given is the lowest that is free
            os.close(lowest)
            if allowed_files(lowest + FILES_AHEAD) >= lowest + FILES_EACH:
                return
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        raise ConnectionError(
            f"no connection to {self.url}: this process may have {allowed_files(0)} files open, and a connection takes "
            "some: raise the limit (ulimit -n)"
        )

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            _close(link)


def _number_of(name: str) -> int:
    """The number in the name of a request, or of a part of one."""
    return int(name.partition("#")[0].partition("-")[2])


class WrongMessage(Exception):
    """A server's message is none."""


def _close(link: ClientConnection) -> None:
    with suppress(Exception):  # it may be broken in any way
        link.close()


def _message(data: str | bytes) -> dict[str, Any]:
    try:
        return read_object(data, MAX_ANSWER_VALUES, unique=False)  # all that is read from it is checked
    except ValueError as error:
        raise WrongMessage(f"a message that cannot be read: {error}") from None
