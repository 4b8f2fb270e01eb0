"""What a gateway answered, read from whatever form it has: ids, log-probabilities, texts, counts.

OpenAI's chat completions, whole or streamed, with the fields that vLLM and `rlvr serve-model` add: ``prompt_token_ids``
of the answer, ``token_ids`` of a choice, and ``token_id:N`` as the name of a token. Anthropic's messages have no ids;
their texts, counts and stop reasons are read by the same names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOKEN_ID = "token_id:"
THOUGHTS = ("reasoning_content", "reasoning")  # fields of a message that hold a thought
FINISHES = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One sampled token as ``logprobs`` shows it.

    Attributes:
        token: as the gateway spells it.
        logprob: its log-probability; NaN where none is given.
        data: its bytes, where they are given.
        top: the most likely tokens with their log-probabilities.
    """

    token: str
    logprob: float
    data: bytes | None = None
    top: tuple[tuple[str, float], ...] = ()

    @property
    def id(self) -> int | None:
        """The token's id, where the gateway was asked to spell ids."""
        number = self.token.removeprefix(TOKEN_ID)
        return int(number) if number != self.token and number.isdecimal() else None


@dataclass(frozen=True, slots=True)
class GatewayChoice:
    """One completion.

    Attributes:
        text, thought: of the message.
        calls: name and arguments of each call, the arguments as they were written.
        ids: of the sampled tokens; None where the gateway gives none.
        scores: of the sampled tokens; None where the gateway gives none.
        mask: of the sampled tokens, where the gateway gives one.
        finish: why it ended, in OpenAI's words.
        message: what a client sends back.
    """

    index: int = 0
    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    ids: tuple[int, ...] | None = None
    scores: tuple[TokenScore, ...] | None = None
    mask: tuple[int, ...] | None = None
    finish: str | None = None
    message: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int | None:
        """How many tokens were sampled; None where neither ids nor scores are given."""
        counted = self.ids if self.ids is not None else self.scores
        return None if counted is None else len(counted)


