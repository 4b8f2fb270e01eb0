"""The critic: a value head and the clipped value loss of PPO (1707.06347, as in its reference implementation)."""

from __future__ import annotations

from rlvr.algorithms.core.lazy_torch import Numbers, Tensor, torch
from rlvr.algorithms.core.sequences import Denominators, as_mask


class ValueHead(torch.nn.Module):
    """V of a state from the hidden state that predicts the next token: [..., H] -> [...], in fp32.

    Give it the hidden state *before* token t (position t - 1 of the sequence) for the value at token t: shifting this
    by one is the usual bug. It starts at zero, so that the first advantages are the returns.
    """

    def __init__(self, hidden_size: int, bias: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(hidden_size))  # [H]
        self.bias = torch.nn.Parameter(torch.tensor(float(bias)))

    def forward(self, hidden: Tensor) -> Tensor:
        """V(s) = w h + b in the weight's dtype: [..., H] -> [...]."""
        # V(s) = w h + b                                                 [..., H] -> [...]
        value: Tensor = hidden.to(self.weight.dtype) @ self.weight + self.bias
        return value


def value_loss(
    values: Tensor,
    old_values: Numbers,
    targets: Numbers,
    mask: Numbers,
    *,
    clip: float | None = 0.2,
    denominators: Denominators | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """0.5 max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2), mean over tokens.

    values [B, T] with gradient; old_values, targets [B, T] (`critic_targets`: A + V_old, before whitening); mask [B,
    T]: where targets hold, for turns only first tokens. clip=None leaves the plain square. denominators count *this*
    mask over the whole batch (`count_denominators({"mask": mask})`); default: this batch. Returns (loss, stats);
    ValueError when nothing is trained on or something is not finite.
    """
    mask = as_mask(mask, values.device)  # [B, T]
    dtype = torch.promote_types(values.dtype, torch.float32)
    columns = [torch.as_tensor(x, device=values.device) for x in (values, old_values, targets)]
    for name, x in zip(("values", "old_values", "targets"), columns, strict=True):
        if x.shape != mask.shape:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, the mask {tuple(mask.shape)}")
        if not x[mask].isfinite().all():
            raise ValueError(f"{name} holds NaN or infinity at a trained token")
    new, old, target = (torch.where(mask, x, 0).to(dtype) for x in columns)  # [B, T] each
    old, target = old.detach(), target.detach()
    n = int(mask.sum()) if denominators is None else denominators.n_tokens
    if n <= 0:
        raise ValueError("no token has a value target: skip the update of the critic")
    # l_t = max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2   [B, T]  PPO's reference code, 1707.06347
    square = (new - target).square()  # [B, T]
    clipped = torch.zeros_like(mask)
    if clip is not None:
        held = old + (new - old).clamp(-clip, clip)  # [B, T]
        other = (held - target).square()  # [B, T]
        clipped = other > square  # [B, T], where the clip rules
        square = torch.maximum(square, other)
    loss = torch.where(mask, square, 0).sum() / (2 * n)  # [B, T] -> []
    return loss, _stats(loss, new, target, clipped, mask)


@torch.no_grad()
def _stats(loss: Tensor, new: Tensor, target: Tensor, clipped: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """explained_variance: 1 - var(R - V) / var(R), 0 when the returns do not vary."""
    n = mask.sum().clamp(min=1)

    def moments(x: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.where(mask, x, 0).sum() / n  # []
        return mean, torch.where(mask, (x - mean).square(), 0).sum() / n

    variance = moments(target)[1]
    left = moments(target - new)[1]
    return {
        "value_loss": loss.detach(),
        "value_mean": moments(new)[0],
        "return_mean": moments(target)[0],
        "value_clip_frac": torch.where(mask, clipped, False).sum() / n,
        # EV = 1 - var(R - V) / var(R)                                   []  over trained tokens
        "explained_variance": torch.where(variance > 0, 1 - left / variance.clamp(min=1e-30), 0),
        "n_tokens": mask.sum(),
    }
