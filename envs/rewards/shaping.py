"""Reward shaping by length, language and repetition. Pure functions of numbers and text; lengths are in tokens."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Final

from rlvr.envs.rewards.errors import BadOption


def soft_overlong(length: int, *, max_length: int = 20_480, buffer: int = 4_096) -> float:
    """DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13), in [-1, 0]; it is added to the reward.

    0 up to ``max_length - buffer``, then linear down to -1 at ``max_length`` (the hard cap on generation) and beyond.
    """
    if not 0 < buffer <= max_length:
        raise BadOption(f"0 < buffer <= max_length must hold, got {buffer} and {max_length}")
    return max(-1.0, min(0.0, (max_length - buffer - length) / buffer))


def kimi_length(lengths: Sequence[int], correct: Sequence[bool]) -> list[float]:
    """Kimi k1.5's length reward within a group of completions of one prompt (arXiv 2501.12599, section 2.3.3).

    ``lambda = 0.5 - (length - shortest) / (longest - shortest)``; a right answer gets lambda, a wrong one
    ``min(0, lambda)``; all get 0 when all lengths are equal.
    """
    if len(lengths) != len(correct) or not lengths:
        raise BadOption(f"one length for each verdict, got {len(lengths)} and {len(correct)}")
    shortest, longest = min(lengths), max(lengths)
    if shortest == longest:
        return [0.0] * len(lengths)
    ramp = [0.5 - (length - shortest) / (longest - shortest) for length in lengths]
    return [value if right else min(0.0, value) for value, right in zip(ramp, correct, strict=True)]


def l1_exact(correct: bool, length: int, target: int, *, alpha: float = 0.0003) -> float:
    """L1-Exact (arXiv 2503.04697, eq. 1): ``1[correct] - alpha * |target - length|``; the prompt states the target."""
    return float(correct) - alpha * abs(target - length)


def l1_max(correct: bool, length: int, target: int, *, alpha: float = 0.0003, delta: float = 0.5) -> float:
    """L1-Max (arXiv 2503.04697, eq. 2): ``1[correct] * clip(alpha * (target - length) + delta, 0, 1)``."""
    return float(correct) * max(0.0, min(1.0, alpha * (target - length) + delta))


def stop_properly(reward: float, truncated: bool, *, scale: float = 1.0, add: float = 0.0) -> float:
    """``reward * scale + add`` for a completion that ran into the length limit, the reward itself otherwise."""
    return reward * scale + add if truncated else reward


# Unicode blocks of the script a language is written in.
_SCRIPTS: Final[dict[str, str]] = {
    "latin": r"A-Za-z\u00c0-\u024f\u1e00-\u1eff",
    "cyrillic": r"\u0400-\u052f",
    "greek": r"\u0370-\u03ff",
    "arabic": r"\u0600-\u06ff\u0750-\u077f",
    "hebrew": r"\u0590-\u05ff",
    "devanagari": r"\u0900-\u097f",
    "thai": r"\u0e00-\u0e7f",
    "hangul": r"\uac00-\ud7af\u1100-\u11ff",
    "kana": r"\u3040-\u30ff",
    "han": r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
}
_LANGUAGES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("en", "fr", "de", "es", "it", "pt", "nl", "pl", "tr", "vi", "id"), ("latin",)),
    **dict.fromkeys(("ru", "uk", "bg"), ("cyrillic",)),
    "el": ("greek",),
    "ar": ("arabic",),
    "fa": ("arabic",),
    "he": ("hebrew",),
    "hi": ("devanagari",),
    "th": ("thai",),
    "ko": ("hangul",),
    "ja": ("kana", "han"),
    "zh": ("han",),
}
_PER_CHARACTER: Final = ("han", "kana", "thai")  # scripts without blanks between words
_WORD = re.compile(
    "|".join(f"(?P<{name}>[{block}]{'' if name in _PER_CHARACTER else '+'})" for name, block in _SCRIPTS.items())
)
_NOT_PROSE = re.compile(r"```.*?(?:```|\Z)|\$\$.*?\$\$|\$[^$\n]{0,500}\$|\\[A-Za-z]+|<[^<>\n]{1,40}>", re.DOTALL)


def language_consistency(text: str, language: str = "en") -> float:
    """Share of the words that are written in the script of the target language, in [0, 1]; 1 for no words.

    The language-consistency reward of DeepSeek-R1 (arXiv 2501.12948, section 2.3.2), measured on the chain of thought.
    Words are told apart by script, so English and French look the same; code, formulas and tags are left out.

    Raises:
        BadOption: a language that is not known.
    """
    if language not in _LANGUAGES:
        raise BadOption(f"language must be one of {', '.join(sorted(_LANGUAGES))}, got {language!r}")
    words = [match.lastgroup for match in _WORD.finditer(_NOT_PROSE.sub(" ", text))]
    if not words:
        return 1.0
    return sum(script in _LANGUAGES[language] for script in words) / len(words)


def repetition(tokens: Sequence[Hashable] | str, *, n: int = 20, weight: float = 1.0) -> float:
    """N-gram repetition penalty in [-weight, 0]: minus the share of n-grams that stood before (arXiv 2502.03373).

    Args:
        tokens: token ids, or text, which is split at blanks.
        n: length of the n-grams.
        weight: size of the penalty for a completion that only repeats.
    """
    if n < 1 or weight < 0:
        raise BadOption(f"n >= 1 and weight >= 0 must hold, got {n} and {weight}")
    items = tokens.split() if isinstance(tokens, str) else list(tokens)
    grams = [tuple(items[start : start + n]) for start in range(len(items) - n + 1)]
    if len(grams) < 2:
        return 0.0
    return -weight * (1.0 - len(set(grams)) / len(grams))


def longest_run(tokens: Sequence[Hashable]) -> int:
    """Length of the longest run of one token: a cheap alarm for a model that loops."""
    longest = run = min(1, len(tokens))
    for left, right in pairwise(tokens):
        run = run + 1 if left == right else 1
        longest = max(longest, run)
    return longest
