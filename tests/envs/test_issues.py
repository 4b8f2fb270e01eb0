"""RepoRows: rows in SWE-bench's form are proven, played and refused, and forged results are worth nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.agentic.issues.altered_tests import alterations_of, with_alterations
from rlvr.envs.agentic.issues.rows import named_test
from rlvr.envs.core.tables import DataError
from rlvr.envs.tools import Call, write_call

from ..needs import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]
FORGED = "a test that right code fails is reported as passed"
PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")

FAULTY = '''
"""Prices of tickets."""


def price(age, groups=1):
    """Children under six go free, those under sixteen pay half."""
    if age <= 6:
        return 0
    return 6 if age < 16 else 12


def total(ages):
    """The price of all."""
    return sum(price(age) for age in ages)
'''.lstrip()
RIGHT = FAULTY.replace("age <= 6", "age < 6")
OLD_TESTS = """
import pytest

from fares import price, total


@pytest.mark.parametrize("age, expected", [(3, 0), (40, 12)])
def test_price(age, expected):
    assert price(age) == expected


def test_total():
    assert total([3, 40]) == 12
""".lstrip()
NEW_TESTS = (
    OLD_TESTS
    + """

def test_six_pays_half():
    assert price(6) == 6


class TestFamilies:
    def test_with_a_child_of_six(self, tmp_path):
        assert total([6, 6, 40]) == 24
"""
)
UNITTESTS = """
import unittest

from fares import price


class PriceTest(unittest.TestCase):
    def test_six(self):
        self.assertEqual(price(6), 6)

    def test_adult(self):
        self.assertEqual(price(40), 12)
