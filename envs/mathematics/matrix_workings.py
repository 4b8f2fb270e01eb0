"""The working of experts on matrices, vectors and lines, from the text of a question alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from rlvr.envs.mathematics.common import bracketed, linear, polynomial

Number = int | Fraction
Matrix = Sequence[Sequence[Number]]


def matrices(text: str) -> list[list[list[int]]]:
    """The blocks of rows of whole numbers of a text."""
    blocks: list[list[list[int]]] = [[]]
    for row in text.split("\n"):
        if re.fullmatch(r"-?\d+( -?\d+)+", row):
            blocks[-1].append([int(entry) for entry in row.split()])
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def vectors(text: str) -> list[tuple[int, ...]]:
    """The points and vectors of a text, in brackets."""
    return [tuple(map(int, part.split(","))) for part in re.findall(r"\((-?\d+(?:, -?\d+)+)\)", text)]


def shown(rows: Matrix) -> str:
    return "\n".join(" ".join(map(str, row)) for row in rows)


def products(left: Sequence[Number], right: Sequence[Number]) -> str:
    """``2*3 + (-1)*4 = 2``."""
    terms = " + ".join(f"{bracketed(a)}*{bracketed(b)}" for a, b in zip(left, right, strict=True))
    return f"{terms} = {sum(a * b for a, b in zip(left, right, strict=True))}"


def dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    return sum(a * b for a, b in zip(left, right, strict=True))


# determinants and inverses


def two_by_two(rows: Matrix) -> tuple[str, Number]:
    (a, b), (c, d) = rows
    value = a * d - b * c
    return f"{bracketed(a)}*{bracketed(d)} - {bracketed(b)}*{bracketed(c)} = {value}", value


def eliminated(rows: Matrix) -> tuple[list[str], Fraction]:
    """A determinant by elimination, a line for each row that changes."""
    matrix = [[Fraction(entry) for entry in row] for row in rows]
    lines, sign = list[str](), 1
    for k in range(len(matrix)):
        pivot = next((r for r in range(k, len(matrix)) if matrix[r][k]), None)
        if pivot is None:
            return [*lines, f"Column {k + 1} has only 0 from row {k + 1} on: the determinant is 0."], Fraction(0)
        if pivot != k:
            matrix[k], matrix[pivot], sign = matrix[pivot], matrix[k], -sign
            lines.append(f"Rows {k + 1} and {pivot + 1} exchanged: the sign changes.")
        for r in range(k + 1, len(matrix)):
            if factor := matrix[r][k] / matrix[k][k]:
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[k], strict=True)]
                lines.append(f"Row {r + 1} {less(factor)} row {k + 1}: {' '.join(map(str, matrix[r]))}")
    pivots = [sign * matrix[0][0], *(matrix[k][k] for k in range(1, len(matrix)))]
    value = Fraction(1)
    for pivot_value in pivots:
        value *= pivot_value
    if len(pivots) > 1:
        note = ", with the sign changed" if sign < 0 else ""
        lines.append(f"The product of the diagonal{note}: {' * '.join(map(bracketed, pivots))} = {value}")
    return lines, value


def less(factor: Fraction) -> str:
    """``- 2 times``, ``+ 1/2 times``, ``-`` for one."""
    sign, size = ("-", factor) if factor > 0 else ("+", -factor)
    return sign if size == 1 else f"{sign} {size} times"


def determinant(text: str) -> str:
    """Of two rows by the formula, else by elimination; with an unknown entry first that entry's cofactor."""
    rows = [row.split() for row in text.split("\n")[1:]]
    unknown = next(((r, c) for r, row in enumerate(rows) for c, entry in enumerate(row) if entry == "x"), None)
    if unknown is None:
        numbers = [[int(entry) for entry in row] for row in rows]
        return two_by_two(numbers)[0] if len(rows) == 2 else "\n".join(eliminated(numbers)[0])
    r, c = unknown
    numbers = [[0 if entry == "x" else int(entry) for entry in row] for row in rows]
    minor = [[*row[:c], *row[c + 1 :]] for k, row in enumerate(numbers) if k != r]
    wanted = int(re.findall(r"this matrix (-?\d+)\?", text)[0])
    lines, value = eliminated(minor)
    cofactor = (-1) ** (r + c) * value
    rest_lines, rest = eliminated(numbers)
    return "\n".join(
        [
            f"x stands in row {r + 1} and column {c + 1}. Without these the rows are",
            shown(minor),
            *lines,
            f"So the cofactor of x is {cofactor}, since {r + 1} + {c + 1} is {'odd' if (r + c) % 2 else 'even'}.",
            "With x = 0:",
            *rest_lines,
            f"The determinant is {polynomial([cofactor, rest])} = {wanted}, so x = {(wanted - rest) / cofactor}.",
        ]
    )


