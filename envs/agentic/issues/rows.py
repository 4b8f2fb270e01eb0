"""Rows in SWE-bench's form: an issue, a commit of a clone on disk, a patch, and the tests that tell."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.issues.git_trees import trees
from rlvr.envs.agentic.repositories.workspace import checked_path
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import DataError, Source
from rlvr.envs.tools.tool import ToolError

SOURCE: Final = Source(
    folder="swe_bench",
    hub=None,
    revision="",
    columns=("instance_id", "repo", "patch", "problem_statement", "FAIL_TO_PASS"),
    optional=("base_commit", "test_patch", "hints_text", "PASS_TO_PASS"),
)
Folders = str | os.PathLike[str] | Mapping[str, str]

_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_MIRROR: Final = re.compile(r"[\w.-]+/([\w.-]+?)__([\w.-]+)\.([0-9a-f]{7,40})")  # SWE-smith's repo
_REPO: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_NODE: Final = re.compile(r"([^:\s][^:]*\.py)::(.+)", re.DOTALL)
_LABEL: Final = re.compile(r"(\w+) \(([\w.]+)\)")
_CONFIGURATION: Final = frozenset(
    "conftest.py sitecustomize.py usercustomize.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg "
    "pyproject.toml pytest.py unittest.py".split()
)
_FOLDERS: Final = frozenset("test tests pytest _pytest pluggy unittest".split())
_TEST: Final = re.compile(r"test_.*\.py|.*_test\.py|tests?\.py")


class NamedTest(NamedTuple):
    """A test: the text of the row, the file of a node id of pytest ("" for a label of unittest), and its names."""

    text: str
    file: str
    names: tuple[str, ...]


class IssueRow(NamedTuple):
    """A row that was read. ``clone`` and ``dependencies`` are folders, the latter "" for none; ``is_bug`` says that
    the patch makes the fault, as SWE-smith has it; ``seconds`` is what the tests of one file may take."""

    name: str
    clone: str
    commit: str
    patch: str
    test_patch: str
    issue: str
    failing: tuple[NamedTest, ...]
    passing: tuple[NamedTest, ...]
    dependencies: str
    is_bug: bool
    seconds: float

    @property
    def has_pytest(self) -> bool:
        """Whether the dependencies hold pytest."""
        return bool(self.dependencies) and Path(self.dependencies, "pytest").is_dir()


class RowFiles(NamedTuple):
    """What a row's repository holds.

    Attributes:
        texts: what the policy gets, by path.
        others: the files that are no text.
        gold: what the row's own patch makes of them, None for a file that is gone.
        hidden: what comes with the tests, None for a file that goes.
    """

    texts: Mapping[str, str]
    others: Mapping[str, bytes]
    gold: Mapping[str, str | None]
    hidden: Mapping[str, bytes | None]

    def counts(self, path: str) -> bool:
        """Whether a change of a file is graded: tests, and what decides how tests run, are the row's own."""
        *folders, name = path.split("/")
        if path in self.hidden or name in _CONFIGURATION or name.endswith((".pth", ".egg-link")):
            return False
        if path in self.gold:
            return True
        installed = any(folder.endswith((".dist-info", ".egg-info")) for folder in folders)
        return not (installed or _TEST.fullmatch(name) or _FOLDERS.intersection(folders))


def read_row(
    row: Mapping[str, Any], repositories: Folders, dependencies: Folders | None, hints: bool, seconds: float
) -> IssueRow:
    """A row with the folders that it needs.

    Raises:
        DataError: one sentence, which names the row.
    """
    name = str(row["instance_id"])
    try:
        texts = {key: row.get(key) or "" for key in ("repo", "base_commit", "patch", "test_patch", "hints_text")}
        texts["problem_statement"] = row["problem_statement"]
        if strange := [key for key, value in texts.items() if not isinstance(value, str)]:
            raise DataError(f"{strange[0]} must be a text, got {texts[strange[0]]!r:.80}")
        repo, commit, is_bug = texts["repo"], texts["base_commit"].strip(), False
        if not commit and (mirror := _MIRROR.fullmatch(repo)):  # SWE-smith
            repo, commit, is_bug = f"{mirror[1]}/{mirror[2]}", mirror[3], True
        if not _REPO.fullmatch(repo):
            raise DataError(f"repo must be owner/name, got {repo!r:.80}")
        if not _COMMIT.fullmatch(commit):
            raise DataError(f"base_commit must be the hash of a commit, got {commit!r:.80}")
        failing = _tests("FAIL_TO_PASS", row["FAIL_TO_PASS"])
        if not failing:
            raise DataError("FAIL_TO_PASS names no test, so that nothing would tell whether the issue is resolved")
        passing = _tests("PASS_TO_PASS", row.get("PASS_TO_PASS") or [])
        issue = texts["problem_statement"] + (f"\n\nHints:\n{texts['hints_text']}" if hints else "")
        read = IssueRow(
            name, _clone(repo, repositories), commit, texts["patch"], texts["test_patch"], issue.rstrip(), failing,
            passing, _packages(name, repo, dependencies), is_bug, seconds,
        )  # fmt: skip
        node = next((test.text for test in (*failing, *passing) if test.file), None)
        if node is not None and not read.has_pytest:
            where = f"dependencies={read.dependencies or None!r}"
            raise DataError(f"the test {node!r:.120} needs pytest, and {where} has none: pip install --target it there")
    except DataError as error:
        raise DataError(f"row {name}: {error}") from None
    return read


