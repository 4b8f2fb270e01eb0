"""Episode: what a rollout returns and everything downstream consumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlvr.agents.conversation import Message, StopReason, TokenSequence, opening_messages
from rlvr.envs import Verdict
from rlvr.envs.core.hints import nearest
from rlvr.envs.core.terminal import as_html
from rlvr.envs.core.verdict import TRUE_REWARD
from rlvr.envs.tools.calls import ActionWithCalls, NativeCall, action_of_record

VERSION = 1  # of the record; a new one is for records that earlier versions of rlvr would misread
OVERPAID = 0.5  # a return that is so much above the true reward


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """Which task to play, and as which member of which group.

    Attributes:
        seed, index, split, level: the task, as ``reset`` takes it; an index of None is the seed's first task, and
            a split or level of None the environment's own.
        group: episodes of one group play one task.
        sample: which member of its group this is.
        salt: whatever else should change the sampling noise, such as the training step.
        prefix: actions of somebody else, such as the expert, that are played before the agent is asked; those that the
            episode is too short for are left out.
    """

    seed: int
    index: int | None = None
    split: str | None = None
    level: int | None = None
    group: int = 0
    sample: int = 0
    salt: str = ""
    prefix: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """The ``options`` of ``reset``."""
        options = {"index": self.index, "split": self.split, "level": self.level}
        return {name: value for name, value in options.items() if value is not None}

    def key(self, env_id: str) -> str:
        """The name of the episode, from which its sampling noise is drawn."""
        parts = (env_id, self.split, self.level, self.seed, self.index, self.sample, self.salt)
        return "/".join(str(part) for part in parts)


@dataclass(slots=True)
class Turn:
    """One observation, the policy's action, and its reward.

    ``end`` is the length of the episode's tokens after the reply: token t belongs to the first turn with end > t. It is
    0 for agents that deal in text alone, and for turns of a prefix. ``branch`` is the number of the conversation that
    it belongs to: 0, or 1 and more for those of `Episode.branches`, whose turns add nothing to the episode's tokens.
    ``image`` is the image beside the observation, as a data URL of a PNG; "" if there is none. ``outputs`` are those of
    several native calls, see `rlvr.agents.conversation.Message`; an action that made native calls is a
    `rlvr.envs.tools.calls.ActionWithCalls`. ``limit``, ``flaw`` and ``option_logprobs`` are the reply's, see
    `rlvr.agents.conversation.Reply`. ``foreign`` is as of `Episode`.
    """

    observation: str
    role: str
    action: str
    stop: StopReason
    reward: float = 0.0
    verdict: Verdict | None = None
    end: int = 0
    image: str = ""
    limit: str = ""
    flaw: str = ""
    option_logprobs: list[float] = field(default_factory=list)
    branch: int = 0
    outputs: list[str] = field(default_factory=list)
    foreign: dict[str, Any] = field(default_factory=dict)

    def message(self) -> Message:
        """The observation as a chat message."""
        message: Message = {"role": self.role, "content": self.observation}
        if self.image:
            message["images"] = [self.image]
        if self.outputs:
            message["outputs"] = [*self.outputs]
        return message

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``Turn.from_dict`` reads it back."""
        record = {name: value for name in self.__slots__ if (value := getattr(self, name)) or name not in _SELDOM}
        if isinstance(self.action, ActionWithCalls):
            record["native"] = self.action.to_dict()
        record.pop("foreign", None)
        return record | {"verdict": _plain(self.verdict)} | self.foreign

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Turn:
        """The turn of a record that `to_dict` made.

        Raises:
            KeyError, TypeError, ValueError: the record is none of a turn.
        """
        fields = _with_foreign(record, {*cls.__slots__, "native"})
        fields["verdict"] = _verdict(record.get("verdict"))
        fields["action"] = action_of_record(fields["action"], fields.pop("native", None))
        return cls(**fields)


@dataclass(slots=True)
class EpisodeBranch:
    """A conversation that an episode held beside its first: of a sub-agent, say, or after its history was shortened.

    Attributes:
        follows: the turn whose reply it goes on from, with the tokens up to there, which carry no loss; -1 for none.
        tokens: ids, loss mask and log-probabilities [T].
    """

    follows: int
    tokens: TokenSequence


