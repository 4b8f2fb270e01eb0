"""What the families of this folder share: a quantity found from a law, asked for as a number with its unit.

A law is a function of the quantities that the text gives. Their ranges stand beside it, and they are drawn
independently of one another. With ``answers="choice"`` four options are shown instead: two problems under the same law
are posed, and the options are the answers to both and to the two ways of mixing up their data. Each option is the right
answer as often as any other, whatever the four are: exchanging the data of the two problems turns each option into each
other one and leaves the odds of the draw as they are. No rule that sees the options alone, or the text without its
numbers, does better than chance.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, Final, NamedTuple

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.extraction import extract, first_sentence
from rlvr.envs.rewards.graders.number import NotANumber, clean, read_dressed, read_number, without_about
from rlvr.envs.rewards.grading import grade
from rlvr.envs.tasks.questions import Question, QuestionTask

LETTERS: Final = "ABCD"
DIGITS: Final = 3
TOLERANCE: Final = Fraction(1, 100)
MODES: Final = ("number", "choice")

# unit -> its other spellings, and other units of the same kind with their size in it
SPELLINGS: Final[Mapping[str, str]] = {
    "m": "metre metres meter meters",
    "m/s": "m/sec m*s^-1 ms^-1",
    "m/s^2": "m/s2 m*s^-2 ms^-2",
    "N": "newton newtons kg*m/s^2 kgm/s^2 kg*m*s^-2 kgms^-2",
    "J": "joule joules N*m Nm W*s Ws kg*m^2/s^2 kgm^2/s^2 kg*m^2*s^-2 kgm^2s^-2",
    "kJ": "kilojoule kilojoules kN*m kNm kW*s kWs",
    "W": "watt watts J/s J*s^-1 N*m/s Nm/s V*A VA",
    "s": "sec second seconds",
    "kPa": "kilopascal kilopascals kN/m^2 kN*m^-2 J/l J/L",
    "mol": "mole moles mols",
    "g/l": "g/L kg/m^3 g*l^-1 gl^-1 g*L^-1 gL^-1 g/dm^3 g*dm^-3 gdm^-3 mg/ml mg/mL",
    "°C": "C °c ° degree degrees celsius Celsius",
    "A": "amp amps ampere amperes C/s C*s^-1 W/V",
    "V": "volt volts J/C J*C^-1 W/A",
    "mol/l": "mol/L M molar mol*l^-1 moll^-1 mol*L^-1 molL^-1 mol/dm^3 mol*dm^-3 moldm^-3",
    "ml": "mL millilitre millilitres milliliter milliliters cm^3 cc",
    "g": "gram grams",
}
MULTIPLES: Final[Mapping[str, Mapping[str, Fraction]]] = {
    "m": {"km": Fraction(1000), "cm": Fraction(1, 100), "mm": Fraction(1, 1000)},
    "N": {"kN": Fraction(1000)},
    "J": {"kJ": Fraction(1000)},
    "kJ": {"J": Fraction(1, 1000), "MJ": Fraction(1000)},
    "W": {"kW": Fraction(1000), "mW": Fraction(1, 1000)},
    "s": {"min": Fraction(60), "minutes": Fraction(60), "h": Fraction(3600), "hours": Fraction(3600)},
    "kPa": {
        "Pa": Fraction(1, 1000),
        "N/m^2": Fraction(1, 1000),
        "hPa": Fraction(1, 10),
        "MPa": Fraction(1000),
        "bar": Fraction(100),
    },
    "mol": {"mmol": Fraction(1, 1000)},
    "A": {"mA": Fraction(1, 1000)},
    "V": {"mV": Fraction(1, 1000), "kV": Fraction(1000)},
    "mol/l": {"mmol/l": Fraction(1, 1000), "mmol/L": Fraction(1, 1000)},
    "ml": {"l": Fraction(1000), "L": Fraction(1000), "litres": Fraction(1000), "liters": Fraction(1000)},
    "g": {"kg": Fraction(1000), "mg": Fraction(1, 1000)},
}
_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("meter", "metre"), "m"), **dict.fromkeys(("second", "sec"), "s"),
    **dict.fromkeys(("liter", "litre"), "l"), **dict.fromkeys(("milliliter", "millilitre"), "ml"), "gram": "g",
    "mole": "mol", "newton": "N", "joule": "J", "kilojoule": "kJ", "watt": "W", "kilopascal": "kPa",
    **dict.fromkeys(("amp", "ampere"), "A"), "volt": "V", "celsius": "C", "degree": "°", "per": "/", "squared": "^2",
}  # fmt: skip
_ASCII: Final = str.maketrans({"·": "*", "⋅": "*", "²": "^2", "³": "^3"})
_WORD = re.compile(r"(?<![A-Za-z])[A-Za-z]{3,11}(?![A-Za-z])")


class Posed(NamedTuple):
    """``text`` asks for ``value``, in ``unit``; ``working`` leads to it, line by line."""

    text: str
    value: Fraction
    unit: str
    working: tuple[str, ...]


class Law(NamedTuple):
    """A kind of problem.

    Attributes:
        pose: from the given quantities, by name, to the problem; ``kind=`` as well where there are kinds.
        given: name -> (least, most, divisor): a whole number from least to most, over the divisor.
        kinds: what the problem is about where that is no number, such as a salt; one is drawn.
    """

    pose: Callable[..., Posed]
    given: Mapping[str, tuple[int, int, int]]
    kinds: tuple[Any, ...] = ()

    def draw(self, rng: random.Random) -> dict[str, Fraction]:
        """Values for the given quantities, exact and within their ranges."""
        return {name: Fraction(rng.randint(low, high), over) for name, (low, high, over) in self.given.items()}


class Quantities(QuestionTask):
    """One law for each level, from ``laws``.

    Observation: a situation with its data in words, and the quantity that is asked for, with its unit.
    Reward: 1 for a value within 1 % of the right one, or for the right letter, else 0.

    Args:
        answers: ``number`` asks for a number within 1 % of the right one; ``choice`` for one of four options.

    Raises:
        ValueError: ``answers`` is neither.
    """

    laws: ClassVar[tuple[Law, ...]] = ()

    def __init__(self, *, answers: str = "number") -> None:
        if answers not in MODES:
            raise ValueError(f"answers must be one of {', '.join(MODES)}, got {answers!r}")
        self.answers = answers
        box = "the number, with its unit if you like," if answers == "number" else "the letter of the right option"
        self.system = f"Think step by step. Put {box} and nothing else, in \\boxed{{}}.".replace(
            "option and", "option, and"
        )

    def ask(self, rng: random.Random, level: int) -> Question:
        """Draws the quantities of the level's law until its value is not 0; asks for three significant digits."""
        law = self.laws[level - 1]
        kind = {"kind": rng.choice(law.kinds)} if law.kinds else {}
        if self.answers == "choice":
            return self._choice(rng, law, kind)
        posed = law.pose(**law.draw(rng), **kind)
        while not posed.value:
            posed = law.pose(**law.draw(rng), **kind)
        shown = significant(posed.value)
        text = f"{posed.text} Give the answer in {posed.unit}, to {DIGITS} significant digits."
        working = "\n".join([*posed.working, f"That is {shown} {posed.unit}."])
        return Question(text, (posed.value, posed.unit), working, shown.replace("*", "\\times "), posed.text)

    def _choice(self, rng: random.Random, law: Law, kind: dict[str, Any]) -> Question:
        """Two problems, and the answers to all four ways of taking some data from one and the rest from the other."""
        names = list(law.given)
        while True:
            mixed = set(rng.sample(names, rng.randrange(1, len(names)))) if len(names) > 1 else set(names)
            first, second = law.draw(rng), law.draw(rng)
            ways = [
                {name: (other if name in mixed else form)[name] for name in names}
                for form, other in ((first, first), (first, second), (second, first), (second, second))
            ]
            posed = [law.pose(**way, **kind) for way in ways]
            shown = [significant(quantity.value) for quantity in posed]
            if len(set(shown)) == len(LETTERS):
                break
        unit = posed[0].unit
        order = rng.sample(shown, len(shown))
        answer = LETTERS[order.index(shown[0])]
        text = f"Two problems of the same kind, with different data.\nThe first: {posed[0].text}\n"
        text += f"The second: {posed[3].text}\nWhich is the answer to the first, to {DIGITS} significant digits?\n"
        text += "\n".join(f"{letter}) {value} {unit}" for letter, value in zip(LETTERS, order, strict=True))
        working = "\n".join([*posed[0].working, f"That is {shown[0]} {unit}, option {answer}."])
        return Question(text, answer, working, content=f"{posed[0].text}\n{posed[3].text}")

    def judge(self, question: Question, reply: str) -> Verdict:
        """A number within 1 % of the value, in the unit, a multiple of it or without one; or the right letter."""
        if self.answers == "choice":
            return grade("choice", reply, question.answer, letters=LETTERS)
        extraction = extract(reply)
        if extraction.answer is None:
            return unparsable(extraction.reason)
        value, unit = question.answer
        try:
            text = extraction.answer if extraction.marker in ("boxed", "tag") else first_sentence(extraction)
            quantity = read_dressed(without_about(text), lambda text: read_quantity(text, unit))
        except NotANumber as error:
            return unparsable(str(error)[:200], extraction.answer)
        near = abs(quantity - value) <= TOLERANCE * abs(value)
        return correct(extraction.answer) if near else wrong(extraction.answer)

    def guess(self, state: Question, rng: random.Random) -> str | None:
        """A letter, or three digits times a power of ten from -3 to 2."""
        if self.answers == "choice":
            return rng.choice(LETTERS)
        return f"{float(Fraction(rng.randint(100, 999)) * Fraction(10) ** rng.randint(-3, 2)):g}"


