"""The working of experts of this family, from the text of a question alone."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from fractions import Fraction
from math import lcm

from rlvr.envs.tasks.wording import bracketed, counted, times

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDINALS = ("first", "second", "third", "fourth")


# calendars and clocks


def new_year(year: int) -> str:
    """On which weekday a year begins, by the rule of Gauss, from Sunday as 0."""
    a, b, c = (year - 1) % 4, (year - 1) % 100, (year - 1) % 400
    total = 1 + 5 * a + 4 * b + 6 * c
    sums = f"1 + 5*{a} + 4*{b} + 6*{c} = {total} = 7*{total // 7} + {total % 7}"
    return f"{year}-01-01 by Gauss's rule: {sums}, {DAYS[(total - 1) % 7]} (0 is Sunday)."


def weekday_after(reference: date, day: date) -> str:
    """On which weekday a day falls, by the days since another one of the same year."""
    apart = (day - reference).days
    days = f"{abs(apart)} day{'s' * (abs(apart) != 1)} {'before' if apart < 0 else 'after'} {reference}"
    rest = f"{abs(apart)} = 7*{abs(apart) // 7} + {abs(apart) % 7}"
    return f"{day} is {days}, and {rest}: {DAYS[day.weekday()]}."


def calendar_days(text: str) -> str:
    """Weekdays by counting days from a known one or from the new year; years by how a date's weekday moves on."""
    dates = [date.fromisoformat(day) for day in re.findall(r"\d{4}-\d\d-\d\d", text)]
    if "Which dates" in text:
        return months_of(text)
    if "in which years" not in text:
        if " is a " in text:
            return "\n".join(weekday_after(dates[0], day) for day in dates[1:])
        return "\n".join(f"{new_year(day.year)}\n{weekday_after(date(day.year, 1, 1), day)}" for day in dates)
    first, last, number, month = map(int, re.findall(r"from (\d+) to (\d+) .*a day (\d+) of month (\d+)", text)[0])
    years = [year for year in range(first, last + 1) if number <= monthrange(year, month)[1]]
    weekdays = [f"{year} {DAYS[date(year, month, number).weekday()][:3]}" for year in years]
    begin = date(years[0], month, number)
    if (month, number) == (2, 29):
        over = ", over 2100 by 2" if years[0] < 2100 < years[-1] else ""
        how = f"Only leap years have this date; from one to the next it moves on by 5 weekdays{over}:"
    else:
        how = "The date moves on by one weekday a year, and by two where a 29 February lies between:"
    lines = [new_year(begin.year), weekday_after(date(begin.year, 1, 1), begin)]
    return "\n".join([*lines, f"{how} {', '.join(weekdays)}."])


def months_of(text: str) -> str:
    """For each month asked for its first day, and from there the weekday by its number."""
    year = int(re.findall(r"in the year (\d+)", text)[0])
    lines = [new_year(year)]
    for ordinal, weekday, month in re.findall(r"the (\w+) (\w+) of month (\d+)", text):
        first = date(year, int(month), 1)
        ahead = (DAYS.index(weekday) - first.weekday()) % 7
        number = ORDINALS.index(ordinal)
        lines.append(weekday_after(date(year, 1, 1), first))
        day = first + timedelta(ahead + 7 * number)
        lines.append(f"The {ordinal} {weekday} of month {month}: 1 + {ahead} + 7*{number} = {day.day}.")
    return "\n".join(lines)


