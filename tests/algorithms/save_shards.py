"""A process of torchrun's: saves checkpoints of sharded tensors. ``save_shards.py FOLDER [full]``

With ``full`` the second process has no room for its shards of the second checkpoint, and both print what they hear.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.checkpoints import Checkpoint, CheckpointError
from rlvr.algorithms.train.saver import Saver


def main(folder: Path, full: bool) -> None:
    world = ProcessWorld.join()
    mesh = init_device_mesh("cpu", (world.size,))

    def sharded(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        values = torch.arange(torch.Size(shape).numel(), dtype=dtype).view(shape)
        return distribute_tensor(values, mesh, [Shard(0)])

    # The second process has nothing of the tensor with one row.
    model = {"even": sharded(4, 3), "odd": sharded(5, 2, dtype=torch.bfloat16), "row": sharded(1, 7)}
    optimiser = {"0.exp_avg": sharded(64, 64), "0.step": torch.tensor(0.0)}
    critic = {"head": torch.arange(3.0)}
    saver = Saver(folder, world)
    for step in (1, 2):
        saver.wait()
        if full and step == 2 and world.rank == 1:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        saver.save(Checkpoint(step, model, optimiser, {"seen": [step]}, critic))
        for tensor in (*model.values(), *optimiser.values()):
            tensor += 1  # while it is written
    try:
        saver.wait()
    except CheckpointError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(f"process {world.rank}: {error}", flush=True)
    world.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), "full" in sys.argv)
