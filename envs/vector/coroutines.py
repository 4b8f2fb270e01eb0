"""Coroutines: environments that await. Thousands can wait for their tools at once, on one thread.

An environment is awaited when its ``step`` is a coroutine, or when it has ``step_async`` beside ``step`` (and
``reset_async`` beside ``reset``, if that waits too). Every other environment is stepped by a thread.

A coroutine that is stuck is cancelled and left. One that blocks without awaiting stops all the others: when its time is
up, another event loop in another thread takes over. Commands that the old loop had not begun go on there; of those in
the middle of something, the episodes are lost. Such an environment belongs to the thread back end.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

from rlvr.envs.core.verdict import env_error
from rlvr.envs.vector.env_slot import EnvSlot
from rlvr.envs.vector.threads import CLOSE_SECONDS, ThreadJob, Threads

BLOCKED_SECONDS = 1.0  # how long a coroutine may run on after its time is up before its loop is given up


class Coroutines(Threads):
    """The ``asyncio`` back end: an event loop in a thread of its own.

    Args:
        slots: one for each environment.
        workers: how many environments are stepped at once that do not await.
        timeout: seconds that a command may take, or None.
    """

    def __init__(self, slots: list[EnvSlot], workers: int, timeout: float | None) -> None:
        self._run_loop()
        self._running_tasks: dict[ThreadJob, asyncio.Task[None]] = {}  # those that the loop has begun
        self._suspect: tuple[asyncio.Task[None], float] | None = None  # may block the loop; until when it may
        super().__init__(slots, workers, timeout)

    def close(self) -> None:
        """Close every environment and end the event loop."""
        if self._closed:
            return
        super().close()
        self._loop.call_soon_threadsafe(_stop, self._loop)
        if threading.current_thread() is not self._runner:
            self._runner.join(CLOSE_SECONDS)
            if not self._runner.is_alive():  # else a coroutine blocks it: the thread is left with that
                self._loop.close()

    def _start(self, task: ThreadJob) -> None:
        self._tasks[task.index] = task
        if not self._awaited(task):
            super()._start(task)

    def _elsewhere(self, task: ThreadJob) -> bool:
        with self._changed:
            moved = self._awaited(task)
            self._load -= moved
            return moved

    def _awaited(self, task: ThreadJob) -> bool:
        """Whether the task was given to the event loop."""
        if task.command[0] not in ("reset", "step", "again") or not task.slot.awaits():
            return False
        task.cancel = _nothing  # from here on, giving it up costs no thread
        self._begin(task, False)
        self._loop.call_soon_threadsafe(self._play, task)
        return True

    def _run_loop(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self._loop.run_forever, name="vector-env-loop", daemon=True)
        self._runner.start()

    def _play(self, task: ThreadJob) -> None:
        with self._changed:
            if task.given_up:
                return
            loop = asyncio.get_running_loop()
            self._running_tasks[task] = running = loop.create_task(self._await(task))
            task.cancel = partial(loop.call_soon_threadsafe, running.cancel)

    async def _await(self, task: ThreadJob) -> None:
        try:
            outcome = await task.slot.arun(task.command)
        except asyncio.CancelledError:
            task.slot.close()
            with self._changed:
                if not task.given_up:  # it has cancelled itself
                    task.given_up = True
                    self._fail(task, env_error("CancelledError: its task was cancelled", task.command[0]))
                    self._changed.notify_all()
            raise
        finally:
            self._running_tasks.pop(task, None)
        if not self._finish(task, outcome):
            task.slot.close()

    # a coroutine that blocks

    def _leave(self, task: ThreadJob) -> None:
        super()._leave(task)
        if task in self._running_tasks and asyncio.current_task(self._loop) is self._running_tasks[task]:
            self._suspect = self._running_tasks[task], time.monotonic() + BLOCKED_SECONDS

    def _give_up_overdue(self, now: float) -> float:
        deadline = super()._give_up_overdue(now)
        if self._suspect is None:
            return deadline
        running, until = self._suspect
        if asyncio.current_task(self._loop) is not running:
            self._suspect = None
        elif now < until:
            return min(deadline, until)
        else:
            self._suspect = None
            self._replace_loop()
        return super()._give_up_overdue(now)

    def _replace_loop(self) -> None:
        """Leave the event loop to the coroutine that blocks it."""
        self._loop.call_soon_threadsafe(_stop, self._loop)  # should it ever return
        self._run_loop()
        for task in [task for task in self._tasks.values() if task.cancel is not None and not task.given_up]:
            task.given_up = True
            if task in self._running_tasks:
                self._fail(task, env_error("another environment has blocked the event loop", task.command[0]))
            else:
                self._start(ThreadJob(task.index, task.slot, task.command))
        self._running_tasks.clear()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    for running in asyncio.all_tasks(loop):
        running.cancel()
    # One more round, in which they take notice.
    loop.call_soon(loop.call_soon, loop.stop)


def _nothing() -> None:
    """What cancelling does before there is something to cancel."""
