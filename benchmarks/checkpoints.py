"""How long a checkpoint of 100M trained parameters stops a run, in the background and at once.

    python benchmarks/checkpoints.py        # about a minute; writes 1.2 GB a round to --folder

Weights and AdamW's two moments in float32: 1.2 GB. "In the background" is what a run does: it stops while the tensors
are copied into memory that the copies of the checkpoint before have left. "At once" is writing, syncing and hashing the
same before going on. Seconds of the thread that trains: wall, and CPU time, which leaves out other work of the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from rlvr.algorithms.learner.world import ProcessWorld
from rlvr.algorithms.runs.checkpoints import Checkpoint, save_checkpoint
from rlvr.algorithms.train.saver import Saver

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves the folder of a script out

from results import Table, write_results

RESULTS = Path(__file__).parent / "results"
SHAPES = [(32_000, 1_024), *[(1_024, 1_024)] * 65]  # 100.9M
BACKGROUND, AT_ONCE = "in the background", "at once"


def state(step: int) -> Checkpoint:
    weights = {f"layer.{index}": torch.rand(shape) for index, shape in enumerate(SHAPES)}
    moments = {
        f"{index}.{name}": torch.rand(shape) for index, shape in enumerate(SHAPES) for name in ("exp_avg", "exp_avg_sq")
    }
    return Checkpoint(step, weights, moments, {})


def stopped(work: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds and CPU-seconds of this thread."""
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - wall, time.thread_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="checkpoints of each way that count")
    parser.add_argument("--folder", type=Path, help="where they are written for the while")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checkpoint = state(0)
    size = f"{sum(weight.numel() for weight in checkpoint.model.values()) / 1e6:.0f}M parameters"
    wall = Table(f"Training stopped, {size}", "wall seconds", BACKGROUND)
    cpu = Table(f"Training stopped, {size}, CPU time", "CPU-seconds of the thread that trains", BACKGROUND)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        saver = Saver(Path(folder) / "background", ProcessWorld())
        first, _ = stopped(lambda: saver.save(checkpoint))
        saver.wait()
        for _ in range(arguments.rounds):
            ways = {
                BACKGROUND: lambda: saver.save(checkpoint),
                AT_ONCE: lambda: save_checkpoint(Path(folder) / "at once", checkpoint),
            }
            for name, work in ways.items():
                seconds, processor = stopped(work)
                wall.add(name, seconds)
                cpu.add(name, processor)
                saver.wait()
    facts = {"the first, whose copies get their memory": f"{first:.2f} s", "torch": torch.__version__, "threads": 1}
    write_results("checkpoints", [wall, cpu], facts, arguments.out)


if __name__ == "__main__":
    main()
