"""Rules found from examples.

Each task has a closed family of rules; all rules of the family that fit the examples give the one answer.

Observation: the family of rules, examples of one of them, and something new to apply it to.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterable
from functools import cache
from itertools import product
from operator import eq
from typing import Any, ClassVar

from rlvr.envs.puzzles import workings
from rlvr.envs.puzzles.chained_rules import LISTS, RESULTS, SHORTER, UNDONE, WORDS, Function, possible_rules
from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.draws import distinct
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained, question_of

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
    by_pair: dict[tuple[int, int], set[int]] = {}
    for number, values in enumerate(functions(level)):
        for index, value in enumerate(values):
            by_pair.setdefault((index, value), set()).add(number)
    return {key: frozenset(numbers) for key, numbers in by_pair.items()}


class FunctionInduction(ExactAnswerTask):
    """Find a function of whole numbers from some of its values, and one more value.

    Levels 1 to 5: linear functions, then also quadratic, modular, by parity, and by parts or digits. Every function of
    the kinds that the text states, in the ranges that it states, is tried: those that fit the examples have one value.
    """

    explain = explained(workings.function_found, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Shows level + 3 values; draws again until all functions that fit them agree on the one asked for."""
        candidates, index, kinds = functions(level), by_value(level), families(level)
        while True:
            family = kinds[int(rng.random() * len(kinds))]
            values = family[int(rng.random() * len(family))]
            indices = rng.sample(range(len(POINTS)), 4 + level)
            shown, asked = sorted(indices[1:]), indices[0]
            fitting = frozenset.intersection(*(index[position, values[position]] for position in shown))
            if all(candidates[number][asked] == values[asked] for number in fitting):
                break
        examples = "; ".join(f"f({POINTS[position]}) = {values[position]}" for position in shown)
        lines = "".join(f"- {kind}\n" for kind in KINDS[: len(kinds)])
        text = f"{examples}.\nf is a function of whole numbers from 1 to {POINTS[-1]} of "
        text += "this kind" if level == 1 else "one of these kinds"
        text += f", and all letters but x stand for whole numbers:\n{lines}What is f({POINTS[asked]})?"
        return Question(text, values[asked])


