"""Streams are pinned to the bit, never overlap, and splits depend on the task's content alone."""

from __future__ import annotations

import copy
import math
import pickle
import random
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr.envs.core.seeding import (
    LISTED,
    SPLITS,
    TASKS_VERSION,
    KeyedRandom,
    digest,
    divide,
    nameless,
    shuffled_index,
    split_of,
    stream,
)

KEYS = st.lists(st.one_of(st.text(), st.integers(), st.none()), max_size=4).map(tuple)


def test_streams_are_these_on_every_machine_and_in_every_release():
    """A change here changes every task of every seed: TASKS_VERSION goes up, and the changelog says so."""
    assert TASKS_VERSION == 2
    assert digest("a", 1) == 290796806792481490602298734741310137704
    assert stream("Countdown", "train", 1, 0, 0).random() == 0.24486323506254593
    assert [stream("x", 0, i).randint(1, 1000) for i in range(4)] == [502, 420, 847, 749]
    order = list(range(10))
    stream("order", 3).shuffle(order)
    assert order == [5, 4, 3, 7, 1, 9, 2, 0, 6, 8]
    late = stream("late")
    numbers = [late.getrandbits(64) for _ in range(33)]  # each hash gives eight, the Mersenne Twister the last
    assert (numbers[8], numbers[32]) == (9359294808937735974, 4546235118342498564)
    assert [split_of(f"task {i}") for i in range(6)] == ["train", "train", "train", "train", "train", "train"]
    assert [shuffled_index(i, 1_000_000, "a", 1) for i in range(3)] == [14344, 233765, 296783]


def test_item_one_of_seed_zero_is_not_item_zero_of_seed_one():
    draws = {(seed, index): stream("x", seed, index).random() for seed in range(40) for index in range(40)}
    assert len(set(draws.values())) == len(draws)


@given(KEYS, KEYS)
def test_different_keys_are_different_streams(one, other):
    assert (digest(*one) == digest(*other)) == (repr(one) == repr(other))
    assert (stream(*one).getrandbits(256) == stream(*other).getrandbits(256)) == (repr(one) == repr(other))


def test_joined_keys_do_not_collide():
    assert len({digest("a", "b"), digest("ab"), digest("a,b"), digest("a', 'b"), digest("a", "b", None)}) == 5


# the generator behind a stream


def chi_square(counts: Counter, cells: int) -> float:
    """How far counts are from uniform, in standard deviations of what chance does."""
    expected = sum(counts.values()) / cells
    found = sum((count - expected) ** 2 / expected for count in counts.values())
    found += (cells - len(counts)) * expected
    return (found - (cells - 1)) / math.sqrt(2 * (cells - 1))


def test_draws_are_uniform_from_the_first_to_beyond_the_hash():
    for skipped in (0, 1, 5, 9, 30, 38, 60):  # nine are in a hash, and from the 39th on all in the Twister
        counts = Counter()
        for i in range(20_000):
            rng = stream("uniform", i)
            for _ in range(skipped):
                rng.random()
            counts[int(rng.random() * 100)] += 1
        assert chi_square(counts, 100) < 4.5


def test_neighbouring_keys_and_neighbouring_draws_are_independent():
    keys, draws = Counter(), Counter()
    before = stream("independent", -1).randrange(20)
    for i in range(20_000):
        rng = stream("independent", i)
        first, second = rng.randrange(20), rng.randrange(20)
        keys[before, first] += 1
        draws[first, second] += 1
        before = first
    assert chi_square(keys, 400) < 4.5
    assert chi_square(draws, 400) < 4.5


@pytest.mark.parametrize("used", [500, 1012, 2036])
def test_bits_before_and_behind_the_end_of_a_hash_are_independent(used):
    counts = Counter()
    for i in range(20_000):
        rng = stream("border", i)
        rng.getrandbits(used)
        counts[rng.getrandbits(4), rng.getrandbits(60) % 16] += 1  # the second no longer fits in the hash
    assert chi_square(counts, 256) < 4.5


