"""The policy that a run trains, as its config asks for it."""

from __future__ import annotations

from typing import Any

from rlvr.agents.models.tiny import TINY, WORDS, TinyOptions, load_policy
from rlvr.algorithms._torch import torch
from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.tinker.build import connect
from rlvr.algorithms.train.head import use_float32


def load_model(config: TrainConfig) -> tuple[Any, Any]:
    """The policy and its tokenizer, with LoRA adapters if the config asks for them."""
    if config.engine.kind == "tinker":
        return connect(config)
    settings = config.model
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    tiny: TinyOptions | None = None
    if settings.name == TINY:
        words = (*WORDS, *settings.words)
        tiny = {"seed": config.seed, "hidden": settings.hidden, "layers": settings.layers, "words": words}
    model: Any
    model, tokenizer = load_policy(settings.name, dtype=settings.dtype, device=device, tiny=tiny)
    if settings.float32_head:
        use_float32(model)
    if settings.lora_rank:
        from peft import LoraConfig, get_peft_model

        rank = settings.lora_rank
        model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    return model, tokenizer
