"""Hitori with one solution: what is crossed out, and numbers that leave no other way. Cells are bits of one integer.

A grid has one solution where two things hold. What is crossed out is maximal: one more cell would touch another or
cut the rest in two, so no solution crosses out more. And no crossed-out cell can be kept: to suppose it leads to
cells that must go, cells that must stay, and in the end to two of these that cannot be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache

from rlvr.envs.puzzles.latin import latin_square

REPLACED = 12  # numbers that are replaced before another grid is begun, as a multiple of the rows


@cache
def neighbours(size: int) -> tuple[int, ...]:
    """For each cell, row by row, the cells that share a side with it."""
    cells = []
    for r in range(size):
        for c in range(size):
            near = [(r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)]
            cells.append(sum(1 << x * size + y for x, y in near if 0 <= x < size and 0 <= y < size))
    return tuple(cells)


@cache
def lines(size: int) -> tuple[int, ...]:
    """For each cell the others of its row and column."""
    row, column = (1 << size) - 1, sum(1 << r * size for r in range(size))
    return tuple((row << r * size | column << c) & ~(1 << r * size + c) for r in range(size) for c in range(size))


@cache
def _inner_columns(size: int) -> tuple[int, int]:
    """The cells that have one to their left, and to their right."""
    left = sum(1 << r * size + c for r in range(size) for c in range(1, size))
    return left, left >> 1


def connected(cells: int, size: int) -> bool:
    """Whether one can walk from any of the cells to any other by common sides."""
    from_left, from_right = _inner_columns(size)
    reached, before = cells & -cells, 0
    while reached != before:
        before = reached
        reached |= (reached << 1 & from_left) | (reached >> 1 & from_right) | reached << size | reached >> size
        reached &= cells
    return reached == cells


def bits(cells: int) -> Iterator[int]:
    """The numbers of the cells."""
    while cells:
        lowest = cells & -cells
        yield lowest.bit_length() - 1
        cells ^= lowest


def crossed_out(rng: random.Random, size: int) -> int:
    """A maximal set of cells, no two of which share a side, whose rest is connected."""
    near, out, rest = neighbours(size), 0, (1 << size * size) - 1
    for cell in rng.sample(range(size * size), size * size):
        if not near[cell] & out and connected(rest & ~(1 << cell), size):
            out |= 1 << cell
            rest &= ~(1 << cell)
    return out


class Repeats:
    """The grid's numbers as the cells that each cell repeats, in its row or column.

    Args:
        numbers: row by row.
    """

    def __init__(self, numbers: Sequence[int], size: int) -> None:
        self.size = size
        self.all = (1 << size * size) - 1
        of: dict[int, int] = {}
        for cell, number in enumerate(numbers):
            of[number] = of.get(number, 0) | 1 << cell
        self.same = [line & of[number] for line, number in zip(lines(size), numbers, strict=True)]

    def can_keep(self, cell: int) -> bool:
        """Whether a solution keeps a cell."""
        return self._solvable(0, 0, 0, 1 << cell)

    def solutions(self, limit: int = 2) -> list[int]:
        """The sets of cells that can be crossed out; at most so many of them."""
        masks: list[int] = []
        self._gather(0, 0, masks, limit)
        return masks

    def _settled(self, out: int, kept: int, new_out: int, new_kept: int) -> tuple[int, int] | None:
        """What follows from cells that go and cells that stay; None where that cannot be."""
        near, same = neighbours(self.size), self.same
        while new_out or new_kept:
            out |= new_out
            kept |= new_kept
            must_stay = must_go = 0
            for cell in bits(new_out):
                must_stay |= near[cell]
            for cell in bits(new_kept):
                must_go |= same[cell]
            if out & (kept | must_stay) or kept & must_go or must_go & must_stay:
                return None
            new_out, new_kept = must_go & ~out, must_stay & ~kept
        return (out, kept) if connected(self.all & ~out, self.size) else None

    def _pair(self, out: int, kept: int) -> int:
        """A cell that repeats another, both undecided; -1 where there is none, and the rest can stay."""
        undecided = self.all & ~out & ~kept
        best, highest = -1, 0
        for cell in bits(undecided):
            count = (self.same[cell] & undecided).bit_count()
            if count > highest:
                best, highest = cell, count
        return best

    def _solvable(self, out: int, kept: int, new_out: int, new_kept: int) -> bool:
        settled = self._settled(out, kept, new_out, new_kept)
        if settled is None:
            return False
        cell = self._pair(*settled)
        return cell < 0 or self._solvable(*settled, 0, 1 << cell) or self._solvable(*settled, 1 << cell, 0)

    def _gather(self, out: int, kept: int, masks: list[int], limit: int) -> None:
        undecided = self.all & ~out & ~kept
        if len(masks) >= limit:
            return
        if not undecided:
            masks.append(out)
            return
        cell = self._pair(out, kept)
        cell = undecided.bit_length() - 1 if cell < 0 else cell
        for new_out, new_kept in ((1 << cell, 0), (0, 1 << cell)):
            settled = self._settled(out, kept, new_out, new_kept)
            if settled is not None:
                self._gather(*settled, masks, limit)


def grid_of_one_solution(rng: random.Random, size: int) -> tuple[list[int], int]:
    """The numbers of a grid, row by row, and the cells that its only solution crosses out."""
    while True:
        out = crossed_out(rng, size)
        numbers = [number for row in latin_square(rng, size) for number in row]
        for cell in bits(out):
            numbers[cell] = _repeated(rng, numbers, cell, out, size)
        for _ in range(REPLACED * size):
            repeats = Repeats(numbers, size)
            loose = [cell for cell in bits(out) if repeats.can_keep(cell)]
            if not loose:
                return numbers, out
            cell = rng.choice(loose)
            numbers[cell] = _repeated(rng, numbers, cell, out, size)


def _repeated(rng: random.Random, numbers: Sequence[int], cell: int, out: int, size: int) -> int:
    """A number that a cell of its row or column keeps; more often one that both do."""
    kept = lines(size)[cell] & ~out
    near = list(bits(kept))
    r = cell // size
    across = {numbers[other] for other in near if other // size == r}
    down = {numbers[other] for other in near if other // size != r}
    both = sorted(across & down)
    return rng.choice(both if both and rng.random() < 0.7 else sorted(across | down))
