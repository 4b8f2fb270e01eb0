"""The natural ways to write one value: what stands in the answer marker, rewritten to the plain form that readers take.

``readings`` gives the answer as it stands, then without markup (LaTeX, Markdown, brackets around rows), then with its
parts alone (numbered lines, rows of a table, quotes and emphasis around a part), then without labels and units that the
question itself uses. Each rewriting keeps the value: it drops dressing, and never a word that
could change what is said. A hedge, a second answer or a part too many is still there, and the reader refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rlvr.envs.rewards.dressing import plain

_LABEL = re.compile(r"([A-Za-z][A-Za-z0-9]{0,30}(?:_\{?[0-9]{1,3}\}?)?)\s*(?:=|:|\s+is\b|\s+are\b)\s*(\S.*)", re.DOTALL)
_PART_END = re.compile(r"[,;\n]|\s+and\s+(?=[A-Za-z][A-Za-z0-9_]{0,30}\s*(?:=|:|\s+is\b))")
_WITH_UNIT = re.compile(r"(-?\d[\d,]{0,20}(?:/\d{1,12})?)\s*(?:\\ )?([A-Za-z]{2,20})")
_BRACKETS_BY_NAME = re.compile(r"\\(?:(?P<left>langle|lbrack|lbrace)|rangle|rbrack|rbrace)(?![A-Za-z])")
_QUOTED: Final = r"""(?:'[^'\n]{0,400}'|"[^"\n]{0,400}")"""
_STRINGS = re.compile(rf"\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED}){{1,400}}(?:\s*,)?\s*\]")
_STRING = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
_MARKED = re.compile(r"(?<![\w$*`)])(\$|\*\*|__|`)([^\s$*`,;]{1,60})\1(?![\w$*`(])")
_NUMBERED = re.compile(r"\s*(?:row\s+)?(\d{1,3})\s*[.):]\s+(\S.*)", re.IGNORECASE)
_BULLET = re.compile(r"\s*([*\u2022-])\s+(\S.*)")
_TABLE_RULE = re.compile(r"[\s|:+-]+")
_QUOTES: Final = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}
LONGEST: Final = 20_000


def readings(answer: str, question: str = "") -> Iterator[str]:
    """An answer as it stands and its plainer forms, each once; ``question`` says which labels and units are its own."""
    given: list[str] = []
    for text in _forms(answer, question):
        if text and text not in given:
            given.append(text)
            yield text


def _forms(answer: str, question: str) -> Iterator[str]:
    yield answer
    if len(answer) > LONGEST:
        return
    text = plain(answer)
    yield text
    parts = parts_alone(answer)
    yield parts
    text = plain(parts)
    yield text
    yield without_labels(text, question)
    yield without_unit(text, question)


def parts_alone(answer: str) -> str:
    """Without what stands around each part: its number or bullet, the bars of a table, quotes, emphasis.

    Lines count as numbered only from 1 on, one after the other. Hyphens are bullets only where a letter follows one:
    before numbers alone they may be signs.
    """
    text = _BRACKETS_BY_NAME.sub(lambda name: "(" if name["left"] else ")", answer).strip().removeprefix("=").strip()
    if _QUOTES.get(text[:1]) == text[-1:] and not set(text[1:-1]) & {text[0], text[-1]}:
        text = text[1:-1].strip()
    if _STRINGS.fullmatch(text):
        text = "\n".join(one or other for one, other in _STRING.findall(text))
    text = _MARKED.sub(r"\2", text)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1:
        text = "\n".join(_bare_lines(lines))
    elif " & " in text:
        text = text.replace(" & ", ", ")
    return text


def _bare_lines(lines: list[str]) -> list[str]:
    """Lines without their numbers, bullets or bars, where each has one."""
    if all(line.strip()[0] == line.strip()[-1] == "|" for line in lines):
        rows = [line for line in lines if not _TABLE_RULE.fullmatch(line)]
        return [" ".join(line.strip().strip("|").replace("|", " ").split()) for line in rows]
    numbered = [_NUMBERED.fullmatch(line) for line in lines]
    if all(numbered) and [int(line[1]) for line in numbered if line] == [*range(1, len(lines) + 1)]:
        return [line[2] for line in numbered if line]
    bullets = [_BULLET.fullmatch(line) for line in lines]
    signs = all(line and line[1] == "-" and not line[2][0].isalpha() for line in bullets)
    return [line[2] for line in bullets if line] if all(bullets) and not signs else lines


def without_labels(text: str, question: str) -> str:
    """``x = -11, y = 7`` as ``-11, 7``, where the question lists exactly these names in this order; else unchanged."""
    parts = [part.strip() for part in _PART_END.split(text) if part.strip()]
    found = [_LABEL.fullmatch(part) for part in parts]
    labels = [label[1] for label in found if label]
    if len(labels) != len(parts) or not labels or len(set(labels)) != len(labels):
        return text
    names = [re.escape(label.replace("{", "").replace("}", "")) for label in labels]
    listing = r"(?<![\w,])(?<!, )(?:" + r"(?:, | and |, and )".join(names) + r")(?!\w|, \w| and \w)"
    values = ", ".join(label[2].strip() for label in found if label)
    return values if re.search(listing, question) else text


def without_unit(text: str, question: str) -> str:
    """``160 days`` as ``160``, where the question speaks of days; else unchanged."""
    whole = _WITH_UNIT.fullmatch(text.strip())
    if whole is None:
        return text
    stem = whole[2].lower().removesuffix("s")
    return whole[1] if re.search(rf"\b{re.escape(stem)}s?\b", question.lower()) else text
