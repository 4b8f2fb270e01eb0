"""Reading tool calls out of a reply: one module for all the ways in which models write them.

======  ==========================================================================================
style   a call of ``search`` with ``query``
======  ==========================================================================================
hermes  ``<tool_call>{"name": "search", "arguments": {"query": "x"}}</tool_call>`` (Hermes, Qwen2.5, Qwen3)
qwen    ``<tool_call><function=search><parameter=query>x</parameter></function></tool_call>`` (Qwen3-Coder)
llama   ``<|python_tag|>{"name": "search", "parameters": {"query": "x"}}``, or that object as the whole reply
json    the object of ``hermes`` as the whole reply, or in a fence marked ``json``
xml     ``<search><query>x</query></search>``, or with one argument ``<search>x</search>``
fenced  a fence marked ``search``: an object of arguments, or with one argument its text
======  ==========================================================================================

What is thought calls nothing, nor does what stands behind a chat control token or in forged tool output. Every reader
takes time that grows no faster than the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rlvr.envs.rewards.extraction import spoken_text, without_blocks

MAX_CALLS: Final = 8
MAX_REPLY: Final = 1_000_000
STYLES: Final = ("hermes", "qwen", "llama", "json", "xml", "fenced")

_FORGED = re.compile(r"<(tool_response|tool_output|tool_results?|function_results?|information|observation)>")
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"
_FUNCTION = re.compile(rf"\s*<function=({_NAME})>")
_PARAMETER = re.compile(rf"\s*<parameter=({_NAME})>")
_FENCE = re.compile(r"^```[ \t]*([A-Za-z0-9_.-]{0,64})[ \t]*$", re.MULTILINE)
_PYTHON_TAG = "<|python_tag|>"


class Call(NamedTuple):
    """One call as it was written: the tool's name, and its arguments, not yet checked."""

    name: str
    arguments: Mapping[str, Any]


class Reading(NamedTuple):
    """What a reply calls. ``problem`` says what is wrong with a call that cannot be read; then ``calls`` is empty.

    A reply without any call has neither.
    """

    calls: tuple[Call, ...] = ()
    problem: str = ""


class Unreadable(ValueError):
    """A call that is begun and cannot be read; the message is for the model."""


def read_calls(reply: str, style: str, tools: Mapping[str, Sequence[str]]) -> Reading:
    """The calls of a reply, in order. Never raises for what a model may write.

    Args:
        tools: for each tool's name the names of its arguments; styles that need no names do not look at them.

    Raises:
        ValueError: an unknown style.
    """
    if style not in _READERS:
        raise ValueError(f"style {style!r} is none of {', '.join(STYLES)}")
    if len(reply) > MAX_REPLY:
        return Reading(problem=f"a reply may have {MAX_REPLY:,} characters")
    text = spoken_text(reply)
    if "<" in text:
        text = without_blocks(text, _FORGED)
    calls: list[Call] = []
    try:
        for call in _READERS[style](text, tools):
            if len(calls) == MAX_CALLS:
                raise Unreadable(f"a reply may hold {MAX_CALLS} calls")
            calls.append(call)
    except Unreadable as error:
        return Reading(problem=str(error))
    return Reading(tuple(calls))


def write_call(call: Call, style: str) -> str:
    """The call as a model of that style writes it; ``read_calls`` reads it back.

    Raises:
        ValueError: an unknown style.
    """
    if style in ("hermes", "json", "llama"):
        key = "parameters" if style == "llama" else "arguments"
        written = json.dumps({"name": call.name, key: dict(call.arguments)}, ensure_ascii=False)
        return f"<tool_call>\n{written}\n</tool_call>" if style == "hermes" else written
    if style == "qwen":
        parameters = "".join(f"<parameter={k}>\n{_plain(v)}\n</parameter>\n" for k, v in call.arguments.items())
        return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"
    if style == "xml":
        inside = "".join(f"<{k}>{_plain(v)}</{k}>" for k, v in call.arguments.items())
        return f"<{call.name}>{inside}</{call.name}>"
    if style == "fenced":
        if len(call.arguments) == 1 and isinstance(text := next(iter(call.arguments.values())), str):
            return f"```{call.name}\n{text}\n```"
        return f"```{call.name}\n{json.dumps(dict(call.arguments), ensure_ascii=False)}\n```"
    raise ValueError(f"style {style!r} is none of {', '.join(STYLES)}")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(text: str, what: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text, strict=False)  # models break lines inside strings
    except RecursionError:
        raise Unreadable(f"{what} is nested too deeply") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise Unreadable(f"{what} is not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not a JSON object")
    return value


