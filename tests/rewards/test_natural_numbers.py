"""Numbers, units, labels, times and answers of several lines, as they are naturally written, right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.mathematics.common import NumberList
from rlvr.envs.mathematics.number_theory import PrimeFactors
from rlvr.envs.rewards import grade
from rlvr.envs.rewards.graders.number import NotANumber
from rlvr.envs.science.quantities import read_quantity
from rlvr.envs.tasks.answers import Board, ListAnswerTask
from rlvr.envs.tasks.questions import Question

from .test_natural_answers import paid

NNBSP, THIN = "\u202f", "\u2009"
INTEGERS: list[Callable[[int], str]] = [
    str, lambda n: f'"{n}"', lambda n: f"\u201c{n}\u201d", lambda n: f"'{n}'", lambda n: f"= {n}", lambda n: f"={n}.",
    lambda n: rf"\texttt{{{n}}}", lambda n: rf"\mathtt{{{n}}}", lambda n: rf"\emph{{{n}}}", lambda n: rf"\,{n}\,",
    lambda n: rf"\;{n}\ ", lambda n: f"{n:,}", lambda n: f"{n:,}".replace(",", "{,}"),
    lambda n: f"{n:,}".replace(",", r",\!"), lambda n: f"{n:,}".replace(",", r"\,"),
    lambda n: f"{n:,}".replace(",", THIN),
    lambda n: f"{n:,}".replace(",", NNBSP), lambda n: str(n).replace("-", "\u2212"), lambda n: f"{n}.0",
    lambda n: str(n).replace("-", "\u2013"), lambda n: f"x = {n}", lambda n: rf"\boxed{{{n}}}", lambda n: f"$= {n}$",
    lambda n: f"```\n{n}\n```", lambda n: f"**{n}**.", lambda n: f"`{n}`", lambda n: f'**"{n}"**',
]  # fmt: skip
FRACTIONS: list[Callable[[int, int], str]] = [
    lambda a, b: f"{a}/{b}", lambda a, b: f"{a} / {b}", lambda a, b: f"{a}\u2044{b}",
    lambda a, b: rf"\frac{{{a}}}{{{b}}}", lambda a, b: rf"\nicefrac{{{a}}}{{{b}}}",
    lambda a, b: rf"\sfrac{{{a}}}{{{b}}}", lambda a, b: rf"\cfrac{{{a}}}{{{b}}}",
    lambda a, b: rf"\dfrac{{{a}}}{{{b}}}", lambda a, b: f'"{a}/{b}"', lambda a, b: rf"\texttt{{{a}/{b}}}",
    lambda a, b: f"= {a}/{b}", lambda a, b: f"({a}/{b})",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["number", "math"])
@given(st.integers(-(10**9), 10**9), st.integers(-99, 99), st.sampled_from(INTEGERS))
def test_an_integer_in_any_form(kind: str, n: int, off: int, form: Callable[[int], str]) -> None:
    assert grade(kind, f"\\boxed{{{form(n)}}}", n).reward == 1, form(n)
    if off:
        assert grade(kind, f"\\boxed{{{form(n + off)}}}", n).reward == 0, form(n + off)


@pytest.mark.parametrize("kind", ["number", "math"])
@given(st.integers(1, 999), st.integers(2, 999), st.integers(1, 9), st.sampled_from(FRACTIONS))
def test_a_fraction_in_any_form(kind: str, a: int, b: int, off: int, form: Callable[[int, int], str]) -> None:
    gold = str(Fraction(a, b))
    assert grade(kind, f"\\boxed{{{form(a, b)}}}", gold).reward == 1, form(a, b)
    assert grade(kind, f"\\boxed{{{form(a + off, b)}}}", gold).reward == 0, form(a + off, b)


VULGAR = {Fraction(a, b): sign for a, b, sign in [
    (1, 2, "½"), (1, 3, "⅓"), (2, 3, "⅔"), (1, 4, "¼"), (3, 4, "¾"), (1, 5, "⅕"), (2, 5, "⅖"), (3, 5, "⅗"), (4, 5, "⅘"),
    (1, 6, "⅙"), (5, 6, "⅚"), (1, 7, "⅐"), (1, 8, "⅛"), (3, 8, "⅜"), (5, 8, "⅝"), (7, 8, "⅞"), (1, 9, "⅑"),
    (1, 10, "⅒"),
]}  # fmt: skip
RAISED, LOWERED = (str.maketrans("0123456789", digits) for digits in ("⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"))


def set_small(part: Fraction) -> str:
    """``1/2`` as ``¹⁄₂``."""
    return f"{str(part.numerator).translate(RAISED)}\u2044{str(part.denominator).translate(LOWERED)}"


WHOLE: list[Callable[[int], str]] = [
    str, lambda n: f"{n:,}", lambda n: f"{n:,}".replace(",", THIN), lambda n: f"{n:,}".replace(",", "{,}"),
    lambda n: f"{n:,}".replace(",", r"\,"),
]  # fmt: skip
BEHIND: list[Callable[[Fraction], str]] = [
    VULGAR.__getitem__, lambda part: f" {VULGAR[part]}", set_small, lambda part: f" {part}",
    lambda part: rf"\frac{{{part.numerator}}}{{{part.denominator}}}",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["number", "math"])
@given(
    st.integers(1, 10**7), st.integers(-2, 2), st.sampled_from(sorted(VULGAR)), st.sampled_from(sorted(VULGAR)),
    st.sampled_from(["", "-", "\u2212"]), st.sampled_from(WHOLE), st.sampled_from(BEHIND),
    st.sampled_from(["{}", "${}$", "x = {}", "{}.", "{} cups", "**{}**"]),
)  # fmt: skip
def test_a_mixed_number_in_any_form(
    kind: str, whole: int, off: int, part: Fraction, other: Fraction, minus: str, form: Callable[[int], str],
    behind: Callable[[Fraction], str], around: str,
) -> None:  # fmt: skip
    text = around.format(f"{minus}{form(whole)}{behind(part)}")
    value = -(whole + part) if minus else whole + part
    assert grade(kind, f"\\boxed{{{text}}}", str(value)).reward == 1, text
    wrong = -(whole + off + other) if minus else whole + off + other
    assert grade(kind, f"\\boxed{{{text}}}", str(wrong)).reward == (wrong == value), (text, wrong)
    assert grade(kind, f"\\boxed{{{text}}}", str(-value)).reward == 0, text


@pytest.mark.parametrize(
    "text",
    ["12,34½", "1,2½", "1,2345½", "3.5½", "½½", "1½2", "1,234½5", "1⁵⁄₂", "3 or ½", "1,234½ or 2", "٣½", "1¹⁄₀", "1½⅓",
     "not 1½", "½/½"],
)  # fmt: skip
def test_what_is_no_mixed_number(text: str) -> None:
    for gold in ("5/2", "69/2", "2469/2", "7/2", "4", "7/4", "1/4", "1/2", "3/2", "24691/2", "11/6", "1"):
        assert grade("number", f"\\boxed{{{text}}}", gold).reward == 0, gold


@pytest.mark.parametrize(
    ("kind", "gold", "text", "pays"),
    [
        ("number", "3/4", "¾", 1), ("number", "-7/2", "-3½", 1), ("number", "-7/2", "3½", 0),
        ("number", "7/2", "3 ½", 1),
        ("number", "3/4", "½", 0), ("number", "72", "7\u200b2", 0), ("number", "72", f"7{THIN}2", 0),
        ("number", "1234", f"1{THIN}23{THIN}4", 0), ("number", "1234", "1 234", 0), ("number", "72", '"72" or "73"', 0),
        ("number", "72", '"72", "73"', 0), ("number", "72", "== 72 or 73", 0), ("number", "72", ">= 72", 0),
        ("number", "72", "=> 72", 0), ("number", "72", "**72** or **73**", 0), ("number", "72", "**72** degrees", 1),
        ("number", "72", "$72$ **degrees**", 1), ("number", "72", "not **72**", 0), ("number", "72", r"\approx 72", 0),
        ("number", "1234567", "1.234567×10⁶", 1), ("number", "1234567", "1.234567×10⁵", 0),
        ("number", "0.002", "2×10⁻³", 1), ("number", "12", r"12\,\frac{m}{s}", 1), ("number", "12", "12 m·s⁻¹", 1),
        ("number", "12", r"12\ \mathrm{kg\cdot m^{2}}", 1), ("number", "12", "12 J/(kg·K)", 1),
        ("number", "12", "12 Ω", 1),
        ("number", "12", r"12\,\Omega", 1), ("number", "12", "12 m s^{-1}", 1), ("number", "12", "12 x^2", 0),
        ("number", "12", "12 m 13 s", 0), ("number", "12", "12*m", 0), ("number", "12", "12m*n", 0),
        ("math", r"(-\infty, 3] \cup [5, \infty)", "(-∞,3] U [5,∞)", 1),
        ("math", r"(-\infty, 3] \cup [5, \infty)", r"x \le 3 \lor x \ge 5", 1),
        ("math", r"(-\infty, 3] \cup [5, \infty)", r"(-\infty,3]\bigcup[5,\infty)", 1),
        ("math", r"(-\infty, 3] \cup [5, \infty)", "(-∞,3] U (5,∞)", 0),
        ("math", r"(-\infty, 3]", "(-oo, 3]", 1), ("math", r"(-\infty, 3]", "(-oo, 3)", 0),
        ("math", r"\frac{1}{2}", r"{1 \over 2}", 1), ("math", r"\frac{1}{2}", r"1 \over 2", 1),
        ("math", r"\frac{1}{2}", r"2 \over 1", 0), ("math", r"\frac{1}{2}", r"\mathbf{\frac{1}{2}}", 1),
        ("math", r"\overline{AB}", r"\overline{AB}", 1), ("math", "1234567", "1.234567e6", 1), ("math", "⅝", "5/8", 1),
        ("math", "1234567", "1.234567e5", 0), ("exact", "Paris", "\u201cParis\u201d", 1),
        ("exact", "Paris", "\u2018Rome\u2019", 0),
        ("choice", "B", r"\texttt{B}", 1), ("choice", "B", r"\,B\,", 1), ("choice", "B", r"\,A\,", 0),
    ],
)  # fmt: skip
def test_signs_units_and_sets(kind: str, gold: str, text: str, pays: int) -> None:
    assert grade(kind, f"\\boxed{{{text}}}", gold).reward == pays


def test_about_counts_where_the_answer_is_rounded() -> None:
    for text in (
        r"\approx 51900",
        "≈ 51,900 m",
        "about 51900 m",
        "approximately 5.19×10⁴ m",
        r"d \approx 51900",
    ):
        assert grade("number", f"\\boxed{{{text}}}", "51900", rel_tol=0.01).reward == 1, text
        assert grade("number", f"\\boxed{{{text}}}", "51900").reward == 0, text
        assert grade("number", f"\\boxed{{{text}}}", "61900", rel_tol=0.01).reward == 0, text


UNITS = {
    "m/s": r"m·s⁻¹|m s^{-1}|\frac{m}{s}|\frac{\text{m}}{\text{s}}|\mathrm{m\,s^{-1}}|m/s|Metres per second",
    "m/s^2": r"m/s²|\frac{m}{s^2}|meters per second squared|m·s⁻²|\text{m/s}^{2}|m/s^{2}",
    "g/l": r"\frac{g}{L}|g·L⁻¹|g/dm³|g·dm⁻³",
    "mol/l": r"mol·L⁻¹|\frac{\text{mol}}{\text{L}}|moles per liter|mol/dm³|mol dm⁻³",
    "°C": r"℃|degrees Celsius|^{\circ}\text{C}",
    "J": r"Joules|joules|N·m|N m|\text{N}\cdot\text{m}|kg·m²·s⁻²|kg m^2/s^2", "W": "Watts|J/s|J·s⁻¹|V·A|N·m/s",
    "N": r"Newtons|kg·m·s⁻²|kg m/s^2|\text{kg m/s}^2", "V": r"J/C|\frac{J}{C}|J·C⁻¹", "A": r"C/s|\frac{C}{s}",
    "kPa": "kN/m²|kN/m^2|kN·m⁻²", "ml": "cc|cm³|cm^3", "kJ": "kN·m|kilojoules",
}  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_in_words_or_symbols(unit: str) -> None:
    for written in UNITS[unit].split("|"):
        for between in (" ", r"\, ", "~"):
            assert read_quantity(f"8.73{between}{written}", unit) == Fraction("8.73"), written
    for other in ("kg", "apples", "kilograms per second", "m^3", "meters per minute", "N/m", "C*s", "J*s", "kg*m/s"):
        with pytest.raises(NotANumber):
            read_quantity(f"8.73 {other}", unit)


# A list with labels or other marks: the question, the gold parts, what is written, and a wrong one in the same form.
LABELLED = [
    ("What are Gil, Eva, Cas?", "knight knave knave", "{} is a knight, {} is a knave and {} is a knave"),
    ("What are Gil, Eva, Cas?", "knight knave knave", "{} (knight), {} (knave), {} (knave)"),
    ("What are Gil, Eva, Cas?", "knight knave knave", "{} \u2192 knight, {} \u2192 knave, {} \u2192 knave"),
    ("What are Gil, Eva, Cas?", "knight knave knave", "{} - knight\n{} - knave\n{} - knave"),
    ("For Gil, Eva, Cas, in this order, answer with the hospital.", "q r s", "{}: Q, {}: R, {}: S"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "gold", "form"), LABELLED)
def test_labels_of_the_question_may_stand_there(question: str, gold: str, form: str) -> None:
    right = tuple(gold.split())
    assert paid(ListAnswerTask(), right, form.format("Gil", "Eva", "Cas"), question)
    for names in (("Eva", "Gil", "Cas"), ("Gil", "Cas", "Eva"), ("Ann", "Eva", "Cas"), ("Gil", "Gil", "Cas")):
        assert not paid(ListAnswerTask(), right, form.format(*names), question), names
    assert not paid(ListAnswerTask(), right[::-1], form.format("Gil", "Eva", "Cas"), question)


@pytest.mark.parametrize(
    "form", ["{0}: a, {1}: b, {2}: c", "{0}=a, {1}=b, {2}=c", "Chair {0}: a\nChair {1}: b\nChair {2}: c",
             "{0}. a; {1}. b; {2}. c", "{0} \u2192 a, {1} \u2192 b, {2} \u2192 c", "x_{0} = a, x_{1} = b, x_{2} = c",
             r"\lambda_{{{0}}}=a, \lambda_{{{1}}}=b, \lambda_{{{2}}}=c"],
)  # fmt: skip
def test_numbers_may_be_labels_if_they_count(form: str) -> None:
    for counted in ((1, 2, 3), (0, 1, 2)):
        assert paid(ListAnswerTask(), ("a", "b", "c"), form.format(*counted), "Which chairs?"), counted
        assert not paid(ListAnswerTask(), ("a", "c", "b"), form.format(*counted), "Which chairs?")
    for other in ((2, 1, 3), (1, 2, 4), (1, 1, 2), (2, 3, 4)):
        assert not paid(ListAnswerTask(), ("a", "b", "c"), form.format(*other), "Which chairs?"), other


@pytest.mark.parametrize(
    ("gold", "text", "question"),
    [
        ((3, -5), "(x, y) = (3, -5)", "Answer with x, y in this order."), ((3, -5), "x, y = 3, -5", "What are x, y?"),
        ((3, -5), r"\begin{cases} x = 3 \\ y = -5 \end{cases}", "Answer with x, y."), ((3, -5), "P' = (3, -5)", ""),
        ((3, -5), r"\begin{aligned} x &= 3 \\ y &= -5 \end{aligned}", "Answer with x, y."),
        ((-5, 3), "-5 < 3", "Answer with the roots in ascending order."),
        ((3, -5), r"\lambda = 3, -5", ""), ((3, -5), "(3, –5)", ""), ((16, 5), "hour: 16, minute: 5", "{hm}"),
        ((16, 5), "hour 16, minute 5", "{hm}"), ((297, 19), "297 R 19", "{qr}"),
        ((297, 19), "297 remainder 19", "{qr}"),
        ((297, 19), "quotient = 297 and remainder = 19", "{qr}"), ((74, 85), "74 years, 85 years", "How many years?"),
        ((1234, 5), r"1\,234, 5", ""), ((1234, 5), "1{,}234, 5", ""), ((1234, 5), f"1{THIN}234, 5", ""),
        ((3, -5), "```\n3, -5\n```", ""), ((3, -5), r"$3$, \ $-5$", ""), ((3, -5), '"3, -5"', ""),
    ],
)  # fmt: skip
def test_values_under_names(gold: tuple[int, ...], text: str, question: str) -> None:
    asked = {"{hm}": "Answer with two numbers, the hour (0 to 23) and the minute.",
             "{qr}": "Answer with the quotient and the remainder, in this order."}.get(question, question)  # fmt: skip
    assert paid(NumberList(), gold, text, asked)
    assert not paid(NumberList(), gold[::-1], text, asked)
    assert not paid(NumberList(), (*gold[:-1], gold[-1] + 1), text, asked)


@pytest.mark.parametrize(
    ("gold", "text", "question"),
    [
        ((3, -5), "(y, x) = (3, -5)", "Answer with x, y in this order."), ((5,), "not = 5", ""),
        ((5,), "x = 5 = 6", ""),
        ((16, 5), "minute: 16, hour: 5", "Answer with the hour and the minute."), ((5, 5), "1.5, 2.5", ""),
        ((16, 5), "hour: 16, hour: 5", "Answer with the hour and the minute."), ((30,), "1: 30", ""),
        ((3, 5), "5 > 3", ""), ((3, 5), "3 < 4 < 5", ""), ((19,), "297 R 19", "the remainder"),
        ((5, 7), "x - 5, y - 7", "x, y"),
        ((74, 85), "74 years, 85 days", "How many years?"), ((5,), "(5) or (6)", ""), ((1, 2), "(1, 2), (1, 2)", ""),
    ],
)  # fmt: skip
def test_marks_that_say_another_thing_are_not_dropped(gold: tuple[int, ...], text: str, question: str) -> None:
    assert not paid(NumberList(), gold, text, question)


def test_moves_from_letter_to_letter() -> None:
    for text in ("A\u2192B, C\u2192A", "A->B, C->A", "A to B, C to A", "A-B; C-A", "AB, CA"):
        assert paid(ListAnswerTask(), ("AB", "CA"), text), text
        assert not paid(ListAnswerTask(), ("AB", "AC"), text), text


def test_times_with_the_half_of_the_day() -> None:
    class Arrival(ListAnswerTask):
        clock = True

    for text in ("Mon 8:05 PM", "Mon, 8:05 p.m.", "Mon at 20:05", "Mon, 20h05", "Mon, 20 h 5 min", "Monday, 20 : 05",
                 "Mon, 20 hours, 5 minutes"):  # fmt: skip
        assert paid(Arrival(), ("Mon", 20, 5), text), text
        assert not paid(Arrival(), ("Mon", 8, 5), text), text
        assert not paid(Arrival(), ("Mon", 20, 50), text), text
    assert paid(Arrival(), ("Mon", 0, 5), "Mon 12:05 am")
    assert not paid(Arrival(), ("Mon", 20, 5), "Mon 20:05 AM")


def test_a_product_is_its_prime_factors() -> None:
    task, gold = PrimeFactors(), (2, 2, 7, 29)
    for text in ("2 × 2 × 7 × 29", r"2^2 \times 7 \times 29", r"2^{2} \cdot 7 \cdot 29", "812 = 2 * 2 * 7 * 29"):
        assert paid(task, gold, text), text
    for text in (
        "812",
        "4 × 7 × 29",
        "812 = 812",
        "813 = 2 * 2 * 7 * 29",
        "812, 2, 2, 7, 29",
        "2^3 × 7 × 29",
        "28 × 29",
    ):
        assert not paid(task, gold, text), text


@pytest.mark.parametrize("text", ["2, 7, 29", "4 × 7 × 29", "2, 2, 7, 29, 29", "812"])
def test_another_number_of_primes_is_read_and_wrong(text: str) -> None:
    question = Question("Write 812 as a product of primes.", (2, 2, 7, 29))
    assert PrimeFactors().judge(question, f"\\boxed{{{text}}}").status == "wrong"


LINES = ["Answer:\n{}", "**Answer:**\n{}", "Answer:\n\n{}", "The answer is:\n```\n{}\n```", "Answer: ```text\n{}\n```",
         "Answer: {}", "#### {}", "**Answer: {}**", "Final answer:\n```\n{}\n```\nIt fits.", "The answer is `{}`.",
         "Answer:\n{}\n\nEvery row was checked."]  # fmt: skip


class Letters(Board):
    symbols = "abcdef"


@pytest.mark.parametrize("form", LINES)
def test_behind_answer_a_grid_may_have_its_lines(form: str) -> None:
    def reward(task: Any, gold: Any, text: str) -> float:
        return float(task.judge(Question("", gold), form.format(text)).reward)

    assert reward(Board(), ("123", "456"), "123\n456") == 1
    assert reward(Letters(), ("abc", "def"), "abc\ndef") == 1  # the first row is not the name of a language
    for wrong in ("123\n457", "456\n123", "123", "123\n456\n789", "123\n456\nor\n123\n465"):
        assert reward(Board(), ("123", "456"), wrong) == 0, wrong
    assert reward(NumberList(), (1, 2, 3), "1\n2\n3") == 1
    assert reward(NumberList(), (1, 2, 3), "1\n2\n4") == 0


def test_only_one_of_the_line_and_the_lines_counts() -> None:
    def reward(gold: tuple[int, ...], reply: str) -> float:
        return NumberList().judge(Question("", gold), reply).reward

    assert reward((5,), "Answer: 5\nHope it helps") == 1
    assert reward((5,), "Answer:\n5\nHope it helps") == 1
    assert reward((5, 6), "Answer:\n5\n6") == 1
    names = Question("", ("Ann", "Ben"))
    for reply in ("Answer:\nAnn, Ben\nI hope this helps", "Answer: Ann, Ben\nI hope this helps", "Answer:\nAnn\nBen"):
        assert ListAnswerTask().judge(names, reply).reward == 1, reply
    for reply in ("Answer:\nAnn, Ben\nBen, Ann", "Answer:\nAnn\nCas", "Answer:\nAnn, Ben\nor not"):
        assert ListAnswerTask().judge(names, reply).reward == 0, reply
    assert reward((5,), "Answer: 6\n5") == 0
    assert [
        grade("number", reply, "72").reward for reply in ("The answer is:\n```\n72\n```", "Answer:\n```\n72\n73\n```")
    ] == [1, 0]


def test_rows_may_stand_side_by_side() -> None:
    for text in ("123, 456", "123 456", "123; 456", "`123`, `456`"):
        assert paid(Board(), ("123", "456"), text), text
        assert not paid(Board(), ("123", "465"), text), text
    for text in ("1234, 56", "123, 456, 789", "123 or 456", "123456", "456, 123"):
        assert not paid(Board(), ("123", "456"), text), text


FENCE = "```"
# What is said in and behind a fence beside one value; {0} is right and {1} is another.
FENCED_HEDGES = [
    "Answer: {f}{0}{f} or {f}{1}{f}", "Answer: {f}{0}{f} no, {1}", "#### {f}{0}{f} or {1}",
    "Answer: {f}{0}{f} is wrong",
    "Answer:\n{f}\n{0}\n{f}\nor\n{f}\n{1}\n{f}", "Answer:\n{f}\n{0}\n{f} or {1}", "Answer: {f}{0}. {1}{f}",
    "Answer:\n{f}\n{0}.\n{1}\n{f}", "Answer:\n{f}\n{0}\n{f}\nor {1}", "Answer: {f}not\n{0}\n{f}", "Answer: {0}\nor {1}",
    "Answer:\n{0}\nor {1}", "\\boxed{{{f}not\n{0}\n{f}}}", "The answer is {f}{0}{f} perhaps",
    "#### {f}{0}{f}, {f}{1}{f}",
    "Answer:      {f}{0}{f} or {f}{1}{f}", "Answer:\n{f}text\n{0}\n{f}\n\n{f}text\n{1}\n{f}",
    "Answer: {f}wrong\n{0}{f}",
    "\\boxed{{{f}text\n{0}\n{f} or {f}\n{1}\n{f}}}", "Answer: {f}{f}{0}{f}{f} or {1}", "Answer: {f}{0} or {1}{f}",
    "Answer: ````{0}```` or {1}", "Answer:\n{f}\nnever\n{0}\n{f}", "Answer: {f}{0} because {1} fails{f}",
]  # fmt: skip


@pytest.mark.parametrize("text", FENCED_HEDGES)
def test_a_fence_holds_one_value_or_none(text: str) -> None:
    for kind, right, other in (
        ("number", "72", "73"),
        ("math", "72", "73"),
        ("choice", "B", "C"),
        ("exact", "Ann", "Ben"),
    ):
        reply = text.format(right, other, f=FENCE)
        assert grade(kind, reply, right).reward == 0, (kind, reply)
        assert grade(kind, f"Answer: {FENCE}{right}{FENCE}.", right).reward == 1
        assert grade(kind, f"Answer:{chr(10) * 12}{FENCE}text\n{right}\n{FENCE}\nIt fits.", right).reward == 1
    for task, gold, right, other in (
        (NumberList(), (5, 6), "5, 6", "6, 5"),
        (ListAnswerTask(), ("ann", "ben"), "Ann, Ben", "Ben, Ann"),
        (Board(), ("123", "456"), "123, 456", "123, 465"),
    ):
        assert task.judge(Question("", gold), text.format(right, other, f=FENCE)).reward == 0, (right, text)
        assert task.judge(Question("", gold), f"Answer: {FENCE}{right}{FENCE}").reward == 1


@pytest.mark.parametrize("first", ["a", "b", "c", "d", "A", "not", "none"])
def test_only_a_language_is_dropped_from_a_fence(first: str) -> None:
    for reply in (f"Answer: {FENCE}{first}\nB{FENCE}", f"\\boxed{{{FENCE}{first}\nB\n{FENCE}}}"):
        assert grade("choice", reply, "B").reward == 0, reply
        assert grade("choice", reply.replace(f"{FENCE}{first}", f"{FENCE}text"), "B").reward == 1


@pytest.mark.parametrize(
    "text",
    ["2**3 * 7", "2 * * 7", "2 × 7 ×", "× 2 × 7", "2*2 7", "2^3^1 × 7", "2 × 3 × 7 = 43", "42 = 2 × 3 × 7 = 42 × 1",
     "not 2 × 3 × 7", "2 × 3 or 7", "2 × 3, 7^1 ×", "2²× 3 × 7", "2**2 * 7", "2 ** 3 ** 7", "2 * 3 + 7", "-2 × -3 × 7",
     "43 = 2 × 3 × 7", "2 × 3 × 7!", "2 × 3 × 7?", "2^0 × 2 × 3 × 7"],
)  # fmt: skip
def test_a_product_that_says_something_else_is_not_paid(text: str) -> None:
    asked = "Write {} as a product of primes."
    for gold in ((2, 7), (2, 3, 7), (2, 2, 7)):
        if not (gold == (2, 2, 7) and text == "2**2 * 7"):
            assert not paid(PrimeFactors(), gold, text, asked.format(0)), (gold, text)


def test_powers_of_primes_in_every_spelling() -> None:
    for text in ("2^3", "8 = 2^3", "2**3", "2³", "2 * 2 * 2", "2^3 = 8", "2^{3}", "2·2·2"):
        assert paid(PrimeFactors(), (2, 2, 2), text), text
    for text in ("2² × 7", r"2^2 \times 7 = 28", "2**2 * 7", "28 = 2 ⋅ 2 ⋅ 7"):
        assert paid(PrimeFactors(), (2, 2, 7), text), text
    assert paid(PrimeFactors(), (2,) * 10 + (3,), "2^{10} * 3")


NO_NAMES = [
    "not",
    "no",
    "never",
    "nor",
    "without",
    "wrong",
    "excluding",
    "false",
    "neither",
    "nope",
    "except",
    "unless",
]
DENYING = "Answer with the numbers, not the wrong or false ones; never without a comma, and no other, except as said."


@pytest.mark.parametrize("word", NO_NAMES)
def test_a_denial_is_no_name(word: str) -> None:
    for question in ("", DENYING):
        for text in ("{w} = 5, 6", "{w} 1: 5, {w} 2: 6", "{w} 1 = 5, {w} 2 = 6", "({w}) = (5, 6)", "5 {w}, 6 {w}",
                     "{w}: 5, {w}: 6", "{w} 1. 5\n{w} 2. 6", "{w} = (5, 6)", "{w}_1 = 5, {w}_2 = 6"):  # fmt: skip
            for task, gold in ((NumberList(), (5, 6)), (ListAnswerTask(), ("5", "6"))):
                assert not paid(task, gold, text.format(w=word), question), text.format(w=word)
        assert not paid(NumberList(), (5,), f"{word} = 5", question)
        assert not paid(NumberList(), (5,), f"5 {word}", question)
    for text in ("{w} = 5", "5 = {w}", r"\text{{{w}}} = 5", "the {w} one = 5", "{w}: 5", "5 {w}", "x {w} = 5", "{w}=5"):
        for kind in ("number", "math"):
            for around in ("\\boxed{{{}}}", "Answer: {}", "#### {}"):
                assert grade(kind, around.format(text.format(w=word)), 5).reward == 0, (kind, text.format(w=word))


@pytest.mark.parametrize(
    "sign", [r"\not", r"\ne", r"\neq", r"\neg", r"\lnot", r"\le", r"\geq", r"\nsim", r"\not\approx"]
)
def test_a_sign_of_denial_is_no_name(sign: str) -> None:
    for text in (f"{sign} = 5", f"{sign}= 5", f"{sign} 5", f"x {sign} = 5", f"x {sign} 5", f"5 = {sign}"):
        for tolerance in (0.0, 0.01):
            assert grade("number", f"\\boxed{{{text}}}", 5, rel_tol=tolerance).reward == 0, text
        assert grade("math", f"\\boxed{{{text}}}", 5).reward == 0, text
    assert grade("number", r"\boxed{\lambda = 5}", 5).reward == grade("number", r"\boxed{\theta = 5}", 5).reward == 1


HOURS = "Answer with the hours and the minutes."


@pytest.mark.parametrize(
    ("gold", "text", "question"),
    [
        ((16, 5), "16 minutes, 5 hours", HOURS), ((3, 4), "3 hours, 4 days", "Answer with the days and the hours."),
        ((48,), "48 days", "How many hours are 2 days?"), ((3,), "3 thousand", "How many of the thousand are red?"),
        ((5,), "5 or", "How many red or blue ones?"), ((5,), "5 not", "How many do not fit?"),
        ((5, 6), "5 or, 6 or", "or"),
        ((48,), "48 days", "In two days, how many hours pass?"), ((16, 5), "16 hours, 5 hours", HOURS),
        ((16, 5), "16 days, 5 days", "How many days and hours pass?"), ((2,), "2 dozen", "How many dozen eggs?"),
        ((5, 3), "5 < 3", "Answer in ascending order."), ((3, 5), "3 < 5", "Answer with the hour and the minute."),
        ((3, 5), "3 < 3", "Answer in ascending order."), ((485, 16), "485 < 16", "quotient and remainder"),
        ((3, 5), "3 < 5 < 4", "Answer in ascending order."), ((3, 5), "3 <= 5", "Answer in ascending order."),
    ],
)  # fmt: skip
def test_units_and_order_signs_that_say_another_thing_are_not_dropped(
    gold: tuple[int, ...], text: str, question: str
) -> None:
    assert not paid(NumberList(), gold, text, question)


def test_people_are_not_compared() -> None:
    assert not paid(ListAnswerTask(), ("ann", "ben"), "Ann < Ben", "Name them from tallest to shortest.")
    assert not paid(ListAnswerTask(), ("sun", "4", "50"), "Sun < 4 < 50", "The weekday, the hour, the minute.")


def test_a_fraction_behind_a_decimal_is_no_number() -> None:
    for kind in ("number", "math"):
        for gold in ("1.755", "1.75", "4"):
            assert grade(kind, "\\boxed{3.5½}", gold).reward == 0


def test_lines_below_the_marker_count_together() -> None:
    def reward(gold: tuple[str, ...], reply: str, task: Any) -> float:
        return float(task.judge(Question("", gold), reply).reward)

    for second in ("123, 465", "456, 123", "not 123", "or this", "Wrong."):
        assert reward(("123", "456"), f"Answer:\n123, 456\n{second}", Board()) == 0, second
        assert reward(("ann", "ben"), f"Answer:\nAnn, Ben\n{second}", ListAnswerTask()) == 0, second
    for last in (
        "---",
        "Done.",
        "All good.",
        "As required.",
        "This fits!",
        "Each row's sum fits.",
        "***",
        "Done.\n---",
    ):
        assert reward(("12", "34"), f"Answer:\n12\n34\n{last}", Board()) == 1, last
        assert reward(("ann", "ben"), f"Answer:\nAnn, Ben\n{last}", ListAnswerTask()) == 1, last
        assert reward(("ann",), f"Answer:\nAnn\nBen\n{last}", ListAnswerTask()) == 0, last
    assert reward(("ann",), "Answer:\nAnn.\nBen.", ListAnswerTask()) == 0


@pytest.mark.parametrize(
    "text", ["~5", "~~5~~", "x ~= 5", "x != 5", "-x = 5", "half = 5", "isn't = 5", "5 squared", "5 nope", "$~5$",
             "= ~5",
             "twice = 5", "minus = 5", r"x \not= 5", "at least = 5", "other than = 5", "anything but = 5", "x =/= 5"],
)  # fmt: skip
def test_a_sign_or_a_word_that_changes_the_value_is_not_dropped(text: str) -> None:
    for around in ("\\boxed{{{}}}", "Answer: {}", "Answer: ```{}```", "#### {}"):
        for kind in ("number", "math"):
            assert grade(kind, around.format(text), 5).reward == 0, (kind, text)
    assert not paid(NumberList(), (5,), text), text
    assert grade("number", f"\\boxed{{{text}}}", 5).reward == 0


@pytest.mark.parametrize(
    "text", ["B (not)", "B: wrong", "B - wrong", "B) incorrect", "(B) is false", "B) is not right", "B: C is right",
             "B isn't", "B: never", "B - rejected", "B, not C", "B. isn't right", "B is excluded"],
)  # fmt: skip
def test_a_letter_that_is_denied_is_no_choice(text: str) -> None:
    for around in ("\\boxed{{{}}}", "Answer: ```{}```", "<answer>{}</answer>"):
        assert grade("choice", around.format(text), "B").reward == 0, text
    for right in ("B) None of these", "B is correct", "B - Paris", "B) False", "B. It is"):
        assert grade("choice", f"\\boxed{{{right}}}", "B").reward == 1, right
