"""The table of foreign frameworks: its pins are readable, its tests exist, and the docs show what it says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def runner():
    found = importlib.util.spec_from_file_location("adapters_runner", HERE / "run.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_each_framework_has_pins_and_tests(runner):
    for name, entry in runner.read_frameworks().items():
        assert entry["direction"] in ("out", "in", "both", "engine"), name
        if "install" in entry:
            assert "==" in " ".join(entry["install"]), f"{name} is not pinned"
            for test in map(runner.ROOT.joinpath, runner.test_files(name, entry)):
                assert "foreign" in test.read_text() or "vllm" in test.read_text(), f"{test} has no test marked foreign"


def test_the_docs_show_the_table(runner):
    import json

    results = json.loads(runner.RESULTS.read_text())
    expected = runner.table(runner.read_frameworks(), results)
    assert expected in runner.PAGE.read_text(), "run: python tests/adapters/run.py --table"
    assert f"\n{runner.pages()}\n" in runner.PAGE.read_text(), "run: python tests/adapters/run.py --table"


def test_each_adapter_has_a_page_pins_and_tests(runner):
    """So adding one takes its file, a section of frameworks.toml, its page and its test."""
    files = [
        path.stem for folder in ("trainers", "suites") for path in (runner.ROOT / "adapters" / folder).glob("*.py")
    ]
    helpers = {"__init__", "renderers"}  # of verifiers and prime-rl, with their page and pins
    helpers |= {"openenv_harness", "openenv_sessions"}  # of openenv
    plain = {"datasets"}  # no framework
    for name in set(files) - helpers:
        assert (runner.ROOT / "docs" / "adapters" / f"{name}.md").exists(), f"{name} has no page"
        assert (HERE / f"test_{name}.py").exists(), f"{name} has no tests"
        assert name in plain or name in runner.read_frameworks(), f"{name} has no section in frameworks.toml"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('package = "x"', "lacks direction, surface, tested"),
        ('package = "x"\nsurface = ""\ndirection = "in"\ntested = ""\ninstal = []', "has no instal"),
        ('package = "x"\nsurface = ""\ndirection = "in"\ntested = ""', "either what to install"),
    ],
)
def test_what_the_table_cannot_say(runner, tmp_path, text, complaint):
    path = tmp_path / "frameworks.toml"
    path.write_text(f"[x]\n{text}\n")
    with pytest.raises(SystemExit, match=complaint):
        runner.read_frameworks(path)


def test_what_fails_is_in_the_table(runner):
    entry = {"package": "x", "surface": "s", "direction": "in", "tested": "t", "install": ["x==1"]}
    result = {"version": "1", "date": "2026-01-02"}
    passed = runner.table({"x": entry}, {"x": {**result, "outcome": "passed", "passed": 3}})
    assert passed.endswith("| `x` | 1 | s | in | t | 3 tests passed, 2026-01-02 |")
    assert runner.table({"x": entry}, {"x": {**result, "outcome": "failed"}}).endswith("failed, 2026-01-02 |")
    assert runner.table({"x": entry}, {}).endswith("not run yet |")
    cannot = {key: entry[key] for key in ("package", "surface", "direction", "tested")} | {"cannot": "no GPU"}
    assert runner.table({"x": cannot}, {}).endswith("not run: no GPU |")


def test_a_report_of_skipped_tests_alone_is_no_success(runner, tmp_path):
    (tmp_path / "test_x.py").write_text("import pytest\n@pytest.mark.skip\ndef test_x(): ...\n")
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "--rootdir", tmp_path, tmp_path]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert runner.count(report) == {"passed": 0, "failed": 0, "skipped": 1}


@pytest.mark.parametrize(
    ("code", "passed", "skipped", "expected", "outcome"),
    [
        (0, 3, 0, {}, "passed"),
        (0, 3, 2, {"skipped": 2}, "passed"),
        (0, 3, 2, {}, "failed: 2 tests skipped, and frameworks.toml says 0"),
        (0, 5, 0, {"skipped": 2}, "passed"),
        (1, 3, 0, {}, "failed"),
        (0, 0, 3, {"skipped": 3}, "failed"),
    ],
)
def test_skipped_tests_that_nobody_declared_are_a_failure(runner, code, passed, skipped, expected, outcome):
    counts = {"passed": passed, "failed": 0, "skipped": skipped}
    assert runner.judge(code, counts, expected) == outcome
    assert runner.judge(2, {}, expected) == "failed"


def test_the_newest_release_is_the_framework_without_its_pin_and_nothing_else(runner):
    for name, entry in runner.read_frameworks().items():
        if "install" not in entry:
            continue
        before, after = "\n".join(entry["install"]), "\n".join(runner.newest(entry)["install"])
        gone = set(before.split()) - set(after.split())
        packages = [need.partition("==")[0].partition("[")[0].replace("_", "-") for need in gone]
        assert packages == [entry["package"]], name
        assert before.count("==") == after.count("==") + 1, name


def test_the_workflow_of_each_week_tries_every_framework_pinned_and_newest(runner):
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((runner.ROOT / ".github" / "workflows" / "adapters.yml").read_text())
    (job,) = workflow["jobs"].values()
    matrix = job["strategy"]["matrix"]
    assert matrix["framework"] == [name for name, entry in runner.read_frameworks().items() if "install" in entry]
    assert matrix["releases"] == ["pinned", "newest"]
    assert workflow[True]["schedule"]  # YAML 1.1 reads the key ``on`` so
    pythons = job["steps"][1]["with"]["python-version"].split()
    asked = {entry["python"] for entry in runner.read_frameworks().values() if "python" in entry}
    assert asked <= set(pythons)
    assert f'requires-python = ">={pythons[-1]}"' in (runner.ROOT / "pyproject.toml").read_text()
    command = job["steps"][2]["run"]
    assert "tests/adapters/run.py" in command
    for option in ("--newest", "--discard"):
        assert option in command
        assert f'"{option}"' in (HERE / "run.py").read_text()


def test_an_unknown_interpreter_is_none(runner):
    assert runner.find_python("9.99") is None
    assert runner.find_python(None) == sys.executable
