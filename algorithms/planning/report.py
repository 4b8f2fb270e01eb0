"""The plan of a run: what fits, what a step takes, hours and cost, and what sampling ahead would bring."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, fields

from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.planning.memory import (
    CONTEXT,
    TrainingMemory,
    Update,
    kv_bytes,
    sequences_in_cache,
    training_memory,
)
from rlvr.algorithms.planning.shapes import BYTES, GIB, DeviceLimits, ModelShape
from rlvr.algorithms.planning.simulation import SimulatedRun, SimulatedTimes, simulate
from rlvr.algorithms.planning.speed import ENGINE_OVERHEAD, Decoding, decoding, training_speed

PREFIXES = 0.9  # of a device's memory that vLLM takes where nobody says otherwise
DEPTHS = (0, 1, 2, 4, 8)
SIMULATED_STEPS, SIMULATED_EPISODES = 12, 40_000


@dataclass(frozen=True)
class Assumed:
    """What a config does not say.

    gpus, sampler_gpus   devices that learn; devices of their own that sample, 0: the same
    turns                of an episode
    reply, prompt        mean sampled tokens of a turn; tokens that come with each turn
    env_seconds, tail    mean time of an environment's step, sigma of its logarithm
    mfu                  share of the peak that an update reaches; None takes the curve
    dollars              an hour of a device; None takes the table's guess
    step_overhead        seconds of a decoding step beside reading weights and cache
    """

    gpus: int = 1
    sampler_gpus: int = 0
    turns: int = 1
    reply: float = 256.0
    prompt: float = 128.0
    env_seconds: float = 0.0
    tail: float = 1.0
    mfu: float | None = None
    dollars: float | None = None
    step_overhead: float = ENGINE_OVERHEAD


@dataclass(frozen=True)
class RunPlan:
    """What `plan` found; times in seconds, memory in bytes."""

    config: TrainConfig
    shape: ModelShape
    device: DeviceLimits
    assumed: Assumed
    memory: TrainingMemory
    cache_sequences: int
    decoding: Decoding
    training_speed: float
    update_seconds: float
    sampling_seconds: float
    times: dict[int, SimulatedTimes]
    workers: dict[int, SimulatedTimes]
    shared: float = 1.0  # share of the tokens that goes through the model

    @property
    def limit(self) -> float:
        """Bytes of a device that a run may use."""
        return self.device.memory * GIB - CONTEXT

    @property
    def fits(self) -> bool:
        """Whether the update fits, and a sequence's cache beside what stays."""
        return self.needed <= self.limit and self.cache_sequences > 0

    @property
    def needed(self) -> float:
        """Bytes of an update; of several policies the weights and the state of all are there, and one is updated."""
        return self.memory.total + (learned(self.config) - 1) * _stays(self.memory)

    @property
    def hours(self) -> float:
        """Of the run, as its schedule is."""
        return learned(self.config) * self.config.steps * self.times[depth_of(self.config)].step / 3600

    @property
    def cost(self) -> float:
        """Dollars; 0 where the price is not known."""
        price = self.device.dollars if self.assumed.dollars is None else self.assumed.dollars
        return self.hours * price * (self.assumed.gpus + self.assumed.sampler_gpus)


def depth_of(config: TrainConfig) -> int:
    """Steps that are sampled ahead."""
    return config.schedule.depth if config.schedule.kind == "async" else 0


def learned(config: TrainConfig) -> int:
    """How many policies a run learns; each plays and updates as many episodes as the config says."""
    return max(1, len(config.self_play.policies))


def in_transformers(config: TrainConfig) -> bool:
    """Whether transformers samples, one operation after the other asked for by Python."""
    return config.sampler.kind == "transformers"


def _stays(memory: TrainingMemory) -> float:
    """Bytes of a policy between two updates."""
    return memory.total - memory.kept - memory.layer - memory.head - memory.gradients