@dataclass(frozen=True, slots=True)
class GatewayReply:
    """One answer.

    Attributes:
        prompt_ids: of the prompt; None where the gateway gives none.
        usage: tokens of the prompt, of the completions, and in all; None where a count is missing.
        error: what the gateway said where it refused; "" for an answer.
        deltas: the pieces of text of a stream; None for a whole answer.
        ended: whether a stream came to its end.
    """

    choices: tuple[GatewayChoice, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    usage: tuple[int | None, int | None, int | None] = (None, None, None)
    error: str = ""
    deltas: tuple[str, ...] | None = None
    ended: bool = True

    @property
    def prompt_count(self) -> int | None:
        """Tokens of the prompt, by its ids, else as the gateway counts them."""
        return len(self.prompt_ids) if self.prompt_ids is not None else self.usage[0]


def read_reply(body: Any) -> GatewayReply:
    """A whole answer.

    Raises:
        ValueError: it is no chat completion and no message.
    """
    try:
        if body.get("type") == "message":
            return _read_message(body)
        choices = tuple(_read_choice(choice, choice["message"]) for choice in body["choices"])
        prompt_ids = body.get("prompt_token_ids")
        if prompt_ids is None:
            prompt_ids = next((c["prompt_token_ids"] for c in body["choices"] if c.get("prompt_token_ids")), None)
        return GatewayReply(choices, _ids(prompt_ids), _usage(body.get("usage")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the answer is no chat completion: {type(error).__name__}: {error}") from None


def read_stream(lines: Iterable[bytes]) -> GatewayReply:
    """A streamed answer, put together from its server-sent events.

    Raises:
        ValueError: an event is no chunk of a chat completion or of a message.
    """
    chunks: list[dict[str, Any]] = []
    ended = False
    for line in lines:
        data = line.strip().removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or not data:
            continue
        if data == b"[DONE]":
            ended = True
            break
        try:
            chunk = json.loads(data)
        except ValueError as error:
            raise ValueError(f"an event of the stream is no JSON: {error}") from None
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise ValueError(f"an event of the stream is an error: {data[:300]!r}")
        chunks.append(chunk)
        ended = ended or chunk.get("type") == "message_stop"
    try:
        merge = _merge_events if chunks and "type" in chunks[0] else _merge_chunks
        body, deltas = merge(chunks)
        reply = read_reply(body)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the stream is no chat completion: {type(error).__name__}: {error}") from None
    return GatewayReply(reply.choices, reply.prompt_ids, reply.usage, "", tuple(deltas), ended)


def _merge_chunks(chunks: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The whole answer that the chunks of a chat completion are pieces of, and the pieces of text."""
    body: dict[str, Any] = {"choices": []}
    choices: dict[int, dict[str, Any]] = {}
    deltas: list[str] = []
    for chunk in chunks:
        for name in ("usage", "prompt_token_ids"):
            if chunk.get(name) is not None:
                body[name] = chunk[name]
        for piece in chunk.get("choices") or ():
            index = piece.get("index", 0)
            choice = choices.setdefault(index, {"index": index, "message": {"role": "assistant", "content": None}})
            _add_delta(choice["message"], piece.get("delta") or {}, deltas)
            for name in ("token_ids", "mask"):
                if piece.get(name) is not None:
                    choice[name] = [*choice.get(name, ()), *piece[name]]
            if content := (piece.get("logprobs") or {}).get("content"):
                choice.setdefault("logprobs", {"content": []})["content"] += content
            if piece.get("finish_reason") is not None:
                choice["finish_reason"] = piece["finish_reason"]
            if piece.get("prompt_token_ids") is not None:
                body.setdefault("prompt_token_ids", piece["prompt_token_ids"])
    body["choices"] = [choices[index] for index in sorted(choices)]
    return body, deltas


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any], deltas: list[str]) -> None:
    for name in ("content", *THOUGHTS):
        if isinstance(delta.get(name), str):
            message[name] = (message.get(name) or "") + delta[name]
            deltas.append(delta[name])
    for call in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        while len(calls) <= call.get("index", 0):
            calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
        target, function = calls[call.get("index", 0)], call.get("function") or {}
        if call.get("id"):
            target["id"] = call["id"]
        for name in ("name", "arguments"):
            target["function"][name] += function.get(name) or ""


def _merge_events(events: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The whole message that Anthropic's events are pieces of, and the pieces of text."""
    body: dict[str, Any] = {"type": "message", "content": [], "usage": {}}
    deltas: list[str] = []
    for event in events:
        match event["type"]:
            case "message_start":
                body["usage"] |= event["message"].get("usage") or {}
            case "content_block_start":
                body["content"].append(dict(event["content_block"]) | {"written": ""})
            case "content_block_delta":
                block, delta = body["content"][event["index"]], event["delta"]
                for name in ("text", "thinking"):
                    if name in delta:
                        block[name] = block.get(name, "") + delta[name]
                        deltas.append(delta[name])
                block["written"] += delta.get("partial_json", "")
            case "message_delta":
                body["usage"] |= event.get("usage") or {}
                body["stop_reason"] = event["delta"].get("stop_reason")
    return body, deltas


def _read_choice(choice: Mapping[str, Any], message: Mapping[str, Any]) -> GatewayChoice:
    thought = next((message[name] for name in THOUGHTS if isinstance(message.get(name), str)), "")
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    content = (choice.get("logprobs") or {}).get("content")
    scores = None if content is None else tuple(map(_read_score, content))
    ids = _ids(choice.get("token_ids"))
    if ids is None and scores and all(score.id is not None for score in scores):
        ids = tuple(score.id for score in scores if score.id is not None)
    sent_back = {name: message[name] for name in ("tool_calls", *THOUGHTS) if message.get(name)}
    return GatewayChoice(
        index=choice.get("index", 0),
        text=message.get("content") or "",
        thought=thought,
        calls=tuple((function["name"], _written(function.get("arguments"))) for function in functions),
        ids=ids,
        scores=scores,
        mask=None if choice.get("mask") is None else tuple(choice["mask"]),
        finish=choice.get("finish_reason"),
        message={"role": "assistant", "content": message.get("content"), **sent_back},
    )


def _read_message(body: Mapping[str, Any]) -> GatewayReply:
    """Anthropic's message, in the words of chat completions."""
    blocks = {kind: [b for b in body["content"] if b.get("type") == kind] for kind in ("text", "thinking", "tool_use")}
    calls = tuple((b["name"], b.get("written") or json.dumps(b.get("input") or {})) for b in blocks["tool_use"])
    choice = GatewayChoice(
        text="".join(block["text"] for block in blocks["text"]),
        thought="".join(block.get("thinking", "") for block in blocks["thinking"]),
        calls=calls,
        finish=FINISHES.get(body.get("stop_reason") or "", body.get("stop_reason")),
        message={"role": "assistant", "content": [_without_written(block) for block in body["content"]]},
    )
    usage = body.get("usage") or {}
    cached = (usage.get(name) or 0 for name in ("cache_creation_input_tokens", "cache_read_input_tokens"))
    prompt, completion = usage.get("input_tokens"), usage.get("output_tokens")
    return GatewayReply((choice,), None, (None if prompt is None else prompt + sum(cached), completion, None))


def _without_written(block: Mapping[str, Any]) -> dict[str, Any]:
    written = block.get("written")
    sent = {name: value for name, value in block.items() if name != "written"}
    return sent | ({"input": json.loads(written)} if written and block.get("type") == "tool_use" else {})


def _read_score(entry: Mapping[str, Any]) -> TokenScore:
    data = entry.get("bytes")
    top = tuple((each["token"], float(each["logprob"])) for each in entry.get("top_logprobs") or ())
    logprob = entry.get("logprob")
    number = float("nan") if logprob is None else float(logprob)
    return TokenScore(str(entry["token"]), number, None if data is None else bytes(data), top)


def _ids(values: Any) -> tuple[int, ...] | None:
    if values is None:
        return None
    if not all(type(value) is int for value in values):
        raise ValueError("a token id is no whole number")
    return tuple(values)


def _usage(usage: Any) -> tuple[int | None, int | None, int | None]:
    counts = usage or {}
    return counts.get("prompt_tokens"), counts.get("completion_tokens"), counts.get("total_tokens")


def _written(arguments: Any) -> str:
    """The arguments of a call as the gateway wrote them; Ollama and others send objects."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
