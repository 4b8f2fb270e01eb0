"""Tasks that are done by changing files: tools that read and edit them, and a patch in the last reply."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher, unified_diff
from itertools import count
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from rlvr.envs.agentic.repositories import workspace
from rlvr.envs.rewards.extraction import visible_text
from rlvr.envs.sandbox import probes
from rlvr.envs.tools import Call, Session, Tool, ToolTask, tool
from rlvr.envs.tools.tool import MAX_OUTPUT, ToolError

MAX_VIEWED: Final = 100  # lines of a file that are shown at once
MAX_MATCHES: Final = 40
MAX_PATCH: Final = 100_000  # characters
_PATCH: Final = re.compile(r"^```(?:diff|patch)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class FileWorld(Protocol):
    """A world that is a folder of texts."""

    @property
    def bounds(self) -> workspace.Bounds:
        """How much the folder may hold."""

    def files(self) -> dict[str, str]:
        """The files as they are now."""

    def with_files(self, files: dict[str, str]) -> Self:
        """The world with these files."""


W = TypeVar("W", bound=FileWorld)
Edits = tuple[tuple[str, str | None], ...]  # a text by path, None for a file that is gone


def with_edits(given: Mapping[str, str], edits: Edits) -> dict[str, str]:
    """Files after edits."""
    files: dict[str, str | None] = {**given, **dict(edits)}
    return {path: text for path, text in files.items() if text is not None}


def edits_between(given: Mapping[str, str], files: Mapping[str, str]) -> Edits:
    """The edits that make files of those that were given."""
    edits: dict[str, str | None] = {path: text for path, text in files.items() if given.get(path) != text}
    edits |= dict.fromkeys(path for path in given if path not in files)
    return tuple(sorted(edits.items()))


def list_files(world: FileWorld, folder: str = ".") -> str:
    """List the files of a folder and of those below it, each with its number of lines.

    Args:
        folder: a path, or "." for all.
    """
    prefix = "" if folder.strip("/ ") in ("", ".") else f"{folder.strip('/ ').removeprefix('./')}/"
    lines = [f"{path} ({text.count(chr(10))} lines)" for path, text in sorted(world.files().items())
             if path.startswith(prefix)]  # fmt: skip
    return "\n".join(lines) or f"there are no files below {folder}"


def view_file(world: FileWorld, path: str, first_line: int = 1) -> str:
    """Show 100 lines of a file, with their numbers.

    Args:
        path: a file of the repository.
        first_line: where to begin.
    """
    files = world.files()
    if workspace.checked_path(path) not in files:
        raise ToolError(f"there is no file {path[:80]}")
    lines = files[workspace.checked_path(path)].split("\n")
    start = max(1, min(first_line, len(lines)))
    shown = [f"{number:4} {line}" for number, line in enumerate(lines[start - 1 :][:MAX_VIEWED], start)]
    left = len(lines) - start - MAX_VIEWED + 1
    return "\n".join([*shown, *([f"[{left} more lines]"] if left > 0 else [])])


def search_text(world: FileWorld, text: str) -> str:
    """Find the lines of all files that hold a text, exactly as it is written.

    Args:
        text: what to look for, on one line.
    """
    if not text.strip():
        raise ToolError("there is nothing to look for")
    matches = [
        f"{path}:{number}: {line.strip()}"
        for path, content in sorted(world.files().items())
        for number, line in enumerate(content.split("\n"), 1)
        if text in line
    ]
    more = [f"[{len(matches) - MAX_MATCHES} more]"] if len(matches) > MAX_MATCHES else []
    return "\n".join([*matches[:MAX_MATCHES], *more]) or "no line has it"


def edit_file(world: W, path: str, old: str, new: str) -> tuple[W, str]:
    """Replace a text that occurs exactly once in a file, which may be several lines.

    Args:
        path: a file of the repository.
        old: what stands there, with its blanks.
        new: what shall stand there.
    """
    plain = workspace.checked_path(path)
    return world.with_files(workspace.replaced(world.files(), plain, old, new, world.bounds)), f"{plain} is changed"


def write_file(world: W, path: str, text: str) -> tuple[W, str]:
    """Write a whole file, new or in the place of one that is there.

    Args:
        path: a path in the repository.
        text: all that it shall hold.
    """
    plain = workspace.checked_path(path)
    files = workspace.written(world.files(), plain, text, world.bounds)
    return world.with_files(files), f"{plain} has {len(text)} characters"


class FileTask(ToolTask[W]):
    """Change files with tools, or by a patch in the reply that hands them in; a subclass says what for.

    Args:
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template.
        max_calls: calls an episode may make; the level decides if None.
        max_output: characters of a call's output that are shown.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
    """

    patience: ClassVar[float] = 15.0  # seconds a turn may take, for the audit: it runs programs

    def __init__(
        self,
        *,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = 2 * MAX_OUTPUT,
    ) -> None:
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        probes.require()

    def observe(self, state: Session[W]) -> str:
        """The issue and the files at first; then a tool's output."""
        return state.observation or self.ask(state.world)

    def plan(self, session: Session[W]) -> Call | str:
        """The next of the steps of a careful person, by the number of calls so far."""
        steps = list(self.steps(session.world))
        return steps[min(session.calls, len(steps) - 1)]

    def steps(self, world: W) -> Iterator[Call | str]:
        """The calls that do the work, and the reply that hands it in."""
        raise NotImplementedError


