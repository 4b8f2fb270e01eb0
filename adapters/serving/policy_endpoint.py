"""PolicyEndpoint: an endpoint of a model whose answers come from ``env.step``.

It speaks OpenAI's Chat Completions and Responses, and Anthropic's Messages (`rlvr.adapters.serving.dialects`).

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

import hmac
import json
import math
import queue
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import gymnasium as gym

from rlvr.adapters.serving.dialects.anthropic_messages import ANTHROPIC_MESSAGES
from rlvr.adapters.serving.dialects.chat_completions import CHAT_COMPLETIONS
from rlvr.adapters.serving.dialects.common import Dialect, ModelReply, ModelRequest, TokenUsage, ToolCall, read_action
from rlvr.adapters.serving.dialects.responses import RESPONSES
from rlvr.adapters.serving.loopback import Answer, HttpError, HttpRequest, LoopbackServer
from rlvr.agents import Conversation, Message
from rlvr.agents.rendering import Renderer
from rlvr.envs import Verdict
from rlvr.envs.core.spaces import Text
from rlvr.envs.core.verdict import Status, env_error
from rlvr.envs.tasks.turns import split_opening, under_role
from rlvr.envs.tools.tool import shown_tools

REPLY_SECONDS = 600.0
TURN_SECONDS = 120.0
GRACE_SECONDS = 5.0
COUNT_PATH = "v1/messages/count_tokens"
DIALECTS = {
    "v1/chat/completions": CHAT_COMPLETIONS,
    "v1/responses": RESPONSES,
    "v1/messages": ANTHROPIC_MESSAGES,
    COUNT_PATH: ANTHROPIC_MESSAGES,
}
REMEMBERED = 64  # answers a session keeps for a client that asks again because the first one was lost


class ChatRequest:
    """One request that waits for its reply.

    Attributes:
        messages: the conversation as the harness sent it, contents as text.
        tools: the tools' schemas that came with it, as Chat Completions writes them; with any, calls in the reply
            (``<tool_call>{…}</tool_call>``) are sent as such.
        body: all that was sent.
    """

    def __init__(self, asked: ModelRequest, body: Mapping[str, Any]) -> None:
        self.body = body
        self.messages, self.tools = asked
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
        answered: see `HarnessConnection`.
        sent_calls: calls of its replies, by their ids.
    """

    def __init__(self, url: str, name: str, reply_timeout: float, renderer: Renderer | None) -> None:
        self.base_url, self.model = f"{url}/{name}/v1", name
        self.api_key = secrets.token_urlsafe(24)
        self.events: queue.Queue[Any] = queue.Queue()
        self.answered = threading.Event()
        self.closed = False
        self._reply_timeout, self._renderer = reply_timeout, renderer
        self._asked: dict[str, ChatRequest] = {}
        self.sent_calls: dict[str, ToolCall] = {}
        self._lock = threading.Lock()

    def ask(self, asked: ModelRequest, body: Mapping[str, Any], again: bool) -> ModelReply:
        """The reply to a request; a client that asks ``again`` gets the answer of the first time."""
        key = json.dumps(body, sort_keys=True)
        with self._lock:
            if self.closed:
                raise HttpError(410, "this session is over")
            request = self._asked.get(key) if again else None
            if request is None:
                request = self._asked[key] = ChatRequest(asked, body)
                while len(self._asked) > REMEMBERED and next(iter(self._asked.values()))._answered.is_set():
                    del self._asked[next(iter(self._asked))]
                self.events.put(request)
        action = request.wait(self._reply_timeout)
        reply = read_action(action, bool(asked.tools))
        self.sent_calls.update((call.id, call) for call in reply.calls)
        return reply._replace(usage=self._usage(asked, action, reply.thought))

    def count_prompt(self, asked: ModelRequest) -> int:
        """Tokens of a request, as the policy is shown it.

        Raises:
            HttpError: nobody counts the session's tokens (404), or the policy's template refuses the messages (400).
        """
        if self._renderer is None:
            raise HttpError(404, "nobody counts this session's tokens: it was opened without a renderer")
        try:
            return len(self._renderer.render(Conversation("request", asked.messages, tools=_shown(asked))))
        except ValueError as error:
            raise HttpError(400, str(error)) from error

    def _usage(self, asked: ModelRequest, action: str, thought: str) -> TokenUsage:
        """Tokens of a request and its reply, the one that ends it included; 0 where the template refuses them."""
        if self._renderer is None:
            return TokenUsage()
        whole: list[Message] = [*asked.messages, {"role": "assistant", "content": action}]
        try:
            ids, mask = self._renderer.render_demonstration(whole, _shown(asked), len(asked.messages))
        except ValueError:
            return TokenUsage()
        thought_tokens = len(self._renderer.encode_reply(thought)) if thought else 0
        return TokenUsage(len(ids) - sum(mask), sum(mask), thought_tokens)

    def close(self) -> None:
        """Refuse what waits and what will come."""
        with self._lock:
            self.closed = True
            for request in self._asked.values():
                request.refuse(503, "this session was closed")


