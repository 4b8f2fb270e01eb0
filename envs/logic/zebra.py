"""Zebra puzzles and orderings: who stands where, from relations alone.

Clues are distances between two things; a chain of them reaches every thing, so that few arrangements are left to try,
and a puzzle is kept only if exactly one of those is possible.

Observation: the things or people, the clues, and the order in which to answer.
"""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

from rlvr.envs.core.seeding import digest
from rlvr.envs.logic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained
from rlvr.envs.tasks.wording import in_a_row

KINDS = (
    ("Ann", "Ben", "Cas", "Dan", "Eva", "Fay", "Gil", "Hal", "Ida", "Joy"),
    ("cat", "dog", "fox", "hen", "owl", "pig", "rat"),
    ("tea", "milk", "juice", "water", "cider", "cocoa", "broth"),
    ("red", "blue", "green", "white", "black", "brown", "grey"),
)


class ZebraClue(NamedTuple):
    """``second`` stands ``offset`` places to the right of ``first``; to either side if ``signed`` is not set."""

    first: str
    second: str
    offset: int
    signed: bool

    def sentence(self) -> str:
        """The clue in words."""
        positions = f"{abs(self.offset)} place{'s' * (abs(self.offset) > 1)}"
        if not self.offset:
            return f"{self.first} and {self.second} are in the same place."
        if not self.signed:
            return f"{self.first} and {self.second} are {positions} apart."
        return f"{self.second} is {positions} to the {'right' if self.offset > 0 else 'left'} of {self.first}."


def arrangements(groups: list[list[str]], clues: list[ZebraClue], limit: int = 2) -> list[dict[str, int]]:
    """Up to ``limit`` ways to put each group's things on the places 0, 1, ..., one each; the clues form a tree."""
    solutions = []
    unsigned = [clue for clue in clues if not clue.signed]
    for signs in product((1, -1), repeat=len(unsigned)):
        sign = dict(zip(unsigned, signs, strict=True))
        positions = {clues[0].first: 0}
        for clue in clues:
            offset = clue.offset * sign.get(clue, 1)
            if clue.first in positions:
                positions[clue.second] = positions[clue.first] + offset
            else:
                positions[clue.first] = positions[clue.second] - offset
        low = min(positions.values())
        size = len(groups[0])
        if all(sorted(positions[thing] - low for thing in group) == list(range(size)) for group in groups):
            solutions.append({thing: position - low for thing, position in positions.items()})
            if len(solutions) == limit:
                break
    return solutions


def puzzle(rng: random.Random, groups: list[list[str]], unsigned: int) -> tuple[list[ZebraClue], dict[str, int]]:
    """Clues with exactly one arrangement, ``unsigned`` of which do not say on which side."""
    while True:
        positions = {
            thing: position for group in groups for position, thing in enumerate(rng.sample(group, len(group)))
        }
        things = rng.sample(list(positions), len(positions))
        clues = []
        for position in range(1, len(things)):
            pair = [things[rng.randrange(position)], things[position]]
            rng.shuffle(pair)
            clues.append(ZebraClue(pair[0], pair[1], positions[pair[1]] - positions[pair[0]], True))
        open_ = [position for position, clue in enumerate(clues) if clue.offset]
        if len(open_) < unsigned:
            continue
        for position in rng.sample(open_, unsigned):
            clues[position] = clues[position]._replace(offset=abs(clues[position].offset), signed=False)
        if len(arrangements(groups, clues)) == 1:
            return clues, positions


def canonical(groups: list[list[str]], clues: list[ZebraClue]) -> str:
    """What the clues say, whatever the things are called and in whatever order they stand: equal for equal puzzles.

    A thing is known by its clues and its group, refined four times (1-dimensional Weisfeiler-Leman).
    """
    codes = {thing: 0 for group in groups for thing in group}
    ties: dict[str, list[tuple[str, int, bool]]] = {thing: [] for thing in codes}
    for first, second, offset, signed in clues:
        ties[first].append((second, offset, signed))
        ties[second].append((first, -offset if signed else offset, signed))
    for _ in range(4):
        kinds = {thing: kind for group in groups for kind in [sorted(map(codes.__getitem__, group))] for thing in group}
        codes = {
            thing: digest(
                kinds[thing], codes[thing], sorted((offset, signed, codes[other]) for other, offset, signed in tied)
            )
            for thing, tied in ties.items()
        }
    return f"{len(groups[0])}: {digest(sorted(codes.values())):032x}"


class Zebra(ListAnswerTask):
    """Find who lives where with what, from clues (an Einstein puzzle).

    Levels 1 to 5: 4 x 2, 5 x 2, 4 x 3, 5 x 3 and 5 x 4 things, one to four clues without a side.
    """

    explain = explained(workings.offsets, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Clues are offsets that tie all things into a tree; kept only if one arrangement is possible."""
        houses, kinds = (4, 5, 4, 5, 5)[level - 1], (2, 2, 3, 3, 4)[level - 1]
        groups = [rng.sample(kind, houses) for kind in rng.sample(KINDS, kinds)]
        clues, positions = puzzle(rng, groups, (1, 2, 2, 3, 4)[level - 1])
        rng.shuffle(clues)
        lines = "\n".join(clue.sentence() for clue in clues)
        text = f"{houses} houses stand in a row, numbered from left to right. Each has one of each of these:\n"
        text += (
            "\n".join(listed(sorted(group)) for group in groups) + f"\nIt is known:\n{lines}\nWhat is in each house? "
        )
        text += f"Answer with {houses * kinds} words: house 1 in the order of the lists above, then house 2, and so on."
        gold = tuple(
            thing for position in range(houses) for group in groups for thing in group if positions[thing] == position
        )
        return Question(text, gold, content=canonical(groups, clues))


class Ordering(ListAnswerTask):
    """Put people in a row from clues.

    Levels 1 to 5: 6, 7, 8, 9 and 10 people; one to four clues without a side.
    """

    explain = explained(workings.offsets, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """As ``Zebra`` with one group: offsets between people, some without a side."""
        people = rng.sample(KINDS[0], 5 + level)
        clues, positions = puzzle(rng, [people], (1, 2, 3, 3, 4)[level - 1])
        rng.shuffle(clues)
        lines = "\n".join(clue.sentence() for clue in clues)
        text = f"{in_a_row(sorted(people))} stand in a row, one to a place. It is known:\n{lines}\n"
        text += "In which order do they stand, from left to right?"
        gold = tuple(sorted(people, key=positions.__getitem__))
        return Question(text, gold, content=canonical([people], clues))
