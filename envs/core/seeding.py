"""Random streams that never overlap, and splits that never share a task.

A stream is keyed by everything that names a task, through a cryptographic hash: item 1 of seed 0 is not item 0 of
seed 1, as it is where streams are seeded with ``seed + index``. A task belongs to a split by the hash of its own
content, so two seeds, or two levels, cannot put one task on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b, shake_128
from math import ceil, isqrt, log
from operator import index as whole
from random import Random
from struct import unpack
from typing import Any, Final

# Raised by whoever changes which tasks a seed gives or which split a content is in, for all environments at once;
# a change of one environment raises the number in its id instead. `rlvr.envs.TASKS_VERSION` is this.
TASKS_VERSION: Final = 2
SPLITS = ("train", "validation", "test")
HELD_OUT = 0.1  # the share of tasks in each of validation and test
_TENTH = int(HELD_OUT * 2**128)
_TEST, _VALIDATION = _TENTH.to_bytes(16, "big"), (2 * _TENTH).to_bytes(16, "big")

LISTED: Final = 64  # of no more numbers than this a shuffle is kept as a list
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_COPIED: Final = frozenset({list, tuple, range, str})  # what a sample is drawn from most often
_STATE: Final = "keyed"  # stands where random.Random's states have a number
_END: Final = 1 << 512
_MASK_53: Final = (1 << 53) - 1
_HASHES: Final = 3  # that follow the first
_MANY: Final = 24  # weighted choices of one call; for more it pays to seed the generator that is fast at many
_SHORT: Final = 40  # choices of one call; for more it pays to seed the generator that is fast at many
_from_bytes = int.from_bytes


class KeyedRandom(Random):
    """A ``random.Random`` whose first draws are a hash of its key, so that making one costs no seeding.

    BLAKE2b (RFC 7693) turns the key into 512 bits, which draws take from the lowest up. When too few are left for a
    draw, the hash of the hash is put behind them, three times. Then a hash seeds a Mersenne Twister, which draws faster
    and is ten times as slow to begin: most tasks need some dozens of draws. Every method of ``random.Random`` works;
    after ``seed`` it draws what that one draws.

    Args:
        key: whatever bytes; equal keys give equal draws on every machine.
    """

    __slots__ = ("_bits", "_hash", "_left")
    gauss_next: float | None = None  # Random sets it when it is made

    def __init__(self, key: bytes = b"") -> None:
        self._hash = hashed = blake2b(key).digest()
        self._bits = _from_bytes(hashed, "little") | _END  # one bit more, so that 0 means that they are used up
        self._left = _HASHES

    def _more(self) -> Random:
        """Itself, with 512 bits more behind those that are left; from the last hash on ``_seeded``."""
        bits = self._bits
        if not bits or not self._left:
            return self._seeded()
        self._left -= 1
        spare = bits.bit_length() - 1
        self._hash = hashed = blake2b(self._hash).digest()
        self._bits = bits ^ 1 << spare | (_from_bytes(hashed, "little") | _END) << spare
        return self

    def _seeded(self) -> Random:
        """Itself, drawing from the Mersenne Twister from here on."""
        if type(self) is not _Mersenne:
            self.__class__, self._bits = _Mersenne, 0  # 0 for a method that shuffle or sample had looked up before
            seed = _from_bytes(blake2b(self._hash, digest_size=16).digest(), "little")
            super(Random, self).seed(seed)  # Random.seed would forget gauss_next
        return self

    def random(self) -> float:
        """A float in [0, 1) of 53 bits, taken as ``getrandbits`` takes them."""
        bits = self._bits
        rest = bits >> 53
        if not rest:
            return self._more().random()
        self._bits = rest
        return (bits & _MASK_53) * 2**-53

    def getrandbits(self, k: int, /) -> int:
        """From the hashes while their bits suffice, then from the Mersenne Twister."""
        bits = self._bits
        rest = bits >> (k := whole(k))  # a negative number is refused as Random refuses it, by a ValueError
        if not rest:
            return self._more().getrandbits(k)
        self._bits = rest
        return bits & ((1 << k) - 1)

    def randbytes(self, n: int) -> bytes:
        """From the hashes while their bits suffice, else SHAKE-128 (FIPS 202) of one, which gives any number of bytes.

        The fastest way to draw much at once.
        """
        if not (n := whole(n)):
            return b""
        bits = self._bits
        if rest := bits >> 8 * n:
            self._bits = rest
            return (bits & ((1 << 8 * n) - 1)).to_bytes(n, "little")
        if bits and self._left and bits.bit_length() > 8 * n - 512:  # one hash more suffices
            if bits >> 512 and self._left == _HASHES and len(self._hash) == 64:  # all of a hash is left
                self._left -= 1
                drawn, self._hash = self._hash, blake2b(self._hash).digest()
                self._bits = (_from_bytes(self._hash, "little") | _END) >> 8 * n - 512
                return drawn + self._hash[: n - 64]
            return self._more().randbytes(n)
        drawn = shake_128(self._hash).digest(n + 32)  # 168 bytes are one permutation
        self._hash = drawn[:32]
        return drawn[32:]

    def _randbelow(self, n: int) -> int:
        """What Random does with ``getrandbits``, in one call."""
        bits = self._bits
        k = n.bit_length()
        mask = (1 << k) - 1
        while rest := bits >> k:
            draw = bits & mask
            if draw < n:
                self._bits = rest
                return draw
            bits = rest
        return self._more()._randbelow(n)  # type: ignore[attr-defined,no-any-return]

    def randint(self, a: int, b: int) -> int:
        """What Random does with ``randrange``, in one call."""
        n = b - a + 1
        if type(n) is not int or n < 1:
            return super().randint(a, b)
        bits = self._bits
        k = n.bit_length()
        mask = (1 << k) - 1
        while rest := bits >> k:
            draw = bits & mask
            if draw < n:
                self._bits = rest
                return a + draw
            bits = rest
        return self._more().randint(a, b)

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """What Random does with ``_randbelow``; its checks of odd arguments cost more than the draw."""
        if stop is None and step == 1 and type(start) is int and start > 0:
            return self._randbelow(start)
        return super().randrange(start, stop, step)

    def choice(self, seq: Any) -> Any:
        """What Random does with ``_randbelow``, in one call."""
        if not (n := len(seq)):
            raise IndexError("Cannot choose from an empty sequence")
        bits = self._bits
        k = n.bit_length()
        mask = (1 << k) - 1
        while rest := bits >> k:
            draw = bits & mask
            if draw < n:
                self._bits = rest
                return seq[draw]
            bits = rest
        return self._more().choice(seq)

    def shuffle(self, x: Any) -> None:
        """What Random does with ``_randbelow``, in one call."""
        bits = self._bits
        for last in range(len(x) - 1, 0, -1):
            k = (last + 1).bit_length()
            mask = (1 << k) - 1
            while rest := bits >> k:
                draw = bits & mask
                bits = rest
                if draw <= last:
                    break
            else:
                self._bits = bits
                _swap(x, last, self._more().getrandbits)
                return
            x[last], x[draw] = x[draw], x[last]
        self._bits = bits

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        """What Random does with ``_randbelow``, in fewer calls where it draws from a copy of the population."""
        if type(population) not in _COPIED or counts is not None or not 0 <= k <= (n := len(population)):
            return super().sample(population, k, counts=counts)
        if n > 21 and n > 21 + (4 ** ceil(log(k * 3, 4)) if k > 5 else 0):  # where Random keeps a set of what it drew
            return super().sample(population, k)
        pool, chosen = list(population), []
        bits = self._bits
        for left in range(n, n - k, -1):
            width = left.bit_length()
            mask = (1 << width) - 1
            while rest := bits >> width:
                index = bits & mask
                bits = rest
                if index < left:
                    break
            else:
                self._bits = bits
                index = self._more()._randbelow(left)  # type: ignore[attr-defined]
                bits = self._bits
            chosen.append(pool[index])
            pool[index] = pool[left - 1]
        self._bits = bits
        return chosen

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
        """What Random does; where all weigh the same, by as many calls of ``choice``, which needs fewer bits."""
        if weights is not None or cum_weights is not None or k > _SHORT or not (n := len(population)):
            if k > _MANY:
                self._seeded()
            return super().choices(population, weights, cum_weights=cum_weights, k=k)
        chosen: list[Any] = []
        bits = self._bits
        width = n.bit_length()
        mask = (1 << width) - 1
        while len(chosen) < k:
            if not (rest := bits >> width):
                self._bits = bits
                choice = self._more().choice
                return chosen + [choice(population) for _ in range(k - len(chosen))]
            if (index := bits & mask) < n:
                chosen.append(population[index])
            bits = rest
        self._bits = bits
        return chosen

    def seed(self, a: Any = None, version: int = 2) -> None:
        """Draw what ``random.Random(a)`` draws from here on."""
        self.__class__, self._bits = _Mersenne, 0
        Random.seed(self, a, version)

    def getstate(self) -> tuple[Any, ...]:
        """What ``setstate`` restores, small while no Mersenne Twister was needed."""
        return _STATE, (self._hash, self._bits, self._left), self.gauss_next

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Continue from a state of this class or of ``random.Random``."""
        if state[0] == _STATE:
            _, (self._hash, self._bits, self._left), self.gauss_next = state
            self.__class__ = KeyedRandom
        else:
            Random.setstate(self, state)
            self.__class__, self._bits = _Mersenne, 0

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyedRandom, (), self.getstate()


