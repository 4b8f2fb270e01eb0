"""A stand-in for a model's server: answers each chat call as it is told, and prints its port first."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any


def completed(content: str) -> bytes:
    """A response with one finished chat message."""
    message = {"role": "assistant", "content": content}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def serve(respond: Callable[[dict[str, Any]], Awaitable[bytes]]) -> None:
    """Serve until the process ends; ``respond`` gives the whole HTTP response to a request's JSON."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head.lower())[1])  # type: ignore[index]
        writer.write(await respond(json.loads(await reader.readexactly(length))))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
