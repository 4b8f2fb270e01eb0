"""VisualMatrices: which panel completes a matrix whose rows follow rules (after Raven 1938).

The eight options are all combinations of the right and one other value of three attributes, so the options alone say
nothing of which one is right: the fault of RAVEN that I-RAVEN (arXiv 2002.06838) mended.
"""

from __future__ import annotations

import random
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from rlvr.envs.visual.canvas import COLOURS, GREY, INK, SHAPES, Canvas, Point, shape
from rlvr.envs.visual.visual_questions import LOOK, VisualQuestions, VisualState

PAINTS = ("red", "blue", "green", "yellow", "purple", "black")
COUNTS, SIZES = (1, 2, 3, 4), (0, 1, 2)  # sizes: small, middle, large
RADII = (0.09, 0.13, 0.17)  # of a panel's side
VALUES: dict[str, tuple[str | int, ...]] = {"shape": SHAPES, "colour": PAINTS, "number": COUNTS, "size": SIZES}
LETTERS = "ABCDEFGH"
PLACES: dict[int, tuple[Point, ...]] = {
    1: ((0.5, 0.5),),
    2: ((0.28, 0.5), (0.72, 0.5)),
    3: ((0.28, 0.28), (0.72, 0.28), (0.5, 0.72)),
    4: ((0.28, 0.28), (0.72, 0.28), (0.28, 0.72), (0.72, 0.72)),
}


class Panel(NamedTuple):
    shape: str
    colour: str
    number: int
    size: int


class SymbolMatrix(NamedTuple):
    """Eight panels row by row, of which the ninth is missing, and eight options."""

    panels: tuple[Panel, ...]
    options: tuple[Panel, ...]


class VisualMatrices(VisualQuestions):
    """The missing panel of a matrix. Levels 1 to 4: so many of shape, colour, number and size follow a rule along the
    rows; the others stay the same. Level 5: all four do, and the number is a sum. Rules: the same in a row, one more
    each time, each of three once.
    """

    kind = "choice"
    options = MappingProxyType({"letters": LETTERS})
    system = f"{LOOK} The answer is one letter."

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """The options mix right and wrong values of three attributes in all eight ways, so none stands out."""
        ruled = rng.sample(tuple(VALUES), min(level, 4))
        grid: dict[str, list[list[str | int]]] = {}
        rules = []
        for name in VALUES:
            rule, grid[name] = rows(rng, name, name in ruled, sums=level == 5 and name == "number")
            rules.append(f"{name}: {rule}")
        panels = [Panel(*(grid[name][r][c] for name in VALUES)) for r in range(3) for c in range(3)]  # type: ignore[arg-type]
        right = panels.pop()
        changed = (ruled + rng.sample([name for name in VALUES if name not in ruled], 4 - len(ruled)))[:3]
        other = {n: rng.choice([v for v in VALUES[n] if v != getattr(right, n)]) for n in changed}
        mixes = product((False, True), repeat=3)
        options = [
            right._replace(**{n: other[n] for n, swap in zip(changed, mix, strict=True) if swap})  # type: ignore[arg-type]
            for mix in mixes
        ]
        rng.shuffle(options)
        text = "Each row of the matrix follows the same rules. Which of the panels A to H belongs in place of the ?"
        return VisualState(
            SymbolMatrix(tuple(panels), tuple(options)), text, LETTERS[options.index(right)], "; ".join(rules)
        )

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """One of the eight letters."""
        return rng.choice(LETTERS)

    def sketch(self, scene: SymbolMatrix, canvas: Canvas) -> None:
        """Eight panels and a question mark above, the lettered options below."""
        side = 62.0
        for index in range(9):
            left, top = 75 + side * (index % 3), 3 + side * (index // 3)
            canvas.box(left, top, left + side, top + side, None, INK)
            if index < 8:
                panel(canvas, scene.panels[index], left, top, side)
            else:
                canvas.text((left + side / 2, top + side / 2), "?", 30, GREY)
        for index, option in enumerate(scene.options):
            left, top = 26 + 78 * (index % 4), 206 + 66 * (index // 4)
            canvas.box(left, top, left + 58, top + 58, None, INK)
            canvas.text((left - 10, top + 29), LETTERS[index], 14)
            panel(canvas, option, left, top, 58)


def rows(rng: random.Random, name: str, ruled: bool, sums: bool) -> tuple[str, list[list[str | int]]]:
    """The rule of an attribute and its values, three rows of three."""
    values = VALUES[name]
    if not ruled:
        value = rng.choice(values)
        return "always the same", [[value] * 3 for _ in range(3)]
    if sums:
        pairs = rng.sample([(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a + b <= 4], 3)
        return "the third is the sum of the first two", [[a, b, a + b] for a, b in pairs]
    kinds = ["row", "three"] + (["more"] if name in ("number", "size") else [])
    kind = rng.choice(kinds)
    if kind == "more" and name == "number":
        starts = [1, 2, rng.choice((1, 2))]
        rng.shuffle(starts)
        return "one more each time", [[start, start + 1, start + 2] for start in starts]
    if kind == "more":
        return "one larger each time", [[0, 1, 2] for _ in range(3)]
    three = rng.sample(values, 3)
    if kind == "row":
        return "the same in a row", [[value] * 3 for value in three]
    turn = rng.choice((1, 2))
    return "each of three once in a row", [[three[(c + turn * r) % 3] for c in range(3)] for r in range(3)]


def panel(canvas: Canvas, content: Panel, left: float, top: float, side: float) -> None:
    for x, y in PLACES[content.number]:
        centre = left + x * side, top + y * side
        shape(canvas, content.shape, centre, RADII[content.size] * side, COLOURS[content.colour])
