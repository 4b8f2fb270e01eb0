"""Near-equal answers earn nothing, equal ones in another form are paid, and what is proven of neither is said.

The pairs are those of benchmarks/near_equal.py: labelled by construction, of 35 kinds.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.rewards import grade, grade_batch
from rlvr.envs.rewards.expressions.algebra import Algebra
from rlvr.envs.rewards.expressions.numeric import NoValue, enclose
from rlvr.envs.rewards.expressions.polynomial import Work
from rlvr.envs.rewards.expressions.zeros import are_equal_algebraic, is_zero
from rlvr.envs.rewards.grammar.expression import parse


@pytest.fixture(scope="module")
def near_equal() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        return importlib.import_module("near_equal")


def rewards(pairs: list, timeout: float = 20.0) -> list[tuple]:
    """The pairs with their verdicts."""
    answers = [f"\\boxed{{{pair.answer}}}" for pair in pairs]
    return list(zip(pairs, grade_batch("math", answers, [pair.gold for pair in pairs], timeout=timeout), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_near_equal_pair_is_paid(near_equal: ModuleType, seed: int) -> None:
    for pair, verdict in rewards(near_equal.pairs(140, 100 + seed, equal=False)):
        assert verdict.reward == 0, pair
        assert verdict.valid, (pair, verdict)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_true_pairs_are_paid(near_equal: ModuleType, seed: int) -> None:
    results = rewards(near_equal.pairs(140, 200 + seed, equal=True))
    refused = [(pair, verdict) for pair, verdict in results if verdict.reward != 1]
    assert len(refused) <= 1, refused
    assert all(verdict.valid for _, verdict in results)


@pytest.mark.parametrize(
    ("gold", "answer", "reward"),
    [
        ("\\tanh(40)", "1", 0),
        ("\\arctan 10^{-20}", "10^{-20}", 0),
        ("\\frac{1}{2004!}", "-\\frac{1}{2004!}", 0),
        ("\\frac{1}{2004!}", "\\frac{1}{2006!}", 0),
        ("\\frac{1}{2004!}", "\\frac{2005}{2005!}", 1),
        ("\\ln(1+10^{-3000})", "\\ln(1+10^{-3001})", 0),
        ("\\frac{1}{3}", "0.333333", 0),
        ("\\int_0^1 x^2\\,dx", "0.333333", 0),
        ("\\int_0^1 x^2\\,dx", "\\frac{1}{3}", 1),
        ("\\int_0^1 12x\\,dx", "5 = 6", 0),
        ("\\int_0^1 12x\\,dx", "6", 1),
        ("\\sum_{n=1}^\\infty \\frac{1}{n^2}", "1.644934", 0),
        ("\\left(\\sum_{k=1}^2 k, 3\\right)", "(3, 3)", 1),
        ("\\int_0^1 e^{\\sin x}\\,dx", "\\int_0^1 e^{\\sin t}\\,dt", 1),
        # one part that is open or equal does not stand for the others
        ("(\\arctan x + \\arctan\\frac{1}{x}, 5)", "(\\frac{\\pi}{2}, 6)", 0),
        ("(\\arctan x + \\arctan\\frac{1}{x}, 5)", "(\\frac{\\pi}{2}, 5)", 1),
        ("\\{\\ln(xy), 5\\}", "\\{6, \\ln x + \\ln y\\}", 0),
        ("\\{\\ln(xy), 5\\}", "\\{5, \\ln x + \\ln y\\}", 1),
        # branches: a root of a complex power is no half power
        ("\\sqrt{e^{4i}}", "e^{2i}", 0),
        ("\\sqrt{e^{4i}}", "-e^{2i}", 1),
        ("(e^{5i})^{\\sqrt{2}}", "((e^i)^{\\sqrt{2}})^5", 0),
        ("(\\sin 4 \\sin 5)^{\\sqrt{2}}", "(\\sin 4)^{\\sqrt{2}} (\\sin 5)^{\\sqrt{2}}", 0),
        # what has no value is equal to nothing
        ("0", "\\frac{0}{\\sin^2 1 + \\cos^2 1 - 1}", 0),
        ("5", "5 \\cdot \\frac{\\sqrt{3 + 2\\sqrt{2}} - 1 - \\sqrt{2}}{\\sqrt{3 + 2\\sqrt{2}} - 1 - \\sqrt{2}}", 0),
        ("x", "\\frac{x (\\sin^2 x + \\cos^2 x - 1)}{\\sin^2 x + \\cos^2 x - 1}", 0),
        # equations up to an irrational factor
        ("\\sqrt{2}x = 2", "x = \\sqrt{2}", 1),
        ("\\sqrt{2}x = 2", "x = \\sqrt{2} + 10^{-20}", 0),
        ("\\sqrt{2}x < 2", "x > \\sqrt{2}", 0),
        ("i^i", "e^{-\\frac{\\pi}{2}}", 1),
        ("\\pi^{\\ln 2}", "2^{\\ln\\pi}", 1),
        ("\\sinh^{-1} x", "\\ln(x + \\sqrt{x^2 + 1})", 1),
        ("\\coth x", "\\frac{\\cosh x}{\\sinh x}", 1),
        ("\\sqrt[3]{-8x^3}", "-2x", 1),
        ("\\sqrt[3]{-8x^3}", "2x", 0),
        ("\\sqrt[4]{x^4}", "x", 0),
        ("x \\in [0, \\sqrt{2})", "0 \\le x < \\sqrt{2}", 1),
        ("x \\in [0, \\sqrt{2})", "0 \\le x \\le \\sqrt{2}", 0),
        # a second sign
        ("14 - i", "14.0 + -1.0i", 1),
        ("5", "3 - -2", 1),
        ("1", "+-1", 0),
        ("3", "4 - - -1", 0),
    ],
)
def test_paid_means_proven(gold: str, answer: str, reward: float) -> None:
    verdict = grade("math", f"\\boxed{{{answer}}}", gold, timeout=20.0)
    assert verdict.valid
    assert verdict.reward == reward, verdict.reason


@pytest.mark.parametrize("answer", ["1.63187", "\\frac{8159}{5000}"])
def test_what_is_proven_neither_equal_nor_different_is_said(answer: str) -> None:
    verdict = grade("math", f"\\boxed{{{answer}}}", "\\int_0^1 e^{\\sin x}\\,dx", timeout=20.0)
    assert (verdict.status, verdict.reward) == ("unparsable", 0)
    assert "not decided" in verdict.reason


# -- the proofs alone

radicals = st.recursive(
    st.integers(1, 20).map(str),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda sides: f"({sides[0]} + {sides[1]})"),
        st.tuples(inner, inner).map(lambda sides: f"({sides[0]} \\cdot {sides[1]})"),
        st.tuples(st.sampled_from(["", "[3]"]), inner).map(lambda root: f"\\sqrt{root[0]}{{{root[1]}}}"),
    ),
    max_leaves=4,
)


@settings(max_examples=60)
@given(radicals, st.integers(5, 200))
def test_algebraic_numbers_are_decided(value: str, digits: int) -> None:
    """A sum of roots equals its square's root, and differs from what is changed by 10^-digits."""
    left, right = parse(value), parse(f"\\sqrt{{({value}) \\cdot ({value})}}")
    assert are_equal_algebraic(left, right, 10**6) in (True, None)
    assert are_equal_algebraic(left, parse(f"{value} + 10^{{-{digits}}}"), 10**6) in (False, None)
    assert are_equal_algebraic(left, right, 20_000) is not False


