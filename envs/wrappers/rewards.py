"""Other rewards than the environment's own: a rubric, spurious rewards as controls, shaping by a potential.

The verdict keeps the status of the environment's own grade, so that success is measured whatever is paid. A verdict
that is not valid (a fault of ours) is never made valid.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym

from rlvr.envs.core.hints import did_you_mean, require_known
from rlvr.envs.core.images import text_of
from rlvr.envs.core.verdict import TRUE_REWARD, Verdict, is_provoked, provoked_verdict
from rlvr.envs.rewards.rubric import Rubric, Sample
from rlvr.envs.rewards.spurious import IncorrectReward, MarkerReward, RandomReward
from rlvr.envs.wrappers.base import Step, TextWrapper

SPURIOUS: dict[str, type[Rubric]] = {"random": RandomReward, "incorrect": IncorrectReward, "marker": MarkerReward}


class OwnVerdict(Rubric):
    """The environment's own verdict, as a part of a rubric: ``0.9 * OwnVerdict() + 0.1 * Grade("format", …)``."""

    def evaluate(self, sample: Sample) -> Verdict:
        """``info["verdict"]`` of the step; without one the environment cannot be paid, ``verifier_error``."""
        verdict = sample.info.get("verdict")
        if verdict is None:
            return Verdict(0.0, "verifier_error", reason="the environment gave no verdict")
        return verdict.replace(parts={"environment": verdict.reward, **verdict.parts})  # type: ignore[no-any-return]


class RubricReward(TextWrapper):
    """The reward is a rubric's; it sees the action, the text it answers and ``info``, no image.

    Args:
        rubric: see ``rlvr.envs.rewards.rubric``; ``OwnVerdict()`` stands for the environment's own grade. The names of
            its parts stand in the verdict, and as ``true_reward`` what the environment itself has paid so far.
        every_turn: whether each turn is paid by the rubric. By default only the last one is, and the others keep the
            environment's reward: what is paid for its form in every turn is paid for taking many.
    """

    def __init__(self, env: gym.Env[str, str], rubric: Rubric, *, every_turn: bool = False) -> None:
        super().__init__(env, rubric=rubric, every_turn=every_turn)
        self._pay(rubric, every_turn)

    def _pay(self, rubric: Rubric, every_turn: bool = False) -> None:
        if not isinstance(rubric, Rubric):
            raise TypeError(f"rubric must be a Rubric, got {type(rubric).__name__}")
        self.rubric, self.every_turn = rubric, every_turn

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode that the rubric will grade."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = text_of(observation), 0.0
        return observation, info

    def step(self, action: str) -> Step:
        """Step; the reward is the rubric's."""
        prompt, earned = self.memory or ("", 0.0)
        observation, reward, terminated, truncated, info = self.env.step(action)
        earned += float(reward)
        self.memory = text_of(observation), earned
        verdict: Verdict | None = info.get("verdict")
        faulty = verdict is not None and not verdict.valid
        if faulty or not (self.every_turn or terminated or truncated):
            return observation, float(reward), terminated, truncated, info
        paid = self._paid(Sample(action, prompt=prompt, truncated=truncated, info=info))
        if not paid.valid:
            info = {**info, "verdict": paid} | ({"success": False} if "success" in info else {})
            return observation, 0.0, terminated, not terminated, info
        if verdict is not None:
            paid = verdict.replace(reward=paid.reward, parts={**paid.parts, TRUE_REWARD: earned})
        info = {**info, "verdict": paid}
        return observation, paid.reward, terminated, truncated, info

    def _paid(self, sample: Sample) -> Verdict:
        """The rubric's verdict; 0 where it raises on this action alone."""
        evaluate = self.rubric.evaluate
        try:
            return evaluate(sample)
        except Exception as error:
            if not is_provoked(lambda: evaluate(sample), lambda: evaluate(replace(sample, completion=""))):
                raise
            return provoked_verdict("the rubric", error)


class SpuriousReward(RubricReward):
    """A control (arXiv 2506.10947): a reward that knows nothing of the answer, or pays for wrong ones.

    Args:
        kind: "random" (with ``probability`` and ``seed``; the same reply to the same observation always earns the
            same), "incorrect" (a wrong answer earns 1, a right one 0), "marker" (any answer behind a marker earns 1).
        options: of that kind, see ``rlvr.envs.rewards.spurious``.
    """

    def __init__(self, env: gym.Env[str, str], kind: str = "random", **options: Any) -> None:
        TextWrapper.__init__(self, env, kind=kind, **options)
        if kind not in SPURIOUS:
            raise ValueError(f"there is no spurious reward {kind!r}{did_you_mean(kind, SPURIOUS)}")
        build: Any = SPURIOUS[kind]
        require_known(f"the spurious reward {kind!r}", options, list(inspect.signature(build).parameters)[1:], "option")
        self._pay(build(OwnVerdict(), **options))


class PotentialShaping(TextWrapper):
    """Adds ``discount * potential(next) - potential(now)`` to each reward (Ng, Harada and Russell, 1999).

    The potential after the end counts as 0, so that with a discount of 1 the sum over an episode is minus the potential
    of its first state, whatever was done: the best policy stays the best.

    Args:
        potential: a function of the task's state (what ``Task.start`` and ``Task.apply`` return) to a finite number.
        discount: in (0, 1]; the one that the learner uses.

    Raises:
        ValueError: the potential is not finite, or the discount out of range.
    """

    def __init__(self, env: gym.Env[str, str], potential: Callable[[Any], float], *, discount: float = 1.0) -> None:
        super().__init__(env, potential=potential, discount=discount)
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be in (0, 1], got {discount!r}")
        self.potential, self.discount = potential, discount

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and note its first potential."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = self._now()
        return observation, info

    def step(self, action: str) -> Step:
        """Step; the reward gains the discounted difference of potentials."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self.memory = self.memory, 0.0 if terminated or truncated else self._now()
        verdict: Verdict | None = info.get("verdict")
        if verdict is None or verdict.valid:
            added = self.discount * self.memory - before
            reward = float(reward) + added
            if verdict is not None:
                info = {**info, "verdict": verdict.replace(reward=reward, parts={**verdict.parts, "shaping": added})}
        return observation, float(reward), terminated, truncated, info

    def _now(self) -> float:
        value = float(self.potential(self.task_state()))
        if not math.isfinite(value):
            raise ValueError(f"the potential is not finite: {value!r}")
        return value
