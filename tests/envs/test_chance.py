"""The tasks of chance, counting and calculus, each answered a second time from its text alone, in another way."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise, permutations, product
from math import comb, factorial, prod
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import calculus, counting, probability

from .reading import found, ints

X, N = sympy.symbols("x n")


def fraction(value: Any) -> Fraction:
    value = sympy.nsimplify(value)
    return Fraction(int(value.p), int(value.q))


def algebra(text: str) -> Any:
    """An expression of ours, read by sympy; the texts are ours, not a model's."""
    text = re.sub(r"(?<=[\dxn)])\s?(?=[(xn])", "*", text).replace("^", "**")
    return eval(
        re.sub(r"\b\d+", r"Integer(\g<0>)", text.replace("|", "")),
        {"Integer": sympy.Integer, "x": X, "n": N, "sqrt": sympy.sqrt},
    )


# probability


def dice(text: str, level: int) -> Fraction:
    """By generating function: the sides as exponents of one polynomial."""
    sides = ints(found(r"dice with (.*?) sides", text))
    poly = sympy.Poly(1, X)
    for size in sides:
        poly *= sympy.Poly([1] * size + [0], X)
    ways = {power[0]: int(c) for power, c in poly.terms()}
    event = found(r"the sum is (.*?)\?", text)
    numbers = ints(event)
    if "exactly" in event:
        wanted = [numbers[0]]
    elif "at least" in event:
        wanted = [s for s in ways if s >= numbers[0]]
    else:
        wanted = [s for s in ways if s % numbers[1] == numbers[0]]
    return Fraction(sum(ways.get(s, 0) for s in wanted), sum(ways.values()))


def urn(text: str, level: int) -> Fraction:
    """Ball by ball, along every sequence of colours."""
    colours = {
        name: int(n) for n, name in re.findall(r"(\d+) (red|blue|green|white)", found(r"holds (.*?) balls", text))
    }
    drawn = int(found(r"(\d+) balls are drawn", text))
    event = found(r"probability that (.*?)\?", text)
    total = Fraction(0)
    for row in product(colours, repeat=drawn):
        count = Counter(row)
        red = re.search(r"(exactly|at least) (\d+) of them (?:is|are) red", event)
        good = (
            len(count) == 1
            if "same" in event
            else len(count) == 4
            if "four" in event
            else (count["red"] == int(red[2]) if red[1] == "exactly" else count["red"] >= int(red[2]))
            and ("blue" not in event or count["blue"] >= 1)
        )
        if good:
            left, chance = dict(colours), Fraction(1)
            for colour in row:
                chance *= Fraction(left[colour], sum(left.values()))
                left[colour] -= 1
            total += chance
    return total


def bayes(text: str, level: int) -> Fraction:
    names, priors = re.search(r"come from the \w+ (.*?) with the probabilities (.*?)\.", text).groups()
    weights = [Fraction(p, 100) for p in ints(priors)]
    for sign, rates in re.findall(r"that a \w+ has (a \w+) are (.*?)\.", text):
        absent = f"does not have {sign}" in text
        weights = [w * abs(absent - Fraction(r, 100)) for w, r in zip(weights, ints(rates), strict=True)]
    return weights[re.findall(r"\b[A-D]\b", names).index(found(r"comes from (\w)\?", text))] / sum(weights)


def expected(text: str, level: int) -> Fraction:
    if level in (1, 4):
        table = [(int(p), Fraction(q)) for p, q in re.findall(r"(-?\d+) points? with probability (\d+/\d+)", text)]
        mean = sum(p * q for p, q in table)
        assert sum(q for _, q in table) == 1
        return mean if level == 1 else sum(q * (p - mean) ** 2 for p, q in table)
    notes = ints(found(r"the numbers (.*?)\. One", text))
    if level == 2:
        return Fraction(sum(max(pair) for pair in product(notes, repeat=2)), len(notes) ** 2)
    fee = int(found(r"pay (\d+)", text))

    @cache
    def best(draws: int, note: int) -> Fraction:
        onward = sum(best(draws - 1, n) for n in notes) / len(notes) - fee if draws else Fraction(-1000)
        return max(Fraction(note), onward)

    return sum(best(1 if level == 3 else 2, note) for note in notes) / len(notes)


