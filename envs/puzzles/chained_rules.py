"""Rules that change lists and words, by the names that questions give them, and what is known of their results."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, count, repeat
from math import isqrt
from operator import add, mul, sub
from typing import Any

Function = Callable[[Any], Any]


def exchanged_pairs(numbers: tuple[int, ...]) -> tuple[int, ...]:
    exchanged = [*numbers]
    even = len(exchanged) & ~1
    exchanged[:even:2], exchanged[1:even:2] = exchanged[1:even:2], exchanged[:even:2]
    return tuple(exchanged)


def minus_least(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(sub, numbers, repeat(min(numbers)))) if numbers else numbers


def exchanged_halves(value: Any) -> Any:
    middle = len(value) // 2
    return value[middle:] + value[:middle]


def without_largest(numbers: tuple[int, ...]) -> tuple[int, ...]:
    if not numbers:
        return numbers
    first = numbers.index(max(numbers))
    return numbers[:first] + numbers[first + 1 :]


ALPHABET = "abcdefghijklmnopqrstuvwxyz"
NEXT_LETTER = str.maketrans(ALPHABET, ALPHABET[1:] + "a")
NEXT_VOWEL = str.maketrans("aeiou", "eioua")
HALVES = "halves exchanged, the first half the shorter one of an odd number"
PAIRS = "neighbours exchanged in pairs from the left, a last one left over stays"
LISTS: dict[str, Function] = {
    "reversed": lambda xs: xs[::-1],
    "sorted upwards": lambda xs: tuple(sorted(xs)),
    "sorted downwards": lambda xs: tuple(sorted(xs, reverse=True)),
    "without the first": lambda xs: xs[1:],
    "without the last": lambda xs: xs[:-1],
    "each number kept only where it first stands": lambda xs: tuple(dict.fromkeys(xs)),
    "only the even ones": lambda xs: tuple([x for x in xs if not x & 1]),
    "only the odd ones": lambda xs: tuple([x for x in xs if x & 1]),
    "every second one, from the first on": lambda xs: xs[::2],
    "only those over 5": lambda xs: tuple([x for x in xs if x > 5]),
    "each plus 1": lambda xs: tuple(map(add, xs, repeat(1))),
    "each doubled": lambda xs: tuple(map(add, xs, xs)),
    "each squared": lambda xs: tuple(map(mul, xs, xs)),
    "running sums": lambda xs: tuple(accumulate(xs)),
    "each but the first minus the one before it": lambda xs: tuple(map(sub, xs[1:], xs)),
    "the first moved to the end": lambda xs: xs[1:] + xs[:1],
    "the last moved to the front": lambda xs: xs[-1:] + xs[:-1],
    HALVES: exchanged_halves,
    PAIRS: exchanged_pairs,
    "each minus the least of them": minus_least,
    "the largest left out, the first of them if there are several": without_largest,
    "each with its position added, counted from 1": lambda xs: tuple(map(add, xs, count(1))),
}
# What undoes a rule, where only one list can have led to a result; a list that it does not lead to is none.
UNDONE: dict[str, Function] = {
    "reversed": lambda ys: ys[::-1],
    "each plus 1": lambda ys: tuple(map(sub, ys, repeat(1))),
    "each doubled": lambda ys: tuple([y // 2 for y in ys]),
    "running sums": lambda ys: ys[:1] + tuple(map(sub, ys[1:], ys)),
    "the first moved to the end": lambda ys: ys[-1:] + ys[:-1],
    "the last moved to the front": lambda ys: ys[1:] + ys[:1],
    HALVES: lambda ys: ys[(len(ys) + 1) // 2 :] + ys[: (len(ys) + 1) // 2],
    PAIRS: LISTS[PAIRS],
    "each with its position added, counted from 1": lambda ys: tuple(map(sub, ys, count(1))),
}
# What holds for every result of a rule.
RESULTS: dict[str, Callable[[tuple[int, ...]], bool]] = {
    "sorted upwards": lambda ys: list(ys) == sorted(ys),
    "sorted downwards": lambda ys: list(ys) == sorted(ys, reverse=True),
    "each number kept only where it first stands": lambda ys: len(set(ys)) == len(ys),
    "only the even ones": lambda ys: not any(y & 1 for y in ys),
    "only the odd ones": lambda ys: all(y & 1 for y in ys),
    "only those over 5": lambda ys: min(ys) > 5,
    "each squared": lambda ys: min(ys) >= 0 and all(isqrt(y) ** 2 == y for y in ys),
    "each minus the least of them": lambda ys: min(ys) == 0,
}
# The rules that leave one number fewer, but of no list without numbers.
SHORTER = {
    "without the first",
    "without the last",
    "each but the first minus the one before it",
    "the largest left out, the first of them if there are several",
}
# The rules that keep all the numbers, and those that keep how many there are: one of the others keeps a list as it is,
# where it leaves nothing out.
MOVES = {"reversed", "sorted upwards", "sorted downwards", "the first moved to the end", "the last moved to the front"}
MOVES |= {HALVES, PAIRS}
VALUES = {"each plus 1", "each doubled", "each squared", "running sums", "each minus the least of them"}
VALUES |= {"each with its position added, counted from 1"}


def possible_rules(first: tuple[int, ...], result: tuple[int, ...]) -> set[str]:
    """The rules that may turn a list into another one, by how many numbers are left and what they add up to.

    Of numbers from 0 on, a rule of ``VALUES`` changes the sum of every list that it changes at all.
    """
    if len(first) != len(result):
        return _OTHERS if len(first) == len(result) + 1 else _FILTERS
    return MOVES if sum(first) == sum(result) else VALUES


WORDS: dict[str, Function] = {
    "reversed": lambda s: s[::-1],
    "first letter to the end": lambda s: s[1:] + s[:1],
    "last letter to the front": lambda s: s[-1:] + s[:-1],
    "vowels left out": lambda s: "".join(c for c in s if c not in "aeiou"),
    "each vowel doubled": lambda s: "".join(c * (1 + (c in "aeiou")) for c in s),
    "letters in alphabetical order": lambda s: "".join(sorted(s)),
    "each letter kept only where it first stands": lambda s: "".join(dict.fromkeys(s)),
    "each letter replaced by the next of the alphabet, z by a": lambda s: s.translate(NEXT_LETTER),
    "each vowel replaced by the next of a, e, i, o, u, and u by a": lambda s: s.translate(NEXT_VOWEL),
    HALVES: exchanged_halves,
    PAIRS: lambda s: "".join(s[k : k + 2][::-1] for k in range(0, len(s), 2)),
    "every second letter, from the first on": lambda s: s[::2],
    "first letter doubled": lambda s: s[:1] + s,
    "last letter left out": lambda s: s[:-1],
    "first letter left out": lambda s: s[1:],
    "the word followed by its mirror image": lambda s: s + s[::-1],
    "first and last letter exchanged": lambda s: s[-1:] + s[1:-1] + s[:1] if len(s) > 1 else s,
    "all letters but the first and the last reversed": lambda s: s[:1] + s[1:-1][::-1] + s[-1:] if len(s) > 1 else s,
}
_OTHERS = LISTS.keys() - MOVES - VALUES
_FILTERS = _OTHERS - SHORTER
