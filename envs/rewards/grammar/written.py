"""Ways to write an answer to ``math`` that its grammar does not read, rewritten to the same value before parsing."""

from __future__ import annotations

import re
from typing import Final

from rlvr.envs.rewards.dressing import APPLIED, without_separators
from rlvr.envs.rewards.grammar.units import compound, slashed
from rlvr.envs.rewards.grammar.words import denies

# An integral, a derivative or a limit that is worked out has the value behind the sign.
_NAMED = re.compile(
    rf"(?:{APPLIED}|\\(?:int|lim|sum|prod|[dt]?frac\{{d(?:\^2)?\}}\{{d[a-z](?:\^2)?\}})(?![A-Za-z])(?:[^={{}}]"
    rf"|\{{[^{{}}]*\}}){{0,200}}?)\s*=(?=[^=])"
)
_UPRIGHT = re.compile(r"\\(?:mathrm|text|operatorname)\s?\{\s?([ie])\s?\}")
_BRACES = re.compile(r"(?P<name>[^={}]{1,40}=\s?)?\{(?P<items>[^{}]*,[^{}]*)\}")
_ROWS = re.compile(r"\[\s*(\[[^\[\]]{1,400}\](?:\s*,\s*\[[^\[\]]{1,400}\]){0,40})\s*,?\s*\]")
_ROWS_BY_SIGN = re.compile(r"\[[^\[\];,]+,[^\[\];]+(?:;[^\[\];,]+,[^\[\];]+)+\]")
_ROW = re.compile(r"\[([^\[\]]*)\]")
_COMMAND = re.compile(r"\\(?!text|mbox|neg|lnot|not)[A-Za-z]+")
_BLANK_FIRST = re.compile(r"(\\(?:mathrm|text)\{)\\[ ,;:]")
_VALUE_IN_TEXT = re.compile(r"^\\text\{\s?(-?[0-9][0-9.,/]{0,40})\s([A-Za-z][^{}]{0,40})\}$")
# One letter is a unit only behind a blank.
_UNIT: Final = r"(?:[mgshlLVWJNC]|[kcm]m|kg)(?:/(?:s|h|min)(?:\^2)?)?"
_LETTER_UNIT = re.compile(
    rf"(?<=[0-9}}])(?:\s|\\[,;: ]|~){{1,3}}(?:({_UNIT})|\\(?:mathrm|text|rm)\s?\{{\s?({_UNIT})\}})(\^\{{?[23]\}}?)?$"
)
# km h^{-1}, and the same in \mathrm{}
_RAISED = re.compile("\u207b([\u00b9\u00b2\u00b3])")
_SQUARED = re.compile("(?<=[/ ][a-z])[\u00b2\u00b3]|(?<=[kcm]m)[\u00b2\u00b3]")
_POWERED_UNIT = re.compile(
    r"(?<=[0-9}\s,~])(?P<unit>(?:[A-Za-z]|\\(?:mathrm|text|rm|[,;: ]|cdot)|[\s{}~.\u00b7\u22c5]){1,60}\^\{?-[1-3].*)$"
)
_NO_LETTERS = re.compile(r"\\(?:mathrm|text|rm|cdot|[,;: ])|[{}~.\u00b7\u22c5]")
_ALL_WITH = re.compile(
    r"^(?:\\text\{\s?)?(?:(?:the )?(?:domain|range|solution)(?: set)?: ?\}?"
    r"|all (?:real (?:numbers |values )?|values of |numbers )?(?:\$?[a-z]\$? (?:such that|with|where|satisfying"
    r"|for which) )?"
    r"(?=\$?[a-z]\$? ?(?:[<>\u2264\u2265\u2260]|\\[lg]eq?|\\ne)))\s?",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"(?:\\text\{\s?)?(?:the set of )?all (?:real|reals|real numbers|real values|numbers)"
    r"(?: of)?(?: \$?[a-z]\$?)? (?:except|other than|excluding|but)(?: for)?(?:\s?\})?"
    r" (?P<points>(?:[a-z] ?=|and|or|\\frac|\\sqrt|\\pi|[^A-Za-z])*)",
    re.IGNORECASE,
)
_POINT_NAME = re.compile(r"\b[a-z] ?=|\$")
_MACRO_TEXT = re.compile(r"\\(?:text|mathrm)\{\s*([A-Za-z]{1,10}(?: and)?)\s*\}")
_LAST_WORD = re.compile(r" ([A-Za-z]+)$")
_TIMES_TEN = re.compile(r"(?<=[0-9]) ?[xX] ?(?=10\^)")
_TO = re.compile(r"(?:\\text\{\s*to\s*\}|(?<=[0-9a-z]) to (?=[0-9a-z]))")
_RATIO_NAMES = re.compile(
    r"^(?:\\text\{[A-Za-z ]{1,30}\}|[A-Za-z ]{1,30}) ?: ?(?:\\text\{[A-Za-z ]{1,30}\}|[A-Za-z ]{1,30}) ?= ?"
)
_RELATION_ROWS = re.compile(
    r"\\begin\{(?P<name>cases|aligned|array|gathered|align\*?)\}(?:\{[lcr| ]{1,20}\})?(?P<rows>.*)\\end\{(?P=name)\}",
    re.DOTALL,
)
_UNIT_MACRO: Final = r"\\(?:text|mathrm)\s?\{\s?([a-z]{1,8})\s?\}(\^\{?[23]\}?)?"
_UNIT_FRACTION = re.compile(rf"\\[dt]?frac\s?\{{\s?{_UNIT_MACRO}\s?\}}\s?\{{\s?{_UNIT_MACRO}\s?\}}$")
_LOG_BASE = re.compile(r"(?<![A-Za-z\\])log([2-9]|10)(?=\()")
_OUT_OF = re.compile(r"^([0-9]{1,9}) (?:out of|in) ([1-9][0-9]{0,8})$")
_COMPARED = re.compile(
    r"(?<=[a-z]) is (?:(?:strictly )?(?P<sign>greater|more|larger|less|smaller) than"
    r"(?P<equal> or equal to)?|at (?P<end>least|most)) "
)
_MIDDLE = re.compile(r"^\(([^(),|]{1,40}?)\s?(?:\\mid|\|)\s?([^(),|]{1,40})\)$")
# "x != 2" behind an expression in x
_CONDITION = re.compile(
    r"(?:,|\s|\\q?quad|\\[,;: ]|\$){1,6}(?:\(|\\text\s?\{)?\s?(?:for|where|with|provided(?: that)?|if)?\s?\}?"
    r"(?:\s|\$|\\[,;: ]){0,3}[a-z]\s?(?:\\neq?(?![a-z])|\u2260|!=)\s?[^,=<>A-Za-z]{1,20}$"
)
_POINT = re.compile(r"^[A-Z](?:\s|\\left)?(?=\()")
_TRANSPOSED = re.compile(r"\)\s?\^\s?(?:T|\{\s?(?:T|\\top|\\intercal)\s?\}|\\top)$")
_IN_REALS = re.compile(
    r"^[a-z]\s?(?:\\in\s?\\mathbb\s?\{?R\}?|\u2208 ?\u211d)\s?,\s?(?:\\quad"
    r"|\\[,;: ])?\s?(?=[a-z]\s?(?:\\neq?|\u2260|[<>]|\\[lg]e))"
)
_NEEDS: Final = frozenset("=~{[*^\\")


