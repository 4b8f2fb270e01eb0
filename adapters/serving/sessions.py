"""Sessions: one environment for each, and the order of its requests. No network in here.

An environment is stepped by the back ends of `rlvr.envs.vector`, in threads or processes, so that one that is stuck
keeps its own thread or process busy and nobody else. All methods of `SessionTable` belong to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlvr.adapters.fleet.metrics import SessionMetrics
from rlvr.adapters.serving.guard import limited_log, without_paths
from rlvr.adapters.serving.server_messages import MAX_SECONDS, Range
from rlvr.adapters.serving.session_env import MAX_STATES, Result, SessionEnv, SessionHistory, described
from rlvr.adapters.serving.wire import EXPERT_CALLS, MAX_IMAGE_PIXELS, MAX_REWARD, ProtocolError, WireRequest, pack
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.verdict import Provoked, wrong
from rlvr.envs.tasks.digests import env_digest
from rlvr.envs.vector.arguments import checked_workers, makers_of, sharing
from rlvr.envs.vector.env_slot import CallResult, EnvSlot
from rlvr.envs.vector.inline import Backend, Done
from rlvr.envs.vector.processes import Processes
from rlvr.envs.vector.threads import Threads

REMEMBERED = 1024  # requests of a session, of a client that does not number them
GONE_SECONDS = 5.0  # after which a vanished client's sessions are given to another client
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,23}")  # of a server
YIELD_SECONDS = 15.0  # that `open` waits at most for them
log = limited_log("rlvr.serve")
Answer = asyncio.Future[Result]  # to an item of a request


@dataclass(slots=True, eq=False)
class _Session:
    """What is known of a session.

    Attributes:
        index: where its environment is.
        owners: the connections that named it and are still there; none for HTTP.
        used: when it was named last, or when its last owner went away.
        vanished: whether the last of its owners went away without closing it.
        opened: the client and the id of the request that opened it.
        request, answer: the id of the last request that named it, and its answer. A request that is sent
            again, because the connection broke, gets the same answer. The next request acknowledges the answer: from
            then on the earlier one is refused, however late it comes, and is not carried out twice.
        number: of the last request that bore one.
        earlier: ids of the last requests that bore none.
        born: when it was opened.
        op: the last request's.
        steps: how many it was asked for.
        playing: whether an episode of it is under way.
    """

    index: int
    owners: set[Hashable]
    used: float
    vanished: bool = False
    opened: tuple[str, str] = ("", "")
    request: str = ""
    answer: Answer | None = None
    number: int = -1
    earlier: dict[int, None] = field(default_factory=dict)
    born: float = 0.0
    op: str = ""
    steps: int = 0
    playing: bool = False

    def is_again(self, request: WireRequest) -> bool:
        """Whether this is the last request once more.

        Raises:
            ProtocolError: it is an earlier one.
        """
        if self.answer is not None and (self.request == request.id or self._is_part(request)):
            return True
        late = hash(request.id) in self.earlier if request.number is None else request.number <= self.number
        if late:
            reason = f"request {request.id} was answered, and the session went on: it is not carried out again"
            raise ProtocolError("stale", reason)
        return False

    def _is_part(self, request: WireRequest) -> bool:
        """Whether it repeats a part of the last request, whose whole answer was too large."""
        same = request.number is not None and request.number == self.number
        return same and self.request.partition("#")[0] == request.id.partition("#")[0]

    def begin(self, request: WireRequest, answer: Answer) -> None:
        """Go on to the next request."""
        self.request, self.answer, self.op = request.id, answer, request.op
        self.steps += request.op == "step"
        if request.number is not None:
            self.number = request.number
            return
        self.earlier[hash(request.id)] = None
        if len(self.earlier) > REMEMBERED:
            del self.earlier[next(iter(self.earlier))]


class SessionTable:
    """Environments of one kind, a session each.

    Args:
        env_id: what is served; its observations and actions must be text, or text beside an image.
        settings: given to ``gym.make``.
        limit: sessions at once.
        ttl: seconds after which a session ends that nobody named and whose connection is gone. Where another client
            asks for more sessions than are free, those whose connection broke end after some seconds already.
        timeout: seconds that a step or a reset may take; None for no limit.
        backend: ``thread``, or ``process`` for environments that compute much, or crash hard.
        workers: as in ``rlvr.envs.vector.VectorEnv``: by default a thread for each session (at most 256), or a process
            for each processor.
        expert: whether clients may ask for the expert's action and for snapshots.
        reward_range: the least and the greatest reward; by default what the environment declares as ``reward_range``,
            within 10^6 on both sides of 0. A reward outside of it is a fault of the environment.
        clock: what tells the seconds for ``ttl``.
        name: of the server, 1 to 24 letters, digits, dots and hyphens. Its sessions' names begin with it; "" for none.
        session_steps, session_seconds: how many steps a session may ask for, and how long it may live, however often
            it is used; None for no limit.

    Attributes:
        draining: whether no session and no episode begins any more; those under way go on.
        metrics: the counts of its sessions.

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
        reward_range: Range | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: str = "",
        session_steps: int | None = None,
        session_seconds: float | None = None,
    ) -> None:
        if limit < 1 or not 0 < ttl <= MAX_SECONDS:
            raise ValueError(f"limit must be 1 or more, ttl above 0 and at most {MAX_SECONDS:g}; got {limit}, {ttl}")
        if timeout is not None and timeout > MAX_SECONDS:
            raise ValueError(f"timeout must be at most {MAX_SECONDS:g} seconds, or none; got {timeout}")
        if backend not in ("thread", "process"):
            raise ValueError(f"backend must be thread or process; got {backend!r}")
        if name and not NAME.fullmatch(name):
            raise ValueError(f"a server's name is 1 to 24 letters, digits, dots and hyphens; got {name!r:.60}")
        if any(quota is not None and not quota > 0 for quota in (session_steps, session_seconds)):
            raise ValueError(
                f"session_steps and session_seconds must be above 0; got {session_steps}, {session_seconds}"
            )
        self.env_id, self.limit, self.ttl, self.timeout, self.expert = env_id, limit, ttl, timeout, expert
        self.name, self.session_steps, self.session_seconds = name, session_steps, session_seconds
        self.draining, self.metrics = False, SessionMetrics()
        makers = makers_of(env_id, limit, settings)
        self.first = makers[0]()
        for space in (self.first.observation_space, self.first.action_space):
            if not _speaks(space):
                self.first.close()
                raise ValueError(f"{env_id} does not speak text, and cannot be served: it has {space}")
        try:
            self.rewards = _rewards(self.first, reward_range)
            self.env_digest = env_digest(self.first)
        except ValueError:
            self.first.close()
            raise
        slots = [
            EnvSlot(partial(SessionEnv, make, self.rewards), AutoresetMode.DISABLED, Text())
            for make in sharing(self.first, makers)
        ]
        workers = checked_workers(backend, workers, timeout, limit)
        kind = Threads if backend == "thread" else Processes
        self._backend: Backend = kind(slots, workers, timeout, SessionHistory)
        self._clock = clock
        self._free = deque(range(limit))
        self._sessions: dict[str, _Session] = {}
        self._by_index: dict[int, _Session] = {}
        self._under_way: dict[int, Answer] = {}  # by index
        self._leaving: set[int] = set()  # indices whose session has ended in the middle of something
        self._submitted = threading.Event()
        self._done: deque[Done] = deque()
        self._scheduled = False
        self._ending: set[int] = set()  # indices whose environment is being closed
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, key: object) -> bool:
        return key in self._sessions

    @property
    def free(self) -> int:
        """How many sessions may be opened."""
        return 0 if self.draining else len(self._free)

    @property
    def playing(self) -> int:
        """How many episodes are under way whose clients are there."""
        return sum(session.playing and not session.vanished for session in self._sessions.values())

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
                answer.set_result(ProtocolError("closing", "the server is being shut down").to_dict())
        self._sessions.clear()
        self._by_index.clear()
        self._backend.close()
        self.first.close()

    # what clients ask

    async def open(self, request: WireRequest, owner: Hashable | None) -> list[str]:
        """New sessions; the same ones for a client's request that is sent again.

        Sessions of clients that vanished yield to those who ask, once they were gone for some seconds.

        Raises:
            ProtocolError: fewer are free.
        """
        opened = (request.client, request.id) if request.client else ("", "")
        if again := [key for key, session in self._sessions.items() if request.client and session.opened == opened]:
            if len(again) < request.count:
                raise ProtocolError("stale", "this request was answered, and its sessions were closed")
            for key in again:
                self._use(self._sessions[key], owner)
            return again
        self._go_on()
        await self._room(request.count)
        begin = f"{self.name}-" if self.name else ""
        keys = [begin + secrets.token_hex(16) for _ in range(request.count)]
        for key in keys:
            session = _Session(self._free.popleft(), set(), 0.0, opened=opened, born=self._clock())
            self._sessions[key] = self._by_index[session.index] = session
            self._use(session, owner)
        self.metrics.opened += len(keys)
        return keys

    async def _room(self, count: int) -> None:
        """Wait until ``count`` sessions are free; raise where they will not be."""
        until = time.monotonic() + YIELD_SECONDS
        while count > len(self._free):
            gone = sorted(
                (s.used, key) for key, s in self._sessions.items() if s.vanished and s.index not in self._under_way
            )
            if count > len(self._free) + len(self._ending) + len(gone) or time.monotonic() > until:
                free = f"{len(self._free)} of {self.limit} are free"
                raise ProtocolError("full", f"{count} sessions were asked for, and {free}: try later")
            yields = [key for used, key in gone if self._clock() - used >= GONE_SECONDS]
            for key in yields[: max(0, count - len(self._free) - len(self._ending))]:
                self._end(key)
            await asyncio.sleep(0.02)

    def _use(self, session: _Session, owner: Hashable | None) -> None:
        session.used, session.vanished = self._clock(), False
        if owner is not None:
            session.owners.add(owner)

    async def play(self, request: WireRequest, owner: Hashable | None) -> list[Result]:
        """The answers to the items, in their order."""
        answers: list[Result | Answer] = []
        jobs: list[tuple[int, dict[str, Any]]] = []
        for item in request.items:
            try:
                answers.append(self._begin(request, item, owner, jobs))
            except ProtocolError as refusal:
                answers.append(refusal.to_dict())
        if jobs:
            self._submit(request.op, jobs)
        if waiting := [answer for answer in answers if isinstance(answer, asyncio.Future)]:
            await asyncio.wait(waiting)  # leaves them alone when the connection goes away
        return [answer.result() if isinstance(answer, asyncio.Future) else answer for answer in answers]

    def disconnected(self, owner: Hashable) -> None:
        """The connection is gone; its sessions live on for ``ttl`` seconds, unless another client asks for them."""
        now = self._clock()
        for session in self._sessions.values():
            if owner in session.owners:
                session.owners.discard(owner)
                if not session.owners:
                    session.used, session.vanished = now, True

    def sweep(self) -> int:
        """End the sessions whose time is up; how many there were."""
        now = self._clock()
        over = [
            key
            for key, session in self._sessions.items()
            if ((not session.owners and now - session.used > self.ttl) or self._outlived(session, now))
            and session.index not in self._under_way
        ]
        for key in over:
            self._end(key)
        return len(over)

    def _begin(
        self, request: WireRequest, item: dict[str, Any], owner: Hashable | None, jobs: list[tuple[int, dict[str, Any]]]
    ) -> Result | Answer:
        key = item["session"]
        session = self._sessions.get(key)
        if session is None:
            raise self._unknown(key)
        self._use(session, owner)
        if request.op == "ping":
            return {}
        if request.op == "close":
            self._end(key)
            return {}
        if session.is_again(request) and session.answer is not None:
            return session.answer
        if session.index in self._under_way:
            raise ProtocolError("busy", f"the session is still at request {session.request}: wait for its answer")
        if request.op == "call" and item["name"] in EXPERT_CALLS and not self.expert:
            raise ProtocolError("forbidden", f"{item['name']} is not served here: it takes `rlvr serve --expert`")
        if request.op == "reset":
            self._go_on()
        if used_up := self._used_up(session, request.op):
            self._end(key)  # it is of no use, and another needs its place
            raise ProtocolError("quota", f"{used_up} here, and this one is closed: open another")
        answer = self._future(session.index)
        session.begin(request, answer)
        jobs.append((session.index, item))
        return answer

    def _unknown(self, key: str) -> ProtocolError:
        home, dash, _ = key.rpartition("-")
        if dash and home != self.name and NAME.fullmatch(home):
            return ProtocolError("unknown_session", f"the session lives on the server {home}, and this is another")
        return ProtocolError(
            "unknown_session", f"there is no such session: it was closed, or unused for {self.ttl:g} s"
        )

    def _go_on(self) -> None:
        if self.draining:
            raise ProtocolError("draining", "the server is about to end, and begins nothing new: go to another")

    def _used_up(self, session: _Session, op: str) -> str:
        if self._outlived(session, session.used):
            return f"a session lives for {self.session_seconds:g} s"
        if op == "step" and self.session_steps is not None and session.steps >= self.session_steps:
            return f"a session has {self.session_steps} steps"
        return ""

    def _outlived(self, session: _Session, now: float) -> bool:
        return self.session_seconds is not None and now - session.born > self.session_seconds

    def _future(self, index: int) -> Answer:
        assert self._loop is not None, "start() comes first"
        self._under_way[index] = future = self._loop.create_future()
        return future

    def _submit(self, op: str, jobs: Sequence[tuple[int, dict[str, Any]]]) -> None:
        if self._closed:
            for index, _ in jobs:
                self._under_way.pop(index).set_result(
                    ProtocolError("closing", "the server is being shut down").to_dict()
                )
            return
        self._backend.submit([(index, ("call", ("play", (op, item), {}))) for index, item in jobs])
        self._submitted.set()

    def _end(self, key: str) -> None:
        index = self._sessions.pop(key).index
        self._by_index.pop(index, None)
        if index in self._under_way:
            self._leaving.add(index)  # its environment is closed after the command under way
        else:
            self._leave(index)

    def _leave(self, index: int) -> None:
        self._ending.add(index)
        self._future(index).add_done_callback(lambda _: self._freed(index))
        self._submit("close", [(index, {})])

    def _freed(self, index: int) -> None:
        self._ending.discard(index)
        self._free.append(index)

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
            index, outcome = self._done.popleft()
            answer = self._under_way.pop(index, None)
            if answer is not None and not answer.done():
                result = _result(outcome[4])
                if (session := self._by_index.get(index)) is not None and session.answer is answer:
                    self._count(session, result)
                answer.set_result(result)
            if index in self._leaving:
                self._leaving.discard(index)
                self._leave(index)

    def _count(self, session: _Session, result: Result) -> None:
        op = session.op
        self.metrics.add(op, result, self._clock() - session.used)
        if "error" in result:
            session.playing = session.playing and op == "call"
        elif op == "step":
            session.playing = not (result["terminated"] or result["truncated"])
        elif op == "reset":
            session.playing = True


