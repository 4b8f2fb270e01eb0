"""Processes: environments that compute much, or crash hard. Several environments to a worker process.

A worker whose environment is over its time is killed. The other environments in it are brought over to another worker
first, in the middle of their episodes, where they can be pickled. A worker that dies takes its environments along:
the one under way has crashed, and of the others, those in the middle of an episode say ``env_error`` when stepped next.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from gymnasium.vector import AutoresetMode

from rlvr.envs.core.verdict import Status, Verdict, env_error, provoked_verdict
from rlvr.envs.vector.env_slot import Command, EnvSlot, Outcome
from rlvr.envs.vector.fork_server import ForkServer
from rlvr.envs.vector.inline import Done, Job
from rlvr.envs.vector.process_tree import pidfd
from rlvr.envs.vector.step_trials import START_SECONDS, Phase, StepHistory, TrialResult, is_provoked
from rlvr.envs.vector.threads import CLOSE_SECONDS, timed_out
from rlvr.envs.vector.worker import pack, unpack

RESCUE_SECONDS = 3.0
# What may wait unread in a socket: a worker that reads no more must not block who writes to it.
UNREAD_BYTES = 32_768
FOREVER = float("inf")


@dataclass(slots=True, eq=False)
class _Worker:
    """The user's side of a worker process.

    Attributes:
        under_way: what it was sent and has not answered, in turn; the first is the one that it is at.
        backlog: what it will be sent when it has read the rest.
        clock: when it began what it is at.
        pidfd: readable when its process ends; None where the kernel has no such thing.
        rescue: until when it may hand out its environments; infinite when it was not told to.
    """

    pid: int
    channel: Connection
    indices: list[int]
    under_way: deque[Job] = field(default_factory=deque)
    backlog: deque[Job] = field(default_factory=deque)
    unread: int = 0
    ready: bool = False
    clock: float = field(default_factory=time.monotonic)
    rescue: float = FOREVER
    pidfd: int | None = None

    def __post_init__(self) -> None:
        self.pidfd = pidfd(self.pid)

    def has_ended(self) -> bool:
        """Whether its process is gone; a fork that an environment has left may still hold the channel open."""
        if self.pidfd is None:
            return False
        looker = select.poll()
        looker.register(self.pidfd, select.POLLIN)
        return bool(looker.poll(0))

    def release(self) -> None:
        self.channel.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


class Processes:
    """The ``process`` back end.

    Args:
        slots: one for each environment; their environments live in the workers, never here.
        workers: how many processes the environments are dealt to, in turn.
        timeout: seconds that a command may take, or None.
        history: what an episode is played again with.

    Raises:
        OSError: a process could not be started.
        PicklingError, TypeError: what makes an environment cannot be sent to a process.
    """

    def __init__(
        self,
        slots: list[EnvSlot],
        workers: int,
        timeout: float | None,
        history: Callable[[], StepHistory] = StepHistory,
    ) -> None:
        self._slots = slots
        self._timeout = timeout
        self._lock = threading.Lock()  # guards all that follows
        self._done: list[Done] = []
        self._playing: set[int] = set()  # the environments in the middle of an episode
        self._played = [history() for _ in slots]
        self._judged: set[int] = set()  # the environments whose last step is being played again elsewhere
        self._closed = False
        self._workers: dict[int, _Worker] = {}  # by index
        self._wake_reader, self._wake_writer = Pipe(duplex=False)  # wakes up who listens
        self._listening = False
        self._fork_server = ForkServer()
        try:
            for first in range(min(workers, len(slots))):
                self._fork({index: slots[index] for index in range(first, len(slots), workers)})
        except BaseException:
            self.close()
            raise

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs; ``collect`` gives their results."""
        with self._lock:
            for index, command in jobs:
                if command[0] == "reset" and command[1][0] is not None:
                    self._slots[index].seed = command[1][0]
                self._played[index].send(command)
                self._workers[index].backlog.append((index, command))
            for worker in self._distinct([index for index, _ in jobs]):
                self._feed(worker)
            self._wake_up()

    def collect(self, timeout: float | None) -> list[Done]:
        """The results that are ready, waiting at most ``timeout`` seconds for the first."""
        until = FOREVER if timeout is None else time.monotonic() + timeout
        self._listen(0.0)  # what arrived while nobody listened arrived in time
        while True:
            with self._lock:
                now = time.monotonic()
                deadline = self._check_deadlines(now)
                if self._done or self._closed or now >= until or not (self._busy() or self._judged):
                    done, self._done = self._done, []
                    return done
            self._listen(max(0.0, min(deadline, until, now + 60.0) - now))

    def close(self) -> None:
        """End every worker and all that it started."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._wake_up()
            workers = self._distinct(self._workers)
            waiting: list[Any] = []
            for worker in workers:
                if worker.ready and not worker.under_way:
                    with suppress(OSError):
                        worker.channel.send_bytes(pack(("close", None)))
                        waiting.append(worker.channel)
            until = time.monotonic() + CLOSE_SECONDS
            while waiting and (left := until - time.monotonic()) > 0:
                for channel in wait(waiting, left):
                    with suppress(EOFError, OSError):
                        channel.recv_bytes()  # type: ignore[union-attr]
                        continue
                    waiting.remove(channel)
            for worker in workers:
                worker.release()
            self._fork_server.close()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._distinct(self._workers) if worker.under_way or worker.backlog]

    def _wake_up(self) -> None:
        if self._listening:
            self._listening = False
            self._wake_writer.send_bytes(b"!")

    def _listen(self, timeout: float) -> None:
        with self._lock:
            if self._closed:
                return
            channels: dict[Any, _Worker] = {worker.channel: worker for worker in self._busy()}
            channels |= {worker.pidfd: worker for worker in channels.values() if worker.pidfd is not None}
            self._listening = True
        readable: list[Any] = []
        with suppress(OSError, ValueError):  # closed by another thread
            readable = wait([self._wake_reader, *channels], timeout)
        with self._lock:
            self._listening = False
            if self._closed:
                return
            if self._wake_reader.poll():
                self._wake_reader.recv_bytes()
            for channel in readable:
                if channel is not self._wake_reader:
                    self._receive(channels[channel])

    def _distinct(self, indices: Any) -> list[_Worker]:
        return list({id(worker): worker for index in indices if (worker := self._workers.get(index))}.values())

    # talking with a worker

    def _fork(self, slots: dict[int, EnvSlot | bytes]) -> _Worker:
        message = pack(("slots", {index: (self._slots[index].make, state) for index, state in slots.items()}))
        pid, channel = self._fork_server.fork()
        worker = _Worker(pid, channel, sorted(slots))
        for index in slots:
            self._workers[index] = worker
        with suppress(OSError):  # it died at once: its closed channel will be noticed
            channel.send_bytes(message)
        return worker

    def _feed(self, worker: _Worker) -> None:
        """Send what waits, if it can be sent without waiting."""
        jobs = list(worker.backlog)
        if not jobs or not worker.ready or worker.rescue < FOREVER:
            return None
        if not worker.under_way and (worker.channel.poll() or worker.has_ended()):
            return self._receive(worker)  # most likely that it died, and these are not what it died of
        data = pack(("commands", jobs))
        if worker.under_way and worker.unread + len(data) > UNREAD_BYTES:
            return None
        if not worker.under_way:
            worker.clock, worker.unread = time.monotonic(), 0
        worker.unread += len(data)
        worker.under_way += jobs
        worker.backlog.clear()
        with suppress(OSError):  # a dead worker is noticed where it is received from
            worker.channel.send_bytes(data)
        return None

    def _receive(self, worker: _Worker) -> None:
        if self._closed or self._workers.get(worker.indices[0]) is not worker:
            return None  # it was replaced meanwhile
        if not worker.channel.poll():  # another thread has read it, or there is nobody to write any more
            return self._died(worker, "its process died") if worker.has_ended() else None
        try:
            kind, content = unpack(worker.channel.recv_bytes())
        except (EOFError, OSError):
            return self._died(worker, "its process died")
        except Exception as error:
            return self._died(worker, f"its message cannot be read: {type(error).__name__}: {error}")
        worker.clock = time.monotonic()
        if kind == "broken":
            return self._died(worker, content)
        if kind == "ready":
            worker.ready = True
        elif kind == "done":
            worker.rescue = FOREVER  # whatever was late has come
            for index, outcome in content:
                _, command = worker.under_way.popleft()
                self._enter(index, command, outcome)
        elif content is None:
            worker.rescue = FOREVER
        else:
            return self._replace(worker, "timeout", self._over_time(worker), content)
        return self._feed(worker)

    def _enter(self, index: int, command: Command, outcome: Outcome) -> None:
        self._done.append((index, outcome))
        self._played[index].receive(command, outcome, self._slots[index].mode)
        if command[0] in ("reset", "step", "again"):
            ended = outcome[2] or outcome[3]
            if ended and self._slots[index].mode is not AutoresetMode.SAME_STEP:
                self._playing.discard(index)
            else:
                self._playing.add(index)

    # what goes wrong

    def _check_deadlines(self, now: float) -> float:
        """Have a worker that is over its time hand out its environments, or replace it; the next deadline."""
        if self._timeout is None:
            return FOREVER
        deadlines = []
        for worker in self._distinct(self._workers):
            limit = self._timeout if worker.ready else max(self._timeout, START_SECONDS)
            if worker.rescue < FOREVER:
                deadline = worker.rescue
            elif worker.under_way or worker.backlog:
                deadline = worker.clock + limit
            else:
                continue
            if deadline > now:
                deadlines.append(deadline)
            elif worker.rescue < FOREVER or not worker.ready:
                self._replace(worker, "timeout", self._over_time(worker), {})
                deadlines.append(now)
            else:
                worker.rescue = now + RESCUE_SECONDS
                deadlines.append(worker.rescue)
                with suppress(OSError):
                    worker.channel.send_bytes(pack(("rescue", worker.under_way[0][0])))
        return min(deadlines, default=FOREVER)

    def _over_time(self, worker: _Worker) -> str:
        if worker.under_way:
            return f"{worker.under_way[0][1][0]}: no answer within {self._timeout:g} s"
        return "making them took too long"

    def _died(self, worker: _Worker, reason: str) -> None:
        self._replace(worker, "env_error", reason, {})

    def _replace(self, worker: _Worker, status: Status, reason: str, rescued: dict[int, bytes]) -> None:
        """Kill a worker; its environments go on in another one, as far as they were rescued."""
        worker.release()
        self._fork_server.kill(worker.pid)
        jobs = [*worker.under_way, *worker.backlog]
        culprit = jobs.pop(0) if worker.under_way else None
        states: dict[int, EnvSlot | bytes] = {**rescued}
        for index in worker.indices:
            if index not in rescued:
                states[index] = self._new_slot(index, reason)
        if culprit is not None:
            index, command = culprit
            states[index] = self._new_slot(index, "")
            verdict = env_error(reason, "" if status == "timeout" else command[0], timeout=status == "timeout")
            if self._played[index].is_step(command):
                self._judged.add(index)
                judge = threading.Thread(
                    target=self._judge, args=(index, command, verdict), name="vector-env-judge", daemon=True
                )
                judge.start()
            else:
                self._enter(index, command, timed_out(command, self._slots[index].end(verdict)))
        elif not worker.ready:  # it could not even make its environments: nothing helps by being tried again
            for index, command in jobs:
                outcome = self._slots[index].failure(status, f"the environments of a worker: {reason}")
                if command[0] == "step":
                    outcome = self._slots[index].ended_for_now(outcome)
                self._enter(index, command, timed_out(command, outcome))
            jobs = []
        self._fork(states).backlog += jobs

    def _new_slot(self, index: int, lost: str) -> EnvSlot:
        old = self._slots[index]
        slot = EnvSlot(old.make, old.mode, old.space, old.seed, old.generation + 1)
        if lost and index in self._playing:
            slot.lost = f"the process that it shared with others is gone: {lost}"
        self._slots[index] = slot
        return slot

    def _judge(self, index: int, command: Command, verdict: Verdict) -> None:
        """Find out whose doing it is that a step is late or has ended its process, and answer for it."""
        with self._lock:
            played = self._played[index].copy()
        seconds = START_SECONDS if self._timeout is None else self._timeout
        trial = partial(self._trial, self._slots[index])
        with suppress(OSError):  # no process can be had, or this is being closed: nobody knows
            if is_provoked(played, trial, seconds):
                verdict = provoked_verdict("the environment", verdict.reason)
        with self._lock:
            self._judged.discard(index)
            if self._closed:
                return
            slot = self._slots[index]
            outcome = slot.end(verdict)
            if slot.mode is AutoresetMode.SAME_STEP:
                self._workers[index].backlog.append((index, ("again", outcome)))
                self._feed(self._workers[index])
            else:
                self._enter(index, command, timed_out(command, outcome))
            self._wake_up()

    def _trial(self, slot: EnvSlot, phases: Sequence[Phase]) -> TrialResult:
        """A trial in a process of its own, which is ended with it.

        Raises:
            OSError: no process can be had.
        """
        with self._lock:
            if self._closed:
                raise OSError("the vector environment is closed")
            pid, channel = self._fork_server.fork()
        fresh, ends = EnvSlot(slot.make, slot.mode, slot.space), pidfd(pid)
        try:
            messages: list[tuple[str, Any]] = [("slots", {0: (slot.make, fresh)})]
            messages += [("commands", [(0, ("apply", function))]) for function, _ in phases]
            for phase, (message, seconds) in enumerate(
                zip(messages, (START_SECONDS, *(s for _, s in phases)), strict=True), -1
            ):
                channel.send_bytes(pack(message))
                ready = wait([channel, *([] if ends is None else [ends])], seconds)
                if channel not in ready:  # a fork that the environment has left may hold the channel open
                    return "died" if ready else "late", phase
                kind, content = unpack(channel.recv_bytes())
                if kind == "broken" or (kind == "done" and "error" in content[0][1][4]):
                    return "raised", phase
            return "ended", len(phases) - 1
        except (EOFError, ConnectionError):
            return "died", phase
        finally:
            channel.close()
            if ends is not None:
                os.close(ends)
            self._fork_server.kill(pid)