class PolicyEndpoint:
    """The server: ``POST /<session>/v1/chat/completions``, ``responses`` and ``messages``, streamed or not,
    ``POST /<session>/v1/messages/count_tokens``, and ``GET /<session>/v1/models``.

    Args:
        reply_timeout: how long a request waits for the action, in seconds; then it is answered with a 504.
        port: 0 takes a free one.
    """

    def __init__(self, *, reply_timeout: float = REPLY_SECONDS, port: int = 0) -> None:
        if reply_timeout <= 0:
            raise ValueError(f"reply_timeout must be above 0, got {reply_timeout}")
        self.reply_timeout = reply_timeout
        self._sessions: dict[str, EndpointSession] = {}
        self._server = LoopbackServer(
            self._answer, port=port, name="policy endpoint", key=None, admit=self._admit, write_error=_error_body
        )
        self.url = self._server.url

    def __enter__(self) -> PolicyEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(self, renderer: Renderer | None = None) -> EndpointSession:
        """Open a session: an address, a key and a queue of requests.

        Args:
            renderer: of the policy that plays, which counts the tokens of its requests and replies; None leaves each
                count at 0.
        """
        session = EndpointSession(self.url, f"policy-{secrets.token_hex(6)}", self.reply_timeout, renderer)
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
        session = self._sessions.get(_parts(request)[0])
        if session is None or not (request.has_key(session.api_key) or _has_api_key(request, session.api_key)):
            raise HttpError(401, "no such session, or not its key")

    def _answer(self, request: HttpRequest) -> Answer:
        name, path = _parts(request)
        session = self._sessions.get(name)
        if session is None:
            raise HttpError(410, "this session is over")
        if (request.method, path) == ("GET", "v1/models"):
            return {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "rlvr"}]}
        dialect = DIALECTS.get(path)
        if request.method != "POST" or dialect is None:
            raise HttpError(404, f"there is no {request.method} {path}: this endpoint has {', '.join(DIALECTS)}")
        body = request.body
        if path == COUNT_PATH:
            return {"input_tokens": session.count_prompt(dialect.read(body, session.sent_calls))}
        session.answered.clear()
        asked = dialect.read(body, session.sent_calls)
        again = request.headers.get("x-stainless-retry-count", "0") != "0"
        answer = dialect.write(body, session.ask(asked, body, again), name)
        session.answered.set()
        return dialect.stream(body, answer) if body.get("stream") else answer


def _parts(request: HttpRequest) -> tuple[str, str]:
    """A session's name, and the path behind it."""
    name, _, path = request.path.strip("/").partition("/")
    return name, path


def _has_api_key(request: HttpRequest, key: str) -> bool:
    """Whether a request has ``X-API-Key: <key>``, where Anthropic's clients put it."""
    key_given = request.headers.get("x-api-key", "").strip().encode("utf-8", "surrogateescape")
    return hmac.compare_digest(key_given, key.encode())


def _error_body(request: HttpRequest, error: HttpError) -> dict[str, Any]:
    dialect: Dialect = DIALECTS.get(_parts(request)[1], CHAT_COMPLETIONS)
    return dialect.write_error(error)


def _shown(asked: ModelRequest) -> str:
    """The tools as a policy is shown them."""
    return json.dumps(shown_tools(asked.tools)) if asked.tools else ""


