"""Invoices: their total, when they are due, their text, and what they post."""

from rlvr.envs.agentic.repository_domains.ledger import AccountLedger
from rlvr.envs.agentic.repository_numbers.amounts import format_amount, percent_of, total_with_tax, with_discount
from rlvr.envs.agentic.repository_numbers.dates import CalendarDay, add_days, add_workdays, days_between, format_day
from rlvr.envs.agentic.repository_texts.ids import next_number
from rlvr.envs.agentic.repository_texts.wrapping import columns, shorten


class Invoice:
    """Items of (text, price in cents, count) for a customer, with a tax in tenths of a percent."""

    def __init__(self, number: str, customer: str, day: CalendarDay, tax: int) -> None:
        self.number = number
        self.customer = customer
        self.day = day
        self.tax = tax
        self.items: list[tuple[str, int, int]] = []
        self.paid = 0

    def add(self, text: str, price: int, count: int) -> None:
        """Add an item; ValueError unless the count is greater than 0."""
        if count < 1:
            raise ValueError("the count must be greater than 0")
        self.items.append((text, price, count))

    def total(self) -> int:
        """The sum of the items with tax."""
        return total_with_tax([(price, count) for _, price, count in self.items], self.tax)

    def due(self, days: int, holidays: list[CalendarDay]) -> CalendarDay:
        """So many days later; if that is no workday, the next workday."""
        return add_workdays(add_days(self.day, days - 1), 1, holidays)

    def early_total(self, tenths: int, at_most: int) -> int:
        """The total less a discount for early payment, of no more than at_most cents."""
        return with_discount(self.total(), tenths, at_most)

    def open_amount(self) -> int:
        """What is still to be paid; never less than 0."""
        return max(0, self.total() - self.paid)

    def pay(self, cents: int) -> int:
        """Take a payment; what was paid too much by now."""
        self.paid += cents
        return max(0, self.paid - self.total())

    def late_fee(self, due: CalendarDay, today: CalendarDay, tenths: int) -> int:
        """A percentage in tenths of what is open for each full 30 days that it is late."""
        months = max(0, days_between(due, today)) // 30
        return percent_of(self.open_amount(), tenths) * months

    def lines(self, width: int) -> list[str]:
        """The text: a heading, then each item with count and sum, its name cut to the width."""
        rows = [[shorten(text, width), f"{count} x", format_amount(price * count)] for text, price, count in self.items]
        return [f"{self.number} {format_day(self.day)} {self.customer}", *columns(rows, 2)]


def post_invoice(ledger: AccountLedger, invoice: Invoice) -> int:
    """Post an invoice: the customer's account gets the total, sales gives the net, tax the rest."""
    net = sum(price * count for _, price, count in invoice.items)
    lines = {invoice.customer: invoice.total(), "sales": -net, "tax": net - invoice.total()}
    return ledger.post(invoice.day, invoice.number, lines)


def new_invoice(taken: list[str], customer: str, day: CalendarDay, tax: int) -> Invoice:
    """An invoice with the next number of the year's series, such as "2024-0003"."""
    return Invoice(next_number(taken, str(day.year)), customer, day, tax)


MODULE = ("invoices", "billing", "bills")
ALIASES = {"Invoice": ("Bill", "SalesInvoice"), "post_invoice": ("book_invoice",), "new_invoice": ("open_invoice",)}
SCENARIOS = (
    "invoice = Invoice('1', 'ann', CalendarDay(2024, 3, 5), <75|190|205>)\ninvoice.add('<w>', <101..999>, <1..6>)\n"
    "invoice.add('<w>', <11..99>, <1..6>)\n(invoice.total(), invoice.early_total(<20..50>, <10..60>))",
    "invoice = Invoice('1', 'ann', CalendarDay(2024, 3, 5), 190)\ninvoice.add('<w>', 10, <-1..2>)\ninvoice.total()",
    "list(Invoice('1', 'ann', CalendarDay(2024, <3..6>, <1..28>), 0).due(<10..30>, [CalendarDay(2024, 5, 1)]))",
    "invoice = Invoice('1', 'ann', CalendarDay(2024, 3, 5), <75|190>)\ninvoice.add('<w>', <500..999>, 2)\n"
    "(invoice.pay(<300..900>), invoice.pay(<300..900>), invoice.open_amount())",
    "invoice = Invoice('1', 'ann', CalendarDay(2024, 3, 5), 0)\ninvoice.add('<w>', <5000..9999>, 2)\n"
    "invoice.pay(<1..999>)\n"
    "[invoice.late_fee(CalendarDay(2024, 3, <10..20>), CalendarDay(2024, month, 15), 15) for month in (3, 4, 5, 8)]",
    "invoice = Invoice('<w>', 'ann', CalendarDay(2024, <1..12>, 5), 0)\n"
    "invoice.add('<w> <w> <w>', <100..9999>, <1..20>)\n"
    "invoice.add('<w>', <100..999>, <1..3>)\ninvoice.lines(<8..14>)",
    "ledger = AccountLedger()\ninvoice = Invoice('7', 'ann', CalendarDay(2024, 3, 5), <75|190>)\n"
    "invoice.add('<w>', <101..999>, <1..6>)\n"
    "(post_invoice(ledger, invoice), ledger.balances())",
    "new_invoice(['2024-0003', '2023-00<10..30>', '2024-00<10..30>'], 'ann', CalendarDay(<2022..2024>, 1, 1), "
    "0).number",
)
