"""The tasks of linear algebra, each answered a second time from its text alone, with sympy."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import linear_algebra as la

from .reading import found, ints


def matrices(text: str) -> list[sympy.Matrix]:
    """Every block of lines of numbers."""
    blocks = re.findall(r"(?:^(?:-?\w+ )+-?\w+$\n?)+", text, re.MULTILINE)
    return [sympy.Matrix([[sympy.sympify(n) for n in line.split()] for line in b.strip().split("\n")]) for b in blocks]


def rows(matrix: sympy.Matrix) -> tuple[tuple[Fraction, ...], ...]:
    return tuple(tuple(Fraction(int(n.p), int(n.q)) for n in matrix.row(k)) for k in range(matrix.rows))


def vectors(text: str) -> list[sympy.Matrix]:
    return [sympy.Matrix(ints(v)) for v in re.findall(r"\((-?\d+, -?\d+, -?\d+)\)", text)]


def determinant(text: str, level: int, answer: Any) -> Any:
    (matrix,) = matrices(text)
    if level < 5:
        return matrix.det()
    (solution,) = sympy.solve(matrix.det() - int(found(r"matrix (-?\d+)\?", text)), sympy.Symbol("x"))
    return solution


def products(text: str, level: int, answer: Any) -> Any:
    a, *others = matrices(text)
    if level in (1, 2, 4):
        for other in others:
            a = a * other
        return rows(a)
    if level == 3:
        return rows(a ** int(found(r"A\^(\d+)", text)))
    asked = found(r"What is (.*), where I", text).replace("I", "*I_").replace("*I_", "*E")
    powers = {"A^3": "*P3", "A^2": "*P2"}
    for name, power in powers.items():
        asked = asked.replace(name, power)
    asked = re.sub(r"(?<!P)A", "*P1", asked)
    asked = re.sub(r"(^|[ -])\*", r"\g<1>1*", asked)
    names = {"P1": a, "P2": a**2, "P3": a**3, "E": sympy.eye(a.rows)}
    return rows(eval(asked, names))


def inverse(text: str, level: int, answer: Any) -> Any:
    (matrix,) = matrices(text)
    return rows(matrix.inv())


def eigenvalues(text: str, level: int, answer: Any) -> Any:
    (matrix,) = matrices(text)
    return tuple(sorted(value for value, times in sympy.roots(matrix.charpoly()).items() for _ in range(times)))


def vector_geometry(text: str, level: int, answer: Any) -> Any:
    a, b, *more = vectors(text)
    if level == 1:
        return a.dot(b) ** 2 / sympy.Rational(a.dot(a) * b.dot(b))
    corners = [sympy.Point3D(*v) for v in (a, b, *more)]
    if level == 2:
        return area(a, b, *more)
    if level == 3:
        edges = sympy.Matrix.hstack(b - a, more[0] - a, more[1] - a)
        return abs(edges.det()) / 6
    if level == 4:
        point, plane = sympy.Point3D(*vectors(text)[0]), sympy.Plane(*(sympy.Point3D(*v) for v in vectors(text)[1:]))
        return plane.distance(point) ** 2
    point, plane = corners[0], sympy.Plane(*corners[1:])
    foot = plane.projection(point)
    image = [2 * f - p for f, p in zip(foot, point, strict=True)]
    asked = re.sub(r"(\d)([xyz])", r"\1*\2", found(r"What is (.*?)\?", text))
    return sympy.sympify(asked).subs(dict(zip(sympy.symbols("x y z"), image, strict=True)))


def area(a: sympy.Matrix, b: sympy.Matrix, c: sympy.Matrix) -> sympy.Rational:
    """Squared, by Heron's formula on the squared sides."""
    p, q, r = ((u - v).dot(u - v) for u, v in ((a, b), (b, c), (c, a)))
    return sympy.Rational(2 * (p * q + q * r + r * p) - p * p - q * q - r * r, 16)


def least_squares(text: str, level: int, answer: Any) -> Any:
    points = [(int(x), int(y)) for x, y in re.findall(r"\((-?\d+), (-?\d+)\)", text)]
    names = sympy.symbols("a b c")[: 2 if level <= 3 else 3]
    powers = range(len(names) - 1, -1, -1)
    error = sum((sum(n * x**p for n, p in zip(names, powers, strict=True)) - y) ** 2 for x, y in points)
    solution = sympy.solve([sympy.diff(error, name) for name in names], names)
    return rows(sympy.Matrix([[solution[name] for name in names]]))


ORACLES: dict[type, Callable[[str, int, Any], Any]] = {
    la.Determinants: determinant,
    la.MatrixProducts: products,
    la.MatrixInverse: inverse,
    la.Eigenvalues: eigenvalues,
    la.VectorGeometry: vector_geometry,
    la.LeastSquares: least_squares,
}


@pytest.mark.slow
@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=6, deadline=None)
def test_the_answer_is_found_again_from_the_text(task, level, seed):
    question = task().ask(random.Random(seed), level)
    assert ORACLES[task](question.text, level, question.answer) == question.answer, question


@given(st.integers(0, 2**64), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_any_vector_of_the_null_space_is_right_and_no_other(seed, level):
    task, rng = la.NullSpace(), random.Random(seed)
    question = task.ask(rng, level)
    (matrix,) = matrices(question.text)
    vector = sympy.Matrix([int(n) for n in question.answer_text.split(",")])
    assert matrix.rank() == matrix.rows
    assert all(n == 0 for n in matrix * vector)
    other = vector + sympy.Matrix([rng.randint(-1, 1) for _ in vector])
    for tried in (vector, -3 * vector, other, 0 * vector):
        right = all(n == 0 for n in matrix * tried) and any(n != 0 for n in tried)
        assert (task.check(question, str(list(tried))) is None) == right
    assert task.check(question, str(list(10**6 * vector))) is not None


@given(st.integers(0, 2**64), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_a_matrix_may_be_written_in_several_ways_but_every_entry_counts(seed, level):
    rng = random.Random(seed)
    for task in (la.MatrixProducts(), la.MatrixInverse(), la.LeastSquares()):
        question = task.ask(rng, level)
        gold = la.written(question.answer)
        for said in (gold, gold.replace("\n", "; "), gold.replace("\n", "\\\\").replace(" ", ", ")):
            assert task.check(question, said) is None
        table = [list(row) for row in question.answer]
        r, c = rng.randrange(len(table)), rng.randrange(len(table[0]))
        table[r][c] += rng.choice((-1, 1, Fraction(1, 7)))
        assert task.check(question, la.written(table)) == f"row {r + 1} is wrong"
        for unreadable in (gold + " 1", gold.replace("\n", " ") + "\n\n1", "x" + gold, "1/0 " * len(table[0])):
            with pytest.raises(ValueError, match="row"):
                task.check(question, unreadable)


def test_a_determinant_is_exact_where_pivots_vanish():
    for seed in range(200):
        rng = random.Random(seed)
        size = rng.randint(1, 5)
        table = [[rng.choice((0, 0, 1, -2, 10**9)) for _ in range(size)] for _ in range(size)]
        assert la.determinant(table) == sympy.Matrix(table).det()
