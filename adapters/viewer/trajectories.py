"""Traces written as steps: trajectories of Harbor (ATIF), rollout summaries and logs (logtree) of tinker-cookbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlvr.adapters.viewer.messages import messages_of
from rlvr.adapters.viewer.traces import (
    ChatMessage,
    Trace,
    episode_trace,
    image_of,
    list_of,
    mapping_of,
    mappings_of,
    named_numbers,
    number_of,
    numbers_of,
    split_thinking,
    text_of,
    whole_of,
)

GROUP = "Group Rollout"  # the heading of a group in tinker-cookbook's log
ROLES = {"agent": "assistant", "system": "system", "user": "user"}


def is_atif(record: Mapping[str, Any]) -> bool:
    """Whether a record is a trajectory of ATIF, of whatever version."""
    return text_of(record.get("schema_version")).startswith("ATIF-v") and isinstance(record.get("steps"), list)


def atif_trace(record: Mapping[str, Any]) -> Trace:
    """The trace of a trajectory; one that `rlvr export` wrote is shown as its episode is."""
    from rlvr.adapters.export.atif import OURS, NotOurs, episode_of  # imports every tool, and few files need it

    try:
        trace = episode_trace(episode_of(record).to_dict(), "atif")
        trace.notes["agent"] = record.get("agent")
        return trace
    except NotOurs:
        pass
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, IndexError):
        pass  # somebody changed it since; what can be read of it is shown
    agent = mapping_of(record.get("agent"))
    trace = Trace("atif", env=text_of(agent.get("name")), key=text_of(record.get("trajectory_id")))
    trace.key = trace.key or text_of(record.get("session_id"))
    trace.tools = text_of(agent.get("tool_definitions"))
    for step in record["steps"]:
        if isinstance(step, Mapping):
            _take_step(trace, step)
    metrics, extra = mapping_of(record.get("final_metrics")), mapping_of(record.get("extra"))
    rewards = (
        number_of(holder.get("reward"))
        for holder in (mapping_of(metrics.get("extra")), extra, mapping_of(extra.get(OURS)))
    )
    trace.take_reward(next((reward for reward in rewards if reward is not None), None))
    fields = (
        *("agent", "notes", "final_metrics", "extra", "session_id", "schema_version", "continued_trajectory_ref"),
        "subagent_trajectories",
    )
    trace.notes = {name: record[name] for name in fields if record.get(name)}
    return trace


def _take_step(trace: Trace, step: Mapping[str, Any]) -> None:
    text, images = _content(step.get("message"))
    message = ChatMessage(ROLES.get(text_of(step.get("source")), "user"), text, images=images)
    message.example = mapping_of(step.get("extra")).get("example") is True
    message.reasoning = text_of(step.get("reasoning_content"))
    if message.reasoning == text:  # converters of Harbor repeat it
        message.reasoning = ""
    if message.role == "assistant" and not message.reasoning:
        message.reasoning, message.text = split_thinking(text)
    for call in mappings_of(step.get("tool_calls")):
        message.calls.append(
            {
                "id": text_of(call.get("tool_call_id")),
                "name": text_of(call.get("function_name")),
                "arguments": text_of(call.get("arguments")),
            }
        )
    trace.messages.append(message)
    metrics = mapping_of(step.get("metrics"))
    ids, logprobs = numbers_of(metrics.get("completion_token_ids")), numbers_of(metrics.get("logprobs"))
    if ids and (not trace.ids or trace.columns):
        has_logprobs = "log-prob" in trace.columns or not trace.ids
        trace.ids += [int(number) for number in ids]
        trace.columns["mask"] = [1.0] * len(trace.ids)
        if has_logprobs and len(logprobs) == len(ids):
            trace.columns["log-prob"] = trace.columns.get("log-prob", []) + logprobs
        else:
            trace.columns.pop("log-prob", None)
        message.end = len(trace.ids)
    for result in mappings_of(mapping_of(step.get("observation")).get("results")):
        text, images = _content(result.get("content"))
        text = text or text_of(result.get("subagent_trajectory_ref"))
        trace.messages.append(ChatMessage("tool", text, images=images, call_id=text_of(result.get("source_call_id"))))


def _content(value: Any) -> tuple[str, list[str]]:
    """The text and the images of a message: a text, or a list of parts."""
    if not isinstance(value, list):
        return text_of(value), []
    texts, images = [], []
    for part in value:
        content = mapping_of(part)
        if content.get("type") != "text":
            path = mapping_of(content.get("source")).get("path")
            image = image_of(path)
            images += [image] * bool(image)
            texts += [] if image else [f"({text_of(content.get('type'))} that is not in the file: {text_of(path)})"]
        else:
            texts.append(text_of(content.get("text")))
    return "\n".join(texts), images


def is_tinker(record: Mapping[str, Any]) -> bool:
    """Whether a record is a rollout summary of tinker-cookbook."""
    return {"traj_idx", "group_idx", "total_reward", "steps"} <= record.keys() and isinstance(record["steps"], list)


def tinker_trace(record: Mapping[str, Any]) -> Trace:
    """The trace of a rollout summary (``*_rollout_summaries.jsonl``). It holds no texts but what environments log."""
    trace = Trace("tinker-cookbook", env=", ".join(map(text_of, list_of(record.get("tags")))))
    trace.split = text_of(record.get("split"))
    trace.step = whole_of(record.get("iteration"))
    trace.group, trace.sample = whole_of(record.get("group_idx")), whole_of(record.get("traj_idx")) or 0
    trace.key = f"{trace.split}/{trace.step}/{trace.group}"
    for step in mappings_of(record["steps"]):
        logs = [f"{name}: {text_of(value)}" for name, value in mapping_of(step.get("logs")).items()]
        size = f"{text_of(step.get('ob_len'))} tokens seen, {text_of(step.get('ac_len'))} sampled"
        message = ChatMessage("assistant", "\n".join([*logs, f"({size})"]), stop=text_of(step.get("stop_reason")))
        message.reward = number_of(step.get("reward"))
        trace.messages.append(message)
    trace.parts = named_numbers(mapping_of(record.get("trajectory_metrics")))
    trace.take_reward(number_of(record.get("total_reward")))
    correct = trace.parts.get("correct")
    if correct is not None:
        trace.success = correct >= 1
        trace.status = "correct" if trace.success else "wrong"
    trace.notes = {
        name: record[name] for name in ("final_reward", "sampling_client_step", "final_ob_len") if name in record
    }
    return trace


def is_logtree(record: Mapping[str, Any]) -> bool:
    """Whether a record is a log of tinker-cookbook (``*_logtree.json``)."""
    return {"title", "started_at", "root"} <= record.keys() and isinstance(record["root"], dict)


def logtree_traces(record: Mapping[str, Any]) -> Iterator[Trace]:
    """A trace for each group of rollouts: every conversation that was logged, in the order of the log.

    The log does not say which trajectory of the group a conversation is of, so there is no reward.
    """
    title = text_of(record["title"])
    number = title.rpartition(" ")[2]
    step = int(number) if number.isascii() and number.isdigit() and len(number) < 13 else None
    groups = [section for section in _below(record["root"]) if _heading(section) == GROUP]
    for index, section in enumerate(groups or [record["root"]]):
        trace = Trace("tinker-cookbook", env=title, key=f"{title}/{index}", step=step, group=index)
        for node in _below(section):
            data = mapping_of(node.get("data"))
            if data.get("type") == "conversation":
                trace.messages += messages_of(list_of(data.get("messages")))
        if trace.messages:
            yield trace


def _below(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A node and all below it, in the order of the page."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(mappings_of(node.get("children")))


def _heading(section: Mapping[str, Any]) -> str:
    first = next(iter(mappings_of(section.get("children"))), {}) if section.get("tag") == "section" else {}
    return "".join(text_of(child) for child in list_of(first.get("children")) if isinstance(child, str))
