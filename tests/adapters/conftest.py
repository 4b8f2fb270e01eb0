"""What the tests of several frameworks start from: a tiny policy, and a grader that can be brought down."""

from __future__ import annotations

from typing import Any

import pytest

from rlvr.adapters import testing as kit
from rlvr.envs import Verdict
from rlvr.envs.core.task import Transition


@pytest.fixture(scope="module")
def policy() -> Any:
    """A model and its tokenizer, small enough for the CPU."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from rlvr.agents.models.tiny import tiny_policy

    return tiny_policy(hidden=32, layers=1)


@pytest.fixture
def fails_on_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit's environment, in which the word "nothing" brings the grader down."""
    apply = kit.SayTask.apply

    def broken(task: Any, state: Any, action: str) -> Transition:
        after = apply(task, state, action)
        return Transition(after.state, Verdict(0.0, "verifier_error"), True) if action == "nothing" else after

    monkeypatch.setattr(kit.SayTask, "apply", broken)
