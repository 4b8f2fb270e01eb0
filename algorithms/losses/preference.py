"""Losses on pairs of rows: DPO, its length-normalised form, SimPO; and the pairs an online run makes from rewards.

A batch holds its rows as everywhere (`mask`, `ref` [B, T]); `pairs` [P, 2] names the preferred and the other row of
each pair by their line. The mean is over pairs; with micro-batches give `n_pairs` of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr.algorithms._torch import torch
from rlvr.algorithms.advantages.groups import Groups, as_rewards
from rlvr.algorithms.losses.aggregation import MissingInput, Rows, as_mask, rows_of

Tensor = torch.Tensor
Batch = Mapping[str, Any]


def dpo_loss(
    new: Tensor, batch: Batch, *, beta: float = 0.1, label_smoothing: float = 0.0, n_pairs: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Direct preference optimisation (2305.18290).

    -log sigmoid(beta (d_w - d_l)), d = sum_t (new - ref). With label smoothing e:
    -(1 - e) log sigmoid(x) - e log sigmoid(-x). Sums over tokens, so longer rows move more; see `ln_dpo_loss`.
    """
    rows, new, ref = _columns(new, batch, reference=True)
    return _pair_loss(beta * rows.sum(new - ref), batch, 0.0, label_smoothing, n_pairs, rows)


def ln_dpo_loss(
    new: Tensor, batch: Batch, *, beta: float = 5.0, label_smoothing: float = 0.0, n_pairs: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Length-normalised DPO (Tulu 3, 2411.15124): d = mean_t (new - ref), beta 5."""
    rows, new, ref = _columns(new, batch, reference=True)
    return _pair_loss(beta * rows.mean(new - ref), batch, 0.0, label_smoothing, n_pairs, rows)


def simpo_loss(
    new: Tensor, batch: Batch, *, beta: float = 2.0, gamma: float = 1.0, n_pairs: int | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """SimPO (2405.14734): -log sigmoid(beta (mean log pi(w) - mean log pi(l)) - gamma); no reference policy.

    The paper tunes both per model; there is no universal default.
    """
    rows, new, _ = _columns(new, batch, reference=False)
    return _pair_loss(beta * rows.mean(new), batch, gamma, 0.0, n_pairs, rows)


def _columns(new: Tensor, batch: Batch, *, reference: bool) -> tuple[Rows, Tensor, Tensor]:
    mask = as_mask(batch["mask"], new.device)
    if new.shape != mask.shape:
        raise ValueError(f"new has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    dtype = torch.promote_types(new.dtype, torch.float32)
    ref = batch.get("ref") if reference else new.detach()
    if ref is None:
        raise MissingInput("DPO compares with a reference: the batch needs 'ref' [B, T]; simpo_loss works without")
    ref = torch.as_tensor(ref, device=new.device).detach()
    for name, x in (("new", new), ("ref", ref)):
        if x.shape != mask.shape or not x[mask].isfinite().all():
            raise ValueError(f"{name} must be finite at trained tokens and of shape {tuple(mask.shape)}")
    return rows_of(batch, mask), torch.where(mask, new, 0).to(dtype), torch.where(mask, ref, 0).to(dtype)


def _pair_loss(
    score: Tensor, batch: Batch, gamma: float, smoothing: float, n_pairs: int | None, rows: Rows
) -> tuple[Tensor, dict[str, Tensor]]:
    """score [R]: beta times the row's log-ratio."""
    pairs = torch.as_tensor(batch["pairs"], device=score.device)
    if pairs.dim() != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(f"pairs have shape {tuple(pairs.shape)}, expected [P, 2] with at least one pair")
    if (rows.lengths[pairs] == 0).any():
        raise ValueError("a pair names a row without trained tokens")
    if not 0 <= smoothing < 0.5:
        raise ValueError(f"label_smoothing={smoothing} must lie in [0, 0.5)")
    margin = score[pairs[:, 0]] - score[pairs[:, 1]] - gamma
    log_sigmoid = torch.nn.functional.logsigmoid
    loss = -(1 - smoothing) * log_sigmoid(margin) - smoothing * log_sigmoid(-margin)
    loss = loss.sum() / (len(pairs) if n_pairs is None else n_pairs)
    stats = {
        "loss": loss.detach(),
        "margin_mean": margin.detach().mean(),
        "preferred_frac": (margin.detach() > 0).float().mean(),
        "score_chosen": score.detach()[pairs[:, 0]].mean(),
        "score_rejected": score.detach()[pairs[:, 1]].mean(),
        "n_pairs": torch.tensor(len(pairs)),
    }
    return loss, stats


def best_worst_pairs(rewards: Any, group: Any, *, min_gap: float = 0.0) -> Tensor:
    """[P, 2] the best and the worst row of each group, for online DPO (2402.04792).

    A group without spread, or whose gap does not exceed min_gap, gives no pair. Ties go to the earlier row.
    """
    return _pairs(rewards, group, min_gap, every=False)


def all_pairs(rewards: Any, group: Any, *, min_gap: float = 0.0) -> Tensor:
    """[P, 2] every pair of rows of a group whose rewards differ by more than min_gap, better row first."""
    return _pairs(rewards, group, min_gap, every=True)


def _pairs(rewards: Any, group: Any, min_gap: float, *, every: bool) -> Tensor:
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    pairs = []
    for g in range(groups.n):
        rows = (groups.index == g).nonzero()[:, 0].tolist()
        best, worst = max(rows, key=lambda i: rewards[i]), min(rows, key=lambda i: rewards[i])
        candidates = [(i, j) for i in rows for j in rows] if every else [(best, worst)]
        pairs += [(i, j) for i, j in candidates if rewards[i] - rewards[j] > min_gap]
    return torch.tensor(pairs, dtype=torch.long, device=rewards.device).reshape(-1, 2)
