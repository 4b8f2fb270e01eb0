"""JSON that somebody else wrote, or Python's way to write the same, with a bound on its depth."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable
from typing import Any, Final

MAX_DEPTH: Final = 100  # far below where Python's own stack ends, wherever the value is walked later

MAX_LITERAL: Final = 64 << 20  # characters of a Python literal
MAX_COMMAS: Final = 1_000_000  # in one: each value of its syntax tree takes some 500 bytes


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


def load_json_or_literal(text: str) -> Any:
    """`load_json`; where that fails, the value of a Python literal: some data sets publish the ``str`` of a dict.

    A literal is parsed, never executed, and its value is one of JSON: a tuple becomes a list.

    Raises:
        TooDeep: it is nested too deep.
        ValueError: it is neither.
    """
    try:
        return load_json(text)
    except TooDeep:
        raise
    except ValueError as error:
        problem = str(error)
    if len(text) > MAX_LITERAL or text.count(",") > MAX_COMMAS:
        raise ValueError(f"it is no JSON ({problem}), and too large to be read as a Python literal")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            value = ast.literal_eval(text.strip())
        return load_json(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"it is no JSON ({problem}), and no Python literal of such values") from None


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
