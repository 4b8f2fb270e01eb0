"""Threads: environments stepped by threads, for those that wait for something else: a tool, a sandbox, a server.

A thread cannot be killed. One that is stuck in an environment is left alone with it and never used again; another
thread and another environment take their places. It ends by itself, without a trace, should the environment return.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from gymnasium.vector import AutoresetMode

from rlvr.envs.core.verdict import Provoked, Verdict, env_error, provoked_verdict
from rlvr.envs.vector.env_slot import CallResult, Command, EnvSlot, Outcome
from rlvr.envs.vector.inline import Done, Job
from rlvr.envs.vector.step_trials import START_SECONDS, StepHistory, in_threads, is_provoked

CLOSERS = 8  # threads that close environments
CLOSE_SECONDS = 5.0  # how long closing waits for steps that are under way


@dataclass(slots=True, eq=False)
class ThreadJob:
    """A command under way.

    Attributes:
        deadline: when it is given up; infinite while it waits for a thread, or without a time limit.
        given_up: whether somebody else has answered for it.
        thread: the one that it keeps busy.
        cancel: ends it, where that is possible.
    """

    index: int
    slot: EnvSlot
    command: Command
    deadline: float = float("inf")
    given_up: bool = False
    thread: threading.Thread | None = None
    cancel: Callable[[], object] | None = None


class Threads:
    """The ``thread`` back end.

    Args:
        slots: one for each environment.
        workers: how many environments are stepped at once.
        timeout: seconds that a command may take, or None.
        history: what an episode is played again with.
    """

    def __init__(
        self,
        slots: list[EnvSlot],
        workers: int,
        timeout: float | None,
        history: Callable[[], StepHistory] = StepHistory,
    ) -> None:
        self._slots = slots
        self._workers = workers
        self._timeout = timeout
        self._changed = threading.Condition()  # guards all that follows
        self._tasks: dict[int, ThreadJob] = {}
        self._played = [history() for _ in slots]
        self._done: list[Done] = []
        self._closed = False
        self._queue: SimpleQueue[ThreadJob | None] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._load = 0  # tasks that a thread is in, or has yet to take
        self._earliest = float("inf")  # no task's time is up before
        self._collecting = 0  # who waits in ``collect``
        self._wake = float("-inf")  # when the last of them looks again by itself; -inf where nobody waits

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs; ``collect`` gives their results."""
        with self._changed:
            for index, command in jobs:
                self._played[index].send(command)
                self._start(ThreadJob(index, self._slots[index], command))

    def collect(self, timeout: float | None) -> list[Done]:
        """The results that are ready, waiting at most ``timeout`` seconds for the first."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                now = time.monotonic()
                deadline = self._give_up_overdue(now)
                if self._done or self._closed or now >= until or not self._tasks:
                    done, self._done = self._done, []
                    return done
                self._wait(min(deadline, until), now)

    def _wait(self, wake: float, now: float) -> None:
        """Wait for something to change, until ``wake`` at most."""
        self._collecting += 1
        self._wake = max(self._wake, wake)
        try:
            self._changed.wait(None if wake == float("inf") else wake - now)
        finally:
            self._collecting -= 1
            if not self._collecting:
                self._wake = float("-inf")

    def close(self) -> None:
        """Close every environment and end the threads."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            busy = {task.slot for task in self._tasks.values()}  # closed by the threads that are in them
            for task in self._tasks.values():
                task.given_up = True
                if task.cancel is not None:
                    task.cancel()
            self._tasks.clear()
            threads = self._threads - {threading.current_thread()}
            for _ in threads:
                self._queue.put(None)
            self._changed.notify_all()
        until = time.monotonic() + CLOSE_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._close_slots([slot for slot in self._slots if slot not in busy])

    def _close_slots(self, slots: list[EnvSlot]) -> None:
        """Close environments, and wait a while for those whose ``close`` takes long."""
        waiting = deque(slots)

        def close() -> None:
            with suppress(IndexError):
                while True:
                    waiting.popleft().close()

        threads = [threading.Thread(target=close, name="vector-env-close", daemon=True) for _ in slots[:CLOSERS]]
        until = time.monotonic() + CLOSE_SECONDS
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    # beginning and ending a task

    def _start(self, task: ThreadJob) -> None:
        self._tasks[task.index] = task
        self._load += 1
        self._hire()
        self._queue.put(task)  # in the lock, so before what ``close`` queues: a thread takes it, and closes its slot

    def _hire(self) -> None:
        if len(self._threads) < min(self._load, self._workers):
            thread = threading.Thread(target=self._work, name="vector-env", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            if not self._begin(task, task.slot.env is None):
                task.slot.close()
                continue
            if task.slot.env is None and task.command[0] != "make":
                task.slot.run(("make", None))  # does not count as the command's time; if it fails, so will the command
                if not self._begin(task, False):
                    return task.slot.close()
                if self._elsewhere(task):
                    continue
            outcome = task.slot.run(task.command)
            if not self._finish(task, outcome):
                return task.slot.close()  # it was given up, and this thread with it
        return None

    def _elsewhere(self, task: ThreadJob) -> bool:
        """Whether the task, whose environment is made now, needs no thread; then it was started elsewhere."""
        return False

    def _begin(self, task: ThreadJob, making: bool) -> bool:
        """Start the clock of a task; whether anybody still waits for it."""
        with self._changed:
            task.thread = threading.current_thread()
            if self._timeout is not None:
                limit = max(self._timeout, START_SECONDS) if making else self._timeout
                task.deadline = time.monotonic() + limit
                self._earliest = min(self._earliest, task.deadline)
                if task.deadline < self._wake:  # who waits has to wake up earlier now
                    self._changed.notify_all()
            return not task.given_up

    def _finish(self, task: ThreadJob, outcome: Outcome) -> bool:
        """Hand in an outcome; whether anybody still waited for it."""
        with self._changed:
            if task.given_up:
                return False
            self._load -= task.cancel is None
            first = not self._done
            self._answer(task, outcome)
            if first:  # else who waits was told, and has yet to come
                self._changed.notify_all()
            return True

    # giving up

    def _give_up_overdue(self, now: float) -> float:
        """CallResult for the tasks whose time is up; a time before which no other's is."""
        if now < self._earliest:
            return self._earliest
        for task in [task for task in self._tasks.values() if task.deadline <= now]:
            self._leave(task)
            task.deadline = float("inf")
            late = f"no answer within {self._timeout:g} s"
            is_step = self._played[task.index].is_step(task.command)
            if is_step and task.cancel is None:  # a coroutine is not played again
                threading.Thread(target=self._judge, args=(task, late), name="vector-env-judge", daemon=True).start()
            else:
                self._fail(task, _late(task.command, late))
        self._earliest = min((task.deadline for task in self._tasks.values()), default=float("inf"))
        return self._earliest

    def _judge(self, task: ThreadJob, late: str) -> None:
        """Find out whose doing it is that a step is late, and answer for it."""
        verdict = _late(task.command, late)
        with self._changed:
            played = self._played[task.index].copy()
        if self._timeout is not None and is_provoked(played, partial(in_threads, task.slot.make), self._timeout):
            verdict = provoked_verdict("the environment", verdict.reason)
        with self._changed:
            if not self._closed:
                self._fail(task, verdict)
                self._changed.notify_all()

    def _fail(self, task: ThreadJob, verdict: Verdict) -> None:
        """Answer for a task that was given up; another environment takes the place of the one that it was for."""
        old = task.slot
        slot = EnvSlot(old.make, old.mode, old.space, old.seed, old.generation + 1)
        self._slots[task.index] = slot
        outcome = slot.end(verdict)
        if task.command[0] == "step" and slot.mode is AutoresetMode.SAME_STEP:
            self._start(ThreadJob(task.index, slot, ("again", outcome)))
        else:
            self._answer(task, timed_out(task.command, outcome))

    def _answer(self, task: ThreadJob, outcome: Outcome) -> None:
        del self._tasks[task.index]
        self._played[task.index].receive(task.command, outcome, task.slot.mode)
        self._done.append((task.index, outcome))

    def _leave(self, task: ThreadJob) -> None:
        """Wait no longer for a task, nor for the thread that is in it."""
        task.given_up = True
        if task.cancel is not None:
            task.cancel()
        elif task.thread is not None:
            self._threads.discard(task.thread)
            self._load -= 1
            self._hire()


def _late(command: Command, reason: str) -> Verdict:
    return env_error(reason, command[0], timeout=True)


def timed_out(command: Command, outcome: Outcome) -> Outcome:
    """The outcome of a command that was given up: "again" keeps how the last episode ended."""
    kind, payload = command
    if kind in ("call", "set", "make"):
        verdict = outcome[4]["verdict"]
        late = TimeoutError(verdict.reason)
        return (*outcome[:4], CallResult(error=Provoked(late) if verdict.valid else late))
    if kind != "again":
        return outcome
    final: dict[str, Any] = {"final_obs": payload[0], "final_info": payload[4]}
    return outcome[0], payload[1], payload[2], payload[3], {**final, **outcome[4]}
