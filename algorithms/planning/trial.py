"""Times a decoding step of transformers on this machine, with a model that is all layers and no width."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlvr.agents.models.sampling import Sampling
from rlvr.agents.models.transformers import sample
from rlvr.algorithms.core.lazy_torch import torch

SHORT, LONG = 4, 20  # tokens of the two replies whose difference is timed
ROUNDS = 3
NARROW: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 8, "max_position_embeddings": 64,
}  # fmt: skip


def seconds_of_a_step(layers: int, *, lora: bool = False) -> float:
    """The shortest of three measurements, on one thread; with ``lora`` the layers have adapters."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            model: Any = Qwen3ForCausalLM(Qwen3Config(num_hidden_layers=layers, **NARROW))
        if lora:
            from peft import LoraConfig, get_peft_model

            model = get_peft_model(model, LoraConfig(r=1, target_modules="all-linear"))
        _seconds(model, SHORT)  # the first pass is slower
        return min(max(0.0, _seconds(model, LONG) - _seconds(model, SHORT)) / (LONG - SHORT) for _ in range(ROUNDS))
    finally:
        torch.set_num_threads(threads)


def _seconds(model: Any, tokens: int) -> float:
    start = time.perf_counter()
    sample(model, [[1, 2, 3]], [tokens], [np.zeros(tokens)], [], Sampling(greedy=True))
    return time.perf_counter() - start
