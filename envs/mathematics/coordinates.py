"""Coordinates and solids.

Observation: points, lines or solids in words, and the numbers that are asked for.
"""

from __future__ import annotations

import random
from fractions import Fraction

from rlvr.envs.mathematics import matrix_workings
from rlvr.envs.mathematics.common import NumberList, bracketed, linear, lines, nonzero, polynomial
from rlvr.envs.tasks.questions import ExactAnswerTask, Question
from rlvr.envs.tasks.wording import in_a_row

Move = tuple[str, int, int]


class Transformations(NumberList):
    """Follow a point through mirrorings, rotations and dilations.

    Level n: n + 1 moves; from level 2 on rotations and dilations about other points than the origin.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Each move is a shift, quarter turns, a stretch or a mirroring; coordinates stay whole."""
        x, y = nonzero(rng, 30), nonzero(rng, 30)
        start, facts, steps = (x, y), [], []
        for _ in range(level + 1):
            move, x, y = self._move(rng, level, x, y)
            facts.append(move)
            steps.append(f"{move}: ({x}, {y})")
        text = f"The point {start} is moved step by step: {'; then '.join(facts)}. Where is it in the end? Answer with "
        return Question(f"{text}its two coordinates x, y.", (x, y), lines(steps))

    @staticmethod
    def _move(rng: random.Random, level: int, x: int, y: int) -> Move:
        a, b = (nonzero(rng, 12), nonzero(rng, 12)) if level >= 2 else (0, 0)
        kind = rng.randrange(6)
        if kind == 0:
            dx, dy = nonzero(rng, 30), nonzero(rng, 30)
            return f"shifted by ({dx}, {dy})", x + dx, y + dy
        if kind == 1:
            turns = rng.randint(1, 3)
            u, v = x - a, y - b
            for _ in range(turns):
                u, v = -v, u
            return f"turned by {90 * turns} degrees anticlockwise about ({a}, {b})", a + u, b + v
        if kind == 2:
            factor = rng.choice((-3, -2, 2, 3))
            return f"stretched from ({a}, {b}) by the factor {factor}", a + factor * (x - a), b + factor * (y - b)
        if kind == 3:
            return f"mirrored in the line x = {a}", 2 * a - x, y
        if kind == 4:
            return f"mirrored in the line y = {polynomial([1, a])}", y - a, x + a
        return f"mirrored in the line y = {b}", x, 2 * b - y


class SolidMeasures(ExactAnswerTask):
    """Measure a solid that is built of simple ones.

    Level 1: a box less a box; 2: a pyramid on a box; 3: a frustum; 4: one box on another; 5: a box with tunnels.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Volumes, but the surface at level 4 and for half of level 5; tunnels share a cube that counts once."""
        a, b, c = (rng.randint(*((3, 15) if level == 1 else (10, 60))) for _ in range(3))
        e, f, g = (rng.randint(2, edge - 1) for edge in (a, b, c))
        box = f"a box of {a} by {b} by {c}"
        what, rule = "volume", ""
        answer: int | Fraction
        if level == 1:
            text, answer = f"From {box} a box of {e} by {f} by {g} is cut out", a * b * c - e * f * g
            steps = [f"{a} * {b} * {c} - {e} * {f} * {g} = {answer}"]
        elif level == 4:
            text = f"On the {a} by {b} top of {box} stands, wholly on it, a box with a {e} by {f} bottom and height {g}"
            outer, walls = 2 * (a * b + b * c + c * a), 2 * (e + f) * g
            what, answer = "surface (bottom included)", outer + walls
            steps = [f"The lower box has {outer}; the upper one adds its walls, 2 * ({e} + {f}) * {g} = {walls}."]
        elif level == 2:
            text = f"On the {a} by {b} top of {box} stands a pyramid of height {g} over the whole top"
            answer = a * b * c + Fraction(a * b * g, 3)
            steps = [f"{a} * {b} * {c} + {a} * {b} * {g} / 3 = {answer}"]
        elif level == 3:
            text = f"A pyramid with a square base of side {a} is cut parallel to it; the top is a square of side "
            text += f"{e} at height {c}; below it stands a box with the same base and height {b}"
            answer = Fraction(c * (a * a + a * e + e * e), 3) + a * a * b
            steps = [f"{c} * ({a}^2 + {a} * {e} + {e}^2) / 3 + {a}^2 * {b} = {answer}"]
        else:
            t = rng.randint(1, 9)
            text = f"Through the middle of {box} run three tunnels, one between each two opposite faces, each a "
            text += f"square of side {t} across, parallel to the edges"
            if rng.random() < 0.5:
                answer = a * b * c - t * t * (a + b + c) + 2 * t**3
                away = t * t * (a + b + c) - 2 * t**3
                steps = [f"The box has {a} * {b} * {c} = {a * b * c}."]
                steps.append(f"The tunnels share a cube of {t}^3 = {t**3}, counted three times: taken away are")
                steps.append(f"{t}^2 * ({a} + {b} + {c}) - 2 * {t**3} = {away}; {a * b * c} - {away} = {answer}.")
            else:
                outer, walls = 2 * (a * b + b * c + c * a) - 6 * t * t, 4 * t * (a + b + c - 3 * t)
                what, rule, answer = "surface", ", the walls of the tunnels included", outer + walls
                steps = [f"Outside 2 * ({a} * {b} + {b} * {c} + {c} * {a}) - 6 * {t}^2 = {outer} is left."]
                steps.append(f"The walls are 4 * {t} * ({a} + {b} + {c} - 3 * {t}) = {walls}.")
                steps.append(f"{outer} + {walls} = {answer}")
        steps.append(f"The {what} is {answer}.")
        return Question(f"{text}. What is the {what} of the solid{rule}? Answer exactly.", answer, lines(steps))


