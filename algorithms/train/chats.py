"""Chats that `rlvr export` wrote, read as token sequences to imitate: mask 1 on the assistant's tokens alone."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr.agents.conversation import Message, TokenSequence
from rlvr.agents.rendering import Renderer
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import scan_table

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class RecordedChat:
    """A conversation to imitate; ``tools`` are the JSON schemas that the chat template shows, as text, or empty, and
    ``opening`` is how many messages stand before all that is imitated, the last of them an assistant's of weight 0.
    """

    messages: tuple[Message, ...]
    tools: str = ""
    opening: int = 0

    @property
    def prompt(self) -> str:
        """What stands before the assistant's first message to imitate: chats of one prompt are of one task."""
        # What the assistant saw first names the task.
        roles = [message["role"] for message in self.messages]
        return json.dumps([self.messages[: roles.index("assistant", self.opening)], self.tools])


def read_chats(path: Path) -> list[RecordedChat]:
    """The chats of a JSONL or Parquet file.

    Raises:
        DataError: the file cannot be read.
        ValueError: a row is no chat, which says the row; or there is none.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise ValueError(f"chats are read from X.jsonl or X.parquet, as `rlvr export` writes them; not {path.name!r}")
    chats = []
    for number, row in enumerate(scan_table(path), 1):
        try:
            chats.append(chat_of(row))
        except ValueError as error:
            raise ValueError(f"row {number} of {path}: {error}") from None
    if not chats:
        raise ValueError(f"{path} has no rows")
    return chats


def chat_of(row: Mapping[str, Any]) -> RecordedChat:
    """A row with ``messages`` and perhaps ``tools`` as a chat.

    Raises:
        ValueError: it is none, or it is of the test split.
    """
    if row.get("split") == "test":
        raise ValueError("it is of the test split, which measures a policy and trains none")
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("it has no list of messages")
    read = tuple(_message(message) for message in messages)
    roles = [message["role"] for message in read]
    if "assistant" not in roles or roles[0] == "assistant":
        raise ValueError("a chat needs a prompt and then at least one message of the assistant's")
    return RecordedChat(read, _tools(row.get("tools")), _opening(roles, [each.get("weight") for each in messages]))


def _opening(roles: Sequence[str], weights: Sequence[Any]) -> int:
    """How many messages there are up to the last of the assistant's that has weight 0."""
    imitated = [weight != 0 for role, weight in zip(roles, weights, strict=True) if role == "assistant"]
    if not any(imitated) or imitated != sorted(imitated):
        raise ValueError("weight 0 is for the assistant's first messages, those of worked examples, and not for all")
    skipped = imitated.count(False)
    return [index for index, role in enumerate(roles) if role == "assistant"][skipped - 1] + 1 if skipped else 0


def _message(message: Any) -> Message:
    if not isinstance(message, Mapping) or message.get("role") not in ROLES:
        raise ValueError(f"each message needs a role of {', '.join(ROLES)}")
    # Another template would write the calls in another syntax than the one that was recorded.
    if message.get("tool_calls"):
        raise ValueError("it has tool_calls apart from the text: export it with --format chat, which keeps the text")
    content = message.get("content")
    if isinstance(content, list):
        kinds = {part.get("type") if isinstance(part, Mapping) else None for part in content}
        if kinds != {"text"}:
            raise ValueError("it has images, and supervised training here reads text alone")
        content = "".join(str(part.get("text")) for part in content)
    if not isinstance(content, str):
        raise ValueError(f"the content of a message of the {message['role']}'s is no text")
    return {"role": message["role"], "content": content}


def _tools(tools: Any) -> str:
    if not tools:
        return ""
    schemas = load_json(tools) if isinstance(tools, str) else tools  # Parquet has them as text
    if not isinstance(schemas, list) or not all(isinstance(tool, dict) for tool in schemas):
        raise ValueError("its tools are no list of JSON schemas")
    return json.dumps(schemas)


def split_chats(
    chats: Sequence[RecordedChat], share: float, seed: int
) -> tuple[list[RecordedChat], list[RecordedChat]]:
    """Chats to train on, and chats held out: a share of the prompts, so that no task is on both sides.

    Raises:
        ValueError: the share is not in [0, 1), or leaves nothing to train on.
    """
    if not 0 <= share < 1:
        raise ValueError(f"--held-out must be at least 0 and below 1, got {share:g}")
    if not share:
        return list(chats), []
    # In order of first occurrence, so that the seed alone decides.
    prompts = list(dict.fromkeys(chat.prompt for chat in chats))
    if len(prompts) < 2:
        raise ValueError("all chats begin with one prompt, so that none can be held out: give --held-out 0")
    random.Random(seed).shuffle(prompts)
    # At least one prompt on each side.
    held_out = {*prompts[: min(max(1, round(share * len(prompts))), len(prompts) - 1)]}
    sides: tuple[list[RecordedChat], list[RecordedChat]] = ([], [])
    for chat in chats:
        sides[chat.prompt in held_out].append(chat)
    return sides


def sequences_of(chats: Sequence[RecordedChat], renderer: Renderer, max_length: int) -> tuple[list[TokenSequence], int]:
    """The chats as token sequences, mask 1 on what the assistant wrote, and how many were longer than ``max_length``.

    Raises:
        ValueError: the chat template refuses one.
    """
    sequences = []
    for chat in chats:
        ids, mask = renderer.render_demonstration(chat.messages, chat.tools, chat.opening)
        if len(ids) <= max_length:
            sequences.append(TokenSequence(ids, mask, [0.0] * len(ids)))  # nobody sampled them: no log-prob
    return sequences, len(chats) - len(sequences)
