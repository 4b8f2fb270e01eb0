"""Equations and inequalities.

Observation: one or more equations or inequalities, and what is asked of their solutions.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import pairwise
from math import gcd, isqrt

from rlvr.envs.mathematics import function_workings
from rlvr.envs.mathematics.common import (
    SIMPLEST,
    NumberList,
    bracketed,
    linear,
    lines,
    listed,
    nonzero,
    polynomial,
    times,
)
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained
from rlvr.envs.tasks.wording import counted, in_a_row
from rlvr.envs.tasks.wording import times as times_of


class LinearEquations(ExactAnswerTask):
    """Solve a linear equation.

    Level 1: ax + b = cx + d; 2 to 4: one to three brackets on each side; from 3 on with denominators.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws both sides until neither the slopes nor the constants agree: one solution, and it is not 0."""
        while True:
            left, right = (self._side(rng, level) for _ in range(2))
            slope, rest = left[1] - right[1], right[2] - left[2]
            if slope and rest:
                break
        steps = (
            f"Collected, the left side is {polynomial(left[1:])} and the right side {polynomial(right[1:])}.",
            f"So {polynomial([slope, 0])} = {rest}, and x = {rest / slope}.",
        )
        text = f"Solve for x: {left[0]} = {right[0]}. Answer with x, a whole number or a fraction."
        return Question(text, rest / slope, lines(steps))

    @staticmethod
    def _side(rng: random.Random, level: int) -> tuple[str, Fraction, Fraction]:
        """A side's text, its coefficient of x, and its constant."""
        a, b = nonzero(rng, 30), nonzero(rng, 99)
        text, slope, rest = polynomial([a, b]), Fraction(a), Fraction(b)
        for _ in range(level - 1):
            factor, below = nonzero(rng, 12), rng.randint(2, 9) if level >= 3 else 1
            c, d = nonzero(rng, 12), nonzero(rng, 30)
            sign, size = "-" if factor < 0 else "+", abs(factor)
            text += f" {sign} {times_of(size, f'({polynomial([c, d])})')}" + (f"/{below}" if below > 1 else "")
            slope, rest = slope + Fraction(factor * c, below), rest + Fraction(factor * d, below)
        return text, slope, rest


class LinearSystems(NumberList):
    """Solve a system of linear equations.

    Level 1: two unknowns; 2 and 3: three; 4 and 5: four, with larger coefficients.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws a regular matrix, then a solution from -12 to 12."""
        count, largest = (2, 3, 3, 4, 4)[level - 1], (9, 5, 12, 6, 15)[level - 1]
        names = "xyzw"[:count]
        while True:
            rows = [[rng.randint(-largest, largest) for _ in range(count)] for _ in range(count)]
            if all(any(row) for row in rows) and eliminated(rows)[0]:
                break
        values = [rng.randint(-12, 12) for _ in range(count)]
        equations = [f"{linear(row, names)} = {sum(a * v for a, v in zip(row, values, strict=True))}" for row in rows]
        text = f"Solve {'; '.join(equations)}. Answer with the whole numbers {listed(names)} in this order."
        return Question(text, tuple(values))

    def explain(self, state: Question) -> str:
        """Gaussian elimination, each new equation with how it comes about, and the unknowns from the last one up."""
        names = "xyzw"[: len(state.answer)]
        rows = []
        for equation in state.text.removeprefix("Solve ").partition(". Answer")[0].split("; "):
            left, _, right = equation.partition(" = ")
            coefficients = {
                name: int(f"{sign}{size or 1}") for sign, size, name in _TERM.findall(left.replace(" ", ""))
            }
            rows.append([*(coefficients.get(name, 0) for name in names), int(right)])
        reduced, steps = eliminated(rows, names)
        shown = [f"{name}: {linear(row[:-1], names)} = {row[-1]}" for name, row in zip(EQUATIONS, rows, strict=False)]
        for name, value, row in zip(names[::-1], state.answer[::-1], reversed(reduced or ()), strict=True):
            equation, solved = f"{linear(row[:-1], names)} = {row[-1]}", f"{name} = {value}"
            steps.append(equation if equation == solved else f"{equation}, so {solved}")
        return lines([*shown, *steps])


