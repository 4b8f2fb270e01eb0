"""Decontamination: which rows of a training set stand in a test set too, word for word or nearly so.

Texts are compared as words: letter case, punctuation and blanks do not count, numbers do. A training text overlaps
with a test text when

- they share a run of 13 words, the measure of GPT-3 (arXiv 2005.14165, appendix C). A test text of 8 to 12 words
  must stand in the training text as a whole. So what is put before or behind a question does not hide it. A run
  that stands in more than ``common`` different training texts is a phrase of the field, and counts for nothing.
- or the Jaccard index of their sets of three-word shingles is at least ``jaccard``: a word here and there was changed.

A story told with other numbers is thus another question, unless 13 words in a row have no number among them;
``numbers=False`` compares the stories without their numbers.

The Jaccard index is exact, not estimated. Candidates are found by the rarest shingles of each text (the prefix filter
of Bayardo et al., WWW 2007): two sets that are alike enough must share one of those.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, NamedTuple

RUN: Final = 13
SHORTEST_RUN: Final = 8
SHINGLE: Final = 3
COMMON: Final = 10
JACCARD: Final = 0.8

# A word, a number, or the sign of an operation; a hyphen is one only beside a digit, stars and lines of = are none.
_WORD = re.compile(r"\d+|[^\W\d_]+|[+/<>^]|(?<!\*)\*(?!\*)|(?<!=)=(?!=)|-(?= ?\d)|(?<=\d)-")
Words = tuple[str, ...]


class Overlap(NamedTuple):
    """A training text, by its index, and the first test text found that it overlaps with.

    Attributes:
        train: index in the training set.
        test: index in the test set.
        jaccard: index of their shingles.
        run: the run of words that they share; empty when it was the Jaccard index that told.
    """

    train: int
    test: int
    jaccard: float
    run: str = ""


def find_overlaps(
    train: Sequence[str],
    test: Sequence[str],
    *,
    jaccard: float = JACCARD,
    run: int = RUN,
    common: int = COMMON,
    numbers: bool = True,
) -> list[Overlap]:
    """The training texts that overlap with a test text, in their order; one entry each.

    Args:
        train: texts that may be left out.
        test: texts that must not be trained on.
        jaccard: the index from which texts count as the same, in (0, 1].
        run: how many words in a row give an overlap away, from 8.
        common: in more different training texts than this, a run is a phrase of the field.
        numbers: whether numbers count as words.

    Raises:
        ValueError: a setting is out of its range.
    """
    if not 0.0 < jaccard <= 1.0:
        raise ValueError(f"jaccard must be in (0, 1], got {jaccard!r}")
    if run < SHORTEST_RUN or common < 1:
        raise ValueError(f"run must be at least {SHORTEST_RUN} and common at least 1, got {run!r} and {common!r}")
    ours, theirs = _indices(train, numbers), _indices(test, numbers)
    ours_words, held = list(ours), list(theirs)
    by_run = _by_run(ours_words, held, run, common)
    sets, held_sets = [_shingles(words) for words in ours_words], [_shingles(words) for words in held]
    alike = _by_jaccard({i: grams for i, grams in enumerate(sets) if i not in by_run}, held_sets, jaccard)
    overlaps = []
    for i, words in enumerate(ours_words):
        if i in by_run or i in alike:
            match, phrase = by_run.get(i) or (alike[i], "")
            index = _jaccard(sets[i], held_sets[match])
            overlaps += [Overlap(position, theirs[held[match]][0], index, phrase) for position in ours[words]]
    return sorted(overlaps)


def _indices(texts: Sequence[str], numbers: bool) -> dict[Words, list[int]]:
    """Where each different text stands; most tables say some things twice."""
    indices: dict[Words, list[int]] = {}
    for index, text in enumerate(texts):
        words = tuple(_WORD.findall(text.casefold()))
        kept = words if numbers else tuple(word for word in words if not word.isdecimal())
        indices.setdefault(kept or (text.strip(),), []).append(index)
    return indices


def _runs(words: Words, length: int) -> Iterable[Words]:
    return (words[i : i + length] for i in range(len(words) - length + 1))


def _by_run(ours: list[Words], held: list[Words], run: int, common: int) -> dict[int, tuple[int, str]]:
    """For each training text that shares a run: the test text, and the run."""
    index: dict[int, dict[Words, int]] = defaultdict(dict)
    for position, words in enumerate(held):
        length = min(run, len(words))
        if length >= SHORTEST_RUN:
            for phrase in _runs(words, length):
                index[length].setdefault(phrase, position)
    shared: dict[Words, set[int]] = defaultdict(set)
    for position, words in enumerate(ours):
        for length, phrases in index.items():
            for phrase in _runs(words, length):
                if phrase in phrases:
                    shared[phrase].add(position)
    overlaps: dict[int, tuple[int, str]] = {}
    for phrase, indices in shared.items():
        if len(indices) <= common:
            for position in indices:
                overlaps.setdefault(position, (index[len(phrase)][phrase], " ".join(phrase)))
    return overlaps


def _shingles(words: Words) -> frozenset[Words]:
    return frozenset(_runs(words, min(SHINGLE, len(words))))


def _jaccard(first: frozenset[Words], second: frozenset[Words]) -> float:
    both = len(first & second)
    return both / (len(first) + len(second) - both)


def _by_jaccard(sets: dict[int, frozenset[Words]], held: list[frozenset[Words]], least: float) -> dict[int, int]:
    """For each training set with a test set that is alike enough: the most alike, the first of equals."""
    counts: Counter[Words] = Counter()
    for shingles in (*sets.values(), *held):
        counts.update(shingles)
    rank = {shingle: position for position, shingle in enumerate(sorted(counts, key=counts.__getitem__))}

    def rarest(shingles: frozenset[Words]) -> list[int]:
        # Sets that share none of these have too few others left to be alike enough.
        enough = len(shingles) - ceil(least * len(shingles) - 1e-9) + 1
        return sorted(rank[shingle] for shingle in shingles)[:enough]

    index: dict[int, list[int]] = defaultdict(list)
    for position, shingles in enumerate(held):
        for shingle in rarest(shingles):
            index[shingle].append(position)
    overlaps = {}
    for position, shingles in sets.items():
        candidates = {other for shingle in rarest(shingles) for other in index.get(shingle, ())}
        scored = [(_jaccard(shingles, held[other]), -other) for other in candidates]
        score, other = max(scored, default=(0.0, 0))
        if score >= least - 1e-12:
            overlaps[position] = -other
    return overlaps
