"""Episodes as OpenTelemetry's spans, in lines of OTLP's JSON: a request for ``/v1/traces`` each.

Names are those of the semantic conventions of generative AI (``gen_ai.*``): an episode is an ``invoke_agent`` span,
each turn a ``chat`` span in it, each verdict the event ``gen_ai.evaluation.result``. The resource has names that are
proposed for reinforcement learning (``rl.*``, semantic-conventions-genai issue 88); the rest is ``rlvr.*``. Ids follow
from the record, so an episode that is sent twice is one trace. A record holds the seconds of an episode and not of its
turns, which share them evenly; one that does not say when it ended did so when it was exported.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from rlvr.adapters.export.chat import split_at_calls, tools_of, whole_pairs
from rlvr.agents.episode import Episode, Turn
from rlvr.envs import Verdict
from rlvr.envs.tools.calls import ActionWithCalls
from rlvr.envs.tools.tool import argument_names

INTERNAL, CLIENT, ERROR = 1, 3, 2  # kinds of a span, and the status of one
EVALUATION = "gen_ai.evaluation.result"
PROVIDER = "rlvr"  # a record does not say who serves the model
USAGE = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
SAMPLING = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "max_tokens": "gen_ai.request.max_tokens",
    "max_new_tokens": "gen_ai.request.max_tokens",
}
TASK = ("env_id", "split", "level", "seed", "index", "group", "sample", "env_digest")


def spans_record(episode: Episode) -> dict[str, Any]:
    """The trace of an episode, as the JSON of an ``ExportTraceServiceRequest``."""
    from rlvr import __version__

    usage = episode.usage
    ended = int(usage.get("ended", time.time()) * 1e9)
    length = int((usage.get("model_seconds", 0.0) + usage.get("env_seconds", 0.0)) * 1e9)
    edges = [ended - length + length * k // max(1, len(episode.turns)) for k in range(len(episode.turns) + 1)]
    model = episode.agent.get("model")
    common = {"gen_ai.provider.name": PROVIDER, "gen_ai.request.model": model, "gen_ai.conversation.id": episode.key}
    sampling = episode.agent.get("sampling") or {}
    asked = {name: sampling[key] for key, name in SAMPLING.items() if sampling.get(key) is not None}
    whole = common | asked | {name: int(usage[key]) for key, name in USAGE.items() if key in usage}
    whole |= {f"rlvr.{name}": getattr(episode, name) for name in TASK} | {"rlvr.reward": episode.reward}
    whole |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.tool.definitions": episode.tools}
    whole |= {"gen_ai.system_instructions": _json([_text(episode.system)]) if episode.system else None}
    root = _span(episode, 0, f"invoke_agent {episode.env_id}", INTERNAL, whole, (edges[0], ended), episode.verdict)
    names = argument_names(tools_of(episode) or [])
    spans = [root]
    for number, turn in enumerate(episode.turns, 1):
        attributes = common | asked | _messages(turn, names)
        attributes |= {"rlvr.reward": turn.reward, "rlvr.branch": turn.branch}
        attributes |= {"rlvr.expert": True if number <= episode.prefix else None}
        spans.append(
            _span(
                episode,
                number,
                f"chat {model or ''}".rstrip(),
                CLIENT,
                attributes,
                (edges[number - 1], edges[number]),
                turn.verdict,
            )
        )
    about: dict[str, Any] = {
        "service.name": "rlvr",
        "service.version": __version__,
        "rl.system": "rlvr",
        "rl.system.version": __version__,
    }
    about |= {"rl.environment.name": episode.env_id, "rl.model.name": model}
    resource = {"attributes": _attributes(about)}
    scope = {"name": "rlvr", "version": __version__}
    record = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
    return dict(whole_pairs(record))


def _span(
    episode: Episode,
    number: int,
    name: str,
    kind: int,
    attributes: Mapping[str, Any],
    times: tuple[int, int],
    verdict: Verdict | None,
) -> dict[str, Any]:
    """The span of an episode, number 0, or of a turn; a verdict that is no fault of the policy is an error."""
    identity = json.dumps([episode.env_id, episode.key, [turn.action for turn in episode.turns]])
    trace = hashlib.sha256(identity.encode()).hexdigest()[:32]
    ids = [hashlib.sha256(f"{trace}/{each}".encode()).hexdigest()[:16] for each in (number, 0)]
    span: dict[str, Any] = {"traceId": trace, "spanId": ids[0], "flags": 256}
    span |= {"parentSpanId": ids[1]} if number else {}
    span |= {"name": name, "kind": kind, "startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(times[1])}
    failed = verdict is not None and not verdict.valid
    error = {"error.type": verdict.status} if verdict is not None and failed else {}
    span |= {"attributes": _attributes({**attributes, **error})}
    if verdict is not None:
        label = {"name": episode.env_id, "score.label": verdict.status, "explanation": verdict.reason}
        results = [label | ({} if failed else {"score.value": float(verdict.reward)})]  # a fault is no 0
        results += [{"name": part, "score.value": float(value)} for part, value in verdict.parts.items()]
        span["events"] = [
            {"timeUnixNano": str(times[1]), "name": EVALUATION, "attributes": _evaluated(result, error)}
            for result in results
        ]
    status: dict[str, Any] = {"code": ERROR} if failed else {}
    if verdict is not None and failed and verdict.reason:  # JSON of protobuf leaves out what is empty
        status["message"] = verdict.reason
    return span | {"status": status}


def _evaluated(result: Mapping[str, Any], error: Mapping[str, str]) -> list[dict[str, Any]]:
    return _attributes({**{f"gen_ai.evaluation.{name}": value for name, value in result.items()}, **error})


def _messages(turn: Turn, names: Mapping[str, list[str]]) -> dict[str, Any]:
    """What a turn's span says of its messages: texts and calls, without images."""
    if isinstance(turn.action, ActionWithCalls):
        text, calls = turn.action.words, [(call.name, call.arguments) for call in turn.action.calls]
    else:
        text, read = split_at_calls(turn.action, names)
        calls = [(call.name, _json(dict(call.arguments))) for call in read]
    parts = [_text(text)] if text or not calls else []
    parts += [{"type": "tool_call", "name": name, "arguments": arguments} for name, arguments in calls]
    answered = {"role": "assistant", "parts": parts, "finish_reason": turn.stop}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": _json([{"role": turn.role, "parts": [_text(turn.observation)]}]),
        "gen_ai.output.messages": _json([answered]),
        "gen_ai.response.finish_reasons": [turn.stop],
    }


def _text(content: str | None) -> dict[str, Any]:
    return {"type": "text", "content": content}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes in OTLP's form; those of None and "" are left out."""
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value not in (None, "")]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": value if isinstance(value, str) else _json(value)}
