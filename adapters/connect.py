"""The other side of `rlvr serve`: an environment at an address, with Gymnasium's interface.

>>> from rlvr.adapters import connect                              # doctest: +SKIP
>>> env = connect("http://127.0.0.1:8765")                         # doctest: +SKIP
>>> observation, info = env.reset(seed=7)                          # doctest: +SKIP
"""

from __future__ import annotations

import itertools
import json
import operator
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from rlvr.adapters.wire import MAX_FRAME, SOCKET_PATH, VERSION, pack, unpack, write
from rlvr.envs import Verdict
from rlvr.envs.core.images import observation_space, text_space, with_text
from rlvr.envs.core.spaces import Text
from rlvr.envs.vector import Infos

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

Array = np.ndarray[Any, Any]
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
OPEN_SECONDS = 20.0  # for a connection to be made
SLACK_SECONDS = 30.0  # what an answer may take beyond the server's limit for a step


class RemoteError(gym.error.Error):
    """The server refused, or what it serves failed.

    Attributes:
        code: one of `rlvr.adapters.wire.CODES`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteError, (str(self), self.code)


def connect(url: str, *, token: str | None = None, timeout: float | None = None) -> RemoteEnv:
    """The environment that is served at an address, as a ``gymnasium.Env``; `RemoteEnv` says what it raises.

    Args:
        url: as ``rlvr serve`` prints it; http, https, ws or wss.
        token: what the server asks for.
        timeout: seconds to wait for an answer; by default half a minute more than the server gives a step.
    """
    return RemoteEnv(url, token=token, timeout=timeout)


def connect_vector(
    url: str,
    num_envs: int,
    *,
    token: str | None = None,
    timeout: float | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
) -> RemoteVectorEnv:
    """``num_envs`` sessions over one connection, a batch for each step; arguments as in `connect`."""
    return RemoteVectorEnv(url, num_envs, token=token, timeout=timeout, autoreset_mode=autoreset_mode)


class Line:
    """A connection that is made when it is needed, and made again, once, when it broke.

    A request that was under way when it broke is sent again under its id, and the server carries it out once. Answers
    to other ids, such as one that came after its time, are passed over.
    """

    def __init__(self, url: str, token: str | None, timeout: float | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname:
            raise ValueError(f"url must be an http, https, ws or wss address, got {url!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        self.url = url
        self._address = f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}{SOCKET_PATH}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._lock = threading.Lock()
        self._link: ClientConnection | None = None
        self._name, self._numbers = secrets.token_hex(8), itertools.count()
        self.hello: dict[str, Any] = {}
        with self._lock:
            self._connected()

    @property
    def timeout(self) -> float | None:
        limit = self.hello["limits"]["timeout"]
        return self._timeout or (None if limit is None else limit + SLACK_SECONDS)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            ValueError, ResetNeeded, TimeoutError, PermissionError, RemoteError: the server refused all of it.
            ConnectionError: the server is gone, or was restarted.
        """
        request = f"{self._name}-{next(self._numbers)}"
        text = write({"id": request, "op": op, **fields})
        if len(text) > self.hello["limits"]["frame"]:
            raise ValueError(f"a message of {len(text)} bytes is over the server's {self.hello['limits']['frame']}")
        with self._lock:
            answer = self._exchange(request, text)
        if "error" in answer:
            raise error_of(answer["error"])
        return answer

    def close(self) -> None:
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        # Whoever forgets an environment is gone for the server too. No closing handshake: nothing may wait in here.
        with suppress(Exception):
            if self._link is not None:
                self._link.socket.shutdown(socket.SHUT_RDWR)

    def _exchange(self, request: str, text: str) -> dict[str, Any]:
        from websockets.exceptions import ConnectionClosed

        for last in (False, True):
            link = self._connected()
            try:
                link.send(text)
                return self._received(link, request)
            except TimeoutError:
                self._drop()  # else the server would keep what nobody waits for
                raise TimeoutError(f"{self.url} did not answer within {self.timeout:g} s") from None
            except (ConnectionClosed, OSError) as error:
                self._drop()
                if last:
                    raise ConnectionError(f"the connection to {self.url} was lost twice: {error}") from error
        raise AssertionError("unreachable")

    def _received(self, link: ClientConnection, request: str) -> dict[str, Any]:
        limit = self.timeout
        until = None if limit is None else time.monotonic() + limit
        while True:
            message = _message(link.recv(None if until is None else max(0.0, until - time.monotonic())))
            if message.get("id") == request:
                return message
            if message.get("id") is None and "error" in message:
                raise error_of(message["error"])

    def _connected(self) -> ClientConnection:
        if self._link is not None:
            return self._link
        link = self._open()
        try:
            hello = _message(link.recv(OPEN_SECONDS)).get("hello")
            if not isinstance(hello, dict) or hello.get("version") != VERSION:
                found = hello.get("version") if isinstance(hello, dict) else "something else"
                raise ConnectionError(f"{self.url} speaks {found!r}, and this client version {VERSION} of the wire")
        except BaseException:
            link.close()
            raise
        before, self.hello = self.hello, hello
        self._link = link
        if before and before["instance"] != hello["instance"]:
            raise ConnectionResetError(
                f"the server at {self.url} was restarted, and the episodes there are lost: call reset()"
            )
        return link

    def _open(self) -> ClientConnection:
        try:
            from websockets.exceptions import InvalidHandshake, InvalidStatus
            from websockets.sync.client import connect as open_socket
        except ImportError as error:
            raise ImportError('a remote environment needs websockets: pip install "rlvr[serve]"') from error
        try:
            opened = open_socket(
                self._address,
                additional_headers=self._headers,
                compression=None,
                max_size=MAX_FRAME,
                open_timeout=OPEN_SECONDS,
                close_timeout=2.0,
                proxy=None,
            )
            return opened.__enter__()  # the way that its versions share; `_drop` is its end
        except InvalidStatus as error:
            said = error.response.body or b""
            with suppress(ValueError, TypeError, KeyError):
                raise error_of(json.loads(said)["error"]) from None
            raise ConnectionError(f"{self.url} answered {error.response.status_code}: {said[:200]!r}") from None
        except (InvalidHandshake, OSError) as error:
            raise ConnectionError(f"there is no server at {self.url}: {error}") from error

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


