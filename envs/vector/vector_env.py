"""VectorEnv: many environments behind one, in turn, in threads, in processes or awaited."""

from __future__ import annotations

import copy
import math
import operator
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import CloudpickleWrapper, batch_space, concatenate, create_empty_array, iterate

from rlvr.envs.core.spaces import Text
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.vector.arguments import (
    BackendMaker,
    Timeout,
    checked_mask,
    checked_mode,
    checked_workers,
    makers_of,
    seconds_or_default,
    sharing,
)
from rlvr.envs.vector.coroutines import Coroutines
from rlvr.envs.vector.env_slot import CallResult, Command, EnvSlot, Make, Outcome
from rlvr.envs.vector.infos import Infos
from rlvr.envs.vector.inline import Backend, Done, Inline
from rlvr.envs.vector.processes import Processes
from rlvr.envs.vector.threads import Threads

Array = np.ndarray[Any, Any]
Steps = tuple[Any, Array, Array, Array, dict[str, Any]]
# What make_vec keeps of a vector environment in its spec, and what is no setting of a single one.
NOT_SINGLE = ("num_envs", "vectorization_mode", "vector_kwargs", "backend", "autoreset_mode", "workers", "timeout")


class Ready(NamedTuple):
    """What ``recv`` returns: everything by index, for the k environments named in ``ids``.

    Attributes:
        ids: [k], in the order in which they were ready.
        observations: as ``step`` gives them, of k environments.
        rewards: [k]; 0.0 after a reset.
        terminations: [k].
        truncations: [k]; also of whatever failed, a reset too.
        infos: ``infos[key][j]`` is of environment ``ids[j]``.
    """

    ids: Array
    observations: Any
    rewards: Array
    terminations: Array
    truncations: Array
    infos: dict[str, Any]


