"""rlvr: Gymnasium environments with verified rewards for language models.

>>> import gymnasium as gym, rlvr
>>> env = gym.make("rlvr/Countdown-v0")
>>> observation, info = env.reset(seed=0)
"""

import sys as _sys
import typing as _typing

# `python -m rlvr` looks for modules where the script `rlvr` does: a config's author may have written the folder it is
# started in. While a module is sought its arguments stand behind "-m", and its own name before them.
if _sys.argv[:1] == ["-m"] and not _sys.flags.safe_path and _sys.orig_argv[-len(_sys.argv)].endswith("rlvr"):
    del _sys.path[0]

from importlib import import_module as _import_module

from rlvr.envs import Verdict, list_envs, register, replay
from rlvr.envs.plugins import load_plugins as _load_plugins

if _typing.TYPE_CHECKING:
    from pathlib import Path as _Path

    from rlvr.adapters import connect as connect
    from rlvr.agents import Agent as _Agent
    from rlvr.agents import Evaluation as _Evaluation
    from rlvr.envs.rewards import register_grader as register_grader
    from rlvr.envs.tools import register_tool as register_tool
else:
    # what `import rlvr` does without until it is used: packages, and names with where they are
    _PACKAGES = ("adapters", "agents", "algorithms")
    _LATER = {"connect": "rlvr.adapters", "register_grader": "rlvr.envs.rewards", "register_tool": "rlvr.envs.tools"}

    def __getattr__(name: str) -> object:
        """Imports a package of `_PACKAGES`, or a name of `_LATER`."""
        if name in _PACKAGES:
            return _import_module(f"rlvr.{name}")
        if name in _LATER:
            return globals().setdefault(name, getattr(_import_module(_LATER[name]), name))
        from rlvr.envs.core.hints import did_you_mean

        raise AttributeError(f"module 'rlvr' has no attribute {name!r}{did_you_mean(name, __all__)}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Verdict",
    "connect",
    "evaluate",
    "list_envs",
    "register",
    "register_grader",
    "register_tool",
    "replay",
]
__version__ = "0.1.0"


def evaluate(
    env: str,
    agent: "_Agent",
    *,
    episodes: int | None = None,
    samples: int = 1,
    seed: int = 0,
    record: "_Path | None" = None,
    settings: "_typing.Mapping[str, _typing.Any] | None" = None,
    native_tools: bool = False,
) -> "_Evaluation":
    """Play the test split of an environment with an agent and sum up, as ``rlvr eval`` does.

    `rlvr.agents.evaluation.play.evaluate_env` says what the arguments mean; ``env`` may be a short name, `Countdown`.
    """
    from rlvr.agents.evaluation.play import evaluate_env
    from rlvr.envs.core.registry import full_id

    return evaluate_env(
        full_id(env),
        agent,
        episodes=episodes,
        samples=samples,
        seed=seed,
        record=record,
        settings=settings,
        native_tools=native_tools,
    )


_load_plugins()  # last: what a plug-in imports from here is there by now
