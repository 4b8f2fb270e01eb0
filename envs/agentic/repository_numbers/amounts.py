"""Amounts of money as whole cents, and their text."""

from rlvr.envs.agentic.repository_numbers.rounding import half_up, shares


def parse_amount(text: str) -> int:
    """The cents of a text such as "12", "12.5", "-3.25" or "1,204.00".

    ValueError if it is no amount, or has more than two digits behind the point.
    """
    plain = text.strip().replace(",", "")
    negative = plain.startswith("-")
    whole, _, fraction = plain.removeprefix("-").partition(".")
    if not whole.isdigit() or len(fraction) > 2 or (fraction and not fraction.isdigit()):
        raise ValueError(f"not an amount: {text}")
    cents = int(whole) * 100 + int((fraction + "00")[:2])
    return -cents if negative else cents


def format_amount(cents: int) -> str:
    """The text of an amount, with a comma before each three digits: "1,204.05"."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02d}"


def percent_of(cents: int, tenths: int) -> int:
    """A percentage of an amount, given in tenths of a percent: 190 is 19 %. Half a cent is rounded away from zero."""
    return half_up(cents * tenths, 1000)


def with_discount(cents: int, tenths: int, at_most: int) -> int:
    """An amount less a percentage in tenths, where no more than at_most cents are taken off."""
    return cents - min(percent_of(cents, tenths), at_most)


def split_evenly(cents: int, people: int) -> list[int]:
    """Amounts that differ by a cent at most and add up to the whole; those at the front get more."""
    if people < 1:
        raise ValueError("there must be somebody to share with")
    return shares(cents, [1] * people)


def total_with_tax(items: list[tuple[int, int]], tenths: int) -> int:
    """The sum of (price, count) items, with a tax in tenths of a percent on the whole, not on each."""
    net = sum(price * count for price, count in items)
    return net + percent_of(net, tenths)


def best_price(cents: int, tiers: list[tuple[int, int]], count: int) -> int:
    """The price of one piece when so many are bought: tiers of (from how many, price); the cheapest that applies.

    Where no tier applies, it is cents.
    """
    prices = [price for least, price in tiers if count >= least]
    return min([cents, *prices])


MODULE = ("amounts", "money", "prices")
ALIASES = {
    "parse_amount": ("read_amount", "to_cents"),
    "format_amount": ("show_amount", "amount_text"),
    "percent_of": ("percentage",),
    "with_discount": ("discounted",),
    "split_evenly": ("equal_parts",),
}
SCENARIOS = (
    "parse_amount('<1..99>.<1..9>')",
    "parse_amount('-<1..9>.<10..99>')",
    "[parse_amount(text) for text in ('<1..9>,<100..999>.<10..99>', ' <1..9> ', '0.0<1..9>')]",
    "parse_amount('<1..9>.<100..999>')",
    "parse_amount('<|x|1.|-|.>5')",
    "[format_amount(cents) for cents in (<1..9>, -<10..99>, <100..999>, <100000..999999>, -<1000..9999>)]",
    "[percent_of(cents, <5|55|75|190>) for cents in <4*-900..900>]",
    "[with_discount(cents, <100..300>, <50..150>) for cents in <4*100..2000>]",
    "split_evenly(<100..999>, <3..7>)",
    "split_evenly(<100..999>, <-1..1>)",
    "total_with_tax([(<11..99>, <1..5>), (<11..99>, <1..5>)], <75|190|205>)",
    "[best_price(<90..99>, [(<b=3..5>, <70..80>), (10, <50..60>)], count) for count in (1, <b>, 9, 10, 11)]",
    "best_price(50, [(2, <45..60>), (4, <40..60>)], <1..6>)",
)
