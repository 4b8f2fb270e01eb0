"""Draws of several things at once: none twice, and all as likely as each other."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.seeding import stream
from rlvr.envs.tasks.draws import distinct


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
