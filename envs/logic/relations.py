"""Relations of people, places and sets.

Observation: relations or sets in words, and which people, distances or elements are asked for.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import ClassVar

from rlvr.envs.logic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.draws import distinct
from rlvr.envs.tasks.questions import Question, explained

PEOPLE = (
    "Ada Al Amy Ann Art Bea Ben Bob Cas Cy Dan Dee Don Eli Eva Fay Gil Guy Hal Ida Ian Ira Ivy Jan Jay Jim Joe Jon "
    "Kay Ken Kim Lee Leo Liz Lou Mae Max Meg Mia Ned Nan Oda Ole Pam Pat Pia Ray Rex Rob Ron Roy Sam Sue Ted Tim Tom "
    "Una Val Vic Viv Wes Zoe"
).split()
PLACES = "Alden Birch Corin Delve Elmer Farrow Gorse Heath Inver Jorby Kelso Lorne Marsh Norby Orton".split()


# For each level how many generations up and down its relatives are.
_WAYS = {1: (0, 2), 2: (1, 2), 3: (2, 2), 4: (0, 3), 5: (3, 3)}
_CHILDREN = [bytes(fewest + (byte * (4 - fewest) >> 8) for byte in range(256)) for fewest in (0, 1)]


class FamilyTree(ListAnswerTask):
    """Find relatives from who is a parent of whom, in families of four generations.

    Levels 1 to 5: grandchildren, nieces and nephews, cousins, great-grandchildren, second cousins of somebody.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.relatives, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Someone with two or more such relatives; the content is the shape of the tree, without the names.

        Operations are links between parent and child to be followed.
        """
        kind = ("grandchildren", "nieces and nephews", "first cousins", "great-grandchildren", "second cousins")[
            level - 1
        ]
        while True:
            drawn = rng.randbytes(13)
            first = self.grown(drawn, fewest=0 if level < 5 else 1)
            asked = self.with_relatives(first, level)
            if asked:
                break
        person = rng.choice(asked)
        chosen = distinct(rng, len(PEOPLE), len(first) - 1)
        content = f"{kind}: {self.canonical(first, person)}"
        names = [PEOPLE[number] for number in chosen]
        parents = [names[above] for above in range(first[first[1]]) for _ in range(first[above], first[above + 1])]
        # Names are drawn, so that the order of the children's names says nothing about the tree.
        facts = [f"{above} is a parent of {name}." for name, above in sorted(zip(names[1:], parents, strict=True))]
        gold = tuple(sorted([names[other] for other in self.found(first, person, level)]))
        text = f"In a family of which one parent of each couple is named:\n{' '.join(facts)}\nWho are the "
        text += f"{kind} of {names[person]}, among the people named? Answer with all their names."
        return Question(text, gold, content=content, operations=self.links(first, person, level))

    # A family is a list ``first``: person p has the children first[p] to first[p + 1] - 1. People are numbered from the
    # oldest, 0, generation by generation, so that those of one generation who descend from somebody are a range too.
    # The last entry is the number of people.

    @staticmethod
    def grown(drawn: bytes, fewest: int) -> list[int]:
        """A family of four generations, from 13 bytes; the oldest has two or three children.

        The others of the first three generations have ``fewest`` to three.
        """
        counts = drawn.translate(_CHILDREN[fewest])
        oldest = 2 + (drawn[0] & 1)
        sizes = counts[1 : 1 + oldest]
        sizes += counts[4 : 4 + sum(sizes)]
        first = list(accumulate(sizes, initial=1 + oldest))
        people = first[-1]
        return [1, *first, *[people] * (people - len(first))]

    @staticmethod
    def with_relatives(first: list[int], level: int) -> list[int]:
        """Who has two or more of the relatives that are asked for at a level, found by counting descendants alone."""
        second = first[1]  # the first of the third generation
        third, people = first[second], first[-1]
        if level == 4:
            return [0] if people - third >= 2 else []
        grand = [first[first[person + 1]] - first[first[person]] for person in range(second)]
        if level == 1:
            return [person for person, number in enumerate(grand) if number >= 2]
        relatives: list[int] = []
        if level == 5:
            for above in range(1, second):
                if people - third - grand[above] >= 2:
                    relatives += range(first[first[above]], first[first[above + 1]])
            return relatives
        for above in range(second):  # whose children have nieces and nephews, and whose grandchildren have cousins
            for person in range(first[above], first[above + 1]):
                if grand[above] - first[person + 1] + first[person] >= 2:
                    relatives += (person,) if level == 2 else range(first[person], first[person + 1])
        return relatives

    def found(self, first: list[int], person: int, level: int) -> list[int]:
        """The relatives of somebody that are asked for at a level: not through the ancestor that is nearest below."""
        up, down = _WAYS[level]
        if not up:
            return [*self.below(first, person, down)]
        for _ in range(up - 1):
            person = self.parent(first, person)
        near = self.below(first, person, down - 1)
        every = self.below(first, self.parent(first, person), down)
        return [*range(every.start, near.start), *range(near.stop, every.stop)]

    def links(self, first: list[int], person: int, level: int) -> int:
        """How many links between parent and child are followed to find all relatives of a level."""
        up, down = _WAYS[level]
        for _ in range(up):
            person = self.parent(first, person)
        return up + sum([len(self.below(first, person, depth)) for depth in range(1, down + 1)])

    @staticmethod
    def parent(first: list[int], person: int) -> int:
        """The one among whose children somebody is."""
        return bisect_right(first, person) - 1

    @staticmethod
    def below(first: list[int], person: int, depth: int) -> range:
        """A person's descendants, exactly ``depth`` generations down."""
        start, end = person, person + 1
        for _ in range(depth):
            start, end = first[start], first[end]
        return range(start, end)

    def canonical(self, first: list[int], asked: int) -> str:
        """The tree, whatever the order of children; the one who is asked for is marked.

        The third generation is written as how many children each has, its parents apart by bars.
        """
        second = first[1]
        third = first[second]
        codes = [str(first[person + 1] - first[person]) for person in range(second, third)]
        if asked >= third:
            codes[self.parent(first, asked) - second] += "+"
        elif asked >= second:
            codes[asked - second] += "*"
        families = []
        for person in range(1, second):
            below = sorted(codes[first[person] - second : first[person + 1] - second])
            families.append(f"{'*' if person == asked else ''}{' '.join(below)}")
        families.sort()
        return f"{'oldest: ' if asked == 0 else ''}{' | '.join(families)}"


