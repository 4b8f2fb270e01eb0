"""Units of measure behind a value: which are the same kind, and by what factor they differ."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from rlvr.envs.rewards.grammar.words import NOT_UNITS, SCALES

_TABLE = """
length m 1 meter metre meters metres
length cm 1/100 centimeter centimetre centimeters centimetres
length mm 1/1000 millimeter millimetre millimeters millimetres
length km 1000 kilometer kilometre kilometers kilometres
length in 127/5000 inch inches
length ft 381/1250 foot feet
length yd 1143/1250 yard yards yds
length mi 201168/125 mile miles
mass g 1 gram grams
mass kg 1000 kilogram kilograms kgs
mass mg 1/1000 milligram milligrams
mass lb 45359237/100000 pound pounds lbs
mass oz 45359237/1600000 ounce ounces
time s 1 sec second seconds secs
time min 60 minute minutes mins
time h 3600 hour hours hr hrs
time day 86400 days
time week 604800 weeks
money usd 1 dollar dollars
money cent 1/100 cents
money eur 1 euro euros
volume l 1/1000 liter litre liters litres
volume ml 1/1000000 milliliter millilitre milliliters millilitres
angle degree 1 degrees deg
angle radian 1 radians rad
area acre 1 acres
""".strip()
# A line has words of which each excludes the others: 5 p.m. is not 5 a.m., a loss of 5 is no profit of 5.
_EXCLUSIVE = """
am pm noon midnight
bc/bce ad/ce
north/northward south/southward east/eastward west/westward northeast northwest southeast southwest
up/upward/upwards/upstream down/downward/downwards/downstream
left right
clockwise counterclockwise/anticlockwise
profit/gain/surplus loss/deficit
increase/rise decrease/drop/fall
win/wins/won lose/loses/lost draw/draws
boys girls
men women
males females
adults children
january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sep october/oct november/nov \
december/dec
monday/mon tuesday/tue wednesday/wed thursday/thu friday/fri saturday/sat sunday/sun
""".strip()

Dimension = tuple[tuple[str, int], ...]


def _load() -> dict[str, tuple[str, Fraction]]:
    table: dict[str, tuple[str, Fraction]] = {}
    for line in _TABLE.splitlines():
        dimension, name, factor, *synonyms = line.split()
        if dimension in ("angle", "area") or name == "eur":
            dimension = name
        for word in (name, *synonyms):
            table[word] = (dimension, Fraction(factor))
    return table


UNITS: Final = _load()
_MEANINGS: Final = {
    name: (line, meaning)
    for line, words in enumerate(_EXCLUSIVE.splitlines())
    for meaning, names in enumerate(words.split())
    for name in names.split("/")
}
_PHRASE = re.compile(r"[a-z]+(?:[ /^·.'’-]+[a-z0-9]+)*", re.IGNORECASE)
SPEEDS: Final = {"kph": "km/h", "kmph": "km/h", "kmh": "km/h", "mph": "mile/h", "mps": "m/s", "fps": "ft/s"}
_FACTOR = re.compile(r"(?P<unit>[A-Za-z]+)(?:\^(?P<sign>-?)(?P<power>[123]))?")
_DIRECTION = re.compile(
    r" (?:long|wide|high|tall|deep|thick|away|apart|each|together|altogether|in total|upward|downward)s?$"
)
_COMPOUND = re.compile(
    r"(?P<number>[0-9]{1,9}) ?(?P<unit>[A-Za-z]{1,10}),?(?: and)? (?P<number2>[0-9]{1,4}"
    r"(?:\.[0-9]{1,4})?) ?(?P<unit2>[A-Za-z]{1,10})"
)
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def is_unit_phrase(phrase: str) -> bool:
    """Whether words behind a value can be its unit: none of them changes what the value says."""
    words = re.findall(r"[a-z]+", phrase.lower())
    if not words or words[0] in ("squared", "cubed") or len(words) > 6 or not _PHRASE.fullmatch(phrase):
        return False
    return not any((word in NOT_UNITS and word not in ("squared", "cubed")) or word in SCALES for word in words)


def slashed(factors: str) -> str:
    """``km h^-1`` as ``km/h``; empty where these are no units with powers of which one is negative."""
    above: list[str] = []
    below: list[str] = []
    for factor in factors.split():
        match = _FACTOR.fullmatch(factor)
        if match is None or (match["unit"] not in UNITS and match["unit"] != "ms"):
            return ""
        if match["unit"] == "ms" and match["sign"]:
            above.append("m")
        power = match["power"] if match["power"] in ("2", "3") else ""
        (below if match["sign"] else above).append(
            match["unit"].removeprefix("m" if match["unit"] == "ms" else "") + (f"^{power}" if power else "")
        )
    return f"{' '.join(above)}/{'/'.join(below)}" if above and below else ""


def compound(text: str) -> str:
    """``18 dollars and 50 cents`` as ``37/2 dollars``; unchanged where the units are not larger and smaller ones."""
    match = _COMPOUND.fullmatch(text)
    if match is None:
        return text
    larger, smaller = (UNITS.get(match[unit].lower()) for unit in ("unit", "unit2"))
    if not larger or not smaller or larger[0] != smaller[0] or larger[1] <= smaller[1]:
        return text
    ratio = larger[1] / smaller[1]
    if ratio.denominator != 1 or Fraction(match["number2"]) >= ratio:
        return text
    total = Fraction(match["number"]) + Fraction(match["number2"]) / ratio
    return f"{total} {match['unit']}"


def exclude(phrase: str, other: str) -> bool:
    """Whether what stands behind two values says that they are not the same thing: ``p.m.`` and ``a.m.``."""
    meanings, others = (
        dict(_MEANINGS[word] for word in re.findall("[a-z]+", text.lower().replace(".", "")) if word in _MEANINGS)
        for text in (phrase, other)
    )
    return any(others.get(line, meaning) != meaning for line, meaning in meanings.items())


def measure(phrase: str) -> tuple[Dimension, Fraction] | None:
    """The dimension of a unit phrase and its size in base units; None for a noun that measures nothing."""
    dimension: dict[str, int] = {}
    factor, sign, pending = Fraction(1), 1, 1
    phrase = phrase.lower().partition(" of ")[0]
    phrase = _DIRECTION.sub("", phrase).replace("^", " ")
    words = re.findall(r"[a-z]+|[0-9]+|/", SPEEDS.get(phrase, phrase))
    last: tuple[str, Fraction] | None = None
    for word in words:
        if word == "celsius" and last == UNITS["degree"]:
            continue
        if word in ("/", "per"):
            sign = -1
        elif word in _POWERS:
            pending = _POWERS[word]
        elif word in ("squared", "cubed", "2", "3") and last is not None:
            extra = (2 if word in ("squared", "2") else 3) - 1
            dimension[last[0]] = dimension.get(last[0], 0) + sign * extra
            factor *= last[1] ** (sign * extra)
        elif word in UNITS:
            last = UNITS[word]
            dimension[last[0]] = dimension.get(last[0], 0) + sign * pending
            factor *= last[1] ** (sign * pending)
            pending = 1
        else:
            return None
    if volume := dimension.pop("volume", 0):
        dimension["length"] = dimension.get("length", 0) + 3 * volume
    return tuple(sorted((name, power) for name, power in dimension.items() if power)), factor
