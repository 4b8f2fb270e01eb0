"""Random streams that never overlap, and splits that never share a task.

A stream is keyed by everything that names a task, through a cryptographic hash: item 1 of seed 0 is not item 0 of
seed 1, as it is where streams are seeded with ``seed + index``. A task belongs to a split by the hash of its own
content, so two seeds, or two levels, cannot put one task on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b

SPLITS = ("train", "validation", "test")
HELD_OUT = 0.1  # the share of tasks in each of validation and test
_TENTH = int(HELD_OUT * 2**128)


def digest(*key: object) -> int:
    """A 128-bit hash of the key, the same on every machine and in every process."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=16).digest(), "big")


def stream(*key: object) -> random.Random:
    """A random generator of its own for this key (plain strings and numbers)."""
    return random.Random(digest(*key))


def split_of(content: str) -> str:
    """The split that a task of this content belongs to: 80 % train, 10 % validation, 10 % test."""
    bucket = digest("split", content)
    if bucket < _TENTH:
        return "test"
    return "validation" if bucket < 2 * _TENTH else "train"


def divide(contents: Sequence[str]) -> dict[str, str]:
    """The split of each task of a small space: by rank of the hash, so that no split of three or more is empty.

    Raises:
        ValueError: fewer than three tasks cannot fill three splits.
    """
    ranked = sorted(set(contents), key=lambda content: digest("split", content))
    if len(ranked) < 3:
        raise ValueError(f"{len(ranked)} tasks cannot be divided into {', '.join(SPLITS)}; use split=None")
    held_out = max(1, round(HELD_OUT * len(ranked)))
    names = ["test"] * held_out + ["validation"] * held_out
    names += ["train"] * (len(ranked) - len(names))
    return dict(zip(ranked, names, strict=True))
