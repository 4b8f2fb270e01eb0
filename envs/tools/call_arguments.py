"""The arguments of calls, to the character: JSON without silent changes, fields between tags, fences."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any, Final

NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_TICKS = re.compile(r"^(`{3,})[ \t]*$", re.MULTILINE)
_SPACE = re.compile(r"[ \t\n\r]*")


class Unreadable(ValueError):
    """A call that is begun and cannot be read; the message is for the model."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unreadable(f"not JSON that says one thing: {twice[:64]!r} stands twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Unreadable(f"not JSON that can be read: the number {text[:32]} is out of range")
    return value


def _constant(text: str) -> Any:
    raise Unreadable(f"not JSON: {text} is no number of JSON")


# Not strict: models break lines inside strings.
_DECODER: Final = json.JSONDecoder(
    strict=False, object_pairs_hook=_object, parse_float=_float, parse_constant=_constant
)


def raw_value(text: str, start: int) -> tuple[Any, int]:
    """The JSON value behind the blanks at ``start``, and where it ends.

    Raises:
        Unreadable: there is none, or one that would not be read as it is written; "not JSON: …".
    """
    try:
        return _DECODER.raw_decode(text, _SPACE.match(text, start).end())  # type: ignore[union-attr]  # it always does
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise Unreadable(f"not JSON: {reason}") from None


def parse_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object that is the whole text; ``what`` is its name in errors.

    Raises:
        Unreadable: it is none.
    """
    try:
        value, end = raw_value(text, 0)
    except Unreadable as error:
        raise Unreadable(f"{what} is {error}") from None
    if text[end:].strip():
        raise Unreadable(f"{what} is not JSON: something stands behind the value")
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not a JSON object")
    return value


def write_field(text: str, tag: str) -> str:
    """A text for between two tags; in ``<![CDATA[…]]>`` where it could be taken for more than text."""
    if f"</{tag}>" not in text and not text.startswith(_CDATA):
        return text
    return f"{_CDATA}{text.replace(_CDATA_END, ']]]]><![CDATA[>')}{_CDATA_END}"


def read_fields(
    text: str, position: int, opening: str, tag: str | None, closing: str, closing_pattern: str
) -> tuple[dict[str, str], int]:
    """Texts between tags, one behind the other, and where they end.

    A closing tag ends a text where another opening, or the end of the call, follows; any other is part of the text.

    Args:
        opening: the pattern of an opening tag, whose first group is the name.
        tag: of all closing tags, around texts on lines of their own; None: each name has its own.
        closing: what ends the call.
        closing_pattern: the same as a pattern.

    Raises:
        Unreadable: a field that is not closed, or stands twice.
    """
    begin = _pattern(rf"\s*{opening}")
    follows = _pattern(rf"\s*(?:{opening}|{closing_pattern})")
    fields: dict[str, str] = {}
    while field := begin.match(text, position):
        name, start = field[1], field.end()
        end_tag = f"</{tag or name}>"
        quoted = _quoted(text, start + (tag is not None and text.startswith("\n", start)), end_tag)
        if quoted is not None and follows.match(text, quoted[1]):
            value, position = quoted
        else:
            end = text.find(end_tag, start)
            while end >= 0 and not follows.match(text, end + len(end_tag)):
                end = text.find(end_tag, end + len(end_tag))
            if end < 0:
                raise Unreadable(_unclosed(text[start:], field[0].strip(), end_tag, closing))
            value, position = text[start:end], end + len(end_tag)
            value = value.removeprefix("\n").removesuffix("\n") if tag else value
        if name in fields:
            raise Unreadable(f"the argument {name} stands twice")
        fields[name] = value
    return fields, position


def _unclosed(behind: str, opening: str, end_tag: str, closing: str) -> str:
    if closing not in behind:
        return f"the call is without {closing}"
    if end_tag not in behind:
        return f"{opening} without {end_tag}"
    return f"behind {opening} something stands beside the arguments"


def _quoted(text: str, position: int, end_tag: str) -> tuple[str, int] | None:
    """A text in CDATA sections up to its end tag, and where that ends; None where there is none."""
    parts: list[str] = []
    while text.startswith(_CDATA, position):
        end = text.find(_CDATA_END, position)
        if end < 0:
            return None
        parts.append(text[position + len(_CDATA) : end])
        position = end + len(_CDATA_END)
    position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
    return ("".join(parts), position + len(end_tag)) if parts and text.startswith(end_tag, position) else None


@lru_cache(maxsize=256)
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source)


def longer_fence(text: str) -> str:
    """Backticks that no line of the text closes."""
    return "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])


@lru_cache(maxsize=64)
def fence_closing(ticks: str) -> re.Pattern[str]:
    """The line that closes a fence of these backticks."""
    return re.compile(rf"^`{{{len(ticks)},}}[ \t]*$", re.MULTILINE)
