"""Numbers in words: every number is read back from its words, and two numbers side by side are none."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.rewards import grade
from rlvr.envs.rewards.grammar.spoken import spoken_number

ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen".split()
)
ONES += ["eighteen", "nineteen"]
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number: int, joint: str) -> str:
    for scale, name in (
        (10**12, "trillion"),
        (10**9, "billion"),
        (10**6, "million"),
        (1000, "thousand"),
        (100, "hundred"),
    ):
        if number >= scale:
            rest = number % scale
            behind = f" {'and ' if scale == 100 else ''}{in_words(rest, joint)}" if rest else ""
            return f"{in_words(number // scale, joint)} {name}{behind}"
    if number < 20:
        return ONES[number - 1]
    return TENS[number // 10 - 2] + (joint + ONES[number % 10 - 1] if number % 10 else "")


@given(st.integers(1, 10**15 - 1), st.sampled_from(["-", " "]))
def test_a_number_is_read_back_from_its_words(number: int, joint: str) -> None:
    assert spoken_number(in_words(number, joint)) == number
    assert spoken_number(f"Minus {in_words(number, joint)}") == -number


@given(st.integers(1, 99), st.integers(1, 99))
def test_two_numbers_side_by_side_are_one_only_as_tens_and_ones(first: int, second: int) -> None:
    value = spoken_number(f"{in_words(first, '-')} {in_words(second, '-')}")
    is_one = first >= 20 and first % 10 == 0 and second < 10
    assert value == (first + second if is_one else None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("half", Fraction(1, 2)), ("three quarters", Fraction(3, 4)), ("two and a half", Fraction(5, 2)),
        ("5 and a half", Fraction(11, 2)), ("a dozen", Fraction(12)), ("twelve hundred", Fraction(1200)),
        ("zero", Fraction(0)), ("", None), ("a", None), ("and", None), ("hundred", None), ("two and", None),
        ("three halves", None), ("two thousand three million", None), ("zero five", None), ("minus minus one", None),
    ],
)  # fmt: skip
def test_words_that_write_one_number_and_words_that_do_not(text: str, value: Fraction | None) -> None:
    assert spoken_number(text) == value


@pytest.mark.parametrize("answer", ["seventy-two", "144:2", "3:4"])
@pytest.mark.parametrize("kind", ["number", "math"])
def test_where_an_answer_is_to_be_worked_out_words_and_ratios_are_not(kind: str, answer: str) -> None:
    reference = "3/4" if answer == "3:4" else "72"
    assert grade(kind, f"\\boxed{{{answer}}}", reference, simplest=True).reward == 0
