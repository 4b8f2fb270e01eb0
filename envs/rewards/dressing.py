"""Dressing: what may stand around a value, or be another way to write it, without being part of the value.

``plain`` drops math delimiters, emphasis, code fences, "the answer is", LaTeX of text and brackets around lists, and
writes fractions, arrows and matrices in one way. ``undressed`` drops only what stands around the whole. Neither drops a
word that could change what is said: a hedge, a negation or a second value stays, and the reader refuses it.
"""

from __future__ import annotations

import re
from typing import Final

_DELIMITERS: Final = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**"), ("__", "__"), ("*", "*"))
_FENCE = re.compile(r"```[ \t]*[A-Za-z]{0,12}[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")
_LEAD = re.compile(
    r"(?:(?:so|thus|hence|therefore|finally),? )?(?:the |my )?(?:(?:final|correct|right|full|complete) )?"
    r"(?:answer|solution|result)(?: is| are)?(?:\s*[:=]\s*|\s+(?!not\b|n't\b))",
    re.IGNORECASE,
)
_VERB = re.compile(r"(?:answer|solution|result)(?: is| are|\s*[:=])", re.IGNORECASE)
_TEXT = re.compile(r"\\(?:text|texttt|textbf|textrm|textit|textsf|mathrm|mathtt|mathbf|mathit|mathsf|operatorname|mbox|"
                   r"underline|emph|textnormal|textup|boldsymbol)"
                   r"\s*\{([^{}]*)\}")  # fmt: skip
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(-?\s*\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))")
_SIZE = re.compile(r"\\(?:left|right|[bB]igg?[lr]?)\s*(?=[\[\](){}|.<>]|\\[{}l|r])\.?")
_BLANK = re.compile(
    r"(?<!\\)\\(?:[,;:! ]|(?:quad|qquad|thinspace|displaystyle|textstyle)(?![A-Za-z]))|\\hline(?![A-Za-z])|~"
)
_SPACED = re.compile(  # blanks of LaTeX around the whole
    r"^(?:\\(?:displaystyle|textstyle|quad|qquad)(?![A-Za-z])\s*){1,4}|\s*(?:\\(?:quad|qquad)(?![A-Za-z])\s*){1,4}$"
)
_ARROW = re.compile(
    r"\s*(?:\\(?:to|rightarrow|longrightarrow|Rightarrow|Longrightarrow|mapsto)(?![A-Za-z])|-{1,2}>|=>|→|⟶|⇒|➜)\s*"
)
_MATRIX = re.compile(
    r"\\begin\{(?P<name>[pbB]?(?:small)?matrix|array)\}\s*(?:\{[lcr| ]{1,80}\})?(?P<rows>.*)\\end\{(?P=name)\}",
    re.DOTALL,
)
_ROW = re.compile(r"\\\\(?:\[[^\]\n]{0,12}\])?|\\newline(?![A-Za-z])|\\cr(?![A-Za-z])")
_BETWEEN_ROWS = re.compile(r"[\])}]\s*[,;]?\s*[\[({]")
_QUOTED = re.compile(r"(?<![A-Za-z0-9])(['\"])([^'\"\s,;]*)\1(?![A-Za-z0-9])")
_PART = r"[^\s,]{1,60}(?: [^\s,]{1,20}){0,3}?"
_JOINED = re.compile(rf"(?:{_PART},\s*)*{_PART},?\s+(?:and|&)\s+{_PART}")
_AND = re.compile(r",?\s+(?:and|&)\s+")
_BRACKETS: Final = {"[": "]", "(": ")", "{": "}"}


def undressed(answer: str) -> str:
    """Without what stands around the whole: delimiters, emphasis, a code fence, "The answer is", a full stop."""
    text = answer.strip()
    for _ in range(4):
        before = text
        text = _without_full_stop(_without_lead(_undelimited(_SPACED.sub("", text))).strip())
        if text == before:
            break
    return text


