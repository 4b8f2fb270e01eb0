"""AdamW by name: with its state in float32, or in eight bits a number by torchao or bitsandbytes."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rlvr.algorithms.config import ConfigError
from rlvr.algorithms.core.lazy_torch import Tensor, torch

ADAMW = "adamw"
PACKAGES = {"adamw_8bit": "torchao", "adamw_bnb_8bit": "bitsandbytes"}
PARTS = ("codes", "scale", "qmap")  # of a state that torchao holds in eight bits


def require_optimiser(name: str, sharded: bool = False) -> None:
    """Say at the start of a run what an optimiser of this name lacks.

    Raises:
        ConfigError: its package is missing or cannot be loaded, or the weights are sharded.
    """
    if name == ADAMW:
        return
    if sharded:
        raise ConfigError(
            f"learner.optimiser {name} goes with one process: its blocks of eight-bit numbers are not cut into shards; "
            "take adamw under torchrun, whose state is divided among the processes"
        )
    _package(name)


def _package(name: str) -> Any:
    package, level = PACKAGES[name], logging.root.manager.disable
    try:
        logging.disable(max(level, logging.WARNING))  # both name kernels of other devices that they could not load
        return importlib.import_module(f"{package}.optim")
    except Exception as error:  # a package for another torch fails in its own way
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f'learner.optimiser {name} needs {package}: pip install "rlvr[optim]", or take adamw ({reason})'
        ) from error
    finally:
        logging.disable(level)


def build_adamw(
    name: str, parameters: Sequence[Tensor], *, lr: float, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW (1711.05101) of float32 parameters.

    In eight bits a moment is a code of 256 values and a float32 scale for each block of 256 numbers (2110.02861).
    Tensors of less than 4,096 numbers keep their moments in float32.

    Raises:
        ConfigError: the package of this name is missing.
    """
    settings: dict[str, Any] = {"lr": lr, "betas": betas, "weight_decay": weight_decay}
    if name == ADAMW:
        return torch.optim.AdamW(parameters, **settings)
    optimiser: torch.optim.Optimizer = _package(name).AdamW8bit(parameters, **settings)
    return optimiser


def set_rate(adamw: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in adamw.param_groups:
        if isinstance(group["lr"], torch.Tensor):  # torchao's step is compiled, and would be anew for each number
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def eager_on_cpu(name: str, parameters: Sequence[Tensor]) -> AbstractContextManager[object]:
    """Where a step in eight bits runs as it is written.

    Both packages compile it. On a CPU that needs a C++ compiler and seconds for each shape of tensor, and gives other
    last bits.
    """
    if name == ADAMW or any(parameter.device.type != "cpu" for parameter in parameters):
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def state_tensors(adamw: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """The state as plain tensors: ``0.exp_avg``, or ``0.exp_avg.codes``, ``.scale`` and ``.qmap`` in eight bits."""
    found: dict[str, Tensor] = {}
    for index, parameter in enumerate(parameters):
        for name, value in adamw.state.get(parameter, {}).items():
            if all(hasattr(value, part) for part in PARTS):
                found |= {f"{index}.{name}.{part}": getattr(value, part) for part in PARTS}
            else:
                found[f"{index}.{name}"] = torch.as_tensor(value)
    return found


def load_state(adamw: torch.optim.Optimizer, name: str, state: dict[int, dict[str, Tensor]]) -> None:
    """Give each parameter, by its index, the tensors that `state_tensors` named.

    Raises:
        ValueError: they are of another optimiser.
    """
    slots = {index: _joined(found, name) for index, found in state.items()}
    adamw.load_state_dict({**adamw.state_dict(), "state": slots})


def _joined(found: dict[str, Tensor], name: str) -> dict[str, Any]:
    of_bnb = {"state1", "state2", "qmap1", "qmap2", "absmax1", "absmax2"}
    of_torchao = {f"{slot}.{part}" for slot in ("exp_avg", "exp_avg_sq") for part in PARTS}
    plain = {"exp_avg", "exp_avg_sq"}
    known = {ADAMW: plain, "adamw_8bit": plain | of_torchao, "adamw_bnb_8bit": of_bnb}[name] | {"step"}
    if strange := found.keys() - known:
        raise ValueError(f"the checkpoint is of another optimiser than {name}: it holds {', '.join(sorted(strange))}")
    joined: dict[str, Any] = {slot: value for slot, value in found.items() if "." not in slot}
    if name == "adamw_bnb_8bit":
        joined["step"] = int(found["step"])  # a tensor would become a float
    if len(joined) < len(found):
        from torchao.optim.subclass_8bit import OptimState8bit

        for slot in plain:
            codes, scale, qmap = (found[f"{slot}.{part}"] for part in PARTS)
            joined[slot] = OptimState8bit(codes, scale, qmap, slot == "exp_avg", dtype=torch.float32)
    return joined
