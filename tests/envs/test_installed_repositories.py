"""RepoRepair on installed packages: what may be used, programs from examples, and cheats worth nothing."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest

from rlvr.envs import TextEnv
from rlvr.envs.agentic.repositories import workspace
from rlvr.envs.agentic.repositories.distributions import distribution, of_split
from rlvr.envs.agentic.repositories.faults import KINDS
from rlvr.envs.agentic.repositories.installed import checked_packages, installed_repository
from rlvr.envs.agentic.repositories.recorded import examples_of, material
from rlvr.envs.agentic.repositories.repository import SHOWN, SIZES, split_of_seed
from rlvr.envs.tools import Call, write_call

from ..needs import needs_sandbox

pytestmark = needs_sandbox
LEVELS = range(1, 6)
STEPS = '''
"""Steps of a stair."""

def heights(count, rise=2, start=0):
    """The height of each step.

    >>> heights(3)
    [2, 4, 6]
    >>> heights(4, rise=3)
    [3, 6, 9, 12]
    >>> heights(2, 5, start=1)
    [6, 11]
    >>> heights(0)
    []
    """
    found = []
    for number in range(count):
        found.append(start + rise * (number + 1))
    return found

def steps_below(limit, rise=2):
    """How many steps are not above a limit.

    >>> steps_below(7)
    3
    >>> steps_below(9, rise=3)
    3
    >>> steps_below(1)
    0
    >>> stairs = [1, 2]
    >>> stairs.append(steps_below(12))
    >>> stairs
    [1, 2, 6]
    """
    if limit < rise or rise <= 0:
        return 0
    return sum(1 for height in heights(limit, rise) if height <= limit)
'''
HOUSES = '''
"""Houses of several floors."""
import time
from stairwell import steps

class House:
    """A house.

    >>> house = House("red", [3, 2])
    >>> house.add(4)
    >>> house.total()
    9
    >>> house.name
    'red'
    """

    def __init__(self, name, floors):
        self.name = name
        self.floors = list(floors)

    def add(self, floor):
        """Add a floor.

        >>> house = House("blue", [])
        >>> house.add(5)
        >>> house.floors
        [5]
        """
        if floor > 0:
            self.floors.append(floor)

    def total(self):
        """All floors together.

        >>> House("green", [1, 2, 3]).total()
        6
        >>> House("grey", []).total()
        0
        """
        return sum(self.floors)

    def stairs(self, rise=2):
        """Steps of each floor.

        >>> House("white", [7, 9]).stairs()
        [3, 4]
        >>> House("black", [8, 5, 3]).stairs(rise=3)
        [2, 1, 1]
        """
        return [steps.steps_below(floor, rise) for floor in self.floors]

def tallest(houses, default=""):
    """The name of the tallest of pairs of names and floors.

    >>> tallest([("a", [3]), ("b", [4, 1]), ("c", [1])])
    'b'
    >>> tallest([], default="none")
    'none'
    >>> tallest([("x", [2, 2]), ("y", [1, 2])])
    'x'
    """
    best, name = 0, default
    for title, floors in houses:
        height = House(title, floors).total()
        if height > best:
            best, name = height, title
    return name

def plates(numbers, street="Elm"):
    """What is written at the doors.

    >>> plates([2, 7])
    ['2 Elm', '7 Elm']
    >>> plates([3, 4, 5], street="Oak")
    ['3 Oak', '4 Oak', '5 Oak']
    >>> plates([12])
    ['12 Elm']
    >>> plates(range(2), street="Main")
    ['0 Main', '1 Main']
    """
    return [f"{number} {street}" for number in numbers]

def age(built):
    """What a clock says.

    >>> age(3) > 2
    True
    """
    return int(time.time()) - built

def shuffled(words):
    """In the order of hashes.

    >>> shuffled(["plum", "pear", "fig", "lime", "date"])
    ['fig', 'pear', 'date', 'plum', 'lime']
    """
    return list(set(words))
'''


def install(site: Path, name: str, files: dict[str, str], licence: str = "License-Expression: MIT") -> None:
    """Write a distribution as an installer would."""
    info = f"{name}-1.0.dist-info"
    rows = {**files, f"{info}/METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{licence}\n",
            f"{info}/licenses/LICENSE": "Do what you like.\n"}  # fmt: skip
    rows[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*rows, f"{info}/RECORD"])
    for path, text in rows.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("site")
    modules = {
        "stairwell/__init__.py": "",
        "stairwell/steps.py": STEPS.lstrip(),
        "stairwell/houses.py": HOUSES.lstrip(),
    }
    install(folder, "stairwell", modules)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def env_of(level: int, seed: int, packages: tuple[str, ...] = ("stairwell",), split: str = "train") -> TextEnv:
    env = gym.make(
        "rlvr/RepoRepair-v0", packages=packages, level=level, split=split, disable_env_checker=True
    ).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


# what may be used


@pytest.mark.parametrize(
    ("name", "files", "licence", "message"),
    [
        ("absent", None, "", "no distribution 'absent' is installed"),
        ("strict", {"strict/a.py": STEPS}, "License-Expression: GPL-3.0-only", "no licence that is known"),
        ("mixed", {"mixed/a.py": STEPS}, "License-Expression: MIT AND MPL-2.0", "no licence that is known"),
        ("nameless", {"nameless/a.py": STEPS}, "License: ask me", "no licence that is known"),
        ("compiled", {"compiled/a.py": STEPS, "compiled/b.abi3.so": ""}, "License: MIT", "is not pure Python"),
        ("silent", {"silent/a.py": "def f(): pass\n"}, "License-Expression: ISC", "has no module of moderate size"),
        ("clocks", {"clocks/a.py": "import time\ndef f(n):\n    '''" + ">>> f(1)\n    2\n    " * 9
                    + "'''\n    return time.time() + n\n"}, "License: BSD", "has no module whose examples run alone"),
    ],
)  # fmt: skip
def test_a_package_that_is_of_no_use_is_refused_in_a_sentence(
    site: Path, name: str, files: dict[str, str] | None, licence: str, message: str
) -> None:
    if files is not None:
        install(site, name, files, licence)
    with pytest.raises(ValueError, match=message):
        gym.make("rlvr/RepoRepair-v0", packages=[name])


@pytest.mark.parametrize(
    "licence",
    [
        "License-Expression: Apache-2.0 OR BSD-2-Clause", "License-Expression: GPL-2.0-only OR MIT", "License: BSD",
        "Classifier: License :: OSI Approved :: MIT License", "License-Expression: Unlicense",
        "Classifier: License :: OSI Approved :: Apache Software License", "License-Expression: PSF-2.0",
    ],
)  # fmt: skip
def test_permissive_licences_are_known_by_each_of_their_fields(site: Path, licence: str) -> None:
    name = f"free{abs(hash(licence))}"
    install(site, name, {f"{name}/a.py": STEPS}, licence)
    assert list(distribution(name).parts) == [f"{name}.a"]


def test_a_package_that_programs_can_read_elsewhere_is_refused(site: Path) -> None:
    """The standard library is in the sandbox, so a fault in a copy of it would be mended by copying."""
    text = Path(textwrap.__file__).read_text()
    install(site, "borrowed", {"borrowed/wraps.py": text + STEPS.replace("height", "breadth")})
    with pytest.raises(ValueError, match="can read a copy of borrowed"):
        checked_packages(("borrowed",))


def test_from_three_packages_on_a_package_is_in_one_split() -> None:
    names = ("a", "b", "c", "d", "e", "f", "g")
    drawn = [set(of_split(names, split)) for split in ("train", "validation", "test")]
    assert sum(map(len, drawn)) == len(set.union(*drawn)) == len(names)
    assert all(of_split(names[:2], split) for split in ("train", "validation", "test"))


# programs


def test_an_example_keeps_what_it_needs_and_no_more() -> None:
    programs = ["\n".join(lines) for lines in examples_of("stairwell.houses", HOUSES)]
    house = 'from stairwell.houses import House\nhouse = House("red", [3, 2])\nhouse.add(4)\nhouse.total()'
    assert programs[:2] == [house, f"{house}\nhouse.name"]
    assert "from stairwell.houses import House\nHouse('grey', []).total()" in programs


def test_programs_are_plain_and_the_same_everywhere(site: Path) -> None:
    found = material("stairwell", "stairwell.houses")
    assert found is not None
    assert set(found.sources) == {"stairwell.__init__", "stairwell.houses", "stairwell.steps"}
    texts = [text for *_, text in found.programs]
    assert len(texts) == len(set(texts)) >= 60
    assert not any("age(" in text or "shuffled(" in text for text in texts)
    right = {f"{name.replace('.', '/')}.py": text for name, text in found.sources.items()}
    assert workspace.grade("stairwell", right, [(text, found.recordings[text].value) for text in texts]).reward == 1.0


# repositories


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_a_repository_is_broken_and_whole_again_with_the_installed_text(site: Path, level: int) -> None:
    for seed in (12, 23):
        given, size = installed_repository(level, seed, ("stairwell",)), SIZES[level - 1]
        right = {given.path(module): text for module, text in given.package.modules.items()}
        assert right["stairwell/steps.py"] == (site / "stairwell/steps.py").read_text()
        bad, good = given.hidden[: given.failing], given.hidden[given.failing :]
        assert len(bad) >= 2
        assert workspace.grade("stairwell", {**given.files, **right}, given.hidden).reward == 1.0
        assert workspace.grade("stairwell", given.files, good).reward == 1.0
        assert all(workspace.grade("stairwell", given.files, [row]).reward == 0.0 for row in bad)
        assert {fault.change.kind for fault in given.faults} <= set(KINDS[split_of_seed(seed)])
        assert len(given.faults) == size.faults
        assert (given.faults[0].distance > 0) == (size.distance > 0)
        assert not {fault.symptom.text for fault in given.faults} & {text for text, _ in given.hidden}
        assert all(fault.symptom.draw < SHOWN and fault.symptom.text in given.issue for fault in given.faults)
        assert ("tests.test_" in given.issue) == size.names_test
        assert given.files["LICENSE"] == "Do what you like.\n"
        assert not any(fault.change.kind in str(given.commits) for fault in given.faults)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_mends_it_and_who_does_nothing_earns_nothing(site: Path, level: int) -> None:
    env = env_of(level, 5)
    assert env.fork().step("It is mended.")[1] == 0.0
    patch = env.task.direct_answer(env.get_state().state)
    assert env.fork().step(patch)[1] == 1.0
    over = False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        over = terminated or truncated
    assert (reward, info["verdict"].status) == (1.0, "correct"), info["verdict"].reason


def test_a_program_outside_of_the_sandbox_gets_no_installed_package(site: Path) -> None:
    env = env_of(1, 0)
    with pytest.raises(ValueError, match="can read installed packages"):
        env.task.workspace(env.get_state().state)


# cheats


def _cheaters() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "installed_repositories.py"
    spec = importlib.util.spec_from_file_location("benchmarks_installed_repositories", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 4])
def test_cheaters_earn_nothing(site: Path, level: int) -> None:
    bench = _cheaters()
    for seed in range(4):
        env = env_of(level, seed)
        for cheat in bench.CHEATERS:
            assert bench.earned(env, seed, cheat) == 0.0, (cheat.__name__, seed)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_part_of_a_large_package_that_is_installed_is_mended_by_the_expert(split: str) -> None:
    for level in (1, 2, 3, 4):
        env = env_of(level, 3, ("sympy",), split)
        given = env.get_state().state.world.repository()
        assert given.package.name == "sympy"
        assert len(given.package.modules) < 60
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(env.solve())
            over = terminated or truncated
        assert reward == 1.0, info["verdict"].reason
