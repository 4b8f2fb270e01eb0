"""Environments. Importing this registers every id with Gymnasium and imports no environment.

A family is a folder; its ``__init__.py`` names its ids. To add an environment: write a ``Task`` in one file of the
family's folder, and one line there.
"""

from __future__ import annotations

from rlvr.envs import (
    agentic,
    algorithmic,
    bridges,
    coding,
    games,
    instructions,
    knowledge,
    logic,
    mathematics,
    players,
    puzzles,
    science,
    visual,
    worlds,
)
from rlvr.envs.core.registry import ENTRY_POINT, hook, list_envs, register, register_template
from rlvr.envs.core.seeding import TASKS_VERSION
from rlvr.envs.core.text_env import Snapshot, TextEnv, replay
from rlvr.envs.core.verdict import Verdict

FAMILIES = (
    mathematics,
    science,
    logic,
    algorithmic,
    puzzles,
    games,
    players,
    worlds,
    visual,
    agentic,
    coding,
    knowledge,
    instructions,
    bridges,
)

hook("tools", "rlvr.envs.tools.with_tools:WithTools")
hook("vector", "rlvr.envs.vector:make_vector")
register_template("rlvr/Mixture-v0", "rlvr.envs.curriculum.mixture:MixtureEnv")
register_template("rlvr/Loophole-v0", ENTRY_POINT, task="rlvr.envs.loopholes:Loophole")

__all__ = ["FAMILIES", "TASKS_VERSION", "Snapshot", "TextEnv", "Verdict", "list_envs", "register", "replay"]
