"""The tools that an MCP server describes by JSON schemas: what is shown of them, and whether a call's arguments fit.

What a server wrote is hostile, and so is what a policy writes: a check is bounded, nothing is fetched, and no pattern
of a schema is matched.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from rlvr.envs.tools.call_arguments import Unreadable, raw_value
from rlvr.envs.tools.tool import MAX_ARGUMENTS, Tool, ToolError, ToolFault, shown, shown_schema

MAX_DESCRIPTION: Final = 2_000
MAX_SCHEMA: Final = 100_000
MAX_CHECKS: Final = 300_000  # keywords of a schema that are applied to the arguments of one call
CHECK_SECONDS: Final = 2.0  # of processor time
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def _carried_out_by_the_server(**arguments: Any) -> str:
    raise NotImplementedError("carried out by MCP.run")


@dataclass(frozen=True, slots=True)
class ServedTool(Tool):
    """A tool of a server.

    Attributes:
        parameters: the JSON schema of the arguments.
        original: its name on the server; ``name`` has only what can be written in every style of calls.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    original: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return served_tool, (self.original, self.description, self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._properties())

    @property
    def described(self) -> Mapping[str, str]:
        schemas = {name: each for name, each in self._properties().items() if isinstance(each, Mapping)}
        texts = {name: schema.get("description") for name, schema in schemas.items()}
        return {name: shown(text, MAX_DESCRIPTION) for name, text in texts.items() if isinstance(text, str)}

    def _properties(self) -> Mapping[str, Any]:
        """Of the schema and of those it is composed of, the first of a name."""
        merged: dict[str, Any] = {}
        for part in _parts(self.parameters):
            properties = part.get("properties")
            merged = {**properties, **merged} if isinstance(properties, Mapping) else merged
        return merged

    def schema(self) -> dict[str, Any]:
        return shown_schema(self.name, self.description, self.parameters)

    def signature(self) -> str:
        required = self.parameters.get("required", ())
        parts = []
        for name, each in self._properties().items():
            choices = each.get("enum") if isinstance(each, Mapping) else None
            written = [json.dumps(choice) for choice in choices] if isinstance(choices, list) else []
            kind = "|".join(written or sorted(_kinds(each, self.parameters))) or "any"
            parts.append(f"{name}: {kind}" + ("" if name in required else " (optional)"))
        return f"{self.name}({', '.join(parts)})"

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the server wants them; what was written as text and is none is read as JSON.

        Raises:
            ToolError: they do not fit the schema, have over 100,000 characters, or hold what is no plain text.
            ToolFault: the schema itself cannot be worked with.
        """
        size = 0
        for text in _texts(dict(arguments)):
            size += len(text)
            if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
                raise ToolError(f"{self.name}: an argument is no plain text")
        if size > MAX_ARGUMENTS:
            raise ToolError(f"{self.name}: the arguments have {size:,} characters, allowed are {MAX_ARGUMENTS:,}")
        properties = self._properties()
        read_arguments = {
            name: _read(value, properties.get(name), self.parameters) for name, value in arguments.items()
        }
        unknown = sorted(read_arguments.keys() - properties.keys())
        parts = list(_parts(self.parameters))
        open_ended = any("patternProperties" in part or part.get("additionalProperties") for part in parts)
        if unknown and not open_ended:
            raise ToolError(f"{self.name}: there is no argument {unknown[0][:50]!r}; it takes {self.signature()}")
        try:
            problem = next(_validator(self.parameters).iter_errors(read_arguments), None)
        except Exception as error:
            if fault := schema_fault(self.parameters):
                raise ToolFault(f"the schema of {self.name} cannot be used: {fault}"[:300]) from None
            raise ToolError(f"{self.name}: the arguments cannot be checked: {error}"[:300]) from None
        if problem is not None:
            path = ".".join(map(str, problem.absolute_path))
            fault = f"{path}: {problem.message[:200]}" if path else problem.message[:200]
            raise ToolError(f"{self.name}: {fault}; it takes {self.signature()}")
        return read_arguments


def served_tool(original: str, description: str, parameters: Mapping[str, Any]) -> ServedTool:
    """A tool of a server, under a name that every style of calls can write."""
    name = _NO_NAME.sub("_", original)[:64]
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"[:64]
    return ServedTool(
        name, description, BaseModel, _carried_out_by_the_server, parameters=parameters, original=original
    )


def _texts(value: Any) -> Iterator[str]:
    """All text in a JSON value, keys too; numbers as they are written."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        else:
            yield each if isinstance(each, str) else repr(each)


