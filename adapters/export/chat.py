"""Episodes as chat records: the form of chat templates and supervised trainers, and OpenAI's for fine-tuning."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr.agents.conversation import Message
from rlvr.agents.episode import Episode
from rlvr.envs.tools.calls import STYLES, Call, split_calls, write_calls
from rlvr.envs.tools.tool import argument_names

Record = dict[str, Any]


def chat_record(episode: Episode, *, parts: bool = False) -> Record:
    """The conversation as it was played, and what is known of it; `messages` are in the form of chat templates.

    What the policy wrote stands as it wrote it: thinking and calls are part of the content. The assistant's turns in
    worked examples have ``weight`` 0, as OpenAI's form has it: nothing is to be trained on them.

    Args:
        parts: write each content as a list of parts, as processors of vision-language models read it.
    """
    verdict = episode.verdict
    messages, weights = _weighted(episode)
    return {
        "messages": [_message(message, parts) | weight for message, weight in zip(messages, weights, strict=True)],
        "tools": tools_of(episode),
        "reward": episode.reward,
        "success": episode.success,
        "status": verdict.status if verdict is not None else None,
        "env_id": episode.env_id,
        "split": episode.split,
        "level": episode.level,
        "seed": episode.seed,
        "index": episode.index,
        "group": episode.group,
        "sample": episode.sample,
        "key": episode.key,
        "env_digest": episode.env_digest or None,
        "turns": len(episode.turns),
        "tokens": len(episode.tokens) or None,
    }


def _weighted(episode: Episode) -> tuple[list[Message], list[Record]]:
    """The messages, and the ``weight`` of each that has one: 0 for what the assistant says in a worked example."""
    messages, opening = episode.messages(), len(episode.opening())
    examples = (message["role"] == "assistant" and index < opening for index, message in enumerate(messages))
    return messages, [{"weight": 0} if example else {} for example in examples]


def has_images(episode: Episode) -> bool:
    """Whether an observation has an image beside its text."""
    return any(turn.image for turn in episode.turns)


def tools_of(episode: Episode) -> list[Record] | None:
    """The JSON schemas of the tools that a chat template describes; None where there are none, or another text."""
    try:
        schemas = json.loads(episode.tools)
    except ValueError:
        return None
    return schemas if isinstance(schemas, list) else None


def _message(message: Message, parts: bool) -> Record:
    if not parts:
        return {"role": message["role"], "content": message["content"]}
    content: list[Record] = [{"type": "image", "image": url} for url in message.get("images", [])]
    return {"role": message["role"], "content": [*content, {"type": "text", "text": message["content"]}]}


def openai_record(episode: Episode) -> Record:
    """The conversation in the form that OpenAI's fine-tuning takes, which allows no other fields.

    A call of a tool that `tools` names, written in a style that `rlvr.envs.tools.calls` knows, becomes a structured
    one, its output the answer to it. Any other tool's output is the user's: the form knows no output without a call.
    """
    schemas = tools_of(episode)
    names = argument_names(schemas or [])
    written: list[Record] = []
    messages, weights = _weighted(episode)
    waiting: list[str] = []  # ids of the calls that the next message answers
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "assistant":
            answered = number + 1 < len(messages) and messages[number + 1]["role"] == "tool"
            before, calls = split_at_calls(content, names) if answered else (content, [])
            waiting = [f"call_{number}_{index}" for index in range(len(calls))]
            openai_calls = [
                {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": _json(call.arguments)}}
                for call_id, call in zip(waiting, calls, strict=True)
            ]
            written.append(
                {"role": role, "content": before}
                | ({"tool_calls": openai_calls} if openai_calls else {})
                | weights[number]
            )
        elif role == "tool" and waiting:
            first, *others = waiting  # one text answers all calls of a turn, and each call wants an answer
            written.append({"role": role, "tool_call_id": first, "content": content})
            written += [{"role": role, "tool_call_id": each, "content": "(see the first result)"} for each in others]
            written += [{"role": "user", "content": _parts("", message)}] if message.get("images") else []
            waiting = []
        else:
            written.append({"role": "user" if role == "tool" else role, "content": _parts(content, message)})
    return {"messages": written} | ({"tools": schemas} if schemas else {})


def split_at_calls(text: str, names: Mapping[str, Sequence[str]]) -> tuple[str, Sequence[Call]]:
    """What stands before the calls at the end of an action, and the calls.

    None where writing the calls again would not give the same text, whatever the style, or a name is no tool's.
    """
    for style in STYLES if names else ():
        before, reading = split_calls(text, style, names)
        calls = reading.calls
        if calls and all(call.name in names for call in calls) and _ends_with(text, before, calls, style, names):
            return before.rstrip("\n"), calls
    return text, []


def _ends_with(text: str, before: str, calls: Sequence[Call], style: str, names: Mapping[str, Sequence[str]]) -> bool:
    try:
        return text[len(before) :] == write_calls(calls, style, names)
    except ValueError:
        return False


def _parts(text: str, message: Message) -> str | list[Record]:
    images = message.get("images", [])
    if not images:
        return text
    first = [{"type": "text", "text": text}] if text else []
    return [*first, *({"type": "image_url", "image_url": {"url": url}} for url in images)]


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False)


def whole_pairs(value: Any) -> Any:
    """A value of JSON without halves of surrogate pairs, which UTF-8 cannot hold; in names of fields neither."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [whole_pairs(each) for each in value]
    if isinstance(value, dict):
        return {whole_pairs(name): whole_pairs(each) for name, each in value.items()}
    return value
