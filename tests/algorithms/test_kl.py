"""What a KL term does to the gradient, by enumerating a policy over three tokens: no sampling, no noise."""

from __future__ import annotations

import pytest
import torch

from rlvr.algorithms.losses.kl import kl_estimate, kl_loss, reward_kl

LOGITS = torch.tensor([0.4, -1.1, 0.2], dtype=torch.float64)
REF = torch.tensor([-0.3, 0.5, 0.1], dtype=torch.float64).log_softmax(0)
TOKENS = torch.ones(1, 3, dtype=torch.bool)  # "positions" 0..2 are the three tokens that could be drawn


def gradient_of(divergence) -> torch.Tensor:
    logits = LOGITS.clone().requires_grad_()
    return torch.autograd.grad(divergence(logits.log_softmax(0)), logits)[0]


REVERSE = gradient_of(lambda log_p: (log_p.exp() * (log_p - REF)).sum())  # KL(policy || ref)
FORWARD = gradient_of(lambda log_p: (REF.exp() * (REF - log_p)).sum())  # KL(ref || policy)


def expected_gradient(estimator: str) -> torch.Tensor:
    """E over the policy of the gradient of the loss on a drawn token, weights of the expectation held fixed."""
    logits = LOGITS.clone().requires_grad_()
    log_p = logits.log_softmax(0)
    log_ratio = (log_p - log_p.detach())[None]
    if estimator == "k1":
        terms = kl_estimate(log_p[None], REF[None], TOKENS, "k1")
    else:
        terms = kl_loss(log_p[None], REF[None], TOKENS, estimator, log_ratio)
    return torch.autograd.grad((log_p.detach().exp() * terms[0]).sum(), logits)[0]


@pytest.mark.parametrize(
    ("estimator", "truth"),
    [("k1", torch.zeros(3)), ("k2", REVERSE), ("k3", FORWARD), ("k3_unbiased", REVERSE)],
    ids=["k1: nothing", "k2: reverse", "k3: forward", "ratio k3: reverse"],
)
def test_expected_gradient_in_the_loss(estimator: str, truth: torch.Tensor):
    torch.testing.assert_close(expected_gradient(estimator), truth.double(), rtol=0, atol=1e-15)


def test_k1_in_the_reward_gives_the_reverse_gradient():
    logits = LOGITS.clone().requires_grad_()
    log_p = logits.log_softmax(0)
    reward = reward_kl(log_p[None], REF[None], TOKENS, coef=1.0)
    assert not reward.requires_grad
    loss = -(log_p.detach().exp() * reward[0] * log_p).sum()  # REINFORCE with that reward
    torch.testing.assert_close(torch.autograd.grad(loss, logits)[0], REVERSE, rtol=0, atol=1e-15)


def test_values_estimate_the_divergence():
    log_p = LOGITS.log_softmax(0)
    truth = (log_p.exp() * (log_p - REF)).sum()
    for estimator in ("k1", "k3"):
        terms = kl_estimate(log_p[None], REF[None], TOKENS, estimator)[0]
        torch.testing.assert_close((log_p.exp() * terms).sum(), truth)
    assert (kl_estimate(log_p[None], REF[None], TOKENS, "k3") >= 0).all()
    small = REF + 1e-3 * torch.tensor([1.0, -2.0, 0.5])
    small = small.log_softmax(0)
    k2 = (small.exp() * kl_estimate(small[None], REF[None], TOKENS, "k2")[0]).sum()
    torch.testing.assert_close(k2, (small.exp() * (small - REF)).sum(), rtol=1e-2, atol=0)


def test_k3_keeps_its_gradient_where_the_policy_has_left_the_reference():
    """A clamp at 10 would return 10 and no gradient here."""
    new = torch.tensor([[-20.0]], dtype=torch.float64, requires_grad=True)
    term = kl_loss(new, torch.tensor([[-1.0]], dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool), "k3").sum()
    (slope,) = torch.autograd.grad(term, new)
    assert term.item() == pytest.approx(178482300.96 - 1 - 19, rel=1e-9)
    assert slope.item() == pytest.approx(1 - 178482300.96, rel=1e-9)


def test_masked_positions_and_the_clamped_reward():
    new = torch.tensor([[-1.0, float("nan"), -3.0]], requires_grad=True)
    ref = torch.tensor([[-2.0, float("inf"), -1.0]])
    mask = torch.tensor([[True, False, True]])
    for estimator in ("k2", "k3"):
        (slope,) = torch.autograd.grad(kl_loss(new, ref, mask, estimator).sum(), new)
        assert slope.isfinite().all()
        assert slope[0, 1] == 0
    torch.testing.assert_close(reward_kl(new, ref, mask, 0.5), torch.tensor([[-0.5, 0.0, 1.0]]))
    torch.testing.assert_close(reward_kl(new, ref, mask, 0.5, clamp_min=0.0), torch.tensor([[-0.5, 0.0, 0.0]]))


def test_traps_are_refused():
    x, mask = torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool)
    with pytest.raises(ValueError, match="expected gradient of zero"):
        kl_loss(x, x, mask, "k1")
    with pytest.raises(ValueError, match="needs log_ratio"):
        kl_loss(x, x, mask, "k3_unbiased")
    with pytest.raises(ValueError, match="allowed: k1, k2, k3"):
        kl_estimate(x, x, mask, "k4")
