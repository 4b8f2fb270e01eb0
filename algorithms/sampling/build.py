"""The sampler that a config names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr.algorithms.config import TrainConfig
from rlvr.algorithms.sampling.embedded import CopiedSampler, SharedSampler
from rlvr.algorithms.sampling.protocol import Sampler


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
        return (CopiedSampler if config.schedule.kind == "async" else SharedSampler)(model, tokenizer)
    from rlvr.algorithms.sampling.vllm import LocalSampler, ServerSampler

    if kind == "vllm":
        return LocalSampler(config, model, tokenizer, folder)
    return ServerSampler(config, model, tokenizer, folder, say)
