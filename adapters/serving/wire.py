"""The messages between `rlvr serve` and its clients: JSON, the same over a WebSocket and over HTTP.

A request names itself, and its answer bears that name:

    {"id": "a1", "op": "step", "items": [{"session": "…", "action": "…"}, …]}
    {"id": "a1", "results": [{"observation": "…", "reward": 0.0, …}, {"error": {"code": "busy", "message": "…"}}, …]}

An error of the whole request has ``error`` in place of ``results``. docs/serve.md lists the operations, their fields,
the codes and the tags of values that JSON lacks (`pack`).
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr.adapters.serving.bounded_json import TooManyValues, check_count, kind_of, read_object
from rlvr.envs import Verdict
from rlvr.envs.core.images import DATA_URL, data_url, read_png

VERSION = 1
PATH, SOCKET_PATH = "/v1", "/v1/ws"
MAX_FRAME = 16 << 20  # bytes of one message
MAX_ITEMS = 1024  # items of one request
MAX_ID = 64  # characters of a request's id
MAX_UNDER_WAY = 32  # requests of one connection that are not answered yet
MAX_REQUEST_VALUES = 1 << 16  # values and keys of one request
MAX_ANSWER_VALUES = 1 << 18  # and of one answer
MAX_DEPTH = 64  # of a value inside of values
MAX_BITS = 13_000  # of a whole number: Python reads no more than 4,300 digits
MAX_IMAGE_PIXELS = 1 << 22  # of one image, height times width
MAX_PIXELS = 1 << 26  # of all images of one message
MAX_NUMBER = 1 << 53  # of a request: the largest that every language's JSON tells apart
MAX_REWARD = 1e6  # the widest range of rewards, on both sides of 0

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
    "stale": 409,
    "too_large": 413,
    "quota": 429,
    "env_error": 500,
    "internal": 500,
    "full": 503,
    "overloaded": 503,
    "closing": 503,
    "draining": 503,
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
CALLS = ("render", "solve", "direct_answer", "get_state", "set_state")
EXPERT_CALLS = frozenset(CALLS) - {"render"}  # they tell, or undo, what an episode is about


class ProtocolError(Exception):
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
        """The error as the wire has it."""
        return {"error": {"code": self.code, "message": self.message[:500]}}


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A well-formed request: its items are dicts of the fields that the operation has, of the right types.

    Attributes:
        count: of sessions to open.
        number: greater than those of the requests that this client sent before; None where it does not count.
        client: a secret of the client's, so that an ``open`` that is sent again opens nothing more; "" for none.
    """

    id: str
    op: str
    items: list[dict[str, Any]]
    count: int = 0
    number: int | None = None
    client: str = ""


def read_json(data: str | bytes) -> dict[str, Any]:
    """The JSON object that a request must be; `ProtocolError` otherwise."""
    try:
        return read_object(data, MAX_REQUEST_VALUES)
    except TooManyValues:
        raise ProtocolError("too_large", f"a request has at most {MAX_REQUEST_VALUES} values, keys included") from None
    except ValueError as error:  # a bad encoding and a number of 5,000 digits are such too
        raise ProtocolError("bad_request", f"the message cannot be read: {error}") from None


def id_of(record: Mapping[str, Any]) -> str | None:
    """The id of a message, if it has one."""
    name = record.get("id")
    return name if isinstance(name, str) and 0 < len(name) <= MAX_ID else None


def parse_request(record: dict[str, Any]) -> WireRequest:
    """The request in a JSON object; `ProtocolError` if it is none."""
    name, op = id_of(record), record.get("op")
    if name is None:
        raise ProtocolError("bad_request", f"id must be a text of 1 to {MAX_ID} characters, which the answer will bear")
    if not isinstance(op, str) or op not in FIELDS:
        raise ProtocolError("bad_request", f"op must be one of {', '.join(FIELDS)}; got {op!r:.60}")
    allowed = {"id", "op", "count", "client"} if op == "open" else {"id", "op", "items", "number"}
    if unknown := sorted(record.keys() - allowed):
        raise ProtocolError("bad_request", f"{op} has no field {unknown[0]!r:.60}")
    if op == "open":
        count = record.get("count", 1)
        if type(count) is not int or not 1 <= count <= MAX_ITEMS:
            raise ProtocolError("bad_request", f"count must be a whole number from 1 to {MAX_ITEMS}; got {count!r:.60}")
        client = record.get("client", "")
        if not isinstance(client, str) or (client and not 16 <= len(client) <= MAX_ID):
            raise ProtocolError("bad_request", f"client must be a secret text of 16 to {MAX_ID} characters")
        return WireRequest(name, op, [], count, client=client)
    number = record.get("number")
    if number is not None and (type(number) is not int or not 0 <= number <= MAX_NUMBER):
        raise ProtocolError("bad_request", f"number must be a whole number from 0 to {MAX_NUMBER}; got {number!r:.60}")
    items = record.get("items", [] if op == "ping" else None)
    if not isinstance(items, list) or (not items and op != "ping"):
        raise ProtocolError("bad_request", f"{op} needs items, a list of one object for each session")
    if len(items) > MAX_ITEMS:
        raise ProtocolError("too_large", f"a request has at most {MAX_ITEMS} items; got {len(items)}")
    sessions = set()
    for item in items:
        _check_item(op, item)
        sessions.add(item["session"])
    if len(sessions) < len(items):
        raise ProtocolError("bad_request", "a session stands in a request at most once")
    return WireRequest(name, op, items, number=number)


