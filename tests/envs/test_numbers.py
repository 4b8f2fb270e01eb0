"""The tasks about numbers, each answered a second time from its text alone, in another way."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import cache
from math import floor, lcm
from typing import Any

import gymnasium as gym
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import arithmetic, number_theory, numerals, ratios

from .reading import ints


def python(text: str) -> Fraction:
    """Python's own value of an expression of ours, on fractions."""
    text = text.replace("^", "**").replace("[", "(").replace("]", ")")
    value = eval(re.sub(r"(?<!\*\* )\b\d+", r"Fraction(\g<0>)", text), {"Fraction": Fraction})
    return Fraction(value)


def asked(text: str) -> str:
    """What stands between "What is" and the question mark."""
    return re.search(r"What is (.*?)\?", text)[1]


# arithmetic


def rounded(text: str, level: int) -> str:
    if level <= 2:
        number, digits = re.search(r"Round (\S+) to (\d+)", text).groups()
        return format(Context(prec=int(digits), rounding=ROUND_HALF_UP).create_decimal(number), "f")
    above, below, places = ints(text)
    tenths = floor(Fraction(above, below) * 10**places + Fraction(1, 2))
    return format(Decimal(tenths).scaleb(-places), f".{places}f")


def bits(text: str, level: int) -> int:
    """Bit by bit on strings."""
    width = int(re.search(r"(\d+) bits;", text)[1])
    todo = re.search(r"bit by bit, (.*)\. Answer", text)[1].replace("(", "").replace(")", "")
    first, *rest = re.split(r" (AND|OR|XOR|SHIFT LEFT|SHIFT RIGHT) ", todo)
    value = format(int(first), f"0{width}b")
    for operator, by in zip(rest[::2], map(int, rest[1::2]), strict=True):
        other = format(by, f"0{width}b")
        if operator == "SHIFT LEFT":
            value = value[by:] + "0" * by
        elif operator == "SHIFT RIGHT":
            value = "0" * by + value[:-by]
        else:
            wanted = {"AND": ["11"], "OR": ["11", "10", "01"], "XOR": ["10", "01"]}[operator]
            value = "".join("1" if a + b in wanted else "0" for a, b in zip(value, other, strict=True))
    return int(value, 2)


def divided(text: str, level: int) -> tuple[int, int]:
    dividend, divisor = ints(text)
    return divmod(dividend, divisor)


# numerals


