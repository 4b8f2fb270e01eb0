"""A run's policy on a service: the connection, the tokenizer, and how the service divides gradients."""

from __future__ import annotations

from typing import Any

from rlvr.agents.models.vllm import tokenizer_of
from rlvr.algorithms.config import ConfigError, TrainConfig
from rlvr.algorithms.tinker.learner import RemotePolicy
from rlvr.algorithms.tinker.scale import find_rule
from rlvr.algorithms.tinker.service import TinkerService


def connect(config: TrainConfig) -> tuple[RemotePolicy, Any]:
    """The policy on the service that a config names, with a new adapter, and its tokenizer.

    Raises:
        ImportError: the client of the Tinker API, or transformers, is missing.
        ConfigError: no key, no such model on the service, or no such tokenizer.
        TinkerError: the service does not answer, or divides gradients in a way that is not known.
    """
    from transformers import AutoConfig

    try:
        tokenizer, end_ids = tokenizer_of(config.model.name, config.model.chat_template)
        shapes = AutoConfig.from_pretrained(config.model.name, trust_remote_code=False)
    except (FileNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"model.name: {error}") from error
    # After what can be refused without it: an adapter takes a place on the service.
    service = TinkerService(config.engine, config.model.lora_rank, config.seed)
    size = int(shapes.get_text_config().vocab_size)
    # Any tokens do; those of the middle of a vocabulary are no special ones.
    rule = find_rule(service, [size // 3, size // 2, size // 5], "before-the-probe")
    return RemotePolicy(service, shapes, rule, end_ids), tokenizer
