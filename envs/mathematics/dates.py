"""Dates, clocks, units and ages.

Observation: dates, times, units or ages in words, and what is asked, with the form of the answer.
"""

from __future__ import annotations

import itertools
import random
import re
from calendar import monthrange
from datetime import date, timedelta
from fractions import Fraction

from rlvr.envs.mathematics import function_workings, workings
from rlvr.envs.mathematics.common import NumberList, lines, listed
from rlvr.envs.mathematics.workings import DAYS
from rlvr.envs.tasks.answers import ListAnswerTask
from rlvr.envs.tasks.questions import ExactAnswerTask, Question, explained
from rlvr.envs.tasks.wording import in_a_row

WEEKDAYS = tuple(day[:3] for day in DAYS)  # as answers name them
ORDINALS = ("first", "second", "third", "fourth")
FORMAT = "Write dates as YYYY-MM-DD."
GREGORIAN = "In the Gregorian calendar"


def some_day(rng: random.Random, first: int = 1900, last: int = 2099) -> date:
    start = date(first, 1, 1).toordinal()
    return date.fromordinal(start + rng.randrange(date(last + 1, 1, 1).toordinal() - start))


def months_later(day: date, months: int) -> date:
    """The same day of the month, or the month's last where it has no such day."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def workdays_later(day: date, count: int) -> date:
    """The ``count``-th day from Monday to Friday after ``day``, which is one of these itself."""
    weeks, rest = divmod(count, 5)
    rest += 2 if day.weekday() + rest > 4 else 0
    return day + timedelta(7 * weeks + rest)


class DateArithmetic(ListAnswerTask):
    """Count with dates.

    Level 1: days later; 2: days between; 3: workdays later; 4: days earlier, by decades; 5: months, days, weeks.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Days from 1900 to 2099 in the Gregorian calendar; a shorter month gives its last day."""
        day = some_day(rng)
        if level == 2:
            later = day + timedelta(rng.randint(40, 700))
            count = (later - day).days
            text = f"{GREGORIAN}, how many days after {day} is {later}?"
            return Question(text, (count,), f"Day numbers {day.toordinal()} and {later.toordinal()}.")
        if level == 3:
            day += timedelta(-max(0, day.weekday() - 4))
            count = rng.randint(8, 300)
            gold = workdays_later(day, count)
            text = f"{day} is a {DAYS[day.weekday()]}. Which date is the workday number {count} after it, when "
            text += "Monday to Friday are workdays, without holidays, and the next workday is number 1?"
            return Question(f"{text} {FORMAT}", (gold,), f"{count // 5} weeks and {count % 5} workdays.")
        if level == 5:
            months, days, weeks = rng.randint(3, 60), rng.randint(20, 400), rng.randint(5, 90)
            middle = months_later(day, months)
            gold = middle + timedelta(days - 7 * weeks)
            text = f"{GREGORIAN}, start at {day}. Go {months} months forward (to the same day of the month, or to the "
            text += f"last of a month that has no such day), then {days} days forward, then {weeks} weeks back. "
            return Question(f"{text}Which date is it? {FORMAT}", (gold,), f"{middle}, {middle + timedelta(days)}.")
        count = rng.randint(30, 400) if level == 1 else rng.randint(1_000, 20_000)
        gold = day + timedelta(count if level == 1 else -count)
        text = f"{GREGORIAN}, which date is {count} days {'after' if level == 1 else 'before'} {day}? {FORMAT}"
        return Question(text, (gold,))

    def explain(self, state: Question) -> str:
        """Years, months and days one after another."""
        return workings.date_arithmetic(state.text, months_later)


class CalendarDays(ListAnswerTask):
    """Find weekdays and dates.

    Level 1: weekdays within a year; 2, 3: years that fit; 4: weekdays over centuries; 5: the n-th weekday of months.
    """

    explain = explained(workings.calendar_days, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Several dates in one answer; levels 2 and 3 draw until at least two years fit, 29 February among the days."""
        if level in (1, 4):
            return self.weekdays(rng, level)
        year = rng.randint(1901, 2080)
        if level == 5:
            asked = [(rng.randint(1, 12), rng.randint(0, 6), rng.randint(1, 4)) for _ in range(7)]
            gold, sentences = [], []
            for month, weekday, number in asked:
                first = date(year, month, 1)
                gold.append(first + timedelta((weekday - first.weekday()) % 7 + 7 * (number - 1)))
                sentences.append(f"the {ORDINALS[number - 1]} {DAYS[weekday]} of month {month}")
            text = f"Which dates in the year {year} are these: {'; '.join(sentences)}? {FORMAT} Keep the order."
            working = f"{year}-01-01 is a {DAYS[date(year, 1, 1).weekday()]}."
            return Question(text, tuple(gold), working)
        span, weekday = (rng.randint(13, 16) if level == 2 else rng.randint(35, 60)), rng.randint(0, 6)
        while True:
            month, number = rng.randint(1, 12), rng.randint(1, 28)
            if level == 3 and rng.random() < 0.3:
                month, number = 2, 29
            years = [y for y in range(year, year + span) if (month, number) != (2, 29) or monthrange(y, 2)[1] == 29]
            fitting = [y for y in years if date(y, month, number).weekday() == weekday]
            if len(fitting) > 1:
                break
        text = f"{GREGORIAN}, in which years from {year} to {year + span - 1} is there a day {number} of month {month} "
        text += f"that is a {DAYS[weekday]}? Answer with the years in order."
        return Question(text, tuple(fitting))

    def weekdays(self, rng: random.Random, level: int) -> Question:
        """On which weekdays dates fall: from a known one at level 1, from the calendar alone above."""
        if level == 1:
            year = rng.randint(1901, 2090)
            reference, *asked = (some_day(rng, year, year) for _ in range(3))
            text = f"{reference} is a {DAYS[reference.weekday()]}. On"
        else:
            asked, text = [some_day(rng, 1700, 2300) for _ in range(5)], f"{GREGORIAN}, on"
        text += f" which weekdays are {in_a_row(map(str, asked))}? Answer in this order with {listed(WEEKDAYS)}."
        return Question(text, tuple(WEEKDAYS[day.weekday()] for day in asked))


