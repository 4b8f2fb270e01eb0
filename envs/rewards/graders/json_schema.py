"""JSON answers: parsed strictly, checked against a pydantic model or a JSON schema, compared with a value if given.

The JSON is the last fenced block after the thinking, else what stands in ``<answer>``, else the whole reply. Duplicate
keys, NaN and Infinity, comments and text around the value are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.errors import BadOption, BadReference, WorkerSpent, WorkerTimeout
from rlvr.envs.rewards.extraction import MAX_COMPLETION_CHARS, extract, visible_text

MAX_CHARS: Final = 100_000
MAX_DEPTH: Final = 64
MAX_STEPS: Final = 500_000  # comparisons of a part of the answer with a part of the schema
MAX_SCHEMA_PARTS: Final = 10_000

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
_KEYWORD_NAMES = """
type properties required additionalProperties items enum const minimum maximum minLength maxLength minItems maxItems
anyOf title description default $schema
"""
_KEYWORDS: Final = frozenset(_KEYWORD_NAMES.split())


class NotJSON(ValueError):
    """The text is not one JSON value; the message says why."""


class _Steps:
    """What a check may still cost."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def take(self, count: int = 1) -> None:
        """
        Raises:
            WorkerSpent: there are none left.
        """
        self.left -= count
        if self.left < 0:
            raise WorkerSpent(f"over {MAX_STEPS:,} steps of checking")


def grade_json(completion: str, reference: Any = None, *, schema: Any = None, strict: bool = True) -> Verdict:
    """Grade a JSON answer.

    Args:
        completion: the model's reply.
        reference: the value that is right, as data or as a pydantic object; or a pydantic model class, which then is
            the schema; or None, when any value of the schema is right.
        schema: a pydantic model class, any type pydantic knows, or a JSON schema as a dict (types, properties,
            required, additionalProperties, items, enum, const, minimum, maximum, lengths, anyOf).
        strict: no coercion between types: ``"3"`` is no integer.

    Returns:
        1 for the value, or any that fits. An answer whose check runs out of time or memory is ``wrong`` when the schema
        can check something else within them, else ``timeout``, which is not valid.

    Raises:
        BadReference: neither a reference nor a schema was given.
        BadOption: the schema cannot be used.
    """
    if isinstance(reference, type) and schema is None:
        reference, schema = None, reference
    if reference is None and schema is None:
        raise BadReference("json needs a reference, a schema, or both")
    text, reason = find_json(completion)
    if text is None:
        return unparsable(reason)
    try:
        value = load(text)
    except NotJSON as error:
        return unparsable(str(error), text[:500])
    expected = reference.model_dump(mode="json") if hasattr(reference, "model_dump") else reference
    try:
        fault = _fault(value, text, schema, strict)
    except WorkerTimeout as error:
        return Verdict(0.0, "timeout", text[:500], str(error)[:300])
    except WorkerSpent as error:
        alone = _schema_alone(schema, expected, strict)
        if alone:
            return Verdict(0.0, "timeout", text[:500], f"the schema alone: {alone}"[:300])
        return wrong(text[:500], f"cannot be checked: {error}"[:300])
    if fault:
        return wrong(text[:500], f"the schema does not hold: {fault}"[:300])
    if expected is not None and not same_json(value, expected):
        return wrong(text[:500], "not the expected value")
    return correct(text[:500])


def find_json(completion: str) -> tuple[str | None, str]:
    """The text that should be JSON, or None and why there is none."""
    if len(completion) > MAX_COMPLETION_CHARS:
        return None, f"the reply is over the cap of {MAX_COMPLETION_CHARS:,} characters"
    text = visible_text(completion)
    block = _last_fenced(text) if "```" in text else None
    if block is not None:
        block_text = block
    else:
        tagged = extract(text, ("tag",), MAX_CHARS)
        block_text = tagged.answer if tagged.answer is not None else text
    block_text = block_text.strip()
    if not block_text:
        return None, "no text after the thinking"
    if len(block_text) > MAX_CHARS:
        return None, f"the JSON is over the cap of {MAX_CHARS:,} characters"
    return block_text, ""


def _last_fenced(text: str) -> str | None:
    """The content of the last closed fenced block, read from the end; None when there is none."""
    text = "\n" + text.rstrip()
    closing = text.rfind("\n```")
    if closing < 0:
        return None
    if _rest_of_line(text, closing + 4).strip():  # an opening fence that nothing closes
        end = closing
        closing = text.rfind("\n```", 0, end)
        if closing < 0 or _rest_of_line(text, closing + 4).strip():
            return None
    opening = text.rfind("\n```", 0, closing)
    if opening < 0:
        return None
    start = text.find("\n", opening + 4)
    return text[start : closing + 1]


def _rest_of_line(text: str, position: int) -> str:
    end = text.find("\n", position)
    return text[position : end if end >= 0 else len(text)]


