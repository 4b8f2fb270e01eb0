"""The tasks of algebra, each answered a second time from its text alone, in another way."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import algebra, functions

from .reading import found, ints


def value(text: str, **names: Any) -> Any:
    """Python's value of an expression of ours such as ``3x^2 - 5(x + 1)/2``, on fractions."""
    text = re.sub(r"(?<=[\dxyzwi)])(?=[(xyzwi])", "*", text.replace("[", "(").replace("]", ")"))
    text = re.sub(r"(?<!\^)\b\d+", r"Fraction(\g<0>)", text).replace("^", "**")
    return eval(text, {"Fraction": Fraction, **names})


def coefficients(text: str, degree: int) -> list[Fraction]:
    """Of a polynomial in x, from its values: the highest power first."""
    points = range(degree + 1)
    matrix = sympy.Matrix([[x**k for k in range(degree, -1, -1)] for x in points])
    values = [sympy.Rational(*value(text, x=Fraction(x)).as_integer_ratio()) for x in points]
    return [Fraction(int(c.p), int(c.q)) for c in matrix.LUsolve(sympy.Matrix(values))]


def proves(claim: bool, answer: Any) -> Any:
    """The answer, once it is shown to be the only one."""
    assert claim
    return answer


# equations: the answer is put in; that there is no other is shown too


def linear_equation(text: str, level: int, answer: Any) -> Any:
    sides = found(r"for x: (.*?)\. ", text).split(" = ")
    left, right = (lambda x, side=side: value(side, x=x) for side in sides)
    return proves(left(answer) == right(answer) and left(answer + 1) != right(answer + 1), answer)


def linear_system(text: str, level: int, answer: Any) -> Any:
    rows, rights = [], []
    for equation in found(r"Solve (.*?)\. ", text).split("; "):
        left, right = equation.split(" = ")
        units = [{name: int(name == other) for name in "xyzw"} for other in "xyzw"[: len(answer)]]
        rows.append([int(value(left, **unit)) for unit in units])
        rights.append(int(right))
    return tuple(sympy.Matrix(rows).inv() * sympy.Matrix(rights))


def quadratic(text: str, level: int, answer: Any) -> Any:
    a, b, c = coefficients(found(r"root of (.*?) = 0", text), 2)
    root = re.sub(r"\\frac\{(.*)\}\{(\d+)\}", r"(\1)/(\2)", str(answer))
    root = sympy.sympify(re.sub(r"(\d*)\\sqrt\{(\d+)\}", lambda m: f"{m[1] or 1}*sqrt({m[2]})", root))
    assert sympy.simplify(a * root**2 + b * root + c) == 0
    return proves(bool(sympy.N(root, 40) >= -b / (2 * a) - Fraction(1, 10**30)), answer)


def exponential(text: str, level: int, answer: Any) -> Any:
    if level in (1, 5):
        return logarithm(text, level, answer)
    primes: set[int] = set()

    def exponent(side: str, x: Fraction) -> Fraction:
        total = Fraction(0)
        for base, inside in re.findall(r"(\d+)\^\((.*?)\)", side):
            ((prime, power),) = sympy.factorint(int(base)).items()
            primes.add(prime)
            total += power * value(inside, x=x)
        return total

    left, right = found(r"for x: (.*?)\. ", text).split(" = ")
    assert exponent(left, answer + 1) != exponent(right, answer + 1)
    return proves(exponent(left, answer) == exponent(right, answer) and len(primes) == 1, answer)


def logarithm(text: str, level: int, answer: Any) -> Any:
    insides = [value(inside, x=answer) for inside in re.findall(r"log_\d+\((.*?)\)", text)]
    base = int(found(r"log_(\d+)", text))
    assert all(inside > 0 for inside in insides)
    if level == 1:
        return proves(insides[0] == base ** int(found(r"= (\d+)\.", text)), answer)
    return proves(
        insides[0] * insides[1] == insides[2], answer
    )  # a product that grows wherever both factors are positive


def count(text: str, level: int, answer: Any) -> Any:
    shown, relation, bound = re.search(r"satisfy (.*) (<=|<|>=|>) (\d+)\?", text).groups()
    window = range(-5_000, 5_001) if level == 1 else range(ints(text)[0], ints(text)[1] + 1)
    holds = {"<": lambda v: v < 0, "<=": lambda v: v <= 0, ">": lambda v: v > 0, ">=": lambda v: v >= 0}[relation]
    total = 0
    for x in window:
        try:
            got = value(shown.strip("|"), x=Fraction(x))
        except ZeroDivisionError:
            continue
        total += holds((abs(got) if level == 1 else got) - int(bound))
    return total


