"""Canvas: a square picture drawn by Pillow, in units that do not depend on its size.

The same calls give the same bytes. Letters are those of the font that Pillow brings with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

UNITS = 336  # the side of every picture, in its own units
SMALLEST, LARGEST = 112, 1_344  # pixels of a side
INK, GREY, PAPER = (25, 25, 25), (150, 150, 150), (255, 255, 255)
# Colours that a question may name, and that are told apart with most kinds of colour blindness.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (208, 32, 38),
    "blue": (24, 88, 200),
    "green": (20, 150, 70),
    "yellow": (245, 205, 20),
    "purple": (140, 60, 180),
    "orange": (250, 130, 10),
    "black": (20, 20, 20),
    "pink": (245, 140, 190),
}
Point = tuple[float, float]
Colour = tuple[int, int, int]


def checked_side(side: Any) -> int:
    """The side of a picture in pixels.

    Raises:
        ValueError: not a whole number in range.
    """
    if isinstance(side, bool) or not isinstance(side, int) or not SMALLEST <= side <= LARGEST:
        raise ValueError(f"side must be a whole number of pixels from {SMALLEST} to {LARGEST}, got {side!r}")
    return side


class Canvas:
    """A square picture; coordinates run from 0 to ``UNITS``, x to the right and y down.

    Args:
        side: pixels of a side.
        fine: drawn so many times larger and averaged down, which makes edges smooth; 1 for pictures of boxes.
    """

    def __init__(self, side: int, fine: int = 2) -> None:
        from PIL import Image, ImageDraw

        self._fine = fine
        self._scale = side * fine / UNITS
        self._image = Image.new("RGB", (side * fine, side * fine), PAPER)
        self._pen = ImageDraw.Draw(self._image)

    def line(self, points: Sequence[Point], colour: Colour = INK, width: float = 1.5) -> None:
        """A line through points, in the units of the canvas."""
        self._pen.line(self._at(points), fill=colour, width=self._width(width), joint="curve")

    def polygon(
        self, points: Sequence[Point], fill: Colour | None, edge: Colour | None = None, width: float = 1.5
    ) -> None:
        """A polygon, in the units of the canvas; ``fill=None`` leaves it empty."""
        flat = self._at(points)
        if fill is not None:
            self._pen.polygon(flat, fill=fill)
        if edge is not None:
            self._pen.line([*flat, *flat[:2]], fill=edge, width=self._width(width), joint="curve")

    def box(
        self, left: float, top: float, right: float, bottom: float, fill: Colour | None, edge: Colour | None = None
    ) -> None:
        """A rectangle, in the units of the canvas."""
        self._pen.rectangle(self._at([(left, top), (right, bottom)]), fill=fill, outline=edge, width=self._width(1.2))

    def circle(
        self, centre: Point, radius: float, fill: Colour | None, edge: Colour | None = None, width: float = 1.5
    ) -> None:
        """A circle, in the units of the canvas; no edge unless a colour is given."""
        (x, y), r = centre, radius
        corners = self._at([(x - r, y - r), (x + r, y + r)])
        self._pen.ellipse(corners, fill=fill, outline=edge, width=self._width(width) if edge else 0)

    def slice(self, centre: Point, radius: float, start: float, end: float, fill: Colour) -> None:
        """A slice of a pie; angles in degrees, clockwise from the top."""
        (x, y), r = centre, radius
        corners = self._at([(x - r, y - r), (x + r, y + r)])
        self._pen.pieslice(corners, start - 90, end - 90, fill=fill, outline=PAPER, width=self._width(1.5))

    def arrow(self, start: Point, end: Point, colour: Colour = INK, width: float = 1.5, head: float = 8) -> None:
        """A line with its head at ``end``."""
        self.line([start, end], colour, width)
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        wings = [on_circle_radians(end, head, angle + math.pi + turn) for turn in (-0.42, 0.42)]
        self.polygon([end, *wings], colour)

    def text(
        self, point: Point, words: str, size: float = 13, colour: Colour = INK, anchor: str = "mm", halo: bool = False
    ) -> None:
        """Words at a place; ``anchor`` is Pillow's: mm for the middle, lm and rm for the left and right end.

        With a halo there is paper around the letters, so that lines behind them do not disturb.
        """
        font = _font(max(1, round(size * self._scale)))
        edge = self._width(2) if halo else 0
        where = (point[0] * self._scale, point[1] * self._scale)
        self._pen.text(where, words, fill=colour, font=font, anchor=anchor, stroke_width=edge, stroke_fill=PAPER)

    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The picture, [side, side, 3]."""
        image = self._image.reduce(self._fine) if self._fine > 1 else self._image
        return np.array(image, np.uint8)

    def _at(self, points: Sequence[Point]) -> list[float]:
        return [number * self._scale for point in points for number in point]

    def _width(self, width: float) -> int:
        return max(1, round(width * self._scale))


@lru_cache(maxsize=64)
def _font(pixels: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(pixels)


def on_circle(centre: Point, radius: float, degrees: float) -> Point:
    """A point of a circle, degrees clockwise from the top."""
    return on_circle_radians(centre, radius, math.radians(degrees - 90))


def on_circle_radians(centre: Point, radius: float, angle: float) -> Point:
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


def regular(centre: Point, radius: float, corners: int, degrees: float = 0.0) -> list[Point]:
    """The corners of a regular polygon, the first at ``degrees`` clockwise from the top."""
    return [on_circle(centre, radius, degrees + 360 * i / corners) for i in range(corners)]


def star(centre: Point, radius: float, degrees: float = 0.0) -> list[Point]:
    """The corners of a star of five points."""
    return [on_circle(centre, radius * (1 if i % 2 == 0 else 0.42), degrees + 36 * i) for i in range(10)]


def cross(centre: Point, radius: float, degrees: float = 0.0) -> list[Point]:
    """The corners of a plus sign."""
    arm = 0.36
    corner = ((-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm))
    corners = [*corner, *((-x, -y) for x, y in corner)]
    turn = math.radians(degrees)
    cos, sin = math.cos(turn) * radius, math.sin(turn) * radius
    return [(centre[0] + x * cos - y * sin, centre[1] + x * sin + y * cos) for x, y in corners]


def shape(
    canvas: Canvas, kind: str, centre: Point, radius: float, fill: Colour, degrees: float = 0.0, edge: Colour = PAPER
) -> None:
    """One of ``SHAPES``, with an edge that keeps it apart from what it covers."""
    match kind:
        case "circle":
            canvas.circle(centre, radius * 0.9, fill, edge)
        case "square":
            canvas.polygon(regular(centre, radius * 1.1, 4, 45 + degrees), fill, edge)
        case "triangle":
            canvas.polygon(regular(centre, radius * 1.15, 3, degrees), fill, edge)
        case "star":
            canvas.polygon(star(centre, radius * 1.2, degrees), fill, edge)
        case "cross":
            canvas.polygon(cross(centre, radius, degrees), fill, edge)


SHAPES = ("circle", "square", "triangle", "star", "cross")