def load(text: str) -> Any:
    """Parse strictly.

    Raises:
        NotJSON: it is not one JSON value, holds a key twice, a number that is not finite, or nests too deep.
    """
    if _depth(text) > MAX_DEPTH:
        raise NotJSON(f"JSON may nest {MAX_DEPTH} deep")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_float)
    except NotJSON:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"not JSON: {error}"[:200]) from None


def _depth(text: str) -> int:
    """More than ``MAX_DEPTH`` when the brackets of a text nest deeper; they are only counted as far as that."""
    depth = 0
    for opening in re.finditer(r'"(?:[^"\\]+|\\.)*+"?|[\[{]|[\]}]', text, re.DOTALL):
        symbol = opening.group()
        if symbol in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                break
        elif symbol in "]}":
            depth -= 1
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise NotJSON("an object holds a key twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise NotJSON(f"{name} is not JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise NotJSON("a number is out of range")
    return value


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, but neither equals true; the order of keys does not matter."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if isinstance(left, dict) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(same_json(a, b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)


def _fault(value: Any, text: str, schema: Any, strict: bool) -> str:
    """Why the schema does not hold; empty when it does.

    Raises:
        WorkerSpent: to find out takes too much.
        WorkerTimeout, WorkerError: the machine is at fault.
    """
    if schema is None:
        return ""
    if isinstance(schema, Mapping):
        check_schema(schema)
        return schema_fault(value, schema, "the value", _Steps())
    from rlvr.envs.rewards.graders.pydantic_schema import fault_of

    return fault_of(text, schema, strict)


def _schema_alone(schema: Any, expected: Any, strict: bool) -> str:
    """What keeps the schema from checking the reference, or null where there is none; empty when nothing does."""
    try:
        _fault(expected, json.dumps(expected), schema, strict)
    except (WorkerSpent, WorkerTimeout) as error:
        return str(error)
    return ""


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise BadOption for a JSON schema that holds what is not checked here, rather than ignore it, or is too large."""
    waiting: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_PARTS):
        if not waiting:
            return
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += _parts(part)
        else:
            raise BadOption(f"a part of a JSON schema is an object, this one is {part!r}"[:300])
    raise BadOption(f"a JSON schema may have {MAX_SCHEMA_PARTS:,} parts, or holds itself")


def _parts(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas that stand directly in one.

    Raises:
        BadOption: it has a keyword or a type that is not checked here.
    """
    unknown = set(schema) - _KEYWORDS
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else list(types)
    if unknown or set(names) - set(_TYPES):
        raise BadOption(
            f"a JSON schema may use {sorted(_KEYWORDS)} and types {sorted(_TYPES)}; this one has {schema!r}"[:500]
        )
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    return inner + [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)]


def schema_fault(value: Any, schema: Mapping[str, Any], path: str, steps: _Steps) -> str:
    """Why a value does not fit a JSON schema; empty when it does.

    Raises:
        WorkerSpent: to find out takes too many steps.
    """
    steps.take(1 + len(schema.get("enum", ())) + len(path) // 1_000)
    types = schema.get("type")
    names = [types] if isinstance(types, str) else list(types or [])
    if names and not any(_has_type(value, name) for name in names):
        return f"{path} is not of type {' or '.join(names)}"
    if "const" in schema and not same_json(value, schema["const"]):
        return f"{path} is not the one value allowed"
    if "enum" in schema and not any(same_json(value, option) for option in schema["enum"]):
        return f"{path} is not one of the values allowed"
    if "anyOf" in schema and all(schema_fault(value, branch, path, steps) for branch in schema["anyOf"]):
        return f"{path} fits none of the alternatives"
    return _size_fault(value, schema, path) or _inner_fault(value, schema, path, steps)


def _has_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def _size_fault(value: Any, schema: Mapping[str, Any], path: str) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    size = len(value) if isinstance(value, (str, list)) else None
    suffix = "Length" if isinstance(value, str) else "Items"
    if number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{path} is out of range"
    if size is not None and not schema.get(f"min{suffix}", 0) <= size <= schema.get(f"max{suffix}", size):
        return f"{path} has a length out of range"
    return ""


def _inner_fault(value: Any, schema: Mapping[str, Any], path: str, steps: _Steps) -> str:
    if isinstance(value, list) and "items" in schema:
        faults = (schema_fault(item, schema["items"], f"{path}[{index}]", steps) for index, item in enumerate(value))
        return next((fault for fault in faults if fault), "")
    if not isinstance(value, dict):
        return ""
    missing = [key for key in schema.get("required", []) if key not in value]
    if missing:
        return f"{path} lacks {missing[0]!r}"
    properties, further = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, item in value.items():
        steps.take()
        branch = properties.get(key, further)
        if branch is False:
            return f"{path} has {key[:60]!r}, which is not allowed"
        fault = schema_fault(item, branch, f"{path}.{key[:60]}", steps) if isinstance(branch, Mapping) else ""
        if fault:
            return fault
    return ""