def _result(answer: dict[str, Any]) -> Result:
    """The answer of a slot, or what kept it from answering."""
    if "error" not in answer and isinstance(answer, CallResult):
        return answer["value"]  # type: ignore[no-any-return]
    error = answer.get("error")
    if isinstance(error, Provoked):
        verdict = wrong(reason=without_paths(f"{error}"))
        ended: Result = {"observation": verdict.reason, "reward": 0.0, "terminated": True, "truncated": False}
        return {**ended, "info": pack({"verdict": verdict, "success": False})}
    if isinstance(error, TimeoutError):
        reason = f"{error}; the environment was given up, and reset() begins another"
        return ProtocolError("timeout", reason).to_dict()
    log.error("an environment failed: %s", described(error))
    return ProtocolError("env_error", without_paths(described(error))).to_dict()


def _rewards(env: gym.Env[Any, Any], reward_range: Range | None) -> Range:
    """The range of rewards: as given, or as the environment declares it."""
    declared = reward_range if reward_range is not None else getattr(env.unwrapped, "reward_range", None)
    if declared is None:
        return -MAX_REWARD, MAX_REWARD
    low, high = (float(bound) for bound in declared)
    if reward_range is not None and not -MAX_REWARD <= low <= high <= MAX_REWARD:
        raise ValueError(f"reward_range must lie within {-MAX_REWARD:g} and {MAX_REWARD:g}, got {reward_range}")
    return max(low, -MAX_REWARD), min(high, MAX_REWARD)


def _speaks(space: gym.Space[Any]) -> bool:
    """Whether it is a space of texts, or of texts beside images."""
    if isinstance(space, gym.spaces.Dict):
        image = space.spaces.get("image")
        shape = image.shape if isinstance(image, gym.spaces.Box) and image.dtype == np.uint8 else None
        is_valid = shape is not None and len(shape) == 3 and shape[2] == 3 and set(space.spaces) == {"text", "image"}
        is_valid = is_valid and shape is not None and shape[0] * shape[1] <= MAX_IMAGE_PIXELS
        return is_valid and _speaks(space["text"])
    return isinstance(space, Text | gym.spaces.Text)


__all__ = ["MAX_STATES", "Result", "SessionEnv", "SessionTable"]
