"""Old public names: they still work, and warn with the new one."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from pathlib import Path

import pytest

from rlvr.envs.core.deprecation import _MovedModules
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import correct

ROOT = Path(__file__).parents[2]


def old_task() -> type[Task[int]]:
    class Old(Task[int]):
        certain = False

        def start(self, rng: random.Random, level: int) -> int:
            return rng.randrange(3)

        def observe(self, state: int) -> str:
            return f"Say {state}."

        def apply(self, state: int, action: str) -> Transition:
            return Transition(state, correct(action), terminated=True)

        def solve(self, state: int) -> str:
            return str(state)

        def space(self, level: int) -> list[str]:
            return [f"Say {number}." for number in range(3)]

        def shortcut(self, state: int) -> str:
            return f"just {state}"

    return Old


def test_a_task_written_with_the_old_names_works_and_warns():
    with pytest.warns(DeprecationWarning, match=r"Old\.certain is now called always_solvable") as warned:
        task = old_task()
    messages = " ".join(str(warning.message) for warning in warned)
    assert "enumerate_contents" in messages
    assert "direct_answer" in messages
    env = TextEnv(task())
    env.reset(seed=0)
    assert env.task.always_solvable is False
    assert sorted(env.task.enumerate_contents(1)) == ["Say 0.", "Say 1.", "Say 2."]
    assert env.direct_answer() == f"just {env.solve()}"


def test_reading_an_old_name_warns_and_gives_the_new_one():
    env = TextEnv("rlvr.envs.puzzles.countdown:Countdown")
    env.reset(seed=0)
    with pytest.warns(DeprecationWarning, match="always_solvable"):
        assert env.task.certain is True
    with pytest.warns(DeprecationWarning, match="direct_answer"):
        assert env.shortcut() == env.direct_answer()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = env.task.nothing
    with pytest.raises(AttributeError, match="no attribute 'certain'"):
        _ = type(env.task).certain


def test_reading_an_attribute_of_a_task_runs_no_code_of_its_class():
    assert not hasattr(Task, "__getattr__"), "every read of every attribute would look for it first"


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("rlvr.envs.tasks.questions", "Asked", "QuestionTask"),
        ("rlvr.envs.tasks.questions", "Questions", "ExactAnswerTask"),
        ("rlvr.envs.tasks.questions", "Constructions", "CheckedAnswerTask"),
        ("rlvr.envs.tasks.answers", "Listing", "ListAnswerTask"),
        ("rlvr.envs.curriculum", "Part", "MixturePart"),
        ("rlvr.envs.agentic.terminal", "Sitting", "TerminalState"),
        ("rlvr.envs.tools.with_tools", "Working", "ToolsState"),
        ("rlvr.envs.tools.turn", "Heard", "TurnResult"),
    ],
)
def test_a_renamed_class_is_found_under_its_old_name(module: str, old: str, new: str):
    found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(found, old) is getattr(found, new)
    with pytest.raises(AttributeError, match="nothing"):
        _ = found.nothing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rewards.tasks", "tasks.questions"),
        ("rewards.table_tasks", "tasks.tables"),
        ("rewards.answers", "tasks.answers"),
        ("rewards.endpoint", "endpoint"),
        ("rewards.number", "rewards.graders.number"),
        ("rewards.arithmetic", "rewards.expressions.arithmetic"),
        ("sandbox.wire", "sandbox.inside.wire"),
    ],
)
def test_a_moved_module_is_found_under_its_old_path(old: str, new: str, monkeypatch):
    found = importlib.import_module(f"rlvr.envs.{new}")
    monkeypatch.delitem(sys.modules, f"rlvr.envs.{old}", raising=False)
    with pytest.warns(DeprecationWarning, match=rf"rlvr\.envs\.{old} is now called rlvr\.envs\.{new};"):
        assert importlib.import_module(f"rlvr.envs.{old}") is found


@pytest.mark.parametrize("package", ["rewards", "sandbox"])
def test_every_old_path_leads_to_a_module(package: str):
    importlib.import_module(f"rlvr.envs.{package}")
    finders = [finder for finder in sys.meta_path if isinstance(finder, _MovedModules)]
    homes = {old: new for finder in finders for old, new in finder._homes.items() if f"envs.{package}." in old}
    assert len(homes) >= 10
    for old, new in homes.items():
        assert importlib.util.find_spec(new) is not None, new
        assert not (ROOT / old.removeprefix("rlvr.").replace(".", "/")).with_suffix(".py").exists()


def test_a_verdict_is_changed_by_replace():
    verdict = correct("4")
    with pytest.warns(DeprecationWarning, match="replace"):
        assert verdict.but(reward=0.5) == verdict.replace(reward=0.5)


def test_the_sandbox_gives_its_classes_under_their_old_names():
    sandbox = importlib.import_module("rlvr.envs.sandbox")
    for old, new in (("Session", "SandboxSession"), ("Workspace", "TerminalWorkspace")):
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(sandbox, old) is getattr(sandbox, new)
