"""Expert prefixes: the expert plays the first turns of an episode, and the policy learns from its own turns alone.

A policy that never succeeds learns nothing. Behind the first turns of an expert it begins in states from which it
sometimes does, and the update is on-policy: the prefix is a part of the prompt (PrefixRL, 2601.18795). How many turns
the expert plays follows the success rate, by the one rule of `ExpertPrefixes.record`.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from rlvr.agents.conversation import Conversation, Reply
from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.scripted import ExpertAgent
from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.config.sections import PrefixSection
from rlvr.envs.core.seeding import stream


class CarefulExpert(ExpertAgent):
    """The expert; where it fails, its episode ends invalid, and the rollout goes on."""

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """One reply to each conversation, in order."""
        return [self._reply(conversation) for conversation in conversations]

    def _reply(self, conversation: Conversation) -> Reply:
        try:
            return Reply(self._action(conversation))
        except Exception as error:  # an expert is a task's own code, and fails in any way
            return Reply("", "error", error=f"{error}")


class ExpertPrefixes:
    """How many turns the expert plays before the policy does, for each environment and level.

    All members of a group have the same prefix, so that they are compared from one state on.

    Args:
        play: plays requests with the expert.
        settings: the section `prefix`.
        first: a task to try the expert on.

    Raises:
        ConfigError: the environment has no expert.
    """

    def __init__(
        self,
        play: Callable[[Sequence[RolloutRequest | Episode]], list[Episode]],
        settings: PrefixSection,
        first: RolloutRequest,
    ) -> None:
        self.play, self.settings = play, settings
        self.shares: dict[str, float] = {}  # by environment and level, once it has been played
        (episode,) = play([first])
        if episode.turns and episode.turns[-1].stop == "error":
            reason = episode.verdict.reason if episode.verdict is not None else ""
            raise ConfigError(f"prefix.share needs an expert, and that of {episode.env_id} fails: {reason}")

    def put_before(self, requests: Sequence[RolloutRequest]) -> list[RolloutRequest]:
        """The requests with the actions that the expert begins each with; none where it does not solve the task."""
        shown = self.play(requests)
        if failed := sum(not episode.success for episode in shown):
            warnings.warn(
                f"the expert does not solve {failed} of {len(shown)} tasks, so they begin without its turns",
                stacklevel=2,
            )
        pairs = zip(requests, shown, strict=True)
        return [replace(request, prefix=self._actions(request, episode)) for request, episode in pairs]

    def _actions(self, request: RolloutRequest, episode: Episode) -> tuple[str, ...]:
        if not episode.success:
            return ()
        # by the task and the step, so that a run that goes on draws the same
        rng: random.Random = stream("expert prefix", request.seed, request.index, request.salt)
        # h = floor(s (K - 1) + u), u ~ U(0, 1): the last turn is not shared out, so that each move of s has an effect
        count = math.floor(self._share(_key(episode)) * (len(episode.turns) - 1) + rng.random())
        return tuple(turn.action for turn in episode.turns[:count])

    def _share(self, key: str) -> float:
        return self.shares.setdefault(key, self.settings.share or 0.0)

    def record(self, episodes: Sequence[Episode]) -> None:
        """Take in how the valid episodes of a group did: more of the expert's turns where they fail, fewer else."""
        if not episodes:
            return
        key, rate = _key(episodes[0]), fmean(episode.success for episode in episodes)
        # s <- s + gain (target - p), within [0, 1]     p of the group; Robbins and Monro, 1951
        moved = self._share(key) + self.settings.gain * (self.settings.target - rate)
        self.shares[key] = min(1.0, max(0.0, moved))

    def stats(self, played: Sequence[Episode]) -> dict[str, float]:
        """For the log: the mean share, and the mean number of turns that the expert played."""
        turns = fmean(episode.prefix for episode in played) if played else 0.0
        share = fmean(self.shares.values()) if self.shares else self.settings.share or 0.0
        return {"prefix_share": share, "prefix_turns": turns}

    def state_dict(self) -> dict[str, Any]:
        """The shares, as plain JSON."""
        return {"shares": dict(self.shares)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these shares."""
        self.shares = dict(state["shares"])


def _key(episode: Episode) -> str:
    return f"{episode.env_id}, level {episode.level}"
