"""MCPWorld: an environment of any MCP server, a list of tasks, and a function of yours that checks what came of them.

The policy works with the server's tools and ends with a reply that is no call. Then the checker looks at the reply, at
the calls that were made and, with calls of its own, at the server; its verdict is the reward. A call earns nothing.
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from rlvr.envs.core.code_rule import import_named
from rlvr.envs.core.hints import require_known
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.seeding import split_of
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, as_verdict, is_provoked, provoked_verdict, wrong
from rlvr.envs.tools import MCP, Call, ToolError, ToolFault, WithTools, write_call
from rlvr.envs.tools.with_tools import SessionLease, ToolsState, written

CHECK_SECONDS: Final = 30.0


class MCPRow(NamedTuple):
    """A row of the tasks, as JSON."""

    row: str

    @property
    def task(self) -> dict[str, Any]:
        """The task's row, read from its JSON text."""
        task: dict[str, Any] = json.loads(self.row)
        return task


@dataclass(frozen=True)
class McpOutcome:
    """What the checker is given.

    Attributes:
        task: the row.
        reply: the policy's last words.
        calls: the calls that it made, each a name and its arguments; the row's ``setup`` is not among them.
        call: makes a call of the checker's own, of any tool of the server, and gives its output; raises ``ToolError``
            where the server calls it wrong.
    """

    task: Mapping[str, Any]
    reply: str
    calls: Sequence[Call]
    call: Callable[..., str]


Checker = Callable[[McpOutcome], "Verdict | bool | float"]


class MCPWorld(WithTools):
    """Tasks that are worked on through an MCP server. ``gym.make("rlvr/MCP-v0", server=…, tasks=…, checker=…)``.

    Observation: the row's question; then what each call gave.
    Actions: calls of the server's tools; any other reply ends the episode.
    Reward: what the checker says of the reply, the calls and the server: 0 to 1.
    Episode end: a reply without a call, or the turns are used up.
    Levels: one; the rows decide what is hard.

    Args:
        server: an ``MCP`` kit, or a mapping of its arguments.
        tasks: rows, or the path of a JSONL file of them; or a mapping of these by split. Rows without a split are
            divided by their content. A row has a ``question``, and may have a ``setup`` (calls that are made before
            the policy's first, ``[{"name": …, "arguments": {…}}]``, also of tools that it does not get), a
            ``solution`` (calls, and at the end a reply as text: the expert), an ``answer`` and whatever else the
            checker reads.
        checker: a function of a ``McpOutcome``, or "module:function". It returns a ``Verdict``, True or False, or a
            reward from 0 to 1. What it raises makes the verdict invalid, unless it judges an untouched server and an
            empty reply: then the policy is to blame, and gets 0.
        system: what the policy is told before the tools.
        options: of ``rlvr.envs.tools.WithTools``: style, tools_in, max_calls, seconds, max_output.

    Raises:
        ValueError: a split without tasks, or options that do not exist; or a config names a command or a checker
            (`CodeRefused`).
        DataError: a row that cannot be read.
        ToolFault: the server does not start.
    """

    reads_split = True
    patience: ClassVar[float] = 15.0  # seconds a turn may take, for the audit: an episode's first starts a server

    def __init__(
        self,
        *,
        server: MCP | Mapping[str, Any],
        tasks: Any,
        checker: Checker | str,
        system: str = "Work with the tools until the task is done; then say so, or give the answer that is asked for.",
        options: Mapping[str, Any] | None = None,
        split: str | None = "train",
    ) -> None:
        self.checker: Checker = import_named(checker) if isinstance(checker, str) else checker
        if not isinstance(server, MCP):
            require_known("the mapping server=", server, inspect.signature(MCP).parameters)
        require_known("the mapping options=", options or {}, list(inspect.signature(WithTools).parameters)[2:])
        kit = server if isinstance(server, MCP) else MCP(**server)
        rows = _rows(tasks, split)
        super().__init__(_Rows(rows, system), [kit], **dict(options or {}))
        for row in rows:
            self._check_calls(MCPRow(row).task)

    def _check_calls(self, task: Mapping[str, Any]) -> None:
        """The calls that a row makes must be possible."""
        tools = self._server.everything
        for step in (*task.get("setup", ()), *task.get("solution", ())):
            if isinstance(step, str):
                continue
            if step["name"] not in tools:
                raise DataError(f"a task calls {step['name']!r}; the server has {', '.join(tools)}")
            try:
                tools[step["name"]].check(step.get("arguments", {}))
            except ToolError as error:
                raise DataError(f"a task makes a call that is wrong: {error}") from None
        if task.get("setup") and not self._server.remembers:
            raise ValueError("a setup needs a server that remembers: MCP(…, remembers=True)")

    @property
    def name(self) -> str:
        """``MCPWorld``: the task inside is private, and its name must not key the seeds."""
        return type(self).__name__

    def _prepare(self) -> None:
        """A setup may call what the policy does not get."""
        super()._prepare()
        (self._server,) = (kit for kit in self._kits if isinstance(kit, MCP))
        for each in self._server.everything.values():
            self._known[each.name], self._owner[each.name] = each, 0

    def row(self, index: int, rng: random.Random) -> ToolsState:
        """The calls of ``setup`` stand before those of the policy; they are made with its first."""
        inner = self.task.row(index, rng)
        setup = []
        for step in inner.task.get("setup", ()):
            used = self._server.everything[step["name"]]
            used.check(step.get("arguments", {}))
            setup.append(written(used.name, step.get("arguments", {})))
        return ToolsState(inner, made=tuple(setup))

    def _answered(self, state: ToolsState, action: str) -> Transition:
        try:
            verdict = self._checked(state, action)
        except ToolFault as fault:
            verdict = fault.verdict
        except Exception as error:
            untouched = state._replace(made=state.made[: len(state.inner.task.get("setup", ()))], calls=0, live=None)
            again = state._replace(live=None)
            if is_provoked(lambda: self._checked(again, action), lambda: self._checked(untouched, "")):
                verdict = provoked_verdict("the checker", error)
            else:
                verdict = Verdict(0.0, "verifier_error", reason=f"the checker: {type(error).__name__}: {error}"[:500])
        return Transition(state._replace(tool_output="", live=None), verdict, terminated=True)

    def _checked(self, state: ToolsState, reply: str) -> Verdict:
        server, task = self._server, state.inner.task
        lease = SessionLease(self, state)

        def call(name: str, /, **arguments: Any) -> str:
            if name not in server.everything:
                raise ValueError(f"the server has no tool {name!r}")
            used = server.everything[name]
            return server.run(session, used, used.check(arguments), CHECK_SECONDS)

        try:
            session = lease.session(0)
            own_calls = state.made[len(task.get("setup", ())) :]
            calls = [Call(each.name, self._arguments(each)) for each in own_calls]
            return as_verdict(self.checker(McpOutcome(task, reply, calls, call)), "a checker")
        finally:
            lease.close()

    def solve(self, state: ToolsState) -> str:
        """The row's next step as a call, or its last as the reply; a row without ``solution`` has no expert."""
        solution = state.inner.task.get("solution")
        if not solution:
            raise NotImplementedError("this task has no solution")
        step = solution[min(state.calls, len(solution) - 1)]
        return step if isinstance(step, str) else write_call(Call(step["name"], step.get("arguments", {})), self.style)


