"""What `rlvr eval` takes from the folder of a run: unless flags say otherwise, its policy plays as it was trained."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlvr.algorithms.config import TrainConfig

# What an option of `rlvr eval` is where neither a flag nor a run says anything.
DEFAULTS: dict[str, Any] = {
    "no_system": False,
    "max_new_tokens": 512,
    "dtype": "float32",
    "max_length": None,
    "template_options": None,
    "thinking_budget": None,
    "float32_head": None,
}


def run_folder(name: str) -> Path | None:
    """The folder of the run that a name of a model means: the run's own, or the one with its policy in it."""
    folder = Path(name)
    if (folder / "config.yaml").is_file() and (folder / "policy").is_dir():
        return folder
    folder = folder.resolve()
    return folder.parent if folder.name == "policy" and (folder.parent / "config.yaml").is_file() else None


def config_of(options: argparse.Namespace) -> TrainConfig | None:
    """How the policy was trained that ``options`` name; None for a model that is no run's, or at an endpoint."""
    name = options.model or options.vllm
    if name is None or options.endpoint is not None or (folder := run_folder(name)) is None:
        return None
    from rlvr.algorithms.config import ConfigError, load_config

    try:
        return load_config(folder / "config.yaml")
    except (ConfigError, OSError) as error:
        raise ValueError(
            f"{folder / 'config.yaml'} does not say how {name} was trained ({error}): mend it, or copy the model to a "
            "folder without it"
        ) from error


def take_sampling(options: argparse.Namespace, config: TrainConfig | None) -> list[str]:
    """Fill in what no flag names, from the run or else `DEFAULTS`; what was taken from the run, in words."""
    trained = {} if config is None else _sampling(config)
    if (limit := options.max_new_tokens) is not None and trained:
        if limit > trained["max_new_tokens"]:
            del trained["max_length"]  # it was chosen for shorter replies
        if trained["thinking_budget"] is not None and limit <= trained["thinking_budget"].high:
            del trained["thinking_budget"]  # no token would be left for the answer
    taken = []
    for name, default in DEFAULTS.items():
        if getattr(options, name, None) is not None:
            continue
        setattr(options, name, value := trained.get(name, default))
        if value != default:
            taken.append("without the system prompt" if name == "no_system" else f"{name} {value}")
    return taken


def _sampling(config: TrainConfig) -> dict[str, Any]:
    """How the run's own evaluations play the policy, in the words of `DEFAULTS`."""
    from rlvr.agents.budget import ThinkingBudget

    sampling = config.sampling
    budget = None
    if sampling.thinking_budget:
        low = sampling.thinking_budget - sampling.thinking_spread
        budget = ThinkingBudget(sampling.thinking_phrase, low, sampling.thinking_budget)
    return {
        "no_system": not config.env.system,
        "max_new_tokens": sampling.max_new_tokens,
        "dtype": config.model.dtype,
        "max_length": sampling.max_length,
        "template_options": config.model.template_options or None,
        "thinking_budget": budget,
        "float32_head": config.model.float32_head or None,
    }


def env_settings(configs: list[TrainConfig | None], env_id: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the runs whose policies are measured say of an environment and no flag does; nothing where they differ."""
    each = [
        _env_settings(config)
        for config in configs
        if config is not None and config.env.id.rpartition(":")[2] == env_id.rpartition(":")[2]
    ]
    if any(settings != each[0] for settings in each):
        print(
            f"rlvr: the runs were trained with different settings of {env_id}, and none of them is taken: give --set, "
            "--level or --split",
            file=sys.stderr,
        )
        return {}
    return {name: value for name, value in (each[0] if each else {}).items() if name not in given}


def _env_settings(config: TrainConfig) -> dict[str, Any]:
    from rlvr.agents.players.self_play import without_models

    settings = without_models(dict(config.env.settings))
    if config.env.level != 1:
        settings["level"] = config.env.level
    if config.evaluation.split != "test":
        settings["split"] = config.evaluation.split
    return settings


def say_taken(name: str, taken: list[str], settings: dict[str, Any]) -> None:
    """Say on stderr what was taken from a run."""
    every = taken + [f"{setting} {value}" for setting, value in settings.items()]
    if every:
        print(f"rlvr: {name} is played as it was trained: {', '.join(every)}; flags win over it", file=sys.stderr)
