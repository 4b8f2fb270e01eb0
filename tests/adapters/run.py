"""Each foreign framework in a virtual environment of its own, its adapter's tests in it, and the table in the docs.

    python tests/adapters/run.py [trl verl …] [--fresh] [--discard]   # those frameworks, or all: make test-adapters
    python tests/adapters/run.py --newest [trl verl …]                # with the newest releases; the table stays
    python tests/adapters/run.py --table                              # the table alone, from the last results

No two trainers fit one environment, so they are built one after the other under .venvs/ from the pins in
frameworks.toml, and kept until those pins change. A framework counts as failed when more of its tests were
skipped than stands there.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = Path(__file__).with_name("frameworks.toml")
VENVS = ROOT / ".venvs"
RESULTS = ROOT / "benchmarks" / "results" / "adapter_tests.json"
PAGE = ROOT / "docs" / "adapters.md"
BEGIN, END = "<!-- table: python tests/adapters/run.py --table -->", "<!-- end of table -->"
LIST_BEGIN, LIST_END = "<!-- pages: python tests/adapters/run.py --table -->", "<!-- end of pages -->"
TOOLS = ["pytest>=8", "pytest-timeout>=2", "hypothesis>=6"]
FIELDS = {"package", "surface", "direction", "tested"}
OPTIONAL = {"install", "python", "test", "variables", "skipped", "cannot"}
TEST_SECONDS = 1_800


def read_frameworks(path: Path = FRAMEWORKS) -> dict[str, dict[str, Any]]:
    """The sections, checked: a misspelled key would otherwise be a pin that nobody reads."""
    frameworks = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, entry in frameworks.items():
        if missing := FIELDS - entry.keys():
            raise SystemExit(f"{path.name}: [{name}] lacks {', '.join(sorted(missing))}")
        if unknown := entry.keys() - FIELDS - OPTIONAL:
            raise SystemExit(f"{path.name}: [{name}] has no {', '.join(sorted(unknown))}")
        if ("cannot" in entry) == ("install" in entry):
            raise SystemExit(f"{path.name}: [{name}] says either what to install, or why it cannot be")
    return frameworks


def newest(entry: dict[str, Any]) -> dict[str, Any]:
    """A section whose framework, and it alone, is not pinned: the pins are the oldest of what an adapter declares."""
    name = re.escape(entry["package"]).replace(r"\-", "[-_]")
    pin = re.compile(rf"({name}(?:\[[\w,]+\])?)==[\w.]+")
    return {**entry, "install": [pin.sub(r"\1", need) for need in entry["install"]]}


def find_python(version: str | None) -> str | None:
    """An interpreter of that version which runs; the one that runs this when none is asked for."""
    if version is None:
        return sys.executable
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}*/bin"))
    for candidate in [shutil.which(f"python{version}"), *(str(home / "python") for home in homes)]:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:
            return candidate
    return None


def build(name: str, entry: dict[str, Any], *, fresh: bool) -> Path:
    """The virtual environment of a framework, built anew when its pins have changed.

    Raises:
        RuntimeError: no such interpreter.
        subprocess.CalledProcessError: pip failed; what it said stands in ``output``.
    """
    interpreter = find_python(entry.get("python"))
    if interpreter is None:
        raise RuntimeError(f"there is no Python {entry['python']} here")
    folder, needs = VENVS / name, [*entry["install"], " ".join(map(shlex.quote, TOOLS))]
    pins = hashlib.sha256(json.dumps([needs, entry.get("python")]).encode()).hexdigest()
    stamp = folder / "pins"
    if not fresh and stamp.exists() and stamp.read_text() == pins:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    run([interpreter, "-m", "venv", str(folder)])
    for need in [*needs, f"--editable {shlex.quote(str(ROOT))}"]:
        print(f"{name}: pip install {need}", flush=True)
        run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *shlex.split(need)])
    stamp.write_text(pins)
    return folder


def run(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)
    return done.stdout


def test(name: str, entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run its tests; what the table needs to know of them."""
    python = str(folder / "bin" / "python")
    ask = "import importlib.metadata as m, platform, sys; print(platform.python_version(), m.version(sys.argv[1]))"
    interpreter, version = run([python, "-c", ask, entry["package"]]).split()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [str(folder / "bin" / "pytest"), "-q", "-m", "foreign", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", *test_files(name, entry)]
        variables = os.environ | {"PYTHONSAFEPATH": "1"} | entry.get("variables", {})
        try:
            done = subprocess.run(command, cwd=ROOT, env=variables, timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return {"version": version, "python": interpreter, "outcome": f"no end after {TEST_SECONDS} seconds"}
        counts = count(report) if report.exists() else {}
    return {"version": version, "python": interpreter, "outcome": judge(done.returncode, counts, entry), **counts}


def judge(code: int, counts: dict[str, int], entry: dict[str, Any]) -> str:
    """Whether the tests passed; a test that is skipped and was not before could fail unseen."""
    if code or not counts.get("passed"):
        return "failed"
    skipped, expected = counts["skipped"], entry.get("skipped", 0)
    return "passed" if skipped <= expected else f"failed: {skipped} tests skipped, and frameworks.toml says {expected}"


def test_files(name: str, entry: dict[str, Any]) -> list[str]:
    found: str | list[str] = entry.get("test", f"tests/adapters/test_{name}.py")
    return [found] if isinstance(found, str) else found


def count(report: Path) -> dict[str, int]:
    suite = ET.parse(report).getroot().find("testsuite")
    if suite is None:
        return {}
    number = {key: int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    return {
        "passed": number["tests"] - failed - number["skipped"],
        "failed": failed,
        "skipped": number["skipped"],
    }


def try_one(name: str, entry: dict[str, Any], *, fresh: bool) -> dict[str, Any]:
    """Build and test; a framework that cannot be built is a result like any other."""
    try:
        result = test(name, entry, build(name, entry, fresh=fresh))
    except RuntimeError as error:
        result = {"outcome": str(error)}
    except subprocess.CalledProcessError as error:
        print(error.output, file=sys.stderr)
        result = {"outcome": f"{shlex.join(error.cmd[1:])} failed"[:200].replace(str(ROOT), ".")}
    return {**result, "date": datetime.date.today().isoformat(), "machine": platform.machine()}


def table(frameworks: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> str:
    lines = ["| framework | version | surface | direction | tested how | result |", "|---|---|---|---|---|---|"]
    for name, entry in frameworks.items():
        result = results.get(name, {})
        if "cannot" in entry:
            said = f"not run: {entry['cannot']}"
        elif not result:
            said = "not run yet"
        else:
            counted = f"{result['passed']} tests " if result["outcome"] == "passed" else ""
            skipped = f", {result['skipped']} skipped" if result.get("skipped") else ""
            said = f"{counted}{result['outcome']}{skipped}, {result['date']}"
        cells = [f"`{entry['package']}`", result.get("version", "–"), entry["surface"], entry["direction"]]
        lines.append(f"| {' | '.join([*cells, entry['tested'], said])} |")
    return "\n".join(lines)


def pages() -> str:
    """A link to the page of each adapter, under its heading."""
    folder = PAGE.with_suffix("")
    headings = {
        path: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in folder.glob("*.md")
    }
    paths = sorted(headings, key=lambda path: headings[path].lower())
    return "\n".join(f"- [{headings[path]}]({folder.name}/{path.name})" for path in paths)


def between(text: str, begin: str, end: str, new: str) -> str:
    """The text with something new between two marks."""
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{new}\n{end}{rest.partition(end)[2]}"


def write_page(frameworks: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]]) -> None:
    text = between(PAGE.read_text(encoding="utf-8"), BEGIN, END, table(frameworks, results))
    PAGE.write_text(between(text, LIST_BEGIN, LIST_END, pages()), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    frameworks = read_frameworks()
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(frameworks)}; all when none")
    parser.add_argument("--table", action="store_true", help="only write the table and the list of pages again")
    parser.add_argument("--newest", action="store_true", help="the newest release of each, and no result in the table")
    parser.add_argument("--fresh", action="store_true", help="build the virtual environments anew")
    parser.add_argument("--discard", action="store_true", help="remove each virtual environment after its tests")
    options = parser.parse_args()
    if unknown := set(options.names) - frameworks.keys():
        parser.error(f"no framework {', '.join(sorted(unknown))}; there are {', '.join(frameworks)}")
    chosen = [] if options.table else options.names or list(frameworks)
    failed = []
    for name in chosen:
        entry = frameworks[name]
        if "cannot" in entry:
            print(f"{name}: not run: {entry['cannot']}")
            continue
        result = try_one(name, newest(entry) if options.newest else entry, fresh=options.fresh)
        print(f"{name} {result.get('version', '')}: {result['outcome']}", flush=True)
        if result["outcome"] != "passed":
            failed.append(name)
        if options.discard:
            shutil.rmtree(VENVS / name, ignore_errors=True)
        if options.newest:
            continue
        # Read again each time: others may have written theirs meanwhile.
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**results, name: result}, indent=1, sort_keys=True) + "\n")
    write_page(frameworks, json.loads(RESULTS.read_text()) if RESULTS.exists() else {})
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
