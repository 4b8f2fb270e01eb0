"""Sessions of one server as a vector environment of Gymnasium's."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlvr.adapters.serving.connection import Access, WireConnection, error_of
from rlvr.adapters.serving.server_messages import Greeting
from rlvr.adapters.serving.wire import pack, write
from rlvr.envs import Verdict
from rlvr.envs.core.images import observation_space, text_space, with_text
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector import Infos
from rlvr.envs.vector.arguments import checked_mask
from rlvr.envs.vector.env_slot import OF_THE_STEP
from rlvr.envs.vector.inline import rare_collections

Array = np.ndarray[Any, Any]
# Codes after which a session is of no use; only a new one helps.
GONE = ("unknown_session", "closing", "draining", "quota")
SERVER_GONE = ("closing", "draining")  # and those of them after which no other session helps either
MAX_BATCH_BYTES = 1 << 30  # of the images of a batch
MESSAGE_BYTES = 512  # of a message around one action
CHARACTER_BYTES = 12  # of a character at most, as JSON in ASCII


def step_of(result: Mapping[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """What ``step`` returns, from a result of the wire."""
    return result["observation"], result["reward"], result["terminated"], result["truncated"], result["info"]


def space_of(greeting: Greeting) -> gym.Space[Any]:
    """The space of the observations that a greeting promises."""
    space = observation_space(greeting.image)
    text_space(space).max_length = greeting.observation_length  # type: ignore[attr-defined]
    return space


class RemoteVectorEnv(gym.vector.VectorEnv[Any, Any, Array]):
    """Sessions of a served environment as one ``gymnasium.vector.VectorEnv``: one message for each step of all.

    A session whose environment fails, or takes too long, ends its episode with a verdict ``env_error`` or ``timeout``,
    as in `rlvr.envs.vector`, and the others go on.

    Args:
        url, access: as in `connect`.
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
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **access: Unpack[Access],
    ) -> None:
        self._check(num_envs, autoreset_mode)
        self._connection = WireConnection(url, **access)
        try:
            self._declare(self._connection.greeting, self._connection.greeting.items)
        except ValueError:
            self._connection.close()
            raise

    def _check(self, num_envs: int, autoreset_mode: str | AutoresetMode) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.num_envs = operator.index(num_envs)
        if self.num_envs < 1:
            raise ValueError(f"num_envs must be a whole number from 1, got {num_envs!r}")

    def _declare(self, greeting: Greeting, limit: int) -> None:
        """Take on the served environment's spaces; ValueError for more environments than ``limit`` or than fit."""
        image = greeting.image
        limit = limit if image is None else min(limit, MAX_BATCH_BYTES // (image[0] * image[1] * 3))
        if limit < self.num_envs:
            raise ValueError(f"num_envs must be at most {limit}, got {self.num_envs}")
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": ["ansi"]}
        self.render_mode, self._frame = greeting.render_mode, greeting.frame
        self.single_observation_space = space_of(greeting)
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
        self._open()
        options = dict(options or {})
        mask = checked_mask(options.pop("reset_mask", np.ones(self.num_envs, np.bool_)), self.num_envs)
        if seed is None or not isinstance(seed, Sequence):
            seeds = [None if seed is None else operator.index(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None if number is None else operator.index(number) for number in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} seeds, got {len(seeds)}")
        rows: list[dict[str, Any] | None] = [None] * self.num_envs
        with rare_collections(self.num_envs):
            for index, info in self._begin(np.flatnonzero(mask).tolist(), seeds, options or None).items():
                rows[index] = info
            return self._batched(), Infos(rows)

    def step(self, actions: Sequence[str]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Play one action for each session, as ``gymnasium.vector``."""
        with rare_collections(self.num_envs):
            return self._step(actions)

    def _step(self, actions: Sequence[str]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        if not self._opened():
            raise gym.error.ResetNeeded("call reset() before step()")
        if isinstance(actions, str) or not all(isinstance(action, str) for action in actions):
            raise TypeError("actions are the assistant's texts, a str for each environment")
        if len(actions) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} actions, got {len(actions)}")
        self._check_lengths(actions)
        over, restarted = np.flatnonzero(self._over).tolist(), {}
        if over and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(f"the episodes of {over} are over: reset them with reset_mask")
        if over:
            restarted = self._begin(over)
        indices = [index for index in range(self.num_envs) if index not in restarted]
        rewards = np.zeros(self.num_envs)
        terminations, truncations = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        rows: list[dict[str, Any]] = [restarted.get(index, {}) for index in range(self.num_envs)]
        results = self._play(indices, [actions[i] for i in indices])
        for index, result in zip(indices, results, strict=True):
            step = self._failure(result["error"]) if "error" in result else step_of(result)
            self._observations[index], rewards[index], terminations[index], truncations[index], rows[index] = step
        self._over = terminations | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            finals = {index: (self._observations[index], rows[index]) for index in np.flatnonzero(self._over).tolist()}
            for index, info in self._begin(list(finals)).items():
                observation, ended = finals[index]
                of_the_step = {name: ended[name] for name in OF_THE_STEP if name in ended}
                rows[index] = {"final_obs": observation, "final_info": ended, **info, **of_the_step}
        return self._batched(), rewards, terminations, truncations, Infos(rows)

    def _check_lengths(self, actions: Sequence[str]) -> None:
        """Raise ValueError for an action that no message can hold, before anything is played."""
        longest = self._frame - MESSAGE_BYTES
        for index, action in enumerate(actions):
            if len(action) * CHARACTER_BYTES > longest and len(write({"action": action})) > longest:
                raise ValueError(f"actions[{index}] is over the server's {self._frame} bytes of a message")

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions, and close the connection."""
        sessions, self._sessions = self._sessions, []
        self._connection.leave([session for session in sessions if session])

    def _open(self) -> None:
        if not self._sessions:
            self._sessions = self._connection.open(self.num_envs)

    def _opened(self) -> bool:
        return bool(self._sessions)

    def _play(self, indices: Sequence[int], actions: Sequence[str]) -> list[dict[str, Any]]:
        """Step each of these sessions: the results of the wire."""
        pairs = zip(indices, actions, strict=True)
        items = [{"session": self._sessions[i], "action": action} for i, action in pairs]
        results = self._ask("step", items, raised=SERVER_GONE)
        for index, result in zip(indices, results, strict=True):
            if "error" in result and result["error"]["code"] in GONE:
                self._sessions[index] = ""  # its episode is a fault, and the next one begins in another
        return results

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
        fields = [{"seed": None if seeds is None else seeds[index], "options": packed} for index in indices]
        infos = {}
        for index, result in zip(indices, self._reset_sessions(indices, fields), strict=True):
            if "error" in result:
                raise error_of(result["error"])
            self._observations[index], infos[index] = (result[name] for name in ("observation", "info"))
            self._over[index] = False
        return infos

    def _reset_sessions(self, indices: list[int], fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Reset these sessions: the results of the wire. Those that are gone are opened again."""

        def items(at: Sequence[int]) -> list[dict[str, Any]]:
            return [{"session": self._sessions[indices[i]], **fields[i]} for i in at]

        every = range(len(indices))
        self._reopen([i for i in indices if not self._sessions[i]])
        try:
            results = self._ask("reset", items(every), raised=())
        except ConnectionResetError:  # the server was restarted
            if len(indices) < self.num_envs:
                raise  # in the middle of the others' episodes
            self._open()
            return self._ask("reset", items(every))
        if gone := [i for i in every if results[i].get("error", {}).get("code") in GONE]:
            self._reopen([indices[i] for i in gone])
            for i, result in zip(gone, self._ask("reset", items(gone)), strict=True):
                results[i] = result
        return results

    def _reopen(self, indices: list[int]) -> None:
        """Give these sessions in place of those that are gone."""
        if not indices:
            return
        try:
            opened = self._connection.open(len(indices))
        except Exception:
            self._forget()
            raise
        for index, session in zip(indices, opened, strict=True):
            self._sessions[index] = session

    def _forget(self) -> None:
        """Give up all sessions, and with them the connection that keeps them on the server."""
        self._sessions = []
        self._connection.close()

    def _ask(self, op: str, items: list[dict[str, Any]], raised: Collection[str] = GONE) -> list[dict[str, Any]]:
        """The results of the items; an error with one of the codes ``raised`` ends all sessions and is raised."""
        if not items:
            return []
        try:
            results = self._connection.ask(op, items)
        except (TimeoutError, ConnectionError):
            self._forget()  # their state is unknown: the next reset begins others
            raise
        for result in results:
            if "error" in result and result["error"]["code"] in raised:
                self._forget()
                raise error_of(result["error"])
        return results
