"""Memory: what to do when it runs out, and layers that are computed again in place of being kept."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.learner.layers import layers_of

M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
BACK_AT_ONCE = 2**20  # bytes from which a block is mapped by itself


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation of torch's has failed, on a device or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    # the CPU's allocator raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def explain_memory(error: RuntimeError, text: str) -> None:
    """Say what to change where memory ran out; another error is left to be raised again.

    Raises:
        ConfigError: memory ran out; ``text`` says in what, and which field to lower.
    """
    if is_out_of_memory(error):
        raise ConfigError(f"out of memory {text}") from error


def free_cached(device: torch.device) -> None:
    """Give back what a failed try left in the allocator's pieces, which may be too small for the next."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


@cache
def return_freed_memory() -> None:
    """Have the C library of this process give large blocks back to the system when they are freed (glibc).

    By itself it keeps blocks of up to 32 MB for the next of their size. Where a small one stays in use after each
    layer, as the layer's input does, most of them fit nothing: of one sequence of 4,096 tokens it held 600 MB for 220
    in use. Fresh blocks cost time instead, since the system clears them.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, BACK_AT_ONCE)


@contextmanager
def recomputed_layers(model: Any, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> Iterator[None]:
    """Forward passes in this block keep the input of each layer alone; the backward pass computes the layer again.

    The model's own `gradient_checkpointing_enable` acts in training mode alone, and training mode means dropout, under
    which log-probabilities are not those of sampling. On a CPU it changes how this process frees memory
    (`return_freed_memory`).

    Args:
        around: makes the block that a layer is computed again in.

    Raises:
        ValueError: the model has no layers that transformers marks for it.
    """
    layers = layers_of(model, "can be computed again: set learner.recompute_layers to false")
    if next(model.parameters()).device.type == "cpu":
        return_freed_memory()
    before = [vars(layer).get("forward") for layer in layers]  # compiled, perhaps
    try:
        for layer in layers:
            # the backward pass calls what stands here now: it needs no block around it
            layer.forward = partial(
                checkpoint,
                layer.forward,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=lambda: (nullcontext(), around()),
            )
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward  # the method of its class is there again
            if forward is not None:
                layer.forward = forward
