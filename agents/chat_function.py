"""An agent as a function from chat messages to text, for environments in which somebody else takes part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from rlvr.agents.conversation import Agent, Conversation, Message


def as_chat_function(agent: Agent) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """A function that returns the agent's reply to chat messages, as text.

    Equal messages are one episode to the agent, with the same sampling noise.

    ``gym.make("rlvr/ServiceDesk-v0", customer=as_chat_function(TransformersAgent(model, tokenizer)))``

    Raises:
        RuntimeError: (of the function) the agent has no reply.
    """

    def chat(messages: Sequence[Mapping[str, str]]) -> str:
        conversation: list[Message] = [{"role": each["role"], "content": each["content"]} for each in messages]
        (reply,) = agent.act([Conversation(json.dumps(conversation), conversation)])
        if reply.stop in ("error", "context"):
            raise RuntimeError(reply.error or "the conversation is too long for the agent")
        return reply.text

    return chat
