"""Anthropic's Messages: ``POST /v1/messages`` and ``POST /v1/messages/count_tokens``."""

from __future__ import annotations

import json
import secrets
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
from rlvr.envs.tools.tool import shown_tools

# Tools that Anthropic runs itself: no policy here can call them, and no program waits for their calls.
HOSTED_TOOLS = ("web_search_", "web_fetch_", "code_execution_", "tool_search_")
REFUSED = {"mcp_servers": "this endpoint runs no tools", "container": "this endpoint runs no tools"}
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    504: "timeout_error",
}


def read(body: Mapping[str, Any], sent: SentCalls) -> ModelRequest:
    """The messages and tools of a request; results of tools are messages of the role ``tool``.

    A tool that is deferred is shown where a result refers to it, and not before.
    """
    check_flags(body, REFUSED)
    offered = list_of_objects(body.get("tools"), "tools")
    tools = [(tool, _tool(tool)) for tool in offered if not is_hosted(tool, HOSTED_TOOLS)]
    schemas = {schema["function"]["name"]: schema for _, schema in tools}
    system = text_of(body.get("system"), "system", ("text",))
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    turns = list_of_objects(body.get("messages"), "messages")
    require(bool(turns), "messages must be a list that is not empty")
    for turn in turns:
        messages += _messages(turn, sent, schemas)
    choice = body.get("tool_choice")
    calls_none = isinstance(choice, dict) and choice.get("type") == "none"
    shown = [schema for tool, schema in tools if tool.get("defer_loading") is not True]
    return ModelRequest(messages, [] if calls_none else shown)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    kind = tool.get("type")
    require(kind in (None, "custom"), f"a tool of type {kind!r:.40} has no schema here: name it with an input_schema")
    schema = tool.get("input_schema")
    require(isinstance(schema, dict), f"the tool {tool.get('name')!r:.60} must have an input_schema, an object")
    return function_tool(tool.get("name"), tool.get("description"), schema)


def _messages(turn: Mapping[str, Any], sent: SentCalls, schemas: Mapping[str, Any]) -> list[Message]:
    """A turn as messages: one of the assistant's; of the user's texts and results, in their order."""
    role, content = turn.get("role"), turn.get("content")
    if role == "assistant":
        return [{"role": "assistant", "content": _assistant_text(content, sent)}]
    if role == "system":
        return [{"role": "system", "content": text_of(content, "content", ("text",))}]
    if role != "user":
        raise HttpError(400, f"the role of a message must be user, assistant or system, got {role!r:.60}")
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    require(content is not None, "the content of a message must be a text or a list of blocks")
    messages: list[Message] = []
    texts: list[dict[str, Any]] = []
    for block in list_of_objects(content, "content"):
        if block.get("type") != "tool_result":
            texts.append(block)
            continue
        messages += _words(texts)
        texts = []
        messages.append({"role": "tool", "content": text_of(_result(block, schemas), "tool_result", ("text",))})
    return [*messages, *(_words(texts) if texts or messages else [{"role": "user", "content": ""}])]


def _result(block: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A result's content, in which a tool that is referred to is its schema."""
    content = block.get("content")
    if not isinstance(content, list):
        return content
    parts = []
    for part in list_of_objects(content, "tool_result"):
        if part.get("type") == "tool_reference":
            name = part.get("tool_name")
            if not isinstance(name, str) or name not in schemas:
                raise HttpError(400, f"a tool_reference names {name!r:.60}, which is no tool")
            part = {"type": "text", "text": json.dumps(shown_tools([schemas[name]])[0])}
        parts.append(part)
    return parts


def _words(texts: list[dict[str, Any]]) -> list[Message]:
    return [{"role": "user", "content": text_of(texts, "content", ("text",))}] if texts else []


def _assistant_text(content: Any, sent: SentCalls) -> str:
    """What the assistant said: texts and calls; its thoughts are no part of the conversation."""
    if isinstance(content, str):
        return content
    texts, calls = [], []
    for block in list_of_objects(content, "content"):
        if block.get("type") == "tool_use":
            calls.append(read_call(block.get("name"), block.get("input"), block.get("id"), sent))
        elif block.get("type") not in ("thinking", "redacted_thinking"):
            texts.append(block)
    return with_calls(text_of(texts, "content", ("text",)), calls)


def write(body: Mapping[str, Any], reply: ModelReply, model: str) -> dict[str, Any]:
    """The reply as a message; its thought is a block where the request asks for thinking."""
    thinking = body.get("thinking")
    shows_thought = isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
    content: list[dict[str, Any]] = []
    if reply.thought and shows_thought:
        content.append({"type": "thinking", "thinking": reply.thought, "signature": ""})
    if reply.text or not reply.calls:
        content.append({"type": "text", "text": reply.text})
    content += [_tool_use(call) for call in reply.calls]
    head = {"id": f"msg_{secrets.token_hex(12)}", "type": "message", "role": "assistant", "model": model}
    ending = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": reply.usage.prompt, "output_tokens": reply.usage.completion}
    cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {**head, "content": content, **ending, "usage": usage | cache}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.arguments}


def stream(body: Mapping[str, Any], answer: dict[str, Any]) -> Iterator[ServerEvent]:
    """The message as events, each block in one delta."""
    ending = {key: answer[key] for key in ("stop_reason", "stop_sequence")}
    unfinished = answer | {"content": [], "stop_reason": None, "usage": answer["usage"] | {"output_tokens": 0}}
    yield _event("message_start", message=unfinished)
    for index, block in enumerate(answer["content"]):
        empty, deltas = _parts(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta=ending, usage={"output_tokens": answer["usage"]["output_tokens"]})
    yield _event("message_stop")


def _parts(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "tool_use":
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    if block["type"] == "thinking":
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return block | {"thinking": ""}, [{"type": "thinking_delta", "thinking": block["thinking"]}, signed]
    return block | {"text": ""}, [{"type": "text_delta", "text": block["text"]}]


def _event(kind: str, **fields: Any) -> ServerEvent:
    return ServerEvent(json.dumps({"type": kind, **fields}), kind)


def write_error(error: HttpError) -> dict[str, Any]:
    """An error's body."""
    kind = ERROR_TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


ANTHROPIC_MESSAGES = Dialect(read, write, stream, write_error)
