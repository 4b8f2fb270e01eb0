"""SFT, RFT and VeriFree."""

from __future__ import annotations

import math

import pytest
import torch

from rlvr.algorithms import policy_loss
from rlvr.algorithms.core.sequences import count_denominators
from rlvr.algorithms.filters.selection import keep_correct
from rlvr.algorithms.losses.likelihood import nll_loss, verifree_loss
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make, take


def test_nll_is_the_mean_over_all_tokens():
    batch = make("tools")
    loss, stats = nll_loss(batch["new"], batch)
    torch.testing.assert_close(loss, -batch["new"][batch["mask"]].mean())
    torch.testing.assert_close(stats["nll_mean"], loss.detach())
    denominators = count_denominators(batch)
    parts = [nll_loss(batch["new"][i : i + 4], {"mask": batch["mask"][i : i + 4]}, denominators)[0] for i in (0, 4, 8)]
    torch.testing.assert_close(sum(parts), loss)
    with pytest.raises(ValueError, match="the batch is empty"):
        nll_loss(batch["new"], {"mask": torch.zeros_like(batch["mask"])})
    with pytest.raises(ValueError, match="NaN or infinity"):
        nll_loss(batch["new"] * float("nan"), batch)


def test_rejection_fine_tuning_is_reinforce_with_the_indicator():
    """The same direction: NLL on the correct rows, or REINFORCE with A = 1[correct] on all; only the scale differs."""
    batch = make("ragged")
    rewards = torch.tensor([1.0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0])
    kept = take(batch, keep_correct(rewards).nonzero()[:, 0], leaf=False)
    (sft,) = torch.autograd.grad(nll_loss(kept["new"], kept)[0], batch["new"])
    preset = PRESETS["reinforce"].replace(aggregation="token_mean")
    (reinforce,) = torch.autograd.grad(
        policy_loss(batch["new"], batch | {"advantages": rewards}, preset)[0], batch["new"]
    )
    torch.testing.assert_close(sft * kept["mask"].sum(), reinforce * batch["mask"].sum())


def test_verifree_is_an_unbiased_gradient():
    """Enumerate two thoughts and the answers after them: E[gradient] = gradient of -E_z[pi(y* | z)].

    With pairs (z_1, z_2) drawn independently and leave-one-out baselines, the expectation over all four pairs is exact.
    """
    logits = torch.tensor([0.3, -0.4], dtype=torch.float64, requires_grad=True)
    answers = torch.tensor([0.2, -1.0], dtype=torch.float64, requires_grad=True)  # logit of the right answer after z
    thought = torch.tensor([[True, False]] * 2)

    def rows(z: list[int]) -> torch.Tensor:
        log_z, log_y = logits.log_softmax(0), torch.nn.functional.logsigmoid(answers)
        return torch.stack([torch.stack([log_z[i], log_y[i]]) for i in z])

    total = torch.zeros((), dtype=torch.float64)
    weights = logits.detach().softmax(0)
    for z in ([0, 0], [0, 1], [1, 0], [1, 1]):
        loss, _ = verifree_loss(rows(z), thought, ~thought, [0, 0])
        total = total + weights[z[0]] * weights[z[1]] * loss
    given = torch.autograd.grad(total, [logits, answers])
    objective = -(logits.softmax(0) * answers.sigmoid()).sum()
    for ours, truth in zip(given, torch.autograd.grad(objective, [logits, answers]), strict=True):
        torch.testing.assert_close(ours, truth)


def test_verifree_by_hand_and_refusals():
    new = torch.tensor([[-1.0, -0.5, math.nan], [-2.0, -1.0, -0.25]], dtype=torch.float64)
    thought = torch.tensor([[True, False, False], [True, False, False]])
    answer = torch.tensor([[False, True, False], [False, True, True]])
    loss, stats = verifree_loss(new, thought, answer, [0, 0])
    r = [math.exp(-0.5), math.exp(-1.25)]
    by_hand = (-(r[0] - r[1]) * -1.0 - r[0] * -0.5 - (r[1] - r[0]) * -2.0 - r[1] * -1.25) / 2
    assert loss.item() == pytest.approx(by_hand)
    assert stats["reward_mean"].item() == pytest.approx(sum(r) / 2)
    with pytest.raises(ValueError, match="overlap"):
        verifree_loss(new, thought, answer | thought, [0, 0])
    with pytest.raises(ValueError, match="no reference answer"):
        verifree_loss(new, thought, answer & False, [0, 0])
