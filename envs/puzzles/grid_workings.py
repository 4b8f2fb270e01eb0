"""The working of experts on grids of numbers and marks: what is forced, or the check of every clue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from rlvr.envs.puzzles.workings import STEPS
from rlvr.envs.tasks.answers import listed
from rlvr.envs.tasks.questions import Question
from rlvr.envs.tasks.wording import added, in_a_row

Cell = tuple[int, int]


def digits(answer: str) -> list[list[int]]:
    """The rows of a grid of digits."""
    return [[int(symbol) for symbol in row] for row in answer.split("\n")]


def at(cell: Cell) -> str:
    """``row 2, column 3`` for a cell whose rows and columns count from 0."""
    return f"row {cell[0] + 1}, column {cell[1] + 1}"


# Latin squares


def futoshiki(state: Question) -> str:
    """The grid, and each sign with its two numbers."""
    _, (_, signs) = state.answer
    grid = digits(state.answer_text)
    shown = [f"({a + 1},{b + 1}) < ({c + 1},{d + 1}): {grid[a][b]} < {grid[c][d]}" for (a, b), (c, d) in signs]
    return f"The grid {' '.join(state.answer_text.split())} holds each number once in a line. {'; '.join(shown)}."


def skyscrapers(state: Question) -> str:
    """For each row and column the buildings that are seen from both ends."""
    grid = digits(state.answer_text)
    lines = []
    for kind, rows, ends in (
        ("Row", grid, ("from the left", "from the right")),
        ("Column", [list(column) for column in zip(*grid, strict=True)], ("from above", "from below")),
    ):
        for number, row in enumerate(rows, 1):
            views = [
                f"{end} {in_a_row([str(n) for k, n in enumerate(line) if n > max(line[:k], default=0)])}"
                for end, line in zip(ends, (row, row[::-1]), strict=True)
            ]
            lines.append(f"{kind} {number} is {' '.join(map(str, row))}: seen {'; '.join(views)}")
    return "\n".join(lines)


def cage_letters(text: str) -> list[str]:
    """The picture of the cages, a letter for each cell."""
    return re.findall(r"^\w+$", text.partition("are a cage:\n")[2], re.M)


def calcudoku(state: Question) -> str:
    """Each cage with its numbers and its value."""
    _, clues = state.answer
    grid, picture = digits(state.answer_text), cage_letters(state.text)
    lines = []
    for cage, operation, value in clues:
        numbers = sorted((grid[r][c] for r, c in cage), reverse=True)
        term = f" {operation} ".join(map(str, numbers))
        name = picture[cage[0][0]][cage[0][1]]
        lines.append(f"{name}: {term} = {value}" if len(numbers) > 1 else f"{name}: {value}")
    return "\n".join([*lines, f"No line of {', '.join(state.answer_text.split())} holds a number twice."])


def killer_sudoku(state: Question) -> str:
    """Each cage with its numbers and their sum."""
    _, (_, _, sums) = state.answer
    grid, picture = digits(state.answer_text), cage_letters(state.text)
    cages = [f"{picture[cage[0][0]][cage[0][1]]}: {added([grid[r][c] for r, c in cage])}" for cage, _ in sums]
    rows = ", ".join(state.answer_text.split())
    return f"The cages: {'; '.join(cages)}.\nNo row, column or box of {rows} holds a number twice."


Unit = tuple[str, list[Cell]]
Numbers = dict[Cell, set[str]]


def sudoku_units(size: int, box: tuple[int, int]) -> list[Unit]:
    """The rows, columns and boxes of a grid."""
    height, width = box
    units = [("row", [(k, c) for c in range(size)]) for k in range(size)]
    units += [("column", [(r, k) for r in range(size)]) for k in range(size)]
    return units + [
        ("box", [(r + y, c + x) for y in range(height) for x in range(width)])
        for r in range(0, size, height) for c in range(0, size, width)
    ]  # fmt: skip


def placed(left: Numbers, units: Sequence[Unit], cell: Cell, number: str) -> None:
    """Writes a number into a cell: no other cell of its row, column and box may hold it."""
    for _, unit in units:
        if cell in unit:
            for other in unit:
                if other in left:
                    left[other].discard(number)
    left.pop(cell, None)


def forced(left: Numbers, units: Sequence[Unit], size: int) -> tuple[Cell, str, str] | None:
    """A cell that can hold one number only, or is the only one for it in a row, column or box, and why."""
    for cell, numbers in left.items():
        if len(numbers) == 1:
            return cell, next(iter(numbers)), "the only number left"
    for kind, unit in units:
        for number in "123456789"[:size]:
            fitting = [cell for cell in unit if number in left.get(cell, ())]
            if len(fitting) == 1:
                return fitting[0], number, f"the only cell for it in the {kind}"
    return None


def refutation(left: Numbers, units: Sequence[Unit], size: int, cell: Cell, number: str) -> list[str] | None:
    """What a number in a cell forces, until a cell has no number left; None if that does not come to pass."""
    trial = {other: set(numbers) for other, numbers in left.items()}
    placed(trial, units, cell, number)
    steps = list[str]()
    while True:
        if empty := next((other for other, numbers in trial.items() if not numbers), None):
            return [*steps, f"no number is left for ({empty[0] + 1},{empty[1] + 1})"]
        forced_cells = forced(trial, units, size)
        if forced_cells is None:
            return None
        other, then, _ = forced_cells
        steps.append(f"({other[0] + 1},{other[1] + 1}) is {then}")
        placed(trial, units, other, then)


def sudoku(rows: Sequence[str], solution: Sequence[str], box: tuple[int, int]) -> str:
    """Cells that can hold one number only, one after another; else a number is ruled out by what it leads to."""
    size = len(rows)
    units = sudoku_units(size, box)
    left = {(r, c): set("123456789"[:size]) for r in range(size) for c in range(size)}
    for cell in list(left):
        if rows[cell[0]][cell[1]] != ".":
            placed(left, units, cell, rows[cell[0]][cell[1]])
    steps = [f"Given: {' '.join(rows)}. As (row,column):"]
    while left:
        if forced_cells := forced(left, units, size):
            cell, number, why = forced_cells
            placed(left, units, cell, number)
            steps.append(f"({cell[0] + 1},{cell[1] + 1}) is {number}: {why}.")
            continue
        refuted = [
            (len(proof), cell, number, proof)
            for cell in sorted(left, key=lambda cell: (len(left[cell]), cell))[:12]
            for number in sorted(left[cell])
            if (proof := refutation(left, units, size, cell, number)) is not None
        ]
        if not refuted:
            grid = " ".join(solution)
            steps.append(f"Checked for the rest: {grid} has each of 1 to {size} in every row, column and box.")
            break
        _, cell, number, proof = min(refuted)
        left[cell].discard(number)
        steps.append(f"({cell[0] + 1},{cell[1] + 1}) is not {number}: otherwise {in_a_row(proof)}.")
    return "\n".join(steps)


# numbers in tables


def kakuro(state: Question) -> str:
    """Each run with its digits."""
    _, clues = state.answer
    grid = state.answer_text.split("\n")
    lines = []
    for run, _ in clues:
        (a, b), (c, d) = run[0], run[-1]
        where = f"Row {a + 1}, columns {b + 1}-{d + 1}" if a == c else f"Column {b + 1}, rows {a + 1}-{c + 1}"
        lines.append(f"{where}: {added([int(grid[y][x]) for y, x in run])}")
    return "\n".join(lines)


def sums_of_table(state: Question) -> str:
    """The sum of each row and column of the table."""
    table = [[int(number) for number in row.split()] for row in state.answer_text.split("\n")]
    lines = [f"Row {number}: {added(row)}" for number, row in enumerate(table, 1)]
    return "\n".join(
        [*lines, *(f"Column {number}: {added(column)}" for number, column in enumerate(zip(*table, strict=True), 1))]
    )


def cryptarithm(state: Question) -> str:
    """The sum column by column from the right, with what is carried."""
    words, total, _, _ = state.answer
    value = {part[0]: int(part[2]) for part in state.answer_text.split(", ")}
    lines, carry = [], 0
    for k in range(1, len(total) + 1):
        letters = [word[-k] for word in words if k <= len(word)]
        numbers = [value[letter] for letter in letters] + [carry] * bool(carry)
        before = " + ".join([*letters, *[str(carry)] * bool(carry)]) if letters else "Carried"
        carry, digit = divmod(sum(numbers), 10)
        more = f", carry {carry}" if carry else ""
        lines.append(f"{before}: {added(numbers)}, write {total[-k]} = {digit}{more}")
    shown = [int("".join(str(value[letter]) for letter in word)) for word in (*words, total)]
    return "\n".join([*lines, f"{' + '.join(words)} = {total}: {' + '.join(map(str, shown[:-1]))} = {shown[-1]}"])


def magic_square(text: str) -> str:
    """The sum of a line without gaps, then each gap that is alone in a line."""
    rows = [line.split() for line in text.split("\n")[1:-1]]
    size = len(rows)
    lines_of = {f"row {k + 1}": [(k, i) for i in range(size)] for k in range(size)}
    lines_of |= {f"column {k + 1}": [(i, k) for i in range(size)] for k in range(size)}
    lines_of |= {
        "one diagonal": [(i, i) for i in range(size)],
        "the other diagonal": [(i, size - 1 - i) for i in range(size)],
    }
    value = {(r, c): int(rows[r][c]) for r in range(size) for c in range(size) if rows[r][c] != "?"}
    name, full = next((name, line) for name, line in lines_of.items() if all(cell in value for cell in line))
    total = sum(value[cell] for cell in full)
    steps = [f"The sum, in {name}: {added([value[cell] for cell in full])}"]
    while len(value) < size * size:
        name, line, gap = next(
            (name, line, gaps[0])
            for name, line in lines_of.items()
            if len(gaps := [cell for cell in line if cell not in value]) == 1
        )
        others = [value[cell] for cell in line if cell != gap]
        value[gap] = total - sum(others)
        steps.append(f"{at(gap).capitalize()}, in {name}: {total} - ({' + '.join(map(str, others))}) = {value[gap]}")
    return "\n".join(steps)


# lines of marks


class LineClue(NamedTuple):
    """Which fillings of a row or column fit, and what the question says of it."""

    fits: Callable[[str], bool]
    text: str = ""


Lines = Sequence[tuple[str, Sequence[Cell]]]  # the name of each row and column, and its cells
Fitting = dict[str, list[str]]  # for each line the fillings that are left


def forced_by_lines(grid: list[list[str]], fitting: Fitting, lines: Lines) -> tuple[list[str], str]:
    """Writes into the grid what all fillings of a line have in common; the steps, and a line that has none left."""
    steps: list[str] = []
    changed = True
    while changed:
        changed = False
        for name, cells in lines:
            before = "".join(grid[r][c] for r, c in cells)
            fitting[name] = [w for w in fitting[name] if all(a in (".", b) for a, b in zip(before, w, strict=True))]
            if not fitting[name]:
                return steps, name
            if "." not in before:
                continue
            after = "".join(
                next(iter(s)) if len(s := set(column)) == 1 else "." for column in zip(*fitting[name], strict=True)
            )
            if after != before:
                changed = True
                steps.append(f"{name}: {before} to {after}")
                for (r, c), symbol in zip(cells, after, strict=True):
                    grid[r][c] = symbol
    return steps, ""


def searched_by_lines(
    grid: list[list[str]], fitting: Fitting, lines: Lines
) -> tuple[list[list[str]] | None, list[str]]:
    """A filled grid, or None, and how it was found: what is forced, what is refuted at once, then what is tried."""
    steps: list[str] = []
    while True:
        more, failed = forced_by_lines(grid, fitting, lines)
        steps += more
        if failed:
            return None, [*steps, f"No filling is left for {_lowered(failed)}."]
        cells = [(r, c) for r, row in enumerate(grid) for c, symbol in enumerate(row) if symbol == "."]
        if not cells:
            return grid, steps
        if not (refuted := _refuted(grid, fitting, lines, cells)):
            break
        (r, c), symbol, why = refuted
        grid[r][c] = "10"[int(symbol)]
        steps.append(f"Say {symbol} at {at((r, c))}: {why}. So {grid[r][c]} stands there.")
    r, c = cells[0]
    for symbol in "10":
        trial = [list(row) for row in grid]
        trial[r][c] = symbol
        solution, more = searched_by_lines(trial, dict(fitting), lines)
        steps += [f"Try {symbol} at {at((r, c))}.", *more]
        if solution:
            return solution, steps
    return None, steps


def _refuted(
    grid: list[list[str]], fitting: Fitting, lines: Lines, cells: Sequence[Cell]
) -> tuple[Cell, str, str] | None:
    """A cell and a symbol after which the lines force what fits nowhere, and how."""
    for r, c in cells:
        for symbol in "10":
            trial = [list(row) for row in grid]
            trial[r][c] = symbol
            steps, failed = forced_by_lines(trial, dict(fitting), lines)
            if failed:
                return (r, c), symbol, "; ".join([*steps, f"no filling is left for {_lowered(failed)}"])
    return None


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def solved_by_lines(
    rows: Sequence[LineClue], columns: Sequence[LineClue], givens: Sequence[str]
) -> tuple[str, tuple[str, ...]]:
    """How the lines fill a grid, and its rows then.

    Raises:
        ValueError: no grid fits all lines.
    """
    height, width = len(rows), len(columns)
    named = [(f"Row {r + 1}{clue.text}", clue.fits, [(r, c) for c in range(width)]) for r, clue in enumerate(rows)]
    named += [
        (f"Column {c + 1}{clue.text}", clue.fits, [(r, c) for r in range(height)]) for c, clue in enumerate(columns)
    ]
    fitting = {
        name: [w for w in map("".join, product("01", repeat=len(cells))) if fits(w)] for name, fits, cells in named
    }
    solution, steps = searched_by_lines(
        [list(row) for row in givens], fitting, [(name, cells) for name, _, cells in named]
    )
    if solution is None:
        raise ValueError("no grid fits these lines")
    return "\n".join(steps), tuple("".join(row) for row in solution)


def nonogram(state: Question) -> tuple[str, tuple[str, ...]]:
    """What the groups of each line leave open, line after line, and the rows that this comes to."""
    across, down = state.answer

    def line_clue(groups: tuple[int, ...]) -> LineClue:
        return LineClue(
            lambda line: (tuple(len(group) for group in line.split("0") if group) or (0,)) == groups,
            f" ({' '.join(map(str, groups))})",
        )

    empty = ["." * len(down)] * len(across)
    steps, filled = solved_by_lines([line_clue(c) for c in across], [line_clue(c) for c in down], empty)
    return f"1 is filled, 0 is not, a dot is open.\n{steps}", filled


def takuzu(state: Question) -> str:
    """What balance and the ban of three in a row leave open, line after line."""
    size = len(state.answer)

    def fits(line: str) -> bool:
        return line.count("1") * 2 == size and "000" not in line and "111" not in line

    clues = [LineClue(fits)] * size
    return solved_by_lines(clues, clues, state.answer)[0]


def kakurasu(state: Question) -> tuple[str, tuple[str, ...]]:
    """What the sums leave open, line after line, and the rows that this comes to."""
    weights, across, down = state.answer
    size = len(across)

    def line_clue(numbers: Sequence[int], total: int) -> LineClue:
        def fits(line: str) -> bool:
            return sum(n for n, symbol in zip(numbers, line, strict=True) if symbol == "1") == total

        return LineClue(fits, f" ({total})")

    rows = [line_clue(weights[:size], total) for total in across]
    columns = [line_clue(weights[size:], total) for total in down]
    steps, filled = solved_by_lines(rows, columns, ["." * size] * size)
    sums = [
        f"Row {r}: {added([w for w, symbol in zip(weights[:size], row, strict=True) if symbol == '1'])}"
        for r, row in enumerate(filled, 1)
    ]
    return "\n".join([steps, *sums]), filled


# marked cells


def marked(answer: str) -> list[Cell]:
    return [(r, c) for r, row in enumerate(answer.split("\n")) for c, symbol in enumerate(row) if symbol == "1"]


def hitori(state: Question) -> str:
    """For each crossed-out cell where its number stands a second time."""
    shown, out = state.answer, marked(state.answer_text)
    lines = []
    for r, c in out:
        where = [f"column {k + 1} of its row" for k in range(len(shown)) if k != c and shown[r][k] == shown[r][c]]
        where += [f"row {k + 1} of its column" for k in range(len(shown)) if k != r and shown[k][c] == shown[r][c]]
        lines.append(f"Row {r + 1}, {shown[r]}, column {c + 1}: {shown[r][c]} stands in {in_a_row(where)} too.")
    return "\n".join([*lines, "No two of these cells share a side, and the others are connected."])


def paired(tents: Iterable[Cell], trees: Iterable[Cell]) -> dict[Cell, Cell]:
    """A tree beside it for as many tents as can have one of their own, by augmenting paths."""
    owner: dict[Cell, Cell | None] = dict.fromkeys(trees)

    def gets_tree(tent: Cell, tried: set[Cell]) -> bool:
        r, c = tent
        for tree in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if tree in owner and tree not in tried:
                tried.add(tree)
                before = owner[tree]
                if before is None or gets_tree(before, tried):
                    owner[tree] = tent
                    return True
        return False

    for tent in tents:
        gets_tree(tent, set())
    return {tent: tree for tree, tent in owner.items() if tent is not None}


def tents(state: Question) -> str:
    """For each row its tents and how many were asked for, and a tree beside each."""
    trees = {
        (r, c) for r, row in enumerate(re.findall(r"^[T.]+$", state.text, re.M)) for c, s in enumerate(row) if s == "T"
    }
    put = marked(state.answer_text)
    tree_of = paired(put, trees)
    lines = [f"As (row,column): {listed(f'tent {shown(t)} by tree {shown(tree_of[t])}' for t in put)}."]
    for name, index in (("rows", 0), ("columns", 1)):
        size = len(state.answer_text.split("\n"))
        lines.append(f"Tents in the {name}: {listed(sum(t[index] == k for t in put) for k in range(size))}.")
    return "\n".join(lines)


def shown(cell: Cell) -> str:
    return f"({cell[0] + 1},{cell[1] + 1})"


def akari(state: Question) -> str:
    """The lamps, and those beside each number."""
    lamps = marked(state.answer_text)
    lines = [f"As (row,column): lamps {listed(map(shown, lamps))}."]
    for r, row in enumerate(state.answer):
        for c, symbol in enumerate(row):
            if symbol.isdigit():
                near = [shown(lamp) for lamp in lamps if abs(lamp[0] - r) + abs(lamp[1] - c) == 1]
                lines.append(f"{symbol} at {shown((r, c))}: {listed(near) if near else 'none'}.")
    return "\n".join([*lines, "No two see each other, and together they see every cell."])


def norinori(state: Question) -> str:
    """The two cells of each region."""
    cells: dict[str, list[str]] = {}
    for r, c in marked(state.answer_text):
        cells.setdefault(state.answer[r][c], []).append(shown((r, c)))
    lines = [f"{name}: {listed(cells[name])}." for name in sorted(cells)]
    return "\n".join(["As (row,column):", *lines, "Each has exactly one marked cell beside it."])


def nurikabe(state: Question) -> str:
    """The cells of each island."""
    land = {(r, c) for r, row in enumerate(state.answer_text.split("\n")) for c, mark in enumerate(row) if mark == "0"}
    lines = []
    for r, row in enumerate(state.answer):
        for c, number in enumerate(row):
            if number != ".":
                island = [(r, c)]
                for y, x in island:
                    island += sorted(land.intersection(((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))) - {*island})
                lines.append(f"{number} at {shown((r, c))}: {listed(map(shown, sorted(island)))}.")
    return "\n".join(["As (row,column):", *lines, "The rest is water, in one piece and without a square of four."])


def shikaku(state: Question) -> str:
    """The rows and columns of each number's rectangle."""
    rows = state.answer_text.split("\n")
    lines = []
    for r, row in enumerate(state.answer):
        for c, number in enumerate(row):
            if number != ".":
                cells = [(y, x) for y, line in enumerate(rows) for x, name in enumerate(line) if name == rows[r][c]]
                (top, left), (bottom, right) = min(cells), max(cells)
                lines.append(
                    f"{rows[r][c]}, {number} at {shown((r, c))}: rows {top + 1} to {bottom + 1}, columns {left + 1} to "
                    f"{right + 1}: {bottom - top + 1} * {right - left + 1} = {number}."
                )
    return "\n".join(lines)


