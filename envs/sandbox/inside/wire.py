"""Values on their way in and out of the sandbox: strict JSON trees of plain data, compared without being rebuilt.

What JSON has (null, booleans, integers, finite floats, strings, lists) stands for itself. Everything else is
an object of exactly two keys, ``{"t": kind, "v": content}``, for tuples, sets, dictionaries, bytes, complex
numbers, long integers, ranges and iterators. A type is taken for what it *is*: a subclass of ``int`` with its own
``__eq__`` has no form here, so it cannot be sent at all. Loaded inside the sandbox too: imports nothing of ours.
"""

from __future__ import annotations

import collections
import itertools
import json
import math
from collections.abc import Callable
from typing import Any

Tree = Any  # what json.loads gives: None, bool, int, float, str, list, or {"t": ..., "v": ...}

MAX_DEPTH = 60
_MAX_ITERATED = 100_000
_LONG_INT = 10**15  # longer ones travel in hexadecimal: linear to read, and free of Python's digit limit

_DICTS: tuple[type, ...] = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_ITERATORS: tuple[type, ...] = (
    type(_ for _ in ()), map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice,
    itertools.combinations, itertools.permutations, itertools.product, itertools.accumulate,
    type(iter([])), type(iter(())), type(iter("")), type(iter({})), type(iter(set())), type({}.keys()),
    type({}.values()), type({}.items()),
)  # fmt: skip


class NotPlain(ValueError):
    """The value, or the text that claims to hold one, is not plain data within the limits."""