def read_quantity(text: str, unit: str) -> Fraction:
    """The value, in ``unit``, of one number with or without a unit behind it.

    Raises:
        NotANumber: it is not exactly one number, or has a unit of another kind.
    """
    cleaned = clean(text.replace("\\circ", "°").replace("^{°}", "°").replace("^°", "°").replace("℃", "°C"))
    cleaned = _WORD.sub(_symbol, cleaned).translate(_ASCII)
    factors = {unit: Fraction(1), **dict.fromkeys(SPELLINGS[unit].split(), Fraction(1)), **MULTIPLES.get(unit, {})}
    compact = cleaned.replace(" ", "")
    for name in sorted(factors, key=len, reverse=True):
        if compact.endswith(name) and len(compact) > len(name) and compact[-len(name) - 1] in "0123456789.}°":
            return _bare(_without(cleaned, name)) * factors[name]
    return _bare(cleaned)


def _symbol(word: re.Match[str]) -> str:
    """``metres`` as ``m`` and ``per`` as ``/``; other words as they are."""
    lowered = word[0].lower()
    return _WORDS.get(lowered) or _WORDS.get(lowered.removesuffix("s"), word[0])


def _without(text: str, name: str) -> str:
    """The text without the letters of its last unit, blanks inside it ignored."""
    left = len(name)
    while left:
        left -= not text[-1].isspace()
        text = text[:-1]
    return text.rstrip()


