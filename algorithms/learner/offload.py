"""Activations that wait for the backward pass in the memory of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlvr.algorithms.core.lazy_torch import Tensor, torch

SMALL = 1024  # bytes below which a tensor stays: the copy would cost more than it frees


class OffloadedActivations:
    """What autograd keeps of a forward pass is copied to the CPU, and back where the backward pass asks for it.

    As torch's `save_on_cpu`, but the weights, which autograd keeps too, stay where they are. On a CPU nothing moves.

    Attributes:
        moved: bytes that the last pass would have kept.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.moved = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Of passes in this block."""
        tensors = (*self.model.parameters(), *self.model.buffers())
        weights = {tensor.untyped_storage().data_ptr() for tensor in tensors}  # whatever view of them is kept
        self.moved = 0

        def pack(tensor: Tensor) -> tuple[torch.device, Tensor]:
            size = tensor.numel() * tensor.element_size()
            if size < SMALL or tensor.untyped_storage().data_ptr() in weights:
                return tensor.device, tensor
            self.moved += size
            if tensor.device.type == "cpu":
                return tensor.device, tensor
            copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)  # page-locked: a faster copy
            return tensor.device, copy.copy_(tensor)

        def unpack(packed: tuple[torch.device, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
