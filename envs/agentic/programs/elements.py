"""Blocks that look at the elements of a list one by one: conditions and measures, and what is done by them.

Each condition and each measure fills several operations: elements are kept by a condition, counted, cut at, moved;
replaced by a measure, sorted and deduplicated by it, summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Template
from typing import NamedTuple

from rlvr.envs.agentic.programs.structure import Allowed, CodeBlock


class Piece(NamedTuple):
    """A condition ("$are greater than $low") or a measure ("its square plus $b") of one element, and its expression."""

    name: str
    text: str
    code: str
    parameters: Mapping[str, Allowed] = {}


CONDITIONS: Mapping[str, tuple[Piece, ...]] = {
    "numbers": (
        Piece("high", "$are greater than $low", "n > $low", {"low": range(-2, 6)}),
        Piece("low", "$are smaller than $high", "n < $high", {"high": range(1, 8)}),
        Piece("multiple", "$are divisible by $d", "n % $d == 0", {"d": (2, 3)}),
        Piece("indivisible", "$are not divisible by $d", "n % $d != 0", {"d": (2, 3, 4)}),
        Piece(
            "middle", "lie$s from $bottom to $top, both included", "$bottom <= n <= $top",
            {"bottom": range(-6, -1), "top": range(4, 9)},
        ),
        Piece("large", "$have an absolute value of at least $size", "abs(n) >= $size", {"size": range(3, 8)}),
        Piece("ending", "end$s in a decimal digit of at least $digit", "abs(n) % 10 >= $digit", {"digit": range(3, 6)}),
    ),
    "words": (
        Piece("long", "$have at least $least letters", "len(w) >= $least", {"least": range(3, 6)}),
        Piece("vowel", "begin$s with a vowel (a, e, i, o or u)", "w[0] in 'aeiou'"),
        Piece("holding", "contain$s the letter '$letter'", "'$letter' in w", {"letter": tuple("aeort")}),
        Piece("early", "come$s before '$word' in the alphabet", "w < '$word'", {"word": ("lamp", "market", "on")}),
        Piece("even", "$have an even number of letters", "len(w) % 2 == 0"),
    ),
}  # fmt: skip
MEASURES: Mapping[str, tuple[Piece, ...]] = {
    "numbers": (
        Piece("scaled", "its product with $factor", "n * $factor", {"factor": range(2, 8)}),
        Piece("distance", "its distance from $centre", "abs(n - $centre)", {"centre": range(1, 7)}),
        Piece("rest", "its remainder modulo $m, which is never negative", "n % $m", {"m": range(5, 9)}),
        Piece("square", "its square plus $b", "n * n + $b", {"b": range(2, 9)}),
        Piece("capped", "the smaller of itself and $cap", "min(n, $cap)", {"cap": range(4, 9)}),
        Piece("mirrored", "$total minus itself", "$total - n", {"total": range(3, 12)}),
    ),
    "words": (
        Piece("length", "its length", "len(w)"),
        Piece("vowels", "the number of its vowels (a, e, i, o and u)", "sum(c in 'aeiou' for c in w)"),
        Piece("variety", "the number of different letters in it", "len(set(w))"),
        Piece(
            "weight", "the sum of the positions of its letters in the alphabet, where a is $first",
            "sum(ord(c) - 97 + $first for c in w)", {"first": (0, 1)},
        ),
    ),
}  # fmt: skip
REWRITES = (
    Piece("backwards", "itself written backwards", "w[::-1]"),
    Piece("turned", "itself with its first $k letters moved to its end", "w[$k:] + w[:$k]", {"k": (2,)}),
    Piece("echoed", "itself with its last letter written $times times", "w + w[-1] * ($times - 1)", {"times": (2, 3)}),
)
SINGULAR = {"are": "is", "have": "has", "s": "s", "begin": "begins"}
PLURAL = {"are": "are", "have": "have", "s": "", "begin": "begin"}

# frame, type that it gives ("" for that of its list), text, code. P is the condition's expression, V its variable.
BY_CONDITION = (
    ("keep", "", "Keep only the {list} that {many}.", "{list} = [{V} for {V} in {list} if {P}]"),
    (
        "until", "", "Keep only the {list} before the first that {one}; keep all if there is none.",
        "kept = []\nfor {V} in {list}:\n    if {P}:\n        break\n    kept.append({V})\n{list} = kept",
    ),
    (
        "after", "", "Keep only the {list} that come directly after one that {one}.",
        "{list} = [{list}[i] for i in range(1, len({list})) for {V} in [{list}[i - 1]] if {P}]",
    ),
    (
        "sift", "", "Move the {list} that {many} to the end, behind the others; both parts keep their order.",
        "{list} = [{V} for {V} in {list} if not ({P})] + [{V} for {V} in {list} if {P}]",
    ),
    ("count", "value", "the number of {list} that {many}", "value = sum(1 for {V} in {list} if {P})"),
    (
        "first", "value", "the position, counted from 0, of the first of the {list} that {one}; -1 if there is none",
        "value = -1\nfor i, {V} in enumerate({list}):\n    if {P}:\n        value = i\n        break",
    ),
    (
        "stretch", "value", "the length of the longest stretch of neighbouring {list} that all {many}",
        "value = 0\nlength = 0\nfor {V} in {list}:\n    length = length + 1 if {P} else 0\n"
        "    value = max(value, length)",
    ),
    (
        "where", "numbers", "Write down the positions, counted from 0, of the {list} that {many}.",
        "numbers = [i for i, {V} in enumerate({list}) if {P}]",
    ),
)  # fmt: skip
OF_NUMBERS = (
    (
        "cut", "groups",
        "Cut the list at each number that {one}: these numbers are left out, and so are groups without any number.",
        "groups = [[]]\nfor n in numbers:\n    if {P}:\n        groups.append([])\n    else:\n"
        "        groups[-1].append(n)\ngroups = [group for group in groups if group]",
    ),
)  # fmt: skip
# F is the measure's expression.
BY_MEASURE = (
    ("map", "numbers", "Replace each of the {list} by {F}.", "numbers = [{E} for {V} in {list}]"),
    (
        "sort", "", "Sort the {list} by this, the smallest first: {F}. Those that are equal in it keep their order.",
        "{list} = sorted({list}, key=lambda {V}: {E})",
    ),
    (
        "unique", "",
        "Keep each of the {list} only if none before it is equal to it in this: {F}.",
        "kept = {{}}\nfor {V} in {list}:\n    kept.setdefault({E}, {V})\n{list} = list(kept.values())",
    ),
    ("total", "value", "the sum, over all the {list}, of this: {F}", "value = sum({E} for {V} in {list})"),
    (
        "peak", "value", "the greatest value, among all the {list}, of this: {F}; $none if there are none",
        "value = max([{E} for {V} in {list}], default=$none)",
    ),
)  # fmt: skip


def _fill(text: str, **names: str) -> str:
    return text.format(**names)


def _agreed(text: str, forms: Mapping[str, str]) -> str:
    return Template(text).safe_substitute(forms)


def _by_condition() -> Iterator[CodeBlock]:
    for kind, variable in (("numbers", "n"), ("words", "w")):
        rows = BY_CONDITION + (OF_NUMBERS if kind == "numbers" else ())
        for frame, gives, text, code in rows:
            for piece in CONDITIONS[kind]:
                one, many = _agreed(piece.text, SINGULAR), _agreed(piece.text, PLURAL)
                names = {"list": kind, "V": variable, "P": piece.code, "one": one, "many": many}
                yield CodeBlock(
                    frame, f"{frame}_{piece.name}", kind, gives or kind, _fill(text, **names), _fill(code, **names),
                    piece.parameters,
                )  # fmt: skip


def _by_measure() -> Iterator[CodeBlock]:
    for kind, variable in (("numbers", "n"), ("words", "w")):
        for frame, gives, text, code in BY_MEASURE:
            for piece in MEASURES[kind]:
                if piece.name in ("scaled", "capped", "mirrored") and frame != "map":
                    continue  # no order or difference of their own
                names = {"list": kind, "V": variable, "E": piece.code, "F": piece.text}
                more = {"none": (-1, 0)} if "$none" in text else {}
                yield CodeBlock(
                    frame, f"{frame}_{piece.name}", kind, gives or kind, _fill(text, **names), _fill(code, **names),
                    {**piece.parameters, **more},
                )  # fmt: skip


def _patches() -> Iterator[CodeBlock]:
    for condition in CONDITIONS["numbers"]:
        for measure in MEASURES["numbers"]:
            if measure.name != "capped":
                yield CodeBlock(
                    "patch", f"patch_{condition.name}_{measure.name}", "numbers", "numbers",
                    f"Replace each number that {_agreed(condition.text, SINGULAR)} by {measure.text}; "
                    "leave the others as they are.",
                    f"numbers = [{measure.code} if {condition.code} else n for n in numbers]",
                    {**condition.parameters, **measure.parameters},
                )  # fmt: skip


def _rewrites() -> Iterator[CodeBlock]:
    for piece in REWRITES:
        yield CodeBlock(
            "rewrite", f"rewrite_{piece.name}", "words", "words", f"Replace each of the words by {piece.text}.",
            f"words = [{piece.code} for w in words]", piece.parameters,
        )  # fmt: skip


ELEMENTS: tuple[CodeBlock, ...] = (*_by_condition(), *_by_measure(), *_patches(), *_rewrites())
