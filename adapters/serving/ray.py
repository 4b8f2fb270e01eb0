"""Ray: environments in actors, anywhere in a cluster, behind our vector environment; see docs/adapters/ray.md.

>>> from rlvr.adapters.serving.ray import actors                            # doctest: +SKIP
>>> from rlvr.envs.vector import VectorEnv                          # doctest: +SKIP
>>> vector = VectorEnv("rlvr/Terminal-v0", 64, backend=actors(num_cpus=1), workers=16, timeout=60)   # doctest: +SKIP

An actor is sent whole batches: as many commands as it carries out in about 20 ms, by how long it took for the last.
What `VectorEnv` says of its back ends holds here too: an actor that dies, with its process or its machine, ends its
environments' episodes with an ``env_error`` verdict, one that is over its time is killed, and others replace them with
the same seeds.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gymnasium.vector import AutoresetMode

from rlvr.adapters.versions import require
from rlvr.envs.core.verdict import Status
from rlvr.envs.vector.env_slot import Command, EnvSlot, Outcome
from rlvr.envs.vector.inline import Done, Job
from rlvr.envs.vector.threads import START_SECONDS, timed_out
from rlvr.envs.vector.worker import pack, unpack

TESTED = ("ray", "2.60", "3")
SLICE = 0.1  # seconds between two looks at what was sent meanwhile
TOGETHER = 0.02  # seconds that the commands of one call should take together
GROWTH = 8  # how much larger a call may be than the one before
CALLS = 2  # to an actor at once, so that it need not wait for us
LOOK_SECONDS = 2.0  # for an actor that is over its time to say what it is at


def actors(**options: Any) -> Callable[[list[EnvSlot], int, float | None], Actors]:
    """The ``backend`` of a `VectorEnv` whose ``workers`` are actors of Ray.

    Args:
        options: of an actor, as for ``ray.remote``: num_cpus, resources, runtime_env, …. ``max_restarts`` stays 0.

    Raises:
        ImportError: Ray is missing, or older than what was tested.
        ValueError: ``max_restarts``: a restarted actor has lost its environments, and would not say so.
    """
    require(*TESTED)
    if options.get("max_restarts"):
        raise ValueError("max_restarts: actors that died are replaced here, with seeds that belong to their indices")
    return partial(Actors, options=options)


class Holder:
    """What an actor is: some of the environments."""

    def __init__(self, slots: dict[int, tuple[Any, ...]]) -> None:
        self._slots: dict[int, EnvSlot] = {}
        for index, (lost, *made_of) in slots.items():
            self._slots[index] = EnvSlot(*made_of)
            self._slots[index].lost = lost

        self._outcomes: list[Outcome] = []  # of the call under way
        self._began = time.monotonic()

    def run(self, jobs: Sequence[Job]) -> tuple[bytes, float]:
        """Carry out commands, each for the environment at its index, in turn: the outcomes, packed, and the seconds."""
        began = self._began = time.monotonic()
        self._outcomes = outcomes = []
        for index, order in jobs:
            outcomes.append(self._slots[index].run(order))
            self._began = time.monotonic()
        try:
            return pack(("done", outcomes)), self._began - began
        except Exception:  # one of them cannot be sent
            pairs = zip(jobs, outcomes, strict=True)
            return pack(("done", [self._sent(*job, outcome) for job, outcome in pairs])), self._began - began

    def _sent(self, index: int, order: Command, outcome: Outcome) -> Outcome:
        try:
            pack(("done", outcome))
        except Exception as error:
            return self._slots[index].crashed(error, f"{order[0]}: what came of it cannot be sent")
        return outcome

    def progress(self) -> tuple[bytes, float]:
        """What the call under way has done so far, and the seconds at the next command; asked in another thread."""
        outcomes, began = list(self._outcomes), self._began
        return pack(("done", outcomes)), time.monotonic() - began

    def ready(self) -> bool:
        """Answers as soon as the actor can."""
        return True


def _outcomes(data: bytes) -> list[Outcome]:
    return unpack(data)[1]  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False)
class _Actor:
    """Our side of an actor.

    Attributes:
        under_way: the calls that it has not answered, in turn, each with its commands.
        backlog: commands that it will be sent.
        clock: when it began with the first command of the first call.
        most: commands of a call.
    """

    handle: Any
    indices: list[int]
    start: Any = None  # the reference that is ready when the actor is
    under_way: deque[tuple[Any, list[Job]]] = field(default_factory=deque)
    backlog: deque[Job] = field(default_factory=deque)
    clock: float = field(default_factory=time.monotonic)
    most: int = 1


class Actors:
    """The back end: see `actors`.

    Args:
        slots: one for each environment; their environments live in the actors.
        workers: how many actors the environments are dealt to, in turn. Those of one actor are stepped in turn.
        timeout: seconds that an order may take, or None.
        options: of each actor.
    """

    def __init__(self, slots: list[EnvSlot], workers: int, timeout: float | None, options: dict[str, Any]) -> None:
        self._ray = importlib.import_module("ray")
        groups = {**options.get("concurrency_groups", {}), "look": 1}
        self._kind = self._ray.remote(**{**options, "concurrency_groups": groups})(Holder)
        self._slots, self._timeout = slots, timeout
        self._lock = threading.RLock()  # guards all that follows
        self._done: list[Done] = []
        self._playing: set[int] = set()  # the environments in the middle of an episode
        self._closed = False
        self._actors: dict[int, _Actor] = {}  # by index of the environment
        for first in range(min(workers, len(slots))):
            self._hire(list(range(first, len(slots), workers)), {})

    def submit(self, jobs: Sequence[Job]) -> None:
        """Send commands, each with the index of its environment."""
        with self._lock:
            for index, order in jobs:
                if order[0] == "reset" and order[1][0] is not None:
                    self._slots[index].seed = order[1][0]
                self._actors[index].backlog.append((index, order))
            for actor in self._distinct():
                self._feed(actor)

    def collect(self, timeout: float | None) -> list[Done]:
        """Outcomes that are ready; waits for one at most ``timeout`` seconds."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._give_up_overdue(time.monotonic())
                heads = {actor.under_way[0][0]: actor for actor in self._busy()}
                if self._done or self._closed or not heads or time.monotonic() >= until:
                    done, self._done = self._done, []
                    return done
            wait = min(SLICE, max(0.0, until - time.monotonic()))
            self._ray.wait(list(heads), num_returns=1, timeout=wait)
            ready, _ = self._ray.wait(list(heads), num_returns=len(heads), timeout=0)
            with self._lock:
                for reference in ready:
                    self._take(heads[reference])

    def close(self) -> None:
        """Kill the actors."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for actor in self._distinct():
                self._kill(actor)

    # sending and taking

    def _distinct(self) -> list[_Actor]:
        return list({id(actor): actor for actor in self._actors.values()}.values())

    def _busy(self) -> list[_Actor]:
        return [actor for actor in self._distinct() if actor.under_way]

    def _hire(self, indices: list[int], lost: dict[int, str]) -> _Actor:
        parts = {
            index: (lost.get(index, ""), slot.make, slot.mode, slot.space, slot.seed, slot.generation)
            for index in indices
            for slot in [self._slots[index]]
        }
        handle = self._kind.remote(parts)
        actor = _Actor(handle, indices, handle.ready.remote())
        for index in indices:
            self._actors[index] = actor
        return actor

    def _feed(self, actor: _Actor) -> None:
        """Send what waits, in calls of about `TOGETHER`."""
        while actor.backlog and len(actor.under_way) < CALLS:
            if not actor.under_way:
                actor.clock = time.monotonic()
            jobs = [actor.backlog.popleft() for _ in range(min(actor.most, len(actor.backlog)))]
            actor.under_way.append((actor.handle.run.remote(jobs), jobs))

    def _take(self, actor: _Actor) -> None:
        """Everything that the actor has answered, in turn."""
        while actor.under_way and self._actors[actor.indices[0]] is actor:
            reference, jobs = actor.under_way[0]
            if not self._ray.wait([reference], timeout=0)[0]:
                return
            try:
                data, seconds = self._ray.get(reference)
                outcomes = _outcomes(data)
            except self._ray.exceptions.RayTaskError as error:  # what EnvSlot lets through: no fault of an environment
                outcomes = [self._slots[index].failure("env_error", f"{order[0]}: {error}") for index, order in jobs]
                seconds = TOGETHER
            except self._ray.exceptions.RayError as error:
                self._replace(actor, "env_error", f"its actor died: {str(error).splitlines()[0]}")
                return
            actor.under_way.popleft()
            actor.start, actor.clock = None, time.monotonic()
            fitting = int(TOGETHER * len(jobs) / max(seconds, 1e-9))
            actor.most = max(1, min(fitting, GROWTH * max(actor.most, len(jobs))))
            self._feed(actor)
            for (index, order), outcome in zip(jobs, outcomes, strict=True):
                self._enter(index, order, outcome)

    def _enter(self, index: int, order: Command, outcome: Outcome) -> None:
        self._done.append((index, outcome))
        if order[0] in ("reset", "step", "again"):
            over = (outcome[2] or outcome[3]) and self._slots[index].mode is not AutoresetMode.SAME_STEP
            (self._playing.discard if over else self._playing.add)(index)

    # what goes wrong

    def _give_up_overdue(self, now: float) -> None:
        if self._timeout is None:
            return
        for actor in self._busy():
            if now - actor.clock < self._timeout:
                continue
            if actor.start is not None:
                if not self._ray.wait([actor.start], timeout=0)[0]:  # it waits for its process, or for room
                    if now - actor.clock > max(self._timeout, START_SECONDS):
                        self._replace(actor, "timeout", f"no actor within {START_SECONDS:g} s")
                    continue
                actor.start, actor.clock = None, now
                continue
            self._take(actor)
            if actor.under_way and now - actor.clock >= self._timeout and not self._goes_on(actor):
                self._replace(actor, "timeout", f"no answer within {self._timeout:g} s")

    def _goes_on(self, actor: _Actor) -> bool:
        """Whether the actor is at a command that has time left; if not, what it carried out before is taken from it."""
        assert self._timeout is not None, "who asks has one"
        reference = actor.handle.progress.options(concurrency_group="look").remote()
        try:
            data, seconds = self._ray.get(reference, timeout=LOOK_SECONDS)
            outcomes = _outcomes(data)
        except self._ray.exceptions.RayError:  # it is dead, or a command holds Python's lock
            return False
        head, jobs = actor.under_way[0]
        if self._ray.wait([head], timeout=0)[0]:
            return True
        if seconds < self._timeout:
            actor.clock = time.monotonic() - seconds
            return True
        for (index, order), outcome in zip(jobs, outcomes, strict=False):
            self._enter(index, order, outcome)
        actor.under_way[0] = head, jobs[len(outcomes) :]
        return False

    def _replace(self, actor: _Actor, status: Status, reason: str) -> None:
        """Give an actor up; its environments begin anew in another, and what it was at has failed."""
        self._kill(actor)
        (index, order), *rest = [job for _, jobs in actor.under_way for job in jobs] + list(actor.backlog)
        lost = {}
        for each in actor.indices:
            old = self._slots[each]
            self._slots[each] = EnvSlot(old.make, old.mode, old.space, old.seed, old.generation + 1)
            if each != index and each in self._playing:
                lost[each] = f"the actor that it shared with others is gone: {reason}"
        successor = self._hire(actor.indices, lost)
        slot = self._slots[index]
        outcome = slot.failure(status, f"{order[0]}: {reason}")
        if order[0] == "step" and slot.mode is AutoresetMode.SAME_STEP:
            successor.backlog.append((index, ("again", outcome)))
        else:
            self._enter(index, order, timed_out(order, outcome))
        successor.backlog.extend(rest)
        self._feed(successor)

    def _kill(self, actor: _Actor) -> None:
        with suppress(Exception):  # it is gone, or Ray is
            self._ray.kill(actor.handle)
