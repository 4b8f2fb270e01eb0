"""Linear algebra, exact.

Observation: matrices row by row, vectors or points, and what is asked of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from fractions import Fraction

from rlvr.envs.mathematics import matrix_workings, workings
from rlvr.envs.mathematics.common import NumberList, linear, lines, listed, nonzero, polynomial
from rlvr.envs.tasks.questions import CheckedAnswerTask, ExactAnswerTask, Question, explained, whole_numbers
from rlvr.envs.tasks.wording import times

Rows = Sequence[Sequence[int | Fraction]]
_ENTRY = re.compile(r"-?\d{1,12}(?:/\d{1,12})?", re.ASCII)
_ROW_END = re.compile(r"\n|;|\\\\")


def written(rows: Rows) -> str:
    return lines(" ".join(map(str, row)) for row in rows)


def some_matrix(rng: random.Random, height: int, width: int, largest: int) -> list[list[int]]:
    return [[rng.randint(-largest, largest) for _ in range(width)] for _ in range(height)]


def product(left: Rows, right: Rows) -> list[list[int]]:
    columns = list(zip(*right, strict=True))
    return [[int(sum(a * b for a, b in zip(row, column, strict=True))) for column in columns] for row in left]


def determinant(rows: Rows) -> int:
    """Of whole numbers, by Bareiss's elimination, whose divisions leave no remainder."""
    matrix = [[int(entry) for entry in row] for row in rows]
    sign, before = 1, 1
    for k in range(len(matrix) - 1):
        pivot = next((r for r in range(k, len(matrix)) if matrix[r][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            matrix[k], matrix[pivot], sign = matrix[pivot], matrix[k], -sign
        for r in range(k + 1, len(matrix)):
            for c in range(k + 1, len(matrix)):
                matrix[r][c] = (matrix[r][c] * matrix[k][k] - matrix[r][k] * matrix[k][c]) // before
        before = matrix[k][k]
    return sign * matrix[-1][-1]


def solved(rows: Rows, right: Rows) -> list[list[Fraction]]:
    """The X with ``rows`` X = ``right``, for an invertible matrix."""
    size = len(rows)
    matrix = [[Fraction(n) for n in [*row, *more]] for row, more in zip(rows, right, strict=True)]
    for k in range(size):
        pivot = next(r for r in range(k, size) if matrix[r][k])
        matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
        matrix[k] = [entry / matrix[k][k] for entry in matrix[k]]
        for r in range(size):
            factor = matrix[r][k]
            if r != k and factor:
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[k], strict=True)]
    return [row[size:] for row in matrix]


def mixed(rng: random.Random, size: int, steps: int) -> tuple[list[list[int]], list[list[int]]]:
    """A random matrix of determinant 1, and its inverse."""
    there = [[int(r == c) for c in range(size)] for r in range(size)]
    back = [list(row) for row in there]
    for _ in range(steps):
        a, b = rng.sample(range(size), 2)
        factor = rng.choice((-1, 1))
        there[a] = [x + factor * y for x, y in zip(there[a], there[b], strict=True)]
        for row in back:
            row[b] -= factor * row[a]
    return there, back


class Matrix(CheckedAnswerTask):
    """Questions whose answer is a tuple of rows of whole numbers or fractions."""

    def direct_answer(self, state: Question) -> str:
        """One row to a line, entries separated by blanks, in one box."""
        return f"\\boxed{{{written(state.answer)}}}"

    def check(self, question: Question, answer: str) -> str | None:
        """Compares entries by value; a division that is not carried out (6/1, 4/2) is wrong."""
        rows = [line.replace(",", " ").split() for line in _ROW_END.split(answer) if line.strip()]
        gold = question.answer
        if [len(row) for row in rows] != [len(gold[0])] * len(gold):
            raise ValueError(f"the answer is not {len(gold)} rows of {len(gold[0])} numbers")
        for number, (row, right) in enumerate(zip(rows, gold, strict=True), 1):
            if not all(_ENTRY.fullmatch(entry) and not re.search(r"/0+$", entry) for entry in row):
                raise ValueError(f"row {number} is not of whole numbers or fractions such as -3/4")
            values = [Fraction(entry) for entry in row]
            if values != list(right):
                return f"row {number} is wrong"
            if any("/" in entry and value.denominator == 1 for entry, value in zip(row, values, strict=True)):
                return f"row {number} holds a division that is not carried out"
        return None


def products_of_expansion(size: int) -> int:
    """How many products of two numbers the expansion of a determinant along its rows takes."""
    return 0 if size == 1 else size * (products_of_expansion(size - 1) + 1)


class Determinants(ExactAnswerTask):
    """Find a determinant.

    Levels 1 to 4: of 2, 3, 4 and 5 rows; 5: the entry of 5 rows that makes the determinant what is said.
    """

    explain = explained(matrix_workings.determinant, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Level 5 hides one entry with a cofactor that is not 0, so that its equation has one solution.

        Operations are the products of the expansion.
        """
        size = min(level + 1, 5)
        rows: list[list[int]] = some_matrix(rng, size, size, (12, 12, 7, 6, 6)[level - 1])
        value = determinant(rows)
        if level < 5:
            text = f"What is the determinant of this matrix?\n{written(rows)}"
            return Question(text, value, operations=products_of_expansion(size))
        r, c = rng.randrange(size), rng.randrange(size)
        minor = determinant([[*row[:c], *row[c + 1 :]] for k, row in enumerate(rows) if k != r])
        if not minor:
            return self.ask(rng, level)
        shown = [[("x" if (i, j) == (r, c) else str(n)) for j, n in enumerate(row)] for i, row in enumerate(rows)]
        text = f"For which x is the determinant of this matrix {value}?\n" + lines(" ".join(row) for row in shown)
        return Question(text, rows[r][c], operations=products_of_expansion(size) + 1)


class MatrixProducts(Matrix):
    """Multiply matrices.

    Level 1: of 2 x 2; 2: of 2 x 3 and 3 x 3; 3: a power; 4: of three; 5: a polynomial of a 3 x 3 matrix.
    """

    explain = explained(matrix_workings.matrix_products, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Levels 3 and 5 raise one matrix to a power from 3 to 6, or put it into a cubic with the identity."""
        if level in (1, 2, 4):
            height, inner, width = {1: (2, 2, 2), 2: (2, 3, 3), 4: (3, 3, 3)}[level]
            factors = [some_matrix(rng, height, inner, 12), some_matrix(rng, inner, width, 12)]
            if level == 4:
                factors.append(some_matrix(rng, width, 2, 6))
            result = factors[0]
            for factor in factors[1:]:
                result = product(result, factor)
            shown = "\n".join(f"{name} =\n{written(factor)}" for name, factor in zip("ABC", factors, strict=False))
            asked = "ABC"[: len(factors)]
        else:
            size, largest = (2, 9) if level == 3 else (3, 4)
            base = some_matrix(rng, size, size, largest)
            square = product(base, base)
            if level == 3:
                power = rng.randint(3, 6)
                result = square
                for _ in range(power - 2):
                    result = product(result, base)
                asked = f"A^{power}"
            else:
                a, b, c = (nonzero(rng, 6) for _ in range(3))
                cube = product(square, base)
                cells = [[(i, j) for j in range(size)] for i in range(size)]
                result = [[cube[i][j] + a * square[i][j] + b * base[i][j] + c * (i == j) for i, j in r] for r in cells]
                sign = "-" if c < 0 else "+"
                asked = f"{polynomial((1, a, b, 0), 'A')} {sign} {times(abs(c), 'I')}, where I is the identity matrix"
            shown = f"A =\n{written(base)}"
        text = f"{shown}\nWhat is {asked}? Answer with its rows, one per line, the numbers separated by blanks."
        return Question(text, tuple(map(tuple, result)))


class MatrixInverse(Matrix):
    """Invert a matrix.

    Level 1: 2 x 2; 2: 2 x 2, large; 3: 3 x 3 of determinant 1; 4: 3 x 3; 5: 4 x 4 of determinant 1 to 3.
    """

    explain = explained(matrix_workings.inverse, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Levels 3 and 5 shear the identity, so that the inverse has small entries; else any regular matrix."""
        size = (2, 2, 3, 3, 4)[level - 1]
        if level in (3, 5):
            rows, back = mixed(rng, size, 3 * size)
            scale = rng.choice((1, 2, 3)) if level == 5 else 1
            rows[0] = [scale * n for n in rows[0]]
            inverse = [[Fraction(n, scale if not c else 1) for c, n in enumerate(row)] for row in back]
        else:
            rows = some_matrix(rng, size, size, (12, 40, 0, 4)[level - 1])
            if not determinant(rows):
                return self.ask(rng, level)
            inverse = solved(rows, [[int(r == c) for c in range(size)] for r in range(size)])
        text = f"What is the inverse of this matrix?\n{written(rows)}\nAnswer with its rows, one per line, whole "
        text += "numbers and fractions such as -3/4 separated by blanks."
        return Question(text, tuple(map(tuple, inverse)))


class NullSpace(CheckedAnswerTask):
    """Find a vector that a matrix takes to 0.

    Levels 1 to 5: of 2 x 3, 3 x 4, 3 x 4, 4 x 5 and 5 x 6 numbers; every multiple of the vector is right too.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws the vector first; n equations of rank n in n + 1 unknowns leave its multiples as the only solutions."""
        height = (2, 3, 3, 4, 5)[level - 1]
        largest = (4, 3, 6, 4, 4)[level - 1]
        kernel = [rng.choice((-1, 1)) * rng.randint(1, largest) for _ in range(height)] + [1]
        rows = []
        for row in some_matrix(rng, height, height, 5):
            rows.append([*row, -sum(a * b for a, b in zip(row, kernel, strict=False))])
        # Exchanged columns hide which of the vector's entries is 1.
        order = rng.sample(range(height + 1), height + 1)
        rows, kernel = [[row[k] for k in order] for row in rows], [kernel[k] for k in order]
        if not determinant([row[:-1] for row in rows]):
            return self.ask(rng, level)
        text = f"A =\n{written(rows)}\nGive a column v of {height + 1} whole numbers of at most 6 digits, not all 0, "
        text += "for which A v is 0. Answer with its numbers from the top, separated by commas."
        return Question(text, tuple(map(tuple, rows)), answer_text=listed(kernel))

    def explain(self, state: Question) -> str:
        """The reduced rows, and the product of each row with the vector."""
        return workings.null_space(state.answer, whole_numbers(state.answer_text))

    def check(self, question: Question, answer: str) -> str | None:
        """Accepts any vector of whole numbers but 0 that the matrix takes to 0, of at most six digits each."""
        vector = whole_numbers(answer, len(question.answer[0]))
        if not any(vector) or max(map(abs, vector)) > 999_999:
            return "the numbers are all 0, or too large"
        for number, row in enumerate(question.answer, 1):
            if value := sum(a * b for a, b in zip(row, vector, strict=True)):
                return f"row {number} times the vector is {value}, not 0"
        return None


class Eigenvalues(NumberList):
    """Find a matrix's eigenvalues.

    Levels 1 and 2: two; 3 and 4: three; 5: four; all of them whole numbers, from level 2 on mixed more.
    """

    explain = explained(matrix_workings.eigenvalues, "text", "answer")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Hides a triangular matrix behind a change of basis of determinant 1; repeated eigenvalues may occur."""
        size, largest = (2, 2, 3, 3, 4)[level - 1], (20, 40, 5, 9, 6)[level - 1]
        while True:
            values = sorted(rng.randint(-largest, largest) for _ in range(size))
            there, back = mixed(rng, size, (3, 5, 4, 6, 7)[level - 1])
            above = [[rng.randint(-2, 2) if c > r else 0 for c in range(size)] for r in range(size)]
            for k, value in enumerate(rng.sample(values, size)):
                above[k][k] = value
            rows = product(product(there, above), back)
            if any(rows[r][c] for r in range(size) for c in range(r)) and max(abs(n) for r in rows for n in r) < 200:
                break
        text = f"The eigenvalues of this matrix are whole numbers. What are they?\n{written(rows)}\nAnswer with all "
        text += f"{size} of them from the smallest to the largest, each as often as its multiplicity says."
        return Question(text, tuple(values))


def dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def cross(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


class VectorGeometry(ExactAnswerTask):
    """Find angles, areas, volumes and distances from vectors.

    Level 1: a cosine, squared; 2: a parallelogram's area, squared; 3: a volume; 4: a distance; 5: an image.
    """

    explain = explained(matrix_workings.vector_geometry, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Squares where a root would stand; degenerate draws (flat, orthogonal, zero) are drawn again."""
        largest = 9 if level < 4 else 6
        a, b, c, d = (tuple(rng.randint(-largest, largest) for _ in range(3)) for _ in range(4))
        sides = [tuple(x - y for x, y in zip(p, a, strict=True)) for p in (b, c, d)]
        normal = cross(sides[0], sides[1])
        exact = "Answer exactly, with a fraction or whole number."
        if not any(normal) or not any(a) or not any(b) or not dot(normal, sides[2]) or not dot(a, b):
            return self.ask(rng, level)
        if level == 1:
            text = f"What is the square of the cosine of the angle between the vectors {a} and {b}? {exact}"
            return Question(text, Fraction(dot(a, b) ** 2, dot(a, a) * dot(b, b)))
        if level == 2:
            text = f"A triangle has the corners {a}, {b} and {c}. What is the square of its area? {exact}"
            return Question(text, Fraction(dot(normal, normal), 4))
        height = dot(normal, sides[2])
        if level == 3:
            text = f"A tetrahedron has the corners {a}, {b}, {c} and {d}. What is its volume? {exact}"
            return Question(text, Fraction(abs(height), 6))
        plane = f"the plane through {a}, {b} and {c}"
        if level == 4:
            text = f"What is the square of the distance of the point {d} from {plane}? {exact}"
            return Question(text, Fraction(height**2, dot(normal, normal)))
        weights = [rng.randint(1, 9) for _ in range(3)]
        image = [x - 2 * Fraction(height, dot(normal, normal)) * n for x, n in zip(d, normal, strict=True)]
        text = (
            f"The point {d} is mirrored in {plane}. Its image is (x, y, z). What is {linear(weights, 'xyz')}? {exact}"
        )
        value = sum((w * x for w, x in zip(weights, image, strict=True)), Fraction(0))
        return Question(text, value)


class LeastSquares(Matrix):
    """Fit a line or parabola by least squares.

    Levels 1 to 3: a line through 3, 4 and 6 points; 4 and 5: a parabola through 4 and 6 points.
    """

    explain = explained(matrix_workings.least_squares, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Solves the normal equations in fractions; the points have different x from -5 to 5."""
        degree, count = (1, 1, 1, 2, 2)[level - 1], (3, 4, 6, 4, 6)[level - 1]
        xs = sorted(rng.sample(range(-5, 6), count))
        points = [(x, rng.randint(-9, 9)) for x in xs]
        powers = range(degree, -1, -1)
        normal = [[sum(x ** (p + q) for x in xs) for q in powers] for p in powers]
        right = [[sum(y * x**p for x, y in points)] for p in powers]
        gold = tuple(row[0] for row in solved(normal, right))
        curve, names = ("line y = ax + b", "a and b") if degree == 1 else ("parabola y = ax^2 + bx + c", "a, b and c")
        text = f"Of all choices, {names} make the sum of the squared differences in y between the {curve} and the "
        text += f"points {listed(points)} as small as possible. Answer with {names} in one line, whole numbers or "
        text += "fractions such as -3/4 separated by blanks."
        return Question(text, (gold,))
