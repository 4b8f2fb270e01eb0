"""Accounts with double entry: what one account gets, others give."""

from rlvr.envs.agentic.repository_numbers.amounts import format_amount, parse_amount
from rlvr.envs.agentic.repository_numbers.dates import CalendarDay, parse_day


class AccountLedger:
    """Entries in the order in which they were posted; amounts are cents, and each entry adds up to 0."""

    def __init__(self) -> None:
        self._entries: list[tuple[CalendarDay, str, dict[str, int]]] = []
        self._closed: CalendarDay | None = None

    def post(self, day: CalendarDay, text: str, lines: dict[str, int]) -> int:
        """Add an entry; its number, from 1.

        ValueError if the lines do not add up to 0, or the day is not after the last one that is closed.
        """
        if sum(lines.values()) != 0:
            raise ValueError("the lines of an entry must add up to 0")
        if self._closed is not None and day <= self._closed:
            raise ValueError("the day is closed")
        self._entries.append((day, text, dict(lines)))
        return len(self._entries)

    def transfer(self, text: str, giver: str, taker: str) -> int:
        """Post "2024-03-09 12.50 rent": so much from one account to another on that day."""
        day, amount, words = text.split(" ", 2)
        cents = parse_amount(amount)
        return self.post(parse_day(day), words, {giver: -cents, taker: cents})

    def reverse(self, number: int, day: CalendarDay) -> int:
        """Post the opposite of an entry, as "reversal of rent"; KeyError if there is no such entry."""
        if not 1 <= number <= len(self._entries):
            raise KeyError(number)
        _, text, lines = self._entries[number - 1]
        return self.post(day, f"reversal of {text}", {account: -cents for account, cents in lines.items()})

    def close_until(self, day: CalendarDay) -> None:
        """Close all days up to this one; a day that is closed stays so."""
        if self._closed is None or day > self._closed:
            self._closed = day

    def balance(self, account: str, until: CalendarDay | None) -> int:
        """What an account holds after a day, or after all entries."""
        total = 0
        for day, _, lines in self._entries:
            if until is None or day <= until:
                total += lines.get(account, 0)
        return total

    def balances(self) -> dict[str, int]:
        """All accounts that do not stand at 0, by name."""
        names = sorted({name for _, _, lines in self._entries for name in lines})
        return {name: self.balance(name, None) for name in names if self.balance(name, None) != 0}

    def statement(self, account: str) -> list[str]:
        """The entries of an account by day, each with the balance after it: "rent 12.50 (20.00)"."""
        lines, total = [], 0
        for _, text, amounts in sorted(self._entries, key=lambda entry: entry[0]):
            if account in amounts:
                total += amounts[account]
                lines.append(f"{text} {format_amount(amounts[account])} ({format_amount(total)})")
        return lines


MODULE = ("ledger", "accounts", "books")
ALIASES = {"AccountLedger": ("AccountBook", "Journal")}
SCENARIOS = (
    "ledger = AccountLedger()\nledger.transfer('2024-01-<10..20> <1..99>.5 rent', 'bank', 'flat')\n"
    "ledger.transfer('2024-01-<10..20> <1..9> food', 'bank', '<flat|shop>')\nledger.balances()",
    "ledger = AccountLedger()\nledger.transfer('2024-02-<10..28> <1..50> <w>', 'a', 'b')\n"
    "ledger.transfer('2024-02-<10..28> <1..50>.25 <w> <w>', 'b', 'a')\nledger.statement('<a|b>')",
    "ledger = AccountLedger()\nledger.post(CalendarDay(2024, <1..3>, 5), '<w>', {'a': <n=1..900>, 'b': -<n>})\n"
    "[ledger.balance('a', CalendarDay(2024, month, <4..6>)) for month in (1, 2, 3)]",
    "ledger = AccountLedger()\nledger.post(CalendarDay(2024, 1, 5), '<w>', {'a': <3..5>, 'b': -<3..5>})",
    "ledger = AccountLedger()\nledger.close_until(CalendarDay(2024, 1, <4..6>))\n"
    "ledger.close_until(CalendarDay(2024, 1, 3))\n"
    "ledger.post(CalendarDay(2024, 1, <4..6>), '<w>', {})",
    "ledger = AccountLedger()\nledger.transfer('2024-01-05 <1..50>.<10..99> <w>', 'a', 'b')\n"
    "ledger.reverse(<0..2>, CalendarDay(2024, 1, 6))\nledger.statement('a')",
    "ledger = AccountLedger()\nledger.transfer('2024-01-05 <1001..5000>.5 <w>', 'a', 'b')\n"
    "(ledger.reverse(1, CalendarDay(2024, 1, 6)), ledger.balances(), ledger.statement('b'))",
    "lines = {'a': <n=1..9>, 'b': -<n>}\nledger = AccountLedger()\nledger.post(CalendarDay(2024, 1, 1), 'x', lines)\n"
    "lines['a'] = <20..30>\n"
    "ledger.balances()",
)
