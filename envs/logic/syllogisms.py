"""Syllogisms: what follows from statements with all, no and some.

"All" and "no" do not say that there are any.

Observation: premises, and conclusions by number, of which those that follow are asked for.
"""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import combinations, permutations, product
from math import prod
from operator import add, itemgetter
from typing import ClassVar, NamedTuple

from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.questions import Question, question_of
from rlvr.envs.tasks.wording import in_a_row

WORDS = "bakers climbers dancers farmers gardeners hikers jugglers knitters painters readers sailors swimmers".split()
FORMS = {"all": "All %s are %s.", "no": "No %s are %s.", "some": "Some %s are %s.", "not": "Some %s are not %s."}
OPPOSITE = {"all": "not", "no": "some", "some": "no", "not": "all"}
_FIVE = ("all", "all", "no", "some", "not")
_ASKED = [
    "Conclusions (a class may be empty unless the premises say otherwise):\n1. ",
    *[f"{n}. " for n in range(2, 7)],
]
Statement = tuple[str, int, int]


@cache
def members(count: int) -> tuple[int, ...]:
    """For each of ``count`` classes, which of the 2^count kinds of people belong to it, as a mask."""
    return tuple(sum(1 << kind for kind in range(1 << count) if kind >> index & 1) for index in range(count))


@cache
def class_pairs(count: int) -> tuple[tuple[int, int], ...]:
    return tuple(permutations(range(count), 2))


@cache
def statements(count: int) -> list[Statement]:
    """All statements about two of the classes."""
    return [(form, a, b) for form, (a, b) in product(FORMS, class_pairs(count))]


@cache
def meanings(count: int) -> dict[Statement, tuple[bool, int]]:
    """Whether a statement says that kinds of people do not exist, or that one of them does; and which kinds."""
    every, classes = (1 << (1 << count)) - 1, members(count)
    meaning = {}
    for form, (a, b) in product(FORMS, class_pairs(count)):
        kinds = classes[a] & (classes[b] if form in ("no", "some") else every ^ classes[b])
        meaning[form, a, b] = (form in ("all", "no"), kinds)
    return meaning


class Premises:
    """The worlds in which all statements hold: the kinds of people there may be, and sets of which one must exist."""

    def __init__(self, statements: list[Statement], count: int) -> None:
        self.count, self.meant = count, meanings(count)
        self.possible, self.needed = (1 << (1 << count)) - 1, []
        for empty, kinds in map(self.meant.__getitem__, statements):
            if empty:
                self.possible &= ~kinds
            else:
                self.needed.append(kinds)

    def consistent(self) -> bool:
        """Whether there is such a world."""
        return all(self.possible & kinds for kinds in self.needed)

    def imply(self, conclusion: Statement) -> bool:
        """Whether a statement holds in all of them: with its opposite there is none."""
        form, a, b = conclusion
        empty, kinds = self.meant[OPPOSITE[form], a, b]
        if not empty:
            return not self.possible & kinds
        possible = self.possible & ~kinds
        return not all(possible & needed for needed in self.needed)


class Coded(NamedTuple):
    """The statements about a number of classes by their numbers in ``statements``, which are faster than themselves.

    Attributes:
        choices: for each pair of classes the five statements that a premise is drawn from.
        meant: of each statement the kinds of people, and whether it says that they do not exist.
        denials: each statement that says that some kinds do not exist, with these.
        classes: of each class a bit, and the kinds outside and inside it.
        short: each statement in three bytes.
        forms: each statement without the names of its classes.
    """

    choices: list[tuple[int, ...]]
    meant: list[tuple[int, bool]]
    denials: list[tuple[int, int]]
    classes: list[tuple[int, int, int]]
    short: list[bytes]
    forms: list[str]


