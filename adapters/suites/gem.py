"""GEM: our environments under `gem.make` and `gem.make_vec`, and so in oat, ROLL and RL2; see docs/adapters/gem.md.

>>> from rlvr.adapters.suites.gem import register                          # doctest: +SKIP
>>> register("rlvr/GuessNumber-v0", level=2)                        # doctest: +SKIP
>>> env = gem.make("rlvr:GuessNumber-v0", seed=7)                   # doctest: +SKIP

GEM has no word for a verdict that is not the policy's fault. Such an episode ends with reward 0.0 and ``valid`` False
in its info, for who can leave it out; ``on_invalid="raise"`` is for trainers that would learn from the zero.
"""

from __future__ import annotations

import importlib
import math
import random
from typing import Any

import gymnasium as gym

from rlvr.adapters.spec import InvalidEpisode, TaskSpec, initial_messages, require_tools_in_prompt
from rlvr.adapters.versions import require
from rlvr.agents.conversation import as_one_text
from rlvr.envs import Verdict, list_envs
from rlvr.envs.core.verdict import env_error

try:
    from gem import Env as _Base
except ImportError:  # `register` and the constructor say what is missing
    _Base = object

TESTED = ("gem-llm", "0.1.0", "0.2")
ENTRY_POINT = "rlvr.adapters.suites.gem:GemEnv"
ON_INVALID = ("flag", "raise")


def register(env_id: str, name: str | None = None, **settings: Any) -> str:
    """Register an environment with GEM; the name that ``gem.make`` and ``gem.make_vec`` know it by.

    Args:
        env_id: an id of ours, perhaps with the module that registers it before a colon.
        name: in GEM; by default ``rlvr:GuessNumber-v0`` for ``rlvr/GuessNumber-v0``.
        settings: of `GemEnv`, which ``gem.make`` may override.

    Raises:
        ImportError: GEM is missing, or older than what was tested.
        ValueError: GEM knows the name already.
    """
    require(*TESTED)
    name = name or env_id.rpartition(":")[2].replace("/", ":", 1)
    importlib.import_module("gem").register(name, ENTRY_POINT, id=env_id, **settings)
    return name


def register_all(contains: str = "", **settings: Any) -> list[str]:
    """Register all our environments whose id contains a text; their names in GEM."""
    return [register(env_id, **settings) for env_id in list_envs(contains)]


class GemEnv(_Base):  # type: ignore[misc, unused-ignore]
    """One of our environments with GEM's interface.

    The same seeds and actions give the same texts and rewards as directly, and nothing global is seeded. An episode
    that is cut off is ``terminated`` and ``truncated``, as in GEM's own environments: ROLL looks at the first alone.
    ``info`` holds ours, and ``valid``, ``success`` and ``metrics``. An environment that raises ends its episode with
    an ``env_error`` verdict and takes nothing along.

    Args:
        id: an id of ours, perhaps with the module that registers it before a colon.
        seed: of the first reset that is given none; ``gem.make_vec`` gives each environment another.
        use_system: put the system prompt before the first text; else it stands in ``info["env_instruction"]``.
        on_invalid: what an episode with an invalid verdict does: "flag" it in the info, or "raise".
        settings: for ``gymnasium.make``: split, level, max_turns, …; JSON types alone.

    Raises:
        InvalidEpisode: under ``on_invalid="raise"``.
        ValueError: in ``reset``, the environment leaves its tools to a chat template, which GEM does not fill.
        gymnasium.error.ResetNeeded: a step before ``reset`` or after the end.
    """

    def __init__(
        self, id: str, *, seed: int | None = None, use_system: bool = True, on_invalid: str = "flag", **settings: Any
    ) -> None:
        require(*TESTED)
        if on_invalid not in ON_INVALID:
            raise ValueError(f"on_invalid must be one of {', '.join(ON_INVALID)}; got {on_invalid!r}")
        super().__init__()
        module, _, name = id.rpartition(":")
        self._spec = TaskSpec(name, 0, module or "rlvr", settings)
        self._given: dict[str, Any] = {"id": id, "use_system": use_system, "on_invalid": on_invalid, **settings}
        self._seed = seed
        self._use_system, self._on_invalid = use_system, on_invalid
        self._env = self._spec.make()
        self._playing = False
        self._lost: Verdict | None = None
        self._random = random.Random(seed)

    def reset(self, seed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the next task of the seed: observation and info, which has ``valid``."""
        seed, self._seed = (self._seed if seed is None else seed), None
        self._playing, self._lost = True, None
        try:
            observation, info = self._env.reset(seed=seed)
        except Exception as error:
            self._lost = _fault("reset", error)
            if self._on_invalid == "raise":
                raise InvalidEpisode(self._lost) from error
            return self._lost.reason, {"verdict": self._lost, "valid": False}
        require_tools_in_prompt(self._spec.env_id, info)
        if not self._use_system and info.get("system"):
            info = {**info, "env_instruction": info["system"]}
        text = as_one_text(initial_messages(observation, info, use_system=self._use_system))
        return text, {**info, "valid": True}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play an action: GEM's five values; what is raised, the class says."""
        if not self._playing:
            raise gym.error.ResetNeeded("the episode is over, or never began: call reset() before step()")
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        if self._lost is not None:
            return self._ended(self._lost, {})
        try:
            observation, reward, terminated, truncated, info = self._env.step(action)
            earned = float(reward)
            if not math.isfinite(earned):
                raise ValueError(f"the reward was {earned!r}")
        except Exception as error:
            return self._ended(_fault("step", error), {}, error)
        verdict = info.get("verdict")
        if verdict is not None and not verdict.valid:
            return self._ended(verdict, info)
        over = bool(terminated or truncated)
        self._playing = not over
        success = bool(info.get("success", False))
        info = {**info, "valid": True, "success": success, "metrics": {"success": success, "valid": True}}
        return observation, earned, over, bool(truncated), info

    def spawn(self, same_state: bool = False, **kwargs: Any) -> GemEnv:
        """Another environment of the same settings but for those given, or one that goes on from here on its own."""
        twin = type(self)(**{**self._given, **kwargs})
        if same_state:
            twin.set_state(self.get_state())
        return twin

    def get_state(self) -> tuple[Any, bool, Verdict | None]:
        """A snapshot of the episode; picklable."""
        return self._inner.get_state(), self._playing, self._lost

    def set_state(self, state: tuple[Any, bool, Verdict | None]) -> None:
        """Go on from a snapshot of an environment with the same settings."""
        snapshot, self._playing, self._lost = state
        self._inner.set_state(snapshot)

    def sample_random_action(self) -> str:
        """A random action, of the environment's own sampler."""
        action: str = self._inner.sample_action(self._random)
        return action

    def close(self) -> None:
        """Close the environment behind it."""
        self._env.close()

    @property
    def _inner(self) -> Any:
        return self._env.unwrapped

    def _ended(
        self, verdict: Verdict, info: dict[str, Any], cause: Exception | None = None
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The end of an episode that nothing is to be learnt from."""
        self._playing = False
        if self._on_invalid == "raise":
            raise InvalidEpisode(verdict) from cause
        metrics = {"success": False, "valid": False}
        info = {**info, "verdict": verdict, "valid": False, "success": False, "metrics": metrics}
        return verdict.reason, 0.0, True, True, info


def _fault(where: str, error: Exception) -> Verdict:
    return env_error(error, where)