@given(st.integers(1, 400), st.integers(1, 400))
def test_sines_of_degrees_are_decided(a: int, b: int) -> None:
    left, right = (
        parse(f"\\sin {a}^\\circ \\cos {b}^\\circ"),
        parse(f"\\frac{{\\sin({a + b}^\\circ) + \\sin({a}^\\circ - {b}^\\circ)}}{{2}}"),
    )
    assert are_equal_algebraic(left, right, 20_000) is True
    assert are_equal_algebraic(left, parse(f"\\sin {a}^\\circ \\cos {b}^\\circ + 10^{{-40}}"), 20_000) is False


def proves_zero(left: str, right: str) -> bool:
    algebra = Algebra(Work(10**6))
    return is_zero(algebra.difference(algebra.normal(parse(left)), algebra.normal(parse(right))), 20_000)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\\arctan 1 + \\arctan 2 + \\arctan 3", "\\pi"),
        ("4\\arctan\\frac{1}{5} - \\arctan\\frac{1}{239}", "\\frac{\\pi}{4}"),
        ("\\arcsin\\frac{1}{3} + \\arccos\\frac{1}{3}", "\\frac{\\pi}{2}"),
        ("2\\arcsin\\frac{1}{3}", "\\arcsin\\frac{4\\sqrt{2}}{9}"),
        ("\\arccos\\frac{3}{5}", "\\arctan\\frac{4}{3}"),
        ("\\ln(2 + \\sqrt{3})", "-\\ln(2 - \\sqrt{3})"),
        ("\\sqrt{2}\\ln(3 + 2\\sqrt{2})", "2\\sqrt{2}\\ln(1 + \\sqrt{2})"),
        ("\\ln 3 \\cdot \\ln(3 + 2\\sqrt{2})", "2\\ln 3 \\cdot \\ln(1 + \\sqrt{2})"),
        ("\\pi\\sqrt{3 + 2\\sqrt{2}}", "\\pi + \\pi\\sqrt{2}"),
        ("\\sinh^{-1} 2 + \\cosh^{-1} 2", "\\ln(2 + \\sqrt{5}) + \\ln(2 + \\sqrt{3})"),
        ("\\tanh^{-1}\\frac{1}{3}", "\\frac{\\ln 2}{2}"),
        ("e\\sqrt{3 + 2\\sqrt{2}} + \\arctan 1", "e + e\\sqrt{2} + \\frac{\\pi}{4}"),
    ],
)
def test_sums_of_logarithms_and_angles(left: str, right: str) -> None:
    """The proof itself refuses what differs by less than the balls that are tried before it."""
    assert proves_zero(left, right)
    for change in (
        "10^{-400}",
        "\\pi \\cdot 10^{-400}",
        "\\ln(1 + 10^{-120})",
        "\\arctan 10^{-120}",
        "2\\pi",
        "\\ln 2",
    ):
        assert not proves_zero(left, f"{right} + {change}")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("\\arctan 10^{327}", "\\frac{\\pi}{2}"),
        ("\\arctan 10^{-100}", "10^{-100}"),
        ("\\arctan 10^{-100}", "\\arcsin 10^{-100}"),
        ("\\arctan 5", "\\arctan 5 + \\pi"),
        ("\\arccos 0.9", "-\\arccos 0.9"),
        ("\\ln(1 + 10^{-200})", "\\ln(1 + 10^{-201})"),
        ("\\ln(2 + \\sqrt{3})", "\\ln(2 - \\sqrt{3})"),
    ],
)
def test_neither_is_proven_of_what_differs(left: str, right: str) -> None:
    assert not proves_zero(left, right)


@given(st.fractions(max_denominator=999), st.integers(20, 2000))
def test_enclosures_hold_their_values(value: object, bits: int) -> None:
    tree = parse(f"\\frac{{{value.numerator}}}{{{value.denominator}}}")  # type: ignore[attr-defined]
    ball = enclose(tree, bits) * value.denominator  # type: ignore[attr-defined]
    assert ball.contains(value.numerator)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text", ["\\frac{1}{\\sqrt{2} \\sqrt{3} - \\sqrt{6}}", "\\ln 0", "0^{-1}", "9^{9^{9^9}}", "\\infty"]
)
def test_what_has_no_enclosure(text: str) -> None:
    with pytest.raises(NoValue):
        enclose(parse(text))
