"""Search by forks: the best of several replies at each turn, by playing each of them on to the end."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from statistics import fmean

from rlvr.agents.continuation import BranchStart, continue_from
from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.agents.driver.env_calls import DEFAULT_SECONDS
from rlvr.envs import TextEnv


class SearchAgent:
    """Samples several replies at each turn, plays each on to the end from a fork, and acts on the best.

    The value of a reply is the mean return of its continuations, in which the same policy plays: one step of policy
    improvement by rollouts (Tesauro and Galperin, 1996). The reply that is acted on keeps the policy's own tokens, so
    the episodes of a `Rollout` with this agent are training data like any other. It reads the reward of tasks while it
    plays them: it measures what a policy could do with a simulator, never the policy alone.

    Args:
        policy: who replies, in play and in continuations; its noise is drawn from each conversation's key.
        replies: how many are sampled at each turn.
        continuations: of each distinct reply.
        batch_size: how many continuations are under way at once.
        timeout: seconds that a step of an environment may take; None for no limit.

    Raises:
        ValueError: a number below 1.
    """

    def __init__(
        self,
        policy: Agent,
        replies: int = 4,
        continuations: int = 1,
        *,
        batch_size: int = 256,
        timeout: float | None = DEFAULT_SECONDS,
    ) -> None:
        if replies < 1 or continuations < 1:
            raise ValueError(f"replies and continuations must be at least 1, got {replies} and {continuations}")
        self.policy, self.replies, self.continuations = policy, replies, continuations
        self.batch_size, self.timeout = batch_size, timeout

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """The best reply to each conversation, in order; among equals the first.

        Raises:
            TypeError: an environment cannot fork.
        """
        envs = [_forkable(conversation) for conversation in conversations]
        tries = [_twin(each, f"reply {number}") for each in conversations for number in range(self.replies)]
        replies = self.policy.act(tries)
        starts: list[BranchStart] = []
        options: list[dict[str, Reply]] = []  # of each conversation, by what it does
        for index, (env, conversation) in enumerate(zip(envs, conversations, strict=True)):
            mine = replies[index * self.replies : (index + 1) * self.replies]
            # replies that do the same are played on once; one without an action, such as a full context, never
            options.append({reply.text: reply for reply in reversed(mine) if reply.stop in ("stop", "length")})
            for text in options[-1]:
                for number in range(self.continuations):
                    twin = _twin(conversation, f"{text!r} on {number}")
                    twin.env = env.fork()
                    starts.append(BranchStart(twin.env, twin, prefix=(text,)))
        earned = iter(continue_from(self.policy, starts, self.batch_size, self.timeout))
        chosen: list[Reply] = []
        for index, by_text in enumerate(options):
            values = {text: _mean([next(earned) for _ in range(self.continuations)]) for text in by_text}
            # max keeps the first of equals, and dicts their order: the reply that was sampled first is the last here
            best = max(reversed(values), key=values.__getitem__) if values else None
            chosen.append(replies[index * self.replies] if best is None else by_text[best])
        return chosen


def _forkable(conversation: Conversation) -> TextEnv:
    env = conversation.env
    if not isinstance(env, TextEnv):
        raise TypeError(f"search plays on from forks, and {env!r} cannot fork: play the policy without search")
    return env


def _twin(conversation: Conversation, name: str) -> Conversation:
    """A conversation with noise of its own, whose messages and tokens are its own."""
    twin = copy.copy(conversation)
    twin.key = f"{conversation.key}/turn {len(conversation.messages)}/{name}"
    twin.messages, twin.tokens = [*conversation.messages], conversation.tokens.copy()
    return twin


def _mean(returns: Sequence[float | None]) -> float:
    """The mean of those that are known; the worst where none is, through no fault of the policy."""
    valid = [value for value in returns if value is not None]
    return fmean(valid) if valid else -math.inf
