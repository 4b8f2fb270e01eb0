"""OpenEnv's sessions for trainers: our environments as its ``ResourceSession``, and a program's episodes with tokens.

`EnvironmentSession` is played by calls of tools, for harnesses in which the trainer samples (``MCPHarnessAdapter``,
``build_harness_rollout_func``, ``CollectRunner``). `AgentSession` runs a program that owns its loop, and gives the
tokens of its model: OpenEnv's ``TrainableSession``, as TRL's ``HarnessRolloutWorker`` asks for. See
docs/adapters/openenv.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlvr.adapters.spec import TaskSpec
from rlvr.adapters.suites.openenv import TESTED, named_env, named_task
from rlvr.adapters.suites.openenv_harness import EpisodeHarness, ProgramAdapter, TokenCapture, ToolEpisode
from rlvr.adapters.versions import require
from rlvr.envs.core.verdict import Verdict

REPLY = "reply"
REPLY_SAYS = "Say something that is no call of another tool: an answer, a move, the next message. It is the whole turn."
REPLY_SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
MAX_TURNS = 256  # of a program in one episode

try:
    from openenv.core.env_server.mcp_types import Tool
    from openenv.core.harness import (
        HarnessAction,
        ResourceSession,
        ResourceSessionFactory,
        ToolResult,
        TrainingTrace,
        VerifyResult,
    )
except ImportError:  # `require` raises it where it is used
    ResourceSession = object
    ResourceSessionFactory = dict  # anything that takes brackets


class _PlayedSession(ResourceSession):  # type: ignore[misc]
    """What both kinds of session have: the messages, the tools and the verdict of an episode."""

    _episode: ToolEpisode
    _verified_once = False

    def initial_messages(self) -> list[dict[str, Any]]:
        """The system prompt, if any, worked examples and the first observation."""
        return [dict(message) for message in self._episode.session.messages]

    def list_tools(self) -> list[Any]:
        """The environment's tools, and ``reply`` for all that is no call of one."""
        described = [
            Tool(name=name, description=tool.get("description") or name, input_schema=tool.get("parameters") or {})
            for name, tool in self._episode.tools.items()
        ]
        return [*described, Tool(name=self._reply, description=REPLY_SAYS, input_schema=REPLY_SCHEMA)]

    @property
    def _reply(self) -> str:
        return REPLY if REPLY not in self._episode.tools else f"{REPLY}_{len(self._episode.tools)}"

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Play a call, or what ``reply`` says; the reward stands in `verify` alone.

        Raises:
            KeyError: there is no such tool.
        """
        episode = self._episode
        if name != self._reply and name not in episode.tools:
            raise KeyError(f"there is no tool {name!r:.60}; there are {', '.join([*episode.tools, self._reply])}")
        if episode.session.done:
            return ToolResult(error="the episode is over", done=True)
        if name != self._reply:
            text = episode.call(name, arguments)
        elif isinstance(message := dict(arguments).get("message"), str):
            text = episode.say(message)
        else:
            return ToolResult(error=f"{name} takes a message, a text")
        return ToolResult(data=text, done=episode.session.done)

    @property
    def verdict(self) -> Verdict | None:
        """The last of the episode."""
        return self._episode.session.verdict

    def verify(self, transcript: Sequence[Mapping[str, Any]], final_state: Any = None) -> Any:
        """What the episode was worth: the sum of the environment's rewards; None where the fault was not the policy's.

        Where the transcript ends with a text of the policy without calls, and the episode is not over, that text is the
        policy's last action.
        """
        episode = self._episode
        last = transcript[-1] if transcript else {}
        ended_with_words = last.get("role") == "assistant" and not last.get("tool_calls")
        if ended_with_words and not (episode.session.done or self._verified_once):
            episode.say(str(last.get("content") or ""))
        self._verified_once = True
        return self._verified()

    def _verified(self) -> Any:
        session, verdict = self._episode.session, self.verdict
        valid = session.valid and (verdict is None or verdict.valid)
        facts = {"turns": session.turns, "valid": valid, "truncated": session.truncated or not session.done}
        return VerifyResult(
            env_reward=session.reward if valid else None,
            done=session.done,
            metrics=facts,
            artifacts={"verdict": verdict.to_dict() if verdict else None, "spec": session.spec.to_json()},
        )


class EnvironmentSession(_PlayedSession):
    """An episode that is played by calls of tools, in this process.

    Args:
        task: names the episode.
        use_system: whether the messages begin with the environment's system prompt.
    """

    def __init__(self, task: TaskSpec, *, use_system: bool = True) -> None:
        require(*TESTED)
        self._episode = ToolEpisode(task, use_system=use_system)

    def close(self) -> None:
        """Let go of what the environment holds."""
        self._episode.session.close()


class AgentSession(_PlayedSession):
    """An episode that a program plays, which owns its loop; its model's tokens are kept by OpenEnv's capture server.

    It satisfies OpenEnv's ``LoopOwningSession`` and ``TrainableSession``.

    Args:
        task: names the episode.
        adapter: makes what runs the program.
        capture: the server that the program asks its model through.
        use_system: whether its first message begins with the environment's system prompt.
        max_turns: of the program; one more ends the episode, truncated.
        episode_id: a name of its own for the episode.

    Raises:
        RuntimeError: the environment or the capture server fails.
        HarnessError: the program does not start.
    """

    def __init__(
        self,
        task: TaskSpec,
        adapter: Callable[[], Any],
        capture: TokenCapture,
        *,
        use_system: bool = True,
        max_turns: int = MAX_TURNS,
        episode_id: str | None = None,
    ) -> None:
        require(*TESTED)
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns}")
        self.harness = EpisodeHarness(task, adapter, capture=capture, use_system=use_system)
        self._capture, self._max_turns, self._over = capture, max_turns, False
        try:
            self.harness.reset(spec=task.to_json(), episode_id=episode_id)
        except BaseException:
            self.harness.close()
            raise
        if self.harness.episode is None:
            raise RuntimeError("the episode did not begin")
        self._episode, self._session = self.harness.episode, self.harness.capture_session

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Play to the end: 0, or 1 where the program or the environment failed.

        Raises:
            TimeoutError: the episode did not end in time; `verify` gives no reward then.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for _ in range(self._max_turns):
            seconds_left = None if until is None else max(0.0, until - time.monotonic())
            limit = self.harness.adapter.config.session_timeout_s
            seconds = limit if seconds_left is None else min(seconds_left, limit)
            turn = self.harness.step(HarnessAction(message=""), timeout_s=seconds)
            if turn.done:
                break
        verdict = self.harness.verdict
        if until is not None and time.monotonic() >= until and verdict is not None and verdict.status == "timeout":
            raise TimeoutError(f"the episode did not end within {timeout_s:g} seconds")
        return int(verdict is not None and not verdict.valid)

    def fetch_proxy_trace(self) -> list[dict[str, Any]]:
        """The calls of the model with the engine's tokens, as OpenEnv's ``TraceEntry``.

        The mask of an episode that is not valid is 0 everywhere, and its reward is None.

        Raises:
            ValueError: a call has no tokens, or they do not fit one another.
        """
        result, entries = self._verified(), self._capture.entries(self._session)
        for entry in entries:
            if result.env_reward is None:
                entry["loss_mask"] = [0] * len(entry["loss_mask"])
            entry["reward"] = result.env_reward
        return entries

    def fetch_training_trace(self) -> Any:
        """The same as OpenEnv's ``TrainingTrace``, which checks it.

        Raises:
            ValueError: as above.
        """
        return TrainingTrace.from_entries(self.fetch_proxy_trace())

    @property
    def verdict(self) -> Verdict | None:
        """Of the program's failure, or the environment's last."""
        return self.harness.verdict

    def verify(self, transcript: Sequence[Mapping[str, Any]], final_state: Any = None) -> Any:
        """What the episode was worth; the transcript is not looked at, since the program's answers were played."""
        return self._verified()

    def close(self) -> None:
        """End the program, the environment and the session of the capture server."""
        self.harness.close()


