"""VisualCharts: reading bars, lines and pies. No value stands in the picture but those of the axis."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rlvr.envs.core.task import Transition
from rlvr.envs.rewards.graders.number import grade_number
from rlvr.envs.visual import workings
from rlvr.envs.visual.canvas import COLOURS, INK, PAPER, Canvas, Point
from rlvr.envs.visual.visual_questions import VisualQuestions, VisualState

GOODS = ("apples", "pears", "plums", "figs", "limes", "dates")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SERIES = ("red", "blue", "green", "orange")
LIGHT = (222, 222, 222)
STEPS = (2, 4, 10, 20, 40, 50, 100)  # what one line of the axis stands for; bars end on lines and half-way between
LEFT, RIGHT, TOP, BOTTOM = 44.0, 326.0, 40.0, 300.0


class Chart(NamedTuple):
    """``values[series][index]``; ``kind`` is bars, stacked, lines or pie; ``step`` and ``lines`` are of the axis."""

    kind: str
    names: tuple[str, ...]
    colours: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    step: int = 1
    lines: int = 1


class VisualCharts(VisualQuestions):
    """Reading charts. Level 1: the value of a bar. 2: the change between two points of a line. 3: bars of several
    colours, side by side or on top of each other, of which those of one colour are added up. 4: a pie, of which one
    slice is asked for by its rank, or the total of some bars. 5: two lines, and where one is above the other or the two
    are furthest apart.
    """

    kind = "exact"

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """Draws a chart and a question of the level; all bars end on an axis line or half-way between two."""
        makers: Sequence[Callable[[random.Random], VisualState]] = {
            1: (bar_value,),
            2: (line_change,),
            3: (colour_sum, stacked_parts),
            4: (pie_rank, bars_total),
            5: (lines_above, lines_apart),
        }[level]
        return rng.choice(makers)(rng)

    def apply(self, state: VisualState, action: str) -> Transition:
        """An answer that is a number is read as one, with or without its unit, and a name as a text."""
        if not state.answer.removeprefix("-").isdecimal():
            return super().apply(state, action)
        return Transition(state, grade_number(action, state.answer, simplest=True), terminated=True)

    def explain(self, state: VisualState) -> str:
        """The values that the question asks about."""
        chart: Chart = state.scene
        return state.working or workings.chart(chart.kind, chart.names, chart.colours, chart.values, state.text)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """A name for "Which", a number of months for "In how many", else a multiple of half an axis step."""
        chart: Chart = state.scene
        if "Which" in state.text:
            return rng.choice(GOODS if chart.kind == "pie" else MONTHS)
        if "In how many" in state.text:
            return str(rng.randint(0, len(MONTHS)))
        return str(rng.choice(STEPS) * rng.randint(1, 16) // 2)

    def sketch(self, scene: Chart, canvas: Canvas) -> None:
        """Axis and bars or lines, with a legend for several colours; a pie has names only, no numbers."""
        if scene.kind == "pie":
            pie(canvas, scene)
            return
        axis(canvas, scene)
        {"bars": bars, "stacked": bars, "lines": lines}[scene.kind](canvas, scene)
        if len(scene.colours) > 1:
            for number, colour in enumerate(scene.colours):
                x = LEFT + 10 + 70 * number
                canvas.box(x, 15, x + 12, 27, COLOURS[colour])
                canvas.text((x + 18, 21), colour, 12, anchor="lm")


# questions


def levels_of(rng: random.Random, count: int, lines: int) -> list[int]:
    """Heights in half lines of the axis."""
    return [rng.randint(1, 2 * lines) for _ in range(count)]


def bar_value(rng: random.Random) -> VisualState:
    step, count = rng.choice(STEPS), rng.randint(4, 6)
    names = tuple(rng.sample(GOODS, count))
    values = tuple(height * step // 2 for height in levels_of(rng, count, 8))
    name = rng.choice(names)
    chart = Chart("bars", names, (rng.choice(tuple(COLOURS)),), (values,), step, 8)
    return VisualState(chart, f"How many {name} were sold?", str(values[names.index(name)]), readings=1)


def line_change(rng: random.Random) -> VisualState:
    step, count = rng.choice(STEPS), rng.randint(6, 8)
    while True:
        values = tuple(height * step // 2 for height in levels_of(rng, count, 7))
        first, second = sorted(rng.sample(range(count), 2))
        if values[first] != values[second]:
            break
    chart = Chart("lines", MONTHS[:count], (rng.choice(SERIES),), (values,), step, 7)
    text = (
        f"By how much does the value change from {MONTHS[first]} to {MONTHS[second]}? Write a fall with a minus sign."
    )
    working = f"In {MONTHS[first]} the line is at {values[first]}, in {MONTHS[second]} at {values[second]}: "
    working += f"{values[second]} - {values[first]} = {values[second] - values[first]}."
    return VisualState(chart, text, str(values[second] - values[first]), working, readings=2)


def colour_sum(rng: random.Random) -> VisualState:
    step, count = rng.choice(STEPS), rng.randint(3, 4)
    names, colours = tuple(rng.sample(GOODS, count)), tuple(rng.sample(SERIES, 3))
    values = tuple(tuple(height * step // 2 for height in levels_of(rng, count, 7)) for _ in colours)
    colour = rng.randrange(3)
    total = sum(values[colour])
    chart = Chart("bars", names, colours, values, step, 7)
    return VisualState(chart, f"What do all {colours[colour]} bars add up to?", str(total), readings=count)


def stacked_parts(rng: random.Random) -> VisualState:
    step, count = rng.choice(STEPS), rng.randint(4, 5)
    names, colours = tuple(rng.sample(GOODS, count)), tuple(rng.sample(SERIES, 3))
    heights = [[rng.randint(1, 5) for _ in range(count)] for _ in colours]
    values = tuple(tuple(height * step // 2 for height in row) for row in heights)
    (first, second), part = rng.sample(names, 2), rng.randrange(1, 3)  # the lowest part could be read off the axis
    total = values[part][names.index(first)] + values[part][names.index(second)]
    chart = Chart("stacked", names, colours, values, step, 8)
    text = f"What do the {colours[part]} parts of the bars of {first} and of {second} add up to?"
    return VisualState(chart, text, str(total), readings=4)  # the lower and the upper end of each


def pie_rank(rng: random.Random) -> VisualState:
    """Slices differ by at least 14 degrees, so that their order can be seen."""
    count = rng.randint(5, 6)
    while True:
        cuts = sorted(rng.sample(range(15, 346), count - 1))
        sizes = [b - a for a, b in pairwise([0, *cuts, 360])]
        ranked = sorted(sizes)
        if ranked[0] >= 15 and all(b - a >= 14 for a, b in pairwise(ranked)):
            break
    rank = rng.randrange(count)
    order: tuple[str, ...] = (
        "largest",
        "second largest",
        "third largest",
        "third smallest",
        "second smallest",
        "smallest",
    )
    if count == 5:
        order = (*order[:3], *order[4:])
    names, colours = tuple(rng.sample(GOODS, count)), tuple(rng.sample(tuple(COLOURS), count))
    answer = names[sizes.index(sorted(sizes, reverse=True)[rank])]
    chart = Chart("pie", names, colours, (tuple(sizes),))
    return VisualState(chart, f"Which slice is the {order[rank]}? The colours are named below.", answer, readings=count)


def bars_total(rng: random.Random) -> VisualState:
    step, count = rng.choice(STEPS), rng.randint(5, 6)
    names = tuple(rng.sample(GOODS, count))
    values = tuple(height * step // 2 for height in levels_of(rng, count, 8))
    text = "How many were sold of the kinds whose bars are higher than the one furthest left, all together?"
    total = sum(value for value in values if value > values[0])
    chart = Chart("bars", names, (rng.choice(tuple(COLOURS)),), (values,), step, 8)
    return VisualState(chart, text, str(total), readings=count)


def two_lines(rng: random.Random) -> Chart:
    """Two lines that never meet in a month."""
    step = rng.choice(STEPS)
    first = levels_of(rng, len(MONTHS), 8)
    second = [rng.choice([height for height in range(1, 17) if height != other]) for other in first]
    values = tuple(tuple(height * step // 2 for height in row) for row in (first, second))
    return Chart("lines", MONTHS, tuple(rng.sample(SERIES, 2)), values, step, 8)


def lines_above(rng: random.Random) -> VisualState:
    chart = two_lines(rng)
    wanted = rng.randint(0, len(MONTHS))  # all answers alike likely: the two are exchanged in some months
    above = set(rng.sample(range(len(MONTHS)), wanted))
    pairs = [(max(a, b), min(a, b)) if i in above else (min(a, b), max(a, b)) for i, (a, b) in both(chart)]
    chart = chart._replace(values=tuple(zip(*pairs, strict=True)))
    upper, lower = chart.colours
    text = f"In how many months is the {upper} line above the {lower} one?"
    return VisualState(chart, text, str(wanted), readings=2 * len(MONTHS))


def lines_apart(rng: random.Random) -> VisualState:
    while True:
        chart = two_lines(rng)
        gaps = [abs(a - b) for _, (a, b) in both(chart)]
        widest = max(gaps)
        if sorted(gaps)[-2] <= widest - chart.step:
            text = "Which month has the two lines furthest apart?"
            return VisualState(chart, text, MONTHS[gaps.index(widest)], readings=2 * len(MONTHS))


def both(chart: Chart) -> list[tuple[int, tuple[int, int]]]:
    return list(enumerate(zip(*chart.values, strict=True)))


# drawing


def height_of(scene: Chart, value: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * value / (scene.step * scene.lines)


def middle_of(scene: Chart, index: int) -> float:
    return LEFT + (RIGHT - LEFT) * (index + 0.5) / len(scene.names)


def axis(canvas: Canvas, scene: Chart) -> None:
    for line in range(scene.lines + 1):
        y = height_of(scene, line * scene.step)
        canvas.line([(LEFT, y), (RIGHT, y)], LIGHT if line else INK, 1)
        canvas.text((LEFT - 5, y), str(line * scene.step), 11, anchor="rm")
    canvas.line([(LEFT, TOP), (LEFT, BOTTOM)], INK, 1)
    for index, name in enumerate(scene.names):
        canvas.text((middle_of(scene, index), BOTTOM + 14), name, 11 if len(scene.names) < 9 else 9.5)


def bars(canvas: Canvas, scene: Chart) -> None:
    room = 0.7 * (RIGHT - LEFT) / len(scene.names)
    stacked = scene.kind == "stacked"
    wide = room if stacked else room / len(scene.values)
    for index in range(len(scene.names)):
        below = 0
        for number, row in enumerate(scene.values):
            left = middle_of(scene, index) - room / 2 + (0 if stacked else number * wide)
            top, bottom = height_of(scene, below + row[index]), height_of(scene, below)
            canvas.box(left, top, left + wide, bottom, COLOURS[scene.colours[number]], INK)
            below += row[index] if stacked else 0


def lines(canvas: Canvas, scene: Chart) -> None:
    for colour, row in zip(scene.colours, scene.values, strict=True):
        points: list[Point] = [(middle_of(scene, i), height_of(scene, value)) for i, value in enumerate(row)]
        canvas.line(points, COLOURS[colour], 2)
        for point in points:
            canvas.circle(point, 3.4, COLOURS[colour], PAPER, 0.8)


def pie(canvas: Canvas, scene: Chart) -> None:
    at = 0
    for colour, size in zip(scene.colours, scene.values[0], strict=True):
        canvas.slice((168, 138), 122, at, at + size, COLOURS[colour])
        at += size
    for number, (name, colour) in enumerate(zip(scene.names, scene.colours, strict=True)):
        x, y = 26 + 104 * (number % 3), 284 + 26 * (number // 3)
        canvas.box(x, y - 7, x + 14, y + 7, COLOURS[colour])
        canvas.text((x + 22, y), name, 13, anchor="lm")
