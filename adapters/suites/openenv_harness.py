"""OpenEnv's harness (RFC 005, 012): a program that owns its loop plays our environments; see docs/adapters/openenv.md.

The program is started for each episode, asks a model of its own choice, and calls our tools over MCP. Each of its
turns is answered with what the environment says next and our verdict's reward::

    adapter = partial(ProgramAdapter, HarnessConfig(name="mine", command=["python", "agent.py"]))
    app = harness_app("rlvr/Calculator-v0", adapter=adapter)                 # uvicorn my_file:app

Where the program asks its model through OpenEnv's capture server, the tokens and log-probabilities are the engine's.
`rlvr.adapters.suites.openenv_sessions` is what a trainer plays it by.
"""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr.adapters.serving.guard import GuardedApp
from rlvr.adapters.spec import EpisodeSession, TaskSpec
from rlvr.adapters.suites.openenv import (
    TESTED,
    TextObservation,
    beginning,
    named_env,
    named_task,
    standing,
    state_of,
)
from rlvr.adapters.versions import require
from rlvr.agents import Message
from rlvr.agents.conversation import as_one_text
from rlvr.envs.core.verdict import Verdict, env_error
from rlvr.envs.tools.calls import Call, write_call
from rlvr.envs.tools.tool import argument_names
from rlvr.envs.tools.with_tools import call_style, with_native_tools

MAX_SESSIONS = 16  # each runs a program
CAPTURE_SECONDS = 60.0

try:
    from fastmcp import FastMCP
    from fastmcp.tools import Tool as ServedTool
    from fastmcp.tools import ToolResult as ServedResult
    from openenv.core.env_server import create_fastapi_app
    from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES
    from openenv.core.harness import (
        AgenticHarnessAdapter,
        HarnessAction,
        HarnessEnvironment,
        HarnessError,
        HarnessEvent,
        HarnessEventType,
        HarnessProcess,
    )
    from openenv.core.utils import run_async_safely
except ImportError:  # `require` raises it where it is used
    AgenticHarnessAdapter = HarnessEnvironment = ServedTool = object


class ToolEpisode:
    """An episode whose environment is played by calls and words; one at a time.

    Attributes:
        session: the episode.
        tools: what it lets the policy call, by name: name, description and the schema of the arguments.
        pending: what the environment said last.

    Args:
        task: names the episode.
        env: an environment of that task to use instead of a new one.

    Raises:
        RuntimeError: the environment failed at ``reset``.
    """

    def __init__(self, task: TaskSpec, *, use_system: bool = True, env: gym.Env[str, str] | None = None) -> None:
        self.session = EpisodeSession(task, use_system=use_system, env=env or native_env(task), tools=True)
        if self.session.done:
            verdict = self.session.verdict
            raise RuntimeError(verdict.reason if verdict else "the episode is over before it begins")
        schemas = [tool.get("function", tool) for tool in self.session.info.get("tools") or ()]
        self.tools = {tool["name"]: dict(tool) for tool in schemas}
        if reserved := sorted(self.tools.keys() & RESERVED_TOOL_NAMES):
            raise RuntimeError(
                f"OpenEnv keeps the tools' name {reserved[0]!r} for itself: this task is not played by it"
            )
        self.pending: Message | None = self.session.messages[-1]  # None when the episode is over
        self._style, self._lock = call_style(self.session.env), threading.Lock()

    def words(self) -> str:
        """What the environment said last; at the beginning all that stands before the first reply, as one text."""
        if not self.session.turns:
            return as_one_text(self.session.messages)
        return str(self.pending["content"]) if self.pending is not None else ""

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """What a tool says; the call is a turn of the episode.

        Raises:
            ValueError: the episode is over.
        """
        names = argument_names([self.tools[name]])[name] if name in self.tools else ()
        try:
            return self.say(write_call(Call(name, dict(arguments)), self._style, names))
        except ValueError as error:
            if self.session.done:
                raise
            return f"error: {error}"

    def say(self, text: str) -> str:
        """What the environment answers to an action.

        Raises:
            ValueError: the episode is over.
        """
        with self._lock:
            self.pending = self.session.step(text)
            if self.pending is not None:
                return str(self.pending["content"])
            verdict = self.session.verdict
            return f"The episode is over. {verdict.reason if verdict else ''}".strip()