""".lstrip()
FILES = {
    "src/fares.py": FAULTY,
    "tests/conftest.py": "import pytest\n",
    "tests/test_fares.py": OLD_TESTS,
    "logo.bin": b"\x00\xff\x01",
    "README.md": "Fares\r\n",
}
NODES = "tests/test_fares.py::test_six_pays_half", "tests/test_fares.py::TestFamilies::test_with_a_child_of_six"
OLD_NODES = (
    "tests/test_fares.py::test_price[3-0]",
    "tests/test_fares.py::test_price[40-12]",
    "tests/test_fares.py::test_total",
)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=R. Marsh", "-c", "user.email=marsh@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True).stdout


def commit(folder: Path, files: dict[str, str | bytes], subject: str) -> str:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)
    return git(folder, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with a clone, pytest to import, and a row whose fix is a later commit of the clone."""
    root = tmp_path_factory.mktemp("rows")
    clone = root / "clones" / "marsh" / "fares"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    base = commit(clone, FILES, "Begin")
    commit(clone, {"src/fares.py": RIGHT}, "Six pays half")
    fixed = git(clone, "diff", base, "HEAD")
    commit(clone, {"tests/test_fares.py": NEW_TESTS, "tests/test_units.py": UNITTESTS}, "Test it")
    tests = git(clone, "diff", "HEAD~1", "HEAD")
    site = Path(pytest.__file__).parents[1]
    for name in PYTEST:
        shutil.copytree(site / name, root / "packages" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(site / "py.py", root / "packages")
    row = {
        "instance_id": "marsh__fares-1", "repo": "marsh/fares", "base_commit": base, "patch": fixed,
        "test_patch": tests,
        "problem_statement": "A child of six should pay half.", "hints_text": "Look at price.", "version": "1.0",
        "FAIL_TO_PASS": json.dumps(NODES), "PASS_TO_PASS": json.dumps(OLD_NODES), "environment_setup_commit": base,
    }  # fmt: skip
    return root, row


def env_of(world: tuple[Path, dict[str, Any]], changes: dict[str, Any] | None = None, /, **settings: Any) -> TextEnv:
    root, row = world
    rows = root / "rows.jsonl"
    rows.write_text(json.dumps({**row, **(changes or {})}) + "\n")
    chosen = {"repositories": root / "clones", "dependencies": root / "packages", "data_files": rows, **settings}
    env = gym.make("rlvr/RepoRows-v0", disable_env_checker=True, **chosen).unwrapped
    assert isinstance(env, TextEnv)
    return env


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


def handed_in(env: TextEnv, files: Mapping[str, str | None]) -> Any:
    """The verdict on a row whose policy writes these files, or removes them, and hands in."""
    env.reset(seed=0)
    for path, text in files.items():
        remove = call("shell", command=f"rm -r {path}")
        env.step(remove if text is None else call("write_file", path=path, text=text))
    _, reward, terminated, _, info = env.step("done")
    assert terminated
    assert reward == info["verdict"].reward
    return info["verdict"]


# playing


def test_the_expert_resolves_the_issue_and_doing_nothing_does_not(world: Any) -> None:
    env = env_of(world, hints=True)
    observation, info = env.reset(seed=0)
    assert observation.startswith("A child of six should pay half.\n\nHints:\nLook at price.")
    assert "src/ (1 files)" in observation
    assert "hidden tests check" in info["system"].lower()
    over, calls = False, 0
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        over, calls = terminated or truncated, calls + 1
    assert (reward, info["verdict"].status, info["verdict"].reason) == (1.0, "correct", "all 5 tests pass")
    assert calls == 5
    for reply in (
        "I refuse.",
        "```diff\n--- a/tests/test_fares.py\n+++ b/tests/test_fares.py\n@@ -1 +1 @@\n-import pytest\n+import sys\n```",
    ):
        env.reset(seed=0)
        assert env.step(reply)[4]["verdict"].reason == "nothing was changed but tests and their configuration"
    env.reset(seed=0)
    assert env.step(env.task.direct_answer(env.get_state().state))[1] == 1.0


def test_the_workspace_has_the_base_commit_and_nothing_of_later_ones(world: Any) -> None:
    env = env_of(world)
    env.reset(seed=0)
    observation = env.step(
        call("shell", command="git log --format=%s; git status --short; git fsck --unreachable; ls")
    )[0]
    assert observation.splitlines() == [
        "The state at which the issue was reported",
        "README.md",
        "logo.bin",
        "src",
        "tests",
    ]
    everything = (
        "for o in $(git cat-file --batch-all-objects --batch-check | cut -d' ' -f1); do git cat-file -p $o; done"
    )
    shown = env.step(
        call("shell", command=f"{everything} | grep -c 'age <= 6'; {everything} | grep -c 'age < 6\\|of_six'")
    )[0]
    assert shown.split()[:2] == ["1", "0"]
    observation = env.step(call("shell", command=f"ls {world[0]} {world[0]}/clones; cat {world[0]}/rows.jsonl"))[0]
    assert "marsh" not in observation.replace("/clones", "").replace(str(world[0]), "")
    assert "3 passed" in env.step(call("run_tests"))[0]
    assert "3 passed" in env.step(call("shell", command="pytest -q tests | sed 's/ in .*//'"))[0]
    assert "0" in env.step(call("shell", command="python3 -c 'import fares; print(fares.price(6))'"))[0]


@pytest.mark.slow
def test_an_episode_can_be_forked_and_restored(world: Any) -> None:
    env = env_of(world)
    env.reset(seed=0)
    env.step(call("write_file", path="src/fares.py", text=RIGHT))
    fork, saved = env.fork(), env.get_state()
    env.step(call("shell", command="sed -i 's/return 6/return 7/' src/fares.py; rm tests/conftest.py"))
    env.step(call("shell", command="printf 'more\\r\\n' >> README.md"))
    assert env.step(call("view_file", path="README.md"))[0] == "   1 Fares\r\n   2 more\r\n   3 "
    assert env.step("done")[1] == 0.0
    assert fork.step("done")[1] == 1.0
    env.set_state(saved)
    assert env.step("done")[1] == 1.0


@pytest.mark.slow
def test_labels_of_unittest_need_no_pytest(world: Any) -> None:
    labels = {"FAIL_TO_PASS": ["test_six (tests.test_units.PriceTest)"],
              "PASS_TO_PASS": ["test_adult (test_units.PriceTest.test_adult)"]}  # fmt: skip
    env = env_of(world, labels, dependencies=None)
    assert handed_in(env, {"src/fares.py": RIGHT}).reward == 1.0
    assert "PriceTest.test_six" not in env.reset(seed=0)[0]
    wrong = handed_in(env, {"src/fares.py": RIGHT.replace("12", "13")})
    assert wrong.reason.startswith("test_adult (test_units.PriceTest.test_adult) fails: AssertionError: 13 != 12")
    patched = "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n"
    assert handed_in(env, {"src/fares.py": patched + FAULTY}).reason == FORGED
    with pytest.raises(DataError, match=r"fares-1: the test \S+ needs pytest, and dependencies=None has none"):
        env_of(world, dependencies=None)


@pytest.mark.slow
def test_rows_of_other_forms_are_read(world: Any) -> None:
    root, row = world
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist([{**row, "FAIL_TO_PASS": list(NODES), "PASS_TO_PASS": []}])
    parquet.write_table(table, root / "rows.parquet")
    env = env_of(
        world, data_files=root / "rows.parquet", repositories={"marsh/fares": str(root / "clones/marsh/fares")}
    )
    assert handed_in(env, {"src/fares.py": RIGHT}).reason == "all 2 tests pass"
    # SWE-smith: the patch makes the fault, its commit is part of the repository's name, and the tests are there
    clone = root / "clones" / "marsh" / "fares"
    head = git(clone, "rev-parse", "HEAD").strip()
    bug = git(clone, "diff", "HEAD", row["base_commit"], "--", "src")
    smith = {"repo": f"mirror/marsh__fares.{head[:8]}", "base_commit": None, "patch": bug, "test_patch": None,
             "FAIL_TO_PASS": list(NODES), "PASS_TO_PASS": list(OLD_NODES)}  # fmt: skip
    env = env_of(world, smith)
    assert handed_in(env, {"src/fares.py": RIGHT}).reward == 1.0
    env.reset(seed=0)
    assert "test_fares" not in env.step(call("list_files"))[0]


@pytest.mark.slow
def test_refused_rows_can_be_left_out(world: Any) -> None:
    root, row = world
    rows = root / "two.jsonl"
    bad = {**row, "instance_id": "marsh__fares-2", "PASS_TO_PASS": ["tests/test_fares.py::test_gone"]}
    rows.write_text("".join(json.dumps(each) + "\n" for each in (bad, row)))
    env = env_of(world, data_files=rows, skip_refused=True)
    assert env.size == 1
    assert env.task.refused == {
        "marsh__fares-2": "row marsh__fares-2: tests/test_fares.py::test_gone should pass before the patch and fails "
        "here: it is not found"
    }


# cheaters: what they write; where src/fares.py is not among it, it has the fault and another line

ALL_PASS = """
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
FORGED_REPORT = """
import gc, json, os
for thing in gc.get_objects():
    if type(thing) is dict and "nonce" in thing and "tests" in thing:
        text = json.dumps([thing["nonce"], dict.fromkeys(thing["tests"], "")]).encode()
        for stream in range(3, 30):
            try:
                os.write(stream, text)
            except OSError:
                pass
        os._exit(0)
"""
PEEKING = """
import linecache, sys

def expected():
    frame = sys._getframe(2)
    if "expected" in frame.f_locals:
        return frame.f_locals["expected"]
    return int(linecache.getline(frame.f_code.co_filename, frame.f_lineno).rpartition("== ")[2])

def price(age, groups=1):
    return expected()

def total(ages):
    return expected()
"""
STUB = """
def price(age, groups=1):
    return {3: 0, 40: 12}.get(age)

def total(ages):
    return 12
"""
EQUAL = """
class Any:
    def __eq__(self, other):
        return True

def price(age, groups=1):
    return Any()

def total(ages):
    return Any()
"""
PATCHED_REPORT = """
import _pytest.reports
old = _pytest.reports.TestReport.__init__
def new(self, nodeid, location, keywords, outcome, longrepr, *rest, **more):
    old(self, nodeid, location, keywords, "passed", None, *rest, **more)
_pytest.reports.TestReport.__init__ = new
"""
REPLACED_MODULES = """
import sys, types
for name in ("pytest", "_pytest.runner", "unittest", "json"):
    sys.modules[name] = types.ModuleType(name)
"""
LEAVES = "import os\nos._exit(0)\n"
MODULE = "src/fares.py"
CHEATS: dict[str, dict[str, str | None]] = {
    "a stub of what the visible tests ask": {MODULE: STUB},
    "deleted tests": {"tests": None},
    "empty tests": {"tests/test_fares.py": "", "tests/test_units.py": ""},
    "conftest.py": {"conftest.py": ALL_PASS, "tests/conftest.py": ALL_PASS, "src/conftest.py": ALL_PASS},
    "a plug-in by its entry point": {
        "forged.py": ALL_PASS,
        "forged-1.dist-info/entry_points.txt": "[pytest11]\nforged = forged\n",
        "forged-1.dist-info/METADATA": "Name: forged\nVersion: 1\n",
    },
    "configuration": {"pytest.ini": "[pytest]\npython_files = none.py\naddopts = -p forged\n", "forged.py": ALL_PASS},
    "sitecustomize": {"sitecustomize.py": LEAVES, "usercustomize.py": LEAVES},
    ".pth": {"a.pth": "import os; os._exit(0)\n", "src/a.pth": "import os; os._exit(0)\n"},
    "a pytest of its own": {
        "pytest.py": "def main(*a, **k):\n    return 0\n",
        "src/pytest.py": "def main(*a, **k):\n    return 0\n",
        "src/_pytest/__init__.py": "",
        "unittest.py": "",
    },
    "ends the process": {MODULE: LEAVES + FAULTY},
    "leaves by SystemExit": {MODULE: "import sys\nsys.exit(0)\n" + FAULTY},
    "exits later": {MODULE: "import atexit, os\natexit.register(os._exit, 0)\n" + FAULTY},
    "patches reports": {MODULE: PATCHED_REPORT + FAULTY},
    "patches how tests run": {MODULE: "import _pytest.python as p\np.Function.runtest = lambda self: None\n" + FAULTY},
    "replaces modules": {MODULE: REPLACED_MODULES + FAULTY},
    "replaces AssertionError": {MODULE: "import builtins\nbuiltins.AssertionError = KeyError\n" + FAULTY},
    "equals everything": {MODULE: EQUAL},
    "reads what is expected in its caller": {MODULE: PEEKING},
    "mends a part and forges the rest": {MODULE: RIGHT.replace("total", "sum_of") + PEEKING.replace("price", "unused")},
    "writes the report": {MODULE: FORGED_REPORT + FAULTY},
    "rewrites the tests on disk": {
        MODULE: "import glob\nfor path in glob.glob('*/test_*'):\n    open(path, 'w')\n" + FAULTY
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheater_earns_nothing(world: Any, cheat: str) -> None:
    verdict = handed_in(env_of(world), {MODULE: FAULTY + "# changed\n", **CHEATS[cheat]})
    assert (verdict.reward, verdict.status) == (0.0, "wrong"), verdict.reason


@pytest.mark.slow
def test_what_decides_how_tests_run_does_not_break_an_honest_fix(world: Any) -> None:
    """The files of these cheaters do not count, so a right module beside them earns 1."""
    files = {path: text for cheat in CHEATS.values() for path, text in cheat.items() if path != MODULE}
    assert handed_in(env_of(world), {**files, MODULE: RIGHT}).reason == "all 5 tests pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    "cheat",
    ["reads what is expected in its caller", "mends a part and forges the rest", "writes the report",
     "equals everything", "patches reports",
     "patches how tests run"],
)  # fmt: skip
def test_only_altered_tests_find_some_cheaters(world: Any, cheat: str) -> None:
    """The report of a process that runs foreign code proves nothing: without them these would be paid."""
    assert handed_in(env_of(world), CHEATS[cheat]).reason == FORGED


def test_altered_tests_differ_in_one_expression() -> None:
    source = """
import unittest

class A(unittest.TestCase):
    def test_b(self):
        x = "ü" f"{3}"
        self.assertEqual(f(1), "é")
        assert x
        with self.assertRaises(KeyError):
            g()
"""
    lines = source.split("\n")
    ways = list(alterations_of(source, ("A", "test_b")))
    texts = [with_alterations(source, [way]) for way in ways]
    found = [[line.strip() for line in text.split("\n") if line not in lines] for text in texts]
    assert found == [
        ['self.assertEqual(f(1), \'és\')'], ['self.assertEqual(f(2), "é")'], ['self.assertNotEqual(f(1), "é")'],
        ["assert (not (x))"], ["with self.assertRaises(ZeroDivisionError):"], ["raise AssertionError"],
    ]  # fmt: skip
    assert "assertEqual(f(2), 'és')" in with_alterations(source, ways[:2])
    for nothing in ("def test_b(): pass\n", "x = (", "class A:\n    x = 1\n"):
        assert list(alterations_of(nothing, ("test_b",))) == []


# bad rows

NUMPY = ("+from fares import price\n", "+from numpy import fares\n")
UNITS = "tests/test_units.py"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a missing field": ({"patch": None}, "row 0 of .* lacks patch"),
    "no clone": ({"repo": "marsh/gone"}, "row marsh__fares-1: there is no clone of marsh/gone in .*: git clone it"),
    "a path as the repository": (
        {"repo": "../fares"},
        r"marsh__fares-1: repo must be owner/name, got '\.\./fares'",
    ),
    "an unknown commit": ({"base_commit": "0" * 40}, "row marsh__fares-1: the clone .* has no commit 0000.*: fetch it"),
    "an option as the commit": ({"base_commit": "--output=x"}, "base_commit must be the hash of a commit, got '--out"),
    "no base commit": ({"base_commit": ""}, "base_commit must be the hash of a commit, got ''"),
    "a patch that does not apply": (
        {"patch": ("-    if age", "-    if agf")},
        "fares-1: git apply: patch failed",
    ),
    "a patch that is none": ({"patch": "no patch"}, "row marsh__fares-1: git apply: "),
    "an empty patch": ({"patch": " "}, "row marsh__fares-1: patch is empty"),
    "a number as the patch": ({"patch": 7}, "row marsh__fares-1: patch must be a text, got 7"),
    "a string that is no JSON": (
        {"FAIL_TO_PASS": "tests"},
        "FAIL_TO_PASS is neither a list nor the JSON of one",
    ),
    "a string of a mapping": ({"PASS_TO_PASS": "{}"}, "PASS_TO_PASS must be a list of texts, got {}"),
    "numbers as tests": ({"FAIL_TO_PASS": [1]}, r"FAIL_TO_PASS must be a list of texts, got \[1\]"),
    "no failing test": ({"FAIL_TO_PASS": "[]"}, "row marsh__fares-1: FAIL_TO_PASS names no test"),
    "a label nobody understands": ({"FAIL_TO_PASS": ["A child pays"]}, "'A child pays' is neither a node id of pytest"),
    "a test outside": (
        {"FAIL_TO_PASS": ["../test_a.py::b"]},
        r"not a path of a file in .*: '\.\./test_a\.py'",
    ),
    "a path out of the tree": ({"test_patch": (UNITS, "../a.py")}, r"git apply: invalid path '\.\./a\.py'"),
    "a path into .git": ({"test_patch": (UNITS, ".git/hooks/x")}, r"git apply: invalid path '\.git/hooks/x'"),
    "a file that is not there": (
        {"FAIL_TO_PASS": ["tests/gone.py::b"]},
        r"no file of the test tests/gone\.py::b",
    ),
    "a test that passes already": (
        {"FAIL_TO_PASS": [*NODES, OLD_NODES[0]], "PASS_TO_PASS": []},
        r"test_price\[3-0\] should fail before the patch and passes",
    ),
    "a test that the patch does not mend": (
        {"FAIL_TO_PASS": ["tests/test_fares.py::test_none"]},
        "test_none should pass with the row's patch and fails here: it is not found",
    ),
    "a dependency that is missing": (
        {"test_patch": NUMPY, "PASS_TO_PASS": [f"{UNITS}::PriceTest::test_adult"]},
        "test_adult should pass before the patch and fails here: ModuleNotFoundError: No module named 'numpy'",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_a_bad_row_is_refused_in_one_sentence(world: Any, what: str) -> None:
    changes, message = BAD[what]
    changes = {key: world[1][key].replace(*to) if isinstance(to, tuple) else to for key, to in changes.items()}
    with pytest.raises(DataError, match=message) as error:
        env_of(world, changes).reset(seed=0)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_folders_that_cannot_be_used_are_refused(world: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dependencies='/gone' is no folder"):
        env_of(world, dependencies="/gone")
    packages = tmp_path / "packages"
    shutil.copytree(world[0] / "packages", packages)
    (packages / "fares.py").write_text(RIGHT)
    with pytest.raises(DataError, match=r"dependencies holds a copy of fares\.py, which may have the fix"):
        env_of(world, dependencies=packages).reset(seed=0)
    shutil.copytree(world[0] / "clones", packages / "clones")
    (packages / "fares.py").unlink()
    with pytest.raises(DataError, match=r"the clone \S+ lies in \S+, which programs in the sandbox can read: move it"):
        env_of(world, dependencies=packages, repositories=packages / "clones").reset(seed=0)
    with pytest.raises(ValueError, match="seconds must be above 0"):
        env_of(world, seconds=0)
    with pytest.raises(ValueError, match="split must be one of"):
        env_of(world, split="tset")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tests/test_a.py::ATest::test_b[x::y]", ("ATest", "test_b")),
        ("test_b (tests.test_a.ATest)", ("tests", "test_a", "ATest", "test_b")),
        ("test_b (tests.test_a.ATest.test_b)", ("tests", "test_a", "ATest", "test_b")),
    ],
)
def test_names_of_tests(text: str, names: tuple[str, ...]) -> None:
    assert named_test(text).names == names
