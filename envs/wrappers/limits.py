"""Limits: how many turns an episode may have, and how long its replies may be. What goes over one is truncated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.envs.core.images import with_text
from rlvr.envs.core.task import Task
from rlvr.envs.core.verdict import Verdict, last_word, wrong
from rlvr.envs.wrappers.base import Step, TextWrapper, identity, judged, whole

OVER = "the episode is over, or never began: call reset() before step()"


class TurnLimit(TextWrapper):
    """At most so many turns; the task's own ``out_of_turns`` is the verdict on an episode that used them up.

    For an environment that is made with ``gym.make``, the argument ``max_turns`` does the same without a wrapper.

    Args:
        turns: how many actions an episode may take.
    """

    def __init__(self, env: gym.Env[str, str], *, turns: int) -> None:
        super().__init__(env, turns=turns)
        self.turns = whole("turns", turns)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the limit's count at 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = self.turns  # turns that are left
        return observation, info

    def step(self, action: str) -> Step:
        """Step; the last turn truncates."""
        if not self.memory:
            raise gym.error.ResetNeeded(OVER)
        observation, reward, terminated, truncated, info = self.env.step(action)
        left = self.memory - 1
        if terminated or truncated:
            left = 0
        elif not left:
            truncated = True
            verdict = info.get("verdict")
            if verdict is None or verdict.valid:  # a fault of ours is not counted against the policy
                outcome = self._out_of_turns()
                verdict = outcome if verdict is None else last_word(verdict, outcome)
            observation, reward, info = with_text(observation, verdict.reason), verdict.reward, judged(info, verdict)
        self.memory = left
        return observation, float(reward), terminated, truncated, info

    def _out_of_turns(self) -> Verdict:
        task: Task[Any] | None = getattr(self.unwrapped, "task", None)
        if task is None:
            return wrong(reason=f"no final answer within {self.turns} turns")
        return task.out_of_turns(self.task_state(), self.turns)


class Used(NamedTuple):
    """Units of all replies so far, the actions taken, the task's identity, and whether the episode is over."""

    units: int
    turns: int
    identity: dict[str, Any]
    over: bool = False


class LengthLimit(TextWrapper):
    """Replies that are too long, alone or together, end the episode; the environment does not see the one that does.

    The episode is truncated with the verdict ``wrong``, whose reason states the length and the limit.

    Args:
        reply: units that one action may have; None for any number.
        episode: units that all actions of an episode may have together; None for any number.
        count: how many units a text has: characters, or for tokens ``lambda text: len(tokenizer.encode(text))``.
        unit: what the verdict calls them.

    Raises:
        ValueError: no limit is given, or one is below 1.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        *,
        reply: int | None = None,
        episode: int | None = None,
        count: Callable[[str], int] = len,
        unit: str = "characters",
    ) -> None:
        counted = {} if count is len else {"count": count}  # left out, the spec is plain JSON
        super().__init__(env, reply=reply, episode=episode, unit=unit, **counted)
        if reply is None and episode is None:
            raise ValueError("a length limit needs reply=, episode=, or both")
        self.reply = reply if reply is None else whole("reply", reply)
        self.episode = episode if episode is None else whole("episode", episode)
        self.count, self.unit = count, unit

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with no length used."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory = Used(0, 0, identity(info))
        return observation, info

    def step(self, action: str) -> Step:
        """Step, or truncate if the action or the episode is too long."""
        used: Used | None = self.memory
        if used is None or used.over:
            raise gym.error.ResetNeeded(OVER)
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        length = whole("what count returns", self.count(action), 0)
        used = used._replace(units=used.units + length, turns=used.turns + 1)
        fault = self._fault(length, used.units)
        if fault is None:
            observation, reward, terminated, truncated, info = self.env.step(action)
            self.memory = used._replace(over=terminated or truncated)
            return observation, float(reward), terminated, truncated, info
        self.memory = used._replace(over=True)
        verdict = wrong(reason=fault)
        info = judged({**used.identity, "turn": used.turns, "role": "user"}, verdict)
        return self.shown(fault), verdict.reward, False, True, info

    def _fault(self, length: int, total: int) -> str | None:
        if self.reply is not None and length > self.reply:
            return f"the reply has {length:,} {self.unit}, allowed are {self.reply:,}"
        if self.episode is not None and total > self.episode:
            return f"the replies have {total:,} {self.unit} together, allowed are {self.episode:,}"
        return None
