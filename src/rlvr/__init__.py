"""rlvr: Gymnasium environments with verified rewards for language models.

>>> import gymnasium as gym, rlvr
>>> env = gym.make("rlvr/Countdown-v0")
>>> observation, info = env.reset(seed=0)
"""

from typing import TYPE_CHECKING, Any

from rlvr.envs import Verdict, list_envs, register, replay
from rlvr.envs.plugins import load_plugins as _load_plugins

if TYPE_CHECKING:
    from rlvr.adapters import connect as connect

__all__ = ["Verdict", "connect", "list_envs", "register", "replay"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "connect":  # late: the adapters stand on the agents, which `import rlvr` does without
        from rlvr.adapters import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_load_plugins()  # last: what a plug-in imports from here is there by now
