"""PolicyEndpoint: an OpenAI-compatible endpoint whose answers come from ``env.step``.

A harness that owns its loop (an agent program, somebody's evaluation, another suite's rollout) asks a model for its
next words and waits. Here the model is the player of the Gymnasium environment `HarnessEnv`: the request becomes the
observation, the action becomes the reply, and what the harness returns in the end becomes the reward. ::

    def harness(connection):                     # runs in a thread of its own
        client = openai.OpenAI(base_url=connection.base_url, api_key=connection.api_key)
        …                                        # asks for connection.model as often as it likes
        return 1.0                               # a reward, or a Verdict

    env = HarnessEnv(harness)
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("my words")

Standard library only; 127.0.0.1 only; each session has a secret key of its own.
"""

from __future__ import annotations

import json
import math
import queue
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rlvr.adapters.serving.loopback import Answer, HttpError, HttpRequest, LoopbackServer
from rlvr.agents import Message
from rlvr.agents.chat_template import CLOSING, OPENING
from rlvr.envs import Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.verdict import Status, env_error
from rlvr.envs.tasks.turns import split_opening, under_role
from rlvr.envs.tools.calls import Reading, split_calls
from rlvr.envs.tools.tool import shown_tools

REPLY_SECONDS = 600.0
TURN_SECONDS = 120.0
GRACE_SECONDS = 5.0
REMEMBERED = 64  # answers a session keeps for a client that asks again because the first one was lost


class ChatRequest:
    """One request that waits for its reply.

    Attributes:
        messages: the conversation as the harness sent it, contents as text.
        tools: the tools' schemas that came with it; with any, calls in the reply (``<tool_call>{…}</tool_call>``) are
            sent as such.
        body: all that was sent.
    """

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.messages = [_message(message) for message in body["messages"]]
        self.tools: list[Any] = list(body.get("tools") or [])
        self._answered = threading.Event()
        self._text = ""
        self._refusal: HttpError | None = None
        self._lock = threading.Lock()

    def reply(self, text: str) -> bool:
        """Send the text; whether anybody still waited for it."""
        return self._settle(text, None)

    def refuse(self, status: int, reason: str) -> bool:
        """Answer with an error; whether anybody still waited."""
        return self._settle("", HttpError(status, reason))

    def _settle(self, text: str, refusal: HttpError | None) -> bool:
        with self._lock:
            if self._answered.is_set():
                return False
            self._text, self._refusal = text, refusal
            self._answered.set()
            return True

    def wait(self, seconds: float) -> str:
        """The reply.

        Raises:
            HttpError: none came in time, or an error did.
        """
        if not self._answered.wait(seconds):
            self.refuse(504, f"no action came within {seconds:g} seconds")
        if self._refusal is not None:
            raise HttpError(self._refusal.status, str(self._refusal))
        return self._text


class EndpointSession:
    """One conversation partner of the endpoint: an address and a key for a harness, a queue of what it asks.

    Attributes:
        base_url, api_key, model: what an OpenAI client is given.
        events: what happens, in order: each `ChatRequest`, and whatever else is put there.
    """

    def __init__(self, url: str, name: str, reply_timeout: float) -> None:
        self.base_url, self.model = f"{url}/{name}/v1", name
        self.api_key = secrets.token_urlsafe(24)
        self.events: queue.Queue[Any] = queue.Queue()
        self.closed = False
        self._reply_timeout = reply_timeout
        self._asked: dict[str, ChatRequest] = {}
        self._lock = threading.Lock()

    def ask(self, body: Mapping[str, Any], again: bool) -> tuple[ChatRequest, str]:
        """The request and its reply; a client that asks ``again`` gets the answer of the first time."""
        key = json.dumps(body, sort_keys=True)
        with self._lock:
            if self.closed:
                raise HttpError(410, "this session is over")
            request = self._asked.get(key) if again else None
            if request is None:
                request = self._asked[key] = ChatRequest(body)
                while len(self._asked) > REMEMBERED and next(iter(self._asked.values()))._answered.is_set():
                    del self._asked[next(iter(self._asked))]
                self.events.put(request)
        return request, request.wait(self._reply_timeout)

    def close(self) -> None:
        """Refuse what waits and what will come."""
        with self._lock:
            self.closed = True
            for request in self._asked.values():
                request.refuse(503, "this session was closed")