_TERM = re.compile("([+-]?)([0-9]*)([xyzw])")
EQUATIONS = "ABCDEFGHIJ"  # the names of the equations given, and of those that follow: six for four unknowns


def eliminated(rows: list[list[int]], names: str = "") -> tuple[list[list[int]] | None, list[str]]:
    """An upper triangle with the same solutions, None when the rows depend on one another; with names, the steps.

    Columns behind as many as there are rows are right sides, which no pivot is looked for in.
    """
    rows, labels, steps = [list(row) for row in rows], list(EQUATIONS), list[str]()
    for index in range(len(rows)):
        pivot = next((r for r in range(index, len(rows)) if rows[r][index]), None)
        if pivot is None:
            return None, []
        rows[index], rows[pivot] = rows[pivot], rows[index]
        labels[index], labels[pivot] = labels[pivot], labels[index]
        top = rows[index]
        for r in range(index + 1, len(rows)):
            if not (factor := rows[r][index]):
                continue
            new = [top[index] * value - factor * other for value, other in zip(rows[r], top, strict=True)]
            common = gcd(*new) or 1
            rows[r] = [value // common for value in new]
            if names:
                how = linear((top[index], -factor), labels[r] + labels[index])
                how += f", divided by {common}" if common > 1 else ""
                labels[r] = EQUATIONS[len(rows) + len(steps)]
                steps.append(f"{labels[r]} is {how}: {linear(rows[r][:-1], names)} = {rows[r][-1]}")
    return rows, steps


class QuadraticEquations(ExactAnswerTask):
    """Solve a quadratic equation exactly.

    Levels 1 and 2: whole roots, then rational ones; 3 to 5: surds, with larger coefficients.
    """

    kind = "math"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Multiplies two factors out (levels 1, 2), or draws until the discriminant is positive and no square."""
        if level <= 2:
            p, q = (1, 1) if level == 1 else (rng.randint(2, 9), rng.randint(2, 9))
            a, b, c = times([p, rng.randint(-40, 40)], [q, rng.randint(-40, 40)])
            scale = rng.randint(1, 9) * rng.choice((1, -1))
            a, b, c = a * scale, b * scale, c * scale
        else:
            while True:
                a = rng.randint(1, (1, 9, 40)[level - 3])
                b, c = nonzero(rng, 60 * level), nonzero(rng, 60 * level)
                if b * b - 4 * a * c > 0 and isqrt(b * b - 4 * a * c) ** 2 != b * b - 4 * a * c:
                    break
        inside = b * b - 4 * a * c
        outside, rest = _square_part(inside)
        root = _surd(-b if a > 0 else b, outside, rest, 2 * abs(a))
        square = f"{outside}^2" + (f" * {rest}" if rest > 1 else "")
        surd = str(outside) if rest == 1 else times_of(outside, f"sqrt({rest})", " ")
        steps = (
            f"The discriminant is {bracketed(b)}^2 - 4 * {bracketed(a)} * {bracketed(c)} = {inside}"
            f"{f' = {square}' if inside > 1 and outside > 1 else ''}.",
            f"The larger root is ({-b if a > 0 else b} + {surd}) / {2 * abs(a)} = {root}.",
        )
        text = f"What is the larger root of {polynomial([a, b, c])} = 0 (the root itself if it is double)?"
        return Question(f"{text} {SIMPLEST}", root, lines(steps))


def _square_part(number: int) -> tuple[int, int]:
    """(s, r) with number = s² r and r free of squares, for numbers up to some ten thousand."""
    outside, rest, factor = 1, number, 2
    while factor * factor <= rest:
        while rest and rest % (factor * factor) == 0:
            outside, rest = outside * factor, rest // factor**2
        factor += 1
    return (outside, rest) if number else (0, 1)


def _surd(whole: int, outside: int, rest: int, below: int) -> str:
    """``(whole + outside sqrt(rest)) / below`` in lowest terms."""
    if rest == 1:
        return str(Fraction(whole + outside, below))
    common = gcd(whole, outside, below)
    whole, outside, below = whole // common, outside // common, below // common
    top = f"{'' if outside == 1 else outside}\\sqrt{{{rest}}}"
    top = f"{whole} + {top}" if whole else top
    return f"\\frac{{{top}}}{{{below}}}" if below > 1 else top


class ExponentialEquations(ExactAnswerTask):
    """Solve equations with powers and logarithms.

    Level 1: a logarithm; 2: two powers of one base; 3 and 4: products of such powers; 5: a sum of logarithms.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Levels 2 to 4 compare exponents of one base; level 5 has a second root, where a logarithm is not real."""
        return self._logarithms(rng, level) if level in (1, 5) else self._powers(rng, level - 1)

    @staticmethod
    def _powers(rng: random.Random, count: int) -> Question:
        base = rng.choice((2, 3, 5, 7))
        highest = {2: 10, 3: 6, 5: 4, 7: 3}[base]
        sides: list[tuple[str, Fraction, Fraction]] = []
        while True:
            sides.clear()
            for _ in range(2):
                texts, slope, rest = [], Fraction(0), Fraction(0)
                for _ in range(count):
                    power, m, n = rng.randint(1, highest), nonzero(rng, 12), nonzero(rng, 30)
                    texts.append(f"{base**power}^({polynomial([m, n])})")
                    slope, rest = slope + power * m, rest + power * n
                sides.append((" * ".join(texts), slope, rest))
            if sides[0][1] != sides[1][1] and sides[0][0].partition("^")[0] != sides[1][0].partition("^")[0]:
                break
        (left, a, b), (right, c, d) = sides
        answer = (d - b) / (a - c)
        steps = (
            f"All are powers of {base}: {base}^({polynomial([a, b])}) = {base}^({polynomial([c, d])}).",
            f"So {polynomial([a, b])} = {polynomial([c, d])}, and x = {answer}.",
        )
        text = f"Solve for x: {left} = {right}. Answer with a whole number or a fraction."
        return Question(text, answer, lines(steps))

    @staticmethod
    def _logarithms(rng: random.Random, count: int) -> Question:
        if count == 1:
            base, power, a, b = rng.randint(2, 6), rng.randint(2, 4), nonzero(rng, 9), nonzero(rng, 60)
            x = Fraction(base**power - b, a)
            step = f"{polynomial([a, b])} = {base}^{power} = {base**power}, so x = {x}."
            text = f"Solve for x: log_{base}({polynomial([a, b])}) = {power}."
            return Question(f"{text} Answer with a whole number or a fraction.", x, step)
        # log(x + p) + log(x + q) = log n, with one root that makes both logarithms real and one that does not
        root, p, q = rng.randint(2, 400), nonzero(rng, 400), nonzero(rng, 400)
        p, q = max(p, 1 - root), max(q, 1 - root)
        product, base = (root + p) * (root + q), rng.randint(2, 12)
        other = -p - q - root
        steps = (
            f"Together: ({polynomial([1, p])})({polynomial([1, q])}) = {product}.",
            f"{polynomial([1, p + q, p * q - product])} = 0 has the roots {root} and {other}.",
            f"At {other} a logarithm would be of a negative number, so x = {root}.",
        )
        text = f"Solve for x: log_{base}({polynomial([1, p])}) + log_{base}({polynomial([1, q])}) = "
        return Question(f"{text}log_{base}({product}). Logarithms are real.", root, lines(steps))


class CountSolutions(ExactAnswerTask):
    """Count the whole numbers that satisfy an inequality.

    Level 1: an absolute value; 2 to 4: polynomials of degree 2 to 4; 5: a quotient; all but 1 in a window.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Counts between two bounds at level 1, then by signs between whole roots, which ``<=`` and ``>=`` add."""
        return self._distance(rng) if level == 1 else self._signs(rng, level)

    @staticmethod
    def _distance(rng: random.Random) -> Question:
        a, b, c = rng.randint(2, 30), nonzero(rng, 200), rng.randint(50, 2_000)
        low, high = -((c + b) // a), (c - b) // a
        steps = (
            f"{-c} <= {polynomial([a, b])} <= {c}, so {-c - b}/{a} <= x <= {c - b}/{a}.",
            f"The whole numbers from {low} to {high} are {high - low + 1}.",
        )
        text = f"How many whole numbers x, negative ones too, satisfy |{polynomial([a, b])}| <= {c}?"
        return Question(text, high - low + 1, lines(steps))

    @staticmethod
    def _signs(rng: random.Random, level: int) -> Question:
        roots = sorted(rng.sample(range(-40, 41), (2, 3, 4, 4)[level - 2]))
        lead, relation, window = nonzero(rng, 5), rng.choice(("<", "<=", ">", ">=")), rng.randint(45, 120)
        below = [roots[rng.randrange(4)]] if level == 5 else []
        above = [lead]
        for root in roots:
            above = above if root in below else times(above, [1, -root])
        shown = f"({polynomial(above)}) / ({polynomial([1, -below[0]])})" if below else polynomial(above)
        ends, wanted = [-window - 1, *roots, window + 1], -1 if "<" in relation else 1
        sign, count, steps = (
            (1 if lead > 0 else -1) * (-1) ** len(roots),
            0,
            [f"{shown} changes its sign at {in_a_row(roots)}."],
        )
        for first, last in pairwise(ends):
            inside = (last - first - 1) * (sign == wanted)
            side = "negative" if sign < 0 else "positive"
            steps.append(f"Between {first} and {last} it is {side}: {counted(inside, 'number')}.")
            count, sign = count + inside, -sign
        if "=" in relation:
            zeros = [root for root in roots if root not in below]
            steps.append(f"It is 0 at {in_a_row(zeros)}: {len(zeros)} more.")
            count += len(zeros)
        text = f"How many whole numbers x from {-window} to {window} satisfy {shown} {relation} 0?"
        return Question(text, count, lines([*steps, f"Altogether {count}."]))


class Vieta(ExactAnswerTask):
    """Find power sums of a polynomial's roots.

    Levels 1 to 5: sums of second to fifth powers of the roots of polynomials of degree 2 to 4.
    """

    SHAPES = ((2, 2), (3, 2), (3, 3), (4, 4), (4, 5))  # degree, highest power
    explain = explained(function_workings.vieta, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for the sum of the roots' powers; the expert needs no root but Newton's identities."""
        degree, highest = self.SHAPES[level - 1]
        largest = (60, 30, 20, 9, 9)[level - 1]
        coefficients = [rng.randint(1, 9)] + [nonzero(rng, largest) for _ in range(degree)]
        lead = coefficients[0]
        # e_k, the elementary symmetric functions, and Newton's identities for the sums of powers
        e = [Fraction((-1) ** k * c, lead) for k, c in enumerate(coefficients)]
        sums: list[Fraction] = [Fraction(degree)]
        for k in range(1, highest + 1):
            total = sum(((-1) ** (i - 1) * e[i] * sums[k - i] for i in range(1, min(k - 1, degree) + 1)), Fraction(0))
            if k <= degree:
                total += (-1) ** (k - 1) * k * e[k]
            sums.append(total)
        text = f"The {degree} complex roots of {polynomial(coefficients)} = 0, counted with multiplicity, are raised "
        text += f"to the power {highest} and added. What is the sum? Answer with a whole number or a fraction."
        return Question(text, sums[highest], content=f"{polynomial(coefficients)} ^ {highest}")
