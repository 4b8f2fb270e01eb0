"""What the tests of `rlvr launch` share: configs, and what becomes of them."""

from __future__ import annotations

from typing import Any

from rlvr.adapters.launch import translate
from rlvr.algorithms.config import TrainConfig, load_config
from rlvr.algorithms.config.flat_settings import idle_settings, is_policy_gradient, plain_settings
from rlvr.algorithms.recipe.presets import PRESETS

BASE = {
    "env": {"id": "rlvr/GuessNumber-v0"},
    "model": {"name": "Qwen/Qwen3-0.6B", "dtype": "bfloat16"},
    "sampling": {"max_new_tokens": 128, "max_length": 1024},
    "steps": 4,
    "prompts": 16,
    "evaluation": {"episodes": 8},
}


EASY = {"openrlhf": "loop", "prime-rl": "dppo"}  # an algorithm that the trainer has; of the others dr_grpo


def config_of(algorithm: str = "dr_grpo", **changes: Any) -> TrainConfig:
    given = {**BASE, "algorithm": algorithm, **changes}
    if PRESETS.get(algorithm) is not None and PRESETS[algorithm].estimator.teacher:
        given = {**given, "credit": {"teacher": "Qwen/Qwen3-0.6B"}}
    return load_config(given)


def launched(engine: str, config: TrainConfig, **options: Any) -> Any:
    return translate(
        engine,
        plain_settings(config),
        idle=idle_settings(config),
        policy_gradient=is_policy_gradient(config),
        **options,
    )


def accepting(engine: str, config: TrainConfig, **options: Any) -> Any:
    """Launched with every difference accepted that may be; None where the trainer cannot."""
    from rlvr.adapters.launch import LaunchRefused

    try:
        return launched(engine, config, **options)
    except LaunchRefused as refusal:
        _, asked, names = str(refusal).partition("To run it so: --accept ")
        return launched(engine, config, accepted=names.split(), **options) if asked else None
