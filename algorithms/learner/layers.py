"""The transformer layers of a model: which they are, and how they are compiled, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.core.lazy_torch import torch


def layers_of(model: Any, purpose: str) -> list[Any]:
    """The layers that transformers marks for gradient checkpointing: one for each block of the model.

    Raises:
        ValueError: the model has none; says that it ``purpose``.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layers that {purpose}")
    return layers


class CompiledLayers:
    """The layers of a model, compiled by torch.compile, for passes of the learner alone.

    Layers are alike, so what was compiled for the first serves all. Micro-batches differ in shape: sizes are symbols
    (``dynamic=True``), but for passes without gradient, which are compiled again. A sampler that holds the same model
    calls its layers as they were written, one token after another.
    """

    def __init__(self, model: Any) -> None:
        from rlvr.algorithms.learner.packing import stay_uncompiled

        self.layers = layers_of(model, "can be compiled: set learner.compile to false")
        stay_uncompiled()
        self._forwards: list[Callable[..., Any]] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Passes that begin in this block run the compiled layers."""
        if not self._forwards:  # now, as sharding makes another class of a layer
            self._forwards = [torch.compile(layer.forward, dynamic=True) for layer in self.layers]
        try:
            for layer, forward in zip(self.layers, self._forwards, strict=True):
                layer.forward = forward
            yield
        finally:
            for layer in self.layers:
                vars(layer).pop("forward", None)  # the method of its class is there again


def require_compiler(device: torch.device) -> None:
    """Compile one addition, so that a run without a compiler ends before it begins.

    Raises:
        ConfigError: it cannot be compiled for this device.
    """
    try:
        torch.compile(_double)(torch.ones(8, device=device))
    except Exception as error:  # each stage of the compiler has errors of its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        what = "a C++ compiler: install g++, or name one in CXX" if device.type == "cpu" else "Triton for the GPU"
        raise ConfigError(f"learner.compile needs {what}; or set it to false ({reason})") from error


def _double(x: Any) -> Any:
    return x + x
