"""A user's script under two type checkers, with the built wheel: every type is known, and every mistake is found."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from .architecture import ROOMS, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright: pip install 'pyright[nodejs]'"),
]

USER = ROOT / "tests" / "data" / "typed" / "user.py"
# One mistake each, and the line of the script that stands in its place.
MISTAKES = {
    "a wrong name of a loss": "from rlvr.algorithms import gropo_loss",
    "a wrong name of the package": "rlvr.conect('ws://host')",
    "a loss's module with a wrong name": "from rlvr.algorithms.losses.named import gropo_loss",
    "a wrong argument of a loss": "grpo_loss(torch.ones(1), None, [1.0], torch.ones(1), epsilon_low=0.1)",
    "a missing argument of a loss": "grpo_loss(torch.ones(1), None, [1.0])",
    "advantages of text": "grpo_loss(torch.ones(1), None, 'high', torch.ones(1))",
    "a preset by its name": "policy_loss(torch.ones(1), {}, 'grpo')",
    "a wrong field of a preset": "PRESETS['grpo'].clip_hihg",
    "a wrong choice of a preset": "PRESETS['grpo'].replace(clip_hihg=0.3)",
    "a choice of another type": "PRESETS['grpo'].replace(kl_coef='small')",
    "a wrong field of TrainConfig": "TrainConfig(stpes=1)",
    "a wrong entry of a batch": "LossInputs(maks=torch.ones(1))",
    "rewards without groups": "compute_advantages([1.0], preset=PRESETS['grpo'])",
    "an advantage that is a number": "register_advantage(3)",
    "a filter that is a class": "register_filter(Short)",
    "a trainer of a mapping": "Trainer({'steps': 1})",
    "a wrong argument of the trainer": "Trainer(load_config({}), resum=True)",
    "an agent that is missing": "rlvr.evaluate('Sums')",
    "an agent without act": "Rollout('rlvr/Sums-v0', object())",
    "a wrong argument of a rollout": "Rollout('rlvr/Sums-v0', ExpertAgent(), env_setings={})",
    "a seed of text": "RolloutRequest(seed='one')",
    "a wrong argument of connect": "rlvr.connect('ws://host', tokn='x')",
    "a grader without a completion": "grade('number')",
    "a grader that is a number": "rlvr.register_grader(3)",
    "a tool that is a number": "rlvr.register_tool(3)",
    "a status that there is not": "Verdict(1.0, 'right')",
    "a wrong method of a session": "EpisodeSession(TaskSpec('rlvr/Sums-v0', seed=0)).stepp('x')",
    "a wrong field of a config": "load_config({}).learner.lrr",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the built wheel, which sees what the tests have installed besides."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("typed")
    (folder / "checkout").mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / "checkout")
    for name in ("src", *ROOMS):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / name, folder / "checkout" / name, symlinks=True, ignore=ignored)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, folder / "checkout", cwd=folder)
    venv.create(folder / "venv", with_pip=False)
    made = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", made, "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-deps", "--no-index", next(folder.glob("*.whl")), cwd=folder)
    site = next((folder / "venv").glob("lib/python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(made, "-c", "import rlvr; print(rlvr.__file__)", cwd=folder).stdout
    assert where.startswith(str(site))
    return made


def run(*command: object, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV")}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


Entry = tuple[str, int, str, str]  # file, line, error or note, message


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def found(request: pytest.FixtureRequest, python: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """All that a checker says of the user's script, of the public names, and of the script with mistakes."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text())
    command = {
        "mypy": ["mypy", "--strict", "--no-pretty", "--cache-dir", folder / "cache", "--python-executable", python],
        "pyright": ["pyright", "--pythonpath", python],
    }[request.param]
    done = run(sys.executable, "-m", *command, *SCRIPTS, cwd=folder, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    line = re.compile(r"(\w+\.py):(\d+)(?::\d+)?(?::| -) (error|note|warning|information): (.*)")
    return [(name, int(number), kind, text) for name, number, kind, text in line.findall(done.stdout)]


def of(script: str, found: list[Entry]) -> list[Entry]:
    return [entry for entry in found if entry[0] == script]


def names_script() -> str:
    names = list(public_names())
    modules = sorted({name.rpartition(".")[0] for name in names})
    lines = ["from typing import reveal_type", *(f"import {module}" for module in modules)]
    return "\n".join([*lines, *(f"reveal_type({name})" for name in names)]) + "\n"


def public_names() -> Iterator[str]:
    """Every name of every package that says which it offers, and the losses of the presets."""
    source = ROOT / "src"
    for folder, _, files in os.walk(source / "rlvr", followlinks=True):
        if "__init__.py" not in files:
            continue
        module = importlib.import_module(".".join(Path(folder).relative_to(source).parts))
        names = dir(module) if module.__name__ == "rlvr.algorithms" else getattr(module, "__all__", ())
        yield from (f"{module.__name__}.{name}" for name in names if not inspect.ismodule(getattr(module, name)))


def head() -> list[str]:
    """The user's script up to its main function."""
    lines = USER.read_text().partition("def main(")[0].rstrip().splitlines()
    return [line for line in lines if not line.strip().startswith("reveal_type(")]


SCRIPTS: dict[str, Callable[[], str]] = {
    "user.py": USER.read_text,
    "names.py": names_script,
    "mistakes.py": lambda: "\n".join([*head(), *MISTAKES.values()]) + "\n",
}


def test_the_script_runs(python: Path, tmp_path: Path):
    shutil.copy(USER, tmp_path)
    run(python, "user.py", tmp_path, cwd=tmp_path)


def test_no_type_of_the_script_is_unknown(found: list[Entry]):
    entries = of("user.py", found)
    assert [entry for entry in entries if entry[2] in ("error", "warning")] == []
    assert len(entries) == USER.read_text().count("    reveal_type(")
    # what a function may be given besides, (...), is Any for mypy
    assert [entry for entry in entries if re.search(r"\b(Any|Unknown)\b", entry[3].replace("*Any, **Any", ""))] == []


def test_no_public_name_is_of_an_unknown_type(found: list[Entry]):
    entries = of("names.py", found)
    unknown = re.compile(r'(?:Revealed type is|Type of "[\w.]+" is|->) "?(?:Any|Unknown)"?$')
    assert [entry for entry in entries if entry[2] in ("error", "warning") or unknown.search(entry[3])] == []
    assert len(entries) == len(list(public_names())) > 200


def test_every_mistake_is_found(found: list[Entry]):
    first = len(head()) + 1
    lines = {line for _, line, kind, _ in of("mistakes.py", found) if kind == "error"}
    assert [name for number, name in enumerate(MISTAKES, first) if number not in lines] == []
    assert min(lines) >= first