class _Rows(Task[MCPRow]):
    """The questions alone; every reply ends the episode, and ``MCPWorld`` judges it."""

    def __init__(self, rows: Sequence[str], system: str) -> None:
        self.rows, self.system, self.size = rows, system, len(rows)

    row_settings = frozenset(("tasks",))

    def row(self, index: int, rng: random.Random) -> MCPRow:
        return MCPRow(self.rows[index])

    def content(self, state: MCPRow) -> str:
        return state.row

    def observe(self, state: MCPRow) -> str:
        return str(state.task["question"])

    def apply(self, state: MCPRow, action: str) -> Transition:
        return Transition(state, wrong(reason="not checked"), terminated=True)


def _rows(tasks: Any, split: str | None) -> list[str]:
    """The rows of a split, each as JSON with sorted keys."""
    divided = isinstance(tasks, Mapping)
    if divided and split is not None and split not in tasks:
        raise ValueError(f"there are no tasks for the split {split!r}; there are {', '.join(tasks)}")
    parts = [tasks] if not divided else [tasks[split]] if split is not None else list(tasks.values())
    rows = [_checked_row(row, number) for part in parts for number, row in enumerate(_read(part), 1)]
    if not divided and split is not None:
        rows = [row for row in rows if split_of(row) == split]
    if not rows:
        raise ValueError(f"no task is of the split {split!r}; give more, or a mapping of tasks by split, or split=None")
    return rows


def _read(tasks: Any) -> list[Any]:
    if not isinstance(tasks, str | Path):
        return list(tasks)
    try:
        lines = Path(tasks).read_text(encoding="utf-8").splitlines()
        return [load_json(line) for line in lines if line.strip()]
    except ValueError as error:
        raise DataError(f"{tasks} is no JSONL file: {error}") from None


def _checked_row(row: Any, number: int) -> str:
    if not isinstance(row, Mapping) or not isinstance(row.get("question"), str) or not row["question"].strip():
        raise DataError(f'task {number} needs a "question", a text')
    for key, last in (("setup", False), ("solution", True)):
        steps = row.get(key, [])
        if not isinstance(steps, list):
            raise DataError(f'task {number}: "{key}" must be a list')
        for index, step in enumerate(steps):
            reply = last and index == len(steps) - 1 and isinstance(step, str)
            called = isinstance(step, Mapping) and isinstance(step.get("name"), str)
            if not reply and not (called and isinstance(step.get("arguments", {}), Mapping)):
                raise DataError(f'task {number}: "{key}" holds a step that is no {{"name": …, "arguments": {{…}}}}')
    try:
        return json.dumps(dict(row), sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"task {number} is no JSON: {error}") from None
