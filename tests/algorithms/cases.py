"""Batches on which the losses are compared with the reference: one maker, many shapes of trouble."""

from __future__ import annotations

import torch

KINDS = (
    "plain", "ragged", "tools", "zero_variance", "extreme", "length_one", "empty_rows", "token_advantages",
    "far_sampler",
)  # fmt: skip


def make(kind: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> dict:
    """A batch with `new` (leaf, requires grad), all columns, 4 prompts x 3 rows x 7 tokens; garbage where masked."""
    gen = torch.Generator().manual_seed(seed)
    rows, width = 12, 7

    def normal(scale: float) -> torch.Tensor:
        return scale * torch.randn(rows, width, generator=gen, dtype=torch.float64)

    lengths = torch.randint(1, width + 1, (rows,), generator=gen)
    if kind == "plain":
        lengths[:] = width
    if kind == "length_one":
        lengths[:] = 1
    mask = torch.arange(width) < lengths[:, None]
    if kind == "tools":
        mask &= torch.rand(rows, width, generator=gen) > 0.4
        mask[:, 0] = True
    if kind == "empty_rows":
        mask[2] = False
        mask[6:9] = False  # a whole prompt
    old = -2.0 + normal(0.7)
    spread = 6.0 if kind == "extreme" else 0.25
    advantages = torch.randn(rows, generator=gen, dtype=torch.float64)
    if kind == "zero_variance":
        advantages[:6] = 0.0
    if kind == "token_advantages":
        advantages = normal(1.0)
    batch = {
        "new": old + normal(spread),
        "old_logprobs": old,
        "behaviour_logprobs": old + normal(1.5 if kind in ("extreme", "far_sampler") else 0.05),
        "ref_logprobs": old + normal(0.4),
    }
    garbage = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e4], dtype=torch.float64)
    for key, column in batch.items():
        rubbish = garbage[torch.randint(4, (rows, width), generator=gen)]
        batch[key] = torch.where(mask, column, rubbish).to(dtype)
    if advantages.dim() == 2:
        advantages = torch.where(mask, advantages, float("nan"))
    batch["new"].requires_grad_()
    group = torch.tensor([7, 3, 3, 7, 3, 7, 11, 11, 11, 5, 5, 5])
    batch["covariant"] = torch.rand(rows, width, generator=gen) > 0.7
    return batch | {"mask": mask, "group": group, "advantages": advantages.to(dtype), "max_length": 9}


def as_lists(batch: dict) -> dict:
    """The same for the reference."""
    return {
        key: value.detach().double().tolist()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value.tolist()
        if isinstance(value, torch.Tensor)
        else value
        for key, value in batch.items()
    }


def take(batch: dict, rows: torch.Tensor | list[int], leaf: bool = True) -> dict:
    """Some rows, with a leaf of their own."""
    rows = torch.as_tensor(rows)
    out = {k: v[rows] if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
    if leaf:
        out["new"] = out["new"].detach().clone().requires_grad_()
    return out


def pack(batch: dict, lines: int = 2) -> tuple[dict, torch.Tensor]:
    """All positions of all rows, masked ones too, laid end to end on `lines` lines; and where each came from, flat."""
    rows, width = batch["mask"].shape
    order = torch.arange(rows * width)
    row_id = torch.arange(rows)[:, None].expand(rows, width).reshape(lines, -1)
    out = {}
    for key, value in batch.items():
        whole = isinstance(value, torch.Tensor) and value.dim() == 2
        out[key] = value.detach().reshape(lines, -1) if whole else value
    out["new"] = out["new"].clone().requires_grad_()
    row_id = torch.where(out["mask"], row_id, -1)  # what stands at masked places is not read
    return out | {"sequence_id": row_id}, order.reshape(lines, -1)
