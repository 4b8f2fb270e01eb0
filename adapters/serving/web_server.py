"""The socket and the web server under `rlvr serve`."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from rlvr.adapters.serving.guard import POLICY_VIOLATION, Allowance, limited_log
from rlvr.adapters.serving.wire import MAX_FRAME

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from websockets.frames import Frame

HEARTBEAT = 20.0  # seconds between pings of a connection, and for its pong
SHUTDOWN_SECONDS = 3
HEAD_SECONDS = 30.0  # for a client to say what it asks for, from its first byte or from the connection's beginning
PATIENCE = 30.0  # seconds for a client to take an answer, or to send the rest of a request
BACKLOG = 256  # connections that are taken before others have their turn, or wait for that
WAITING = 256  # connections that have not said what they ask for
READ_AT_ONCE = 1 << 12  # bytes of a connection: before others had their turn it may ask for no more than is in these
IDLE_FRAMES, IDLE_FRAMES_A_SECOND = 250, 50  # of a connection: pings, pongs, small fragments
REFUSALS, REFUSALS_A_SECOND = 100, 50  # of a connection, which is listened to more slowly from then on
SMALL_FRAGMENT = 1 << 10  # bytes


class Client:
    """What one connection has of the server, and owes it.

    Attributes:
        large: held while a large message of it is read or answered: it has one such at a time.
    """

    def __init__(self) -> None:
        self.large = asyncio.Lock()
        self._allowance = Allowance(REFUSALS, REFUSALS_A_SECOND)
        self._refused = 0

    def refuse(self) -> None:
        """Count a message that was none, or came at the wrong time."""
        self._refused += 1

    async def turn(self) -> None:
        """Let other connections go first; one that had many messages refused waits longer."""
        await asyncio.sleep(0)
        while self._refused:
            if self._allowance.take():
                self._refused -= 1
            else:
                await asyncio.sleep(1 / REFUSALS_A_SECOND)


def web_server(served: Starlette, most_waiting: int, **others: Any) -> uvicorn.Server:
    """Uvicorn, which is to serve an application.

    Args:
        served: the application.
        most_waiting: connections that have not said what they ask for. Where there are more, the oldest is closed.
        others: as in ``uvicorn.Config``.
    """
    import uvicorn

    for name in ("uvicorn.error", "asyncio"):
        limited_log(name)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    settings: dict[str, Any] = {
        "log_level": "warning",
        "access_log": False,
        "backlog": BACKLOG,
        "loop": "asyncio",  # whose transports obey READ_AT_ONCE
        "http": _http_protocol(most_waiting),
        "ws": _socket_protocol(),
        "ws_max_size": MAX_FRAME,
        "ws_ping_interval": HEARTBEAT,
        "ws_ping_timeout": HEARTBEAT,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": SHUTDOWN_SECONDS,
        "server_header": False,
    }
    return uvicorn.Server(uvicorn.Config(served, **settings | others))


# Uvicorn's own protocols would wait for ever for the head of a request, and for a client to take its answers. And they
# carry out all that one read of 256 KiB asks for, such as 40,000 pings, before anybody else has a turn.


class Patience:
    """Cuts a connection whose other side does not take what it is sent."""

    loop: asyncio.AbstractEventLoop
    transport: Any
    _cutting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        transport.max_size = READ_AT_ONCE
        transport.set_write_buffer_limits(0)  # to be told of anything that is not taken
        super().connection_made(transport)  # type: ignore[misc]

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._cutting = self._cutting or self.loop.call_later(PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        self._let()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)  # type: ignore[misc]
        self._let()

    def _let(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()
            self._cutting = None


def _http_protocol(most_waiting: int) -> type[asyncio.Protocol]:
    """HTTP that closes connections without a request, the oldest first where they are too many."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    waiting: dict[PatientHTTP, None] = {}  # the oldest first

    class PatientHTTP(Patience, H11Protocol):
        """A connection, until it becomes a WebSocket."""

        _giving_up: asyncio.TimerHandle | None = None
        _is_over = False  # or a WebSocket

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._is_over = True
            self._watch()
            super().connection_lost(exc)

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._is_over = True
            self._let()
            super().handle_websocket_upgrade(event)

        def _waits(self) -> bool:
            """Whether a request has yet to begin, or its answer to be taken."""
            if self._is_over:
                return False
            return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

        def _watch(self) -> None:
            if not self._waits():
                waiting.pop(self, None)
                if self._giving_up is not None:
                    self._giving_up.cancel()
                    self._giving_up = None
            elif self not in waiting:
                waiting[self] = None
                self._giving_up = self.loop.call_later(HEAD_SECONDS, self._give_up)
                if len(waiting) > most_waiting:
                    next(iter(waiting))._give_up()

        def _give_up(self) -> None:
            if self._waits():
                self._is_over = True
                self._watch()
                self.transport.abort()

    return PatientHTTP