def native_env(task: TaskSpec) -> gym.Env[str, str]:
    """The environment of a task; its tools are left to the caller, not shown in the system prompt."""
    env = task.make()
    kwargs = with_native_tools(env, task.kwargs)
    if kwargs == dict(task.kwargs):
        return env
    env.close()
    return replace(task, kwargs=kwargs).make()


class _EpisodeTool(ServedTool):  # type: ignore[misc]
    """A tool of the environment, behind the MCP server whose address the program gets."""

    play: Callable[[str, Mapping[str, Any]], str]

    async def run(self, arguments: dict[str, Any]) -> Any:
        return ServedResult(content=await asyncio.to_thread(self.play, self.name, arguments))


# tokens


@dataclass(frozen=True, slots=True)
class TokenCapture:
    """OpenEnv's capture server, which a program asks its model through and which keeps the tokens.

    Attributes:
        url: of the server, as the program reaches it.
        model: the name that the program asks for.
        admin_key: of the server's own routes; "" where it has none.
        llm_url, api_key: the engine, where the server is not started for one.
        sampling: the policy's, such as ``{"temperature": 1.0}``; the program cannot change it.
        max_model_calls: for each episode; 0 for no bound.
    """

    url: str
    model: str = "policy"
    admin_key: str = field(default="", repr=False)
    llm_url: str = ""
    api_key: str = field(default="", repr=False)
    sampling: Mapping[str, Any] | None = None
    max_model_calls: int = 0

    def begin(self) -> str:
        """A session of the server; its id is the key that the program asks with.

        Raises:
            RuntimeError: it is no capture server, or the engine gives no tokens.
        """
        settings: dict[str, Any] = {"max_model_calls": self.max_model_calls, "purpose": "train"}
        settings |= {"sampling": dict(self.sampling)} if self.sampling else {}
        if self.llm_url:
            settings |= {"llm_url": self.llm_url, "model": self.model, "api_key": self.api_key or None}
        return str(self._ask("POST", "/sessions", settings)["session_id"])

    def variables(self, session: str) -> dict[str, str]:
        """Environment variables of the program."""
        return {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": session, "OPENAI_MODEL": self.model}

    def entries(self, session: str) -> list[dict[str, Any]]:
        """The calls of the model, each with the engine's tokens.

        Raises:
            ValueError: a call has none, or they do not fit one another.
        """
        try:
            answer = self._ask("GET", f"/sessions/{session}/trace_entries")
        except RuntimeError as error:
            raise ValueError(str(error)) from error
        return list(answer["entries"])

    def end(self, session: str) -> None:
        """Let the server forget a session; a server that is gone has."""
        with suppress(RuntimeError):
            self._ask("DELETE", f"/sessions/{session}")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.admin_key}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CAPTURE_SECONDS) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer
        except urllib.error.HTTPError as error:
            reason = error.read().decode("utf-8", "replace")[:500]
            raise RuntimeError(f"the capture server answers {method} {path} with {error.code}: {reason}") from error
        except (OSError, ValueError) as error:
            raise RuntimeError(f"there is no capture server at {self.url}: {error}") from error


# the program


class ProgramAdapter(AgenticHarnessAdapter):  # type: ignore[misc]
    """A program that reads the environment's messages as lines of JSON, and writes lines of its own.

    It reads ``{"type": "message", "content": "…"}`` and may write events of OpenEnv (``{"type": "tool_call", "data":
    {…}}``); ``{"type": "turn_complete", "data": {"response": "…"}}`` ends its turn, with ``"done": true`` if it has no
    more to do. Any other line is an event ``text_output``. ``MCP_URL`` in its environment is the server of the
    environment's tools, where there are any; ``config.mcp_config_path`` gets it as ``mcpServers``.

    Args:
        config: the command, its folder and its limits; ``working_directory`` must exist.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._process: Any = None
        self._url: str | None = None

    async def inject_tools(self, tools: list[Any], bridge_url: str | None = None) -> None:
        """Keep the address of the environment's tools for the program."""
        self._url = bridge_url
        if self.config.mcp_config_path:
            servers = {"environment": {"type": "http", "url": bridge_url}} if bridge_url else {}
            Path(self.config.mcp_config_path).write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    async def start(self, working_directory: str) -> None:
        """Start the program in this folder, with the address of the tools in its environment."""
        variables = self.config.env_vars | ({"MCP_URL": self._url} if self._url else {})
        seconds = self.config.startup_timeout_s
        self._process = HarnessProcess(self.config.command, working_directory, variables, seconds)
        await self._process.start()

    async def stop(self) -> None:
        """End the program, and whatever it has started."""
        if self._process is not None:
            await self._process.stop()

    async def is_alive(self) -> bool:
        """Whether the program was started and has not ended."""
        return self._process is not None and bool(self._process.is_running())

    async def send_message_streaming(self, message: str) -> AsyncIterator[Any]:
        """What the program does in its turn, event by event."""
        await self._process.write_line(json.dumps({"type": "message", "content": message}))
        while True:
            line = await self._process.read_line()
            if line is None:
                raise HarnessError(f"the program ended in its turn: {self._process.drain_stderr()[-500:].strip()}")
            event = _event(line)
            yield event
            if event.type is HarnessEventType.TURN_COMPLETE:
                return


