"""Rules found from examples. One turn each; reward 1 for the exact result of the rule on something new.

FunctionInduction: of numbers. ListFunctionInduction: of lists. StringFunctionInduction: of words.
Each comes with a closed family of rules; all rules of the family that fit the examples give the one answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate, pairwise, product
from math import isqrt
from typing import Any, ClassVar

from rlvr.envs.puzzles import workings
from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.draws import picked
from rlvr.envs.tasks.questions import ExactAnswerTask, Question

Function = Callable[[Any], Any]
POINTS = range(1, 31)


# The families, as the text states them; the ranges are those that ``families`` runs through.
KINDS = (
    "a x + b, with a from 2 to 12 and b from -9 to 9",
    "a x^2 + b x + c, with a from 1 to 3, b from -4 to 4 and c from -5 to 5",
    "(a x modulo m) + b, with a from 2 to 7, m from 5 to 13 and b from 0 to 3",
    "b times the quotient plus c times the remainder of the division of x by a, "
    "with a from 2 to 5 and b and c from 1 to 9",
    "a x + b for odd x and c x + d for even x, with a and c from 2 to 5 and b and d from -2 to 2",
    "a x + b for x up to n and c x + d for larger x, with a and c from 2 to 5, b and d from -2 to 2 and n from 8 to 20",
    "a times the sum of the digits of x, plus b x + c, with a from 1 to 9, b from 0 to 3 and c from -4 to 4",
)
SHOWN_KINDS = (1, 2, 4, 5, 7)  # how many of them a level has


@cache
def families(level: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """For each of the kinds of a level, the values at ``POINTS`` of all its functions, without doubles."""
    digits, halves = range(1, 10), list(product(range(2, 6), range(-2, 3)))
    makers: tuple[Callable[[], Iterable[list[int]]], ...] = (
        lambda: ([a * x + b for x in POINTS] for a, b in product(range(2, 13), range(-9, 10))),
        lambda: (
            [a * x * x + b * x + c for x in POINTS] for a, b, c in product(range(1, 4), range(-4, 5), range(-5, 6))
        ),
        lambda: ([a * x % m + b for x in POINTS] for a, m, b in product(range(2, 8), range(5, 14), range(4))),
        lambda: ([x // a * b + x % a * c for x in POINTS] for a, b, c in product(range(2, 6), digits, digits)),
        lambda: ([(a * x + b) if x % 2 else (c * x + d) for x in POINTS] for (a, b), (c, d) in product(halves, halves)),
        lambda: (
            [(a * x + b) if x <= n else (c * x + d) for x in POINTS]
            for (a, b), (c, d), n in product(halves, halves, range(8, 21))
        ),
        lambda: (
            [a * (x % 10 + x // 10) + b * x + c for x in POINTS] for a, b, c in product(digits, range(4), range(-4, 5))
        ),
    )
    return tuple(tuple(dict.fromkeys(map(tuple, make()))) for make in makers[: SHOWN_KINDS[level - 1]])


@cache
def functions(level: int) -> tuple[tuple[int, ...], ...]:
    """The functions of all the kinds of a level, without doubles."""
    return tuple(dict.fromkeys(values for family in families(level) for values in family))


@cache
def by_value(level: int) -> dict[tuple[int, int], frozenset[int]]:
    """(position of x, value) -> the functions that have that value there."""
    found: dict[tuple[int, int], set[int]] = {}
    for number, values in enumerate(functions(level)):
        for index, value in enumerate(values):
            found.setdefault((index, value), set()).add(number)
    return {key: frozenset(numbers) for key, numbers in found.items()}


class FunctionInduction(ExactAnswerTask):
    """Find a function of whole numbers from some of its values, and one more value.

    Levels 1 to 5: linear functions, then also quadratic, modular, by parity, and by parts or digits. Every function of
    the kinds that the text states, in the ranges that it states, is tried: those that fit the examples have one value.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Shows level + 3 values; draws again until all functions that fit them agree on the one asked for."""
        known, index, kinds = functions(level), by_value(level), families(level)
        while True:
            family = kinds[int(rng.random() * len(kinds))]
            values = family[int(rng.random() * len(family))]
            indices = rng.sample(range(len(POINTS)), 4 + level)
            shown, asked = sorted(indices[1:]), indices[0]
            fitting = frozenset.intersection(*(index[position, values[position]] for position in shown))
            if all(known[number][asked] == values[asked] for number in fitting):
                break
        examples = "; ".join(f"f({POINTS[position]}) = {values[position]}" for position in shown)
        lines = "".join(f"- {kind}\n" for kind in KINDS[: len(kinds)])
        text = f"{examples}.\nf is a function of whole numbers from 1 to {POINTS[-1]} of "
        text += "this kind" if level == 1 else "one of these kinds"
        text += f", and all letters but x stand for whole numbers:\n{lines}What is f({POINTS[asked]})?"
        return Question(text, values[asked])

    def explain(self, state: Question) -> str:
        """The kind of function that has all the values."""
        return workings.function_found(state.text)


def exchanged_pairs(numbers: tuple[int, ...]) -> tuple[int, ...]:
    found = [*numbers]
    even = len(found) & ~1
    found[:even:2], found[1:even:2] = found[1:even:2], found[:even:2]
    return tuple(found)


def minus_least(numbers: tuple[int, ...]) -> tuple[int, ...]:
    least = min(numbers, default=0)
    return tuple([number - least for number in numbers])


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
    "each plus 1": lambda xs: tuple([x + 1 for x in xs]),
    "each doubled": lambda xs: tuple([2 * x for x in xs]),
    "each squared": lambda xs: tuple([x * x for x in xs]),
    "running sums": lambda xs: tuple(accumulate(xs)),
    "each but the first minus the one before it": lambda xs: tuple([b - a for a, b in pairwise(xs)]),
    "the first moved to the end": lambda xs: xs[1:] + xs[:1],
    "the last moved to the front": lambda xs: xs[-1:] + xs[:-1],
    HALVES: exchanged_halves,
    PAIRS: exchanged_pairs,
    "each minus the least of them": minus_least,
    "the largest left out, the first of them if there are several": without_largest,
    "each with its position added, counted from 1": lambda xs: tuple([x + k for k, x in enumerate(xs, 1)]),
}
# What undoes a rule, where only one list can have led to a result; a list that it does not lead to is none.
UNDONE: dict[str, Function] = {
    "reversed": lambda ys: ys[::-1],
    "each plus 1": lambda ys: tuple([y - 1 for y in ys]),
    "each doubled": lambda ys: tuple([y // 2 for y in ys]),
    "running sums": lambda ys: ys[:1] + tuple([b - a for a, b in pairwise(ys)]),
    "the first moved to the end": lambda ys: ys[-1:] + ys[:-1],
    "the last moved to the front": lambda ys: ys[1:] + ys[:1],
    HALVES: lambda ys: ys[(len(ys) + 1) // 2 :] + ys[: (len(ys) + 1) // 2],
    PAIRS: LISTS[PAIRS],
    "each with its position added, counted from 1": lambda ys: tuple([y - k for k, y in enumerate(ys, 1)]),
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


class Chained(ListAnswerTask):
    """What both kinds share: one or two rules of some of a family, one after the other, shown on a few inputs."""

    family: ClassVar[dict[str, Function]]
    rules: ClassVar[tuple[int, ...]]  # how many of them a level names
    what: ClassVar[str]

    def drawn(self, rng: random.Random, level: int) -> Any:
        """An input, drawn."""
        raise NotImplementedError

    def written(self, value: Any) -> str:
        """A value as the question writes it."""
        raise NotImplementedError

    def gold(self, value: Any) -> tuple[Any, ...]:
        """A value as the parts of the answer."""
        raise NotImplementedError

    def inputs(self, rng: random.Random, level: int) -> list[Any]:
        """The inputs of the examples, and the last one, which is asked for."""
        return [self.drawn(rng, level) for _ in range(7 - level // 2)]

    def before(self, name: str, result: Any, values: Iterable[Any]) -> Iterable[Any]:
        """Which of the values a rule turns into the result."""
        rule = self.family[name]
        return [value for value in values if rule(value) == result]

    def chains(self, level: int, names: list[str], examples: list[tuple[Any, Any]]) -> list[tuple[str, ...]]:
        """Every chain of these rules, at most so many as the level has, that fits the examples."""
        first, result = examples[0]
        if self.length(level) == 1:
            fitting: list[tuple[str, ...]] = [(name,) for name in names if self.family[name](first) == result]
        else:
            reached: dict[Any, list[str]] = {}
            for name in names:
                reached.setdefault(self.family[name](first), []).append(name)
            fitting = [(name,) for name in reached.get(result, ())]
            for name in names:
                for value in self.before(name, result, reached):
                    fitting += [(earlier, name) for earlier in reached[value]]
        return [chain for chain in fitting if all(self.apply_chain(chain, x) == y for x, y in examples[1:])]

    @staticmethod
    def length(level: int) -> int:
        """How many functions a chain has."""
        return 1 if level == 1 else 2

    def apply_chain(self, chain: Iterable[str], value: Any) -> Any:
        """A value after the functions of a chain, one after the other."""
        for name in chain:
            value = self.family[name](value)
        return value

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws a chain that changes every input; draws again unless all chains that fit agree on the last input."""
        left_out = picked(rng, self.family, len(self.family) - self.rules[level - 1])
        names = [name for name in self.family if name not in left_out]
        while True:
            chain = tuple([rng.choice(names) for _ in range(self.length(level))])
            pairs = []
            for value in self.inputs(rng, level):
                result = self.apply_chain(chain, value)
                if not result or value == result:
                    break
                pairs.append((value, result))
            else:
                *examples, (last, result) = pairs
                if len(dict(pairs)) == len(pairs) and all(
                    other == chain or self.apply_chain(other, last) == result
                    for other in self.chains(level, names, examples)
                ):
                    break
        shown = "\n".join(f"{self.written(x)} -> {self.written(y)}" for x, y in examples)
        kinds = "one of these changes"
        if level > 1:
            kinds += ", or two of them one after the other (the same one twice, too)"
        lines = "".join(f"- {name}\n" for name in names)
        text = f"A rule turns each {self.what} on the left into the one on the right:\n{shown}\nThe rule is {kinds}:\n"
        text += f"{lines}What does the rule make of {self.written(last)}?"
        tried = sum(len(names) ** length for length in range(1, self.length(level) + 1))
        return Question(text, self.gold(result), f"The rule: {', then '.join(chain)}.", operations=tried)

    def explain(self, state: Question) -> str:
        """The rule, what it makes of each input step by step, and of the last one."""
        chain = state.working.removeprefix("The rule: ").removesuffix(".").split(", then ")
        lines = [state.working]
        for shown in re.findall(r"^(.+) -> .+$|What does the rule make of (.+)\?$", state.text, re.M):
            value: Any = shown[0] or shown[1]
            if value.startswith("["):
                value = tuple(int(number) for number in re.findall(r"-?\d+", value))
            values = [value]
            for name in chain:
                values.append(self.family[name](values[-1]))
            lines.append(" -> ".join(map(self.written, values)) + (", as shown" if shown[0] else ""))
        return "\n".join(lines)