class PolicyEndpoint:
    """The server: ``POST /<session>/v1/chat/completions``, streamed or not, and ``GET /<session>/v1/models``.

    Args:
        reply_timeout: how long a request waits for the action, in seconds; then it is answered with a 504.
        port: 0 takes a free one.
    """

    def __init__(self, *, reply_timeout: float = REPLY_SECONDS, port: int = 0) -> None:
        if reply_timeout <= 0:
            raise ValueError(f"reply_timeout must be above 0, got {reply_timeout}")
        self.reply_timeout = reply_timeout
        self._sessions: dict[str, EndpointSession] = {}
        self._server = LoopbackServer(self._answer, port=port, name="policy endpoint", key=None, admit=self._admit)
        self.url = self._server.url

    def __enter__(self) -> PolicyEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self) -> EndpointSession:
        """Open a session: an address, a key and a queue of requests."""
        session = EndpointSession(self.url, f"policy-{secrets.token_hex(6)}", self.reply_timeout)
        self._sessions[session.model] = session
        return session

    def end(self, session: EndpointSession) -> None:
        """Close a session and forget it."""
        session.close()
        self._sessions.pop(session.model, None)

    def close(self) -> None:
        """End every session, and the server with its threads."""
        for session in list(self._sessions.values()):
            self.end(session)
        self._server.close()

    def _admit(self, request: HttpRequest) -> None:
        """Each session has a key of its own."""
        session = self._sessions.get(request.path.strip("/").partition("/")[0])
        if session is None or not request.has_key(session.api_key):
            raise HttpError(401, "no such session, or not its key")

    def _answer(self, request: HttpRequest) -> Answer:
        name, _, path = request.path.strip("/").partition("/")
        session = self._sessions.get(name)
        if session is None:
            raise HttpError(410, "this session is over")
        if (request.method, path) == ("GET", "v1/models"):
            return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "rlvr"}]}
        if (request.method, path) != ("POST", "v1/chat/completions"):
            raise HttpError(404, f"there is no {request.method} {path}: this endpoint has v1/chat/completions")
        body = request.body
        _check(body)
        again = request.headers.get("x-stainless-retry-count", "0") != "0"
        chat, text = session.ask(body, again)
        message, reason = _spoken(text, bool(chat.tools))
        return _chunks(name, message, reason) if body.get("stream") else _completion(name, message, reason)


def _check(body: Mapping[str, Any]) -> None:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise HttpError(400, "messages must be a list that is not empty")
    if not all(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages):
        raise HttpError(400, "each message must be an object with a role")
    if body.get("n") not in (None, 1):
        raise HttpError(400, "n must be 1: an action is one reply")


def _message(message: Mapping[str, Any]) -> Message:
    """Role and text: parts of text are joined, calls that the policy made are written as it wrote them."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = message.get("tool_calls") or []
    written = [_written(call["function"]) for call in calls if isinstance(call, dict) and "function" in call]
    role = {"developer": "system", "function": "tool"}.get(message["role"], message["role"])
    return {"role": role, "content": "\n".join(filter(None, [str(content), *written]))}


def _written(function: Mapping[str, Any]) -> str:
    arguments = function.get("arguments") or "{}"
    return f'<tool_call>\n{{"name": {json.dumps(function.get("name"))}, "arguments": {arguments}}}\n</tool_call>'


def _spoken(action: str, tools: bool) -> tuple[dict[str, Any], str]:
    """The assistant's message for an action, its thought apart from its words, and why it ended."""
    thought, text = _thought_of(action)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    before, reading = split_calls(text, "hermes", {}) if tools else (text, Reading())
    calls = reading.calls
    if not calls:
        return message, "stop"
    named = [{"name": call.name, "arguments": json.dumps(dict(call.arguments))} for call in calls]
    listed = [{"id": f"call_{secrets.token_hex(8)}", "type": "function", "function": function} for function in named]
    return message | {"content": before.strip() or None, "tool_calls": listed}, "tool_calls"


