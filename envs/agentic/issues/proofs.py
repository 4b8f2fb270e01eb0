"""The tests of a row: its proof, and the verdict on a policy's files.

The tests of a file run in a sandbox of their own that holds the policy's files and the row's own tests. They share a
process with the code that they call, so what that process reports is checked: the failing tests run again, several
times as they are, and several times with other expected values, by which right code fails (`altered_tests`). Code that
does not know the right values cannot tell which is which.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rlvr.envs.agentic.issues.altered_tests import Alteration, alterations_of, with_alterations
from rlvr.envs.agentic.issues.rows import IssueRow, NamedTest, row_files
from rlvr.envs.agentic.repositories.workspace import ending, run
from rlvr.envs.core.json_text import load_json
from rlvr.envs.core.tables import DataError
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.sandbox import Limits, Sandbox, shared

# Runs of altered tests, and of true ones that look the same. Code that lets tests pass by chance, with probability p,
# is paid with p^3 (1-p)^4, at most 0.9 %.
ALTERED_RUNS: Final = 4
TRUE_RUNS: Final = 3
_ALTERATIONS: Final = 6  # of one test that are tried
Tree = Mapping[str, str | bytes]

IN_REPOSITORY: Final = """
import json, os, sys
job = json.load(sys.stdin)
tree = os.getcwd()
roots = [os.path.join(tree, each) if each else tree for each in job["roots"]]
os.environ.update(PYTHONPATH=os.pathsep.join([*roots, sys.path[-1]]), PYTHONDONTWRITEBYTECODE="1")
del sys.path[0]  # what runs the tests is imported from where nothing of the repository is
import unittest
if job["pytest"]:
    import pytest
sys.path[:0] = roots
"""
_RUNNER: Final = """
answer, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(null, stream)
reports = {}
def last(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()] or ["it failed"]
    marked = [line[1:].strip() for line in lines if line.startswith("E  ")]
    return (marked or lines)[-1][:200]
def by_pytest(path, wanted):
    def asked(nodeid):
        return [each for each in wanted if nodeid == each or nodeid.startswith(each + "[")]
    class Reporter:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items):
            items[:] = [item for item in items if asked(item.nodeid)]
        def pytest_collectreport(self, report):
            if report.failed:
                for each in wanted:
                    reports.setdefault(each, last(report.longrepr))
        def pytest_runtest_logreport(self, report):
            for each in asked(report.nodeid):
                passed = report.passed or hasattr(report, "wasxfail")
                why = "" if passed else "it is skipped" if report.skipped else last(report.longrepr)
                reports[each] = reports.get(each) or why
    words = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "--rootdir", tree, path]
    code = pytest.main(words, plugins=[Reporter()])
    for each in wanted if code not in (0, 1, 5) else ():
        reports.setdefault(each, "pytest ends with exit code %d before it" % code)
def by_unittest(names):
    for each, dotted in names.items():
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromName(dotted).run(result)
        texts = [text for _, text in result.failures + result.errors] + ["it is skipped" for _ in result.skipped]
        reports[each] = last(texts[0]) if texts else "" if result.testsRun else "it does not run"
try:
    by_pytest(job["file"], job["tests"]) if job["file"] else by_unittest(job["tests"])
finally:
    text = json.dumps([job["nonce"], reports]).encode()
    while text:
        text = text[os.write(answer, text):]
    os._exit(0)
"""


class TestsOfFile(NamedTuple):
    """Tests of one file, which run together: node ids of pytest, or labels of unittest, whose first ``depth`` names are
    the module's, counted from the folder ``root``."""

    path: str
    is_pytest: bool
    root: str
    depth: int
    tests: tuple[NamedTest, ...]


class AlteredFile(NamedTuple):
    """The failing tests of a file, its source with some of them altered, and which."""

    file: TestsOfFile
    source: str
    tests: tuple[str, ...]


class RowProof(NamedTuple):
    """How the tests of a row run: by files, and how they are altered."""

    files: tuple[TestsOfFile, ...]
    altered: tuple[AlteredFile, ...]


def sandbox_of(row: IssueRow) -> Sandbox:
    """The sandbox with a row's dependencies.

    Raises:
        SandboxUnavailable: no tier holds on this machine.
        ValueError: the tier takes no folder of packages.
    """
    return shared(packages=(row.dependencies,) if row.dependencies else ())


def limits_of(row: IssueRow) -> Limits:
    """What a run of a row's tests may use."""
    return Limits(row.seconds, memory_mb=1536, disk_mb=256, processes=64, output_bytes=32 << 20)


def roots_of(tree: Tree) -> list[str]:
    """The folders of a repository that modules are imported from."""
    return ["", *(folder for folder in ("src", "lib") if any(path.startswith(f"{folder}/") for path in tree))]


def graded_tree(row: IssueRow, files: Mapping[str, str]) -> dict[str, str | bytes]:
    """What is graded: the policy's files, and the row's own where the policy's do not count."""
    given = row_files(row)
    tree: dict[str, str | bytes] = {path: text for path, text in given.texts.items() if not given.counts(path)}
    tree |= {path: text for path, text in files.items() if given.counts(path)} | dict(given.others)
    tree |= {path: content for path, content in given.hidden.items() if content is not None}
    return {path: content for path, content in tree.items() if given.hidden.get(path, content) is not None}


