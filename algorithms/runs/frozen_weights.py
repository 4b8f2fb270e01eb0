"""Weights that are not trained: no checkpoint holds them, and a run goes on with those that it began with."""

from __future__ import annotations

import hashlib
from typing import Any

from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.runs.checkpoints import Checkpoint, CheckpointError


def frozen_digest(model: Any) -> str:
    """The SHA-256 of the weights that are not trained, which no checkpoint holds; "" if all are, or are shards."""
    frozen = [parameter.detach() for parameter in model.parameters() if not parameter.requires_grad]
    if not frozen or any(hasattr(tensor, "to_local") for tensor in frozen):
        return ""
    digest = hashlib.sha256()
    for tensor in frozen:
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def require_frozen(checkpoint: Checkpoint, digest: str, name: str) -> None:
    """Adapters go on with the weights that they were trained on.

    Raises:
        CheckpointError: the model that the config names has other weights by now.
    """
    before = checkpoint.counters.get("frozen", "")  # checkpoints of earlier versions have none
    if before and digest and before != digest:
        raise CheckpointError(
            f"model.name: the weights of {name} are not those that this run's adapters were trained on: put them "
            "back, or begin another run"
        )
