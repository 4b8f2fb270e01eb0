"""Tokens of mathematical text, LaTeX or plain. Only what is known is let through: any other character is an error.

Fullwidth and other look-alike digits and letters are not mapped to ASCII: an answer written in them is refused. What
is mapped are the signs people do type: the minus sign, × ÷ · √ π ∞ ≤ ≥ ≠ ± ∪ °, superscript digits, ½ and Greek.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rlvr.envs.rewards.dressing import SMALL_FRACTION, parts_of
from rlvr.envs.rewards.grammar.units import UNITS
from rlvr.envs.rewards.grammar.vocabulary import NAMED_FUNCTIONS, OTHER_NAMES

MAX_TOKENS: Final = 400
MAX_DIGITS: Final = 1_000


class MathSyntaxError(ValueError):
    """The text is not mathematics of the kinds that are read."""


class MathLimitError(MathSyntaxError):
    """The text asks for more than a cap allows; the message names the cap."""


class Token(NamedTuple):
    """One token: its kind (num, word, cmd, text, name, begin, end, char), its text, whether a blank is before it."""

    kind: str
    value: str
    spaced: bool = False


_SUPERSCRIPTS = {
    "⁰": "0",
    "¹": "1",
    "²": "2",
    "³": "3",
    "⁴": "4",
    "⁵": "5",
    "⁶": "6",
    "⁷": "7",
    "⁸": "8",
    "⁹": "9",
    "⁻": "-",
}
_SIGNS = {
    "−": "-", "–": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "\\div ", "√": "\\sqrt ", "π": "\\pi ",
    "∞": "\\infty ", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "±": "\\pm ", "∓": "\\mp ",
    "∪": "\\cup ",
    "∩": "\\cap ", "∈": "\\in ", "∅": "\\emptyset ", "°": "^\\circ ", "½": "\\frac{1}{2}", "⅓": "\\frac{1}{3}",
    "⅔": "\\frac{2}{3}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ",
    "γ": "\\gamma ", "λ": "\\lambda ", "φ": "\\phi ", "ω": "\\omega ", "ℝ": "\\mathbb{R}", "€": "\\$", "£": "\\$",
    "⅕": "\\frac{1}{5}", "⅖": "\\frac{2}{5}", "⅗": "\\frac{3}{5}", "⅘": "\\frac{4}{5}", "⅙": "\\frac{1}{6}",
    "⅚": "\\frac{5}{6}", "⅛": "\\frac{1}{8}", "⅜": "\\frac{3}{8}", "⅝": "\\frac{5}{8}", "⅞": "\\frac{7}{8}",
    "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ", "⁄": "/", "∕": "/", "∨": "\\lor ",
    "\u00a0": " ", "\u202f": " ", "\u2009": " ", "′": "'", "⟨": "\\langle ", "⟩": "\\rangle ", "→": "\\to ",
    "\u2236": ":",
}  # fmt: skip
_NOT_EQUAL = re.compile(r"(?<=[A-Za-z\s])!=")  # behind a number or a bracket it is a factorial
_SMALL_FRACTION = re.compile(f"(?P<behind>[0-9]?){SMALL_FRACTION}")
_AFTER_DECIMAL = re.compile(rf"[0-9]\.[0-9]* ?{SMALL_FRACTION}")
_SUPER_RUN = re.compile("[" + "".join(_SUPERSCRIPTS) + "]+")
_DROPPED = re.compile(
    r"\\(?:left|right|middle|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])\.?|\$|\\[()\[\]]|\\\\\s*$"
    r"|\\(?:underline|angle|triangle|measuredangle)(?![A-Za-z])|\\(?:text)?color\s*\{[A-Za-z]{1,20}\}"
)
_GROUP_COMMA = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!)\s?(?=[0-9]{3}(?![0-9]))|(?<=[0-9])\\[,!](?=[0-9]{3}(?![0-9]))")
_THIN_BLANK = re.compile(r"(?<=[0-9])[\u2009\u202f](?=[0-9]{3}(?![0-9]))")
# A falling or a rising power, a multiset coefficient, and digits that go on.
_OTHER_MEANING = re.compile(r"\^\s?\{?\s?\\(?:under|over)line|\\!\s?\\[dt]?binom|\.\.\s*$")
_ROW_SKIP = re.compile(r"\\\\\s?\[-?[0-9.]{1,5}(?:pt|em|ex|mm|cm)\]")  # the height of a row of a matrix
_OVER_SIGN = re.compile(r"\\over(?![A-Za-z])")
_OVER_PIECE = re.compile(r"\\over(?![A-Za-z])|\\.|[{}]|[^\\{}]+", re.DOTALL)
_JOINED = re.compile(r"(?<=[\])]) ?U ?(?=[\[(])")  # intervals, written with a capital letter between them
_OTHER_NAMES = (
    ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\nicefrac", "\\frac"), ("\\sfrac", "\\frac"),
    ("^{\\circ}", "^\\circ"), ("\\bigcup", "\\cup"), ("\\lor", "\\text{ or }"), ("\\vee", "\\text{ or }"),
    ("\\vert", "|"),
)  # fmt: skip
_REALS_WITHOUT = re.compile(r"(\\mathbb\s?\{?R\}?)\s*(?:-|\\backslash)\s*(?=\\\{|[(\[{])")
# The condition of {x | ...} is an answer as well as the set.
_BUILDER = re.compile(
    r"\s*\\?\{\s?(?P<name>[a-z])(?:\s?\\in\s?\\(?:mathbb|mathbf)\s?\{?R\}?)?(?:\s|\\[,;: ])*(?:\\mid"
    r"(?![A-Za-z])|\\colon(?![A-Za-z])|[|:])(?:\s|\\[,;: ])*"
    r"(?P<condition>[^|{}]*(?:\{[^{}]*\}[^|{}]*){0,20}?)(?P<end>\\?\})\s*\.?"
)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?!,[0-9])")
_STRUCTURE = re.compile(r"\\\{|\\\}|[(\[\])]|\\langle|\\rangle|\\begin|\\end|[^\\(\[\])]+|.", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<space>\s+|\\[,;:!> \n]|(?<=[^~\s$=])~(?=[^~\s=])|\\q?quad(?![A-Za-z])"
    r"|\\(?:mathbf|boldsymbol|mathit|mathrm)\s*(?=\{[^{}A-Za-z]*\}|\{-?\\(?:frac|sqrt)(?![A-Za-z])))"
    r"|\\(?:text|mbox|texttt|mathtt|emph|textbf|textrm|mathrm|textit|hbox|textnormal|rm|operatorname\*?)"
    r"\s*\{(?P<text>[^{}]*)\}"
    r"|(?P<name>\\(?:mathbf|mathbb|mathcal|vec|hat|bar|boldsymbol|mathit|mathsf|overline|overrightarrow|widehat)\s*(?:\{\s*\\?[A-Za-z]{1,20}\s*\}|[A-Za-z]))"
    r"|\\begin\s*\{(?P<begin>[a-z]{1,12}\*?)\}(?:\{[lcr| ]{0,40}\})?|\\end\s*\{(?P<end>[a-z]{1,12}\*?)\}"
    r"|(?P<cmd>\\[A-Za-z]+|\\[\\{}%$#&_|])"
    r"|(?P<num>[0-9]+\.(?=\\overline)|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<word>[A-Za-z]+)|(?P<char>[-+*/^_=<>()\[\]{}|,;:.!'&%#?])"
)
# What an argument of a function begins with, and one in brackets.
_ARGUMENT = re.compile(r"(?:\s|\\[,;:! ]){0,4}(?:[A-Za-z0-9([{_^|]|\\(?!text|mbox|quad|qquad|[,;:! ]))")
_BRACKET = re.compile(r"(?:\s|\\[,;:! ]){0,4}(?:[(_]|\\(?:\{|lbrace))")
_WORDS_TOO: Final = frozenset(
    ["max", "min", "sign", "rank", "trace", "floor", "ceiling", "arg", "deg", "binom", "factorial"]
)
_UNIT_TEXT = re.compile(r" *[A-Za-z]+(?:\^[23]|[ /.·]+[A-Za-z]+)* *\.?")
_PLAIN_TEXT = re.compile(r"[A-Za-z ,.'’/-]*")


def tokenize(text: str) -> list[Token]:
    """Split an answer into tokens.

    Raises:
        MathSyntaxError: a character or a construction that is not known.
        MathLimitError: more than ``MAX_TOKENS`` tokens, or a number of more than ``MAX_DIGITS`` digits.
    """
    return _scan(_normalise(text))


def _normalise(text: str) -> str:
    if not text.isascii():
        if _AFTER_DECIMAL.search(text):
            raise MathSyntaxError("a fraction stands behind a decimal number")
        text = _SMALL_FRACTION.sub(_built_up, text)
        text = _SUPER_RUN.sub(lambda run: "^{" + "".join(_SUPERSCRIPTS[c] for c in run.group()) + "}", text)
        text = "".join(_SIGNS.get(c, c) for c in _THIN_BLANK.sub("", text))
    if (".." in text or "\\" in text) and _OTHER_MEANING.search(text):
        raise MathSyntaxError("a sign that changes what stands beside it")
    if "!=" in text:
        text = _NOT_EQUAL.sub(" \\\\ne ", text)
    if "\\" in text:
        if "\\\\" in text:
            text = _ROW_SKIP.sub(r"\\\\", text)
        text = _GROUP_COMMA.sub("", text.replace("\\$", " "))
        for other, name in _OTHER_NAMES:
            text = text.replace(other, name)
        if _OVER_SIGN.search(text):
            text = _without_over(text)
    if "U" in text and "," in text:
        text = _JOINED.sub(r"\\cup ", text)
    text = _DROPPED.sub(" ", text) if "\\" in text or "$" in text else text
    if "{" in text and (builder := _BUILDER.fullmatch(text)) and _has_symbol(builder):
        text = builder["condition"].removesuffix("\\")
    if "R" in text and ("-" in text or "backslash" in text):
        text = _REALS_WITHOUT.sub(r"\1 \\setminus ", text)
    if "," in text:
        text = _join_thousands(text.replace("{,}", ","))
    return text


def _has_symbol(builder: re.Match[str]) -> bool:
    """Whether the condition of a set speaks of what the set is of."""
    return re.search(rf"(?<![A-Za-z\\]){builder['name']}(?![A-Za-z])", builder["condition"]) is not None


def _built_up(fraction: re.Match[str]) -> str:
    """``½`` and ``¹⁄₂`` as ``\\frac{1}{2}``; behind a digit only a fraction under 1, as in ``3½``."""
    above, below = parts_of(fraction)
    return (
        f"{fraction['behind']}\\frac{{{above}}}{{{below}}}" if above < below or not fraction["behind"] else fraction[0]
    )


def _without_over(text: str) -> str:
    """``{a \\over b}`` as ``\\frac{a}{b}`` at every depth; a group with two of them, which TeX refuses, stays."""
    groups: list[list[str]] = [[""]]  # of each open group what stands between its signs
    for piece in _OVER_PIECE.findall(text):
        if piece == "{":
            groups.append([""])
        elif piece == "}" and len(groups) > 1:
            group = groups.pop()
            groups[-1][-1] += "{" + _fraction(group) + "}"
        elif piece == "}":
            return text
        elif _OVER_SIGN.match(piece):
            groups[-1].append("")
        else:
            groups[-1][-1] += piece
    if len(groups) > 1:
        return text
    return _fraction(groups[0])


def _fraction(parts: list[str]) -> str:
    return f"\\frac{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 else "\\over ".join(parts)


def _join_thousands(text: str) -> str:
    """Without the commas of ``1,234``; inside brackets a comma separates, ``(1,234)`` is a pair."""
    if not _THOUSANDS.search(text):
        return text
    depth, parts = 0, []
    for piece in _STRUCTURE.findall(text):
        if piece in ("(", "[", "\\{", "\\langle"):
            depth += 1
        elif piece in (")", "]", "\\}", "\\rangle"):
            depth -= 1
        elif depth == 0:
            piece = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), piece)
        parts.append(piece)
    return "".join(parts)


def _is_function(upright: re.Match[str], text: str) -> bool:
    """Whether upright letters name a function: any ``\\operatorname`` before an argument, ``\\text`` of known ones."""
    name = upright["text"].strip()
    if upright[0].startswith("\\operatorname"):
        return name.isalpha() and _ARGUMENT.match(text, upright.end()) is not None
    if name not in NAMED_FUNCTIONS and name not in OTHER_NAMES:
        return False
    argument = _BRACKET if name in UNITS or name in _WORDS_TOO else _ARGUMENT
    return argument.match(text, upright.end()) is not None


def _is_unit(text: str) -> bool:
    """Whether text is a unit with powers, like ``m/s^2``."""
    return _UNIT_TEXT.fullmatch(text) is not None and all(word in UNITS for word in re.findall("[a-z]+", text.lower()))


def _scan(text: str) -> list[Token]:
    tokens: list[Token] = []
    position, spaced = 0, False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MathSyntaxError(f"{text[position : position + 12]!r} is not read")
        position = match.end()
        kind = match.lastgroup or ""
        value = match.group(kind)
        if kind == "space":
            spaced = True
            continue
        if kind == "text" and _is_function(match, text):
            tokens.append(Token("word" if value == "mod" else "function", value.strip(), spaced))
        elif kind == "text" and not _PLAIN_TEXT.fullmatch(value) and not _is_unit(value):
            tokens.extend(_scan(value))
        elif kind != "text" or value.strip(" .,"):
            tokens.append(Token(kind, value.strip(), spaced))
        spaced = False
        if kind == "num" and len(value) > MAX_DIGITS:
            raise MathLimitError(f"a number may have {MAX_DIGITS:,} digits")
        if len(tokens) > MAX_TOKENS:
            raise MathLimitError(f"an answer may have {MAX_TOKENS} tokens")
    return tokens
