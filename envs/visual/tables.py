"""VisualTables: questions about a table that stands in the picture alone. The answer is in none of its cells."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from rlvr.envs.tasks.answers import listed
from rlvr.envs.visual.canvas import INK, UNITS, Canvas
from rlvr.envs.visual.visual_questions import VisualQuestions, VisualState

PEOPLE = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun")
SHAPES = ((4, 3), (5, 3), (6, 4), (7, 5), (8, 6))  # rows and columns of each level
TINTS = {"yellow": (255, 240, 140), "green": (190, 235, 190), "blue": (190, 215, 255)}
HEAD = (230, 230, 230)


class DrawnTable(NamedTuple):
    """``cells[row][column]``; ``tints`` names a colour for each cell, "" for none."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]
    tints: tuple[tuple[str, ...], ...]


class VisualTables(VisualQuestions):
    """Sums over a table. Level 1: of two cells of a column. 2: a column's total. 3: by how much one row's total exceeds
    another's. 4: what a column adds up to in the rows where another is above a bound. 5: the sum of the cells of one
    colour in some columns. Rows and columns stand in any order.
    """

    def ask(self, rng: random.Random, level: int) -> VisualState:
        """Draws tables until the answer stands in none of the cells, so that it cannot be copied."""
        while True:
            table = filled(rng, *SHAPES[level - 1], tinted=level == 5)
            text, answer, working, readings = QUESTIONS[level - 1](rng, table)
            if not any(answer in row for row in table.cells):
                return VisualState(table, text, str(answer), working, readings)

    def guess(self, state: VisualState, rng: random.Random) -> str:
        """From -99 to 99 where a difference is asked for, else from 20 to 500."""
        return str(rng.randint(-99, 99) if "exceed" in state.text else rng.randint(20, 500))

    def sketch(self, scene: DrawnTable, canvas: Canvas) -> None:
        """Every cell with its number, tinted at level 5 alone, below and beside the names."""
        wide, high = (UNITS - 16) / (len(scene.columns) + 1), min(38.0, (UNITS - 16) / (len(scene.rows) + 1))
        top = (UNITS - high * (len(scene.rows) + 1)) / 2
        for row in range(len(scene.rows) + 1):
            for column in range(len(scene.columns) + 1):
                left, upper = 8 + column * wide, top + row * high
                words, fill = "", None
                if row and column:
                    words, tint = str(scene.cells[row - 1][column - 1]), scene.tints[row - 1][column - 1]
                    fill = TINTS.get(tint)
                elif row or column:
                    words, fill = scene.rows[row - 1] if row else scene.columns[column - 1], HEAD
                canvas.box(left, upper, left + wide, upper + high, fill, INK)
                canvas.text((left + wide / 2, upper + high / 2), words, 14 if len(scene.columns) < 6 else 13)


def filled(rng: random.Random, height: int, width: int, tinted: bool) -> DrawnTable:
    rows, columns = rng.sample(PEOPLE[: height + 1], height), rng.sample(MONTHS[: max(width, 4)], width)
    cells = tuple(tuple(rng.randint(2, 99) for _ in columns) for _ in rows)
    tints = tuple(tuple(rng.choice(["", "", *TINTS]) if tinted else "" for _ in columns) for _ in rows)
    return DrawnTable(tuple(rows), tuple(columns), cells, tints)


TableQuestion = tuple[str, int, str, int]  # text, answer, working and the cells to be read


def two_cells(rng: random.Random, table: DrawnTable) -> TableQuestion:
    column = rng.randrange(len(table.columns))
    rows = sorted(rng.sample(range(len(table.rows)), 2), key=lambda row: table.rows[row])
    values = [table.cells[row][column] for row in rows]
    names = " and ".join(table.rows[row] for row in rows)
    return f"How much did {names} have in {table.columns[column]} together?", sum(values), added(values), 2


def column_total(rng: random.Random, table: DrawnTable) -> TableQuestion:
    column = rng.randrange(len(table.columns))
    values = [row[column] for row in table.cells]
    return (
        f"How much did all of them have in {table.columns[column]} together?",
        sum(values),
        added(values),
        len(values),
    )


def row_difference(rng: random.Random, table: DrawnTable) -> TableQuestion:
    first, second = rng.sample(range(len(table.rows)), 2)
    totals = sum(table.cells[first]), sum(table.cells[second])
    text = f"By how much does {table.rows[first]}'s total over all months exceed {table.rows[second]}'s? "
    text += "Write less with a minus sign."
    working = "\n".join(f"{table.rows[row]}: {added(list(table.cells[row]))}" for row in (first, second))
    return text, totals[0] - totals[1], working, 2 * len(table.columns)


def where_above(rng: random.Random, table: DrawnTable) -> TableQuestion:
    first, second = rng.sample(range(len(table.columns)), 2)
    bound = rng.choice((30, 40, 50, 60))
    above = [index for index, row in enumerate(table.cells) if row[first] > bound]
    values = [table.cells[index][second] for index in above]
    text = f"Take those who had more than {bound} in {table.columns[first]}. "
    text += f"How much did they have in {table.columns[second]} together?"
    names = listed(f"{table.rows[index]} {table.cells[index][first]}" for index in above) or "nobody"
    working = f"More than {bound} in {table.columns[first]}: {names}.\n{added(values)}"
    return text, sum(values), working, len(table.rows) + len(values)


def tinted_sum(rng: random.Random, table: DrawnTable) -> TableQuestion:
    tint, columns = rng.choice(tuple(TINTS)), sorted(rng.sample(range(len(table.columns)), 2))
    first, last = columns
    pairs = [
        (value, colour)
        for row, colours in zip(table.cells, table.tints, strict=True)
        for value, colour in zip(row[first : last + 1], colours[first : last + 1], strict=True)
    ]
    values = [value for value, colour in pairs if colour == tint]
    tinted = [
        listed([row[k] for row, colours in zip(table.cells, table.tints, strict=True) if colours[k] == tint])
        for k in range(first, last + 1)
    ]
    working = "; ".join(f"{table.columns[first + k]}: {numbers or 'none'}" for k, numbers in enumerate(tinted))
    text = f"What is the sum of the {tint} cells in the columns from {table.columns[first]} to {table.columns[last]}, "
    text += "these two and those that stand between them?"
    return text, sum(values), f"{working}.\n{added(values)}", len(pairs)


def added(values: list[int]) -> str:
    return f"{' + '.join(map(str, values)) or 'none'} = {sum(values)}"


QUESTIONS: tuple[Callable[[random.Random, DrawnTable], TableQuestion], ...] = (
    two_cells,
    column_total,
    row_difference,
    where_above,
    tinted_sum,
)
