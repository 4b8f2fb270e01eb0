"""GSM8K-style answers: one number, compared exactly.

Integers, decimals, fractions (``1/2``, ``\\frac{1}{2}``, ``1\\frac{1}{2}``), thousands separators, currency, percent
and trailing units. Exactly one value: ``72 or 73``, ``72/73`` for 72, ``1,2,3`` and ``7 2`` are wrong. A computation is
not a number: ``36+36`` earns nothing, ``x = 72`` and ``8 \\times 9 = 72`` do, ``73 = 72`` does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from rlvr.envs.core.verdict import Verdict, correct, unparsable, wrong
from rlvr.envs.rewards.dressing import APPLIED, in_ascii, undressed, without_marks, without_separators
from rlvr.envs.rewards.errors import BadOption, BadReference
from rlvr.envs.rewards.expressions.arithmetic import ArithmeticSyntaxError, evaluate
from rlvr.envs.rewards.extraction import MARKERS, extract, first_sentence
from rlvr.envs.rewards.grammar.remarks import without_aside, without_lead_words
from rlvr.envs.rewards.grammar.spoken import spoken_number
from rlvr.envs.rewards.grammar.units import compound
from rlvr.envs.rewards.grammar.vocabulary import GREEK
from rlvr.envs.rewards.grammar.words import LETTER_UNITS, NOT_UNITS, SCALES, SHORT_UNITS, denies

MAX_DIGITS: Final = 300
MAX_SCIENTIFIC_EXPONENT: Final = 300
MAX_SPOKEN_CHARS: Final = 200

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
_LITERAL = re.compile(
    rf"(?P<sign>[-+]?) ?(?:(?:US|A|C)?[$€£¥₹]|(?:USD|EUR|GBP|Rs\.?) )? ?(?P<sign2>[-+]?)"
    rf"(?:(?P<whole>{_DIGITS}) )?"
    rf"(?P<top>{_DECIMAL})(?:(?:[eE]|\*10\^)(?P<exponent>[-+]?[0-9]{{1,6}}))?"
    rf"(?: ?/ ?(?P<bottom>{_DECIMAL}))?"
    rf" ?(?P<percent>%)?(?P<unit>[^0-9].*)?",
    re.DOTALL,
)
_FRAC = re.compile(r"\\frac ?(?:\{ ?([-+]?[0-9][0-9,.]*) ?\}|([0-9])) ?(?:\{ ?([-+]?[0-9][0-9,.]*) ?\}|([0-9]))")
_DELIMITER = re.compile(r"(?<!\\)\$")
_POWER_OF_TEN = re.compile(r"(?<=[0-9}]) ?[*xX·⋅] ?10\^(?:[{(] ?([-+]?[0-9]{1,6}) ?[})]|([-+]?[0-9]{1,6}))")
_WRAPPED = re.compile(
    r"\\(?:text|texttt|textsf|mathsf|mathtt|emph|textbf|textrm|textit|mathrm|mathbf|mathit|mbox|operatorname|bf|rm)"
    r"\s*\{([^{}]*)\}"
)
_INDEX = r"(?:_(?:[A-Za-z0-9]{1,3}|\{[A-Za-z0-9]{1,6}\}))?"
_NAME = re.compile(
    rf"[A-Za-z][A-Za-z _]{{0,40}}|(?:\\(?:{'|'.join(sorted(GREEK - {'emptyset', 'varnothing'}))})|[A-Za-z]){_INDEX}"
    # f'(2), a_5, P(A \mid B), g(f(3)), gcd(12, 18), \det A, |A|, \angle ABC
    rf"|{APPLIED}"
    r"|\\(?:bar|overline|hat|vec|dot) ?\{[A-Za-z]\}|\\?det(?: [A-Z])?|\|[A-Z]\||(?:m ?)?\\(?:angle"
    r"|triangle) ?[A-Z]{1,3}|\\overline ?\{[A-Z]{2}\}|\[[A-Z]{3,5}\]"
    # a + b, |a - b|, x_1 + x_2 + x_3
    rf"|\|?[A-Za-z]{_INDEX}(?: ?[-+] ?[A-Za-z]{_INDEX}){{1,4}}\|?"
)
_TIE = re.compile(r"(?<=[^~\s$=])~(?=[^~=])")  # elsewhere it means "about", or strikes through
_NOT_SIGN = re.compile(r"\\not(?![A-Za-z])|\u0338")
_UNIT = re.compile(r"[a-zA-Z]+[²³]?(?: ?\^[23]|[-/ '’.]{1,3}[a-zA-Z]+[23²³]?){0,5}\.?|° ?[CF]?|[a-zA-Z]+[²³]|[¢$€£]")
_POWER = re.compile("(?<=10)[⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹]+|⁻[¹²³]")
_RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")
_SYMBOL = r"(?:[mckµμ]?m|[mkM]?(?:g|N|J|W|V|A|Pa|Hz|mol|s|l|L)|atm|min|h|rad|[kM]?Ω|C|K|T|F|H|°C)"
_FACTOR = rf"{_SYMBOL}(?:\^?-?[123]|[²³])?"
_SYMBOLS = re.compile(rf"{_FACTOR}(?:(?: ?[*·⋅/] ?| |\.){_FACTOR}){{0,4}}")  # m·s^-1, kg m^2/s^2, J/kg K, Ω
_RAISED_TO = re.compile(r"(?<=[A-Za-z])\^\{ ?(-?[123]) ?\}")
_UNIT_PART = r"[A-Za-zΩμ][A-Za-zΩμ *·^0-9]{0,20}"
_OF_UNITS = re.compile(rf"\\frac ?\{{ ?({_UNIT_PART}?) ?\}} ?\{{ ?({_UNIT_PART}) ?\}}")
_NEGATIVE = re.compile(r"- ?\( ?((?:[0-9.]|\\frac)[^()]{0,80}?) ?\)")
_ASSIGNED = re.compile(r"&=|:=|=&")
_COLON = re.compile(r"(?!lambda\b)[A-Za-z][A-Za-z ]{1,40}: ?(?=[-+$€£.0-9\\])")
_NEARLY = re.compile(r"\\(?:approx|simeq|cong|sim)(?![A-Za-z])|[≈≃≅]")
_ESTIMATE = re.compile(r"-?[0-9]{1,12}(?:\.([0-9]{1,12}))")
_OVER = re.compile(r"\{ ?([-+]?[0-9][0-9,.]{0,60}) ?\\over ?([0-9][0-9,.]{0,60}) ?\}")
_OUT_OF = re.compile(r"([0-9]{1,9}) out of ([1-9][0-9]{0,8})")
_RATIO = re.compile(r"([0-9]{1,9}) ?: ?([1-9][0-9]{0,8})")
# 1.234,56 of Europe, 1'234 of Switzerland; 1.234 and 1,23 stay what they are in English.
_OTHER_MARKS = re.compile(
    r"(?<![\w.,'])(?:(?P<whole>[0-9]{1,3}(?:\.[0-9]{3})+),(?P<decimals>[0-9]{1,12})"
    r"|(?P<swiss>[0-9]{1,3}(?:['\u2019][0-9]{3})+)(?:\.(?P<fraction>[0-9]{1,12}))?)(?![\w.,'])"
)
_BESIDE = re.compile(r"(?P<value>[^()]{1,100}?) {1,3}\((?:=|i\.e\.,?|that is,?)? ?(?P<equal>[^()]{1,100})\)\.?")
_ABOUT = re.compile(r"^(?:~|(?:about|approximately|approx\.?|roughly|around)\s)\s*", re.IGNORECASE)
_GROUPS = (
    ("$$", "$$"),
    ("$", "$"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ("{", "}"),
    ("(", ")"),
    ("[", "]"),
    ("**", "**"),
    ("`", "`"),
)
_REPLACEMENTS = (
    ("\\left", ""), ("\\right", ""), ("\\displaystyle", ""), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"),
    ("\\cfrac", "\\frac"), ("\\nicefrac", "\\frac"), ("\\sfrac", "\\frac"), ("\\Omega", "Ω"),
    ("\\mu ", "μ"), (",\\!", ","), ("\\!", ""), ("\\$", "$"), ("\\%", "%"), ("\\quad", " "),
    ("\\;", " "), ("\\:", " "), ("\\ ", " "), ("^\\circ", "°"), ("^{\\circ}", "°"), ("\\times", "*"),
    ("\\cdot", "*"), ("\\div", "/"), ("\\textdollar", "$"), ("\\pounds", "£"), ("\\euro", "€"), ("\\degree", "°"),
)  # fmt: skip


T = TypeVar("T")


class Number(NamedTuple):
    """One number read from text: its exact value, and how it was written.

    ``percent``: as a percentage. ``divided``: as a division that is not carried out, that is as a fraction whose value
    is whole, or as one of decimals. ``spoken``: in words. ``spoken``: in words.
    """

    value: Fraction
    percent: bool = False
    unit: str = ""
    divided: bool = False
    spoken: bool = False


class NotANumber(ValueError):
    """The text is not exactly one number; the message says why."""


def grade_number(
    completion: str,
    reference: str | int | float | Fraction,
    *,
    rel_tol: float = 0.0,
    markers: Sequence[str] = MARKERS,
    simplest: bool = False,
) -> Verdict:
    """Grade an answer that is one number.

    A percentage counts as its number or as its hundredth: ``50%`` answers both 50 and 0.5. Units are not compared.

    Args:
        completion: the model's reply.
        reference: the right number; text may be a whole GSM8K answer that ends in ``#### 18``.
        rel_tol: relative tolerance; 0 (the default) compares exactly.
        markers: which answer markers count, see ``extraction``.

    Raises:
        BadReference, BadOption: the reference is not a number, or an option is malformed.
    """
    gold = read_reference(reference)
    if not 0.0 <= rel_tol < 1.0:
        raise BadOption(f"rel_tol must be in [0, 1), got {rel_tol!r}")
    extraction = extract(completion, markers)
    if extraction.answer is None:
        return unparsable(extraction.reason)
    answer = extraction.answer
    if extraction.below and _are_several(extraction.block):
        return unparsable("several numbers", answer)
    text = answer if extraction.marker in ("boxed", "tag") else first_sentence(extraction, exclaimed=True)
    try:
        number = read_dressed(without_about(text) if rel_tol else text, _read_any)
    except NotANumber as error:
        return unparsable(str(error), answer)
    if not same_number(number, gold, rel_tol):
        return wrong(answer)
    if simplest and number.spoken:
        return wrong(answer, "of the right value, but in words")
    if simplest and number.divided:
        return wrong(answer, "of the right value, but a division that is not carried out")
    return correct(answer)


def _read_any(text: str) -> Number:
    try:
        return read_number(text)
    except NotANumber:
        if (number := read_other_notation(text)) is None:
            raise
        return number


def read_other_notation(text: str) -> Number | None:
    """A number that is not written as ``read_number`` takes it; None where there is none.

    In words (``seventy-two``, ``minus two and a half dollars``, ``5 million``), as a ratio that is no whole number
    (``3:4``), or with other marks between thousands (``1.234,56`` and ``1'234``).

    Raises:
        NotANumber: what stands behind it is not a unit.
    """
    if ratio := _RATIO.fullmatch(text):
        value = Fraction(int(ratio[1]), int(ratio[2]))
        return None if value.denominator == 1 else Number(value, divided=True)
    if (other := _OTHER_MARKS.sub(_with_our_marks, text)) != text:
        return read_number(other)
    words = text.split(" ") if len(text) <= MAX_SPOKEN_CHARS else []
    for end in range(len(words), 0, -1):  # the longest number counts
        spoken = spoken_number(" ".join(words[:end]))
        if spoken is not None:
            scale, unit = _unit(" ".join(words[end:]), attached=False)
            return Number(spoken * scale, unit in ("percent", "per cent"), unit, spoken=True)
    return None


def _with_our_marks(number: re.Match[str]) -> str:
    decimals = number["decimals"] or number["fraction"]
    return re.sub(r"[.'\u2019]", "", number["whole"] or number["swiss"]) + (f".{decimals}" if decimals else "")


def _are_several(block: str) -> bool:
    """Whether lines below a marker are all numbers."""
    try:
        return len([read_dressed(line, read_number) for line in block.split("\n") if line.strip()]) > 1
    except NotANumber:
        return False


def read_dressed(text: str, read: Callable[[str], T]) -> T:
    """What ``read`` makes of a text, or of the text without what stands around the whole of it.

    Raises:
        NotANumber: ``read`` takes neither.
    """
    try:
        return read(text)
    except NotANumber:
        for bare in dict.fromkeys(_bare_forms(text)):
            if bare != text:
                with suppress(NotANumber):
                    return read(bare)
        raise


def _bare_forms(text: str) -> Iterator[str]:
    text = text.rstrip().rstrip(",;:")
    yield undressed(text)
    yield undressed(without_marks(text))
    yield undressed(without_marks(without_aside(text)))
    behind_words = without_lead_words(undressed(text))
    yield undressed(without_marks(behind_words))
    yield undressed(without_marks(without_aside(behind_words)))
    if (beside := _BESIDE.fullmatch(text)) and "(" in text:
        with suppress(NotANumber):
            value = _read_any(undressed(without_marks(beside["value"])))
            if same_number(value, _read_any(undressed(beside["equal"]))):
                yield undressed(without_marks(beside["value"]))


def without_about(text: str) -> str:
    """Without "about" or its sign, for questions whose answer is rounded: ``d \\approx 51900 m`` as ``d = 51900 m``."""
    if _NOT_SIGN.search(text):
        return text
    text = _NEARLY.sub(" = ", text).strip()
    return _ABOUT.sub("", text).removeprefix("=").strip()


def same_number(answer: Number, gold: Number, rel_tol: float = 0.0) -> bool:
    """Whether two readings agree: exactly, or within a relative tolerance."""
    if answer.percent == gold.percent:
        pairs = [(answer.value, gold.value)]
    elif answer.percent:
        pairs = [(answer.value, gold.value), (answer.value / 100, gold.value)]
    else:
        pairs = [(answer.value, gold.value), (answer.value, gold.value / 100)]
    if any(left == right for left, right in pairs):
        return True
    tolerance = Fraction(rel_tol)
    return bool(rel_tol) and any(abs(left - right) <= tolerance * abs(right) for left, right in pairs)


@lru_cache(maxsize=4096, typed=True)
def read_reference(reference: str | int | float | Fraction) -> Number:
    """The reference as a number.

    Raises:
        BadReference: it is not exactly one finite number.
    """
    if isinstance(reference, bool) or not isinstance(reference, (str, int, float, Fraction, Decimal)):
        raise BadReference(f"a number reference is text or a number, got {reference!r}"[:200])
    if isinstance(reference, (int, Fraction)):
        return Number(Fraction(reference))
    text = str(reference).rpartition("####")[2].strip()
    try:
        return read_number(text)
    except NotANumber as error:
        raise BadReference(f"the reference {text[:80]!r} is not a number: {error}") from error


def read_number(text: str) -> Number:
    """Read text that must be exactly one number.

    Raises:
        NotANumber: it is none, several, a computation, or over a cap.
    """
    if _INTEGER.fullmatch(text):
        return Number(Fraction(int(text)))
    if "\\over" in text:
        text = _OVER.sub(r"\\frac{\1}{\2}", text if "{" in text else f"{{{text}}}")
    cleaned = clean(text)
    if _NEARLY.search(cleaned):
        cleaned = _without_estimate(cleaned)
    if "=" in cleaned:
        return _after_equals(_ASSIGNED.sub("=", cleaned))
    if (label := _COLON.match(cleaned)) and not denies(label[0]):
        return _literal(cleaned[label.end() :])
    if negative := _NEGATIVE.fullmatch(cleaned):
        return _literal("-" + negative[1])
    if out_of := _OUT_OF.fullmatch(cleaned):
        return _literal(f"{out_of[1]}/{out_of[2]}")
    if " " in cleaned and "s" in cleaned:
        cleaned = compound(cleaned)
    return _literal(cleaned)


def _without_estimate(text: str) -> str:
    """``95/137 \\approx 0.69`` as ``95/137``, where the estimate is the value rounded; else unchanged.

    Of two decimals none is taken: the second may be another try.
    """
    value, _, estimate = _NEARLY.sub("≈", text).replace("(≈", "≈").partition("≈")
    estimate = estimate.strip().removesuffix(")").rstrip() if "(" in text else estimate.strip()
    value = value.strip()
    rounded = _ESTIMATE.fullmatch(estimate)
    if rounded is None or not ("/" in value or "\\frac" in value):
        return text
    try:
        exact = (_after_equals if "=" in value else _literal)(value)
    except NotANumber:
        return text
    half = Fraction(1, 2 * 10 ** len(rounded[1] or ""))
    return value if not exact.percent and abs(exact.value - Fraction(estimate)) <= half else text


def clean(text: str) -> str:
    """Without LaTeX dressing, math delimiters, enclosing brackets and a final full stop; blanks single."""
    if not text.isascii():
        text = _POWER.sub(lambda power: "^" + power[0].translate(_RAISED), in_ascii(text))
        text = text.replace("×", "*").replace("÷", "/")
    elif "\\" in text or "~" in text:
        text = without_separators(text)
    if text.count("$") - text.count("\\$") > 1:
        text = _DELIMITER.sub(" ", text)
    if "^{" in text:
        text = _RAISED_TO.sub(r"^\1", text)
    if "\\" in text:
        for command, replacement in _REPLACEMENTS:
            if command in text:
                text = text.replace(command, replacement)
        if "{" in text:
            text = _OF_UNITS.sub(r" \1/\2", _WRAPPED.sub(r" \1 ", text))
        text = re.sub(r"(?<=[0-9])\\,(?=[0-9]{3}(?![0-9]))", ",", text).replace("\\,", " ")
        text = text.replace("^{2}", "^2").replace("^{3}", "^3").replace(" ^", "^")
    text = _TIE.sub(" ", text.replace("{,}", ","))
    text = " ".join(text.split())
    if "10^" in text:
        text = _POWER_OF_TEN.sub(r"*10^\1\2", text)
    for _ in range(4):
        before = text
        for opening, closing in _GROUPS:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                text = text[len(opening) : -len(closing)].strip()
        if text.endswith("."):
            text = text[:-1].rstrip()
        if text == before:
            break
    return text


def _after_equals(text: str) -> Number:
    """``x = 72``: a name, or a computation with that value, on the left of each equals sign."""
    *lefts, right = (part.strip() for part in text.split("="))
    if len(lefts) == 1 and _NAME.fullmatch(right):
        lefts, right = [right], lefts[0]
    number = _literal(right)
    if len(lefts) > 3:
        raise NotANumber("too many equals signs")
    for left in lefts:
        if _NAME.fullmatch(left) and not denies(left):
            continue
        try:
            value = evaluate(left.replace("$", ""))
        except ArithmeticSyntaxError:
            raise NotANumber("the left-hand side of the equation is neither a name nor a computation") from None
        if value != number.value and not (number.percent and value * 100 == number.value):
            raise NotANumber("the two sides of the equation are not equal")
    return number


def _literal(text: str) -> Number:
    if "\\frac" in text:
        text = " ".join(_FRAC.sub(lambda m: f" {m[1] or m[2]}/{m[3] or m[4]}", text).split())
        text = re.sub(r"^([-+]) (?=[0-9])", r"\1", text)
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise NotANumber("not exactly one number")
    if match["sign"] and match["sign2"]:
        raise NotANumber("two signs")
    top, bottom = _decimal(match["top"]), _decimal(match["bottom"] or "1")
    if not bottom:
        raise NotANumber("division by zero")
    value = top / bottom * _scientific(match["exponent"])
    literals = match["top"] + (match["bottom"] or "")
    divided = match["bottom"] is not None and (value.denominator == 1 or "." in literals)
    if match["whole"] is not None:
        if match["bottom"] is None or value >= 1 or match["exponent"]:
            raise NotANumber("several numbers")
        value += _decimal(match["whole"])
    if "-" in (match["sign"], match["sign2"]):
        value = -value
    attached = match["unit"] is not None and " " not in text[match.start("unit") - 1 : match.start("unit") + 1]
    scale, unit = _unit(match["unit"] or "", attached)
    return Number(value * scale, match["percent"] is not None or unit in ("percent", "per cent"), unit, divided)


def _decimal(digits: str) -> Fraction:
    if len(digits) > MAX_DIGITS:
        raise NotANumber(f"a number over the cap of {MAX_DIGITS} digits")
    return Fraction(digits.replace(",", ""))


def _scientific(exponent: str | None) -> Fraction:
    if exponent is None:
        return Fraction(1)
    size = int(exponent)
    if abs(size) > MAX_SCIENTIFIC_EXPONENT:
        raise NotANumber(f"an exponent over the cap of {MAX_SCIENTIFIC_EXPONENT}")
    return Fraction(10) ** size


def _unit(text: str, attached: bool) -> tuple[int, str]:
    """The scale word and the unit behind a number; raises NotANumber for anything that is not a unit."""
    unit = text.strip()
    if not unit:
        return 1, ""
    symbols = unit.replace("{", "").replace("}", "").replace("(", "").replace(")", "")
    if not attached and len(unit) <= 80 and (len(unit) > 1 or unit == "Ω") and _SYMBOLS.fullmatch(symbols):
        return 1, unit.lower()
    if len(unit) > 80 or not _UNIT.fullmatch(unit):
        raise NotANumber("more than one number and its unit")
    words = [word for word in re.split(r"[-/ '’^.]", unit.lower()) if word]
    scale = 1
    if words[0] in SCALES:
        scale = SCALES[words[0]]
        words = words[1:]
    if any(word in NOT_UNITS or word in SCALES for word in words):
        raise NotANumber(f"{unit[:40]!r} is not a unit")
    if len(words) > 1 and words[0] in ("of", "in", "a", "an") and not attached:
        words = words[1:]
    if words and words[0].isalpha() and words[0] not in SHORT_UNITS and len(words[0]) < (4 if attached else 3):
        raise NotANumber(f"{unit[:40]!r} is not a unit")
    if scale == 1 and words and len(words[0]) == 1 and unit[0].isalpha() and unit[0] not in LETTER_UNITS:
        raise NotANumber(f"{unit[:40]!r} is not a unit")  # 72M is 72 million to many, 72n a monomial
    return scale, unit.lower()
