"""Audit: the checks of `rlvr.envs.validation` that attack a verifier, on many tasks, in this process."""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym

from rlvr.envs.validation import ValidationReport, validate

AUDIT: Final = (
    "runtime.startup",
    "semantic.oracle_max",
    "statistical.adversarial_floor",
    "semantic.no_solution_leakage",
    "sound.options",
    "runtime.episode_determinism",
    "sound.splits",
)
MINUTES: Final = 60.0


def audit(env: gym.Env[Any, Any], tasks: int = 20, seed: int = 0) -> ValidationReport:
    """Attack ``tasks`` tasks of every level (rows, for a table).

    Args:
        env: the bare environment.
        tasks: how many of each level.
        seed: which tasks.
    """
    return validate(env, tasks=tasks, seed=seed, minutes=MINUTES, checks=AUDIT)
