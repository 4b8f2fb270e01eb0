"""AdamW with its schedule, float32 master weights, gradient clipping, and a guard: a gradient that is not finite
changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rlvr.algorithms.config import LearnerSection
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.learner.accumulation import Accumulation, square_sum
from rlvr.algorithms.learner.adamw import ADAMW, build_adamw, eager_on_cpu, load_state, set_rate, state_tensors
from rlvr.algorithms.learner.world import is_shard, like, local

PATIENCE = 5  # refused steps in a row before giving up
FIRST_SCALE = 2.0**15  # float16 holds nothing below 6e-8: a loss is multiplied by this before the backward pass
GROWTH = 2000  # steps without an overflow after which the scale doubles
MASTER = "master"


class Optimiser:
    """One phase of training.

    AdamW works on float32: a parameter in half precision has a float32 master copy, which takes the update and is
    rounded into the parameter. Without it bfloat16, with its 8 bits of mantissa, loses every update that is smaller
    than 1/256 of the weight, which at a learning rate of 1e-6 is nearly all of them.

    In float16 a gradient below 6e-8 would be 0: `backward` scales the loss of such a model up, and `step` the gradients
    down again. Where they overflow, the step is left out and the scale halved: dynamic loss scaling, 1710.03740.

    Args:
        parameters: what is trained.
        lr: learning rate of a step, counted from 0.
        max_grad_norm: gradients are scaled down to this 2-norm.
        kind: a name of `learner.optimiser`: whether AdamW's state is float32, or eight bits a number.
        accumulation: adds up the gradients of `backward`; in float32 when not given.
        masters: those of the phase before, taken where the parameters are still their values, rounded.

    Raises:
        ConfigError: the package of an eight-bit kind is missing.
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
        kind: str = ADAMW,
        accumulation: Accumulation | None = None,
        masters: Sequence[torch.nn.Parameter] = (),
    ) -> None:
        every = list(parameters)
        self.scale = FIRST_SCALE if any(p.dtype == torch.float16 for p in every) else 1.0
        self.since_overflow = 0
        self.parameters = [p for p in every if p.requires_grad]
        # float32, one for each parameter
        earlier: Sequence[torch.nn.Parameter | None] = masters or [None] * len(self.parameters)
        self.masters = [
            p if p.dtype == torch.float32 else _master(p, known)
            for p, known in zip(self.parameters, earlier, strict=True)
        ]
        self.accumulation = accumulation or Accumulation(self.parameters, torch.float32)
        self.lr = lr
        self.max_grad_norm = max_grad_norm
        self.kind = kind
        self.adamw = build_adamw(kind, self.masters, lr=lr(0), betas=betas, weight_decay=weight_decay)
        self.steps = 0
        self.refused = 0

    def take_gradients(self) -> None:
        """Add the last pass's gradients to the sums: they need not be held beside what the next forward pass keeps."""
        self.accumulation.before_backward()

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss, scaled if need be."""
        scaled = loss if self.scale == 1.0 else loss * self.scale
        self.take_gradients()
        scaled.backward()

    def step(self) -> dict[str, float]:
        """Apply the gradients that stand in the parameters, and clear them; norm, rate and whether it was refused."""
        # norm, moments and update are float32, whatever the dtype of the parameters
        for master, gradient in zip(self.masters, self.accumulation.gradients(), strict=True):
            master.grad = gradient
        norm = self._clip([master.grad for master in self.masters if master.grad is not None])
        if not math.isfinite(norm):
            return self.refuse() if self.scale == 1.0 else self._overflow()
        self._grow()
        rate = self.lr(self.steps)
        self.steps += 1
        self.refused = 0  # refusals count in a row
        set_rate(self.adamw, rate)
        # m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, w <- w - lr (m^ / (sqrt(v^) + eps) + decay w): 1711.05101
        with eager_on_cpu(self.kind, self.masters):
            self.adamw.step()
        with torch.no_grad():
            for parameter, master in self._copied():
                parameter.copy_(master)  # rounded to the nearest
        self.clear()
        return {"grad_norm": norm, "lr": rate, "refused": 0.0}

    def _clip(self, gradients: list[Tensor]) -> float:
        """Scale the gradients to at most `max_grad_norm`, all of them together; their norm before that."""
        # ||g||_2^2 in float64, so that neither shards nor their number change its last bit
        squares = [square_sum(local(gradient)) for gradient in gradients]
        total = torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)
        if any(is_shard(gradient) for gradient in gradients):
            torch.distributed.all_reduce(total)
        norm = math.sqrt(total) / self.scale
        # g <- g min(1, c / (||g||_2 + 1e-6)), over all parameters together     1211.5063
        factor = min(1.0, self.max_grad_norm / (norm + 1e-6)) / self.scale
        if factor != 1.0 and math.isfinite(norm):
            for gradient in gradients:
                gradient.mul_(factor)
        return norm

    def _overflow(self) -> dict[str, float]:
        """Leave a step out whose scaled gradients overflowed; at the scale 1 that is a refusal."""
        self.scale, self.since_overflow = max(1.0, self.scale / 2), 0
        rate = self.lr(self.steps)
        self.steps += 1
        self.clear()
        return {"grad_norm": 0.0, "lr": rate, "refused": 1.0}

    def _grow(self) -> None:
        if self.scale != 1.0:
            self.since_overflow += 1
            if self.since_overflow == GROWTH:
                self.scale, self.since_overflow = self.scale * 2, 0

    def refuse(self) -> dict[str, float]:
        """Count a step whose loss or gradient is not finite, and throw its gradients away."""
        rate = self.lr(self.steps)
        self.steps += 1  # the schedule goes on: a refused step is a step
        self.refused += 1
        self.clear()
        if self.refused >= PATIENCE:
            raise FloatingPointError(
                f"{PATIENCE} losses or gradients in a row were not finite, and no weight was changed by them: "
                "lower the learning rate, or take a wider dtype"
            )
        return {"grad_norm": 0.0, "lr": rate, "refused": 1.0}

    def _copied(self) -> list[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        """Parameters that have a master copy, with it."""
        pairs = zip(self.parameters, self.masters, strict=True)
        return [(parameter, master) for parameter, master in pairs if parameter is not master]

    def clear(self) -> None:
        """Throw the gradients away."""
        self.accumulation.clear()
        for parameter in (*self.parameters, *self.masters):
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """AdamW's tensors and the master copies, by name; under torchrun the shards of this process."""
        tensors = state_tensors(self.adamw, self.masters)
        for index, (parameter, master) in enumerate(zip(self.parameters, self.masters, strict=True)):
            if parameter is not master:
                tensors[f"{index}.{MASTER}"] = master.detach()
        return tensors

    def state_dict(self) -> dict[str, Any]:
        """The counters, plain; `tensors` has the rest."""
        counters: dict[str, Any] = {"steps": self.steps, "refused": self.refused}
        if self.scale != 1.0:
            counters |= {"scale": self.scale, "since_overflow": self.since_overflow}
        return counters

    def load_state_dict(self, counters: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from what `state_dict` and `tensors` gave; the parameters' own values are not touched.

        Raises:
            ValueError: a master copy is missing: the checkpoint is of a run in another dtype. Or it is of another kind.
        """
        state: dict[int, dict[str, Tensor]] = {}
        masters: dict[int, Tensor] = {}
        for key, value in tensors.items():
            number, name = key.split(".", 1)
            if name == MASTER:
                masters[int(number)] = value
            else:
                state.setdefault(int(number), {})[name] = value
        for index, (parameter, master) in enumerate(zip(self.parameters, self.masters, strict=True)):
            if parameter is master:
                continue
            if index not in masters:
                raise ValueError("the checkpoint has no float32 master weights: it is of a run in another dtype")
            with torch.no_grad():
                master.copy_(masters[index])
        for index, slots in state.items():
            state[index] = {name: like(self.masters[index], value) for name, value in slots.items()}
        load_state(self.adamw, self.kind, state)
        self.steps, self.refused = counters["steps"], counters["refused"]
        self.scale, self.since_overflow = counters.get("scale", 1.0), counters.get("since_overflow", 0)


def build_optimiser(make: Callable[..., Optimiser], settings: LearnerSection, total: int) -> Optimiser:
    """That of reinforcement learning, for so many steps in all; ``make`` is `Learner.new_optimiser`."""
    return make(
        schedule(settings.lr, settings.warmup_steps, total, settings.schedule == "linear"),
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
    )


def _master(parameter: torch.nn.Parameter, known: torch.nn.Parameter | None) -> torch.nn.Parameter:
    """A float32 copy, or the one that there is: what it holds beyond the parameter is not lost between two phases."""
    if known is not None and torch.equal(parameter, known.to(parameter.dtype)):
        return known
    return torch.nn.Parameter(parameter.detach().float().clone())


def schedule(lr: float, warmup: int, total: int, decay: bool) -> Callable[[int], float]:
    """Rises linearly over ``warmup`` steps; then constant, or falling linearly to a tenth at the last step."""

    def rate(step: int) -> float:
        if step < warmup:
            # lr_s = lr (s + 1) / (w + 1): the first step is not lost on a rate of 0
            return lr * (step + 1) / (warmup + 1)
        if not decay:
            return lr
        # lr_s = lr (1 - 0.9 min(1, (s - w) / (S - 1 - w)))
        done = (step - warmup) / max(1, total - 1 - warmup)
        return lr * (1 - 0.9 * min(1.0, done))

    return rate
