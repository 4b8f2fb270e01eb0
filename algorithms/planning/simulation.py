"""A discrete-event simulation of a run's schedule: samplers, environments whose times have a heavy tail, the learner.

It knows tokens, seconds and places, and nothing of what is learned. Its sync and async are those of
`rlvr.algorithms.schedules`: the tasks of step s are begun after s - depth updates, oldest first, and a step waits for
its own episodes alone.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rlvr.envs.core.seeding import stream


@dataclass(frozen=True)
class SimulatedRun:
    """What is simulated; times in seconds.

    steps, episodes    updates, and episodes a step
    turns              of an episode
    samplers           engines, or processes that sample
    slots              episodes that a sampler has under way at once
    turn_seconds       of a turn, by the number of turns that its sampler makes at once
    env_seconds        mean time of an environment's step
    tail               sigma of its logarithm (lognormal); 0 for a constant
    workers            environment steps at once, over all samplers; 0 for any number
    update_seconds, sync_seconds
    depth              steps sampled ahead; 0 is sync
    continuous         whether a sampler begins a turn while others go on (vLLM); else it makes those that wait, at once
    """

    steps: int
    episodes: int
    turns: int = 1
    samplers: int = 1
    slots: int = 256
    turn_seconds: Callable[[int], float] = lambda active: 1.0
    env_seconds: float = 0.0
    tail: float = 1.0
    workers: int = 0
    update_seconds: float = 1.0
    sync_seconds: float = 0.0
    depth: int = 0
    continuous: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "episodes", "turns", "samplers", "slots"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


@dataclass
class SimulatedTimes:
    """What came out.

    seconds      of the whole run
    step         mean seconds between two updates, the first left out where there are more
    sampling     share of the time that a sampler makes a turn, mean over samplers
    learning     share of the time that the learner updates
    working      share of the time that a worker steps an environment; of the episodes under way, without a bound
    staleness    mean updates between the beginning of an episode and its use
    """

    seconds: float
    step: float
    sampling: float
    learning: float
    working: float
    staleness: float


@dataclass
class _Sampler:
    active: int = 0
    waiting: deque[int] = field(default_factory=deque)  # episodes whose turn is to be made
    busy: float = 0.0
    since: float = 0.0
    free: int = 0


class _Simulation:
    def __init__(self, run: SimulatedRun) -> None:
        self.run = run
        self.now = 0.0
        self.events: list[tuple[float, int, str, int]] = []
        self.count = 0
        self.samplers = [_Sampler(free=run.slots) for _ in range(run.samplers)]
        total = run.steps * run.episodes
        self.turns = [0] * total
        self.version_at = [0] * total  # updates when it was begun
        self.home = [0] * total
        self.left = [run.episodes] * run.steps
        self.released = 0  # episodes that may begin
        self.started = 0
        self.updates = 0
        self.updating = False
        self.env_waiting: deque[int] = deque()
        self.env_active = 0
        self.env_busy = self.learner_busy = 0.0
        self.updated_at: list[float] = []
        self.staleness = 0
        self.rng: random.Random = stream("simulation", run.seed)
        # mean of a lognormal is exp(mu + sigma^2 / 2)
        self.mu = math.log(run.env_seconds) - run.tail**2 / 2 if run.env_seconds > 0 else 0.0

    def at(self, delay: float, kind: str, which: int) -> None:
        self.count += 1  # events of one time happen in the order in which they were made
        heapq.heappush(self.events, (self.now + delay, self.count, kind, which))

    def __call__(self) -> SimulatedTimes:
        self.release()
        while self.events:
            self.now, _, kind, which = heapq.heappop(self.events)
            getattr(self, f"on_{kind}")(which)
        run, seconds = self.run, self.now
        # without a bound on workers, as many as there can be episodes under way
        capacity = run.workers or min(run.samplers * run.slots, run.episodes * (run.depth + 1))
        # the first step waits for its whole batch, whatever the depth
        later = self.updated_at[1:] or self.updated_at
        first = self.updated_at[0] if len(self.updated_at) > 1 else 0.0
        return SimulatedTimes(
            seconds=seconds,
            step=(later[-1] - first) / len(later),
            sampling=sum(sampler.busy for sampler in self.samplers) / (len(self.samplers) * seconds),
            learning=self.learner_busy / seconds,
            working=self.env_busy / (capacity * seconds),
            staleness=self.staleness / (run.steps * run.episodes),
        )

    def release(self) -> None:
        """Let the steps begin that may be sampled with these weights."""
        # step s may begin once s - depth updates have been made, so staleness <= depth
        ahead = min(self.updates + self.run.depth + 1, self.run.steps)
        self.released = ahead * self.run.episodes
        self.fill_slots()

    def fill_slots(self) -> None:
        """Fill the places, one sampler after the other, the emptiest first."""
        # a heap of (-free places, sampler)
        open_ = [(-sampler.free, index) for index, sampler in enumerate(self.samplers) if sampler.free]
        heapq.heapify(open_)
        while self.started < self.released and open_:
            free, index = heapq.heappop(open_)
            self.samplers[index].free -= 1
            self.start_episode(index)
            if free + 1 < 0:
                heapq.heappush(open_, (free + 1, index))
        for index in range(len(self.samplers)):
            self.make_turns(index)

    def start_episode(self, index: int) -> None:
        episode, self.started = self.started, self.started + 1
        self.home[episode], self.version_at[episode] = index, self.updates
        self.samplers[index].waiting.append(episode)

    def make_turns(self, index: int) -> None:
        sampler = self.samplers[index]
        # without continuous batching a sampler makes one batch to its end
        if not sampler.waiting or (sampler.active and not self.run.continuous):
            return
        if not sampler.active:
            sampler.since = self.now
        joined = [*sampler.waiting]  # all of them join the batch
        sampler.waiting.clear()
        sampler.active += len(joined)
        seconds = self.run.turn_seconds(sampler.active)
        for episode in joined:
            self.at(seconds, "turn", episode)

    def on_turn(self, episode: int) -> None:
        sampler = self.samplers[self.home[episode]]
        sampler.active -= 1
        if not sampler.active:  # busy from the first turn to the last, however many are made at once
            sampler.busy += self.now - sampler.since
        self.turns[episode] += 1
        if self.run.env_seconds > 0:
            self.env_waiting.append(episode)
            self.step_environments()
        else:
            self.on_env(episode)
        self.make_turns(self.home[episode])

    def step_environments(self) -> None:
        while self.env_waiting and (not self.run.workers or self.env_active < self.run.workers):
            self.env_active += 1
            # log t ~ N(mu, tail^2), mean t = env_seconds
            seconds = math.exp(self.rng.gauss(self.mu, self.run.tail)) if self.run.tail else self.run.env_seconds
            self.env_busy += seconds
            self.at(seconds, "stepped", self.env_waiting.popleft())

    def on_stepped(self, episode: int) -> None:
        self.env_active -= 1
        self.step_environments()
        self.on_env(episode)

    def on_env(self, episode: int) -> None:
        home = self.home[episode]
        if self.turns[episode] < self.run.turns:
            self.samplers[home].waiting.append(episode)
            self.make_turns(home)
            return
        self.left[episode // self.run.episodes] -= 1
        if self.started < self.released:  # its place is the only one that is free
            self.start_episode(home)
            self.make_turns(home)
        else:
            self.samplers[home].free += 1
        self.learn()

    def learn(self) -> None:
        # a step is learned from once its own episodes have ended, oldest step first
        if not self.updating and self.updates < self.run.steps and self.left[self.updates] == 0:
            self.updating = True
            step = range(self.updates * self.run.episodes, (self.updates + 1) * self.run.episodes)
            self.staleness += sum(self.updates - self.version_at[episode] for episode in step)
            self.learner_busy += self.run.update_seconds
            # sampling goes on during both, with the weights there are
            self.at(self.run.update_seconds + self.run.sync_seconds, "updated", 0)

    def on_updated(self, _: int) -> None:
        self.updating = False
        self.updates += 1
        self.updated_at.append(self.now)
        if self.updates < self.run.steps:
            self.release()
            self.learn()


def simulate(run: SimulatedRun) -> SimulatedTimes:
    """Play the schedule of a run without its work; the same seed gives the same times."""
    return _Simulation(run)()
