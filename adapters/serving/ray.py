"""Ray: environments in actors, anywhere in a cluster, behind our vector environment; see docs/adapters/ray.md.

>>> from rlvr.adapters.serving.ray import actors                            # doctest: +SKIP
>>> from rlvr.envs.vector import VectorEnv                          # doctest: +SKIP
>>> vector = VectorEnv("rlvr/Terminal-v0", 64, backend=actors(num_cpus=1), workers=16, timeout=60)   # doctest: +SKIP

An actor is sent all commands that wait for it, and answers those that it has carried out within 20 ms, the first at
least: cheap environments share the cost of a call, slow ones are answered one by one. What `VectorEnv` says of its back
ends holds here too: an actor that dies, with its process or its machine, ends its environments' episodes with an
``env_error`` verdict, one that is over its time is killed, and others replace them with the same seeds.
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
from rlvr.envs.vector.step_trials import START_SECONDS
from rlvr.envs.vector.threads import timed_out
from rlvr.envs.vector.worker import pack, unpack

TESTED = ("ray", "2.60", "3")
SLICE = 0.1  # seconds between two looks at what was sent meanwhile
CALL_SECONDS = 0.02  # after which an actor answers what it has carried out
PROGRESS_SECONDS = 2.0  # for an actor that is over its time to say what it has carried out


def actors(**options: Any) -> Callable[[list[EnvSlot], int, float | None], Actors]:
    """The ``backend`` of a `VectorEnv` whose ``workers`` are actors of Ray.

    Args:
        options: of an actor, as for ``ray.remote``: num_cpus, resources, runtime_env, …. ``max_restarts`` stays 0.

    Raises:
        ImportError: Ray is missing, or older than what was tested.
        ValueError: ``max_restarts``: a restarted actor has lost its environments without notice.
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

    def run(self, jobs: Sequence[Job]) -> bytes:
        """Carry out commands in turn, each for the environment at its index: the outcomes of the first of them."""
        self._outcomes = []
        until = time.monotonic() + CALL_SECONDS
        for index, command in jobs:
            self._outcomes.append(self._slots[index].run(command))
            if time.monotonic() >= until:
                break
        try:
            return self.progress()
        except Exception:  # one of them cannot be sent
            pairs = zip(jobs, self._outcomes, strict=False)
            self._outcomes = [self._sendable(*job, outcome) for job, outcome in pairs]
            return self.progress()

    def _sendable(self, index: int, command: Command, outcome: Outcome) -> Outcome:
        try:
            pack(("done", outcome))
        except Exception as error:
            return self._slots[index].crashed(error, f"{command[0]}: its outcome cannot be sent")
        return outcome

    def progress(self) -> bytes:
        """The outcomes of the call under way so far; asked in another thread."""
        return pack(("done", list(self._outcomes)))

    def ready(self) -> bool:
        """Answers as soon as the actor can."""
        return True


@dataclass(slots=True, eq=False)
class _Actor:
    """Our side of an actor.

    Attributes:
        start: the reference that is ready when the actor is; None once it was.
        jobs: the commands that it has not answered.
        call: the reference to its answer; None when no call is under way.
        clock: when the call was sent.
    """

    handle: Any
    indices: list[int]
    start: Any
    jobs: deque[Job] = field(default_factory=deque)
    call: Any = None
    clock: float = field(default_factory=time.monotonic)


