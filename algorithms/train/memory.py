"""Memory: what to do when it runs out, and layers that are computed again in place of being kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation of torch's has failed, on a device or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    # the CPU's allocator raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def free_cached(device: torch.device) -> None:
    """Give back what a failed try left in the allocator's pieces, which may be too small for the next."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


@contextmanager
def recomputed_layers(model: Any) -> Iterator[None]:
    """Forward passes in this block keep the input of each layer alone; the backward pass computes the layer again.

    The model's own `gradient_checkpointing_enable` acts in training mode alone, and training mode means dropout, under
    which log-probabilities are not those of sampling.

    Raises:
        ValueError: the model has no layers that transformers marks for it.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no layers that can be computed again: set learner.recompute_layers to false"
        )
    try:
        for layer in layers:
            # the backward pass calls what stands here now: it needs no block around it
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)  # the method of its class is there again
