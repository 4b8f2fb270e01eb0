"""The socket and the web server under `rlvr serve`."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING

from rlvr.adapters.serving.wire import MAX_FRAME

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

HEARTBEAT = 20.0  # seconds between pings of a connection, and for its pong
SHUTDOWN_SECONDS = 3


def web_server(served: Starlette) -> uvicorn.Server:
    """Uvicorn, which is to serve an application."""
    import uvicorn

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return uvicorn.Server(
        uvicorn.Config(
            served,
            log_level="warning",
            access_log=False,
            http="h11",
            ws="websockets-sansio",
            ws_max_size=MAX_FRAME,
            ws_ping_interval=HEARTBEAT,
            ws_ping_timeout=HEARTBEAT,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            server_header=False,
        )
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Uvicorn takes a WebSocket that was refused for an application that failed."""
    return "without completing handshake" not in record.getMessage()


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
