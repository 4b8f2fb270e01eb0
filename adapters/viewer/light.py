"""What evaluations count of an episode, as a short JSON text, and the `Episode` without texts that is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from rlvr.adapters.viewer.traces import INVALID, ChatMessage, Trace
from rlvr.agents import Episode
from rlvr.agents.conversation import TokenSequence
from rlvr.agents.episode import Turn
from rlvr.envs.core.verdict import STATUSES, Verdict

MAX_TEXT = 1_000  # characters of an answer or a reason; of a longer one a digest stands behind them
_NO_TOKENS = TokenSequence()


def light_record(trace: Trace, group: str) -> str:
    """The text. ``group`` names the task where the record does not."""
    actions = [_action(message) for message in trace.messages if message.is_action]
    verdict = None
    if trace.status in STATUSES:
        answer = _short(trace.answer) if trace.answer else None
        reason = trace.error if trace.status in INVALID else trace.reason
        verdict = [trace.reward or 0.0, trace.status, answer, _short(reason), trace.parts]
    seed = trace.seed
    if seed is None:  # of another tool, whose tasks have names
        seed = int(_digest(trace.task or group), 16)
    usage = trace.usage if "completion_tokens" in trace.usage else trace.usage | {"completion_tokens": trace.sampled}
    task = [trace.env, trace.key, seed, trace.index, trace.split or None, trace.level, trace.sample]
    return json.dumps([*task, verdict, actions, usage if trace.sampled else trace.usage, trace.env_digest])


def _action(message: ChatMessage) -> list[str]:
    digest = _digest(message.text + "".join(map(str, message.calls)))
    return [digest, message.stop or "stop", message.flaw, message.status if message.status in STATUSES else ""]


def light_episode(record: Any) -> Episode:
    """The episode of a text that `light_record` made; in the place of each action stands a digest."""
    env_id, key, seed, index, split, level, sample, verdict, actions, usage, digest = record
    made = Episode(env_id, key, seed, 0, sample, index, split, level, tokens=_NO_TOKENS, usage=usage, env_digest=digest)
    made.turns = [Turn("", "user", text, stop, 0.0, _judged(status), flaw=flaw) for text, stop, flaw, status in actions]
    if verdict is not None:
        made.verdict = Verdict(*verdict)
        if made.turns:
            made.turns[-1].reward = verdict[0]
    return made


_OF_A_TURN: Mapping[str, Verdict] = {status: Verdict(0.0, status) for status in STATUSES}  # type: ignore[arg-type]


def _judged(status: str) -> Verdict | None:
    return _OF_A_TURN.get(status)


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … {_digest(text)}"
