"""Games of several seats. Each is registered as a task in which the policy has one seat and bots have the others."""

from importlib.util import find_spec

from rlvr.envs.core.registry import register
from rlvr.envs.players.catalogue import GAMES
from rlvr.envs.players.openspiel_names import OPENSPIEL

for _name in GAMES:
    register(f"rlvr/{_name}-v0", "rlvr.envs.players.single:AsSingleAgent", game=_name)
if find_spec("pyspiel") is not None:
    for _name in OPENSPIEL:
        register(f"rlvr/openspiel.{_name}-v0", "rlvr.envs.players.single:AsSingleAgent", game=f"openspiel.{_name}")
