"""The processes of a run: one, or as many as torchrun started. Each holds a shard of the weights and plays its share.

Every process holds all episodes of a step and decides the same from them; what is divided is the work: episodes that
are played, and micro-batches that go through the model.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlvr.agents.episode import Episode, RolloutRequest
from rlvr.agents.rollout import Rollout
from rlvr.algorithms.core.lazy_torch import Tensor, torch

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessWorld:
    """Which process of how many this is.

    rank     from 0; the first writes the run's folder
    size     processes
    sharded  whether torchrun started them; one process of its own has its weights whole
    """

    rank: int = 0
    size: int = 1
    sharded: bool = False

    @classmethod
    def join(cls) -> ProcessWorld:
        """The world that torchrun describes in the variables of this process; a single process without."""
        # RANK alone may be set by a cluster that starts one process on each machine.
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return cls()
        dist = torch.distributed
        # A caller's own script may have made the group.
        if not dist.is_initialized():
            if torch.cuda.is_available():
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            # gloo beside NCCL: shards that are offloaded lie on the CPU
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), True)

    def leave(self) -> None:
        """End the group, so that no process waits for one that is gone."""
        if self.sharded and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
            # An error's frames may hold a group in a cycle: freed as the interpreter ends, its threads would abort it.
            gc.collect()

    def gather(self, item: T) -> list[T]:
        """What each process gives, by rank."""
        if self.size == 1:
            return [item]
        # Pickled, so for small things and for what this program made itself.
        items: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(items, item)
        return items

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)
        return tensor

    def share(self, items: Sequence[T]) -> Iterator[tuple[int, T | None]]:
        """Every so many-th item, with its index, as many for each process: None where there are no more.

        A forward pass gathers weights from all processes, so all must make as many.
        """
        for start in range(0, len(items), self.size):
            index = start + self.rank
            yield index, items[index] if index < len(items) else None

    def in_order(self, parts: list[tuple[int, T]]) -> list[T]:
        """What all processes found for their share of items, in the order of the items."""
        if self.size == 1:
            return [item for _, item in parts]
        # Sums over micro-batches are then made in one order, whatever the number of processes.
        pairs = [pair for part in self.gather(parts) for pair in part]
        return [item for _, item in sorted(pairs, key=lambda pair: pair[0])]


class SharedRollout:
    """Plays one run of the requests in each process, and gives all processes all episodes.

    Args:
        rollout: plays.
        world: the processes.
    """

    def __init__(self, rollout: Rollout, world: ProcessWorld) -> None:
        self.rollout, self.world = rollout, world
        self.env_id = rollout.env_id

    @property
    def env(self) -> Any:
        """One of the environments."""
        return self.rollout.env

    def __call__(self, requests: Sequence[RolloutRequest | Episode]) -> list[Episode]:
        """The episodes of the requests, in their order."""
        world = self.world
        if world.size == 1:
            return self.rollout(requests)
        each = -(-len(requests) // world.size)  # a run of them, so that members of a group share their prompt
        # Noise is keyed by the request, so who plays an episode does not change it.
        share = requests[world.rank * each : (world.rank + 1) * each]
        played = self.rollout(share) if share else []
        return [episode for part in world.gather(played) for episode in part]


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is spread over processes."""
    return hasattr(tensor, "full_tensor")


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor that may be a shard."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that may be a shard; every process must ask for it."""
    full: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full


def assign(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor into one that may be a shard."""
    with torch.no_grad():
        target.copy_(like(target, value))


def like(target: Tensor, value: Tensor) -> Tensor:
    """A whole tensor, sharded as ``target`` is."""
    if not hasattr(target, "full_tensor") or value.shape != target.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    sharded: Any = target
    return distribute_tensor(value.to(sharded.device), sharded.device_mesh, sharded.placements)