def chain(text: str, level: int) -> Fraction:
    if level <= 3:
        names = re.split(", | and ", found(r"the states (.*) and starts", text))
        matrix = sympy.zeros(len(names))
        for start, rest in re.findall(r"from (\w) to (.*?)(?:;|\. What)", text):
            for end, chance in re.findall(r"(\w) (\d+/\d+)", rest):
                matrix[names.index(start), names.index(end)] = sympy.Rational(chance)
        assert all(sum(matrix.row(i)) == 1 for i in range(len(names)))
        asked, steps = re.search(r"it is in (\w) after (\d)", text).groups()
        return fraction((matrix ** int(steps))[0, names.index(asked)])
    top, start = ints(found(r"from 0 to (\d+ starts at \d+)", text))
    up, down = (Fraction(found(rf"goes .*?{way} by 1 with probability (\d+/\d+)", text)) for way in ("up", "down"))
    # (up + down) p_k = up p_(k+1) + down p_(k-1), p_0 = 0, p_top = 1: p_k = share_k p_(k+1), from below
    share, shares = Fraction(0), []
    for _ in range(1, top):
        share = up / (up + down - down * share)
        shares.append(share)
    return prod(shares[start - 1 :], start=Fraction(1))


# counting


def arrangements(text: str, level: int) -> int:
    """Letter by letter, with a memory of what is left and of the vowels so far."""
    word = found(r"letters of (\w+)", text)
    letters = tuple(sorted(Counter(word).items()))

    @cache
    def ways(left: tuple[tuple[str, int], ...], vowels: str) -> int:
        if not left:
            return int(allowed(vowels))
        total = 0
        for place, (letter, number) in enumerate(left):
            rest = (*left[:place], *(((letter, number - 1),) if number > 1 else ()), *left[place + 1 :])
            total += ways(rest, vowels + (letter if letter in "AEIOU" else "-"))
        return total

    def allowed(vowels: str) -> bool:
        runs = [len(run) for run in re.findall(r"[A-Z]+", vowels)]
        said = vowels.replace("-", "")
        return (True, list(said) == sorted(said), runs == [3], runs == [1, 1, 1], sorted(runs) == [1, 2])[level - 1]

    return ways(letters, "") if len(word) <= 8 else by_pattern(word, level)


def by_pattern(word: str, level: int) -> int:
    """Where the vowels may stand, counted one by one, times the orders of either kind."""
    vowels = [letter for letter in word if letter in "AEIOU"]
    others = Counter(letter for letter in word if letter not in "AEIOU")
    rest = factorial(len(word) - 3)
    for number in others.values():
        rest //= factorial(number)
    own = len(set(permutations(vowels)))
    places = [(a, b, c) for c in range(len(word)) for b in range(c) for a in range(b)]
    good = {
        1: lambda a, b, c: True,
        2: lambda a, b, c: True,
        3: lambda a, b, c: c - a == 2,
        4: lambda a, b, c: b - a > 1 and c - b > 1,
        5: lambda a, b, c: (b - a == 1) != (c - b == 1),
    }[level]
    return sum(good(*place) for place in places) * rest * (1 if level == 2 else own)


def committees(text: str, level: int) -> int:
    groups = ints(found(r"From (.*?) a committee", text))
    size = int(found(r"committee of (\d+)", text))
    total = 0
    for parts in product(range(size + 1), repeat=len(groups)):
        if sum(parts) != size:
            continue
        if level <= 3:
            women = int(found(r"(?:exactly|at least) (\d)", text))
            good = parts[0] == women if level == 1 else parts[0] >= women
        else:
            good = all(parts)
        ways = 1
        for n, k in zip(groups, parts, strict=True):
            ways *= comb(n, k)
        if level == 3 and all(parts):  # with both of them there are that many
            ways -= comb(groups[0] - 1, parts[0] - 1) * comb(groups[1] - 1, parts[1] - 1)
        total += ways * good
    return total * (size * (size - 1) if level == 5 else 1)


