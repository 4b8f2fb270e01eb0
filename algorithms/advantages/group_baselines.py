"""Advantages from a group's rewards: baselines and scales. All [B] -> [B].

Pure functions, each followed by its object. Rewards enter as tensor, array or list and leave in their own precision
(lists as float64). Groups are any integer ids, in any order.

Two rules hold everywhere. A group teaches nothing when its largest reward equals its smallest: its advantages are
exactly 0 (testing std > 0 instead lets rounding through, and equal rewards of 0.1 then get advantages near -1). A group
of one has no peers to be compared with: it gets 0, and a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rlvr.algorithms.advantages.gather import parts_of_rewards
from rlvr.algorithms.advantages.token_rewards import mask_of, why
from rlvr.algorithms.core.inputs import AdvantageInputs
from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.core.sequences import EPS, Groups, as_floats, as_rewards
from rlvr.algorithms.recipe.advantage import Advantage
from rlvr.algorithms.recipe.loss_parts import Choices


def group_mean(rewards: Any, group: Any) -> Tensor:
    """A = R - mean of the group (Dr. GRPO, 2503.20783). [B] -> [B]. N/(N-1) times this is leave-one-out."""
    groups = Groups(as_rewards(rewards), group)  # [B] in Q groups
    groups.warn_of_ones()
    # A_i = R_i - mean_g                                          [B]  Dr. GRPO, 2503.20783
    return groups.centred()


GROUP_MEAN = Advantage("group_mean", "R - mean(group)", lambda x, p: group_mean(x.rewards, x.group), "2503.20783")


def group_z(rewards: Any, group: Any, *, sample: bool = True, eps: float = EPS) -> Tensor:
    """A = (R - mean) / (std + eps) in the group (GRPO, 2402.03300). [B] -> [B].

    The paper fixes neither Bessel's correction nor eps. Sample std: TRL (1e-4), verl and SkyRL (1e-6, as here),
    OpenRLHF (1e-9), oat (1e-8). Population std (`sample=False`): open-instruct (1e-8), GEM (1e-9). With one success in
    eight the success gets 2.475 or 2.646.
    """
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    # A_i = (R_i - mean_g) / (std_g + eps)                        [B]  GRPO, 2402.03300 sec. 4.1.2
    return groups.centred() / (groups.broadcast(groups.std(sample=sample)) + eps)


GROUP_Z = Advantage("group_z", "(R - mean) / std of the group", lambda x, p: group_z(x.rewards, x.group), "2402.03300")


def gdpo(reward_parts: Any, weights: Sequence[float], group: Any, *, eps: float = EPS) -> Tensor:
    """Each part of the reward as a z-score in its group, weighted and whitened (GDPO, 2601.05242). [B, M] -> [B].

    Parts of any scale count as their weights say, and sums that are equal by different parts stay apart. The batch is
    whitened over its sequences, as in the paper and its code for TRL; its code for verl does so over tokens.

    Raises:
        ValueError: not one weight for each part.
    """
    parts = as_floats(reward_parts)
    if parts.dim() != 2 or parts.shape[1] != len(weights):
        raise ValueError(f"reward_parts must be [B, {len(weights)}], a column for each weight, not {list(parts.shape)}")
    # S_i = sum_m w_m (R_im - mean_gm) / (std_gm + eps)           [B]  GDPO, 2601.05242
    scores = [weight * group_z(part, group, eps=eps) for weight, part in zip(weights, parts.unbind(1), strict=True)]
    total = torch.stack(scores).sum(0)
    # the whole batch as one group                               [B] -> [1]
    batch = Groups(total, torch.zeros_like(total, dtype=torch.long))
    # A_i = (S_i - mean_batch) / (std_batch + eps)                [B]  GDPO, 2601.05242
    # S sums to 0 in each group, so the mean is 0; subtracting its rounding would move groups without spread off 0
    return total / (batch.std()[0] + eps)


def _gdpo(x: AdvantageInputs, p: Choices) -> Tensor:
    return gdpo(x.need("reward_parts", why(p)), x.need("part_weights", why(p)), x.group)


GDPO = Advantage(
    "gdpo",
    "z over the batch of the weighted sum of each part's z in the group",
    _gdpo,
    "2601.05242",
    needs=("reward_parts", "part_weights"),
    gather=(parts_of_rewards,),
)


def rloo(rewards: Any, group: Any) -> Tensor:
    """A_i = R_i - mean of the others of the group (RLOO, 2402.14740). [B] -> [B].

    Equal to N/(N-1) (R_i - mean); computed so, which is exactly 0 without spread. A group of one gives 0 (verl's loop
    version gives the raw reward).
    """
    # A_i = R_i - mean_(j != i) R_j                               [B]  RLOO, 2402.14740
    return Groups(as_rewards(rewards), group).leave_one_out()


RLOO = Advantage("rloo", "R - mean of the others of the group", lambda x, p: rloo(x.rewards, x.group), "2402.14740")


def batch_std(rewards: Any, group: Any, *, eps: float = EPS) -> Tensor:
    """A = (R - group mean) / (std of the rewards of the batch + eps) (Lite-PPO, 2508.08221). [B] -> [B].

    TRL calls it scale_rewards="batch". The std is of the *rewards*; ScaleRL's is of the centred ones.
    """
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    # the whole batch as one group                               [B] -> [1]
    batch = Groups(rewards, torch.zeros_like(rewards, dtype=torch.long))
    # A_i = (R_i - mean_g) / (std_batch(R) + eps)                 [B]  Lite-PPO, 2508.08221
    return groups.centred() / (batch.std()[0] + eps)


BATCH_STD = Advantage(
    "batch_std",
    "(R - mean(group)) / std of the batch's rewards",
    lambda x, p: batch_std(x.rewards, x.group),
    "2508.08221",
)


def scalerl(rewards: Any, group: Any, *, eps: float = EPS) -> Tensor:
    """A = (R - group mean) / (std of these over the batch + eps) (ScaleRL, 2510.13786). [B] -> [B].

    Rows of groups without spread are not counted in the std, as if they had been filtered out before.
    """
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    centred = groups.centred()  # [B]
    live = centred[groups.broadcast(groups.live)]  # [n], those of groups with spread
    std = live.std() if len(live) > 1 else centred.new_zeros(())  # [], with Bessel's correction
    # A_i = c_i / (std_batch(c) + eps), c_i = R_i - mean_g        [B]  ScaleRL, 2510.13786
    return centred / (std + eps)


SCALERL = Advantage(
    "scalerl",
    "(R - mean(group)) / std of these over the batch",
    lambda x, p: scalerl(x.rewards, x.group),
    "2510.13786",
)


def maxrl(rewards: Any, group: Any) -> Tensor:
    """A = (R - mean) / mean of the group (MaxRL, 2602.02710): hard prompts weigh more. [B] -> [B].

    Rewards must be >= 0. A group where all fail has mean 0 and gets 0.
    """
    rewards = as_rewards(rewards)
    # a negative mean would turn the sign of the advantage
    if (rewards < 0).any():
        raise ValueError(f"MaxRL divides by the mean reward, so rewards must be >= 0, not {rewards.min().item():g}")
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    # A_i = (R_i - mean_g) / mean_g                               [B]  MaxRL, 2602.02710
    return groups.centred() / torch.where(groups.broadcast(groups.live), groups.broadcast(groups.mean), 1)


MAXRL = Advantage("maxrl", "(R - mean) / mean of the group", lambda x, p: maxrl(x.rewards, x.group), "2602.02710")


def opo(rewards: Any, group: Any, lengths: Any) -> Tensor:
    """A_i = R_i - sum_j |y_j| R_j / sum_j |y_j| over the group (OPO, 2505.23585). [B] -> [B].

    The baseline of least variance when a sequence's score function grows with its length. lengths [B]: trained tokens.
    """
    rewards = as_rewards(rewards)
    lengths = as_floats(lengths).to(rewards)  # [B] trained tokens
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    # b_g = sum_j |y_j| R_j / sum_j |y_j|,  A_i = R_i - b_g       [B]  OPO, 2505.23585
    baseline = groups.sum(lengths * rewards) / groups.sum(lengths).clamp(min=1)  # [Q]
    # rounding of the baseline must not make an advantage where all rewards are equal
    return torch.where(groups.broadcast(groups.live), rewards - groups.broadcast(baseline), 0)


OPO = Advantage(
    "opo",
    "R - length-weighted mean(group)",
    lambda x, p: opo(x.rewards, x.group, mask_of(x, p).sum(1)),
    "2505.23585",
    needs=("mask",),
)


def passk(rewards: Any, group: Any, k: int) -> Tensor:
    """Advantages of the pass@k objective, in closed form (2508.10751). [B] of 0 and 1 -> [B].

    With N sequences of which M are wrong, P = 1 - C(M, k)/C(N, k) and s = sqrt(P (1 - P)):
    right (1 - P)/s, wrong (1 - P - C(M - 1, k - 1)/C(N - 1, k - 1))/s, and 0 where s = 0.
    """
    rewards = as_rewards(rewards)
    if not ((rewards == 0) | (rewards == 1)).all():
        raise ValueError("pass@k counts successes: rewards must be 0 or 1")
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    right: list[float] = []  # [Q] the advantage of a success of each group
    wrong: list[float] = []  # [Q] and of a failure
    for total, good in zip(groups.size.long().tolist(), groups.sum(rewards).long().tolist(), strict=True):
        if total > 1 and not 1 <= k <= total:
            raise ValueError(f"pass@k needs 1 <= k <= the size of the group, not k={k} with {total} sequences")
        if total == 1:
            right, wrong = [*right, 0.0], [*wrong, 0.0]
            continue
        bad = total - good
        # P = 1 - C(M, k)/C(N, k), s = sqrt(P (1 - P)), M of N wrong               []  2508.10751
        # right: A = (1 - P)/s; wrong: A = (1 - P - C(M-1, k-1)/C(N-1, k-1))/s     [B]  2508.10751
        success = 1 - math.comb(bad, k) / math.comb(total, k)  # P, that k drawn without return hold a success
        std = math.sqrt(success * (1 - success))
        # that the k - 1 drawn beside a failure fail
        with_me = math.comb(bad - 1, k - 1) / math.comb(total - 1, k - 1) if bad else 0.0
        right.append((1 - success) / std if std else 0.0)
        wrong.append((1 - success - with_me) / std if std else 0.0)
    return torch.where(
        rewards == 1, groups.broadcast(rewards.new_tensor(right)), groups.broadcast(rewards.new_tensor(wrong))
    )


def _passk(x: AdvantageInputs, p: Choices) -> Tensor:
    if p.pass_k is None:
        raise ValueError(f"preset {p.name!r} needs pass_k: .replace(pass_k=...)")
    return passk(x.rewards, x.group, p.pass_k)


PASSK = Advantage("passk", "pass@k in closed form", _passk, "2508.10751")


def passk_max(rewards: Any, group: Any) -> Tensor:
    """A = largest minus second largest reward for the best of the group, 0 for the rest (2503.19595). [B] -> [B].

    A tie for the best gives 0. verl (grpo_passk) divides by the std of the group too when its norm is on.
    """
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    out = torch.zeros_like(rewards)  # [B]
    for g in range(groups.n):
        members = (groups.index == g).nonzero()[:, 0]  # [G] indices into the batch
        if len(members) > 1:
            top = rewards[members].topk(2)  # values [2], indices [2] into the group
            # A_best = R_(1) - R_(2), else 0                              [B]  2503.19595
            out[members[top.indices[0]]] = top.values[0] - top.values[1]
    return out


PASSK_MAX = Advantage(
    "passk_max",
    "largest - second largest, for the best",
    lambda x, p: passk_max(x.rewards, x.group),
    "2503.19595",
)


def gfpo_keep(rewards: Any, group: Any, lengths: Any, k: int, *, metric: str = "length") -> Tensor:
    """[B] bool: the k of each group that GFPO trains on (2508.09726): the shortest, or the best reward per token.

    metric: "length" or "efficiency" (reward / length). Ties go to the earlier sequence. A smaller group is kept whole.
    """
    if metric not in ("length", "efficiency"):
        raise ValueError(f"unknown metric {metric!r}; allowed: length, efficiency")
    if k < 1:
        raise ValueError(f"k={k}: at least one sequence per group must be kept")
    rewards = as_rewards(rewards)
    lengths = as_floats(lengths).to(rewards)
    score = lengths if metric == "length" else -rewards / lengths.clamp(min=1)  # [B], smallest is best
    groups = Groups(rewards, group)
    keep = torch.zeros_like(rewards, dtype=torch.bool)  # [B]
    for g in range(groups.n):
        members = (groups.index == g).nonzero()[:, 0]
        # keep_i = 1[score_i is among the k smallest of its group]      [B]  GFPO, 2508.09726
        keep[members[score[members].argsort(stable=True)[:k]]] = True
    return keep


def gfpo(rewards: Any, group: Any, lengths: Any, k: int, *, metric: str = "length", eps: float = EPS) -> Tensor:
    """z-score over the kept sequences of each group, 0 for the others (GFPO, 2508.09726). [B] -> [B].

    Dropped sequences must leave the denominators as well: empty their mask (`gfpo_keep`) and use
    count_empty_sequences=False, as the preset does. The std is the sample's; neither paper nor code settles it.
    """
    rewards = as_rewards(rewards)
    group = torch.as_tensor(group, device=rewards.device)
    keep = gfpo_keep(rewards, group, lengths, k, metric=metric)  # [B]
    out = torch.zeros_like(rewards)
    # A_i = (R_i - mean_kept) / (std_kept + eps) where kept, else 0  [B]  GFPO, 2508.09726
    out[keep] = group_z(rewards[keep], group[keep], eps=eps)
    return out


def group_keep(p: Choices) -> int:
    """GFPO's k.

    Raises:
        ValueError: the preset does not say.
    """
    if p.group_keep is None:
        raise ValueError(f"preset {p.name!r} needs group_keep: .replace(group_keep=...)")
    return p.group_keep


GFPO = Advantage(
    "gfpo",
    "(R - mean) / std of the k kept sequences",
    lambda x, p: gfpo(x.rewards, x.group, mask_of(x, p).sum(1), group_keep(p)),
    "2508.09726",
    needs=("mask",),
)
