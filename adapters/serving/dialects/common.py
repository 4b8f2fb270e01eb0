"""What the dialects have in common: a request and a reply in no dialect's form, and checks of fields."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rlvr.adapters.serving.loopback import HttpError, ServerEvent
from rlvr.agents import Message
from rlvr.agents.chat_template import CLOSING, OPENING
from rlvr.envs.tools.calls import Call, Reading, split_calls, write_call


class ModelRequest(NamedTuple):
    """What a program asks: messages whose contents are text, and tools as Chat Completions writes them."""

    messages: list[Message]
    tools: list[dict[str, Any]]


class TokenUsage(NamedTuple):
    """Tokens of a request and of its reply; ``thought`` counts those of the reply's thought, without its tags."""

    prompt: int = 0
    completion: int = 0
    thought: int = 0


class ToolCall(NamedTuple):
    """A call of a reply: an id without a prefix, the tool's name, the arguments."""

    id: str
    name: str
    arguments: dict[str, Any]


class ModelReply(NamedTuple):
    """A policy's reply: its thought, its words, its calls, and its tokens, all 0 where nobody counts them."""

    thought: str
    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = TokenUsage()

    def message(self) -> Message:
        """The reply as a program's history tells it: without the thought."""
        return {"role": "assistant", "content": with_calls(self.text, self.calls)}


SentCalls = Mapping[str, ToolCall]  # by their ids, the calls that a program was sent


class Dialect(NamedTuple):
    """One dialect.

    Attributes:
        read: from a request's body, and the calls that its program was sent, to what it asks; raises `HttpError` (400)
            for a wrong field.
        write: from a request's body, the reply and the model's name to the answer's body.
        stream: from a request's body and the answer's body to the events that tell the same.
        write_error: an error as the dialect has it.
    """

    read: Callable[[Mapping[str, Any], SentCalls], ModelRequest]
    write: Callable[[Mapping[str, Any], ModelReply, str], dict[str, Any]]
    stream: Callable[[Mapping[str, Any], dict[str, Any]], Iterator[ServerEvent]]
    write_error: Callable[[HttpError], dict[str, Any]] = HttpError.body


def read_action(action: str, tools: bool) -> ModelReply:
    """An action's thought, words and calls (``<tool_call>{…}</tool_call>``, looked for where ``tools`` came along)."""
    thought, text = _thought_of(action)
    before, reading = split_calls(text, "hermes", {}) if tools else (text, Reading())
    if not reading.calls:
        return ModelReply(thought, text)
    calls = (ToolCall(secrets.token_hex(12), call.name, dict(call.arguments)) for call in reading.calls)
    return ModelReply(thought, before.strip(), tuple(calls))


def _thought_of(action: str) -> tuple[str, str]:
    """The thought that an action begins with, and the words behind it; one that does not end leaves none."""
    if not action.lstrip().startswith(OPENING):
        return "", action
    thought, _, text = action.lstrip().removeprefix(OPENING).partition(CLOSING)
    return thought.strip("\n"), text.removeprefix("\n").removeprefix("\n")


def with_calls(text: str, calls: tuple[ToolCall, ...] | list[ToolCall]) -> str:
    """Words, and calls behind them as a policy writes them."""
    written = [write_call(Call(call.name, call.arguments), "hermes") for call in calls]
    return "\n".join([*filter(None, [text]), *written])


# checks, each of which raises `HttpError` (400)


def require(condition: bool, sentence: str) -> None:
    """Refuse a request with a sentence unless the condition holds."""
    if not condition:
        raise HttpError(400, sentence)


def list_of_objects(value: Any, name: str) -> list[dict[str, Any]]:
    """A field that is a list of objects; none where it is null."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise HttpError(400, f"{name} must be a list of objects")
    return value


def text_of(content: Any, name: str, kinds: tuple[str, ...]) -> str:
    """A content's text: a string, null, or a list of parts of these kinds, one a line."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in list_of_objects(content, name):
        kind = part.get("type")
        require(kind in kinds, f"{name} has a part of type {kind!r:.40}: this policy reads {', '.join(kinds)} alone")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise HttpError(400, f"a part of {name} must have a text")
        texts.append(text)
    return "\n".join(texts)


def read_call(name: Any, arguments: Any, call_id: Any, sent: SentCalls) -> ToolCall:
    """A call of a request's history; arguments may be an object, or its JSON.

    Programs fill in defaults, sort keys and write 1 for 1.0. A call of a known id whose arguments say all that was sent
    is the call that was sent, in the policy's own words.
    """
    if not isinstance(name, str) or not name:
        raise HttpError(400, "a call must name its tool")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            raise HttpError(400, f"the arguments of the call of {name!r:.60} are not JSON") from None
    if not isinstance(arguments, dict):
        raise HttpError(400, f"the arguments of the call of {name!r:.60} must be an object")
    try:
        write_call(Call(name, arguments), "hermes")
        original = sent.get(call_id.rpartition("_")[2]) if isinstance(call_id, str) else None
        if original is not None and original.name == name and _says_all(arguments, original.arguments):
            return original
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the call of {name!r:.60} cannot be written: {error}") from None
    return ToolCall("", name, arguments)


def _says_all(value: Any, sent: Any) -> bool:
    """Whether a value holds what was sent; objects may have more keys."""
    if isinstance(sent, dict):
        return isinstance(value, dict) and all(key in value and _says_all(value[key], sent[key]) for key in sent)
    if isinstance(sent, list):
        return isinstance(value, list) and len(value) == len(sent) and all(map(_says_all, value, sent))
    return isinstance(value, bool) == isinstance(sent, bool) and bool(value == sent)


def check_flags(body: Mapping[str, Any], refused: Mapping[str, str]) -> None:
    """Whether ``stream`` is true or false, and no field is set that this endpoint refuses, each for its reason."""
    require(body.get("stream") in (None, True, False), "stream must be true or false")
    for name, reason in refused.items():
        require(not body.get(name), f"{name} cannot be used here: {reason}")


def is_hosted(tool: Mapping[str, Any], kinds: tuple[str, ...]) -> bool:
    """Whether a tool is of a kind that a provider runs itself: the kinds are beginnings of its type."""
    return isinstance(tool.get("type"), str) and tool["type"].startswith(kinds)


def function_tool(name: Any, description: Any, parameters: Any) -> dict[str, Any]:
    """A tool as Chat Completions writes it."""
    require(isinstance(name, str) and bool(name), "a tool must have a name")
    require(isinstance(description, str | None), f"the description of tool {name!r:.60} must be text")
    require(isinstance(parameters, dict | None), f"the parameters of tool {name!r:.60} must be a JSON schema")
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}
