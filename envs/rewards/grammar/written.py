"""Ways to write an answer to ``math`` that its grammar does not read, rewritten to the same value before parsing."""

from __future__ import annotations

import re
from typing import Final

from rlvr.envs.rewards.dressing import APPLIED, without_separators
from rlvr.envs.rewards.grammar.words import denies

_NAMED = re.compile(rf"{APPLIED}\s*=(?=[^=])")
_UPRIGHT = re.compile(r"\\(?:mathrm|text|operatorname)\s?\{\s?([ie])\s?\}")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ROWS = re.compile(r"\[\s*(\[[^\[\]]{1,400}\](?:\s*,\s*\[[^\[\]]{1,400}\]){0,40})\s*,?\s*\]")
_ROW = re.compile(r"\[([^\[\]]*)\]")
_COMMAND = re.compile(r"\\(?!text|mbox|neg|lnot|not)[A-Za-z]+")
_BLANK_FIRST = re.compile(r"(\\(?:mathrm|text)\{)\\[ ,;:]")
_VALUE_IN_TEXT = re.compile(r"^\\text\{\s?(-?[0-9][0-9.,/]{0,40})\s([A-Za-z][^{}]{0,40})\}$")
# One letter is a unit only behind a blank.
_UNIT: Final = r"(?:[mgshlLVWJNC]|[kcm]m|kg)(?:/(?:s|h|min)(?:\^2)?)?"
_LETTER_UNIT = re.compile(
    rf"(?<=[0-9}}])(?:\s|\\[,;: ]|~){{1,3}}(?:({_UNIT})|\\(?:mathrm|text|rm)\s?\{{\s?({_UNIT})\}})(\^\{{?[23]\}}?)?$"
)
_NEEDS: Final = frozenset("=~{[*^\\")


def denied_name(answer: str) -> bool:
    """Whether what stands before the first equals sign denies the value: ``not f(2) = 25``."""
    return "=" in answer and denies(_COMMAND.sub(" ", answer.partition("=")[0]))


def in_grammar(answer: str, reference: str) -> str:
    """An answer in the form that the grammar reads.

    Args:
        answer: without what stands around the whole.
        reference: what the reference is, the operation of its tree; empty where it has none. Where it is a matrix,
            ``[[1, 2], [3, 4]]`` is one. Where it is a number, ``5 m`` has a unit, and is no product. Where it is no
            equation, ``P(A \\mid B) =`` before a value is its name.
    """
    if answer.isascii() and not _NEEDS & set(answer) and not answer[-1:].isalpha():
        return answer
    text = without_separators(answer)
    if "=" in text:
        text = text.replace("&=", "=").replace(":=", "=")
    if "**" in text:
        text = text.replace("**", "^")
    if "\\" in text:
        text = _UPRIGHT.sub(r"\1", _BLANK_FIRST.sub(r"\1 ", text))
        text = _VALUE_IN_TEXT.sub(r"\1 \\text{ \2}", text)
    if reference in ("num", "neg", "div") and (unit := _LETTER_UNIT.search(text)):
        text = f"{text[: unit.start()]}\\text{{ {unit[1] or unit[2]}}}{unit[3] or ''}"
    if reference not in ("rel", "list", "") and text.count("=") == 1 and (name := _NAMED.match(text)):
        text = text[name.end() :].strip()
    if braces := _BRACES.fullmatch(text):
        return f"\\{{{braces[1]}\\}}"
    if reference == "matrix" and (rows := _ROWS.fullmatch(text)):
        lines = [" & ".join(row.split(",")) for row in _ROW.findall(rows[1])]
        body = " \\\\ ".join(lines)
        return f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}"
    return text