def encode(value: Any, depth: int = 0) -> Tree:
    """The tree of a value.

    Raises:
        NotPlain: a type that is not plain data, a float that is not finite, or nesting over ``MAX_DEPTH``.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_LONG_INT < value < _LONG_INT else {"t": "int", "v": hex(value)}
    if kind is float:
        if not math.isfinite(value):
            raise NotPlain(f"the float {value!r} is not finite")
        return value
    if depth >= MAX_DEPTH:
        raise NotPlain(f"nested deeper than {MAX_DEPTH}")
    if kind is list:
        return [encode(item, depth + 1) for item in value]
    if kind in (tuple, set, frozenset):
        return {"t": kind.__name__, "v": [encode(item, depth + 1) for item in value]}
    if kind in _DICTS:
        pairs = [[encode(k, depth + 2), encode(v, depth + 2)] for k, v in dict.items(value)]
        return {"t": "dict", "v": pairs}
    return _encode_rare(value, kind, depth)


def _encode_rare(value: Any, kind: type, depth: int) -> Tree:
    if kind in (bytes, bytearray):
        return {"t": "bytes", "v": value.hex()}
    if kind is complex:
        return {"t": "complex", "v": [encode(value.real), encode(value.imag)]}
    if kind is range:
        return {"t": "range", "v": [encode(n) for n in (value.start, value.stop, value.step)]}
    if kind is collections.deque:
        return {"t": "deque", "v": [encode(item, depth + 1) for item in value]}
    if kind in _ITERATORS:
        items = list(itertools.islice(value, _MAX_ITERATED + 1))
        if len(items) > _MAX_ITERATED:
            raise NotPlain(f"an iterator over more than {_MAX_ITERATED} items")
        return {"t": "iterator", "v": [encode(item, depth + 1) for item in items]}
    raise NotPlain(f"a {kind.__name__} is not plain data")


def dump(message: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _no_constant(name: str) -> None:
    raise NotPlain(f"{name} is not a number")


def load(line: bytes | str) -> Any:
    """Read one line of JSON written by somebody hostile.

    Raises:
        NotPlain: it is not JSON, or too deep for the parser.
    """
    try:
        return json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"not a JSON message: {type(error).__name__}") from None


def check(tree: Any, depth: int = 0) -> Tree:
    """The same tree, if it is one.

    Raises:
        NotPlain: an unknown tag, a wrong content, a float that is not finite, nesting over ``MAX_DEPTH``.
    """
    if tree is None or isinstance(tree, (bool, str, int)):
        return tree
    if isinstance(tree, float):
        if not math.isfinite(tree):
            raise NotPlain("a float that is not finite")
        return tree
    if depth > MAX_DEPTH:
        raise NotPlain(f"nested deeper than {MAX_DEPTH}")
    if isinstance(tree, list):
        for item in tree:
            check(item, depth + 1)
        return tree
    if not isinstance(tree, dict) or set(tree) != {"t", "v"} or not isinstance(tree["t"], str):
        raise NotPlain("an object that is not a tagged value")
    rule = _CONTENT.get(tree["t"])
    if rule is None or not rule(tree["v"]):
        raise NotPlain(f"not a valid {tree['t'][:20]!r}")
    if isinstance(tree["v"], list):
        for item in tree["v"]:
            check(item, depth + 1)
    return tree


def _is_hex(text: Any, prefix: str = "") -> bool:
    if not isinstance(text, str):
        return False
    digits = text.removeprefix("-").removeprefix(prefix) if prefix else text
    return (bool(digits) or not prefix) and not set(digits) - set("0123456789abcdef")


def _is_list(content: Any) -> bool:
    return isinstance(content, list)


def _are_integers(content: Any) -> bool:
    return _is_list(content) and len(content) == 3 and all(type(n) in (int, dict) for n in content)


_CONTENT: dict[str, Callable[[Any], bool]] = {
    "tuple": _is_list, "set": _is_list, "frozenset": _is_list, "deque": _is_list, "iterator": _is_list,
    "dict": lambda v: _is_list(v) and all(_is_list(pair) and len(pair) == 2 for pair in v),
    "bytes": lambda v: _is_hex(v) and len(v) % 2 == 0,
    "int": lambda v: _is_hex(v, "0x"),
    "complex": lambda v: _is_list(v) and len(v) == 2 and all(type(x) is float for x in v),
    "range": _are_integers,
}  # fmt: skip


def decode(tree: Tree) -> Any:
    """The value of a checked tree. Only ever called inside a sandbox: hostile keys make slow dictionaries.

    Raises:
        TypeError, ValueError: a set or dictionary of unhashable things, a range of step 0.
    """
    if isinstance(tree, list):
        return [decode(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    kind, content = tree["t"], tree["v"]
    if kind == "int":
        return int(content, 16)
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {decode(k): decode(v) for k, v in content}
    items = [decode(item) for item in content]
    makers: dict[str, Callable[[list[Any]], Any]] = {
        "tuple": tuple, "set": set, "frozenset": frozenset, "deque": collections.deque, "iterator": iter,
        "complex": lambda parts: complex(*parts), "range": lambda parts: range(*parts),
    }  # fmt: skip
    return makers[kind](items)


def same(expected: Tree, got: Tree, *, tolerance: float = 0.0, strict_sequences: bool = False) -> bool:
    """Whether two checked trees hold the same value of the same types.

    Args:
        expected: from ``encode``; an expected *list* accepts a tuple unless ``strict_sequences``, because data
            sets are kept in JSON, which has no tuples. An expected tuple always demands a tuple.
        got: from ``check``.
        tolerance: floats, and only floats, may differ by this much, relatively or absolutely.
    """
    if isinstance(expected, list):
        if not strict_sequences and isinstance(got, dict) and got["t"] == "tuple":
            got = got["v"]
        return (
            isinstance(got, list)
            and len(got) == len(expected)
            and all(
                same(e, g, tolerance=tolerance, strict_sequences=strict_sequences)
                for e, g in zip(expected, got, strict=True)
            )
        )
    if type(expected) is not type(got):
        return False
    if isinstance(expected, float):
        return expected == got or math.isclose(expected, got, rel_tol=tolerance, abs_tol=tolerance)
    if not isinstance(expected, dict):
        return bool(expected == got)
    if expected["t"] != got["t"]:
        return False
    kind, left, right = expected["t"], expected["v"], got["v"]
    if kind in ("set", "frozenset"):
        return sorted(map(canonical, left)) == sorted(map(canonical, right))
    if kind == "dict":
        wanted, actual = ({canonical(k): v for k, v in pairs} for pairs in (left, right))
        return (
            len(left) == len(right)
            and wanted.keys() == actual.keys()
            and all(same(wanted[k], actual[k], tolerance=tolerance, strict_sequences=strict_sequences) for k in wanted)
        )
    if isinstance(left, list):
        return same(left, right, tolerance=tolerance, strict_sequences=strict_sequences)
    return bool(left == right)


def canonical(tree: Tree) -> str:
    """One text per value, whatever order a set or a dictionary was written in."""
    if isinstance(tree, list):
        return "[" + ",".join(map(canonical, tree)) + "]"
    if isinstance(tree, dict):
        content = tree["v"]
        if tree["t"] in ("set", "frozenset"):
            inside = ",".join(sorted(map(canonical, content)))
        elif tree["t"] == "dict":
            inside = ",".join(sorted(f"{canonical(k)}:{canonical(v)}" for k, v in content))
        else:
            inside = canonical(content)
        return f"{tree['t']}({inside})"
    return json.dumps(tree)
