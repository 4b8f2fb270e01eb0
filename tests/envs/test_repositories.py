"""RepoRepair: repositories that are proven broken and mendable, faults and domains held out, cheats worth nothing."""

from __future__ import annotations

import ast
import gc
import random
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from importlib import resources
from pathlib import Path
from shutil import which

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.agentic.repositories import pages, workspace
from rlvr.envs.agentic.repositories.editing import lines_that_differ
from rlvr.envs.agentic.repositories.faults import KINDS, changes
from rlvr.envs.agentic.repositories.package import FOLDERS, closure, composed, part
from rlvr.envs.agentic.repositories.repository import (
    DOMAINS,
    SIZES,
    SUPPORT,
    Repository,
    repository,
    split_of_seed,
)
from rlvr.envs.agentic.repositories.scenarios import UNENDING, filled, outcomes
from rlvr.envs.agentic.repositories.task import RepoWorld
from rlvr.envs.tools import Call, write_call
from rlvr.envs.tools.tool import ToolError

from ..needs import needs_sandbox

LEVELS = range(1, 6)
PARTS = sorted({*SUPPORT, *(name for names in DOMAINS.values() for name in names)})


def env_of(level: int, seed: int, split: str = "train") -> TextEnv:
    env = gym.make("rlvr/RepoRepair-v0", level=level, split=split, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


def source_files(given: Repository) -> dict[str, str]:
    return {given.path(module): text for module, text in given.package.modules.items()}


# the parts


def test_each_part_stands_in_the_splits_and_imports_no_domain_of_another() -> None:
    files = (file.name for folder in FOLDERS for file in resources.files(folder).iterdir())
    assert sorted(name.removesuffix(".py") for name in files if name.endswith(".py") and name[0] != "_") == PARTS
    for split, names in DOMAINS.items():
        assert set(closure(names)) <= {*names, *SUPPORT}, split
        assert all(not set(names) & set(others) for other, others in DOMAINS.items() if other != split)
    assert len({kind for kinds in KINDS.values() for kind in kinds}) == sum(map(len, KINDS.values()))


@pytest.mark.parametrize("name", PARTS)
def test_a_parts_scenarios_give_plain_values_of_several_kinds(name: str) -> None:
    rng = random.Random(3)
    package = composed(rng, "sample", [name], 1.0)
    module = list(package.modules)[-1]
    for scenario in package.scenarios[module]:
        programs = [package.with_imports(filled(rng, scenario)) for _ in range(6)]
        values = outcomes(package.name, package.modules, programs)
        raised = {value for value in values if isinstance(value, str) and value.startswith(pages.RAISES)}
        assert raised <= {"raises ValueError", "raises KeyError"}, (scenario, raised)
        assert UNENDING not in values, scenario


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(PARTS), st.sampled_from((0.3, 0.6, 1.0)))
def test_a_package_has_only_what_its_scenarios_need_and_stands_alone(seed: int, name: str, share: float) -> None:
    rng = random.Random(seed)
    package = composed(rng, "sample", [name], share)
    texts = [package.with_imports(filled(rng, each)) for rows in package.scenarios.values() for each in rows]
    for value in outcomes(package.name, package.modules, texts):
        assert not str(value).startswith(("raises NameError", "raises AttributeError", "raises ImportError")), value
    for text in package.modules.values():
        assert "rlvr" not in text
        assert "SCENARIOS" not in text


def test_every_kind_of_fault_is_a_change_that_parses_of_a_part() -> None:
    kinds = Counter[str]()
    for name in PARTS:
        text = part(name).source
        for change in changes(text):
            kinds[change.kind] += 1
            assert change.applied(text) != text
            ast.parse(change.applied(text))
    assert set(kinds) == {kind for each in KINDS.values() for kind in each}


# the repositories


@pytest.mark.parametrize("level", LEVELS)
def test_a_repository_is_broken_at_the_start_and_whole_with_the_reference(level: int) -> None:
    for seed in range(2):
        given, size = repository(level, seed), SIZES[level - 1]
        texts, expected = zip(*given.hidden, strict=True)
        right = outcomes(given.package.name, given.package.modules, texts)
        assert list(map(repr, right)) == list(map(repr, expected))
        broken = {module: given.files[given.path(module)] for module in given.package.modules}
        wrong = outcomes(given.package.name, broken, texts)
        assert sum(repr(value) != repr(want) for value, want in zip(wrong, expected, strict=True)) == given.failing >= 2
        assert len({fault.module for fault in given.faults}) == size.faults
        shown = [given.package.with_imports(fault.symptom.text) for fault in given.faults]
        assert not set(shown) & set(texts), "what the issue shows is no hidden test"
        assert all(given.package.with_imports(fault.symptom.text) in given.issue for fault in given.faults)
        domains = {given.package.parts[module] for module in given.package.modules} - set(SUPPORT)
        assert domains <= set(DOMAINS[split_of_seed(seed)])
        assert {fault.change.kind for fault in given.faults} <= set(KINDS[split_of_seed(seed)])