def denied_name(answer: str) -> bool:
    """Whether what stands before the first equals sign denies the value: ``not f(2) = 25``."""
    return "=" in answer and denies(_COMMAND.sub(" ", answer.partition("=")[0]))


def without_exceptions(text: str) -> str:
    """``all real numbers except 1 and 2`` as the real line without these points, ``all x > 2`` as ``x > 2``."""
    text = _ALL_WITH.sub("", text)
    except_for = _EXCEPT.fullmatch(text)
    if except_for is None:
        return text
    points = re.sub(r"\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b", ",", _POINT_NAME.sub("", except_for["points"]))
    return f"\\mathbb{{R}} \\setminus \\{{{points}\\}}"


def _compound(text: str) -> str:
    """Two units of one quantity as one: ``2 h 30 min`` as ``5/2 h``."""
    if " " not in text and "\\" not in text:
        return text
    bare = " ".join(_MACRO_TEXT.sub(r" \1 ", text).replace("\\,", " ").replace("\\ ", " ").split())
    joined = compound(bare)
    return _LAST_WORD.sub(r"\\text{ \1}", joined) if joined != bare else text


def _in_order(text: str, reference: str) -> str:
    """Ratios, intervals with outward brackets, rows of relations and conditions, each as the grammar writes it."""
    if not text.isascii():
        text = _SQUARED.sub(lambda sign: "^2" if sign[0] == "\u00b2" else "^3", text)
    if "\u207b" in text:
        text = _RAISED.sub(lambda sign: "^-" + str("\u00b9\u00b2\u00b3".index(sign[1]) + 1), text)
    if "\\*" in text or "{~" in text:
        text = text.replace("\\*", "*").replace("{~", "{ ")
    if "x" in text or "X" in text:
        text = _TIMES_TEN.sub(r"\\times ", text)
    if " is " in text:
        text = _COMPARED.sub(_sign_of, text)
    if reference == "div":
        text = _OUT_OF.sub(r"\1/\2", text)
    if "log" in text:
        text = _LOG_BASE.sub(r"\\log_{\1}", text)
    if reference == "ratio":
        text = _TO.sub(":", _RATIO_NAMES.sub("", text))
    if text[:1] == "]" or text[-1:] == "[" or "[ \\cup" in text:
        text = "\\cup ".join(map(_outward, re.split(r"\\cup\s*|\u222a", text)))
    if "\\begin" in text and (rows := _RELATION_ROWS.fullmatch(text)):
        lines = [row.replace("&", "").strip(" ,\n") for row in re.split(r"\\\\(?:\[[^\]\n]{0,12}\])?", rows["rows"])]
        lines = [line for line in lines if line]
        text = ", ".join(lines) if all(line.count("=") == 1 for line in lines) else text
    if "frac" in text:
        text = _UNIT_FRACTION.sub(_fraction_of_units, text)
    if reference not in ("rel", "list", "set", "cup", "tuple", "setminus", ""):
        text = _CONDITION.sub("", text)
    if reference == "tuple":
        text = _MIDDLE.sub(r"(\1, \2)", _POINT.sub("", text))
    if reference == "matrix":
        if text.startswith("((") and text.endswith("))"):
            text = text.replace("(", "[").replace(")", "]")
        if _ROWS_BY_SIGN.fullmatch(text):
            text = "[[" + "], [".join(text[1:-1].split(";")) + "]]"
        text = _TRANSPOSED.sub(")", text)
    return _IN_REALS.sub("", text)


