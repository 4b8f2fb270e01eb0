"""Sessions: one environment for each client that asks, and the order of what is asked of it. No network in here.

An environment is stepped by the back ends of `rlvr.envs.vector`, in threads or processes, so that one that is stuck
keeps its own thread or process busy and nobody else. All methods of `Sessions` belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlvr.adapters.wire import EXPERT_CALLS, MAX_FRAME, Refusal, Request, pack, unpack
from rlvr.envs.core.images import image_of, text_of
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector.arguments import checked_workers, makers_of, sharing
from rlvr.envs.vector.env_slot import CallResult, EnvSlot
from rlvr.envs.vector.inline import Backend, Done
from rlvr.envs.vector.processes import Processes
from rlvr.envs.vector.threads import Threads

MAX_STATES = 64  # snapshots of one session
Result = dict[str, Any]
log = logging.getLogger("rlvr.serve")


class Slot(gym.Env[Any, Any]):
    """Where one session's environment lives: made when the session first asks, closed when it ends.

    What it answers is ready for the wire. Snapshots stay here, under a name: a snapshot holds the task's solution, and
    one that came from a client could hold anything.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]]) -> None:
        self.observation_space = self.action_space = Text()
        self._make = make
        self._env: gym.Env[Any, Any] | None = None
        self._begun = False
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
        except Refusal as refusal:
            return refusal.to_dict()
        except gym.error.ResetNeeded as error:
            return Refusal("reset_needed", str(error)).to_dict()
        except Exception as error:
            return Refusal("env_error", f"{op}: {_said(error)}").to_dict()

    def _reset(self, seed: int | None, options: dict[str, Any] | None) -> Result:
        if self._env is None:
            self._env = self._make()
        try:
            observation, info = self._env.reset(seed=seed, options=None if options is None else unpack(options))
        except (ValueError, TypeError, gym.error.Error) as error:  # of the arguments: a task is free of errors
            raise Refusal("invalid", str(error)) from error
        self._begun = True
        return {"observation": _sent(observation), "info": pack(info)}

    def _step(self, action: str) -> Result:
        observation, reward, terminated, truncated, info = self._playing().step(action)
        return {
            "observation": _sent(observation),
            "reward": pack(reward),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": pack(info),
        }

    def _call(self, name: str, state: str) -> Any:
        env = self._playing()
        try:
            method = env.get_wrapper_attr(name)
        except AttributeError:
            raise Refusal("invalid", f"the environment has no {name}") from None
        if name == "get_state":
            if len(self._states) >= MAX_STATES:
                raise Refusal("invalid", f"a session keeps {MAX_STATES} states at most: close it and open another")
            self._states[handle := secrets.token_hex(8)] = method()
            return handle
        if name == "set_state":
            if state not in self._states:
                raise Refusal("invalid", "no get_state of this session gave this state")
            method(self._states[state])
            return None
        try:
            return pack(method())
        except NotImplementedError as error:
            raise Refusal("invalid", f"{name}: {error}") from error

    def _leave(self) -> Result:
        env, self._env, self._begun = self._env, None, False
        self._states.clear()
        if env is not None:
            env.close()
        return {}

    def _playing(self) -> gym.Env[Any, Any]:
        if self._env is None or not self._begun:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        return self._env

    def close(self) -> None:
        self._leave()


@dataclass(slots=True, eq=False)
class _Session:
    """What is known of a session.

    Attributes:
        place: where its environment is.
        owner: the connection that used it last and is still there; None for HTTP.
        used: when it was named last, or when its owner went away.
        request, answer: the id of the last request that named it, and what became of that. A request that is sent
            again, because the connection broke, gets the same answer, and is not carried out twice.
    """

    place: int
    owner: Hashable | None
    used: float
    request: str = ""
    answer: asyncio.Future[Result] | None = None


