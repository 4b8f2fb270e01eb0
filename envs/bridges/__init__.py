"""Bridges in: the environments of other packages, where these are installed. ``docs/bridges.md`` lists them.

Nothing of theirs is imported here: the names are those of the tested versions.
"""

from importlib.util import find_spec
from pathlib import Path

from rlvr.envs.bridges.names import GEM, REASONING_GYM, TEXTARENA
from rlvr.envs.core.registry import register, register_template

# Servers are spoken to over the network: nothing of theirs need be installed.
register_template("rlvr/openenv.Remote-v0", "rlvr.envs.bridges.openenv:OpenEnv")
register_template("rlvr/nemo_gym.Remote-v0", "rlvr.envs.bridges.nemo_gym:NeMoGym")
if find_spec("reasoning_gym") is not None:
    for _name in REASONING_GYM:
        register(f"rlvr/rg.{_name}-v0", "rlvr.envs.bridges.reasoning_gym:ReasoningGym", name=_name)
if find_spec("textarena") is not None:
    for _name in TEXTARENA:
        register(f"rlvr/textarena.{_name}-v0", "rlvr.envs.bridges.textarena:TextArena", name=_name)
# Other packages are called gem, too.
if (_gem := find_spec("gem")) and any(
    Path(_at, "envs", "game_env").is_dir() for _at in _gem.submodule_search_locations or ()
):
    for _name in GEM:
        register(f"rlvr/gem.{_name}-v0", "rlvr.envs.bridges.gem:GemGame", name=_name)
