"""States inside episodes that are over, and what a policy earns when it plays on from them.

An episode is played again, action by action, in an environment of its own; `fork()` keeps the state before each turn.
A state may lie inside a reply, too: the reply's tokens up to there are then said already. The value of a state by
Monte Carlo (VinePPO), and answers to thoughts cut at a budget (BRPO), are means over such continuations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlvr.agents.conversation import Agent, Conversation, Message, TokenSequence, heard
from rlvr.agents.episode import Episode, Turn
from rlvr.envs import TextEnv
from rlvr.envs.core.deprecation import renamed_in_module
from rlvr.envs.core.images import text_of


class CannotReplay(ValueError):
    """An episode that cannot be played again: its environment cannot fork, or is not deterministic."""


@dataclass(slots=True)
class BranchStart:
    """Where somebody plays on: an environment of his own, and what was said until then."""

    env: TextEnv
    conversation: Conversation


@dataclass(slots=True)
class BranchPoint:
    """A state inside an episode: before the token at a position of its sequence.

    Attributes:
        env: the environment before the turn's action; never stepped, only forked.
        messages: all before the turn's reply.
        tokens: up to the end of the reply before.
        rendered: how many messages are in ``tokens``.
        partial_completion: the turn's reply up to the state.
        tools: what the chat template was told of tools.
    """

    env: TextEnv
    messages: list[Message]
    tokens: TokenSequence
    rendered: int
    partial_completion: TokenSequence
    tools: str = ""

    def start(self, key: str, forced: Sequence[int] = ()) -> BranchStart:
        """A copy to play on from. ``key`` names its sampling noise; ``forced`` tokens are said next, unsampled."""
        env = self.env.fork()
        partial = self.partial_completion.piece(0, len(self.partial_completion))
        partial.append_context(forced)
        conversation = Conversation(key, [*self.messages], self.tokens.piece(0, len(self.tokens)), self.rendered)
        conversation.partial_completion, conversation.env, conversation.tools = partial, env, self.tools
        return BranchStart(env, conversation)


def branch_points(env: TextEnv, episode: Episode, positions: Iterable[int]) -> list[BranchPoint]:
    """The states before the tokens at these positions, each of them in a reply; by position.

    Args:
        env: an environment of the kind the episode was played in; it is left as it is.

    Raises:
        CannotReplay: the environment cannot fork, or plays differently the second time.
    """
    if not isinstance(env, TextEnv):
        raise CannotReplay(f"{env!r} cannot fork, so no state inside an episode can be played on from")
    twin = env.spawn()
    options = {"index": episode.index, "split": episode.split, "level": episode.level}
    observation, _ = twin.reset(
        seed=episode.seed, options={name: value for name, value in options.items() if value is not None}
    )
    messages: list[Message] = [{"role": "system", "content": episode.system}] if episode.system else []
    found: list[BranchPoint] = []
    wanted = sorted(positions)
    ends = [0, *(turn.end for turn in episode.turns)]
    rendered = 0
    for turn, (before, end) in zip(episode.turns, pairwise(ends), strict=True):
        if text_of(observation) != turn.observation:
            raise CannotReplay(f"{episode.env_id} said something else the second time: it cannot be branched")
        messages.append(turn.message())
        begin = reply_start(episode.tokens, before, end)
        for position in (place for place in wanted if before <= place < end):
            branch = BranchPoint(twin.fork(), [*messages], episode.tokens.piece(0, before), rendered, TokenSequence())
            branch.tools = episode.tools
            branch.partial_completion = episode.tokens.piece(begin, max(begin, position))
            found.append(branch)
        if end == ends[-1]:
            break
        messages.append({"role": "assistant", "content": turn.action})
        rendered = len(messages)
        observation = _step(twin, turn)
    return found


def reply_start(tokens: TokenSequence, before: int, end: int) -> int:
    """Where the reply of a turn begins whose tokens are [before, end): at its first sampled token."""
    return next((place for place in range(before, end) if tokens.mask[place]), end)


def _step(env: TextEnv, turn: Turn) -> str:
    return text_of(env.step(turn.action)[0])


def continue_from(agent: Agent, starts: Sequence[BranchStart], batch_size: int = 256) -> list[float | None]:
    """What each start earns from there on; None where the fault was not the policy's."""
    earned: list[float | None] = [0.0] * len(starts)
    waiting = deque(enumerate(starts))
    live: list[tuple[int, BranchStart]] = []
    while waiting or live:
        while waiting and len(live) < batch_size:
            live.append(waiting.popleft())
        replies = agent.act([start.conversation for _, start in live])
        on = []
        for (place, start), reply in zip(live, replies, strict=True):
            if reply.stop == "context":
                continue  # no room to say anything: nothing more is earned
            if reply.stop == "error":
                earned[place] = None
                continue
            start.conversation.messages.append({"role": "assistant", "content": reply.text})
            reward, over = _play(start, reply.text)
            earned[place] = None if reward is None else (earned[place] or 0.0) + reward
            if not over:
                on.append((place, start))
        live = on
    return earned


def _play(start: BranchStart, action: str) -> tuple[float | None, bool]:
    """The reward of one action, and whether it was the last."""
    info: dict[str, Any]
    try:
        observation, reward, terminated, truncated, info = start.env.step(action)
    except Exception:  # whatever an environment raises ends its own continuation alone
        return None, True
    verdict = info.get("verdict")
    if verdict is not None and not verdict.valid:
        return None, True
    if terminated or truncated:
        return float(reward), True
    start.conversation.messages.append(heard(observation, info))
    return float(reward), False


__getattr__ = renamed_in_module(
    __name__,
    {"play_on": "continue_from", "branches": "branch_points", "Branch": "BranchPoint", "Start": "BranchStart"},
    globals(),
)