def paths(text: str, level: int) -> int:
    """Crossing by crossing."""
    places = [(int(x), int(y)) for x, y in re.findall(r"\((\d+), (\d+)\)", text)]
    end, special = places[1], places[2:]
    grid: dict[
        tuple[int, int], tuple[int, int]
    ] = {}  # ways that avoid the special crossings, and ways in all through them
    for x, y in product(range(end[0] + 1), range(end[1] + 1)):
        before = [grid.get((x - 1, y), (0, 0)), grid.get((x, y - 1), (0, 0))]
        free, via = (sum(pair) for pair in zip(*before, strict=True))
        free += (x, y) == (0, 0)
        grid[x, y] = (0, free + via) if (x, y) in special else (free, via)
    return grid[end][1] if level == 1 else grid[end][0]


def distributions(text: str, level: int) -> int:
    total = int(found(r"can (\d+) identical", text))
    row = {0: 1}
    for low, high, least in re.findall(r"(?:from (\d+) to (\d+)|at least (\d+)) in box \d", text):
        span = range(int(low or least), int(high or total) + 1)
        new: Counter[int] = Counter()
        for filled, ways in row.items():
            for balls in span:
                new[filled + balls] += ways
        row = new
    return row[total]


def journals(text: str, level: int) -> int:
    """The regions, from the innermost outwards."""
    told = {
        frozenset(re.findall("[A-D]", names)): int(n)
        for n, names in re.findall(r"(\d+) read ([A-D](?:(?:, | and )[A-D])*)", text)
    }
    told[frozenset()] = int(found(r"(\d+) people were", text))
    regions: dict[frozenset[str], int] = {}
    for names in sorted(told, key=len, reverse=True):
        regions[names] = told[names] - sum(size for other, size in regions.items() if other > names)
    assert min(regions.values()) > 0
    how = found(r"How many read (.*) of the", text).replace("neither", "none")
    asked = ("none", "exactly one", "exactly two").index(how)
    return sum(size for names, size in regions.items() if len(names) == asked)


def tilings(text: str, level: int) -> int:
    tiles = [(int(a), int(b)) for a, b in re.findall(r"length (\d+) in (\d+) colours?", text)]
    alone = int(found(r"tiles of length (\d+) must", text)) if "must not" in text else None

    @cache
    def ways(left: int, last: int) -> int:
        if left <= 0:
            return int(left == 0)
        return sum(c * ways(left - size, size) for size, c in tiles if not size == last == alone)

    return ways(int(found(r"have the length (\d+)", text)), 0)


# calculus


def derivative(text: str, level: int) -> Fraction:
    f = algebra(found(r"f\(x\) = (.*?)\. What", text))
    return fraction(sympy.diff(f, X, 2 if level == 5 else 1).subs(X, int(found(r"f'+\((-?\d+)\)", text))))


def integral(text: str, level: int) -> Fraction:
    if level == 5:
        f, g = (algebra(part) for part in re.search(r"graphs of (.*) and (.*?)\?", text).groups())
        cuts = sorted(sympy.roots(sympy.Poly(f - g, X)))
        return sum(
            (abs(fraction(sympy.integrate(f - g, (X, a, b)))) for a, b in pairwise(cuts)),
            Fraction(0),
        )
    shown, low, high = re.search(r"integral of (.*) over x from (-?\d+) to (-?\d+)\?", text).groups()
    f, low, high = algebra(shown), int(low), int(high)
    cuts = (
        sorted({low, high, *(r for r in sympy.roots(sympy.Poly(f, X)) if low < r < high)})
        if level == 3
        else [low, high]
    )
    pieces = [fraction(sympy.integrate(f, (X, a, b))) for a, b in pairwise(cuts)]
    return sum((abs(piece) if level == 3 else piece for piece in pieces), Fraction(0))