def test_the_levels_differ_in_size_in_distance_and_in_what_is_said() -> None:
    drawn = {level: [repository(level, seed) for seed in range(2)] for level in LEVELS}
    lines = [min(sum(text.count("\n") for text in each.files.values()) for each in drawn[level]) for level in LEVELS]
    assert lines == sorted(lines)
    assert lines[0] >= 200
    for level, size in enumerate(SIZES, 1):
        for each in drawn[level]:
            assert all(fault.distance >= min(size.distance, 1) for fault in each.faults)
            assert ("tests.test_" in each.issue) == size.names_test
            assert ("All tests pass." in each.issue) != size.tests_fail


def test_the_history_is_gits_and_has_no_fix(tmp_path: Path) -> None:
    if which("git") is None:
        pytest.skip("git is not installed")
    given = repository(4, 2)
    for path, content in {**given.files, **pages.git_folder(given.commits)}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content.encode() if isinstance(content, str) else content)

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert git("status", "--porcelain") == ""
    git("fsck", "--strict")
    assert len(git("log", "--format=%s").splitlines()) == len(given.commits)
    for fault in given.faults:
        old, new = lines_that_differ(given.files[given.path(fault.module)], given.package.modules[fault.module])
        changed = set(new.split("\n")) - set(old.split("\n")) - set(given.files[given.path(fault.module)].split("\n"))
        history = git("log", "-p", "--format=", "--", given.path(fault.module))
        assert not any(f"\n+{line}\n" in history for line in changed)


def test_repositories_differ_in_more_than_names() -> None:
    signatures = [repository(level, seed).signature() for level in (1, 2) for seed in range(12)]
    assert len(set(signatures)) >= 22


# playing


@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_mends_every_repository(level: int, split: str) -> None:
    env = env_of(level, 0, split)
    over = False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        over = terminated or truncated
    assert (reward, info["verdict"].status) == (1.0, "correct"), info["verdict"].reason


@needs_sandbox
def test_one_patch_is_enough_and_one_that_does_not_fit_is_unparsable() -> None:
    env = env_of(2, 1)
    patch = env.task.direct_answer(env.get_state().state)
    fork = env.fork()
    assert env.step(patch)[1] == 1.0
    _, reward, _, _, info = fork.step(patch.replace("\n-", "\n-x"))
    assert (reward, info["verdict"].status) == (0.0, "unparsable")


@needs_sandbox
def test_what_a_command_changes_stays_and_a_fork_goes_its_own_way() -> None:
    env = env_of(1, 0)
    observation, *_ = env.step(
        call("shell", command="echo one > notes.txt; rm README.md; git log --format=%s | tail -1")
    )
    assert observation.startswith("Begin ")
    fork = env.fork()
    fork.step(call("shell", command="echo two >> notes.txt"))
    assert "one\n" in env.step(call("shell", command="cat notes.txt; ls README.md"))[0]
    assert fork.step(call("view_file", path="notes.txt"))[0].split() == ["1", "one", "2", "two", "3"]
    assert "README.md" not in env.step(call("list_files"))[0]
    for command in ("kill -9 0", "yes | head -c 9000000", "for i in $(seq 500); do echo x > f$i; done", "ln -s / root"):
        observation, _, terminated, _, info = env.step(call("shell", command=command))
        assert not terminated
        assert info["verdict"].valid
    assert len(env.get_state().state.world.files()) < 60


@needs_sandbox
def test_wrong_values_of_every_disguise_earn_nothing() -> None:
    """The hidden tests hand programs in and compare what comes out elsewhere."""
    given = repository(1, 4)
    right = {**given.files, **source_files(given)}
    assert workspace.grade(given.package.name, right, given.hidden).reward == 1.0
    assert workspace.grade(given.package.name, given.files, given.hidden).reward == 0.0
    module = given.path(given.faults[0].module)
    preludes = (
        "import os\nos._exit(0)\n",
        "import builtins\nbuiltins.eval = lambda *a: type('Any', (), {'__eq__': lambda *b: True})()\n",
        "import sys\nsys.modules['__main__'].observe = lambda program: None\n",
    )
    for prelude in preludes:
        verdict = workspace.grade(
            given.package.name, {**given.files, module: prelude + given.files[module]}, given.hidden
        )
        assert (verdict.reward, verdict.valid) == (0.0, True), prelude


