"""A tool: a typed function that a policy may call, its JSON schema, and the error that it gets for a wrong call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rlvr.envs.core.verdict import Verdict, env_error
from rlvr.envs.rewards.extraction import CONTROL_TOKEN
from rlvr.envs.tools.call_arguments import Unreadable, raw_value
from rlvr.envs.tools.calls import Call, can_name, write_call

MAX_ARGUMENTS: Final = 100_000
MAX_OUTPUT: Final = 4_000
FAULTY_TOOL: Final = re.compile(r"the tool (\S{1,100}):")  # how the reason of a tool's fault begins
_ARGUMENT = re.compile(r"^\s*(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
# The shapes of control tokens: <|x|> <|x> <x|> ◁x▷, [/X] [X_Y] [gX], <x_y> <x0>; and those that look like other text.
_TOKEN = re.compile(
    r"<[|｜][^<>\s|｜]{1,40}[|｜]?>|</?[^<>\s|｜/]{1,40}[|｜]>|◁[^◁▷\s]{1,40}▷"
    r"|\[(?:/[A-Z_]{3,40}|[A-Z]{2,20}_[A-Z0-9_]{1,40}|[a-z][A-Z]{3,20}|INST|THINK|BOS|EOS|CLS|SEP|PAD|UNK|MASK|IMG)\]"
    r"|</?[A-Za-z]+_[A-Za-z0-9_]{1,40}>|</?[a-z]{4,20}[0-9]{1,4}>"
    r"|</?(?:[bse]o[stpm]|pad|unk|cls|sep|mask|s|(?:[a-z]{1,20}:)?think(?:ing)?|answer|observation|information)>"
)
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class ToolError(Exception):
    """The call was wrong, or what it asked for is; the message is for the model, which may try again."""


class NotInTime(ToolError):
    """The call was given up at its deadline."""


class SessionLost(ToolError):
    """The call ended its tool's session, a server say: it is told to the policy, and the session is made again."""


class ToolFault(Exception):
    """The tool cannot be had, whatever the call: the episode ends with an invalid verdict and teaches nothing.

    Attributes:
        status: ``env_error`` or ``timeout``.
    """

    def __init__(self, message: str, status: str = "env_error") -> None:
        super().__init__(message)
        self.status = status

    def of(self, name: str) -> ToolFault:
        """The same fault with the tool's name in front of its message."""
        return self if FAULTY_TOOL.match(str(self)) else ToolFault(f"the tool {name}: {self}", self.status)

    @property
    def verdict(self) -> Verdict:
        """The verdict that ends the episode."""
        return env_error(str(self), timeout=self.status == "timeout")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function with a name, a description and checked arguments; made by ``tool``.

    Attributes:
        arguments: a pydantic model of the arguments; nothing else may be given.
        function: takes the arguments by name, behind whatever its owner hands it first (a state, a session).
        given: how many parameters its owner hands it.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[..., Any]
    given: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(tool, name=self.name, given=self.given), (self.function,)  # a made model has no address

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return tuple(self.arguments.model_fields)

    @property
    def described(self) -> Mapping[str, str]:
        """The descriptions of the arguments that have one, by name."""
        descriptions = {name: field.description for name, field in self.arguments.model_fields.items()}
        return {name: text for name, text in descriptions.items() if text}

    def schema(self) -> dict[str, Any]:
        """What chat templates and endpoints take in ``tools=``."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        for field in parameters.get("properties", {}).values():
            field.pop("title", None)
        return shown_schema(self.name, self.description, parameters)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with their types; numbers written as text are read.

        Raises:
            ToolError: one is missing, unknown, of another type, out of range, over 100,000 characters or has a NUL.
        """
        size = 0
        for value in arguments.values():
            text = value if isinstance(value, str) else repr(value)
            size += len(text)
            if "\x00" in text or (isinstance(value, str) and not _encodes(text)):
                raise ToolError(f"{self.name}: an argument is no plain text")
        if size > MAX_ARGUMENTS:
            raise ToolError(f"{self.name}: the arguments have {size:,} characters, allowed are {MAX_ARGUMENTS:,}")
        try:
            checked = self._validated(arguments)
        except ValidationError as error:
            raise ToolError(f"{self.name}: {_complaint(error)}; it takes {self.signature()}") from None
        return {name: getattr(checked, name) for name in self.arguments.model_fields}

    def _validated(self, arguments: Mapping[str, Any]) -> BaseModel:
        """The arguments; a list or an object that is no text comes as its JSON in styles that write text alone."""
        try:
            return self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
            read = {name: _structure(value) if name in wrong else value for name, value in arguments.items()}
            if read == arguments:
                raise
            return self.arguments.model_validate(read)

    def example(self, name: str) -> Any:
        """A value that an argument may have, as examples of calls show it."""
        schema = self.schema()["function"]["parameters"].get("properties", {}).get(_kept(name), {})
        schema = schema if isinstance(schema, Mapping) else {}  # a served tool may say true: anything goes
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return choices[0]
        return {"integer": 1, "number": 1.5, "boolean": True}.get(str(schema.get("type")), "…")

    def signature(self) -> str:
        """``search(query: str, limit: int = 5)``."""
        parts = []
        for name, field in self.arguments.model_fields.items():
            kind = _kind(field.annotation)
            parts.append(f"{name}: {kind}" + ("" if field.is_required() else f" = {field.default!r}"))
        return f"{self.name}({', '.join(parts)})"


