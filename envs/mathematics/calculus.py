"""Calculus of polynomials, quotients and series.

Observation: a function or a sum, and the value that is asked for.
"""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise
from math import comb

from rlvr.envs.mathematics.common import bracketed, lines, listed, nonzero, polynomial, signed, times, value_at
from rlvr.envs.tasks.questions import ExactAnswerTask, Question
from rlvr.envs.tasks.wording import times as times_of


def _coefficients(rng: random.Random, degree: int, largest: int) -> list[int]:
    return [nonzero(rng, largest)] + [rng.randint(-largest, largest) for _ in range(degree)]


def _derived(coefficients: list[int]) -> list[int]:
    degree = len(coefficients) - 1
    return [c * (degree - index) for index, c in enumerate(coefficients[:-1])] or [0]


def _integrated(coefficients: list[int]) -> list[Fraction]:
    degree = len(coefficients)
    return [*(Fraction(c, degree - index) for index, c in enumerate(coefficients)), Fraction(0)]


def _over(coefficients: list[int], low: Fraction | int, high: Fraction | int) -> Fraction:
    """The integral of a polynomial."""
    primitive = _integrated(coefficients)
    return Fraction(value_at(primitive, high) - value_at(primitive, low))


class Derivatives(ExactAnswerTask):
    """Find the value of a derivative.

    Level 1: a polynomial; 2: a power; 3: a product; 4: a quotient; 5: a product with a power, second derivative.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for f' (level 5: f'') at a whole point; where a quotient would divide by 0, its constant is raised."""
        x = rng.choice((-1, 1)) * rng.randint(2, 4) if level == 1 else nonzero(rng, 4)
        f, g = _coefficients(rng, 3 if level == 1 else 2, 9 if level < 3 else 12), _coefficients(rng, 2, 9)
        values = [int(value_at(p, x)) for p in (f, _derived(f), g, _derived(g))]
        fx, dfx, gx, dgx = values
        shown, steps = f"({polynomial(f)})({polynomial(g)})", []
        if level == 1:
            shown, answer = polynomial(f), Fraction(dfx)
            steps = [f"f'(x) = {polynomial(_derived(f))}"]
        elif level == 3:
            answer = Fraction(dfx * gx + fx * dgx)
            steps = [f"Product rule: {bracketed(dfx)} * {bracketed(gx)} + {bracketed(fx)} * {bracketed(dgx)}"]
        elif level == 2:
            power = rng.randint(2, 3)
            shown, answer = f"({polynomial(f)})^{power}", Fraction(power * fx ** (power - 1) * dfx)
            steps = [f"Chain rule: {power} * {bracketed(fx)}^{power - 1} * {bracketed(dfx)}"]
        elif level == 4:
            while not (gx := int(value_at(g, x))):
                g[-1] += 1
            shown, answer = f"({polynomial(f)}) / ({polynomial(g)})", Fraction(dfx * gx - fx * dgx, gx * gx)
            steps = [
                f"Quotient rule: ({dfx} * {bracketed(gx)} - {bracketed(fx)} * {bracketed(dgx)}) / {bracketed(gx)}^2"
            ]
        else:
            return self._second(rng, f, g, x)
        if level in (3, 4):
            steps.insert(0, f"At {x} the parts are {fx} and {gx}, their derivatives {dfx} and {dgx}.")
        elif level == 2:
            steps.insert(0, f"At {x} the inner function is {fx}, its derivative {dfx}.")
        steps.append(f"f'({x}) = {answer}")
        return Question(f"Let f(x) = {shown}. What is f'({x})? Answer exactly.", answer, lines(steps))

    @staticmethod
    def _second(rng: random.Random, f: list[int], g: list[int], x: int) -> Question:
        square = times(g, g)
        product = times(f, square)
        first, second = _derived(product), _derived(_derived(product))
        answer = value_at(second, x)
        steps = (
            f"({polynomial(g)})^2 = {polynomial(square)}",
            f"f(x) = {polynomial(product)}",
            f"f'(x) = {polynomial(first)}",
            f"f''(x) = {polynomial(second)}, and at {x} that is {answer}.",
        )
        text = f"Let f(x) = ({polynomial(f)})({polynomial(g)})^2. What is the second derivative f''({x})?"
        return Question(text, answer, lines(steps))


