"""Where an answer is to be worked out, a formula that was put in its place is wrong, of whatever id and level."""

from __future__ import annotations

import re
from collections.abc import Callable

import gymnasium as gym
import pytest

import rlvr
from rlvr.envs.rewards.expressions.simplest import why_not_simplest
from rlvr.envs.rewards.grading import grade, grade_batch

FAMILIES = ("mathematics", "science", "algorithmic", "logic", "puzzles")
# Their answers are expressions of the policy's own making, or stand in a field that is no number.
OWN_EXPRESSIONS = {"rlvr/Countdown-v0", "rlvr/TwentyFour-v0", "rlvr/Calculator-v0"}
WHOLE = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
# Each writes a whole number as a formula that has its value.
FORMULAE: dict[str, Callable[[int], str]] = {
    "a sum": lambda n: f"{n - 1}+1",
    "a difference": lambda n: f"{n + 7}-7",
    "a product": lambda n: f"1*{n}",
    "a dotted product": lambda n: f"{n} \\cdot 1",
    "a power": lambda n: f"{n}^1",
    "a root": lambda n: f"\\sqrt{{{n * n}}}" if n >= 0 else f"-\\sqrt{{{n * n}}}",
    "a fraction": lambda n: f"\\frac{{{2 * n}}}{{2}}",
    "a division": lambda n: f"{3 * n}/3",
    "decimals": lambda n: f"{n * 2.5}/2.5",
}


def generated() -> list[str]:
    found = []
    for env_id in rlvr.list_envs():
        family = gym.spec(env_id).kwargs.get("task", "").split(".")[2:3]
        if family and family[0] in FAMILIES and env_id not in OWN_EXPRESSIONS:
            found.append(env_id)
    return found


@pytest.mark.parametrize("env_id", generated())
def test_a_formula_in_the_place_of_the_answer_is_wrong(env_id):
    try:
        env = gym.make(env_id).unwrapped
    except (FileNotFoundError, ImportError, OSError, ValueError):
        pytest.skip("a data set that is not here")
    if env.size is not None or env.task.turns(1) > 1:
        pytest.skip("not a generated question of one turn")
    for level in range(1, env.task.levels + 1):
        env.reset(seed=level, options={"level": level})
        start, gold = env.get_state(), env.solve()
        assert env.step(gold)[1] == 1.0, "the control"
        box = re.search(r"\\boxed\{(.*)\}\s*$", gold, re.DOTALL)
        number = WHOLE.search(box[1]) if box else None
        # A leading zero is part of a text of digits; a fraction's own bar binds what is put beside it.
        if number is None or (len(number[0]) > 1 and number[0][0] == "0"):
            continue
        whole = number[0] == box[1]
        for name, formula in FORMULAE.items():
            written = formula(int(number[0]))
            if "/" in written and not whole:
                continue
            env.set_state(start)
            answer = f"\\boxed{{{box[1][: number.start()]}{written}{box[1][number.end() :]}}}"
            assert env.step(answer)[1] < 1.0, f"level {level}: {name} is paid: {answer}"


@pytest.mark.parametrize("level", range(1, 6))
def test_the_formula_of_the_roots_with_the_numbers_put_in_is_wrong(level):
    env = gym.make("rlvr/QuadraticEquations-v0", level=level).unwrapped
    for seed in range(20):
        text, _ = env.reset(seed=seed)
        start, gold = env.get_state(), env.solve()
        shown = re.search(r"root of (.*) = 0", text)[1].replace(" ", "")
        powers = {2: 0, 1: 0, 0: 0}
        for sign, size, x, two in re.findall(r"([+-]?)(\d*)(x?)(\^2)?", shown):
            if size or x:
                powers[2 if two else 1 if x else 0] = int(f"{sign}{size or 1}")
        a, b, c = powers[2], powers[1], powers[0]
        sign = "+" if a > 0 else "-"
        for formula in (
            f"\\frac{{-({b}){sign}\\sqrt{{({b})^2-4\\cdot({a})\\cdot({c})}}}}{{2\\cdot({a})}}",
            f"(-({b}) {sign} sqrt({b * b - 4 * a * c}))/(2*({a}))",
            f"({-b} {sign} sqrt({b * b} - ({4 * a * c})))/({2 * a})",
        ):
            answer = f"\\boxed{{{formula}}}"
            assert grade("math", answer, re.search(r"\\boxed\{(.*)\}\s*$", gold)[1]).reward == 1.0, "the control"
            env.set_state(start)
            verdict = env.step(answer)[4]["verdict"]
            if why_not_simplest(formula) is not None:  # where nothing can be worked out, the formula is the answer
                assert verdict.status == "wrong", formula
        env.set_state(start)
        assert env.step(gold)[1] == 1.0


