"""Which prompts and sequences a step trains on: for each rule what enters the group mean and the denominators.

rule                    enters the group mean        in the denominators
zero_gradient           all sequences                dropped groups leave (the batch shrinks)
dynamic_sampling        all sequences                dropped groups are replaced: constant batch, refilled in rounds
active_sampling         all sequences                the same, one group at a time from a queue: no barrier
no_positive_resampling  -                            a prompt that is nearly always solved is not asked again
overlong_filter         all, truncated ones too      truncated sequences lose their tokens but count in B
keep_correct (RFT)      -                            only correct sequences exist
keep_short (GFPO)       kept sequences               dropped sequences leave

Groups without spread get advantage 0 whatever is done here; keeping them scales the update by the share of live groups,
a hidden schedule of the learning rate. Sequences whose verdict is invalid (a fault that is not the policy's) must be
removed before anything else. The soft overlong punishment is a reward (rlvr.envs.rewards): add it before the group
statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import Groups, as_floats, as_rewards
from rlvr.envs.curriculum.rates import PassRates as PassRates  # at home there, for trainers without torch

G = TypeVar("G")


def has_reward_variance(rewards: Numbers, group: Numbers) -> Tensor:
    """[B] bool: sequences whose group has at least two different rewards (zero-gradient filter: keep these).

    Largest against smallest; never std > 0, which rounding makes true for equal rewards.
    """
    groups = Groups(as_rewards(rewards), group)
    return groups.broadcast(groups.live)


def mixed_outcome(rewards: Numbers, group: Numbers, *, correct: float = 1.0) -> Tensor:
    """[B] bool: of groups that have some but not only rewards >= `correct` (DAPO's 0 < successes < G, 2503.14476).

    With partial rewards this differs from `has_reward_variance`: a group of failures of different degree has variance,
    but is dropped here.
    """
    rewards = as_rewards(rewards)
    # live where 0 < successes < G                                 [B]  DAPO, 2503.14476 eq. 11
    groups = Groups((rewards >= correct).to(rewards.dtype), group)
    return groups.broadcast(groups.live)


@dataclass
class Filled:
    """A batch of groups, and what it took to fill it. `groups` is short when the rounds ran out."""

    groups: list[Any]
    drawn: int = 0
    rounds: int = 0
    left_over: list[Any] = field(default_factory=list)

    @property
    def kept_fraction(self) -> float:
        """Share of the drawn groups that were kept, those left over included; 0 before any draw."""
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
        # a round is never smaller than what is missing, so a share of kept groups ends the loop
        drawn = list(draw(max(missing, round(missing * over_sampling))))
        filled.rounds += 1
        filled.drawn += len(drawn)
        kept += [group for group in drawn if keep(group)]
    # first drawn, first kept: choosing among them would favour tasks that end early
    filled.groups, filled.left_over = kept[:want], kept[want:]
    return filled


def keep_correct(rewards: Numbers, texts: Sequence[Hashable] | None = None, *, threshold: float = 0.0) -> Tensor:
    """[B] bool: sequences with reward > threshold, each distinct text once (RFT, 2308.01825; expert iteration).

    `texts`: the completions, or (prompt, completion); without them duplicates stay.
    """
    keep = as_rewards(rewards) > threshold  # [B]
    if texts is None:
        return keep
    if len(texts) != len(keep):
        raise ValueError(f"{len(texts)} texts for {len(keep)} rewards")
    kept_keys: set[Hashable] = set()
    for i in keep.nonzero()[:, 0].tolist():
        if texts[i] in kept_keys:
            keep[i] = False
        kept_keys.add(texts[i])
    return keep


def best_of_n(rewards: Numbers, group: Numbers, lengths: Any = None) -> Tensor:
    """[B] bool: the best sequence of each group; among equals the shortest, then the first. Every group keeps one."""
    rewards = as_rewards(rewards)  # [B]
    groups = Groups(rewards, group)
    tie = torch.zeros_like(rewards) if lengths is None else as_floats(lengths).to(rewards)  # [B]
    keep = torch.zeros_like(rewards, dtype=torch.bool)
    for g in range(groups.n):
        members = (groups.index == g).nonzero()[:, 0].tolist()
        # the last key makes a draw the same on every machine
        keep[max(members, key=lambda i: (rewards[i].item(), -tie[i].item(), -i))] = True
    return keep
