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

Endpoints give calls beside the text (`ActionWithCalls`): those are carried out as they were given, and the text is not
read for any.

A reply is read once, from left to right, and a call is read as a whole: nothing in its arguments ends it, or counts for
the rest of the reply. Outside of calls, what is thought calls nothing, nor does what stands behind a chat control token
or in forged tool output. Every reader takes time that grows no faster than the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.rewards.extraction import CONTROL_TOKEN, final_message
from rlvr.envs.tools.call_arguments import (
    NAME,
    Unreadable,
    fence_closing,
    longer_fence,
    parse_object,
    raw_value,
    read_fields,
    write_field,
)

MAX_CALLS: Final = 8
MAX_REPLY: Final = 1_000_000
STYLES: Final = ("hermes", "qwen", "llama", "json", "xml", "fenced")

_PYTHON_TAG = "<|python_tag|>"
_FUNCTION = re.compile(rf"\s*<function=({NAME})>")
_CALL_END = re.compile(r"\s*</tool_call>")
_FUNCTION_END = re.compile(r"\s*</function>\s*</tool_call>")
_SPACE = re.compile(r"\s*")
_FORGED = "tool_response|tool_output|tool_results?|function_results?|information|observation"
_OUTSIDE = (
    r"(?P<think>(?ai:<think(?:ing)?>))|(?P<thought>(?ai:</think(?:ing)?>))"
    rf"|(?P<control>{CONTROL_TOKEN.pattern})|(?P<forged><(?:{_FORGED})>)"
)
_SKIPPED_TO = re.compile(
    rf"(?P<thought>(?ai:</think(?:ing)?>))|(?P<control>{CONTROL_TOKEN.pattern})|(?P<end></(?:{_FORGED})>)"
)
_FENCE = (
    r"(?m:(?:^|(?<=think>)|(?<=thinking>))(?P<ticks>`{3,})[ \t]*(?P<tool>[A-Za-z0-9_.-]{0,64})"
    rf"(?:[ \t]+(?P<argument>{NAME}))?[ \t]*$)"
)
_OPENINGS: Final = {
    "hermes": r"(?P<call><tool_call>)|(?P<stray></tool_call>)",
    "qwen": r"(?P<call><tool_call>)|(?P<stray></(?:tool_call|function|parameter)>)",
    "llama": re.escape(_PYTHON_TAG).join(("(?P<call>", ")")),
    "json": f"(?P<fence>{_FENCE})",
    "fenced": f"(?P<fence>{_FENCE})",
}
# A reply without one of these holds no call.
_SIGNS: Final = {"hermes": "<tool_call>", "qwen": "<tool_call>", "xml": "<", "fenced": "```"}


class Call(NamedTuple):
    """One call as it was written: the tool's name, and its arguments, not yet checked."""

    name: str
    arguments: Mapping[str, Any]


