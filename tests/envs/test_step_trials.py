"""A step that never returns, or that ends its process, because of the action is a 0; any other is invalid."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rlvr.agents import Reply, Rollout, task_requests
from rlvr.envs.vector import VectorEnv
from rlvr.envs.vector.step_trials import StepHistory, in_threads, is_provoked

PATIENCE = 1.0


sys.path.insert(0, str(Path(__file__).parent))  # worker processes look where this process looks
make = importlib.import_module("vector_envs").hanging


def last_verdict(backend: str, mode: str, words: list[str], always: bool = False) -> Any:
    with VectorEnv(
        partial(make, always), 2, backend=backend, workers=2, timeout=PATIENCE, autoreset_mode=mode
    ) as vector:
        vector.reset(seed=5)
        for word in words:
            _, rewards, terminations, truncations, infos = vector.step([word, "right" if not always else word])
            assert not truncations[1] or always
        row = infos.rows[0]
        if mode != "SameStep":
            assert bool(terminations[0]) is row["verdict"].valid
            assert bool(truncations[0]) is not row["verdict"].valid
        assert rewards[0] == 0.0
        verdict = row["verdict"]
        if mode == "NextStep" and not always:
            vector.step(["x", "right"])  # the next episode begins
            assert vector.step(["x", "right"])[4].rows[0]["verdict"].status == "wrong"
        return verdict


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("thread", ["sleep"]),
        ("thread", ["x", "spin"]),
        ("thread", ["poison", "x"]),
        ("asyncio", ["sleep"]),
        ("process", ["x", "spin"]),
        ("process", ["match"]),
        ("process", ["leave"]),
    ],
)
def test_a_step_that_does_not_return_by_the_actions_doing_is_a_zero(backend: str, words: list[str], mode: str):
    verdict = last_verdict(backend, mode, words)
    assert (verdict.status, verdict.valid) == ("wrong", True)
    why = "its process died" if "leave" in words else "no answer within 1 s"
    assert verdict.reason == f"the environment failed on what the policy wrote: step: {why}"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["thread", "process"])
def test_a_step_that_would_not_have_returned_whatever_was_written_is_invalid(backend: str):
    verdict = last_verdict(backend, "NextStep", ["x"], always=True)
    assert (verdict.status, verdict.reason) == ("timeout", "step: no answer within 1 s")


class Saying:
    def __init__(self, *words: str) -> None:
        self.words = words

    def act(self, conversations):
        return [Reply(self.words[sum(m["role"] == "assistant" for m in c.messages)]) for c in conversations]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("words", "always", "status"),
    [(["x", "sleep"], False, "wrong"), (["poison", "x"], False, "wrong"), (["x"], True, "timeout")],
)
def test_a_rollout_has_the_same_rule(workers: int, words: list[str], always: bool, status: str):
    rollout = Rollout(partial(make, always), Saying(*words), workers=workers, timeout=PATIENCE)
    for episode in rollout(task_requests(None, 2)):
        assert episode.verdict is not None
        assert (episode.verdict.status, episode.valid) == (status, status == "wrong")
        assert episode.verdict.reason.endswith("no answer within 1 s")
        assert episode.terminated is episode.valid


def test_what_cannot_be_played_again_is_nobodys_doing():
    assert not is_provoked(StepHistory(None, "", ["x"]), partial(in_threads, make), PATIENCE)
    assert not is_provoked(StepHistory((5, None), "another task", ["sleep"]), partial(in_threads, make), PATIENCE)
    env = make()
    first, _ = env.reset(seed=5)
    assert not is_provoked(StepHistory((5, None), first, ["x"]), partial(in_threads, make), PATIENCE)