def _socket_protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    class BoundedWebSocket(Patience, WebSocketsSansIOProtocol):
        """A WebSocket whose pings, pongs and small fragments have a limit: an honest client sends few."""

        def connection_made(self, transport: Any) -> None:
            self._idle_frames = Allowance(IDLE_FRAMES, IDLE_FRAMES_A_SECOND)
            super().connection_made(transport)

        def handle_ping(self) -> None:
            if self._allowed():
                super().handle_ping()

        def handle_pong(self, event: Frame) -> None:
            if self._allowed():
                super().handle_pong(event)

        def handle_cont(self, event: Frame) -> None:
            if len(event.data) >= SMALL_FRAGMENT or self._allowed():
                super().handle_cont(event)

        def _allowed(self) -> bool:
            if self.close_sent or self._idle_frames.take():
                return not self.close_sent
            self.conn.fail(POLICY_VIOLATION, "too many pings, pongs or small fragments")
            if self.conn.close_sent is None:  # it did not wait for the handshake
                self.transport.abort()
            else:
                self.handle_parser_exception()
            return False

    return BoundedWebSocket


def _is_news(record: logging.LogRecord) -> bool:
    """Uvicorn takes a WebSocket that was refused for an application that failed."""
    return "without completing handshake" not in record.getMessage()


def allowed_files(needed: int) -> int:
    """How many files this process may have open; its soft limit is raised, up to the hard one, if more are needed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return needed
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return needed
    if needed > soft:
        raised = 2 * needed if hard == resource.RLIM_INFINITY else min(hard, 2 * needed)
        with suppress(ValueError, OSError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            return raised
    return soft


def require_serving() -> None:
    """Raise ImportError where a package of the extra ``serve`` is missing."""
    for package in ("starlette", "uvicorn", "websockets"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f'serving needs {package}: pip install "rlvr[serve]"')


class WebServer:
    """A server that runs until a signal or, as a context manager, in a thread beside.

    Attributes:
        port: where it listens.
        origin: its address.
    """

    _uvicorn: uvicorn.Server
    _thread: threading.Thread | None = None

    def _listen(self, host: str, port: int) -> None:
        """Open the socket; OSError if the address is taken, or not this machine's."""
        # The protocol is named because asyncio sends small messages at once (TCP_NODELAY) only where it is; without,
        # an HTTP answer, which is two small messages, waits 40 ms for the other side's acknowledgement.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.origin = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def run(self) -> None:
        """Serve until a signal; Ctrl-C raises KeyboardInterrupt when everything is shut down."""
        try:
            self._uvicorn.run(sockets=[self._socket])
        finally:
            self._socket.close()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name="rlvr-serve", daemon=True)
        self._thread.start()
        while not self._uvicorn.started:
            self._thread.join(0.005)
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start; its log says why")
        return self

    def __exit__(self, *error: object) -> None:
        self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join()
