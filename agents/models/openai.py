"""A policy behind an OpenAI-compatible chat endpoint: text in, text out, nothing to install.

It evaluates, and it makes demonstrations; without the sampled token ids and their log-probabilities there is nothing
to train on. A call that fails makes its episode invalid, which is another thing than a reward of 0.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.models.calls import NO_COMPLETION, AdaptiveLimit, Calls, FailuresInARow
from rlvr.agents.rendering import clean
from rlvr.envs.endpoint import Endpoint, EndpointError, call
from rlvr.envs.rewards.extraction import spoken_text
from rlvr.envs.tools.call_arguments import Unreadable, parse_object
from rlvr.envs.tools.calls import (
    STYLES,
    ActionWithCalls,
    Call,
    NativeCall,
    Reading,
    read_calls,
    split_calls,
    write_calls,
)
from rlvr.envs.tools.tool import argument_names, shown, shown_tools

PATH = "/chat/completions"
LIMITS = ("max_tokens", "max_completion_tokens")  # fields of a request that limit a reply
OPENING, CLOSING = "<think>", "</think>"
THINK, THOUGHT = f"{OPENING}\n", f"\n{CLOSING}\n\n"


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
        return cost_of(asdict(self), price)

    def __str__(self) -> str:
        again = f", {self.requests - self.calls} of them again" if self.requests > self.calls else ""
        failed = f", {self.failed} calls failed" if self.failed else ""
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        return f"{self.calls} calls in {self.requests} requests{again}{failed}; {tokens}"


class OpenAIAgent:
    """Asks a chat endpoint for each reply.

    An endpoint's own calls come to the environment beside the text, as they were made, and are never read from it
    (`rlvr.envs.tools.calls.ActionWithCalls`); the text shows them to readers, in the environment's style.

    Thoughts that come apart from the reply (``reasoning_content``, ``reasoning``) are left out, or put before it in
    ``<think>``; they are never sent back. Where the environment leaves its tools to the chat template
    (``tools_in="template"``, which ``native_tools`` of `Rollout` sets), their schemas are sent as ``tools``, calls are
    sent again as they came, and the output of each under its id; elsewhere a tool's output is a user message, as
    endpoints take tool messages only in answer to calls.

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
        price: what a million prompt tokens and a million completion tokens cost, for the ``cost`` of replies whose
            endpoint does not name one.

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
        price: tuple[float, float] | None = None,
    ) -> None:
        if tool_style not in STYLES:
            raise ValueError(f"tool_style {tool_style!r} is none of {', '.join(STYLES)}")
        self.endpoint = endpoint
        self.seed = seed
        self.tool_style = tool_style
        self.keep_reasoning = keep_reasoning
        self.request = dict(request or {})
        self.tool_messages = tool_messages
        self.price = price
        self.usage = Usage()
        self._thoughts = UnparsedThoughts()
        self._calls = Calls(concurrency)
        self._limit = AdaptiveLimit(concurrency, self._calls.yield_slot)
        fields = {"temperature", "max_tokens", "tools", "seed", *self.request} - {"messages", "model"}
        self._failures = FailuresInARow(concurrency, endpoint.model, fields)
        self._counting = threading.Lock()

    @property
    def given_up(self) -> str:
        """Why no further call is worth making, as far as the calls so far tell; empty as long as one is."""
        return self._failures.given_up

    @property
    def description(self) -> dict[str, Any]:
        """Who plays, as `Episode.agent` has it; the revision is what each answer names."""
        limits = {"temperature": self.endpoint.temperature, "max_tokens": self.endpoint.max_tokens}
        sampling = limits | ({} if self.seed is None else {"seed": self.seed}) | self.request
        return {"model": self.endpoint.model, "endpoint": self.endpoint.address(), "sampling": sampling}

    def answered_before(self) -> None:
        """Take it as known that the endpoint has answered such calls, as an earlier run's record shows."""
        self._failures.answered()

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order. A call that failed is a reply whose stop is "error".

        A conversation that is too long for the model, as far as the endpoint says so, gets the stop "context".

        Raises:
            ValueError: a conversation has no new message.
        """
        return self._calls.map(partial(self._reply, reason_before=self.given_up), conversations)

    def submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        """`act` without waiting: a future reply to each conversation, so that each episode continues by itself."""
        return self._calls.start(partial(self._reply, reason_before=self.given_up), conversations)

    async def act_async(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """`act` for an event loop. The limit of calls holds over all that are waited for at once."""
        return await asyncio.gather(*map(asyncio.wrap_future, self.submit(conversations)))

    def body(self, conversation: Conversation) -> dict[str, Any]:
        """What is sent for the next reply of a conversation."""
        tools = json.loads(conversation.tools) if conversation.tools else []
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": _messages(conversation, tools, self.tool_style, self.tool_messages),
            "temperature": self.endpoint.temperature,
            "max_tokens": self.endpoint.max_tokens,
        }
        if tools:
            body["tools"] = shown_tools(tools)
        if self.seed is not None:
            body["seed"] = _seed(self.seed, conversation)
        return {name: value for name, value in (body | self.request).items() if value is not None}

    def _reply(self, conversation: Conversation, reason_before: str) -> Reply:
        """An endpoint that was given up meanwhile, for another reason than ``reason_before``, is not called."""
        if (reason := self.given_up) not in ("", reason_before):
            return Reply("", "error", error=reason)
        if not conversation.messages or conversation.messages[-1]["role"] == "assistant":
            raise ValueError(f"conversation {conversation.key!r} has no new message that asks for a reply")
        began = time.perf_counter()
        try:
            answer = call(self.endpoint, PATH, self.body(conversation), self._limit, needs="choices")
            reply = self._read(answer, argument_names(json.loads(conversation.tools or "[]")))
        except EndpointError as error:
            if _too_long(error):
                self._failures.answered()
                return Reply("", "context")
            self._failures.failed(error)
            self._count({}, failed=1)
            return Reply("", "error", error=str(error))
        self._failures.answered()
        self._count(answer.get("usage"))
        usage = usage_of(answer.get("usage"), self.price) | {"model_seconds": time.perf_counter() - began}
        return replace(reply, usage=usage, model=_version(answer, self.endpoint.model))

    def _read(self, answer: Mapping[str, Any], names: Mapping[str, Sequence[str]] | None = None) -> Reply:
        """The reply in a chat completion, to a conversation whose tools have arguments of these names.

        Raises:
            EndpointError: there is none.
        """
        try:
            choice = answer["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            content, refusal = _text(message.get("content")), _text(message.get("refusal"))
            text = content or refusal
            thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
            calls = _native_calls(message.get("tool_calls") or [])
        except (KeyError, IndexError, TypeError, AttributeError):
            what = f"{self.endpoint.address(PATH)} sent a reply that is no chat completion"
            raise EndpointError(what, code=NO_COMPLETION, lasting=True) from None
        is_readable = all(map(_has_arguments, calls))
        flaw = _flaw(finish, content, refusal, thought, is_readable) if not (calls and is_readable) else ""
        if not (text or thought or calls) and finish not in ("stop", "length", "content_filter"):
            raise EndpointError(f"{self.endpoint.address(PATH)} sent a reply without text (finish_reason {finish!r})")
        text = words = clean(text)
        if calls:
            text = _with_calls(text, [*map(_shown_call, calls)], self.tool_style, names or {})
        elif not thought:
            text = self._thoughts.marked(text, finish == "length")
        if self.keep_reasoning and thought:
            text = _with_thought(clean(thought), text, bool(text) or finish != "length")
        if calls:
            text = ActionWithCalls(text, words, calls)
        tokens = _number(answer, "completion_tokens")
        if finish == "length":
            return Reply(text, "length", tokens, limit=self._token_limit())
        return Reply(text, "stop", tokens, flaw=flaw)

    def _token_limit(self) -> str:
        """The limit of a reply's tokens as it is sent, ``max_tokens 512``."""
        sent = {"max_tokens": self.endpoint.max_tokens} | self.request
        limits = [f"{name} {value}" for name, value in sent.items() if value is not None and name in LIMITS]
        return " and ".join(limits) or "the server's token limit"

    def _count(self, usage: Any, failed: int = 0) -> None:
        with self._counting:
            self.usage.calls += 1
            self.usage.requests = self._limit.tries
            self.usage.failed += failed
            self.usage.prompt_tokens += _number({"usage": usage}, "prompt_tokens")
            self.usage.completion_tokens += _number({"usage": usage}, "completion_tokens")


