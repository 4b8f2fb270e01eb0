"""The messages between `rlvr serve` and its clients: JSON, the same over a WebSocket and over HTTP.

A request names itself, and its answer bears that name:

    {"id": "a1", "op": "step", "items": [{"session": "…", "action": "…"}, …]}
    {"id": "a1", "results": [{"observation": "…", "reward": 0.0, …}, {"error": {"code": "busy", "message": "…"}}, …]}

A refusal of the whole request has ``error`` in place of ``results``. docs/serve.md lists the operations, their fields,
the codes and the tags of values that JSON lacks (`pack`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.envs import Verdict
from rlvr.envs.core.images import data_url, read_data_url

VERSION = 1
PATH, SOCKET_PATH = "/v1", "/v1/ws"
MAX_FRAME = 16 << 20  # bytes of one message
MAX_ITEMS = 1024  # items of one request
MAX_ID = 64  # characters of a request's id
MAX_UNDER_WAY = 32  # requests of one connection that are not answered yet

# Each code of an error, and the HTTP status of an answer that is that error.
CODES: dict[str, int] = {
    "bad_request": 400,
    "invalid": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "not_found": 404,
    "unknown_session": 404,
    "busy": 409,
    "reset_needed": 409,
    "too_large": 413,
    "env_error": 500,
    "internal": 500,
    "full": 503,
    "overloaded": 503,
    "closing": 503,
    "timeout": 504,
}
FIELDS: dict[str, frozenset[str]] = {
    "open": frozenset(["count"]),
    "reset": frozenset(["session", "seed", "options"]),
    "step": frozenset(["session", "action"]),
    "call": frozenset(["session", "name", "state"]),
    "close": frozenset(["session"]),
    "ping": frozenset(["session"]),
}
CALLS = ("render", "solve", "get_state", "set_state")
EXPERT_CALLS = frozenset(CALLS) - {"render"}  # they tell, or undo, what an episode is about


class Refusal(Exception):
    """A request, or an item of one, that is not carried out.

    Attributes:
        code: a key of `CODES`.
        message: one sentence for the person who reads it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def to_dict(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message[:500]}}


@dataclass(frozen=True, slots=True)
class Request:
    """A well-formed request: its items are dicts of the fields that the operation has, of the right types."""

    id: str
    op: str
    items: list[dict[str, Any]]
    count: int = 0


def read_request(data: str | bytes) -> Request:
    """Read one message of a client.

    Raises:
        Refusal: it is none. ``bad_request`` says what is wrong; ``too_large`` is for too many items.
    """
    return parse_request(read_json(data))


