"""VisualGeometry: areas, angles and mirror images in drawn figures."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any, NamedTuple

from rlvr.envs.tasks.questions import whole_numbers
from rlvr.envs.visual import workings
from rlvr.envs.visual.canvas import COLOURS, INK, UNITS, Canvas, Point, on_circle_radians
from rlvr.envs.visual.visual_questions import VisualQuestions, VisualState

SIZE = 10  # squares of a grid, each way
LEFT, TOP, WIDE = 30.0, 16.0, 29.0  # of the grid; one square is WIDE units
GRID, SHADE = (210, 210, 210), (170, 205, 245)
Cell = tuple[int, int]


class Region(NamedTuple):
    """Squares of the grid, (x, y) from the lower left."""

    squares: tuple[Cell, ...]


class Polygon(NamedTuple):
    """Corners on the grid's crossings."""

    corners: tuple[Cell, ...]


class AngleFigure(NamedTuple):
    """Corners of a figure, a label for each, and whether its sides go on beyond its last corner to the asked angle."""

    corners: tuple[Point, ...]
    labels: tuple[str, ...]
    outside: bool


class Mirror(NamedTuple):
    """A point and two points of a line on the grid; or a point and, twice, the centre of a quarter turn."""

    point: Cell
    line: tuple[Cell, Cell]


class VisualGeometry(VisualQuestions):
    """Measuring figures. Level 1: the area of squares on a grid. 2: an angle of a figure whose other angles are written
    in it. 3: where a point lies after a reflection in a line, or after a quarter turn. 4: the area of a triangle. 5: of
    a figure of five to seven corners.
    """

    kind = "checked"

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """A figure on a grid of 10 x 10, at level 2 free angles; areas are whole or half numbers."""
        return (squares, angle, moved, triangle, figure)[level - 1](rng)

    def check(self, state: VisualState, answer: str) -> str | None:
        """A point as two numbers, else a whole number or one with a half; signs of degree do not count."""
        if isinstance(state.scene, Mirror):
            point = whole_numbers(answer, 2)
            return None if f"{point[0]}, {point[1]}" == state.answer else "another point"
        words = answer.replace("°", "").replace("^\\circ", "").strip()
        whole, _, half = words.partition(".")
        if not (whole.isascii() and whole.isdecimal() and len(whole) < 7 and half.strip("0") in ("", "5")):
            raise ValueError("the answer is not a whole number, or one with a half, such as 7.5")
        twice = 2 * int(whole) + (half[:1] == "5")
        return None if twice == round(2 * float(state.answer)) else "another number"

    def explain(self, state: VisualState) -> str:
        """The rows of squares, the corners of a figure, what is left of its angles, or how a point lies."""
        scene = state.scene
        if isinstance(scene, Region):
            return workings.squares(scene.squares)
        if isinstance(scene, Polygon):
            return workings.polygon(scene.corners)
        if isinstance(scene, AngleFigure):
            return workings.angles(scene.labels, scene.outside)
        return workings.mirrored(scene.point, scene.line, state.text)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """A point of the grid, an angle from 20 to 150 degrees, or an area from 2 to 30, by the figure."""
        if isinstance(state.scene, Mirror):
            return f"{rng.randint(0, SIZE)}, {rng.randint(0, SIZE)}"
        if isinstance(state.scene, AngleFigure):
            return str(rng.randint(20, 150))
        return str(rng.randint(4, 60) / 2).removesuffix(".0")

    def sketch(self, scene: Any, canvas: Canvas) -> None:
        """The figure over its grid, numbered only where a point is asked for; angles stand without a grid."""
        if isinstance(scene, AngleFigure):
            sketch_angles(canvas, scene)
            return
        if isinstance(scene, Region):
            for x, y in scene.squares:
                canvas.polygon([at(x, y), at(x + 1, y), at(x + 1, y + 1), at(x, y + 1)], SHADE, SHADE)
        elif isinstance(scene, Polygon):
            canvas.polygon([at(*corner) for corner in scene.corners], SHADE)
        grid(canvas, numbered=isinstance(scene, Mirror))
        if isinstance(scene, Polygon):
            canvas.polygon([at(*corner) for corner in scene.corners], None, INK, 2)
        elif isinstance(scene, Mirror):
            sketch_mirror(canvas, scene)


