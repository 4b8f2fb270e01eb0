"""Functions as mathematical references write them: read as what they are, or not read, never as a product."""

from __future__ import annotations

import pytest

from rlvr.envs.rewards import grade

READ = [
    (r"\Gamma(5)", "24"), (r"\Gamma\left(\frac{3}{2}\right)", r"\frac{\sqrt{\pi}}{2}"),
    (r"\Gamma(-\frac12)", r"-2\sqrt{\pi}"), (r"\zeta(2)", r"\frac{\pi^2}{6}"), (r"\zeta(4)", r"\frac{\pi^4}{90}"),
    (r"\zeta(-1)", r"-\frac{1}{12}"), (r"\zeta(0)", r"-\frac12"), (r"\binom{5}{2}", "10"), (r"{5 \choose 2}", "10"),
    (r"\operatorname{lcm}(4,6)", "12"), (r"\text{LCM}(4, 6)", "12"), (r"GCD(4, 6)", "2"), (r"\gcd(12, 18, 27)", "3"),
    (r"\log_2 8", "3"), (r"\text{log}_2 8", "3"), (r"\mathrm{ln}(e^3)", "3"), (r"\log_2^2 8", "9"),
    (r"\max\{3, 5\}", "5"), (r"\min\left\{3, 5, 7\right\}", "3"), (r"\text{max}(3, 5)", "5"),
    ("5!!", "15"),
    ("6!!", "48"), ("7!!!", "28"), ("(3!)!", "720"), (r"\lfloor 7/2 \rfloor", "3"), ("⌈3.5⌉", "4"),
    (r"\operatorname{floor}(3.5)", "3"), ("|-5|", "5"), (r"\vert -5 \vert", "5"), (r"7 \bmod 3", "1"),
    ("17 mod 5", "2"),
    (r"17 \text{ mod } 5", "2"), (r"\operatorname{Re}(3+4i)", "3"), (r"\Im(3+4i)", "4"),
    (r"\overline{3+4i}", "3-4i"),
    (r"\operatorname{cis}\frac{\pi}{2}", "i"), (r"2\text{cis}(\pi)", "-2"), (r"\operatorname{sgn}(-3)", "-1"),
    (r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", "-2"),
    (r"\det\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "-2"),
    (r"\operatorname{tr}\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "5"), (r"\sec^{-1} 2", r"\frac{\pi}{3}"),
    (r"\operatorname{arccot}(1)", r"\frac{\pi}{4}"), (r"\operatorname{tg}\frac{\pi}{4}", "1"),
    (r"\text{sin}(\pi/2)", "1"), (r"\frac{dy}{dx} = 2x", "2x"), (r"f(2) = 25", "25"),
]  # fmt: skip
UNREAD = [
    (r"\varphi(10)", r"10\varphi"), (r"\sigma(6)", r"6\sigma"), ("f(3)", "3f"), ("P(A)", "PA"), ("J_0(1)", "J_0"),
    (r"\operatorname{ab}(2)", "2ab"), (r"\operatorname{power}(2)", "2"), (r"\operatorname{foo} 2", "2"),
    ("n!!", "(n!)!"), ("n!!", "n!"), (r"7 \% 3", "0.21"), (r"\frac{d}{dx} x^2", "x"),
    (r"\left(\!\binom{3}{2}\!\right)", "3"), (r"5^{\underline{2}}", "25"), (r"\phantom{5}", "5"), ("0.3...", "0.3"),
    (r"0.333\ldots", "0.333"), ("5'", "5"), (r"|\{1, 2, 3\}|", "6"), ("7 + 8 mod 3", "9"), (r"\det(A)", "A"),
    (r"\overline{12}", "12"), ("3!!", "720"), (r"2\operatorname{ex}(1)", "2ex"),
]  # fmt: skip


@pytest.mark.parametrize(("notation", "value"), READ)
def test_a_notation_is_read_on_both_sides(notation: str, value: str) -> None:
    assert grade("math", f"\\boxed{{{notation}}}", value).status == "correct"
    if "=" not in notation:
        assert grade("math", f"\\boxed{{{value}}}", notation).status == "correct"
    assert grade("math", f"\\boxed{{{notation}}}", f"{value} + 1").status == "wrong"


@pytest.mark.slow
@pytest.mark.parametrize(("notation", "misreading"), UNREAD)
def test_a_notation_is_no_other_value(notation: str, misreading: str) -> None:
    for answer, reference in ((notation, misreading), (misreading, notation)):
        verdict = grade("math", f"\\boxed{{{answer}}}", reference)
        assert (verdict.reward, verdict.valid) == (0, True), verdict
    assert grade("math", f"\\boxed{{{notation}}}", notation).reward == 1


@pytest.mark.parametrize(
    "product", ["x(x + 1)", "n(n-1)", r"\lambda(2 - \lambda)", r"\frac12 h(a + b)", "P(1.05)^3", "x(3)"]
)
def test_a_letter_before_a_sum_or_a_decimal_is_a_factor(product: str) -> None:
    expanded = {
        "x(x + 1)": "x^2 + x", "n(n-1)": "n^2 - n", r"\lambda(2 - \lambda)": r"2\lambda - \lambda^2",
        r"\frac12 h(a + b)": r"\frac{ha + hb}{2}", "P(1.05)^3": r"1.05^3 \cdot P", "x(3)": "3x",
    }[product]  # fmt: skip
    assert grade("math", f"\\boxed{{{product}}}", expanded).reward == 1


def test_rows_of_a_matrix_may_have_a_height() -> None:
    gold = r"\begin{pmatrix} 1 & -2 \\ 0 & 3 \end{pmatrix}"
    assert grade("math", r"\boxed{A = \begin{pmatrix} 1 & -2 \\[4pt] 0 & 3 \end{pmatrix}}", gold).reward == 1
    assert grade("math", r"\boxed{\begin{pmatrix} 1 & -2 \\[4pt] 0 & 4 \end{pmatrix}}", gold).reward == 0