def test_many_bytes_are_uniform_and_independent_of_what_is_drawn_before_and_after_them():
    counts, borders = Counter(), Counter()
    for i in range(2_000):
        rng = stream("bytes", i)
        first = rng.randbytes(3)
        drawn = rng.randbytes(100)
        counts.update(drawn)
        borders[first[0] % 4, drawn[0] % 4, drawn[-1] % 4, rng.randbytes(1)[0] % 4, rng.randbytes(70)[0] % 4] += 1
        assert len({drawn, rng.randbytes(100), rng.randbytes(100)}) == 3
    assert chi_square(counts, 256) < 4.5
    assert chi_square(borders, 4**5) < 4.5


def test_many_first_bytes_are_the_hash_and_the_hash_of_the_hash_in_order():
    """The short way of ``randbytes`` gives what bit by bit is drawn, after whatever was drawn before."""
    for key in range(600):
        draws = random.Random(key)
        whole, single = KeyedRandom(b"%d" % key), KeyedRandom(b"%d" % key)
        room = 1024
        while (count := draws.choice((1, 5, 63, 64, 65, 70, 100, 127, 128, 129, 200))) * 8 <= room:
            assert whole.randbytes(count) == bytes(single.getrandbits(8) for _ in range(count)), (key, count)
            room -= 8 * count
        assert whole.getrandbits(room) == single.getrandbits(room)
        assert whole.getstate()[1][1:] == single.getstate()[1][1:]


def test_many_bytes_beyond_a_hash_leave_its_bits_where_they_are():
    """After bytes of a hash of their own come those that would have come first."""
    for count in (129, 200):
        rng, same = stream("a", count), stream("a", count)
        rng.randbytes(count)
        assert rng.randbytes(100)[:64] == same.randbytes(64)


METHODS = {
    "random": lambda rng: rng.random(),
    "getrandbits": lambda rng: (rng.getrandbits(0), rng.getrandbits(7), rng.getrandbits(1000)),
    "randbytes": lambda rng: (rng.randbytes(9), rng.randbytes(0), rng.randbytes(90)),
    "randrange": lambda rng: (rng.randrange(7), rng.randrange(3, 40, 4), rng.randrange(2**600)),
    "randint": lambda rng: (rng.randint(-3, 3), rng.randint(5, 5), rng.randint(0, 2**300)),
    "choice": lambda rng: rng.choice("abcdef"),
    "choices": lambda rng: rng.choices("abc", weights=(1, 2, 3), k=5),
    "many weighted choices": lambda rng: rng.choices("abc", weights=(1, 2, 3), k=25),
    "choices of equal weights": lambda rng: (rng.choices("abcdefg", k=9), rng.choices([1, 2], k=41)),
    "sample of few": lambda rng: (rng.sample("abcdefg", 7), rng.sample(range(21), 3), rng.sample([], 0)),
    "sample of counted": lambda rng: rng.sample("abc", 4, counts=[2, 3, 1]),
    "choice of one": lambda rng: (rng.choice([5]), rng.choice(range(400))),
    "sample": lambda rng: rng.sample(range(50), 20),
    "shuffle": lambda rng: shuffled(rng, list(range(40))),
    "uniform": lambda rng: rng.uniform(2, 3),
    "triangular": lambda rng: rng.triangular(1, 4, 2),
    "betavariate": lambda rng: rng.betavariate(2, 3),
    "expovariate": lambda rng: rng.expovariate(2),
    "gammavariate": lambda rng: rng.gammavariate(2, 3),
    "gauss": lambda rng: (rng.gauss(0, 1), rng.gauss(0, 1), rng.gauss(0, 1)),
    "normalvariate": lambda rng: rng.normalvariate(0, 1),
    "lognormvariate": lambda rng: rng.lognormvariate(0, 1),
    "vonmisesvariate": lambda rng: rng.vonmisesvariate(1, 2),
    "paretovariate": lambda rng: rng.paretovariate(3),
    "weibullvariate": lambda rng: rng.weibullvariate(1, 2),
}


