"""A small HTTP server for this machine alone: JSON in, JSON or server-sent events out, nothing left after it.

Other users of the machine and the pages in its browsers can reach a port of the loopback too. So a request must bear
the server's key, must not bear an ``Origin``, and must name the loopback in ``Host`` (`rlvr.adapters.serving.guard`).
All of this is looked at before its body is read.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from rlvr.adapters.serving.bounded_json import TooManyValues, read_object
from rlvr.adapters.serving.guard import bears_key, limited_log, wrong_host, wrong_origin

MAX_BODY = 64 * 2**20
MAX_VALUES = 1 << 20  # of a body
MAX_CONNECTIONS = 512
LARGE_BODY = 1 << 20  # bytes; of such bodies two are parsed at a time
MAX_HELD = 8 * MAX_BODY  # of all bodies that arrive at once
log = limited_log("rlvr.loopback")
IDLE_SECONDS = 60.0  # a connection that says nothing for so long is closed


class HttpRequest(NamedTuple):
    """One request: the body as a JSON object, empty for GET; the names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]

    def has_key(self, key: str) -> bool:
        """Whether it bears this key, as ``Authorization: Bearer …``."""
        return bears_key(self.headers, key)


class HttpError(Exception):
    """An answer that is an error: the status, and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, Any]:
        """The answer's JSON, in the form of OpenAI's errors."""
        kind = HTTPStatus(self.status).phrase.lower().replace(" ", "_")
        return {"error": {"message": str(self), "type": kind, "code": self.status}}


class ServerEvent(NamedTuple):
    """One of a stream's events: its data on one line, and its name, where it has one."""

    data: str
    name: str = ""


Answer = dict[str, Any] | Iterator[ServerEvent]  # a JSON object, or server-sent events


def _error_body(request: HttpRequest, error: HttpError) -> dict[str, Any]:
    """An error's body, in the form of OpenAI's errors whatever was asked."""
    return error.body()