class Directions(ListAnswerTask):
    """Find where a place lies from the directions between places.

    Levels 1 to 5: 4 to 12 places, and a way over 3 to 9 of them; diagonal distances from level 3 on.
    """

    WAYS: ClassVar[dict[str, tuple[int, int]]] = {
        "north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0),
        "north-east": (1, 1), "south-east": (1, -1), "south-west": (-1, -1), "north-west": (-1, 1),
    }  # fmt: skip
    explain = explained(workings.directions, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Places hang on earlier ones by one sentence each; asked are the first and the last, either way.

        The content is the tree from the place that is asked from, without names.
        """
        count = (4, 6, 8, 10, 12)[level - 1]
        names = rng.sample(PLACES, count)
        location, facts = {0: (0, 0)}, []
        ties: dict[int, list[int]] = {number: [] for number in range(count)}
        for new in range(1, count):
            old = new - 1 if rng.random() < 0.7 else rng.randrange(new)
            way = rng.choice(list(self.WAYS)[: 4 if level < 3 else 8])
            steps, (dx, dy) = rng.randint(1, 20), self.WAYS[way]
            ties[old].append(new)
            ties[new].append(old)
            location[new] = (location[old][0] + steps * dx, location[old][1] + steps * dy)
            if len(way) > 5:
                facts.append(f"{names[new]} lies {steps} km {way[:5]} and also {steps} km {way[6:]} of {names[old]}.")
            elif rng.random() < 0.5:
                facts.append(f"{names[new]} lies {steps} km {way} of {names[old]}.")
            else:
                back = {"north": "south", "south": "north", "east": "west", "west": "east"}[way]
                facts.append(f"{names[old]} lies {steps} km {back} of {names[new]}.")
        rng.shuffle(facts)
        a, b = rng.sample((0, count - 1), 2)
        east, north = location[b][0] - location[a][0], location[b][1] - location[a][1]
        text = "\n".join(facts) + f"\nHow many km east and how many km north of {names[a]} does {names[b]} lie? "

        def seen_from(start: int, before: int) -> str:
            (x, y), parts = location[start], []
            for other in ties[start]:
                if other != before:
                    p, q = location[other]
                    parts.append(f"{p - x} {q - y}{seen_from(other, start)}")
            return ("!" if start == b else "") + (f"({', '.join(sorted(parts))})" if parts else "")

        text += "Answer with two numbers, negative for west and for south."
        return Question(text, (east, north), content=seen_from(a, a))


Expression = str | tuple["Expression", str, "Expression"]
SIGNS: dict[str, Callable[[frozenset[int], frozenset[int]], frozenset[int]]] = {
    "∪": frozenset.union,
    "∩": frozenset.intersection,
    "\\": frozenset.difference,
    "△": frozenset.symmetric_difference,
}


class SetAlgebra(ListAnswerTask):
    """Work out unions, intersections and differences of sets.

    Levels 1 to 5: two to six sets of 5 to 9 numbers, joined by 2 to 7 operations.
    """

    ordered: ClassVar[bool] = False
    explain = explained(workings.set_algebra, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws expressions until the result has two elements or more and is none of the sets."""
        count = 1 + level
        while True:
            names = "ABCDEF"[:count]
            sets = {name: frozenset(rng.sample(range(1, 13 + level), 4 + level)) for name in names}
            leaves = [*names, *rng.choices(names, k=1 + level // 3)]
            rng.shuffle(leaves)
            expression = self.joined(rng, leaves)
            gold = self.value(expression, sets)
            if len(gold) >= 2 and gold not in sets.values() and not self.joins_equals(expression):
                break
        lines = "\n".join(f"{name} = {{{listed(sorted(members))}}}" for name, members in sets.items())
        text = f"{lines}\n(∪ union, ∩ intersection, \\ difference, △ symmetric difference)\nWhat is "
        return Question(f"{text}{self.spelled_out(expression)}? Answer with its elements.", tuple(sorted(gold)))

    def joined(self, rng: random.Random, leaves: list[str]) -> Expression:
        """The sets in this order, joined by signs and brackets that are drawn."""
        if len(leaves) == 1:
            return leaves[0]
        cut = rng.randrange(1, len(leaves))
        return (self.joined(rng, leaves[:cut]), rng.choice(list(SIGNS)), self.joined(rng, leaves[cut:]))

    def joins_equals(self, expression: Expression) -> bool:
        """Whether some part is joined with itself, such as A ∩ A."""
        if isinstance(expression, str):
            return False
        left, _, right = expression
        return left == right or self.joins_equals(left) or self.joins_equals(right)

    def value(self, expression: Expression, sets: dict[str, frozenset[int]]) -> frozenset[int]:
        """The members of an expression."""
        if isinstance(expression, str):
            return sets[expression]
        left, sign, right = expression
        return SIGNS[sign](self.value(left, sets), self.value(right, sets))

    def spelled_out(self, expression: Expression) -> str:
        """An expression as the question writes it, every inner one in brackets."""
        if isinstance(expression, str):
            return expression
        parts = [
            self.spelled_out(part) if isinstance(part, str) else f"({self.spelled_out(part)})"
            for part in expression[::2]
        ]
        return f" {expression[1]} ".join(parts)
