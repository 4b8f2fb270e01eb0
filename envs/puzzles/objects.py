"""Shapes of grids changed by an unknown rule, in the manner of ARC (Chollet, arXiv 1911.01547).

All rules of a closed family that fit the examples give the one answer.

Observation: the family of rules, grids before and after one of them, and one more grid to change.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import ClassVar

from rlvr.envs.puzzles.shading import Cell, beside
from rlvr.envs.tasks.answers import Board
from rlvr.envs.tasks.questions import Question
from rlvr.envs.tasks.wording import counted

Shape = frozenset[Cell]
Scene = tuple[str, ...]


def shapes_of(scene: Scene) -> list[tuple[str, Shape]]:
    """The connected groups of equal symbols other than 0, by their sides: symbol and cells."""
    left = {(r, c): symbol for r, row in enumerate(scene) for c, symbol in enumerate(row) if symbol != "0"}
    shapes = []
    while left:
        start, symbol = left.popitem()
        cells, stack = {start}, [start]
        while stack:
            for near in beside(*stack.pop()):
                if left.get(near) == symbol:
                    del left[near]
                    cells.add(near)
                    stack.append(near)
        shapes.append((symbol, frozenset(cells)))
    return sorted(shapes, key=lambda shape: min(shape[1]))


def painted(size: int, shapes: Iterable[tuple[str, Iterable[Cell]]]) -> Scene:
    rows = [["0"] * size for _ in range(size)]
    for symbol, cells in shapes:
        for r, c in cells:
            if 0 <= r < size and 0 <= c < size:
                rows[r][c] = symbol
    return tuple("".join(row) for row in rows)


def extent(cells: Iterable[Cell]) -> tuple[int, int, int, int]:
    rows, columns = zip(*cells, strict=True)
    return min(rows), max(rows), min(columns), max(columns)


def boxed(cells: Shape) -> Shape:
    top, bottom, left, right = extent(cells)
    return frozenset((r, c) for r in range(top, bottom + 1) for c in range(left, right + 1))


def mirrored(cells: Shape) -> Shape:
    _, _, left, right = extent(cells)
    return frozenset((r, left + right - c) for r, c in cells)


def upturned(cells: Shape) -> Shape:
    top, bottom, _, _ = extent(cells)
    return frozenset((top + bottom - r, c) for r, c in cells)


def moved(dy: int, dx: int) -> Callable[[Shape], Shape]:
    return lambda cells: frozenset((r + dy, c + dx) for r, c in cells)


def whole(cells: Shape) -> Shape:
    return cells


CHOICES: dict[str, Callable[[Shape], int]] = {  # which shapes, told by a number for each: those with the largest number
    "all": lambda cells: 0,
    "the largest": len,
    "the smallest": lambda cells: -len(cells),
    "the tallest": lambda cells: extent(cells)[1] - extent(cells)[0],
    "the widest": lambda cells: extent(cells)[3] - extent(cells)[2],
    "the highest": lambda cells: -extent(cells)[0],
    "the leftmost": lambda cells: -extent(cells)[2],
}
CHANGES: dict[str, Callable[[Shape], Shape]] = {
    "mirrored left to right in place": mirrored,
    "mirrored top to bottom in place": upturned,
    "filled to the smallest rectangle around it": boxed,
    "moved one up": moved(-1, 0),
    "moved one down": moved(1, 0),
    "moved one left": moved(0, -1),
    "moved one right": moved(0, 1),
    "emptied of the cells whose four neighbours belong to it": lambda cells: frozenset(
        cell for cell in cells if not all(near in cells for near in beside(*cell))
    ),
}
COLOURS = ("1", "2", "3", "4")
MEASURED: dict[str, Callable[[Shape], str]] = {  # what a shape is compared by
    "the largest": lambda cells: counted(len(cells), "cell"),
    "the smallest": lambda cells: counted(len(cells), "cell"),
    "the tallest": lambda cells: counted(extent(cells)[1] - extent(cells)[0] + 1, "row"),
    "the widest": lambda cells: counted(extent(cells)[3] - extent(cells)[2] + 1, "column"),
    "the highest": lambda cells: f"from row {extent(cells)[0] + 1} on",
    "the leftmost": lambda cells: f"from column {extent(cells)[2] + 1} on",
}
KEPT = ("kept", "mirrored left to right in place", "filled to the smallest rectangle around it")
Rule = tuple[
    str, str, str
]  # which shapes, how they change (or "kept"), what they become (a symbol, "0", "same", "alone")


@cache
def object_rules(level: int) -> tuple[Rule, ...]:
    """Level 1: a shape is changed; 2: chosen ones are recoloured; 3: only they stay; 4: changed; 5: both."""
    some = [name for name in CHOICES if name != "all"]
    if level == 1:
        return tuple(("all", change, "same") for change in CHANGES)
    if level == 2:
        return tuple((name, "kept", colour) for name in some for colour in (*COLOURS, "0"))
    if level == 3:
        return tuple((name, change, "alone") for name in some for change in KEPT)
    if level == 4:
        return tuple((name, change, "same") for name in some for change in CHANGES)
    return tuple((name, change, colour) for name in some for change in CHANGES for colour in COLOURS)


def changed(rule: Rule, shapes: list[tuple[str, Shape]], size: int) -> Scene | None:
    """The scene after a rule; None where two shapes tie for being chosen."""
    which, change, becomes = rule
    measure = [CHOICES[which](cells) for _, cells in shapes]
    largest = max(measure)
    if which != "all" and measure.count(largest) > 1:
        return None
    alter = CHANGES.get(change, whole)
    kept, new = [], []
    for (symbol, cells), value in zip(shapes, measure, strict=True):
        if value != largest:
            kept.append((symbol, cells))
        else:
            new.append((symbol if becomes in ("same", "alone") else becomes, alter(cells)))
    return painted(size, [*([] if becomes == "alone" else kept), *new])


def _one_of(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _cells(cells: Iterable[Cell]) -> str:
    return " ".join(f"({r + 1},{c + 1})" for r, c in sorted(cells))


def in_words(rule: Rule) -> str:
    """A rule as a sentence."""
    which, change, becomes = rule
    done = [] if change == "kept" else [change]
    if becomes in COLOURS:
        done.append(f"written as {becomes}")
    done += ["taken away"] if becomes == "0" else []
    what = f"is {' and '.join(done)}" if done else "stays as it is"
    others = ", and the others vanish" if becomes == "alone" else ""
    return f"The rule: {'each shape' if which == 'all' else which + ' shape'} {what}{others}."


def working(rule: Rule, scenes: list[tuple[list[tuple[str, Shape]], Scene]]) -> str:
    """The rule, and what it does in each of the grids: which shape it takes, and the cells that come of it."""
    which, change, becomes = rule
    measure, alter = CHOICES[which], CHANGES.get(change, whole)
    lines = [in_words(rule), "Cells are (row,column)."]
    for number, (shapes, result) in enumerate(scenes, 1):
        largest = max(measure(cells) for _, cells in shapes)
        facts = []
        for symbol, cells in shapes:
            fact = f"{symbol} at {_cells(cells)}"
            facts.append(f"{fact}, {MEASURED[which](cells)}" if which != "all" else fact)
        lines.append(f"Input {number}: {'; '.join(facts)}.")
        taken = [(symbol, cells) for symbol, cells in shapes if measure(cells) == largest]
        for symbol, cells in taken:
            now = [(r, c) for r, c in alter(cells) if 0 <= r < len(result) and 0 <= c < len(result)]
            new = symbol if becomes in ("same", "alone") else becomes
            chosen = f"{symbol} at {_cells([min(cells)])}"
            chosen = chosen if which == "all" else f"{which[:1].upper()}{which[1:]}, {chosen},"
            lines.append(f"{chosen} {'vanishes' if new == '0' else f'becomes {new} at {_cells(now)}'}.")
        if number < len(scenes):
            lines[-1] = f"{lines[-1][:-1]}, as in output {number}."
    return "\n".join(lines)


class ObjectTransformation(Board):
    """Find the rule that changes the shapes of a grid, and apply it.

    Level 1: all shapes change; 2: chosen ones get another symbol; 3: only they stay; 4: they change; 5: both.

    To prove the answer unique, every rule of the level (8 to 192) is tried on every example, which takes more than 1 ms
    at levels 4 and 5: fewer than 1,000 are made in a CPU-second there.
    """

    symbols: ClassVar[str] = "01234"

    def ask(self, rng: random.Random, level: int) -> Question:
        """Three examples and a test; draws again until every rule of the level that fits gives one output.

        Operations are the cells of a grid, for each choice of the rule: of a shape, a change and a symbol.
        """
        size, candidates = (7, 7, 8, 8, 9)[level - 1], object_rules(level)
        while True:
            rule = rng.choice(candidates)
            scenes: list[tuple[list[tuple[str, Shape]], Scene, Scene]] = []
            for _ in range(40):
                scene = self.scene(rng, size, 3 + level // 4)
                shapes = shapes_of(scene)
                result = changed(rule, shapes, size)
                if result is not None and result != scene:
                    scenes.append((shapes, scene, result))
                if len(scenes) == 4:
                    break
            else:
                continue
            *examples, (last, _, gold) = scenes
            fitting = [r for r in candidates if all(changed(r, shapes, size) == y for shapes, _, y in examples)]
            if all(changed(r, last, size) == gold for r in fitting):
                break
        shown = [
            f"Input {n}:\n" + "\n".join(x) + f"\nOutput {n}:\n" + "\n".join(y)
            for n, (_, x, y) in enumerate(scenes[:3], 1)
        ]
        text = "One rule turns each input into its output. Equal symbols other than 0 that share sides are a shape. "
        text += f"{self.stated(level)}\n" + "\n".join(shown) + "\nInput 4:\n" + "\n".join(scenes[3][1])
        return Question(
            f"{text}\nWhat is output 4? Answer with its rows, one per line.",
            gold,
            working(rule, [(shapes, result) for shapes, _, result in scenes]),
            operations=(rule[0] != "all", level != 2, level in (2, 5)).count(True) * size * size,
        )

    @staticmethod
    def stated(level: int) -> str:
        """The rules of ``object_rules``, in words."""
        some, changes = _one_of([name for name in CHOICES if name != "all"]), _one_of(list(CHANGES))
        colours = _one_of(list(COLOURS))
        if level == 1:
            return f"The rule changes each shape, always in the same way: it is {changes}. All else is 0."
        chosen = f"The rule chooses one shape, always by the same property: it is {some}. No other shape ties with it. "
        if level == 2:
            return f"{chosen}It gets one symbol, the same in all grids ({colours}), or vanishes; the others stay."
        if level == 3:
            few = f"as it was, {KEPT[1]} or {KEPT[2]}"
            return f"{chosen}It alone is left, always in the same way: {few}."
        chosen += f"It is changed, always in the same way: {changes}. "
        if level == 5:
            chosen += f"It also gets one symbol, the same in all grids ({colours}). "
        return f"{chosen}The others stay, and where they meet it lies on top of them."

    @staticmethod
    def scene(rng: random.Random, size: int, count: int) -> Scene:
        """Shapes of different symbols or apart from each other, none at the border."""
        cells: dict[Cell, str] = {}
        for _ in range(count):
            symbol = COLOURS[int(rng.random() * 4)]
            start = (1 + int(rng.random() * (size - 2)), 1 + int(rng.random() * (size - 2)))
            shape = [start]
            for _ in range(2 + int(rng.random() * 6)):
                r, c = beside(*shape[int(rng.random() * len(shape))])[int(rng.random() * 4)]
                if 0 < r < size - 1 and 0 < c < size - 1:
                    shape.append((r, c))
            around = {near for cell in shape for near in (*beside(*cell), cell)}
            if around.isdisjoint(cells):
                cells.update(dict.fromkeys(shape, symbol))
        return painted(size, [(symbol, [cell]) for cell, symbol in cells.items()])
