"""Bridges in: the environments of other packages, where these are installed. ``docs/bridges.md`` lists them.

Nothing of theirs is imported here: the names are those of the tested versions. The other half of these frameworks, our
environments in them, is in ``adapters/suites/`` and ``adapters/trainers/``.
"""

from importlib.util import find_spec
from pathlib import Path

from rlvr.envs.bridges.suite_games import (
    GEM,
    PETTINGZOO,
    REASONING_GYM,
    SKYRL_GYM,
    TEXTARENA,
    TEXTARENA_DUELS,
    VERIFIERS,
)
from rlvr.envs.core.registry import ENTRY_POINT, register, register_template

# Servers are spoken to over the network: nothing of theirs need be installed.
register_template("rlvr/openenv.Remote-v0", "rlvr.envs.bridges.openenv:OpenEnv")
register_template("rlvr/nemo_gym.Remote-v0", "rlvr.envs.bridges.nemo_gym:NeMoGym")
register_template("rlvr/ors.Remote-v0", "rlvr.envs.bridges.ors:OpenReward")
# Task folders of Harbor, in our sandbox.
register_template("rlvr/harbor.Tasks-v0", ENTRY_POINT, task="rlvr.envs.bridges.harbor:Harbor")
# Any environment of Gymnasium or PettingZoo, said in words.
register_template("rlvr/Gymnasium-v0", ENTRY_POINT, task="rlvr.envs.bridges.gymnasium_text:GymnasiumText")
register_template("rlvr/PettingZoo-v0", ENTRY_POINT, task="rlvr.envs.bridges.pettingzoo:PettingZooSeat")
if find_spec("pettingzoo") is not None:
    for _name in PETTINGZOO:
        register(f"rlvr/pettingzoo.{_name}-v0", "rlvr.envs.bridges.pettingzoo:PettingZooGame", name=_name)
if find_spec("reasoning_gym") is not None:
    for _name in REASONING_GYM:
        register(f"rlvr/rg.{_name}-v0", "rlvr.envs.bridges.reasoning_gym:ReasoningGym", name=_name)
if find_spec("skyrl_gym") is not None:
    for _name, (_, _split) in SKYRL_GYM.items():
        register(f"rlvr/skyrl.{_name}-v0", "rlvr.envs.bridges.skyrl_gym:SkyRLGym", name=_name, split=_split)
if find_spec("textarena") is not None:
    for _name in TEXTARENA:
        register(f"rlvr/textarena.{_name}-v0", "rlvr.envs.bridges.textarena:TextArena", name=_name)
    for _name in TEXTARENA_DUELS:
        register(f"rlvr/textarena.{_name}-v0", "rlvr.envs.bridges.textarena:TextArenaDuel", name=_name)
# Other packages are called gem, too.
if (_gem := find_spec("gem")) and any(
    Path(_at, "envs", "game_env").is_dir() for _at in _gem.submodule_search_locations or ()
):
    for _name in GEM:
        register(f"rlvr/gem.{_name}-v0", "rlvr.envs.bridges.gem:GemGame", name=_name)
if find_spec("verifiers") is not None:
    _task = "rlvr.envs.bridges.verifiers:Verifiers"
    register_template("rlvr/verifiers.Taskset-v0", ENTRY_POINT, task=_task)
    for _name in VERIFIERS:
        if (_found := find_spec(_name)) and _found.origin and Path(_found.origin).with_name("taskset.py").exists():
            register(f"rlvr/verifiers.{_name}-v0", _task, taskset=_name)
