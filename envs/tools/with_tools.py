"""WithTools: any task, with tools to call before the answer.

``gym.make("rlvr/GSM8K-v0", tools=["python"])``. What is no call goes to the task. A call earns nothing, and what a
tool says is never read for an answer.
"""

from __future__ import annotations

import inspect
import json
import random
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import gymnasium as gym

from rlvr.envs.core.code_rule import make_env
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tools.calls import Call, read_calls
from rlvr.envs.tools.kits import Kit
from rlvr.envs.tools.registry import ToolChoice, kit_of
from rlvr.envs.tools.sessions import Handle, Sessions, when_safe
from rlvr.envs.tools.tool import MAX_OUTPUT, SessionLost, Tool, ToolError, ToolFault, example_call, instructions, named
from rlvr.envs.tools.turn import carry_out, require_call_settings

LiveSessions = dict[int, Any]  # by the number of their kit
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")


class MadeCall(NamedTuple):
    """A call: the tool's name, the arguments as JSON, and a digest of its output; no digest before it was made."""

    name: str
    arguments: str
    digest: str = ""


LOST = "lost"  # in place of a digest: the call ended its session and is not made again


class ToolsState(NamedTuple):
    """The task's own state, the last output of a tool (empty when the task speaks), the calls made, and the handle of
    their live sessions."""

    inner: Any
    tool_output: str = ""
    calls: int = 0
    made: tuple[MadeCall, ...] = ()
    live: Handle | None = None


