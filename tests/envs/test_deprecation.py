"""Old public names: they still work, and warn with the new one."""

from __future__ import annotations

import importlib
import random

import pytest

from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.text_env import TextEnv
from rlvr.envs.core.verdict import correct


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


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("rlvr.envs.rewards.tasks", "Asked", "QuestionTask"),
        ("rlvr.envs.rewards.tasks", "Questions", "ExactAnswerTask"),
        ("rlvr.envs.rewards.tasks", "Constructions", "CheckedAnswerTask"),
        ("rlvr.envs.rewards.answers", "Listing", "ListAnswerTask"),
        ("rlvr.envs.curriculum", "Part", "MixturePart"),
    ],
)
def test_a_renamed_class_is_found_under_its_old_name(module: str, old: str, new: str):
    found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(found, old) is getattr(found, new)
    with pytest.raises(AttributeError, match="nothing"):
        _ = found.nothing


def test_a_verdict_is_changed_by_replace():
    verdict = correct("4")
    with pytest.warns(DeprecationWarning, match="replace"):
        assert verdict.but(reward=0.5) == verdict.replace(reward=0.5)


def test_the_sandbox_gives_its_classes_under_their_old_names():
    sandbox = importlib.import_module("rlvr.envs.sandbox")
    for old, new in (("Session", "SandboxSession"), ("Workspace", "TerminalWorkspace")):
        with pytest.warns(DeprecationWarning, match=new):
            assert getattr(sandbox, old) is getattr(sandbox, new)
