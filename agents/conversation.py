"""What an agent is given and what it gives back: a conversation in, a reply out.

A conversation carries its token sequence, which only grows. An agent that samples tokens reads it and returns, in its
reply, the rendering of the new messages (mask 0) and what it sampled (mask 1); whoever drives the episode appends both.
Nothing is ever encoded twice, so what was sampled is what is trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Protocol

import gymnasium as gym
from typing_extensions import TypedDict

from rlvr.envs.core.images import text_of, url_of
from rlvr.envs.tools.turn import CallOutputs


class Message(TypedDict):
    """One chat message; ``role`` is system, user, assistant or tool.

    ``images`` are what stands beside the text, as data URLs of PNGs; there is no such key where there are none.
    ``outputs`` are what each of several native calls of the action before gave; ``content`` is all of them. The content
    of an assistant's message that makes such calls is a `rlvr.envs.tools.calls.ActionWithCalls`.
    """

    role: str
    content: str
    images: NotRequired[list[str]]
    outputs: NotRequired[list[str]]


def opening_messages(system: str | None, examples: Iterable[Message]) -> list[Message]:
    """What stands before the first observation: the system prompt, if any, and the turns of worked examples.

    Raises:
        ValueError: the examples are no turns of a user and an assistant.
    """
    opening: list[Message] = [{"role": "system", "content": system}] if system else []
    try:
        turns: list[Message] = [{"role": turn["role"], "content": turn["content"]} for turn in examples]
    except (TypeError, KeyError):
        turns = [{"role": "", "content": ""}]
    if [turn["role"] for turn in turns] != ["user", "assistant"] * (len(turns) // 2):
        raise ValueError(
            f"info[\"examples\"] holds chat messages, a user's and an assistant's in turn; got {examples!r:.200}"
        )
    return opening + turns


def as_one_text(messages: Sequence[Message]) -> str:
    """The beginning of a conversation for those who read one text: ``Question: … Answer: …`` for each worked example,
    and so for the question; without examples the contents alone.
    """
    contents = [message["content"] for message in messages]
    system = contents[: messages[0]["role"] == "system"]
    *examples, question = contents[len(system) :]
    if not examples:
        return "\n\n".join(contents)
    pairs = zip(examples[::2], examples[1::2], strict=True)
    worked = [f"Question: {asked}\nAnswer: {answer}" for asked, answer in pairs]
    return "\n\n".join([*system, *worked, f"Question: {question}\nAnswer:"])


def observation_to_message(observation: Any, info: Mapping[str, Any]) -> Message:
    """An observation as a chat message; its role is ``info["role"]``, or the user's."""
    role = info.get("role", "user")
    if type(observation) is str:
        return {"role": role, "content": observation}
    text = text_of(observation)
    message: Message = {"role": role, "content": str(text)}
    if isinstance(text, CallOutputs) and len(text.each) > 1:
        message["outputs"] = [*text.each]
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


# stop: the policy ended its turn. length: the turn's token limit. context: the sequence has reached its longest length
# before the reply. pause: the completion is partial and is continued in another call. error: there is no reply, through
# no fault of the policy.
StopReason = Literal["stop", "length", "context", "pause", "error"]


# What an endpoint gave in the place of a reply, and why a verdict that is not right says so.
FLAWS: Mapping[str, str] = {
    "thought_only": "the endpoint gave a thought and no reply",
    "empty": "the endpoint gave an empty reply",
    "refused": "the model refused",
    "filtered": "a content filter held the reply back",
    "bad_call": "the arguments of a call are no JSON object",
}


# The version of the weights of a token that nobody sampled.
NO_VERSION = -1


@dataclass(slots=True)
class TokenSequence:
    """Token ids with, for each, whether the policy sampled it and its log-probability when it did.

    The lists have one length, T. ``logprobs`` is 0.0 where ``mask`` is 0. ``versions`` is the version of the weights
    that sampled the token, -1 where ``mask`` is 0; it stays empty for samplers that count no versions.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def append_context(self, ids: Sequence[int]) -> None:
        """Tokens that somebody else wrote: prompts, tool output, template."""
        if self.versions:
            self.versions += [NO_VERSION] * len(ids)
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float], versions: Sequence[int] = ()) -> None:
        """Tokens that the policy sampled, with their log-probabilities under the sampling distribution.

        Args:
            versions: of the weights that sampled them, where the sampler counts versions.

        Raises:
            ValueError: not one log-probability, or version, for each token.
        """
        if len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} tokens were sampled, but {len(logprobs)} log-probabilities given")
        if versions and len(versions) != len(ids):
            raise ValueError(f"{len(ids)} tokens were sampled, but {len(versions)} versions of the weights given")
        if versions or self.versions:
            self._count_versions()
            self.versions += versions or [NO_VERSION] * len(ids)
        self.ids += ids
        self.mask += [1] * len(ids)
        self.logprobs += logprobs

    def extend(self, other: TokenSequence) -> None:
        """Append another sequence, mask and log-probabilities with it."""
        if self.versions or other.versions:
            self._count_versions()
            self.versions += other.versions or [NO_VERSION] * len(other)
        self.ids += other.ids
        self.mask += other.mask
        self.logprobs += other.logprobs

    def piece(self, start: int, stop: int) -> TokenSequence:
        """A copy of the tokens from ``start`` up to ``stop``."""
        cut = slice(start, stop)
        return TokenSequence(self.ids[cut], self.mask[cut], self.logprobs[cut], self.versions[cut])

    def copy(self) -> TokenSequence:
        """A sequence of its own lists."""
        return TokenSequence(self.ids[:], self.mask[:], self.logprobs[:], self.versions[:])

    def _count_versions(self) -> None:
        """Fill in the versions of the tokens so far, which nobody counted."""
        self.versions += [NO_VERSION] * (len(self.ids) - len(self.versions))

    def without_loss(self) -> TokenSequence:
        """A copy of which nothing is trained on."""
        return TokenSequence([*self.ids], [0] * len(self), [0.0] * len(self))

    @property
    def sampled(self) -> int:
        """How many tokens the policy sampled."""
        return sum(self.mask)

    def to_dict(self) -> dict[str, list[Any]]:
        """Plain JSON types; ``TokenSequence(**record)`` reads it back."""
        record: dict[str, list[Any]] = {"ids": self.ids, "mask": self.mask, "logprobs": self.logprobs}
        return record | ({"versions": self.versions} if self.versions else {})


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's reply: the assistant's text without special tokens, and why it stopped.

    Attributes:
        text: the action; with native calls a `rlvr.envs.tools.calls.ActionWithCalls`.
        stop: see `StopReason`. A reply with the stop "error" says why in ``error``; its episode ends there, invalid.
        tokens: how many tokens were sampled, as far as the agent knows.
        context: ids of the messages that were new to the agent, up to where the assistant begins; they carry no loss.
        completion: the tokens of the reply, with mask and log-probabilities; None for agents that deal in text alone.
            With the stop "pause" it is the part that is there so far, and ``context`` is empty.
        limit: with the stops "length" and "context" the limit that was reached, such as ``max_new_tokens 24``.
        flaw: one of `FLAWS`; "" for a reply without.
        usage: what it took, by the names of `Episode.usage`, as far as the agent knows more than its tokens tell.
        model: the version of the model that answered, where the agent learns it from the answer.
        option_logprobs: of a multiple choice by likelihood, log p of each option behind the prompt, in their order.
    """

    text: str
    stop: StopReason = "stop"
    tokens: int = 0
    error: str = ""
    context: Sequence[int] = ()
    completion: TokenSequence | None = None
    limit: str = ""
    flaw: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    option_logprobs: Sequence[float] = ()