def _call(value: Mapping[str, Any]) -> Call:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise Unreadable('a call needs a "name", the name of a tool')
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the object as a string
        arguments = _object(arguments, "the value of arguments")
    if not isinstance(arguments, dict):
        raise Unreadable('"arguments" is not a JSON object')
    return Call(name, arguments)


def _between(text: str, opening: str, closing: str) -> Iterator[str]:
    """What stands between each opening and the closing behind it.

    Raises:
        Unreadable: an opening that is never closed.
    """
    position = text.find(opening)
    while position >= 0:
        begin = position + len(opening)
        end = text.find(closing, begin)
        if end < 0:
            raise Unreadable(f"{opening} without {closing}")
        yield text[begin:end]
        position = text.find(opening, end + len(closing))


def _hermes(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    for inside in _between(text, "<tool_call>", "</tool_call>"):
        yield _call(_object(inside, "what stands in <tool_call>"))


def _qwen(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    for inside in _between(text, "<tool_call>", "</tool_call>"):
        opening = _FUNCTION.match(inside)
        if opening is None:
            raise Unreadable("<tool_call> holds no <function=name>")
        if not inside.rstrip().endswith("</function>"):
            raise Unreadable("<function=…> without </function>")
        yield Call(opening[1], _parameters(inside[opening.end() : inside.rindex("</function>")]))


def _parameters(text: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    position = 0
    while opening := _PARAMETER.match(text, position):
        end = text.find("</parameter>", opening.end())
        if end < 0:
            raise Unreadable(f"<parameter={opening[1]}> without </parameter>")
        if opening[1] in arguments:
            raise Unreadable(f"the argument {opening[1]} stands twice")
        arguments[opening[1]] = text[opening.end() : end].removeprefix("\n").removesuffix("\n")
        position = end + len("</parameter>")
    if text[position:].strip():
        raise Unreadable("<function=…> holds something that is no <parameter=name>")
    return arguments


def _whole(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    """A JSON object, or a list of them, that is the whole text; prose, or JSON without a tool's name, is no call."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        if any(f'"{name}"' in text for name in tools):
            raise Unreadable("the reply begins like a call and is not JSON") from None
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict) and "name" in each:
            yield _call(each)


def _llama(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    text = text.rpartition(_PYTHON_TAG)[2].strip()
    for part in text.split(";\n", MAX_CALLS) if text.startswith("{") else [text]:
        yield from _whole(part, tools)


def _json(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    fences = [inside for name, inside in _fences(text) if name == "json"]
    for part in fences or [text]:
        yield from _whole(part, tools)


def _xml(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    if not tools:
        return
    tag = re.compile(f"<({'|'.join(map(re.escape, tools))})>")
    position = 0
    while opening := tag.search(text, position):
        name, closing = opening[1], f"</{opening[1]}>"
        end = text.find(closing, opening.end())
        if end < 0:
            raise Unreadable(f"<{name}> without {closing}")
        yield Call(name, _children(text[opening.end() : end], tools[name]))
        position = end + len(closing)


def _children(text: str, names: Sequence[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    rest = text.strip()
    while opening := next((name for name in names if rest.startswith(f"<{name}>")), None):
        end = rest.find(f"</{opening}>")
        if end < 0:
            raise Unreadable(f"<{opening}> without </{opening}>")
        if opening in arguments:
            raise Unreadable(f"the argument {opening} stands twice")
        arguments[opening] = rest[len(opening) + 2 : end]
        rest = rest[end + len(opening) + 3 :].lstrip()
    if not arguments and len(names) == 1:
        return {names[0]: text.strip("\n")}
    if rest:
        raise Unreadable(f"something stands beside the arguments {', '.join(names) or '(there are none)'}")
    return arguments


def _fenced(text: str, tools: Mapping[str, Sequence[str]]) -> Iterator[Call]:
    for name, inside in _fences(text):
        if name in tools:
            only = tools[name][0] if len(tools[name]) == 1 else None
            yield Call(name, {only: inside} if only else _object(inside, f"the fence {name}") if inside.strip() else {})


def _fences(text: str) -> Iterator[tuple[str, str]]:
    """The name and content of each closed fence.

    Raises:
        Unreadable: a fence that is opened and never closed.
    """
    marks = _FENCE.finditer(text)
    for opening in marks:
        closing = next((mark for mark in marks if not mark[1]), None)
        if closing is None:
            raise Unreadable(f"the fence {opening[1] or '```'} is not closed")
        yield opening[1], text[opening.end() + 1 : max(opening.end() + 1, closing.start() - 1)]


_READERS: Final[dict[str, Callable[[str, Mapping[str, Sequence[str]]], Iterator[Call]]]] = {
    "hermes": _hermes,
    "qwen": _qwen,
    "llama": _llama,
    "json": _json,
    "xml": _xml,
    "fenced": _fenced,
}
