"""Days of the calendar as (year, month, day), and the arithmetic of them."""

from typing import NamedTuple

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class CalendarDay(NamedTuple):
    """A day; days compare as they follow one another."""

    year: int
    month: int
    day: int


def is_leap(year: int) -> bool:
    """Whether the year has a 29 February: each fourth, but of the full centuries each fourth alone."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """How many days a month has; ValueError if there is no such month."""
    if not 1 <= month <= 12:
        raise ValueError(f"no such month: {month}")
    if month == 2 and is_leap(year):
        return 29
    return LENGTHS[month - 1]


def parse_day(text: str) -> CalendarDay:
    """A day from "2024-03-09"; ValueError if the calendar does not have it."""
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"not a day: {text}")
    year, month, day = (int(part) for part in parts)
    if day < 1 or day > month_length(year, month):
        raise ValueError(f"no such day: {text}")
    return CalendarDay(year, month, day)


def format_day(day: CalendarDay) -> str:
    """The text of a day, "2024-03-09"."""
    return f"{day.year:04d}-{day.month:02d}-{day.day:02d}"


def day_number(day: CalendarDay) -> int:
    """Days since 1 January of the year 1, which is number 0."""
    years = day.year - 1
    number = 365 * years + years // 4 - years // 100 + years // 400
    for month in range(1, day.month):
        number += month_length(day.year, month)
    return number + day.day - 1


def add_days(day: CalendarDay, count: int) -> CalendarDay:
    """The day so many days later, or earlier for a negative count."""
    year, month, number = day.year, day.month, day.day + count
    while number > month_length(year, month):
        number -= month_length(year, month)
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
    while number < 1:
        year, month = (year - 1, 12) if month == 1 else (year, month - 1)
        number += month_length(year, month)
    return CalendarDay(year, month, number)


def add_months(day: CalendarDay, count: int) -> CalendarDay:
    """The same day so many months later; the month's last day where it has fewer days."""
    months = day.year * 12 + day.month - 1 + count
    year, month = months // 12, months % 12 + 1
    return CalendarDay(year, month, min(day.day, month_length(year, month)))


def days_between(first: CalendarDay, last: CalendarDay) -> int:
    """How many days last is after first; negative if it is before."""
    return day_number(last) - day_number(first)


def weekday(day: CalendarDay) -> str:
    """The English name of the day of the week."""
    return WEEKDAYS[day_number(day) % 7]


def is_workday(day: CalendarDay, holidays: list[CalendarDay]) -> bool:
    """Whether it is neither Saturday nor Sunday nor one of the holidays."""
    return day_number(day) % 7 < 5 and day not in holidays


def add_workdays(day: CalendarDay, count: int, holidays: list[CalendarDay]) -> CalendarDay:
    """The count-th workday after a day; the day itself for 0."""
    while count > 0:
        day = add_days(day, 1)
        if is_workday(day, holidays):
            count -= 1
    return day


def quarter(day: CalendarDay) -> int:
    """The quarter of the year, 1 to 4."""
    return (day.month + 2) // 3


MODULE = ("dates", "days", "almanac")
ALIASES = {
    "parse_day": ("read_day", "day_from_text"),
    "format_day": ("day_text",),
    "month_length": ("days_in_month",),
    "days_between": ("day_difference",),
    "add_workdays": ("workdays_later",),
    "is_leap": ("leap_year",),
}
SCENARIOS = (
    "[is_leap(year) for year in (<1901..2099>, 2000, <1700|1800|1900|2100>, 2024)]",
    "[month_length(<2023|2024>, month) for month in (<1..12>, 2, <1..12>)]",
    "month_length(2024, <-1..2>)",
    "month_length(2024, <11..14>)",
    "list(parse_day('20<10..29>-<1..12>-<1..28>'))",
    "list(parse_day('2023-<2|4|6>-<29|30|31|0|28>'))",
    "list(parse_day('2024<-|/><3..5><-|/>7'))",
    "format_day(CalendarDay(<1..2040>, <1..12>, <1..28>))",
    "day_number(CalendarDay(<1..2100>, <1..12>, <1..28>))",
    "list(add_days(CalendarDay(<2023..2024>, <1..12>, <1..28>), <20..400>))",
    "list(add_days(CalendarDay(<2023..2025>, <1..12>, <1..28>), -<20..400>))",
    "list(add_days(CalendarDay(2024, <2|12>, <27..28>), <1..4>))",
    "list(add_months(CalendarDay(2024, <1|3|5|8>, 31), <1..30>))",
    "list(add_months(CalendarDay(2024, <1..12>, <1..28>), -<1..30>))",
    "days_between(CalendarDay(<2020..2024>, <1..12>, <1..28>), CalendarDay(<2020..2026>, <1..12>, <1..28>))",
    "weekday(CalendarDay(<1990..2040>, <1..12>, <1..28>))",
    "is_workday(CalendarDay(2024, 5, <1..31>), [CalendarDay(2024, 5, <1..31>), CalendarDay(2024, 5, 1)])",
    "list(add_workdays(CalendarDay(2024, <3..6>, <1..28>), <0..12>, [CalendarDay(2024, 5, 1), "
    "CalendarDay(2024, 4, <8..12>)]))",
    "[quarter(CalendarDay(2024, month, 1)) for month in range(1, 13)][<0..3>:<7..12>]",
)
