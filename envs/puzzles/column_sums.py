"""Whether a sum of letters has a second solution: a search column by column, with digits as bits."""

from __future__ import annotations

from collections.abc import Sequence

_DIGITS = tuple(tuple(digit for digit in range(10) if mask >> digit & 1) for mask in range(1 << 10))
Column = tuple[list[tuple[int, bool]], int, bool]  # each letter and whether it is new, the letter below, whether it is


def other_solution(
    columns: Sequence[Sequence[int]],
    sums: Sequence[int],
    first: int,
    fixed_mask: int,
    before: Sequence[int] | None = None,
) -> list[int] | None:
    """Digits that solve a sum otherwise than it is known to be solved; None where there are none.

    A letter is named by its digit in the known solution. Digits are found at that index of the result.

    Args:
        columns: the letters that are added, from the right, two or more in each; the last may have none, a carry alone.
        sums: the letter below each column.
        first: the letters, as bits, that stand for no 0.
        fixed_mask: the letters, as bits, whose digits are known.
        before: what this function found when fewer letters were given. Solutions come in one order, that of the digits
            of the letters as the columns meet them, so that the search goes on where the one before ended.
    """
    if not columns[-1] and len(columns[0]) == 2 and not fixed_mask >> sums[-1] & 1:
        fixed_mask |= 1 << sums[-1]  # two digits carry 1
    free = [0b1111111110 if first >> letter & 1 else 0b1111111111 for letter in range(10)]
    plan = planned(columns, sums, fixed_mask)
    if len(columns[0]) == 2:
        return _other_of_two(plan, free, fixed_mask, before)
    return _other_of_many(plan, free, fixed_mask)  # few of these searches follow another one


def _other_of_two(
    plan: list[Column], free: list[int], fixed_mask: int, before: Sequence[int] | None
) -> list[int] | None:
    """``other_solution`` of two numbers: each column in one loop, which most sums need."""
    value, partner, last, start = list(range(10)), list(range(10)), len(plan), before or []
    flat = [(*rows[0], *rows[1], below, new) if rows else None for rows, below, new in plan]

    def column(k: int, carry: int, used: int, along: bool) -> bool:
        """Go on to the left of a column; True where a second solution is reached.

        ``along`` while all letters so far have the digits of ``before``: what comes before these was searched.
        """
        if k == last:
            return not carry and value != partner
        if (letters := flat[k]) is None:
            return _carried(plan[k], carry, used, free, value) and value != partner
        a, new_a, b, new_b, below, new_below = letters
        for x in _DIGITS[free[a] & ~used] if new_a else (value[a],):
            if along and x < start[a]:
                continue
            still = along and x == start[a]
            value[a] = x
            used_a, total = used | 1 << x, carry + x
            ys: tuple[int, ...] = (value[b],)
            if new_b and (new_below or b == below):
                ys = _DIGITS[free[b] & ~used_a]
            elif new_b:  # the digit below decides
                y = (value[below] - total) % 10
                if (used_a | ~free[b]) >> y & 1:
                    continue
                ys = (y,)
            for y in ys:
                if still and y < start[b]:
                    continue
                value[b], used_b, z = y, used_a | 1 << y, total + y
                if more := z > 9:
                    z -= 10
                if new_below:
                    if (used_b | ~free[below]) >> z & 1:
                        continue
                    value[below] = z
                    used_b |= 1 << z
                elif value[below] != z:
                    continue
                if column(k + 1, more, used_b, still and y == start[b]):
                    return True
        return False

    return value if column(0, 0, fixed_mask, before is not None) else None


def _other_of_many(plan: list[Column], free: list[int], fixed_mask: int) -> list[int] | None:
    """``other_solution`` of more numbers: a loop for each letter but the last two of a column."""
    value, partner, last = list(range(10)), list(range(10)), len(plan)

    def end(k: int, carry: int, used: int) -> bool:
        """Go on to the left of a column; True where a second solution is reached."""
        if k < last and plan[k][0]:
            return assign_digit(k, 0, carry, used)
        if k < last:
            return _carried(plan[k], carry, used, free, value) and value != partner
        return not carry and value != partner

    def assign_digit(k: int, row: int, carry: int, used: int) -> bool:
        """Give digits to a column's letters from a row on; ``carry`` counts what stands above it as well."""
        rows, below, new_below = plan[k]
        a, new_a = rows[row]
        b, new_b = rows[-1]
        for x in _DIGITS[free[a] & ~used] if new_a else (value[a],):
            value[a], used_a, total = x, used | 1 << x, carry + x
            if row + 2 < len(rows):
                if assign_digit(k, row + 1, total, used_a):
                    return True
                continue
            ys: tuple[int, ...] = (value[b],)
            if new_b and (new_below or b == below):
                ys = _DIGITS[free[b] & ~used_a]
            elif new_b:  # the digit below decides
                y = (value[below] - total) % 10
                ys = () if (used_a | ~free[b]) >> y & 1 else (y,)
            for y in ys:
                value[b], used_b = y, used_a | 1 << y
                more, z = divmod(total + y, 10)
                if new_below:
                    if (used_b | ~free[below]) >> z & 1:
                        continue
                    value[below] = z
                    used_b |= 1 << z
                if value[below] == z and end(k + 1, more, used_b):
                    return True
        return False

    return value if end(0, 0, fixed_mask) else None


def _carried(column: Column, carry: int, used: int, free: list[int], value: list[int]) -> bool:
    """Whether the letter below a last column of nothing but a carry may be that digit, which it is given."""
    _, below, new = column
    if (new and (used | ~free[below]) >> carry & 1) or (not new and value[below] != carry):
        return False
    value[below] = carry
    return True


def planned(columns: Sequence[Sequence[int]], sums: Sequence[int], fixed_mask: int) -> list[Column]:
    """For each column which letters are met first in it, and so are free to choose."""
    plan: list[Column] = []
    for letters, below in zip(columns, sums, strict=True):
        rows = []
        for letter in letters:
            rows.append((letter, not fixed_mask >> letter & 1))
            fixed_mask |= 1 << letter
        plan.append((rows, below, not fixed_mask >> below & 1))
        fixed_mask |= 1 << below
    return plan
