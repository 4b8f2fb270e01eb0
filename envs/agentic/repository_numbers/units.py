"""Lengths, weights and times in several units, as whole numbers of the smallest."""

from rlvr.envs.agentic.repository_numbers.rounding import half_up

LENGTH_UNITS = {"mm": 1, "cm": 10, "m": 1000, "km": 1000000}
WEIGHT_UNITS = {"g": 1, "kg": 1000, "t": 1000000}
TIME_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def unit_table(unit: str) -> dict[str, int]:
    """The units of the same kind, with their sizes; ValueError if there is no such unit."""
    for table in (LENGTH_UNITS, WEIGHT_UNITS, TIME_UNITS):
        if unit in table:
            return table
    raise ValueError(f"no such unit: {unit}")


def parse_quantity(text: str) -> tuple[int, str]:
    """Number and unit of a text such as "12 km" or "3kg"; ValueError if it is none."""
    plain = text.strip()
    digits = 0
    while digits < len(plain) and plain[digits].isdigit():
        digits += 1
    if digits == 0:
        raise ValueError(f"no number: {text}")
    unit = plain[digits:].strip()
    unit_table(unit)
    return int(plain[:digits]), unit


def convert(number: int, unit: str, other: str) -> int:
    """The number in another unit of the same kind, rounded to the nearest; ValueError if the kinds differ."""
    table = unit_table(unit)
    if other not in table:
        raise ValueError(f"{unit} cannot be told in {other}")
    return half_up(number * table[unit], table[other])


def add_quantities(texts: list[str], unit: str) -> int:
    """The sum of quantities in a unit; it is rounded once, at the end."""
    smallest, table = 0, unit_table(unit)
    for text in texts:
        number, own = parse_quantity(text)
        if own not in table:
            raise ValueError(f"{own} cannot be told in {unit}")
        smallest += number * table[own]
    return half_up(smallest, table[unit])


def largest_unit(number: int, unit: str) -> str:
    """The quantity in the largest unit in which it is a whole number: "2 km" for 2000 m."""
    table = unit_table(unit)
    smallest = number * table[unit]
    best = unit
    for name, size in table.items():
        if smallest % size == 0 and size > table[best]:
            best = name
    return f"{smallest // table[best]} {best}"


def clock_text(seconds: int) -> str:
    """Seconds as "1:02:03", or "2:03" below an hour."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours > 0 else f"{minutes}:{rest:02d}"


MODULE = ("units", "quantities", "measures")
ALIASES = {
    "parse_quantity": ("read_quantity",),
    "convert": ("in_unit",),
    "add_quantities": ("sum_of_quantities",),
    "clock_text": ("as_clock",),
}
SCENARIOS = (
    "parse_quantity('<1..99><| ><mm|km|kg|h|min>')",
    "parse_quantity('<|x|-1|5 yd|7>')",
    "[convert(number, '<m|cm>', '<cm|m|km>') for number in <4*1..9000>]",
    "[convert(number, 'min', '<s|h>') for number in <4*1..400>]",
    "convert(<1..9>, '<kg|m>', '<g|cm>')",
    "[add_quantities(['<1..9> km', '<100..900>m', '<1..99> cm'], unit) for unit in ('m', 'km')]",
    "add_quantities(['<1..9> kg', '<100..900> <g|g|m>'], 'kg')",
    "[largest_unit(number, '<m|mm|cm>') for number in (<1..9>000, <1..99>0, <1..9>000000)]",
    "[largest_unit(number, 's') for number in (<1..5>0, 3600, <2..9>0, 86400)]",
    "[clock_text(seconds) for seconds in (<1..59>, <60..3599>, 3600, <3601..9999>)]",
)
