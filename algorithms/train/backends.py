"""The policy and the sampler that a config names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr.agents.models.folder_checks import UnfitModel, check_sizes
from rlvr.agents.models.model_folder import load_adapter
from rlvr.agents.models.tiny import TINY, WORDS, TinyOptions, load_policy, usable_device
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.core.lazy_torch import torch
from rlvr.algorithms.learner.head import use_float32
from rlvr.algorithms.learner.learner import Learner
from rlvr.algorithms.sampling.embedded import CopiedSampler, SharedSampler
from rlvr.algorithms.sampling.protocol import Sampler
from rlvr.algorithms.tinker.connect import connect
from rlvr.algorithms.tinker.learner import TinkerLearner


def build_sampler(config: TrainConfig, model: Any, tokenizer: Any, folder: Path, say: Callable[[str], None]) -> Sampler:
    """Build it, and start what it needs.

    Args:
        model, tokenizer: the learner's.
        folder: for files that it reads.
        say: hears what a person should know.

    Raises:
        ImportError: vLLM is missing.
        SamplerError, ConfigError, RuntimeError: it cannot be what the config asks for; one sentence says why.
    """
    if config.engine.kind == "tinker":
        from rlvr.algorithms.tinker.sampler import TinkerSampler

        return TinkerSampler(model, tokenizer, config.sampling.max_length, config.sampler)
    kind = config.sampler.kind
    if kind == "transformers":
        embedded = CopiedSampler if config.schedule.kind == "async" else SharedSampler
        return embedded(model, tokenizer, config.sampler.concurrency)
    from rlvr.algorithms.sampling.vllm import LocalSampler, ServerSampler

    if kind == "vllm":
        return LocalSampler(config, model, tokenizer, folder)
    return ServerSampler(config, model, tokenizer, folder, say)


def load_model(config: TrainConfig) -> tuple[Any, Any]:
    """The policy and its tokenizer, with LoRA adapters if the config asks for them."""
    if config.engine.kind == "tinker":
        return connect(config)  # its weights are elsewhere: here is the tokenizer
    settings = config.model
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    tiny: TinyOptions | None = None
    if settings.name == TINY:
        words = (*WORDS, *settings.words)
        tiny = {"seed": config.seed, "hidden": settings.hidden, "layers": settings.layers, "words": words}
    model: Any
    torch.set_float32_matmul_precision("high" if settings.tf32 else "highest")
    check_sizes(settings.name, config.sampling.max_length)
    check_dtype(settings.dtype, usable_device(device))
    model, tokenizer = load_policy(
        settings.name,
        dtype=settings.dtype,
        device=device,
        attention=settings.attention,
        tiny=tiny,
        chat_template=settings.chat_template,
    )
    if settings.float32_head:
        use_float32(model)  # before adapters wrap the output layer
    if settings.adapter:
        model = load_adapter(model, Path(settings.adapter), trainable=True)
        rank = model.active_peft_config.r
        if rank != settings.lora_rank:
            raise ConfigError(f"model.lora_rank {settings.lora_rank}, but the adapter in {settings.adapter} has {rank}")
    elif settings.lora_rank:
        model = add_adapters(model, settings.lora_rank)
    return model, tokenizer


def add_adapters(model: Any, rank: int) -> Any:
    """The model with LoRA adapters on all its linear layers but the output layer; they alone are trained."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))


def check_dtype(dtype: str, device: torch.device) -> None:
    """Multiply two small matrices of the weights' type on the device.

    Raises:
        UnfitModel: the device cannot.
    """
    try:
        ones = torch.ones(2, 2, dtype=getattr(torch, dtype), device=device)
        torch.matmul(ones, ones).sum().item()
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:120]
        raise UnfitModel(f"model.dtype {dtype} does not work on {device} ({reason}): take float32") from error


def learner_class(config: TrainConfig) -> type[Learner]:
    """Who updates the policy: this process, or a service."""
    return TinkerLearner if config.engine.kind == "tinker" else Learner