def shuffled(rng: random.Random, items: list[int]) -> list[int]:
    rng.shuffle(items)
    return items


class Reference(random.Random):
    """The same bits behind nothing but ``random`` and ``getrandbits``: what random.Random makes of them."""

    def __init__(self, key: bytes) -> None:
        self.source = KeyedRandom(key)
        self.gauss_next = None

    def random(self) -> float:
        return self.source.random()

    def getrandbits(self, k: int) -> int:
        return self.source.getrandbits(k)

    def choices(self, population, weights=None, *, cum_weights=None, k=1):
        if weights is None and cum_weights is None and type(self.source) is KeyedRandom and k <= 40:
            return [self.choice(population) for _ in range(k)]
        if k > 24:
            self.source._seeded()
        return super().choices(population, weights, cum_weights=cum_weights, k=k)

    def randbytes(self, n: int) -> bytes:  # beyond the bits of a hash no bits but a hash of its own
        return self.source.randbytes(n)


@pytest.mark.parametrize("used", [0, 3, 400, 500, 600, 2000, 2100])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_what_random_makes_of_the_bits_and_goes_on_alike_from_every_copy(name, used):
    call = METHODS[name]
    rng, reference = KeyedRandom(b"key"), Reference(b"key")
    rng.getrandbits(used), reference.getrandbits(used)
    rng.gauss_next = reference.gauss_next = 0.25  # half of a pair that gauss has drawn; nobody else may lose it
    copies = [copy.copy(rng), copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]
    state = rng.getstate()
    ahead = [call(rng) for _ in range(40)]
    assert ahead == [call(reference) for _ in range(40)]
    restored = KeyedRandom(b"another")
    restored.random()
    restored.setstate(pickle.loads(pickle.dumps(state)))
    for twin in (*copies, restored):
        assert [call(twin) for _ in range(40)] == ahead
    rng.setstate(state)
    assert [call(rng) for _ in range(40)] == ahead


@pytest.mark.parametrize("used", [0, 600, 2100])
def test_a_seeded_stream_draws_what_random_draws_and_takes_its_states(used):
    rng = KeyedRandom(b"key")
    rng.getrandbits(used)
    rng.gauss(0, 1)
    rng.seed(5)
    assert [rng.random(), rng.getrandbits(9), rng.gauss(0, 1)] == (
        lambda plain: [plain.random(), plain.getrandbits(9), plain.gauss(0, 1)]
    )(random.Random(5))
    plain = random.Random(7)
    plain.gauss(0, 1)
    rng.setstate(plain.getstate())
    assert [rng.gauss(0, 1), rng.random()] == [plain.gauss(0, 1), plain.random()]


@pytest.mark.parametrize("used", [0, 600, 2100])
def test_a_stream_refuses_what_random_refuses(used):
    rng = KeyedRandom(b"key")
    rng.getrandbits(used)
    for call, error in (
        (lambda: rng.getrandbits(-1), ValueError),
        (lambda: rng.getrandbits(1.5), TypeError),
        (lambda: rng.randbytes(-1), ValueError),
        (lambda: rng.randint(3, 2), ValueError),
        (lambda: rng.randrange(0), ValueError),
        (lambda: rng.choice([]), IndexError),
        (lambda: rng.randrange(1, 2, 0), ValueError),
        (lambda: rng.sample([1, 2], 3), ValueError),
        (lambda: rng.sample({1, 2}, 1), TypeError),
        (lambda: rng.setstate((99, (), None)), ValueError),
    ):
        with pytest.raises(error):
            call()


# orders


@pytest.mark.parametrize("size", [1, 2, 3, 10, LISTED, LISTED + 1, 81, 100, 1_319, 7_473])
def test_an_order_has_every_number_once(size):
    for key in range(3):
        assert sorted(shuffled_index(i, size, "order", key) for i in range(size)) == list(range(size))


