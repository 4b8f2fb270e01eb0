"""The socket and the web server under `rlvr serve`."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rlvr.adapters.serving.wire import MAX_FRAME

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from starlette.applications import Starlette

HEARTBEAT = 20.0  # seconds between pings of a connection, and for its pong
SHUTDOWN_SECONDS = 3
HEAD_SECONDS = 30.0  # for a client to say what it asks for, from its first byte or from the connection's beginning


def web_server(served: Starlette) -> uvicorn.Server:
    """Uvicorn, which is to serve an application."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Server(
        uvicorn.Config(
            served,
            log_level="warning",
            access_log=False,
            http=_patient_protocol(),
            ws="websockets-sansio",
            ws_max_size=MAX_FRAME,
            ws_ping_interval=HEARTBEAT,
            ws_ping_timeout=HEARTBEAT,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            server_header=False,
        )
    )


def _patient_protocol() -> type[asyncio.Protocol]:
    """Uvicorn's HTTP, whose patience ends where a request's head does not: it would wait for ever, and a few hundred
    clients that send half a head, without a token, would hold every file descriptor of the process."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PatientProtocol(H11Protocol):
        """One connection."""

        _giving_up: asyncio.TimerHandle | None = None
        _upgraded = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._upgraded = True
            self._watch()
            super().connection_lost(exc)

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._upgraded = True
            super().handle_websocket_upgrade(event)

        def _waits(self) -> bool:
            """Whether a request has yet to begin."""
            return not self._upgraded and (self.cycle is None or self.cycle.response_complete)

        def _watch(self) -> None:
            if self._waits():
                self._giving_up = self._giving_up or self.loop.call_later(HEAD_SECONDS, self._give_up)
            elif self._giving_up is not None:
                self._giving_up.cancel()
                self._giving_up = None

        def _give_up(self) -> None:
            self._giving_up = None
            if self._waits():
                self.transport.close()

    return PatientProtocol


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
        more = 2 * needed if hard == resource.RLIM_INFINITY else min(hard, 2 * needed)
        with suppress(ValueError, OSError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            return more
    return soft


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; OSError if the address is taken, or not this machine's."""
    # The protocol is named because asyncio sends small messages at once (TCP_NODELAY) only where it is; without,
    # an HTTP answer, which is two small messages, waits 40 ms for the other side's acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(256)
    except BaseException:
        found.close()
        raise
    return found
