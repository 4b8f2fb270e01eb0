"""Goes on from a turn of a recorded episode, by hand or with another agent: a new episode that names its origin.

The environment is made anew and the recorded actions are played again up to that turn, each time that the new episode
goes on: between two actions nothing is kept but the record.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlvr.agents.continuation import CannotReplay
from rlvr.agents.conversation import Agent, Conversation, Reply, TokenSequence
from rlvr.agents.episode import Episode, Turn
from rlvr.agents.rollout import Rollout


def fork(recorded: Episode, turn: int, origin: Mapping[str, Any] | None = None) -> Episode:
    """The turns of an episode before one of them, and that turn without its action.

    It has a key of its own, and ``forked_from`` names the episode's key and the turn.

    Args:
        turn: the first turn that is played anew, from 0.
        origin: more that ``forked_from`` holds, plain JSON.

    Raises:
        ValueError: the episode has no such turn.
    """
    if not 0 <= turn < len(recorded.turns):
        raise ValueError(f"the episode has turns 0 to {len(recorded.turns) - 1}, got {turn}")
    before = [replace(each, end=0) for each in recorded.turns[:turn]]  # its tokens stay with the recorded one
    at = recorded.turns[turn]
    return replace(
        recorded,
        key=f"{recorded.key}/fork {turn} {secrets.token_hex(4)}",
        turns=[*before, Turn(at.observation, at.role, "", "pause", image=at.image, outputs=at.outputs)],
        tokens=TokenSequence(),
        partial_completion=TokenSequence(),
        verdict=None,
        final_observation="",
        terminated=False,
        truncated=False,
        training={},
        prefix=min(recorded.prefix, turn),
        forked_from={**(origin or {}), "key": recorded.key, "turn": turn, "by": []},
    )


class OneAction:
    """An agent that plays one action, and pauses its episode before the next turn."""

    in_any_thread = True

    def __init__(self, action: str | None) -> None:
        self._actions = [] if action is None else [action]

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        """The action, then a pause; for one conversation."""
        return [Reply(self._actions.pop()) if self._actions else Reply("", stop="pause") for _ in conversations]


def go_on(rollout: Rollout, episode: Episode, agent: Agent, name: str = "") -> Episode:
    """The episode with what an agent plays from here on; the one that is given stays as it was.

    Args:
        rollout: plays the environment of the episode; its agent is replaced.
        episode: of `fork`, or of this function.
        agent: deals in text alone. `OneAction` plays one turn, or none, which tells whether the turns before can be
            played again.
        name: added to ``forked_from["by"]``.

    Raises:
        CannotReplay: the environment does not lead to that turn again.
        ValueError: the agent failed.
    """
    (after,) = rollout.with_agent(agent)([copy.deepcopy(episode)])
    verdict = after.verdict
    if verdict is not None and not verdict.valid:
        where, _, reason = verdict.reason.partition(": ")
        if where in ("replay", "reset"):
            raise CannotReplay(f"the episode cannot be played again up to this turn: {reason}")
        if where == "agent":
            raise ValueError(f"the agent gave no action: {reason}")
    if name:
        after.forked_from = {**after.forked_from, "by": [*after.forked_from.get("by", []), name]}
    return after
