"""Calls of environments: in turn or in threads, each with a time limit.

A thread cannot be killed. One whose call is over its time is left alone with its environment and never used again; the
next thread takes what was waiting behind it. Should the environment return after all, it is closed there.
"""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import gymnasium as gym

from rlvr.envs.vector.step_trials import START_SECONDS, StepHistory, in_threads, is_provoked

Env = gym.Env[Any, str]
Outcome = Any  # what the call returned, or the exception that it raised

NO_CALL = object()  # the outcome of a call that has nothing to do
PLAYED = object()  # the outcome of a call whose `then` has played the episode to its end and recorded it
DEFAULT_SECONDS = 120.0
CLOSE_SECONDS = 5.0  # how long somebody waits for an environment to close


class TimeLimitExceeded(Exception):
    """An environment did not answer in time.

    Attributes:
        provoked: whether that is the action's doing.
    """

    provoked = False


@dataclass(frozen=True, slots=True)
class CallRaised:
    """The outcome of a call whose `then` raised this, which is no fault of the environment."""

    error: BaseException


@dataclass(slots=True, eq=False)
class EnvCall:
    """One call of an environment, which may have to be made first. It changes nothing but the environment.

    Args:
        index: of the episode that it belongs to.
        env: the environment; None until `run` has made it.
        function: what to do with it; None does nothing.
        make: makes the environment; or, where there is one, another in which the episode is played again.
        played: the episode up to this step, its action included; None for what is no step.
        then: goes on with the episode in the thread that made the call: given the call and its outcome, it records them
            and returns the next call; None where the episode has ended or is paused. Without it the loop goes on.

    Attributes:
        seconds: how long the last `run` took.
    """

    index: int
    env: Env | None
    function: Callable[[Any], Any] | None
    make: Callable[[], Env] | None = None
    played: Callable[[], StepHistory] | None = None
    then: Callable[[EnvCall, Outcome], EnvCall | None] | None = None
    seconds: float = field(default=0.0, init=False)

    def run(self) -> Outcome:
        """What the call returns, or the exception that it raises."""
        began = time.perf_counter()
        try:
            if self.function is None:
                return NO_CALL
            if self.env is None and self.make is not None:
                self.env = self.make()
            return self.function(self.env)
        except BaseException as error:  # raised again where the episode is, if it is no `Exception`
            return error
        finally:
            self.seconds = time.perf_counter() - began


Event = tuple[EnvCall, Outcome] | tuple[int, "Future[Any]"]


