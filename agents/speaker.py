"""An agent as a function from chat messages to text, for environments in which somebody else speaks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from rlvr.agents.conversation import Agent, Conversation, Message


def speaker(agent: Agent) -> Callable[[Sequence[Mapping[str, str]]], str]:
    """What the agent says to a conversation; the same messages are one episode to it, with the same sampling noise.

    ``gym.make("rlvr/ServiceDesk-v0", customer=speaker(TransformersAgent(model, tokenizer)))``

    Raises:
        RuntimeError: (of the function) the agent has no reply.
    """

    def speak(messages: Sequence[Mapping[str, str]]) -> str:
        said: list[Message] = [{"role": each["role"], "content": each["content"]} for each in messages]
        (reply,) = agent.act([Conversation(json.dumps(said), said)])
        if reply.stop in ("error", "context"):
            raise RuntimeError(reply.error or "the conversation is too long for the agent")
        return reply.text

    return speak