class NativeCall(NamedTuple):
    """A call as an endpoint gives it: its id, the tool's name, and its arguments, JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class ActionWithCalls(str):
    """An action that calls tools natively. Its text shows the calls, for readers; environments carry out ``calls``.

    Attributes:
        words: what the policy says beside the calls; no environment grades it.
        calls: in the order in which they are carried out.
    """

    words: str
    calls: tuple[NativeCall, ...]

    def __new__(cls, text: str, words: str, calls: Sequence[NativeCall]) -> ActionWithCalls:
        """The action of a text, words and calls."""
        action = super().__new__(cls, text)
        action.words, action.calls = words, tuple(calls)
        return action

    def __getnewargs__(self) -> tuple[str, str, tuple[NativeCall, ...]]:  # type: ignore[override]  # str's has the text
        return str(self), self.words, self.calls

    def to_dict(self) -> dict[str, Any]:
        """What a record holds beside the text, plain JSON; `action_of_record` reads it."""
        return {"words": self.words, "calls": [call._asdict() for call in self.calls]}


def action_of_record(text: str, record: Mapping[str, Any] | None) -> str:
    """The action of its text and what `ActionWithCalls.to_dict` made; the text where that is None.

    Raises:
        KeyError, TypeError, ValueError: the record is no such thing.
    """
    if record is None:
        return text
    calls = [NativeCall(*(_text(call[name]) for name in NativeCall._fields)) for call in record["calls"]]
    return ActionWithCalls(text, _text(record["words"]), calls)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a call's id, name and arguments are texts, got {type(value).__name__}")
    return value


class Reading(NamedTuple):
    """What a reply calls. ``problem`` says what is wrong with a call that cannot be read; then ``calls`` is empty.

    A reply without any call has neither. ``native`` has each call that came beside the text, or what is wrong with it;
    each of them is answered by itself.
    """

    calls: tuple[Call, ...] = ()
    problem: str = ""
    native: tuple[Call | str, ...] = ()


def read_calls(reply: str, style: str, tools: Mapping[str, Sequence[str]]) -> Reading:
    """The calls of a reply, in order. Never raises for what a model may write.

    Calls that stand beside the text (`ActionWithCalls`) are taken from there, and the text is not read.

    Args:
        tools: for each tool's name the names of its arguments; styles that need no names do not look at them.

    Raises:
        ValueError: an unknown style.
    """
    return split_calls(reply, style, tools)[1]


def split_calls(reply: str, style: str, tools: Mapping[str, Sequence[str]]) -> tuple[str, Reading]:
    """What stands before the first call of a reply, thoughts and all, and what `read_calls` reads.

    Without a call the first is the whole reply.

    Raises:
        ValueError: an unknown style.
    """
    if style not in STYLES:
        raise ValueError(f"style {style!r} is none of {', '.join(STYLES)}")
    if isinstance(reply, ActionWithCalls):
        return reply.words, _native(reply.calls)
    if len(reply) > MAX_REPLY:
        return reply, Reading(problem=f"a reply may have {MAX_REPLY:,} characters")
    if _SIGNS.get(style, "") not in reply:
        return reply, Reading()
    message = final_message(reply)
    scan = _Scan(message, style, tools)
    scan.run()
    if scan.problem:
        return reply, Reading(problem=scan.problem)
    before = len(reply) - len(message)
    return reply[: before + scan.starts[0]] if scan.calls else reply, Reading(tuple(scan.calls))


def _native(calls: Sequence[NativeCall]) -> Reading:
    """What calls beside a text are, each with its arguments read."""
    native: list[Call | str] = []
    for number, (_, name, arguments) in enumerate(calls):
        try:
            if number >= MAX_CALLS:
                raise Unreadable(f"a reply may hold {MAX_CALLS} calls")
            if len(arguments) > MAX_REPLY:
                raise Unreadable(f"the arguments of {name[:64]} may have {MAX_REPLY:,} characters")
            native.append(Call(name, parse_object(arguments, f"the text of the arguments of {name[:64]}")))
        except Unreadable as error:
            native.append(str(error))
    problems = [each for each in native if isinstance(each, str)]
    read = () if problems else tuple(each for each in native if isinstance(each, Call))
    return Reading(read, problems[0] if problems else "", tuple(native))


def write_call(call: Call, style: str, names: Sequence[str] = ()) -> str:
    """The call as a model of that style writes it. `read_calls` reads it back, texts to the character; in the styles
    ``qwen``, ``xml`` and ``fenced`` other values than texts come back as text, as JSON writes them.

    Args:
        names: of the tool's arguments, where the caller knows them: ``fenced`` writes a text alone only for the one
            argument of a tool.

    Raises:
        ValueError: an unknown style, a number that JSON does not have, or a name that the style cannot write.
    """
    name, arguments = call.name, dict(call.arguments)
    if style in ("hermes", "json", "llama"):
        written = _json({"name": name, "parameters" if style == "llama" else "arguments": arguments})
        return f"<tool_call>\n{written}\n</tool_call>" if style == "hermes" else written
    if style not in STYLES:
        raise ValueError(f"style {style!r} is none of {', '.join(STYLES)}")
    for each in (name, *arguments):
        if not can_name(each, style):
            raise ValueError(f"the style {style} cannot write the name {each!r:.80}: use the style hermes")
    if style == "qwen":
        fields = (
            f"<parameter={k}>\n{write_field(_plain(v), 'parameter')}\n</parameter>\n" for k, v in arguments.items()
        )
        return f"<tool_call>\n<function={name}>\n{''.join(fields)}</function>\n</tool_call>"
    if style == "xml":
        return f"<{name}>{''.join(f'<{k}>{write_field(_plain(v), k)}</{k}>' for k, v in arguments.items())}</{name}>"
    return _fenced(name, arguments, names)


def can_name(name: str, style: str) -> bool:
    """Whether calls of the style can have a tool, or an argument, of this name."""
    if style in ("hermes", "json", "llama"):
        return True
    return re.fullmatch("[^<>\n]+" if style == "xml" else NAME, name) is not None


def write_calls(calls: Sequence[Call], style: str, tools: Mapping[str, Sequence[str]]) -> str:
    """Several calls as one reply that makes them in order; as `write_call`."""
    written = [write_call(call, style, tools.get(call.name, ())) for call in calls]
    if style == "json" and len(written) > 1:
        return f"[{', '.join(written)}]"
    return (";\n" if style == "llama" else "\n").join(written)


def _fenced(name: str, arguments: Mapping[str, Any], names: Sequence[str]) -> str:
    if not arguments:
        return f"```{name}\n```"
    if len(arguments) > 1:
        return f"```{name}\n{_json(arguments)}\n```"
    ((argument, value),) = arguments.items()
    text = _plain(value)
    fence = longer_fence(text)
    # The name of the argument stands there too where the text may be taken for an object of arguments.
    named = len(names) > 1 or not isinstance(value, str) or text.lstrip().startswith("{")
    return f"{fence}{name}{f' {argument}' if named and len(names) != 1 else ''}\n{text}\n{fence}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"an argument holds a number that JSON cannot write: {error}") from None


def _call(value: Mapping[str, Any]) -> Call:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise Unreadable('a call needs a "name", the name of a tool')
    if "arguments" in value and "parameters" in value:
        raise Unreadable('a call has both "arguments" and "parameters"')
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):  # some models write the object as a string
        arguments = parse_object(arguments, "the value of arguments")
    if not isinstance(arguments, dict):
        raise Unreadable('"arguments" is not a JSON object')
    return Call(name, arguments)


@lru_cache(maxsize=64)
def _events(style: str, tools: tuple[str, ...]) -> re.Pattern[str]:
    """What begins a call, and what counts outside of calls."""
    opening = _OPENINGS.get(style)
    if opening is None:
        names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True))) or "(?!)"
        opening = f"<(?P<call>{names})>|</(?P<stray>{names})>"
    return re.compile(f"{_OUTSIDE}|{opening}")


class _Scan:
    """One pass over a reply.

    Attributes:
        calls, starts: the calls that count so far, and where each begins.
        problem: what is wrong with a call; nothing behind it is read but the end of a thought that it stood in.
    """

    def __init__(self, text: str, style: str, tools: Mapping[str, Sequence[str]]) -> None:
        self.text, self.style, self.tools = text, style, tools
        self.calls: list[Call] = []
        self.starts: list[int] = []
        self.problem = ""
        self._position = 0
        self._fence: str | None = None  # the backticks of an open fence that is no call
        self._whole: int | None = None  # where a JSON value that is the whole reply begins
        self._thought_ended = False
        self._forgotten = ""  # the problem of a call that was taken for a thought

    def run(self) -> None:
        """Read it all."""
        events = _events(self.style, tuple(self.tools))
        self._begin()
        while event := events.search(self.text, self._position):
            self._require_blank(event.start())
            self._position = event.end()
            if not self._outside(event):
                return
            if event.lastgroup in ("think", "thought", "forged") or self.problem:
                continue
            try:
                self._open(event)
            except Unreadable as error:
                self._refuse(error)
            if self.problem and self._thought_ended:
                return
        self._require_blank(len(self.text))
        if self._fence is not None and not self.problem:
            self.problem = f"the fence {self._fence or '```'} is not closed"

    def _refuse(self, error: Unreadable) -> None:
        self.problem, self.calls, self.starts, self._whole = str(error), [], [], None

    def _add(self, call: Call, start: int) -> None:
        if len(self.calls) == MAX_CALLS:
            raise Unreadable(f"a reply may hold {MAX_CALLS} calls")
        self.calls.append(call)
        self.starts.append(start)

    # outside of calls

    def _outside(self, event: re.Match[str]) -> bool:
        """Pass over what stands outside of calls; whether the reply goes on."""
        kind = event.lastgroup
        if kind == "control":
            return False
        if kind == "thought":
            self._begin()
        elif kind in ("think", "forged"):
            closing = None if kind == "think" else f"</{event[0][1:]}"
            for end in _SKIPPED_TO.finditer(self.text, self._position):
                if end.lastgroup == "control":
                    return False
                if end.lastgroup == "thought" or end[0] == closing:
                    self._position = end.end()
                    if end.lastgroup == "thought":
                        self._begin()
                    return True
            return False
        return True

    def _begin(self) -> None:
        """The reply begins, or a thought has ended: all before it counts for nothing."""
        self._thought_ended = self._position > 0
        self._forgotten, self.problem = self.problem, ""
        self.calls, self.starts, self._fence, self._whole = [], [], None, None
        if self.style in ("json", "llama"):
            try:
                self._begin_whole()
            except Unreadable as error:
                self._refuse(error)

    def _begin_whole(self) -> None:
        """Read the JSON values that the reply begins with, as far as it does."""
        start = _SPACE.match(self.text, self._position).end()  # type: ignore[union-attr]  # it matches anywhere
        if not self.text.startswith(("{", "["), start):
            return
        self._whole, self._position = start, start
        while True:
            try:
                value, end = raw_value(self.text, self._position)
            except Unreadable:
                self._require_no_call(start)
                return
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict) and "name" in each:
                    self._add(_call(each), self._position)
            self._position = end
            following = _SPACE.match(self.text, end).end()  # type: ignore[union-attr]
            if self.style != "llama" or not self.text.startswith(";", following):
                return
            following = _SPACE.match(self.text, following + 1).end()  # type: ignore[union-attr]
            if not self.text.startswith(("{", "["), following):
                return
            self._position = following

    def _require_blank(self, end: int) -> None:
        """What goes on behind a value with other words was not the whole reply."""
        if self._whole is not None and not self.problem:
            between = self.text[self._position : end].strip()
            if between and between != ";":
                try:
                    self._require_no_call(self._whole)
                except Unreadable as error:
                    self._refuse(error)

    def _require_no_call(self, start: int) -> None:
        self.calls, self.starts, self._whole = [], [], None
        if any(f'"{name}"' in self.text[start:] for name in self.tools):
            raise Unreadable("the reply begins like a call and is not JSON")

    # calls

    def _open(self, event: re.Match[str]) -> None:
        kind = event.lastgroup
        if kind == "fence":
            self._at_fence(event)
        elif kind == "stray":
            self._at_stray(event)
        elif self.style == "llama":
            self._begin_whole()
        else:
            reader: Callable[[re.Match[str]], Call] = {"hermes": self._hermes, "qwen": self._qwen}.get(
                self.style, self._xml
            )
            self._add(reader(event), event.start())

    def _at_stray(self, event: re.Match[str]) -> None:
        """An end of a call that nothing began: it stands in an argument that was read as if it ended before."""
        if self.calls and self.style in ("qwen", "xml") and event[0] != "</tool_call>":
            raise Unreadable(
                f"{event[0]} stands behind the end of a call: an argument that holds it is written <![CDATA[…]]>"
            )
        if not self.calls and self._forgotten:
            raise Unreadable(self._forgotten)

    def _hermes(self, event: re.Match[str]) -> Call:
        start = event.end()
        try:
            value, end = raw_value(self.text, start)
        except Unreadable as error:
            if "</tool_call>" not in self.text[start:]:
                raise Unreadable("<tool_call> without </tool_call>") from None
            raise Unreadable(f"what stands in <tool_call> is {error}") from None
        closing = _CALL_END.match(self.text, end)
        if closing is None:
            if "</tool_call>" not in self.text[end:]:
                raise Unreadable("<tool_call> without </tool_call>")
            raise Unreadable("what stands in <tool_call> is not JSON: something stands behind the object")
        self._position = closing.end()
        if not isinstance(value, dict):
            raise Unreadable("what stands in <tool_call> is not a JSON object")
        return _call(value)

    def _qwen(self, event: re.Match[str]) -> Call:
        opening = _FUNCTION.match(self.text, event.end())
        if opening is None:
            problem = "holds no <function=name>" if "</tool_call>" in self.text else "without </tool_call>"
            raise Unreadable(f"<tool_call> {problem}")
        arguments, position = read_fields(
            self.text,
            opening.end(),
            rf"<parameter=({NAME})>",
            "parameter",
            "</function>",
            r"</function>\s*</tool_call>",
        )
        end = _FUNCTION_END.match(self.text, position)
        if end is None:
            for closing in ("</function>", "</tool_call>"):
                if closing not in self.text[position:]:
                    raise Unreadable(f"<{'function=…' if 'f' in closing else 'tool_call'}> without {closing}")
            raise Unreadable("<function=…> holds something that is no <parameter=name>")
        self._position = end.end()
        return Call(opening[1], arguments)

    def _xml(self, event: re.Match[str]) -> Call:
        name, names, start = event["call"], self.tools[event["call"]], event.end()
        closing = f"</{name}>"
        child = f"<({'|'.join(map(re.escape, names))})>" if names else "(?!)"
        arguments, position = read_fields(self.text, start, child, None, closing, re.escape(closing))
        if not arguments and len(names) == 1:
            end = self.text.find(closing, start)
            if end < 0:
                raise Unreadable(f"<{name}> without {closing}")
            arguments = {names[0]: self.text[start:end].removeprefix("\n").removesuffix("\n")}
            self._position = end + len(closing)
            return Call(name, arguments)
        position = _SPACE.match(self.text, position).end()  # type: ignore[union-attr]
        if not self.text.startswith(closing, position):
            if closing not in self.text[position:]:
                raise Unreadable(f"<{name}> without {closing}")
            raise Unreadable(f"something stands beside the arguments {', '.join(names) or '(there are none)'}")
        self._position = position + len(closing)
        return Call(name, arguments)

    def _at_fence(self, event: re.Match[str]) -> None:
        ticks, tool = event["ticks"], event["tool"]
        if self._fence is not None:
            if not tool and len(ticks) >= len(self._fence):
                self._fence = None
            return
        if self.style == "json" and tool == "json":
            self._json_fence(event)
        elif self.style == "fenced" and tool in self.tools:
            closing = fence_closing(ticks).search(self.text, event.end())
            if closing is None:
                raise Unreadable(f"the fence {tool} is not closed")
            self._position = closing.end()
            inside = self.text[event.end() + 1 : max(event.end() + 1, closing.start() - 1)]
            is_empty = closing.start() <= event.end() + 1
            self._add(Call(tool, self._fence_arguments(tool, event["argument"], inside, is_empty)), event.start())
        else:
            self._fence = ticks

    def _fence_arguments(self, tool: str, argument: str | None, inside: str, is_empty: bool) -> Mapping[str, Any]:
        names = self.tools[tool]
        if is_empty:
            return {}
        if argument is not None or len(names) == 1:
            return {argument or names[0]: inside}
        return parse_object(inside, f"the fence {tool}") if inside.strip() else {}

    def _json_fence(self, event: re.Match[str]) -> None:
        """A JSON value that fills a fence; what is none, or names no tool, is no call."""
        closing = fence_closing(event["ticks"])
        if closing.search(self.text, event.end()) is None:
            raise Unreadable("the fence json is not closed")
        try:
            value, end = raw_value(self.text, event.end())
        except Unreadable:
            value, end = None, event.end()
        behind = closing.match(self.text, _SPACE.match(self.text, end).end()) if value is not None else None  # type: ignore[union-attr]
        if behind is None:
            self._fence = event["ticks"]
            end = closing.search(self.text, event.end()).start()  # type: ignore[union-attr]  # seen above
            if self.text[event.end() : end].lstrip().startswith(("{", "[")) and any(
                f'"{name}"' in self.text[event.end() : end] for name in self.tools
            ):
                raise Unreadable("the fence json begins like a call and is not JSON")
            return
        self._position = behind.end()
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and "name" in each:
                self._add(_call(each), event.start())
