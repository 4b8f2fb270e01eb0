"""DifficultySchedule: each reset draws its level from a schedule by episode count, or from a controller."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import gymnasium as gym

from rlvr.envs.wrappers.base import Step, TextWrapper, WrapperState


@runtime_checkable
class Controller(Protocol):
    """Draws levels and records their outcomes, as the controllers of ``rlvr.envs.curriculum`` do."""

    def draw(self) -> Any:
        """The level of the next task."""

    def record(self, key: Any, outcomes: Iterable[float]) -> None:
        """Count the outcomes of a level, each from 0 to 1."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, as plain JSON."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""


class Progress(NamedTuple):
    """Episodes begun at a level of the schedule's, and the level of the one under way if it is one of these."""

    episodes: int = 0
    level: int | None = None


class DifficultySchedule(TextWrapper):
    """Resets without a level of their own get one from the schedule; ``info["level"]`` names it, as ever.

    A reset that names a level, as a replay does, gets that one and is not counted. Episodes whose verdict is a fault of
    ours are not recorded. A fork takes a copy of the controller with it.

    Args:
        schedule: pairs of (episodes, level), such as ``[(0, 1), (100, 2)]``: level 2 after 100 episodes; or a
            controller, which several environments of one process may share.

    Raises:
        ValueError: the pairs do not begin at 0 or do not rise.
    """

    def __init__(self, env: gym.Env[str, str], schedule: Sequence[Sequence[int]] | Controller) -> None:
        controller = isinstance(schedule, Controller)
        super().__init__(env, schedule=schedule, **({"_disable_deepcopy": True} if controller else {}))
        self.controller: Controller | None = schedule if isinstance(schedule, Controller) else None
        self.stages = () if isinstance(schedule, Controller) else _checked(schedule)
        self.memory = Progress()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Draw a level, then reset to it."""
        progress: Progress = self.memory
        if "level" in (options or {}):
            self.memory = progress._replace(level=None)
            return self.env.reset(seed=seed, options=options)
        level = self._level(progress.episodes)
        observation, info = self.env.reset(seed=seed, options={**(options or {}), "level": level})
        self.memory = Progress(progress.episodes + 1, level)
        return observation, info

    def step(self, action: str) -> Step:
        """Step, and record the outcome at the end of the episode."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        level = self.memory.level
        if (terminated or truncated) and level is not None:
            self.memory = self.memory._replace(level=None)
            verdict = info.get("verdict")
            if self.controller is not None and (verdict is None or verdict.valid):
                self.controller.record(level, [float(info.get("success", float(reward) > 0))])
        return observation, float(reward), terminated, truncated, info

    def _level(self, episodes: int) -> int:
        if self.controller is not None:
            return int(self.controller.draw())
        return next(level for begin, level in reversed(self.stages) if begin <= episodes)

    def get_state(self) -> WrapperState:
        """The episodes counted, the controller's state, and the states below."""
        controller = self.controller.state_dict() if self.controller is not None else None
        return WrapperState((self.memory, controller), self._below("get_state")())

    def set_state(self, state: WrapperState) -> None:
        """Restores the controller too, which other environments may share."""
        super().set_state(state)
        self.memory, controller = state.memory
        if self.controller is not None:
            self.controller.load_state_dict(controller)

    def spawn(self) -> Self:
        """A twin that counts from 0 with a copy of the controller."""
        twin = super().spawn()
        twin.memory, twin.controller = Progress(), copy.deepcopy(self.controller)
        return twin


def _checked(schedule: Any) -> tuple[tuple[int, int], ...]:
    try:
        stages = tuple((int(begin), int(level)) for begin, level in schedule)
    except (TypeError, ValueError):
        stages = ()
    begins = [begin for begin, _ in stages]
    if not stages or begins[0] != 0 or begins != sorted(set(begins)) or min(level for _, level in stages) < 1:
        raise ValueError(
            "a schedule is a controller, or pairs of (episodes, level) from 0 episodes on, such as [(0, 1), (100, 2)]; "
            f"got {schedule!r}"
        )
    return stages
