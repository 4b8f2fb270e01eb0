"""Which prompts and rows a step trains on: pure rules, and for each what enters the group mean and which denominator.

rule                    enters the group mean        in the denominators
zero_gradient           all rows                     dropped groups leave (the batch shrinks)
dynamic_sampling        all rows                     dropped groups are replaced: constant batch, refilled in rounds
active_sampling         all rows                     the same, one group at a time from a queue: no barrier
no_positive_resampling  -                            a prompt that is nearly always solved is not asked again
overlong_filter         all rows, truncated ones too truncated rows lose their tokens but count in B
truncation="drop"       rows that ended              truncated rows leave both
keep_correct (RFT)      -                            only correct rows exist
keep_short (GFPO)       kept rows                    dropped rows leave

Groups without spread get advantage 0 whatever is done here; keeping them scales the update by the share of live groups,
a hidden schedule of the learning rate. Rows whose verdict is invalid (a fault that is not the policy's) must be removed
before anything else. The soft overlong punishment is a reward (rlvr.envs.rewards): add it before the group statistics.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.groups import Groups, as_floats, as_rewards
from rlvr.envs.curriculum.rates import PassRates as PassRates  # at home there, for trainers without torch

Tensor = torch.Tensor
G = TypeVar("G")


def teaches(rewards: Any, group: Any) -> Tensor:
    """[B] bool: rows whose group has at least two different rewards (zero-gradient filter: keep these).

    Largest against smallest; never std > 0, which rounding makes true for equal rewards.
    """
    groups = Groups(as_rewards(rewards), group)
    return groups.of(groups.live)


def partly_solved(rewards: Any, group: Any, *, correct: float = 1.0) -> Tensor:
    """[B] bool: rows whose group has some but not only rewards >= `correct` (DAPO's 0 < successes < G, 2503.14476).

    With partial rewards this differs from `teaches`: a group of failures of different degree teaches, but is dropped
    here.
    """
    rewards = as_rewards(rewards)
    groups = Groups((rewards >= correct).to(rewards.dtype), group)
    return groups.of(groups.live)


@dataclass
class Filled:
    """A batch of groups, and what it took to fill it. `groups` is short when the rounds ran out."""

    groups: list[Any]
    drawn: int = 0
    rounds: int = 0
    left_over: list[Any] = field(default_factory=list)

    @property
    def kept_fraction(self) -> float:
        return (len(self.groups) + len(self.left_over)) / self.drawn if self.drawn else 0.0


def fill_batch(
    draw: Callable[[int], Iterable[G]],
    want: int,
    keep: Callable[[G], bool],
    *,
    over_sampling: float = 1.0,
    max_rounds: int = 10,
) -> Filled:
    """Draw groups until `want` of them are kept: dynamic sampling with over-sampling (DAPO, 2503.14476).

    draw(n) samples n new groups (or yields what there is); keep(group) decides. Each round asks for the missing number
    times `over_sampling`. Kept groups beyond `want` are `left_over`, for the next step. After `max_rounds` the batch
    stays short: look at `kept_fraction` then, the prompts are too easy or too hard. With `draw` taking from a queue of
    finished groups, one at a time, this is active sampling (2512.13961): constant batch, no barrier.
    """
    if want < 1 or over_sampling < 1 or max_rounds < 1:
        raise ValueError(f"want={want}, over_sampling={over_sampling} and max_rounds={max_rounds} must be at least 1")
    filled = Filled([])
    kept: list[G] = []
    while len(kept) < want and filled.rounds < max_rounds:
        missing = want - len(kept)
        drawn = list(draw(max(missing, round(missing * over_sampling))))
        filled.rounds += 1
        filled.drawn += len(drawn)
        kept += [group for group in drawn if keep(group)]
    filled.groups, filled.left_over = kept[:want], kept[want:]
    return filled


TRUNCATION = ("keep", "mask", "drop")


def truncated_rows(mask: Tensor, truncated: Any, rule: str = "mask") -> tuple[Tensor, Tensor]:
    """What to do with rows that hit the length limit: (keep [B] bool, mask [B, T]).

    keep   trained on like any other row, with whatever reward they earned
    mask   overlong filtering (DAPO; TRL, oat): no token is trained on, but the reward still enters the group mean, and
    the
           row still counts in B
    drop   as if it had not been sampled: out of the group mean and of every denominator (apply keep *before*
    advantages)
    """
    if rule not in TRUNCATION:
        raise ValueError(f"unknown rule {rule!r} for truncated rows; allowed: {', '.join(TRUNCATION)}")
    truncated = torch.as_tensor(truncated, device=mask.device).bool()
    if truncated.shape != mask.shape[:1]:
        raise ValueError(f"truncated has shape {tuple(truncated.shape)}, expected ({mask.shape[0]},)")
    everything = torch.ones_like(truncated)
    if rule == "keep":
        return everything, mask
    trained = mask & ~truncated[:, None]
    return (everything if rule == "mask" else ~truncated), trained


def keep_rows(batch: Mapping[str, Any], keep: Tensor) -> dict[str, Any]:
    """The batch without the other rows: tensors and lists of first size B are cut, the rest is passed on."""
    n = len(keep)
    places = keep.nonzero()[:, 0]
    out: dict[str, Any] = {}
    for key, value in batch.items():
        if isinstance(value, torch.Tensor) and value.dim() > 0 and len(value) == n:
            out[key] = value[places.to(value.device)]
        elif isinstance(value, list) and len(value) == n:
            out[key] = [value[i] for i in places.tolist()]
        else:
            out[key] = value
    return out


def keep_correct(rewards: Any, texts: Sequence[Hashable] | None = None, *, threshold: float = 0.0) -> Tensor:
    """[B] bool: rows with reward > threshold, each distinct text once (RFT, 2308.01825; expert iteration).

    `texts`: the completions, or (prompt, completion); without them duplicates stay.
    """
    keep = as_rewards(rewards) > threshold
    if texts is None:
        return keep
    if len(texts) != len(keep):
        raise ValueError(f"{len(texts)} texts for {len(keep)} rewards")
    seen: set[Hashable] = set()
    for i in keep.nonzero()[:, 0].tolist():
        if texts[i] in seen:
            keep[i] = False
        seen.add(texts[i])
    return keep


def best_of_n(rewards: Any, group: Any, lengths: Any = None) -> Tensor:
    """[B] bool: the best row of each group; among equals the shortest, then the first. Every group keeps one."""
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    tie = torch.zeros_like(rewards) if lengths is None else as_floats(lengths).to(rewards)
    keep = torch.zeros_like(rewards, dtype=torch.bool)
    for g in range(groups.n):
        rows = (groups.index == g).nonzero()[:, 0].tolist()
        keep[max(rows, key=lambda i: (rewards[i].item(), -tie[i].item(), -i))] = True
    return keep


def mixture(proportions: Mapping[str, float], n: int, rng: random.Random) -> list[str]:
    """n domain names in fixed proportions (largest remainder), shuffled by rng: data mixing (2512.13961)."""
    if not proportions or any(share < 0 for share in proportions.values()) or sum(proportions.values()) <= 0:
        raise ValueError(f"proportions must be non-negative and not all zero: {dict(proportions)}")
    total = sum(proportions.values())
    exact = {name: n * share / total for name, share in proportions.items()}
    counts = {name: int(x) for name, x in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: n - sum(counts.values())]:
        counts[name] += 1
    names = [name for name, count in counts.items() for _ in range(count)]
    rng.shuffle(names)
    return names
