"""Any OpenEnv server, by its address, as a text environment; docs/bridges.md.

>>> gym.make("rlvr/openenv.Remote-v0", url="http://127.0.0.1:8000", to_text="prompt")   # doctest: +SKIP

Speaks the wire of OpenEnv 0.10 (JSON over one WebSocket, ``/ws``) and needs none of its packages. There, answers bear
no name of what they answer, so a connection on which one was late is never used again; and whatever fails in the
middle of an episode ends it, since a new connection is a new session, in which nobody has called ``reset``.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from rlvr.envs.bridges.remote import (
    MAX_MESSAGE,
    BridgedEnv,
    Refused,
    ServerError,
    ServerStep,
    answer_if_any,
    exchange,
    function_schema,
    listed_digest,
    reported_digest,
)
from rlvr.envs.rewards.graders.json_schema import NotJSON, find_json, load
from rlvr.envs.tasks.digests import ServerDigest
from rlvr.envs.tools.calls import read_calls
from rlvr.envs.tools.tool import argument_names, shown_tools

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

Action = Mapping[str, Any]
ToAction = Callable[[str], Action]
ToText = Callable[[Mapping[str, Any]], str]
FULL_PAUSE = 0.2  # seconds until a server that was full is asked again
CLOSE_SECONDS = 2.0
BY_JSON = "Act by writing one JSON object, alone or in a fenced block. Its JSON schema:"


class OpenEnv(BridgedEnv):
    """One session of an OpenEnv server.

    ``options`` of ``reset`` are handed on as they are (``split``, ``index``, ``episode_id``, …). An observation's field
    ``truncated``, where there is one, tells an end by a limit from the end of the task. An end without a reward is not
    valid: there, no reward means that nothing was scored.

    Args:
        url: of the server, such as ``http://localhost:8000``.
        to_action: makes of the policy's text what the server takes: a function, which may raise ValueError for the
            policy to read, or the name of the field that the text is. None asks the server's ``/schema``: where its
            only field is a text, that; where actions are calls of tools, those are in ``info["tools"]`` and calls are
            read as Hermes and Qwen write them; else the policy is asked for a JSON object of that schema.
        to_text: what the policy reads of an observation: a function, or the name of a field. None takes the only field,
            where that is a text, or the whole observation as JSON; ``metadata`` only when it is named.
        system: said to the policy first; None: how to act, where it is by JSON.
        reset_options: handed to every ``reset`` of the server; those given here win.
        new_session: begin every episode in a new session, for servers whose environments remember the last one.
        settings: as `RemoteEnv`.
    """

    def __init__(
        self,
        url: str,
        *,
        to_action: str | ToAction | None = None,
        to_text: str | ToText | None = None,
        system: str | None = None,
        reset_options: Mapping[str, Any] | None = None,
        new_session: bool = False,
        **settings: Any,
    ) -> None:
        if find_spec("websockets") is None:
            raise ImportError('an OpenEnv server is spoken to with websockets: pip install "rlvr[serve]"')
        super().__init__(url, **settings)
        self.to_action, self.to_text, self.system = to_action, to_text, system
        self.reset_options, self.new_session = dict(reset_options or {}), new_session
        self._link: ClientConnection | None = None
        self._write: ToAction | None = None
        self._asks: str | None = None
        self._tools: list[dict[str, Any]] | None = None  # of servers whose actions are calls

    def _settings(self) -> dict[str, Any]:
        names = ("to_action", "to_text", "system", "reset_options", "new_session")
        return super()._settings() | {name: getattr(self, name) for name in names}

    def _asked_digest(self, until: float) -> ServerDigest:
        """What ``/metadata`` reports: a server of rlvr its digest, others a name and a version.

        Their rows are the tasks that they list.
        """
        about = answer_if_any(f"{self.url}/metadata", None, self.headers, until, required=True)
        about = about if isinstance(about, dict) else {}
        if (reported := reported_digest(about.get("description"))) is not None:
            return reported
        code = [str(about[name]) for name in ("name", "version") if about.get(name)]
        return ServerDigest(listed_digest(self._listed_tasks(until)), code=" ".join(code))

    def _listed_tasks(self, until: float) -> list[Any]:
        """The tasks of each split, of a server that lists them; else none."""
        names = self._answer_to("list_environments", None, until)
        name = quote(str(names[0]), safe="") if isinstance(names, list) and names else ""
        splits = self._answer_to(f"{name}/splits", None, until) if name else None
        tasks: list[Any] = []
        for split in splits if isinstance(splits, list) else ():
            split_name = split.get("name") if isinstance(split, dict) else split
            answer = self._answer_to(f"{name}/tasks", {"split": split_name}, until)
            if not isinstance(answer, dict) or not isinstance(answer.get("tasks"), list):
                return []
            tasks.append([split_name, answer["tasks"]])
        return tasks if any(listed for _, listed in tasks) else []

    def _answer_to(self, path: str, body: Mapping[str, Any] | None, until: float) -> Any:
        return answer_if_any(f"{self.url}/{path}", body, self.headers, until)

    def _begin(self, seed: int | None, options: Mapping[str, Any]) -> ServerStep:
        until = time.monotonic() + self.timeout
        if self._write is None:
            self._write = self._writer(until)
        if self.new_session:
            self._leave()
        data = {**self.reset_options, **options} | ({} if seed is None else {"seed": int(seed)})
        try:
            server_step = self._server_step(self._first(data, until))
            if self._write == self._call and self._tools is None:
                self._tools = self._listed(until)
        except BaseException:
            self._leave()
            raise
        facts = {"system": self.system or self._asks, "tools": self._tools and shown_tools(self._tools)}
        return server_step._replace(info={name: fact for name, fact in facts.items() if fact})

    def _play(self, action: str) -> ServerStep:
        assert self._write is not None  # for the type checker: reset made it
        if self._link is None:
            raise ConnectionError(f"the session at {self.url} is closed")  # a new one would be another episode's
        try:
            data = dict(self._write(action))
        except ValueError as error:
            raise Refused(str(error)) from error
        answer = self._ask({"type": "step", "data": data}, time.monotonic() + self.timeout)
        if (complaint := _error(answer)) is not None:
            if complaint[0] == "VALIDATION_ERROR":
                raise Refused(f"The environment does not take this action: {complaint[1]}")
            raise ServerError(complaint[1])
        server_step = self._server_step(answer)
        return server_step if self._tools is None else server_step._replace(info={"role": "tool"})

    def server_state(self) -> Mapping[str, Any]:
        """What the server says of the session: ``episode_id``, ``step_count`` and what else its ``state()`` gives.

        Raises:
            ConnectionError, TimeoutError: no session is open, or it does not answer.
            ServerError: it gives no state.
        """
        if self._link is None:
            raise ConnectionError(f"no session is open at {self.url}")
        answer = self._ask({"type": "state"}, time.monotonic() + self.timeout)
        if (complaint := _error(answer)) is not None:
            raise ServerError(complaint[1])
        state: Mapping[str, Any] = answer["data"]
        return state

    def _leave(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            with suppress(Exception):  # it is gone, or will be
                link.send('{"type": "close"}')
            link.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._leave()

    # the wire

    def _first(self, data: Mapping[str, Any], until: float) -> Mapping[str, Any]:
        """The server's answer to a reset, in a session that is opened if need be; waits while the server is full."""
        while True:
            answer = self._ask({"type": "reset", "data": data}, until)
            complaint = _error(answer)
            if complaint is None:
                return answer
            if complaint[0] == "VALIDATION_ERROR":
                raise ValueError(f"{self.url} refuses the options of reset: {complaint[1]}")
            if complaint[0] != "CAPACITY_REACHED":
                raise ServerError(f"{self.url} cannot begin an episode: {complaint[1]}")
            self._leave()
            if time.monotonic() + FULL_PAUSE > until:
                raise TimeoutError(f"{self.url} had no free session within {self.timeout:g} s: {complaint[1]}")
            time.sleep(FULL_PAUSE)

    def _ask(self, message: Mapping[str, Any], until: float) -> Mapping[str, Any]:
        """The answer to a message. A connection that fails, or is late, is given up.

        Raises:
            TimeoutError, ConnectionError, ServerError: there is none, or it is no JSON object.
        """
        from websockets.exceptions import ConnectionClosed

        text = json.dumps(message)
        link = self._link or self._open(until)
        try:
            with suppress(ConnectionClosed):  # a full server says so and hangs up: what it said can still be read
                link.send(text)
            answer = json.loads(link.recv(max(0.0, until - time.monotonic())))
        except TimeoutError:
            self._drop()
            raise TimeoutError(f"{self.url} did not answer within {self.timeout:g} s") from None
        except (ConnectionClosed, OSError) as error:
            self._drop()
            raise ConnectionError(f"the connection to {self.url} was lost: {error}") from error
        except (ValueError, RecursionError) as error:
            self._drop()
            raise ServerError(f"{self.url} answered what is no JSON: {error}") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
            self._drop()
            raise ServerError(f"{self.url} answered what is no message of OpenEnv")
        return answer

    def _open(self, until: float) -> ClientConnection:
        from websockets.exceptions import InvalidHandshake
        from websockets.sync.client import connect

        parts = urlsplit(self.url)
        scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
        try:
            opened = connect(
                f"{scheme}://{parts.netloc}{parts.path}/ws",
                additional_headers=self.headers,
                max_size=MAX_MESSAGE,
                open_timeout=max(0.01, until - time.monotonic()),
                close_timeout=CLOSE_SECONDS,
                proxy=None if _is_here(parts.hostname or "") else True,
            )
        except TimeoutError:
            raise TimeoutError(f"{self.url} did not open a session within {self.timeout:g} s") from None
        except (InvalidHandshake, OSError) as error:
            raise ConnectionError(f"there is no OpenEnv server at {self.url}: {error}") from error
        self._link = opened.__enter__()  # the way that its versions share; `_leave` is its end
        return self._link

    def _drop(self) -> None:
        """Give up the connection without a word: nobody may wait for a server that is late already."""
        link, self._link = self._link, None
        if link is not None:
            with suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)
            link.close()

    # texts and actions

    def _server_step(self, answer: Mapping[str, Any]) -> ServerStep:
        data = answer["data"]
        observation = data.get("observation")
        if not isinstance(observation, dict):
            raise ServerError(f"{self.url} sent no observation")
        done = data.get("done") is True
        truncated = done and any(
            isinstance(d, dict) and d.get("truncated") is True for d in (observation, data.get("metadata"))
        )
        return ServerStep(self._text(observation), data.get("reward"), done and not truncated, truncated)

    def _text(self, observation: Mapping[str, Any]) -> str:
        if callable(self.to_text):
            return str(self.to_text(observation))
        if self.to_text is not None:
            if self.to_text not in observation:
                raise ServerError(f"the observation has no {self.to_text!r}; it has {', '.join(observation)}")
            value = observation[self.to_text]
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if "tool_name" in observation and ("result" in observation or "error" in observation):
            return _result(observation)
        shown = {
            name: v for name, v in observation.items() if name not in ("metadata", "reward", "done") and v is not None
        }
        (only, *more) = shown.values() or [""]
        return only if isinstance(only, str) and not more else json.dumps(shown, ensure_ascii=False)

    def _writer(self, until: float) -> ToAction:
        if callable(self.to_action):
            return self.to_action
        field = self.to_action
        if field is None:
            schema = _without_metadata(self._schema(until))
            fields = schema["properties"]
            if {"tool_name", "arguments"} <= fields.keys():
                return self._call
            (field, *more) = fields or [""]
            if more or fields.get(field, {}).get("type") != "string":
                self._asks = f"{BY_JSON}\n{json.dumps(schema, ensure_ascii=False)}"
                return read_object
        return lambda text: {field: text}

    def _call(self, text: str) -> Action:
        """The call of a tool that a reply makes."""
        tools = argument_names(self._tools or ())
        reading = read_calls(text, "hermes", tools)
        if reading.problem:
            raise ValueError(f"The call cannot be read: {reading.problem}")
        if len(reading.calls) != 1:
            raise ValueError(f"An action is one call of a tool: {', '.join(tools)}.")
        (call,) = reading.calls
        return {"type": "call_tool", "tool_name": call.name, "arguments": dict(call.arguments)}

    def _listed(self, until: float) -> list[dict[str, Any]]:
        """The server's tools, as chat templates take them."""
        answer = self._ask({"type": "step", "data": {"type": "list_tools"}}, until)
        observation = answer["data"].get("observation")
        tools = observation.get("tools") if isinstance(observation, dict) else None
        if not isinstance(tools, list) or not all(isinstance(tool, dict) and "name" in tool for tool in tools):
            raise ServerError(f"{self.url} does not list its tools: {_error(answer)}; give to_action")
        return [function_schema(tool, {}) for tool in tools]

    def _schema(self, until: float) -> dict[str, Any]:
        """The JSON schema of the server's actions."""
        reply = exchange(f"{self.url}/schema", None, self.headers, until)
        schema = reply.body.get("action") if isinstance(reply.body, dict) else None
        if not isinstance(schema, dict):
            raise ServerError(f"{self.url}/schema is no schema of OpenEnv (status {reply.status}); give to_action")
        return schema