def tools_with(*functions: Any) -> tuple[Tool, ...]:
    """The tools that read and edit files, and those that work on the world in other ways."""
    return tuple(tool(function, given=1) for function in (*_EDITING, *functions))


_EDITING: Final = (list_files, view_file, search_text, edit_file, write_file)


def patched_by(reply: str, world: FileWorld) -> dict[str, str]:
    """The files of a world after the patches that a reply holds, each in a fence ```diff.

    Raises:
        ToolError: one of them does not fit.
    """
    files = world.files()
    for patch in _PATCH.findall(visible_text(reply)[:MAX_PATCH]):
        try:
            files = workspace.patched(files, patch, world.bounds)
        except ToolError as error:
            raise ToolError(f"the patch does not fit: {error}"[:300]) from None
    return files


def patch_of(pairs: Mapping[str, tuple[str, str]]) -> str:
    """A reply that changes texts, by their paths, from the first of each pair to the second; "" is a new one's."""
    lines: list[str] = []
    for path, (before, after) in pairs.items():
        names = (f"a/{path}" if before else "/dev/null", f"b/{path}")
        lines += unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=8)
    return "```diff\n" + "\n".join(lines) + "\n```"


def lines_that_differ(faulty: str, right: str) -> tuple[str, str]:
    """The lines that differ, with as many around them as make them the only ones."""
    old, new = faulty.split("\n"), right.split("\n")
    pairs = enumerate(zip(old, new, strict=False))
    start = next((index for index, pair in pairs if pair[0] != pair[1]), min(len(old), len(new)))
    behind = 0
    while old[-1 - behind] == new[-1 - behind] and behind < min(len(old), len(new)) - start - 1:
        behind += 1
    for wider in count():
        first = max(0, start - wider)
        ends = (len(old) - max(0, behind - wider), len(new) - max(0, behind - wider))
        before = "\n".join(old[first : ends[0]])
        if before and faulty.count(before) == 1:
            return before, "\n".join(new[first : ends[1]])
    raise AssertionError("unreachable")


def changes_between(old: str, new: str) -> Iterator[tuple[str, str]]:
    """A text before and after each of the changes that make the other of it, from its end to its beginning."""
    lines, wanted = old.split("\n"), new.split("\n")
    for tag, start, end, first, last in reversed(SequenceMatcher(None, lines, wanted, False).get_opcodes()):
        if tag != "equal":
            before = "\n".join(lines)
            lines[start:end] = wanted[first:last]
            yield before, "\n".join(lines)
