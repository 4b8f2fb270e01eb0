"""Fouls in a description: the word itself, forbidden words and their forms, letters, sounds, numbers, other codes.

A description game passes on nothing but sentences of its own list, so that no text of a giver reaches its guesser. A
foul is a text that is no such sentence and would have given the word away. It is found by rule, in time that grows with
the text's length, and has a reason.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

FORBIDDEN, FORM, SPELLING, SOUND, NUMBER, CODE = KINDS = (
    "a forbidden word", "a form of a forbidden word", "letters", "a sound", "a number as a code", "another code",
)  # fmt: skip
SHORT: Final = 500  # characters that are looked at
_ENDINGS: Final = frozenset({
    "s", "es", "ed", "d", "ing", "y", "er", "r", "ers", "est", "ly", "ish", "like", "ness", "en", "ic", "al", "ful",
    "less", "ies", "ier", "iest", "ied", "ily", "iness",
})  # fmt: skip
_IRREGULAR: Final = {
    "mice": "mouse", "geese": "goose", "oxen": "ox", "flew": "flying", "fly": "flying", "flies": "flying",
    "flown": "flying", "flight": "flying", "heat": "hot", "heated": "hot", "cool": "cold", "chilly": "cold",
    "icy": "ice",
}  # fmt: skip
_WORD: Final = re.compile(r"[a-z]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9+/@$!|=]+")
_SINGLE: Final = re.compile(r"(?<![a-z])[a-z](?:[^a-z]{1,3}[a-z](?![a-z])){2,}")
_ABOUT_LETTERS: Final = re.compile(
    r"\b(?:letters?|spel(?:l|ls|led|t|ling)|initials?|vowels?|consonants?|syllables?|alphabet|anagram|"
    r"acrostic|(?:begin|start|end)(?:s|ning|ing)? with|prefix|suffix)\b"
)
_ABOUT_SOUND: Final = re.compile(r"\b(?:rhym(?:e|es|ed|ing)|sounds? like|pronounced|homophone)\b")
_NUMBERS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
_ORDINALS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth last".split()
_NUMBER: Final = rf"(?:\d+|{'|'.join(_NUMBERS)})"
_AS_CODE: Final = re.compile(
    rf"(?:(?:word|number|no|index|position|item|option|entry|line)\.? ?#?{_NUMBER}\b|#\d|\b\d+(?:st|nd|rd|th)\b|"
    rf"\b(?:{'|'.join(_ORDINALS)}) (?:word|one|item|entry|in|of|on)\b|\b{_NUMBER}(?:[ ,.;:/-]{{1,3}}{_NUMBER}\b)+)|"
    rf"\A\W*{_NUMBER}\W*\Z"
)
_MORSE: Final = re.compile(r"[.\-\u2022\u00b7\u2013_]{1,5}(?:[ /|]+[.\-\u2022\u00b7\u2013_]{1,5}){2,}")
_LEET: Final = str.maketrans("013457@$!|", "oieastasil")


def foul_in(text: str, forbidden: Collection[str]) -> str:
    """The kind of the first foul in a text, one of ``KINDS``; empty if there is none.

    Args:
        text: what a giver wrote in place of a sentence; hostile text is expected.
        forbidden: the word and its forbidden words, in small letters.

    >>> foul_in("It is a l-e-m-o-n", ["lemon", "food"])
    'letters'
    """
    text = text[:SHORT]
    plain = _letters_of(text)
    words = _WORD.findall(plain)
    for kind, is_foul in (
        (FORBIDDEN, any(word in forbidden for word in words)),
        (FORM, any(is_form(word, of) for word in words for of in forbidden)),
        (SPELLING, _ABOUT_LETTERS.search(plain) or _SINGLE.search(plain) or _joined(words, forbidden)),
        (SOUND, _ABOUT_SOUND.search(plain)),
        (NUMBER, _AS_CODE.search(plain)),
        (CODE, _is_code(text, words, forbidden)),
    ):
        if is_foul:
            return kind
    return ""


def is_form(word: str, of: str) -> bool:
    """Whether a word is a form of another or is composed with it: ``sweets``, ``sweetness``, ``firewood``, ``mice``.

    >>> is_form("knives", "knife"), is_form("category", "cat"), is_form("hotter", "hot")
    (True, False, True)
    """
    if word == of or _IRREGULAR.get(word) == of:
        return True
    if len(of) >= 4 and len(word) >= len(of) + 3 and (word.startswith(of) or word.endswith(of)):
        return True
    stems = {of, of + of[-1]}  # hot, hotter
    if of[-1] in "ey":
        stems.add(of[:-1])  # stone, stony
    if of.endswith(("f", "fe")):
        stems.add(of.removesuffix("e")[:-1] + "v")  # wolf, wolves
    stems.add(of.removesuffix("ing"))
    return any(len(stem) > 2 and word.startswith(stem) and word[len(stem) :] in _ENDINGS for stem in stems)


def _letters_of(text: str) -> str:
    """A text in small Latin letters without accents; letters of other scripts stay as they are."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def _joined(words: list[str], forbidden: Collection[str]) -> bool:
    """Whether neighbouring words, or the first or last letters of the words, make a forbidden word."""
    edges = "".join(word[0] for word in words), "".join(word[-1] for word in words)
    for of in forbidden:
        if any(of == edge or (len(of) > 3 and of in edge) for edge in edges):
            return True
        if any(_begins_with_parts(words[at:], of) for at in range(len(words) - 1)):
            return True
    return False


def _begins_with_parts(words: list[str], of: str) -> bool:
    """Whether the first words, written together, are a word."""
    text = ""
    for word in words:
        text += word
        if not of.startswith(text):
            return False
        if text == of:
            return True
    return False


def _is_code(text: str, words: list[str], forbidden: Collection[str]) -> bool:
    """Whether a text has letters that are not Latin, dots and dashes, or a word that decodes to a forbidden one."""
    if any(sign.isalpha() and not _letters_of(sign).isascii() for sign in text) or _MORSE.search(text):
        return True
    if any(unicodedata.category(sign) in ("So", "Cf", "Co", "Cn") for sign in text):  # pictures and signs unseen
        return True
    sorted_ones = {"".join(sorted(of)) for of in forbidden}
    if any("".join(sorted(word)) in sorted_ones for word in words):
        return True
    return any(
        of == reading or (len(of) > 3 and of in reading) for reading in _readings(text, words) for of in forbidden
    )


def _readings(text: str, words: list[str]) -> Iterator[str]:
    """What the words of a text may stand for: backwards, with letters shifted, digits for letters, base 64 and hex."""
    yield from (word[::-1] for word in words)
    for shift in range(1, 26):
        for word in words:
            yield "".join(chr((ord(letter) - 97 + shift) % 26 + 97) for letter in word)
    for token in _TOKEN.findall(text):
        yield token.lower().translate(_LEET)
        if len(token) >= 4:
            yield from _decoded(token)


def _decoded(token: str) -> Iterator[str]:
    """What a word is in base 64 and in hex, where it is text there."""
    with suppress(ValueError):
        yield base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode("ascii").lower()
    with suppress(ValueError):
        yield bytes.fromhex(token.removeprefix("0x")).decode("ascii").lower()