def read_object(text: str) -> Action:
    """The JSON object of a reply: its last fenced block, or all of it after the thinking.

    Raises:
        ValueError: there is none; the message is for the policy.
    """
    parsed, problem = find_json(text)
    if parsed is None:
        raise ValueError(f"An action is one JSON object: {problem}.")
    try:
        value = load(parsed)
    except NotJSON as error:
        raise ValueError(f"An action is one JSON object: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError("An action is one JSON object, not another value.")
    return value


def _result(observation: Mapping[str, Any]) -> str:
    """What a tool said, as a text."""
    error, result = observation.get("error"), observation.get("result")
    if error is not None:
        return f"Error: {error.get('message', error) if isinstance(error, dict) else error}"
    parts = result.get("content") if isinstance(result, dict) else None
    if isinstance(parts, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        return "\n".join(part["text"] for part in parts)
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _without_metadata(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what a policy is to write."""
    fields = {name: field for name, field in schema.get("properties", {}).items() if name != "metadata"}
    return {**schema, "properties": fields}


def _error(answer: Mapping[str, Any]) -> tuple[str, str] | None:
    """The code and the message of an answer that is an error."""
    if answer.get("type") != "error":
        return None
    data = answer["data"]
    message_text = str(data.get("message"))
    wrong = data.get("errors")
    if isinstance(wrong, list):
        indices = [(e.get("loc"), e.get("msg")) for e in wrong if isinstance(e, dict)]
        message_text += "".join(f"; {'.'.join(map(str, loc or ()))}: {message}" for loc, message in indices)
    return str(data.get("code")), message_text[:1_000]


def _is_here(host: str) -> bool:
    """Whether a host is this machine, to which no proxy leads."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
