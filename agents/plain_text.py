"""Text of which nothing becomes a control token, whatever it spells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

BREAK: Final = " "  # where nothing else tells a text from the token that it spells
_INSIDE: Final = "\ue000"


def control_tokens(tokenizer: Any) -> dict[str, Any]:
    """The added tokens by their spelling, special or not, that a text may not become.

    Words and blanks are none: tokenizers have added tokens for those too, and nobody's turn begins with one.
    """
    tokens = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
    special = {str(each) for each in tokenizer.all_special_tokens}
    return {
        spelling: token
        for spelling, token in {**dict.fromkeys(special), **tokens}.items()
        if spelling and (token is None or token.special or not _is_words(spelling))
    }


def _is_words(spelling: str) -> bool:
    return all(character.isalnum() or character.isspace() for character in spelling)


def any_of(spellings: Iterable[str]) -> re.Pattern[str]:
    """What finds one of the spellings, the longest of those that begin at one point."""
    ordered = sorted(filter(None, spellings), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)) or r"(?!)")


class PlainText:
    """Encodes text as the plain characters, never as the tokens that it may spell.

    Args:
        tokenizer: any Hugging Face tokenizer.
        encode: gives the ids of a text in which special tokens are text.
        tokens: the tokenizer's `control_tokens`.
        broken: spellings, of tokens or of words that delimit messages, that are encoded in other pieces than usual.

    Attributes:
        begins_after_tokens: whether what stands behind a token is encoded as if it began the text.
    """

    def __init__(
        self, tokenizer: Any, encode: Callable[[str], list[int]], tokens: Mapping[str, Any], broken: Iterable[str]
    ) -> None:
        self._tokenizer, self._encoded = tokenizer, encode
        self._ids = {tokenizer.convert_tokens_to_ids(spelling) for spelling in tokens}
        self._broken = any_of(broken)
        self.broken_ids = lru_cache(maxsize=None)(self._broken_ids)
        mark, word = self._encoded(_INSIDE), self._encoded("a")
        # Some tokenizers put a blank before whatever is encoded.
        self._mark = mark if self._encoded(f"{_INSIDE}a")[len(mark) :] != word else None
        behind = [tokenizer.encode(f"{token}a", add_special_tokens=False) for token in [*tokens][:1]]
        self.begins_after_tokens = all(list(ids[1:]) == word for ids in behind)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        if not self._broken.search(text):
            return self._encoded(text)
        ids: list[int] = []
        position = 0
        for match in self._broken.finditer(text):
            ids += self.inside(text[position : match.start()], not position) + self.broken_ids(match[0])
            position = match.end()
        return ids + self.inside(text[position:])

    def inside(self, text: str, begins: bool = False) -> list[int]:
        """The ids of a text that goes on from other text, unless it begins one."""
        if not text:
            return []
        if begins or self._mark is None:
            return self._encoded(text)
        return self._encoded(_INSIDE + text)[len(self._mark) :]

    def _broken_ids(self, spelling: str) -> list[int]:
        """Ids that decode to the spelling, and are not those that the spelling usually has."""
        usual = list(self._tokenizer.encode(spelling, add_special_tokens=False))
        for pieces in self._cuts(spelling):
            ids = [token for piece in pieces for token in self.inside(piece)]
            if ids != usual and self._ids.isdisjoint(ids):
                return ids
        return self._encoded(f"{spelling[0]}{BREAK}{spelling[1:]}")

    def _cuts(self, spelling: str) -> Iterable[tuple[str, ...]]:
        for at in range(1, len(spelling)):
            yield spelling[:at], spelling[at:]
        yield tuple(spelling)
