"""Remarks around a value: words that lead to it, and an aside behind it, which say nothing about what it is.

``12/7 (in lowest terms)`` and ``Janet makes **$18.50** every day`` hold one value. Words that could change it, deny it
or doubt it, a second number and a question mark stay, and the reader refuses the whole.
"""

from __future__ import annotations

import re
from typing import Final

from rlvr.envs.rewards.grammar.words import DENIALS, NOT_UNITS, SCALES, denies

_HEDGES: Final = frozenset(
    """
    hopefully presumably supposedly apparently allegedly seems seem might may could should would think believe feel
    hope nobody knows suspect assume assuming assumed assumption tentative tentatively unverified unchecked estimate
    estimated hypothetical claims claim claimed says said suggests pretty fairly somewhat kinda whether candidate
    candidates try attempt another second alternative alternatively also exceeds exceed within until bound up
    multiple factor divisor square root cube fraction inverse before after between per rejecting ignoring wait
    actually correction oops
    """.split()
)
# "The total is 42": before a value these say that it is one.
_LINKS: Final = frozenset("is are was equals equal all both to by score".split())
_CHANGES: Final = NOT_UNITS | DENIALS | _HEDGES | frozenset(SCALES)
_ORDINARY: Final = frozenset(
    """
    in of as to for from with at by on since because is are has have already given required asked needed form
    including format order time terms units exact exactly simplified simplest reduced fully only solution
    """.split()
)
_ASIDE = re.compile(
    r"(?s)(?P<value>.*[^\s(\\{])(?:\s|\\[,;: ]|\\quad){0,4}(?:\\text(?:rm)?\{\s?)?"
    r"\((?P<words>[A-Za-z][A-Za-z0-9 ,'.:/-]{0,80})\)\}?[.!]?"
)
_FORMAT = re.compile(r"(?i:[ymdhs]{1,4}(?:[-/:. ][ymdhs]{1,4}){1,4})")
_ROUNDED = re.compile(
    r"(?:rounded )?(?:off )?(?:to|at) (?:the nearest [a-z]{3,12}|(?:\d|one|two|three|four) "
    r"(?:decimals?|decimal places?|significant (?:figures|digits)|d\.?p\.?|s\.?f\.?))|one [a-z]{1,12} per (?:line|row)",
    re.IGNORECASE,
)
_SIMPLEST = re.compile(
    r",?(?:\s|\\[,;: ]){1,4}(?:\\text\{\s?)?(?:(?:already )?in (?:its |the )?(?:simplest|lowest|reduced"
    r"|simplified|exact|standard"
    r"|interval|set|set-builder|scientific)(?: (?:form|terms|radical form|notation))?|local time|(?:is|are) "
    r"(?:needed|required|left|sold|used))\s?\}?\.?$"
)
_LEAD = re.compile(
    r"(?:(?:therefore|thus|so|hence|altogether|in total), )?(?P<words>[A-Za-z][A-Za-z' -]{0,100}?) {1,3}"
    r"(?P<value>(?:\*\*|`|\$|\\\(|[-+\u2212]?[$\u20ac\u00a3]?[0-9.]).*)",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?P<words>[A-Za-z][A-Za-z' -]{0,100}? (?:(?:is|are)(?: at| called)?|equals|becomes|was|will be|prints"
    r"|outputs|reads"
    r"|(?:arrives|leaves|starts|begins|ends) (?:at|on))) {1,3}(?P<value>\S.*)",
    re.DOTALL,
)
_OF = re.compile(r"\bof$", re.IGNORECASE)
_TOTAL_OF = re.compile(
    r"\b(?:total|amount|value|speed|cost|price|area|volume|length|age|profit|average|distance"
    r"|increase|decrease|rise|drop|gain|loss|discount) of$",
    re.IGNORECASE,
)
_TEXT_LEAD = re.compile(r"^\\(?:text|textbf|mathrm)\s?\{([^{}\\]{1,100}?)\s*\}(?:\s|\\[,;: ]){0,4}")
_NOUN = re.compile(
    r"(?P<words>(?:(?:the|an?) )?(?:(?:open|closed|half-open|ordered|solution|column) )?"
    r"(?:interval|point|set|vector|matrix|pair|triple|line|function|tuple|value|number|expression|equation)) {1,3}"
    r"(?P<value>[^A-Za-z\s=:].*)",
    re.IGNORECASE | re.DOTALL,
)


def without_aside(text: str) -> str:
    """Without a remark in brackets behind a value, or "in lowest terms".

    The remark has two words or more, one of which is of those that hold sentences together, or is a format such as
    ``YYYY-MM-DD``, or says to how many places the value is rounded.
    """
    if not text.endswith((")", "}", ".", "!")):
        return _SIMPLEST.sub("", text)
    aside = _ASIDE.fullmatch(text)
    if aside is None:
        return _SIMPLEST.sub("", text)
    remark = aside["words"].strip()
    if _FORMAT.fullmatch(remark) or _ROUNDED.fullmatch(remark):
        return aside["value"]
    if not set(re.findall("[A-Z][a-z]+", remark)).isdisjoint(re.findall("[A-Z][a-z]+", aside["value"])):
        return text  # the remark says again, or otherwise, what the value says of somebody
    words = re.findall("[a-z]+", remark.lower())
    says_nothing = _CHANGES.isdisjoint(set(words) - _LINKS) and not any(sign.isdigit() for sign in remark)
    is_remark = (
        not _ORDINARY.isdisjoint(words)
        if len(words) > 1
        else words[0] in ("exact", "exactly", "simplified", "reduced", "reversed", "sorted", "rounded", "rationalized")
    )
    return aside["value"] if says_nothing and is_remark and not denies(remark) else text


def without_lead_words(text: str) -> str:
    """What follows the words before a value: ``$18.50 every day`` of ``Janet makes $18.50 every day``.

    The value begins with a digit, a sign or a mark, or stands behind a verb such as "is".
    """
    text = _TEXT_LEAD.sub(r"\1 ", text)
    return _behind(_NOUN.fullmatch(text) or _LEAD.fullmatch(text) or _SAID.fullmatch(text), text)


def behind_verb(text: str) -> str:
    """What follows a verb such as "is": ``Rome`` of ``The capital is Rome``."""
    return _behind(_SAID.fullmatch(text), text)


def _behind(lead: re.Match[str] | None, text: str) -> str:
    if lead is None:
        return text
    words = set(re.findall("[a-z]+", lead["words"].lower()))
    if lead["words"].split()[0].lower() in ("to", "of", "for", "by", "than", "as", "that", "which", "who"):
        return text  # the words before these are not here
    if _OF.search(lead["words"]) and not _TOTAL_OF.search(lead["words"]):
        return text  # "a multiple of 42"
    return text if denies(lead["words"]) or not _CHANGES.isdisjoint(words - _LINKS) else lead["value"]