@dataclass(slots=True)
class Conversation:
    """One episode as its agent sees it; an agent reads it, and changes its own ``memory`` alone.

    Attributes:
        key: names the episode; sampling noise is drawn from (agent seed, key, position), so an episode does
            not depend on what else is in the batch.
        messages: all messages so far; the last one is not the assistant's when the agent is asked.
        tokens: the append-only sequence; stays empty for agents that deal in text alone.
        rendered: how many of ``messages`` are in ``tokens`` already.
        partial_completion: the first tokens of the next reply, with mask and log-probabilities, where there are some
            already: an agent that samples tokens continues from them, and returns them as part of its completion.
        env: the unwrapped environment, for the agents that ask it for its expert's or a random action; a
            policy never touches it. None when the episode runs elsewhere.
        tools: the JSON schemas of tools that the chat template describes, as one JSON text; empty where there are none.
        opening: how many messages stand before the first observation: the system prompt, and turns of worked examples.
        from_program: whether a program wrote the messages, in whatever order: where the chat template refuses them, the
            reply is an error, which ends the episode and not the run.
        memory: what the agent that plays it keeps from turn to turn, such as keys and values; for no one else.
    """

    key: str
    messages: list[Message]
    tokens: TokenSequence = field(default_factory=TokenSequence)
    rendered: int = 0
    partial_completion: TokenSequence = field(default_factory=TokenSequence)
    env: gym.Env[str, str] | None = None
    tools: str = ""
    opening: int = 0
    from_program: bool = False
    memory: Any = field(default=None, repr=False, compare=False)

    def append_reply(self, reply: Reply) -> None:
        """Append an agent's reply: its message, and its tokens where it has any; of a paused one keep the tokens.

        Raises:
            ValueError: the agent has no reply (stop "context" or "error").
        """
        if reply.stop == "pause":
            self.partial_completion = reply.completion or TokenSequence()
            return
        if reply.stop not in ("stop", "length"):
            raise ValueError(f"the agent has no reply to {self.key!r}: {reply.error or 'the context is full'}")
        self.messages.append({"role": "assistant", "content": reply.text})
        if reply.completion is not None:
            self.tokens.append_context(reply.context)
            self.tokens.extend(reply.completion)
            self.rendered = len(self.messages)
            self.partial_completion = TokenSequence()


class Agent(Protocol):
    """Who acts. ``act`` answers a batch of conversations, in order, one reply each, and leaves them as they are."""

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        ...


class ConcurrentAgent(Agent, Protocol):
    """An agent that answers many conversations at once and each as soon as it can, such as an inference server."""

    def submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        """One future reply to each conversation, in order. No conversation waits for another one's reply."""
        ...


Capability = Literal[
    "submit",
    "act_each",
    "in_any_thread",
    "given_up",
    "answered_before",
    "usage",
    "description",
    "call_style",
    "close",
]


def capability(agent: object, name: Capability) -> Any:
    """What an agent offers beside ``act``; None where it has no such attribute, and where that is None, False or empty.

    - ``submit(conversations)``: futures of the replies, see `ConcurrentAgent`.
    - ``act_each(conversations)``: pairs of a conversation's index and its reply, each as soon as it is there.
    - ``in_any_thread``: whether the agent may be asked in the thread of an environment; scripted agents may.
    - ``given_up``: why no further reply is worth asking for.
    - ``answered_before()``: told that an earlier run had replies.
    - ``usage``: `rlvr.agents.models.openai.Usage`, calls and tokens so far.
    - ``description``: plain JSON, as `Episode.agent` has it.
    - ``call_style``: how the agent's chat template writes calls of tools, one of `rlvr.envs.tools.STYLES`.
    - ``close()``: lets go of what the agent holds.
    """
    return getattr(agent, name, None) or None