class Actors:
    """The back end: see `actors`.

    Args:
        slots: one for each environment; their environments live in the actors.
        workers: how many actors the environments are dealt to, in turn. Those of one actor are stepped in turn.
        timeout: seconds that a command may take, or None.
        options: of each actor.
    """

    def __init__(self, slots: list[EnvSlot], workers: int, timeout: float | None, options: dict[str, Any]) -> None:
        self._ray = importlib.import_module("ray")
        groups = {**options.get("concurrency_groups", {}), "progress": 1}
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
            for index, command in jobs:
                if command[0] == "reset" and command[1][0] is not None:
                    self._slots[index].seed = command[1][0]
                self._actors[index].jobs.append((index, command))
            for actor in self._distinct():
                self._ask(actor)

    def collect(self, timeout: float | None) -> list[Done]:
        """Outcomes that are ready; waits for one at most ``timeout`` seconds."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                self._give_up_overdue(time.monotonic())
                calls = {actor.call: actor for actor in self._busy()}
                if self._done or self._closed or not calls or time.monotonic() >= until:
                    done, self._done = self._done, []
                    return done
            wait = min(SLICE, max(0.0, until - time.monotonic()))
            self._ray.wait(list(calls), num_returns=1, timeout=wait)
            ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
            with self._lock:
                for reference in ready:
                    self._take_answer(calls[reference])

    def close(self) -> None:
        """Kill the actors, and with them their environments."""
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
        return [actor for actor in self._distinct() if actor.call is not None]

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

    def _ask(self, actor: _Actor) -> None:
        if actor.call is None and actor.jobs:
            actor.call, actor.clock = actor.handle.run.remote(list(actor.jobs)), time.monotonic()

    def _take_answer(self, actor: _Actor) -> None:
        """Take what an actor has answered, and ask it for the rest."""
        if self._actors[actor.indices[0]] is not actor:
            return
        try:
            data = self._ray.get(actor.call)
        except self._ray.exceptions.RayError as error:
            self._replace(actor, "env_error", f"its actor died: {str(error).splitlines()[0]}")
            return
        actor.call = actor.start = None
        self._enter(actor, unpack(data)[1])
        self._ask(actor)

    def _enter(self, actor: _Actor, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._finish(*actor.jobs.popleft(), outcome)

    def _finish(self, index: int, command: Command, outcome: Outcome) -> None:
        self._done.append((index, outcome))
        if command[0] in ("reset", "step", "again"):
            over = (outcome[2] or outcome[3]) and self._slots[index].mode is not AutoresetMode.SAME_STEP
            (self._playing.discard if over else self._playing.add)(index)

    # what goes wrong

    def _give_up_overdue(self, now: float) -> None:
        if self._timeout is None:
            return
        for actor in self._busy():
            if now - actor.clock < self._timeout or self._ray.wait([actor.call], timeout=0)[0]:
                continue
            if actor.start is None:
                self._enter(actor, self._progress(actor))
                self._replace(actor, "timeout", f"no answer within {self._timeout:g} s")
            elif self._ray.wait([actor.start], timeout=0)[0]:
                actor.start, actor.clock = None, now
            elif now - actor.clock > max(self._timeout, START_SECONDS):  # it waits for its process, or for resources
                self._replace(actor, "timeout", f"no actor within {START_SECONDS:g} s")

    def _progress(self, actor: _Actor) -> list[Outcome]:
        """What an actor has carried out before the command that is over its time."""
        reference = actor.handle.progress.options(concurrency_group="progress").remote()
        try:
            outcomes: list[Outcome] = unpack(self._ray.get(reference, timeout=PROGRESS_SECONDS))[1]
        except self._ray.exceptions.RayError:  # it is dead, or a command holds Python's lock
            return []
        return outcomes[: len(actor.jobs) - 1]

    def _replace(self, actor: _Actor, status: Status, reason: str) -> None:
        """Give an actor up; its environments begin anew in another, and the command that it was at has failed."""
        self._kill(actor)
        (index, command), *rest = actor.jobs
        lost = {}
        for each in actor.indices:
            old = self._slots[each]
            self._slots[each] = EnvSlot(old.make, old.mode, old.space, old.seed, old.generation + 1)
            if each != index and each in self._playing:
                lost[each] = f"the actor that it shared with others is gone: {reason}"
        successor = self._hire(actor.indices, lost)
        slot = self._slots[index]
        outcome = slot.failure(status, f"{command[0]}: {reason}")
        if command[0] == "step" and slot.mode is AutoresetMode.SAME_STEP:
            successor.jobs.append((index, ("again", outcome)))
        else:
            self._finish(index, command, timed_out(command, outcome))
        successor.jobs.extend(rest)
        self._ask(successor)

    def _kill(self, actor: _Actor) -> None:
        with suppress(Exception):  # it is gone, or Ray is
            self._ray.kill(actor.handle)
