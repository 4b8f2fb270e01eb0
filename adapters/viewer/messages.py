"""Chat messages of the forms that tools write, as the viewer shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.adapters.viewer.traces import (
    ChatMessage,
    image_of,
    list_of,
    mappings_of,
    split_calls,
    split_thinking,
    text_of,
)


def messages_of(values: Sequence[Any]) -> list[ChatMessage]:
    """Chat messages in OpenAI's form, ShareGPT's (``from``, ``value``) or Inspect's."""
    return [message_of(value) for value in values if isinstance(value, dict)]


def message_of(value: Mapping[str, Any]) -> ChatMessage:
    """One such message; thinking and calls that stand in its text are taken out of it."""
    role = text_of(value.get("role") or value.get("from")) or "user"
    role = {"human": "user", "gpt": "assistant", "function": "tool", "observation": "tool"}.get(role, role)
    content = value["value"] if "value" in value and "content" not in value else value.get("content")
    text, reasoning, images = _content(content)
    reasoning = reasoning or text_of(value.get("reasoning_content") or value.get("reasoning"))
    calls = [_call(call) for call in mappings_of(value.get("tool_calls"))]
    if role == "assistant":
        if not reasoning:
            reasoning, text = split_thinking(text)
        text, written = split_calls(text)
        calls += written
    images += [image for image in map(image_of, list_of(value.get("images"))) if image]
    example = role == "assistant" and value.get("weight") == 0
    message = ChatMessage(role, text, reasoning, images, calls, text_of(value.get("tool_call_id")), example=example)
    error = value.get("error")
    if role == "tool" and (error or any(value.get(name) is True for name in ("is_error", "isError"))):
        message.status = "error"
        message.reason = text_of(error.get("message") if isinstance(error, dict) else error or "").removeprefix("true")
    return message


def _content(content: Any) -> tuple[str, str, list[str]]:
    """The text, the thinking and the images of a message's content: a text, or a list of parts."""
    if not isinstance(content, list):
        return text_of(content), "", []
    texts, thoughts, images = [], [], []
    for part in content:
        if not isinstance(part, dict):
            texts.append(text_of(part))
        elif part.get("type") in ("reasoning", "thinking"):
            thoughts.append(text_of(part.get("reasoning") or part.get("thinking") or part.get("summary")))
        elif part.get("type") in ("image", "image_url"):
            image = part.get("image_url", part.get("image"))
            url = image_of(image.get("url") if isinstance(image, dict) else image)
            images += [url] * bool(url)
            texts += [] if url else ["(an image that is not in the file)"]
        else:
            texts.append(text_of(part.get("text", part.get("content"))))
    return "\n".join(texts), "\n".join(thoughts), images


def _call(call: Mapping[str, Any]) -> dict[str, str]:
    function = call.get("function")
    details = function if isinstance(function, dict) else call
    name = text_of(function) if isinstance(function, str) else text_of(details.get("name"))
    return {"id": text_of(call.get("id")), "name": name, "arguments": text_of(details.get("arguments"))}