def _kind(annotation: Any) -> str:
    """A type as a signature shows it; the values of a choice are written out."""
    if get_origin(annotation) is Literal:
        return " | ".join(map(repr, get_args(annotation)))
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")


def tool(function: Callable[..., Any], *, name: str | None = None, given: int = 0) -> Tool:
    """A tool from a function: its types become the schema, its Google docstring the descriptions.

    Args:
        given: how many leading parameters its owner fills in; the policy does not see them.

    Raises:
        TypeError: a parameter without a type, a ``*args``, or no docstring.
    """
    if not function.__doc__:
        raise TypeError(f"the tool {function.__name__} has no docstring, which is what the policy reads")
    text, descriptions = _described(inspect.getdoc(function) or "")
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[given:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name not in hints:
            raise TypeError(f"the tool {function.__name__} needs a type for its parameter {parameter.name}")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default, description=descriptions.get(parameter.name)))
    title = name or function.__name__
    model = create_model(title, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)
    return Tool(title, text, model, function, given)


def named(name: str, tools: Mapping[str, Tool]) -> Tool:
    """The tool of that name.

    Raises:
        ToolError: there is none; the message names those there are.
    """
    if name not in tools:
        raise ToolError(f"there is no tool {name[:64]!r}; there are {', '.join(tools)}")
    return tools[name]


def instructions(tools: Sequence[Tool], style: str) -> str:
    """What a system prompt says of the tools: each with its arguments, and how a call is written in this style."""
    lines = ["You have these tools:"]
    for each in tools:
        lines.append(f"- {_kept(each.signature())}: {_kept(each.description)}")
        lines += [f"    {_kept(name)}: {_kept(text)}" for name, text in each.described.items()]
    example = example_call(tools[0], style)
    lines.append(f"To call one, write for example\n{example}\nand nothing after it; its output comes back to you.")
    return "\n".join(lines)


def example_call(shown_tool: Tool, style: str) -> str:
    """A call of a tool with values of the right types, written in this style."""
    arguments = {name: shown_tool.example(name) for name in map(_kept, shown_tool.names) if can_name(name, style)}
    return write_call(Call(shown_tool.name, arguments), style, shown_tool.names)


def argument_names(schemas: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The names of each tool's arguments by the tool's name, from schemas as chat templates take them."""
    functions = [schema.get("function", schema) for schema in schemas]
    return {each["name"]: list((each.get("parameters") or {}).get("properties") or {}) for each in functions}


def shown(output: str, limit: int = MAX_OUTPUT) -> str:
    """Output as a model may see it: plain text of a bounded length in which nothing is a control token or a chat tag.

    Too long a text keeps its beginning and its end; unprintable characters become U+FFFD, and what has the shape of a
    control token is broken by a blank, since no tokenizer is at hand here. Where one is, nothing has to be of a shape.
    """
    if len(output) > limit:
        half = limit // 2
        output = f"{output[:half]}\n[{len(output) - 2 * half:,} characters left out]\n{output[-half:]}"
    output = _UNPRINTABLE.sub("\ufffd", output)
    if any(sign in output for sign in "<[◁"):
        output = _TOKEN.sub(_broken, CONTROL_TOKEN.sub(_broken, output))
    return output


def shown_schema(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool for chat templates: no text in it, at any depth and whether key or value, holds a control token."""
    function = {"name": name, "description": description, "parameters": dict(parameters)}
    return {"type": "function", "function": _shown_inside(function)}


def shown_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Somebody else's schemas of tools, in which no text holds a control token, as in `shown_schema`."""
    return [_shown_inside(each) for each in tools]


def _shown_inside(value: Any) -> Any:
    if isinstance(value, str):
        return _kept(value)
    if isinstance(value, Mapping):
        return {_kept(str(key)): _shown_inside(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown_inside(inner) for inner in value]
    return value


def _kept(text: str) -> str:
    """``shown``, without cutting anything off."""
    return shown(text, len(text))


def _broken(match: re.Match[str]) -> str:
    return f"{match[0][0]} {match[0][1:]}"


def _structure(value: Any) -> Any:
    """The list, object or null whose JSON a text is; else the value itself."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{", "n"):
        try:
            structure, end = raw_value(value, 0)
        except Unreadable:
            return value
        return value if value[end:].strip() else structure
    return value


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    path = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no argument {path[:50]!r}"
    return f"{path}: {first['msg'][:200]}"


def _described(docstring: str) -> tuple[str, dict[str, str]]:
    """The first paragraph, and what the ``Args`` section says of each argument."""
    head, _, rest = docstring.partition("\nArgs:\n")
    descriptions: dict[str, str] = {}
    last = ""
    for line in rest.split("\n\n")[0].splitlines():
        match = _ARGUMENT.match(line)
        if match and (len(line) - len(line.lstrip())) <= 4:
            last = match[1]
            descriptions[last] = match[2].strip()
        elif last:
            descriptions[last] += " " + line.strip()
    return " ".join(head.split("\n\n")[0].split()), descriptions