def without_text_macro(text: str) -> str:
    """What stands in a ``\\text{}`` or ``\\mathrm{}`` that is the whole text, else the text."""
    whole = _TEXT.fullmatch(text.strip())
    return whole[1] if whole else text


def plain(answer: str) -> str:
    """Without markup: math delimiters, emphasis, fences, lead-ins, LaTeX of text, fractions, arrows and matrices."""
    text = undressed(answer.replace("\u2212", "-").replace("\u00a0", " "))
    text = _TEXT.sub(r"\1", _TEXT.sub(r"\1", text))
    text = _FRACTION.sub(_slashed, _SIZE.sub("", text))
    text = _BLANK.sub(" ", text).replace("{,}", ",").strip()
    text = _ROW.sub("\n", _matrix_rows(text))
    for escaped in "{}#_%&$":
        text = text.replace(f"\\{escaped}", escaped)
    text = _QUOTED.sub(r"\2", _ARROW.sub(", ", text)).strip()
    text = _unbracketed(_undelimited(_without_full_stop(text)))
    return _AND.sub(", ", text) if _JOINED.fullmatch(text) else text


def _undelimited(text: str) -> str:
    """Without math delimiters, emphasis or a code fence around the whole."""
    if whole := (_FENCE.fullmatch(text) or _CODE.fullmatch(text)):
        return whole[1]
    for opening, closing in _DELIMITERS:
        inner = text[len(opening) : -len(closing)]
        around = text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing)
        if around and opening not in inner and closing not in inner and any(sign.isalnum() for sign in inner):
            return inner.strip()
    return text


def _without_lead(text: str) -> str:
    """Without "The answer is": only with its verb or a colon, and not where a "not" follows."""
    lead = _LEAD.match(text)
    return text[lead.end() :].strip() if lead and _VERB.search(lead[0]) else text


def _without_full_stop(text: str) -> str:
    if not text.endswith(".") or (text.count(".") > 1 and "\n" in text):
        return text
    return text[:-1] if text[-2:-1].isalnum() or text[-2:-1] in tuple("])}$*`'\"#") else text


def _slashed(fraction: re.Match[str]) -> str:
    above, below = fraction[1] or fraction[2], fraction[3] or fraction[4]
    return f"{above.replace(' ', '')}/{below}"


def _matrix_rows(text: str) -> str:
    """The rows of a matrix that is the whole text, one to a line."""
    bare = text[1:-1].strip() if text[:1] + text[-1:] in ("[]", "()") else text
    whole = _MATRIX.fullmatch(bare)
    if whole is None or "\\begin" in whole["rows"]:
        return text
    return "\n".join(row.replace("&", " ").strip() for row in _ROW.split(whole["rows"]) if row.strip()).strip()


def _unbracketed(text: str) -> str:
    """Without the brackets around a list or around the rows of a list of lists; each row then has a line."""
    if text[:1] not in _BRACKETS or text[-1:] != _BRACKETS[text[0]] or not _pairs_up(text):
        return text
    inside = text[1:-1].strip()
    if inside[:1] in _BRACKETS and _BETWEEN_ROWS.search(inside) and _pairs_up(inside):
        return _BETWEEN_ROWS.sub("\n", inside[1:-1]) if inside[-1:] == _BRACKETS[inside[0]] else text
    if _BETWEEN_ROWS.search(text):  # "(1, 2), (3, 4)": the first bracket is not closed by the last
        return _BETWEEN_ROWS.sub("\n", inside)
    return inside if not set(inside) & set("[](){}") else text


def _pairs_up(text: str) -> bool:
    """Whether the brackets of a text pair up, at most two deep."""
    open_: list[str] = []
    for sign in text:
        if sign in _BRACKETS:
            open_.append(_BRACKETS[sign])
            if len(open_) > 2:
                return False
        elif sign in "])}" and (not open_ or open_.pop() != sign):
            return False
    return not open_
