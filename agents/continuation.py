"""States inside episodes that have ended, and what a policy earns when it continues from them.

An episode is played again, action by action, in an environment of its own; `fork()` keeps the state before each turn.
A state may also lie inside a completion, whose tokens up to there are then given. Means over such continuations are
values of states by Monte Carlo (VinePPO, 2410.01679) and scores of thoughts that end at a budget (BRPO, 2505.13438).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium as gym

from rlvr.agents.conversation import Agent, Conversation, Message, TokenSequence
from rlvr.agents.driver.env_calls import DEFAULT_SECONDS, ThreadedEnvCalls
from rlvr.agents.driver.episode_loop import ActiveEpisode, EpisodeLoop, replay
from rlvr.agents.episode import Episode, Turn
from rlvr.envs import TextEnv
from rlvr.envs.core.images import text_of


class CannotReplay(ValueError):
    """An episode that cannot be played again: its environment cannot fork, or is not deterministic."""


@dataclass(slots=True)
class BranchStart:
    """Where an agent continues: an environment for it alone, and the conversation so far."""

    env: TextEnv
    conversation: Conversation


@dataclass(slots=True)
class BranchPoint:
    """A state inside an episode: before the token at a position of its sequence.

    Attributes:
        env: the environment before the turn's action; never stepped, only forked.
        messages: all before the turn's reply.
        tokens: up to the end of the previous reply.
        rendered: how many messages are in ``tokens``.
        partial_completion: the turn's completion up to the state.
        tools: the JSON schemas of tools that the chat template describes, as one JSON text.
        opening: how many of ``messages`` stand before the first observation.
    """

    env: TextEnv
    messages: list[Message]
    tokens: TokenSequence
    rendered: int
    partial_completion: TokenSequence
    tools: str = ""
    opening: int = 0

    def start(self, key: str, forced: Sequence[int] = ()) -> BranchStart:
        """A copy to continue from. ``key`` names its sampling noise; ``forced`` tokens come next and carry no loss."""
        env = self.env.fork()
        partial = self.partial_completion.copy()
        partial.append_context(forced)
        messages, tokens = [*self.messages], self.tokens.copy()
        conversation = Conversation(key, messages, tokens, self.rendered, partial, env, self.tools, self.opening)
        return BranchStart(env, conversation)


def branch_points(env: TextEnv, episode: Episode, positions: Iterable[int]) -> list[BranchPoint]:
    """The states before the tokens at these positions, each of them in a completion; by position.

    Args:
        env: an environment of the kind the episode was played in; it is left as it is.

    Raises:
        CannotReplay: the environment cannot fork, or plays differently the second time.
    """
    if not isinstance(env, TextEnv):
        raise CannotReplay(f"{env!r} cannot fork, so nothing can continue from a state inside its episodes")
    twin = env.spawn()
    messages = episode.opening()
    opening = len(messages)
    points: list[BranchPoint] = []
    wanted = sorted(positions)
    ends = [0, *(turn.end for turn in episode.turns)]
    rendered = 0
    for (turn, observation), (before, end) in zip(replay(twin, episode), pairwise(ends), strict=True):
        if text_of(observation) != turn.observation:
            raise CannotReplay(f"{episode.env_id} returned another observation the second time: it cannot be branched")
        messages.append(turn.message())
        begin = reply_start(episode.tokens, before, end)
        for position in (each for each in wanted if before <= each < end):
            partial = episode.tokens.piece(begin, max(begin, position))
            tokens = episode.tokens.piece(0, before)
            points.append(BranchPoint(twin.fork(), [*messages], tokens, rendered, partial, episode.tools, opening))
        if end == ends[-1]:
            break
        messages.append({"role": "assistant", "content": turn.action})
        rendered = len(messages) if end else 0  # a prefix is rendered with the first prompt
    return points


def reply_start(tokens: TokenSequence, before: int, end: int) -> int:
    """Where the completion begins of a turn whose tokens are [before, end): at its first sampled token."""
    return next((index for index in range(before, end) if tokens.mask[index]), end)


def continue_from(
    agent: Agent, starts: Sequence[BranchStart], batch_size: int = 256, timeout: float | None = DEFAULT_SECONDS
) -> list[float | None]:
    """The return of each start from there on; None where the fault was not the policy's. See `play_on`."""
    episodes = play_on(agent, starts, batch_size, timeout)
    return [episode.reward if episode.valid else None for episode in episodes]


def play_on(
    agent: Agent, starts: Sequence[BranchStart], batch_size: int = 256, timeout: float | None = DEFAULT_SECONDS
) -> list[Episode]:
    """The rest of an episode from each start on: its turns and their rewards, in order.

    Args:
        batch_size: how many starts are continued at once.
        timeout: seconds that a step of an environment may take; None for no limit.
    """
    left = list(range(len(starts)))
    active = [_activate(start) for start in starts]
    while left:  # more than once where the agent pauses in the middle of a completion
        loop = EpisodeLoop(agent, ThreadedEnvCalls(0, timeout), batch_size)
        ended = [left[number] for number, _ in loop.run(active[index] for index in left)]
        left = sorted(index for index in ended if not active[index].episode.done)
    return [each.episode for each in active]


def _activate(start: BranchStart) -> ActiveEpisode:
    conversation, fresh = start.conversation, start.env.fork()
    message = conversation.messages[-1]
    episode = Episode(env_id="", key=conversation.key, seed=0)
    episode.turns.append(Turn(message["content"], message["role"], "", "stop"))
    active = ActiveEpisode(start.env, episode, conversation)
    active.make = lambda: _FromBranch(fresh.fork(), message["content"])
    return active


class _FromBranch(gym.Wrapper[Any, str, Any, str]):
    """An environment whose resets begin where a branch does, for a late step that is played again."""

    def __init__(self, env: TextEnv, observation: str) -> None:
        super().__init__(env)
        self._observation = observation

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """The branch's last observation: the state is there."""
        return self._observation, {}
