"""The shape of a model and of a device, from a folder, by name, or in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rlvr.agents.models.tiny import SPECIAL_TOKENS, TINY, WORDS
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.envs.core.hints import hint

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
FIELDS = ("vocab", "hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate")


@dataclass(frozen=True)
class ModelShape:
    """A decoder with grouped attention and a gated MLP, as Llama, Qwen, Mistral and Gemma are.

    vocab, hidden, layers, heads, kv_heads, head_dim, intermediate  sizes
    tied          whether the output layer is the embedding
    """

    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    tied: bool = True

    def __post_init__(self) -> None:
        for name in FIELDS:
            if getattr(self, name) < 1:
                raise ConfigError(f"a model's {name} is at least 1, not {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ConfigError(f"{self.heads} heads cannot share {self.kv_heads} heads of keys and values evenly")

    @property
    def query(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head_dim  # H d

    @property
    def key(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.kv_heads * self.head_dim  # K d, K <= H: grouped queries, 2305.13245

    @property
    def embedding(self) -> int:
        """Parameters of the embedding."""
        return self.vocab * self.hidden  # [V, h]

    @property
    def layer(self) -> int:
        """Parameters of a layer: queries and output, keys and values, gate, up and down, two norms."""
        # Wq, Wo [h, H d], Wk, Wv [h, K d], gate, up, down [h, m], two norms [h]
        return self.hidden * (2 * self.query + 2 * self.key + 3 * self.intermediate + 2)

    @property
    def parameters(self) -> int:
        # layers, embedding, output layer unless tied, last norm [h]
        return self.layers * self.layer + self.embedding * (1 if self.tied else 2) + self.hidden

    @property
    def multiplied(self) -> int:
        """Parameters that a token is multiplied with: all but the embedding, and the output layer."""
        return self.layers * self.layer + self.embedding  # a lookup multiplies nothing

    def lora(self, rank: int) -> int:
        """Parameters of adapters of this rank on every linear layer but the output: r (in + out) each."""
        # A [r, in] and B [out, r] for each weight [out, in]     LoRA, 2106.09685
        attention = 2 * (self.hidden + self.query) + 2 * (self.hidden + self.key)
        return self.layers * rank * (attention + 3 * (self.hidden + self.intermediate))


def shape_of(config: TrainConfig, text: str = "") -> ModelShape:
    """The shape of a config's model: as ``given`` ("hidden=1024,layers=28,…"), of rlvr/tiny, or of a local folder.

    Raises:
        ConfigError: the shape is not known here, with the ways to give it.
    """
    if text:
        return _written(text)
    section = config.model
    if section.name == TINY:
        words = (*WORDS, *section.words)
        forms = {form for word in words for form in ((word, f" {word}") if word.isalpha() else (word,))}
        vocab = 256 + len(SPECIAL_TOKENS) + sum(len(form) > 1 for form in forms)
        return ModelShape(vocab, section.hidden, section.layers, 4, 2, 32, 256)  # as tiny_policy makes it
    path = Path(section.name) / "config.json"
    if not path.is_file():
        raise ConfigError(
            f"{section.name} is no folder with a config.json here: give --shape "
            "vocab=151936,hidden=1024,layers=28,heads=16,kv_heads=8,head_dim=128,intermediate=3072 (of Qwen3-0.6B), or "
            "set model.name to a folder"
        )
    return read_shape(path)


def read_shape(path: Path) -> ModelShape:
    """The shape in a model's config.json.

    Raises:
        ConfigError: it is no JSON, or of a model that the formulae do not describe.
    """
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    # models that see images keep the decoder's sizes in a section of their own
    fields = fields.get("text_config", fields) if isinstance(fields, dict) else {}
    if experts := next(
        (name for name in ("num_experts", "num_local_experts", "n_routed_experts") if fields.get(name)), ""
    ):
        raise ConfigError(f"{path} has {experts}: the formulae are for models without experts")
    try:
        heads = fields["num_attention_heads"]
        return ModelShape(
            vocab=fields["vocab_size"],
            hidden=fields["hidden_size"],
            layers=fields["num_hidden_layers"],
            heads=heads,
            kv_heads=fields.get("num_key_value_heads") or heads,  # none: every query has its own
            # Qwen3's heads are wider than hidden / heads, and it says so
            head_dim=fields.get("head_dim") or fields["hidden_size"] // heads,
            intermediate=fields["intermediate_size"],
            tied=bool(fields.get("tie_word_embeddings", False)),
        )
    except KeyError as error:
        raise ConfigError(f"{path} has no {error}: give the model's sizes as --shape {'=…,'.join(FIELDS)}=…") from error


def _written(text: str) -> ModelShape:
    sizes: dict[str, Any] = {"tied": True}
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if name == "tied" and value in ("true", "false"):
            sizes["tied"] = value == "true"
        elif name in FIELDS and value.isdigit():
            sizes[name] = int(value)
        else:
            raise ConfigError(f"--shape takes {'=N,'.join(FIELDS)}=N and tied=true or false, not {pair!r}")
    if missing := [name for name in FIELDS if name not in sizes]:
        raise ConfigError(f"--shape lacks {', '.join(missing)}")
    return ModelShape(**sizes)


@dataclass(frozen=True)
class DeviceLimits:
    """A device by its data sheet: memory in GiB, dense bfloat16 TFLOP/s, GB/s of memory, dollars an hour (a guess).

    wide  float32 TFLOP/s of matrix products
    """

    name: str
    memory: float
    tflops: float
    bandwidth: float
    dollars: float
    wide: float


# NVIDIA's data sheets, dense; TF32 is what torch takes for float32 only when asked to, so float32 is the plain rate.
# name, GiB, bfloat16 TFLOP/s, GB/s, dollars an hour, float32 TFLOP/s
_DEVICES = (
    DeviceLimits("h200", 141, 989, 4800, 3.5, 67),
    DeviceLimits("h100", 80, 989, 3350, 2.5, 67),
    DeviceLimits("b200", 180, 2250, 8000, 5.0, 75),
    DeviceLimits("a100", 80, 312, 2039, 1.6, 19.5),
    DeviceLimits("a100-40", 40, 312, 1555, 1.3, 19.5),
    DeviceLimits("l40s", 48, 362, 864, 0.9, 91),
    DeviceLimits("a6000", 48, 155, 768, 0.6, 39),
    DeviceLimits("a10g", 24, 70, 600, 0.6, 31),
    DeviceLimits("rtx4090", 24, 165, 1008, 0.4, 83),
)
DEVICES: Mapping[str, DeviceLimits] = MappingProxyType({device.name: device for device in _DEVICES})


def device_of(text: str) -> DeviceLimits:
    """A device by name, or as "GiB,TFLOPs,GB/s".

    Raises:
        ConfigError: no such device, with the nearest; or numbers that are none.
    """
    if text.lower() in DEVICES:
        return DEVICES[text.lower()]
    parts = text.split(",")
    if len(parts) == 3:
        try:
            memory, tflops, bandwidth = (float(part) for part in parts)
        except ValueError:
            memory = tflops = bandwidth = 0.0
        if min(memory, tflops, bandwidth) > 0:
            # 1/8 of the bfloat16 rate lies between what the sheets above say, 1/15 and 1/4
            return DeviceLimits(text, memory, tflops, bandwidth, 0.0, tflops / 8)
        raise ConfigError(f"--gpu {text}: GiB, TFLOP/s and GB/s are three numbers above 0, such as 80,989,3350")
    raise ConfigError(
        f"there is no GPU {text!r}{hint(text, DEVICES)}; there are {', '.join(DEVICES)}, or GiB,TFLOPs,GB/s"
    )