def _check_item(op: str, item: Any) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("session"), str):
        raise ProtocolError("bad_request", f"each item of {op} is an object with a session, a text")
    if unknown := sorted(item.keys() - FIELDS[op]):
        raise ProtocolError("bad_request", f"an item of {op} has no field {unknown[0]!r:.60}")
    if op == "step" and not isinstance(item.get("action"), str):
        raise ProtocolError("bad_request", f"an action is the assistant's text; got {kind_of(item.get('action'))}")
    if op == "call" and item.get("name") not in CALLS:
        raise ProtocolError("bad_request", f"name must be one of {', '.join(CALLS)}; got {item.get('name')!r:.60}")
    if op == "call" and not isinstance(item.get("state", ""), str):
        raise ProtocolError("bad_request", f"state is a text that get_state gave; got {kind_of(item['state'])}")
    if op == "reset":
        seed, options = item.get("seed"), item.get("options")
        if seed is not None and type(seed) is not int:
            raise ProtocolError("bad_request", f"seed must be a whole number or null; got {kind_of(seed)}")
        if options is not None and not isinstance(options, dict):
            raise ProtocolError("bad_request", f"options must be an object or null; got {kind_of(options)}")
        if type(seed) is int and seed.bit_length() > MAX_BITS:
            raise ProtocolError("bad_request", f"seed has more than {MAX_BITS} bits")
        if options is not None and _deeper(options, 2 * MAX_DEPTH):  # a tag is a level of its own
            raise ProtocolError("bad_request", f"options are nested more than {MAX_DEPTH} deep")


def write(message: Any) -> str:
    """A value as text: ASCII alone, so that half of a surrogate pair, which a model may write, arrives as it left."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def fitting(message: dict[str, Any]) -> str:
    """An answer as text, or an error in its stead where it is over what a message may have."""
    text = write(message)
    if len(text) > MAX_FRAME:
        what = f"{len(text)} bytes, over {MAX_FRAME}"
    else:
        try:
            check_count(text, MAX_ANSWER_VALUES)
        except TooManyValues:
            what = f"more than {MAX_ANSWER_VALUES} values"
        else:
            return text
    return write(
        {"id": message.get("id"), **ProtocolError("too_large", f"the answer has {what}: ask for fewer").to_dict()}
    )


def answer_length(message: dict[str, Any]) -> int:
    """About how many characters an answer has, as far as results can make it large."""
    length = 0
    for result in message.get("results", ()):
        for value in result.values():
            inner = value.values() if isinstance(value, dict) else (value,)
            length += 40 + sum(len(text) for text in inner if isinstance(text, str | list))
    return length


def _deeper(value: Any, depth: int) -> bool:
    """Whether a JSON value is nested deeper; level by level, for recursion would end before a hostile value does."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


# values that JSON lacks


