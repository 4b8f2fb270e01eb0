"""What an agent may offer is asked for in one way, so that a None means the same everywhere."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from rlvr.agents import Reply, Rollout, evaluate, task_requests
from rlvr.agents.conversation import Capability, capability

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for room in ("agents", "algorithms", "adapters", "src/rlvr") for path in (ROOT / room).rglob("*.py")
)


class Agent:
    """Has each capability by name, and offers none."""

    def act(self, conversations):
        return [Reply("\\boxed{1}") for _ in conversations]


for name in get_args(Capability):
    setattr(Agent, name, None)


@pytest.mark.parametrize("record", [False, True])
def test_a_capability_that_is_none_is_not_offered(tmp_path, record):
    """The agent of a vLLM in this process has a ``submit`` that is None."""
    path = tmp_path / "episodes.jsonl" if record else None
    result = evaluate(Rollout("rlvr/Countdown-v0", Agent()), task_requests(None, 3), record=path)
    assert result.valid == 3


def test_false_and_empty_are_not_offered_either():
    agent = Agent()
    agent.in_any_thread, agent.given_up = False, ""
    assert capability(agent, "in_any_thread") is capability(agent, "given_up") is None
    assert capability(object(), "submit") is None


def test_nobody_asks_in_another_way():
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("hasattr", "getattr")
            ):
                name = node.args[1]
                if isinstance(name, ast.Constant) and name.value in get_args(Capability):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found
