"""What an agent is given and what it gives back: a conversation in, a reply out.

A conversation carries its own token sequence, which only grows. An agent that samples tokens appends the
rendering of the messages it has not seen yet (mask 0), then what it sampled (mask 1); nothing is ever encoded
twice, so what was sampled is what is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Protocol, TypedDict

import gymnasium as gym

from rlvr.envs.core.deprecation import warn_renamed
from rlvr.envs.core.images import text_of, url_of


class Message(TypedDict):
    """One chat message; ``role`` is system, user, assistant or tool.

    ``images`` are what stands beside the text, as data URLs of PNGs; there is no such key where there are none.
    """

    role: str
    content: str
    images: NotRequired[list[str]]


def heard(observation: Any, info: Mapping[str, Any]) -> Message:
    """An observation as a message."""
    message: Message = {"role": info.get("role", "user"), "content": text_of(observation)}
    if url := url_of(observation):
        message["images"] = [url]
    return message


TEXT_ALONE = (
    "{} reads text alone, and this environment shows images: play it with OpenAIAgent and an endpoint that serves a "
    "vision-language model"
)


def require_text(messages: Iterable[Message], who: str) -> None:
    """Refuse messages with images, for those who would pass over them in silence.

    Raises:
        ValueError: there is one.
    """
    if any(message.get("images") for message in messages):
        raise ValueError(TEXT_ALONE.format(who))


# stop: the policy ended its turn; length: the turn's token limit; context: no room was left to say anything;
# pause: the completion is partial, and goes on in another call; error: there is no
# reply, and it was not the policy's fault.
StopReason = Literal["stop", "length", "context", "pause", "error"]


@dataclass(slots=True)
class TokenSequence:
    """Token ids with, for each, whether the policy sampled it and its log-probability when it did.

    The three lists have one length, T. ``logprobs`` is 0.0 where ``mask`` is 0.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def append_context(self, ids: Sequence[int]) -> None:
        """Tokens that somebody else wrote: prompts, tool output, template."""
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Tokens that the policy sampled, with their log-probabilities under the sampling distribution.

        Raises:
            ValueError: not one log-probability for each token.
        """
        if len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} tokens were sampled, but {len(logprobs)} log-probabilities given")
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs

    def extend(self, other: TokenSequence) -> None:
        """Append another sequence, mask and log-probabilities with it."""
        self.ids += other.ids
        self.mask += other.mask
        self.logprobs += other.logprobs

    def piece(self, start: int, stop: int) -> TokenSequence:
        """A copy of the tokens from ``start`` up to ``stop``."""
        return TokenSequence(self.ids[start:stop], self.mask[start:stop], self.logprobs[start:stop])

    def unsampled(self) -> TokenSequence:
        """The old name of `without_loss`."""
        warn_renamed("TokenSequence.unsampled", "without_loss")
        return self.without_loss()

    def without_loss(self) -> TokenSequence:
        """A copy of which nothing is trained on."""
        return TokenSequence([*self.ids], [0] * len(self), [0.0] * len(self))

    @property
    def sampled(self) -> int:
        """How many tokens the policy sampled."""
        return sum(self.mask)

    def to_dict(self) -> dict[str, list[Any]]:
        return {"ids": self.ids, "mask": self.mask, "logprobs": self.logprobs}


@dataclass(slots=True)
class Conversation:
    """One episode as its agent sees it.

    Attributes:
        key: names the episode; sampling noise is drawn from (agent seed, key, position), so an episode does
            not depend on what else is in the batch.
        messages: everything said so far; the last message is not the assistant's when the agent is asked.
        tokens: the append-only sequence; stays empty for agents that deal in text alone.
        rendered: how many of ``messages`` are in ``tokens`` already.
        partial_completion: tokens of the next reply that are there already, with mask and log-probabilities: an agent
            that samples tokens goes on from them, and they are part of the reply it returns.
        env: the unwrapped environment, for the agents that ask it for its expert's or a random action; a
            policy never touches it. None when the episode runs elsewhere.
        tools: the JSON schemas of tools that the chat template describes, as one JSON text; empty where there are none.
    """

    key: str
    messages: list[Message]
    tokens: TokenSequence = field(default_factory=TokenSequence)
    rendered: int = 0
    partial_completion: TokenSequence = field(default_factory=TokenSequence)
    env: gym.Env[str, str] | None = None
    tools: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's next words: the assistant's text without special tokens, and why it stopped.

    A reply that could not be had (``stop="error"``) says why in ``error``; its episode ends there, invalid.
    """

    text: str
    stop: StopReason = "stop"
    tokens: int = 0  # how many tokens were sampled for it
    error: str = ""


class Agent(Protocol):
    """Who acts. ``act`` answers a batch of conversations, in order, one reply each.

    An agent that samples tokens appends to each conversation's ``tokens`` and, having done so, counts the
    assistant's message it is about to return as rendered: ``rendered = len(messages) + 1``.
    """

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]: ...
