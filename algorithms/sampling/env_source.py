"""Where a run's environments are: in this process, in actors of Ray, or on the servers that a config names."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from rlvr.agents.evaluation.same_tasks import refusal
from rlvr.agents.players.self_play import plays_models
from rlvr.algorithms.config import ConfigError, EnvSection, TrainConfig
from rlvr.envs.core.code_rule import make_env
from rlvr.envs.tasks.digests import differing_parts, env_digest
from rlvr.envs.tools.with_tools import has_tools, with_native_tools

OUTAGE_SECONDS = 45.0  # that episodes wait where no server is there; making an environment may take 60
# By its name alone, as any environment of Gymnasium's: the learner does not know the adapters.
SERVED: Final = "rlvr.adapters.serving.connect:rlvr-served/Environment-v0"
IN_ACTORS: Final = "rlvr.adapters.fleet.ray_env:rlvr-ray/Environment-v0"


def env_source(env: EnvSection, settings: Mapping[str, Any], split: str) -> tuple[str, dict[str, Any]]:
    """The id and the settings of the environments of a split, as `rlvr.agents.rollout.Rollout` takes them.

    Raises:
        ConfigError: the variable that ``env.token_env`` names is not set, or a seat is held by a model, which is in
            this process alone.
    """
    task = {"split": split, "level": env.level}
    if env.backend == "ray":
        if plays_models(dict(settings)):
            raise ConfigError("env.backend: ray holds no opponents that are models: give env.backend: local")
        # the rollout gives up first, and plays the step again elsewhere to see whose fault it was
        timeout = None if env.timeout is None else 2 * env.timeout
        # one actor without workers: steps in turn are the steps of one process
        made_of = {"env": env.id, "settings": {**settings, **task}}
        return _registered(IN_ACTORS), {**made_of, "workers": max(1, env.workers), "timeout": timeout}
    if not env.servers:
        return env.id, {**settings, **task}
    if env.token_env and not os.environ.get(env.token_env):
        raise ConfigError(f"env.token_env names {env.token_env}, which is not set")
    token = os.environ[env.token_env] if env.token_env else None
    patience = OUTAGE_SECONDS if env.timeout is None else min(OUTAGE_SECONDS, env.timeout / 2)
    return _registered(SERVED), {"url": env.servers, "token": token, "env": env.id, "patience": patience, **task}


def _registered(address: str) -> str:
    """The id of one of our adapters, without its module: where settings may not name code, an id may not either."""
    module, _, env_id = address.partition(":")
    importlib.import_module(module)
    return env_id


def leave_tools(config: TrainConfig, call_style: Callable[[], str]) -> TrainConfig:
    """The config with what ``env.native_tools`` means in ``env.settings``: where tools are shown, how they are called.

    Args:
        call_style: of the model's chat template; asked where the environment has tools.

    Raises:
        ConfigError: it has none, or the chat template shows none.
    """
    section = config.env
    env = make_env(section.id, **section.settings, split=section.split)
    try:
        if not has_tools(env):
            raise ValueError(f"{section.id} has no tools: leave it out, or give some, env.settings.tools")
        settings = with_native_tools(env, section.settings, call_style())
    except ValueError as error:
        raise ConfigError(f"env.native_tools: {error}") from error
    finally:
        env.close()
    return config.model_copy(update={"env": section.model_copy(update={"settings": settings})})


def digests_of(train: Any, evaluation: Any) -> dict[str, str]:
    """The digests of the environments of two rollouts, see `rlvr.envs.tasks.digests`."""
    # rows as they were read, so that a file which is written anew with the same rows changes nothing
    return {"train": env_digest(train.env), "evaluation": env_digest(evaluation.env)}


def require_same_tasks(before: Mapping[str, str] | None, now: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Check that a run goes on with the rows and settings that it began with; other code is said.

    Args:
        before: the digests in the checkpoint; None in one of before they were kept, which is said.

    Raises:
        ConfigError: rows or settings are others.
    """
    if before is None:  # of a version without digests
        say("digest unknown: the checkpoint does not say which rows the run began with, so nobody can tell")
        return
    for name, digest in now.items():
        # Other rows, or others of the settings, make another run of it.
        if why := refusal(before.get(name, ""), digest):
            raise ConfigError(
                f"the run's environment of {name} has changed: it {why}: put back what has changed, or begin another"
            )
        # Code alone: a version of rlvr may be newer, and the tasks are the same.
        if differing_parts(before.get(name, ""), digest):
            say(f"the code of the environment has changed since the run began ({before[name]}; now {digest})")
            return
