"""Monte Carlo tree search by forks: a policy's replies are tried in copies of the environment before it acts."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from rlvr.agents.continuation import BranchStart, play_on
from rlvr.agents.conversation import Agent, Conversation, Reply
from rlvr.agents.driver.env_calls import DEFAULT_SECONDS
from rlvr.agents.episode import Episode
from rlvr.envs import TextEnv

_NOTHING = Reply("")


@dataclass(slots=True)
class _Node:
    """A state of the tree and what playouts through it earned, from the turn that led to it on."""

    reply: Reply = _NOTHING  # that led here; of no meaning at the root
    sampled: int = 0  # replies sampled here
    children: dict[tuple[str, tuple[int, ...]], _Node] = field(default_factory=dict)
    no_action: Reply = _NOTHING  # the last one sampled here that was none, such as that of a full context
    visits: int = 0
    total: float = 0.0
    best: float = -math.inf
    solved: bool = False  # whether a playout through it succeeded

    def child(self, reply: Reply) -> _Node:
        """The state behind a reply; of equal texts those of other tokens are states of their own."""
        ids = tuple(reply.completion.ids) if reply.completion else ()
        return self.children.setdefault((reply.text, ids), _Node(reply))


class SearchAgent:
    """Acts on the reply that Monte Carlo tree search over a policy's own replies finds best.

    Before each turn the policy plays episodes on to their end from forks of the environment. Each of these playouts
    descends the tree by UCB1 (UCT, Kocsis and Szepesvári, 2006), which needs returns of about 0 to 1, to a state
    with fewer than ``replies`` sampled replies; from there the policy plays, and all its replies join the tree. The
    reply that is acted on lies on a path that succeeded, or else on the one that earned most. What is below it is
    kept for the next turn.

    The replies keep the policy's own tokens, so the episodes of a `Rollout` with this agent are training data like any
    other. A fork also keeps the environment's random state and what it hides, and the search reads rewards: it measures
    what a policy could do with a simulator, never the policy alone.

    Args:
        policy: who replies, in play and in playouts; its noise is drawn from each conversation's key.
        simulations: playouts through the present state, those of earlier turns included; fewer where one succeeds.
        replies: at most so many are sampled in one state.
        exploration: the weight of UCB1's bonus for replies that were tried less often.
        batch_size: how many playouts are under way at once: one of each conversation.
        timeout: seconds that a step of an environment may take; None for no limit.

    Raises:
        ValueError: simulations or replies below 1, or a negative or infinite exploration.
    """

    def __init__(
        self,
        policy: Agent,
        simulations: int = 16,
        replies: int = 4,
        exploration: float = 0.5,
        *,
        batch_size: int = 256,
        timeout: float | None = DEFAULT_SECONDS,
    ) -> None:
        if simulations < 1 or replies < 1:
            raise ValueError(f"simulations and replies must be at least 1, got {simulations} and {replies}")
        if not 0 <= exploration < math.inf:
            raise ValueError(f"exploration must be a number from 0 up, got {exploration}")
        self.policy, self.simulations, self.replies, self.exploration = policy, simulations, replies, exploration
        self.batch_size, self.timeout = batch_size, timeout

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """The best reply to each conversation, in order; among equals the first.

        Raises:
            TypeError: an environment cannot fork.
        """
        envs = [_forkable(conversation) for conversation in conversations]
        roots = [each.memory if isinstance(each.memory, _Node) else _Node() for each in conversations]
        left = [self.simulations - root.visits for root in roots]
        while searching := [n for n, root in enumerate(roots) if left[n] > 0 and not root.solved]:
            starts = [_start(conversations[n], envs[n], left[n]) for n in searching]
            keys = [start.conversation.key for start in starts]
            paths = [self._descend(roots[n]) for n in searching]
            player = _Player(self.policy, dict(zip(keys, paths, strict=True)))
            episodes = play_on(player, starts, self.batch_size, self.timeout)
            for n, key, path, episode in zip(searching, keys, paths, episodes, strict=True):
                _learn(roots[n], player.lines[key], len(path), episode)
                left[n] -= 1
        return [_choose(conversation, root) for conversation, root in zip(conversations, roots, strict=True)]

    def _descend(self, root: _Node) -> list[Reply]:
        """The replies of the path down to the first state where the policy shall be asked, or to the end of one."""
        path: list[Reply] = []
        node = root
        while node.sampled >= self.replies and (tried := [each for each in node.children.values() if each.visits]):
            log = math.log(node.visits)
            node = max(
                tried, key=lambda each: each.total / each.visits + self.exploration * math.sqrt(log / each.visits)
            )
            path.append(node.reply)
        return path


class _Player:
    """Gives each conversation the replies of its path, then the policy's; ``lines`` are all of these, by key."""

    def __init__(self, policy: Agent, paths: Mapping[str, Sequence[Reply]]) -> None:
        self.policy = policy
        self.lines = {key: [*path] for key, path in paths.items()}
        self._given = dict.fromkeys(paths, 0)

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        asked = [each for each in conversations if self._given[each.key] == len(self.lines[each.key])]
        sampled = dict(zip((each.key for each in asked), self.policy.act(asked) if asked else (), strict=True))
        return [self._give(each.key, sampled.get(each.key)) for each in conversations]

    def _give(self, key: str, sampled: Reply | None) -> Reply:
        line = self.lines[key]
        if sampled is not None:
            if sampled.stop == "pause":  # the rest comes in another call
                return sampled
            line.append(sampled)
        self._given[key] += 1
        return line[self._given[key] - 1]


def _learn(root: _Node, line: Sequence[Reply], known: int, episode: Episode) -> None:
    """Add a playout to the tree; one that failed through no fault of the policy leaves its replies without a value."""
    to_go = [*accumulate(turn.reward for turn in reversed(episode.turns))][::-1]
    node = root
    passed = [root]
    for number, reply in enumerate(line):
        node.sampled += number >= known
        if reply.stop not in ("stop", "length"):
            node.no_action = reply
            break
        node = node.child(reply)
        passed.append(node)
    if not episode.valid:
        return
    for node, earned in zip(passed, [to_go[0], *to_go], strict=False):  # the last turn may have no action
        node.visits += 1
        node.total += earned
        node.best = max(node.best, earned)
        node.solved |= episode.success


def _choose(conversation: Conversation, root: _Node) -> Reply:
    """The best reply, whose part of the tree is kept for the next turn; what came in its place where there is none."""
    # max keeps the first of equals, and dicts their order
    best = max(root.children.values(), key=lambda node: (node.solved, node.best), default=None)
    conversation.memory = best
    return best.reply if best else root.no_action


def _forkable(conversation: Conversation) -> TextEnv:
    env = conversation.env
    if not isinstance(env, TextEnv):
        raise TypeError(f"search plays on from forks, and {env!r} cannot fork: play the policy without search")
    return env


def _start(conversation: Conversation, env: TextEnv, number: int) -> BranchStart:
    """The conversation in a fork of its environment, with noise, messages and tokens of its own."""
    twin, fork = copy.copy(conversation), env.fork()
    twin.key = f"{conversation.key}/turn {len(conversation.messages)}/playout {number}"
    twin.messages, twin.tokens = [*conversation.messages], conversation.tokens.copy()
    twin.env, twin.memory = fork, None
    return BranchStart(fork, twin)