_DIGIT_OF = [bytes(byte % most for byte in range(256)) for most in (10, 14)]


class ListFunctionInduction(Chained):
    """Find the rule that changes lists, and apply it.

    Level 1: one rule of 16; 2 to 5: two of 8 to 22, shown on 5 or 4 lists that grow longer and repeat more.
    """

    family = LISTS
    rules = (16, 8, 12, 16, 22)
    what = "list of numbers"

    def drawn(self, rng: random.Random, level: int) -> tuple[int, ...]:
        """Four to 4 + level numbers from 0 to 9, from level 4 on to 13; repeats are wanted."""
        return tuple(rng.choices(range(10 if level < 4 else 14), k=rng.randint(4, 4 + level)))

    def inputs(self, rng: random.Random, level: int) -> list[tuple[int, ...]]:
        """As ``drawn`` says, all from one draw."""
        count, most = 7 - level // 2, 4 + level
        drawn = rng.randbytes(count * (1 + most))
        numbers = drawn[count:].translate(_DIGIT_OF[level >= 4])
        lengths = [4 + (byte * (level + 1) >> 8) for byte in drawn[:count]]
        return [tuple(numbers[k * most : k * most + length]) for k, length in enumerate(lengths)]

    def before(self, name: str, result: tuple[int, ...], values: Iterable[Any]) -> Iterable[Any]:
        """Which of the values a rule turns into the result: by undoing the rule, where only one can be."""
        rule = self.family[name]
        if undo := UNDONE.get(name):
            value = undo(result)
            return [value] if value in values and rule(value) == result else []
        if name in SHORTER:
            length = len(result) + 1
            values = [value for value in values if len(value) == length]
        elif (possible := RESULTS.get(name)) and not possible(result):
            return []
        return [value for value in values if rule(value) == result]

    def written(self, value: tuple[int, ...]) -> str:
        """``[3, 1, 2]``, with the brackets that the answer may leave out."""
        return str(list(value))

    def gold(self, value: tuple[int, ...]) -> tuple[int, ...]:
        """The list itself: its numbers are the parts of the answer, in order."""
        return value


class StringFunctionInduction(Chained):
    """Find the rule that changes words, and apply it.

    Level 1: one rule of 14; 2 to 5: two of 8 to 18, shown on 5 or 4 words that grow longer.
    """

    family = WORDS
    rules = (14, 8, 11, 14, 18)
    what = "word"

    def drawn(self, rng: random.Random, level: int) -> str:
        """Four to 4 + level letters, consonants and vowels in turn."""
        letters = "bcdfglmnprstvz"
        return "".join(rng.choice("aeiou" if k % 2 else letters) for k in range(rng.randint(4, 4 + level)))

    def written(self, value: str) -> str:
        return value

    def gold(self, value: str) -> tuple[str, ...]:
        """One part: the word. Only an answer of exactly one word is right."""
        return (value,)
