"""TextWrapper: what every wrapper of a text environment stands on.

All that a wrapper remembers is one immutable value, ``memory``, which is replaced and never changed. So a chain of
wrappers, in any order, is restored and forked by handing these values on.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from rlvr.envs.core.verdict import Verdict

IDENTITY = ("env_id", "split", "level", "seed", "index", "part", "part_level", "part_index")
Step = tuple[Any, float, bool, bool, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class WrapperState:
    """What a wrapper remembers, and the state of what it is wrapped around. Picklable."""

    memory: Any
    inner: Any


class TextWrapper(gym.Wrapper[Any, str, Any, str], RecordConstructorArgs):
    """Base of the wrappers: restores, forks and asks through the chain.

    An observation may be a text, or a text beside an image: ``rlvr.envs.core.images`` has ``text_of``, ``with_text``.

    A subclass overrides ``reset`` and ``step``, hands ``seed`` and ``options`` on, and keeps whatever changes in
    ``memory``. The checkers that ``gym.make`` puts around an environment are taken off: a ``TextEnv`` checks the order
    of calls itself, and a checker cannot be restored.

    Args:
        env: an environment of this project, or a wrapper of it. Any other text environment can be wrapped too, but not
            restored.
        settings: the subclass's own arguments, so that its ``spec`` can make it again.

    Attributes:
        memory: all that changes; None before the first reset.
    """

    memory: Any = None

    def __init__(self, env: gym.Env[str, str], **settings: Any) -> None:
        RecordConstructorArgs.__init__(self, **settings)
        while isinstance(env, PassiveEnvChecker | OrderEnforcing):
            env = env.env
        gym.Wrapper.__init__(self, env)

    # exact restore

    def get_state(self) -> WrapperState:
        """Everything that can change, here and below."""
        return WrapperState(self.memory, self._below("get_state")())

    def set_state(self, state: WrapperState) -> None:
        """Go on from a state of this chain, or of one that was made alike."""
        if not isinstance(state, WrapperState):
            raise TypeError(f"{type(self).__name__}.set_state takes a WrapperState, got {type(state).__name__}")
        self._below("set_state")(state.inner)
        self.memory = state.memory

    def spawn(self) -> Self:
        """A second chain of the same settings, not reset yet."""
        twin = copy.copy(self)
        twin.env = self._below("spawn")()
        twin.memory = None
        return twin

    def fork(self) -> Self:
        """A second chain that goes on from here on its own."""
        twin = self.spawn()
        twin.set_state(self.get_state())
        return twin

    # what a TextEnv can be asked

    def solve(self) -> str:
        """The expert's next action."""
        action: str = self._below("solve")()
        return action

    def direct_answer(self) -> str | None:
        """The final answer without the work that leads to it; None where there is no work to skip."""
        action: str | None = self._below("direct_answer")()
        return action

    def sample_action(self, rng: random.Random) -> str:
        """A random action."""
        action: str = self._below("sample_action")(rng)
        return action

    @property
    def content(self) -> str:
        """What makes the current task this task and no other."""
        return str(self.env.get_wrapper_attr("content"))

    @property
    def size(self) -> int | None:
        """How many tasks there are in a table; None when they are generated without end."""
        return getattr(self.env, "size", None)

    def shown(self, text: str) -> Any:
        """A text as an observation: beside the image of the present state, where the environment shows one."""
        shown = getattr(self.unwrapped, "shown", None)
        return text if shown is None else shown(text)

    def task_state(self) -> Any:
        """The task's own state, under all wrappers."""
        env: Any = self.unwrapped
        return env.get_state().state

    def _below(self, name: str) -> Any:
        method = getattr(self.env, name, None)
        if method is None:
            raise TypeError(
                f"{type(self.env).__name__} has no {name}(): only environments of rlvr, wrapped in nothing but its own "
                "wrappers, can be restored and asked"
            )
        return method


def identity(info: Mapping[str, Any]) -> dict[str, Any]:
    """What names the task in an ``info``."""
    return {name: info[name] for name in IDENTITY if name in info}


def judged(info: Mapping[str, Any], verdict: Verdict) -> dict[str, Any]:
    """An ``info`` with another verdict at the end of an episode."""
    return {**info, "verdict": verdict, "success": verdict.success}


def whole(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is a whole number from ``least``.

    Raises:
        ValueError: it is not; the message names the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}, got {value!r}")
    return value