class VectorEnv(gym.vector.VectorEnv[Any, Any, Array]):
    """Many environments as one ``gymnasium.vector.VectorEnv``, which are also free not to wait for each other.

    ``reset`` and ``step`` are Gymnasium's. ``send`` and ``recv`` step whichever environments are ready. What an
    environment does depends on its seed and actions alone, never on the back end, on time or on its neighbours.

    An environment that raises ends its episode with ``info["verdict"]`` of status ``env_error``: reward 0.0, truncated,
    ``success`` False, not valid, so that it can be kept out of training. One that takes more than ``timeout`` seconds
    for a step or a reset ends the same way, with status ``timeout``. Where the action alone made a step late, or killed
    its worker process, the end is the policy's: ``wrong``, terminated. Another environment takes its place, seeded from
    the last seed given; all the others go on undisturbed. The observation of a failure is its reason where observations
    are our ``Text`` (beside a black image, where there are images), else zeros.

    Every method may be called from any thread.

    Args:
        env: an id, a function that makes an environment, or a sequence of such functions.
        num_envs: how many; not needed for a sequence.
        backend: ``sync`` steps in turn, for environments that only compute. ``thread`` is for environments that wait;
            one that is stuck keeps its thread, which cannot be killed and is never used again. ``process`` is for
            environments that compute much or crash hard; a stuck one is killed. ``asyncio`` awaits environments whose
            ``step`` is a coroutine or that have a ``step_async``, and steps others in threads. Or a function of the
            slots, the workers and the timeout that makes a back end of its own, such as Ray's ``actors()``.
        autoreset_mode: ``NextStep``, ``SameStep`` or ``Disabled``; see https://farama.org/Vector-Autoreset-Mode.
        workers: how many threads (default: one for each environment, at most 256) or processes (default: one for each
            environment, at most 32, or one for each processor if there are more). Environments of one process are
            stepped in turn.
        timeout: seconds for a step or a reset; None for no limit. By default 120, and no limit for ``sync``. Making an
            environment, at first and after a timeout, may take as long, and at least a minute.
        env_settings: given to ``gym.make`` when ``env`` is an id.

    Raises:
        ValueError: a setting that is not allowed; later, a wrong number of actions, seeds or ids.
        TypeError: actions, seeds or ids of the wrong type.
        gymnasium.error.ResetNeeded: a step before ``reset``, or after the end of an episode with ``Disabled``.
        gymnasium.error.ClosedEnvironmentError: a call after ``close``.
        gymnasium.error.Error: no environment at all could be reset.
    """

    def __init__(
        self,
        env: str | Make | Sequence[Make],
        num_envs: int | None = None,
        *,
        backend: str | BackendMaker = "sync",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        workers: int | None = None,
        timeout: Timeout = "default",
        env_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._arguments = (env, num_envs, backend, autoreset_mode, workers, timeout, env_settings)
        makers = makers_of(env, num_envs, env_settings)
        self.num_envs = len(makers)
        self.backend = backend
        self.autoreset_mode = checked_mode(autoreset_mode)
        self.timeout = seconds_or_default(backend, timeout)
        self.workers = checked_workers(backend, workers, self.timeout, self.num_envs)
        self._first = makers[0]()
        self._makers = sharing(self._first, makers)
        self.metadata = {**self._first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = self._first.render_mode
        self.single_observation_space = self._first.observation_space
        self.single_action_space = self._first.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._texts = isinstance(self.single_action_space, Text)
        self._all_indices = list(range(self.num_envs))
        self._lock = threading.RLock()  # guards all that follows
        self._arrived = threading.Condition(self._lock)
        self._collecting = False  # whether a thread waits for the back end; others wait for that thread
        self._backend: Backend | None = None
        self._in_flight: set[int] = set()  # sent, and not received
        self._ready: dict[int, Outcome] = {}  # done, in that order, and not received
        self._rounds: dict[int, Outcome | None] = {}  # the same for those that reset, step or call wait for
        self._begun: set[int] = set()
        self._dones = np.zeros(self.num_envs, dtype=np.bool_)
        self._last: list[Any] = [None] * self.num_envs

    # Gymnasium's way: everybody at once

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        group_size: int | None = None,
        ids: Sequence[int] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, at the same time where the back end can.

        Args:
            seed: environment i gets ``seed + i``; or one for each environment (each group, with ``group_size``).
            options: given to every environment; or one dict for each. ``options["reset_mask"]``, a boolean array
                [num_envs], resets only some and returns the others' last observations; ``options["group_size"]`` does
                what the argument does.
            group_size: environments 0 to G-1 get one seed and with it one task, the next G another, and so on. Group q
                gets ``seed + q``; without a seed, one that is drawn. Their next episodes are equal tasks again.
            ids: reset only these, and return only theirs, in this order.
        """
        indices, commands, masked = self._resets(seed, options, group_size, ids)
        outcomes = self._round(indices, commands)
        if len(indices) == self.num_envs and all(outcome[3] for outcome in outcomes):
            reason = outcomes[0][4]["verdict"].reason
            raise gym.error.Error(f"none of {len(outcomes)} environments could be reset: {reason}")
        infos: list[dict[str, Any] | None] = [outcome[4] for outcome in outcomes]
        if masked:
            info_of = dict(zip(indices, infos, strict=True))
            infos, observed = [info_of.get(index) for index in self._all_indices], self._last
        else:
            observed = [outcome[0] for outcome in outcomes]
        return self._observations(observed), Infos(infos)

    def step(self, actions: Any, ids: Sequence[int] | None = None) -> Steps:
        """Step every environment, or those in ``ids``, and wait for all of them.

        Returns:
            Observations, rewards, terminations, truncations, infos, in the order of ``ids``. Where an episode ended in
            the ``SameStep`` mode, ``infos["final_obs"]`` and ``infos["final_info"]`` are its last, and the rest is the
            next episode's. In the ``NextStep`` mode the step after the end begins the next episode, and its action is
            not used.
        """
        if ids is None and isinstance(self._backend, Inline):
            with self._lock:
                if not self._in_flight and not self._rounds and len(self._begun) == self.num_envs:
                    return self._step_in_turn(self._backend, actions)
        indices = self._indices(ids)
        outcomes = self._round(indices, self._steps(indices, actions))
        return self._observations([outcome[0] for outcome in outcomes]), *_columns(outcomes)

    def _step_in_turn(self, backend: Inline, actions: Any) -> Steps:
        self._check_open()
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._check_under_way(self._all_indices)
        checked = self._checked_actions(actions, self.num_envs)
        observed, rewards, terminations, truncations, infos = backend.step_all(checked)
        self._dones = terminations | truncations
        self._last = list(observed)
        return self._observations(observed), rewards, terminations, truncations, Infos(infos)

    def render(self) -> tuple[Any, ...]:
        """What each environment renders."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of every environment, or read an attribute.

        Raises:
            Exception: whatever the first of them raised.
        """
        return tuple(self._ask(("call", (name, args, kwargs))))

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of every environment: to the same value, or from a list or tuple of one for each."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        self._check_count("value", len(values), self.num_envs)
        self._ask(*(("set", (name, value)) for value in values))

    def _ask(self, *commands: Command) -> list[Any]:
        outcomes = self._round(
            self._all_indices, list(commands) if len(commands) > 1 else list(commands) * self.num_envs
        )
        for outcome in outcomes:
            if "error" in outcome[4]:
                raise outcome[4]["error"]
        return [outcome[4].get("value") for outcome in outcomes]

    # whichever is ready

    def send(self, actions: Any, ids: Sequence[int] | None = None) -> None:
        """Begin a step of these environments (default: all), and return at once.

        Raises:
            ValueError: one of them is under way already.
        """
        indices = self._indices(ids)
        self._submit(indices, self._steps(indices, actions))

    def send_reset(
        self,
        ids: Sequence[int] | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        group_size: int | None = None,
    ) -> None:
        """Begin a reset of these environments, and return at once. Arguments as in ``reset``."""
        indices, commands, _ = self._resets(seed, options, group_size, ids)
        self._submit(indices, commands)

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> Ready:
        """Wait until so many environments are ready, and take all that are.

        Args:
            min_ready: from 1 to the number that were sent and not received.
            timeout: seconds to wait at most; then there may be fewer, or none.

        Raises:
            ValueError: so many are not under way.
        """
        with self._lock:
            self._check_open()
            if not 1 <= min_ready <= len(self._in_flight):
                raise ValueError(f"min_ready is {min_ready!r}, and {len(self._in_flight)} environments are under way")
        # Fewer are enough once another thread has received the others.
        self._wait(lambda: len(self._ready) >= min(min_ready, len(self._in_flight)), timeout)
        with self._lock:
            ready, self._ready = self._ready, {}
            self._in_flight.difference_update(ready)
        outcomes = list(ready.values())
        observations = self._observations([outcome[0] for outcome in outcomes])
        return Ready(np.array(list(ready), dtype=np.int64), observations, *_columns(outcomes))

    @property
    def in_flight(self) -> int:
        """How many environments were sent something that was not received."""
        return len(self._in_flight)

    def _round(self, indices: list[int], commands: list[Command]) -> list[Outcome]:
        """Have each carry out its command, and wait for all of them."""
        with self._lock:
            if not (self._in_flight or self._rounds or self._collecting) and isinstance(self._started(), Inline):
                return self._round_in_turn(indices, commands)
            self._submit(indices, commands)
            self._in_flight.difference_update(indices)
            self._rounds.update(dict.fromkeys(indices))
        waiting = list(indices)  # what is done never comes undone: each is looked at once
        try:
            self._wait(lambda: self._all_done(waiting), None, many=True)
        except BaseException:  # such as Ctrl-C: they are still there to be received
            with self._lock:
                self._in_flight.update(indices)
                self._ready.update({index: done for index in indices if (done := self._rounds.pop(index)) is not None})
            raise
        with self._lock:
            return [outcome for index in indices if (outcome := self._rounds.pop(index)) is not None]

    def _round_in_turn(self, indices: list[int], commands: list[Command]) -> list[Outcome]:
        """The same, where nothing is under way and the back end is this thread."""
        backend = self._backend
        assert isinstance(backend, Inline)
        try:
            outcomes = backend.run_all(indices, commands)
        except BaseException:  # such as Ctrl-C: they are still there to be received
            self._in_flight.update(indices)
            raise
        self._note(zip(indices, outcomes, strict=True))
        return outcomes

    def _all_done(self, waiting: list[int]) -> bool:
        while waiting and self._rounds[waiting[-1]] is not None:
            waiting.pop()
        return not waiting

    def _submit(self, indices: list[int], commands: list[Command]) -> None:
        with self._lock:
            backend = self._started()
            if busy := (self._in_flight | self._rounds.keys()).intersection(indices):
                raise ValueError(f"environments {sorted(busy)} are under way: receive them first")
            backend.submit(list(zip(indices, commands, strict=True)))
            self._in_flight.update(indices)

    def _wait(self, enough: Callable[[], bool], timeout: float | None, many: bool = False) -> None:
        """Take in what is done until it is enough, or the time is up."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            with self._arrived:
                backend = self._started()
                left = None if timeout is None else max(0.0, until - time.monotonic())
                if enough():
                    return
                if self._collecting:
                    if not self._arrived.wait(left):
                        return
                    continue
                self._collecting = True
            done: list[Done] = []
            try:
                done = backend.collect_many() if many and isinstance(backend, Inline) else backend.collect(left)
            finally:
                with self._arrived:
                    self._collecting = False
                    self._take(done)
                    self._arrived.notify_all()
            if not done and left == 0.0:
                return
            if not done and left is None and not self.closed:
                raise gym.error.Error("environments are under way that the back end knows nothing of: close this one")

    def _take(self, done: list[Done]) -> None:
        for index, outcome in done:
            (self._rounds if index in self._rounds else self._ready)[index] = outcome
        self._note(done)

    def _note(self, done: Iterable[Done]) -> None:
        """Keep what each showed last, and whether its episode is over."""
        dones, last = self._dones, self._last
        for index, outcome in done:
            if type(outcome[4]) is not CallResult:
                dones[index] = outcome[2] or outcome[3]
                last[index] = outcome[0]

    # beginning and ending

    def close_extras(self, **kwargs: Any) -> None:
        """End every environment, thread and process; a thread that is stuck in an environment is left in it."""
        with self._arrived:
            backend, self._backend = self._backend, None
            self.closed = True
            self._arrived.notify_all()
        if backend is not None:
            backend.close()
        self._first.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the settings: what comes out of it is a new one, not reset yet."""
        return _rebuilt, (CloudpickleWrapper(self._arguments), self.spec)  # type: ignore[arg-type]

    def _started(self) -> Backend:
        with self._lock:
            self._check_open()
            if self._backend is None:
                first = self._first.unwrapped
                if first.spec is None and self.spec is not None:  # make_vec names us after it has built us
                    first.spec = copy.deepcopy(self.spec)
                    first.spec.kwargs = {k: v for k, v in first.spec.kwargs.items() if k not in NOT_SINGLE}
                mode, space = self.autoreset_mode, self.single_observation_space
                slots = [EnvSlot(make, mode, space) for make in self._makers]
                if self.backend in ("sync", "thread", "asyncio"):  # the others have them elsewhere
                    slots[0].env = self._first
                match self.backend:
                    case "sync":
                        self._backend = Inline(slots)
                    case "thread":
                        self._backend = Threads(slots, self.workers, self.timeout)
                    case "asyncio":
                        self._backend = Coroutines(slots, self.workers, self.timeout)
                    case "process":
                        self._backend = Processes(slots, self.workers, self.timeout)
                    case str():
                        raise ValueError(f"no back end {self.backend!r}")
                    case make:
                        self._backend = make(slots, self.workers, self.timeout)
                weakref.finalize(self, _close, self._backend, os.getpid())
            return self._backend

    # what is asked, checked

    def _indices(self, ids: Sequence[int] | None) -> list[int]:
        if ids is None:
            return self._all_indices
        indices = [operator.index(index) for index in ids]
        wrong = [index for index in indices if not 0 <= index < self.num_envs]
        if wrong or not indices or len(set(indices)) < len(indices):
            raise ValueError(f"ids are different numbers from 0 to {self.num_envs - 1}, at least one; got {indices}")
        return indices

    def _steps(self, indices: list[int], actions: Any) -> list[Command]:
        self._check_open()
        if self.autoreset_mode is AutoresetMode.DISABLED or not self._begun.issuperset(indices):
            self._check_under_way(indices)
        return [("step", action) for action in self._checked_actions(actions, len(indices))]

    def _checked_actions(self, actions: Any, count: int) -> Sequence[Any]:
        if self._texts:
            if isinstance(actions, str) or not isinstance(actions, Sequence | np.ndarray):
                raise TypeError(f"actions are a sequence of texts, got {type(actions).__name__}")
            if not set(map(type, actions)) <= {str} and not all(isinstance(action, str) for action in actions):
                raise TypeError("actions are the assistant's texts: each must be a str")
            self._check_count("action", len(actions), count)
            return actions  # type: ignore[return-value]
        space = self.action_space if count == self.num_envs else batch_space(self.single_action_space, count)
        checked = list(iterate(space, actions))
        self._check_count("action", len(checked), count)
        return checked

    def _resets(
        self, seed: Any, options: Any, group_size: int | None, ids: Sequence[int] | None
    ) -> tuple[list[int], list[Command], bool]:
        """Which environments are reset, with what, and whether a mask names them."""
        indices, masked = self._indices(ids), False
        if isinstance(options, Mapping):
            options = dict(options)
            group_size = options.pop("group_size", group_size)
            if "reset_mask" in options:
                if ids is not None:
                    raise ValueError("name the environments by reset_mask or by ids, not both")
                indices, masked = np.flatnonzero(checked_mask(options.pop("reset_mask"), self.num_envs)).tolist(), True
        every: list[Any] = (
            [options or None] * len(indices) if options is None or isinstance(options, dict) else list(options)
        )
        self._check_count("dict of options", len(every), len(indices))
        seeds = self._seeds(seed, indices, group_size, masked)
        self._begun.update(indices)
        return indices, [("reset", pair) for pair in zip(seeds, every, strict=True)], masked

    def _seeds(self, seed: Any, indices: list[int], group_size: int | None, masked: bool) -> list[int | None]:
        size = 1 if group_size is None else operator.index(group_size)
        if size < 1 or len(indices) % size:
            raise ValueError(f"{len(indices)} environments cannot be divided into groups of {group_size!r}")
        groups = len(indices) // size
        seeds: list[int | None] = [None] * groups
        if seed is None:
            if group_size is not None:
                seeds = self.np_random.integers(2**31, size=groups).tolist()
        elif isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
            seeds = [None if value is None else operator.index(value) for value in seed]
            if masked and size == 1 and len(seeds) == self.num_envs:  # Gymnasium's: one for each, reset or not
                seeds = [seeds[index] for index in indices]
            if size > 1 and len(seeds) == len(indices):
                return seeds
            self._check_count("seed", len(seeds), groups)
        else:
            first = operator.index(seed)
            super().reset(seed=first)
            seeds = [first + index for index in (indices if size == 1 else range(groups))]
        return [value for value in seeds for _ in range(size)]

    def _check_under_way(self, indices: list[int]) -> None:
        if strangers := [index for index in indices if index not in self._begun]:
            raise gym.error.ResetNeeded(f"environments {strangers} were never reset: call reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._dones[indices].any():
            ended = [index for index in indices if self._dones[index]]
            raise gym.error.ResetNeeded(f"the episodes of {ended} are over, and with Disabled only reset() goes on")

    def _check_open(self) -> None:
        if self.closed:
            raise gym.error.ClosedEnvironmentError("the vector environment is closed")

    @staticmethod
    def _check_count(what: str, count: int, needed: int) -> None:
        if count != needed:
            raise ValueError(f"{needed} environments need one {what} each, got {count}")

    def _observations(self, observed: Sequence[Any]) -> Any:
        if isinstance(self.single_observation_space, Text):
            return tuple(observed)
        empty: Any = create_empty_array(self.single_observation_space, len(observed), np.zeros)
        return concatenate(self.single_observation_space, observed, empty)


def make_vector(
    num_envs: int = 1,
    *,
    backend: str = "sync",
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    workers: int | None = None,
    timeout: Timeout = "default",
    **settings: Any,
) -> VectorEnv:
    """What ``gymnasium.make_vec`` calls for a registered id; ``settings`` are those of ``TextEnv``."""
    return VectorEnv(
        partial(TextEnv, **settings),
        num_envs,
        backend=backend,
        autoreset_mode=autoreset_mode,
        workers=workers,
        timeout=timeout,
    )


def _close(backend: Backend, owner: int) -> None:
    """Close what was forgotten; not in a fork of the user's process, whose workers are the other's."""
    if os.getpid() == owner:
        backend.close()


def _rebuilt(arguments: Any, spec: Any) -> VectorEnv:
    env, num_envs, backend, autoreset_mode, workers, timeout, env_settings = arguments.fn
    vector = VectorEnv(
        env,
        num_envs,
        backend=backend,
        autoreset_mode=autoreset_mode,
        workers=workers,
        timeout=timeout,
        env_settings=env_settings,
    )
    vector.spec = spec
    return vector


def _columns(outcomes: list[Outcome]) -> tuple[Array, Array, Array, dict[str, Any]]:
    rewards = np.array([outcome[1] for outcome in outcomes], dtype=np.float64)
    terminations = np.array([outcome[2] for outcome in outcomes], dtype=np.bool_)
    truncations = np.array([outcome[3] for outcome in outcomes], dtype=np.bool_)
    return rewards, terminations, truncations, Infos([outcome[4] for outcome in outcomes])
