"""ConfidenceReward: the policy says how sure it is, and a proper scoring rule pays for saying what is true."""

from __future__ import annotations

import random
import re
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.wrappers.base import Step, TextWrapper
from rlvr.envs.wrappers.prompts import with_system

ASKED: Final = (
    "End each reply with a line of its own that says how sure you are, from 0 to 1, that you solve the task, such as\n"
    "Confidence: 0.7"
)
_LINE: Final = re.compile(
    r"(?:\A|\n)[ \t*_]*confidence[ \t*_]*[:=][ \t*_]*(\d{1,3}(?:\.\d{1,12})?|\.\d{1,12})[ \t]?(%?)[ \t*_.]*\Z",
    re.ASCII | re.IGNORECASE,
)


def split_confidence(text: str) -> tuple[str, float | None]:
    """A reply without its last line, and the confidence in [0, 1] that this line states; None where it states none.

    ``Confidence: 0.7`` and ``Confidence: 70%`` are read, in bold type too.
    """
    text = text.rstrip()
    found = _LINE.search(text, max(0, text.rfind("\n")))
    if found is None:
        return text, None
    stated = float(found[1]) / (100 if found[2] else 1)
    return text[: found.start()].rstrip(), stated if stated <= 1 else None


class ConfidenceReward(TextWrapper):
    """Subtracts ``(confidence - success) ** 2`` from the reward of the last turn (RLCR, arXiv 2507.16806).

    Success is 1 where the environment's verdict is ``correct`` and 0 elsewhere. This is Brier's score, which is proper:
    the mean reward is highest for the true probability p of success. There it is p squared where success earns 1, so
    that it pays to be right as well. The confidence of the reply that ends the episode counts. A reply that states none
    is scored as the worst value is, so leaving it out never pays. The environment does not see the line.

    The verdict keeps its status; its parts gain ``confidence``, where one was stated, and ``calibration``, which is
    what was added, in [-1, 0].
    """

    def __init__(self, env: gym.Env[str, str]) -> None:
        super().__init__(env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the system prompt asks for the line, and worked examples have it."""
        observation, info = self.env.reset(seed=seed, options=options)
        if "examples" in info:
            turns = [
                {**turn, "content": _sure(turn["content"])} if turn["role"] == "assistant" else turn
                for turn in info["examples"]
            ]
            info = {**info, "examples": turns}
        return observation, with_system(info, "\n\n".join(filter(None, (info.get("system"), ASKED))))

    def step(self, action: str) -> Step:
        """Step with the reply above the line; at the end the line is scored."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        reply, stated = split_confidence(action)
        observation, reward, terminated, truncated, info = self.env.step(reply)
        verdict: Verdict | None = info.get("verdict")
        if not (terminated or truncated) or (verdict is not None and not verdict.valid):
            return observation, float(reward), terminated, truncated, info
        if verdict is None:
            raise ValueError(f"{self.env} says nothing of success: there is no verdict to be sure of")
        success = float(verdict.success)
        added = -1.0 if stated is None else -((stated - success) ** 2)
        part = {} if stated is None else {"confidence": stated}
        reward = float(reward) + added
        paid = verdict.replace(reward=reward, parts={**verdict.parts, **part, "calibration": added})
        return observation, reward, terminated, truncated, {**info, "verdict": paid}

    def solve(self) -> str:
        """The expert's next action; the expert is sure."""
        return _sure(super().solve())

    def direct_answer(self) -> str | None:
        """The final answer alone, with the line."""
        answer = super().direct_answer()
        return None if answer is None else _sure(answer)

    def sample_action(self, rng: random.Random) -> str:
        """A random action and a random confidence."""
        return f"{super().sample_action(rng)}\nConfidence: {rng.random():.2f}"


def _sure(text: str) -> str:
    return f"{text}\nConfidence: 1"
