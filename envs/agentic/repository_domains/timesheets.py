"""Hours of work: shifts, breaks, overtime, pay."""

from rlvr.envs.agentic.repository_numbers.amounts import percent_of
from rlvr.envs.agentic.repository_numbers.figures import mean_of, streak
from rlvr.envs.agentic.repository_numbers.intervals import common, covered, merged
from rlvr.envs.agentic.repository_numbers.rounding import half_up, to_multiple


def minutes_of(text: str) -> int:
    """The minutes since midnight of "8:05"; ValueError if there is no such time."""
    hours, _, minutes = text.partition(":")
    if not (hours.isdigit() and minutes.isdigit()) or int(hours) > 24 or int(minutes) > 59:
        raise ValueError(f"not a time: {text}")
    return int(hours) * 60 + int(minutes)


def break_minutes(worked: int) -> int:
    """The break that work of so many minutes must have: 30 for more than 6 hours, 45 for more than 9."""
    if worked > 540:
        return 45
    return 30 if worked > 360 else 0


class Timesheet:
    """Shifts of (start, end) in minutes for each day of a week, from 0; wages are cents for an hour."""

    def __init__(self, wage: int, step: int) -> None:
        self.wage = wage
        self.step = step
        self._days: dict[int, list[tuple[int, int]]] = {}

    def add(self, day: int, shift: str) -> None:
        """Add a shift such as "8:00-16:30", rounded to the step; ValueError unless it ends after its start."""
        start, end = (to_multiple(minutes_of(part), self.step) for part in shift.split("-"))
        if end <= start:
            raise ValueError("a shift must end after it begins")
        self._days.setdefault(day, []).append((start, end))

    def worked(self, day: int) -> int:
        """The minutes of a day without the break that is due; breaks between shifts count as break."""
        shifts = merged(self._days.get(day, []), 0)
        if not shifts:
            return 0
        present = covered(shifts)
        rested = shifts[-1][1] - shifts[0][0] - present
        return present - max(0, break_minutes(present) - rested)

    def week(self) -> int:
        """The minutes of all days."""
        return sum(self.worked(day) for day in self._days)

    def overtime(self, hours: int) -> int:
        """The minutes beyond so many hours; 0 if there are none."""
        return max(0, self.week() - hours * 60)

    def night_minutes(self, day: int) -> int:
        """The minutes before 6:00 and from 22:00 on."""
        return sum(
            common(shift, (0, 360)) + common(shift, (1320, 1440)) for shift in merged(self._days.get(day, []), 0)
        )

    def pay(self, hours: int, tenths: int) -> int:
        """The wage of the week; minutes beyond so many hours are paid a percentage in tenths more."""
        normal = half_up(self.week() * self.wage, 60)
        extra = half_up(self.overtime(hours) * self.wage, 60)
        return normal + percent_of(extra, tenths)

    def mean_day(self) -> int:
        """The mean of the minutes of the days with work; ValueError if there are none."""
        return mean_of([self.worked(day) for day in sorted(self._days)])

    def long_days(self, minutes: int) -> int:
        """The longest run of days, one after another, with at least so many minutes each."""
        return streak([self.worked(day) for day in range(7)], minutes)


MODULE = ("timesheets", "working_hours", "shifts")
ALIASES = {"Timesheet": ("WorkWeek", "HourSheet"), "minutes_of": ("parse_clock",), "break_minutes": ("required_break",)}
SCENARIOS = (
    "[minutes_of(text) for text in ('<0..9>:<10..59>', '<10..23>:0<0..9>', '24:00')]",
    "minutes_of('<8|25|24|x>:<10|59|60>')",
    "[break_minutes(minutes) for minutes in (<300..359>, 360, 361, <400..500>, 540, 541, <560..600>)]",
    "sheet = Timesheet(1500, <5|15>)\nsheet.add(0, '<6..8>:<10..59>-<14..18>:<10..59>')\n"
    "(sheet.worked(0), sheet.worked(1))",
    "sheet = Timesheet(1500, 5)\nsheet.add(0, '8:00-12:00')\nsheet.add(0, '12:<10..45>-<16..19>:00')\nsheet.worked(0)",
    "sheet = Timesheet(1500, 15)\nsheet.add(0, '8:<10..30>-8:<10..40>')\nsheet.week()",
    "sheet = Timesheet(<1200..1999>, 5)\nfor day in range(<4..6>):\n    sheet.add(day, '7:00-<15..17>:<10..50>')\n"
    "(sheet.week(), sheet.overtime(<35..40>), sheet.pay(<35..40>, 250))",
    "sheet = Timesheet(1500, 5)\nsheet.add(2, '<3..7>:00-<9..12>:00')\nsheet.add(2, '20:00-<21..23>:30')\n"
    "(sheet.night_minutes(2), sheet.night_minutes(1))",
    "sheet = Timesheet(1500, 5)\nfor day, end in zip((0, 1, 3), <3*10..16>):\n"
    "    sheet.add(day, '8:00-' + str(end) + ':00')\n"
    "(sheet.mean_day(), sheet.long_days(<180..400>))",
    "sheet = Timesheet(1500, 5)\nsheet.add(<0..1>, '8:00-<9..12>:00')\n"
    "(sheet.worked(0), sheet.mean_day(), sheet.overtime(<1..3>))",
)
