"""One sandbox for each native tier of this machine, and eyes on what a program might leave behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr.envs.sandbox import Sandbox
from rlvr.envs.sandbox.probes import NATIVE, probe_tier


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
    return parents


def children_of(pid: int) -> set[int]:
    return {child for child, parent in _parents().items() if parent == pid}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_under(root: int) -> set[int]:
    """All live processes below one, by their parents."""
    parents = _parents()
    found: set[int] = set()
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent == root or parent in found} - found
        found |= more
        grown = bool(more)
    return found


def worker_of(supervisor: int) -> int:
    """The one of a supervisor's two processes that starts the others."""
    (worker,) = children_of(supervisor)
    return worker


def supervisor_of(sandbox: Sandbox) -> int:
    assert sandbox.supervisor_pid is not None
    return sandbox.supervisor_pid


@pytest.fixture(scope="session", autouse=True)
def _temporary_folder() -> Iterator[None]:
    """One of our own, which the programs' users can pass through: others on this machine run sandboxes too."""
    before, folder = os.environ.get("TMPDIR"), tempfile.mkdtemp(prefix="rlvr-tests-")
    Path(folder).chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    yield
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    shutil.rmtree(folder, ignore_errors=True)


def sandbox_folders() -> set[str]:
    """The folders of sandboxes of these tests, in the temporary folder."""
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("rlvr-sandbox")}


@pytest.fixture(scope="session", params=NATIVE)
def tier(request: pytest.FixtureRequest) -> str:
    report = probe_tier(request.param)
    if not report.holds:
        pytest.skip(f"{request.param} does not hold here: {report.reason}")
    return request.param


@pytest.fixture(scope="session")
def sandbox(tier: str) -> Iterator[Sandbox]:
    with Sandbox(tier=tier, parallel=4) as box:
        yield box


@pytest.fixture(scope="session")
def host(_temporary_folder: None) -> Iterator[tuple[Path, Path]]:
    """A file with a secret and a folder, both open to every user of the machine; our environment has one, too."""
    os.environ["RLVR_TEST_TOKEN"] = "SECRET-token"
    folder = Path(tempfile.mkdtemp(prefix="rlvr-host-"))
    folder.chmod(0o777)
    canary = folder / "canary"
    canary.write_text("SECRET-file")
    canary.chmod(0o666)
    yield canary, folder
    del os.environ["RLVR_TEST_TOKEN"]
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
