"""What a result was made with is written down, and git is asked nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import rlvr
from rlvr.agents.provenance import MAX_DIFF, provenance


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "task.py").write_text("reward = 1\n")
    git(folder, "add", "task.py")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_a_checkout_is_told_by_its_commit_and_what_was_changed_since(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    clean = provenance({"seed": 3}, code=checkout)
    assert (clean["commit"], clean["diff"], clean["untracked"]) == (git(checkout, "rev-parse", "HEAD"), "", [])
    assert clean["seeds"]["seed"] == 3
    assert clean["versions"]["rlvr"] == rlvr.__version__
    git(checkout, "config", "color.ui", "always")
    (checkout / "task.py").write_text("reward = 2\n")
    (checkout / "new\ntask.py").write_text("")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as a hook of git sets it
    changed = provenance({}, code=checkout)
    assert "\n+reward = 2\n" in changed["diff"]
    assert changed["untracked"] == ["new\ntask.py"]
    (checkout / "task.py").write_text("x" * 2 * MAX_DIFF)
    assert len(provenance({}, code=checkout)["diff"]) == MAX_DIFF


def test_a_folder_without_a_repository_has_no_commit_of_the_folder_above(checkout: Path):
    inside = checkout / "site-packages"
    inside.mkdir()
    assert provenance({}, code=inside).get("commit") != git(checkout, "rev-parse", "HEAD")


def test_a_repository_without_a_commit_is_said_to_have_none(tmp_path: Path):
    git(tmp_path, "init", "-q")
    found = provenance({}, code=tmp_path)
    assert found["commit"] is None
    assert "rev-parse" in found["commit_unknown"]
