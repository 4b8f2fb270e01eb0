"""Length-prefixed JSON messages over a local socket, with open descriptors beside them.

Spoken between the user's process, the keeper and the zygotes, never with a hostile program. Standard library only.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from typing import Any

ASKED = ("session", "calls", "referee", "terminal")  # programs that are asked, and answer, while they run


def readable(fd: int, seconds: float) -> bool:
    """Wait until there is something to read, or the end; ``select`` would refuse descriptors over 1023."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """One message and the descriptors that came with it, or None at the end of the channel."""
    head, fds, _, _ = socket.recv_fds(channel, 4, 8)
    while 0 < len(head) < 4:
        more = channel.recv(4 - len(head))
        if not more:
            return None
        head += more
    if not head:
        return None
    wanted, body = struct.unpack("!I", head)[0], bytearray()
    while len(body) < wanted:
        chunk = channel.recv(min(1 << 20, wanted - len(body)))
        if not chunk:
            return None
        body += chunk
    return json.loads(bytes(body)), fds


def send(channel: socket.socket, message: dict[str, Any], fds: list[int] | None = None) -> None:
    body = json.dumps(message).encode()
    head = struct.pack("!I", len(body))
    if fds:
        socket.send_fds(channel, [head], fds)
        channel.sendall(body)
    else:
        channel.sendall(head + body)
