"""A lending library: who has which book, until when, and what is owed."""

from rlvr.envs.agentic.repository_numbers.dates import CalendarDay, add_days, days_between, format_day, is_workday
from rlvr.envs.agentic.repository_numbers.rounding import clamp
from rlvr.envs.agentic.repository_texts.ids import check_digit, is_valid_number


class Lending:
    """Loans of books to members; a loan lasts so many days, and a member has at most limit books."""

    def __init__(self, days: int, limit: int) -> None:
        self.days = days
        self.limit = limit
        self._loans: dict[str, tuple[str, CalendarDay, int]] = {}
        self._waiting: dict[str, list[str]] = {}

    def held_by(self, member: str) -> list[str]:
        """The books that a member has, sorted."""
        return sorted(book for book, loan in self._loans.items() if loan[0] == member)

    def lend(self, book: str, member: str, today: CalendarDay) -> str:
        """Lend a book; the day it is due. ValueError if it is out, kept for another, or the member has too many."""
        if book in self._loans:
            raise ValueError(f"{book} is lent")
        waiting = self._waiting.get(book, [])
        if waiting and waiting[0] != member:
            raise ValueError(f"{book} is kept for {waiting[0]}")
        if len(self.held_by(member)) >= self.limit:
            raise ValueError(f"{member} has too many books")
        if waiting:
            waiting.pop(0)
        due = add_days(today, self.days)
        self._loans[book] = (member, due, 0)
        return format_day(due)

    def renew(self, book: str, today: CalendarDay) -> str:
        """Lend for as long again from today, twice at most; ValueError if it is late, or somebody waits."""
        member, due, renewals = self._loans[book]
        if today > due or renewals >= 2 or self._waiting.get(book):
            raise ValueError(f"{book} cannot be renewed")
        due = add_days(today, self.days)
        self._loans[book] = (member, due, renewals + 1)
        return format_day(due)

    def reserve(self, book: str, member: str) -> int:
        """Wait for a book; the place in the line, from 1. Who waits already keeps the place."""
        waiting = self._waiting.setdefault(book, [])
        if member not in waiting:
            waiting.append(member)
        return waiting.index(member) + 1

    def bring_back(self, book: str, today: CalendarDay, holidays: list[CalendarDay]) -> int:
        """Take a book back; the fee. KeyError if it is not lent."""
        _, due, _ = self._loans.pop(book)
        return late_fee_for(due, today, holidays)

    def overdue(self, today: CalendarDay) -> list[str]:
        """The books that are late, the latest first; of one day by name."""
        late = [(loan[1], book) for book, loan in self._loans.items() if loan[1] < today]
        return [book for _, book in sorted(late)]


def late_fee_for(due: CalendarDay, today: CalendarDay, holidays: list[CalendarDay]) -> int:
    """20 cents for each workday after the due day, up to today, at most 500."""
    late = [add_days(due, count) for count in range(1, days_between(due, today) + 1)]
    return clamp(20 * sum(is_workday(day, holidays) for day in late), 0, 500)


def card_number(member: int) -> str:
    """The number of a member's card: six digits and a check digit."""
    digits = f"{member:06d}"
    return digits + str(check_digit(digits))


def member_of(card: str) -> int:
    """The member of a card; ValueError if the number is not right."""
    if len(card) != 7 or not is_valid_number(card):
        raise ValueError(f"not a card: {card}")
    return int(card[:6])


MODULE = ("loans", "lending", "circulation")
ALIASES = {"Lending": ("LoanDesk",), "late_fee_for": ("overdue_fee",), "card_number": ("number_on_card",)}
SCENARIOS = (
    "desk = Lending(<14..30>, 3)\n[desk.lend(book, 'ann', CalendarDay(2024, <1..12>, <1..28>)) for book in <2*w>]",
    "desk = Lending(14, <1..3>)\n"
    "[desk.lend(book, 'ann', CalendarDay(2024, 1, 1)) for book in <2*w>] + desk.held_by('ann')",
    "desk = Lending(14, 3)\ndesk.lend('b', 'ann', CalendarDay(2024, 1, 5))\n"
    "(desk.renew('b', CalendarDay(2024, 1, <17..20>)), desk.renew('b', CalendarDay(2024, 1, <25..31>)))",
    "desk = Lending(14, 3)\ndesk.lend('b', 'ann', CalendarDay(2024, 1, 1))\n"
    "[desk.renew('b', CalendarDay(2024, 1, 2)) for _ in range(<1..3>)]",
    "desk = Lending(14, 3)\ndesk.lend('b', 'ann', CalendarDay(2024, 1, 1))\ndesk.reserve('<a|b>', 'bob')\n"
    "desk.renew('b', CalendarDay(2024, 1, 3))",
    "desk = Lending(14, 3)\n[desk.reserve('b', name) for name in ('ann', 'bob', '<ann|bob|cyd>', 'dan')]",
    "desk = Lending(14, 3)\ndesk.reserve('b', 'ann')\ndesk.reserve('b', 'bob')\n"
    "desk.lend('b', '<ann|bob>', CalendarDay(2024, 1, <1..9>))",
    "desk = Lending(7, 3)\ndesk.lend('b', 'ann', CalendarDay(2024, 4, <15..25>))\n"
    "(desk.bring_back('b', CalendarDay(2024, 5, <2..28>), [CalendarDay(2024, 5, 1)]), desk.held_by('ann'))",
    "desk = Lending(7, 5)\nfor book, day in zip(<4*w>, <4*1..20>):\n"
    "    desk.lend(book, 'ann', CalendarDay(2024, 4, day))\n"
    "desk.overdue(CalendarDay(2024, 4, <14..24>))",
    "[late_fee_for(CalendarDay(2024, 5, <1..20>), CalendarDay(2024, 5, <15..31>), [CalendarDay(2024, 5, "
    "20)]) for _ in 'ab']",
    "[card_number(member) for member in <3*1..99999>]",
    "member_of(card_number(<1..999999>))",
    "member_of('<100000..999999><1..9>')",
)
