"""Calls of the tools that ``info["tools"]`` declares: valid ones, drawn from schemas, in the form that is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final
from weakref import WeakKeyDictionary

from rlvr.envs.validation.context import Validation
from rlvr.envs.validation.subject import NotApplicable

CallForm = Callable[[str, Mapping[str, Any]], str]  # a tool's name and arguments, as a reply
CALLS: Final = 6  # of each tool, with other arguments
TOOLS: Final = 24  # that are called
DEPTH: Final = 4  # of arguments in arguments
NAMES: Final = re.compile("path|file|name|key|id$|query|answer", re.I)  # of what a text of several names
# Forms of a call: Hermes' and Qwen's, and objects alone, with the names that prompts use.
FORMS: Final[tuple[CallForm, ...]] = (
    lambda name, given: f"<tool_call>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>",
    lambda name, given: json.dumps({"name": name, "arguments": given}),
    lambda name, given: json.dumps({"tool": name, "args": given}),
    lambda name, given: json.dumps({"tool": name, "arguments": given}),
    lambda name, given: json.dumps({"tool_name": name, "arguments": given}),
    lambda name, given: json.dumps({"tool": name, **given}),
)

_READ: WeakKeyDictionary[Validation, CallForm | None] = (
    WeakKeyDictionary()
)  # the form that each one's environment reads


def declared_tools(v: Validation) -> dict[str, Mapping[str, Any]]:
    """The parameters of each declared tool, a JSON schema, by its name; those that are no declarations are left out."""
    listed = v.opening(v.refs[0]).first_info.get("tools")
    tools: dict[str, Mapping[str, Any]] = {}
    for tool in listed if isinstance(listed, (list, tuple)) else ():
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        parameters = function.get("parameters", function.get("inputSchema", {})) if isinstance(function, Mapping) else 0
        if isinstance(function, Mapping) and function.get("name") and isinstance(parameters, Mapping):
            tools.setdefault(str(function["name"]), parameters)
    return dict(islice(tools.items(), TOOLS))


def declared_calls(v: Validation, texts: Sequence[str] = ()) -> dict[str, list[str]]:
    """Texts that call each declared tool validly, by its name; empty where no form of a call is read.

    Args:
        texts: what arguments that are texts may be, beside what their schemas say.
    """
    tools = declared_tools(v) if v.subject.texts else {}
    if v not in _READ:
        _READ[v] = form_of_calls(v)
    form = _READ[v]
    if form is None:
        return {}
    drawn = {name: islice(arguments(schema, texts), CALLS + 2 * len(texts)) for name, schema in tools.items()}
    return {name: list(dict.fromkeys(form(name, given) for given in each)) for name, each in drawn.items()}


def form_of_calls(v: Validation) -> CallForm | None:
    """The first form in which a call of a declared tool is answered otherwise than one of no tool."""
    tools = declared_tools(v)
    return next((form for form in FORMS if any(_is_read(v, form, *tool) for tool in tools.items())), None)


def unknown_tools(v: Validation, calls: Mapping[str, list[str]]) -> list[str]:
    """Texts that call a declared tool validly, and are answered as a tool that is not there is."""
    return [
        texts[0]
        for name, texts in calls.items()
        if all(_answer(v, text) == _answer(v, text.replace(json.dumps(name), '"zzkq"'), name) for text in texts)
    ]


def _is_read(v: Validation, form: CallForm, name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a call in a form is answered otherwise than one of no tool in that form."""
    text = form(name, next(arguments(schema)))
    return _answer(v, text) != _answer(v, text.replace(json.dumps(name), '"zzkq"'), name)


def _answer(v: Validation, text: str, name: str = "") -> tuple[Any, ...] | None:
    """What a first action comes to, where a name that it does not have is given as if it had."""
    try:
        played = v.opening(v.refs[0], text)
    except NotApplicable:
        return None
    came_back = played.error or played.observations[-1]
    return came_back.replace("zzkq", name) if name else came_back, played.rewards, played.ended


def arguments(schema: Mapping[str, Any], texts: Sequence[str] = (), depth: int = 0) -> Iterator[dict[str, Any]]:
    """Valid arguments of a tool, in turn those that are required and all; endless.

    Args:
        schema: of the arguments, an object.
        texts: values of arguments that are texts.
        depth: how many objects hold this one.
    """
    names = schema.get("properties")
    properties = names if isinstance(names, Mapping) else {}
    required = [name for name in schema.get("required") or () if name in properties]
    plain = [name for name, each in properties.items() if isinstance(each, Mapping) and each.get("type") == "string"]
    given = {name: texts for name in plain if len(plain) == 1 or NAMES.search(name)}
    for number, chosen in ((n, names) for n in count() for names in (required, properties)):
        yield {name: value_of(properties[name], number, given.get(name, ()), depth) for name in chosen}


def value_of(schema: Any, number: int, texts: Sequence[str] = (), depth: int = 0) -> Any:
    """The ``number``-th value that a JSON schema allows, as far as types, options and bounds go."""
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return "1"
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][number % len(schema[key])]
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return value_of(schema[key][0], number, texts, depth + 1)
    kind = schema.get("type", "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "integer" | "number":
            low, high = schema.get("minimum", 1), schema.get("maximum", 100)
            return min(low + (0, 1, 9)[number % 3], max(low, high)) if _numbers(low, high) else 1
        case "boolean":
            return number % 2 == 0
        case "array":
            return [value_of(schema.get("items"), number, texts, depth + 1)]
        case "object":
            return next(arguments(schema, texts, depth + 1))
        case "null":
            return None
    return (*texts, "1", "test")[number % (len(texts) + 2)]


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
