"""OpenAI's Chat Completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rlvr.adapters.serving.dialects.common import (
    Dialect,
    ModelReply,
    ModelRequest,
    SentCalls,
    check_flags,
    function_tool,
    list_of_objects,
    read_call,
    require,
    text_of,
    with_calls,
)
from rlvr.adapters.serving.loopback import HttpError, ServerEvent
from rlvr.agents import Message

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
PARTS = ("text", "refusal")
REFUSED = {"functions": "name them in tools", "audio": "replies are text"}


def read(body: Mapping[str, Any], sent: SentCalls) -> ModelRequest:
    """The messages and tools of a request."""
    check_flags(body, REFUSED)
    messages = [_message(message, sent) for message in list_of_objects(body.get("messages"), "messages")]
    require(bool(messages), "messages must be a list that is not empty")
    require(body.get("n") in (None, 1), "n must be 1: an action is one reply")
    tools = [_tool(tool) for tool in list_of_objects(body.get("tools"), "tools")]
    return ModelRequest(messages, [] if body.get("tool_choice") == "none" else tools)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    require(tool.get("type", "function") == "function", "a tool must be of type function")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise HttpError(400, "a tool must have a function, which is an object")
    return function_tool(function.get("name"), function.get("description"), function.get("parameters"))


def _message(message: Mapping[str, Any], sent: SentCalls) -> Message:
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise HttpError(400, f"the role of a message must be one of {', '.join(ROLES)}, got {role!r:.60}")
    text = text_of(message.get("content") or message.get("refusal"), "content", PARTS)
    calls = []
    for call in list_of_objects(message.get("tool_calls"), "tool_calls"):
        function = call.get("function")
        if not isinstance(function, dict):
            raise HttpError(400, "a call in tool_calls must have a function, which is an object")
        calls.append(read_call(function.get("name"), function.get("arguments"), call.get("id"), sent))
    return {"role": ROLES[role], "content": with_calls(text, calls)}


def write(body: Mapping[str, Any], reply: ModelReply, model: str) -> dict[str, Any]:
    """The reply as a chat completion; its thought is ``reasoning_content``."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        functions = [(call.id, {"name": call.name, "arguments": json.dumps(call.arguments)}) for call in reply.calls]
        message["content"] = reply.text or None
        message["tool_calls"] = [{"id": f"call_{i}", "type": "function", "function": each} for i, each in functions]
    reason = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {
        "prompt_tokens": reply.usage.prompt,
        "completion_tokens": reply.usage.completion,
        "total_tokens": reply.usage.prompt + reply.usage.completion,
        "completion_tokens_details": {"reasoning_tokens": reply.usage.thought},
    }
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": "chat.completion", "created": int(time.time())}
    return {**head, "model": model, "choices": [choice], "usage": usage}


def stream(body: Mapping[str, Any], answer: dict[str, Any]) -> Iterator[ServerEvent]:
    """The completion in chunks; the last has the usage where ``stream_options`` asks for it."""
    head = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = answer["choices"]
    message = choice["message"]
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    for part, reason in ((delta, None), ({}, choice["finish_reason"])):
        yield ServerEvent(json.dumps({**head, "choices": [{"index": 0, "delta": part, "finish_reason": reason}]}))
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield ServerEvent(json.dumps({**head, "choices": [], "usage": answer["usage"]}))
    yield ServerEvent("[DONE]")


CHAT_COMPLETIONS = Dialect(read, write, stream)
