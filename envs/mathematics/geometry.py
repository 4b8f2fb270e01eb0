"""Plane geometry.

Observation: a figure in words or by its corners, and the measure that is asked for.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from math import gcd
from struct import unpack

from rlvr.envs.mathematics import function_workings
from rlvr.envs.mathematics.common import SIMPLEST, bracketed, lines, polynomial
from rlvr.envs.mathematics.function_workings import angle_sum, put_in_angle
from rlvr.envs.tasks.draws import below
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained

Point = tuple[int, int]


def _polygon(rng: random.Random, corners: int, size: int) -> list[Point]:
    """A simple polygon: two chains from the leftmost to the rightmost corner, one above the other."""
    xs = sorted(rng.sample(range(-size, size + 1), corners))
    kind = [True, *(rng.random() < 0.5 for _ in range(corners - 3))]
    rng.shuffle(kind)  # which inner corners lie above; at least one does
    above = [(x, rng.randint(1, size)) for x, up in zip(xs[1:-1], kind, strict=True) if up]
    below = [(x, -rng.randint(1, size)) for x, up in zip(xs[1:-1], kind, strict=True) if not up]
    points = [(xs[0], 0), *below, (xs[-1], 0), *reversed(above)]
    dx, dy = rng.randint(-size, size), rng.randint(-size, size)
    return [(x + dx, y + dy) for x, y in points]


def _twice_area(points: list[Point]) -> int:
    return sum(a * d - c * b for (a, b), (c, d) in zip(points, points[1:] + points[:1], strict=True))


def _shown(points: list[Point]) -> str:
    return ", ".join(f"({x}, {y})" for x, y in points)


class PolygonArea(ExactAnswerTask):
    """Find a polygon's area from its corners.

    Levels 1 to 5: from triangles to polygons of eight corners.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """A simple polygon around one axis, so that its sides never cross; the working is the shoelace formula."""
        points = _polygon(rng, (3, 4, 5, 6, 8)[level - 1], 20 + 10 * level)
        steps = [
            f"{bracketed(a)} * {bracketed(d)} - {bracketed(c)} * {bracketed(b)} = {a * d - c * b}"
            for (a, b), (c, d) in zip(points, points[1:] + points[:1], strict=True)
        ]
        twice = _twice_area(points)
        steps.append(f"The sum is {twice}, twice the area.")
        text = f"What is the area of the polygon with the corners {_shown(points)}, joined in this order?"
        return Question(text, Fraction(twice, 2), lines(steps))