class _Factory(ResourceSessionFactory):  # type: ignore[misc]
    """Names the task of a session."""

    def __init__(self, env_id: str, kwargs: Mapping[str, Any] | None, use_system: bool) -> None:
        require(*TESTED)
        self._served, self._use_system = named_env(env_id, kwargs), use_system

    def _task(self, task: Any, seed: int | None) -> TaskSpec:
        """The task that ``create`` was called for.

        Raises:
            ValueError: it names none of this environment.
        """
        spec, options = _spec_of(task)
        if spec is not None:
            return named_task(self._served, None, spec, {})
        return named_task(self._served, None if "index" in options else seed, None, options)


def _spec_of(task: Any) -> tuple[str | Mapping[str, Any] | None, dict[str, Any]]:
    """A row's spec, or the options of ``reset``; a trainer may hand on a prompt, whose last message is the spec."""
    if isinstance(task, Sequence) and not isinstance(task, str) and task and isinstance(task[-1], Mapping):
        task = task[-1].get("content")
    if task is None or isinstance(task, TaskSpec):
        return (None if task is None else task.to_json()), {}
    if isinstance(task, str):
        return task, {}
    if isinstance(task, Mapping):
        if (spec := task.get("spec")) is not None:
            return spec, {}
        options = {name: task[name] for name in ("split", "level", "index") if task.get(name) is not None}
        if options and not task.keys() - options.keys() - {"id"}:
            return None, options
    raise ValueError(
        f"a task is None, a spec of rlvr.adapters.rows, a mapping with spec, or split and index; got {task!r:.200}"
    )


