"""A recording as evidence: which requests go on from which, and whether a client sent back what it was given."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr.adapters.conformance.evidence import Decoder, Evidence, LawFinding, broken, holds, unknown, where
from rlvr.adapters.conformance.laws import LAWS, TokenLaw
from rlvr.adapters.conformance.probes import GatewayExchange
from rlvr.adapters.conformance.recorder import RecordedExchange
from rlvr.adapters.conformance.replies import GatewayReply, read_reply, read_stream

ENDPOINTS = ("/chat/completions", "/messages")
PROBE = "recorded"
ABOUT_ANY_REQUEST = ("prefix", "mask", "decoding", "logprobs", "scored", "usage", "finish")


def check_sent_back(evidence: Evidence) -> Iterator[LawFinding]:
    """A client sends back the messages before and the reply as it was given."""
    for before, after in evidence.follow_ups():
        reply, sent = before.reply.choices[0], after.messages[len(before.messages)]
        text, thought, calls = _content(sent)
        if text != reply.text:
            is_blank = "".join(text.split()) == "".join(reply.text.split())
            detail = "whitespace of the reply was changed" if is_blank else "the reply was rewritten"
            yield broken(where(after), detail, None, reply.text[:60], text[:60])
        elif reply.thought and thought != reply.thought:
            yield broken(where(after), "the thinking of the reply was stripped", None, reply.thought[:60], thought[:60])
        elif [name for name, _ in reply.calls] != [name for name, _ in calls]:
            yield broken(where(after), "the calls of the reply are others", None, reply.calls, calls)
        elif _values(reply.calls) != _values(calls):
            yield broken(where(after), "the arguments of a call are others", None, reply.calls, calls)
        else:
            yield holds(where(after), "the reply came back as it was given")
    linked = {id(after) for _, after in evidence.follow_ups()}
    for exchange in evidence.exchanges:
        has_reply = any(message.get("role") == "assistant" for message in exchange.messages)
        if has_reply and id(exchange) not in linked and exchange.turn:
            yield unknown("it goes on from no request that was recorded: its history is new", where(exchange))


RECORDED_LAWS: tuple[TokenLaw, ...] = (
    TokenLaw("sent back", " ".join((check_sent_back.__doc__ or "").split()), check_sent_back),
    *(law for law in LAWS if law.id in ABOUT_ANY_REQUEST),
)


def read_recording(path: Path) -> list[RecordedExchange]:
    """The exchanges of a file.

    Raises:
        ValueError: a line is no recorded exchange; its number is named.
        OSError: there is no such file.
    """
    exchanges = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    exchanges.append(RecordedExchange.from_json(line))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from None
    return exchanges


def evidence_of(recorded: Sequence[RecordedExchange], decoder: Decoder) -> Evidence:
    """What was recorded, as the laws look at it; requests that ask for no reply are left out."""
    exchanges: list[GatewayExchange] = []
    for each in sorted(recorded, key=lambda record: record.started):
        path = each.path.partition("?")[0]
        if each.method != "POST" or not path.endswith(ENDPOINTS):
            continue
        try:
            body = json.loads(each.request)
            messages = tuple(_with_system(body))
        except (ValueError, TypeError, AttributeError, KeyError):
            continue  # the gateway has refused what is no request
        fields = {name: value for name, value in body.items() if name not in ("messages", "model", "system")}
        exchanges.append(GatewayExchange(PROBE, len(exchanges), messages, fields, _reply(each)))
    return Evidence(exchanges, decoder, _pairs(exchanges))


def _with_system(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    system = body.get("system")
    messages: list[Mapping[str, Any]] = [message for message in body["messages"] if isinstance(message, dict)]
    return [{"role": "system", "content": system}, *messages] if system else messages


def _reply(record: RecordedExchange) -> GatewayReply:
    if record.status != 200:
        return GatewayReply(error=f"status {record.status}")
    try:
        data = gzip.decompress(record.response) if record.content_encoding == "gzip" else record.response
        if "text/event-stream" in record.content_type:
            return read_stream(data.splitlines())
        return read_reply(json.loads(data))
    except (ValueError, OSError, EOFError, zlib.error) as error:
        return GatewayReply(error=f"the answer cannot be read: {error}")


def _pairs(exchanges: Sequence[GatewayExchange]) -> list[list[GatewayExchange]]:
    """Each request with the latest one whose messages, and a reply, it begins with."""
    pairs = []
    keys = [[_key(message) for message in exchange.messages] for exchange in exchanges]
    for number, exchange in enumerate(exchanges):
        parents = [
            other
            for other in range(number)
            if exchanges[other].reply.choices
            and len(keys[other]) < len(keys[number])
            and keys[number][: len(keys[other])] == keys[other]
            and exchange.messages[len(keys[other])].get("role") == "assistant"
        ]
        if parents:
            pairs.append([exchanges[max(parents, key=lambda other: (len(keys[other]), other))], exchange])
    return pairs


def _key(message: Mapping[str, Any]) -> str:
    """A message as it is compared: marks for a cache, and the two ways to write a text, make no difference."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    parts = [
        {k: v for k, v in part.items() if k != "cache_control"} for part in content or () if isinstance(part, dict)
    ]
    return json.dumps([message.get("role"), parts, message.get("tool_calls")], sort_keys=True)


def _content(message: Mapping[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    """Text, thought and calls of an assistant's message in either dialect."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = content if isinstance(content, str) else "".join(str(block.get("text", "")) for block in blocks)
    thought = "".join(str(block.get("thinking", "")) for block in blocks)
    thought = thought or message.get("reasoning_content") or message.get("reasoning") or ""
    functions = [call.get("function", {}) for call in message.get("tool_calls") or ()]
    calls = [(function.get("name", ""), function.get("arguments", "")) for function in functions]
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    return text, thought, [*calls, *((use.get("name", ""), json.dumps(use.get("input", {}))) for use in uses)]


def _values(calls: Sequence[tuple[str, str]]) -> list[Any]:
    """The arguments as values: Anthropic's come and go as objects, which have no spelling."""
    values = []
    for _, arguments in calls:
        try:
            values.append(json.loads(arguments))
        except ValueError:
            values.append(arguments)
    return values
