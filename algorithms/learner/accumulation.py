"""Gradients of micro-batches, added up so that their order, and the number of processes, does not matter.

A float32 sum depends on its order: two processes add other pairs of micro-batches than one. AdamW divides by the root
of the second moment, so where a gradient is nearly 0, and all of it rounding, the order moves a weight by a part of the
learning rate. A float64 sum of float32 gradients is exact but for ranges beyond 2^29, so rounded to float32 it is the
same in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rlvr.algorithms.core.lazy_torch import Tensor, torch

PIECE = 2**18  # numbers that a CPU widens at once: they stay in its cache, and no second tensor is made


class Accumulation:
    """Sums of the gradients of some parameters over backward passes.

    Args:
        parameters: whose gradients are added up.
        dtype: of the sums; autograd adds up float32 gradients by itself.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], dtype: torch.dtype) -> None:
        self.parameters, self.dtype = parameters, dtype
        self.sums: list[Tensor | None] = [None] * len(parameters)

    def before_backward(self) -> None:
        """Take the gradients that stand in the parameters into the sums: the next pass begins without."""
        for index, parameter in enumerate(self.parameters):
            gradient = parameter.grad
            if gradient is None or gradient.dtype == self.dtype:
                continue
            total = self.sums[index]
            if total is None:
                self.sums[index] = gradient.to(self.dtype, memory_format=torch.contiguous_format)
            else:
                _add(total, gradient)
            parameter.grad = None

    def gradients(self) -> list[Tensor | None]:
        """The sums, float32, one for each parameter; None where there was no gradient. They are cleared."""
        if any(total is not None for total in self.sums):
            self.before_backward()
        found: list[Tensor | None] = []
        for index, parameter in enumerate(self.parameters):
            total, self.sums[index] = self.sums[index], None
            total = parameter.grad if total is None else total
            parameter.grad = None
            found.append(None if total is None else total.float())
        return found

    def clear(self) -> None:
        """Throw the sums away."""
        self.sums = [None] * len(self.parameters)


class ShardedAccumulation(Accumulation):
    """The same where FSDP2 holds the parameters: each process keeps the sums of its own shards.

    FSDP2 adds up what the processes give in the dtype of its reduction, and rounds it to that of the weights before it
    adds it to the gradient of earlier passes. The hook comes in between.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], dtype: torch.dtype) -> None:
        super().__init__(parameters, dtype)
        self.parts: dict[int, Tensor] = {}

    def hook(self, part: int) -> Callable[[Tensor], None]:
        """For `FSDPModule.set_all_reduce_hook` of a module: makes of a pass's sum that of all passes."""

        def add(reduced: Tensor) -> None:
            total = self.parts.get(part)
            if total is None:
                self.parts[part] = reduced.clone()
            else:
                reduced.copy_(total.add_(reduced))

        return add

    def before_backward(self) -> None:
        """Forget the gradients of the last pass: those of the next will hold all passes."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradients(self) -> list[Tensor | None]:
        """The sums, float32, one for each parameter: they stand in the parameters."""
        self.parts.clear()
        found: list[Tensor | None] = [parameter.grad for parameter in self.parameters]
        return found

    def clear(self) -> None:
        """Throw the sums away."""
        self.parts.clear()


def _add(total: Tensor, gradient: Tensor) -> None:
    """Add a gradient to a wider, contiguous sum."""
    for part, piece in zip(_pieces(total), _pieces(gradient), strict=True):
        part.add_(piece)


def square_sum(tensor: Tensor) -> Tensor:
    """[] The sum of squares in float64."""
    # ||g||^2 = g . g     [N] -> []
    wide = (piece.double() for piece in _pieces(tensor.detach()))
    return torch.stack([torch.dot(piece, piece) for piece in wide]).sum()


def _pieces(tensor: Tensor) -> Sequence[Tensor]:
    """Its numbers in a row; on a GPU, which widens as it computes, in few pieces."""
    size = PIECE if tensor.device.type == "cpu" else 64 * PIECE
    return torch.split(tensor.reshape(-1), size)
