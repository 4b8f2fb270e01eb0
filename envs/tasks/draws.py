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
    """``count`` independent numbers from 0 to ``size`` - 1, all equally likely, for sizes below 2**32 (1805.10941)."""
    products = [number * size for number in _numbers("I", count).unpack(rng.randbytes(4 * count))]
    for index, product in enumerate(products):
        while product & 0xFFFFFFFF < size and product & 0xFFFFFFFF < 2**32 % size:  # one of a few that are too many
            products[index] = product = rng.getrandbits(32) * size
    return [product >> 32 for product in products]


def picked(rng: random.Random, population: Iterable[T], count: int) -> list[T]:
    """``count`` members of a population of at most 65,536, none twice, in random order, all equally likely."""
    pool, chosen = list(population), []
    left = len(pool)
    for number in _numbers("H", count).unpack(rng.randbytes(2 * count)):
        product = number * left
        while product & 0xFFFF < left and product & 0xFFFF < 65_536 % left:
            product = rng.getrandbits(16) * left
        index = product >> 16
        chosen.append(pool[index])
        left -= 1
        pool[index] = pool[left]
    return chosen


def permuted(rng: random.Random, items: bytes, width: int = 0) -> bytes:
    """The bytes in a random order, all equally likely: sorted by a number of 16 bits each, drawn until all differ.

    With a ``width`` each part of so many bytes by itself.
    """
    count = len(items)
    keyed = bytearray(4 * count)
    keyed[::4] = items
    if width:
        keyed[3::4] = _parts(count, width)
    numbers = _numbers("I", count)
    while True:
        drawn = rng.randbytes(2 * count)
        keyed[1::4], keyed[2::4] = drawn[:count], drawn[count:]
        keys = sorted(numbers.unpack(keyed))
        if len({key >> 8 for key in keys}) == count:
            return numbers.pack(*keys)[::4]


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
