"""AdamW with its schedule, float32 master weights, gradient clipping, and a guard: a gradient that is not finite
changes nothing."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rlvr.algorithms.config import ConfigError, LearnerSection
from rlvr.algorithms.config.rates import chosen
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.learner.layers import layers_of
from rlvr.algorithms.learner.world import is_shard, like, local

PATIENCE = 5  # refused steps in a row before giving up
FIRST_SCALE = 2.0**15  # float16 holds nothing below 6e-8: a loss is multiplied by this before the backward pass
GROWTH = 2000  # steps without an overflow after which the scale doubles
MASTER = "master"
PIECE = 2**18  # numbers that a CPU widens at once: they stay in its cache, and no second tensor is made
PARTS = ("codes", "scale", "qmap")  # of a state that torchao holds in eight bits
PACKAGES = {"adamw_8bit": "torchao", "adamw_bnb_8bit": "bitsandbytes"}
ADAMW = "adamw"


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
            p if p.dtype == torch.float32 else _master(p, master)
            for p, master in zip(self.parameters, earlier, strict=True)
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
        schedule(chosen(settings.lr), settings.warmup_steps, total, settings.schedule == "linear"),
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
    )


def _master(parameter: torch.nn.Parameter, earlier: torch.nn.Parameter | None) -> torch.nn.Parameter:
    """A float32 copy, or the one that there is: what it holds beyond the parameter is not lost between two phases."""
    if earlier is not None and torch.equal(parameter, earlier.to(parameter.dtype)):
        return earlier
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


class Accumulation:
    """Sums of the gradients of some parameters over backward passes, in which order and processes do not matter.

    A float32 sum depends on its order: two processes add other pairs of micro-batches than one. AdamW divides by the
    root of the second moment, so where a gradient is nearly 0, and all of it rounding, the order moves a weight by a
    part of the learning rate. A float64 sum of float32 gradients is exact but for ranges beyond 2^29, so rounded to
    float32 it is the same in any order.

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
        gradients: list[Tensor | None] = []
        for index, parameter in enumerate(self.parameters):
            total, self.sums[index] = self.sums[index], None
            total = parameter.grad if total is None else total
            parameter.grad = None
            gradients.append(None if total is None else total.float())
        return gradients

    def clear(self) -> None:
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
        gradients: list[Tensor | None] = [parameter.grad for parameter in self.parameters]
        return gradients

    def clear(self) -> None:
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


def shard(
    model: Any, scorer: torch.nn.Module, dtype: torch.dtype, offload: bool = False, sums: torch.dtype | None = None
) -> Accumulation:
    """Shard a model's float32 weights over all processes: each layer by itself, the rest with the scorer.

    Layers are computed in ``dtype``, gradients are summed in ``sums``, float32 when not given: FSDP2's `fully_shard`.
    The sum, not the mean: the loss is divided by the counts of the whole batch already. With ``offload`` the shards lie
    in the memory of the CPU between two passes, and the optimiser works there.

    Returns what adds up the gradients of several passes.

    Raises:
        ValueError: the model has no layers that transformers marks.
    """
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    sums = sums or torch.float32
    # w in float32, y = cast(w) x in `dtype`, dL/dw summed in float32 or wider: an update of 1e-6 is not lost.
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=sums)
    # shards, their gradients and the optimiser's state stay on the CPU: ZeRO-Offload, 2101.06840
    there = CPUOffloadPolicy(pin_memory=torch.cuda.is_available()) if offload else OffloadPolicy()
    layers = layers_of(model, "can be sharded: train it in one process")
    # Inner parts first: each gathers its own weights in turn, so at most one layer is whole at a time.
    parts: list[Any] = [*layers, scorer]
    for part in parts:
        fully_shard(part, mp_policy=policy, offload_policy=there)
        # g = sum_p g_p: each g_p is divided by the counts of all processes already.
        part.set_gradient_divide_factor(1.0)
        part.set_force_sum_reduction_for_comms(True)  # gloo has no other
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if sums == torch.float32:
        return Accumulation(trained, sums)  # FSDP2 adds up in the dtype of the weights by itself
    accumulation = ShardedAccumulation(trained, sums)
    for index, part in enumerate(parts):
        part.set_all_reduce_hook(accumulation.hook(index))
    return accumulation


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
    tensors: dict[str, Tensor] = {}
    for index, parameter in enumerate(parameters):
        for name, value in adamw.state.get(parameter, {}).items():
            if all(hasattr(value, part) for part in PARTS):
                tensors |= {f"{index}.{name}.{part}": getattr(value, part) for part in PARTS}
            else:
                tensors[f"{index}.{name}"] = torch.as_tensor(value)
    return tensors


def load_state(adamw: torch.optim.Optimizer, name: str, state: dict[int, dict[str, Tensor]]) -> None:
    """Give each parameter, by its index, the tensors that `state_tensors` named.

    Raises:
        ValueError: they are of another optimiser.
    """
    slots = {index: _joined(tensors, name) for index, tensors in state.items()}
    adamw.load_state_dict({**adamw.state_dict(), "state": slots})


def _joined(tensors: dict[str, Tensor], name: str) -> dict[str, Any]:
    of_bnb = {"state1", "state2", "qmap1", "qmap2", "absmax1", "absmax2"}
    of_torchao = {f"{slot}.{part}" for slot in ("exp_avg", "exp_avg_sq") for part in PARTS}
    plain = {"exp_avg", "exp_avg_sq"}
    allowed = {ADAMW: plain, "adamw_8bit": plain | of_torchao, "adamw_bnb_8bit": of_bnb}[name] | {"step"}
    if strange := tensors.keys() - allowed:
        raise ValueError(f"the checkpoint is of another optimiser than {name}: it holds {', '.join(sorted(strange))}")
    joined: dict[str, Any] = {slot: value for slot, value in tensors.items() if "." not in slot}
    if name == "adamw_bnb_8bit":
        joined["step"] = int(tensors["step"])  # a tensor would become a float
    if len(joined) < len(tensors):
        from torchao.optim.subclass_8bit import OptimState8bit

        for slot in plain:
            codes, scale, qmap = (tensors[f"{slot}.{part}"] for part in PARTS)
            joined[slot] = OptimState8bit(codes, scale, qmap, slot == "exp_avg", dtype=torch.float32)
    return joined