@dataclass(frozen=True, slots=True)
class HarnessConnection:
    """What a harness is given.

    Attributes:
        base_url, api_key, model: for its OpenAI client.
        anthropic_base_url: for an Anthropic client, which puts ``/v1`` behind it.
        seed, options: what the environment was reset with.
        cancelled: set when nobody plays any more; the endpoint refuses all requests from then on.
        answered: set while the last request has the policy's reply: not before the first one, not while one waits, not
            after one that was refused.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    seed: int | None
    options: Mapping[str, Any]
    cancelled: threading.Event
    answered: threading.Event

    @property
    def anthropic_base_url(self) -> str:
        return self.base_url.removesuffix("/v1")


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
    ``role``, ``system`` (first only), ``messages`` (all, as sent; one user's message where the last is the
    assistant's), ``follows``, ``tools`` if any came along, and ``verdict``.

    ``info["follows"]`` is the turn, from 0, whose request and reply the request begins with, blank space at the ends of
    contents and thoughts aside; -1 where there is none, as for a sub-agent, or a history that the harness has
    rewritten. `rlvr.agents.Rollout` keeps a conversation for each such beginning, with the tokens as they were sampled:
    `rlvr.agents.Episode.branches`.

    What is not the policy's fault is not ``valid``: a harness that raises or returns no reward (``env_error``), one
    that goes silent for ``turn_timeout`` seconds (``timeout``), an action that came too late for it (``timeout``).

    Args:
        harness: called in a thread for each episode; returns a reward or a `Verdict`. It should end when the endpoint
            refuses it, or `HarnessConnection.cancelled` is set: a thread cannot be killed.
        max_turns: requests it may make; one more ends the episode, truncated.
        turn_timeout: the longest wait for its next request or its end, in seconds.
        endpoint: one to share between environments; None makes one, closed with the environment.
        renderer: of the policy that plays (`TokenAgent.renderer`): the harness is told its tokens; None tells it 0.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (gymnasium's own declaration)

    def __init__(
        self,
        harness: Harness,
        *,
        max_turns: int | None = None,
        turn_timeout: float = TURN_SECONDS,
        endpoint: PolicyEndpoint | None = None,
        renderer: Renderer | None = None,
    ) -> None:
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns}")
        if turn_timeout <= 0:
            raise ValueError(f"turn_timeout must be above 0, got {turn_timeout}")
        self.harness, self.max_turns, self.turn_timeout = harness, max_turns, turn_timeout
        self.observation_space, self.action_space = Text(), Text()
        self.endpoint = endpoint or PolicyEndpoint()
        self._owns, self._renderer = endpoint is None, renderer
        self._session: EndpointSession | None = None
        self._thread: threading.Thread | None = None
        self._cancelled = threading.Event()
        self._request: ChatRequest | None = None
        self._known: list[Message] = []
        self._replies: dict[bytes, int] = {}  # the turn of each reply, by the digest of all up to it
        self._turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the harness: its first request; raises where none comes."""
        super().reset(seed=seed)
        self._stop()
        session, self._cancelled = self.endpoint.session(self._renderer), threading.Event()
        connection = HarnessConnection(
            session.base_url, session.api_key, session.model, seed, dict(options or {}),
            self._cancelled, session.answered,
        )  # fmt: skip
        self._session, self._turn, self._known, self._replies = session, 0, [], {}
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
        verdict = _verdict(event)
        reason = "" if verdict.valid else f": {verdict.reason}"
        raise RuntimeError(f"the harness ended without asking for anything{reason}") from event.error

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Answer the request that waits: the next one, or the harness's result as the reward."""
        if not isinstance(action, str):
            raise TypeError(f"an action is the assistant's text, a str; got {type(action).__name__}")
        if self._request is None:
            raise gym.error.ResetNeeded("the episode is over, or never began: call reset() before step()")
        request, self._request = self._request, None
        self._turn += 1
        self._known = [*request.messages, read_action(action, bool(request.tools)).message()]
        *_, digest = _digests(self._known, request.tools)
        self._replies[digest] = self._turn - 1
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
        info: dict[str, Any] = {"turn": self._turn, "messages": request.messages, "verdict": None, "follows": -1}
        if request.messages[-1]["role"] == "assistant":  # every reply here is begun by the policy itself
            texts = [under_role(message["role"], message["content"]) for message in request.messages]
            info["messages"] = [{"role": "user", "content": "\n\n".join(texts)}]
        else:
            digests = [*_digests(request.messages, request.tools)][:-1]
            info["follows"] = next((self._replies[each] for each in reversed(digests) if each in self._replies), -1)
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


def _digests(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """One of each beginning of a conversation; blank space at the ends of contents does not count."""
    digest = blake2b(json.dumps(tools).encode(), digest_size=16)
    for message in messages:
        digest.update(json.dumps([message["role"], message["content"].strip()]).encode())
        yield digest.digest()


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
