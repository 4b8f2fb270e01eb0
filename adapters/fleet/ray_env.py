"""One environment in an actor of Ray, with Gymnasium's interface: what `env.backend: ray` gives a training run.

>>> env = gym.make(f"{__name__}:rlvr-ray/Environment-v0", env="rlvr/GuessNumber-v0", workers=2)       # doctest: +SKIP
>>> observation, info = env.reset(seed=7)                                                            # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import gymnasium as gym

from rlvr.adapters.fleet.forwarding_env import ForwardingEnv
from rlvr.adapters.versions import require
from rlvr.envs.core.code_rule import make_env
from rlvr.envs.tasks.digests import env_digest

TESTED = ("ray", "2.60", "3")
TRIES = 3  # actors that a reset is tried in: what it begins, no other can have lost
OF_THE_ENVIRONMENT = ("observation_space", "action_space", "metadata", "render_mode")
OF_THE_TASKS = ("size", "split", "level", "max_turns")


class EnvHolder:
    """What an actor is: the environments that were begun in it, each under a key."""

    def __init__(self, env: str, settings: dict[str, Any]) -> None:
        self._first: gym.Env[Any, Any] = make_env(env, **settings)
        # shares what is costly to read, such as the rows of a table
        self._make: Callable[[], gym.Env[Any, Any]] = getattr(self._first.unwrapped, "spawn", None) or partial(
            make_env, env, **settings
        )
        self._envs: dict[int, gym.Env[Any, Any]] = {}

    def describe(self) -> dict[str, Any]:
        """What is the same for every environment here, by the names of `RayEnv`."""
        inner = self._first.unwrapped
        described = {name: getattr(self._first, name) for name in OF_THE_ENVIRONMENT}
        described |= {name: getattr(inner, name, None) for name in OF_THE_TASKS}
        spec = self._first.spec
        described["served_id"] = type(inner).__name__ if spec is None else spec.id
        return described | {"env_digest": env_digest(self._first)}

    def call(self, key: int, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a method of the environment under ``key``, which is made with its first reset."""
        if key not in self._envs:
            if name != "reset":
                raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
            self._envs[key] = self._make()
        return self._envs[key].get_wrapper_attr(name)(**arguments)

    def pid(self) -> int:
        """The actor's process."""
        return os.getpid()

    def close(self, key: int) -> None:
        """Close the environment under ``key``, if there is one."""
        env = self._envs.pop(key, None)
        if env is not None:
            env.close()


class ActorPool:
    """Actors that hold environments, shared by all that were spawned from one; one that died is replaced when asked.

    Args:
        env: id of the environment.
        settings: what ``gym.make`` is given for it in the actors.
        workers: how many actors.
        timeout: seconds that a call may take, or None; an actor over it is killed.
    """

    def __init__(self, env: str, settings: dict[str, Any], workers: int, timeout: float | None) -> None:
        require(*TESTED)
        self.ray = importlib.import_module("ray")
        if not self.ray.is_initialized():
            # no dashboard, which runs the code of whoever reaches it; an existing cluster has its own settings
            self.ray.init(**({} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}))
        self._kind = self.ray.remote(EnvHolder)
        self._made_of = env, settings
        self._timeout = timeout
        self._lock = threading.Lock()  # guards the actors
        self._actors = [self._hire() for _ in range(workers)]
        self._keys = itertools.count()

    def next_key(self) -> int:
        """The key of another environment; they are dealt to the actors in turn."""
        return next(self._keys)

    def actor(self, key: int) -> Any:
        """The actor whose turn a key is."""
        with self._lock:
            return self._actors[key % len(self._actors)]

    def ask(self, actor: Any, method: str, *args: Any) -> Any:
        """The answer of an actor.

        Raises:
            ConnectionError: the actor is gone, with its process or its machine; another has taken its place.
            TimeoutError: it was over its time, and has been killed.
            Exception: what the environment raised, as it raised it.
        """
        reference = getattr(actor, method).remote(*args)
        try:
            return self.ray.get(reference, timeout=self._timeout)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.GetTimeoutError:
            self._replace(actor)
            raise TimeoutError(f"its actor gave no answer within {self._timeout:g} s, and was killed") from None
        except self.ray.exceptions.RayError as error:
            self._replace(actor)
            raise ConnectionError(f"its actor is gone: {str(error).splitlines()[0]}") from None

    def _hire(self) -> Any:
        return self._kind.remote(*self._made_of)

    def _replace(self, actor: Any) -> None:
        """Give an actor up, unless it was given up before."""
        with self._lock:
            for index, each in enumerate(self._actors):
                if each is actor:
                    self._actors[index] = self._hire()
        with suppress(Exception):  # it is gone, or Ray is
            self.ray.kill(actor)


class RayEnv(ForwardingEnv):
    """One environment in an actor. The same seeds and actions give what they give directly, infos included.

    An actor that dies costs the episodes that were under way in it: their next step raises, and their next ``reset``
    begins in the actor that took its place.

    Args:
        env: id of the environment, registered wherever an actor may be.
        settings: what ``gym.make`` is given for it.
        workers: how many actors the environments spawned from this one are dealt to. One steps its own in turn.
        timeout: seconds that a call may take, in the actor's queue too; None for no limit.

    Raises:
        ImportError: Ray is missing, or older than what was tested.
        ConnectionError, TimeoutError: see `ActorPool.ask`.
    """

    def __init__(
        self, env: str, *, settings: dict[str, Any] | None = None, workers: int = 1, timeout: float | None = None
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers is the number of actors, at least 1; got {workers}")
        pool = ActorPool(env, settings or {}, workers, timeout)
        self._join(pool, pool.ask(pool.actor(0), "describe"))

    def _join(self, pool: ActorPool, described: dict[str, Any]) -> None:
        self._pool, self._described = pool, described
        self._key = pool.next_key()
        self._actor: Any = None  # where the episode is
        self.size: int | None = None
        vars(self).update(described)

    def spawn(self) -> RayEnv:
        """Another environment of the same kind, in the next actor."""
        other = object.__new__(type(self))
        other._join(self._pool, self._described)
        return other

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; where the actor is gone, in the one that took its place."""
        super().reset(seed=seed)
        for tries_left in reversed(range(TRIES)):
            self._actor = self._pool.actor(self._key)
            try:
                return self._call("reset", seed=seed, options=options)  # type: ignore[no-any-return]
            except ConnectionError:
                if self._pool.actor(self._key) is self._actor or not tries_left:
                    raise  # the environment's own, or nothing that another try would mend
        raise AssertionError("there is a try")

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action."""
        return self._call("step", action=action)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the environment in its actor."""
        actor, self._actor = self._actor, None
        if actor is not None:
            actor.close.remote(self._key)

    def _call(self, name: str, **arguments: Any) -> Any:
        if self._actor is None:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        return self._pool.ask(self._actor, "call", self._key, name, arguments)


gym.register("rlvr-ray/Environment-v0", f"{__name__}:RayEnv", disable_env_checker=True, order_enforce=False)
