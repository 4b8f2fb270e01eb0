"""verifiers: our environments as a plug-in of its v1 API, for `vf-eval` and prime-rl; see docs/adapters/verifiers.md.

verifiers looks for plug-ins among top-level modules, so this one goes by the id ``rlvr-gym`` (module ``rlvr_gym``)::

    vf-eval rlvr-gym --env.taskset.env rlvr/GuessNumber-v0 -n 100 -m MODEL --client.base-url URL

The agent's runtime is this machine, its program is a loop in this process, and nothing is uploaded: verifiers' own
defaults are a remote sandbox, a shell, and an upload for users who are logged in. An episode whose verdict is invalid,
or whose environment raised, is an error of the episode, which is not ``ok`` and has no reward.

``rlvr-seats`` (module ``rlvr_seats``) plays games of several seats, an agent for each: ``--env.seat-1.model OTHER``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from rlvr.adapters.rows import tasks
from rlvr.adapters.spec import EpisodeSession, TaskSpec, require_tools_in_prompt
from rlvr.adapters.versions import check_override, require
from rlvr.envs.core.registry import size_of
from rlvr.envs.players.single import SELF, OpenMatch, game_task

TESTED = ("verifiers", "0.4", "0.5")
require(*TESTED)

import verifiers.v1 as vf  # noqa: E402
from verifiers.v1.clients.base import build_async_openai  # noqa: E402

__all__ = ["InProcessHarness", "RlvrEnv", "RlvrTaskset", "SeatsEnv", "SeatsTaskset"]

UPLOADS = "PRIME_RUNS_MODE"  # Prime's own switch; "disabled" keeps `vf-eval` from opening a run on its platform
TO_A_CALL = {"tool_call_id": "call"}  # messages of tools bear one; ours answer calls that were text
RETRIES = 2  # of a request to the model, as OpenAI's client has by default


class RlvrTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # verifiers is not here when types are checked
    """Which tasks, as for `rlvr.adapters.rows`: ``env`` may name a module, ``"mine:mine/Task-v0"``,
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
        self.first = TaskSpec(env_id, config.seed, module or "rlvr", config.kwargs, trusted=False)
        env, _, info = self.first.start()
        try:
            size = size_of(env)
            require_tools_in_prompt(env_id, info)
            self._check(env)
        finally:
            env.close()
        endless = config.n is None and size is None
        self._n = sys.maxsize if endless else config.n
        if endless:
            self.__class__ = self._endless()  # prime-rl asks the class whether it ends

    def _endless(self) -> type:
        """The class of a task set without end."""
        return EndlessRlvrTaskset

    def _check(self, env: Any) -> None:
        """Refuse an environment that cannot be played so."""

    def _opening(self, messages: list[Any]) -> dict[str, Any]:
        """The fields of a task that say how its conversation begins."""
        system = messages[0]["content"] if messages[0]["role"] == "system" else None
        prompt = messages[system is not None :]
        return {"prompt": prompt if len(prompt) > 1 else prompt[0]["content"], "system_prompt": system}

    def load(self) -> Iterator[RlvrTask]:
        """The tasks, one after the other; each has its prompt and its spec."""
        for spec, messages in tasks(self.first, self._n, self.config.use_system):
            named = f"{spec.env_id}#{spec.seed}" + "".join(f"/{value}" for value in spec.options.values())
            yield RlvrTask(RlvrTaskData(name=named, spec=spec.to_json(), **self._opening(messages)), self.config.task)


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


# games of several seats, an agent for each


class SeatsTaskset(RlvrTaskset):
    """Matches of one game of several seats. The task has no prompt: each seat reads its own beginning.

    Raises:
        ValueError: as `RlvrTaskset`; the environment is no game of several seats, it has more of them than there are
            agents, or ``kwargs`` say who sits where, which is the environment's to say.
    """

    def _endless(self) -> type:
        return EndlessSeatsTaskset

    def _check(self, env: Any) -> None:
        task = game_task(env)
        if task is None:
            raise ValueError(f"{self.config.env} is no game of several seats: play it by rlvr-gym")
        if task.game.seats > len(SEATS):
            raise ValueError(f"{task.game.name} has {task.game.seats} seats, and there are agents for {len(SEATS)}")
        for name in sorted({"seat", "opponents"} & self.config.kwargs.keys()):
            raise ValueError(f"kwargs.{name}: every seat has an agent here; --env.bots gives some to bots")

    def _opening(self, messages: list[Any]) -> dict[str, Any]:
        return super()._opening(messages) | {"prompt": None}


class EndlessSeatsTaskset(SeatsTaskset):
    INFINITE = True


class SeatsEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """``trained``: the seats whose tokens train the policy; None: those that play with the run's own model and client.
    ``bots``: names of bots by seat, which have no agent and no trace."""

    trained: list[int] | None = None
    bots: dict[int, str] = {}  # noqa: RUF012
    seat_0: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_1: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_2: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_3: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_4: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_5: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_6: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_7: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})
    seat_8: vf.AgentConfig = vf.AgentConfig(runtime={"type": "subprocess"})


SEATS: Final = tuple(name for name in SeatsEnvConfig.model_fields if name.startswith("seat_"))