def _bare(text: str) -> Fraction:
    number = read_number(text)
    if number.unit or number.percent:
        raise NotANumber(f"{number.unit or '%'!r} is not the unit that was asked for")
    if number.divided:
        raise NotANumber("a division that is not carried out")
    return number.value


def significant(value: Fraction) -> str:
    """Rounded to ``DIGITS`` significant digits, a half up; powers of ten where the number is long."""
    if not value:
        return "0"
    size, power = abs(value), 0
    while size >= 10**DIGITS:
        size, power = size / 10, power + 1
    while size < 10 ** (DIGITS - 1):
        size, power = size * 10, power - 1
    digits = (2 * size.numerator + size.denominator) // (2 * size.denominator)
    if digits == 10**DIGITS:
        digits, power = digits // 10, power + 1
    sign = "-" if value < 0 else ""
    if -6 <= power <= 2:
        whole, part = divmod(digits * 10 ** max(power, 0), 10 ** max(-power, 0))
        return f"{sign}{whole}" + (f".{part:0{-power}}" if power < 0 else "")
    return f"{sign}{digits // 100}.{digits % 100:02}*10^{power + 2}"


def shown(value: Fraction) -> str:
    """A value inside a working: exact where it is short, else to five significant digits."""
    text = f"{float(value):.10g}"
    return text if len(text) <= 6 else f"{float(value):.5g}"
