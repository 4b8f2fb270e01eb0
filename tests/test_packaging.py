"""What a stranger gets: two commands that set everything up, and a wheel that is whole."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import gymnasium as gym
import pytest
from packaging.requirements import Requirement

import rlvr

from .architecture import ROOMS, ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ANYWHERE = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "*.egg-info", "*.pyc", ".*_cache", ".hypothesis")


def left_out(folder: str, names: list[str]) -> set[str]:
    """What no checkout holds: at the top also what runs and builds leave there."""
    return ANYWHERE(folder, names) | ({"runs", "build", "dist"} if Path(folder) == ROOT else set())


MAKE = shutil.which("make")
needs_make = pytest.mark.skipif(MAKE is None, reason="make is not installed")


def run(*command: object, cwd: Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    """Run outside the checkout's influence: no PYTHONPATH, no virtual environment, no data folder."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "RLVR_DATA", "MAKEFLAGS")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=kept | env, capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def reads_a_table(env_id: str) -> bool:
    """Whether an id needs rows from somewhere, which a stranger's machine may not have."""
    module, _, name = str(gym.spec(env_id).kwargs.get("task", "")).partition(":")
    return bool(name) and getattr(importlib.import_module(module), name).reads_split


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def shipped() -> set[str]:
    """Every file of the tree that belongs in the wheel, by its path there."""
    files = {f"rlvr/{path.name}" for path in (ROOT / "src" / "rlvr").iterdir() if path.is_file()}
    files |= {path.name for path in (ROOT / "src").glob("*.py")}
    for folder in (*(ROOT / room for room in ROOMS), ROOT / "src" / "rlvr" / "cli"):
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files.add(f"rlvr/{path.relative_to(folder.parent).as_posix()}")
    return files


