"""RepoFeature: what is asked for is missing, what is left works, features are held out, nothing else is paid."""

from __future__ import annotations

import ast
import re

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs import TextEnv
from rlvr.envs.agentic.repositories import workspace
from rlvr.envs.agentic.repositories.features import (
    FEATURES,
    PARTS,
    definitions,
    repository_without_feature,
    stubs_of,
)
from rlvr.envs.agentic.repositories.package import FOLDERS
from rlvr.envs.agentic.repositories.pages import RAISES, git_folder
from rlvr.envs.agentic.repositories.repository import DOMAINS, SUPPORT, split_of_seed
from rlvr.envs.agentic.repositories.scenarios import outcomes
from rlvr.envs.agentic.repositories.task import RepoWorld
from rlvr.envs.tools import Call, write_call

from ..needs import needs_sandbox

LEVELS = range(1, 6)
BLOCK = re.compile(r"```python\n(.*?)\n```", re.DOTALL)


def env_of(level: int, seed: int, split: str = "train") -> TextEnv:
    env = gym.make("rlvr/RepoFeature-v0", level=level, split=split, disable_env_checker=True).unwrapped
    assert isinstance(env, TextEnv)
    env.reset(seed=seed)
    return env


def call(name: str, /, **arguments: object) -> str:
    return write_call(Call(name, arguments), "hermes")


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from((1, 1, 2, 2, 3, 3, 4, 5)))
def test_a_feature_is_missing_at_the_start_and_whole_with_the_reference(seed: int, level: int) -> None:
    made, size = repository_without_feature(level, seed), FEATURES[level - 1]
    name, modules = made.package.name, made.package.modules
    texts, expected = zip(*made.hidden, strict=True)
    assert list(map(repr, outcomes(name, modules, texts))) == list(map(repr, expected))
    left = {module: made.files[made.path(module)] for module in modules if made.path(module) in made.files}
    passes = [repr(value) == repr(want) for value, want in zip(outcomes(name, left, texts), expected, strict=True)]
    assert passes == [index >= made.failing for index in range(len(texts))]
    assert made.failing >= 4
    assert len({repr(value) for value in expected[: made.failing]}) > 1, "no constant passes"
    assert sum(passes) >= 3
    for module, missing in made.missing.items():
        assert not set(missing) & set(definitions(left.get(module, "")))
        assert made.package.parts[module] in PARTS[split_of_seed(seed)]
    parts = {made.package.parts[module] for module in modules}
    assert parts - {*SUPPORT} <= {*DOMAINS[split_of_seed(seed)]}
    assert len(made.missing) == size.modules or (level == len(FEATURES) and len(made.missing) > size.modules)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from((1, 2, 3, 4, 5)))
def test_a_specification_is_true_and_shows_no_hidden_test(seed: int, level: int) -> None:
    made = repository_without_feature(level, seed)
    *stubs, block = BLOCK.findall(made.issue)
    imports, *examples = block.split("\n\n")
    shown = [f"{imports}\n\n{each.rpartition(chr(10))[0]}" for each in examples]
    told = [each.rpartition("\n# ")[2] for each in examples]
    values = outcomes(made.package.name, made.package.modules, shown)
    for value, text in zip(values, told, strict=True):
        written = value if isinstance(value, str) and value.startswith(RAISES) else repr(value)
        assert text == written or ("…" in text and written.startswith(text.partition(" …")[0]))
    hidden = [program.partition("\n\n")[2] for program, _ in made.hidden[: made.failing]]
    assert not set(hidden) & {each.partition("\n\n")[2] for each in shown}
    for _, value in made.hidden[: made.failing]:
        assert not str(value).startswith(RAISES) or str(value).removeprefix(RAISES) in made.issue
    for stub in stubs:
        ast.parse(stub)
        assert "_" not in {node.name[0] for node in ast.walk(ast.parse(stub))
                           if isinstance(node, ast.FunctionDef) and not node.name.endswith("__")}  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_no_file_of_the_repository_and_no_commit_holds_what_is_missing(level: int) -> None:
    for seed in (0, 2):
        made = repository_without_feature(level, seed)
        texts = [*made.files.values(), *(text for commit in made.commits for text in commit.files.values())]
        for module, missing in made.missing.items():
            for name in missing:
                own = rf"^\s*(?:def|class) {name.rpartition('.')[2]}\b"
                there = [text for text in texts if re.search(own, text, re.MULTILINE)]
                assert all("class " in text and "." in name for text in there), (name, seed)
            page = made.files.get(f"docs/{module}.md", "")
            assert not [name for name in missing if f"## `{name}" in page]
        assert all(content for content in git_folder(made.commits).values())


def test_the_parts_that_are_asked_for_are_in_one_split_each() -> None:
    assert sorted(part for parts in PARTS.values() for part in parts) == sorted({*SUPPORT, *sum(DOMAINS.values(), ())})
    assert all(folder.startswith("rlvr.envs.agentic.repository_") for folder in FOLDERS)