class EnvironmentSessionFactory(_Factory):
    """Makes an `EnvironmentSession` for each rollout.

    Args:
        env_id: perhaps with the module that registers it before a colon, as in `rlvr.adapters.rows`.
        kwargs: for ``gym.make``.
        use_system: as in `EnvironmentSession`.

    Raises:
        ImportError: OpenEnv is missing, or older than what was tested.
    """

    def __init__(self, env_id: str, kwargs: Mapping[str, Any] | None = None, *, use_system: bool = True) -> None:
        super().__init__(env_id, kwargs, use_system)

    def create(self, task: Any = None, seed: int | None = None, episode_id: str | None = None) -> EnvironmentSession:
        """A session of a task: a row's spec, a mapping with it, a prompt that is it, ``split`` and ``index``, or None.

        Raises:
            ValueError: the task is none of this environment.
        """
        return EnvironmentSession(self._task(task, seed), use_system=self._use_system)


class AgentSessionFactory(_Factory):
    """Makes an `AgentSession` for each rollout.

    Args:
        env_id, kwargs: as in `EnvironmentSessionFactory`.
        program: an OpenEnv ``HarnessConfig`` for a `ProgramAdapter`, or a function that makes another adapter.
        capture: the server that the program asks its model through.
        sampling: the policy's settings, which the program cannot change; a trainer gives its own.
        use_system, max_turns: as in `AgentSession`.
    """

    def __init__(
        self,
        env_id: str,
        kwargs: Mapping[str, Any] | None = None,
        *,
        program: Any,
        capture: TokenCapture,
        sampling: Mapping[str, Any] | None = None,
        use_system: bool = True,
        max_turns: int = MAX_TURNS,
    ) -> None:
        super().__init__(env_id, kwargs, use_system)
        self._adapter = program if callable(program) else lambda: ProgramAdapter(program.model_copy(deep=True))
        self._capture = capture if sampling is None else replace(capture, sampling=dict(sampling))
        self._max_turns = max_turns

    def create(self, task: Any = None, seed: int | None = None, episode_id: str | None = None) -> AgentSession:
        """A session of a task, which is named as in `EnvironmentSessionFactory.create`; its program is started.

        Raises:
            ValueError: the task is none of this environment.
        """
        return AgentSession(
            self._task(task, seed),
            self._adapter,
            self._capture,
            use_system=self._use_system,
            max_turns=self._max_turns,
            episode_id=episode_id,
        )
