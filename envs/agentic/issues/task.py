"""RepoRows: issues of real repositories, from rows in SWE-bench's form and clones on disk, without an image."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.issues.proofs import IN_REPOSITORY, grade, limits_of, proof_of, roots_of, sandbox_of
from rlvr.envs.agentic.issues.rows import SOURCE, Folders, IssueRow, RowFiles, read_row, row_files
from rlvr.envs.agentic.repositories import pages, workspace
from rlvr.envs.agentic.repositories.editing import (
    Edits,
    FileTask,
    changes_between,
    edits_between,
    lines_that_differ,
    patch_of,
    patched_by,
    tools_with,
    with_edits,
)
from rlvr.envs.core.seeding import digest_of_texts
from rlvr.envs.core.tables import DataError, has_rows, load_rows
from rlvr.envs.core.verdict import Verdict, unparsable, wrong
from rlvr.envs.tools import Call, Session
from rlvr.envs.tools.tool import MAX_OUTPUT, ToolError

CALLS: Final = 60
BOUNDS: Final = workspace.Bounds(1_000_000, 20_000, 96_000_000)
_TIMES: Final = re.compile(r"\bin [\d.]+s\b( \([\d:]+\))?")
_VISIBLE: Final = """
names = job["names"]
if job["pytest"]:
    code = pytest.main(["-q", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts=", "--rootdir", tree, *names])
else:
    load = unittest.defaultTestLoader
    suite = load.loadTestsFromNames(names) if names else load.discover(".")
    code = not unittest.TextTestRunner(sys.stdout).run(suite).wasSuccessful()
sys.stdout.flush()
os._exit(int(code))
"""


class RowWorld(NamedTuple):
    """A row, and what the policy has changed."""

    row: IssueRow
    edits: Edits = ()

    @property
    def bounds(self) -> workspace.Bounds:
        """How much the repository may hold."""
        return BOUNDS

    def given(self) -> RowFiles:
        """The repository as it was given."""
        return row_files(self.row)

    def files(self) -> dict[str, str]:
        """The files as they are now."""
        return with_edits(self.given().texts, self.edits)

    def with_files(self, files: dict[str, str]) -> RowWorld:
        """The world with these files."""
        return self._replace(edits=edits_between(self.given().texts, files))


@lru_cache(maxsize=4)
def _history(row: IssueRow) -> Mapping[str, bytes]:
    """A ``.git`` folder with the base commit's files as its only commit."""
    given = row_files(row)
    commit = pages.HistoryCommit("The state at which the issue was reported", given.texts)
    return pages.git_folder([commit], given.others)


def run_tests(world: RowWorld, names: str = "") -> str:
    """Run the repository's tests, and show those that fail.

    Args:
        names: what to run, with blanks between: node ids of pytest, such as tests/test_a.py::test_b, or, where tests
            are unittest's, dotted names; all if empty.
    """
    chosen = names.split()
    if len(chosen) > 50 or any(name.startswith("-") or len(name) > 300 for name in chosen):
        raise ToolError("names must be up to 50 names of tests, such as tests/test_a.py::test_b")
    row, files = world.row, dict[str, str | bytes]({**world.files(), **world.given().others})
    job = {"pytest": row.has_pytest, "names": chosen, "roots": roots_of(files)}
    result = workspace.run(
        IN_REPOSITORY + _VISIBLE, files, stdin=json.dumps(job), sandbox=sandbox_of(row), limits=limits_of(row)
    )
    text = _TIMES.sub("", result.stdout[-20_000:] + ("" if row.has_pytest else result.stderr[-20_000:])).strip()
    return text if result.ok else f"{text}\n{workspace.ending(result)}".lstrip()


def shell(world: RowWorld, command: str) -> tuple[RowWorld, str]:
    """Run a bash command in the repository, for at most 30 seconds and without network.

    Changes of text files stay; those of .git do not.

    Args:
        command: such as "git diff", "grep -rn name .", or python3 with a program on standard input.
    """
    others = {**world.given().others, **(_history(world.row) if "git" in command else {})}
    files, output = workspace.run_command(
        world.files(), others, command, bounds=BOUNDS, sandbox=sandbox_of(world.row),
        limits=limits_of(world.row._replace(seconds=min(30.0, world.row.seconds))),
    )  # fmt: skip
    return world.with_files(files), output or "[nothing was printed]"


class RepoRows(FileTask[RowWorld]):
    """Resolve an issue of a real repository, through tools or by one patch; rows in SWE-bench's form, clones on disk.

    When a row is first drawn it is proven here: its tests fail and pass as it says before its own patch, and all pass
    with it. A row of which that is not true, because it needs an image, say, is refused.

    Observation: the issue and the files; then what each call gave.
    Actions: calls of the tools; a reply without a call hands the repository in, with the patch that it holds in a
    fence ```diff, if any.
    Reward: 1 if all tests of FAIL_TO_PASS and PASS_TO_PASS pass in fresh sandboxes with the policy's files, without its
    tests and its configuration of tests, else 0.
    Episode end: a reply without a call, or the turns are used up.
    Levels: one; the rows decide what is hard.

    Args:
        repositories: a folder of git clones, each ``owner/name``, ``owner__name`` or ``name`` in it; or a mapping of
            owner/name to a clone.
        dependencies: what the repositories and their tests import: a virtual environment, a folder that ``pip install
            --target`` made, or a mapping of ``repo`` or ``instance_id`` to one.
        data_files: a file of rows, or a folder that holds ``<split>.jsonl``; else RLVR_DATA is asked.
        split: train, validation or test.
        columns: the table's own names of the columns.
        where: only rows whose column has this value, or one of these.
        limit: only the first rows.
        hints: show the row's ``hints_text``, too.
        seconds: that the tests of one file may take.
        skip_refused: prove all rows at once and leave out those that are refused; ``refused`` says why.
        tool_style: how calls are written, one of ``rlvr.envs.tools.STYLES``.
        tools_in: ``system`` describes the tools in the system prompt; ``template`` leaves them to the chat template.
        max_calls: calls an episode may make; 60 if None.
        max_output: characters of a call's output that are shown.

    Attributes:
        rows: those that are played.
        refused: of each row that was left out, why.

    Raises:
        SandboxUnavailable: no sandbox tier holds on this machine.
        DataError: a row cannot be read, or none is left.
    """

    task = (
        "You resolve an issue of a Python repository. You see the issue, and work on the repository with tools. Hidden "
        "tests check what you hand in; your changes of tests, of conftest.py and of the configuration of tests do not "
        "count. When it is done, reply without a call: your reply hands the repository in. Instead of calling "
        "edit_file you may put a unified diff into that reply, between ```diff and ```."
    )
    toolset = tools_with(run_tests, shell)
    reads_split = True
    row_settings = frozenset(
        ("data_files", "repositories", "dependencies", "columns", "where", "limit", "skip_refused")
    )

    def __init__(
        self,
        *,
        repositories: Folders,
        dependencies: Folders | None = None,
        data_files: str | os.PathLike[str] | None = None,
        split: str | None = "test",
        columns: Mapping[str, str] | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        hints: bool = False,
        seconds: float = 120.0,
        skip_refused: bool = False,
        tool_style: str = "hermes",
        tools_in: str = "system",
        max_calls: int | None = None,
        max_output: int = 2 * MAX_OUTPUT,
    ) -> None:
        super().__init__(tool_style=tool_style, tools_in=tools_in, max_calls=max_calls, max_output=max_output)
        if split not in self.splits:
            raise ValueError(f"split must be one of {', '.join(self.splits)}, got {split!r}")
        if isinstance(seconds, bool) or not 0 < seconds <= 3600:
            raise ValueError(f"seconds must be above 0 and at most 3600, got {seconds!r}")
        rows = load_rows(SOURCE, split, data_files, columns=columns, where=where, limit=limit)
        self.rows: list[IssueRow] = []
        self.refused: dict[str, str] = {}
        for row in rows:
            try:
                self.rows.append(read_row(row, repositories, dependencies, hints, seconds))
                if skip_refused:
                    proof_of(self.rows[-1])
            except DataError as error:
                if not skip_refused:
                    raise
                self.refused[str(row["instance_id"])] = str(error)
        self.rows = [row for row in self.rows if row.name not in self.refused]
        if not self.rows:
            raise DataError(f"all {len(rows)} rows are refused; the first: {next(iter(self.refused.values()))}")
        self.size = len(self.rows)
        for chosen in self.rows:
            sandbox_of(chosen)  # which a tier may refuse to make

    @classmethod
    def has_split(cls, split: str, settings: Mapping[str, Any]) -> bool:
        """Whether ``data_files`` holds a file of it."""
        return super().has_split(split, settings) and has_rows(SOURCE, split, settings.get("data_files"))

    def row(self, index: int, rng: random.Random) -> Session[RowWorld]:
        """Row ``index``, once it is proven.

        Raises:
            DataError: one sentence says which row is refused, and why.
        """
        row = self.rows[index]
        proof_of(row)
        return Session(RowWorld(row), "", 0, self._allowed(1))

    def rows_digest(self) -> str | None:
        """Of all that the rows hold, wherever clones and dependencies lie."""
        return digest_of_texts(repr(row._replace(clone="", dependencies="", seconds=0.0)) for row in self.rows)

    def budget(self, level: int) -> int:
        return CALLS

    def content(self, state: Session[RowWorld]) -> str:
        """The row's name and commit."""
        return f"{state.world.row.name} {state.world.row.commit}"

    def ask(self, world: RowWorld) -> str:
        """The issue, and what stands in the repository's folder."""
        counts = Counter(path.partition("/")[0] + "/" * ("/" in path) for path in world.given().texts)
        listed = [f"{name} ({count} files)" if name.endswith("/") else name for name, count in sorted(counts.items())]
        return f"{world.row.issue}\n\nFiles:\n" + "\n".join(listed)

    def judge(self, world: RowWorld, reply: str) -> Verdict:
        """The row's tests on the policy's files, patched by what the reply holds."""
        try:
            files = patched_by(reply, world)
        except ToolError as error:
            return unparsable(str(error))
        if not any(world.given().counts(path) for path, _ in world.with_files(files).edits):
            return wrong(reason="nothing was changed but tests and their configuration")
        return grade(world.row, files)

    def steps(self, world: RowWorld) -> Iterator[Call | str]:
        """Look at what is to be changed, change it, and run the tests that are there; a large change is one patch."""
        given = world.given()
        edits = [step for path, after in given.gold.items() for step in _edits(path, given.texts.get(path, ""), after)]
        if len(edits) > CALLS - 3:
            yield self.direct_answer(Session(world, "", 0, 0))
        yield Call("list_files", {"folder": sorted(given.gold)[0].rpartition("/")[0] or "."})
        yield from edits
        seen = sorted({test.file for test in world.row.failing if test.file in given.texts})
        if seen:
            yield Call("run_tests", {"names": " ".join(seen)})
        yield f"I have changed {', '.join(given.gold)}, and the issue is resolved."

    def direct_answer(self, state: Session[RowWorld]) -> str:
        """The row's patch, with enough lines around each change."""
        given = state.world.given()
        return patch_of({path: (given.texts.get(path, ""), after or "") for path, after in given.gold.items()})


def _edits(path: str, before: str, after: str | None) -> Iterator[Call]:
    """The calls that make one text of another, None for a file that goes."""
    if after is None:
        yield Call("shell", {"command": f"rm {shlex.quote(path)}"})
    elif not before.strip():
        yield Call("write_file", {"path": path, "text": after})
    else:
        for old_text, new_text in changes_between(before, after):
            old, new = lines_that_differ(old_text, new_text)
            line = old_text[: old_text.index(old)].count("\n") + 1
            yield Call("view_file", {"path": path, "first_line": max(1, line - 20)})
            yield Call("edit_file", {"path": path, "old": old, "new": new})