def usage_of(usage: Any, price: tuple[float, float] | None = None) -> dict[str, float]:
    """What a completion took, by the names of `Episode.usage`; what the endpoint does not say is left out.

    Args:
        usage: as chat completions have it; a ``cost`` in it goes before the price.
        price: of a million prompt tokens and a million completion tokens.
    """
    if not isinstance(usage, dict):
        return {}
    counts: dict[str, Any] = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens", "cost")}
    for part, name in (("prompt_tokens_details", "cached_tokens"), ("completion_tokens_details", "reasoning_tokens")):
        details = usage.get(part)
        counts[name] = details.get(name) if isinstance(details, dict) else None
    known: dict[str, float] = {}
    for name, n in counts.items():
        if isinstance(n, int | float) and not isinstance(n, bool) and 0 <= n < math.inf:
            known[name] = n
    if price is not None and "cost" not in known and {"prompt_tokens", "completion_tokens"} <= known.keys():
        known["cost"] = cost_of(known, price)
    return known


def cost_of(usage: Mapping[str, float], price: tuple[float, float]) -> float:
    """What tokens cost, where a million prompt tokens and a million completion tokens cost so much."""
    return (usage["prompt_tokens"] * price[0] + usage["completion_tokens"] * price[1]) / 1e6


def _version(answer: Mapping[str, Any], asked: str) -> str:
    """The version of the model that answered, as far as it says more than the name that was asked for."""
    names = (answer.get("model"), answer.get("system_fingerprint"))
    return " ".join(name for name in names if isinstance(name, str) and name and name != asked)[:200]


