"""Tokens a second of an update and of sampling, from operations, bytes and a device's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlvr.algorithms.planning.memory import kv_bytes
from rlvr.algorithms.planning.shapes import BYTES, DeviceLimits, ModelShape

BEST_USE = 0.45  # share of a device's peak that an update comes near
HALF_USE = 25e9  # operations a token at which half of that is reached, on a device of 989 TFLOP/s
SHARED_USE = 0.8  # what is left of it where several devices share the weights
DECODE_BANDWIDTH = 0.6  # share of the memory's bandwidth that decoding reaches
DECODE_FLOPS = 0.5
ENGINE_OVERHEAD = 2e-3  # seconds of a step of vLLM beside reading weights and cache: CUDA graphs, and its scheduler
FSDP_USE = 0.5  # what several devices reach of one device's share, at these sizes


def training_flops(shape: ModelShape, length: float, *, lora: bool = False) -> float:
    """Floating-point operations of a token's forward and backward pass: 6 P + 6 L T q.

    A product with P parameters takes 2 P forward and 4 P back; frozen weights need no gradient of their own, 2 P less.
    Causal attention over T tokens takes 2 T q a layer forward, three times that in all (PaLM, 2204.02311, appendix B).
    """
    products = (4 if lora else 6) * shape.multiplied
    return float(products + 6.0 * shape.layers * length * shape.query)


def flops_utilisation(flops: float, peak: float, devices: int = 1) -> float:
    """Share of the peak that an update reaches: 0.45 f / (f + 25e9 sqrt(peak / 989e12)), 0.8 of that under FSDP.

    A curve through prime-rl's published figures, f operations a token; see the docs for how near it comes.
    """
    half = HALF_USE * math.sqrt(peak / 989e12)
    return BEST_USE * flops / (flops + half) * (SHARED_USE if devices > 1 else 1.0)


def training_speed(
    shape: ModelShape,
    device: DeviceLimits,
    length: float,
    *,
    devices: int = 1,
    dtype: str = "bfloat16",
    lora: bool = False,
    mfu: float | None = None,
) -> float:
    """Tokens a second of an update, of all devices together."""
    flops = training_flops(shape, length)
    peak = (device.wide if dtype == "float32" else device.tflops) * 1e12
    use = flops_utilisation(flops, peak, devices) if mfu is None else mfu
    # adapters spare a third of the products; half of the time that this saves is seen in the published figures
    spared = flops / training_flops(shape, length, lora=lora) - 1
    return devices * peak * use / flops * (1 + spared / 2)


@dataclass(frozen=True)
class Decoding:
    """Sampling with so many sequences at once on one device.

    seconds   of a step, which gives each sequence a token
    tokens    a second
    """

    sequences: int
    seconds: float
    tokens: float


def decoding(
    shape: ModelShape,
    device: DeviceLimits,
    sequences: int,
    length: float,
    dtype: str,
    overhead: float = ENGINE_OVERHEAD,
) -> Decoding:
    """A decoding step reads all weights once and the cache of every sequence; products bound it for large batches.

    t = max((W + B T k) / (0.6 bandwidth), 2 P B / (0.5 peak)) + overhead

    Args:
        overhead: seconds of a step beside that.
    """
    read = BYTES[dtype] * shape.multiplied + sequences * length * kv_bytes(shape, dtype)
    peak = (device.wide if dtype == "float32" else device.tflops) * 1e12
    products = 2.0 * shape.multiplied * sequences / (DECODE_FLOPS * peak)
    seconds = max(read / (DECODE_BANDWIDTH * device.bandwidth * 1e9), products) + overhead
    return Decoding(sequences, seconds, sequences / seconds)


def measured_overhead(shape: ModelShape, lora: bool = False) -> float:
    """Seconds that a decoding step of transformers takes on this machine beside reading weights and cache.

    Python asks for one operation after the other, so it goes with the number of layers, whatever the device computes:
    a model with as many layers as the shape, and next to no width, is sampled from here.
    """
    from rlvr.algorithms.planning.trial import seconds_of_a_step

    return seconds_of_a_step(shape.layers, lora=lora)