def reduced(rows: Matrix, right: Matrix) -> list[str]:
    """The rows with their right sides behind a bar, reduced column by column to the identity."""
    matrix = [[Fraction(entry) for entry in [*row, *more]] for row, more in zip(rows, right, strict=True)]
    size, lines = len(rows), list[str]()
    for k in range(size):
        pivot = next(r for r in range(k, size) if matrix[r][k])
        matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
        matrix[k] = [entry / matrix[k][k] for entry in matrix[k]]
        for r in range(size):
            if r != k and (factor := matrix[r][k]):
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[k], strict=True)]
        lines.append(f"Rows reduced in {'column 1' if not k else f'columns 1 to {k + 1}'}:")
        lines += [f"{' '.join(map(str, row[:size]))} | {' '.join(map(str, row[size:]))}" for row in matrix]
    return lines


def inverse(text: str) -> str:
    """Of two rows by the formula, else by reducing the rows beside the identity."""
    (rows,) = matrices(text)
    if len(rows) == 2:
        (a, b), (c, d) = rows
        how, value = two_by_two(rows)
        scaled = f"The inverse is 1/{bracketed(value)} times the rows\n{shown([[d, -b], [-c, a]])}"
        return f"The determinant is {how}.\n{scaled}"
    beside = [[int(r == c) for c in range(len(rows))] for r in range(len(rows))]
    start = [f"{' '.join(map(str, row))} | {' '.join(map(str, more))}" for row, more in zip(rows, beside, strict=True)]
    return "\n".join(["Beside the identity:", *start, *reduced(rows, beside)])


# products and eigenvalues


def multiplied(name: str, left: Matrix, right: Matrix) -> tuple[list[str], list[list[Number]]]:
    """A product, entry by entry."""
    columns = list(zip(*right, strict=True))
    lines = [f"{name}, row by row:", *("; ".join(products(row, column) for column in columns) for row in left)]
    return lines, [[dot(row, column) for column in columns] for row in left]


def matrix_products(text: str) -> str:
    """The products on the way one after another, and the sum where a polynomial is asked for."""
    operands, asked = matrices(text), text.rpartition("What is ")[2]
    factors: list[Matrix] = [*operands]
    if len(operands) > 1:
        names = ["A", "AB", "ABC"][: len(operands)]
    else:
        power = re.match(r"A\^(\d)\?", asked)
        factors *= int(power[1]) if power else 3
        names = ["A", *(f"A^{number}" for number in range(2, len(factors) + 1))]
    lines, powers = list[str](), [factors[0]]
    for name, factor in zip(names[1:], factors[1:], strict=True):
        more, result = multiplied(name, powers[-1], factor)
        lines += more
        powers.append(result)
    if match := re.match(r"A\^3 (.*) ([+-]) (\d+)I,", asked):
        a, b = coefficients(f"x^3 {match[1].replace('A', 'x')}")[1:3]
        c = int(match[2] + match[3])
        lines.append(f"Summed up, {asked.partition('I,')[0]}I:")
        for i, (entry, square, cube) in enumerate(zip(*powers, strict=True)):
            row = enumerate(zip(entry, square, cube, strict=True))
            lines.append("; ".join(products((1, a, b, c), (z, y, x, int(i == j))) for j, (x, y, z) in row))
    return "\n".join(lines)