class UnparsedThoughts:
    """Tells thoughts from replies where a server gives both as one text, without the tag that its prompt opened.

    Such a server shows itself by replies that close a thought and open none. As long as half of the replies that were
    not cut do so, one that closes none is a thought that did not end.
    """

    def __init__(self) -> None:
        self._closed = self._without = 0

    def marked(self, text: str, is_cut: bool) -> str:
        """The reply, with the tag that opens its thought where the server left it out."""
        end = text.find(CLOSING)
        if end >= 0:
            self._closed += text.find(OPENING, 0, end) < 0
            return text
        if OPENING in text:
            return text
        self._without += not is_cut
        return THINK + text if 0 < self._closed >= self._without else text


def _flaw(finish: Any, content: str, refusal: str, thought: str, is_readable: bool) -> str:
    """What came in the place of a reply, one of `FLAWS`; "" for a reply."""
    if finish == "content_filter":
        return "filtered"
    if not is_readable:
        return "bad_call"
    if content:
        return ""
    if refusal:
        return "refused"
    return "thought_only" if thought else "empty"


def _native_calls(calls: Sequence[Mapping[str, Any]]) -> list[NativeCall]:
    """The calls of a message, each with an id that no other has; arguments that are no text are written as JSON."""
    native: list[NativeCall] = []
    for number, each in enumerate(calls):
        function, call_id = each["function"], each.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in {before.id for before in native}:
            call_id = f"call_{number}_{secrets.token_hex(8)}"
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        native.append(NativeCall(call_id, str(function["name"]), written if written.strip() else "{}"))
    return native


def _has_arguments(call: NativeCall) -> bool:
    """Whether the arguments of a call are an object."""
    try:
        parse_object(call.arguments, "arguments")
    except Unreadable:
        return False
    return True


def _shown_call(call: NativeCall) -> Call:
    """A call as readers of the text see it; arguments that are no object stand there as they came."""
    try:
        return Call(call.name, parse_object(call.arguments, "arguments"))
    except Unreadable:
        return Call(call.name, {"arguments": call.arguments})


def _with_calls(text: str, calls: Sequence[Call], style: str, names: Mapping[str, Sequence[str]]) -> str:
    """A text that shows these calls, and makes them, argument for argument, where it goes alone: to a server, say.

    Words before the calls stay where they leave them as they are.
    """
    try:
        written = write_calls(calls, style, names)
    except ValueError:  # what the style cannot write, the environment refuses with words
        written = write_calls(
            [Call(name, {key: str(value) for key, value in a.items()}) for name, a in calls], "hermes", {}
        )
    whole = f"{text}\n{written}" if text else written
    return whole if read_calls(whole, style, names).calls == tuple(calls) else written


