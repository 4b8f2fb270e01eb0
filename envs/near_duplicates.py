"""Near-duplicates between splits: test tasks that a policy could answer from a train task that it remembers.

Two tasks are the same in canonical form when only names, the order of lines and of sentences differ. How much of a
prompt is known already is told by its word n-grams: those that a test prompt shares with a single train prompt, without
those that most prompts have, because they are the wording of the question.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

LENGTH: Final = 8  # words of an n-gram
COMMON: Final = 0.2  # an n-gram of more prompts than this share is the wording of the question
NEAR: Final = 0.8  # from this share of known n-grams on, a prompt is nearly one that was seen

_NAME = re.compile(r"\b[A-Z][a-z]+\b")
_PART = re.compile(r"[.;!?]\s+|\n")
_WORD = re.compile(r"\w+|[^\w\s]")


class SplitOverlap(NamedTuple):
    """What the test split has in common with the train split.

    Attributes:
        same: pairs (test, train) of prompts that are equal in canonical form.
        near: test prompts nearly all of whose n-grams stand in one train prompt.
        tried: how many test prompts were compared.
    """

    same: tuple[tuple[int, int], ...]
    near: tuple[int, ...]
    tried: int


def canonical(prompt: str) -> str:
    """A prompt with numbers for its capitalised words, its sentences in the order of the alphabet.

    A word that begins a sentence is numbered like a name: nothing tells the two apart, and nothing is lost by it.
    """
    parts = [part.rstrip(".") for part in _PART.split(prompt) if part.strip()]
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"@{len(numbers)}")

    return "\n".join(_NAME.sub(numbered, part) for part in sorted(parts, key=lambda part: _NAME.sub("@", part)))


def ngrams(prompt: str) -> set[tuple[str, ...]]:
    """The n-grams of a prompt's words and numbers."""
    words = _WORD.findall(prompt)
    return {tuple(words[start : start + LENGTH]) for start in range(max(1, len(words) - LENGTH + 1))}


def overlap(train: Sequence[str], test: Sequence[str]) -> SplitOverlap:
    """What test prompts have in common with train prompts.

    Prompts that are alike within the train split say nothing, as those of games that hide their task: none is compared
    where a tenth of the train prompts or more stand there twice.
    """
    if len(set(train)) < 0.9 * len(train):
        return SplitOverlap((), (), 0)
    by_prompt = {canonical(prompt): index for index, prompt in enumerate(train)}
    same = tuple(
        (index, by_prompt[form]) for index, prompt in enumerate(test) if (form := canonical(prompt)) in by_prompt
    )
    grams = [ngrams(prompt) for prompt in train]
    counts = Counter(gram for each in grams for gram in each)
    owners: dict[tuple[str, ...], list[int]] = {}
    for index, each in enumerate(grams):
        for gram in each:
            if counts[gram] <= COMMON * len(train):
                owners.setdefault(gram, []).append(index)
    near = []
    for index, prompt in enumerate(test):
        rare = [gram for gram in ngrams(prompt) if counts[gram] <= COMMON * len(train)]
        shared = Counter(owner for gram in rare for owner in owners.get(gram, ()))
        if rare and shared and shared.most_common(1)[0][1] >= NEAR * len(rare):
            near.append(index)
    return SplitOverlap(same, tuple(near), len(test))
