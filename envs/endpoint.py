"""Calls to an OpenAI-compatible endpoint under a total deadline, with the standard library alone.

A server that drips bytes, sends HTML, closes early or asks to wait cannot hold a call longer than the deadline: it runs
in a thread of its own whose socket is shut when time is up.
"""

from __future__ import annotations

import contextlib
import email.utils
import errno
import http.client
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from rlvr.envs.rewards.errors import BadOption

MAX_REPLY_BYTES: Final = 4 << 20
DEADLINE: Final = "deadline"
TOO_MANY_REQUESTS: Final = 429
NO_KEY: Final = "; no key was sent"
_RETRIED: Final = frozenset([408, 409, 425, 429, 500, 502, 503, 504])
_NOBODY_THERE: Final = (ConnectionRefusedError, ssl.SSLError)
_NO_WAY: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH)
_PASSING_LOOKUPS: Final = (socket.EAI_AGAIN, socket.EAI_MEMORY)  # the name may well exist
_TORN_TLS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)  # a connection lost, no wrong key


class EndpointError(RuntimeError):
    """A call failed; the message names the endpoint and says how. It never holds the key.

    Attributes:
        status: the HTTP status of the last answer, 0 when there was none.
        code: what the endpoint itself calls its error; ``DEADLINE`` when it did not answer in time; or "".
        lasting: the same call fails again until somebody mends the address, the key, the model's name or the request.
        detail: what the endpoint itself says of its error, or "".
    """

    def __init__(
        self, message: str, status: int = 0, code: str = "", *, lasting: bool = False, detail: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.lasting = lasting
        self.detail = detail


class Throttle(Protocol):
    """Who decides when a try may begin, and hears how it ended."""

    def enter(self, end: float) -> bool:
        """Wait until a try may begin; whether that is before ``end``, in ``time.monotonic``'s seconds."""
        ...

    def leave(self, status: int, retry_after: float | None) -> None:
        """A try has ended: with this HTTP status, 0 for none, and so many seconds of ``Retry-After``,
        None where it asks for none or for longer than a call may take."""
        ...


class JudgeError(EndpointError):
    """A judge's call failed."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served.

    Attributes:
        base_url: such as ``http://localhost:8000/v1``.
        model: the model's name there.
        api_key: sent as a bearer token; never shown.
        deadline: seconds for the whole call, retries and waiting included.
        retries: further tries after 5xx, a lost connection or a torn reply, while the deadline lasts. A 429 only asks
            for patience: it uses up none of them, and is tried again until the deadline.
        temperature, max_tokens: passed on by ``chat``.
    """

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    deadline: float = 60.0
    retries: int = 2
    temperature: float = 0.0
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # of a port or an address in brackets
            good = False
        if not good:
            raise BadOption(f"base_url must be an http or https address, got {self.base_url!r}")
        if not 0 < self.deadline < math.inf or self.retries < 0:
            raise BadOption(f"deadline > 0 and retries >= 0 must hold, got {self.deadline} and {self.retries}")
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise BadOption("api_key must be printable ASCII: it is sent in a header")

    def address(self, path: str = "") -> str:
        """The address of a path without what stands before an @ or after a ?, which may be secret."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{path}"


def chat(endpoint: Endpoint, messages: Sequence[Mapping[str, str]]) -> str:
    """The text of the reply to a conversation.

    Raises:
        JudgeError: no usable reply within the deadline.
    """
    body = {
        "model": endpoint.model,
        "messages": [dict(message) for message in messages],
        "temperature": endpoint.temperature,
        "max_tokens": endpoint.max_tokens,
    }
    try:
        return _content(call(endpoint, "/chat/completions", body))
    except EndpointError as error:
        raise JudgeError(str(error), error.status, error.code) from None


def call(
    endpoint: Endpoint,
    path: str,
    body: Mapping[str, Any] | None = None,
    throttle: Throttle | None = None,
    *,
    needs: str = "",
) -> dict[str, Any]:
    """The JSON object that the endpoint answers with: a POST of ``body``, or a GET without one.

    A ``Retry-After`` is waited for as it says, or not at all: a try that would begin after the deadline is not made.

    Args:
        throttle: asked before each try. The deadline begins once it has let the first one in.
        needs: a field of the answer that must be a list of objects, such as "choices". Gateways answer with status 200
            and none in it where the server behind them has failed, so it is tried again.

    Raises:
        EndpointError: no such JSON object within the deadline.
    """
    data = None if body is None else json.dumps(body).encode()
    if throttle is not None:
        throttle.enter(math.inf)
    end = time.monotonic() + endpoint.deadline
    failures = waits = 0
    while True:
        request = _Request(endpoint, path, data, max(0.0, end - time.monotonic()), needs)
        if throttle is not None:
            wait = request.retry_after
            throttle.leave(request.status, wait if wait is not None and wait < endpoint.deadline else None)
        if request.failure is None:
            return request.reply
        failure = request.failure
        failures += request.status != TOO_MANY_REQUESTS
        if not request.retryable or failures > endpoint.retries:
            break
        pause = request.retry_after if request.retry_after is not None else min(8.0, 0.25 * 2**waits)
        waits += 1
        late = pause >= end - time.monotonic()
        if not late:
            time.sleep(pause)
            late = throttle is not None and not throttle.enter(end)
        if late:
            failure += f"; the next try would be after the deadline of {endpoint.deadline:g} s"
            break
    detail = request.detail
    if endpoint.api_key:
        failure, detail = (text.replace(endpoint.api_key, "***") for text in (failure, detail))
    what = f"{endpoint.address(path)} {failure}"
    raise EndpointError(what, request.status, request.code, lasting=request.lasting, detail=detail)


class _Request:
    """One HTTP request in a thread; when its time is up the socket is shut and the thread ends by itself."""

    def __init__(self, endpoint: Endpoint, path: str, body: bytes | None, seconds: float, needs: str) -> None:
        late = f"did not answer within the deadline of {endpoint.deadline:g} s"
        self.failure: str | None = late
        self.retryable = self.lasting = False
        self.retry_after: float | None = None
        self.reply: dict[str, Any] = {}
        self.status, self.code, self.detail = 0, "", ""
        self._needs, self._with_key = needs, bool(endpoint.api_key)
        self._connection: http.client.HTTPConnection | None = None
        self._over = False
        thread = threading.Thread(
            target=self._request, args=(endpoint, path, body, seconds), daemon=True, name="rlvr-endpoint"
        )
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self._over = True
            self.failure, self.retryable, self.code = late, False, DEADLINE
            self._shut()

    def _request(self, endpoint: Endpoint, path: str, body: bytes | None, seconds: float) -> None:
        parts = urlsplit(endpoint.base_url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        # Longer than whoever waits: what ends a call is its deadline, this only the thread.
        connection = kind(parts.hostname or "", parts.port, timeout=seconds + 1.0)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if endpoint.api_key:
            headers["Authorization"] = f"Bearer {endpoint.api_key}"
        target = parts.path.rstrip("/") + path + (f"?{parts.query}" if parts.query else "")
        try:
            self._connection = connection
            connection.connect()
            if self._over:
                return
            connection.request("GET" if body is None else "POST", target, body, headers)
            response = connection.getresponse()
            self._take(response, response.read(MAX_REPLY_BYTES + 1))
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._over:
                self.failure, self.retryable = f"could not be reached: {_cause(error)}", True
                self.lasting = _is_lasting(error)
        finally:
            connection.close()

    def _take(self, response: http.client.HTTPResponse, reply: bytes) -> None:
        if self._over:
            return
        self.status = response.status
        if response.status != 200:
            self.retryable = response.status in _RETRIED
            self.lasting = not self.retryable and response.status < 500
            self.retry_after = seconds_to_wait(response.getheader("Retry-After"))
            self.code, self.detail = _error(reply)
            self.failure = f"answered with status {response.status}" + (f": {self.detail}" if self.detail else "")
            self.failure += self._cure(self.detail)
        elif len(reply) > MAX_REPLY_BYTES:
            self.failure = f"sent a reply over the cap of {MAX_REPLY_BYTES:,} bytes"
        elif response.length:
            self.failure, self.retryable = "closed the connection in the middle of its reply", True
        else:
            value = _json(reply)
            if not isinstance(value, dict):
                kind, (_, begins) = response.getheader("Content-Type") or "no Content-Type", _error(reply)
                beginning = f"{_line(kind)[:60]}, {begins[:60]!r}" if reply else "it is empty"
                self.failure, self.retryable = f"sent a reply that is not a JSON object ({beginning})", True
                self.lasting = "html" in kind.lower()  # a site's page, which a wrong address gives each time
            elif self._needs and not _has_objects(value.get(self._needs)):
                self.code, detail = _error(reply) if value.get("error") else ("", "")
                what = f"sent a reply without {self._needs}, with status 200"
                self.failure, self.retryable = what + (f": {detail}" if detail else ""), True
            else:
                self.reply, self.failure = value, None

    def _cure(self, detail: str) -> str:
        """What a user may have to mend, where the status tells."""
        if self.status in (401, 403) and not self._with_key:
            return NO_KEY
        if self.status in (404, 405) and "model" not in detail.lower():
            return "; is the address right? It usually ends in /v1"
        return ""

    def _shut(self) -> None:
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def seconds_to_wait(header: str | None) -> float | None:
    """What ``Retry-After`` asks for, as seconds or as a date; None when it says nothing that can be read."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError, OSError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def _is_lasting(error: Exception) -> bool:
    """Whether a connection failed for a reason that the next one meets too."""
    number = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror):
        return number not in _PASSING_LOOKUPS
    return number in _NO_WAY or (isinstance(error, _NOBODY_THERE) and not isinstance(error, _TORN_TLS))


def _cause(error: Exception) -> str:
    detail = getattr(error, "strerror", None) if isinstance(error, OSError) else None
    return f"{type(error).__name__} ({detail})" if detail else type(error).__name__


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error(reply: bytes) -> tuple[str, str]:
    """The code of an error, and what is said about it: one printable line of at most 200 characters."""
    value = _json(reply[:65_536])
    detail: Any = reply[:1_000].decode("utf-8", "replace")
    code: Any = ""
    if isinstance(value, dict):
        inner = value.get("error", value)
        if isinstance(inner, dict):
            code = inner.get("code") or inner.get("type") or ""
            detail = inner.get("message") or inner.get("detail") or detail
            if isinstance(param := inner.get("param"), str) and param not in str(detail):
                detail = f"{detail} ({param})"
        elif isinstance(inner, str):
            detail = inner
    return str(code)[:100], _line(detail)[:200]


def _line(text: Any) -> str:
    """One printable line."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(str(text).split()))


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _content(reply: Mapping[str, Any]) -> str:
    try:
        content = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise JudgeError("the judge's reply is not a chat completion") from None
    if not isinstance(content, str) or not content.strip():
        raise JudgeError("the judge's reply has no text")
    return content