def _fraction_of_units(unit: re.Match[str]) -> str:
    above, power, below, power_below = (part or "" for part in unit.groups())
    return f"\\text{{ {(above + power + '/' + below + power_below).replace('{', '').replace('}', '')}}}"


def _sign_of(words: re.Match[str]) -> str:
    if words["end"]:
        return "\\ge " if words["end"] == "least" else "\\le "
    sign = ">" if words["sign"] in ("greater", "more", "larger") else "<"
    return f"{sign}{'=' if words['equal'] else ''} "


def _outward(interval: str) -> str:
    """``]1, 2[`` as ``(1, 2)``."""
    text = interval.strip()
    text = "(" + text[1:] if text[:1] == "]" else text
    return text[:-1] + ") " if text[-1:] == "[" else text + " "


def in_grammar(answer: str, reference: str) -> str:
    """An answer in the form that the grammar reads.

    Args:
        answer: without what stands around the whole.
        reference: what the reference is, the operation of its tree; empty where it has none. Where it is a matrix,
            ``[[1, 2], [3, 4]]`` is one. Where it is a number, ``5 m`` has a unit, and is no product. Where it is no
            equation, ``P(A \\mid B) =`` before a value is its name.
    """
    if (
        answer.isascii()
        and not _NEEDS & set(answer)
        and not (answer[-1:].isalpha() or answer[:1].isalpha())
        and not (" " in answer and reference in ("div", "ratio", "matrix"))
    ):
        return answer
    text = _compound(_in_order(without_separators(answer), reference))
    if "=" in text:
        text = text.replace("&=", "=").replace(":=", "=")
    if "**" in text:
        text = text.replace("**", "^")
    if "\\" in text:
        text = _UPRIGHT.sub(r"\1", _BLANK_FIRST.sub(r"\1 ", text))
        text = _VALUE_IN_TEXT.sub(r"\1 \\text{ \2}", text)
    if reference in ("num", "neg", "div", "quantity") and (unit := _LETTER_UNIT.search(text)):
        text = f"{text[: unit.start()]}\\text{{ {unit[1] or unit[2]}}}{unit[3] or ''}"
    if reference not in ("rel", "list", "") and "=" in text and (name := _NAMED.match(text)):
        text = text[name.end() :].strip()
    if "^" in text and "-" in text and (powered := _POWERED_UNIT.search(text)):
        slashed_unit = slashed(
            _NO_LETTERS.sub(lambda sign: "" if sign[0] in "{}" else " ", powered["unit"]).replace(" ^", "^")
        )
        text = f"{text[: powered.start()]}\\text{{ {slashed_unit}}}" if slashed_unit else text
    if braces := _BRACES.fullmatch(text):
        return f"{braces['name'] or ''}\\{{{braces['items']}\\}}"
    if reference == "matrix" and (rows := _ROWS.fullmatch(text)):
        lines = [" & ".join(row.split(",")) for row in _ROW.findall(rows[1])]
        body = " \\\\ ".join(lines)
        return f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}"
    return text
