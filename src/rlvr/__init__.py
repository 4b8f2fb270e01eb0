"""rlvr: Gymnasium environments with verified rewards for language models.

>>> import gymnasium as gym, rlvr
>>> env = gym.make("rlvr/Countdown-v0")
>>> observation, info = env.reset(seed=0)
"""

import sys as _sys

# `python -m rlvr` looks for modules where the script `rlvr` does: a config's author may have written the folder it is
# started in. While a module is sought its arguments stand behind "-m", and its own name before them.
if _sys.argv[:1] == ["-m"] and not _sys.flags.safe_path and _sys.orig_argv[-len(_sys.argv)].endswith("rlvr"):
    del _sys.path[0]

import gymnasium as _gym

from rlvr.envs import Verdict, list_envs, register, replay
from rlvr.envs.plugins import load_plugins as _load_plugins

__all__ = ["Verdict", "connect", "list_envs", "register", "replay"]
__version__ = "0.1.0"


def connect(url: str, *, token: str | None = None, timeout: float | None = None) -> "_gym.Env[str, str]":
    """The environment that is served at an address; see `rlvr.adapters.connect`, which this is."""
    from rlvr.adapters import connect as remote  # here: it stands on the agents, which `import rlvr` does without

    return remote(url, token=token, timeout=timeout)


_load_plugins()  # last: what a plug-in imports from here is there by now