@cache
def coded(count: int) -> Coded:
    """Everything about ``count`` classes, by numbers."""
    every, pairs = statements(count), class_pairs(count)
    numbers = {statement: number for number, statement in enumerate(every)}
    meant = [(kinds, empty) for empty, kinds in map(meanings(count).__getitem__, every)]
    everybody = (1 << (1 << count)) - 1
    return Coded(
        [tuple(numbers[form, a, b] for form in _FIVE) for a, b in pairs],
        meant,
        [(number, kinds) for number, (kinds, empty) in enumerate(meant) if empty],
        [(1 << number, everybody ^ kinds, kinds) for number, kinds in enumerate(members(count))],
        [_MARKS[form] + bytes([_LETTERS[a], _LETTERS[b]]) for form, a, b in every],
        [FORMS[form] for form, _, _ in every],
    )


@cache
def of_somebody(count: int, inside: int, outside: int) -> list[int]:
    """The statements that hold because there is somebody who is in some classes, and in some others not."""
    every = statements(count)
    pairs = [(a, b) for a, b in class_pairs(count) if inside >> a & 1]
    holding = [("some", a, b) for a, b in pairs if inside >> b & 1] + [
        ("not", a, b) for a, b in pairs if outside >> b & 1
    ]
    return [every.index(statement) for statement in holding]


def implied_by(premises: list[int], count: int) -> dict[int, None] | None:
    """What premises imply, themselves included, in a fixed order; None where they deny each other or imply no more.

    If all people of whom one must exist are in a class, or none is, there is one in that class, or outside it.
    """
    _, meant, denials, classes, _, _ = coded(count)
    possible, needed = (1 << (1 << count)) - 1, []
    for kinds, empty in map(meant.__getitem__, premises):
        if empty:
            possible &= ~kinds
        else:
            needed.append(kinds)
    conclusions: list[int] = []
    for kinds in needed:
        kinds &= possible
        if not kinds:
            return None
        inside = outside = 0
        for bit, without, within in classes:
            if not kinds & without:
                inside |= bit
            elif not kinds & within:
                outside |= bit
        if inside:
            conclusions += of_somebody(count, inside, outside)
    conclusions += [number for number, kinds in denials if not possible & kinds]
    implied = dict.fromkeys(conclusions)
    return implied if len(implied) > len(premises) else None


@cache
def moods(count: int, size: int) -> list[tuple[list[int], dict[int, None]]]:
    """All premises that ``Syllogisms.premises`` may draw and that imply something more, with what they imply."""
    figures = []
    for code in range(prod(5 * (len(class_pairs(count)) - k) for k in range(size))):
        premises = Syllogisms.premises(code, count, size)[1]
        if implied := implied_by(premises, count):
            figures.append((premises, implied))
    return figures


_LETTERS, _MARKS = b"abcdef", {"all": b"A", "no": b"N", "some": b"S", "not": b"O"}
_ORDERS = [itemgetter(*order) for order in permutations(range(6))]


