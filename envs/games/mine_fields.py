"""What can be known of a mine field: cells as bits of a number, counted all at once, and statements about them."""

from __future__ import annotations

from functools import lru_cache

from rlvr.envs.games.common import COLUMNS, bits


class Grid:
    """Sets of cells of one board as bits, moved and counted all at once: no loop over cells.

    Cells are numbered row by row, in rows of ``stride``, one longer than the board's: what is moved over an edge falls
    on a cell that is none, so that no edge is looked at. ``far_from`` has, of each cell, all others but its
    neighbours, each as a bit.
    """

    def __init__(self, height: int, width: int) -> None:
        self.height, self.width, self.stride = height, width, width + 1
        self.cells = [row * self.stride + column for row in range(height) for column in range(width)]
        self.all = sum(1 << cell for cell in self.cells)
        self._near = [self.with_neighbours(1 << cell) for cell in range(height * self.stride)]
        self.far_from = {cell: [1 << other for other in bits(self.all & ~self._near[cell])] for cell in self.cells}
        self._head = "   " + " ".join(COLUMNS[:width])
        self._first_digit, self._blanks = 1 << 4 * height * self.stride, b" " * (2 * height * self.stride)
        row_starts = range(0, 2 * height * self.stride, 2 * self.stride)
        self._lines = [(f"\n{row:>2} ", start, start + 2 * width - 1) for row, start in enumerate(row_starts, 1)]

    def with_neighbours(self, cells: int) -> int:
        """The cells and their neighbours."""
        cells |= cells << 1 | cells >> 1
        return (cells | cells << self.stride | cells >> self.stride) & self.all

    def counts(self, cells: int) -> tuple[int, int, int, int]:
        """How many of the cells are a cell itself and its neighbours, for every cell of the board.

        The sum of three in a row, then of three such sums: one full adder each, whose inputs are sets. Four sets come
        back, those of the cells whose sum has this binary digit, from the lowest.
        """
        left, right, stride = cells << 1, cells >> 1, self.stride
        odd = left ^ cells
        ones, twos = odd ^ right, left & cells | odd & right
        up, down = ones << stride, ones >> stride
        odd = up ^ ones
        sum_1, carry_1 = odd ^ down, up & ones | odd & down
        up, down = twos << stride, twos >> stride
        odd = up ^ twos
        sum_2, carry_2 = odd ^ down, up & twos | odd & down
        both, everywhere = sum_2 & carry_1, self.all
        return (
            sum_1 & everywhere,
            (sum_2 ^ carry_1) & everywhere,
            (carry_2 ^ both) & everywhere,
            carry_2 & both & everywhere,
        )

    def drawn(self, mines: int, opened: int) -> str:
        """The board with its letters and numbers, a blank between cells: counts where it is open, dots elsewhere."""
        covered = 15 * _as_digits(self.all & ~opened)
        digits = hex(_numbers(self, mines) | covered | self._first_digit)[:2:-1].replace("f", ".")
        cells = bytearray(self._blanks)
        cells[::2] = digits.encode()
        text = cells.decode()
        return self._head + "".join([label + text[start:end] for label, start, end in self._lines])

    def flood(self, mines: int, opened: int, start: int) -> int:
        """The open cells after cells without mines are opened: those next to no mine open all their neighbours."""
        return self.flood_among(self.all & ~self.with_neighbours(mines), opened, start)

    def flood_among(self, lonely: int, opened: int, start: int) -> int:
        """The same, where the cells next to no mine are known."""
        new = start & ~opened
        while new:
            opened |= new
            if new := new & lonely:
                new = self.with_neighbours(new) & ~opened
        return opened

    def compare(self, opened: int, hidden: int, free: int) -> tuple[int, int]:
        """What two numbers side by side tell, if the unknown cells of one are among the other's: safe cells, or mines.

        The cells that only the other has hold the difference: no mine, or nothing but mines. Numbers further apart
        hardly ever tell more.

        Args:
            opened: the cells whose numbers are seen.
            hidden: the mines that are not known yet; nothing is read of them but what the numbers tell.
            free: the cells without a mine that are not known yet.
        """
        stride = self.stride
        for step, across in ((1, stride), (stride, 1)):
            mined = hidden | hidden << across | hidden >> across
            safe = free | free << across | free >> across
            mined_behind, safe_behind = mined << step, safe << step  # next to a cell, and not to the one a step on
            mined_ahead, safe_ahead = mined >> step, safe >> step
            if cells := (opened & ~(mined_behind | safe_behind)) << step & opened & (mined_ahead ^ safe_ahead):
                return self._difference(cells, cells & safe_ahead, -step, hidden, free)
            if cells := (opened & ~(mined_ahead | safe_ahead)) >> step & opened & (mined_behind ^ safe_behind):
                return self._difference(cells, cells & safe_behind, step, hidden, free)
        return 0, 0

    def _difference(self, cells: int, safe: int, beside: int, hidden: int, free: int) -> tuple[int, int]:
        """The safe cells, or else the mines, next to each of the cells, and not next to the one beside it."""
        others, near = 0, self._near
        for cell in bits(safe or cells):
            others |= near[cell] & ~near[cell + beside]
        return (others & free, 0) if safe else (0, others & hidden)