@dataclass(slots=True)
class Episode:
    """One run of one environment.

    Attributes:
        env_id, split, level, seed, index: the task.
        system: the system prompt.
        examples: turns of worked examples before the first observation, the user's and the assistant's in turn; nobody
            sampled them, and nothing is trained on them.
        tools: the JSON schemas of tools that the chat template describes, as one JSON text.
        group, sample: which group it belongs to, and its index there.
        tokens: ids, loss mask and log-probabilities [T]; empty for agents that deal in text alone, and until the
            episode ends or is paused.
        verdict: the final verdict; None before the end, and not ``valid`` when the fault was ours.
        final_observation: what the environment returned after the last action.
        partial_completion: the completion in which the episode was paused, if it was; a rollout continues from it.
        training: what a learner made of it, plain JSON: shaped reward, advantage and weight of each token, or why it
            was dropped.
        env_digest: what tasks and grades depend on, see `rlvr.envs.tasks.digests`; "" where nobody noted it.
        forked_from: of an episode that goes on from a turn of another one, that one's key and the turn, plain JSON.
        agent: who played an evaluation's episode, plain JSON: ``model``, ``revision``, ``endpoint`` and ``sampling``,
            and ``native_tools`` where ``tools`` were left to it.
        branches: the conversations beside the first, numbered from 1 in `Turn.branch`.
        prefix: how many of the first turns somebody else played (`RolloutRequest.prefix`); they carry no loss.
        usage: what it took; a name that is missing is not known. ``prompt_tokens`` (``cached_tokens`` of them),
            ``completion_tokens`` (``reasoning_tokens`` of them) and ``cost`` are sums over the replies; an evaluation's
            episode has ``model_seconds``, from asking to the reply, ``env_seconds``, in calls of the environment, and
            ``ended``, when the last of them returned, in seconds since 1970.
        version: of the form of the record; one without it is of version 1.
        foreign: the fields of its record that somebody else added, which are kept as they are.
    """

    env_id: str
    key: str
    seed: int
    group: int = 0
    sample: int = 0
    index: int | None = None
    split: str | None = None
    level: int | None = None
    system: str | None = None
    tools: str = ""
    turns: list[Turn] = field(default_factory=list)
    tokens: TokenSequence = field(default_factory=TokenSequence)
    verdict: Verdict | None = None
    final_observation: str = ""
    terminated: bool = False
    truncated: bool = False
    partial_completion: TokenSequence = field(default_factory=TokenSequence)
    training: dict[str, Any] = field(default_factory=dict)
    forked_from: dict[str, Any] = field(default_factory=dict)
    env_digest: str = ""
    examples: list[Message] = field(default_factory=list)
    agent: dict[str, Any] = field(default_factory=dict)
    branches: list[EpisodeBranch] = field(default_factory=list)
    prefix: int = 0
    usage: dict[str, float] = field(default_factory=dict, compare=False)  # seconds differ each time
    version: int = VERSION
    foreign: dict[str, Any] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.verdict is not None

    @property
    def reward(self) -> float:
        """The undiscounted return: the sum of the rewards of all turns."""
        return sum(turn.reward for turn in self.turns)

    @property
    def valid(self) -> bool:
        """Whether it may enter the training signal."""
        return self.verdict is not None and self.verdict.valid

    @property
    def success(self) -> bool:
        """Whether the task was solved, by its verdict."""
        return self.verdict is not None and self.verdict.success

    @property
    def true_reward(self) -> float | None:
        """What the episode was worth, as the part ``true_reward`` of its verdict says; None where it does not say."""
        return self.verdict.parts.get(TRUE_REWARD) if self.verdict is not None else None

    @property
    def hacked(self) -> bool:
        """Whether it was paid at least one half more than it was worth."""
        true_reward = self.true_reward
        return self.valid and true_reward is not None and self.reward - true_reward >= OVERPAID

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the agent sampled: as its replies say, else those in ``tokens``."""
        return int(self.usage.get("completion_tokens", self.tokens.sampled))

    @property
    def hit_token_limit(self) -> bool:
        """Whether any reply ran into a token limit."""
        return any(turn.stop != "stop" for turn in self.turns)

    def opening(self) -> list[Message]:
        """The messages before the first observation."""
        return opening_messages(self.system, self.examples)

    def messages(self, branch: int = 0) -> list[Message]:
        """The whole conversation, as chat messages; of a branch what is its own, see `branches`."""
        messages = [] if branch else self.opening()
        for turn in self.turns:
            if turn.branch == branch:
                messages.append(turn.message())
                messages.append({"role": "assistant", "content": turn.action})
        return messages

    def all_messages(self) -> list[Message]:
        """The messages of all conversations, one conversation after the other."""
        return [message for branch in range(1 + len(self.branches)) for message in self.messages(branch)]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; ``Episode.from_dict`` reads it back."""
        record: dict[str, Any] = {
            name: value for name in self.__slots__ if (value := getattr(self, name)) or name not in _SELDOM
        }
        record["turns"] = [turn.to_dict() for turn in self.turns]
        record["tokens"] = self.tokens.to_dict()
        record["partial_completion"] = self.partial_completion.to_dict()
        record["verdict"] = _plain(self.verdict)
        if self.branches:
            record["branches"] = [{"follows": b.follows, "tokens": b.tokens.to_dict()} for b in self.branches]
        record.pop("foreign", None)
        return record | self.foreign

    def __str__(self) -> str:
        task = " ".join(f"{name} {getattr(self, name)}" for name in ("split", "level", "seed", "index", "sample"))
        outcome = f"{self.verdict.status}, reward {self.reward:g}" if self.verdict else "unfinished"
        reason = f": {self.verdict.reason}" if self.verdict and self.verdict.reason else ""
        return f"{self.env_id} {task}: {outcome} after {len(self.turns)} turns{reason}"

    def _repr_html_(self) -> str:
        messages = (f"{message['role']}\n{message['content']}" for message in self.all_messages())
        return "".join(map(as_html, [str(self), *messages, *filter(None, [self.final_observation])]))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Episode:
        """The episode of a record that `to_dict` made.

        Raises:
            KeyError, TypeError, ValueError: the record is none of an episode, or of a newer version.
        """
        require_version(record)
        fields = _with_foreign(record, {*cls.__slots__})
        if missing := [name for name in ("env_id", "key", "seed") if name not in fields]:
            raise ValueError(f"{', '.join(missing)} missing")
        fields["turns"] = [Turn.from_dict(turn) for turn in record.get("turns", [])]
        for name in ("tokens", "partial_completion"):
            fields[name] = TokenSequence(**fields.get(name, {}))
        fields["verdict"] = _verdict(record.get("verdict"))
        branches = record.get("branches", [])
        fields["branches"] = [EpisodeBranch(b["follows"], TokenSequence(**b["tokens"])) for b in branches]
        return cls(**fields)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema (draft 2020-12) of what `to_dict` writes, made of the types of the fields."""
        from pydantic import TypeAdapter, create_model

        call: Any = create_model("NativeCall", **dict.fromkeys(NativeCall._fields, (str, ...)))  # type: ignore[call-overload]
        native: Any = create_model("ActionWithCalls", words=(str, ...), calls=(list[call], ...))
        schema = TypeAdapter(cls).json_schema()
        written = native.model_json_schema()
        schema["$defs"] |= written.pop("$defs")
        schema["$defs"]["Turn"]["properties"]["native"] = written
        for held in (schema, schema["$defs"]["Turn"]):
            del held["properties"]["foreign"]  # whose names stand in the record itself
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def require_version(record: Mapping[str, Any]) -> None:
    """Check that an episode's record is of a version that is read here.

    Raises:
        ValueError: it is of a newer one, or of none.
    """
    if not (type(version := record.get("version", 1)) is int and 1 <= version <= VERSION):
        raise ValueError(
            f"the record is of version {version!r:.20}, and this rlvr reads version {VERSION}: update rlvr"
        )


# Fields of an episode or a turn that are left out where they are empty.
_SELDOM = frozenset(
    {"forked_from", "env_digest", "examples", "agent", "branches", "prefix", "usage"}
    | {"image", "limit", "flaw", "option_logprobs", "branch", "outputs", "native", "foreign"}
)


def _with_foreign(record: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The fields of a record, those that are not known together as ``foreign``.

    Raises:
        ValueError: one is spelt like a field that each record has and this one has not: a figure would go wrong.
    """
    foreign = {name: value for name, value in record.items() if name not in known or name == "foreign"}
    for name in foreign:
        if near := nearest(name, known - _SELDOM - record.keys()):
            raise ValueError(f"unknown field {name!r}; did you mean {near!r}?")
    return {name: value for name, value in record.items() if name not in foreign} | {"foreign": foreign}


def _plain(verdict: Verdict | None) -> dict[str, Any] | None:
    return None if verdict is None else verdict.to_dict()


def _verdict(record: Mapping[str, Any] | None) -> Verdict | None:
    return None if record is None else Verdict.from_dict(record)
