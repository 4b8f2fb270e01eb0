"""Losses on pairs of sequences: DPO, its length-normalised form, SimPO; and the pairs an online run makes from rewards.

A batch holds its sequences as everywhere (`mask`, `ref_logprobs` [B, T]); `pairs` [P, 2] names the preferred and the
other one of each pair by their index. The mean is over pairs; with micro-batches give `n_pairs` of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlvr.algorithms.core.inputs import LossInputs, MissingInput
from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import Groups, SequenceIndex, as_mask, as_rewards, sequences_of

Batch = LossInputs | Mapping[str, object]


def dpo_loss(
    new: Tensor,
    batch: Batch,
    pairs: Numbers | None = None,
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    n_pairs: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Direct preference optimisation (2305.18290).

    -log sigmoid(beta (d_w - d_l)), d = sum_t (new - ref). With label smoothing e:
    -(1 - e) log sigmoid(x) - e log sigmoid(-x). Sums over tokens, so longer sequences move more; see `ln_dpo_loss`.
    """
    sequences, new, ref = _columns(new, batch, reference=True)
    # d_i = beta sum_t (new_t - ref_t)                               [R]  DPO, 2305.18290 eq. 7
    return _pair_loss(beta * sequences.sum(new - ref), pairs_of(batch, pairs), 0.0, label_smoothing, n_pairs, sequences)


def ln_dpo_loss(
    new: Tensor,
    batch: Batch,
    pairs: Numbers | None = None,
    *,
    beta: float = 5.0,
    label_smoothing: float = 0.0,
    n_pairs: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Length-normalised DPO (Tulu 3, 2411.15124): d = mean_t (new - ref), beta 5."""
    sequences, new, ref = _columns(new, batch, reference=True)
    return _pair_loss(
        # d_i = beta mean_t (new_t - ref_t)                              [R]  LN-DPO, 2411.15124
        beta * sequences.mean(new - ref),
        pairs_of(batch, pairs),
        0.0,
        label_smoothing,
        n_pairs,
        sequences,
    )


def simpo_loss(
    new: Tensor,
    batch: Batch,
    pairs: Numbers | None = None,
    *,
    beta: float = 2.0,
    gamma: float = 1.0,
    n_pairs: int | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """SimPO (2405.14734): -log sigmoid(beta (mean log pi(w) - mean log pi(l)) - gamma); no reference policy.

    The paper tunes both per model; there is no universal default.
    """
    sequences, new, _ = _columns(new, batch, reference=False)
    # d_i = beta mean_t new_t, with a margin gamma                   [R]  SimPO, 2405.14734 eq. 6
    return _pair_loss(beta * sequences.mean(new), pairs_of(batch, pairs), gamma, 0.0, n_pairs, sequences)


def _columns(
    new: Tensor, batch: Batch, pairs: Numbers | None = None, *, reference: bool
) -> tuple[SequenceIndex, Tensor, Tensor]:
    entries = LossInputs.of(batch)
    mask = as_mask(entries.mask, new.device)  # [B, T]
    if new.shape != mask.shape:
        raise ValueError(f"new has shape {tuple(new.shape)}, the mask {tuple(mask.shape)}; both are [B, T]")
    dtype = torch.promote_types(new.dtype, torch.float32)
    ref = entries.ref_logprobs if reference else new.detach()
    if ref is None:
        raise MissingInput(
            "DPO compares with a reference: the batch needs 'ref_logprobs' [B, T]; simpo_loss works without"
        )
    ref = torch.as_tensor(ref, device=new.device).detach()  # [B, T]
    for name, x in (("new", new), ("ref_logprobs", ref)):
        if x.shape != mask.shape or not x[mask].isfinite().all():
            raise ValueError(f"{name} must be finite at trained tokens and of shape {tuple(mask.shape)}")
    return sequences_of(entries, mask), torch.where(mask, new, 0).to(dtype), torch.where(mask, ref, 0).to(dtype)


def pairs_of(batch: Batch, pairs: Numbers | None) -> Any:
    """[P, 2] indices: as given, or the batch's own.

    Raises:
        MissingInput: neither has them.
    """
    pairs = LossInputs.of(batch).pairs if pairs is None else pairs
    if pairs is None:
        raise MissingInput("a preference loss needs 'pairs': [P, 2] ints, the preferred and the other sequence of each")
    return pairs


def _pair_loss(
    score: Tensor, pairs: Any, gamma: float, smoothing: float, n_pairs: int | None, sequences: SequenceIndex
) -> tuple[Tensor, dict[str, Tensor]]:
    """score [R]: beta times the sequence's log-ratio."""
    pairs = torch.as_tensor(pairs, device=score.device)  # [P, 2]
    if pairs.dim() != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ValueError(f"pairs have shape {tuple(pairs.shape)}, expected [P, 2] with at least one pair")
    if (sequences.lengths[pairs] == 0).any():
        raise ValueError("a pair names a sequence without trained tokens")
    if not 0 <= smoothing < 0.5:
        raise ValueError(f"label_smoothing={smoothing} must lie in [0, 0.5)")
    # m = d_w - d_l - gamma; l = -(1 - e) log sigmoid(m) - e log sigmoid(-m)   [P]  2305.18290 eq. 7
    margin = score[pairs[:, 0]] - score[pairs[:, 1]] - gamma  # [P]
    log_sigmoid = torch.nn.functional.logsigmoid
    loss = -(1 - smoothing) * log_sigmoid(margin) - smoothing * log_sigmoid(-margin)
    loss = loss.sum() / (len(pairs) if n_pairs is None else n_pairs)  # [P] -> []
    stats = {
        "loss": loss.detach(),
        "margin_mean": margin.detach().mean(),
        "preferred_frac": (margin.detach() > 0).float().mean(),
        "score_chosen": score.detach()[pairs[:, 0]].mean(),
        "score_rejected": score.detach()[pairs[:, 1]].mean(),
        "n_pairs": torch.tensor(len(pairs)),
    }
    return loss, stats


def best_worst_pairs(rewards: Numbers, group: Numbers, *, min_gap: float = 0.0) -> Tensor:
    """[P, 2] the best and the worst sequence of each group, for online DPO (2402.04792).

    A group without spread, or whose gap does not exceed min_gap, gives no pair. Ties go to the earlier one.
    """
    return _pairs(rewards, group, min_gap)  # [P, 2]


def _pairs(rewards: Numbers, group: Numbers, min_gap: float) -> Tensor:
    rewards = as_rewards(rewards)
    groups = Groups(rewards, group)
    pairs = []
    for g in range(groups.n):
        members = (groups.index == g).nonzero()[:, 0].tolist()  # [G] indices into the batch
        best, worst = max(members, key=lambda i: rewards[i]), min(members, key=lambda i: rewards[i])
        if rewards[best] - rewards[worst] > min_gap:
            pairs.append((best, worst))
    return torch.tensor(pairs, dtype=torch.long, device=rewards.device).reshape(-1, 2)
