"""Rows of named values: choosing, ordering, grouping, joining, printing."""

from operator import itemgetter

from rlvr.envs.agentic.repository_texts.wrapping import columns, pad


def where(rows: list[dict[str, str]], name: str, low: str, high: str) -> list[dict[str, str]]:
    """The rows whose value of a column is from low to high, both included."""
    return [row for row in rows if low <= row[name] <= high]


def ordered(rows: list[dict[str, int]], names: list[str]) -> list[dict[str, int]]:
    """The rows by the values of columns; a name with a "-" before it counts downwards. Equal rows stay in order.

    The list that is given is not changed.
    """
    result = list(rows)
    for name in reversed(names):
        result.sort(key=itemgetter(name.removeprefix("-")), reverse=name.startswith("-"))
    return result


def grouped(rows: list[dict[str, int]], key: str, name: str) -> dict[int, list[int]]:
    """For each value of the column key, the values of the column name, in the order of the rows."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row[name])
    return groups


def joined(left: list[dict[str, int]], right: list[dict[str, int]], key: str) -> list[dict[str, int]]:
    """Each row of left with the columns of the first row of right of the same key; those without one are left out.

    A column that both have keeps the value of left.
    """
    index: dict[int, dict[str, int]] = {}
    for row in right:
        if row[key] not in index:
            index[row[key]] = row
    return [{**index[row[key]], **row} for row in left if row[key] in index]


def ranked(scores: dict[str, int]) -> list[tuple[int, str]]:
    """Places and names, the highest score first; equal scores share a place, and the next place is left out."""
    names = sorted(scores, key=lambda name: (-scores[name], name))
    ranks: list[tuple[int, str]] = []
    for index, name in enumerate(names):
        if index > 0 and scores[name] == scores[names[index - 1]]:
            ranks.append((ranks[-1][0], name))
        else:
            ranks.append((index + 1, name))
    return ranks


def printed(rows: list[dict[str, int]], names: list[str]) -> list[str]:
    """The rows as lines under a heading: numbers right-aligned, a dash for what is missing."""
    widths = [max([len(name), *(len(str(row.get(name, "-"))) for row in rows)]) for name in names]
    lines = [names]
    for row in rows:
        cells = [str(row.get(name, "-")) for name in names]
        lines.append([pad(cell, width, "right") for cell, width in zip(cells, widths, strict=True)])
    return columns(lines, 2)


MODULE = ("tables", "rows", "grids")
ALIASES = {
    "ordered": ("order_rows",),
    "grouped": ("group_values",),
    "joined": ("join_rows",),
    "ranked": ("rank_scores", "standings"),
    "printed": ("table_lines",),
}
SCENARIOS = (
    "[row['n'] for row in where([{'n': word} for word in <6*w>], 'n', '<a|c|e>', '<k|m|p>')]",
    "where([{'n': 'b'}, {'n': 'd'}, {'n': 'f'}], 'n', '<a|b|c>', '<d|e|f>')",
    "ordered([{'a': n % 3, 'b': n} for n in <6*1..30>], ['<|->a', '<|->b'])",
    "rows = [{'a': n} for n in <4*1..30>]\nordered(rows, ['a'])\nrows",
    "grouped([{'k': n % <2..4>, 'v': n} for n in <7*1..30>], 'k', 'v')",
    "joined([{'k': n, 'l': n * 2} for n in <4*1..6>], [{'k': n, 'r': n + 5} for n in <5*1..6>], 'k')",
    "joined([{'k': 1, 'v': <1..9>}], [{'k': 1, 'v': <11..19>, 'w': 0}, {'k': 1, 'w': <2..9>}], 'k')",
    "ranked(dict(zip(<6*w>, <6*1..4>)))",
    "ranked(dict(zip(<4*w>, <4*1..30>)))",
    "printed([{'a': <1..999>, 'bb': <1..9>}, {'a': <1..9>}], ['a', 'bb'])",
)
