"""Two real processes (gloo) with half of the rows each: the ranks' losses and gradients add up to the whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from rlvr.algorithms import policy_loss
from rlvr.algorithms.recipe.presets import PRESETS

from ..children import start
from .cases import make

WORKER = """
import json, sys, torch, torch.distributed as dist
from rlvr.algorithms import PRESETS, count_denominators, policy_loss
rank, store, source, sink = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
out = {}
for kind, batch in torch.load(source, weights_only=True).items():
    mine = {k: v[rank::2] if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    mine["new"].requires_grad_()
    denominators = count_denominators(mine).all_reduce()
    for name, preset in PRESETS.items():
        loss, _ = policy_loss(mine["new"], mine, preset, denominators)
        (gradient,) = torch.autograd.grad(loss, mine["new"])
        total = loss.detach().clone()
        dist.all_reduce(total)
        both = torch.zeros(len(batch["mask"]), gradient.shape[1], dtype=gradient.dtype)
        both[rank::2] = gradient
        dist.all_reduce(both)
        out[f"{kind} {name}"] = [total.item(), both.tolist()]
if rank == 0:
    json.dump(out, open(sink, "w"))
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path):
    batches = {kind: make(kind) for kind in ("tools", "empty_rows")}
    saved = {
        kind: {k: v.detach() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        for kind, batch in batches.items()
    }
    torch.save(saved, tmp_path / "batches.pt")
    arguments = [str(tmp_path / name) for name in ("store", "batches.pt", "out.json")]
    ranks = [start([sys.executable, "-c", WORKER, str(rank), *arguments]) for rank in (0, 1)]
    try:
        assert [rank.wait(timeout=240) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    together = json.loads((tmp_path / "out.json").read_text())
    for kind, batch in batches.items():
        for name, preset in PRESETS.items():
            loss, _ = policy_loss(batch["new"], batch, preset)
            (gradient,) = torch.autograd.grad(loss, batch["new"])
            total, logprob_grads = together[f"{kind} {name}"]
            assert total == pytest.approx(loss.item(), rel=1e-6, abs=1e-6), name
            torch.testing.assert_close(torch.tensor(logprob_grads, dtype=torch.float64), gradient, rtol=1e-6, atol=1e-6)