def moments(text: str) -> str:
    """How often the hands form an angle: the multiples of 360 degrees that the minute hand gains."""
    length, hour, minute, degrees = map(
        int, re.findall(r"for (\d+) minutes from (\d+):(\d+) on.* is the angle (\d+) degrees", text)[0]
    )
    start = 60 * hour + minute
    first, last = Fraction(11 * start, 2) % 360, Fraction(11 * length, 2)
    lines = [
        "The minute hand gains 11/2 degrees a minute on the hour hand.",
        f"At {hour}:{minute:02} it is {counted(first, 'degree')} ahead, and in {length} minutes it gains "
        f"11/2*{length} = {last}: to {first} + {last} = {first + last}.",
    ]
    counts = []
    for way in (degrees, 360 - degrees):
        low, high = -((way - first) // 360), (first + last - way) // 360
        counts.append(high - low + 1)
        turns = f"k from {low} to {high}" if counts[-1] else "no k"
        lines.append(f"Ahead by {way} + 360k: {turns}, {counts[-1]} times.".replace(" 1 times", " once"))
    return "\n".join([*lines, f"{counts[0]} + {counts[1]} = {sum(counts)}"])


def wrong_clock(text: str) -> str:
    """The rate at which a wrong clock runs, and what it makes of the hours."""
    way, off, every = re.findall(r"(gains|loses) (\d+) minutes in every (\d+) hours", text)[0]
    true = 60 * int(every)
    shown = true + int(off) if way == "gains" else true - int(off)
    rate = Fraction(shown, true)
    shown_rate = f"{shown}/{true} = {rate}" if rate.denominator != true else str(rate)
    line = f"In {every} hours, {true} minutes, it moves on by {shown} minutes: {shown_rate} a minute."
    if "in truth" in text:
        minutes = 60 * int(re.findall(r"moved on by (\d+) hours", text)[0])
        return f"{line}\nIt has moved on by {minutes} minutes: {minutes} / ({rate}) = {minutes / rate}"
    minutes = 60 * int(re.findall(r"right (\d+) hours ago", text)[0])
    return f"{line}\n{minutes} minutes have passed: {minutes} * {rate} = {minutes * rate}"


def timetables(text: str) -> str:
    """The trains in order of departure that bring you somewhere sooner than before."""
    trains_read = re.findall(r"^(\w) (\d+):(\d+) - (\w) (\d+):(\d+)$", text, re.M)
    trains = sorted((60 * int(h) + int(m), 60 * int(k) + int(n), a, b) for a, h, m, b, k, n in trains_read)
    change = int(re.findall(r"Changing trains takes (\d+)", text)[0])
    home, goal = re.findall(r"You are at (\w) at .*arrive at (\w)\?", text)[0]
    ready, lines = {home: 420}, []
    for leave, arrive, start, end in trains:
        if ready.get(start, 10_000) <= leave and arrive + change < ready.get(end, 10_000):
            ready[end] = arrive + change
            lines.append(
                f"{start} {hour(leave)} - {end} {hour(arrive)}: the next train from {end} may leave at "
                f"{hour(arrive + change)}."
            )
    return "\n".join([*lines, f"The first arrival at {goal}: {hour(ready[goal] - change)}."])


def hour(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def date_arithmetic(text: str, later: Callable[[date, int], date]) -> str:
    """Years, months and days on, with the days that they take; or weeks, and the days that are left."""
    dates = [date.fromisoformat(day) for day in re.findall(r"\d{4}-\d\d-\d\d", text)]
    start = dates[0]
    if match := re.search(r"(\d+) days (after|before) \d", text):
        return days_on(start, int(match[1]) * (1 if match[2] == "after" else -1), later)
    if len(dates) == 2:
        return days_on(start, (dates[1] - start).days, later)
    if match := re.search(r"workday number (\d+) after", text):
        weeks, rest = divmod(int(match[1]), 5)
        day = start + timedelta(7 * weeks)
        lines = [f"{match[1]} = 5*{weeks} + {rest}: {weeks} weeks after {start} is {day}, a {DAYS[day.weekday()]}."]
        for _ in range(rest):
            day += timedelta(3 if day.weekday() == 4 else 1)
            lines.append(f"The next workday is {day}, a {DAYS[day.weekday()]}.")
        return "\n".join(lines)
    pattern = r"Go (\d+) months .* then (\d+) days forward, then (\d+) weeks back"
    months, days, weeks = map(int, re.findall(pattern, text)[0])
    middle = later(start, months)
    net = days - 7 * weeks
    lines = [
        f"{months} = 12*{months // 12} + {months % 12} months after {start}: {middle}.",
        f"{days} days forward and 7*{weeks} = {7 * weeks} back: {days} - {7 * weeks} = {net}.",
    ]
    return "\n".join([*lines, days_on(middle, net, later)] if net else lines)


def days_on(start: date, count: int, later: Callable[[date, int], date]) -> str:
    """So many days on, or back if there are fewer than none: by years, months and days."""
    sign, left, day = -1 if count < 0 else 1, abs(count), start
    where, lines, parts = "on" if sign > 0 else "back", list[str](), list[int]()
    for size, unit in ((12, "year"), (1, "month")):
        many = 0
        while abs((later(day, sign * size * (many + 1)) - day).days) <= left:
            many += 1
        if many:
            new = later(day, sign * size * many)
            parts.append(abs((new - day).days))
            left -= parts[-1]
            lines.append(f"{counted(many, unit)} {where} from {day} is {new}: {counted(parts[-1], 'day')}.")
            day = new
    if left:
        new = day + timedelta(sign * left)
        lines.append(f"{counted(left, 'day')} {where} from {day} is {new}.")
        parts.append(left)
    total = " + ".join(map(str, parts))
    lines.append(f"{total} = {abs(count)} days" if len(parts) > 1 else f"{counted(abs(count), 'day')} in all")
    return "\n".join(lines)


def speeds(text: str) -> str:
    """Both units of length in inches and both of time in seconds, and the factors joined."""
    pattern = r"How many (\w+) in one (\w+) are ([\d/]+) (\w+) in one (\w+)\?"
    wanted, per, amount, speed, of = re.findall(pattern, text)[0]
    sizes = {"inches": 1}
    facts = re.findall(r"1 (\w+) = (\d+) (\w+)", text)
    while len(sizes) <= len(facts):
        for larger, many, smaller in facts:
            plural = {"foot": "feet"}.get(larger, f"{larger}s")
            if smaller in sizes and plural not in sizes:
                sizes[plural] = int(many) * sizes[smaller]
    seconds = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
    value = Fraction(amount) * Fraction(sizes[speed] * seconds[per], sizes[wanted] * seconds[of])
    lengths = f"In inches: {speed} {sizes[speed]}, {wanted} {sizes[wanted]}"
    return (
        f"{lengths}; in seconds: {of} {seconds[of]}, {per} {seconds[per]}.\n"
        f"{amount} * {sizes[speed]} / {seconds[of]} * {seconds[per]} / {sizes[wanted]} = {value}"
    )


# equations


def linear(factor: int, rest: int) -> str:
    """``2x - 3``, for ages as multiples of one of them."""
    sign = f" {'-' if rest < 0 else '+'} {abs(rest)}" if rest else ""
    return f"{times(factor, 'x')}{sign}"


AGE_FACTS = (
    r"(?P<one>\w+) is (?P<years>\d+) years? older than (?P<other>\w+)",
    r"(?P<years>\d+) years? ago (?P<one>\w+) was (?P<times>\d+) times as old as (?P<other>\w+) was then",
    r"In (?P<years>\d+) years? (?P<one>\w+) will be (?P<times>\d+) times as old as (?P<other>\w+) will be then",
    r"In (?P<years>\d+) years? (?P<one>\w+) will be (?P<times>\d+) times as old as (?P<other>\w+) is today",
)


def ages(text: str) -> str:
    """Every age as a multiple of one of them and a number; their total gives that one."""
    text = text.replace(" twice as", " 2 times as")
    ties: dict[str, tuple[str, int, int, int]] = {}  # child -> other, kind of tie, years, times
    for kind, pattern in enumerate(AGE_FACTS):
        for match in re.finditer(pattern, text):
            groups = match.groupdict()
            ties[groups["one"]] = groups["other"], kind, int(groups["years"]), int(groups.get("times", 1))
    total = int(re.findall(r"they are (\d+) years old together", text)[0])
    (first,) = {other for other, *_ in ties.values()} - ties.keys()
    by_name = {first: (1, 0)}
    lines = [f"Let x be the age of {first}."]
    while len(by_name) <= len(ties):
        child, (other, kind, years, by) = next(
            (child, tie) for child, tie in ties.items() if child not in by_name and tie[0] in by_name
        )
        p, q = by_name[other]
        inner = f"{linear(p, q)} {'-' if kind == 1 else '+'} {years}"
        p, q = (by * p, by * (q + (0, -years, years, 0)[kind]) + (years, years, -years, -years)[kind])
        by_name[child] = p, q
        part = linear(*by_name[other]) if kind == 3 else inner
        multiple = f"{by}x" if part == "x" else f"{by}({part})"
        how = inner if not kind else f"{multiple} {'+' if kind == 1 else '-'} {years}"
        lines.append(f"{child} is {how}" + (f" = {linear(p, q)}." if how != linear(p, q) else "."))
    p, q = (sum(column) for column in zip(*by_name.values(), strict=True))
    x = (total - q) // p
    lines.append(f"Together {linear(p, q)} = {total}, so {times(p, 'x')} = {total - q} and x = {x}.")
    return "\n".join([*lines, ", ".join(f"{name} is {a * x + b}" for name, (a, b) in by_name.items()) + "."])


def null_space(rows: Sequence[Sequence[int]], vector: Sequence[int]) -> str:
    """The reduced rows of a matrix, which give all numbers of the vector from its last, and a check of each row."""
    matrix = [[Fraction(entry) for entry in row] for row in rows]
    lines = []
    for column in range(len(matrix)):
        pivot = next(k for k in range(column, len(matrix)) if matrix[k][column])
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        matrix[column] = [entry / matrix[column][column] for entry in matrix[column]]
        for k, row in enumerate(matrix):
            if k != column and row[column]:
                matrix[k] = [a - row[column] * b for a, b in zip(row, matrix[column], strict=True)]
        shown = "\n".join(" ".join(map(str, row)) for row in matrix)
        lines.append(f"Rows reduced in {'column 1' if not column else f'columns 1 to {column + 1}'}:\n{shown}")
    last = len(matrix[0])
    ties = ", ".join(
        f"v{k} = {0 if not row[-1] else f'{times_text(-row[-1])}v{last}'}" for k, row in enumerate(matrix, 1)
    )
    common = lcm(*(row[-1].denominator for row in matrix))
    lines.append(f"So {ties}. With v{last} a multiple of {common} all are whole: take v{last} = {vector[-1]}.")
    for number, matrix_row in enumerate(rows, 1):
        terms = " + ".join(f"{bracketed(a)}*{bracketed(b)}" for a, b in zip(matrix_row, vector, strict=True))
        lines.append(f"Row {number}: {terms} = 0")
    return "\n".join(lines)


def times_text(factor: Fraction) -> str:
    """A factor before a name: nothing for one, a minus for -1."""
    return "" if factor == 1 else "-" if factor == -1 else f"{factor} "