def test_the_levels_differ_in_size() -> None:
    def lines(level: int) -> list[int]:
        drawn = [repository_without_feature(level, seed) for seed in range(4)]
        return [sum(each.package.modules[module].count("\n") - each.files.get(each.path(module), "").count("\n")
                    for module in each.missing) for each in drawn]  # fmt: skip

    sizes = [sum(lines(level)) for level in LEVELS]
    assert sizes[0] < sizes[1] < min(sizes[2:4]) < max(sizes[2:4]) < sizes[4]
    assert sizes[-1] > 5 * sizes[0]


def test_features_differ_in_more_than_names() -> None:
    for level in (1, 2):
        train, test = ({repository_without_feature(level, 10 * seed + ones).signature() for seed in range(24)}
                       for ones in (2, 0))  # fmt: skip
        assert len(train) >= 14
        assert len(test) >= 10
        assert not train & test


def test_stubs_give_signatures_rules_and_constants_and_no_code() -> None:
    text = (
        'SIZES = {"a": 1}\n\nclass Shelf:\n    """Books."""\n    def __init__(self, size: int) -> None:\n'
        '        self.size = size\n    def free(self) -> int:\n        """How many."""\n        return self._left()\n'
        "    def _left(self) -> int:\n        return self.size\ndef sized(name: str) -> int:\n    return SIZES[name]\n"
    )
    whole = stubs_of(text, {"SIZES", "Shelf", "Shelf.free", "Shelf._left", "sized"})
    assert whole.count("...") == 2
    assert all(part in whole for part in ("SIZES = {'a': 1}", '"""Books."""', "size: int", '"""How many."""'))
    assert "return" not in whole
    assert "_left" not in whole
    assert stubs_of(text, {"Shelf.free", "Shelf._left"}).startswith("class Shelf:\n\n    def free(self)")


# playing


@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_builds_every_feature(level: int, split: str) -> None:
    env = env_of(level, 0, split)
    over, turns = False, 0
    while not over:
        _, reward, terminated, truncated, info = env.step(env.solve())
        over, turns = terminated or truncated, turns + 1
    assert (reward, info["verdict"].status) == (1.0, "correct"), info["verdict"].reason
    assert turns <= env.task.budget(level) * 0.8


@needs_sandbox
def test_one_patch_is_enough_and_half_of_it_is_wrong() -> None:
    env = env_of(2, 1)
    patch = env.task.direct_answer(env.get_state().state)
    fork = env.fork()
    assert env.step(patch)[1] == 1.0
    *_, info = fork.step(re.sub(r"(?m)^(\+.*)return ", r"\1return None and ", patch))
    assert (info["verdict"].reward, info["verdict"].status) == (0.0, "wrong")


@needs_sandbox
def test_a_new_module_alone_is_graded() -> None:
    """Where all that is missing is a whole file, nothing that was there has changed."""
    seed = next(seed for seed in range(200) if any(
        repository_without_feature(3, seed).path(module) not in repository_without_feature(3, seed).files
        for module in repository_without_feature(3, seed).missing))  # fmt: skip
    made = repository_without_feature(3, seed)
    world = RepoWorld(3, seed, (), "feature")
    task = env_of(3, 0).task
    assert task.judge(world, "done").reason == "nothing in the package was changed"
    files = world.files() | {made.path(module): made.package.modules[module] for module in made.missing}
    assert task.judge(world.with_files(files), "done").reward == 1.0
    broken = {path: text.replace("return ", "return None or not ") for path, text in files.items()}
    assert task.judge(world.with_files(broken), "done").reward == 0.0


@needs_sandbox
def test_what_breaks_the_rest_earns_nothing() -> None:
    """The feature is there, and something else is gone."""
    made = repository_without_feature(1, 4)
    right = {made.path(module): text for module, text in made.package.modules.items()}
    assert workspace.grade(made.package.name, right, made.hidden).reward == 1.0
    rest = [program for program, _ in made.hidden[made.failing :]]
    other = next(module for module in made.package.modules
                 if any(f"{made.package.name}.{module} import" in program for program in rest))  # fmt: skip
    if other in made.missing:
        lost = {**right, made.path(other): made.files[made.path(other)]}
    else:
        lost = {**right, made.path(other): ""}
    assert workspace.grade(made.package.name, lost, made.hidden).reward == 0.0


@needs_sandbox
def test_a_fork_and_a_restored_state_go_on_alike() -> None:
    env = env_of(1, 3)
    env.step(call("write_file", path="notes.txt", text="one\n"))
    stored, fork = env.get_state(), env.fork()
    env.step(call("shell", command="echo two >> notes.txt; git log --oneline | wc -l"))
    assert env.get_state().state.world != stored.state.world
    env.set_state(stored)
    for each in (env, fork):
        assert each.step(call("view_file", path="notes.txt"))[0].split() == ["1", "one", "2"]
        assert each.get_state().state.world.work == "feature"