# files and patches


@pytest.mark.parametrize(
    "path", ["../a", "/etc/passwd", "a/../../b", ".git/config", "", "a\0b", "a//b", "./.", "x" * 300]
)
def test_a_path_outside_of_the_repository_is_refused(path: str) -> None:
    with pytest.raises(ToolError, match="not a path"):
        workspace.checked_path(path)


def test_the_files_are_bounded() -> None:
    with pytest.raises(ToolError, match="allowed are"):
        workspace.written({}, "a", "x" * 100_000)
    with pytest.raises(ToolError, match="may have"):
        workspace.written({str(number): "" for number in range(workspace.MAX_FILES)}, "a", "")
    with pytest.raises(ToolError, match="is a folder"):
        workspace.written({"a/b": ""}, "a", "")


@given(st.lists(st.sampled_from("abc\n"), max_size=30).map("".join), st.integers(0, 8), st.sampled_from(["x", "x\ny"]))
def test_a_patch_by_difflib_gives_the_text_that_it_was_made_for(text: str, line: int, new: str) -> None:
    old = [f"{number}{row}" for number, row in enumerate(text.split("\n"))]
    changed = [*old[:line], *new.split("\n"), *old[line + 1 :]]
    diff = "\n".join(unified_diff(old, changed, "a/m.py", "b/m.py", lineterm=""))
    files = workspace.patched({"m.py": "\n".join(old) + "\n"}, diff)
    assert files["m.py"] == "\n".join(changed) + "\n"


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_a_patch_of_any_text_is_refused_or_applied(text: str) -> None:
    for patch in (text, f"--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n{text}"):
        try:
            files = workspace.patched({"m.py": "a\nb\n"}, patch)
        except ToolError:
            continue
        assert set(files) >= {"m.py"}


def test_edits_of_a_world_are_what_differs() -> None:
    world = RepoWorld(1, 3)
    files = world.files()
    path = next(iter(files))
    changed = world.with_files({**{name: text for name, text in files.items() if name != path}, "new.py": "x"})
    assert dict(changed.edits) == {path: None, "new.py": "x"}
    assert changed.with_files(files) == world


@needs_sandbox
def test_observations_do_not_tell_where_the_sandbox_is() -> None:
    """The folder differs from tier to tier, and what the policy reads must not."""
    env = env_of(1, 0)
    program = "python3 -c 'import os; print(os.getcwd()); open(os.getcwd() + \"/none\")'"
    observation = env.step(call("shell", command=f"pwd; {program}"))[0]
    assert observation.startswith(".\n")
    assert "/work" not in observation
    assert "No such file or directory: 'none'" in observation
    failing = env.step(call("run_tests"))[0]
    assert 'File "tests/' in failing


def test_threads_make_repositories_at_once():
    """CPython's parser fails where garbage is collected while two threads use it."""

    def give_way(*_):
        time.sleep(0)

    threshold = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda seed: repository(1, seed), range(710_001, 710_005)))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(give_way)
    assert len({each.issue for each in made}) == 4


def test_a_folder_that_a_program_left_is_judged_as_the_files_are():
    env = gym.make("rlvr/RepoRepair-v0")
    env.reset(seed=3)
    task, state = env.unwrapped.task, env.unwrapped.get_state().state
    given = state.world.repository()
    files = {path: text for path, text in task.workspace(state).items() if isinstance(text, str)}
    assert files == given.files
    assert any(path.startswith(".git/objects/") for path in task.workspace(state))
    assert task.judge_files(state, files).reason == "nothing in the package was changed"
    assert task.judge_files(state, {}).status == "wrong"
    large = {f"{given.package.name}/large.py": "#" * 60_001}
    assert task.judge_files(state, files | large).status == "unparsable"
    assert task.judge_files(state, files | {f"{given.package.name}/../x.py": ""}).status == "unparsable"
    fixed = {given.path(fault.module): given.package.modules[fault.module] for fault in given.faults}
    assert task.judge_files(state, files | fixed | {"../../etc/passwd": "", "notes\n": "x"}).status == "correct"
