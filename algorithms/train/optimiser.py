"""AdamW with its schedule, gradient clipping, and a guard: a gradient that is not finite changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rlvr.algorithms._torch import torch

PATIENCE = 5  # refused steps in a row before giving up


class Optimiser:
    """One phase of training.

    Args:
        parameters: what is trained.
        lr: learning rate of a step, counted from 0.
        max_grad_norm: gradients are scaled down to this 2-norm.

    Raises:
        FloatingPointError: from ``step`` and ``refuse``, when five steps in a row were refused.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        lr: Callable[[int], float],
        *,
        betas: tuple[float, float],
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
    ) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        self.lr = lr
        self.max_grad_norm = max_grad_norm
        self.adamw = torch.optim.AdamW(self.parameters, lr=lr(0), betas=betas, weight_decay=weight_decay)
        self.steps = 0
        self.refused = 0

    def step(self) -> dict[str, float]:
        """Apply the gradients that stand in the parameters, and clear them."""
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.max_grad_norm))
        if not math.isfinite(norm):
            return self.refuse()
        rate = self.lr(self.steps)
        self.steps += 1
        self.refused = 0
        for group in self.adamw.param_groups:
            group["lr"] = rate
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        return {"grad_norm": norm, "lr": rate, "refused": 0.0}

    def refuse(self) -> dict[str, float]:
        """Count a step whose loss or gradient is not finite, and throw its gradients away."""
        rate = self.lr(self.steps)
        self.steps += 1
        self.refused += 1
        self.adamw.zero_grad(set_to_none=True)
        if self.refused >= PATIENCE:
            raise FloatingPointError(
                f"{PATIENCE} losses or gradients in a row were not finite, and no weight was changed by them: "
                "lower the learning rate, or take a wider dtype"
            )
        return {"grad_norm": 0.0, "lr": rate, "refused": 1.0}

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """AdamW's tensors by name, and the counters."""
        tensors: dict[str, torch.Tensor] = {}
        for place, slots in self.adamw.state_dict()["state"].items():
            tensors |= {f"{place}.{name}": torch.as_tensor(value) for name, value in slots.items()}
        return tensors, {"steps": self.steps, "refused": self.refused}

    def load(self, tensors: dict[str, torch.Tensor], counters: dict[str, Any]) -> None:
        state: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in tensors.items():
            place, name = key.split(".", 1)
            state.setdefault(int(place), {})[name] = value
        self.adamw.load_state_dict({**self.adamw.state_dict(), "state": state})
        self.steps, self.refused = counters["steps"], counters["refused"]


def schedule(lr: float, warmup: int, total: int, decay: bool) -> Callable[[int], float]:
    """Rises linearly over ``warmup`` steps; then constant, or falling linearly to a tenth at the last step."""

    def rate(step: int) -> float:
        if step < warmup:
            return lr * (step + 1) / (warmup + 1)
        if not decay:
            return lr
        done = (step - warmup) / max(1, total - 1 - warmup)
        return lr * (1 - 0.9 * min(1.0, done))

    return rate
