"""What can be known of a mine field: cells as bits of a number, counted all at once, and statements about them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache


def bits(cells: int) -> Iterator[int]:
    """The places of the bits that are set, from the lowest."""
    while cells:
        low = cells & -cells
        yield low.bit_length() - 1
        cells ^= low


@lru_cache(32)
def around(height: int, width: int) -> tuple[int, ...]:
    """For each cell its up to eight neighbours, as bits."""
    masks = []
    for row in range(height):
        for column in range(width):
            near = 0
            for r in range(max(0, row - 1), min(height, row + 2)):
                for c in range(max(0, column - 1), min(width, column + 2)):
                    near |= 1 << r * width + c
            masks.append(near & ~(1 << row * width + column))
    return tuple(masks)


class Grid:
    """Sets of cells of one board as bits, moved and counted all at once: no loop over cells."""

    def __init__(self, height: int, width: int) -> None:
        self.width = width
        self._far: dict[int, list[int]] = {}
        self.all = (1 << height * width) - 1
        first = sum(1 << row * width for row in range(height))
        self.not_first, self.not_last = self.all & ~first, self.all & ~(first << width - 1)

    def far_from(self, cell: int) -> list[int]:
        """All cells but this one and its neighbours, each as a bit."""
        if cell not in self._far:
            self._far[cell] = [1 << other for other in bits(self.all & ~self.spread(1 << cell))]
        return self._far[cell]

    def spread(self, cells: int) -> int:
        """The cells and their neighbours."""
        cells |= (cells & self.not_last) << 1 | (cells & self.not_first) >> 1
        return (cells | cells << self.width | cells >> self.width) & self.all

    def counts(self, cells: int) -> tuple[int, int, int, int]:
        """How many of the cells are a cell itself and its neighbours, for every cell of the board.

        The sum of three in a row, then of three such sums: one full adder each, whose inputs are sets. Four sets come
        back, those of the cells whose sum has this binary digit, from the lowest.
        """
        left, right, width = (cells & self.not_last) << 1, (cells & self.not_first) >> 1, self.width
        odd = left ^ cells
        ones, twos = odd ^ right, left & cells | odd & right
        up, down = ones << width & self.all, ones >> width
        odd = up ^ ones
        sum_1, carry_1 = odd ^ down, up & ones | odd & down
        up, down = twos << width & self.all, twos >> width
        odd = up ^ twos
        sum_2, carry_2 = odd ^ down, up & twos | odd & down
        both = sum_2 & carry_1
        return sum_1, sum_2 ^ carry_1, carry_2 ^ both, carry_2 & both

    def flood(self, mines: int, opened: int, start: int) -> int:
        """The open cells after cells without mines are opened: those next to no mine open all their neighbours."""
        lonely = self.all & ~self.spread(mines)
        new = start & ~opened
        while new:
            opened |= new
            new = self.spread(new & lonely) & ~opened if new & lonely else 0
        return opened


@lru_cache(32)
def grid(height: int, width: int) -> Grid:
    return Grid(height, width)


def deduce(board: Grid, mines: int, opened: int, near: tuple[int, ...]) -> int:
    """The covered cells that are safe for sure, by the open numbers and the number of mines in all.

    Each open cell says how many mines are among its covered neighbours. Two such statements, one's cells inside the
    other's, make a third about the difference; a statement of no mines makes its cells safe, one of as many mines as
    cells makes them mines. Of the mines nothing but the open numbers and their count is read.
    """
    return _deduce(board, mines, board.counts(mines), opened, near, 0)[0]


def _deduce(
    board: Grid, mines: int, numbers: tuple[int, int, int, int], opened: int, near: tuple[int, ...], found: int
) -> tuple[int, int]:
    """The safe cells, and the mines that single numbers show; ``found`` are those that they showed before."""
    covered = board.all & ~opened
    safe, known = _by_numbers(board, numbers, opened, 0, found)
    found = known
    few, total = covered.bit_count() <= 12, mines.bit_count()
    while not safe:
        facts = {}
        unknown = covered & ~known
        for cell in bits(opened & board.spread(unknown)):
            if cells := near[cell] & unknown:
                facts[cells] = (cells & mines).bit_count()
        if few and unknown:
            facts[unknown] = total - known.bit_count()
        safe, more = _by_pairs(facts)
        if not more:
            break
        safe, known = _by_numbers(board, numbers, opened, safe, known | more)
    return safe, found


def _by_numbers(board: Grid, numbers: tuple[int, int, int, int], opened: int, safe: int, known: int) -> tuple[int, int]:
    """Safe cells and mines by one number at a time, all numbers at once, until nothing follows any more."""
    covered = board.all & ~opened
    n_1, n_2, n_4, n_8 = numbers
    while True:
        before = known | safe
        c_1, c_2, c_4, c_8 = board.counts(covered & ~safe)
        if full := opened & ~(c_1 ^ n_1 | c_2 ^ n_2 | c_4 ^ n_4 | c_8 ^ n_8):
            known |= board.spread(full) & covered & ~safe
        c_1, c_2, c_4, c_8 = board.counts(known)
        if solved := opened & ~(c_1 ^ n_1 | c_2 ^ n_2 | c_4 ^ n_4 | c_8 ^ n_8):
            safe |= board.spread(solved) & covered & ~known
        if known | safe == before:
            return safe, known


def _by_pairs(facts: dict[int, int]) -> tuple[int, int]:
    """Safe cells and mines by the differences of statements; ``facts`` are sets of cells with their mines."""
    old: list[int] = []
    new = list(facts)
    fresh = facts
    while new:
        safe = known = 0
        for cells, count in fresh.items():
            if not count:
                safe |= cells
            elif count == cells.bit_count():
                known |= cells
        if safe or known:
            return safe, known
        every, fresh = old + new, {}
        for small in every:
            few = facts[small]
            for large in [large for large in (new if small in old else every) if large & small == small]:
                if (rest := large ^ small) and rest not in facts:
                    fresh[rest] = facts[large] - few
        facts.update(fresh)
        if len(facts) > 400:
            break
        old, new = every, list(fresh)
    return 0, 0


def solvable(board: Grid, mines: int, opened: int, near: tuple[int, ...], turns: int) -> bool:
    """Whether the expert wins in time.

    Cells are opened as soon as they are known to be safe. The expert opens all that it can know in each turn, so
    that it needs as many turns as this takes steps at most; where these are too many, its own turns are counted.
    """
    numbers, known, steps, first = board.counts(mines), 0, 0, opened
    n_1, n_2, n_4, n_8 = numbers
    while opened | mines != board.all:
        steps += 1
        covered = board.all & ~opened
        c_1, c_2, c_4, c_8 = board.counts(covered)
        if full := opened & ~(c_1 ^ n_1 | c_2 ^ n_2 | c_4 ^ n_4 | c_8 ^ n_8):
            known |= board.spread(full) & covered
        c_1, c_2, c_4, c_8 = board.counts(known)
        solved = opened & ~(c_1 ^ n_1 | c_2 ^ n_2 | c_4 ^ n_4 | c_8 ^ n_8)
        safe = board.spread(solved) & covered & ~known
        if not safe:
            safe, known = _deduce(board, mines, numbers, opened, near, known)
            if not safe:
                return False
        opened = board.flood(mines, opened, safe)
    if steps <= turns:
        return True
    for _ in range(turns):
        first = board.flood(mines, first, deduce(board, mines, first, near))
    return first | mines == board.all