def at(x: float, y: float) -> Point:
    """A point of the grid on the canvas; y counts upwards."""
    return LEFT + x * WIDE, TOP + (SIZE - y) * WIDE


def grid(canvas: Canvas, numbered: bool) -> None:
    for number in range(SIZE + 1):
        canvas.line([at(number, 0), at(number, SIZE)], GRID, 1)
        canvas.line([at(0, number), at(SIZE, number)], GRID, 1)
        if numbered:
            canvas.text((at(number, 0)[0], at(0, 0)[1] + 11), str(number), 12)
            canvas.text((LEFT - 11, at(0, number)[1]), str(number), 12)


# areas


def squares(rng: random.Random) -> VisualState:
    count = rng.randint(6, 30)
    corners = [(rng.randrange(2, 8), rng.randrange(2, 8))]
    while len(corners) < count:
        x, y = rng.choice(corners)
        dx, dy = rng.choice(((0, 1), (1, 0), (0, -1), (-1, 0)))
        cell = x + dx, y + dy
        if cell not in corners and 0 <= cell[0] < SIZE and 0 <= cell[1] < SIZE:
            corners.append(cell)
    text = "Each square of the grid has an area of 1. What is the area of the blue region?"
    return VisualState(Region(tuple(sorted(corners))), text, str(count), readings=1)


AREA = "Each square of the grid has an area of 1. What is the area of the blue figure?"


def triangle(rng: random.Random) -> VisualState:
    while True:
        corners = tuple((rng.randint(0, SIZE), rng.randint(0, SIZE)) for _ in range(3))
        twice = twice_area(corners)
        if 6 <= twice <= 60:
            return VisualState(Polygon(corners), AREA, halved(twice), readings=6)


def figure(rng: random.Random) -> VisualState:
    """Corners in the order in which they are seen from a place within, so that no sides cross."""
    while True:
        count = rng.randint(5, 7)
        corners = list({(rng.randint(0, SIZE), rng.randint(0, SIZE)): None for _ in range(count)})
        if len(corners) < 5:
            continue
        middle = sum(x for x, _ in corners) / len(corners) + 0.013, sum(y for _, y in corners) / len(corners) + 0.007
        corners.sort(key=lambda c: math.atan2(c[1] - middle[1], c[0] - middle[0]))
        turns = [math.atan2(y - middle[1], x - middle[0]) for x, y in [*corners, corners[0]]]
        steps = [(b - a) % (2 * math.pi) for a, b in pairwise(turns)]
        near = min(math.dist(c, middle) for c in corners)
        if min(steps) > 0.35 and max(steps) < 2.8 and near > 1.2 and not flat(corners):
            area = halved(twice_area(tuple(corners)))
            return VisualState(Polygon(tuple(corners)), AREA, area, readings=2 * len(corners))


def flat(corners: list[Cell]) -> bool:
    """Whether some corner is none, as its sides lie on one line."""
    around = [*corners[-1:], *corners, *corners[:1]]
    return any(twice_area(tuple(around[i : i + 3])) == 0 for i in range(len(corners)))


def twice_area(corners: tuple[Cell, ...]) -> int:
    """Twice the area (the shoelace formula)."""
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise([*corners, corners[0]])))


