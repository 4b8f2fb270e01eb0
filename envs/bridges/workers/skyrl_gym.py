"""What the workers of the skyrl-gym bridge do: play all actions of an episode in a new environment of theirs.

Loaded in workers only.
"""

from __future__ import annotations

import importlib
from typing import Any

from rlvr.envs.bridges.suite_games import SKYRL_GYM


def warm() -> None:
    """Import the package before the first call, whose time then counts for the call alone."""
    importlib.import_module("skyrl_gym")


def play(name: str, question: str, gold: str, actions: list[str]) -> dict[str, Any]:
    """What the last of the actions leads to: the next message, the turn's score, the sum of all, whether it is over.

    An action that makes their scorer raise is one that is worth nothing.
    """
    skyrl_gym: Any = importlib.import_module("skyrl_gym")
    reference = {"method": "rule", "ground_truth": gold}
    extras = {"reward_spec": reference, "reward_model": reference, "extra_info": {}, "max_turns": SKYRL_GYM[name][0]}
    env = skyrl_gym.make(name, env_config={}, extras=extras)
    env.init([{"role": "user", "content": question}])
    score, last, text, done = 0.0, 0.0, "", False
    for action in actions:
        try:
            step = env.step(action)
        except (Exception, RecursionError):
            return {"text": "", "last": 0.0, "score": score, "done": True}
        last, done = float(step["reward"]), bool(step["done"])
        score += last
        text = "\n".join(str(message["content"]) for message in step["observations"])
    return {"text": text, "last": last, "score": score, "done": done}
