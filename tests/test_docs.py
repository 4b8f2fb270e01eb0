"""What the documents say is run, or compared with what is there."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import gymnasium as gym
import pytest

import rlvr

from .architecture import ROOMS

ROOT = Path(__file__).parents[1]
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "skills/**/*.md") for path in sorted(ROOT.glob(pattern))]
TITLE = re.compile(r"# [\w ]+: `(rlvr[\w.]*)`\n")  # of a page of the reference that lists a package
REFERENCE = {
    match[1]: page
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    if (match := TITLE.match(page.read_text(encoding="utf-8")))
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.(?:py|yaml))\n")  # the first line of a block that is a file for the blocks after it


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, code) of every block in that language."""
    found = []
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        found += [(name, code) for kind, code in BLOCK.findall(page.read_text()) if kind == language]
    return found


def files_of(page: str) -> dict[str, str]:
    """The blocks of a page that are files, by their names."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {named[1]: code for _, code in BLOCK.findall(text) if (named := FILE.match(code))}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_blocks_run(page: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(code)
    scripts = ["block.py"]
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text)
        if name.endswith(".py") and text != code:
            scripts.insert(0, name)  # it may write what the block reads
    for script in scripts:
        result = subprocess.run(
            [sys.executable, tmp_path / script],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            timeout=300,
        )
        assert result.returncode == 0, f"{page}:\n{code}\n{result.stderr}"


def rlvr_commands() -> list[str]:
    lines = []
    for page, code in blocks("bash"):
        own = files_of(page)  # what reads these is run by test_docs_commands.py
        lines += [line.split("#")[0].strip() for line in code.splitlines() if not any(name in line for name in own)]
    return sorted({line for line in lines if line.startswith("rlvr ")})


@pytest.mark.parametrize("line", rlvr_commands())
def test_commands_are_understood(line: str) -> None:
    """Each command parses, and each file it names exists."""
    from rlvr.cli import _parser
    from rlvr.cli.train import train

    words = shlex.split(line)[1:]
    options, rest = _parser().parse_known_args(words)
    assert not rest or getattr(options, "takes_fields", False)
    for word in words:
        if word.endswith((".yaml", ".py")):
            assert (ROOT / word).is_file(), word
    if options.command is train and "--help" not in words and "--resume" not in words:
        from rlvr.cli.train_command import parse

        parse([str(ROOT / word) if word.endswith(".yaml") else word for word in rest])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    shown = re.sub(
        r"^ {4}.*$", "", page.read_text(), flags=re.M
    )  # an indented block is no text: a prompt holds anything
    for target in re.findall(r"\]\(([^)#]+)", shown):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_tree_of_the_contributors_is_the_tree() -> None:
    tree = next(code for page, code in blocks("text") if page == "CONTRIBUTING.md" and "envs/" in code)
    top, shown = "", set()
    for line in tree.splitlines():
        names = re.findall(r"[\w/]+/(?=\s|$)", line)
        if not line.startswith(" "):
            top = names[0]
            shown.add(top)
        else:
            shown |= {top + name for name in names}
    for name in shown:
        assert (ROOT / name).is_dir(), name
    rooms = {"envs/", "agents/", "algorithms/", "adapters/", "examples/", "benchmarks/", "docs/", "tests/"}
    assert rooms <= shown
    families = {f"envs/{path.name}/" for path in (ROOT / "envs").iterdir() if (path / "__init__.py").is_file()}
    assert families <= shown, families - shown


def test_the_demo_of_the_readme_is_the_demo_of_the_makefile() -> None:
    assert "examples/calculator.yaml" in (ROOT / "Makefile").read_text()
    assert "examples/calculator.yaml" in (ROOT / "README.md").read_text()


def test_the_readme_counts_the_environments_right() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    counts = dict(re.findall(r"^\| `(\w+)/` \| (\d+) \|", readme, re.MULTILINE))
    tasks = (str(gym.spec(env_id).kwargs.get("task")) for env_id in rlvr.list_envs())
    families = Counter(
        task.split(".")[2] for task in tasks if task.startswith("rlvr.envs.") and ".bridges." not in task
    )
    assert {family: int(count) for family, count in counts.items()} == families, "run: make docs"


@pytest.mark.slow
def test_the_reference_is_up_to_date() -> None:
    """The pages of commands, fields and names say what the parsers, the config and the docstrings do."""
    command = [sys.executable, ROOT / "benchmarks" / "reference_pages.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_stub_is_up_to_date() -> None:
    """What type checkers see of `rlvr.algorithms` is what there is."""
    command = [sys.executable, ROOT / "benchmarks" / "stubs.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("package", REFERENCE)
def test_a_package_offers_what_the_reference_lists(package: str) -> None:
    lines = REFERENCE[package].read_text(encoding="utf-8").splitlines()
    listed = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert listed == list(importlib.import_module(package).__all__)


def test_every_package_that_offers_names_is_in_the_reference() -> None:
    """But for those whose public names `rlvr.algorithms` offers, and what `rlvr launch` is made of."""
    inner = {f"rlvr.algorithms.{name}" for name in ("advantages", "config", "filters", "losses")}
    inner.add("rlvr.adapters.launch")
    offering = {
        ".".join(("rlvr", *path.parent.relative_to(ROOT).parts))
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
        if "\n__all__ = " in path.read_text(encoding="utf-8")
    }
    assert offering - inner == REFERENCE.keys() - {"rlvr"}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """A build would stop at a page that is left out; here that is found without the site's packages."""
    entry = re.compile(r"^ +- (?:[\w ]+: )?([\w/]+(?:\.md|/\*))$", re.MULTILINE)
    entries = set(entry.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    for page in (ROOT / "docs").rglob("*.md"):
        path = page.relative_to(ROOT / "docs")
        assert {str(path), f"{path.parent}/*"} & entries, f"mkdocs.yml does not name {path}"


@pytest.mark.parametrize("folder", ["examples", "benchmarks"])
def test_programs_import_names_that_there_are(folder: str) -> None:
    """Read and not imported: some of these programs need a foreign framework."""
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "rlvr":
                missing = {alias.name for alias in node.names} - names_in(node.module)
                assert not missing, f"{path.relative_to(ROOT)}:{node.lineno}: {node.module} has no {sorted(missing)}"


def names_in(module: str) -> set[str]:
    """The names at the top of a module of ours, and the modules in it."""
    stem = (ROOT / "src").joinpath(*module.split("."))
    file = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    assert file.is_file(), f"there is no module {module}"
    names = {each.stem for each in stem.iterdir()} if stem.is_dir() else set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def test_results_say_the_command_as_a_shell_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option's value may have commas and blanks, and a table may come from an earlier command."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    results = importlib.import_module("results")
    given = ["--sides", "ours, prompts not shared", "TRL", "--trl", "/somewhere/bin/python"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "trl_step.py"), *given])
    tables = [
        results.Table("Now", "s", "ours", {"ours": [1.0]}),
        results.Table("Before", "s", "ours", {"ours": [2.0]}, command="python benchmarks/trl_step.py"),
    ]
    results.write_results("made", tables, {}, tmp_path)
    record = json.loads((tmp_path / "made.json").read_text())
    words = ["python", "benchmarks/trl_step.py", *given[:-1], "<python>"]
    assert shlex.split(record["command"]) == words
    assert record["tables"]["Before"]["command"] == "python benchmarks/trl_step.py"
    assert "command" not in record["tables"]["Now"]
    assert "s (`python benchmarks/trl_step.py`)" in (tmp_path / "made.md").read_text()
