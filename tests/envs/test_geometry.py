"""The tasks of geometry, each answered a second time from its text alone, in another way."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import coordinates, geometry

from .reading import ints, points


def line(text: str) -> tuple[int, int, int]:
    """(a, b, c) of ``ax + by = c``."""
    a, sign, b, c = re.fullmatch(r"(-?\d*)x ([+-]) (\d*)y = (-?\d+)", text.strip()).groups()
    return int({"": "1", "-": "-1"}.get(a, a)), int(sign + (b or "1")), int(c)


def squared(answer: Any) -> Fraction:
    """The square of ``a\\sqrt{b}`` or of a number."""
    match = re.fullmatch(r"(\d*)\\sqrt\{(\d+)\}", str(answer))
    return Fraction(int(match[1] or 1) ** 2 * int(match[2])) if match else Fraction(answer) ** 2


# plane geometry


def area(text: str, level: int, answer: Any) -> Any:
    """By trapezia under the sides; the sides must not cross."""
    corners = points(text)
    sides = list(zip(corners, corners[1:] + corners[:1], strict=True))
    for i, (a, b) in enumerate(sides):
        for c, d in sides[i + 2 : len(sides) - (i == 0)]:
            turns = [
                np.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))
                for p, q, r in ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
            ]
            assert turns[0] == turns[1] or turns[2] == turns[3], "two sides cross"
    return abs(sum(Fraction((c - a) * (b + d), 2) for (a, b), (c, d) in sides))


def inside(text: str, level: int, answer: Any) -> Any:
    """Every lattice point is asked: winding by a ray, and not on a side."""
    corners = points(text)
    x, y = np.meshgrid(*(np.arange(min(v), max(v) + 1) for v in zip(*corners, strict=True)))
    within, on = np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True):
        cross = (c - a) * (y - b) - (d - b) * (x - a)
        on |= (cross == 0) & (x >= min(a, c)) & (x <= max(a, c)) & (y >= min(b, d)) & (y <= max(b, d))
        within ^= ((b > y) != (d > y)) & ((cross > 0) == (d > b))
    return int((within & ~on).sum())


def length(text: str, level: int, answer: Any) -> Any:
    numbers = ints(text)
    if level == 1:
        a, b = numbers
        square = a * a + b * b if "legs of" in text else b * b - a * a
    elif level == 3:  # corners (-p, 0), (q, 0), (0, h): a right angle at the top means h^2 = p q
        p, q = numbers[:2]
        square = p * q if "the altitude?" in text else p * p + p * q
    elif level == 2:
        square = int(np.dot(numbers, numbers))
    else:
        square = int(re.search(r"and a is (\d+)", text)[1]) ** 2
        for how, leg in re.findall(r"has (a leg|the hypotenuse) \w and a leg of (\d+)", text):
            square += int(leg) ** 2 * (1 if how == "a leg" else -1)
    assert squared(answer) == square
    assert all(
        exponent == 1 for exponent in sympy.factorint(int((re.findall(r"sqrt\{(\d+)", answer) or [1])[0])).values()
    )
    return answer


def angle(text: str, level: int, answer: Any) -> Any:
    x = sympy.Symbol("x")
    shown = [sympy.sympify(re.sub(r"(\d)x", r"\1*x", e)) for e in re.findall(r"\((-?\d*x(?: [+-] \d+)?)\)", text)]
    if level in (1, 4, 5):
        solved = sympy.solve(sum(shown) - 180 * (len(shown) - 2), x)[0]
    elif level == 3:
        solved = sympy.solve(shown[0] + shown[2] - 180, x)[0]
    else:
        solved = sympy.solve(2 * shown[0] - shown[1], x)[0]
    values = [e.subs(x, solved) for e in shown]
    assert all(0 < value < 180 for value in values)
    if level == 4:
        result = values["ABCDEFGH".index(re.search(r"angle at (\w)\?", text)[1])]
    else:
        result = (
            values[0]
            if level == 1
            else 180 - values[1]
            if level == 3
            else (180 - values[1]) / 2
            if level == 2
            else 180 - (values[1] + values[2]) / 2
        )
    return Fraction(int(result.p), int(result.q))


def circle(text: str, level: int, answer: Any) -> Any:
    numbers = ints(text)
    if level <= 3:
        part = Fraction(re.search(r"(\d+) degrees", text)[1]) / 360 if level > 1 else 1
        radii = [int(n) for n in re.findall(r"radius (\d+)|radii (\d+) and (\d+)", text)[0] if n]
        return part * (max(radii) ** 2 - (min(radii) ** 2 if len(radii) == 2 else 0))
    if level == 4:
        base, height = numbers
        corners = [(Fraction(0), Fraction(0)), (Fraction(base), Fraction(0)), (Fraction(base, 2), Fraction(height))]
    else:
        a, b, c = numbers
        corners = [(Fraction(-a), Fraction(0)), (Fraction(b), Fraction(0)), (Fraction(0), Fraction(c))]
    u, v = sympy.symbols("u v")
    squares = [
        (u - sympy.Rational(p.numerator, p.denominator)) ** 2 + (v - sympy.Rational(q.numerator, q.denominator)) ** 2
        for p, q in corners
    ]
    centre = sympy.solve([sympy.expand(squares[0] - square) for square in squares[1:]], [u, v])
    result = squares[0].subs(centre)
    return Fraction(int(result.p), int(result.q))


# coordinates


def moved(text: str, level: int, answer: Any) -> Any:
    """On complex numbers."""
    z = complex(*points(text)[0])
    for move in re.search(r"step by step: (.*)\. Where", text)[1].split("; then "):
        around = complex(*points(move)[0]) if points(move) else 0
        numbers = ints(move)
        if move.startswith("shifted"):
            z += around
        elif move.startswith("turned"):
            z = around + (z - around) * 1j ** (numbers[0] // 90)
        elif move.startswith("stretched"):
            z = around + (z - around) * numbers[-1]
        elif "line x" in move:
            z = 2 * numbers[0] - z.conjugate()
        elif "y = x" in move:
            shift = int(move.partition("y = x")[2].replace(" ", "") or 0)
            z = 1j * (z - 1j * shift).conjugate() + 1j * shift
        else:
            z = z.conjugate() + 2j * numbers[0]
    return (round(z.real), round(z.imag))


def solid(text: str, level: int, answer: Any) -> Any:
    numbers = ints(text)
    if level in (2, 3):  # by Simpson's rule, which is exact for areas that grow as a square
        if level == 2:
            a, b, _, _, c, height = numbers
            cut = [Fraction(a * b), Fraction(a * b, 4), Fraction(0)]
            return a * b * c + height * (cut[0] + 4 * cut[1] + cut[2]) / 6
        a, e, height, b = numbers
        return a * a * b + Fraction(height, 6) * (a * a + (a + e) ** 2 + e * e)
    if level == 1:
        a, b, c, e, f, g = numbers
        return int(voxels(a, b, c).sum() - voxels(e, f, g).sum())
    if level == 4:
        _, _, a, b, c, e, f, g = numbers
        block = np.zeros((a, b, c + g), bool)
        block[:, :, :c] = True
        block[:e, :f, c:] = True
        return faces(block)
    a, b, c, t = numbers  # in half units, so that the tunnels run through the middle
    block = voxels(2 * a, 2 * b, 2 * c)
    middle = [slice(n - t, n + t) for n in (a, b, c)]
    for axis in range(3):
        tunnel = list(middle)
        tunnel[axis] = slice(None)
        block[tuple(tunnel)] = False
    return Fraction(int(block.sum()), 8) if "volume" in text else Fraction(faces(block), 4)


def voxels(*shape: int) -> np.ndarray:
    return np.ones(shape, bool)


def faces(block: np.ndarray) -> int:
    padded = np.pad(block, 1)
    return int(sum((padded != np.roll(padded, 1, axis)).sum() for axis in range(3)))


def lines(text: str, level: int, answer: Any) -> Any:
    if level == 5:
        return skew(text)
    found = [
        sympy.Line(*(on(line(shown), k) for k in (0, 1))) for shown in re.findall(r"-?\d*x [+-] \d*y = -?\d+", text)
    ]
    if level == 3:
        result = found[0].intersection(found[1])[0].x
    elif level == 1:
        result = found[0].distance(sympy.Point(*points(text)[0])) ** 2
    elif level == 2:
        assert found[0].is_parallel(found[1])
        result = found[0].distance(found[1].p1) ** 2
    else:
        corners = [found[i].intersection(found[j])[0] for i, j in ((0, 1), (1, 2), (2, 0))]
        result = abs(sympy.Triangle(*corners).area)
    return Fraction(int(result.p), int(result.q))


def on(equation: tuple[int, int, int], k: int) -> sympy.Point:
    a, b, c = equation
    return sympy.Point(k, sympy.Rational(c - a * k, b))


def skew(text: str) -> Fraction:
    """The least value of the squared distance over both parameters, by its normal equations."""
    p, u, q, v = (np.array(ints(shown)) for shown in re.findall(r"\((-?\d+, -?\d+, -?\d+)\)", text))
    w = p - q
    s, t = sympy.Matrix([[u @ u, -(u @ v)], [u @ v, -(v @ v)]]).LUsolve(sympy.Matrix([-(w @ u), -(w @ v)]))
    gap = [int(w[k]) + s * int(u[k]) - t * int(v[k]) for k in range(3)]
    result = sum(part**2 for part in gap)
    return Fraction(int(result.p), int(result.q))


ORACLES: dict[type, Callable[[str, int, Any], Any]] = {
    geometry.PolygonArea: area,
    geometry.LatticePoints: inside,
    geometry.RightTriangles: length,
    geometry.Angles: angle,
    geometry.CircleAreas: circle,
    coordinates.Transformations: moved,
    coordinates.SolidMeasures: solid,
    coordinates.Lines: lines,
}


@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=8, deadline=None)
def test_the_answer_is_found_again_from_the_text(task, level, seed):
    question = task().ask(random.Random(seed), level)
    assert question.answer == ORACLES[task](question.text, level, question.answer), question


def test_a_length_is_in_simplest_form_and_not_rounded():
    task = geometry.RightTriangles()
    question = task.ask(random.Random(0), 1)._replace(answer="5\\sqrt{2}")
    answers = ("5\\sqrt{2}", "5 sqrt(2)", "\\sqrt{50}", "sqrt(5^2+5^2)", "7.07", "5\\sqrt{3}")
    assert [task.judge(question, f"\\boxed{{{answer}}}").reward for answer in answers] == [1, 1, 0, 0, 0, 0]