def _thought_of(action: str) -> tuple[str, str]:
    """The thought that an action begins with, and the words behind it; one that does not end leaves none."""
    if not action.lstrip().startswith(OPENING):
        return "", action
    thought, _, text = action.lstrip().removeprefix(OPENING).partition(CLOSING)
    return thought.strip("\n"), text.removeprefix("\n").removeprefix("\n")


def _completion(model: str, message: dict[str, Any], reason: str) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}  # an action is text
    return {**_head(model, "chat.completion"), "choices": [choice], "usage": usage}


def _chunks(model: str, message: dict[str, Any], reason: str) -> Iterator[str]:
    head = _head(model, "chat.completion.chunk")
    calls = [{"index": i, **call} for i, call in enumerate(message.get("tool_calls", ()))]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    for part, end in ((delta, None), ({}, reason)):
        yield json.dumps({**head, "choices": [{"index": 0, "delta": part, "finish_reason": end}]})
    yield "[DONE]"


def _head(model: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": kind, "created": int(time.time()), "model": model}


@dataclass(frozen=True, slots=True)
class HarnessConnection:
    """What a harness is given.

    Attributes:
        base_url, api_key, model: for its OpenAI client.
        seed, options: what the environment was reset with.
        cancelled: set when nobody plays any more; the endpoint refuses all requests from then on.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    seed: int | None
    options: Mapping[str, Any]
    cancelled: threading.Event


Harness = Callable[[HarnessConnection], Verdict | float]


@dataclass(frozen=True, slots=True)
class _Ended:
    """The harness has returned, or raised."""

    result: Any = None
    error: BaseException | None = None


class HarnessEnv(gym.Env[str, str]):
    """A harness that owns its loop, as a Gymnasium environment.

    The observation is what the harness says since the policy's last words. Where there is more to know (it begins with
    a conversation, or tells its history anew) it is the whole conversation, each message under its role. ``info`` has
    ``role``, ``system`` (first only), ``messages`` (all, as sent), ``tools`` if any came along, and ``verdict``.

    What is not the policy's fault is not ``valid``: a harness that raises or returns no reward (``env_error``), one
    that goes silent for ``turn_timeout`` seconds (``timeout``), an action that came too late for it (``timeout``).

    Args:
        harness: called in a thread for each episode; returns a reward or a `Verdict`. It should end when the endpoint
            refuses it, or `HarnessConnection.cancelled` is set: a thread cannot be killed.
        max_turns: requests it may make; one more ends the episode, truncated.
        turn_timeout: the longest wait for its next request or its end, in seconds.
        endpoint: one to share between environments; None makes one, closed with the environment.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(
        self,
        harness: Harness,
        *,
        max_turns: int | None = None,
        turn_timeout: float = TURN_SECONDS,
        endpoint: PolicyEndpoint | None = None,
    ) -> None:
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns}")
        if turn_timeout <= 0:
            raise ValueError(f"turn_timeout must be above 0, got {turn_timeout}")
        self.harness, self.max_turns, self.turn_timeout = harness, max_turns, turn_timeout
        self.observation_space, self.action_space = Text(), Text()
        self.endpoint = endpoint or PolicyEndpoint()
        self._owns = endpoint is None
        self._session: EndpointSession | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._request: ChatRequest | None = None
        self._known: list[Message] = []
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the harness: its first request; raises where none comes."""
        super().reset(seed=seed)
        self._stop()
        session, self._cancelled = self.endpoint.session(), threading.Event()
        connection = HarnessConnection(
            session.base_url, session.api_key, session.model, seed, dict(options or {}), self._cancelled
        )
        self._session, self._turn, self._known = session, 0, []
        self._thread = threading.Thread(
            target=_run, args=(self.harness, connection, session.events), name=f"harness {session.model}", daemon=True
        )
        self._thread.start()
        event = self._next()
        if isinstance(event, ChatRequest):
            return self._observe(event)
        self._stop()
        if event is None:
            raise TimeoutError(f"the harness asked for nothing within {self.turn_timeout:g} seconds")
        raise RuntimeError("the harness ended without asking for anything") from event.error

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the request that waits: the next one, or the harness's result as the reward."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        if self._request is None:
            raise gym.error.ResetNeeded("the episode is over, or never began: call reset() before step()")
        request, self._request = self._request, None
        self._turn += 1
        self._known = [*request.messages, _message(_spoken(action, bool(request.tools))[0])]
        if not request.reply(action):
            return self._over(Verdict(0.0, "timeout", reason="the harness no longer waited for this action"), True)
        event = self._next()
        if event is None:
            reason = f"the harness was silent for {self.turn_timeout:g} seconds"
            return self._over(Verdict(0.0, "timeout", reason=reason), True)
        if isinstance(event, _Ended):
            verdict = _verdict(event)
            return self._over(verdict, not verdict.valid)
        if self.max_turns is not None and self._turn >= self.max_turns:
            return self._over(Verdict(0.0, "wrong", reason="out of turns"), True)
        observation, info = self._observe(event)
        return observation, 0.0, False, False, info | {"verdict": Verdict(0.0, "partial", reason="the harness goes on")}

    def close(self) -> None:
        """End the episode under way, its thread, and the endpoint where it is our own."""
        self._stop()
        if self._owns:
            self.endpoint.close()

    def _next(self) -> Any:
        """The next request or the end; None when neither comes in time."""
        assert self._session is not None  # for the type checker: reset made it
        try:
            return self._session.events.get(timeout=self.turn_timeout)
        except queue.Empty:
            return None

    def _observe(self, request: ChatRequest) -> tuple[str, dict[str, Any]]:
        self._request = request
        info: dict[str, Any] = {"turn": self._turn, "messages": request.messages, "verdict": None}
        if request.tools:
            info["tools"] = shown_tools(request.tools)
        if not self._turn:
            system, examples, text = split_opening([(each["role"], each["content"]) for each in request.messages])
            facts = {"system": system, "examples": examples}
            return text, info | {"role": "user"} | {name: value for name, value in facts.items() if value}
        old_count = len(self._known)
        news = [message for message in request.messages[old_count:] if message["role"] != "system"]
        repeated = _same(request.messages[:old_count], self._known) is False
        if repeated or any(message["role"] == "assistant" for message in news):
            whole = [m for m in request.messages if m["role"] != "system" or repeated]
            return "\n\n".join(under_role(m["role"], m["content"]) for m in whole), info | {"role": "user"}
        info["role"] = "tool" if news and all(message["role"] == "tool" for message in news) else "user"
        return "\n\n".join(message["content"] for message in news), info

    def _over(self, verdict: Verdict, truncated: bool) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._stop()
        info = {"turn": self._turn, "role": "user", "verdict": verdict, "success": verdict.success}
        return verdict.reason, verdict.reward, not truncated, truncated, info

    def _stop(self) -> None:
        """End the session, and wait for the harness to notice."""
        self._cancelled.set()
        self._request = None
        if self._session is not None:
            self.endpoint.end(self._session)
        session, self._session, thread, self._thread = self._session, None, self._thread, None
        if thread is not None:
            thread.join(GRACE_SECONDS)
            if thread.is_alive():
                name = session.model if session else ""
                warnings.warn(f"the harness of {name} goes on though nobody plays", RuntimeWarning, stacklevel=3)


def _run(harness: Harness, connection: HarnessConnection, events: queue.Queue[Any]) -> None:
    try:
        events.put(_Ended(harness(connection)))
    except BaseException as error:
        events.put(_Ended(error=error))


def _same(sent: Sequence[Message], expected: Sequence[Message]) -> bool:
    """Whether the harness goes on from the messages so far; blank space at the ends of contents may have been cut."""
    if len(sent) != len(expected):
        return False
    pairs = zip(sent, expected, strict=True)
    return all(a["role"] == b["role"] and a["content"].strip() == b["content"].strip() for a, b in pairs)


def _verdict(ended: _Ended) -> Verdict:
    """What the harness returned, as a verdict."""
    if ended.error is not None:
        return env_error(ended.error, "the harness")
    if isinstance(ended.result, Verdict):
        return ended.result
    try:
        reward = float(ended.result)
    except (TypeError, ValueError):
        reward = math.nan
    if not math.isfinite(reward):
        return env_error(f"the harness returned {ended.result!r:.100}, which is no reward")
    status: Status = "correct" if reward >= 1 else "partial" if reward > 0 else "wrong"
    return Verdict(reward, status, reason="the harness is done")
