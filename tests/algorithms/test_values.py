"""The critic's loss and head."""

from __future__ import annotations

import pytest
import torch

from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.losses.values import ValueHead, value_loss

MASK = torch.tensor([[True, True, False], [True, False, True]])
NEW = torch.tensor([[1.0, 0.0, 9.0], [0.5, 9.0, -1.0]], dtype=torch.float64)
OLD = torch.tensor([[0.5, 0.1, float("nan")], [0.5, 9.0, 0.0]], dtype=torch.float64)
TARGET = torch.tensor([[2.0, 1.0, float("nan")], [0.0, 9.0, 0.5]], dtype=torch.float64)


def test_clipped_value_loss_by_hand():
    """Held at V_old +- 0.2: 0.7, 0 (inside), 0.5, -0.2. Squares: max(1, 1.69), 1, 0.25, max(2.25, 0.49)."""
    new = NEW.clone().requires_grad_()
    loss, stats = value_loss(new, OLD, TARGET, MASK)
    assert loss.item() == pytest.approx((1.69 + 1 + 0.25 + 2.25) / 8)
    (slope,) = torch.autograd.grad(loss, new)
    expected = torch.tensor([[0.0, -1.0, 0.0], [0.5, 0.0, -1.5]], dtype=torch.float64) / 4
    torch.testing.assert_close(slope, expected)
    assert stats["value_clip_frac"] == 0.25
    plain, _ = value_loss(new, OLD, TARGET, MASK, clip=None)
    assert plain.item() == pytest.approx((1 + 1 + 0.25 + 2.25) / 8)


def test_micro_batches_add_up():
    denominators = count_denominators({"mask": MASK})
    whole, _ = value_loss(NEW, OLD, TARGET, MASK)
    parts = []
    for i in (0, 1):
        row = slice(i, i + 1)
        parts.append(value_loss(NEW[row], OLD[row], TARGET[row], MASK[row], denominators=denominators)[0])
    torch.testing.assert_close(sum(parts), whole)


def test_explained_variance_and_refusals():
    _, stats = value_loss(torch.where(MASK, TARGET, 0), OLD, TARGET, MASK)
    assert stats["explained_variance"] == 1.0
    constant = torch.zeros(2, 3)
    assert value_loss(constant, constant, constant, MASK)[1]["explained_variance"] == 0.0
    with pytest.raises(ValueError, match="no token has a value target"):
        value_loss(NEW, OLD, TARGET, torch.zeros_like(MASK))
    with pytest.raises(ValueError, match="old_values holds NaN"):
        value_loss(NEW, OLD, TARGET, torch.ones_like(MASK))
    with pytest.raises(ValueError, match=r"targets has shape \(2, 2\)"):
        value_loss(NEW, OLD, TARGET[:, :2], MASK)


def test_the_head_starts_at_zero_and_learns_in_float32():
    head = ValueHead(8)
    hidden = torch.randn(2, 3, 8, dtype=torch.bfloat16)
    assert torch.equal(head(hidden), torch.zeros(2, 3))
    target = hidden.float().sum(-1)
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=50)

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss, _ = value_loss(head(hidden), torch.zeros(2, 3), target, torch.ones(2, 3, dtype=torch.bool), clip=None)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert closure().item() < 1e-4