def read_json(data: str | bytes) -> dict[str, Any]:
    """The JSON object that a message must be; `Refusal` otherwise."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:  # a bad encoding and a number of 5,000 digits are ValueErrors too
        kind = "JSON nested too deeply" if isinstance(error, RecursionError) else f"not JSON: {error}"
        raise Refusal("bad_request", f"the message is {kind}") from None
    if not isinstance(record, dict):
        raise Refusal("bad_request", f"a message is a JSON object, not {_kind(record)}")
    return record


def id_of(record: Mapping[str, Any]) -> str | None:
    """The id of a message, if it has one."""
    name = record.get("id")
    return name if isinstance(name, str) and 0 < len(name) <= MAX_ID else None


def parse_request(record: dict[str, Any]) -> Request:
    """The request in a JSON object; `Refusal` if it is none."""
    name, op = id_of(record), record.get("op")
    if name is None:
        raise Refusal("bad_request", f"id must be a text of 1 to {MAX_ID} characters, which the answer will bear")
    if not isinstance(op, str) or op not in FIELDS:
        raise Refusal("bad_request", f"op must be one of {', '.join(FIELDS)}; got {op!r:.60}")
    allowed = {"id", "op", "count"} if op == "open" else {"id", "op", "items"}
    if unknown := sorted(record.keys() - allowed):
        raise Refusal("bad_request", f"{op} has no field {unknown[0]!r:.60}")
    if op == "open":
        count = record.get("count", 1)
        if type(count) is not int or not 1 <= count <= MAX_ITEMS:
            raise Refusal("bad_request", f"count must be a whole number from 1 to {MAX_ITEMS}; got {count!r:.60}")
        return Request(name, op, [], count)
    items = record.get("items", [] if op == "ping" else None)
    if not isinstance(items, list) or (not items and op != "ping"):
        raise Refusal("bad_request", f"{op} needs items, a list of one object for each session")
    if len(items) > MAX_ITEMS:
        raise Refusal("too_large", f"a request has at most {MAX_ITEMS} items; got {len(items)}")
    sessions = set()
    for item in items:
        _check_item(op, item)
        sessions.add(item["session"])
    if len(sessions) < len(items):
        raise Refusal("bad_request", "a session stands in a request at most once")
    return Request(name, op, items)


def _check_item(op: str, item: Any) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("session"), str):
        raise Refusal("bad_request", f"each item of {op} is an object with a session, a text")
    if unknown := sorted(item.keys() - FIELDS[op]):
        raise Refusal("bad_request", f"an item of {op} has no field {unknown[0]!r:.60}")
    if op == "step" and not isinstance(item.get("action"), str):
        raise Refusal("bad_request", f"an action is the assistant's text; got {_kind(item.get('action'))}")
    if op == "call" and item.get("name") not in CALLS:
        raise Refusal("bad_request", f"name must be one of {', '.join(CALLS)}; got {item.get('name')!r:.60}")
    if op == "call" and not isinstance(item.get("state", ""), str):
        raise Refusal("bad_request", f"state is a text that get_state gave; got {_kind(item['state'])}")
    if op == "reset":
        seed, options = item.get("seed"), item.get("options")
        if seed is not None and type(seed) is not int:
            raise Refusal("bad_request", f"seed must be a whole number or null; got {_kind(seed)}")
        if options is not None and not isinstance(options, dict):
            raise Refusal("bad_request", f"options must be an object or null; got {_kind(options)}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def write(message: Mapping[str, Any]) -> str:
    """A message as text: ASCII alone, so that half of a surrogate pair, which a model may write, arrives as it left."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


# values that JSON lacks


def pack(value: Any) -> Any:
    """A value in JSON types; what JSON lacks becomes an object of one key: ``{"$tuple": […]}``.

    Verdicts, tuples, numbers that are not finite, numpy arrays of numbers, and dicts with other keys than texts come
    back from `unpack` equal and of the same type. A numpy number comes back as Python's, and a subclass of a dict or a
    text as the plain thing.

    Raises:
        TypeError: something else, which cannot cross.
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is Verdict:
        return {"$verdict": {**value.to_dict(), "reward": pack(value.reward), "parts": pack(dict(value.parts))}}
    if isinstance(value, dict):
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: pack(inner) for key, inner in value.items()}
        return {"$dict": [[pack(key), pack(inner)] for key, inner in value.items()]}
    if kind is list:
        return [pack(inner) for inner in value]
    if isinstance(value, tuple):
        return {"$tuple": [pack(inner) for inner in value]}
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3:
        return {"$image": data_url(value)} if value.size else {"$array": [value.dtype.str, list(value.shape), []]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        numbers = [pack(number) for number in value.ravel().tolist()]
        return {"$array": [value.dtype.str, list(value.shape), numbers]}
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return pack(value.item())
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"{kind.__name__} cannot cross the wire: only JSON types, tuples, verdicts and arrays of numbers")


def unpack(value: Any) -> Any:
    """What `pack` packed.

    Raises:
        ValueError: an unknown tag, or a tag with something wrong in it.
    """
    if isinstance(value, list):
        return [unpack(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag[:1] == "$":
            try:
                return _untagged(tag, content)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise ValueError(f"{tag!r:.60} is no tag of the wire, or holds something wrong: {error}") from None
    return {key: unpack(inner) for key, inner in value.items()}


def _untagged(tag: str, content: Any) -> Any:
    match tag:
        case "$verdict":
            return Verdict.from_dict(unpack(content))
        case "$tuple":
            return tuple(unpack(list(content)))
        case "$float":
            return float(content)
        case "$image":
            return read_data_url(content)
        case "$dict":
            return {unpack(key): unpack(inner) for key, inner in content}
        case "$array":
            kind, shape, numbers = content
            dtype = np.dtype(kind)
            if dtype.kind not in "biuf":
                raise ValueError(f"an array of {kind}")
            return np.array(unpack(numbers), dtype=dtype).reshape(shape)
    raise ValueError("unknown")
