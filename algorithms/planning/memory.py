"""Memory of a device while it trains and while it samples, part by part, in bytes.

The formulae, their sources and how near they come to measured figures are in docs/laptop_to_cluster.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rlvr.algorithms.planning.shapes import BYTES, GIB, ModelShape

MASTER, GRADIENT = 4, 4  # bytes of a trained parameter: float32
EIGHT_BITS = 2 * (1 + 4 / 256)  # two codes, and a float32 scale for each block of 256: 2110.02861
SUM = 8  # bytes of a gradient's float64 sum
MOMENTS = {"adamw": 8.0, "adamw_8bit": EIGHT_BITS, "adamw_bnb_8bit": EIGHT_BITS}  # bytes of AdamW's two
HEAD_AT_ONCE = 2**24  # logits that the output layer makes at once
CONTEXT = 0.6 * GIB  # CUDA's own, and the libraries'


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on one device at the peak of an update.

    weights      in the type that layers compute in: a copy beside masters, or what FSDP gathers
    masters, gradients, moments   float32, over the devices that share them
    sampler      a second copy of the weights, which samples
    reference    copies of the trained parameters for a KL term
    kept         activations kept for the backward pass
    layer        those of the layer that the backward pass is in, with their gradients
    head         hidden states and logits of the output layer
    """

    weights: float
    masters: float
    gradients: float
    moments: float
    sampler: float
    reference: float
    kept: float
    layer: float
    head: float

    @property
    def total(self) -> float:
        """All of it; the output layer is done with before the layers' backward pass begins."""
        parts = [float(getattr(self, part.name)) for part in fields(self)]
        return sum(parts) - min(self.layer, self.head)


@dataclass(frozen=True)
class Update:
    """What decides the memory of an update.

    tokens     that go through the model at once, on a device
    dtype      of the layers
    devices    that share the weights (FSDP); 1 without
    recompute  whether layers are computed again in the backward pass
    lora_rank  of the adapters; 0 trains all weights
    reference  whether a KL term needs a reference policy
    samples    whether the learner's process holds a second copy that samples
    gathered   whether FSDP gathers parameters to compute with them, also on one device
    optimiser  by its name in a config
    offload    what lies in the memory of the CPU: none, activations or weights
    exact      whether micro-batches' gradients add up in float64
    """

    tokens: int
    dtype: str = "bfloat16"
    devices: int = 1
    recompute: bool = False
    lora_rank: int = 0
    reference: bool = False
    samples: bool = False
    gathered: bool = False
    optimiser: str = "adamw"
    offload: str = "none"
    exact: bool = False


def kept_by_a_layer(shape: ModelShape) -> int:
    """Numbers that autograd keeps of one layer for each token.

    Two norms keep their normed input and their output, each residual its sum: 6 hidden. Queries are kept before and
    after their norm, after the rotation, as the attention's output and its copy: 5; keys likewise, with the values, 6;
    gate, its activation, up and the product: 4 intermediate.
    """
    # counted as in 2205.05198, for grouped queries and a gated MLP, without dropout
    return 6 * shape.hidden + 5 * shape.query + 6 * shape.key + 4 * shape.intermediate


def passing_through_a_layer(shape: ModelShape) -> int:
    """Numbers that its backward pass holds beside these: gradients of what flows through it."""
    return 3 * shape.hidden + 4 * shape.key + 2 * shape.intermediate


def training_memory(shape: ModelShape, update: Update) -> TrainingMemory:
    """Bytes on one device at the peak of an update."""
    size, half = BYTES[update.dtype], update.dtype != "float32"
    # P_t: parameters that are trained
    trained = shape.lora(update.lora_rank) if update.lora_rank else shape.parameters
    shared = trained / update.devices  # ZeRO's third stage, 1910.02054: each device keeps its part
    away = update.offload == "weights"  # shards, their gradients, moments and reference
    gathers = update.gathered or update.devices > 1 or away
    # embedding and output layer stay gathered through the backward pass; frozen weights are masters, too, under FSDP
    if gathers:
        ends = shape.embedding * 2 * size
        weights = ends * (1 if update.lora_rank else 2) + shape.layer * size
        masters = MASTER * shape.parameters / update.devices + (MASTER * shared if update.lora_rank else 0)
    else:
        weights = size * shape.parameters + (size * trained if update.lora_rank else 0)
        masters = MASTER * trained if half else 0.0
    # bytes = T s L n, n numbers a layer and token: all of them, or its input alone (1604.06174)
    kept = update.tokens * size * shape.layers
    kept *= shape.hidden if update.recompute else kept_by_a_layer(shape)
    # one layer at a time is computed again, and its activations are there while its gradients flow
    passing = passing_through_a_layer(shape) + (kept_by_a_layer(shape) if update.recompute else 0)
    # the output layer goes over the tokens in pieces, of 64 tokens at least
    logits = min(update.tokens * shape.vocab, max(HEAD_AT_ONCE, 64 * shape.vocab))
    return TrainingMemory(
        weights=weights,
        masters=0.0 if away else masters,
        # without FSDP a half-precision gradient stands beside the float32 one of the master
        gradients=(0.0 if away else GRADIENT * shared + (size * trained if half and not gathers else 0))
        + (SUM * shared if update.exact else 0.0),
        moments=0.0 if away else MOMENTS[update.optimiser] * shared,  # m and v, 1711.05101
        sampler=size * shape.parameters if update.samples else 0.0,
        reference=(MASTER if gathers else size) * shared if update.reference and not away else 0.0,
        kept=0.0 if update.offload == "activations" else kept,
        layer=update.tokens * size * passing,
        # hidden states and their gradient [T, h], logits and their gradient [piece, V] in float32
        head=2 * update.tokens * shape.hidden * size + 2 * 4 * logits,
    )


def kv_bytes(shape: ModelShape, dtype: str) -> int:
    """Bytes of the cache for each token: a key and a value in every layer."""
    return 2 * shape.layers * shape.key * BYTES[dtype]  # 2 L K d s


def sequences_in_cache(shape: ModelShape, dtype: str, tokens: float, memory: float, weights: float) -> int:
    """Sequences of so many tokens whose cache fits beside the weights, in bytes."""
    return max(0, int((memory - weights) / (kv_bytes(shape, dtype) * max(1.0, tokens))))
