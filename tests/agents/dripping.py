"""A server that never stops sending."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler


def drip(handler: BaseHTTPRequestHandler, byte: bytes, stopped: threading.Event) -> None:
    """Send a byte now and then, until the client leaves or the test ends."""
    try:
        while not stopped.wait(0.05):
            handler.wfile.write(byte)
            handler.wfile.flush()
    except OSError:
        pass
