"""Several things from one draw, which costs more than what is done with it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from math import ceil, sqrt
from struct import Struct
from typing import TypeVar

T = TypeVar("T")


@cache
def _numbers(kind: str, count: int) -> Struct:
    """So many numbers of 16 bits, H, or of 32 bits, I."""
    return Struct(f"<{count}{kind}")


def below(rng: random.Random, size: int, count: int) -> list[int]:
    """``count`` independent numbers from 0 to ``size`` - 1, for sizes up to some millions: 32 bits choose each."""
    return [number * size >> 32 for number in _numbers("I", count).unpack(rng.randbytes(4 * count))]


def picked(rng: random.Random, population: Iterable[T], count: int) -> list[T]:
    """``count`` members of a population of up to some hundreds, none twice, in random order.

    Sixteen bits choose each, so that one of n is up to n / 65,536 likelier than another.
    """
    pool, chosen = list(population), []
    left = len(pool)
    for number in _numbers("H", count).unpack(rng.randbytes(2 * count)):
        index = number * left >> 16
        chosen.append(pool[index])
        left -= 1
        pool[index] = pool[left]
    return chosen


def permuted(rng: random.Random, items: bytes, width: int = 0) -> bytes:
    """The bytes in a random order: sorted by a number of 16 bits each. With a width each part of so many by itself.

    Of 26 bytes two have one number, and so keep the order of their values, once in 200 calls.
    """
    count = len(items)
    drawn, keyed = rng.randbytes(2 * count), bytearray(4 * count)
    keyed[::4], keyed[1::4], keyed[2::4] = items, drawn[:count], drawn[count:]
    if width:
        keyed[3::4] = _parts(count, width)
    numbers = _numbers("I", count)
    return numbers.pack(*sorted(numbers.unpack(keyed)))[::4]


@cache
def _parts(count: int, width: int) -> bytes:
    """The number of each byte's part."""
    return bytes(index // width for index in range(count))


def distinct(rng: random.Random, size: int, count: int) -> bytes:
    """``count`` of the numbers from 0 to ``size`` - 1, at most 256, none twice, in random order: all equally likely.

    Bytes are drawn until so many remainders were met; the first of each counts. Fastest where ``count`` is no more than
    half of ``size``.
    """
    remainder, excess, needed = _remainders(size, count)
    values = dict.fromkeys(rng.randbytes(needed).translate(remainder, excess))
    while len(values) < count:
        values.update(dict.fromkeys(rng.randbytes(needed).translate(remainder, excess)))
    return bytes(values)[:count]


@cache
def _remainders(size: int, count: int) -> tuple[bytes, bytes, int]:
    """What each byte stands for, the bytes that would favour some numbers, and how many bytes are nearly always enough.

    Raises:
        ValueError: a byte cannot choose among so many numbers, or there are not ``count``.
    """
    if not 0 <= count <= size <= 256 or not size:
        raise ValueError(f"{count} of {size} numbers cannot be drawn by bytes: at most all of 1 to 256")
    whole = 256 - 256 % size
    chances = [(size - met) / size * whole / 256 for met in range(count)]  # that a byte is a new number
    mean, variance = sum(1 / p for p in chances), sum((1 - p) / p**2 for p in chances)
    return bytes(byte % size for byte in range(256)), bytes(range(whole, 256)), ceil(mean + 2 * sqrt(variance))
