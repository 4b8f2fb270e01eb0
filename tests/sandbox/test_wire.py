"""Values that cross the border: plain ones come back as they were, nothing else crosses, nothing else is equal."""

from __future__ import annotations

import collections
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.sandbox.inside import wire

floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | floats | st.text() | st.binary()
hashables = st.recursive(scalars, lambda x: st.tuples(x, x) | st.frozensets(x, max_size=3), max_leaves=5)
values = st.recursive(
    hashables | st.complex_numbers(allow_nan=False, allow_infinity=False),
    lambda x: st.lists(x, max_size=4) | st.tuples(x, x) | st.dictionaries(hashables, x, max_size=4)
    | st.sets(hashables, max_size=4),
    max_leaves=12,
)  # fmt: skip


def kinds(value: object) -> object:
    """The shape of a value with the type of every part."""
    if isinstance(value, (list, tuple)):
        return type(value), [kinds(v) for v in value]
    if isinstance(value, dict):
        return type(value), {k: kinds(v) for k, v in value.items()}
    return type(value)


def crossed(value: object) -> wire.Tree:
    return wire.check(wire.load(wire.dump(wire.encode(value))))


@given(values)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    tree = crossed(value)
    assert wire.decode(tree) == value
    assert kinds(wire.decode(tree)) == kinds(value)
    assert wire.same(wire.encode(value), tree, strict_sequences=True)


@given(values, values)
def test_equal_trees_mean_equal_values(one: object, other: object) -> None:
    if wire.same(crossed(one), crossed(other), strict_sequences=True):
        assert one == other
        assert type(one) is type(other)


@given(st.text() | st.binary())
def test_any_line_is_a_message_or_refused(line: str | bytes) -> None:
    with contextlib.suppress(wire.NotPlain):
        wire.check(wire.load(line))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda x: (
        st.lists(x, max_size=3)
        | st.fixed_dictionaries({"t": st.sampled_from(sorted(wire._CONTENT)) | st.text(max_size=3), "v": x})
        | st.dictionaries(st.text(max_size=2), x, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values, json_values)
def test_any_json_is_a_tree_or_refused_and_trees_compare(one: object, other: object) -> None:
    trees = []
    for value in (one, other):
        try:
            trees.append(wire.check(wire.load(json.dumps(value))))
        except wire.NotPlain:
            return
    assert wire.same(trees[0], trees[0], strict_sequences=True)
    assert wire.same(trees[0], trees[1]) in (True, False)


class Sub(int):
    __eq__ = lambda self, other: True  # noqa: E731
    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "value",
    [
        Sub(1),
        object(),
        lambda: 1,
        float("nan"),
        float("inf"),
        int,
        Ellipsis,
        {"a": {1: [Sub(2)]}},
        {Sub(1)},
        type("T", (str,), {})("x"),
    ],
)
def test_what_is_not_plain_data_does_not_cross(value: object) -> None:
    with pytest.raises(wire.NotPlain):
        wire.encode(value)


def test_nesting_and_iterators_are_bounded() -> None:
    deep: list = []
    for _ in range(1000):
        deep = [deep]
    cyclic: list = []
    cyclic.append(cyclic)
    for value in (deep, cyclic, iter(range(3)), (n for n in iter(int, 1))):
        with pytest.raises(wire.NotPlain):
            wire.encode(value)
    with pytest.raises(wire.NotPlain):
        wire.load("[" * 100_000)
    with pytest.raises(wire.NotPlain):
        wire.load("9" * 100_000)


@pytest.mark.parametrize(
    ("expected", "got", "equal"),
    [
        (1, True, False), (True, 1, False), (1, 1.0, False), (0, False, False), ("1", 1, False), (None, 0, False),
        ([1, 2], (1, 2), True), ((1, 2), [1, 2], False), ([1, [2]], (1, (2,)), True), ([], {}, False),
        ([], set(), False), ({1, 2}, frozenset({1, 2}), False), ({1, 2}, {2, 1}, True), ({1: 2}, {1: 2, 3: 4}, False),
        ({1: 2}, {"1": 2}, False), ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True), (10**40, 10**40, True),
        (10**40, 10**40 + 1, False),
        (2**53, 2**53 + 1, False), (0.1 + 0.2, 0.3, True), (1.0, 1.0001, False), ({(1, 2): 0.1}, {(1, 2): 0.1}, True),
        ({1: 2}, collections.OrderedDict({1: 2}), True), ({"a": 1}, collections.Counter("a"), True),
        ([1], iter([1]), False), ([0, 1], range(2), False), (b"x", "x", False), (1 + 0j, 1, False),
        ("é", "e\u0301", False),
    ],
)  # fmt: skip
def test_what_counts_as_equal(expected: object, got: object, equal: bool) -> None:
    assert wire.same(crossed(expected), crossed(got), tolerance=1e-9) is equal


def test_tolerance_is_for_floats_alone() -> None:
    assert wire.same(wire.encode([1.0]), wire.encode([1.05]), tolerance=0.1)
    assert not wire.same(wire.encode([100]), wire.encode([101]), tolerance=0.1)
    assert not wire.same(wire.encode(0.3), wire.encode(0.1 + 0.2), tolerance=0.0)


def test_hostile_keys_do_not_slow_the_comparison() -> None:
    pairs = [[n * (2**61 - 1) % 10**15, 0] for n in range(30_000)]
    tree = wire.check({"t": "dict", "v": pairs})
    assert not wire.same(wire.encode({1: 2}), tree)
    assert wire.same(tree, tree)