def coefficients(text: str, name: str = "x") -> list[int]:
    """Of a polynomial as it is written, ``-3x^2 - x + 5``, the highest power first."""
    by_power = dict[int, int]()
    for sign, factor, letter, power in re.findall(rf"([+-]?) ?(\d*)({name}?)(?:\^(\d+))?", text):
        if factor or letter:
            by_power[int(power or bool(letter))] = int(f"{sign}{factor or 1}")
    return [by_power.get(power, 0) for power in range(max(by_power), -1, -1)]


def eigenvalues(text: str, answer: Sequence[int]) -> str:
    """The characteristic polynomial, from trace and determinant or by the rule of Faddeev and LeVerrier."""
    (rows,) = matrices(text)
    size = len(rows)
    trace = f"{' + '.join(bracketed(rows[k][k]) for k in range(size))} = {sum(rows[k][k] for k in range(size))}"
    characteristic: list[int] = [1]
    lines = [f"The trace is {trace}."]
    if size == 2:
        how, value = two_by_two(rows)
        characteristic += [-rows[0][0] - rows[1][1], int(value)]
        lines.append(f"The determinant is {how}.")
    else:
        characteristic.append(-sum(rows[k][k] for k in range(size)))
        current: list[list[Number]] = [list(row) for row in rows]
        for k in range(2, size + 1):
            shifted = [
                [entry + characteristic[-1] * (i == j) for j, entry in enumerate(row)] for i, row in enumerate(current)
            ]
            columns = list(zip(*shifted, strict=True))
            current = [[dot(row, column) for column in columns] for row in rows]
            diagonal = [current[i][i] for i in range(size)]
            characteristic.append(int(-sum(diagonal) // k))
            lines.append(f"A times this product with {characteristic[-2]} added to its diagonal:")
            lines.append(shown(current))
            terms = " + ".join(map(bracketed, diagonal))
            lines.append(f"Its trace, divided by -{k}: -({terms}) / {k} = {characteristic[-1]}")
        lines[1] = f"Let A be the matrix. A times A with {characteristic[1]} added to its diagonal:"
    factors = "".join("x" if not root else f"({polynomial([1, -root])})" for root in answer)
    lines.append(f"The characteristic polynomial is {polynomial(characteristic)} = {factors}.")
    return "\n".join(lines)


def least_squares(text: str) -> str:
    """The sums over the points, the normal equations that they make, and these reduced."""
    points = vectors(text)
    degree = 2 if "parabola" in text else 1
    lines, sums = list[str](), dict[str, int]()
    kinds = [(power, 0) for power in range(1, 2 * degree + 1)] + [(power, 1) for power in range(degree + 1)]
    for power, of_y in kinds:
        name = ("" if not power else "x" if power == 1 else f"x^{power}") + "y" * of_y
        parts = [x**power * y**of_y for x, y in points]
        sums[name] = sum(parts)
        lines.append(f"Sum of {name}: {' + '.join(map(bracketed, parts))} = {sums[name]}")
    moments = [len(points), *(sums["x" if power == 1 else f"x^{power}"] for power in range(1, 2 * degree + 1))]
    powers = range(degree, -1, -1)
    rows = [[moments[p + q] for q in powers] for p in powers]
    right = [[sums[("" if not p else "x" if p == 1 else f"x^{p}") + "y"]] for p in powers]
    lines.append(f"With {len(points)} points, the normal equations are:")
    names = "abc"[: degree + 1]
    lines += [f"{linear(row, names)} = {value}" for row, (value,) in zip(rows, right, strict=True)]
    return "\n".join([*lines, *reduced(rows, right)])


# vectors and lines


def difference(end: Sequence[int], start: Sequence[int]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(end, start, strict=True))


def cross(u: Sequence[int], v: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """A cross product, component by component."""
    parts, values = list[str](), list[int]()
    for i, j in ((1, 2), (2, 0), (0, 1)):
        values.append(u[i] * v[j] - u[j] * v[i])
        parts.append(f"{bracketed(u[i])}*{bracketed(v[j])} - {bracketed(u[j])}*{bracketed(v[i])} = {values[-1]}")
    return "; ".join(parts), tuple(values)


def vector_geometry(text: str) -> str:
    """Products of vectors; for triangles, planes and tetrahedra those of the sides that leave one corner."""
    points = vectors(text)
    if "cosine" in text:
        a, b = points[:2]
        product, first, second = dot(a, b), dot(a, a), dot(b, b)
        square = f"{bracketed(product)}*{bracketed(product)} / ({first}*{second})"
        return (
            f"The product of {a} and {b}: {products(a, b)}\n"
            f"Their squared lengths: {products(a, a)} and {products(b, b)}\n"
            f"The square of the cosine: {square} = {Fraction(int(product**2), int(first * second))}"
        )
    if "plane" in text:
        d, (a, b, c) = points[0], points[1:4]
    else:
        a, b, c, d = (*points[:3], points[-1])
    u, v = difference(b, a), difference(c, a)
    how, normal = cross(u, v)
    norm = dot(normal, normal)
    lines = [f"From {a} the vectors to {b} and {c} are {u} and {v}.", f"Their cross product {normal}: {how}"]
    if "triangle" in text:
        lines.append(f"Its squared length: {products(normal, normal)}")
        return "\n".join([*lines, f"The square of the area is a quarter of it, {Fraction(int(norm), 4)}."])
    w = difference(d, a)
    height = dot(normal, w)
    lines.append(f"From {a} to {d} it is {w}, and times the cross product {products(w, normal)}.")
    if "tetrahedron" in text:
        return "\n".join([*lines, f"The volume is a sixth of its size, {Fraction(abs(int(height)), 6)}."])
    lines.append(f"The squared length of the cross product: {products(normal, normal)}")
    if "mirrored" not in text:
        square = f"{bracketed(height)}*{bracketed(height)} / {norm} = {Fraction(int(height) ** 2, int(norm))}"
        return "\n".join([*lines, f"The square of the distance: {square}"])
    share = Fraction(int(2 * height), int(norm))
    image = [x - share * n for x, n in zip(d, normal, strict=True)]
    moved = "; ".join(
        f"{x} - {bracketed(share)}*{bracketed(n)} = {y}" for x, n, y in zip(d, normal, image, strict=True)
    )
    asked = text.partition("What is ")[2].partition("?")[0]
    weights = [int(factor or 1) for factor in re.findall(r"(\d*)[xyz]", asked)]
    lines.append(f"The image is the point less 2*{bracketed(height)}/{norm} times the cross product: {moved}")
    return "\n".join([*lines, f"{asked}: {products(weights, image)}"])


def meeting(text: str) -> str:
    """Where two lines meet, by Cramer's rule."""
    rows = [(int(f"{s}{a or 1}"), int(f"{t}{b or 1}"), int(c)) for s, a, t, b, c in re.findall(
        r"(-?)(\d*)x ([+-]) (\d*)y = (-?\d+)", text)]  # fmt: skip
    (a, b, c), (d, e, f) = rows
    above, value = c * e - b * f, a * e - b * d
    return (
        f"The determinant: {bracketed(a)}*{bracketed(e)} - {bracketed(b)}*{bracketed(d)} = {value}\n"
        f"With the right sides for x: {bracketed(c)}*{bracketed(e)} - {bracketed(b)}*{bracketed(f)} = {above}\n"
        f"By Cramer's rule x is {bracketed(above)} / {bracketed(value)} = {Fraction(above, value)}."
    )