@lru_cache(32)
def grid(height: int, width: int) -> Grid:
    return Grid(height, width)


def _as_digits(cells: int) -> int:
    """A hexadecimal digit for each cell, 1 in the set and 0 elsewhere: binary digits, read as hexadecimal ones."""
    return int(bin(cells)[2:], 16)


@lru_cache(1024)
def _numbers(board: Grid, mines: int) -> int:
    """A hexadecimal digit for each cell: how many mines it and its neighbours are."""
    ones, twos, fours, eights = board.counts(mines)
    numbers = _as_digits(ones) + 2 * _as_digits(twos)
    if fours | eights:
        numbers += 4 * _as_digits(fours) + 8 * _as_digits(eights)
    return numbers


def deduce(board: Grid, mines: int, opened: int) -> int:
    """The covered cells that are safe for sure, by the open numbers, and by the mines in all once they are found.

    Each open cell says how many mines are among its covered neighbours. None makes them safe, as many as there are
    makes them mines; two numbers are compared where that leads no further. Of the mines nothing but the open numbers
    and their count is read: whether a number's mines are all known is whether none of the hidden is next to it.
    """
    with_neighbours, safe = board.with_neighbours, 0
    hidden, free = mines & ~opened, board.all & ~opened & ~mines
    while hidden and free:
        new = with_neighbours(opened & ~with_neighbours(hidden)) & free
        safe, free = safe | new, free ^ new
        if marks := with_neighbours(opened & ~with_neighbours(free)) & hidden:
            hidden ^= marks
        elif safe:
            return safe
        else:
            safe, marks = board.compare(opened, hidden, free)
            if safe or not marks:
                return safe
            hidden ^= marks
    return safe | free


def open_by_reasoning(board: Grid, mines: int, first: int, *, help_at_most: int, turns: int) -> int | None:
    """The open cells of a board to begin with, so that reasoning alone opens the rest; None where it must be another.

    Where ``deduce`` would come to an end, one more cell is open from the start, ``help_at_most`` times.

    Args:
        board: its size.
        mines: where they are.
        first: the cell that is opened first, next to no mine.
        help_at_most: how many more cells are opened at most.
        turns: in how many turns ``deduce`` must open the board, which must not be open at once.
    """
    stride, everywhere = board.stride, board.all
    lonely = everywhere & ~board.with_neighbours(mines)
    start = opened = board.flood_among(lonely, 0, 1 << first)
    hidden, free, steps, near_hidden = mines, everywhere & ~opened & ~mines, 0, ~lonely
    while free:
        # What ``with_neighbours`` does, without the call: half the time of all this is spent in the next few lines.
        new = opened & ~near_hidden
        new |= new << 1 | new >> 1
        new = (new | new << stride | new >> stride) & free
        if not new:
            marks = free | free << 1 | free >> 1
            marks = opened & ~(marks | marks << stride | marks >> stride)
            if marks:
                marks |= marks << 1 | marks >> 1
                marks = (marks | marks << stride | marks >> stride) & hidden
            if not marks:
                new, marks = board.compare(opened, hidden, free)
            if marks:
                hidden ^= marks
                near_hidden = hidden | hidden << 1 | hidden >> 1
                near_hidden |= near_hidden << stride | near_hidden >> stride
                if not hidden:
                    break
                continue
            if not new:
                if not help_at_most:
                    return None
                help_at_most -= 1
                new = free & board.with_neighbours(opened) or free
                new = new >> first << first or new  # the next one from the first cell on
                new &= -new
                start = board.flood_among(lonely, start, new)
        steps += 1
        opened |= new
        free ^= new
        while new := new & lonely:
            new |= new << 1 | new >> 1
            new = (new | new << stride | new >> stride) & free
            opened |= new
            free ^= new
    if start | mines == everywhere:
        return None
    if steps > turns:  # deduce finds all of a turn at once: as many turns as this took steps, or fewer
        opened = start
        for _ in range(turns):
            opened = board.flood(mines, opened, deduce(board, mines, opened))
        if opened | mines != everywhere:
            return None
    return start
