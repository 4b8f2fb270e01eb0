"""Config: the settings of a training run, from YAML, flags and Python."""

from rlvr.algorithms.config.sections import CriticSection, EnvSection, LearnerSection, Section, WarmStartSection
from rlvr.algorithms.config.train_config import (
    ConfigError,
    TrainConfig,
    explain,
    load_config,
    no_such_field,
    read_yaml,
    to_yaml,
)

__all__ = [
    "ConfigError",
    "CriticSection",
    "EnvSection",
    "LearnerSection",
    "Section",
    "TrainConfig",
    "WarmStartSection",
    "explain",
    "load_config",
    "no_such_field",
    "read_yaml",
    "to_yaml",
]