class Integrals(ExactAnswerTask):
    """Find a definite integral.

    Level 1: quadratics; 2: cubics; 3: an absolute value; 4: a product of powers; 5: the area between two graphs.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Bounds are whole, the value is a fraction; areas are cut at the zeros, which are drawn first."""
        if level in (3, 5):
            return self._area(rng, level)
        low = rng.randint(0, 2) if level == 1 else rng.randint(-6, 5)
        high = low + rng.randint(1, 3 if level == 1 else 6)
        if level == 4:
            factor, inner, power = _coefficients(rng, 1, 5), _coefficients(rng, 1, 4), rng.randint(3, 4)
            f, steps = factor, []
            for _ in range(power):
                f = times(f, inner)
            shown = f"({polynomial(factor)})({polynomial(inner)})^{power}"
            steps = [f"Expanded: {polynomial(f)}"]
        else:
            f = _coefficients(rng, 2 if level == 1 else 3, 9 if level == 1 else 20)
            shown, steps = polynomial(f), []
        answer = _over(f, low, high)
        primitive = _integrated(f)
        steps.append(f"A primitive is {polynomial(primitive)}.")
        steps.append(f"{value_at(primitive, high)} - {bracketed(value_at(primitive, low))} = {answer}")
        text = f"What is the integral of {shown} over x from {low} to {high}? Answer exactly."
        return Question(text, answer, lines(steps))

    @staticmethod
    def _area(rng: random.Random, level: int) -> Question:
        """A product of linear factors, cut at its zeros; at level 5 split into two functions."""
        roots = sorted(rng.sample(range(-9, 10), 2 if level == 3 else 3))
        f = [nonzero(rng, 12)]
        for root in roots:
            f = times(f, [1, -root])
        ends = [roots[0] - rng.randint(0, 3), roots[-1] + rng.randint(0, 3)] if level == 3 else [roots[0], roots[-1]]
        cuts = sorted({*roots, *ends})
        pieces = [_over(f, a, b) for a, b in pairwise(cuts)]
        answer = sum((abs(piece) for piece in pieces), Fraction(0))
        steps = [f"The zeros are {listed(roots)}."]
        steps += [f"From {a} to {b}: {piece}" for a, b, piece in zip(cuts, cuts[1:], pieces, strict=False)]
        steps.append(f"The sizes add up to {answer}.")
        if level == 3:
            text = f"What is the integral of |{polynomial(f)}| over x from {ends[0]} to {ends[1]}?"
        else:
            g = _coefficients(rng, 2, 9)
            other = [f[0], *(a + b for a, b in zip(f[1:], g, strict=True))]
            steps.insert(0, f"The difference is {polynomial(f)}.")
            text = f"What is the whole area between the graphs of {polynomial(other)} and {polynomial(g)}?"
        return Question(f"{text} Answer exactly.", answer, lines(steps))


