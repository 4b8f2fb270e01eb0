"""JSON that somebody else wrote, with a bound on its depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

MAX_DEPTH: Final = 100  # far below where Python's own stack ends, wherever the value is walked later


class TooDeep(ValueError):
    """Lists and objects that stand in each other more than `MAX_DEPTH` deep."""


def load_json(
    text: str | bytes, *, max_depth: int = MAX_DEPTH, parse_constant: Callable[[str], Any] | None = None
) -> Any:
    """``json.loads`` for a text that anybody wrote.

    Raises:
        TooDeep: it is nested more than ``max_depth`` deep.
        ValueError: it is no JSON.
    """
    try:
        value = json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise TooDeep(f"it is nested more than {max_depth} deep") from None
    marks = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if marks > max_depth:
        require_shallow(value, max_depth)
    return value


def require_shallow(value: Any, max_depth: int = MAX_DEPTH) -> None:
    """Check the depth of a value of lists and dicts, without recursion.

    Raises:
        TooDeep: it is nested more than ``max_depth`` deep.
    """
    level = [value]
    for _ in range(max_depth + 1):
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += each.values()
            elif isinstance(each, list):
                inside += each
        level = [each for each in inside if isinstance(each, (dict, list))]
        if not level:
            return
    raise TooDeep(f"it is nested more than {max_depth} deep")