class ClockAngles(ExactAnswerTask):
    """Find the angles between a clock's hands, and when they are so large.

    Level 1: a wrong clock; 2: the angle at a time; 3: how often it is so large; 4: when; 5: two times with seconds.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Exact fractions: the minute hand gains 11/2 degrees a minute on the hour hand."""
        even = "A clock's two hands move evenly."
        exact = "Answer with a fraction or whole number."
        if level in (2, 5):
            step, count = (60, 1) if level == 2 else (1, 2)
            times = [Fraction(rng.randrange(60, 46_800, step), 60) for _ in range(count)]
            angles = [min(turn, 360 - turn) for turn in (Fraction(11, 2) * time % 360 for time in times)]
            shown = [clock(int(time)) + (f":{int(time * 60) % 60:02}" if level == 5 else "") for time in times]
            if level == 2:
                text = f"{even} How many degrees is the smaller angle between the hour hand and the minute hand at "
                return Question(f"{text}{shown[0]}? {exact}", angles[0])
            text = f"{even} How many degrees do the angles (the smaller one at each time) between the hour hand and "
            text += f"the minute hand at {shown[0]} and at {shown[1]} add up to? {exact}"
            return Question(text, sum(angles))
        if level == 1:
            return self.wrong_clock(rng)
        start, degrees = rng.randint(0, 719), rng.randint(5, 175)
        if level == 4:
            gap = Fraction(11 * start, 2)  # by which the minute hand is ahead; it gains 11/2 degrees a minute
            after = min((way - gap) % 360 or Fraction(360) for way in (degrees, -degrees)) * Fraction(2, 11)
            text = (
                f"{even} How many minutes after {clock(start)} do they next form an angle of {degrees} degrees? {exact}"
            )
            return Question(text, after)
        length = rng.randint(200, 3_000)
        first, last = Fraction(11 * start, 2), Fraction(11 * (start + length), 2)
        count = sum((last - way) // 360 + (way - first) // 360 + 1 for way in (degrees, 360 - degrees))
        text = f"{even} It runs for {length} minutes from {clock(start)} on. "
        text += f"At how many moments, both ends included, is the angle {degrees} degrees?"
        return Question(text, int(count))

    def explain(self, state: Question) -> str:
        """Where both hands are; how often, by what the minute hand gains; the rate of the wrong clock."""
        if "how many moments" in state.text:
            return workings.moments(state.text)
        if "It was right" in state.text:
            return workings.wrong_clock(state.text)
        return function_workings.hands(state.text)

    @staticmethod
    def wrong_clock(rng: random.Random) -> Question:
        """How far a clock that gains or loses time has moved on, or how much time has passed."""
        every, off, fast = rng.randint(2, 12), rng.randint(2, 9), rng.random() < 0.5
        shown_rate = 1 + Fraction(off if fast else -off, 60 * every)
        hours = rng.randint(5, 48)
        text = f"A clock {'gains' if fast else 'loses'} {off} minutes in every {every} hours, evenly. It was right "
        if rng.random() < 0.5:
            text += f"once, and has moved on by {hours} hours since. How many minutes have passed in truth?"
            text += " Answer with a fraction or whole number."
            return Question(text, hours * 60 / shown_rate)
        text += f"{hours} hours ago. By how many minutes has it moved on since?"
        return Question(f"{text} Answer with a fraction or whole number.", hours * 60 * shown_rate)


class TimeZones(ListAnswerTask):
    """Find the local time of an arrival after flights between time zones.

    Levels 1 to 5: one to five flights, from level 3 on between zones that are quarters of an hour apart.
    """

    clock = True
    explain = explained(function_workings.flights, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Asks for weekday, hour and minute on arrival; stays between flights count."""
        step = 60 if level < 3 else 15
        zones = [step * rng.randint(-660 // step, 720 // step) for _ in range(level + 1)]
        weekday, minutes = rng.randint(0, 6), rng.randrange(0, 1_440, 5)
        towns = rng.sample(("Arbor", "Brink", "Carden", "Dunmore", "Elgin", "Fairlie", "Glenn", "Hove"), level + 1)
        sentences = [f"{town} is at {self.offset(zone)}." for town, zone in zip(towns, zones, strict=True)]
        text = f"{' '.join(sentences)}\nA traveller leaves {towns[0]} on {DAYS[weekday]} at {clock(minutes)} local "
        text += "time."
        now = weekday * 1_440 + minutes - zones[0]
        for number, town in enumerate(towns[1:], 1):
            apart = abs(zones[number] - zones[number - 1])
            shortest = 60 + min(apart, 1_440 - apart) // 10 * 5  # nobody flies round half the world in an hour
            flight = rng.randrange(shortest, shortest + 480, 5)
            now += flight
            text += f" The flight to {town} takes {flight // 60} h {flight % 60} min."
            if number < level:
                stay = rng.randrange(40, 1_500, 5)
                now += stay
                text += f" The stay there takes {stay // 60} h {stay % 60} min."
        local = now + zones[-1]
        text += f"\nWhat are the weekday and the local time of the arrival in {towns[-1]}? Answer with three parts: "
        text += f"the weekday ({listed(WEEKDAYS)}), the hour (0 to 23) and the minute."
        gold = (WEEKDAYS[local // 1_440 % 7], local // 60 % 24, local % 60)
        return Question(text, gold)

    @staticmethod
    def offset(zone: int) -> str:
        """An offset in minutes as ``UTC+5:30``."""
        return f"UTC{'-' if zone < 0 else '+'}{abs(zone) // 60}:{abs(zone) % 60:02}"


def clock(minutes: int) -> str:
    return f"{minutes // 60 % 24}:{minutes % 60:02}"


REAL = {  # unit: how many of which smaller unit
    "yards": (3, "feet"),
    "feet": (12, "inches"),
    "miles": (1_760, "yards"),
    "furlongs": (220, "yards"),
    "chains": (22, "yards"),
    "fathoms": (2, "yards"),
}
TIMES = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}
MADE_UP = "blips crons dabs fents glims hobs jots kems lutes murps nibs pells quods rills snaps tunds".split()


class UnitConversion(ExactAnswerTask):
    """Convert units exactly.

    Level 1: lengths in smaller units; 2: speeds; 3: areas and volumes; 4: a chain of made-up units; 5: two chains.
    """

    def ask(self, rng: random.Random, level: int) -> Question:
        """Exact conversion by a fraction; all factors are told, and none is assumed to be known.

        Counted as operations are the products with a factor from one unit to the next.
        """
        if level >= 4:
            return self.made_up(rng, level)
        sizes = {"inches": 1}
        for unit in ("feet", "yards", "fathoms", "chains", "furlongs", "miles"):
            many, smaller = REAL[unit]
            sizes[unit] = many * sizes[smaller]
        facts = [f"1 {unit.removesuffix('s')} = {many} {smaller}" for unit, (many, smaller) in REAL.items()]
        unit_facts = f"({'; '.join(facts).replace('1 feet', '1 foot')}.) "
        a, b = rng.sample(sorted(sizes), 2)
        amount = Fraction(rng.randint(2, 9_999), rng.choice((1, 1, 2, 4, 5)))
        ladder = list(sizes)
        steps = abs(ladder.index(a) - ladder.index(b))
        if level == 1:
            power, kind, amount = 1, "", Fraction(rng.randint(2, 99))
            a, b = sorted((a, b), key=ladder.index, reverse=True)
        elif level == 3:
            power = rng.randint(2, 3)
            kind = "square " if power == 2 else "cubic "
        else:
            s, t = rng.sample(sorted(TIMES), 2)
            steps += abs(list(TIMES).index(s) - list(TIMES).index(t))
            value = amount * Fraction(sizes[a] * TIMES[t], sizes[b] * TIMES[s])
            text = f"{unit_facts}How many {b} in {singular(t)} are {amount} {a} in {singular(s)}?"
            text += " Answer exactly, with a fraction or whole number."
            return Question(text, value, operations=1 + steps)
        value = amount * Fraction(sizes[a], sizes[b]) ** power
        text = (
            f"{unit_facts}How many {kind}{b} are {amount} {kind}{a}? Answer exactly, with a fraction or whole number."
        )
        return Question(text, value, operations=1 + power * steps)

    def explain(self, state: Question) -> str:
        """From unit to unit."""
        if re.search(r" in one \w+\?", state.text):
            return workings.speeds(state.text)
        return function_workings.conversion(state.text)

    def made_up(self, rng: random.Random, level: int) -> Question:
        """A conversion along a chain of invented units."""
        names = rng.sample(MADE_UP, 9 if level == 4 else 14)
        chains = (names,) if level == 4 else (names[:7], names[7:])
        facts, values = [], []
        for chain in chains:
            value = Fraction(1)
            for unit, next_unit in itertools.pairwise(chain):
                n, m = rng.sample(range(2, 13), 2)
                facts.append(f"{n} {unit} = {m} {next_unit}" if rng.random() < 0.5 else f"{m} {next_unit} = {n} {unit}")
                value *= Fraction(m, n)
            values.append(value)
        rng.shuffle(facts)
        amount = rng.randint(2, 60)
        if level == 4:
            asked, gold = f"How many {names[-1]} are {amount} {names[0]}?", amount * values[0]
        else:
            thing, per = (names[index].removesuffix("s") for index in (7, -1))
            asked = f"Cloth costs {amount} {names[0]} per {thing}. How many {names[6]} does one {per} of it cost?"
            gold = amount * values[0] / values[1]
        text = f"{'; '.join(facts)}.\n{asked} Answer exactly, with a fraction or whole number."
        return Question(text, gold, operations=1 + len(facts))


def singular(unit: str) -> str:
    return f"one {unit.removesuffix('s')}"


class Timetables(NumberList):
    """Find the earliest arrival by train.

    Levels 1 to 5: 4 to 8 stations and 10 to 34 trains; at least two trains must be taken, from level 3 on three.
    """

    clock = True
    explain = explained(workings.timetables, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws trains until some station needs enough of them, by a scan of connections in order of departure."""
        stations, count, change = "ABCDEFGH"[: 3 + level], 4 + 6 * level, rng.randint(3, 12)
        while True:
            trains = []
            for _ in range(count):
                start, end = rng.sample(stations, 2)
                leave = rng.randint(360, 1_080)
                trains.append((leave, leave + rng.randint(12, 90), start, end))
            ready, ridden = self.arrivals(trains, change, stations[0], 420)
            reached = [s for s in stations[1:] if s in ridden and ridden[s] >= (2 if level < 3 else 3)]
            if reached:
                break
        goal = rng.choice(reached)
        arrival = ready[goal] - change
        rows = [f"{a} {clock(leave)} - {b} {clock(arrive)}" for leave, arrive, a, b in rng.sample(trains, count)]
        text = f"Trains of one day (from, departure - to, arrival):\n{lines(rows)}\nChanging trains takes {change} "
        text += f"minutes: the next train may leave {change} minutes after the arrival, or later. You are at "
        text += f"{stations[0]} at 7:00, ready for any train from then on. When can you first arrive at {goal}? "
        return Question(f"{text}Answer with two numbers, the hour and the minute.", (arrival // 60, arrival % 60))

    @staticmethod
    def arrivals(
        trains: list[tuple[int, int, str, str]], change: int, home: str, now: int
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Station -> when the next train may be boarded there, and how many were taken to get there so early."""
        ready, ridden = {home: now}, {home: 0}
        for leave, arrive, start, end in sorted(trains):
            if ready.get(start, 10_000) <= leave and arrive + change < ready.get(end, 10_000):
                ready[end], ridden[end] = arrive + change, ridden[start] + 1
        return ready, ridden


class AgeProblems(NumberList):
    """Find people's ages from how they are tied.

    Levels 1 to 5: two to six people, each tied to the one before by a sentence, and their total age.
    """

    NAMES = ("Ann", "Ben", "Eva", "Kim", "Leo", "Mia", "Sam", "Tom", "Una", "Vic")
    explain = explained(workings.ages, "text")

    def ask(self, rng: random.Random, level: int) -> Question:
        """The total fixes the first age, each sentence the next; the content leaves out names and the order told."""
        people = level + 1
        while True:
            # Each age as p * x + q, where x is the first one's: the total then gives x, for p adds up to more than 0.
            ages, sentences, ties = [rng.randint(4, 40)], list[str](), list[str]()
            names = rng.sample(self.NAMES, people)
            for name, previous in zip(names[1:], names, strict=False):
                age, sentence = self.tied(rng, ages[-1], name, previous)
                ages.append(age)
                sentences.append(sentence)
                ties.append(sentence.replace(name, "B").replace(previous, "A"))
            if all(1 <= age <= 99 for age in ages) and len(set(ages)) == people:
                break
        order = rng.sample(range(people), people)
        text = " ".join(rng.sample(sentences, len(sentences)))
        text += (
            f" Today they are {sum(ages)} years old together. How old are {in_a_row([names[k] for k in order])} today?"
        )
        text += " Answer with their ages in this order."
        # The chain of ties from the first to the last: names, and the order in which they are told, do not count.
        content = f"{' '.join(ties)} Together {sum(ages)}."
        return Question(text, tuple(ages[k] for k in order), content=content)

    @staticmethod
    def tied(rng: random.Random, age: int, name: str, other: str) -> tuple[int, str]:
        """The age of ``name``, from that of ``other``, and the sentence that states it."""
        kind, years, times = rng.randrange(4), rng.randint(2, 12), rng.randint(2, 4)
        if kind == 0:
            return age + years, f"{name} is {years} years older than {other}."
        multiple = "twice" if times == 2 else f"{times} times"
        if kind == 1 and age > years:
            text = f"{years} years ago {name} was {multiple} as old as {other} was then."
            return times * (age - years) + years, text
        if kind == 2:
            text = f"In {years} years {name} will be {multiple} as old as {other} will be then."
            return times * (age + years) - years, text
        return times * age - years, f"In {years} years {name} will be {multiple} as old as {other} is today."
