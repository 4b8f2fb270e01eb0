"""The other side of `rlvr serve`: an environment at an address, with Gymnasium's interface.

>>> from rlvr.adapters import connect                              # doctest: +SKIP
>>> env = connect("http://127.0.0.1:8765")                         # doctest: +SKIP
>>> observation, info = env.reset(seed=7)                          # doctest: +SKIP
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlvr.adapters.serving.answers import Greeting, Range
from rlvr.adapters.serving.connection import RemoteError, WireConnection, error_of
from rlvr.adapters.serving.wire import pack
from rlvr.envs import Verdict
from rlvr.envs.core.images import observation_space, text_space, with_text
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector import Infos
from rlvr.envs.vector.arguments import checked_mask
from rlvr.envs.vector.env_slot import OF_THE_STEP

Array = np.ndarray[Any, Any]
# Codes after which a session is of no use; only a new one helps.
GONE = ("unknown_session", "closing", "draining", "quota")
MAX_BATCH_BYTES = 1 << 30  # of the images of a batch
__all__ = ["RemoteEnv", "RemoteError", "RemoteVectorEnv", "connect", "connect_vector", "error_of"]


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout: float | None = None,
    reward_range: Range | None = None,
    env: str | None = None,
) -> RemoteEnv:
    """The environment that is served at an address, as a ``gymnasium.Env``; `RemoteEnv` says what it raises.

    Args:
        url: as ``rlvr serve`` prints it, ``?token=…`` included; http, https, ws or wss.
        token: what the server asks for, where the address does not say it.
        timeout: seconds to wait for an answer; by default half a minute more than the server gives a step.
        reward_range: the least and the greatest reward that are taken; None for the range that the server declares.
        env: the id of one of the server's environments, where it has several; ``?env=…`` in the address says it too.
    """
    return RemoteEnv(url, token=token, timeout=timeout, reward_range=reward_range, env=env)


def connect_vector(
    url: str,
    num_envs: int,
    *,
    token: str | None = None,
    timeout: float | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    reward_range: Range | None = None,
    env: str | None = None,
) -> RemoteVectorEnv:
    """``num_envs`` sessions over one connection, a batch for each step; arguments as in `connect`."""
    return RemoteVectorEnv(
        url, num_envs, token=token, timeout=timeout, autoreset_mode=autoreset_mode, reward_range=reward_range, env=env
    )


class RemoteEnv(gym.Env[Any, str]):
    """One session of a served environment. The same seeds and actions give what they give directly, infos included.

    Differences: ``get_state`` returns a name for a state that stays on the server. ``solve``, ``get_state`` and
    ``set_state`` need ``rlvr serve --expert``.

    Args:
        url, token, timeout, reward_range, env: as in `connect`.

    Raises:
        ConnectionError: there is no server, it was restarted, or it sent what the wire does not allow, such as a reward
            out of range; the next ``reset`` begins a new session.
        PermissionError: the token is not right, or the server does not give what was asked for.
        TimeoutError: the environment, or the server, took too long.
        ValueError, TypeError, gymnasium.error.ResetNeeded: as the environment itself.
        RemoteError: anything else; its ``code`` says what.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float | None = None,
        reward_range: Range | None = None,
        env: str | None = None,
    ) -> None:
        self._session: str | None = None
        self._again = partial(RemoteEnv, url, token=token, timeout=timeout, reward_range=reward_range, env=env)
        self._connection = WireConnection(url, token, timeout, reward_range, env)
        greeting = self._connection.greeting
        self.name: str = greeting.env_id
        self.size: int | None = greeting.size
        self.split: str | None = greeting.split
        self.level: int | None = greeting.level
        self.max_turns: int | None = greeting.max_turns
        self.render_mode = greeting.render_mode
        self.observation_space = _space(greeting)
        self.action_space = Text(greeting.action_length)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a task of the served environment; the errors are those of the class."""
        if seed is not None:
            seed = operator.index(seed)
            super().reset(seed=seed)
        if self._session is None:
            (self._session,) = self._connection.open(1)
        result = self._ask("reset", seed=seed, options=None if options is None else pack(options))
        return result["observation"], result["info"]

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action; the errors are those of the class."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        return _step_of(self._ask("step", action=action))

    def render(self) -> Any:
        """The served environment's rendering."""
        return self._call("render")

    def solve(self) -> str:
        """The expert's next action."""
        return self._call("solve")  # type: ignore[no-any-return]

    def get_state(self) -> str:
        """The name of a snapshot, which lives as long as the session."""
        return self._call("get_state")  # type: ignore[no-any-return]

    def set_state(self, state: str) -> None:
        """Go on from a snapshot of this session."""
        self._call("set_state", state=state)

    def spawn(self) -> RemoteEnv:
        """Another session, over a connection of its own."""
        return self._again()

    def close(self) -> None:
        """End the session, and close the connection."""
        session, self._session = self._session, None
        self._connection.leave([] if session is None else [session])

    def _call(self, name: str, **fields: Any) -> Any:
        return self._ask("call", name=name, **fields)["value"]

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        if self._session is None:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        try:
            (result,) = self._connection.ask(op, [{"session": self._session, **fields}])
        except (TimeoutError, ConnectionError):
            self._session = None  # what became of it is not known: the next reset begins another
            raise
        if "error" not in result:
            return result
        if result["error"]["code"] in GONE:
            self._session = None
        raise error_of(result["error"])


