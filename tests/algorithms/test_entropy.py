"""Entropy: its value, the tokens it chooses, the controller, clusters of answers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from rlvr.algorithms.losses.entropy import AdaptiveEntropy, answer_clusters, high_entropy_mask, token_entropy


def test_entropy_of_a_distribution():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [50.0, 0.0, 0.0, 0.0], [0.0, 0.0, -math.inf, -math.inf]])
    torch.testing.assert_close(token_entropy(logits), torch.tensor([math.log(4), 0.0, math.log(2)]), atol=1e-5, rtol=0)
    hot = token_entropy(torch.tensor([1.0, 0.0]), temperature=2.0)
    torch.testing.assert_close(hot, token_entropy(torch.tensor([0.5, 0.0])))
    assert token_entropy(logits.bfloat16()).dtype == torch.float32
    with pytest.raises(ValueError, match="must be positive"):
        token_entropy(logits, temperature=0.0)


def test_entropy_has_a_gradient_even_with_forbidden_tokens():
    logits = torch.tensor([1.0, 0.0, -math.inf], requires_grad=True)
    (slope,) = torch.autograd.grad(token_entropy(logits), logits)
    assert slope.isfinite().all()
    assert slope[0] < 0 < slope[1]


def test_high_entropy_tokens():
    entropy = torch.tensor([[0.1, 0.9, 9.0], [0.5, 0.7, 0.2]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert high_entropy_mask(entropy, mask, 0.4).tolist() == [[False, True, False], [False, True, False]]
    assert high_entropy_mask(entropy, mask, 1.0).tolist() == mask.tolist()
    assert not high_entropy_mask(entropy, mask & False).any()
    with pytest.raises(ValueError, match="must lie in"):
        high_entropy_mask(entropy, mask, 0.0)


def test_adaptive_entropy_acts_only_below_its_target():
    control = AdaptiveEntropy(target=0.2, step=0.01)
    assert control.coefficient() == 0.0
    for _ in range(3):
        control.record(0.1)
    assert control.coefficient() == pytest.approx(0.03)
    control.record(0.5)
    assert control.coefficient() == 0.0
    assert control.level == pytest.approx(0.02)
    for _ in range(5):
        control.record(0.5)
    assert control.level == 0.0


def test_answers_cluster_by_a_grader():
    assert answer_clusters(["1/2", "0.5", None, "1/2", None]) == [0, 1, 2, 0, 3]
    assert answer_clusters(["1/2", "0.5", None, "2/3"], same_number) == [0, 0, 1, 2]


def same_number(a: str, b: str) -> bool:
    return Fraction(a) == Fraction(b)