def _kinds(schema: Any, whole: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema names; none where it leaves them open."""
    kinds: set[str] = set()
    for part in _parts(schema, whole, ("anyOf", "oneOf")):
        kind = part.get("type")
        kinds |= {kind} if isinstance(kind, str) else {name for name in kind or () if isinstance(name, str)}
    return kinds


def _parts(
    schema: Any, whole: Mapping[str, Any] | None = None, lists: Sequence[str] = ("allOf", "anyOf", "oneOf")
) -> Iterator[Mapping[str, Any]]:
    """A schema, and those that it refers to or is composed of, for the same value."""
    whole = schema if whole is None else whole
    waiting, visited = [schema], set[int]()
    while waiting:
        each = waiting.pop(0)
        if not isinstance(each, Mapping) or id(each) in visited:
            continue
        visited.add(id(each))
        if isinstance(reference := each.get("$ref"), str) and reference.startswith("#/"):
            part: Any = whole
            for step in reference[2:].split("/"):
                part = part.get(step) if isinstance(part, Mapping) else None
            waiting.append(part)
        yield each
        for name in lists:
            inner = each.get(name)
            waiting += inner if isinstance(inner, list) else []
        if "allOf" in lists:
            depending = each.get("dependentSchemas")
            waiting += [each.get(name) for name in ("if", "then", "else")]
            waiting += depending.values() if isinstance(depending, Mapping) else []


def _read(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    """A value that some styles can only write as text, in its own type."""
    if not isinstance(value, str):
        return value
    kinds = _kinds(schema, whole)
    if not kinds or "string" in kinds:
        return value
    try:
        read, end = raw_value(value, 0)
    except Unreadable:
        return value
    return value if value[end:].strip() else read


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    if any(text.startswith(("http:", "https:", "file:")) for text in _references(schema)):
        raise ValueError("it refers to another document")
    left_out = ("pattern", "patternProperties", "format")
    work = _Work()
    checks = {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique_items}
    kept = {name: work.counted(check) for name, check in checks.items() if name not in left_out}
    blank: dict[str, Any] = dict.fromkeys(left_out, lambda *_: None)
    return extend(Draft202012Validator, {**kept, **blank})(dict(schema))


class _Work:
    """Counts what one check of arguments does, and ends it when that is too much."""

    def __init__(self) -> None:
        self.left = MAX_CHECKS
        self.end = time.thread_time() + CHECK_SECONDS

    def counted(self, check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def run(*arguments: Any) -> Iterator[Any]:
            self.left -= 1
            if self.left < 0 or time.thread_time() > self.end:
                raise ValueError("it takes too much work")
            yield from check(*arguments) or ()

        return run


def _unique_items(_: Any, unique: Any, instance: Any, __: Any) -> Iterator[Any]:
    """``uniqueItems`` in one pass; jsonschema's own compares each item with each."""
    from jsonschema import ValidationError

    if unique and isinstance(instance, list):
        canonical_items = {json.dumps(_canonical(item), sort_keys=True) for item in instance}
        if len(canonical_items) < len(instance):
            yield ValidationError("an item stands there twice")


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def schema_fault(schema: Any) -> str:
    """Why a schema from a server cannot be used, in one line; empty when it can."""
    from jsonschema import Draft202012Validator

    try:
        if not isinstance(schema, Mapping):
            return "it is no object"
        if len(json.dumps(schema)) > MAX_SCHEMA:
            return f"it has over {MAX_SCHEMA:,} characters"
        Draft202012Validator.check_schema(dict(schema))
        validator = _validator(schema)
        for reference in _references(schema):
            step, visited = reference, set[str]()
            while step and step not in visited:
                visited.add(step)
                contents = validator._resolver.lookup(step).contents
                step = str(contents.get("$ref", "")) if isinstance(contents, Mapping) else ""
            if step:
                return f"the reference {shown(step, 100)} leads to itself"
        list(validator.iter_errors({}))
    except Exception as error:  # whatever is wrong with what somebody else wrote
        message = str(getattr(error, "message", None) or error) or "no reason given"
        return f"{type(error).__name__}: {shown(' '.join(message.split()), 200)}"
    return ""


def _references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
            yield from (str(each[name]) for name in ("$ref", "$dynamicRef", "$id") if name in each)
        elif isinstance(each, list):
            waiting += each