def pack(value: Any, depth_left: int = MAX_DEPTH) -> Any:
    """A value in JSON types; what JSON lacks becomes an object of one key: ``{"$tuple": […]}``.

    Verdicts, tuples, numbers that are not finite, numpy arrays of numbers, and dicts with other keys than texts come
    back from `unpack` equal and of the same type. A numpy number comes back as Python's, and a subclass of a dict or a
    text as the plain thing.

    Args:
        value: what is to cross.
        depth_left: how deep it may be nested.

    Raises:
        TypeError: something else, which cannot cross.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        if value.bit_length() > MAX_BITS:
            raise TypeError(f"a whole number of {value.bit_length()} bits cannot cross the wire: {MAX_BITS} at most")
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if not depth_left:
        raise TypeError(f"what is nested more than {MAX_DEPTH} deep cannot cross the wire")
    depth_left -= 1
    if kind is Verdict:
        record = {"reward": value.reward, "status": value.status, "answer": value.answer, "reason": value.reason}
        record["parts"] = dict(value.parts)
        _check_verdict(record)
        return {"$verdict": pack(record, depth_left + 1)}
    if isinstance(value, dict):
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: pack(inner, depth_left) for key, inner in value.items()}
        return {"$dict": [[pack(key, depth_left), pack(inner, depth_left)] for key, inner in value.items()]}
    if kind is list:
        return [pack(inner, depth_left) for inner in value]
    if isinstance(value, tuple):
        return {"$tuple": [pack(inner, depth_left) for inner in value]}
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


class Pixels:
    """How many pixels the images of one message may still have."""

    def __init__(self, limit: int = MAX_PIXELS) -> None:
        self.left = limit

    def take(self, height: int, width: int) -> None:
        """Raise ValueError if they are too many."""
        self.left -= height * width
        if height * width > MAX_IMAGE_PIXELS or self.left < 0:
            raise ValueError(f"an image of {height} x {width} pixels is too large for the wire")


def unpack(value: Any, pixels: Pixels | None = None, depth_left: int = MAX_DEPTH) -> Any:
    """What `pack` packed.

    Args:
        value: of JSON.
        pixels: what images may have yet; of a message by default.
        depth_left: how deep it may be nested.

    Raises:
        ImportError: there is an image, and Pillow is missing.
        ValueError: an unknown tag, or a tag with something wrong in it; too deep, too large, or not finite.
    """
    kind = type(value)
    if kind is float and not math.isfinite(value):  # 1e999
        raise ValueError("a number is too large")
    if kind is not dict and kind is not list:
        return value
    if not depth_left:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    pixels = pixels or Pixels()
    if kind is list:
        return [unpack(inner, pixels, depth_left - 1) for inner in value]
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag[:1] == "$":
            try:
                return _untagged(tag, content, pixels, depth_left - 1)
            except ImportError:
                raise
            except Exception as error:  # numpy and Pillow raise what they like about what a stranger wrote
                raise ValueError(f"{tag!r:.60} is no tag of the wire, or holds something wrong: {error}") from None
    return {key: unpack(inner, pixels, depth_left - 1) for key, inner in value.items()}


_VERDICT = frozenset({"reward", "status", "answer", "reason", "parts"})
_DTYPE = re.compile(r"[<>|=][biuf](?:1|2|4|8|12|16)")


def _untagged(tag: str, content: Any, pixels: Pixels, depth_left: int) -> Any:
    if tag == "$float":
        if content not in ("nan", "inf", "-inf"):
            raise ValueError("it must be nan, inf or -inf")
        return float(content)
    if tag == "$verdict":
        record = unpack(content, pixels, depth_left)
        _check_verdict(record)
        return Verdict.from_dict(record)
    if tag == "$image":
        return _image(content, pixels)
    if not isinstance(content, list):
        raise ValueError(f"it must hold a list, not {kind_of(content)}")
    match tag:
        case "$tuple":
            return tuple(unpack(inner, pixels, depth_left) for inner in content)
        case "$dict":
            return _dict(
                [(unpack(key, pixels, depth_left), unpack(inner, pixels, depth_left)) for key, inner in content]
            )
        case "$array":
            return _array(*content)
    raise ValueError("unknown")


def _check_verdict(record: Any) -> None:
    """Raise TypeError unless these are a verdict's fields, of a verdict's types."""
    if not isinstance(record, dict) or record.keys() != _VERDICT:
        raise TypeError("a verdict has reward, status, answer, reason and parts")
    if not (record["answer"] is None or isinstance(record["answer"], str)):
        raise TypeError(f"a verdict's answer is a text or null, not {type(record['answer']).__name__}")
    if not isinstance(record["reason"], str) or not isinstance(record["status"], str):
        raise TypeError("a verdict's reason and status are texts")
    if not is_number(record["reward"]) or abs(record["reward"]) > MAX_REWARD:
        raise TypeError(f"a verdict's reward is a number of at most {MAX_REWARD:g}")
    parts = record["parts"]
    if not isinstance(parts, dict) or (parts and not all(isinstance(n, str) and is_number(parts[n]) for n in parts)):
        raise TypeError("a verdict's parts are finite numbers by name")


def is_number(value: Any) -> bool:
    """Whether it is a finite number; truth values are none."""
    kind = type(value)
    if kind is int:
        return True
    if kind is float:
        return math.isfinite(value)
    return isinstance(value, np.integer | np.floating) and math.isfinite(value)


def _image(content: Any, pixels: Pixels) -> Any:
    if not isinstance(content, str) or not content.startswith(DATA_URL):
        raise ValueError(f"an image is a text that begins with {DATA_URL}")
    data = base64.b64decode(content[len(DATA_URL) :], validate=True)
    if len(data) < 24 or data[12:16] != b"IHDR":
        raise ValueError("not a PNG file")
    width, height = struct.unpack(">II", data[16:24])
    pixels.take(height, width)  # before anything is decompressed
    return read_png(data)


def _dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    keys = [key for key, _ in pairs]
    # Hashes of numbers are no secret: many keys of one hash would be compared with each other.
    if len(keys) - len({hash(key) for key in keys}) > 64:
        raise ValueError("its keys collide")
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("it has the same key twice")
    return record


def _array(kind: Any, shape: Any, numbers: Any) -> Any:
    if not isinstance(kind, str) or not _DTYPE.fullmatch(kind):
        raise ValueError("its type is none of numbers")
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
        raise ValueError("its shape is no list of sizes")
    if not isinstance(numbers, list) or math.prod(shape) != len(numbers):
        raise ValueError(f"its shape is {shape!r:.60}, which its count of numbers does not fill")
    plain = [unpack(number) for number in numbers]
    if not all(isinstance(number, int | float) for number in plain):
        raise ValueError("it holds something other than numbers")
    return np.array(plain, dtype=np.dtype(kind)).reshape(shape)