class WithTools(Task[ToolsState]):
    """A task with tools.

    The live part, an interpreter say, belongs to one episode instance (see ``Sessions``). A fork, a copy or a restored
    episode makes its calls again in a session of its own. Each must give the output that it gave before. Where one
    twice does not, as it asks for the time, the next call is not carried out: the policy is told, and goes on in a
    fresh session.

    Args:
        task: the task.
        tools: names from ``rlvr.envs.tools.KITS``, kits, or functions with types and a docstring.
        style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt, ``template`` leaves them to the chat template,
            which gets their schemas from ``info["tools"]``.
        max_calls: calls an episode may make.
        seconds: wall time of one call.
        max_output: characters of a call's output that are shown.

    Raises:
        ValueError: an unknown tool or style, two tools of one name, or a number out of range.
        SandboxUnavailable: a tool runs code, and nothing on this machine keeps it in.
    """

    def __init__(
        self,
        task: Task[Any],
        tools: Sequence[ToolChoice],
        *,
        style: str = "hermes",
        tools_in: str = "system",
        max_calls: int = 8,
        seconds: float = 10.0,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        require_call_settings(style, tools_in)
        if isinstance(tools, str) or not isinstance(tools, Sequence):
            raise TypeError(f'tools is a list of names, kits or functions, such as ["python"], not {tools!r:.80}')
        if max_calls < 1 or seconds <= 0 or max_output < 1:
            raise ValueError("max_calls, seconds and max_output must be positive")
        self.task, self.style, self.max_calls, self.seconds, self.max_output = (
            task,
            style,
            max_calls,
            seconds,
            max_output,
        )
        self.given = tuple(tools)
        self.levels, self.splits, self.size, self.always_solvable = (
            task.levels,
            task.splits,
            task.size,
            task.always_solvable,
        )
        self.image_shape = task.image_shape
        self._prepare()
        for kit in self._kits:
            kit.require()
        system = task.system or ""
        if tools_in == "system":
            self.system = "\n\n".join(filter(None, (system, instructions(list(self._tools.values()), style))))
        else:
            self.system = system or None
            self.tools = [each.schema() for each in self._tools.values()]

    def _prepare(self) -> None:
        self._kits = [kit_of(each) for each in self.given]
        self._owner: dict[str, int] = {}
        self._tools: dict[str, Tool] = {}
        for index, kit in enumerate(self._kits):
            for each in kit.tools:
                if each.name in self._tools:
                    raise ValueError(f"two tools are called {each.name}")
                self._tools[each.name], self._owner[each.name] = each, index
        self._names = {name: each.names for name, each in self._tools.items()}
        self._known = dict(self._tools)  # a subclass may make calls of more than the policy gets
        self._sessions = Sessions[LiveSessions](partial(_close_all, self._kits))
        # for whoever drops an environment without closing it
        weakref.finalize(self, when_safe, self._sessions.clear).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        live = ("_kits", "_owner", "_tools", "_names", "_known", "_sessions")
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    # the task, as it is

    @property
    def name(self) -> str:
        """The inner task's: the same seed gives the same tasks with tools and without."""
        return self.task.name

    def start(self, rng: random.Random, level: int) -> ToolsState:
        """The inner task's state; no session is opened before the first call."""
        return ToolsState(self.task.start(rng, level))

    def row(self, index: int, rng: random.Random) -> ToolsState:
        """The inner task's row, without a session."""
        return ToolsState(self.task.row(index, rng))

    def rows_digest(self) -> str | None:
        """The inner task's."""
        return self.task.rows_digest()

    def content(self, state: ToolsState) -> str:
        """The inner task's: tools do not make another task."""
        return self.task.content(state.inner)

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        """The inner task's."""
        return self.task.enumerate_contents(level)

    def turns(self, level: int) -> int:
        """The task's own, the calls, and two that cannot be read."""
        return self.task.turns(level) + self.max_calls + 2

    def observe(self, state: ToolsState) -> str:
        """The last output of a tool, until the inner task speaks again."""
        return state.tool_output or self.task.observe(state.inner)

    def worked_examples(self, state: ToolsState) -> Sequence[tuple[str, str]]:
        """The inner task's, which call no tool."""
        return self.task.worked_examples(state.inner)

    def image(self, state: ToolsState) -> Any:
        """The inner task's, also beside a tool's output."""
        return self.task.image(state.inner)

    def solve(self, state: ToolsState) -> str:
        """The inner expert, which calls no tool."""
        return self.task.solve(state.inner)

    def direct_answer(self, state: ToolsState) -> str | None:
        return self.task.direct_answer(state.inner)

    def sample_action(self, state: ToolsState, rng: random.Random) -> str | None:
        return self.task.sample_action(state.inner, rng)

    def form_example(self, state: ToolsState) -> str | None:
        """A call after one that could not be carried out, unless a template shows the form; else the inner task's."""
        if state.tool_output:
            return None if self.tools else example_call(next(iter(self._tools.values())), self.style)
        return self.task.form_example(state.inner)

    def out_of_turns(self, state: ToolsState, turns: int) -> Verdict:
        """Closes the episode's sessions, then the inner task's verdict."""
        self._end(state)
        return self.task.out_of_turns(state.inner, turns)

    # calls

    def apply(self, state: ToolsState, action: str) -> Transition:
        """Carries out the calls on leased sessions; an action without any goes to the inner task."""
        reading = read_calls(action, self.style, self._names)
        if not reading.calls and not reading.problem:
            return self._answered(state, action)
        lease = SessionLease(self, state)
        try:
            result = carry_out(reading, state.calls, self.max_calls, lease.call, self.max_output)
        except ToolFault as fault:
            lease.close()
            return Transition(state._replace(made=tuple(lease.made), live=None), fault.verdict, terminated=True)
        except BaseException:
            lease.close()
            raise
        state = state._replace(
            tool_output=result.output, calls=result.calls, made=tuple(lease.made), live=lease.release()
        )
        return Transition(state, result.verdict, role="tool")

    def _answered(self, state: ToolsState, action: str) -> Transition:
        """What is no call goes to the task."""
        inner, verdict, terminated, role = self.task.apply(state.inner, action)
        if terminated:
            self._end(state)
        return Transition(state._replace(inner=inner, tool_output=""), verdict, terminated, role)

    def _arguments(self, call: MadeCall) -> dict[str, Any]:
        """The arguments of a call that was made, with their types."""
        return self._known[call.name].check(json.loads(call.arguments))

    def _end(self, state: ToolsState) -> None:
        """Close what the episode held."""
        live = self._sessions.take(state.live)
        if live is not None:
            _close_all(self._kits, live)

    def detached(self, state: ToolsState) -> ToolsState:
        """The state without its sessions: a copy makes its calls again before its next one."""
        return state._replace(inner=self.task.detached(state.inner), live=None)

    def close(self) -> None:
        """End what runs for episodes that nobody plays at the moment; who goes on with one gets it made again."""
        self._sessions.clear()
        for kit in self._kits:
            kit.shut()
        self.task.close()


class SessionLease:
    """The live sessions of one state while its calls are carried out: nobody else can take them meanwhile.

    Attributes:
        made: the calls made by now.
    """

    def __init__(self, task: WithTools, state: ToolsState) -> None:
        self.made = list(state.made)
        self._task, self._before = task, state.live
        self._live: LiveSessions | None = None

    def call(self, call: Call) -> str:
        """Carry out one call.

        Raises:
            ToolError: it makes no sense.
            ToolFault: the tool failed, or its session cannot be had.
        """
        used = named(call.name, self._task._tools)
        arguments = used.check(call.arguments)
        session = self.session(index := self._task._owner[call.name])
        call_text = written(call.name, call.arguments)
        try:
            output = self._task._kits[index].run(session, used, arguments, self._task.seconds)
        except SessionLost as error:
            self.made.append(call_text._replace(digest=LOST))
            self._restore(index, session)
            raise error from None
        except ToolFault:
            raise
        except Exception as error:
            self.made.append(call_text._replace(digest=_digest(_message(error))))
            raise
        self.made.append(call_text._replace(digest=_digest(output)))
        return output

    def session(self, index: int) -> Any:
        """The session of a kit, which has carried out the calls made.

        Raises:
            ToolFault: it cannot be had.
        """
        if self._live is None:
            self._live = self._task._sessions.take(self._before) or {}
        if index not in self._live:
            self._live[index] = self._replayed(index)
        return self._live[index]

    def _restore(self, index: int, lost: Any) -> None:
        """A fresh session in place of one that a call has ended, in which the other calls were made again.

        They need not give what they gave: the policy has ended the session, and that must not end its episode.

        Raises:
            ToolFault: no other session can be had, so that the call was not to blame.
        """
        kit, live = self._task._kits[index], self._live or {}
        live.pop(index, None)
        kit.close(lost)
        session = self._opened(kit)
        for number in self._numbers(index):
            self.made[number] = self._again(kit, session, self.made[number])
            if self.made[number].digest == LOST:
                kit.close(session)
                session = self._opened(kit)
        live[index] = session
        self._live = live

    def _opened(self, kit: Kit) -> Any:
        """A new session of a kit; whatever keeps it from opening is no doing of the policy.

        Raises:
            ToolFault: it cannot be had.
        """
        try:
            return kit.open()
        except ToolFault:
            raise
        except Exception as error:
            raise ToolFault(f"it does not open: {type(error).__name__}: {error}"[:500]) from error

    def _numbers(self, index: int) -> list[int]:
        """Which of the calls made a new session of a kit has to make again."""
        if not self._task._kits[index].remembers:
            return []
        owner = self._task._owner
        return [n for n, call in enumerate(self.made) if owner[call.name] == index and call.digest != LOST]

    def release(self) -> Handle | None:
        """Keep the sessions for the next state."""
        return self._before if self._live is None else self._task._sessions.give(self._live)

    def close(self) -> None:
        """End the sessions."""
        if self._live is not None:
            _close_all(self._task._kits, self._live)

    def _replayed(self, index: int) -> Any:
        """A new session, in which the calls made were made again. A second is tried where one says something else."""
        kit = self._task._kits[index]
        numbers = self._numbers(index)
        for _ in range(2):
            session = self._opened(kit)
            try:
                again = [self._again(kit, session, self.made[number]) for number in numbers]
            except BaseException:
                kit.close(session)
                raise
            differ = [n for n, call in zip(numbers, again, strict=True) if self.made[n].digest not in ("", call.digest)]
            if not differ:
                for number, call in zip(numbers, again, strict=True):
                    self.made[number] = call
                return session
            kit.close(session)
        text = f"call {differ[0] + 1}, of {self.made[differ[0]].name}, was made again in a fresh session and gave"
        self._live = {**(self._live or {}), index: self._opened(kit)}
        self.made = [call for number, call in enumerate(self.made) if number not in numbers]
        raise ToolError(
            f"not carried out: what the calls before had made is lost, for {text} another output (as the time would); "
            "the next call has the fresh session"
        )

    def _again(self, kit: Kit, session: Any, call: MadeCall) -> MadeCall:
        try:
            output = kit.run(session, self._task._known[call.name], self._task._arguments(call), self._task.seconds)
        except SessionLost:
            return call._replace(digest=LOST)
        except ToolFault:
            raise
        except Exception as error:
            output = _message(error)
        return call._replace(digest=_digest(output))


def _close_all(kits: Sequence[Kit], live: LiveSessions) -> None:
    with ExitStack() as stack:  # each, whatever becomes of the others
        for index, session in live.items():
            stack.callback(kits[index].close, session)


def _message(error: Exception) -> str:
    """What the policy reads of a call that raised."""
    return f"error: {error}" if isinstance(error, ToolError) else f"error: {type(error).__name__}: {error}"


def _digest(output: str) -> str:
    """Of an output, whatever addresses of memory it shows."""
    return blake2b(_ADDRESS.sub("", output).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def written(name: str, arguments: Mapping[str, Any]) -> MadeCall:
    """A call to be kept in a state, before it is made."""
    return MadeCall(name, json.dumps(arguments, sort_keys=True))


# environments whose tools are the endpoint's or the template's


def with_native_tools(env: gym.Env[Any, Any], settings: Mapping[str, Any], style: str | None = None) -> dict[str, Any]:
    """The settings of an environment whose tools are left to the endpoint or the chat template, and not shown in the
    system prompt, unless ``tools_in`` stands among them. Those of an environment without tools stay as they are.

    Args:
        env: made with the settings.
        style: how calls in the text are written, one of ``rlvr.envs.tools.STYLES``, where the settings name no style.

    Raises:
        ValueError: the environment has tools and no ``tools_in``.
    """
    task, chosen = getattr(env.unwrapped, "task", None), dict(settings)
    if parts := [part.env for part in getattr(task, "parts", ()) if hasattr(part, "env")]:  # of a mixture
        named = [dict(part) if isinstance(part, Mapping) else {"id": part} for part in chosen.get("envs", ())]
        pairs = zip(parts, named, strict=False)
        return chosen | {"envs": [with_native_tools(part, mapping, style) for part, mapping in pairs]}
    if hasattr(task, "given"):  # `WithTools`
        name = "tools" if "tools" in chosen else "options"  # of the world of an MCP server
        options = chosen.get(name) or {}
        options = dict(options) if isinstance(options, Mapping) else {name: options}
        return chosen | {name: {"tools_in": "template"} | ({"style": style} if style else {}) | options}
    if not hasattr(task, "tool_style"):
        return chosen
    if "tools_in" not in inspect.signature(type(task)).parameters:
        raise ValueError(
            f"{type(task).__name__} shows its tools in the text alone: its constructor takes no tools_in, see ToolTask"
        )
    return {"tools_in": "template"} | ({"tool_style": style} if style else {}) | chosen


def native_settings(env_id: str, settings: Mapping[str, Any], style: Callable[[], str] | None = None) -> dict[str, Any]:
    """`with_native_tools` of an environment by its id; ``style`` is asked where it has tools.

    Raises:
        ValueError: as `with_native_tools`.
    """
    env = make_env(env_id, **settings)
    try:
        return with_native_tools(env, settings, style() if style is not None and has_tools(env) else None)
    finally:
        env.close()


def has_tools(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment may have tools: one of somebody else's tells it at ``reset`` alone."""
    task = getattr(env.unwrapped, "task", None)
    parts = [part.env for part in getattr(task, "parts", ()) if hasattr(part, "env")]
    return task is None or hasattr(task, "given") or hasattr(task, "tool_style") or any(map(has_tools, parts))


def call_style(env: gym.Env[Any, Any]) -> str:
    """How the environment reads a call in the text; ``hermes`` where it says nothing."""
    task = getattr(env.unwrapped, "task", None)
    return str(getattr(task, "tool_style", None) or getattr(task, "style", None) or "hermes")