SIMPLE = [
    "7", "-3", "2.5", "3/2", "-3/4", r"\frac{3}{2}", r"-\frac{3}{2}", r"1\frac12", "1 1/2", "√5", "sqrt 5", "2√5", "+3",
    r"2\sqrt{3}", r"\sqrt{3}\cdot 2", "sqrt(3)*2", r"\frac{2}{5}\sqrt{3}", r"\frac{2\sqrt{3}}{5}", "x = 3", "1,000",
    r"x = \frac{3}{2}", r"\frac{-1+2\sqrt{3}}{5}", "(1+2 sqrt(3))/5", r"-\frac{5 - \sqrt{7}}{2}", r"-5+3\sqrt{2}",
    r"\frac{1}{5}+\frac{2\sqrt 3}{5}", "5 - sqrt(7)", r"\sqrt{1000003}", "0", "3 cm",
]  # fmt: skip
UNFINISHED = [
    "3^2", "5!", "2+1", "4/2", "6/4", "3*2", "2*3*sqrt(5)", "sqrt(9)", "sqrt(12)", "sqrt(3^2+4^2)", "(2+4 sqrt(3))/6",
    "(-3+sqrt(3^2-4*1*1))/2", "5/sqrt(2)", "sqrt(2)+sqrt(3)", "1+1/2", "sqrt(2)*sqrt(3)", "5^{1/2}", "3 + 2 + sqrt(5)",
    r"\frac{1+\sqrt{5}}{1}", "2(1+sqrt(3))", r"\sqrt{49}", r"\frac{3/2}{2}", "sqrt(5/4)", r"\sqrt{1000006000009}",
    r"\sqrt{7976018}", "sqrt(2)/2+sqrt(2)/2",
]  # fmt: skip


@pytest.mark.parametrize("answer", SIMPLE)
def test_a_value_in_simplest_form_is_simplest(answer):
    assert why_not_simplest(answer) is None
    assert grade("math", f"\\boxed{{{answer}}}", answer, simplest=True).reward == 1.0


@pytest.mark.parametrize("answer", UNFINISHED)
def test_a_value_that_is_not_worked_out_is_not_simplest(answer):
    assert why_not_simplest(answer) is not None
    reply = f"\\boxed{{{answer}}}"
    plain, strict = grade("math", reply, answer), grade("math", reply, answer, simplest=True)
    assert (plain.reward, strict.reward, strict.status) == (1.0, 0.0, "wrong")
    assert grade_batch("math", [reply] * 2, [answer] * 2, simplest=True)[1].status == "wrong"


@pytest.mark.parametrize(("answer", "gold"), [("88/2", 44), (r"\frac{132}{3}", 44), ("12.5/2", "6.25"), ("0/3", 0)])
def test_a_division_that_is_not_carried_out_is_no_number_where_it_is_to_be(answer, gold):
    reply = f"\\boxed{{{answer}}}"
    assert grade("number", reply, gold).reward == 1.0
    assert grade("number", reply, gold, simplest=True).status == "wrong"


@pytest.mark.parametrize(
    ("answer", "gold"), [("1/2", "0.5"), (r"-\frac{22}{7}", "-22/7"), ("3 1/2", "3.5"), ("44", 44)]
)
def test_a_fraction_that_is_none_but_a_fraction_stays_a_number(answer, gold):
    assert grade("number", f"\\boxed{{{answer}}}", gold, simplest=True).reward == 1.0
