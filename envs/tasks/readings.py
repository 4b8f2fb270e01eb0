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

from rlvr.envs.rewards.dressing import QUOTES, plain, without_marks
from rlvr.envs.rewards.grammar.remarks import behind_verb, without_aside
from rlvr.envs.rewards.grammar.words import denies
from rlvr.envs.tasks.labels import relabelled, without_a_noun, without_labels

_BRACKETS_BY_NAME = re.compile(r"\\(?:(?P<left>langle|lbrack|lbrace)|rangle|rbrack|rbrace)(?![A-Za-z])")
_QUOTED: Final = r"""(?:'[^'\n]{0,400}'|"[^"\n]{0,400}")"""
_STRINGS = re.compile(rf"\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED}){{1,400}}(?:\s*,)?\s*\]")
_STRING = re.compile(r"""'([^'\n]*)'|"([^"\n]*)\"""")
_NUMBERED = re.compile(r"\s*(?:(?:row\s+|\()?(?=\d)|row\s+(?=\d{1,3}\s*=))(\d{1,3})\s*[.):=]\s+(\S.*)", re.IGNORECASE)
_BULLET = re.compile(r"\s*([*\u2022-])\s+(\S.*)")
_NOW = re.compile(r"^(?:today|now|so|thus|hence|therefore),? (?=[A-Z])", re.IGNORECASE)
_BREAK = re.compile(r"<br ?/?>")
_TABLE_RULE = re.compile(r"[\s|:+-]+")
LONGEST: Final = 20_000


def readings(answer: str, question: str = "") -> Iterator[str]:
    """An answer as it stands and its plainer forms, each once; ``question`` says which labels and units are its own."""
    texts: list[str] = []
    for written in dict.fromkeys((answer, without_aside(answer), behind_verb(answer))):
        for text in _forms(written, question):
            if text and text not in texts:
                texts.append(text)
                yield text


def _forms(answer: str, question: str) -> Iterator[str]:
    yield answer
    if len(answer) > LONGEST:
        return
    text = plain(answer)
    yield text
    parts = parts_alone(answer)
    if parts != answer:
        yield parts
        text = plain(parts)
        yield text
    if "|" in answer and (named := named_rows(answer)):
        yield without_labels(named, question)
        yield from without_a_noun(named, question)
    for written in relabelled(parts, text, question):
        if written != text:
            yield written
            yield plain(written)


def parts_alone(answer: str) -> str:
    """Without what stands around each part: its number or bullet, the bars of a table, quotes, emphasis.

    Lines count as numbered only from 1 on, one after the other. Hyphens are bullets only where a letter follows one:
    before numbers alone they may be signs.
    """
    text = _BRACKETS_BY_NAME.sub(lambda name: "(" if name["left"] else ")", answer).strip().removeprefix("=").strip()
    if QUOTES.get(text[:1]) == text[-1:] and not set(text[1:-1]) & {text[0], text[-1]}:
        text = text[1:-1].strip()
    if _STRINGS.fullmatch(text):
        text = "\n".join(quoted or other for quoted, other in _STRING.findall(text))
    text = _NOW.sub("", text)
    if "\n" not in text and text[:1] != "|":
        text = text.replace(" | ", ", ")
    text = without_marks(_BREAK.sub("\n", text) if "<br" in text else text)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1:
        text = "\n".join(_bare_lines(lines))
    elif " & " in text:
        text = text.replace(" & ", ", ")
    return text


def named_rows(answer: str) -> str:
    """``| Ann | knave |`` as ``Ann: knave``, for each row of a table of two columns below its head; else empty."""
    head, *below = [line.strip() for line in plain(answer).split("\n") if line.strip()]
    rows = [line.strip("|").split("|") for line in below[1:]]
    rule = bool(below) and _TABLE_RULE.fullmatch(below[0]) is not None
    bars = all(line[0] == line[-1] == "|" for line in [head, *below])
    if not rule or not bars or not rows or any(len(row) != 2 for row in rows) or denies(head):
        return ""
    return "\n".join(f"{name.strip()}: {value.strip()}" for name, value in map(without_marks_in, rows))


def without_marks_in(cells: list[str]) -> list[str]:
    return [without_marks(cell.strip()) for cell in cells]


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
