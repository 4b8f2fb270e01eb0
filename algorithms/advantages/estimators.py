"""How much better than expected: from rewards to an advantage per row [B] or per token [B, T].

Pure functions; `compute_advantages`, at the end, picks the one that a preset names. Rewards enter as tensor, array
or list and leave in their own precision (lists as float64). Groups are any integer ids, in any order.

Two rules hold everywhere. A group teaches nothing when its largest reward equals its smallest: its advantages are
exactly 0 (testing std > 0 instead lets rounding through, and equal rewards of 0.1 then get advantages near -1). A group
of one has no peers to be compared with: it gets 0, and a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.groups import GUARD, Groups, as_floats, as_rewards
from rlvr.algorithms.advantages.returns import (
    Turns,
    at_last_token,
    brpo,
    gae,
    process_supervision,
    rebn,
    return_to_go,
    turn_gae,
    vine,
    whiten,
)
from rlvr.algorithms.losses.aggregation import MissingInput, as_mask
from rlvr.algorithms.losses.kl import reward_kl
from rlvr.algorithms.presets import Preset

Tensor = torch.Tensor
Batch = Mapping[str, Any]


def raw(rewards: Any) -> Tensor:
    """A = R (REINFORCE, Williams 1992). [B] -> [B]. Unbiased only when tokens are summed, not averaged per row."""
    return as_rewards(rewards)


def group_mean(rewards: Any, group: Any) -> Tensor:
    """A = R - mean of the group (Dr. GRPO, 2503.20783). [B] -> [B]. N/(N-1) times this is leave-one-out."""
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    return groups.centred()


def group_z(rewards: Any, group: Any, *, sample: bool = True, eps: float = GUARD) -> Tensor:
    """A = (R - mean) / (std + eps) in the group (GRPO, 2402.03300). [B] -> [B].

    The paper fixes neither Bessel's correction nor eps. Sample std: TRL (1e-4), verl and SkyRL (1e-6, as here),
    OpenRLHF (1e-9), oat (1e-8). Population std (`sample=False`): open-instruct (1e-8), GEM (1e-9). With one success in
    eight the success gets 2.475 or 2.646.
    """
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    return groups.centred() / (groups.of(groups.std(sample=sample)) + eps)


def rloo(rewards: Any, group: Any) -> Tensor:
    """A_i = R_i - mean of the others of the group (RLOO, 2402.14740). [B] -> [B].

    Equal to N/(N-1) (R_i - mean); computed so, which is exactly 0 without spread. A group of one gives 0 (verl's loop
    version gives the raw reward).
    """
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    return groups.centred() * groups.of(groups.size / (groups.size - 1).clamp(min=1))


def batch_std(rewards: Any, group: Any, *, eps: float = GUARD) -> Tensor:
    """A = (R - group mean) / (std of the rewards of the batch + eps) (Lite-PPO, 2508.08221). [B] -> [B].

    TRL calls it scale_rewards="batch". The std is of the *rewards*; ScaleRL's is of the centred ones.
    """
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    batch = Groups(rewards, torch.zeros_like(rewards, dtype=torch.long))
    return groups.centred() / (batch.std()[0] + eps)


def scalerl(rewards: Any, group: Any, *, eps: float = GUARD) -> Tensor:
    """A = (R - group mean) / (std of these over the batch + eps) (ScaleRL, 2510.13786). [B] -> [B].

    Rows of groups without spread are not counted in the std, as if they had been filtered out before.
    """
    groups = Groups(as_rewards(rewards), group)
    groups.warn_of_ones()
    centred = groups.centred()
    live = centred[groups.of(groups.live)]
    std = live.std() if len(live) > 1 else centred.new_zeros(())
    return centred / (std + eps)


def maxrl(rewards: Any, group: Any) -> Tensor:
    """A = (R - mean) / mean of the group (MaxRL, 2602.02710): hard prompts weigh more. [B] -> [B].

    Rewards must be >= 0. A group where all fail has mean 0 and gets 0.
    """
    rewards = as_rewards(rewards)
    if (rewards < 0).any():
        raise ValueError(f"MaxRL divides by the mean reward, so rewards must be >= 0, not {rewards.min().item():g}")
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    return groups.centred() / torch.where(groups.of(groups.live), groups.of(groups.mean), 1)


def reinforce_pp(
    rewards: Any, mask: Tensor, *, token_rewards: Tensor | None = None, gamma: float = 1.0, eps: float = 1e-8
) -> Tensor:
    """REINFORCE++ (2501.03262): the return to go of every token, whitened over the tokens of the batch. [B, T].

    token_rewards [B, T]: -beta k1 against the reference (`reward_kl`), added to the outcome, so that
    A_t = R - beta sum_{i >= t} k1_i before whitening. Masked tokens are skipped; verl and SkyRL reset the return there.
    """
    mask = as_mask(mask)
    per_token = at_last_token(as_rewards(rewards), mask)
    if token_rewards is not None:
        per_token = per_token + token_rewards
    return whiten(return_to_go(per_token, mask, gamma=gamma), mask, eps=eps)


def reinforce_pp_baseline(rewards: Any, group: Any, mask: Tensor, *, eps: float = 1e-8) -> Tensor:
    """REINFORCE++ with a group baseline (2501.03262): R - group mean, whitened over the tokens of the batch. [B, T].

    There is no division by the group's std. The KL belongs to the loss (k2). verl and OpenRLHF whiten over tokens as
    well.
    """
    mask = as_mask(mask)
    centred = group_mean(rewards, group)
    return whiten(centred[:, None] * mask, mask, eps=eps)


def opo(rewards: Any, group: Any, lengths: Any) -> Tensor:
    """A_i = R_i - sum_j |y_j| R_j / sum_j |y_j| over the group (OPO, 2505.23585). [B] -> [B].

    The baseline of least variance when a row's score function grows with its length. lengths [B]: trained tokens.
    """
    rewards = as_rewards(rewards)
    lengths = as_floats(lengths).to(rewards)
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    baseline = groups.sum(lengths * rewards) / groups.sum(lengths).clamp(min=1)
    return torch.where(groups.of(groups.live), rewards - groups.of(baseline), 0)


def passk(rewards: Any, group: Any, k: int) -> Tensor:
    """Advantages of the pass@k objective, in closed form (2508.10751). [B] of 0 and 1 -> [B].

    With N rows of which M are wrong, P = 1 - C(M, k)/C(N, k) and s = sqrt(P (1 - P)):
    right (1 - P)/s, wrong (1 - P - C(M - 1, k - 1)/C(N - 1, k - 1))/s, and 0 where s = 0.
    """
    rewards = as_rewards(rewards)
    if not ((rewards == 0) | (rewards == 1)).all():
        raise ValueError("pass@k counts successes: rewards must be 0 or 1")
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    right: list[float] = []
    wrong: list[float] = []
    for total, good in zip(groups.size.long().tolist(), groups.sum(rewards).long().tolist(), strict=True):
        if total > 1 and not 1 <= k <= total:
            raise ValueError(f"pass@k needs 1 <= k <= the size of the group, not k={k} with {total} rows")
        if total == 1:
            right, wrong = [*right, 0.0], [*wrong, 0.0]
            continue
        bad = total - good
        success = 1 - math.comb(bad, k) / math.comb(total, k)
        spread = math.sqrt(success * (1 - success))
        with_me = math.comb(bad - 1, k - 1) / math.comb(total - 1, k - 1) if bad else 0.0
        right.append((1 - success) / spread if spread else 0.0)
        wrong.append((1 - success - with_me) / spread if spread else 0.0)
    return torch.where(rewards == 1, groups.of(rewards.new_tensor(right)), groups.of(rewards.new_tensor(wrong)))


def passk_max(rewards: Any, group: Any) -> Tensor:
    """A = largest minus second largest reward for the best of the group, 0 for the rest (2503.19595). [B] -> [B].

    A tie for the best gives 0. verl (grpo_passk) divides by the std of the group too when its norm is on.
    """
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    groups.warn_of_ones()
    out = torch.zeros_like(rewards)
    for g in range(groups.n):
        rows = (groups.index == g).nonzero()[:, 0]
        if len(rows) > 1:
            top = rewards[rows].topk(2)
            out[rows[top.indices[0]]] = top.values[0] - top.values[1]
    return out


def gfpo_keep(rewards: Any, group: Any, lengths: Any, k: int, *, metric: str = "length") -> Tensor:
    """[B] bool: the k rows of each group that GFPO trains on (2508.09726): the shortest, or the best reward per token.

    metric: "length" or "efficiency" (reward / length). Ties go to the earlier row. A smaller group is kept whole.
    """
    if metric not in ("length", "efficiency"):
        raise ValueError(f"unknown metric {metric!r}; allowed: length, efficiency")
    if k < 1:
        raise ValueError(f"k={k}: at least one row per group must be kept")
    rewards = as_rewards(rewards)
    lengths = as_floats(lengths).to(rewards)
    score = lengths if metric == "length" else -rewards / lengths.clamp(min=1)
    groups = Groups(rewards, group)
    keep = torch.zeros_like(rewards, dtype=torch.bool)
    for g in range(groups.n):
        rows = (groups.index == g).nonzero()[:, 0]
        keep[rows[score[rows].argsort(stable=True)[:k]]] = True
    return keep


def gfpo(rewards: Any, group: Any, lengths: Any, k: int, *, metric: str = "length", eps: float = GUARD) -> Tensor:
    """z-score over the kept rows of each group, 0 for the others (GFPO, 2508.09726). [B] -> [B].

    Dropped rows must leave the denominators as well: empty their mask (`gfpo_keep`) and use count_empty_rows=False, as
    the preset does. The std is the sample's; neither paper nor code settles it.
    """
    rewards = as_rewards(rewards)
    group = torch.as_tensor(group, device=rewards.device)
    keep = gfpo_keep(rewards, group, lengths, k, metric=metric)
    out = torch.zeros_like(rewards)
    out[keep] = group_z(rewards[keep], group[keep], eps=eps)
    return out


def semantic_entropy(clusters: Any, group: Any) -> Tensor:
    """[B] entropy of the answers of each row's group, over log G: 0 when all agree, 1 when all differ.

    clusters [B] ints: rows with the same id gave the same answer. Discrete form, H = -sum_c p_c log p_c.
    """
    clusters = torch.as_tensor(clusters)
    groups = Groups(torch.zeros(len(clusters), dtype=torch.float64), group, what="group")
    out = torch.zeros(groups.n, dtype=torch.float64)
    for g in range(groups.n):
        counts = torch.unique(clusters[groups.index == g], return_counts=True)[1].double()
        p = counts / counts.sum()
        if counts.sum() > 1:
            out[g] = -(p * p.log()).sum() / math.log(counts.sum())
    return groups.of(out)


def seed_grpo(rewards: Any, group: Any, clusters: Any, *, alpha: float = 1.0, shape: str = "linear") -> Tensor:
    """A = z-score times f(alpha SE), SE the semantic entropy of the group (SEED-GRPO, 2505.12346). [B] -> [B].

    f: "linear" 1 - x, "exp" exp(-x), "focal" (1 - x)^2. The paper estimates SE from sequence
    probabilities; the authors' code, and this, from answer clusters.
    """
    advantages = group_z(rewards, group)
    x = alpha * semantic_entropy(clusters, group).to(advantages)
    scales = {"linear": 1 - x, "exp": (-x).exp(), "focal": (1 - x).square()}
    if shape not in scales:
        raise ValueError(f"unknown shape {shape!r}; allowed: {', '.join(scales)}")
    return advantages * scales[shape]


class RoleBaselines:
    """One running mean of returns per role (SPIRAL's role-conditioned advantage estimation, 2506.24119).

    A = R - b, with b read *before* it moves: b <- decay b + (1 - decay) R, from 0. A role is any hashable, for instance
    (game, player). Rows are taken in order. Save `state()` with the run and `restore` it.
    """

    def __init__(self, decay: float = 0.95, values: Mapping[Hashable, float] | None = None) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay={decay} must lie in [0, 1)")
        self.decay = decay
        self.values: dict[Hashable, float] = dict(values or {})

    def advantages(self, rewards: Any, roles: Sequence[Hashable]) -> Tensor:
        """[B] -> [B]; moves the baselines."""
        rewards = as_rewards(rewards)
        if len(roles) != len(rewards):
            raise ValueError(f"{len(roles)} roles for {len(rewards)} rewards: one per row is needed")
        out = torch.zeros_like(rewards)
        for i, (role, reward) in enumerate(zip(roles, rewards.tolist(), strict=True)):
            before = self.values.get(role, 0.0)
            out[i] = reward - before
            self.values[role] = self.decay * before + (1 - self.decay) * reward
        return out

    def state(self) -> dict[str, Any]:
        """For a checkpoint: {"decay": d, "values": [[role, baseline], ...]}."""
        return {"decay": self.decay, "values": [[role, value] for role, value in self.values.items()]}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> RoleBaselines:
        values = {tuple(role) if isinstance(role, list) else role: value for role, value in state["values"]}
        return cls(state["decay"], values)  # JSON has no tuples


def teacher_advantages(teacher: Any, student: Any, mask: Tensor) -> Tensor:
    """A_t = log teacher - log student on the student's own tokens (on-policy distillation, 2306.13649). [B, T].

    Its policy gradient is that of the reverse KL, token by token. `student`: log-probs under which the tokens were
    sampled.
    """
    teacher, student = as_floats(teacher), as_floats(student)
    return torch.where(mask, teacher - student, 0)


_WHY = {
    "mask": "[B, T] bool, True on trained tokens",
    "old": "[B, T] log-probs of the policy that is compared with the reference",
    "ref": "[B, T] log-probs of the frozen reference, for the KL in the reward; or use .but(kl_coef=0.0)",
    "values": "[B, T] the critic's values of the states before each token",
    "turn": "[B, T] int, the turn of each trained token, from 0",
    "turn_rewards": "[B, K] the reward of each turn, 0 where there was none",
    "step": "[B, T] int, the step of each trained token, from 0",
    "step_rewards": "[B, K] the reward of each step",
    "step_values": "[B, K] Monte-Carlo values of the states before each step (monte_carlo_value)",
    "roles": "[B] one hashable per row, such as (game, player)",
    "role_baselines": "a RoleBaselines, kept over the run",
    "budget_scores": "[B, S] the score of each row when its thought is cut at each budget",
    "budget_slice": "[B, T] int, the budget slice of each trained token",
    "clusters": "[B] int, equal for rows that gave the same answer",
    "teacher": "[B, T] log-probs of the teacher",
    "sampler": "[B, T] log-probs under which the tokens were sampled",
}


def compute_advantages(rewards: Any, group: Any, preset: Preset, batch: Batch | None = None) -> Tensor:
    """The advantages of a preset: [B], or [B, T] where they differ within a row.

    rewards [B], group [B] ints (ignored by estimators without groups). `batch` carries what some estimators need
    besides, one line per row, unpacked; a missing entry raises MissingInput and says what it is:

    mask [B, T]                          every estimator that returns [B, T]; gfpo, opo (lengths)
    token_rewards [B, T] (optional)      rewards per token that add up to `rewards`; raw, reinforce_pp, gae
    old, ref [B, T]                      presets with a KL in the reward
    values [B, T], bootstrap [B]         gae, turn_gae; bootstrap (optional) is V after the last token of a truncated
    row turn [B, T], turn_rewards [B, K]     turn_gae, rebn
    step [B, T], step_rewards [B, K]     process;  step_values [B, K]: vine
    budget_scores [B, S], budget_slice [B, T], budget_probs [S] (optional)   brpo
    clusters [B] seed;  roles, role_baselines rae;  teacher, sampler [B, T] teacher

    Compute them once, over the whole batch: groups, batch statistics and whitening must not see micro-batches.
    """
    batch = batch or {}
    rewards = as_rewards(rewards)
    if preset.advantage not in ON_TOKENS:
        kl = _token_kl(preset, batch)
        rewards = rewards if kl is None else rewards + kl.sum(1).to(rewards)
    advantages = ESTIMATORS[preset.advantage](rewards, group, preset, batch)
    if preset.whiten:
        mask = _mask(preset, batch)
        if advantages.dim() == 1:
            advantages = advantages[:, None] * mask
        advantages = whiten(advantages, mask)
    return advantages


def critic_targets(rewards: Any, preset: Preset, batch: Batch) -> tuple[Tensor, Tensor]:
    """What the critic should have said: (targets [B, T], mask [B, T] of where they hold), for presets with a critic.

    targets = A + V, with A before whitening. With turns only the first trained token of a turn has a value.
    """
    if not preset.critic:
        raise ValueError(f"preset {preset.name!r} (advantage {preset.advantage!r}) has no critic")
    mask = _mask(preset, batch)
    values = as_floats(_need(batch, "values", preset))
    advantages = ESTIMATORS[preset.advantage](as_rewards(rewards), None, preset, batch)
    where = mask
    if preset.advantage == "turn_gae":
        where = Turns(_need(batch, "turn", preset), mask).first_tokens()
    return torch.where(where, advantages + torch.where(mask, values, 0), 0), where


def _need(batch: Batch, key: str, preset: Preset) -> Any:
    value = batch.get(key)
    if value is None:
        raise MissingInput(f"the advantage {preset.advantage!r} of preset {preset.name!r} needs {key!r}: {_WHY[key]}")
    return value


def _mask(preset: Preset, batch: Batch) -> Tensor:
    if batch.get("row_id") is not None:
        raise ValueError("advantages are computed before packing: give them a batch with one line per row, no row_id")
    return as_mask(_need(batch, "mask", preset))


def _token_kl(preset: Preset, batch: Batch) -> Tensor | None:
    """[B, T] rewards -kl_coef * k1 per token, or None if the preset has no KL in the reward."""
    if preset.kl_place != "reward" or not preset.kl_coef:
        return None
    mask = _mask(preset, batch)
    old, ref = (as_floats(_need(batch, key, preset)) for key in ("old", "ref"))
    return reward_kl(old, ref, mask, preset.kl_coef)


def _token_rewards(rewards: Tensor, preset: Preset, batch: Batch) -> Tensor:
    """[B, T]: the batch's token rewards, or the outcome on the last trained token; with the KL, if it is a reward."""
    mask = _mask(preset, batch)
    given = batch.get("token_rewards")
    if given is None:
        per_token = at_last_token(rewards, mask)
    else:
        per_token = as_floats(given).to(rewards)
        if per_token.shape != mask.shape:
            raise ValueError(f"token_rewards have shape {tuple(per_token.shape)}, the mask {tuple(mask.shape)}")
        if not torch.allclose(per_token.sum(1), rewards, rtol=1e-4, atol=1e-5):
            raise ValueError("token_rewards must add up to the reward of their row: they say where it was earned")
    kl = _token_kl(preset, batch)
    return per_token if kl is None else per_token + kl.to(per_token)


def _raw(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    if (
        batch.get("token_rewards") is None
        and preset.gamma == 1
        and not (preset.kl_place == "reward" and preset.kl_coef)
    ):
        return raw(rewards)
    return return_to_go(_token_rewards(rewards, preset, batch), _mask(preset, batch), gamma=preset.gamma)


def _reinforce_pp(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    mask = _mask(preset, batch)
    to_go = return_to_go(_token_rewards(rewards, preset, batch), mask, gamma=preset.gamma)
    return whiten(to_go, mask)


def _bootstrap(batch: Batch) -> Tensor | None:
    value = batch.get("bootstrap")
    return None if value is None else as_floats(value)


def _gae(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    values = as_floats(_need(batch, "values", preset))
    per_token = _token_rewards(rewards, preset, batch).to(values)
    mask = _mask(preset, batch)
    return gae(per_token, values, mask, gamma=preset.gamma, lam=preset.lam, bootstrap=_bootstrap(batch))


def _turn_gae(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    return turn_gae(
        _need(batch, "turn_rewards", preset),
        as_floats(_need(batch, "values", preset)),
        _need(batch, "turn", preset),
        _mask(preset, batch),
        gamma=preset.gamma,
        lam=preset.lam,
        bootstrap=_bootstrap(batch),
    )


def _rebn(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    turn_rewards, turn = (_need(batch, key, preset) for key in ("turn_rewards", "turn"))
    return rebn(turn_rewards, turn, _mask(preset, batch), gamma=preset.gamma)


def _process(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    step_rewards, step = (_need(batch, key, preset) for key in ("step_rewards", "step"))
    return process_supervision(step_rewards, step, group, _mask(preset, batch))


def _vine(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    step_values, step = (_need(batch, key, preset) for key in ("step_values", "step"))
    return vine(rewards, step_values, step, _mask(preset, batch))


def _rae(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    baselines: RoleBaselines = _need(batch, "role_baselines", preset)
    return baselines.advantages(rewards, _need(batch, "roles", preset))


def _brpo(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    slices = brpo(_need(batch, "budget_scores", preset), group, batch.get("budget_probs"))
    mask = _mask(preset, batch)
    return Turns(_need(batch, "budget_slice", preset), mask, what="budget slice").of(slices)


def _k(preset: Preset) -> int:
    if preset.k is None:
        raise ValueError(f"preset {preset.name!r} needs k: .but(k=...)")
    return preset.k


def _lengths(preset: Preset, batch: Batch) -> Tensor:
    return _mask(preset, batch).sum(1)


def _teacher(rewards: Tensor, group: Any, preset: Preset, batch: Batch) -> Tensor:
    teacher, sampler = (_need(batch, key, preset) for key in ("teacher", "sampler"))
    return teacher_advantages(teacher, sampler, _mask(preset, batch))


Estimator = Callable[[Tensor, Any, Preset, Batch], Tensor]
ON_TOKENS = ("raw", "reinforce_pp", "gae", "turn_gae", "rebn")  # they place a KL reward on tokens, or have none
ESTIMATORS: dict[str, Estimator] = {
    "raw": _raw,
    "group_mean": lambda r, g, p, b: group_mean(r, g),
    "group_z": lambda r, g, p, b: group_z(r, g),
    "rloo": lambda r, g, p, b: rloo(r, g),
    "reinforce_pp": _reinforce_pp,
    "reinforce_pp_baseline": lambda r, g, p, b: reinforce_pp_baseline(r, g, _mask(p, b)),
    "batch_std": lambda r, g, p, b: batch_std(r, g),
    "scalerl": lambda r, g, p, b: scalerl(r, g),
    "maxrl": lambda r, g, p, b: maxrl(r, g),
    "gae": _gae,
    "turn_gae": _turn_gae,
    "rebn": _rebn,
    "vine": _vine,
    "rae": _rae,
    "brpo": _brpo,
    "passk": lambda r, g, p, b: passk(r, g, _k(p)),
    "passk_max": lambda r, g, p, b: passk_max(r, g),
    "gfpo": lambda r, g, p, b: gfpo(r, g, _lengths(p, b), _k(p)),
    "seed": lambda r, g, p, b: seed_grpo(r, g, _need(b, "clusters", p), alpha=p.alpha),
    "process": _process,
    "opo": lambda r, g, p, b: opo(r, g, _lengths(p, b)),
    "teacher": _teacher,
}
