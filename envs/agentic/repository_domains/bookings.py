"""Rooms that are booked by the night."""

from rlvr.envs.agentic.repository_numbers.dates import CalendarDay, add_days, day_number, days_between, weekday
from rlvr.envs.agentic.repository_numbers.intervals import first_gap, merged, most_at_once, overlaps, without
from rlvr.envs.agentic.repository_numbers.rounding import half_up


class Hotel:
    """Rooms with a price for a night in cents; a stay goes from its first day to the day of departure."""

    def __init__(self, prices: dict[str, int]) -> None:
        self.prices = dict(prices)
        self._stays: dict[str, list[tuple[int, int]]] = {room: [] for room in prices}

    def is_free(self, room: str, first: CalendarDay, last: CalendarDay) -> bool:
        """Whether nobody sleeps there in any night of a stay; a departure and an arrival may share a day."""
        stay = (day_number(first), day_number(last))
        return not any(overlaps(stay, other) for other in self._stays[room])

    def book(self, room: str, first: CalendarDay, last: CalendarDay) -> int:
        """Book a stay; its price. ValueError if it has no night, or the room is taken."""
        if days_between(first, last) < 1:
            raise ValueError("a stay has at least one night")
        if not self.is_free(room, first, last):
            raise ValueError(f"{room} is taken")
        self._stays[room].append((day_number(first), day_number(last)))
        return self.price(room, first, last)

    def cancel(self, room: str, first: CalendarDay) -> bool:
        """Take back the stay that begins on a day; whether there was one."""
        kept = [stay for stay in self._stays[room] if stay[0] != day_number(first)]
        removed = len(kept) < len(self._stays[room])
        self._stays[room] = kept
        return removed

    def price(self, room: str, first: CalendarDay, last: CalendarDay) -> int:
        """The price of a stay. Nights to Saturday and Sunday cost a quarter more; 10 % less in all from 7 nights on."""
        total, nights = 0, days_between(first, last)
        for night in range(nights):
            late = weekday(add_days(first, night)) in ("Friday", "Saturday")
            total += half_up(self.prices[room] * 5, 4) if late else self.prices[room]
        return half_up(total * 9, 10) if nights >= 7 else total

    def free_rooms(self, first: CalendarDay, last: CalendarDay) -> list[str]:
        """The rooms that are free for a stay, the cheapest first, those of one price by name."""
        free = [room for room in self.prices if self.is_free(room, first, last)]
        return sorted(free, key=lambda room: (self.prices[room], room))

    def next_free(self, room: str, first: CalendarDay, nights: int) -> int | None:
        """In how many days from first on a stay of so many nights may begin; None if not within 60 days."""
        start = day_number(first)
        gap = first_gap(self._stays[room], (start, start + 60), nights)
        return None if gap is None else gap[0] - start

    def busiest(self) -> int:
        """How many rooms are taken at most in one night."""
        return most_at_once([stay for stays in self._stays.values() for stay in stays])

    def idle_nights(self, room: str, first: CalendarDay, last: CalendarDay) -> int:
        """How many nights of a span nobody sleeps there."""
        span = (day_number(first), day_number(last))
        return sum(end - start for start, end in without(span, merged(self._stays[room], 0)))


MODULE = ("bookings", "reservations", "hotel")
ALIASES = {"Hotel": ("GuestHouse", "Inn")}
SCENARIOS = (
    "hotel = Hotel({'a': <n=50..90>00, 'b': 7000})\n"
    "hotel.book('a', CalendarDay(2024, 5, <1..9>), CalendarDay(2024, 5, <10..20>))",
    "hotel = Hotel({'a': <5001..9001>})\n"
    "[hotel.price('a', CalendarDay(2024, 5, day), CalendarDay(2024, 5, day + <1..8>)) for day in <3*1..20>]",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 5, 10), CalendarDay(2024, 5, <11..14>))\n"
    "[hotel.is_free('a', CalendarDay(2024, 5, day), CalendarDay(2024, 5, day + <1..3>)) for day in range(5, 17)]",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 5, 10), CalendarDay(2024, 5, <9..12>))",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 5, 10), CalendarDay(2024, 5, 13))\n"
    "hotel.book('a', CalendarDay(2024, 5, <8..14>), CalendarDay(2024, 5, 15))",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 5, 10), CalendarDay(2024, 5, 13))\n"
    "(hotel.cancel('a', CalendarDay(2024, 5, <9..11>)), hotel.busiest())",
    "hotel = Hotel({'d': <8..9>, 'a': 9, 'b': <8..10>, 'c': 7})\n"
    "hotel.book('<a|b|c>', CalendarDay(2024, 5, 1), CalendarDay(2024, 5, <3..9>))\n"
    "hotel.free_rooms(CalendarDay(2024, 5, <2..6>), CalendarDay(2024, 5, 7))",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 2, 10), CalendarDay(2024, 2, <12..16>))\n"
    "hotel.book('a', CalendarDay(2024, 2, <18..20>), CalendarDay(2024, 3, <1..9>))\n"
    "hotel.next_free('a', CalendarDay(2024, 2, <9..11>), <1..5>)",
    "hotel = Hotel({'a': 10})\nhotel.book('a', CalendarDay(2024, 2, <8..12>), CalendarDay(2024, 2, <16..26>))\n"
    "(hotel.idle_nights('a', CalendarDay(2024, 2, <9..11>), CalendarDay(2024, 3, 1)), hotel.next_free('a', "
    "CalendarDay(2024, 2, 1), <45..50>))",
)
