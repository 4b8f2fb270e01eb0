"""What an expert reads from a picture on the way to its answer, from the scene that the picture shows."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.wording import added, bracketed, in_a_row

Cell = tuple[int, int]


# charts


def chart(kind: str, names: Sequence[str], colours: Sequence[str], values: Sequence[Sequence[int]], text: str) -> str:
    """The values that a question asks about, read from bars, lines or slices."""
    if kind == "pie":
        ranked = sorted(zip(values[0], names, colours, strict=True), reverse=True)
        return f"From the largest slice on: {listed(f'{colour} ({name})' for _, name, colour in ranked)}."
    if kind == "lines":
        return two_lines(names, colours, values, "In how many" in text)
    asked = re.findall(r"How many (\w+) ", text)
    index = names.index(asked[0]) if asked and asked[0] in names else 0
    if kind == "stacked":
        part = next(k for k, colour in enumerate(colours) if f"the {colour} part" in text)
        lines, parts = list[str](), list[int]()
        for name in re.findall(r"of (\w+)", text.partition("of the bars ")[2]):
            low = sum(values[k][names.index(name)] for k in range(part))
            parts.append(values[part][names.index(name)])
            lines.append(f"The {colours[part]} part of {name}: {low + parts[-1]} - {low} = {parts[-1]}")
        return "\n".join([*lines, added(parts)])
    if len(colours) > 1:
        row = next(row for colour, row in zip(colours, values, strict=True) if f"all {colour} bars" in text)
        return f"The bars: {listed(f'{name} {value}' for name, value in zip(names, row, strict=True))}. {added(row)}"
    bars = [f"{name} {value}" for name, value in zip(names, values[0], strict=True)]
    if "all together" not in text:
        return f"The bar of {names[index]} ends at {values[0][index]} on the axis."
    higher = [value for value in values[0] if value > values[0][0]]
    return f"The bars: {listed(bars)}. Higher than {values[0][0]}: {added(higher) if higher else 'none, 0'}"


def two_lines(names: Sequence[str], colours: Sequence[str], values: Sequence[Sequence[int]], above: bool) -> str:
    """Month by month which of two lines is higher, or how far they are apart."""
    months = list(zip(names, *values, strict=True))
    if above:
        over = [name for name, a, b in months if a > b]
        shown = listed(f"{name} {a} and {b}" for name, a, b in months)
        return f"{colours[0]} and {colours[1]}: {shown}. {colours[0]} is above in {in_a_row(over) if over else 'none'}."
    return f"{colours[0]} and {colours[1]} apart: " + listed(f"{name} {abs(a - b)}" for name, a, b in months) + "."


# figures on a grid


def squares(cells: Sequence[Cell]) -> str:
    """How many squares each row has, from the top."""
    rows = sorted({y for _, y in cells}, reverse=True)
    return f"The rows from the top have {added([sum(y == row for _, y in cells) for row in rows])} squares."


def polygon(corners: Sequence[Cell]) -> str:
    """The shoelace formula on the corners."""
    terms = [a[0] * b[1] - b[0] * a[1] for a, b in pairwise([*corners, corners[0]])]
    products = listed(
        f"{a[0]}*{b[1]} - {b[0]}*{a[1]} = {t}"
        for (a, b), t in zip(pairwise([*corners, corners[0]]), terms, strict=True)
    )
    total = " + ".join(map(bracketed, terms))
    area = abs(sum(terms)) / 2
    return "\n".join([
        f"The corners in order, counted from the lower left: {listed(corners)}.",
        f"Products of neighbours: {products}.",
        f"{total} = {sum(terms)}, half of it without its sign is {area:g}.",
    ])  # fmt: skip


def mirrored(point: Cell, line: tuple[Cell, Cell], text: str) -> str:
    """How the point lies from the line or the centre, and on the other side."""
    (x, y), ((a, b), (c, d)) = point, line
    if (a, b) == (c, d):
        right, up = x - a, y - b
        clockwise = "counterclockwise" not in text
        turned = (up, -right) if clockwise else (-up, right)
        image = f"{a} + {bracketed(turned[0])} = {a + turned[0]}, {b} + {bracketed(turned[1])} = {b + turned[1]}"
        return (
            f"From ({a}, {b}) the point ({x}, {y}) lies {right} to the right and {up} up (a minus: left, down).\n"
            f"Turned it lies {turned[0]} to the right and {turned[1]} up: {image}."
        )
    if a == c:
        return f"The line is x = {a}, the point ({x}, {y}): 2*{a} - {x} = {2 * a - x}, and y stays {y}."
    if b == d:
        return f"The line is y = {b}, the point ({x}, {y}): x stays {x}, and 2*{b} - {y} = {2 * b - y}."
    if (c - a) * (d - b) > 0:
        shift = b - a
        if not shift:
            return f"The line is y = x, the point ({x}, {y}): x and y change roles."
        sign, back = ("+", "-") if shift > 0 else ("-", "+")
        return (
            f"The line is y = x {sign} {abs(shift)}, the point ({x}, {y}); x and y change roles: "
            f"{y} {back} {abs(shift)} = {y - shift}, {x} {sign} {abs(shift)} = {x + shift}."
        )
    total = a + b
    return (
        f"On the line x + y = {total}, the point is ({x}, {y}); x and y change roles: {total} - {y} = {total - y}, "
        f"{total} - {x} = {total - x}."
    )


def angles(labels: Sequence[str], outside: bool) -> str:
    """What the angles of the figure add up to, and what is left for the one that is asked for."""
    degrees = [int(label.removesuffix("°")) for label in labels if label != "x"]
    total = 180 * (len(labels) - 2)
    left = total - sum(degrees)
    rest = f"{total} - ({' + '.join(map(str, degrees))}) = {left}"
    lines = [f"The {len(labels)} angles of the figure add up to {total}: {rest}"]
    return "\n".join([*lines, f"x is beside it on a straight line: 180 - {left} = {180 - left}"] if outside else lines)


# ways


def shortest_way(graph: Any, letters: str, lengths: Sequence[dict[int, int]], answer: str) -> str:
    """The distances from the start, nearest nodes first, each with the node before."""
    waiting, done, lines = [(0, graph.start, graph.start)], dict[int, int](), list[str]()
    while waiting and graph.goal not in done:
        length, node, before = heapq.heappop(waiting)
        if node in done:
            continue
        done[node] = length
        if node != graph.start:
            step = lengths[before][node]
            lines.append(f"{letters[node]} from {letters[before]}: {done[before]} + {step} = {length}")
        for end, more in lengths[node].items():
            heapq.heappush(waiting, (length + more, end, node))
    way = [letters.index(name) for name in answer.split(", ")]
    total = added([lengths[start][end] for start, end in pairwise(way)])
    return "\n".join([f"Nearest to {letters[graph.start]} first:", *lines, f"The way {answer}: {total}"])


def maze_way(start: Cell, answer: str) -> str:
    """Each straight part of the way, with the row and column where it ends."""
    steps = {"U": (-1, 0, "up"), "D": (1, 0, "down"), "L": (0, -1, "left"), "R": (0, 1, "right")}
    row, column = start
    lines = [f"The red disc is in row {row + 1}, column {column + 1}."]
    for match in re.finditer(r"(.)\1*", answer):
        dy, dx, name = steps[match[1]]
        count = len(match[0])
        row, column = row + dy * count, column + dx * count
        lines.append(f"{count} {name} to row {row + 1}, column {column + 1}: {match[0]}")
    return "\n".join(lines)