def star_battle(state: Question) -> str:
    """For each row the regions and columns that earlier rows leave, and the star."""
    stars = [int(column) for column in state.answer_text.split(", ")]
    lines = [
        f"Row {r}, {row}: column {star}, in region {row[star - 1]}."
        for r, (row, star) in enumerate(zip(state.answer, stars, strict=True), 1)
    ]
    apart = [f"{abs(a - b)}" for a, b in pairwise(stars)]
    return "\n".join([*lines, f"Columns from row to row differ by {listed(apart)}, so no two stars touch."])


def queens(state: Question) -> str:
    """For each queen the two diagonals, which differ for all of them."""
    columns = [int(column) for column in state.answer_text.split(", ")]
    lines = [
        f"Row {r}, {row}: column {c}; {r} + {c} = {r + c}, {r} - {c} = {r - c}"
        for r, (row, c) in enumerate(zip(state.answer, columns, strict=True), 1)
    ]
    return "\n".join([*lines, "No column, no sum and no difference stands there twice, so no two queens attack."])


# loops and paths


def slitherlink(state: Question) -> str:
    """How many sides of each cell lie between inside and outside, row by row."""
    inside = set(marked(state.answer_text))
    lines = []
    for r, row in enumerate(state.answer):
        counts = "".join(
            str(
                sum((cell in inside) != ((r, c) in inside) for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)))
            )
            for c in range(len(row))
        )
        lines.append(f"Row {r + 1}, given as {row}: inside {state.answer_text.split()[r]}, sides on the loop {counts}")
    return "\n".join([*lines, "Inside and outside are each connected, so the loop is one."])