def test_orders_of_few_numbers_are_all_equally_frequent():
    counts = Counter(tuple(shuffled_index(i, 4, "few", key) for i in range(4)) for key in range(12_000))
    assert set(counts) == set(permutations(range(4)))
    assert chi_square(counts, 24) < 4.5


@pytest.mark.parametrize("size", [LISTED + 1, 100, 7_473, 1_000_000])
def test_where_a_number_stands_and_who_stands_beside_it_is_uniform(size):
    first, beside = Counter(), Counter()
    for key in range(10_000):
        one, other = shuffled_index(0, size, "wide", key), shuffled_index(1, size, "wide", key)
        first[one * 50 // size] += 1
        beside[(other - one) % size * 16 // size] += 1
    cells = Counter(i * 50 // size for i in range(size))  # unequal where 50 does not divide the size
    found = sum((first[cell] - 10_000 * share / size) ** 2 / (10_000 * share / size) for cell, share in cells.items())
    assert (found - 49) / math.sqrt(98) < 4.5
    gaps = Counter(gap * 16 // size for gap in range(1, size))
    found = sum((beside[cell] - 1e4 * n / (size - 1)) ** 2 / (1e4 * n / (size - 1)) for cell, n in gaps.items())
    assert (found - 15) / math.sqrt(30) < 4.5


def test_a_position_of_a_million_is_found_without_a_list(monkeypatch):
    monkeypatch.setattr("rlvr.envs.core.seeding.stream", None)  # what a list would be shuffled with
    assert len({shuffled_index(5, 10**12, "long", key) for key in range(1_000)}) == 1_000


@pytest.mark.parametrize("position", [-1, 10])
def test_a_position_outside_is_refused(position):
    with pytest.raises(IndexError, match="0 to 9"):
        shuffled_index(position, 10, "order")


# splits
def test_a_tenth_of_a_large_space_is_held_out_for_each_split():
    counts = dict.fromkeys(SPLITS, 0)
    for i in range(20_000):
        counts[split_of(f"task {i}")] += 1
    # Three standard deviations of a share of 0.1 among 20,000 are 0.0064.
    assert counts["test"] / 20_000 == pytest.approx(0.1, abs=0.007)
    assert counts["validation"] / 20_000 == pytest.approx(0.1, abs=0.007)


@given(st.lists(st.text(), min_size=3, max_size=200, unique=True))
def test_a_small_space_is_divided_whole_with_no_split_empty(contents):
    divided = divide(contents)
    assert set(divided) == set(contents)
    held_out = max(1, round(len(contents) / 10))
    for split in ("test", "validation"):
        assert list(divided.values()).count(split) == held_out
    assert "train" in divided.values()
    assert divide(contents[::-1]) == divided


def test_copies_of_a_task_go_where_the_first_goes():
    assert divide(["a", "b", "c", "a", "a"]) == divide(["a", "b", "c"])


@pytest.mark.parametrize("contents", [[], ["a"], ["a", "b"], ["a", "a", "b"]])
def test_too_few_tasks_for_three_splits_is_refused(contents):
    with pytest.raises(ValueError, match="cannot be divided into train, validation, test; use split=None"):
        divide(contents)


class Point(NamedTuple):
    row: int
    column: int


@dataclass(frozen=True)
class Line:
    start: Point
    points: frozenset[Point]


class Colour(Enum):
    RED = "red"


def test_contents_hold_no_name_of_a_class_or_field():
    line = Line(Point(1, 2), frozenset({Point(3, 4), Point(1, 1)}))
    text = nameless({"a": [line, Colour.RED], "b": (Fraction(1, 2), None, True, 1.5, "Point(row=1)")})
    assert text == "{'a': (((1, 2), {(1, 1), (3, 4)}), 'red'), 'b': (Fraction(1, 2), None, True, 1.5, 'Point(row=1)')}"


def test_contents_of_different_values_differ():
    values = [(1, 2), (1, (2,)), ("1", 2), ((1, 2),), {1, 2}, {1: 2}, "(1, 2)", 12, (), None, {}]
    assert len({nameless(value) for value in values}) == len(values)
