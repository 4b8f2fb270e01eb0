"""A grader of one's own: a function, an object, a registered name or module:name. The law holds for what it does."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlvr  # noqa: F401  (registers the ids)
from rlvr.cli import main
from rlvr.envs.core.code_rule import CodeRefused, settings_are_data
from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards import GRADERS, BadOption, agrade, grade, grade_batch, register_grader
from rlvr.envs.rewards.rubric import Grade, Score
from rlvr.envs.sandbox import SandboxUnavailable
from rlvr.envs.tasks.digests import env_digest


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(GRADERS, "_values", dict(GRADERS._values))


def close(reply: str, answer: str, *, margin: float = 0.5) -> bool:
    return abs(float(reply) - float(answer)) <= margin


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "mine.jsonl"
    rows = [{"question": "6 * 7?", "answer": "42"}, {"question": "9 + 8?", "answer": "17"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def verdict_of(env: gym.Env, action: str) -> Verdict:
    env.reset(seed=0, options={"index": 0})
    env.unwrapped._state = env.unwrapped.task.problems[0]
    return env.step(action)[4]["verdict"]


# where a name stands, a function or an object does


class Exactly:
    name = "exactly"

    def __call__(self, reply: str, answer: object) -> float:
        return float(reply == answer)


@pytest.mark.parametrize(
    "grader", [close, Exactly(), functools.partial(close, margin=0.1), Score("s", lambda s: s.completion == "42")]
)
def test_a_table_takes_a_function_or_an_object(grader, table):
    env = gym.make("rlvr/Dataset-v0", data_files=table, grader=grader)
    assert verdict_of(env, "42").status == "correct"
    assert verdict_of(env, "40").status == "wrong"
    assert verdict_of(env, "words").valid


def test_a_table_takes_a_registered_name_and_options(table):
    register_grader(close)
    env = gym.make("rlvr/Dataset-v0", data_files=table, grader="close", grader_options={"margin": 3})
    assert verdict_of(env, "40").success
    assert not verdict_of(gym.make("rlvr/Dataset-v0", data_files=table, grader="close"), "40").success
    assert gym.make("rlvr/GSM8K-v0", grader=Exactly()).unwrapped.task.kind == "exactly"


def test_a_reference_of_several_parts_is_given_as_it_is_and_cannot_be_changed(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text(json.dumps({"question": "q", "answer": {"words": ["a", "b"]}}) + "\n")

    def pops(reply: str, answer: dict) -> bool:
        return bool(reply) and answer["words"].pop() == reply

    env = gym.make("rlvr/Dataset-v0", data_files=path, grader=pops)
    assert [verdict_of(env, "b").success for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(
    ("value", "reward", "status"),
    [
        (True, 1, "correct"),
        (np.bool_(False), 0, "wrong"),
        (0.25, 0.25, "partial"),
        (np.float32(1), 1, "correct"),
        (Verdict(0.5, "partial", "x"), 0.5, "partial"),
        (None, 0, "verifier_error"),
        ("1", 0, "verifier_error"),
        (float("nan"), 0, "verifier_error"),
        (1.5, 0, "verifier_error"),
        (np.ones(3), 0, "verifier_error"),
    ],
)
def test_what_a_grader_may_give(value, reward, status):
    verdict = grade(lambda reply, answer: value, "x", "y")
    assert (verdict.reward, verdict.status) == (reward, status)


def test_every_way_to_grade_takes_a_grader_of_ones_own():
    import asyncio

    assert [v.reward for v in grade_batch(close, ["1", "2"], ["1", "9"])] == [1, 0]
    assert asyncio.run(agrade(close, "1", "1", margin=0)).success
    assert (0.5 * Grade(close, margin=2))("3", "4").reward == 0.5
    assert Grade(close).name == "close"


# the law


@given(st.text())
def test_whatever_a_reply_provokes_is_valid(reply: str):
    verdict = grade(fragile, reply, "17")
    assert verdict.valid
    assert verdict.success == (reply == "17")


def fragile(reply: str, answer: str) -> object:
    """Fails in a way of its own on most replies, and grades an empty one."""
    if reply in ("", answer):
        return reply == answer
    failures = [
        lambda: 1 / 0,
        lambda: (_ for _ in ()).throw(SystemExit(2)),
        lambda: (_ for _ in ()).throw(RecursionError),
        lambda: (_ for _ in ()).throw(BadOption("x")),
        lambda: Verdict(0.0, "env_error"),
        lambda: Verdict(0.0, "timeout"),
        lambda: "no verdict",
        lambda: float("inf"),
    ]
    return failures[len(reply) % len(failures)]()


def test_what_would_have_happened_whatever_was_written_is_a_fault():
    def gone(reply: str, answer: str) -> bool:
        raise ConnectionError("the judge's server is gone")

    assert grade(gone, "x", "y").status == "verifier_error"
    assert grade(lambda reply, answer: Verdict(0.0, "timeout"), "x", "y").status == "timeout"


def test_a_grader_that_reads_nothing_in_an_empty_reply_is_none_of_the_environments_faults():
    """Whoever writes words would otherwise take the 0 out of the mean."""
    for reference in ("42", 42, ["42", "42.0"]):
        first = reference[0] if isinstance(reference, list) else reference
        assert grade(lambda reply, answer, first=first: float(reply) == float(first), "words", reference).valid
    assert grade(lambda reply, answer: reply.split("boxed{")[1] == f"{answer}}}", "words", "42").valid


def test_a_sandbox_that_is_not_there_is_told():
    def runs(reply: str, answer: str) -> bool:
        raise SandboxUnavailable("no tier holds")

    with pytest.raises(SandboxUnavailable):
        grade(runs, "x", "y")


# bad input


async def later(reply: str, answer: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        (lambda reply: True, "one", r"takes a completion and a reference, and <lambda>\(reply\) does not"),
        (3, "", "not 3"),
        (Exactly, "", "not the class Exactly: give an object of it"),
        (later, "", "'later' is async"),
        (lambda reply, answer: True, "", "letters, digits and _"),
        (lambda reply, answer: True, "two words", "letters, digits and _"),
        (lambda reply, answer: True, "number", "a grader 'number' already"),
    ],
)
def test_what_cannot_be_registered_says_why_in_one_sentence(value, name, message):
    with pytest.raises((TypeError, ValueError), match=message) as error:
        register_grader(value, name)
    assert "\n" not in str(error.value)
    assert grade("number", "\\boxed{1}", "1").success


def test_a_name_is_registered_once_and_the_same_grader_again_is_no_second_one():
    assert register_grader(close) == register_grader(close)
    with pytest.raises(ValueError, match="a grader 'close' already"):
        register_grader(lambda reply, answer: True, "close")
    assert grade("close", "1", "1.2").success


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grader": "exat"}, "no grader 'exat'; did you mean 'exact'"),
        ({"grader": "action"}, "no grader 'action'"),
        ({"grader": "nowhere:fn"}, "'nowhere:fn' names no function"),
        ({"grader": "json:loads"}, "has no option|cannot be graded|takes a completion"),
        ({"grader": close, "grader_options": {"margn": 1}}, "'close' has no option 'margn'; did you mean 'margin'"),
        ({"grader": "exact", "grader_options": {"normalise": 1}}, "no option 'normalise'; did you mean 'normalize'"),
        ({"grader": lambda reply, answer, *, tol: True}, "needs the option tol"),
        ({"grader": lambda reply, answer: None}, "row 0 cannot be graded"),
    ],
)
def test_a_table_with_a_grader_that_cannot_be_says_so_when_it_is_made(table, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        gym.make("rlvr/Dataset-v0", data_files=table, **settings)


def test_module_and_name_under_the_code_rule(tmp_path, table, monkeypatch, capsys):
    (tmp_path / "grader_parts.py").write_text(
        "def same(reply, answer):\n    return reply.strip() == f'\\\\boxed{{{answer}}}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with settings_are_data(), pytest.raises(CodeRefused, match="--allow-code"):
        gym.make("rlvr/Dataset-v0", data_files=table, grader="grader_parts:same")
    command = ["eval", "--env", "Dataset", "--agent", "expert", "--set", f"data_files={table}"]
    command += ["--set", "grader=grader_parts:same"]
    assert main(command) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert main([*command, "--allow-code"]) == 0
    assert "2/2" in capsys.readouterr().out


def test_digests_follow_the_code_of_a_grader(tmp_path, table, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for number in (1, 2):
        (tmp_path / f"digest_parts{number}.py").write_text(f"def same(reply, answer):\n    return {number} == 1\n")
        env = gym.make("rlvr/Dataset-v0", data_files=table, grader=f"digest_parts{number}:same")
        digests.append(env_digest(env).partition("code=")[2])
    assert digests[0] != digests[1]
