"""What samples of tasks say about a policy, and how sure one can be: the samples of one task are one cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)


def wilson(successes: float, trials: float, z: float = Z) -> tuple[float, float]:
    """The 95 % confidence interval of a share (Wilson 1927): honest near 0 and 1, where the normal one is not.

    Trials need not be whole: `effective_trials` are what correlated ones amount to.
    """
    if trials <= 0:
        return 0.0, 1.0
    share, shrinkage = successes / trials, z * z / trials
    centre = (share + shrinkage / 2) / (1 + shrinkage)
    half = z / (1 + shrinkage) * math.sqrt(share * (1 - share) / trials + shrinkage / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


def clustered_variance(successes: Sequence[float], trials: Sequence[int]) -> float:
    """The variance of the share of successes, where the trials of one task are not independent.

    The share m = sum s_t / sum n_t is a ratio of sums over T tasks, its variance
    T / (T - 1) * sum (s_t - m n_t)^2 / (sum n_t)^2 (Miller 2024, arXiv 2411.00640, section 2.2, with the correction for
    few clusters).

    Args:
        successes: s_t [T], of each task.
        trials: n_t [T], at least 1 each.
    """
    tasks, total = len(trials), sum(trials)
    if tasks < 2:
        return math.inf
    share = math.fsum(successes) / total
    squares = math.fsum((s - share * n) ** 2 for s, n in zip(successes, trials, strict=True))
    return tasks / (tasks - 1) * squares / total**2


def effective_trials(successes: Sequence[float], trials: Sequence[int]) -> float:
    """How many independent trials would be as sure: n_eff = m (1 - m) / variance, between 1 and the trials there are.

    Four copies of one answer count as one. Where every task ends alike, nothing tells how much the trials of one task
    have in common, and a task counts as one trial.
    """
    total = sum(trials)
    if total == len(trials):
        return float(total)
    share = math.fsum(successes) / total
    variance = clustered_variance(successes, trials)
    if math.isinf(variance):
        return 1.0
    if share in (0.0, 1.0):
        return float(len(trials))
    return total if variance == 0 else min(max(1.0, share * (1 - share) / variance), float(total))


def share_interval(successes: Sequence[float], trials: Sequence[int]) -> tuple[float, float]:
    """The 95 % interval of the share of successes: Wilson's, with `effective_trials`.

    In simulations of 20 to 100 tasks with 4 samples each, whose chances follow six beta distributions, it holds the
    truth 94 to 97 % of the time; with a seventh, under which one episode in twenty succeeds, 92 to 97 %.
    """
    if not trials:
        return 0.0, 1.0
    effective = effective_trials(successes, trials)
    return wilson(math.fsum(successes) / sum(trials) * effective, effective)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of independent numbers: mean plus or minus Student's t times s / sqrt(n)."""
    count = len(values)
    if count < 2:
        return -math.inf, math.inf
    mean = math.fsum(values) / count
    standard_error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    half = student(count - 1) * standard_error
    return mean - half, mean + half


def success_difference_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of differences between shares, each from -1 to 1.

    `mean_interval`, cut to -1 and 1. Where n differences are all v, their spread says nothing; what was not seen in n
    tasks befalls a share of at most p = 1 - 0.05^(1 / n) of all tasks (Hanley and Lippman-Hand 1983, the rule of
    three), and moves the mean by at most p (1 + v) down and p (1 - v) up.
    """
    if len(values) > 1 and min(values) == max(values):
        share = 1 - 0.05 ** (1 / len(values))
        return values[0] - share * (1 + values[0]), values[0] + share * (1 - values[0])
    low, high = mean_interval(values)
    return (low, high) if math.isinf(low) else (max(-1.0, low), min(1.0, high))


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, to 0.005 (Abramowitz and Stegun 26.7.5; 1 and 2 degrees in closed form)."""
    if degrees < 1:
        return math.inf
    if degrees == 1:
        return math.tan(math.pi * 0.475)
    if degrees == 2:
        return 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025))
    x, n = Z, degrees
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / n**power for power, term in enumerate(terms, 1))


def pass_at_k(successes: int, trials: int, k: int) -> float:
    """The chance that at least one of k samples of a task succeeds: 1 - C(n - c, k) / C(n, k).

    Unbiased (Chen et al. 2021, arXiv 2107.03374, equation 1).

    Raises:
        ValueError: there are fewer than k samples.
    """
    return 1.0 - pass_all_k(trials - successes, trials, k)


def pass_all_k(successes: int, trials: int, k: int) -> float:
    """The chance that all of k samples of a task succeed, pass^k: C(c, k) / C(n, k).

    Unbiased (Yao et al. 2024, arXiv 2406.12045, section 4).

    Raises:
        ValueError: there are fewer than k samples.
    """
    if not 1 <= k <= trials:
        raise ValueError(f"k must be from 1 to the number of samples, {trials}; got {k}")
    return math.comb(successes, k) / math.comb(trials, k)
