"""What the user's process, the supervisor and the zygotes say to each other. Standard library only.

The supervisor is sent length-prefixed JSON with open descriptors beside it. A zygote is sent orders of one byte:
programs are forked from its memory, so nothing that a run is about may ever enter it. What a run is about lies in an
unnamed file, whose descriptor comes with the order and which the fork alone reads.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
from typing import Any

ASKED = ("session", "calls", "referee", "terminal")  # programs that are asked, and answer, while they run
# Orders to a zygote. A leader is the first of a session (who has a terminal). A paused run stands still until it is to
# resume.
KILL, RUN, RUN_LEADER, PAUSE, RESUME = range(5)
DESCRIPTORS = ("request", "stdin", "stdout", "stderr", "requests", "replies")  # of a run, in the order they are sent


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


def order(channel: socket.socket, what: int, fds: list[int] | None = None) -> None:
    """Give a zygote an order; the descriptors of a run come with it."""
    socket.send_fds(channel, [bytes([what])], fds or [])


def next_order(channel: socket.socket) -> tuple[int, list[int]] | None:
    """The zygote's next order, or None at the end of the channel."""
    data, fds, _, _ = socket.recv_fds(channel, 1, len(DESCRIPTORS))
    return (data[0], fds) if data else None


def read_request(fd: int) -> dict[str, Any]:
    """What a run is about, from its unnamed file: read in the process that runs it, and in no other."""
    size, parts, at = os.fstat(fd).st_size, [], 0
    while at < size:
        parts.append(os.pread(fd, size - at, at))
        at += len(parts[-1])
    return dict(json.loads(b"".join(parts)))
