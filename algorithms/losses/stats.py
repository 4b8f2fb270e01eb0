"""What a policy loss reports beside its value: ratios, clip fractions, the gap to the behaviour policy, KL, entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rlvr.algorithms.core.lazy_torch import Tensor, torch
from rlvr.algorithms.recipe.loss_parts import Clipped, Terms


def policy_stats(
    columns: Mapping[str, Tensor | None], terms: Terms, clipped: Clipped, weight: Tensor | None
) -> dict[str, Tensor]:
    """0-dim, detached, finite; see `merge_stats`. columns: [B, T] log-probs and entropy, None where not given."""
    sequences, mask, new = terms.sequences, terms.sequences.mask, terms.new
    n = mask.sum()  # [] trained tokens
    stats = {
        "n_tokens": n,
        "n_sequences": torch.tensor(sequences.n),
        "n_empty_sequences": (sequences.lengths == 0).sum(),
    }
    stats |= _spread("ratio", terms.log_ratio, mask)
    # k3 of Schulman 2020: E[exp(x) - 1 - x] with x = log r, never negative
    stats["approx_kl"] = _mean(torch.expm1(_bounded(terms.log_ratio)) - terms.log_ratio, mask)
    for side, held in (("low", clipped.low), ("high", clipped.high)):
        if held.shape == mask.shape:
            stats[f"clip_frac_{side}"] = _mean(held.to(new.dtype), mask)
        else:
            stats[f"clip_frac_{side}"] = held.sum() / (sequences.lengths > 0).sum().clamp(min=1)
    behaviour, old, ref = (columns[f"{name}_logprobs"] for name in ("behaviour", "old", "ref"))
    if behaviour is not None:
        log_rho = (new if old is None else old) - behaviour  # [B, T]
        stats |= _spread("behaviour_ratio", log_rho, mask)
        # k1_t = behaviour_t - old_t, k3_t = rho_t - 1 - log rho_t: KL(behaviour || trainer)   [B, T]  Schulman 2020
        stats["behaviour_kl_k1"] = _mean(-log_rho, mask)
        stats["behaviour_kl_k3"] = _mean(torch.expm1(_bounded(log_rho)) - log_rho, mask)
        stats["behaviour_ess"] = effective_sample_size(log_rho, mask)
    if ref is not None:
        # k1_t = new_t - ref_t, k3_t = exp(-k1_t) - 1 + k1_t: KL(policy || ref)        [B, T]  Schulman 2020
        stats["ref_kl_k1"] = _mean(new - ref, mask)
        stats["ref_kl_k3"] = _mean(torch.expm1(_bounded(ref - new)) - (ref - new), mask)
    if (entropy := columns["entropy"]) is not None:
        stats["entropy"] = _mean(entropy.detach(), mask)
    if weight is not None:
        live = mask if weight.shape == mask.shape else sequences.lengths > 0  # [B, T] or [R], as the weight
        stats["correction_mean"] = _mean(weight, live)
        stats["correction_zero_frac"] = _mean((weight == 0).to(new.dtype), live)
    return stats


def effective_sample_size(log_weight: Tensor, mask: Tensor) -> Tensor:
    """(sum w)^2 / (n sum w^2) of the trained tokens' weights: 1 when all are equal, 1/n when one rules.

    Shift-invariant in logs, so it never overflows; 1 when there is no token.
    """
    w = torch.where(mask, log_weight, -torch.inf)  # [B, T]
    # a common factor of the weights cancels: the largest is divided out before exp
    top = w.max() if w.numel() else w.sum()
    w = torch.where(mask, (w - torch.where(top.isfinite(), top, 0)).exp(), 0)
    n = mask.sum()
    # ESS/n = (sum_t w_t)^2 / (n sum_t w_t^2)                        []  Kish 1965
    return torch.where(n > 0, w.sum().square() / (n * w.square().sum()).clamp(min=1e-30), 1.0)


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, 0).sum() / mask.sum().clamp(min=1)


def _bounded(log_ratio: Tensor) -> Tensor:
    """For stats only: far outside what a policy does, but finite after exp and a sum."""
    bound = 60.0 if log_ratio.dtype == torch.float32 else 300.0  # exp(60)^2 is still finite in float32
    return log_ratio.clamp(-bound, bound)


def _spread(name: str, log_ratio: Tensor, mask: Tensor) -> dict[str, Tensor]:
    ratio = _bounded(log_ratio).exp()  # [B, T]
    some = mask.any()
    return {
        f"{name}_mean": torch.where(some, _mean(ratio, mask), 1),
        f"{name}_min": torch.where(some, torch.where(mask, ratio, math.inf).amin(), 1),
        f"{name}_max": torch.where(some, torch.where(mask, ratio, 0).amax(), 1),
    }


def merge_stats(parts: Sequence[Mapping[str, Tensor | float]]) -> dict[str, float]:
    """Stats of a batch from those of its micro-batches, as plain floats.

    Losses and counts (`n_...`) add up, `..._min` and `..._max` take the extreme, everything else is averaged with the
    number of trained tokens (or pairs) as weight (`behaviour_ess` exactly, from its moments).
    """
    floats = [{key: float(value) for key, value in part.items()} for part in parts]
    tokens = [part.get("n_tokens", part.get("n_pairs", 1.0)) for part in floats]
    merged: dict[str, float] = {}
    for key in dict.fromkeys(key for part in floats for key in part):
        pairs = [(part[key], n) for part, n in zip(floats, tokens, strict=True) if key in part]
        live = [(value, n) for value, n in pairs if n > 0] or pairs  # a micro-batch without tokens has no mean
        values = [value for value, _ in live]
        if key.startswith("n_") or key.endswith("loss"):
            merged[key] = sum(value for value, _ in pairs)
        elif key.endswith("_min"):
            merged[key] = min(values)
        elif key.endswith("_max"):
            merged[key] = max(values)
        else:
            merged[key] = sum(value * n for value, n in live) / max(sum(n for _, n in live), 1.0)
    if "behaviour_ess" in merged:
        merged["behaviour_ess"] = _merged_ess(floats, merged)
    return merged


def _merged_ess(parts: list[dict[str, float]], merged: Mapping[str, float]) -> float:
    live = [p for p in parts if p.get("n_tokens", 0) > 0 and "behaviour_ess" in p]
    if not live:
        return 1.0
    # sum w = mean n and sum w^2 = mean^2 n / ess, so the moments of the parts give the ESS of the whole
    first = sum(p["behaviour_ratio_mean"] * p["n_tokens"] for p in live)
    second = sum(p["behaviour_ratio_mean"] ** 2 * p["n_tokens"] / p["behaviour_ess"] for p in live)
    return first**2 / (merged["n_tokens"] * second) if second > 0 else 1.0
