"""Dates, clocks, units and ages, each answered a second time from the text alone, in another way."""

from __future__ import annotations

import calendar
import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr.envs.mathematics import dates

from .reading import found, ints

NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def days_in(text: str) -> list[tuple[int, int, int]]:
    return [(int(y), int(m), int(d)) for y, m, d in re.findall(r"(\d{4})-(\d\d)-(\d\d)", text)]


def day_number(year: int, month: int, day: int) -> int:
    """The Julian day number, by the formula of Fliegel and Van Flandern (1968)."""
    a = (14 - month) // 12
    y, m = year + 4800 - a, month + 12 * a - 3
    return day + (153 * m + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32045


def weekday(year: int, month: int, day: int) -> int:
    return day_number(year, month, day) % 7  # 0 is Monday


def after(day: tuple[int, int, int], count: int) -> tuple[int, int, int]:
    """Day by day, on the calendar's pages."""
    y, m, d = day
    for _ in range(abs(count)):
        d += 1 if count > 0 else -1
        if d == 0:
            y, m = (y, m - 1) if m > 1 else (y - 1, 12)
            d = calendar.monthrange(y, m)[1]
        elif d > calendar.monthrange(y, m)[1]:
            y, m, d = (y, m + 1, 1) if m < 12 else (y + 1, 1, 1)
    return y, m, d


def written(day: tuple[int, int, int]) -> str:
    return "{:04}-{:02}-{:02}".format(*day)


def date_arithmetic(text: str, level: int, answer: Any) -> Any:
    first, *more = days_in(text)
    if level == 2:
        return (day_number(*more[0]) - day_number(*first),)
    if level == 3:
        count = int(found(r"workday number (\d+)", text))
        while count:
            first = after(first, 1)
            count -= weekday(*first) < 5
        return (written(first),)
    if level == 5:
        months, days, weeks = ints(text.split("(")[0])[-1], *ints(text.split("then ", 1)[1])
        y, m = divmod(first[0] * 12 + first[1] - 1 + months, 12)
        last = calendar.monthrange(y, m + 1)[1]
        return (written(after((y, m + 1, min(first[2], last)), days - 7 * weeks)),)
    count = int(found(r"is (\d+) days", text))
    return (written(after(first, count if "after" in text else -count)),)


def calendar_days(text: str, level: int, answer: Any) -> Any:
    if level in (1, 4):
        asked = days_in(text)[1 if level == 1 else 0 :]
        return tuple(NAMES[weekday(*day)][:3] for day in asked)
    if level == 5:
        year = int(found(r"year (\d+)", text))
        gold = []
        for number, name, month in re.findall(r"the (\w+) (\w+) of month (\d+)", text):
            column = [week[NAMES.index(name)] for week in calendar.monthcalendar(year, int(month))]
            place = ["first", "second", "third", "fourth"].index(number)
            gold.append(written((year, int(month), [day for day in column if day][place])))
        return tuple(gold)
    start, end, day, month = ints(text)[:4]
    name = found(r"that is a (\w+)", text)
    years = [y for y in range(start, -end + 1 if end < 0 else end + 1) if day <= calendar.monthrange(y, month)[1]]
    return tuple(y for y in years if NAMES[weekday(y, month, day)] == name)


def clock_angles(text: str, level: int, answer: Any) -> Any:
    if level in (2, 5):
        total = Fraction(0)
        for hour, minute, second in re.findall(r"(\d+):(\d+)(?::(\d+))?", text):
            passed = Fraction(3600 * int(hour) + 60 * int(minute) + int(second or 0))
            angle = abs(passed / 120 % 360 - passed / 10 % 360)
            total += min(angle, 360 - angle)
        return total
    if level == 1:
        off, every = ints(text)[:2]
        hours = ints(text)[2]
        pace = Fraction(60 * every + (off if "gains" in text else -off), 60 * every)
        return 60 * hours / pace if "in truth" in text else 60 * hours * pace
    # The hands part by half a degree in a minute's eleventh; every angle asked for is such a multiple.
    *length, hour, minute, degrees = ints(text)
    if level == 4:
        wanted = (2 * degrees, 720 - 2 * degrees)
        return next(Fraction(k, 11) for k in range(1, 9_000) if (k + 11 * (60 * hour + minute)) % 720 in wanted)
    start = 11 * (60 * hour + minute)
    return sum(k % 720 in (2 * degrees, 720 - 2 * degrees) for k in range(start, start + 11 * length[0] + 1))


def time_zones(text: str, level: int, answer: Any) -> Any:
    zones = {
        place: timezone((-1 if sign == "-" else 1) * timedelta(hours=int(h), minutes=int(m)))
        for place, sign, h, m in re.findall(r"(\w+) is at UTC([+-])(\d+):(\d+)", text)
    }
    home, day, hour, minute = re.search(r"leaves (\w+) on (\w+) at (\d+):(\d+)", text).groups()
    now = datetime(2024, 1, 1 + NAMES.index(day), int(hour), int(minute), tzinfo=zones[home])
    for hours, minutes in re.findall(r"takes (\d+) h (\d+) min", text):
        now += timedelta(hours=int(hours), minutes=int(minutes))
    now = now.astimezone(zones[found(r"arrival in (\w+)\?", text)])
    return (NAMES[now.weekday()][:3], now.hour, now.minute)


def unit_conversion(text: str, level: int, answer: Any) -> Any:
    """By going from unit to unit along what is told."""
    singular = {"foot": "feet", "inch": "inches"}
    ties: dict[str, list[tuple[str, Fraction]]] = {}
    for n, one, m, other in re.findall(r"(\d+) (\w+) = (\d+) (\w+)", text):
        one = singular.get(one, one if one.endswith("s") else one + "s")
        ties.setdefault(one, []).append((other, Fraction(int(m), int(n))))
        ties.setdefault(other, []).append((one, Fraction(int(n), int(m))))

    def factor(one: str, other: str, seen: tuple[str, ...] = ()) -> Fraction | None:
        if one == other:
            return Fraction(1)
        for near, ratio in ties[one]:
            if near not in seen and (rest := factor(near, other, (*seen, one))) is not None:
                return ratio * rest
        return None

    if level == 5:
        amount, one, by = re.search(r"costs (\d+) (\w+) per (\w+)", text).groups()
        other, for_ = re.search(r"How many (\w+) does one (\w+) of it cost", text).groups()
        return int(amount) * factor(one, other) * factor(f"{for_}s", f"{by}s")
    kind = r"(?:square |cubic )?"
    other, amount, one = re.search(rf"How many {kind}(\w+).*? are (\S+) {kind}(\w+)", text).groups()
    power = 2 if "square" in text else 3 if "cubic" in text else 1
    value = Fraction(amount) * factor(one, other) ** power
    if level == 2:
        seconds = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
        to, since = re.findall(r"in one (\w+)", text)
        value *= Fraction(seconds[to], seconds[since])
    return value


def timetables(text: str, level: int, answer: Any) -> Any:
    """Every train again and again, until nothing is reached earlier."""
    trains = [
        (a, 60 * int(h) + int(m), b, 60 * int(k) + int(n))
        for a, h, m, b, k, n in re.findall(r"(\w) (\d+):(\d\d) - (\w) (\d+):(\d\d)", text)
    ]
    change = int(found(r"takes (\d+) minutes", text))
    home, goal = found(r"You are at (\w)", text), found(r"arrive at (\w)\?", text)
    ready = {home: 420}
    for _ in trains:
        for a, leave, b, arrive in trains:
            if ready.get(a, 9_999) <= leave:
                ready[b] = min(ready.get(b, 9_999), arrive + change)
    return divmod(ready[goal] - change, 60)


def age_problems(text: str, level: int, answer: Any) -> Any:
    text = text.replace("twice", "2 times")
    order = found(r"How old are (.*) today\?", text).replace(" and ", ", ").split(", ")
    age = {name: sympy.Symbol(name) for name in order}
    equations = [sum(age.values()) - int(found(r"they are (\d+) years old", text))]
    for one, years, other in re.findall(r"(\w+) is (\d+) years older than (\w+)", text):
        equations.append(age[one] - age[other] - int(years))
    for years, one, times, other in re.findall(r"(\d+) years ago (\w+) was (\d) times as old as (\w+) was", text):
        equations.append(age[one] - int(years) - int(times) * (age[other] - int(years)))
    pattern = r"In (\d+) years (\w+) will be (\d) times as old as (\w+) (will be then|is today)"
    for years, one, times, other, when in re.findall(pattern, text):
        later = int(years) if when == "will be then" else 0
        equations.append(age[one] + int(years) - int(times) * (age[other] + later))
    (solution,) = sympy.linsolve(equations, *age.values())
    return tuple(solution)


ORACLES: dict[type, Callable[[str, int, Any], Any]] = {
    dates.DateArithmetic: date_arithmetic,
    dates.CalendarDays: calendar_days,
    dates.ClockAngles: clock_angles,
    dates.TimeZones: time_zones,
    dates.UnitConversion: unit_conversion,
    dates.Timetables: timetables,
    dates.AgeProblems: age_problems,
}


@pytest.mark.parametrize("level", range(1, 6))
@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
@given(seed=st.integers(0, 2**64))
@settings(max_examples=12, deadline=None)
def test_the_answer_is_found_again_from_the_text(task, level, seed):
    question = task().ask(random.Random(seed), level)
    again = ORACLES[task](question.text, level, question.answer)
    if isinstance(question.answer, tuple):
        assert tuple(map(str, again)) == tuple(map(str, question.answer)), question
    else:
        assert again == question.answer, question


@pytest.mark.parametrize("task", ORACLES, ids=lambda task: task.__name__)
def test_a_neighbour_of_the_answer_is_wrong(task):
    made = task()
    for seed in range(30):
        question = made.ask(random.Random(seed), 1 + seed % 5)
        gold = made.direct_answer(question)
        digits = [place for place, symbol in enumerate(gold) if symbol.isdigit()]
        if digits:
            place = random.Random(seed).choice(digits)
            near = gold[:place] + str((int(gold[place]) + 1) % 10) + gold[place + 1 :]
            if not near[: place + 1].endswith("/0"):
                assert made.judge(question, near).reward == 0.0
        assert made.judge(question, gold.replace("}", ", 1}")).reward == 0.0
