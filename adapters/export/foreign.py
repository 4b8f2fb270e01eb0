"""Logs that other tools wrote, as episodes: what filters, writes and trains on ours does so on theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from rlvr.adapters.export.atif import NotOurs, episode_of
from rlvr.adapters.export.inspect_log import episode_of_sample
from rlvr.adapters.viewer.foreign import (
    READERS,
    inspect_records,
    log_traces,
    parquet_records,
    read_inspect,
    trace_of,
)
from rlvr.adapters.viewer.traces import THINK, ChatMessage, NotATrace, Trace
from rlvr.agents.conversation import Message, StopReason, TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.agents.evaluation.records import episode_of_record, record_of_line
from rlvr.envs import Verdict
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.verdict import STATUSES, Status
from rlvr.envs.tools.calls import Call, write_call

STOPS = ("stop", "length")


class NotAnEpisode(ValueError):
    """A log whose messages are no conversation of observations and actions; the text is the end of "12 …"."""


def read_file(path: Path, problems: list[str]) -> Iterator[Episode | NotAnEpisode]:
    """What a file of episodes or of another tool's logs holds, one after the other.

    Args:
        problems: gets a sentence where the last line is torn; the line is left as it is.

    Raises:
        ImportError: what reads the file is missing.
        ValueError: the file, or a line of it, is none that is read here.
    """
    if READERS.get(path.suffix) is read_inspect:
        for record, evaluation in inspect_records(path):
            ours = _ours(record)
            yield from (ours,) if ours is not None else map(_episode, log_traces(record, evaluation))
        return
    if path.suffix == ".parquet":
        for number, record in enumerate(parquet_records(path), 1):
            yield _of_record(record, number, path)
        return
    if path.suffix in READERS:
        for trace in READERS[path.suffix](path):
            yield _episode(trace)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                problems.append(f"the last line of {path} is not whole, and is left out")
            elif line.strip():
                yield _of_record(record_of_line(line, number, path), number, path)


def _of_record(record: Any, number: int, path: Path) -> Episode | NotAnEpisode:
    if not isinstance(record, dict) or ("env_id" in record and isinstance(record.get("turns"), list)):
        return episode_of_record(record, number, path)
    try:
        return _ours(record) or _episode(trace_of(record))
    except NotATrace as error:
        raise ValueError(f"line {number} of {path} is not an episode: {error}") from error


def _ours(record: Any) -> Episode | None:
    """The episode that `rlvr export` wrote as a trajectory or as a sample of Inspect."""
    for read in (episode_of, episode_of_sample) if isinstance(record, dict) else ():
        with suppress(NotOurs):
            return read(record)
    return None


def _episode(trace: Trace) -> Episode | NotAnEpisode:
    try:
        return episode_of_trace(trace)
    except NotAnEpisode as error:
        return error


def episode_of_trace(trace: Trace) -> Episode:
    """The episode of a log: observations are what stands between the policy's messages.

    Thinking and calls that the log has apart are written into the action, as Qwen's templates write them. A log without
    a grade has no verdict. Tokens are kept where the log says which were sampled, with their log-probabilities.

    Raises:
        NotAnEpisode: two conversations, two actions in a row, or what an episode cannot say.
    """
    if len(trace.branches) > 1:
        raise NotAnEpisode("of several conversations (branches or agents), of which it is not said which to take")
    opening, rest = _opening(trace.messages)
    episode = Episode(
        trace.env or trace.source,
        trace.key or f"{trace.source}/{trace.group}/{trace.sample}",
        trace.seed or 0,
        group=trace.group or 0,
        sample=trace.sample,
        index=trace.index,
        split=trace.split or None,
        level=trace.level,
        system="\n\n".join(message.text for message in opening if message.role == "system") or None,
        tools=trace.tools,
        examples=[_as_message(message) for message in opening if message.role != "system"],
        env_digest=trace.env_digest,
        agent=dict(trace.agent),
        usage=dict(trace.usage),
    )
    waiting: list[ChatMessage] = []
    for message in rest:
        if message.is_action:
            episode.turns.append(_turn(waiting, message))
            waiting = []
        else:
            waiting.append(message)
    episode.final_observation = _text(waiting)
    episode.tokens = _tokens(trace)
    _grade(episode, trace)
    return episode


def _opening(messages: Sequence[ChatMessage]) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """System prompt and worked examples, and the rest."""
    last = max((index for index, message in enumerate(messages) if message.example), default=-1)
    while last + 1 < len(messages) and messages[last + 1].role == "system":
        last += 1
    opening, rest = [*messages[: last + 1]], [*messages[last + 1 :]]
    if any(message.role == "system" for message in rest):
        raise NotAnEpisode("with a system message in the middle, which an episode cannot say")
    return opening, rest


def _turn(observed: Sequence[ChatMessage], reply: ChatMessage) -> Turn:
    if not observed:
        raise NotAnEpisode("with a reply that follows no observation")
    images = [image for message in observed for image in message.images]
    if len(images) > 1 or reply.images:
        raise NotAnEpisode("with several images in a turn, or one in a reply")
    role = "tool" if all(message.role == "tool" for message in observed) else "user"
    stop = cast("StopReason", reply.stop if reply.stop in STOPS else "stop")
    return Turn(_text(observed), role, _action(reply), stop, image="".join(images), end=reply.end)


def _text(messages: Sequence[ChatMessage]) -> str:
    return "\n\n".join(message.text for message in messages)


def _action(message: ChatMessage) -> str:
    thought = f"{THINK[0]}\n{message.reasoning.strip()}\n{THINK[1]}\n\n" if message.reasoning.strip() else ""
    calls = [_call(call) for call in message.calls]
    text = message.text.strip("\n") if thought or calls else message.text
    return thought + "\n".join([*filter(None, [text]), *calls])


def _call(call: dict[str, str]) -> str:
    try:
        arguments: Any = load_json(call["arguments"] or "{}")
        if isinstance(arguments, dict):
            return write_call(Call(call["name"], arguments), "hermes")
    except ValueError:
        pass
    raise NotAnEpisode("with a call whose arguments are no JSON object")


def _as_message(message: ChatMessage) -> Message:
    return {"role": message.role, "content": _action(message) if message.role == "assistant" else message.text}


def _tokens(trace: Trace) -> TokenSequence:
    mask, logprobs = (trace.columns.get(name) for name in ("mask", "log-prob"))
    if mask is None or logprobs is None or not len(mask) == len(logprobs) == len(trace.ids):
        return TokenSequence()
    return TokenSequence([*trace.ids], [int(each) for each in mask], [*logprobs])


def _grade(episode: Episode, trace: Trace) -> None:
    if trace.status not in STATUSES or not episode.turns:
        return
    reward = trace.reward or 0.0
    status = cast("Status", trace.status)
    episode.verdict = Verdict(reward, status, trace.answer or None, trace.error or trace.reason, trace.parts)
    episode.turns[-1].reward, episode.turns[-1].verdict = reward, episode.verdict
    episode.terminated = True
