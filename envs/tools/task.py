"""ToolTask: a world that is worked on through tools, many turns, then an answer. Pure, as every task is.

The tools are functions from the world to the next world and a text. What they say goes back to the policy in the
role of a tool; it is never read for an answer and earns nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, wrong
from rlvr.envs.tools.calls import Call, read_calls, write_call
from rlvr.envs.tools.tool import MAX_OUTPUT, Tool, ToolFault, example_call, instructions, named
from rlvr.envs.tools.turn import carry_out, require_call_settings

W = TypeVar("W")


class Session(NamedTuple, Generic[W]):
    """A world, the last observation, and how many calls the policy has made and may make."""

    world: W
    observation: str
    calls: int
    budget: int


class ToolTask(Task[Session[W]]):
    """Base of the worlds. A subclass sets ``toolset`` and ``task`` and writes ``begin``, ``ask``, ``judge``, ``plan``.

    Args:
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template,
            which gets their schemas from ``info["tools"]``.
        max_calls: calls an episode may make; the level decides if None.
        max_output: characters of a call's output that are shown.

    Attributes:
        toolset: the tools, made with ``tool(function, given=1)``: the world comes first. A function returns the next
            world and a text, or the text alone; it raises ``ToolError`` for a call that makes no sense.
        task: what the system prompt says before the tools.
    """

    toolset: ClassVar[Sequence[Tool]] = ()
    task: ClassVar[str] = ""

    def __init__(
        self,
        *,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> None:
        require_call_settings(tool_style, tools_in)
        if max_calls is not None and max_calls < 0:
            raise ValueError(f"max_calls must be at least 0, got {max_calls}")
        if max_output < 1:
            raise ValueError(f"max_output must be at least 1, got {max_output}")
        self.tool_style = tool_style
        self.max_calls = max_calls
        self.max_output = max_output
        self._tools = {each.name: each for each in self.toolset}
        self._names: Mapping[str, Sequence[str]] = {each.name: each.names for each in self.toolset}
        if tools_in == "system":
            self.system = f"{self.task}\n\n{instructions(self.toolset, tool_style)}"
        else:
            self.system = self.task
            self.tools = [each.schema() for each in self.toolset]

    # what a subclass writes

    def begin(self, rng: random.Random, level: int) -> W:
        """A new world of this level."""
        raise NotImplementedError

    def ask(self, world: W) -> str:
        """What the policy is asked; the first observation."""
        raise NotImplementedError

    def budget(self, level: int) -> int:
        """How many calls an episode may make."""
        return 8

    def judge(self, world: W, reply: str) -> Verdict:
        """The verdict on a reply without a call, which ends the episode."""
        raise NotImplementedError

    def plan(self, session: Session[W]) -> Call | str:
        """The expert's next call, or its final reply."""
        raise NotImplementedError(f"{type(self).__name__} has no expert")

    # the task

    def start(self, rng: random.Random, level: int) -> Session[W]:
        """A new world, its question as the first observation, and the calls that it may make."""
        return self.opened(self.begin(rng, level), level)

    def opened(self, world: W, level: int) -> Session[W]:
        """The first state of a task in this world."""
        return Session(world, self.ask(world), 0, self._allowed(level))

    def _allowed(self, level: int) -> int:
        return self.budget(level) if self.max_calls is None else self.max_calls

    def turns(self, level: int) -> int:
        """The calls, two that cannot be read, and the answer."""
        return self._allowed(level) + 3

    def observe(self, state: Session[W]) -> str:
        """The question, a tool's output, or what an answer in the world has said last."""
        return state.observation

    def apply(self, state: Session[W], action: str) -> Transition:
        """Carries out the calls of an action in order; without any, the reply is judged. A tool's fault ends it."""
        reading = read_calls(action, self.tool_style, self._names)
        if not reading.calls and not reading.problem:
            return self.reply(state, action)
        world = state.world

        def use(call: Call) -> str:
            nonlocal world
            world, text = self._use(world, call)
            return text

        try:
            result = carry_out(reading, state.calls, state.budget, use, self.max_output)
        except ToolFault as fault:
            return Transition(state, fault.verdict, terminated=True)
        return Transition(
            state._replace(world=world, observation=result.output, calls=result.calls), result.verdict, role="tool"
        )

    def reply(self, state: Session[W], action: str) -> Transition:
        """What a reply without a call leads to: the end, unless somebody in the world answers it."""
        try:
            verdict = self.judge(state.world, action)
        except ToolFault as fault:
            verdict = fault.verdict
        return Transition(state, verdict, terminated=True)

    def _use(self, world: W, call: Call) -> tuple[W, str]:
        tool = named(call.name, self._tools)
        result = tool.function(world, **tool.check(call.arguments))
        return (world, result) if isinstance(result, str) else result

    def solve(self, state: Session[W]) -> str:
        """The planned call in the task's style of calls, or the final reply."""
        step = self.plan(state)
        return step if isinstance(step, str) else write_call(step, self.tool_style, self._names.get(step.name, ()))

    def sample_action(self, state: Session[W], rng: random.Random) -> str:
        """A call of a random tool with empty or small arguments, or a boxed number."""
        drawn = rng.choice([*self.toolset, None])
        if drawn is None:
            return f"\\boxed{{{rng.randint(0, 99)}}}"
        arguments: dict[str, Any] = {name: str(rng.randint(0, 9)) for name in drawn.names}
        return write_call(Call(drawn.name, arguments), self.tool_style, drawn.names)

    def form_example(self, state: Session[W]) -> str | None:
        """A call: a reply without one is judged, or answered, as it stands. None where a template shows the form."""
        return None if self.tools else example_call(self.toolset[0], self.tool_style)

    def out_of_turns(self, state: Session[W], turns: int) -> Verdict:
        """Wrong: the policy called and called, and never replied."""
        return wrong(reason=f"{state.calls} calls in {turns} turns, and no answer")
