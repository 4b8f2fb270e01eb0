"""Answers over HTTP as JSON, and as a stream of server-sent events that follows a call to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from rlvr.adapters.serving.wire import ProtocolError, write

if TYPE_CHECKING:
    from starlette.responses import Response

CHUNK = 4_096  # characters of one event
PING_SECONDS = 10.0  # between signs of life while a call is under way
log = logging.getLogger("rlvr.serve")


def json_response(value: Any, status: int = 200) -> Response:
    """An answer that is JSON."""
    from starlette.responses import Response

    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Response(write(value), status, headers, "application/json")


def event_stream(events: AsyncIterator[str]) -> Response:
    """An answer that is these events, as they come."""
    from starlette.responses import StreamingResponse

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, headers=headers, media_type="text/event-stream")


async def events_of(events: Sequence[tuple[str, str]]) -> AsyncIterator[str]:
    """Named events that are there already."""
    for event, data in events:
        yield _event(event, data)


def _event(event: str, data: str) -> str:
    return f"event: {event}\ndata: {' '.join(data.splitlines())}\n\n"


async def events_of_call(name: str, task: asyncio.Task[str]) -> AsyncIterator[str]:
    """The events of a call: its name at once, signs of life, then the answer in pieces, or the fault."""
    yield _event("task_id", name)
    while not task.done():
        await asyncio.wait([task], timeout=PING_SECONDS)
        if not task.done():
            yield ": ping\n\n"
    try:
        text = task.result()
    except ProtocolError as fault:
        yield _event("error", f"{fault.code}: {fault.message[:500]}")
        return
    except BaseException:
        log.exception("a call failed")
        yield _event("error", "internal: the server made a mistake; its log says which")
        return
    pieces = [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
    for number, piece in enumerate(pieces):
        # Clients strip a piece that begins with spaces; here they stand inside of strings alone.
        safe = "\\u0020" + piece[1:] if piece.startswith(" ") else piece
        yield _event("end" if number == len(pieces) - 1 else "chunk", safe)
