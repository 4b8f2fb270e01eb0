"""Inline: environments stepped in turn by the thread that asks. The fast way for environments that only compute."""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from rlvr.envs.core.spaces import Text
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.vector.env_slot import Command, EnvSlot, Outcome
from rlvr.envs.vector.faults import ctrl_c, end_if_forked, is_fault

TOGETHER = 0.001  # seconds
MANY = 1_000  # environments
ALLOCATIONS = 50_000  # objects that are made between two collections while many environments are stepped
Job = tuple[int, Command]
Done = tuple[int, Outcome]
Columns = tuple[
    Sequence[Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], Sequence[dict[str, Any]]
]


@contextmanager
def rare_collections(count: int) -> Iterator[None]:
    """While many environments are stepped Python looks for garbage more rarely: most of what they make stays alive."""
    before = gc.get_threshold()
    if count < MANY or not 0 < before[0] < ALLOCATIONS:
        yield
        return
    gc.set_threshold(ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Backend(Protocol):
    """Where environments run."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Have commands carried out; returns without waiting for them."""

    def collect(self, timeout: float | None) -> list[Done]:
        """Wait until something is done, at most ``timeout`` seconds; in the order in which it was done."""

    def close(self) -> None:
        """End every environment, thread and process."""


class Inline:
    """The ``sync`` back end.

    Args:
        slots: their environments are made, in turn, by the first command.
    """

    def __init__(self, slots: list[EnvSlot]) -> None:
        self._slots = slots
        self._waiting: deque[Job] = deque()
        self._done: list[Done] = []
        self._calls: list[Callable[[Any], Any]] = [self._restart(index) for index in range(len(slots))]
        self._restarting: set[int] = set(range(len(slots)))

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs; ``collect`` gives their results."""
        self._waiting.extend(jobs)

    def collect(self, timeout: float | None) -> list[Done]:
        """The results that are ready, waiting at most ``timeout`` seconds for the first."""
        return self._collected(0.0)

    def collect_many(self) -> list[Done]:
        """``collect`` for who waits for all of them: what is done within a millisecond, for each call has a cost."""
        return self._collected(TOGETHER)

    def _collected(self, seconds: float) -> list[Done]:
        until = time.monotonic() + seconds
        with ctrl_c():
            while self._waiting and not (self._done and time.monotonic() >= until):
                index, command = self._waiting[0]
                outcome = self._slots[index].run(command)
                self._waiting.popleft()
                self._next_call(index)
                self._done.append((index, outcome))  # not a local: Ctrl-C in the next command must not lose it
        done, self._done = self._done, []
        return done

    def run_all(self, indices: Sequence[int], commands: Sequence[Command]) -> list[Outcome]:
        """What comes of commands that nobody else waits beside, in their order.

        Nothing is made for each of them but its outcome: of thousands of resets Python's garbage collector would look
        at all the rest, again and again. After Ctrl-C, ``collect`` has what was done and does the rest.
        """
        slots = self._slots
        outcomes: list[Outcome] = []
        with ctrl_c(), rare_collections(len(indices)):
            try:
                for index, command in zip(indices, commands, strict=True):
                    outcome = slots[index].run(command)
                    self._next_call(index)
                    outcomes.append(outcome)
            except BaseException:
                count = len(outcomes)
                self._done += zip(indices, outcomes, strict=False)
                self._waiting.extend(zip(indices[count:], commands[count:], strict=True))
                raise
        return outcomes

    def close(self) -> None:
        """Close every environment."""
        for slot in self._slots:
            slot.close()

    def step_all(self, actions: Sequence[Any]) -> Columns:
        """One action for each: observations, rewards, terminations, truncations and infos, by environment.

        The same as a command for each, without what each of them would cost.
        """
        with ctrl_c(), rare_collections(len(self._slots)):
            results = self._call_all(actions)
            try:
                columns = self._columns(results)
            except BaseException as error:  # something is no result of a step
                if not is_fault(error):
                    raise
                results = [slot.verified(result) for slot, result in zip(self._slots, results, strict=True)]
                columns = self._columns(results)
            return self._autoreset(results, *columns)

    def _call_all(self, actions: Sequence[Any]) -> list[Any]:
        results: list[Any] = []
        append, process, pid = results.append, os.getpid, os.getpid()
        pairs = zip(self._calls, actions, strict=True)
        while True:
            try:
                for call, action in pairs:  # goes on where it was when something is raised
                    append(call(action))
                    if process() != pid:
                        end_if_forked(pid)
                return results
            except BaseException as error:
                end_if_forked(pid)
                if not is_fault(error):
                    raise
                append(self._slots[len(results)].crashed(error, "step"))

    def _autoreset(
        self,
        results: list[Any],
        observations: Sequence[Any],
        rewards: np.ndarray[Any, Any],
        terminations: np.ndarray[Any, Any],
        truncations: np.ndarray[Any, Any],
        infos: Sequence[dict[str, Any]],
    ) -> Columns:
        """The same columns, after those whose episode has ended went on as the mode says."""
        dones = terminations | truncations
        if self._restarting or dones.any():
            observations, infos = list(observations), list(infos)
            restarted, ends = self._restarting, np.flatnonzero(dones).tolist()
            self._restarting = set()
            for index in ends:
                if index not in restarted:
                    outcome = self._slots[index].ended(results[index])
                    observations[index], infos[index] = outcome[0], outcome[4]
            for index in restarted.union(ends):
                self._next_call(index)
        return observations, rewards, terminations, truncations, infos

    def _columns(self, results: list[Any]) -> Columns:
        observations, rewards, terminations, truncations, infos = zip(*results, strict=True)
        numbers = np.array(rewards, dtype=np.float64)
        if numbers.shape != (len(results),) or not np.isfinite(numbers).all() or set(map(type, infos)) != {dict}:
            raise ValueError("not the results of steps")
        first = self._slots[0]
        if not (first.env and isinstance(first.env.unwrapped, TextEnv)):  # ours end with a fault of themselves
            for _, _, terminated, truncated, info in results:
                verdict = None if terminated or truncated else info.get("verdict")
                if verdict is not None and not verdict.valid:
                    raise ValueError("a fault in the middle of an episode")
        space = first.space
        if isinstance(space, Text):
            if set(map(type, observations)) != {str}:
                raise TypeError("not texts")
        elif any(np.shape(observation) != space.shape for observation in observations if space.shape is not None):
            raise ValueError("not of one shape")
        return observations, numbers, np.array(terminations, np.bool_), np.array(truncations, np.bool_), infos

    def _next_call(self, index: int) -> None:
        slot = self._slots[index]
        if slot.done or slot.env is None:
            self._calls[index] = self._restart(index)
            self._restarting.add(index)
        else:
            self._calls[index] = slot.env.step
            self._restarting.discard(index)

    def _restart(self, index: int) -> Callable[[Any], Outcome]:
        slot = self._slots[index]
        return lambda action: slot.run(("step", action))
