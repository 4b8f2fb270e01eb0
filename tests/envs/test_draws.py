"""Draws of several things at once: none twice, and all as likely as each other."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.seeding import stream
from rlvr.envs.tasks.draws import below, distinct, permuted, picked


class Again(Exception):
    """A number was drawn again."""


class Scripted(random.Random):
    """Gives the bytes of a script, and raises where one more number is asked for."""

    def __init__(self, *script: bytes) -> None:
        super().__init__(0)
        self.script = list(script)

    def randbytes(self, n: int) -> bytes:
        return self.script.pop(0)

    def getrandbits(self, k: int) -> int:
        raise Again


@given(st.integers(0, 2**32), st.integers(1, 256), st.data())
def test_distinct_numbers_are_below_the_size_and_none_comes_twice(seed, size, data):
    count = data.draw(st.integers(0, size))
    found = distinct(random.Random(seed), size, count)
    assert len(set(found)) == len(found) == count
    assert all(number < size for number in found)


@pytest.mark.parametrize(("size", "count"), [(5, 2), (4, 4), (3, 1)])
def test_every_order_of_distinct_numbers_is_as_likely(size, count):
    found = Counter(distinct(stream("distinct", number), size, count) for number in range(6_000))
    orders = 1
    for factor in range(size - count + 1, size + 1):
        orders *= factor
    assert len(found) == orders
    expected = 6_000 / orders
    assert sum((times - expected) ** 2 / expected for times in found.values()) < 2 * orders + 20


@pytest.mark.parametrize(("size", "count"), [(257, 1), (4, 5), (0, 0)])
def test_what_bytes_cannot_choose_is_refused(size, count):
    with pytest.raises(ValueError, match="cannot be drawn by bytes"):
        distinct(random.Random(0), size, count)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 10, 37, 256, 1_000])
def test_each_member_has_equally_many_of_all_numbers_of_16_bits(size):
    counts: Counter[int] = Counter()
    for number in range(65_536):
        with contextlib.suppress(Again):
            counts[picked(Scripted(number.to_bytes(2, "little")), range(size), 1)[0]] += 1
    assert set(counts.values()) == {65_536 // size}
    assert len(counts) == size


def test_a_size_that_does_not_divide_the_numbers_of_32_bits_favours_nothing():
    rng = random.Random(0)
    size = 3 << 30  # without a second draw every third number would be twice as likely as its neighbours
    counts = Counter(number % 3 for number in below(rng, size, 30_000))
    assert all(abs(counts[rest] - 10_000) < 500 for rest in range(3)), counts
    assert Counter(below(rng, 5, 1_000)).keys() == set(range(5))


def test_items_whose_keys_are_equal_are_ordered_by_other_keys():
    keys = bytes([3, 1, 2]) + bytes(3)
    assert permuted(Scripted(bytes(6), keys), b"abc") == b"bca"
    # Equal keys in two parts decide nothing, and are kept.
    assert permuted(Scripted(bytes([1, 0, 1, 0]) + bytes(4)), b"abcd", 2) == b"badc"


def test_every_order_is_as_likely_as_another():
    rng = random.Random(1)
    counts = Counter(permuted(rng, b"abcd") for _ in range(24_000))
    assert len(counts) == 24
    assert all(abs(count - 1_000) < 160 for count in counts.values()), "five standard errors"
