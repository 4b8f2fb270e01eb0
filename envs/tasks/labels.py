"""Labels and units beside the parts of an answer, dropped where they say what the question says.

Labels count only in the order in which the question lists them, or where they count from 1 or 0; a unit only where the
question speaks of it. Nothing else is dropped: a label that says another thing stays, and the reader refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

from rlvr.envs.rewards.dressing import ARROW, plain
from rlvr.envs.rewards.grammar.words import NOT_UNITS, SCALES, denies

_NAME: Final = r"[A-Za-z][A-Za-z0-9]{0,30}(?:_\{?[0-9]{1,3}\}?)?"
# "x - 5" is a difference
_IS: Final = r"(?:=|:|\s+(?:is|are|has|holds|gets)\b(?:\s+(?:an?|the)\b)?|\s-\s+(?=[A-Za-z]))"
_LABEL = re.compile(rf"({_NAME})\s*{_IS}\s*(\S.*)", re.DOTALL)
_VALUE: Final = r"(?P<value>-?[A-Za-z0-9][A-Za-z0-9./]{0,30})"
_VALUE_AND_NAME: Final = (
    re.compile(rf"{_VALUE}\s*\((?P<name>{_NAME})\)"),
    re.compile(rf"{_VALUE} for (?P<name>{_NAME})"),
    re.compile(rf"(?P<name>{_NAME}) {_VALUE}"),
    re.compile(rf"(?P<name>[A-Za-z]{{2,30}}) - {_VALUE}"),
)
_PART_OR_AND = re.compile(r"[,;\n]|\s+and\s+")
_PART_END = re.compile(rf"[,;\n]|\s+and\s+(?=[A-Za-z][A-Za-z0-9_ ]{{0,30}}\s*{_IS})")
_COUNTED = re.compile(
    r"(?:(\\lambda|\u03bb|[A-Za-z]{1,20})[\s_]*)?\{?(\d{1,3})\}?\s*(?:[:.)]\s+|\s-\s+(?=[A-Za-z])|=)\s*(\S.*)",
    re.DOTALL,
)
_LABELLED = re.compile(r"[=:]|\d[.)]\s|\s-\s|\s(?:is|are|has|holds|gets)\s")
_NAMES_ARE = re.compile(
    r"[Tt]he [a-z]{3,20}s of (?P<names>[A-Z][a-z]{1,20}(?:(?:, |,? and )[A-Z][a-z]{1,20}){1,10}) are (?P<values>.+)"
)
_OWNED = re.compile(r"(?P<name>[A-Z][a-z]{1,20})'s (?P<noun>[a-z]{3,20})(?= (?:is|=))")
_GROUP = re.compile(
    r"(?P<names>[A-Z][a-z]{1,20}(?:(?:, |,? and )[A-Z][a-z]{1,20}){0,10}) (?:is|are)(?: both| all)?(?: an?)? "
    r"(?P<value>[a-z]{1,20})(?= ?(?:[;,.\n]|and |while |but |$))"
)
_PAIRED = re.compile(r"([A-Za-z0-9]{1,20})-([A-Za-z0-9]{1,20})")
_BRACKETED = re.compile(r"\(([A-Za-z0-9]{1,20}), ?([A-Za-z0-9]{1,20})\)")
_IN_BRACKETS = re.compile(r"\((\d{1,3})\)(?= \S)")
_NOUN_FIRST = re.compile(
    r"([A-Za-z]{3,20})(?:s\b|\b)\s*[:=]?\s+((?:\d{1,6}|[A-Z])(?:(?:,|,? and)\s+(?:\d{1,6}|[A-Z]))*)"
)
_NOUN_EACH = re.compile(r"([A-Za-z]{3,20}) (\d{1,3}|[A-Z])")
_ARTICLE = re.compile(r"^(?:in |on )?the (?=[A-Za-z])", re.IGNORECASE)
_JOINED_WORDS = re.compile(r"[A-Za-z]{1,30}(?:-[A-Za-z]{1,30}){2,60}")
_JOINED_NUMBERS = re.compile(r"\d{1,4}(?:-\d{1,4}){2,60}|\d{1,4}(?: - \d{1,4}){2,60}")
_ROUTE = re.compile(r"\b(?:path|trip|tour|route)\b")
_TRANSPOSED = re.compile(r"([\])]|\\end\{[pb]?matrix\})\s*\^\s*(?:T|\{\s*(?:T|\\top)\s*\}|\\top)\s*$")
_TO_DIGITS: Final = str.maketrans("".join(map(chr, range(0x2080, 0x208A))), "0123456789")
_INVERSE = re.compile(r"[A-Z]\s*\^\s*(?:\{\s*-1\s*\}|-1)\s*=\s*(?=\S)")
_PRINTED = re.compile(r"^print (\w{1,30})$", re.MULTILINE)
_LETTER = re.compile(r"[A-Za-z]")
_NOUN = re.compile(r"([A-Za-z]{3,20}(?: [A-Za-z]{2,20})?)\s*(?:[=:]|\s(?:is|of)\s|(?=\s-?\d))\s*(\S.*)")
_WHOLE = re.compile(rf"(\(?)((?:\\lambda|\u03bb|{_NAME})'?(?:,\s*{_NAME}){{0,20}})(\)?)\s*=\s*([^=:]*\S)", re.DOTALL)
_VALUE_IN_BRACKETS = re.compile(rf"({_NAME})\s*\(([^()]{{1,60}})\)")
_REMAINDER = re.compile(r"(-?\d+)\s*,?\s*(?:[Rr]|rem\.?|remainder)\s*(?:of|=|:)?\s*(\d+)")
_STEP = re.compile(r"([A-Za-z])\s*(?:to|-)\s*([A-Za-z])")
_PAIR = re.compile(r"(^|,\s*)\(([^()]{1,400})\)(?=\s*(?:,|$))")
_BETWEEN_WORDS = re.compile(r"(?<=[A-Za-z])\s{1,9}-\s{1,9}(?=[A-Za-z])")
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15}|/[1-9][0-9]{0,14})?")
_ASCENDING = re.compile(
    r"\b(?:ascending|increasing|from the (?:smallest|least|lowest)|(?:smallest|least|lowest) first)\b", re.IGNORECASE
)
_COUNT_OF = re.compile(r"(?:how many|number of) ([a-z]+)(?: (?!and\b)([a-z]+))?(,| and\b(?! how many\b)| or\b)?")
_WITH_UNIT = re.compile(r"(-?\d[\d,]{0,20}(?:/\d{1,12})?)\s*(?:\\ )?([A-Za-z]{2,20}(?: [A-Za-z]{4,20})?)")
_YEARS_OLD = re.compile(r"(?<=\d)(?: years old| years?(?: old)?)(?![A-Za-z])")
_LOWERED = re.compile(r"(?<=[A-Za-z\u03bb])[\u2080-\u2089]{1,3}")
_VECTOR = re.compile(r"\\vec\s*(?:\{\s*([A-Za-z])\s*\}|([A-Za-z]))")


def relabelled(parts: str, text: str, question: str) -> Iterator[str]:
    """What an answer says without its labels, without its units, or with its parts joined in another way.

    Args:
        parts: the answer whose parts have no marks of their own.
        text: the same in its plain form.
        question: says which labels and units are its own.
    """
    text = _LOWERED.sub(lambda match: "_" + match[0].translate(_TO_DIGITS), _VECTOR.sub(r"\1\2", text))
    if _LABELLED.search(text):
        yield without_labels(text, question)
        yield without_whole_label(text, question)
    if ARROW.search(parts):
        yield without_labels(plain(ARROW.sub(" = ", parts)), question)
        yield steps(ARROW.sub("-", parts))
        yield steps(plain(ARROW.sub("-", parts.replace(",\\ ", ", "))))
        yield from without_a_noun(plain(ARROW.sub(" = ", parts)), question)
    if " are " in text or ". " in text:
        yield grouped(text, question)
    owned = _OWNED.sub(lambda label: label["name"] if _has_plural(label["noun"], question) else label[0], text)
    aged = _YEARS_OLD.sub("", owned) if "how old" in question.lower() else owned
    for written in dict.fromkeys((text, aged.replace(" is ", " "))):
        if (named := named_first(written)) != written:
            yield without_labels(named, question)
    if owned != text:
        yield without_labels(owned, question)
    if ", then " in text:
        yield text.replace(", then ", ", ")
    if (together := _NAMES_ARE.fullmatch(text)) and _listed(re.split(r", | and |, and ", together["names"]), question):
        yield plain(together["values"])
    if "(" in text:
        yield without_labels(_VALUE_IN_BRACKETS.sub(r"\1 = \2", text), question)
        yield _PAIR.sub(r"\1\2", text)
    if "(" in parts:
        yield from without_a_noun(_IN_BRACKETS.sub(r"\1:", text), question)
        yield steps(_BRACKETED.sub(r"\1-\2", parts))
        yield without_labels(_BRACKETED.sub(r"\1 = \2", parts), question)
        yield without_labels(_IN_BRACKETS.sub(r"\1:", text), question)
    if "-" in text:
        yield without_labels(_PAIRED.sub(r"\1 = \2", text), question)
        yield without_hyphens(text, question)
    if "^" in parts:
        yield from without_transpose(parts, question)
    if _LETTER.search(text):
        yield without_nouns(text, question)
        yield without_units(without_nouns(text, question), question)
        if "how old" in question.lower():
            yield without_labels(_YEARS_OLD.sub("", text), question)
        yield from without_a_noun(text, question)
        yield steps(text)
    yield _BETWEEN_WORDS.sub(", ", text)
    yield without_order_signs(text, question)
    if "remainder" in question:
        yield _REMAINDER.sub(r"\1, \2", text)


def named_first(text: str) -> str:
    """``Ben = 20, Kim = 6`` for ``20 (Ben), 6 (Kim)``, ``20 for Ben, 6 for Kim``, ``Ben 20, Kim 6`` and
    ``Ben - 20, Kim - 6``, where each part is of one shape; else unchanged.
    """
    parts = [part.strip() for part in _PART_OR_AND.split(text) if part.strip()]
    for shape in _VALUE_AND_NAME:
        matches = [part for part in map(shape.fullmatch, parts) if part]
        if len(matches) == len(parts) > 1:
            return ", ".join(f"{part['name']} = {part['value']}" for part in matches)
    return text


def grouped(text: str, question: str) -> str:
    """``Ann and Cas are knaves; Ben is a knight`` as ``knave, knight, knave``, where the question lists these names."""
    values: dict[str, str] = {}
    if re.sub(r"[;,.\s]|\b(?:and|while|but)\b", "", _GROUP.sub("", text)):
        return text
    for group in _GROUP.finditer(text):
        names = re.split(r",? and |, ", group["names"])
        value = group["value"]
        if len(names) > 1:
            value = value.removesuffix("s")
        if len(set(names)) != len(names) or values.keys() & set(names) or denies(group["value"]):
            return text
        values |= dict.fromkeys(names, value)
    names = sorted(values, key=question.rfind)
    return ", ".join(values[name] for name in names) if len(values) > 1 and _listed(names, question) else text


def without_hyphens(text: str, question: str) -> str:
    """``Ann-Ben-Cas`` as ``Ann, Ben, Cas``; numbers so only where the question asks for a path, else unchanged."""
    numbers = _ROUTE.search(question) and _JOINED_NUMBERS.fullmatch(text)
    return re.sub(" ?- ?", ", ", text) if numbers or _JOINED_WORDS.fullmatch(text) else text


def without_transpose(parts: str, question: str) -> Iterator[str]:
    """``(4, -3, 1)^T`` as the column that it is, and ``A^{-1} = `` before an inverse that is asked for."""
    if "column" in question:
        column = _TRANSPOSED.sub(r"\1", parts.strip().strip("$").strip())
        yield plain(column)
        yield without_whole_label(plain(column), question)
    if "inverse" in question:
        yield plain(_INVERSE.sub("", parts, count=1))


def without_a_noun(text: str, question: str) -> Iterator[str]:
    """``Nodes 3, 5`` as ``3, 5`` and ``job 3, job 1`` as ``3, 1``, where the question has the noun and what follows is
    numbers or letters; ``the chest, in the box`` as ``chest, box``.
    """
    whole = _NOUN_FIRST.fullmatch(text)
    if whole and whole[1].lower() not in NOT_UNITS and _has_plural(whole[1], question):
        yield re.sub(r",? and\s", ", ", whole[2])
    parts = [part.strip() for part in re.split(r"[,;\n]", without_labels(text, question))]
    nouns = [part for part in map(_NOUN_EACH.fullmatch, parts) if part]
    noun = nouns[0][1].lower() if len({part[1].lower() for part in nouns}) == 1 else ""
    if len(nouns) == len(parts) and noun and noun not in NOT_UNITS and _may_name(noun, question):
        yield ", ".join(part[2] for part in nouns)
    if any(map(_ARTICLE.match, parts)):
        yield ", ".join(_ARTICLE.sub("", part, count=1) for part in parts)


def _has_plural(noun: str, question: str) -> bool:
    """Whether the question speaks of several of what a noun says, and the noun denies nothing."""
    stem = re.escape(noun.lower().removesuffix("s"))
    plural = "people" if stem == "people" else f"{stem}s"
    return not denies(noun) and re.search(rf"\b{plural}\b", question.lower()) is not None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in _PART_END.split(text) if part.strip()]


def _listed(names: Sequence[str], question: str) -> bool:
    """Whether the question lists exactly these names in this order, and none of them denies anything."""
    if _PRINTED.findall(question) == [*names]:
        return True
    words = [re.escape(name.replace("{", "").replace("}", "")) for name in names]
    if all(len(name) == 1 and name.isupper() for name in names) and not _listed_as(words, question):
        words = [f"{initial}[a-z]+" for initial in words]
    return not denies(" ".join(names)) and _listed_as(words, question)


def _listed_as(words: Sequence[str], question: str) -> bool:
    listing = r"(?<![\w,])(?<!, )(?:" + r"(?:, | and |, and )".join(words) + r")(?!\w|, (?!in this order)\w| and \w)"
    return re.search(listing, question) is not None


def without_labels(text: str, question: str) -> str:
    """``x = -11, y = 7`` as ``-11, 7``, where the question lists exactly these names in this order; else unchanged.

    Numbers count as names too if they count from 1 or 0, alone or behind one letter or one noun of the question
    (``1: Ann, 2: Ben``).
    """
    parts = _parts(text)
    counted = [part for part in map(_COUNTED.fullmatch, parts) if part]
    if (
        1 < len(counted) == len(parts)
        and len({part[1] for part in counted}) == 1
        and _may_name(counted[0][1], question)
    ):
        first = int(counted[0][2])
        if first < 2 and [int(part[2]) for part in counted] == [*range(first, first + len(counted))]:
            return ", ".join(part[3].strip() for part in counted)
    matches = [_LABEL.fullmatch(part) for part in parts]
    labels = [label[1] for label in matches if label]
    bare = [number for number, label in enumerate(matches) if not label]
    one_without = len(labels) > 1 and bare in ([0], [len(parts) - 1])  # "20, A = 1, B = 0", "x = 3, y = 4, north"
    if (bare and not one_without) or not labels or len(set(labels)) != len(labels) or not _listed(labels, question):
        return text
    return ", ".join(label[2].strip() if label else part for part, label in zip(parts, matches, strict=True))


def _may_name(word: str | None, question: str) -> bool:
    """Whether a word may stand before a value as its name: none, one letter, or a word of the question that denies
    nothing.
    """
    if word is None or len(word) == 1 or word == "\\lambda":
        return True
    stem = re.escape(word.lower().removesuffix("s"))
    stem = "colou?r" if stem == "color" else stem
    return not denies(word) and re.search(rf"\b{stem}s?\b", question.lower()) is not None


def _in_asked_order(nouns: Sequence[str], question: str) -> bool:
    """Whether the question has these nouns behind "Answer with", once each and in this order."""
    asked = question[question.lower().rfind("answer with") :].lower()
    if "how many" in (last_question := question.lower().rpartition("?")[0].replace(".\n", ". ").rpartition(". ")[2]):
        asked = max(asked, last_question, key=lambda text: sum(noun.lower() in text for noun in nouns))
    last = -1
    for noun in nouns:
        stem = re.escape(noun.lower().removesuffix("s"))
        hits = [hit.start() for hit in re.finditer(rf"\b{stem}s?\b", asked)]
        if len(hits) != 1 or hits[0] <= last or denies(noun):
            return False
        last = hits[0]
    return True


def without_nouns(text: str, question: str) -> str:
    """``hour: 16, minute: 5`` as ``16, 5``, where the question ends with these nouns, once each, in this order."""
    parts = _parts(text)
    matches = [part for part in map(_NOUN.fullmatch, parts) if part]
    bare = parts[:1] if len(matches) == len(parts) - 1 and not _NOUN.fullmatch(parts[0]) else []  # "Mon, hour 16, ..."
    if len(matches) < 2 or len(matches) + len(bare) != len(parts):
        return text
    named = _in_asked_order([part[1] for part in matches], question)
    return ", ".join(bare + [part[2].strip() for part in matches]) if named else text


def without_whole_label(text: str, question: str) -> str:
    """``(x, y) = (3, 4)`` as ``3, 4``, where the question lists the names so; a single name is one letter, with an
    index or a prime, or a word of the question.
    """
    whole = _WHOLE.fullmatch(text.strip())
    if whole is None or bool(whole[1]) != bool(whole[3]):
        return text
    names = [name.strip() for name in whole[2].split(",")]
    if len(names) > 1:
        return whole[4].strip() if _listed(names, question) else text
    letter = re.fullmatch(r"(?:\\lambda|[A-Za-z\u03bb])(?:_?\{?[0-9]{1,3}\}?)?'?", names[0])
    return whole[4].strip() if not whole[1] and (letter or _may_name(names[0], question)) else text


def without_units(text: str, question: str) -> str:
    """``160 days`` as ``160``, where the question asks for days, and so for each part of a list; else unchanged.

    Parts with different units stand in the order in which the question lists these behind "Answer with".
    """
    parts = _parts(text)
    matches = [part for part in map(_WITH_UNIT.fullmatch, parts) if part]
    units = [part[2].lower() for part in matches]
    if (
        not matches
        or len(matches) != len(parts)
        or any(unit in NOT_UNITS or unit in SCALES or denies(unit) for unit in units)
    ):
        return text
    stems = {unit.removesuffix("s") for unit in units}
    if any(" " in unit for unit in units):
        right = _are_asked(units, question)
    else:
        right = _asks_for(stems.pop(), question) if len(stems) == 1 else _in_asked_order(units, question)
    return ", ".join(part[1] for part in matches) if right else text


def _are_asked(nouns: Sequence[str], question: str) -> bool:
    """Whether the question asks how many of each of these there are, in this order: ``how many km east``."""
    return [asked[1] for asked in re.finditer(r"how many ([a-z]+ [a-z]+)", question.lower())] == [*nouns]


def _asks_for(stem: str, question: str) -> bool:
    """Whether the question asks how many of these there are, and for the number of nothing else."""
    asked = list(_COUNT_OF.finditer(question.lower()))
    if asked:
        nouns = [[noun.removesuffix("s") for noun in match.group(1, 2) if noun] for match in asked]
        return all(stem in stems and not {"and", "or"} & {*stems} for stems in nouns) and not any(
            match[3] for match in asked
        )
    return re.search(rf"\banswer in (?:whole )?{re.escape(stem)}s?\b", question.lower()) is not None


def without_order_signs(text: str, question: str) -> str:
    """``2 < 5`` as ``2, 5``, where the numbers ascend and the question asks for that; else unchanged."""
    parts = [part.strip() for part in text.split("<")]
    if len(parts) < 2 or not all(_PLAIN_NUMBER.fullmatch(part) for part in parts) or not _ASCENDING.search(question):
        return text
    values = [Fraction(part) for part in parts]
    return ", ".join(parts) if all(a < b for a, b in pairwise(values)) else text


def steps(text: str) -> str:
    """``A-B, B to C`` as ``AB, BC``: moves from one letter to another; else unchanged."""
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    matches = [step for step in map(_STEP.fullmatch, parts) if step]
    return ", ".join(step[1] + step[2] for step in matches) if matches and len(matches) == len(parts) else text