class _Mersenne(KeyedRandom):
    """A stream that has used up its hash: random.Random's own methods, each with one Python function at most."""

    __slots__ = ()
    random = Random.random
    getrandbits = Random.getrandbits
    randbytes = Random.randbytes
    choices = Random.choices
    getstate = Random.getstate

    def _randbelow(self, n: int) -> int:
        k = n.bit_length()
        getrandbits = self.getrandbits
        draw = getrandbits(k)
        while draw >= n:
            draw = getrandbits(k)
        return draw

    def randint(self, a: int, b: int) -> int:
        n = b - a + 1
        if type(n) is not int or n < 1:
            return Random.randint(self, a, b)
        k = n.bit_length()
        getrandbits = self.getrandbits
        draw = getrandbits(k)
        while draw >= n:
            draw = getrandbits(k)
        return a + draw

    def choice(self, seq: Any) -> Any:
        if not (n := len(seq)):
            raise IndexError("Cannot choose from an empty sequence")
        k = n.bit_length()
        getrandbits = self.getrandbits
        draw = getrandbits(k)
        while draw >= n:
            draw = getrandbits(k)
        return seq[draw]

    def shuffle(self, x: Any) -> None:
        _swap(x, len(x) - 1, self.getrandbits)

    def sample(self, population: Any, k: int, *, counts: Any = None) -> list[Any]:
        if type(population) not in _COPIED or counts is not None or not 0 <= k <= (n := len(population)):
            return Random.sample(self, population, k, counts=counts)
        if n > 21 and n > 21 + (4 ** ceil(log(k * 3, 4)) if k > 5 else 0):
            return Random.sample(self, population, k)
        pool, chosen = list(population), []
        getrandbits = self.getrandbits
        for left in range(n - 1, n - 1 - k, -1):
            bits = (left + 1).bit_length()
            index = getrandbits(bits)
            while index > left:
                index = getrandbits(bits)
            chosen.append(pool[index])
            pool[index] = pool[left]
        return chosen


