"""EnvSlot: one environment, and everything that can happen to it. The same in every back end.

What an environment does never raises here. If it raises, its episode ends with an ``env_error`` verdict and another
environment takes its place.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
from collections.abc import Callable, Generator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, create_empty_array, iterate

from rlvr.envs.core.images import text_space, with_text
from rlvr.envs.core.seeding import digest
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.verdict import Status, Verdict
from rlvr.envs.vector.faults import Raised, end_if_forked, is_fault

Env = gym.Env[Any, Any]
Make = Callable[[], Env]
# Observation, reward, terminated, truncated, info. A reset's has reward 0.0; only one that failed is truncated.
Outcome = tuple[Any, float, bool, bool, dict[str, Any]]
# ("reset", (seed, options)), ("step", action), ("again", the outcome of an episode that ended without us),
# ("make", None), ("call", (name, args, kwargs)), ("set", (name, value)), ("apply", a function of the environment).
Command = tuple[str, Any]
# A method of the environment, and what it is called with; sent the result, or what was raised.
Plan = Generator[tuple[str, tuple[Any, ...], dict[str, Any]], Any, Outcome]


# What SAME_STEP keeps in sight when the next episode's info takes the place of the last one's.
OF_THE_STEP = ("verdict", "success")


class CallResult(dict[str, Any]):
    """The info of a command that is no play: the "value" that was asked for, or the "error" that was raised."""


class EnvSlot:
    """One environment behind a vector environment.

    Args:
        make: makes the environment, and another one after a crash.
        mode: what follows the end of an episode.
        space: of its observations; what stands in for the observation of a failed one.
        seed: the last seed it was given. An environment that takes another's place is seeded from this, so that its
            episodes are the same wherever it runs.
        generation: how often the whole slot was replaced.
    """

    def __init__(
        self, make: Make, mode: AutoresetMode, space: gym.Space[Any], seed: int | None = None, generation: int = 0
    ) -> None:
        self.make = make
        self.mode = mode
        self.space = space
        self._texts = isinstance(space, Text)
        self.seed = seed
        self.generation = generation
        self.env: Env | None = None
        self.done = True
        self.lost = ""  # why the episode under way is lost, if it is
        self._crashes = 0
        self._fresh = generation > 0  # whether the environment stands in for another and was not reset yet

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "make"}  # who unpickles it knows how

    # playing a command

    def run(self, command: Command) -> Outcome:
        """Carry out a command in this thread."""
        if command[0] == "reset":
            return self._reset_at_once(*command[1])
        if command[0] in ("make", "call", "set", "apply"):
            return self._ask(command)
        plan = self._plan(command)
        try:
            name, args, kwargs = next(plan)
            while True:
                pid = os.getpid()
                try:
                    value = getattr(self.made(), name)(*args, **kwargs)
                except BaseException as error:
                    value = _fault(error)
                end_if_forked(pid)
                name, args, kwargs = plan.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def _reset_at_once(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Outcome:
        """What ``_reset`` plans, in this thread."""
        pid = os.getpid()
        try:
            result: Any = self.made().reset(seed=self._seed_for(seed), options=dict(options) if options else options)
        except BaseException as error:
            result = _fault(error)
        end_if_forked(pid)
        return self._begun(result)

    async def arun(self, command: Command) -> Outcome:
        """Carry out a command with the environment's coroutines."""
        plan = self._plan(command)
        try:
            name, args, kwargs = next(plan)
            while True:
                pid = os.getpid()
                try:
                    value = getattr(self.made(), self._coroutine(name) or name)(*args, **kwargs)
                    if inspect.isawaitable(value):
                        value = await value
                except BaseException as error:
                    if _is_being_ended(error):
                        raise
                    value = _fault(error)
                end_if_forked(pid)
                name, args, kwargs = plan.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def awaits(self) -> bool:
        """Whether the environment's step is a coroutine, or it has a ``step_async`` beside it."""
        return self.env is not None and self._coroutine("step") is not None

    def made(self) -> Env:
        """The environment, made if there is none."""
        if self.env is None:
            env = self.make()
            if env.observation_space != self.space:
                env.close()
                raise ValueError(f"its observations are {env.observation_space}, those of the first are {self.space}")
            self.env = env
        return self.env

    def ended(self, outcome: Outcome) -> Outcome:
        """What an outcome becomes whose episode is over: SAME_STEP goes on at once."""
        self.done = True
        if self.mode is not AutoresetMode.SAME_STEP:
            return outcome
        return _joined(outcome, self._reset_at_once())

    def ended_for_now(self, outcome: Outcome) -> Outcome:
        """A failure whose next episode begins with the next step, in SAME_STEP too."""
        if self.mode is not AutoresetMode.SAME_STEP:
            return outcome
        return *outcome[:4], {"final_obs": outcome[0], "final_info": outcome[4], **outcome[4]}

    def close(self) -> None:
        """Close the environment."""
        env, self.env = self.env, None
        if env is not None:
            try:
                env.close()
            except BaseException as error:
                _fault(error)

    # what goes wrong

    def crashed(self, error: BaseException, where: str) -> Outcome:
        """The outcome of an exception; the environment is given up."""
        self.close()
        self.done = self._fresh = True
        self._crashes += 1
        try:
            reason = f"{where}: {type(error).__name__}: {error}"
        except BaseException as unspeakable:
            _fault(unspeakable)
            reason = f"{where}: {type(error).__name__}, which cannot be shown"
        return self.failure("env_error", reason)

    def failure(self, status: Status, reason: str) -> Outcome:
        """An episode that ends here through no fault of the policy."""
        return self.end(Verdict(0.0, status, reason=reason[:500]))

    def end(self, verdict: Verdict) -> Outcome:
        """An episode that ends here with a verdict of 0, for want of an observation."""
        if isinstance(self.space, Text):
            stand_in: Any = verdict.reason[: self.space.max_length]
        else:
            batch_of_one = batch_space(self.space, 1)
            stand_in = next(iter(iterate(batch_of_one, create_empty_array(self.space, 1, np.zeros))))
            if isinstance(text_space(self.space), Text):
                stand_in = with_text(stand_in, verdict.reason)
        return stand_in, 0.0, verdict.valid, not verdict.valid, {"verdict": verdict, "success": False}

    def verified(self, outcome: Any) -> Outcome:
        """The result of a step, or what becomes of the environment when it is none."""
        try:
            return self._checked(outcome)
        except BaseException as error:  # a reward may be an object of the environment's
            return self.crashed(_fault(error).error, "step")

    def _checked(self, outcome: Any) -> Outcome:
        observation, reward, terminated, truncated, info = outcome
        if not math.isfinite(reward := float(reward)):
            raise ValueError(f"the reward was {reward!r}")
        terminated, truncated, info = bool(terminated), bool(truncated), self._fitting(observation, info)
        verdict = info.get("verdict")
        if verdict is not None and not verdict.valid and not terminated:  # a fault in the middle ends the episode
            reward, truncated = 0.0, True
        return observation, reward, terminated, truncated, info

    def _fitting(self, observation: Any, info: Any) -> dict[str, Any]:
        """The info, as a plain dict, if the observation can stand in a batch with others."""
        if self._texts:
            if type(observation) is str and type(info) is dict:
                return info
            if not isinstance(observation, str):
                raise TypeError(f"an observation is text, got {type(observation).__name__}")
        shape = self.space.shape
        if shape is not None and np.shape(observation) != shape:
            raise ValueError(f"an observation has shape {shape}, got {np.shape(observation)}")
        if not isinstance(info, dict):
            raise TypeError(f"info is a dict, got {type(info).__name__}")
        return info if type(info) is dict else dict(info)

    # the plans

    def _plan(self, command: Command) -> Plan:
        kind, payload = command
        if kind == "reset":
            return self._reset(*payload)
        return self._step(payload) if kind == "step" else self._again(payload)

    def _reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Plan:
        kwargs = {"seed": self._seed_for(seed), "options": dict(options) if options else options}
        return self._begun((yield "reset", (), kwargs))

    def _seed_for(self, seed: int | None) -> int | None:
        """What the environment is seeded with: as is asked, or as who stands in for another."""
        if seed is not None:
            self.seed = seed
        elif self._fresh and self.seed is not None:
            seed = digest("replacement", self.seed, self.generation, self._crashes) % 2**31
        return seed

    def _begun(self, result: Any) -> Outcome:
        """The outcome of what a reset returned or raised."""
        if isinstance(result, Raised):
            return self.crashed(result.error, "reset")
        try:
            observation, info = result
            info = self._fitting(observation, info)
        except BaseException as error:
            return self.crashed(_fault(error).error, "reset")
        self.done = self._fresh = False
        self.lost = ""
        return observation, 0.0, False, False, info

    def _step(self, action: Any) -> Plan:
        if self.lost:
            outcome = self.failure("env_error", self.lost)
            self.lost = ""
        elif self.done:
            outcome = yield from self._reset()
            return self.ended_for_now(outcome) if outcome[3] else outcome
        else:
            result = yield "step", (action,), {}
            crashed = isinstance(result, Raised)
            outcome = self.crashed(result.error, "step") if crashed else self.verified(result)
        if not (outcome[2] or outcome[3]):
            return outcome
        self.done = True
        return (yield from self._again(outcome)) if self.mode is AutoresetMode.SAME_STEP else outcome

    def _again(self, outcome: Outcome) -> Plan:
        """Begin the next episode in the step that ended the last; what it ended with is kept in the info."""
        return _joined(outcome, (yield from self._reset()))

    def _coroutine(self, name: str) -> str | None:
        if inspect.iscoroutinefunction(getattr(self.env, f"{name}_async", None)):
            return f"{name}_async"
        return name if inspect.iscoroutinefunction(getattr(self.env, name, None)) else None

    def _ask(self, command: Command) -> Outcome:
        """Something that is no play; what comes of it stands in the info."""
        kind, payload = command
        info, pid = CallResult(), os.getpid()
        try:
            env = self.made()
            if kind == "call":
                name, args, kwargs = payload
                value = env.get_wrapper_attr(name)
                info["value"] = value(*args, **kwargs) if callable(value) else value
            elif kind == "set":
                env.set_wrapper_attr(*payload)
            elif kind == "apply":
                info["value"] = payload(env)
        except BaseException as error:
            info["error"] = _fault(error).error
        end_if_forked(pid)
        return None, 0.0, False, False, info


def _joined(last: Outcome, begun: Outcome) -> Outcome:
    """The end of an episode and the beginning of the next as one outcome."""
    observation, reward, terminated, truncated, info = last
    first, _, _, failed, fresh = begun
    joined = {"final_obs": observation, "final_info": info, **fresh}
    if not failed:
        for key in OF_THE_STEP:
            if key in info:
                joined[key] = info[key]
    return first, reward, terminated, truncated, joined


def _fault(error: BaseException) -> Raised:
    """What the environment raised; the user's Ctrl-C goes on."""
    if is_fault(error):
        return Raised(error)
    raise error


def _is_being_ended(error: BaseException) -> bool:
    """Whether the coroutine under way is cancelled or closed; an environment may raise the same by itself."""
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        running = asyncio.current_task()
    except RuntimeError:  # there is no loop any more that it could go on in
        return True
    return running is None or running.cancelling() > 0
