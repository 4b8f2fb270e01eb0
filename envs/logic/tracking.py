"""Keeping track.

Observation: a start, a list of changes, and the places, beliefs or numbers that are asked for.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import ClassVar

from rlvr.envs.logic import workings
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained
from rlvr.envs.tasks.wording import counted, in_a_row

PEOPLE = ("Ann", "Ben", "Cay", "Dan", "Eve", "Fay", "Gus", "Hal")
Belief = tuple[str, str, str]  # who thinks, of whose thoughts, about which thing
THINGS = ("apple", "ball", "clock", "drum", "egg", "fork", "glove", "hat")


def without_names(text: str, names: Iterable[str]) -> str:
    """A text with numbers for names, in the order of their first mention: tasks that differ in no more are equal."""
    numbers = dict.fromkeys(names, "")
    numbers_used = dict.fromkeys(word for word in re.findall(r"\w+", text) if word in numbers)
    numbers |= {name: f"#{number}" for number, name in enumerate(numbers_used)}
    return re.sub(r"\w+", lambda word: numbers.get(word[0], word[0]), text)


class SwapTracking(ListAnswerTask):
    """Follow who holds what through exchanges.

    Levels 1 to 5: 4 to 8 people and 8, 9, 14, 20 and 28 exchanges, from level 3 on in rings of three too.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """From level 2 on exchanges also name the things, from level 3 on three people exchange in a ring.

        The content leaves out the names: a person is known by the steps that name him or what he holds at first.
        """
        count, steps = 3 + level, (8, 9, 14, 20, 28)[level - 1]
        people = rng.sample(PEOPLE, count)
        holds = dict(zip(people, rng.sample(THINGS, count), strict=True))
        owner = {thing: name for name, thing in holds.items()}
        named: dict[str, list[str]] = {name: [] for name in people}
        rings: list[tuple[int, tuple[str, str, str]]] = []
        text = f"{'; '.join(f'{name} holds the {thing}' for name, thing in holds.items())}. Then, one after the other: "
        events, working = [], []
        for step in range(steps):
            kind = rng.random()
            if level >= 3 and kind < 0.25:
                a, b, c = rng.sample(people, 3)
                holds[a], holds[b], holds[c] = holds[c], holds[a], holds[b]
                events.append(f"{a} gives to {b}, {b} to {c} and {c} to {a}, all at once")
                rings.append((step, (a, b, c)))
                for name in (a, b, c):
                    named[name].append(f"{step}r")
            elif level >= 2 and kind < 0.5:
                a, b = rng.sample(people, 2)
                events.append(f"whoever holds the {holds[a]} exchanges with whoever holds the {holds[b]}")
                for name in (a, b):
                    named[owner[holds[name]]].append(f"{step}t")
                holds[a], holds[b] = holds[b], holds[a]
            else:
                a, b = rng.sample(people, 2)
                holds[a], holds[b] = holds[b], holds[a]
                events.append(f"{a} and {b} exchange what they hold")
                for name in (a, b):
                    named[name].append(f"{step}p")
            working.append(" ".join(f"{name}:{thing}" for name, thing in holds.items()))
        order = sorted(people)
        text += f"{'; '.join(events)}.\nWhat do {in_a_row(order)} hold now? Answer with the things, in this order."
        roles = {name: " ".join(each) for name, each in named.items()}
        ways = {
            name: [f"{step}>{roles[r[(r.index(name) + 1) % 3]]}" for step, r in rings if name in r] for name in people
        }
        content = "\n".join(sorted(f"{roles[name]}: {'; '.join(ways[name])}" for name in people))
        return Question(text, tuple(holds[name] for name in order), "\n".join(working), content=content)


