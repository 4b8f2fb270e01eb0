"""Numbers in English words: ``seventy-two``, ``minus two thousand and five``, ``three quarters``, ``2 and a half``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from rlvr.envs.rewards.grammar.words import SCALES

MAX_DIGITS: Final = 18

_ONES: Final = "one two three four five six seven eight nine".split()
_TEENS: Final = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES: Final = {word: value for value, word in enumerate([*_ONES, *_TEENS], 1)} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}
_PARTS: Final = {
    word: size
    for size, words in enumerate("half/halves third fourth/quarter fifth sixth seventh eighth ninth tenth".split(), 2)
    for name in words.split("/")
    for word in (name, f"{name}s")
}
_UNDER_HUNDRED: Final = rf"(?:(?:{'|'.join(_TENS)})(?:[ -](?:{'|'.join(_ONES)}))?|{'|'.join([*_TEENS, *_ONES])})"
_GROUP: Final = rf"(?:(?:{'|'.join([*_TEENS, *_ONES])}|a) hundred(?:(?: and)? {_UNDER_HUNDRED})?|{_UNDER_HUNDRED})"
_LARGE: Final = ("trillion", "billion", "million", "thousand")
# "two million three thousand and five": each scale at most once, the larger first.
_WHOLE = re.compile(
    "".join(rf"(?:(?P<{scale}>{_GROUP}|a) {scale}(?:$|,? (?:and )?))?" for scale in _LARGE) + rf"(?P<rest>{_GROUP})?"
)
_SHARE = re.compile(rf"(?P<above>{_UNDER_HUNDRED}|an?)[ -](?P<part>{'|'.join(_PARTS)})")


def spoken_number(text: str) -> Fraction | None:
    """The number that English words write, and nothing beside; None where they write none, or more than one.

    Digits may stand for the words of a whole number: ``minus 5``, ``2 dozen``, ``5 and a half``.
    """
    words = " ".join(text.lower().split())
    negative = re.match(r"(?:minus|negative) ", words)
    size = _size(words[negative.end() :] if negative else words)
    return -size if negative and size is not None else size


def _size(words: str) -> Fraction | None:
    if words == "zero":
        return Fraction(0)
    if words.endswith("dozen"):
        count = 1 if words == "a dozen" else _whole(words.removesuffix("dozen").rstrip())
        return Fraction(SCALES["dozen"] * count) if count else None
    before, _, share = words.rpartition(" and ")
    if before and (part := _share(share)) and (whole := _whole(before)):
        return whole + part
    whole = _whole(words)
    return _share(words) if whole is None else Fraction(whole)


def _whole(words: str) -> int | None:
    if words.isascii() and words.isdigit() and len(words) <= MAX_DIGITS:
        return int(words)
    match = _WHOLE.fullmatch(words)
    if match is None or not words:
        return None
    scaled = sum(_group(match[scale]) * SCALES[scale] for scale in _LARGE if match[scale])
    return scaled + _group(match["rest"] or "")


def _group(words: str) -> int:
    hundreds, hundred, rest = words.rpartition(" hundred")
    count = _VALUES.get(hundreds, 1) * 100 if hundred else 0
    return 1 if words == "a" else count + sum(_VALUES.get(word, 0) for word in re.split("[ -]", rest))


def _share(words: str) -> Fraction | None:
    """``three quarters``, ``a half``, ``half``: less than one."""
    if words == "half":
        return Fraction(1, 2)
    match = _SHARE.fullmatch(words)
    if match is None:
        return None
    above = 1 if match["above"] in ("a", "an") else _whole(match["above"]) or 0
    share = Fraction(above, _PARTS[match["part"]])
    return share if 0 < share < 1 else None