def grade(row: IssueRow, files: Mapping[str, str]) -> Verdict:
    """The verdict on the files that a policy left.

    Raises:
        ToolFault: the sandbox failed.
        DataError: the row does not hold.
    """
    proof, tree = proof_of(row), graded_tree(row, files)
    for file in proof.files:
        for test, why in _reports(row, tree, file).items():
            if why:
                return wrong(reason=f"{test} fails: {why}"[:400])
    for file, source, tests in proof.altered:
        for _ in range(TRUE_RUNS):
            if failed := [f"{test} fails: {why}" for test, why in _reports(row, tree, file).items() if why]:
                return wrong(reason=f"{failed[0]}, though it passed before"[:400])
        for _ in range(ALTERED_RUNS):
            reports = _reports(row, {**tree, file.path: source}, file)
            if not all(reports[test] for test in tests):
                return wrong(reason="a test that right code fails is reported as passed")
    return correct(reason=f"all {sum(len(file.tests) for file in proof.files)} tests pass")


@lru_cache(maxsize=512)
def proof_of(row: IssueRow) -> RowProof:
    """Run the tests before and after the row's own patch.

    Raises:
        ToolFault: the sandbox failed.
        DataError: one sentence, which names the row, the first test that is not as it should be, and why.
    """
    given = row_files(row)
    start = graded_tree(row, given.texts)
    gold = {path: text for path, text in {**given.texts, **given.gold}.items() if text is not None}
    right = graded_tree(row, gold)
    try:
        files = tuple(_by_file(row, right))
        for file in files:
            before, after = _reports(row, start, file), _reports(row, right, file)
            for test in file.tests:
                if test not in row.failing and before[test.text]:
                    raise DataError(f"{test.text} should pass before the patch and fails here: {before[test.text]}")
                if test in row.failing and not before[test.text]:
                    raise DataError(f"{test.text} should fail before the patch and passes")
                if after[test.text]:
                    raise DataError(f"{test.text} should pass with the row's patch and fails here: {after[test.text]}")
        altered = tuple(each for file in files if (each := _altered(row, right, file)).tests)
        if not altered:
            raise DataError("no test of FAIL_TO_PASS can be altered so that right code fails it, and forged results "
                            "would not be found out")  # fmt: skip
    except DataError as error:
        raise DataError(f"row {row.name}: {error}") from None
    return RowProof(files, altered)


def _altered(row: IssueRow, right: Tree, file: TestsOfFile) -> AlteredFile:
    """The failing tests of a file, altered at once, each in the first way by which right code fails it."""
    file = file._replace(tests=tuple(test for test in file.tests if test in row.failing))
    source = _source(right[file.path])
    functions: dict[tuple[str, ...], list[str]] = {}
    for test in file.tests:
        functions.setdefault(test.names[file.depth :], []).append(test.text)
    ways = {names: list(alterations_of(source, names)) for names in functions}
    left = {names: [*each[: _ALTERATIONS - 1], *each[_ALTERATIONS - 1 :][-1:]] for names, each in ways.items()}
    chosen: dict[tuple[str, ...], Alteration] = {}
    for _ in range(_ALTERATIONS + 1):
        chosen |= {names: each.pop(0) for names, each in left.items() if names not in chosen and each}
        text = with_alterations(source, chosen.values())
        reports = _reports(row, {**right, file.path: text}, file) if chosen else {}
        failed = {names: tuple(test for test in functions[names] if reports[test]) for names in chosen}
        if all(failed.values()):
            return AlteredFile(file, text, tuple(test for tests in failed.values() for test in tests))
        chosen = {names: way for names, way in chosen.items() if failed[names]}
    return AlteredFile(file, source, ())


def _source(content: str | bytes) -> str:
    return content if isinstance(content, str) else content.decode("utf-8", "replace")


def _by_file(row: IssueRow, tree: Tree) -> Iterator[TestsOfFile]:
    """The tests by their files, in the order of the row.

    Raises:
        DataError: a test is in no file.
    """
    groups: dict[tuple[str, bool, str, int], list[NamedTest]] = {}
    for test in dict.fromkeys((*row.failing, *row.passing)):
        path, root, depth = (test.file, "", 0) if test.file else _module(test, tree)
        if path not in tree:
            raise DataError(f"there is no file of the test {test.text}")
        groups.setdefault((path, bool(test.file), root, depth), []).append(test)
    for (path, is_pytest, root, depth), tests in groups.items():
        yield TestsOfFile(path, is_pytest, root, depth, tuple(tests))


def _module(test: NamedTest, tree: Tree) -> tuple[str, str, int]:
    """The file of a label of unittest, the folder that its name counts from, and how many names are the file's."""
    for depth in range(len(test.names) - 1, 0, -1):
        inner = f"{'/'.join(test.names[:depth])}.py"
        for path in sorted(tree, key=len):
            if path == inner or path.endswith(f"/{inner}"):
                return path, path.removesuffix(inner).rstrip("/"), depth
    return "", "", 0


def _reports(row: IssueRow, tree: Tree, file: TestsOfFile) -> dict[str, str]:
    """Of each test why it did not pass, "" if it did."""
    nonce, names = secrets.token_hex(8), {test.text: ".".join(test.names) for test in file.tests}
    job = {
        "nonce": nonce, "pytest": row.has_pytest, "file": file.path if file.is_pytest else "", "tests": names,
        "roots": list(dict.fromkeys([file.root, *roots_of(tree)])),
    }  # fmt: skip
    code = IN_REPOSITORY + _RUNNER
    result = run(code, tree, stdin=json.dumps(job), sandbox=sandbox_of(row), limits=limits_of(row))
    reports: Any = None
    try:
        got = load_json(result.stdout)
        reports = got[1] if got[0] == nonce and result.ok else None
    except (ValueError, TypeError, IndexError, KeyError):
        pass
    if not isinstance(reports, dict):
        words = result.stderr.strip().splitlines()[-1:] or ["its process ended without a report"]
        reports = dict.fromkeys(names, f"{words[0]} {ending(result) if not result.ok else ''}".strip())
    return {name: str(reports.get(name, "it is not found"))[:200] for name in names}
