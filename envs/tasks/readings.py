"""The natural ways to write one value: what stands in the answer marker, rewritten to the plain form that readers take.

``readings`` gives the answer as it stands, then without markup (LaTeX, Markdown, brackets around rows), then without
labels and units that the question itself uses. Each rewriting keeps the value: it drops dressing, and never a word that
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
    yield without_labels(text, question)
    yield without_unit(text, question)


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
