"""OpenAI's Responses: ``POST /v1/responses``."""

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
    ToolCall,
    check_flags,
    function_tool,
    is_hosted,
    list_of_objects,
    read_call,
    require,
    text_of,
    with_calls,
)
from rlvr.adapters.serving.loopback import HttpError, ServerEvent
from rlvr.agents import Message

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
PARTS = ("input_text", "output_text", "text", "refusal")
# Tools that OpenAI runs itself: no policy here can call them, and no program waits for their calls.
HOSTED_TOOLS = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")
NOT_KEPT = "this endpoint keeps no responses, so send the whole conversation as input"
REFUSED = {
    "previous_response_id": NOT_KEPT,
    "conversation": NOT_KEPT,
    "background": NOT_KEPT,
    "prompt": "this endpoint keeps no prompts, so send instructions",
}


def read(body: Mapping[str, Any], sent: SentCalls) -> ModelRequest:
    """The messages and tools of a request; calls join the assistant's message that they follow."""
    check_flags(body, REFUSED)
    instructions = body.get("instructions")
    require(isinstance(instructions, str | None), "instructions must be text")
    messages: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    asked = body.get("input")
    if isinstance(asked, str):
        messages.append({"role": "user", "content": asked})
    else:
        items = list_of_objects(asked, "input")
        require(bool(items), "input must be a text, or a list of items that is not empty")
        for item in items:
            _append(messages, item, sent)
    require(bool(messages), "input must have a message, a call or the output of one")
    tools = [_tool(tool) for tool in list_of_objects(body.get("tools"), "tools") if not is_hosted(tool, HOSTED_TOOLS)]
    return ModelRequest(messages, [] if body.get("tool_choice") == "none" else tools)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    require(kind == "function", f"a tool must be of type function, got {kind!r:.40}")
    return function_tool(tool.get("name"), tool.get("description"), tool.get("parameters"))


def _append(messages: list[Message], item: Mapping[str, Any], sent: SentCalls) -> None:
    """Put an item behind the messages; a thought is no part of the conversation."""
    kind = item.get("type", "message")
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise HttpError(400, f"the role of a message must be one of {', '.join(ROLES)}, got {role!r:.60}")
        messages.append({"role": ROLES[role], "content": text_of(item.get("content"), "content", PARTS)})
    elif kind == "function_call":
        call = [read_call(item.get("name"), item.get("arguments"), item.get("call_id"), sent)]
        text = messages.pop()["content"] if messages and messages[-1]["role"] == "assistant" else ""
        messages.append({"role": "assistant", "content": with_calls(text, call)})
    elif kind == "function_call_output":
        messages.append({"role": "tool", "content": text_of(item.get("output"), "output", PARTS)})
    else:
        allowed = "message, function_call, function_call_output and reasoning"
        require(kind == "reasoning", f"an item of type {kind!r:.40} cannot be read here: the types are {allowed}")


def write(body: Mapping[str, Any], reply: ModelReply, model: str) -> dict[str, Any]:
    """The reply as a response; its thought is an item of type ``reasoning``."""
    output: list[dict[str, Any]] = []
    if reply.thought:
        thought = {"type": "reasoning_text", "text": reply.thought}
        output.append({"id": _id("rs"), "type": "reasoning", "summary": [], "content": [thought]})
    if reply.text or not reply.calls:
        words = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        head = {"id": _id("msg"), "type": "message", "role": "assistant", "status": "completed"}
        output.append({**head, "content": [words]})
    output += [_function_call(call) for call in reply.calls]
    usage = {
        "input_tokens": reply.usage.prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.usage.completion,
        "output_tokens_details": {"reasoning_tokens": reply.usage.thought},
        "total_tokens": reply.usage.prompt + reply.usage.completion,
    }
    nulls = dict.fromkeys(("error", "incomplete_details", "previous_response_id", "temperature", "top_p"))
    return {
        "id": _id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": model,
        "instructions": body.get("instructions"),
        "tools": body.get("tools") or [],
        "tool_choice": body.get("tool_choice") or "auto",
        "parallel_tool_calls": True,
        **nulls,
        "output": output,
        "usage": usage,
    }


def _function_call(call: ToolCall) -> dict[str, Any]:
    head = {"id": f"fc_{call.id}", "type": "function_call", "status": "completed", "call_id": f"call_{call.id}"}
    return {**head, "name": call.name, "arguments": json.dumps(call.arguments)}


def _id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"


def stream(body: Mapping[str, Any], answer: dict[str, Any]) -> Iterator[ServerEvent]:
    """The response as numbered events, each text in one delta."""
    for number, (kind, fields) in enumerate(_events(answer)):
        name = f"response.{kind}"
        yield ServerEvent(json.dumps({"type": name, "sequence_number": number, **fields}), name)


def _events(answer: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    unfinished = answer | {"status": "in_progress", "output": [], "usage": None}
    yield "created", {"response": unfinished}
    yield "in_progress", {"response": unfinished}
    for index, item in enumerate(answer["output"]):
        position = {"output_index": index}
        empty: dict[str, Any] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
        unfinished = item | empty
        if "status" in item:
            unfinished["status"] = "in_progress"
        yield "output_item.added", {**position, "item": unfinished}
        inner = {"item_id": item["id"], **position}
        if item["type"] == "function_call":
            yield "function_call_arguments.delta", {**inner, "delta": item["arguments"]}
            yield "function_call_arguments.done", {**inner, "name": item["name"], "arguments": item["arguments"]}
        else:
            yield from _text_events(item["content"][0], {**inner, "content_index": 0})
        yield "output_item.done", {**position, "item": item}
    yield "completed", {"response": answer}


def _text_events(part: dict[str, Any], position: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    text, kind = part["text"], part["type"]
    scores: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
    yield "content_part.added", {**position, "part": part | {"text": ""}}
    yield f"{kind}.delta", {**position, "delta": text, **scores}
    yield f"{kind}.done", {**position, "text": text, **scores}
    yield "content_part.done", {**position, "part": part}


RESPONSES = Dialect(read, write, stream)
