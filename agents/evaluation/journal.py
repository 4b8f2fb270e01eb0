"""The replies of episodes that have not ended yet, on disk: what was sampled once is not paid for twice.

A finished episode is in the record. Of one that was under way when the evaluation broke off, the journal has each reply
with a digest of what it answered. Played again, the environment observes the same, and the agent is asked only where
the journal ends; where the environment observes something else, the reply is asked for anew.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from rlvr.agents.conversation import Agent, Conversation, Reply, TokenSequence, capability
from rlvr.envs.core.files import open_plain, write_whole
from rlvr.envs.core.json_text import load_json
from rlvr.envs.tools.calls import ActionWithCalls, action_of_record

KEPT = ("stop", "length")  # the stops of a reply that an environment was given


class Journal:
    """Replies by the conversation that they answer, kept in a JSONL file from the moment they are there.

    Args:
        path: the file; a torn last line is left out.
        done: the keys of episodes that have ended, whose replies are of no more use.

    Raises:
        ValueError: a line before the last is no reply.
        OSError: the file is a link or no plain file, or cannot be written.
    """

    def __init__(self, path: Path, done: Collection[str] = ()) -> None:
        self._path = path
        self._writing = threading.Lock()
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [_record(line, number, path) for number, line in enumerate(lines, 1)]
        records = [record for record in records if record["key"] not in done]
        self._keys = {record["key"] for record in records}
        self._replies = {record["answers"]: _reply(record) for record in records}
        write_whole(path, "".join(json.dumps(record) + "\n" for record in records))
        self._file: IO[Any] = open_plain(path, "a")

    def __len__(self) -> int:
        return len(self._replies)

    def reply_to(self, conversation: Conversation) -> Reply | None:
        """The reply that was given to this conversation; None if there was none."""
        return self._replies.get(digest_of(conversation))

    def write(self, conversation: Conversation, reply: Reply) -> None:
        """Keep a reply; an error is none."""
        if reply.stop not in KEPT:
            return
        record: dict[str, Any] = {"key": conversation.key, "answers": digest_of(conversation), "text": reply.text}
        record |= {"stop": reply.stop, "tokens": reply.tokens}
        record |= {name: value for name in ("limit", "flaw", "model") if (value := getattr(reply, name))}
        if isinstance(reply.text, ActionWithCalls):
            record["native"] = reply.text.to_dict()
        if reply.option_logprobs:
            record["option_logprobs"] = [*reply.option_logprobs]
        if reply.usage:
            record["usage"] = dict(reply.usage)
        if reply.completion is not None:
            record |= {"context": [*reply.context], "completion": reply.completion.to_dict()}
        line = json.dumps(record) + "\n"
        with self._writing:
            if self._file.closed:  # the evaluation has ended without waiting for this reply
                return
            self._keys.add(conversation.key)
            self._file.write(line)
            self._file.flush()

    def close(self, done: Collection[str]) -> None:
        """Close the file, and remove it where the episodes of all its replies have ended."""
        with self._writing:
            self._file.close()
            if self._keys <= {*done}:
                self._path.unlink(missing_ok=True)


class JournalledAgent:
    """Answers from a journal where it can; else as another agent does, and writes that down.

    Args:
        agent: who is asked.
        journal: what it has answered.
    """

    def __init__(self, agent: Agent, journal: Journal) -> None:
        self.agent = agent
        self.journal = journal

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        replies = dict(self.act_each(conversations))
        return [replies[index] for index in range(len(conversations))]

    def act_each(self, conversations: Sequence[Conversation]) -> Iterator[tuple[int, Reply]]:
        """Each reply as soon as the agent tells it, with the index of its conversation; those of the journal first."""
        unknown: list[int] = []
        for index, conversation in enumerate(conversations):
            reply = self.journal.reply_to(conversation)
            if reply is None:
                unknown.append(index)
            else:
                yield index, reply
        if not unknown:
            return
        asked = [conversations[index] for index in unknown]
        act_each = capability(self.agent, "act_each")
        for number, reply in act_each(asked) if act_each else enumerate(self.agent.act(asked)):
            self.journal.write(asked[number], reply)
            yield unknown[number], reply


class ConcurrentJournalledAgent(JournalledAgent):
    """`JournalledAgent` for an agent that answers each conversation as soon as it can."""

    def submit(self, conversations: Sequence[Conversation]) -> list[Future[Reply]]:
        """A future reply to each conversation, in order."""
        return [self._submit(conversation) for conversation in conversations]

    def _submit(self, conversation: Conversation) -> Future[Reply]:
        written: Future[Reply] = Future()
        recorded = self.journal.reply_to(conversation)
        if recorded is not None:
            written.set_result(recorded)
            return written
        (asked,) = capability(self.agent, "submit")([conversation])

        def write(asked: Future[Reply]) -> None:
            if not written.set_running_or_notify_cancel():
                return
            try:
                reply = asked.result()
                self.journal.write(conversation, reply)
            except BaseException as error:  # it belongs to whoever waits for the reply
                written.set_exception(error)
            else:
                written.set_result(reply)

        written.add_done_callback(lambda written: asked.cancel() if written.cancelled() else None)
        asked.add_done_callback(write)
        return written


def journalled(agent: Agent, journal: Journal) -> JournalledAgent:
    """The agent with a journal; it has a ``submit`` if the agent has."""
    return (ConcurrentJournalledAgent if capability(agent, "submit") else JournalledAgent)(agent, journal)


def digest_of(conversation: Conversation) -> str:
    """32 hexadecimal digits of all that a reply may depend on."""
    inputs = json.dumps([conversation.key, conversation.tools, conversation.messages])
    return blake2b(inputs.encode(), digest_size=16).hexdigest()


def _record(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = load_json(line)
        key, answers, reply = record["key"], record["answers"], _reply(record)
        if not isinstance(key, str) or not isinstance(answers, str) or reply.stop not in KEPT:
            raise TypeError(f"key {key!r}, answers {answers!r}, stop {reply.stop!r}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"line {number} of {path} is no reply: {error!r}") from error
    return record


def _reply(record: dict[str, Any]) -> Reply:
    completion = TokenSequence(**record["completion"]) if "completion" in record else None
    return Reply(
        action_of_record(record["text"], record.get("native")),
        record["stop"],
        record["tokens"],
        context=record.get("context", ()),
        completion=completion,
        limit=str(record.get("limit", "")),
        flaw=str(record.get("flaw", "")),
        usage={str(name): float(value) for name, value in record.get("usage", {}).items()},
        model=str(record.get("model", "")),
        option_logprobs=tuple(float(value) for value in record.get("option_logprobs", ())),
    )
