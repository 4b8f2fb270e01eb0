"""maj@n: the vote of a task's samples, in which answers of one value are one answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import gymnasium as gym

from rlvr.envs.core.task import Task
from rlvr.envs.rewards import GRADERS
from rlvr.envs.rewards.graders.mathematical import equal_by_value

MOST_COMPARED = 300  # pairs of answers of one task
LONGEST_VALUE = 200  # characters of an answer that is compared by value

BY_VALUE = ("number", "math")
# A number, or an expression of numbers: no word that could be a text to spell, and no digits that could be one.
_NUMERIC = re.compile(r"(?!0\d)(?:\\(?:[dt]?frac|sqrt|pi|cdot|times|left|right|[%,;! ])|[\d\s.,+\-*/^(){}$%:])+")


def majority(answers: Sequence[str | None], correct: Sequence[bool], kind: str | None = None) -> float:
    """Whether the commonest answer of a task's samples is right, maj@n (Wang et al. 2022, arXiv 2203.11171).

    A sample without an answer has no vote. Of several commonest answers each counts alike, so the result is the chance
    to be right if one is drawn. An answer that was judged right is never one with a wrong answer of another text.

    Args:
        kind: of the grader. All right answers of one that compares with a reference are one; wrong ones of ``number``
            and ``math`` are one where exact rules find their values equal. Answers of None, an unknown grader, are
            compared by value where both are numbers or expressions of numbers. Any others are compared as text.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return 0.0
    right = {answer for answer, good in zip(answers, correct, strict=True) if good and answer is not None}
    same = _same(kind)
    of_reference = kind in GRADERS and kind not in ("code", "countdown", "format", "action")
    groups = [[*right]] if of_reference and right else [*_groups(sorted(right), same)]
    groups += _groups([answer for answer, _ in votes.most_common() if answer not in right], same)
    counts = [(sum(votes[answer] for answer in group), group[0] in right) for group in groups]
    top_count = max(count for count, _ in counts)
    leading = [good for count, good in counts if count == top_count]
    return sum(leading) / len(leading)


def grader_of(env_id: str) -> str | None:
    """The kind of grader that an environment's answers go to; None where it is not known."""
    try:
        task = gym.spec(env_id).kwargs.get("task")
        task_class = gym.envs.registration.load_env_creator(task) if isinstance(task, str) else task
    except (gym.error.Error, ImportError, AttributeError, ValueError):
        return None
    owner = task_class if isinstance(task_class, type) else type(task_class)
    if not issubclass(owner, Task):
        return None
    # A table may be given another of its graders; a task with a check of its own has none.
    kind = (
        vars(task_class).get("kind") or getattr(owner, "kind", None) or next(iter(getattr(owner, "graders", ())), None)
    )
    return kind if isinstance(kind, str) else "checked"


def _same(kind: str | None) -> Callable[[str, str], bool]:
    if kind in BY_VALUE:
        return _equal
    if kind is None:
        return lambda a, b: bool(_NUMERIC.fullmatch(a) and _NUMERIC.fullmatch(b)) and _equal(a, b)
    return lambda a, b: a.strip() == b.strip()


@lru_cache(maxsize=65_536)
def _equal(a: str, b: str) -> bool:
    return max(len(a), len(b)) <= LONGEST_VALUE and equal_by_value(a, b)


def _groups(texts: Sequence[str], same: Callable[[str, str], bool]) -> Iterator[list[str]]:
    """Texts that are the same, or are joined by others that are; what is beyond `MOST_COMPARED` pairs is by itself."""
    group = list(range(len(texts)))
    left = MOST_COMPARED
    for i, j in combinations(range(len(texts)), 2):
        if not left:
            break
        if group[i] != group[j]:
            left -= 1
            if same(texts[i], texts[j]):
                group = [group[i] if each == group[j] else each for each in group]
    for number in dict.fromkeys(group):
        yield [text for text, each in zip(texts, group, strict=True) if each == number]