def _message(data: str | bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ConnectionError(f"the server's message cannot be read: {error}") from error
    if not isinstance(message, dict):
        raise ConnectionError("the server's message is no object")
    return message


def error_of(error: Mapping[str, str]) -> Exception:
    """The exception that stands for an error of the wire."""
    code, message = str(error.get("code")), str(error.get("message"))
    match code:
        case "invalid" | "too_large":
            return ValueError(message)
        case "reset_needed":
            return gym.error.ResetNeeded(message)
        case "timeout":
            return TimeoutError(message)
        case "unauthorised" | "forbidden":
            return PermissionError(message)
        case "closing":
            return ConnectionError(message)
    return RemoteError(message, code)


class RemoteEnv(gym.Env[Any, str]):
    """One session of a served environment. The same seeds and actions give what they give directly, infos included.

    Differences: ``get_state`` returns a name for a state that stays on the server. ``solve``, ``get_state`` and
    ``set_state`` need ``rlvr serve --expert``.

    Args:
        url, token, timeout: as in `connect`.

    Raises:
        ConnectionError: there is no server, or it was restarted; the next ``reset`` begins a new session.
        PermissionError: the token is not right, or the server does not give what was asked for.
        TimeoutError: the environment, or the server, took too long.
        ValueError, TypeError, gymnasium.error.ResetNeeded: as the environment itself.
        RemoteError: anything else; its ``code`` says what.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(self, url: str, *, token: str | None = None, timeout: float | None = None) -> None:
        self._session: str | None = None
        self._again = partial(RemoteEnv, url, token=token, timeout=timeout)
        self._line = Line(url, token, timeout)
        env = self._line.hello["env"]
        self.name: str = env["id"]
        self.size: int | None = env["size"]
        self.split: str | None = env["split"]
        self.level: int | None = env["level"]
        self.max_turns: int | None = env["max_turns"]
        self.render_mode = env["render_mode"]
        self.observation_space = _space(env)
        self.action_space = Text(env["action_length"])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            seed = operator.index(seed)
            super().reset(seed=seed)
        if self._session is None:
            self._session = self._line.ask("open")["sessions"][0]
        told = self._ask("reset", seed=seed, options=None if options is None else pack(options))
        return unpack(told["observation"]), unpack(told["info"])

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        return _step_of(self._ask("step", action=action))

    def render(self) -> Any:
        return unpack(self._call("render"))

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
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # whatever is wrong, the server ends the session by itself
                self._line.ask("close", items=[{"session": session}])
        self._line.close()

    def _call(self, name: str, **fields: Any) -> Any:
        return self._ask("call", name=name, **fields)["value"]

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        if self._session is None:
            raise gym.error.ResetNeeded("no episode is under way: call reset() before anything else")
        try:
            (result,) = self._line.ask(op, items=[{"session": self._session, **fields}])["results"]
        except (TimeoutError, ConnectionError):
            self._session = None  # what became of it is not known: the next reset begins another
            raise
        if "error" not in result:
            return result  # type: ignore[no-any-return]
        if result["error"]["code"] in ("unknown_session", "closing"):
            self._session = None
        raise error_of(result["error"])


def _step_of(told: Mapping[str, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    observation, reward, info = (unpack(told[name]) for name in ("observation", "reward", "info"))
    return observation, reward, told["terminated"], told["truncated"], info


def _space(env: Mapping[str, Any]) -> gym.Space[Any]:
    """The space of the observations that a greeting promises."""
    shape = env.get("image")
    space = observation_space(None if shape is None else (shape[0], shape[1], shape[2]))
    text_space(space).max_length = env["observation_length"]  # type: ignore[attr-defined]
    return space


class RemoteVectorEnv(gym.vector.VectorEnv[Any, Any, Array]):
    """Sessions of a served environment as one ``gymnasium.vector.VectorEnv``: one message for each step of all.

    A session whose environment fails, or takes too long, ends its episode with a verdict ``env_error`` or ``timeout``,
    as in `rlvr.envs.vector`, and the others go on.

    Args:
        url, token, timeout: as in `connect`.
        num_envs: how many sessions.
        autoreset_mode: ``NextStep``, ``SameStep`` or ``Disabled``.

    Raises:
        ConnectionError, PermissionError, TimeoutError, RemoteError: as `RemoteEnv`.
        ValueError: a reset that an environment refuses; a wrong number of actions or seeds.
    """

    def __init__(
        self,
        url: str,
        num_envs: int,
        *,
        token: str | None = None,
        timeout: float | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.num_envs = operator.index(num_envs)
        if self.num_envs < 1:
            raise ValueError(f"num_envs must be a whole number from 1, got {num_envs!r}")
        self._line = Line(url, token, timeout)
        env = self._line.hello["env"]
        if (most := self._line.hello["limits"]["items"]) < self.num_envs:
            raise ValueError(f"num_envs must be at most {most}, got {num_envs}")
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": ["ansi"]}
        self.render_mode = env["render_mode"]
        self.single_observation_space = _space(env)
        self.single_action_space = Text(env["action_length"])
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._sessions: list[str] = []
        self._over = np.zeros(self.num_envs, dtype=np.bool_)
        shape = env.get("image")
        self._blank: Any = "" if shape is None else {"text": "", "image": np.zeros(shape, np.uint8)}
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
            self._sessions = self._line.ask("open", count=self.num_envs)["sessions"]
        options = dict(options or {})
        mask = np.asarray(options.pop("reset_mask", np.ones(self.num_envs, np.bool_)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValueError(f"reset_mask must be {self.num_envs} truth values")
        if seed is None or not isinstance(seed, Sequence):
            seeds = [None if seed is None else operator.index(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [None if one is None else operator.index(one) for one in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} seeds, got {len(seeds)}")
        rows: list[dict[str, Any] | None] = [None] * self.num_envs
        for place, info in self._begin(np.flatnonzero(mask).tolist(), seeds, options or None).items():
            rows[place] = info
        return self._batched(), Infos(rows)

    def step(self, actions: Sequence[str]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        if not self._sessions:
            raise gym.error.ResetNeeded("call reset() before step()")
        if isinstance(actions, str) or not all(isinstance(action, str) for action in actions):
            raise TypeError("actions are the assistant's texts, a str for each environment")
        if len(actions) != self.num_envs:
            raise ValueError(f"there must be {self.num_envs} actions, got {len(actions)}")
        ended, restarted = np.flatnonzero(self._over).tolist(), {}
        if ended and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gym.error.ResetNeeded(f"the episodes of {ended} are over: reset them with reset_mask")
        if ended:
            restarted = self._begin(ended)
        places = [place for place in range(self.num_envs) if place not in restarted]
        rewards = np.zeros(self.num_envs)
        terminations, truncations = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        rows: list[dict[str, Any]] = [restarted.get(place, {}) for place in range(self.num_envs)]
        told = self._ask("step", [{"session": self._sessions[i], "action": actions[i]} for i in places])
        for place, result in zip(places, told, strict=True):
            step = self._failure(result["error"]) if "error" in result else _step_of(result)
            self._observations[place], rewards[place], terminations[place], truncations[place], rows[place] = step
        self._over = terminations | truncations
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._over.any():
            finals = {place: (self._observations[place], rows[place]) for place in np.flatnonzero(self._over).tolist()}
            for place, info in self._begin(list(finals)).items():
                rows[place] = {"final_obs": finals[place][0], "final_info": finals[place][1], **info}
        return self._batched(), rewards, terminations, truncations, Infos(rows)

    def close_extras(self, **kwargs: Any) -> None:
        sessions, self._sessions = self._sessions, []
        if sessions:
            with suppress(Exception):  # whatever is wrong, the server ends the sessions by itself
                self._line.ask("close", items=[{"session": session} for session in sessions])
        self._line.close()

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
        self, places: list[int], seeds: Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> dict[int, dict[str, Any]]:
        """Reset these sessions: their infos."""
        packed = None if options is None else pack(options)
        items = [
            {"session": self._sessions[place], "seed": None if seeds is None else seeds[place], "options": packed}
            for place in places
        ]
        infos = {}
        for place, result in zip(places, self._ask("reset", items), strict=True):
            if "error" in result:
                raise error_of(result["error"])
            self._observations[place], infos[place] = (unpack(result[name]) for name in ("observation", "info"))
            self._over[place] = False
        return infos

    def _ask(self, op: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not items:
            return []
        try:
            results: list[dict[str, Any]] = self._line.ask(op, items=items)["results"]
        except (TimeoutError, ConnectionError):
            self._sessions = []  # what became of them is not known: the next reset begins others
            raise
        for result in results:
            if "error" in result and result["error"]["code"] in ("unknown_session", "closing"):
                self._sessions = []
                raise error_of(result["error"])
        return results