def _event(line: str) -> Any:
    try:
        return HarnessEvent.model_validate_json(line)
    except ValueError:
        return HarnessEvent(type=HarnessEventType.TEXT_OUTPUT, data={"text": line})


# the environment around it


class HarnessObservation(TextObservation):
    """What the environment says after a program's turn.

    Attributes:
        response: the program's answer; it was played as the action.
        events: of its turn, as it wrote them.
        capture_session: of the capture server, which has the tokens of this episode; "" without one.
    """

    response: str = ""
    events: list[dict[str, Any]] = []  # noqa: RUF012  (a field of pydantic)
    capture_session: str = ""


class EpisodeHarness(HarnessEnvironment):  # type: ignore[misc]
    """One session: an environment, the program that plays it, and the episode under way.

    ``reset`` starts the program. A step is one turn of it: it reads the ``message``, or, where that is empty, what
    the environment said last; it calls tools as it likes, and its answer is the action. The reward is that of the turn.

    Args:
        served: names the environment; its seed and options are not looked at.
        adapter: makes what runs the program, anew for each session.
        capture: the server that the program asks its model through.
        use_system: whether its first message begins with the environment's system prompt.
        reward_at_end: as in `TextEnvironment`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        served: TaskSpec,
        adapter: Callable[[], Any],
        *,
        capture: TokenCapture | None = None,
        use_system: bool = True,
        reward_at_end: bool = False,
    ) -> None:
        self._tools = FastMCP(served.env_id.rpartition("/")[2])
        super().__init__(adapter(), self._tools)
        self._variables = dict(self.adapter.config.env_vars)
        self._served, self._capture, self._use_system = served, capture, use_system
        self._reward_at_end = reward_at_end
        self._env: gym.Env[str, str] | None = None
        self._episode_id: str | None = None
        self.episode: ToolEpisode | None = None
        self.capture_session = ""
        self._fault: Verdict | None = None
        self._over = True

    async def reset_async(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        spec: str | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> HarnessObservation:
        """Begin an episode, and start the program; the arguments are those of `TextEnvironment.reset`.

        Raises:
            ValueError, TypeError: a spec of something else, or what the environment refuses.
            RuntimeError: the environment failed, or the program does not start.
        """
        self.episode, self._fault, self._episode_id, self._over = None, None, episode_id, True
        task = named_task(self._served, seed, spec, options)
        self._env = self._env or await asyncio.to_thread(native_env, task)
        make_episode = partial(ToolEpisode, task, use_system=self._use_system, env=self._env)
        try:
            episode = await asyncio.to_thread(make_episode)
        except RuntimeError:
            self._close_env()
            raise
        await self._offer(episode)
        await asyncio.to_thread(self._new_capture)
        await super().reset_async(episode_id=episode_id)
        self.episode, self._over = episode, False
        return HarnessObservation(**beginning(episode.session), capture_session=self.capture_session)

    async def _offer(self, episode: ToolEpisode) -> None:
        for old in await self._tools.list_tools():
            self._tools.local_provider.remove_tool(old.name)
        for name, tool in episode.tools.items():
            schema = tool.get("parameters") or {"type": "object", "properties": {}}
            described = tool.get("description") or name
            self._tools.add_tool(_EpisodeTool(name=name, description=described, parameters=schema, play=episode.call))

    def _new_capture(self) -> None:
        self._end_capture()
        if self._capture is not None:
            self.capture_session = self._capture.begin()
            self.adapter.config.env_vars = self._variables | self._capture.variables(self.capture_session)

    def _end_capture(self) -> None:
        session, self.capture_session = self.capture_session, ""
        if self._capture is not None and session:
            self._capture.end(session)

    async def step_async(self, action: Any, timeout_s: float | None = None, **options: Any) -> Any:
        """One turn of the program; OpenEnv's own actions list and call the environment's tools.

        Raises:
            ValueError: no episode is under way.
        """
        if not isinstance(action, HarnessAction):
            return await super().step_async(action, timeout_s=timeout_s, **options)
        episode = self.episode
        if episode is None or self._over:
            raise ValueError("no episode is under way in this session: reset it first (HTTP has no sessions, /ws has)")
        session, before = episode.session, episode.session.reward
        message = action.message or episode.words()
        turn = await super().step_async(HarnessAction(message=message), timeout_s=timeout_s)
        facts = {"events": turn.metadata.get("turn_events", []), "capture_session": self.capture_session}
        problem = turn.metadata.get("error")
        if problem and not session.done:  # a call of a tool may have ended the episode before
            return await self._failed(session, turn.metadata.get("error_type"), problem, facts)
        facts["response"] = turn.metadata.get("response", "")
        if not session.done:
            await asyncio.to_thread(episode.say, facts["response"])
        fields = standing(session, before, episode.pending, self._reward_at_end)
        if turn.done and not session.done:
            fields |= {"done": True, "truncated": True, "text": "the program ended before the task did"}
            fields["reward"] = session.reward if self._reward_at_end else fields["reward"]
        self._over = fields["done"]
        if self._over:
            await self.adapter.stop()
        if not session.valid:
            self._close_env()  # it may be broken
        return HarnessObservation(**fields, **facts)

    async def _failed(self, session: EpisodeSession, kind: Any, problem: str, facts: dict[str, Any]) -> Any:
        """The end of an episode whose program crashed or hung, which is no fault of its policy."""
        late = kind == "turn_timeout"
        self._fault = Verdict(0.0, "timeout", reason=problem) if late else env_error(problem)
        self._over = True
        fields = standing(session, 0.0, None, self._reward_at_end)
        fields |= {"done": True, "truncated": True, "reward": None, "valid": False, "text": self._fault.reason}
        fields |= {"verdict": self._fault.to_dict(), "episode_return": 0.0}
        return HarnessObservation(**fields, **facts)

    def step(self, action: Any, timeout_s: float | None = None, **options: Any) -> Any:
        """`step_async` for callers without an event loop."""
        return run_async_safely(self.step_async(action, timeout_s=timeout_s, **options))

    @property
    def verdict(self) -> Verdict | None:
        """Of the program's failure, or the environment's last."""
        return self._fault or (self.episode.session.verdict if self.episode else None)

    @property
    def state(self) -> Any:
        """Which task, and how far; nothing of its solution."""
        return state_of(self.episode.session if self.episode else None, self._episode_id)

    def close(self) -> None:
        """End the program, its tools' server and the environment."""
        super().close()
        self._end_capture()
        self._close_env()

    def _close_env(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


def harness_app(
    env_id: str,
    kwargs: Mapping[str, Any] | None = None,
    *,
    adapter: Callable[[], Any],
    capture: TokenCapture | None = None,
    max_sessions: int = MAX_SESSIONS,
    use_system: bool = True,
    reward_at_end: bool = False,
    hosts: Collection[str] = (),
) -> Any:
    """The FastAPI application that serves an environment and the programs that play it; guarded as `server_app` is.

    Args:
        env_id, kwargs, hosts: as in `server_app`.
        adapter: makes an ``AgenticHarnessAdapter`` for each session, such as ``partial(ProgramAdapter, config)``.
        max_sessions: programs at once; one more session is refused.
        capture, use_system, reward_at_end: as in `EpisodeHarness`.

    Raises:
        ImportError: OpenEnv is missing, or older than what was tested.
        ValueError: ``max_sessions`` is below 1; gymnasium's errors for an environment that cannot be made.
    """
    require(*TESTED)
    if max_sessions < 1:
        raise ValueError(f"max_sessions must be at least 1, got {max_sessions}")
    served = named_env(env_id, kwargs)
    options: dict[str, Any] = {"capture": capture, "use_system": use_system, "reward_at_end": reward_at_end}
    app = create_fastapi_app(
        partial(EpisodeHarness, served, adapter, **options),
        HarnessAction,
        HarnessObservation,
        max_concurrent_envs=max_sessions,
        env_name=served.env_id.rpartition("/")[2],
    )
    app.add_middleware(GuardedApp, hosts=hosts)
    return app
