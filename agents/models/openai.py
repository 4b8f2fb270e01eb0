"""A policy behind an OpenAI-compatible chat endpoint: text in, text out, nothing to install.

It evaluates, and it makes demonstrations; without the sampled token ids and their log-probabilities there is nothing
to train on. A call that fails makes its episode invalid, which is another thing than a reward of 0.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rlvr.agents.conversation import Conversation, Message, Reply
from rlvr.agents.models.calls import NO_COMPLETION, AdaptiveLimit, Calls, FailuresInARow
from rlvr.agents.rendering import clean
from rlvr.envs.endpoint import Endpoint, EndpointError, call
from rlvr.envs.tools.calls import STYLES, Call, read_calls, write_call

PATH = "/chat/completions"
THINK, THOUGHT = "<think>\n", "\n</think>\n\n"
# Styles in which a call is the whole reply.
WHOLE = ("json", "llama")


@dataclass(slots=True)
class Usage:
    """Calls of an endpoint so far, and the requests that they took. Tokens are as the endpoint counts them."""

    calls: int = 0
    failed: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def since(self, before: Usage) -> Usage:
        """What has come since an earlier state of it."""
        return Usage(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))

    def cost(self, price: tuple[float, float]) -> float:
        """What it costs, where a million prompt tokens and a million completion tokens cost so much."""
        return (self.prompt_tokens * price[0] + self.completion_tokens * price[1]) / 1e6

    def __str__(self) -> str:
        again = f", {self.requests - self.calls} of them again" if self.requests > self.calls else ""
        failed = f", {self.failed} calls failed" if self.failed else ""
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        return f"{self.calls} calls in {self.requests} requests{again}{failed}; {tokens}"


class OpenAIAgent:
    """Asks a chat endpoint for each reply.

    Thoughts that come apart from the reply (``reasoning_content``, ``reasoning``) are left out, or put before it in
    ``<think>``; they are never sent back. Where the environment leaves its tools to the chat template
    (``tools_in="template"``), their schemas are sent as ``tools``, calls come back as the text that the environment
    reads, and outputs are sent as tool messages; elsewhere a tool's output is a user message, as endpoints take tool
    messages only in answer to calls.

    Images beside observations are sent with them, as parts of the message (``image_url``, a PNG in a data URL), so a
    vision-language model behind the endpoint sees every one of the episode so far.

    Attributes:
        usage: calls and tokens so far.

    Args:
        endpoint: where, with ``temperature``, ``max_tokens`` (of a reply) and the total ``deadline`` of a call.
        seed: a seed for each call is made from it, the conversation's key and its length, and sent; None sends none.
        concurrency: at most so many requests are under way at once; fewer while the endpoint refuses many. A call that
            waits to be tried again (429) is not under way, and others go on meanwhile.
        tool_style: how the environment reads calls, one of ``rlvr.envs.tools.STYLES``.
        keep_reasoning: put thoughts before the reply, for environments that grade or count them.
        request: more fields of the request, or other values of them; None leaves a field out, as some endpoints ask:
            ``{"max_tokens": None, "max_completion_tokens": 1024}``.
        tool_messages: send every output of a tool as a tool message, as a policy sees it that is sampled here.
            `rlvr serve-model` and vLLM take them; others refuse one that answers no call of theirs.

    Raises:
        ValueError: a concurrency below 1, or an unknown style.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        seed: int | None = None,
        concurrency: int = 32,
        tool_style: str = "hermes",
        keep_reasoning: bool = False,
        request: Mapping[str, Any] | None = None,
        tool_messages: bool = False,
    ) -> None:
        if tool_style not in STYLES:
            raise ValueError(f"tool_style {tool_style!r} is none of {', '.join(STYLES)}")
        self.endpoint = endpoint
        self.seed = seed
        self.tool_style = tool_style
        self.keep_reasoning = keep_reasoning
        self.request = dict(request or {})
        self.tool_messages = tool_messages
        self.usage = Usage()
        self._calls = Calls(concurrency)
        self._limit = AdaptiveLimit(concurrency, self._calls.yield_slot)
        self._failures = FailuresInARow(concurrency, endpoint.model)
        self._counting = threading.Lock()

    @property
    def given_up(self) -> str:
        """Why no further call is worth making, as far as the calls so far tell; empty as long as one is."""
        return self._failures.given_up

    def answered_before(self) -> None:
        """Take it as known that the endpoint has answered such calls, as an earlier run's record shows."""
        self._failures.answered()

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order. A call that failed is a reply whose stop is "error".

        A conversation that is too long for the model, as far as the endpoint says so, gets the stop "context".

        Raises:
            ValueError: a conversation has no new message.
        """
        return self._calls.map(self._reply, conversations)

    def submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        """`act` without waiting: a future reply to each conversation, so that each episode continues by itself."""
        return self._calls.start(self._reply, conversations)

    async def act_async(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """`act` for an event loop. The limit of calls holds over all that are waited for at once."""
        return await asyncio.gather(*map(asyncio.wrap_future, self.submit(conversations)))

    def body(self, conversation: Conversation) -> dict[str, Any]:
        """What is sent for the next reply of a conversation."""
        tools = json.loads(conversation.tools) if conversation.tools else []
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": _messages(conversation.messages, tools, self.tool_style, self.tool_messages),
            "temperature": self.endpoint.temperature,
            "max_tokens": self.endpoint.max_tokens,
        }
        if tools:
            body["tools"] = tools
        if self.seed is not None:
            body["seed"] = _seed(self.seed, conversation)
        return {name: value for name, value in (body | self.request).items() if value is not None}

    def _reply(self, conversation: Conversation) -> Reply:
        if not conversation.messages or conversation.messages[-1]["role"] == "assistant":
            raise ValueError(f"conversation {conversation.key!r} has no new message that asks for a reply")
        try:
            answer = call(self.endpoint, PATH, self.body(conversation), self._limit, needs="choices")
            reply = self._read(answer)
        except EndpointError as error:
            if _too_long(error):
                self._failures.answered()
                return Reply("", "context")
            self._failures.failed(error)
            self._count({}, failed=1)
            return Reply("", "error", error=str(error))
        self._failures.answered()
        self._count(answer.get("usage"))
        return reply

    def _read(self, answer: Mapping[str, Any]) -> Reply:
        """The reply in a chat completion.

        Raises:
            EndpointError: there is none.
        """
        try:
            choice = answer["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            text = _text(message.get("content")) or _text(message.get("refusal"))
            thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
            calls = [self._write(made["function"]) for made in message.get("tool_calls") or []]
        except (KeyError, IndexError, TypeError, AttributeError):
            what = f"{self.endpoint.address(PATH)} sent a reply that is no chat completion"
            raise EndpointError(what, code=NO_COMPLETION, lasting=True) from None
        if finish == "content_filter":
            what = f"{self.endpoint.address(PATH)} held the reply back (content_filter)"
            raise EndpointError(what, code="content_filter")
        if not (text or thought or calls) and finish not in ("stop", "length"):
            raise EndpointError(f"{self.endpoint.address(PATH)} sent a reply without text (finish_reason {finish!r})")
        if calls:
            text = "\n".join(calls if not text or self.tool_style in WHOLE else [text, *calls])
        if self.keep_reasoning and thought:
            text = f"{THINK}{thought}{THOUGHT}{text}" if text or finish != "length" else THINK + thought
        return Reply(clean(text), "length" if finish == "length" else "stop", _number(answer, "completion_tokens"))

    def _write(self, function: Mapping[str, Any]) -> str:
        """A call as the text that the environment reads; arguments that are no object are left for it to refuse."""
        given = function.get("arguments") or {}
        try:
            arguments = json.loads(given, strict=False) if isinstance(given, str) else given
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            arguments = {"arguments": given}
        return write_call(Call(str(function["name"]), arguments), self.tool_style)

    def _count(self, usage: Any, failed: int = 0) -> None:
        with self._counting:
            self.usage.calls += 1
            self.usage.requests = self._limit.tries
            self.usage.failed += failed
            self.usage.prompt_tokens += _number({"usage": usage}, "prompt_tokens")
            self.usage.completion_tokens += _number({"usage": usage}, "completion_tokens")


def _messages(
    messages: Sequence[Message], tools: Sequence[Any], style: str, tool_messages: bool
) -> list[dict[str, Any]]:
    """The messages as an endpoint takes them: calls and their outputs in its own form where it knows the tools."""
    names = {
        tool["function"]["name"]: list(tool["function"].get("parameters", {}).get("properties", {})) for tool in tools
    }
    sent: list[dict[str, Any]] = []
    open_calls: list[str] = []  # ids of the calls that the next message answers
    for index, message in enumerate(messages):
        role, content, images = message["role"], clean(message["content"]), message.get("images", [])
        if role == "assistant":
            text = _without_thought(content)
            before, calls = _calls_in(text, names, style) if names else (text, [])
            answered = index + 1 < len(messages) and messages[index + 1]["role"] == "tool"
            open_calls = [f"call{index:03d}{number:02d}" for number in range(len(calls))] if answered else []
            if not open_calls:
                sent.append({"role": role, "content": text})
                continue
            functions = [{"name": name, "arguments": json.dumps(dict(arguments))} for name, arguments in calls]
            made = [
                {"id": call_id, "type": "function", "function": function}
                for call_id, function in zip(open_calls, functions, strict=True)
            ]
            sent.append({"role": role, "content": before or None, "tool_calls": made})
        elif role == "tool" and open_calls:
            # One text answers all calls of a turn, and each call wants an answer.
            first, *others = open_calls
            sent.append({"role": "tool", "tool_call_id": first, "content": content})
            sent += [{"role": "tool", "tool_call_id": other, "content": "(see the first result)"} for other in others]
            open_calls = []
            if images:  # endpoints take text alone in a tool message
                sent.append({"role": "user", "content": _parts("", images)})
        else:
            as_user = role == "tool" and not tool_messages
            sent.append({"role": "user" if as_user else role, "content": _parts(content, images)})
    return sent


def _parts(text: str, images: Sequence[str]) -> str | list[dict[str, Any]]:
    """A content: a text alone, or the parts that a text and images (data URLs) are sent as."""
    if not images:
        return text
    first = [{"type": "text", "text": text}] if text else []
    return [*first, *({"type": "image_url", "image_url": {"url": url}} for url in images)]


def _calls_in(text: str, names: Mapping[str, Sequence[str]], style: str) -> tuple[str, list[Call]]:
    """What stands before the calls of a reply, and the calls; none where they were not written as `_write` does."""
    calls = list(read_calls(text, style, names).calls)
    written = "\n".join(write_call(made, style) for made in calls)
    if not calls or not text.endswith(written):
        return text, []
    return text.removesuffix(written).rstrip("\n"), calls


def _without_thought(text: str) -> str:
    """A reply without the thought that was put before it."""
    return text.partition(THOUGHT)[2] if text.startswith(THINK) and THOUGHT in text else text


def _seed(seed: int, conversation: Conversation) -> int:
    """31 bits that belong to the agent's seed, the conversation and the turn."""
    named = f"{seed}\0{conversation.key}\0{len(conversation.messages)}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(named, digest_size=4).digest(), "little") >> 1


def _text(value: Any) -> str:
    """The text of a content: a string, or a list of parts."""
    if isinstance(value, list):
        return "".join(part["text"] for part in value if part.get("type") == "text")
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value or ""


def _number(answer: Mapping[str, Any], name: str) -> int:
    usage = answer.get("usage")
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def _too_long(error: EndpointError) -> bool:
    """Whether the endpoint refused a conversation because the model cannot hold it: in OpenAI's words, or vLLM's."""
    return error.status == 400 and (
        error.code == "context_length_exceeded" or "maximum context length" in str(error).lower()
    )
