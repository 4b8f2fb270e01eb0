"""Questions to data.

Observation: tables, a JSON document, calendars or a log, and which values in it are asked for.
"""

from __future__ import annotations

import itertools
import json
import operator
import random
from typing import Any, ClassVar

from rlvr.envs.algorithmic import data_workings
from rlvr.envs.algorithmic.data_workings import hour
from rlvr.envs.tasks.answers import ListAnswerTask, listed
from rlvr.envs.tasks.questions import Question, explained

NAMES = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo June Kai Lena Milo Nora Otto Pia Quin Rosa Sami Tess Udo Vera".split()
CITIES = ("Oslo", "Rome", "Lima", "Cairo", "Perth")
TRADES = ("baker", "cook", "nurse", "pilot", "smith")


class TableQueries(ListAnswerTask):
    """Answer a query on a table by hand.

    Level 1: filter and sum; 2: join with a second table; 3: group; 4: rank; 5: group the join.
    """

    explain = explained(data_workings.table_queries, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Wages are multiples of 10 and names unique; ties are broken by rules that the question states."""
        count = 6 + 2 * level
        people = [
            (
                name,
                rng.choice(CITIES[: 2 + level // 2]),
                rng.choice(TRADES[:3]),
                rng.randint(20, 70),
                10 * rng.randint(20, 99),
            )
            for name in rng.sample(NAMES, count)
        ]
        rows = "\n".join(" | ".join(map(str, row)) for row in people)
        text = f"people (name | city | trade | age | wage)\n{rows}\n"
        cities = sorted({row[1] for row in people})
        if level in (2, 5):
            return self.joined(rng, level, people, text)
        if level == 1:
            city, age = rng.choice(cities), rng.randint(30, 55)
            chosen = [row for row in people if row[1] == city and row[3] > age]
            if not chosen:
                return self.ask(rng, level)
            asked = f"How many people live in {city} and are over {age}, and what do their wages add up to?"
            return Question(f"{text}{asked} Answer with two numbers.", (len(chosen), sum(row[4] for row in chosen)))
        if level == 3:
            trade = rng.choice(TRADES[:3])
            sums = [sum(row[4] for row in people if row[1] == city and row[2] != trade) for city in cities]
            asked = f"For each of {listed(cities)}, in this order: what do the wages of all who live there and "
            asked += f"whose trade is not {trade} "
            return Question(f"{text}{asked}add up to (0 if there is none)?", tuple(sums))
        age = rng.randint(25, 40)
        ranked = sorted((row for row in people if row[3] >= age), key=lambda row: (-row[4], row[3], row[0]))
        if len(ranked) < 5:
            return self.ask(rng, level)
        first = rng.randint(2, 3)
        asked = f"Of those who are {age} or older, sorted by wage from the highest (equal wages: the younger first, "
        asked += f"then by name), who are at places {first} to {first + 2}? Answer with the names in order."
        return Question(text + asked, tuple(row[0] for row in ranked[first - 1 : first + 2]))

    def joined(
        self, rng: random.Random, level: int, people: list[tuple[str, str, str, int, int]], text: str
    ) -> Question:
        """A question over the people and a second table of what they ordered."""
        orders = [
            (rng.choice(people)[0], rng.choice(("tea", "oil", "salt", "silk")), rng.randint(1, 9), rng.randint(2, 30))
            for _ in range(8 + level)
        ]
        rows = "\n".join(" | ".join(map(str, row)) for row in orders)
        text += f"orders (name | good | amount | price of one)\n{rows}\n"
        city_of, trade_of = {row[0]: row[1] for row in people}, {row[0]: row[2] for row in people}
        if level == 2:
            city = rng.choice(sorted(set(city_of.values())))
            chosen = [row for row in orders if city_of[row[0]] == city]
            if not chosen:
                return self.ask(rng, level)
            asked = f"How many orders are by people who live in {city}, and what do they cost together? Answer with "
            asked += "two numbers."
            return Question(text + asked, (len(chosen), sum(row[2] * row[3] for row in chosen)))
        cities = sorted(set(city_of.values()))
        trade = rng.choice(TRADES[:3])
        costs = [
            sum(row[2] * row[3] for row in orders if city_of[row[0]] == city and trade_of[row[0]] != trade)
            for city in cities
        ]
        if sorted(costs)[-1] == 0 or len(set(costs)) < len(costs):
            return self.ask(rng, level)
        asked = f"What do the orders of people who live in a city, and whose trade is not {trade}, cost "
        asked += f"together, for each of {listed(cities)}? "
        gold = (*costs, cities[costs.index(max(costs))])
        return Question(f"{text}{asked}Answer with these sums in this order, then the city of the largest.", gold)


class JsonPaths(ListAnswerTask):
    """Read the values at paths of a JSON document.

    Levels 1 to 5: documents of two to four storeys, and one to four paths; from level 3 on with filters.
    """

    KEYS: ClassVar[tuple[str, ...]] = tuple("arc bow cap den elm fan gem hut ink jar keg log".split())
    explain = explained(data_workings.json_paths, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Different paths into one document; from level 3 on also a filtered sum over a list of rows."""
        document = self.drawn(rng, (2, 3, 3, 3, 4)[level - 1])
        paths: list[str] = []
        gold: list[int] = []
        while len(paths) < (2, 2, 2, 3, 4)[level - 1]:
            path, value = self.walked(rng, document)
            if path not in paths:
                paths.append(path)
                gold.append(value)
        listing = "\n".join(f"{number}. {path}" for number, path in enumerate(paths, 1))
        text = f"{json.dumps(document)}\nWhat are the values at these paths ($ is the whole, indices count from 0, "
        text += "[-1] is the last)?\n" + listing
        if level >= 3:
            key = "id"
            rows = [{key: n, "size": rng.randint(1, 99), "live": rng.random() < 0.5} for n in range(4 + level)]
            least = rng.randint(20, 60)
            text = f"rows = {json.dumps(rows)}\n$ = {text}\nAfter them: the sizes of all rows that are live and over "
            text += f"{least}, added up."
            gold.append(sum(row["size"] for row in rows if row["live"] and row["size"] > least))
        return Question(f"{text}\nAnswer with the values in order.", tuple(gold))

    def drawn(self, rng: random.Random, storeys: int) -> Any:
        """Lists and objects nested ``storeys`` deep, with numbers from 10 to 999 in them."""
        if storeys == 0:
            return rng.randint(10, 999)
        width = rng.randint(2, 3)
        if rng.random() < 0.45:
            return [self.drawn(rng, storeys - 1) for _ in range(width + 1)]
        return {key: self.drawn(rng, storeys - 1) for key in rng.sample(self.KEYS, width)}

    @staticmethod
    def walked(rng: random.Random, value: Any) -> tuple[str, int]:
        """A path from the root to a number, drawn step by step, and that number."""
        path = "$"
        while not isinstance(value, int):
            if isinstance(value, list):
                index = rng.randrange(-1, len(value))
                path, value = f"{path}[{index}]", value[index]
            else:
                key = rng.choice(sorted(value))
                path, value = f"{path}.{key}", value[key]
        return path, value


class MeetingTimes(ListAnswerTask):
    """Find when all of some people are free to meet.

    Levels 1 to 5: two to six people over one to four days.
    """

    clock = True

    DAYS: ClassVar[tuple[str, ...]] = ("Mon", "Tue", "Wed", "Thu")
    explain = explained(data_workings.meeting_times, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws the day, then calendars anew, one at a time, until it is the first with a gap, which is after 9:00."""
        people, days, length = level + 1, (1, 2, 3, 3, 4)[level - 1], 15 * rng.randint(min(level + 1, 4), 6)
        day = rng.choice(((0,), (0, 0, 1), (0, 0, 1, 2), (1, 2), (2, 3))[level - 1])
        calendars = [[self.busy(rng) for _ in range(people)] for _ in range(days)]
        for number, calendar in enumerate(calendars[: day + 1]):
            start = self.first_free(calendar, length)
            while start in (None, 540) if number == day else start is not None:
                calendar.append(self.busy(rng))
                del calendar[0]
                start = self.first_free(calendar, length)
        listing = [
            f"{name}, {self.DAYS[on]}: " + ", ".join(f"{hour(a)}-{hour(b)}" for a, b in calendar[person])
            for person, name in enumerate(rng.sample(NAMES, people))
            for on, calendar in enumerate(calendars)
        ]
        text = (
            "When these people are busy:\n"
            + "\n".join(listing)
            + f"\nThey want to meet for {length} minutes without a break, on "
        )
        text += "one day, all of them, between 9:00 and 18:00. When is the earliest time that they can begin? Answer "
        text += f"with three parts: the day ({listed(self.DAYS[:days])}), the hour and the minute."
        return Question(text, (self.DAYS[day], *divmod(start or 0, 60)))

    @staticmethod
    def busy(rng: random.Random) -> list[tuple[int, int]]:
        """From when to when somebody is busy on a day, in minutes: four times, or fewer where starts are equal."""
        starts = sorted(set(rng.choices(range(540, 1_020, 15), k=4)))
        lengths = rng.choices(range(30, 106, 15), k=len(starts))
        return [(a, min(a + span, b)) for a, span, b in zip(starts, lengths, [*starts[1:], 1_080], strict=True)]

    @staticmethod
    def first_free(taken: list[list[tuple[int, int]]], length: int) -> int | None:
        """The first minute from which nobody is busy for so long; None if there is none."""
        start = 540
        for busy, end in sorted(itertools.chain.from_iterable(taken)):
            if start + length <= busy:
                return start
            if end > start:
                start = end
        return start if start + length <= 1_080 else None


_SIDES, _THINGS, _EVENTS = (
    ("north", "south", "east"),
    ("door", "valve", "hatch", "gate"),
    ("opened", "closed", "failed"),
)
_LINES = [" ".join(("the", *words)) for words in itertools.product(_SIDES, _THINGS, _EVENTS)]
# What a byte, or the number of a line in _LINES, tells: the line, its side and thing, its thing and event, its thing.
_LINE_OF = bytes(byte % len(_LINES) for byte in range(256))
_SIDE_AND_THING = bytes(byte // 3 for byte in range(256))
_THING_AND_EVENT = bytes(byte % 12 for byte in range(256))
_THING = bytes(byte // 3 % 4 for byte in range(256))


class NeedleCounting(ListAnswerTask):
    """Count the lines of a log that fit a description.

    Levels 1 to 5: 20 to 100 lines of a log, and three to five counts; from level 2 on over what came before.
    """

    explain = explained(data_workings.needles, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Several counts over one log, of single lines and, from level 2 on, of neighbouring lines."""
        log = rng.randbytes(20 * level).translate(_LINE_OF)
        code, side = divmod(rng.randrange(3 * 4 * 3 * 3), 3)
        code, thing = divmod(code, 4)
        code, step = divmod(code, 3)
        other, event = (thing + step + 1) % 4, code
        where, what, another, did = _SIDES[side], _THINGS[thing], _THINGS[other], _EVENTS[event]
        of_side, of_event = log.translate(_SIDE_AND_THING), log.translate(_THING_AND_EVENT)
        asked = (
            f"(1) lines that tell of the {where} {what}; "
            f"(2) lines in which a {another} {did}, other than the {where} one; "
            f"(3) the number of the last line in which a {what} {did} (0 if there is none)"
        )
        gold = [
            of_side.count(4 * side + thing),
            of_event.count(3 * other + event) - log.count(12 * side + 3 * other + event),
            of_event.rfind(3 * thing + event) + 1,
        ]
        if level >= 2:
            asked += "; (4) lines in which the same thing (of the same side) does something as in the line before"
            gold.append(sum(map(operator.eq, of_side, of_side[1:])))
        if level >= 4:
            asked += f"; (5) lines that tell of a {what} directly after a line that tells of a {another}"
            gold.append(log.translate(_THING).count(bytes((other, thing))))
        lines = "\n".join([f"{number} {_LINES[line]}" for number, line in enumerate(log, 1)])
        text = f"{lines}\nCount in this log: {asked}. Answer with these {len(gold)} numbers in order."
        return Question(text, tuple(gold))
