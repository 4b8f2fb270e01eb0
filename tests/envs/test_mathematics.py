"""What holds for every one-turn task of mathematics and science that is made up: spaces, levels, answers, units."""

from __future__ import annotations

import importlib
import random
import re

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rlvr
from rlvr.envs.mathematics.numerals import in_base
from rlvr.envs.tasks.questions import QuestionTask

FAMILIES = ("rlvr.envs.mathematics.", "rlvr.envs.science.")
OWN_TESTS = ("rlvr.envs.mathematics.dates", "rlvr.envs.mathematics.linear_algebra")  # they show no working


def registered() -> dict[str, type[QuestionTask]]:
    """Class name -> class of every registered one-turn task of these families."""
    found = {}
    for env_id in rlvr.list_envs():
        module, _, name = gym.spec(env_id).kwargs["task"].partition(":")
        if module.startswith(FAMILIES) and module not in OWN_TESTS:
            task = getattr(importlib.import_module(module), name)
            if issubclass(task, QuestionTask):
                found[name] = task
    return found


TASKS = registered()
EVERY_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


# Small numbers, so that a small model can begin: there are some 800 to 8,000 of them.
FEWER = {
    ("PrimeFactors", 1): 600,
    ("PrimeFactors", 2): 800,
    ("CircleAreas", 1): 780,
    ("Committees", 1): 600,
    ("Committees", 2): 940,
    ("DiceSums", 1): 850,
    ("Divisors", 1): 500,
    ("Divisors", 2): 800,
    ("FactorialPowers", 1): 700,
    ("ModularPower", 1): 800,
    ("Motion", 1): 850,
    ("Motion", 3): 850,
    ("Series", 1): 650,
    ("TaylorCoefficients", 1): 800,
    ("UrnDraws", 1): 850,
}


@EVERY_TASK
@pytest.mark.parametrize("level", range(1, 6))
def test_a_thousand_seeds_are_a_thousand_tasks(task, level):
    """But for the few pairs that chance makes alike: in a space of N tasks some 500,000 / N."""
    made = task()
    contents = {made.content(made.ask(random.Random(seed), level)) for seed in range(1_000)}
    assert len(contents) >= FEWER.get((task.__name__, level), 980)


@EVERY_TASK
@given(seed=st.integers(0, 2**64), level=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_the_answer_is_paid_and_its_neighbours_are_not(task, seed, level):
    made = task()
    question = made.ask(random.Random(seed), level)
    assert made.explain(question)
    assert made.judge(question, made.solve(question)).reward == 1
    answer = re.fullmatch(r"\\boxed\{(.*)\}", made.direct_answer(question))[1]
    assert not re.search(rf"(?<![\w.]){re.escape(answer)}$", question.text)
    exact = "science" not in task.__module__  # a quantity is asked for within 1 %
    near = [f"{answer}7", "0.5772"] if exact else []
    near += [f"7{answer}", f"{answer}, {answer}", f"{answer} or 7", ""]
    near += [] if answer.startswith("0") else [f"-{answer}"]
    for wrong in near:
        assert made.judge(question, f"\\boxed{{{wrong}}}").reward == 0, wrong


LAST = {  # how the working of a task ends, which its expert finds from the question
    "FractionArithmetic": "= {0}",
    "Angles": " {0} degrees.",
    "GreatestCommonDivisor": "= {0}",
    "ComplexNumbers": "= {0}",
    "BaseConversion": "{0}",
}


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("level", range(1, 6))
def test_the_working_leads_to_the_answer(name, level):
    made = TASKS[name]()
    for seed in range(60):
        question = made.ask(random.Random(seed), level)
        answer, working = question.answer, made.explain(question)
        if name == "ComplexNumbers":
            real, imaginary = answer
            assert working.endswith(f"= {complex_number(real, imaginary)}")
        elif name == "BaseConversion" and "digit" in working:  # the last digit is found first
            assert "".join(re.findall(r"digit (\w)$", working, re.MULTILINE)[::-1]) == answer
        else:
            assert working.endswith(LAST[name].format(answer))


def complex_number(real: int, imaginary: int) -> str:
    size = "" if abs(imaginary) == 1 else abs(imaginary)
    if not real or not imaginary:
        return f"{'-' if imaginary < 0 else ''}{size}i" if imaginary else f"{real}"
    return f"{real} {'-' if imaginary < 0 else '+'} {size}i"


@pytest.mark.parametrize("base", range(2, 37))
def test_a_numeral_is_read_back_in_its_base(base):
    for value in (1, base, base**2 - 1, base**2, 1296, 46_656, 10**9, 10**12 - 1):
        numeral = in_base(value, base)
        assert int(numeral, base) == value
        assert numeral == numeral.upper().lstrip("0")