def power_sum(text: str, level: int, answer: Any) -> Any:
    """The trace of a power of the companion matrix."""
    degree, power = int(found(r"The (\d) complex", text)), int(found(r"the power (\d)", text))
    lead, *rest = coefficients(found(r"roots of (.*?) = 0", text), degree)
    companion = sympy.zeros(degree)
    for i in range(degree - 1):
        companion[i + 1, i] = 1
    for i, c in enumerate(reversed(rest)):
        companion[i, degree - 1] = sympy.Rational(*(-c / lead).as_integer_ratio())
    trace = (companion**power).trace()
    return Fraction(int(trace.p), int(trace.q))


# functions


def product(text: str, level: int, answer: Any) -> Any:
    return tuple(coefficients(found(r"Expand (.*?)\. ", text), len(answer) - 1))


def quotient(text: str, level: int, answer: Any) -> Any:
    x = sympy.Symbol("x")
    parts = [value(part, x=x) for part in re.search(r"Divide (.*) by (.*?)\. ", text).groups()]
    high, low = (sympy.degree(part, x) for part in parts)
    whole, rest = sympy.div(*parts, x)
    return tuple(
        int(poly.coeff(x, k)) for poly, top in ((whole, high - low), (rest, low - 1)) for k in range(top, -1, -1)
    )


def far_term(text: str, level: int, answer: Any) -> Any:
    terms, far = ints(found(r"begins (.*?), \.\.\.", text)), int(found(r"term number (\d+)\?", text))
    if level == 2:  # from three terms: a r^n + c
        a, b, c = terms[:3]
        ratio = Fraction(c - b, b - a)
        scale = (b - a) / (ratio - 1)
        return proves(len(terms) == 5, scale * ratio ** (far - 1) + a - scale)
    if level == 4:
        mine = terms[(far - 1) % 2 :: 2]
        steps = (far - 1) // 2
        return mine[0] + steps * (mine[1] - mine[0]) if far % 2 else mine[0] * Fraction(mine[1], mine[0]) ** steps
    n = sympy.Symbol("n")
    return int(sympy.interpolate(terms, n).subs(n, far))


def recurrence(text: str, level: int, answer: Any) -> Any:
    rule = found(r"a\(n\) = (.*?) for n", text)
    start = {int(n): int(v) for n, v in re.findall(r"a\((\d)\) = (-?\d+)", text)}

    @cache
    def a(n: int) -> int:
        if n in start:
            return start[n]
        return eval(re.sub(r"(\d) (?=[an])", r"\1 * ", rule), {"a": a, "n": n})

    return a(int(found(r"What is a\((\d+)\)", text)))


def composed(text: str, level: int, answer: Any) -> Any:
    rules = dict(re.findall(r"([fghkm])\(x\) = (.*?)(?=, [fghkm]\(x\)|\. )", text))
    call = {name: lambda x, rule=rule: value(rule, x=x) for name, rule in rules.items()}
    if level == 3:
        target = int(found(r"f\(g\(h\(x\)\)\) = (-?\d+)", text))
        return proves(call["f"](call["g"](call["h"](answer))) == target, answer)  # all three are one to one
    return eval(found(r"What is (.*)\?", text), call)


def complex_number(text: str, level: int, answer: Any) -> Any:
    shown = found(r"Work out (.*), where", text)
    result = sympy.expand(sympy.radsimp(value(shown, i=sympy.I, Fraction=sympy.Integer)))
    return (int(sympy.re(result)), int(sympy.im(result)))


ORACLES: dict[type, Callable[[str, int, Any], Any]] = {
    algebra.LinearEquations: linear_equation,
    algebra.LinearSystems: linear_system,
    algebra.QuadraticEquations: quadratic,
    algebra.ExponentialEquations: exponential,
    algebra.CountSolutions: count,
    algebra.Vieta: power_sum,
    functions.PolynomialProducts: product,
    functions.PolynomialDivision: quotient,
    functions.Sequences: far_term,
    functions.Recurrences: recurrence,
    functions.FunctionComposition: composed,
    functions.ComplexNumbers: complex_number,
}


@pytest.mark.slow
@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=8, deadline=None)
def test_the_answer_is_found_again_from_the_text(task, level, seed):
    question = task().ask(random.Random(seed), level)
    assert question.answer == ORACLES[task](question.text, level, question.answer), question


def test_a_product_that_is_not_expanded_is_no_answer():
    for seed in range(50):
        task = functions.PolynomialProducts()
        question = task.ask(random.Random(seed), 1)
        assert task.judge(question, f"\\boxed{{{question.content}}}").reward == 0


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ("3+\\sqrt{2}", 1),
        ("\\sqrt{2} + 3", 1),
        ("3 + sqrt(2)", 1),
        ("3 - \\sqrt{2}", 0),
        ("4.41", 0),
        ("3 \\pm \\sqrt{2}", 0),
    ],
)
def test_a_surd_is_read_in_any_order_and_only_exactly(answer, reward):
    task = algebra.QuadraticEquations()
    question = task.ask(random.Random(0), 3)._replace(answer="3 + \\sqrt{2}")
    assert task.judge(question, f"\\boxed{{{answer}}}").reward == reward
