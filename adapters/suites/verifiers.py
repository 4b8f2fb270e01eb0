"""verifiers: our environments as a plug-in of its v1 API, for `vf-eval` and prime-rl; see docs/adapters/verifiers.md.

verifiers looks for plug-ins among top-level modules, so this one goes by the id ``rlvr-gym`` (module ``rlvr_gym``)::

    vf-eval rlvr-gym --env.taskset.env rlvr/GuessNumber-v0 -n 100 -m MODEL --client.base-url URL

The agent's runtime is this machine, its program is a loop in this process, and nothing is uploaded: verifiers' own
defaults are a remote sandbox, a shell, and an upload for whoever is logged in. An episode whose verdict is invalid, or
whose environment raised, is an error of the episode, which is not ``ok`` and has no reward.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any

from rlvr.adapters.rows import tasks
from rlvr.adapters.spec import EpisodeSession, TaskSpec, require_tools_in_prompt
from rlvr.adapters.versions import require
from rlvr.envs.core.registry import size_of

TESTED = ("verifiers", "0.4", "0.5")
require(*TESTED)

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.clients.base import build_async_openai  # noqa: E402

__all__ = ["InProcessHarness", "RlvrEnv", "RlvrTaskset"]

UPLOADS = "PRIME_RUNS_MODE"  # Prime's own switch; "disabled" keeps `vf-eval` from opening a run on its platform
TO_A_CALL = {"tool_call_id": "call"}  # messages of tools bear one; ours answer calls that were text
RETRIES = 2  # of a request to the model, as OpenAI's client has by default


class RlvrTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers is not here when types are checked
    """Which tasks, as `rlvr.adapters.rows` is told: ``env`` may name a module, ``"mine:mine/Task-v0"``,
    where ``RLVR_ALLOW_CODE=1`` lets a config name code."""

    env: str = ""
    kwargs: dict[str, Any] = {}  # noqa: RUF012  (pydantic's own declaration)
    seed: int = 0
    n: int | None = None
    use_system: bool = True


class RlvrTaskData(vf.TaskData):  # type: ignore[misc]
    """A task as verifiers records it; ``spec`` rebuilds it anywhere, and holds no answer."""

    spec: str


class RlvrTask(vf.Task[RlvrTaskData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
    async def validate(self, runtime: Any) -> bool | None:
        """Whether the environment's own expert earns a verdict of success; None where it has none."""
        return await asyncio.to_thread(_solved, self.data.spec)


class RlvrTaskset(vf.Taskset[RlvrTask, RlvrTasksetConfig]):  # type: ignore[misc]
    """The tasks of one environment. Generated ones go on without end unless ``n`` bounds them.

    Raises:
        ValueError: no environment is named, ``n`` is below 1, or the environment leaves its tools to a chat template;
            when the tasks are loaded, ``n`` is above the table's size.
    """

    def __init__(self, config: RlvrTasksetConfig) -> None:
        super().__init__(config)
        if not config.env:
            raise ValueError("say which environment: --env.taskset.env rlvr/GuessNumber-v0")
        if config.n is not None and config.n < 1:
            raise ValueError(f"n must be at least 1, got {config.n}")
        module, _, env_id = config.env.rpartition(":")
        self._first = TaskSpec(env_id, config.seed, module or "rlvr", config.kwargs, trusted=False)
        env, _, info = self._first.start()
        size = size_of(env)
        env.close()
        require_tools_in_prompt(env_id, info)
        endless = config.n is None and size is None
        self._n = sys.maxsize if endless else config.n
        if endless:
            self.__class__ = EndlessRlvrTaskset  # prime-rl asks the class whether it ends

    def load(self) -> Iterator[RlvrTask]:
        """The tasks, one after the other; each has its prompt and its spec."""
        for spec, messages in tasks(self._first, self._n, self.config.use_system):
            *system, first = [message["content"] for message in messages]
            named = f"{spec.env_id}#{spec.seed}" + "".join(f"/{value}" for value in spec.options.values())
            fields = {"prompt": first, "system_prompt": system[0] if system else None}
            yield RlvrTask(RlvrTaskData(name=named, spec=spec.to_json(), **fields), self.config.task)


class EndlessRlvrTaskset(RlvrTaskset):
    INFINITE = True


class RlvrEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """``tool_role``: tools' outputs have the role ``tool``, as our policies read them; chat endpoints refuse it."""

    tool_role: bool = False
    agent: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})


class RlvrEnv(vf.Env[RlvrEnvConfig]):  # type: ignore[misc]
    """One episode: the environment says what comes next, the agent ``agent`` answers. Steps are taken in threads."""

    def __init__(self, config: RlvrEnvConfig) -> None:
        os.environ.setdefault(UPLOADS, "disabled")
        super().__init__(config)

    async def run(self, task: RlvrTask, agents: Any) -> None:
        """Play the task's episode; RuntimeError where its verdict is not valid."""
        session = await asyncio.to_thread(EpisodeSession, task.data.spec)
        try:
            _require_valid(session)
            async with agents.agent.interaction(task) as interaction:
                segment = await interaction.turn()
                while not segment.terminated:
                    message = await asyncio.to_thread(session.step, _last_reply(segment))
                    _require_valid(session)
                    if message is None:
                        break
                    as_tool = message["role"] == "tool" and self.config.tool_role
                    segment = await interaction.turn([message | TO_A_CALL] if as_tool else message["content"])
                _record(session, interaction.trace)
        finally:
            await asyncio.to_thread(session.close)


class InProcessHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """The agent's program: asks the model for its next words, and nothing else. No process, no tools, no shell."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def session(self, *given: Any, **named: Any) -> Chat:
        """The conversation of one rollout."""
        return Chat(self, *given, **named)

    async def launch(self, *given: Any, **named: Any) -> Any:
        """One reply to the task's prompt, and the end."""
        session = await self.session(*given, **named)
        try:
            return await session._run(None)
        finally:
            await session.close()


class Chat(vf.HarnessSession):  # type: ignore[misc]
    """One rollout's conversation, with one client: making one costs more than a turn."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        system, prompt = self.harness.resolve_text_prompt(self.data)
        opening = {"system": system, "user": prompt}
        self._messages = [{"role": role, "content": text} for role, text in opening.items() if text is not None]
        # The interception server's address and secret; of the model's own client, only how long to wait.
        here = vf.EvalClientConfig(base_url=self.endpoint, api_key_var="", timeout=self.ctx.client.timeout)
        self._client = build_async_openai(here).with_options(api_key=self.secret, max_retries=RETRIES)

    async def _run(self, messages: Any) -> Any:
        self._messages += [message.model_dump(exclude_none=True) for message in messages or ()]
        try:
            answer = await self._client.chat.completions.create(model=self.ctx.model, messages=self._messages)
        except Exception as error:  # verifiers knows why: the request went through it
            return vf.ProgramResult(1, "", f"{type(error).__name__}: {error}")
        reply = answer.choices[0].message.content or ""
        self._messages.append({"role": "assistant", "content": reply})
        return vf.ProgramResult(0, reply, "")

    async def close(self) -> None:
        """Close the session, and its client."""
        await super().close()
        await self._client.close()


def _last_reply(segment: Any) -> str:
    """The agent's last words as they were: ``last_reply`` is stripped of blank space."""
    replies = [message.content for message in segment.messages if message.role == "assistant"]
    return (replies[-1] if replies else None) or ""


def _require_valid(session: EpisodeSession) -> None:
    if not session.valid and session.verdict is not None:
        raise RuntimeError(f"{session.spec.env_id}: {session.verdict.status}: {session.verdict.reason}")


def _record(session: EpisodeSession, trace: Any) -> None:
    """What the episode earned."""
    if trace.errors:
        return  # the model failed
    trace.record_reward("return", session.reward)
    trace.record_metric("success", session.info.get("success", False))
    trace.record_metric("turns", session.turns)
    trace.record_metric("truncated", session.truncated or not session.done)
    if session.verdict is not None:
        trace.info["verdict"] = session.verdict.to_dict()


def _solved(spec: str) -> bool | None:
    session = EpisodeSession(spec)
    try:
        while not session.done:
            session.step(session.env.unwrapped.solve())  # type: ignore[attr-defined]
    except (AttributeError, NotImplementedError):
        return None
    finally:
        session.close()
    return bool(session.valid and session.info.get("success"))
