"""Attacks on multiple choice: rules learnt from the train split that never see what the question is about.

``OPTIONS`` see the options alone: their words, lengths, ranks and ratios. ``BARE`` see the words of the question as
well, but none of its numbers. Each is a conditional logit over hashed features, with one weight for each feature.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

OPTION: Final = re.compile(r"^\(?([A-J])[).:] ?(.*)$", re.MULTILINE)
NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:\*10\^(-?\d+))?")
WORD: Final = re.compile(r"[^\W\d_]+|[^\w\s]")
SIZE: Final = 1 << 15
PASSES: Final = 5
MARGIN: Final = 0.10  # how much better than chance a rule may be
SIGMAS: Final = 3.5  # and how much of what it exceeds that by may be luck

OPTIONS: Final = "the options alone"
BARE: Final = "the question without its numbers"


class ChoiceQuestion(NamedTuple):
    """A prompt, taken apart; ``right`` is the index of the right option."""

    stem: str
    options: tuple[str, ...]
    right: int


def taken_apart(prompt: str, answer: str) -> ChoiceQuestion | None:
    """The question and its options; None where the prompt shows none, or the answer is none of their letters."""
    options = OPTION.findall(prompt)
    letters = [letter for letter, _ in options]
    if len(options) < 2 or answer not in letters or len(set(letters)) < len(letters):
        return None
    return ChoiceQuestion(OPTION.sub("", prompt), tuple(text for _, text in options), letters.index(answer))


def accuracy(train: Sequence[ChoiceQuestion], test: Sequence[ChoiceQuestion], sees: str) -> float:
    """The share of ``test`` that a rule learnt from ``train`` gets right."""
    weights, squares = np.zeros(SIZE), np.full(SIZE, 1e-6)
    for question, (features, starts, counts) in [(question, _hashed(question, sees)) for question in train] * PASSES:
        scores = np.add.reduceat(weights[features], starts)
        odds = np.exp(scores - scores.max())
        slopes = odds / odds.sum()
        slopes[question.right] -= 1.0
        each = np.repeat(slopes, counts)
        np.add.at(squares, features, each * each)
        np.add.at(weights, features, -0.3 * each / np.sqrt(squares[features]))
    hits = 0
    for question in test:
        features, starts, _ = _hashed(question, sees)
        hits += int(np.argmax(np.add.reduceat(weights[features], starts))) == question.right
    return hits / len(test)


def allowed(test: Sequence[ChoiceQuestion]) -> float:
    """The share that a rule without knowledge may get right: chance, the margin, and luck."""
    chance = sum(1 / len(question.options) for question in test) / len(test)
    return chance + MARGIN + SIGMAS * math.sqrt(chance * (1 - chance) / len(test))


def _hashed(question: ChoiceQuestion, sees: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of all options one after the other, where each option's begin, and how many it has."""
    words = sorted(set(WORD.findall(NUMBER.sub(" ", question.stem.lower())))) if sees == BARE else []
    drawn: list[int] = []
    counts = []
    for index in range(len(question.options)):
        features = list(_features(question.options, index))
        features += [f"{word}&{feature}" for feature in features if feature[0] != "=" for word in words]
        drawn += [zlib.crc32(feature.encode("utf-8", "replace")) % SIZE for feature in features]
        counts.append(len(features))
    return np.array(drawn), np.cumsum([0, *counts[:-1]]), np.array(counts)


def _features(options: Sequence[str], index: int) -> Iterator[str]:
    text = options[index]
    yield f"at {index}"
    yield f"length rank {sum(len(other) < len(text) for other in options)}"
    yield from (f"={word}" for word in set(WORD.findall(text.lower())))
    values = [_value(option) for option in options]
    mine = values[index]
    if mine is None:
        return
    yield f"value rank {sum(value is not None and value < mine for value in values)}"
    yield f"sign {mine < 0}"
    for value in values[:index] + values[index + 1 :]:
        if value and mine:
            yield f"ratio {mine / value:.2g}"
            yield f"size {round(4 * math.log(abs(mine / value)))}"


def _value(text: str) -> float | None:
    match = NUMBER.search(text)
    if not match:
        return None
    digits, _, power = match[0].partition("*10^")
    return float(digits) * 10.0 ** int(power or 0)