class Sessions:
    """Environments of one kind, a session each.

    Args:
        env_id: what is served; its observations and actions must be text, or text beside an image.
        settings: given to ``gym.make``.
        limit: sessions at once.
        ttl: seconds after which a session ends that nobody named and whose connection is gone.
        timeout: seconds that a step or a reset may take; None for no limit.
        backend: ``thread``, or ``process`` for environments that compute much, or crash hard.
        workers: as in ``rlvr.envs.vector.VectorEnv``: by default a thread for each session (at most 256), or a process
            for each processor.
        expert: whether clients may ask for the expert's action and for snapshots.
        clock: what tells the seconds for ``ttl``.

    Raises:
        ValueError: a setting that is not allowed, or an environment that does not speak text.
    """

    def __init__(
        self,
        env_id: str,
        settings: dict[str, Any] | None = None,
        *,
        limit: int = 256,
        ttl: float = 600.0,
        timeout: float | None = 60.0,
        backend: str = "thread",
        workers: int | None = None,
        expert: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if limit < 1 or not ttl > 0:
            raise ValueError(f"limit must be 1 or more, and ttl above 0; got {limit} and {ttl}")
        if backend not in ("thread", "process"):
            raise ValueError(f"backend must be thread or process; got {backend!r}")
        self.env_id, self.limit, self.ttl, self.timeout, self.expert = env_id, limit, ttl, timeout, expert
        makers = makers_of(env_id, limit, settings)
        self.first = makers[0]()
        for space in (self.first.observation_space, self.first.action_space):
            if not _speaks(space):
                self.first.close()
                raise ValueError(f"{env_id} does not speak text, and cannot be served: it has {space}")
        seats = [EnvSlot(partial(Slot, make), AutoresetMode.DISABLED, Text()) for make in sharing(self.first, makers)]
        workers = checked_workers(backend, workers, timeout, limit)
        self._backend: Backend = (Threads if backend == "thread" else Processes)(seats, workers, timeout)
        self._clock = clock
        self._free = deque(range(limit))
        self._sessions: dict[str, _Session] = {}
        self._under_way: dict[int, asyncio.Future[Result]] = {}  # by place
        self._leaving: set[int] = set()  # places whose session has ended in the middle of something
        self._submitted = threading.Event()
        self._done: deque[Done] = deque()
        self._scheduled = False
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self) -> None:
        """Begin to collect answers; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._collect, name="rlvr-serve-collect", daemon=True).start()

    def shutdown(self) -> None:
        """End every session, thread and process."""
        self._closed = True
        self._submitted.set()
        for answer in self._under_way.values():
            if not answer.done():
                answer.set_result(Refusal("closing", "the server is being shut down").to_dict())
        self._sessions.clear()
        self._backend.close()
        self.first.close()

    # what clients ask

    def open(self, count: int, owner: Hashable | None) -> list[str]:
        """New sessions.

        Raises:
            Refusal: there are not so many left.
        """
        if count > len(self._free):
            raise Refusal(
                "full", f"{count} sessions were asked for, and {len(self._free)} of {self.limit} are free: try later"
            )
        keys = [secrets.token_hex(16) for _ in range(count)]
        now = self._clock()
        for key in keys:
            self._sessions[key] = _Session(self._free.popleft(), owner, now)
        return keys

    async def play(self, request: Request, owner: Hashable | None) -> list[Result]:
        """What becomes of each item, in their order."""
        answers: list[Result | asyncio.Future[Result]] = []
        jobs: list[tuple[int, dict[str, Any]]] = []
        for item in request.items:
            try:
                answers.append(self._begin(request, item, owner, jobs))
            except Refusal as refusal:
                answers.append(refusal.to_dict())
        if jobs:
            self._submit(request.op, jobs)
        waiting = [answer for answer in answers if isinstance(answer, asyncio.Future) and not answer.done()]
        if waiting:
            await asyncio.wait(waiting)  # unlike gather, leaves them alone when the connection goes away
        return [answer.result() if isinstance(answer, asyncio.Future) else answer for answer in answers]

    def disconnected(self, owner: Hashable) -> None:
        """The connection is gone; its sessions live on for ``ttl`` seconds."""
        now = self._clock()
        for session in self._sessions.values():
            if session.owner == owner:
                session.owner, session.used = None, now

    def sweep(self) -> int:
        """End the sessions whose time is up; how many there were."""
        now = self._clock()
        over = [
            key
            for key, session in self._sessions.items()
            if session.owner is None and now - session.used > self.ttl and session.place not in self._under_way
        ]
        for key in over:
            self._end(key)
        return len(over)

    def _begin(
        self, request: Request, item: dict[str, Any], owner: Hashable | None, jobs: list[tuple[int, dict[str, Any]]]
    ) -> Result | asyncio.Future[Result]:
        key = item["session"]
        session = self._sessions.get(key)
        if session is None:
            raise Refusal("unknown_session", f"there is no such session: it was closed, or unused for {self.ttl:g} s")
        session.used, session.owner = self._clock(), owner
        if request.op == "ping":
            return {}
        if request.op == "close":
            self._end(key)
            return {}
        if session.request == request.id and session.answer is not None:
            return session.answer
        if session.place in self._under_way:
            raise Refusal("busy", f"the session is still at request {session.request}: wait for its answer")
        if request.op == "call" and item["name"] in EXPERT_CALLS and not self.expert:
            raise Refusal("forbidden", f"{item['name']} is not served here: it takes `rlvr serve --expert`")
        session.request, session.answer = request.id, self._future(session.place)
        jobs.append((session.place, item))
        return session.answer

    def _future(self, place: int) -> asyncio.Future[Result]:
        assert self._loop is not None, "start() comes first"
        self._under_way[place] = future = self._loop.create_future()
        return future

    def _submit(self, op: str, jobs: Sequence[tuple[int, dict[str, Any]]]) -> None:
        if self._closed:
            for place, _ in jobs:
                self._under_way.pop(place).set_result(Refusal("closing", "the server is being shut down").to_dict())
            return
        self._backend.submit([(place, ("call", ("play", (op, item), {}))) for place, item in jobs])
        self._submitted.set()

    def _end(self, key: str) -> None:
        place = self._sessions.pop(key).place
        if place in self._under_way:
            self._leaving.add(place)  # its environment is closed when it is done with what it is at
        else:
            self._leave(place)

    def _leave(self, place: int) -> None:
        self._future(place).add_done_callback(lambda _: self._free.append(place))
        self._submit("close", [(place, {})])

    # what environments answer

    def _collect(self) -> None:
        while not self._closed:
            self._submitted.wait()
            self._submitted.clear()
            while not self._closed and (done := self._backend.collect(None)):
                self._done.extend(done)
                if not self._scheduled and self._loop is not None:
                    self._scheduled = True
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False  # first: what arrives from here on may be missed by this call
        while self._done:
            place, outcome = self._done.popleft()
            answer = self._under_way.pop(place, None)
            if answer is not None and not answer.done():
                answer.set_result(_result(outcome[4]))
            if place in self._leaving:
                self._leaving.discard(place)
                self._leave(place)


def _result(said: dict[str, Any]) -> Result:
    """The answer of a slot, or what kept it from answering."""
    if "error" not in said and isinstance(said, CallResult):
        return said["value"]  # type: ignore[no-any-return]
    error = said.get("error")
    if isinstance(error, TimeoutError):
        reason = f"{error}; the environment was given up, and reset() begins another"
        return Refusal("timeout", reason).to_dict()
    log.error("an environment failed: %s", _said(error))
    return Refusal("env_error", _said(error)).to_dict()


def _said(error: Any) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which cannot be shown"


def _sent(observation: Any) -> Any:
    """An observation as it crosses: a text, or a text and an image."""
    text = text_of(observation)
    if not isinstance(text, str):
        raise TypeError(f"an observation is text, got {type(text).__name__}")
    if len(text) > MAX_FRAME // 6:  # what one character takes at most
        raise ValueError(f"an observation of {len(text)} characters is too long for the wire")
    text = str.__str__(text)
    image = image_of(observation)
    return text if image is None else {"text": text, "image": pack(image)}


def _speaks(space: gym.Space[Any]) -> bool:
    """Whether it is a space of texts, or of texts beside images."""
    if isinstance(space, gym.spaces.Dict):
        image = space.spaces.get("image")
        shape = image.shape if isinstance(image, gym.spaces.Box) and image.dtype == np.uint8 else None
        known = shape is not None and len(shape) == 3 and shape[2] == 3 and set(space.spaces) == {"text", "image"}
        return known and _speaks(space["text"])
    return isinstance(space, Text | gym.spaces.Text)