def rebased(text: str, level: int) -> str:
    numeral, old, new = re.search(r"number (\w+) is written in base (\d+)\. Write it in base (\d+)", text).groups()
    value, digits = int(numeral, int(old)), []
    while value:
        value, digit = divmod(value, int(new))
        digits.append("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit])
    return "".join(reversed(digits))


def unroman(text: str) -> int:
    values = ["IVXLCDM".index(letter) for letter in text]
    sizes = [(1, 5, 10, 50, 100, 500, 1000)[value] for value in values]
    return sum(-a if a < b else a for a, b in zip(sizes, [*sizes[1:], 0], strict=True))


@cache
def romans() -> dict[int, str]:
    """The usual form of each number: the shortest of all numerals of the right pattern."""
    table: dict[int, str] = {}
    ones = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    for number in range(1, 4000):
        places = [str.maketrans("IVX", letters) for letters in ("IVX", "XLC", "CDM")]
        digits = [number // 10**power % 10 for power in range(3)]
        parts = [ones[digit].translate(place) for digit, place in zip(digits, places, strict=True)]
        table[number] = "M" * (number // 1000) + "".join(reversed(parts))
    return table


def roman_sum(text: str, level: int) -> str:
    shown = re.search(r"Work out (.*)\. Answer", text)[1]
    return romans()[int(python(re.sub("[IVXLCDM]+", lambda match: str(unroman(match[0])), shown)))]


# ratios


def repeating(text: str, level: int) -> Fraction:
    """As the one fraction within 10^-60 of a long expansion whose denominator is a repeating decimal's."""
    total = Fraction(0)
    for whole, still, block in re.findall(r"(\d+)\.(\d*)\((\d+)\)", text):
        long = Fraction(f"{whole}.{still}{block * 40}")
        below = 10 ** len(still) * (10 ** len(block) - 1)
        total += Fraction(round(long * below), below)
        assert abs(Fraction(round(long * below), below) - long) < Fraction(1, 10**30)
    return total


def continued(text: str, level: int) -> Fraction:
    """By the recurrence of the convergents, from the front."""
    first, *rest = ints(re.search(r"What is \[(.*)\]", text)[1])
    above, below = (1, first), (0, 1)
    for term in rest:
        above, below = (above[1], term * above[1] + above[0]), (below[1], term * below[1] + below[0])
    return Fraction(above[1], below[1])


def changed(text: str, level: int) -> Fraction:
    factor = Fraction(1)
    for direction, percent in re.findall(r"(rises|falls) by (\d+) percent", text):
        factor *= 1 + Fraction(int(percent), 100) * (1 if direction == "rises" else -1)
    number = Fraction(re.search(r"(?:is|it is) (\d+(?:/\d+)?)\.", text)[1])
    return number / factor if "at the start" in text else number * factor


def shared(text: str, level: int) -> Fraction:
    told, known = re.search(r"so that (.*?)\. (.*)", text).groups()
    if level >= 4:
        parts = {"Ada": Fraction(1)}
        for one, other, m, y in re.findall(r"(\w+) : (\w+) = (\d+) : (\d+)", told):
            parts[other] = parts[one] * int(y) / int(m)
    else:
        names, numbers = told.split(" = ")
        parts = dict(zip(names.split(" : "), map(Fraction, numbers.split(" : ")), strict=True))
    asked_for = re.search(r"does (\w+) get", known)[1]
    if "Together" in known:
        return parts[asked_for] / sum(parts.values()) * ints(known)[0]
    more, less = re.search(r"(\w+) gets \d+ coins more than (\w+)", known).groups()
    return parts[asked_for] / (parts[more] - parts[less]) * ints(known)[0]


# number theory


def common(text: str, level: int) -> int:
    return int((sympy.ilcm if "least" in text else sympy.igcd)(*ints(text)))


def prime_factors(text: str, level: int) -> tuple[int, ...]:
    found = sympy.factorint(ints(text)[0])
    return tuple(p for p in sorted(found) for _ in range(found[p]))


def divisors(text: str, level: int) -> int:
    number, *power = ints(re.sub(r"from 1 to", "", text))
    if level == 3:
        return sum(1 for n in range(1, number + 1) if sympy.igcd(n, number) == 1) if number < 500 else totient(number)
    if level == 5:
        return int(sympy.divisor_count(number ** power[0]) - sympy.divisor_count(number))
    found = sympy.divisors(number)
    if level == 1:
        return len(found)
    return sum(d for d in found if level == 2 or d % 2 == ("odd" in text))


def totient(number: int) -> int:
    return int(sympy.totient(number))


def power_residue(text: str, level: int) -> int:
    numbers = ints(text)
    if level >= 4:
        base, middle, top, modulus = numbers
        return pow(base, middle**top, modulus)
    return pow(*numbers)


def inverse(text: str, level: int) -> int:
    _, last, a, b, c, modulus = ints(text)
    assert modulus == last + 1
    return int((c - b) * sympy.mod_inverse(a, modulus) % modulus)


def remainders(text: str, level: int) -> int:
    from sympy.ntheory.modular import solve_congruence

    numbers = ints(text)[1:]
    value, period = solve_congruence(*zip(numbers[::2], numbers[1::2], strict=True))
    assert period == lcm(*numbers[1::2])
    return int(value)


def pairs(text: str, level: int) -> int:
    low, _, a, b, c = map(int, re.search(r"x >= (\S+), y >= (\S+) satisfy (\d+)x \+ (\d+)y = (-?\d+)", text).groups())
    return sum(1 for x in range(low, (c - b * low) // a + 1) if (c - a * x) % b == 0 and (c - a * x) // b >= low)


@cache
def count_below(bound: int, total: int) -> int:
    """Numbers below the bound with a digit sum, by their last digit."""
    if bound <= 0 or total < 0:
        return 0
    if bound == 1:
        return int(total == 0)
    return sum(count_below(-((d - bound) // 10), total - d) for d in range(10))


def digit_sums(text: str, level: int) -> int:
    _, last, _, total = ints(text)
    return count_below(last + 1, total)


def in_factorial(n: int, p: int) -> int:
    total = 0
    for multiple in range(p, n + 1, p):
        while multiple % p == 0:
            multiple, total = multiple // p, total + 1
    return total


def factorial_power(text: str, level: int) -> int:
    if level == 3:
        n, number = ints(text)
    else:
        number = int(re.search(r"that (\d+)\^k", text)[1])
        n = int(re.search(r"(\d+)!", text)[1]) if "!" in text else 0
    chosen = re.search(r"C\((\d+), (\d+)\)", text)
    k = []
    for p, exponent in sympy.factorint(number).items():
        total = in_factorial(n, p)
        if chosen:
            top, bottom = map(int, chosen.groups())
            total += in_factorial(top, p) - in_factorial(bottom, p) - in_factorial(top - bottom, p)
        k.append(total // exponent)
    return min(k)


def divisible(text: str, level: int) -> int:
    low, high, *numbers = ints(text)
    wanted = {4: [0], 5: [1]}.get(level, range(1, 9))
    return sum(1 for n in range(low, high + 1) if sum(n % number == 0 for number in numbers) in wanted)


ORACLES: dict[type, Callable[[str, int], Any]] = {
    arithmetic.Sums: lambda text, level: python(asked(text)),
    arithmetic.Products: lambda text, level: python(asked(text)),
    arithmetic.OrderOfOperations: lambda text, level: python(asked(text)),
    arithmetic.LongDivision: divided,
    arithmetic.Rounding: rounded,
    arithmetic.BitOperations: bits,
    numerals.BaseConversion: rebased,
    numerals.RomanNumerals: roman_sum,
    ratios.FractionArithmetic: lambda text, level: str(python(asked(text))),  # in lowest terms
    ratios.RepeatingDecimals: repeating,
    ratios.ContinuedFractions: continued,
    ratios.PercentageChanges: changed,
    ratios.Proportions: shared,
    number_theory.GreatestCommonDivisor: common,
    number_theory.PrimeFactors: prime_factors,
    number_theory.Divisors: divisors,
    number_theory.ModularPower: power_residue,
    number_theory.ModularInverse: inverse,
    number_theory.ChineseRemainder: remainders,
    number_theory.LinearDiophantine: pairs,
    number_theory.DigitSums: digit_sums,
    number_theory.FactorialPowers: factorial_power,
    number_theory.InclusionExclusion: divisible,
}


@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=15, deadline=None)
def test_the_answer_is_found_again_from_the_text_alone(task, level, seed):
    question = task().ask(random.Random(seed), level)
    assert question.answer == ORACLES[task](question.text, level), question


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ("00FF", 1), ("ff", 1), ("FF_{16}", 1), ("FF_8", 0), ("(FF)_{16}", 1), ("(FF_{16}", 0), ("0xFF", 1),
        ("0bFF", 0),
        ("FF_{10}", 0), ("FE", 0), ("255", 0), ("F F", 0), ("", 0), ("FF or FE", 0),
    ],
)  # fmt: skip
def test_a_numeral_is_read_whatever_its_case_and_leading_zeros(answer, reward):
    task = numerals.BaseConversion()
    text = "The number 255 is written in base 10. Write it in base 16. Digits above 9 are A to F."
    question = task.ask(random.Random(0), 3)._replace(text=text, answer="FF")
    assert task.judge(question, f"\\boxed{{{answer}}}").reward == reward


@pytest.mark.parametrize(
    ("task", "level", "copy"),
    [
        (arithmetic.Sums, 1, lambda text: asked(text)),
        (arithmetic.OrderOfOperations, 1, lambda text: asked(text)),
        (ratios.FractionArithmetic, 1, lambda text: asked(text)),
        (arithmetic.Rounding, 3, lambda text: re.search(r"Write (.*) as", text)[1]),
        (number_theory.PrimeFactors, 1, lambda text: text.split()[1]),
    ],
)
def test_a_copy_of_what_was_to_be_worked_out_is_no_answer(task, level, copy):
    for seed in range(50):
        question = task().ask(random.Random(seed), level)
        assert task().judge(question, f"\\boxed{{{copy(question.text)}}}").reward == 0


@pytest.mark.parametrize(("numbers", "digits"), [(2, 2), (None, 2), (5, None)])
def test_sums_of_a_chosen_size(numbers: int | None, digits: int | None):
    env = gym.make("rlvr/Sums-v0", numbers=numbers, digits=digits, level=2)
    for seed in range(20):
        question, _ = env.reset(seed=seed)
        terms = re.findall(r"\d+", question)
        assert len(terms) == (numbers or 4)
        assert {len(term) for term in terms} == {digits or 4}
        _, reward, *_ = env.step(f"\\boxed{{{python(asked(question))}}}")
        assert reward == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"numbers": 1}, "numbers must be a whole number from 2 to 8, got 1"),
        ({"digits": 9}, "digits must be a whole number from 1 to 8, got 9"),
        ({"digits": True}, "digits must be a whole number"),
        ({"numbers": 3, "digits": 1}, "too few tasks for three splits"),
    ],
)
def test_a_size_of_sums_that_cannot_be_is_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        gym.make("rlvr/Sums-v0", **settings)


def test_words_of_a_chosen_length_are_reversed():
    env = gym.make("rlvr/ReverseText-v0", letters=5)
    question, _ = env.reset(seed=1)
    word = question.rpartition(" ")[2]
    assert len(word) == 5
    assert env.step(f"\\boxed{{{word[::-1]}}}")[1] == 1
    with pytest.raises(ValueError, match="letters must be a whole number from 4 to 8, got 3"):
        gym.make("rlvr/ReverseText-v0", letters=3)
