"""Weights between sampler and trainer, by hand on three tokens."""

from __future__ import annotations

import math

import pytest
import torch

from rlvr.algorithms.core.sequences import SequenceIndex
from rlvr.algorithms.losses.corrections import correction_weights
from rlvr.algorithms.losses.policy import effective_sample_size
from rlvr.algorithms.recipe.loss_parts import CorrectionInputs, geo_mask, icepop, off_policy_mask, seq_mis, seq_tis, tis

RHO = torch.tensor([[4.0, 0.25, 1.5, 99.0], [0.2, 1.0, 1.0, 99.0]])  # products 1.5 and 0.2
MASK = torch.tensor([[True, True, True, False]] * 2)


def weights(*corrections, new: torch.Tensor | None = None, advantages: float = 1.0) -> list[list[float]]:
    old = torch.where(MASK, RHO.log(), 0)
    zeros = torch.zeros(2, 4)
    gap = CorrectionInputs(old, zeros, old if new is None else new, torch.full((2, 4), advantages) * MASK)
    return correction_weights(corrections, gap, SequenceIndex(MASK))[:, :3].tolist()


def near(rows: list[list[float]]) -> list:
    return [pytest.approx(row, rel=1e-5) for row in rows]


def test_formulas():
    assert weights(tis(2.0)) == near([[2.0, 0.25, 1.5], [0.2, 1.0, 1.0]])
    assert weights(icepop(0.5, 5.0)) == near([[4.0, 0.0, 1.5], [0.0, 1.0, 1.0]])
    assert weights(seq_tis(1.2)) == near([[1.2] * 3, [0.2] * 3])
    assert weights(seq_mis(0.5, 2.0)) == near([[1.5] * 3, [0.0] * 3])
    mean = 1.5 ** (1 / 3)
    assert weights(geo_mask(0.9, mean + 0.01)) == near([[1.0] * 3, [0.0] * 3])
    assert weights(geo_mask(0.9, mean + 0.01), tis(2.0)) == near([[2.0, 0.25, 1.5], [0.0] * 3])


def test_bounds_are_inclusive():
    """exp(log 0.2) may be off by rounding, so the row's product is compared with room."""
    assert weights(icepop(0.25 - 1e-6, 4.0 + 1e-5))[0] == pytest.approx([4.0, 0.25, 1.5], rel=1e-5)


def test_off_policy_mask_drops_stale_failures_only():
    drifted = torch.tensor(
        [[-0.3, -0.3, -0.3, 0.0], [-0.1, -0.1, -0.3, 0.0]]
    )  # sampler - new = 0.3 and 0.167 on average
    assert weights(off_policy_mask(0.2), new=drifted, advantages=-1.0) == [[0.0] * 3, [1.0] * 3]
    assert weights(off_policy_mask(0.2), new=drifted, advantages=1.0) == [[1.0] * 3, [1.0] * 3]
    assert weights(off_policy_mask(0.2), new=-drifted, advantages=-1.0) == [[1.0] * 3, [1.0] * 3]


def test_effective_sample_size():
    mask = torch.tensor([[True, True, True, True, False]])
    assert effective_sample_size(torch.full((1, 5), 500.0), mask).item() == pytest.approx(1.0)
    one = torch.tensor([[0.0, -800.0, -900.0, -1e4, float("nan")]])
    assert effective_sample_size(one, mask).item() == pytest.approx(0.25)
    w = torch.tensor([[1.0, 2.0, 3.0, 4.0, 1e9]])
    assert effective_sample_size(w.log(), mask).item() == pytest.approx(100 / (4 * 30))
    assert effective_sample_size(w, torch.zeros_like(mask)).item() == 1.0


def test_huge_mismatch_is_no_nan():
    old = torch.full((1, 4), 300.0)
    gap = CorrectionInputs(old, torch.zeros(1, 4), old, torch.ones(1, 4))
    rows = SequenceIndex(torch.ones(1, 4, dtype=torch.bool))
    for correction, expected in ((tis(), 2.0), (seq_tis(), 2.0), (icepop(), 0.0), (seq_mis(), 0.0), (geo_mask(), 0.0)):
        given = correction_weights((correction,), gap, rows)
        assert given.tolist() == [[expected] * 4]
    assert math.isfinite(effective_sample_size(old, rows.mask).item())
