"""JSON from strangers: what a message may cost in memory is decided before it is parsed.

`json.loads` makes an object of 50 to 150 bytes for each of the two or three bytes of ``[],``: 16 MiB of them take
gigabytes. Here the values are counted first, outside of texts, by a scan that makes no objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

# A text, to the end of the data where it is not closed: possessive, so that no input makes it go back.
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_MARKS = "[{,:"  # each value and each key follows one of these, but the first of all


class TooManyValues(ValueError):
    """JSON of more values than are allowed."""


def read_object(data: str | bytes, most_values: int, *, unique: bool = True) -> dict[str, Any]:
    """The JSON object (RFC 8259, UTF-8) in a message.

    NaN and Infinity are refused, and a key that an object has twice: two readers could understand them differently.

    Args:
        data: the message.
        most_values: how many values and keys it may have, in all.
        unique: whether a key that an object has twice is refused; where not, the last one counts.

    Raises:
        TooManyValues: it has more; nothing was parsed.
        ValueError: it is no JSON object, or nested so deeply that it cannot be parsed.
    """
    text = data.decode("utf-8") if isinstance(data, bytes | bytearray) else data
    check_count(text, most_values)
    try:
        record = json.loads(text, object_pairs_hook=_object if unique else None, parse_constant=_constant)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{kind_of(record)}, and a message is a JSON object")
    return record


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def check_count(text: str, limit: int) -> None:
    """Raise `TooManyValues` if JSON has more values and keys."""
    if _marks(text, 0, len(text)) > limit:  # marks inside of texts too: only then is it worth to look closer
        _count(text, limit)


def _marks(text: str, start: int, end: int) -> int:
    return sum(text.count(mark, start, end) for mark in _MARKS)


def _count(text: str, limit: int) -> None:
    """Raise `TooManyValues` if there are more; what stands inside of texts is not counted."""
    values = position = 0
    while position < len(text):
        start = text.find('"', position)
        values += _marks(text, position, len(text) if start < 0 else start)
        if values > limit:
            raise TooManyValues(f"it has more than {limit} values")
        if start < 0:
            return
        text_match = _TEXT.match(text, start)
        position = text_match.end() if text_match else len(text)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object has the same key twice")
    return record


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