class FalseBeliefs(ListAnswerTask):
    """Say where people believe that things are.

    Levels 1 to 5: two to four people, one to three things; from level 4 on what they think that others think.
    """

    PLACES: ClassVar[tuple[str, ...]] = ("box", "drawer", "basket", "chest", "bag", "jar")
    explain = explained(workings.false_beliefs, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws plays until some of the asked beliefs are true and some false; from level 4 on of the second order."""
        count, steps, kinds = (2, 3, 3, 3, 4)[level - 1], (6, 9, 12, 12, 16)[level - 1], (2, 2, 3, 2, 2)[level - 1]
        while True:
            people, locations = rng.sample(PEOPLE, count), rng.sample(self.PLACES, 4)
            where = {thing: rng.choice(locations) for thing in rng.sample(THINGS, kinds)}
            begin = " ".join(f"The {thing} is in the {location}." for thing, location in where.items())
            thinks, events = self.played(rng, people, locations, where, steps)
            if level < 4:
                asked = [(a, a, t) for a in people for t in where]
            else:
                asked = [(a, b, t) for a in people for b in people for t in where if a != b]
            asked = rng.sample(asked, min(len(asked), 3 + level))
            mistaken = {thinks[key] == where[key[2]] for key in asked}
            if len(mistaken) == 2 and len({thinks[key] for key in asked}) > 1:
                break
        room = in_a_row(f"a {location}" for location in locations)
        text = f"{in_a_row(people)} are in a room with {room}. All see the start, and whoever is in the "
        text += (
            "room sees all that happens in it, and who is there. Only somebody who knows where a thing is moves it; "
        )
        text += "a move shows nobody what else is in a place. Outside the room they learn nothing and suspect nothing. "
        text += f"All of them know all of this. {begin}\n{' '.join(events)}\n"
        names = [f"({n}) {self.named(key)}" for n, key in enumerate(asked, 1)]
        text += f"In which place is, in the end: {'; '.join(names)}? Answer with the places, in order."
        content = without_names(f"{' '.join(events)} {begin} {'; '.join(names)}", (*people, *locations, *where))
        return Question(text, tuple(thinks[key] for key in asked), content=content)

    def played(
        self, rng: random.Random, people: list[str], locations: list[str], where: dict[str, str], steps: int
    ) -> tuple[dict[Belief, str], list[str]]:
        """What everybody thinks after so many steps, and the steps; ``where`` follows the things.

        A belief is of (a, b, thing): where a thinks that b thinks it is. It changes only with what a sees.
        """
        thinks = {(a, b, t): location for a in people for b in people for t, location in where.items()}
        inside, events = set(people), list[str]()
        while len(events) < steps:
            out = [name for name in people if name not in inside]
            moves = self.moves(sorted(inside), locations, where, thinks)
            if len(inside) > 1 and (not moves or rng.random() < 0.4):
                name = rng.choice(sorted(inside))
                inside.discard(name)
                events.append(f"{name} leaves the room.")
            elif out and (not moves or rng.random() < 0.35):
                name = rng.choice(out)
                inside.add(name)
                events.append(f"{name} comes back, without looking into anything.")
            elif moves:
                name, thing, location = rng.choice(moves)
                events.append(f"{name} moves the {thing} from the {where[thing]} to the {location}.")
                where[thing] = location
                thinks |= {(a, b, thing): location for a in inside for b in inside}
        return thinks, events

    @staticmethod
    def moves(
        inside: list[str], locations: list[str], where: dict[str, str], thinks: dict[Belief, str]
    ) -> list[tuple[str, str, str]]:
        """The moves that can be understood in one way alone: who moves which thing where.

        Whoever moves a thing knows where it is. If those who are there saw what else is in the two places that are
        opened, they would learn nothing new: so it does not matter whether they do.
        """
        certain = {t: all(thinks[a, b, t] == where[t] for a in inside for b in inside) for t in where}
        doubted = {t: {where[t], *(thinks[a, b, t] for a in inside for b in inside)} for t in where}
        return [
            (name, thing, location)
            for name in inside
            for thing in where
            for location in locations
            if location != where[thing] == thinks[name, name, thing]
            and all(certain[t] or doubted[t].isdisjoint((where[thing], location)) for t in where if t != thing)
        ]

    @staticmethod
    def named(key: Belief) -> str:
        """A belief, or a belief about a belief, in words."""
        thinker, other, thing = key
        return (
            f"the {thing}, as {thinker} thinks"
            if thinker == other
            else f"the {thing}, as {other} thinks in {thinker}'s opinion"
        )


class DiceRolling(ListAnswerTask):
    """Follow a die that rolls over its edges.

    Levels 1 to 5: 6, 8, 10, 13 and 18 rolls; the tops on the way are asked for, from level 3 on how the die lies.
    """

    explain = explained(workings.die, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """An ordinary die of one handedness; from level 3 on how it lies, the sum of the tops and the count of 6."""
        count = (6, 8, 10, 13, 18)[level - 1]
        top, north = rng.choice([(a, b) for a in range(1, 7) for b in range(1, 7) if b not in (a, 7 - a)])
        # An ordinary die: opposite sides add up to 7; with 1 on top and 2 north, 3 is east.
        east = self.east(top, north)
        rolls = rng.choices(("north", "south", "east", "west"), k=count)
        text = f"On the opposite sides of a die the numbers add up to 7. It lies with {top} on top, {north} to the "
        text += f"north and {east} to the east, and rolls over its edges, a field at a time: {listed(rolls)}.\n"
        tops = []
        for way in rolls:
            if way == "north":
                top, north = 7 - north, top
            elif way == "south":
                top, north = north, 7 - top
            elif way == "east":
                top, east = 7 - east, top
            else:
                top, east = east, 7 - top
            tops.append(top)
        if level < 3:
            return Question(
                f"{text}Which number is on top after each roll? Answer with the {count} numbers.", tuple(tops)
            )
        text += "Answer with five numbers: the one on top, the one to the north and the one to the east in the end, "
        text += "the sum of all numbers that were on top after a roll, and how often 6 was on top after a roll."
        return Question(text, (top, north, east, sum(tops), tops.count(6)), listed(tops))

    @staticmethod
    def east(top: int, north: int) -> int:
        """The side to the east, by the handedness of a die with 3 east of 1 on top and 2 north."""
        axis = {1: (0, 1), 6: (0, -1), 2: (1, 1), 5: (1, -1), 3: (2, 1), 4: (2, -1)}
        (a, x), (b, y) = axis[top], axis[north]
        third = 3 - a - b
        sign = x * y * (1 if (a, b) in ((0, 1), (1, 2), (2, 0)) else -1)
        return {(0, 1): 1, (0, -1): 6, (1, 1): 2, (1, -1): 5, (2, 1): 3, (2, -1): 4}[third, sign]


class Seating(ListAnswerTask):
    """Follow who sits where around a table.

    Levels 1 to 5: 5 to 8 people around a table and 4, 6, 9, 12 and 16 moves.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Five kinds of moves around the table, clockwise; chairs stay, people move."""
        count, steps = min(4 + level, 8), (4, 6, 9, 12, 16)[level - 1]
        people = rng.sample(PEOPLE, count)
        seated = listed(people)
        text = f"Around a table sit, clockwise from chair 1: {seated}. Then, one after the other: "
        events, working = [], []
        for _ in range(steps):
            kind, a, b = rng.randrange(5), *rng.sample(people, 2)
            if kind == 0:
                by = rng.randint(1, count - 2)
                people = people[-by:] + people[:-by]
                events.append(f"all move {counted(by, 'chair')} clockwise")
            elif kind == 1:
                i, j = people.index(a), people.index(b)
                people[i], people[j] = b, a
                events.append(f"{a} and {b} exchange chairs")
            elif kind == 2:
                i = people.index(a)
                j = (i + count // 2) % count
                people[i], people[j] = people[j], people[i]
                events.append(
                    f"{a} exchanges chairs with whoever sits {counted(count // 2, 'chair')} further clockwise"
                )
            elif kind == 3:
                i = people.index(a)
                left, right = (i + 1) % count, (i - 1) % count
                people[left], people[right] = people[right], people[left]
                events.append(f"the two neighbours of {a} exchange chairs")
            else:
                people.reverse()
                events.append(
                    f"chair 1 exchanges with chair {count}, chair 2 with chair {count - 1}, and so on to the middle"
                )
            working.append(" ".join(people))
        text += f"{'; '.join(events)}.\nWho sits on chairs 1 to {count} now? Answer with the names, in order."
        content = without_names(f"{seated}. {'; '.join(events)}", people)
        return Question(text, tuple(people), "\n".join(working), content=content)
