"""Numbers and articles in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction


def counted(number: int | Fraction, noun: str, plural: str = "") -> str:
    """``1 turn``, ``2 turns``, ``0 turns``; ``plural`` where it is not the noun with an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def with_article(noun: str) -> str:
    """``an apple``, ``a pear``; by the letter that it begins with."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def often(number: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")


def times(factor: int | float, name: str, joint: str = "") -> str:
    """A multiple of a name, as it is written: ``3x``, and ``x`` for one."""
    return name if factor == 1 else f"{factor}{joint}{name}"


def in_a_row(items: Iterable[object]) -> str:
    """``Ann``, ``Ann and Ben``, ``Ann, Ben and Cay``."""
    *names, last = map(str, items)
    return f"{', '.join(names)} and {last}" if names else last


def added(numbers: Sequence[int]) -> str:
    """``3 + 4 = 7``, and ``7`` where it is the only one."""
    return f"{' + '.join(map(str, numbers))} = {sum(numbers)}" if len(numbers) > 1 else str(sum(numbers))


def bracketed(number: int) -> str:
    """A number as a factor or subtrahend: a negative one in brackets."""
    return f"({number})" if number < 0 else str(number)