def limit(text: str, level: int) -> Fraction:
    shown, where = re.search(r"limit of (.*) as x (?:goes to (-?\d+)|grows)", text).groups()
    f = algebra(shown)
    if level <= 3:
        return fraction(sympy.limit(sympy.cancel(f), X, int(where) if where else sympy.oo))
    if level == 4:  # by the rule of de l'Hospital
        above, below = sympy.fraction(sympy.together(f))
        assert above.subs(X, int(where)) == below.subs(X, int(where)) == 0
        return fraction((sympy.diff(above, X) / sympy.diff(below, X)).subs(X, int(where)))
    value = f.subs(X, sympy.Integer(10) ** 60).evalf(90)
    return Fraction(str(sympy.N(value, 25))).limit_denominator(1_000)


def extremum(text: str, level: int) -> int:
    f = algebra(found(r"f\(x\) = (.*?)\. What", text))
    low, high = map(int, re.search(r"x from (-?\d+) to (-?\d+)", text).groups())
    inner = [r for r in sympy.roots(sympy.Poly(sympy.diff(f, X), X)) if r.is_real and low < r < high]
    values = [f.subs(X, x) for x in (low, high, *inner)]
    return int(max(values) - min(values) if "less" in text else max(values) if "largest" in text else min(values))


def series(text: str, level: int) -> Fraction:
    """Term by term; without an end, until the rest is small."""
    shown = found(r"sum of (.*) over", text)
    code = re.sub(r"(?<=[\dn)]) ?(?=[(n])", " * ", shown).replace("^2", " ** 2").replace("^n", " ** n")
    code = re.sub(r"(?<!\* )\b\d+", r"Fraction(\g<0>)", code).replace("** 2", "** 2")
    start, last = int(found(r"over n (?:=|from) (\d)", text)), int((re.findall(r"to (\d+)\?", text) or [0])[0])
    if level != 4:
        ratio = max(abs(Fraction(r)) for r in re.findall(r"\((-?\d+/\d+|-?\d+)\)\^n", text))
        last = int(60 / (1 - ratio)) + 30
    return sum((eval(code, {"Fraction": Fraction, "n": n}) for n in range(start, last + 1)), Fraction(0))


def taylor(text: str, level: int) -> int:
    if level <= 3:
        far, shown = re.search(r"coefficient of x\^(\d+) when (.*) is", text).groups()
        return int(sympy.Poly(sympy.expand(algebra(shown)), X).coeff_monomial(X ** int(far)))
    f, far = algebra(found(r"series of (.*) around", text)), int(found(r"What is c(\d+)", text))
    return int(sympy.series(f, X, 0, far + 1).removeO().coeff(X, far))


ORACLES: dict[type, Callable[[str, int], Any]] = {
    probability.DiceSums: dice,
    probability.UrnDraws: urn,
    probability.Bayes: bayes,
    probability.ExpectedValue: expected,
    probability.MarkovChains: chain,
    counting.Arrangements: arrangements,
    counting.Committees: committees,
    counting.LatticePaths: paths,
    counting.Distributions: distributions,
    counting.SetSizes: journals,
    counting.Tilings: tilings,
    calculus.Derivatives: derivative,
    calculus.Integrals: integral,
    calculus.FunctionLimits: limit,
    calculus.Extrema: extremum,
    calculus.Series: series,
    calculus.TaylorCoefficients: taylor,
}


@pytest.mark.slow
@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=6, deadline=None)
def test_the_answer_is_found_again_from_the_text_alone(task, level, seed):
    question = task().ask(random.Random(seed), level)
    again = ORACLES[task](question.text, level)
    if task is calculus.Series and level != 4:  # partial sums come as close as one likes
        assert abs(again - question.answer) < abs(question.answer) / 10**6 + Fraction(1, 10**6), question
    else:
        assert again == question.answer, question
