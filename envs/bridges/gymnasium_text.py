"""Any other Gymnasium environment with text or discrete actions, played in words.

    gym.make("rlvr/Gymnasium-v0", env="Taxi-v4", actions=["south", "north", "east", "west", "pick up", "drop off"],
             success=1.0, settings={"max_episode_steps": 40})

Its observations become text, the policy's words its actions, and its end a verdict; seeds, splits, forks, snapshots
and limits are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import gymnasium as gym

from rlvr.envs.bridges.bridged_task import BridgedStep, BridgedTask, NoAction, choice, function_of, package_of
from rlvr.envs.core.code_rule import code_allowed, make_env, settings_are_data

COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
MAX_TURNS: Final = 100  # where the environment sets no limit of its own
SYSTEM: Final = "Think step by step. Put your action, and nothing else, in \\boxed{}."


class GymnasiumText(BridgedTask[gym.Env[Any, Any]]):
    """Args:
        env: an id of Gymnasium's registry, perhaps with the module that registers it before a colon; or a function
            that makes an environment.
        settings: given to it; or a list of such mappings, one for each level.
        to_text: from an observation and an info to text: a function, or "module:function". By default a text as it is,
            and else what the environment renders as ``ansi``.
        to_action: from the policy's words (what it boxed) to an action; raises ValueError for words that name none,
            which then cost a turn and are explained. By default the words themselves where actions are texts, and a
            name or a number where they are discrete.
        actions: names of discrete actions, in their order.
        success: what counts as done, see `BridgedTask`; by default an own return of at least the id's reward threshold.
        reward: "success" (1 or 0, at the end) or "return" (the environment's own rewards).
        system: what the policy is told first.
        global_random: see `BridgedTask`.

    Raises:
        ValueError: an environment whose observations, actions or success need to be told and were not.
        gymnasium.error.Error: there is no such environment.
    """

    def __init__(
        self,
        *,
        env: str | Callable[..., gym.Env[Any, Any]],
        settings: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
        to_text: str | Callable[[Any, Mapping[str, Any]], str] | None = None,
        to_action: str | Callable[[str], Any] | None = None,
        actions: Sequence[str] | None = None,
        success: float | str | Callable[[float, bool, Mapping[str, Any]], bool] | None = None,
        reward: str = "success",
        system: str | None = SYSTEM,
        global_random: bool = True,
    ) -> None:
        self.env, self._data = env, not code_allowed()
        self.settings = [dict(settings)] if isinstance(settings, Mapping) else [dict(each) for each in settings] or [{}]
        self.levels = len(self.settings)
        self.to_text, self.to_action = to_text, to_action
        self.names = list(actions) if actions is not None else None
        for function in (to_text, to_action):
            if function is not None:
                function_of(function)
        self._renders = False
        probe = self._made(1)
        spec = probe.spec
        self.packages = (package_of(spec.entry_point if spec is not None else self.env),)
        try:
            self._check(probe)
        finally:
            probe.close()
        if success is None:
            success = spec.reward_threshold if spec else None
            if success is None and reward == "success":
                raise ValueError(f"say what counts as done in {self.name_of}: success=…, a return or a function")
        limit = (spec.max_episode_steps if spec else None) or MAX_TURNS  # of turns, unless ``gym.make`` is told another
        super().__init__(float("inf") if success is None else success, reward, limit, system, global_random)
        if not isinstance(self.success, (int, float)):
            function_of(self.success)
        self.asks = f"{self.name_of} of Gymnasium, in words"

    @property
    def name_of(self) -> str:
        """The environment's id, or the name of the function that makes it."""
        return self.env if isinstance(self.env, str) else getattr(self.env, "__name__", "an environment")

    @property
    def name(self) -> str:
        """``Gymnasium`` and the id or the function's name, so that two bridged environments differ in seeds."""
        return f"Gymnasium {self.name_of}"

    def _made(self, level: int) -> gym.Env[Any, Any]:
        settings = self.settings[level - 1]
        if not isinstance(self.env, str):
            return self.env(**settings)
        render = {"render_mode": "ansi"} if self._renders else {}
        return make_env(self.env, **{**render, **settings})

    def _check(self, probe: gym.Env[Any, Any]) -> None:
        """That text can be made of its observations, and actions of text."""
        observations, actions = probe.observation_space, probe.action_space
        if self.to_text is None and not _texts(observations):
            if "ansi" not in probe.metadata.get("render_modes", ()):
                raise ValueError(f"say how observations of {self.name_of}, {observations}, become text: to_text=…")
            self._renders = True
        discrete = isinstance(actions, gym.spaces.Discrete)
        if self.to_action is None and not discrete and not _texts(actions):
            raise ValueError(f"say how words become actions of {self.name_of}, {actions}: to_action=…")
        if self.names is not None and not (isinstance(actions, gym.spaces.Discrete) and len(self.names) == actions.n):
            raise ValueError(f"{len(self.names)} names of actions were given, and {self.name_of} has {actions}")

    # the bridge

    def begin(self, level: int) -> gym.Env[Any, Any]:
        """Makes the level's environment under the trust in settings that held when the task was made."""
        with settings_are_data(self._data):  # later, and perhaps in another thread, than the settings were given
            return self._made(level)

    def first(self, live: gym.Env[Any, Any], seed: int) -> str:
        """Resets by ``seed``; discrete actions are listed below the first observation."""
        observation, info = live.reset(seed=seed)
        text = self._text(live, observation, info)
        if self.to_action is None and isinstance(live.action_space, gym.spaces.Discrete):
            space = live.action_space
            named = self.names or [str(number) for number in range(space.start, space.start + space.n)]
            text = f"{text}\n\nActions: {', '.join(named)}"
        return text

    def play(self, live: gym.Env[Any, Any], action_text: str) -> BridgedStep:
        """Steps by the action that the words name; raises ``NoAction`` before anything has changed."""
        action = self._action(live.action_space, action_text)
        observation, reward, terminated, truncated, info = live.step(action)
        text = self._text(live, observation, info)
        return BridgedStep(text, float(reward), bool(terminated), bool(truncated), info)

    def end(self, live: gym.Env[Any, Any]) -> None:
        """Closes the environment."""
        live.close()

    def _text(self, live: gym.Env[Any, Any], observation: Any, info: Mapping[str, Any]) -> str:
        if self.to_text is not None:
            return str(function_of(self.to_text)(observation, info))
        return COLOURS.sub("", str(live.render())).strip("\n") if self._renders else str(observation)

    def _action(self, space: gym.Space[Any], action_text: str) -> Any:
        if self.to_action is not None:
            try:
                action = function_of(self.to_action)(action_text)
            except ValueError as error:
                raise NoAction(str(error) or f"{action_text[:60]!r} is no action") from error
        elif isinstance(space, gym.spaces.Discrete):
            action = choice(action_text, self.names, int(space.n), int(space.start))
        else:
            action = action_text
        if not space.contains(action):
            raise NoAction(f"{action_text[:60]!r} is no action of {space}")
        return action


def _texts(space: gym.Space[Any]) -> bool:
    """Whether a space is of texts: Gymnasium's, ours, or another one."""
    return space.dtype is not None and space.dtype.kind == "U"