class LatticePoints(ExactAnswerTask):
    """Count the lattice points inside a polygon.

    Levels 1 to 5: from triangles to polygons of eight corners; points on the sides do not count.
    """

    explain = explained(function_workings.lattice_points, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Area by the shoelace formula, points on the sides by greatest common divisors, the rest by Pick."""
        points = _polygon(rng, (3, 4, 5, 6, 8)[level - 1], 10 + 10 * level)
        edge = [gcd(c - a, d - b) for (a, b), (c, d) in zip(points, points[1:] + points[:1], strict=True)]
        twice = _twice_area(points)
        inside = (twice - sum(edge)) // 2 + 1
        text = "How many points with whole coordinates lie strictly inside the polygon with the corners "
        return Question(f"{text}{_shown(points)}, joined in this order?", inside)


class RightTriangles(ExactAnswerTask):
    """Find a length by Pythagoras.

    Level 1: a side; 2: a diagonal in space; 3: an altitude; 4: a chain of triangles; 5: a longer one.
    """

    kind = "math"

    def ask(self, rng: random.Random, level: int) -> Question:
        """The answer is a root with the square part taken out, compared by value and in simplest form."""
        return (self._side, self._diagonal, self._altitude, self._chain, self._chain)[level - 1](rng, level)

    @staticmethod
    def _side(rng: random.Random, level: int) -> Question:
        a, b = rng.randint(2, 900), rng.randint(2, 900)
        if rng.random() < 0.5:
            root, steps = _root(a * a + b * b), f"c^2 = {a}^2 + {b}^2 = {a * a + b * b}"
            text = f"The legs of a right triangle are {a} and {b}. How long is its hypotenuse?"
        else:
            a, b = min(a, b), max(a, b) + (a == b)
            root, steps = _root(b * b - a * a), f"c^2 = {b}^2 - {a}^2 = {b * b - a * a}"
            text = f"A right triangle has a leg of {a} and a hypotenuse of {b}. How long is the other leg?"
        return _exact(text, root, [steps, f"c = {root}"])

    @staticmethod
    def _altitude(rng: random.Random, level: int) -> Question:
        p, q = rng.randint(2, 900), rng.randint(2, 900)
        text = f"The altitude on the hypotenuse of a right triangle cuts it into pieces of {p} and {q}. How long is "
        if rng.random() < 0.5:
            steps = [f"By similar triangles h^2 = {p} * {q} = {p * q}", f"h = {_root(p * q)}"]
            return _exact(f"{text}the altitude?", _root(p * q), steps)
        steps = [f"By similar triangles a^2 = {p} * ({p} + {q}) = {p * (p + q)}", f"a = {_root(p * (p + q))}"]
        return _exact(f"{text}the leg beside the piece of {p}?", _root(p * (p + q)), steps)

    @staticmethod
    def _diagonal(rng: random.Random, level: int) -> Question:
        a, b, c = (rng.randint(2, 90) for _ in range(3))
        s = a * a + b * b + c * c
        text = f"A box has the edges {a}, {b} and {c}. A fly walks straight through the air from one corner to the one "
        steps = [f"{a}^2 + {b}^2 + {c}^2 = {s}", f"The root of {s} is {_root(s)}."]
        return _exact(text + "farthest away. How long is its way?", _root(s), steps)

    @staticmethod
    def _chain(rng: random.Random, level: int) -> Question:
        """A spiral: each hypotenuse is a leg of the next right triangle, whose other leg is given."""
        legs = [rng.randint(2, 40) for _ in range(2 * level - 4)]
        square, steps = legs[0] ** 2, []
        for index, leg in enumerate(legs[1:], 1):
            down = level == 5 and index % 2 == 0 and leg * leg < square  # here the old hypotenuse is the new one too
            new = square - leg * leg if down else square + leg * leg
            steps.append(f"Triangle {index}: {NAMES[index]}^2 = {square} {'-' if down else '+'} {leg}^2 = {new}")
            legs[index], square = (-leg if down else leg), new
        facts = "".join(
            f" Triangle {n} has {'the hypotenuse' if leg < 0 else 'a leg'} {NAMES[n - 1]} and a leg of {abs(leg)}; its "
            f"third side is {NAMES[n]}."
            for n, leg in enumerate(legs[1:], 1)
        )
        root = _root(square)
        text = f"All these triangles are right-angled, and a is {legs[0]}.{facts} How long is {NAMES[len(legs) - 1]}?"
        return _exact(text, root, [*steps, f"The root of {square} is {root}."])


NAMES = "abcdef"  # of the lengths in a row of triangles


def _root(number: int) -> str:
    """The square root, as a whole number or ``a\\sqrt{b}`` with b free of squares."""
    outside, rest, factor = 1, number, 2
    while factor * factor <= rest:
        while rest % (factor * factor) == 0:
            outside, rest = outside * factor, rest // factor**2
        factor += 1
    if rest == 1:
        return str(outside)
    return f"{'' if outside == 1 else outside}\\sqrt{{{rest}}}"


def _exact(text: str, answer: str, steps: list[str]) -> Question:
    return Question(f"{text} {SIMPLEST}", answer, lines(steps))


_TERM = re.compile(r"\(([0-9]*)x(?: ([+-]) ([0-9]+))?\)")


class Angles(ExactAnswerTask):
    """Find an angle of a figure.

    Level 1: a triangle; 2: a central angle; 3: a quadrilateral in a circle; 4: a polygon; 5: meeting bisectors.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Every angle is a linear term in one unknown x, which a theorem on their sum gives first."""
        if level == 2:
            return self._central(rng)
        if level == 4:
            return self._polygon(rng)
        x, a, b, f, g, h = unpack("<6H", rng.randbytes(12))
        x = 5 + (x * 56 >> 16)
        a = 10 + (a * 101 >> 16)
        low, high = max(10, 70 - a), min(110, 170 - a)  # so that the third angle is from 10 to 110 as well
        b = low + (b * (high - low + 1) >> 16)
        c = a if level == 3 else a + b  # opposite angles in a circle, or all three, add up to 180
        facts = f"these angles, in degrees: ({_term(1 + (f * 9 >> 16), a, x)}) at A, "
        facts += f"({_term(1 + (g * 9 >> 16), b, x)}) at B, ({_term(1 + (h * 9 >> 16), 180 - c, x)}) at C"
        if level == 1:
            return self._angle(f"A triangle ABC has {facts}.", "angle at A", a)
        if level == 3:
            text = f"The corners of a quadrilateral ABCD lie on a circle. It has {facts}."
            return self._angle(text, "angle at D", 180 - b)
        text = f"A triangle ABC has {facts}. The bisectors of the angles at B and C meet in I."
        return self._angle(text, "angle BIC", 90 + Fraction(a, 2))

    def _polygon(self, rng: random.Random) -> Question:
        x, corners, asked = below(rng, 1 << 16, 3)
        x, corners = 5 + (x * 56 >> 16), 5 + (corners >> 14)
        angles = _summands(rng, corners, 180 * (corners - 2))
        names, asked = "ABCDEFGH"[:corners], asked * corners >> 16
        text = f"A convex polygon {names} has {_facts(rng, names, angles, x)}."
        return self._angle(text, f"angle at {names[asked]}", angles[asked])

    def _central(self, rng: random.Random) -> Question:
        code, x = divmod(rng.randrange(56 * 76 * 9 * 9), 56)
        code, a = divmod(code, 76)
        outer, inner = divmod(code, 9)
        x, a = x + 5, a + 10
        text = (
            f"A triangle ABC with acute angles has its corners on a circle around O. The angle at A is "
            f"({_term(inner + 4, a, x)}) degrees, the angle BOC is ({_term(outer + 25, 2 * a, x)}) degrees."
        )
        return self._angle(text, "angle OBC", 90 - a)

    @staticmethod
    def _angle(text: str, asked: str, answer: int | Fraction) -> Question:
        return Question(f"{text} How many degrees is the {asked}?", answer)

    def explain(self, state: Question) -> str:
        """First x, from what the angles add up to, then the angle."""
        text = state.text
        terms = [(int(f or 1), int(f"{sign}{rest}" if rest else 0)) for f, sign, rest in _TERM.findall(text)]
        asked = text.rpartition(" is the ")[2].rstrip("?")
        total, used = 180 * max(1, len(terms) - 2), terms
        if "quadrilateral" in text:
            total, used = 180, terms[::2]  # opposite ones
        elif "around O" in text:
            (f, r), (g, s) = terms
            total, used = 0, [(2 * f - g, 2 * r - s)]
        x = (total - sum(r for _, r in used)) // sum(f for f, _ in used)
        last = f"The {asked} is {state.answer} degrees."
        tie = angle_sum(used, total) if "around O" not in text else ""
        if "polygon" in text:
            corners = len(terms)
            index = "ABCDEFGH".index(asked[-1])
            why = f"The angles add up to 180 * {corners - 2} = {total} degrees:\n{tie}."
            return f"{why}\nThe {asked}: {put_in_angle(terms, index, x)} degrees."
        if "quadrilateral" in text:
            opposite = (
                f"The angle at B is {put_in_angle(terms, 1, x)}, and 180 - {180 - int(state.answer)} = {state.answer}."
            )
            return f"Opposite angles add up to 180, those at A and C:\n{tie}.\n{opposite}\n{last}"
        if "around O" in text:
            inner, outer = (polynomial(term) for term in terms)
            why = f"BOC is twice the angle at A: {outer} = 2 ({inner}), so x = {x} "
            why += f"and BOC is {put_in_angle(terms, 1, x)}."
            return f"{why}\nOBC is isosceles: (180 - {terms[1][0] * x + terms[1][1]}) / 2 = {state.answer}\n{last}"
        why = f"The angles add up to 180:\n{tie}."
        if "bisectors" not in text:
            return f"{why}\nThe angle at A: {put_in_angle(terms, 0, x)} degrees."
        b, c = (f * x + r for f, r in terms[1:])
        both = f"The angles at B and C are {put_in_angle(terms, 1, x)} and {put_in_angle(terms, 2, x)} degrees."
        return f"{why}\n{both}\nBIC = 180 - (B + C)/2: 180 - ({b} + {c})/2 = {state.answer}\n{last}"


def _summands(rng: random.Random, count: int, total: int) -> list[int]:
    """Angles of a convex polygon."""
    mean = total // count
    low, high = max(10, mean - 50), min(176, mean + 50)
    span, least = high - low + 1, total - low * (count - 1)
    while True:
        angles = below(rng, span, count - 1)
        if low <= (last := least - sum(angles)) <= high:
            return [*(low + angle for angle in angles), last]


def _term(factor: int, angle: int, x: int) -> str:
    """``3x - 20``, so that it is the angle."""
    rest = angle - factor * x
    head = "x" if factor == 1 else f"{factor}x"
    return f"{head} - {-rest}" if rest < 0 else f"{head} + {rest}" if rest else head


def _facts(rng: random.Random, names: str, angles: list[int], x: int) -> str:
    """All angles as terms in x, with factors from 1 to 9."""
    factors, shown = below(rng, 9, len(angles)), []
    for factor, angle, name in zip(factors, angles, names, strict=True):
        shown.append(f"({_term(factor + 1, angle, x)}) at {name}")
    return f"these angles, in degrees: {', '.join(shown)}"


class CircleAreas(ExactAnswerTask):
    """Find an area that circles bound.

    Level 1: a ring; 2: a sector; 3: a ring's sector; 4: around an isosceles triangle; 5: crossing chords.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for the factor of pi, a whole number or a fraction, never for a decimal."""
        radius, angle = rng.randint(4, 99) if level == 1 else rng.randint(20, 900), rng.randint(1, 359)
        inner = rng.randint(2, radius - 1)
        k: int | Fraction
        if level == 1:
            text, k = (
                f"two circles of the radii {radius} and {inner} around one centre bound a ring",
                radius**2 - inner**2,
            )
            steps = [f"{radius}^2 - {inner}^2 = {k}"]
        elif level == 2:
            text, k = (
                f"a sector of {angle} degrees is cut from a disc of radius {radius}",
                Fraction(angle * radius**2, 360),
            )
            steps = [f"{angle}/360 * {radius}^2 = {k}"]
        elif level == 3:
            text = f"the part within an angle of {angle} degrees is cut from a ring of the radii {radius} and {inner}"
            k = Fraction(angle * (radius**2 - inner**2), 360)
            steps = [f"{angle}/360 * ({radius}^2 - {inner}^2) = {k}"]
        elif level == 4:
            half, height = rng.randint(5, 400), rng.randint(5, 400)
            size = Fraction(half**2 + height**2, 2 * height)
            text = f"a circle goes through the corners of an isosceles triangle of base {2 * half} and height {height}"
            k = size**2
            steps = [f"r^2 = {half}^2 + ({height} - r)^2, so r = {size}", f"r^2 = {k}"]
        else:
            p, q, r, s = (rng.randint(1, 30) for _ in range(4))
            a, b, c, d = p * q, r * s, p * r, q * s  # chords that cross: a b = c d
            text = f"two chords of a circle cross at a right angle; one has the pieces {a} and {b}, a piece of the "
            text += f"other is {c} long"
            k = Fraction(a * a + b * b + c * c + d * d, 4)
            steps = [
                f"The last piece is {a} * {b} / {c} = {d}.",
                f"The middles of the chords give r^2 = (({a} + {b})/2)^2 + (({c} - {d})/2)^2 = {k}.",
            ]
        what = "the circle" if level >= 4 else "this figure"
        question = f"In the plane {text}. The area of {what} is k times pi. What is k? Answer exactly."
        return Question(question, k, lines(steps))
