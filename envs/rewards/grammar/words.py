"""Words that may, and words that may not, stand behind a number: units, and what would change its value."""

from __future__ import annotations

import re
from typing import Final

SCALES: Final = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}

_SHORT = """
m g s h l v w j n c f km cm mm nm kg mg lb oz ft in yd mi ml cl dl kl hr gb mb kb tb hz kw kj pa ac ha am pm sq cu
mph kph kmh kmph mpg lbs yds hrs min sec day kwh rpm usd eur gbp ppm cal mol bps
"""
_CHANGES = """
or and nor not no plus minus times by over to through thru than less more greater fewer under above below least most
about approximately approx around roughly nearly almost maybe perhaps possibly probably either both any all wrong
incorrect false true isn isnt but if unless except half halves third thirds fourth fourths quarter quarters fifth
fifths sixth sixths eighth eighths tenth tenths hundredth hundredths thousandth thousandths squared cubed factorial
root mod modulo base power exponent pi sqrt sin cos tan log ln exp inf infinity nan zero one two three four five six
seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty
fifty sixty seventy eighty ninety hundreds thousands millions billions dozens score another is are was equals equal
divided multiplied added subtracted versus vs
"""

_DENIES = """
or and nor not no neither never none nope nah without wrong false incorrect untrue unequal unlike unlikely invalid
impossible excluding excluded excludes exclude except but if unless either maybe perhaps possibly probably likely almost
nearly about approximately approx around roughly least most more less fewer over under above below beyond other than
hardly scarcely barely isn isnt aren arent wasn wasnt cannot cant wont doesn doesnt dont far anything something
guess unsure uncertain doubt doubtful rather instead ne neq neg lnot different differs avoid reject rejected refuted
mistaken mistake ruled discarded
"""
_OPERATES = "minus negative twice half double triple plus opposite reciprocal"

# Two letters behind a number are a unit only when they are one of these: "9xy" is a monomial.
SHORT_UNITS: Final = frozenset(_SHORT.split())
# One letter behind a number is a unit only when it is one of these, in this case.
LETTER_UNITS: Final = frozenset("mgshlLVWJNCF")
# With one of these in it, what stands before an equals sign is no name of the value behind it.
DENIALS: Final = frozenset(_DENIES.split())
# With one of these behind it, "72 ..." is not the value 72.
_NO_NAMES: Final = DENIALS | {*_OPERATES.split()}
NOT_UNITS: Final = frozenset(_CHANGES.split()) | (DENIALS - {"different", "other"})


def denies(text: str) -> bool:
    """Whether one of the words of a text is a denial, a hedge, or changes the value behind it."""
    return not _NO_NAMES.isdisjoint(re.findall("[a-z]+", text.lower()))
