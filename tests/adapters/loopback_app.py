"""An ASGI application on a free port of this machine, in a thread that ends with the block."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any


def free_socket() -> socket.socket:
    """A socket that waits on a port which nobody else has."""
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    return found


@contextlib.contextmanager
def serving(app: Any, at: socket.socket | None = None) -> Iterator[str]:
    """The address of the application, which is served until the block ends."""
    import uvicorn

    at = at or free_socket()
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    if not server.started:
        raise RuntimeError("the application did not start")
    try:
        yield f"http://127.0.0.1:{at.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        at.close()
