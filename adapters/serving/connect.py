"""The other side of `rlvr serve`: an environment at an address, with Gymnasium's interface.

>>> from rlvr.adapters import connect                              # doctest: +SKIP
>>> env = connect("http://127.0.0.1:8765")                         # doctest: +SKIP
>>> observation, info = env.reset(seed=7)                          # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import logging
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlvr.adapters.fleet.cluster import ClusterVectorEnv
from rlvr.adapters.fleet.forwarding_env import ForwardingEnv
from rlvr.adapters.fleet.members import DNS, HAS_NO_PLACE
from rlvr.adapters.fleet.remote_vector import GONE, RemoteVectorEnv, space_of, step_of
from rlvr.adapters.serving.connection import Access, RemoteError, WireConnection, error_of
from rlvr.adapters.serving.server_messages import MAX_SECONDS, Range, differs
from rlvr.adapters.serving.wire import pack
from rlvr.envs.core.spaces import Text

__all__ = ["RemoteEnv", "RemoteError", "RemoteVectorEnv", "connect", "connect_vector", "error_of"]

OUTAGE_PAUSE = 0.5  # between two tries, where no server is there
T = TypeVar("T")
log = logging.getLogger("rlvr.serve")
_turns = itertools.count()  # of this process: environments over several servers begin at one after another


def connect_vector(
    url: str | Sequence[str],
    num_envs: int,
    *,
    token: str | None = None,
    timeout: float | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    reward_range: Range | None = None,
    env: str | None = None,
) -> RemoteVectorEnv:
    """``num_envs`` sessions as a vector environment, a message for each step of all; arguments as in `connect`.

    Args:
        url: of a server; or a list of addresses, or ``dns+http://name:port``, for several servers that serve the same
            (`rlvr.adapters.fleet.cluster.ClusterVectorEnv`): a server that dies costs the episodes there, as faults.
    """
    access: Access = {"token": token, "timeout": timeout, "reward_range": reward_range, "env": env}
    addresses = _addresses(url)
    if isinstance(url, str) and not url.startswith(DNS):
        return RemoteVectorEnv(url, num_envs, autoreset_mode=autoreset_mode, **access)
    return ClusterVectorEnv(addresses, num_envs, autoreset_mode=autoreset_mode, **access)


def _addresses(url: Any) -> list[str]:
    """One address or several, as a list."""
    addresses = [url] if isinstance(url, str) or not isinstance(url, Iterable) else [*url]
    if isinstance(url, bytes) or not all(isinstance(address, str) for address in addresses):
        raise TypeError(f"url must be the address of a server, or a list of such; got {url!r:.100}")
    return addresses


@dataclass(slots=True)
class _Outage:
    """Since when no server was found, by the clock of `time.monotonic`; None while there is one."""

    since: float | None = None


class RemoteEnv(ForwardingEnv):
    """One session of a served environment. The same seeds and actions give what they give directly, infos included.

    Differences: ``get_state`` returns a name for a state that stays on the server. ``solve``,
    ``direct_answer``, ``get_state`` and ``set_state`` need ``rlvr serve --expert``.

    Args:
        url: as ``rlvr serve`` prints it, ``?token=…`` included; http, https, ws or wss. Or several addresses of servers
            that serve the same: one environment after another begins at the next of them, and one that is away, full
            or about to end is passed over. An episode stays where it began; ``reset`` goes to another where that has
            ended, or is about to.
        token: what the server asks for, where the address does not say it.
        timeout: seconds to wait for an answer; by default half a minute more than a step and its
            trials take there.
        reward_range: the least and the greatest reward that are taken; None for the range that the server declares.
        env: the id of one of the server's environments, where it has several; ``?env=…`` in the address says it too.
        split, level: asked for in each ``reset`` whose options do not say it; by default the server's own. A table has
            one split on a server: its size is that split's.
        patience: seconds that ``reset`` and ``spawn`` wait for a server where there is none. All that are spawned share
            it: it begins when the first of them finds none.

    Attributes:
        served_id: of the environment there; this one is none of the registry.
        env_digest: what its tasks and grades depend on, as the server reports it; "" where it does not.

    Raises:
        ConnectionError: there is no server, it was restarted in the middle of an episode, or it sent what the wire does
            not allow, such as a reward out of range; the next ``reset`` begins a new session.
        PermissionError: the token is not right, or the server does not give what was asked for.
        TimeoutError: the environment, or the server, took too long.
        ValueError, TypeError, gymnasium.error.ResetNeeded: as the environment itself.
        RemoteError: anything else; its ``code`` says what.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        token: str | None = None,
        timeout: float | None = None,
        reward_range: Range | None = None,
        env: str | None = None,
        split: str | None = None,
        level: int | None = None,
        patience: float = 0.0,
    ) -> None:
        if not 0 <= patience <= MAX_SECONDS:
            raise ValueError(f"patience must be seconds from 0 to {MAX_SECONDS:g}, got {patience!r}")
        self._patience, self._outage = patience, _Outage()
        self._session: str | None = None
        self._servers = _addresses(url)
        if not self._servers:
            raise ValueError("url is an empty list: give the address of a server")
        access: Access = {"token": token, "timeout": timeout, "reward_range": reward_range, "env": env}
        self._again = partial(RemoteEnv, self._servers, **access, split=split, level=level, patience=patience)
        self._reach = partial(WireConnection, **access)
        self._asked = {name: value for name, value in (("split", split), ("level", level)) if value is not None}
        self._turn = next(_turns)
        self._at = self._turn % len(self._servers)
        self._connection = self._reached()
        self._greeting = greeting = self._connection.greeting
        if greeting.size is not None and split not in (None, greeting.split):
            self._connection.close()
            raise ValueError(
                f"{self._connection.url} serves the split {greeting.split!r} of a table, not {split!r}: serve that, too"
            )
        self.served_id = greeting.env_id
        self.env_digest = greeting.env_digest
        self.size: int | None = greeting.size
        self.split: str | None = split or greeting.split
        self.level: int | None = greeting.level if level is None else level
        self.max_turns: int | None = greeting.max_turns
        self.render_mode = greeting.render_mode
        self.observation_space = space_of(greeting)
        self.action_space = Text(greeting.action_length)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a task of the served environment; the errors are those of the class.

        Nothing is lost in a reset: where the session is gone, or its server is, the episode begins in another session,
        there or on another server. What follows from a seed that an earlier reset was given does not go along.
        """
        if seed is not None:
            seed = operator.index(seed)
            super().reset(seed=seed)
        if self._asked:
            options = {**self._asked, **(options or {})}
        fields = {"seed": seed, "options": None if options is None else pack(options)}
        result = self._patiently(lambda: self._reset_session(**fields))
        return result["observation"], result["info"]

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play an action; the errors are those of the class."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        return step_of(self._ask("step", action=action))

    def spawn(self) -> RemoteEnv:
        """Another session, over a connection of its own; of several servers, on the next."""
        other = self._patiently(self._again)
        other._outage = self._outage
        if wrong := differs(self._greeting, other._greeting, self._asked):
            other.close()
            raise ValueError(f"{other._connection.url} serves something else: {wrong}")
        return other

    def close(self) -> None:
        """End the session, and close the connection."""
        session, self._session = self._session, None
        self._connection.leave([] if session is None else [session])

    def _reached(self) -> WireConnection:
        """A connection to the server whose turn it is, or to the next that is there."""
        for tries_left in reversed(range(len(self._servers))):
            try:
                return self._reach(self._servers[self._at])
            except (ConnectionError, TimeoutError):
                if not tries_left:
                    raise
                self._at = (self._at + 1) % len(self._servers)
        raise AssertionError("there is a server")

    def _patiently(self, begin: Callable[[], T]) -> T:
        """The result of ``begin``, tried again until a server is there or the patience is over."""
        while True:
            try:
                result = begin()
            except (ConnectionError, RemoteError) as error:
                if isinstance(error, RemoteError) and (self._session or error.code not in HAS_NO_PLACE):
                    raise  # the environment's own failure
                now = time.monotonic()
                self._outage.since = now if self._outage.since is None else self._outage.since
                if now - self._outage.since >= self._patience:
                    raise
                time.sleep(OUTAGE_PAUSE)
            else:
                self._outage.since = None
                return result

    def _reset_session(self, **fields: Any) -> dict[str, Any]:
        """Reset the session; where it is gone, a new one."""
        other_servers = [at for at in range(len(self._servers)) if at != self._at]
        if other_servers:  # those of one server go to different others
            first = self._turn // len(self._servers) % len(other_servers)
            other_servers = other_servers[first:] + other_servers[:first]
        if self._session is None:
            return self._reset_in_new_session(fields, [self._at, *other_servers])
        try:
            return self._ask("reset", **fields)
        except (ConnectionError, TimeoutError, PermissionError, RemoteError) as error:
            if self._session is not None or (len(self._servers) == 1 and isinstance(error, TimeoutError)):
                raise  # the environment's own failure; or there is nobody else to ask
            stays = isinstance(error, ConnectionResetError | RemoteError)  # the server is there, the session is not
        if not stays:
            self._connection.close()  # the next may lead to another server, where the address is a name of several
        return self._reset_in_new_session(fields, [self._at, *other_servers] if stays else [*other_servers, self._at])

    def _reset_in_new_session(self, fields: dict[str, Any], order: Sequence[int]) -> dict[str, Any]:
        """Reset a session of the first of these servers that takes one."""
        errors: list[Exception] = []
        for at in order:
            try:
                self._go_to(at)
                (self._session,) = self._connection.open(1)
                return self._ask("reset", **fields)
            except (ConnectionError, TimeoutError, PermissionError, RemoteError) as error:
                if self._session is None and isinstance(error, ConnectionError):
                    self._connection.close()
                if self._session is not None or len(order) == 1:
                    raise  # the environment's own failure; or there is nobody else to ask
                log.info("no episode begins at %s: %s", self._servers[at].partition("?")[0], error)
                errors.append(error)
        raise self._refused(errors, order)

    def _refused(self, errors: Sequence[Exception], order: Sequence[int]) -> Exception:
        """What all servers answer, as one error."""
        answers = "; ".join(f"{self._servers[at].partition('?')[0]}: {e}" for at, e in zip(order, errors, strict=True))
        sentence = f"none of the {len(order)} servers takes an episode now: {answers}"[:1000]
        if all(isinstance(error, PermissionError) for error in errors):
            return PermissionError(sentence)
        if all(isinstance(error, RemoteError) and error.code in HAS_NO_PLACE for error in errors):
            return RemoteError(sentence, HAS_NO_PLACE[0])
        return ConnectionError(sentence)

    def _go_to(self, at: int) -> None:
        """Connect to a server, if it is another."""
        if at == self._at:
            return
        connection = self._reach(self._servers[at])
        if wrong := differs(self._greeting, connection.greeting, self._asked):
            connection.close()
            raise ConnectionError(f"it serves something else: {wrong}")
        self._connection.close()
        self._at, self._connection = at, connection

    def _call(self, name: str, **arguments: Any) -> Any:
        return self._ask("call", name=name, **arguments)["value"]

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        if self._session is None:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        try:
            (result,) = self._connection.ask(op, [{"session": self._session, **fields}])
        except (TimeoutError, ConnectionError, PermissionError, RemoteError) as error:
            if not isinstance(error, RemoteError) or error.code in ("full", "not_found"):  # on the way in again
                self._session = None  # its state is unknown: the next reset begins another
            raise
        if "error" not in result:
            return result
        if result["error"]["code"] in GONE:
            self._session = None
        raise error_of(result["error"])


connect = RemoteEnv
# For code that takes an id: gym.make("rlvr.adapters.serving.connect:rlvr-served/Environment-v0", url=…, env=…).
gym.register("rlvr-served/Environment-v0", f"{__name__}:RemoteEnv", disable_env_checker=True, order_enforce=False)
