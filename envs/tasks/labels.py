"""Labels and units beside the parts of an answer, dropped where they say what the question says.

Labels count only in the order in which the question lists them, or where they count from 1 or 0; a unit only where the
question speaks of it. Nothing else is dropped: a label that says another thing stays, and the reader refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rlvr.envs.rewards.dressing import ARROW, plain

_NAME: Final = r"[A-Za-z][A-Za-z0-9]{0,30}(?:_\{?[0-9]{1,3}\}?)?"
_IS: Final = r"(?:=|:|\s+(?:is|are)\b(?:\s+an?\b)?|\s-\s+(?=[A-Za-z]))"  # "x - 5" is a difference
_LABEL = re.compile(rf"({_NAME})\s*{_IS}\s*(\S.*)", re.DOTALL)
_PART_END = re.compile(rf"[,;\n]|\s+and\s+(?=[A-Za-z][A-Za-z0-9_ ]{{0,30}}\s*{_IS})")
_COUNTED = re.compile(
    r"(?:(\\?[A-Za-z\u03bb]{1,20})[\s_]*)?\{?(\d{1,3})\}?\s*(?:[:.)]\s+|\s-\s+(?=[A-Za-z])|=)\s*(\S.*)", re.DOTALL
)
_LABELLED = re.compile(r"[=:]|\d[.)]\s|\s-\s|\s(?:is|are)\s")
_LETTER = re.compile(r"[A-Za-z]")
_NOUN = re.compile(r"([A-Za-z]{3,20}(?: [A-Za-z]{2,20})?)\s*(?:[=:]|\s(?:is|of)\s|(?=\s-?\d))\s*(\S.*)")
_WHOLE = re.compile(rf"(\(?)((?:\\lambda|\u03bb|{_NAME})'?(?:,\s*{_NAME}){{0,20}})(\)?)\s*=\s*([^=:]*\S)", re.DOTALL)
_VALUE_IN_BRACKETS = re.compile(rf"({_NAME})\s*\(([^()]{{1,60}})\)")
_REMAINDER = re.compile(r"(-?\d+)\s*,?\s*(?:[Rr]|rem\.?|remainder)\s*(?:of|=|:)?\s*(\d+)")
_STEP = re.compile(r"([A-Za-z])\s*(?:to|-|,)\s*([A-Za-z])")
_PAIR = re.compile(r"(^|,\s*)\(([^()]{1,400})\)(?=\s*(?:,|$))")
_BETWEEN_WORDS = re.compile(r"(?<=[A-Za-z])\s{1,9}-\s{1,9}(?=[A-Za-z])|(?<=\w)\s{1,9}<\s{1,9}")
_WITH_UNIT = re.compile(r"(-?\d[\d,]{0,20}(?:/\d{1,12})?)\s*(?:\\ )?([A-Za-z]{2,20})")


def relabelled(parts: str, text: str, question: str) -> Iterator[str]:
    """What an answer says without its labels, without its units, or with its parts joined in another way.

    Args:
        parts: the answer whose parts have no marks of their own.
        text: the same in its plain form.
        question: says which labels and units are its own.
    """
    if _LABELLED.search(text):
        yield without_labels(text, question)
        yield without_whole_label(text, question)
    if ARROW.search(parts):
        yield without_labels(plain(ARROW.sub(" = ", parts)), question)
        yield steps(ARROW.sub("-", parts))
    if "(" in text:
        yield without_labels(_VALUE_IN_BRACKETS.sub(r"\1 = \2", text), question)
        yield _PAIR.sub(r"\1\2", text)
    if _LETTER.search(text):
        yield without_nouns(text, question)
        yield without_units(text, question)
        yield steps(text)
    yield _BETWEEN_WORDS.sub(", ", text)
    if "remainder" in question:
        yield _REMAINDER.sub(r"\1, \2", text)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _PART_END.split(text) if part.strip()]


def _listed(names: Sequence[str], question: str) -> bool:
    """Whether the question lists exactly these names in this order."""
    words = [re.escape(name.replace("{", "").replace("}", "")) for name in names]
    listing = r"(?<![\w,])(?<!, )(?:" + r"(?:, | and |, and )".join(words) + r")(?!\w|, (?!in this order)\w| and \w)"
    return re.search(listing, question) is not None


def without_labels(text: str, question: str) -> str:
    """``x = -11, y = 7`` as ``-11, 7``, where the question lists exactly these names in this order; else unchanged.

    Numbers count as names too, with or without one noun before each (``1: Ann, 2: Ben``), if they count from 1 or 0.
    """
    parts = _parts(text)
    counted = [part for part in map(_COUNTED.fullmatch, parts) if part]
    if 1 < len(counted) == len(parts) and len({part[1] for part in counted}) == 1:
        first = int(counted[0][2])
        if first < 2 and [int(part[2]) for part in counted] == [*range(first, first + len(counted))]:
            return ", ".join(part[3].strip() for part in counted)
    found = [label for label in map(_LABEL.fullmatch, parts) if label]
    labels = [label[1] for label in found]
    if len(labels) != len(parts) or not labels or len(set(labels)) != len(labels):
        return text
    return ", ".join(label[2].strip() for label in found) if _listed(labels, question) else text


def without_nouns(text: str, question: str) -> str:
    """``hour: 16, minute: 5`` as ``16, 5``, where the question ends with these nouns, once each, in this order."""
    parts = _parts(text)
    found = [part for part in map(_NOUN.fullmatch, parts) if part]
    if len(found) < 2 or len(found) != len(parts):
        return text
    asked = question[question.lower().rfind("answer with") :].lower()
    last = -1
    for part in found:
        noun = rf"\b{re.escape(part[1].lower())}\b"
        hits = [hit.start() for hit in re.finditer(noun, asked)]
        if len(hits) != 1 or hits[0] <= last:
            return text
        last = hits[0]
    return ", ".join(part[2].strip() for part in found)


def without_whole_label(text: str, question: str) -> str:
    """``(x, y) = (3, 4)`` as ``3, 4``, where the question lists the names so; a single name may be any."""
    whole = _WHOLE.fullmatch(text.strip())
    if whole is None or bool(whole[1]) != bool(whole[3]):
        return text
    names = [name.strip() for name in whole[2].split(",")]
    named = _listed(names, question) if len(names) > 1 else names[0].lower() not in ("not", "or", "and", "if")
    return whole[4].strip() if named else text


def without_units(text: str, question: str) -> str:
    """``160 days`` as ``160``, where the question speaks of days, and so for each part of a list; else unchanged."""
    parts = _parts(text)
    found = [part for part in map(_WITH_UNIT.fullmatch, parts) if part]
    if not found or len(found) != len(parts):
        return text
    for part in found:
        stem = part[2].lower().removesuffix("s")
        if not re.search(rf"\b{re.escape(stem)}s?\b", question.lower()):
            return text
    return ", ".join(part[1] for part in found)


def steps(text: str) -> str:
    """``A-B, B to C`` as ``AB, BC``: moves from one letter to another; else unchanged."""
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    found = [step for step in map(_STEP.fullmatch, parts) if step]
    return ", ".join(step[1] + step[2] for step in found) if found and len(found) == len(parts) else text