def plan(config: TrainConfig, shape: ModelShape, device: DeviceLimits, assumed: Assumed) -> RunPlan:
    """The plan of a run; nothing is measured here, all is computed.

    Raises:
        ConfigError: the run is trained on a service.
    """
    # Memory, speed and price are the service's own affair.
    if config.engine.kind == "tinker":
        raise ConfigError("engine: tinker trains on the service's devices, and rlvr plan is about yours: leave it out")
    dtype = config.model.dtype
    length = min(config.sampling.max_length, assumed.turns * (assumed.prompt + assumed.reply))
    memory = training_memory(shape, _update(config, assumed))
    samplers = assumed.sampler_gpus or assumed.gpus
    cached = _cache(config, shape, device, memory, length)
    episodes = config.prompts * config.group_size
    slots = max(1, min(cached, -(-min(config.env.batch_size, episodes * (depth_of(config) + 1)) // samplers)))
    # a sequence in the middle of its way has half of its tokens
    decode = decoding(shape, device, slots, length / 2, dtype, assumed.step_overhead)
    speed = training_speed(
        shape, device, length, devices=assumed.gpus, dtype=dtype, lora=bool(config.model.lora_rank), mfu=assumed.mfu
    )
    passes = config.learner.epochs * config.learner.minibatches
    # forward passes for old and reference log-probabilities are a third of an update's work each
    more = (passes > 1 and "old_logprobs" in config.preset().needs) + (config.preset().kl_coef > 0)
    shared = shared_tokens(config, assumed, length)
    update = episodes * length * shared * (config.learner.epochs + more / 3) / speed

    # without workers environments are stepped one after the other
    env_workers = config.env.workers or (1 if assumed.env_seconds else 0)

    def simulated(depth: int, workers: int = env_workers) -> SimulatedTimes:
        return simulate(
            SimulatedRun(
                steps=max(2, min(SIMULATED_STEPS, max(2, config.steps), SIMULATED_EPISODES // episodes)),
                episodes=episodes,
                turns=assumed.turns,
                samplers=samplers,
                slots=slots,
                turn_seconds=_turn_seconds(shape, device, assumed, length, dtype),
                env_seconds=assumed.env_seconds,
                tail=assumed.tail,
                workers=workers,
                update_seconds=update,
                depth=depth,
                continuous=config.sampler.kind != "transformers",
                seed=config.seed,
            )
        )

    depths = sorted({*DEPTHS, depth_of(config)})
    bounds = (4, 16, 64, 256, 0) if assumed.env_seconds else ()
    return RunPlan(
        config, shape, device, assumed, memory, cached, decode, speed, update,
        sampling_seconds=episodes * assumed.turns * assumed.reply / (decode.tokens * samplers),
        times={depth: simulated(depth) for depth in depths},
        workers={bound: simulated(depth_of(config), bound) for bound in bounds},
        shared=shared,
    )  # fmt: skip


def shared_tokens(config: TrainConfig, assumed: Assumed, length: float) -> float:
    """Share of a step's tokens that goes through the model where samples share their prompt; 1 where none do.

    A micro-batch of N tokens holds n = N // T samples, so the G samples of a prompt of p tokens fill m = ceil(G / n) of
    them, each with the prompt once: s = 1 - (1 - m / G) p / T.
    """
    if not config.learner.share_prompts:
        return 1.0
    samples = max(1.0, config.learner.micro_batch_tokens // length)
    times = math.ceil(config.group_size / samples)
    return 1 - (1 - times / config.group_size) * min(assumed.prompt, length) / length


def _sharded(config: TrainConfig, assumed: Assumed) -> bool:
    """Whether the run is one under torchrun; offloaded weights ask for that on one device, too."""
    return assumed.gpus > 1 or config.learner.offload == "weights"


def _update(config: TrainConfig, assumed: Assumed) -> Update:
    return Update(
        tokens=max(config.learner.micro_batch_tokens, config.sampling.max_length),
        dtype=config.model.dtype,
        devices=assumed.gpus,
        recompute=config.learner.recompute_layers,
        lora_rank=config.model.lora_rank,
        reference=config.preset().kl_coef > 0,
        optimiser=config.learner.optimiser,
        offload=config.learner.offload,
        exact=config.learner.grad_accum_dtype == "float64",
        # under FSDP, and with async, a whole copy samples in the learner's process
        samples=not assumed.sampler_gpus and config.sampler.kind == "transformers"
        and (_sharded(config, assumed) or config.schedule.kind == "async"),
    )  # fmt: skip


def _cache(config: TrainConfig, shape: ModelShape, device: DeviceLimits, memory: TrainingMemory, length: float) -> int:
    """Sequences whose cache fits on a device that samples."""
    dtype, limit = config.model.dtype, device.memory * GIB - CONTEXT
    weights = BYTES[dtype] * shape.parameters
    if config.sampler.kind != "transformers":
        share = config.sampler.options.get("gpu_memory_utilization", PREFIXES)
        return sequences_in_cache(shape, dtype, length, float(share) * device.memory * GIB, weights)
    stays = learned(config) * _stays(memory)
    # the last place of every cache is made at once
    return sequences_in_cache(shape, dtype, config.sampling.max_length, limit, stays)


def _turn_seconds(
    shape: ModelShape, device: DeviceLimits, assumed: Assumed, length: float, dtype: str
) -> Callable[[int], float]:
    seconds_of: dict[int, float] = {}

    def seconds(active: int) -> float:
        if active not in seconds_of:
            step = decoding(shape, device, active, length / 2, dtype, assumed.step_overhead)
            seconds_of[active] = assumed.reply * step.seconds
        return seconds_of[active]

    return seconds


def describe(plan: RunPlan) -> str:
    """The plan as text."""
    config, shape, assumed, memory = plan.config, plan.shape, plan.assumed, plan.memory
    parts = {part.name: getattr(memory, part.name) for part in fields(memory)}
    where = f"{assumed.gpus} x {plan.device.name}" + (
        f", {assumed.sampler_gpus} more sample" if assumed.sampler_gpus else ""
    )
    lines = [
        f"{config.model.name}: {shape.parameters / 1e9:.3g}e9 parameters, {config.model.dtype}; {where}",
        "",
        f"memory of a device in an update, GiB (of {plan.limit / GIB:.3g})",
        *(f"  {name:<10} {value / GIB:8.2f}" for name, value in parts.items() if value),
        f"  {'total':<10} {memory.total / GIB:8.2f}",
        "",
        "memory of a device that samples",
        f"  {kv_bytes(shape, config.model.dtype) / 2**20:.3g} MiB of cache a token; room for {plan.cache_sequences} "
        "sequences at once",
        "",
        "speed",
        f"  sampling {plan.decoding.tokens:,.0f} tokens/s a device, {plan.decoding.sequences} sequences at once; "
        f"{plan.sampling_seconds:,.1f} s a step if nothing waits",
        f"  a decoding step takes {1000 * plan.decoding.seconds:.3g} ms, {1000 * assumed.step_overhead:.3g} of them "
        + ("Python's, measured on this machine" if in_transformers(config) else "the engine's own, assumed"),
        f"  training {plan.training_speed:,.0f} tokens/s; {plan.update_seconds:,.1f} s a step"
        + (f", {plan.shared:.0%} of the tokens: prompts are shared" if plan.shared < 1 else ""),
        "",
        *_depths(plan),
        *_workers(plan),
        f"{config.steps} steps: {plan.hours:,.2f} hours" + (f", about ${plan.cost:,.2f}" if plan.cost else ""),
        *_warnings(plan),
    ]
    return "\n".join(lines) + "\n"


def _depths(plan: RunPlan) -> list[str]:
    sync, planned_depth = plan.times[0].step, depth_of(plan.config)
    lines = ["schedule    s/step   speed  samplers busy  learner busy  updates in between"]
    for depth, times in plan.times.items():
        name = f"async {depth}" if depth else "sync"
        lines.append(
            f"  {name:<8}{times.step:8,.1f}{sync / times.step:8.2f}{times.sampling:13.0%}{times.learning:14.0%}"
            f"{times.staleness:14.1f}{'   <- this config' if depth == planned_depth else ''}"
        )
    best = min(time.step for time in plan.times.values())
    enough = next(depth for depth, times in plan.times.items() if times.step <= 1.05 * best)
    advice = f"depth {enough} is within 5 % of the fastest" if enough else "sampling ahead gains less than 5 %"
    return [*lines, f"  {advice}", ""]


def _workers(plan: RunPlan) -> list[str]:
    if not plan.workers:
        return []
    lines = ["environment steps at once (env.workers)   s/step  workers busy"]
    for bound, times in plan.workers.items():
        lines.append(f"  {bound or 'any number':<38}{times.step:8,.1f}{times.working:13.0%}")
    return [*lines, ""]


def _warnings(plan: RunPlan) -> list[str]:
    config, assumed = plan.config, plan.assumed
    notes = []
    if (many_policies := learned(config)) > 1:
        notes.append(
            f"self_play.policies learns {many_policies} policies: the tables above are of one, the run needs "
            f"{plan.needed / GIB:.2f} GiB, and its hours are those of all"
        )
    if plan.needed > plan.limit:
        notes.append(f"the update needs {plan.needed / GIB:.1f} GiB of {plan.limit / GIB:.1f}: {_cure(plan)}")
    if not plan.cache_sequences:
        notes.append("no sequence's cache fits beside the weights: lower sampling.max_length or take a larger device")
    if assumed.gpus > 1 and (config.schedule.kind, config.sampler.kind) != ("sync", "transformers"):
        notes.append("our own learner with more than one process takes schedule: sync and sampler: transformers alone")
    learner, many = config.learner, assumed.gpus > 1
    if _sharded(config, assumed) and learner.optimiser != "adamw":
        notes.append(f"learner.optimiser {learner.optimiser} is refused under torchrun: take adamw")
    if learner.offload == "weights" and not many:
        notes.append("learner.offload weights is for torchrun, on one device too")
    if learner.offload == "activations" and many:
        notes.append("learner.offload activations is for one process: take weights")
    if learner.offload != "none":
        notes.append(f"the speed leaves out what learner.offload {learner.offload} moves between device and CPU")
    if assumed.env_seconds and not config.env.workers:
        notes.append("env.workers is 0: environments are stepped in turn; set it to what the table above asks for")
    return [f"note: {note}" for note in notes]


def _cure(plan: RunPlan) -> str:
    """The first field that makes the update fit."""
    base = _update(plan.config, plan.assumed)
    longest = plan.config.sampling.max_length
    small = dataclasses.replace(base, recompute=True, tokens=longest)
    more = ("learner.offload: weights, and both", dataclasses.replace(small, offload="weights"))
    if plan.assumed.gpus == 1:
        more = ("learner.optimiser: adamw_8bit, and both", dataclasses.replace(small, optimiser="adamw_8bit"))
    tries: tuple[tuple[str, Update], ...] = (
        ("learner.recompute_layers: true", dataclasses.replace(base, recompute=True)),
        (f"learner.micro_batch_tokens: {longest}", dataclasses.replace(base, tokens=longest)),
        ("both of these", small),
        more,
        ("model.lora_rank: 16, and both", dataclasses.replace(small, lora_rank=16)),
    )
    names = [name for name, update in tries if training_memory(plan.shape, update).total <= plan.limit]
    return f"set {names[0]}" if names else "no field of the config makes it fit; take more or larger devices"
