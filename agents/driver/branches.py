"""The conversations of an episode in which a program asks for replies as it likes.

Most environments hold one conversation, to which each turn adds. A program may hold several: sub-agents, best of n, a
history that it shortens. Its environment says with each observation ``info["messages"]``, the whole conversation that
is to be answered, and ``info["follows"]``, the turn whose messages and reply it goes on from; -1 for none. One that
goes on from the last reply of a conversation adds to it. Any other begins a new one, a branch: from an earlier reply
with the tokens up to there, which carry no loss a second time, else with nothing but the messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlvr.agents.conversation import Conversation, Message
from rlvr.agents.episode import EpisodeBranch


class _ReplyPoint(NamedTuple):
    """A conversation after a reply: its number, its messages and tokens, and how many messages the program counts."""

    branch: int
    messages: int
    tokens: int
    program_messages: int


@dataclass(slots=True)
class Branches:
    """The conversations of one episode.

    Attributes:
        conversations: in the order in which they began.
        follows: of each, the turn whose reply it goes on from; -1 for none.
        current: the number of the one that is to be answered, or was answered last.
    """

    conversations: list[Conversation] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)
    current: int = 0
    _points: dict[int, _ReplyPoint] = field(default_factory=dict)  # by turn
    _program_messages: int = 0

    def take_up(
        self, info: Mapping[str, Any], first: Conversation, use_system: bool
    ) -> tuple[Conversation, Message | None]:
        """The conversation that an observation belongs to, with the new messages in it; and these as one message, where
        they follow a reply and are not the assistant's.

        Args:
            info: of the environment.
            first: the episode's, which the first observation belongs to; it names the others.
            use_system: whether messages of the system are shown to the policy.

        Raises:
            KeyError: no reply to the turn that is named was kept.
        """
        messages: Sequence[Message] = info["messages"]
        self._program_messages = len(messages) + 1  # with the reply to come
        follows = int(info["follows"])
        point = self._points[follows] if follows >= 0 else _ReplyPoint(0, 0, 0, 0)
        new = [m for m in messages[point.program_messages :] if use_system or m["role"] != "system"]
        added = _as_one(new) if follows >= 0 else None
        if follows >= 0 and len(self.conversations[point.branch].messages) == point.messages:
            self.current = point.branch
            self.conversations[point.branch].messages += new
            return self.conversations[point.branch], added
        self.current = len(self.conversations)
        conversation = first
        if self.conversations:
            tools = json.dumps(info["tools"]) if info.get("tools") else ""
            conversation = Conversation(f"{first.key}/branch {self.current}", [], env=first.env, tools=tools)
        if follows >= 0:
            origin = self.conversations[point.branch]
            conversation.messages += origin.messages[: point.messages]
            conversation.tokens = origin.tokens.piece(0, point.tokens).without_loss()
            conversation.rendered = point.messages if point.tokens else 0
        conversation.messages += new
        conversation.from_program = True
        self.conversations.append(conversation)
        self.follows.append(follows)
        return conversation, added

    def note_reply(self, turn: int, conversation: Conversation) -> None:
        """Keep where a conversation stands after its reply in a turn."""
        counts = len(conversation.messages), len(conversation.tokens), self._program_messages
        self._points[turn] = _ReplyPoint(self.current, *counts)

    def beside_the_first(self) -> list[EpisodeBranch]:
        """The tokens of all but the first; none of an agent that deals in text alone."""
        pairs = zip(self.follows[1:], self.conversations[1:], strict=True)
        return [EpisodeBranch(follows, conversation.tokens.copy()) for follows, conversation in pairs]


def _as_one(messages: Sequence[Message]) -> Message | None:
    if not messages or any(message["role"] == "assistant" for message in messages):
        return None
    role = "tool" if all(message["role"] == "tool" for message in messages) else "user"
    return {"role": role, "content": "\n\n".join(message["content"] for message in messages)}
