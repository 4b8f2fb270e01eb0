"""Stands before a gateway, passes every byte of bodies through as it comes, and keeps the pairs.

It knows no dialect: OpenAI's, Anthropic's and vLLM's requests, whole or streamed, pass alike. Keys pass in the headers
and are not kept: a record has bodies, status and type alone.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from rlvr.adapters.conformance.client import open_connection
from rlvr.adapters.serving.guard import wrong_host, wrong_origin
from rlvr.envs.endpoint import Endpoint

MAX_BODY = 64 * 2**20  # of a request, and of what is kept of an answer
PIECE = 1 << 16
IDLE_SECONDS = 600.0  # a gateway may think so long before its first byte
# Headers that belong to one connection, not to the message.
HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"}
HOP |= {"upgrade", "proxy-connection"}


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request and its answer, as they passed.

    Attributes:
        method, path: of the request, the query included.
        request, response: the bodies.
        status: of the answer; 502 where the gateway gave none.
        content_type, content_encoding: of the answer.
        started, seconds: when it came, in seconds since 1970, and how long it took.
        complete: whether the whole answer passed.
    """

    method: str
    path: str
    request: bytes
    status: int
    content_type: str
    content_encoding: str
    response: bytes
    started: float
    seconds: float
    complete: bool

    def to_json(self) -> str:
        """One line; a body that is no UTF-8 stands there in base64."""
        record: dict[str, Any] = asdict(self)
        for name in ("request", "response"):
            data = record.pop(name)
            try:
                record[name] = data.decode("utf-8")
            except UnicodeDecodeError:
                record[f"{name}_base64"] = base64.b64encode(data).decode()
        return json.dumps(record)

    @classmethod
    def from_json(cls, line: str) -> RecordedExchange:
        """A record from its line.

        Raises:
            ValueError: it is none.
        """
        try:
            record = json.loads(line)
            for name in ("request", "response"):
                written = record.pop(f"{name}_base64", None)
                record[name] = record[name].encode() if written is None else base64.b64decode(written)
            return cls(**record)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"a line is no recorded exchange: {type(error).__name__}: {error}") from None


class Recorder:
    """A server at 127.0.0.1 that is the gateway, but for writing down what passes.

    Attributes:
        url: what clients put in the place of the gateway's address.
        exchanges: what has passed.

    Args:
        upstream: the gateway's address, with or without a path such as ``/v1``.
        out: a file to which each exchange is appended as a line; None keeps them in memory alone.
        port: 0 takes a free one.

    Raises:
        ValueError: the address is none of HTTP.
        OSError: the port is taken.
    """

    def __init__(self, upstream: str, out: Path | None = None, port: int = 0) -> None:
        Endpoint(upstream, "")  # looks at the address
        self.upstream, self.exchanges, self._lock = upstream.rstrip("/"), list[RecordedExchange](), threading.Lock()
        self._file = None if out is None else out.open("a", encoding="utf-8")
        try:
            self._server = _RecorderServer(("127.0.0.1", port), _Passing)
        except OSError:
            if self._file is not None:
                self._file.close()
            raise
        self._server.recorder = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{urlsplit(self.upstream).path}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="recorder", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, cut what is under way, and close the file."""
        self._server.shutdown()
        self._server.cut()
        self._server.server_close()  # waits for the connections' threads
        self._thread.join()
        if self._file is not None:
            self._file.close()

    def keep(self, exchange: RecordedExchange) -> None:
        """Write an exchange down."""
        with self._lock:
            self.exchanges.append(exchange)
            if self._file is not None:
                self._file.write(exchange.to_json() + "\n")
                self._file.flush()


class _RecorderServer(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128
    recorder: Recorder

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sockets: set[socket.socket] = set()  # of clients and of the gateway

    def cut(self) -> None:
        for each in list(self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self.sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60.0
    server: _RecorderServer

    def setup(self) -> None:
        super().setup()
        self.server.sockets.add(self.connection)

    def _pass(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        if wrong := wrong_origin(headers) or wrong_host(headers, "127.0.0.1"):
            self._answer_error(403, wrong)
            return
        body = self._body()
        if body is None:
            return
        started, clock = time.time(), time.monotonic()
        upstream = open_connection(self.server.recorder.upstream, IDLE_SECONDS)
        kept, status, kind, encoding, complete = bytearray(), 502, "", "", False
        try:
            sent = {name: value for name, value in self.headers.items() if name.lower() not in HOP | {"host"}}
            upstream.request(self.command, self.path, body or None, sent)
            assert upstream.sock is not None  # for the type checker: it has been opened
            self.server.sockets.add(upstream.sock)
            response = upstream.getresponse()
            status, kind = response.status, response.headers.get("Content-Type", "")
            encoding = response.headers.get("Content-Encoding", "")
            self._pass_answer(response, kept)
            complete = True
        except (OSError, http.client.HTTPException) as error:
            self.close_connection = True
            if status == 502:
                self._answer_error(502, f"the gateway does not answer: {type(error).__name__}")
        finally:
            if upstream.sock is not None:
                self.server.sockets.discard(upstream.sock)
            upstream.close()
            record = (status, kind, encoding, bytes(kept), started, time.monotonic() - clock, complete)
            self.server.recorder.keep(RecordedExchange(self.command, self.path, body, *record))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _pass

    def _body(self) -> bytes | None:
        """The body of the request; None where it was refused."""
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            self._answer_error(411, "the request names no Content-Length, or is sent in chunks")
        elif len(length) > 12 or int(length) > MAX_BODY:
            self._answer_error(413, f"a body has at most {MAX_BODY} bytes")
        else:
            return self.rfile.read(int(length))
        return None

    def _pass_answer(self, response: http.client.HTTPResponse, kept: bytearray) -> None:
        """Send the answer on, piece by piece as it comes, and keep it."""
        self.send_response_only(response.status, response.reason)
        for name, value in response.headers.items():
            if name.lower() not in HOP:
                self.send_header(name, value)
        is_empty = self.command == "HEAD" or response.status in (204, 304)
        is_chunked = response.headers.get("Content-Length") is None and not is_empty
        if is_chunked and self.request_version >= "HTTP/1.1":
            self.send_header("Transfer-Encoding", "chunked")
        elif is_chunked:
            is_chunked, self.close_connection = False, True
        self.end_headers()
        while piece := b"" if is_empty else response.read1(PIECE):
            kept += piece[: MAX_BODY - len(kept)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
            self.wfile.flush()
        if response.length:
            raise http.client.IncompleteRead(bytes(kept), response.length)
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _answer_error(self, status: int, message: str) -> None:
        self.close_connection = True
        data = json.dumps({"error": {"message": f"recorder: {message}", "code": status}}).encode()
        with suppress(OSError):
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: bodies and keys are private."""