class SeatsEnv(vf.Env[SeatsEnvConfig]):  # type: ignore[misc]
    """One match: each seat is an agent with a conversation, a reward and a verdict of its own. Seats that move at once
    are asked together. A seat that has not been asked before the match ends has no trace.

    Raises:
        ValueError: ``trained`` or ``bots`` name a seat that the game has not, a bot that it has not, or one seat twice.
    """

    def __init__(self, config: SeatsEnvConfig) -> None:
        os.environ.setdefault(UPLOADS, "disabled")
        super().__init__(config)
        if not isinstance(self.taskset, SeatsTaskset):
            raise ValueError(f"{config.taskset.id} has no games of several seats: take --env.taskset.id rlvr-seats")
        spec = self.taskset.first
        match = _open_match(spec, config.bots)  # a bot that is misspelt must not end every episode
        for seat in config.trained or ():
            if seat not in match.open:
                open_ = ", ".join(map(str, match.open))
                raise ValueError(f"trained: seat {seat} has no agent in {spec.env_id}; these have: {open_}")

    async def setup(self, agents: Any) -> None:
        """Mark the seats whose tokens are nobody's to train on."""
        trained = self.config.trained
        for seat, name in enumerate(SEATS):
            agent_config = getattr(self.config, name)
            frozen = agent_config.model is not None or agent_config.client is not None
            getattr(agents, name).trainable = not frozen if trained is None else seat in trained

    async def run(self, task: RlvrTask, agents: Any) -> None:
        """Play the task's match; RuntimeError where the rules, a bot or a model has failed."""
        match = await asyncio.to_thread(_open_match, TaskSpec.parse(task.data.spec), self.config.bots)
        seats: dict[int, Any] = {}
        async with AsyncExitStack() as stack:
            while movers := match.to_move():
                for seat in movers:
                    if seat not in seats:
                        agent = getattr(agents, SEATS[seat])
                        seats[seat] = await stack.enter_async_context(agent.interaction(task))
                texts = {seat: match.text(seat) for seat in movers}
                segments = await asyncio.gather(*(seats[seat].turn(text) for seat, text in texts.items()))
                await asyncio.to_thread(_played, match, seats, dict(zip(movers, segments, strict=True)))
            for seat, interaction in seats.items():
                _record_seat(match, seat, interaction.trace)


def _open_match(spec: TaskSpec, bots: dict[int, str]) -> OpenMatch:
    """The match of a task; its split and chance are the environment's own."""
    env = replace(spec, kwargs={**spec.kwargs, "opponents": [SELF]}).make()
    task, base = game_task(env), env.unwrapped
    if task is None:
        raise ValueError(f"{spec.env_id} is no game of several seats")
    task.self_play = True  # nobody but the agents plays the other seats
    spec.start(env)
    return OpenMatch(task, base.get_state().state, bots)  # type: ignore[attr-defined]


def _played(match: OpenMatch, seats: dict[int, Any], segments: dict[int, Any]) -> None:
    """Play what the seats that move have written."""
    for seat, segment in segments.items():
        errors = seats[seat].trace.errors
        if segment.terminated and errors:
            raise RuntimeError(f"{SEATS[seat]}: {errors[-1].message}")  # nobody's loss
    for seat, segment in segments.items():
        if seat not in match.to_move():
            return  # another seat's forfeit has ended the match
        if segment.terminated:
            match.break_off(seat)  # a limit of the agent's: it answers no more
        else:
            match.act(seat, _last_reply(segment))


def _record_seat(match: OpenMatch, seat: int, trace: Any) -> None:
    """What one seat has earned, and the match as this seat knows it."""
    verdict, played = match.verdict(seat), match.match
    trace.record_reward("return", verdict.reward)
    trace.record_metric("success", verdict.success)
    trace.record_metric("turns", trace.num_turns)
    trace.record_metric("truncated", match.left == seat)
    trace.record_metric("forfeited", played.loser == seat)
    moves = match.task.referee.view_of_record(played, seat)
    trace.info.update(seat=seat, verdict=verdict.to_dict(), moves=moves)


class InProcessHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """The agent's program: asks the model for its next words, and nothing else. No process, no tools, no shell."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def session(self, *args: Any, **kwargs: Any) -> Chat:
        """The conversation of one rollout."""
        return Chat(self, *args, **kwargs)

    async def launch(self, *args: Any, **kwargs: Any) -> Any:
        """One reply to the task's prompt, and the end."""
        session = await self.session(*args, **kwargs)
        try:
            return await session._run(None)
        finally:
            await session.close()


class Chat(vf.HarnessSession):  # type: ignore[misc]
    """One rollout's conversation, with one client: making one costs more than a turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        system, prompt = self.harness.resolve_prompt(self.data)
        self._messages = [] if system is None else [{"role": "system", "content": system}]
        if isinstance(prompt, str):
            self._messages.append({"role": "user", "content": prompt})
        else:  # worked examples stand before the question
            self._messages += [message.model_dump(exclude_none=True) for message in prompt or ()]
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


check_override(getattr(vf.HarnessSession, "_run", None), Chat._run, TESTED)  # private: how a session takes a turn


def _last_reply(segment: Any) -> str:
    """The agent's last words as they were: ``last_reply`` is stripped of blank space."""
    replies = [message.content for message in segment.messages if message.role == "assistant"]
    return (replies[-1] if replies else None) or ""


def _require_valid(session: EpisodeSession) -> None:
    if not session.valid and session.verdict is not None:
        raise RuntimeError(f"{session.spec.env_id}: {session.verdict.status}: {session.verdict.reason}")


def _record(session: EpisodeSession, trace: Any) -> None:
    """Write the episode's return, success and turns into its trace."""
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