def _step_of(result: Mapping[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    return result["observation"], result["reward"], result["terminated"], result["truncated"], result["info"]


def _space(greeting: Greeting) -> gym.Space[Any]:
    """The space of the observations that a greeting promises."""
    space = observation_space(greeting.image)
    text_space(space).max_length = greeting.observation_length  # type: ignore[attr-defined]
    return space


class RemoteVectorEnv(gym.vector.VectorEnv[Any, Any, Array]):
    """Sessions of a served environment as one ``gymnasium.vector.VectorEnv``: one message for each step of all.

    A session whose environment fails, or takes too long, ends its episode with a verdict ``env_error`` or ``timeout``,
    as in `rlvr.envs.vector`, and the others go on.

    Args:
        url, token, timeout, reward_range, env: as in `connect`.
        num_envs: how many sessions.
        autoreset_mode: ``NextStep``, ``SameStep`` or ``Disabled``.

    Raises:
        ConnectionError, PermissionError, TimeoutError, RemoteError: as `RemoteEnv`.
        ValueError: a reset that an environment refuses; a wrong number of actions or seeds; more environments than
            the server takes in a request, or than have images of 1 GiB together.
    """

    def __init__(
        self,
        url: str,
        num_envs: int,
        *,
        token: str | None = None,
        timeout: float | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        reward_range: Range | None = None,
        env: str | None = None,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.num_envs = operator.index(num_envs)
        if self.num_envs < 1:
            raise ValueError(f"num_envs must be a whole number from 1, got {num_envs!r}")
        self._connection = WireConnection(url, token, timeout, reward_range, env)
        greeting = self._connection.greeting
        image = greeting.image
        most = greeting.items if image is None else min(greeting.items, MAX_BATCH_BYTES // (image[0] * image[1] * 3))
        if most < self.num_envs:
            self._connection.close()
            raise ValueError(f"num_envs must be at most {most}, got {num_envs}")
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": ["ansi"]}
        self.render_mode = greeting.render_mode
        self.single_observation_space = _space(greeting)
        self.single_action_space = Text(greeting.action_length)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._sessions: list[str] = []
        self._over = np.zeros(self.num_envs, dtype=np.bool_)
        self._blank: Any = "" if image is None else {"text": "", "image": np.zeros(image, np.uint8)}
        self._observations: list[Any] = [self._blank] * self.num_envs

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every session.

        Args:
            seed: session i gets ``seed + i``; or one for each.
            options: given to every environment. ``options["reset_mask"]``, a boolean array [num_envs], resets only
                some, and returns the others' last observations.
        """
        if not self._sessions:
            self._sessions = self._connection.open(self.num_envs)
        options = dict(options or {})
        mask = checked_mask(options.pop("reset_mask", np.ones(self.num_envs, np.bool_)), self.num_envs)
        if seed is None or not isinstance(seed, Sequence):
            seeds = [None if seed is None else operator.index(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None if one is None else operator.index(one) for one in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} seeds, got {len(seeds)}")
        rows: list[dict[str, Any] | None] = [None] * self.num_envs
        for index, info in self._begin(np.flatnonzero(mask).tolist(), seeds, options or None).items():
            rows[index] = info
        return self._batched(), Infos(rows)

    def step(self, actions: Sequence[str]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play one action for each session, as ``gymnasium.vector``."""
        if not self._sessions:
            raise gym.error.ResetNeeded("call reset() before step()")
        if isinstance(actions, str) or not all(isinstance(action, str) for action in actions):
            raise TypeError("actions are the assistant's texts, a str for each environment")
        if len(actions) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} actions, got {len(actions)}")
        over, restarted = np.flatnonzero(self._over).tolist(), {}
        if over and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(f"the episodes of {over} are over: reset them with reset_mask")
        if over:
            restarted = self._begin(over)
        indices = [index for index in range(self.num_envs) if index not in restarted]
        rewards = np.zeros(self.num_envs)
        terminations, truncations = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        rows: list[dict[str, Any]] = [restarted.get(index, {}) for index in range(self.num_envs)]
        results = self._ask("step", [{"session": self._sessions[i], "action": actions[i]} for i in indices])
        for index, result in zip(indices, results, strict=True):
            step = self._failure(result["error"]) if "error" in result else _step_of(result)
            self._observations[index], rewards[index], terminations[index], truncations[index], rows[index] = step
        self._over = terminations | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            finals = {index: (self._observations[index], rows[index]) for index in np.flatnonzero(self._over).tolist()}
            for index, info in self._begin(list(finals)).items():
                observation, ended = finals[index]
                kept = {name: ended[name] for name in OF_THE_STEP if name in ended}
                rows[index] = {"final_obs": observation, "final_info": ended, **info, **kept}
        return self._batched(), rewards, terminations, truncations, Infos(rows)

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions, and close the connection."""
        sessions, self._sessions = self._sessions, []
        self._connection.leave(sessions)

    def _batched(self) -> Any:
        """The last observations of all, as one."""
        space = self.single_observation_space
        if isinstance(space, Text):
            return tuple(self._observations)
        empty: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, self._observations, empty)

    def _failure(self, error: Mapping[str, str]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """An episode that ends here through no fault of the policy."""
        status: Any = "timeout" if error["code"] == "timeout" else "env_error"
        reason = str(error["message"])
        info = {"verdict": Verdict(0.0, status, reason=reason), "success": False}
        return with_text(self._blank, reason), 0.0, False, True, info

    def _begin(
        self, indices: list[int], seeds: Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Reset these sessions: their infos."""
        packed = None if options is None else pack(options)
        items = [
            {"session": self._sessions[index], "seed": None if seeds is None else seeds[index], "options": packed}
            for index in indices
        ]
        infos = {}
        for index, result in zip(indices, self._ask("reset", items), strict=True):
            if "error" in result:
                raise error_of(result["error"])
            self._observations[index], infos[index] = (result[name] for name in ("observation", "info"))
            self._over[index] = False
        return infos

    def _ask(self, op: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not items:
            return []
        try:
            results = self._connection.ask(op, items)
        except (TimeoutError, ConnectionError):
            self._sessions = []  # what became of them is not known: the next reset begins others
            raise
        for result in results:
            if "error" in result and result["error"]["code"] in GONE:
                self._sessions = []
                raise error_of(result["error"])
        return results