def _swap(items: Any, last: int, getrandbits: Callable[[int], int]) -> None:
    """The shuffle of Fisher and Yates from index ``last`` down, as random.Random draws it."""
    for index in range(last, 0, -1):
        k = (index + 1).bit_length()
        draw = getrandbits(k)
        while draw > index:
            draw = getrandbits(k)
        items[index], items[draw] = items[draw], items[index]


def digest(*key: object) -> int:
    """A 128-bit hash of the key, the same on every machine and in every process."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=16).digest(), "big")


def digest_of_texts(texts: Iterable[str]) -> str:
    """16 hexadecimal digits of texts in their order, the same on every machine and in every process."""
    hashed = blake2b(digest_size=8)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(content))  # so that no two lists of texts are one
        hashed.update(content)
    return hashed.hexdigest()


def stream(*key: object) -> Random:
    """A random generator of its own for this key (plain strings and numbers)."""
    return KeyedRandom(repr(key).encode())


def split_of(content: str) -> str:
    """The split that a task of this content belongs to: 80 % train, 10 % validation, 10 % test."""
    bucket = _bucket(content)
    if bucket >= _VALIDATION:
        return "train"
    return "validation" if bucket >= _TEST else "test"


def _bucket(content: str) -> bytes:
    try:
        return blake2b(content.encode()).digest()
    except UnicodeEncodeError:
        return blake2b(content.encode("utf-8", "surrogatepass")).digest()


def in_train(content: str) -> bool:
    """Whether ``split_of`` is "train", in less time: every reset asks."""
    try:
        return blake2b(content.encode()).digest() >= _VALIDATION
    except UnicodeEncodeError:
        return _bucket(content) >= _VALIDATION


def in_validation(content: str) -> bool:
    """Whether ``split_of`` is "validation"."""
    return _TEST <= _bucket(content) < _VALIDATION


def in_test(content: str) -> bool:
    """Whether ``split_of`` is "test"."""
    return _bucket(content) < _TEST


IN_SPLIT: Final = {"train": in_train, "validation": in_validation, "test": in_test}


def in_part(divided: Mapping[str, str], split: str, content: str) -> bool:
    """Whether ``divide`` put a content into the split."""
    return divided[content] == split


def divide(contents: Sequence[str]) -> dict[str, str]:
    """The split of each task of a small space: by rank of the hash, so that no split of three or more is empty.

    Raises:
        ValueError: fewer than three tasks cannot fill three splits.
    """
    ranked = sorted(set(contents), key=_bucket)
    if len(ranked) < 3:
        raise ValueError(f"{len(ranked)} tasks cannot be divided into {', '.join(SPLITS)}; use split=None")
    held_out = max(1, round(HELD_OUT * len(ranked)))
    names = ["test"] * held_out + ["validation"] * held_out
    names += ["train"] * (len(ranked) - len(names))
    return dict(zip(ranked, names, strict=True))


def nameless(value: Any) -> str:
    """``repr`` of plain values without the names of classes and their fields: for contents, which decide the split.

    A rename must not move tasks between splits.

    >>> nameless((Fraction(1, 2), Point(row=1, column=2)))
    '(Fraction(1, 2), (1, 2))'
    """
    if type(value) in _PLAIN:
        return repr(value)
    if isinstance(value, Enum):
        return nameless(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        value = tuple(getattr(value, field.name) for field in fields(value))
    if isinstance(value, tuple | list):
        return f"({', '.join(map(nameless, value))})"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(nameless, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{nameless(key)}: {nameless(each)}' for key, each in value.items())}}}"
    return repr(value)


def shuffled_index(position: int, size: int, *key: object) -> int:
    """What stands at a position of a shuffle of ``range(size)``; each key has an order of its own.

    Takes as long for a million as for a thousand: the order is computed and never stored. A Feistel network on pairs of
    numbers below a and b, a * b just over ``size``, whose few results beyond the end go through it again (Black and
    Rogaway, "Ciphers with Arbitrary Finite Domains", 2002, section 5). Too few numbers for its rounds to mix are
    shuffled as a list.

    Raises:
        IndexError: the position is not in the range.
    """
    if not 0 <= position < size:
        raise IndexError(f"position {position} is not in 0 to {size - 1}")
    if size <= LISTED:
        return _short_order(size, *key)[position]
    a = isqrt(size - 1) + 1
    b = -(-size // a)
    keys = _round_keys(*key)
    while True:
        right, left = divmod(position, a)
        for offset, factor in keys:  # after each round the halves change places, and with them a and b
            left, right, a, b = right, (left + ((right + offset) * factor % 2**64 >> 32)) % a, b, a
        position = right * a + left
        if position < size:
            return position


@lru_cache(256)
def _short_order(size: int, *key: object) -> list[int]:
    order = list(range(size))
    stream(*key).shuffle(order)
    return order


@lru_cache(256)
def _round_keys(*key: object) -> tuple[tuple[int, int], ...]:
    """An offset and an odd factor for each of eight rounds, whose function is multiply-shift hashing."""
    numbers = unpack("<8Q", blake2b(repr(key).encode()).digest())
    return tuple((number, number | 1) for number in numbers)
