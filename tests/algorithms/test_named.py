"""The named functions are the presets, with the flags of a loss function."""

from __future__ import annotations

import inspect

import pytest
import torch

import rlvr.algorithms
from rlvr.algorithms import policy_loss
from rlvr.algorithms.losses import named
from rlvr.algorithms.recipe.presets import PRESETS

from .cases import make


def call(name: str, batch: dict, **more):
    known = {
        "old_log_probs": batch["old_logprobs"],
        "ref_log_probs": batch["ref_logprobs"],
        "group": batch["group"],
        "max_length": 9,
        "covariant": batch["covariant"],
    }
    function = getattr(rlvr.algorithms, f"{name}_loss")
    return function(batch["new"], batch["behaviour_logprobs"], batch["advantages"], batch["mask"], **(known | more))


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_has_its_function(name: str):
    batch = make("tools")
    loss, stats = call(name, batch)
    expected, _ = policy_loss(batch["new"], batch, PRESETS[name])
    assert torch.equal(loss, expected)
    assert stats["loss"] == loss
    document = inspect.getdoc(getattr(named, f"{name}_loss"))
    assert PRESETS[name].formula in document
    assert PRESETS[name].arxiv in document
    assert PRESETS[name].note in document


def test_flags_are_choices_of_the_preset():
    batch = make("tools")
    wide = PRESETS["grpo"].replace(clip_low=0.1, clip_high=0.4, kl_coef=0.0, aggregation="token_mean")
    loss, _ = call("grpo", batch, epsilon_lower=0.1, epsilon_upper=0.4, beta=0.0, loss_reduction="token")
    assert torch.equal(loss, policy_loss(batch["new"], batch, wide)[0])
    loss, _ = call("dapo", batch, loss_reduction="sample", beta=0.1)
    rows = PRESETS["dapo"].replace(aggregation="seq_mean_token_mean", kl="k3", kl_coef=0.1)
    assert torch.equal(loss, policy_loss(batch["new"], batch, rows)[0])
    loss, _ = call("cispo", batch, ratio_max=2.0)
    assert torch.equal(loss, policy_loss(batch["new"], batch, PRESETS["cispo"].replace(ratio_max=2.0))[0])


def test_without_old_the_ratio_is_to_the_generator():
    batch = make("tools")
    loss, _ = call("dapo", batch, old_log_probs=None)
    assert torch.equal(
        loss, policy_loss(batch["new"], batch | {"old_logprobs": batch["behaviour_logprobs"]}, PRESETS["dapo"])[0]
    )


def test_traps():
    batch = make("tools")
    with pytest.raises(ValueError, match="applied twice"):
        call("tis", batch, old_log_probs=None)
    with pytest.raises(ValueError, match="needs 'ref_logprobs'"):
        call("grpo", batch, ref_log_probs=None)
    assert call("grpo", batch, ref_log_probs=None, beta=0.0)[0].isfinite()
    with pytest.raises(ValueError, match="absolute cap is ratio_max"):
        call("cispo", batch, epsilon_upper=0.28)
    with pytest.raises(ValueError, match="see epsilon_lower"):
        call("ppo", batch, ratio_max=5.0)
    with pytest.raises(ValueError, match="it is not GSPO"):
        call("gspo", batch, loss_reduction="token")
    with pytest.raises(TypeError, match="unexpected keyword"):
        call("grpo", batch, epsilon_uper=0.28)
