"""The audit is clean on every id, and finds each fault that is planted."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import gymnasium as gym
import pytest

from rlvr.cli import main
from rlvr.envs import TextEnv, list_envs
from rlvr.envs.audit import audit
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import Verdict, correct, wrong
from rlvr.envs.rewards import grade
from rlvr.envs.validation.attacks import DISGUISES

from ..needs import COSTLY

OURS = [env_id for env_id in list_envs() if gym.spec(env_id).kwargs["task"].startswith("rlvr.")]


class Pair(NamedTuple):
    a: int
    b: int


class Addition(Task[Pair]):
    """A sound task; each fault below breaks one thing."""

    def start(self, rng: random.Random, level: int) -> Pair:
        return Pair(rng.randint(10_000, 99_999), rng.randint(10_000, 99_999))

    def observe(self, state: Pair) -> str:
        return f"What is {state.a} + {state.b}?"

    def apply(self, state: Pair, action: str) -> Transition:
        return Transition(state, self.judge(state, action), terminated=True)

    def judge(self, state: Pair, action: str) -> Verdict:
        return grade("number", action, str(state.a + state.b))

    def solve(self, state: Pair) -> str:
        return f"\\boxed{{{state.a + state.b}}}"


class PaysForMention(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return correct() if str(state.a + state.b) in action else wrong()


class PaysForAnything(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return correct() if action.strip() else wrong()


class PaysEveryone(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return correct()


class FailsItsExpert(Addition):
    def solve(self, state: Pair) -> str:
        return "\\boxed{0}"


class TellsTheAnswer(Addition):
    def observe(self, state: Pair) -> str:
        return f"What is {state.a} + {state.b}? (It is {state.a + state.b}.)"


class IsSlow(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        if len(action) > 50_000:
            time.sleep(0.25)
        return super().judge(state, action)


class Breaks(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return Verdict(0.0, "verifier_error", reason="lost") if "9**9" in action else super().judge(state, action)


class Raises(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        if "ignore" in action.lower():
            raise KeyError("the author forgot this")
        return super().judge(state, action)


class PaysTheStart(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return correct() if f"{{{state.a + state.b}" in action else wrong()


class PaysTheSize(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return grade("number", action.replace("{-", "{"), str(state.a + state.b))


class DiffersByRun(Addition):
    def observe(self, state: Pair) -> str:
        return f"{super().observe(state)} ({random.random()})"


class FavoursA(Addition):
    def judge(self, state: Pair, action: str) -> Verdict:
        return grade("choice", action, "A", letters="ABCD")

    def solve(self, state: Pair) -> str:
        return "\\boxed{A}"


def found(task: Task[Pair]) -> set[str]:
    tasks = 2 if isinstance(task, IsSlow) else 12
    return {finding.name for _, finding in audit(TextEnv(task), tasks=tasks).findings}


@pytest.mark.slow
@pytest.mark.parametrize("env_id", OURS)
def test_every_environment_is_clean(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # test_every_env.py plays the expert on more tasks
    monkeypatch.setattr("rlvr.envs.validation.context.Validation.many_refs", property(lambda self: self.refs))
    monkeypatch.setattr("rlvr.envs.validation.sound.DRAWN", 8 if env_id in COSTLY else 40)
    env = gym.make(env_id).unwrapped
    # an attack is written in every turn: of games and worlds one task of each level has many of them; where luck has a
    # part, the expert may fail on one
    one = env.task.turns(1) > 1 and (env.task.always_solvable or env_id in COSTLY)
    result = audit(env, tasks=1 if one else 3)
    assert result.clean, str(result)
    assert "clean" in str(result)


def test_the_sound_task_is_clean() -> None:
    assert found(Addition()) == set()


def test_a_move_that_the_prompt_lists_is_no_leaked_answer() -> None:
    """An expert's first move may end a game of poker, and stands among the legal moves, as all others do."""
    result = audit(gym.make("rlvr/KuhnPoker-v0").unwrapped, tasks=12)
    assert result.clean, str(result)
    assert any("the prompt lists the moves" in each.measured for each in result.results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "check"),
    [
        (PaysForMention(), "the answer among others"),
        (PaysForMention(), "the answer only thought"),
        (PaysForAnything(), "junk"),
        (PaysForAnything(), "echo of the prompt"),
        (PaysEveryone(), "empty"),
        (FailsItsExpert(), "expert"),
        (TellsTheAnswer(), "the answer is not in the prompt"),
        (IsSlow(), "digits"),
        (Breaks(), "tower"),
        (DiffersByRun(), "repeats"),
        (Raises(), "injection"),
        (PaysTheStart(), "the answer, halved"),
        (PaysTheStart(), "the answer, squared"),
        (PaysTheStart(), "the answer's exponent moved"),
        (PaysTheSize(), "the answer's sign changed"),
        (FavoursA(), "no option is favoured"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_planted_fault_is_found(task: Task[Pair], check: str) -> None:
    assert check in found(task)


def test_a_task_without_expert_says_what_was_not_checked() -> None:
    class Mute(Addition):
        solve = Task.solve

    result = audit(TextEnv(Mute()), tasks=3)
    assert [finding.name for _, finding in result.findings] == ["maximum not shown"]


def test_the_command_fails_on_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "rlvr/Countdown-v0", "--tasks", "2"]) == 0
    assert "rlvr/Countdown-v0: clean" in capsys.readouterr().out
    gym.register("rlvr-test/Bad-v0", lambda: TextEnv(PaysEveryone()))
    assert main(["audit", "rlvr-test/Bad-v0", "--tasks", "2"]) == 1
    assert "FINDINGS" in capsys.readouterr().out


class Near(Addition):
    """The answer is within a tolerance of the number that the audit tries as another."""

    def judge(self, state: Pair, action: str) -> Verdict:
        return grade("number", action, str(7890 + state.a % 20), rel_tol=0.01)

    def solve(self, state: Pair) -> str:
        return f"\\boxed{{{7890 + state.a % 20}}}"


def test_another_answer_is_another_under_any_tolerance() -> None:
    assert "the answer, then another" not in {finding.name for _, finding in audit(TextEnv(Near()), tasks=3).findings}
    reply = DISGUISES["the answer, then another"]("", Near().solve(Pair(19, 1)))
    assert reply is not None
    assert "104729" in reply
