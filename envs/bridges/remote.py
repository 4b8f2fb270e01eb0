"""Environments that other people's servers play, as Gymnasium environments: what is the same whatever the wire.

A server decides what an episode is and what it is worth; nothing of it can be restored or told apart by content. What
is made sure here is the rest: every call has a deadline, an answer never belongs to another step, an episode that
could not be played has a verdict that is not ``valid`` instead of a reward of 0, no episode is without end, and a
server that ignores seeds, or whose second episode remembers the first, is refused.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple, Self
from urllib.parse import urlsplit

import gymnasium as gym

from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.seeding import digest_of_texts
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.verdict import Status, Verdict, fails_again, provoked_verdict
from rlvr.envs.tasks.digests import ServerDigest, digest_parts
from rlvr.envs.tools.fetch import shut

DIGEST: Final = re.compile(r"rows=\w{1,64} settings=\w{1,64} code=\w{1,64}", re.ASCII)
MAX_MESSAGE: Final = 16 << 20  # bytes of one answer
MAX_TEXT: Final = 1_000_000  # characters of an observation
SHOWN: Final = 2_000  # characters of a server's complaint
DIGEST_SECONDS: Final = 10.0  # in which a server says what it serves


class ServerStep(NamedTuple):
    """What a server said: what the policy reads next, and of a step what it earned and whether that was the end.

    Attributes:
        reward: None where the server scored nothing.
        info: what else ``info`` is to hold, such as the system prompt or the role.
    """

    text: str
    reward: Any = None
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = {}  # never written to


class Refused(ValueError):
    """The server does not take what the policy wrote; the message is for the policy, which may try again."""


class ServerError(RuntimeError):
    """The server failed, or said what cannot be understood."""


class BridgedEnv(gym.Env[str, str]):
    """Base of environments that are played elsewhere: `_begin` and `_play` speak to the server, `_leave` lets go of it.

    ``info`` holds ``env_id``, ``seed``, ``turn``, ``role``, ``system`` (first only, if any), ``verdict`` after each
    step and ``success`` at the end. A step that fails for the server's part ends the episode, truncated, with a verdict
    ``env_error`` or, past the deadline, ``timeout``; a reset that fails raises. Where a fresh session fails on the same
    action and another one does not on an empty text, the action is to blame: the verdict is ``wrong``.

    Args:
        url: where the server is.
        timeout: seconds that each answer may take.
        max_turns: actions an episode may take here, whatever the server thinks.
        success: the return (sum of rewards) from which an episode counts as a success.
        binary: pay 1 for a success and 0 for all else, so that credit for less cannot be farmed; else what the
            server pays.
        check_seed: play the first seeded ``reset`` twice and raise where the episodes begin differently.
        headers: sent along, such as ``{"Authorization": "Bearer …"}``.

    Raises:
        ConnectionError: there is no server, or it went away, in ``reset``.
        TimeoutError: it did not answer ``reset`` in time.
        ServerError: it cannot begin an episode.
        ValueError: an argument out of range, or options that the server refuses.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (gymnasium's own declaration)
    elsewhere: ClassVar = frozenset({"url", "timeout", "check_seed", "headers"})  # settings on which no task depends

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 60.0,
        max_turns: int = 100,
        success: float = 1.0,
        binary: bool = False,
        check_seed: bool = True,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise ValueError(f"url must be an http, https, ws or wss address, got {url!r}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url must be an address alone; what is secret goes into headers, which no message shows")
        if not 0 < timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns!r}")
        self.url, self.timeout, self.max_turns = url.rstrip("/"), timeout, max_turns
        self.success, self.binary, self.check_seed = success, binary, check_seed
        self.headers = dict(headers or {})
        self.observation_space = self.action_space = Text(MAX_TEXT)
        self._over, self._turn, self._return = True, 0, 0.0
        self._seed: int | None = None
        self._options: dict[str, Any] = {}
        self._actions: list[str] = []
        self._known: dict[str, Any] = {"seeds": not check_seed}  # shared with those that are spawned: one of them asks

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on the server; a seed is first tried twice, to see that the server heeds it."""
        super().reset(seed=seed)
        self._over = True
        server_step = self._begin(seed, options or {})
        if seed is not None and not self._known["seeds"]:
            again = self._begin(seed, options or {})
            if again.text != server_step.text:
                raise ServerError(
                    f"{self.url} begins differently when it is reset with seed {seed} again: it ignores seeds, or"
                    " remembers the last episode; check_seed=False plays it nevertheless"
                )
            server_step, self._known["seeds"] = again, True
        if server_step.terminated or server_step.truncated:
            raise ServerError(f"{self.url} ends the episode before it begins: {server_step.text[:SHOWN]}")
        self._seed = self._seed if seed is None else int(seed)
        self._over, self._turn, self._return = False, 0, 0.0
        self._options, self._actions = dict(options or {}), []
        return server_step.text[:MAX_TEXT], {**self._facts(), **server_step.info}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send an action; a server that fails ends the episode with an invalid verdict, unless the action made it."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        if self._over:
            raise gym.error.ResetNeeded("the episode is over, or never began: call reset() before step()")
        self._turn += 1
        text = action[:MAX_TEXT].encode("utf-8", "replace").decode()  # lone surrogates are no JSON
        try:
            server_step = self._play(text)
            earned = self._earned(server_step)
        except Refused as complaint:
            return self._answer(ServerStep(str(complaint)[:SHOWN]), 0.0, "unparsable")
        except TimeoutError as error:
            return self._failed("timeout", error, text)
        except Exception as error:
            return self._failed("env_error", error, text)
        if earned is None:
            nonsense = ServerError(f"the server's reward was {server_step.reward!r:.100}")
            return self._failed("verifier_error", nonsense, text)
        self._actions.append(text)
        self._return += earned
        return self._answer(server_step, earned, "partial")

    def close(self) -> None:
        """End the session on the server."""
        self._over = True
        self._leave()

    def spawn(self) -> Self:
        """Another environment of the same settings, with a session of its own."""
        twin = type(self)(**self._settings())
        twin.spec, twin._known = self.spec, self._known
        return twin

    def played_settings(self) -> dict[str, Any]:
        """The settings, defaults included, that decide what is asked and paid."""
        return {name: value for name, value in self._settings().items() if name not in self.elsewhere}

    def server_digest(self) -> ServerDigest:
        """What the server says of its rows, settings and code. It is asked once for an environment and those that it
        spawned; one that does not answer is asked again the next time."""
        if "digest" not in self._known:
            try:
                self._known["digest"] = self._asked_digest(time.monotonic() + min(self.timeout, DIGEST_SECONDS))
            except (OSError, ServerError):
                return ServerDigest(was_asked=False)
        digest: ServerDigest = self._known["digest"]
        return digest

    # what a wire does

    def _asked_digest(self, until: float) -> ServerDigest:
        """What `server_digest` gives.

        Raises:
            TimeoutError, ConnectionError, ServerError: the server cannot be asked.
        """
        return ServerDigest()

    def _begin(self, seed: int | None, options: Mapping[str, Any]) -> ServerStep:
        """Begin an episode on the server; the step has its first observation."""
        raise NotImplementedError

    def _play(self, action: str) -> ServerStep:
        """Carry out an action.

        Raises:
            Refused: the policy wrote what the server cannot take.
            TimeoutError, ConnectionError, ServerError: it could not be carried out, or nobody knows.
        """
        raise NotImplementedError

    def _leave(self) -> None:
        """Let go of the session, if there is one."""

    def _settings(self) -> dict[str, Any]:
        names = ("url", "timeout", "max_turns", "success", "binary", "check_seed", "headers")
        return {name: getattr(self, name) for name in names}

    # what became of a step

    def _earned(self, server_step: ServerStep) -> float | None:
        """The reward as a number; None for an end that nobody scored, or what is no number."""
        if server_step.reward is None:
            return None if server_step.terminated or server_step.truncated else 0.0
        if not isinstance(server_step.reward, int | float) or not math.isfinite(server_step.reward):
            return None
        return float(server_step.reward)

    def _answer(
        self, server_step: ServerStep, earned: float, status: Status
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """A step that was carried out, or refused for what the policy wrote."""
        out_of_turns = self._turn >= self.max_turns and not server_step.terminated
        self._over = server_step.terminated or server_step.truncated or out_of_turns
        reason = server_step.text[:500]
        if self._over:
            won = server_step.terminated and self._return >= self.success
            if status != "unparsable":
                status = "correct" if won else "partial" if self._return > 0 and not self.binary else "wrong"
            reason = "out of turns" if out_of_turns else reason
            reward = float(won) if self.binary else earned
        else:
            reward = 0.0 if self.binary else earned
        parts = {"return": self._return} if self.binary and self._over else {}
        verdict = Verdict(reward, status, None, reason, parts)
        info = {**self._facts(), **server_step.info, "verdict": verdict}
        if self._over:
            info["success"] = verdict.success
        return (
            server_step.text[:MAX_TEXT],
            reward,
            server_step.terminated,
            self._over and not server_step.terminated,
            info,
        )

    def _failed(self, status: Status, error: Exception, text: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """A step of which nobody knows what it earned; a 0 where the server fails on this action alone."""
        self._over = True
        self._leave()
        if self._is_provoked(text):
            verdict = provoked_verdict(f"the server {self.url}", error)
        else:
            verdict = Verdict(0.0, status, reason=f"{type(error).__name__}: {error}"[:500])
        info = {**self._facts(), "verdict": verdict, "success": False}
        return verdict.reason, 0.0, verdict.valid, not verdict.valid, info

    def _is_provoked(self, text: str) -> bool:
        """Whether a fresh session fails on the action again, and another one does not on an empty text."""

        def play(twin: Self, action: str) -> None:
            with suppress(Refused):
                if twin._earned(twin._play(action)) is None:
                    raise ServerError("the server's reward is no number")

        def fails(last: str) -> bool:
            twin = self.spawn()
            try:
                twin._begin(self._seed, self._options)
                for action in self._actions:
                    play(twin, action)
                return fails_again(partial(play, twin, last))
            finally:
                twin._leave()

        try:
            return fails(text) and not fails("")
        except Exception:  # what went before fails now: the server's doing
            return False

    def _facts(self) -> dict[str, Any]:
        name = self.spec.id if self.spec else type(self).__name__
        return {"env_id": name, "seed": self._seed, "turn": self._turn, "role": "user"}


class ServerReply(NamedTuple):
    """An HTTP answer whose body is JSON."""

    status: int
    body: Any
    cookies: list[str]


def exchange(url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], until: float) -> ServerReply:
    """One HTTP request, as `exchange_text`, whose answer is JSON.

    Raises:
        TimeoutError, ConnectionError: no answer in time, or none at all.
        ServerError: an answer that is too long, or no JSON.
    """
    status, text, cookies = exchange_text(url, body, headers, until)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ServerError(f"{url} answered {status} and no JSON: {text[:200]!r}") from error
    return ServerReply(status, value, cookies)


def answer_if_any(
    url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], until: float, *, required: bool = False
) -> Any:
    """The JSON that a server answers with 200, and None for any other answer.

    Args:
        required: raise where it does not answer in time, or too much; else that is None too.

    Raises:
        ConnectionError, TimeoutError, ServerError: it does not answer.
    """
    try:
        status, text, _ = exchange_text(url, body, headers, until)
    except (TimeoutError, ServerError):
        if required:
            raise
        return None
    if status != HTTPStatus.OK:
        return None
    try:
        return load_json(text)
    except ValueError:
        return None


def reported_digest(text: Any) -> ServerDigest | None:
    """The digest that a server of rlvr reports, ``rows=… settings=… code=…`` somewhere in a text; None without one."""
    match = DIGEST.search(text) if isinstance(text, str) else None
    if match is None:
        return None
    parts = digest_parts(match[0])
    return ServerDigest(parts["rows"], parts["settings"], parts["code"])


def function_schema(listed: Mapping[str, Any], without: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as a server lists it, in the form of chat templates; ``without`` are the parameters of one without any."""
    parameters = dict(listed.get("input_schema") or without)
    described = {"name": str(listed["name"]), "description": str(listed.get("description") or "")}
    return {"type": "function", "function": {**described, "parameters": parameters}}