# the two commands


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A copy of what `make` needs to begin."""
    folder = tmp_path / "anything but rlvr"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "src" / "rlvr").mkdir(parents=True)
    (folder / "envs" / "core").mkdir(parents=True)
    (folder / "src" / "rlvr" / "envs").symlink_to("../../envs")
    return folder


@needs_make
@pytest.mark.parametrize("target", ["demo", "test"])
def test_a_checkout_without_its_links_is_told_how_to_get_them(checkout, target):
    link = checkout / "src" / "rlvr" / "envs"
    link.unlink()
    link.write_text("../../envs")  # what git writes where links are not to be had
    done = run(MAKE, target, cwd=checkout, check=False)
    assert done.returncode != 0
    assert "core.symlinks=true" in done.stderr
    assert not (checkout / ".venv").exists()
    if importlib.util.find_spec("setuptools"):
        done = run(sys.executable, "setup.py", "--version", cwd=checkout, check=False)
        assert done.returncode != 0
        assert "core.symlinks=true" in done.stderr


@needs_make
@pytest.mark.parametrize("target", ["demo", "test"])
def test_an_old_or_absent_python_is_named(checkout, target):
    old = checkout / "python3.10"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.10.4 && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = run(MAKE, target, "PYTHON=./python3.10", cwd=checkout, check=False)
    assert done.returncode != 0
    assert "rlvr needs Python 3.11 or newer; ./python3.10 is Python 3.10.4" in done.stderr
    done = run(MAKE, target, "PYTHON=python-of-nowhere", cwd=checkout, check=False)
    assert done.returncode != 0
    assert "There is no python-of-nowhere here" in done.stderr
    assert not (checkout / ".venv").exists()


@needs_make
def test_a_second_call_installs_nothing(checkout):
    for stamp in ("made.stamp", "demo.stamp", "test.stamp", "docs.stamp"):
        (checkout / ".venv").mkdir(exist_ok=True)
        (checkout / ".venv" / stamp).touch()
    for target in ("demo", "check", "quick", "site"):
        assert "pip" not in run(MAKE, "--dry-run", target, cwd=checkout).stdout
    later = (checkout / ".venv" / "test.stamp").stat().st_mtime + 10
    os.utime(checkout / "pyproject.toml", (later, later))
    assert "pip install" in run(MAKE, "--dry-run", "test", cwd=checkout).stdout, "a changed dependency is installed"


def test_ci_runs_what_a_person_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")
    if bash := shutil.which("bash"):
        run(bash, "-n", script, cwd=ROOT)


def test_packages_are_there_when_they_are_named():
    """`import rlvr` alone stays light; nothing of training is loaded before it is asked for."""
    program = "import sys, rlvr; assert not {'rlvr.agents', 'rlvr.adapters'} & set(sys.modules); "
    program += "print(rlvr.agents.RandomAgent.__name__, rlvr.adapters.__name__, rlvr.algorithms.__name__)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["RandomAgent", "rlvr.adapters", "rlvr.algorithms"]


def test_every_dependency_is_pinned_to_a_version_that_is_allowed_on_every_machine():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[0-9][0-9.a-z]*", version) for _, version in pins), "no +cpu, no ranges"
    pinned = {normalised(name): version for name, version in pins}
    assert len(pinned) == len(pins)
    needs = [*PYPROJECT["dependencies"], *(n for extra in PYPROJECT["optional-dependencies"].values() for n in extra)]
    for need in map(Requirement, needs):
        if need.name == PYPROJECT["name"]:
            continue
        assert normalised(need.name) in pinned, f"pin {need.name} in constraints.txt"
        assert pinned[normalised(need.name)] in need.specifier, f"constraints.txt pins {need.name} outside {need}"


def test_one_extra_holds_all_the_others():
    extras = PYPROJECT["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    # what bridges and trackers lead to is foreign: it goes where its user wants it; the site has a target of its own;
    # transformers imports torchao wherever it is installed, which takes each process two seconds
    apart = {"all", "bridges", "track", "docs", "optim"}
    assert everything.extras == extras.keys() - apart


def test_the_hooks_are_well_formed_and_need_no_network(tmp_path):
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "http" not in text
    tool = Path(sys.executable).with_name("pre-commit")
    if not tool.exists():
        pytest.skip("pre-commit is not installed")
    run(tool, "validate-config", ROOT / ".pre-commit-config.yaml", cwd=ROOT, PRE_COMMIT_HOME=str(tmp_path))


# the wheel


# Plays the expert of each id; one that needs an extra says so, and where luck has a say any end will do.
EXPERTS = """
import sys, gymnasium, rlvr
from rlvr.agents import ExpertAgent, RolloutRequest, Rollout
from rlvr.envs.sandbox import SandboxUnavailable
for env_id in sys.argv[1:]:
    try:
        gymnasium.make(env_id)
    except ImportError as error:
        print(env_id, any(f"rlvr[{extra}]" in str(error) for extra in ("tools", "visual", "games")))
        continue
    except SandboxUnavailable as error:
        print(env_id, "apt-get install coq" in str(error))
        continue
    episodes = Rollout(env_id, ExpertAgent())([RolloutRequest(seed=seed) for seed in range(3)])
    certain = gymnasium.make(env_id).unwrapped.task.always_solvable
    good = (e.success if certain else e.valid for e in episodes if "extra: pip install" not in e.verdict.reason)
    print(env_id, all(good))
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist, and the wheel built from it, of a copy of the tree."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("tree") / "checkout"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=left_out)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy, cwd=out)
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_the_tree_and_nothing_else(distributions):
    sdist, wheel = distributions
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert len(names) == len(set(names))
    assert set(names) == shipped()
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "setup.py", "LICENSE"} <= packed
    assert not any(name.startswith("tests") for name in packed), "they need the whole checkout"


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment_outside_the_checkout(distributions, tmp_path):
    _, wheel = distributions
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    pins = ["--constraint", ROOT / "constraints.txt"]
    probe = run(
        *pip, "download", "--no-deps", "--dest", tmp_path / "probe", *pins, "gymnasium", cwd=tmp_path, check=False
    )
    if probe.returncode:
        pytest.skip("no package index can be reached")
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python, command = (tmp_path / "venv" / "bin" / name for name in ("python", "rlvr"))
    run(python, "-m", "pip", "install", "--no-compile", *pins, wheel, cwd=tmp_path)
    run(python, "-m", "pip", "check", cwd=tmp_path)
    where = run(python, "-c", "import rlvr; print(rlvr.__file__)", cwd=tmp_path).stdout
    assert str(tmp_path) in where

    procedural = [env_id for env_id in rlvr.list_envs() if not reads_a_table(env_id)]
    assert run(command, "envs", cwd=tmp_path).stdout.split() == rlvr.list_envs()
    assert run(python, "-m", "rlvr", "envs", cwd=tmp_path).stdout.split() == rlvr.list_envs()
    played = run(python, "-c", EXPERTS, *procedural, cwd=tmp_path).stdout.splitlines()
    assert played == [f"{env_id} True" for env_id in procedural]
    done = run(command, "eval", "--env", "rlvr/Countdown-v0", "--agent", "expert", "--episodes", "3", cwd=tmp_path)
    assert "success 3/3" in done.stdout
    data = run(command, "eval", "--env", "rlvr/GSM8K-v0", "--agent", "expert", cwd=tmp_path, check=False)
    assert data.returncode == 2
    assert "RLVR_DATA" in data.stderr
    for missing in (("train",), ("eval", "--env", "rlvr/Countdown-v0", "--model", "rlvr/tiny")):
        done = run(command, *missing, cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert "rlvr[train]" in done.stderr
        assert "Traceback" not in done.stderr
