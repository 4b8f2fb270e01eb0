"""Where a run's environments are: in this process, or on the servers that a config names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from rlvr.algorithms.config import ConfigError, EnvSection

OUTAGE_SECONDS = 45.0  # that episodes wait where no server is there; making an environment may take 60
# By its name alone, as any environment of Gymnasium's: the learner does not know the adapters.
SERVED: Final = "rlvr.adapters.serving.connect:rlvr-served/Environment-v0"


def env_source(env: EnvSection, settings: Mapping[str, Any], split: str) -> tuple[str, dict[str, Any]]:
    """The id and the settings of the environments of a split, as `rlvr.agents.rollout.Rollout` takes them.

    Raises:
        ConfigError: the variable that ``env.token_env`` names is not set.
    """
    task = {"split": split, "level": env.level}
    if not env.servers:
        return env.id, {**settings, **task}
    if env.token_env and not os.environ.get(env.token_env):
        raise ConfigError(f"env.token_env names {env.token_env}, which is not set")
    token = os.environ[env.token_env] if env.token_env else None
    patience = OUTAGE_SECONDS if env.timeout is None else min(OUTAGE_SECONDS, env.timeout / 2)
    return SERVED, {"url": env.servers, "token": token, "env": env.id, "patience": patience, **task}