def listed_digest(tasks: Any) -> str:
    """The digest of the tasks that a server lists; "" for what is no list of any."""
    if not isinstance(tasks, list) or not tasks:
        return ""
    return digest_of_texts(json.dumps(task, sort_keys=True) for task in tasks)


def exchange_text(
    url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str], until: float
) -> tuple[int, bytes, list[str]]:
    """One HTTP request, a POST of JSON or without a body a GET, over a connection of its own: status, body, cookies.

    A connection that is kept can be closed by the server at any time, and nobody would know whether what was sent over
    it was carried out.

    Args:
        until: when it must be over, of ``time.monotonic``; a server that drips bytes is cut off then.

    Raises:
        TimeoutError, ConnectionError: no answer in time, or none at all.
        ServerError: an answer that is too long.
    """
    parts = urlsplit(url)
    seconds = max(0.01, until - time.monotonic())
    kind = http.client.HTTPSConnection if parts.scheme in ("https", "wss") else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    late = threading.Event()
    watch: threading.Timer | None = None
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.connect()
        # Its socket: once the answer begins the connection no longer knows it.
        watch = threading.Timer(max(0.0, until - time.monotonic()), shut, (connection.sock, late))
        watch.daemon = True
        watch.start()
        sent = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close", **headers}
        connection.request("GET" if data is None else "POST", parts.path, data, sent)
        response = connection.getresponse()
        text = response.read(MAX_MESSAGE + 1)
        if late.is_set() or response.length:
            raise ConnectionError("the answer broke off")
    except (OSError, http.client.HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise TimeoutError(f"{url} did not answer within {seconds:.3g} s") from None
        raise ConnectionError(f"{url} could not be reached: {error}") from error
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()
    if len(text) > MAX_MESSAGE:
        raise ServerError(f"{url} sent more than {MAX_MESSAGE:,} bytes")
    return response.status, text, response.headers.get_all("Set-Cookie", [])