def masyu(state: Question) -> str:
    """What the loop does in each circle, with the cells before and after it."""
    given = {(r, c): s for r, row in enumerate(state.answer) for c, s in enumerate(row) if s != "."}
    loop = [min(given)]
    for move in state.answer_text[:-1]:
        loop.append((loop[-1][0] + STEPS[move][0], loop[-1][1] + STEPS[move][1]))
    does = {"B": "turns, straight before and after", "W": "straight, with a turn before or after"}
    lines = [
        f"{kind} {shown(loop[k])}, between {shown(loop[k - 1])} and {shown(loop[(k + 1) % len(loop)])}: {does[kind]}."
        for k in range(len(loop)) if (kind := given.get(loop[k]))
    ]  # fmt: skip
    return "\n".join(["As (row,column), along the loop:", *lines])


def numberlink(state: Question) -> str:
    """The cells of each path."""
    ends: dict[str, list[Cell]] = {}
    for r, row in enumerate(state.answer):
        for c, name in enumerate(row):
            if name != ".":
                ends.setdefault(name, []).append((r, c))
    lines, count = [], 0
    for (name, (first, _)), moves in zip(sorted(ends.items()), state.answer_text.split(", "), strict=True):
        path = [first]
        for move in moves:
            path.append((path[-1][0] + STEPS[move][0], path[-1][1] + STEPS[move][1]))
        count += len(path)
        lines.append(f"{name}: {' '.join(map(shown, path))}, so {moves}")
    return "\n".join([*lines, f"These are {count} cells, all of {len(state.answer)} * {len(state.answer)} = {count}"])


def trail(state: Question) -> str:
    """Between each two given numbers the cells of those that were missing."""
    rows = [[int(n) for n in row.split()] for row in state.answer_text.split("\n")]
    cell = {n: (r, c) for r, row in enumerate(rows) for c, n in enumerate(row)}
    givens = sorted(n for row in state.answer for n in row if n)
    lines = []
    for a, b in pairwise(givens):
        if b - a > 1:
            way = " ".join(f"{n} {shown(cell[n])}" for n in range(a + 1, b))
            lines.append(f"From {a} {shown(cell[a])} to {b} {shown(cell[b])}: {way}")
    return "\n".join(["As (row,column):", *lines])


def bridges(state: Question) -> str:
    """For each island the bridges that end there."""
    parts = state.answer_text.split(", ")
    lines = []
    for _, name, _ in state.answer:
        here = [part for part in parts if name in part[:2]]
        lines.append(f"{name}: {in_a_row(here)}, {added([int(part[2]) for part in here])}")
    return "\n".join(lines)