class Chained(ListAnswerTask):
    """What both kinds share: one or two rules of some of a family, one after the other, shown on a few inputs."""

    family: ClassVar[dict[str, Function]] = {}
    rules: ClassVar[tuple[int, ...]]  # how many of them a level names
    inputs_of: ClassVar[tuple[int, ...]] = (4, 5, 5, 6, 6)  # how many a level has, with the one that is asked for
    what: ClassVar[str]
    names: ClassVar[tuple[str, ...]] = ()  # of the family's rules, in its order

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.names = (*cls.family,)

    def drawn(self, rng: random.Random, level: int) -> Any:
        """An input, drawn."""
        raise NotImplementedError

    def written(self, value: Any) -> str:
        """A value as the question writes it."""
        raise NotImplementedError

    def examples(self, inputs: list[Any], results: list[Any]) -> str:
        """A line for each input and its result."""
        return "\n".join([f"{self.written(x)} -> {self.written(y)}" for x, y in zip(inputs, results, strict=True)])

    def gold(self, value: Any) -> tuple[Any, ...]:
        """A value as the parts of the answer."""
        raise NotImplementedError

    def inputs(self, rng: random.Random, level: int) -> list[Any]:
        """The inputs of the examples, and the last one, which is asked for, in the form that ``code`` reads."""
        return [self.drawn(rng, level) for _ in range(self.inputs_of[level - 1])]

    def read(self, inputs: list[Any]) -> list[Any]:
        """The inputs in the form that rules change."""
        return inputs

    def before(self, name: str, result: Any, values: Iterable[Any]) -> Iterable[Any]:
        """Which of the values a rule turns into the result."""
        rule = self.family[name]
        return [value for value in values if rule(value) == result]

    def chains(
        self, level: int, names: list[str], examples: list[tuple[Any, Any]], excluded: tuple[str, ...] = ()
    ) -> list[tuple[str, ...]]:
        """Every chain of these rules, at most so many as the level has, that fits the examples; one is known to."""
        first, result = examples[0]
        fitting: list[tuple[str, ...]]
        if self.length(level) == 1:
            possible = self.candidates(first, result, names)
            fitting = [(name,) for name in names if name in possible]
            return [chain for chain in fitting if chain == excluded or self.fits(chain, examples)]
        reached: dict[Any, list[str]] = {}
        for name in names:
            reached.setdefault(self.family[name](first), []).append(name)
        fitting = [(name,) for name in reached.get(result, ())]
        for name in names:
            for value in self.before(name, result, reached):
                fitting += [(earlier, name) for earlier in reached[value]]
        return [chain for chain in fitting if chain == excluded or self.fits(chain, examples)]

    def candidates(self, value: Any, result: Any, names: list[str]) -> Container[str]:
        """Rules among which are all that turn the value into the result."""
        return names

    def alone(self, name: str, value: Any, result: Any, names: list[str]) -> bool:
        """Whether no other of the rules turns the value into the result."""
        family = self.family
        possible = self.candidates(value, result, names)
        for other in names:
            if other not in possible or other == name:
                continue
            if family[other](value) == result:
                return False
        return True

    def fits(self, chain: Iterable[str], examples: list[tuple[Any, Any]]) -> bool:
        """Whether a chain turns each value into its result."""
        for value, result in examples:
            for name in chain:
                value = self.family[name](value)
            if value != result:
                return False
        return True

    @staticmethod
    def length(level: int) -> int:
        """How many functions a chain has."""
        return 1 if level == 1 else 2

    def apply_chain(self, chain: Iterable[str], value: Any) -> Any:
        """A value after the functions of a chain, one after the other."""
        family = self.family
        for name in chain:
            value = family[name](value)
        return value

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws inputs, then a chain that changes each; draws again unless all chains that fit agree on the last input.

        The content is the rules that are named, and the inputs.
        """
        every, size = self.names, self.rules[level - 1]
        drawn_chain = None
        while drawn_chain is None:
            named = sorted(distinct(rng, len(every), size))
            drawn = self.inputs(rng, level)
            content = f"{bytes(named).hex()} {self.code(drawn)}"
            if len(set(drawn)) == len(drawn):
                names, inputs = [every[number] for number in named], self.read(drawn)
                drawn_chain = self.found_chain(rng, level, names, inputs)
        chain, results = drawn_chain
        kinds, tried = "one of these changes", size
        if level > 1:
            kinds += ", or two of them one after the other (the same one twice, too)"
            tried += size * size
        listed = "\n- ".join(names)
        text = (
            f"A rule turns each {self.what} on the left into the one on the right:\n"
            f"{self.examples(inputs[:-1], results[:-1])}\n"
            f"The rule is {kinds}:\n- {listed}\nWhat does the rule make of {self.written(inputs[-1])}?"
        )
        return question_of((text, self.gold(results[-1]), f"The rule: {', then '.join(chain)}.", "", content, tried))

    def found_chain(
        self, rng: random.Random, level: int, names: list[str], inputs: list[Any]
    ) -> tuple[tuple[str, ...], list[Any]] | None:
        """A chain of the rules that changes all inputs and leaves something of each, and its results.

        All chains that fit the inputs but the last agree on that one. None where twelve drawn chains are not so.
        """
        length, family = self.length(level), self.family
        for _ in range(12):
            name = rng.choice(names)
            chain: tuple[str, ...] = (name,)
            results = [*map(family[name], inputs)]
            if length > 1:
                chain = (name, rng.choice(names))
                results = [*map(family[chain[1]], results)]
            if all(results) and not any(map(eq, results, inputs)):
                if length == 1 and self.alone(name, inputs[0], results[0], names):
                    return chain, results
                *examples, (last, gold) = zip(inputs, results, strict=True)
                others = self.chains(level, names, examples, chain)
                if len(others) == 1 or all(self.apply_chain(other, last) == gold for other in others):
                    return chain, results
        return None

    def code(self, inputs: list[Any]) -> str:
        """The inputs, as the content names them."""
        raise NotImplementedError

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


_DIGIT_OF = [bytes(byte % base for byte in range(256)) for base in (10, 14)]
_ROWS = [f"[{', '.join(['%d'] * length)}]" for length in range(10)]
_LINES = [[f"{x} -> {y}" for y in _ROWS] for x in _ROWS]  # by how long both lists are; no rule makes one longer
_LENGTH_OF = [bytes(4 + (byte * (level + 1) >> 8) for byte in range(256)) for level in range(6)]


class ListFunctionInduction(Chained):
    """Find the rule that changes lists, and apply it.

    Level 1: one rule of 8, shown on 3 lists; 2 to 5: two of 8 to 22, shown on 4 or 5 lists, longer with more repeats.
    """

    family = LISTS
    rules = (8, 8, 12, 16, 22)
    what = "list of numbers"

    def drawn(self, rng: random.Random, level: int) -> tuple[int, ...]:
        """Four to 4 + level numbers from 0 to 9, from level 4 on to 13; repeats are wanted."""
        return tuple(rng.choices(range(10 if level < 4 else 14), k=rng.randint(4, 4 + level)))

    def inputs(self, rng: random.Random, level: int) -> list[bytes]:
        """As ``drawn`` says, all from one draw; a byte is a number."""
        count, base = self.inputs_of[level - 1], 4 + level
        drawn = rng.randbytes(count * (1 + base))
        numbers = drawn.translate(_DIGIT_OF[level >= 4])
        lengths = drawn[:count].translate(_LENGTH_OF[level])
        starts = range(count, len(drawn), base)
        return [numbers[start : start + length] for start, length in zip(starts, lengths, strict=True)]

    def read(self, inputs: list[bytes]) -> list[tuple[int, ...]]:
        """Each as the tuple of its numbers."""
        return [*map(tuple, inputs)]

    def candidates(self, value: tuple[int, ...], result: tuple[int, ...], names: list[str]) -> Container[str]:
        """By how many numbers are left, and their sum."""
        return names if value == result else possible_rules(value, result)

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

    def examples(self, inputs: list[tuple[int, ...]], results: list[tuple[int, ...]]) -> str:
        """As ``written``, in half the time."""
        return "\n".join([_LINES[len(x)][len(y)] % (x + y) for x, y in zip(inputs, results, strict=True)])

    def code(self, inputs: list[bytes]) -> str:
        """The numbers in hexadecimal, the lists apart by ff."""
        return b"\xff".join(inputs).hex()

    def gold(self, value: tuple[int, ...]) -> tuple[int, ...]:
        """The list itself: its numbers are the parts of the answer, in order."""
        return value


class StringFunctionInduction(Chained):
    """Find the rule that changes words, and apply it.

    Level 1: one rule of 8, shown on 3 words; 2 to 5: two of 8 to 18, shown on 4 or 5 words that grow longer.
    """

    family = WORDS
    rules = (8, 8, 11, 14, 18)
    what = "word"

    def drawn(self, rng: random.Random, level: int) -> str:
        """Four to 4 + level letters, consonants and vowels in turn."""
        letters = "bcdfglmnprstvz"
        return "".join(rng.choice("aeiou" if k % 2 else letters) for k in range(rng.randint(4, 4 + level)))

    def written(self, value: str) -> str:
        return value

    def code(self, inputs: list[str]) -> str:
        """The words."""
        return " ".join(inputs)

    def gold(self, value: str) -> tuple[str, ...]:
        """One part: the word. Only an answer of exactly one word is right."""
        return (value,)