class Syllogisms(ListAnswerTask):
    """Find the conclusions that follow from premises about classes.

    Levels 1 to 5: three to six classes, 2 to 7 premises.
    """

    ordered: ClassVar[bool] = False

    def ask(self, rng: random.Random, level: int) -> Question:
        """Consistent premises; one to four of the six conclusions follow in every world, empty classes allowed.

        The content is the statements in their order, with the classes numbered as they come.
        """
        count, size = (3, 4, 4, 5, 6)[level - 1], (2, 3, 4, 5, 7)[level - 1]
        about, begin = coded(count), f"{size} premises: "
        short, forms = about.short, about.forms
        every = len(short)
        # Choices are taken from one number that has far more bits than they need, so that all are equally likely.
        code, premises, implied = self.with_conclusions(rng, count, size)
        right = [statement for statement in implied if statement not in premises]
        code, share = divmod(code, min(4, len(right)))
        chosen = []
        for left in range(len(right), len(right) - share - 1, -1):
            code, index = divmod(code, left)
            chosen.append(right.pop(index))
        # Of two that deny each other one does not follow, so half of all do not.
        while len(chosen) < 6:
            if code < 1 << 80:
                code = int.from_bytes(rng.randbytes(24), "little")
            code, statement = divmod(code, every)
            if statement not in implied and statement not in chosen:
                chosen.append(statement)
        code, index = divmod(code, len(_ORDERS))
        asked = _ORDERS[index](chosen)
        written = b"".join([short[statement] for statement in (*premises, *asked)])
        classes = written.translate(None, b"ANSO")
        order = bytes(dict.fromkeys(classes))
        content = begin + written.translate(bytes.maketrans(order, _LETTERS[: len(order)])).decode()
        names, words = [], list(WORDS)
        for _ in range(count):
            code, index = divmod(code, len(words))
            names.append(words.pop(index))
        gold = tuple([number for number, statement in enumerate(asked, 1) if statement in implied])
        sentences = [forms[statement] for statement in (*premises, *asked)]
        sentences[size:] = map(add, _ASKED, sentences[size:])
        text = "\n".join(sentences) % tuple(map(dict(zip(_LETTERS, names, strict=False)).__getitem__, classes))
        text = f"Premises:\n{text}\nWhich of them follow from the premises? Answer with their numbers."
        return question_of((text, gold, "", "", content, 0))

    def with_conclusions(self, rng: random.Random, count: int, size: int) -> tuple[int, list[int], dict[int, None]]:
        """A number for further choices, premises that imply something more, and what they imply."""
        code = int.from_bytes(rng.randbytes(24), "little")
        if size == 2:  # few enough to be known all
            figures = moods(count, size)
            code, index = divmod(code, len(figures))
            return code, *figures[index]
        while True:
            code, premises = self.premises(code, count, size)
            if implied := implied_by(premises, count):
                return code, premises, implied
            code = int.from_bytes(rng.randbytes(24), "little")

    @staticmethod
    def premises(code: int, count: int, size: int) -> tuple[int, list[int]]:
        """What is left of the code, and statements about as many pairs of classes, two in five of them with "all"."""
        choices = coded(count).choices.copy()
        statements: list[int] = []
        for _ in range(size):
            code, index = divmod(code, 5 * len(choices))
            statements.append(choices.pop(index // 5)[index % 5])
        return code, statements

    def explain(self, state: Question) -> str:
        """For each conclusion the premises that it follows from, or people who make them true and it false."""
        premises, _, conclusions = state.text.partition("\nConclusions")
        pairs = re.findall(r"(?:All|No|Some) (\w+) are (?:not )?(\w+)\.", state.text)
        classes = sorted({name for pair in pairs for name in pair})
        statements = [(line, self.read(line, classes)) for line in premises.split("\n")[1:]]
        lines = []
        for line in conclusions.split("\n")[1:-1]:
            conclusion = self.read(line, classes)
            reasons = next(
                (
                    [premise for premise, _ in some]
                    for size in range(1, len(statements) + 1)
                    for some in combinations(statements, size)
                    if Premises([statement for _, statement in some], len(classes)).imply(conclusion)
                ),
                None,
            )
            if reasons:
                lines.append(f"{line} This follows from: {' '.join(reasons)}")
            else:
                people = self.counterexample([statement for _, statement in statements], conclusion, classes)
                lines.append(f"{line} This does not follow: {people}")
        return "\n".join(lines)

    @staticmethod
    def read(line: str, names: list[str]) -> Statement:
        """The statement that a line holds; classes are numbered as in ``names``."""
        word, first, negation, second = re.findall(r"(All|No|Some) (\w+) are (not )?(\w+)\.", line)[0]
        return "not" if negation else word.lower(), names.index(first), names.index(second)

    @staticmethod
    def counterexample(statements: list[Statement], conclusion: Statement, names: list[str]) -> str:
        """People of few kinds with whom all statements are true, and the conclusion is false."""
        form, a, b = conclusion
        world = Premises([*statements, (OPPOSITE[form], a, b)], len(names))
        kinds = sorted({(fitting := world.possible & needed) & -fitting for needed in world.needed})
        if not kinds:
            return "where nobody is any of these, the premises are true and it is false."
        masks = [(f"a {name.removesuffix('s')}", mask) for name, mask in zip(names, members(len(names)), strict=True)]
        people = [[name for name, mask in masks if mask & kind] for kind in kinds]
        described = in_a_row([f"one who is {in_a_row(being)}" if being else "one who is none" for being in people])
        return f"with {described}, and nobody else, the premises are true and it is false."
