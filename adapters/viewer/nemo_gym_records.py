"""Rollouts of NeMo Gym (``rollouts.jsonl``): what a model was asked, its response in the Responses form, the reward.

A response holds the whole conversation: messages, thinking, calls of tools and what came of them, and, where the model
server gives them, the tokens of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr.adapters.viewer.messages import messages_of
from rlvr.adapters.viewer.traces import (
    ChatMessage,
    Trace,
    list_of,
    mapping_of,
    mappings_of,
    named_numbers,
    number_of,
    text_of,
    whole_of,
)

TASK, SAMPLE = "_ng_task_index", "_ng_rollout_index"
BESIDE = ("reward", TASK, SAMPLE)  # numbers of a record that are no parts of the reward


def is_nemo_gym(record: Mapping[str, Any]) -> bool:
    """Whether a record is a rollout of NeMo Gym."""
    return isinstance(record.get("responses_create_params"), dict) and isinstance(record.get("response"), dict)


def nemo_gym_trace(record: Mapping[str, Any]) -> Trace:
    """The trace of a rollout."""
    asked, response = record["responses_create_params"], record["response"]
    trace = Trace("nemo_gym", env=text_of(mapping_of(record.get("agent_ref")).get("name")))
    trace.group, trace.sample = whole_of(record.get(TASK)), whole_of(record.get(SAMPLE)) or 0
    trace.key = "" if trace.group is None else str(trace.group)
    opening = asked.get("input")
    trace.messages = messages_of(opening if isinstance(opening, list) else [{"role": "user", "content": opening}])
    trace.tools = text_of(asked.get("tools"))
    for item in mappings_of(response.get("output")):
        _take_item(trace, item)
    actions = [message for message in trace.messages if message.is_action]
    if actions and mapping_of(response.get("incomplete_details")).get("reason") == "max_output_tokens":
        actions[-1].stop = "length"
    usage = mapping_of(response.get("usage"))
    trace.take_usage(prompt_tokens=usage.get("input_tokens"), completion_tokens=usage.get("output_tokens"))
    trace.parts = named_numbers({name: value for name, value in record.items() if name not in BESIDE})
    trace.take_reward(number_of(record.get("reward")))
    if error := record.get("error") or response.get("error"):
        trace.take_error(text_of(mapping_of(error).get("message") or error))
    trace.agent = {"model": text_of(response.get("model"))} if response.get("model") else {}
    return trace


def _take_item(trace: Trace, item: Mapping[str, Any]) -> None:
    """One item of the output; thinking and calls belong to the reply that they stand beside."""
    kind = item.get("type", "message")
    if kind == "function_call_output":
        trace.messages.append(ChatMessage("tool", text_of(item.get("output")), call_id=text_of(item.get("call_id"))))
    elif kind == "reasoning":
        parts = [*mappings_of(item.get("summary")), *mappings_of(item.get("content"))]
        thought = "\n".join(text_of(part.get("text")) for part in parts)
        trace.messages.append(ChatMessage("assistant", "", thought))
    elif kind == "function_call":
        call = {name: text_of(item.get(key)) for name, key in (("id", "call_id"), ("name", "name"), ("arguments",) * 2)}
        _reply(trace).calls.append(call)
    else:
        (message,) = messages_of([{"role": "assistant", **item, "content": item.get("content", "")}])
        is_reply = message.role == "assistant" and trace.messages[-1:] and trace.messages[-1].is_action
        if is_reply and not trace.messages[-1].text and not trace.messages[-1].calls:
            message.reasoning = "\n".join(filter(None, (trace.messages.pop().reasoning, message.reasoning)))
        trace.messages.append(message)


def _reply(trace: Trace) -> ChatMessage:
    """The reply that a call belongs to: the last one, or a new one."""
    if not trace.messages or not trace.messages[-1].is_action:
        trace.messages.append(ChatMessage("assistant", ""))
    return trace.messages[-1]


def token_lists(record: Mapping[str, Any]) -> list[tuple[list[Any], list[Any]]]:
    """The sampled ids and their log-probabilities of each item of the output that has any."""
    items = mappings_of(mapping_of(record.get("response")).get("output"))
    named = ((item.get("generation_token_ids"), item.get("generation_log_probs")) for item in items)
    return [(list_of(ids), list_of(logprobs)) for ids, logprobs in named if isinstance(ids, list)]
