"""Zebra puzzles and orderings: who stands where, from relations alone. One turn each; reward 1 for the whole order.

Zebra: houses in a row with an owner, a pet, a drink... Ordering: people in a queue.
Clues are distances between two things; a chain of them reaches every thing, so that few arrangements are left to try,
and a puzzle is kept only if exactly one of those is possible.
"""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

from rlvr.envs.rewards.answers import ListAnswerTask, listed
from rlvr.envs.rewards.tasks import Question

KINDS = (
    ("Ann", "Ben", "Cas", "Dan", "Eva", "Fay", "Gil", "Hal", "Ida"),
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

    def said(self) -> str:
        places = f"{abs(self.offset)} place{'s' * (abs(self.offset) > 1)}"
        if not self.offset:
            return f"{self.first} and {self.second} are in the same place."
        if not self.signed:
            return f"{self.first} and {self.second} are {places} apart."
        return f"{self.second} is {places} to the {'right' if self.offset > 0 else 'left'} of {self.first}."


def arrangements(groups: list[list[str]], clues: list[ZebraClue], most: int = 2) -> list[dict[str, int]]:
    """Up to ``most`` ways to put each group's things on the places 0, 1, ..., one each; the clues form a tree."""
    found = []
    unsigned = [clue for clue in clues if not clue.signed]
    for signs in product((1, -1), repeat=len(unsigned)):
        sign = dict(zip(unsigned, signs, strict=True))
        places = {clues[0].first: 0}
        for clue in clues:
            offset = clue.offset * sign.get(clue, 1)
            if clue.first in places:
                places[clue.second] = places[clue.first] + offset
            else:
                places[clue.first] = places[clue.second] - offset
        low = min(places.values())
        size = len(groups[0])
        if all(sorted(places[thing] - low for thing in group) == list(range(size)) for group in groups):
            found.append({thing: place - low for thing, place in places.items()})
            if len(found) == most:
                break
    return found


def puzzle(rng: random.Random, groups: list[list[str]], unsigned: int) -> tuple[list[ZebraClue], dict[str, int]]:
    """Clues with exactly one arrangement, ``unsigned`` of which do not say on which side."""
    while True:
        places = {thing: place for group in groups for place, thing in enumerate(rng.sample(group, len(group)))}
        things = rng.sample(list(places), len(places))
        clues = []
        for place in range(1, len(things)):
            pair = [things[rng.randrange(place)], things[place]]
            rng.shuffle(pair)
            clues.append(ZebraClue(pair[0], pair[1], places[pair[1]] - places[pair[0]], True))
        open_ = [place for place, clue in enumerate(clues) if clue.offset]
        if len(open_) < unsigned:
            continue
        for place in rng.sample(open_, unsigned):
            clues[place] = clues[place]._replace(offset=abs(clues[place].offset), signed=False)
        if len(arrangements(groups, clues)) == 1:
            return clues, places


class Zebra(ListAnswerTask):
    """Find who lives where with what, from clues (an Einstein puzzle).

    Levels 1 to 5: 4 x 2, 5 x 2, 4 x 3, 5 x 3 and 5 x 4 things, one to four clues without a side.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        houses, kinds = (4, 5, 4, 5, 5)[level - 1], (2, 2, 3, 3, 4)[level - 1]
        groups = [rng.sample(kind, houses) for kind in rng.sample(KINDS, kinds)]
        clues, places = puzzle(rng, groups, (1, 2, 2, 3, 4)[level - 1])
        rng.shuffle(clues)
        lines = "\n".join(clue.said() for clue in clues)
        text = f"{houses} houses stand in a row, numbered from left to right. Each has one of each of these:\n"
        text += (
            "\n".join(listed(sorted(group)) for group in groups) + f"\nIt is known:\n{lines}\nWhat is in each house? "
        )
        text += f"Answer with {houses * kinds} words: house 1 in the order of the lists above, then house 2, and so on."
        gold = tuple(thing for place in range(houses) for group in groups for thing in group if places[thing] == place)
        return Question(text, gold)


class Ordering(ListAnswerTask):
    """Put people in a row from clues.

    Levels 1 to 5: 5, 6, 7, 8 and 9 people; one to four clues without a side.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        people = rng.sample(KINDS[0], 4 + level)
        clues, places = puzzle(rng, [people], (1, 2, 3, 3, 4)[level - 1])
        rng.shuffle(clues)
        lines = "\n".join(clue.said() for clue in clues)
        text = f"{listed(sorted(people))} stand in a row, one to a place. It is known:\n{lines}\n"
        text += "In which order do they stand, from left to right?"
        return Question(text, tuple(sorted(people, key=places.__getitem__)))
