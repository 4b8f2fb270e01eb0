"""Coroutines: environments that await. Thousands can wait for their tools at once, on one thread.

An environment is awaited when its ``step`` is a coroutine, or when it has ``step_async`` beside ``step`` (and
``reset_async`` beside ``reset``, if that waits too). Every other environment is stepped by a thread.

A coroutine that is stuck is cancelled and left. One that blocks without awaiting stops all the others: such an
environment belongs to the thread back end.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from rlvr.envs.vector.env_slot import EnvSlot
from rlvr.envs.vector.threads import CLOSE_SECONDS, Task, Threads


class Coroutines(Threads):
    """The ``asyncio`` back end: an event loop in a thread of its own.

    Args:
        slots: one for each environment.
        workers: how many environments are stepped at once that do not await.
        timeout: seconds that a command may take, or None.
    """

    def __init__(self, slots: list[EnvSlot], workers: int, timeout: float | None) -> None:
        self._loop = asyncio.new_event_loop()
        self._runner = threading.Thread(target=self._loop.run_forever, name="vector-env-loop", daemon=True)
        self._runner.start()
        super().__init__(slots, workers, timeout)

    def close(self) -> None:
        if self._closed:
            return
        super().close()
        self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._runner:
            self._runner.join(CLOSE_SECONDS)
            if not self._runner.is_alive():  # else a coroutine blocks it: the thread is left with that
                self._loop.close()

    def _start(self, task: Task) -> None:
        self._tasks[task.index] = task
        if not self._awaited(task):
            super()._start(task)

    def _elsewhere(self, task: Task) -> bool:
        with self._changed:
            moved = self._awaited(task)
            self._load -= moved
            return moved

    def _awaited(self, task: Task) -> bool:
        """Whether the task was given to the event loop."""
        if task.command[0] not in ("reset", "step", "again") or not task.slot.awaits():
            return False
        task.cancel = _nothing  # from here on, giving it up costs no thread
        self._begin(task, False)
        self._loop.call_soon_threadsafe(self._play, task)
        return True

    def _play(self, task: Task) -> None:
        running = self._loop.create_task(self._await(task))
        task.cancel = partial(self._loop.call_soon_threadsafe, running.cancel)
        if task.given_up:
            running.cancel()

    async def _await(self, task: Task) -> None:
        try:
            outcome = await task.slot.arun(task.command)
        except asyncio.CancelledError:
            task.slot.close()
            raise
        if not self._finish(task, outcome):
            task.slot.close()

    def _stop(self) -> None:
        for running in asyncio.all_tasks(self._loop):
            running.cancel()
        # One more round, in which they take notice.
        self._loop.call_soon(self._loop.call_soon, self._loop.stop)


def _nothing() -> None:
    """What cancelling does before there is something to cancel."""
