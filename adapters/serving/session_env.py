"""Where one session's environment lives, and what it answers. No network in here."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlvr.adapters.serving.guard import limited_log, without_paths
from rlvr.adapters.serving.server_messages import Range
from rlvr.adapters.serving.wire import MAX_FRAME, MAX_REWARD, ProtocolError, is_number, pack, unpack
from rlvr.envs.core.images import image_of, text_of, text_space
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector.env_slot import CallResult, Command, Outcome
from rlvr.envs.vector.step_trials import StepHistory

MAX_STATES = 64  # snapshots of one session
Result = dict[str, Any]
log = limited_log("rlvr.serve")


class SessionHistory(StepHistory):
    """Of a session, whose resets and steps are calls of `SessionEnv.play`; a restored snapshot is not played again."""

    @staticmethod
    def is_step(command: Command) -> bool:
        """Whether a session's step is called."""
        return _env_command(command)[0] == "step"

    def send(self, command: Command) -> None:
        """Note what the session is asked."""
        kind, payload = _env_command(command)
        if kind == "call" and payload.get("name") == "set_state":
            self.start = None
        super().send((kind, payload))

    def receive(self, command: Command, outcome: Outcome, mode: AutoresetMode) -> None:
        """Note what it answers."""
        asked, answer = _env_command(command), outcome[4]
        if asked[0] not in ("reset", "step"):
            return
        result = answer.get("value") if isinstance(answer, CallResult) and "error" not in answer else None
        if not isinstance(result, dict) or "error" in result:
            self.start = None  # nobody knows what it has done
            return
        ends = result.get("terminated", False), result.get("truncated", False)
        played = (result.get("observation"), result.get("reward", 0.0), *ends, result.get("info", {}))
        super().receive(asked, played, mode)


def _env_command(command: Command) -> Command:
    """What a call of `SessionEnv.play` does with the environment."""
    if command[0] != "call" or command[1][0] != "play":
        return command
    op, item = command[1][1]
    if op == "reset":
        return "reset", (item.get("seed"), item.get("options"))
    return (op, item["action"]) if op == "step" else (op, item)


class SessionEnv(gym.Env[Any, Any]):
    """Where one session's environment lives: made when the session first asks, closed when it ends.

    What it answers is ready for the wire. Snapshots stay here, under a name: a snapshot holds the task's solution, and
    one that came from a client could hold anything.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], rewards: Range = (-MAX_REWARD, MAX_REWARD)) -> None:
        self.observation_space = self.action_space = Text()
        self._make = make
        self._rewards = rewards
        self._env: gym.Env[Any, Any] | None = None
        self._space: gym.Space[Any] = self.observation_space  # of what it observes
        self._started = False
        self._states: dict[str, Any] = {}

    def play(self, op: str, item: dict[str, Any]) -> Result:
        """Carry out one item; what the environment raises is part of the answer."""
        try:
            match op:
                case "reset":
                    return self._reset(item.get("seed"), item.get("options"))
                case "step":
                    return self._step(item["action"])
                case "call":
                    return {"value": self._call(item["name"], item.get("state", ""))}
            return self._leave()
        except ProtocolError as refusal:
            return ProtocolError(refusal.code, without_paths(refusal.message)).to_dict()
        except gym.error.ResetNeeded as error:
            return ProtocolError("reset_needed", without_paths(str(error))).to_dict()
        except Exception as error:
            log.warning("%s: %s", op, described(error))
            return ProtocolError("env_error", without_paths(f"{op}: {described(error)}")).to_dict()

    # a step that did not return is played again in a session of its own

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """What a session observes first, as it crosses; ``options`` as they crossed."""
        return self._reset(seed, options)["observation"], {}

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment."""
        return self._playing().step(action)

    @property
    def unwrapped(self) -> gym.Env[Any, Any]:
        """The environment, once it is made."""
        return self if self._env is None else self._env.unwrapped

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> Result:
        if self._env is None:
            self._env = self._make()
            self._space = self._env.observation_space
        try:
            unpacked = None if options is None else unpack(options)
            if not isinstance(unpacked, dict | None):
                raise TypeError(f"options must be an object; got a {type(unpacked).__name__}")
            observation, info = self._env.reset(seed=seed, options=unpacked)
        except (ValueError, TypeError, gym.error.Error) as error:  # of the arguments: a task is free of errors
            raise ProtocolError("invalid", str(error)) from error
        self._started = True
        return {"observation": _packed(observation, self._space), "info": pack(info)}

    def _step(self, action: str) -> Result:
        env = self._playing()
        observation, reward, terminated, truncated, info = env.step(action)
        return {
            "observation": _packed(observation, self._space),
            "reward": self._checked(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": pack(info),
        }

    def _checked(self, reward: Any) -> Any:
        reward = float(reward) if isinstance(reward, bool | np.bool_) else reward
        low, high = self._rewards
        if not is_number(reward) or not low <= reward <= high:
            raise ValueError(f"a reward must be a number from {low:g} to {high:g}, got {reward!r:.60}")
        return pack(reward)

    def _call(self, name: str, state: str) -> Any:
        env = self._playing()
        try:
            method = env.get_wrapper_attr(name)
        except AttributeError:
            raise ProtocolError("invalid", f"the environment has no {name}") from None
        if name == "get_state":
            if len(self._states) >= MAX_STATES:
                raise ProtocolError(
                    "invalid", f"a session keeps {MAX_STATES} states at most: close it and open another"
                )
            self._states[handle := secrets.token_hex(8)] = method()
            return handle
        if name == "set_state":
            if state not in self._states:
                raise ProtocolError("invalid", "no get_state of this session gave this state")
            method(self._states[state])
            return None
        try:
            return pack(method())
        except NotImplementedError as error:
            raise ProtocolError("invalid", f"{name}: {error}") from error

    def _leave(self) -> Result:
        env, self._env, self._started = self._env, None, False
        self._states.clear()
        if env is not None:
            env.close()
        return {}

    def _playing(self) -> gym.Env[Any, Any]:
        if self._env is None or not self._started:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        return self._env

    def close(self) -> None:
        """Close the session's environment, and forget its snapshots."""
        self._leave()


def described(error: Any) -> str:
    """An exception's type and words."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which cannot be shown"


def _packed(observation: Any, space: gym.Space[Any]) -> Any:
    """An observation as it crosses: a text, or a text and an image."""
    text = text_of(observation)
    if not isinstance(text, str):
        raise TypeError(f"an observation is text, got {type(text).__name__}")
    longest = min(getattr(text_space(space), "max_length", MAX_FRAME), MAX_FRAME // 6)  # what one character takes
    if len(text) > longest:
        raise ValueError(f"an observation of {len(text)} characters is too long for the wire: {longest} at most")
    text = str.__str__(text)
    image = image_of(observation)
    if image is None:
        return text
    expected = space["image"].shape if isinstance(space, gym.spaces.Dict) else None
    if image.shape != expected:
        raise ValueError(f"an image is {list(image.shape)}, and the environment declares {expected}")
    return {"text": text, "image": pack(image)}
