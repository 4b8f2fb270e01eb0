"""Plug-ins: what is installed is registered, what is broken is named, and `rlvr new` writes one that works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rlvr.cli import main
from rlvr.envs.players.catalogue import register_game
from rlvr.envs.template import KINDS, check_name, class_name, env_id, new_package

TASK = '''\
from rlvr.envs.core.task import Task
class Silent(Task):
    """Says nothing."""
'''


def packaged(site: Path, name: str, code: str, target: str | None = None) -> None:
    """Lay out a package as an installer would: its module, and the metadata that names its entry point."""
    site.mkdir(exist_ok=True)
    (site / f"{name}.py").write_text(code)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rlvr.envs]\n{name} = {target or name}\n")


def python(code: str, site: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(site)} | env,
        cwd=site,
        capture_output=True,
        text=True,
        timeout=120,
    )


LIST = "import sys, rlvr; print(*rlvr.list_envs('plug')); print('heavy' in sys.modules)"


def test_a_module_and_a_function_are_loaded_and_nothing_they_do_not_import(tmp_path):
    site = tmp_path / "site"
    packaged(site, "by_module", "import rlvr\nrlvr.register('plug/Module-v0', 'heavy:Silent')\n")
    function = "def add():\n    import rlvr\n    rlvr.register('plug/Function-v0', 'heavy:Silent')\n"
    packaged(site, "by_function", function, "by_function:add")
    (site / "heavy.py").write_text(TASK)
    done = python(LIST, site)
    assert done.stdout.split("\n")[:2] == ["plug/Function-v0 plug/Module-v0", "False"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import a_module_that_is_nowhere", "a_module_that_is_nowhere"),
        ("import rlvr\nrlvr.register('no version', 'x:Y', 3)", "TypeError"),
        ("def (", "SyntaxError"),
    ],
)
def test_a_broken_plugin_is_a_warning_that_names_it_and_the_others_are_loaded(tmp_path, code, said):
    site = tmp_path / "site"
    packaged(site, "broken", code)
    packaged(site, "sound", "import rlvr\nrlvr.register('plug/Sound-v0', 'heavy:Silent')\n")
    done = python(LIST, site)
    assert done.stdout.startswith("plug/Sound-v0\n")
    assert "RuntimeWarning: plug-in 'broken'" in done.stderr
    assert "package broken" in done.stderr
    assert said in done.stderr


def test_an_id_that_exists_is_not_taken_over(tmp_path):
    site = tmp_path / "site"
    packaged(site, "thief", "import rlvr\nrlvr.register('rlvr/Countdown-v0', 'heavy:Silent')\n")
    code = "import gymnasium, rlvr; print(gymnasium.spec('rlvr/Countdown-v0').kwargs['task'])"
    done = python(code, site)
    assert done.stdout == "rlvr.envs.puzzles.countdown:Countdown\n"
    assert "plug-in 'thief'" in done.stderr
    assert "rlvr/Countdown-v0" in done.stderr


def test_plugins_can_be_left_out(tmp_path):
    site = tmp_path / "site"
    packaged(site, "broken", "1 / 0")
    done = python(LIST, site, RLVR_PLUGINS="0")
    assert (done.stdout, done.stderr) == ("\nFalse\n", "")


def test_without_plugins_the_metadata_of_packages_is_not_read(tmp_path):
    done = python("import sys, rlvr; print('importlib.metadata' in sys.modules)", tmp_path, RLVR_PLUGINS="0")
    before = done.stdout
    assert python("import sys, rlvr; print('importlib.metadata' in sys.modules)", tmp_path).stdout == before


# rlvr new


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_new_writes_a_package_that_installs_passes_its_tests_and_its_audit_and_is_played(tmp_path, kind):
    """The audit is one of its tests. A person answers x until the episode is over."""
    assert main(["new", "spelling_bee", "--folder", str(tmp_path), "--kind", kind]) == 0
    project, site = tmp_path / "spelling_bee", tmp_path / "site"
    entry = tomllib.loads((project / "pyproject.toml").read_text())["project"]["entry-points"]["rlvr.envs"]
    assert entry == {"spelling_bee": "spelling_bee:register"}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    install = [*pip, "--no-build-isolation", "--no-deps", "--target", str(site), str(project)]
    env = os.environ | {"PYTHONPATH": str(site)}
    for command in (
        install,
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project / "tests")],
        [sys.executable, "-m", "rlvr", "play", "spelling_bee/SpellingBee-v0", "--seed", "0"],
    ):
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, input="x\n" * 60
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_new_writes_is_python_without_a_word_of_the_template(tmp_path, kind):
    for path in new_package("my_env", tmp_path, kind):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            compile(text, str(path), "exec")
        assert not re.search(r"NAME|CLASS|EXPERT|SETTINGS|\bID\b", text), path
    assert "class MyEnv(" in (tmp_path / "my_env" / "src" / "my_env" / "task.py").read_text()


def test_an_unknown_kind_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="did you mean 'tools'"):
        new_package("my_env", tmp_path, "tool")
    assert list(tmp_path.iterdir()) == []


def test_a_game_is_added_under_a_name_of_its_own():
    with pytest.raises(ValueError, match="already"):
        register_game("NimDuel", "my_env.task:Nim")
    with pytest.raises(ValueError, match="address"):
        register_game("MyNim", "piles:NimDuel")


def test_new_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "my_env").mkdir()
    (tmp_path / "my_env" / "thesis.txt").write_text("words")
    assert main(["new", "my_env", "--folder", str(tmp_path)]) == 2
    assert "nothing in it is overwritten" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "my_env").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "name", ["", "My_env", "my-env", "my env", "1st", "a__b", "_a", "../up", "class", "é", "a" + "\n"]
)
def test_a_name_that_cannot_be_a_package_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="cannot name a package"):
        new_package(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["rlvr", "json", "random", "numpy", "gymnasium"])
def test_a_name_that_is_taken_is_refused(name):
    with pytest.raises(ValueError, match="installed"):
        check_name(name)


def test_names_of_classes_and_ids():
    assert (class_name("my_env"), env_id("my_env")) == ("MyEnv", "my_env/MyEnv-v0")


# other groups


REGISTERED = {
    "rlvr.graders": """