def _tests(column: str, value: Any) -> tuple[NamedTest, ...]:
    if isinstance(value, str):
        try:
            value = load_json(value)
        except ValueError:
            raise DataError(f"{column} is neither a list nor the JSON of one: {value!r:.80}") from None
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise DataError(f"{column} must be a list of texts, got {value!r:.80}")
    return tuple(named_test(each) for each in dict.fromkeys(value))


def named_test(text: str) -> NamedTest:
    """A test as rows name it.

    Raises:
        DataError: it is neither a node id of pytest nor a label of unittest.
    """
    if node := _NODE.fullmatch(text):
        try:
            return NamedTest(text, checked_path(node[1]), tuple(node[2].partition("[")[0].split("::")))
        except ToolError as error:
            raise DataError(str(error)) from None
    if label := _LABEL.fullmatch(text):
        names = label[2].split(".")
        return NamedTest(text, "", tuple(names if names[-1] == label[1] else [*names, label[1]]))
    raise DataError(
        f"the test {text!r:.120} is neither a node id of pytest, tests/test_a.py::test_b, nor a label of unittest, "
        "test_b (tests.test_a.ATest)"
    )


# folders


def _clone(repo: str, repositories: Folders) -> str:
    owner, _, name = repo.partition("/")
    if isinstance(repositories, Mapping):
        candidates = [Path(repositories[repo]).expanduser()] if repo in repositories else []
    else:
        root = Path(repositories).expanduser()
        candidates = [root / repo, root / f"{owner}__{name}", root / name, root / f"{name}.git"]
    for path in candidates:
        if (path / ".git").exists() or (path / "HEAD").is_file():
            return str(path.resolve())
    looked = ", ".join(map(str, candidates)) or "the mapping repositories="
    raise DataError(f"there is no clone of {repo} in {looked}: git clone it there")


def _packages(row: str, repo: str, dependencies: Folders | None) -> str:
    """The folder to import from: that of a virtual environment, or what ``pip install --target`` made."""
    chosen = dependencies.get(row, dependencies.get(repo)) if isinstance(dependencies, Mapping) else dependencies
    if chosen is None:
        return ""
    path = Path(chosen).expanduser()
    if (path / "pyvenv.cfg").is_file():
        path = Path(next(iter(glob(f"{path}/lib/python3*/site-packages")), path / "site-packages"))
    if not path.is_dir():
        raise DataError(f"dependencies={str(chosen)!r} is no folder: pip install --target makes one")
    return str(path.resolve())


# files


@lru_cache(maxsize=8)
def row_files(row: IssueRow) -> RowFiles:
    """The files of a row, out of its clone.

    Raises:
        DataError: one sentence, which names the row.
    """
    try:
        return _row_files(row)
    except (DataError, ToolError) as error:
        raise DataError(f"row {row.name}: {error}") from None


def _row_files(row: IssueRow) -> RowFiles:
    if not row.patch.strip():
        raise DataError("patch is empty, so that nothing shows that the issue can be resolved")
    base, fixed, tested = trees(row.clone, row.commit, (row.patch, row.test_patch))
    if row.is_bug:
        base, fixed, tested = fixed, base, fixed
    hidden = {path: tested.get(path) for path in {*base, *tested} if base.get(path) != tested.get(path)}
    if not hidden:  # the tests are there already: SWE-smith takes those that fail out of the policy's sight
        hidden = {test.file: base[test.file] for test in row.failing if test.file in base}
        base = {path: content for path, content in base.items() if path not in hidden}
    texts, others, gold = dict[str, str](), dict[str, bytes](), dict[str, str | None]()
    for path, content in base.items():
        text = _text(content)
        if text is None:
            others[path] = content
        else:
            texts[path] = text
    for path in sorted({*base, *fixed} - hidden.keys()):
        if base.get(path) != fixed.get(path):
            text = _text(fixed[path]) if path in fixed else None
            if path in others or (path in fixed and text is None):
                raise DataError(f"the patch changes {path}, which is no text")
            gold[checked_path(path)] = text
    _require_no_copy(row, gold)
    return RowFiles(texts, others, gold, hidden)


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _require_no_copy(row: IssueRow, gold: Mapping[str, str | None]) -> None:
    """Refuse folders in which programs of the sandbox could read the fix."""
    for path in gold:
        inner = re.sub(r"^(src|lib)/", "", path)
        if row.dependencies and path.endswith(".py") and Path(row.dependencies, inner).is_file():
            raise DataError(f"dependencies holds a copy of {inner}, which may have the fix: uninstall that package")
    for folder in filter(None, (row.dependencies, sys.base_prefix, "/usr")):
        if Path(row.clone).is_relative_to(os.path.realpath(folder)):
            raise DataError(f"the clone {row.clone} lies in {folder}, which programs in the sandbox can read: move it")