Triple = tuple[int, int, int]


class Lines(ExactAnswerTask):
    """Find where lines meet and how far apart they are.

    Level 1: a distance; 2: of parallels; 3: where two lines meet; 4: a triangle of lines; 5: skew lines in space.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Distances are asked for squared, so that every answer is a whole number or a fraction."""
        return (self._point, self._parallels, self._meeting, self._triangle, self._skew)[level - 1](rng)

    def explain(self, state: Question) -> str:
        """Where lines meet by Cramer's rule; distances and areas by their formulae."""
        return state.working or matrix_workings.meeting(state.text)

    @staticmethod
    def _line(rng: random.Random, largest: int = 15) -> Triple:
        """(a, b, c) of a x + b y = c."""
        return nonzero(rng, largest), nonzero(rng, largest), rng.randint(-6 * largest, 6 * largest)

    def _meeting(self, rng: random.Random) -> Question:
        while True:
            (a, b, c), (d, e, f) = self._line(rng), self._line(rng)
            if determinant := a * e - b * d:
                break
        x = Fraction(c * e - b * f, determinant)
        text = f"Two lines have the equations {linear([a, b], 'xy')} = {c} and {linear([d, e], 'xy')} = {f}."
        return Question(f"{text} What is the x-coordinate of their common point? Answer exactly.", x)

    def _point(self, rng: random.Random) -> Question:
        a, b, c = self._line(rng, 6)
        x, y = rng.randint(-12, 12), rng.randint(-12, 12)
        answer = Fraction((a * x + b * y - c) ** 2, a * a + b * b)
        inside = f"{a} * {bracketed(x)} + {bracketed(b)} * {bracketed(y)} - {bracketed(c)}"
        steps = [f"({inside})^2 / ({a * a} + {b * b}) = {answer}"]
        text = f"What is the square of the distance of the point ({x}, {y}) from the line {linear([a, b], 'xy')} = {c}?"
        return Question(f"{text} Answer exactly.", answer, lines(steps))

    def _parallels(self, rng: random.Random) -> Question:
        a, b, c = self._line(rng)
        k, d = rng.choice((-4, -3, -2, 2, 3, 4)), rng.randint(-300, 300)
        answer = (c - Fraction(d, k)) ** 2 / (a * a + b * b)
        steps = [
            f"Divided by {k}, the second is {linear([a, b], 'xy')} = {Fraction(d, k)}.",
            f"({c} - ({Fraction(d, k)}))^2 / ({a * a} + {b * b}) = {answer}",
        ]
        text = f"What is the square of the distance between the lines {linear([a, b], 'xy')} = {c} and "
        return Question(f"{text}{linear([k * a, k * b], 'xy')} = {d}? Answer exactly.", answer, lines(steps))

    def _triangle(self, rng: random.Random) -> Question:
        while True:
            rows = [self._line(rng) for _ in range(3)]
            minors = [
                p[0] * q[1] - p[1] * q[0] for p, q in ((rows[1], rows[2]), (rows[2], rows[0]), (rows[0], rows[1]))
            ]
            whole = sum(row[2] * minor for row, minor in zip(rows, minors, strict=True))
            if all(minors) and whole:
                break
        answer = Fraction(whole**2, 2 * abs(minors[0] * minors[1] * minors[2]))
        steps = [
            f"The 2 by 2 determinants of the directions are {in_a_row(minors)}, that of the whole system is {whole}.",
            f"{bracketed(whole)}^2 / (2 * |{' * '.join(map(bracketed, minors))}|) = {answer}",
        ]
        shown = in_a_row(f"{linear(row[:2], 'xy')} = {row[2]}" for row in rows)
        text = (
            f"Three lines have the equations {shown}. What is the area of the triangle that they bound? Answer exactly."
        )
        return Question(text, answer, lines(steps))

    @staticmethod
    def _skew(rng: random.Random) -> Question:
        def draw(largest: int) -> Triple:
            return rng.randint(-largest, largest), rng.randint(-largest, largest), nonzero(rng, largest)

        while True:
            p, q, u, v = draw(15), draw(15), draw(9), draw(9)
            normal = (u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0])
            along = sum((b - a) * n for a, b, n in zip(p, q, normal, strict=True))
            if any(normal) and along:
                break
        square, apart = sum(n * n for n in normal), tuple(b - a for a, b in zip(p, q, strict=True))
        answer = Fraction(along**2, square)
        steps = (
            f"The cross product of the directions is {normal}: "
            + "; ".join(
                f"{bracketed(u[i])} * {bracketed(v[j])} - {bracketed(u[j])} * {bracketed(v[i])} = {normal[k]}"
                for i, j, k in ((1, 2, 0), (2, 0, 1), (0, 1, 2))
            ),
            f"Its squared length is {square}. The difference {apart} of the points times it is {along}.",
            f"{bracketed(along)}^2 / {square} = {answer}",
        )
        text = f"In space one line goes through {p} in the direction {u}, another through {q} in the direction {v}. "
        return Question(text + "What is the square of their shortest distance? Answer exactly.", answer, lines(steps))
