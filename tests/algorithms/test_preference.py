"""Pair losses by hand, their gradients, and the pairs an online run makes."""

from __future__ import annotations

import math

import pytest
import torch

from rlvr.algorithms.losses.preference import best_worst_pairs, dpo_loss, ln_dpo_loss, simpo_loss

MASK = torch.tensor([[False, True, True], [True, False, False], [True, True, True], [True, True, False]])
NAN = float("nan")
NEW = torch.tensor([[NAN, -1.0, -2.0], [-0.5, NAN, NAN], [-1.0, -1.0, -1.0], [-0.1, -0.3, NAN]], dtype=torch.float64)
REF = torch.tensor([[NAN, -1.5, -1.0], [-1.0, NAN, NAN], [-2.0, -1.0, -0.5], [-0.2, -0.1, NAN]], dtype=torch.float64)
PAIRS = [[0, 1], [3, 2]]


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def batch(**more) -> dict:
    return {"mask": MASK, "ref_logprobs": REF, "pairs": PAIRS} | more


def test_dpo_by_hand():
    d = [-0.5, 0.5, 0.5, -0.1]
    margins = [0.1 * (d[0] - d[1]), 0.1 * (d[3] - d[2])]
    new = NEW.clone().requires_grad_()
    loss, stats = dpo_loss(new, batch())
    assert loss.item() == pytest.approx(-sum(map(log_sigmoid, margins)) / 2)
    (slope,) = torch.autograd.grad(loss, new)
    pull = [0.1 / (1 + math.exp(m)) / 2 for m in margins]
    for row, value in ((0, -pull[0]), (1, pull[0]), (3, -pull[1]), (2, pull[1])):
        torch.testing.assert_close(
            slope[row][MASK[row]], torch.full((int(MASK[row].sum()),), value, dtype=torch.float64)
        )
    assert (slope[~MASK] == 0).all()
    assert stats["preferred_frac"] == 0.0
    smooth, _ = dpo_loss(new, batch(), label_smoothing=0.1)
    expected = -sum(0.9 * log_sigmoid(m) + 0.1 * log_sigmoid(-m) for m in margins) / 2
    assert smooth.item() == pytest.approx(expected)


def test_length_normalised_dpo_and_simpo_by_hand():
    d = [-0.25, 0.5, 0.5 / 3, -0.05]
    margins = [5 * (d[0] - d[1]), 5 * (d[3] - d[2])]
    assert ln_dpo_loss(NEW, batch())[0].item() == pytest.approx(-sum(map(log_sigmoid, margins)) / 2)
    mean = [-1.5, -0.5, -1.0, -0.2]
    margins = [2 * (mean[0] - mean[1]) - 1, 2 * (mean[3] - mean[2]) - 1]
    assert simpo_loss(NEW, batch(ref_logprobs=None))[0].item() == pytest.approx(-sum(map(log_sigmoid, margins)) / 2)


def test_micro_batches_of_pairs_add_up():
    whole, _ = dpo_loss(NEW, batch())
    parts = [dpo_loss(NEW, batch(pairs=[pair]), n_pairs=2)[0] for pair in PAIRS]
    torch.testing.assert_close(sum(parts), whole)


def test_refusals():
    with pytest.raises(KeyError, match="needs 'ref_logprobs'"):
        dpo_loss(NEW, batch(ref_logprobs=None))
    with pytest.raises(ValueError, match="at least one pair"):
        dpo_loss(NEW, batch(pairs=torch.zeros(0, 2, dtype=torch.long)))
    with pytest.raises(ValueError, match="new must be finite"):
        simpo_loss(NEW, batch(mask=torch.ones_like(MASK)))
    with pytest.raises(ValueError, match="without trained tokens"):
        dpo_loss(NEW, batch(mask=MASK & torch.tensor([[True], [True], [True], [False]])))
    with pytest.raises(ValueError, match="label_smoothing"):
        dpo_loss(NEW, batch(), label_smoothing=0.5)


def test_pairs_of_groups():
    rewards, group = [0.0, 1.0, 0.5, 0.1, 0.1, 1.0, 0.0], [3, 3, 3, 8, 8, 5, 5]
    assert best_worst_pairs(rewards, group).tolist() == [[1, 0], [5, 6]]
    assert best_worst_pairs(rewards, group, min_gap=1.0).shape == (0, 2)
    assert best_worst_pairs([0.1] * 3, [0] * 3).shape == (0, 2)
