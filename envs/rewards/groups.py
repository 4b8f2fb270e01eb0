"""Rewards that need more than one completion, or more than one turn: pass@k, diversity, reward-to-go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

from rlvr.envs.core.verdict import Verdict
from rlvr.envs.rewards.errors import BadOption


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Unbiased estimate of pass@k from ``samples`` completions, ``correct`` of them right (arXiv 2107.03374, eq. 1)."""
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise BadOption(f"0 <= correct <= samples and 1 <= k <= samples must hold, got {correct}, {samples}, k={k}")
    return 1.0 - comb(samples - correct, k) / comb(samples, k)


def pass_at_k_rewards(correct: Sequence[bool], k: int) -> list[float]:
    """Each completion's chance that a random k-subset of the group which holds it contains a right answer.

    The expected reward of pass@k training (arXiv 2508.10751) without drawing subsets: 1 for a right answer, and
    ``1 - C(wrong - 1, k - 1) / C(n - 1, k - 1)`` for a wrong one. With k = 1 it is the plain reward.
    """
    n, wrong = len(correct), sum(not right for right in correct)
    if not 1 <= k <= n:
        raise BadOption(f"1 <= k <= {n} (the group size) must hold, got {k}")
    shared = 1.0 - comb(wrong - 1, k - 1) / comb(n - 1, k - 1) if wrong else 1.0
    return [1.0 if right else shared for right in correct]


def diversity(texts: Sequence[str], *, n: int = 3) -> list[float]:
    """Mean Jaccard distance of each text's word n-grams to those of the others in its group, in [0, 1]."""
    if n < 1:
        raise BadOption(f"n must be at least 1, got {n}")
    grams = [_grams(text, n) for text in texts]
    if len(grams) < 2:
        return [0.0] * len(grams)
    return [
        sum(_distance(mine, other) for position, other in enumerate(grams) if position != index) / (len(grams) - 1)
        for index, mine in enumerate(grams)
    ]


def rare_answers(verdicts: Sequence[Verdict]) -> list[float]:
    """One over the number of completions in the group with the same answer; 0 where no answer was found."""
    counts = Counter(verdict.answer for verdict in verdicts)
    return [0.0 if verdict.answer is None else 1.0 / counts[verdict.answer] for verdict in verdicts]


def turn_rewards(turns: Sequence[Verdict], outcome: Verdict, *, turn_weight: float = 1.0) -> list[float]:
    """One reward a turn: its own verdict times ``turn_weight``, and the outcome added to the last.

    A turn with an invalid verdict contributes 0: a failing tool is not the policy's doing.
    """
    if not turns:
        raise BadOption("an episode has at least one turn")
    rewards = [turn_weight * turn.reward if turn.valid else 0.0 for turn in turns]
    rewards[-1] += outcome.reward if outcome.valid else 0.0
    return rewards


def _grams(text: str, n: int) -> frozenset[tuple[str, ...]]:
    words = text.casefold().split()
    size = min(n, len(words)) or 1
    return frozenset(tuple(words[start : start + size]) for start in range(len(words) - size + 1))


def _distance(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> float:
    union = len(left | right)
    return 1.0 - len(left & right) / union if union else 0.0
