"""Episodes of verifiers 0.4 (``traces.jsonl``): the traces of one or more agents, each a graph of messages.

A message is stored once, with the index of the one before it; a path from a root to a leaf is a branch, and one
conversation as the model saw it. A second branch holds what the first does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.adapters.viewer.messages import message_of, messages_of
from rlvr.adapters.viewer.traces import (
    Trace,
    TraceBranch,
    list_of,
    mapping_of,
    mappings_of,
    named_numbers,
    number_of,
    numbers_of,
    text_of,
    whole_of,
)

# The columns that a node holds for its sampled tokens, under the names that the page shows.
COLUMNS = {
    "logprobs": "log-prob",
    "advantages": "advantage",
    "entropies": "entropy",
    "reference_logprobs": "reference log-prob",
    "trainer_logprobs": "log-prob at the update",
}


def is_verifiers(record: Mapping[str, Any]) -> bool:
    """Whether a record is an episode of verifiers 0.4."""
    return isinstance(record.get("traces"), list) and isinstance(record.get("task"), dict) and "ok" in record


def verifiers_trace(record: Mapping[str, Any]) -> Trace:
    """The trace of an episode, all of its agents in one."""
    task, data = mapping_of(record["task"]), mapping_of(mapping_of(record["task"]).get("data"))
    work = mapping_of(mapping_of(record.get("run")).get("work"))
    trace = Trace("verifiers", env=text_of(mapping_of(record.get("env")).get("id")), split=text_of(work.get("type")))
    trace.group, trace.step = whole_of(data.get("idx")), whole_of(work.get("step"))
    trace.key = next(
        (text_of(k) for k in (data.get("id"), data.get("name"), data.get("idx"), task.get("key")) if k is not None), ""
    )
    agents = [agent for agent in record["traces"] if isinstance(agent, dict)]
    for agent in agents:
        _take_agent(trace, agent, named=len(agents) > 1)
    if not trace.messages:
        prompt, system = data.get("prompt"), data.get("system_prompt")
        opening = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}] * (prompt is not None)
        trace.messages = messages_of([{"role": "system", "content": system}] * (system is not None) + opening)
    _take_outcome(trace, record, agents)
    trace.reason = f"expected: {text_of(data['answer'])}" if data.get("answer") is not None else ""
    trace.take_usage(prompt_tokens=record.get("num_input_tokens"), completion_tokens=record.get("num_output_tokens"))
    configs = [mapping_of(mapping_of(agent.get("agent")).get("config")) for agent in agents]
    if model := next((text_of(config["model"]) for config in configs if config.get("model")), ""):
        trace.agent = {"model": model}
    trace.notes = {name: record[name] for name in ("id", "task", "group", "run") if record.get(name)}
    trace.notes["agents"] = [_about(agent) for agent in agents]
    return trace


def _about(agent: Mapping[str, Any]) -> dict[str, Any]:
    """What else a record says of an agent; its messages and tools are shown apart."""
    fields = ("stop_condition", "rewards", "metrics", "info", "num_input_tokens", "num_output_tokens", "timing")
    agent_info = mapping_of(agent.get("agent"))
    named = {"name": agent_info.get("name"), "model": mapping_of(agent_info.get("config")).get("model")}
    return {**named, **{name: agent[name] for name in fields if agent.get(name)}}


def _take_outcome(trace: Trace, record: Mapping[str, Any], agents: Sequence[Mapping[str, Any]]) -> None:
    """The weighted sum of the rewards, of the agents that are trained where some are not; errors, and success."""
    trained = [
        agent for agent in agents if mapping_of(agent.get("agent")).get("trainable", True) is not False
    ] or agents
    rewards: list[float] = []
    earned: list[bool] = []  # whether each score that may add to the reward is full
    for agent in trained:
        for name, item in mapping_of(agent.get("rewards")).items():
            score, weight = number_of(mapping_of(item).get("score")), number_of(mapping_of(item).get("weight"))
            weight = 1.0 if weight is None else weight
            value = None if score is None else number_of(score * weight)
            if score is None or value is None:
                continue
            rewards.append(value)
            earned += [score >= 1] * (weight > 0)
            part = number_of(trace.parts.get(str(name), 0.0) + value)
            trace.parts |= {str(name): part} if part is not None else {}
        for name, metric in named_numbers(mapping_of(agent.get("metrics"))).items():
            trace.parts.setdefault(name, metric)
    errors = [error for holder in (record, *agents) for error in mappings_of(holder.get("errors"))]
    if record.get("ok") is not True:
        stops = [text_of(agent.get("stop_condition")) for agent in agents]
        trace.take_error(
            text_of(errors[-1].get("message")) if errors else next(filter(None, stops), "the episode is not ok")
        )
    if rewards:
        trace.reward = number_of(sum(rewards))
    if trace.error or trace.reward is None:
        return
    metrics = [mapping_of(agent.get("metrics")).get(name) for agent in trained for name in ("success", "correct")]
    outcomes = [number >= 1 for number in map(number_of, metrics) if number is not None]
    trace.take_success(all(outcomes) if outcomes else bool(earned) and all(earned))


def _take_agent(trace: Trace, agent: Mapping[str, Any], *, named: bool) -> None:
    nodes = [mapping_of(node) for node in list_of(agent.get("nodes"))]  # indices count what is no object too
    stops = {whole_of(call.get("node")): text_of(call.get("finish_reason")) for call in mappings_of(agent.get("calls"))}
    tools = agent.get("tools")
    if tools:
        trace.tools = "\n".join(filter(None, (trace.tools, text_of(tools))))
    name = f"agent {text_of(mapping_of(agent.get('agent')).get('name'))}" if named else "first conversation"
    branches = _branches(nodes)
    with_tokens = not named and len(branches) == 1
    shown: dict[int | None, int] = {}  # the message of each node
    for number, (parent, branch) in enumerate(branches):
        trace.branches.append(TraceBranch(name, shown.get(parent, -1)))
        name = f"branch {number + 1}"
        for index in branch:
            message = message_of(mapping_of(nodes[index].get("message")))
            message.stop, message.branch = stops.get(index, ""), len(trace.branches) - 1
            shown[index] = len(trace.messages)
            trace.messages.append(message)
            if with_tokens:
                _take_tokens(trace, nodes[index])
                message.end = len(trace.ids)
    if with_tokens:
        trace.columns = {name: column for name, column in trace.columns.items() if len(column) == len(trace.ids)}


def _branches(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[int | None, list[int]]]:
    """What each branch adds to those before it, after the node that it goes on from, in the order of the leaves. A
    parent stands before its children.

    A node without a field is shown in none.
    """
    parents = [whole_of(node.get("parent")) for node in nodes]
    parents = [p if p is not None and 0 <= p < index else None for index, p in enumerate(parents)]
    inner, is_shown = set(parents), [False] * len(nodes)
    branches: list[tuple[int | None, list[int]]] = []
    for leaf in (index for index, node in enumerate(nodes) if node and index not in inner):
        path: list[int] = []
        index: int | None = leaf
        while index is not None and not is_shown[index]:
            path += [index] * bool(nodes[index])
            is_shown[index] = True
            index = parents[index]
        branches.append((index, path[::-1]))
    return branches


def _take_tokens(trace: Trace, node: Mapping[str, Any]) -> None:
    """The tokens that a message adds [T]; a column holds a value for each that was sampled, and is 0 elsewhere."""
    ids, mask = numbers_of(node.get("token_ids")), numbers_of(node.get("mask"))
    if len(ids) != len(mask) or not {*mask} <= {0.0, 1.0}:
        return
    before = len(trace.ids)
    trace.ids += [int(number) for number in ids]
    trace.columns.setdefault("mask", []).extend(mask)
    sampled = int(sum(mask))
    for name, column in COLUMNS.items():
        values = numbers_of(node.get(name))
        if values and len(values) == sampled:
            of_sampled = iter(values)
            full = trace.columns.setdefault(column, [])
            full += [0.0] * (before - len(full)) + [next(of_sampled) if on else 0.0 for on in mask]
    for full in trace.columns.values():
        full += [0.0] * (len(trace.ids) - len(full))