from rlvr.envs.rewards import register_grader
register_grader(lambda reply, answer: True, "{name}")
""",
    "rlvr.tools": """
from rlvr.envs.tools import Functions, register_tool
def {name}(x: int) -> str:
    "Say x."
    return str(x)
register_tool({name})
""",
}
ASKED = {
    "rlvr.graders": ("rlvr.envs.rewards", "GRADERS", "number"),
    "rlvr.tools": ("rlvr.envs.tools", "KITS", "calculator"),
}


@pytest.mark.parametrize("group", REGISTERED)
def test_graders_and_tools_of_packages_and_what_cannot_be_loaded(tmp_path, group):
    """One that raises, one that takes a name of ours, one that registers a number: each is a warning of a line."""
    module, registry, ours = ASKED[group]
    codes = {
        "broken": "raise OSError('no disk')",
        "nothing": f"from {module} import *\nimport {module} as it\nit.register_{group[5:-1]}(3, 'three')",
        "sound": REGISTERED[group].format(name="of_a_package"),
        "thief": REGISTERED[group].format(name=ours),
    }
    for name, code in codes.items():
        packaged(tmp_path / "site", name, code)
        points = tmp_path / "site" / f"{name}-1.0.dist-info" / "entry_points.txt"
        points.write_text(f"[{group}]\n{name} = {name}\n")
    lookup = f"from {module} import {registry}; print('of_a_package' in {registry}, '{ours}' in {registry})"
    done = python(lookup, tmp_path / "site")
    assert done.stdout == "True True\n"
    warnings = [line for line in done.stderr.splitlines() if "RuntimeWarning" in line]
    assert len(warnings) == 3, done.stderr
    assert [re.search(r"plug-in '(\w+)'", line)[1] for line in warnings] == ["broken", "nothing", "thief"]
    assert "no disk" in warnings[0]
    assert "not 3" in warnings[1]
    assert f"{ours!r} already" in warnings[2]
