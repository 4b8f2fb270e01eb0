"""When a run samples: between its updates, or during them.

sync    a step is sampled with the weights that it updates.
async   while a step is updated, the `depth` steps after it are being sampled. Which task belongs to which step is
        decided when it is drawn, and a step's tasks are begun when the policy has had (step - depth) updates, not
        before: so no token that a step learns from is more than `depth` updates old, however long the episodes are.
        A step waits for all of its own episodes, the oldest, and the others go on meanwhile; none is thrown away, and
        none is preferred for being short. A run that goes on from a checkpoint plays again what was under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.players.self_play import SelfPlayRollout
from rlvr.agents.rollout import Rollout
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.sampling.collect import Collected, Collector, Play, TaskOrder
from rlvr.algorithms.sampling.prefixes import ExpertPrefixes
from rlvr.algorithms.sampling.protocol import Sampler
from rlvr.algorithms.schedules.background import BackgroundRollout


class Schedule(Protocol):
    """Collects the episodes of each step.

    Attributes:
        collector: what draws the tasks and gathers the episodes; its state is the checkpoint's.
    """

    collector: Collector

    def ready(self, step: int) -> None:
        """The sampler has the weights after so many updates."""
        ...

    def collect(self, step: int, *, traced: bool = False) -> Collected:
        """The episodes of the update after so many; see `Collector`."""
        ...

    def close(self) -> None: ...


class SyncSchedule:
    """Sample, then update."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def ready(self, step: int) -> None:
        """Nothing is sampled before it is asked for."""

    def collect(self, step: int, *, traced: bool = False) -> Collected:
        return self.collector(step, traced=traced)

    def close(self) -> None:
        """Nothing is under way."""


class AsyncSchedule:
    """Sample up to ``depth`` steps ahead of the update.

    Args:
        collector: plays with ``rollout``.
        steps: of the run; none is drawn beyond them.
    """

    def __init__(self, collector: Collector, rollout: BackgroundRollout, depth: int, steps: int) -> None:
        self.collector, self.rollout, self.depth, self.steps = collector, rollout, depth, steps

    def ready(self, step: int) -> None:
        """Begin the steps that may be sampled with these weights and have not been begun."""
        # age of a token = updates at its use - updates when sampled <= ahead - step <= depth
        for ahead in range(step, min(step + self.depth + 1, self.steps)):
            self.rollout.submit(self.collector.draw_ahead(ahead))

    def collect(self, step: int, *, traced: bool = False) -> Collected:
        """Wait for the episodes of the step."""
        return self.collector(step, traced=traced)

    def close(self) -> None:
        """Begin no more episodes; those under way end with the process."""
        self.rollout.close()


def build_schedule(
    config: TrainConfig, rollout: Rollout, order: TaskOrder, sampler: Sampler, prefixes: ExpertPrefixes | None = None
) -> Schedule:
    """The schedule that a config names; ``prefixes`` are what the expert plays first.

    Raises:
        ConfigError: a game against language models cannot be sampled ahead.
    """
    # Its opponents are the weights of now, which another thread is updating.
    if config.schedule.kind == "async" and isinstance(rollout, SelfPlayRollout):
        raise ConfigError("schedule: async does not play against 'self' or other models: use schedule: sync")
    background = BackgroundRollout(rollout) if config.schedule.kind == "async" else None
    play: Play = recovering(background or rollout, sampler)
    collector = Collector(play, order, config, config.filters(), prefixes)
    if background is None:
        return SyncSchedule(collector)
    return AsyncSchedule(collector, background, config.schedule.depth, config.steps)


def recovering(play: Play, sampler: Sampler) -> Play:
    """The same; episodes that ended because the sampler was lost are played again once it is back.

    Nothing that was played is counted twice: an episode is replaced by the one that its request is played as again.
    """

    def played(requests: Sequence[RolloutRequest | Episode]) -> list[Episode]:
        episodes, recovered = play(requests), 0
        # Once more for each recovery: what was lost with a server that died again is played again.
        while failed := [index for index, episode in enumerate(episodes) if lost(episode)]:
            recoveries = sampler.recover()
            if recoveries == recovered:  # they have failed for another reason
                break
            recovered = recoveries
            for index, episode in zip(failed, play([requests[i] for i in failed]), strict=True):
                episodes[index] = episode
        return episodes

    return played


def lost(episode: Episode) -> bool:
    """Whether the agent failed to reply in it."""
    return bool(episode.turns) and episode.turns[-1].stop == "error"