class EnvCalls:
    """Makes calls one after another in the caller's thread: without threads there is no time limit.

    Also where the loop hears of replies that it waits for: `watch` a future, and `collect` returns it once it is done.
    """

    parallel = False
    in_other_threads = False

    def __init__(self) -> None:
        self._events: SimpleQueue[Sequence[Event]] = SimpleQueue()
        self._calls = 0  # started, and not collected

    def start(self, calls: Sequence[EnvCall]) -> None:
        """Make these calls, in order."""
        if calls:
            self._calls += len(calls)
            self._events.put([(call, call.run()) for call in calls])

    def watch(self, index: int, future: Future[Any]) -> None:
        """Have `collect` return (index, future) once the future is done."""
        future.add_done_callback(lambda done: self._events.put([(index, done)]))

    def collect(self, *, every_call: bool = False, wait_for_one: bool = True) -> list[Event]:
        """Wait for something to happen, or until no call is under way; then all that has happened, in order.

        With ``wait_for_one=False`` wait for nothing.
        """
        collected: list[Event] = []
        while True:
            wait = (wait_for_one and not collected) or (every_call and self._calls > 0)
            events = self._next(wait)
            if events is None:
                return collected
            collected += events
            if isinstance(events[0][0], EnvCall):  # those that come together are all calls, or one future
                self._calls -= len(events)

    def close(self) -> None:
        """Let go of the threads; calls under way come to their end unheard."""

    def _next(self, wait: bool) -> Sequence[Event] | None:
        try:
            return self._events.get(wait)
        except Empty:
            return None


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread and what it is doing, guarded by the lock of its `ThreadedEnvCalls`."""

    call: EnvCall | None = None
    seconds: float = math.inf  # what the call may take
    deadline: float = math.inf
    waiting: deque[EnvCall] = field(default_factory=deque)
    done: list[Event] = field(default_factory=list)
    given_up: bool = False


class ThreadedEnvCalls(EnvCalls):
    """Makes calls in daemon threads; one that is over its time is answered with `TimeLimitExceeded`.

    Args:
        threads: how many calls are made at once; 0 makes those that are started together one after another, in one
            thread, so that nothing but the time limit differs from `EnvCalls`.
        seconds: what one call may take; None for no limit.
        make: makes an environment in which a step that is over its time is played again.
    """

    in_other_threads = True

    def __init__(self, threads: int, seconds: float | None, make: Callable[[], Env] | None = None) -> None:
        super().__init__()
        self._make = make
        self._closed = False
        self.parallel = threads > 0
        self._most = max(1, threads)
        self._seconds = seconds
        self._lock = threading.Lock()  # guards the workers
        self._workers: list[_Worker] = []
        self._queue: SimpleQueue[deque[EnvCall] | None] = SimpleQueue()
        self._check_at = math.inf  # no call is over its time before then
        self._context = contextvars.copy_context()  # a thread has none of its caller's settings by itself

    def start(self, calls: Sequence[EnvCall]) -> None:
        """Have these calls made."""
        if not calls:
            return
        self._calls += len(calls)
        for chunk in [deque([call]) for call in calls] if self.parallel else [deque(calls)]:
            self._queue.put(chunk)
        self._hire()
        if self._seconds is not None:
            self._check_at = min(self._check_at, time.monotonic() + self._seconds)

    def close(self) -> None:
        """Let go of the threads; calls under way come to their end unheard."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        with self._lock:
            for worker in self._workers:
                worker.waiting.clear()
        for _ in self._workers:
            self._queue.put(None)

    def _hire(self) -> None:
        while len(self._workers) < min(self._most, self._calls):
            worker = _Worker()
            self._workers.append(worker)
            run = self._context.copy().run
            threading.Thread(target=run, args=(self._work, worker), name="rlvr-env", daemon=True).start()

    def _work(self, worker: _Worker) -> None:
        while (chunk := self._queue.get()) is not None:
            with self._lock:
                worker.waiting, worker.done = chunk, []
                call = self._begin_next(worker)
            while call is not None:
                outcome = call.run()
                if call.then is not None:
                    call, outcome = self._go_on(worker, call, outcome)
                with self._lock:
                    if worker.given_up:
                        break
                    worker.done.append((call, outcome))
                    call = self._begin_next(worker)
            else:
                self._events.put(worker.done)
                continue
            return close_env(call.env)
        return None

    def _go_on(self, worker: _Worker, call: EnvCall, outcome: Outcome) -> tuple[EnvCall, Outcome]:
        """Make the calls that follow from this one here, each with its own time limit; the last, and its outcome."""
        while call.then is not None:
            with self._lock:
                if worker.given_up:
                    return call, outcome
                worker.call = None  # what follows is no call of the environment and has no time limit
            try:
                following = call.then(call, outcome)
            except BaseException as error:  # raised again in the thread of the loop
                return call, CallRaised(error)
            if following is None or self._closed:
                return call, PLAYED
            self._begin(worker, following)  # nobody gives up a worker between two calls, so this needs no lock
            call, outcome = following, following.run()
        return call, outcome

    def _begin_next(self, worker: _Worker) -> EnvCall | None:
        call = worker.waiting.popleft() if worker.waiting else None
        self._begin(worker, call)
        return call

    def _begin(self, worker: _Worker, call: EnvCall | None) -> None:
        if call is not None and (seconds := self._seconds) is not None:
            worker.seconds = seconds if call.env is not None else max(seconds, START_SECONDS)
            worker.deadline = time.monotonic() + worker.seconds
        worker.call = call  # last: a call with the deadline of the one before would be given up

    def _next(self, wait: bool) -> Sequence[Event] | None:
        while True:
            seconds = None if self._check_at == math.inf else max(0.0, self._check_at - time.monotonic())
            try:
                return self._events.get(wait, seconds if wait else None)
            except Empty:
                if not wait:
                    return None
                self._give_up_overdue()

    def _give_up_overdue(self) -> None:
        """Answer for the calls that are over their time, and have the rest made by other threads."""
        assert self._seconds is not None  # for the type checker: without a limit nobody wakes up for this
        with self._lock:
            now = time.monotonic()
            for worker in [each for each in self._workers if each.call is not None and each.deadline <= now]:
                assert worker.call is not None  # for the type checker
                late = TimeLimitExceeded(f"no answer within {worker.seconds:g} s")
                worker.given_up = True
                self._workers.remove(worker)
                if worker.done:
                    self._events.put(worker.done)
                judge = partial(self._judge, worker.call, late, worker.seconds)
                threading.Thread(target=judge, name="rlvr-env-judge", daemon=True).start()
                if worker.waiting:
                    self._queue.put(worker.waiting)
            deadlines = [each.deadline for each in self._workers if each.call is not None]
            self._check_at = min([*deadlines, now + self._seconds])
        self._hire()

    def _judge(self, call: EnvCall, late: TimeLimitExceeded, seconds: float) -> None:
        """Find out whose doing it is that a call is over its time, and answer for it."""
        try:
            make = call.make or self._make
            if call.played is not None and make is not None and not self._closed:
                late.provoked = is_provoked(call.played(), partial(in_threads, make), seconds)
        finally:
            self._events.put([(call, late)])


def close_env(env: Env | None) -> None:
    """Close a broken environment, in which whatever broke it may still be."""
    if env is not None:
        with suppress(Exception):
            env.close()


def close_in_time(env: Env) -> None:
    """Close a broken environment; one that hangs is left to its thread."""
    thread = threading.Thread(target=close_env, args=(env,), name="rlvr-env-close", daemon=True)
    thread.start()
    thread.join(CLOSE_SECONDS)
