"""Episodes that go on from a turn of a recorded one, by hand or with an agent, and are written when they end."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlvr.adapters.viewer.traces import episode_trace
from rlvr.agents.conversation import Agent
from rlvr.agents.episode import Episode
from rlvr.agents.evaluation.records import cut_torn_line
from rlvr.agents.fork import OneAction, fork, go_on
from rlvr.agents.rollout import Rollout
from rlvr.envs.core.files import open_plain

MAX_FORKS = 32  # that are kept; the oldest is forgotten
MAX_ACTION = 100_000  # characters

Rebuild = Callable[[Mapping[str, Any], str], tuple[Episode, Rollout]]


@dataclass(slots=True)
class _Fork:
    episode: Episode
    rollout: Rollout
    number: int  # of the recorded episode
    busy: threading.Lock = field(default_factory=threading.Lock)


class Forks:
    """The forks of one viewer.

    Args:
        file: the JSONL file that gets each fork when it has ended.
        rebuild: a raw record and its source's name -> the episode, and what plays its environment; it raises
            ValueError for an episode that cannot be played, or must not.
        agents: makes each agent that may play on, by name.
    """

    def __init__(self, file: Path, rebuild: Rebuild, agents: Mapping[str, Callable[[], Agent]]) -> None:
        self.file, self._rebuild, self._agents = file, rebuild, dict(agents)
        self._forks: dict[str, _Fork] = {}
        self._guard = threading.Lock()

    def start(self, record: Mapping[str, Any], row: Mapping[str, Any], turn: Any) -> dict[str, Any]:
        """A fork of a recorded episode, whose actions before a turn are played again.

        Args:
            record: the raw episode.
            row: of the index, with the path and number of its line.

        Raises:
            ValueError: it cannot be played, or has no such turn.
        """
        if not isinstance(turn, int) or isinstance(turn, bool):
            raise ValueError("a fork begins at a turn, a whole number from 0")
        episode, rollout = self._rebuild(record, row["source"])
        forked = fork(episode, turn, {"source": row["source"], "file": row["path"], "line": row["number"] + 1})
        playing = _Fork(go_on(rollout, forked, OneAction(None)), rollout, int(row["id"]))
        name = secrets.token_urlsafe(12)
        with self._guard:
            self._forks[name] = playing
            while len(self._forks) > MAX_FORKS:
                del self._forks[next(iter(self._forks))]
        return self.shown(name)

    def shown(self, name: str) -> dict[str, Any]:
        """A fork as the page shows it.

        Raises:
            KeyError: there is none of this name.
        """
        playing = self._held(name)
        episode = playing.episode
        trace = episode_trace(episode.to_dict())
        messages = [asdict(message) for message in trace.messages]
        return {
            "name": name,
            "origin": playing.number,
            "env": episode.env_id,
            "turn": episode.forked_from["turn"],
            "by": episode.forked_from["by"],
            "done": episode.done,
            "messages": messages if episode.done else messages[:-1],  # the last is the action to come
            "status": trace.status,
            "reward": trace.reward,
            "reason": trace.reason,
            "agents": sorted(self._agents),
            "file": str(self.file) if episode.done else "",
        }

    def go_on(self, name: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Play one ``action``, or with ``agent`` to the end; a fork that has ended is written.

        Raises:
            KeyError: there is no fork of this name.
            ValueError: neither is asked for, the fork has ended or is under way, or cannot go on.
        """
        playing = self._held(name)
        agent, by = self._agent(command)
        if not playing.busy.acquire(blocking=False):
            raise ValueError("the fork is being played: wait until its turn has ended")
        try:
            if playing.episode.done:
                raise ValueError("the fork has ended: begin another one")
            try:
                after = go_on(playing.rollout, playing.episode, agent, by)
            except ValueError:
                raise
            except Exception as error:  # of an agent: an environment without an expert, somebody's own
                raise ValueError(f"the fork cannot go on: {type(error).__name__}: {error}") from error
            if after.done:
                self._write(after)
            playing.episode = after
        finally:
            playing.busy.release()
        return self.shown(name)

    def _agent(self, command: Mapping[str, Any]) -> tuple[Agent, str]:
        action, name = command.get("action"), command.get("agent")
        if isinstance(action, str) and name is None:
            if len(action) > MAX_ACTION:
                raise ValueError(f"an action has at most {MAX_ACTION:,} characters, got {len(action):,}")
            return OneAction(action), "hand"
        if isinstance(name, str) and action is None:
            if name not in self._agents:
                raise ValueError(f"agent must be one of {', '.join(sorted(self._agents))}, got {name!r:.40}")
            return self._agents[name](), name
        raise ValueError('a fork goes on with {"action": text} or {"agent": name}')

    def _held(self, name: str) -> _Fork:
        with self._guard:
            if name not in self._forks:
                raise KeyError("there is no such fork; a viewer that was started again knows none")
            return self._forks[name]

    def _write(self, episode: Episode) -> None:
        with self._guard:
            try:
                cut_torn_line(self.file)
                with open_plain(self.file, "a") as file:
                    file.write(json.dumps(episode.to_dict()) + "\n")
            except OSError as error:
                raise ValueError(f"the fork cannot be written: {error}") from error
