"""One recorded episode as the viewer shows it: messages, verdict, tokens, from any tool's record.

A `Trace` is plain JSON. It is made from records that nobody vouches for: a field of another type than expected is left
out or shown as text, never an error that hides the rest of the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

from rlvr.agents.conversation import FLAWS
from rlvr.agents.episode import require_version
from rlvr.agents.evaluation.summary import USAGE
from rlvr.envs.core.json_text import load_json
from rlvr.envs.tasks.digests import digest_parts

THINK = ("<think>", "</think>")
CALL = ("<tool_call>", "</tool_call>")
INVALID = ("timeout", "verifier_error", "env_error")


class NotATrace(ValueError):
    """A record that holds no episode in any form that is read here."""


@dataclass(slots=True)
class ChatMessage:
    """One message: ``reasoning`` is the thinking apart from the text, ``end`` the count of tokens up to its end.

    ``expert`` marks a turn that the policy did not play, but the expert before it. ``value`` is the measured value of
    the state before the turn, ``measured`` the turn's advantage by these values, and ``advantage`` the one that it was
    trained with, the mean over its tokens. ``flaw`` is what came in the place of a reply, one of
    `rlvr.agents.conversation.FLAWS`. ``branch`` is the index of its conversation in `Trace.branches`.
    """

    role: str
    text: str
    reasoning: str = ""
    images: list[str] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    call_id: str = ""
    reward: float | None = None
    status: str = ""
    reason: str = ""
    stop: str = ""
    flaw: str = ""
    end: int = 0
    example: bool = False
    expert: bool = False
    value: float | None = None
    measured: float | None = None
    advantage: float | None = None
    branch: int = 0

    @property
    def is_action(self) -> bool:
        """Whether the policy wrote it."""
        return self.role == "assistant" and not self.example and not self.expert


@dataclass(slots=True)
class TraceBranch:
    """A conversation of several: its name, and the index of the message that it goes on from, -1 for none."""

    name: str
    follows: int


@dataclass(slots=True)
class Trace:
    """One episode. ``rows`` is the digest of its table's rows, where that is known; ``columns`` has a value for each
    token [T] by the name of the column; ``ids`` the tokens [T]. ``agent`` and ``usage`` are as `rlvr.agents.Episode`
    has them. ``branches`` are the conversations, none where there is one. ``line`` is the line of JSONL of an
    episode of ours that stands in another form of file.
    """

    source: str
    env: str = ""
    key: str = ""
    split: str = ""
    level: int | None = None
    seed: int | None = None
    index: int | None = None
    rows: tuple[str, ...] = ()
    group: int | None = None
    sample: int = 0
    step: int | None = None
    status: str = ""
    reward: float | None = None
    success: bool | None = None
    reason: str = ""
    answer: str = ""
    error: str = ""
    parts: dict[str, float] = field(default_factory=dict)
    messages: list[ChatMessage] = field(default_factory=list)
    tools: str = ""
    forked_from: dict[str, Any] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    env_digest: str = ""
    agent: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    branches: list[TraceBranch] = field(default_factory=list)
    line: str = ""

    @property
    def sampled(self) -> int:
        """How many tokens the policy sampled."""
        return int(self.usage.get("completion_tokens", sum(self.columns.get("mask", ()))))

    def take_usage(self, **amounts: Any) -> None:
        """Note what it took, by the names of `rlvr.agents.Episode.usage`; what is no number from 0 on is left out."""
        known = {name: n for name, value in amounts.items() if (n := number_of(value)) is not None and n >= 0}
        self.usage |= known

    @property
    def task(self) -> str:
        """What the samples of one task have in common; "" where the record does not say which task it is of."""
        if self.seed is None and self.index is None and not self.key:
            return ""
        if self.seed is None and self.index is None:
            return f"{self.env}/{self.key}"
        return "/".join(map(str, (self.env, self.split, self.level, self.seed, self.index, *self.rows)))

    def take_reward(self, reward: float | None) -> None:
        """Set the reward, and the outcome that it means: success from 1 on."""
        self.reward = reward
        if reward is not None:
            self.take_success(reward >= 1)

    def take_success(self, success: bool) -> None:
        """Set whether the task was solved, once the reward is known."""
        self.success = success
        is_partial = self.reward is not None and self.reward > 0
        self.status = "correct" if success else "partial" if is_partial else "wrong"

    def take_error(self, error: str) -> None:
        """Set what went wrong through no fault of the policy."""
        self.status, self.success, self.error = "env_error", None, error

    def reply(self) -> str:
        """All that the policy wrote, calls of tools among it, without its thinking."""
        parts = []
        for message in self.messages:
            if message.is_action:
                parts += [message.text, *(f"{call['name']}({call['arguments']})" for call in message.calls)]
        return "\n".join(filter(None, parts))

    def actions(self) -> str:
        """All that the policy wrote, one message after another."""
        return "\n".join(m.reasoning + m.text for m in self.messages if m.is_action)


def text_of(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def number_of(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole_of(value: Any) -> int | None:
    """A whole number that fits in 63 bits, or None."""
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return value if fits else None


def mapping_of(value: Any) -> Mapping[str, Any]:
    """A foreign object; an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings_of(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a foreign list; none of anything else."""
    return [each for each in list_of(value) if isinstance(each, Mapping)]


def list_of(value: Any) -> list[Any]:
    """A foreign list; an empty one in the place of anything else."""
    return value if isinstance(value, list) else []


def named_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a foreign object."""
    return {str(name): number for name, value in values.items() if (number := number_of(value)) is not None}


def split_thinking(text: str) -> tuple[str, str]:
    """The thinking before ``</think>``, and what follows it."""
    head, end, rest = text.partition(THINK[1])
    if not end:
        return ("", text) if THINK[0] not in text else (text.partition(THINK[0])[2], text.partition(THINK[0])[0])
    before, begin, inside = head.partition(THINK[0])
    return (inside, before + rest) if begin else (head, rest)


def split_calls(text: str) -> tuple[str, list[dict[str, str]]]:
    """The text without its ``<tool_call>`` blocks, and the calls; a block that cannot be read is shown as it is."""
    calls, texts, position = [], [], 0
    while (start := text.find(CALL[0], position)) >= 0 and (end := text.find(CALL[1], start)) >= 0:
        inside = text[start + len(CALL[0]) : end].strip()
        texts.append(text[position:start])
        calls.append(_call(inside))
        position = end + len(CALL[1])
    return "".join([*texts, text[position:]]), calls


def _call(inside: str) -> dict[str, str]:
    try:
        value = load_json(inside)
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return {"id": "", "name": value["name"], "arguments": text_of(value.get("arguments"))}
    name = inside.partition("<function=")[2].partition(">")[0] if inside.startswith("<function=") else ""
    return {"id": "", "name": name, "arguments": inside}


def image_of(value: Any) -> str:
    """A data URL of an image that is plain pixels; "" for anything else, an SVG or an address among it."""
    if not isinstance(value, str):
        return ""
    kind, comma, data = value.partition(",")
    plain = kind in {f"data:image/{name};base64" for name in ("png", "jpeg", "webp", "gif")}
    is_base64 = data.isascii() and data.replace("+", "").replace("/", "").rstrip("=").isalnum()
    return value if comma and plain and is_base64 else ""


def episode_trace(record: Mapping[str, Any], source: str = "rlvr") -> Trace:
    """The trace of what `rlvr.agents.Episode.to_dict` wrote, in this version or an older one.

    Raises:
        ValueError: it is of a newer version.
    """
    require_version(record)
    verdict = mapping_of(record.get("verdict"))
    turns = mappings_of(record.get("turns"))
    rewards = [number_of(turn.get("reward")) or 0.0 for turn in turns]
    status = text_of(verdict.get("status"))
    training = mapping_of(record.get("training"))
    digest = text_of(record.get("env_digest"))
    rows = digest_parts(digest).get("rows", "")
    notes: dict[str, Any] = {"training": training} if training else {}
    trace = Trace(
        source,
        env=text_of(record.get("env_id")),
        key=text_of(record.get("key")),
        split=text_of(record.get("split")),
        level=whole_of(record.get("level")),
        seed=whole_of(record.get("seed")),
        index=whole_of(record.get("index")),
        group=whole_of(record.get("group")),
        sample=whole_of(record.get("sample")) or 0,
        status=status or "unfinished",
        reward=number_of(sum(rewards)) if turns else number_of(verdict.get("reward")),
        success=status == "correct" if status and status not in INVALID else None,
        reason=text_of(verdict.get("reason")),
        answer=text_of(verdict.get("answer")),
        error=text_of(verdict.get("reason")) if status in INVALID else "",
        parts=named_numbers(mapping_of(verdict.get("parts"))),
        tools=text_of(record.get("tools")),
        forked_from=_origin(record.get("forked_from")),
        rows=(rows,) if re.fullmatch(r"[0-9a-f]{16}", rows) else (),
        env_digest=digest,
        agent=dict(mapping_of(record.get("agent"))),
        notes=notes | ({"environment": digest} if digest else {}),
    )
    trace.take_usage(**{name: mapping_of(record.get("usage")).get(name) for name in USAGE})
    if record.get("system"):
        trace.messages.append(ChatMessage("system", text_of(record["system"])))
    for example in mappings_of(record.get("examples")):
        reasoning, text = split_thinking(text_of(example.get("content")))
        trace.messages.append(ChatMessage(text_of(example.get("role")), text, reasoning, example=True))
    prefix, replies = whole_of(record.get("prefix")) or 0, []
    branches = mappings_of(record.get("branches"))
    for number, turn in enumerate(turns):
        observation, action = _turn(turn)
        action.expert = number < prefix
        conversation = whole_of(turn.get("branch")) or 0
        observation.branch = action.branch = conversation if 0 <= conversation <= len(branches) else 0
        trace.messages += [observation, action]
        replies.append(len(trace.messages) - 1)
    trace.branches = [TraceBranch("first conversation", -1)] * bool(branches)
    for number, branch in enumerate(branches, 1):
        follows = whole_of(branch.get("follows"))
        point = replies[follows] if follows is not None and 0 <= follows < len(replies) else -1
        is_earlier = point >= 0 and trace.messages[point].branch < number  # a circle has no beginning
        trace.branches.append(TraceBranch(f"branch {number}", point if is_earlier else -1))
    final = text_of(record.get("final_observation") or record.get("closing"))
    if final:
        trace.messages.append(ChatMessage("environment", final))
    _take_tokens(trace, mapping_of(record.get("tokens")), training)
    _take_credit(trace, training)
    return trace


def _take_credit(trace: Trace, training: Mapping[str, Any]) -> None:
    """Of each turn the advantage that it was trained with, beside the one by measured values.

    ``turn_values`` of the record has the value of the state before each turn, null where it was not measured.
    """
    turns = [message for message in trace.messages if message.role == "assistant" and not message.example]
    recorded, shaped = training.get("turn_values"), number_of(training.get("shaped_reward"))
    if isinstance(recorded, list) and len(recorded) == len(turns):
        values = [*map(number_of, recorded), trace.reward if shaped is None else shaped]
        for turn, (value, after) in zip(turns, pairwise(values), strict=True):
            turn.value = value
            # A_k = V(s_(k+1)) - V(s_k), and R - V of the last turn
            turn.measured = after - value if value is not None and after is not None else None
    mask, advantages, begin = trace.columns.get("mask", []), trace.columns.get("advantage", []), 0
    for turn in turns if mask and advantages else ():
        tokens = zip(advantages[begin : turn.end], mask[begin : turn.end], strict=True)
        sampled = [advantage for advantage, on in tokens if on]
        turn.advantage = fmean(sampled) if sampled else None
        begin = max(begin, turn.end)


def _origin(value: Any) -> dict[str, Any]:
    """Where a fork comes from: key, turn, file, line, and by whom it was played."""
    if not isinstance(value, dict) or whole_of(value.get("turn")) is None:
        return {}
    by = value.get("by")
    return {
        "key": text_of(value.get("key")),
        "turn": whole_of(value["turn"]),
        "file": text_of(value.get("file")),
        "line": whole_of(value.get("line")),
        "by": [text_of(each) for each in by] if isinstance(by, list) else [],
    }


def _turn(turn: Mapping[str, Any]) -> tuple[ChatMessage, ChatMessage]:
    """The observation and the action."""
    image = image_of(turn.get("image"))
    observation = ChatMessage(
        text_of(turn.get("role")) or "user", text_of(turn.get("observation")), images=[image] * bool(image)
    )
    verdict = mapping_of(turn.get("verdict"))
    reasoning, text = split_thinking(text_of(turn.get("action")))
    text, calls = split_calls(text)
    action = ChatMessage(
        "assistant",
        text,
        reasoning,
        calls=calls,
        reward=number_of(turn.get("reward")),
        status=text_of(verdict.get("status")),
        reason=text_of(verdict.get("reason")),
        stop=text_of(turn.get("stop")),
        flaw=flaw if (flaw := text_of(turn.get("flaw"))) in FLAWS else "",
        end=whole_of(turn.get("end")) or 0,
    )
    return observation, action


# The columns of a record, under the names that the page shows; a list [T], or one number for every sampled token.
COLUMNS = {
    "advantages": "advantage",
    "weights": "weight",
    "logprobs": "log-prob at the update",
    "old_logprobs": "old log-prob",
    "ref_logprobs": "reference log-prob",
    "entropy": "entropy",
    "entropies": "entropy",
    "versions": "weight version",
    "weight_versions": "weight version",
}


def _take_tokens(trace: Trace, tokens: Mapping[str, Any], training: Mapping[str, Any]) -> None:
    ids = numbers_of(tokens.get("ids"))
    if not ids:
        return
    trace.ids = [int(number) for number in ids]
    columns = {"mask": numbers_of(tokens.get("mask")), "log-prob": numbers_of(tokens.get("logprobs"))}
    if not {*columns["mask"]} <= {0.0, 1.0}:
        columns["mask"] = []
    mask = columns["mask"]
    for record in (tokens, training):
        for name, shown in COLUMNS.items():
            if name not in record or (record is tokens and name == "logprobs"):
                continue
            value = number_of(record[name])
            columns[shown] = [value * on for on in mask] if value is not None else numbers_of(record[name])
    trace.columns = {name: column for name, column in columns.items() if len(column) == len(ids)}


def numbers_of(value: Any) -> list[float]:
    """A list of finite numbers; none where it is anything else."""
    if not isinstance(value, list):
        return []
    numbers = [number_of(each) if not isinstance(each, bool) else float(each) for each in value]
    return [] if any(number is None for number in numbers) else [number for number in numbers if number is not None]
