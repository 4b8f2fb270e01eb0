"""Checkpoints in the background: a run stops while its tensors are copied, and goes on while they are written."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.checkpoints import (
    AVERAGE,
    REFERENCE,
    TENSORS,
    Checkpoint,
    save_checkpoint,
    save_shards,
    sweep,
)


class Saver:
    """Writes checkpoints of a run, one after the other, in a thread.

    The copy of a tensor stays in memory, and the next one is written over it: fresh memory would cost more than the
    copying. So a run holds its trained weights and the optimiser's state once more, in the memory of the CPU.

    Args:
        folder: of the checkpoints.
        world: under torchrun all of its processes save, each what it holds.
    """

    def __init__(self, folder: Path, world: ProcessWorld) -> None:
        self.folder, self.world = folder, world
        if world.rank == 0:
            sweep(folder)  # of a run that was killed and has nothing more to save
        self._thread: Thread | None = None
        self._error: BaseException | None = None  # of the thread, until the run asks
        self._copies: dict[str, dict[str, torch.Tensor]] = {}
        self._stager: Any = None
        self._group: Any = None

    def save(self, checkpoint: Checkpoint) -> None:
        """Copy a checkpoint, and begin to write it. One that is still being written is waited for.

        Its tensors may change once this returns.

        Raises:
            CheckpointError: the one before could not be written.
        """
        # Two writers would want two copies, and might end in another order.
        self.wait()
        tensors = {name: getattr(checkpoint, name) for name in (*TENSORS, REFERENCE, AVERAGE)}
        copies = self._copy(tensors)
        # Counters are small, and the next step changes them in place.
        # Earlier policies never change, so that they need no copy.
        copied = Checkpoint(checkpoint.step, counters=deepcopy(checkpoint.counters), pool=checkpoint.pool, **copies)
        self._thread = Thread(target=self._run, args=(self._writer(copied),), name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Until the last checkpoint is there.

        Raises:
            CheckpointError: it could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        # Raised once: the run may go on and write the next one.
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame: a cycle that would keep the group of processes until the end

    def _copy(self, tensors: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        if self.world.sharded:
            return self._copy_shards(tensors)
        for part, group in tensors.items():
            copies = self._copies.setdefault(part, {})
            self._copies[part] = {name: _copy_into(copies.get(name), value) for name, value in group.items()}
        return {part: dict(copies) for part, copies in self._copies.items()}

    def _copy_shards(self, tensors: dict[str, Any]) -> dict[str, Any]:
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        if self._stager is None:
            pinned = torch.cuda.is_available()  # copies from a GPU to page-locked memory do not block
            self._stager = DefaultStager(StagingOptions(pinned, False, False, pinned))
        copied: dict[str, Any] = self._stager.stage(tensors)
        return copied

    def _writer(self, checkpoint: Checkpoint) -> Callable[[], object]:
        if not self.world.sharded:
            return partial(save_checkpoint, self.folder, checkpoint)
        if self._group is None:
            # Of its own: what two threads ask of one group could meet in another order elsewhere.
            self._group = torch.distributed.new_group(backend="gloo")
        return partial(save_shards, self.folder, checkpoint, self._group)

    def _run(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BaseException as error:  # raised where the run waits for it
            self._error = error


def _copy_into(copy: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor:
    if copy is None or (copy.shape, copy.dtype) != (value.shape, value.dtype):
        copy = torch.empty(value.shape, dtype=value.dtype)  # on the CPU, wherever the value is
    with torch.no_grad():
        return copy.copy_(value)
