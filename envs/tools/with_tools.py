"""WithTools: any task, with tools to call before the answer.

``gym.make("rlvr/GSM8K-v0", tools=["python"])``. What is no call goes to the task. A call earns nothing, and what a
tool says is never read for an answer.
"""

from __future__ import annotations

import json
import random
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.tools.calls import STYLES, Call, read_calls
from rlvr.envs.tools.kits import KITS, Kit
from rlvr.envs.tools.sessions import Sessions
from rlvr.envs.tools.tool import MAX_OUTPUT, Tool, ToolError, ToolFault, instructions, named
from rlvr.envs.tools.turn import carry_out

Made = tuple[str, str]  # a call: the tool's name, and its arguments as JSON, so that calls are cheap to compare


class Working(NamedTuple):
    """The task's own state, what a tool said last (empty when the task speaks), and the calls made."""

    inner: Any
    said: str = ""
    calls: int = 0
    made: tuple[Made, ...] = ()
    episode: int = 0


class WithTools(Task[Working]):
    """A task with tools.

    The live part, an interpreter say, is found again by the calls that it has carried out (see ``Sessions``); a fork
    or a restored episode makes them again. That is exact as far as the tools are: code that asks for the time or for
    randomness may say something else the second time.

    Args:
        task: the task.
        tools: names from ``rlvr.envs.tools.KITS``, or kits.
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
        tools: Sequence[str | Kit],
        *,
        style: str = "hermes",
        tools_in: str = "system",
        max_calls: int = 8,
        seconds: float = 10.0,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        if style not in STYLES:
            raise ValueError(f"style {style!r} is none of {', '.join(STYLES)}")
        if tools_in not in ("system", "template"):
            raise ValueError(f"tools_in {tools_in!r} is neither system nor template")
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
        said = task.system or ""
        if tools_in == "system":
            self.system = "\n\n".join(filter(None, (said, instructions(list(self._tools.values()), style))))
        else:
            self.system = said or None
            self.tools = [each.schema() for each in self._tools.values()]

    def _prepare(self) -> None:
        self._kits = [_kit(each) for each in self.given]
        self._owner: dict[str, int] = {}
        self._tools: dict[str, Tool] = {}
        for place, kit in enumerate(self._kits):
            for each in kit.tools:
                if each.name in self._tools:
                    raise ValueError(f"two tools are called {each.name}")
                self._tools[each.name], self._owner[each.name] = each, place
        self._names = {name: each.names for name, each in self._tools.items()}
        self._known = dict(self._tools)  # a subclass may make calls of more than the policy gets
        self._sessions = [Sessions[Any](kit.close) for kit in self._kits]
        for sessions in self._sessions:  # for whoever drops an environment without closing it
            weakref.finalize(self, sessions.clear).atexit = False

    def __getstate__(self) -> dict[str, Any]:
        live = ("_kits", "_owner", "_tools", "_names", "_known", "_sessions")
        return {name: value for name, value in self.__dict__.items() if name not in live}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    # the task, as it is

    @property
    def name(self) -> str:
        return self.task.name

    def start(self, rng: random.Random, level: int) -> Working:
        return Working(self.task.start(rng, level), episode=rng.getrandbits(62))

    def row(self, index: int, rng: random.Random) -> Working:
        return Working(self.task.row(index, rng), episode=rng.getrandbits(62))

    def content(self, state: Working) -> str:
        return self.task.content(state.inner)

    def enumerate_contents(self, level: int) -> Sequence[str] | None:
        return self.task.enumerate_contents(level)

    def turns(self, level: int) -> int:
        """The task's own, the calls, and two that cannot be read."""
        return self.task.turns(level) + self.max_calls + 2

    def observe(self, state: Working) -> str:
        return state.said or self.task.observe(state.inner)

    def image(self, state: Working) -> Any:
        return self.task.image(state.inner)

    def solve(self, state: Working) -> str:
        return self.task.solve(state.inner)

    def direct_answer(self, state: Working) -> str | None:
        return self.task.direct_answer(state.inner)

    def sample_action(self, state: Working, rng: random.Random) -> str | None:
        return self.task.sample_action(state.inner, rng)

    def out_of_turns(self, state: Working, turns: int) -> Verdict:
        self._end(state)
        return self.task.out_of_turns(state.inner, turns)

    # calls

    def apply(self, state: Working, action: str) -> Transition:
        reading = read_calls(action, self.style, self._names)
        if not reading.calls and not reading.problem:
            return self._answered(state, action)
        made = list(state.made)

        def use(call: Call) -> str:
            used = named(call.name, self._tools)
            arguments = used.check(call.arguments)
            before = tuple(made)
            made.append(written(call.name, call.arguments))
            return self._run(state.episode, before, made[-1], arguments)

        try:
            heard = carry_out(reading, state.calls, self.max_calls, use, self.max_output)
        except ToolFault as fault:
            verdict = Verdict(0.0, "timeout" if fault.status == "timeout" else "env_error", reason=str(fault)[:500])
            return Transition(state._replace(made=tuple(made)), verdict, terminated=True)
        return Transition(
            state._replace(said=heard.said, calls=heard.calls, made=tuple(made)), heard.verdict, role="tool"
        )

    def _answered(self, state: Working, action: str) -> Transition:
        """What is no call goes to the task."""
        inner, verdict, terminated, role = self.task.apply(state.inner, action)
        if terminated:
            self._end(state)
        return Transition(state._replace(inner=inner, said=""), verdict, terminated, role)

    def _run(self, episode: int, before: tuple[Made, ...], call: Made, arguments: dict[str, Any]) -> str:
        """Carry out a call in the session that has carried out those before it."""
        place = self._owner[call[0]]
        with self._session(episode, place, before, (*before, call)) as session:
            return self._kits[place].run(session, self._known[call[0]], arguments, self.seconds)

    def _arguments(self, call: Made) -> dict[str, Any]:
        """The arguments of a call that was made, with their types."""
        return self._known[call[0]].check(json.loads(call[1]))

    @contextmanager
    def _session(self, episode: int, place: int, past: Sequence[Made], after: Sequence[Made] | None) -> Iterator[Any]:
        """A kit's session that lived through ``past``, kept as one that lived through ``after``; None: ended."""
        kit, sessions = self._kits[place], self._sessions[place]
        own = self._own(place, past)
        session = sessions.take((episode, own))
        fresh = session is None
        if fresh:
            session = kit.open()
        keep = False
        try:
            for call in own if fresh else ():
                with suppress(ToolError):
                    kit.run(session, self._known[call[0]], self._arguments(call), self.seconds)
            yield session
            keep = after is not None
        except ToolError:
            keep = after is not None
            raise
        finally:
            if not keep:
                kit.close(session)
            elif session is not None:
                sessions.give((episode, self._own(place, after or ())), session)

    def _own(self, place: int, made: Sequence[Made]) -> tuple[Made, ...]:
        """Of some calls those that a kit's session has to have lived through."""
        if not self._kits[place].remembers:
            return ()
        return tuple(made) if len(self._kits) == 1 else tuple([x for x in made if self._owner[x[0]] == place])

    def _end(self, state: Working) -> None:
        """Close what the episode held."""
        for place, (kit, sessions) in enumerate(zip(self._kits, self._sessions, strict=True)):
            session = sessions.take((state.episode, self._own(place, state.made)))
            if session is not None:
                kit.close(session)

    def close(self) -> None:
        """End what runs for episodes that nobody plays at the moment; who goes on with one gets it made again."""
        for kit, sessions in zip(self._kits, self._sessions, strict=True):
            sessions.clear()
            kit.shut()
        self.task.close()


def written(name: str, arguments: Mapping[str, Any]) -> Made:
    """A call to be kept in a state."""
    return name, json.dumps(arguments, sort_keys=True)


def _kit(given: str | Kit) -> Kit:
    if isinstance(given, Kit):
        return given
    if given not in KITS:
        raise ValueError(f"there is no tool {given!r}; there are {', '.join(KITS)}")
    return KITS[given]()
