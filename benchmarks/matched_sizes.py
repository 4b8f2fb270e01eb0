"""The sizes of our tasks in the settings of reasoning-gym's data sets: what is measured on drawn tasks, per level.

A knob is a setting of theirs that bounds a size, as ``min_words`` and ``max_words`` bound words. Its range for a level
is from the smallest to the largest size in ``DRAWN`` tasks of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isqrt
from statistics import fmean
from typing import Any, NamedTuple

from rlvr.envs import TextEnv

DRAWN = 200
Sizes = dict[str, list[int]]
NUMBER = re.compile(r"\d+")


class Knobs(NamedTuple):
    """What is matched, in words, and the sizes of a question by the names of the knobs.

    ``plain`` are settings without a least and a most: the mean over the tasks, rounded where theirs is whole.
    """

    words: str
    sizes: Callable[[str], Sizes]
    plain: Callable[[str], dict[str, float]] = lambda text: {}


def numbers(text: str) -> list[int]:
    """The whole numbers of a text."""
    return [int(number) for number in NUMBER.findall(text)]


def words(text: str) -> Sizes:
    """The number of words, by blanks."""
    return {"words": [len(text.split())]}


def asked(text: str) -> str:
    """What stands between "What is" and the question mark."""
    return text.partition("What is ")[2].partition("?")[0]


def terms(text: str) -> Sizes:
    """How many numbers a sum or product has, and how many digits each."""
    numbers = NUMBER.findall(asked(text))
    return {"terms": [len(numbers)], "digits": [len(number) for number in numbers]}


def line(text: str, number: int) -> str:
    return text.split("\n")[number]


def reversed_words(text: str) -> Sizes:
    """Their data set has one word: for a line of several no setting fits."""
    words = text.rpartition(": ")[2].split()
    return {"word_len": [len(words[0])]} if len(words) == 1 else {}


def grid(text: str) -> Sizes:
    """Rows and columns of the smallest grid, as square as can be, with a cell for each node."""
    size = max(int(node) for road in re.findall(r"(\d+)[->](\d+):", text) for node in road)
    rows = isqrt(size)
    return {"rows": [rows], "cols": [-(-size // rows)]}


def sorted_words(text: str) -> Sizes:
    words = line(text, 1).split(", ")
    return {"words": [len(words)], "word_length": list(map(len, words))}


def anagram_groups(text: str) -> Sizes:
    """Half as many groups as words, each of two."""
    return {"anagram_groups": [max(2, text.count("\n") // 2)], "words_per_group": [2]}


def queens(text: str) -> Sizes:
    board = [row for row in text.split("\n") if re.fullmatch("[.xQ]+", row)]
    return {"remove": [len(board) - sum(row.count("Q") for row in board)]}


def graph(text: str) -> dict[str, float]:
    size, colours = numbers(text)[1], numbers(text)[3]
    return {
        "num_colors": colours,
        "edge_probability": text.partition("differ:")[2].count("-") * 2 / (size * (size - 1)),
    }


def matrix(text: str) -> Sizes:
    """The longer side of the matrix: theirs are square."""
    rows = [row.split() for row in text.split("\n") if re.fullmatch("[0-9 ]+", row)]
    return {"n": [max(len(rows), len(rows[0]))]}


def operands(text: str) -> Sizes:
    numbers = NUMBER.findall(text.partition("?")[0])
    return {"terms": [len(numbers)], "digits": [len(number) for number in numbers]}


def table(text: str) -> Sizes:
    rows = [row.partition(" |")[0].split() for row in text.split("\n") if " | " in row]
    side, empty = max(len(rows), len(rows[0])), sum(row.count(".") for row in rows)
    givens = [int(cell) for row in rows for cell in row if cell != "."]
    return {"board_size": [side], "empty": [empty], "num": [*numbers(line(text, 0).partition(", each")[0]), *givens]}


KNOBS = {
    "rlvr/ReverseText-v0": Knobs("letters of the word; no setting for lines", reversed_words),
    "rlvr/SortWords-v0": Knobs("words, letters; no setting for another alphabet", sorted_words),
    "rlvr/LetterCounts-v0": Knobs("words; no setting for several letters", lambda text: words(line(text, 1))),
    "rlvr/Ciphers-v0": Knobs(
        "words; no setting for other ciphers", lambda text: words(re.findall("Encrypted: (.*)", text)[0])
    ),
    "rlvr/FractionArithmetic-v0": Knobs(
        "numbers above and below; no setting for several fractions", lambda text: {"value": numbers(asked(text))}
    ),
    "rlvr/Anagrams-v0": Knobs("words, as pairs", anagram_groups),
    "rlvr/BitManipulation-v0": Knobs(
        "eight bits; no setting for operations", lambda text: {"n": [max(1, int(re.findall("[01]{8}", text)[0], 2))]}
    ),
    "rlvr/ShortestPath-v0": Knobs("cells as many as nodes; no setting for lengths", grid),
    "rlvr/Colouring-v0": Knobs("nodes, edges, colours", lambda text: {"num_vertices": [numbers(text)[1]]}, graph),
    "rlvr/StringRewriting-v0": Knobs(
        "letters, rules",
        lambda text: {
            "string_length": [len(re.findall(r"the text (\w+) and", text)[0])],
            "num_rules": [text.count(" -> ")],
        },
    ),
    "rlvr/FamilyTree-v0": Knobs(
        "people",
        lambda text: {
            "family_size": [len({*re.findall(r"(\w+) is a parent", text), *re.findall(r"parent of (\w+)", text)})]
        },
    ),
    "rlvr/Cryptarithms-v0": Knobs("numbers that are added", lambda text: {"words": [1 + line(text, 0).count(" + ")]}),
    "rlvr/RushHour-v0": Knobs(
        "moves", lambda text: {"moves": [int(re.findall(r"You have (\d+) turns", text)[0]) // 2]}
    ),
    "rlvr/Sums-v0": Knobs("terms, digits", terms),
    "rlvr/Products-v0": Knobs("factors, digits", terms),
    "rlvr/PrimeFactors-v0": Knobs("the number", lambda text: {"value": numbers(text)[:1]}),
    "rlvr/GreatestCommonDivisor-v0": Knobs(
        "how many numbers, how large; no setting for multiples",
        lambda text: {"numbers": [len(numbers(text))], "value": numbers(text)},
    ),
    "rlvr/SortingTrace-v0": Knobs(
        "how many numbers, how large",
        lambda text: {
            "numbers": [line(text, 1).count(",") + 1],
            "value": numbers(line(text, 1)),
            "decimals": [0],
        },
    ),
    "rlvr/QueensCompletion-v0": Knobs("side, missing queens", queens, lambda text: {"n": numbers(text)[0]}),
    "rlvr/Survo-v0": Knobs("longer side, empty cells, numbers", table),
    "rlvr/MatrixWalk-v0": Knobs("longer side; no setting for operations before", matrix),
    "rlvr/MazePath-v0": Knobs("side", lambda text: {"grid_size": [len(line(text, 1))]}),
    "rlvr/OrderOfOperations-v0": Knobs("numbers, digits", operands),
    "rlvr/NeedleCounting-v0": Knobs("lines", lambda text: {"num_statements": [len(re.findall("(?m)^[0-9]+ ", text))]}),
    "rlvr/PalindromeCount-v0": Knobs("letters", lambda text: {"length": [len(line(text, 1))]}),
}
NO_KNOB = {  # of the pairs in which theirs makes items at half our rate or faster
    "rlvr/Angles-v0": "ours are of several kinds; theirs have sides only",
    "rlvr/BaseConversion-v0": "theirs asks for any two bases, ours for a base and ten",
    "rlvr/BitOperations-v0": "theirs has a difficulty, no sizes",
    "rlvr/CalendarDays-v0": "no size in either",
    "rlvr/ComplexNumbers-v0": "no setting for several operations",
    "rlvr/Components-v0": "theirs are cells of a grid, ours nodes of a graph",
    "rlvr/GridTransformation-v0": "theirs is one grid, ours examples of a rule",
    "rlvr/ListFunctionInduction-v0": "theirs has no settings",
    "rlvr/Syllogisms-v0": "no setting for the number of premises",
    "rlvr/WordProblems-v0": "theirs has a difficulty, no sizes",
}


def matched(env: TextEnv, knobs: Knobs, level: int, seed: int = 0) -> dict[str, Any]:
    """Settings of theirs for tasks of the sizes of a level; none where no setting of theirs fits."""
    least: dict[str, int] = {}
    largest: dict[str, int] = {}
    plain: dict[str, list[float]] = {}
    env.reset(seed=seed)
    for _ in range(DRAWN):
        text, _ = env.reset(options={"level": level})
        sizes = knobs.sizes(text)
        if not sizes:
            return {}
        for name, values in sizes.items():
            least[name] = min(*values, least.get(name, values[0]))
            largest[name] = max(*values, largest.get(name, values[0]))
        for name, value in knobs.plain(text).items():
            plain.setdefault(name, []).append(value)
    settings: dict[str, Any] = {f"min_{name}": value for name, value in least.items()}
    settings |= {f"max_{name}": value for name, value in largest.items()}
    for name, values in plain.items():
        settings[name] = round(fmean(values)) if all(value == int(value) for value in values) else fmean(values)
    return settings