class FunctionLimits(ExactAnswerTask):
    """Find a limit.

    Level 1: at infinity; 2: a common zero; 3: a double one; 4: of a root; 5: at infinity of a root's difference.
    """

    @property
    def name(self) -> str:
        """``Limits``: seeds and splits are keyed by it, whatever the class is called."""
        return "Limits"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Each limit is a fraction: of leads, of what a common factor leaves, or after a conjugate of roots."""
        if level == 1:
            degree = rng.randint(2, 4)
            f, g = _coefficients(rng, degree, 30), _coefficients(rng, degree, 30)
            answer = Fraction(f[0], g[0])
            text = f"of ({polynomial(f)}) / ({polynomial(g)}) as x grows without bound"
            highest = (polynomial([p[0], *[0] * degree]) for p in (f, g))
            steps = [f"The highest powers, {' and '.join(highest)}, decide: {f[0]} / {bracketed(g[0])} = {answer}"]
        elif level <= 3:
            a = nonzero(rng, 9)
            shared = [1, -a] if level == 2 else times([1, -a], [1, -a])
            while True:
                f, g = _coefficients(rng, 2, 9), _coefficients(rng, 1 + level % 2, 9)
                if value_at(f, a) and value_at(g, a):
                    break
            answer = Fraction(int(value_at(f, a)), int(value_at(g, a)))
            text = f"of ({polynomial(times(f, shared))}) / ({polynomial(times(g, shared))}) as x goes to {a}"
            steps = [f"Both have the factor {polynomial(shared)}: ({polynomial(f)}) / ({polynomial(g)}) is left."]
            steps.append(f"At {a} that is ({value_at(f, a)}) / ({value_at(g, a)}) = {answer}.")
        elif level == 4:
            root, a, slope = rng.randint(2, 15), nonzero(rng, 12), nonzero(rng, 12)
            inside, (p, q) = [slope, root * root - slope * a], (nonzero(rng, 9), nonzero(rng, 30))
            below = times([1, -a], [p, q if p * a + q else q + 1])
            other = p * a + (q if p * a + q else q + 1)
            answer = Fraction(slope, 2 * root * other)
            text = f"of (sqrt({polynomial(inside)}) - {root}) / ({polynomial(below)}) as x goes to {a}"
            steps = [
                f"Times sqrt({polynomial(inside)}) + {root} above and below, the top is "
                f"{polynomial([slope, -slope * a])}.",
                f"The bottom has the factor x - {bracketed(a)} too; the other is {other} at {a}.",
                f"{slope} / (2 * {root} * {bracketed(other)}) = {answer}",
            ]
        else:
            a, b, c, d, e = rng.randint(1, 12), nonzero(rng, 60), nonzero(rng, 60), nonzero(rng, 60), nonzero(rng, 60)
            answer = Fraction(b - d, 2 * a)
            first, second = polynomial([a * a, b, c]), polynomial([a * a, d, e])
            text = f"of sqrt({first}) - sqrt({second}) as x grows without bound"
            steps = [
                f"Times the sum of the roots above and below, the top is ({first}) - ({second}) = "
                f"{polynomial([b - d, c - e])}.",
                f"The bottom grows as {2 * a}x, since each root grows as {times_of(a, 'x')}.",
                f"({b} - {bracketed(d)}) / {2 * a} = {answer}",
            ]
        return Question(f"What is the limit {text}? Answer exactly.", answer, lines(steps))


class Extrema(ExactAnswerTask):
    """Find the extreme values of a polynomial on an interval.

    Levels 1 to 5: quadratics, cubics and quartics on an interval; the extreme value, or largest less smallest.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws the critical points as whole numbers and integrates, so that all values to compare are whole."""
        degree = (2, 3, 3, 4, 4)[level - 1]
        critical = sorted(rng.sample(range(-6, 7), degree - 1)) if level > 1 else [rng.randint(-40, 40)]
        slope = [nonzero(rng, 3) * (2 if level == 1 else 12)]
        for root in critical:
            slope = times(slope, [1, -root])
        f = [*(int(c) for c in _integrated(slope)[:-1]), rng.randint(-99, 99)]
        low = critical[0] - rng.randint(-2, 3)
        high = max(critical[-1] + rng.randint(-2, 3), low + 2)
        points = sorted({low, high, *(x for x in critical if low < x < high)})
        values = {x: int(value_at(f, x)) for x in points}
        largest, smallest = max(values.values()), min(values.values())
        kind = "difference" if level in (3, 5) else rng.choice(("largest", "smallest"))
        answer = {"largest": largest, "smallest": smallest, "difference": largest - smallest}[kind]
        what = "the largest value less the smallest value" if kind == "difference" else f"the {kind} value"
        steps = [f"f'(x) = {polynomial(slope)} is 0 at {listed(critical)}."]
        steps += [f"f({x}) = {value}" for x, value in values.items()]
        steps.append(f"So {what} is {answer}.")
        text = f"Let f(x) = {polynomial(f)}. What is {what} that f takes for x from {low} to {high}?"
        return Question(text, answer, lines(steps))


class Series(ExactAnswerTask):
    """Sum a series.

    Level 1: geometric; 2: two geometric; 3: n r^n; 4: telescoping; 5: n^2 r^n. All but 4 without end.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Ratios are below 1 in size; the working uses the closed forms, or what is left of a telescope."""
        if level == 4:
            return self._telescoping(rng)
        q = rng.randint(2, 9 if level == 1 else 40)
        p = nonzero(rng, q - 1)
        r, first = Fraction(p, q), nonzero(rng, 30 if level == 1 else 99)
        if level <= 2:
            answer, terms, steps = Fraction(0), list[str](), []
            for ratio, factor in ((r, first), (Fraction(nonzero(rng, 8), 9), nonzero(rng, 99)))[:level]:
                part = factor / (1 - ratio)
                terms.append(f"{bracketed(factor) if terms else factor} * ({ratio})^n")
                steps.append(f"{factor} / (1 - ({ratio})) = {part}")
                answer += part
            shown, start = " + ".join(terms), 0
        elif level == 3:
            shift = nonzero(rng, 20)
            answer, start = first * (r / (1 - r) ** 2 + shift / (1 - r)), 0
            shown = f"{first} * ({polynomial([1, shift], 'n')}) * ({r})^n"
            steps = [f"The sum of n r^n is r/(1 - r)^2 = {r / (1 - r) ** 2}, that of r^n is {1 / (1 - r)}."]
        else:
            shift = nonzero(rng, 20)
            square, plain = r * (1 + r) / (1 - r) ** 3, r / (1 - r) ** 2
            answer, start = first * (square + shift * plain), 1
            shown = f"{first} * ({polynomial([1, shift, 0], 'n')}) * ({r})^n"
            steps = [
                f"The ratio r is {r}. Differentiating the geometric series twice gives the sums of n r^n and n^2 r^n:"
            ]
            steps.append(f"r/(1 - r)^2 is {plain} and r(1 + r)/(1 - r)^3 is {square}.")
            steps.append(f"{first} * ({square} + {bracketed(shift)} * {bracketed(plain)}) = {answer}")
        steps += [f"Altogether {answer}."] if level > 1 else []
        text = (
            f"What is the sum of {shown} over n = {start}, {start + 1}, {start + 2}, ... without end? Answer exactly."
        )
        return Question(text, answer, lines(steps))

    @staticmethod
    def _telescoping(rng: random.Random) -> Question:
        a, b, step, last = rng.randint(1, 9), rng.randint(1, 20), rng.randint(1, 3), rng.randint(10, 200)
        factor = rng.randint(1, 30)
        heads = [Fraction(1, a * n + b) for n in range(step)]
        tails = [Fraction(1, a * (last + n) + b) for n in range(1, step + 1)]
        answer = Fraction(factor, a * step) * (sum(heads) - sum(tails))
        gap = a * step
        low, high = polynomial([a, b], "n"), polynomial([a, b + gap], "n")
        steps = (
            f"Each term is {Fraction(factor, gap)} * (1/({low}) - 1/({high})).",
            f"What is left: {' + '.join(map(str, heads))} - {' - '.join(map(str, tails))}.",
            f"The sum is {answer}.",
        )
        text = f"What is the sum of {factor} / (({low})({high})) over n from 0 to {last}? Answer exactly."
        return Question(text, answer, lines(steps))


class TaylorCoefficients(ExactAnswerTask):
    """Find a coefficient of an expansion.

    Level 1: of a binomial power; 2 and 3: of its product with a polynomial; 4 and 5: of a quotient's power series.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A quotient's coefficients follow from the recurrence that its denominator gives."""
        if level <= 3:
            return self._binomial(rng, level)
        below = [nonzero(rng, 4) for _ in range(level - 1)]  # 1 + b1 x + b2 x^2 + ...
        above = [nonzero(rng, 9) for _ in range(3)]
        far = rng.randint(*((8, 9) if level == 4 else (9, 10)))
        series, steps = list[int](), list[str]()
        for n in range(far + 1):
            parts = [above[n]] if n < 3 else []
            parts += [-b * series[n - k] for k, b in enumerate(below, 1) if k <= n]
            series.append(sum(parts))
            steps.append(f"c{n} = {signed(parts)}{f' = {series[-1]}' if len(parts) > 1 else ''}")
        top, bottom = polynomial(above[::-1]), polynomial([*below[::-1], 1])
        text = f"The power series of ({top}) / ({bottom}) around x = 0 begins c0 + c1 x + c2 x^2 + ... What is c{far}?"
        return Question(text, series[far], lines(steps))

    @staticmethod
    def _binomial(rng: random.Random, level: int) -> Question:
        a, b, power = nonzero(rng, 6), nonzero(rng, 6), rng.randint(5, 8)
        c, d, e = 0 if level == 1 else nonzero(rng, 9), 1 if level == 1 else nonzero(rng, 9), 0
        far = rng.randint(2, power - 1)
        terms = {k: comb(power, k) * a**k * b ** (power - k) for k in (far, far - 1, far - 2)}
        if level == 1:
            answer, shown = terms[far], f"({polynomial([a, b])})^{power}"
        elif level == 2:
            answer, shown = d * terms[far] + c * terms[far - 1], f"({polynomial([c, d])})({polynomial([a, b])})^{power}"
        else:
            e = nonzero(rng, 9)
            answer = d * terms[far] + c * terms[far - 1] + e * terms[far - 2]
            shown = f"({polynomial([e, c, d])})({polynomial([a, b])})^{power}"
        steps = [
            f"{polynomial([1, *[0] * k])} in the power: "
            + " * ".join([f"C({power}, {k})", *(f"{bracketed(f)}^{n}" for f, n in ((a, k), (b, power - k)) if f != 1)])
            + f" = {value}"
            for k, value in list(terms.items())[:level]
        ]
        outer = [d, c, e]
        added = " + ".join(f"{bracketed(f)} * {bracketed(n)}" for f, n in zip(outer, terms.values(), strict=True) if f)
        if level > 1:
            steps.append(f"With {polynomial(outer[::-1])} before it: {added} = {answer}")
        text = f"What is the coefficient of x^{far} when {shown} is expanded?"
        return Question(text, answer, lines(steps))
