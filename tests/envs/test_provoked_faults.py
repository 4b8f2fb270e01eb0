"""The law: what a policy's own words provoke gets a valid verdict, and is loud; a fault of ours stays one."""

from __future__ import annotations

import logging
import random

import gymnasium as gym
import pytest

from rlvr.agents import ExpertAgent, Reply, Rollout, evaluate, summarise, task_requests
from rlvr.agents.evaluation.summary import provoked_causes
from rlvr.envs import TextEnv
from rlvr.envs.bridges.pools import verdict_on_fault
from rlvr.envs.core import verdict as law
from rlvr.envs.core.task import Task, Transition
from rlvr.envs.core.verdict import correct, wrong
from rlvr.envs.rewards import grade, grading
from rlvr.envs.rewards.rubric import Rubric, Score
from rlvr.envs.rewards.workers import WorkerError, WorkerFailed, WorkerSpent, WorkerTimeout
from rlvr.envs.tools import Call, Functions, write_call
from rlvr.envs.wrappers import RubricReward

SUMS = "rlvr/Sums-v0"


class Brittle(Task[tuple[int, tuple[str, ...]]]):
    """Three turns: its code raises on some words, at once, in what it shows next, or a turn later."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken

    def turns(self, level):
        return 3

    def start(self, rng, level):
        return rng.randrange(10**6), ()

    def observe(self, state):
        if state[1] and state[1][-1] == "unseen":
            raise KeyError("unseen")
        return f"Say {state[0]}."

    def content(self, state):
        return str(state[0])

    def apply(self, state, action):
        if self.broken:
            raise OSError("no disk")
        if action == "boom" or "poison" in state[1]:
            raise ZeroDivisionError("boom")
        if action == "deep":
            return self.apply(state, action)
        if action == "huge":
            return [0] * 10**15
        done = len(state[1]) == 2
        return Transition((state[0], (*state[1], action)), correct() if action == "right" else wrong(), done)

    def solve(self, state):
        return "right"


@pytest.fixture(autouse=True)
def forgotten():
    law._logged.clear()


@pytest.mark.parametrize("words", [["boom"], ["deep"], ["huge"], ["unseen"], ["poison", "x"], ["x", "boom"]])
def test_an_environment_that_raises_on_some_words_gives_zero_and_says_so(words: list[str], caplog):
    env = TextEnv(Brittle(), render_mode="ansi")
    env.reset(seed=1)
    with caplog.at_level(logging.WARNING):
        for word in words:
            observation, reward, terminated, truncated, info = env.step(word)
    verdict = info["verdict"]
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)
    assert (verdict.status, verdict.valid, info["turn"]) == ("wrong", True, len(words))
    assert observation == verdict.reason
    assert verdict.reason.startswith("the environment Brittle failed on what the policy wrote: ")
    assert "a bug that a policy can reach" in caplog.text
    with pytest.raises(gym.error.ResetNeeded):
        env.step("x")
    env.reset(seed=1)
    assert not env.step("x")[2]


def test_one_cause_is_logged_once(caplog):
    env = TextEnv(Brittle())
    with caplog.at_level(logging.WARNING):
        for seed in range(5):
            env.reset(seed=seed)
            env.step("boom")
    assert len(caplog.records) == 1


def test_an_environment_that_raises_whatever_is_written_raises():
    env = TextEnv(Brittle(broken=True))
    env.reset(seed=0)
    with pytest.raises(OSError, match="no disk"):
        env.step("x")


class Flaky(Brittle):
    """Raises once."""

    def apply(self, state, action):
        if not self.broken:
            self.broken = True
            raise ConnectionError("for a moment")
        self.broken = False
        return super().apply(state, action)


def test_what_does_not_happen_again_is_no_doing_of_the_policy():
    env = TextEnv(Flaky())
    env.reset(seed=0)
    with pytest.raises(ConnectionError):
        env.step("x")


def test_an_evaluation_counts_them_by_cause():
    gym.register("Brittle-v0", "rlvr.envs.core.text_env:TextEnv", kwargs={"task": Brittle()})

    class Bomber:
        def act(self, conversations):
            return [Reply(random.Random(conversation.key).choice(["boom", "right"])) for conversation in conversations]

    try:
        result = evaluate(Rollout("Brittle-v0", Bomber()), task_requests(None, 20))
    finally:
        gym.registry.pop("Brittle-v0")
    assert result.valid == 20
    (cause,) = result.provoked
    assert cause.episodes == 20 - result.successes > 5
    assert "environment Brittle failed on what the policy wrote: ZeroDivisionError: boom" in str(result)
    assert any("a bug that a policy can reach" in text for text in result.warnings)
    assert provoked_causes([]) == ()
    assert summarise([]).provoked == ()


def test_an_agent_that_breaks_a_tool_on_most_tasks_is_not_made_better_by_it():
    def divide(a: float, b: float) -> str:
        """Divide a by b.

        Args:
            a: the numerator.
            b: the denominator.
        """
        return str(a / b)

    class Dodger:
        """Right on one task in five; on the others it divides by zero until no call is left."""

        in_any_thread = False

        def act(self, conversations):
            return [self._reply(c) for c in conversations]

        def _reply(self, conversation):
            if conversation.key.split("/")[-3] in {"0", "5", "10", "15"}:
                return ExpertAgent().act([conversation])[0]
            return Reply(write_call(Call("divide", {"a": 1, "b": 0}), "hermes"))

    settings = {"tools": {"tools": [Functions(divide)]}}
    result = evaluate(Rollout(SUMS, Dodger(), env_settings=settings), task_requests(None, 20))
    assert (result.valid, result.successes) == (20, 4)


def test_a_reward_function_that_raises_on_a_reply_gives_zero_and_one_that_always_does_is_a_fault():
    score = Score("length", lambda sample: 1 / (3 - len(sample.completion)))
    assert score("ab").reward == 1.0
    assert (score("abc").status, score("abc").valid) == ("wrong", True)
    assert Score("inf", lambda sample: float("inf") if sample.completion else 0.0)("x").status == "wrong"
    assert Score("down", lambda sample: 1 / 0)("x").status == "verifier_error"
    turns = iter([ConnectionError("for a moment")])

    def away_once(sample):
        for error in turns:
            raise error
        return 1.0

    assert Score("remote", away_once)("x").status == "verifier_error"


class Own(Rubric):
    def evaluate(self, sample):
        return correct(reward=1 / (3 - len(sample.completion)))


def test_a_rubric_that_raises_on_an_action_gives_zero():
    env = RubricReward(gym.make(SUMS), Own())
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("abc")
    assert (reward, terminated, info["verdict"].valid) == (0.0, True, True)


@pytest.mark.parametrize(
    ("error", "alone", "status"),
    [
        (WorkerFailed("it raised"), None, "wrong"),
        (WorkerFailed("it raised"), WorkerFailed("so does the reference"), "verifier_error"),
        (WorkerSpent("no memory"), None, "wrong"),
        (WorkerSpent("no memory"), WorkerSpent("again"), "timeout"),
        (WorkerTimeout("busy"), None, "timeout"),
        (WorkerError("killed from outside"), None, "verifier_error"),
    ],
)
def test_what_fails_in_a_worker_is_the_actions_doing_where_the_control_goes_through(error, alone, status):
    def control():
        if alone is not None:
            raise alone

    assert verdict_on_fault(error, control, None, "verifier_error").status == status


def test_a_grader_that_raises_on_a_reply_gives_zero_and_one_that_always_does_is_a_fault(monkeypatch):
    def brittle(completion, reference):
        if completion == "boom" or reference is None:
            raise IndexError(completion)
        return wrong()

    monkeypatch.setattr(grading, "grader", lambda kind: brittle)
    assert grade("exact", "boom", "x").status == "wrong"
    assert grade("exact", "boom", None).status == grade("exact", "calm", None).status == "verifier_error"


def test_a_module_that_is_missing_is_never_the_policys_doing(monkeypatch: pytest.MonkeyPatch):
    """Its words alone may ask for the module: half of a broken installation's answers would be wrong."""

    def grader(completion: str, reference: object) -> object:
        if completion:
            raise ModuleNotFoundError("No module named 'flint'")
        return wrong()

    monkeypatch.setattr(grading, "grader", lambda kind: grader)
    assert grade("number", "\\boxed{1}", "1").status == "verifier_error"