def _with_thought(thought: str, text: str, has_ended: bool) -> str:
    """A thought before the text; in one that would end it, or the reply, what does so is broken by a blank."""
    if not has_ended:
        return THINK + thought
    whole = f"{THINK}{thought}{THOUGHT}{text}"
    if spoken_text(whole).strip() == spoken_text(text).strip():
        return whole
    return f"{THINK}{shown(thought, len(thought))}{THOUGHT}{text}"


def _messages(
    conversation: Conversation, tools: Sequence[Any], style: str, tool_messages: bool
) -> list[dict[str, Any]]:
    """The messages as an endpoint takes them: calls and their outputs in its own form where it made them, or knows the
    tools."""
    names, messages = argument_names(tools), conversation.messages
    sent: list[dict[str, Any]] = []
    open_calls: list[str] = []  # ids of the calls that the next message answers
    for index, message in enumerate(messages):
        role, content, images = message["role"], clean(message["content"]), message.get("images", [])
        if role == "assistant":
            text = content if index < conversation.opening else _without_thought(content)
            before, calls = text, list[NativeCall]()
            if index + 1 < len(messages) and messages[index + 1]["role"] == "tool":
                before, calls = _calls_in(message["content"], text, index, names, style)
            open_calls = [call.id for call in calls]
            sent.append({"role": role, "content": text} if not calls else _calling(before, calls))
        elif role == "tool" and open_calls:
            outputs = message.get("outputs") or [content]
            if len(outputs) < len(open_calls):  # one text answers all calls of a turn, and each call wants an answer
                outputs = [content, *["(see the first result)"] * (len(open_calls) - 1)]
            answers = zip(open_calls, outputs, strict=False)
            sent += [{"role": "tool", "tool_call_id": call, "content": clean(output)} for call, output in answers]
            open_calls = []
            if images:  # endpoints take text alone in a tool message
                sent.append({"role": "user", "content": _parts("", images)})
        else:
            as_user = role == "tool" and not tool_messages
            sent.append({"role": "user" if as_user else role, "content": _parts(content, images)})
    return sent


def _calling(words: str, calls: Sequence[NativeCall]) -> dict[str, Any]:
    """An assistant's message that makes calls. Arguments that are no object go back as a text inside of one: many
    endpoints refuse a history that holds them."""
    functions = [
        {
            "name": each.name,
            "arguments": each.arguments if _has_arguments(each) else json.dumps(_shown_call(each).arguments),
        }
        for each in calls
    ]
    ids = [call.id for call in calls]
    made = [{"id": i, "type": "function", "function": each} for i, each in zip(ids, functions, strict=True)]
    return {"role": "assistant", "content": words or None, "tool_calls": made}


def _parts(text: str, images: Sequence[str]) -> str | list[dict[str, Any]]:
    """A content: a text alone, or the parts that a text and images (data URLs) are sent as."""
    if not images:
        return text
    first = [{"type": "text", "text": text}] if text else []
    return [*first, *({"type": "image_url", "image_url": {"url": url}} for url in images)]


def _calls_in(
    action: str, text: str, index: int, names: Mapping[str, Sequence[str]], style: str
) -> tuple[str, list[NativeCall]]:
    """What stands before the calls of a reply, and the calls: those beside its text, else those written in it, unless
    anything stands behind them.

    Args:
        action: the reply; ``text`` is what of it is sent, message ``index`` of the conversation.
    """
    if isinstance(action, ActionWithCalls):
        return clean(action.words), list(action.calls)
    before, reading = split_calls(text, style, names) if names else (text, Reading())
    if not reading.calls or text[len(before) :].strip() != write_calls(reading.calls, style, names).strip():
        return text, []
    return before.rstrip("\n"), [
        NativeCall(f"call{index:03d}{number:02d}", name, json.dumps(dict(arguments)))
        for number, (name, arguments) in enumerate(reading.calls)
    ]


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