def halved(twice: int) -> str:
    return f"{twice // 2}.5" if twice % 2 else str(twice // 2)


# angles


def angle(rng: random.Random) -> VisualState:
    """A triangle or a figure of four corners with one angle missing; the asked one may lie outside."""
    count, outside = rng.choice((3, 4)), rng.random() < 0.5
    centre = UNITS / 2, UNITS / 2
    while True:
        turns = sorted(rng.uniform(0, 2 * math.pi) for _ in range(count))
        points = [on_circle_radians(centre, rng.uniform(90, 135), turn) for turn in turns]
        exact = [corner_angle(points, i) for i in range(count)]
        convex = math.isclose(sum(exact), 180 * (count - 2), abs_tol=1e-6)
        if not convex or min(exact) < 30 or max(exact) > 140:
            continue
        rounded = [round(value) for value in exact]
        rounded[-1] = 180 * (count - 2) - sum(rounded[:-1])
        asked = 180 - rounded[-1] if outside else rounded[-1]
        if asked in rounded[:-1]:
            continue
        labels = (*(f"{value}°" for value in rounded[:-1]), "x")
        text = "How many degrees is the angle x?"
        working = f"The angles add up to {180 * (count - 2)}; the one at x is {rounded[-1]}."
        scene = AngleFigure(tuple((round(x, 1), round(y, 1)) for x, y in points), labels, outside)
        return VisualState(scene, text, str(asked), working, readings=count - 1)


def corner_angle(points: list[Point], i: int) -> float:
    """The inner angle at corner i, in degrees."""
    here, before, after = points[i], points[i - 1], points[(i + 1) % len(points)]
    a = math.atan2(before[1] - here[1], before[0] - here[0])
    b = math.atan2(after[1] - here[1], after[0] - here[0])
    turn = abs(a - b) % (2 * math.pi)
    return math.degrees(min(turn, 2 * math.pi - turn))


def sketch_angles(canvas: Canvas, scene: AngleFigure) -> None:
    corners = scene.corners
    canvas.polygon(corners, None, INK, 2)
    for i, (here, label) in enumerate(zip(corners, scene.labels, strict=True)):
        before, after = corners[i - 1], corners[(i + 1) % len(corners)]
        if label == "x" and scene.outside:  # the side is drawn on beyond the corner, and x lies behind it
            share = 46 / math.dist(before, here)
            on = here[0] + (here[0] - before[0]) * share, here[1] + (here[1] - before[1]) * share
            canvas.line([here, on], INK, 2)
            before = on
        to_one, to_other = towards(here, before, 1), towards(here, after, 1)
        middle = towards(here, (to_one[0] + to_other[0] - here[0], to_one[1] + to_other[1] - here[1]), 34)
        arc = [
            towards(here, (to_one[0] * (1 - s) + to_other[0] * s, to_one[1] * (1 - s) + to_other[1] * s), 18)
            for s in (0, 0.15, 0.3, 0.5, 0.7, 0.85, 1)
        ]
        canvas.line(arc, COLOURS["red"], 1.5)
        canvas.text(middle, label, 13, COLOURS["red"] if label == "x" else INK, halo=True)


def towards(here: Point, there: Point, length: float) -> Point:
    share = length / (math.dist(here, there) or 1)
    return here[0] + (there[0] - here[0]) * share, here[1] + (there[1] - here[1]) * share


# mirror images


def moved(rng: random.Random) -> VisualState:
    turned = rng.random() < 0.4
    while True:
        point = rng.randint(0, SIZE), rng.randint(0, SIZE)
        target = rng.randint(0, SIZE), rng.randint(0, SIZE)
        if turned:
            dx, dy = point[0] - target[0], point[1] - target[1]
            clockwise = rng.random() < 0.5
            image = (target[0] + dy, target[1] - dx) if clockwise else (target[0] - dy, target[1] + dx)
            line = target, target
            way = "clockwise" if clockwise else "counterclockwise"
            text = f"The black point is turned by 90 degrees {way} about the red one. Where does it come to lie?"
        else:
            line, image = reflected(rng, point, target)
            text = "The black point is reflected in the red line. Where does it come to lie?"
        if image != point and all(0 <= number <= SIZE for number in image):
            text += " Give its coordinates, such as 3, 7."
            return VisualState(Mirror(point, line), text, f"{image[0]}, {image[1]}", readings=4)


def reflected(rng: random.Random, point: Cell, on_line: Cell) -> tuple[tuple[Cell, Cell], Cell]:
    """A line through ``on_line`` along the grid or across its squares, as two far points, and the mirror image."""
    (px, py), (x, y) = point, on_line
    match rng.randrange(4):
        case 0:
            return ((x, 0), (x, SIZE)), (2 * x - px, py)
        case 1:
            return ((0, y), (SIZE, y)), (px, 2 * y - py)
        case 2:
            up, down = min(SIZE - x, SIZE - y), min(x, y)
            return ((x - down, y - down), (x + up, y + up)), (x + py - y, y + px - x)
        case _:
            up, down = min(x, SIZE - y), min(SIZE - x, y)
            return ((x + down, y - down), (x - up, y + up)), (x - (py - y), y - (px - x))


def sketch_mirror(canvas: Canvas, scene: Mirror) -> None:
    start, end = scene.line
    if start == end:
        canvas.circle(at(*start), 6, COLOURS["red"])
    else:
        canvas.line([at(*start), at(*end)], COLOURS["red"], 2.5)
    canvas.circle(at(*scene.point), 6, INK)
