"""Dates as people write them, as ``YYYY-MM-DD``: ``May 7, 2042``, ``7th of May 2042``, ``2042/5/7 (Wednesday)``.

Day and month in digits are read only behind the year: which of ``5/7/2042`` is the day, nobody can say. A weekday
beside a date must be its own, else the text stays as it is, and no reader takes it.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?"
_DAY: Final = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>[0-9]{4})"
_SHAPES: Final = (
    rf"{_YEAR}(?P<sep>[-/.])(?P<month>[01]?[0-9])(?P=sep){_DAY}",
    rf"{_YEAR}[-/ ]{{1,2}}{_MONTH}[-/ ]{{1,2}}{_DAY}",
    rf"{_MONTH}[ -]{{1,2}}{_DAY},?[ -]{{1,2}}{_YEAR}",
    rf"(?:the )?{_DAY}(?: of)?[ -]{{1,2}}{_MONTH},?[ -]{{1,2}}{_YEAR}",
)
_DATES: Final = tuple(
    re.compile(
        rf"(?<![\w/.-])(?:(?:on )?(?P<before>{_WEEKDAY}),?(?: the)? )?{shape}"
        rf"(?:,? \(?(?P<after>{_WEEKDAY})\)?)?(?![\w/-])",
        re.IGNORECASE,
    )
    for shape in _SHAPES
)
ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def in_iso(text: str) -> str:
    """A text with its dates as ``YYYY-MM-DD``; what is no date, or has another date's weekday, stays."""
    for shape in _DATES:
        text = shape.sub(_iso, text)
    return text


def _iso(match: re.Match[str]) -> str:
    month = match["month"].lower()
    try:
        written = date(
            int(match["year"]), int(month) if month.isdecimal() else _MONTHS.index(month[:3]) + 1, int(match["day"])
        )
    except ValueError:
        return match[0]
    weekdays = {day.lower()[:3] for day in match.group("before", "after") if day}
    return str(written) if weekdays <= {_DAYS[written.weekday()]} else match[0]
