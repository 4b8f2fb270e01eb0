"""VisualCounting: how many of the shapes in the picture are such as the question says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from rlvr.envs.visual.canvas import COLOURS, GREY, SHAPES, UNITS, Canvas, shape
from rlvr.envs.visual.visual_questions import VisualQuestions, VisualState

MOST = (9, 11, 13, 15, 18)  # the largest answer of each level
OTHERS = ((3, 8), (5, 12), (6, 14), (8, 16), (10, 20))  # how many other shapes there are
RADII = ((13, 17), (11, 16), (10, 15), (10, 14), (8, 13))
RING = 95.0  # radius of the ring of levels 4 and 5
CLEAR = 20.0  # no centre is so near to the ring that one could doubt on which side it is
TRIES = 400


class CountedScene(NamedTuple):
    """One shape; ``turn`` in degrees."""

    kind: str
    colour: str
    x: float
    y: float
    radius: float
    turn: int


class Crowd(NamedTuple):
    """The shapes, in the order in which they are drawn, and the centre of the ring, if there is one."""

    shapes: tuple[CountedScene, ...]
    ring: tuple[float, float] | None = None


class VisualCounting(VisualQuestions):
    """Shapes are counted by kind (level 1), kind and colour (2), neither of two properties (3), inside a ring (4), and
    kind and colour outside a ring, where shapes cover one another in part (5). All answers from 0 to a largest one are
    equally likely.
    """

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """Draws the answer first, evenly from 0 up, then places so many shapes that count and others that do not."""
        kind, colour = rng.choice(SHAPES), rng.choice(tuple(COLOURS))
        ring = (rng.uniform(115, UNITS - 115), rng.uniform(115, UNITS - 115)) if level >= 4 else None
        text, counts = question(level, kind, colour, ring)
        wanted, others = rng.randint(0, MOST[level - 1]), rng.randint(*OTHERS[level - 1])
        shapes: list[CountedScene] = []
        for number in range(wanted + others):
            shapes.append(placed(rng, level, shapes, ring, counts, number < wanted, (kind, colour)))
        rng.shuffle(shapes)
        count = sum(map(counts, shapes))
        working = f"There are {len(shapes)} shapes. Going through them, {count} are counted."
        return VisualState(Crowd(tuple(shapes), ring), text, str(count), working, readings=len(shapes))

    def sketch(self, scene: Crowd, canvas: Canvas) -> None:
        """The ring below, then the shapes in their shuffled order: later ones cover earlier ones at level 5."""
        if scene.ring is not None:
            canvas.circle(scene.ring, RING, None, GREY, 3)
        for each in scene.shapes:
            shape(canvas, each.kind, (each.x, each.y), each.radius, COLOURS[each.colour], each.turn)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """A number from 0 to 18, the largest answer of any level."""
        return str(rng.randint(0, MOST[-1]))


def question(
    level: int, kind: str, colour: str, ring: tuple[float, float] | None
) -> tuple[str, Callable[[CountedScene], bool]]:
    """The words of a question, and which shapes it counts."""
    plural = {"cross": "crosses"}.get(kind, f"{kind}s")
    if level == 1:
        return f"How many {plural} are there?", lambda each: each.kind == kind
    if level == 2:
        return f"How many {colour} {plural} are there?", lambda each: (each.kind, each.colour) == (kind, colour)
    if level == 3:
        words = f"How many shapes are there that are neither {colour} nor {plural}?"
        return words, lambda each: each.kind != kind and each.colour != colour
    if level == 4:
        words = f"How many {plural} have their centre inside the grey ring?"
        return words, lambda each: each.kind == kind and inside(each.x, each.y, ring)
    words = f"How many {colour} {plural} have their centre outside the grey ring?"
    return words, lambda each: (each.kind, each.colour) == (kind, colour) and not inside(each.x, each.y, ring)


def inside(x: float, y: float, ring: tuple[float, float] | None) -> bool:
    return ring is not None and math.dist((x, y), ring) < RING


def placed(
    rng: random.Random,
    level: int,
    others: list[CountedScene],
    ring: tuple[float, float] | None,
    counts: Callable[[CountedScene], bool],
    wanted: bool,
    like: tuple[str, str],
) -> CountedScene:
    """A shape that is counted, or is not, apart from the others; nearer to them when there is little room.

    Half of those that are not counted share the asked kind or colour, so that neither alone tells.
    """
    apart = 1.25 if level < 5 else 0.95
    for attempt in range(100 * TRIES):
        low, high = RADII[level - 1]
        radius = round(rng.uniform(low, high), 1)
        x, y = (round(rng.uniform(radius + 5, UNITS - radius - 5), 1) for _ in range(2))
        kind = like[0] if rng.random() < 0.4 else rng.choice(SHAPES)
        colour = like[1] if rng.random() < 0.4 else rng.choice(tuple(COLOURS))
        each = CountedScene(kind, colour, x, y, radius, rng.randrange(0, 360, 5))
        if counts(each) != wanted or (ring is not None and abs(math.dist((x, y), ring) - RING) < CLEAR):
            continue
        gap = max(0.6, apart * 0.97 ** (attempt // TRIES))
        if all(math.dist((x, y), (o.x, o.y)) >= gap * (radius + o.radius) for o in others):
            return each
    raise RuntimeError("no room is left for a shape")  # at a gap of 0.6 there is room for all
