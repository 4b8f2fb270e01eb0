"""What a repository takes over to be validated: the workflow, the hook of pre-commit, the badge."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from rlvr.envs.validation.report import ValidationReport

from . import test_docs_commands as docs

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
HOOKS = ROOT / ".pre-commit-hooks.yaml"
SUMS = next(code for language, code in docs.BLOCK.findall(PAGE) if code.startswith("# sums.py"))
ANY_ANSWER = SUMS.replace("action.strip() == str(self.a + self.b)", "str(self.a + self.b) in action")


def git(folder: Path, *arguments: str) -> str:
    named = ["-c", "user.name=tests", "-c", "user.email=tests@example.com", "-c", "init.defaultBranch=main"]
    ended = subprocess.run(["git", *named, *arguments], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.slow
def test_the_steps_of_the_workflow_run_in_the_repository_of_an_environment(tmp_path: Path) -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "validate_action.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    steps = workflow["jobs"]["validate"]["steps"]
    assert [step["uses"].partition("@")[0] for step in steps if "uses" in step] == [
        "actions/checkout", "actions/setup-python", "actions/upload-artifact",
    ]  # fmt: skip
    docs.run("rlvr new my_env", tmp_path)
    for command in (step["run"] for step in steps if "run" in step):
        if command != "pip install rlvr":
            docs.run(f"export GITHUB_STEP_SUMMARY=summary.md; {docs.shortened(command)}", tmp_path)
    assert "runtime.startup" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"] in ("pass", "warn")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pre_commit") is None, reason="pre-commit is not installed")
def test_the_hook_stops_a_commit_of_an_environment_with_a_hole(tmp_path: Path) -> None:
    """By pre-commit itself, with the lines of the page; nothing is installed, as the tests have no network."""
    hooks, mine = tmp_path / "rlvr", tmp_path / "mine"
    for folder in (hooks, mine):
        folder.mkdir()
        git(folder, "init", "-q")
    (hooks / HOOKS.name).write_text(HOOKS.read_text(encoding="utf-8"), encoding="utf-8")
    git(hooks, "add", ".")
    git(hooks, "commit", "-qm", "hooks")
    config = yaml.safe_load(next(code for language, code in docs.BLOCK.findall(PAGE) if code.startswith("repos:")))
    (repository,) = config["repos"]
    repository |= {"repo": str(hooks), "rev": git(hooks, "rev-parse", "HEAD")}
    repository["hooks"][0] |= {"language": "system"}
    (mine / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    results = []
    for code in (SUMS, ANY_ANSWER):
        (mine / "sums.py").write_text(code, encoding="utf-8")
        git(mine, "add", ".")
        environment = docs.environment(tmp_path) | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}
        results.append(
            subprocess.run(
                [sys.executable, "-P", "-m", "pre_commit", "run", "--color", "never"],
                cwd=mine, env=environment, capture_output=True, text=True,
            )
        )  # fmt: skip
    sound, open_to_all = results
    assert sound.returncode == 0, sound.stdout
    assert re.search(r"rlvr validate\.+Passed", sound.stdout)
    assert open_to_all.returncode == 1
    assert "a list that holds the answer among others" in open_to_all.stdout


def test_the_badge_reads_the_verdict_of_a_report() -> None:
    (address,) = re.findall(r"!\[[^]]*\]\((https://img\.shields\.io/badge/dynamic/json\?[^)]*)\)", PAGE)
    query = parse_qs(urlsplit(address).query)
    assert query["url"][0].endswith("/report.json")
    report = json.loads(json.dumps(ValidationReport("x", []).to_dict()))
    assert report[query["query"][0].removeprefix("$.")] == "pass"