class LoopbackServer:
    """Serves one function on 127.0.0.1, each connection in a thread of its own.

    Attributes:
        url: where it listens, without a slash at the end.
        key: what requests must bear; None where ``admit`` or nobody asks for one.

    Args:
        answer: from a request to its answer; raises `HttpError` for an error. Any other exception is a 500, which says
            its kind alone: its words may name what is on this machine.
        port: 0 takes a free one.
        name: of its threads.
        key: by default a new secret one, for the client that the server is made for; None asks for none.
        admit: looks at a request without its body, before the body is read; raises `HttpError`.
        open_paths: what may be asked by GET without a key, such as a health check.
        write_error: from a request, whose body may not have been read, and an error to the answer's body.
    """

    def __init__(
        self,
        answer: Callable[[HttpRequest], Answer],
        *,
        port: int = 0,
        name: str = "loopback",
        key: str | None = "",
        admit: Callable[[HttpRequest], None] | None = None,
        open_paths: Collection[str] = (),
        write_error: Callable[[HttpRequest, HttpError], dict[str, Any]] = _error_body,
    ) -> None:
        self.key = secrets.token_urlsafe(24) if key == "" else key
        self._admit, self._open_paths = admit, frozenset(open_paths)
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.answer, self._server.admit, self._server.write_error = answer, self._check, write_error
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name=name, daemon=True)
        self._thread.start()

    def _check(self, request: HttpRequest) -> None:
        if wrong := wrong_origin(request.headers) or wrong_host(request.headers, "127.0.0.1"):
            raise HttpError(403, wrong)
        is_open = request.method == "GET" and request.path in self._open_paths
        if self.key is not None and not is_open and not bears_key(request.headers, self.key):
            raise HttpError(401, "the request does not bear this server's key: send 'Authorization: Bearer <key>'")
        if self._admit is not None:
            self._admit(request)

    def close(self, grace: float = 5.0) -> None:
        """Stop listening, cut the connections, and wait for their threads, ``grace`` seconds at most."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(grace)
        self._server.cut(grace)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    answer: Callable[[HttpRequest], Answer]
    admit: Callable[[HttpRequest], None]
    write_error: Callable[[HttpRequest, HttpError], dict[str, Any]]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.large = threading.BoundedSemaphore(2)
        self._open: dict[Any, threading.Thread | None] = {}  # by connection
        self._waiting: dict[Any, None] = {}  # connections that have asked for nothing that they may; the oldest first
        self._held = 0  # bytes of bodies
        self._lock = threading.Lock()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for one more connection; the oldest that has asked for nothing gives way to it."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = next(iter(self._waiting), None)
                if oldest is None:
                    return False
                del self._waiting[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
            self._waiting[request] = None
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = threading.current_thread()
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget it."""
        super().shutdown_request(request)
        with self._lock:
            self._open.pop(request, None)
            self._waiting.pop(request, None)

    @contextmanager
    def serving(self, request: Any) -> Iterator[None]:
        """While a connection is served, it gives way to no other."""
        with self._lock:
            self._waiting.pop(request, None)
        try:
            yield
        finally:
            with self._lock:
                self._waiting[request] = None

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Memory for a body; `HttpError` where too much of it is in use."""
        with self._lock:
            if self._held + size > MAX_HELD:
                raise HttpError(503, f"bodies of {self._held} bytes are under way: try later")
            self._held += size
        try:
            yield
        finally:
            with self._lock:
                self._held -= size

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; what our own code raises was answered with a 500."""

    def cut(self, grace: float) -> None:
        with self._lock:
            connections = dict(self._open)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in connections.values():
            if thread is not None:
                thread.join(grace)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1  # head and body in one packet: two make the other side wait for an acknowledgement
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._respond(dict)

    def do_POST(self) -> None:
        self._respond(self._read)

    def _read(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or "Transfer-Encoding" in self.headers:
            raise HttpError(411, "the request names no Content-Length, or is sent in chunks")
        if len(length) > 12 or int(length) > MAX_BODY:
            raise HttpError(413, f"a body has at most {MAX_BODY} bytes")
        large = int(length) > LARGE_BODY
        with self.server.holding(int(length)):
            data = self.rfile.read(int(length))
            try:
                with self.server.large if large else nullcontext():  # not while it arrives: that may take long
                    return read_object(data, MAX_VALUES)
            except TooManyValues:
                raise HttpError(413, f"a body has at most {MAX_VALUES} values, keys included") from None
            except ValueError as error:
                raise HttpError(400, f"the body cannot be read: {error}") from None

    def _respond(self, body: Callable[[], dict[str, Any]]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = HttpRequest(self.command, self.path.partition("?")[0], headers, {})
        try:
            self.server.admit(request)
        except HttpError as refusal:
            self._refuse(request, refusal)
        else:
            with self.server.serving(self.connection):
                self._serve(request, body)

    def _refuse(self, request: HttpRequest, refusal: HttpError) -> None:
        self.close_connection = True  # the body was not read
        self._fail(request, refusal)

    def _fail(self, request: HttpRequest, error: HttpError) -> None:
        self._send(error.status, self.server.write_error(request, error))

    def _serve(self, request: HttpRequest, body: Callable[[], dict[str, Any]]) -> None:
        try:
            request = request._replace(body=body())
        except HttpError as refusal:
            self._refuse(request, refusal)
            return
        try:
            answer = self.server.answer(request)
        except HttpError as refusal:
            self._fail(request, refusal)
        except Exception as error:
            log.exception("a request failed")
            self._fail(request, HttpError(500, f"the server failed: {type(error).__name__}; its log says more"))
        else:
            if isinstance(answer, dict):
                self._send(200, answer)
            else:
                self._stream(answer)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[ServerEvent]) -> None:
        self.close_connection = True  # its end is the end of the connection
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event.name}\n" if event.name else ""
            self.wfile.write(f"{name}data: {event.data}\n\n".encode())
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: bodies and keys are private."""
